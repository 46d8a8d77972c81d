/* sheet.c - see sheet.h. */
#include "report/sheet.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report/label.h"

enum { GAP = 2, INDENT = 2, LEAST_NAME_COLUMNS = 12 };

taut_status tauti_sheet_begin(struct tauti_sheet *sheet, FILE *out, int width,
	bool colour, struct taut_error *reterr)
{
	tauti_put_begin(&sheet->put, out);
	sheet->arena = taut_arena_create();
	sheet->width = width;
	sheet->colour = colour;
	sheet->failed = false;
	if (!sheet->arena)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for the report's text");
	return TAUT_OK;
}

taut_status tauti_sheet_end(
	struct tauti_sheet *sheet, struct taut_error *reterr)
{
	taut_status status = tauti_put_end(&sheet->put, reterr);

	taut_arena_destroy(sheet->arena);
	sheet->arena = NULL;
	if (!status && sheet->failed)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for the report's text");
	return status;
}

static const char *keep(struct tauti_sheet *sheet, const char *text)
{
	char *copy = taut_arena_strndup(sheet->arena, text, strlen(text));

	if (!copy)
		sheet->failed = true;
	return copy ? copy : "";
}

const char *tauti_sheet_text(struct tauti_sheet *sheet, const char *fmt, ...)
{
	char text[4096];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	return keep(sheet, text);
}

const char *tauti_sheet_style(
	struct tauti_sheet *sheet, enum tauti_style style, const char *text)
{
	static const char *const codes[] = { "", "\033[1m", "\033[2m",
		"\033[31m", "\033[32m", "\033[33m", "\033[34m", "\033[35m",
		"\033[36m" };

	if (!sheet->colour || style == TAUTI_PLAIN || !*text)
		return text;
	return tauti_sheet_text(sheet, "%s%s\033[0m", codes[style], text);
}

const char *tauti_sheet_name(
	struct tauti_sheet *sheet, const char *name, int columns)
{
	char label[TAUTI_LABEL_BYTES];

	return keep(sheet, tauti_label(name, columns, label));
}

void tauti_sheet_line(struct tauti_sheet *sheet, const char *text)
{
	tauti_put_text(&sheet->put, text);
	tauti_put_char(&sheet->put, '\n');
}

void tauti_sheet_blank(struct tauti_sheet *sheet)
{
	tauti_put_char(&sheet->put, '\n');
}

static void put_spaces(struct tauti_sheet *sheet, int n)
{
	for (; n > 0; n--)
		tauti_put_char(&sheet->put, ' ');
}

void tauti_sheet_heading(
	struct tauti_sheet *sheet, const char *title, const char *remark)
{
	int gap = sheet->width - tauti_columns(title) - tauti_columns(remark);

	tauti_sheet_blank(sheet);
	tauti_put_text(&sheet->put,
		tauti_sheet_style(sheet, TAUTI_BOLD, title));
	if (*remark) {
		put_spaces(sheet, gap > GAP ? gap : GAP);
		tauti_put_text(&sheet->put,
			tauti_sheet_style(sheet, TAUTI_DIM, remark));
	}
	tauti_sheet_blank(sheet);
}

/* --- words ---------------------------------------------------------------------*/

static bool is_space(char c)
{
	return (c > 0 && c <= ' ') || c == 0x7f;
}

/* The word at the front of text that still fits, at least one character. */
static size_t fitting(const char *text, size_t len, int columns)
{
	size_t n = 0, step;
	char one[8];

	while (n < len) {
		tauti_utf8_next(text + n, &step);
		memcpy(one, text + n, step);
		one[step] = '\0';
		columns -= tauti_columns(one);
		if (columns < 0 && n)
			return n;
		n += step;
	}
	return n;
}

static const char *next_word(const char *text, size_t *ret_length)
{
	while (is_space(*text))
		text++;
	*ret_length = 0;
	while (text[*ret_length] && !is_space(text[*ret_length]))
		++*ret_length;
	return text;
}

/* One line of words into a styled text; what is left is returned. */
static const char *wrap_line(struct tauti_sheet *sheet, const char *text,
	int columns, enum tauti_style style)
{
	char line[2048], clean[TAUTI_LABEL_BYTES];
	size_t n = 0, len;
	const char *word = next_word(text, &len);

	line[0] = '\0';
	while (len) {
		size_t part = fitting(word, len, n ? INT32_MAX : columns);
		const char *cut = tauti_sheet_text(
			sheet, "%.*s", (int)part, word);

		tauti_label_plain(cut, clean);
		if (n && tauti_columns(line) + 1 + tauti_columns(clean) >
			columns)
			break;
		if (n + strlen(clean) + 2 > sizeof line)
			break;
		n += (size_t)snprintf(line + n, sizeof line - n, "%s%s",
			n ? " " : "", clean);
		word = next_word(word + part, &len);
	}
	tauti_put_text(&sheet->put, tauti_sheet_style(sheet, style, line));
	tauti_sheet_blank(sheet);
	return word;
}

void tauti_sheet_wrap(struct tauti_sheet *sheet, const char *first,
	const char *text, enum tauti_style style)
{
	int indent = tauti_columns(first);
	int columns = sheet->width - indent;
	size_t len;

	if (columns < LEAST_NAME_COLUMNS)
		columns = LEAST_NAME_COLUMNS;
	tauti_put_text(&sheet->put, first);
	text = wrap_line(sheet, text, columns, style);
	for (text = next_word(text, &len); len; text = next_word(text, &len)) {
		put_spaces(sheet, indent);
		text = wrap_line(sheet, text, columns, style);
	}
}

/* --- tables --------------------------------------------------------------------*/

void tauti_table_begin(struct tauti_table *table, struct tauti_sheet *sheet,
	const struct tauti_column *columns, size_t n_columns)
{
	*table = (struct tauti_table){ .sheet = sheet, .columns = columns,
		.n_columns = n_columns };
}

void tauti_table_cell(
	struct tauti_table *table, const char *text, enum tauti_style style)
{
	struct tauti_cell cell = { text, style };

	if (!taut_vec_push(&table->cells, cell))
		table->sheet->failed = true;
}

static int cell_columns(
	const struct tauti_table *table, size_t column, const char *text)
{
	char label[TAUTI_LABEL_BYTES];

	if (table->columns[column].name)
		text = tauti_label(text, table->sheet->width, label);
	return tauti_columns(text);
}

static int natural_width(const struct tauti_table *table, size_t column)
{
	int widest = tauti_columns(table->columns[column].title);

	for (size_t i = column; i < table->cells.count; i += table->n_columns) {
		int columns = cell_columns(
			table, column, table->cells.data[i].text);

		if (columns > widest)
			widest = columns;
	}
	return widest;
}

int tauti_table_left(const struct tauti_table *table)
{
	int left = table->sheet->width - INDENT -
		GAP * ((int)table->n_columns - 1);

	for (size_t i = 0; i < table->n_columns; i++)
		left -= natural_width(table, i);
	return left;
}

/* Names get what the other columns leave, in equal shares; a share that its
 * column does not need goes to the others. */
static void share_width(const struct tauti_table *table, int *width)
{
	int left = table->sheet->width - INDENT -
		GAP * ((int)table->n_columns - 1);
	int names = 0, share;
	bool settled[TAUTI_TABLE_COLUMNS] = { false };

	for (size_t i = 0; i < table->n_columns; i++) {
		names += table->columns[i].name;
		left -= table->columns[i].name ? 0 : width[i];
	}
	for (bool more = true; more && names;) {
		more = false;
		share = left / names;
		for (size_t i = 0; i < table->n_columns; i++) {
			if (!table->columns[i].name || settled[i] ||
				width[i] > share)
				continue;
			settled[i] = more = true;
			left -= width[i];
			names--;
			break;
		}
	}
	for (size_t i = 0; i < table->n_columns; i++)
		if (table->columns[i].name && !settled[i]) {
			share = left / names;
			width[i] = share > LEAST_NAME_COLUMNS ? share :
				LEAST_NAME_COLUMNS;
		}
}

static void put_cell(struct tauti_table *table, size_t column, int width,
	const struct tauti_cell *cell, bool last)
{
	struct tauti_sheet *sheet = table->sheet;
	const char *text = cell->text;
	bool right = table->columns[column].align == TAUTI_RIGHT;

	if (table->columns[column].name)
		text = tauti_sheet_name(sheet, text, width);

	int pad = width - tauti_columns(text);

	if (right)
		put_spaces(sheet, pad);
	tauti_put_text(&sheet->put, tauti_sheet_style(sheet, cell->style, text));
	if (!right && !last)
		put_spaces(sheet, pad);
}

/* Without spaces at the end of the line. */
static void put_row(struct tauti_table *table, const int *width,
	const struct tauti_cell *cells)
{
	size_t n = table->n_columns;

	while (n > 1 && !*cells[n - 1].text)
		n--;
	put_spaces(table->sheet, INDENT);
	for (size_t i = 0; i < n; i++) {
		if (i)
			put_spaces(table->sheet, GAP);
		put_cell(table, i, width[i], &cells[i], i + 1 == n);
	}
	tauti_sheet_blank(table->sheet);
}

void tauti_table_end(struct tauti_table *table)
{
	int width[TAUTI_TABLE_COLUMNS];
	struct tauti_cell head[TAUTI_TABLE_COLUMNS];

	for (size_t i = 0; i < table->n_columns; i++) {
		width[i] = natural_width(table, i);
		head[i] = (struct tauti_cell){ table->columns[i].title,
			TAUTI_DIM };
	}
	share_width(table, width);
	put_row(table, width, head);
	for (size_t i = 0; i + table->n_columns <= table->cells.count;
		i += table->n_columns)
		put_row(table, width, table->cells.data + i);
	taut_vec_free(&table->cells);
}
