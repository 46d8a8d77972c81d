/* peers.h - one cache over several hosts: what a host does not keep it asks from the one that
 * does, so that a set is read from storage once for all of them.
 *
 *     peers = taut_peers_create(set, ...)        every rank of the job, all at once
 *     options.remote = taut_peers_remote(peers)  of taut_load_create(), with cache_bytes
 *     taut_load_destroy(), taut_peers_destroy()
 *
 * Each item has one owner: a host, by the set and the hosts that met, in proportion to their
 * cache_bytes. The owner keeps it, and what others get from it they do not keep. Where
 * the owner has no room left, or does not answer, whoever asked reads its storage. An owner
 * that is gone is not asked again: from then on its share is like that of any cache, read
 * from storage, and kept where there is room.
 *
 * The network is TCP, one connection for each two processes of different hosts, which prove
 * to each other that they know the job's secret before anything else is read. It goes beside
 * the engines of collectives, not over them: there the loss of one rank ends everything, by
 * their purpose; they are one thread's at a time; and a message waits for who receives it,
 * by its tag. Here a lost peer ends its own connection alone, hundreds of asks are under way
 * in any order, bytes go from the cache's memory to the socket and from there to where they
 * are prepared, and a thread sleeps in poll() until something comes. What is said is neither
 * encrypted nor signed.
 *
 * Owner:   peers borrow nothing once made. One loader uses them at a time; they are destroyed
 *          after it.
 * Threads: create and destroy by one; all else by any. One thread is made, which sleeps while
 *          nothing is asked. After fork() the child's copy does nothing: destroy returns, and
 *          a loader is not made with it (TAUT_EIO).
 * Units:   bytes, nanoseconds. */
#ifndef TAUT_PEERS_H
#define TAUT_PEERS_H

#include <stdint.h>

#include <taut/load.h>

TAUT_BEGIN_DECLS

struct taut_peers; /* opaque */

struct taut_peers_options { /* zero is every field's default */
	uint32_t size; /* sizeof *this, or 0: as of this header */
	uint32_t rank, n_ranks;
	const char *meet;   /* HOST:PORT at which rank 0 listens until all are there */
	const char *secret; /* of the job, as for taut_comm_create(); NULL: $TAUT_SECRET */
	const char *door;   /* HOST:PORT at which this rank listens for higher ones until all
	                       are connected. NULL: where it reached rank 0 from, or meet's
	                       host, at any port */
	const char *host;   /* ranks that say the same here share a cache; NULL: those that
	                       can share memory */
	uint64_t cache_bytes; /* the loader's; the same for all ranks of a host */
	uint32_t n_asks;    /* asked by this rank at a time; 0: 256; at most 4096 */
	int64_t meet_within_ns;   /* 0: 60 s */
	int64_t lost_after_ns;    /* a peer that says nothing; 0: 10 s */
	int64_t answer_within_ns; /* one that lives, but does not answer an ask: this one
	                             goes to storage; 0: 10 s */
};

/* Returns when all ranks are there and connected. TAUT_EIO: they are not, in time, or one
 * does not know the secret. TAUT_EMATCH: ranks that do not belong together, or have another
 * set. TAUT_EINVAL, TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_peers_create(const struct taut_set *set,
	const struct taut_peers_options *options, struct taut_peers **ret_peers,
	struct taut_error *reterr);
/* Leaves: the others read from storage what they would ask for. NULL is fine. */
TAUT_API void taut_peers_destroy(struct taut_peers *peers);

/* For options.remote of a loader with the same set and cache_bytes. */
TAUT_API struct taut_load_remote *taut_peers_remote(struct taut_peers *peers);

/* The host that owns an item, and this one's number: 0 .. n_hosts - 1. */
TAUT_API uint32_t taut_peers_owner(const struct taut_peers *peers, uint64_t item);
TAUT_API uint32_t taut_peers_host(const struct taut_peers *peers);

struct taut_peers_counts { /* since they were made */
	uint32_t n_hosts, n_ranks;
	uint64_t share_items, share_bytes; /* that this host owns */
	uint64_t asked;      /* of others */
	uint64_t came, came_bytes;
	uint64_t late;       /* of asked: given up for answer_within_ns */
	uint64_t served, served_bytes; /* to others */
	uint64_t refused;    /* asked by others, and there was no room for it */
	uint32_t lost;       /* peers: broken, silent, or talking nonsense */
	uint32_t left;       /* peers, in peace */
};
TAUT_API void taut_peers_counts(
	const struct taut_peers *peers, struct taut_peers_counts *ret_counts);

TAUT_END_DECLS
#endif /* TAUT_PEERS_H */
