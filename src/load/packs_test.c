/* Pieces are apart, aligned, and what they lay in goes back with the last of them. */
#include "tests/support/unit.h"

#include <string.h>

#include "load/draw.h"
#include "load/packs.h"

enum { PIECES = 400 };

struct piece {
	unsigned char *at;
	size_t bytes;
	struct tauti_pack *pack;
};

static void take(struct tauti_packs *packs, struct piece *piece, size_t bytes, int fill)
{
	piece->bytes = bytes;
	piece->at = tauti_packs_take(packs, bytes, &piece->pack);
	assert_non_null(piece->at);
	assert_int_equal((uintptr_t)piece->at % 16, 0);
	for (size_t i = 0; i < bytes; i += bytes / 9 + 1)
		assert_int_equal(piece->at[i], 0);
	memset(piece->at, fill, bytes);
}

static void give(struct tauti_packs *packs, struct piece *piece, int fill)
{
	for (size_t i = 0; i < piece->bytes; i++)
		if (piece->at[i] != fill)
			fail_msg("byte %zu of %zu was written over", i, piece->bytes);
	tauti_packs_give(packs, piece->pack);
}

/* Small ones and such that have a pack alone; given back as they were taken: what is held
 * is never more than what is not given back, and some packs. */
static void test_in_order(void **state)
{
	struct tauti_draw draw = tauti_draw_begin(1, 1, 1);
	struct piece pieces[PIECES];
	struct tauti_packs packs;
	uint64_t all = 0;

	(void)state;
	tauti_packs_init(&packs);
	assert_int_equal(packs.bytes, 0);
	for (int i = 0; i < PIECES; i++) {
		uint64_t most = i % 50 ? 100000 : 3 << 20;

		take(&packs, &pieces[i], 1 + tauti_draw_below(&draw, most), i & 255);
		all += pieces[i].bytes;
	}
	assert_in_range(packs.bytes, all, all * 5 / 4 + TAUTI_PACK_BYTES);
	for (int i = 0; i < PIECES; i++) {
		give(&packs, &pieces[i], i & 255);
		all -= pieces[i].bytes;
		assert_in_range(packs.bytes, all, all * 5 / 4 + 2 * TAUTI_PACK_BYTES);
	}
	assert_int_equal(packs.bytes, TAUTI_PACK_BYTES);
	tauti_packs_fini(&packs);
	assert_int_equal(packs.bytes, 0);
}

static void test_too_much(void **state)
{
	struct tauti_packs packs;
	struct tauti_pack *pack;

	(void)state;
	tauti_packs_init(&packs);
	assert_null(tauti_packs_take(&packs, SIZE_MAX, &pack));
	assert_null(tauti_packs_take(&packs, SIZE_MAX / 4, &pack));
	assert_int_equal(packs.bytes, 0);
	tauti_packs_fini(&packs);
}

struct many {
	struct tauti_packs packs;
	struct piece pieces[PIECES];
};

static taut_status take_one(void *context, size_t i, struct taut_error *err)
{
	struct many *many = context;

	(void)err;
	take(&many->packs, &many->pieces[i], 1 + i * 97 % 50000, (int)(i & 255));
	if (i % 2)
		give(&many->packs, &many->pieces[i], (int)(i & 255));
	return TAUT_OK;
}

static void test_threads(void **state)
{
	static struct many many;

	(void)state;
	tauti_packs_init(&many.packs);
	assert_int_equal(taut_parallel_for(PIECES, 4, take_one, &many, NULL), TAUT_OK);
	for (int i = 0; i < PIECES; i += 2)
		give(&many.packs, &many.pieces[i], i & 255);
	assert_int_equal(many.packs.bytes, TAUTI_PACK_BYTES);
	tauti_packs_fini(&many.packs);
	assert_int_equal(many.packs.bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
