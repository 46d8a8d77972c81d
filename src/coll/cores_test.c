/* Cores that ranks may use together, against cases worked out by hand. */
#include "tests/support/unit.h"

#include <sched.h>

#include "coll/coll.h"

/* A core is enough for one, whoever may use it; none is counted twice. */
static void test_union(void **state)
{
	struct tauti_cores cores[3] = { { .may_use = { 0x3 } },
		{ .may_use = { 0x6 } }, { .may_use = { 0, 1 } } };

	(void)state;
	assert_true(tauti_cores_enough(cores, 1, 2));
	assert_false(tauti_cores_enough(cores, 1, 3));
	assert_true(tauti_cores_enough(cores, 2, 3));
	assert_false(tauti_cores_enough(cores, 2, 4));
	assert_true(tauti_cores_enough(cores, 3, 4));
	assert_false(tauti_cores_enough(cores, 3, 5));
}

/* Time that a control group grants is shared by who is in it. */
static void test_limits(void **state)
{
	struct tauti_cores cores[4] = { { .may_use = { 0xff } },
		{ .may_use = { 0xff } }, { .may_use = { 0xff } },
		{ .may_use = { 0xff } } };

	(void)state;
	for (int i = 0; i < 4; i++) {
		cores[i].limit = 2000;
		cores[i].group = 7;
	}
	assert_true(tauti_cores_enough(cores, 2, 2));
	assert_false(tauti_cores_enough(cores, 3, 3));
	cores[1].group = cores[3].group = 8; /* two and two */
	assert_true(tauti_cores_enough(cores, 4, 4));
	cores[3].limit = cores[1].limit = 1500;
	assert_false(tauti_cores_enough(cores, 4, 4));
	assert_true(tauti_cores_enough(cores, 4, 3));
	cores[3].limit = 0; /* outside of any */
	assert_true(tauti_cores_enough(cores, 4, 4));
}

/* A process that is bound to one core tells that one. */
static void test_here(void **state)
{
	struct tauti_cores cores;
	cpu_set_t before, one;
	int core = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
	while (!CPU_ISSET(core, &before))
		core++;
	CPU_ZERO(&one);
	CPU_SET(core, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	tauti_cores_tell(&cores);
	for (int i = 0; i < TAUTI_CORE_WORDS; i++)
		assert_true(cores.may_use[i] == (i == core / 64 ?
			UINT64_C(1) << core % 64 : 0));
	assert_false(tauti_cores_enough_here(2));
	assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_union),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
