/* ranks.c - one rank of a job that all-reduces until its time is over, for the test
 * that puts ranks on hosts of their own.
 *
 *     coll-ranks RANK N_RANKS HOST:PORT SECONDS LOST_AFTER_MS
 *
 * Prints "ready ENGINE", then "sums N" and status 0, or the line of the fault and status 1;
 * "wrong" and status 2 for a sum that is not right. The secret is TAUT_SECRET. */
#include <stdio.h>
#include <stdlib.h>

#include <taut/coll.h>

enum { MOST = 300000 };

struct rank {
	uint32_t rank, n_ranks;
	struct taut_comm *comm;
	float *in, *out;
};

/* One all-reduce; rank r gives r + i % 7 + 1. */
static taut_status sum(struct rank *rank, uint64_t count, float last,
	struct taut_error *err)
{
	uint32_t n = rank->n_ranks;
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
		.type = TAUT_FLOAT32, .input = rank->in, .output = rank->out,
		.count = count, .reduction = TAUT_SUM };
	taut_status status;

	for (uint64_t i = 0; i < count; i++)
		rank->in[i] = (float)(rank->rank + i % 7 + 1);
	rank->in[0] = last;
	status = taut_comm_run(rank->comm, &call, err);
	for (uint64_t i = 1; i < count && status == TAUT_OK; i++)
		if (rank->out[i] != (float)(n * (n - 1) / 2 + n * (i % 7 + 1))) {
			printf("wrong\n");
			exit(2);
		}
	return status;
}

/* Rank 0's clock says when it is over, but not before each size had its turn, however
 * slow the machine; and element 0 tells the others. */
static taut_status sums(struct rank *rank, double seconds,
	struct taut_error *err)
{
	static const uint64_t counts[] = { 1, 2, 1000, 65537, MOST };
	struct taut_clock clock = taut_clock_monotonic();
	int64_t end_ns = clock.now_ns(clock.state) + (int64_t)(seconds * 1e9);
	uint32_t n = 0;

	for (;; n++) {
		bool last = rank->rank == 0 && n > 5 &&
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

int main(int argc, char **argv)
{
	struct rank rank = { .rank = argc > 5 ? (uint32_t)atoi(argv[1]) : 0 };
	struct taut_comm_options options = { .rank = rank.rank };
	struct taut_error err = { .code = TAUT_OK };
	taut_status status;

	if (argc != 6)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	options.n_ranks = rank.n_ranks = (uint32_t)atoi(argv[2]);
	options.meet = argv[3];
	options.meet_within_ns = INT64_C(20000000000);
	options.lost_after_ns = atoi(argv[5]) * INT64_C(1000000);
	rank.in = calloc(MOST, sizeof *rank.in);
	rank.out = calloc(MOST, sizeof *rank.out);
	if (!rank.in || !rank.out)
		return 2;
	status = taut_comm_create(&options, &rank.comm, &err);
	if (status == TAUT_OK) {
		printf("ready %s\n", taut_comm_engine(rank.comm));
		status = sums(&rank, atof(argv[4]), &err);
	}
	if (status != TAUT_OK)
		printf("%s\n", err.message);
	taut_comm_destroy(rank.comm);
	free(rank.in);
	free(rank.out);
	return status == TAUT_OK ? 0 : 1;
}
