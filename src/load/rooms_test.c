/* Rooms are apart, aligned, used again, and bounded when they are not used. */
#include "tests/support/unit.h"

#include <string.h>

#include "load/draw.h"
#include "load/rooms.h"
#include "tests/support/alloc_fail.h"

static void test_apart(void **state)
{
	enum { N = 64 };
	struct tauti_rooms *rooms = tauti_rooms_create(1 << 20);
	struct tauti_draw draw = tauti_draw_begin(1, 1, 1);
	unsigned char *held[N] = { 0 };
	uint64_t bytes[N];

	(void)state;
	assert_non_null(rooms);
	for (int turn = 0; turn < 5000; turn++) {
		uint64_t i = tauti_draw_below(&draw, N);

		if (held[i]) {
			for (uint64_t k = 0; k < bytes[i]; k += bytes[i] / 7 + 1)
				assert_int_equal(held[i][k], i);
			assert_int_equal(held[i][bytes[i] - 1], i);
			tauti_rooms_give(rooms, held[i]);
			held[i] = NULL;
			continue;
		}
		bytes[i] = 1 + tauti_draw_below(&draw, 40000);
		held[i] = tauti_rooms_take(rooms, bytes[i]);
		assert_non_null(held[i]);
		assert_int_equal((uintptr_t)held[i] % 64, 0);
		memset(held[i], (int)i, bytes[i]);
	}
	for (int i = 0; i < N; i++)
		tauti_rooms_give(rooms, held[i]);
	tauti_rooms_destroy(rooms);
}

/* Sizes around each class's end: the same room serves what fits, and nothing larger. */
static void test_sizes(void **state)
{
	struct tauti_rooms *rooms = tauti_rooms_create(UINT64_C(1) << 40);

	(void)state;
	assert_non_null(rooms);
	for (uint64_t bits = 12; bits < 22; bits++)
		for (uint64_t quarter = 4; quarter < 8; quarter++) {
			uint64_t bytes = quarter << (bits - 2);
			char *room = tauti_rooms_take(rooms, bytes), *again;

			assert_non_null(room);
			memset(room, 1, bytes);
			tauti_rooms_give(rooms, room);
			again = tauti_rooms_take(rooms, bytes - 1);
			assert_ptr_equal(again, room);
			room = tauti_rooms_take(rooms, bytes + 1);
			assert_ptr_not_equal(again, room);
			tauti_rooms_give(rooms, again);
			tauti_rooms_give(rooms, room);
		}
	assert_null(tauti_rooms_take(rooms, UINT64_MAX));
	tauti_rooms_give(rooms, NULL);
	tauti_rooms_destroy(rooms);
}

/* What is kept is used without a request; beyond the bound nothing is kept. */
static void test_bound(void **state)
{
	struct tauti_rooms *rooms = tauti_rooms_create(8192);
	void *a, *b, *c;

	(void)state;
	assert_non_null(rooms);
	a = tauti_rooms_take(rooms, 4096);
	b = tauti_rooms_take(rooms, 4096);
	c = tauti_rooms_take(rooms, 4096);
	tauti_rooms_give(rooms, a); /* 12,288 in all: given to the system */
	tauti_rooms_give(rooms, b);
	tauti_rooms_give(rooms, c);
	alloc_fail_after(2);
	a = tauti_rooms_take(rooms, 4096);
	b = tauti_rooms_take(rooms, 4096);
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(alloc_fail_count(), 0);
	alloc_fail_after(0);
	assert_null(tauti_rooms_take(rooms, 4096));
	assert_null(tauti_rooms_create(1));
	alloc_fail_never();
	tauti_rooms_give(rooms, a);
	tauti_rooms_give(rooms, b);
	tauti_rooms_destroy(rooms);
	tauti_rooms_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
