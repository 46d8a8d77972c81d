/* cache.c - see cache.h. The words and the rooms of cache_words.h in a pool:
 *
 *   counts of each seat | top | word * n | length * n | [sum * n] | rooms
 *
 * Zeros are an empty cache, so there is nothing that its maker would have to set up. */
#include "load/cache.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/now.h"

enum {
	LINE_BYTES = 64,
	ROOMS_ALIGN = 4096,
	ASK_AGAIN_NS = 50000000, /* whether who fetches still lives */
};

/* Of all who ever sat there. Only the seat's threads add. */
struct seat_counts {
	_Alignas(LINE_BYTES) _Atomic uint64_t hits;
	_Atomic uint64_t misses, coming, wrong;
};

struct tauti_cache {
	struct tauti_cache_words words;
	struct tauti_pool *pool;
	struct seat_counts *counts; /* TAUTI_POOL_SEATS */
	_Atomic uint64_t *sums;     /* NULL: none are kept */
	unsigned char *rooms;
	uint64_t rooms_at; /* in the pool's memory */
};

struct layout {
	uint64_t top, word, length, sum, rooms, end; /* first bytes */
};

static uint64_t up_to(uint64_t bytes, uint64_t align)
{
	return (bytes + align - 1) / align * align;
}

static struct layout lay_out(const struct tauti_cache_options *options)
{
	uint64_t n = options->n_items;
	struct layout at;

	at.top = TAUTI_POOL_SEATS * sizeof(struct seat_counts);
	at.word = at.top + LINE_BYTES;
	at.length = at.word + n * sizeof(uint64_t);
	at.sum = up_to(at.length + n * sizeof(uint32_t), sizeof(uint64_t));
	at.rooms = up_to(
		at.sum + (options->check ? n * sizeof(uint64_t) : 0), ROOMS_ALIGN);
	at.end = at.rooms + up_to(options->bytes, TAUTI_ROOM_BYTES);
	return at;
}

/* Caches that are not laid out alike have other names. */
static uint64_t fingerprint_of(const struct tauti_cache_options *options)
{
	uint64_t x = tauti_hash_mix(
		options->fingerprint ^ TAUTI_HASH_A, options->n_items ^ TAUTI_HASH_B);

	return tauti_hash_mix(x ^ TAUTI_HASH_C,
		(options->bytes << 1 | options->check) ^ TAUTI_HASH_A);
}

/* --- what the words ask for ----------------------------------------------------------*/

static bool seat_lives(void *state, uint32_t seat, uint32_t generation)
{
	const struct tauti_cache *cache = state;

	return tauti_pool_seat_lives(cache->pool, seat, generation);
}

static bool reserve(void *state, uint64_t end_bytes)
{
	struct tauti_cache *cache = state;

	return tauti_pool_reserve(cache->pool, cache->rooms_at + end_bytes);
}

static struct tauti_cache_words words_in(struct tauti_cache *cache,
	const struct tauti_cache_options *options, const struct layout *at)
{
	unsigned char *memory = tauti_pool_memory(cache->pool);

	return (struct tauti_cache_words){
		.word = (_Atomic uint64_t *)(void *)(memory + at->word),
		.length = (_Atomic uint32_t *)(void *)(memory + at->length),
		.top = (_Atomic uint64_t *)(void *)(memory + at->top),
		.n_items = options->n_items,
		.capacity_bytes = options->bytes,
		.seat = tauti_pool_seat(cache->pool),
		.generation = tauti_pool_generation(cache->pool),
		.state = cache,
		.lives = seat_lives,
		.reserve = reserve,
	};
}

/* --- open and close ------------------------------------------------------------------*/

taut_status tauti_cache_open(const struct tauti_cache_options *options,
	struct tauti_cache **ret_cache, struct taut_error *err)
{
	struct layout at = lay_out(options);
	struct tauti_pool_options in = {
		.fingerprint = fingerprint_of(options),
		.bytes = at.end,
		.first_bytes = at.rooms,
		.patience_ns = options->patience_ns,
		.keep_ns = options->keep_ns,
	};
	struct tauti_cache *cache;
	unsigned char *memory;
	taut_status status;

	status = tauti_cache_words_check(options->n_items, options->bytes, err);
	if (status != TAUT_OK)
		return status;
	cache = calloc(1, sizeof *cache);
	if (!cache)
		return taut_error_set(err, TAUT_ENOMEM, -1, "cache: no memory");
	status = tauti_pool_open(&in, &cache->pool, err);
	if (status != TAUT_OK) {
		free(cache);
		return status;
	}
	memory = tauti_pool_memory(cache->pool);
	cache->words = words_in(cache, options, &at);
	cache->counts = (struct seat_counts *)(void *)memory;
	cache->rooms_at = at.rooms;
	cache->rooms = memory + at.rooms;
	if (options->check)
		cache->sums = (_Atomic uint64_t *)(void *)(memory + at.sum);
	*ret_cache = cache;
	return TAUT_OK;
}

void tauti_cache_close(struct tauti_cache *cache)
{
	if (!cache)
		return;
	tauti_pool_close(cache->pool);
	free(cache);
}

struct tauti_pool *tauti_cache_pool(const struct tauti_cache *cache)
{
	return cache->pool;
}

/* --- look ----------------------------------------------------------------------------*/

static void count(_Atomic uint64_t *number)
{
	atomic_fetch_add_explicit(number, 1, memory_order_relaxed);
}

/* Never 0, which stands for no sum. */
static uint64_t sum_of(const void *at, uint64_t bytes)
{
	return tauti_hash(at, bytes) | 1;
}

static bool is_sound(const struct tauti_cache *cache, uint32_t item, uint64_t bytes,
	const void *at)
{
	return !cache->sums ||
		atomic_load_explicit(&cache->sums[item], memory_order_relaxed) ==
			sum_of(at, bytes);
}

enum tauti_cache_answer tauti_cache_look(
	struct tauti_cache *cache, uint32_t item, uint64_t bytes, void **ret_at)
{
	struct seat_counts *counts = &cache->counts[cache->words.seat];
	enum tauti_cache_answer answer;
	uint64_t place;

	*ret_at = NULL;
	/* What a copy took would be its parent's. */
	if (tauti_pool_is_copy(cache->pool))
		return TAUTI_CACHE_MINE;
	answer = tauti_cache_words_look(&cache->words, item, bytes, &place);
	if (place != UINT64_MAX)
		*ret_at = cache->rooms + place;
	if (answer == TAUTI_CACHE_HERE && !is_sound(cache, item, bytes, *ret_at)) {
		*ret_at = NULL;
		answer = TAUTI_CACHE_MINE;
		count(&counts->wrong);
	}
	count(answer == TAUTI_CACHE_HERE ? &counts->hits :
			answer == TAUTI_CACHE_MINE ? &counts->misses :
						     &counts->coming);
	return answer;
}

bool tauti_cache_has(const struct tauti_cache *cache, uint32_t item)
{
	return tauti_cache_words_state(&cache->words, item) == TAUTI_WORD_HERE;
}

/* --- fill, drop, wait ----------------------------------------------------------------*/

/* The half of an item's word in which the state is: sleepers sleep on that. */
static uint32_t *sleep_on(const struct tauti_cache *cache, uint32_t item)
{
	uint32_t *halves = (uint32_t *)(void *)&cache->words.word[item];

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	halves++;
#endif
	return halves;
}

/* In other processes too. */
static void wake(const struct tauti_cache *cache, uint32_t item)
{
	syscall(SYS_futex, sleep_on(cache, item), FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void tauti_cache_fill(struct tauti_cache *cache, uint32_t item)
{
	const struct tauti_cache_words *words = &cache->words;

	if (tauti_pool_is_copy(cache->pool))
		return;
	if (cache->sums && tauti_cache_words_place(words, item) != UINT64_MAX)
		atomic_store_explicit(&cache->sums[item],
			sum_of(cache->rooms + tauti_cache_words_place(words, item),
				tauti_cache_words_length(words, item)),
			memory_order_relaxed);
	if (tauti_cache_words_fill(words, item))
		wake(cache, item);
}

void tauti_cache_drop(struct tauti_cache *cache, uint32_t item)
{
	if (!tauti_pool_is_copy(cache->pool) &&
		tauti_cache_words_drop(&cache->words, item))
		wake(cache, item);
}

bool tauti_cache_wait(struct tauti_cache *cache, uint32_t item, int64_t timeout_ns)
{
	int64_t until_ns = tauti_now_ns() + timeout_ns;

	for (;;) {
		uint64_t value = tauti_cache_words_value(&cache->words, item);
		int64_t left_ns = until_ns - tauti_now_ns();
		struct timespec at_most;

		if (!tauti_cache_words_coming(&cache->words, value))
			return true;
		if (left_ns <= 0)
			return false;
		left_ns = tauti_earlier_ns(left_ns, ASK_AGAIN_NS);
		at_most = (struct timespec){ .tv_nsec = (long)left_ns };
		syscall(SYS_futex, sleep_on(cache, item), FUTEX_WAIT, (uint32_t)value,
			&at_most, NULL, 0);
	}
}

/* --- counts --------------------------------------------------------------------------*/

static uint64_t read_count(const _Atomic uint64_t *number)
{
	return atomic_load_explicit(number, memory_order_relaxed);
}

void tauti_cache_counts(
	const struct tauti_cache *cache, struct tauti_cache_counts *ret_counts)
{
	struct tauti_cache_counts sum = { .hits = 0 };

	for (uint32_t i = 0; i < TAUTI_POOL_SEATS; i++) {
		const struct seat_counts *of = &cache->counts[i];

		sum.hits += read_count(&of->hits);
		sum.misses += read_count(&of->misses);
		sum.coming += read_count(&of->coming);
		sum.wrong += read_count(&of->wrong);
	}
	sum.used_bytes = tauti_cache_words_used_bytes(&cache->words);
	tauti_cache_words_kept(&cache->words, &sum.kept_items, &sum.kept_bytes);
	*ret_counts = sum;
}
