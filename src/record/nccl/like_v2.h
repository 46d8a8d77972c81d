/* like_v2.h - the interface of versions 2 and 3, whose events differ in their
 * layout alone. Who includes it has defined TAUTI_NCCL_VERSION, _EVENT,
 * _INTERFACE and _EXPORT; it is a part of that file, and of no other. */
#include "record/nccl/plugin.h"

static void *start_coll(void *context, const struct TAUTI_NCCL_EVENT *e)
{
	return tauti_plugin_start_task(context, &(struct tauti_nccl_task_info) {
		.comm_name = e->u.coll.comm_name,
		.comm_hash = e->u.coll.comm_hash,
		.func = e->u.coll.func,
		.dtype = e->u.coll.dtype,
		.algo = e->u.coll.algo,
		.proto = e->u.coll.proto,
		.seq = e->u.coll.seq, .count = e->u.coll.count,
		.rank = e->rank, .root = e->u.coll.root, .peer = -1,
		.channels = e->u.coll.channels,
	});
}

static void *start_pair(void *context, const struct TAUTI_NCCL_EVENT *e)
{
	return tauti_plugin_start_task(context, &(struct tauti_nccl_task_info) {
		.is_pair = true,
		.comm_name = e->u.p2p.comm_name,
		.comm_hash = e->u.p2p.comm_hash,
		.func = e->u.p2p.func,
		.dtype = e->u.p2p.dtype,
		.count = e->u.p2p.count,
		.rank = e->rank, .root = -1, .peer = e->u.p2p.peer,
	});
}

static int start(void *context, void **ret_handle,
	const struct TAUTI_NCCL_EVENT *e)
{
	if (e->type == NCCL_COLL)
		*ret_handle = start_coll(context, e);
	else if (e->type == NCCL_P2P)
		*ret_handle = start_pair(context, e);
	else
		*ret_handle = tauti_plugin_start_part(context, e->type,
			&(struct tauti_nccl_part) {
				.version = TAUTI_NCCL_VERSION, .rank = e->rank,
				.step = e->u.step.step, .parent = e->parent,
				.op = &e->u.op,
			});
	return NCCL_SUCCESS;
}

static int init(void **ret_context, int *ret_mask)
{
	tauti_plugin_init(ret_context, &(struct tauti_nccl_comm_info) {
		.version = TAUTI_NCCL_VERSION,
		.n_nodes = -1, .n_ranks = -1, .rank = -1,
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
	TAUTI_NCCL_NAME, init, start, tauti_plugin_stop, tauti_plugin_state_v1,
	finalize, TAUTI_NCCL_TAIL,
};
