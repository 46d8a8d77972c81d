/* whatif_list.c - what taut whatif can change, and sweeps as tables. */
#include <string.h>

#include "report/number.h"
#include "report/text.h"
#include "report/whatif.h"

enum { WIDEST = 34 }; /* columns in front of what is said of a row */

/* --- all changes -------------------------------------------------------------------- */

/* "link[=RATE|FACTOR]": as it is written, without its further parameters. */
static const char *usage(struct tauti_sheet *sheet,
	const struct taut_transformation_info *info)
{
	const struct taut_parameter *p = info->parameters;

	if (!info->n_parameters || *p->name)
		return info->name;
	return tauti_sheet_text(sheet, p->preset ? "%s[=%s]" : "%s=%s",
		info->name, p->form);
}

static bool is_first_of_group(const struct taut_transformation_info *info)
{
	const struct taut_transformation_info *one;

	for (size_t i = 0; (one = taut_transformation(i)) != info; i++)
		if (!strcmp(one->group, info->group))
			return false;
	return true;
}

static int widest_usage(struct tauti_sheet *sheet)
{
	const struct taut_transformation_info *info;
	int widest = 0;

	for (size_t i = 0; (info = taut_transformation(i)) != NULL; i++) {
		int n = (int)strlen(usage(sheet, info));

		if (n > widest && n <= WIDEST)
			widest = n;
	}
	return widest;
}

static void say_group(struct tauti_sheet *sheet, const char *group, int widest)
{
	const struct taut_transformation_info *info;

	tauti_sheet_heading(sheet, group, "");
	for (size_t i = 0; (info = taut_transformation(i)) != NULL; i++) {
		const char *text = usage(sheet, info);

		if (strcmp(info->group, group))
			continue;
		if ((int)strlen(text) > widest) {
			tauti_sheet_line(sheet,
				tauti_sheet_text(sheet, "  %s", text));
			text = "";
		}
		tauti_sheet_wrap(sheet, tauti_sheet_text(sheet, "  %-*s  ",
			widest, text), info->summary, TAUTI_PLAIN);
	}
}

taut_status tauti_changes_text(const struct taut_text_options *options,
	FILE *out, struct taut_error *reterr)
{
	const struct taut_transformation_info *info;
	struct tauti_sheet sheet;
	int widest;
	taut_status status = tauti_sheet_begin(&sheet, out,
		tauti_text_width(options), options && options->colour, reterr);

	if (status)
		return status;
	tauti_sheet_wrap(&sheet, "", "Changes, written NAME[=VALUE]"
		"[,KEY=VALUE]..., each laid over those before it. "
		"taut whatif --list NAME shows one with its parameters and "
		"what it assumes.", TAUTI_PLAIN);
	widest = widest_usage(&sheet);
	for (size_t i = 0; (info = taut_transformation(i)) != NULL; i++)
		if (is_first_of_group(info))
			say_group(&sheet, info->group, widest);
	return tauti_sheet_end(&sheet, reterr);
}

/* --- one change ---------------------------------------------------------------------- */

static const char *parameter(struct tauti_sheet *sheet,
	const struct taut_transformation_info *info,
	const struct taut_parameter *p)
{
	return tauti_sheet_text(
		sheet, "%s=%s", *p->name ? p->name : info->name, p->form);
}

static void say_parameters(struct tauti_sheet *sheet,
	const struct taut_transformation_info *info)
{
	int widest = 0;

	for (size_t i = 0; i < info->n_parameters; i++) {
		int n = (int)strlen(
			parameter(sheet, info, &info->parameters[i]));

		widest = n > widest && n <= WIDEST ? n : widest;
	}
	if (info->n_parameters)
		tauti_sheet_blank(sheet);
	for (size_t i = 0; i < info->n_parameters; i++) {
		const struct taut_parameter *p = &info->parameters[i];
		const char *text = parameter(sheet, info, p);
		const char *preset = !p->preset ? " (must be given)" :
			*p->preset ? tauti_sheet_text(sheet, " (default: %s)",
			p->preset) : "";

		if ((int)strlen(text) > widest) {
			tauti_sheet_line(sheet,
				tauti_sheet_text(sheet, "  %s", text));
			text = "";
		}
		tauti_sheet_wrap(sheet, tauti_sheet_text(sheet, "  %-*s  ",
			widest, text), tauti_sheet_text(sheet, "%s%s", p->help,
			preset), TAUTI_PLAIN);
	}
}

taut_status tauti_change_text(const struct taut_transformation_info *info,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr)
{
	struct tauti_sheet sheet;
	taut_status status = tauti_sheet_begin(&sheet, out,
		tauti_text_width(options), options && options->colour, reterr);

	if (status)
		return status;
	tauti_sheet_wrap(&sheet, tauti_sheet_text(&sheet, "%s: ", info->name),
		info->summary, TAUTI_PLAIN);
	say_parameters(&sheet, info);
	tauti_sheet_blank(&sheet);
	tauti_sheet_wrap(&sheet, "  assumes  ", info->assumption, TAUTI_PLAIN);
	tauti_sheet_wrap(&sheet, "  source   ", info->source, TAUTI_PLAIN);
	return tauti_sheet_end(&sheet, reterr);
}

/* --- a sweep ---------------------------------------------------------------------------- */

static void add_point(const struct tauti_text *t, struct tauti_table *table,
	const struct tauti_sweep_point *p, int64_t longest)
{
	char text[TAUTI_NUMBER_BYTES];
	double up = p->after_ns > 0 ? p->samples_factor *
		(double)p->before_ns / (double)p->after_ns : 0;
	const char *number = tauti_number_real(up, 3, text);

	tauti_table_cell(table, p->value, TAUTI_PLAIN);
	tauti_table_cell(table, tauti_text_ms(t, p->after_ns), TAUTI_PLAIN);
	tauti_table_cell(table, tauti_text_ms(t, p->low_ns), TAUTI_DIM);
	tauti_table_cell(table, tauti_text_ms(t, p->high_ns), TAUTI_DIM);
	tauti_table_cell(table, tauti_sheet_text(t->sheet, "%s",
		number ? number : ""), TAUTI_PLAIN);
	tauti_table_cell(table, tauti_text_bar(t, p->after_ns, longest, 32,
		TAUTI_BLUE), TAUTI_PLAIN);
}

taut_status tauti_sweep_text(const struct tauti_sweep_view *view,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr)
{
	const struct tauti_sweep *s = view->sweep;
	const struct tauti_column heads[] = {
		{ s->name, TAUTI_RIGHT, false }, { "step", TAUTI_RIGHT, false },
		{ "low", TAUTI_RIGHT, false }, { "high", TAUTI_RIGHT, false },
		{ "times as fast", TAUTI_RIGHT, false },
		{ "", TAUTI_LEFT, false } };
	int64_t step = s->n_points ? s->points[0].before_ns : 0, longest = 1;
	struct tauti_sheet sheet;
	struct tauti_text t = { .report = view->before, .sheet = &sheet,
		.decimals = step >= 100000000 ? 1 : step >= 10000000 ? 2 : 3,
		.steps = 1, .step_ns = step };
	struct tauti_table table;
	taut_status status = tauti_sheet_begin(&sheet, out,
		tauti_text_width(options), options && options->colour, reterr);

	if (status)
		return status;
	for (uint32_t i = 0; i < s->n_points; i++)
		if (s->points[i].after_ns > longest)
			longest = s->points[i].after_ns;
	tauti_sheet_line(&sheet, tauti_sheet_text(&sheet,
		"A step of %s ms, with %s:", tauti_text_ms(&t, step), s->name));
	tauti_sheet_blank(&sheet);
	tauti_table_begin(&table, &sheet, heads, 6);
	for (uint32_t i = 0; i < s->n_points; i++)
		add_point(&t, &table, &s->points[i], longest);
	tauti_table_end(&table);
	return tauti_sheet_end(&sheet, reterr);
}
