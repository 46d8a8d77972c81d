/* The rule against a plain model, what happens to an item, and threads. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <string.h>

#include "load/cache_words.h"
#include "load/draw.h"
#include "tests/support/alloc_fail.h"

enum { ITEMS = 500, EPOCHS = 4 };

static uint64_t room_of(uint64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static struct tauti_cache_words words_of(uint32_t n, uint64_t bytes)
{
	struct tauti_cache_words words;
	struct taut_error err;

	assert_int_equal(tauti_cache_words_init(&words, n, bytes, &err), TAUT_OK);
	return words;
}

static void permute(uint32_t *order, uint32_t n, struct tauti_draw *draw)
{
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	for (uint32_t i = n; i-- > 1;) {
		uint32_t j = (uint32_t)tauti_draw_below(draw, i + 1), was = order[i];

		order[i] = order[j];
		order[j] = was;
	}
}

/* Items of one size: whatever the order, in each epoch after the first exactly those
 * that fit are hits, and they are the first that came. */
static void test_hits_are_what_fits(void **state)
{
	static const uint64_t sizes[] = { 1, 63, 64, 65, 1000 };
	uint32_t order[ITEMS];

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
		uint64_t room = room_of(sizes[s]);
		struct tauti_cache_words words =
			words_of(ITEMS, 175 * room + room - 1);
		struct tauti_draw draw = tauti_draw_begin(s, 0, 0);

		for (int epoch = 0; epoch < EPOCHS; epoch++) {
			uint32_t hits = 0;

			permute(order, ITEMS, &draw);
			for (uint32_t i = 0; i < ITEMS; i++)
				hits += tauti_cache_words_touch(
					&words, order[i], sizes[s]);
			assert_int_equal(hits, epoch ? 175 : 0);
			if (epoch)
				continue;
			for (uint32_t i = 0; i < ITEMS; i++)
				assert_int_equal(
					tauti_cache_words_state(&words, order[i]),
					i < 175 ? TAUTI_WORD_HERE : TAUTI_WORD_NEVER);
		}
		tauti_cache_words_fini(&words);
	}
}

/* First come, first kept, if there is room. */
static void check_seed(uint64_t seed)
{
	struct tauti_draw draw = tauti_draw_begin(seed, 1, 0);
	uint64_t capacity = 64 * tauti_draw_below(&draw, 3000);
	struct tauti_cache_words words = words_of(ITEMS, capacity);
	bool kept[ITEMS] = { false }, never[ITEMS] = { false };
	uint64_t bytes[ITEMS], used = 0, sum = 0, largest = 0, got_bytes;
	uint32_t n = 0, got;

	for (uint32_t i = 0; i < ITEMS; i++) {
		bytes[i] = 1 + tauti_draw_below(&draw, 1000);
		if (room_of(bytes[i]) > largest)
			largest = room_of(bytes[i]);
	}
	for (uint32_t look = 0; look < 3 * ITEMS; look++) {
		uint32_t i = look < ITEMS ?
			(uint32_t)tauti_draw_below(&draw, ITEMS) : look % ITEMS;

		assert_int_equal(
			tauti_cache_words_touch(&words, i, bytes[i]), kept[i]);
		if (kept[i] || never[i])
			continue;
		kept[i] = used + room_of(bytes[i]) <= capacity;
		never[i] = !kept[i];
		if (!kept[i])
			continue;
		assert_int_equal(tauti_cache_words_place(&words, i), used);
		used += room_of(bytes[i]);
		sum += bytes[i];
		n++;
	}
	tauti_cache_words_kept(&words, &got, &got_bytes);
	assert_int_equal(got, n);
	assert_int_equal(got_bytes, sum);
	assert_int_equal(tauti_cache_words_used_bytes(&words), used);
	assert_true(used <= capacity);
	if (n < ITEMS)
		assert_true(used + largest > capacity);
	tauti_cache_words_fini(&words);
}

static void test_rule(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 300; seed++)
		check_seed(seed);
}

static bool nobody_lives(void *state, uint32_t seat, uint32_t generation)
{
	(void)state, (void)seat, (void)generation;
	return false;
}

static void test_one_item(void **state)
{
	struct tauti_cache_words words = words_of(4, 1024), other;
	uint64_t place;

	(void)state;
	assert_int_equal(tauti_cache_words_look(&words, 2, 100, &place),
		TAUTI_CACHE_MINE);
	assert_int_equal(place, 0);
	assert_int_equal(tauti_cache_words_look(&words, 2, 100, &place),
		TAUTI_CACHE_COMING);
	assert_int_equal(place, UINT64_MAX);
	/* Another may not end what is not its own. */
	other = words;
	other.seat = 1;
	assert_false(tauti_cache_words_fill(&other, 2));
	assert_false(tauti_cache_words_drop(&other, 2));
	assert_int_equal(tauti_cache_words_look(&other, 2, 100, &place),
		TAUTI_CACHE_COMING);
	/* What was dropped has the same room again, whoever fetches it. */
	assert_int_equal(tauti_cache_words_look(&words, 1, 10, &place),
		TAUTI_CACHE_MINE);
	assert_int_equal(place, 128);
	assert_true(tauti_cache_words_drop(&words, 2));
	assert_false(tauti_cache_words_drop(&words, 2));
	assert_int_equal(tauti_cache_words_look(&other, 2, 100, &place),
		TAUTI_CACHE_MINE);
	assert_int_equal(place, 0);
	/* So it has if it is taken from one that is gone, who then ends nothing. */
	words.lives = nobody_lives;
	assert_int_equal(tauti_cache_words_look(&words, 2, 100, &place),
		TAUTI_CACHE_MINE);
	assert_int_equal(place, 0);
	assert_false(tauti_cache_words_fill(&other, 2));
	assert_true(tauti_cache_words_fill(&words, 2));
	assert_int_equal(tauti_cache_words_look(&other, 2, 100, &place),
		TAUTI_CACHE_HERE);
	assert_int_equal(place, 0);
	assert_int_equal(tauti_cache_words_used_bytes(&words), 192);
	tauti_cache_words_fini(&words);
}

/* The same seat, but taken anew, is another. */
static void test_generations(void **state)
{
	struct tauti_cache_words words = words_of(1, 1024), later;
	uint64_t place;

	(void)state;
	words.seat = 255;
	words.generation = 0x3ffff;
	later = words;
	later.generation = 0;
	assert_int_equal(tauti_cache_words_look(&words, 0, 5, &place),
		TAUTI_CACHE_MINE);
	assert_false(tauti_cache_words_fill(&later, 0));
	assert_true(tauti_cache_words_fill(&words, 0));
	tauti_cache_words_fini(&words);
}

static void test_never(void **state)
{
	struct tauti_cache_words words = words_of(5, 256);
	uint64_t place;

	(void)state;
	assert_int_equal(tauti_cache_words_look(&words, 0, 0, &place),
		TAUTI_CACHE_MINE);
	assert_int_equal(place, UINT64_MAX);
	assert_false(tauti_cache_words_fill(&words, 0));
	assert_int_equal(tauti_cache_words_look(&words, 1, UINT64_C(1) << 32, &place),
		TAUTI_CACHE_MINE);
	assert_int_equal(tauti_cache_words_look(&words, 2, 257, &place),
		TAUTI_CACHE_MINE);
	assert_int_equal(place, UINT64_MAX);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(
			tauti_cache_words_state(&words, i), TAUTI_WORD_NEVER);
	/* A smaller one that comes later is kept. */
	assert_int_equal(tauti_cache_words_look(&words, 3, 256, &place),
		TAUTI_CACHE_MINE);
	assert_int_equal(place, 0);
	assert_true(tauti_cache_words_fill(&words, 3));
	assert_int_equal(tauti_cache_words_used_bytes(&words), 256);
	assert_false(tauti_cache_words_touch(&words, 4, 1));
	assert_false(tauti_cache_words_touch(&words, 4, 1));
	tauti_cache_words_fini(&words);
}

static void test_other_length(void **state)
{
	struct tauti_cache_words words = words_of(2, 1024);
	uint64_t place;

	(void)state;
	assert_int_equal(tauti_cache_words_look(&words, 0, 100, &place),
		TAUTI_CACHE_MINE);
	assert_true(tauti_cache_words_drop(&words, 0));
	assert_int_equal(tauti_cache_words_look(&words, 0, 101, &place),
		TAUTI_CACHE_MINE);
	assert_int_equal(place, UINT64_MAX);
	assert_false(tauti_cache_words_touch(&words, 0, 100));
	assert_true(tauti_cache_words_touch(&words, 0, 100));
	assert_int_equal(tauti_cache_words_look(&words, 0, 99, &place),
		TAUTI_CACHE_MINE);
	assert_int_equal(place, UINT64_MAX);
	assert_true(tauti_cache_words_touch(&words, 0, 100));
	tauti_cache_words_fini(&words);
}

static bool half(void *state, uint64_t end_bytes)
{
	(void)state;
	return end_bytes <= 512;
}

static void test_no_memory_behind_room(void **state)
{
	struct tauti_cache_words words = words_of(10, 1024);
	uint32_t hits = 0;

	(void)state;
	words.reserve = half;
	for (uint32_t i = 0; i < 20; i++)
		hits += tauti_cache_words_touch(&words, i % 10, 128);
	assert_int_equal(hits, 4);
	tauti_cache_words_fini(&words);
}

static void test_limits(void **state)
{
	struct tauti_cache_words words;
	struct taut_error err;

	(void)state;
	assert_int_equal(tauti_cache_words_init(&words, UINT32_C(1) << 28, 64, &err),
		TAUT_EINVAL);
	assert_string_equal(err.message,
		"cache: 268435456 items and 64 bytes, expected at most 268435454 and "
		"2199023255552");
	assert_int_equal(
		tauti_cache_words_init(&words, 1, TAUTI_CACHE_MOST_BYTES + 1, &err),
		TAUT_EINVAL);
	alloc_fail_after(0);
	assert_int_equal(tauti_cache_words_init(&words, 1, 64, &err), TAUT_ENOMEM);
	alloc_fail_never();
	words = words_of(0, 0);
	assert_int_equal(tauti_cache_words_used_bytes(&words), 0);
	tauti_cache_words_fini(&words);
	/* The last place fits its bits, and nothing of what is beside it moves. */
	words = words_of(2, TAUTI_CACHE_MOST_BYTES);
	*words.top = (TAUTI_CACHE_MOST_BYTES / 64 - 2) << 28;
	assert_false(tauti_cache_words_touch(&words, 1, 100));
	assert_true(tauti_cache_words_touch(&words, 1, 100));
	assert_int_equal(
		tauti_cache_words_place(&words, 1), TAUTI_CACHE_MOST_BYTES - 128);
	assert_false(tauti_cache_words_touch(&words, 0, 1));
	assert_int_equal(tauti_cache_words_state(&words, 0), TAUTI_WORD_NEVER);
	tauti_cache_words_fini(&words);
}

/* --- threads -------------------------------------------------------------------------*/

enum { THREADS = 4, LOOKS = 30000, SHARED_ITEMS = 300, SHARED_BYTES = 64 * 600 };

struct crowd {
	struct tauti_cache_words words;
	unsigned char rooms[SHARED_BYTES];
	_Atomic uint32_t mine[SHARED_ITEMS], wrong, hits;
};

struct member {
	struct crowd *crowd;
	uint32_t id;
};

static uint64_t bytes_of(uint32_t item)
{
	return 1 + item * 37 % 400;
}

static void meet(struct crowd *crowd, const struct tauti_cache_words *me,
	struct tauti_draw *draw)
{
	uint32_t item = (uint32_t)tauti_draw_below(draw, SHARED_ITEMS);
	uint64_t bytes = bytes_of(item), place;
	enum tauti_cache_answer answer =
		tauti_cache_words_look(me, item, bytes, &place);

	if (answer == TAUTI_CACHE_HERE) {
		crowd->hits++;
		for (uint64_t i = 0; i < bytes; i++)
			if (crowd->rooms[place + i] != (unsigned char)item)
				crowd->wrong++;
	} else if (answer == TAUTI_CACHE_MINE && place != UINT64_MAX) {
		memset(crowd->rooms + place, (int)(item & 0xff), bytes);
		if (tauti_draw_below(draw, 4) == 0) {
			assert_true(tauti_cache_words_drop(me, item));
			return;
		}
		crowd->mine[item]++;
		assert_true(tauti_cache_words_fill(me, item));
	}
}

static void *look_around(void *arg)
{
	struct member *member = arg;
	struct tauti_cache_words me = member->crowd->words;
	struct tauti_draw draw = tauti_draw_begin(7, 0, member->id);

	me.seat = member->id / 2; /* two threads a participant */
	for (int i = 0; i < LOOKS; i++)
		meet(member->crowd, &me, &draw);
	return NULL;
}

static void test_threads(void **state)
{
	static struct crowd crowd;
	struct member members[THREADS];
	pthread_t threads[THREADS];
	uint64_t used = 0;

	(void)state;
	crowd.words = words_of(SHARED_ITEMS, SHARED_BYTES);
	for (uint32_t i = 0; i < THREADS; i++) {
		members[i] = (struct member){ &crowd, i };
		assert_int_equal(pthread_create(&threads[i], NULL, look_around,
			&members[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(crowd.wrong, 0);
	assert_true(crowd.hits > 1000);
	for (uint32_t i = 0; i < SHARED_ITEMS; i++) {
		enum tauti_cache_state now = tauti_cache_words_state(&crowd.words, i);

		assert_true(now == TAUTI_WORD_HERE || now == TAUTI_WORD_NEVER);
		assert_int_equal(crowd.mine[i], now == TAUTI_WORD_HERE);
		if (now == TAUTI_WORD_HERE)
			used += room_of(bytes_of(i));
	}
	assert_int_equal(tauti_cache_words_used_bytes(&crowd.words), used);
	tauti_cache_words_fini(&crowd.words);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hits_are_what_fits),
		cmocka_unit_test(test_rule),
		cmocka_unit_test(test_one_item),
		cmocka_unit_test(test_generations),
		cmocka_unit_test(test_never),
		cmocka_unit_test(test_other_length),
		cmocka_unit_test(test_no_memory_behind_room),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
