/* shm_pingpong.c - what the engine of shared memory itself gives, two processes.
 *
 *     shm_pingpong [TIMES]    default 20000 round trips of each size
 *
 * Each process is bound to a core of its own, if there are two. Microseconds of
 * half a round trip, median of those of BATCHES batches, with the best and worst
 * of them; and the GB/s (10^9) of messages in one direction, IN_FLIGHT at once,
 * received and reduced into memory that holds FAR_BYTES of them, so that it is no
 * cache that they go to. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "coll/engines/shm.h"
#include "tests/support/gather.h"

enum { BATCHES = 21, IN_FLIGHT = 4, FAR_BYTES = 64 << 20 };

struct flight {
	struct taut_coll_request request;
	int done;
};

static const struct taut_coll_engine *engine = &tauti_shm_table;

static void landed(struct taut_coll_request *request, taut_status status)
{
	if (status != TAUT_OK)
		abort();
	((struct flight *)request)->done = 1;
}

static void must(taut_status status, const struct taut_error *err)
{
	if (status == TAUT_OK)
		return;
	fprintf(stderr, "shm_pingpong: %s\n", err->message);
	exit(1);
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void finish(void *it, const struct flight *flight)
{
	struct taut_error err;

	while (!flight->done) {
		must(engine->progress(it, &err), &err);
		if (!flight->done)
			must(engine->wait(it, -1, &err), &err);
	}
}

static void begin_send(void *it, uint32_t to, uint64_t tag, const void *data,
	size_t bytes, struct flight *flight)
{
	struct taut_error err;

	*flight = (struct flight){ .request.done = landed };
	must(engine->send(it, &to, 1, tag, data, bytes, &flight->request, &err),
		&err);
}

static void begin_recv(void *it, uint32_t from, uint64_t tag, void *data,
	size_t bytes, struct flight *flight)
{
	struct taut_error err;

	*flight = (struct flight){ .request.done = landed };
	must(engine->recv(it, from, tag, data, bytes, &flight->request, &err),
		&err);
}

static void begin_reduce(void *it, uint32_t from, uint64_t tag, void *data,
	size_t bytes, struct flight *flight)
{
	struct taut_error err;

	*flight = (struct flight){ .request.done = landed };
	must(engine->recv_reduce(it, from, tag, TAUT_FLOAT32, TAUT_SUM, data,
		data, bytes / 4, &flight->request, &err), &err);
}

/* --- there and back --------------------------------------------------------------------*/

static double batch_us(void *it, uint32_t rank, char *data, size_t bytes, int n)
{
	double begin = now_s();
	struct flight flight;

	for (int i = 0; i < n; i++) {
		for (uint32_t turn = 0; turn < 2; turn++) {
			if (turn == rank)
				begin_send(it, !rank, 1, data, bytes, &flight);
			else
				begin_recv(it, !rank, 1, data, bytes, &flight);
			finish(it, &flight);
		}
	}
	return (now_s() - begin) * 1e6 / n / 2;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* --- one direction ----------------------------------------------------------------------*/

typedef void begin_fn(void *it, uint32_t from, uint64_t tag, void *data,
	size_t bytes, struct flight *flight);

static double one_way(void *it, uint32_t rank, char *data, size_t bytes,
	begin_fn *begin_one)
{
	struct flight flights[IN_FLIGHT], last;
	size_t n = FAR_BYTES / bytes;
	double begin = now_s();

	for (size_t i = 0; i < n + IN_FLIGHT; i++) {
		struct flight *flight = &flights[i % IN_FLIGHT];

		if (i >= IN_FLIGHT)
			finish(it, flight);
		if (i < n && rank == 0)
			begin_send(it, 1, i, data + i * bytes, bytes, flight);
		else if (i < n)
			begin_one(it, 0, i, data + i * bytes, bytes, flight);
	}
	if (rank == 0)
		begin_recv(it, 1, n, data, 1, &last);
	else
		begin_send(it, 0, n, data, 1, &last);
	finish(it, &last);
	return FAR_BYTES / (now_s() - begin) * 1e-9;
}

static double best_way(void *it, uint32_t rank, char *data, size_t bytes,
	begin_fn *begin_one)
{
	double best = 0;

	for (int i = 0; i < 5; i++) {
		double got = one_way(it, rank, data, bytes, begin_one);

		best = got > best ? got : best;
	}
	return best;
}

static void measure(void *it, uint32_t rank, char *data, size_t bytes, int n)
{
	double us[BATCHES], received = 0, reduced = 0;

	batch_us(it, rank, data, bytes, n / 10 + 1);
	for (int i = 0; i < BATCHES; i++)
		us[i] = batch_us(it, rank, data, bytes, n / BATCHES + 1);
	qsort(us, BATCHES, sizeof us[0], by_value);
	if (bytes >= 1024) {
		received = best_way(it, rank, data, bytes, begin_recv);
		reduced = best_way(it, rank, data, bytes, begin_reduce);
	}
	if (rank != 0)
		return;
	printf("%9zu  %9.3f  %9.3f  %9.3f", bytes, us[BATCHES / 2], us[0],
		us[BATCHES - 1]);
	if (bytes >= 1024)
		printf("  %7.2f  %7.2f", received, reduced);
	printf("\n");
}

/* --- two processes ------------------------------------------------------------------------*/

static void bind_to_core(uint32_t rank)
{
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2)
		return;
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && rank-- == 0)
			CPU_SET(i, &one);
	sched_setaffinity(0, sizeof one, &one);
}

static int run(struct gather *gather, uint32_t rank, int n)
{
	static const uint32_t host_of[2];
	struct gather_rank me = { gather, rank };
	struct tauti_shm_world world = { rank, 2, host_of, gather_all, &me,
		true };
	struct tauti_engine it;
	struct taut_error err;
	char *data = malloc(FAR_BYTES);

	bind_to_core(rank);
	if (!data)
		return 1;
	memset(data, 0, FAR_BYTES);
	must(tauti_shm_create_by(&world, &it, &err), &err);
	if (rank == 0)
		printf("    bytes  half trip       best      worst us"
			"  recv    reduce GB/s\n");
	for (size_t bytes = 4; bytes <= engine->max_message_bytes; bytes *= 4)
		measure(it.context, rank, data, bytes,
			bytes > 16384 ? n / 10 : n);
	measure(it.context, rank, data, engine->max_message_bytes, n / 10);
	engine->destroy(it.context);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 20000, status = 0;
	struct gather *gather = gather_create(2);
	pid_t child;

	if (!gather || n < 1)
		return 2;
	child = fork();
	if (child == 0)
		return run(gather, 1, n);
	status = run(gather, 0, n);
	waitpid(child, NULL, 0);
	gather_destroy(gather);
	return status;
}
