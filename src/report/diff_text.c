/* diff_text.c - what taut diff prints: by how much, whose doing, which
 * operations. */
#include <stdlib.h>
#include <string.h>

#include "explain/steps.h"
#include "report/diff.h"
#include "report/names.h"
#include "report/number.h"
#include "report/text.h"

enum { OPS_SHOWN = 12 };
static const double worth_a_row = 0.002; /* of a step */

struct page {
	struct tauti_text t;
	const struct tauti_diff *d;
};

static const char *ms(const struct page *g, int64_t ns)
{
	return tauti_text_ms(&g->t, ns);
}

static const char *signed_ms(const struct page *g, int64_t ns)
{
	return tauti_sheet_text(g->t.sheet, "%s%s", ns > 0 ? "+" : "",
		ms(g, ns));
}

static const char *real(const struct page *g, double value, int decimals)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(value, decimals, text);

	return tauti_sheet_text(g->t.sheet, "%s", number ? number : "");
}

/* "5", or "4.5" where steps differ. */
static const char *count(const struct page *g, double value)
{
	double whole = (double)(int64_t)(value + 0.5);

	return real(g, value, value - whole < 0.05 && whole - value < 0.05 ?
		0 : 1);
}

static const char *bytes(const struct page *g, int64_t value)
{
	char text[TAUTI_NUMBER_BYTES];

	return value < 0 ? "" : tauti_sheet_text(g->t.sheet, "%s",
		tauti_number_bytes((uint64_t)value, text));
}

static enum tauti_style colour_of(int64_t change)
{
	return change < 0 ? TAUTI_GREEN : change > 0 ? TAUTI_RED : TAUTI_PLAIN;
}

static bool is_worth(const struct page *g, int64_t ns)
{
	return (double)llabs(ns) >= worth_a_row * (double)g->t.step_ns;
}

/* --- the answer -------------------------------------------------------------------- */

static void say_run(const struct page *g, const char *letter,
	const struct taut_report *r)
{
	tauti_sheet_wrap(g->t.sheet, "", tauti_sheet_text(g->t.sheet,
		"%s  %s: %u rank%s, %u step%s of %s ms", letter,
		r->run ? r->run->path : "", r->n_ranks,
		r->n_ranks == 1 ? "" : "s", tauti_steps_of_a_rank(r),
		tauti_steps_of_a_rank(r) == 1 ? "" : "s",
		ms(g, r->steady_ns)), TAUTI_PLAIN);
}

/* The row that changes most of those that make a step longer (1) or shorter (-1). */
static const struct tauti_diff_step *most_of(const struct tauti_diff *d, int sign)
{
	const struct tauti_diff_step *most = &d->steps[0];

	for (uint32_t i = 1; i < d->n_steps; i++)
		if (sign * d->steps[i].change_ns > sign * most->change_ns)
			most = &d->steps[i];
	return most;
}

static const char *equal_answer(const struct page *g)
{
	const struct tauti_diff_step *more = most_of(g->d, 1);
	const struct tauti_diff_step *less = most_of(g->d, -1);

	if (!is_worth(g, more->change_ns) || !is_worth(g, less->change_ns))
		return "A step takes as long in both.";
	return tauti_sheet_text(g->t.sheet, "A step takes as long in both: %s "
		"(%s ms) and %s (%s ms) make up for each other.", more->title,
		signed_ms(g, more->change_ns), less->title,
		signed_ms(g, less->change_ns));
}

static void say_answer(const struct page *g)
{
	const struct tauti_diff *d = g->d;
	int64_t change = d->b->steady_ns - d->a->steady_ns;
	const struct tauti_diff_step *most = most_of(d, change < 0 ? -1 : 1);
	int64_t part = llabs(most->change_ns);

	say_run(g, "A", d->a);
	say_run(g, "B", d->b);
	if (!is_worth(g, change)) {
		tauti_sheet_wrap(g->t.sheet, "", equal_answer(g), TAUTI_BOLD);
		return;
	}
	tauti_sheet_wrap(g->t.sheet, "", tauti_sheet_text(g->t.sheet,
		"A step of B takes %s ms (%s %%) %s than one of A; %s is "
		"%s, %s ms.", ms(g, llabs(change)), tauti_text_pct(&g->t,
		llabs(change), d->a->steady_ns), change < 0 ? "less" : "more",
		2 * part >= llabs(change) && part <= llabs(change) ?
		"most of it" : change < 0 ? "what saves most" :
		"what adds most", most->title,
		signed_ms(g, most->change_ns)), TAUTI_BOLD);
}

static void say_waterfall(const struct page *g)
{
	static const struct tauti_column heads[] = {
		{ "step", TAUTI_RIGHT, false },
		{ "change", TAUTI_RIGHT, false },
		{ "A, and as in B", TAUTI_LEFT, false } };
	struct tauti_table table;

	tauti_sheet_heading(g->t.sheet, "Whose doing it is",
		"ms a step; A replayed with B's times, each row with those "
		"above it");
	tauti_table_begin(&table, g->t.sheet, heads, 3);
	tauti_table_cell(&table, ms(g, g->d->a->steady_ns), TAUTI_PLAIN);
	tauti_table_cell(&table, "", TAUTI_PLAIN);
	tauti_table_cell(&table, "(A)", TAUTI_DIM);
	for (uint32_t i = 0; i < g->d->n_steps; i++) {
		const struct tauti_diff_step *s = &g->d->steps[i];

		tauti_table_cell(&table, ms(g, s->step_ns), TAUTI_PLAIN);
		tauti_table_cell(&table, signed_ms(g, s->change_ns),
			is_worth(g, s->change_ns) ? colour_of(s->change_ns) :
			TAUTI_DIM);
		tauti_table_cell(&table, s->title, TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

/* --- tables --------------------------------------------------------------------------- */

static void add_change(const struct page *g, struct tauti_table *table,
	int64_t a_ns, int64_t b_ns)
{
	tauti_table_cell(table, ms(g, a_ns), TAUTI_PLAIN);
	tauti_table_cell(table, ms(g, b_ns), TAUTI_PLAIN);
	tauti_table_cell(table, signed_ms(g, b_ns - a_ns),
		colour_of(b_ns - a_ns));
}

static void say_path(const struct page *g)
{
	static const struct tauti_column heads[] = {
		{ "A", TAUTI_RIGHT, false }, { "B", TAUTI_RIGHT, false },
		{ "change", TAUTI_RIGHT, false },
		{ "kind", TAUTI_LEFT, false } };
	struct tauti_table table;

	tauti_sheet_heading(g->t.sheet, "Critical path", "ms a step");
	tauti_table_begin(&table, g->t.sheet, heads, 4);
	for (int k = 0; k < TAUT_CATEGORIES; k++) {
		const struct tauti_compare_row *row =
			&g->d->path.categories[k];

		if (!is_worth(g, row->before_ns) && !is_worth(g, row->after_ns))
			continue;
		add_change(g, &table, row->before_ns, row->after_ns);
		tauti_table_cell(&table, taut_category_title(row->category),
			TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

static void say_colls(const struct page *g)
{
	static const struct tauti_column heads[] = {
		{ "kind", TAUTI_LEFT, false },
		{ "count A", TAUTI_RIGHT, false }, { "B", TAUTI_RIGHT, false },
		{ "bytes A", TAUTI_RIGHT, false }, { "B", TAUTI_RIGHT, false },
		{ "transfer A", TAUTI_RIGHT, false },
		{ "B", TAUTI_RIGHT, false },
		{ "waiting A", TAUTI_RIGHT, false },
		{ "B", TAUTI_RIGHT, false } };
	struct tauti_table table;

	if (!g->d->n_colls)
		return;
	tauti_sheet_heading(g->t.sheet, "Collectives",
		"of one rank, a step; ms");
	tauti_table_begin(&table, g->t.sheet, heads,
		sizeof heads / sizeof heads[0]);
	for (uint32_t i = 0; i < g->d->n_colls; i++) {
		const struct tauti_diff_coll *c = &g->d->colls[i];
		const char *const cells[] = { c->name, count(g, c->count_a),
			count(g, c->count_b), bytes(g, c->bytes_a),
			bytes(g, c->bytes_b), ms(g, c->transfer_a_ns),
			ms(g, c->transfer_b_ns), ms(g, c->wait_a_ns),
			ms(g, c->wait_b_ns) };

		for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++)
			tauti_table_cell(&table, cells[k], TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

static const char *kind_title(enum tauti_diff_kind kind)
{
	static const char *const titles[] = {
		[TAUTI_DIFF_COMPUTE] = "compute",
		[TAUTI_DIFF_TRANSFER] = "transfer", [TAUTI_DIFF_HOST] = "host",
		[TAUTI_DIFF_COPY] = "copy" };

	return (unsigned)kind < TAUTI_DIFF_KINDS ? titles[kind] : "";
}

static void add_op(const struct page *g, struct tauti_table *table,
	const struct tauti_diff_op *op)
{
	add_change(g, table, op->a_ns, op->b_ns);
	tauti_table_cell(table, count(g, op->count_a), TAUTI_PLAIN);
	tauti_table_cell(table, count(g, op->count_b), TAUTI_PLAIN);
	tauti_table_cell(table, kind_title(op->kind), TAUTI_DIM);
	tauti_table_cell(table, *op->name ? op->name : "(between events)",
		TAUTI_PLAIN);
}

static void say_ops(const struct page *g)
{
	static const struct tauti_column heads[] = {
		{ "A", TAUTI_RIGHT, false }, { "B", TAUTI_RIGHT, false },
		{ "change", TAUTI_RIGHT, false },
		{ "count A", TAUTI_RIGHT, false }, { "B", TAUTI_RIGHT, false },
		{ "kind", TAUTI_LEFT, false },
		{ "operation", TAUTI_LEFT, true } };
	const struct tauti_diff *d = g->d;
	struct tauti_table table;
	uint32_t n = 0;

	while (n < d->n_ops && n < OPS_SHOWN &&
		is_worth(g, d->ops[n].b_ns - d->ops[n].a_ns))
		n++;
	if (!n)
		return;
	tauti_sheet_heading(g->t.sheet, "Operations that differ most",
		"ms a step, mean of the ranks, hidden or not");
	tauti_table_begin(&table, g->t.sheet, heads, 7);
	for (uint32_t i = 0; i < n; i++)
		add_op(g, &table, &d->ops[i]);
	tauti_table_end(&table);
}

static void say_trust(const struct page *g)
{
	const struct tauti_diff *d = g->d;

	if (!d->same_ranks)
		tauti_sheet_wrap(g->t.sheet, "  - ", "The recordings have not "
			"the same ranks: times are carried over as means over "
			"the ranks.", TAUTI_PLAIN);
	if (!d->a_marked || !d->b_marked)
		tauti_sheet_wrap(g->t.sheet, "  - ", tauti_sheet_text(g->t.sheet,
			"%s: all of it counts as one step, so both must be of as "
			"much work.", d->a_marked ? "B marks no steps" :
			d->b_marked ? "A marks no steps" :
			"The recordings mark no steps"), TAUTI_PLAIN);
}

static void say_notes(const struct page *g)
{
	const struct taut_report *a = g->d->a, *b = g->d->b;

	if (!a->n_notes && !b->n_notes)
		return;
	tauti_sheet_heading(g->t.sheet, "Notes", "");
	tauti_text_notes(g->t.sheet, "  A - ", a->notes, a->n_notes);
	tauti_text_notes(g->t.sheet, "  B - ", b->notes, b->n_notes);
}

taut_status tauti_diff_text(const struct tauti_diff *diff,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr)
{
	struct tauti_sheet sheet;
	int64_t step = diff->a->steady_ns;
	struct page g = { .d = diff, .t = { .report = diff->a,
		.sheet = &sheet, .decimals = step >= 100000000 ? 1 :
			step >= 10000000 ? 2 : 3, .steps = 1,
		.step_ns = step } };
	taut_status status = tauti_sheet_begin(&sheet, out,
		tauti_text_width(options), options && options->colour, reterr);

	if (status)
		return status;
	say_answer(&g);
	say_waterfall(&g);
	say_trust(&g);
	say_path(&g);
	say_colls(&g);
	say_ops(&g);
	say_notes(&g);
	return tauti_sheet_end(&sheet, reterr);
}
