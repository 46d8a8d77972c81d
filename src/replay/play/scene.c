/* scene.c - passes of schedules as a graph, and what its operations share.
 *
 * A pass has an operation for each step, one for each message, and each rank's begin
 * and end, in this order. All stand on one lane of joins, which do not wait for each
 * other: what waits for what is edges alone.
 *
 *     SEND         -> message -> latency -> RECV -> who waits for the RECV
 *                        \---------------------------> who waits for the SEND
 *     what a RECV waits for -> message         (eager: -> RECV)
 *     a rank's begin -> its first steps,  its last steps -> its end
 *
 * A rank begins the next of its passes whenever one of those under way has ended.
 * Where a RECV_REDUCE puts what comes is its own from the begin of the pass, so its
 * message waits for that alone, and the step for what it adds to. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "play.h"

struct wait {
	uint32_t from, to;
	int64_t lag_ns;
};

struct pair {
	uint32_t from, to; /* ranks */
};

struct builder {
	struct tauti_scene *scene;
	struct taut_arena *arena;
	const struct taut_play_net *net; /* NULL: messages are counted */
	uint32_t element_bytes;
	uint32_t at_once, n_passes;
	int64_t *dur_ns;
	uint8_t *kind;
	struct taut_flow *flows;
	uint32_t *flow_of;
	TAUT_VEC(struct taut_flow_use) uses;
	TAUT_VEC(struct wait) waits;
	const uint32_t *queue_of_whole, *queue_of_rest; /* by message */
	struct taut_error *err;
	/* of the pass at hand */
	const struct tauti_script *script;
	const uint32_t *queue_of; /* by message of it */
	uint32_t base; /* its first op */
};

#define MOST_NS 1152921504606846976.0 /* 2^60: as taut_replay() */

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory to play a collective");
}

static bool is_near(const struct taut_play_net *net,
	const struct tauti_play_message *m)
{
	return tauti_play_host(net, m->from) == tauti_play_host(net, m->to);
}

static uint32_t ops_of(const struct tauti_script *script)
{
	return script->n_steps + script->n_messages + 2 * script->n_ranks;
}

static uint32_t op_of_message(const struct builder *b, uint32_t message)
{
	return b->base + b->script->n_steps + message;
}

static uint32_t begin_of(const struct builder *b, uint32_t rank)
{
	return op_of_message(b, b->script->n_messages) + rank;
}

static uint32_t end_of(const struct builder *b, uint32_t rank)
{
	return begin_of(b, rank) + b->script->n_ranks;
}

/* --- who waits ----------------------------------------------------------------------*/

static bool wait_for(struct builder *b, uint32_t from, uint32_t to)
{
	struct wait w = { from, to, 0 };

	return taut_vec_push(&b->waits, w);
}

static bool wait_for_pass(struct builder *b, uint32_t rank, uint32_t to)
{
	return wait_for(b, begin_of(b, rank), to);
}

static uint32_t messages_of(const struct tauti_script *script, uint32_t step)
{
	return script->first_message[step + 1] - script->first_message[step];
}

static uint32_t message_at(
	const struct tauti_script *script, uint32_t step, uint32_t k)
{
	return script->message_of[script->first_message[step] + k];
}

/* A SEND is done when its messages have left. */
static bool wait_for_step(struct builder *b, uint32_t step, uint32_t to)
{
	const struct tauti_script *script = b->script;
	bool ok = true;

	if (tauti_script_step(script, step)->kind != TAUT_STEP_SEND)
		return wait_for(b, b->base + step, to);
	for (uint32_t k = 0; ok && k < messages_of(script, step); k++)
		ok = wait_for(b, op_of_message(b, message_at(script, step, k)),
			to);
	return ok;
}

static bool is_eager(const struct builder *b, const struct taut_coll_step *s)
{
	return b->net && s->count * b->element_bytes <= b->net->eager_bytes;
}

/* What the step waits for, or its pass: before `to`, which is its op or that of the
 * message that it receives. */
static bool begin_behind(struct builder *b, uint32_t step, uint32_t to)
{
	uint32_t rank = b->script->rank_of[step];
	uint32_t first = b->script->first_step[rank];
	const struct taut_coll_schedule *schedule = b->script->of[rank];
	const struct taut_coll_step *s = &schedule->steps[step - first];
	bool ok = true;

	if (!s->n_waits)
		return wait_for_pass(b, rank, to);
	for (uint32_t k = 0; ok && k < s->n_waits; k++)
		ok = wait_for_step(b,
			first + schedule->waits[s->first_wait + k], to);
	return ok;
}

static int64_t latency_ns(
	const struct builder *b, const struct tauti_play_message *m)
{
	if (!b->net)
		return 0;
	return is_near(b->net, m) ? b->net->local_ns : b->net->network_ns;
}

static bool receive(struct builder *b, uint32_t step,
	const struct taut_coll_step *s)
{
	uint32_t op = b->base + step, number = message_at(b->script, step, 0);
	uint32_t message = op_of_message(b, number);
	struct wait comes = { message, op,
		latency_ns(b, &b->script->messages[number]) };

	if (!taut_vec_push(&b->waits, comes))
		return false;
	if (s->kind == TAUT_STEP_RECV_REDUCE)
		return begin_behind(b, step, op) && (is_eager(b, s) ||
			wait_for_pass(b, b->script->rank_of[step], message));
	return begin_behind(b, step, is_eager(b, s) ? op : message);
}

static bool send(struct builder *b, uint32_t step)
{
	bool ok = begin_behind(b, step, b->base + step);

	for (uint32_t k = 0; ok && k < messages_of(b->script, step); k++)
		ok = wait_for(b, b->base + step,
			op_of_message(b, message_at(b->script, step, k)));
	return ok;
}

static bool connect_step(struct builder *b, uint32_t step)
{
	const struct taut_coll_step *s = tauti_script_step(b->script, step);
	bool ok;

	switch (s->kind) {
	case TAUT_STEP_SEND:
		ok = send(b, step);
		break;
	case TAUT_STEP_RECV:
	case TAUT_STEP_RECV_REDUCE:
		ok = receive(b, step, s);
		break;
	default:
		ok = begin_behind(b, step, b->base + step);
	}
	if (ok && b->script->is_last[step])
		ok = wait_for_step(
			b, step, end_of(b, b->script->rank_of[step]));
	return ok;
}

static bool connect_rank(struct builder *b, uint32_t rank)
{
	return b->script->of[rank]->n_steps ||
		wait_for_pass(b, rank, end_of(b, rank));
}

/* --- what takes time ------------------------------------------------------------------*/

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

static void time_step(struct builder *b, uint32_t step)
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
static bool use(struct builder *b, uint32_t resource, double rate)
{
	struct taut_flow_use u = { resource, 1 };

	return rate <= 0 || taut_vec_push(&b->uses, u);
}

static bool use_links(struct builder *b, uint32_t from, uint32_t to)
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
static bool time_message(struct builder *b, uint32_t message)
{
	const struct tauti_play_message *m = &b->script->messages[message];
	uint32_t op = op_of_message(b, message), n = (uint32_t)b->uses.count;
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
static void hold_passes(struct builder *b)
{
	uint32_t n = b->script->n_ranks;

	for (uint32_t r = 0; r < n && b->n_passes > b->at_once; r++) {
		b->scene->queue_of[begin_of(b, r)] = n + r;
		b->scene->queue_of[end_of(b, r)] = n + r;
		b->scene->n_held++;
	}
}

static bool time_pass(struct builder *b)
{
	const struct tauti_script *script = b->script;
	bool ok = true;

	memset(b->kind + op_of_message(b, 0), TAUT_OP_TRANSFER,
		script->n_messages);
	memset(b->kind + begin_of(b, 0), TAUT_OP_ARRIVE, script->n_ranks);
	memset(b->kind + end_of(b, 0), TAUT_OP_JOIN, script->n_ranks);
	if (!b->net) {
		for (uint32_t i = 0; i < script->n_messages; i++)
			b->dur_ns[op_of_message(b, i)] = 1;
		return true;
	}
	for (uint32_t i = 0; i < script->n_steps; i++)
		time_step(b, i);
	for (uint32_t i = 0; ok && i < script->n_messages; i++)
		ok = time_message(b, i);
	hold_passes(b);
	return ok;
}

static bool add_pass(struct builder *b)
{
	bool ok = time_pass(b);

	for (uint32_t i = 0; ok && i < b->script->n_steps; i++)
		ok = connect_step(b, i);
	for (uint32_t r = 0; ok && r < b->script->n_ranks; r++)
		ok = connect_rank(b, r);
	return ok;
}

/* --- the graph --------------------------------------------------------------------------*/

/* Edges by the op that they leave; those of one in the order of adding. */
static bool sort_waits(struct builder *b)
{
	struct taut_graph *g = &b->scene->graph;
	size_t n = b->waits.count;
	uint32_t *begin = TAUT_ARENA_ARRAY(
		b->arena, uint32_t, (size_t)g->n_ops + 2);
	uint32_t *to = TAUT_ARENA_ARRAY(b->arena, uint32_t, n + 1);
	int64_t *lag_ns = TAUT_ARENA_ARRAY(b->arena, int64_t, n + 1);
	uint8_t *kind = TAUT_ARENA_ARRAY(b->arena, uint8_t, n + 1);

	if (!begin || !to || !lag_ns || !kind)
		return false;
	for (size_t i = 0; i < n; i++)
		begin[b->waits.data[i].from + 2]++;
	for (uint32_t op = 0; op < g->n_ops; op++)
		begin[op + 2] += begin[op + 1];
	for (size_t i = 0; i < n; i++) {
		uint32_t at = begin[b->waits.data[i].from + 1]++;

		to[at] = b->waits.data[i].to;
		lag_ns[at] = b->waits.data[i].lag_ns;
		kind[at] = TAUT_EDGE_COMM;
	}
	g->n_edges = (uint32_t)n;
	g->edge_begin = begin;
	g->edge_to = to;
	g->edge_lag_ns = lag_ns;
	g->edge_kind = kind;
	return true;
}

static bool begin_graph(struct builder *b, uint32_t n_ops)
{
	static const struct taut_graph_lane joins = { .trace = TAUT_NONE };
	struct taut_graph *g = &b->scene->graph;
	uint32_t *lane_begin = TAUT_ARENA_ARRAY(b->arena, uint32_t, 2);
	const uint32_t *zero = TAUT_ARENA_ARRAY(b->arena, uint32_t, n_ops + 1);

	b->dur_ns = TAUT_ARENA_ARRAY(b->arena, int64_t, n_ops + 1);
	g->gap_ns = TAUT_ARENA_ARRAY(b->arena, int64_t, n_ops + 1);
	b->kind = TAUT_ARENA_ARRAY(b->arena, uint8_t, n_ops + 1);
	if (!lane_begin || !zero || !b->dur_ns || !g->gap_ns || !b->kind)
		return false;
	lane_begin[1] = n_ops;
	g->n_ops = n_ops;
	g->n_lanes = 1;
	g->lanes = &joins;
	g->lane_begin = lane_begin;
	g->lane = g->name = zero;
	g->dur_ns = b->dur_ns;
	g->kind = b->kind;
	return true;
}

/* What has no rate is in no use, and may have any. */
static double rate_or_any(double rate)
{
	return rate > 0 ? rate : 1;
}

static bool set_capacities(struct builder *b)
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

static bool begin_sharing(struct builder *b, uint32_t n_ops, size_t n_flows)
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

static bool end_sharing(struct builder *b)
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
	struct builder *b, const struct tauti_passes *passes)
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

/* --- all ----------------------------------------------------------------------------------*/

static bool add_passes(struct builder *b, const struct tauti_passes *passes)
{
	const struct tauti_script *whole = passes->whole;
	uint32_t each = ops_of(whole);
	bool ok = true;

	b->n_passes = passes->n_whole + (passes->rest != NULL);
	for (uint32_t i = 0; ok && i < b->n_passes; i++) {
		b->script = i < passes->n_whole ? whole : passes->rest;
		b->queue_of = i < passes->n_whole ? b->queue_of_whole :
			b->queue_of_rest;
		b->base = i * each;
		ok = add_pass(b);
	}
	return ok;
}

static taut_status build(
	struct builder *b, const struct tauti_passes *passes)
{
	const struct tauti_script *whole = passes->whole, *rest = passes->rest;
	uint64_t n_ops = (uint64_t)ops_of(whole) * passes->n_whole +
		(rest ? ops_of(rest) : 0);
	size_t n_flows = (size_t)whole->n_messages * passes->n_whole +
		(rest ? rest->n_messages : 0);
	bool ok;

	if (n_ops >= TAUT_NONE / 8)
		return taut_error_set(b->err, TAUT_EINVAL, -1,
			"%u passes of %u steps are too many to be played",
			(unsigned)passes->n_whole, (unsigned)whole->n_steps);
	ok = begin_graph(b, (uint32_t)n_ops);
	if (ok && b->net)
		ok = begin_sharing(b, (uint32_t)n_ops, n_flows) &&
			number_connections(b, passes);
	ok = ok && add_passes(b, passes) && sort_waits(b);
	if (ok && b->net)
		ok = end_sharing(b);
	taut_vec_free(&b->uses);
	taut_vec_free(&b->waits);
	return ok ? TAUT_OK : no_memory(b->err);
}

taut_status tauti_scene_init(struct tauti_scene *ret_scene,
	struct taut_arena *arena, const struct taut_play_net *net,
	const struct tauti_passes *passes, uint32_t at_once,
	uint32_t element_bytes, struct taut_error *err)
{
	struct builder b = { .scene = ret_scene, .arena = arena, .net = net,
		.element_bytes = element_bytes, .at_once = at_once,
		.err = err };

	*ret_scene = (struct tauti_scene){ .n_ranks = net->n_ranks,
		.at_once = at_once };
	return build(&b, passes);
}

taut_status tauti_scene_init_count(struct tauti_scene *ret_scene,
	struct taut_arena *arena, const struct tauti_script *script,
	struct taut_error *err)
{
	struct tauti_passes one = { script, 1, NULL };
	struct builder b = { .scene = ret_scene, .arena = arena, .at_once = 1,
		.err = err };

	*ret_scene = (struct tauti_scene){ 0 };
	return build(&b, &one);
}
