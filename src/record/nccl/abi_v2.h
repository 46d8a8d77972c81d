/* abi_v2.h - NCCL's profiler interface, version 2 (NCCL 2.24 and 2.25): as
 * version 1, with texts for functions, types and algorithms. */
#ifndef TAUT_RECORD_NCCL_ABI_V2_H
#define TAUT_RECORD_NCCL_ABI_V2_H

#include "record/nccl/abi.h"

struct tauti_nccl_event_v2 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *comm_name;
			uint64_t comm_hash, seq;
			const char *func;
			const void *from;
			void *to;
			size_t count;
			int root;
			const char *dtype;
			size_t traffic_bytes;
			uint8_t channels, warps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *comm_name;
			uint64_t comm_hash;
			const char *func;
			void *at;
			const char *dtype;
			size_t count;
			int peer;
		} p2p;
		struct tauti_nccl_op_event op;
		struct {
			int step;
		} step;
	} u;
};

struct tauti_nccl_v2 {
	const char *name;
	int (*init)(void **ret_context, int *ret_mask);
	TAUTI_NCCL_FUNCTIONS(struct tauti_nccl_event_v2);
	struct tauti_nccl_tail tail;
};

#endif /* TAUT_RECORD_NCCL_ABI_V2_H */
