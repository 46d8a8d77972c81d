/* plan_page.c - the frontier of a search as one HTML file: a step's time over memory
 * and over bytes on the network, drawn as SVG, and its points below. web/frontier.html
 * says with {{name}} where each part goes. */
#include <math.h>
#include <string.h>

#include "report/number.h"
#include "report/page.h"
#include "report/plan_out.h"

enum { WIDTH = 840, HEIGHT = 360, LEFT = 80, RIGHT = 24, TOP = 24, BOTTOM = 56,
	X_LINES = 6, Y_LINES = 5 };

struct place { /* of a stack of changes in a chart */
	int64_t step_ns, bytes;
};

struct chart {
	const struct tauti_plan_view *view;
	const char *what;     /* is on its lower axis */
	bool is_memory;       /* else the network */
	double x_low, x_high; /* bytes */
	double y_low, y_high; /* ns */
};

/* --- which points a chart has ----------------------------------------------------------- */

static int64_t bytes_of(
	const struct chart *c, int64_t memory, int64_t network)
{
	return c->is_memory ? memory : network;
}

static struct place point_at(const struct chart *c, uint32_t i)
{
	const struct taut_plan_point *p = &c->view->planned->points[i];

	return (struct place){ p->step_ns,
		bytes_of(c, p->memory_bytes, p->network_bytes) };
}

static struct place plan_at(const struct chart *c)
{
	const struct taut_plan *p = c->view->planned->plan;

	return (struct place){ p->after_ns,
		bytes_of(c, p->memory_after, p->network_after) };
}

static struct place before_at(const struct chart *c)
{
	const struct taut_plan *p = c->view->planned->plan;

	return (struct place){ p->before_ns,
		bytes_of(c, p->memory_before, p->network_before) };
}

static bool is_known(struct place at)
{
	return at.step_ns > 0 && at.bytes >= 0;
}

/* --- axes ----------------------------------------------------------------------------------- */

static void widen(struct chart *c, struct place at)
{
	if (!is_known(at))
		return;
	c->x_low = fmin(c->x_low, (double)at.bytes);
	c->x_high = fmax(c->x_high, (double)at.bytes);
	c->y_low = fmin(c->y_low, (double)at.step_ns);
	c->y_high = fmax(c->y_high, (double)at.step_ns);
}

/* Some room around what there is: the axes need not begin at 0. A chart of one
 * place has a twentieth of it to each side. */
static void pad(double *low, double *high)
{
	double room = *high > *low ? (*high - *low) * 0.08 :
		*high > 0 ? *high * 0.05 : 1;

	*low = fmax(0, *low - room);
	*high += room;
}

/* False: there is nothing to draw. */
static bool choose_axes(struct chart *c)
{
	c->x_low = c->y_low = INFINITY;
	c->x_high = c->y_high = -INFINITY;
	for (uint32_t i = 0; i < c->view->planned->n_points; i++)
		widen(c, point_at(c, i));
	widen(c, plan_at(c));
	widen(c, before_at(c));
	if (c->x_low > c->x_high)
		return false;
	pad(&c->x_low, &c->x_high);
	pad(&c->y_low, &c->y_high);
	return true;
}

static double x_of(const struct chart *c, double bytes)
{
	return LEFT + (bytes - c->x_low) / (c->x_high - c->x_low) *
		(WIDTH - LEFT - RIGHT);
}

static double y_of(const struct chart *c, double ns)
{
	return HEIGHT - BOTTOM - (ns - c->y_low) / (c->y_high - c->y_low) *
		(HEIGHT - TOP - BOTTOM);
}

/* The largest unit in which the axis has numbers of 1 or more. */
static double unit_of(double high, const char **ret_name)
{
	static const struct { const char *name; double bytes; } units[] = {
		{ "GB", 1e9 }, { "MB", 1e6 }, { "kB", 1e3 } };

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (high >= units[i].bytes) {
			*ret_name = units[i].name;
			return units[i].bytes;
		}
	*ret_name = "bytes";
	return 1;
}

/* Digits behind the point that multiples of step need. */
static int decimals_of(double step)
{
	int n = 0;

	for (double rest = step; n < 6 && rest < 0.999; n++)
		rest *= 10;
	return n;
}

static void put_y_axis(const struct chart *c, struct tauti_put *put)
{
	double step = tauti_page_grid((c->y_high - c->y_low) / 1e6, Y_LINES);
	int decimals = decimals_of(step);

	for (double i = ceil(c->y_low / 1e6 / step); i * step * 1e6 <= c->y_high;
		i++) {
		double y = y_of(c, i * step * 1e6);

		tauti_page_line(put, "grid", LEFT, y, WIDTH - RIGHT, y);
		tauti_page_label(put, LEFT - 8, y + 4, "end");
		tauti_page_real(put, i * step, decimals);
		tauti_put_text(put, "</text>\n");
	}
	tauti_page_label(put, LEFT - 8, TOP - 8, "end");
	tauti_put_text(put, "ms a step</text>\n");
}

static void put_x_axis(const struct chart *c, struct tauti_put *put)
{
	const char *name;
	double unit = unit_of(c->x_high, &name);
	double step = tauti_page_grid((c->x_high - c->x_low) / unit, X_LINES);
	int decimals = decimals_of(step);

	for (double i = ceil(c->x_low / unit / step);
		i * step * unit <= c->x_high; i++) {
		double x = x_of(c, i * step * unit);

		tauti_page_line(put, "grid", x, TOP, x, HEIGHT - BOTTOM);
		tauti_page_label(put, x, HEIGHT - BOTTOM + 18, "middle");
		tauti_page_real(put, i * step, decimals);
		tauti_put_text(put, "</text>\n");
	}
	tauti_page_label(put, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14,
		"middle");
	tauti_put_text(put, c->what);
	tauti_put_text(put, ", ");
	tauti_put_text(put, name);
	tauti_put_text(put, "</text>\n");
}

/* --- words ------------------------------------------------------------------------------------ */

static void put_changes(struct tauti_put *put, const struct taut_plan_point *p)
{
	if (!p->n_changes)
		tauti_put_text(put, "as it is");
	for (uint32_t i = 0; i < p->n_changes; i++) {
		if (i)
			tauti_put_char(put, ' ');
		tauti_page_text(put, p->changes[i]);
	}
}

static void put_decisions(struct tauti_put *put, const struct taut_plan *p)
{
	if (!p->n_decisions)
		tauti_put_text(put, "as it is");
	for (uint32_t i = 0; i < p->n_decisions; i++) {
		if (i)
			tauti_put_char(put, ' ');
		tauti_page_text(put, p->decisions[i].change);
	}
}

static void put_bytes(struct tauti_put *put, int64_t bytes)
{
	char text[TAUTI_NUMBER_BYTES];

	if (bytes >= 0)
		tauti_put_text(put, tauti_number_bytes((uint64_t)bytes, text));
}

/* --- a chart ------------------------------------------------------------------------------------- */

/* The best that is to be had with so many bytes: a staircase down from the fastest
 * point to that of the fewest bytes. */
static void put_stairs(const struct chart *c, struct tauti_put *put)
{
	double x = INFINITY;

	tauti_put_text(put, "<polyline class=\"stairs\" points=\"");
	for (uint32_t i = 0; i < c->view->planned->n_points; i++) {
		struct place at = point_at(c, i);

		if (!is_known(at) || (double)at.bytes >= x)
			continue;
		if (x < INFINITY)
			tauti_page_xy(put, x_of(c, x),
				y_of(c, (double)at.step_ns));
		x = (double)at.bytes;
		tauti_page_xy(put, x_of(c, x), y_of(c, (double)at.step_ns));
	}
	tauti_put_text(put, "\"/>\n");
}

/* The circle is left open for its title. */
static void put_mark(const struct chart *c, struct tauti_put *put,
	const char *style, double radius, struct place at)
{
	tauti_put_text(put, "<circle class=\"");
	tauti_put_text(put, style);
	tauti_put_text(put, "\" r=\"");
	tauti_page_real(put, radius, 1);
	tauti_put_text(put, "\" cx=\"");
	tauti_page_real(put, x_of(c, (double)at.bytes), 1);
	tauti_put_text(put, "\" cy=\"");
	tauti_page_real(put, y_of(c, (double)at.step_ns), 1);
	tauti_put_text(put, "\"><title>");
	tauti_page_ms(put, at.step_ns);
	tauti_put_text(put, " ms, ");
	put_bytes(put, at.bytes);
	tauti_put_text(put, ": ");
}

static void put_name(const struct chart *c, struct tauti_put *put,
	struct place at, const char *name)
{
	double x = x_of(c, (double)at.bytes);
	bool left = x > WIDTH - RIGHT - 120;

	tauti_page_label(put, left ? x - 12 : x + 12,
		y_of(c, (double)at.step_ns) - 8, left ? "end" : "start");
	tauti_put_text(put, name);
	tauti_put_text(put, "</text>\n");
}

static void put_own(const struct chart *c, struct tauti_put *put)
{
	const struct taut_plan *p = c->view->planned->plan;
	struct place before = before_at(c), plan = plan_at(c);

	if (is_known(before)) {
		put_mark(c, put, "before", 6, before);
		tauti_put_text(put, "the job as it is</title></circle>\n");
	}
	if (is_known(before) && p->n_decisions)
		put_name(c, put, before, "as it is");
	if (is_known(plan)) {
		put_mark(c, put, "plan", 8, plan);
		tauti_put_text(put, "the plan, ");
		put_decisions(put, p);
		tauti_put_text(put, "</title></circle>\n");
		put_name(c, put, plan, "the plan");
	}
}

static void put_chart(const struct chart *c, struct tauti_put *put)
{
	tauti_put_text(put, "<svg viewBox=\"0 0 840 360\" role=\"img\" "
		"aria-label=\"Time of a step over ");
	tauti_put_text(put, c->what);
	tauti_put_text(put, "\">\n");
	put_y_axis(c, put);
	put_x_axis(c, put);
	put_stairs(c, put);
	for (uint32_t i = 0; i < c->view->planned->n_points; i++) {
		struct place at = point_at(c, i);

		if (!is_known(at))
			continue;
		put_mark(c, put, "point", 4, at);
		put_changes(put, &c->view->planned->points[i]);
		tauti_put_text(put, "</title></circle>\n");
	}
	put_own(c, put);
	tauti_put_text(put, "</svg>\n");
}

static void put_charts(const void *context, struct tauti_put *put)
{
	struct chart charts[] = {
		{ .view = context, .what = "peak memory of a rank",
			.is_memory = true },
		{ .view = context, .what = "bytes between ranks in a step" } };
	bool any = false;

	for (size_t i = 0; i < sizeof charts / sizeof *charts; i++) {
		if (!choose_axes(&charts[i]))
			continue;
		put_chart(&charts[i], put);
		any = true;
	}
	if (!any)
		tauti_put_text(put, "<p>Neither memory nor the bytes between "
			"ranks are known of this recording.</p>\n");
}

/* --- the table ---------------------------------------------------------------------------------- */

static bool is_plan(const struct taut_plan *plan,
	const struct taut_plan_point *point)
{
	if (plan->n_decisions != point->n_changes)
		return false;
	for (uint32_t i = 0; i < point->n_changes; i++)
		if (strcmp(plan->decisions[i].change, point->changes[i]))
			return false;
	return true;
}

static bool is_in_frontier(const struct taut_planned *planned)
{
	bool found = false;

	for (uint32_t i = 0; i < planned->n_points; i++)
		found |= is_plan(planned->plan, &planned->points[i]);
	return found;
}

/* As a shell takes it for one word. */
static void put_word(struct tauti_put *put, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_=.,:+/@%^-";

	if (!text[strspn(text, plain)]) {
		tauti_page_text(put, text);
		return;
	}
	tauti_put_char(put, '\'');
	for (; *text; text++) {
		const char one[] = { *text, '\0' };

		tauti_page_text(put, *text == '\'' ? "'\\''" : one);
	}
	tauti_put_char(put, '\'');
}

/* The words that taut whatif takes for a point, NULL: for the plan. What is given is
 * in neither. */
static void put_words(struct tauti_put *put,
	const struct tauti_plan_view *view, const struct taut_plan_point *p)
{
	const struct taut_plan *plan = view->planned->plan;
	uint32_t n = p ? p->n_changes : plan->n_decisions;

	if (!view->n_given && !n) {
		tauti_put_text(put, "as it is");
		return;
	}
	tauti_put_text(put, "<code>");
	for (size_t i = 0; i < view->n_given; i++) {
		tauti_put_text(put, i ? " " : "");
		put_word(put, view->given[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		tauti_put_text(put, i || view->n_given ? " " : "");
		put_word(put, p ? p->changes[i] : plan->decisions[i].change);
	}
	tauti_put_text(put, "</code>");
}

/* The cells before the changes, whose own is left open. */
static void put_cells(struct tauti_put *put, bool is_the_plan,
	int64_t before_ns, const struct taut_plan_point *p)
{
	tauti_put_text(put, is_the_plan ? "<tr class=\"plan\"><td>" :
		"<tr><td>");
	tauti_page_ms(put, p->step_ns);
	tauti_put_text(put, "</td><td>");
	tauti_page_real(put, p->step_ns > 0 ?
		(double)before_ns / (double)p->step_ns : 0, 2);
	tauti_put_text(put, "</td><td>");
	put_bytes(put, p->memory_bytes);
	tauti_put_text(put, "</td><td>");
	put_bytes(put, p->network_bytes);
	tauti_put_text(put, "</td><td class=\"words\">");
}

static void put_rows(const void *context, struct tauti_put *put)
{
	const struct tauti_plan_view *view = context;
	const struct taut_plan *plan = view->planned->plan;
	const struct taut_plan_point as_planned = { .step_ns = plan->after_ns,
		.memory_bytes = plan->memory_after,
		.network_bytes = plan->network_after };

	if (!is_in_frontier(view->planned)) {
		put_cells(put, true, plan->before_ns, &as_planned);
		put_words(put, view, NULL);
		tauti_put_text(put, "</td></tr>\n");
	}
	for (uint32_t i = 0; i < view->planned->n_points; i++) {
		const struct taut_plan_point *p = &view->planned->points[i];

		put_cells(put, is_plan(plan, p), plan->before_ns, p);
		put_words(put, view, p);
		tauti_put_text(put, "</td></tr>\n");
	}
}

/* --- the other parts ------------------------------------------------------------------------------- */

static void put_title(const void *context, struct tauti_put *put)
{
	const struct tauti_plan_view *view = context;

	tauti_page_text(put, view->path);
	for (size_t i = 0; i < view->n_given; i++) {
		tauti_put_char(put, ' ');
		tauti_page_text(put, view->given[i]);
	}
}

static void put_result(const void *context, struct tauti_put *put)
{
	const struct tauti_plan_view *view = context;
	const struct taut_plan *p = view->planned->plan;

	if (!p->n_decisions) {
		tauti_put_text(put, "A step takes ");
		tauti_page_ms(put, p->before_ns);
		tauti_put_text(put, " ms, and no change that was tried makes "
			"it shorter.");
		return;
	}
	tauti_put_text(put, "A step of ");
	tauti_page_ms(put, p->before_ns);
	tauti_put_text(put, " ms would take ");
	tauti_page_ms(put, p->after_ns);
	tauti_put_text(put, " ms with the plan, with 95 % between ");
	tauti_page_ms(put, p->low_ns);
	tauti_put_text(put, " and ");
	tauti_page_ms(put, p->high_ns);
	tauti_put_text(put, ".");
}

taut_status tauti_plan_html(const struct tauti_plan_view *view, FILE *out,
	struct taut_error *reterr)
{
	static const struct tauti_page_part parts[] = {
		{ "title", put_title }, { "heading", put_title },
		{ "result", put_result }, { "charts", put_charts },
		{ "rows", put_rows } };

	return tauti_page_write("frontier.html", parts,
		sizeof parts / sizeof *parts, view, out, reterr);
}
