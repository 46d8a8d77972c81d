/* chain_job.h - a data-parallel job of a chain of layers, as a graph with a piece
 * of communication on each of as many lanes, for tests of the scheduler's engine.
 *
 *   main   | F0 F1 .. | B(L-1) .. B0 | U | F0 F1 ..      of each rank
 *   piece  |             a t         |                   of each piece and rank
 *
 * The gradient of layer l is ready behind B(l). Kept barrier: U waits for all
 * pieces. Crossed: F(l) of the next iteration waits for those of layer l. All
 * pieces of all ranks share one link of rate 1: bytes are nanoseconds. */
#ifndef TAUT_REPLAY_CHAIN_JOB_H
#define TAUT_REPLAY_CHAIN_JOB_H

#include "engine.h"
#include "share_by_hand.h"

enum { CHAIN_LAYERS = 64, CHAIN_RANKS = 8, CHAIN_ITERATIONS = 16,
	CHAIN_PIECES = 4096 };

struct chain_job {
	uint32_t n_ranks, n_layers, n_iterations;
	int64_t forward_ns, backward_ns; /* of a layer */
	uint64_t bytes;                  /* of a layer */
	int crosses;
	int first_matters;               /* priority by forward order; else all
	                                    alike */
	int gathers;                     /* behind each task another of as many
	                                    bytes, which is what is waited for */
	/* gradient l of rank r is ready so much later; NULL: none is */
	int64_t (*late_ns)(uint32_t rank, uint32_t layer);
	struct tauti_engine_options options;
};

struct chain {
	const struct chain_job *job;
	struct by_hand *hand;
	struct share_by_hand *share;
	const struct taut_graph *graph;
	struct taut_timeline timeline;
	struct tauti_engine_task tasks[2 * CHAIN_LAYERS]; /* in the order of
	                                    backward, then what comes after them */
	struct tauti_team team;
	uint32_t *arrive; /* by (iteration, rank, piece) */
	uint32_t forward[CHAIN_ITERATIONS][CHAIN_RANKS][CHAIN_LAYERS];
	uint32_t backward[CHAIN_ITERATIONS][CHAIN_RANKS][CHAIN_LAYERS];
	uint32_t update[CHAIN_ITERATIONS][CHAIN_RANKS];
	struct tauti_engine_counts counts;
	struct taut_error err;
};

/* Task t is layer n_layers - 1 - t. */
static inline uint32_t chain_layer(const struct chain *c, uint32_t task)
{
	return c->job->n_layers - 1 - task % c->job->n_layers;
}

static inline uint32_t chain_tasks(const struct chain_job *job)
{
	return job->n_layers * (job->gathers ? 2 : 1);
}

static inline void chain_cut(struct chain *c)
{
	const struct chain_job *job = c->job;
	uint32_t n = 0;
	for (uint32_t t = 0; t < chain_tasks(job); t++) {
		c->tasks[t] = (struct tauti_engine_task){
			.bytes = job->bytes,
			.priority = job->first_matters ? chain_layer(c, t) : 0,
			.after = t < job->n_layers ? TAUT_NONE
				: t - job->n_layers,
			.first_piece = n,
			.n_pieces = tauti_piece_count(
				&job->options.sched, job->bytes),
		};
		n += c->tasks[t].n_pieces;
	}
	by_hand_must(n <= CHAIN_PIECES);
	c->team = (struct tauti_team){
		job->n_ranks, chain_tasks(job), n, job->n_iterations,
		c->tasks, NULL
	};
	c->arrive = calloc((size_t)job->n_iterations * job->n_ranks * n + 1,
		sizeof *c->arrive);
	by_hand_must(c->arrive != NULL);
	c->team.arrive = c->arrive;
}

static inline void chain_main(struct chain *c, uint32_t r)
{
	const struct chain_job *job = c->job;
	by_hand_lane(c->hand, (int)r);
	for (uint32_t k = 0; k < job->n_iterations; k++) {
		for (uint32_t l = 0; l < job->n_layers; l++)
			c->forward[k][r][l] = by_hand_op(c->hand, TAUT_OP_HOST,
				"forward", job->forward_ns, 0);
		for (uint32_t l = job->n_layers; l-- > 0;)
			c->backward[k][r][l] = by_hand_op(c->hand, TAUT_OP_HOST,
				"backward", job->backward_ns, 0);
		c->update[k][r] = by_hand_op(
			c->hand, TAUT_OP_HOST, "update", 0, 0);
	}
}

static inline uint32_t *chain_at(
	struct chain *c, uint32_t k, uint32_t r, uint32_t piece)
{
	return &c->arrive[((size_t)k * c->job->n_ranks + r) *
		c->team.n_pieces + piece];
}

/* What an arrival at a piece of task t waits for: its gradient, or all that it
 * comes after. */
static inline void chain_waits(struct chain *c, uint32_t t, uint32_t k,
	uint32_t r, uint32_t op)
{
	uint32_t layer = chain_layer(c, t);
	const struct tauti_engine_task *after = t < c->job->n_layers ? NULL
		: &c->tasks[t - c->job->n_layers];
	if (!after)
		by_hand_edge(c->hand, c->backward[k][r][layer], op,
			TAUT_EDGE_LAUNCH, c->job->late_ns ?
			c->job->late_ns(r, layer) : 0);
	for (uint32_t i = 0; after && i < after->n_pieces; i++)
		by_hand_edge(c->hand,
			*chain_at(c, k, r, after->first_piece + i) + 1, op,
			TAUT_EDGE_STREAM, 0);
}

/* Piece i of all ranks: of task t. */
static inline void chain_piece(struct chain *c, uint32_t t, uint32_t i)
{
	const struct chain_job *job = c->job;
	uint32_t piece = c->tasks[t].first_piece + i, layer = chain_layer(c, t);
	int waited = !job->gathers || t >= job->n_layers;
	uint64_t bytes = tauti_piece_bytes(
		&job->options.sched, job->bytes, i);
	for (uint32_t r = 0; r < job->n_ranks; r++) {
		by_hand_lane(c->hand, (int)r);
		for (uint32_t k = 0; k < job->n_iterations; k++) {
			uint32_t op = by_hand_op(
				c->hand, TAUT_OP_ARRIVE, "arrive", 0, 0);
			by_hand_op(c->hand, TAUT_OP_TRANSFER, "move", 0, 0);
			*chain_at(c, k, r, piece) = op;
			chain_waits(c, t, k, r, op);
			if (waited && !job->crosses)
				by_hand_edge(c->hand, op + 1, c->update[k][r],
					TAUT_EDGE_THREAD, 0);
			else if (waited && k + 1 < job->n_iterations)
				by_hand_edge(c->hand, op + 1,
					c->forward[k + 1][r][layer],
					TAUT_EDGE_THREAD, 0);
		}
	}
	by_hand_lane(c->hand, -1);
	for (uint32_t k = 0; k < job->n_iterations; k++) {
		uint32_t join = by_hand_op(
			c->hand, TAUT_OP_JOIN, "join", 0, 0);
		uint32_t flow = share_flow(c->share, (double)bytes, 0);
		share_use(c->share, 0, 1);
		for (uint32_t r = 0; r < job->n_ranks; r++) {
			uint32_t op = *chain_at(c, k, r, piece);
			by_hand_edge(c->hand, op, join, TAUT_EDGE_COMM, 0);
			by_hand_edge(c->hand, join, op + 1, TAUT_EDGE_COMM, 0);
			share_op(c->share, op + 1, flow);
		}
	}
}

static inline struct chain *chain_begin(const struct chain_job *job)
{
	struct chain *c = calloc(1, sizeof *c);
	by_hand_must(c != NULL);
	c->job = job;
	c->hand = by_hand_create();
	c->share = share_by_hand_create();
	share_resource(c->share, 1);
	chain_cut(c);
	for (uint32_t r = 0; r < job->n_ranks; r++)
		chain_main(c, r);
	for (uint32_t t = 0; t < chain_tasks(job); t++) {
		for (uint32_t i = 0; i < c->tasks[t].n_pieces; i++)
			chain_piece(c, t, i);
	}
	c->graph = by_hand_graph(c->hand);
	by_hand_must(!taut_timeline_init(&c->timeline, c->graph, &c->err));
	share_by_hand_sharing(c->share, c->graph);
	return c;
}

static inline taut_status chain_try(struct chain *c)
{
	struct tauti_engine *engine = NULL;
	taut_status status = tauti_engine_create(c->graph, &c->team, 1,
		&c->job->options, &engine, &c->err);
	if (status)
		return status;
	struct taut_replay_edit edit = {
		.sharing = &c->share->sharing, .unordered = 1,
		.dispatcher = tauti_engine_dispatcher(engine),
	};
	status = taut_replay(c->graph, &edit, &c->timeline, &c->err);
	c->counts = tauti_engine_count(engine);
	tauti_engine_destroy(engine);
	return status;
}

/* From the first forward operation of an iteration to that of the next: of the
 * last but one, by when it is steady. */
static inline int64_t chain_step_ns(const struct chain *c)
{
	uint32_t k = c->job->n_iterations - 1;
	const int64_t *start_ns = c->timeline.start_ns;
	return start_ns[c->forward[k][0][0]] - start_ns[c->forward[k - 1][0][0]];
}

static inline void chain_end(struct chain *c)
{
	taut_timeline_fini(&c->timeline);
	by_hand_destroy(c->hand);
	share_by_hand_destroy(c->share);
	free(c->arrive);
	free(c);
}

#endif /* TAUT_REPLAY_CHAIN_JOB_H */
