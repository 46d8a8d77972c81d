/* Which host has which item: evenly by weight, the same wherever it is found out. */
#include "tests/support/unit.h"

#include <string.h>

#include "load/draw.h"
#include "peers/split.h"
#include "tests/support/alloc_fail.h"

enum { ITEMS = 20000, HOSTS = 7 };

static uint64_t most_bytes;

static uint64_t bytes_of(void *context, uint64_t item)
{
	struct tauti_draw draw = tauti_draw_begin(*(const uint64_t *)context, 0, item);

	return tauti_draw_below(&draw, most_bytes);
}

static uint64_t room_of(uint64_t bytes)
{
	return bytes ? (bytes + 63) / 64 * 64 : 64;
}

/* No host has more than its part and one item. */
static void check_even(uint64_t seed, const uint64_t *weights, uint32_t n_hosts)
{
	uint64_t has[HOSTS] = { 0 }, all = 0, weight = 0, most = 0;
	struct tauti_split split;

	assert_int_equal(tauti_split_init(
		&split, ITEMS, bytes_of, &seed, weights, n_hosts, NULL), TAUT_OK);
	for (uint64_t i = 0; i < ITEMS; i++) {
		uint64_t room = room_of(bytes_of(&seed, i));

		assert_in_range(tauti_split_owner(&split, i), 0, n_hosts - 1);
		has[tauti_split_owner(&split, i)] += room;
		all += room;
		most = room > most ? room : most;
	}
	for (uint32_t h = 0; h < n_hosts; h++)
		weight += weights[h];
	for (uint32_t h = 0; h < n_hosts; h++) {
		double part = (double)all * (double)weights[h] / (double)weight;

		assert_true((double)has[h] < part + (double)most + 1);
		assert_true((double)has[h] > part - (double)most * n_hosts - 1);
	}
	tauti_split_fini(&split);
}

static void evenly(void **state)
{
	static const uint64_t same[HOSTS] = { 1, 1, 1, 1, 1, 1, 1 };
	static const uint64_t other[HOSTS] = { UINT64_C(200) << 30, UINT64_C(50) << 30,
		UINT64_C(400) << 30, 1 << 20, UINT64_C(200) << 30, 3, 1 };

	(void)state;
	for (uint32_t n = 1; n <= HOSTS; n++) {
		most_bytes = 200000;
		check_even(n, same, n);
		check_even(n, other, n);
		most_bytes = 2; /* half of them have no byte */
		check_even(n, same, n);
	}
}

/* Two who find it out agree; neighbours of one size are on different hosts. */
static void agreed(void **state)
{
	static const uint64_t weights[2] = { 5, 5 };
	struct tauti_split a, b;
	uint64_t seed = 3;

	(void)state;
	most_bytes = 100000;
	assert_int_equal(tauti_split_init(
		&a, ITEMS, bytes_of, &seed, weights, 2, NULL), TAUT_OK);
	assert_int_equal(tauti_split_init(
		&b, ITEMS, bytes_of, &seed, weights, 2, NULL), TAUT_OK);
	assert_memory_equal(a.owner, b.owner, ITEMS * sizeof *a.owner);
	tauti_split_fini(&a);
	tauti_split_fini(&b);
	most_bytes = 1;
	assert_int_equal(tauti_split_init(
		&a, 10, bytes_of, &seed, weights, 2, NULL), TAUT_OK);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(tauti_split_owner(&a, i), i % 2);
	tauti_split_fini(&a);
}

static void no_memory(void **state)
{
	static const uint64_t weights[2] = { 1, 1 };
	struct tauti_split split = { .owner = NULL };
	uint64_t seed = 1;

	(void)state;
	for (long n = 0; n < 2; n++) {
		alloc_fail_after(n);
		assert_int_equal(tauti_split_init(
			&split, 10, bytes_of, &seed, weights, 2, NULL), TAUT_ENOMEM);
		alloc_fail_never();
	}
	tauti_split_fini(&split);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evenly),
		cmocka_unit_test(agreed),
		cmocka_unit_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
