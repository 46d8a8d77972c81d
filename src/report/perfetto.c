/* perfetto.c - the timeline as Chrome trace JSON, for Perfetto.
 *
 * A process is a rank, a thread is a lane. Slices of one thread must nest, so
 * a row that overlaps another without lying in it goes to a further thread of
 * the same name. Beside a lane with collectives stands one that splits each
 * of them into waiting and moving. Arrows lead from launches to device work
 * and from a collective's last arrival to its other members. All times are
 * on the graph's clock. */
#include <stdlib.h>
#include <string.h>

#include <taut/report.h>

#include "base/vec.h"
#include "report/lanes.h"
#include "report/put.h"

enum { DEPTH = 256, TRACKS = 64, SUFFIX = 8 };

struct track { /* ends of the slices that are open, outermost first */
	int64_t end[DEPTH];
	uint32_t n;
};

struct writer {
	const struct taut_report *report;
	const struct tauti_members *members;
	struct tauti_put *put;
	uint64_t next_flow; /* arrows 0 .. n_collectives-1 are theirs */
	int64_t shift;      /* added to every time: none may be negative */
	bool any;           /* an event was written: a comma is due */

	/* of the rank that is being written */
	const struct taut_trace *trace;
	uint32_t index;
	uint32_t *tid_of; /* by row */
	TAUT_VEC(struct track) tracks;
};

/* --- single events ------------------------------------------------------ */
static void begin_event(struct writer *w, char phase, int64_t pid, int64_t tid)
{
	tauti_put_text(w->put, w->any ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
	w->any = true;
	tauti_put_char(w->put, phase);
	tauti_put_text(w->put, "\",\"pid\":");
	tauti_put_int(w->put, pid);
	tauti_put_text(w->put, ",\"tid\":");
	tauti_put_int(w->put, tid);
}

static void put_field(struct writer *w, const char *key, const char *text)
{
	tauti_put_char(w->put, ',');
	tauti_put_key(w->put, key);
	tauti_put_string(w->put, text);
}

static void put_number(struct writer *w, const char *key, int64_t value)
{
	tauti_put_key(w->put, key);
	tauti_put_int(w->put, value);
}

static void put_slice(struct writer *w, int64_t pid, int64_t tid,
	const char *name, const char *category, int64_t start, int64_t end)
{
	begin_event(w, 'X', pid, tid);
	tauti_put_text(w->put, ",\"ts\":");
	tauti_put_us(w->put, start + w->shift);
	tauti_put_text(w->put, ",\"dur\":");
	tauti_put_us(w->put, end - start);
	put_field(w, "name", *name ? name : "(no name)");
	put_field(w, "cat", category);
}

static void put_flow(struct writer *w, char phase, uint64_t id, int64_t tid,
	const char *category, int64_t at)
{
	begin_event(w, phase, w->trace->rank, tid);
	tauti_put_text(w->put, ",\"ts\":");
	tauti_put_us(w->put, at + w->shift);
	tauti_put_text(w->put, ",\"id\":");
	tauti_put_int(w->put, (int64_t)id);
	put_field(w, "name", category);
	put_field(w, "cat", category);
	tauti_put_text(w->put, phase == 'f' ? ",\"bp\":\"e\"}" : "}");
}

static void put_name(struct writer *w, const char *what, int64_t pid,
	int64_t tid, const char *name, int64_t order)
{
	begin_event(w, 'M', pid, tid);
	tauti_put_text(w->put, ",\"name\":\"");
	tauti_put_text(w->put, what);
	tauti_put_text(w->put, "_name\",\"args\":{\"name\":");
	tauti_put_string(w->put, name);
	tauti_put_text(w->put, "}}");
	begin_event(w, 'M', pid, tid);
	tauti_put_text(w->put, ",\"name\":\"");
	tauti_put_text(w->put, what);
	tauti_put_text(w->put, "_sort_index\",\"args\":{\"sort_index\":");
	tauti_put_int(w->put, order);
	tauti_put_text(w->put, "}}");
}

static int64_t row_time(const struct writer *w, int64_t own)
{
	return taut_graph_time(w->report->graph, w->index, own);
}

/* --- where a row goes --------------------------------------------------- */
/* Thread numbers of a lane: its own, then further ones for overlaps; the
 * second kind of lane splits collectives. */
static uint32_t lane_tid(const struct writer *w, uint32_t lane, uint32_t extra)
{
	return (2 * extra * w->trace->n_lanes) + lane + 1;
}

static uint32_t split_tid(const struct writer *w, uint32_t lane)
{
	return w->trace->n_lanes + lane + 1;
}

static bool fits(struct track *t, int64_t start, int64_t end)
{
	while (t->n && t->end[t->n - 1] <= start)
		t->n--;
	if (t->n == DEPTH || (t->n && end > t->end[t->n - 1]))
		return false;
	t->end[t->n++] = end;
	return true;
}

/* Rows of a lane come in order. Where all TRACKS threads are taken, which only
 * a damaged recording does, the row is cut short to fit into the last one.
 * TAUT_NONE: no memory. */
static uint32_t place(struct writer *w, int64_t start, int64_t *end)
{
	struct track empty, *last;

	for (uint32_t i = 0; i < w->tracks.count; i++) {
		if (fits(&w->tracks.data[i], start, *end))
			return i;
	}
	if (w->tracks.count == TRACKS) {
		last = &w->tracks.data[TRACKS - 1];
		if (*end > last->end[last->n - 1])
			*end = last->end[last->n - 1];
		return TRACKS - 1;
	}
	empty.n = 0;
	if (!taut_vec_push(&w->tracks, empty))
		return TAUT_NONE;
	fits(&w->tracks.data[w->tracks.count - 1], start, *end);
	return (uint32_t)w->tracks.count - 1;
}

static const char *kind_name(uint8_t kind)
{
	static const char *const names[TAUT_KIND_COUNT] = { "other", "operator",
		"annotation", "python", "runtime", "kernel", "copy", "fill",
		"sync", "device range", "overhead", "step", "communication",
		"chunk", "batch", "wait for batch" };

	return kind < TAUT_KIND_COUNT ? names[kind] : names[0];
}

/* What is not known is left out. */
static void put_known(struct writer *w, const char *key, int64_t value)
{
	if (value < 0)
		return;
	tauti_put_char(w->put, ',');
	put_number(w, key, value);
}

static void put_args(struct writer *w, uint32_t row)
{
	const struct taut_load_args *load = taut_trace_load(w->trace, row);

	tauti_put_text(w->put, ",\"args\":{");
	put_number(w, "correlation", w->trace->correlation[row]);
	if (load) {
		put_known(w, "samples", load->samples);
		put_known(w, "cpu_ns", load->cpu_ns);
		put_known(w, "queued_ns", load->queued_ns);
		put_known(w, "other_threads_ns", load->others_ns);
		put_known(w, "read_bytes", load->read_bytes);
		put_known(w, "storage_bytes", load->storage_bytes);
	}
	tauti_put_char(w->put, '}');
}

static void put_row(struct writer *w, uint32_t row, uint32_t tid, int64_t start,
	int64_t end)
{
	const struct taut_trace *t = w->trace;

	put_slice(w, t->rank, tid, taut_names_text(t->names, t->name[row]),
		kind_name(t->kind[row]), start, end);
	if (t->correlation[row] || taut_trace_load(t, row))
		put_args(w, row);
	tauti_put_char(w->put, '}');
}

static bool put_lane(struct writer *w, uint32_t lane)
{
	const struct taut_trace *t = w->trace;
	char title[160], more[160 + SUFFIX];

	tauti_lane_title(t, lane, title, sizeof title);
	taut_vec_clear(&w->tracks);
	for (uint32_t i = t->lane_begin[lane]; i < t->lane_begin[lane + 1];
		i++) {
		int64_t start = row_time(w, t->start_ns[i]);
		int64_t end = row_time(w, t->start_ns[i] + t->dur_ns[i]);
		uint32_t extra = place(w, start, &end);

		if (extra == TAUT_NONE)
			return false;
		w->tid_of[i] = lane_tid(w, lane, extra);
		put_row(w, i, w->tid_of[i], start, end);
	}
	for (uint32_t i = 0; i < w->tracks.count; i++) {
		snprintf(more, sizeof more, i ? "%s (%u)" : "%s", title, i + 1);
		put_name(w, "thread", t->rank, lane_tid(w, lane, i), more,
			3 * (int64_t)lane + 2 * (i > 0));
	}
	return true;
}

/* --- collectives: waiting and moving ------------------------------------ */
static void put_member_args(struct writer *w, const struct tauti_member *m)
{
	const struct taut_graph *g = w->report->graph;
	const struct taut_collective *c = &g->collectives[m->collective];

	tauti_put_text(w->put, ",\"args\":{");
	put_number(w, "collective", m->collective);
	tauti_put_char(w->put, ',');
	put_number(w, "bytes", c->bytes);
	tauti_put_char(w->put, ',');
	put_number(w, "last_rank", w->report->run->traces[m->last].rank);
	put_field(w, "group", taut_names_text(g->names, c->group));
	tauti_put_text(w->put, "}}");
}

static int64_t put_member(
	struct writer *w, const struct tauti_member *m, int64_t free_at)
{
	uint32_t tid = split_tid(w, w->trace->lane[m->row]);
	int64_t arrive = m->arrive > free_at ? m->arrive : free_at;
	int64_t begin = m->begin > arrive ? m->begin : arrive;
	int64_t end = m->end > begin ? m->end : begin;
	char text[48];

	if (begin > arrive) {
		snprintf(text, sizeof text, "waiting for rank %d",
			w->report->run->traces[m->last].rank);
		put_slice(w, w->trace->rank, tid, text, "comm_wait", arrive,
			begin);
		put_member_args(w, m);
	}
	put_slice(w, w->trace->rank, tid, "transfer", "comm_transfer", begin,
		end);
	put_member_args(w, m);
	return end;
}

static void put_members(struct writer *w)
{
	const struct tauti_member *m = w->members->data;
	uint32_t lane = TAUT_NONE;
	int64_t free_at = 0;
	char title[160], text[160 + 16];

	for (uint32_t i = w->members->begin[w->index];
		i < w->members->begin[w->index + 1]; i++) {
		if (m[i].row == TAUT_NONE)
			continue;
		if (w->trace->lane[m[i].row] != lane) {
			lane = w->trace->lane[m[i].row];
			free_at = INT64_MIN;
			tauti_lane_title(w->trace, lane, title, sizeof title);
			snprintf(text, sizeof text, "%s: waits", title);
			put_name(w, "thread", w->trace->rank,
				split_tid(w, lane), text,
				3 * (int64_t)lane + 1);
		}
		free_at = put_member(w, &m[i], free_at);
	}
}

/* Arrows of all ranks' collectives, from the last arrival to the others. What
 * has one time is read in the order of the file: tails come first. */
static void put_member_flows(struct writer *w, char phase)
{
	const struct taut_run *run = w->report->run;
	const struct taut_collective *all = w->report->graph->collectives;

	for (w->index = 0; w->index < run->n_traces; w->index++) {
		const struct tauti_member *m = w->members->data;

		w->trace = &run->traces[w->index];
		for (uint32_t i = w->members->begin[w->index];
			i < w->members->begin[w->index + 1]; i++) {
			if (m[i].row == TAUT_NONE ||
				all[m[i].collective].n_members < 2 ||
				(m[i].last == w->index) != (phase == 's'))
				continue;
			put_flow(w, phase, m[i].collective,
				split_tid(w, w->trace->lane[m[i].row]),
				"collective", m[i].begin);
		}
	}
}

/* --- launches ----------------------------------------------------------- */
struct launch {
	uint32_t correlation, row;
};

static int by_correlation(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;

	if (x->correlation != y->correlation)
		return x->correlation < y->correlation ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static bool is_device(uint8_t kind)
{
	return kind == TAUT_KIND_KERNEL || kind == TAUT_KIND_MEMCPY ||
		kind == TAUT_KIND_MEMSET;
}

static uint32_t find_launches(const struct taut_trace *t, struct launch *all)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n_events; i++) {
		if (t->correlation[i] && t->kind[i] == TAUT_KIND_RUNTIME)
			all[n++] = (struct launch){ t->correlation[i], i };
	}
	qsort(all, n, sizeof *all, by_correlation);
	return n;
}

static void put_launch(
	struct writer *w, const struct launch *launch, uint32_t device)
{
	const struct taut_trace *t = w->trace;
	uint64_t id = ++w->next_flow;

	put_flow(w, 's', id, w->tid_of[launch->row], "launch",
		row_time(w, t->start_ns[launch->row]));
	put_flow(w, 'f', id, w->tid_of[device], "launch",
		row_time(w, t->start_ns[device]));
}

static bool put_launches(struct writer *w)
{
	const struct taut_trace *t = w->trace;
	struct launch *all = calloc(t->n_events ? t->n_events : 1, sizeof *all);
	uint32_t n;

	if (!all)
		return false;
	n = find_launches(t, all);
	for (uint32_t i = 0; i < t->n_events; i++) {
		struct launch key = { t->correlation[i], 0 }, *found;

		if (!is_device(t->kind[i]) || !key.correlation)
			continue;
		found = all;
		for (uint32_t left = n; left;) { /* first not below the key */
			uint32_t half = left / 2;

			if (by_correlation(&found[half], &key) < 0) {
				found += half + 1;
				left -= half + 1;
			} else {
				left = half;
			}
		}
		if (found < all + n && found->correlation == key.correlation)
			put_launch(w, found, i);
	}
	free(all);
	return true;
}

/* --- ranks and the critical path ---------------------------------------- */
static bool put_rank(struct writer *w, uint32_t index)
{
	const struct taut_trace *t = &w->report->run->traces[index];
	char title[320];
	bool done = true;

	w->trace = t;
	w->index = index;
	w->tid_of = calloc(t->n_events ? t->n_events : 1, sizeof *w->tid_of);
	if (!w->tid_of)
		return false;
	snprintf(title, sizeof title, *t->host ? "rank %d (%s)" : "rank %d",
		t->rank, t->host);
	put_name(w, "process", t->rank, 0, title, index + 1);
	for (uint32_t lane = 0; done && lane < t->n_lanes; lane++)
		done = put_lane(w, lane);
	if (done) {
		put_members(w);
		done = put_launches(w);
	}
	free(w->tid_of);
	return done;
}

static void put_path(struct writer *w)
{
	const struct taut_report *r = w->report;
	int64_t pid = 1000000000, free_at = INT64_MIN;

	put_name(w, "process", pid, 0, "critical path", 0);
	put_name(w, "thread", pid, 1, "critical path", 0);
	for (uint32_t i = 0; i < r->n_path; i++) {
		const struct taut_report_segment *s = &r->path[i];
		int64_t end = s->start_ns + s->dur_ns;
		int64_t start = s->start_ns > free_at ? s->start_ns : free_at;

		if (end <= start)
			continue;
		free_at = end;
		put_slice(w, pid, 1, s->name, taut_category_key(s->category),
			start, end);
		tauti_put_text(w->put, ",\"args\":{");
		put_number(w, "rank", s->rank);
		put_field(w, "lane", s->lane);
		put_field(w, "module", s->module);
		tauti_put_text(w->put, "}}");
	}
}

/* Readers drop what lies before 0; the graph's 0 is the first operation, and
 * a row may stand for none. */
static int64_t shift_to_zero(const struct taut_graph *g)
{
	int64_t first = 0;

	for (uint32_t i = 0; i < g->run->n_traces; i++) {
		const struct taut_trace *t = &g->run->traces[i];

		for (uint32_t lane = 0; lane < t->n_lanes; lane++) {
			int64_t start = t->lane_begin[lane] <
					t->lane_begin[lane + 1]
				? taut_graph_time(g, i,
					  t->start_ns[t->lane_begin[lane]])
				: 0;

			first = start < first ? start : first;
		}
	}
	return -first;
}

static bool put_all(struct writer *w)
{
	const struct taut_run *run = w->report->run;

	tauti_put_text(w->put, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
	for (uint32_t i = 0; i < run->n_traces; i++) {
		if (!put_rank(w, i))
			return false;
	}
	put_member_flows(w, 's');
	put_member_flows(w, 'f');
	put_path(w);
	tauti_put_text(w->put, "\n]}\n");
	return true;
}

taut_status taut_report_perfetto(
	const struct taut_report *report, FILE *out, struct taut_error *reterr)
{
	struct tauti_members members = { NULL, NULL };
	struct writer w = { .report = report, .members = &members };
	taut_status status = tauti_members_find(
		report->graph, &members, reterr);
	bool done = false;

	if (status)
		return status;
	w.put = malloc(sizeof *w.put);
	w.next_flow = report->graph->n_collectives;
	w.shift = shift_to_zero(report->graph);
	if (w.put) {
		tauti_put_begin(w.put, out);
		done = put_all(&w);
	}
	status = done ? tauti_put_end(w.put, reterr)
		      : taut_error_set(reterr, TAUT_ENOMEM, -1,
				"no memory for the Perfetto file");
	free(w.put);
	taut_vec_free(&w.tracks);
	tauti_members_free(&members);
	return status;
}
