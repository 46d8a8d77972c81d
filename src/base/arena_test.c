#include "tests/support/unit.h"

#include <stdalign.h>
#include <string.h>

#include <taut/base.h>

#include "tests/support/alloc_fail.h"

static void test_objects_are_aligned_and_apart(void **state)
{
	(void)state;
	struct taut_arena *arena = taut_arena_create();
	unsigned char *objects[300];
	for (size_t i = 0; i < 300; i++) {
		objects[i] = taut_arena_alloc(arena, i);
		assert_non_null(objects[i]);
		assert_int_equal(
			(uintptr_t)objects[i] % alignof(max_align_t), 0);
		memset(objects[i], (int)i, i);
	}
	for (size_t i = 0; i < 300; i++) {
		for (size_t at = 0; at < i; at++)
			assert_int_equal(objects[i][at], i & 0xff);
	}
	taut_arena_destroy(arena);
}

static void test_calloc_clears_used_memory(void **state)
{
	(void)state;
	const size_t sizes[] = { 1, 16, 100, 1000, 5000, 1 << 20 };
	struct taut_arena *arena = taut_arena_create();
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		unsigned char *bytes = taut_arena_calloc(arena, sizes[i], 1);
		for (size_t at = 0; at < sizes[i]; at++)
			assert_int_equal(bytes[at], 0);
		memset(bytes, 0xff, sizes[i]);
	}
	taut_arena_destroy(arena);
}

static void test_sizes_that_overflow(void **state)
{
	(void)state;
	struct taut_arena *arena = taut_arena_create();
	assert_null(taut_arena_calloc(arena, SIZE_MAX / 2, 3));
	assert_null(taut_arena_calloc(arena, SIZE_MAX, 1));
	assert_null(taut_arena_alloc(arena, SIZE_MAX));
	assert_null(taut_arena_alloc(arena, SIZE_MAX - 20));
	assert_null(taut_arena_strndup(arena, "a", SIZE_MAX));
	assert_non_null(taut_arena_alloc(arena, 8));
	taut_arena_destroy(arena);
}

static void test_a_million_objects_cost_few_blocks(void **state)
{
	(void)state;
	const size_t sizes[] = { 1, 24, 600, 2000 };
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		struct taut_arena *arena = taut_arena_create();
		for (int i = 0; i < 1000000 / (int)(1 + s * s); i++)
			assert_non_null(taut_arena_alloc(arena, sizes[s]));
		assert_true(taut_arena_blocks(arena) < 30);
		taut_arena_destroy(arena);
	}
}

static void test_large_object_keeps_the_open_block(void **state)
{
	(void)state;
	struct taut_arena *arena = taut_arena_create();
	char *before = taut_arena_alloc(arena, 16);
	assert_non_null(taut_arena_alloc(arena, 1 << 20));
	size_t blocks = taut_arena_blocks(arena);
	char *after = taut_arena_alloc(arena, 16);
	assert_int_equal(taut_arena_blocks(arena), blocks);
	assert_true(after > before && after - before < 64);
	assert_true(taut_arena_bytes(arena) < (1 << 20) + (64 << 10));
	taut_arena_destroy(arena);
}

static void test_texts(void **state)
{
	(void)state;
	struct taut_arena *arena = taut_arena_create();
	char *copy = taut_arena_strndup(arena, "abcdef", 3);
	assert_string_equal(copy, "abc");
	assert_string_equal(taut_arena_strndup(arena, NULL, 0), "");
	char *text = taut_arena_printf(arena, "%s-%05d", "rank", 12);
	assert_string_equal(text, "rank-00012");
	char *wide = taut_arena_printf(arena, "%5000d", 1);
	assert_int_equal(strlen(wide), 5000);
	taut_arena_destroy(arena);
}

static int build_all(struct taut_arena *arena)
{
	for (int i = 0; i < 2000; i++) {
		if (!taut_arena_calloc(arena, (size_t)i, 3) ||
			!taut_arena_strndup(arena, "text", 4) ||
			!taut_arena_printf(arena, "%d", i))
			return 0;
	}
	return taut_arena_alloc(arena, 1 << 22) != NULL;
}

/* Every request fails once: nothing crashes, nothing leaks (under ASan). */
static void test_every_failing_request(void **state)
{
	(void)state;
	long n = 0;
	for (int done = 0; !done; n++) {
		alloc_fail_after(n);
		struct taut_arena *arena = taut_arena_create();
		done = arena && build_all(arena);
		alloc_fail_never();
		if (arena && !done)
			assert_true(build_all(arena));
		taut_arena_destroy(arena);
	}
	assert_true(n > 5 && n < 100);
	taut_arena_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_objects_are_aligned_and_apart),
		cmocka_unit_test(test_calloc_clears_used_memory),
		cmocka_unit_test(test_sizes_that_overflow),
		cmocka_unit_test(test_a_million_objects_cost_few_blocks),
		cmocka_unit_test(test_large_object_keeps_the_open_block),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_every_failing_request),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
