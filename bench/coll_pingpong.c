/* coll_pingpong.c - what one message costs: half of a round trip over an engine
 * alone, without collectives.
 *
 *     coll_pingpong shm|ucx [BYTES]                     two processes, made here
 *     coll_pingpong shm|ucx BYTES RANK HOST:PORT        one of two, on any hosts
 *
 * Microseconds, median of ROUNDS rounds of TURNS round trips each; default 8 bytes.
 * The secret is $TAUT_SECRET, and where both are made here any. An all-reduce of n
 * ranks needs lg n messages one after another. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/coll.h"

enum { ROUNDS = 21, TURNS = 2000, MOST_BYTES = 1 << 20 };

struct message {
	struct taut_coll_request request; /* first: done() gets it */
	bool over;
	taut_status status;
};

struct pair {
	struct tauti_engine engine;
	uint32_t rank, peer;
	size_t bytes;
	uint64_t tag;
	char out[MOST_BYTES], in[MOST_BYTES];
};

static void check(taut_status status, const struct taut_error *err)
{
	if (!status)
		return;
	fprintf(stderr, "coll_pingpong: %s\n", err->message[0] ?
		err->message : taut_status_name(status));
	exit(1);
}

static int64_t now_ns(void)
{
	struct taut_clock clock = taut_clock_monotonic();

	return clock.now_ns(clock.state);
}

static void done(struct taut_coll_request *request, taut_status status)
{
	struct message *message = (struct message *)request;

	message->over = true;
	message->status = status;
}

static void until_over(struct pair *pair, const struct message *message)
{
	struct taut_error err = { .message = "" };

	while (!message->over)
		check(pair->engine.table->progress(
			pair->engine.context, &err), &err);
	check(message->status, &err);
}

static void turn(struct pair *pair)
{
	const struct taut_coll_engine *table = pair->engine.table;
	struct message in = { .request.done = done };
	struct message out = { .request.done = done };
	struct taut_error err = { .message = "" };

	check(table->recv(pair->engine.context, pair->peer, pair->tag,
		pair->in, pair->bytes, &in.request, &err), &err);
	if (pair->rank == 1)
		until_over(pair, &in);
	check(table->send(pair->engine.context, &pair->peer, 1, pair->tag,
		pair->out, pair->bytes, &out.request, &err), &err);
	until_over(pair, &in);
	until_over(pair, &out);
	pair->tag++;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(struct pair *pair)
{
	double us[ROUNDS];

	for (int round = -1; round < ROUNDS; round++) {
		int64_t begin = now_ns();

		for (int i = 0; i < TURNS; i++)
			turn(pair);
		us[round < 0 ? 0 : round] =
			(double)(now_ns() - begin) / TURNS / 2e3;
	}
	qsort(us, ROUNDS, sizeof *us, by_size);
	if (pair->rank == 0)
		printf("%zu %.3f\n", pair->bytes, us[ROUNDS / 2]);
}

static void run(const char *engine, size_t bytes, uint32_t rank,
	const char *address, const char *secret)
{
	const uint32_t hosts[2] = { 0, 0 };
	struct tauti_meet_options options = { .rank = rank, .n_ranks = 2,
		.address = address, .secret = secret,
		.within_ns = INT64_C(30000000000),
		.lost_after_ns = INT64_C(10000000000) };
	struct pair *pair = calloc(1, sizeof *pair);
	struct taut_error err = { .message = "" };
	struct tauti_meet *meet;

	if (!pair)
		check(TAUT_ENOMEM, &err);
	pair->rank = rank;
	pair->peer = 1 - rank;
	pair->bytes = bytes;
	check(tauti_meet_create(&options, &meet, &err), &err);
	check(strcmp(engine, "ucx") ?
		tauti_shm_create(meet, rank, 2, hosts, true, &pair->engine,
			&err) :
		tauti_ucx_create(meet, rank, 2, &pair->engine, &err), &err);
	measure(pair);
	pair->engine.table->destroy(pair->engine.context);
	tauti_meet_destroy(meet);
	free(pair);
}

static void pin(int core)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(core, &one);
	(void)!sched_setaffinity(0, sizeof one, &one);
}

/* Both here. */
static int run_both(const char *engine, size_t bytes)
{
	char address[32];
	int status = 0;
	pid_t child;

	snprintf(address, sizeof address, "127.0.0.1:%d",
		20000 + (int)getpid() % 20000);
	child = fork();
	if (child < 0)
		return 1;
	pin(child ? 0 : 1);
	run(engine, bytes, child ? 0 : 1, address, "both here");
	if (child)
		waitpid(child, &status, 0);
	return status != 0;
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 8;

	if (argc < 2 || (strcmp(argv[1], "shm") && strcmp(argv[1], "ucx")) ||
		bytes < 1 || bytes > MOST_BYTES || argc == 4 || argc > 5) {
		fprintf(stderr, "usage: coll_pingpong shm|ucx [BYTES [RANK "
			"HOST:PORT]]\n");
		return 2;
	}
	if (argc < 5)
		return run_both(argv[1], bytes);
	run(argv[1], bytes, argv[3][0] == '1', argv[4],
		getenv("TAUT_SECRET"));
	return 0;
}
