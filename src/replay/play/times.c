/* times.c - what takes time in a scene: what ranks do themselves, messages over the
 * links that they share, and who waits for room. */
#include <math.h>

#include "builder.h"

struct pair {
	uint32_t from, to; /* ranks */
};

#define MOST_NS 1152921504606846976.0 /* 2^60: as taut_replay() */

/* --- steps, messages, passes ---------------------------------------------------------*/

double tauti_play_own_ns(const struct taut_play_net *net,
	const struct taut_coll_step *s, uint32_t element_bytes)
{
	double bytes = (double)s->count * element_bytes;

	switch (s->kind) {
	case TAUT_STEP_SEND:
		return (double)net->message_ns * s->n_peers;
	case TAUT_STEP_RECV:
		return (double)net->message_ns;
	case TAUT_STEP_RECV_REDUCE:
		return (double)net->message_ns + bytes * net->reduce_ns;
	case TAUT_STEP_REDUCE:
		return bytes * net->reduce_ns;
	default:
		return bytes * net->copy_ns;
	}
}

/* The first whole nanosecond at which it is done, to a millionth: as a flow. */
static int64_t whole_ns(double ns)
{
	return ns < MOST_NS ? (int64_t)ceil(ns - 1e-6) : (int64_t)MOST_NS;
}

static void time_step(struct tauti_builder *b, uint32_t step)
{
	uint32_t op = b->base + step;

	b->dur_ns[op] = whole_ns(tauti_play_own_ns(b->net,
		tauti_script_step(b->script, step), b->element_bytes));
	if (b->dur_ns[op] <= 0)
		return;
	b->scene->queue_of[op] = b->script->rank_of[step];
	b->scene->n_held++;
}

/* Resources, in this order: out of and into each host, out of and into each rank,
 * each host's memory, the backbone. */
static bool use(struct tauti_builder *b, uint32_t resource, double rate)
{
	struct taut_flow_use u = { resource, 1 };

	return rate <= 0 || taut_vec_push(&b->uses, u);
}

static bool use_links(struct tauti_builder *b, uint32_t from, uint32_t to)
{
	static const struct taut_play_host never_full;
	const struct taut_play_net *net = b->net;
	uint32_t a = tauti_play_host(net, from), z = tauti_play_host(net, to);
	uint32_t n = net->n_hosts, p = net->n_ranks;
	const struct taut_play_host *out =
		net->hosts ? &net->hosts[a] : &never_full;
	const struct taut_play_host *in =
		net->hosts ? &net->hosts[z] : &never_full;

	if (a != z)
		return use(b, a, out->out) && use(b, n + z, in->in) &&
			use(b, 2 * n + 2 * p + n, net->backbone);
	return use(b, 2 * n + from, net->local) &&
		use(b, 2 * n + p + to, net->local) &&
		use(b, 2 * n + 2 * p + a, out->memory);
}

/* What uses nothing takes nothing, and waits for nobody. */
static bool time_message(struct tauti_builder *b, uint32_t message)
{
	const struct tauti_play_message *m = &b->script->messages[message];
	uint32_t op = tauti_op_of_message(b, message), n = (uint32_t)b->uses.count;
	struct taut_flow *f = &b->flows[b->scene->sharing.n_flows];

	if (!use_links(b, m->from, m->to))
		return false;
	f->first_use = n;
	f->n_uses = (uint32_t)b->uses.count - n;
	if (!f->n_uses)
		return true;
	f->amount = (double)m->count * b->element_bytes;
	b->flow_of[op] = b->scene->sharing.n_flows++;
	b->scene->queue_of[op] = b->queue_of[message];
	b->scene->n_held++;
	return true;
}

/* All passes at once need not be held. */
static void hold_passes(struct tauti_builder *b)
{
	uint32_t n = b->script->n_ranks;

	for (uint32_t r = 0; r < n && b->n_passes > b->at_once; r++) {
		b->scene->queue_of[tauti_begin_of(b, r)] = n + r;
		b->scene->queue_of[tauti_end_of(b, r)] = n + r;
		b->scene->n_held++;
	}
}

bool tauti_times_add(struct tauti_builder *b)
{
	bool ok = true;

	for (uint32_t i = 0; i < b->script->n_steps; i++)
		time_step(b, i);
	for (uint32_t i = 0; ok && i < b->script->n_messages; i++)
		ok = time_message(b, i);
	hold_passes(b);
	return ok;
}

/* --- links ------------------------------------------------------------------------*/

static double rate_or_any(double rate)
{
	return rate > 0 ? rate : 1;
}

static bool set_capacities(struct tauti_builder *b)
{
	const struct taut_play_net *net = b->net;
	uint32_t n = net->n_hosts, p = net->n_ranks;
	uint32_t n_resources = 3 * n + 2 * p + 1;
	double *capacity = TAUT_ARENA_ARRAY(b->arena, double, n_resources);

	if (!capacity)
		return false;
	for (uint32_t i = 0; i < n_resources; i++)
		capacity[i] = 1;
	for (uint32_t i = 0; net->hosts && i < n; i++) {
		capacity[i] = rate_or_any(net->hosts[i].out);
		capacity[n + i] = rate_or_any(net->hosts[i].in);
		capacity[2 * n + 2 * p + i] =
			rate_or_any(net->hosts[i].memory);
	}
	for (uint32_t i = 0; i < 2 * p; i++)
		capacity[2 * n + i] = rate_or_any(net->local);
	capacity[n_resources - 1] = rate_or_any(net->backbone);
	b->scene->sharing.capacity = capacity;
	b->scene->sharing.n_resources = n_resources;
	b->scene->sharing.least_speed = 1;
	return true;
}

static bool get_arrays(struct tauti_builder *b, uint32_t n_ops, size_t n_flows)
{
	struct tauti_scene *s = b->scene;

	b->flows = TAUT_ARENA_ARRAY(b->arena, struct taut_flow, n_flows + 1);
	b->flow_of = TAUT_ARENA_ARRAY(b->arena, uint32_t, n_ops + 1);
	s->queue_of = TAUT_ARENA_ARRAY(b->arena, uint32_t, n_ops + 1);
	if (!b->flows || !b->flow_of || !s->queue_of || !set_capacities(b))
		return false;
	for (uint32_t op = 0; op < n_ops; op++)
		b->flow_of[op] = s->queue_of[op] = TAUT_NONE;
	s->sharing.flows = b->flows;
	s->sharing.flow_of = b->flow_of;
	return true;
}

bool tauti_times_end(struct tauti_builder *b)
{
	struct taut_flow_use *uses = TAUT_ARENA_ARRAY(
		b->arena, struct taut_flow_use, b->uses.count + 1);

	for (size_t i = 0; uses && i < b->uses.count; i++)
		uses[i] = b->uses.data[i];
	b->scene->sharing.uses = uses;
	b->scene->sharing.n_uses = (uint32_t)b->uses.count;
	return uses != NULL;
}

/* --- connections ---------------------------------------------------------------------------*/

static bool pair_before(const struct pair *a, const struct pair *b)
{
	return a->from < b->from || (a->from == b->from && a->to < b->to);
}

static struct pair pair_of(const struct tauti_script *script, uint32_t i)
{
	static const struct pair none = { TAUT_NONE, TAUT_NONE };

	return script && i < script->n_messages ? (struct pair){
		script->messages[i].from, script->messages[i].to } : none;
}

/* Both scripts have their messages by pairs, so that both are gone through once. */
static bool number_connections(
	struct tauti_builder *b, const struct tauti_passes *passes)
{
	const struct tauti_script *whole = passes->whole, *rest = passes->rest;
	uint32_t n = whole->n_messages, m = rest ? rest->n_messages : 0;
	uint32_t i = 0, k = 0, queue = 2 * whole->n_ranks;
	uint32_t *of_whole = TAUT_ARENA_ARRAY(b->arena, uint32_t, n + 1);
	uint32_t *of_rest = TAUT_ARENA_ARRAY(b->arena, uint32_t, m + 1);

	if (!of_whole || !of_rest)
		return false;
	while (i < n || k < m) {
		struct pair p = pair_of(whole, i), q = pair_of(rest, k), at;

		at = pair_before(&q, &p) ? q : p;
		for (; !pair_before(&at, &p) && i < n; p = pair_of(whole, ++i))
			of_whole[i] = queue;
		for (; !pair_before(&at, &q) && k < m; q = pair_of(rest, ++k))
			of_rest[k] = queue;
		queue++;
	}
	b->scene->n_queues = queue;
	b->queue_of_whole = of_whole;
	b->queue_of_rest = of_rest;
	return true;
}

bool tauti_times_begin(struct tauti_builder *b,
	const struct tauti_passes *passes, uint32_t n_ops, size_t n_flows)
{
	return get_arrays(b, n_ops, n_flows) && number_connections(b, passes);
}
