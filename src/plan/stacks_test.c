/* stacks_test.c - a recorded job's changes as a space: which options there are, what
 * a state's stack is, and that its cost is what a replay of the stack says. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include <taut/plan.h>

#include "plan/stacks.h"
#include "tests/support/alloc_fail.h"
#include "whatif/ddp_job.h"

/* The order of the sites. */
enum { WORKERS, LOADER, CACHE, HEAP, RECOMPUTE, PARTS, COMPILE, AMP, GRAPHS, OPTIMIZER, WHO, BUCKET,
	PIECE, CREDIT, WAY, ROWS, COMPRESS, SITES, CUTS = 3, ALL = SITES + CUTS };

static const struct ddp_job usual = {
	.ranks = 2, .steps = 4, .n_gradients = 4, .floats = 250000,
	.forward_us = 10000, .compute_us = 5000, .optimizer_us = 2000,
	.bucket_floats = 500000, .us_by_float = 0.04, .layers = 1,
};

static const struct taut_plan_options lossy = { .allow = TAUT_NUMERICS_LOSSY };

static struct tauti_stacks *create(
	const struct told *t, const struct taut_plan_options *options)
{
	struct tauti_stacks *s;
	struct taut_error err;

	if (tauti_stacks_create(t->graph, options, &s, &err))
		fail_msg("%s", err.message);
	return s;
}

static struct tauti_cost cost_of(
	struct tauti_stacks *s, const struct tauti_stack *stack)
{
	struct tauti_cost c;
	struct taut_error err;

	if (tauti_stacks_cost(s, stack, &c, &err))
		fail_msg("%s", err.message);
	return c;
}

static void stack_at(const struct tauti_stacks *s, const uint8_t options[ALL],
	struct tauti_stack *ret)
{
	struct taut_error err;

	if (tauti_stacks_at(s, options, ret, &err))
		fail_msg("%s", err.message);
}

/* --- stacks ---------------------------------------------------------------------------- */

/* said: the changes with a space between them. */
static void expect_stack(const struct tauti_stacks *s,
	const uint8_t options[ALL], const char *said)
{
	struct tauti_stack stack;
	char text[1024] = "";

	stack_at(s, options, &stack);
	for (size_t i = 0; i < stack.n; i++) {
		strcat(text, i ? " " : "");
		strcat(text, stack.changes[i]);
	}
	assert_string_equal(text, said);
}

/* In the place of 8 bits each way to have 16. */
static void check_milder(const struct tauti_stacks *s)
{
	uint8_t blocks[ALL] = { [WHO] = 1, [COMPRESS] = 3 };
	uint8_t half[ALL] = { [WHO] = 1, [COMPRESS] = 2 };

	assert_false(tauti_stacks_milder(s, 2, blocks));
	assert_true(tauti_stacks_milder(s, 0, blocks));
	assert_int_equal(blocks[COMPRESS], 1);
	blocks[COMPRESS] = 3;
	assert_true(tauti_stacks_milder(s, 1, blocks));
	assert_int_equal(blocks[COMPRESS], 2);
	assert_false(tauti_stacks_milder(s, 0, half));
}

static void test_stacks(void **state)
{
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &lossy);
	const struct tauti_space *space = tauti_stacks_space(s);

	(void)state;
	assert_int_equal(space->n_sites, ALL);
	assert_int_equal(space->n_options[WHO], 2);
	assert_int_equal(space->n_options[COMPRESS], 4);
	expect_stack(s, (const uint8_t[ALL]){ 0 }, "");
	expect_stack(s, (const uint8_t[ALL]){ [COMPRESS] = 1 },
		"compress=fp16");
	expect_stack(s, (const uint8_t[ALL]){ [WHO] = 1 }, "bucket=1MiB "
		"algorithm=flat schedule=priority,partition=1MiB,credit=4MiB,"
		"barrier=cross,by=taut");
	expect_stack(s, (const uint8_t[ALL]){ [WHO] = 1, [PIECE] = 2,
		[CREDIT] = 4, [WAY] = 1, [COMPRESS] = 2 }, "bucket=1MiB "
		"compress=bf16,by=taut algorithm=ring schedule=priority,"
		"partition=256KiB,credit=2MiB,barrier=cross,by=taut");
	/* which frameworks have no hook for */
	expect_stack(s, (const uint8_t[ALL]){ [COMPRESS] = 3 }, "");
	expect_stack(s, (const uint8_t[ALL]){ [WHO] = 1, [COMPRESS] = 3 },
		"bucket=1MiB compress=mxint8,by=taut algorithm=flat "
		"schedule=priority,partition=1MiB,credit=4MiB,barrier=cross,"
		"by=taut");
	check_milder(s);
	/* without Taut's exchange its parts are nothing */
	expect_stack(s, (const uint8_t[ALL]){ [PIECE] = 3, [CREDIT] = 3,
		[WAY] = 1 }, "");
	tauti_stacks_destroy(s);
	forget(&t);
}

/* On a slow link a default piece, and more so a default credit, keeps what is wanted first
 * waiting for long: each size of pieces is looked at with the least credit for it. */
static void test_seeds(void **state)
{
	static const char *const schedules[] = { "partition=1MiB,credit=4MiB",
		"partition=1MiB,credit=1MiB", "partition=128KiB,credit=256KiB",
		"partition=256KiB,credit=256KiB",
		"partition=512KiB,credit=512KiB", "partition=2MiB,credit=2MiB",
		"partition=4MiB,credit=8MiB", "partition=8MiB,credit=8MiB" };
	enum { N_SCHEDULES = sizeof schedules / sizeof *schedules };
	const struct taut_plan_options ddp = { .allow = TAUT_NUMERICS_LOSSY,
		.not_these = (const char *const[]){ "schedule" }, .n_not_these = 1 };
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &lossy);
	uint8_t options[ALL] = { 0 };

	(void)state;
	assert_true(tauti_stacks_seed(s, 0, options));
	assert_int_equal(options[WHO], 0);
	for (uint32_t i = 0; i < N_SCHEDULES; i++) {
		struct tauti_stack stack;

		assert_true(tauti_stacks_seed(s, 1 + i, options));
		stack_at(s, options, &stack);
		assert_non_null(strstr(stack.changes[stack.n - 1], schedules[i]));
	}
	assert_false(tauti_stacks_seed(s, 1 + N_SCHEDULES, options));
	tauti_stacks_destroy(s);
	s = create(&t, &ddp);
	/* mxint8 is of Taut's exchange alone */
	assert_int_equal(tauti_stacks_space(s)->n_options[COMPRESS], 3);
	assert_true(tauti_stacks_seed(s, 0, options));
	assert_false(tauti_stacks_seed(s, 1, options));
	tauti_stacks_destroy(s);
	forget(&t);
}

/* 1 MB of each gradient; as recorded two and two, by 1 MiB as well, and by 256 KiB each
 * alone. */
static void test_groups(void **state)
{
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &lossy);
	const struct tauti_space *space = tauti_stacks_space(s);
	uint8_t options[ALL] = { [SITES + 1] = 1, [COMPRESS] = 1 };

	(void)state;
	for (uint32_t i = 0; i < ALL; i++)
		assert_int_equal(space->coarse[i], i < SITES);
	assert_string_equal(tauti_stacks_site_name(s, SITES), "bucket");
	assert_true(tauti_stacks_alone(s, SITES) == TAUTI_NEVER);
	expect_stack(s, options, "bucket=4000000+4000000 compress=fp16");
	options[SITES + 2] = 1;
	expect_stack(s, options, "bucket=3000000+1000000 compress=fp16");
	options[BUCKET] = 1;
	expect_stack(s, options, "bucket=1000000+3000000 compress=fp16");
	options[BUCKET] = 0;
	options[COMPRESS] = 0;
	options[WHO] = 1;
	expect_stack(s, options, "bucket=3000000+1000000 algorithm=flat "
		"schedule=priority,partition=1MiB,credit=4MiB,barrier=cross,by=taut");
	tauti_stacks_plain(s, options);
	expect_stack(s, options, "bucket=1MiB algorithm=flat "
		"schedule=priority,partition=1MiB,credit=4MiB,barrier=cross,by=taut");
	tauti_stacks_destroy(s);
	forget(&t);
}

/* Every stack of changes that there is can be told a job. */
static void test_every_state_can_be_run(void **state)
{
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &lossy);
	const struct tauti_space *space = tauti_stacks_space(s);
	uint8_t at[ALL] = { 0 };
	uint32_t site = 0, n = 0;

	(void)state;
	for (; site < SITES; n++) {
		struct taut_arena *arena = taut_arena_create();
		struct taut_decision decisions[SITES];
		struct taut_plan plan = { .job = *tauti_stacks_job(s),
			.decisions = decisions };
		const struct taut_plan_setting *settings;
		struct tauti_stack stack;
		struct taut_error err;
		uint32_t n_settings;

		stack_at(s, at, &stack);
		for (; plan.n_decisions < stack.n; plan.n_decisions++)
			decisions[plan.n_decisions] = (struct taut_decision){
				stack.changes[plan.n_decisions], 0, -1 };
		if (taut_plan_settings(&plan, arena, &settings, &n_settings,
			&err))
			fail_msg("%s", err.message);
		taut_arena_destroy(arena);
		for (site = 0; site < SITES &&
			++at[site] == space->n_options[site]; site++)
			at[site] = 0;
	}
	assert_true(n > 1000);
	tauti_stacks_destroy(s);
	forget(&t);
}

/* --- costs ------------------------------------------------------------------------------- */

static void test_cost_is_the_replay(void **state)
{
	static const uint8_t states[][ALL] = { { 0 }, { [COMPRESS] = 1 },
		{ [BUCKET] = 3 }, { [WHO] = 1 }, { [WHO] = 1, [BUCKET] = 5,
		[PIECE] = 2, [CREDIT] = 3, [WAY] = 1, [COMPRESS] = 2 },
		{ [SITES] = 1 }, { [WHO] = 1, [SITES + 1] = 1 } };
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &lossy);
	const struct tauti_space *space = tauti_stacks_space(s);

	(void)state;
	for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
		struct taut_prediction *p;
		struct tauti_stack stack;
		struct tauti_cost c;
		struct taut_error err;

		for (uint32_t site = 0; site < ALL; site++)
			assert_int_equal(space->ops->set(space->self, site,
				states[i][site], &err), TAUT_OK);
		assert_int_equal(
			space->ops->cost(space->self, &c, &err), TAUT_OK);
		stack_at(s, states[i], &stack);
		if (taut_predict(t.graph, stack.changes, stack.n, NULL, &p,
			&err))
			fail_msg("%s", err.message);
		assert_int_equal(c.step_ns, p->after_ns);
		assert_true(c.network_bytes > 0);
		assert_int_equal(c.memory_bytes, -1);
		taut_prediction_destroy(p);
	}
	tauti_stacks_destroy(s);
	forget(&t);
}

/* What a kept heap gives is known where page faults were counted. */
static void test_heap(void **state)
{
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &lossy);
	struct tauti_stack stack;
	uint8_t options[ALL] = { [HEAP] = 1 };

	(void)state;
	assert_int_equal(tauti_stacks_space(s)->n_options[HEAP], 1);
	tauti_stacks_destroy(s);
	for (uint32_t r = 0; r < t.run->n_traces; r++)
		wt_faults(t.run, r, 100, 100, 1000);
	s = create(&t, &lossy);
	assert_int_equal(tauti_stacks_space(s)->n_options[HEAP], 2);
	expect_stack(s, options, "heap=keep");
	stack_at(s, options, &stack);
	assert_true(cost_of(s, &stack).step_ns <
		cost_of(s, &(struct tauti_stack) { .n = 0 }).step_ns);
	tauti_stacks_destroy(s);
	forget(&t);
}

/* Modules of which the recording tells what compiling them gives; not beside their being
 * made again, which no job can be given. */
static void test_compiled(void **state)
{
	static const struct taut_fact facts[] = {
		{ "compile.blocks.*", "0.5 0.5 0.5 0.5 0.5 0.5" },
		{ "compile_not.head", "it is a list" },
		{ "compile.gone", "0.1 0.1 0.1 0.1 0.1 0.1" },
	};
	static const char *const not_these[] = { "compile" };
	const struct taut_plan_options others = { .allow = TAUT_NUMERICS_LOSSY,
		.not_these = not_these, .n_not_these = 1 };
	const struct taut_plan_options exact = { .allow = TAUT_NUMERICS_EXACT };
	struct ddp_job job = usual;
	struct told t;
	struct tauti_stacks *s;
	struct tauti_stack stack;
	uint8_t options[ALL] = { [COMPILE] = 1 };

	(void)state;
	job.block_bytes = 1000;
	t = tell(&job);
	wt_facts(t.run, facts, 3);
	s = create(&t, &lossy);
	assert_int_equal(tauti_stacks_space(s)->n_options[COMPILE], 2);
	expect_stack(s, options, "compile=nn.Module: blocks.*");
	stack_at(s, options, &stack);
	assert_true(cost_of(s, &stack).step_ns <
		cost_of(s, &(struct tauti_stack) { .n = 0 }).step_ns);
	options[RECOMPUTE] = 1;
	stack_at(s, options, &stack);
	assert_int_equal(stack.n, 2);
	assert_true(cost_of(s, &stack).step_ns == TAUTI_NEVER);
	tauti_stacks_destroy(s);
	s = create(&t, &others);
	assert_int_equal(tauti_stacks_space(s)->n_options[COMPILE], 1);
	tauti_stacks_destroy(s);
	s = create(&t, &exact);
	assert_int_equal(tauti_stacks_space(s)->n_options[COMPILE], 1);
	tauti_stacks_destroy(s);
	forget(&t);
}

/* Offered where the recording tells what is looked up, and a part of Taut's exchange. */
static void test_rows(void **state)
{
	const struct taut_fact facts[] = { { "framework", "pytorch" },
		{ "embedding.words.weight", "1000 1000 2 0 5 7" } };
	const struct taut_plan_options exact = { .allow = TAUT_NUMERICS_EXACT };
	struct ddp_job job = usual;
	struct told t;
	struct tauti_stacks *s;
	const char *const *notes;
	uint32_t n, said = 0;

	(void)state;
	job.looks_up = 1;
	t = tell(&job);
	for (uint32_t r = 0; r < 2; r++)
		wt_facts_of(t.run, r, facts, 2);
	s = create(&t, &lossy);
	assert_int_equal(tauti_stacks_space(s)->n_options[ROWS], 2);
	expect_stack(s, (const uint8_t[ALL]){ [ROWS] = 1 }, "");
	expect_stack(s, (const uint8_t[ALL]){ [WHO] = 1, [ROWS] = 1,
		[COMPRESS] = 1 }, "bucket=1MiB rows compress=fp16,by=taut "
		"algorithm=flat schedule=priority,partition=1MiB,credit=4MiB,"
		"barrier=cross,by=taut");
	tauti_stacks_destroy(s);
	s = create(&t, &exact);
	assert_int_equal(tauti_stacks_space(s)->n_options[ROWS], 1);
	tauti_stacks_destroy(s);
	/* What does not say whose gradient it is gives no option, and a line. */
	job.looks_up = 0;
	forget(&t);
	t = tell(&job);
	for (uint32_t r = 0; r < 2; r++)
		wt_facts_of(t.run, r, facts, 2);
	s = create(&t, &lossy);
	assert_int_equal(tauti_stacks_space(s)->n_options[ROWS], 1);
	notes = tauti_stacks_notes(s, &n);
	for (uint32_t i = 0; i < n; i++)
		said += !strncmp(notes[i], "rows: ", 6);
	assert_int_equal(said, 1);
	tauti_stacks_destroy(s);
	forget(&t);
}

/* Asking twice replays once, also many stacks ago. */
static void test_remembered(void **state)
{
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &lossy);
	struct tauti_stack stack = { { NULL }, 1 };
	int64_t first[400];
	char texts[400][32];
	uint64_t replayed;

	(void)state;
	for (int i = 0; i < 400; i++) {
		snprintf(texts[i], sizeof texts[i], "bucket=%dKB", 100 + 7 * i);
		stack.changes[0] = texts[i];
		first[i] = cost_of(s, &stack).step_ns;
	}
	replayed = tauti_stacks_replayed(s);
	assert_true(replayed >= 400);
	for (int i = 400; i-- > 0;) {
		stack.changes[0] = texts[i];
		assert_int_equal(cost_of(s, &stack).step_ns, first[i]);
	}
	assert_int_equal(tauti_stacks_replayed(s), replayed);
	tauti_stacks_destroy(s);
	forget(&t);
}

static void test_refused_is_never(void **state)
{
	const struct tauti_stack stack = { { "workers=2", NULL }, 1 };
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &lossy);
	struct tauti_cost c = cost_of(s, &stack);

	(void)state;
	assert_true(c.step_ns == TAUTI_NEVER);
	assert_int_equal(c.memory_bytes, -1);
	tauti_stacks_destroy(s);
	forget(&t);
}

/* --- which options there are --------------------------------------------------------------- */

static void expect_note(const struct tauti_stacks *s, const char *begins,
	bool is_there)
{
	uint32_t n;
	const char *const *notes = tauti_stacks_notes(s, &n);
	bool found = false;

	for (uint32_t i = 0; i < n; i++)
		found |= !strncmp(notes[i], begins, strlen(begins));
	if (found != is_there)
		fail_msg("a note '%s' is %sthere", begins,
			is_there ? "not " : "");
}

static void test_refused_is_no_option(void **state)
{
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &lossy);

	(void)state;
	assert_int_equal(tauti_stacks_space(s)->n_options[WORKERS], 1);
	assert_true(tauti_stacks_alone(s, WORKERS) == TAUTI_NEVER);
	expect_note(s, "workers: ", true);
	expect_note(s, "bucket: ", false);
	assert_string_equal(tauti_stacks_site_name(s, WORKERS), "workers");
	tauti_stacks_destroy(s);
	forget(&t);
}

/* Of two ranks, sums have one order: all but fewer bits is exact. */
static void test_classes(void **state)
{
	struct taut_plan_options options = { .allow = TAUT_NUMERICS_EXACT };
	struct ddp_job job = usual;
	struct told t = tell(&job);
	struct tauti_stacks *s = create(&t, &options);
	const uint8_t *n = tauti_stacks_space(s)->n_options;

	(void)state;
	assert_int_equal(n[COMPRESS], 1);
	assert_int_equal(n[OPTIMIZER], 1);
	assert_int_equal(n[AMP], 1);
	assert_int_equal(n[WHO], 2);
	assert_true(n[BUCKET] > 1);
	tauti_stacks_destroy(s);
	forget(&t);
	job.ranks = 3;
	t = tell(&job);
	s = create(&t, &options);
	n = tauti_stacks_space(s)->n_options;
	for (int site = 0; site < SITES; site++)
		assert_int_equal(n[site], 1);
	tauti_stacks_destroy(s);
	options.allow = TAUT_NUMERICS_REORDERED;
	s = create(&t, &options);
	n = tauti_stacks_space(s)->n_options;
	assert_int_equal(n[COMPRESS], 1);
	assert_int_equal(n[WHO], 2);
	assert_int_equal(n[WAY], 3); /* ring, direct, halving-doubling */
	tauti_stacks_destroy(s);
	forget(&t);
}

static void test_not_these(void **state)
{
	static const char *const names[] = { "schedule", "compress" };
	const struct taut_plan_options options = { .allow = TAUT_NUMERICS_LOSSY,
		.not_these = names, .n_not_these = 2 };
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &options);
	const uint8_t *n = tauti_stacks_space(s)->n_options;

	(void)state;
	assert_int_equal(n[WHO], 1);
	assert_int_equal(n[PIECE], 1);
	assert_int_equal(n[CREDIT], 1);
	assert_int_equal(n[WAY], 1);
	assert_int_equal(n[COMPRESS], 1);
	assert_true(n[BUCKET] > 1);
	tauti_stacks_destroy(s);
	forget(&t);
}

/* Taut's exchange goes as is given, and what is not to be decided on as by itself. */
static void test_parts_not_decided(void **state)
{
	static const char *const algorithm[] = { "algorithm=direct" };
	static const char *const bucket[] = { "bucket=2MB" };
	static const char *const names[] = { "algorithm", "bucket" };
	static const char schedule[] = "schedule=priority,partition=1MiB,"
		"credit=4MiB,barrier=cross,by=taut";
	struct {
		struct taut_plan_options options;
		const char *parts;
	} rows[] = {
		{ { .given = algorithm, .n_given = 1 },
			"algorithm=direct bucket=1MiB " },
		{ { .given = bucket, .n_given = 1 }, "bucket=2MB algorithm=flat " },
		{ { .not_these = names, .n_not_these = 2 },
			"bucket=1MiB algorithm=flat " },
	};
	struct told t = tell(&usual);

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct tauti_stacks *s = create(&t, &rows[i].options);
		uint8_t options[ALL] = { [WHO] = 1 };
		struct tauti_stack stack;
		char said[256];

		assert_int_equal(tauti_stacks_space(s)->n_options[WHO], 2);
		snprintf(said, sizeof said, "%s%s", rows[i].parts, schedule);
		expect_stack(s, options, said);
		stack_at(s, options, &stack);
		assert_true(cost_of(s, &stack).step_ns < TAUTI_NEVER);
		tauti_stacks_destroy(s);
	}
	forget(&t);
}

/* Nothing to sum: nothing of the exchange is decided. */
static void test_one_rank(void **state)
{
	struct ddp_job job = usual;
	struct told t;
	struct tauti_stacks *s;
	const uint8_t *n;

	(void)state;
	job.ranks = 1;
	job.bucket_floats = 0;
	t = tell(&job);
	s = create(&t, &lossy);
	n = tauti_stacks_space(s)->n_options;
	for (int site = WHO; site < SITES; site++)
		assert_int_equal(n[site], 1);
	assert_int_equal(tauti_stacks_job(s)->n_ranks, 1);
	assert_int_equal(tauti_stacks_job(s)->n_gradients, 0);
	assert_string_equal(tauti_stacks_job(s)->framework, "");
	tauti_stacks_destroy(s);
	forget(&t);
}

/* A plan is for the job that has what is given: of two recorded ranks eight are made, and
 * their sums are not those of two. */
static void test_given_ranks(void **state)
{
	static const char *const world[] = { "world=8,link=10gbit" };
	struct taut_plan_options options = { .allow = TAUT_NUMERICS_EXACT,
		.given = world, .n_given = 1 };
	struct ddp_job one = usual;
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &options);

	(void)state;
	assert_int_equal(tauti_stacks_job(s)->n_ranks, 8);
	assert_int_equal(tauti_stacks_job(s)->n_hosts, 8);
	assert_int_equal(tauti_stacks_job(s)->n_gradients, usual.n_gradients);
	assert_int_equal(tauti_stacks_space(s)->n_options[BUCKET], 1);
	assert_int_equal(tauti_stacks_space(s)->n_options[WHO], 1);
	tauti_stacks_destroy(s);
	options.allow = TAUT_NUMERICS_LOSSY;
	s = create(&t, &options);
	assert_int_equal(tauti_stacks_space(s)->n_options[WAY], 3);
	tauti_stacks_destroy(s);
	forget(&t);
	one.ranks = 1;
	t = tell(&one);
	s = create(&t, &options);
	assert_int_equal(tauti_stacks_job(s)->n_ranks, 8);
	assert_int_equal(tauti_stacks_job(s)->n_gradients, usual.n_gradients);
	assert_true(tauti_stacks_space(s)->n_options[BUCKET] > 1);
	tauti_stacks_destroy(s);
	forget(&t);
}

/* Of a job that adds up the gradients of some passes those of the last are summed; where
 * a bucket has other bytes, none are known, and all else is decided. */
static void test_added_gradients(void **state)
{
	struct ddp_job job = usual;
	const char *const *notes;
	struct tauti_stacks *s;
	uint32_t n, said = 0;
	struct told t;

	(void)state;
	job.added = 2;
	t = tell(&job);
	s = create(&t, &lossy);
	assert_int_equal(tauti_stacks_job(s)->n_gradients, job.n_gradients);
	for (int i = 0; i < job.n_gradients; i++)
		assert_int_equal(tauti_stacks_job(s)->gradient_bytes[i],
			4 * job.floats);
	assert_int_equal(tauti_stacks_space(s)->n_options[WHO], 2);
	tauti_stacks_destroy(s);
	forget(&t);
	job.added = 0;
	job.type = "double"; /* than what is told of sums */
	job.hook = "float";
	t = tell(&job);
	s = create(&t, &lossy);
	assert_int_equal(tauti_stacks_job(s)->n_gradients, 0);
	assert_int_equal(tauti_stacks_space(s)->n_options[WHO], 1);
	assert_int_equal(tauti_stacks_space(s)->n_options[OPTIMIZER], 2);
	notes = tauti_stacks_notes(s, &n);
	for (uint32_t i = 0; i < n; i++)
		said += strstr(notes[i], "do not come to its bytes") != NULL;
	assert_int_equal(said, 1);
	tauti_stacks_destroy(s);
	forget(&t);
}

/* Two of a job's eight ranks were recorded. */
static void test_some_ranks(void **state)
{
	const struct taut_plan_options exact = { .allow = TAUT_NUMERICS_EXACT };
	struct told t = { .w = wt_begin() };
	struct taut_error err = { 0 };
	struct tauti_stacks *s;

	(void)state;
	t.w.world = 8;
	ddp_write(&usual, &t.w);
	t.run = wt_open(&t.w);
	if (taut_graph_build(t.run, NULL, &t.graph, &err))
		fail_msg("%s", err.message);
	s = create(&t, &exact);
	assert_int_equal(tauti_stacks_job(s)->n_ranks, 8);
	assert_int_equal(tauti_stacks_space(s)->n_options[BUCKET], 1);
	tauti_stacks_destroy(s);
	forget(&t);
}

static void test_job(void **state)
{
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &lossy);
	const struct taut_plan_job *job = tauti_stacks_job(s);

	(void)state;
	assert_int_equal(job->n_ranks, 2);
	assert_int_equal(job->n_hosts, 2);
	assert_int_equal(job->n_gradients, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(job->gradient_bytes[i], 1000000);
	assert_string_equal(job->framework, "pytorch");
	tauti_stacks_destroy(s);
	forget(&t);
}

static void test_given(void **state)
{
	static const char *const given[] = { "link=0.5x" };
	static const char *const narrow[] = { "compress=fp16" };
	static const char *const wrong[] = { "workers=2" };
	struct taut_plan_options options = { .allow = TAUT_NUMERICS_LOSSY,
		.given = given, .n_given = 1 };
	struct told t = tell(&usual);
	struct tauti_stacks *s = create(&t, &options);
	struct taut_error err;

	(void)state;
	assert_int_equal(tauti_stacks_given(s), 1);
	expect_stack(s, (const uint8_t[ALL]){ 0 }, "link=0.5x");
	expect_stack(s, (const uint8_t[ALL]){ [BUCKET] = 1,
		[COMPRESS] = 2 }, "link=0.5x bucket=256KiB compress=bf16");
	tauti_stacks_destroy(s);
	/* What is given is decided. */
	options.given = narrow;
	s = create(&t, &options);
	assert_int_equal(tauti_stacks_space(s)->n_options[COMPRESS], 1);
	assert_int_equal(tauti_stacks_space(s)->n_options[OPTIMIZER], 2);
	tauti_stacks_destroy(s);
	options.given = wrong;
	s = NULL;
	assert_int_equal(tauti_stacks_create(t.graph, &options, &s, &err),
		TAUT_EINVAL);
	assert_non_null(strstr(err.message, "workers"));
	assert_null(s);
	tauti_stacks_destroy(NULL);
	forget(&t);
}

static void test_no_memory(void **state)
{
	static const char *const names[] = { "schedule", "bucket" };
	const struct taut_plan_options options = { .allow = TAUT_NUMERICS_LOSSY,
		.not_these = names, .n_not_these = 2 };
	struct ddp_job job = usual;
	taut_status status = TAUT_ENOMEM;
	struct tauti_stacks *s = NULL;
	struct told t;
	long n = 0;

	(void)state;
	job.steps = 2;
	job.n_gradients = 2;
	t = tell(&job);
	for (; status; n++) {
		alloc_fail_after(n);
		status = tauti_stacks_create(t.graph, &options, &s, NULL);
		alloc_fail_never();
		if (status) {
			assert_int_equal(status, TAUT_ENOMEM);
			assert_null(s);
		}
	}
	assert_true(n > 20);
	tauti_stacks_destroy(s);
	forget(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_seeds),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_every_state_can_be_run),
		cmocka_unit_test(test_cost_is_the_replay),
		cmocka_unit_test(test_heap),
		cmocka_unit_test(test_compiled),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_remembered),
		cmocka_unit_test(test_refused_is_never),
		cmocka_unit_test(test_refused_is_no_option),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_not_these),
		cmocka_unit_test(test_parts_not_decided),
		cmocka_unit_test(test_one_rank),
		cmocka_unit_test(test_given_ranks),
		cmocka_unit_test(test_added_gradients),
		cmocka_unit_test(test_some_ranks),
		cmocka_unit_test(test_job),
		cmocka_unit_test(test_given),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
