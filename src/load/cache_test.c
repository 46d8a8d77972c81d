/* A cache in one process: what looks answer, sleepers, sums, a copy, and threads that are
 * two participants. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"
#include "load/cache.h"
#include "load/draw.h"
#include "tests/support/alloc_fail.h"

enum { ITEMS = 64 };

#define SECOND_NS INT64_C(1000000000)

static struct tauti_cache_options options_of(uint64_t name)
{
	return (struct tauti_cache_options){
		.fingerprint = (uint64_t)getpid() << 32 | name,
		.n_items = ITEMS,
		.bytes = 4096,
		.patience_ns = 20 * SECOND_NS,
	};
}

static struct tauti_cache *open_cache(const struct tauti_cache_options *options)
{
	struct tauti_cache *cache = NULL;
	struct taut_error err;

	if (tauti_cache_open(options, &cache, &err) != TAUT_OK)
		print_message("%s\n", err.message);
	assert_non_null(cache);
	return cache;
}

static void put(struct tauti_cache *cache, uint32_t item, uint64_t bytes, int what)
{
	void *at;

	assert_int_equal(
		tauti_cache_look(cache, item, bytes, &at), TAUTI_CACHE_MINE);
	assert_non_null(at);
	assert_int_equal((uintptr_t)at % 64, 0);
	memset(at, what, bytes);
	tauti_cache_fill(cache, item);
}

static void test_looks(void **state)
{
	struct tauti_cache_options options = options_of(1);
	struct tauti_cache *a = open_cache(&options), *b = open_cache(&options);
	struct tauti_cache_counts counts;
	void *at, *again;

	(void)state;
	assert_int_equal(tauti_pool_inode(tauti_cache_pool(a)),
		tauti_pool_inode(tauti_cache_pool(b)));
	assert_false(tauti_cache_has(a, 3));
	assert_int_equal(tauti_cache_look(a, 3, 1000, &at), TAUTI_CACHE_MINE);
	assert_int_equal(tauti_cache_look(b, 3, 1000, &again), TAUTI_CACHE_COMING);
	assert_null(again);
	memset(at, 7, 1000);
	tauti_cache_fill(b, 3); /* not its own: nothing */
	assert_false(tauti_cache_has(b, 3));
	tauti_cache_fill(a, 3);
	assert_true(tauti_cache_has(b, 3));
	assert_int_equal(tauti_cache_look(b, 3, 1000, &again), TAUTI_CACHE_HERE);
	assert_memory_equal(at, again, 1000);
	assert_int_equal(tauti_cache_look(a, 4, 4096, &at), TAUTI_CACHE_MINE);
	assert_null(at);
	put(b, 5, 3072, 9);
	assert_int_equal(tauti_cache_look(a, 6, 1, &at), TAUTI_CACHE_MINE);
	assert_null(at);
	tauti_cache_counts(a, &counts);
	assert_int_equal(counts.hits, 1);
	assert_int_equal(counts.misses, 4);
	assert_int_equal(counts.coming, 1);
	assert_int_equal(counts.wrong, 0);
	assert_int_equal(counts.kept_items, 2);
	assert_int_equal(counts.kept_bytes, 4072);
	assert_int_equal(counts.used_bytes, 4096);
	tauti_cache_close(a);
	/* Who has left is counted, and what it brought stays. */
	tauti_cache_counts(b, &counts);
	assert_int_equal(counts.misses, 4);
	assert_int_equal(tauti_cache_look(b, 3, 1000, &again), TAUTI_CACHE_HERE);
	assert_int_equal(((char *)again)[999], 7);
	tauti_cache_close(b);
	tauti_cache_close(NULL);
}

static void test_drop(void **state)
{
	struct tauti_cache_options options = options_of(2);
	struct tauti_cache *a = open_cache(&options), *b = open_cache(&options);
	struct tauti_cache_counts counts;
	void *at;

	(void)state;
	assert_int_equal(tauti_cache_look(a, 0, 64, &at), TAUTI_CACHE_MINE);
	tauti_cache_drop(b, 0);
	assert_int_equal(tauti_cache_look(b, 0, 64, &at), TAUTI_CACHE_COMING);
	tauti_cache_drop(a, 0);
	put(b, 0, 64, 1);
	tauti_cache_counts(a, &counts);
	assert_int_equal(counts.used_bytes, 64);
	assert_int_equal(counts.kept_items, 1);
	/* Who leaves in the middle leaves its fetch to the next. */
	assert_int_equal(tauti_cache_look(a, 1, 64, &at), TAUTI_CACHE_MINE);
	tauti_cache_close(a);
	put(b, 1, 64, 2);
	tauti_cache_counts(b, &counts);
	assert_int_equal(counts.used_bytes, 128);
	tauti_cache_close(b);
}

/* Caches that are not laid out alike do not meet. */
static void test_apart(void **state)
{
	struct tauti_cache_options options = options_of(3), other = options;
	struct tauti_cache *a = open_cache(&options), *b;

	(void)state;
	for (int i = 0; i < 4; i++) {
		other = options;
		other.n_items += i == 0;
		other.bytes += i == 1;
		other.check = i == 2;
		other.fingerprint += i == 3;
		b = open_cache(&other);
		assert_true(tauti_pool_is_maker(tauti_cache_pool(b)));
		tauti_cache_close(b);
	}
	tauti_cache_close(a);
}

static void test_refused(void **state)
{
	struct tauti_cache_options options = options_of(4);
	struct tauti_cache *cache = NULL;
	struct taut_error err;

	(void)state;
	options.n_items = UINT32_MAX;
	assert_int_equal(tauti_cache_open(&options, &cache, &err), TAUT_EINVAL);
	options = options_of(4);
	options.bytes = UINT64_MAX;
	assert_int_equal(tauti_cache_open(&options, &cache, &err), TAUT_EINVAL);
	options = options_of(4);
	for (long n = 0; !cache && n < 50; n++) {
		taut_status status;

		alloc_fail_after(n);
		status = tauti_cache_open(&options, &cache, &err);
		alloc_fail_never();
		assert_int_equal(status, cache ? TAUT_OK : TAUT_ENOMEM);
	}
	tauti_cache_close(cache);
	options.n_items = 0;
	options.bytes = 0;
	tauti_cache_close(open_cache(&options));
}

static void test_sums(void **state)
{
	struct tauti_cache_options options = options_of(5);
	struct tauti_cache_counts counts;
	struct tauti_cache *cache;
	void *at;

	(void)state;
	options.check = true;
	cache = open_cache(&options);
	put(cache, 1, 1000, 1);
	put(cache, 2, 100, 1);
	assert_int_equal(tauti_cache_look(cache, 1, 1000, &at), TAUTI_CACHE_HERE);
	((char *)at)[500] = 2;
	assert_int_equal(tauti_cache_look(cache, 1, 1000, &at), TAUTI_CACHE_MINE);
	assert_null(at);
	assert_int_equal(tauti_cache_look(cache, 2, 100, &at), TAUTI_CACHE_HERE);
	tauti_cache_counts(cache, &counts);
	assert_int_equal(counts.wrong, 1);
	assert_int_equal(counts.hits, 2);
	assert_int_equal(counts.misses, 3);
	tauti_cache_close(cache);
}

/* Half a gibibyte of capacity costs what is used of it. */
static void test_pages(void **state)
{
	struct tauti_cache_options options = options_of(6);
	struct tauti_cache *cache;

	(void)state;
	options.bytes = 512 << 20;
	cache = open_cache(&options);
	assert_true(tauti_pool_reserved_bytes(tauti_cache_pool(cache)) < 1 << 20);
	put(cache, 1, 20 << 20, 1);
	assert_in_range(tauti_pool_reserved_bytes(tauti_cache_pool(cache)), 20 << 20,
		40 << 20);
	tauti_cache_close(cache);
}

/* --- a copy by fork ------------------------------------------------------------------*/

static int use_as_copy(struct tauti_cache *cache)
{
	void *at = cache;

	if (tauti_cache_look(cache, 1, 100, &at) != TAUTI_CACHE_MINE || at)
		return 1;
	if (!tauti_cache_has(cache, 1) || tauti_cache_has(cache, 2))
		return 2;
	tauti_cache_fill(cache, 2);
	tauti_cache_drop(cache, 2);
	tauti_cache_close(cache);
	return 0;
}

static void test_copy(void **state)
{
	struct tauti_cache_options options = options_of(7);
	struct tauti_cache *cache = open_cache(&options);
	struct tauti_cache_counts counts;
	void *at;
	int status;
	pid_t pid;

	(void)state;
	put(cache, 1, 100, 1);
	assert_int_equal(tauti_cache_look(cache, 2, 100, &at), TAUTI_CACHE_MINE);
	pid = fork();
	if (pid == 0)
		_exit(use_as_copy(cache));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(tauti_cache_look(cache, 2, 100, &at), TAUTI_CACHE_COMING);
	tauti_cache_fill(cache, 2);
	assert_int_equal(tauti_cache_look(cache, 2, 100, &at), TAUTI_CACHE_HERE);
	tauti_cache_counts(cache, &counts);
	assert_int_equal(counts.misses, 2);
	tauti_cache_close(cache);
}

/* --- sleepers ------------------------------------------------------------------------*/

struct sleeper {
	struct tauti_cache *cache;
	bool woke;
	int64_t slept_ns;
};

static void *sleep_for_item(void *arg)
{
	struct sleeper *sleeper = arg;
	int64_t began_ns = tauti_now_ns();

	sleeper->woke = tauti_cache_wait(sleeper->cache, 0, 60 * SECOND_NS);
	sleeper->slept_ns = tauti_now_ns() - began_ns;
	return NULL;
}

static void check_wake(void (*end)(struct tauti_cache *cache, uint32_t item))
{
	struct tauti_cache_options options = options_of(8);
	struct tauti_cache *cache = open_cache(&options);
	struct sleeper sleeper = { .cache = open_cache(&options) };
	pthread_t thread;
	void *at;

	assert_true(tauti_cache_wait(cache, 0, 0));
	assert_int_equal(tauti_cache_look(cache, 0, 64, &at), TAUTI_CACHE_MINE);
	assert_false(tauti_cache_wait(sleeper.cache, 0, 0));
	assert_false(tauti_cache_wait(sleeper.cache, 0, SECOND_NS / 100));
	assert_int_equal(pthread_create(&thread, NULL, sleep_for_item, &sleeper), 0);
	usleep(120000);
	if (end)
		end(cache, 0);
	else
		tauti_cache_close(cache); /* as if it were killed */
	pthread_join(thread, NULL);
	assert_true(sleeper.woke);
	assert_true(sleeper.slept_ns < 50 * SECOND_NS);
	assert_int_equal(tauti_cache_look(sleeper.cache, 0, 64, &at),
		end == tauti_cache_fill ? TAUTI_CACHE_HERE : TAUTI_CACHE_MINE);
	tauti_cache_close(sleeper.cache);
	if (end)
		tauti_cache_close(cache);
}

static void test_wake(void **state)
{
	(void)state;
	check_wake(tauti_cache_fill);
	check_wake(tauti_cache_drop);
	check_wake(NULL);
}

/* --- threads -------------------------------------------------------------------------*/

enum { THREADS = 4, LOOKS = 5000, WORDS = 16 };

struct thread {
	struct tauti_cache *cache;
	uint64_t seed;
	uint64_t hits, misses, coming;
	bool wrong;
};

static void meet(struct thread *thread, uint32_t item)
{
	uint64_t *at;
	enum tauti_cache_answer answer = tauti_cache_look(
		thread->cache, item, WORDS * sizeof *at, (void **)&at);

	if (answer == TAUTI_CACHE_HERE) {
		thread->hits++;
		for (int i = 0; i < WORDS; i++)
			thread->wrong |= at[i] != item * UINT64_C(1000) + (uint64_t)i;
	} else if (answer == TAUTI_CACHE_COMING) {
		thread->coming++;
		thread->wrong |= !tauti_cache_wait(thread->cache, item, 60 * SECOND_NS);
	} else {
		thread->misses++;
		for (int i = 0; at && i < WORDS; i++)
			at[i] = item * UINT64_C(1000) + (uint64_t)i;
		if (at)
			tauti_cache_fill(thread->cache, item);
	}
}

static void *look_around(void *arg)
{
	struct thread *thread = arg;
	struct tauti_draw draw = tauti_draw_begin(thread->seed, 0, 0);

	for (int i = 0; i < LOOKS; i++)
		meet(thread, (uint32_t)tauti_draw_below(&draw, ITEMS));
	return NULL;
}

/* Through two mappings of the same memory. 32 of 64 items fit. */
static void test_threads(void **state)
{
	struct tauti_cache_options options = options_of(9);
	struct tauti_cache *a = open_cache(&options), *b = open_cache(&options);
	struct tauti_cache_counts counts;
	struct thread threads[THREADS];
	uint64_t hits = 0, misses = 0, coming = 0;
	pthread_t ids[THREADS];

	(void)state;
	for (uint64_t i = 0; i < THREADS; i++) {
		threads[i] = (struct thread){ .cache = i % 2 ? a : b, .seed = i };
		assert_int_equal(pthread_create(
			&ids[i], NULL, look_around, &threads[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(ids[i], NULL);
		assert_false(threads[i].wrong);
		hits += threads[i].hits;
		misses += threads[i].misses;
		coming += threads[i].coming;
	}
	tauti_cache_counts(a, &counts);
	assert_int_equal(counts.hits, hits);
	assert_int_equal(counts.misses, misses);
	assert_int_equal(counts.coming, coming);
	assert_int_equal(counts.kept_items, 32);
	assert_int_equal(counts.kept_bytes, 4096);
	assert_int_equal(counts.used_bytes, 4096);
	tauti_cache_close(a);
	tauti_cache_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_looks),
		cmocka_unit_test(test_drop),
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_wake),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
