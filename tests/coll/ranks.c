/* ranks.c - one rank of a job that all-reduces over an engine until its time is
 * over, for the test that puts ranks on hosts of their own.
 *
 *     coll-ranks RANK N_RANKS HOST:PORT SECONDS LOST_AFTER_MS
 *
 * Prints "ready", then "sums N" and status 0, or the line of the fault and status 1;
 * "wrong" and status 2 for a sum that is not right. The secret is TAUT_SECRET. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/coll.h"

enum { MOST = 300000 };

struct rank {
	uint32_t rank, n_ranks;
	struct tauti_meet *meet;
	struct tauti_engine engine;
	struct taut_comm *comm;
	_Atomic int lost; /* why is written before */
	struct taut_error why;
	float *in, *out;
};

static void on_lost(void *context, const struct taut_error *why)
{
	struct rank *rank = context;

	rank->why = *why;
	rank->lost = 1;
	rank->engine.table->wake(rank->engine.context);
}

static void on_done(void *context, taut_status status)
{
	*(int *)context = status == TAUT_OK ? 1 : -1;
}

static taut_status until_done(struct rank *rank, const int *done,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;

	while (status == TAUT_OK && !*done && !rank->lost) {
		status = taut_comm_progress(rank->comm, err);
		if (status == TAUT_OK && !*done && !rank->lost)
			status = taut_comm_wait(rank->comm, -1, err);
	}
	if (status == TAUT_OK && *done == 1)
		return TAUT_OK;
	/* The engine may know first, and the watch knows better. */
	for (int i = 0; i < 3000 && !rank->lost; i++)
		usleep(1000);
	if (!rank->lost)
		return status != TAUT_OK ? status : TAUT_EIO;
	*err = rank->why;
	return rank->why.code;
}

/* One all-reduce; rank r gives r + i % 7 + 1. */
static taut_status sum(struct rank *rank, uint64_t count, float last,
	struct taut_error *err)
{
	uint32_t n = rank->n_ranks;
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
		.type = TAUT_FLOAT32, .input = rank->in, .output = rank->out,
		.count = count, .reduction = TAUT_SUM };
	taut_status status;
	int done = 0;

	for (uint64_t i = 0; i < count; i++)
		rank->in[i] = (float)(rank->rank + i % 7 + 1);
	rank->in[0] = last;
	status = taut_comm_start(rank->comm, &call, on_done, &done, err);
	if (status == TAUT_OK)
		status = until_done(rank, &done, err);
	for (uint64_t i = 1; i < count && status == TAUT_OK; i++)
		if (rank->out[i] != (float)(n * (n - 1) / 2 + n * (i % 7 + 1))) {
			printf("wrong\n");
			exit(2);
		}
	return status;
}

/* Rank 0's clock says when it is over, and element 0 tells the others. */
static taut_status sums(struct rank *rank, double seconds,
	struct taut_error *err)
{
	static const uint64_t counts[] = { 1, 2, 1000, 65537, MOST };
	struct taut_clock clock = taut_clock_monotonic();
	int64_t end_ns = clock.now_ns(clock.state) + (int64_t)(seconds * 1e9);
	uint32_t n = 0;

	for (;; n++) {
		bool last = rank->rank == 0 &&
			clock.now_ns(clock.state) >= end_ns;
		taut_status status = sum(rank, counts[n % 5], last, err);

		if (status != TAUT_OK)
			return status;
		if (rank->out[0] != 0)
			break;
	}
	printf("sums %u\n", n);
	return TAUT_OK;
}

static taut_status begin(struct rank *rank, const char *where,
	int64_t lost_after_ns, struct taut_error *err)
{
	struct tauti_meet_options options = { rank->rank, rank->n_ranks, where,
		getenv("TAUT_SECRET"), 20000000000, lost_after_ns };
	uint32_t hosts[64];
	taut_status status = tauti_meet_create(&options, &rank->meet, err);

	for (uint32_t i = 0; i < 64; i++)
		hosts[i] = i;
	if (status == TAUT_OK)
		status = tauti_ucx_create(rank->meet, rank->rank, rank->n_ranks,
			&rank->engine, err);
	if (status == TAUT_OK)
		status = taut_comm_create_over(rank->engine.table,
			rank->engine.context, rank->rank, rank->n_ranks, hosts,
			&rank->comm, err);
	if (status == TAUT_OK)
		status = tauti_meet_watch(rank->meet, on_lost, rank, err);
	return status;
}

static void end(struct rank *rank)
{
	taut_comm_destroy(rank->comm);
	tauti_meet_destroy(rank->meet);
	if (rank->engine.table)
		rank->engine.table->destroy(rank->engine.context);
	free(rank->in);
	free(rank->out);
}

int main(int argc, char **argv)
{
	struct rank rank = { .rank = argc > 5 ? (uint32_t)atoi(argv[1]) : 0 };
	struct taut_error err = { .code = TAUT_OK };
	taut_status status;

	if (argc != 6)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	rank.n_ranks = (uint32_t)atoi(argv[2]);
	rank.in = calloc(MOST, sizeof *rank.in);
	rank.out = calloc(MOST, sizeof *rank.out);
	if (!rank.in || !rank.out)
		return 2;
	status = begin(&rank, argv[3], atoi(argv[5]) * INT64_C(1000000), &err);
	if (status == TAUT_OK) {
		printf("ready\n");
		status = sums(&rank, atof(argv[4]), &err);
	}
	if (status != TAUT_OK)
		printf("%s\n", err.message);
	end(&rank);
	return status == TAUT_OK ? 0 : 1;
}
