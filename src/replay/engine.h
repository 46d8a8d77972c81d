/* engine.h - the scheduler core (taut/sched.h) on the replay's clock.
 *
 * One taut_sched a rank, as in a job; what they ask for happens in the graph:
 *
 *   ready     the waits of all arrivals of a task's pieces are over on a rank
 *   start     the rank's arrival at the piece is released, as soon as one of
 *             the rank's lanes of communication is free: in the order of starts
 *   finished  the rank's transfer of the piece has ended
 *   agree     small messages, from each rank to each: others hear of a round one
 *             message after what the first rank says of it has left that rank, and
 *             it is over one after the last. It leaves behind what is queued before it: of
 *             each piece that was started and has not ended, one of the messages
 *             that are sent of it one after another (options.steps)
 *   done      nothing: who waits for a task waits for its transfers
 *
 * The core's own time is taken for nothing.
 *
 * Owner:   an engine borrows its teams' arrays; one replay an engine.
 * Threads: one at a time.
 * Units:   nanoseconds, bytes. */
#ifndef TAUT_REPLAY_ENGINE_H
#define TAUT_REPLAY_ENGINE_H

#include <taut/replay.h>
#include <taut/sched.h>

struct tauti_engine_task {
	uint64_t bytes;
	int64_t priority;
	uint32_t after; /* as in taut_sched_declare() */
	uint32_t first_piece, n_pieces; /* n_pieces: tauti_piece_count() */
};

/* Ranks that sum the same tasks, each iteration anew. */
struct tauti_team {
	uint32_t n_ranks, n_tasks, n_pieces, n_iterations;
	const struct tauti_engine_task *tasks;
	/* Op of the graph at which the rank arrives, by (iteration, rank,
	 * piece); the next op on its lane is its transfer. A piece stands on a
	 * lane of its own, one iteration behind the other. */
	const uint32_t *arrive;
};

struct tauti_engine_options { /* zero is every field's default */
	struct taut_sched_options sched; /* n_ranks is each team's, fuse_bytes 0 */
	int64_t message_ns; /* of a small message */
	uint32_t steps;     /* messages that a rank sends of a piece, one after
	                       another, on the way that small ones take, too; 0:
	                       those have a way of their own */
	uint32_t lanes;     /* transfers of a rank that go on side by side; 0:
	                       any number */
};

struct tauti_engine_counts { /* of all teams */
	uint64_t rounds; /* of agreement */
	uint64_t pieces, overtaken; /* of all ranks */
	uint64_t done;   /* iterations of tasks, of all ranks */
};

struct tauti_engine;

/* Pieces as the core cuts them: how many, and of how many bytes the ith is. */
uint32_t tauti_piece_count(
	const struct taut_sched_options *options, uint64_t task_bytes);
uint64_t tauti_piece_bytes(const struct taut_sched_options *options,
	uint64_t task_bytes, uint32_t i);

/* TAUT_ENOMEM; TAUT_EINVAL: what the core refuses, or an arrival is no op of the
 * graph with a transfer behind it. */
taut_status tauti_engine_create(const struct taut_graph *graph,
	const struct tauti_team *teams, uint32_t n_teams,
	const struct tauti_engine_options *options,
	struct tauti_engine **ret_engine, struct taut_error *err);
void tauti_engine_destroy(struct tauti_engine *engine); /* NULL is fine */
/* For the edit of one replay; lives as long as the engine. */
const struct taut_dispatcher *tauti_engine_dispatcher(
	const struct tauti_engine *engine);
/* By op of the graph: how many pieces had begun before the one that arrives there. */
const uint32_t *tauti_engine_order(const struct tauti_engine *engine);
struct tauti_engine_counts tauti_engine_count(
	const struct tauti_engine *engine);

#endif /* TAUT_REPLAY_ENGINE_H */
