/* coll_pingpong.c - what an engine itself gives between two ranks, without
 * collectives.
 *
 *     coll_pingpong shm|tcp|ucx [BYTES,...]                     both made here
 *     coll_pingpong shm|tcp|ucx BYTES,... RANK HOST:PORT        one of two, on any hosts
 *
 * A line for each size, default 4 B to the longest message:
 *
 *     bytes   half of a round trip in us: median, best and worst of ROUNDS rounds;
 *             from 1 KiB on GB/s (10^9) of messages in one direction, IN_FLIGHT at
 *             once, received and reduced into memory that holds FAR_BYTES of them,
 *             so that it is no cache that they go to; -: the engine reduces nothing
 *
 * The ranks watch each other as those of a communicator do. Where both are made
 * here each is bound to a core of its own; a line on standard error says when that
 * cannot be. The secret is $TAUT_SECRET, and where both are made here any. An
 * all-reduce of n ranks needs lg n messages one after another. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/coll.h"

enum {
	ROUNDS = 21, TURNS = 2000, BATCHES = 5, IN_FLIGHT = 4,
	MOST_BYTES = 1 << 20, FAR_BYTES = 64 << 20, LEAST_FAR = 1024,
	MOST_SIZES = 32,
	LOOKS = 512, /* for news, some microseconds, before it gives way */
};

struct message {
	struct taut_coll_request request; /* first: done() gets it */
	bool over;
	taut_status status;
};

struct sizes {
	size_t bytes[MOST_SIZES], n;
};

struct pair {
	struct tauti_engine engine;
	uint32_t rank, peer;
	uint64_t tag;
	char *memory; /* FAR_BYTES */
};

static void check(taut_status status, const struct taut_error *err)
{
	if (!status)
		return;
	fprintf(stderr, "coll_pingpong: %s\n", err->message[0] ?
		err->message : taut_status_name(status));
	_exit(1);
}

static int64_t now_ns(void)
{
	struct taut_clock clock = taut_clock_monotonic();

	return clock.now_ns(clock.state);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* --- messages ----------------------------------------------------------------------*/

static void done(struct taut_coll_request *request, taut_status status)
{
	struct message *message = (struct message *)request;

	message->over = true;
	message->status = status;
}

static void until_over(struct pair *pair, const struct message *message)
{
	struct taut_error err;

	err.message[0] = '\0';
	for (unsigned looks = 1; !message->over; looks++) {
		check(pair->engine.table->progress(
			pair->engine.context, &err), &err);
		if (looks % LOOKS == 0) /* as a communicator does */
			sched_yield();
	}
	check(message->status, &err);
}

typedef void begin_fn(struct pair *pair, struct message *message, uint64_t tag,
	char *at, size_t bytes);

static void begin_send(struct pair *pair, struct message *message, uint64_t tag,
	char *at, size_t bytes)
{
	struct taut_error err;

	err.message[0] = '\0';
	*message = (struct message){ .request.done = done };
	check(pair->engine.table->send(pair->engine.context, &pair->peer, 1,
		tag, at, bytes, &message->request, &err), &err);
}

static void begin_recv(struct pair *pair, struct message *message, uint64_t tag,
	char *at, size_t bytes)
{
	struct taut_error err;

	err.message[0] = '\0';
	*message = (struct message){ .request.done = done };
	check(pair->engine.table->recv(pair->engine.context, pair->peer, tag,
		at, bytes, &message->request, &err), &err);
}

static void begin_reduce(struct pair *pair, struct message *message,
	uint64_t tag, char *at, size_t bytes)
{
	struct taut_error err;

	err.message[0] = '\0';
	*message = (struct message){ .request.done = done };
	check(pair->engine.table->recv_reduce(pair->engine.context, pair->peer,
		tag, TAUT_FLOAT32, TAUT_SUM, at, at, bytes / 4,
		&message->request, &err), &err);
}

/* --- there and back ----------------------------------------------------------------*/

static void turn(struct pair *pair, size_t bytes)
{
	struct message in, out;

	begin_recv(pair, &in, pair->tag, pair->memory + MOST_BYTES, bytes);
	if (pair->rank == 1)
		until_over(pair, &in);
	begin_send(pair, &out, pair->tag, pair->memory, bytes);
	until_over(pair, &in);
	until_over(pair, &out);
	pair->tag++;
}

static void half_trips(struct pair *pair, size_t bytes, double *us)
{
	int turns = bytes > 16384 ? TURNS / 20 : TURNS;

	for (int round = -1; round < ROUNDS; round++) {
		int64_t begin = now_ns();

		for (int i = 0; i < turns; i++)
			turn(pair, bytes);
		us[round < 0 ? 0 : round] =
			(double)(now_ns() - begin) / turns / 2e3;
	}
	qsort(us, ROUNDS, sizeof *us, by_size);
}

/* --- one direction -----------------------------------------------------------------*/

static double one_way(struct pair *pair, size_t bytes, begin_fn *begin_one)
{
	struct message flights[IN_FLIGHT], last;
	size_t n = FAR_BYTES / bytes;
	int64_t begin = now_ns();

	for (size_t i = 0; i < n + IN_FLIGHT; i++) {
		struct message *flight = &flights[i % IN_FLIGHT];

		if (i >= IN_FLIGHT)
			until_over(pair, flight);
		if (i < n)
			(pair->rank ? begin_one : begin_send)(pair, flight,
				pair->tag + i, pair->memory + i * bytes, bytes);
	}
	pair->tag += n;
	(pair->rank ? begin_send : begin_recv)(
		pair, &last, pair->tag++, pair->memory, 1);
	until_over(pair, &last);
	return (double)(n * bytes) / (double)(now_ns() - begin);
}

static double best_way(struct pair *pair, size_t bytes, begin_fn *begin_one)
{
	double best = 0;

	for (int i = 0; i < BATCHES; i++) {
		double got = one_way(pair, bytes, begin_one);

		best = got > best ? got : best;
	}
	return best;
}

/* --- a size ------------------------------------------------------------------------*/

static void measure(struct pair *pair, size_t bytes)
{
	bool reduces = pair->engine.table->recv_reduce != NULL;
	double us[ROUNDS], received = 0, reduced = 0;

	half_trips(pair, bytes, us);
	if (bytes >= LEAST_FAR)
		received = best_way(pair, bytes, begin_recv);
	if (bytes >= LEAST_FAR && reduces)
		reduced = best_way(pair, bytes, begin_reduce);
	if (pair->rank)
		return;
	printf("%9zu  %9.3f  %9.3f  %9.3f", bytes, us[ROUNDS / 2], us[0],
		us[ROUNDS - 1]);
	if (received > 0)
		printf("  %8.2f", received);
	if (reduced > 0)
		printf("  %8.2f", reduced);
	printf(received > 0 && !reduces ? "         -\n" : "\n");
	fflush(stdout);
}

static void measure_all(struct pair *pair, const struct sizes *sizes)
{
	uint64_t most = pair->engine.table->max_message_bytes;

	if (!most || most > MOST_BYTES)
		most = MOST_BYTES;
	if (pair->rank == 0)
		printf("    bytes  half trip       best      worst us"
			"  received   reduced GB/s\n");
	for (size_t i = 0; i < sizes->n; i++)
		if (sizes->bytes[i] <= most)
			measure(pair, sizes->bytes[i]);
}

/* --- two ranks ---------------------------------------------------------------------*/

static void lost(void *context, const struct taut_error *why)
{
	(void)context;
	check(TAUT_EIO, why);
}

static void run(const char *engine, const struct sizes *sizes, uint32_t rank,
	const char *address, const char *secret)
{
	const uint32_t hosts[2] = { 0, 0 };
	struct tauti_meet_options options = { .rank = rank, .n_ranks = 2,
		.address = address, .secret = secret,
		.within_ns = INT64_C(30000000000),
		.lost_after_ns = INT64_C(10000000000) };
	struct pair pair = { .rank = rank, .peer = 1 - rank,
		.memory = malloc(FAR_BYTES) };
	struct taut_error err = { .message = "" };
	struct tauti_meet *meet;

	if (!pair.memory)
		check(TAUT_ENOMEM, &err);
	memset(pair.memory, 0, FAR_BYTES);
	check(tauti_meet_create(&options, &meet, &err), &err);
	check(!strcmp(engine, "ucx") ?
		tauti_ucx_create(meet, rank, 2, &pair.engine, &err) :
		!strcmp(engine, "tcp") ?
		tauti_tcp_create(meet, rank, 2, NULL, &pair.engine, &err) :
		tauti_shm_create(meet, rank, 2, hosts, true, &pair.engine, &err),
		&err);
	check(tauti_meet_watch(meet,
		&(struct tauti_watch){ .lost = lost }, &err), &err);
	measure_all(&pair, sizes);
	tauti_meet_destroy(meet);
	pair.engine.table->destroy(pair.engine.context);
	free(pair.memory);
}

/* The first core that it may use, or the second. */
static bool bind_to_core(uint32_t rank)
{
	cpu_set_t all, one;
	uint32_t n = 0;

	if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2)
		return false;
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && n++ == rank)
			CPU_SET(i, &one);
	return !sched_setaffinity(0, sizeof one, &one);
}

static int run_both(const char *engine, const struct sizes *sizes)
{
	char address[32];
	int status = 0;
	pid_t child;

	snprintf(address, sizeof address, "127.0.0.1:%d",
		20000 + (int)getpid() % 20000);
	child = fork();
	if (child < 0)
		return 1;
	if (!bind_to_core(child == 0))
		fprintf(stderr, "coll_pingpong: rank %d is bound to no core of "
			"its own\n", child == 0);
	run(engine, sizes, child == 0, address, "both here");
	if (child)
		waitpid(child, &status, 0);
	return status != 0;
}

/* --- words -------------------------------------------------------------------------*/

static bool read_sizes(const char *text, struct sizes *sizes)
{
	char *end;

	for (;; text = end + 1) {
		size_t bytes = strtoul(text, &end, 10);

		if (end == text || (*end && *end != ',') || bytes < 1 ||
			bytes > MOST_BYTES || sizes->n == MOST_SIZES)
			return false;
		sizes->bytes[sizes->n++] = bytes;
		if (!*end)
			return true;
	}
}

static const char usual[] = "4,8,16,64,256,1024,2048,4096,16384,65536,262144";

int main(int argc, char **argv)
{
	struct sizes sizes = { .n = 0 };

	if (argc < 2 || (strcmp(argv[1], "shm") && strcmp(argv[1], "tcp") &&
		strcmp(argv[1], "ucx")) ||
		!read_sizes(argc > 2 ? argv[2] : usual, &sizes) ||
		argc == 4 || argc > 5) {
		fprintf(stderr, "usage: coll_pingpong shm|tcp|ucx [BYTES,... [RANK "
			"HOST:PORT]]\n");
		return 2;
	}
	if (argc < 5)
		return run_both(argv[1], &sizes);
	run(argv[1], &sizes, argv[3][0] == '1', argv[4],
		getenv("TAUT_SECRET"));
	return 0;
}
