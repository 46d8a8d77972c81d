/* again_make.c - a kept replay: its memory, and the order of its operations. */
#include <stdlib.h>
#include <string.h>

#include <taut/replay.h>

#include "again.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory to follow an edit");
}

static bool grow(void *array, size_t width, size_t n)
{
	void **at = array, *grown = realloc(*at, n * width);

	if (grown)
		*at = grown;
	return grown != NULL;
}

bool tauti_again_room(struct taut_again *a, uint32_t n)
{
	uint32_t room = n + n / 4 + 64;

	if (a->room && n <= a->room) {
		a->n_seen = n > a->n_seen ? n : a->n_seen;
		return true;
	}
	if (room < n || !grow(&a->ops, sizeof *a->ops, room) ||
		!grow(&a->queue.heap.heap, sizeof *a->queue.heap.heap,
			(size_t)room + READY_SPARE) ||
		!tauti_most_room(&a->most, a->room, room))
		return false;
	memset(a->ops + a->room, 0, (room - a->room) * sizeof *a->ops);
	if (!a->room)
		ready_clear(&a->queue.heap);
	a->room = room;
	a->n_seen = n;
	return true;
}

/* --- the order ----------------------------------------------------------------------- */

static void free_places(struct again_queue *q)
{
	for (int l = 0; l < TAUTI_LEVELS; l++)
		free(q->words[l]);
	free(q->op_at);
}

/* For as many as n ops. Nothing is queued. */
static bool make_places(struct again_queue *q, uint32_t n)
{
	uint32_t words = n + 1;
	bool ok;

	*q = (struct again_queue) { .n_places = 1, .heap = q->heap };
	q->op_at = malloc(((size_t)n + 1) * sizeof *q->op_at);
	ok = q->op_at != NULL;
	for (int l = 0; l < TAUTI_LEVELS; l++) {
		words = words / 64 + 1;
		q->n_words[l] = words;
		q->words[l] = calloc(words, sizeof *q->words[l]);
		ok = ok && q->words[l];
	}
	q->at = q->n_words[0];
	return ok;
}

/* Behind those that have a place. */
static void give_place(struct taut_again *a, uint32_t op)
{
	uint32_t place = a->queue.n_places++;

	a->queue.op_at[place] = op;
	a->ops[op].label = place * TAUTI_STRIDE;
}

struct labeled {
	int64_t label;
	uint32_t op;
};

static int by_label(const void *a, const void *b)
{
	const struct labeled *x = a, *y = b;

	if (x->label != y->label)
		return x->label < y->label ? -1 : 1;
	return x->op < y->op ? -1 : x->op > y->op;
}

void tauti_again_order(struct taut_again *a)
{
	struct labeled *all = malloc(((size_t)a->n_seen + 1) * sizeof *all);
	struct again_queue old = a->queue;
	uint32_t n = 0;

	for (uint32_t op = 0; all && op < a->n_seen; op++)
		if (a->ops[op].word & TAUTI_HERE)
			all[n++] = (struct labeled) { a->ops[op].label, op };
	if (!all || !make_places(&a->queue, n)) {
		if (all)
			free_places(&a->queue);
		a->queue = old;
		free(all);
		return;
	}
	qsort(all, n, sizeof *all, by_label);
	for (uint32_t i = 0; i < n; i++)
		give_place(a, all[i].op);
	free(all);
	free_places(&old);
	a->frames.data[0] = a->frames.data[a->frames.count - 1];
	a->frames.count = 1;
	a->log.count = 0;
}

/* --- what a graph below stays ---------------------------------------------------------- */

static bool lay_edges(struct taut_again *a)
{
	const struct taut_edit *edit = a->edit;
	const struct taut_graph *g = edit->below;
	size_t n = g->n_edges;

	a->in = malloc((n + 1) * sizeof *a->in);
	a->out = malloc((n + 1) * sizeof *a->out);
	if (!a->in || !a->out)
		return false;
	for (size_t e = 0; e < n; e++)
		a->out[e] = (struct again_edge) { g->edge_lag_ns[e],
			g->edge_to[e], g->edge_kind[e] & TAUT_EDGE_FROM_START };
	for (size_t i = 0; i < n; i++) {
		a->in[i] = a->out[edit->in_edge[i]];
		a->in[i].op = edit->edge_from[edit->in_edge[i]];
	}
	return true;
}

static bool lay_shape(struct taut_again *a)
{
	const struct taut_graph *g = a->edit->below;

	a->shape = calloc((size_t)g->n_ops + 1, 1);
	if (!a->shape)
		return false;
	for (uint32_t op = 0; op < g->n_ops; op++) {
		uint32_t lane = g->lane[op];

		if (op + 1 == g->lane_begin[lane + 1] ||
			g->lanes[lane].trace == TAUT_NONE)
			a->shape[op] |= TAUTI_TAIL;
		if (g->edge_begin[op] < g->edge_begin[op + 1])
			a->shape[op] |= TAUTI_HAS_OUT;
	}
	return true;
}

/* --- the first time ----------------------------------------------------------------------- */

/* As a replay by time has it: ops that are near in the order are near in time, so
 * that a wait which leads backward overtakes few. */
static taut_status order_by(struct taut_again *a, const struct taut_graph *graph,
	const uint32_t *op_of, uint32_t *id_of, struct taut_error *err)
{
	struct taut_timeline timeline = { 0 };
	taut_status status = taut_timeline_init(&timeline, graph, err);

	if (!status)
		status = taut_replay(graph, NULL, &timeline, err);
	if (!status) {
		for (uint32_t op = 0; op < taut_edit_ops(a->edit); op++)
			if (op_of[op] != TAUT_NONE)
				id_of[op_of[op]] = op;
		for (uint32_t i = 0; i < graph->n_ops; i++)
			give_place(a, id_of[timeline.order[i]]);
	}
	taut_timeline_fini(&timeline);
	return status;
}

static taut_status first_order(struct taut_again *a, struct taut_error *err)
{
	uint32_t n = taut_edit_ops(a->edit);
	uint32_t *op_of = malloc(((size_t)n + 1) * sizeof *op_of);
	uint32_t *id_of = malloc(((size_t)n + 1) * sizeof *id_of);
	struct taut_graph *graph = NULL;
	taut_status status = op_of && id_of && tauti_again_room(a, n) ?
		TAUT_OK : no_memory(err);

	if (!status)
		status = taut_edit_build(a->edit, &graph, op_of, NULL, err);
	if (!status && !make_places(&a->queue, graph->n_ops))
		status = no_memory(err);
	if (!status)
		status = order_by(a, graph, op_of, id_of, err);
	taut_graph_destroy(graph);
	free(op_of);
	free(id_of);
	return status;
}

taut_status taut_again_create(struct taut_edit *edit,
	struct taut_again **ret_again, struct taut_error *reterr)
{
	struct taut_again *a = calloc(1, sizeof *a);
	taut_status status;

	if (!a)
		return no_memory(reterr);
	if (!tauti_edit_follow(edit)) {
		free(a);
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"the edit is followed already");
	}
	a->edit = edit;
	a->soon = TAUT_NONE;
	status = lay_edges(a) && lay_shape(a) ? first_order(a, reterr) :
		no_memory(reterr);
	if (!status)
		status = taut_again_follow(a, reterr);
	if (status)
		taut_again_destroy(a);
	else
		*ret_again = a;
	return status;
}

void taut_again_destroy(struct taut_again *again)
{
	if (!again)
		return;
	tauti_edit_unfollow(again->edit);
	free(again->ops);
	free(again->in);
	free(again->out);
	free(again->shape);
	free(again->queue.heap.heap);
	free_places(&again->queue);
	tauti_most_fini(&again->most);
	taut_vec_free(&again->log);
	taut_vec_free(&again->frames);
	taut_vec_free(&again->steps);
	free(again);
}
