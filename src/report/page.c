/* page.c - see page.h. */
#include "report/page.h"

#include <math.h>
#include <string.h>

#include "base/asset.h"
#include "report/number.h"

/* --- the template -------------------------------------------------------------------- */

struct filler {
	const struct tauti_page_part *parts;
	size_t n_parts;
	const void *context;
	struct tauti_put put;
};

static void put_part(struct filler *f, const char *name, size_t len)
{
	for (size_t i = 0; i < f->n_parts; i++)
		if (strlen(f->parts[i].name) == len &&
			!memcmp(f->parts[i].name, name, len))
			f->parts[i].put(f->context, &f->put);
}

taut_status tauti_page_write(const char *asset,
	const struct tauti_page_part *parts, size_t n_parts,
	const void *context, FILE *out, struct taut_error *reterr)
{
	const struct tauti_asset *page = tauti_asset_find(asset);
	struct filler f = { .parts = parts, .n_parts = n_parts,
		.context = context };
	const char *text, *open, *close;

	if (!page)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"this library was built without %s", asset);
	tauti_put_begin(&f.put, out);
	text = page->text;
	while ((open = strstr(text, "{{")) != NULL &&
		(close = strstr(open, "}}")) != NULL) {
		tauti_put_bytes(&f.put, text, (size_t)(open - text));
		put_part(&f, open + 2, (size_t)(close - open - 2));
		text = close + 2;
	}
	tauti_put_text(&f.put, text);
	return tauti_put_end(&f.put, reterr);
}

/* --- text ---------------------------------------------------------------------------- */

void tauti_page_text(struct tauti_put *put, const char *text)
{
	for (const char *s = text; *s; s++) {
		if (*s == '<' || *s == '&' || *s == '>' || *s == '"')
			tauti_put_text(put, *s == '<' ? "&lt;" : *s == '&' ?
				"&amp;" : *s == '>' ? "&gt;" : "&quot;");
		else
			tauti_put_char(put, (unsigned char)*s < ' ' ? ' ' : *s);
	}
}

void tauti_page_real(struct tauti_put *put, double value, int decimals)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(value, decimals, text);

	tauti_put_text(put, number ? number : "0");
}

void tauti_page_ms(struct tauti_put *put, int64_t ns)
{
	char text[TAUTI_NUMBER_BYTES];

	tauti_put_text(put, tauti_number_ms(ns, 3, text));
}

/* --- SVG ------------------------------------------------------------------------------ */

void tauti_page_xy(struct tauti_put *put, double x, double y)
{
	tauti_page_real(put, x, 1);
	tauti_put_char(put, ',');
	tauti_page_real(put, y, 1);
	tauti_put_char(put, ' ');
}

void tauti_page_line(struct tauti_put *put, const char *style, double x1,
	double y1, double x2, double y2)
{
	const struct { const char *name; double value; } ends[] = {
		{ "\" x1=\"", x1 }, { "\" y1=\"", y1 }, { "\" x2=\"", x2 },
		{ "\" y2=\"", y2 } };

	tauti_put_text(put, "<line class=\"");
	tauti_put_text(put, style);
	for (size_t i = 0; i < 4; i++) {
		tauti_put_text(put, ends[i].name);
		tauti_page_real(put, ends[i].value, 1);
	}
	tauti_put_text(put, "\"/>\n");
}

void tauti_page_label(
	struct tauti_put *put, double x, double y, const char *anchor)
{
	tauti_put_text(put, "<text x=\"");
	tauti_page_real(put, x, 1);
	tauti_put_text(put, "\" y=\"");
	tauti_page_real(put, y, 1);
	tauti_put_text(put, "\" text-anchor=\"");
	tauti_put_text(put, anchor);
	tauti_put_text(put, "\">");
}

double tauti_page_grid(double span, int n_lines)
{
	double raw = span / n_lines, power = pow(10, floor(log10(raw)));

	return power * (raw / power < 1.5 ? 1 : raw / power < 3.5 ? 2 :
		raw / power < 7.5 ? 5 : 10);
}
