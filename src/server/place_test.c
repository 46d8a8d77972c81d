/* Where parts live: cut, spread, the same whatever the order of declaration. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/server.h>

#include "tests/support/alloc_fail.h"

static void test_cut(void **state)
{
	const struct taut_server_key keys[] = {
		{ "b", TAUT_FLOAT32, 100 }, { "a", TAUT_FLOAT64, 17 } };
	struct taut_server_part *parts;
	size_t n;

	(void)state;
	assert_int_equal(taut_server_place(keys, 2, 128, 2, &parts, &n, NULL),
		TAUT_OK);
	/* a: 16 + 1 doubles; b: 3 x 32 + 4 floats */
	assert_int_equal(n, 6);
	assert_int_equal(parts[0].key, 1);
	assert_int_equal(parts[0].count, 16);
	assert_int_equal(parts[1].first, 16);
	assert_int_equal(parts[1].count, 1);
	assert_int_equal(parts[5].key, 0);
	assert_int_equal(parts[5].first, 96);
	assert_int_equal(parts[5].count, 4);
	/* 128 each: a0 to 0, b0 to 1, b1 to 0, b2 to 1; 16: b3 to 0; 8: a1 to 1 */
	assert_int_equal(parts[0].server, 0);
	assert_int_equal(parts[2].server, 1);
	assert_int_equal(parts[3].server, 0);
	assert_int_equal(parts[4].server, 1);
	assert_int_equal(parts[5].server, 0);
	assert_int_equal(parts[1].server, 1);
	free(parts);
}

enum { KEYS = 40 };

static void make_keys(char names[KEYS][16], struct taut_server_key *keys,
	uint64_t seed)
{
	for (int i = 0; i < KEYS; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		snprintf(names[i], 16, "layer%d.w", i * 7 % KEYS);
		keys[i] = (struct taut_server_key){ names[i],
			seed >> 40 & 1 ? TAUT_FLOAT16 : TAUT_FLOAT64,
			1 + (seed >> 33) % 3000 };
	}
}

/* All elements once, and no server more than one part above another. */
static void check_spread(const struct taut_server_key *keys,
	const struct taut_server_part *parts, size_t n, uint64_t part_bytes,
	uint32_t n_servers)
{
	uint64_t have[KEYS] = { 0 }, load[8] = { 0 };

	for (size_t i = 0; i < n; i++) {
		uint64_t bytes = parts[i].count *
			taut_type_bytes(keys[parts[i].key].type);

		assert_int_equal(parts[i].first, have[parts[i].key]);
		have[parts[i].key] += parts[i].count;
		assert_true(bytes && bytes <= part_bytes);
		load[parts[i].server] += bytes;
	}
	for (int i = 0; i < KEYS; i++)
		assert_int_equal(have[i], keys[i].count);
	for (uint32_t a = 0; a < n_servers; a++)
		for (uint32_t b = 0; b < n_servers; b++)
			assert_true(load[a] <= load[b] + part_bytes);
}

static void test_spread(void **state)
{
	struct taut_server_key keys[KEYS], turned[KEYS];
	struct taut_server_part *parts, *others;
	char names[KEYS][16];
	size_t n, m;

	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		uint32_t n_servers = 1 + seed % 8;
		uint64_t part_bytes = 64 << seed % 7;

		make_keys(names, keys, seed);
		assert_int_equal(taut_server_place(keys, KEYS, part_bytes,
			n_servers, &parts, &n, NULL), TAUT_OK);
		check_spread(keys, parts, n, part_bytes, n_servers);
		for (int i = 0; i < KEYS; i++)
			turned[i] = keys[KEYS - 1 - i];
		assert_int_equal(taut_server_place(turned, KEYS, part_bytes,
			n_servers, &others, &m, NULL), TAUT_OK);
		assert_int_equal(n, m);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(parts[i].key, KEYS - 1 - others[i].key);
			assert_int_equal(parts[i].first, others[i].first);
			assert_int_equal(parts[i].server, others[i].server);
		}
		free(parts);
		free(others);
	}
}

static void test_refused(void **state)
{
	struct taut_server_key keys[] = { { "a", TAUT_FLOAT32, 1 },
		{ "a", TAUT_FLOAT32, 2 } };
	struct taut_server_part *parts = NULL;
	struct taut_error err;
	size_t n;

	(void)state;
	assert_int_equal(taut_server_place(keys, 2, 64, 1, &parts, &n, &err),
		TAUT_EINVAL);
	assert_string_equal(err.message, "key 'a' is there twice");
	keys[1] = (struct taut_server_key){ "b", TAUT_FLOAT32, 0 };
	assert_int_equal(taut_server_place(keys, 2, 64, 1, &parts, &n, &err),
		TAUT_EINVAL);
	keys[1] = (struct taut_server_key){ "b", TAUT_FLOAT32,
		UINT64_C(1) << 40 };
	assert_int_equal(taut_server_place(keys, 2, 64, 1, &parts, &n, &err),
		TAUT_EINVAL);
	assert_int_equal(taut_server_place(keys, 1, 64, 0, &parts, &n, &err),
		TAUT_EINVAL);
	assert_null(parts);
	for (long i = 0;; i++) {
		alloc_fail_after(i);
		if (taut_server_place(keys, 1, 64, 3, &parts, &n, NULL) == TAUT_OK)
			break;
		assert_null(parts);
	}
	alloc_fail_never();
	free(parts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
