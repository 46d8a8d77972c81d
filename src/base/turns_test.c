/* Long turns are asked for by one thread, for itself alone, and change nothing else. */
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
	assert_int_equal(told[1].policy, told[0].policy);
	assert_int_equal(told[1].nice, told[0].nice);
	assert_int_equal(tauti_turns_now().turn_ns, mine.turn_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_one_thread),
	};

	return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
