/* abi_v1.h - NCCL's profiler interface, version 1 (NCCL 2.23). Functions,
 * types and algorithms are numbers; the communicator is told with each
 * collective and never at init(). */
#ifndef TAUT_RECORD_NCCL_ABI_V1_H
#define TAUT_RECORD_NCCL_ABI_V1_H

#include "record/nccl/abi.h"

struct tauti_nccl_event_v1 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *comm_name;
			uint64_t comm_hash, seq;
			uint8_t func;
			const void *from;
			void *to;
			size_t count;
			int root;
			uint8_t dtype;
			uint32_t op;
			size_t traffic_bytes;
			uint8_t channels, warps, algo, proto;
			int is_collnet, is_nvls;
		} coll;
		struct {
			const char *comm_name;
			uint64_t comm_hash;
			uint8_t func;
			void *at;
			uint8_t dtype;
			size_t count;
			int peer;
		} p2p;
		struct tauti_nccl_op_event op;
		struct {
			int step;
		} step;
	} u;
};

struct tauti_nccl_v1 {
	const char *name;
	int (*init)(void **ret_context, int *ret_mask);
	TAUTI_NCCL_FUNCTIONS(struct tauti_nccl_event_v1);
	struct tauti_nccl_tail tail;
};

#endif /* TAUT_RECORD_NCCL_ABI_V1_H */
