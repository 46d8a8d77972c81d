/* replay_out.c - what taut replay prints: how near the replay comes. */
#include <taut/report.h>

#include <stdlib.h>

#include "report/names.h"
#include "report/number.h"
#include "report/tables.h"
#include "report/text.h"

enum { FOLD_ABOVE = 32, WORST_SHOWN = 12 /* steps */ };

static double error_pct(const struct taut_report_step *s)
{
	if (s->measured_ns <= 0)
		return 0;
	return 100.0 * (double)(s->replayed_ns - s->measured_ns) /
		(double)s->measured_ns;
}

static double operations_per_second(const struct taut_report *r,
	const struct tauti_replay_speed *speed)
{
	if (!r->graph || speed->elapsed_ns <= 0)
		return 0;
	return (double)r->graph->n_ops * (double)speed->rounds * 1e9 /
		(double)speed->elapsed_ns;
}

/* --- text ------------------------------------------------------------------------*/

static const char *real(
	struct tauti_sheet *sheet, double value, int decimals, bool sign)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(value, decimals, text);

	return tauti_sheet_text(sheet, "%s%s", sign && value > 0 ? "+" : "",
		number ? number : "unknown");
}

static void add_step(const struct tauti_text *t, struct tauti_table *table,
	const struct taut_report_step *s)
{
	tauti_table_cell(table, tauti_sheet_text(t->sheet, "%d", s->rank),
		TAUTI_PLAIN);
	tauti_table_cell(table, tauti_sheet_text(t->sheet, "%lld",
		(long long)s->id), TAUTI_PLAIN);
	tauti_table_cell(table, tauti_text_ms(t, s->measured_ns), TAUTI_PLAIN);
	tauti_table_cell(table, tauti_text_ms(t, s->replayed_ns), TAUTI_PLAIN);
	tauti_table_cell(table, real(t->sheet, error_pct(s), 2, true),
		TAUTI_PLAIN);
}

static double distance(const struct taut_report_step *s)
{
	double pct = error_pct(s);

	return pct < 0 ? -pct : pct;
}

static int by_error(const void *a, const void *b)
{
	const struct taut_report_step *const *x = a, *const *y = b;

	if (distance(*x) != distance(*y))
		return distance(*x) > distance(*y) ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

static void say_steps(const struct tauti_text *t)
{
	static const struct tauti_column heads[] = {
		{ "rank", TAUTI_RIGHT, false }, { "step", TAUTI_RIGHT, false },
		{ "measured", TAUTI_RIGHT, false },
		{ "replayed", TAUTI_RIGHT, false },
		{ "error %", TAUTI_RIGHT, false } };
	const struct taut_report *r = t->report;
	const struct taut_report_step **order;
	uint32_t shown = r->n_steps > FOLD_ABOVE ? WORST_SHOWN : r->n_steps;
	struct tauti_table table;

	order = calloc(r->n_steps + 1, sizeof *order);
	if (!order) {
		t->sheet->failed = true;
		return;
	}
	for (uint32_t i = 0; i < r->n_steps; i++)
		order[i] = &r->steps[i];
	if (shown < r->n_steps)
		qsort(order, r->n_steps, sizeof *order, by_error);
	tauti_sheet_heading(t->sheet, "Steps", shown < r->n_steps ?
		"ms; the worst first" : "ms");
	tauti_table_begin(&table, t->sheet, heads,
		sizeof heads / sizeof heads[0]);
	for (uint32_t i = 0; i < shown; i++)
		add_step(t, &table, order[i]);
	tauti_table_end(&table);
	if (shown < r->n_steps)
		tauti_sheet_line(t->sheet, tauti_sheet_style(t->sheet,
			TAUTI_DIM, tauti_sheet_text(t->sheet,
			"  %u more, all nearer, in --json",
			r->n_steps - shown)));
	free(order);
}

static void say_graph(const struct tauti_text *t)
{
	static const struct tauti_column heads[] = {
		{ "waits", TAUTI_LEFT, false }, { "count", TAUTI_RIGHT, false },
		{ "", TAUTI_LEFT, false } };
	static const char *const meaning[TAUT_EDGE_KINDS] = {
		[TAUT_EDGE_LAUNCH] = "device work for the call that launched it",
		[TAUT_EDGE_SYNC] = "host call for device work",
		[TAUT_EDGE_STREAM] = "device work for another stream",
		[TAUT_EDGE_THREAD] = "host thread for another thread",
		[TAUT_EDGE_COMM] = "collective for its ranks",
		[TAUT_EDGE_START] = "where a lane's first operation hangs",
	};
	const struct taut_graph *g = t->report->graph;
	struct tauti_table table;

	tauti_sheet_heading(t->sheet, "Graph", tauti_sheet_text(t->sheet,
		"%s operations on %s lanes", tauti_text_count(t, g->n_ops),
		tauti_text_count(t, g->n_lanes)));
	tauti_table_begin(&table, t->sheet, heads, 3);
	for (unsigned kind = 0; kind < TAUT_EDGE_KINDS; kind++) {
		if (!g->edges_of[kind])
			continue;
		tauti_table_cell(&table, tauti_edge_kind_key(kind),
			TAUTI_PLAIN);
		tauti_table_cell(&table, tauti_text_count(t,
			g->edges_of[kind]), TAUTI_PLAIN);
		tauti_table_cell(&table, meaning[kind], TAUTI_DIM);
	}
	tauti_table_end(&table);
	tauti_sheet_line(t->sheet, g->n_backward ? tauti_sheet_text(t->sheet,
		"  %s run backward in time, by up to %s ms",
		tauti_text_count(t, g->n_backward), tauti_text_ms(t,
		g->worst_backward_ns)) : "  none runs backward in time");
}

static void say_summary(const struct tauti_text *t,
	const struct tauti_replay_speed *speed)
{
	const struct taut_report *r = t->report;

	tauti_sheet_line(t->sheet, tauti_sheet_style(t->sheet, TAUTI_BOLD,
		tauti_sheet_name(t->sheet, r->run && r->run->path ?
		r->run->path : "replay", t->sheet->width)));
	tauti_sheet_wrap(t->sheet, "", tauti_sheet_text(t->sheet,
		"Every step replays within %s %% of what was measured; %s %% "
		"of the step time is device idle that no recorded wait "
		"explains. %s million operations a second.",
		tauti_text_bound(t, r->replay_error_pct_max),
		real(t->sheet, r->unexplained_pct, 2, false),
		real(t->sheet, operations_per_second(r, speed) / 1e6, 1,
		false)), TAUTI_PLAIN);
}

taut_status tauti_replay_text(const struct taut_report *report,
	const struct tauti_replay_speed *speed,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr)
{
	struct tauti_sheet sheet;
	struct tauti_text t = { .report = report, .sheet = &sheet,
		.decimals = 3, .steps = 1, .step_ns = report->steady_ns };
	taut_status status = tauti_sheet_begin(&sheet, out,
		tauti_text_width(options), options && options->colour, reterr);

	if (status)
		return status;
	say_summary(&t, speed);
	if (report->n_steps)
		say_steps(&t);
	if (report->graph)
		say_graph(&t);
	return tauti_sheet_end(&sheet, reterr);
}

/* --- JSON --------------------------------------------------------------------------*/

static void key_real(struct tauti_put *put, const char *key, double value)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(value, 6, text);

	tauti_put_key(put, key);
	tauti_put_text(put, number ? number : "null");
}

static void put_step(struct tauti_put *put, const struct taut_report_step *s)
{
	char text[TAUTI_NUMBER_BYTES];

	tauti_put_text(put, "\n  {\"rank\":");
	tauti_put_int(put, s->rank);
	tauti_put_text(put, ",\"step\":");
	tauti_put_int(put, s->id);
	tauti_put_text(put, ",\"measured_ms\":");
	tauti_put_text(put, tauti_number_ms(s->measured_ns, 6, text));
	tauti_put_text(put, ",\"replayed_ms\":");
	tauti_put_text(put, tauti_number_ms(s->replayed_ns, 6, text));
	tauti_put_char(put, ',');
	key_real(put, "error_pct", error_pct(s));
	tauti_put_char(put, '}');
}

taut_status tauti_replay_json(const struct taut_report *report,
	const struct tauti_replay_speed *speed, FILE *out,
	struct taut_error *reterr)
{
	struct tauti_put put;

	tauti_put_begin(&put, out);
	tauti_put_text(&put, "{\"version\":");
	tauti_put_string(&put, taut_version());
	tauti_put_text(&put, ",\"run\":");
	tauti_put_string(&put, report->run ? report->run->path : "");
	tauti_put_text(&put, ",\"ranks\":");
	tauti_put_int(&put, report->n_ranks);
	tauti_put_text(&put, ",\n\"steps\":[");
	for (uint32_t i = 0; i < report->n_steps; i++) {
		if (i)
			tauti_put_char(&put, ',');
		put_step(&put, &report->steps[i]);
	}
	tauti_put_text(&put, "],\n\"replay\":{");
	key_real(&put, "error_pct_max", report->replay_error_pct_max);
	tauti_put_char(&put, ',');
	key_real(&put, "error_pct_mean", report->replay_error_pct_mean);
	tauti_put_char(&put, ',');
	key_real(&put, "unexplained_pct", report->unexplained_pct);
	tauti_put_char(&put, ',');
	key_real(&put, "operations_per_second",
		operations_per_second(report, speed));
	tauti_put_char(&put, '}');
	if (report->graph) {
		tauti_put_text(&put, ",\n\"graph\":");
		tauti_json_graph(&put, report->graph);
	}
	tauti_put_text(&put, "}\n");
	return tauti_put_end(&put, reterr);
}
