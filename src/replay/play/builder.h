/* builder.h - a scene in the making.
 *
 *     scene.c  the graph: passes, and who waits for whom
 *     times.c  what takes time: ranks' own work, messages over links, and queues
 *
 * Owner:   arrays lie in the builder's arena; vectors are freed by who began.
 * Threads: one at a time. */
#ifndef TAUT_REPLAY_PLAY_BUILDER_H
#define TAUT_REPLAY_PLAY_BUILDER_H

#include "base/vec.h"
#include "play.h"

struct tauti_play_wait {
	uint32_t from, to;
	int64_t lag_ns;
};

struct tauti_builder {
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
	TAUT_VEC(struct tauti_play_wait) waits;
	const uint32_t *queue_of_whole, *queue_of_rest; /* by message */
	struct taut_error *err;
	/* of the pass at hand */
	const struct tauti_script *script;
	const uint32_t *queue_of; /* by message of it */
	uint32_t base; /* its first op */
};

static inline bool tauti_is_near(const struct taut_play_net *net,
	const struct tauti_play_message *m)
{
	return tauti_play_host(net, m->from) == tauti_play_host(net, m->to);
}

static inline uint32_t tauti_ops_of(const struct tauti_script *script)
{
	return script->n_steps + script->n_messages + 2 * script->n_ranks;
}

static inline uint32_t tauti_op_of_message(
	const struct tauti_builder *b, uint32_t message)
{
	return b->base + b->script->n_steps + message;
}

static inline uint32_t tauti_begin_of(
	const struct tauti_builder *b, uint32_t rank)
{
	return tauti_op_of_message(b, b->script->n_messages) + rank;
}

static inline uint32_t tauti_end_of(
	const struct tauti_builder *b, uint32_t rank)
{
	return tauti_begin_of(b, rank) + b->script->n_ranks;
}

/* --- times.c ----------------------------------------------------------------------*/

/* Before any pass: links, queues, connections. False: no memory. */
bool tauti_times_begin(struct tauti_builder *builder,
	const struct tauti_passes *passes, uint32_t n_ops, size_t n_flows);
/* Of the pass at hand. */
bool tauti_times_add(struct tauti_builder *builder);
bool tauti_times_end(struct tauti_builder *builder);

#endif /* TAUT_REPLAY_PLAY_BUILDER_H */
