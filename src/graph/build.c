/* build.c - joins the ranks and lays out the graph's arrays. */
#include <stdlib.h>
#include <string.h>

#include "graph/builder.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for the graph");
}

/* --- each rank alone ----------------------------------------------------------*/

static taut_status build_rank(void *context, size_t i, struct taut_error *err)
{
	static taut_status (*const stages[])(struct tauti_rank *,
		struct taut_error *) = {
		tauti_steps_find, tauti_comm_find, tauti_device_link,
		tauti_comm_describe, tauti_host_waits, tauti_requests,
		tauti_load_waits, tauti_slices_cut, tauti_handoffs,
		tauti_posts, tauti_turns, tauti_load_edges,
	};
	/* a table tells what waits for what: nothing is to be found out */
	static taut_status (*const of_table[])(struct tauti_rank *,
		struct taut_error *) = {
		tauti_steps_find, tauti_comm_find, tauti_comm_describe,
		tauti_slices_cut, tauti_posts,
	};
	struct builder *b = context;
	struct tauti_rank *rank = &b->ranks[i];
	taut_status status = tauti_rank_init(rank, &b->run->traces[i],
		(uint32_t)i, &b->options, err);
	bool table = rank->trace->is_table;
	size_t n = table ? sizeof of_table / sizeof of_table[0] :
		sizeof stages / sizeof stages[0];

	for (size_t s = 0; !status && s < n; s++)
		status = (table ? of_table : stages)[s](rank, err);
	return status;
}

/* Half of what the gaps of a graph may add up to, 36 years. */
#define TOO_FAR_NS ((uint64_t)1 << 59)

/* --- one clock ------------------------------------------------------------------*/

static int64_t first_event(const struct taut_trace *t)
{
	int64_t first = INT64_MAX;

	for (uint32_t l = 0; l < t->n_lanes; l++)
		if (t->lanes[l].kind != TAUT_LANE_OTHER &&
			t->lane_begin[l] < t->lane_begin[l + 1] &&
			t->start_ns[t->lane_begin[l]] < first)
			first = t->start_ns[t->lane_begin[l]];
	return first == INT64_MAX ? t->base_ns : t->base_ns + first;
}

/* On the common clock. */
static int64_t first_common(const struct builder *b, uint32_t rank)
{
	return tauti_clock_apply(&b->clocks[rank],
		first_event(&b->run->traces[rank]), b->raw_origin);
}

/* A rank whose clock nothing compares, and that counts from another epoch than the
 * first, begins when that does. */
static void join_epochs(struct builder *b)
{
	for (uint32_t i = 1; i < b->n_ranks; i++) {
		int64_t apart;

		if (b->clocks[i].uncertainty_us < TAUTI_UNKNOWN_US ||
			(!__builtin_sub_overflow(first_common(b, 0),
			first_common(b, i), &apart) &&
			apart <= TAUTI_MAX_APART_NS &&
			apart >= -TAUTI_MAX_APART_NS))
			continue;
		b->clocks[i].offset_us += (double)apart / 1e3;
		b->g->n_apart++;
	}
}

static taut_status too_far_apart(const struct builder *b, struct taut_error *err)
{
	uint32_t first = 0, last = 0;

	for (uint32_t i = 1; i < b->n_ranks; i++) {
		if (first_common(b, i) < first_common(b, first))
			first = i;
		if (first_common(b, i) > first_common(b, last))
			last = i;
	}
	return taut_error_set(err, TAUT_EMATCH, -1, "%s and %s: their times are "
		"decades apart, of other epochs; they cannot be laid on one line",
		b->run->traces[first].path, b->run->traces[last].path);
}

static taut_status align(struct builder *b, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	int64_t last = INT64_MIN;

	b->raw_origin = INT64_MAX;
	for (uint32_t i = 0; i < b->n_ranks; i++) {
		int64_t first = first_event(&b->run->traces[i]);

		b->clocks[i] = (struct taut_clock_row) { .trace = i };
		if (first < b->raw_origin)
			b->raw_origin = first;
	}
	if (!b->options.no_clock_alignment)
		status = tauti_clock_align(b->ranks, b->n_ranks, &b->match,
			b->raw_origin, b->clocks, err);
	if (!status && !b->options.no_clock_alignment)
		join_epochs(b);
	b->origin = INT64_MAX;
	for (uint32_t i = 0; i < b->n_ranks; i++) {
		int64_t first = first_common(b, i);

		if (first < b->origin)
			b->origin = first;
		if (first > last)
			last = first;
	}
	if (!status && b->n_ranks &&
		(uint64_t)last - (uint64_t)b->origin >= TOO_FAR_NS)
		status = too_far_apart(b, err);
	return status;
}

/* A rank's own time on the graph's clock. */
int64_t tauti_common_time(const struct builder *b, uint32_t rank, int64_t t)
{
	return tauti_clock_apply(&b->clocks[rank],
		t + b->run->traces[rank].base_ns, b->raw_origin) - b->origin;
}

static void publish(struct builder *b)
{
	struct taut_graph *g = b->g;

	g->run = b->run;
	g->names = b->all_names;
	g->start_ns = b->start;
	g->dur_ns = b->dur;
	g->gap_ns = b->gap;
	g->lane = b->lane;
	g->name = b->name;
	g->event = b->event;
	g->collective = b->collective;
	g->kind = b->kind;
	g->edge_begin = b->edge_begin;
	g->edge_to = b->edge_to;
	g->edge_lag_ns = b->lag;
	g->edge_kind = b->edge_kind;
	g->lanes = b->lanes;
	b->lane_begin[g->n_lanes] = g->n_ops;
	g->lane_begin = b->lane_begin;
	g->steps = b->steps;
	g->member_arrive = b->member_arrive;
	g->clocks = b->clocks;
	g->clock_origin_ns = b->raw_origin;
	g->origin_ns = b->origin;
	g->n_unmatched = b->match.n_unmatched;
	g->groups_by_time = b->match.groups_by_time;
	g->by_order_alone = b->match.by_order_alone;
}

/* --- the whole ------------------------------------------------------------------*/

static bool lay_out(struct builder *b)
{
	if (!tauti_lay_ops(b) || !tauti_lay_edges(b) || !tauti_lay_gaps(b) ||
		!tauti_lay_collectives(b))
		return false;
	publish(b);
	if (b->match.unmatched[0]) {
		b->g->unmatched = taut_arena_strndup(b->arena,
			b->match.unmatched, strlen(b->match.unmatched));
		return b->g->unmatched != NULL;
	}
	return true;
}

static taut_status build(struct builder *b, struct taut_error *err)
{
	struct taut_names *keys = taut_names_create();
	taut_status status = keys ? TAUT_OK : no_memory(err);

	if (!status)
		status = taut_parallel_for(b->n_ranks, b->options.threads,
			build_rank, b, err);
	if (!status)
		status = tauti_match(b->ranks, b->n_ranks, keys, &b->match, err);
	if (!status)
		status = align(b, err);
	if (!status && !lay_out(b))
		status = no_memory(err);
	taut_names_destroy(keys);
	return status;
}

static void builder_fini(struct builder *b)
{
	for (uint32_t i = 0; b->ranks && i < b->n_ranks; i++)
		tauti_rank_fini(&b->ranks[i]);
	for (uint32_t i = 0; b->names && i < b->n_ranks; i++)
		free(b->names[i]);
	free(b->ranks);
	free(b->names);
	free(b->op_base);
	free(b->lane_base);
	taut_vec_free(&b->edges);
	tauti_match_fini(&b->match);
}

static bool builder_init(struct builder *b, const struct taut_run *run,
	const struct taut_graph_options *options)
{
	struct tauti_owned_graph *owned;

	b->run = run;
	b->n_ranks = run->n_traces;
	if (options)
		b->options = *options;
	b->arena = taut_arena_create();
	b->all_names = taut_names_create();
	if (!b->arena || !b->all_names)
		return false;
	owned = TAUT_ARENA_ARRAY(b->arena, struct tauti_owned_graph, 1);
	b->clocks = TAUT_ARENA_ARRAY(b->arena, struct taut_clock_row,
		b->n_ranks + 1);
	b->ranks = calloc(b->n_ranks + 1, sizeof *b->ranks);
	b->names = calloc(b->n_ranks + 1, sizeof *b->names);
	b->op_base = calloc(b->n_ranks + 1, sizeof *b->op_base);
	b->lane_base = calloc(b->n_ranks + 1, sizeof *b->lane_base);
	if (!owned || !b->clocks || !b->ranks || !b->names || !b->op_base ||
		!b->lane_base)
		return false;
	owned->arena = b->arena;
	owned->names = b->all_names;
	b->g = &owned->graph;
	return true;
}

taut_status taut_graph_build(const struct taut_run *run,
	const struct taut_graph_options *options, struct taut_graph **ret_graph,
	struct taut_error *reterr)
{
	struct builder b = { 0 };
	taut_status status = builder_init(&b, run, options) ?
		build(&b, reterr) : no_memory(reterr);

	builder_fini(&b);
	if (status) {
		taut_names_destroy(b.all_names);
		taut_arena_destroy(b.arena);
		return status;
	}
	*ret_graph = b.g;
	return TAUT_OK;
}

int64_t taut_graph_time(const struct taut_graph *graph, uint32_t trace,
	int64_t trace_ns)
{
	return tauti_clock_apply(&graph->clocks[trace],
		trace_ns + graph->run->traces[trace].base_ns,
		graph->clock_origin_ns) - graph->origin_ns;
}

void taut_graph_destroy(struct taut_graph *graph)
{
	struct tauti_owned_graph *owned = (struct tauti_owned_graph *)graph;
	struct taut_arena *arena;

	if (!graph)
		return;
	arena = owned->arena;
	for (uint32_t i = 0; owned->row_names && i < graph->run->n_traces; i++)
		taut_names_destroy(owned->row_names[i]);
	taut_names_destroy(owned->names);
	taut_arena_destroy(arena);
}
