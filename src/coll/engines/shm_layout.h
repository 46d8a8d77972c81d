/* shm_layout.h - what lies in the memory that the ranks of a host share.
 *
 *     part of rank 0 | part of rank 1 | ...
 *
 * One part is
 *
 *     bell      what its owner sleeps on
 *     taken     by sender: lines of the sender's FIFO to the owner that the owner
 *               has read, and how many of the sender's slots
 *     readers   by slot of the owner: how many ranks still have to read it
 *     fifos     by receiver: what the owner sends
 *     slots     payload that the owner sends
 *
 * Every word but the bell has one writer at a time and stands on lines of its
 * own. A part lies on whole pages, which its owner is the first to touch: they
 * are near to its core.
 *
 * Nothing in there is believed: another process may have written anything. What
 * comes from there is read once, checked, and used as checked. */
#ifndef TAUT_COLL_ENGINES_SHM_LAYOUT_H
#define TAUT_COLL_ENGINES_SHM_LAYOUT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

enum {
	TAUTI_SHM_LINE = 64,
	TAUTI_SHM_APART = 128, /* processors fetch lines in pairs */
	TAUTI_SHM_PAGE = 4096,
	TAUTI_SHM_SLOT_BYTES = 256 << 10,
	TAUTI_SHM_FIFO_LINES = 256, /* a power of two */
	TAUTI_SHM_MOST_LINES = 17,  /* of one message: 1 KiB, and its head */
	TAUTI_SHM_HEAD_BYTES = 24,
	/* What is not longer stands in the FIFO itself. */
	TAUTI_SHM_SHORT_BYTES =
		TAUTI_SHM_MOST_LINES * TAUTI_SHM_LINE - TAUTI_SHM_HEAD_BYTES,
};

/* In place of a slot. */
#define TAUTI_SHM_INLINE UINT32_MAX      /* the payload follows, in the FIFO */
#define TAUTI_SHM_SKIP (UINT32_MAX - 1u) /* nothing more before the FIFO's end */

/* A message in a FIFO: this line, and those that the payload reaches into. It
 * does not go over the FIFO's end. */
struct tauti_shm_line {
	/* Of the FIFO's lines since the beginning, this one's number + 1: written
	 * last. 0: nothing yet; the sender writes that into the line after a
	 * message before it publishes the message, where payload has been. A number
	 * of 256, or a multiple, less: an old one. */
	_Atomic uint64_t sequence;
	_Atomic uint64_t tag;
	_Atomic uint32_t bytes, slot;
	unsigned char payload[TAUTI_SHM_LINE - TAUTI_SHM_HEAD_BYTES];
};

struct tauti_shm_word {
	alignas(TAUTI_SHM_APART) _Atomic uint64_t value;
	_Atomic uint64_t n_read; /* of taken: slots, since the beginning */
};

/* What wakes its owner. */
enum tauti_shm_sleep {
	TAUTI_SHM_AWAKE = 0,
	TAUTI_SHM_ASLEEP = 1, /* a message that comes */
	TAUTI_SHM_FULL = 2,   /* one that it sent and that is read */
	TAUTI_SHM_HOLDS = 4,  /* a sender that needs its slots back */
};

struct tauti_shm_bell {
	alignas(TAUTI_SHM_APART) _Atomic uint32_t sleep; /* a futex */
	/* Not 0: its owner has messages for which there is no room. */
	_Atomic uint32_t full;
};

struct tauti_shm_layout {
	uint32_t n_ranks; /* of the host */
	uint32_t n_slots;
	uint64_t slot_bytes;
	/* Made of those. The slots do not begin at the same place of a cache. */
	uint64_t readers_at, fifos_at, slots_at, slot_apart, part_bytes;
	uint64_t total_bytes;
};

enum {
	TAUTI_SHM_LEAST_SLOTS = 4,
	TAUTI_SHM_MOST_SLOTS = 16,
};

static inline struct tauti_shm_layout tauti_shm_lay(
	uint32_t n_ranks, uint32_t n_slots, uint64_t slot_bytes)
{
	const uint64_t page = TAUTI_SHM_PAGE;
	struct tauti_shm_layout it = { .n_ranks = n_ranks,
		.n_slots = n_slots, .slot_bytes = slot_bytes };
	uint64_t words_end;

	it.readers_at = sizeof(struct tauti_shm_bell) +
		n_ranks * sizeof(struct tauti_shm_word);
	words_end = it.readers_at + n_slots * sizeof(struct tauti_shm_word);
	it.fifos_at = (words_end + page - 1) / page * page;
	it.slots_at = it.fifos_at +
		(uint64_t)n_ranks * TAUTI_SHM_FIFO_LINES * TAUTI_SHM_LINE;
	it.slot_apart = slot_bytes + page;
	it.part_bytes = it.slots_at + n_slots * it.slot_apart;
	it.total_bytes = n_ranks * it.part_bytes;
	return it;
}

/* Where things are, of the rank of the host whose number is i. */
static inline unsigned char *tauti_shm_part(
	const struct tauti_shm_layout *layout, void *base, uint32_t i)
{
	return (unsigned char *)base + i * layout->part_bytes;
}

static inline struct tauti_shm_bell *tauti_shm_bell(
	const struct tauti_shm_layout *layout, void *base, uint32_t i)
{
	return (void *)tauti_shm_part(layout, base, i);
}

/* What i has read of what `sender` sent it. */
static inline struct tauti_shm_word *tauti_shm_taken(
	const struct tauti_shm_layout *layout, void *base, uint32_t i,
	uint32_t sender)
{
	return (struct tauti_shm_word *)(void *)(tauti_shm_part(layout, base, i) +
		sizeof(struct tauti_shm_bell)) + sender;
}

static inline struct tauti_shm_word *tauti_shm_readers(
	const struct tauti_shm_layout *layout, void *base, uint32_t i)
{
	return (void *)(tauti_shm_part(layout, base, i) + layout->readers_at);
}

static inline struct tauti_shm_line *tauti_shm_fifo(
	const struct tauti_shm_layout *layout, void *base, uint32_t i,
	uint32_t receiver)
{
	return (struct tauti_shm_line *)(void *)(tauti_shm_part(layout, base, i) +
		layout->fifos_at) + (size_t)receiver * TAUTI_SHM_FIFO_LINES;
}

static inline unsigned char *tauti_shm_slots(
	const struct tauti_shm_layout *layout, void *base, uint32_t i)
{
	return tauti_shm_part(layout, base, i) + layout->slots_at;
}

#endif /* TAUT_COLL_ENGINES_SHM_LAYOUT_H */
