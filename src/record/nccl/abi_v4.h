/* abi_v4.h - NCCL's profiler interface, version 4 (NCCL 2.27): the communicator
 * is told at init(), steps tell how much they moved, kernels what the GPU's
 * timer said. */
#ifndef TAUT_RECORD_NCCL_ABI_V4_H
#define TAUT_RECORD_NCCL_ABI_V4_H

#include "record/nccl/abi.h"

/* The same in all later versions, which only add fields at the end. */
union tauti_nccl_details_v4 {
	struct {
		uint64_t seq;
		const char *func;
		const void *from;
		void *to;
		size_t count;
		int root;
		const char *dtype;
		uint8_t channels, warps;
		const char *algo, *proto;
	} coll;
	struct {
		const char *func;
		void *at;
		const char *dtype;
		size_t count;
		int peer;
		uint8_t channels;
	} p2p;
	struct tauti_nccl_op_event op;
	struct {
		int step;
	} step;
	struct {
		uint8_t channel;
		uint64_t gpu_ns;
	} kernel;
};

struct tauti_nccl_event_v4 {
	uint8_t type;
	void *parent;
	int rank;
	union tauti_nccl_details_v4 u;
};

struct tauti_nccl_v4 {
	const char *name;
	int (*init)(void **ret_context, int *ret_mask, const char *comm_name,
		uint64_t comm_hash, int n_nodes, int n_ranks, int rank,
		tauti_nccl_debug_fn debug);
	TAUTI_NCCL_FUNCTIONS(struct tauti_nccl_event_v4);
	struct tauti_nccl_tail tail;
};

#endif /* TAUT_RECORD_NCCL_ABI_V4_H */
