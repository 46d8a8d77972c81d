/* edit_test.c - an edit's changes one by one, on graphs that are small enough
 * to work out, and on recorded ones. They are replayed, hence the room. */
#include <stdlib.h>
#include <string.h>

#include <taut/edit.h>
#include <taut/replay.h>

#include "by_hand.h"
#include "tests/support/graph_text.h"
#include "tests/support/unit.h"

#define OK(call) assert_int_equal((call), TAUT_OK)

static void same(const struct taut_graph *a, const struct taut_graph *b)
{
	char *x = graph_text(a), *y = graph_text(b);

	assert_string_equal(x, y);
	free(x);
	free(y);
}

/* Start of every op, by id of the edit; those that are gone: -1. */
static int64_t *starts(const struct taut_edit *edit)
{
	uint32_t n = taut_edit_ops(edit);
	uint32_t *op_of = malloc((n + 1) * sizeof *op_of);
	int64_t *start = malloc((n + 1) * sizeof *start);
	struct taut_timeline timeline;
	struct taut_graph *graph;

	OK(taut_edit_build(edit, &graph, op_of, NULL, NULL));
	OK(taut_timeline_init(&timeline, graph, NULL));
	OK(taut_replay(graph, NULL, &timeline, NULL));
	for (uint32_t i = 0; i < n; i++)
		start[i] = op_of[i] == TAUT_NONE ? -1 :
			timeline.start_ns[op_of[i]];
	taut_timeline_fini(&timeline);
	taut_graph_destroy(graph);
	free(op_of);
	return start;
}

static int64_t start_of(const struct taut_edit *edit, uint32_t op)
{
	int64_t *all = starts(edit), at = all[op];

	free(all);
	return at;
}

/* --- nothing changed ------------------------------------------------------------------ */

static void test_unchanged_by_hand(void **state)
{
	struct by_hand *hand = by_hand_create();
	const struct taut_graph *graph;
	struct taut_graph *built;
	struct taut_edit *edit;
	uint32_t a, b;

	(void)state;
	by_hand_lane(hand, 1);
	a = by_hand_op(hand, TAUT_OP_HOST, "a", 10, 1);
	by_hand_lane(hand, -1);
	by_hand_lane(hand, 0); /* empty, and behind the joins */
	by_hand_lane(hand, 0);
	b = by_hand_op(hand, TAUT_OP_KERNEL, "b", 5, -2);
	by_hand_edge(hand, a, b, TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START, 3);
	graph = by_hand_graph(hand);
	OK(taut_edit_create(graph, &edit, NULL));
	OK(taut_edit_build(edit, &built, NULL, NULL, NULL));
	same(graph, built);
	taut_graph_destroy(built);
	taut_edit_destroy(edit);
	by_hand_destroy(hand);
}

static void recorded(const char *path,
	void (*with)(struct taut_edit *edit, const struct taut_graph *graph))
{
	struct taut_run *run;
	struct taut_graph *graph;
	struct taut_edit *edit;

	OK(taut_run_open(&path, 1, &(struct taut_run_options) { 0 }, &run,
		NULL));
	OK(taut_graph_build(run, NULL, &graph, NULL));
	OK(taut_edit_create(graph, &edit, NULL));
	with(edit, graph);
	taut_edit_destroy(edit);
	taut_graph_destroy(graph);
	taut_run_close(run);
}

static void is_same(struct taut_edit *edit, const struct taut_graph *graph)
{
	struct taut_graph *built;

	OK(taut_edit_build(edit, &built, NULL, NULL, NULL));
	same(graph, built);
	assert_ptr_equal(built->run, graph->run);
	for (unsigned i = 0; i < TAUT_EDGE_KINDS; i++)
		assert_int_equal(built->edges_of[i], graph->edges_of[i]);
	taut_graph_destroy(built);
}

static void test_unchanged_recorded(void **state)
{
	(void)state;
	recorded("examples/ddp-gloo-2host", is_same);
	recorded("examples/ddp-gloo-late-rank", is_same);
	recorded("examples/tensorflow/mirrored", is_same);
	recorded("examples/tensorflow/server", is_same);
}

/* A copied rank that waits for nobody starts where its original would. */
static void copies_alone(struct taut_edit *edit, const struct taut_graph *graph)
{
	uint8_t *join = calloc(graph->n_collectives + 1, 1);
	uint32_t rank, n = taut_edit_ops(edit);
	uint32_t *op_of = malloc(n * sizeof *op_of);
	uint32_t mark = taut_edit_mark(edit);
	int64_t *start;

	OK(taut_edit_copy_rank(edit, 0, NULL, &rank, op_of, NULL));
	assert_int_equal(rank, graph->run->n_traces);
	start = starts(edit);
	for (uint32_t i = 0; i < n; i++) {
		bool of = graph->lanes[graph->lane[i]].trace == 0;

		assert_int_equal(op_of[i] != TAUT_NONE, of);
		if (of)
			assert_int_equal(start[op_of[i]], start[i]);
		assert_true(start[i] == graph->start_ns[i]);
	}
	free(start);
	taut_edit_undo(edit, mark);
	is_same(edit, graph);
	OK(taut_edit_copy_rank(edit, 0, join, &rank, NULL, NULL));
	OK(taut_edit_remove_rank(edit, rank, NULL));
	is_same(edit, graph);
	free(op_of);
	free(join);
}

static void test_copied_rank(void **state)
{
	(void)state;
	recorded("examples/ddp-gloo-2host", copies_alone);
}

/* --- remove --------------------------------------------------------------------------- */

struct rig {
	struct by_hand *hand;
	struct taut_edit *edit;
	uint32_t a, x, b, from, to; /* a, x, b on one lane; from -> x -> to */
};

static struct rig rig_up(int64_t lag_in, unsigned in, int64_t lag_out,
	unsigned out, int64_t gap_b)
{
	struct rig rig = { .hand = by_hand_create() };

	by_hand_lane(rig.hand, 0);
	rig.a = by_hand_op(rig.hand, TAUT_OP_HOST, "a", 10, 0);
	rig.x = by_hand_op(rig.hand, TAUT_OP_HOST, "x", 1000, 77);
	rig.b = by_hand_op(rig.hand, TAUT_OP_HOST, "b", 10, gap_b);
	by_hand_lane(rig.hand, 0);
	rig.from = by_hand_op(rig.hand, TAUT_OP_KERNEL, "from", 100, 5);
	by_hand_lane(rig.hand, 0);
	rig.to = by_hand_op(rig.hand, TAUT_OP_KERNEL, "to", 1, 0);
	by_hand_edge(rig.hand, rig.from, rig.x, TAUT_EDGE_SYNC | in, lag_in);
	by_hand_edge(rig.hand, rig.x, rig.to, TAUT_EDGE_LAUNCH | out, lag_out);
	OK(taut_edit_create(by_hand_graph(rig.hand), &rig.edit, NULL));
	OK(taut_edit_remove(rig.edit, rig.x, NULL));
	return rig;
}

static void rig_down(struct rig *rig)
{
	taut_edit_destroy(rig->edit);
	by_hand_destroy(rig->hand);
}

static void test_remove_passes_waits_on(void **state)
{
	struct rig rig = rig_up(7, 0, 3, 0, 2);
	struct taut_op op;

	(void)state;
	assert_int_equal(start_of(rig.edit, rig.b), 105 + 7 + 2);
	assert_int_equal(start_of(rig.edit, rig.to), 105 + 7 + 3);
	assert_int_equal(taut_edit_next(rig.edit, rig.a), rig.b);
	assert_int_equal(taut_edit_before(rig.edit, rig.b), rig.a);
	assert_false(taut_edit_op(rig.edit, rig.x, &op));
	assert_int_equal(taut_edit_remove(rig.edit, rig.x, NULL), TAUT_EINVAL);
	rig_down(&rig);
	/* The start of x was its lane's: nothing is left of x's 1000 ns, and
	 * the start of `from` stays a start. */
	rig = rig_up(7, TAUT_EDGE_FROM_START, 3, TAUT_EDGE_FROM_START, -4);
	assert_int_equal(start_of(rig.edit, rig.b), 5 + 7 - 4);
	assert_int_equal(start_of(rig.edit, rig.to), 5 + 7 + 3);
	rig_down(&rig);
	rig = rig_up(-100, 0, 3, 0, 0);
	assert_int_equal(start_of(rig.edit, rig.b), 10);
	assert_int_equal(start_of(rig.edit, rig.to), 10 + 3);
	rig_down(&rig);
}

static uint32_t edges(const struct taut_edit *edit)
{
	struct taut_graph *built;
	uint32_t n;

	OK(taut_edit_build(edit, &built, NULL, NULL, NULL));
	n = built->n_edges;
	taut_graph_destroy(built);
	return n;
}

static void test_remove_adds_nothing_superfluous(void **state)
{
	struct rig rig = rig_up(7, 0, 3, 0, 2);

	(void)state;
	/* from -> b, from -> to, a -> to */
	assert_int_equal(edges(rig.edit), 3);
	OK(taut_edit_remove(rig.edit, rig.b, NULL)); /* nothing behind it */
	assert_int_equal(edges(rig.edit), 2);
	OK(taut_edit_connect(rig.edit, rig.from, rig.a, TAUT_EDGE_SYNC, 500,
		NULL));
	OK(taut_edit_remove(rig.edit, rig.a, NULL));
	/* from -> to with 500 + 3 beside that with 10 */
	assert_int_equal(edges(rig.edit), 2);
	assert_int_equal(start_of(rig.edit, rig.to), 105 + 500 + 3);
	rig_down(&rig);
}

/* What hung on an op that waited for nothing keeps the time between. */
static void test_remove_first(void **state)
{
	struct by_hand *hand = by_hand_create();
	struct taut_edit *edit;
	uint32_t a, b, c;

	(void)state;
	by_hand_lane(hand, 0);
	a = by_hand_op(hand, TAUT_OP_HOST, "a", 10, 40);
	b = by_hand_op(hand, TAUT_OP_HOST, "b", 10, 6);
	by_hand_lane(hand, 0);
	c = by_hand_op(hand, TAUT_OP_HOST, "c", 10, 2);
	by_hand_edge(hand, a, c, TAUT_EDGE_START | TAUT_EDGE_FROM_START, 30);
	OK(taut_edit_create(by_hand_graph(hand), &edit, NULL));
	OK(taut_edit_remove(edit, a, NULL));
	assert_int_equal(start_of(edit, b), 6);
	assert_int_equal(start_of(edit, c), 32);
	taut_edit_destroy(edit);
	by_hand_destroy(hand);
}

static void test_cut(void **state)
{
	struct rig rig = rig_up(7, 0, 3, 0, 2);

	(void)state;
	taut_edit_undo(rig.edit, 0);
	OK(taut_edit_cut(rig.edit, rig.x, NULL));
	assert_int_equal(start_of(rig.edit, rig.b), 12);
	assert_int_equal(start_of(rig.edit, rig.to), 0);
	assert_int_equal(edges(rig.edit), 0);
	rig_down(&rig);
}

/* --- insert, move, times -------------------------------------------------------------- */

static void test_insert_and_move(void **state)
{
	struct rig rig = rig_up(7, 0, 3, 0, 2);
	struct taut_op op = { .dur_ns = 50, .gap_ns = 1, .event = TAUT_NONE,
		.like = TAUT_NONE, .kind = TAUT_OP_HOST };
	uint32_t y, z;

	(void)state;
	taut_edit_undo(rig.edit, 0);
	OK(taut_edit_insert(rig.edit, rig.a, &op, "y", &y, NULL));
	assert_int_equal(start_of(rig.edit, y), 11);
	OK(taut_edit_insert(rig.edit, TAUT_NONE, &op, "y", &z, NULL));
	assert_int_equal(taut_edit_first(rig.edit, 0), z);
	assert_int_equal(start_of(rig.edit, y), 62);
	OK(taut_edit_move(rig.edit, z, rig.to, 0, NULL));
	assert_int_equal(start_of(rig.edit, y), 11);
	assert_int_equal(taut_edit_last(rig.edit, 2), z);
	/* x -> to -> z: its wait stays when `to` moves in front of from. */
	OK(taut_edit_move(rig.edit, rig.to, TAUT_NONE, 1, NULL));
	assert_int_equal(taut_edit_first(rig.edit, 2), z);
	assert_int_equal(taut_edit_next(rig.edit, rig.to), rig.from);
	assert_int_equal(taut_edit_move(rig.edit, z, z, 0, NULL), TAUT_EINVAL);
	assert_int_equal(taut_edit_insert(rig.edit, 99, &op, "y", &y, NULL),
		TAUT_EINVAL);
	op.event = 0;
	assert_int_equal(taut_edit_insert(rig.edit, z, &op, "y", &y, NULL),
		TAUT_EINVAL);
	rig_down(&rig);
}

static void test_times(void **state)
{
	struct rig rig = rig_up(7, 0, 3, 0, 2);
	int64_t durs[] = { 1, 2, 3, 4, 5 };
	uint32_t ops[] = { 2, 3 };
	struct taut_op op;
	uint32_t mark;

	(void)state;
	taut_edit_undo(rig.edit, 0);
	OK(taut_edit_scale(rig.edit, ops, 2, 0.25, NULL));
	taut_edit_op(rig.edit, 2, &op);
	assert_int_equal(op.dur_ns, 3); /* 2.5 */
	mark = taut_edit_mark(rig.edit);
	OK(taut_edit_set_durs(rig.edit, durs, NULL));
	OK(taut_edit_set_dur(rig.edit, 4, 17, NULL));
	OK(taut_edit_set_durs(rig.edit, durs, NULL));
	taut_edit_op(rig.edit, 4, &op);
	assert_int_equal(op.dur_ns, 5);
	taut_edit_undo(rig.edit, mark);
	taut_edit_op(rig.edit, 3, &op);
	assert_int_equal(op.dur_ns, 25);
	assert_int_equal(taut_edit_set_dur(rig.edit, 0, -1, NULL), TAUT_EINVAL);
	assert_int_equal(taut_edit_scale(rig.edit, ops, 2, -1, NULL),
		TAUT_EINVAL);
	assert_int_equal(taut_edit_scale(rig.edit, ops, 2, 1e300, NULL),
		TAUT_EINVAL);
	taut_edit_op(rig.edit, 2, &op);
	assert_int_equal(op.dur_ns, 3);
	rig_down(&rig);
}

/* --- collectives ------------------------------------------------------------------------ */

static void test_new_collective(void **state)
{
	struct by_hand *hand = by_hand_create();
	struct taut_member members[2];
	struct taut_collective coll = { .kind = TAUT_COLL_ALLREDUCE,
		.group_size = 2, .bytes = 100, .seq = 1 };
	struct taut_op op = { .dur_ns = 1, .event = TAUT_NONE,
		.like = TAUT_NONE, .kind = TAUT_OP_HOST };
	uint32_t a, b, c, all, mark, arrive[2];
	struct taut_graph *built;
	struct taut_edit *edit;

	(void)state;
	by_hand_lane(hand, 0);
	a = by_hand_op(hand, TAUT_OP_HOST, "a", 10, 0);
	by_hand_lane(hand, 1);
	b = by_hand_op(hand, TAUT_OP_HOST, "b", 30, 0);
	OK(taut_edit_create(by_hand_graph(hand), &edit, NULL));
	OK(taut_edit_add_name(edit, "all", &coll.name, NULL));
	members[0] = (struct taut_member) { 0, a, 7, 0 };
	members[1] = (struct taut_member) { 1, b, 9, 0 };
	OK(taut_edit_add_collective(edit, &coll, members, 2, &all, arrive,
		NULL));
	assert_int_equal(start_of(edit, taut_edit_next(edit, arrive[0])), 30);
	assert_int_equal(start_of(edit, arrive[0]), 10);
	OK(taut_edit_build(edit, &built, NULL, NULL, NULL));
	assert_int_equal(built->n_lanes, 3);
	assert_int_equal(built->lanes[2].trace, TAUT_NONE);
	assert_int_equal(built->n_collectives, 1);
	assert_int_equal(built->collectives[0].n_members, 2);
	assert_string_equal(taut_names_text(built->names,
		built->collectives[0].name), "all");
	assert_int_equal(built->member_arrive[1], built->lane_begin[1] + 1);
	assert_int_equal(built->collective[built->member_arrive[1] + 1], 0);
	taut_graph_destroy(built);
	/* Nothing comes between; a removed arrival takes its transfer along. */
	assert_int_equal(taut_edit_move(edit, a, arrive[1], 0, NULL),
		TAUT_EINVAL);
	mark = taut_edit_mark(edit);
	OK(taut_edit_insert(edit, taut_edit_next(edit, arrive[0]), &op, "c",
		&c, NULL));
	assert_int_equal(start_of(edit, c), 37);
	OK(taut_edit_remove(edit, taut_edit_next(edit, arrive[0]), NULL));
	assert_int_equal(start_of(edit, c), 10);
	taut_edit_undo(edit, mark);
	OK(taut_edit_copy_rank(edit, 1, NULL, &c, NULL, NULL));
	assert_true(taut_edit_collective(edit, all, &coll));
	assert_int_equal(coll.group_size, 3);
	assert_int_equal(coll.n_members, 3);
	OK(taut_edit_remove_rank(edit, c, NULL));
	OK(taut_edit_remove(edit, arrive[1], NULL));
	assert_true(taut_edit_collective(edit, all, &coll));
	assert_int_equal(coll.group_size, 1);
	assert_int_equal(taut_edit_last(edit, 1), b);
	assert_int_equal(start_of(edit, taut_edit_next(edit, arrive[0])), 10);
	OK(taut_edit_remove_collective(edit, all, NULL));
	assert_int_equal(taut_edit_last(edit, 0), a);
	assert_false(taut_edit_collective(edit, all, &coll));
	taut_edit_destroy(edit);
	by_hand_destroy(hand);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unchanged_by_hand),
		cmocka_unit_test(test_unchanged_recorded),
		cmocka_unit_test(test_copied_rank),
		cmocka_unit_test(test_remove_passes_waits_on),
		cmocka_unit_test(test_remove_adds_nothing_superfluous),
		cmocka_unit_test(test_remove_first),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_insert_and_move),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_new_collective),
	};

	return cmocka_run_group_tests_name("edit", tests, NULL, NULL);
}
