/* Servers and workers as threads of this process. */
#include "tests/support/ranks.h"

#include <errno.h>

#include "coll/meet.h"
#include "server/server.h"
#include "tests/support/alloc_fail.h"

enum { WORKERS = 3, SERVERS = 2, ROUNDS = 5, COUNT_A = 3001, COUNT_B = 7 };
static const int64_t second_ns = 1000000000;

struct job {
	struct taut_server_options options; /* of each server */
	uint16_t ports[SERVERS];
	uint32_t n_servers;
	char servers[64];
	struct taut_server *its[SERVERS];
	taut_status ends[SERVERS];
	struct taut_error why[SERVERS];
	struct ranks_one threads[SERVERS];
};

struct outcome {
	taut_status status;
	struct taut_error why;
	struct taut_server_worker_counts counts;
	float a[COUNT_A], b[COUNT_B];
	uint32_t contributors;
	int64_t took_ns;
};

static void *serve(void *context)
{
	struct ranks_one *one = context;
	struct job *job = one->shared;

	job->ends[one->rank] = taut_server_run(
		job->its[one->rank], &job->why[one->rank]);
	return NULL;
}

static void open_job(struct job *job, const struct taut_server_options *options,
	uint32_t n_servers)
{
	*job = (struct job){ .options = *options, .n_servers = n_servers };
	for (uint32_t i = 0; i < n_servers; i++) {
		char listen[32];

		job->ports[i] = ranks_free_port();
		snprintf(listen, sizeof listen, "127.0.0.1:%u", job->ports[i]);
		job->options.listen = listen;
		job->options.secret = "sesame";
		job->options.index = i;
		job->options.n_servers = n_servers;
		assert_int_equal(taut_server_create(&job->options, &job->its[i],
			NULL), TAUT_OK);
		snprintf(job->servers + strlen(job->servers),
			sizeof job->servers - strlen(job->servers), "%s%s",
			i ? "," : "", listen);
	}
	ranks_start(job->threads, 0, n_servers, serve, job);
}

static void close_job(struct job *job)
{
	ranks_join(job->threads, 0, job->n_servers);
	for (uint32_t i = 0; i < job->n_servers; i++)
		taut_server_destroy(job->its[i]);
}

static taut_status join_within(const struct job *job, uint32_t worker,
	int64_t lost_after_ns, struct taut_server_worker **ret_worker,
	struct taut_error *err)
{
	const struct taut_server_worker_options options = { .worker = worker,
		.n_workers = job->options.n_workers, .servers = job->servers,
		.secret = "sesame", .part_bytes = 1024, .credit_bytes = 4096,
		.meet_within_ns = 10 * second_ns,
		.lost_after_ns = lost_after_ns };

	return taut_server_join(&options, ret_worker, err);
}

static taut_status join(const struct job *job, uint32_t worker,
	struct taut_server_worker **ret_worker, struct taut_error *err)
{
	return join_within(job, worker, job->options.lost_after_ns, ret_worker, err);
}

static const struct taut_server_key key_a = { "a", TAUT_FLOAT32, COUNT_A };
static const struct taut_server_key key_b = { "b", TAUT_FLOAT32, COUNT_B };

static taut_status declare(struct taut_server_worker *worker, uint32_t w,
	uint32_t *ret_a, uint32_t *ret_b, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	if (w % 2) /* the order is nobody's business */
		status = taut_server_declare(worker, &key_b, 1, 0, ret_b, err);
	if (!status)
		status = taut_server_declare(worker, &key_a, 0, 0.5, ret_a, err);
	if (!status && !(w % 2))
		status = taut_server_declare(worker, &key_b, 1, 0, ret_b, err);
	return status;
}

static taut_status both(struct taut_server_worker *worker,
	const uint32_t keys[2], enum taut_server_verb verb,
	struct outcome *outcome)
{
	taut_status status = taut_server_start(
		worker, keys[0], verb, outcome->a, &outcome->why);

	if (!status)
		status = taut_server_start(worker, keys[1], verb, outcome->b,
			&outcome->why);
	if (!status)
		status = taut_server_wait(worker, TAUT_NONE, -1, &outcome->why);
	return status;
}

static void fill(struct outcome *outcome, uint32_t w, uint32_t round)
{
	for (int i = 0; i < COUNT_A; i++)
		outcome->a[i] = (float)(2 * (w + 1) * (round + 1) + i % 9);
	for (int i = 0; i < COUNT_B; i++)
		outcome->b[i] = (float)(w + i);
}

/* The sum of all workers' a is the sum of (w+1)(round+1) + (i%9)/2. */
static bool is_right(const struct outcome *outcome, uint32_t n, uint32_t round)
{
	bool right = true;

	for (int i = 0; i < COUNT_A; i++)
		right &= outcome->a[i] == (float)(n * (n + 1) / 2 *
			(round + 1)) + (float)n * (float)(i % 9) / 2;
	for (int i = 0; i < COUNT_B; i++)
		right &= outcome->b[i] == (float)(n * (n - 1) / 2 + n * (uint32_t)i);
	return right;
}

static void *sum_rounds(void *context)
{
	struct ranks_one *one = context;
	struct job *job = ((void **)one->shared)[0];
	struct outcome *outcome = (struct outcome *)
		((void **)one->shared)[1] + one->rank;
	struct taut_server_worker *worker = NULL;
	uint32_t keys[2];

	outcome->status = join(job, one->rank, &worker, &outcome->why);
	if (!outcome->status)
		outcome->status = declare(worker, one->rank, &keys[0], &keys[1],
			&outcome->why);
	for (uint32_t round = 0; round < ROUNDS && !outcome->status; round++) {
		fill(outcome, one->rank, round);
		outcome->status = both(worker, keys, TAUT_SERVER_PUSH_PULL,
			outcome);
		if (!outcome->status && !is_right(outcome, one->n_ranks, round))
			outcome->status = TAUT_EFORMAT;
	}
	if (worker)
		taut_server_worker_counts(worker, &outcome->counts);
	taut_server_leave(worker);
	return NULL;
}

static struct outcome outcomes[WORKERS];

static void check_sharing(const struct taut_server *server,
	const struct taut_server_options *options)
{
	struct taut_error err = { .message = "" };

	if (options->apart)
		assert_int_equal(taut_server_unshared(server, &err), TAUT_OK);
	if (!options->memory_bytes)
		return;
	assert_int_equal(taut_server_unshared(server, &err), TAUT_EIO);
	if (!strstr(err.message, "of this host shares no memory with the server: "
		"memory to be shared: ") || !strstr(err.message, "limit of 32000"))
		fail_msg("%s", err.message);
}

static void sums_with(struct taut_server_options options, uint32_t n_servers)
{
	struct ranks_one threads[WORKERS];
	struct job job;
	void *shared[] = { &job, outcomes };
	uint64_t bytes = (COUNT_A + COUNT_B) * sizeof(float) * ROUNDS, in = 0;

	memset(outcomes, 0, sizeof outcomes);
	options.n_workers = WORKERS;
	open_job(&job, &options, n_servers);
	ranks_start(threads, 0, WORKERS, sum_rounds, shared);
	ranks_join(threads, 0, WORKERS);
	ranks_join(job.threads, 0, n_servers);
	for (int w = 0; w < WORKERS; w++) {
		assert_string_equal(outcomes[w].why.message, "");
		assert_int_equal(outcomes[w].status, TAUT_OK);
		/* docs/server.md: a worker sends and receives each byte once */
		assert_int_equal(outcomes[w].counts.pushed_bytes, bytes);
		assert_int_equal(outcomes[w].counts.pulled_bytes, bytes);
	}
	for (uint32_t i = 0; i < n_servers; i++) {
		struct taut_server_counts counts;

		assert_int_equal(job.ends[i], TAUT_OK);
		taut_server_counts(job.its[i], &counts);
		assert_int_equal(counts.pushed_bytes, counts.pulled_bytes);
		assert_int_equal(counts.pushes, WORKERS * counts.rounds);
		/* balanced within one part */
		assert_in_range(counts.pushed_bytes, WORKERS * (bytes /
			n_servers - 1024 * ROUNDS), WORKERS * (bytes /
			n_servers + 1024 * ROUNDS));
		in += counts.pushed_bytes;
		check_sharing(job.its[i], &options);
		taut_server_destroy(job.its[i]);
	}
	assert_int_equal(in, WORKERS * bytes);
}

static void test_sums(void **state)
{
	(void)state;
	sums_with((struct taut_server_options){ .unordered = false }, 1);
	sums_with((struct taut_server_options){ .unordered = true }, SERVERS);
	sums_with((struct taut_server_options){ .landing_bytes = 1 }, SERVERS);
	/* Enough for the server, and not for a worker's board. */
	sums_with((struct taut_server_options){ .memory_bytes = 32000 }, 1);
	/* With everything over the network. */
	sums_with((struct taut_server_options){ .apart = true }, 1);
	sums_with((struct taut_server_options){ .apart = true,
		.unordered = true }, SERVERS);
	sums_with((struct taut_server_options){ .apart = true,
		.landing_bytes = 1 }, SERVERS);
}

/* --- orders that differ ---------------------------------------------------------------------- */

/* Each puts first the key that the other one puts last, with a credit for one part: if
 * a pull held it, both would wait for ever. */
static void *cross(void *context)
{
	struct ranks_one *one = context;
	struct job *job = ((void **)one->shared)[0];
	struct outcome *outcome = (struct outcome *)
		((void **)one->shared)[1] + one->rank;
	const struct taut_server_worker_options options = { .worker = one->rank,
		.n_workers = 2, .servers = job->servers, .secret = "sesame",
		.part_bytes = 1 << 20, .credit_bytes = 1 };
	struct taut_server_worker *worker = NULL;
	uint32_t keys[2];

	outcome->status = taut_server_join(&options, &worker, &outcome->why);
	if (!outcome->status)
		outcome->status = taut_server_declare(worker, &key_a,
			one->rank, 0, &keys[0], &outcome->why);
	if (!outcome->status)
		outcome->status = taut_server_declare(worker, &key_b,
			1 - (int)one->rank, 0, &keys[1], &outcome->why);
	for (uint32_t i = 0; i < 2 && !outcome->status; i++)
		outcome->status = taut_server_start(worker,
			keys[(i + one->rank) % 2], TAUT_SERVER_PUSH_PULL,
			(i + one->rank) % 2 ? outcome->b : outcome->a,
			&outcome->why);
	if (!outcome->status)
		outcome->status = taut_server_wait(
			worker, TAUT_NONE, 8 * second_ns, &outcome->why);
	taut_server_leave(worker);
	return NULL;
}

static void test_cross(void **state)
{
	/* Out of turn nothing lands. */
	const struct taut_server_options options = { .n_workers = 2,
		.apart = true, .landing_bytes = 1 };
	struct ranks_one threads[2];
	struct job job;
	void *shared[] = { &job, outcomes };

	(void)state;
	memset(outcomes, 0, sizeof outcomes);
	open_job(&job, &options, 1);
	ranks_start(threads, 0, 2, cross, shared);
	ranks_join(threads, 0, 2);
	close_job(&job);
	for (int w = 0; w < 2; w++)
		assert_int_equal(outcomes[w].status, TAUT_OK);
	assert_int_equal(job.ends[0], TAUT_OK);
}

/* --- an optimizer on the server ------------------------------------------------------------- */

static void *train(void *context)
{
	struct ranks_one *one = context;
	struct job *job = ((void **)one->shared)[0];
	struct outcome *outcome = (struct outcome *)
		((void **)one->shared)[1] + one->rank;
	struct taut_server_worker *worker = NULL;
	uint32_t keys[2];

	for (int i = 0; i < COUNT_A; i++)
		outcome->a[i] = one->rank ? -1 : (float)i;
	outcome->status = join(job, one->rank, &worker, &outcome->why);
	if (!outcome->status)
		outcome->status = declare(worker, one->rank, &keys[0], &keys[1],
			&outcome->why);
	if (!outcome->status)
		outcome->status = both(worker, keys, TAUT_SERVER_FIRST, outcome);
	for (int i = 0; i < COUNT_A && !outcome->status; i++)
		if (outcome->a[i] != (float)i)
			outcome->status = TAUT_EFORMAT;
	for (int round = 0; round < 2 && !outcome->status; round++) {
		for (int i = 0; i < COUNT_A; i++)
			outcome->a[i] = 1;
		outcome->status = both(worker, keys, TAUT_SERVER_PUSH, outcome);
		if (!outcome->status)
			outcome->status = both(worker, keys, TAUT_SERVER_PULL,
				outcome);
	}
	taut_server_leave(worker);
	return NULL;
}

static void test_optimizer(void **state)
{
	struct taut_server_options options = { .n_workers = 2 };
	struct ranks_one threads[2];
	struct job job;
	void *shared[] = { &job, outcomes };

	(void)state;
	memset(outcomes, 0, sizeof outcomes);
	assert_int_equal(taut_server_update_read("sgd:lr=0.25", &options.update,
		NULL), TAUT_OK);
	open_job(&job, &options, 1);
	ranks_start(threads, 0, 2, train, shared);
	ranks_join(threads, 0, 2);
	close_job(&job);
	assert_int_equal(job.ends[0], TAUT_OK);
	/* Each round: minus 0.25 * (0.5 + 0.5). */
	for (int w = 0; w < 2; w++) {
		assert_int_equal(outcomes[w].status, TAUT_OK);
		for (int i = 0; i < COUNT_A; i++)
			assert_true(outcomes[w].a[i] == (float)i - 0.5f);
	}
}

/* --- who is gone ------------------------------------------------------------------------------ */

/* Worker 1 fails after its first round; the others go on, or are told. */
static void *lose_one(void *context)
{
	struct ranks_one *one = context;
	struct job *job = ((void **)one->shared)[0];
	struct outcome *outcome = (struct outcome *)
		((void **)one->shared)[1] + one->rank;
	struct taut_server_worker *worker = NULL;
	uint32_t keys[2];

	outcome->status = join(job, one->rank, &worker, &outcome->why);
	if (!outcome->status)
		outcome->status = declare(worker, one->rank, &keys[0], &keys[1],
			&outcome->why);
	for (uint32_t round = 0; round < 3 && !outcome->status; round++) {
		fill(outcome, one->rank, round);
		if (one->rank == 1 && round == 1) {
			taut_server_fail(worker, TAUT_EIO, "it ran out of data");
			break;
		}
		outcome->status = both(worker, keys, TAUT_SERVER_PUSH_PULL,
			outcome);
		if (!outcome->status)
			outcome->contributors = taut_server_contributors(
				worker, keys[0]);
	}
	taut_server_leave(worker);
	return NULL;
}

static void losses_with(enum taut_server_on_loss on_loss, struct job *job)
{
	const struct taut_server_options options = { .n_workers = WORKERS,
		.on_loss = on_loss };
	struct ranks_one threads[WORKERS];
	void *shared[] = { job, outcomes };

	memset(outcomes, 0, sizeof outcomes);
	open_job(job, &options, SERVERS);
	ranks_start(threads, 0, WORKERS, lose_one, shared);
	ranks_join(threads, 0, WORKERS);
	close_job(job);
}

static void test_loss(void **state)
{
	struct job job;

	(void)state;
	losses_with(TAUT_SERVER_END, &job);
	for (int w = 0; w < WORKERS; w += 2) {
		assert_int_equal(outcomes[w].status, TAUT_EIO);
		if (!strstr(outcomes[w].why.message, "it ran out of data"))
			fail_msg("%s", outcomes[w].why.message);
		assert_non_null(strstr(outcomes[w].why.message, "is gone"));
	}
	assert_int_equal(job.ends[0], TAUT_EIO);
	losses_with(TAUT_SERVER_CONTINUE, &job);
	for (int w = 0; w < WORKERS; w += 2) {
		assert_int_equal(outcomes[w].status, TAUT_OK);
		assert_int_equal(outcomes[w].contributors, WORKERS - 1);
	}
	assert_int_equal(job.ends[0], TAUT_OK);
	assert_int_equal(job.ends[1], TAUT_OK);
}

/* A server is stopped: the worker that waits has a line that names it. */
static void test_server_goes(void **state)
{
	const struct taut_server_options options = { .n_workers = 2 };
	struct taut_server_worker *worker;
	struct outcome *outcome = &outcomes[0];
	struct taut_error err;
	struct job job;
	uint32_t keys[2];

	(void)state;
	open_job(&job, &options, 1);
	assert_int_equal(join(&job, 0, &worker, &err), TAUT_OK);
	assert_int_equal(declare(worker, 0, &keys[0], &keys[1], &err), TAUT_OK);
	assert_int_equal(taut_server_start(worker, keys[0], TAUT_SERVER_PUSH_PULL,
		outcome->a, &err), TAUT_OK);
	assert_int_equal(taut_server_start(worker, keys[0], TAUT_SERVER_PUSH_PULL,
		outcome->a, &err), TAUT_EINVAL);
	assert_int_equal(taut_server_wait(worker, keys[0], 1000000, &err),
		TAUT_EAGAIN);
	/* The other worker never comes: it is under way. */
	assert_int_equal(taut_server_prioritize(worker, keys[1], -1, &err),
		TAUT_EINVAL);
	assert_int_equal(taut_server_tune(worker, 1, &err), TAUT_EINVAL);
	assert_non_null(strstr(err.message, "1 keys are under way"));
	taut_server_stop(job.its[0]);
	assert_int_equal(taut_server_wait(worker, keys[0], 10 * second_ns, &err),
		TAUT_EIO);
	assert_non_null(strstr(err.message, "server was stopped"));
	taut_server_leave(worker);
	close_job(&job);
	assert_int_equal(job.ends[0], TAUT_EAGAIN);
}

/* --- who is more patient ------------------------------------------------------------------------ */

/* One side takes a second of silence for a loss, the other one would say something each two:
 * in the first job the worker does, in the second the server. */
static void test_patience(void **state)
{
	const int64_t patience_ns[2] = { 8 * second_ns, second_ns };
	struct taut_server_worker *workers[2];
	struct taut_error err = { .message = "" };
	struct job jobs[2];
	uint32_t keys[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		const struct taut_server_options options = { .n_workers = 2,
			.lost_after_ns = patience_ns[i] };

		open_job(&jobs[i], &options, 1);
		assert_int_equal(join_within(&jobs[i], 0, patience_ns[1 - i],
			&workers[i], &err), TAUT_OK);
		assert_int_equal(declare(workers[i], 0, &keys[0], &keys[1], &err),
			TAUT_OK);
		assert_int_equal(taut_server_start(workers[i], keys[0],
			TAUT_SERVER_PUSH_PULL, outcomes[i].a, &err), TAUT_OK);
	}
	for (int i = 0; i < 2; i++)
		if (taut_server_wait(workers[i], keys[0], i ? 0 : 3 * second_ns,
			&err) != TAUT_EAGAIN)
			fail_msg("job %d: %s", i, err.message);
	for (int i = 0; i < 2; i++) {
		taut_server_stop(jobs[i].its[0]);
		close_job(&jobs[i]);
		taut_server_leave(workers[i]);
	}
}

/* --- who stops while it comes in ------------------------------------------------------------------- */

static void share(struct tauti_meet *meet, const void *mine, size_t bytes, void *all)
{
	struct taut_error err;

	if (tauti_meet_gather(meet, mine, bytes, all, &err))
		fail_msg("%s", err.message);
}

/* What both say before they connect, which this one does not. */
static void come_near(struct tauti_meet *meet)
{
	static const struct tauti_greeting own = { .version = TAUTI_WIRE_VERSION,
		.n_servers = 1, .n_workers = 1 };
	uint8_t words[TAUTI_GREETING_BYTES], all[2 * TAUTI_GREETING_BYTES];

	tauti_greeting_write(&own, words);
	share(meet, words, sizeof words, all);
}

/* The end of the server does not wait until its time to come in is over. */
static void stop_with_one(bool near)
{
	const struct taut_server_options options = { .n_workers = 1 };
	struct tauti_meet_options mine = { .rank = 1, .n_ranks = 2,
		.secret = "sesame", .within_ns = 10 * second_ns };
	struct tauti_meet *meet;
	int64_t begun_ns;
	struct job job;

	open_job(&job, &options, 1);
	mine.address = job.servers;
	assert_int_equal(tauti_meet_create(&mine, &meet, NULL), TAUT_OK);
	tauti_meet_make_pair(meet);
	if (near)
		come_near(meet);
	begun_ns = ranks_now_ns();
	taut_server_stop(job.its[0]);
	close_job(&job);
	assert_true(ranks_now_ns() - begun_ns < 3 * second_ns);
	assert_int_equal(job.ends[0], TAUT_EAGAIN);
	tauti_meet_destroy(meet);
}

static void test_stops_coming(void **state)
{
	(void)state;
	stop_with_one(false);
	stop_with_one(true);
}

/* --- what is refused, and ends nothing ------------------------------------------------------------ */

/* A child of this process: it has no part in the worker, and leaves it as it is. */
static void check_child(struct taut_server_worker *worker, uint32_t key)
{
	struct taut_error err = { .message = "" };
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		bool right = taut_server_start(worker, key, TAUT_SERVER_PULL,
			NULL, &err) == TAUT_EIO && strstr(err.message, "forked") &&
			taut_server_wait(worker, key, -1, NULL) == TAUT_EIO &&
			taut_server_next(worker, -1, &key, NULL) == TAUT_EIO;

		taut_server_fail(worker, TAUT_EIO, "never said");
		taut_server_leave(worker);
		_exit(!right);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_pushed_twice(void **state)
{
	const struct taut_server_options options = { .n_workers = 1 };
	struct taut_server_worker *worker;
	float *data = outcomes[0].b;
	struct taut_error err;
	struct job job;
	uint32_t key;

	(void)state;
	open_job(&job, &options, 1);
	assert_int_equal(join(&job, 0, &worker, &err), TAUT_OK);
	assert_int_equal(taut_server_declare(worker, &key_b, 0, 0, &key, &err),
		TAUT_OK);
	for (int i = 0; i < COUNT_B; i++)
		data[i] = (float)i;
	for (int round = 0; round < 2; round++) {
		assert_int_equal(taut_server_start(worker, key,
			TAUT_SERVER_PUSH, data, &err), TAUT_OK);
		assert_int_equal(taut_server_wait(worker, key, INT64_MAX, &err),
			TAUT_OK);
		assert_int_equal(taut_server_start(worker, key,
			TAUT_SERVER_PUSH, data, &err), TAUT_EINVAL);
		assert_non_null(strstr(err.message, "pull first"));
		assert_int_equal(taut_server_start(worker, key,
			TAUT_SERVER_PUSH_PULL, data, &err), TAUT_EINVAL);
		check_child(worker, key);
		memset(data, 0, COUNT_B * sizeof *data);
		assert_int_equal(taut_server_start(worker, key,
			TAUT_SERVER_PULL, data, &err), TAUT_OK);
		assert_int_equal(taut_server_wait(worker, key, -1, &err), TAUT_OK);
		for (int i = 0; i < COUNT_B; i++)
			assert_true(data[i] == (float)i);
		assert_int_equal(taut_server_prioritize(
			worker, key, -round, &err), TAUT_OK);
		assert_int_equal(taut_server_prioritize(
			worker, key + 1, 0, &err), TAUT_EINVAL);
		assert_int_equal(taut_server_tune(worker, 1, &err), TAUT_OK);
	}
	taut_server_leave(worker);
	close_job(&job);
	assert_int_equal(job.ends[0], TAUT_OK);
}

/* --- who may not come in ------------------------------------------------------------------------- */

static int call(const struct job *job, const void *bytes, size_t n)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons(job->ports[0]),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
	if (n)
		assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
	return fd;
}

static void test_refused(void **state)
{
	const struct taut_server_options options = { .n_workers = 1,
		.on_loss = TAUT_SERVER_CONTINUE };
	struct taut_server_worker_options mine = { .worker = 0, .n_workers = 1,
		.secret = "semolina", .meet_within_ns = 5 * second_ns };
	struct taut_server_worker *worker = NULL, *second = NULL;
	struct taut_server_counts counts;
	struct taut_error err;
	struct job job;
	int fds[3];

	(void)state;
	open_job(&job, &options, 1);
	fds[0] = call(&job, "GET / HTTP/1.1\r\n\r\n", 18);
	fds[1] = call(&job, "", 0);
	fds[2] = call(&job, "Tm\001\001\050\000\000\000half", 12);
	mine.servers = job.servers;
	assert_int_equal(taut_server_join(&mine, &worker, &err), TAUT_EIO);
	assert_non_null(strstr(err.message, "secret"));
	mine.secret = "sesame";
	mine.n_workers = 2;
	assert_int_equal(taut_server_join(&mine, &worker, &err), TAUT_EMATCH);
	mine.n_workers = 1;
	mine.mode = TAUT_SERVER_TRAINS;
	assert_int_equal(taut_server_join(&mine, &worker, &err), TAUT_EMATCH);
	assert_non_null(strstr(err.message, "sums rounds, and this one is for "
		"what makes an optimizer's step each round"));
	mine.mode = TAUT_SERVER_ANY;
	assert_int_equal(taut_server_join(&mine, &worker, &err), TAUT_OK);
	assert_int_equal(taut_server_join(&mine, &second, &err), TAUT_EMATCH);
	assert_non_null(strstr(err.message, "worker 0 is there already"));
	assert_int_equal(taut_server_mode_of(worker), TAUT_SERVER_SUMS);
	taut_server_leave(worker);
	ranks_join(job.threads, 0, 1);
	assert_int_equal(job.ends[0], TAUT_OK);
	taut_server_counts(job.its[0], &counts);
	assert_true(counts.refused >= 3);
	assert_int_equal(counts.workers, 1);
	taut_server_destroy(job.its[0]);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

static void test_memory(void **state)
{
	struct taut_server_options options = { .n_workers = 2,
		.secret = "sesame", .listen = "127.0.0.1:1" };
	struct taut_server *server = NULL;
	char listen[32];
	taut_status status;

	(void)state;
	snprintf(listen, sizeof listen, "127.0.0.1:%u", ranks_free_port());
	options.listen = listen;
	for (long n = 0;; n++) {
		alloc_fail_after(n);
		status = taut_server_create(&options, &server, NULL);
		if (status == TAUT_OK)
			break;
		assert_int_equal(status, TAUT_ENOMEM);
		assert_null(server);
	}
	alloc_fail_never();
	taut_server_destroy(server);
	options.n_workers = 0;
	assert_int_equal(taut_server_create(&options, &server, NULL),
		TAUT_EINVAL);
}

static void test_missing(void **state)
{
	const struct taut_server_options options = { .n_workers = 1,
		.meet_within_ns = 1000000 };
	struct job job;

	(void)state;
	open_job(&job, &options, 1);
	close_job(&job);
	assert_int_equal(job.ends[0], TAUT_EIO);
	assert_string_equal(job.why[0].message,
		"worker 0 did not come within 0.001 s");
}

/* It has gone since it listened, and is not waited for. */
static void test_gone_before(void **state)
{
	struct taut_server_worker_options mine = { .n_workers = 1,
		.secret = "sesame", .listening = true };
	struct taut_server_options options = { .n_workers = 1,
		.secret = "sesame" };
	struct taut_server_worker *worker = NULL;
	int64_t begun_ns = ranks_now_ns();
	struct taut_server *server;
	struct taut_error err;
	char where[32], line[128];

	(void)state;
	snprintf(where, sizeof where, "127.0.0.1:%u", ranks_free_port());
	options.listen = mine.servers = where;
	assert_int_equal(taut_server_create(&options, &server, NULL), TAUT_OK);
	taut_server_destroy(server);
	assert_int_equal(taut_server_join(&mine, &worker, &err), TAUT_EIO);
	assert_true(ranks_now_ns() - begun_ns < 2 * second_ns);
	snprintf(line, sizeof line, "server 0: rank 0 at %s listens no more "
		"(Connection refused)", where);
	assert_string_equal(err.message, line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_gone_before),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_cross),
		cmocka_unit_test(test_optimizer),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_server_goes),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_stops_coming),
		cmocka_unit_test(test_pushed_twice),
		cmocka_unit_test(test_refused),
	};

	ranks_ucx_in_sanitizer();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
