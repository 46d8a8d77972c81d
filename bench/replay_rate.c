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

#include "made_job.h"

enum { RUNS = 15, STEPS = 6, HOST_RANKS = 8 };

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
			share_core(share, rank * MADE_LANES + i, core);
	}
	for (uint32_t i = 0; i < STEPS * MADE_BUCKETS; i++) {
		uint32_t flow = share_flow(share, 500000, 20000);
		for (uint32_t host = 0; host < n_hosts; host++)
			share_use(share, host, 1);
		for (uint32_t rank = 0; rank < n_ranks; rank++) {
			uint32_t lane = rank * MADE_LANES + MADE_LANES - 1;
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
	struct by_hand *hand = made_job((int)n, STEPS);
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
