/* edges.c - what waits for what over all ranks, and what is left over. */
#include <stdlib.h>
#include <string.h>

#include "graph/builder.h"

enum {
	ROUNDING_NS = 2000,      /* of two stamps, each to 1 us */
	WORKER_LAG_NS = 200000,  /* a worker thread wakes up within */
};

static bool add_edge(struct builder *b, uint32_t from, uint32_t to, int64_t lag,
	uint8_t kind)
{
	struct tauti_edge e = { from, to, lag, kind };

	b->g->edges_of[kind & ~TAUT_EDGE_FROM_START]++;
	return taut_vec_push(&b->edges, e);
}

/* Work -> every device row it launched: from the call's start with the usual
 * lag, or from the end of the part that is known to come before. */
static bool launch_edges(struct builder *b, uint32_t rank)
{
	const struct tauti_rank *r = &b->ranks[rank];
	const struct taut_trace *t = r->trace;
	uint32_t base = b->op_base[rank];

	for (uint32_t i = 0; i < t->n_events; i++) {
		const struct tauti_call *call;
		int64_t lag;
		uint8_t kind = TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START;

		if (r->op_of[i] == TAUT_NONE || r->launch_of[i] == TAUT_NONE ||
			r->call_of[r->launch_of[i]] == TAUT_NONE)
			continue;
		call = &r->calls.data[r->call_of[r->launch_of[i]]];
		if (call->launch_op == TAUT_NONE)
			continue;
		lag = tauti_is_device(t->kind[i]) ? r->launch_lag :
			WORKER_LAG_NS;
		if (call->submit != INT64_MIN)
			kind = TAUT_EDGE_LAUNCH;
		if (!add_edge(b, base + call->launch_op, base + r->op_of[i],
			lag, kind))
			return false;
	}
	return true;
}

static bool other_edges(struct builder *b, uint32_t rank)
{
	const struct tauti_rank *r = &b->ranks[rank];
	uint32_t base = b->op_base[rank];

	for (size_t i = 0; i < r->calls.count; i++) {
		const struct tauti_call *c = &r->calls.data[i];

		if (c->return_op != TAUT_NONE && !add_edge(b,
			base + tauti_op_out(r, c->waited), base + c->return_op,
			0, TAUT_EDGE_SYNC))
			return false;
	}
	for (size_t i = 0; i < r->stream_waits.count; i++) {
		const struct tauti_stream_wait *w = &r->stream_waits.data[i];

		if (!add_edge(b, base + tauti_op_out(r, w->before),
			base + r->op_of[w->row], 0, TAUT_EDGE_STREAM))
			return false;
	}
	for (size_t i = 0; i < r->edges.count; i++) {
		const struct tauti_edge *e = &r->edges.data[i];

		if (!add_edge(b, base + e->from, base + e->to, e->lag, e->kind))
			return false;
	}
	return true;
}

/* A recording without steps ends when its last lane does. */
static bool end_edges(struct builder *b, uint32_t rank)
{
	const struct tauti_rank *r = &b->ranks[rank];
	uint32_t base = b->op_base[rank];

	if (r->marks.count != 1 || r->marks.data[0].row != TAUT_NONE)
		return true;
	for (uint32_t l = 0; l < r->trace->n_lanes; l++)
		if (l != r->main_lane && r->lane_begin[l] < r->lane_begin[l + 1]
			&& !add_edge(b, base + r->lane_begin[l + 1] - 1,
			base + r->marks.data[0].end_op, 0, TAUT_EDGE_THREAD))
			return false;
	return true;
}

static void note_backward(struct builder *b, int64_t by)
{
	b->g->n_backward++;
	if (by > b->g->worst_backward_ns)
		b->g->worst_backward_ns = by;
}

/* Is it told that the member waits for the last one, whatever the times? */
static bool meets(const struct builder *b, uint32_t rank, uint32_t transfer)
{
	return b->event[transfer] != TAUT_NONE && (b->run->traces[rank].flags[
		b->event[transfer]] & TAUT_EVENT_MEETS);
}

/* Can this member have waited until `at`, when the last one came? Not if it
 * was done by then (the root of a broadcast may be), nor if what follows on
 * its lane had begun. Where it should have, that is a wait back in time. */
static bool can_wait(struct builder *b, enum taut_coll_kind kind, uint32_t rank,
	uint32_t transfer, int64_t at)
{
	int64_t end = b->start[transfer] + b->dur[transfer];
	int64_t unsure = ROUNDING_NS + (int64_t)(1e3 *
		b->clocks[rank].uncertainty_us);
	uint32_t next = transfer + 1;

	bool begun = next < b->g->n_ops &&
		b->lane[next] == b->lane[transfer] && b->start[next] < at;

	if (meets(b, rank, transfer)) {
		b->told_back |= begun;
		return true;
	}
	if (begun && b->start[next] < end)
		end = b->start[next];
	if (end >= at)
		return true;
	if (taut_coll_levels(kind) && at - end > unsure)
		note_backward(b, at - end);
	return false;
}

/* Arrivals -> join -> transfers. */
static bool join_members(struct builder *b, uint32_t index, uint32_t join)
{
	struct taut_collective *c = &b->match.collectives.data[index];
	int64_t at = INT64_MIN;

	for (uint32_t i = 0; i < c->n_members; i++) {
		uint32_t id = b->member_arrive[c->first_member + i];

		if (b->start[id] > at)
			at = b->start[id];
	}
	b->start[join] = at;
	b->name[join] = b->name[b->member_arrive[c->first_member]];
	for (uint32_t i = 0; i < c->n_members; i++) {
		uint32_t id = b->member_arrive[c->first_member + i];
		uint32_t rank = b->match.member_rank.data[c->first_member + i];
		int64_t end = b->start[id + 1] + b->dur[id + 1];

		if (!add_edge(b, id, join, 0, TAUT_EDGE_COMM))
			return false;
		if (!can_wait(b, c->kind, rank, id + 1, at))
			continue;
		b->start[id + 1] = at;
		b->dur[id + 1] = end > at ? end - at : 0;
		if (!add_edge(b, join, id + 1, 0, TAUT_EDGE_COMM))
			return false;
	}
	return true;
}

static bool join_ranks(struct builder *b)
{
	struct tauti_match *m = &b->match;
	uint32_t id = b->g->n_ops - b->g->n_collectives;
	uint32_t lane = b->g->n_lanes - 1;

	if (!b->g->n_collectives)
		return true;
	b->lanes[lane] = (struct taut_graph_lane) { TAUT_NONE, TAUT_NONE,
		TAUT_LANE_OTHER, 0, 1 };
	b->lane_begin[lane] = id;
	for (size_t i = 0; i < m->member_comm.count; i++) {
		uint32_t rank = m->member_rank.data[i];

		b->member_arrive[i] = b->op_base[rank] + b->ranks[rank].comms
			.data[m->member_comm.data[i]].arrive;
	}
	for (uint32_t i = 0; i < b->g->n_collectives; i++, id++) {
		struct taut_collective *c = &m->collectives.data[i];
		uint32_t first = b->member_arrive[c->first_member];
		uint32_t rank = m->member_rank.data[c->first_member];
		uint32_t group = b->ranks[rank].comms.data[
			m->member_comm.data[c->first_member]].group;

		b->kind[id] = TAUT_OP_JOIN;
		b->lane[id] = lane;
		b->event[id] = TAUT_NONE;
		b->collective[id] = i;
		c->join_op = id;
		c->name = b->name[first];
		c->group = group ? tauti_graph_name(b, rank, group) : 0;
		if (c->group == TAUT_NONE || !join_members(b, i, id))
			return false;
	}
	return true;
}

/* Takes from each edge's lag what the recording contradicts, and drops edges
 * to what had begun before: all that are left lead on in time. */
static void fit_lags(struct builder *b)
{
	size_t kept = 0;

	for (size_t i = 0; i < b->edges.count; i++) {
		struct tauti_edge *e = &b->edges.data[kept];
		int64_t at, late;

		*e = b->edges.data[i];
		at = b->start[e->from] + e->lag;
		if (!(e->kind & TAUT_EDGE_FROM_START))
			at += b->dur[e->from];
		late = at - b->start[e->to];
		if (late > 0 && tauti_is_told(b, e)) {
			/* stamps are not so exact, but the wait is known */
			b->told_back |= b->start[e->to] < b->start[e->from];
			e->lag -= late;
			kept++;
			continue;
		}
		if (b->start[e->to] < b->start[e->from]) {
			note_backward(b, late);
			b->g->edges_of[e->kind & ~TAUT_EDGE_FROM_START]--;
			continue;
		}
		kept++;
		if (late <= 0)
			continue;
		e->lag -= late;
		if ((e->kind & TAUT_EDGE_FROM_START) ? e->lag < -ROUNDING_NS :
			late > ROUNDING_NS &&
			(e->kind & ~TAUT_EDGE_FROM_START) != TAUT_EDGE_LAUNCH)
			note_backward(b, late);
	}
	b->edges.count = kept;
}

/* Lanes whose first operation waits for nothing hang on the main thread. */
static bool hang_lanes(struct builder *b, const uint8_t *has_edge)
{
	for (uint32_t l = 0; l < b->g->n_lanes; l++) {
		uint32_t first = b->lane_begin[l], main;

		if (b->lanes[l].trace == TAUT_NONE || b->lanes[l].is_main ||
			has_edge[first])
			continue;
		main = b->op_base[b->lanes[l].trace] + b->ranks[
			b->lanes[l].trace].lane_begin[
			b->ranks[b->lanes[l].trace].main_lane];
		if (b->start[main] <= b->start[first] && !add_edge(b, main,
			first, b->start[first] - b->start[main],
			TAUT_EDGE_START | TAUT_EDGE_FROM_START))
			return false;
	}
	return true;
}

static bool collect_edges(struct builder *b)
{
	uint8_t *has_edge;
	bool ok = true;

	for (uint32_t i = 0; ok && i < b->n_ranks; i++)
		ok = launch_edges(b, i) && other_edges(b, i) && end_edges(b, i);
	ok = ok && tauti_lay_told(b) && join_ranks(b);
	has_edge = calloc(b->g->n_ops + 1, 1);
	for (size_t i = 0; has_edge && i < b->edges.count; i++)
		has_edge[b->edges.data[i].to] = 1;
	ok = ok && has_edge && hang_lanes(b, has_edge);
	free(has_edge);
	if (ok)
		fit_lags(b);
	return ok;
}

static bool lay_csr(struct builder *b)
{
	struct taut_graph *g = b->g;
	size_t n = b->edges.count;

	g->n_edges = (uint32_t)n;
	memset(b->edge_begin, 0, (g->n_ops + 2) * sizeof *b->edge_begin);
	b->edge_to = TAUT_ARENA_ARRAY(b->arena, uint32_t, n + 1);
	b->lag = TAUT_ARENA_ARRAY(b->arena, int64_t, n + 1);
	b->edge_kind = TAUT_ARENA_ARRAY(b->arena, uint8_t, n + 1);
	if (!b->edge_to || !b->lag || !b->edge_kind)
		return false;
	for (size_t i = 0; i < n; i++)
		b->edge_begin[b->edges.data[i].from + 2]++;
	for (size_t i = 2; i < (size_t)g->n_ops + 2; i++)
		b->edge_begin[i] += b->edge_begin[i - 1];
	for (size_t i = 0; i < n; i++) {
		const struct tauti_edge *e = &b->edges.data[i];
		uint32_t at = b->edge_begin[e->from + 1]++;

		b->edge_to[at] = e->to;
		b->lag[at] = e->lag;
		b->edge_kind[at] = e->kind;
	}
	return true;
}

/* What is left of each start when all known waits are taken away. */
bool tauti_lay_gaps(struct builder *b)
{
	struct taut_graph *g = b->g;
	int64_t *known = malloc((g->n_ops + 1) * sizeof *known);

	if (!known)
		return false;
	for (uint32_t i = 0; i < g->n_ops; i++) {
		uint32_t l = b->lane[i];
		bool follows = i > b->lane_begin[l] &&
			b->lanes[l].trace != TAUT_NONE;

		known[i] = follows ? b->start[i - 1] + b->dur[i - 1] : INT64_MIN;
	}
	for (size_t i = 0; i < b->edges.count; i++) {
		const struct tauti_edge *e = &b->edges.data[i];
		int64_t at = b->start[e->from] + e->lag;

		if (!(e->kind & TAUT_EDGE_FROM_START))
			at += b->dur[e->from];
		if (at > known[e->to])
			known[e->to] = at;
	}
	for (uint32_t i = 0; i < g->n_ops; i++)
		b->gap[i] = known[i] == INT64_MIN ? b->start[i] :
			b->start[i] - known[i];
	free(known);
	return true;
}

bool tauti_lay_edges(struct builder *b)
{
	bool dropped;

	if (!collect_edges(b) || !lay_csr(b))
		return false;
	if (b->told_back && (!tauti_check_told(b, &dropped) ||
		(dropped && !lay_csr(b))))
		return false;
	return tauti_break_cycles(b, &dropped) && (!dropped || lay_csr(b));
}
