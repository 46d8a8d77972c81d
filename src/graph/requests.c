/* requests.c - communication that a host call posts and another waits for.
 *
 * The communication itself stands on a lane of its own, from its post to
 * when it was seen to be done; the calls carry its correlation. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

struct numbered { /* a call, by the correlation that it carries */
	uint32_t correlation, row;
};

static int by_correlation(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	if (x->correlation != y->correlation)
		return x->correlation < y->correlation ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static bool is_request(const struct tauti_rank *rank,
	const struct tauti_comm *c)
{
	const struct taut_trace *t = rank->trace;

	return t->kind[c->row] == TAUT_KIND_COMM &&
		rank->comm_lane[t->lane[c->row]];
}

/* The first of the calls with that correlation; they stand together. */
static size_t find(const struct numbered *calls, size_t n, uint32_t correlation)
{
	size_t lo = 0;

	while (lo < n) {
		size_t mid = lo + (n - lo) / 2;

		if (calls[mid].correlation < correlation)
			lo = mid + 1;
		else
			n = mid;
	}
	return lo;
}

static bool add_call(struct tauti_rank *rank, uint32_t row, uint32_t device,
	uint32_t waited)
{
	struct tauti_call call = { row, device, waited, INT64_MIN, TAUT_NONE,
		TAUT_NONE };

	rank->call_of[row] = (uint32_t)rank->calls.count;
	return taut_vec_push(&rank->calls, call);
}

/* One call may wait for several: it waits for the last to end, and the others
 * are edges (tauti_posts). */
static bool add_waiter(struct tauti_rank *rank, uint32_t row,
	struct tauti_comm *c)
{
	struct tauti_call *call;

	c->waiter = row;
	if (rank->call_of[row] == TAUT_NONE)
		return add_call(rank, row, TAUT_NONE, c->row);
	call = &rank->calls.data[rank->call_of[row]];
	if (call->waited != TAUT_NONE && c->end >
		tauti_row_end(rank->trace, call->waited))
		call->waited = c->row;
	return true;
}

/* A call posts what begins after it has begun and ends after it has ended, all that
 * does, and waits for what ends within it. One whose name says that it waits may begin
 * before that begins, which had its turn only then. */
static bool attach(struct tauti_rank *rank, uint32_t row, struct tauti_comm *c,
	uint32_t wait_name)
{
	const struct taut_trace *t = rank->trace;
	int64_t start = t->start_ns[row], end = tauti_row_end(t, row);
	bool waits = t->name[row] == wait_name;

	if ((waits || start >= c->start) && end >= c->end && start <= c->end)
		return add_waiter(rank, row, c);
	if (waits)
		return true;
	if (start > c->start || end >= c->end || c->launch != TAUT_NONE ||
		(rank->call_of[row] != TAUT_NONE &&
		rank->calls.data[rank->call_of[row]].device == TAUT_NONE))
		return true;
	c->launch = row;
	rank->launch_of[c->row] = row;
	return rank->call_of[row] != TAUT_NONE ||
		add_call(rank, row, c->row, TAUT_NONE);
}

taut_status tauti_requests(struct tauti_rank *rank, struct taut_error *err)
{
	const struct taut_trace *t = rank->trace;
	uint32_t wait_name = taut_names_find(
		t->names, "taut_sync_wait", strlen("taut_sync_wait"));
	TAUT_VEC(struct numbered) calls = { 0 };
	bool ok = true;
	size_t n = 0;

	for (size_t i = 0; i < rank->comms.count; i++)
		n += is_request(rank, &rank->comms.data[i]);
	for (uint32_t i = 0; ok && n && i < t->n_events; i++) {
		struct numbered call = { t->correlation[i], i };

		if (t->kind[i] == TAUT_KIND_RUNTIME && call.correlation)
			ok = taut_vec_push(&calls, call);
	}
	if (calls.count)
		qsort(calls.data, calls.count, sizeof *calls.data,
			by_correlation);
	for (size_t i = 0; ok && calls.count && i < rank->comms.count; i++) {
		struct tauti_comm *c = &rank->comms.data[i];
		uint32_t number = t->correlation[c->row];

		if (!is_request(rank, c) || !number)
			continue;
		for (size_t k = find(calls.data, calls.count, number);
			ok && k < calls.count &&
			calls.data[k].correlation == number; k++)
			ok = attach(rank, calls.data[k].row, c, wait_name);
	}
	taut_vec_free(&calls);
	return ok ? TAUT_OK : taut_error_set(err, TAUT_ENOMEM, -1,
		"%s: no memory for requests", t->path);
}

/* The main thread's operation that was running at `at`; TAUT_NONE: none. */
static uint32_t running_at(const struct tauti_rank *rank, int64_t at)
{
	uint32_t begin = rank->lane_begin[rank->main_lane], lo = begin;
	uint32_t hi = rank->lane_begin[rank->main_lane + 1];

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (rank->ops.data[mid].start <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > begin ? lo - 1 : TAUT_NONE;
}

/* Where no call is known to have posted it, the main thread did. */
static bool add_post(struct tauti_rank *rank, const struct tauti_comm *c)
{
	struct tauti_edge edge = { running_at(rank, c->start), c->arrive, 0,
		TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START };

	if (c->launch != TAUT_NONE || edge.from == TAUT_NONE)
		return true;
	edge.lag = c->start - rank->ops.data[edge.from].start;
	return taut_vec_push(&rank->edges, edge);
}

static bool add_wait(struct tauti_rank *rank, const struct tauti_comm *c)
{
	struct tauti_edge edge = { c->arrive + 1, TAUT_NONE, 0,
		TAUT_EDGE_SYNC };
	const struct tauti_call *call;

	if (c->waiter == TAUT_NONE || rank->call_of[c->waiter] == TAUT_NONE)
		return true;
	call = &rank->calls.data[rank->call_of[c->waiter]];
	if (call->waited == c->row || call->return_op == TAUT_NONE)
		return true;
	edge.to = call->return_op;
	return taut_vec_push(&rank->edges, edge);
}

taut_status tauti_posts(struct tauti_rank *rank, struct taut_error *err)
{
	for (size_t i = 0; i < rank->comms.count &&
		!rank->trace->n_waits; i++) {
		const struct tauti_comm *c = &rank->comms.data[i];

		if (is_request(rank, c) &&
			(!add_post(rank, c) || !add_wait(rank, c)))
			return taut_error_set(err, TAUT_ENOMEM, -1,
				"%s: no memory for requests",
				rank->trace->path);
	}
	return TAUT_OK;
}
