/* What a recording tells, against jobs whose costs are known, and against real
 * recordings: these must replay to themselves. */
#include "tests/support/unit.h"

#include <sys/stat.h>

#include "job_by_hand.h"
#include "tests/support/alloc_fail.h"

static struct taut_costs *learn(const struct taut_graph *graph)
{
	struct taut_costs *costs;
	struct taut_error err;

	if (taut_costs_create(graph, &costs, &err))
		fail_msg("%s", err.message);
	return costs;
}

static void near(double got, double expected, double within)
{
	if (!(fabs(got - expected) <= within))
		fail_msg("%.9g, expected %.9g +- %g", got, expected, within);
}

static int64_t apart(int64_t a, int64_t b)
{
	return a < b ? b - a : a - b;
}

/* The unchanged job with the costs that were learned, against it without. */
static void check_replays_to_itself(
	const struct taut_graph *graph, const struct taut_costs *costs)
{
	struct taut_sharing *sharing;
	struct taut_timeline plain, shared;
	struct taut_error err;
	struct taut_replay_edit edit = { .dur_ns = costs->dur_ns };
	int64_t before, after;

	assert_int_equal(taut_sharing_create(graph, &costs->site,
		costs->transfers, &sharing, &err), TAUT_OK);
	assert_int_equal(taut_timeline_init(&plain, graph, &err), TAUT_OK);
	assert_int_equal(taut_timeline_init(&shared, graph, &err), TAUT_OK);
	edit.sharing = sharing;
	assert_int_equal(taut_replay(graph, NULL, &plain, &err), TAUT_OK);
	if (taut_replay(graph, &edit, &shared, &err))
		fail_msg("%s", err.message);
	for (uint32_t i = 0; i < graph->n_ops; i++)
		if (apart(plain.end_ns[i], shared.end_ns[i]) > 1)
			fail_msg("op %u ends at %lld, not %lld", i,
				(long long)shared.end_ns[i],
				(long long)plain.end_ns[i]);
	assert_int_equal(taut_steady_step(graph, plain.start_ns, plain.end_ns,
		&before, &err), TAUT_OK);
	assert_int_equal(taut_steady_step(graph, shared.start_ns,
		shared.end_ns, &after, &err), TAUT_OK);
	assert_true(apart(before, after) <= 1);
	taut_timeline_fini(&plain);
	taut_timeline_fini(&shared);
	taut_sharing_destroy(sharing);
}

/* --- jobs whose costs are known ------------------------------------------------------*/

static void test_one_transfer_at_a_time(void **state)
{
	(void)state;
	struct job *job = job_create(&(struct job_truth){ .ranks = 4,
		.ways = 1, .every = 4, .alpha = 150e3, .beta = 2 });
	struct taut_costs *costs = learn(&job->graph);
	assert_int_equal(costs->site.n_hosts, 4);
	assert_int_equal(costs->n_classes, 1);
	const struct taut_cost_class *class = &costs->classes[0];
	near(class->line.alpha, 150e3, 100);
	near(class->line.beta, 2, 1e-4);
	near(class->rate_gbs, 0.5, 1e-4);
	assert_int_equal(class->group_size, 4);
	assert_int_equal(class->least_bytes, 400000);
	assert_int_equal(class->most_bytes, 2000000);
	assert_true(class->on_network);
	for (uint32_t i = 0; i < job->graph.n_collectives; i++) {
		near(costs->transfers[i].amount, job->truth[i].amount, 100);
		near((double)costs->transfers[i].latency_ns, 150e3, 100);
		near(costs->byte_ns[i], 2, 1e-3);
	}
	check_replays_to_itself(&job->graph, costs);
	taut_costs_destroy(costs);
	job_destroy(job);
}

/* A ring played on the links that were learnt takes what it was recorded to, on any
 * sort of them. */
static void check_played(int one_host)
{
	struct job *job = job_create(&(struct job_truth){ .ranks = 4,
		.ways = 1, .every = 4, .alpha = 150e3, .beta = 2,
		.one_host = one_host });
	struct taut_costs *costs = learn(&job->graph);
	struct taut_play_host hosts[JOB_RANKS];
	struct taut_play_net net;
	taut_costs_net(costs, hosts, &net);
	assert_int_equal(net.n_ranks, 4);
	assert_int_equal(net.n_hosts, one_host ? 1 : 4);
	near((double)(one_host ? net.local_ns : net.network_ns), 150e3 / 6, 20);
	near(one_host ? net.local : hosts[3].in, 0.5, 1e-4);
	near(one_host ? hosts[0].in : net.local, 0, 0);
	for (uint32_t i = 0; i < job->graph.n_collectives; i++) {
		struct taut_play_call call = { .way = TAUT_WAY_RING,
			.count = (uint64_t)job->collectives[i].bytes };
		struct taut_play_result r;
		assert_int_equal(taut_play(&net, &call, &r, NULL), TAUT_OK);
		near((double)r.time_ns, job->truth[i].amount +
			(double)job->truth[i].latency_ns, 200);
	}
	taut_costs_destroy(costs);
	job_destroy(job);
}

static void test_links_to_play_on(void **state)
{
	(void)state;
	check_played(0);
	check_played(1);
}

/* Their parts of the link are as the replay shares it: exactly found again. */
static void test_transfers_that_share(void **state)
{
	(void)state;
	struct job *job = job_create(&(struct job_truth){ .ranks = 2,
		.ways = 2, .every = 2, .beta = 30 });
	struct taut_costs *costs = learn(&job->graph);
	near(costs->classes[0].line.beta, 30, 0.02);
	for (uint32_t i = 0; i < job->graph.n_collectives; i++)
		near(costs->transfers[i].amount +
			(double)costs->transfers[i].latency_ns,
			job->truth[i].amount,
			2 * costs->classes[0].line.alpha + 10);
	check_replays_to_itself(&job->graph, costs);
	taut_costs_destroy(costs);
	job_destroy(job);
}

/* One transfer gets twice as much of the link as the other: what both take
 * together tells the rate, and neither by itself. What changes is counted by
 * that, what does not is left as it was. */
static void test_unfair_shares(void **state)
{
	(void)state;
	struct job *job = job_create(&(struct job_truth){ .ranks = 2,
		.ways = 2, .every = 2, .beta = 30, .unfair = 2 });
	struct taut_costs *costs = learn(&job->graph);
	uint32_t n = job->graph.n_collectives, off = 0;
	near(costs->classes[0].line.beta, 30, 0.1);
	for (uint32_t i = 0; i < n; i++) {
		struct taut_law_in as = taut_costs_law_in(costs, i);
		double truth = job->truth[i].amount;
		off += fabs(costs->transfers[i].amount / truth - 1) > 0.1;
		as.bytes *= 2;
		near(taut_costs_transfer(costs, i, &as, 0).amount, 2 * truth,
			0.05 * truth);
	}
	assert_true(off > n / 2);
	check_replays_to_itself(&job->graph, costs);
	taut_costs_destroy(costs);
	job_destroy(job);
}

static void check_drag(int has_sizes, uint32_t every, double drag)
{
	struct job *job = job_create(&(struct job_truth){ .ranks = 3,
		.ways = 1, .every = every, .alpha = 20e3, .beta = 1.6,
		.drag = drag, .has_sizes = has_sizes });
	struct taut_costs *costs = learn(&job->graph);
	near(costs->drag, drag, 0.01);
	assert_true(costs->n_drag > 0);
	assert_true(costs->drag_error < 0.1);
	for (uint32_t i = 0; i < job->graph.n_ops; i++)
		if (job->graph.kind[i] == TAUT_OP_HOST)
			near((double)costs->dur_ns[i],
				(double)job->true_ns[i],
				0.02 * (double)job->true_ns[i]);
	for (uint32_t i = 0; i < job->graph.n_collectives; i++)
		assert_true(costs->transfers[i].core == costs->drag);
	check_replays_to_itself(&job->graph, costs);
	taut_costs_destroy(costs);
	job_destroy(job);
}

static void test_drag_by_sizes(void **state)
{
	(void)state;
	check_drag(1, 8, 0.25);
	check_drag(1, 8, 0.05);
}

/* Steps are alike, but for the bytes: operations that the transfers of one step
 * reach and those of another do not. */
static void test_drag_by_place(void **state)
{
	(void)state;
	check_drag(0, 8, 0.3);
}

/* One step is slower by a third, whatever moves, and has more beside transfers
 * than the others: that is not drag. */
static void test_a_slow_step(void **state)
{
	(void)state;
	struct job *job = job_create(&(struct job_truth){ .ranks = 3,
		.ways = 1, .every = 8, .beta = 1.6, .drag = 0.2,
		.slow = 1.0 / 3 });
	struct taut_costs *costs = learn(&job->graph);
	near(costs->drag, 0.2, 0.02);
	assert_true(costs->n_drag > 0);
	taut_costs_destroy(costs);
	job_destroy(job);
}

static void test_no_drag(void **state)
{
	(void)state;
	struct job *job = job_create(&(struct job_truth){ .ranks = 2,
		.ways = 1, .every = 8, .beta = 1.6, .has_sizes = 1 });
	struct taut_costs *costs = learn(&job->graph);
	near(costs->drag, 0, 0.001);
	assert_true(costs->n_drag > 0);
	taut_costs_destroy(costs);
	job_destroy(job);
}

/* Sizes over less than a factor of four say nothing of latency: a message has
 * what TCP usually takes, and that is no more than the shortest transfer. */
static void test_latency_that_is_not_told(void **state)
{
	(void)state;
	struct job *job = job_create(&(struct job_truth){ .ranks = 2,
		.ways = 1, .every = 8, .alpha = 3e6, .beta = 10 });
	for (uint32_t i = 0; i < job->graph.n_collectives; i++)
		job->collectives[i].bytes = 1000000 + 400000 * (i % 3);
	struct taut_costs *costs = learn(&job->graph);
	near(costs->classes[0].line.alpha, 100e3, 1);
	near(costs->classes[0].line.alpha_error, 100e3, 1);
	taut_costs_destroy(costs);
	job_destroy(job);
	job = job_create(&(struct job_truth){ .ranks = 2, .ways = 1,
		.every = 8, .beta = 0.01, .one_host = 1 });
	for (uint32_t i = 0; i < job->graph.n_collectives; i++)
		job->collectives[i].bytes = 1000000;
	costs = learn(&job->graph);
	near(costs->classes[0].line.alpha, 4000 / 2, 10);
	near(costs->classes[0].line.beta, 0.01, 0.01);
	taut_costs_destroy(costs);
	job_destroy(job);
}

/* Of transfers of one size whose shortest is a slip of the clocks; 0: none
 * is. */
static struct taut_line line_with(int64_t slip_ns, double clocks_us)
{
	struct job *job = job_create(&(struct job_truth){ .ranks = 2,
		.ways = 1, .every = 8, .alpha = 20e3, .beta = 0.01,
		.one_host = 1 });
	struct taut_line line;

	for (uint32_t i = 0; i < job->graph.n_collectives; i++)
		job->collectives[i].bytes = 1000000;
	for (uint32_t i = 0; slip_ns && i < 2; i++)
		job->dur_ns[job->member_arrive[
			job->collectives[3].first_member + i] + 1] = slip_ns;
	job->clocks[1].uncertainty_us = clocks_us;
	struct taut_costs *costs = learn(&job->graph);
	line = costs->classes[0].line;
	taut_costs_destroy(costs);
	job_destroy(job);
	return line;
}

/* One stray does not tell the latency; what the clocks are unsure by, the latency is. */
static void test_one_short_transfer(void **state)
{
	(void)state;
	struct taut_line line = line_with(0, 0), slip = line_with(100, 0);

	assert_in_range(line.alpha, 20e3 / 2, (20e3 + 20e3) / 2);
	near(line.alpha_error, line.alpha, 0);
	near(slip.alpha, line.alpha, line.alpha / 2);
	near(slip.beta, line.beta, line.beta / 2);
	near(line_with(1, 0).alpha, slip.alpha, 0);
	line = line_with(100, 30);
	near(line.alpha, slip.alpha, 0);
	near(line.alpha_error, slip.alpha_error + 15e3, 1);
	near(line_with(100, 1e6).alpha_error, 100e3, 1);
}

/* Everything is beside transfers, or nothing: not told. */
static void test_nothing_to_compare(void **state)
{
	(void)state;
	struct job *job = job_create(&(struct job_truth){ .ranks = 2,
		.ways = 2, .every = 1, .beta = 9, .drag = 0.2,
		.has_sizes = 0 });
	struct taut_costs *costs = learn(&job->graph);
	near(costs->drag, 0, 0);
	near(costs->drag_error, 0.137, 0);
	assert_int_equal(costs->n_drag, 0);
	check_replays_to_itself(&job->graph, costs);
	taut_costs_destroy(costs);
	job_destroy(job);
}

static void test_on_one_host(void **state)
{
	(void)state;
	struct job *job = job_create(&(struct job_truth){ .ranks = 4,
		.ways = 1, .every = 4, .alpha = 5e3, .beta = 1,
		.one_host = 1 });
	struct taut_costs *costs = learn(&job->graph);
	assert_int_equal(costs->site.n_hosts, 1);
	assert_false(costs->classes[0].on_network);
	near(costs->classes[0].line.beta, 1, 1e-4);
	check_replays_to_itself(&job->graph, costs);
	taut_costs_destroy(costs);
	job_destroy(job);
}

static void test_what_has_no_flow(void **state)
{
	(void)state;
	struct job *job = job_create(&(struct job_truth){ .ranks = 2,
		.ways = 1, .every = 4, .beta = 2 });
	job->collectives[0].kind = TAUT_COLL_BARRIER;
	job->collectives[1].bytes = 0;
	job->collectives[2].bytes = -1;
	struct taut_costs *costs = learn(&job->graph);
	for (int i = 0; i < 3; i++)
		assert_int_equal(costs->class_of[i], TAUT_NONE);
	near(costs->transfers[0].amount, 0, 0);
	near(costs->transfers[1].amount, 0, 0);
	assert_true(costs->transfers[2].amount > 0);
	near(costs->byte_ns[2], 0, 0);
	uint32_t op = job->graph.member_arrive[0] + 1;
	assert_int_equal(costs->dur_ns[op], job->graph.dur_ns[op]);
	/* bytes that are not told change in proportion to what is asked for */
	struct taut_law_in as = taut_costs_law_in(costs, 2);
	struct taut_transfer t = taut_costs_transfer(costs, 2, &as, 0);
	near(t.amount, costs->transfers[2].amount, 0);
	check_replays_to_itself(&job->graph, costs);
	taut_costs_destroy(costs);
	job_destroy(job);
}

/* --- other transfers -----------------------------------------------------------------*/

static void test_other_transfers(void **state)
{
	(void)state;
	struct job *job = job_create(&(struct job_truth){ .ranks = 4,
		.ways = 1, .every = 4, .alpha = 120e3, .beta = 2,
		.drag = 0.1, .has_sizes = 1 });
	struct taut_costs *costs = learn(&job->graph);
	struct taut_law_in as = taut_costs_law_in(costs, 1);
	assert_int_equal(as.ranks, 4);
	assert_int_equal(as.hosts, 4);
	near(as.bytes, (double)job->collectives[1].bytes, 0);
	/* the same, however unsure the line */
	for (int error = -2; error <= 2; error++) {
		struct taut_transfer t =
			taut_costs_transfer(costs, 1, &as, error);
		near(t.amount + (double)t.latency_ns,
			costs->transfers[1].amount +
			(double)costs->transfers[1].latency_ns, 1);
	}
	struct taut_transfer was = costs->transfers[1], t;
	as.bytes /= 2;
	t = taut_costs_transfer(costs, 1, &as, 0);
	near(t.amount, was.amount / 2, 200);
	near((double)t.latency_ns, (double)was.latency_ns, 0);
	near(t.core, costs->drag, 0);
	/* a tree of four: 4 messages for 6, 2 S for 3/2 S */
	as.bytes *= 2;
	struct taut_law tree;
	as.algorithm = TAUT_ALGO_TREE;
	assert_int_equal(taut_law_count(&as, &tree, NULL), TAUT_OK);
	as.counted = &tree;
	t = taut_costs_transfer(costs, 1, &as, 0);
	as.counted = NULL;
	near(t.amount, was.amount * 2 / 1.5, 500);
	near((double)t.latency_ns, (double)was.latency_ns * 4 / 6, 1);
	/* eight ranks, from the line alone */
	as.algorithm = TAUT_ALGO_RING;
	as.ranks = as.hosts = 8;
	as.bytes = 1e6;
	t = taut_costs_transfer(costs, TAUT_NONE, &as, 0);
	near(t.amount, 2 * 1.75e6, 1000);
	near((double)t.latency_ns, 120e3 * 14 / 6, 1000);
	assert_true(t.on_network);
	struct taut_transfer slow = taut_costs_transfer(
		costs, TAUT_NONE, &as, 1);
	assert_true(slow.amount >= t.amount);
	taut_costs_destroy(costs);
	job_destroy(job);
}

static void test_other_sort_of_link(void **state)
{
	(void)state;
	struct job *job = job_create(&(struct job_truth){ .ranks = 4,
		.ways = 1, .every = 4, .beta = 2 });
	struct taut_costs *costs = learn(&job->graph);
	struct taut_law_in as = taut_costs_law_in(costs, 0);
	double was = costs->transfers[0].amount;
	as.hosts = 1; /* no class knows it: as much a byte */
	struct taut_transfer t = taut_costs_transfer(costs, 0, &as, 0);
	assert_false(t.on_network);
	near(t.amount, was, 1e-3 * was);
	taut_costs_destroy(costs);
	job_destroy(job);
}

/* --- memory, and real recordings ---------------------------------------------------------*/

static void test_no_memory(void **state)
{
	(void)state;
	struct job *job = job_create(&(struct job_truth){ .ranks = 2,
		.ways = 2, .every = 8, .beta = 1, .has_sizes = 1 });
	struct taut_costs *costs = NULL;
	struct taut_error err;
	taut_status status = TAUT_ENOMEM;
	for (long n = 0; status && n < 100000; n++) {
		alloc_fail_after(n);
		status = taut_costs_create(&job->graph, &costs, &err);
		alloc_fail_never();
		if (status)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_int_equal(status, TAUT_OK);
	taut_costs_destroy(costs);
	taut_costs_destroy(NULL);
	job_destroy(job);
}

static struct taut_costs *learn_recording(const char *path,
	struct taut_run **ret_run, struct taut_graph **ret_graph)
{
	struct taut_error err;
	struct taut_run_options run_options = { 0 };
	struct taut_graph_options graph_options = { 0 };
	struct taut_costs *costs = NULL;

	if (taut_run_open(&path, 1, &run_options, ret_run, &err) ||
		taut_graph_build(*ret_run, &graph_options, ret_graph, &err) ||
		taut_costs_create(*ret_graph, &costs, &err))
		fail_msg("%s: %s", path, err.message);
	return costs;
}

static void test_recordings_replay_to_themselves(void **state)
{
	(void)state;
	static const char *const paths[] = {
		"examples/ddp-gloo-2host", "examples/ddp-gloo-late-rank",
		"examples/tensorflow/mirrored", "examples/tensorflow/server",
		"../shared/traces/pytorch/megatron-tp8-a100",
		"../shared/traces/pytorch/hta/trace_filter",
		"../shared/traces/nsys", "../shared/traces/straggler-study",
	};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		struct stat there;
		struct taut_run *run;
		struct taut_graph *graph;
		if (stat(paths[i], &there))
			continue;
		struct taut_costs *costs =
			learn_recording(paths[i], &run, &graph);
		check_replays_to_itself(graph, costs);
		taut_costs_destroy(costs);
		taut_graph_destroy(graph);
		taut_run_close(run);
	}
}

static const struct taut_cost_class *class_of_kind(
	const struct taut_costs *costs, enum taut_coll_kind kind)
{
	for (uint32_t i = 0; i < costs->n_classes; i++)
		if (costs->classes[i].kind == kind)
			return &costs->classes[i];
	fail_msg("no class of %s", taut_coll_kind_name(kind));
	return NULL;
}

/* examples/README.md: links of 400 and 800 Mbit/s, of which Ethernet, IP and
 * TCP leave 96 %: 20.9 and 10.45 ns a byte. */
static void check_link(const char *path, double byte_ns)
{
	struct taut_run *run;
	struct taut_graph *graph;
	struct taut_costs *costs = learn_recording(path, &run, &graph);
	const struct taut_cost_class *class =
		class_of_kind(costs, TAUT_COLL_ALLREDUCE);
	near(class->line.beta, byte_ns, 0.03 * byte_ns);
	assert_true(class->line.alpha + class->line.alpha_error < 1e6);
	assert_true(class->on_network);
	assert_int_equal(costs->site.n_hosts, run->n_traces);
	taut_costs_destroy(costs);
	taut_graph_destroy(graph);
	taut_run_close(run);
}

static void test_links_of_the_examples(void **state)
{
	(void)state;
	check_link("examples/ddp-gloo-2host", 20.9);
	check_link("examples/ddp-gloo-late-rank", 10.45);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_transfer_at_a_time),
		cmocka_unit_test(test_links_to_play_on),
		cmocka_unit_test(test_transfers_that_share),
		cmocka_unit_test(test_unfair_shares),
		cmocka_unit_test(test_drag_by_sizes),
		cmocka_unit_test(test_drag_by_place),
		cmocka_unit_test(test_a_slow_step),
		cmocka_unit_test(test_no_drag),
		cmocka_unit_test(test_latency_that_is_not_told),
		cmocka_unit_test(test_one_short_transfer),
		cmocka_unit_test(test_nothing_to_compare),
		cmocka_unit_test(test_on_one_host),
		cmocka_unit_test(test_what_has_no_flow),
		cmocka_unit_test(test_other_transfers),
		cmocka_unit_test(test_other_sort_of_link),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_recordings_replay_to_themselves),
		cmocka_unit_test(test_links_of_the_examples),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
