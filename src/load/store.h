/* store.h - where the bytes of items come from: reads that are begun and that end later.
 *
 * A store is one file in stores/ and one row of the table in stores.c. All of them pass
 * one contract test (store_contract.h).
 *
 *   begin(reads) .......... done(read, status)
 *     any thread, at once     a thread of the store, or inside begin()
 *
 * Each read that is begun is done once, in any order; also after stop(), with TAUT_EAGAIN
 * if it was not carried out. What a read needs lies in the caller's memory, so that none is
 * taken and nothing can fail in begin().
 *
 * Owner:   a store is its creator's. A read, its path and its room are lent to the store
 *          from begin until done is called.
 * Threads: begin() and stop() from any, all at once; destroy() when every read is done.
 *          In a child after fork() nothing but leaving it alone is allowed.
 * Errors:  TAUT_EIO: the system refused (a file that vanished), TAUT_EFORMAT: the file
 *          ends before the read does. The line has path, offset and expected bytes.
 * Units:   bytes, nanoseconds. */
#ifndef TAUT_LOAD_STORE_H
#define TAUT_LOAD_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

struct tauti_store_read {
	const char *path;      /* of the file; absolute, or from the working folder */
	uint64_t file;         /* number of the file: one path, one number */
	uint64_t offset, bytes; /* of the file; 0 bytes are looked for too: the file
	                           must be there */
	bool whole;            /* nothing else of the file is read: its descriptor is
	                          closed at once */
	void *into;            /* bytes of room */
	/* The read is the caller's again. On a thread of the store or inside begin(),
	 * no lock of the store is held. May begin reads and stop; must not wait, nor
	 * destroy. Of a status other than TAUT_OK err says why, and the room may
	 * have been written to. */
	void (*done)(struct tauti_store_read *read, taut_status status);
	struct taut_error err;
	struct tauti_store_read *next; /* in the list that is begun; then the store's */
	/* The store's, until done. */
	uint64_t got;
	uint32_t steps, slot;
	int fd, result;
	/* Of a store around the store. */
	void (*outer_done)(struct tauti_store_read *read, taut_status status);
	void *outer;
	int64_t due_ns;
};

struct tauti_store_options { /* zero is every field's default */
	uint32_t n_threads; /* file: that wait for the system; 0: 8; at most 64 */
	uint32_t depth;     /* uring: reads that the system has at a time; 0: 64 */
	uint32_t n_files;   /* descriptors kept open; 0: as many as half of what
	                       RLIMIT_NOFILE allows, and at most 512 */
	bool direct;        /* past the page cache (O_DIRECT), with one copy; TAUT_EIO
	                       of a read where the file system has no such thing */
	bool cold;          /* tells the system to forget what was read */
	/* slow: */
	const char *inner;  /* name of the store that it slows; NULL: "file" */
	uint64_t rate_bytes_s; /* 0: no limit */
	int64_t latency_ns; /* added to every read */
	struct taut_clock clock; /* now_ns NULL: the machine's */
};

struct tauti_store_table {
	const char *name;
	/* TAUT_ENOMEM, TAUT_EIO (no thread to be had), TAUT_EINVAL (options).
	 * TAUT_EAGAIN: this system has none of the kind; the line says what is
	 * missing, and tauti_store_open() takes `instead`. */
	taut_status (*create)(const struct tauti_store_options *options,
		void **ret_store, struct taut_error *err);
	/* A list by next, ended by NULL. Any thread; does not wait for a read (a
	 * system call that hands them over is none). */
	void (*begin)(void *store, struct tauti_store_read *reads);
	/* What has not begun in the system is done with TAUT_EAGAIN, inside this call
	 * or soon; so is what is begun later. Any thread; does not wait. */
	void (*stop)(void *store);
	/* Every read is done, by the time that the call was made or by threads that
	 * it waits for. */
	void (*destroy)(void *store);
	const char *instead; /* NULL: none */
};

struct tauti_store {
	const struct tauti_store_table *table;
	void *context;
	char note[544]; /* why it is not the store that was asked for; else empty */
};

/* Ended by an entry with name NULL. */
extern const struct tauti_store_table *const tauti_stores[];

/* name NULL: "file". TAUT_EINVAL: there is no such store; the line names the nearest. Else
 * what create() says. */
TAUT_NODISCARD taut_status tauti_store_open(const char *name,
	const struct tauti_store_options *options, struct tauti_store *ret_store,
	struct taut_error *reterr);
/* Stops it, waits for its threads; every read is done before this returns. */
void tauti_store_close(struct tauti_store *store);

static inline void tauti_store_begin(
	struct tauti_store *store, struct tauti_store_read *reads)
{
	store->table->begin(store->context, reads);
}

static inline void tauti_store_stop(struct tauti_store *store)
{
	store->table->stop(store->context);
}

/* --- null -----------------------------------------------------------------------------
 * Bytes are made up, at once, inside begin(): word i of a file, little-endian. */
static inline uint64_t tauti_store_word(uint64_t file, uint64_t i)
{
	uint64_t x = (file + 1) * 0x9e3779b97f4a7c15u ^ i * 0xd1342543de82ef95u;

	return x ^ x >> 29;
}

/* --- for stores -----------------------------------------------------------------------*/
/* The line of a fault, and the status to end the read with. */
taut_status tauti_store_refused(struct tauti_store_read *read, const char *what,
	int code); /* errno */
taut_status tauti_store_ended(struct tauti_store_read *read); /* at offset + got */
taut_status tauti_store_stopped(struct tauti_store_read *read);
/* Each of a list is done, as stopped. No lock is held. */
void tauti_store_end_stopped(struct tauti_store_read *reads);

extern const struct tauti_store_table tauti_store_null, tauti_store_file,
	tauti_store_uring, tauti_store_slow;

TAUT_END_DECLS
#endif /* TAUT_LOAD_STORE_H */
