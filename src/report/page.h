/* page.h - what the pages with a drawing share: text that is safe in HTML, pieces
 * of SVG, and a template of web/ that says with {{name}} where each part goes. */
#ifndef TAUT_REPORT_PAGE_H
#define TAUT_REPORT_PAGE_H

#include "report/put.h"

struct tauti_page_part {
	const char *name; /* {{name}} in the template */
	void (*put)(const void *context, struct tauti_put *put);
};

/* The template, with its parts; a name that is no part is nothing. TAUT_EINVAL: it
 * was not built in; TAUT_EIO: out refused. */
taut_status tauti_page_write(const char *asset,
	const struct tauti_page_part *parts, size_t n_parts,
	const void *context, FILE *out, struct taut_error *reterr);

/* In an element or an attribute's quotes. */
void tauti_page_text(struct tauti_put *put, const char *text);
/* 0 for what has no such number. */
void tauti_page_real(struct tauti_put *put, double value, int decimals);
void tauti_page_ms(struct tauti_put *put, int64_t ns);

/* --- SVG ------------------------------------------------------------------------ */
/* "12.0,34.5 " */
void tauti_page_xy(struct tauti_put *put, double x, double y);
void tauti_page_line(struct tauti_put *put, const char *style, double x1,
	double y1, double x2, double y2);
/* Begins a text: the caller puts it, and </text>. */
void tauti_page_label(
	struct tauti_put *put, double x, double y, const char *anchor);
/* 1, 2 or 5 times a power of ten, so that about n_lines of it make up span > 0. */
double tauti_page_grid(double span, int n_lines);

#endif /* TAUT_REPORT_PAGE_H */
