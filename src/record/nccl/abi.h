/* abi.h - what all versions of NCCL's profiler interface have in common.
 *
 * NCCL looks for ncclProfiler_vN in the plugin, the newest that it knows first:
 *
 *   v1 2.23   v2 2.24   v3 2.26   v4 2.27   v5 2.28   v6 2.29   v7 2.31
 *
 * Each version has a header of its own, abi_vN.h, with the part of its event
 * descriptor that is read here. All of it is for 64-bit Linux. */
#ifndef TAUT_RECORD_NCCL_ABI_H
#define TAUT_RECORD_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

_Static_assert(sizeof(void *) == 8, "NCCL is a 64-bit library");

enum { NCCL_SUCCESS = 0 }; /* the only status that we ever return */

/* Bits of the activation mask, and types of events. To ask for one is to be
 * given those above it as well: a step's operation, its collective, its group. */
enum {
	NCCL_GROUP = 1 << 0,
	NCCL_COLL = 1 << 1,
	NCCL_P2P = 1 << 2,
	NCCL_PROXY_OP = 1 << 3,   /* one channel's part, on the proxy thread */
	NCCL_PROXY_STEP = 1 << 4, /* one transfer of it */
	NCCL_PROXY_CTRL = 1 << 5,
	NCCL_KERNEL_CH = 1 << 6,  /* v3: one channel of the kernel */
	NCCL_NET_PLUGIN = 1 << 7,
	NCCL_GROUP_API = 1 << 8,  /* v5, as the next three */
	NCCL_COLL_API = 1 << 9,
	NCCL_P2P_API = 1 << 10,
	NCCL_KERNEL_LAUNCH = 1 << 11,
	NCCL_CE_COLL = 1 << 12,   /* v6, as the next two */
	NCCL_CE_SYNC = 1 << 13,
	NCCL_CE_BATCH = 1 << 14,
	NCCL_KERNEL_PHASE = 1 << 15, /* v7 */
};

/* States of events. The first eight belong to operations and are gone since
 * v4; 19 and above are new in v4. */
enum {
	NCCL_OP_SEND_POSTED,
	NCCL_OP_SEND_PEER_WAIT,   /* a step's data is there, its peer's is not */
	NCCL_OP_SEND_TRANSMITTED,
	NCCL_OP_SEND_DONE,
	NCCL_OP_RECV_POSTED,
	NCCL_OP_RECV_RECEIVED,
	NCCL_OP_RECV_TRANSMITTED,
	NCCL_OP_RECV_DONE,
	NCCL_STEP_SEND_GPU_WAIT,
	NCCL_STEP_SEND_WAIT,
	NCCL_STEP_RECV_WAIT,
	NCCL_STEP_RECV_FLUSH_WAIT,
	NCCL_STEP_RECV_GPU_WAIT,
	NCCL_OP_IN_PROGRESS = 19,
	NCCL_STEP_SEND_PEER_WAIT = 20,
	NCCL_KERNEL_CH_STOP = 22,
};

/* The update that comes with a state. */
union tauti_nccl_update {
	struct {
		size_t moved_bytes; /* v1 to v3: of the operation, so far */
		int steps;
	} op;
	struct {
		size_t bytes; /* v4 on: of this step */
	} step;
	struct {
		uint64_t gpu_ns; /* v4 on: the GPU's global timer */
	} kernel;
};

typedef void (*tauti_nccl_debug_fn)(int level, unsigned long flags,
	const char *file, int line, const char *format, ...);

/* What all versions begin with; v1 to v4 have an 8-bit type there. */
struct tauti_nccl_any_event {
	uint8_t type;
	void *parent; /* the handle of the event above */
	int rank;     /* in the communicator */
};

struct tauti_nccl_op_event { /* in every version */
	int32_t pid; /* whose parent it is: with PXN another process's */
	uint8_t channel;
	int peer;
	int n_steps;
	int chunk_bytes;
	int sends;
};

/* The functions that follow the name and init() in every version. */
#define TAUTI_NCCL_FUNCTIONS(event_type) \
	int (*start_event)(void *context, void **ret_handle, \
		const event_type *event); \
	int (*stop_event)(void *handle); \
	int (*record_event_state)(void *handle, int state, \
		const union tauti_nccl_update *update); \
	int (*finalize)(void *context)

/* What follows the interface in each of our structures. Copies of NCCL that
 * have further functions find none; who records (docs/recording.md) finds
 * the switch. */
struct tauti_nccl_tail {
	void *no_function[4];
	char magic[8];       /* "TAUTNCCL" */
	uint32_t *recording; /* 0 off, anything else on; any thread, any time */
};

#endif /* TAUT_RECORD_NCCL_ABI_H */
