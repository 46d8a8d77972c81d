/* edit_run.c - the ranks of a graph made of an edit: traces, steps, clocks. */
#include <stdlib.h>
#include <string.h>

#include "graph/edit_build.h"

static bool number_ranks(struct tauti_build *b, uint32_t *ret_n)
{
	uint32_t n = tauti_count(b->edit, TAUTI_RANKS), id = 0;

	b->rank_of = malloc((n + 1) * sizeof *b->rank_of);
	b->owned->rank_like = TAUT_ARENA_ARRAY(b->arena, uint32_t, n + 1);
	if (!b->rank_of || !b->owned->rank_like)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		b->rank_of[i] = TAUT_NONE;
		if (!tauti_has_rank(b->edit, i))
			continue;
		b->owned->rank_like[id] = tauti_ranks(b->edit)[i].like;
		b->rank_of[i] = id++;
	}
	*ret_n = id;
	return true;
}

static bool lay_lanes(struct tauti_build *b)
{
	struct taut_graph_lane *lanes = TAUT_ARENA_ARRAY(b->arena,
		struct taut_graph_lane, b->g->n_lanes + 1);

	if (!lanes)
		return false;
	for (uint32_t l = 0; l < b->g->n_lanes; l++) {
		lanes[l] = tauti_lanes(b->edit)[b->lanes[l]].is;
		if (lanes[l].trace != TAUT_NONE)
			lanes[l].trace = b->rank_of[lanes[l].trace];
	}
	b->g->lanes = lanes;
	return true;
}

/* By (trace, start), as they stand: copies follow what they are copies of. */
static bool lay_steps(struct tauti_build *b)
{
	uint32_t n = tauti_count(b->edit, TAUTI_STEPS), kept = 0;
	struct taut_step *steps = TAUT_ARENA_ARRAY(b->arena, struct taut_step,
		n + 1);

	if (!steps)
		return false;
	for (uint32_t s = 0; s < n; s++) {
		const struct tauti_step *from = &tauti_steps(b->edit)[s];

		if (b->op_of[from->begin_op] == TAUT_NONE ||
			b->op_of[from->end_op] == TAUT_NONE)
			continue;
		steps[kept] = b->below->steps[from->like];
		steps[kept].trace = b->rank_of[from->rank];
		steps[kept].begin_op = b->op_of[from->begin_op];
		steps[kept++].end_op = b->op_of[from->end_op];
	}
	b->g->steps = steps;
	b->g->n_steps = kept;
	return true;
}

static bool lay_clocks(struct tauti_build *b, uint32_t n)
{
	struct taut_clock_row *clocks;

	if (!b->below->clocks)
		return true;
	clocks = TAUT_ARENA_ARRAY(b->arena, struct taut_clock_row, n + 1);
	if (!clocks)
		return false;
	for (uint32_t i = 0; i < tauti_count(b->edit, TAUTI_RANKS); i++) {
		uint32_t rank = b->rank_of[i];

		if (rank == TAUT_NONE)
			continue;
		clocks[rank] = b->below->clocks[tauti_ranks(b->edit)[i].like];
		clocks[rank].trace = rank;
	}
	b->g->clocks = clocks;
	return true;
}

/* --- the run ---------------------------------------------------------------------------- */

static int32_t highest_rank(const struct taut_run *run)
{
	int32_t highest = -1;

	for (uint32_t i = 0; i < run->n_traces; i++)
		if (run->traces[i].rank > highest)
			highest = run->traces[i].rank;
	return highest;
}

/* A copy stands on a host of its own until somebody places it elsewhere. */
static bool lay_copy(struct tauti_build *b, uint32_t like, uint32_t nth,
	int32_t rank, struct taut_trace *ret)
{
	const struct taut_trace *from = &b->below->run->traces[like];

	*ret = *from;
	ret->rank = rank;
	ret->host = from->host && *from->host ?
		taut_arena_printf(b->arena, "%s copy %u", from->host, nth) :
		taut_arena_printf(b->arena, "rank %d copy %u", from->rank, nth);
	return ret->host != NULL;
}

static bool lay_traces(struct tauti_build *b, struct taut_trace *traces,
	uint32_t *n_copies)
{
	const struct taut_run *run = b->below->run;
	int32_t next = highest_rank(run) + 1;

	for (uint32_t i = 0; i < tauti_count(b->edit, TAUTI_RANKS); i++) {
		uint32_t like = tauti_ranks(b->edit)[i].like;
		struct taut_trace *to;

		if (b->rank_of[i] == TAUT_NONE)
			continue;
		to = &traces[b->rank_of[i]];
		if (i < run->n_traces)
			*to = run->traces[i];
		else if (!lay_copy(b, like, ++n_copies[like], next++, to))
			return false;
	}
	return true;
}

static bool lay_run(struct tauti_build *b, uint32_t n)
{
	const struct taut_run *below = b->below->run;
	struct taut_run *run = TAUT_ARENA_ARRAY(b->arena, struct taut_run, 1);
	struct taut_trace *traces = TAUT_ARENA_ARRAY(b->arena,
		struct taut_trace, n + 1);
	uint32_t *n_copies = calloc(below->n_traces + 1, sizeof *n_copies);
	bool ok = run && traces && n_copies && lay_traces(b, traces, n_copies);

	for (uint32_t i = 0; ok && i < n; i++)
		if (traces[i].world_size >= 0)
			traces[i].world_size += (int32_t)n -
				(int32_t)below->n_traces;
	free(n_copies);
	if (!ok)
		return false;
	*run = *below;
	run->n_traces = n;
	run->traces = traces;
	b->g->run = run;
	return true;
}

/* Exactly those of the graph below? */
static bool same_ranks(const struct tauti_build *b, uint32_t n)
{
	uint32_t below = b->below->run->n_traces;

	return n == below && (!n || b->rank_of[n - 1] == n - 1);
}

bool tauti_build_run(struct tauti_build *b)
{
	uint32_t n;

	if (!number_ranks(b, &n) || !lay_lanes(b) || !lay_steps(b) ||
		!lay_clocks(b, n))
		return false;
	if (b->below->unmatched) {
		b->g->unmatched = taut_arena_strndup(b->arena,
			b->below->unmatched, strlen(b->below->unmatched));
		if (!b->g->unmatched)
			return false;
	}
	return !b->below->run || same_ranks(b, n) || lay_run(b, n);
}
