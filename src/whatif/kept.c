/* kept.c - see kept.h. */
#include "whatif/kept.h"

static int64_t instant(const struct taut_graph *g, uint32_t op, double at)
{
	return g->start_ns[op] + (int64_t)(at * (double)g->dur_ns[op]);
}

static bool is_kept(const struct tauti_whatif *w, const struct taut_block *b)
{
	const struct tauti_job *job = w->job;

	return b->from_op != TAUT_NONE && b->to_op != TAUT_NONE &&
		job->phase[b->from_op] == TAUTI_PHASE_FORWARD &&
		job->phase[b->to_op] == TAUTI_PHASE_BACKWARD &&
		job->step_of[b->from_op] == job->step_of[b->to_op];
}

/* While all changes before leave least of it. */
static double bytes_left(const struct tauti_whatif *w, uint32_t block)
{
	const struct tauti_gap *gap = w->gaps ? w->gaps[block] : NULL;
	double bytes = (double)w->memory->blocks[block].bytes *
		w->block_scale[block];

	for (; gap; gap = gap->next)
		bytes *= 1 - gap->share;
	return bytes;
}

taut_status tauti_kept_find(const struct tauti_whatif *w, uint32_t trace,
	tauti_kept_list *ret_list, struct taut_error *err)
{
	const struct taut_memory_rank *rank;

	taut_vec_clear(ret_list);
	if (!w->memory)
		return TAUT_OK;
	rank = &w->memory->ranks[trace];
	for (uint32_t i = rank->first_block;
		i < rank->first_block + rank->n_blocks; i++) {
		const struct taut_block *b = &w->memory->blocks[i];
		struct tauti_kept kept;

		if (!is_kept(w, b))
			continue;
		kept = (struct tauti_kept){ i, w->job->step_of[b->from_op],
			b->from_op, instant(w->graph, b->from_op, b->from_at),
			instant(w->graph, b->to_op, b->to_at),
			bytes_left(w, i) };
		if (!taut_vec_push(ret_list, kept))
			return tauti_no_memory(err, "what is kept");
	}
	return TAUT_OK;
}

taut_status tauti_kept_free(struct tauti_whatif *w,
	const struct tauti_kept *kept, uint32_t until_op, uint32_t again_op,
	double share, bool *ret_freed, struct taut_error *err)
{
	int64_t until_ns, again_ns;

	*ret_freed = false;
	if (until_op == TAUT_NONE || again_op == TAUT_NONE)
		return TAUT_OK;
	until_ns = instant(w->graph, until_op, 1);
	again_ns = instant(w->graph, again_op, 0);
	*ret_freed = share > 0 && kept->from_ns <= until_ns &&
		until_ns <= again_ns && again_ns <= kept->to_ns;
	return !*ret_freed ? TAUT_OK : tauti_add_gap(
		w, kept->block, until_op, again_op, share, err);
}

uint32_t tauti_host_of(const struct tauti_whatif *w, const uint32_t *launcher,
	uint32_t op)
{
	return op != TAUT_NONE &&
		tauti_is_device_op((enum taut_op_kind)w->graph->kind[op]) ?
		launcher[op] : op;
}

/* --- what is done again ----------------------------------------------------------- */

taut_status tauti_rounds_begin(const struct tauti_whatif *w,
	struct tauti_rounds *ret_rounds, struct taut_error *err)
{
	*ret_rounds = (struct tauti_rounds){ .w = w };
	if (!w->again)
		return TAUT_OK;
	ret_rounds->at = TAUT_ARENA_ARRAY(
		w->arena, struct tauti_round_at, (size_t)w->graph->n_ops + 1);
	return ret_rounds->at ? TAUT_OK :
		tauti_no_memory(err, "what is done again");
}

uint32_t tauti_rounds_left(struct tauti_rounds *r, const struct taut_op *op)
{
	const struct taut_graph *g = r->w->graph;
	struct tauti_round_at *at;
	struct tauti_again again;

	if (!r->at || op->like == TAUT_NONE || !r->w->again[op->like].times)
		return 0;
	again = r->w->again[op->like];
	if (again.elsewhere)
		return taut_edit_lane(r->w->edit, op->lane).trace_lane ==
			g->lanes[g->lane[op->like]].trace_lane ?
			again.times : 0;
	at = &r->at[op->like];
	if (at->lane != op->lane + 1)
		*at = (struct tauti_round_at){ .lane = op->lane + 1 };
	return again.times - at->n++ % (again.times + 1);
}
