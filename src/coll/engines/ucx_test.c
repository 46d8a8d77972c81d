/* The engine over UCX: ranks as threads, and as processes that end. */
#include "tests/support/ranks.h"

#include <dlfcn.h>
#include <signal.h>

#include "coll/coll.h"
#include "coll/engines/ucx.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/waits.h"

static const int64_t second_ns = 1000000000;

struct job {
	char where[64];
	void (*play)(struct tauti_engine *engine, uint32_t rank, uint32_t n_ranks,
		struct taut_error *err);
	struct taut_error error[RANKS_MOST]; /* code: what went wrong */
	int pids[RANKS_MOST];
};

static void *rank_main(void *context)
{
	struct ranks_one *one = context;
	struct job *job = one->shared;
	struct taut_error *err = &job->error[one->rank];
	struct tauti_meet_options options = { one->rank, one->n_ranks,
		job->where, "s", 20 * second_ns, 20 * second_ns, false };
	struct tauti_meet *meet = NULL;
	struct tauti_engine engine = { NULL, NULL };
	struct tauti_ucx *ucx;

	err->code = TAUT_OK;
	if (tauti_meet_create(&options, &meet, err) == TAUT_OK &&
		tauti_ucx_open(one->n_ranks, &ucx, err) == TAUT_OK &&
		tauti_ucx_meet(ucx, meet, one->rank, &engine, err) == TAUT_OK) {
		job->play(&engine, one->rank, one->n_ranks, err);
		engine.table->destroy(engine.context);
	}
	tauti_meet_destroy(meet);
	return NULL;
}

static void job_run(uint32_t n_ranks, void (*play)(struct tauti_engine *engine,
	uint32_t rank, uint32_t n_ranks, struct taut_error *err))
{
	struct job job = { .play = play };
	struct ranks_one ones[RANKS_MOST];

	snprintf(job.where, sizeof job.where, "127.0.0.1:%u",
		ranks_free_port());
	ranks_start(ones, 0, n_ranks, rank_main, &job);
	ranks_join(ones, 0, n_ranks);
	for (uint32_t i = 0; i < n_ranks; i++)
		if (job.error[i].code)
			fail_msg("rank %u: %s", i, job.error[i].message);
}

/* --- messages -------------------------------------------------------------------------*/

static const size_t sizes[] = { 0, 1, 100, 8192, 70000, 3000000 };
enum { N_SIZES = 6, MOST = 3000000 };

static uint8_t byte_of(uint32_t from, uint32_t message, size_t i)
{
	return (uint8_t)(from * 37 + message * 11 + i + (i >> 8) * 3);
}

static void fill(uint8_t *data, uint32_t from, uint32_t message, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = byte_of(from, message, i);
}

static void check(const uint8_t *data, uint32_t from, uint32_t message,
	size_t bytes, struct taut_error *err)
{
	for (size_t i = 0; i < bytes; i++)
		if (data[i] != byte_of(from, message, i)) {
			taut_error_set(err, TAUT_EFORMAT, -1,
				"message %u of %u: byte %zu", message, from, i);
			return;
		}
}

/* Each sends each size to all at once, and receives in the other order. */
static void all_to_all(struct tauti_engine *engine, uint32_t rank,
	uint32_t n_ranks, struct taut_error *err)
{
	const struct taut_coll_engine *table = engine->table;
	struct wait waits[N_SIZES + N_SIZES * RANKS_MOST];
	uint32_t peers[RANKS_MOST], n_peers = 0, n = 0;
	uint8_t *out[N_SIZES], *in[N_SIZES][RANKS_MOST];
	taut_status status = TAUT_OK;

	for (uint32_t i = 1; i < n_ranks; i++)
		peers[n_peers++] = (rank + i) % n_ranks;
	for (uint32_t m = 0; m < N_SIZES; m++) {
		out[m] = malloc(sizes[m] + 1);
		fill(out[m], rank, m, sizes[m]);
		wait_init(&waits[n]);
		status |= table->send(engine->context, peers, n_peers, m, out[m],
			sizes[m], &waits[n++].request, err);
	}
	for (uint32_t m = N_SIZES; m-- > 0;)
		for (uint32_t i = 0; i < n_peers; i++) {
			in[m][i] = calloc(1, sizes[m] + 1);
			wait_init(&waits[n]);
			status |= table->recv(engine->context, peers[i], m,
				in[m][i], sizes[m], &waits[n++].request, err);
		}
	if (status == TAUT_OK)
		status = until_over(engine, waits, n, err);
	for (uint32_t m = 0; m < N_SIZES; m++) {
		for (uint32_t i = 0; i < n_peers; i++) {
			if (status == TAUT_OK)
				check(in[m][i], peers[i], m, sizes[m], err);
			free(in[m][i]);
		}
		free(out[m]);
	}
}

static void test_messages(void **state)
{
	(void)state;
	job_run(1, all_to_all);
	job_run(2, all_to_all);
	job_run(4, all_to_all);
}

/* What was sent last arrives, though its sender is gone at once. */
static void last_word(struct tauti_engine *engine, uint32_t rank,
	uint32_t n_ranks, struct taut_error *err)
{
	const struct taut_coll_engine *table = engine->table;
	uint8_t *data = calloc(1, MOST);
	uint32_t others[RANKS_MOST];
	struct wait waits[N_SIZES];
	taut_status status = TAUT_OK;

	for (uint32_t i = 1; i < n_ranks; i++)
		others[i - 1] = i;
	for (uint32_t m = 0; m < N_SIZES && status == TAUT_OK; m++) {
		wait_init(&waits[m]);
		if (rank)
			usleep(3000 * rank);
		else
			fill(data, 0, m, sizes[m]);
		status = rank == 0 ? table->send(engine->context, others,
				n_ranks - 1, m, data, sizes[m],
				&waits[m].request, err) :
			table->recv(engine->context, 0, m, data, sizes[m],
				&waits[m].request, err);
		if (status == TAUT_OK)
			status = until_over(engine, &waits[m], 1, err);
		if (status == TAUT_OK && rank)
			check(data, 0, m, sizes[m], err);
	}
	free(data);
}

static void test_last_word(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		job_run(3, last_word);
}

/* Longer and shorter than it should be. */
static void wrong_length(struct tauti_engine *engine, uint32_t rank,
	uint32_t n_ranks, struct taut_error *err)
{
	const struct taut_coll_engine *table = engine->table;
	static const size_t sent[] = { 100, 100, 200000, 1, 200000 };
	static const size_t asked[] = { 99, 101, 199999, 0, 200001 };
	static uint8_t zeros[200001];
	uint8_t *data = malloc(200001);
	uint32_t other = 1 - rank;

	(void)n_ranks;
	for (uint32_t m = 0; m < 5; m++) {
		struct wait wait;
		taut_status status;

		wait_init(&wait);
		status = rank ? table->recv(engine->context, 0, m, data,
				asked[m], &wait.request, err) :
			table->send(engine->context, &other, 1, m, zeros,
				sent[m], &wait.request, err);
		if (status == TAUT_OK)
			(void)until_over(engine, &wait, 1, err);
		if (rank && wait.status == TAUT_EMATCH)
			err->code = TAUT_OK;
		else if (rank)
			taut_error_set(err, TAUT_EFORMAT, -1,
				"message %u: status %d", m, wait.status);
		else
			err->code = TAUT_OK; /* the send may end either way */
	}
	free(data);
}

static void test_wrong_length(void **state)
{
	(void)state;
	job_run(2, wrong_length);
}

/* arrived() by some of the bits, before the receive. */
static void knock(struct tauti_engine *engine, uint32_t rank, uint32_t n_ranks,
	struct taut_error *err)
{
	const struct taut_coll_engine *table = engine->table;
	const uint64_t tag = UINT64_C(0xabc000000123);
	const uint64_t mask = UINT64_C(0xfff000000000);
	uint32_t word = 7, other = 0;
	struct wait wait;

	(void)n_ranks;
	wait_init(&wait);
	if (rank == 1) {
		if (table->send(engine->context, &other, 1, tag, &word, 4,
			&wait.request, err) == TAUT_OK)
			(void)until_over(engine, &wait, 1, err);
		return;
	}
	if (table->arrived(engine->context, UINT64_C(0xabd000000000), mask))
		taut_error_set(err, TAUT_EFORMAT, -1, "another tag arrived");
	while (!err->code && !table->arrived(engine->context,
		UINT64_C(0xabc000000999), mask))
		if (table->progress(engine->context, err) == TAUT_OK)
			(void)table->wait(engine->context, 10000000, err);
	word = 0;
	if (!err->code && table->recv(engine->context, 1, tag, &word, 4,
		&wait.request, err) == TAUT_OK)
		(void)until_over(engine, &wait, 1, err);
	if (!err->code && (word != 7 || table->arrived(engine->context,
		UINT64_C(0xabc000000999), mask)))
		taut_error_set(err, TAUT_EFORMAT, -1, "it arrived twice");
}

static void test_arrived(void **state)
{
	(void)state;
	job_run(2, knock);
}

static void *wake_soon(void *context)
{
	struct tauti_engine *engine = context;

	usleep(20000);
	engine->table->wake(engine->context);
	return NULL;
}

/* wake() ends a wait, also one that begins after it; a timeout does too. */
static void sleeper(struct tauti_engine *engine, uint32_t rank,
	uint32_t n_ranks, struct taut_error *err)
{
	const struct taut_coll_engine *table = engine->table;
	pthread_t thread;
	int64_t begun_ns;

	(void)rank;
	(void)n_ranks;
	/* What is still to move first wakes too. */
	for (int i = 0; i < 20; i++)
		(void)table->wait(engine->context, 1000000, err);
	pthread_create(&thread, NULL, wake_soon, engine);
	begun_ns = ranks_now_ns();
	while (!err->code && ranks_now_ns() - begun_ns < 15000000)
		(void)table->wait(engine->context, -1, err);
	pthread_join(thread, NULL);
	table->wake(engine->context);
	(void)table->wait(engine->context, -1, err);
}

static void test_wake(void **state)
{
	(void)state;
	job_run(1, sleeper);
	job_run(2, sleeper);
}

/* --- a rank that ends ---------------------------------------------------------------------*/

/* Rank 1 is killed by itself; rank 0 waits for a message of it. */
static void bereaved(struct tauti_engine *engine, uint32_t rank,
	uint32_t n_ranks, struct taut_error *err)
{
	const struct taut_coll_engine *table = engine->table;
	uint32_t other = 1 - rank, word = rank, in = 9;
	struct wait waits[2];
	static struct wait last; /* which the engine ends, when it is destroyed */

	(void)n_ranks;
	wait_init(&waits[0]);
	wait_init(&waits[1]);
	wait_init(&last);
	if (table->send(engine->context, &other, 1, 1, &word, 4,
		&waits[0].request, err) || table->recv(engine->context, other, 1,
		&in, 4, &waits[1].request, err) ||
		until_over(engine, waits, 2, err))
		return;
	if (rank == 1)
		raise(SIGKILL);
	if (table->recv(engine->context, other, 2, &in, 4, &last.request, err) ==
		TAUT_OK)
		(void)until_over(engine, &last, 1, err);
}

static void test_killed(void **state)
{
	struct ranks_one ones[2] = { { .rank = 0, .n_ranks = 2 },
		{ .rank = 1, .n_ranks = 2 } };
	struct job job = { .play = bereaved };
	int64_t begun_ns;
	pid_t child;

	(void)state;
	snprintf(job.where, sizeof job.where, "127.0.0.1:%u", ranks_free_port());
	ones[0].shared = ones[1].shared = &job;
	child = fork();
	if (child == 0) {
		rank_main(&ones[1]);
		_exit(0);
	}
	begun_ns = ranks_now_ns();
	rank_main(&ones[0]);
	waitpid(child, NULL, 0);
	assert_int_equal(job.error[0].code, TAUT_EIO);
	assert_string_equal(job.error[0].message,
		"rank 1 is gone: UCX's connection to it broke");
	assert_true(ranks_now_ns() - begun_ns < 15 * second_ns);
}

/* --- memory ---------------------------------------------------------------------------*/

static void test_memory(void **state)
{
	struct tauti_meet_options options = { 0, 1, NULL, NULL, 0, 0, false };
	struct tauti_engine engine = { NULL, NULL };
	struct tauti_meet *meet = NULL;
	struct wait wait;
	char byte = 0;

	(void)state;
	wait_init(&wait);
	assert_int_equal(tauti_meet_create(&options, &meet, NULL), TAUT_OK);
	for (long n = 0;; n++) {
		taut_status status;

		alloc_fail_after(n);
		status = tauti_ucx_create(meet, 0, 1, &engine, NULL);
		alloc_fail_never();
		if (status == TAUT_OK)
			break;
		assert_int_equal(status, TAUT_ENOMEM);
	}
	alloc_fail_after(0);
	assert_int_equal(engine.table->recv(engine.context, 0, 1, &byte, 1,
		&wait.request, NULL), TAUT_ENOMEM);
	alloc_fail_never();
	assert_false(wait.over);
	assert_int_equal(engine.table->recv(engine.context, 0, 1, &byte, 1,
		&wait.request, NULL), TAUT_OK);
	engine.table->destroy(engine.context);
	assert_true(wait.over);
	assert_int_equal(wait.status, TAUT_EIO);
	tauti_meet_destroy(meet);
}

/* --- what carries messages ----------------------------------------------------------------*/

enum { TRANSPORTS_MOST = 64 };

/* All that the context may use, as "tcp/lo"; how many. */
static size_t list_transports(const struct tauti_ucx *ucx,
	char names[TRANSPORTS_MOST][64])
{
	void (*print)(ucp_context_h context, FILE *stream);
	void *symbol = dlsym(ucx->call.library, "ucp_context_print_info");
	FILE *file = tmpfile();
	char line[256];
	size_t n = 0;

	assert_non_null(symbol);
	assert_non_null(file);
	memcpy(&print, &symbol, sizeof print);
	print(ucx->context, file);
	rewind(file);
	while (n < TRANSPORTS_MOST && fgets(line, sizeof line, file))
		n += sscanf(line, "# resource %*d : md %*d dev %*d flags %*s "
			"%63s", names[n]) == 1;
	fclose(file);
	return n;
}

/* Mappings of this process that stand for shared memory of UCX's own. */
static size_t count_shared(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	size_t n = 0;

	assert_non_null(file);
	while (fgets(line, sizeof line, file))
		n += strstr(line, "/ucx_shm_") || strstr(line, "/SYSV");
	fclose(file);
	return n;
}

/* UCX_TLS as it is, or else; NULL: not set. */
static struct tauti_ucx *open_with(const char *transports)
{
	struct tauti_ucx *ucx = NULL;

	if (transports)
		setenv("UCX_TLS", transports, 1);
	else
		unsetenv("UCX_TLS");
	assert_int_equal(tauti_ucx_open(2, &ucx, NULL), TAUT_OK);
	return ucx;
}

static bool is_shared(const char *name)
{
	return !strncmp(name, "posix/", 6) || !strncmp(name, "sysv/", 5);
}

/* Every other transport stays: RDMA, those of GPUs. */
static void test_transports(void **state)
{
	static char all[TRANSPORTS_MOST][64], own[TRANSPORTS_MOST][64];
	const char *told = getenv("UCX_TLS");
	char *before = told ? strdup(told) : NULL;
	struct tauti_ucx *ucx = open_with("all");
	size_t n_all = list_transports(ucx, all), n_own, left = 0;

	(void)state;
	assert_true(count_shared() > 0); /* what the user asked for */
	tauti_ucx_destroy(ucx);
	ucx = open_with(NULL);
	assert_int_equal(count_shared(), 0);
	n_own = list_transports(ucx, own);
	tauti_ucx_destroy(ucx);
	for (size_t i = 0; i < n_all; i++)
		if (!is_shared(all[i])) {
			assert_true(left < n_own);
			assert_string_equal(own[left++], all[i]);
		}
	assert_true(n_all > left);
	assert_int_equal(left, n_own);
	if (before)
		setenv("UCX_TLS", before, 1);
	free(before);
}

/* --- the library ------------------------------------------------------------------------*/

static void test_no_library(void **state)
{
	struct tauti_ucx_calls calls;
	struct taut_error err;

	(void)state;
	assert_int_equal(tauti_ucx_load("libno-such.so", &calls, &err), TAUT_EIO);
	assert_string_equal(err.message, "UCX is not there (libno-such.so): "
		"install libucx0, or UCX 1.10 or later");
	assert_int_equal(tauti_ucx_load("libm.so.6", &calls, &err), TAUT_EIO);
	assert_string_equal(err.message, "UCX (libm.so.6) has no "
		"ucp_get_version: expected version 1.10 or later");
}

static void own_handler(int signal)
{
	(void)signal;
}

/* In a process that never had UCX: its signals stay its own. */
static void test_signals(void **state)
{
	static const int mine[] = { SIGHUP, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	pid_t child = fork();
	int status = -1;

	(void)state;
	if (child == 0) {
		struct tauti_ucx_calls calls;
		struct sigaction now;

		signal(SIGSEGV, own_handler);
		signal(SIGHUP, SIG_DFL);
		signal(SIGILL, SIG_IGN);
		if (tauti_ucx_load("libucp.so.0", &calls, NULL))
			_exit(1);
		for (int i = 0; i < 5; i++) {
			sigaction(mine[i], NULL, &now);
			if (mine[i] == SIGSEGV ? now.sa_handler != own_handler :
				mine[i] == SIGILL ? now.sa_handler != SIG_IGN :
				mine[i] == SIGHUP && now.sa_handler != SIG_DFL)
				_exit(2);
		}
		tauti_ucx_unload(&calls);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_library),
		cmocka_unit_test(test_signals), /* before there is UCX here */
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_last_word),
		cmocka_unit_test(test_wrong_length),
		cmocka_unit_test(test_arrived),
		cmocka_unit_test(test_wake),
		cmocka_unit_test(test_transports),
	};

	ranks_ucx_in_sanitizer();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
