/* rows_test.c - gradients of embeddings by rows, on a made-up DDP job whose answers are
 * worked out by hand: 16 layers of which the first is a lookup, forward 16 ms, backward
 * 32, update 2; 0.4 MB of gradient each, ready in the reverse order of the layers. C is
 * what all of them take on the link. */
#include "tests/support/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/alloc_fail.h"
#include "whatif/ddp_job.h"
#include "whatif/rows.h"

enum { LAYERS = 16, FLOATS = 100000, RANKS = 2, ROWS = 1000, ROW_BYTES = 400 };

static const double computed_ms = 16 + 32 + 2;
#define CROSS "schedule,partition=400kB,credit=400kB,message=0us,barrier=cross,by=taut"

/* --- facts ------------------------------------------------------------------------------ */

enum { MOST_RANKS = 3, MOST_FACTS = 3 };
static struct taut_fact facts[MOST_RANKS][MOST_FACTS];
static char values[MOST_RANKS][MOST_FACTS][8192];

/* Of rank r, that it looks up n rows from the row `first` on; hashes are spread evenly
 * over all there can be, and those of equal rows equal. */
static const struct taut_fact *fact(int r, int i, const char *key, uint32_t rows,
	uint32_t row_bytes, uint32_t first, uint32_t n, uint32_t other)
{
	char *text = values[r][i];
	int at = sprintf(text, "%u %u %u %u", rows, row_bytes, n, other);
	uint64_t step = UINT32_MAX / rows;

	for (uint32_t k = 0; k < n && k < 512; k++)
		at += sprintf(text + at, " %" PRIx64, (first + k) * step);
	facts[r][i] = (struct taut_fact) { key, text };
	return &facts[r][i];
}

/* Both ranks look up rows of ROWS from there on; other: as in a fact. */
static struct told tell_of(const struct ddp_job *job, uint32_t first_of_0,
	uint32_t first_of_1, uint32_t n, uint32_t other)
{
	struct told t = tell(job);

	wt_facts_of(t.run, 0, fact(0, 0, "embedding.words", ROWS, ROW_BYTES,
		first_of_0, n, other), 1);
	wt_facts_of(t.run, 1, fact(1, 0, "embedding.words", ROWS, ROW_BYTES,
		first_of_1, n, other), 1);
	return t;
}

static struct ddp_job job_of(double c_ms)
{
	return (struct ddp_job) {
		.ranks = RANKS, .steps = 6, .n_gradients = LAYERS,
		.floats = FLOATS, .forward_us = 16e3,
		.compute_us = 32e3 / LAYERS, .optimizer_us = 2e3,
		.bucket_floats = FLOATS, .layers = 1, .looks_up = 1,
		.us_by_float = c_ms * 1e3 / LAYERS / FLOATS,
	};
}

static double ms_of(const struct taut_graph *graph, const char *const *changes, size_t n)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };
	double ms;

	if (taut_predict(graph, changes, n, NULL, &p, &err))
		fail_msg("%s: %s", changes[0], err.message);
	ms = (double)p->after_ns / 1e6;
	assert_true(p->low_ns <= p->after_ns && p->after_ns <= p->high_ns);
	taut_prediction_destroy(p);
	return ms;
}

#define MS(graph, ...) ms_of(graph, (const char *const[]){ __VA_ARGS__ }, \
	sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static void expect_near(double is, double expected, double most, const char *what)
{
	print_message("%s: %.3f, expected %.3f\n", what, is, expected);
	assert_true(fabs(is - expected) <= most);
}

/* --- how many rows --------------------------------------------------------------------- */

static void expect_union(uint32_t rows, uint32_t a, uint32_t n_a, uint32_t b,
	uint32_t n_b, double expected, double most)
{
	struct ddp_job job = job_of(16);
	struct told t = tell(&job);
	struct taut_arena *arena = taut_arena_create();
	struct tauti_embedding *list;
	struct taut_error err = { 0 };
	uint32_t n;

	wt_facts_of(t.run, 0, fact(0, 0, "embedding.a.b", rows, 8, a, n_a, 3), 1);
	wt_facts_of(t.run, 1, fact(1, 0, "embedding.a.b", rows, 8, b, n_b, 3), 1);
	if (tauti_embeddings(t.run, arena, &list, &n, &err))
		fail_msg("%s", err.message);
	assert_int_equal(n, 1);
	assert_string_equal(list->name, "a.b");
	assert_int_equal(list->rows, rows);
	assert_int_equal(list->row_bytes, 8);
	assert_int_equal(list->other, 3);
	expect_near(list->looked_up, expected, most, "rows of both");
	taut_arena_destroy(arena);
	forget(&t);
}

static void test_unions(void **state)
{
	(void)state;
	expect_union(1000, 0, 100, 0, 100, 100, 0);
	expect_union(1000, 0, 100, 50, 100, 150, 0);
	expect_union(1000, 0, 100, 500, 300, 400, 0);
	expect_union(1000, 0, 0, 0, 0, 0, 0);
	expect_union(1000, 0, 512, 512, 488, 1000, 0);
	/* More than are told: a sample of all of them, evenly spread, is exact. */
	expect_union(10000, 0, 10000, 0, 10000, 10000, 25);
	expect_union(10000, 0, 10000, 0, 12, 10000, 25);
}

/* What ranks tell otherwise, or one alone, is none of the job's. */
static void test_unlike(void **state)
{
	struct ddp_job job = job_of(16);
	struct told t = tell(&job);
	struct taut_arena *arena = taut_arena_create();
	struct tauti_embedding *list;
	struct taut_error err = { 0 };
	uint32_t n;

	(void)state;
	(void)fact(0, 0, "embedding.a", 100, 8, 0, 5, 0);
	(void)fact(0, 1, "embedding.b", 100, 8, 0, 5, 0);
	(void)fact(1, 0, "embedding.b", 100, 8, 5, 5, 0);
	(void)fact(1, 1, "embedding.c", 100, 8, 5, 5, 0);
	wt_facts_of(t.run, 0, facts[0], 2);
	wt_facts_of(t.run, 1, facts[1], 2);
	assert_int_equal(tauti_embeddings(t.run, arena, &list, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_string_equal(list->name, "b");
	assert_int_equal(list->looked_up, 10);
	(void)fact(1, 0, "embedding.b", 100, 8, 5, 5, 1);
	assert_int_equal(tauti_embeddings(t.run, arena, &list, &n, &err), 0);
	assert_int_equal(n, 0);
	(void)fact(1, 0, "embedding.b", 100, 16, 5, 5, 0);
	assert_int_equal(tauti_embeddings(t.run, arena, &list, &n, &err), 0);
	assert_int_equal(n, 0);
	/* Of two models that name theirs alike nothing is known. */
	(void)fact(0, 0, "embedding.b", 100, 16, 0, 5, 0);
	(void)fact(0, 1, "embedding.b", 100, 16, 0, 5, 0);
	assert_int_equal(tauti_embeddings(t.run, arena, &list, &n, &err), 0);
	assert_int_equal(n, 0);
	taut_arena_destroy(arena);
	forget(&t);
}

static void test_garbage(void **state)
{
	static const char *const bad[] = { "", " ", "x", "1", "1 2 3", "1 2 1",
		"0 4 0 0", "4 0 0 0", "4 4 5 0", "-4 4 0 0", "4 4 +0 0",
		"4 4 1 0", "4 4 1 0 g", "4 4 1 0 1 2", "4 4 2 0 2 1",
		"4 4 2 0 1 1", "4 4 1 0 100000000", "4294967296 4 0 0",
		"99999999999999999999 4 0 0", "4 4 0 0  ", "4  4 0 0",
		"4\t4 0 0", "\t4 4 0 0", "4 4 1 0 0x7", "4 4 1 0 7A",
		"4 4 0 0 ", "4 4 1 0 7 ", "4294967295 4294967295 0 0" };
	struct ddp_job job = job_of(16);
	struct told t = tell(&job);
	struct taut_arena *arena = taut_arena_create();

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct taut_fact is = { "embedding.words", bad[i] };
		struct tauti_embedding *list;
		struct taut_error err = { 0 };
		uint32_t n;

		wt_facts_of(t.run, 0, &is, 1);
		if (tauti_embeddings(t.run, arena, &list, &n, &err) != TAUT_EINVAL)
			fail_msg("'%s' is taken for a fact", bad[i]);
		assert_non_null(strstr(err.message,
			"fact embedding.words of rank 0: expected"));
	}
	taut_arena_destroy(arena);
	forget(&t);
}

static void refuse(const struct told *t, const char *a, const char *b, const char *word)
{
	const char *changes[] = { a, b };
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	if (taut_predict(t->graph, changes, b ? 2 : 1, NULL, &p, &err) !=
		TAUT_EINVAL)
		fail_msg("%s %s: not refused (%s)", a, b ? b : "", word);
	if (!strstr(err.message, word))
		fail_msg("'%s' does not say '%s'", err.message, word);
	assert_null(p);
}

/* --- lookups alone ---------------------------------------------------------------------- */

/* Where the link is always busy a step is what is sent. */
static void test_less_is_sent(void **state)
{
	struct ddp_job job = job_of(100);
	struct told t = tell_of(&job, 0, 50, 50, 0);
	double each = 100.0 / LAYERS;

	(void)state;
	expect_near(MS(t.graph, CROSS) - MS(t.graph, "rows", CROSS),
		0.9 * each, 0.15, "of a busy link");
	/* In whatever order they are asked for. */
	expect_near(MS(t.graph, CROSS, "rows"), MS(t.graph, "rows", CROSS), 0,
		"order");
	forget(&t);
}

/* A tenth of the rows of each rank, others on each: a fifth. */
static void test_all_ranks_count(void **state)
{
	struct ddp_job job = job_of(100);
	struct told same = tell_of(&job, 0, 0, 100, 0);
	double least = MS(same.graph, "rows", CROSS);
	struct told other;

	(void)state;
	forget(&same);
	other = tell_of(&job, 0, 500, 100, 0);
	expect_near(MS(other.graph, "rows", CROSS) - least,
		0.1 * 100 / LAYERS, 0.05, "other rows");
	forget(&other);
}

/* It comes last and is needed first: nothing hides it. */
static void test_less_is_waited_for(void **state)
{
	struct ddp_job job = job_of(25);
	struct told t = tell_of(&job, 0, 0, 100, 0);
	double each = 25.0 / LAYERS, whole = MS(t.graph, CROSS);

	(void)state;
	assert_true(whole > computed_ms + each);
	expect_near(whole - MS(t.graph, "rows", CROSS), 0.9 * each, 0.2,
		"at the end of the backward pass");
	forget(&t);
}

/* Of a bucket of four, the last one's three others go as before. */
static void test_out_of_its_bucket(void **state)
{
	struct ddp_job job = job_of(100);
	struct told t;
	double each = 100.0 / LAYERS;

	(void)state;
	job.bucket_floats = 4 * FLOATS;
	t = tell_of(&job, 0, 0, 100, 0);
	expect_near(MS(t.graph, CROSS) - MS(t.graph, "rows", CROSS),
		0.9 * each, 0.3, "of a bucket of four");
	expect_near(MS(t.graph, "bucket=400kB", CROSS) - MS(t.graph,
		"bucket=400kB", "rows", CROSS), 0.9 * each, 0.1,
		"of other buckets");
	forget(&t);
}

/* Two of one size are told apart by the order of the forward pass. */
static void test_two_of_one_size(void **state)
{
	struct ddp_job job = job_of(100);
	struct told t;
	double each = 100.0 / LAYERS, both, one;

	(void)state;
	job.looks_up = 2;
	t = tell(&job);
	for (int r = 0; r < RANKS; r++) {
		(void)fact(r, 0, "embedding.a", ROWS, ROW_BYTES, 0, 100, 0);
		(void)fact(r, 1, "embedding.b", ROWS, ROW_BYTES, 0, 400, 0);
		wt_facts_of(t.run, (uint32_t)r, facts[r], 2);
	}
	both = MS(t.graph, CROSS) - MS(t.graph, "rows", CROSS);
	expect_near(both, 1.5 * each, 0.2, "both");
	/* More than half of b: the other's is the first layer's all the same. */
	for (int r = 0; r < RANKS; r++)
		(void)fact(r, 1, "embedding.b", ROWS, ROW_BYTES, 0, 501, 0);
	one = MS(t.graph, CROSS) - MS(t.graph, "rows", CROSS);
	expect_near(one, 0.9 * each, 0.2, "the first");
	for (int r = 0; r < RANKS; r++)
		wt_facts_of(t.run, (uint32_t)r, facts[r], 1);
	refuse(&t, "rows", CROSS, "which gradients are theirs");
	forget(&t);
}

static void test_three_ranks(void **state)
{
	struct ddp_job job = job_of(100);
	struct told t;
	double each = 100.0 / LAYERS;

	(void)state;
	job.ranks = 3;
	t = tell(&job);
	for (int r = 0; r < 3; r++)
		wt_facts_of(t.run, (uint32_t)r, fact(r, 0, "embedding.words",
			ROWS, ROW_BYTES, 100 * (uint32_t)r, 100, 0), 1);
	expect_near(MS(t.graph, CROSS) - MS(t.graph, "rows", CROSS),
		0.7 * each, 0.2, "three ranks");
	forget(&t);
}

/* What is narrowed is what is sent, on the wire and on the core. */
static void test_narrowed(void **state)
{
	struct ddp_job job = job_of(200);
	struct told t = tell_of(&job, 0, 0, 100, 0);
	double each = 200.0 / LAYERS;

	(void)state;
	expect_near(MS(t.graph, "compress=bf16,by=taut", CROSS) - MS(t.graph,
		"rows", "compress=bf16,by=taut", CROSS), 0.9 * each / 2, 0.2,
		"in 16 bits");
	forget(&t);
}

/* --- tied ------------------------------------------------------------------------------- */

/* The other use is the last layer, whose gradient comes first: all of it is sent beside
 * the rows, which are as many as they are. */
static void test_more_is_sent(void **state)
{
	static const struct { uint32_t n, other; } of[] = {
		{ 100, 0 }, { 100, LAYERS - 1 }, { 400, LAYERS - 1 } };
	struct ddp_job job = job_of(100);
	double ms[3], each = 100.0 / LAYERS;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct told t = tell_of(&job, 0, 0, of[i].n, of[i].other);

		ms[i] = MS(t.graph, "rows", CROSS);
		forget(&t);
	}
	expect_near(ms[1] - ms[0], each, 1.2, "tied");
	expect_near(ms[2] - ms[1], 0.3 * each, 0.1, "more rows");
}

static void test_less_comes_last(void **state)
{
	struct ddp_job job = job_of(25);
	struct told t = tell_of(&job, 0, 0, 100, LAYERS - 1);

	(void)state;
	expect_near(MS(t.graph, CROSS) - MS(t.graph, "rows", CROSS),
		0.9 * 25 / LAYERS, 0.2, "at the end of the backward pass");
	forget(&t);
}

/* Both parts are narrowed, and nothing waits for either but the update. */
static void test_tied_and_narrowed(void **state)
{
	struct ddp_job job = job_of(50);
	struct told t = tell_of(&job, 0, 0, 100, LAYERS - 1);

	(void)state;
	expect_near(MS(t.graph, "compress=bf16,by=taut", CROSS) - MS(t.graph,
		"rows", "compress=bf16,by=taut", CROSS), 0.9 * 50 / LAYERS / 2,
		0.3, "in 16 bits");
	forget(&t);
}

/* The later its other use has a gradient, the less there is to hide it under. */
static void test_how_early_it_comes(void **state)
{
	struct ddp_job job = job_of(25);
	double first = 0, before = 0;

	(void)state;
	job.us_by_float *= 1.6;
	for (int other = LAYERS - 1; other > 0; other -= 7) {
		struct told t = tell_of(&job, 0, 0, 100, (uint32_t)other);
		double ms = MS(t.graph, "rows", CROSS);

		assert_true(ms >= before);
		first = first > 0 ? first : ms;
		before = ms;
		forget(&t);
	}
	assert_true(before > first + 0.5);
}

/* Whoever replays what came of it finds the same. */
static void test_the_changed_graph_stands_alone(void **state)
{
	struct ddp_job job = job_of(48);
	struct told t = tell_of(&job, 0, 0, 100, LAYERS - 1);
	const char *changes[] = { "rows", CROSS };
	struct taut_prediction *p;
	struct taut_timeline timeline;
	struct taut_error err = { 0 };

	(void)state;
	assert_int_equal(taut_predict(t.graph, changes, 2, NULL, &p, &err), 0);
	assert_int_equal(taut_timeline_init(&timeline, p->graph, &err), 0);
	if (taut_replay(p->graph, NULL, &timeline, &err))
		fail_msg("%s", err.message);
	for (uint32_t op = 0; op < p->graph->n_ops; op++)
		assert_int_equal(timeline.start_ns[op], p->graph->start_ns[op]);
	taut_timeline_fini(&timeline);
	taut_prediction_destroy(p);
	forget(&t);
}

/* --- refused ------------------------------------------------------------------------------ */

static void test_needs_a_schedule(void **state)
{
	static const char *const no[] = { "schedule,by=taut",
		"schedule,barrier=cross", "schedule=fifo,by=taut",
		"schedule=fifo,barrier=cross,by=taut", "bucket=1MB" };
	struct ddp_job job = job_of(32);
	struct told t = tell_of(&job, 0, 0, 100, 0);

	(void)state;
	refuse(&t, "rows", NULL, "expected schedule=priority,barrier=cross,by=taut");
	for (size_t i = 0; i < sizeof no / sizeof *no; i++)
		refuse(&t, "rows", no[i], "expected schedule=priority,");
	forget(&t);
}

static void test_refusals(void **state)
{
	struct ddp_job job = job_of(32);
	struct told t = tell(&job);

	(void)state;
	refuse(&t, "rows", CROSS, "tells of no embedding");
	forget(&t);
	t = tell_of(&job, 0, 250, 251, 0); /* 501 of 1000 */
	refuse(&t, "rows", CROSS, "most rows are looked up");
	forget(&t);
	t = tell_of(&job, 0, 250, 250, 0);
	(void)MS(t.graph, "rows", CROSS);
	(void)fact(0, 0, "embedding.words", ROWS, ROW_BYTES + 4, 0, 100, 0);
	(void)fact(1, 0, "embedding.words", ROWS, ROW_BYTES + 4, 0, 100, 0);
	refuse(&t, "rows", CROSS, "which gradients are theirs");
	forget(&t);
	t = tell_of(&job, 0, 0, 100, LAYERS); /* of the step before */
	refuse(&t, "rows", CROSS, "when other uses have theirs");
	forget(&t);
	job.looks_up = 0;
	t = tell_of(&job, 0, 0, 100, 0);
	refuse(&t, "rows", CROSS, "which gradients are theirs");
	forget(&t);
	job.looks_up = job.no_shapes = 1;
	t = tell_of(&job, 0, 0, 100, 0);
	refuse(&t, "rows", CROSS, "shapes");
	forget(&t);
	job.no_shapes = 0;
	job.bucket_floats = 0;
	t = tell_of(&job, 0, 0, 100, 0);
	refuse(&t, "rows", CROSS, "rows: no all-reduces of gradients");
	forget(&t);
}

/* Beside all else: an answer that can be, or a line. */
static void test_beside_others(void **state)
{
	static const struct { const char *change, *why; } all[] = {
		{ "link=2x", NULL }, { "bucket=1MB", NULL },
		{ "compress=fp16,by=taut", NULL }, { "algorithm=flat", NULL },
		{ "host=2x", NULL }, { "slow=1,factor=1.5", NULL },
		{ "optimizer=fused", NULL }, { "ideal-network", NULL },
		{ "world=4", "other ranks" }, { "batch=2x", "other batches" },
		{ "accumulate=2", "is kept" }, { "rows", "twice" },
		{ "overlap=full", "" }, { "server=2", "" },
		{ "partition=100kB", "" } };
	struct ddp_job job = job_of(32);

	(void)state;
	job.update = "aten::_foreach_add_";
	for (uint32_t other = 0; other < LAYERS; other += LAYERS - 1)
		for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
			struct told t = tell_of(&job, 0, 0, 100, other);
			const char *changes[] = { all[i].change, "rows", CROSS };
			struct taut_prediction *p = NULL;
			struct taut_error err = { 0 };
			taut_status status = taut_predict(
				t.graph, changes, 3, NULL, &p, &err);

			if (status && (status != TAUT_EINVAL || !all[i].why ||
				!strlen(err.message)))
				fail_msg("%s: %s", all[i].change, err.message);
			if (!status && (p->after_ns <= 0 || (all[i].why &&
				*all[i].why)))
				fail_msg("%s is not refused", all[i].change);
			taut_prediction_destroy(p);
			forget(&t);
		}
}

static void test_no_memory(void **state)
{
	static const char *const changes[] = { "bucket=400kB", "rows", CROSS };
	struct ddp_job job = job_of(32);
	struct told t;

	(void)state;
	job.n_gradients = 4;
	job.steps = 3;
	t = tell_of(&job, 0, 0, 100, 3);
	for (long n = 0;; n += n < 900 ? 1 : 37) {
		struct taut_prediction *p = NULL;
		struct taut_error err = { 0 };
		taut_status status;

		alloc_fail_after(n);
		status = taut_predict(t.graph, changes, 3, NULL, &p, &err);
		alloc_fail_never();
		taut_prediction_destroy(p);
		if (!status)
			break;
		assert_int_equal(status, TAUT_ENOMEM);
	}
	forget(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unions),
		cmocka_unit_test(test_unlike),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_less_is_sent),
		cmocka_unit_test(test_all_ranks_count),
		cmocka_unit_test(test_less_is_waited_for),
		cmocka_unit_test(test_out_of_its_bucket),
		cmocka_unit_test(test_two_of_one_size),
		cmocka_unit_test(test_three_ranks),
		cmocka_unit_test(test_narrowed),
		cmocka_unit_test(test_more_is_sent),
		cmocka_unit_test(test_less_comes_last),
		cmocka_unit_test(test_tied_and_narrowed),
		cmocka_unit_test(test_how_early_it_comes),
		cmocka_unit_test(test_the_changed_graph_stands_alone),
		cmocka_unit_test(test_needs_a_schedule),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_beside_others),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
