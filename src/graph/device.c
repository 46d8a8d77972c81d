/* device.c - what device work waited for: its launch, the work before it on
 * its stream, and work on other streams.
 *
 * Waits between streams are exact where the recording has them (SYNC rows of
 * kind STREAM_WAIT). Most recordings only show that cudaEventRecord and
 * cudaStreamWaitEvent were called, not on which streams. Then: a wait makes
 * the next work that its thread launches wait for what had been launched to
 * the other streams when an event was last recorded there. A pair of streams
 * for which time contradicts that more than once in twenty is given up
 * whole; else only the contradicting wait is. What is still not understood
 * after that is left to coincide.c. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

enum { MAX_STREAMS = 64 };
enum { SLACK_NS = 1000 }; /* device and host stamps are rounded to 1 us */

struct snapshot { /* last work launched to each stream; TAUT_NONE none */
	uint32_t last[MAX_STREAMS];
};

struct thread_state {
	struct snapshot recorded; /* at the last event record */
	struct snapshot waiting;  /* what pending waits wait for */
	bool has_recorded, has_waiting;
};

struct candidate {
	uint32_t before, row;
	uint8_t from, to;
};

struct linker {
	struct tauti_rank *rank;
	uint32_t *runtime; /* rows of runtime calls of all threads, by start */
	size_t n_runtime;
	uint8_t *stream_of_lane; /* dense number, MAX_STREAMS when too many */
	struct thread_state *threads;
	struct snapshot now;
	struct snapshot recorded; /* at the last record of any thread */
	bool has_recorded, records_seen;
	uint32_t *device_of; /* by row: first device row launched */
	uint32_t *next_device; /* by row: another one of the same launch */
	TAUT_VEC(struct candidate) candidates;
};

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

const char *tauti_bare_call(const char *name)
{
	static const char *const prefixes[] = { "cuda", "hip", "cu" };

	for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
		if (starts(name, prefixes[i]))
			return name + strlen(prefixes[i]);
	return name;
}

/* --- launches --------------------------------------------------------------*/

struct by_correlation {
	uint32_t correlation, row;
};

static int compare_correlation(const void *a, const void *b)
{
	const struct by_correlation *x = a, *y = b;

	if (x->correlation != y->correlation)
		return x->correlation < y->correlation ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Host rows by correlation; among equals the runtime call that began first
 * is the launch (a driver call may be nested in it). */
static struct by_correlation *index_calls(const struct taut_trace *t, size_t *n)
{
	struct by_correlation *index;
	size_t count = 0;

	for (size_t i = 0; i < t->n_events; i++)
		count += t->kind[i] == TAUT_KIND_RUNTIME && t->correlation[i];
	index = malloc((count + 1) * sizeof *index);
	*n = 0;
	for (uint32_t i = 0; index && i < t->n_events; i++)
		if (t->kind[i] == TAUT_KIND_RUNTIME && t->correlation[i])
			index[(*n)++] = (struct by_correlation) {
				t->correlation[i], i };
	if (index)
		qsort(index, *n, sizeof *index, compare_correlation);
	return index;
}

static uint32_t find_call(const struct by_correlation *index, size_t n,
	const struct taut_trace *t, uint32_t correlation)
{
	size_t lo = 0, hi = n;
	uint32_t best = TAUT_NONE;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (index[mid].correlation < correlation)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < n && index[lo].correlation == correlation; lo++)
		if (best == TAUT_NONE ||
			t->start_ns[index[lo].row] < t->start_ns[best])
			best = index[lo].row;
	return best;
}

static taut_status link_launches(struct linker *k)
{
	const struct taut_trace *t = k->rank->trace;
	size_t n;
	struct by_correlation *index = index_calls(t, &n);

	if (!index)
		return TAUT_ENOMEM;
	for (uint32_t i = (uint32_t)t->n_events; i-- > 0;) {
		uint32_t call;

		if (!tauti_is_device(t->kind[i]))
			continue;
		call = t->correlation[i] ?
			find_call(index, n, t, t->correlation[i]) : TAUT_NONE;
		k->rank->launch_of[i] = call;
		if (call == TAUT_NONE) {
			k->rank->n_launches_cut++;
			continue;
		}
		k->next_device[i] = k->device_of[call];
		k->device_of[call] = i;
	}
	free(index);
	return TAUT_OK;
}

/* A stream takes launches in its order: what ran before work of which the launch is
 * recorded was launched before it, however much later it began. */
static void find_launch_times(struct tauti_rank *rank)
{
	const struct taut_trace *t = rank->trace;

	for (uint32_t l = 0; l < t->n_lanes; l++)
		for (uint32_t i = t->lane_begin[l + 1]; i-- > t->lane_begin[l];) {
			uint32_t call = rank->launch_of[i];
			int64_t at = t->start_ns[call == TAUT_NONE ? i : call];

			if (call == TAUT_NONE && i + 1 < t->lane_begin[l + 1] &&
				rank->launched_at[i + 1] < at)
				at = rank->launched_at[i + 1];
			rank->launched_at[i] = at;
		}
}

/* --- waits between streams --------------------------------------------------*/

struct timed_row {
	int64_t start;
	uint32_t row;
};

static int by_row_start(const void *a, const void *b)
{
	const struct timed_row *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static taut_status collect_runtime(struct linker *k)
{
	const struct taut_trace *t = k->rank->trace;
	struct timed_row *rows = malloc((t->n_events + 1) * sizeof *rows);
	size_t n = 0;

	if (!rows)
		return TAUT_ENOMEM;
	for (uint32_t i = 0; i < t->n_events; i++)
		if (t->kind[i] == TAUT_KIND_RUNTIME)
			rows[n++] = (struct timed_row) { t->start_ns[i], i };
	qsort(rows, n, sizeof *rows, by_row_start);
	k->runtime = malloc((n + 1) * sizeof *k->runtime);
	for (size_t i = 0; k->runtime && i < n; i++)
		k->runtime[i] = rows[i].row;
	k->n_runtime = n;
	free(rows);
	return k->runtime ? TAUT_OK : TAUT_ENOMEM;
}

static bool add_candidates(struct linker *k, const struct snapshot *from,
	uint32_t row, uint8_t to)
{
	for (uint8_t s = 0; s < MAX_STREAMS; s++) {
		struct candidate c = { from->last[s], row, s, to };

		if (s != to && c.before != TAUT_NONE &&
			!taut_vec_push(&k->candidates, c))
			return false;
	}
	return true;
}

static bool see_launch(struct linker *k, struct thread_state *th, uint32_t call)
{
	const struct taut_trace *t = k->rank->trace;

	for (uint32_t d = k->device_of[call]; d != TAUT_NONE;
		d = k->next_device[d]) {
		uint8_t to = k->stream_of_lane[t->lane[d]];

		if (to >= MAX_STREAMS)
			continue;
		if (th->has_waiting && !add_candidates(k, &th->waiting, d, to))
			return false;
		k->now.last[to] = d;
	}
	th->has_waiting = false;
	return true;
}

static void see_wait(struct linker *k, struct thread_state *th)
{
	const struct snapshot *of = &k->now; /* records are not in the trace */

	if (th->has_recorded)
		of = &th->recorded;
	else if (k->has_recorded)
		of = &k->recorded; /* another thread's event */
	else if (k->records_seen)
		return; /* recorded before the recording */
	if (!th->has_waiting)
		memset(&th->waiting, 0xff, sizeof th->waiting);
	for (int s = 0; s < MAX_STREAMS; s++)
		if (of->last[s] != TAUT_NONE)
			th->waiting.last[s] = of->last[s];
	th->has_waiting = true;
}

static taut_status propose(struct linker *k)
{
	const struct taut_trace *t = k->rank->trace;

	memset(&k->now, 0xff, sizeof k->now);
	for (size_t i = 0; i < k->n_runtime; i++)
		if (starts(tauti_bare_call(taut_trace_name(t, k->runtime[i])), "EventRecord"))
			k->records_seen = true;
	for (size_t i = 0; i < k->n_runtime; i++) {
		uint32_t row = k->runtime[i];
		const char *name = tauti_bare_call(taut_trace_name(t, row));
		struct thread_state *th =
			&k->threads[t->lane[row]];

		if (k->device_of[row] != TAUT_NONE) {
			if (!see_launch(k, th, row))
				return TAUT_ENOMEM;
		} else if (starts(name, "EventRecord")) {
			k->recorded = th->recorded = k->now;
			k->has_recorded = th->has_recorded = true;
		} else if (starts(name, "StreamWaitEvent")) {
			see_wait(k, th);
		}
	}
	return TAUT_OK;
}

static bool contradicts(const struct taut_trace *t, const struct candidate *c)
{
	return tauti_row_end(t, c->before) > t->start_ns[c->row] + SLACK_NS;
}

/* Keeps what time does not contradict, each wait once. */
static taut_status judge(struct linker *k)
{
	static const size_t pairs = (size_t)MAX_STREAMS * MAX_STREAMS;
	const struct taut_trace *t = k->rank->trace;
	uint32_t *seen = calloc(pairs, sizeof *seen);
	uint32_t *wrong = calloc(pairs, sizeof *wrong);
	uint32_t *last = malloc(pairs * sizeof *last);
	taut_status status = seen && wrong && last ? TAUT_OK : TAUT_ENOMEM;

	for (size_t i = 0; !status && i < k->candidates.count; i++) {
		struct candidate *c = &k->candidates.data[i];

		seen[c->from * MAX_STREAMS + c->to]++;
		wrong[c->from * MAX_STREAMS + c->to] += contradicts(t, c);
	}
	if (!status)
		memset(last, 0xff, pairs * sizeof *last);
	for (size_t i = 0; !status && i < k->candidates.count; i++) {
		struct candidate *c = &k->candidates.data[i];
		size_t p = (size_t)c->from * MAX_STREAMS + c->to;
		struct tauti_stream_wait w = { c->before, c->row };

		if (wrong[p] * 20 > seen[p] || contradicts(t, c) ||
			last[p] == c->before)
			continue;
		last[p] = c->before;
		if (!taut_vec_push(&k->rank->stream_waits, w))
			status = TAUT_ENOMEM;
	}
	free(seen);
	free(wrong);
	free(last);
	return status;
}

/* --- waits that the recording names ------------------------------------------*/

uint32_t tauti_lane_of_stream(const struct taut_trace *t, int64_t device,
	int64_t stream)
{
	for (uint32_t l = 0; l < t->n_lanes; l++)
		if (t->lanes[l].kind == TAUT_LANE_STREAM &&
			t->lanes[l].tid == stream &&
			(device < 0 || t->lanes[l].pid == device))
			return l;
	return TAUT_NONE;
}

/* The work launched last before `at` on a stream; launches of a stream are
 * in its order. */
uint32_t tauti_last_launched(const struct tauti_rank *rank, uint32_t lane,
	int64_t at)
{
	uint32_t lo = rank->trace->lane_begin[lane];
	uint32_t hi = rank->trace->lane_begin[lane + 1], begin = lo;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (rank->launched_at[mid] < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > begin ? lo - 1 : TAUT_NONE;
}

/* The first work launched after `at` on a stream. */
static uint32_t first_launched(const struct tauti_rank *rank, uint32_t lane,
	int64_t at)
{
	uint32_t last = tauti_last_launched(rank, lane, at + 1);
	uint32_t next = last == TAUT_NONE ? rank->trace->lane_begin[lane] :
		last + 1;

	return next < rank->trace->lane_begin[lane + 1] ? next : TAUT_NONE;
}

static taut_status named_waits(struct linker *k)
{
	const struct taut_trace *t = k->rank->trace;
	size_t n;
	struct by_correlation *index = index_calls(t, &n);
	taut_status status = index ? TAUT_OK : TAUT_ENOMEM;

	for (size_t i = 0; !status && i < t->n_syncs; i++) {
		const struct taut_sync_args *s = &t->syncs[i];
		int64_t device = t->lanes[t->lane[s->event]].pid;
		uint32_t to, from, wait, record;
		struct tauti_stream_wait w;

		if (s->kind != TAUT_SYNC_STREAM_WAIT || s->wait_correlation < 0)
			continue;
		to = tauti_lane_of_stream(t, device, s->stream);
		from = tauti_lane_of_stream(t, device, s->wait_stream);
		wait = find_call(index, n, t, t->correlation[s->event]);
		record = find_call(index, n, t, (uint32_t)s->wait_correlation);
		if (to == TAUT_NONE || from == TAUT_NONE || from == to ||
			wait == TAUT_NONE || record == TAUT_NONE)
			continue;
		w.before = tauti_last_launched(k->rank, from,
			t->start_ns[record]);
		w.row = first_launched(k->rank, to, t->start_ns[wait]);
		if (w.before != TAUT_NONE && w.row != TAUT_NONE &&
			!taut_vec_push(&k->rank->stream_waits, w))
			status = TAUT_ENOMEM;
	}
	free(index);
	return status;
}

static bool names_waits(const struct taut_trace *t)
{
	for (size_t i = 0; i < t->n_syncs; i++)
		if (t->syncs[i].kind == TAUT_SYNC_STREAM_WAIT &&
			t->syncs[i].wait_correlation >= 0)
			return true;
	return false;
}

/* --- when work was free to begin ---------------------------------------------*/

/* The end of all that device work is known to wait for, its launch aside. */
static void find_free(struct tauti_rank *rank)
{
	const struct taut_trace *t = rank->trace;

	for (uint32_t l = 0; l < t->n_lanes; l++)
		for (uint32_t i = t->lane_begin[l]; i < t->lane_begin[l + 1];
			i++)
			rank->free_at[i] = i > t->lane_begin[l] &&
				tauti_is_device(t->kind[i]) ?
				tauti_row_end(t, i - 1) : INT64_MIN;
	for (size_t i = 0; i < rank->stream_waits.count; i++) {
		const struct tauti_stream_wait *w = &rank->stream_waits.data[i];
		int64_t end = tauti_row_end(t, w->before);

		if (end > rank->free_at[w->row])
			rank->free_at[w->row] = end;
	}
}

static int by_value(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The median time from call to start of work that only waited for it. */
static taut_status find_launch_lag(struct tauti_rank *rank)
{
	const struct taut_trace *t = rank->trace;
	int64_t *lags = malloc((t->n_events + 1) * sizeof *lags);
	size_t n = 0;

	if (!lags)
		return TAUT_ENOMEM;
	for (size_t i = 0; i < t->n_events; i++) {
		uint32_t call = rank->launch_of[i];

		if (call != TAUT_NONE && tauti_is_device(t->kind[i]) &&
			rank->free_at[i] < t->start_ns[call] &&
			t->start_ns[i] >= t->start_ns[call])
			lags[n++] = t->start_ns[i] - t->start_ns[call];
	}
	qsort(lags, n, sizeof *lags, by_value);
	rank->launch_lag = n ? lags[n / 2] : 5000;
	free(lags);
	return TAUT_OK;
}

/* Work that began late although its stream was free, while the call that
 * launches it was still in progress: the call had not handed it over. */
static int64_t submitted(const struct tauti_rank *rank, uint32_t call,
	uint32_t work)
{
	const struct taut_trace *t = rank->trace;
	int64_t could = t->start_ns[call] + rank->launch_lag;
	int64_t lag = rank->launch_lag, at;

	if (rank->free_at[work] > could)
		could = rank->free_at[work];
	if (t->kind[work] != TAUT_KIND_KERNEL && t->dur_ns[call] >=
		tauti_row_end(t, work) - t->start_ns[call])
		return INT64_MIN; /* a blocking copy waits for its own work */
	if (t->start_ns[work] <= could + SLACK_NS ||
		t->start_ns[work] > tauti_row_end(t, call) + lag)
		return INT64_MIN;
	at = t->start_ns[work] - lag;
	return at > t->start_ns[call] ? at : INT64_MIN;
}

static taut_status make_calls(struct linker *k)
{
	struct tauti_rank *rank = k->rank;

	for (size_t i = 0; i < k->n_runtime; i++) {
		uint32_t row = k->runtime[i];
		struct tauti_call call = { row, k->device_of[row], TAUT_NONE,
			INT64_MIN, TAUT_NONE, TAUT_NONE };

		if (call.device == TAUT_NONE)
			continue;
		call.submit = submitted(rank, row, call.device);
		rank->call_of[row] = (uint32_t)rank->calls.count;
		if (!taut_vec_push(&rank->calls, call))
			return TAUT_ENOMEM;
	}
	return TAUT_OK;
}

/* --- the whole -----------------------------------------------------------------*/

static taut_status linker_init(struct linker *k)
{
	const struct taut_trace *t = k->rank->trace;
	uint32_t streams = 0;
	size_t n = t->n_events + 1;

	k->device_of = malloc(n * sizeof *k->device_of);
	k->next_device = malloc(n * sizeof *k->next_device);
	k->stream_of_lane = calloc(t->n_lanes + 1, 1);
	k->threads = calloc(t->n_lanes + 1, sizeof *k->threads);
	if (!k->device_of || !k->next_device || !k->stream_of_lane ||
		!k->threads)
		return TAUT_ENOMEM;
	memset(k->device_of, 0xff, n * sizeof *k->device_of);
	memset(k->next_device, 0xff, n * sizeof *k->next_device);
	for (uint32_t l = 0; l < t->n_lanes; l++) {
		k->stream_of_lane[l] = MAX_STREAMS;
		if (t->lanes[l].kind == TAUT_LANE_STREAM &&
			streams < MAX_STREAMS)
			k->stream_of_lane[l] = (uint8_t)streams++;
	}
	return TAUT_OK;
}

static void linker_fini(struct linker *k)
{
	free(k->runtime);
	free(k->stream_of_lane);
	free(k->threads);
	free(k->device_of);
	free(k->next_device);
	taut_vec_free(&k->candidates);
}

taut_status tauti_device_link(struct tauti_rank *rank, struct taut_error *err)
{
	struct linker k = { .rank = rank };
	taut_status status = linker_init(&k);

	if (!status)
		status = collect_runtime(&k);
	if (!status)
		status = link_launches(&k);
	if (!status)
		find_launch_times(rank);
	if (!status && names_waits(rank->trace))
		status = named_waits(&k);
	else if (!status && !(status = propose(&k)))
		status = judge(&k);
	if (!status) {
		find_free(rank);
		status = find_launch_lag(rank);
	}
	if (!status)
		status = tauti_coincidences(rank, err);
	if (!status) {
		find_free(rank);
		status = make_calls(&k);
	}
	linker_fini(&k);
	return status ? taut_error_set(err, status, -1,
		"%s: no memory to link device work", rank->trace->path) :
		TAUT_OK;
}
