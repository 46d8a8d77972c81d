/* stragglers_out.c - what taut stragglers prints. */
#include <string.h>

#include "report/fields.h"
#include "report/number.h"
#include "report/tables.h"
#include "report/text.h"

enum { FEW = 12, FEW_STEPS = 8 };

static const struct {
	const char *key, *number_key, *title, *column;
} kinds[TAUT_STRAGGLER_BY] = {
	[TAUT_BY_STAGE] = { "by_stage", "stage", "By pipeline stage", "stage" },
	[TAUT_BY_REPLICA] = { "by_replica", "replica",
		"By replica (data parallel rank)", "replica" },
	[TAUT_BY_RANK] = { "by_rank", "rank", "By rank", "rank" },
	[TAUT_BY_TYPE] = { "by_type", "type", "By type of operation",
		"operation" },
};

static double ratio(int64_t a, int64_t b)
{
	return b > 0 ? (double)a / (double)b : 1;
}

/* --- text ---------------------------------------------------------------------- */

static const char *real(struct tauti_sheet *sheet, double value, int decimals)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(value, decimals, text);
	return tauti_sheet_text(sheet, "%s", number ? number : "unknown");
}

static const char *ms(struct tauti_sheet *sheet, int64_t ns)
{
	char text[TAUTI_NUMBER_BYTES];
	return tauti_sheet_text(sheet, "%s", tauti_number_ms(ns, 3, text));
}

static int64_t mean_of(const struct taut_stragglers *s, int which)
{
	int64_t sum = 0;
	for (uint32_t i = 0; i < s->n_steps; i++)
		sum += which == 0 ? s->steps[i].measured_ns : which == 1 ?
			s->steps[i].nodelay_ns : s->steps[i].ideal_ns;
	return s->n_steps ? sum / s->n_steps : 0;
}

static void say_summary(struct tauti_sheet *sheet,
	const struct taut_stragglers *s, const char *path)
{
	const char *shape = "";
	tauti_sheet_line(sheet, tauti_sheet_style(sheet, TAUTI_BOLD,
		tauti_sheet_name(sheet, path, sheet->width)));
	if (s->n_stages)
		shape = tauti_sheet_text(sheet, " (%u stages, %u replicas)",
			s->n_stages, s->n_replicas ? s->n_replicas : 1);
	tauti_sheet_wrap(sheet, "", tauti_sheet_text(sheet,
		"%u rank%s%s, %u step%s. With all workers alike a step would take "
		"%s ms, and takes %s ms without delays: slowdown %s. It was "
		"measured at %s ms: delays of launching add a factor of %s.",
		s->n_ranks, s->n_ranks == 1 ? "" : "s", shape, s->n_steps,
		s->n_steps == 1 ? "" : "s", ms(sheet, mean_of(s, 2)),
		ms(sheet, mean_of(s, 1)), real(sheet, s->slowdown, 4),
		ms(sheet, mean_of(s, 0)), real(sheet, s->launch_slowdown, 4)),
		TAUTI_PLAIN);
	tauti_sheet_blank(sheet);
	tauti_sheet_wrap(sheet, "", s->sentence, TAUTI_BOLD);
}

static void add_row(struct tauti_sheet *sheet, struct tauti_table *table,
	const struct taut_stragglers *s, const struct taut_straggler_row *row)
{
	int64_t sum = 0;
	for (uint32_t i = 0; i < s->n_steps; i++)
		sum += row->step_ns[i];
	tauti_table_cell(table, *row->name || row->number < 0 ? row->name :
		tauti_sheet_text(sheet, "%d", (int)row->number), TAUTI_PLAIN);
	tauti_table_cell(table, real(sheet, row->slowdown, 4), TAUTI_PLAIN);
	tauti_table_cell(table, ms(sheet, sum / s->n_steps), TAUTI_PLAIN);
}

static void say_table(struct tauti_sheet *sheet,
	const struct taut_stragglers *s, int by)
{
	const struct taut_straggler_table *t = &s->by[by];
	uint32_t shown = t->n > FEW ? FEW : t->n;
	const struct tauti_column heads[] = {
		{ kinds[by].column, by == TAUT_BY_TYPE ? TAUTI_LEFT :
			TAUTI_RIGHT, by == TAUT_BY_TYPE },
		{ "slowdown", TAUTI_RIGHT, false },
		{ "step ms", TAUTI_RIGHT, false } };
	struct tauti_table table;
	if (t->n < 2)
		return;
	tauti_sheet_heading(sheet, kinds[by].title,
		"only these as they were, all else as usual");
	tauti_table_begin(&table, sheet, heads, sizeof heads / sizeof *heads);
	for (uint32_t i = 0; i < shown; i++)
		add_row(sheet, &table, s, &t->rows[i]);
	tauti_table_end(&table);
	if (t->n + t->n_left_out > shown)
		tauti_sheet_line(sheet, tauti_sheet_style(sheet, TAUTI_DIM,
			tauti_sheet_text(sheet, "  %u more%s",
			t->n + t->n_left_out - shown,
			t->n_left_out ? "" : " in --json")));
}

/* The slowest steps: where durations vary by chance, these tell. */
static void say_steps(struct tauti_sheet *sheet, const struct taut_stragglers *s)
{
	static const struct tauti_column heads[] = {
		{ "step", TAUTI_RIGHT, false },
		{ "measured ms", TAUTI_RIGHT, false },
		{ "no delays", TAUTI_RIGHT, false },
		{ "ideal", TAUTI_RIGHT, false },
		{ "slowdown", TAUTI_RIGHT, false } };
	struct tauti_table table;
	uint32_t shown = s->n_steps > FEW_STEPS ? FEW_STEPS : s->n_steps;
	double last = 0;
	uint32_t last_step = TAUT_NONE;
	tauti_sheet_heading(sheet, "Steps", "the slowest first");
	tauti_table_begin(&table, sheet, heads, sizeof heads / sizeof *heads);
	for (uint32_t k = 0; k < shown; k++) {
		uint32_t best = TAUT_NONE;
		double most = 0;
		for (uint32_t i = 0; i < s->n_steps; i++) {
			double r = ratio(s->steps[i].nodelay_ns,
				s->steps[i].ideal_ns);
			bool before = k && (r > last ||
				(r == last && i <= last_step));
			if (!before && (best == TAUT_NONE || r > most)) {
				best = i;
				most = r;
			}
		}
		if (best == TAUT_NONE)
			break;
		last = most;
		last_step = best;
		tauti_table_cell(&table, tauti_sheet_text(sheet, "%lld",
			(long long)s->steps[best].id), TAUTI_PLAIN);
		tauti_table_cell(&table, ms(sheet,
			s->steps[best].measured_ns), TAUTI_PLAIN);
		tauti_table_cell(&table, ms(sheet, s->steps[best].nodelay_ns),
			TAUTI_PLAIN);
		tauti_table_cell(&table, ms(sheet, s->steps[best].ideal_ns),
			TAUTI_PLAIN);
		tauti_table_cell(&table, real(sheet, most, 4), TAUTI_PLAIN);
	}
	tauti_table_end(&table);
	if (s->n_steps > shown)
		tauti_sheet_line(sheet, tauti_sheet_style(sheet, TAUTI_DIM,
			tauti_sheet_text(sheet, "  %u more in --json",
			s->n_steps - shown)));
}

taut_status tauti_stragglers_text(const struct taut_stragglers *s,
	const char *path, const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr)
{
	struct tauti_sheet sheet;
	taut_status status = tauti_sheet_begin(&sheet, out,
		tauti_text_width(options), options && options->colour, reterr);
	if (status)
		return status;
	say_summary(&sheet, s, path);
	for (int by = 0; by < TAUT_STRAGGLER_BY; by++)
		say_table(&sheet, s, by);
	say_steps(&sheet, s);
	if (s->n_notes)
		tauti_sheet_heading(&sheet, "Notes", "");
	tauti_text_notes(&sheet, "  - ", s->notes, s->n_notes);
	return tauti_sheet_end(&sheet, reterr);
}

/* --- JSON --------------------------------------------------------------------------- */

static void put_row(struct tauti_put *put, const struct taut_stragglers *s,
	int by, uint32_t i, const struct taut_straggler_row *row)
{
	char text[TAUTI_NUMBER_BYTES];
	tauti_field_row(put, i);
	tauti_put_key(put, kinds[by].number_key);
	if (by == TAUT_BY_TYPE)
		tauti_put_string(put, row->name);
	else
		tauti_put_int(put, row->number);
	tauti_field_real(put, "slowdown", row->slowdown);
	tauti_field_key(put, "steps_ms");
	tauti_put_char(put, '[');
	for (uint32_t k = 0; k < s->n_steps; k++) {
		if (k)
			tauti_put_char(put, ',');
		tauti_put_text(put, tauti_number_ms(row->step_ns[k], 6, text));
	}
	tauti_put_text(put, "]}");
}

static void put_rows(struct tauti_put *put, const struct taut_stragglers *s,
	int by, const struct taut_straggler_row *rows)
{
	tauti_put_char(put, '[');
	for (uint32_t i = 0; rows && i < s->by[by].n; i++)
		put_row(put, s, by, i, &rows[i]);
	tauti_put_char(put, ']');
}

static void put_steps(struct tauti_put *put, const struct taut_stragglers *s)
{
	tauti_field_section(put, "steps", "[");
	for (uint32_t i = 0; i < s->n_steps; i++) {
		const struct taut_straggler_step *step = &s->steps[i];
		tauti_field_row(put, i);
		tauti_put_text(put, "\"step\":");
		tauti_put_int(put, step->id);
		tauti_field_ms(put, "measured_ms", step->measured_ns);
		tauti_field_ms(put, "nodelay_ms", step->nodelay_ns);
		tauti_field_ms(put, "ideal_ms", step->ideal_ns);
		tauti_field_real(put, "slowdown",
			ratio(step->nodelay_ns, step->ideal_ns));
		tauti_field_real(put, "launch_slowdown",
			ratio(step->measured_ns, step->nodelay_ns));
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_cause(struct tauti_put *put, const struct taut_stragglers *s)
{
	tauti_field_section(put, "cause", "{\"place\":");
	tauti_put_string(put, s->cause < TAUT_STRAGGLER_BY ?
		kinds[s->cause].number_key : "none");
	tauti_field_integer(put, "number", s->cause_number);
	tauti_field_real(put, "repair_pct", s->repair_pct);
	tauti_field_text(put, "sentence", s->sentence);
	tauti_put_char(put, '}');
}

taut_status tauti_stragglers_json(const struct taut_stragglers *s,
	const char *path, FILE *out, struct taut_error *reterr)
{
	struct tauti_put put;
	tauti_put_begin(&put, out);
	tauti_put_text(&put, "{\"version\":");
	tauti_put_string(&put, taut_version());
	tauti_field_text(&put, "run", path);
	tauti_field_integer(&put, "ranks", s->n_ranks);
	tauti_field_integer(&put, "stages", s->n_stages);
	tauti_field_integer(&put, "replicas", s->n_replicas);
	tauti_field_real(&put, "slowdown", s->slowdown);
	tauti_field_real(&put, "launch_slowdown", s->launch_slowdown);
	put_cause(&put, s);
	put_steps(&put, s);
	for (int by = 0; by < TAUT_STRAGGLER_BY; by++) {
		tauti_field_section(&put, kinds[by].key, "");
		put_rows(&put, s, by, s->by[by].rows);
	}
	tauti_field_section(&put, "delays", "{");
	for (int by = 0; by < TAUT_STRAGGLER_BY; by++) {
		tauti_put_text(&put, by ? ",\n" : "\n");
		tauti_put_key(&put, kinds[by].key);
		put_rows(&put, s, by, s->by[by].delays);
	}
	tauti_put_char(&put, '}');
	tauti_field_texts(&put, "notes", s->notes, s->n_notes);
	tauti_put_text(&put, "}\n");
	return tauti_put_end(&put, reterr);
}
