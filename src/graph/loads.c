/* loads.c - batches that a loader's workers prepare for the main thread.
 *
 * Batch k (its correlation) waits for the worker that prepares it. Workers
 * are asked for a batch whenever the main thread takes one: with P batches
 * under way, k is asked for when k - P has been taken. P is what the
 * recording shows: the most batches that were ever under way. */
#include <stdlib.h>

#include "graph/graph.h"

struct batch {
	uint32_t number;
	uint32_t row;
};

struct loader {
	struct tauti_rank *rank;
	TAUT_VEC(struct batch) loads, takes; /* by number */
};

static int by_number(const void *a, const void *b)
{
	const struct batch *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static bool collect(struct loader *l)
{
	const struct taut_trace *t = l->rank->trace;
	bool ok = true;

	for (uint32_t i = 0; ok && i < t->n_events; i++) {
		struct batch b = { t->correlation[i], i };

		if (!b.number || t->lanes[t->lane[i]].kind != TAUT_LANE_THREAD)
			continue;
		if (t->kind[i] == TAUT_KIND_LOAD)
			ok = taut_vec_push(&l->loads, b);
		else if (t->kind[i] == TAUT_KIND_LOAD_WAIT &&
			t->lane[i] == l->rank->main_lane)
			ok = taut_vec_push(&l->takes, b);
	}
	if (l->loads.count)
		qsort(l->loads.data, l->loads.count, sizeof *l->loads.data,
			by_number);
	if (l->takes.count)
		qsort(l->takes.data, l->takes.count, sizeof *l->takes.data,
			by_number);
	return ok;
}

static void loader_fini(struct loader *l)
{
	taut_vec_free(&l->loads);
	taut_vec_free(&l->takes);
}

/* The batch of that number, where it is the only one: numbers begin again
 * with every epoch. NULL: none, or several. */
static const struct batch *find(const struct batch *all, size_t n,
	uint32_t number)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (all[mid].number < number)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == n || all[lo].number != number ||
		(lo + 1 < n && all[lo + 1].number == number))
		return NULL;
	return &all[lo];
}

/* Lanes of workers: batches and nothing else. */
static void find_lanes(struct tauti_rank *rank)
{
	const struct taut_trace *t = rank->trace;

	for (uint32_t l = 0; l < t->n_lanes; l++) {
		uint32_t i = t->lane_begin[l], end = t->lane_begin[l + 1];

		if (t->lanes[l].kind != TAUT_LANE_THREAD || i == end ||
			l == rank->main_lane)
			continue;
		while (i < end && t->kind[i] == TAUT_KIND_LOAD)
			i++;
		rank->load_lane[l] = i == end;
	}
}

static bool add_wait(struct tauti_rank *rank, uint32_t row, uint32_t load)
{
	struct tauti_call call = { row, TAUT_NONE, load, INT64_MIN, TAUT_NONE,
		TAUT_NONE };

	rank->call_of[row] = (uint32_t)rank->calls.count;
	return taut_vec_push(&rank->calls, call);
}

static taut_status no_memory(const struct tauti_rank *rank,
	struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1,
		"%s: no memory for batches", rank->trace->path);
}

taut_status tauti_load_waits(struct tauti_rank *rank, struct taut_error *err)
{
	const struct taut_trace *t = rank->trace;
	struct loader l = { .rank = rank };
	bool ok = collect(&l);

	find_lanes(rank);
	for (size_t i = 0; ok && i < l.takes.count; i++) {
		uint32_t row = l.takes.data[i].row;
		const struct batch *load = find(l.loads.data, l.loads.count,
			l.takes.data[i].number);

		if (load && rank->load_lane[t->lane[load->row]] &&
			rank->call_of[row] == TAUT_NONE &&
			tauti_row_end(t, load->row) <= tauti_row_end(t, row))
			ok = add_wait(rank, row, load->row);
	}
	loader_fini(&l);
	return ok ? TAUT_OK : no_memory(rank, err);
}

/* Batches taken before `at`, counting from number 0 on. */
static uint32_t taken_before(const struct loader *l, int64_t at)
{
	const struct taut_trace *t = l->rank->trace;
	size_t lo = 0, hi = l->takes.count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (tauti_row_end(t, l->takes.data[mid].row) <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? l->takes.data[lo - 1].number : 0;
}

/* The most batches that were under way; 0: the recording does not tell, for
 * instance where numbers begin again with an epoch. */
static uint32_t under_way(const struct loader *l)
{
	const struct taut_trace *t = l->rank->trace;
	uint32_t most = 0;

	for (size_t i = 1; i < l->takes.count; i++)
		if (t->start_ns[l->takes.data[i].row] <
			t->start_ns[l->takes.data[i - 1].row])
			return 0;
	for (size_t i = 0; i < l->loads.count; i++) {
		uint32_t taken = taken_before(
			l, t->start_ns[l->loads.data[i].row]);

		if (taken && l->loads.data[i].number > taken &&
			l->loads.data[i].number - taken > most)
			most = l->loads.data[i].number - taken;
	}
	return most;
}

/* The operation with which the main thread has taken a batch. */
static uint32_t op_of_take(const struct tauti_rank *rank, uint32_t row)
{
	uint32_t call = rank->call_of[row];

	return call == TAUT_NONE ? rank->op_of[row] :
		rank->calls.data[call].return_op;
}

taut_status tauti_load_edges(struct tauti_rank *rank, struct taut_error *err)
{
	struct loader l = { .rank = rank };
	bool ok = collect(&l);
	uint32_t most = ok ? under_way(&l) : 0;

	for (size_t i = 0; ok && most && i < l.loads.count; i++) {
		const struct batch *load = &l.loads.data[i], *take;
		struct tauti_edge edge = { TAUT_NONE, rank->op_of[load->row],
			0, TAUT_EDGE_THREAD };

		take = load->number > most ? find(l.takes.data, l.takes.count,
			load->number - most) : NULL;
		if (!take || edge.to == TAUT_NONE)
			continue;
		edge.from = op_of_take(rank, take->row);
		if (edge.from != TAUT_NONE)
			ok = taut_vec_push(&rank->edges, edge);
	}
	loader_fini(&l);
	return ok ? TAUT_OK : no_memory(rank, err);
}
