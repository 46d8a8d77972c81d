/* backtrack.c - DisCo's search: states wait in a queue, the shortest step first. From
 * the one that is taken out, a few random changes of each pass lead to others, and
 * those that are not much worse than the best wait, too. */
#include "plan/strategies/all.h"

#include <string.h>

enum { MOST_UNCHANGED = 1000 };

struct waiting {
	int64_t step_ns;
	uint64_t nth; /* of equal ones the first that came */
	uint8_t *options;
};

struct queue {
	struct tauti_search *search;
	struct taut_arena *arena;
	uint32_t n_sites;
	double alpha;
	uint32_t beta;
	uint64_t n_came;
	uint32_t *sites;
	TAUT_VEC(struct waiting) heap;
	TAUT_VEC(uint8_t *) spare;
};

/* --- the queue ---------------------------------------------------------------------*/

static bool is_before(const struct waiting *a, const struct waiting *b)
{
	return a->step_ns != b->step_ns ? a->step_ns < b->step_ns :
		a->nth < b->nth;
}

static void rise(struct queue *q, size_t at)
{
	struct waiting *heap = q->heap.data, moved = heap[at];

	for (; at && is_before(&moved, &heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = moved;
}

static void sink(struct queue *q)
{
	struct waiting *heap = q->heap.data, moved = heap[0];
	size_t at = 0, n = q->heap.count;

	for (size_t next; (next = 2 * at + 1) < n; at = next) {
		if (next + 1 < n && is_before(&heap[next + 1], &heap[next]))
			next++;
		if (!is_before(&heap[next], &moved))
			break;
		heap[at] = heap[next];
	}
	heap[at] = moved;
}

static uint8_t *pop(struct queue *q)
{
	uint8_t *options = q->heap.data[0].options;

	q->heap.data[0] = q->heap.data[--q->heap.count];
	if (q->heap.count)
		sink(q);
	return options;
}

/* The present state. */
static taut_status push(struct queue *q, int64_t step_ns, struct taut_error *err)
{
	struct waiting w = { step_ns, q->n_came++, NULL };

	if (q->spare.count)
		w.options = q->spare.data[--q->spare.count];
	else
		w.options = taut_arena_alloc(q->arena, q->n_sites + 1);
	if (!w.options || !taut_vec_push(&q->heap, w))
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for a search");
	for (uint32_t i = 0; i < q->n_sites; i++)
		w.options[i] = tauti_search_at(q->search, i);
	rise(q, q->heap.count - 1);
	return TAUT_OK;
}

/* --- the search --------------------------------------------------------------------*/

/* Of one pass, with images or by itself, as chance has it. */
static taut_status change_some(
	struct queue *q, uint32_t pass, bool *ret_any, struct taut_error *err)
{
	uint32_t n_changes = tauti_search_random(q->search, q->beta + 1), n;
	taut_status status = TAUT_OK;

	tauti_search_view(q->search, tauti_search_random(q->search, 2) ?
		TAUTI_VIEW_MIRRORED : TAUTI_VIEW_ALL);
	n = tauti_search_any_sites(q->search, pass, q->sites);
	*ret_any = n && n_changes;
	for (uint32_t i = 0; !status && n && i < n_changes; i++) {
		uint32_t site = q->sites[tauti_search_random(q->search, n)];

		status = tauti_search_set(q->search, site,
			tauti_climb_other(q->search, site), err);
	}
	return status;
}

static bool is_near_best(const struct queue *q, const struct tauti_cost *cost)
{
	const struct tauti_found *best = tauti_search_best(q->search);

	return best->cost.step_ns == TAUTI_NEVER ||
		(double)cost->step_ns <= q->alpha * (double)best->cost.step_ns;
}

static taut_status branch(struct queue *q, const uint8_t *from, uint32_t pass,
	struct taut_error *err)
{
	uint64_t n_costs;
	struct tauti_cost cost;
	bool any = false;
	taut_status status = tauti_search_go(q->search, from, err);

	if (!status)
		status = change_some(q, pass, &any, err);
	if (status || !any)
		return status;
	n_costs = tauti_search_costs(q->search);
	status = tauti_search_cost(q->search, &cost, err);
	/* What was seen has waited, or was not worth it. */
	if (status || tauti_search_costs(q->search) == n_costs ||
		!is_near_best(q, &cost))
		return status;
	return push(q, cost.step_ns, err);
}

static taut_status search_queue(struct queue *q, struct taut_error *err)
{
	uint32_t n_passes = tauti_search_space(q->search)->n_passes;
	uint32_t n_unchanged = 0;
	taut_status status = TAUT_OK;

	while (!status && q->heap.count && n_unchanged < MOST_UNCHANGED) {
		uint64_t best = tauti_search_best(q->search)->nth;
		uint8_t *from = pop(q);

		for (uint32_t pass = 0; !status && pass < n_passes; pass++)
			status = branch(q, from, pass, err);
		n_unchanged = tauti_search_best(q->search)->nth == best ?
			n_unchanged + 1 : 0;
		if (!status && !taut_vec_push(&q->spare, from))
			status = taut_error_set(err, TAUT_ENOMEM, -1,
				"no memory for a search");
	}
	return status;
}

static taut_status begin(struct queue *q, struct taut_error *err)
{
	struct tauti_cost cost;
	taut_status status;

	q->sites = q->arena ? TAUT_ARENA_ARRAY(
		q->arena, uint32_t, q->n_sites + 1) : NULL;
	if (!q->sites)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for a search");
	status = tauti_search_cost(q->search, &cost, err);
	if (!status)
		status = push(q, cost.step_ns, err);
	return status;
}

static taut_status run(struct tauti_search *search, struct taut_error *err)
{
	const struct tauti_search_options *options = tauti_search_options(search);
	struct queue q = { .search = search,
		.arena = taut_arena_create(),
		.n_sites = tauti_search_space(search)->n_sites,
		.alpha = options->alpha > 0 ? options->alpha : 1.05,
		.beta = options->beta ? options->beta : 10 };
	taut_status status = begin(&q, err);

	if (!status)
		status = search_queue(&q, err);
	taut_vec_free(&q.heap);
	taut_vec_free(&q.spare);
	taut_arena_destroy(q.arena);
	return status;
}

const struct tauti_strategy tauti_strategy_backtrack = {
	"backtrack",
	"a queue of states, random changes of each pass from the best of it",
	"Yi et al., Optimizing DNN Compilation for Distributed Training with Joint "
	"OP and Tensor Fusion, TPDS 2022",
	run,
};
