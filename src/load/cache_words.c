/* cache_words.c - see cache_words.h.
 *
 *   word  bits  0 ..  1  enum tauti_cache_state
 *               2 ..  9  seat       of who is FILLING, else 0
 *              10 .. 27  generation of who is FILLING, else 0
 *              28 .. 63  place of its room in units of 64 bytes, plus 1; 0: none yet
 *   top   bits  0 .. 27  the item that was given the room which begins there, plus 1
 *              28 .. 63  place of that room; what follows it is free
 *
 * The item that top names has its place in its word before top moves on: settle().
 * Therefore an item whose word has no place is either named by top, or has no room. */
#include "load/cache_words.h"

#include <stdlib.h>

enum { PLACE_SHIFT = 28, SEAT_SHIFT = 2, GENERATION_SHIFT = 10 };

#define PLACE_MASK (~UINT64_C(0) << PLACE_SHIFT)
#define OWNER_MASK (~PLACE_MASK & ~UINT64_C(3))
#define TOP_ITEM_MASK (~PLACE_MASK)
#define MOST_PLACE ((UINT64_C(1) << 36) - 2)

static uint64_t load_word(const struct tauti_cache_words *words, uint32_t item)
{
	if (words->step)
		words->step(words->state);
	return atomic_load_explicit(&words->word[item], memory_order_acquire);
}

/* On failure *was is what is there. */
static bool move_word(const struct tauti_cache_words *words, uint32_t item,
	uint64_t *was, uint64_t is)
{
	if (words->step)
		words->step(words->state);
	return atomic_compare_exchange_strong_explicit(&words->word[item], was, is,
		memory_order_acq_rel, memory_order_acquire);
}

static enum tauti_cache_state state_of(uint64_t word)
{
	return (enum tauti_cache_state)(word & 3);
}

static uint64_t owner_bits(const struct tauti_cache_words *words)
{
	return (uint64_t)words->seat << SEAT_SHIFT |
		(uint64_t)words->generation << GENERATION_SHIFT;
}

static bool is_mine(const struct tauti_cache_words *words, uint64_t word)
{
	return state_of(word) == TAUTI_WORD_FILLING &&
		(word & OWNER_MASK) == owner_bits(words);
}

/* The place stays, and nobody owns it unless it is being filled. */
static uint64_t in_state(const struct tauti_cache_words *words, uint64_t word,
	enum tauti_cache_state state)
{
	return (word & PLACE_MASK) | (uint64_t)state |
		(state == TAUTI_WORD_FILLING ? owner_bits(words) : 0);
}

static uint64_t place_of(uint64_t word)
{
	uint64_t place = word >> PLACE_SHIFT;

	return place ? (place - 1) * TAUTI_ROOM_BYTES : UINT64_MAX;
}

static uint64_t units(uint64_t bytes)
{
	return (bytes + TAUTI_ROOM_BYTES - 1) / TAUTI_ROOM_BYTES;
}

/* --- room ----------------------------------------------------------------------------*/

/* Where free room begins, in units. */
static uint64_t end_of(const struct tauti_cache_words *words, uint64_t top)
{
	uint64_t named = top & TOP_ITEM_MASK;

	if (!named)
		return top >> PLACE_SHIFT;
	return (top >> PLACE_SHIFT) +
		units(atomic_load_explicit(
			&words->length[named - 1], memory_order_relaxed));
}

/* Writes the place of the room that was given last into its item's word. */
static void settle(const struct tauti_cache_words *words, uint64_t top)
{
	uint64_t named = top & TOP_ITEM_MASK;
	uint64_t place = (top >> PLACE_SHIFT) + 1;
	uint64_t was;

	if (!named)
		return;
	was = load_word(words, (uint32_t)named - 1);
	while (!(was & PLACE_MASK) &&
		!move_word(words, (uint32_t)named - 1, &was,
			was | place << PLACE_SHIFT))
		;
}

/* The item's word with its place, or without when there is no room left for it. */
static uint64_t take_room(const struct tauti_cache_words *words, uint32_t item)
{
	uint64_t need = units(
		atomic_load_explicit(&words->length[item], memory_order_relaxed));
	uint64_t most = words->capacity_bytes / TAUTI_ROOM_BYTES;

	for (;;) {
		uint64_t top = atomic_load_explicit(words->top, memory_order_acquire);
		uint64_t word, end;

		settle(words, top);
		word = load_word(words, item);
		end = end_of(words, top);
		if (word & PLACE_MASK || need > most - end)
			return word;
		if (words->step)
			words->step(words->state);
		/* If it fails, somebody else got room: perhaps for this item. */
		atomic_compare_exchange_strong_explicit(words->top, &top,
			end << PLACE_SHIFT | (item + UINT64_C(1)),
			memory_order_acq_rel, memory_order_relaxed);
	}
}

/* The first who asks says how long it is, or top could mean two ends. */
static bool set_length(
	const struct tauti_cache_words *words, uint32_t item, uint64_t bytes)
{
	uint32_t was = 0;

	if (bytes > UINT32_MAX || bytes == 0)
		return false;
	if (words->step)
		words->step(words->state);
	return atomic_compare_exchange_strong_explicit(&words->length[item], &was,
		       (uint32_t)bytes, memory_order_relaxed,
		       memory_order_relaxed) ||
		was == bytes;
}

/* --- look ----------------------------------------------------------------------------*/

static uint64_t room_end(const struct tauti_cache_words *words, uint32_t item,
	uint64_t word)
{
	return place_of(word) +
		TAUTI_ROOM_BYTES * units(tauti_cache_words_length(words, item));
}

/* Whoever is FILLING as this participant moves the word on; only one that takes it for
 * dead could be faster. */
static bool finish(const struct tauti_cache_words *words, uint32_t item,
	enum tauti_cache_state state)
{
	uint64_t was = load_word(words, item);

	while (is_mine(words, was))
		if (move_word(words, item, &was, in_state(words, was, state)))
			return true;
	return false;
}

/* The word is FILLING and this participant's. False: the item is not kept. */
static bool begin_filling(const struct tauti_cache_words *words, uint32_t item,
	uint64_t bytes, uint64_t *ret_place)
{
	uint64_t word = 0;
	bool fits = bytes > 0 && bytes <= UINT32_MAX;

	if (fits && !set_length(words, item, bytes)) {
		/* Of another length than before: no fault of who said that. */
		finish(words, item, TAUTI_WORD_ABSENT);
		return false;
	}
	if (fits) {
		word = take_room(words, item);
		fits = (word & PLACE_MASK) != 0;
	}
	if (fits && words->reserve)
		fits = words->reserve(words->state, room_end(words, item, word));
	if (!fits) {
		finish(words, item, TAUTI_WORD_NEVER);
		return false;
	}
	*ret_place = place_of(word);
	return true;
}

enum tauti_cache_answer tauti_cache_words_look(const struct tauti_cache_words *words,
	uint32_t item, uint64_t bytes, uint64_t *ret_place)
{
	uint64_t word = load_word(words, item);

	*ret_place = UINT64_MAX;
	for (;;) {
		enum tauti_cache_state state = state_of(word);

		if (state == TAUTI_WORD_NEVER)
			return TAUTI_CACHE_MINE;
		if (state == TAUTI_WORD_HERE) {
			if (tauti_cache_words_length(words, item) != bytes)
				return TAUTI_CACHE_MINE;
			*ret_place = place_of(word);
			return TAUTI_CACHE_HERE;
		}
		if (tauti_cache_words_coming(words, word))
			return TAUTI_CACHE_COMING;
		if (move_word(words, item, &word,
			    in_state(words, word, TAUTI_WORD_FILLING)))
			break;
	}
	begin_filling(words, item, bytes, ret_place);
	return TAUTI_CACHE_MINE;
}

bool tauti_cache_words_coming(const struct tauti_cache_words *words, uint64_t value)
{
	uint32_t seat = value >> SEAT_SHIFT & 0xff;
	uint32_t generation = value >> GENERATION_SHIFT & 0x3ffff;

	if (state_of(value) != TAUTI_WORD_FILLING)
		return false;
	return is_mine(words, value) || !words->lives ||
		words->lives(words->state, seat, generation);
}

bool tauti_cache_words_fill(const struct tauti_cache_words *words, uint32_t item)
{
	return finish(words, item, TAUTI_WORD_HERE);
}

bool tauti_cache_words_drop(const struct tauti_cache_words *words, uint32_t item)
{
	return finish(words, item, TAUTI_WORD_ABSENT);
}

bool tauti_cache_words_touch(
	const struct tauti_cache_words *words, uint32_t item, uint64_t bytes)
{
	uint64_t place;
	enum tauti_cache_answer answer =
		tauti_cache_words_look(words, item, bytes, &place);

	if (answer == TAUTI_CACHE_MINE && place != UINT64_MAX)
		tauti_cache_words_fill(words, item);
	return answer == TAUTI_CACHE_HERE;
}

/* --- what is there -------------------------------------------------------------------*/

uint64_t tauti_cache_words_value(const struct tauti_cache_words *words, uint32_t item)
{
	return atomic_load_explicit(&words->word[item], memory_order_acquire);
}

enum tauti_cache_state tauti_cache_words_state(
	const struct tauti_cache_words *words, uint32_t item)
{
	return state_of(tauti_cache_words_value(words, item));
}

uint64_t tauti_cache_words_length(const struct tauti_cache_words *words, uint32_t item)
{
	return atomic_load_explicit(&words->length[item], memory_order_relaxed);
}

uint64_t tauti_cache_words_place(const struct tauti_cache_words *words, uint32_t item)
{
	return place_of(tauti_cache_words_value(words, item));
}

uint64_t tauti_cache_words_used_bytes(const struct tauti_cache_words *words)
{
	return TAUTI_ROOM_BYTES *
		end_of(words,
			atomic_load_explicit(words->top, memory_order_acquire));
}

void tauti_cache_words_kept(const struct tauti_cache_words *words,
	uint32_t *ret_items, uint64_t *ret_bytes)
{
	uint32_t items = 0;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < words->n_items; i++) {
		if (tauti_cache_words_state(words, i) != TAUTI_WORD_HERE)
			continue;
		items++;
		bytes += tauti_cache_words_length(words, i);
	}
	*ret_items = items;
	*ret_bytes = bytes;
}

/* --- in memory of malloc -------------------------------------------------------------*/

taut_status tauti_cache_words_check(
	uint32_t n_items, uint64_t capacity_bytes, struct taut_error *err)
{
	if (n_items > TAUTI_CACHE_MOST_ITEMS ||
		capacity_bytes > TAUTI_CACHE_MOST_BYTES)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"cache: %u items and %llu bytes, expected at most %u and %llu",
			n_items, (unsigned long long)capacity_bytes,
			TAUTI_CACHE_MOST_ITEMS,
			(unsigned long long)TAUTI_CACHE_MOST_BYTES);
	return TAUT_OK;
}

taut_status tauti_cache_words_init(struct tauti_cache_words *words, uint32_t n_items,
	uint64_t capacity_bytes, struct taut_error *err)
{
	taut_status status = tauti_cache_words_check(n_items, capacity_bytes, err);
	uint64_t *memory;

	if (status != TAUT_OK)
		return status;
	memory = calloc(
		(size_t)n_items + 1, sizeof *words->word + sizeof *words->length);
	if (!memory)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"cache: no memory for the words of %u items", n_items);
	*words = (struct tauti_cache_words){
		.top = (_Atomic uint64_t *)memory,
		.word = (_Atomic uint64_t *)memory + 1,
		.length = (_Atomic uint32_t *)(void *)(memory + 1 + n_items),
		.n_items = n_items,
		.capacity_bytes = capacity_bytes,
	};
	return TAUT_OK;
}

void tauti_cache_words_fini(struct tauti_cache_words *words)
{
	free((void *)words->top);
	*words = (struct tauti_cache_words){ .top = NULL };
}

_Static_assert(sizeof(_Atomic uint64_t) == 8 && ATOMIC_LLONG_LOCK_FREE == 2,
	"words of 64 bits are changed without a lock");
_Static_assert(TAUTI_CACHE_MOST_BYTES / TAUTI_ROOM_BYTES < MOST_PLACE,
	"a place fits its bits");
