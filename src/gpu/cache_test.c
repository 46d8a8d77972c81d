/* The cache of ranges against an oracle, and read while it changes. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cache.h"

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static struct tauti_gpu_cache *made(void)
{
	struct tauti_gpu_cache *cache = calloc(1, sizeof *cache);

	assert_non_null(cache);
	tauti_gpu_cache_init(cache);
	return cache;
}

static void finished(struct tauti_gpu_cache *cache)
{
	tauti_gpu_cache_finish(cache);
	free(cache);
}

static bool knows(const struct tauti_gpu_cache *cache, uint64_t at, uint64_t id)
{
	struct tauti_gpu_range range;

	return tauti_gpu_cache_find(cache, at, &range) && range.id == id &&
		at >= range.start && at < range.end;
}

static void ranges_end_before_their_end(void **state)
{
	struct tauti_gpu_cache *cache = made();
	struct tauti_gpu_range range = { 100, 200, 1, 7, 3 }, found;

	(void)state;
	assert_false(tauti_gpu_cache_find(cache, 0, &found));
	tauti_gpu_cache_keep(cache, &range);
	assert_true(knows(cache, 100, 1) && knows(cache, 199, 1));
	assert_false(tauti_gpu_cache_find(cache, 99, &found));
	assert_false(tauti_gpu_cache_find(cache, 200, &found));
	assert_true(tauti_gpu_cache_find(cache, 150, &found));
	assert_memory_equal(&found, &range, sizeof range);
	range.start = range.end = 150; /* nothing */
	tauti_gpu_cache_keep(cache, &range);
	tauti_gpu_cache_drop(cache, 150, 150);
	assert_true(knows(cache, 150, 1));
	tauti_gpu_cache_drop(cache, 199, 1000);
	assert_false(tauti_gpu_cache_find(cache, 100, &found));
	finished(cache);
}

static void the_last_of_all_addresses(void **state)
{
	struct tauti_gpu_cache *cache = made();
	struct tauti_gpu_range range = { UINT64_MAX - 9, UINT64_MAX, 5, 0, 0 };

	(void)state;
	tauti_gpu_cache_keep(cache, &range);
	assert_true(knows(cache, UINT64_MAX - 1, 5));
	tauti_gpu_cache_drop(cache, 0, UINT64_MAX);
	assert_false(knows(cache, UINT64_MAX - 1, 5));
	finished(cache);
}

/* --- an oracle: who was the last to say something of an address ---------------------------*/

enum { ADDRESSES = 4096, TURNS = 20000 };

static void say(uint64_t *last, uint64_t start, uint64_t end, uint64_t id)
{
	uint64_t older;

	for (uint64_t at = start; at < end; at++) {
		older = last[at];
		if (!older)
			continue;
		for (uint64_t k = 0; k < ADDRESSES; k++) /* all of that range */
			if (last[k] == older)
				last[k] = 0;
	}
	for (uint64_t at = start; at < end && id; at++)
		last[at] = id;
}

static void seeded_turns_are_those_of_an_oracle(void **state)
{
	static uint64_t last[ADDRESSES];

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct tauti_gpu_cache *cache = made();
		uint64_t random = seed * 0x9e3779b97f4a7c15u;

		memset(last, 0, sizeof last);
		for (uint64_t turn = 1; turn <= TURNS; turn++) {
			uint64_t start = next_random(&random) % ADDRESSES;
			uint64_t most = ADDRESSES - start;
			uint64_t end = start + next_random(&random) % 40 % most;
			uint64_t at = next_random(&random) % ADDRESSES;
			struct tauti_gpu_range range = { start, end, turn, 0, 0 };

			if (next_random(&random) % 3 && start < end) {
				tauti_gpu_cache_keep(cache, &range);
				say(last, start, end, turn);
			} else {
				tauti_gpu_cache_drop(cache, start, end);
				say(last, start, end, 0);
			}
			assert_int_equal(knows(cache, at, last[at]),
				last[at] != 0);
		}
		for (uint64_t at = 0; at < ADDRESSES; at++)
			assert_int_equal(knows(cache, at, last[at]),
				last[at] != 0);
		finished(cache);
	}
}

static void what_has_no_room_is_forgotten_never_mistaken(void **state)
{
	enum { MANY = 5 * TAUTI_GPU_CACHE_RANGES };
	struct tauti_gpu_cache *cache = made();
	struct tauti_gpu_range found;
	uint32_t n_known = 0;

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t k = i * 7919 % MANY;
		struct tauti_gpu_range range = {
			k * 10, k * 10 + 9, k + 1, 0, 0 };

		tauti_gpu_cache_keep(cache, &range);
		assert_true(knows(cache, k * 10, k + 1)); /* the newest */
	}
	for (uint64_t k = 0; k < MANY; k++) {
		assert_false(tauti_gpu_cache_find(cache, k * 10 + 9, &found));
		if (!tauti_gpu_cache_find(cache, k * 10 + 4, &found))
			continue;
		n_known++;
		assert_int_equal(found.id, k + 1);
	}
	assert_int_equal(n_known, TAUTI_GPU_CACHE_RANGES);
	finished(cache);
}

/* --- readers beside writers ---------------------------------------------------------------*/

struct beside {
	struct tauti_gpu_cache *cache;
	uint64_t seed;
	_Atomic bool ends;
	_Atomic uint64_t n_found, n_wrong;
};

/* Every range says in each of its words where it starts. */
static struct tauti_gpu_range marked(uint64_t k)
{
	uint64_t start = (k + 1) * 1000;

	return (struct tauti_gpu_range){
		start, start + 500 + k % 400, start + 1, start + 2, start + 3 };
}

static void *reads(void *context)
{
	struct beside *beside = context;
	uint64_t random = beside->seed;
	struct tauti_gpu_range found, wanted;

	while (!atomic_load(&beside->ends)) {
		uint64_t k = next_random(&random) % 64;

		if (!tauti_gpu_cache_find(
			beside->cache, (k + 1) * 1000 + 250, &found))
			continue;
		wanted = marked(k);
		atomic_fetch_add(&beside->n_found, 1);
		if (memcmp(&found, &wanted, sizeof found))
			atomic_fetch_add(&beside->n_wrong, 1);
	}
	return NULL;
}

static void readers_never_see_half_a_change(void **state)
{
	struct beside beside = { .cache = made(), .seed = 99 };
	pthread_t threads[2];
	uint64_t random = 5;

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_false(pthread_create(
			&threads[i], NULL, reads, &beside));
	for (uint64_t turn = 0; turn < 20000 ||
		(!atomic_load(&beside.n_found) && turn < 100000000); turn++) {
		struct tauti_gpu_range range =
			marked(next_random(&random) % 64);

		if (next_random(&random) % 2)
			tauti_gpu_cache_keep(beside.cache, &range);
		else
			tauti_gpu_cache_drop(
				beside.cache, range.start, range.end);
	}
	atomic_store(&beside.ends, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&beside.n_wrong), 0);
	assert_true(atomic_load(&beside.n_found) > 0);
	finished(beside.cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_end_before_their_end),
		cmocka_unit_test(the_last_of_all_addresses),
		cmocka_unit_test(seeded_turns_are_those_of_an_oracle),
		cmocka_unit_test(what_has_no_room_is_forgotten_never_mistaken),
		cmocka_unit_test(readers_never_see_half_a_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
