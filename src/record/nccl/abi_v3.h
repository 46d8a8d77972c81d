/* abi_v3.h - NCCL's profiler interface, version 3 (NCCL 2.26): as version 2,
 * without the traffic and with the kernel's channels. */
#ifndef TAUT_RECORD_NCCL_ABI_V3_H
#define TAUT_RECORD_NCCL_ABI_V3_H

#include "record/nccl/abi.h"

struct tauti_nccl_event_v3 {
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
		struct {
			uint8_t channel;
		} kernel;
	} u;
};

struct tauti_nccl_v3 {
	const char *name;
	int (*init)(void **ret_context, int *ret_mask);
	TAUTI_NCCL_FUNCTIONS(struct tauti_nccl_event_v3);
	struct tauti_nccl_tail tail;
};

#endif /* TAUT_RECORD_NCCL_ABI_V3_H */
