/* replay_rate.c - how many operations a second one core replays.
 *
 *     replay_rate [--shared] [RANKS...]  a made-up training job, default 8
 *                                        and 64
 *     replay_rate --run PATH             a recorded one
 *
 * The made-up job is data-parallel: on each rank a main thread (forward,
 * optimizer), an autograd thread, a stream of kernels and a stream of
 * all-reduces that overlap the backward pass. Same arguments, same graph.
 * Prints two lines a graph, with and without order; seconds are the median of
 * RUNS replays. --shared adds two lines a graph, in order: its all-reduces are
 * flows over the links of all hosts, of HOST_RANKS ranks each; and they slow
 * the host threads of every rank too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <replay/share_by_hand.h>

enum {
	RUNS = 15,
	STEPS = 6,
	LAYERS = 240,
	KERNELS = 4,  /* of a layer, forward; as many backward */
	SLICES = 3,   /* of the host before each launch */
	BUCKET = 8,   /* layers whose gradients travel together */
	BUCKETS = LAYERS / BUCKET,
	LAUNCHES = LAYERS * KERNELS,
	LANES = 4,    /* of a rank; the last is that of all-reduces */
	HOST_RANKS = 8,
};

struct ids { /* of one rank and one step */
	uint32_t begin, forked, joined;
	uint32_t forward[LAUNCHES], backward[LAUNCHES], update, sync, resumed;
	uint32_t kernel[2 * LAUNCHES + 1];
	uint32_t backward_begin, backward_end;
	uint32_t reduce[BUCKETS], arrive[BUCKETS], transfer[BUCKETS];
};

struct job {
	struct by_hand *hand;
	uint64_t seed;
	struct ids *ids; /* by (rank, step) */
};

/* Uniform in [low, high]: splitmix64, and a remainder. */
static int64_t pick(struct job *job, int64_t low, int64_t high)
{
	uint64_t x = job->seed += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return low + (int64_t)(x % (uint64_t)(high - low + 1));
}

static uint32_t host(struct job *job, enum taut_op_kind kind, const char *name)
{
	return by_hand_op(job->hand, kind, name, pick(job, 500, 9000), 0);
}

static uint32_t launch(struct job *job, const char *name)
{
	for (int i = 0; i < SLICES; i++)
		host(job, TAUT_OP_HOST, "aten::op");
	return host(job, TAUT_OP_LAUNCH, name);
}

static uint32_t mark(struct job *job)
{
	return by_hand_op(job->hand, TAUT_OP_MARK, "step", 0, 0);
}

static void add_main_thread(struct job *job, struct ids *ids, int rank)
{
	by_hand_lane(job->hand, rank);
	for (int step = 0; step < STEPS; step++, ids++) {
		ids->begin = mark(job);
		for (int i = 0; i < LAUNCHES; i++)
			ids->forward[i] = launch(job, "cudaLaunchKernel");
		ids->forked = host(job, TAUT_OP_HOST, "backward");
		ids->joined = host(job, TAUT_OP_RETURN, "backward");
		ids->update = launch(job, "cudaLaunchKernel");
		ids->sync = host(job, TAUT_OP_HOST, "cudaDeviceSynchronize");
		ids->resumed = host(job, TAUT_OP_RETURN, "cudaDeviceSync");
		mark(job);
	}
}

static void add_autograd_thread(struct job *job, struct ids *ids, int rank)
{
	by_hand_lane(job->hand, rank);
	for (int step = 0; step < STEPS; step++, ids++) {
		ids->backward_begin = host(job, TAUT_OP_HOST, "backward");
		for (int i = 0; i < LAUNCHES; i++) {
			ids->backward[i] = launch(job, "cudaLaunchKernel");
			if ((i + 1) % (BUCKET * KERNELS) == 0)
				ids->reduce[i / (BUCKET * KERNELS)] =
					launch(job, "allreduce");
		}
		ids->backward_end = host(job, TAUT_OP_HOST, "backward");
	}
}

static void add_streams(struct job *job, struct ids *ids, int rank)
{
	by_hand_lane(job->hand, rank);
	for (int step = 0; step < STEPS; step++) {
		for (int i = 0; i <= 2 * LAUNCHES; i++) {
			int64_t dur_ns = pick(job, 4000, 60000);
			int64_t gap_ns = pick(job, 0, 900);
			ids[step].kernel[i] = by_hand_op(job->hand,
				TAUT_OP_KERNEL, "gemm", dur_ns, gap_ns);
		}
	}
	by_hand_lane(job->hand, rank);
	for (int step = 0; step < STEPS; step++) {
		for (int i = 0; i < BUCKETS; i++) {
			ids[step].arrive[i] = by_hand_op(job->hand,
				TAUT_OP_ARRIVE, "allreduce", 0, 0);
			ids[step].transfer[i] = by_hand_op(job->hand,
				TAUT_OP_TRANSFER, "allreduce",
				pick(job, 300000, 900000), 0);
		}
	}
}

static void wait_launch(struct job *job, uint32_t from, uint32_t to)
{
	by_hand_edge(job->hand, from, to,
		TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START, 4000);
}

static void add_waits(struct job *job, const struct ids *ids)
{
	struct by_hand *hand = job->hand;
	uint32_t last = ids->kernel[2 * LAUNCHES];
	for (int i = 0; i < LAUNCHES; i++) {
		wait_launch(job, ids->forward[i], ids->kernel[i]);
		wait_launch(job, ids->backward[i], ids->kernel[LAUNCHES + i]);
	}
	wait_launch(job, ids->update, last);
	for (int i = 0; i < BUCKETS; i++) {
		uint32_t ready = ids->kernel[
			LAUNCHES + (i + 1) * BUCKET * KERNELS - 1];
		wait_launch(job, ids->reduce[i], ids->arrive[i]);
		by_hand_edge(hand, ready, ids->arrive[i], TAUT_EDGE_STREAM, 0);
	}
	by_hand_edge(hand, ids->transfer[BUCKETS - 1], last,
		TAUT_EDGE_STREAM, 0);
	by_hand_edge(hand, ids->forked, ids->backward_begin,
		TAUT_EDGE_THREAD, 2000);
	by_hand_edge(hand, ids->backward_end, ids->joined,
		TAUT_EDGE_THREAD, 2000);
	by_hand_edge(hand, last, ids->resumed, TAUT_EDGE_SYNC, 1000);
}

static void add_joins(struct job *job, int n_ranks)
{
	by_hand_lane(job->hand, -1);
	for (int at = 0; at < STEPS * BUCKETS; at++) {
		uint32_t join = by_hand_op(
			job->hand, TAUT_OP_JOIN, "allreduce", 0, 0);
		for (int rank = 0; rank < n_ranks; rank++) {
			const struct ids *ids =
				&job->ids[rank * STEPS + at / BUCKETS];
			by_hand_edge(job->hand, ids->arrive[at % BUCKETS],
				join, TAUT_EDGE_COMM, 0);
			by_hand_edge(job->hand, join,
				ids->transfer[at % BUCKETS], TAUT_EDGE_COMM, 0);
		}
	}
}

static struct by_hand *make_job(int n_ranks)
{
	struct job job = { .hand = by_hand_create(), .seed = 20 };
	job.ids = calloc((size_t)n_ranks * STEPS, sizeof *job.ids);
	by_hand_must(job.ids != NULL);
	for (int rank = 0; rank < n_ranks; rank++) {
		struct ids *ids = &job.ids[rank * STEPS];
		add_main_thread(&job, ids, rank);
		add_autograd_thread(&job, ids, rank);
		add_streams(&job, ids, rank);
		if (rank)
			by_hand_edge(job.hand, job.ids[0].begin, ids->begin,
				TAUT_EDGE_START | TAUT_EDGE_FROM_START,
				pick(&job, -400000, 400000));
		for (int step = 0; step < STEPS; step++)
			add_waits(&job, &ids[step]);
	}
	add_joins(&job, n_ranks);
	free(job.ids);
	return job.hand;
}

static int by_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static taut_status measure(const struct taut_graph *graph, const char *name,
	const struct taut_replay_edit *edit, struct taut_error *err)
{
	struct taut_clock clock = taut_clock_monotonic();
	struct taut_timeline timeline;
	int64_t took_ns[RUNS];
	taut_status status = taut_timeline_init(&timeline, graph, err);
	if (status)
		return status;
	status = taut_replay(graph, edit, &timeline, err);
	for (int i = 0; i < RUNS && !status; i++) {
		int64_t begin_ns = clock.now_ns(clock.state);
		status = taut_replay(graph, edit, &timeline, err);
		took_ns[i] = clock.now_ns(clock.state) - begin_ns;
	}
	if (!status) {
		qsort(took_ns, RUNS, sizeof *took_ns, by_time);
		int64_t median_ns = took_ns[RUNS / 2];
		printf("%-12s %9u %9u %6u %10.3f %9.6f %7.2f %7.2f\n", name,
			(unsigned)graph->n_ops, (unsigned)graph->n_edges,
			(unsigned)graph->n_lanes,
			(double)timeline.makespan_ns / 1e6,
			(double)median_ns / 1e9,
			graph->n_ops * 1e3 / (double)median_ns,
			graph->n_ops * 1e3 / (double)took_ns[0]);
	}
	taut_timeline_fini(&timeline);
	return status;
}

/* --- what it shares --------------------------------------------------------*/

static void share_all_reduces(struct share_by_hand *share,
	const struct taut_graph *graph, uint32_t n_ranks, int with_cores)
{
	uint32_t n_hosts = (n_ranks + HOST_RANKS - 1) / HOST_RANKS;
	for (uint32_t host = 0; host < n_hosts; host++)
		share_resource(share, 1);
	for (uint32_t rank = 0; rank < n_ranks; rank++) {
		uint32_t core = share_resource(share, 1);
		for (uint32_t i = 0; with_cores && i < 2; i++)
			share_core(share, rank * LANES + i, core);
	}
	for (uint32_t i = 0; i < STEPS * BUCKETS; i++) {
		uint32_t flow = share_flow(share, 500000, 20000);
		for (uint32_t host = 0; host < n_hosts; host++)
			share_use(share, host, 1);
		for (uint32_t rank = 0; rank < n_ranks; rank++) {
			uint32_t lane = rank * LANES + LANES - 1;
			if (with_cores)
				share_use(share, n_hosts + rank, 0.1);
			share_op(share, graph->lane_begin[lane] + 2 * i + 1,
				flow);
		}
	}
}

static taut_status measure_shared(const struct taut_graph *graph,
	uint32_t n_ranks, int with_cores, struct taut_error *err)
{
	struct share_by_hand *share = share_by_hand_create();
	int64_t *dur_ns = malloc(graph->n_ops * sizeof *dur_ns);
	by_hand_must(dur_ns != NULL);
	for (uint32_t op = 0; op < graph->n_ops; op++)
		dur_ns[op] = graph->kind[op] == TAUT_OP_TRANSFER
			? 0 : graph->dur_ns[op];
	share_all_reduces(share, graph, n_ranks, with_cores);
	struct taut_replay_edit edit = {
		.dur_ns = dur_ns,
		.sharing = share_by_hand_sharing(share, graph),
	};
	taut_status status = measure(graph, with_cores ? "  + cores"
		: "  links", &edit, err);
	share_by_hand_destroy(share);
	free(dur_ns);
	return status;
}

static const struct taut_replay_edit unordered = { .unordered = 1 };

static taut_status measure_made(
	const char *ranks, int shared, struct taut_error *err)
{
	char name[32], *end;
	long n = strtol(ranks, &end, 10);
	if (*end || n < 1 || n > 1024)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%s: expected a number of ranks, 1 to 1024", ranks);
	snprintf(name, sizeof name, "%ld ranks", n);
	struct by_hand *hand = make_job((int)n);
	const struct taut_graph *graph = by_hand_graph(hand);
	taut_status status = measure(graph, name, NULL, err);
	if (!status)
		status = measure(graph, "  no order", &unordered, err);
	for (int cores = 0; shared && !status && cores < 2; cores++)
		status = measure_shared(graph, (uint32_t)n, cores, err);
	by_hand_destroy(hand);
	return status;
}

static taut_status measure_run(const char *path, struct taut_error *err)
{
	static const struct taut_run_options run_options;
	static const struct taut_graph_options graph_options;
	struct taut_run *run;
	struct taut_graph *graph;
	taut_status status = taut_run_open(&path, 1, &run_options, &run, err);
	if (status)
		return status;
	status = taut_graph_build(run, &graph_options, &graph, err);
	if (!status) {
		status = measure(graph, "recorded", NULL, err);
		if (!status)
			status = measure(graph, "  no order", &unordered, err);
		taut_graph_destroy(graph);
	}
	taut_run_close(run);
	return status;
}

int main(int argc, char **argv)
{
	static const char *const sizes[] = { "8", "64" };
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_OK;
	int recorded = argc == 3 && !strcmp(argv[1], "--run");
	int shared = argc > 1 && !strcmp(argv[1], "--shared");
	printf("%-12s %9s %9s %6s %10s %9s %7s %7s\n", "graph", "ops", "edges",
		"lanes", "total ms", "seconds", "Mops/s", "best");
	if (recorded)
		status = measure_run(argv[2], &err);
	else if (argc > 1 + shared)
		for (int i = 1 + shared; i < argc && !status; i++)
			status = measure_made(argv[i], shared, &err);
	else
		for (int i = 0; i < 2 && !status; i++)
			status = measure_made(sizes[i], shared, &err);
	if (status)
		fprintf(stderr, "replay_rate: %s\n", err.message);
	return status ? 1 : 0;
}
