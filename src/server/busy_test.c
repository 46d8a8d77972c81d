/* A side that has much to do is not silent: it beats between two parts, however many there
 * are to begin, to sum, or to end. */
#include "tests/support/hand.h"

enum { SOME = 100, COUNT = 16, WORKERS_MOST = 3 }; /* parts, of 64 bytes */
static const int64_t second_ns = 1000000000;
static const int64_t lost_after_ns = 800000000;
static const useconds_t sum_us = 15000; /* so that all sums take much longer than that */

/* --- a server --------------------------------------------------------------------------*/

struct job {
	char where[32];
	struct taut_server *server;
	taut_status end;
	struct taut_error why;
	int n_pushes; /* atomic: that the server has */
	bool loses;   /* worker 0, once the others have pushed */
	taut_status status[WORKERS_MOST];
	struct taut_error whys[WORKERS_MOST];
	float data[WORKERS_MOST][SOME * COUNT];
};

static void on_event(void *context, const struct taut_server_event *event)
{
	struct job *job = context;

	if (event->did == TAUT_SERVER_DID_PUSH)
		__atomic_add_fetch(&job->n_pushes, 1, __ATOMIC_SEQ_CST);
	if (event->did == TAUT_SERVER_DID_SUM)
		usleep(sum_us);
}

static void *serve(void *context)
{
	struct ranks_one *one = context;
	struct job *job = one->shared;

	job->end = taut_server_run(job->server, &job->why);
	return NULL;
}

static void *sum(void *context)
{
	struct ranks_one *one = context;
	struct job *job = one->shared;
	const struct taut_server_worker_options options = { .worker = one->rank,
		.n_workers = one->n_ranks, .servers = job->where,
		.secret = hand_secret, .part_bytes = COUNT * sizeof(float),
		.lost_after_ns = lost_after_ns };
	const struct taut_server_key key = { "k", TAUT_FLOAT32, SOME * COUNT };
	struct taut_server_worker *worker = NULL;
	struct taut_error *why = &job->whys[one->rank];
	taut_status status = taut_server_join(&options, &worker, why);
	uint32_t number;

	if (!status)
		status = taut_server_declare(worker, &key, 0, 0, &number, why);
	if (!status && job->loses && !one->rank) {
		while (__atomic_load_n(&job->n_pushes, __ATOMIC_SEQ_CST) <
			SOME * (int)(one->n_ranks - 1))
			usleep(1000);
		taut_server_fail(worker, TAUT_EIO, "it is lost");
	} else if (!status) {
		status = taut_server_start(worker, number, TAUT_SERVER_PUSH_PULL,
			job->data[one->rank], why);
		if (!status)
			status = taut_server_wait(worker, number, 30 * second_ns, why);
	}
	job->status[one->rank] = status;
	taut_server_leave(worker);
	return NULL;
}

static void sum_slowly(uint32_t n_workers, bool loses)
{
	static struct job job;
	const struct taut_server_options options = { .n_workers = n_workers,
		.listen = job.where, .secret = hand_secret,
		.on_loss = TAUT_SERVER_CONTINUE, .lost_after_ns = lost_after_ns,
		.event = on_event, .context = &job };
	struct ranks_one thread, workers[WORKERS_MOST];

	job = (struct job){ .loses = loses };
	for (uint32_t w = 0; w < n_workers; w++)
		for (int i = 0; i < SOME * COUNT; i++)
			job.data[w][i] = (float)(w + 1);
	snprintf(job.where, sizeof job.where, "127.0.0.1:%u", ranks_free_port());
	assert_int_equal(taut_server_create(&options, &job.server, NULL), TAUT_OK);
	ranks_start(&thread, 0, 1, serve, &job);
	ranks_start(workers, 0, n_workers, sum, &job);
	ranks_join(workers, 0, n_workers);
	ranks_join(&thread, 0, 1);
	taut_server_destroy(job.server);
	for (uint32_t w = 0; w < n_workers; w++)
		if (job.status[w])
			fail_msg("worker %u: %s", w, job.whys[w].message);
	if (job.end)
		fail_msg("%s", job.why.message);
	for (int i = 0; i < SOME * COUNT; i++)
		assert_true(job.data[n_workers - 1][i] == (loses ? 5 : 3));
}

/* What has come of a worker while the server was busy with another one. */
static void test_sums(void **state)
{
	(void)state;
	sum_slowly(2, false);
}

/* All sums wait for the first worker, and all can be made when it is gone. */
static void test_loss(void **state)
{
	(void)state;
	sum_slowly(3, true);
}

/* --- a worker --------------------------------------------------------------------------*/

enum { KEYS = 60, LONG = 4 << 20 }; /* 16 MiB: each takes a while to be scaled */

struct work {
	char where[32];
	float *data;
	int is_started, is_over; /* atomic */
	taut_status status;
	struct taut_error why;
};

static void await(const int *flag)
{
	while (!__atomic_load_n(flag, __ATOMIC_SEQ_CST))
		usleep(1000);
}

static void *work(void *context)
{
	struct ranks_one *one = context;
	struct work *work = one->shared;
	const struct taut_server_worker_options options = { .n_workers = 1,
		.servers = work->where, .secret = hand_secret,
		.part_bytes = LONG * sizeof(float), .lost_after_ns = 100 * second_ns };
	struct taut_server_worker *worker = NULL;
	char name[8];
	struct taut_server_key key = { name, TAUT_FLOAT32, LONG };
	uint32_t number;

	work->status = taut_server_join(&options, &worker, &work->why);
	for (int i = 0; i < KEYS && !work->status; i++) {
		snprintf(name, sizeof name, "%02d", i);
		work->status = taut_server_declare(
			worker, &key, 0, 0.5, &number, &work->why);
	}
	for (uint32_t i = 0; i < KEYS && !work->status; i++)
		work->status = taut_server_start(worker, i, TAUT_SERVER_PUSH_PULL,
			work->data, &work->why);
	__atomic_store_n(&work->is_started, 1, __ATOMIC_SEQ_CST);
	await(&work->is_over);
	taut_server_leave(worker);
	return NULL;
}

static void hear_table(struct hand_end *end)
{
	uint8_t words[TAUTI_ASK_BYTES], table[KEYS * TAUTI_SAID_BYTES];
	struct hand_wait wait;

	hand_recv(end, tauti_tag_of(TAUTI_TAG_ASK, 0, 0), words, sizeof words, &wait);
	assert_true(hand_ends(end, &wait, 5 * second_ns));
	hand_recv(end, tauti_tag_of(TAUTI_TAG_TABLE, 0, 0), table, sizeof table, &wait);
	assert_true(hand_ends(end, &wait, 5 * second_ns));
}

/* There is none: now it begins all that it has been told to. */
static void say_no_board(struct hand_end *end)
{
	uint8_t words[TAUTI_BOARD_BYTES];
	struct hand_wait wait;

	tauti_board_write("", words);
	hand_send(end, tauti_tag_of(TAUTI_TAG_BOARD, 0, 0), words, sizeof words, &wait);
	assert_true(hand_ends(end, &wait, second_ns));
}

/* How many beats come between its first ask and its last one. */
static int beats_of(struct hand_end *end, struct tauti_link *link)
{
	static uint8_t words[KEYS][TAUTI_ASK_BYTES];
	struct hand_wait waits[KEYS];
	struct tauti_frame frame;
	int n = 0;

	for (uint32_t i = 0; i < KEYS; i++)
		hand_recv(end, tauti_tag_of(TAUTI_TAG_ASK, 0, i + 1), words[i],
			TAUTI_ASK_BYTES, &waits[i]);
	while (tauti_link_read(link, &frame) == TAUT_OK)
		;
	say_no_board(end);
	assert_true(hand_ends(end, &waits[0], 20 * second_ns));
	for (;;) {
		/* What came before the last ask is counted: what comes later is not. */
		(void)hand_ends(end, &waits[KEYS - 1], 1000000);
		if (waits[KEYS - 1].over)
			return n;
		while (tauti_link_read(link, &frame) == TAUT_OK)
			n += frame.kind == TAUTI_BEAT;
	}
}

static void test_begins(void **state)
{
	const struct tauti_greeting own = { .version = TAUTI_WIRE_VERSION,
		.n_servers = 1, .n_workers = 1, .mode = TAUT_SERVER_SUMS,
		.host = tauti_host_id(), .lost_after_ns = 10000000 };
	struct work job = { .data = calloc(LONG, sizeof(float)) };
	struct tauti_link link = { .fd = -1 };
	struct ranks_one thread;
	struct tauti_door *door;
	struct hand_end end;

	(void)state;
	assert_non_null(job.data);
	snprintf(job.where, sizeof job.where, "127.0.0.1:%u", ranks_free_port());
	assert_int_equal(tauti_door_open(job.where, hand_secret, 2, &door, NULL), TAUT_OK);
	ranks_start(&thread, 0, 1, work, &job);
	hand_let_in(&end, door, &link, &own);
	end.meet->links[1].allowed = tauti_kind_bit(TAUTI_BEAT);
	hear_table(&end);
	await(&job.is_started);
	assert_true(beats_of(&end, &end.meet->links[1]) >= 3);
	__atomic_store_n(&job.is_over, 1, __ATOMIC_SEQ_CST);
	hand_part_with(&end);
	ranks_join(&thread, 0, 1);
	assert_int_equal(job.status, TAUT_OK);
	tauti_door_close(door);
	free(job.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_begins),
	};

	ranks_ucx_in_sanitizer();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
