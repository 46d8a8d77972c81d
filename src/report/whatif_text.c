/* whatif_text.c - what taut whatif prints: before, after, how sure, where the
 * difference comes from, and what limits next. */
#include <stdlib.h>
#include <string.h>

#include "explain/compare.h"
#include "report/names.h"
#include "report/number.h"
#include "report/text.h"
#include "report/whatif.h"

enum { OPS_SHOWN = 8, LIMITS_SHOWN = 3 };
static const double worth_a_row = 0.002; /* of a step */

struct page {
	struct tauti_text t; /* report: of the recorded job */
	const struct tauti_whatif_view *view;
	const struct taut_prediction *p;
};

static const char *real(const struct page *g, double value, int decimals)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(value, decimals, text);

	return tauti_sheet_text(g->t.sheet, "%s", number ? number : "unknown");
}

static const char *ms(const struct page *g, int64_t ns)
{
	return tauti_text_ms(&g->t, ns);
}

static const char *bytes(const struct page *g, int64_t value)
{
	char text[TAUTI_NUMBER_BYTES];

	return value < 0 ? "unknown" : tauti_sheet_text(g->t.sheet, "%s",
		tauti_number_bytes((uint64_t)value, text));
}

/* --- the answer ------------------------------------------------------------------- */

static const char *all_changes(const struct page *g)
{
	const char *text = "";

	for (size_t i = 0; i < g->view->n_changes; i++)
		text = tauti_sheet_text(g->t.sheet, "%s%s%s", text,
			i ? " " : "", g->view->changes[i]);
	return text;
}

/* How many times as fast, in samples. */
static double speed_up(const struct taut_prediction *p)
{
	return p->after_ns > 0 ? p->samples_factor * (double)p->before_ns /
		(double)p->after_ns : 0;
}

static void say_answer(const struct page *g)
{
	const struct taut_prediction *p = g->p;
	const char *run = g->view->before->run ?
		g->view->before->run->path : NULL;
	const char *up = real(g, speed_up(p), 3);

	tauti_sheet_wrap(g->t.sheet, "", tauti_sheet_text(g->t.sheet,
		"%s with %s", run ? run : "the recording",
		g->view->n_changes ? all_changes(g) : "no change"), TAUTI_BOLD);
	tauti_sheet_wrap(g->t.sheet, "", tauti_sheet_text(g->t.sheet,
		"A step of %s ms would take %s ms, with 95 %% between %s and "
		"%s ms.", ms(g, p->before_ns), ms(g, p->after_ns),
		ms(g, p->low_ns), ms(g, p->high_ns)), TAUTI_PLAIN);
	if (p->after_ns > 0)
		tauti_sheet_wrap(g->t.sheet, "", p->samples_factor == 1 ?
		tauti_sheet_text(g->t.sheet, "That is %s times as fast.", up) :
		tauti_sheet_text(g->t.sheet, "With %s times as many samples a "
		"step, that is %s times as many a second.",
		real(g, p->samples_factor, 3), up), TAUTI_PLAIN);
	if (p->memory_before >= 0 || p->memory_after >= 0)
		tauti_sheet_wrap(g->t.sheet, "", tauti_sheet_text(g->t.sheet,
			"The rank that needs most memory: %s at its peak, then "
			"%s.", bytes(g, p->memory_before),
			bytes(g, p->memory_after)), TAUTI_PLAIN);
}

static void say_interval(const struct page *g)
{
	static const struct tauti_column heads[] = {
		{ "low", TAUTI_RIGHT, false }, { "high", TAUTI_RIGHT, false },
		{ "uncertain", TAUTI_LEFT, true } };
	struct tauti_table table;

	if (!g->p->n_uncertain)
		return;
	tauti_sheet_heading(g->t.sheet, "What the interval is made of",
		"ms a step; one at a time at either end");
	tauti_table_begin(&table, g->t.sheet, heads, 3);
	for (uint32_t i = 0; i < g->p->n_uncertain; i++) {
		const struct taut_uncertain *u = &g->p->uncertain[i];

		tauti_table_cell(&table, ms(g, u->low_ns), TAUTI_PLAIN);
		tauti_table_cell(&table, ms(g, u->high_ns), TAUTI_PLAIN);
		tauti_table_cell(&table, u->name, TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

/* --- where it comes from --------------------------------------------------------------- */

static const char *change_of(const struct page *g, int64_t before, int64_t after)
{
	const char *text = ms(g, after - before);

	if (!text[strcspn(text, "123456789")]) /* nothing, rounded */
		return text + (*text == '-');
	return tauti_sheet_text(
		g->t.sheet, "%s%s", after > before ? "+" : "", text);
}

static void add_row(const struct page *g, struct tauti_table *table,
	const struct tauti_compare_row *row)
{
	const char *change = change_of(g, row->before_ns, row->after_ns);

	tauti_table_cell(table, ms(g, row->before_ns), TAUTI_PLAIN);
	tauti_table_cell(table, ms(g, row->after_ns), TAUTI_PLAIN);
	tauti_table_cell(table, change, *change == '-' ? TAUTI_GREEN :
		*change == '+' ? TAUTI_RED : TAUTI_PLAIN);
}

static bool is_worth(const struct page *g, int64_t ns)
{
	return (double)llabs(ns) >= worth_a_row * (double)g->p->before_ns;
}

static void say_categories(const struct page *g, const struct tauti_compare *c)
{
	static const struct tauti_column heads[] = {
		{ "before", TAUTI_RIGHT, false },
		{ "after", TAUTI_RIGHT, false },
		{ "change", TAUTI_RIGHT, false },
		{ "kind", TAUTI_LEFT, false } };
	struct tauti_table table;

	tauti_table_begin(&table, g->t.sheet, heads, 4);
	for (int k = 0; k < TAUT_CATEGORIES; k++) {
		const struct tauti_compare_row *row = &c->categories[k];

		if (!is_worth(g, row->before_ns) && !is_worth(g, row->after_ns))
			continue;
		add_row(g, &table, row);
		tauti_table_cell(&table, taut_category_title(row->category),
			TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

static void say_operations(const struct page *g, const struct tauti_compare *c)
{
	static const struct tauti_column heads[] = {
		{ "before", TAUTI_RIGHT, false },
		{ "after", TAUTI_RIGHT, false },
		{ "change", TAUTI_RIGHT, false },
		{ "kind", TAUTI_LEFT, false },
		{ "operation", TAUTI_LEFT, true } };
	struct tauti_table table;
	uint32_t n = 0;

	while (n < c->n_ops && n < OPS_SHOWN &&
		is_worth(g, c->ops[n].after_ns - c->ops[n].before_ns))
		n++;
	if (!n)
		return;
	tauti_sheet_blank(g->t.sheet);
	tauti_table_begin(&table, g->t.sheet, heads, 5);
	for (uint32_t i = 0; i < n; i++) {
		add_row(g, &table, &c->ops[i]);
		tauti_table_cell(&table,
			tauti_category_column(c->ops[i].category), TAUTI_DIM);
		tauti_table_cell(&table, c->ops[i].name, TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

static void say_difference(const struct page *g, const struct tauti_compare *c)
{
	tauti_sheet_heading(g->t.sheet, "Where the difference comes from",
		"critical path, ms a step");
	say_categories(g, c);
	say_operations(g, c);
}

static void say_limits(const struct page *g)
{
	const struct taut_report *r = g->view->after;
	struct tauti_text t = g->t;
	uint32_t n = r->n_findings < LIMITS_SHOWN ? r->n_findings :
		LIMITS_SHOWN;
	int columns[2] = { 0, 0 };

	t.report = r;
	t.step_ns = tauti_text_base_step(r);
	tauti_sheet_heading(g->t.sheet, "What limits next",
		n ? "first: how much shorter a step would then be" : "");
	if (!n)
		tauti_sheet_line(g->t.sheet, "  Nothing stands out: no single "
			"cause would shorten a step by much.");
	for (uint32_t i = 0; i < n; i++) {
		const struct taut_report_finding *f = &r->findings[i];
		const char *pct = tauti_text_pct(&t, f->cost_ns, t.step_ns);

		/* the first costs most: the others fit its columns */
		columns[0] = i ? columns[0] : (int)strlen(ms(g, f->cost_ns));
		columns[1] = i ? columns[1] : (int)strlen(pct);
		tauti_sheet_wrap(g->t.sheet, tauti_sheet_text(g->t.sheet,
			*pct ? "  %*s ms  %*s %%  " : "  %*s ms  ",
			columns[0], ms(g, f->cost_ns), columns[1], pct),
			f->text, TAUTI_PLAIN);
	}
	if (n)
		tauti_text_base(&t);
}

/* --- what was assumed ----------------------------------------------------------------- */

static const struct taut_transformation_info *info_of(const char *change)
{
	size_t len = strcspn(change, ",=");
	const struct taut_transformation_info *info;

	for (size_t i = 0; (info = taut_transformation(i)) != NULL; i++)
		if (strlen(info->name) == len &&
			!memcmp(info->name, change, len))
			return info;
	return NULL;
}

static void say_assumptions(const struct page *g)
{
	const struct tauti_whatif_view *v = g->view;

	if (!v->n_changes && !g->p->n_notes)
		return;
	tauti_sheet_heading(g->t.sheet, "What was assumed", "");
	for (size_t i = 0; i < v->n_changes; i++) {
		const struct taut_transformation_info *info =
			info_of(v->changes[i]);
		bool told = false;

		for (size_t k = 0; k < i && !told; k++)
			told = info_of(v->changes[k]) == info;
		if (info && !told)
			tauti_sheet_wrap(g->t.sheet, tauti_sheet_text(
				g->t.sheet, "  - %s: ", info->name),
				info->assumption, TAUTI_PLAIN);
	}
	for (uint32_t i = 0; i < g->p->n_notes; i++)
		tauti_sheet_wrap(
			g->t.sheet, "  - ", g->p->notes[i], TAUTI_PLAIN);
}

/* --- the whole -------------------------------------------------------------------------- */

taut_status tauti_whatif_text(const struct tauti_whatif_view *view,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr)
{
	struct tauti_sheet sheet;
	int64_t step = view->prediction->before_ns;
	struct page g = { .view = view, .p = view->prediction,
		.t = { .report = view->before, .sheet = &sheet,
			.decimals = step >= 100000000 ? 1 :
				step >= 10000000 ? 2 : 3,
			.steps = 1, .step_ns = step } };
	struct tauti_compare compare;
	taut_status status = tauti_sheet_begin(&sheet, out,
		tauti_text_width(options), options && options->colour, reterr);

	if (status)
		return status;
	status = tauti_compare(
		view->before, view->after, sheet.arena, &compare, reterr);
	say_answer(&g);
	say_interval(&g);
	if (!status)
		say_difference(&g, &compare);
	say_limits(&g);
	say_assumptions(&g);
	if (!status)
		return tauti_sheet_end(&sheet, reterr);
	(void)!tauti_sheet_end(&sheet, NULL);
	return status;
}
