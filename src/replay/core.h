/* core.h - what both loops of the replay have in common: how a wait ends.
 *
 * replay.c runs graphs whose operations share nothing: there the end of an op
 * is known when it starts. sharing.c runs the others.
 * Threads: one replay at a time uses a core. */
#ifndef TAUT_REPLAY_CORE_H
#define TAUT_REPLAY_CORE_H

#include <stdbool.h>

#include "replay.h"

struct core {
	const int64_t *dur_ns, *gap_ns;
	const uint8_t *mute;
	const uint32_t *edge_begin;
	const struct tauti_wait *waits;
	uint32_t *pending;
	int64_t *start_ns; /* until an op is ready: the latest of its waits */
	int64_t *end_ns;
	uint32_t *decided_by;
	struct ready ready;
	uint32_t any;      /* without order: one that is ready, of a chain
	                      through end_ns[]; or TAUT_NONE */
	bool unordered;
};

static inline int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* One wait of op is over: pred lets it start at at_ns. Was it the last? Then
 * start_ns[op] is its start. In which order the waits of an op end is of no
 * account. */
static inline bool is_released(
	struct core *core, uint32_t op, uint32_t pred, int64_t at_ns)
{
	int64_t latest_ns = core->start_ns[op];
	uint32_t by = core->decided_by[op];
	uint32_t pending = --core->pending[op];
	uint32_t before = pending & TAUTI_ON_LANE ? op - 1 : TAUT_NONE;
	bool last = !(pending & ~TAUTI_ON_LANE);

	if (at_ns > latest_ns || (at_ns == latest_ns && by != before &&
			(pred == before || pred < by))) {
		latest_ns = at_ns;
		core->decided_by[op] = pred;
	}
	if (last)
		latest_ns += max64(core->gap_ns[op], 0);
	core->start_ns[op] = latest_ns;
	return last;
}

static inline void put_any(struct core *core, uint32_t op)
{
	core->end_ns[op] = core->any;
	core->any = op;
}

/* TAUT_NONE: there is none. */
static inline uint32_t take_any(struct core *core)
{
	uint32_t op = core->any;
	if (op != TAUT_NONE)
		core->any = (uint32_t)core->end_ns[op];
	return op;
}

/* sweep.c: the same times without an order. False: operations wait for each
 * other in a circle, and nothing was done. edit is not NULL and shares
 * nothing. */
bool tauti_replay_sweep(const struct taut_graph *graph,
	const struct taut_replay_edit *edit, struct taut_timeline *timeline);

/* Nothing has run; what waits for nothing is ready. edit is not NULL. */
void tauti_core_begin(struct core *core, const struct taut_graph *graph,
	const struct taut_replay_edit *edit, struct taut_timeline *timeline);

#endif /* TAUT_REPLAY_CORE_H */
