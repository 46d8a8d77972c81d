/* schedule.h - what the ways write schedules with.
 *
 * A way says step after step what its rank does, as if each were over before the
 * next began. The writer finds what each really waits for: a step that reads waits
 * for the last one that wrote there; a step that writes waits for those that read
 * there since, or, if none did, for the last one that wrote. INPUT and OUTPUT count
 * as one memory, because they may be one. A step of no elements is left out, on the
 * sender's side and on the receiver's alike.
 *
 * What a way must see to: no receive may need, by these rules, that a send of its
 * own round is over; for that send may last until the peer has begun to receive.
 * Where both use the same elements, the one goes to or comes from scratch.
 *
 * Errors: memory that is not there is noted, and ends taut_coll_schedule_create();
 *         the calls here then do nothing. */
#ifndef TAUT_COLL_SCHEDULE_H
#define TAUT_COLL_SCHEDULE_H

#include <taut/coll.h>

#include "base/vec.h"

/* --- what is written ------------------------------------------------------------*/

struct tauti_elements {
	uint64_t first, count;
};

/* A range, and where it lies. */
struct tauti_extent {
	enum taut_coll_buffer buffer;
	struct tauti_elements range;
	uint64_t place; /* of range.first in SCRATCH; 0 elsewhere */
};

/* Ranks that do something together; every one of them writes with the same list. */
struct tauti_group {
	const uint32_t *ranks; /* NULL: 0, 1, ... n - 1 */
	uint32_t n, me;        /* me: an index */
};

/* Elements with the same steps behind them. */
struct tauti_segment {
	uint64_t first; /* up to where the next segment begins */
	uint32_t writer, readers; /* a step, TAUT_NONE; in reads, TAUT_NONE */
};

struct tauti_memory {
	TAUT_VEC(struct tauti_segment) segments;
};

struct tauti_read {
	uint32_t step, next; /* in reads; TAUT_NONE: the last */
};

struct tauti_writer {
	const struct taut_coll_shape *shape;
	TAUT_VEC(struct taut_coll_step) steps;
	TAUT_VEC(uint32_t) peers;
	TAUT_VEC(uint32_t) waits;
	TAUT_VEC(uint32_t) waited_by; /* by step: the last that waits for it */
	TAUT_VEC(struct tauti_read) reads;
	struct tauti_memory buffers, scratch;
	uint64_t scratch_count;
	bool failed; /* no memory */
};

/* The shape is borrowed. */
void tauti_writer_init(
	struct tauti_writer *writer, const struct taut_coll_shape *shape);
void tauti_writer_fini(struct tauti_writer *writer);

/* --- places -----------------------------------------------------------------------*/

static inline uint32_t tauti_rank_of(const struct tauti_group *group, uint32_t i)
{
	return group->ranks ? group->ranks[i] : i;
}

static inline struct tauti_extent tauti_extent(
	enum taut_coll_buffer buffer, struct tauti_elements range)
{
	return (struct tauti_extent){ buffer, range, 0 };
}

/* All ranks of the shape; all its elements; block i of n of a range. */
struct tauti_group tauti_all_ranks(const struct tauti_writer *writer);
struct tauti_elements tauti_all(const struct tauti_writer *writer);
struct tauti_elements tauti_block_of(
	struct tauti_elements range, uint32_t n, uint32_t i);
/* A place of its own. */
struct tauti_extent tauti_take_scratch(
	struct tauti_writer *writer, struct tauti_elements range);
/* The largest power of two that is not above n > 0. */
uint32_t tauti_power(uint32_t n);

/* --- steps -------------------------------------------------------------------------*/

void tauti_send(struct tauti_writer *writer, struct tauti_extent from,
	uint32_t peer, uint32_t message);
/* One step. */
void tauti_send_each(struct tauti_writer *writer, struct tauti_extent from,
	const uint32_t *peers, uint32_t n_peers, uint32_t message);
/* One step: to all of the group but this rank and `but` (TAUT_NONE: nobody). */
void tauti_send_all(struct tauti_writer *writer, struct tauti_extent from,
	const struct tauti_group *group, uint32_t but, uint32_t message);
void tauti_recv(struct tauti_writer *writer, struct tauti_extent into,
	uint32_t peer, uint32_t message);
/* into and from: the same elements, and where both are scratch, the same place. */
void tauti_recv_reduce(struct tauti_writer *writer, struct tauti_extent into,
	struct tauti_extent from, uint32_t peer, uint32_t message);
/* into = from op what, which is scratch; into or from is it too, or no scratch. */
void tauti_reduce(struct tauti_writer *writer, struct tauti_extent into,
	struct tauti_extent from, struct tauti_extent what);
/* OUTPUT = INPUT; no other step uses these elements of OUTPUT. */
void tauti_copy(struct tauti_writer *writer, struct tauti_elements range);

/* --- ways ---------------------------------------------------------------------------*/

struct tauti_way_row {
	const char *name;
	/* By verb; NULL: there is none. At least two ranks. */
	void (*write[TAUT_VERBS])(struct tauti_writer *writer);
};

extern const struct tauti_way_row tauti_way_direct, tauti_way_doubling,
	tauti_way_halving, tauti_way_ring, tauti_way_tree, tauti_way_hosts,
	tauti_way_flat;

/* What one way borrows of another. `from` is where this rank's operand, or what it
 * spreads, lies: INPUT, or OUTPUT. */

/* OUTPUT = the sum of all ranks' INPUT in the order of the ranks. busy: INPUT is
 * being sent, and OUTPUT is written as late as can be. */
void tauti_fold_ordered(struct tauti_writer *writer, struct tauti_elements range,
	uint32_t message, bool busy);
void tauti_ring_allreduce(struct tauti_writer *writer,
	const struct tauti_group *group, struct tauti_elements range,
	enum taut_coll_buffer from);
void tauti_halving_allreduce(struct tauti_writer *writer,
	const struct tauti_group *group, struct tauti_elements range,
	enum taut_coll_buffer from);
/* From the group's member `root`, which sends its INPUT. */
void tauti_tree_broadcast(struct tauti_writer *writer,
	const struct tauti_group *group, uint32_t root,
	struct tauti_elements range);

#endif /* TAUT_COLL_SCHEDULE_H */
