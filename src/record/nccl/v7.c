/* v7.c - version 7 of the interface: see abi_v7.h. */
#include "record/nccl/abi_v7.h"
#include "record/nccl/plugin.h"

static int start(void *context, void **ret_handle,
	const struct tauti_nccl_event_v7 *e)
{
	*ret_handle = tauti_plugin_start_v4(context, e->type,
		&(struct tauti_nccl_part) {
			.version = 7, .rank = e->rank, .parent = e->parent,
		}, &e->u);
	return NCCL_SUCCESS;
}

static int init(void **ret_context, uint64_t comm_hash, int *ret_mask,
	const char *comm_name, int n_nodes, int n_ranks, int rank,
	tauti_nccl_debug_fn debug)
{
	(void)debug;
	tauti_plugin_init(ret_context, &(struct tauti_nccl_comm_info) {
		.version = 7, .name = comm_name, .hash = comm_hash,
		.n_nodes = n_nodes, .n_ranks = n_ranks, .rank = rank,
		.mask = ret_mask,
	});
	return NCCL_SUCCESS;
}

static int finalize(void *context)
{
	tauti_plugin_finalize(context);
	return NCCL_SUCCESS;
}

__attribute__((visibility("default"))) extern const struct tauti_nccl_v7
	ncclProfiler_v7;
const struct tauti_nccl_v7 ncclProfiler_v7 = {
	TAUTI_NCCL_NAME, init, start, tauti_plugin_stop, tauti_plugin_state_v4,
	finalize, TAUTI_NCCL_TAIL,
};
