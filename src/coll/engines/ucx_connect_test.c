/* How ranks connect over UCX: one that does not answer, or with nonsense, one that goes
 * meanwhile, a network device that is gone when the others look for it. */
#include "tests/support/ranks.h"

#include <sched.h>
#include <signal.h>
#include <sys/time.h>

#include "coll/engines/ucx.h"
#include "coll/meet.h"
#include "tests/support/waits.h"

static const int64_t second_ns = 1000000000;

/* All but JOINS take part in the meeting as those do that connect. MUTE and GOES connect
 * with nobody; GOES leaves the meeting before all greet. LIES greets the next rank
 * alone, and wrongly. */
enum role { JOINS, MUTE, GOES, LIES };

struct job {
	char where[64];
	int64_t within_ns;
	int64_t left_ns; /* as of a door's meeting, of rank 1; 0: no such limit */
	enum role roles[RANKS_MOST];
	const char *before_meeting; /* a command, once all have opened UCX */
	pthread_barrier_t opened, changed, over;
	taut_status status[RANKS_MOST];
	struct taut_error error[RANKS_MOST];
	bool began_anew[RANKS_MOST];
};

/* --- a rank --------------------------------------------------------------------------------*/

/* Sends a byte to the next, and hears the previous one. */
static taut_status pass_on(struct tauti_engine *engine, uint32_t rank,
	uint32_t n_ranks, struct taut_error *err)
{
	const struct taut_coll_engine *table = engine->table;
	uint32_t next = (rank + 1) % n_ranks;
	/* What is not over, the engine ends when it is destroyed. */
	static _Thread_local struct wait waits[2];
	static _Thread_local uint8_t out, in;
	uint32_t previous = (rank + n_ranks - 1) % n_ranks;
	taut_status status;

	out = (uint8_t)(7 + rank);
	in = 0;
	wait_init(&waits[0]);
	wait_init(&waits[1]);
	status = table->recv(engine->context, previous, 5, &in, 1,
		&waits[0].request, err);
	if (!status)
		status = table->send(engine->context, &next, 1, 5, &out, 1,
			&waits[1].request, err);
	if (!status)
		status = until_over(engine, waits, 2, err);
	if (!status && in != 7 + previous)
		status = taut_error_set(err, TAUT_EFORMAT, -1,
			"what came is %u", in);
	return status;
}

static taut_status join(struct tauti_ucx *ucx, struct tauti_meet *meet,
	const struct ranks_one *one, struct taut_error *err)
{
	struct job *job = one->shared;
	struct tauti_engine engine = { NULL, NULL };
	taut_status status = tauti_ucx_meet(ucx, meet, one->rank, &engine, err);

	if (status)
		return status;
	job->began_anew[one->rank] = ucx->devices[0] != '\0';
	status = pass_on(&engine, one->rank, one->n_ranks, err);
	engine.table->destroy(engine.context);
	return status;
}

/* Two bytes, where one is a greeting. */
static taut_status lie(struct tauti_ucx *ucx, uint32_t to, const void *address,
	struct taut_error *err)
{
	const struct tauti_engine engine = { &tauti_ucx_engine, ucx };
	struct tauti_ucx_peer *peer = &ucx->peers[to];
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
			UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
			UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = address, .err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = { tauti_ucx_on_broken, peer } };
	const uint64_t tag = ((uint64_t)1 << TAUT_COLL_TAG_BITS) - 1;
	struct wait said;
	taut_status status;

	wait_init(&said);
	peer->ucx = ucx;
	if (ucx->call.ucp_ep_create(ucx->worker, &params, &peer->endpoint))
		return TAUT_EIO;
	status = tauti_ucx_engine.send(
		ucx, &to, 1, tag, "no", 2, &said.request, err);
	return status ? status : until_over(&engine, &said, 1, err);
}

static taut_status pretend(struct tauti_ucx *ucx, struct tauti_meet *meet,
	const struct ranks_one *one, struct taut_error *err)
{
	const struct job *job = one->shared;
	const uint32_t fine[2] = { 0, TAUT_NONE };
	int stages = job->roles[one->rank] == GOES ? 1 : 2;
	uint32_t sizes[RANKS_MOST] = { 0 }, all[2 * RANKS_MOST];
	uint8_t *mine, *addresses;
	ucp_address_t *address = NULL;
	size_t bytes = 0, most = 0;
	uint32_t size;
	taut_status status;

	if (ucx->call.ucp_worker_get_address(ucx->worker, &address, &bytes))
		return TAUT_EIO;
	size = (uint32_t)bytes;
	status = tauti_meet_gather(meet, &size, sizeof size, sizes, err);
	for (uint32_t i = 0; i < one->n_ranks; i++)
		most = sizes[i] > most ? sizes[i] : most;
	mine = calloc(1, most);
	addresses = calloc(one->n_ranks, most);
	memcpy(mine, address, bytes);
	if (!status)
		status = tauti_meet_gather(meet, mine, most, addresses, err);
	ucx->rank = one->rank;
	while (!status && stages--) {
		status = tauti_meet_gather(meet, fine, sizeof fine, all, err);
		if (!status && stages && job->roles[one->rank] == LIES)
			status = lie(ucx, one->rank + 1,
				addresses + (one->rank + 1) * most, err);
	}
	ucx->call.ucp_worker_release_address(ucx->worker, address);
	free(mine);
	free(addresses);
	return status;
}

static void change(struct job *job, uint32_t rank)
{
	pthread_barrier_wait(&job->opened);
	if (rank == 0 && job->before_meeting && system(job->before_meeting) != 0)
		fprintf(stderr, "failed: %s\n", job->before_meeting);
	pthread_barrier_wait(&job->changed);
}

static void *rank_main(void *context)
{
	struct ranks_one *one = context;
	struct job *job = one->shared;
	enum role role = job->roles[one->rank];
	struct taut_error *err = &job->error[one->rank];
	struct tauti_meet_options options = { one->rank, one->n_ranks,
		job->where, "s", job->within_ns, 20 * second_ns, false };
	struct tauti_meet *meet = NULL;
	struct tauti_ucx *ucx = NULL;
	taut_status status = tauti_meet_create(&options, &meet, err);

	if (!status)
		status = tauti_ucx_open(one->n_ranks, &ucx, err);
	change(job, one->rank);
	if (!status && job->left_ns && one->rank == 1)
		meet->until_ns = ranks_now_ns() + job->left_ns;
	if (!status && role == JOINS)
		status = join(ucx, meet, one, err);
	else if (!status)
		status = pretend(ucx, meet, one, err);
	job->status[one->rank] = status;
	tauti_meet_destroy(meet);
	pthread_barrier_wait(&job->over);
	if (role != JOINS && ucx) /* nothing of it breaks before */
		tauti_ucx_destroy(ucx);
	return NULL;
}

static void run_job(struct job *job, uint32_t n_ranks)
{
	struct ranks_one ones[RANKS_MOST];

	snprintf(job->where, sizeof job->where, "127.0.0.1:%u",
		ranks_free_port());
	pthread_barrier_init(&job->opened, NULL, n_ranks);
	pthread_barrier_init(&job->changed, NULL, n_ranks);
	pthread_barrier_init(&job->over, NULL, n_ranks);
	ranks_start(ones, 0, n_ranks, rank_main, job);
	ranks_join(ones, 0, n_ranks);
	pthread_barrier_destroy(&job->opened);
	pthread_barrier_destroy(&job->changed);
	pthread_barrier_destroy(&job->over);
}

static void expect_line(const struct job *job, uint32_t rank, const char *line)
{
	assert_int_equal(job->status[rank], TAUT_EIO);
	assert_string_equal(job->error[rank].message, line);
}

/* --- who does not answer --------------------------------------------------------------------*/

static void test_mute(void **state)
{
	struct job low = { .within_ns = 2 * second_ns, .roles = { MUTE } };
	struct job high = { .within_ns = 2 * second_ns, .roles = { [2] = MUTE } };

	(void)state;
	run_job(&low, 2);
	assert_int_equal(low.status[0], TAUT_OK);
	expect_line(&low, 1, "rank 0 does not answer by UCX within 1.5 s");
	run_job(&high, 3);
	expect_line(&high, 0, "rank 2 does not answer by UCX within 1.5 s");
	expect_line(&high, 1, "UCX: rank 0 has no connection to rank 2: it does "
		"not answer in time");
}

/* One cannot greet, and two others wait for it or for who lies: until the time is over,
 * if nobody told them. */
static void test_lies(void **state)
{
	int64_t begun_ns = ranks_now_ns();

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct job job = { .within_ns = 60 * second_ns };
		char own[64], others[96];

		job.roles[i] = LIES;
		run_job(&job, 3);
		snprintf(own, sizeof own,
			"UCX: what rank %u says is no greeting", i);
		snprintf(others, sizeof others, "UCX: rank %u has no connection "
			"to rank %u: what it says is no greeting", i + 1, i);
		assert_int_equal(job.status[i], TAUT_OK);
		expect_line(&job, i + 1, own);
		expect_line(&job, i ? 0 : 2, others);
	}
	assert_true(ranks_now_ns() - begun_ns < 20 * second_ns);
}

/* A door's meeting ends when its time is over, whatever a stage may take. */
static void test_little_time(void **state)
{
	struct job job = { .within_ns = 60 * second_ns, .left_ns = second_ns,
		.roles = { MUTE } };
	int64_t begun_ns = ranks_now_ns();

	(void)state;
	run_job(&job, 2);
	assert_int_equal(job.status[1], TAUT_EIO);
	assert_true(ranks_now_ns() - begun_ns < 20 * second_ns);
}

/* It is not waited for until the time is over. */
static void test_goes(void **state)
{
	int64_t begun_ns = ranks_now_ns();

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct job job = { .within_ns = 60 * second_ns };

		job.roles[i] = GOES;
		run_job(&job, 3);
		for (uint32_t k = 0; k < 3; k++) {
			char who[16];

			snprintf(who, sizeof who, "rank %u (", i);
			if (k == i)
				continue;
			assert_int_equal(job.status[k], TAUT_EIO);
			assert_non_null(strstr(job.error[k].message, who));
		}
	}
	assert_true(ranks_now_ns() - begun_ns < 20 * second_ns);
}

/* --- one that is killed ---------------------------------------------------------------------*/

static void die_now(int signal)
{
	(void)signal;
	raise(SIGKILL);
}

/* Some time in the next milliseconds: while it connects, or soon after. */
static void die_soon(uint64_t seed)
{
	const struct itimerval when = { .it_value.tv_usec =
		1 + (long)(seed * UINT64_C(0x9e3779b97f4a7c15) >> 40) % 5000 };

	signal(SIGALRM, die_now);
	setitimer(ITIMER_REAL, &when, NULL);
}

/* A process: 0 when it heard that the victim is gone, and ended no other way. */
static int outlive(const struct ranks_one *one, uint64_t seed)
{
	const struct job *job = one->shared;
	struct tauti_meet_options options = { one->rank, one->n_ranks,
		job->where, "s", 20 * second_ns, 20 * second_ns, false };
	struct taut_error err = { .message = "" };
	struct tauti_engine engine = { NULL, NULL };
	struct tauti_meet *meet = NULL;
	struct tauti_ucx *ucx = NULL;
	bool is_victim = one->rank == seed % one->n_ranks;
	taut_status status = tauti_ucx_open(one->n_ranks, &ucx, &err);

	if (!status)
		status = tauti_meet_create(&options, &meet, &err);
	if (status)
		return 1;
	if (is_victim)
		die_soon(seed);
	status = tauti_ucx_meet(ucx, meet, one->rank, &engine, &err);
	while (is_victim)
		pause();
	while (!status)
		status = pass_on(&engine, one->rank, one->n_ranks, &err);
	if (engine.table)
		engine.table->destroy(engine.context);
	tauti_meet_destroy(meet);
	if (status == TAUT_EIO)
		return 0;
	fprintf(stderr, "rank %u: %d: %s\n", one->rank, status, err.message);
	return 1;
}

static void run_killed(uint64_t seed)
{
	enum { N = 3 };
	struct job job = { .within_ns = 0 };
	pid_t pids[N];

	snprintf(job.where, sizeof job.where, "127.0.0.1:%u", ranks_free_port());
	for (uint32_t i = 0; i < N; i++) {
		const struct ranks_one one = { .shared = &job, .rank = i,
			.n_ranks = N };

		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			_exit(outlive(&one, seed));
	}
	for (uint32_t i = 0; i < N; i++) {
		int status, expected = i == seed % N ? SIGKILL : 0;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		if (status != expected)
			fail_msg("seed %lu: rank %u: status %x",
				(unsigned long)seed, i, (unsigned)status);
	}
}

/* TAUT_WORLDS=N: as many. */
static void test_killed(void **state)
{
	const char *asked = getenv("TAUT_WORLDS");
	uint64_t n = asked ? strtoull(asked, NULL, 10) : 15;

	(void)state;
	for (uint64_t seed = 1; seed <= n; seed++)
		run_killed(seed);
}

/* --- a device that goes ------------------------------------------------------------------*/

/* In a network of its own, which /sys tells of: UCX finds a device
 * that it prefers to loopback, and tells the others of it; before they have
 * connected it is gone. */
static int lose_device(void)
{
	struct job job = { .within_ns = 20 * second_ns,
		.before_meeting = "ip link del taut0" };

	if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
		system("mount --make-rprivate / && mount -t sysfs none /sys && "
			"ip link set lo up && "
			"ip link add taut0 type veth peer name taut1 && "
			"ip addr add 10.99.7.1/24 dev taut0 && "
			"ip link set taut0 up && ip link set taut1 up "
			"2>/dev/null") != 0)
		return UNIT_SKIP;
	setenv("UCX_TLS", "tcp", 1);
	run_job(&job, 3);
	for (uint32_t i = 0; i < 3; i++) {
		if (job.status[i])
			fprintf(stderr, "rank %u: %s\n", i, job.error[i].message);
		if (job.status[i] || !job.began_anew[i])
			return 1;
	}
	return 0;
}

static void in_child(int (*work)(void))
{
	int status = -1;
	pid_t child;

	if (geteuid() != 0)
		skip();
	child = fork();
	if (child == 0)
		_exit(work());
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == UNIT_SKIP)
		skip();
	assert_int_equal(status, 0);
}

static void test_device(void **state)
{
	(void)state;
	in_child(lose_device);
}

/* --- the devices of a meeting --------------------------------------------------------------*/

static void *ask_devices(void *context)
{
	struct ranks_one *one = context;
	struct job *job = one->shared;
	struct tauti_meet_options options = { one->rank, one->n_ranks,
		job->where, "s", 20 * second_ns, 20 * second_ns, false };
	struct tauti_meet *meet = NULL;
	char names[64] = "", short_names[4];
	uint8_t all[3], mine = 1;

	job->status[one->rank] = tauti_meet_create(&options, &meet, NULL);
	if (job->status[one->rank])
		return NULL;
	if (!tauti_meet_devices(meet, names, sizeof names) ||
		strcmp(names, "lo") != 0 ||
		tauti_meet_hear(meet) != TAUTI_MEET_NOTHING ||
		tauti_meet_within_ns(meet) != 20 * second_ns ||
		tauti_meet_devices(meet, short_names, 2))
		job->status[one->rank] = TAUT_EFORMAT;
	if (tauti_meet_gather(meet, &mine, 1, all, NULL))
		job->status[one->rank] = TAUT_EIO;
	tauti_meet_destroy(meet);
	return NULL;
}

static bool ask_all(const char *host)
{
	struct ranks_one ones[3];
	struct job job = { .within_ns = 0 };

	snprintf(job.where, sizeof job.where, "%s:%u", host, ranks_free_port());
	ranks_start(ones, 0, 3, ask_devices, &job);
	ranks_join(ones, 0, 3);
	return !job.status[0] && !job.status[1] && !job.status[2];
}

static void test_names(void **state)
{
	(void)state;
	assert_true(ask_all("127.0.0.1"));
}

/* Who says by which devices messages go is not answered with others. */
static void test_devices_told(void **state)
{
	(void)state;
	assert_true(tauti_devices_have(NULL, "eth0"));
	assert_true(tauti_devices_have("", "eth0"));
	assert_true(tauti_devices_have("all", "eth0"));
	assert_true(tauti_devices_have("eth0", "eth0"));
	assert_true(tauti_devices_have("eth0,eth1", "eth1,lo"));
	assert_true(tauti_devices_have("eth0", ""));
	assert_false(tauti_devices_have("mlx5_0:1", "eth0"));
	assert_false(tauti_devices_have("eth0,eth1", "eth"));
	assert_false(tauti_devices_have("eth1", "eth10"));
	assert_false(tauti_devices_have("eth1", "eth0,eth1"));
}

/* They meet at an address that has a label of its own: the device has none. */
static int label_address(void)
{
	if (unshare(CLONE_NEWNET) != 0 ||
		system("ip link set lo up && "
			"ip addr add 127.0.0.2/8 dev lo label lo:1") != 0)
		return UNIT_SKIP;
	return !ask_all("127.0.0.2");
}

static void test_label(void **state)
{
	(void)state;
	in_child(label_address);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_device), /* processes, before UCX is here */
		cmocka_unit_test(test_label),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_devices_told),
		cmocka_unit_test(test_mute),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_little_time),
		cmocka_unit_test(test_goes),
	};

	ranks_ucx_in_sanitizer();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
