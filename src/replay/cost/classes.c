/* classes.c - transfers of one kind in groups of one size, and their line.
 *
 * Transfers that are under way together do not share a link as evenly as a
 * model has it, but together they move their bytes in the time for which the
 * link is busy. So what is measured is a period: all transfers that overlap on
 * a link, by way of each other. Its point is (all bytes, all amounts); its class
 * the one that moves most of it. One latency is seen of a period, for the others
 * pass while something moves. Within a period every byte costs the same:
 *     byte_ns = sum of amounts / sum of bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"

/* Of a message, where nothing tells: TCP's; a device's own links are faster, but
 * there the shortest transfer says so. */
#define USUAL_LATENCY_NS 100e3

/* --- periods ---------------------------------------------------------------------*/

struct busy { /* a link: until when, and with what */
	int64_t until_ns;
	uint32_t collective;
};

static int by_begin(const void *a, const void *b)
{
	const struct tauti_flow_time *x = a, *y = b;

	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return x->collective < y->collective ? -1 :
		x->collective > y->collective;
}

static uint32_t root_of(uint32_t *parent, uint32_t i)
{
	while (parent[i] != i)
		i = parent[i] = parent[parent[i]];
	return i;
}

static void join(uint32_t *parent, uint32_t i, uint32_t k)
{
	i = root_of(parent, i);
	k = root_of(parent, k);
	if (i < k)
		parent[k] = i;
	else
		parent[i] = k;
}

static void take_link(struct busy *link, const struct tauti_flow_time *flow,
	uint32_t *period_of)
{
	if (link->until_ns > flow->begin_ns)
		join(period_of, link->collective, flow->collective);
	if (link->until_ns < flow->end_ns)
		*link = (struct busy){ flow->end_ns, flow->collective };
}

static void take_links(const struct taut_costs *costs, struct busy *links,
	const struct tauti_flow_time *flow, uint32_t *period_of)
{
	const struct taut_collective *c =
		&costs->graph->collectives[flow->collective];
	int on_network = costs->transfers[flow->collective].on_network;

	for (uint32_t i = 0; i < c->n_members; i++) {
		uint32_t rank = tauti_member_rank(costs->graph, c, i);

		take_link(&links[on_network ? costs->site.host_of[rank] :
			costs->site.n_hosts + rank], flow, period_of);
	}
}

void tauti_flow_times(const struct taut_graph *g,
	const struct taut_sharing *sharing, const int64_t *start_ns,
	const int64_t *dur_ns, struct tauti_flow_time *ret)
{
	for (uint32_t i = 0; i < g->n_collectives; i++) {
		const struct taut_collective *c = &g->collectives[i];
		struct tauti_flow_time t = { INT64_MAX, INT64_MAX, i };

		for (uint32_t k = 0; k < c->n_members; k++) {
			uint32_t op = g->member_arrive[c->first_member + k] + 1;

			if (sharing->flow_of[op] == TAUT_NONE)
				continue;
			if (start_ns[op] < t.begin_ns)
				t.begin_ns = start_ns[op];
			if (start_ns[op] + dur_ns[op] < t.end_ns)
				t.end_ns = start_ns[op] + dur_ns[op];
		}
		ret[i] = t;
	}
}

taut_status tauti_periods_find(const struct taut_costs *costs,
	const struct tauti_flow_time *times, uint32_t *ret_period_of,
	struct taut_error *err)
{
	uint32_t n = costs->graph->n_collectives;
	uint32_t n_links = costs->site.n_hosts + costs->site.n_ranks;
	struct tauti_flow_time *sorted =
		malloc(((size_t)n + 1) * sizeof *sorted);
	struct busy *links = malloc(((size_t)n_links + 1) * sizeof *links);
	bool ok = sorted && links;

	for (uint32_t i = 0; ok && i < n_links; i++)
		links[i] = (struct busy){ INT64_MIN, TAUT_NONE };
	for (uint32_t i = 0; i < n; i++)
		ret_period_of[i] = i;
	if (ok && n) {
		memcpy(sorted, times, n * sizeof *sorted);
		qsort(sorted, n, sizeof *sorted, by_begin);
	}
	for (uint32_t i = 0; ok && i < n; i++)
		if (sorted[i].begin_ns != INT64_MAX)
			take_links(costs, links, &sorted[i], ret_period_of);
	for (uint32_t i = 0; i < n; i++)
		ret_period_of[i] = root_of(ret_period_of, i);
	free(sorted);
	free(links);
	return ok ? TAUT_OK : taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory for the times of %u collectives", (unsigned)n);
}

/* --- sums over a period -----------------------------------------------------------*/

struct period { /* by its first collective */
	double bytes, time_ns;
	double most; /* bytes of its class */
	uint32_t class;
	bool known;  /* all that moved in it told its bytes */
};

static void add_up(const struct taut_costs *costs, const uint32_t *period_of,
	const double *moved, struct period *periods)
{
	uint32_t n = costs->graph->n_collectives;

	for (uint32_t i = 0; i < n; i++)
		periods[i] = (struct period){ .class = TAUT_NONE,
			.known = true };
	for (uint32_t i = 0; i < n; i++) {
		const struct taut_transfer *t = &costs->transfers[i];
		struct period *p = &periods[period_of[i]];
		double whole = t->amount + (double)t->latency_ns;

		if (!(whole > 0))
			continue;
		p->time_ns += whole;
		p->bytes += moved[i];
		p->known &= moved[i] > 0;
		if (moved[i] > p->most) {
			p->most = moved[i];
			p->class = costs->class_of[i];
		}
	}
}

static struct period *periods_create(const struct taut_costs *costs,
	const uint32_t *period_of, const double *moved)
{
	struct period *periods = malloc(
		((size_t)costs->graph->n_collectives + 1) * sizeof *periods);

	if (periods)
		add_up(costs, period_of, moved, periods);
	return periods;
}

taut_status tauti_byte_costs(struct taut_costs *costs,
	const uint32_t *period_of, const double *moved, struct taut_error *err)
{
	struct period *periods = periods_create(costs, period_of, moved);

	if (!periods)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for what bytes cost");
	for (uint32_t i = 0; i < costs->graph->n_collectives; i++) {
		const struct taut_transfer *t = &costs->transfers[i];
		struct period *p = &periods[period_of[i]];

		if (i == period_of[i])
			p->time_ns = 0;
		if (moved[i] > 0 && p->known)
			p->time_ns += t->amount;
	}
	for (uint32_t i = 0; i < costs->graph->n_collectives; i++) {
		const struct period *p = &periods[period_of[i]];

		costs->byte_ns[i] = !(moved[i] > 0) ? 0 :
			p->known && p->bytes > 0 ? p->time_ns / p->bytes :
			costs->transfers[i].amount / moved[i];
	}
	free(periods);
	return TAUT_OK;
}

/* --- classes -----------------------------------------------------------------------*/

static bool is_of(const struct taut_cost_class *class,
	const struct taut_collective *c, const struct taut_transfer *t)
{
	return class->kind == c->kind &&
		class->group_size == (int32_t)tauti_ranks_of(c) &&
		class->on_network == t->on_network;
}

static uint32_t class_for(struct taut_costs *costs,
	const struct taut_collective *c, const struct taut_transfer *t)
{
	struct taut_cost_class *class = costs->classes;
	uint32_t k = 0;

	while (k < costs->n_classes && !is_of(&class[k], c, t))
		k++;
	if (k == costs->n_classes) {
		costs->n_classes++;
		class[k] = (struct taut_cost_class){
			.kind = c->kind,
			.group_size = (int32_t)tauti_ranks_of(c),
			.on_network = t->on_network,
			.least_bytes = c->bytes,
			.most_bytes = c->bytes };
	}
	if (c->bytes < class[k].least_bytes)
		class[k].least_bytes = c->bytes;
	if (c->bytes > class[k].most_bytes)
		class[k].most_bytes = c->bytes;
	return k;
}

static void find_classes(struct taut_costs *costs, const double *moved)
{
	costs->n_classes = 0;
	for (uint32_t i = 0; i < costs->graph->n_collectives; i++)
		costs->class_of[i] = moved[i] > 0 &&
			costs->transfers[i].amount > 0 ?
			class_for(costs, &costs->graph->collectives[i],
				&costs->transfers[i]) : TAUT_NONE;
}

/* --- lines ---------------------------------------------------------------------------*/

struct points {
	double *x, *y;
	uint32_t n;
};

static void points_of(const struct taut_costs *costs, uint32_t class,
	const struct period *periods, struct points *ret)
{
	ret->n = 0;
	for (uint32_t i = 0; i < costs->graph->n_collectives; i++)
		if (periods[i].class == class && periods[i].known) {
			ret->x[ret->n] = periods[i].bytes;
			ret->y[ret->n++] = periods[i].time_ns;
		}
}

/* Do its points tell latency from rate? Three sizes and more, over a factor of
 * four, and a latency that is clearly there. */
static bool is_split(const struct points *p, const struct taut_line *line)
{
	double least = INFINITY, most = 0;
	bool three = false;

	for (uint32_t i = 0; i < p->n; i++) {
		least = fmin(least, p->x[i]);
		most = fmax(most, p->x[i]);
	}
	for (uint32_t i = 0; i < p->n && !three; i++)
		three = p->x[i] != least && p->x[i] != most;
	return three && most >= 4 * least &&
		line->alpha > 2 * line->alpha_error;
}

double tauti_messages_of(const struct taut_cost_class *class)
{
	struct taut_law_in in = {
		.kind = class->kind,
		.ranks = (uint32_t)class->group_size,
		.hosts = class->on_network ? (uint32_t)class->group_size : 1,
		.bytes = 1,
	};
	struct taut_law law = taut_law(&in);

	return law.messages > 0 ? law.messages : 1;
}

struct short_time { /* of a transfer, for each of its messages */
	uint32_t class;
	int64_t bytes; /* -1: of those of all sizes */
	double ns;
};

static int by_size(const void *a, const void *b)
{
	const struct short_time *x = a, *y = b;

	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

/* Of those that end for all at once. */
static uint32_t short_times(const struct taut_costs *costs, int on_network,
	struct short_time *ret)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < costs->graph->n_collectives; i++) {
		const struct taut_transfer *t = &costs->transfers[i];
		uint32_t class = costs->class_of[i];

		if (class != TAUT_NONE && t->on_network == on_network &&
			taut_coll_levels(costs->classes[class].kind))
			ret[n++] = (struct short_time){ class,
				costs->graph->collectives[i].bytes, t->amount /
				tauti_messages_of(&costs->classes[class]) };
	}
	return n;
}

/* The least of the lower quartiles of each size that was met three times and
 * more; the least time itself may be a slip of the clocks. INFINITY: none. */
static double least_quartile(struct short_time *all, uint32_t n)
{
	double least = INFINITY;

	if (n)
		qsort(all, n, sizeof *all, by_size);
	for (uint32_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && all[end].class == all[i].class &&
			all[end].bytes == all[i].bytes; end++)
			;
		if (end - i > 2)
			least = fmin(least,
				all[i + (end - i < 8 ? 1 : (end - i) / 4)].ns);
	}
	return least;
}

/* No transfer was done before its latency had passed: what short ones leave for
 * a message. INFINITY: not known; NAN: no memory. */
static double most_latency(const struct taut_costs *costs, int on_network)
{
	struct short_time *all = malloc(
		((size_t)costs->graph->n_collectives + 1) * sizeof *all);
	uint32_t n = all ? short_times(costs, on_network, all) : 0;
	double most = all ? least_quartile(all, n) : NAN;

	if (isinf(most)) { /* no size was met three times */
		for (uint32_t i = 0; i < n; i++) {
			all[i].class = 0;
			all[i].bytes = -1;
		}
		most = least_quartile(all, n);
	}
	if (isinf(most) && n)
		most = all[0].ns;
	free(all);
	return most;
}

/* By how much a time between two ranks may be off. */
static double clocks_ns(const struct taut_graph *g)
{
	double most_us = 0;

	for (uint32_t i = 0; g->clocks && i < g->run->n_traces; i++)
		most_us = fmax(most_us, g->clocks[i].uncertainty_us);
	return most_us * 1e3;
}

/* Where its own points do not tell the latency, a message has half of the most
 * that it can be, and is unsure by as much, and by what the clocks are unsure. */
static taut_status bound_latency(struct taut_costs *costs,
	struct taut_cost_class *c, struct points *p, struct taut_error *err)
{
	double usual = tauti_messages_of(c) * USUAL_LATENCY_NS;
	double most = most_latency(costs, c->on_network);
	taut_status status = isnan(most) ? TAUT_ENOMEM : TAUT_OK;

	if (status)
		return taut_error_set(err, status, -1,
			"no memory for the times of transfers");
	most = fmin(usual, tauti_messages_of(c) * most);
	status = tauti_line_slope(p->x, p->y, p->n, most / 2, &c->line, err);
	c->line.alpha_error = fmin(usual, most + clocks_ns(costs->graph)) / 2;
	return status;
}

/* A class that never moved the most: the line of one that did. */
static void borrow_line(struct taut_costs *costs, struct taut_cost_class *c)
{
	struct taut_law_in like = { .kind = c->kind,
		.ranks = (uint32_t)c->group_size,
		.hosts = c->on_network ? 2 : 1 };
	const struct taut_cost_class *from = tauti_nearest_class(costs, &like);
	double messages;

	if (!from)
		return;
	messages = tauti_messages_of(c) / tauti_messages_of(from);
	c->line = from->line;
	c->line.alpha *= messages;
	c->line.alpha_error *= messages;
	c->line.n = 0;
}

static taut_status fit_lines(struct taut_costs *costs,
	const struct period *periods, struct points *p, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < costs->n_classes; i++) {
		points_of(costs, i, periods, p);
		status = taut_line_fit(
			p->x, p->y, p->n, &costs->classes[i].line, err);
	}
	for (uint32_t i = 0; !status && i < costs->n_classes; i++) {
		points_of(costs, i, periods, p);
		if (p->n && !is_split(p, &costs->classes[i].line))
			status = bound_latency(
				costs, &costs->classes[i], p, err);
	}
	for (uint32_t i = 0; !status && i < costs->n_classes; i++) {
		struct taut_cost_class *c = &costs->classes[i];

		if (!c->line.n)
			borrow_line(costs, c);
		c->rate_gbs = c->line.beta > 0 ? 1 / c->line.beta : 0;
	}
	return status;
}

taut_status tauti_classes_find(struct taut_costs *costs,
	const uint32_t *period_of, const double *moved, struct taut_error *err)
{
	size_t n = (size_t)costs->graph->n_collectives + 1;
	struct period *periods = periods_create(costs, period_of, moved);
	double *points = malloc(2 * n * sizeof *points);
	struct points p = { points, points ? points + n : NULL, 0 };
	taut_status status = TAUT_ENOMEM;

	if (points && periods) {
		find_classes(costs, moved);
		add_up(costs, period_of, moved, periods);
		status = fit_lines(costs, periods, &p, err);
	} else {
		taut_error_set(err, status, -1,
			"no memory for the classes of %u collectives",
			(unsigned)costs->graph->n_collectives);
	}
	free(points);
	free(periods);
	return status;
}
