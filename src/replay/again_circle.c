/* again_circle.c - do operations wait for each other in a circle, and which?
 *
 * All ops of a circle overtake each other, so that sooner or later each of them is
 * copied in this follow. Those that were are walked backward along their waits,
 * depth first; one that is met while it is open closes a circle. */
#include <stdio.h>

#include "again.h"

static void describe_lane(const struct taut_edit *edit, uint32_t index,
	char *ret_text, size_t size)
{
	struct taut_graph_lane lane = taut_edit_lane(edit, index);
	const struct taut_run *run = taut_edit_below(edit)->run;
	const struct taut_trace *trace;
	uint32_t like;

	if (lane.trace == TAUT_NONE) {
		snprintf(ret_text, size, "joins");
		return;
	}
	like = taut_edit_rank_like(edit, lane.trace);
	if (!run || like >= run->n_traces) {
		snprintf(ret_text, size, "lane %u", (unsigned)index);
		return;
	}
	trace = &run->traces[like];
	snprintf(ret_text, size, "%srank %d %s %lld",
		lane.trace == like ? "" : "copy of ", (int)trace->rank,
		lane.kind == TAUT_LANE_STREAM ? "stream" : "thread",
		lane.trace_lane < trace->n_lanes ?
		(long long)trace->lanes[lane.trace_lane].tid : -1);
}

static void describe(const struct taut_edit *edit, uint32_t op, char *ret_text,
	size_t size)
{
	struct tauti_cell cell = tauti_cell_of(edit, op);
	char lane[64];

	describe_lane(edit, cell.lane, lane, sizeof lane);
	snprintf(ret_text, size, "%s op %u (%.100s)", lane, (unsigned)op,
		edit->below->names ? taut_edit_name(edit, cell.name) : "");
}

/* The circle is what stands on the steps from that of `first` on: each waits for
 * the next, the last for the first. */
static taut_status tell(const struct taut_again *a, uint32_t first,
	struct taut_error *err)
{
	const struct again_step *steps = a->steps.data;
	size_t end = a->steps.count, begin = end, lowest;
	char waits[200], other[200];

	while (steps[--begin].op != first)
		;
	lowest = begin;
	for (size_t i = begin; i < end; i++)
		if (steps[i].op < steps[lowest].op)
			lowest = i;
	describe(a->edit, steps[lowest].op, waits, sizeof waits);
	describe(a->edit, steps[lowest + 1 < end ? lowest + 1 : begin].op,
		other, sizeof other);
	return taut_error_set(err, TAUT_EMATCH, -1,
		"circle of waits, %u long: %s waits for %s",
		(unsigned)(end - begin), waits, other);
}

static bool open_up(struct taut_again *a, uint32_t op)
{
	a->ops[op].word |= TAUTI_OPEN;
	return taut_vec_push(&a->steps, ((struct again_step) {
		tauti_walk_in(a->edit, op), op, false }));
}

/* The next that this step waits for; TAUT_NONE: that was all. */
static uint32_t next_of(const struct taut_again *a, struct again_step *step)
{
	struct tauti_seen seen;

	if (!step->before) {
		uint32_t before = again_before(a, step->op);

		step->before = true;
		if (before != TAUT_NONE)
			return before;
	}
	return tauti_walk_on(&step->in, &seen) ? seen.from : TAUT_NONE;
}

static taut_status walk_from(
	struct taut_again *a, uint32_t op, struct taut_error *err)
{
	bool ok = open_up(a, op);

	while (ok && a->steps.count) {
		struct again_step *step = &a->steps.data[a->steps.count - 1];
		uint32_t next = next_of(a, step);

		if (next == TAUT_NONE) {
			a->ops[step->op].word |= TAUTI_DONE;
			a->steps.count--;
		} else if (again_copied(a, next) &&
			!(a->ops[next].word & TAUTI_DONE)) {
			if (a->ops[next].word & TAUTI_OPEN)
				return tell(a, next, err);
			ok = open_up(a, next);
		}
	}
	return ok ? TAUT_OK : taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory to look for a circle of waits");
}

taut_status tauti_again_circle(struct taut_again *a, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (size_t i = a->begin; i < a->log.count && !status; i++) {
		uint32_t op = a->log.data[i].op;

		if (!(a->log.data[i].was.word & TAUTI_OF_BLOCK) &&
			!(a->ops[op].word & TAUTI_DONE) &&
			tauti_has_op(a->edit, op))
			status = walk_from(a, op, err);
	}
	a->steps.count = 0;
	for (size_t i = a->begin; i < a->log.count; i++)
		if (!(a->log.data[i].was.word & TAUTI_OF_BLOCK))
			a->ops[a->log.data[i].op].word &=
				~(uint32_t)(TAUTI_OPEN | TAUTI_DONE);
	return status;
}
