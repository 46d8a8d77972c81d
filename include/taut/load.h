/* taut/load.h - batches of prepared samples, in an order that a seed fixes, while the job
 * computes.
 *
 *     set (taut/set.h) -> order -> reads -> cache -> preparation (taut/prepare.h) -> slot
 *         or a copy of what another loader of the host has prepared alike (share_bytes)
 *
 *     taut_load_next()       a batch; or the end of an epoch
 *     taut_batch_release()   when the job is done with it
 *
 * What a batch holds depends on the set, the options of preparation, seed, epoch, batch,
 * ranks and rank alone: not on workers, depth, stores, caches or timing. All ranks of a job
 * give the same options but for `rank`, and each item of the set is in one batch of one rank
 * in each epoch (but see enum taut_load_tail). A position in an epoch is global, so that a
 * job may go on with other ranks and batches than it stopped with, and still take every item
 * once.
 *
 * An image is decoded into its place in the batch, from the bytes that were read: no copy
 * between (but of what loaders share). Slots are one piece of memory, are used again and
 * again, and are lent to whoever holds the batch.
 *
 * Owner:   a loader borrows the set until it is destroyed. A batch is counted: it is there
 *          until all who hold it have released it, also after the loader was destroyed;
 *          the memory of all slots goes with the last.
 * Threads: next, seek and resume by one at a time; destroy when none of them is in a call;
 *          all else by any, at any time. Workers and the store's threads are made with the
 *          loader and sleep while nothing can be done. After fork() the child's copy does
 *          nothing: each call is TAUT_EIO with a line that says so; destroy and release
 *          return. (What a child needs is a loader of its own.)
 * Errors:  TAUT_EFORMAT and TAUT_EIO name the item and its file. The first fault in the
 *          order of batches, whichever came first in time, is given by next after all
 *          batches before it, and again by every later call until seek or resume.
 * Units:   bytes, nanoseconds, samples. */
#ifndef TAUT_LOAD_H
#define TAUT_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/prepare.h>
#include <taut/set.h>

TAUT_BEGIN_DECLS

struct taut_load; /* opaque */
struct taut_batch; /* below */
struct taut_load_remote; /* of taut/peers.h */

/* What becomes of the items that fill no batch of all ranks. */
enum taut_load_tail {
	TAUT_LOAD_KEEP, /* shared out: each item once. Ranks have the same number of
	                   batches; the last ones differ by at most one sample, and
	                   may have none where fewer are left than ranks */
	TAUT_LOAD_DROP, /* left out in this epoch: all batches are full */
	TAUT_LOAD_PAD,  /* filled up to as many for each rank with items from the
	                   epoch's beginning: these come twice (as PyTorch's
	                   DistributedSampler does) */
};

struct taut_load_options { /* zero is every field's default */
	uint32_t size; /* sizeof *this, or 0: as of this header */
	const struct taut_prepare_options *prepare; /* NULL: its defaults */
	uint32_t batch;         /* samples of a batch of one rank; 0: 32 */
	uint32_t n_ranks, rank; /* n_ranks 0: 1 */
	uint64_t seed;
	bool shuffle; /* another order in each epoch; else that of the set */
	enum taut_load_tail tail;
	uint64_t max_skipped; /* items that cannot be read or prepared are left out,
	                         so many of them; the next one is an error. A batch
	                         has fewer samples then: the last good ones take
	                         the places */
	uint32_t n_workers; /* threads that prepare; 0: one for each core; at most
	                       1024 */
	uint32_t depth;     /* batches that are made ahead or held by the job; at
	                       least 2, at most 1024; 0: 3 */
	uint32_t n_reads;   /* under way at most; 0: 64; at most 4096 */
	uint64_t read_bytes; /* read and not prepared yet, at most; one item always
	                        fits; 0: what n_reads and n_workers items of the mean size have,
	                        1 to 64 MiB */
	uint64_t cache_bytes; /* raw items kept in memory that the host's processes
	                         share, found by the set's fingerprint; all of them
	                         give the same number; 0: none */
	uint64_t cache_name;  /* tells caches of the same set apart */
	const char *store; /* "file" (threads that read), "uring" (many reads in the
	                      kernel at a time; where it has none: "file"), "null"
	                      (bytes are made up), "slow"; NULL: "file" */
	uint64_t slow_bytes_s; /* "slow": "file" at that rate, 0 no limit; and what */
	int64_t slow_ns;       /* is added to every read */
	bool direct; /* reads go past the system's page cache, or */
	bool cold;   /* it is told to forget them: for measurements */
	/* Finishes each batch, in place: data, labels and lengths; NULL: nothing does. A worker
	 * calls it, several at a time for several batches, when all samples are there; those
	 * that are shared were before it. Other than TAUT_OK: an error in place of that batch,
	 * whatever may be skipped. err is never NULL. */
	taut_status (*batch_stage)(
		void *context, struct taut_batch *batch, struct taut_error *err);
	void *batch_stage_context;
	/* Prepared samples in memory that the host's loaders of the same set, options of
	 * preparation, seed and shuffle share, whatever their batches, ranks and workers:
	 * whoever comes to an item first makes it, the others copy. So many bytes, the
	 * same in all of them; at least a batch of all ranks, better `depth` of them: no
	 * loader runs further ahead of the slowest. 0: none. What a batch holds does not
	 * depend on it, nor on whether the others live. */
	uint64_t share_bytes;
	int64_t share_patience_ns; /* waits so long for a loader that is in the way, or
	                              that makes what this one needs; then goes on
	                              without it; 0: 1 s */
	bool wait; /* nothing is read before seek(), resume() or follow() says where to
	              begin; before that next() is TAUT_EINVAL */
	/* What the caches of other hosts have comes from there, see taut/peers.h: it is
	 * the caller's until the loader was destroyed. Asks cache_bytes. NULL: none. */
	struct taut_load_remote *remote;
	uint32_t n_remote; /* items asked of other hosts at a time, beside n_reads, with
	                      read_bytes of their own; 0: 64; at most 4096 */
};

/* One batch. The job may write to data and labels. */
struct taut_batch {
	void *data;      /* count samples of sample_bytes each, one after the other;
	                    aligned to 64 bytes. Who holds the batch may put other memory
	                    here, as aligned and with room for a whole batch: later ones are
	                    filled there, until destroy or the next such change */
	int64_t *labels; /* of each sample; -1: the set has none */
	uint64_t *items; /* the item of each: number in the set */
	uint32_t count;  /* samples; less than the batch where some were skipped or
	                    it is of the tail */
	uint32_t n_skipped; /* that are not in it */
	uint32_t n_held;    /* batches that the job held when it took this one, with
	                       it: at `depth` there will be no next one */
	uint64_t epoch, number; /* number: of this rank in the epoch, from 0 (after a
	                           resume in its middle: from there) */
	uint64_t sample_bytes;
	int64_t *lengths; /* of each, where the shape varies: how much of it the item fills;
	                     behind that are zeros. NULL: it does not */
};

/* TAUT_EINVAL: options, an empty set; TAUT_ENOMEM; TAUT_EIO: threads, shared memory.
 * TAUT_EMATCH: others share another number of bytes. TAUT_EAGAIN: 64 share already.
 * Reading begins at once, but for `wait`. */
TAUT_API TAUT_NODISCARD taut_status taut_load_create(const struct taut_set *set,
	const struct taut_load_options *options, struct taut_load **ret_load,
	struct taut_error *reterr);
/* At any moment; waits for reads that the system has and for images that are being
 * prepared, no longer. Batches that are held stay. NULL is fine. */
TAUT_API void taut_load_destroy(struct taut_load *load);

/* The next batch, in order. *ret_batch NULL: the epoch is over, and the next call gives the
 * first batch of the next. timeout_ns below 0: waits as long as it takes; TAUT_EAGAIN: not
 * within that time. TAUT_EINVAL: the job holds all `depth` batches and would wait for ever
 * (with a timeout it waits for another thread to release one). */
TAUT_API TAUT_NODISCARD taut_status taut_load_next(struct taut_load *load,
	int64_t timeout_ns, struct taut_batch **ret_batch, struct taut_error *reterr);
/* One more who holds it, who releases it too. */
TAUT_API void taut_batch_hold(struct taut_batch *batch);
TAUT_API void taut_batch_release(struct taut_batch *batch); /* NULL is fine */

/* --- where it is ------------------------------------------------------------------------
 * Integers, so that they go into any file. Of all ranks together: as if each had taken as
 * many batches as this one. */
struct taut_load_state {
	uint64_t seed, epoch;
	uint64_t position;    /* in the epoch: items before it were taken */
	uint64_t n_items, fingerprint; /* of the set */
};
/* Counts what taut_load_next() gave; what was made ahead does not count. */
TAUT_API TAUT_NODISCARD taut_status taut_load_state(struct taut_load *load,
	struct taut_load_state *ret_state, struct taut_error *reterr);
/* Goes on from there. TAUT_EMATCH: it is of another set, or another seed. */
TAUT_API TAUT_NODISCARD taut_status taut_load_resume(struct taut_load *load,
	const struct taut_load_state *state, struct taut_error *reterr);
/* The beginning of an epoch is next. Of the one whose beginning is next already:
 * nothing, and what was made ahead stays. */
TAUT_API TAUT_NODISCARD taut_status taut_load_seek(
	struct taut_load *load, uint64_t epoch, struct taut_error *reterr);
/* One epoch follows, of that number, that goes through these items in this order, each any
 * number of times: for who has an order of his own, for each rank another. All of them are
 * this rank's; what is left at the end is a smaller batch. After its end, and while
 * another list or seek() was not called, the next batch is TAUT_EINVAL. So is state().
 * The list is copied. TAUT_EINVAL: no item, one that the set does not have, or samples are
 * shared. TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_load_follow(struct taut_load *load,
	uint64_t epoch, const uint64_t *items, uint64_t n_items,
	struct taut_error *reterr);
/* Batches of this rank in a whole epoch; not of a list. */
TAUT_API uint64_t taut_load_batches(const struct taut_load *load);

/* --- how it goes -----------------------------------------------------------------------*/
struct taut_load_counts { /* since it was made */
	uint64_t batches, samples; /* that the job took */
	uint64_t hits;             /* items that the cache had, or another process
	                              brought */
	uint64_t reads, read_bytes; /* that the store ended well */
	uint64_t skipped;          /* items */
	int64_t waited_ns;  /* of the job in taut_load_next(): its stalls */
	int64_t fetch_ns;   /* of that, while no worker had anything to prepare: for
	                       reads. The rest is for workers */
	int64_t prepare_ns; /* of all workers in preparation, together */
	int64_t idle_ns;    /* of all workers without work, together */
	uint32_t n_workers;
	uint64_t share_made;     /* of shared samples: made here, for all */
	uint64_t share_copied;   /* made by another loader */
	uint64_t share_alone;    /* made here, and others made it too, or will: they
	                            were in the way, or gone, for too long */
	uint64_t share_detached; /* times that a loader was no longer waited for */
	uint64_t remote_hits, remote_bytes; /* items that came from other hosts. What was
	                                       read for those is among reads */
};
TAUT_API void taut_load_counts(
	struct taut_load *load, struct taut_load_counts *ret_counts);
/* The nth item that was skipped, from 0; the last 1,024 are kept. False: there is none, or
 * it is forgotten. ret_why may be NULL. */
TAUT_API bool taut_load_skipped(struct taut_load *load, uint64_t n,
	uint64_t *ret_item, struct taut_error *ret_why);
/* What it reads with, and why it is not what was asked for (empty: it is). Valid until
 * destroy. */
TAUT_API const char *taut_load_store(
	const struct taut_load *load, const char **ret_note);

/* --- for frameworks ---------------------------------------------------------------------*/
/* Of a sample. */
TAUT_API void taut_load_shape(
	const struct taut_load *load, struct taut_prepare_shape *ret_shape);
/* All slots, for who wants to register them with a device; they stay where they are until
 * the last batch is released. */
TAUT_API void *taut_load_memory(const struct taut_load *load, size_t *ret_bytes);

enum taut_batch_part { TAUT_BATCH_DATA, TAUT_BATCH_LABELS, TAUT_BATCH_LENGTHS };
/* A DLManagedTensor (DLPack, without a version) of a part of the batch, that holds the batch
 * until its deleter is called: by any thread, with or without an interpreter's lock. Its
 * first field is the DLTensor. TAUT_EINVAL: lengths, and there are none. TAUT_ENOMEM. */
struct taut_dlpack;
TAUT_API TAUT_NODISCARD taut_status taut_batch_dlpack(struct taut_batch *batch,
	enum taut_batch_part part, struct taut_dlpack **ret_tensor,
	struct taut_error *reterr);
/* Calls its deleter: for who could not hand it on. */
TAUT_API void taut_dlpack_delete(struct taut_dlpack *tensor);

TAUT_END_DECLS
#endif /* TAUT_LOAD_H */
