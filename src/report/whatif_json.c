/* whatif_json.c - taut whatif for machines: predictions, sweeps, the list of
 * changes. docs/whatif.md explains every key. */
#include <math.h>

#include "explain/compare.h"
#include "report/fields.h"
#include "report/number.h"
#include "report/whatif.h"

static void put_head(struct tauti_put *put, const struct taut_report *before,
	const char *const *changes, size_t n)
{
	tauti_put_text(put, "{\"version\":");
	tauti_put_string(put, taut_version());
	tauti_field_text(put, "run", before->run ? before->run->path : "");
	tauti_field_texts(put, "changes", changes, n);
}

static double speed_up(
	int64_t before_ns, int64_t after_ns, double samples_factor)
{
	return after_ns > 0 ?
		samples_factor * (double)before_ns / (double)after_ns : NAN;
}

/* --- a prediction ------------------------------------------------------------------ */

static void put_memory(struct tauti_put *put, const struct taut_prediction *p)
{
	tauti_field_section(put, "memory", "[");
	for (uint32_t i = 0; i < p->n_memory; i++) {
		tauti_field_row(put, i);
		tauti_put_text(put, "\"rank\":");
		tauti_put_int(put, p->memory[i].rank);
		tauti_field_known(put, "before_bytes", p->memory[i].before);
		tauti_field_known(put, "after_bytes", p->memory[i].after);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_answer(
	struct tauti_put *put, const struct taut_prediction *p)
{
	tauti_field_ms(put, "before_ms", p->before_ns);
	tauti_field_ms(put, "recorded_ms", p->recorded_ns);
	tauti_field_real(put, "recorder_us_an_event", p->recorder_ns / 1e3);
	tauti_field_ms(put, "after_ms", p->after_ns);
	tauti_field_ms(put, "low_ms", p->low_ns);
	tauti_field_ms(put, "high_ms", p->high_ns);
	tauti_field_real(put, "samples_factor", p->samples_factor);
	tauti_field_real(put, "speedup",
		speed_up(p->before_ns, p->after_ns, p->samples_factor));
	tauti_field_known(put, "memory_before_bytes", p->memory_before);
	tauti_field_known(put, "memory_after_bytes", p->memory_after);
	put_memory(put, p);
	tauti_field_section(put, "uncertain", "[");
	for (uint32_t i = 0; i < p->n_uncertain; i++) {
		tauti_field_row_text(put, i, "name", p->uncertain[i].name);
		tauti_field_ms(put, "low_ms", p->uncertain[i].low_ns);
		tauti_field_ms(put, "high_ms", p->uncertain[i].high_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
	tauti_field_texts(put, "notes", p->notes, p->n_notes);
}

static void put_row(struct tauti_put *put, const struct tauti_compare_row *row,
	uint32_t i, bool named)
{
	tauti_field_row_text(
		put, i, "category", taut_category_key(row->category));
	if (named)
		tauti_field_text(put, "name", row->name);
	tauti_field_ms(put, "before_ms", row->before_ns);
	tauti_field_ms(put, "after_ms", row->after_ns);
	tauti_put_char(put, '}');
}

static void put_comparison(
	struct tauti_put *put, const struct tauti_compare *c)
{
	tauti_field_section(put, "critical_path", "[");
	for (uint32_t k = 0; k < TAUT_CATEGORIES; k++)
		put_row(put, &c->categories[k], k, false);
	tauti_put_char(put, ']');
	tauti_field_section(put, "operations", "[");
	for (uint32_t i = 0; i < c->n_ops; i++)
		put_row(put, &c->ops[i], i, true);
	tauti_put_char(put, ']');
}

static void put_limits(struct tauti_put *put, const struct taut_report *after)
{
	tauti_field_section(put, "limits_next", "[");
	for (uint32_t i = 0; i < after->n_findings; i++) {
		const struct taut_report_finding *f = &after->findings[i];

		tauti_field_row_text(put, i, "id", f->id);
		tauti_field_ms(put, "cost_ms", f->cost_ns);
		tauti_field_text(put, "text", f->text);
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

static void put_point(struct tauti_put *put, uint32_t i,
	const struct tauti_sweep_point *p)
{
	tauti_field_row_text(put, i, "value", p->value);
	tauti_field_ms(put, "before_ms", p->before_ns);
	tauti_field_ms(put, "after_ms", p->after_ns);
	tauti_field_ms(put, "low_ms", p->low_ns);
	tauti_field_ms(put, "high_ms", p->high_ns);
	tauti_field_real(put, "samples_factor", p->samples_factor);
	tauti_field_real(put, "speedup",
		speed_up(p->before_ns, p->after_ns, p->samples_factor));
	tauti_field_known(put, "memory_after_bytes", p->memory_after);
	tauti_put_char(put, '}');
}

taut_status tauti_sweep_json(const struct tauti_sweep_view *view, FILE *out,
	struct taut_error *reterr)
{
	const struct tauti_sweep *s = view->sweep;
	struct tauti_put put;

	tauti_put_begin(&put, out);
	put_head(&put, view->before, view->changes, view->n_changes);
	tauti_field_text(&put, "sweep", s->name);
	tauti_field_section(&put, "points", "[");
	for (uint32_t i = 0; i < s->n_points; i++)
		put_point(&put, i, &s->points[i]);
	tauti_put_text(&put, "]}\n");
	return tauti_put_end(&put, reterr);
}

/* Behind a comma of a table. */
static void cell_ms(struct tauti_put *put, int64_t ns)
{
	char text[TAUTI_NUMBER_BYTES];

	tauti_put_char(put, ',');
	tauti_put_text(put, tauti_number_ms(ns, 6, text));
}

static void cell_real(struct tauti_put *put, double value)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(value, 6, text);

	tauti_put_char(put, ',');
	tauti_put_text(put, number ? number : "null");
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
		cell_ms(&put, p->before_ns);
		cell_ms(&put, p->after_ns);
		cell_ms(&put, p->low_ns);
		cell_ms(&put, p->high_ns);
		cell_real(&put, speed_up(
			p->before_ns, p->after_ns, p->samples_factor));
		tauti_put_char(&put, '\n');
	}
	return tauti_put_end(&put, reterr);
}

/* --- the list ---------------------------------------------------------------------------- */

static void put_change(struct tauti_put *put, uint32_t row,
	const struct taut_transformation_info *info)
{
	tauti_field_row_text(put, row, "name", info->name);
	tauti_field_text(put, "group", info->group);
	tauti_field_text(put, "summary", info->summary);
	tauti_field_text(put, "assumption", info->assumption);
	tauti_field_text(put, "source", info->source);
	tauti_field_key(put, "parameters");
	tauti_put_char(put, '[');
	for (uint32_t i = 0; i < info->n_parameters; i++) {
		const struct taut_parameter *p = &info->parameters[i];

		tauti_field_row_text(put, i, "name", p->name);
		tauti_field_text(put, "form", p->form);
		if (p->preset) {
			tauti_field_text(put, "preset", p->preset);
		} else {
			tauti_field_key(put, "preset");
			tauti_put_text(put, "null");
		}
		tauti_field_text(put, "help", p->help);
		tauti_put_char(put, '}');
	}
	tauti_put_text(put, "]}");
}

taut_status tauti_changes_json(const struct taut_transformation_info *info,
	FILE *out, struct taut_error *reterr)
{
	const struct taut_transformation_info *one;
	struct tauti_put put;
	uint32_t n = 0;

	tauti_put_begin(&put, out);
	tauti_put_text(&put, "{\"version\":");
	tauti_put_string(&put, taut_version());
	tauti_field_section(&put, "changes", "[");
	for (size_t i = 0; (one = taut_transformation(i)) != NULL; i++)
		if (!info || one == info)
			put_change(&put, n++, one);
	tauti_put_text(&put, "]}\n");
	return tauti_put_end(&put, reterr);
}
