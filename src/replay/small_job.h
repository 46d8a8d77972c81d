/* small_job.h - made-up jobs of a few ranks, for tests of edits only: marks,
 * host slices, kernels, collectives, waits with lags and gaps of either sign.
 * In slot s every lane has an op (or an arrival with its transfer), and waits
 * lead from one slot to a later one: no circles. Same seed, same job. */
#ifndef TAUT_REPLAY_SMALL_JOB_H
#define TAUT_REPLAY_SMALL_JOB_H

#include <stdio.h>

#include "by_hand.h"

enum { SMALL_RANKS = 3, SMALL_SLOTS = 8, SMALL_EVENTS = 64 };

struct small_job {
	struct by_hand *hand;
	struct taut_graph graph;
	struct taut_run run;
	struct taut_trace traces[SMALL_RANKS];
	struct taut_lane trace_lanes[3];
	struct taut_clock_row clocks[SMALL_RANKS];
	struct taut_step steps[SMALL_RANKS];
	struct taut_collective colls[SMALL_SLOTS];
	uint32_t members[SMALL_SLOTS * SMALL_RANKS];
	uint32_t n_ranks, n_colls;
	uint32_t at[SMALL_RANKS][3][SMALL_SLOTS]; /* op by lane and slot */
	int64_t *start;
	uint32_t *event, *collective;
	char host[SMALL_RANKS][16];
};

static inline uint32_t small_pick(uint64_t *seed, uint32_t n)
{
	uint64_t x = *seed += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ (x >> 31)) % n);
}

static inline int64_t small_signed(uint64_t *seed, uint32_t reach)
{
	return (int64_t)small_pick(seed, 2 * reach + 1) - reach;
}

static inline int64_t small_gap(uint64_t *seed)
{
	return small_pick(seed, 3) ? 0 : small_signed(seed, 4);
}

static inline void small_lane(
	struct small_job *job, uint64_t *seed, uint32_t rank, uint32_t lane)
{
	static const enum taut_op_kind kinds[] = {
		TAUT_OP_HOST, TAUT_OP_KERNEL, TAUT_OP_ARRIVE };
	static const char *const names[] = { "host", "gemm", "allreduce" };

	by_hand_lane(job->hand, (int)rank);
	for (uint32_t s = 0; s < SMALL_SLOTS; s++) {
		bool mark = lane == 0 && (s == 0 || s == SMALL_SLOTS - 1);
		bool pair = lane == 2;

		if (pair && s >= job->n_colls)
			break;
		job->at[rank][lane][s] = by_hand_op(job->hand,
			mark ? TAUT_OP_MARK : kinds[lane],
			mark ? "step" : names[lane],
			mark || pair ? 0 : small_pick(seed, 9), small_gap(seed));
		if (pair)
			by_hand_op(job->hand, TAUT_OP_TRANSFER, names[lane],
				small_pick(seed, 9), small_gap(seed));
	}
}

static inline void small_wait(struct small_job *job, uint64_t *seed)
{
	uint32_t s = small_pick(seed, SMALL_SLOTS - 1);
	uint32_t t = s + 1 + small_pick(seed, SMALL_SLOTS - s - 1);
	uint32_t rank = small_pick(seed, job->n_ranks);
	uint32_t a = small_pick(seed, 3), b = small_pick(seed, 3);
	unsigned kind = small_pick(seed, TAUT_EDGE_COMM) |
		(small_pick(seed, 2) ? TAUT_EDGE_FROM_START : 0);

	if ((a == 2 && s >= job->n_colls) || (b == 2 && t >= job->n_colls))
		return;
	by_hand_edge(job->hand, job->at[rank][a][s] + (a == 2),
		job->at[rank][b][t], kind, small_signed(seed, 6));
}

static inline void small_joins(struct small_job *job, uint64_t *seed)
{
	uint32_t n = 0;

	if (job->n_colls)
		by_hand_lane(job->hand, -1);
	for (uint32_t c = 0; c < job->n_colls; c++) {
		uint32_t join = by_hand_op(job->hand, TAUT_OP_JOIN,
			"allreduce", 0, 0);

		job->colls[c] = (struct taut_collective) {
			.kind = TAUT_COLL_ALLREDUCE,
			.group_size = (int32_t)job->n_ranks, .bytes = 8,
			.seq = c, .first_member = n,
			.n_members = job->n_ranks, .join_op = join,
			.name = job->hand->name.data[join] };
		for (uint32_t r = 0; r < job->n_ranks; r++) {
			uint32_t arrive = job->at[r][2][c];

			job->members[n++] = arrive;
			by_hand_edge(job->hand, arrive, join, TAUT_EDGE_COMM, 0);
			if (small_pick(seed, 8))
				by_hand_edge(job->hand, join, arrive + 1,
					TAUT_EDGE_COMM, 0);
		}
	}
}

static inline void small_ranks(struct small_job *job)
{
	for (uint32_t r = 0; r < job->n_ranks; r++) {
		snprintf(job->host[r], sizeof job->host[r], "node%u", r);
		job->traces[r] = (struct taut_trace) {
			.path = "made up", .format = "none",
			.host = r ? job->host[r] : "", .clock = "",
			.rank = (int32_t)r, .n_events = SMALL_EVENTS,
			.world_size = (int32_t)job->n_ranks, .n_lanes = 3,
			.lanes = job->trace_lanes };
		job->clocks[r] = (struct taut_clock_row) { .trace = r,
			.offset_us = r };
		job->steps[r] = (struct taut_step) { r, 7, 0, 1,
			job->at[r][0][0], job->at[r][0][SMALL_SLOTS - 1] };
	}
	job->run = (struct taut_run) { .path = "made up",
		.n_traces = job->n_ranks, .traces = job->traces };
}

/* Columns that by_hand.h leaves out. */
static inline void small_columns(struct small_job *job, uint64_t *seed)
{
	struct taut_graph *g = &job->graph;
	struct taut_graph_lane *lanes = job->hand->lanes.data;
	uint32_t n = g->n_ops + 1;

	job->start = calloc(n, sizeof *job->start);
	job->event = calloc(n, sizeof *job->event);
	job->collective = malloc(n * sizeof *job->collective);
	by_hand_must(job->start && job->event && job->collective);
	for (uint32_t i = 0; i < g->n_ops; i++) {
		job->start[i] = small_pick(seed, 100);
		job->event[i] = small_pick(seed, 4) && g->kind[i] !=
			TAUT_OP_JOIN ? small_pick(seed, SMALL_EVENTS) :
			TAUT_NONE;
		job->collective[i] = TAUT_NONE;
	}
	for (uint32_t c = 0; c < job->n_colls; c++) {
		job->collective[job->colls[c].join_op] = c;
		for (uint32_t r = 0; r < job->n_ranks; r++)
			job->collective[job->at[r][2][c]] =
				job->collective[job->at[r][2][c] + 1] = c;
	}
	for (uint32_t l = 0; l < g->n_lanes; l++) {
		lanes[l].trace_lane = lanes[l].trace == TAUT_NONE ?
			TAUT_NONE : l % 3;
		lanes[l].is_main = lanes[l].trace_lane == 0;
		lanes[l].is_comm = lanes[l].trace_lane == 2;
	}
}

static inline struct small_job *small_job_create(uint64_t seed)
{
	struct small_job *job = calloc(1, sizeof *job);
	uint32_t n_waits;

	by_hand_must(job != NULL);
	job->hand = by_hand_create();
	job->n_ranks = 1 + small_pick(&seed, SMALL_RANKS);
	job->n_colls = small_pick(&seed, 5);
	for (uint32_t r = 0; r < job->n_ranks; r++)
		for (uint32_t l = 0; l < 3; l++)
			small_lane(job, &seed, r, l);
	n_waits = small_pick(&seed, 16 * job->n_ranks);
	for (uint32_t i = 0; i < n_waits; i++)
		small_wait(job, &seed);
	small_joins(job, &seed);
	small_ranks(job);
	job->graph = *by_hand_graph(job->hand);
	small_columns(job, &seed);
	job->graph.run = &job->run;
	job->graph.clocks = job->clocks;
	job->graph.start_ns = job->start;
	job->graph.event = job->event;
	job->graph.collective = job->collective;
	job->graph.collectives = job->colls;
	job->graph.n_collectives = job->n_colls;
	job->graph.member_arrive = job->members;
	job->graph.steps = job->steps;
	job->graph.n_steps = job->n_ranks;
	return job;
}

static inline void small_job_destroy(struct small_job *job)
{
	by_hand_destroy(job->hand);
	free(job->start);
	free(job->event);
	free(job->collective);
	free(job);
}

#endif /* TAUT_REPLAY_SMALL_JOB_H */
