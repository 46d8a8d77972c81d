/* sweep.c - a replay in whose order nobody is interested: one pass over the
 * operations, each behind all that it waits for. Which order that is does not
 * change any time or decision, and it is found once for a timeline; one that
 * stays on a lane as long as it can keeps what it touches near. */
#include <string.h>

#include "core.h"

/* Operations that are found ready wait at the end of the array that the order
 * fills from its beginning: both together are never more than all. */
static void find_order(struct tauti_scratch *s)
{
	uint32_t n = s->graph->n_ops, done = 0, top = n;
	uint32_t *order = s->sweep, *pending = s->pending;
	memcpy(pending, s->all_pending, ((size_t)n + 1) * sizeof *pending);
	for (uint32_t op = n; op-- > 0;)
		if (!pending[op])
			order[--top] = op;
	while (top < n) {
		uint32_t op = order[top++];
		for (;;) {
			uint32_t last = s->graph->edge_begin[op + 1];
			order[done++] = op;
			for (uint32_t i = s->graph->edge_begin[op]; i < last;
				i++) {
				uint32_t to = s->waits[i].to;
				if (!(--pending[to] & ~TAUTI_ON_LANE))
					order[--top] = to;
			}
			op++;
			if (!(pending[op] & TAUTI_ON_LANE) ||
				(--pending[op] & ~TAUTI_ON_LANE))
				break;
		}
	}
	s->sweep_state = done == n ? TAUTI_SWEEP_READY : TAUTI_SWEEP_CIRCLE;
}

struct pass {
	const struct tauti_scratch *s;
	const int64_t *dur_ns, *gap_ns;
	const uint8_t *mute;
	int64_t *start_ns, *end_ns;
	uint32_t *decided_by;
};

/* As release() of the core, for an op of which nobody counts the waits.
 * before: the op before on its lane. */
static inline void meet(const struct pass *p, uint32_t op, uint32_t before,
	uint32_t pred, int64_t at_ns)
{
	int64_t latest_ns = p->start_ns[op];
	uint32_t by = p->decided_by[op];
	if (at_ns > latest_ns || (at_ns == latest_ns && by != before &&
			(pred == before || pred < by))) {
		p->start_ns[op] = at_ns;
		p->decided_by[op] = pred;
	}
}

static inline uint32_t before_of(const struct tauti_scratch *s, uint32_t op)
{
	return s->all_pending[op] & TAUTI_ON_LANE ? op - 1 : TAUT_NONE;
}

static inline void meet_edges(
	const struct pass *p, uint32_t op, bool deciders)
{
	const struct tauti_scratch *s = p->s;
	uint32_t last = s->graph->edge_begin[op + 1];
	for (uint32_t i = s->graph->edge_begin[op]; i < last; i++) {
		struct tauti_wait wait = s->waits[i];
		int64_t at_ns = wait.lag_ns +
			(wait.from_start ? p->start_ns : p->end_ns)[op];
		if (deciders)
			meet(p, wait.to, before_of(s, wait.to), op, at_ns);
		else
			p->start_ns[wait.to] =
				max64(p->start_ns[wait.to], at_ns);
	}
}

static inline int64_t sweep(const struct pass *p, bool deciders)
{
	const struct tauti_scratch *s = p->s;
	int64_t makespan_ns = 0;
	for (uint32_t k = 0; k < s->graph->n_ops; k++) {
		uint32_t op = s->sweep[k];
		int64_t at_ns = p->start_ns[op];
		at_ns = (at_ns == INT64_MIN ? 0 : at_ns) +
			max64(p->gap_ns[op], 0);
		p->start_ns[op] = at_ns;
		at_ns += p->dur_ns[op];
		p->end_ns[op] = at_ns;
		makespan_ns = max64(makespan_ns, at_ns);
		if (s->all_pending[op + 1] & TAUTI_ON_LANE) {
			int64_t next_ns =
				at_ns + min64(p->gap_ns[op + 1], 0);
			if (deciders)
				meet(p, op + 1, op, op, next_ns);
			else
				p->start_ns[op + 1] =
					max64(p->start_ns[op + 1], next_ns);
		}
		if (!p->mute || !p->mute[op])
			meet_edges(p, op, deciders);
	}
	return makespan_ns;
}

bool tauti_replay_sweep(const struct taut_graph *graph,
	const struct taut_replay_edit *edit, struct taut_timeline *timeline)
{
	struct tauti_scratch *s = timeline->scratch;
	struct pass p = { s, edit->dur_ns ? edit->dur_ns : graph->dur_ns,
		edit->gap_ns ? edit->gap_ns : graph->gap_ns, edit->mute,
		timeline->start_ns, timeline->end_ns, timeline->decided_by };
	if (s->sweep_state == TAUTI_SWEEP_NONE)
		find_order(s);
	if (s->sweep_state != TAUTI_SWEEP_READY)
		return false;
	for (uint32_t op = 0; op < graph->n_ops; op++) {
		p.start_ns[op] = INT64_MIN;
		p.decided_by[op] = TAUT_NONE;
	}
	timeline->makespan_ns = edit->unordered > 1 ?
		sweep(&p, false) : sweep(&p, true);
	timeline->n_run = graph->n_ops;
	return true;
}
