/* tuned_out.c - see tuned_out.h. */
#include "report/tuned_out.h"

#include <inttypes.h>

#include "report/fields.h"
#include "report/sheet.h"

static const char *ms(struct tauti_sheet *sheet, int64_t ns)
{
	return ns > 0 ? tauti_sheet_text(sheet, "%.1f", (double)ns / 1e6) : "";
}

static void put_runs(
	struct tauti_sheet *sheet, const struct tauti_tuned_view *v)
{
	static const struct tauti_column columns[] = {
		{ "run", TAUTI_LEFT, true },
		{ "predicted", TAUTI_RIGHT, false },
		{ "measured", TAUTI_RIGHT, false },
		{ "off, %", TAUTI_RIGHT, false },
	};
	struct tauti_table table;

	tauti_sheet_heading(sheet, "Runs of the job", "ms a step");
	tauti_table_begin(
		&table, sheet, columns, sizeof columns / sizeof *columns);
	for (uint32_t i = 0; i < v->n_runs; i++) {
		const struct tauti_tuned_run *r = &v->runs[i];

		tauti_table_cell(&table, r->what, TAUTI_PLAIN);
		tauti_table_cell(
			&table, ms(sheet, r->predicted_ns), TAUTI_PLAIN);
		tauti_table_cell(
			&table, ms(sheet, r->measured_ns), TAUTI_PLAIN);
		tauti_table_cell(&table, r->predicted_ns > 0 ?
			tauti_sheet_text(sheet, "%+.1f", 100 *
				((double)r->measured_ns /
				(double)r->predicted_ns - 1)) : "",
			TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

static void put_kept(
	struct tauti_sheet *sheet, const struct tauti_tuned_view *v)
{
	if (!v->kept->n_decisions) {
		tauti_sheet_blank(sheet);
		tauti_sheet_wrap(sheet, "", "No change is borne out by what was "
			"measured: the job stays as it is.", TAUTI_PLAIN);
		return;
	}
	tauti_sheet_heading(sheet, "What stays", tauti_sheet_text(sheet,
		"%s ms a step instead of %s, %.2f times as fast",
		ms(sheet, v->after_ns), ms(sheet, v->before_ns),
		(double)v->before_ns / (double)v->after_ns));
	for (uint32_t i = 0; i < v->kept->n_decisions; i++)
		tauti_sheet_wrap(sheet, "  ", v->kept->decisions[i].change,
			TAUTI_PLAIN);
	tauti_sheet_blank(sheet);
	tauti_sheet_wrap(sheet, "", tauti_sheet_text(
		sheet, "taut run --plan %s -- COMMAND...", v->path),
		TAUTI_BOLD);
}

taut_status tauti_tuned_text(const struct tauti_tuned_view *view,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr)
{
	struct tauti_sheet sheet;
	taut_status status = tauti_sheet_begin(
		&sheet, out, options->width, options->colour, reterr);

	if (status)
		return status;
	put_runs(&sheet, view);
	put_kept(&sheet, view);
	return tauti_sheet_end(&sheet, reterr);
}

taut_status tauti_tuned_json(const struct tauti_tuned_view *view, FILE *out,
	struct taut_error *reterr)
{
	struct tauti_put put;

	tauti_put_begin(&put, out);
	tauti_put_text(&put, "{\"version\":");
	tauti_put_string(&put, taut_version());
	tauti_field_text(&put, "plan", view->path);
	tauti_field_ms(&put, "before_ms", view->before_ns);
	tauti_field_ms(&put, "after_ms", view->after_ns);
	tauti_field_section(&put, "decisions", "[");
	for (uint32_t i = 0; i < view->kept->n_decisions; i++) {
		tauti_field_row_text(&put, i, "change",
			view->kept->decisions[i].change);
		tauti_put_char(&put, '}');
	}
	tauti_put_char(&put, ']');
	tauti_field_section(&put, "runs", "[");
	for (uint32_t i = 0; i < view->n_runs; i++) {
		const struct tauti_tuned_run *r = &view->runs[i];

		tauti_field_row_text(&put, i, "run", r->what);
		tauti_field_texts(&put, "changes", r->changes, r->n_changes);
		tauti_field_ms(&put, "predicted_ms", r->predicted_ns);
		tauti_field_ms(&put, "measured_ms", r->measured_ns);
		tauti_field_ms(&put, "error_ms", r->error_ns);
		tauti_field_ms(&put, "median_ms", r->median_ns);
		tauti_put_char(&put, '}');
	}
	tauti_put_text(&put, "]}\n");
	return tauti_put_end(&put, reterr);
}
