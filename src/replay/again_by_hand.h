/* again_by_hand.h - a kept replay against the whole thing done anew, for tests
 * only: the edit is built, replayed, and compared op by op. */
#ifndef TAUT_REPLAY_AGAIN_BY_HAND_H
#define TAUT_REPLAY_AGAIN_BY_HAND_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/again.h>
#include <taut/replay.h>

#include "tests/support/unit.h"

/* --- the equation, from what an edit tells of itself ------------------------------ */
struct again_due {
	const struct taut_again *again;
	uint32_t before, by;
	int64_t at_ns;
};

static inline void again_due_see(void *context, struct taut_wait wait)
{
	struct again_due *due = context;
	int64_t start_ns = 0, end_ns = 0, at_ns;

	assert_true(taut_again_times(due->again, wait.op, &start_ns, &end_ns));
	at_ns = (wait.kind & TAUT_EDGE_FROM_START ? start_ns : end_ns) +
		wait.lag_ns;
	if (due->by == TAUT_NONE || at_ns > due->at_ns ||
		(at_ns == due->at_ns && due->by != due->before &&
		(wait.op == due->before || wait.op < due->by))) {
		due->at_ns = at_ns;
		due->by = wait.op;
	}
}

static inline uint32_t again_due_by(const struct taut_again *again,
	const struct taut_edit *edit, uint32_t op)
{
	struct again_due due = { again, TAUT_NONE, TAUT_NONE, 0 };
	struct taut_op is;

	assert_true(taut_edit_op(edit, op, &is));
	if (taut_edit_lane(edit, is.lane).trace != TAUT_NONE)
		due.before = taut_edit_before(edit, op);
	if (due.before != TAUT_NONE) {
		assert_true(taut_again_times(again, due.before, NULL,
			&due.at_ns));
		due.at_ns += is.gap_ns < 0 ? is.gap_ns : 0;
		due.by = due.before;
	}
	taut_edit_each_in(edit, op, again_due_see, &due);
	return due.by;
}

/* --- against a replay --------------------------------------------------------------- */
struct again_walk {
	const struct taut_again *again;
	uint32_t n, last;
};

static inline int again_walk_see(void *context, uint32_t op)
{
	struct again_walk *walk = context;

	walk->n++;
	walk->last = op;
	return 0;
}

static inline void again_compare_path(struct taut_again *again,
	const struct taut_timeline *timeline)
{
	struct again_walk walk = { again, 0, TAUT_NONE };
	int64_t end_ns;

	assert_int_equal(taut_again_makespan(again), timeline->makespan_ns);
	taut_again_path(again, again_walk_see, &walk);
	if (!timeline->n_ops) {
		assert_int_equal(walk.n, 0);
		return;
	}
	assert_true(walk.n > 0 && walk.n <= timeline->n_ops);
	assert_int_equal(taut_again_decided_by(again, walk.last), TAUT_NONE);
	assert_true(taut_again_times(again, taut_again_last(again), NULL,
		&end_ns));
	assert_true(timeline->makespan_ns == end_ns ||
		(end_ns < 0 && !timeline->makespan_ns));
}

/* by_id: the built graph numbers ops as the edit does. */
static inline void again_compare_op(const struct taut_again *again,
	const struct taut_edit *edit, const struct taut_timeline *timeline,
	const uint32_t *op_of, uint32_t op, int by_id)
{
	uint32_t id = op_of[op], by = taut_again_decided_by(again, op), want;
	int64_t start_ns, end_ns;

	if (id == TAUT_NONE) {
		assert_false(taut_again_times(again, op, NULL, NULL));
		assert_int_equal(by, TAUT_NONE);
		return;
	}
	assert_true(taut_again_times(again, op, &start_ns, &end_ns));
	assert_int_equal(start_ns, timeline->start_ns[id]);
	assert_int_equal(end_ns, timeline->end_ns[id]);
	assert_int_equal(by, again_due_by(again, edit, op));
	want = timeline->decided_by[id];
	if (by_id)
		assert_int_equal(by == TAUT_NONE ? by : op_of[by], want);
	else
		assert_int_equal(by == TAUT_NONE, want == TAUT_NONE);
}

/* What a build and a replay of it come to: TAUT_OK, and all is equal, or what
 * the replay refused with. */
static inline taut_status again_compare(struct taut_again *again,
	const struct taut_edit *edit, taut_status followed, int by_id)
{
	uint32_t n = taut_edit_ops(edit);
	uint32_t *op_of = malloc((n + 1) * sizeof *op_of);
	struct taut_timeline timeline;
	struct taut_graph *graph;
	taut_status status;

	assert_int_equal(taut_edit_build(edit, &graph, op_of, NULL, NULL), 0);
	assert_int_equal(taut_timeline_init(&timeline, graph, NULL), 0);
	status = taut_replay(graph, NULL, &timeline, NULL);
	assert_int_equal(followed, status);
	if (!status) {
		for (uint32_t op = 0; op < n; op++)
			again_compare_op(again, edit, &timeline, op_of, op,
				by_id);
		again_compare_path(again, &timeline);
	}
	taut_timeline_fini(&timeline);
	taut_graph_destroy(graph);
	free(op_of);
	return status;
}

/* --- all that it tells, as text ------------------------------------------------------- */
static inline char *again_text(
	struct taut_again *again, const struct taut_edit *edit)
{
	size_t size;
	char *text = NULL;
	FILE *out = open_memstream(&text, &size);
	int64_t start_ns, end_ns;

	assert_non_null(out);
	for (uint32_t op = 0; op < taut_edit_ops(edit); op++)
		if (taut_again_times(again, op, &start_ns, &end_ns))
			fprintf(out, "%u: %lld %lld by %d\n", op,
				(long long)start_ns, (long long)end_ns,
				(int)taut_again_decided_by(again, op));
	fprintf(out, "%lld, last %d\n",
		(long long)taut_again_makespan(again),
		(int)taut_again_last(again));
	fclose(out);
	return text;
}

#endif /* TAUT_REPLAY_AGAIN_BY_HAND_H */
