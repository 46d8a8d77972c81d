/* edit_build.c - a graph of an edit: its operations, waits and collectives. */
#include <stdlib.h>
#include <string.h>

#include "graph/edit_build.h"

/* --- which lanes, in which order ----------------------------------------------------- */

struct lane_key {
	uint32_t behind; /* lane of the graph below */
	uint32_t fresh;  /* 0: it is that lane itself */
	uint32_t rank, lane;
};

static int compare_lanes(const void *a, const void *b)
{
	const struct lane_key *x = a, *y = b;

	if (x->behind != y->behind)
		return x->behind < y->behind ? -1 : 1;
	if (x->fresh != y->fresh)
		return x->fresh < y->fresh ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->lane < y->lane ? -1 : x->lane > y->lane;
}

/* New lanes stand behind the last one of their rank, those of copies behind all
 * but the joins. last_of: by rank, its last lane of the graph below. */
static struct lane_key key_of(const struct tauti_build *b, uint32_t lane,
	const uint32_t *last_of, uint32_t last)
{
	uint32_t rank = tauti_lanes(b->edit)[lane].is.trace;
	uint32_t n = b->below->n_lanes;

	if (lane < n)
		return (struct lane_key) { lane, 0, 0, lane };
	if (rank == TAUT_NONE)
		return (struct lane_key) { n, 1, rank, lane };
	return (struct lane_key) { last_of[rank] == TAUT_NONE ? last :
		last_of[rank], 1, rank, lane };
}

static bool stays(const struct tauti_build *b, uint32_t lane)
{
	const struct tauti_lane *l = &tauti_lanes(b->edit)[lane];

	return tauti_has_lane(b->edit, lane) &&
		(l->first != TAUT_NONE || l->was_empty);
}

static bool order_lanes(struct tauti_build *b)
{
	uint32_t n = tauti_count(b->edit, TAUTI_LANES);
	uint32_t n_ranks = tauti_count(b->edit, TAUTI_RANKS), last = 0, kept = 0;
	uint32_t *last_of = malloc((n_ranks + 1) * sizeof *last_of);
	struct lane_key *keys = malloc((n + 1) * sizeof *keys);

	b->lanes = malloc((n + 1) * sizeof *b->lanes);
	if (keys && last_of && b->lanes) {
		memset(last_of, 0xff, (n_ranks + 1) * sizeof *last_of);
		for (uint32_t l = 0; l < b->below->n_lanes; l++) {
			uint32_t rank = b->below->lanes[l].trace;

			if (rank == TAUT_NONE)
				continue;
			last_of[rank] = l;
			last = l;
		}
		for (uint32_t l = 0; l < n; l++)
			if (stays(b, l))
				keys[kept++] = key_of(b, l, last_of, last);
		qsort(keys, kept, sizeof *keys, compare_lanes);
		for (uint32_t l = 0; l < kept; l++)
			b->lanes[l] = keys[l].lane;
		b->g->n_lanes = kept;
	}
	free(last_of);
	free(keys);
	return b->lanes && keys && last_of;
}

/* --- which ids ----------------------------------------------------------------------------- */

static bool number_ops(struct tauti_build *b)
{
	uint32_t n = tauti_count(b->edit, TAUTI_AT), id = 0;

	b->op_of = malloc((n + 1) * sizeof *b->op_of);
	b->id_of = malloc((n + 1) * sizeof *b->id_of);
	b->lane_begin = TAUT_ARENA_ARRAY(b->arena, uint32_t,
		b->g->n_lanes + 2);
	if (!b->op_of || !b->id_of || !b->lane_begin)
		return false;
	memset(b->op_of, 0xff, n * sizeof *b->op_of);
	for (uint32_t l = 0; l < b->g->n_lanes; l++) {
		uint32_t op = tauti_lanes(b->edit)[b->lanes[l]].first;

		b->lane_begin[l] = id;
		for (; op != TAUT_NONE; op = tauti_next(b->edit, op)) {
			b->op_of[op] = id;
			b->id_of[id++] = op;
		}
	}
	b->lane_begin[b->g->n_lanes] = id;
	b->g->n_ops = id;
	return true;
}

static bool number_colls(struct tauti_build *b)
{
	uint32_t n = tauti_count(b->edit, TAUTI_COLLS), id = 0;

	b->coll_of = malloc((n + 1) * sizeof *b->coll_of);
	if (!b->coll_of)
		return false;
	for (uint32_t c = 0; c < n; c++)
		b->coll_of[c] = tauti_has_coll(b->edit, c) ? id++ : TAUT_NONE;
	b->g->n_collectives = id;
	return true;
}

/* Names of the graph below keep their ids; new ones follow as they are met. */
static bool take_names(struct tauti_build *b)
{
	const struct taut_names *below = b->below->names;
	uint32_t n = taut_names_count(below);
	uint32_t n_new = b->edit->names ? taut_names_count(b->edit->names) : 0;

	b->names = taut_names_create();
	b->name_of = malloc((n_new + 1) * sizeof *b->name_of);
	if (!b->names || !b->name_of)
		return false;
	memset(b->name_of, 0xff, (n_new + 1) * sizeof *b->name_of);
	for (uint32_t i = 0; i < n; i++)
		if (taut_names_add(b->names, taut_names_text(below, i),
			taut_names_length(below, i)) == TAUT_NONE)
			return false;
	return true;
}

bool tauti_build_name(struct tauti_build *b, uint32_t name, uint32_t *ret)
{
	uint32_t below = taut_names_count(b->below->names);
	const char *text;
	size_t len;

	*ret = name;
	if (name < below)
		return true;
	if (b->name_of[name - below] == TAUT_NONE) {
		text = tauti_edit_text(b->edit, name, &len);
		b->name_of[name - below] = taut_names_add(b->names, text, len);
	}
	*ret = b->name_of[name - below];
	return *ret != TAUT_NONE;
}

/* --- operations -------------------------------------------------------------------------- */

static bool allocate(struct tauti_build *b)
{
	size_t n = b->g->n_ops + 1;

	b->start = TAUT_ARENA_ARRAY(b->arena, int64_t, n);
	b->dur = TAUT_ARENA_ARRAY(b->arena, int64_t, n);
	b->gap = TAUT_ARENA_ARRAY(b->arena, int64_t, n);
	b->lane = TAUT_ARENA_ARRAY(b->arena, uint32_t, n);
	b->name = TAUT_ARENA_ARRAY(b->arena, uint32_t, n);
	b->event = TAUT_ARENA_ARRAY(b->arena, uint32_t, n);
	b->collective = TAUT_ARENA_ARRAY(b->arena, uint32_t, n);
	b->kind = TAUT_ARENA_ARRAY(b->arena, uint8_t, n);
	b->edge_begin = TAUT_ARENA_ARRAY(b->arena, uint32_t, n + 1);
	b->owned->like = TAUT_ARENA_ARRAY(b->arena, uint32_t, n);
	return b->owned->like && b->start && b->dur && b->gap && b->lane && b->name && b->event &&
		b->collective && b->kind && b->edge_begin;
}

/* As op of the graph below, which most are. */
static void lay_same(struct tauti_build *b, uint32_t id, uint32_t op)
{
	const struct taut_graph *g = b->below;
	uint32_t coll = g->collective ? g->collective[op] : TAUT_NONE;

	b->name[id] = g->name ? g->name[op] : 0;
	b->event[id] = g->event ? g->event[op] : TAUT_NONE;
	b->collective[id] = coll == TAUT_NONE ? TAUT_NONE : b->coll_of[coll];
	b->kind[id] = g->kind[op];
	b->start[id] = g->start_ns ? g->start_ns[op] : 0;
}

static bool lay_cell(struct tauti_build *b, uint32_t id,
	const struct tauti_cell *cell)
{
	const int64_t *start = b->below->start_ns;
	bool first = id == b->lane_begin[b->lane[id]];

	b->event[id] = cell->event;
	b->kind[id] = cell->kind;
	b->collective[id] = cell->collective == TAUT_NONE ? TAUT_NONE :
		b->coll_of[cell->collective];
	if (cell->like != TAUT_NONE)
		b->start[id] = start ? start[cell->like] : 0;
	else
		b->start[id] = first ? 0 : b->start[id - 1];
	return tauti_build_name(b, cell->name, &b->name[id]);
}

/* The op of the graph below that it is, on this rank or a copy of it. */
static uint32_t moved_from(const struct tauti_build *b, uint32_t op,
	const struct tauti_cell *cell)
{
	uint32_t rank;

	if (op < b->below->n_ops)
		return op;
	if (!cell)
		return tauti_below(b->edit, op);
	rank = tauti_lanes(b->edit)[cell->lane].is.trace;
	return rank != TAUT_NONE && tauti_ranks(b->edit)[rank].like != rank ?
		cell->like : TAUT_NONE;
}

static bool lay_op(struct tauti_build *b, uint32_t id, uint32_t lane)
{
	uint32_t op = b->id_of[id];
	const struct tauti_cell *cell = tauti_cell(b->edit, op);

	b->dur[id] = tauti_dur(b->edit, op);
	b->gap[id] = tauti_gap(b->edit, op);
	b->lane[id] = lane;
	b->owned->like[id] = moved_from(b, op, cell);
	if (cell)
		return lay_cell(b, id, cell);
	lay_same(b, id, tauti_below(b->edit, op));
	return true;
}

static bool lay_ops(struct tauti_build *b)
{
	if (!allocate(b))
		return false;
	for (uint32_t l = 0; l < b->g->n_lanes; l++)
		for (uint32_t i = b->lane_begin[l]; i < b->lane_begin[l + 1];
			i++)
			if (!lay_op(b, i, l))
				return false;
	return true;
}

/* --- waits --------------------------------------------------------------------------------- */

static void lay_edge(struct tauti_build *b, const struct tauti_seen *seen)
{
	uint32_t at = b->g->n_edges++;

	b->edge_to[at] = b->op_of[seen->to];
	b->lag[at] = seen->lag;
	b->edge_kind[at] = seen->kind;
	b->g->edges_of[seen->kind & ~TAUT_EDGE_FROM_START]++;
}

static bool lay_edges(struct tauti_build *b)
{
	size_t most = (size_t)b->below->n_edges +
		tauti_count(b->edit, TAUTI_WAITS) + 1;
	struct tauti_walk walk;
	struct tauti_seen seen;

	b->edge_to = TAUT_ARENA_ARRAY(b->arena, uint32_t, most);
	b->lag = TAUT_ARENA_ARRAY(b->arena, int64_t, most);
	b->edge_kind = TAUT_ARENA_ARRAY(b->arena, uint8_t, most);
	if (!b->edge_to || !b->lag || !b->edge_kind)
		return false;
	b->g->n_edges = 0;
	memset(b->g->edges_of, 0, sizeof b->g->edges_of);
	for (uint32_t i = 0; i < b->g->n_ops; i++) {
		b->edge_begin[i] = b->g->n_edges;
		if (!tauti_has_out(b->edit, b->id_of[i]))
			continue;
		walk = tauti_walk_out(b->edit, b->id_of[i]);
		while (tauti_walk_on(&walk, &seen))
			lay_edge(b, &seen);
	}
	b->edge_begin[b->g->n_ops] = b->g->n_edges;
	return true;
}

/* --- collectives ------------------------------------------------------------------------- */

struct member_key { /* the members' array keeps the order that it had */
	uint32_t first_member, coll;
};

static int compare_members(const void *a, const void *b)
{
	const struct member_key *x = a, *y = b;

	if (x->first_member != y->first_member)
		return x->first_member < y->first_member ? -1 : 1;
	return x->coll < y->coll ? -1 : x->coll > y->coll;
}

/* Joins that are new are taken to be when the last of their members arrives. */
static void lay_members(struct tauti_build *b, uint32_t coll, uint32_t *at)
{
	const struct tauti_coll *from = &tauti_colls(b->edit)[coll];
	struct taut_collective *to = &b->collectives[b->coll_of[coll]];
	uint32_t m = from->first;
	int64_t last = 0;

	*to = from->is;
	to->join_op = b->op_of[from->is.join_op];
	to->first_member = *at;
	for (; m != TAUT_NONE; m = tauti_members(b->edit)[m].next) {
		uint32_t arrive = b->op_of[tauti_members(b->edit)[m].arrive];

		b->member_arrive[(*at)++] = arrive;
		if (b->start[arrive] > last)
			last = b->start[arrive];
	}
	if (coll >= b->below->n_collectives)
		b->start[to->join_op] = last;
}

static bool lay_colls(struct tauti_build *b)
{
	uint32_t n = tauti_count(b->edit, TAUTI_COLLS), kept = 0, at = 0;
	struct member_key *keys = malloc((n + 1) * sizeof *keys);
	bool ok = keys != NULL;

	b->collectives = TAUT_ARENA_ARRAY(b->arena, struct taut_collective,
		b->g->n_collectives + 1);
	b->member_arrive = TAUT_ARENA_ARRAY(b->arena, uint32_t,
		tauti_count(b->edit, TAUTI_MEMBERS) + 1);
	ok = ok && b->collectives && b->member_arrive;
	for (uint32_t c = 0; ok && c < n; c++)
		if (b->coll_of[c] != TAUT_NONE)
			keys[kept++] = (struct member_key) {
				c < b->below->n_collectives ?
				b->below->collectives[c].first_member :
				TAUT_NONE, c };
	if (ok)
		qsort(keys, kept, sizeof *keys, compare_members);
	for (uint32_t i = 0; ok && i < kept; i++)
		lay_members(b, keys[i].coll, &at);
	for (uint32_t c = 0; ok && c < b->g->n_collectives; c++)
		ok = tauti_build_name(b, b->collectives[c].name,
			&b->collectives[c].name) && tauti_build_name(b,
			b->collectives[c].group, &b->collectives[c].group);
	free(keys);
	return ok;
}

/* --- the whole ------------------------------------------------------------------------------- */

static void publish(struct tauti_build *b)
{
	struct taut_graph *g = b->g;

	g->names = b->names;
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
	g->lane_begin = b->lane_begin;
	g->collectives = b->collectives;
	g->member_arrive = b->member_arrive;
}

static bool begin(struct tauti_build *b)
{
	b->arena = taut_arena_create();
	if (!b->arena)
		return false;
	b->owned = TAUT_ARENA_ARRAY(b->arena, struct tauti_owned_graph, 1);
	if (!b->owned)
		return false;
	b->g = &b->owned->graph;
	*b->g = *b->below;
	return true;
}

static bool build(struct tauti_build *b)
{
	if (!begin(b) || !order_lanes(b) || !number_ops(b) ||
		!number_colls(b) || !take_names(b) || !lay_ops(b) ||
		!lay_edges(b) || !lay_colls(b) || !tauti_build_run(b))
		return false;
	b->owned->place = TAUT_ARENA_ARRAY(b->arena, uint32_t,
		b->g->n_collectives + 1);
	b->owned->sorted = TAUT_ARENA_ARRAY(b->arena, struct tauti_by_join,
		b->g->n_collectives + 1);
	b->owned->spare = TAUT_ARENA_ARRAY(b->arena, struct taut_collective,
		b->g->n_collectives + 1);
	b->owned->below = b->below;
	b->owned->arena = b->arena;
	b->owned->names = b->names;
	publish(b);
	return b->owned->place && b->owned->sorted && b->owned->spare;
}

static void hand_over(const struct tauti_build *b, uint32_t *ret_op_of,
	uint32_t *ret_collective_of)
{
	if (ret_op_of)
		memcpy(ret_op_of, b->op_of, tauti_count(b->edit, TAUTI_AT) *
			sizeof *ret_op_of);
	if (ret_collective_of)
		memcpy(ret_collective_of, b->coll_of, tauti_count(b->edit,
			TAUTI_COLLS) * sizeof *ret_collective_of);
}

taut_status taut_edit_build(const struct taut_edit *edit,
	struct taut_graph **ret_graph, uint32_t *ret_op_of,
	uint32_t *ret_collective_of, struct taut_error *reterr)
{
	struct tauti_build b = { .edit = edit, .below = edit->below };
	bool ok = build(&b);

	if (ok) {
		hand_over(&b, ret_op_of, ret_collective_of);
		*ret_graph = b.g;
	}
	free(b.lanes);
	free(b.op_of);
	free(b.id_of);
	free(b.coll_of);
	free(b.name_of);
	free(b.rank_of);
	if (ok)
		return TAUT_OK;
	taut_names_destroy(b.names);
	taut_arena_destroy(b.arena);
	return taut_error_set(reterr, TAUT_ENOMEM, -1,
		"no memory for the changed graph");
}

/* --- replayed times as recorded ones ------------------------------------------------------ */

static int compare_join(const void *a, const void *b)
{
	const struct tauti_by_join *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->coll < y->coll ? -1 : x->coll > y->coll;
}

/* Collectives in the order of their joins, as in every graph. */
static void sort_colls(struct tauti_owned_graph *owned)
{
	struct taut_graph *g = &owned->graph;
	struct taut_collective *colls = (struct taut_collective *)
		g->collectives;
	uint32_t *collective = (uint32_t *)g->collective;

	for (uint32_t c = 0; c < g->n_collectives; c++) {
		owned->spare[c] = colls[c];
		owned->sorted[c] = (struct tauti_by_join) {
			g->start_ns[colls[c].join_op], c };
	}
	qsort(owned->sorted, g->n_collectives, sizeof *owned->sorted,
		compare_join);
	for (uint32_t c = 0; c < g->n_collectives; c++) {
		colls[c] = owned->spare[owned->sorted[c].coll];
		owned->place[owned->sorted[c].coll] = c;
	}
	for (uint32_t i = 0; i < g->n_ops; i++)
		if (collective[i] != TAUT_NONE)
			collective[i] = owned->place[collective[i]];
}

void taut_graph_settle(struct taut_graph *graph, const int64_t *start_ns,
	const int64_t *end_ns)
{
	struct taut_step *steps = (struct taut_step *)graph->steps;
	int64_t *start = (int64_t *)graph->start_ns;
	int64_t *dur = (int64_t *)graph->dur_ns;

	for (uint32_t i = 0; i < graph->n_ops; i++) {
		start[i] = start_ns[i];
		dur[i] = end_ns[i] - start_ns[i];
	}
	for (uint32_t s = 0; s < graph->n_steps; s++) {
		steps[s].start_ns = start[steps[s].begin_op];
		steps[s].end_ns = start[steps[s].end_op] +
			dur[steps[s].end_op];
	}
	sort_colls((struct tauti_owned_graph *)graph);
}
