/* The set against an array of flags. */
#include "tests/support/unit.h"

#include <string.h>

#include "sched/bits.h"
#include "tests/support/alloc_fail.h"

static uint32_t least(const unsigned char *flags, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (flags[i])
			return i;
	return TAUT_NONE;
}

static void check_size(uint32_t n)
{
	static unsigned char flags[300000];
	struct tauti_bits bits;
	uint64_t x = n;

	memset(flags, 0, n);
	assert_true(tauti_bits_init(&bits, n));
	assert_int_equal(tauti_bits_first(&bits), TAUT_NONE);
	for (int i = 0; i < 400; i++) {
		uint32_t number;

		x = x * 6364136223846793005u + 1442695040888963407u;
		number = (uint32_t)((x >> 33) % n);
		assert_int_equal(tauti_bits_has(&bits, number), flags[number]);
		/* First more come than go, then the least goes each time. */
		if (i >= 200)
			number = least(flags, n);
		if (i < 200 && x >> 63 == 0) {
			tauti_bits_set(&bits, number);
			flags[number] = 1;
		} else if (number != TAUT_NONE) {
			tauti_bits_clear(&bits, number);
			flags[number] = 0;
		}
		assert_int_equal(tauti_bits_first(&bits), least(flags, n));
	}
	assert_int_equal(tauti_bits_first(&bits), TAUT_NONE);
	tauti_bits_fini(&bits);
}

static void test_sizes(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 63, 64, 65, 4095, 4096, 4097,
		262144, 262145 };

	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		check_size(sizes[i]);
}

static void test_memory(void **state)
{
	struct tauti_bits bits;

	(void)state;
	alloc_fail_after(0);
	assert_false(tauti_bits_init(&bits, 10));
	alloc_fail_never();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
