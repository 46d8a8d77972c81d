/* How a thread is scheduled is asked for by itself, for itself alone, and changes nothing
 * else. */
#include "tests/support/unit.h"

#include "base/turns.h"

#include <pthread.h>

static void *take(void *context)
{
	struct tauti_turns *told = context;

	told[0] = tauti_turns_now();
	tauti_take_long_turns();
	told[1] = tauti_turns_now();
	return NULL;
}

static void test_of_one_thread(void **state)
{
	struct tauti_turns mine = tauti_turns_now(), told[2];
	pthread_t thread;

	(void)state;
	if (!mine.turn_ns)
		skip(); /* the system does not tell turns */
	assert_int_equal(pthread_create(&thread, NULL, take, told), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(told[1].turn_ns, 10000000);
	assert_true(told[0].turn_ns < told[1].turn_ns);
	assert_int_equal(told[0].policy, SCHED_OTHER);
	assert_int_equal(told[1].policy, SCHED_BATCH);
	assert_int_equal(told[1].nice, told[0].nice);
	assert_int_equal(tauti_turns_now().turn_ns, mine.turn_ns);
}

static void *wake_behind(void *context)
{
	struct tauti_turns *told = context;

	told[0] = tauti_turns_now();
	tauti_wake_behind();
	told[1] = tauti_turns_now();
	tauti_take_long_turns(); /* it is not scheduled as usual any more */
	told[2] = tauti_turns_now();
	return NULL;
}

static void test_behind_others(void **state)
{
	struct tauti_turns told[3];
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, wake_behind, told), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (!told[0].size)
		skip(); /* the system does not tell */
	assert_int_equal(told[1].policy, SCHED_BATCH);
	assert_int_equal(told[1].nice, told[0].nice);
	assert_int_equal(told[1].turn_ns, told[0].turn_ns);
	assert_int_equal(told[2].turn_ns, told[1].turn_ns);
	assert_int_equal(tauti_turns_now().policy, SCHED_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_one_thread),
		cmocka_unit_test(test_behind_others),
	};

	return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
