/* sched_rate.c - what the scheduler itself costs: its engine does nothing.
 *
 *     sched_rate [TASKS...]    default 10, 100, 1000 and 10000
 *
 * Nanoseconds a call, medians of RUNS iterations, each task of PIECES pieces:
 *
 *     ready      taut_sched_ready(), while a round is under way
 *     agreed     the round by which all tasks are agreed and all their pieces
 *                started, for each piece
 *     finished   taut_sched_finished(), without a limit of credit
 *     idle       a round that nothing follows from: asked, words, answer
 *     turn       with credit for one piece: it is finished, that is a round, by
 *                which its credit comes back and the next one is started
 *     alone      the same without rounds (TAUT_SCHED_ALONE)
 *
 * The other rank is made up: it is always ready, and has finished everything. */
#include <stdio.h>
#include <stdlib.h>

#include <taut/sched.h>

enum { RUNS = 21, PIECES = 4, PIECE_BYTES = 1 << 20 };

struct peer {
	const uint64_t *words; /* of the round under way */
	uint64_t round, n_started;
	size_t n;
};

static taut_status start(void *context, const struct taut_sched_piece *pieces,
	size_t n, struct taut_error *err)
{
	struct peer *peer = context;

	(void)pieces;
	(void)err;
	peer->n_started += n;
	return TAUT_OK;
}

static taut_status agree(void *context, uint64_t round, const uint64_t *words,
	size_t n, struct taut_error *err)
{
	struct peer *peer = context;

	(void)err;
	peer->words = words;
	peer->round = round;
	peer->n = n;
	return TAUT_OK;
}

static void done(
	void *context, uint32_t task, uint32_t iteration, taut_status status)
{
	(void)context;
	(void)task;
	(void)iteration;
	(void)status;
}

/* --- measuring ---------------------------------------------------------------------*/

static void check(taut_status status)
{
	if (status) {
		fprintf(stderr, "sched_rate: %s\n", taut_status_name(status));
		exit(1);
	}
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

static double median(double *ns)
{
	qsort(ns, RUNS, sizeof *ns, by_size);
	return ns[RUNS / 2];
}

static struct taut_sched *make(struct peer *peer, uint32_t n_tasks,
	const struct taut_sched_options *options)
{
	static const struct taut_sched_engine engine = { start, agree, done };
	struct taut_sched *sched;
	uint32_t task;

	*peer = (struct peer){ .n = 0 };
	check(taut_sched_create(options, &engine, peer, &sched, NULL));
	for (uint32_t i = 0; i < n_tasks; i++)
		check(taut_sched_declare(sched,
			(uint64_t)PIECES * PIECE_BYTES, (int64_t)i, TAUT_NONE,
			&task, NULL));
	return sched;
}

static void answer(struct taut_sched *sched, const struct peer *peer)
{
	check(taut_sched_agreed(
		sched, peer->round, peer->words, peer->n, NULL));
}

/* As gradients come: the last layer first. Returns the nanoseconds of a call. */
static double make_ready(struct taut_sched *sched, uint32_t n_tasks)
{
	int64_t begin = now_ns();

	for (uint32_t i = n_tasks; i-- > 0;)
		check(taut_sched_ready(sched, i, NULL));
	return (double)(now_ns() - begin) / n_tasks;
}

static double finish_all(struct taut_sched *sched, uint64_t first, uint64_t n)
{
	int64_t begin = now_ns();

	for (uint64_t i = 0; i < n; i++)
		check(taut_sched_finished(sched, first + i, NULL));
	return (double)(now_ns() - begin) / (double)n;
}

static double idle_rounds(struct taut_sched *sched, struct peer *peer)
{
	enum { ROUNDS = 1000 };
	int64_t begin = now_ns();

	for (int i = 0; i < ROUNDS; i++) {
		check(taut_sched_asked(sched, peer->round + 1, NULL));
		answer(sched, peer);
	}
	return (double)(now_ns() - begin) / ROUNDS;
}

/* ready, agreed, finished and idle, into ns[0..3]. */
static void measure_parts(uint32_t n_tasks, double *ns, size_t *ret_words)
{
	static const struct taut_sched_options options = {
		.n_ranks = 2, .piece_bytes = PIECE_BYTES };
	double of_runs[4][RUNS];
	struct peer peer;
	struct taut_sched *sched = make(&peer, n_tasks, &options);
	uint64_t n = (uint64_t)n_tasks * PIECES, first = 0;

	for (int run = -1; run < RUNS; run++, first += n) {
		int at = run < 0 ? 0 : run; /* the first only warms up */
		int64_t begin;

		of_runs[0][at] = make_ready(sched, n_tasks);
		answer(sched, &peer); /* that ranks match, or one task */
		*ret_words = peer.n;
		begin = now_ns();
		answer(sched, &peer);
		of_runs[1][at] = (double)(now_ns() - begin) / (double)n;
		of_runs[2][at] = finish_all(sched, first, n);
		of_runs[3][at] = idle_rounds(sched, &peer);
	}
	for (int i = 0; i < 4; i++)
		ns[i] = median(of_runs[i]);
	taut_sched_destroy(sched);
}

static double measure_turns(uint32_t n_tasks)
{
	static const struct taut_sched_options options = { .n_ranks = 2,
		.piece_bytes = PIECE_BYTES, .credit_bytes = 1 };
	double of_runs[RUNS];
	struct peer peer;
	struct taut_sched *sched = make(&peer, n_tasks, &options);
	uint64_t n = (uint64_t)n_tasks * PIECES, first = 0, round;

	for (int run = -1; run < RUNS; run++, first += n) {
		int64_t begin;

		make_ready(sched, n_tasks);
		do { /* until all tasks are agreed */
			round = peer.round;
			answer(sched, &peer);
		} while (peer.round != round);
		begin = now_ns();
		for (uint64_t i = 0; i < n; i++) {
			round = peer.round;
			check(taut_sched_finished(sched, first + i, NULL));
			if (peer.round != round)
				answer(sched, &peer);
		}
		of_runs[run < 0 ? 0 : run] =
			(double)(now_ns() - begin) / (double)n;
	}
	taut_sched_destroy(sched);
	return median(of_runs);
}

static double measure_alone(uint32_t n_tasks)
{
	static const struct taut_sched_options options = {
		.order = TAUT_SCHED_ALONE, .piece_bytes = PIECE_BYTES,
		.credit_bytes = 1 };
	double of_runs[RUNS];
	struct peer peer;
	struct taut_sched *sched = make(&peer, n_tasks, &options);
	uint64_t n = (uint64_t)n_tasks * PIECES, first = 0;

	for (int run = -1; run < RUNS; run++, first += n) {
		make_ready(sched, n_tasks);
		of_runs[run < 0 ? 0 : run] = finish_all(sched, first, n);
	}
	taut_sched_destroy(sched);
	return median(of_runs);
}

static void measure(uint32_t n_tasks)
{
	size_t words = 0;
	double ns[4];

	measure_parts(n_tasks, ns, &words);
	printf("%8u %8zu %8.0f %8.0f %8.0f %8.0f %8.0f %8.0f\n", n_tasks,
		8 * words, ns[0], ns[1], ns[2], ns[3], measure_turns(n_tasks),
		measure_alone(n_tasks));
}

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = { 10, 100, 1000, 10000 };

	printf("%8s %8s %8s %8s %8s %8s %8s %8s\n", "tasks", "round, B",
		"ready", "agreed", "finished", "idle", "turn", "alone");
	for (int i = 0; argc == 1 && i < 4; i++)
		measure(sizes[i]);
	for (int i = 1; i < argc; i++) {
		char *end;
		unsigned long n = strtoul(argv[i], &end, 10);

		if (*end || n < 1 || n > 1000000) {
			fprintf(stderr, "sched_rate: %s: expected a number of "
				"tasks, 1 to 1000000\n", argv[i]);
			return 2;
		}
		measure((uint32_t)n);
	}
	return 0;
}
