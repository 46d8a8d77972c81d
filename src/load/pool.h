/* pool.h - memory that the processes of one host share, that nobody owns and that
 * leaves nothing behind.
 *
 * A pool is a memfd: it has no name in any file system, and when the last process that
 * maps it is gone, however that went, the kernel frees it. Newcomers find it by its
 * door, an abstract unix socket \0taut-pool-<uid>-<16 hex digits>. All participants hold
 * the same listening socket, as they hold the same memory: whoever is awake answers, and
 * the name is taken as long as one of them lives. So nobody has to follow anybody, and
 * there are never two pools of one name in one network namespace: bind() decides.
 *
 * Each participant has a thread, the keeper, asleep in poll() but for newcomers. It has
 * a table of descriptors of its own (close_range with CLOSE_RANGE_UNSHARE, Linux 5.9):
 *
 *   - Its seat is a POSIX record lock on one byte of the memory, which belongs to that
 *     table. It goes with the thread, whatever killed the process, and no close() in the
 *     rest of the process can lose it, so that one process may be in a pool several
 *     times: each is a participant with a seat, and none need know of the others.
 *   - A child by fork() gets neither the lock nor the door. It has the mapping, which it
 *     keeps alive until it ends or executes a program, and may read what it has a
 *     pointer to; every call of this file but close is refused there (see is_copy).
 *
 * Who has another user id is sent away on both sides of the door.
 *
 * Owner:   whoever has opened it, and it closes it once nobody uses its memory.
 * Threads: any may call, but for close, which is the last. */
#ifndef TAUT_LOAD_POOL_H
#define TAUT_LOAD_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

enum {
	TAUTI_POOL_SEATS = 256,
	TAUTI_POOL_GENERATION_BITS = 18, /* then they begin again */
};

struct tauti_pool; /* opaque */

struct tauti_pool_options {
	uint64_t fingerprint; /* with the user id, the name */
	uint64_t bytes;       /* of memory for the caller; the same for all */
	uint64_t first_bytes; /* of these, what is there from the beginning */
	int64_t patience_ns;  /* for who holds the door to answer; 0: 5 s */
	int64_t keep_ns;      /* 0. More: for a process that keeps the pool so long
	                         after the last participant; there is none yet, and
	                         that is TAUT_EINVAL */
};

/* Joins the pool of that name, or makes it: zeros. Bounded by the patience.
 * TAUT_EAGAIN: who holds the door did not answer, or no seat is free.
 * TAUT_EMATCH: a pool of that name is of another size or of another version.
 * TAUT_EIO: the system refused; another user has taken the name. */
TAUT_NODISCARD taut_status tauti_pool_open(
	const struct tauti_pool_options *options, struct tauti_pool **ret_pool,
	struct taut_error *err);
/* Leaves: the seat is free when this returns. In a copy by fork() it only gives back
 * what the copy has. NULL is fine. */
void tauti_pool_close(struct tauti_pool *pool);

/* The memory, aligned to 4096, at another address in each process. */
void *tauti_pool_memory(const struct tauti_pool *pool);
uint64_t tauti_pool_bytes(const struct tauti_pool *pool);
/* This is another process than that which has opened it. */
bool tauti_pool_is_copy(const struct tauti_pool *pool);
/* Whether this participant has made it. */
bool tauti_pool_is_maker(const struct tauti_pool *pool);
/* Of its door, without the first zero byte. */
const char *tauti_pool_name(const struct tauti_pool *pool);
/* Number of the file in the kernel: equal for two participants iff they share. */
uint64_t tauti_pool_inode(const struct tauti_pool *pool);

/* The first end_bytes of the memory are backed by pages from now on. Nobody touches
 * memory before: beyond what was reserved it would be SIGBUS. Taken in larger steps,
 * so that most calls are one comparison. False: the system has no more of it (or, of
 * RLIMIT_FSIZE, lets nobody have it), nothing more is reserved than before, and a later
 * call may succeed. Where a control group is at its limit, the kernel may end a process of
 * the group before it says no. */
TAUT_NODISCARD bool tauti_pool_reserve(struct tauti_pool *pool, uint64_t end_bytes);
uint64_t tauti_pool_reserved_bytes(const struct tauti_pool *pool);

/* --- seats -----------------------------------------------------------------------
 * seat < TAUTI_POOL_SEATS; generation < 2^TAUTI_POOL_GENERATION_BITS, and it is
 * another one each time that a seat is taken: the two together name a participant. */
uint32_t tauti_pool_seat(const struct tauti_pool *pool);
uint32_t tauti_pool_generation(const struct tauti_pool *pool);
/* Whether that participant, of this or any process, is still there. Of one that is, never
 * false. Of one that is gone, true only while somebody is just taking its seat. What it
 * had asked of the system (a read into this memory) may still arrive a moment later. */
bool tauti_pool_seat_lives(
	const struct tauti_pool *pool, uint32_t seat, uint32_t generation);

TAUT_END_DECLS
#endif /* TAUT_LOAD_POOL_H */
