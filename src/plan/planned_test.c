/* planned_test.c - plans of whole recordings: no worse than no change, within what is
 * allowed and given, and what taut_predict() says of their decisions. */
#include "tests/support/unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <taut/plan.h>

#include "plan/plan.h"
#include "plan/stacks.h"
#include "tests/support/alloc_fail.h"
#include "trace/formats/xplane_write.h"
#include "whatif/ddp_job.h"

static const struct ddp_job usual = {
	.ranks = 2, .steps = 4, .n_gradients = 4, .floats = 250000,
	.forward_us = 10000, .compute_us = 5000, .optimizer_us = 2000,
	.bucket_floats = 500000, .us_by_float = 0.04, .layers = 1,
};

static const struct taut_plan_options lossy = {
	.allow = TAUT_NUMERICS_LOSSY, .budget_s = 60 };

static struct taut_planned *search(const struct taut_graph *graph,
	const struct taut_plan_options *options)
{
	struct taut_planned *planned = NULL;
	struct taut_error err;

	if (taut_plan_search(graph, options, &planned, &err))
		fail_msg("%s", err.message);
	return planned;
}

static struct taut_prediction *predict(const struct taut_graph *graph,
	const struct taut_plan_options *options, const struct taut_plan *plan)
{
	const char *changes[2 * TAUTI_STACK_MOST];
	struct taut_prediction *p;
	struct taut_error err;
	size_t n = 0;

	for (size_t i = 0; i < options->n_given; i++)
		changes[n++] = options->given[i];
	for (uint32_t i = 0; plan && i < plan->n_decisions; i++)
		changes[n++] = plan->decisions[i].change;
	if (taut_predict(graph, changes, n, NULL, &p, &err))
		fail_msg("%s", err.message);
	return p;
}

/* --- what holds for every plan ------------------------------------------------------------- */

/* Its numbers are those of its decisions, laid by anybody else. */
static void check_predicted(const struct taut_graph *graph,
	const struct taut_plan_options *options, const struct taut_plan *plan)
{
	struct taut_prediction *p = predict(graph, options, plan);

	assert_int_equal(plan->after_ns, p->after_ns);
	assert_int_equal(plan->low_ns, p->low_ns);
	assert_int_equal(plan->high_ns, p->high_ns);
	assert_int_equal(plan->memory_after, p->memory_after);
	taut_prediction_destroy(p);
	p = predict(graph, options, NULL);
	assert_int_equal(plan->before_ns, p->after_ns);
	assert_int_equal(plan->memory_before, p->memory_after);
	assert_true(plan->after_ns <= plan->before_ns);
	taut_prediction_destroy(p);
}

/* A decision is worth its while, allowed, and can be told a job. */
static void check_decisions(const struct taut_plan *plan)
{
	struct taut_arena *arena = taut_arena_create();
	const struct taut_plan_setting *settings;
	struct taut_error err;
	uint32_t n;

	assert_non_null(arena);
	for (uint32_t i = 0; i < plan->n_decisions; i++) {
		const struct taut_decision *d = &plan->decisions[i];

		assert_true(d->numerics <= plan->allow);
		assert_true(d->without_ns >= 0 || strncmp(d->change, "schedule", 8));
		if (d->without_ns >= 0 && d->without_ns < plan->after_ns +
			(int64_t)(0.0019 * (double)plan->after_ns))
			fail_msg("%s gives nothing", d->change);
	}
	if (taut_plan_settings(plan, arena, &settings, &n, &err))
		fail_msg("%s", err.message);
	taut_arena_destroy(arena);
}

static bool decides(const struct taut_plan *plan, const char *name)
{
	for (uint32_t i = 0; i < plan->n_decisions; i++)
		if (!strncmp(plan->decisions[i].change, name, strlen(name)))
			return true;
	return false;
}

static bool dominates(const struct taut_plan_point *a,
	const struct taut_plan_point *b)
{
	return a->step_ns <= b->step_ns &&
		a->memory_bytes <= b->memory_bytes &&
		a->network_bytes <= b->network_bytes &&
		(a->step_ns < b->step_ns ||
		a->memory_bytes < b->memory_bytes ||
		a->network_bytes < b->network_bytes);
}

static void check_frontier(const struct taut_graph *graph,
	const struct taut_plan_options *options,
	const struct taut_planned *planned)
{
	assert_true(planned->n_points > 0);
	for (uint32_t i = 0; i < planned->n_points; i++) {
		const struct taut_plan_point *p = &planned->points[i];
		struct taut_plan as_plan = { .n_decisions = p->n_changes };
		struct taut_decision decisions[TAUTI_STACK_MOST];
		struct taut_prediction *alone;

		assert_true(!i || p->step_ns >= p[-1].step_ns);
		for (uint32_t k = 0; k < planned->n_points; k++)
			assert_false(dominates(&planned->points[k], p));
		for (uint32_t k = 0; k < p->n_changes; k++)
			decisions[k].change = p->changes[k];
		as_plan.decisions = decisions;
		alone = predict(graph, options, &as_plan);
		assert_int_equal(alone->after_ns, p->step_ns);
		assert_int_equal(alone->memory_after, p->memory_bytes);
		taut_prediction_destroy(alone);
	}
	/* what was left out of the best one is next to nothing; 8 bits for 16 some more */
	assert_true((double)planned->plan->after_ns <=
		(decides(planned->plan, "compress=fp16") ||
		decides(planned->plan, "compress=bf16") ? 1.0121 : 1.0021) *
		(double)planned->points[0].step_ns);
}

static void check(const struct taut_graph *graph,
	const struct taut_plan_options *options,
	const struct taut_planned *planned)
{
	assert_int_equal(planned->plan->allow, options->allow);
	assert_true(planned->n_predicted > 0);
	assert_true(planned->seconds >= 0);
	check_predicted(graph, options, planned->plan);
	check_decisions(planned->plan);
	check_frontier(graph, options, planned);
	for (uint32_t i = 0; i < planned->n_passes; i++)
		assert_true(planned->passes[i].step_ns > 0);
}

/* --- a job that is bound by its network ---------------------------------------------------- */

static void test_plan(void **state)
{
	struct told t = tell(&usual);
	struct taut_planned *planned = search(t.graph, &lossy);
	bool noted = false;

	(void)state;
	check(t.graph, &lossy, planned);
	/* 40 ms of sums behind 30 of computation: halving them is worth it */
	assert_true(decides(planned->plan, "compress="));
	assert_true(planned->plan->after_ns < planned->plan->before_ns * 3 / 4);
	assert_int_equal(planned->plan->job.n_ranks, 2);
	assert_int_equal(planned->plan->job.n_gradients, 4);
	assert_int_equal(planned->plan->memory_after, -1);
	assert_true(planned->plan->network_after <
		planned->plan->network_before);
	for (uint32_t i = 0; i < planned->n_notes; i++)
		noted |= !strncmp(planned->notes[i], "workers: ", 9);
	assert_true(noted);
	taut_planned_destroy(planned);
	taut_planned_destroy(NULL);
	forget(&t);
}

/* Of a small space the plan is the best that there is, but for what is next to
 * nothing. */
static int64_t best_of_all(const struct told *t,
	const struct taut_plan_options *options)
{
	struct tauti_stacks *s;
	const struct tauti_space *space;
	uint8_t at[32] = { 0 };
	int64_t best = INT64_MAX;
	uint32_t site = 0;

	assert_int_equal(tauti_stacks_create(t->graph, options, &s, NULL),
		TAUT_OK);
	space = tauti_stacks_space(s);
	while (site < space->n_sites) {
		struct tauti_stack stack;
		struct tauti_cost c;

		assert_int_equal(
			tauti_stacks_at(s, at, &stack, NULL), TAUT_OK);
		assert_int_equal(
			tauti_stacks_cost(s, &stack, &c, NULL), TAUT_OK);
		best = c.step_ns < best ? c.step_ns : best;
		for (site = 0; site < space->n_sites &&
			++at[site] == space->n_options[site]; site++)
			at[site] = 0;
	}
	tauti_stacks_destroy(s);
	return best;
}

static void test_best_of_a_small_space(void **state)
{
	static const char *const names[] = { "schedule" };
	static const double rates[] = { 0.005, 0.02, 0.04, 0.16 };
	struct taut_plan_options options = lossy;

	(void)state;
	options.not_these = names;
	options.n_not_these = 1;
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
		struct ddp_job job = usual;
		struct taut_planned *planned;
		struct told t;
		int64_t best;

		job.us_by_float = rates[i];
		t = tell(&job);
		planned = search(t.graph, &options);
		best = best_of_all(&t, &options);
		check(t.graph, &options, planned);
		assert_int_equal(planned->points[0].step_ns, best);
		assert_true((double)planned->plan->after_ns <=
			1.0021 * (double)best);
		taut_planned_destroy(planned);
		forget(&t);
	}
}

/* Rows are of Taut's exchange, which can be left out all the same. */
static void test_rows(void **state)
{
	const struct taut_fact facts[] = { { "framework", "pytorch" },
		{ "embedding.words.weight", "1000 1000 2 0 5 7" } };
	struct ddp_job job = usual;
	struct taut_planned *planned;
	struct told t;

	(void)state;
	job.looks_up = 1;
	t = tell(&job);
	for (uint32_t r = 0; r < 2; r++)
		wt_facts_of(t.run, r, facts, 2);
	planned = search(t.graph, &lossy);
	check(t.graph, &lossy, planned);
	assert_true(decides(planned->plan, "schedule"));
	assert_true(decides(planned->plan, "rows"));
	taut_planned_destroy(planned);
	forget(&t);
}

/* The step with 16 bits in the place of 8. */
static int64_t with_halves(const struct taut_graph *graph, const struct taut_plan *plan)
{
	struct taut_decision decisions[TAUTI_STACK_MOST];
	struct taut_plan other = { .decisions = decisions,
		.n_decisions = plan->n_decisions };
	struct taut_prediction *p;
	int64_t after_ns;

	for (uint32_t i = 0; i < plan->n_decisions; i++) {
		decisions[i] = plan->decisions[i];
		if (!strncmp(decisions[i].change, "compress=mxint8", 15))
			decisions[i].change = "compress=bf16,by=taut";
	}
	p = predict(graph, &lossy, &other);
	after_ns = p->after_ns;
	taut_prediction_destroy(p);
	return after_ns;
}

/* 8 bits are decided on where they give more than a hundredth over 16. */
static void test_few_bits(void **state)
{
	static const double forwards_us[] = { 10000, 40000, 400000 };
	uint32_t n_blocks = 0, n_halves = 0;

	(void)state;
	for (size_t i = 0; i < sizeof forwards_us / sizeof *forwards_us; i++) {
		struct ddp_job job = usual;
		struct taut_planned *planned;
		struct told t;

		job.forward_us = forwards_us[i];
		t = tell(&job);
		planned = search(t.graph, &lossy);
		if (decides(planned->plan, "compress=mxint8")) {
			n_blocks++;
			assert_true((double)with_halves(t.graph, planned->plan) >=
				1.0099 * (double)planned->plan->after_ns);
		} else if (decides(planned->plan, "compress=")) {
			n_halves++;
		}
		taut_planned_destroy(planned);
		forget(&t);
	}
	assert_true(n_blocks > 0 && n_halves > 0);
}

/* Nothing is summed, nothing loaded: the plan is to do nothing. */
static void test_nothing_to_decide(void **state)
{
	const struct taut_plan_options exact = { .budget_s = 60 };
	struct ddp_job job = usual;
	struct taut_planned *planned;
	struct told t;

	(void)state;
	job.ranks = 1;
	job.bucket_floats = 0;
	t = tell(&job);
	planned = search(t.graph, &exact);
	check(t.graph, &exact, planned);
	assert_int_equal(planned->plan->n_decisions, 0);
	assert_int_equal(planned->plan->after_ns, planned->plan->before_ns);
	taut_planned_destroy(planned);
	forget(&t);
}

/* --- a job of which nothing can be made ----------------------------------------------------- */

/* JAX's, whose profiles are TensorFlow's files. */
static struct taut_run *open_jax(void)
{
	struct bytes space = { .len = 0 }, line, event;
	struct taut_run *run;
	struct taut_error err;
	struct plane p;

	begin_plane(&p, "/host:CPU");
	begin_line(&line, 1, "python", 1000);
	for (int step = 0; step < 4; step++) {
		begin_event(&p, &event, "train", step * 1000000, 1000000);
		add_number(&p, &event, "step_num", step);
		put_in(&line, 4, &event);
		add_event(&p, &line, "PjitFunction(step)",
			step * 1000000 + 100, 900000);
	}
	put_in(&p.bytes, 3, &line);
	end_plane(&p, &space);
	if (taut_run_open_memory("t.xplane.pb", space.at, space.len, 0, &run,
		&err))
		fail_msg("%s", err.message);
	return run;
}

static void test_jax(void **state)
{
	struct taut_run *run = open_jax();
	struct taut_arena *arena = taut_arena_create();
	struct taut_planned *planned = NULL;
	struct taut_graph *graph;
	struct taut_plan_job job;
	struct taut_error err;

	(void)state;
	if (taut_graph_build(run, NULL, &graph, &err) ||
		taut_plan_job_of(graph, arena, &job, &err))
		fail_msg("%s", err.message);
	assert_string_equal(job.framework, "jax");
	assert_int_equal(taut_plan_search(graph, &lossy, &planned, &err),
		TAUT_EINVAL);
	assert_string_equal(err.message, "this is a recording of a job of jax, of "
		"which 'taut run' makes no change; 'taut whatif' predicts them");
	assert_null(planned);
	taut_graph_destroy(graph);
	taut_run_close(run);
	taut_arena_destroy(arena);
}

/* --- what is allowed, given, left out ----------------------------------------------------- */

static void test_classes(void **state)
{
	struct ddp_job job = usual;
	int64_t after[TAUT_NUMERICS_CLASSES];
	struct told t;

	(void)state;
	job.ranks = 3;
	t = tell(&job);
	for (int allow = 0; allow < TAUT_NUMERICS_CLASSES; allow++) {
		const struct taut_plan_options options = { .budget_s = 60,
			.allow = (enum taut_numerics)allow };
		struct taut_planned *planned = search(t.graph, &options);

		check(t.graph, &options, planned);
		after[allow] = planned->plan->after_ns;
		assert_true(allow == TAUT_NUMERICS_LOSSY ||
			!decides(planned->plan, "compress="));
		assert_true(allow > TAUT_NUMERICS_EXACT ||
			!planned->plan->n_decisions);
		taut_planned_destroy(planned);
	}
	assert_true(after[TAUT_NUMERICS_EXACT] > after[TAUT_NUMERICS_REORDERED]);
	assert_true(after[TAUT_NUMERICS_REORDERED] > after[TAUT_NUMERICS_LOSSY]);
	forget(&t);
}

static void test_given(void **state)
{
	static const char *const given[] = { "link=0.5x" };
	static const char *const wrong[] = { "workers=2" };
	struct taut_plan_options options = lossy;
	struct told t = tell(&usual);
	struct taut_planned *plain = search(t.graph, &options), *slow;
	struct taut_error err;

	(void)state;
	options.given = given;
	options.n_given = 1;
	slow = search(t.graph, &options);
	check(t.graph, &options, slow);
	assert_true(slow->plan->before_ns > plain->plan->before_ns);
	assert_false(decides(slow->plan, "link"));
	taut_planned_destroy(plain);
	taut_planned_destroy(slow);
	options.given = wrong;
	slow = NULL;
	assert_int_equal(taut_plan_search(t.graph, &options, &slow, &err),
		TAUT_EINVAL);
	assert_non_null(strstr(err.message, "workers"));
	assert_null(slow);
	forget(&t);
}

static void test_not_these(void **state)
{
	static const char *const names[] = { "compress", "schedule" };
	struct taut_plan_options options = lossy;
	struct told t = tell(&usual);
	struct taut_planned *planned;

	(void)state;
	options.not_these = names;
	options.n_not_these = 2;
	planned = search(t.graph, &options);
	check(t.graph, &options, planned);
	assert_false(decides(planned->plan, "compress"));
	assert_false(decides(planned->plan, "schedule"));
	assert_false(decides(planned->plan, "algorithm"));
	taut_planned_destroy(planned);
	forget(&t);
}

static void test_strategies(void **state)
{
	struct taut_plan_strategy_info info;
	struct taut_plan_options options = lossy;
	struct told t = tell(&usual);
	struct taut_planned *planned;
	struct taut_error err;
	size_t n = 0;

	(void)state;
	for (; taut_plan_strategy(n, &info); n++) {
		options.strategy = info.name;
		options.budget_s = 0.5;
		planned = search(t.graph, &options);
		check(t.graph, &options, planned);
		assert_true(*info.summary);
		taut_planned_destroy(planned);
	}
	assert_true(n > 0);
	options.strategy = "luck";
	assert_int_equal(taut_plan_search(t.graph, &options, &planned, &err),
		TAUT_EINVAL);
	forget(&t);
}

/* --- memory -------------------------------------------------------------------------------- */

/* Without the blocks of its layers a job takes less memory and more time; what keeps
 * a limit is found, and is the fastest that does. */
static void test_memory(void **state)
{
	enum { WHOLE = 4 * 6600000, LEAST = 6600000 + 4 * 600000 };
	struct taut_plan_options options = lossy;
	struct ddp_job job = usual;
	struct taut_planned *planned;
	struct taut_error err;
	int64_t before_ns;
	struct told t;

	(void)state;
	job.block_bytes = 6000000;
	t = tell(&job);
	planned = search(t.graph, &options);
	check(t.graph, &options, planned);
	assert_int_equal(planned->plan->memory_before, WHOLE);
	assert_false(decides(planned->plan, "recompute="));
	before_ns = planned->plan->before_ns;
	taut_planned_destroy(planned);
	options.memory_most = WHOLE - 1;
	planned = search(t.graph, &options);
	check_decisions(planned->plan);
	check_frontier(t.graph, &options, planned);
	assert_true(decides(planned->plan, "recompute="));
	assert_true(decides(planned->plan, "compress="));
	assert_int_equal(planned->plan->memory_after, LEAST);
	assert_int_equal(planned->plan->memory_before, WHOLE);
	assert_int_equal(planned->plan->before_ns, before_ns);
	for (uint32_t i = 0; i < planned->n_points; i++)
		assert_true(planned->points[i].memory_bytes < WHOLE);
	taut_planned_destroy(planned);
	options.memory_most = LEAST - 1;
	planned = NULL;
	assert_int_equal(taut_plan_search(t.graph, &options, &planned, &err),
		TAUT_EINVAL);
	assert_string_equal(err.message, "no plan that was tried keeps a rank's "
		"memory below what is given");
	assert_null(planned);
	forget(&t);
}

/* Less memory than recomputing layers leaves: then in parts, and not else. */
static void test_memory_in_parts(void **state)
{
	enum { WHOLE = 4 * 6600000, LEAST = 6600000 + 4 * 600000 };
	struct taut_plan_options options = lossy;
	struct ddp_job job = usual;
	struct taut_planned *planned;
	struct told t;

	(void)state;
	job.block_bytes = 6000000;
	job.wrapped = 1;
	t = tell(&job);
	planned = search(t.graph, &options);
	assert_false(decides(planned->plan, "microbatches="));
	taut_planned_destroy(planned);
	options.memory_most = WHOLE - 1;
	options.not_these = (const char *const[]){ "recompute" };
	options.n_not_these = 1;
	planned = search(t.graph, &options);
	check(t.graph, &options, planned);
	check_decisions(planned->plan);
	assert_true(decides(planned->plan, "microbatches=2"));
	assert_true(planned->plan->memory_after < WHOLE * 6 / 10);
	taut_planned_destroy(planned);
	options.n_not_these = 0;
	options.memory_most = LEAST - 1;
	planned = search(t.graph, &options);
	check_decisions(planned->plan);
	assert_true(decides(planned->plan, "microbatches="));
	assert_true(planned->plan->memory_after < LEAST);
	taut_planned_destroy(planned);
	forget(&t);
}

static void test_memory_is_not_known(void **state)
{
	struct taut_plan_options options = lossy;
	struct told t = tell(&usual);
	struct taut_planned *planned = NULL;
	struct taut_error err;

	(void)state;
	options.memory_most = 1;
	assert_int_equal(taut_plan_search(t.graph, &options, &planned, &err),
		TAUT_EINVAL);
	assert_non_null(strstr(err.message, "memory"));
	assert_null(planned);
	forget(&t);
}

/* --- twice the same ------------------------------------------------------------------------ */

static void same(const struct taut_planned *a, const struct taut_planned *b)
{
	assert_int_equal(a->plan->n_decisions, b->plan->n_decisions);
	for (uint32_t i = 0; i < a->plan->n_decisions; i++)
		assert_string_equal(a->plan->decisions[i].change,
			b->plan->decisions[i].change);
	assert_int_equal(a->plan->after_ns, b->plan->after_ns);
	assert_int_equal(a->n_points, b->n_points);
	for (uint32_t i = 0; i < a->n_points; i++)
		assert_int_equal(a->points[i].step_ns, b->points[i].step_ns);
	assert_int_equal(a->n_predicted, b->n_predicted);
}

static void test_same_seed_same_plan(void **state)
{
	struct taut_plan_options options = lossy;
	struct ddp_job job = usual;
	struct told t;

	(void)state;
	job.steps = 2;
	t = tell(&job);
	for (options.seed = 0; options.seed < 2; options.seed++) {
		struct taut_planned *a = search(t.graph, &options);
		struct taut_planned *b = search(t.graph, &options);

		assert_true(a->seconds < options.budget_s);
		same(a, b);
		taut_planned_destroy(a);
		taut_planned_destroy(b);
	}
	forget(&t);
}

/* --- while it runs ------------------------------------------------------------------------- */

struct seen {
	uint32_t n, most;
	int64_t best_ns;
	uint64_t n_predicted;
};

static int see(void *context, const struct taut_plan_progress *p)
{
	struct seen *s = context;

	assert_true(p->before_ns > 0);
	assert_true(p->best_ns > 0 && p->best_ns <= p->before_ns);
	assert_true(!s->best_ns || p->best_ns <= s->best_ns);
	assert_true(p->n_predicted > 0);
	assert_true(s->n < s->most); /* who has said stop is not asked again */
	s->best_ns = p->best_ns;
	s->n_predicted = p->n_predicted;
	return ++s->n == s->most;
}

static void test_progress(void **state)
{
	struct seen all = { .most = UINT32_MAX }, first = { .most = 1 };
	struct taut_plan_options options = lossy;
	struct told t = tell(&usual);
	struct taut_planned *planned, *ended;

	(void)state;
	options.see = see;
	options.context = &all;
	planned = search(t.graph, &options);
	assert_true(all.n > 1);
	assert_int_equal(all.best_ns, planned->points[0].step_ns);
	/* what comes behind the search is seen, too */
	assert_int_equal(all.n_predicted, planned->n_predicted);
	options.context = &first;
	ended = search(t.graph, &options);
	assert_int_equal(first.n, 1);
	check(t.graph, &options, ended);
	assert_true(ended->n_predicted <= 2);
	taut_planned_destroy(planned);
	taut_planned_destroy(ended);
	forget(&t);
}

/* Whatever the budget: what was seen while the search was prepared is not lost. */
static void test_tiny_budget(void **state)
{
	const struct taut_plan_options options = { .budget_s = 1e-6,
		.allow = TAUT_NUMERICS_LOSSY };
	struct told t = tell(&usual);
	struct taut_planned *planned = search(t.graph, &options);
	int64_t least_ns = planned->plan->before_ns;

	(void)state;
	check(t.graph, &options, planned);
	for (uint32_t i = 0; i < planned->n_passes; i++)
		if (planned->passes[i].step_ns < least_ns)
			least_ns = planned->passes[i].step_ns;
	assert_true(least_ns < planned->plan->before_ns);
	/* but for what is left out because it gives next to nothing */
	assert_true((double)planned->plan->after_ns <= 1.002 * (double)least_ns);
	taut_planned_destroy(planned);
	forget(&t);
}

/* As many as leave room for each decision. */
static void test_many_given(void **state)
{
	const char *given[70];
	struct taut_plan_options options = { .budget_s = 1e-3, .given = given,
		.n_given = 70, .allow = TAUT_NUMERICS_LOSSY };
	struct taut_planned *planned;
	struct told t = tell(&usual);
	struct taut_error err;
	size_t most = 0;

	(void)state;
	for (size_t i = 0; i < 70; i++)
		given[i] = "link=1x";
	assert_int_equal(taut_plan_search(t.graph, &options, &planned, &err),
		TAUT_EINVAL);
	assert_int_equal(sscanf(err.message, "expected at most %zu changes that hold, "
		"found 70", &most), 1);
	options.n_given = most + 1;
	assert_int_equal(taut_plan_search(t.graph, &options, &planned, &err),
		TAUT_EINVAL);
	options.n_given = most;
	planned = search(t.graph, &options);
	assert_true(planned->plan->n_decisions > 0);
	taut_planned_destroy(planned);
	forget(&t);
}

/* --- a recorded job ------------------------------------------------------------------------- */

static void test_recorded(void **state)
{
	static const char *const paths[] = { "examples/ddp-gloo-2host" };
	const struct taut_plan_options options = { .budget_s = 2,
		.allow = TAUT_NUMERICS_LOSSY };
	struct taut_planned *planned;
	struct taut_graph *graph;
	struct taut_run *run;
	struct taut_error err;

	(void)state;
	if (taut_run_open(paths, 1, NULL, &run, &err))
		fail_msg("%s", err.message);
	if (taut_graph_build(run, NULL, &graph, &err))
		fail_msg("%s", err.message);
	planned = search(graph, &options);
	check(graph, &options, planned);
	assert_true(planned->plan->n_decisions > 0);
	assert_true(planned->plan->after_ns < planned->plan->before_ns);
	assert_int_equal(planned->plan->job.n_hosts, 2);
	assert_string_equal(planned->plan->job.framework, "pytorch");
	taut_planned_destroy(planned);
	taut_graph_destroy(graph);
	taut_run_close(run);
}

static void test_no_memory(void **state)
{
	static const char *const names[] = { "schedule", "bucket", "recompute" };
	struct taut_plan_options options = lossy;
	struct ddp_job job = usual;
	struct taut_planned *planned = NULL;
	taut_status status = TAUT_ENOMEM;
	struct told t;
	long n = 0;

	(void)state;
	options.not_these = names;
	options.n_not_these = 3;
	job.steps = 2;
	job.n_gradients = 2;
	t = tell(&job);
	/* each of the first requests, then fewer and fewer of those of the search's turns,
	 * which are much alike */
	for (; status; n += n < 300 ? 1 : n / 40) {
		alloc_fail_after(n);
		status = taut_plan_search(t.graph, &options, &planned, NULL);
		alloc_fail_never();
		if (status) {
			assert_int_equal(status, TAUT_ENOMEM);
			assert_null(planned);
		}
	}
	assert_true(n > 50);
	taut_planned_destroy(planned);
	forget(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan),
		cmocka_unit_test(test_jax),
		cmocka_unit_test(test_best_of_a_small_space),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_few_bits),
		cmocka_unit_test(test_nothing_to_decide),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_given),
		cmocka_unit_test(test_not_these),
		cmocka_unit_test(test_strategies),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_memory_in_parts),
		cmocka_unit_test(test_memory_is_not_known),
		cmocka_unit_test(test_same_seed_same_plan),
		cmocka_unit_test(test_tiny_budget),
		cmocka_unit_test(test_many_given),
		cmocka_unit_test(test_progress),
		cmocka_unit_test(test_recorded),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
