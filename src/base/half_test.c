/* Floats of 16 bits: each of them there and back, and what lies between two. */
#include "tests/support/unit.h"

#include <math.h>

#include "base/half.h"

enum { ALL = 1 << 16 };

static float half_by_hand(uint32_t h)
{
	int exponent = (int)(h >> 10 & 31);
	float fraction = (float)(h & 1023);
	float size = exponent ? ldexpf(fraction + 1024, exponent - 25) :
		ldexpf(fraction, -24);

	return h & 0x8000 ? -size : size;
}

static void test_half_exact(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < ALL; h++) {
		float value = tauti_float_of(tauti_of_half((uint16_t)h));

		if ((h & 0x7c00) == 0x7c00) {
			assert_true(h & 1023 ? isnan(value) : isinf(value));
			assert_int_equal(signbit(value) != 0, h >> 15);
			assert_int_equal(tauti_bits_of(value) >> 13 & 1023,
				h & 1023);
			continue;
		}
		assert_int_equal(tauti_bits_of(value),
			tauti_bits_of(half_by_hand(h)));
		assert_int_equal(tauti_to_half(value, 0x7e00), h);
	}
}

/* Halfway between two the even one, and beside that the nearer. */
static void test_half_rounds(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 0x7bff; h++) {
		float low = half_by_hand(h), high = half_by_hand(h + 1);
		float middle = low + (high - low) / 2;
		float less = nextafterf(middle, low);
		float more = nextafterf(middle, high);

		assert_int_equal(tauti_to_half(middle, 0), h + h % 2);
		assert_int_equal(tauti_to_half(less, 0), h);
		assert_int_equal(tauti_to_half(more, 0), h + 1);
		assert_int_equal(tauti_to_half(-more, 0), (h + 1) | 0x8000);
	}
	assert_int_equal(tauti_to_half(65519.9f, 0), 0x7bff);
	assert_int_equal(tauti_to_half(65520, 0), 0x7c00);
	assert_int_equal(tauti_to_half(INFINITY, 0), 0x7c00);
	assert_int_equal(tauti_to_half(-INFINITY, 0), 0xfc00);
	assert_int_equal(tauti_to_half(NAN, 0x7e01), 0x7e01);
}

static void test_bfloat(void **state)
{
	(void)state;
	for (uint32_t b = 0; b < 0x7f80; b++) {
		uint32_t x = tauti_of_bfloat((uint16_t)b);

		assert_int_equal(tauti_to_bfloat(x), b);
		assert_int_equal(tauti_to_bfloat(x + 0x8000), b + b % 2);
		assert_int_equal(tauti_to_bfloat(x + 0x7fff), b);
		assert_int_equal(tauti_to_bfloat(x + 0x8001), b + 1);
	}
	assert_int_equal(tauti_to_bfloat(0x7fc00000), 0x7fc0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_half_exact),
		cmocka_unit_test(test_half_rounds),
		cmocka_unit_test(test_bfloat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
