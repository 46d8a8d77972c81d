/* edit_rate.c - what it costs to change a graph, to take it back, to build.
 *
 *     edit_rate [MILLIONS...]    made-up graphs of so many million operations,
 *                                default 0.1, 1 and 4
 *     edit_rate --run PATH       a recorded one
 *
 * The made-up graph is eight ranks with a host thread that launches every
 * third of its operations on a stream. Each change is made and undone at
 * places that are drawn from a fixed seed; a change must cost what it touches,
 * so its rate must not fall with the size of the graph but for what the caches
 * make of it. Medians of RUNS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <replay/by_hand.h>
#include <taut/edit.h>

enum { RUNS = 5, CHANGES = 20000, RANKS = 8 };

static uint32_t pick(uint64_t *seed, uint32_t n)
{
	uint64_t x = *seed += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ (x >> 31)) % n);
}

static struct by_hand *make_graph(uint32_t n_ops)
{
	struct by_hand *hand = by_hand_create();
	uint32_t n = n_ops / RANKS / 4; /* three on the host, one launched */

	for (int rank = 0; rank < RANKS; rank++) {
		uint32_t first = (uint32_t)hand->dur_ns.count;

		by_hand_lane(hand, rank);
		for (uint32_t i = 0; i < 3 * n; i++)
			by_hand_op(hand, i % 3 ? TAUT_OP_HOST : TAUT_OP_LAUNCH,
				i % 3 ? "aten::op" : "cudaLaunchKernel", 5000, 0);
		by_hand_lane(hand, rank);
		for (uint32_t i = 0; i < n; i++)
			by_hand_edge(hand, first + 3 * i, by_hand_op(hand,
				TAUT_OP_KERNEL, "gemm", 20000, 0),
				TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START, 4000);
	}
	return hand;
}

/* --- changes ----------------------------------------------------------------------------- */

static taut_status set_dur(struct taut_edit *edit, uint32_t op, uint32_t other)
{
	return taut_edit_set_dur(edit, op, other, NULL);
}

static taut_status insert(struct taut_edit *edit, uint32_t op, uint32_t other)
{
	struct taut_op new = { .dur_ns = 10, .event = TAUT_NONE,
		.like = TAUT_NONE, .kind = TAUT_OP_HOST };
	uint32_t id;

	(void)other;
	return taut_edit_insert(edit, op, &new, "new", &id, NULL);
}

static taut_status take_away(
	struct taut_edit *edit, uint32_t op, uint32_t other)
{
	(void)other;
	return taut_edit_remove(edit, op, NULL);
}

static taut_status move(struct taut_edit *edit, uint32_t op, uint32_t other)
{
	return taut_edit_move(edit, op, other, 0, NULL);
}

static taut_status link_up(struct taut_edit *edit, uint32_t op, uint32_t other)
{
	return taut_edit_connect(edit, op, other, TAUT_EDGE_THREAD, 7, NULL);
}

static const struct change {
	const char *name;
	taut_status (*make)(
		struct taut_edit *edit, uint32_t op, uint32_t other);
} changes[] = {
	{ "set_dur", set_dur }, { "insert", insert }, { "remove", take_away },
	{ "move", move }, { "connect", link_up },
};

/* --- measuring --------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static double median_s(int64_t *took_ns)
{
	qsort(took_ns, RUNS, sizeof *took_ns, by_size);
	return (double)took_ns[RUNS / 2] / 1e9;
}

static int64_t now_ns(void)
{
	struct taut_clock clock = taut_clock_monotonic();

	return clock.now_ns(clock.state);
}

/* Seconds for one change and its undo; batch of them between marks. */
static double time_change(struct taut_edit *edit, const struct change *change,
	uint32_t batch)
{
	uint32_t n = taut_edit_below(edit)->n_ops, done = 0;
	int64_t took_ns[RUNS];

	for (int run = 0; run < RUNS; run++) {
		uint64_t seed = 5;
		int64_t begin = now_ns();

		done = 0;
		for (uint32_t i = 0; i < CHANGES; i += batch) {
			uint32_t mark = taut_edit_mark(edit);

			for (uint32_t k = 0; k < batch; k++) {
				uint32_t op = pick(&seed, n);
				uint32_t other = pick(&seed, n);

				done += !change->make(edit, op, other);
			}
			taut_edit_undo(edit, mark);
		}
		took_ns[run] = now_ns() - begin;
	}
	return median_s(took_ns) / done;
}

static taut_status time_whole(const struct taut_graph *graph, double *create_s,
	double *build_s, double *rank_s, struct taut_error *err)
{
	int64_t create_ns[RUNS], build_ns[RUNS], rank_ns[RUNS];

	for (int run = 0; run < RUNS; run++) {
		struct taut_graph *built;
		struct taut_edit *edit;
		int64_t begin = now_ns();
		uint32_t rank;
		taut_status status = taut_edit_create(graph, &edit, err);

		create_ns[run] = now_ns() - begin;
		if (status)
			return status;
		begin = now_ns();
		status = taut_edit_build(edit, &built, NULL, NULL, err);
		build_ns[run] = now_ns() - begin;
		if (!status)
			taut_graph_destroy(built);
		begin = now_ns();
		if (!status)
			status = taut_edit_copy_rank(edit, 0, NULL, &rank,
				NULL, err);
		rank_ns[run] = now_ns() - begin;
		taut_edit_destroy(edit);
		if (status)
			return status;
	}
	*create_s = median_s(create_ns);
	*build_s = median_s(build_ns);
	*rank_s = median_s(rank_ns);
	return TAUT_OK;
}

static taut_status measure(const struct taut_graph *graph,
	struct taut_error *err)
{
	double million = graph->n_ops / 1e6, create_s, build_s, rank_s;
	struct taut_edit *edit;
	taut_status status = time_whole(
		graph, &create_s, &build_s, &rank_s, err);

	if (!status)
		status = taut_edit_create(graph, &edit, err);
	if (status)
		return status;
	printf("%u ops, %u edges: create %.1f ms, build %.1f ms (%.1f and %.1f "
		"a million ops), copy of a rank %.1f ms\n", graph->n_ops,
		graph->n_edges, create_s * 1e3, build_s * 1e3,
		create_s * 1e3 / million, build_s * 1e3 / million,
		rank_s * 1e3);
	printf("  %-10s %20s %20s\n", "", "change + undo, ns", "100 at a time");
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
		printf("  %-10s %20.0f %20.0f\n", changes[i].name,
			time_change(edit, &changes[i], 1) * 1e9,
			time_change(edit, &changes[i], 100) * 1e9);
	taut_edit_destroy(edit);
	return TAUT_OK;
}

static taut_status measure_made(const char *millions, struct taut_error *err)
{
	struct by_hand *hand;
	taut_status status;
	char *end;
	double n = strtod(millions, &end);

	if (*end || !(n >= 0.001 && n <= 100))
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: expected "
			"millions of operations, 0.001 to 100", millions);
	hand = make_graph((uint32_t)(n * 1e6));
	status = measure(by_hand_graph(hand), err);
	by_hand_destroy(hand);
	return status;
}

static taut_status measure_run(const char *path, struct taut_error *err)
{
	struct taut_run *run;
	struct taut_graph *graph;
	taut_status status = taut_run_open(&path, 1, NULL, &run, err);

	if (status)
		return status;
	status = taut_graph_build(run, NULL, &graph, err);
	if (!status) {
		status = measure(graph, err);
		taut_graph_destroy(graph);
	}
	taut_run_close(run);
	return status;
}

int main(int argc, char **argv)
{
	static const char *const sizes[] = { "0.1", "1", "4" };
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_OK;

	if (argc == 3 && !strcmp(argv[1], "--run"))
		status = measure_run(argv[2], &err);
	else if (argc > 1)
		for (int i = 1; i < argc && !status; i++)
			status = measure_made(argv[i], &err);
	else
		for (int i = 0; i < 3 && !status; i++)
			status = measure_made(sizes[i], &err);
	if (status)
		fprintf(stderr, "edit_rate: %s\n", err.message);
	return status ? 1 : 0;
}
