/* abi_v5.h - NCCL's profiler interface, version 5 (NCCL 2.28): 64-bit types of
 * events, and a parent of collectives that is the call of the user. */
#ifndef TAUT_RECORD_NCCL_ABI_V5_H
#define TAUT_RECORD_NCCL_ABI_V5_H

#include "record/nccl/abi_v4.h"

struct tauti_nccl_event_v5 {
	uint64_t type;
	void *parent;
	int rank;
	union tauti_nccl_details_v4 u;
};

struct tauti_nccl_v5 {
	const char *name;
	int (*init)(void **ret_context, uint64_t comm_hash, int *ret_mask,
		const char *comm_name, int n_nodes, int n_ranks, int rank,
		tauti_nccl_debug_fn debug);
	TAUTI_NCCL_FUNCTIONS(struct tauti_nccl_event_v5);
	struct tauti_nccl_tail tail;
};

#endif /* TAUT_RECORD_NCCL_ABI_V5_H */
