/* Ranks that meet, gather and leave; and those that are refused. */
#include "tests/support/ranks.h"

#include <errno.h>
#include <netinet/tcp.h>

#include "coll/meet.h"
#include "tests/support/alloc_fail.h"

static const int64_t second_ns = 1000000000;

struct job {
	char where[64];
	const char *secret;
	int64_t within_ns;
	/* of each rank */
	struct tauti_meet_options options[RANKS_MOST];
	struct tauti_meet *meets[RANKS_MOST];
	taut_status status[RANKS_MOST];
	struct taut_error error[RANKS_MOST];
	pthread_barrier_t all_met;
};

static void job_init(struct job *job, uint32_t n_ranks, const char *host)
{
	*job = (struct job){ .secret = "swordfish" };
	snprintf(job->where, sizeof job->where, "%s:%u", host,
		ranks_free_port());
	for (uint32_t i = 0; i < n_ranks; i++)
		job->options[i] = (struct tauti_meet_options){ i, n_ranks,
			job->where, job->secret, 20 * second_ns,
			20 * second_ns, false };
	pthread_barrier_init(&job->all_met, NULL, n_ranks);
}

static void *create(void *context)
{
	struct ranks_one *one = context;
	struct job *job = one->shared;
	uint32_t rank = one->rank;

	job->status[rank] = tauti_meet_create(&job->options[rank],
		&job->meets[rank], &job->error[rank]);
	return NULL;
}

static void job_fini(struct job *job, uint32_t n_ranks)
{
	for (uint32_t i = 0; i < n_ranks; i++)
		tauti_meet_destroy(job->meets[i]);
	pthread_barrier_destroy(&job->all_met);
}

static void meet_all(struct job *job, uint32_t n_ranks)
{
	struct ranks_one ones[RANKS_MOST];

	ranks_start(ones, 0, n_ranks, create, job);
	ranks_join(ones, 0, n_ranks);
	for (uint32_t i = 0; i < n_ranks; i++)
		if (job->status[i])
			fail_msg("rank %u: %s", i, job->error[i].message);
}

/* --- gathering ------------------------------------------------------------------------*/

enum { MOST_BYTES = 100000, ROUNDS = 40 };

static size_t bytes_of(uint32_t round)
{
	static const size_t sizes[] = { 8, 0, 1, 4096, MOST_BYTES };

	return sizes[round % 5];
}

static uint8_t byte_of(uint32_t rank, uint32_t round, size_t i)
{
	return (uint8_t)(rank * 31 + round * 7 + i * 13 + (i >> 8));
}

/* The status of what went wrong first. */
static taut_status gather_round(struct tauti_meet *meet, uint32_t rank,
	uint32_t n_ranks, uint32_t round, uint8_t *mine, uint8_t *all,
	struct taut_error *err)
{
	size_t bytes = bytes_of(round);
	taut_status status;

	for (size_t i = 0; i < bytes; i++)
		mine[i] = byte_of(rank, round, i);
	status = tauti_meet_gather(meet, mine, bytes, all, err);
	for (uint32_t r = 0; r < n_ranks && status == TAUT_OK; r++)
		for (size_t i = 0; i < bytes; i++)
			if (all[r * bytes + i] != byte_of(r, round, i))
				return taut_error_set(err, TAUT_EFORMAT, -1,
					"round %u: byte %zu of %u", round, i, r);
	return status;
}

static void *gather_many(void *context)
{
	struct ranks_one *one = context;
	struct job *job = one->shared;
	uint32_t r = one->rank;
	uint8_t *mine = malloc(MOST_BYTES);
	uint8_t *all = malloc((size_t)MOST_BYTES * one->n_ranks);

	create(context);
	for (uint32_t i = 0; i < ROUNDS && job->status[r] == TAUT_OK; i++)
		job->status[r] = gather_round(job->meets[r], r, one->n_ranks, i,
			mine, all, &job->error[r]);
	free(mine);
	free(all);
	return NULL;
}

static void gather_among(uint32_t n_ranks, const char *host)
{
	struct ranks_one ones[RANKS_MOST];
	struct job job;

	job_init(&job, n_ranks, host);
	ranks_start(ones, 0, n_ranks, gather_many, &job);
	ranks_join(ones, 0, n_ranks);
	for (uint32_t i = 0; i < n_ranks; i++)
		if (job.status[i])
			fail_msg("rank %u: %s", i, job.error[i].message);
	job_fini(&job, n_ranks);
}

static bool has_ipv6(void)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6,
		.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;

	if (fd >= 0)
		close(fd);
	return has;
}

static void test_gather(void **state)
{
	(void)state;
	gather_among(1, "127.0.0.1");
	gather_among(2, "127.0.0.1");
	gather_among(5, "localhost");
	gather_among(9, "127.0.0.1");
	if (has_ipv6())
		gather_among(3, "[::1]");
}

static void *gather_once(void *context)
{
	struct ranks_one *one = context;
	struct job *job = one->shared;
	uint64_t mine = one->rank, all[RANKS_MOST];
	uint32_t r = one->rank;

	job->status[r] = tauti_meet_gather(job->meets[r], &mine, sizeof mine, all,
		&job->error[r]);
	return NULL;
}

/* One leaves while the others gather: all name it. */
static void test_leaves_early(void **state)
{
	struct ranks_one ones[RANKS_MOST];
	struct job job;

	(void)state;
	job_init(&job, 4, "127.0.0.1");
	meet_all(&job, 4);
	tauti_meet_destroy(job.meets[3]);
	job.meets[3] = NULL;
	for (int turn = 0; turn < 2; turn++) { /* and what failed stays so */
		ranks_start(ones, 0, 3, gather_once, &job);
		ranks_join(ones, 0, 3);
		for (uint32_t i = 0; i < 3; i++) {
			assert_int_equal(job.status[i], TAUT_EIO);
			assert_string_equal(job.error[i].message,
				"rank 3 (127.0.0.1) is lost: it left before "
				"all was set up");
		}
	}
	job_fini(&job, 4);
}

/* One does something else: it is named when the time is over. */
static void test_gathers_late(void **state)
{
	struct ranks_one ones[RANKS_MOST];
	struct job job;

	(void)state;
	job_init(&job, 3, "127.0.0.1");
	for (uint32_t i = 0; i < 3; i++)
		job.options[i].within_ns = second_ns;
	meet_all(&job, 3);
	ranks_start(ones, 0, 2, gather_once, &job);
	ranks_join(ones, 0, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(job.status[i], TAUT_EIO);
		assert_string_equal(job.error[i].message, "rank 2 (127.0.0.1) "
			"is lost: it did not gather in time");
	}
	job_fini(&job, 3);
}

/* One gives up, with a line of its own. */
static void gives_up(uint32_t rank)
{
	struct taut_error why = { .code = TAUT_EMATCH, .message = "no engine" };
	struct ranks_one ones[RANKS_MOST];
	struct job job;

	job_init(&job, 3, "127.0.0.1");
	meet_all(&job, 3);
	tauti_meet_fail(job.meets[rank], &why);
	ranks_start(ones, 0, 3, gather_once, &job);
	ranks_join(ones, 0, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(job.status[i], TAUT_EMATCH);
		assert_string_equal(job.error[i].message, "no engine");
	}
	job_fini(&job, 3);
}

static void test_gives_up(void **state)
{
	(void)state;
	gives_up(0);
	gives_up(2);
}

/* One summons the others, which do something else meanwhile; then all gather, twice. */
struct summons {
	struct job job;
	uint32_t by;
};

static void *be_summoned(void *context)
{
	struct ranks_one *one = context;
	struct summons *summons = one->shared;
	struct job *job = &summons->job;
	uint32_t r = one->rank;
	struct ranks_one as_all = { .shared = job, .rank = r };
	int64_t until_ns = ranks_now_ns() + 10 * second_ns;
	enum tauti_meet_word word = TAUTI_MEET_NOTHING;

	if (r == summons->by)
		tauti_meet_summon(job->meets[r]);
	while (r != summons->by && word == TAUTI_MEET_NOTHING &&
		ranks_now_ns() < until_ns) {
		usleep(1000);
		word = tauti_meet_hear(job->meets[r]);
	}
	gather_once(&as_all);
	if (job->status[r] == TAUT_OK)
		gather_once(&as_all);
	if (r != summons->by && word != TAUTI_MEET_SUMMONS)
		job->status[r] = TAUT_EFORMAT;
	return NULL;
}

static void test_summons(void **state)
{
	struct ranks_one ones[RANKS_MOST];
	struct summons summons;

	(void)state;
	for (summons.by = 0; summons.by < 3; summons.by++) {
		job_init(&summons.job, 3, "127.0.0.1");
		meet_all(&summons.job, 3);
		ranks_start(ones, 0, 3, be_summoned, &summons);
		ranks_join(ones, 0, 3);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(summons.job.status[i], TAUT_OK);
		job_fini(&summons.job, 3);
	}
}

/* As a door's meeting: its stages have no more time than what is left of all. */
static void test_little_time(void **state)
{
	uint64_t mine = 0, all[2];
	int64_t begun_ns;
	struct job job;

	(void)state;
	job_init(&job, 2, "127.0.0.1");
	meet_all(&job, 2);
	assert_true(tauti_meet_within_ns(job.meets[0]) == 20 * second_ns);
	begun_ns = ranks_now_ns();
	job.meets[0]->until_ns = begun_ns + 10000000;
	assert_true(tauti_meet_within_ns(job.meets[0]) <= 10000000);
	assert_int_equal(tauti_meet_gather(job.meets[0], &mine, sizeof mine, all,
		&job.error[0]), TAUT_EIO);
	assert_true(ranks_now_ns() - begun_ns < 10 * second_ns);
	assert_int_equal(tauti_meet_within_ns(job.meets[0]), 0);
	assert_int_equal(tauti_meet_hear(job.meets[0]), TAUTI_MEET_ENDS);
	job_fini(&job, 2);
}

static void test_sizes_differ(void **state)
{
	struct ranks_one ones[2];
	struct job job;
	uint64_t mine = 0, all[8];

	(void)state;
	job_init(&job, 2, "127.0.0.1");
	meet_all(&job, 2);
	ranks_start(ones, 1, 2, gather_once, &job);
	assert_int_equal(tauti_meet_gather(job.meets[0], &mine, 4, all,
		&job.error[0]), TAUT_EMATCH);
	ranks_join(ones, 1, 2);
	assert_int_equal(job.status[1], TAUT_EIO);
	job_fini(&job, 2);
}

/* --- who may come, and when -------------------------------------------------------------*/

static void test_late(void **state)
{
	struct ranks_one ones[RANKS_MOST];
	struct job job;

	(void)state;
	job_init(&job, 4, "127.0.0.1");
	ranks_start(ones, 1, 3, create, &job);
	usleep(120000); /* rank 0 is not there yet, and they try again */
	ranks_start(ones, 0, 1, create, &job);
	usleep(50000);
	ranks_start(ones, 3, 4, create, &job);
	ranks_join(ones, 0, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(job.status[i], TAUT_OK);
	job_fini(&job, 4);
}

static void test_missing(void **state)
{
	struct ranks_one ones[RANKS_MOST];
	struct job job;
	char line[256];

	(void)state;
	job_init(&job, 5, "127.0.0.1");
	for (uint32_t i = 0; i < 5; i++)
		job.options[i].within_ns = second_ns / 2;
	ranks_start(ones, 0, 3, create, &job);
	ranks_join(ones, 0, 3);
	snprintf(line, sizeof line, "rank 0 at %s: of 5 ranks did not come "
		"within 0.5 s: 3, 4", job.where);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(job.status[i], TAUT_EIO);
		assert_string_equal(job.error[i].message, line);
	}
	job_fini(&job, 3);
}

static void test_no_rank_0(void **state)
{
	struct ranks_one ones[RANKS_MOST];
	struct job job;
	char line[256];

	(void)state;
	job_init(&job, 2, "127.0.0.1");
	job.options[1].within_ns = second_ns / 5;
	ranks_start(ones, 1, 2, create, &job);
	ranks_join(ones, 1, 2);
	snprintf(line, sizeof line, "rank 0 at %s: no answer within 0.2 s "
		"(Connection refused)", job.where);
	assert_int_equal(job.status[1], TAUT_EIO);
	assert_string_equal(job.error[1].message, line);
	job.options[1].address = "no.such.host.invalid:1234";
	ranks_start(ones, 1, 2, create, &job);
	ranks_join(ones, 1, 2);
	assert_int_equal(job.status[1], TAUT_EIO);
	assert_non_null(strstr(job.error[1].message, "no.such.host.invalid"));
	job_fini(&job, 2);
}

/* It listened before: it is not waited for. */
static void test_rank_0_gone(void **state)
{
	int64_t begun_ns = ranks_now_ns();
	struct tauti_meet *meet = NULL;
	struct taut_error err;
	struct job job;
	char line[256];

	(void)state;
	job_init(&job, 2, "127.0.0.1");
	job.options[1].within_ns = 20 * second_ns;
	job.options[1].listens = true;
	assert_int_equal(tauti_meet_create(&job.options[1], &meet, &err),
		TAUT_EIO);
	snprintf(line, sizeof line, "rank 0 at %s listens no more (Connection "
		"refused)", job.where);
	assert_string_equal(err.message, line);
	assert_true(ranks_now_ns() - begun_ns < 2 * second_ns);
	job_fini(&job, 0);
}

/* The odd one is refused at once; rank 0 goes on, and tells in the end. */
static void refused(struct tauti_meet_options odd, taut_status its_status,
	const char *its_line, taut_status status_0, const char *line_0)
{
	struct ranks_one ones[RANKS_MOST];
	struct tauti_meet *meet = NULL;
	struct taut_error err;
	struct job job;
	int64_t begun_ns = ranks_now_ns();

	job_init(&job, 3, "127.0.0.1");
	odd.address = job.where;
	odd.within_ns = 10 * second_ns;
	for (uint32_t i = 0; i < 2; i++)
		job.options[i].within_ns = 3 * second_ns / 2;
	ranks_start(ones, 0, 2, create, &job);
	usleep(200000);
	assert_int_equal(tauti_meet_create(&odd, &meet, &err), its_status);
	assert_true(ranks_now_ns() - begun_ns < 10 * second_ns);
	if (!strstr(err.message, its_line))
		fail_msg("%s", err.message);
	ranks_join(ones, 0, 2);
	assert_int_equal(job.status[0], status_0);
	if (!strstr(job.error[0].message, line_0))
		fail_msg("%s", job.error[0].message);
	assert_string_equal(job.error[1].message, job.error[0].message);
	job_fini(&job, 3);
}

static void test_refused(void **state)
{
	struct tauti_meet_options odd = { .rank = 2, .n_ranks = 3,
		.secret = "swordfisg" };

	(void)state;
	refused(odd, TAUT_EIO, "this rank's secret is not its own", TAUT_EIO,
		"2; refused: 127.0.0.1: does not know the secret");
	odd.secret = "swordfish";
	odd.n_ranks = 4;
	refused(odd, TAUT_EMATCH, "counts 3 ranks; this one is rank 2 of 4",
		TAUT_EMATCH, "2; refused: 127.0.0.1: says it is rank 2 of 4");
	odd.n_ranks = 3;
	odd.rank = 1;
	refused(odd, TAUT_EMATCH, "another process is rank 1 already",
		TAUT_EMATCH, "2; refused: 127.0.0.1: a second rank 1");
}

/* Who answers for rank 0 without the secret is refused by rank 1. */
static void test_false_rank_0(void **state)
{
	struct ranks_one ones[RANKS_MOST];
	int fds[TAUTI_LISTENERS], fd;
	struct taut_error err;
	struct tauti_frame frame;
	struct tauti_link link;
	uint8_t bytes[64] = { 1 };
	struct job job;

	(void)state;
	job_init(&job, 2, "127.0.0.1");
	assert_int_equal(tauti_address_listen(job.where,
		ranks_now_ns() + second_ns, fds, &err), TAUT_OK);
	ranks_start(ones, 1, 2, create, &job);
	while ((fd = accept4(fds[0], NULL, NULL, SOCK_NONBLOCK)) < 0)
		usleep(1000);
	tauti_link_open(&link, fd);
	link.allowed = ~UINT32_C(0);
	assert_int_equal(tauti_link_await(&link, ranks_now_ns() + 9 * second_ns,
		&frame), TAUT_OK);
	assert_int_equal(frame.kind, TAUTI_HELLO);
	assert_true(tauti_link_put(&link, TAUTI_CHALLENGE, bytes, 32));
	assert_int_equal(tauti_link_await(&link, ranks_now_ns() + 9 * second_ns,
		&frame), TAUT_OK);
	assert_int_equal(frame.kind, TAUTI_ANSWER);
	/* Its own proof is no good for rank 0's. */
	memcpy(bytes + 8, frame.body, 32);
	tauti_put32(bytes, 0);
	tauti_put32(bytes + 4, 2);
	assert_true(tauti_link_put(&link, TAUTI_WELCOME, bytes, 40));
	assert_int_equal(tauti_link_write(&link), TAUT_OK);
	ranks_join(ones, 1, 2);
	assert_int_equal(job.status[1], TAUT_EIO);
	assert_non_null(strstr(job.error[1].message,
		"who answers there does not know the secret"));
	tauti_link_close(&link);
	for (int i = 0; i < TAUTI_LISTENERS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	job_fini(&job, 2);
}

/* A rank that ends before all are there may come again. */
static void test_comes_again(void **state)
{
	struct ranks_one ones[RANKS_MOST];
	struct job job;
	pid_t child;
	int pipes[2];
	char met;

	(void)state;
	job_init(&job, 3, "127.0.0.1");
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		struct tauti_link link;
		struct tauti_meet_options *own = &job.options[1];
		int fd = -1;

		while (tauti_address_connect(job.where, INT64_MAX, &fd, NULL))
			usleep(10000);
		tauti_link_open(&link, fd);
		if (tauti_hello(&link, own, INT64_MAX, NULL) != TAUT_OK ||
			write(pipes[1], "", 1) != 1)
			_exit(1);
		pause();
	}
	ranks_start(ones, 0, 1, create, &job);
	assert_int_equal(read(pipes[0], &met, 1), 1);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ranks_start(ones, 1, 3, create, &job);
	ranks_join(ones, 0, 3);
	for (uint32_t i = 0; i < 3; i++)
		if (job.status[i])
			fail_msg("rank %u: %s", i, job.error[i].message);
	close(pipes[0]);
	close(pipes[1]);
	job_fini(&job, 3);
}

/* --- strangers ----------------------------------------------------------------------------*/

static int stranger(const char *where)
{
	int fd = -1;

	while (tauti_address_connect(where, INT64_MAX, &fd, NULL))
		usleep(2000);
	return fd;
}

/* As long as a true HELLO, and much longer; and one that is cut. */
static void say_something(int fd, uint32_t seed)
{
	uint8_t bytes[5000];
	size_t n = seed % 5 == 0 ? 0 : seed % 5 == 1 ? 5000 : seed % 49;

	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)(seed * 2654435761u >> i % 24);
	if (seed % 5 == 2)
		memcpy(bytes, "Tm\1\1\50\0\0\0", n < 8 ? n : 8);
	if (seed % 5 == 3)
		memcpy(bytes, "GET / HTTP/1.1\r\n\r\n", n < 18 ? n : 18);
	(void)!send(fd, bytes, n, MSG_NOSIGNAL);
}

/* A crowd that is silent, talks nonsense, or breaks off holds up nobody. */
static void test_strangers(void **state)
{
	enum { CROWD = 400 };
	struct ranks_one ones[RANKS_MOST];
	struct linger reset = { 1, 0 };
	int fds[CROWD];
	int64_t begun_ns;
	struct job job;

	(void)state;
	job_init(&job, 3, "127.0.0.1");
	ranks_start(ones, 0, 1, create, &job);
	begun_ns = ranks_now_ns();
	for (uint32_t i = 0; i < CROWD; i++) {
		fds[i] = stranger(job.where);
		say_something(fds[i], i);
		if (i % 7 == 0) {
			if (i % 2)
				setsockopt(fds[i], SOL_SOCKET, SO_LINGER,
					&reset, sizeof reset);
			close(fds[i]);
			fds[i] = -1;
		}
	}
	ranks_start(ones, 1, 3, create, &job);
	ranks_join(ones, 0, 3);
	/* A guest has 5 s: nobody waited for one. */
	assert_true(ranks_now_ns() - begun_ns < 5 * second_ns);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(job.status[i], TAUT_OK);
	for (uint32_t i = 0; i < CROWD; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	job_fini(&job, 3);
}

struct taking { /* what a door takes, on a thread */
	struct tauti_door *door;
	int stop[2];
	pthread_t thread;
	struct tauti_link link;
	uint32_t rank;
	taut_status status;
};

static void *take(void *context)
{
	struct taking *taking = context;

	taking->status = tauti_door_take(
		taking->door, taking->stop[0], &taking->link, &taking->rank);
	return NULL;
}

/* Comes before a crowd, and speaks a moment after it. */
static taut_status speak_in_crowd(struct taking *taking,
	const struct tauti_meet_options *options, int64_t *ret_took_ns)
{
	enum { CROWD = 200 };
	int fds[CROWD];
	struct tauti_link link;
	int64_t begun_ns;
	taut_status status;

	tauti_link_open(&link, stranger(options->address));
	for (int i = 0; i < CROWD; i++)
		fds[i] = stranger(options->address);
	begun_ns = ranks_now_ns();
	assert_int_equal(pipe(taking->stop), 0);
	assert_int_equal(pthread_create(&taking->thread, NULL, take, taking), 0);
	usleep(20000);
	status = tauti_hello(&link, options, ranks_now_ns() + 9 * second_ns, NULL);
	*ret_took_ns = ranks_now_ns() - begun_ns;
	if (status)
		assert_int_equal(write(taking->stop[1], "", 1), 1);
	pthread_join(taking->thread, NULL);
	for (int i = 0; i < CROWD; i++)
		close(fds[i]);
	close(taking->stop[0]);
	close(taking->stop[1]);
	tauti_link_close(&link);
	return status;
}

/* Nobody who comes after it puts one out of a door before it could speak. */
static void test_crowd_at_door(void **state)
{
	struct taking taking = { .status = TAUT_EIO };
	taut_status status;
	int64_t took_ns;
	struct job job;

	(void)state;
	job_init(&job, 2, "127.0.0.1");
	assert_int_equal(tauti_door_open(
		job.where, job.secret, 2, &taking.door, NULL), TAUT_OK);
	do /* this machine may have stood still for longer than a moment */
		status = speak_in_crowd(&taking, &job.options[1], &took_ns);
	while (status && took_ns > second_ns / 10);
	assert_int_equal(status, TAUT_OK);
	assert_int_equal(taking.status, TAUT_OK);
	assert_int_equal(taking.rank, 1);
	tauti_link_close(&taking.link);
	tauti_door_close(taking.door);
	job_fini(&job, 2);
}

/* --- what is refused at the door, and memory -------------------------------------------------*/

static void says(struct tauti_meet_options options, const char *line)
{
	struct tauti_meet *meet = NULL;
	struct taut_error err;

	assert_int_equal(tauti_meet_create(&options, &meet, &err), TAUT_EINVAL);
	assert_null(meet);
	if (!strstr(err.message, line))
		fail_msg("%s", err.message);
}

static void test_arguments(void **state)
{
	static const char *const wrong[] = { NULL, "", "host", ":1", "host:",
		"host:0", "host:65536", "host:1x", "[]:1", "host:-1" };
	struct tauti_meet_options options = { 0, 2, "127.0.0.1:1", "s", 0, 0, false };

	(void)state;
	options.secret = NULL;
	says(options, "2 ranks need a secret");
	options.secret = "";
	says(options, "2 ranks need a secret");
	options.secret = "s";
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		options.address = wrong[i];
		says(options, "expected HOST:PORT");
	}
	options.address = "127.0.0.1:1";
	options.rank = 2;
	says(options, "rank 2 of 2");
	options.n_ranks = 0;
	says(options, "rank 2 of 0");
	options.n_ranks = 100000;
	says(options, "rank 2 of 100000");
	options.n_ranks = 4;
	options.within_ns = -1;
	says(options, "expected more than 0");
}

static void test_address(void **state)
{
	struct tauti_address address;

	(void)state;
	assert_int_equal(tauti_address_read("[fe80::1]:80", &address, NULL), 0);
	assert_string_equal(address.host, "fe80::1");
	assert_string_equal(address.port, "80");
	assert_int_equal(tauti_address_read("::1:65535", &address, NULL), 0);
	assert_string_equal(address.host, "::1");
	assert_int_equal(tauti_address_read("node-0.x:1", &address, NULL), 0);
	assert_string_equal(address.host, "node-0.x");
}

static void test_port_in_use(void **state)
{
	int fds[TAUTI_LISTENERS];
	struct tauti_meet *meet = NULL;
	struct taut_error err;
	struct job job;
	char line[128];

	(void)state;
	job_init(&job, 2, "127.0.0.1");
	assert_int_equal(tauti_address_listen(job.where,
		ranks_now_ns() + second_ns, fds, &err), TAUT_OK);
	assert_int_equal(tauti_meet_create(&job.options[0], &meet, &err),
		TAUT_EIO);
	snprintf(line, sizeof line,
		"rank 0 cannot listen at %s: Address already in use", job.where);
	assert_string_equal(err.message, line);
	for (int i = 0; i < TAUTI_LISTENERS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	job_fini(&job, 2);
}

/* Rank 0 is another process: the count of requests is this one's alone. */
static pid_t fork_rank(struct job *job, uint32_t rank)
{
	pid_t child = fork();

	if (child == 0) {
		struct tauti_meet *meet = NULL;
		uint64_t mine = rank, all[RANKS_MOST];
		taut_status status = tauti_meet_create(&job->options[rank],
			&meet, NULL);

		if (status == TAUT_OK)
			status = tauti_meet_gather(meet, &mine, sizeof mine, all,
				NULL);
		tauti_meet_destroy(meet);
		_exit(status == TAUT_OK ? 0 : 1);
	}
	return child;
}

static void memory_of(uint32_t rank)
{
	struct job job;
	struct tauti_meet *meet = NULL;
	uint64_t mine = rank, all[2];
	pid_t child;
	taut_status status;
	int its = 0;

	job_init(&job, 2, "127.0.0.1");
	child = fork_rank(&job, 1 - rank);
	for (long n = 0;; n++) {
		alloc_fail_after(n);
		status = tauti_meet_create(&job.options[rank], &meet, NULL);
		if (status == TAUT_OK)
			break;
		assert_int_equal(status, TAUT_ENOMEM);
		assert_null(meet);
	}
	assert_int_equal(tauti_meet_gather(meet, &mine, sizeof mine, all, NULL),
		TAUT_OK); /* needs none */
	assert_int_equal(all[1], 1);
	alloc_fail_never();
	tauti_meet_destroy(meet);
	assert_int_equal(waitpid(child, &its, 0), child);
	assert_int_equal(its, 0);
	job_fini(&job, 0);
}

static void test_memory(void **state)
{
	(void)state;
	memory_of(0);
	memory_of(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_address),
		cmocka_unit_test(test_memory), /* forks while there is one thread */
		cmocka_unit_test(test_comes_again),
		cmocka_unit_test(test_gather),
		cmocka_unit_test(test_leaves_early),
		cmocka_unit_test(test_gathers_late),
		cmocka_unit_test(test_gives_up),
		cmocka_unit_test(test_summons),
		cmocka_unit_test(test_little_time),
		cmocka_unit_test(test_sizes_differ),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_no_rank_0),
		cmocka_unit_test(test_rank_0_gone),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_false_rank_0),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_crowd_at_door),
		cmocka_unit_test(test_port_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
