/* What crossing the barrier can give, by cases worked out by hand. */
#include "tests/support/unit.h"

#include <math.h>

#include <taut/sync.h>

static void expect(int64_t f, int64_t b, int64_t c, int64_t overlapped,
	int64_t crossed, double gain)
{
	struct taut_sync_bound bound = taut_sync_bound(f, b, c, 0);

	assert_true(bound.overlapped_ns == overlapped);
	assert_true(bound.crossed_ns == crossed);
	assert_true(fabs(bound.most_gain - gain) < 1e-12);
}

static void test_cases(void **state)
{
	(void)state;
	expect(10, 20, 0, 30, 30, 1);
	expect(10, 20, 15, 30, 30, 1); /* hidden behind the backward pass */
	expect(10, 20, 20, 30, 30, 1);
	expect(10, 20, 25, 35, 30, 35.0 / 30);
	expect(10, 20, 30, 40, 30, 4.0 / 3); /* the most for b = 2 f */
	expect(10, 20, 60, 70, 60, 7.0 / 6);
	expect(10, 0, 10, 20, 10, 2); /* the most there is */
	expect(0, 0, 0, 0, 0, 1);
	expect(-5, 20, 10, 20, 20, 1);
}

/* What waits behind the backward pass counts, where it is more than C - b. */
static void test_exposed(void **state)
{
	struct taut_sync_bound bound = taut_sync_bound(10, 20, 15, 6);

	(void)state;
	assert_true(bound.overlapped_ns == 36 && bound.crossed_ns == 30);
	bound = taut_sync_bound(10, 20, 30, 6); /* C - b is more */
	assert_true(bound.overlapped_ns == 40 && bound.crossed_ns == 30);
	bound = taut_sync_bound(10, 20, 30, 15);
	assert_true(bound.overlapped_ns == 45 && bound.crossed_ns == 30);
	bound = taut_sync_bound(10, 20, 15, -6);
	assert_true(bound.overlapped_ns == 30 && bound.most_gain == 1);
}

/* At no times is it more than 1 + f / (f + b), and it never falls below 1. */
static void test_most(void **state)
{
	const int64_t f = 70, b = 130;

	(void)state;
	for (int64_t c = 0; c < 1000; c += 7) {
		struct taut_sync_bound bound = taut_sync_bound(f, b, c, 0);

		assert_true(bound.most_gain >= 1);
		assert_true(bound.most_gain <= 1 + 70.0 / 200 + 1e-12);
	}
	expect(f, b, f + b, 2 * f + b, f + b, 1 + 70.0 / 200);
	assert_true(taut_sync_bound(INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX)
		.crossed_ns > 0);
}

static void test_pieces(void **state)
{
	const uint64_t kib = 1024, mib = 1 << 20;
	const int64_t ms = 1000000;

	(void)state;
	/* 31 bytes a microsecond, of 248 Mbit/s: 77.5 kB in 2.5 ms */
	assert_true(taut_sync_piece_bytes(31000000, 1000 * ms) == 64 * kib);
	/* the nearest by its logarithm, on both sides of sqrt(2) 64 KiB */
	assert_true(taut_sync_piece_bytes(92681, 2500000) == 64 * kib);
	assert_true(taut_sync_piece_bytes(92683, 2500000) == 128 * kib);
	/* 10 Gbit/s, and 10 Mbit/s */
	assert_true(taut_sync_piece_bytes(1250000000, 1000 * ms) == mib);
	assert_true(taut_sync_piece_bytes(1250000, 1000 * ms) == 32 * kib);
	assert_true(taut_sync_piece_bytes(UINT64_MAX, 1) == mib);
	assert_true(taut_sync_piece_bytes(1, INT64_MAX) == 32 * kib);
	assert_true(taut_sync_piece_bytes(0, ms) == mib);
	assert_true(taut_sync_piece_bytes(mib, 0) == mib);
	assert_true(taut_sync_piece_bytes(mib, -1) == mib);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_exposed),
		cmocka_unit_test(test_most),
		cmocka_unit_test(test_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
