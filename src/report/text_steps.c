/* text_steps.c - where a step goes: a row per rank, or per step of one rank,
 * each with a bar. Of very many ranks only those that tell something. */
#include <stdlib.h>
#include <string.h>

#include "explain/steps.h"
#include "report/label.h"
#include "report/names.h"
#include "report/text.h"

enum {
	FOLD_ABOVE = 16,  /* rows */
	OUTLIERS = 8,     /* shown of a folded table */
	LEAST_BAR = 8, MOST_BAR = 32, /* columns */
};
static const double outlier_share = 0.05; /* of a median step */

static const struct {
	const char *glyph;
	enum tauti_style style;
} fills[TAUT_CATEGORIES] = {
	[TAUT_CAT_COMPUTE] = { "\xe2\x96\x88", TAUTI_GREEN },
	[TAUT_CAT_COMM_EXPOSED] = { "\xe2\x96\x93", TAUTI_BLUE },
	[TAUT_CAT_COMM_WAIT] = { "\xe2\x96\x92", TAUTI_RED },
	[TAUT_CAT_HOST_BOUND] = { "\xe2\x96\x91", TAUTI_YELLOW },
	[TAUT_CAT_DATA] = { "\xe2\x96\x9e", TAUTI_MAGENTA },
	[TAUT_CAT_COPY] = { "\xe2\x96\x96", TAUTI_CYAN },
	[TAUT_CAT_OTHER] = { "\xc2\xb7", TAUTI_DIM },
};

struct row {
	int64_t label;      /* rank or step */
	const char *remark; /* "longest" */
	int64_t n;          /* steps that were added up */
	int64_t step, overlapped, ns[TAUT_CATEGORIES];
	int64_t distance;   /* from the medians; of a folded table */
};

struct rows {
	struct row *data;
	uint32_t n;
	bool by_rank;
	struct row mean;
	bool shows[TAUT_CATEGORIES], shows_overlap;
};

static void add_step(struct row *row, const struct taut_report_step *s)
{
	row->n++;
	row->step += s->measured_ns;
	row->overlapped += s->overlapped_ns;
	for (int c = 0; c < TAUT_CATEGORIES; c++)
		row->ns[c] += s->ns[c];
}

static void divide(struct row *row)
{
	if (row->n < 2)
		return;
	row->step /= row->n;
	row->overlapped /= row->n;
	for (int c = 0; c < TAUT_CATEGORIES; c++)
		row->ns[c] /= row->n;
}

/* Steps come by (rank, step). */
static void gather(const struct taut_report *r, struct rows *rows)
{
	for (uint32_t i = 0; i < r->n_steps; i++) {
		const struct taut_report_step *s = &r->steps[i];
		bool first = !i || s->rank != s[-1].rank;
		bool counts = tauti_step_counts(r, i);

		if (!rows->by_rank || first) {
			rows->data[rows->n++] = (struct row){
				.label = rows->by_rank ? s->rank : s->id,
				.remark = "" };
		}
		if (!rows->by_rank || counts)
			add_step(&rows->data[rows->n - 1], s);
		if (counts)
			add_step(&rows->mean, s);
	}
	for (uint32_t i = 0; i < rows->n; i++)
		divide(&rows->data[i]);
	divide(&rows->mean);
}

static bool several_ranks(const struct taut_report *r)
{
	for (uint32_t i = 1; i < r->n_steps; i++)
		if (r->steps[i].rank != r->steps[0].rank)
			return true;
	return false;
}

/* A column in which every cell would read 0.0 says nothing. */
static void choose_columns(const struct tauti_text *t, struct rows *rows)
{
	int64_t least = t->decimals == 1 ? 50000 :
		t->decimals == 2 ? 5000 : 500;

	for (uint32_t i = 0; i < rows->n; i++) {
		for (int c = 0; c < TAUT_CATEGORIES; c++)
			rows->shows[c] |= rows->data[i].ns[c] >= least;
		rows->shows_overlap |= rows->data[i].overlapped >= least;
	}
}

/* --- bars ------------------------------------------------------------------------*/

/* Boundaries are rounded, not lengths: a bar is as long as its step. */
static const char *step_bar(const struct tauti_text *t, const struct row *row,
	int64_t longest, int columns)
{
	char bar[4 * MOST_BAR + TAUT_CATEGORIES * 16 + 1], piece[4 * MOST_BAR];
	int64_t sum = 0;
	int at = 0;

	bar[0] = '\0';
	for (int c = 0; c < TAUT_CATEGORIES && longest > 0; c++) {
		sum += row->ns[c];
		int to = (int)((double)sum / (double)longest * columns + 0.5);

		piece[0] = '\0';
		for (; at < to && at < columns; at++)
			strcat(piece, fills[c].glyph);
		strcat(bar, tauti_sheet_style(
			t->sheet, fills[c].style, piece));
	}
	return tauti_sheet_text(t->sheet, "%s", bar);
}

static void say_legend(const struct tauti_text *t, const struct rows *rows)
{
	const char *line = "";

	for (int c = 0; c < TAUT_CATEGORIES; c++)
		if (rows->shows[c])
			line = tauti_sheet_text(t->sheet, "%s  %s %s", line,
				tauti_sheet_style(t->sheet, fills[c].style,
				fills[c].glyph), tauti_sheet_style(t->sheet,
				TAUTI_DIM, tauti_category_column(
				(enum taut_category)c)));
	if (rows->shows_overlap) {
		const char *more = "(hidden): communication under computation";
		int columns = tauti_columns(line) + tauti_columns(more);

		line = tauti_sheet_text(t->sheet, "%s%s%s", line,
			columns + 3 > t->sheet->width ? "\n  " : "   ",
			tauti_sheet_style(t->sheet, TAUTI_DIM, more));
	}
	tauti_sheet_line(t->sheet, line);
}

/* --- folding -----------------------------------------------------------------------*/

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int by_distance(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->distance != y->distance)
		return x->distance > y->distance ? -1 : 1;
	return x->label < y->label ? -1 : 1;
}

static int by_label(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->label < y->label ? -1 : x->label > y->label;
}

/* Adds |value - median| of one column to each row's distance. */
static int64_t add_distance(struct rows *rows, size_t offset, int64_t *values)
{
	int64_t median;

	for (uint32_t i = 0; i < rows->n; i++)
		memcpy(&values[i], (char *)&rows->data[i] + offset,
			sizeof values[i]);
	qsort(values, rows->n, sizeof *values, by_value);
	median = values[rows->n / 2];
	for (uint32_t i = 0; i < rows->n; i++) {
		int64_t value;

		memcpy(&value, (char *)&rows->data[i] + offset, sizeof value);
		rows->data[i].distance += llabs(value - median);
	}
	return median;
}

static void name_extremes(struct rows *rows)
{
	struct row *longest = rows->data, *shortest = rows->data;

	for (uint32_t i = 1; i < rows->n; i++) {
		if (rows->data[i].step > longest->step)
			longest = &rows->data[i];
		if (rows->data[i].step < shortest->step)
			shortest = &rows->data[i];
	}
	longest->remark = "longest";
	if (shortest != longest)
		shortest->remark = "shortest";
}

/* Keeps the rows that differ most, the longest, the shortest, and the one
 * nearest to the median. False: no memory. */
static bool fold(struct rows *rows)
{
	int64_t *values = malloc(rows->n * sizeof *values), median;
	uint32_t kept = 0, outliers = 0;

	if (!values)
		return false;
	median = add_distance(rows, offsetof(struct row, step), values);
	for (size_t c = 0; c < TAUT_CATEGORIES; c++)
		add_distance(rows, offsetof(struct row, ns) +
			c * sizeof(int64_t), values);
	free(values);
	name_extremes(rows);
	qsort(rows->data, rows->n, sizeof *rows->data, by_distance);
	if (!*rows->data[rows->n - 1].remark)
		rows->data[rows->n - 1].remark = "median";
	for (uint32_t i = 0; i < rows->n; i++) {
		struct row *row = &rows->data[i];
		bool outlier = outliers < OUTLIERS && (double)row->distance >
			outlier_share * (double)median;

		outliers += outlier;
		if (outlier || *row->remark)
			rows->data[kept++] = *row;
	}
	rows->n = kept;
	qsort(rows->data, rows->n, sizeof *rows->data, by_label);
	return true;
}

/* --- the table -----------------------------------------------------------------------*/

static size_t choose_heads(const struct rows *rows, bool folded,
	struct tauti_column heads[TAUTI_TABLE_COLUMNS])
{
	size_t n = 0;

	heads[n++] = (struct tauti_column){ rows->by_rank ? "rank" : "step",
		TAUTI_RIGHT, false };
	if (folded)
		heads[n++] = (struct tauti_column){ "", TAUTI_LEFT, false };
	heads[n++] = (struct tauti_column){ rows->by_rank ? "step" : "ms",
		TAUTI_RIGHT, false };
	for (int c = 0; c < TAUT_CATEGORIES; c++)
		if (rows->shows[c])
			heads[n++] = (struct tauti_column){
				tauti_category_column((enum taut_category)c),
				TAUTI_RIGHT, false };
	if (rows->shows_overlap)
		heads[n++] = (struct tauti_column){ "(hidden)", TAUTI_RIGHT,
			false };
	heads[n++] = (struct tauti_column){ "", TAUTI_LEFT, false };
	return n;
}

static void add_row(const struct tauti_text *t, struct tauti_table *table,
	const struct rows *rows, const struct row *row, const char *label,
	bool folded)
{
	enum tauti_style style = row == &rows->mean ? TAUTI_BOLD : TAUTI_PLAIN;

	tauti_table_cell(table, label, style);
	if (folded)
		tauti_table_cell(table, row->remark, TAUTI_DIM);
	tauti_table_cell(table, tauti_text_ms(t, row->step), style);
	for (int c = 0; c < TAUT_CATEGORIES; c++)
		if (rows->shows[c])
			tauti_table_cell(table, tauti_text_ms(t, row->ns[c]),
				style);
	if (rows->shows_overlap)
		tauti_table_cell(table, tauti_sheet_text(t->sheet, "(%s)",
			tauti_text_ms(t, row->overlapped)), TAUTI_DIM);
	tauti_table_cell(table, "", TAUTI_PLAIN);
}

/* True when there was room for bars. */
static bool add_bars(const struct tauti_text *t, struct tauti_table *table,
	const struct rows *rows)
{
	int columns = tauti_table_left(table);
	int64_t longest = 0;
	size_t n = table->n_columns;

	if (columns > MOST_BAR)
		columns = MOST_BAR;
	for (uint32_t i = 0; i < rows->n; i++)
		if (rows->data[i].step > longest)
			longest = rows->data[i].step;
	if (columns < LEAST_BAR || table->cells.count < (rows->n + 1) * n)
		return false;
	for (uint32_t i = 0; i <= rows->n; i++)
		table->cells.data[(i + 1) * n - 1].text = step_bar(t,
			i < rows->n ? &rows->data[i] : &rows->mean, longest,
			columns);
	return true;
}

static void say_rows(
	const struct tauti_text *t, const struct rows *rows, bool folded)
{
	struct tauti_column heads[TAUTI_TABLE_COLUMNS];
	struct tauti_table table;
	bool bars;

	tauti_table_begin(&table, t->sheet, heads,
		choose_heads(rows, folded, heads));
	for (uint32_t i = 0; i < rows->n; i++)
		add_row(t, &table, rows, &rows->data[i], tauti_sheet_text(
			t->sheet, "%lld", (long long)rows->data[i].label),
			folded);
	add_row(t, &table, rows, &rows->mean, "mean", folded);
	bars = add_bars(t, &table, rows);
	tauti_table_end(&table);
	if (bars)
		say_legend(t, rows);
}

/* One step of one rank needs no table of ranks. */
static void say_single(const struct tauti_text *t, const struct rows *rows)
{
	static const struct tauti_column heads[] = {
		{ "", TAUTI_LEFT, false }, { "ms", TAUTI_RIGHT, false },
		{ "%", TAUTI_RIGHT, false }, { "", TAUTI_LEFT, false } };
	const struct row *row = &rows->data[0];
	struct tauti_table table;

	tauti_table_begin(&table, t->sheet, heads, 4);
	for (int c = 0; c < TAUT_CATEGORIES; c++) {
		if (!rows->shows[c])
			continue;
		tauti_table_cell(&table, taut_category_title(
			(enum taut_category)c), TAUTI_PLAIN);
		tauti_table_cell(&table, tauti_text_ms(t, row->ns[c]),
			TAUTI_PLAIN);
		tauti_table_cell(&table, tauti_text_pct(t, row->ns[c],
			row->step), TAUTI_PLAIN);
		tauti_table_cell(&table, tauti_text_bar(t, row->ns[c],
			row->step, MOST_BAR, fills[c].style), TAUTI_PLAIN);
	}
	tauti_table_end(&table);
	if (rows->shows_overlap)
		tauti_sheet_line(t->sheet, tauti_sheet_text(t->sheet,
			"  and %s ms of communication under computation",
			tauti_text_ms(t, row->overlapped)));
}

static const char *remark_for(const struct tauti_text *t,
	const struct rows *rows)
{
	if (rows->by_rank && t->steps > 1)
		return "ms; mean of the steps after the first";
	return rows->n > 1 ? "ms" : "";
}

static void say_fold(const struct tauti_text *t, const struct rows *rows,
	uint32_t all)
{
	tauti_sheet_wrap(t->sheet, "  ", tauti_sheet_text(t->sheet,
		"%u of %u %s: the longest, the shortest, the one nearest to "
		"the median, and those that differ most from it. The others "
		"are close to the median; --all shows every row.", rows->n,
		all, rows->by_rank ? "ranks" : "steps"), TAUTI_DIM);
}

void tauti_text_steps(const struct tauti_text *t)
{
	const struct taut_report *r = t->report;
	struct rows rows = { .by_rank = several_ranks(r),
		.mean = { .remark = "" } };
	uint32_t all;
	bool folded;

	if (!r->n_steps)
		return;
	rows.data = calloc(r->n_steps, sizeof *rows.data);
	if (!rows.data) {
		t->sheet->failed = true;
		return;
	}
	gather(r, &rows);
	choose_columns(t, &rows);
	all = rows.n;
	folded = all > FOLD_ABOVE && !t->all;
	if (folded && !fold(&rows))
		t->sheet->failed = true;
	tauti_sheet_heading(t->sheet, "Where a step goes", remark_for(t, &rows));
	if (all == 1)
		say_single(t, &rows);
	else
		say_rows(t, &rows, folded);
	if (folded)
		say_fold(t, &rows, all);
	free(rows.data);
}
