/* remote.h - the seam between a loader and what has items on other hosts.
 *
 * A loader asks for the bytes of an item that another host has, and lends what it has
 * itself, its cache and its store, so that others' asks can be answered. Who carries that
 * over a network stands on a floor above (src/peers).
 *
 *   loader                              remote
 *   attach(source)                 ->   may call the source until detach returns
 *   where(item)                    ->   who keeps it, and whether it can be asked for
 *   ask(ask)                       ->   ... done(ask, status)
 *                                  <-   source: bytes, cache, read
 *   detach                         ->   all asks are done, no memory is read any more
 *
 * Owner:   an ask and its room are lent to the remote from ask() until done() is called.
 * Threads: where and ask from any, all at once, and neither waits. done() on a thread of the
 *          remote, or inside ask(); no lock of the remote is held. What a source has is
 *          called by one thread of the remote at a time. */
#ifndef TAUT_LOAD_REMOTE_H
#define TAUT_LOAD_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

#include "load/cache.h"

enum { TAUTI_REMOTE_READS = 32 };

struct tauti_remote_ask {
	uint64_t item, bytes;
	void *into; /* bytes of room */
	/* TAUT_OK: the bytes are in the room. TAUT_EAGAIN: they do not come from
	 * there, and are to be read here; the room may have been written to. May ask;
	 * must not wait. */
	void (*done)(struct tauti_remote_ask *ask, taut_status status);
	struct tauti_remote_ask *next; /* the remote's until done, as the following */
	taut_status status;
};

/* One read for others, of an item that tauti_cache_look() gave to the remote. */
struct tauti_remote_read {
	uint64_t item;
	void *at; /* room of the cache */
	/* The cache was told: filled, or dropped. On any thread, also inside read(). */
	void (*done)(struct tauti_remote_read *read, bool came);
};

struct tauti_remote_source {
	void *context;
	struct tauti_cache *cache;
	uint64_t fingerprint, n_items; /* of the set */
	uint64_t cache_bytes;
	uint32_t n_asks; /* under way at most */
	uint64_t (*bytes)(void *context, uint64_t item);
	/* At most TAUTI_REMOTE_READS at a time. */
	void (*read)(void *context, struct tauti_remote_read *read);
};

enum tauti_remote_where {
	TAUTI_REMOTE_HERE,      /* this host keeps it: its own, or that of one that is gone */
	TAUTI_REMOTE_FAR,       /* another host keeps it, and may be asked */
	TAUTI_REMOTE_ELSEWHERE, /* it does, but is not to be asked now */
};

struct taut_load_remote {
	/* TAUT_EMATCH: it is for another set, or cache. TAUT_EINVAL: a loader is
	 * attached already, or asks for more at a time than it may. TAUT_EIO: it is a
	 * child's copy, after fork(). */
	taut_status (*attach)(struct taut_load_remote *remote,
		const struct tauti_remote_source *source, struct taut_error *err);
	/* Waits for reads that are under way, and for asks, which are done soon. Then
	 * others are told that nothing is here. */
	void (*detach)(struct taut_load_remote *remote);
	/* As it stands now. */
	enum tauti_remote_where (*where)(
		const struct taut_load_remote *remote, uint64_t item);
	void (*ask)(struct taut_load_remote *remote, struct tauti_remote_ask *ask);
};

#endif /* TAUT_LOAD_REMOTE_H */
