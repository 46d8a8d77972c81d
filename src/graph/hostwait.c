/* hostwait.c - host calls that returned only when a device had finished.
 *
 * Which work such a call waited for is exact where the recording has
 * synchronisation rows. Else it is the work launched last before the call on
 * the stream whose end explains the return best: the latest end that is not
 * after the return. A call that no end explains keeps its time as its own. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

enum {
	SLACK_NS = 2000,       /* device and host stamps against each other */
	TAIL_NS = 200000,      /* a return later than this after the end, */
	LONG_CALL_NS = 50000,  /* or a copy that held its caller this long */
};

enum wait_kind { WAIT_NO, WAIT_DEVICE, WAIT_ONE, WAIT_COPY };

static const struct {
	const char *name; /* without cuda, hip, cu */
	enum wait_kind kind;
} wait_calls[] = {
	{ "DeviceSynchronize", WAIT_DEVICE }, { "CtxSynchronize", WAIT_DEVICE },
	{ "ThreadSynchronize", WAIT_DEVICE }, { "Free", WAIT_DEVICE },
	{ "StreamSynchronize", WAIT_ONE }, { "EventSynchronize", WAIT_ONE },
	{ "Memcpy", WAIT_COPY },
};

static enum wait_kind wait_kind_of(const char *name)
{
	static const char *const prefixes[] = { "cuda", "hip", "cu" };

	for (size_t i = 0; i < 3; i++) {
		size_t n = strlen(prefixes[i]);

		if (strncmp(name, prefixes[i], n))
			continue;
		name += n;
		break;
	}
	for (size_t i = 0; i < sizeof wait_calls / sizeof wait_calls[0]; i++) {
		size_t n = strlen(wait_calls[i].name);

		if (strncmp(name, wait_calls[i].name, n))
			continue;
		if (wait_calls[i].kind == WAIT_COPY || !name[n] ||
			name[n] == '_')
			return wait_calls[i].kind;
	}
	return WAIT_NO;
}

static int64_t launch_time(const struct tauti_rank *rank, uint32_t row)
{
	uint32_t call = rank->launch_of[row];

	return rank->trace->start_ns[call == TAUT_NONE ? row : call];
}

/* The work launched last before `at` on a stream; launches of a stream are
 * in its order. */
static uint32_t last_launched(const struct tauti_rank *rank, uint32_t lane,
	int64_t at)
{
	uint32_t lo = rank->trace->lane_begin[lane];
	uint32_t hi = rank->trace->lane_begin[lane + 1], begin = lo;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (launch_time(rank, mid) < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > begin ? lo - 1 : TAUT_NONE;
}

/* Stream that a synchronisation row names for this call; -1: none named. */
static int64_t named_stream(const struct taut_trace *t, uint32_t call)
{
	for (size_t i = 0; i < t->n_syncs; i++) {
		const struct taut_sync_args *s = &t->syncs[i];

		if (!t->correlation[call] ||
			t->correlation[s->event] != t->correlation[call])
			continue;
		if (s->kind == TAUT_SYNC_STREAM)
			return s->stream;
		if (s->kind == TAUT_SYNC_EVENT)
			return s->wait_stream;
	}
	return -1;
}

/* The work whose end explains best why the call returned when it did. */
static uint32_t explain_return(const struct tauti_rank *rank, uint32_t call,
	enum wait_kind kind)
{
	const struct taut_trace *t = rank->trace;
	int64_t s = t->start_ns[call], e = tauti_row_end(t, call);
	int64_t stream = kind == WAIT_ONE ? named_stream(t, call) : -1;
	uint32_t best = TAUT_NONE;

	for (uint32_t l = 0; l < t->n_lanes; l++) {
		uint32_t row;

		if (t->lanes[l].kind != TAUT_LANE_STREAM ||
			(stream >= 0 && t->lanes[l].tid != stream))
			continue;
		row = last_launched(rank, l, s);
		if (row == TAUT_NONE || tauti_row_end(t, row) > e + SLACK_NS)
			continue;
		if (best == TAUT_NONE ||
			tauti_row_end(t, row) > tauti_row_end(t, best))
			best = row;
	}
	if (best == TAUT_NONE || tauti_row_end(t, best) <= s ||
		e - tauti_row_end(t, best) > TAIL_NS + (e - s) / 10)
		return TAUT_NONE;
	return best;
}

static bool copy_blocks(const struct tauti_rank *rank,
	const struct tauti_call *call)
{
	const struct taut_trace *t = rank->trace;
	const char *name = taut_trace_name(t, call->row);
	uint32_t work = call->device;

	if (work == TAUT_NONE || t->kind[work] != TAUT_KIND_MEMCPY ||
		tauti_row_end(t, work) > tauti_row_end(t, call->row) + SLACK_NS)
		return false;
	return !strstr(name, "Async") ||
		strstr(taut_trace_name(t, work), "Pageable") ||
		t->dur_ns[call->row] > LONG_CALL_NS;
}

static bool add_wait(struct tauti_rank *rank, uint32_t row, uint32_t work)
{
	struct tauti_call call = { row, TAUT_NONE, work, INT64_MIN, TAUT_NONE,
		TAUT_NONE };

	rank->call_of[row] = (uint32_t)rank->calls.count;
	return taut_vec_push(&rank->calls, call);
}

taut_status tauti_host_waits(struct tauti_rank *rank, struct taut_error *err)
{
	const struct taut_trace *t = rank->trace;
	uint32_t n_names = taut_names_count(t->names);
	uint8_t *kind_of = calloc(n_names + 1, 1);
	bool ok = kind_of != NULL;

	for (uint32_t i = 0; ok && i < n_names; i++)
		kind_of[i] = (uint8_t)wait_kind_of(taut_names_text(t->names, i));
	for (uint32_t i = 0; ok && i < t->n_events; i++) {
		enum wait_kind kind = kind_of[t->name[i]];
		uint32_t work;

		if (t->kind[i] != TAUT_KIND_RUNTIME || kind == WAIT_NO)
			continue;
		if (rank->call_of[i] != TAUT_NONE) {
			struct tauti_call *c = &rank->calls.data[rank->call_of[i]];

			if (kind == WAIT_COPY && copy_blocks(rank, c))
				c->waited = c->device;
			continue;
		}
		if (kind == WAIT_COPY)
			continue; /* its copy is not in the recording */
		work = explain_return(rank, i, kind);
		if (work != TAUT_NONE)
			ok = add_wait(rank, i, work);
	}
	free(kind_of);
	return ok ? TAUT_OK : taut_error_set(err, TAUT_ENOMEM, -1,
		"%s: no memory for host waits", t->path);
}
