/* again_rate.c - what a candidate of a search costs where the replay follows it,
 * and where all is built and replayed.
 *
 *     again_rate [RANKSxSTEPS...]   made-up training jobs (made_job.h), default
 *                                   1x1, 8x1, 8x6 and 64x6
 *
 * A candidate is a change, the times that it leads to, and an undo; the next one
 * begins where all was as before. Changes are made in the last step, at places of
 * one rank that are drawn from a fixed seed near where the line says, and one kind
 * at the very beginning. Beside each stand
 *   build    the change, taut_edit_build(), a timeline, taut_replay() without
 *            order and deciders, and the undo
 *   replay   that replay alone, its timeline made once
 * Candidates a second; of what follows the median of RUNS, of the others of as
 * many as a second has room for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/again.h>
#include <taut/replay.h>

#include "made_job.h"

enum { RUNS = 5, LEAST_RUN_NS = 200000000, PLACES = 64 };

struct job {
	const struct taut_graph *graph;
	struct taut_edit *edit;
	uint32_t n_ranks, n_steps;
	uint64_t seed;
};

static int64_t now_ns(void)
{
	struct taut_clock clock = taut_clock_monotonic();

	return clock.now_ns(clock.state);
}

static uint32_t pick(struct job *job, uint32_t n)
{
	struct made_job made = { .seed = job->seed };
	int64_t picked = made_pick(&made, 0, (int64_t)n - 1);

	job->seed = made.seed;
	return (uint32_t)picked;
}

/* --- where ------------------------------------------------------------------------------ */

enum lane { MAIN, AUTOGRAD, KERNELS, REDUCES };

/* The op at so much of a lane's part of the last step, 0 to 1, of any rank. */
static uint32_t at(struct job *job, enum lane lane, double part)
{
	uint32_t rank = pick(job, job->n_ranks);
	const uint32_t *begin = job->graph->lane_begin +
		rank * MADE_LANES + lane;
	uint32_t n = (begin[1] - begin[0]) / job->n_steps;
	uint32_t op = (uint32_t)(part * (n - 2 * PLACES)) + pick(job, PLACES);

	return begin[1] - n + op;
}

/* Transfer of the kth all-reduce of the last step, by rank. */
static uint32_t transfer(const struct job *job, uint32_t rank, uint32_t k)
{
	uint32_t end = job->graph->lane_begin[
		rank * MADE_LANES + REDUCES + 1];

	return end - 2 * MADE_BUCKETS + 2 * k + 1;
}

/* --- candidates ------------------------------------------------------------------------- */

static taut_status longer(struct job *job, uint32_t op, struct taut_error *err)
{
	struct taut_op is;

	if (!taut_edit_op(job->edit, op, &is))
		return taut_error_set(err, TAUT_EINVAL, -1, "no op %u", op);
	return taut_edit_set_dur(
		job->edit, op, is.dur_ns + 1 + pick(job, 20000), err);
}

static taut_status change_first(struct job *job, struct taut_error *err)
{
	return longer(job, 1 + pick(job, PLACES), err);
}

static taut_status change_begin(struct job *job, struct taut_error *err)
{
	return longer(job, at(job, KERNELS, 0), err);
}

static taut_status change_middle(struct job *job, struct taut_error *err)
{
	return longer(job, at(job, KERNELS, 0.5), err);
}

static taut_status change_end(struct job *job, struct taut_error *err)
{
	return longer(job, at(job, KERNELS, 1) + PLACES, err);
}

static taut_status change_reduce(struct job *job, struct taut_error *err)
{
	uint32_t k = MADE_BUCKETS - 1 - pick(job, 3);
	int64_t dur_ns = 300000 + pick(job, 600000);
	taut_status status = TAUT_OK;

	for (uint32_t r = 0; r < job->n_ranks && !status; r++)
		status = taut_edit_set_dur(
			job->edit, transfer(job, r, k), dur_ns, err);
	return status;
}

/* Two kernels in a row become one, in which the second takes half. */
static taut_status fuse_kernels(struct job *job, struct taut_error *err)
{
	uint32_t op = at(job, KERNELS, 0.75);
	const int64_t *dur_ns = job->graph->dur_ns;
	taut_status status = taut_edit_remove(job->edit, op + 1, err);

	return status ? status : taut_edit_set_dur(job->edit, op,
		dur_ns[op] + dur_ns[op + 1] / 2, err);
}

static taut_status move_kernel(struct job *job, struct taut_error *err)
{
	uint32_t op = at(job, KERNELS, 0.75);

	return taut_edit_move(job->edit, op, op + 1 + pick(job, 4), 0, err);
}

/* Two all-reduces in a row become one, in place of the second. The made-up job
 * has joins, but tells of no collectives: they are taken away op by op. */
static taut_status drop_reduce(struct job *job, uint32_t k,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t r = 0; r < job->n_ranks && !status; r++) {
		uint32_t op = transfer(job, r, k);

		status = taut_edit_cut(job->edit, op, err);
		if (!status)
			status = taut_edit_cut(job->edit, op - 1, err);
	}
	return status;
}

static taut_status join_reduces(struct job *job, uint32_t k,
	struct taut_error *err)
{
	struct taut_collective all = { .kind = TAUT_COLL_ALLREDUCE,
		.group_size = (int32_t)job->n_ranks, .bytes = 1 << 20 };
	struct taut_member *members = calloc(job->n_ranks, sizeof *members);
	uint32_t *arrive = calloc(job->n_ranks, sizeof *arrive), id;
	uint32_t last_of = 2 * MADE_LAUNCHES + 1, kernel;
	taut_status status;

	by_hand_must(members && arrive);
	for (uint32_t r = 0; r < job->n_ranks; r++)
		members[r] = (struct taut_member) { r * MADE_LANES + REDUCES,
			transfer(job, r, k) - 2 - 2, 900000, 0 };
	status = taut_edit_add_collective(job->edit, &all, members,
		job->n_ranks, &id, arrive, err);
	for (uint32_t r = 0; r < job->n_ranks && !status; r++) {
		kernel = job->graph->lane_begin[r * MADE_LANES + KERNELS + 1] -
			last_of + MADE_LAUNCHES +
			(k + 1) * MADE_BUCKET * MADE_KERNELS - 1;
		status = taut_edit_connect(job->edit, kernel, arrive[r],
			TAUT_EDGE_STREAM, 0, err);
	}
	free(members);
	free(arrive);
	return status;
}

static taut_status fuse_reduces(struct job *job, struct taut_error *err)
{
	uint32_t k = 2 + pick(job, MADE_BUCKETS - 4);
	taut_status status = drop_reduce(job, k, err);

	if (!status)
		status = drop_reduce(job, k - 1, err);
	return status ? status : join_reduces(job, k, err);
}

static const struct candidate {
	const char *name;
	taut_status (*change)(struct job *job, struct taut_error *err);
} candidates[] = {
	{ "first op of the job", change_first },
	{ "kernel, beginning", change_begin },
	{ "kernel, middle", change_middle },
	{ "kernel, end", change_end },
	{ "all-reduce, end", change_reduce },
	{ "two kernels fused", fuse_kernels },
	{ "kernel moved", move_kernel },
	{ "two all-reduces fused", fuse_reduces },
};

/* --- measuring -------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Nanoseconds of one. */
struct cost {
	int64_t ns;
	double looked;
};

static taut_status follow_some(struct job *job, struct taut_again *again,
	const struct candidate *c, struct cost *ret, struct taut_error *err)
{
	uint64_t before = taut_again_counts(again).looked, n = 0;
	int64_t begin_ns = now_ns(), most_ns = 0;
	taut_status status = TAUT_OK;

	do {
		uint32_t mark = taut_edit_mark(job->edit);

		status = c->change(job, err);
		if (!status)
			status = taut_again_follow(again, err);
		if (!status && taut_again_makespan(again) > most_ns)
			most_ns = taut_again_makespan(again);
		taut_edit_undo(job->edit, mark);
		n++;
		ret->ns = now_ns() - begin_ns;
	} while (!status && ret->ns < LEAST_RUN_NS);
	by_hand_must(status || most_ns > 0);
	ret->ns /= (int64_t)n;
	ret->looked = (double)(taut_again_counts(again).looked - before) /
		(double)n;
	return status;
}

static taut_status time_follow(struct job *job, struct taut_again *again,
	const struct candidate *c, struct cost *ret, struct taut_error *err)
{
	int64_t took_ns[RUNS];
	taut_status status = TAUT_OK;

	for (int run = 0; run < RUNS && !status; run++) {
		job->seed = 3;
		status = follow_some(job, again, c, ret, err);
		took_ns[run] = ret->ns;
	}
	if (!status) {
		qsort(took_ns, RUNS, sizeof *took_ns, by_size);
		ret->ns = took_ns[RUNS / 2];
	}
	return status;
}

static const struct taut_replay_edit bare = { .unordered = 2 };

static taut_status build_once(struct job *job, const struct candidate *c,
	struct taut_error *err)
{
	struct taut_timeline timeline = { 0 };
	struct taut_graph *graph = NULL;
	taut_status status = c->change(job, err);

	if (!status)
		status = taut_edit_build(job->edit, &graph, NULL, NULL, err);
	if (!status)
		status = taut_timeline_init(&timeline, graph, err);
	if (!status)
		status = taut_replay(graph, &bare, &timeline, err);
	taut_timeline_fini(&timeline);
	taut_graph_destroy(graph);
	taut_edit_undo(job->edit, 0);
	return status;
}

static taut_status time_build(struct job *job, const struct candidate *c,
	int64_t *ret_ns, struct taut_error *err)
{
	int64_t took_ns[RUNS], begin_ns = now_ns();
	taut_status status = TAUT_OK;
	uint32_t n = 0;

	while (!status && n < RUNS && now_ns() - begin_ns < 1000000000) {
		int64_t one_ns = now_ns();

		status = build_once(job, c, err);
		took_ns[n++] = now_ns() - one_ns;
	}
	qsort(took_ns, n, sizeof *took_ns, by_size);
	*ret_ns = took_ns[n / 2];
	return status;
}

static taut_status time_replay(const struct taut_graph *graph,
	int64_t *ret_ns, struct taut_error *err)
{
	struct taut_timeline timeline = { 0 };
	int64_t took_ns[RUNS];
	taut_status status = taut_timeline_init(&timeline, graph, err);

	if (!status)
		status = taut_replay(graph, &bare, &timeline, err);
	for (int run = 0; run < RUNS && !status; run++) {
		int64_t begin_ns = now_ns();

		status = taut_replay(graph, &bare, &timeline, err);
		took_ns[run] = now_ns() - begin_ns;
	}
	if (!status) {
		qsort(took_ns, RUNS, sizeof *took_ns, by_size);
		*ret_ns = took_ns[RUNS / 2];
	}
	taut_timeline_fini(&timeline);
	return status;
}

static taut_status measure_all(struct job *job, struct taut_again *again,
	int64_t replay_ns, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	printf("  %-22s %12s %10s %9s %10s %9s\n", "", "ops looked at",
		"follow/s", "build/s", "x build", "x replay");
	for (size_t i = 0; i < sizeof candidates / sizeof candidates[0] &&
		!status; i++) {
		struct cost cost;
		int64_t build_ns;

		status = time_follow(job, again, &candidates[i], &cost, err);
		if (!status)
			status = time_build(job, &candidates[i], &build_ns,
				err);
		if (!status)
			printf("  %-22s %12.0f %10.0f %9.1f %10.1f %9.1f\n",
				candidates[i].name, cost.looked,
				1e9 / (double)cost.ns, 1e9 / (double)build_ns,
				(double)build_ns / (double)cost.ns,
				(double)replay_ns / (double)cost.ns);
	}
	return status;
}

static taut_status measure(uint32_t n_ranks, uint32_t n_steps,
	struct taut_error *err)
{
	struct by_hand *hand = made_job((int)n_ranks, (int)n_steps);
	struct job job = { by_hand_graph(hand), NULL, n_ranks, n_steps, 3 };
	int64_t create_ns, replay_ns = 0;
	struct taut_again *again = NULL;
	taut_status status = taut_edit_create(job.graph, &job.edit, err);

	create_ns = now_ns();
	if (!status)
		status = taut_again_create(job.edit, &again, err);
	create_ns = now_ns() - create_ns;
	if (!status)
		status = time_replay(job.graph, &replay_ns, err);
	if (!status)
		printf("%ux%u: %u ops, %u edges; create %.1f ms, replay alone "
			"%.1f a second\n", n_ranks, n_steps, job.graph->n_ops,
			job.graph->n_edges, (double)create_ns / 1e6,
			1e9 / (double)replay_ns);
	if (!status)
		status = measure_all(&job, again, replay_ns, err);
	taut_again_destroy(again);
	taut_edit_destroy(job.edit);
	by_hand_destroy(hand);
	return status;
}

int main(int argc, char **argv)
{
	static const char *const sizes[] = { "1x1", "8x1", "8x6", "64x6" };
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_OK;
	int n = argc > 1 ? argc - 1 : 4;

	for (int i = 0; i < n && !status; i++) {
		const char *size = argc > 1 ? argv[i + 1] : sizes[i];
		unsigned ranks, steps;
		char rest;

		if (sscanf(size, "%ux%u%c", &ranks, &steps, &rest) != 2 ||
			ranks < 1 || ranks > 1024 || steps < 1 || steps > 100)
			status = taut_error_set(&err, TAUT_EINVAL, -1,
				"%s: expected RANKSxSTEPS, as in 8x6", size);
		else
			status = measure(ranks, steps, &err);
	}
	if (status)
		fprintf(stderr, "again_rate: %s\n", err.message);
	return status ? 1 : 0;
}
