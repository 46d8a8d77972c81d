/* gpu.h - memory of GPUs, for who is handed pointers and does not know whose they are:
 * whether an address is a device's, and getting bytes to the host and back.
 *
 *     driver.c     the CUDA driver, by dlopen
 *     cache.c      what is known of memory, by ranges of addresses
 *     place.c      what is at an address
 *     side.c       of a context: a stream, events; copies
 *     lane.c       of a context: pinned buffers
 *     kernels.c    reductions on a device: reduce.cu, compiled by NVRTC
 *     peers.c      the ranks of a host reduce each other's memory
 *
 * Every call pushes the context that it needs and pops it again, so it works on any
 * thread, whether a context is current there or not, and leaves that as it was. Work
 * goes to a stream of our own for each context, which keeps order with the legacy
 * null stream, as memory copies of the host's do; nothing waits for a whole device,
 * but that to pin memory and to unpin it may.
 *
 * After fork() CUDA does not work in the child, and these calls fail there.
 *
 * Owner:   whoever made a struct tauti_gpu; sides are its own.
 * Threads: any; a struct tauti_gpu_copy, peers: one at a time.
 * Errors:  TAUT_EIO with the line "cuMemcpyHtoDAsync: CUDA_ERROR_... (n)". */
#ifndef TAUT_GPU_GPU_H
#define TAUT_GPU_GPU_H

#include <taut/coll.h>

#include "gpu/cache.h"
#include "gpu/driver.h"

enum {
	TAUTI_GPU_DEVICES = 64,
	/* Pinned buffers that wait for use: so many of a context, so many bytes in all
	 * contexts of the process together, so long. */
	TAUTI_GPU_LANES_KEPT = 8,
	TAUTI_GPU_LANE_BYTES_KEPT = 64 << 20,
	TAUTI_GPU_LANE_SECONDS_KEPT = 10,
	TAUTI_GPU_EVENTS_KEPT = 16,
};

struct tauti_gpu_code;
struct tauti_gpu_lane;
struct tauti_gpu_side;

struct tauti_gpu {
	struct tauti_gpu_driver driver;
	struct tauti_gpu_cache cache;
	pthread_mutex_t lock; /* of what follows, and inside the sides */
	struct tauti_gpu_side *sides;
	struct tauti_gpu_code *codes; /* kernels, by kind of device */
	tauti_gpu_context primary[TAUTI_GPU_DEVICES]; /* retained; NULL: not */
	uint64_t lane_bytes;  /* of those that wait */
	int64_t lane_kept_ns;
};

/* TAUT_EIO: no driver is loaded. TAUT_EMATCH: too old a one. */
TAUT_NODISCARD taut_status tauti_gpu_create(
	struct tauti_gpu **ret_gpu, struct taut_error *reterr);
/* Gives all back that was taken of the devices; what is known of addresses stays, and
 * more may be taken. No copy is under way. */
void tauti_gpu_release(struct tauti_gpu *gpu);
void tauti_gpu_destroy(struct tauti_gpu *gpu); /* released first; NULL is fine */

/* --- place.c ------------------------------------------------------------------------------*/

/* What is at an address. Managed memory is the device's here: a copy is always
 * right, while a look from the host may not be. Pinned memory is the host's. */
struct tauti_gpu_place {
	tauti_gpu_context context; /* NULL: the host's */
	int device;
};

/* A hit of the cache costs one question to the driver, for the number of the
 * allocation: that it is still the same. */
TAUT_NODISCARD taut_status tauti_gpu_find(struct tauti_gpu *gpu, const void *at,
	struct tauti_gpu_place *ret_place, struct taut_error *reterr);
/* Somebody frees [at, at + bytes); bytes 0: the allocation that has it. */
void tauti_gpu_forget(struct tauti_gpu *gpu, const void *at, size_t bytes);

/* --- side.c -------------------------------------------------------------------------------*/

/* Made at the first call for a context, and anew when that was destroyed. */
TAUT_NODISCARD taut_status tauti_gpu_side_of(struct tauti_gpu *gpu,
	tauti_gpu_context context, struct tauti_gpu_side **ret_side,
	struct taut_error *reterr);
/* Somebody destroys this context, and will do so only after this returns: its side is
 * not asked any more whether it lives. No copy of it is under way. */
void tauti_gpu_side_lose(struct tauti_gpu *gpu, tauti_gpu_context context);
/* The same of the primary one of a device, which is never made here. */
void tauti_gpu_side_lose_primary(struct tauti_gpu *gpu, int device);
tauti_gpu_context tauti_gpu_side_context(const struct tauti_gpu_side *side);
tauti_gpu_stream tauti_gpu_side_stream(const struct tauti_gpu_side *side);
/* The context becomes this thread's, until leave(), if it is still the one that the
 * side was made in. TAUT_EIO: it is not, and nothing of the side's is there any more;
 * what is kept by an address in that context belongs to a stranger. With a driver
 * before CUDA 12.0, which gives no numbers, that goes unnoticed here. */
TAUT_NODISCARD taut_status tauti_gpu_side_enter(
	struct tauti_gpu_side *side, struct taut_error *reterr);

/* --- lane.c -------------------------------------------------------------------------------
 * Threads and communicators have as many lanes at a time as they need. Those that were
 * given back wait, pinned, for the next who needs one: at most TAUTI_GPU_LANES_KEPT of
 * a context, and TAUTI_GPU_LANE_BYTES_KEPT of all contexts together, or the last one
 * alone, where that is longer; by whatever number of threads and communicators they were
 * used; the ones that waited longest go first. One that nobody took for
 * TAUTI_GPU_LANE_SECONDS_KEPT goes when another is given back. */

/* A buffer of the host, pinned where that can be had. TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_gpu_lane_take(struct tauti_gpu_side *side,
	size_t bytes, struct tauti_gpu_lane **ret_lane,
	struct taut_error *reterr);
void *tauti_gpu_lane_memory(const struct tauti_gpu_lane *lane);
/* May unpin, which waits for the device; in a steady state it does not. */
void tauti_gpu_lane_give(struct tauti_gpu_lane *lane);
/* Unpins all that wait. */
void tauti_gpu_lanes_drop(struct tauti_gpu *gpu);

/* --- side.c: copies -----------------------------------------------------------------------*/

struct tauti_gpu_copy { /* the caller's; zero: there is none */
	struct tauti_gpu_side *side;
	tauti_gpu_event event;
};
enum tauti_gpu_way {
	TAUTI_GPU_DOWN,   /* a device's memory to the host's */
	TAUTI_GPU_UP,     /* back */
	TAUTI_GPU_ACROSS, /* devices' memory */
};

/* Adds a copy to the side's stream. */
TAUT_NODISCARD taut_status tauti_gpu_copy_add(struct tauti_gpu_side *side,
	enum tauti_gpu_way way, void *to, const void *from, size_t bytes,
	struct taut_error *reterr);
/* Marks what was added so far: copy is over when all of that is. */
TAUT_NODISCARD taut_status tauti_gpu_copy_mark(struct tauti_gpu_side *side,
	struct tauti_gpu_copy *ret_copy, struct taut_error *reterr);
/* Whether it is over. An error ends it, too: *ret_over is true then. */
TAUT_NODISCARD taut_status tauti_gpu_copy_test(struct tauti_gpu_copy *copy,
	bool *ret_over, struct taut_error *reterr);

/* The context becomes this thread's, until leave(). */
TAUT_NODISCARD taut_status tauti_gpu_enter(const struct tauti_gpu *gpu,
	tauti_gpu_context context, struct taut_error *reterr);
void tauti_gpu_leave(const struct tauti_gpu *gpu);

/* --- kernels.c ----------------------------------------------------------------------------*/

enum {
	TAUTI_GPU_SOURCES = 8, /* of one launch; reduce.cu has the same */
	TAUTI_GPU_NAME_BYTES = 40,
};

struct tauti_gpu_kernels; /* of one context */

/* Compiles for the context's device, which takes about a second, unless that was done
 * for one of its kind. TAUT_EIO: there is no NVRTC ($TAUT_NVRTC, or where the loader
 * finds it), or none knows the device. */
TAUT_NODISCARD taut_status tauti_gpu_kernels_create(struct tauti_gpu *gpu,
	tauti_gpu_context context, struct tauti_gpu_kernels **ret_kernels,
	struct taut_error *reterr);
void tauti_gpu_kernels_destroy(struct tauti_gpu_kernels *kernels);
/* What was compiled; part of tauti_gpu_destroy(). */
void tauti_gpu_codes_free(struct tauti_gpu *gpu);
/* Adds out = sources[0] op sources[1] op ..., in this order, to the stream of the
 * context's side: the same bits as taut_reduce() of one after another. out may be
 * sources[0]. n >= 1. */
TAUT_NODISCARD taut_status tauti_gpu_reduce_add(
	struct tauti_gpu_kernels *kernels, enum taut_type type,
	enum taut_reduction reduction, void *out, const void *const *sources,
	uint32_t n, uint64_t count, struct taut_error *reterr);
uint32_t tauti_gpu_type_bytes(enum taut_type type);
/* Of the kernel; false: there is no such reduction. */
bool tauti_gpu_kernel_name(enum taut_type type, enum taut_reduction reduction,
	char name[TAUTI_GPU_NAME_BYTES]);
/* The text of the kernels; reduce.cu. */
extern const char tauti_gpu_reduce_text[];

/* --- peers.c ------------------------------------------------------------------------------
 * The ranks of one host reduce together: each has a piece of memory of its device
 * that all others have opened (CUDA's handles between processes). The program's own
 * buffers are not opened: it may free them at any time, and memory of pools cannot
 * be.
 *
 *     [ input: `bytes` | share: the sums that this rank made ]
 *
 * Round by round, a part of at most `bytes` of the call:
 *
 *     put      copies its part into its own input           -- all ranks have --
 *     sum      its share of all inputs, into its own share  -- all ranks have --
 *     get      all shares, from all ranks, to its buffer
 *
 * The next put may go with a get. Who waits for all ranks at the two lines is the
 * caller. Each of the three adds to the stream; a mark tells when it is over. */
struct tauti_gpu_peers;

/* Bytes that ranks tell each other, the same on every machine of a host. */
struct tauti_gpu_offer {
	uint64_t bytes; /* of a part; 0: none, for a reason that was given */
	tauti_gpu_handle handle;
};

/* In the context that is current on this thread. ret_offer is written also when it
 * fails, and says so to the others. */
TAUT_NODISCARD taut_status tauti_gpu_peers_create(struct tauti_gpu *gpu,
	uint32_t rank, uint32_t n_ranks, uint64_t bytes,
	struct tauti_gpu_peers **ret_peers, struct tauti_gpu_offer *ret_offer,
	struct taut_error *reterr);
/* Opens what the others have; offers: by rank. */
TAUT_NODISCARD taut_status tauti_gpu_peers_open(struct tauti_gpu_peers *peers,
	const struct tauti_gpu_offer *offers, struct taut_error *reterr);
/* Closes the others' memory: before any rank frees its own. */
void tauti_gpu_peers_close(struct tauti_gpu_peers *peers);
/* all_closed: no other rank has this one's memory open; else that stays allocated, as
 * long as its context, for to free it then is undefined. peers: NULL is fine. */
void tauti_gpu_peers_destroy(struct tauti_gpu_peers *peers, bool all_closed);
struct tauti_gpu_side *tauti_gpu_peers_side(const struct tauti_gpu_peers *peers);

/* on_device: of the caller's memory. count: elements of this part. */
TAUT_NODISCARD taut_status tauti_gpu_peers_put(struct tauti_gpu_peers *peers,
	const void *from, bool on_device, size_t bytes,
	struct taut_error *reterr);
TAUT_NODISCARD taut_status tauti_gpu_peers_sum(struct tauti_gpu_peers *peers,
	enum taut_type type, enum taut_reduction reduction, uint64_t count,
	struct taut_error *reterr);
TAUT_NODISCARD taut_status tauti_gpu_peers_get(struct tauti_gpu_peers *peers,
	void *to, bool on_device, enum taut_type type, uint64_t count,
	struct taut_error *reterr);

#endif /* TAUT_GPU_GPU_H */
