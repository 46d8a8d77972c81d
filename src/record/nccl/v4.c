/* v4.c - version 4 of the interface: see abi_v4.h. */
#include "record/nccl/abi_v4.h"
#include "record/nccl/plugin.h"

static void *start_coll(
	void *context, int rank, const union tauti_nccl_details_v4 *u)
{
	return tauti_plugin_start_task(context, &(struct tauti_nccl_task_info) {
		.func = u->coll.func, .dtype = u->coll.dtype,
		.algo = u->coll.algo, .proto = u->coll.proto,
		.seq = u->coll.seq, .count = u->coll.count,
		.rank = rank, .root = u->coll.root, .peer = -1,
		.channels = u->coll.channels,
	});
}

static void *start_pair(
	void *context, int rank, const union tauti_nccl_details_v4 *u)
{
	return tauti_plugin_start_task(context, &(struct tauti_nccl_task_info) {
		.is_pair = true,
		.func = u->p2p.func, .dtype = u->p2p.dtype,
		.count = u->p2p.count,
		.rank = rank, .root = -1, .peer = u->p2p.peer,
		.channels = u->p2p.channels,
	});
}

void *tauti_plugin_start_v4(void *context, uint64_t type,
	const struct tauti_nccl_part *part,
	const union tauti_nccl_details_v4 *u)
{
	struct tauti_nccl_part with_step = *part;

	if (type == NCCL_COLL)
		return start_coll(context, part->rank, u);
	if (type == NCCL_P2P)
		return start_pair(context, part->rank, u);
	with_step.op = &u->op;
	if (type == NCCL_PROXY_STEP)
		with_step.step = u->step.step;
	else if (type == NCCL_KERNEL_CH)
		with_step.gpu_ns = u->kernel.gpu_ns;
	return tauti_plugin_start_part(context, type, &with_step);
}

static int start(void *context, void **ret_handle,
	const struct tauti_nccl_event_v4 *e)
{
	*ret_handle = tauti_plugin_start_v4(context, e->type,
		&(struct tauti_nccl_part) {
			.version = 4, .rank = e->rank, .parent = e->parent,
		}, &e->u);
	return NCCL_SUCCESS;
}

static int init(void **ret_context, int *ret_mask, const char *comm_name,
	uint64_t comm_hash, int n_nodes, int n_ranks, int rank,
	tauti_nccl_debug_fn debug)
{
	(void)debug;
	tauti_plugin_init(ret_context, &(struct tauti_nccl_comm_info) {
		.version = 4, .name = comm_name, .hash = comm_hash,
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

__attribute__((visibility("default"))) extern const struct tauti_nccl_v4
	ncclProfiler_v4;
const struct tauti_nccl_v4 ncclProfiler_v4 = {
	TAUTI_NCCL_NAME, init, start, tauti_plugin_stop, tauti_plugin_state_v4,
	finalize, TAUTI_NCCL_TAIL,
};
