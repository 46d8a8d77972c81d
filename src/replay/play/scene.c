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
#include <string.h>

#include "builder.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory to play a collective");
}

/* --- who waits ----------------------------------------------------------------------*/

static bool wait_for(struct tauti_builder *b, uint32_t from, uint32_t to)
{
	struct tauti_play_wait w = { from, to, 0 };

	return taut_vec_push(&b->waits, w);
}

static bool wait_for_pass(struct tauti_builder *b, uint32_t rank, uint32_t to)
{
	return wait_for(b, tauti_begin_of(b, rank), to);
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
static bool wait_for_step(struct tauti_builder *b, uint32_t step, uint32_t to)
{
	const struct tauti_script *script = b->script;
	bool ok = true;

	if (tauti_script_step(script, step)->kind != TAUT_STEP_SEND)
		return wait_for(b, b->base + step, to);
	for (uint32_t k = 0; ok && k < messages_of(script, step); k++)
		ok = wait_for(b, tauti_op_of_message(
			b, message_at(script, step, k)), to);
	return ok;
}

static bool is_eager(
	const struct tauti_builder *b, const struct taut_coll_step *s)
{
	return b->net && s->count * b->element_bytes <= b->net->eager_bytes;
}

/* What the step waits for, or its pass: before `to`, which is its op or that of the
 * message that it receives. */
static bool begin_behind(struct tauti_builder *b, uint32_t step, uint32_t to)
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
	const struct tauti_builder *b, const struct tauti_play_message *m)
{
	if (!b->net)
		return 0;
	return tauti_is_near(b->net, m) ? b->net->local_ns : b->net->network_ns;
}

static bool receive(struct tauti_builder *b, uint32_t step,
	const struct taut_coll_step *s)
{
	uint32_t op = b->base + step, number = message_at(b->script, step, 0);
	uint32_t message = tauti_op_of_message(b, number);
	struct tauti_play_wait comes = { message, op,
		latency_ns(b, &b->script->messages[number]) };

	if (!taut_vec_push(&b->waits, comes))
		return false;
	if (s->kind == TAUT_STEP_RECV_REDUCE)
		return begin_behind(b, step, op) && (is_eager(b, s) ||
			wait_for_pass(b, b->script->rank_of[step], message));
	return begin_behind(b, step, is_eager(b, s) ? op : message);
}

static bool send(struct tauti_builder *b, uint32_t step)
{
	bool ok = begin_behind(b, step, b->base + step);

	for (uint32_t k = 0; ok && k < messages_of(b->script, step); k++)
		ok = wait_for(b, b->base + step,
			tauti_op_of_message(b, message_at(b->script, step, k)));
	return ok;
}

static bool connect_step(struct tauti_builder *b, uint32_t step)
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
			b, step, tauti_end_of(b, b->script->rank_of[step]));
	return ok;
}

static bool connect_rank(struct tauti_builder *b, uint32_t rank)
{
	return b->script->of[rank]->n_steps ||
		wait_for_pass(b, rank, tauti_end_of(b, rank));
}

/* --- passes -----------------------------------------------------------------------*/

static bool time_pass(struct tauti_builder *b)
{
	uint32_t n = b->script->n_messages, n_ranks = b->script->n_ranks;

	memset(b->kind + tauti_op_of_message(b, 0), TAUT_OP_TRANSFER, n);
	memset(b->kind + tauti_begin_of(b, 0), TAUT_OP_ARRIVE, n_ranks);
	memset(b->kind + tauti_end_of(b, 0), TAUT_OP_JOIN, n_ranks);
	if (b->net)
		return tauti_times_add(b);
	for (uint32_t i = 0; i < n; i++)
		b->dur_ns[tauti_op_of_message(b, i)] = 1;
	return true;
}

static bool add_pass(struct tauti_builder *b)
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
static bool sort_waits(struct tauti_builder *b)
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

static bool begin_graph(struct tauti_builder *b, uint32_t n_ops)
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
/* --- all ----------------------------------------------------------------------------------*/

static bool add_passes(struct tauti_builder *b, const struct tauti_passes *passes)
{
	const struct tauti_script *whole = passes->whole;
	uint32_t each = tauti_ops_of(whole);
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
	struct tauti_builder *b, const struct tauti_passes *passes)
{
	const struct tauti_script *whole = passes->whole, *rest = passes->rest;
	uint64_t n_ops = (uint64_t)tauti_ops_of(whole) * passes->n_whole +
		(rest ? tauti_ops_of(rest) : 0);
	size_t n_flows = (size_t)whole->n_messages * passes->n_whole +
		(rest ? rest->n_messages : 0);
	bool ok;

	if (n_ops >= TAUT_NONE / 8)
		return taut_error_set(b->err, TAUT_EINVAL, -1,
			"%u passes of %u steps are too many to be played",
			(unsigned)passes->n_whole, (unsigned)whole->n_steps);
	ok = begin_graph(b, (uint32_t)n_ops);
	if (ok && b->net)
		ok = tauti_times_begin(b, passes, (uint32_t)n_ops, n_flows);
	ok = ok && add_passes(b, passes) && sort_waits(b);
	if (ok && b->net)
		ok = tauti_times_end(b);
	taut_vec_free(&b->uses);
	taut_vec_free(&b->waits);
	return ok ? TAUT_OK : no_memory(b->err);
}

taut_status tauti_scene_init(struct tauti_scene *ret_scene,
	struct taut_arena *arena, const struct taut_play_net *net,
	const struct tauti_passes *passes, uint32_t at_once,
	uint32_t element_bytes, struct taut_error *err)
{
	struct tauti_builder b = { .scene = ret_scene, .arena = arena, .net = net,
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
	struct tauti_builder b = { .scene = ret_scene, .arena = arena, .at_once = 1,
		.err = err };

	*ret_scene = (struct tauti_scene){ 0 };
	return build(&b, &one);
}
