/* costs.c - what a recording tells: of each transfer the time that it takes of
 * its link when it has it alone, split by a line for its class into latency and
 * rate; of each operation what it takes undisturbed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"

/* --- the law of a recorded collective ----------------------------------------------*/

static uint32_t hosts_of(
	const struct taut_costs *costs, const struct taut_collective *c)
{
	uint32_t n = 0, ranks = c->group_size > 0 ?
		(uint32_t)c->group_size : c->n_members;

	for (uint32_t i = 0; i < c->n_members; i++) {
		uint32_t host = costs->site.host_of[tauti_member_rank(
			costs->graph, c, i)];
		uint32_t k = 0;

		while (k < i && costs->site.host_of[tauti_member_rank(
				costs->graph, c, k)] != host)
			k++;
		n += k == i;
	}
	/* ranks that were not recorded stand on hosts of their own */
	return c->n_members < ranks ? n + ranks - c->n_members : n;
}

struct taut_law_in taut_costs_law_in(
	const struct taut_costs *costs, uint32_t collective)
{
	const struct taut_collective *c =
		&costs->graph->collectives[collective];
	struct taut_law_in in = {
		.kind = c->kind,
		.ranks = c->group_size > 0 ? (uint32_t)c->group_size :
			c->n_members,
		.hosts = hosts_of(costs, c),
		.bytes = c->bytes > 0 ? (double)c->bytes : 0,
	};

	if (c->kind == TAUT_COLL_ALLGATHER)
		in.bytes *= in.ranks;
	return in;
}

static double link_bytes(const struct taut_law *law, int on_network)
{
	return on_network ? law->network_bytes : law->local_bytes;
}

/* What a collective moves over the link that it uses; 0: nothing, or not
 * known. */
static double moved(const struct taut_costs *costs, uint32_t collective)
{
	struct taut_law_in in = taut_costs_law_in(costs, collective);
	struct taut_law law = taut_law(&in);

	return link_bytes(&law, costs->transfers[collective].on_network);
}

/* --- transfers as recorded -----------------------------------------------------------*/

struct learning { /* while the costs are made */
	struct taut_costs *costs;
	struct taut_timeline timeline; /* the recording, replayed */
	int64_t *span_ns;  /* by op: durations in it */
	double *amount;    /* by flow */
	int64_t *latency_ns;
	double *moved;     /* by collective */
	double *x, *y;     /* by collective: points of a class */
	struct taut_error *err;
};

/* A barrier moves nothing, and a group of one has nobody to talk to. */
static bool flows(const struct taut_collective *c)
{
	return c->bytes != 0 && c->kind != TAUT_COLL_BARRIER &&
		(c->n_members > 1 || c->group_size > 1);
}

static void find_transfers(struct learning *l)
{
	const struct taut_graph *g = l->costs->graph;

	for (uint32_t i = 0; i < g->n_collectives; i++) {
		struct taut_transfer *t = &l->costs->transfers[i];
		const struct taut_collective *c = &g->collectives[i];

		t->on_network = hosts_of(l->costs, c) > 1;
		t->amount = flows(c);
		l->moved[i] = moved(l->costs, i);
	}
}

static taut_status replay_recording(struct learning *l)
{
	const struct taut_graph *g = l->costs->graph;
	const struct taut_replay_edit edit = { .unordered = 1 };
	taut_status status = taut_timeline_init(&l->timeline, g, l->err);

	if (!status)
		status = taut_replay(g, &edit, &l->timeline, l->err);
	for (uint32_t i = 0; !status && i < g->n_ops; i++)
		l->span_ns[i] = l->timeline.end_ns[i] -
			l->timeline.start_ns[i];
	return status;
}

/* Amounts and durations, for the latencies and the drag that transfers have. */
static taut_status measure(struct learning *l)
{
	struct taut_costs *costs = l->costs;
	const struct taut_graph *g = costs->graph;
	struct taut_sharing *sharing;
	taut_status status;
	uint32_t flow = 0;

	status = taut_sharing_create(g, &costs->site, costs->transfers,
		&sharing, l->err);
	if (status)
		return status;
	status = taut_sharing_measure(g, sharing, l->timeline.start_ns,
		l->span_ns, l->amount, l->latency_ns, costs->dur_ns, l->err);
	for (uint32_t i = 0; !status && i < g->n_collectives; i++) {
		struct taut_transfer *t = &costs->transfers[i];

		if (!(t->amount > 0 || t->latency_ns > 0))
			continue;
		t->amount = l->amount[flow];
		t->latency_ns = l->latency_ns[flow];
		flow++;
	}
	taut_sharing_destroy(sharing);
	return status;
}

/* --- classes --------------------------------------------------------------------------*/

static bool is_of(const struct taut_cost_class *class,
	const struct taut_collective *c, const struct taut_transfer *t)
{
	return class->kind == c->kind && class->group_size == c->group_size &&
		class->on_network == t->on_network;
}

static void find_classes(struct learning *l)
{
	struct taut_costs *costs = l->costs;

	for (uint32_t i = 0; i < costs->graph->n_collectives; i++) {
		const struct taut_collective *c =
			&costs->graph->collectives[i];
		const struct taut_transfer *t = &costs->transfers[i];
		struct taut_cost_class *class;
		uint32_t k = 0;

		costs->class_of[i] = TAUT_NONE;
		if (!(l->moved[i] > 0) || !(t->amount > 0))
			continue;
		while (k < costs->n_classes &&
			!is_of(&costs->classes[k], c, t))
			k++;
		class = &costs->classes[k];
		if (k == costs->n_classes) {
			costs->n_classes++;
			*class = (struct taut_cost_class){
				.kind = c->kind,
				.group_size = c->group_size,
				.on_network = t->on_network,
				.least_bytes = c->bytes,
				.most_bytes = c->bytes };
		}
		class->least_bytes = c->bytes < class->least_bytes ? c->bytes :
			class->least_bytes;
		class->most_bytes = c->bytes > class->most_bytes ? c->bytes :
			class->most_bytes;
		costs->class_of[i] = k;
	}
}

static taut_status fit_class(struct learning *l, uint32_t class)
{
	struct taut_costs *costs = l->costs;
	struct taut_cost_class *c = &costs->classes[class];
	uint32_t n = 0;
	taut_status status;

	for (uint32_t i = 0; i < costs->graph->n_collectives; i++)
		if (costs->class_of[i] == class) {
			l->x[n] = l->moved[i];
			l->y[n++] = costs->transfers[i].amount +
				(double)costs->transfers[i].latency_ns;
		}
	status = taut_line_fit(l->x, l->y, n, &c->line, l->err);
	c->rate_gbs = c->line.beta > 0 ? 1 / c->line.beta : 0;
	return status;
}

static taut_status fit_classes(struct learning *l)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < l->costs->n_classes; i++)
		status = fit_class(l, i);
	return status;
}

static void split_off_latency(struct learning *l)
{
	struct taut_costs *costs = l->costs;

	for (uint32_t i = 0; i < costs->graph->n_collectives; i++) {
		struct taut_transfer *t = &costs->transfers[i];
		double whole = t->amount + (double)t->latency_ns, alpha;

		if (costs->class_of[i] == TAUT_NONE)
			continue;
		alpha = costs->classes[costs->class_of[i]].line.alpha;
		t->latency_ns = (int64_t)(alpha < whole ? alpha : whole);
		t->amount = whole - (double)t->latency_ns;
	}
}

/* Latency is paid before a link is shared, so what was taken for shared time
 * depends on it: twice is enough. */
static taut_status learn(struct learning *l)
{
	taut_status status = replay_recording(l);

	if (!status) {
		find_transfers(l);
		status = measure(l);
	}
	if (!status)
		find_classes(l);
	for (int round = 0; !status && round < 2; round++) {
		status = fit_classes(l);
		split_off_latency(l);
		if (!status)
			status = measure(l);
	}
	if (!status)
		status = tauti_drag_measure(l->costs, l->timeline.start_ns,
			l->span_ns, l->err);
	for (uint32_t i = 0; i < l->costs->graph->n_collectives; i++)
		l->costs->transfers[i].core = l->costs->drag;
	return status ? status : measure(l);
}

/* --- memory -----------------------------------------------------------------------------*/

static bool learning_init(struct learning *l, const struct taut_graph *g)
{
	size_t n = (size_t)g->n_collectives + 1;

	l->span_ns = calloc((size_t)g->n_ops + 1, sizeof *l->span_ns);
	l->amount = calloc(n, sizeof *l->amount);
	l->latency_ns = calloc(n, sizeof *l->latency_ns);
	l->moved = calloc(n, sizeof *l->moved);
	l->x = calloc(n, sizeof *l->x);
	l->y = calloc(n, sizeof *l->y);
	return l->span_ns && l->amount && l->latency_ns && l->moved && l->x &&
		l->y;
}

static void learning_fini(struct learning *l)
{
	taut_timeline_fini(&l->timeline);
	free(l->span_ns);
	free(l->amount);
	free(l->latency_ns);
	free(l->moved);
	free(l->x);
	free(l->y);
}

static bool get_tables(struct taut_costs *costs)
{
	size_t n = (size_t)costs->graph->n_collectives + 1;

	costs->transfers = calloc(n, sizeof *costs->transfers);
	costs->dur_ns = calloc(
		(size_t)costs->graph->n_ops + 1, sizeof *costs->dur_ns);
	costs->classes = calloc(n, sizeof *costs->classes);
	costs->class_of = malloc(n * sizeof *costs->class_of);
	return costs->transfers && costs->dur_ns && costs->classes &&
		costs->class_of;
}

taut_status taut_costs_create(const struct taut_graph *graph,
	struct taut_costs **ret_costs, struct taut_error *reterr)
{
	struct taut_costs *costs = calloc(1, sizeof *costs);
	struct learning l = { .costs = costs, .err = reterr };
	taut_status status = TAUT_ENOMEM;

	if (costs) {
		costs->graph = graph;
		status = tauti_site_init(graph, &costs->site, reterr);
	}
	if (!status && (!get_tables(costs) || !learning_init(&l, graph)))
		status = TAUT_ENOMEM;
	if (status == TAUT_ENOMEM)
		taut_error_set(reterr, status, -1,
			"no memory for the costs of %u collectives",
			(unsigned)graph->n_collectives);
	if (!status)
		status = learn(&l);
	learning_fini(&l);
	if (status) {
		taut_costs_destroy(costs);
		return status;
	}
	*ret_costs = costs;
	return TAUT_OK;
}

void taut_costs_destroy(struct taut_costs *costs)
{
	if (!costs)
		return;
	tauti_site_fini(&costs->site);
	free(costs->transfers);
	free(costs->dur_ns);
	free(costs->classes);
	free(costs->class_of);
	free(costs);
}

/* --- another transfer -----------------------------------------------------------------------*/

/* How far a class is from what is asked for: another link is worse than
 * another kind, and that is worse than another size of group. */
static double distance(const struct taut_cost_class *class,
	const struct taut_law_in *as)
{
	double size = class->group_size > 0 ? class->group_size : 1;
	double apart = fabs(log(size / (as->ranks ? as->ranks : 1)));

	return apart + (class->kind != as->kind ? 1e3 : 0) +
		(class->on_network != (as->hosts > 1) ? 1e6 : 0);
}

static const struct taut_cost_class *nearest_class(
	const struct taut_costs *costs, const struct taut_law_in *as)
{
	const struct taut_cost_class *best = NULL;

	for (uint32_t i = 0; i < costs->n_classes; i++)
		if (!best || distance(&costs->classes[i], as) <
				distance(best, as))
			best = &costs->classes[i];
	return best;
}

/* Messages of the class's own law: its alpha is for so many. */
static double messages_of(const struct taut_cost_class *class)
{
	struct taut_law_in in = {
		.kind = class->kind,
		.ranks = class->group_size > 0 ? (uint32_t)class->group_size : 2,
		.hosts = class->on_network ? 2 : 1,
		.bytes = 1,
	};
	struct taut_law law = taut_law(&in);

	return law.messages > 0 ? law.messages : 1;
}

static double shifted(double value, double error, double by)
{
	value += error * by;
	return value > 0 ? value : 0;
}

static struct taut_transfer by_line(const struct taut_costs *costs,
	const struct taut_law_in *as, const struct taut_law *law, double error)
{
	const struct taut_cost_class *c = nearest_class(costs, as);
	struct taut_transfer t = { .core = costs->drag,
		.on_network = as->hosts > 1 };

	if (!c)
		return t;
	t.amount = link_bytes(law, t.on_network) *
		shifted(c->line.beta, c->line.beta_error, error);
	t.latency_ns = llround(law->messages / messages_of(c) *
		shifted(c->line.alpha, c->line.alpha_error, error));
	return t;
}

static double ratio(double now, double before)
{
	return before > 0 ? now / before : 1;
}

static struct taut_transfer carried(const struct taut_costs *costs,
	uint32_t like, const struct taut_law_in *as,
	const struct taut_law *law, double error)
{
	struct taut_law_in was_in = taut_costs_law_in(costs, like);
	struct taut_law was = taut_law(&was_in);
	struct taut_transfer t = costs->transfers[like];
	double whole = t.amount + (double)t.latency_ns, latency;

	latency = (double)t.latency_ns;
	if (costs->class_of[like] != TAUT_NONE && error != 0) {
		const struct taut_line *line =
			&costs->classes[costs->class_of[like]].line;

		latency = shifted(line->alpha, line->alpha_error, error);
		latency = latency < whole ? latency : whole;
	}
	t.amount = (whole - latency) *
		ratio(link_bytes(law, as->hosts > 1),
			link_bytes(&was, t.on_network));
	t.latency_ns = llround(latency * ratio(law->messages, was.messages));
	t.on_network = as->hosts > 1;
	return t;
}

struct taut_transfer taut_costs_transfer(const struct taut_costs *costs,
	uint32_t like, const struct taut_law_in *as, double error)
{
	struct taut_law law = taut_law(as);
	int on_network = as->hosts > 1;
	const struct taut_cost_class *c = nearest_class(costs, as);

	/* what moved over another kind of link tells less than a line */
	if (like == TAUT_NONE || (c && c->on_network == on_network &&
			costs->transfers[like].on_network != on_network))
		return by_line(costs, as, &law, error);
	return carried(costs, like, as, &law, error);
}
