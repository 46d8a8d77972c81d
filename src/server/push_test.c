/* How a push goes from a worker to a server, where each of the two is played by hand in
 * turn: a long one stays with its worker until the server has a place for it, or a worker
 * has little that is ahead of its place. And over which engine. */
#include "tests/support/hand.h"

#include "coll/engines/tcp.h"
#include "server/worker.h"

static const int64_t second_ns = 1000000000, pause_ns = 150000000;

/* --- the server by hand -----------------------------------------------------------------*/

enum { PARTS = 4, COUNT = 3 << 18 }; /* 3 MiB: two are ahead, and no third */

struct worker_job {
	char where[32];
	float *data;
	taut_status status;
	struct taut_error why;
};

static void *work(void *context)
{
	struct ranks_one *one = context;
	struct worker_job *job = one->shared;
	const struct taut_server_worker_options options = { .worker = 0,
		.n_workers = 1, .servers = job->where, .secret = hand_secret,
		.part_bytes = COUNT * sizeof(float) };
	const struct taut_server_key key = { "k", TAUT_FLOAT32, (uint64_t)PARTS * COUNT };
	struct taut_server_worker *worker = NULL;
	uint32_t number;

	job->status = taut_server_join(&options, &worker, &job->why);
	if (!job->status)
		job->status = taut_server_declare(
			worker, &key, 0, 0, &number, &job->why);
	if (!job->status)
		job->status = taut_server_start(worker, number, TAUT_SERVER_PUSH_PULL,
			job->data, &job->why);
	if (!job->status)
		job->status = taut_server_wait(worker, number, 20 * second_ns, &job->why);
	taut_server_leave(worker);
	return NULL;
}

/* What it declares, and then all that it asks for. */
static void hear_asks(struct hand_end *end)
{
	uint8_t words[TAUTI_ASK_BYTES], table[PARTS * TAUTI_SAID_BYTES];
	struct tauti_asked asked;
	struct hand_wait wait;

	for (uint32_t i = 0; i <= PARTS; i++) {
		hand_recv(end, tauti_tag_of(TAUTI_TAG_ASK, 0, i), words, sizeof words,
			&wait);
		assert_true(hand_ends(end, &wait, 5 * second_ns));
		assert_true(tauti_asked_read(words, &asked));
		assert_int_equal(asked.ask, i ? TAUTI_ASK_PUSH | TAUTI_ASK_PULL :
			TAUTI_ASK_DECLARE);
		assert_int_equal(asked.part, i ? i - 1 : PARTS);
		if (i)
			continue;
		hand_recv(end, tauti_tag_of(TAUTI_TAG_TABLE, 0, 0), table,
			sizeof table, &wait);
		assert_true(hand_ends(end, &wait, 5 * second_ns));
	}
}

static void say_go(struct hand_end *end, uint32_t part)
{
	const struct tauti_answer go = { part, 1, 0 };
	uint8_t words[TAUTI_ANSWER_BYTES];
	struct hand_wait wait;

	tauti_answer_write(&go, words);
	hand_send(end, tauti_tag_of(TAUTI_TAG_GO, part, 0), words, sizeof words, &wait);
	assert_true(hand_ends(end, &wait, second_ns));
}

/* What is asked for first goes at once, as far as so much may be ahead; the rest, each
 * when it is told to. */
static void test_worker_waits(void **state)
{
	static const struct tauti_greeting own = { .version = TAUTI_WIRE_VERSION,
		.n_servers = 1, .n_workers = 1, .mode = TAUT_SERVER_SUMS };
	struct worker_job job = { .data = calloc((size_t)PARTS * COUNT, sizeof(float)) };
	uint8_t *got = malloc((size_t)PARTS * COUNT * sizeof(float));
	struct tauti_link link = { .fd = -1 };
	struct ranks_one thread;
	struct tauti_door *door;
	struct hand_wait waits[PARTS];
	struct hand_end end;

	(void)state;
	for (uint32_t i = 0; i < PARTS * COUNT; i++)
		job.data[i] = (float)i;
	snprintf(job.where, sizeof job.where, "127.0.0.1:%u", ranks_free_port());
	assert_int_equal(tauti_door_open(job.where, hand_secret, 2, &door, NULL), TAUT_OK);
	ranks_start(&thread, 0, 1, work, &job);
	hand_let_in(&end, door, &link, &own);
	hear_asks(&end);
	for (uint32_t i = 0; i < PARTS; i++)
		hand_recv(&end, tauti_tag_of(TAUTI_TAG_PUSH, i, 1),
			got + (size_t)i * COUNT * sizeof(float), COUNT * sizeof(float),
			&waits[i]);
	assert_true(hand_ends(&end, &waits[0], 5 * second_ns));
	assert_true(hand_ends(&end, &waits[1], 5 * second_ns));
	assert_false(hand_ends(&end, &waits[2], pause_ns));
	say_go(&end, 3);
	assert_true(hand_ends(&end, &waits[3], 5 * second_ns));
	say_go(&end, 0); /* it has gone: nothing comes of it */
	assert_false(hand_ends(&end, &waits[2], pause_ns));
	say_go(&end, 2);
	assert_true(hand_ends(&end, &waits[2], 5 * second_ns));
	assert_memory_equal(got, job.data, (size_t)PARTS * COUNT * sizeof(float));
	hand_part_with(&end);
	ranks_join(&thread, 0, 1);
	assert_int_equal(job.status, TAUT_EIO);
	assert_non_null(strstr(job.why.message, "is gone: it left before this worker"));
	tauti_door_close(door);
	free(job.data);
	free(got);
}

/* --- what is awaited -----------------------------------------------------------------------*/

enum { MOST = 1000, MOST_COUNT = 1 << 16 }; /* parts of 256 KiB: 32 are ahead */

/* Of the GOs that the worker awaits over TCP, how much else is looked through at most
 * before one is found; they come in the order in which they were asked for. */
static uint32_t before_gos(const struct tauti_tcp *tcp)
{
	const struct tauti_tcp_op *op = tcp->peers[0].expected;
	uint32_t n = 0, most = 0;

	for (; op; op = op->behind)
		if (op->tag >> 44 == TAUTI_TAG_GO)
			most = n;
		else
			n++;
	return most;
}

/* Until it has slept twice since, so that what it had to do is done, and may be looked at. */
static void await_sleep(struct taut_server_worker *worker)
{
	struct taut_server_worker_counts counts;
	uint64_t from;

	taut_server_worker_counts(worker, &counts);
	for (from = counts.sleeps; counts.sleeps < from + 2;) {
		usleep(10000);
		taut_server_worker_counts(worker, &counts);
	}
}

struct joining {
	char where[32];
	struct taut_server_worker *worker;
	taut_status status;
};

static void *join_only(void *context)
{
	struct ranks_one *one = context;
	struct joining *joining = one->shared;
	const struct taut_server_worker_options options = { .n_workers = 1,
		.servers = joining->where, .secret = hand_secret,
		.part_bytes = MOST_COUNT * sizeof(float) };

	joining->status = taut_server_join(&options, &joining->worker, NULL);
	return NULL;
}

/* Without a credit all parts are under way at once. */
static void test_gos_are_found(void **state)
{
	/* It beats often, and sleeps as often. */
	static const struct tauti_greeting own = { .version = TAUTI_WIRE_VERSION,
		.n_servers = 1, .n_workers = 1, .mode = TAUT_SERVER_SUMS,
		.lost_after_ns = 200000000 };
	const struct taut_server_key key = { "k", TAUT_FLOAT32,
		(uint64_t)MOST * MOST_COUNT };
	float *data = calloc((size_t)MOST * MOST_COUNT, sizeof(float));
	struct joining joining = { .worker = NULL };
	struct tauti_link link = { .fd = -1 };
	uint8_t words[TAUTI_ASK_BYTES];
	struct hand_wait last;
	struct tauti_door *door;
	struct ranks_one thread;
	struct hand_end end;
	uint32_t number, n;

	(void)state;
	assert_non_null(data);
	setenv("TAUT_ENGINE", "tcp", 1);
	snprintf(joining.where, sizeof joining.where, "127.0.0.1:%u", ranks_free_port());
	assert_int_equal(tauti_door_open(joining.where, hand_secret, 2, &door, NULL),
		TAUT_OK);
	ranks_start(&thread, 0, 1, join_only, &joining);
	hand_let_in(&end, door, &link, &own);
	ranks_join(&thread, 0, 1);
	unsetenv("TAUT_ENGINE");
	assert_int_equal(joining.status, TAUT_OK);
	assert_int_equal(taut_server_declare(joining.worker, &key, 0, 0, &number, NULL),
		TAUT_OK);
	hand_recv(&end, tauti_tag_of(TAUTI_TAG_ASK, 0, MOST), words, sizeof words, &last);
	assert_int_equal(taut_server_start(joining.worker, number, TAUT_SERVER_PUSH_PULL,
		data, NULL), TAUT_OK);
	assert_true(hand_ends(&end, &last, 10 * second_ns));
	await_sleep(joining.worker);
	n = before_gos(joining.worker->servers[0].engine.context);
	assert_in_range(n, 1, 2 * TAUTI_AHEAD_BYTES / (MOST_COUNT * sizeof(float)));
	hand_part_with(&end);
	taut_server_leave(joining.worker);
	tauti_door_close(door);
	free(data);
}

/* --- the workers by hand -----------------------------------------------------------------*/

enum { LONG = 16 << 10 }; /* 64 KiB */

static void *serve(void *context)
{
	struct ranks_one *one = context;

	(void)!taut_server_run(one->shared, NULL);
	return NULL;
}

static void push(struct hand_end *end, const float *data)
{
	struct hand_wait wait;

	hand_send(end, tauti_tag_of(TAUTI_TAG_PUSH, 0, 1), data, LONG * sizeof *data,
		&wait);
	assert_true(hand_ends(end, &wait, second_ns));
}

static void begin_round(struct hand_end *end, struct hand_wait *go)
{
	static uint8_t words[2][TAUTI_ANSWER_BYTES];
	static int next;

	hand_recv(end, tauti_tag_of(TAUTI_TAG_GO, 0, 0), words[next++ % 2],
		TAUTI_ANSWER_BYTES, go);
	hand_declare(end, LONG);
	hand_ask(end, TAUTI_ASK_PUSH | TAUTI_ASK_PULL, 0, 1);
}

/* Out of turn nothing may land: who comes first, and is not the first, is told to push
 * when the first has. */
static void test_server_waits(void **state)
{
	static const struct tauti_greeting own = { .version = TAUTI_WIRE_VERSION,
		.n_servers = 1, .n_workers = 2 };
	static float data[2][LONG], got[LONG];
	char where[32];
	struct taut_server_options options = { .n_workers = 2, .n_servers = 1,
		.listen = where, .secret = hand_secret, .apart = true, .landing_bytes = 1 };
	struct hand_wait gos[2], come;
	struct ranks_one thread;
	struct taut_server *server;
	struct hand_end ends_of[2] = { { .n_asked = 0 } };

	(void)state;
	snprintf(where, sizeof where, "127.0.0.1:%u", ranks_free_port());
	assert_int_equal(taut_server_create(&options, &server, NULL), TAUT_OK);
	ranks_start(&thread, 0, 1, serve, server);
	for (uint32_t w = 0; w < 2; w++) {
		hand_come_in(&ends_of[w], where, w, &own);
		for (int i = 0; i < LONG; i++)
			data[w][i] = (float)(w + 1) * (float)i;
	}
	begin_round(&ends_of[1], &gos[1]);
	assert_false(hand_ends(&ends_of[1], &gos[1], pause_ns));
	begin_round(&ends_of[0], &gos[0]);
	assert_true(hand_ends(&ends_of[0], &gos[0], 5 * second_ns));
	assert_false(hand_ends(&ends_of[1], &gos[1], pause_ns));
	push(&ends_of[0], data[0]);
	assert_true(hand_ends(&ends_of[1], &gos[1], 5 * second_ns));
	hand_recv(&ends_of[1], tauti_tag_of(TAUTI_TAG_DATA, 0, 0), got, sizeof got, &come);
	push(&ends_of[1], data[1]);
	assert_true(hand_ends(&ends_of[1], &come, 5 * second_ns));
	for (int i = 0; i < LONG; i++)
		assert_true(got[i] == 3 * (float)i);
	taut_server_stop(server);
	for (int w = 0; w < 2; w++)
		hand_part_with(&ends_of[w]);
	ranks_join(&thread, 0, 1);
	taut_server_destroy(server);
}

/* --- whose memory is given back ------------------------------------------------------------*/

/* The name of the board that this worker is told of; "": none. */
static void hear_of_board(struct hand_end *end, char name[TAUTI_BOARD_NAME_BYTES])
{
	uint8_t words[TAUTI_BOARD_BYTES];
	struct hand_wait wait;

	hand_recv(end, tauti_tag_of(TAUTI_TAG_BOARD, 0, 0), words, sizeof words, &wait);
	hand_declare(end, LONG);
	assert_true(hand_ends(end, &wait, 5 * second_ns));
	assert_true(tauti_board_read(words, name));
}

/* The server has closed the connection, and does nothing more for this worker. */
static void await_close(struct hand_end *end)
{
	struct tauti_link *link = &end->meet->links[0];
	int64_t until_ns = ranks_now_ns() + 5 * second_ns;
	struct tauti_frame frame;
	taut_status status;

	link->allowed = tauti_kind_bit(TAUTI_BEAT) | tauti_kind_bit(TAUTI_LEAVE) |
		tauti_kind_bit(TAUTI_LOST);
	do
		status = tauti_link_await(link, until_ns, &frame);
	while (!status);
	assert_int_equal(status, TAUT_EIO);
	hand_part_with(end);
}

/* Three workers of the server's host, with memory for one board: the first cannot open its
 * own, the second is lost with its own. */
static void test_boards_given_back(void **state)
{
	const struct tauti_greeting own = { .version = TAUTI_WIRE_VERSION,
		.n_servers = 1, .n_workers = 3, .host = tauti_host_id() };
	const size_t bytes = LONG * sizeof(float);
	char where[32], name[TAUTI_BOARD_NAME_BYTES];
	/* A value and a sum, what is noted of each worker, and one board. */
	struct taut_server_options options = { .n_workers = 3, .n_servers = 1,
		.listen = where, .secret = hand_secret,
		.on_loss = TAUT_SERVER_CONTINUE, .memory_bytes = 3 * bytes + 4096 };
	struct hand_end ends_of[3] = { { .n_asked = 0 } };
	struct tauti_board board;
	struct ranks_one thread;
	struct taut_server *server;

	(void)state;
	if (tauti_board_create(bytes, &board, NULL))
		skip(); /* no memory that can be shared */
	tauti_board_close(&board);
	snprintf(where, sizeof where, "127.0.0.1:%u", ranks_free_port());
	assert_int_equal(taut_server_create(&options, &server, NULL), TAUT_OK);
	ranks_start(&thread, 0, 1, serve, server);
	for (uint32_t w = 0; w < 3; w++)
		hand_come_in(&ends_of[w], where, w, &own);
	for (uint32_t w = 0; w < 3; w++) {
		hear_of_board(&ends_of[w], name);
		assert_string_not_equal(name, "");
		if (w == 0)
			hand_ask(&ends_of[w], TAUTI_ASK_BOARD, 0, 0);
		if (w < 2) { /* nothing may not be asked for */
			hand_ask(&ends_of[w], w ? 0 : TAUTI_ASK_LEAVE, 0, 0);
			await_close(&ends_of[w]);
		}
	}
	taut_server_stop(server);
	hand_part_with(&ends_of[2]);
	ranks_join(&thread, 0, 1);
	taut_server_destroy(server);
}

/* --- both of ours --------------------------------------------------------------------------*/

enum { ROUNDS = 2, MANY = 3 << 20 }; /* 12 MiB: more than may be ahead */

struct sums {
	char where[32];
	taut_status status[2];
	struct taut_error why[2];
};

static taut_status join(const struct sums *sums, uint32_t rank,
	struct taut_server_worker **ret_worker, uint32_t *ret_key, struct taut_error *why)
{
	const struct taut_server_worker_options options = { .worker = rank,
		.n_workers = 2, .servers = sums->where, .secret = hand_secret,
		.part_bytes = 1 << 20 };
	const struct taut_server_key key = { "k", TAUT_FLOAT32, MANY };
	taut_status status = taut_server_join(&options, ret_worker, why);

	return status ? status :
		taut_server_declare(*ret_worker, &key, 0, 0, ret_key, why);
}

static void *sum(void *context)
{
	struct ranks_one *one = context;
	struct sums *sums = one->shared;
	struct taut_server_worker *worker = NULL;
	struct taut_error *why = &sums->why[one->rank];
	float *data = malloc(MANY * sizeof *data);
	uint32_t number = 0;
	taut_status status = join(sums, one->rank, &worker, &number, why);

	for (int round = 0; round < ROUNDS && !status; round++) {
		for (int i = 0; i < MANY; i++)
			data[i] = (float)(i % 1000 + round) * (float)(one->rank + 1);
		status = taut_server_start(
			worker, number, TAUT_SERVER_PUSH_PULL, data, why);
		if (!status)
			status = taut_server_wait(worker, number, 20 * second_ns, why);
		for (int i = 0; i < MANY && !status; i++)
			if (data[i] != 3 * (float)(i % 1000 + round))
				status = taut_error_set(why, TAUT_EFORMAT, -1,
					"round %d: number %d is wrong", round, i);
	}
	sums->status[one->rank] = status;
	taut_server_leave(worker);
	free(data);
	return NULL;
}

/* Worker 0 gives long first values, both push and then pull: p = p - (g0 + g1). */
static void *train(void *context)
{
	struct ranks_one *one = context;
	struct sums *sums = one->shared;
	static const enum taut_server_verb verbs[] = { TAUT_SERVER_FIRST,
		TAUT_SERVER_PUSH, TAUT_SERVER_PULL };
	struct taut_server_worker *worker = NULL;
	struct taut_error *why = &sums->why[one->rank];
	float *data = malloc(MANY * sizeof *data);
	uint32_t number = 0;
	taut_status status = join(sums, one->rank, &worker, &number, why);

	for (int k = 0; k < 3 && !status; k++) {
		for (int i = 0; i < MANY && k < 2; i++)
			data[i] = k ? (float)(one->rank + 1) : (float)(i % 1000);
		status = taut_server_start(worker, number, verbs[k], data, why);
		if (!status)
			status = taut_server_wait(worker, number, 20 * second_ns, why);
	}
	for (int i = 0; i < MANY && !status; i++)
		if (data[i] != (float)(i % 1000) - 3)
			status = taut_error_set(why, TAUT_EFORMAT, -1,
				"number %d is wrong", i);
	sums->status[one->rank] = status;
	taut_server_leave(worker);
	free(data);
	return NULL;
}

static void both_do(void *(*what)(void *context), const char *engine,
	struct taut_server_options options)
{
	struct sums sums = { .where = "" };
	struct ranks_one thread, workers[2];
	struct taut_server *server;

	options.n_workers = 2;
	options.n_servers = 1;
	options.listen = sums.where;
	options.secret = hand_secret;
	options.apart = true;
	setenv("TAUT_ENGINE", engine, 1);
	snprintf(sums.where, sizeof sums.where, "127.0.0.1:%u", ranks_free_port());
	assert_int_equal(taut_server_create(&options, &server, NULL), TAUT_OK);
	ranks_start(&thread, 0, 1, serve, server);
	ranks_start(workers, 0, 2, what, &sums);
	ranks_join(workers, 0, 2);
	ranks_join(&thread, 0, 1);
	taut_server_destroy(server);
	unsetenv("TAUT_ENGINE");
	for (int w = 0; w < 2; w++)
		if (sums.status[w])
			fail_msg("%s, worker %d: %s", engine, w, sums.why[w].message);
}

static void test_sums(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		both_do(sum, i / 2 ? "ucx" : "tcp", (struct taut_server_options){
			.landing_bytes = i % 2 });
}

static void test_trains(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		both_do(train, i / 2 ? "ucx" : "tcp", (struct taut_server_options){
			.landing_bytes = i % 2, .update = {
				.rule = TAUT_SERVER_SGD, .lr = 1 } });
}

/* --- over which engine ---------------------------------------------------------------------*/

/* The server is told one thing, its worker another; a line says what does not fit. */
static taut_status join_with(const char *servers, const char *workers, const char *devices,
	struct taut_error *err)
{
	char where[32];
	const struct taut_server_options options = { .n_workers = 1, .n_servers = 1,
		.listen = where, .secret = hand_secret, .on_loss = TAUT_SERVER_CONTINUE };
	const struct taut_server_worker_options mine = { .n_workers = 1,
		.servers = where, .secret = hand_secret, .meet_within_ns = 10 * second_ns };
	struct taut_server_worker *worker = NULL;
	struct taut_server *server;
	struct ranks_one thread;
	taut_status status;

	snprintf(where, sizeof where, "127.0.0.1:%u", ranks_free_port());
	setenv("TAUT_ENGINE", servers, 1);
	status = taut_server_create(&options, &server, err);
	if (status)
		return status;
	ranks_start(&thread, 0, 1, serve, server);
	setenv("TAUT_ENGINE", workers, 1);
	setenv("UCX_NET_DEVICES", devices, 1);
	status = taut_server_join(&mine, &worker, err);
	unsetenv("TAUT_ENGINE");
	unsetenv("UCX_NET_DEVICES");
	taut_server_leave(worker);
	taut_server_stop(server);
	ranks_join(&thread, 0, 1);
	taut_server_destroy(server);
	return status;
}

static void test_engine(void **state)
{
	struct taut_error err = { .message = "" };

	(void)state;
	assert_int_equal(join_with("auto", "auto", "all", &err), TAUT_OK);
	assert_int_equal(join_with("tcp", "shm", "lo", &err), TAUT_OK);
	assert_int_equal(join_with("auto", "ucx", "all", &err), TAUT_OK);
	assert_int_equal(join_with("ucx", "auto", "all", &err), TAUT_OK);
	assert_int_equal(join_with("tcp", "ucx", "all", &err), TAUT_EMATCH);
	assert_non_null(strstr(err.message, "asks for another engine than this one"));
	assert_int_equal(join_with("mail", "auto", "all", &err), TAUT_EINVAL);
	assert_string_equal(err.message,
		"engine 'mail': expected auto, shm, ucx or tcp");
	assert_int_equal(join_with("auto", "mail", "all", &err), TAUT_EINVAL);
}

/* A worker that comes to no other port of the server: it hears what is wrong before the
 * server gives it up for lost. */
static void test_no_way(void **state)
{
	enum { CARD_BYTES = 40 }; /* of tcp_connect.c: where each can be found */
	static const struct tauti_greeting own = { .version = TAUTI_WIRE_VERSION,
		.n_servers = 1, .n_workers = 1 };
	char where[32];
	const struct taut_server_options options = { .n_workers = 1, .n_servers = 1,
		.listen = where, .secret = hand_secret };
	const struct tauti_meet_options mine = { .rank = 1, .n_ranks = 2,
		.address = where, .secret = hand_secret, .within_ns = 20 * second_ns };
	uint8_t words[TAUTI_GREETING_BYTES], all[2 * TAUTI_GREETING_BYTES];
	enum tauti_meet_word word = TAUTI_MEET_NOTHING;
	struct taut_server *server;
	struct ranks_one thread;
	struct tauti_meet *meet;

	(void)state;
	snprintf(where, sizeof where, "127.0.0.1:%u", ranks_free_port());
	assert_int_equal(taut_server_create(&options, &server, NULL), TAUT_OK);
	ranks_start(&thread, 0, 1, serve, server);
	assert_int_equal(tauti_meet_create(&mine, &meet, NULL), TAUT_OK);
	tauti_meet_make_pair(meet);
	tauti_greeting_write(&own, words);
	assert_int_equal(tauti_meet_gather(meet, words, sizeof words, all, NULL), TAUT_OK);
	memset(words, 0, sizeof words);
	assert_int_equal(tauti_meet_gather(meet, words, CARD_BYTES, all, NULL), TAUT_OK);
	while (word == TAUTI_MEET_NOTHING) {
		usleep(10000);
		word = tauti_meet_hear(meet);
	}
	assert_int_equal(word, TAUTI_MEET_SUMMONS);
	tauti_meet_destroy(meet);
	taut_server_stop(server);
	ranks_join(&thread, 0, 1);
	taut_server_destroy(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worker_waits),
		cmocka_unit_test(test_gos_are_found),
		cmocka_unit_test(test_server_waits),
		cmocka_unit_test(test_boards_given_back),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_trains),
		cmocka_unit_test(test_engine),
		cmocka_unit_test(test_no_way),
	};

	ranks_ucx_in_sanitizer();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
