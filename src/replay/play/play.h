/* play.h - what the files of this folder share.
 *
 *     script.c   the schedules of all ranks for one pass, their messages matched
 *     scene.c  passes of scripts as a graph, and, in times.c, what its operations
 *              take and share
 *     queues.c room for few on each rank and connection: a mechanism of the replay
 *     count.c  what passes move over each link, and ask of each rank
 *     play.c   a call as scripts, played and counted
 *     best.c   the way, pass and passes at once that take least
 *
 * Owner:   what is made lies in the arena that it was made in.
 * Threads: one at a time in an arena.
 * Units:   nanoseconds, bytes, elements. */
#ifndef TAUT_REPLAY_PLAY_PLAY_H
#define TAUT_REPLAY_PLAY_PLAY_H

#include <taut/play.h>
#include <taut/replay.h>

/* --- script.c ------------------------------------------------------------------------*/

struct tauti_play_message {
	uint32_t send, recv; /* steps of the script */
	uint32_t from, to;   /* ranks */
	uint64_t count;
};

/* Step i of rank r is step first_step[r] + i of the script. */
struct tauti_script {
	uint32_t n_ranks, n_steps, n_messages;
	const struct taut_coll_schedule *const *of; /* by rank; borrowed */
	const uint32_t *first_step;    /* n_ranks + 1 */
	const uint32_t *rank_of;       /* by step */
	const uint8_t *is_last;        /* by step: no other waits for it */
	const struct tauti_play_message *messages;
	const uint32_t *first_message; /* by step, n_steps + 1: its messages, in
	                                  message_of */
	const uint32_t *message_of;
};

/* TAUT_EMATCH: a message is sent and not received, or the other way round, or not
 * as long as it is thought to be; a step waits for one behind it. */
taut_status tauti_script_init(struct tauti_script *ret_script,
	struct taut_arena *arena, const struct taut_coll_schedule *const *of,
	uint32_t n_ranks, struct taut_error *err);

static inline const struct taut_coll_step *tauti_script_step(
	const struct tauti_script *script, uint32_t step)
{
	uint32_t rank = script->rank_of[step];
	return &script->of[rank]->steps[step - script->first_step[rank]];
}

/* --- scene.c -----------------------------------------------------------------------*/

struct tauti_scene {
	struct taut_graph graph;
	struct taut_sharing sharing;
	/* What has room for few: each rank for one thing at a time; each rank's
	 * passes for at_once; then connections, each from one rank to another,
	 * for one message. An op leaves at its end, but a rank's begin of a pass
	 * (TAUT_OP_ARRIVE) with its end (TAUT_OP_JOIN). */
	uint32_t n_queues, n_ranks, at_once;
	uint32_t *queue_of; /* by op; TAUT_NONE: it waits for nobody */
	uint32_t n_held;    /* ops that wait for room */
};

struct tauti_passes { /* rest: one more behind n_whole; NULL: none */
	const struct tauti_script *whole;
	uint32_t n_whole;
	const struct tauti_script *rest;
};

/* TAUT_EINVAL: too many operations to be numbered. */
taut_status tauti_scene_init(struct tauti_scene *ret_scene,
	struct taut_arena *arena, const struct taut_play_net *net,
	const struct tauti_passes *passes, uint32_t at_once,
	uint32_t element_bytes, struct taut_error *err);
/* One pass in which a message takes 1 and nothing else takes anything. */
taut_status tauti_scene_init_count(struct tauti_scene *ret_scene,
	struct taut_arena *arena, const struct tauti_script *script,
	struct taut_error *err);

static inline uint32_t tauti_play_host(
	const struct taut_play_net *net, uint32_t rank)
{
	return net->host_of ? net->host_of[rank] : 0;
}

/* What a step takes of its rank's own time. */
double tauti_play_own_ns(const struct taut_play_net *net,
	const struct taut_coll_step *step, uint32_t element_bytes);

/* --- queues.c -----------------------------------------------------------------------*/

struct tauti_played {
	int64_t time_ns;
	uint64_t path_messages; /* as in taut_play_result */
};

/* Replays a scene. TAUT_EAGAIN: it takes limit_ns or more. */
taut_status tauti_scene_play(const struct tauti_scene *scene,
	struct taut_arena *arena, int64_t limit_ns,
	struct tauti_played *ret_played, struct taut_error *err);

/* --- count.c -------------------------------------------------------------------------*/

struct tauti_play_counts {
	struct taut_play_result result; /* without time_ns */
	int64_t least_ns; /* below which time_ns cannot be */
};

/* traffic may be NULL. */
taut_status tauti_play_count(const struct taut_play_net *net,
	struct taut_arena *arena, const struct tauti_passes *passes,
	uint32_t element_bytes, const struct taut_play_traffic *traffic,
	struct tauti_play_counts *ret, struct taut_error *err);

/* --- play.c --------------------------------------------------------------------------*/

/* As taut_play(). limit_ns 0: counted alone. TAUT_EAGAIN: it takes limit_ns or more;
 * found as early as can be. */
taut_status tauti_play_within(const struct taut_play_net *net,
	const struct taut_play_call *call, int64_t limit_ns,
	struct taut_play_result *ret_result, struct taut_error *err);

#endif /* TAUT_REPLAY_PLAY_PLAY_H */
