/* whatif_json.c - taut whatif for machines: predictions, sweeps, the list of
 * changes. docs/whatif.md explains every key. */
#include <math.h>

#include "explain/compare.h"
#include "report/number.h"
#include "report/put.h"
#include "report/whatif.h"

static void key(struct tauti_put *put, const char *name)
{
	tauti_put_text(put, ",\n");
	tauti_put_key(put, name);
}

static void field(struct tauti_put *put, const char *name, bool first)
{
	if (!first)
		tauti_put_char(put, ',');
	tauti_put_key(put, name);
}

static void ms(struct tauti_put *put, int64_t ns)
{
	char text[TAUTI_NUMBER_BYTES];

	tauti_put_text(put, tauti_number_ms(ns, 6, text));
}

static void real(struct tauti_put *put, double value)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(value, 6, text);

	tauti_put_text(put, number ? number : "null");
}

static void known(struct tauti_put *put, int64_t value)
{
	if (value < 0)
		tauti_put_text(put, "null");
	else
		tauti_put_int(put, value);
}

static void texts(
	struct tauti_put *put, const char *const *all, size_t n)
{
	tauti_put_char(put, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			tauti_put_char(put, ',');
		tauti_put_string(put, all[i]);
	}
	tauti_put_char(put, ']');
}

static void put_head(struct tauti_put *put, const struct taut_report *before,
	const char *const *changes, size_t n)
{
	tauti_put_text(put, "{\"version\":");
	tauti_put_string(put, taut_version());
	key(put, "run");
	tauti_put_string(put, before->run ? before->run->path : "");
	key(put, "changes");
	texts(put, changes, n);
}

static double speed_up(
	int64_t before_ns, int64_t after_ns, double samples_factor)
{
	return after_ns > 0 ?
		samples_factor * (double)before_ns / (double)after_ns : NAN;
}

/* --- a prediction ------------------------------------------------------------------ */

static void put_answer(
	struct tauti_put *put, const struct taut_prediction *p)
{
	key(put, "before_ms");
	ms(put, p->before_ns);
	key(put, "recorded_ms");
	ms(put, p->recorded_ns);
	key(put, "recorder_us_an_event");
	real(put, p->recorder_ns / 1e3);
	key(put, "after_ms");
	ms(put, p->after_ns);
	key(put, "low_ms");
	ms(put, p->low_ns);
	key(put, "high_ms");
	ms(put, p->high_ns);
	key(put, "samples_factor");
	real(put, p->samples_factor);
	key(put, "speedup");
	real(put, speed_up(p->before_ns, p->after_ns, p->samples_factor));
	key(put, "memory_before_bytes");
	known(put, p->memory_before);
	key(put, "memory_after_bytes");
	known(put, p->memory_after);
	key(put, "uncertain");
	tauti_put_char(put, '[');
	for (uint32_t i = 0; i < p->n_uncertain; i++) {
		tauti_put_text(put, i ? ",\n  {" : "\n  {");
		field(put, "name", true);
		tauti_put_string(put, p->uncertain[i].name);
		field(put, "low_ms", false);
		ms(put, p->uncertain[i].low_ns);
		field(put, "high_ms", false);
		ms(put, p->uncertain[i].high_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
	key(put, "notes");
	texts(put, p->notes, p->n_notes);
}

static void put_row(struct tauti_put *put, const struct tauti_compare_row *row,
	bool first, bool named)
{
	tauti_put_text(put, first ? "\n  {" : ",\n  {");
	field(put, "category", true);
	tauti_put_string(put, taut_category_key(row->category));
	if (named) {
		field(put, "name", false);
		tauti_put_string(put, row->name);
	}
	field(put, "before_ms", false);
	ms(put, row->before_ns);
	field(put, "after_ms", false);
	ms(put, row->after_ns);
	tauti_put_char(put, '}');
}

static void put_comparison(
	struct tauti_put *put, const struct tauti_compare *c)
{
	key(put, "critical_path");
	tauti_put_char(put, '[');
	for (int k = 0; k < TAUT_CATEGORIES; k++)
		put_row(put, &c->categories[k], !k, false);
	tauti_put_char(put, ']');
	key(put, "operations");
	tauti_put_char(put, '[');
	for (uint32_t i = 0; i < c->n_ops; i++)
		put_row(put, &c->ops[i], !i, true);
	tauti_put_char(put, ']');
}

static void put_limits(struct tauti_put *put, const struct taut_report *after)
{
	key(put, "limits_next");
	tauti_put_char(put, '[');
	for (uint32_t i = 0; i < after->n_findings; i++) {
		const struct taut_report_finding *f = &after->findings[i];

		tauti_put_text(put, i ? ",\n  {" : "\n  {");
		field(put, "id", true);
		tauti_put_string(put, f->id);
		field(put, "cost_ms", false);
		ms(put, f->cost_ns);
		field(put, "text", false);
		tauti_put_string(put, f->text);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

taut_status tauti_whatif_json(const struct tauti_whatif_view *view, FILE *out,
	struct taut_error *reterr)
{
	struct taut_arena *arena = taut_arena_create();
	struct tauti_compare compare;
	struct tauti_put put;
	taut_status status = arena ? tauti_compare(view->before, view->after,
		arena, &compare, reterr) : taut_error_set(reterr, TAUT_ENOMEM,
		-1, "no memory for the comparison");

	if (!status) {
		tauti_put_begin(&put, out);
		put_head(&put, view->before, view->changes, view->n_changes);
		put_answer(&put, view->prediction);
		put_comparison(&put, &compare);
		put_limits(&put, view->after);
		tauti_put_text(&put, "}\n");
		status = tauti_put_end(&put, reterr);
	}
	taut_arena_destroy(arena);
	return status;
}

/* --- a sweep -------------------------------------------------------------------------- */

taut_status tauti_sweep_json(const struct tauti_sweep_view *view, FILE *out,
	struct taut_error *reterr)
{
	const struct tauti_sweep *s = view->sweep;
	struct tauti_put put;

	tauti_put_begin(&put, out);
	put_head(&put, view->before, view->changes, view->n_changes);
	key(&put, "sweep");
	tauti_put_string(&put, s->name);
	key(&put, "points");
	tauti_put_char(&put, '[');
	for (uint32_t i = 0; i < s->n_points; i++) {
		const struct tauti_sweep_point *p = &s->points[i];

		tauti_put_text(&put, i ? ",\n  {" : "\n  {");
		field(&put, "value", true);
		tauti_put_string(&put, p->value);
		field(&put, "before_ms", false);
		ms(&put, p->before_ns);
		field(&put, "after_ms", false);
		ms(&put, p->after_ns);
		field(&put, "low_ms", false);
		ms(&put, p->low_ns);
		field(&put, "high_ms", false);
		ms(&put, p->high_ns);
		field(&put, "samples_factor", false);
		real(&put, p->samples_factor);
		field(&put, "speedup", false);
		real(&put, speed_up(
			p->before_ns, p->after_ns, p->samples_factor));
		field(&put, "memory_after_bytes", false);
		known(&put, p->memory_after);
		tauti_put_char(&put, '}');
	}
	tauti_put_text(&put, "]}\n");
	return tauti_put_end(&put, reterr);
}

/* A field that a comma, a quote or a line end would break is quoted. */
static void put_csv(struct tauti_put *put, const char *text)
{
	bool quoted = false;

	for (const char *s = text; *s; s++)
		quoted |= *s == ',' || *s == '"' || *s == '\n' || *s == '\r';
	if (quoted)
		tauti_put_char(put, '"');
	for (const char *s = text; *s; s++) {
		if (*s == '"')
			tauti_put_char(put, '"');
		tauti_put_char(put, *s);
	}
	if (quoted)
		tauti_put_char(put, '"');
}

taut_status tauti_sweep_csv(const struct tauti_sweep_view *view, FILE *out,
	struct taut_error *reterr)
{
	const struct tauti_sweep *s = view->sweep;
	struct tauti_put put;

	tauti_put_begin(&put, out);
	put_csv(&put, s->name);
	tauti_put_text(&put, ",before_ms,after_ms,low_ms,high_ms,speedup\n");
	for (uint32_t i = 0; i < s->n_points; i++) {
		const struct tauti_sweep_point *p = &s->points[i];

		put_csv(&put, p->value);
		tauti_put_char(&put, ',');
		ms(&put, p->before_ns);
		tauti_put_char(&put, ',');
		ms(&put, p->after_ns);
		tauti_put_char(&put, ',');
		ms(&put, p->low_ns);
		tauti_put_char(&put, ',');
		ms(&put, p->high_ns);
		tauti_put_char(&put, ',');
		real(&put, speed_up(
			p->before_ns, p->after_ns, p->samples_factor));
		tauti_put_char(&put, '\n');
	}
	return tauti_put_end(&put, reterr);
}

/* --- the list ---------------------------------------------------------------------------- */

static void put_change(
	struct tauti_put *put, const struct taut_transformation_info *info)
{
	const char *const fields[][2] = { { "group", info->group },
		{ "summary", info->summary },
		{ "assumption", info->assumption },
		{ "source", info->source } };

	field(put, "name", true);
	tauti_put_string(put, info->name);
	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
		field(put, fields[i][0], false);
		tauti_put_string(put, fields[i][1]);
	}
	field(put, "parameters", false);
	tauti_put_char(put, '[');
	for (size_t i = 0; i < info->n_parameters; i++) {
		const struct taut_parameter *p = &info->parameters[i];

		tauti_put_text(put, i ? ",\n    {" : "\n    {");
		field(put, "name", true);
		tauti_put_string(put, p->name);
		field(put, "form", false);
		tauti_put_string(put, p->form);
		field(put, "preset", false);
		if (p->preset)
			tauti_put_string(put, p->preset);
		else
			tauti_put_text(put, "null");
		field(put, "help", false);
		tauti_put_string(put, p->help);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

taut_status tauti_changes_json(const struct taut_transformation_info *info,
	FILE *out, struct taut_error *reterr)
{
	const struct taut_transformation_info *one;
	struct tauti_put put;
	bool first = true;

	tauti_put_begin(&put, out);
	tauti_put_text(&put, "{\"version\":");
	tauti_put_string(&put, taut_version());
	key(&put, "changes");
	tauti_put_char(&put, '[');
	for (size_t i = 0; (one = taut_transformation(i)) != NULL; i++) {
		if (info && one != info)
			continue;
		tauti_put_text(&put, first ? "\n  {" : ",\n  {");
		put_change(&put, one);
		tauti_put_char(&put, '}');
		first = false;
	}
	tauti_put_text(&put, "]}\n");
	return tauti_put_end(&put, reterr);
}
