/* link.c - another network: rate and latency of the hosts' links.
 *
 * A recorded rate is what was carried (goodput); a rate that somebody asks for
 * is what a link is sold with. Of the latter TCP in frames of 1,500 bytes
 * carries 1,448 of 1,514 bytes as payload. */
#include <stdlib.h>
#include <string.h>

#include "whatif/whatif.h"

enum { RATE, LATENCY, FROM, DIRECTION, HOST, BETWEEN };
enum { BOTH, UP, DOWN };
enum { HOSTS, RANKS };

static const double payload = 1448.0 / 1514.0;
/* Of a transfer's time, what is the link's where nothing tells. */
static const double link_share = 0.9;
static const double most_latency_ns = 1e12;

struct link {
	struct tauti_whatif *w;
	const struct tauti_change *c;
	struct taut_error *err;
	const struct taut_cost_class *main; /* most bytes; NULL: not known */
	double goodput; /* bit/s; 0: not known */
	uint32_t between; /* HOSTS, or RANKS of one host */
};

/* --- what the recording says of its links --------------------------------------- */

static bool is_used(const struct link *l)
{
	const struct taut_costs *costs = l->w->costs;

	for (uint32_t i = 0; i < l->w->graph->n_collectives; i++)
		if (costs->transfers[i].on_network == (l->between == HOSTS) &&
			(costs->transfers[i].amount > 0 ||
			costs->transfers[i].latency_ns > 0))
			return true;
	return false;
}

/* The class over these links that moved most bytes. */
static taut_status find_main(struct link *l)
{
	const struct taut_costs *costs = l->w->costs;
	double *bytes = calloc(costs->n_classes + 1, sizeof *bytes);
	double most = 0;

	if (!bytes)
		return taut_error_set(l->err, TAUT_ENOMEM, -1,
			"no memory for the links");
	for (uint32_t i = 0; i < l->w->graph->n_collectives; i++)
		if (costs->class_of[i] != TAUT_NONE)
			bytes[costs->class_of[i]] +=
				(double)l->w->graph->collectives[i].bytes;
	for (uint32_t k = 0; k < costs->n_classes; k++)
		if (costs->classes[k].on_network == (l->between == HOSTS) &&
			bytes[k] > most) {
			most = bytes[k];
			l->main = &costs->classes[k];
		}
	free(bytes);
	if (l->main && l->main->rate_gbs > 0)
		l->goodput = l->main->rate_gbs * 8e9;
	return TAUT_OK;
}

/* --- rate --------------------------------------------------------------------- */

/* Time of a transfer of which `share` is the link's, were the link `factor`
 * times as fast: as a factor of the rate. */
static double with_share(double factor, double share)
{
	return 1 / (share / factor + 1 - share);
}

/* The factor, and how far it may be off. A faster link shows what it had
 * hidden: the part of the transfers that cores and protocol take. A slower one
 * may have room left, where the transfers did not fill it. */
static double believed(struct link *l, double factor, double nominal)
{
	double fill = nominal > 0 && l->goodput > 0 ?
		l->goodput / (nominal * payload) : 0;
	double share = fill > 0 && fill < 1 ? fill : fill >= 1 ? 1 :
		link_share;

	if (factor > 1)
		return tauti_range(l->w, factor, factor,
			with_share(factor, share < link_share ? share :
			link_share));
	if (factor < 1 && fill > 0 && fill < 1)
		return tauti_range(l->w, factor / fill < 1 ? factor / fill : 1,
			factor, factor);
	return factor;
}

static taut_status say_fill(struct link *l, double nominal)
{
	double fill = l->goodput / (nominal * payload);

	if (l->goodput > 0 && fill < 0.7)
		return tauti_note(l->w, l->err, "link: the recorded transfers "
			"filled %.0f %% of a link of %.3g Gbit/s; what else "
			"held them back may do so again", fill * 100,
			nominal / 1e9);
	return TAUT_OK;
}

/* An absolute rate as a factor of the recorded one. */
static taut_status factor_of_rate(
	struct link *l, double rate, double *ret_factor)
{
	double nominal = 0;
	bool is_factor = false;
	taut_status status;

	if (tauti_param_given(l->c, FROM)) {
		status = tauti_param_scaled(l->c, FROM, TAUTI_BITS_PER_S,
			&is_factor, &nominal, l->err);
		if (!status && (is_factor || nominal <= 0))
			status = tauti_param_wrong(l->c, FROM,
				"the recorded link's rate, like 1gbit", l->err);
		if (!status)
			status = say_fill(l, nominal);
		if (!status)
			*ret_factor = believed(l, rate / nominal, nominal);
		return status;
	}
	if (l->goodput <= 0)
		return taut_error_set(l->err, TAUT_EINVAL, -1, "link: the "
			"recording does not tell how fast its link was; give a "
			"factor like link=2x, or the rate: from=1gbit");
	*ret_factor = believed(l, rate * payload / l->goodput, 0);
	*ret_factor = tauti_range(l->w, *ret_factor / payload, *ret_factor,
		*ret_factor);
	return tauti_note(l->w, l->err, "link: the recorded link is taken for "
		"one of %.3g Gbit/s, from the %.3g Gbit/s that large transfers "
		"reached; from=RATE says what it was",
		l->goodput / payload / 1e9, l->goodput / 1e9);
}

static taut_status find_host(struct link *l, uint32_t *ret_host)
{
	const char *text = l->c->values[HOST];
	const struct taut_run *run = l->w->graph->run;

	for (uint32_t i = 0; i < run->n_traces && i < l->w->site.n_ranks; i++)
		if (run->traces[i].host && *run->traces[i].host &&
			!strcmp(run->traces[i].host, text)) {
			*ret_host = l->w->site.host_of[i];
			return TAUT_OK;
		}
	return tauti_param_count(l->c, HOST, 0,
		l->w->site.n_hosts ? l->w->site.n_hosts - 1 : 0, ret_host,
		l->err);
}

static taut_status scale_hosts(struct link *l, double factor)
{
	uint32_t direction, host = TAUT_NONE;
	taut_status status = tauti_param_word(
		l->c, DIRECTION, &direction, l->err);

	if (!status && tauti_param_given(l->c, HOST))
		status = find_host(l, &host);
	for (uint32_t i = 0; !status && i < l->w->site.n_hosts; i++) {
		if (host != TAUT_NONE && i != host)
			continue;
		if (l->between == RANKS)
			l->w->site.hosts[i].local *= factor;
		else if (direction != DOWN)
			l->w->site.hosts[i].up *= factor;
		if (l->between == HOSTS && direction != UP)
			l->w->site.hosts[i].down *= factor;
	}
	return status;
}

static taut_status change_rate(struct link *l)
{
	bool is_factor;
	double value, factor = 1;
	taut_status status = tauti_param_scaled(
		l->c, RATE, TAUTI_BITS_PER_S, &is_factor, &value, l->err);

	if (!status && value <= 0)
		status = tauti_param_wrong(
			l->c, RATE, "more than nothing", l->err);
	if (status)
		return status;
	if (is_factor)
		factor = believed(l, value, 0);
	else
		status = factor_of_rate(l, value, &factor);
	if (!status && factor > 1)
		status = tauti_note(l->w, l->err, "link: a faster link than "
			"the recorded one is an extrapolation; its interval "
			"allows for a part of each transfer that no link "
			"shortens");
	return status ? status : scale_hosts(l, factor);
}

/* --- latency --------------------------------------------------------------------- */

/* What one message took at the start of a transfer, software included; 0: the
 * recording does not tell. */
static double message_ns(const struct link *l)
{
	struct taut_law_in in;

	if (!l->main || l->main->line.alpha <= 0)
		return 0;
	in = (struct taut_law_in){ .kind = l->main->kind,
		.ranks = (uint32_t)l->main->group_size,
		.hosts = l->w->costs->site.n_hosts, .bytes = 1 };
	double messages = taut_law(&in).messages;

	return messages > 0 ? l->main->line.alpha / messages : 0;
}

static taut_status change_latency(struct link *l)
{
	bool is_factor;
	double value;
	taut_status status = tauti_param_scaled(
		l->c, LATENCY, TAUTI_NS, &is_factor, &value, l->err);

	if (!status && value > (is_factor ? 1e6 : most_latency_ns))
		status = tauti_param_wrong(l->c, LATENCY, "at most 1000s, or "
			"1000000 times what it was", l->err);
	if (status)
		return status;
	if (is_factor) {
		l->w->latency *= value;
		l->w->latency_add_ns *= value;
		return TAUT_OK;
	}
	l->w->latency *= tauti_range(l->w, 0, 0.5, 1);
	l->w->latency_add_ns = value;
	return tauti_note(l->w, l->err, "link: latency=TIME is what a message "
		"takes on the link; half of the %.3g us that one took in the "
		"recording are taken for the link's, the rest for the "
		"software's", message_ns(l) / 1e3);
}

static taut_status apply(struct tauti_whatif *w,
	const struct tauti_change *change, struct taut_error *err)
{
	struct link l = { .w = w, .c = change, .err = err };
	bool rate = tauti_param_given(change, RATE);
	bool latency = tauti_param_given(change, LATENCY);
	taut_status status;

	if (!rate && !latency)
		return taut_error_set(err, TAUT_EINVAL, -1, "link: expected a "
			"rate (link=4gbit, link=2x) or latency=TIME|FACTOR");
	status = tauti_param_word(change, BETWEEN, &l.between, err);
	if (status)
		return status;
	if (l.between == RANKS && latency)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"link: latency is of links between hosts");
	if (!is_used(&l))
		return taut_error_set(err, TAUT_EINVAL, -1, l.between == HOSTS ?
			"link: no transfer of this recording goes from host to "
			"host; between=ranks changes the links inside a host" :
			"link: no transfer of this recording stays inside a "
			"host");
	status = find_main(&l);
	if (!status && rate)
		status = change_rate(&l);
	if (!status && latency)
		status = change_latency(&l);
	return status;
}

static const struct taut_parameter parameters[] = {
	[RATE] = { "", "RATE|FACTOR", "", "of each host's link: 4gbit, 2x, -50%" },
	[LATENCY] = { "latency", "TIME|FACTOR", "",
		"what a message takes on the link: 50us, 0.5x" },
	[FROM] = { "from", "RATE", "", "what the recorded link was sold with; "
		"without it, the rate that large transfers reached" },
	[DIRECTION] = { "direction", "both|up|down", "both",
		"out of the host, into it, or both" },
	[HOST] = { "host", "HOST", "", "one host alone, by name or by number "
		"from 0" },
	[BETWEEN] = { "between", "hosts|ranks", "hosts", "ranks: the links "
		"inside a host" },
};

const struct tauti_transformation tauti_whatif_link = {
	.info = {
		.name = "link",
		.group = "network",
		.summary = "links of another rate or latency",
		.assumption = "transfers fill the link as they did; what "
			"shares it shares it fairly; a faster one is held back "
			"by the cores as far as the recording shows that they "
			"were busy with transfers",
		.source = "alpha-beta line of the recording's own transfers, "
			"max-min sharing",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof parameters[0],
	},
	.apply = apply,
};
