/* The deal is a permutation, and shares of it are each item once: over all sizes, ranks,
 * batches, tails, and resumes to others. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "load/draw.h"
#include "load/order.h"

/* --- the deal ----------------------------------------------------------------------*/

static void test_permutations(void **state)
{
	static uint8_t seen[2000];

	(void)state;
	for (uint64_t n = 1; n <= 2000; n++) {
		struct tauti_deal deal = { n, n * 7919, true };
		uint64_t epoch = n % 5;

		memset(seen, 0, n);
		for (uint64_t p = 0; p < n; p++) {
			uint64_t item = tauti_deal_item(&deal, epoch, p);

			assert_true(item < n);
			assert_int_equal(seen[item]++, 0);
			assert_int_equal(
				tauti_deal_position(&deal, epoch, item), p);
		}
	}
}

static void test_large(void **state)
{
	static const uint64_t sizes[] = { 50000, 1281167, 14197122, UINT32_MAX,
		UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1,
		1000000000000000003, TAUTI_ITEMS_MOST - 1, TAUTI_ITEMS_MOST };
	struct tauti_draw draw = tauti_draw_begin(1, 2, 3);

	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct tauti_deal deal = { sizes[i], i, true };

		for (int k = 0; k < 5000; k++) {
			uint64_t p = k == 0 ? 0 : k == 1 ? sizes[i] - 1 :
				tauti_draw_below(&draw, sizes[i]);
			uint64_t item = tauti_deal_item(&deal, 9, p);

			assert_true(item < sizes[i]);
			assert_true(tauti_deal_position(&deal, 9, item) == p);
		}
	}
}

/* Worked out apart from this code: it must never change, or a run that goes on from a
 * checkpoint would see items twice. */
static void test_known(void **state)
{
	static const uint64_t known[3][10] = {
		{ 3, 1, 7, 5, 4, 2, 8, 9, 6, 0 },
		{ 1, 7, 5, 3, 0, 4, 8, 6, 2, 9 },
		{ 0, 4, 3, 6, 7, 5, 2, 9, 8, 1 },
	};
	static const uint64_t large[2][4] = {
		{ 938640, 632810, 1120213, 743391 },
		{ 2484170107050851222, 543527045992340801,
			3687931430265171788, 4433135913395665827 },
	};

	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		struct tauti_deal deal = { 10, i == 2, true };

		for (uint64_t p = 0; p < 10; p++)
			assert_int_equal(tauti_deal_item(&deal, i == 1, p),
				known[i][p]);
	}
	for (int i = 0; i < 2; i++) {
		uint64_t n = i ? TAUTI_ITEMS_MOST : 1281167;
		struct tauti_deal deal = { n, 7, true };

		for (uint64_t p = 0; p < 4; p++)
			assert_true(tauti_deal_item(&deal, 3,
				p < 3 ? p : n - 1) == large[i][p]);
	}
}

static void test_plain(void **state)
{
	struct tauti_deal deal = { 1000, 5, false };

	(void)state;
	for (uint64_t p = 0; p < 1000; p++) {
		assert_int_equal(tauti_deal_item(&deal, p, p), p);
		assert_int_equal(tauti_deal_position(&deal, p, p), p);
	}
}

/* --- shares, by hand ---------------------------------------------------------------*/

static void expect_batch(const struct tauti_share *share, uint64_t b, uint32_t n,
	const uint64_t *positions)
{
	assert_int_equal(tauti_share_count(share, b), n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(tauti_share_position(share, b, i), positions[i]);
}

/* 11 items, 3 ranks, batches of 2: one global batch and 5 left. */
static void test_by_hand(void **state)
{
	static const uint64_t firsts[3][2] = { { 0, 3 }, { 1, 4 }, { 2, 5 } };
	static const uint64_t seconds[3][2] = { { 6, 9 }, { 7, 10 }, { 8, 0 } };

	(void)state;
	for (uint32_t rank = 0; rank < 3; rank++) {
		struct tauti_share share = { 11, 0, 3, rank, 2, TAUTI_TAIL_KEEP };

		assert_int_equal(tauti_share_batches(&share), 2);
		assert_int_equal(tauti_share_items(&share), rank < 2 ? 4 : 3);
		expect_batch(&share, 0, 2, firsts[rank]);
		expect_batch(&share, 1, rank < 2 ? 2 : 1, seconds[rank]);
		assert_int_equal(tauti_share_consumed(&share, 0), 0);
		assert_int_equal(tauti_share_consumed(&share, 1), 6);
		assert_int_equal(tauti_share_consumed(&share, 2), 11);
		share.tail = TAUTI_TAIL_PAD;
		assert_int_equal(tauti_share_batches(&share), 2);
		assert_int_equal(tauti_share_items(&share), 4);
		expect_batch(&share, 1, 2, seconds[rank]);
		share.tail = TAUTI_TAIL_DROP;
		assert_int_equal(tauti_share_batches(&share), 1);
		assert_int_equal(tauti_share_items(&share), 2);
		expect_batch(&share, 0, 2, firsts[rank]);
		assert_int_equal(tauti_share_consumed(&share, 1), 6);
	}
}

/* Fewer items than ranks: an empty batch, or the same items again and again. */
static void test_few(void **state)
{
	(void)state;
	for (uint32_t rank = 0; rank < 5; rank++) {
		struct tauti_share share = { 2, 0, 5, rank, 8, TAUTI_TAIL_KEEP };

		assert_int_equal(tauti_share_batches(&share), 1);
		assert_int_equal(tauti_share_count(&share, 0), rank < 2);
		share.tail = TAUTI_TAIL_PAD;
		assert_int_equal(tauti_share_batches(&share), 1);
		assert_int_equal(tauti_share_count(&share, 0), 1);
		assert_int_equal(tauti_share_position(&share, 0, 0), rank % 2);
		share.tail = TAUTI_TAIL_DROP;
		assert_int_equal(tauti_share_batches(&share), 0);
		share.first_position = 2;
		for (int tail = 0; tail <= TAUTI_TAIL_PAD; tail++) {
			share.tail = (enum tauti_tail)tail;
			assert_int_equal(tauti_share_batches(&share), 0);
			assert_int_equal(tauti_share_consumed(&share, 0), 2);
		}
	}
}

static void expect_refused(struct tauti_share share, const char *why)
{
	struct taut_error err;

	assert_int_equal(tauti_share_check(&share, &err), TAUT_EINVAL);
	assert_int_equal(err.code, TAUT_EINVAL);
	assert_string_equal(err.message, why);
	assert_int_equal(tauti_share_check(&share, NULL), TAUT_EINVAL);
}

static void test_refused(void **state)
{
	struct tauti_share good = { 10, 10, 4, 3, 1, TAUTI_TAIL_PAD }, bad;
	struct taut_error err;

	(void)state;
	assert_int_equal(tauti_share_check(&good, &err), TAUT_OK);
	bad = good;
	bad.n_items = TAUTI_ITEMS_MOST + 1;
	expect_refused(bad, "order: 4611686018427387905 items, at most 2^62");
	bad = good;
	bad.first_position = 11;
	expect_refused(bad, "order: position 11 of an epoch of 10 items");
	bad = good;
	bad.rank = 4;
	expect_refused(bad, "order: rank 4 of 4, expected one below that");
	bad.rank = bad.n_ranks = 0;
	expect_refused(bad, "order: rank 0 of 0, expected one below that");
	bad = good;
	bad.batch = 0;
	expect_refused(bad, "order: batches of 0 items, expected at least 1");
	bad = good;
	bad.tail = (enum tauti_tail)3;
	expect_refused(bad, "order: tail 3 is none");
}

/* The largest of everything: no number overflows. */
static void test_limits(void **state)
{
	struct tauti_share share = { TAUTI_ITEMS_MOST, 0, UINT32_MAX,
		UINT32_MAX - 1, UINT32_MAX, TAUTI_TAIL_KEEP };
	uint32_t own = 1u << 30; /* 2^62 / (2^32 - 1) is that, and 2^30 are left */

	(void)state;
	assert_int_equal(tauti_share_check(&share, NULL), TAUT_OK);
	assert_int_equal(tauti_share_batches(&share), 1);
	assert_int_equal(tauti_share_count(&share, 0), own);
	assert_true(tauti_share_position(&share, 0, own - 1) ==
		(uint64_t)own * UINT32_MAX - 1);
	share.rank = 0;
	assert_int_equal(tauti_share_count(&share, 0), own + 1);
	share.tail = TAUTI_TAIL_DROP;
	assert_int_equal(tauti_share_batches(&share), 0);
	assert_int_equal(tauti_share_consumed(&share, 0), 0);
	share = (struct tauti_share){ TAUTI_ITEMS_MOST, 1, 1, 0, 1,
		TAUTI_TAIL_PAD };
	assert_true(tauti_share_batches(&share) == TAUTI_ITEMS_MOST - 1);
	assert_true(tauti_share_position(&share, TAUTI_ITEMS_MOST - 2, 0) ==
		TAUTI_ITEMS_MOST - 1);
}

/* --- ten thousand shared epochs ----------------------------------------------------*/

enum { MOST_ITEMS = 300 };

struct epoch {
	struct tauti_draw draw;
	struct tauti_deal deal;
	uint64_t number;
	enum tauti_tail tail;
	uint32_t seen[MOST_ITEMS]; /* by item */
};

static struct tauti_share draw_share(struct epoch *epoch, uint64_t position)
{
	struct tauti_share share = { .n_items = epoch->deal.n_items,
		.first_position = position,
		.n_ranks = 1 + (uint32_t)tauti_draw_below(&epoch->draw, 9),
		.batch = 1 + (uint32_t)tauti_draw_below(&epoch->draw, 20),
		.tail = epoch->tail };

	assert_int_equal(tauti_share_check(&share, NULL), TAUT_OK);
	return share;
}

/* What this rank is told must be what it should: sizes add up, places are in range. */
static uint64_t do_rank(
	struct epoch *epoch, const struct tauti_share *share, uint64_t n)
{
	uint64_t items = 0, batches = tauti_share_batches(share);

	for (uint64_t b = 0; b < batches; b++) {
		uint32_t count = tauti_share_count(share, b);

		assert_true(count <= share->batch);
		assert_true(share->tail == TAUTI_TAIL_KEEP || count > 0);
		assert_true(b + 1 == batches || count == share->batch);
		assert_true(share->tail != TAUTI_TAIL_DROP ||
			count == share->batch);
		items += count;
		for (uint32_t i = 0; b < n && i < count; i++)
			epoch->seen[tauti_deal_item(&epoch->deal, epoch->number,
				tauti_share_position(share, b, i))]++;
	}
	assert_int_equal(tauti_share_items(share), items);
	return items;
}

/* All ranks do their first n batches. */
static void do_batches(struct epoch *epoch, struct tauti_share share, uint64_t n)
{
	uint64_t least = UINT64_MAX, most = 0;
	uint64_t batches = tauti_share_batches(&share);

	for (share.rank = 0; share.rank < share.n_ranks; share.rank++) {
		uint64_t items = do_rank(epoch, &share, n);

		least = items < least ? items : least;
		most = items > most ? items : most;
		assert_int_equal(tauti_share_batches(&share), batches);
	}
	assert_true(most - least <= (share.tail == TAUTI_TAIL_KEEP));
}

/* All positions below `consumed` once, and no others; but for the padding, which is the
 * first positions again. */
static void check_seen(
	const struct epoch *epoch, uint64_t consumed, uint64_t padding)
{
	uint64_t n = epoch->deal.n_items;

	for (uint64_t p = 0; p < n; p++) {
		uint64_t item = tauti_deal_item(&epoch->deal, epoch->number, p);
		uint64_t again = padding / n + (p < padding % n);

		assert_int_equal(epoch->seen[item], (p < consumed) + again);
	}
}

static void run_epoch(uint64_t seed)
{
	struct epoch epoch = { .draw = tauti_draw_begin(seed, 0, 0) };
	uint64_t n = 1 + tauti_draw_below(&epoch.draw, MOST_ITEMS);
	uint64_t position = 0, batches, left, padding = 0;
	struct tauti_share share;

	epoch.deal = (struct tauti_deal){ n, seed, seed % 8 > 0 };
	epoch.number = tauti_draw_below(&epoch.draw, 1000);
	epoch.tail = (enum tauti_tail)tauti_draw_below(&epoch.draw, 3);
	for (;;) {
		share = draw_share(&epoch, position);
		batches = tauti_share_batches(&share);
		if (!batches || tauti_draw_below(&epoch.draw, 4) == 0)
			break;
		/* A part of it, then others go on. */
		left = tauti_draw_below(&epoch.draw, batches);
		do_batches(&epoch, share, left);
		position = tauti_share_consumed(&share, left);
		check_seen(&epoch, position, 0);
	}
	do_batches(&epoch, share, batches);
	left = n - position;
	if (epoch.tail == TAUTI_TAIL_PAD && left % share.n_ranks)
		padding = share.n_ranks - left % share.n_ranks;
	if (epoch.tail == TAUTI_TAIL_DROP)
		left -= left % ((uint64_t)share.n_ranks * share.batch);
	check_seen(&epoch, position + left, padding);
	assert_int_equal(tauti_share_consumed(&share, batches),
		epoch.tail == TAUTI_TAIL_DROP ? position + left : n);
}

static void test_each_item_once(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 10000; seed++)
		run_epoch(seed);
}

/* A global batch is the same set however many ranks share it. */
static void test_elastic(void **state)
{
	enum { GLOBAL = 24, ITEMS = 1000 };
	static uint32_t owner[ITEMS];

	(void)state;
	memset(owner, 0xff, sizeof owner);
	for (uint32_t ranks = 1; ranks <= GLOBAL; ranks++) {
		struct tauti_share share = { ITEMS, 4, ranks, 0, GLOBAL / ranks,
			TAUTI_TAIL_KEEP };

		if (GLOBAL % ranks)
			continue;
		assert_int_equal(tauti_share_batches(&share), 42);
		for (; share.rank < ranks; share.rank++)
			for (uint32_t b = 0; b < 42; b++)
				for (uint32_t i = 0;
					i < tauti_share_count(&share, b); i++) {
					uint32_t *of = &owner[
						tauti_share_position(&share, b, i)];

					assert_true(ranks == 1 || *of == b);
					*of = b;
				}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_permutations),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_few),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_each_item_once),
		cmocka_unit_test(test_elastic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
