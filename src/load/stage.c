/* stage.c - the transitions of a ring of prepared items; see stage.h.
 *
 * A word is, from its lowest bit: state (2), seat (8), generation (18), position (36). */
#include "load/stage.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum state { NEVER, OPEN, CLAIMED, MADE };

enum { SEAT_BITS = 8, GENERATION_BITS = 18, POSITION_AT = 28 };

#define ATTACHED 1u
#define LINE_BYTES 64u

/* --- words -------------------------------------------------------------------------*/

static uint64_t pack_seat(struct tauti_stage_seat who)
{
	return ((uint64_t)who.seat & ((1u << SEAT_BITS) - 1)) |
		((uint64_t)who.generation & ((1u << GENERATION_BITS) - 1)) << SEAT_BITS;
}

static struct tauti_stage_seat seat_of(uint64_t packed)
{
	return (struct tauti_stage_seat){
		(uint32_t)(packed & ((1u << SEAT_BITS) - 1)),
		(uint32_t)(packed >> SEAT_BITS & ((1u << GENERATION_BITS) - 1)),
	};
}

static uint64_t pack(enum state state, struct tauti_stage_seat who, uint64_t position)
{
	return (uint64_t)state | pack_seat(who) << 2 | position << POSITION_AT;
}

static enum state state_of(uint64_t word)
{
	return (enum state)(word & 3);
}

static uint64_t position_of(uint64_t word)
{
	return word >> POSITION_AT;
}

static _Atomic uint64_t *word_at(const struct tauti_stage *stage, uint64_t position)
{
	return &stage->words[position % stage->n_places];
}

static void step(struct tauti_stage *stage)
{
	if (stage->between)
		stage->between(stage->context);
}

static bool change(struct tauti_stage *stage, _Atomic uint64_t *at, uint64_t from, uint64_t to)
{
	step(stage);
	return atomic_compare_exchange_strong(at, &from, to);
}

static void count(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void tell(struct tauti_stage *stage)
{
	step(stage);
	atomic_fetch_add(&stage->shared->news, 1);
	if (atomic_load(&stage->shared->waiters))
		syscall(SYS_futex, &stage->shared->news, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

uint32_t tauti_stage_news(const struct tauti_stage *stage)
{
	return atomic_load(&stage->shared->news);
}

/* Who is killed here counts as a waiter for good: wakes that nobody hears. */
void tauti_stage_wait(struct tauti_stage *stage, uint32_t seen, int64_t most_ns)
{
	struct timespec most = { most_ns / 1000000000, most_ns % 1000000000 };

	atomic_fetch_add(&stage->shared->waiters, 1);
	syscall(SYS_futex, &stage->shared->news, FUTEX_WAIT, seen, &most, NULL, 0);
	atomic_fetch_sub(&stage->shared->waiters, 1);
}

/* --- memory ------------------------------------------------------------------------*/

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

uint64_t tauti_stage_bytes(uint64_t n_places, size_t place_bytes)
{
	uint64_t place = round_up(place_bytes);
	uint64_t most = UINT64_MAX / 4;

	if (n_places == 0 || place_bytes == 0 || place > most || n_places > most / 8 ||
		n_places > most / place)
		return UINT64_MAX;
	return round_up(sizeof(struct tauti_stage_shared)) + round_up(8 * n_places) +
		n_places * place;
}

void tauti_stage_lay(struct tauti_stage *stage, void *memory, uint64_t n_places,
	size_t place_bytes)
{
	unsigned char *at = memory;

	stage->shared = memory;
	at += round_up(sizeof *stage->shared);
	stage->words = (_Atomic uint64_t *)(void *)at;
	stage->bytes = at + round_up(8 * n_places);
	stage->n_places = n_places;
	stage->place_bytes = round_up(place_bytes);
	stage->member = TAUT_NONE;
}

/* --- members -----------------------------------------------------------------------*/

static uint64_t owner_of(struct tauti_stage_seat who)
{
	return pack_seat(who) << 1 | 1;
}

static bool owner_lives(const struct tauti_stage *stage, uint64_t owner)
{
	return stage->lives(stage->context, seat_of(owner >> 1));
}

static uint64_t cursor_at(uint64_t position, bool attached)
{
	return (position + 1) << 1 | (attached ? ATTACHED : 0);
}

static uint64_t cursor_position(uint64_t cursor)
{
	return (cursor >> 1) - 1;
}

static bool is_attached(uint64_t cursor)
{
	return cursor & ATTACHED;
}

/* The cursor goes before the owner, and only the one that was seen: whoever has the place
 * next has another. */
static bool bury_one(struct tauti_stage *stage, struct tauti_stage_member *member)
{
	uint64_t owner = atomic_load(&member->owner);
	uint64_t cursor = atomic_load(&member->cursor);

	if (!owner || owner_lives(stage, owner) || atomic_load(&member->owner) != owner)
		return false;
	(void)change(stage, &member->cursor, cursor, 0);
	return change(stage, &member->owner, owner, 0);
}

uint32_t tauti_stage_bury(struct tauti_stage *stage)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < TAUTI_STAGE_MEMBERS; i++)
		n += bury_one(stage, &stage->shared->members[i]);
	if (n)
		tell(stage);
	return n;
}

taut_status tauti_stage_join(
	struct tauti_stage *stage, uint64_t position, struct taut_error *err)
{
	struct tauti_stage_member *members = stage->shared->members;

	(void)tauti_stage_bury(stage);
	for (uint32_t i = 0; i < TAUTI_STAGE_MEMBERS; i++) {
		if (!change(stage, &members[i].owner, 0, owner_of(stage->me)))
			continue;
		stage->member = i;
		tauti_stage_move(stage, position);
		return TAUT_OK;
	}
	return taut_error_set(err, TAUT_EAGAIN, -1,
		"prepared items are shared by %d loaders of this host already, which is the most",
		TAUTI_STAGE_MEMBERS);
}

void tauti_stage_leave(struct tauti_stage *stage)
{
	struct tauti_stage_member *mine;

	if (stage->member == TAUT_NONE)
		return;
	mine = &stage->shared->members[stage->member];
	step(stage);
	atomic_store(&mine->cursor, 0);
	step(stage);
	atomic_store(&mine->owner, 0);
	stage->member = TAUT_NONE;
	tell(stage);
}

/* The furthest cursor of the others that are attached; position when there is none. */
static uint64_t furthest(const struct tauti_stage *stage, uint64_t position)
{
	uint64_t most = position;

	for (uint32_t i = 0; i < TAUTI_STAGE_MEMBERS; i++) {
		uint64_t cursor = atomic_load(&stage->shared->members[i].cursor);

		if (is_attached(cursor) && cursor_position(cursor) > most)
			most = cursor_position(cursor);
	}
	return most;
}

void tauti_stage_move(struct tauti_stage *stage, uint64_t position)
{
	_Atomic uint64_t *mine = &stage->shared->members[stage->member].cursor;
	uint64_t was;

	do {
		was = atomic_load(mine);
		if (is_attached(was) && cursor_position(was) == position)
			return;
	} while (!change(stage, mine, was, cursor_at(position, is_attached(was) ||
		furthest(stage, position) - position < stage->n_places)));
	tell(stage);
}

static bool needs(const struct tauti_stage *stage, uint32_t i, uint64_t position)
{
	uint64_t cursor = atomic_load(&stage->shared->members[i].cursor);

	return is_attached(cursor) && cursor_position(cursor) <= position;
}

static bool is_needed(const struct tauti_stage *stage, uint64_t position)
{
	for (uint32_t i = 0; i < TAUTI_STAGE_MEMBERS; i++)
		if (needs(stage, i, position))
			return true;
	return false;
}

static bool detach_one(struct tauti_stage *stage, uint32_t i, uint64_t position)
{
	struct tauti_stage_member *member = &stage->shared->members[i];
	uint64_t cursor = atomic_load(&member->cursor);

	if (i == stage->member || !needs(stage, i, position))
		return false;
	if (bury_one(stage, member))
		return true;
	return change(stage, &member->cursor, cursor, cursor & ~(uint64_t)ATTACHED);
}

uint32_t tauti_stage_detach(struct tauti_stage *stage, uint64_t position)
{
	uint64_t word = atomic_load(word_at(stage, position));
	uint32_t n = 0;

	if (state_of(word) == NEVER || position_of(word) >= position)
		return 0;
	for (uint32_t i = 0; i < TAUTI_STAGE_MEMBERS; i++) {
		if (!detach_one(stage, i, position_of(word)))
			continue;
		count(&stage->shared->counts.detached);
		n++;
	}
	if (n)
		tell(stage);
	return n;
}

/* --- places ------------------------------------------------------------------------*/

static bool maker_lives(const struct tauti_stage *stage, uint64_t word)
{
	return stage->lives(stage->context, seat_of(word >> 2));
}

static bool claim(struct tauti_stage *stage, uint64_t position, uint64_t word)
{
	if (!change(stage, word_at(stage, position), word,
		pack(CLAIMED, stage->me, position)))
		return false;
	if (state_of(word) == CLAIMED)
		count(&stage->shared->counts.taken);
	return true;
}

/* What a word means to who looks for a position; MINE: that it may be claimed. */
static enum tauti_stage_look judge(
	const struct tauti_stage *stage, uint64_t position, uint64_t word)
{
	bool held = state_of(word) == CLAIMED && maker_lives(stage, word);

	if (state_of(word) == NEVER)
		return TAUTI_STAGE_MINE;
	if (position_of(word) == position)
		return state_of(word) == MADE ? TAUTI_STAGE_HERE :
			held ? TAUTI_STAGE_COMING : TAUTI_STAGE_MINE;
	if (position_of(word) > position || held)
		return TAUTI_STAGE_PRIVATE;
	return is_needed(stage, position_of(word)) ? TAUTI_STAGE_FULL : TAUTI_STAGE_MINE;
}

enum tauti_stage_look tauti_stage_look(struct tauti_stage *stage, uint64_t position)
{
	for (;;) {
		uint64_t word = atomic_load(word_at(stage, position));
		enum tauti_stage_look look = judge(stage, position, word);

		if (look != TAUTI_STAGE_MINE || claim(stage, position, word))
			return look;
	}
}

enum tauti_stage_look tauti_stage_peek(struct tauti_stage *stage, uint64_t position)
{
	return judge(stage, position, atomic_load(word_at(stage, position)));
}

/* Whoever was detached reads while another may write: both by whole words, so that what is
 * torn is found by the look after it and harms nobody. */
static _Atomic uint64_t *bytes_at(const struct tauti_stage *stage, uint64_t position)
{
	return (_Atomic uint64_t *)(void *)(stage->bytes +
		position % stage->n_places * stage->place_bytes);
}

static void put_words(_Atomic uint64_t *to, const unsigned char *from, size_t bytes)
{
	uint64_t last = 0;

	for (; bytes >= 8; bytes -= 8, from += 8, to++) {
		uint64_t word;

		memcpy(&word, from, 8);
		atomic_store_explicit(to, word, memory_order_relaxed);
	}
	if (!bytes)
		return;
	memcpy(&last, from, bytes);
	atomic_store_explicit(to, last, memory_order_relaxed);
}

static void get_words(unsigned char *to, _Atomic uint64_t *from, size_t bytes)
{
	uint64_t word;

	for (; bytes >= 8; bytes -= 8, from++, to += 8) {
		word = atomic_load_explicit(from, memory_order_relaxed);
		memcpy(to, &word, 8);
	}
	if (!bytes)
		return;
	word = atomic_load_explicit(from, memory_order_relaxed);
	memcpy(to, &word, bytes);
}

/* In two halves, so that a test's scheduler may come between. */
void tauti_stage_publish(struct tauti_stage *stage, uint64_t position, const void *made,
	size_t bytes)
{
	_Atomic uint64_t *to = bytes_at(stage, position);
	size_t half = bytes / 16 * 8;

	/* What was claimed before is seen before what is written now: without this
	 * fence a reader's second look could miss the claim of who overwrites. */
	atomic_thread_fence(memory_order_release);
	put_words(to, made, half);
	step(stage);
	put_words(to + half / 8, (const unsigned char *)made + half, bytes - half);
	step(stage);
	atomic_store(word_at(stage, position), pack(MADE, stage->me, position));
	count(&stage->shared->counts.made);
	tell(stage);
}

void tauti_stage_drop(struct tauti_stage *stage, uint64_t position)
{
	step(stage);
	atomic_store(word_at(stage, position), pack(OPEN, stage->me, position));
	tell(stage);
}

static bool is_made(const struct tauti_stage *stage, uint64_t position)
{
	uint64_t word = atomic_load(word_at(stage, position));

	return state_of(word) == MADE && position_of(word) == position;
}

bool tauti_stage_copy(
	struct tauti_stage *stage, uint64_t position, void *into, size_t bytes)
{
	_Atomic uint64_t *from = bytes_at(stage, position);
	size_t half = bytes / 16 * 8;
	bool whole = is_made(stage, position);

	if (whole) {
		step(stage);
		get_words(into, from, half);
		step(stage);
		get_words((unsigned char *)into + half, from + half / 8, bytes - half);
		atomic_thread_fence(memory_order_acquire);
		step(stage);
		whole = is_made(stage, position);
	}
	count(whole ? &stage->shared->counts.copied : &stage->shared->counts.torn);
	return whole;
}
