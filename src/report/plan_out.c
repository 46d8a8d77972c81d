/* plan_out.c - see plan_out.h. */
#include "report/plan_out.h"

#include <inttypes.h>
#include <string.h>

#include "report/fields.h"
#include "report/number.h"
#include "report/sheet.h"

enum { SHOWN_POINTS = 12 };

/* --- text ------------------------------------------------------------------------ */

static const char *ms(struct tauti_sheet *sheet, int64_t ns)
{
	return tauti_sheet_text(sheet, "%.1f", (double)ns / 1e6);
}

static const char *times(
	struct tauti_sheet *sheet, int64_t before_ns, int64_t after_ns)
{
	return tauti_sheet_text(sheet, "%.2f", after_ns > 0 ?
		(double)before_ns / (double)after_ns : 0);
}

static const char *bytes(struct tauti_sheet *sheet, int64_t n)
{
	char text[TAUTI_NUMBER_BYTES];

	return n < 0 ? "" : tauti_sheet_text(
		sheet, "%s", tauti_number_bytes((uint64_t)n, text));
}

static const char *many(struct tauti_sheet *sheet, uint32_t n, const char *what)
{
	return tauti_sheet_text(sheet, "%" PRIu32 " %s%s", n, what,
		n == 1 ? "" : "s");
}

static void put_job(
	struct tauti_sheet *sheet, const struct tauti_plan_view *v)
{
	const struct taut_plan_job *job = &v->planned->plan->job;
	const char *text = v->path;
	int64_t sum = 0;

	for (size_t i = 0; i < v->n_given; i++)
		text = tauti_sheet_text(sheet, "%s %s", text, v->given[i]);
	tauti_sheet_wrap(sheet, "", text, TAUTI_BOLD);
	for (uint32_t i = 0; i < job->n_gradients; i++)
		sum += job->gradient_bytes[i];
	text = tauti_sheet_text(sheet, "%s on %s",
		many(sheet, job->n_ranks, "rank"),
		many(sheet, job->n_hosts, "host"));
	if (job->n_gradients)
		text = tauti_sheet_text(sheet, "%s, %s of %s in a step", text,
			many(sheet, job->n_gradients, "gradient"),
			bytes(sheet, sum));
	tauti_sheet_line(sheet, text);
}

static void put_result(
	struct tauti_sheet *sheet, const struct tauti_plan_view *v)
{
	const struct taut_plan *p = v->planned->plan;
	const char *text = "No change that was tried makes a step shorter.";

	if (p->n_decisions)
		text = tauti_sheet_text(sheet, "A step of %s ms would take %s "
			"ms (%s to %s), %s times as fast.",
			ms(sheet, p->before_ns), ms(sheet, p->after_ns),
			ms(sheet, p->low_ns), ms(sheet, p->high_ns),
			times(sheet, p->before_ns, p->after_ns));
	text = tauti_sheet_text(sheet, "%s %" PRIu64 " stacks of changes were "
		"replayed in %.1f s.", text, v->planned->n_predicted,
		v->planned->seconds);
	if (p->memory_before >= 0 && p->memory_after >= 0)
		text = tauti_sheet_text(sheet, "%s Peak memory %s, then %s.",
			text, bytes(sheet, p->memory_before),
			bytes(sheet, p->memory_after));
	tauti_sheet_wrap(sheet, "", text, TAUTI_PLAIN);
}

static void put_decisions(
	struct tauti_sheet *sheet, const struct tauti_plan_view *v)
{
	static const struct tauti_column columns[] = {
		{ "change", TAUTI_LEFT, false }, { "results", TAUTI_LEFT, false },
		{ "without", TAUTI_RIGHT, false },
	};
	const struct taut_plan *p = v->planned->plan;
	struct tauti_table table;

	if (!p->n_decisions)
		return;
	tauti_sheet_heading(sheet, "The plan", "what becomes of results; ms a "
		"step without that decision");
	tauti_table_begin(
		&table, sheet, columns, sizeof columns / sizeof *columns);
	for (uint32_t i = 0; i < p->n_decisions; i++) {
		const struct taut_decision *d = &p->decisions[i];

		tauti_table_cell(&table, tauti_sheet_name(
			sheet, d->change, sheet->width - 24), TAUTI_PLAIN);
		tauti_table_cell(&table, taut_numerics_name(d->numerics),
			TAUTI_PLAIN);
		tauti_table_cell(&table, d->without_ns < 0 ? "" :
			ms(sheet, d->without_ns), TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

static void put_passes(
	struct tauti_sheet *sheet, const struct tauti_plan_view *v)
{
	static const struct tauti_column columns[] = {
		{ "decision", TAUTI_LEFT, false }, { "ms", TAUTI_RIGHT, false },
		{ "x", TAUTI_RIGHT, false },
	};
	struct tauti_table table;

	if (!v->planned->n_passes)
		return;
	tauti_sheet_heading(sheet, "Each alone", "ms a step with the best of "
		"its values, times as fast");
	tauti_table_begin(
		&table, sheet, columns, sizeof columns / sizeof *columns);
	for (uint32_t i = 0; i < v->planned->n_passes; i++) {
		const struct taut_plan_pass *pass = &v->planned->passes[i];

		tauti_table_cell(&table, pass->name, TAUTI_PLAIN);
		tauti_table_cell(
			&table, ms(sheet, pass->step_ns), TAUTI_PLAIN);
		tauti_table_cell(&table, times(sheet,
			v->planned->plan->before_ns, pass->step_ns),
			TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

static const char *joined(
	struct tauti_sheet *sheet, const struct taut_plan_point *point)
{
	const char *text = point->n_changes ? "" : "as it is";

	for (uint32_t i = 0; i < point->n_changes; i++)
		text = tauti_sheet_text(sheet, "%s%s%s", text, i ? " " : "",
			point->changes[i]);
	return text;
}

static void put_points(
	struct tauti_sheet *sheet, const struct tauti_plan_view *v)
{
	static const struct tauti_column columns[] = {
		{ "ms", TAUTI_RIGHT, false }, { "memory", TAUTI_RIGHT, false },
		{ "network", TAUTI_RIGHT, false },
		{ "changes", TAUTI_LEFT, true },
	};
	struct tauti_table table;
	uint32_t n = v->planned->n_points;

	if (n < 2)
		return;
	tauti_sheet_heading(sheet, "The frontier", "no other stack is faster "
		"with as little memory and as few bytes");
	tauti_table_begin(
		&table, sheet, columns, sizeof columns / sizeof *columns);
	for (uint32_t i = 0; i < n && i < SHOWN_POINTS; i++) {
		const struct taut_plan_point *p = &v->planned->points[i];

		tauti_table_cell(&table, ms(sheet, p->step_ns), TAUTI_PLAIN);
		tauti_table_cell(
			&table, bytes(sheet, p->memory_bytes), TAUTI_PLAIN);
		tauti_table_cell(
			&table, bytes(sheet, p->network_bytes), TAUTI_PLAIN);
		tauti_table_cell(&table, joined(sheet, p), TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

taut_status tauti_plan_text(const struct tauti_plan_view *view,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr)
{
	struct tauti_sheet sheet;
	taut_status status = tauti_sheet_begin(
		&sheet, out, options->width, options->colour, reterr);

	if (status)
		return status;
	put_job(&sheet, view);
	put_result(&sheet, view);
	put_decisions(&sheet, view);
	put_passes(&sheet, view);
	put_points(&sheet, view);
	if (view->planned->n_notes)
		tauti_sheet_heading(&sheet, "Not tried", "");
	for (uint32_t i = 0; i < view->planned->n_notes; i++)
		tauti_sheet_wrap(
			&sheet, "  ", view->planned->notes[i], TAUTI_PLAIN);
	return tauti_sheet_end(&sheet, reterr);
}

/* --- JSON ------------------------------------------------------------------------- */

static void put_plan(struct tauti_put *put, const struct taut_plan *p)
{
	tauti_field_ms(put, "before_ms", p->before_ns);
	tauti_field_ms(put, "after_ms", p->after_ns);
	tauti_field_ms(put, "low_ms", p->low_ns);
	tauti_field_ms(put, "high_ms", p->high_ns);
	tauti_field_known(put, "memory_before_bytes", p->memory_before);
	tauti_field_known(put, "memory_after_bytes", p->memory_after);
	tauti_field_known(put, "network_before_bytes", p->network_before);
	tauti_field_known(put, "network_after_bytes", p->network_after);
	tauti_field_section(put, "decisions", "[");
	for (uint32_t i = 0; i < p->n_decisions; i++) {
		const struct taut_decision *d = &p->decisions[i];

		tauti_field_row_text(put, i, "change", d->change);
		tauti_field_text(
			put, "numerics", taut_numerics_name(d->numerics));
		if (d->without_ns >= 0)
			tauti_field_ms(put, "without_ms", d->without_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_seen(struct tauti_put *put, const struct taut_planned *planned)
{
	tauti_field_section(put, "alone", "[");
	for (uint32_t i = 0; i < planned->n_passes; i++) {
		tauti_field_row_text(
			put, i, "decision", planned->passes[i].name);
		tauti_field_ms(put, "after_ms", planned->passes[i].step_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
	tauti_field_section(put, "frontier", "[");
	for (uint32_t i = 0; i < planned->n_points; i++) {
		const struct taut_plan_point *p = &planned->points[i];

		tauti_field_row(put, i);
		tauti_put_key(put, "point");
		tauti_put_int(put, i);
		tauti_field_ms(put, "after_ms", p->step_ns);
		tauti_field_known(put, "memory_bytes", p->memory_bytes);
		tauti_field_known(put, "network_bytes", p->network_bytes);
		tauti_field_texts(put, "changes", p->changes, p->n_changes);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

taut_status tauti_plan_json(const struct tauti_plan_view *view, FILE *out,
	struct taut_error *reterr)
{
	const struct taut_planned *planned = view->planned;
	const struct taut_plan_job *job = &planned->plan->job;
	struct tauti_put put;

	tauti_put_begin(&put, out);
	tauti_put_text(&put, "{\"version\":");
	tauti_put_string(&put, taut_version());
	tauti_field_text(&put, "run", view->path);
	tauti_field_texts(&put, "given", view->given, view->n_given);
	tauti_field_integer(&put, "ranks", job->n_ranks);
	tauti_field_integer(&put, "hosts", job->n_hosts);
	tauti_field_integer(&put, "gradients", job->n_gradients);
	tauti_field_text(&put, "allow", taut_numerics_name(planned->plan->allow));
	put_plan(&put, planned->plan);
	put_seen(&put, planned);
	tauti_field_texts(&put, "not_tried", planned->notes, planned->n_notes);
	tauti_field_integer(&put, "replayed", (int64_t)planned->n_predicted);
	tauti_field_real(&put, "search_s", planned->seconds);
	tauti_put_text(&put, "}\n");
	return tauti_put_end(&put, reterr);
}
