/* made_job.h - a made-up training job, for benches: data-parallel, on each rank a
 * main thread (forward, optimizer), an autograd thread, a stream of kernels and a
 * stream of all-reduces that overlap the backward pass. Same arguments, same
 * graph. */
#ifndef TAUT_BENCH_MADE_JOB_H
#define TAUT_BENCH_MADE_JOB_H

#include <replay/by_hand.h>

enum {
	MADE_LAYERS = 240,
	MADE_KERNELS = 4,  /* of a layer, forward; as many backward */
	MADE_SLICES = 3,   /* of the host before each launch */
	MADE_BUCKET = 8,   /* layers whose gradients travel together */
	MADE_BUCKETS = MADE_LAYERS / MADE_BUCKET,
	MADE_LAUNCHES = MADE_LAYERS * MADE_KERNELS,
	MADE_LANES = 4,    /* of a rank; the last is that of all-reduces */
};

struct made_ids { /* of one rank and one step */
	uint32_t begin, forked, joined;
	uint32_t forward[MADE_LAUNCHES], backward[MADE_LAUNCHES];
	uint32_t update, sync, resumed;
	uint32_t kernel[2 * MADE_LAUNCHES + 1];
	uint32_t backward_begin, backward_end;
	uint32_t reduce[MADE_BUCKETS], arrive[MADE_BUCKETS];
	uint32_t transfer[MADE_BUCKETS];
};

struct made_job {
	struct by_hand *hand;
	uint64_t seed;
	int n_steps;
	struct made_ids *ids; /* by (rank, step) */
};

/* Uniform in [low, high]: splitmix64, and a remainder. */
static inline int64_t made_pick(struct made_job *job, int64_t low, int64_t high)
{
	uint64_t x = job->seed += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return low + (int64_t)(x % (uint64_t)(high - low + 1));
}

static inline uint32_t made_host(
	struct made_job *job, enum taut_op_kind kind, const char *name)
{
	return by_hand_op(job->hand, kind, name, made_pick(job, 500, 9000), 0);
}

static inline uint32_t made_launch(struct made_job *job, const char *name)
{
	for (int i = 0; i < MADE_SLICES; i++)
		made_host(job, TAUT_OP_HOST, "aten::op");
	return made_host(job, TAUT_OP_LAUNCH, name);
}

static inline uint32_t made_mark(struct made_job *job)
{
	return by_hand_op(job->hand, TAUT_OP_MARK, "step", 0, 0);
}

static inline void made_add_main_thread(
	struct made_job *job, struct made_ids *ids, int rank)
{
	by_hand_lane(job->hand, rank);
	for (int step = 0; step < job->n_steps; step++, ids++) {
		ids->begin = made_mark(job);
		for (int i = 0; i < MADE_LAUNCHES; i++)
			ids->forward[i] = made_launch(job, "cudaLaunchKernel");
		ids->forked = made_host(job, TAUT_OP_HOST, "backward");
		ids->joined = made_host(job, TAUT_OP_RETURN, "backward");
		ids->update = made_launch(job, "cudaLaunchKernel");
		ids->sync = made_host(
			job, TAUT_OP_HOST, "cudaDeviceSynchronize");
		ids->resumed = made_host(
			job, TAUT_OP_RETURN, "cudaDeviceSync");
		made_mark(job);
	}
}

static inline void made_add_autograd_thread(
	struct made_job *job, struct made_ids *ids, int rank)
{
	by_hand_lane(job->hand, rank);
	for (int step = 0; step < job->n_steps; step++, ids++) {
		ids->backward_begin = made_host(job, TAUT_OP_HOST, "backward");
		for (int i = 0; i < MADE_LAUNCHES; i++) {
			ids->backward[i] = made_launch(job, "cudaLaunchKernel");
			if ((i + 1) % (MADE_BUCKET * MADE_KERNELS) == 0)
				ids->reduce[i / (MADE_BUCKET *
					MADE_KERNELS)] =
					made_launch(job, "allreduce");
		}
		ids->backward_end = made_host(job, TAUT_OP_HOST, "backward");
	}
}

static inline void made_add_streams(
	struct made_job *job, struct made_ids *ids, int rank)
{
	by_hand_lane(job->hand, rank);
	for (int step = 0; step < job->n_steps; step++) {
		for (int i = 0; i <= 2 * MADE_LAUNCHES; i++) {
			int64_t dur_ns = made_pick(job, 4000, 60000);
			int64_t gap_ns = made_pick(job, 0, 900);
			ids[step].kernel[i] = by_hand_op(job->hand,
				TAUT_OP_KERNEL, "gemm", dur_ns, gap_ns);
		}
	}
	by_hand_lane(job->hand, rank);
	for (int step = 0; step < job->n_steps; step++) {
		for (int i = 0; i < MADE_BUCKETS; i++) {
			ids[step].arrive[i] = by_hand_op(job->hand,
				TAUT_OP_ARRIVE, "allreduce", 0, 0);
			ids[step].transfer[i] = by_hand_op(job->hand,
				TAUT_OP_TRANSFER, "allreduce",
				made_pick(job, 300000, 900000), 0);
		}
	}
}

static inline void made_wait_launch(
	struct made_job *job, uint32_t from, uint32_t to)
{
	by_hand_edge(job->hand, from, to,
		TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START, 4000);
}

static inline void made_add_waits(
	struct made_job *job, const struct made_ids *ids)
{
	struct by_hand *hand = job->hand;
	uint32_t last = ids->kernel[2 * MADE_LAUNCHES];
	for (int i = 0; i < MADE_LAUNCHES; i++) {
		made_wait_launch(job, ids->forward[i], ids->kernel[i]);
		made_wait_launch(job, ids->backward[i],
			ids->kernel[MADE_LAUNCHES + i]);
	}
	made_wait_launch(job, ids->update, last);
	for (int i = 0; i < MADE_BUCKETS; i++) {
		uint32_t ready = ids->kernel[MADE_LAUNCHES +
			(i + 1) * MADE_BUCKET * MADE_KERNELS - 1];
		made_wait_launch(job, ids->reduce[i], ids->arrive[i]);
		by_hand_edge(hand, ready, ids->arrive[i], TAUT_EDGE_STREAM, 0);
	}
	by_hand_edge(hand, ids->transfer[MADE_BUCKETS - 1], last,
		TAUT_EDGE_STREAM, 0);
	by_hand_edge(hand, ids->forked, ids->backward_begin,
		TAUT_EDGE_THREAD, 2000);
	by_hand_edge(hand, ids->backward_end, ids->joined,
		TAUT_EDGE_THREAD, 2000);
	by_hand_edge(hand, last, ids->resumed, TAUT_EDGE_SYNC, 1000);
}

static inline void made_add_joins(struct made_job *job, int n_ranks)
{
	by_hand_lane(job->hand, -1);
	for (int at = 0; at < job->n_steps * MADE_BUCKETS; at++) {
		uint32_t join = by_hand_op(
			job->hand, TAUT_OP_JOIN, "allreduce", 0, 0);
		for (int rank = 0; rank < n_ranks; rank++) {
			const struct made_ids *ids = &job->ids[
				rank * job->n_steps + at / MADE_BUCKETS];
			by_hand_edge(job->hand, ids->arrive[at % MADE_BUCKETS],
				join, TAUT_EDGE_COMM, 0);
			by_hand_edge(job->hand, join,
				ids->transfer[at % MADE_BUCKETS],
				TAUT_EDGE_COMM, 0);
		}
	}
}

static inline struct by_hand *made_job(int n_ranks, int n_steps)
{
	struct made_job job = { .hand = by_hand_create(), .seed = 20,
		.n_steps = n_steps };
	job.ids = calloc((size_t)n_ranks * (size_t)n_steps, sizeof *job.ids);
	by_hand_must(job.ids != NULL);
	for (int rank = 0; rank < n_ranks; rank++) {
		struct made_ids *ids = &job.ids[rank * n_steps];
		made_add_main_thread(&job, ids, rank);
		made_add_autograd_thread(&job, ids, rank);
		made_add_streams(&job, ids, rank);
		if (rank)
			by_hand_edge(job.hand, job.ids[0].begin, ids->begin,
				TAUT_EDGE_START | TAUT_EDGE_FROM_START,
				made_pick(&job, -400000, 400000));
		for (int step = 0; step < n_steps; step++)
			made_add_waits(&job, &ids[step]);
	}
	made_add_joins(&job, n_ranks);
	free(job.ids);
	return job.hand;
}

#endif /* TAUT_BENCH_MADE_JOB_H */
