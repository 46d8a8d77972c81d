/* cache_words.h - what a cache keeps: everything, until it is full, and nothing is ever
 * given up (MinIO: Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training",
 * VLDB'21), counted in bytes.
 *
 * The rule. An item is given room, a multiple of 64 bytes, when it is first looked for,
 * if that much is left; that room is its own for good. If less is left, it is never
 * kept; smaller ones that come later may be. So
 *   sum of the rooms <= capacity, always;
 *   sum of the rooms > capacity - the largest room, once every item was looked for, if
 *   not all fit. Empty items and those of 4 GiB and more are never kept.
 *
 * It is arithmetic on three arrays, which may lie in any memory: one that processes
 * share (cache.h) or one of a simulation on a virtual clock. They begin as zeros.
 *
 *   word    an item's state, and its room's place; FILLING names a participant
 *   length  its bytes; set once, by who first asks for room
 *   top     where free room begins, and the item that was given the room there last
 *
 *      ABSENT --look--> FILLING --fill--> HERE
 *        ^                |  ^ \
 *        '-----drop-------'  '-'look, when that participant is gone
 *      FILLING --no room is left--> NEVER
 *
 * Every step is one compare-and-swap on one word, and a participant may die between any
 * two. Room is given by top alone, which names the item: whoever wants the next room
 * first writes the last one's place into its item's word. So room is never lost and never
 * given twice, even if two that take each other for dead ask for the same item.
 *
 * Owner:   whoever holds the struct; of the arrays, who has made them.
 * Threads: all calls from any, without a lock, in any number of processes. */
#ifndef TAUT_LOAD_CACHE_WORDS_H
#define TAUT_LOAD_CACHE_WORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

enum { TAUTI_ROOM_BYTES = 64 };

#define TAUTI_CACHE_MOST_ITEMS ((UINT32_C(1) << 28) - 2)
#define TAUTI_CACHE_MOST_BYTES (UINT64_C(1) << 41) /* of capacity: 2 TiB */

enum tauti_cache_answer {
	TAUTI_CACHE_HERE,   /* at: its bytes */
	TAUTI_CACHE_MINE,   /* the caller is to fetch it. at: room for it, and then
	                       comes fill or drop; NULL: it is not kept, none comes */
	TAUTI_CACHE_COMING, /* another that lives is fetching it */
};

enum tauti_cache_state {
	TAUTI_WORD_ABSENT,
	TAUTI_WORD_FILLING,
	TAUTI_WORD_HERE,
	TAUTI_WORD_NEVER,
};

struct tauti_cache_words {
	_Atomic uint64_t *word;   /* n_items */
	_Atomic uint32_t *length; /* n_items */
	_Atomic uint64_t *top;    /* one */
	uint32_t n_items;
	uint64_t capacity_bytes;
	uint32_t seat, generation; /* who is asking: see pool.h */
	void *state; /* for what follows, each of which may be NULL */
	/* NULL: all live. */
	bool (*lives)(void *state, uint32_t seat, uint32_t generation);
	/* Backs the first end_bytes of all room with memory. False: there is none, and
	 * the item is never kept. */
	bool (*reserve)(void *state, uint64_t end_bytes);
	/* Called before each step on shared words; for tests. */
	void (*step)(void *state);
};

/* TAUT_EINVAL: more items or bytes than there may be. */
TAUT_NODISCARD taut_status tauti_cache_words_check(
	uint32_t n_items, uint64_t capacity_bytes, struct taut_error *err);
/* n_items cleared words in memory of malloc, one participant. */
TAUT_NODISCARD taut_status tauti_cache_words_init(struct tauti_cache_words *words,
	uint32_t n_items, uint64_t capacity_bytes, struct taut_error *err);
void tauti_cache_words_fini(struct tauti_cache_words *words); /* of init alone */

/* Looks for an item of so many bytes. *ret_place is set to its room's first byte for
 * HERE, and for MINE to that or to UINT64_MAX: not kept. Of an item that has another
 * length than when it was given room, MINE and not kept. */
enum tauti_cache_answer tauti_cache_words_look(const struct tauti_cache_words *words,
	uint32_t item, uint64_t bytes, uint64_t *ret_place);
/* The bytes are in place, or did not come. By who was told MINE, else nothing happens and
 * the answer is false. */
bool tauti_cache_words_fill(const struct tauti_cache_words *words, uint32_t item);
bool tauti_cache_words_drop(const struct tauti_cache_words *words, uint32_t item);
/* Look and fill in one, for a simulation: whether it was a hit. */
bool tauti_cache_words_touch(
	const struct tauti_cache_words *words, uint32_t item, uint64_t bytes);

enum tauti_cache_state tauti_cache_words_state(
	const struct tauti_cache_words *words, uint32_t item);
/* Bytes of an item that was given room or asked for it; 0 of any other. */
uint64_t tauti_cache_words_length(const struct tauti_cache_words *words, uint32_t item);
/* UINT64_MAX: it was given none. */
uint64_t tauti_cache_words_place(const struct tauti_cache_words *words, uint32_t item);
/* Room that was given, to items that are HERE or not. One read. */
uint64_t tauti_cache_words_used_bytes(const struct tauti_cache_words *words);
/* What is HERE, counted item by item, without the rooms' unused ends. */
void tauti_cache_words_kept(const struct tauti_cache_words *words,
	uint32_t *ret_items, uint64_t *ret_bytes);

/* For cache.c, which sleeps until a word changes. */
uint64_t tauti_cache_words_value(const struct tauti_cache_words *words, uint32_t item);
/* The word says that one is filling it who lives. */
bool tauti_cache_words_coming(const struct tauti_cache_words *words, uint64_t value);

#endif /* TAUT_LOAD_CACHE_WORDS_H */
