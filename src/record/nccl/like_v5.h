/* like_v5.h - the interface of versions 5 and 6, whose events differ in their
 * layout alone. Who includes it has defined TAUTI_NCCL_VERSION, _EVENT,
 * _INTERFACE and _EXPORT; it is a part of that file, and of no other. */
#include "record/nccl/plugin.h"

static int start(void *context, void **ret_handle,
	const struct TAUTI_NCCL_EVENT *e)
{
	*ret_handle = tauti_plugin_start_v4(context, e->type,
		&(struct tauti_nccl_part) {
			.version = TAUTI_NCCL_VERSION, .rank = e->rank,
			.parent = e->parent,
		}, &e->u);
	return NCCL_SUCCESS;
}

static int init(void **ret_context, uint64_t comm_hash, int *ret_mask,
	const char *comm_name, int n_nodes, int n_ranks, int rank,
	tauti_nccl_debug_fn debug)
{
	(void)debug;
	tauti_plugin_init(ret_context, &(struct tauti_nccl_comm_info) {
		.version = TAUTI_NCCL_VERSION,
		.name = comm_name, .hash = comm_hash,
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

__attribute__((visibility("default"))) extern const struct TAUTI_NCCL_INTERFACE
	TAUTI_NCCL_EXPORT;
const struct TAUTI_NCCL_INTERFACE TAUTI_NCCL_EXPORT = {
	TAUTI_NCCL_NAME, init, start, tauti_plugin_stop, tauti_plugin_state_v4,
	finalize, TAUTI_NCCL_TAIL,
};
