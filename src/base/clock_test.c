#include "tests/support/unit.h"

#include <time.h>

#include <taut/base.h>

static void test_never_runs_backward(void **state)
{
	(void)state;
	struct taut_clock clock = taut_clock_monotonic();
	int64_t last = clock.now_ns(clock.state);
	for (int i = 0; i < 100000; i++) {
		int64_t now = clock.now_ns(clock.state);
		assert_true(now >= last);
		last = now;
	}
}

static void test_counts_nanoseconds(void **state)
{
	(void)state;
	struct taut_clock clock = taut_clock_monotonic();
	int64_t before = clock.now_ns(clock.state);
	nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	int64_t passed = clock.now_ns(clock.state) - before;
	assert_true(passed >= 20000000);
	assert_true(passed < INT64_C(10) * 1000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never_runs_backward),
		cmocka_unit_test(test_counts_nanoseconds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
