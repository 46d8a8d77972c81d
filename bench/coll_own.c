/* coll_own.c - what the executor itself costs: its engine ends everything at once.
 *
 *     coll_own [ELEMENTS...]    default 1 and 1024
 *
 * Nanoseconds of a taut_comm_run(), all-reduce of floats, medians of RUNS times
 * CALLS: by ranks, over an engine that reduces what comes, and one that does not.
 * What is copied and reduced is in it: for 4 bytes, nothing to speak of. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/coll.h>

enum { RUNS = 31, CALLS = 5000, RANKS = 4 };

static taut_status send_nothing(void *engine, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	(void)engine;
	(void)peers;
	(void)n_peers;
	(void)tag;
	(void)data;
	(void)bytes;
	(void)err;
	request->done(request, TAUT_OK);
	return TAUT_OK;
}

static taut_status receive_zeros(void *engine, uint32_t peer, uint64_t tag,
	void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	(void)engine;
	(void)peer;
	(void)tag;
	(void)err;
	memset(data, 0, bytes);
	request->done(request, TAUT_OK);
	return TAUT_OK;
}

static taut_status reduce_zeros(void *engine, uint32_t peer, uint64_t tag,
	enum taut_type type, enum taut_reduction reduction, void *into,
	const void *from, size_t count, struct taut_coll_request *request,
	struct taut_error *err)
{
	(void)engine;
	(void)peer;
	(void)tag;
	(void)err;
	taut_reduce(type, reduction, into, from, from, count);
	request->done(request, TAUT_OK);
	return TAUT_OK;
}

static taut_status progress_nothing(void *engine, struct taut_error *err)
{
	(void)engine;
	(void)err;
	return TAUT_OK;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_ns(
	struct taut_comm *comm, const struct taut_coll_call *call)
{
	struct taut_clock clock = taut_clock_monotonic();
	double runs[RUNS];

	for (int i = 0; i < RUNS; i++) {
		int64_t began_ns = clock.now_ns(clock.state);

		memset(call->output, 0, call->count * sizeof(float));
		for (int k = 0; k < CALLS; k++)
			if (taut_comm_run(comm, call, NULL))
				abort();
		runs[i] = (double)(clock.now_ns(clock.state) - began_ns) / CALLS;
	}
	qsort(runs, RUNS, sizeof *runs, by_value);
	return runs[RUNS / 2];
}

static void measure(uint64_t count, bool reduces)
{
	const struct taut_coll_engine engine = { .name = "nothing",
		.send = send_nothing, .recv = receive_zeros,
		.recv_reduce = reduces ? reduce_zeros : NULL,
		.progress = progress_nothing };
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE, .count = count,
		.output = malloc(count * sizeof(float)) };

	if (!call.output)
		abort();
	printf("%10" PRIu64 " %-12s", count, reduces ? "yes" : "no");
	for (uint32_t n = 2; n <= RANKS; n++) {
		struct taut_comm *comm;

		if (taut_comm_create_over(
			&engine, NULL, n - 1, n, NULL, &comm, NULL))
			abort();
		printf(" %10.0f", median_ns(comm, &call));
		taut_comm_destroy(comm);
	}
	printf("\n");
	free(call.output);
}

int main(int argc, char **argv)
{
	printf("%10s %-12s %10s %10s %10s   ns a call\n", "elements",
		"recv_reduce", "2 ranks", "3 ranks", "4 ranks");
	for (int i = 1; i < (argc > 1 ? argc : 3); i++)
		for (int reduces = 0; reduces < 2; reduces++)
			measure(argc > 1 ? strtoull(argv[i], NULL, 10) :
				i == 1 ? 1 : 1024, reduces);
	return 0;
}
