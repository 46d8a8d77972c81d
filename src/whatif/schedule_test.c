/* schedule_test.c - the scheduler's what-if on a made-up DDP job whose answers
 * are worked out by hand.
 *
 * Recorded (ms): forward 16 of 16 layers, backward 32 with a gradient of 0.4 MB
 * behind each layer, each its own bucket on one lane, update 2. C is what all of
 * them take on the link. In the forward pass there are three small sums. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/alloc_fail.h"
#include "whatif/ddp_job.h"
#include "whatif/schedule.h"

enum { LAYERS = 16, FLOATS = 100000 };

static const double forward_ms = 16, backward_ms = 32, update_ms = 2;
/* What putting into place, launches and copies add to a step, at most. */
static const double small_ms = 0.4;

static struct ddp_job job_of(double c_ms)
{
	return (struct ddp_job) {
		.ranks = 2, .steps = 6, .n_gradients = LAYERS,
		.floats = FLOATS, .forward_us = forward_ms * 1e3,
		.compute_us = backward_ms * 1e3 / LAYERS,
		.optimizer_us = update_ms * 1e3, .bucket_floats = FLOATS,
		.us_by_float = c_ms * 1e3 / LAYERS / FLOATS, .layers = 1,
	};
}

static struct taut_prediction *predict(
	const struct taut_graph *graph, const char *const *changes, size_t n)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	if (taut_predict(graph, changes, n, NULL, &p, &err))
		fail_msg("%s: %s", changes[0], err.message);
	assert_true(p->low_ns <= p->after_ns && p->after_ns <= p->high_ns);
	return p;
}

static double step_ms(const struct taut_graph *graph, const char *change)
{
	struct taut_prediction *p = predict(graph, &change, 1);
	double ms = (double)p->after_ns / 1e6;

	taut_prediction_destroy(p);
	return ms;
}

static void refuse(const struct ddp_job *job, const char *a, const char *b,
	const char *word)
{
	struct told t = tell(job);
	const char *changes[] = { a, b };
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	if (taut_predict(t.graph, changes, b ? 2 : 1, NULL, &p, &err) !=
		TAUT_EINVAL)
		fail_msg("%s %s: not refused (%s)", a, b ? b : "", word);
	if (!strstr(err.message, word))
		fail_msg("'%s' does not say '%s'", err.message, word);
	assert_null(p);
	forget(&t);
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static void expect_between(double is, double low, double high, const char *what)
{
	print_message("%s: %.3f, expected %.3f to %.3f\n", what, is, low, high);
	assert_true(low <= is && is <= high);
}

/* --- the end of the step kept ---------------------------------------------------------- */

/* In the order of backward, whole: what DDP does. */
static void test_fifo_is_as_recorded(void **state)
{
	static const double c_ms[] = { 8, 24, 32, 64 };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct ddp_job job = job_of(c_ms[i]);
		struct told t = tell(&job);
		const char *change = "schedule=fifo";
		struct taut_prediction *p = predict(t.graph, &change, 1);

		expect_between((double)p->after_ns / 1e6,
			(double)p->before_ns / 1e6 - 0.02,
			(double)p->before_ns / 1e6 + 0.02, "fifo");
		taut_prediction_destroy(p);
		forget(&t);
	}
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Ends of transfers, in their order. */
static size_t list_ends(const struct taut_graph *g, int64_t *ends, size_t room)
{
	size_t n = 0;

	for (uint32_t op = 0; op < g->n_ops && n < room; op++)
		if (g->kind[op] == TAUT_OP_TRANSFER)
			ends[n++] = g->start_ns[op] + g->dur_ns[op];
	qsort(ends, n, sizeof *ends, by_value);
	return n;
}

/* Every transfer of a recorded job ends when it did. */
static void test_fifo_of_recordings(void **state)
{
	static const char *const paths[] = { "examples/ddp-gloo-2host",
		"examples/ddp-gloo-late-rank" };
	static int64_t was[4096], is[4096];
	const char *change = "schedule=fifo";

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct taut_error err = { 0 };
		struct taut_run *run;
		struct taut_graph *graph;
		struct taut_prediction *p;
		int64_t worst = 0;
		size_t n;

		if (taut_run_open(&paths[i], 1, NULL, &run, &err) ||
			taut_graph_build(run, NULL, &graph, &err))
			fail_msg("%s", err.message);
		p = predict(graph, &change, 1);
		n = list_ends(graph, was, 4096);
		assert_int_equal(list_ends(p->graph, is, 4096), n);
		for (size_t k = 0; k < n; k++)
			if (llabs(is[k] - was[k]) > worst)
				worst = llabs(is[k] - was[k]);
		print_message("%s: %zu transfers, at worst %lld ns off\n",
			paths[i], n, (long long)worst);
		assert_true(n > 40 && worst <= 1000);
		taut_prediction_destroy(p);
		taut_graph_destroy(graph);
		taut_run_close(run);
	}
}

/* No transfer takes time, nor do rounds of agreement, in whichever order it is said. */
static void test_without_a_network(void **state)
{
	static const char *const stacks[][2] = { { "ideal-network", "bucket=1MB" },
		{ "ideal-network", "link,latency=1ms" },
		{ "ideal-network", "schedule,partition=100kB,by=taut" },
		{ "schedule,partition=100kB,by=taut", "ideal-network" } };
	const char *path = "examples/ddp-gloo-late-rank";
	struct taut_error err = { 0 };
	struct taut_run *run;
	struct taut_graph *graph;
	int64_t scheduled = 0;

	(void)state;
	if (taut_run_open(&path, 1, NULL, &run, &err) ||
		taut_graph_build(run, NULL, &graph, &err))
		fail_msg("%s", err.message);
	for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
		struct taut_prediction *p = predict(graph, stacks[i], 2);
		const struct taut_graph *g = p->graph;
		size_t n = 0;

		for (uint32_t op = 0; op < g->n_ops; op++) {
			if (g->kind[op] != TAUT_OP_TRANSFER)
				continue;
			n++;
			if (g->dur_ns[op])
				fail_msg("%s %s: a transfer of %lld ns",
					stacks[i][0], stacks[i][1],
					(long long)g->dur_ns[op]);
		}
		assert_true(n > 40);
		if (i == 2)
			scheduled = p->after_ns;
		if (i == 3)
			assert_int_equal(p->after_ns, scheduled);
		taut_prediction_destroy(p);
	}
	taut_graph_destroy(graph);
	taut_run_close(run);
}

/* Rounds pass the link that there is in the end. */
static void test_rounds_of_a_link(void **state)
{
	static const char *const orders[][2] = {
		{ "link,latency=2ms", "schedule,partition=100kB" },
		{ "schedule,partition=100kB", "link,latency=2ms" } };
	struct ddp_job job = job_of(32);
	struct told t = tell(&job);
	int64_t ns[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct taut_prediction *p = predict(t.graph, orders[i], 2);

		ns[i] = p->after_ns;
		taut_prediction_destroy(p);
	}
	assert_int_equal(ns[0], ns[1]);
	forget(&t);
}

static uint32_t messages_of_a_piece(const struct told *t, const char *algorithm)
{
	const char *const stack[] = { algorithm, "schedule,by=taut" };
	struct tauti_whatif w = { .graph = t->graph,
		.arena = taut_arena_create() };
	struct tauti_job *job = NULL;
	struct taut_costs *costs = NULL;
	struct taut_error err = { 0 };
	uint32_t steps;

	if (tauti_job_create(t->graph, &job, &err) ||
		taut_costs_create(t->graph, &costs, &err) ||
		taut_edit_create(t->graph, &w.edit, &err))
		fail_msg("%s", err.message);
	w.job = job;
	w.costs = costs;
	assert_int_equal(tauti_whatif_reset(&w, &err), 0);
	for (int i = algorithm ? 0 : 1; i < 2; i++) {
		struct tauti_change change;

		if (tauti_change_read(stack[i], w.arena, &change, &err) ||
			change.is->apply(&w, &change, &err))
			fail_msg("%s: %s", stack[i], err.message);
	}
	steps = w.schedule->options.steps;
	taut_vec_free(&w.notes);
	taut_vec_free(&w.ways);
	taut_edit_destroy(w.edit);
	taut_costs_destroy(costs);
	tauti_job_destroy(job);
	taut_arena_destroy(w.arena);
	return steps;
}

/* What ranks say waits for one message of each piece: of how many it goes in. */
static void test_rounds_go_by_the_way(void **state)
{
	static const struct {
		const char *algorithm;
		uint32_t of_two, of_four;
	} ways[] = {
		{ NULL, 1, 6 }, { "algorithm=ring", 2, 6 },
		{ "algorithm=direct", 2, 2 }, { "algorithm=flat", 1, 1 },
		{ "algorithm=halving-doubling", 2, 4 },
		{ "algorithm=doubling", 1, 2 }, { "algorithm=server", 2, 2 },
	};
	struct ddp_job job = job_of(32);
	struct told two = tell(&job), four;

	(void)state;
	job.ranks = 4;
	four = tell(&job);
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		assert_int_equal(messages_of_a_piece(&two, ways[i].algorithm),
			ways[i].of_two);
		assert_int_equal(messages_of_a_piece(&four, ways[i].algorithm),
			ways[i].of_four);
	}
	forget(&two);
	forget(&four);
}

/* f + max(b, C) + u, to within a layer of either. */
static void test_behind_a_barrier(void **state)
{
	(void)state;
	for (double c = 16; c <= 128; c *= 2) {
		struct ddp_job job = job_of(c);
		struct told t = tell(&job);
		double bound = forward_ms + larger(backward_ms, c) + update_ms;

		expect_between(step_ms(t.graph,
			"schedule,partition=100kB,message=0us"), bound, bound +
			larger(backward_ms, c) / LAYERS + small_ms +
			LAYERS * 4 * 0.1, "kept");
		forget(&t);
	}
}

/* --- crossed --------------------------------------------------------------------------------- */

/* Whatever the link does beside gradients. */
static double small_sums_ms(const struct ddp_job *job)
{
	return 7 * 12500 * job->us_by_float / 1e3;
}

/* max(f + b + u, C). From above: what a layer takes of each, what is under way
 * when a gradient comes, and latencies of pieces, of which two go on at most. */
static void test_crossing_reaches_the_bound(void **state)
{
	(void)state;
	for (double c = 16; c <= 160; c += 16) {
		struct ddp_job job = job_of(c);
		struct told t = tell(&job);
		double busy = forward_ms + backward_ms + update_ms;
		double bound = larger(busy, c);
		double is = step_ms(t.graph, "schedule,partition=100kB,"
			"message=0us,barrier=cross");

		expect_between(is, bound - 0.05, bound + (busy + c) / LAYERS +
			small_sums_ms(&job) + small_ms + LAYERS * 4 * 0.1,
			"crossed");
		forget(&t);
	}
}

/* With C = f + b + u the gain is the largest that there is. First come, first
 * served gives none: what the next step needs first comes last. */
static void test_crossing_gains_most_where_both_take_as_long(void **state)
{
	struct ddp_job job = job_of(forward_ms + backward_ms + update_ms);
	struct told t = tell(&job);
	double kept = step_ms(t.graph, "schedule=fifo");
	double fifo = step_ms(t.graph, "schedule=fifo,barrier=cross");
	double crossed = step_ms(t.graph, "schedule,partition=200kB,"
		"message=0us,barrier=cross");

	(void)state;
	print_message("kept %.2f, fifo %.2f, crossed %.2f\n", kept, fifo,
		crossed);
	expect_between(fifo, kept - 2, kept + 0.1, "fifo");
	assert_true(kept / crossed > 1.15);
	forget(&t);
}

/* The first layer's gradient, the last of all, goes a round later. Both ranks are
 * ready at once, so that nobody has to ask: one message. */
static void test_rounds_cost(void **state)
{
	struct ddp_job job = job_of(16);
	struct told t = tell(&job);
	double free_ms = step_ms(t.graph,
		"schedule,partition=1MB,message=0us,barrier=cross");
	double some_ms = step_ms(t.graph,
		"schedule,partition=1MB,message=500us,barrier=cross");

	(void)state;
	expect_between(some_ms, free_ms + 0.49, free_ms + 0.51, "slow rounds");
	forget(&t);
}

/* One module of all layers begins when it has all its parameters: as behind a barrier, but
 * for the step's mark; layers that are modules, or none, begin one by one. */
static void test_a_module_begins_with_all_it_has(void **state)
{
	struct ddp_job job = job_of(64);
	double ms[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct told t;

		job.whole = i == 1;
		job.block_bytes = i == 2;
		t = tell(&job);
		ms[i] = step_ms(t.graph, "schedule,partition=100kB,message=0us,"
			"barrier=cross");
		forget(&t);
	}
	expect_between(ms[1], forward_ms + 64 + update_ms,
		forward_ms + 64 + update_ms + 64.0 / LAYERS + small_ms + LAYERS * 4 * 0.1 +
		small_sums_ms(&job), "one module");
	expect_between(ms[0], 64, 64 + 16, "layers");
	expect_between(ms[2], ms[0] - 0.01, ms[0] + 0.01, "each a module");
}

/* --- by Taut's exchange ---------------------------------------------------------------------- */

static double stack_ms(const struct taut_graph *graph, const char *bucket,
	const char *schedule)
{
	const char *changes[] = { bucket, schedule };
	struct taut_prediction *p = predict(
		graph, bucket ? changes : changes + 1, bucket ? 2 : 1);
	double ms = (double)p->after_ns / 1e6;

	taut_prediction_destroy(p);
	return ms;
}

/* Each gradient is handed over in 25 us, and is 10 more where its update is late; a
 * launch of a bucket took 4, a copy out of it 2, and one into it what is told. Computation alone decides; but
 * behind a barrier all copies but the last are made while the last transfer goes on,
 * which begins with its launch. Each piece takes 30 us of the core, that of the last
 * bucket when nothing else wants it. */
static void test_the_exchange_takes_over(void **state)
{
	const struct {
		const char *bucket, *end;
		double copy_us, us, pieces_us;
	} cases[] = {
		{ NULL, "barrier=keep", 0, LAYERS * (25 - 4) + 4 - 2, 15 * 30 },
		{ NULL, "barrier=cross", 0, LAYERS * (25 + 10 - 4 - 2), 15 * 30 },
		{ NULL, "barrier=cross", 50, LAYERS * (25 + 10 - 4 - 2 - 50),
			15 * 30 },
		{ "bucket=1.6MB", "barrier=cross", 50,
			LAYERS * (25 + 10 - 2 - 50) - LAYERS / 4 * 4, 3 * 30 },
		/* Nothing was summed: two buckets are laid, and copies at 8 bytes a
		 * nanosecond. A launch takes 60 us, beside which the second one's
		 * transfer goes on for as long: 20 until it begins, 44 on the link. */
		{ "world=2,link=1000gbit,latency=0us,drag=0", "barrier=cross", 0,
			LAYERS * (25 + 10 - 50 - 50) - 60, 2 * 30 + 17 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct ddp_job job = job_of(1);
		struct told t;
		char as_it_is[80], ours[100];
		double more;

		job.copy_us = cases[i].copy_us;
		if (cases[i].bucket && !strncmp(cases[i].bucket, "world", 5)) {
			job.bucket_floats = 0;
			job.ranks = 1;
		}
		t = tell(&job);
		snprintf(as_it_is, sizeof as_it_is,
			"schedule,partition=2MB,message=0us,%s", cases[i].end);
		snprintf(ours, sizeof ours, "%s,by=taut", as_it_is);
		more = stack_ms(t.graph, cases[i].bucket, ours) -
			stack_ms(t.graph, cases[i].bucket, as_it_is);
		more -= cases[i].pieces_us / 1e3;
		expect_between(more, cases[i].us / 1e3 - 0.01,
			cases[i].us / 1e3 + 0.01, cases[i].end);
		forget(&t);
	}
}

/* Nothing waits at the step's end for what is narrowed either: over a link of half the rate
 * a step is what it is without, but for casts (16 of 0.8 passes of 8 GB/s, before and
 * behind) and what a core takes of 16 bits. */
static void test_narrowed_gradients_cross(void **state)
{
	static const double c_ms[] = { 30, 45, 60 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct ddp_job half = job_of(c_ms[i]), whole = job_of(2 * c_ms[i]);
		struct told a = tell(&half), b = tell(&whole);
		const char *cross = "schedule,partition=400kB,message=0us,"
			"barrier=cross,by=taut";
		const char *narrow[] = { "compress=bf16,by=taut", cross };
		struct taut_prediction *p = predict(b.graph, narrow, 2);
		double as_it_is = step_ms(a.graph, cross);

		expect_between((double)p->after_ns / 1e6, as_it_is,
			as_it_is + 16 * 2 * 0.04 + small_sums_ms(&half) + 0.5,
			"in 16 bits");
		taut_prediction_destroy(p);
		forget(&a);
		forget(&b);
	}
}

/* Half a bucket in each piece, in place of a whole one: one more for each bucket but the
 * last, whose core is free, at 30 us. What else that changes it changes in a framework's
 * exchange, too. */
static void test_pieces_take_the_core(void **state)
{
	struct ddp_job job = job_of(16);
	struct told t = tell(&job);
	double more[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		char own[80], ours[90];

		snprintf(own, sizeof own, "schedule,partition=%s,message=0us",
			i ? "200kB" : "400kB");
		snprintf(ours, sizeof ours, "%s,by=taut", own);
		more[i] = step_ms(t.graph, ours) - step_ms(t.graph, own);
	}
	expect_between(more[1] - more[0], 0.44, 0.46, "more pieces");
	forget(&t);
}

/* The graph that is handed out replays to the same times by itself. */
static void test_the_changed_graph_stands_alone(void **state)
{
	struct ddp_job job = job_of(48);
	struct told t = tell(&job);
	const char *change = "schedule,partition=100kB,barrier=cross";
	struct taut_prediction *p = predict(t.graph, &change, 1);
	struct taut_timeline timeline;
	struct taut_error err = { 0 };

	(void)state;
	assert_int_equal(taut_timeline_init(&timeline, p->graph, &err), 0);
	if (taut_replay(p->graph, NULL, &timeline, &err))
		fail_msg("%s", err.message);
	for (uint32_t op = 0; op < p->graph->n_ops; op++) {
		assert_int_equal(timeline.start_ns[op], p->graph->start_ns[op]);
		assert_int_equal(timeline.end_ns[op], p->graph->start_ns[op] +
			p->graph->dur_ns[op]);
	}
	taut_timeline_fini(&timeline);
	taut_prediction_destroy(p);
	forget(&t);
}

/* --- stacks and refusals -------------------------------------------------------------------- */

static void test_stacks(void **state)
{
	struct ddp_job job = job_of(64);
	struct told t = tell(&job);
	const char *faster[] = { "schedule=fifo", "link=2x" };
	const char *buckets[] = { "bucket=1.6MB", "schedule=fifo" };
	/* the same waits as with a schedule, but none in pieces */
	const char *link[] = { "link=2x", "partition=1GB" };
	const char *only[] = { "bucket=1.6MB", "partition=1GB" };
	const char *world[] = { "world=4", "schedule=fifo" };
	const char *ranks[] = { "world=4", "partition=1GB" };
	const char *const *with[] = { faster, buckets, world };
	const char *const *without[] = { link, only, ranks };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct taut_prediction *a = predict(t.graph, with[i], 2);
		struct taut_prediction *b = predict(t.graph, without[i], 2);

		expect_between((double)a->after_ns / 1e6,
			(double)b->after_ns / 1e6 - 0.05,
			(double)b->after_ns / 1e6 + 0.05, with[i][0]);
		taut_prediction_destroy(a);
		taut_prediction_destroy(b);
	}
	forget(&t);
}

static void test_refusals(void **state)
{
	struct ddp_job job = job_of(32), other = job;

	(void)state;
	refuse(&job, "schedule=first", NULL, "priority|fifo");
	refuse(&job, "schedule,partition=10", NULL, "1 kB or more");
	refuse(&job, "schedule,credit=2x", NULL, "1 kB or more");
	refuse(&job, "schedule,order=declared", NULL, "expected schedule=fifo");
	refuse(&job, "schedule", "schedule=fifo", "a schedule already");
	refuse(&job, "schedule,by=gloo", NULL, "framework|taut");
	refuse(&job, "schedule", "world=4", "put schedule behind it");
	refuse(&job, "schedule", "bucket=2MB", "put schedule behind it");
	other.bucket_floats = 0;
	refuse(&other, "schedule", NULL, "no all-reduces of gradients");
	other.ranks = 1; /* of 960 bytes each: 3 pieces more than 2^32 */
	other.no_shapes = 1;
	refuse(&other, "world=2,link=1000gbit,gradients=4123168607040B,"
		"bucket=10TB,first=10TB", "schedule,partition=1kB",
		"million operations: expected at most");
	other = job;
	other.layers = 0;
	refuse(&other, "schedule,barrier=cross", NULL, "cannot be told");
	other = job;
	other.no_shapes = 1;
	refuse(&other, "schedule,barrier=cross", NULL, "shapes");
	other = job;
	other.update = "aten::_foreach_norm";
	refuse(&other, "schedule,barrier=cross", NULL,
		"_foreach_norm needs all gradients");
	other.update = "aten::_foreach_add_";
	struct told t = tell(&other);
	assert_true(step_ms(t.graph, "schedule,barrier=cross") > 0);
	forget(&t);
}

static void test_no_memory(void **state)
{
	static const char *const all[] = {
		"schedule=fifo", "schedule,partition=100kB,barrier=cross,by=taut"
	};
	struct ddp_job job = job_of(32);
	struct told t;

	(void)state;
	job.n_gradients = 4;
	job.steps = 3;
	t = tell(&job);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (long n = 0;; n += n < 400 ? 1 : 37) {
			struct taut_prediction *p = NULL;
			struct taut_error err = { 0 };
			taut_status status;

			alloc_fail_after(n);
			status = taut_predict(t.graph, &all[i], 1, NULL, &p,
				&err);
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
		cmocka_unit_test(test_fifo_is_as_recorded),
		cmocka_unit_test(test_fifo_of_recordings),
		cmocka_unit_test(test_without_a_network),
		cmocka_unit_test(test_rounds_of_a_link),
		cmocka_unit_test(test_rounds_go_by_the_way),
		cmocka_unit_test(test_behind_a_barrier),
		cmocka_unit_test(test_crossing_reaches_the_bound),
		cmocka_unit_test(
			test_crossing_gains_most_where_both_take_as_long),
		cmocka_unit_test(test_rounds_cost),
		cmocka_unit_test(test_a_module_begins_with_all_it_has),
		cmocka_unit_test(test_the_exchange_takes_over),
		cmocka_unit_test(test_narrowed_gradients_cross),
		cmocka_unit_test(test_pieces_take_the_core),
		cmocka_unit_test(test_the_changed_graph_stands_alone),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
