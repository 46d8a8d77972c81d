/* graph_text.h - all of a graph as text, so that two can be compared, or one
 * with what it was before. The caller frees it. */
#ifndef TAUT_TESTS_GRAPH_TEXT_H
#define TAUT_TESTS_GRAPH_TEXT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <taut/graph.h>

static inline void graph_text_ops(const struct taut_graph *g, FILE *out)
{
	for (uint32_t i = 0; i < g->n_ops; i++) {
		fprintf(out, "op %u: %" PRId64 " %" PRId64 " %" PRId64
			" lane %u name %u %d event %d coll %d\n", i,
			g->start_ns ? g->start_ns[i] : 0, g->dur_ns[i],
			g->gap_ns[i], g->lane[i], g->name[i], g->kind[i],
			g->event ? (int)g->event[i] : -1,
			g->collective ? (int)g->collective[i] : -1);
		for (uint32_t e = g->edge_begin[i]; e < g->edge_begin[i + 1];
			e++)
			fprintf(out, " %u: %u %" PRId64 " %d\n", e,
				g->edge_to[e], g->edge_lag_ns[e],
				g->edge_kind[e]);
	}
}

static inline void graph_text_colls(const struct taut_graph *g, FILE *out)
{
	for (uint32_t c = 0; c < g->n_collectives; c++) {
		const struct taut_collective *k = &g->collectives[c];

		fprintf(out, "coll %u: %d %u %u %d %" PRId64 " %" PRId64
			" first %u join %u:", c, k->kind, k->name, k->group,
			k->group_size, k->bytes, k->seq, k->first_member,
			k->join_op);
		for (uint32_t i = 0; i < k->n_members; i++)
			fprintf(out, " %u",
				g->member_arrive[k->first_member + i]);
		fprintf(out, "\n");
	}
}

static inline void graph_text_run(const struct taut_graph *g, FILE *out)
{
	for (uint32_t i = 0; g->run && i < g->run->n_traces; i++) {
		const struct taut_trace *t = &g->run->traces[i];

		fprintf(out, "trace %u: %s %s %s %d of %d, %zu at %p\n", i,
			t->path, t->host, t->clock, t->rank, t->world_size,
			t->n_events, (const void *)t->start_ns);
		if (g->clocks)
			fprintf(out, "clock %u %g %g %g %u\n",
				g->clocks[i].trace, g->clocks[i].offset_us,
				g->clocks[i].drift_ppm,
				g->clocks[i].uncertainty_us,
				g->clocks[i].samples);
	}
	fprintf(out, "left %u %" PRId64 " %u %u %s %d %d %u %" PRId64
		" %" PRId64 "\n", g->n_backward, g->worst_backward_ns,
		g->n_circular, g->n_unmatched,
		g->unmatched ? g->unmatched : "-", g->groups_by_time,
		g->by_order_alone, g->n_launches_cut, g->clock_origin_ns,
		g->origin_ns);
	for (uint32_t i = 0; i < taut_names_count(g->names); i++)
		fprintf(out, "name %u %s\n", i, taut_names_text(g->names, i));
}

static inline char *graph_text(const struct taut_graph *g)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		abort();
	fprintf(out, "%u ops %u edges %u lanes %u steps %u collectives\n",
		g->n_ops, g->n_edges, g->n_lanes, g->n_steps,
		g->n_collectives);
	graph_text_ops(g, out);
	for (uint32_t l = 0; l < g->n_lanes; l++)
		fprintf(out, "lane %u: %d %d %d %d %d from %u to %u\n", l,
			(int)g->lanes[l].trace, (int)g->lanes[l].trace_lane,
			g->lanes[l].kind, g->lanes[l].is_main,
			g->lanes[l].is_comm, g->lane_begin[l],
			g->lane_begin[l + 1]);
	for (uint32_t s = 0; s < g->n_steps; s++)
		fprintf(out, "step %u: %u %" PRId64 " %" PRId64 " %" PRId64
			" %u %u\n", s, g->steps[s].trace, g->steps[s].id,
			g->steps[s].start_ns, g->steps[s].end_ns,
			g->steps[s].begin_op, g->steps[s].end_op);
	graph_text_colls(g, out);
	graph_text_run(g, out);
	fclose(out);
	return text;
}

#endif /* TAUT_TESTS_GRAPH_TEXT_H */
