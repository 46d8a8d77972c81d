#include "tests/support/unit.h"

#include <taut/base.h>

#include "base/meter.h"

struct told {
	int times;
	uint64_t done, total;
};

static void remember(
	void *state, const char *what, uint64_t done, uint64_t total)
{
	struct told *told = state;
	assert_string_equal(what, "reading");
	assert_true(done >= told->done);
	told->times++;
	told->done = done;
	told->total = total;
}

static int64_t read_hand(void *state)
{
	return *(int64_t *)state;
}

static void test_tells_at_most_twenty_times_a_second(void **state)
{
	(void)state;
	struct told told = { 0 };
	int64_t now_ns = 0;
	struct tauti_meter meter;
	tauti_meter_init(&meter, (struct taut_progress){ remember, &told },
		(struct taut_clock){ read_hand, &now_ns }, "reading", 5000);
	for (int i = 0; i < 4000; i++) {
		now_ns += 1000000;
		tauti_meter_add(&meter, 1);
	}
	assert_int_equal(told.times, 80);
	tauti_meter_fini(&meter);
	assert_int_equal(told.times, 81);
	assert_int_equal(told.done, 4000);
	assert_int_equal(told.total, 5000);
}

static void test_done_never_passes_total(void **state)
{
	(void)state;
	struct told told = { 0 };
	struct tauti_meter meter;
	tauti_meter_init(&meter, (struct taut_progress){ remember, &told },
		taut_clock_monotonic(), "reading", 10);
	tauti_meter_add(&meter, 25);
	tauti_meter_fini(&meter);
	assert_int_equal(told.done, 10);
}

static void test_nobody_listens(void **state)
{
	(void)state;
	struct tauti_meter meter;
	tauti_meter_init(&meter, (struct taut_progress){ 0 },
		(struct taut_clock){ 0 }, "reading", 1);
	tauti_meter_add(&meter, 1);
	tauti_meter_fini(&meter);
}

static taut_status add_one(void *context, size_t index, struct taut_error *err)
{
	(void)index, (void)err;
	tauti_meter_add(context, 1);
	return TAUT_OK;
}

static void test_threads_lose_nothing(void **state)
{
	(void)state;
	struct told told = { 0 };
	struct tauti_meter meter;
	tauti_meter_init(&meter, (struct taut_progress){ remember, &told },
		taut_clock_monotonic(), "reading", 0);
	assert_int_equal(
		taut_parallel_for(50000, 4, add_one, &meter, NULL), TAUT_OK);
	tauti_meter_fini(&meter);
	assert_int_equal(told.done, 50000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tells_at_most_twenty_times_a_second),
		cmocka_unit_test(test_done_never_passes_total),
		cmocka_unit_test(test_nobody_listens),
		cmocka_unit_test(test_threads_lose_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
