/* explain.c - from a graph to a report. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"

taut_status tauti_explain_no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for the report");
}

struct owned_report { /* what taut_report_destroy frees */
	struct taut_report report;
	struct taut_arena *arena;
};

static bool name_ranks(struct tauti_explain *x)
{
	const struct taut_run *run = x->g->run;
	int32_t *ranks = TAUT_ARENA_ARRAY(x->arena, int32_t, run->n_traces + 1);
	const char **hosts = TAUT_ARENA_ARRAY(x->arena, const char *,
		run->n_traces + 1);

	for (uint32_t i = 0; ranks && hosts && i < run->n_traces; i++) {
		ranks[i] = run->traces[i].rank;
		hosts[i] = run->traces[i].host ? run->traces[i].host : "";
	}
	x->report->n_ranks = run->n_traces;
	x->report->ranks = ranks;
	x->report->hosts = hosts;
	return ranks && hosts;
}

/* The host, with the rank where it has several, or the rank alone. */
static const char *host_label(struct tauti_explain *x, uint32_t rank)
{
	const struct taut_report *r = x->report;

	if (!*r->hosts[rank])
		return taut_arena_printf(x->arena, "rank %d", r->ranks[rank]);
	for (uint32_t i = 0; i < r->n_ranks; i++)
		if (i != rank && !strcmp(r->hosts[i], r->hosts[rank]))
			return taut_arena_printf(x->arena, "%s (rank %d)",
				r->hosts[rank], r->ranks[rank]);
	return r->hosts[rank];
}

static bool name_clocks(struct tauti_explain *x)
{
	struct taut_report *r = x->report;
	struct taut_report_clock *clocks = TAUT_ARENA_ARRAY(x->arena,
		struct taut_report_clock, r->n_ranks + 1);

	for (uint32_t i = 0; clocks && i < r->n_ranks; i++) {
		const struct taut_clock_row *c = &x->g->clocks[i];
		const char *name = host_label(x, i);

		if (!name)
			return false;
		clocks[i] = (struct taut_report_clock) { name, c->offset_us,
			c->drift_ppm, c->uncertainty_us, c->samples };
	}
	r->clocks = clocks;
	r->n_clocks = r->n_ranks;
	return clocks != NULL;
}

bool tauti_notes(const struct taut_graph *g, struct taut_arena *arena,
	const char *const **ret_notes, uint32_t *ret_n)
{
	const char **notes = TAUT_ARENA_ARRAY(arena, const char *,
		g->run->n_notes + 7);
	uint32_t n = 0;

	for (uint32_t i = 0; notes && i < g->run->n_notes; i++)
		notes[n++] = g->run->notes[i];
	if (notes && g->unmatched)
		notes[n++] = g->n_unmatched ? taut_arena_printf(arena,
			"%u communication operations are not matched across "
			"ranks: %s", g->n_unmatched, g->unmatched) :
			taut_arena_printf(arena, "some collectives lack "
			"ranks of their group: %s", g->unmatched);
	if (notes && g->by_order_alone)
		notes[n++] = "collectives are matched by their order alone, for "
			"they have no sequence numbers and the traces no steps: "
			"right only if all recordings begin at the same one";
	if (notes && g->groups_by_time)
		notes[n++] = "process groups are not named in the traces: ranks "
			"were grouped by when their collectives ran";
	if (notes && g->n_backward)
		notes[n++] = taut_arena_printf(arena,
			"%u waits run backward in time, by up to %.3f ms; they "
			"were shortened to fit", g->n_backward,
			(double)g->worst_backward_ns / 1e6);
	if (notes && g->n_circular)
		notes[n++] = taut_arena_printf(arena,
			"%u waits are left out: operations of one instant would "
			"wait for each other", g->n_circular);
	if (notes && g->n_apart)
		notes[n++] = taut_arena_printf(arena,
			"%u ranks have no operation with the others that would "
			"compare their clocks, and are more than an hour away: "
			"they are shown as if they began with the first",
			g->n_apart);
	if (notes && g->n_launches_cut)
		notes[n++] = taut_arena_printf(arena,
			"%u device operations have no recorded launch",
			g->n_launches_cut);
	for (uint32_t i = 0; i < n; i++)
		if (!notes[i])
			return false;
	*ret_notes = notes;
	*ret_n = n;
	return notes != NULL;
}

static taut_status explain(struct tauti_explain *x, struct taut_error *err)
{
	static taut_status (*const stages[])(struct tauti_explain *,
		struct taut_error *) = {
		tauti_facts_find, tauti_stalls_find, tauti_steps_split,
		tauti_colls_sum, tauti_wire_sum, tauti_memory_peaks,
		tauti_path_walk, tauti_late_find, tauti_removals_run,
		tauti_findings_say,
	};
	static const struct taut_replay_edit unordered = { .unordered = 1 };
	taut_status status = name_ranks(x) && name_clocks(x) && tauti_notes(
		x->g, x->arena, &x->report->notes, &x->report->n_notes) ?
		TAUT_OK : tauti_explain_no_memory(err);

	if (!status)
		status = taut_timeline_init(&x->base, x->g, err);
	if (!status)
		status = taut_replay(x->g, &unordered, &x->base, err);
	for (size_t i = 0; !status && i < sizeof stages / sizeof stages[0]; i++)
		status = stages[i](x, err);
	return status;
}

taut_status taut_explain(const struct taut_graph *graph,
	const struct taut_explain_options *options,
	struct taut_report **ret_report, struct taut_error *reterr)
{
	struct taut_arena *arena = taut_arena_create();
	struct owned_report *owned = arena ?
		TAUT_ARENA_ARRAY(arena, struct owned_report, 1) : NULL;
	struct tauti_explain x = { .g = graph, .arena = arena };
	taut_status status;

	if (!owned) {
		taut_arena_destroy(arena);
		return tauti_explain_no_memory(reterr);
	}
	owned->arena = arena;
	owned->report.run = graph->run;
	owned->report.graph = graph;
	x.report = &owned->report;
	x.threads = options ? options->threads : 0;
	status = explain(&x, reterr);
	tauti_facts_free(&x);
	taut_timeline_fini(&x.base);
	if (status) {
		taut_arena_destroy(arena);
		return status;
	}
	*ret_report = &owned->report;
	return TAUT_OK;
}

void taut_report_destroy(struct taut_report *report)
{
	if (report)
		taut_arena_destroy(((struct owned_report *)report)->arena);
}
