/* Ranks that are threads: each has a thread that computes and two that carry
 * messages, and pieces are summed in memory. Sums must be right, ranks must start
 * the same, and ThreadSanitizer must find nothing. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <taut/sched.h>

#include "base/vec.h"

enum { RANKS = 4, TASKS = 80, CARRIERS = 2, MOST = 256, ROUND_WORDS = 64 };

enum what { FINISHED, AGREED, ASKED, FAIL, QUIT };

struct message {
	enum what what;
	uint64_t number;
};

struct net;

struct rank {
	struct net *net;
	uint32_t id;
	struct taut_sched *sched;
	uint32_t values[TASKS][MOST];
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	TAUT_VEC(struct message) inbox;
	uint32_t to_do;
	bool failed;
};

/* A piece, when the first rank starts it. */
struct meeting {
	struct taut_sched_piece piece;
	uint32_t n;
};

struct net {
	uint32_t n_tasks, n_iterations, fails_at;
	uint32_t words[TASKS], after[TASKS];
	struct rank ranks[RANKS];
	pthread_mutex_t lock; /* of what follows */
	TAUT_VEC(struct meeting) meetings;
	uint64_t gathered[ROUND_WORDS], answer[ROUND_WORDS];
	size_t n_words, n_answer;
	uint32_t n_come;
	uint64_t asked; /* rounds that some rank has entered */
	uint64_t n_overtaken;
	uint32_t faults;
};

static void post(struct rank *rank, enum what what, uint64_t number)
{
	struct message message = { what, number };

	pthread_mutex_lock(&rank->lock);
	if (!taut_vec_push(&rank->inbox, message))
		abort();
	pthread_cond_broadcast(&rank->changed);
	pthread_mutex_unlock(&rank->lock);
}

static void post_all(struct net *net, enum what what, uint64_t number)
{
	for (uint32_t i = 0; i < RANKS; i++)
		post(&net->ranks[i], what, number);
}

/* --- the engine: memory ------------------------------------------------------------*/

static uint32_t buffer_of(const struct net *net, uint32_t task)
{
	return net->after[task] == TAUT_NONE ? task : net->after[task];
}

static void sum(struct net *net, const struct taut_sched_piece *piece)
{
	uint32_t buffer = buffer_of(net, piece->task);

	for (uint64_t at = piece->first_byte / 4;
		at < (piece->first_byte + piece->bytes) / 4; at++) {
		uint32_t total = 0;

		for (uint32_t i = 0; i < RANKS; i++)
			total += net->ranks[i].values[buffer][at];
		for (uint32_t i = 0; i < RANKS; i++)
			net->ranks[i].values[buffer][at] = total;
	}
}

static void meet(struct net *net, const struct taut_sched_piece *piece)
{
	struct meeting new = { *piece, 0 }, *it;

	if (piece->number == net->meetings.count &&
		!taut_vec_push(&net->meetings, new))
		abort();
	it = &net->meetings.data[piece->number];
	net->faults += memcmp(&it->piece, piece, sizeof *piece) != 0;
	if (++it->n < RANKS)
		return;
	sum(net, piece);
	post_all(net, FINISHED, piece->number);
}

static taut_status start(void *context, const struct taut_sched_piece *pieces,
	size_t n, struct taut_error *err)
{
	struct rank *rank = context;

	(void)err;
	pthread_mutex_lock(&rank->net->lock);
	for (size_t i = 0; i < n; i++)
		meet(rank->net, &pieces[i]);
	pthread_mutex_unlock(&rank->net->lock);
	return TAUT_OK;
}

static taut_status agree(void *context, uint64_t round, const uint64_t *words,
	size_t n, struct taut_error *err)
{
	struct rank *rank = context;
	struct net *net = rank->net;

	(void)err;
	pthread_mutex_lock(&net->lock);
	net->faults += n > ROUND_WORDS || (net->n_come && n != net->n_words);
	net->n_words = n;
	for (size_t i = 0; i < n; i++)
		net->gathered[i] = words[i] &
			(net->n_come ? net->gathered[i] : UINT64_MAX);
	if (net->asked == round) {
		net->asked++;
		post_all(net, ASKED, round);
	}
	if (++net->n_come == RANKS) {
		net->n_come = 0;
		net->n_answer = n;
		memcpy(net->answer, net->gathered, sizeof net->answer);
		post_all(net, AGREED, round);
	}
	pthread_mutex_unlock(&net->lock);
	return TAUT_OK;
}

static void done(
	void *context, uint32_t task, uint32_t iteration, taut_status status)
{
	struct rank *rank = context;

	(void)task;
	(void)iteration;
	pthread_mutex_lock(&rank->lock);
	rank->to_do--;
	rank->failed = rank->failed || status;
	pthread_cond_broadcast(&rank->changed);
	pthread_mutex_unlock(&rank->lock);
}

/* --- threads -----------------------------------------------------------------------*/

static struct message take(struct rank *rank)
{
	struct message message;

	pthread_mutex_lock(&rank->lock);
	while (!rank->inbox.count)
		pthread_cond_wait(&rank->changed, &rank->lock);
	message = rank->inbox.data[0];
	rank->inbox.count--;
	memmove(rank->inbox.data, rank->inbox.data + 1,
		rank->inbox.count * sizeof message);
	pthread_cond_broadcast(&rank->changed);
	pthread_mutex_unlock(&rank->lock);
	return message;
}

static taut_status tell_agreed(struct rank *rank, uint64_t round)
{
	uint64_t words[ROUND_WORDS];
	size_t n;

	pthread_mutex_lock(&rank->net->lock);
	n = rank->net->n_answer;
	memcpy(words, rank->net->answer, sizeof words);
	pthread_mutex_unlock(&rank->net->lock);
	return taut_sched_agreed(rank->sched, round, words, n, NULL);
}

static void *carry(void *context)
{
	struct rank *rank = context;

	for (;;) {
		struct message message = take(rank);
		taut_status status = TAUT_OK;

		if (message.what == QUIT)
			return NULL;
		if (message.what == FINISHED)
			status = taut_sched_finished(
				rank->sched, message.number, NULL);
		else if (message.what == AGREED)
			status = tell_agreed(rank, message.number);
		else if (message.what == ASKED)
			status = taut_sched_asked(
				rank->sched, message.number, NULL);
		else
			taut_sched_fail(rank->sched, TAUT_EIO, "a peer is gone");
		if (status && status != TAUT_EIO)
			__atomic_add_fetch(&rank->net->faults, 1,
				__ATOMIC_RELAXED);
	}
}

static uint32_t value(
	uint32_t rank, uint32_t task, uint32_t iteration, uint32_t at)
{
	return (rank + 1) * 1000003u + task * 1009u + iteration * 31u + at;
}

static void check_sums(struct rank *rank, uint32_t iteration)
{
	const struct net *net = rank->net;

	for (uint32_t t = 0; t < net->n_tasks; t++) {
		if (net->after[t] != TAUT_NONE)
			continue;
		for (uint32_t at = 0; at < net->words[t]; at++) {
			uint32_t total = 0;

			for (uint32_t i = 0; i < RANKS; i++)
				total += value(i, t, iteration, at);
			for (uint32_t k = t + 1; k < net->n_tasks; k++)
				if (net->after[k] == t)
					total *= RANKS;
			if (rank->values[t][at] != total)
				__atomic_add_fetch(&rank->net->faults, 1,
					__ATOMIC_RELAXED);
		}
	}
}

static bool give_up(struct rank *rank)
{
	pthread_mutex_lock(&rank->lock);
	rank->failed = true;
	pthread_mutex_unlock(&rank->lock);
	return false;
}

/* Gradients come in an order that no other rank has. */
static bool run_iteration(struct rank *rank, uint32_t iteration)
{
	struct net *net = rank->net;
	uint32_t n = net->n_tasks, step = 2 * rank->id + 1;
	bool failed;

	while (n % step == 0 && step > 1)
		step += 2;
	pthread_mutex_lock(&rank->lock);
	rank->to_do = n;
	pthread_mutex_unlock(&rank->lock);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t t = (i * step + iteration) % n;

		if (net->after[t] != TAUT_NONE)
			continue;
		for (uint32_t at = 0; at < net->words[t]; at++)
			rank->values[t][at] = value(rank->id, t, iteration, at);
		if (taut_sched_ready(rank->sched, t, NULL))
			return give_up(rank);
	}
	pthread_mutex_lock(&rank->lock);
	while (rank->to_do && !rank->failed)
		pthread_cond_wait(&rank->changed, &rank->lock);
	failed = rank->failed;
	pthread_mutex_unlock(&rank->lock);
	return !failed;
}

static void *compute(void *context)
{
	struct rank *rank = context;
	struct net *net = rank->net;

	for (uint32_t i = 1; i <= net->n_iterations; i++) {
		if (i == net->fails_at && rank->id == 1)
			post_all(net, FAIL, 0);
		if (!run_iteration(rank, i))
			return NULL;
		check_sums(rank, i);
		if (i % 8 == 0 && taut_sched_tune(rank->sched, 64 + 16 * i,
			512 + 64 * i, i % 16 ? 0 : 400, NULL) &&
			!net->fails_at)
			__atomic_add_fetch(&net->faults, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* --- the world ---------------------------------------------------------------------*/

static void create_rank(struct net *net, uint32_t id)
{
	static const struct taut_sched_engine engine = { start, agree, done };
	static const struct taut_sched_options options = { .n_ranks = RANKS,
		.piece_bytes = 128, .credit_bytes = 1024, .fuse_bytes = 300 };
	struct rank *rank = &net->ranks[id];
	uint32_t task;

	rank->net = net;
	rank->id = id;
	pthread_mutex_init(&rank->lock, NULL);
	pthread_cond_init(&rank->changed, NULL);
	assert_int_equal(taut_sched_create(
		&options, &engine, rank, &rank->sched, NULL), TAUT_OK);
	for (uint32_t t = 0; t < net->n_tasks; t++)
		assert_int_equal(taut_sched_declare(rank->sched,
			4 * (uint64_t)net->words[t], (int64_t)(t * 7 % 13),
			net->after[t], &task, NULL), TAUT_OK);
}

static void destroy_rank(struct net *net, struct rank *rank)
{
	struct taut_sched_counts counts;

	taut_sched_counts(rank->sched, &counts);
	net->n_overtaken += counts.overtaken;
	taut_sched_destroy(rank->sched);
	taut_vec_free(&rank->inbox);
	pthread_mutex_destroy(&rank->lock);
	pthread_cond_destroy(&rank->changed);
}

static void run(struct net *net)
{
	pthread_t jobs[RANKS], carriers[RANKS][CARRIERS];

	for (uint32_t i = 0; i < RANKS; i++)
		for (int k = 0; k < CARRIERS; k++)
			assert_int_equal(pthread_create(&carriers[i][k], NULL,
				carry, &net->ranks[i]), 0);
	for (uint32_t i = 0; i < RANKS; i++)
		assert_int_equal(pthread_create(
			&jobs[i], NULL, compute, &net->ranks[i]), 0);
	for (uint32_t i = 0; i < RANKS; i++)
		pthread_join(jobs[i], NULL);
	for (int k = 0; k < CARRIERS; k++)
		post_all(net, QUIT, 0);
	for (uint32_t i = 0; i < RANKS; i++)
		for (int k = 0; k < CARRIERS; k++)
			pthread_join(carriers[i][k], NULL);
}

static void run_net(uint32_t n_iterations, uint32_t fails_at)
{
	struct net *net = calloc(1, sizeof *net);

	assert_non_null(net);
	net->n_tasks = TASKS;
	net->n_iterations = n_iterations;
	net->fails_at = fails_at;
	pthread_mutex_init(&net->lock, NULL);
	for (uint32_t t = 0; t < TASKS; t++) {
		net->after[t] = t % 5 == 4 ? t - 2 : TAUT_NONE;
		net->words[t] = 1 + t * 37 % MOST;
		if (net->after[t] != TAUT_NONE)
			net->words[t] = net->words[net->after[t]];
	}
	for (uint32_t i = 0; i < RANKS; i++)
		create_rank(net, i);
	run(net);
	for (uint32_t i = 0; i < RANKS; i++) {
		assert_int_equal(net->ranks[i].failed, fails_at > 0);
		destroy_rank(net, &net->ranks[i]);
	}
	assert_int_equal(net->faults, 0);
	assert_true(net->n_overtaken > 0);
	pthread_mutex_destroy(&net->lock);
	taut_vec_free(&net->meetings);
	free(net);
}

static void test_sums(void **state)
{
	(void)state;
	run_net(40, 0);
}

/* One of several threads says that all is over, in the midst of an iteration. */
static void test_failure(void **state)
{
	(void)state;
	for (uint32_t i = 2; i < 12; i++)
		run_net(40, i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
