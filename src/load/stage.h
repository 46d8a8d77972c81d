/* stage.h - what one job of a host prepared, for all of them: a ring of prepared items.
 *
 * Jobs that search for hyper-parameters read the same set in the same order (one seed) and
 * prepare it alike. Here the first that comes to a position prepares it, and the others
 * copy what it made: prepared once for all (CoorDL's coordinated preparation, VLDB'21).
 *
 * The stage is a memory and never a duty. Each job keeps its own account of what it
 * delivers (core.h); at each position it asks here whether somebody has made it, and when
 * not, or no more, it makes it itself. So no job can make another lose or repeat an item,
 * and whoever is killed at any instant costs the others the time of what it had begun.
 *
 *   position p of the endless sequence of epochs has the place p % n_places; one word says
 *   which position is there and what is with it:
 *
 *           MINE               publish
 *     old --------> CLAIMED p ---------> MADE p --------> CLAIMED p + k n_places
 *                    |     ^ the next who looks,             MINE, once all attached
 *              drop  |     | when its maker died             members are past p
 *                    v     |
 *                   OPEN p -            (whoever gives up; the next who looks takes it)
 *
 * Each arrow is one compare-and-swap, so that death between any two instructions leaves
 * either what was or what is. Only who claimed a place writes its bytes, and a claim of
 * somebody who lives is never taken away; a reader copies, then looks at the word again.
 *
 * Who waits for whom. A member is attached with a cursor: the lowest position that it may
 * still ask for. A place is used again when all attached cursors are past it, so a member
 * runs ahead of the slowest by at most the ring. Then it may wait, or detach the slowest
 * (the caller's patience decides): that one makes by itself what it finds overwritten, and is
 * attached again by its own next tauti_stage_move() within reach of the others.
 *
 * Owner:   the words and bytes are borrowed, in memory that the members share (pool.h) or,
 *          in a simulation, in any; all of it zero is an empty stage.
 * Threads: any thread of any member, at once; but for tauti_stage_wait() no call waits. A
 *          member's own cursor is moved by one thread at a time.
 * Limits:  positions below 2^36; 256 seats, 64 members. */
#ifndef TAUT_LOAD_STAGE_H
#define TAUT_LOAD_STAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

enum {
	TAUTI_STAGE_MEMBERS = 64,
	TAUTI_STAGE_GENERATIONS = 1 << 18, /* of a seat, as the pool has them */
};

enum tauti_stage_look {
	TAUTI_STAGE_HERE,    /* made: tauti_stage_copy() */
	TAUTI_STAGE_COMING,  /* somebody who lives makes it: ask again after the next
	                        publish, drop or death; out of patience, make it for
	                        yourself alone */
	TAUTI_STAGE_MINE,    /* this member makes it: publish or drop */
	TAUTI_STAGE_FULL,    /* the place is still needed by a member that is a whole
	                        ring behind: wait, or detach it and ask again */
	TAUTI_STAGE_PRIVATE, /* gone, or its place is held by another position that
	                        somebody makes: make it for yourself alone */
};

/* Who a word's writer is; the pool's seat. */
struct tauti_stage_seat {
	uint32_t seat;       /* < 256 */
	uint32_t generation; /* modulo TAUTI_STAGE_GENERATIONS */
};

/* Shared. A cursor is 0: free; else (position + 1) << 1 | attached. */
struct tauti_stage_member {
	_Atomic uint64_t owner;  /* 0: free; else seat, generation, a bit that is set */
	_Atomic uint64_t cursor;
};

/* Shared. Each counts what all members did; a member that dies in a call may have done
 * what it has not counted. */
struct tauti_stage_counts {
	_Atomic uint64_t made;     /* published */
	_Atomic uint64_t copied;   /* whole and right */
	_Atomic uint64_t torn;     /* overwritten while copied: made once more */
	_Atomic uint64_t taken;    /* from members that died */
	_Atomic uint64_t detached;
};

struct tauti_stage_shared {
	struct tauti_stage_member members[TAUTI_STAGE_MEMBERS];
	struct tauti_stage_counts counts;
	_Atomic uint32_t news; /* grows with whatever may change a look's answer */
	_Atomic uint32_t waiters;
};

/* One member's view. */
struct tauti_stage {
	struct tauti_stage_shared *shared;
	_Atomic uint64_t *words; /* n_places */
	unsigned char *bytes;    /* n_places * place_bytes */
	uint64_t n_places;
	size_t place_bytes;
	struct tauti_stage_seat me;
	uint32_t member;         /* TAUT_NONE: none */
	/* Whether that participant still lives; itself too. Any thread, may not wait. */
	bool (*lives)(void *context, struct tauti_stage_seat seat);
	void *context;
	/* Called between any two steps that others may see; a test's scheduler. NULL: none */
	void (*between)(void *context);
};

/* What the shared memory of a stage takes, words and bytes with it; UINT64_MAX: too much. */
uint64_t tauti_stage_bytes(uint64_t n_places, size_t place_bytes);
/* Lays a stage into memory of so many bytes, aligned to 64; no member yet. */
void tauti_stage_lay(struct tauti_stage *stage, void *memory, uint64_t n_places,
	size_t place_bytes);

/* Becomes a member, attached at a position. Members that died make room.
 * TAUT_EAGAIN: all of TAUTI_STAGE_MEMBERS live. */
TAUT_NODISCARD taut_status tauti_stage_join(
	struct tauti_stage *stage, uint64_t position, struct taut_error *err);
/* No longer one. What it claimed it must have published or dropped. */
void tauti_stage_leave(struct tauti_stage *stage);

/* What to do about a position, from this member's cursor to n_places - 1 beyond it. */
enum tauti_stage_look tauti_stage_look(struct tauti_stage *stage, uint64_t position);
/* As look, but claims nothing; MINE: a look would have claimed it. */
enum tauti_stage_look tauti_stage_peek(struct tauti_stage *stage, uint64_t position);
/* After MINE, once: copies what was made, place_bytes at most. The maker keeps its own,
 * which it made for itself, so that nothing half made is ever where others read. */
void tauti_stage_publish(struct tauti_stage *stage, uint64_t position,
	const void *made, size_t bytes);
/* After MINE, once: it will not be made here; the next who looks may. */
void tauti_stage_drop(struct tauti_stage *stage, uint64_t position);
/* After HERE. False: it went away meanwhile, `into` holds nothing of use; make it yourself. */
TAUT_NODISCARD bool tauti_stage_copy(
	struct tauti_stage *stage, uint64_t position, void *into, size_t bytes);

/* This member needs nothing below position any more, which never falls. Attaches it again
 * when it was detached and is within a ring of the furthest member. */
void tauti_stage_move(struct tauti_stage *stage, uint64_t position);
/* After FULL at position: detaches whoever is in the way of it, but not this member. Those
 * who died are removed. Returns how many. */
uint32_t tauti_stage_detach(struct tauti_stage *stage, uint64_t position);
/* Removes members that died, who else are in the way of others; returns how many. */
uint32_t tauti_stage_bury(struct tauti_stage *stage);

/* What is new is counted: a look that comes after this number is at least as new. */
uint32_t tauti_stage_news(const struct tauti_stage *stage);
/* Until there is more news than seen, or so long: nobody tells of a death. */
void tauti_stage_wait(struct tauti_stage *stage, uint32_t seen, int64_t most_ns);

#endif /* TAUT_LOAD_STAGE_H */
