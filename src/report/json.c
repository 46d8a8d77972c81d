/* json.c - the whole report as one JSON object; docs/report.md has the keys.
 * Keys are stable and carry their units. Milliseconds have all six decimals,
 * so what adds up in nanoseconds adds up here. What is not known is null. */
#include <taut/report.h>

#include "report/fields.h"
#include "report/names.h"
#include "report/number.h"
#include "report/tables.h"

static void rank(struct tauti_put *put, int32_t value)
{
	tauti_put_text(put, "\"rank\":");
	tauti_put_int(put, value);
}

static void category(struct tauti_put *put, enum taut_category c)
{
	tauti_field_text(put, "category", taut_category_key(c));
}

static void categories(
	struct tauti_put *put, const int64_t ns[TAUT_CATEGORIES])
{
	char number[TAUTI_NUMBER_BYTES];

	for (int c = 0; c < TAUT_CATEGORIES; c++) {
		tauti_put_char(put, c ? ',' : '{');
		tauti_put_key(put, taut_category_key((enum taut_category)c));
		tauti_put_text(put, tauti_number_ms(ns[c], 6, number));
	}
	tauti_put_char(put, '}');
}

/* --- the sections, in the order in which they are written --------------------*/

static void put_head(struct tauti_put *put, const struct taut_report *r)
{
	tauti_put_text(put, "{\"version\":");
	tauti_put_string(put, taut_version());
	tauti_field_text(put, "run", r->run ? r->run->path : "");
	tauti_field_integer(put, "ranks", r->n_ranks);
	tauti_field_key(put, "rank_ids");
	tauti_put_ranks(put, r->ranks, r->n_ranks);
	tauti_field_key(put, "hosts");
	tauti_put_char(put, '[');
	for (uint32_t i = 0; r->hosts && i < r->n_ranks; i++) {
		if (i)
			tauti_put_char(put, ',');
		tauti_put_string(put, r->hosts[i]);
	}
	tauti_put_text(put, "]");
	tauti_field_ms(put, "steady_step_ms", r->steady_ns);
}

static void put_steps(struct tauti_put *put, const struct taut_report *r)
{
	tauti_field_section(put, "steps", "[");
	for (uint32_t i = 0; i < r->n_steps; i++) {
		const struct taut_report_step *s = &r->steps[i];

		tauti_field_row(put, i);
		rank(put, s->rank);
		tauti_field_integer(put, "step", s->id);
		tauti_field_ms(put, "start_ms", s->start_ns);
		tauti_field_ms(put, "measured_ms", s->measured_ns);
		tauti_field_ms(put, "replayed_ms", s->replayed_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_replay(struct tauti_put *put, const struct taut_report *r)
{
	char number[TAUTI_NUMBER_BYTES];

	tauti_field_section(put, "replay", "{\"steady_step_ms\":");
	tauti_put_text(put, tauti_number_ms(r->replay_steady_ns, 6, number));
	tauti_field_real(put, "error_pct_max", r->replay_error_pct_max);
	tauti_field_real(put, "error_pct_mean", r->replay_error_pct_mean);
	tauti_field_real(put, "unexplained_pct", r->unexplained_pct);
	tauti_put_char(put, '}');
}

static void put_clocks(struct tauti_put *put, const struct taut_report *r)
{
	tauti_field_section(put, "clock", "[");
	for (uint32_t i = 0; i < r->n_clocks; i++) {
		const struct taut_report_clock *c = &r->clocks[i];

		tauti_field_row(put, i);
		rank(put, r->ranks[i]);
		tauti_field_key(put, "host");
		tauti_put_string(put, c->host);
		tauti_field_real(put, "offset_us", c->offset_us);
		tauti_field_real(put, "drift_ppm", c->drift_ppm);
		tauti_field_real(put, "uncertainty_us", c->uncertainty_us);
		tauti_field_integer(put, "samples", c->samples);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
	tauti_field_section(put, "clock_origin_ns", "");
	tauti_put_int(put, r->graph ? r->graph->clock_origin_ns : 0);
}

static void put_breakdown(struct tauti_put *put, const struct taut_report *r)
{
	tauti_field_section(put, "breakdown", "[");
	for (uint32_t i = 0; i < r->n_steps; i++) {
		const struct taut_report_step *s = &r->steps[i];

		tauti_field_row(put, i);
		rank(put, s->rank);
		tauti_field_integer(put, "step", s->id);
		tauti_field_key(put, "ms");
		categories(put, s->ns);
		tauti_field_ms(put, "comm_overlapped_ms", s->overlapped_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_temporal(struct tauti_put *put, const struct taut_report *r)
{
	tauti_field_section(put, "temporal", "[");
	for (uint32_t i = 0; i < r->n_spans; i++) {
		const struct taut_report_span *s = &r->spans[i];

		tauti_field_row(put, i);
		rank(put, s->rank);
		tauti_field_ms(put, "kernel_span_ms", s->span_ns);
		tauti_field_ms(put, "compute_ms", s->compute_ns);
		tauti_field_ms(put, "non_compute_ms", s->non_compute_ns);
		tauti_field_ms(put, "idle_ms", s->idle_ns);
		tauti_field_real(put, "overlap_pct", s->overlap_pct);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_coll_kinds(struct tauti_put *put, const struct taut_report *r)
{
	char digits[TAUTI_NUMBER_BYTES];
	const char *number;

	tauti_field_key(put, "kinds");
	tauti_put_char(put, '[');
	for (uint32_t i = 0; i < r->n_colls; i++) {
		const struct taut_report_coll *c = &r->colls[i];

		tauti_field_row(put, i);
		tauti_put_key(put, "name");
		tauti_put_string(put, c->name);
		tauti_field_text(put, "group", c->group);
		tauti_field_known(put, "group_size", c->group_size);
		tauti_field_text(put, "kernel", c->kernel);
		tauti_field_integer(put, "count", (int64_t)c->count);
		tauti_field_known(put, "bytes", c->bytes);
		tauti_field_ms(put, "transfer_ms", c->transfer_ns);
		tauti_field_ms(put, "wait_ms", c->wait_ns);
		tauti_field_key(put, "bus_bandwidth_gb_per_s");
		number = c->busbw_gbs > 0 ?
			tauti_number_real(c->busbw_gbs, 6, digits) : NULL;
		tauti_put_text(put, number ? number : "null");
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_collectives(struct tauti_put *put, const struct taut_report *r)
{
	char number[TAUTI_NUMBER_BYTES];

	tauti_field_section(put, "collectives", "{\"count\":");
	tauti_put_int(put, (int64_t)r->coll_count);
	tauti_field_integer(put, "complete", (int64_t)r->coll_complete);
	tauti_field_ms(put, "transfer_ms", r->coll_transfer_ns);
	tauti_field_key(put, "wait_ms_by_rank");
	tauti_put_char(put, '[');
	for (uint32_t i = 0; r->coll_wait_ns && i < r->n_ranks; i++) {
		if (i)
			tauti_put_char(put, ',');
		tauti_put_text(put,
			tauti_number_ms(r->coll_wait_ns[i], 6, number));
	}
	tauti_put_char(put, ']');
	tauti_field_key(put, "last_arrivals_by_rank");
	tauti_put_char(put, '[');
	for (uint32_t i = 0; r->coll_last_arrivals && i < r->n_ranks; i++) {
		if (i)
			tauti_put_char(put, ',');
		tauti_put_int(put, r->coll_last_arrivals[i]);
	}
	tauti_put_char(put, ']');
	put_coll_kinds(put, r);
	tauti_put_char(put, '}');
}

static void put_links(struct tauti_put *put, const struct taut_report *r)
{
	tauti_field_section(put, "links", "[");
	for (uint32_t i = 0; i < r->n_links; i++) {
		const struct taut_report_link *l = &r->links[i];

		tauti_field_row(put, i);
		rank(put, l->rank);
		tauti_field_known(put, "peer", l->peer);
		tauti_field_text(put, "direction", l->sends ? "sent" : "received");
		tauti_field_integer(put, "chunks", (int64_t)l->chunks);
		tauti_field_integer(put, "bytes", l->bytes);
		tauti_field_ms(put, "gpu_late_ms", l->gpu_late_ns);
		tauti_field_ms(put, "peer_late_ms", l->peer_late_ns);
		tauti_field_ms(put, "network_ms", l->network_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_memory(struct tauti_put *put, const struct taut_report *r)
{
	tauti_field_section(put, "memory", "[");
	for (uint32_t i = 0; i < r->n_memory; i++) {
		const struct taut_report_memory *m = &r->memory[i];

		tauti_field_row(put, i);
		rank(put, m->rank);
		tauti_field_known(put, "device", m->device);
		tauti_field_integer(put, "measured_peak_bytes", m->measured_bytes);
		tauti_field_integer(put, "replayed_peak_bytes", m->replayed_bytes);
		tauti_field_integer(put, "base_bytes", m->base_bytes);
		tauti_field_integer(put, "events", (int64_t)m->events);
		tauti_field_text(put, "at_op", m->at_op);
		tauti_field_text(put, "at_module", m->at_module);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_late(struct tauti_put *put, const struct taut_report *r)
{
	tauti_field_section(put, "late", "[");
	for (uint32_t i = 0; i < r->n_late; i++) {
		const struct taut_report_late *l = &r->late[i];

		tauti_field_row(put, i);
		rank(put, l->rank);
		tauti_field_integer(put, "last_arrivals", l->last_arrivals);
		tauti_field_ms(put, "wait_ms", l->wait_ns);
		tauti_field_ms(put, "caused_ms", l->caused_ns);
		tauti_field_key(put, "excess_ms");
		categories(put, l->excess_ns);
		tauti_field_text(put, "cause", taut_category_key(l->cause));
		tauti_field_text(put, "cause_op", l->cause_op);
		tauti_field_ms(put, "cause_op_ms", l->cause_op_ns);
		tauti_field_text(put, "cause_module", l->cause_module);
		tauti_field_ms(put, "stall_ms", l->stall_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_stalls(struct tauti_put *put, const struct taut_report *r)
{
	tauti_field_section(put, "stalls", "{\"count\":");
	tauti_put_int(put, (int64_t)r->stall_count);
	tauti_field_ms(put, "ms", r->stall_ns);
	tauti_put_char(put, '}');
}

static void put_path(struct tauti_put *put, const struct taut_report *r)
{
	tauti_field_section(put, "critical_path", "[");
	for (uint32_t i = 0; i < r->n_path; i++) {
		const struct taut_report_segment *s = &r->path[i];

		tauti_field_row(put, i);
		rank(put, s->rank);
		tauti_field_text(put, "lane", s->lane);
		tauti_field_text(put, "name", s->name);
		tauti_field_text(put, "module", s->module);
		tauti_field_integer(put, "ops", s->n_ops);
		category(put, s->category);
		tauti_field_ms(put, "start_ms", s->start_ns);
		tauti_field_ms(put, "ms", s->dur_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
	tauti_field_section(put, "critical_path_ms", "");
	categories(put, r->path_ns);
}

static void put_shares(struct tauti_put *put, const char *name,
	const struct taut_report_share *shares, uint32_t n)
{
	tauti_field_section(put, name, "[");
	for (uint32_t i = 0; i < n; i++) {
		tauti_field_row(put, i);
		tauti_put_key(put, "name");
		tauti_put_string(put, shares[i].name);
		category(put, shares[i].category);
		tauti_field_integer(put, "count", (int64_t)shares[i].count);
		tauti_field_ms(put, "ms", shares[i].ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_removals(struct tauti_put *put, const struct taut_report *r)
{
	tauti_field_section(put, "removals", "[");
	for (uint32_t i = 0; i < r->n_removals; i++) {
		const struct taut_report_removal *gone = &r->removals[i];

		tauti_field_row(put, i);
		tauti_put_key(put, "id");
		tauti_put_string(put, gone->id);
		tauti_field_text(put, "title", gone->title);
		tauti_field_ms(put, "step_ms", gone->step_ns);
		tauti_field_ms(put, "saved_ms", gone->saved_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_finding(
	struct tauti_put *put, const struct taut_report_finding *f)
{
	tauti_put_key(put, "id");
	tauti_put_string(put, f->id);
	tauti_field_key(put, "ranks");
	tauti_put_ranks(put, f->ranks, f->n_ranks);
	tauti_field_ms(put, "cost_ms", f->cost_ns);
	tauti_field_text(put, "text", f->text);
	tauti_field_text(put, "evidence", f->evidence);
	tauti_field_key(put, "at");
	if (f->at_rank < 0) {
		tauti_put_text(put, "null");
		return;
	}
	tauti_put_char(put, '{');
	rank(put, f->at_rank);
	tauti_field_ms(put, "start_ms", f->at_start_ns);
	tauti_field_ms(put, "ms", f->at_end_ns - f->at_start_ns);
	tauti_put_char(put, '}');
}

static void put_findings(struct tauti_put *put, const struct taut_report *r)
{
	tauti_field_section(put, "findings", "[");
	for (uint32_t i = 0; i < r->n_findings; i++) {
		tauti_field_row(put, i);
		put_finding(put, &r->findings[i]);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

void tauti_json_graph(struct tauti_put *put, const struct taut_graph *g)
{
	tauti_put_text(put, "{\"operations\":");
	tauti_put_int(put, g->n_ops);
	tauti_field_integer(put, "lanes", g->n_lanes);
	tauti_field_key(put, "edges");
	for (unsigned kind = 0; kind < TAUT_EDGE_KINDS; kind++) {
		tauti_put_char(put, kind ? ',' : '{');
		tauti_put_key(put, tauti_edge_kind_key(kind));
		tauti_put_int(put, g->edges_of[kind]);
	}
	tauti_put_char(put, '}');
	tauti_field_integer(put, "backward_edges", g->n_backward);
	tauti_field_ms(put, "worst_backward_ms", g->worst_backward_ns);
	tauti_field_integer(put, "circular", g->n_circular);
	tauti_field_integer(put, "unmatched_collectives", g->n_unmatched);
	tauti_field_key(put, "first_mismatch");
	if (g->unmatched)
		tauti_put_string(put, g->unmatched);
	else
		tauti_put_text(put, "null");
	tauti_field_key(put, "groups_by_time");
	tauti_put_text(put, g->groups_by_time ? "true" : "false");
	tauti_field_integer(put, "launches_not_recorded", g->n_launches_cut);
	tauti_put_char(put, '}');
}

static void put_notes(struct tauti_put *put, const struct taut_report *r)
{
	tauti_field_section(put, "notes", "[");
	for (uint32_t i = 0; i < r->n_notes; i++) {
		tauti_put_text(put, i ? ",\n  " : "\n  ");
		tauti_put_string(put, r->notes[i]);
	}
	tauti_put_text(put, "]");
}

taut_status taut_report_json(
	const struct taut_report *report, FILE *out, struct taut_error *reterr)
{
	struct tauti_put put;

	tauti_put_begin(&put, out);
	put_head(&put, report);
	put_findings(&put, report);
	put_steps(&put, report);
	put_breakdown(&put, report);
	put_temporal(&put, report);
	put_collectives(&put, report);
	put_links(&put, report);
	put_memory(&put, report);
	put_late(&put, report);
	put_stalls(&put, report);
	put_removals(&put, report);
	put_path(&put, report);
	put_shares(&put, "critical_path_by_name", report->path_ops,
		report->n_path_ops);
	put_shares(&put, "critical_path_by_module", report->path_modules,
		report->n_path_modules);
	put_replay(&put, report);
	put_clocks(&put, report);
	if (report->graph) {
		tauti_field_section(&put, "graph", "");
		tauti_json_graph(&put, report->graph);
	}
	put_notes(&put, report);
	tauti_put_text(&put, "}\n");
	return tauti_put_end(&put, reterr);
}
