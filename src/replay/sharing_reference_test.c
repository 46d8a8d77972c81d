/* Shared resources against a scheduler that is too simple to be wrong: at every
 * event it finds all rates, speeds and starts anew and takes the next event.
 * Random graphs with random sharing. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "random_share.h"
#include "sharing_reference.h"

/* --- comparison -------------------------------------------------------------------------*/

static struct taut_replay_edit make_edit(uint64_t *seed, uint32_t n_ops,
	int64_t *dur_ns, int64_t *gap_ns, uint8_t *mute,
	const struct random_shape *shape)
{
	for (uint32_t i = 0; i < n_ops; i++) {
		dur_ns[i] = random_pick(seed, 50);
		gap_ns[i] = random_signed(seed, shape, 15);
		mute[i] = random_pick(seed, 5) == 0;
	}
	return (struct taut_replay_edit){
		.dur_ns = random_pick(seed, 2) ? dur_ns : NULL,
		.gap_ns = random_pick(seed, 2) ? gap_ns : NULL,
		.mute = random_pick(seed, 2) ? mute : NULL,
	};
}

static void compare(const struct reference *ref,
	const struct taut_timeline *timeline, int whole, int ordered)
{
	int64_t latest_ns = 0;
	assert_int_equal(timeline->n_run, ref->n_run);
	for (uint32_t op = 0; op < ref->graph->n_ops; op++) {
		if (ref->state[op] <= RELEASED)
			continue;
		assert_int_equal(timeline->start_ns[op], ref->start_ns[op]);
		assert_int_equal(timeline->end_ns[op], ref->end_ns[op]);
		if (whole)
			assert_int_equal(timeline->decided_by[op],
				ref->decided_by[op]);
		if (ref->end_ns[op] > latest_ns)
			latest_ns = ref->end_ns[op];
	}
	for (uint32_t i = 0; ordered && i < ref->n_run; i++)
		assert_int_equal(timeline->order[i], ref->order[i]);
	assert_int_equal(timeline->makespan_ns, latest_ns);
}

struct tally {
	unsigned whole, circles;
	uint64_t ops, moved, slowed;
};

static void count(struct tally *tally, const struct reference *ref, int whole)
{
	tally->whole += whole;
	tally->circles += !whole;
	tally->ops += ref->n_run;
	for (uint32_t f = 0; f < ref->is->n_flows; f++)
		tally->moved += ref->stage[f] == DONE &&
			ref->is->flows[f].amount > 0;
	for (uint32_t op = 0; op < ref->graph->n_ops; op++)
		tally->slowed += ref->is->flow_of[op] == TAUT_NONE &&
			ref->state[op] == ENDED &&
			ref->end_ns[op] - ref->start_ns[op] > ref->dur_ns[op];
}

static void try_seed(uint64_t seed, const struct random_shape *shape,
	struct tally *tally)
{
	static int64_t dur_ns[MAX_OPS], gap_ns[MAX_OPS];
	static uint8_t mute[MAX_OPS];
	static struct reference ref;
	struct by_hand *hand = by_hand_create();
	struct share_by_hand *share = share_by_hand_create();
	const struct taut_graph *graph = random_graph(hand, &seed, shape);
	struct taut_sharing *sharing =
		random_sharing(share, &seed, shape, graph);
	struct taut_timeline timeline;
	struct taut_error err;
	assert_int_equal(taut_timeline_init(&timeline, graph, &err), TAUT_OK);
	for (int i = 0; i < 2; i++) {
		struct taut_replay_edit edit = make_edit(&seed, graph->n_ops,
			dur_ns, gap_ns, mute, shape);
		edit.sharing = sharing;
		solve_all(&ref, graph, &edit, NULL);
		int whole = ref.n_run == graph->n_ops;
		for (edit.unordered = 0; edit.unordered < 2; edit.unordered++) {
			taut_status status = taut_replay(
				graph, &edit, &timeline, &err);
			assert_int_equal(
				status, whole ? TAUT_OK : TAUT_EMATCH);
			compare(&ref, &timeline, whole, !edit.unordered);
		}
		count(tally, &ref, whole);
	}
	taut_timeline_fini(&timeline);
	by_hand_destroy(hand);
	share_by_hand_destroy(share);
}

/* The generator must not go dull: each kind of thing must happen. */
static void try_shape(const struct random_shape *shape)
{
	struct tally tally = { 0 };
	for (uint64_t i = 1; i <= shape->n_graphs; i++)
		try_seed(i * 1000003, shape, &tally);
	print_message("%u timelines, %u circles, %llu operations, %llu flows, "
		"%llu operations slowed\n", tally.whole, tally.circles,
		(unsigned long long)tally.ops, (unsigned long long)tally.moved,
		(unsigned long long)tally.slowed);
	assert_true(tally.whole > shape->n_graphs);
	assert_true(tally.circles > shape->n_graphs / 20);
	assert_true(tally.moved > shape->n_graphs);
	assert_true(tally.slowed > shape->n_graphs / 4);
}

static void test_small_graphs(void **state)
{
	(void)state;
	try_shape(&(struct random_shape){ 6000, 6, 6, 4, 6, 0, 0.1 });
}

static void test_forward_graphs(void **state)
{
	(void)state;
	try_shape(&(struct random_shape){ 3000, 8, 10, 5, 10, 1, 0.25 });
}

/* Many flows at once over many resources. */
static void test_wide_graphs(void **state)
{
	(void)state;
	try_shape(&(struct random_shape){ 120, 60, 4, 24, 60, 0, 0.02 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_graphs),
		cmocka_unit_test(test_forward_graphs),
		cmocka_unit_test(test_wide_graphs),
	};
	return cmocka_run_group_tests_name(
		"sharing against a reference", tests, NULL, NULL);
}
