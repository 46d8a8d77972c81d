/* whatif_page.c - a sweep as one HTML file: the curve of the step with its
 * interval, drawn as SVG, and the numbers below it. web/sweep.html says with
 * {{name}} where each part goes. */
#include <math.h>

#include "report/page.h"
#include "report/whatif.h"

enum { WIDTH = 840, HEIGHT = 420, LEFT = 70, RIGHT = 20, TOP = 20,
	BOTTOM = 50, Y_LINES = 5, X_LABELS = 12 };

struct curve {
	const struct tauti_sweep_view *view;
	const struct tauti_sweep *sweep;
	double x_low, x_high; /* of the axis: values, logarithms or places */
	bool by_place, by_log;
	double y_high; /* ms; the axis begins at 0 */
};

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

static void put_axes(const struct curve *c, struct tauti_put *put)
{
	double step = tauti_page_grid(c->y_high, Y_LINES);
	uint32_t every = c->sweep->n_points / X_LABELS + 1;
	int decimals = step < 0.1 ? 3 : step < 1 ? 1 : 0;

	for (int i = 0; i * step <= c->y_high; i++) {
		double y = y_of(c, (int64_t)(i * step * 1e6));

		tauti_page_line(put, "grid", LEFT, y, WIDTH - RIGHT, y);
		tauti_page_label(put, LEFT - 8, y + 4, "end");
		tauti_page_real(put, i * step, decimals);
		tauti_put_text(put, i ? "</text>\n" : " ms</text>\n");
	}
	for (uint32_t i = 0; i < c->sweep->n_points; i += every) {
		tauti_page_label(
			put, x_of(c, i), HEIGHT - BOTTOM + 20, "middle");
		tauti_page_text(put, c->sweep->points[i].value);
		tauti_put_text(put, "</text>\n");
	}
	tauti_page_label(put, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 10,
		"middle");
	tauti_page_text(put, c->sweep->name);
	tauti_put_text(put, "</text>\n");
}

/* --- the curve -------------------------------------------------------------------------- */

static void put_band(const struct curve *c, struct tauti_put *put)
{
	const struct tauti_sweep *s = c->sweep;

	tauti_put_text(put, "<polygon class=\"band\" points=\"");
	for (uint32_t i = 0; i < s->n_points; i++)
		tauti_page_xy(put, x_of(c, i), y_of(c, s->points[i].high_ns));
	for (uint32_t i = s->n_points; i-- > 0;)
		tauti_page_xy(put, x_of(c, i), y_of(c, s->points[i].low_ns));
	tauti_put_text(put, "\"/>\n<polyline class=\"curve\" points=\"");
	for (uint32_t i = 0; i < s->n_points; i++)
		tauti_page_xy(put, x_of(c, i), y_of(c, s->points[i].after_ns));
	tauti_put_text(put, "\"/>\n");
}

static void put_point(
	const struct curve *c, struct tauti_put *put, uint32_t i)
{
	const struct tauti_sweep_point *p = &c->sweep->points[i];

	tauti_page_line(put, "whisker", x_of(c, i), y_of(c, p->low_ns),
		x_of(c, i), y_of(c, p->high_ns));
	tauti_put_text(put, "<circle class=\"point\" r=\"3.5\" cx=\"");
	tauti_page_real(put, x_of(c, i), 1);
	tauti_put_text(put, "\" cy=\"");
	tauti_page_real(put, y_of(c, p->after_ns), 1);
	tauti_put_text(put, "\"><title>");
	tauti_page_text(put, p->value);
	tauti_put_text(put, ": ");
	tauti_page_ms(put, p->after_ns);
	tauti_put_text(put, " ms, with 95 % between ");
	tauti_page_ms(put, p->low_ns);
	tauti_put_text(put, " and ");
	tauti_page_ms(put, p->high_ns);
	tauti_put_text(put, "</title></circle>\n");
}

static void put_curve(const void *context, struct tauti_put *put)
{
	const struct curve *c = context;
	const struct tauti_sweep *s = c->sweep;

	if (!s->n_points)
		return;
	tauti_put_text(put, "<svg viewBox=\"0 0 840 420\" role=\"img\" "
		"aria-label=\"Time of a step by ");
	tauti_page_text(put, s->name);
	tauti_put_text(put, "\">\n");
	put_axes(c, put);
	tauti_page_line(put, "before", LEFT, y_of(c, s->points[0].before_ns),
		WIDTH - RIGHT, y_of(c, s->points[0].before_ns));
	tauti_page_label(put, WIDTH - RIGHT,
		y_of(c, s->points[0].before_ns) - 5, "end");
	tauti_put_text(put, "unchanged</text>\n");
	put_band(c, put);
	for (uint32_t i = 0; i < s->n_points; i++)
		put_point(c, put, i);
	tauti_put_text(put, "</svg>");
}

/* --- the other parts ----------------------------------------------------------------------- */

static void put_title(const void *context, struct tauti_put *put)
{
	const struct curve *c = context;
	const struct taut_run *run = c->view->before->run;

	tauti_page_text(put, run && run->path ? run->path : "recording");
	tauti_put_text(put, ": a step by ");
	tauti_page_text(put, c->sweep->name);
}

static void put_before(const void *context, struct tauti_put *put)
{
	const struct curve *c = context;

	tauti_put_text(put, "A step takes ");
	tauti_page_ms(put, c->sweep->n_points ?
		c->sweep->points[0].before_ns : 0);
	tauti_put_text(put, " ms unchanged. The band is where a step is "
		"expected with 95 %.");
	for (size_t i = 0; i < c->view->n_changes; i++) {
		tauti_put_text(put, i ? " " : " In all points: ");
		tauti_page_text(put, c->view->changes[i]);
	}
}

static void put_table(const void *context, struct tauti_put *put)
{
	const struct curve *c = context;

	tauti_put_text(put, "<table><tr><th>");
	tauti_page_text(put, c->sweep->name);
	tauti_put_text(put, "</th><th>step, ms</th><th>low</th>"
		"<th>high</th><th>times as fast</th></tr>\n");
	for (uint32_t i = 0; i < c->sweep->n_points; i++) {
		const struct tauti_sweep_point *p = &c->sweep->points[i];
		const int64_t times[] = { p->after_ns, p->low_ns, p->high_ns };

		tauti_put_text(put, "<tr><td>");
		tauti_page_text(put, p->value);
		for (size_t k = 0; k < 3; k++) {
			tauti_put_text(put, "</td><td>");
			tauti_page_ms(put, times[k]);
		}
		tauti_put_text(put, "</td><td>");
		tauti_page_real(put, p->after_ns > 0 ? p->samples_factor *
			(double)p->before_ns / (double)p->after_ns : 0, 3);
		tauti_put_text(put, "</td></tr>\n");
	}
	tauti_put_text(put, "</table>");
}

taut_status tauti_sweep_html(const struct tauti_sweep_view *view, FILE *out,
	struct taut_error *reterr)
{
	static const struct tauti_page_part parts[] = {
		{ "title", put_title }, { "heading", put_title },
		{ "before", put_before }, { "curve", put_curve },
		{ "table", put_table } };
	struct curve c = { .view = view, .sweep = view->sweep };

	choose_axes(&c);
	return tauti_page_write("sweep.html", parts,
		sizeof parts / sizeof *parts, &c, out, reterr);
}
