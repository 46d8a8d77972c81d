/* whatif_page.c - a sweep as one HTML file: the curve of the step with its
 * interval, drawn as SVG, and the numbers below it. web/sweep.html says with
 * {{name}} where each part goes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/asset.h"
#include "report/number.h"
#include "report/put.h"
#include "report/whatif.h"

enum { WIDTH = 840, HEIGHT = 420, LEFT = 70, RIGHT = 20, TOP = 20,
	BOTTOM = 50, Y_LINES = 5, X_LABELS = 12 };

struct curve {
	const struct tauti_sweep_view *view;
	const struct tauti_sweep *sweep;
	struct tauti_put *put;
	double x_low, x_high; /* of the axis: values, logarithms or places */
	bool by_place, by_log;
	double y_high; /* ms; the axis begins at 0 */
};

/* --- text --------------------------------------------------------------------------- */

static void put_html(struct tauti_put *put, const char *text)
{
	for (const char *s = text; *s; s++) {
		if (*s == '<' || *s == '&' || *s == '>' || *s == '"')
			tauti_put_text(put, *s == '<' ? "&lt;" : *s == '&' ?
				"&amp;" : *s == '>' ? "&gt;" : "&quot;");
		else
			tauti_put_char(put, (unsigned char)*s < ' ' ? ' ' : *s);
	}
}

static void put_real(struct tauti_put *put, double value, int decimals)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(value, decimals, text);

	tauti_put_text(put, number ? number : "0");
}

static void put_ms(struct tauti_put *put, int64_t ns)
{
	char text[TAUTI_NUMBER_BYTES];

	tauti_put_text(put, tauti_number_ms(ns, 3, text));
}

/* --- axes ---------------------------------------------------------------------------- */

static double place_of(const struct curve *c, uint32_t i)
{
	double x = c->sweep->points[i].x;

	return c->by_place ? i : c->by_log ? log(x) : x;
}

static void choose_axes(struct curve *c)
{
	const struct tauti_sweep *s = c->sweep;
	double low = INFINITY, high = -INFINITY;

	for (uint32_t i = 0; i < s->n_points; i++) {
		low = fmin(low, s->points[i].x);
		high = fmax(high, s->points[i].x);
		c->y_high = fmax(c->y_high, (double)s->points[i].high_ns / 1e6);
		c->y_high = fmax(
			c->y_high, (double)s->points[i].before_ns / 1e6);
	}
	c->by_place = !s->numeric;
	c->by_log = s->numeric && low > 0 && high / low >= 8;
	c->x_low = INFINITY;
	c->x_high = -INFINITY;
	for (uint32_t i = 0; i < s->n_points; i++) {
		c->x_low = fmin(c->x_low, place_of(c, i));
		c->x_high = fmax(c->x_high, place_of(c, i));
	}
	c->y_high = c->y_high > 0 ? c->y_high * 1.05 : 1;
}

static double x_of(const struct curve *c, uint32_t i)
{
	double span = c->x_high - c->x_low;

	return LEFT + (span > 0 ? (place_of(c, i) - c->x_low) / span : 0.5) *
		(WIDTH - LEFT - RIGHT);
}

static double y_of(const struct curve *c, int64_t ns)
{
	return HEIGHT - BOTTOM - (double)ns / 1e6 / c->y_high *
		(HEIGHT - TOP - BOTTOM);
}

static void put_xy(const struct curve *c, double x, double y)
{
	put_real(c->put, x, 1);
	tauti_put_char(c->put, ',');
	put_real(c->put, y, 1);
	tauti_put_char(c->put, ' ');
}

static void put_line(const struct curve *c, const char *style, double x1,
	double y1, double x2, double y2)
{
	const struct { const char *name; double value; } ends[] = {
		{ "\" x1=\"", x1 }, { "\" y1=\"", y1 }, { "\" x2=\"", x2 },
		{ "\" y2=\"", y2 } };

	tauti_put_text(c->put, "<line class=\"");
	tauti_put_text(c->put, style);
	for (size_t i = 0; i < 4; i++) {
		tauti_put_text(c->put, ends[i].name);
		put_real(c->put, ends[i].value, 1);
	}
	tauti_put_text(c->put, "\"/>\n");
}

static void put_label(const struct curve *c, double x, double y,
	const char *anchor)
{
	tauti_put_text(c->put, "<text x=\"");
	put_real(c->put, x, 1);
	tauti_put_text(c->put, "\" y=\"");
	put_real(c->put, y, 1);
	tauti_put_text(c->put, "\" text-anchor=\"");
	tauti_put_text(c->put, anchor);
	tauti_put_text(c->put, "\">");
}

/* 1, 2 or 5 times a power of ten: about Y_LINES of them fit below high. */
static double round_step(double high)
{
	double raw = high / Y_LINES, power = pow(10, floor(log10(raw)));

	return power * (raw / power < 1.5 ? 1 : raw / power < 3.5 ? 2 :
		raw / power < 7.5 ? 5 : 10);
}

static void put_axes(const struct curve *c)
{
	double step = round_step(c->y_high);
	uint32_t every = c->sweep->n_points / X_LABELS + 1;
	int decimals = step < 0.1 ? 3 : step < 1 ? 1 : 0;

	for (int i = 0; i * step <= c->y_high; i++) {
		double y = y_of(c, (int64_t)(i * step * 1e6));

		put_line(c, "grid", LEFT, y, WIDTH - RIGHT, y);
		put_label(c, LEFT - 8, y + 4, "end");
		put_real(c->put, i * step, decimals);
		tauti_put_text(c->put, i ? "</text>\n" : " ms</text>\n");
	}
	for (uint32_t i = 0; i < c->sweep->n_points; i += every) {
		put_label(c, x_of(c, i), HEIGHT - BOTTOM + 20, "middle");
		put_html(c->put, c->sweep->points[i].value);
		tauti_put_text(c->put, "</text>\n");
	}
	put_label(c, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 10, "middle");
	put_html(c->put, c->sweep->name);
	tauti_put_text(c->put, "</text>\n");
}

/* --- the curve -------------------------------------------------------------------------- */

static void put_band(const struct curve *c)
{
	const struct tauti_sweep *s = c->sweep;

	tauti_put_text(c->put, "<polygon class=\"band\" points=\"");
	for (uint32_t i = 0; i < s->n_points; i++)
		put_xy(c, x_of(c, i), y_of(c, s->points[i].high_ns));
	for (uint32_t i = s->n_points; i-- > 0;)
		put_xy(c, x_of(c, i), y_of(c, s->points[i].low_ns));
	tauti_put_text(c->put, "\"/>\n<polyline class=\"curve\" points=\"");
	for (uint32_t i = 0; i < s->n_points; i++)
		put_xy(c, x_of(c, i), y_of(c, s->points[i].after_ns));
	tauti_put_text(c->put, "\"/>\n");
}

static void put_point(const struct curve *c, uint32_t i)
{
	const struct tauti_sweep_point *p = &c->sweep->points[i];

	put_line(c, "whisker", x_of(c, i), y_of(c, p->low_ns), x_of(c, i),
		y_of(c, p->high_ns));
	tauti_put_text(c->put, "<circle class=\"point\" r=\"3.5\" cx=\"");
	put_real(c->put, x_of(c, i), 1);
	tauti_put_text(c->put, "\" cy=\"");
	put_real(c->put, y_of(c, p->after_ns), 1);
	tauti_put_text(c->put, "\"><title>");
	put_html(c->put, p->value);
	tauti_put_text(c->put, ": ");
	put_ms(c->put, p->after_ns);
	tauti_put_text(c->put, " ms, with 95 % between ");
	put_ms(c->put, p->low_ns);
	tauti_put_text(c->put, " and ");
	put_ms(c->put, p->high_ns);
	tauti_put_text(c->put, "</title></circle>\n");
}

static void put_curve(const struct curve *c)
{
	const struct tauti_sweep *s = c->sweep;

	if (!s->n_points)
		return;
	tauti_put_text(c->put, "<svg viewBox=\"0 0 840 420\" role=\"img\" "
		"aria-label=\"Time of a step by ");
	put_html(c->put, s->name);
	tauti_put_text(c->put, "\">\n");
	put_axes(c);
	put_line(c, "before", LEFT, y_of(c, s->points[0].before_ns),
		WIDTH - RIGHT, y_of(c, s->points[0].before_ns));
	put_label(c, WIDTH - RIGHT, y_of(c, s->points[0].before_ns) - 5, "end");
	tauti_put_text(c->put, "unchanged</text>\n");
	put_band(c);
	for (uint32_t i = 0; i < s->n_points; i++)
		put_point(c, i);
	tauti_put_text(c->put, "</svg>");
}

/* --- the other parts ----------------------------------------------------------------------- */

static void put_title(const struct curve *c)
{
	const struct taut_run *run = c->view->before->run;

	put_html(c->put, run && run->path ? run->path : "recording");
	tauti_put_text(c->put, ": a step by ");
	put_html(c->put, c->sweep->name);
}

static void put_before(const struct curve *c)
{
	tauti_put_text(c->put, "A step takes ");
	put_ms(c->put, c->sweep->n_points ? c->sweep->points[0].before_ns : 0);
	tauti_put_text(c->put, " ms unchanged. The band is where a step is "
		"expected with 95 %.");
	for (size_t i = 0; i < c->view->n_changes; i++) {
		tauti_put_text(c->put, i ? " " : " In all points: ");
		put_html(c->put, c->view->changes[i]);
	}
}

static void put_table(const struct curve *c)
{
	tauti_put_text(c->put, "<table><tr><th>");
	put_html(c->put, c->sweep->name);
	tauti_put_text(c->put, "</th><th>step, ms</th><th>low</th>"
		"<th>high</th><th>times as fast</th></tr>\n");
	for (uint32_t i = 0; i < c->sweep->n_points; i++) {
		const struct tauti_sweep_point *p = &c->sweep->points[i];
		const int64_t times[] = { p->after_ns, p->low_ns, p->high_ns };

		tauti_put_text(c->put, "<tr><td>");
		put_html(c->put, p->value);
		for (size_t k = 0; k < 3; k++) {
			tauti_put_text(c->put, "</td><td>");
			put_ms(c->put, times[k]);
		}
		tauti_put_text(c->put, "</td><td>");
		put_real(c->put, p->after_ns > 0 ? p->samples_factor *
			(double)p->before_ns / (double)p->after_ns : 0, 3);
		tauti_put_text(c->put, "</td></tr>\n");
	}
	tauti_put_text(c->put, "</table>");
}

static void put_part(const struct curve *c, const char *name, size_t len)
{
	static const struct {
		const char *name;
		void (*put)(const struct curve *c);
	} parts[] = { { "title", put_title }, { "heading", put_title },
		{ "before", put_before }, { "curve", put_curve },
		{ "table", put_table } };

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		if (strlen(parts[i].name) == len &&
			!memcmp(parts[i].name, name, len))
			parts[i].put(c);
}

taut_status tauti_sweep_html(const struct tauti_sweep_view *view, FILE *out,
	struct taut_error *reterr)
{
	const struct tauti_asset *page = tauti_asset_find("sweep.html");
	struct tauti_put put;
	struct curve c = { .view = view, .sweep = view->sweep, .put = &put };
	const char *text, *open, *close;

	if (!page)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"this library was built without sweep.html");
	choose_axes(&c);
	tauti_put_begin(&put, out);
	text = page->text;
	while ((open = strstr(text, "{{")) != NULL &&
		(close = strstr(open, "}}")) != NULL) {
		tauti_put_bytes(&put, text, (size_t)(open - text));
		put_part(&c, open + 2, (size_t)(close - open - 2));
		text = close + 2;
	}
	tauti_put_text(&put, text);
	return tauti_put_end(&put, reterr);
}
