/* plugin_fault_test.c - everything that NCCL, the disk, the memory and other
 * threads may do to the plugin. */
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "record/nccl/plugin_test.h"
#include "tests/support/alloc_fail.h"

/* --- handles that should not come -------------------------------------------------------*/

static void wrong_handles_do_nothing(void **state)
{
	struct host h;
	struct read_log log;
	void *coll, *op, *step, *other;

	(void)state;
	init(&h, 6);
	coll = host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2);
	op = host_op(&h, coll, getpid(), 0, 0, 1);
	step = host_step(&h, op, 0);
	assert_int_equal(host_stop(&h, NULL), 0);
	assert_int_equal(host_state(&h, NULL, HOST_SEND_GPU, 0, 0), 0);
	assert_int_equal(host_state_bare(&h, step, HOST_SEND_GPU), 0);
	assert_int_equal(host_state_bare(&h, op, HOST_IN_PROGRESS), 0);
	assert_int_equal(host_state(&h, step, 12345, 0, 0), 0);
	assert_int_equal(host_state(&h, step, -1, 0, 0), 0);
	host_stop(&h, step);
	host_stop(&h, step);
	host_state(&h, step, HOST_SEND_WAIT, 5, 0);
	other = host_step(&h, op, 1); /* perhaps in the same place */
	host_stop(&h, step);
	assert_int_equal(host_stop(&h, other), 0);
	host_stop(&h, op);
	assert_null(host_step(&h, op, 2)); /* of an operation that is over */
	assert_null(host_step(&h, NULL, 2));
	assert_null(host_step(&h, coll, 2));
	assert_int_equal(host_stop(&h, (void *)(uintptr_t)-1), 0);
	assert_int_equal(host_stop(&h, &h), 0);
	assert_int_equal(host_state(&h, &h, HOST_SEND_WAIT, 1, 1), 0);
	h.context = &h;
	assert_null(host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2));
	assert_int_equal(host_finalize(&h), 0);
	h.context = NULL;
	assert_int_equal(host_finalize(&h), 0);
	log = finish();
	assert_int_equal(read_log_count(&log, TAUTI_LOG_CHUNK), 2);
	assert_int_equal(read_log_count(&log, TAUTI_LOG_COMM), 1);
	assert_non_null(read_log_fact(&log, "nccl.lost.handles"));
	read_log_close(&log);
}

/* --- no room --------------------------------------------------------------------------------*/

static void full_pools_are_counted(void **state)
{
	struct host h;
	struct read_log log;
	void *coll, *op = NULL;
	int n = 0;
	char expected[24];

	(void)state;
	init(&h, 6);
	coll = host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2);
	for (; n < 100000 && (op = host_op(&h, coll, getpid(), 0, 0, 1)); n++)
		if (!host_step(&h, op, 0))
			break;
	assert_null(op);
	assert_int_equal(n, TAUTI_NCCL_OPS);
	for (int i = 0; i < 4; i++)
		assert_null(host_op(&h, coll, getpid(), 0, 0, 1));
	host_finalize(&h);
	log = finish();
	assert_string_equal(read_log_fact(&log, "nccl.lost.operations"), "5");
	snprintf(expected, sizeof expected, "%d", 2 * TAUTI_NCCL_OPS);
	assert_string_equal(read_log_fact(&log, "nccl.lost.cut"), expected);
	read_log_close(&log);
}

/* Collectives that are never heard of again make room for new ones. */
static void old_collectives_make_room(void **state)
{
	struct host h;
	struct read_log log;
	enum { MANY = 20000 };

	(void)state;
	setenv("TAUT_NCCL_RECORDS", "40000", 1);
	init(&h, 6);
	for (int i = 0; i < MANY; i++)
		assert_non_null(host_coll(&h, (uint64_t)i, 4, 8, 7, 0, 1, 1, 2));
	log = finish();
	assert_int_equal(read_log_count(&log, TAUTI_LOG_COMM), MANY);
	for (int i = 0; i < MANY; i += 1999)
		assert_int_equal(read_log_nth(&log, TAUTI_LOG_COMM,
			(uint64_t)i)->u.comm.seq, i);
	assert_null(read_log_fact(&log, "nccl.lost.collectives"));
	read_log_close(&log);
}

static void communicators_come_and_go(void **state)
{
	struct host hosts[TAUTI_NCCL_COMMS + 2];
	struct read_log log;

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < TAUTI_NCCL_COMMS + 2; i++)
			init(&hosts[i], 6);
		for (int i = 0; i < TAUTI_NCCL_COMMS + 2; i++) {
			void *coll = host_coll(&hosts[i], 0, 4, 8, 7, 0, 1, 1,
				2);
			assert_true((coll != NULL) == (i < TAUTI_NCCL_COMMS));
		}
		/* With their collectives open. */
		for (int i = 0; i < TAUTI_NCCL_COMMS + 2; i++)
			assert_int_equal(host_finalize(&hosts[i]), 0);
	}
	log = finish();
	assert_int_equal(read_log_count(&log, TAUTI_LOG_COMM),
		3 * TAUTI_NCCL_COMMS);
	/* Two of init() and two of a collective, each round. */
	assert_string_equal(read_log_fact(&log, "nccl.lost.communicators"),
		"12");
	read_log_close(&log);
}

/* A full log loses events, and nothing else. */
static void full_logs_are_whole(void **state)
{
	struct host h;
	struct read_log log;

	(void)state;
	setenv("TAUT_NCCL_RECORDS", "64", 1);
	init(&h, 6);
	for (int i = 0; i < 1000; i++) {
		void *coll = host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2);
		void *op = host_op(&h, coll, getpid(), 0, 0, 1);
		void *step = host_step(&h, op, 0);

		host_state(&h, step, HOST_SEND_GPU, 0, 0);
		host_stop(&h, step);
		host_stop(&h, op);
		host_stop(&h, coll);
	}
	log = finish();
	assert_true(log.header.reserved > log.header.capacity);
	assert_true(read_log_count(&log, TAUTI_LOG_CHUNK) > 10);
	read_log_close(&log);
}

/* --- nothing to record with -------------------------------------------------------------------*/

static void check_inert(int version)
{
	struct host h;
	void *coll;

	assert_int_equal(host_init(&h, plugin_of(version), version, "pg", 1, 4,
		1), 0);
	assert_int_equal(h.mask, 0);
	assert_null(h.context);
	assert_null(host_group(&h));
	coll = host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2);
	assert_null(coll);
	assert_null(host_op(&h, coll, getpid(), 0, 0, 1));
	assert_null(host_step(&h, NULL, 0));
	assert_int_equal(host_stop(&h, NULL), 0);
	assert_int_equal(host_finalize(&h), 0);
	assert_false(log_exists());
}

static void without_a_folder_nothing_happens(void **state)
{
	(void)state;
	unsetenv("TAUT_RECORD");
	for (int version = 1; version <= HOST_VERSIONS; version++)
		check_inert(version);
}

static void unknown_events_mean_none(void **state)
{
	(void)state;
	setenv("TAUT_NCCL_EVENTS", "nothing, that we know", 1);
	check_inert(6);
}

static void a_folder_that_cannot_be_means_nothing(void **state)
{
	(void)state;
	setenv("TAUT_RECORD", "/proc/self/no/such/folder", 1);
	check_inert(3);
}

static void a_full_disk_means_nothing(void **state)
{
	struct rlimit old, small;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	small.rlim_cur = 8192; /* the writer is told as by a full disk */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	check_inert(7);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

/* Each request fails once: NCCL is told success, and either all is recorded or
 * nothing is. */
static void no_memory_is_never_an_error(void **state)
{
	struct host h;
	long n = 0;
	int done = 0;

	for (; n < 100 && !done; n++) {
		teardown(state);
		setup(state);
		alloc_fail_after(n);
		assert_int_equal(host_init(&h, plugin_of(6), 6, "pg", 1, 4, 1),
			0);
		done = alloc_fail_count() <= n;
		alloc_fail_never();
		if (!h.context) {
			assert_int_equal(h.mask, 0);
			assert_false(log_exists());
			continue;
		}
		/* The counts of pairs are all that may be missing. */
		host_stop(&h, host_p2p(&h, 6, 8, 7, 2));
		assert_non_null(host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2));
	}
	assert_true(done);
	assert_true(n > 10);
}

/* No callback asks for memory. */
static void callbacks_do_not_allocate(void **state)
{
	struct host h;

	(void)state;
	init(&h, 4);
	alloc_fail_after(0);
	for (int i = 0; i < 3000; i++) {
		void *coll = host_coll(&h, 0, i % 5, 8, i % 9, 0, i % 32,
			i % 2, i % 3);
		void *op = host_op(&h, coll, getpid(), i % 64, i % 4, i & 1);
		void *step = host_step(&h, op, i);

		assert_non_null(step);
		host_state(&h, step, HOST_SEND_GPU, 0, 0);
		host_stop(&h, step);
		host_stop(&h, op);
		host_stop(&h, coll);
		host_stop(&h, host_p2p(&h, 6, 1, 7, 2));
	}
	assert_int_equal(alloc_fail_count(), 0);
	alloc_fail_never();
}

static void children_leave_the_log_alone(void **state)
{
	struct host h;
	struct read_log log;
	pid_t child;
	int status;

	(void)state;
	init(&h, 6);
	host_stop(&h, host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2));
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct host other;

		host_init(&other, plugin_of(6), 6, "pg", 1, 4, 1);
		host_stop(&h, host_coll(&h, 1, 4, 8, 7, 0, 1, 1, 2));
		host_finalize(&h);
		_exit(other.context || other.mask);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	log = finish();
	assert_int_equal(read_log_count(&log, TAUTI_LOG_COMM), 1);
	assert_true(log.header.closed_ns != 0);
	read_log_close(&log);
}

/* --- threads ----------------------------------------------------------------------------------------*/

enum { THREADS = 8, ROUNDS = 400, CHANNELS = 4 };

struct worker {
	pthread_t thread;
	struct host *host;
	void *_Atomic *colls; /* of the other threads of this communicator */
	int index;
};

/* One thread of four of a communicator enqueues, as the user's thread does; all
 * carry out operations of what the others have enqueued. */
static void *work(void *context)
{
	struct worker *w = context;

	for (int i = 0; i < ROUNDS; i++) {
		void *coll, *op;

		host_group(w->host);
		coll = host_coll(w->host, (uint64_t)i, 4, 8, 7, 0, CHANNELS, 1,
			2);
		host_stop(w->host, coll);
		atomic_store(&w->colls[w->index % 4], coll);
		op = host_op(w->host, atomic_load(&w->colls[(w->index + i) % 4]),
			getpid(), i % CHANNELS, (i + 1) % 4, i & 1);
		for (int s = 0; s < 4; s++) {
			void *step = host_step(w->host, op, s);

			atomic_fetch_add(&now_ns, 10);
			host_state(w->host, step, HOST_SEND_GPU, 0, 0);
			host_state(w->host, step, HOST_SEND_WAIT, 64, 0);
			host_stop(w->host, step);
		}
		host_stop(w->host, op);
	}
	return NULL;
}

/* A thread may lose its processor while it writes a new text. What others do
 * in that time has its texts all the same. */
static void texts_wait_for_nobody(void **state)
{
	const struct tauti_log_record *c;
	struct tauti_nccl_recorder *r;
	struct read_log log;
	struct host h;
	void *coll, *op;

	(void)state;
	init(&h, 6);
	r = tauti_plugin_enter();
	assert_true(tauti_words_try_lock(&r->words));
	for (uint64_t i = 0; i < 2; i++) {
		coll = host_coll(&h, i, 4, 8, 7, 0, 1, 1, 2);
		host_stop(&h, coll);
		op = host_op(&h, coll, getpid(), 0, 2, 1);
		host_stop(&h, host_step(&h, op, 0));
		host_stop(&h, op);
	}
	tauti_words_unlock(&r->words);
	tauti_plugin_leave();
	log = finish();
	for (uint64_t i = 0; i < 2; i++) {
		c = read_log_nth(&log, TAUTI_LOG_COMM, i);
		assert_string_equal(read_log_name(&log, c->u.comm.group),
			"0xabc123");
		assert_string_equal(read_log_name(&log, c->u.comm.group_ranks),
			"[0, 1, 2, 3]");
		assert_string_equal(read_log_name(&log, c->u.comm.collective),
			"allreduce");
		assert_string_equal(read_log_name(&log, c->u.comm.dtype),
			"Float");
		assert_true(strlen(read_log_name(&log, c->name)) > 0);
		c = read_log_nth(&log, TAUTI_LOG_CHUNK, i);
		assert_string_equal(read_log_name(&log, c->name), "send");
	}
	read_log_close(&log);
}

static void threads_do_not_disturb_each_other(void **state)
{
	struct host hosts[2];
	struct worker workers[THREADS];
	void *_Atomic colls[2][4] = { { NULL } };
	struct read_log log;

	(void)state;
	setenv("TAUT_NCCL_RECORDS", "65536", 1);
	init(&hosts[0], 6);
	init(&hosts[1], 6);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker) { .host = &hosts[i / 4],
			.colls = colls[i / 4], .index = i };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work,
			&workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	host_finalize(&hosts[0]);
	host_finalize(&hosts[1]);
	log = finish();
	assert_int_equal(read_log_count(&log, TAUTI_LOG_COMM),
		THREADS * ROUNDS);
	assert_int_equal(read_log_count(&log, TAUTI_LOG_CHUNK),
		4 * THREADS * ROUNDS);
	for (uint64_t i = 0; i < log.n; i++) {
		const struct tauti_log_record *c = &log.records[i];

		if (c->type != TAUTI_LOG_CHUNK)
			continue;
		assert_int_equal(c->u.chunk.gpu_late_ns +
			c->u.chunk.network_ns +
			(c->u.chunk.sends ? c->u.chunk.peer_late_ns : 0),
			c->end_ns - c->start_ns);
		assert_int_equal(c->u.chunk.bytes, 64);
	}
	assert_null(read_log_fact(&log, "nccl.lost.steps"));
	assert_null(read_log_fact(&log, "nccl.lost.handles"));
	read_log_close(&log);
}

/* One thread enqueues, and looks each time whether the oldest collective is
 * over; the other carries it out meanwhile. */
enum { HURRIED = 60000 };

struct hurry {
	struct host host;
	void *_Atomic coll; /* to be carried out; NULL: none */
};

static void *hurry_on(void *context)
{
	struct hurry *h = context;

	for (int i = 0; i < HURRIED; i++) {
		void *coll;

		while (!(coll = atomic_load(&h->coll)))
			sched_yield();
		for (int n = 0; n < 4; n++)
			host_stop(&h->host, host_op(
				&h->host, coll, getpid(), 0, 0, 1));
		atomic_store(&h->coll, NULL);
	}
	return NULL;
}

/* How many collectives of the first communicator are still to be written. */
static uint64_t unwritten(void)
{
	const struct tauti_nccl_recorder *r = tauti_plugin_enter();
	const struct tauti_nccl_comm *comm = (const void *)r->comms.objects;
	uint64_t n = atomic_load(&comm->end) - atomic_load(&comm->begin);

	tauti_plugin_leave();
	return n;
}

/* Whoever looks at a collective takes nothing away from who reports on it: one
 * lost end would leave all later ones unwritten. */
static void looking_loses_nothing(void **state)
{
	static struct hurry h;
	struct read_log log;
	pthread_t thread;

	(void)state;
	setenv("TAUT_NCCL_RECORDS", "131072", 1);
	init(&h.host, 6);
	assert_int_equal(pthread_create(&thread, NULL, hurry_on, &h), 0);
	for (int i = 0; i < HURRIED; i++) {
		void *coll;

		host_group(&h.host);
		coll = host_coll(&h.host, (uint64_t)i, 4, 8, 7, 0, 1, 1, 2);
		host_stop(&h.host, coll);
		while (atomic_load(&h.coll))
			sched_yield();
		atomic_store(&h.coll, coll);
		assert_in_range(unwritten(), 0, 64);
	}
	pthread_join(thread, NULL);
	host_finalize(&h.host);
	log = finish();
	assert_null(read_log_fact(&log, "nccl.lost.handles"));
	read_log_close(&log);
}

/* Communicators end, and the whole recorder, while the proxies still call. */
static _Atomic int over;

static void *call_on(void *context)
{
	struct host *h = context;
	void *op = NULL, *step = NULL;

	for (int i = 0; !atomic_load(&over); i++) {
		void *coll = host_coll(h, 0, 4, 8, 7, 0, 1, 1, 2);

		host_stop(h, coll);
		if (!op)
			op = host_op(h, coll, getpid(), 0, 0, 1);
		step = host_step(h, op, i);
		host_state(h, step, HOST_SEND_WAIT, 0, 0);
		host_stop(h, step);
	}
	return NULL;
}

static void ends_do_not_wait_for_callbacks(void **state)
{
	pthread_t threads[4];
	struct host h;

	(void)state;
	init(&h, 6);
	atomic_store(&over, 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, call_on, &h),
			0);
	for (int i = 0; i < 50; i++) {
		struct host other;

		init(&other, 6);
		host_coll(&other, 0, 4, 8, 7, 0, 1, 1, 2);
		host_finalize(&other);
	}
	host_finalize(&h);
	tauti_plugin_end();
	atomic_store(&over, 1);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

/* A host with more to do than cores leaves a thread inside of a callback for a while. */
static _Atomic int is_inside;

static void *dwell(void *context)
{
	(void)context;
	if (tauti_plugin_enter()) {
		atomic_store(&is_inside, 1);
		usleep(700 * 1000);
		tauti_plugin_leave();
	}
	return NULL;
}

static void the_end_waits_for_who_is_inside(void **state)
{
	struct read_log log;
	pthread_t thread;
	struct host h;

	(void)state;
	init(&h, 6);
	host_stop(&h, host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2));
	atomic_store(&is_inside, 0);
	assert_int_equal(pthread_create(&thread, NULL, dwell, NULL), 0);
	while (!atomic_load(&is_inside))
		sched_yield();
	log = finish();
	assert_int_equal(read_log_count(&log, TAUTI_LOG_COMM), 1);
	read_log_close(&log);
	pthread_join(thread, NULL);
}

/* Who only comes by, and finds no recorder any more, keeps nothing from its end. */
static void *come_by(void *context)
{
	(void)context;
	while (!atomic_load(&over))
		if (tauti_plugin_enter())
			tauti_plugin_leave();
	return NULL;
}

static void who_comes_by_does_not_keep_the_log_open(void **state)
{
	pthread_t threads[4];

	(void)state;
	atomic_store(&over, 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, come_by, NULL), 0);
	for (int i = 0; i < 100; i++) {
		struct read_log log;
		struct host h;

		init(&h, 6);
		host_stop(&h, host_coll(&h, 0, 4, 8, 7, 0, 1, 1, 2));
		log = finish();
		assert_true(log.header.closed_ns != 0);
		read_log_close(&log);
	}
	atomic_store(&over, 1);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wrong_handles_do_nothing),
		TEST(full_pools_are_counted),
		TEST(old_collectives_make_room),
		TEST(communicators_come_and_go),
		TEST(full_logs_are_whole),
		TEST(without_a_folder_nothing_happens),
		TEST(unknown_events_mean_none),
		TEST(a_folder_that_cannot_be_means_nothing),
		TEST(a_full_disk_means_nothing),
		TEST(no_memory_is_never_an_error),
		TEST(callbacks_do_not_allocate),
		TEST(children_leave_the_log_alone),
		TEST(texts_wait_for_nobody),
		TEST(threads_do_not_disturb_each_other),
		TEST(looking_loses_nothing),
		TEST(ends_do_not_wait_for_callbacks),
		TEST(the_end_waits_for_who_is_inside),
		TEST(who_comes_by_does_not_keep_the_log_open),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
