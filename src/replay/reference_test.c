/* The replayer against a scheduler that is too simple to be wrong: it asks
 * the equation of taut/graph.h anew for every op before every step. Random
 * graphs, small numbers, so that ties are everywhere. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/replay.h>

#include "by_hand.h"

enum { MAX_OPS = 256 };

struct shape {
	uint32_t n_graphs, max_lanes, max_on_lane;
};

static uint32_t pick(uint64_t *seed, uint32_t n) /* 0 .. n - 1 */
{
	uint64_t x = *seed += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ (x >> 31)) % n);
}

static int64_t pick_signed(uint64_t *seed, int reach)
{
	return (int64_t)pick(seed, 2 * (uint32_t)reach + 1) - reach;
}

/* --- reference -----------------------------------------------------------*/

struct reference {
	const struct taut_graph *graph;
	const int64_t *dur_ns, *gap_ns;
	const uint8_t *mute;
	int64_t start_ns[MAX_OPS], end_ns[MAX_OPS];
	uint32_t decided_by[MAX_OPS], order[MAX_OPS];
	int ran[MAX_OPS];
	uint32_t n_run;
};

struct latest {
	uint32_t before; /* on the lane; TAUT_NONE */
	int any, all_ran;
	int64_t at_ns;
	uint32_t by;
};

static void add_wait(struct latest *latest, int ran, int64_t at_ns, uint32_t by)
{
	latest->all_ran &= ran;
	if (!latest->any || at_ns > latest->at_ns ||
			(at_ns == latest->at_ns && by == latest->before)) {
		latest->at_ns = at_ns;
		latest->by = by;
	}
	latest->any = 1;
}

static int waits_on_lane(const struct taut_graph *graph, uint32_t op)
{
	uint32_t lane = graph->lane[op];
	return graph->lanes[lane].trace != TAUT_NONE &&
		op > graph->lane_begin[lane];
}

/* 0: waits for an op that has not run. */
static int solve(const struct reference *ref, uint32_t op,
	int64_t *ret_start_ns, uint32_t *ret_by)
{
	const struct taut_graph *graph = ref->graph;
	int on_lane = waits_on_lane(graph, op);
	struct latest latest = {
		.all_ran = 1,
		.before = on_lane ? op - 1 : TAUT_NONE,
		.by = TAUT_NONE,
	};
	int64_t gap_ns = ref->gap_ns[op];
	if (on_lane)
		add_wait(&latest, ref->ran[op - 1], ref->end_ns[op - 1] +
			(gap_ns < 0 ? gap_ns : 0), op - 1);
	for (uint32_t from = 0; from < graph->n_ops; from++) {
		if (ref->mute && ref->mute[from])
			continue;
		for (uint32_t i = graph->edge_begin[from];
				i < graph->edge_begin[from + 1]; i++) {
			int start = graph->edge_kind[i] & TAUT_EDGE_FROM_START;
			int64_t at_ns = start
				? ref->start_ns[from] : ref->end_ns[from];
			if (graph->edge_to[i] == op)
				add_wait(&latest, ref->ran[from],
					at_ns + graph->edge_lag_ns[i], from);
		}
	}
	*ret_start_ns = latest.at_ns + (gap_ns > 0 ? gap_ns : 0);
	*ret_by = latest.by;
	return latest.all_ran;
}

static int step(struct reference *ref)
{
	uint32_t best = TAUT_NONE;
	int64_t best_ns = 0;
	for (uint32_t op = 0; op < ref->graph->n_ops; op++) {
		int64_t start_ns;
		uint32_t by;
		if (ref->ran[op] || !solve(ref, op, &start_ns, &by))
			continue;
		if (best != TAUT_NONE && start_ns >= best_ns)
			continue;
		best = op;
		best_ns = start_ns;
		ref->decided_by[op] = by;
	}
	if (best == TAUT_NONE)
		return 0;
	ref->start_ns[best] = best_ns;
	ref->end_ns[best] = best_ns + ref->dur_ns[best];
	ref->order[ref->n_run++] = best;
	return ref->ran[best] = 1;
}

static void solve_all(struct reference *ref, const struct taut_graph *graph,
	const struct taut_replay_edit *edit)
{
	*ref = (struct reference){
		.graph = graph,
		.dur_ns = edit->dur_ns ? edit->dur_ns : graph->dur_ns,
		.gap_ns = edit->gap_ns ? edit->gap_ns : graph->gap_ns,
		.mute = edit->mute,
	};
	while (step(ref))
		;
}

/* --- random graphs -------------------------------------------------------*/

/* Edges mostly follow a hidden order, so that most graphs have no circle;
 * in 3 of 8 graphs some do not care. */
static const struct taut_graph *make_graph(
	struct by_hand *hand, uint64_t *seed, const struct shape *shape)
{
	uint32_t key[MAX_OPS], n_lanes = pick(seed, shape->max_lanes + 1);
	int wild = pick(seed, 8) < 3;
	for (uint32_t lane = 0; lane < n_lanes; lane++) {
		uint32_t n = pick(seed, shape->max_on_lane + 1);
		int joins = pick(seed, 4) == 0;
		by_hand_lane(hand, joins ? -1 : (int)lane);
		for (uint32_t i = 0; i < n; i++) {
			int64_t dur_ns = pick(seed, 6);
			int64_t gap_ns = pick_signed(seed, 3);
			uint32_t op = by_hand_op(
				hand, TAUT_OP_HOST, "x", dur_ns, gap_ns);
			key[op] = joins ? pick(seed, 80)
				: i * 8 + pick(seed, 8);
		}
	}
	uint32_t n_ops = (uint32_t)hand->dur_ns.count;
	uint32_t n_edges = n_ops ? pick(seed, 2 * n_ops + 1) : 0;
	for (uint32_t i = 0; i < n_edges; i++) {
		uint32_t from = pick(seed, n_ops), to = pick(seed, n_ops);
		unsigned kind = pick(seed, 3) ? 0 : TAUT_EDGE_FROM_START;
		int64_t lag_ns = pick_signed(seed, 4);
		if (key[from] < key[to] || (wild && !pick(seed, 6)))
			by_hand_edge(hand, from, to, kind, lag_ns);
	}
	return by_hand_graph(hand);
}

static struct taut_replay_edit make_edit(uint64_t *seed, uint32_t n_ops,
	int64_t *dur_ns, int64_t *gap_ns, uint8_t *mute)
{
	for (uint32_t i = 0; i < n_ops; i++) {
		dur_ns[i] = pick(seed, 9);
		gap_ns[i] = pick_signed(seed, 5);
		mute[i] = pick(seed, 5) == 0;
	}
	return (struct taut_replay_edit){
		.dur_ns = pick(seed, 2) ? dur_ns : NULL,
		.gap_ns = pick(seed, 2) ? gap_ns : NULL,
		.mute = pick(seed, 2) ? mute : NULL,
	};
}

/* --- comparison ----------------------------------------------------------*/

static char *log_of(const struct taut_graph *graph,
	const struct taut_timeline *timeline)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	assert_non_null(out);
	assert_int_equal(taut_replay_log(graph, timeline, out, NULL), TAUT_OK);
	fclose(out);
	return text;
}

static void compare(struct reference *ref, const struct taut_timeline *timeline)
{
	struct taut_timeline expected = {
		.n_ops = ref->graph->n_ops,
		.start_ns = ref->start_ns,
		.end_ns = ref->end_ns,
		.order = ref->order,
		.n_run = ref->n_run,
	};
	char *want = log_of(ref->graph, &expected);
	char *got = log_of(ref->graph, timeline);
	int64_t latest_ns = 0;
	assert_string_equal(got, want);
	free(want);
	free(got);
	for (uint32_t op = 0; op < ref->graph->n_ops; op++) {
		if (!ref->ran[op])
			continue;
		assert_int_equal(timeline->decided_by[op], ref->decided_by[op]);
		if (ref->end_ns[op] > latest_ns)
			latest_ns = ref->end_ns[op];
	}
	assert_int_equal(timeline->makespan_ns, latest_ns);
}

/* Running ahead of time changes the order and nothing else. */
static void compare_unordered(const struct reference *ref,
	struct taut_replay_edit edit, struct taut_timeline *timeline)
{
	struct taut_error err;
	edit.unordered = 1;
	taut_status status = taut_replay(ref->graph, &edit, timeline, &err);
	assert_int_equal(timeline->n_run, ref->n_run);
	assert_int_equal(status, ref->n_run < ref->graph->n_ops
		? TAUT_EMATCH : TAUT_OK);
	for (uint32_t op = 0; op < ref->graph->n_ops; op++) {
		if (!ref->ran[op])
			continue;
		assert_int_equal(timeline->start_ns[op], ref->start_ns[op]);
		assert_int_equal(timeline->end_ns[op], ref->end_ns[op]);
		if (!status)
			assert_int_equal(
				timeline->decided_by[op], ref->decided_by[op]);
	}
}

/* Does to wait, directly or not, for from, over ops that did not run? */
static int reaches(const struct reference *ref, uint32_t from, uint32_t to,
	uint8_t *seen)
{
	const struct taut_graph *graph = ref->graph;
	if (seen[from] || ref->ran[from])
		return 0;
	seen[from] = 1;
	if (from + 1 < graph->n_ops && waits_on_lane(graph, from + 1) &&
			(from + 1 == to || reaches(ref, from + 1, to, seen)))
		return 1;
	if (ref->mute && ref->mute[from])
		return 0;
	for (uint32_t i = graph->edge_begin[from];
			i < graph->edge_begin[from + 1]; i++) {
		uint32_t next = graph->edge_to[i];
		if (next == to || reaches(ref, next, to, seen))
			return 1;
	}
	return 0;
}

static void check_circle(const struct reference *ref, const char *message)
{
	unsigned a, b, len;
	uint8_t seen[MAX_OPS] = { 0 }, seen_back[MAX_OPS] = { 0 };
	const char *first = strstr(message, " op ");
	const char *second = first ? strstr(first + 1, " op ") : NULL;
	assert_int_equal(sscanf(message, "circle of waits, %u long", &len), 1);
	assert_non_null(second);
	assert_int_equal(sscanf(first, " op %u", &a), 1);
	assert_int_equal(sscanf(second, " op %u", &b), 1);
	assert_true(reaches(ref, b, a, seen));
	assert_true(reaches(ref, a, b, seen_back));
	assert_true(len >= 1 && len <= ref->graph->n_ops - ref->n_run);
}

struct tally {
	unsigned whole, circles;
	uint64_t ops;
};

static void try_seed(
	uint64_t seed, const struct shape *shape, struct tally *tally)
{
	static int64_t dur_ns[MAX_OPS], gap_ns[MAX_OPS];
	static uint8_t mute[MAX_OPS];
	static struct reference ref;
	struct by_hand *hand = by_hand_create();
	const struct taut_graph *graph = make_graph(hand, &seed, shape);
	struct taut_timeline timeline;
	struct taut_error err;
	assert_int_equal(taut_timeline_init(&timeline, graph, &err), TAUT_OK);
	for (int i = 0; i < 3; i++) { /* the timeline is used again */
		struct taut_replay_edit edit = make_edit(
			&seed, graph->n_ops, dur_ns, gap_ns, mute);
		taut_status status = taut_replay(graph, &edit, &timeline, &err);
		solve_all(&ref, graph, &edit);
		assert_int_equal(timeline.n_run, ref.n_run);
		compare(&ref, &timeline);
		assert_int_equal(status, ref.n_run < graph->n_ops
			? TAUT_EMATCH : TAUT_OK);
		if (status)
			check_circle(&ref, err.message);
		tally->circles += status != TAUT_OK;
		tally->whole += status == TAUT_OK;
		tally->ops += ref.n_run;
		compare_unordered(&ref, edit, &timeline);
	}
	taut_timeline_fini(&timeline);
	by_hand_destroy(hand);
}

/* The generator must not go dull: each kind of end must be met. */
static void try_shape(const struct shape *shape)
{
	struct tally tally = { 0 };
	for (uint64_t i = 1; i <= shape->n_graphs; i++)
		try_seed(i * 1000003, shape, &tally);
	print_message("%u timelines, %u circles, %llu operations\n",
		tally.whole, tally.circles, (unsigned long long)tally.ops);
	assert_true(tally.whole > shape->n_graphs);
	assert_true(tally.circles > shape->n_graphs / 4);
	assert_true(tally.ops > (uint64_t)shape->n_graphs *
		shape->max_lanes * shape->max_on_lane / 4);
}

static void test_small_graphs(void **state)
{
	(void)state;
	try_shape(&(struct shape){ 6000, 7, 9 });
}

/* A frontier several levels of the heap deep. */
static void test_wide_graphs(void **state)
{
	(void)state;
	try_shape(&(struct shape){ 120, 80, 3 });
}

/* The walk back to a circle has far to go. */
static void test_long_graphs(void **state)
{
	(void)state;
	try_shape(&(struct shape){ 120, 3, 60 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_graphs),
		cmocka_unit_test(test_wide_graphs),
		cmocka_unit_test(test_long_graphs),
	};
	return cmocka_run_group_tests_name(
		"replay against a reference", tests, NULL, NULL);
}
