/* transfer.c - a transfer of another size, way or group. */
#include <math.h>

#include "cost.h"

/* --- the law of a recorded collective ----------------------------------------------*/

struct taut_law_in taut_costs_law_in(
	const struct taut_costs *costs, uint32_t collective)
{
	const struct taut_collective *c =
		&costs->graph->collectives[collective];
	struct taut_law_in in = {
		.kind = c->kind,
		.ranks = tauti_ranks_of(c),
		.hosts = costs->hosts_of[collective],
		.bytes = c->bytes > 0 ? (double)c->bytes : 0,
	};

	if (c->kind == TAUT_COLL_ALLGATHER)
		in.bytes *= in.ranks;
	return in;
}

double tauti_link_bytes(const struct taut_law *law, int on_network)
{
	return on_network ? law->network_bytes : law->local_bytes;
}

/* What a collective moves over the link that it uses; 0: nothing, or not
 * known. */
double tauti_moved(const struct taut_costs *costs, uint32_t collective)
{
	struct taut_law_in in = taut_costs_law_in(costs, collective);
	struct taut_law law = taut_law(&in);

	return tauti_link_bytes(&law, costs->transfers[collective].on_network);
}

/* --- another transfer -----------------------------------------------------------------------*/

/* How far a class is from what is asked for: another link is worse than
 * another kind, and that is worse than another size of group. */
static double distance(const struct taut_cost_class *class,
	const struct taut_law_in *as)
{
	double apart = fabs(log((double)class->group_size /
		(as->ranks ? as->ranks : 1)));

	return apart + (class->kind != as->kind ? 1e3 : 0) +
		(class->on_network != (as->hosts > 1) ? 1e6 : 0);
}

const struct taut_cost_class *tauti_nearest_class(
	const struct taut_costs *costs, const struct taut_law_in *as)
{
	const struct taut_cost_class *best = NULL;

	for (uint32_t i = 0; i < costs->n_classes; i++)
		if (costs->classes[i].line.n && (!best || distance(&costs->classes[i], as) <
				distance(best, as)))
			best = &costs->classes[i];
	return best;
}

static double shifted(double value, double error, double by)
{
	value += error * by;
	return value > 0 ? value : 0;
}

static struct taut_transfer by_line(const struct taut_costs *costs,
	const struct taut_law_in *as, const struct taut_law *law, double error)
{
	const struct taut_cost_class *c = tauti_nearest_class(costs, as);
	struct taut_transfer t = { .core = costs->drag,
		.on_network = as->hosts > 1 };

	if (!c)
		return t;
	t.amount = tauti_link_bytes(law, t.on_network) *
		shifted(c->line.beta, c->line.beta_error, error);
	t.latency_ns = llround(law->messages / tauti_messages_of(c) *
		shifted(c->line.alpha, c->line.alpha_error, error));
	return t;
}

static double ratio(double now, double before)
{
	return before > 0 ? now / before : 1;
}

/* What does not change costs what it did; what does, as much by byte as the
 * bytes that were under way with it. */
static struct taut_transfer carried(const struct taut_costs *costs,
	uint32_t like, const struct taut_law_in *as,
	const struct taut_law *law, double error)
{
	struct taut_law_in was_in = taut_costs_law_in(costs, like);
	struct taut_law was = taut_law(&was_in);
	struct taut_transfer t = costs->transfers[like];
	double latency = (double)t.latency_ns, whole = t.amount + latency;
	double bytes = tauti_link_bytes(law, as->hosts > 1);
	double bytes_then = tauti_link_bytes(&was, t.on_network);
	double amount = t.amount;

	if (bytes != bytes_then)
		amount = costs->byte_ns[like] > 0 ?
			costs->byte_ns[like] * bytes :
			amount * ratio(bytes, bytes_then);
	if (costs->class_of[like] != TAUT_NONE && error != 0) {
		const struct taut_line *line =
			&costs->classes[costs->class_of[like]].line;
		double is = shifted(line->alpha, line->alpha_error, error);

		is = is < whole ? is : whole;
		if (whole > latency)
			amount *= (whole - is) / (whole - latency);
		latency = is;
	}
	t.amount = amount;
	t.latency_ns = llround(latency * ratio(law->messages, was.messages));
	t.on_network = as->hosts > 1;
	return t;
}

struct taut_transfer taut_costs_transfer(const struct taut_costs *costs,
	uint32_t like, const struct taut_law_in *as, double error)
{
	struct taut_law law = taut_law(as);
	int on_network = as->hosts > 1;
	const struct taut_cost_class *c = tauti_nearest_class(costs, as);

	/* what moved over another kind of link tells less than a line */
	if (like == TAUT_NONE || (c && c->on_network == on_network &&
			costs->transfers[like].on_network != on_network))
		return by_line(costs, as, &law, error);
	return carried(costs, like, as, &law, error);
}

/* --- links to play on -----------------------------------------------------------------------*/

/* NULL: no such transfers, or none with bytes. */
static const struct taut_cost_class *surest_class(
	const struct taut_costs *costs, int on_network)
{
	const struct taut_cost_class *best = NULL;

	for (uint32_t i = 0; i < costs->n_classes; i++) {
		const struct taut_cost_class *c = &costs->classes[i];

		if (c->line.n && !c->on_network == !on_network &&
			(!best || c->line.n > best->line.n))
			best = c;
	}
	return best;
}

static double rate(const struct taut_cost_class *class)
{
	return class && class->line.beta > 0 ? 1 / class->line.beta : 0;
}

static int64_t latency_ns(const struct taut_cost_class *class)
{
	return class ?
		llround(class->line.alpha / tauti_messages_of(class)) : 0;
}

void taut_costs_net(const struct taut_costs *costs,
	struct taut_play_host *ret_hosts, struct taut_play_net *ret_net)
{
	const struct taut_cost_class *far = surest_class(costs, 1);
	const struct taut_cost_class *near = surest_class(costs, 0);
	const struct taut_site *site = &costs->site;

	for (uint32_t i = 0; i < site->n_hosts; i++)
		ret_hosts[i] = (struct taut_play_host){
			.out = rate(far) * site->hosts[i].up,
			.in = rate(far) * site->hosts[i].down };
	*ret_net = (struct taut_play_net){
		.n_ranks = site->n_ranks, .n_hosts = site->n_hosts,
		.host_of = site->host_of, .hosts = ret_hosts,
		.backbone = rate(far) * site->backbone,
		.local = rate(near),
		.network_ns = latency_ns(far), .local_ns = latency_ns(near),
	};
}
