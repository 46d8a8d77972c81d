/* html_json.c - the report as JSON for the page's own scripts. Unlike the
 * JSON of taut_report_json() it is no interface: times are integer
 * nanoseconds, ranks are indices in run->traces where a key ends in _index,
 * and web/page.js changes with it. */
#include "report/html.h"

#include <string.h>

#include "report/text.h"

/* Members of an object, with the commas between them. */
static void key(struct tauti_put *put, bool *first, const char *name)
{
	if (!*first)
		tauti_put_char(put, ',');
	*first = false;
	tauti_put_key(put, name);
}

static void put_int(
	struct tauti_put *put, bool *first, const char *name, int64_t value)
{
	key(put, first, name);
	tauti_put_int(put, value);
}

static void put_real(
	struct tauti_put *put, bool *first, const char *name, double value)
{
	key(put, first, name);
	tauti_put_real(put, value);
}

static void put_string(
	struct tauti_put *put, bool *first, const char *name, const char *value)
{
	key(put, first, name);
	tauti_put_string(put, value);
}

static void put_ints(struct tauti_put *put, bool *first, const char *name,
	const int64_t *values, uint32_t n)
{
	key(put, first, name);
	tauti_put_char(put, '[');
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			tauti_put_char(put, ',');
		tauti_put_int(put, values[i]);
	}
	tauti_put_char(put, ']');
}

/* One row of a table; closes nothing. */
typedef void (*row_fn)(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first);

static void put_table(const struct tauti_page *page, struct tauti_put *put,
	bool *first, const char *name, uint32_t n, row_fn row)
{
	key(put, first, name);
	tauti_put_char(put, '[');
	for (uint32_t i = 0; i < n; i++) {
		bool first_member = true;

		tauti_put_text(put, i ? ",\n{" : "\n{");
		row(page, i, put, &first_member);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void category_row(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first)
{
	(void)page;
	put_string(put, first, "key", taut_category_key((enum taut_category)i));
	put_string(put, first, "title",
		taut_category_title((enum taut_category)i));
}

/* [kind, title, rows in the blob, of which: 1 main, 2 communication] */
static void put_lanes(
	const struct tauti_page *page, uint32_t index, struct tauti_put *put)
{
	const struct taut_trace *t = &page->report->run->traces[index];
	char title[160];

	tauti_put_char(put, '[');
	for (uint32_t i = 0; i < t->n_lanes; i++) {
		tauti_lane_title(t, i, title, sizeof title);
		tauti_put_text(put, i ? ",[" : "[");
		tauti_put_int(put, t->lanes[i].kind);
		tauti_put_char(put, ',');
		tauti_put_string(put, title);
		tauti_put_char(put, ',');
		tauti_put_int(put, page->ranks[index].lane_rows[i]);
		tauti_put_char(put, ']');
	}
	tauti_put_char(put, ']');
}

static int64_t main_lane(const struct taut_graph *g, uint32_t trace)
{
	for (uint32_t i = 0; i < g->n_lanes; i++) {
		if (g->lanes[i].trace == trace && g->lanes[i].is_main)
			return g->lanes[i].trace_lane;
	}
	return -1;
}

static void rank_row(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first)
{
	const struct taut_trace *t = &page->report->run->traces[i];
	const struct taut_graph *graph = page->report->graph;
	const struct tauti_page_rank *r = &page->ranks[i];
	int64_t members = page->members.begin[i + 1] - page->members.begin[i];

	put_int(put, first, "rank", t->rank);
	put_string(put, first, "host",
		page->report->hosts ? page->report->hosts[i] : t->host);
	put_string(put, first, "path", t->path);
	put_string(put, first, "format", t->format);
	put_int(put, first, "events", (int64_t)t->n_events);
	put_int(put, first, "hidden", (int64_t)r->hidden);
	put_int(put, first, "hidden_device", (int64_t)r->hidden_device);
	put_int(put, first, "lost", (int64_t)t->events_lost);
	put_int(put, first, "truncated", t->truncated);
	put_int(put, first, "members", members);
	put_int(put, first, "main", main_lane(graph, i));
	put_int(put, first, "unit_ns", r->unit_ns);
	put_int(put, first, "first_ns", taut_graph_time(graph, i, r->first_ns));
	put_real(put, first, "drift_ppm", graph->clocks[i].drift_ppm);
	key(put, first, "lanes");
	put_lanes(page, i, put);
}

static void step_row(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first)
{
	const struct taut_report_step *s = &page->report->steps[i];

	put_int(put, first, "rank", s->rank);
	put_int(put, first, "id", s->id);
	put_int(put, first, "start_ns", s->start_ns);
	put_int(put, first, "measured_ns", s->measured_ns);
	put_int(put, first, "replayed_ns", s->replayed_ns);
	put_int(put, first, "overlapped_ns", s->overlapped_ns);
	put_ints(put, first, "ns", s->ns, TAUT_CATEGORIES);
}

static void span_row(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first)
{
	const struct taut_report_span *s = &page->report->spans[i];

	put_int(put, first, "rank", s->rank);
	put_int(put, first, "span_ns", s->span_ns);
	put_int(put, first, "compute_ns", s->compute_ns);
	put_int(put, first, "non_compute_ns", s->non_compute_ns);
	put_int(put, first, "idle_ns", s->idle_ns);
	put_real(put, first, "overlap_pct", s->overlap_pct);
}

static void clock_row(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first)
{
	const struct taut_report_clock *c = &page->report->clocks[i];

	put_string(put, first, "host", c->host);
	put_real(put, first, "offset_us", c->offset_us);
	put_real(put, first, "drift_ppm", c->drift_ppm);
	put_real(put, first, "uncertainty_us", c->uncertainty_us);
	put_int(put, first, "samples", c->samples);
}

static void coll_row(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first)
{
	const struct taut_report_coll *c = &page->report->colls[i];

	put_string(put, first, "name", c->name);
	put_string(put, first, "group", c->group);
	put_string(put, first, "kernel", c->kernel);
	put_int(put, first, "group_size", c->group_size);
	put_int(put, first, "count", (int64_t)c->count);
	put_int(put, first, "bytes", c->bytes);
	put_int(put, first, "transfer_ns", c->transfer_ns);
	put_int(put, first, "wait_ns", c->wait_ns);
	put_real(put, first, "busbw_gbs", c->busbw_gbs);
}

static void late_row(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first)
{
	const struct taut_report_late *l = &page->report->late[i];

	put_int(put, first, "rank", l->rank);
	put_int(put, first, "last_arrivals", l->last_arrivals);
	put_int(put, first, "wait_ns", l->wait_ns);
	put_int(put, first, "caused_ns", l->caused_ns);
	put_ints(put, first, "excess_ns", l->excess_ns, TAUT_CATEGORIES);
	put_int(put, first, "cause", l->cause);
	put_string(put, first, "cause_op", l->cause_op);
	put_int(put, first, "cause_op_ns", l->cause_op_ns);
	put_string(put, first, "cause_module", l->cause_module);
}

static void share_row(
	const struct taut_report_share *s, struct tauti_put *put, bool *first)
{
	put_string(put, first, "name", s->name);
	put_int(put, first, "category", s->category);
	put_int(put, first, "count", (int64_t)s->count);
	put_int(put, first, "ns", s->ns);
}

static void path_op_row(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first)
{
	share_row(&page->report->path_ops[i], put, first);
}

static void path_module_row(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first)
{
	share_row(&page->report->path_modules[i], put, first);
}

static void removal_row(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first)
{
	const struct taut_report_removal *r = &page->report->removals[i];

	put_string(put, first, "id", r->id);
	put_string(put, first, "title", r->title);
	put_int(put, first, "step_ns", r->step_ns);
	put_int(put, first, "saved_ns", r->saved_ns);
}

static void finding_row(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first)
{
	const struct taut_report_finding *f = &page->report->findings[i];

	put_string(put, first, "id", f->id);
	put_string(put, first, "text", f->text);
	put_string(put, first, "evidence", f->evidence);
	put_int(put, first, "cost_ns", f->cost_ns);
	put_int(put, first, "at_rank", f->at_rank);
	put_int(put, first, "at_start_ns", f->at_start_ns);
	put_int(put, first, "at_end_ns", f->at_end_ns);
	key(put, first, "ranks");
	tauti_put_ranks(put, f->ranks, f->n_ranks);
}

static void kind_row(const struct tauti_page *page, uint32_t i,
	struct tauti_put *put, bool *first)
{
	(void)page;
	put_string(put, first, "name",
		taut_coll_kind_name((enum taut_coll_kind)i));
}

static void put_notes(
	const struct tauti_page *page, struct tauti_put *put, bool *first)
{
	key(put, first, "notes");
	tauti_put_char(put, '[');
	for (uint32_t i = 0; i < page->report->n_notes; i++) {
		if (i)
			tauti_put_char(put, ',');
		tauti_put_string(put, page->report->notes[i]);
	}
	tauti_put_char(put, ']');
}

static void put_collectives(
	const struct tauti_page *page, struct tauti_put *put, bool *first)
{
	const struct taut_report *r = page->report;

	put_int(put, first, "coll_count", (int64_t)r->coll_count);
	put_int(put, first, "coll_complete", (int64_t)r->coll_complete);
	put_int(put, first, "coll_transfer_ns", r->coll_transfer_ns);
	put_ints(put, first, "coll_wait_ns", r->coll_wait_ns,
		r->coll_wait_ns ? r->n_ranks : 0);
	key(put, first, "coll_last_arrivals");
	tauti_put_char(put, '[');
	for (uint32_t i = 0; r->coll_last_arrivals && i < r->n_ranks; i++) {
		if (i)
			tauti_put_char(put, ',');
		tauti_put_int(put, r->coll_last_arrivals[i]);
	}
	tauti_put_char(put, ']');
	put_table(page, put, first, "colls", r->n_colls, coll_row);
	put_table(page, put, first, "coll_kinds", TAUT_COLL_KINDS, kind_row);
}

static void put_counts(
	const struct tauti_page *page, struct tauti_put *put, bool *first)
{
	const struct taut_report *r = page->report;
	const struct taut_graph *g = r->graph;

	put_string(put, first, "version", taut_version());
	put_string(put, first, "run", r->run->path);
	put_int(put, first, "min_ns", page->min_ns);
	put_int(put, first, "device_min_ns", page->device_min_ns);
	put_int(put, first, "n_names", page->names.n);
	put_int(put, first, "n_path", r->n_path);
	put_int(put, first, "n_collectives", g->n_collectives);
	put_int(put, first, "n_ops", g->n_ops);
	put_int(put, first, "n_edges", g->n_edges);
	put_int(put, first, "n_backward", g->n_backward);
	put_int(put, first, "steady_ns", r->steady_ns);
	put_int(put, first, "base_ns", tauti_text_base_step(r));
	put_int(put, first, "replay_steady_ns", r->replay_steady_ns);
	put_real(put, first, "replay_error_pct_max", r->replay_error_pct_max);
	put_real(put, first, "replay_error_pct_mean", r->replay_error_pct_mean);
	put_real(put, first, "unexplained_pct", r->unexplained_pct);
	put_ints(put, first, "path_ns", r->path_ns, TAUT_CATEGORIES);
}

void tauti_page_json(const struct tauti_page *page, struct tauti_put *put)
{
	const struct taut_report *r = page->report;
	bool first = true;

	tauti_put_char(put, '{');
	put_counts(page, put, &first);
	put_table(
		page, put, &first, "categories", TAUT_CATEGORIES, category_row);
	put_table(page, put, &first, "ranks", r->run->n_traces, rank_row);
	put_table(page, put, &first, "steps", r->n_steps, step_row);
	put_table(page, put, &first, "spans", r->n_spans, span_row);
	put_table(page, put, &first, "clocks", r->n_clocks, clock_row);
	put_collectives(page, put, &first);
	put_table(page, put, &first, "late", r->n_late, late_row);
	put_table(page, put, &first, "path_ops", r->n_path_ops, path_op_row);
	put_table(page, put, &first, "path_modules", r->n_path_modules,
		path_module_row);
	put_table(page, put, &first, "removals", r->n_removals, removal_row);
	put_table(page, put, &first, "findings", r->n_findings, finding_row);
	put_notes(page, put, &first);
	tauti_put_char(put, '}');
}
