/* hostwait.c - host calls that returned only when a device had finished.
 *
 * Which work such a call waited for is exact where the recording has
 * synchronisation rows. Else it is the work launched last before the call on
 * the stream whose end explains the return best: the latest end that is not
 * after the return. An event may have been recorded long before the call, with
 * more work behind it: there any work launched before may explain the return.
 * A call that no end explains keeps its time as its own.
 *
 * A launch waits, too, when as much was launched before it as a device takes: until
 * the oldest of that begins, which is when the work before it has ended. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

enum {
	SLACK_NS = 2000,       /* device and host stamps against each other */
	SAID_SLACK_NS = 50000, /* the same, where a row names what was waited
	                          for: a device's clock may run ahead */
	TAIL_NS = 200000,      /* a return later than this after the end, */
	LONG_CALL_NS = 50000,  /* or a copy that held its caller this long */
	/* Launches that have not begun, of a stream, when no more are taken. On an H100
	 * (CUDA 13) 1,020 were behind the work that ran when a long launch returned. */
	QUEUE_LAUNCHES = 1000,
};

enum wait_kind { WAIT_NO, WAIT_DEVICE, WAIT_ONE, WAIT_EVENT, WAIT_COPY };

static const struct {
	const char *name; /* without cuda, hip, cu */
	enum wait_kind kind;
} wait_calls[] = {
	{ "DeviceSynchronize", WAIT_DEVICE }, { "CtxSynchronize", WAIT_DEVICE },
	{ "ThreadSynchronize", WAIT_DEVICE }, { "Free", WAIT_DEVICE },
	{ "StreamSynchronize", WAIT_ONE }, { "EventSynchronize", WAIT_EVENT },
	{ "Memcpy", WAIT_COPY },
	/* MXNet's engine is the device of its C interface. */
	{ "MXNDArrayWaitAll", WAIT_DEVICE },
	{ "MXNDArraySyncCopyToCPU", WAIT_EVENT },
	{ "MXNDArrayWaitToRead", WAIT_EVENT },
	{ "MXNDArrayWaitToWrite", WAIT_EVENT },
};

static enum wait_kind wait_kind_of(const char *name)
{
	name = tauti_bare_call(name);
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

struct named { /* what a synchronisation row says of a call */
	uint32_t correlation;
	int64_t stream;
	int64_t device; /* below 0: of any, the row's has no such stream */
	int64_t until; /* it waits for what was launched before this */
};

struct waits {
	struct tauti_rank *rank;
	uint8_t *kind_of; /* by name */
	uint32_t *launches; /* by row of a device: up to it, one of many kernels
	                       (a graph) counted once */
	TAUT_VEC(struct named) named;   /* by correlation */
	TAUT_VEC(struct named) records; /* of events, by correlation */
};

static int by_correlation(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	return x->correlation < y->correlation ? -1 :
		x->correlation > y->correlation;
}

/* When the event with this correlation was recorded; INT64_MAX: not seen. */
static int64_t recorded_at(const struct waits *w, uint32_t correlation)
{
	const struct named key = { correlation, 0, 0, 0 };
	const struct named *found = w->records.count ? bsearch(&key,
		w->records.data, w->records.count, sizeof key,
		by_correlation) : NULL;

	return found ? found->until : INT64_MAX;
}

static bool index_records(struct waits *w)
{
	const struct taut_trace *t = w->rank->trace;

	for (uint32_t i = 0; t->n_syncs && i < t->n_events; i++) {
		struct named n = { t->correlation[i], 0, 0, t->start_ns[i] };

		if (t->kind[i] == TAUT_KIND_RUNTIME && n.correlation &&
			strstr(taut_trace_name(t, i), "EventRecord") &&
			!taut_vec_push(&w->records, n))
			return false;
	}
	if (w->records.count)
		qsort(w->records.data, w->records.count,
			sizeof *w->records.data, by_correlation);
	return true;
}

static bool index_named(struct waits *w)
{
	const struct taut_trace *t = w->rank->trace;

	for (size_t i = 0; i < t->n_syncs; i++) {
		const struct taut_sync_args *s = &t->syncs[i];
		struct named n = { t->correlation[s->event], s->kind ==
			TAUT_SYNC_STREAM ? s->stream : s->wait_stream,
			t->lanes[t->lane[s->event]].pid, INT64_MAX };

		if (tauti_lane_of_stream(t, n.device, n.stream) == TAUT_NONE)
			n.device = -1;
		if (s->kind == TAUT_SYNC_EVENT && s->wait_correlation > 0)
			n.until = recorded_at(w, (uint32_t)s->wait_correlation);

		if (n.correlation && n.stream >= 0 &&
			(s->kind == TAUT_SYNC_STREAM ||
			s->kind == TAUT_SYNC_EVENT) &&
			!taut_vec_push(&w->named, n))
			return false;
	}
	if (w->named.count)
		qsort(w->named.data, w->named.count, sizeof *w->named.data,
			by_correlation);
	return true;
}

/* What a synchronisation row says of this call; NULL: nothing. */
static const struct named *named(const struct waits *w, uint32_t call)
{
	struct named key = { w->rank->trace->correlation[call], 0, 0, 0 };

	return w->named.count ? bsearch(&key, w->named.data, w->named.count,
		sizeof key, by_correlation) : NULL;
}

/* The last work of a stream that ends by `at` and was launched before
 * `launched`; streams are serial. */
static uint32_t last_ended(const struct tauti_rank *rank, uint32_t lane,
	int64_t at, int64_t launched)
{
	uint32_t last = tauti_last_launched(rank, lane, launched);
	uint32_t lo = rank->trace->lane_begin[lane], begin = lo, hi;

	if (last == TAUT_NONE)
		return TAUT_NONE;
	for (hi = last + 1; lo < hi;) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (tauti_row_end(rank->trace, mid) <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > begin ? lo - 1 : TAUT_NONE;
}

/* Is this the stream that a row names? */
static bool is_said(const struct taut_trace *t, uint32_t lane,
	const struct named *said)
{
	return t->lanes[lane].tid == said->stream &&
		(said->device < 0 || t->lanes[lane].pid == said->device);
}

/* The work whose end explains best why the call returned when it did. */
static uint32_t explain_return(const struct waits *w, uint32_t call,
	enum wait_kind kind)
{
	const struct tauti_rank *rank = w->rank;
	const struct taut_trace *t = rank->trace;
	int64_t s = t->start_ns[call], e = tauti_row_end(t, call), before = s;
	const struct named *said = kind == WAIT_DEVICE ? NULL : named(w, call);
	int64_t latest = e + (said ? SAID_SLACK_NS : SLACK_NS);
	uint32_t best = TAUT_NONE;

	if (said && said->until < before)
		before = said->until;
	for (uint32_t l = 0; l < t->n_lanes; l++) {
		uint32_t row;

		if (t->lanes[l].kind != TAUT_LANE_STREAM ||
			(said && !is_said(t, l, said)))
			continue;
		row = kind == WAIT_EVENT && !said ?
			last_ended(rank, l, e + SLACK_NS, s) :
			tauti_last_launched(rank, l, before);
		/* no edge may lead back in time: the work before it, then */
		while (said && row != TAUT_NONE && row > t->lane_begin[l] &&
			t->start_ns[row] > e)
			row--;
		if (row == TAUT_NONE || tauti_row_end(t, row) > latest)
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

/* Of an asynchronous copy the memory decides: the caller is held where the system may
 * move it. Where that is not said, the time that the call took tells. */
static bool copy_blocks(const struct tauti_rank *rank,
	const struct tauti_call *call)
{
	const struct taut_trace *t = rank->trace;
	uint32_t work = call->device;
	const char *copy;

	if (work == TAUT_NONE || t->kind[work] != TAUT_KIND_MEMCPY ||
		tauti_row_end(t, work) > tauti_row_end(t, call->row) + SLACK_NS)
		return false;
	copy = taut_trace_name(t, work);
	if (!strstr(taut_trace_name(t, call->row), "Async") ||
		strstr(copy, "Pageable"))
		return true;
	return t->dur_ns[call->row] > LONG_CALL_NS && !strstr(copy, "Pinned") &&
		!strstr(copy, "Device -> Device");
}

/* Work whose launch was cut is one of its own. */
static void count_launches(struct waits *w)
{
	const uint32_t *of = w->rank->launch_of;
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->rank->trace->n_events; i++) {
		n += !i || of[i] == TAUT_NONE || of[i] != of[i - 1];
		w->launches[i] = n;
	}
}

/* The work whose end made room for a launch into a full queue; TAUT_NONE: it was
 * not full, or the launch took no longer than others. */
static uint32_t made_room(const struct waits *w, const struct tauti_call *call)
{
	const struct tauti_rank *rank = w->rank;
	const struct taut_trace *t = rank->trace;
	uint32_t ended;

	if (call->device == TAUT_NONE || t->dur_ns[call->row] <= LONG_CALL_NS)
		return TAUT_NONE;
	ended = last_ended(rank, t->lane[call->device],
		tauti_row_end(t, call->row), t->start_ns[call->row]);
	return ended != TAUT_NONE && w->launches[call->device] -
		w->launches[ended] > QUEUE_LAUNCHES &&
		tauti_row_end(t, ended) > t->start_ns[call->row] ? ended :
		TAUT_NONE;
}

static bool add_wait(struct tauti_rank *rank, uint32_t row, uint32_t work)
{
	struct tauti_call call = { row, TAUT_NONE, work, INT64_MIN, TAUT_NONE,
		TAUT_NONE };

	rank->call_of[row] = (uint32_t)rank->calls.count;
	return taut_vec_push(&rank->calls, call);
}

static bool look_at(struct waits *w, uint32_t row)
{
	struct tauti_rank *rank = w->rank;
	enum wait_kind kind = w->kind_of[rank->trace->name[row]];
	uint32_t work;

	if (rank->trace->kind[row] != TAUT_KIND_RUNTIME)
		return true;
	if (rank->call_of[row] != TAUT_NONE) {
		struct tauti_call *c = &rank->calls.data[rank->call_of[row]];

		if (kind == WAIT_COPY && copy_blocks(rank, c))
			c->waited = c->device;
		else if (c->waited == TAUT_NONE)
			c->waited = made_room(w, c);
		return true;
	}
	if (kind == WAIT_NO || kind == WAIT_COPY)
		return true; /* the copy is not in the recording */
	work = explain_return(w, row, kind);
	return work == TAUT_NONE || add_wait(rank, row, work);
}

taut_status tauti_host_waits(struct tauti_rank *rank, struct taut_error *err)
{
	const struct taut_trace *t = rank->trace;
	uint32_t n_names = taut_names_count(t->names);
	struct waits w = { .rank = rank, .kind_of = calloc(n_names + 1, 1) };
	bool ok;

	w.launches = malloc((t->n_events + 1) * sizeof *w.launches);
	ok = w.kind_of && w.launches && index_records(&w) && index_named(&w);
	if (ok)
		count_launches(&w);
	for (uint32_t i = 0; ok && i < n_names; i++)
		w.kind_of[i] = (uint8_t)wait_kind_of(
			taut_names_text(t->names, i));
	for (uint32_t i = 0; ok && i < t->n_events; i++)
		ok = look_at(&w, i);
	free(w.kind_of);
	free(w.launches);
	taut_vec_free(&w.named);
	taut_vec_free(&w.records);
	return ok ? TAUT_OK : taut_error_set(err, TAUT_ENOMEM, -1,
		"%s: no memory for host waits", t->path);
}
