#include "tests/support/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <taut/base.h>

static void sleep_us(long us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

static taut_status count_call(
	void *context, size_t index, struct taut_error *err)
{
	(void)err;
	atomic_int *calls = context;
	atomic_fetch_add(&calls[index], 1);
	return TAUT_OK;
}

static void test_every_index_once(void **state)
{
	(void)state;
	enum { N = 20000 };
	const unsigned threads[] = { 0, 1, 2, 7, 100000 };
	for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
		atomic_int *calls = calloc(N, sizeof *calls);
		assert_int_equal(taut_parallel_for(N, threads[t], count_call,
					 calls, NULL),
			TAUT_OK);
		for (size_t i = 0; i < N; i++)
			assert_int_equal(calls[i], 1);
		free(calls);
	}
}

static taut_status never_called(
	void *context, size_t index, struct taut_error *err)
{
	(void)context;
	return taut_error_set(err, TAUT_EINVAL, -1, "%zu", index);
}

static void test_nothing_to_do(void **state)
{
	(void)state;
	struct taut_error err = { .message = "untouched" };
	assert_int_equal(
		taut_parallel_for(0, 4, never_called, NULL, &err), TAUT_OK);
	assert_string_equal(err.message, "untouched");
}

struct delays {
	long first_us, others_us; /* before index 5, before 9 and above */
};

static taut_status fail_from_five(
	void *context, size_t index, struct taut_error *err)
{
	const struct delays *delays = context;
	if (index != 5 && index < 9)
		return TAUT_OK;
	sleep_us(index == 5 ? delays->first_us : delays->others_us);
	return taut_error_set(err, index == 5 ? TAUT_EMATCH : TAUT_EIO,
		(int64_t)index, "index %zu", index);
}

static void check_lowest_wins(unsigned threads, struct delays delays)
{
	struct taut_error err = { 0 };
	taut_status status = taut_parallel_for(
		50, threads, fail_from_five, &delays, &err);
	assert_int_equal(status, TAUT_EMATCH);
	assert_int_equal(err.code, TAUT_EMATCH);
	assert_int_equal(err.offset, 5);
	assert_string_equal(err.message, "index 5");
	status = taut_parallel_for(50, threads, fail_from_five, &delays, NULL);
	assert_int_equal(status, TAUT_EMATCH);
}

/* Whether it fails last on the clock or first. */
static void test_lowest_failing_index_wins(void **state)
{
	(void)state;
	for (unsigned threads = 1; threads <= 8; threads++) {
		check_lowest_wins(threads, (struct delays){ 3000, 0 });
		check_lowest_wins(threads, (struct delays){ 300, 3000 });
	}
}

static taut_status fail_at_three(
	void *context, size_t index, struct taut_error *err)
{
	(void)err;
	atomic_fetch_add((atomic_int *)context, 1);
	return index == 3 ? TAUT_EIO : TAUT_OK;
}

static void test_failure_stops_the_rest(void **state)
{
	(void)state;
	atomic_int calls = 0;
	assert_int_equal(
		taut_parallel_for(1000, 1, fail_at_three, &calls, NULL),
		TAUT_EIO);
	assert_int_equal(calls, 4);
}

struct meeting {
	pthread_mutex_t lock;
	pthread_cond_t all_here;
	unsigned here, wanted;
};

/* Returns only when as many calls run at once as were asked for, or fails
 * after ten seconds. */
static taut_status wait_for_all(
	void *context, size_t index, struct taut_error *err)
{
	(void)index, (void)err;
	struct meeting *meeting = context;
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	int late = 0;
	pthread_mutex_lock(&meeting->lock);
	if (++meeting->here == meeting->wanted)
		pthread_cond_broadcast(&meeting->all_here);
	while (meeting->here < meeting->wanted && !late)
		late = pthread_cond_timedwait(
			&meeting->all_here, &meeting->lock, &until);
	pthread_mutex_unlock(&meeting->lock);
	return late ? TAUT_EAGAIN : TAUT_OK;
}

static void test_threads_run_at_once(void **state)
{
	(void)state;
	struct meeting meeting = { PTHREAD_MUTEX_INITIALIZER,
		PTHREAD_COND_INITIALIZER, 0, 4 };
	assert_int_equal(
		taut_parallel_for(4, 4, wait_for_all, &meeting, NULL), TAUT_OK);
}

static void test_cores_respect_affinity(void **state)
{
	(void)state;
	cpu_set_t before, one;
	assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
	assert_int_equal(taut_cores(), CPU_COUNT(&before));
	int cpu = 0;
	while (!CPU_ISSET(cpu, &before))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	assert_int_equal(taut_cores(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_index_once),
		cmocka_unit_test(test_nothing_to_do),
		cmocka_unit_test(test_lowest_failing_index_wins),
		cmocka_unit_test(test_failure_stops_the_rest),
		cmocka_unit_test(test_threads_run_at_once),
		cmocka_unit_test(test_cores_respect_affinity),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
