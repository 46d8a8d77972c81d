#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/base.h>

#include "base/hash.h"
#include "tests/support/alloc_fail.h"

static uint32_t add(struct taut_names *names, const char *text)
{
	return taut_names_add(names, text, strlen(text));
}

static void test_ids_are_dense_and_stable(void **state)
{
	(void)state;
	struct taut_names *names = taut_names_create();
	assert_int_equal(taut_names_count(names), 1);
	assert_int_equal(add(names, ""), 0);
	assert_int_equal(taut_names_add(names, NULL, 0), 0);
	assert_int_equal(add(names, "aten::mm"), 1);
	assert_int_equal(add(names, "aten::add"), 2);
	assert_int_equal(add(names, "aten::mm"), 1);
	assert_int_equal(taut_names_count(names), 3);
	assert_string_equal(taut_names_text(names, 2), "aten::add");
	assert_int_equal(taut_names_length(names, 2), 9);
	taut_names_destroy(names);
}

static void test_find_adds_nothing(void **state)
{
	(void)state;
	struct taut_names *names = taut_names_create();
	assert_int_equal(taut_names_find(names, "x", 1), TAUT_NONE);
	assert_int_equal(taut_names_count(names), 1);
	uint32_t id = add(names, "x");
	assert_int_equal(taut_names_find(names, "x", 1), id);
	assert_int_equal(taut_names_find(names, "", 0), 0);
	taut_names_destroy(names);
}

static void test_ids_outside_read_as_empty(void **state)
{
	(void)state;
	struct taut_names *names = taut_names_create();
	assert_string_equal(taut_names_text(names, 1), "");
	assert_string_equal(taut_names_text(names, TAUT_NONE), "");
	assert_int_equal(taut_names_length(names, TAUT_NONE), 0);
	taut_names_destroy(names);
}

/* Zero bytes count, and a prefix is another name. */
static void test_any_bytes(void **state)
{
	(void)state;
	struct taut_names *names = taut_names_create();
	uint32_t ab = taut_names_add(names, "a\0b", 3);
	uint32_t ac = taut_names_add(names, "a\0c", 3);
	uint32_t a = taut_names_add(names, "a", 1);
	uint32_t a0 = taut_names_add(names, "a", 2);
	assert_int_equal(taut_names_count(names), 5);
	assert_memory_equal(taut_names_text(names, ab), "a\0b", 4);
	assert_memory_equal(taut_names_text(names, ac), "a\0c", 4);
	assert_int_equal(taut_names_length(names, a), 1);
	assert_int_equal(taut_names_length(names, a0), 2);
	taut_names_destroy(names);
}

static void test_many_names_keep_their_texts(void **state)
{
	(void)state;
	enum { N = 200000 };
	struct taut_names *names = taut_names_create();
	const char **texts = calloc(N, sizeof *texts);
	char text[64];
	for (uint32_t i = 0; i < N; i++) {
		int len = snprintf(text, sizeof text, "op_%u", i);
		assert_int_equal(
			taut_names_add(names, text, (size_t)len), i + 1);
		texts[i] = taut_names_text(names, i + 1);
	}
	for (uint32_t i = 0; i < N; i++) {
		int len = snprintf(text, sizeof text, "op_%u", i);
		assert_int_equal(
			taut_names_find(names, text, (size_t)len), i + 1);
		assert_ptr_equal(taut_names_text(names, i + 1), texts[i]);
		assert_string_equal(texts[i], text);
	}
	free(texts);
	taut_names_destroy(names);
}

/* Every length, so that each way through the hash and each way of keeping a
 * text is taken. */
static void test_every_length(void **state)
{
	(void)state;
	enum { LONGEST = 5000 };
	struct taut_names *names = taut_names_create();
	char *text = malloc(LONGEST);
	memset(text, 'k', LONGEST);
	for (size_t len = 1; len < LONGEST; len++)
		assert_int_equal(taut_names_add(names, text, len), len);
	for (size_t len = 1; len < LONGEST; len++) {
		uint32_t id = taut_names_find(names, text, len);
		assert_int_equal(id, len);
		assert_int_equal(taut_names_length(names, id), len);
		assert_int_equal(strlen(taut_names_text(names, id)), len);
	}
	free(text);
	taut_names_destroy(names);
}

/* One changed bit anywhere gives another hash, and about half of the bits of
 * the half that the table uses change. */
static void test_hash_spreads(void **state)
{
	(void)state;
	char text[65];
	memset(text, 'a', sizeof text);
	for (size_t len = 1; len <= sizeof text; len++) {
		uint32_t whole = (uint32_t)(tauti_hash(text, len) >> 32);
		unsigned flips = 0;
		for (size_t bit = 0; bit < len * 8; bit++) {
			text[bit / 8] ^= (char)(1 << bit % 8);
			uint32_t other = tauti_hash(text, len) >> 32;
			text[bit / 8] ^= (char)(1 << bit % 8);
			assert_int_not_equal(whole, other);
			flips += (unsigned)__builtin_popcount(whole ^ other);
		}
		double mean = flips / (double)(len * 8);
		assert_true(mean > 12 && mean < 20);
	}
}

static int fill(struct taut_names *names)
{
	char text[3000];
	memset(text, 'n', sizeof text);
	for (uint32_t i = 0; i < 3000; i++) {
		int len = snprintf(text, sizeof text, "%u", i);
		uint32_t id = taut_names_add(names, text, (size_t)len);
		if (id != TAUT_NONE && id != i + 1)
			return -1;
		if (id == TAUT_NONE)
			return 0;
		text[len] = 'n';
	}
	return taut_names_add(names, text, sizeof text) != TAUT_NONE;
}

static void test_every_failing_request(void **state)
{
	(void)state;
	long n = 0;
	for (int done = 0; !done; n++) {
		alloc_fail_after(n);
		struct taut_names *names = taut_names_create();
		done = names ? fill(names) : 0;
		alloc_fail_never();
		assert_int_not_equal(done, -1);
		/* What failed can be done again, with the same ids. */
		if (names && !done)
			assert_int_equal(fill(names), 1);
		taut_names_destroy(names);
	}
	assert_true(n > 10 && n < 1000);
	taut_names_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids_are_dense_and_stable),
		cmocka_unit_test(test_find_adds_nothing),
		cmocka_unit_test(test_ids_outside_read_as_empty),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_many_names_keep_their_texts),
		cmocka_unit_test(test_every_length),
		cmocka_unit_test(test_hash_spreads),
		cmocka_unit_test(test_every_failing_request),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
