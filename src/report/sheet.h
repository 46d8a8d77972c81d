/* sheet.h - lines and tables for a terminal, measured in columns.
 *
 * A sheet writes to a stream through a tauti_put; a table gathers its cells
 * first, for the widest one decides. Text that goes in is either ours (plain
 * text and the colours below) or a name, which is made harmless and fitting
 * (label.h).
 * Owner:   cells live in the sheet's arena. When memory runs out the sheet
 *          remembers it, and tauti_sheet_end() says so.
 * Threads: one at a time. */
#ifndef TAUT_REPORT_SHEET_H
#define TAUT_REPORT_SHEET_H

#include <stdbool.h>

#include "base/vec.h"
#include "report/put.h"

enum tauti_style {
	TAUTI_PLAIN, TAUTI_BOLD, TAUTI_DIM,
	TAUTI_RED, TAUTI_GREEN, TAUTI_YELLOW, TAUTI_BLUE, TAUTI_MAGENTA,
	TAUTI_CYAN,
};

struct tauti_sheet {
	struct tauti_put put;
	struct taut_arena *arena;
	int width;   /* columns */
	bool colour;
	bool failed; /* out of memory */
};

taut_status tauti_sheet_begin(struct tauti_sheet *sheet, FILE *out, int width,
	bool colour, struct taut_error *reterr);
/* TAUT_ENOMEM or TAUT_EIO when not all of it was written. Frees the arena. */
taut_status tauti_sheet_end(struct tauti_sheet *sheet, struct taut_error *reterr);

/* Text in the sheet's arena; "" when there is no memory. */
const char *tauti_sheet_text(struct tauti_sheet *sheet, const char *fmt, ...)
	TAUT_PRINTF(2, 3);
/* text within the style's colour, or text itself on a sheet without. */
const char *tauti_sheet_style(
	struct tauti_sheet *sheet, enum tauti_style style, const char *text);
/* A name in at most columns, in the arena. */
const char *tauti_sheet_name(
	struct tauti_sheet *sheet, const char *name, int columns);

void tauti_sheet_line(struct tauti_sheet *sheet, const char *text);
void tauti_sheet_blank(struct tauti_sheet *sheet);
/* An empty line, then title in bold and a remark, dim and to the right. */
void tauti_sheet_heading(
	struct tauti_sheet *sheet, const char *title, const char *remark);
/* Words broken into lines. The first line begins with `first`; the others are
 * indented by as many columns as `first` has. Control characters of text
 * become spaces. */
void tauti_sheet_wrap(struct tauti_sheet *sheet, const char *first,
	const char *text, enum tauti_style style);

/* --- tables ------------------------------------------------------------------*/

enum tauti_align { TAUTI_LEFT, TAUTI_RIGHT };

struct tauti_column {
	const char *title;
	enum tauti_align align;
	bool name; /* its cells are names, and share what width is left */
};

struct tauti_cell {
	const char *text;
	enum tauti_style style;
};

enum { TAUTI_TABLE_COLUMNS = 16 };

struct tauti_table {
	struct tauti_sheet *sheet;
	const struct tauti_column *columns; /* the caller's, until _end */
	size_t n_columns; /* at most TAUTI_TABLE_COLUMNS */
	TAUT_VEC(struct tauti_cell) cells; /* row by row */
};

void tauti_table_begin(struct tauti_table *table, struct tauti_sheet *sheet,
	const struct tauti_column *columns, size_t n_columns);
/* The next cell of the row; text is kept, not copied. */
void tauti_table_cell(
	struct tauti_table *table, const char *text, enum tauti_style style);
/* Columns that the cells so far leave free, if names stay whole. */
int tauti_table_left(const struct tauti_table *table);
/* Prints head and rows, indented by two columns, and frees the cells. */
void tauti_table_end(struct tauti_table *table);

#endif /* TAUT_REPORT_SHEET_H */
