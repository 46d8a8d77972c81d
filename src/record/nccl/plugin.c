/* plugin.c - the one recorder of the process, and who may use it when. */
#include <pthread.h>
#include <unistd.h>

#include "base/now.h"
#include "record/nccl/abi.h"
#include "record/nccl/plugin.h"

enum { SHARDS = 16 }; /* a power of two */

/* On a host with more to do than cores a thread may not run for longer than one would
 * think, and what it is inside of is the log's end. */
#define PATIENCE_NS INT64_C(3000000000)

struct shard { /* a line of the cache each */
	_Alignas(64) _Atomic uint32_t inside;
};

uint32_t tauti_nccl_recording;

static struct {
	pthread_mutex_t lock; /* of making and ending */
	_Atomic(struct tauti_nccl_recorder *) recorder;
	bool failed; /* it is tried once */
	_Atomic bool may_skip; /* while the switch is off, parts of nothing */
	_Atomic bool may_skip_groups;
	struct shard shards[SHARDS]; /* callbacks that run */
} plugin = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* --- callbacks and the end ---------------------------------------------------------*/

/* Threads have stacks of their own: enough to keep them apart. Not a variable
 * of the thread, which would be allocated at its first use. */
static _Atomic uint32_t *own_shard(void)
{
	uintptr_t at = (uintptr_t)__builtin_frame_address(0);

	return &plugin.shards[(at >> 16 ^ at >> 21) & (SHARDS - 1)].inside;
}

/* Should a thread leave by another shard than it came, the sum is right. Who finds no
 * recorder goes where it came: is_quiet() reads each shard once, and must not see it
 * leave by one without having seen it come by another. */
struct tauti_nccl_recorder *tauti_plugin_enter(void)
{
	_Atomic uint32_t *shard = own_shard();
	struct tauti_nccl_recorder *r;

	atomic_fetch_add(shard, 1);
	r = atomic_load(&plugin.recorder);
	if (!r)
		atomic_fetch_sub(shard, 1);
	return r;
}

void tauti_plugin_leave(void)
{
	atomic_fetch_sub_explicit(own_shard(), 1, memory_order_release);
}

static bool is_quiet(void)
{
	uint32_t inside = 0;

	for (int i = 0; i < SHARDS; i++)
		inside += atomic_load(&plugin.shards[i].inside);
	return inside == 0;
}

/* Without the recorder nobody enters; who is inside is waited for, but not for
 * ever: then the log is left as it is, which is whole as well. Once is enough:
 * who comes later finds no recorder, and is counted until it has seen that. */
void tauti_plugin_end(void)
{
	struct tauti_nccl_recorder *r;
	int64_t until_ns = tauti_now_ns() + PATIENCE_NS;
	bool quiet;

	pthread_mutex_lock(&plugin.lock);
	r = atomic_exchange(&plugin.recorder, NULL);
	plugin.failed = false;
	while (!(quiet = is_quiet()) && r && tauti_now_ns() < until_ns)
		usleep(100);
	/* A child has the parent's, whose other threads are not there. */
	if (r && r->pid == getpid() && quiet)
		tauti_nccl_destroy(r);
	pthread_mutex_unlock(&plugin.lock);
}

/* A child has nothing to end, and would wait for threads that it has not. */
__attribute__((destructor)) static void at_exit(void)
{
	struct tauti_nccl_recorder *r = atomic_load(&plugin.recorder);

	if (r && r->pid == getpid())
		tauti_plugin_end();
}

/* --- the beginning --------------------------------------------------------------------*/

/* Under the lock. */
static struct tauti_nccl_recorder *get(void)
{
	struct tauti_nccl_recorder *r = atomic_load(&plugin.recorder);
	struct tauti_nccl_options options;
	struct taut_error err;

	if (r || plugin.failed)
		return r && r->pid == getpid() ? r : NULL;
	options = tauti_nccl_options_read();
	if (options.folder && options.mask)
		r = tauti_nccl_create(&options,
			(const _Atomic uint32_t *)&tauti_nccl_recording, &err);
	plugin.failed = !r;
	atomic_store(&plugin.may_skip, !r || !r->always);
	atomic_store(&plugin.may_skip_groups,
		!r || (!r->always && r->mask == r->idle_mask));
	atomic_store(&plugin.recorder, r);
	return r;
}

void tauti_plugin_init(
	void **ret_context, const struct tauti_nccl_comm_info *info)
{
	struct tauti_nccl_recorder *r;
	uint32_t mask = 0;

	*ret_context = NULL;
	pthread_mutex_lock(&plugin.lock);
	r = get();
	if (r) {
		*ret_context = tauti_nccl_comm_begin(r, info);
		mask = tauti_nccl_is_on(r) ? r->mask : r->idle_mask;
		atomic_store_explicit(&r->was_on, tauti_nccl_is_on(r),
			memory_order_relaxed);
	}
	pthread_mutex_unlock(&plugin.lock);
	if (info->mask)
		__atomic_store_n(info->mask, (int)mask, __ATOMIC_RELAXED);
}

void tauti_plugin_finalize(void *context)
{
	struct tauti_nccl_recorder *r;

	pthread_mutex_lock(&plugin.lock);
	r = atomic_load(&plugin.recorder);
	if (r && r->pid == getpid() && context)
		tauti_nccl_comm_end(r, context);
	pthread_mutex_unlock(&plugin.lock);
}

/* --- starting -------------------------------------------------------------------------*/

/* What most calls outside the window come to. */
static bool is_nothing(uint64_t type, const void *parent)
{
	const _Atomic bool *may_skip = type == NCCL_GROUP ?
		&plugin.may_skip_groups : &plugin.may_skip;

	return !parent && atomic_load_explicit(may_skip, memory_order_relaxed) &&
		!__atomic_load_n(&tauti_nccl_recording, __ATOMIC_RELAXED);
}

void *tauti_plugin_start_part(void *context, uint64_t type,
	const struct tauti_nccl_part *part)
{
	const struct tauti_nccl_op_event *op = part->op;
	struct tauti_nccl_recorder *r;
	void *handle = NULL;

	if (is_nothing(type, part->parent))
		return NULL;
	r = tauti_plugin_enter();
	if (!r)
		return NULL;
	if (type == NCCL_PROXY_OP)
		handle = tauti_nccl_op_start(r, context,
			&(struct tauti_nccl_op_info) {
				.version = part->version,
				.parent = part->parent, .pid = op->pid,
				.rank = part->rank, .channel = op->channel,
				.peer = op->peer, .sends = op->sends != 0,
			});
	else if (type == NCCL_PROXY_STEP)
		handle = tauti_nccl_step_start(r, part->parent, part->step);
	else if (type == NCCL_KERNEL_CH)
		handle = tauti_nccl_kernel_start(
			r, context, part->parent, part->gpu_ns);
	else if (type == NCCL_GROUP)
		tauti_nccl_comm_launch(r, context);
	tauti_plugin_leave();
	return handle;
}

void *tauti_plugin_start_task(
	void *context, const struct tauti_nccl_task_info *info)
{
	struct tauti_nccl_recorder *r = tauti_plugin_enter();
	void *handle;

	if (!r)
		return NULL;
	handle = tauti_nccl_task_start(r, context, info);
	tauti_plugin_leave();
	return handle;
}

/* --- what all versions have in common -----------------------------------------------------*/

int tauti_plugin_stop(void *handle)
{
	struct tauti_nccl_recorder *r = handle ? tauti_plugin_enter() : NULL;

	if (!r)
		return NCCL_SUCCESS;
	switch (tauti_pool_kind_of(handle)) {
	case TAUTI_POOL_TASK:
		tauti_nccl_task_stop(r, handle);
		break;
	case TAUTI_POOL_OP:
		tauti_nccl_op_stop(r, handle);
		break;
	case TAUTI_POOL_STEP:
		tauti_nccl_step_stop(r, handle);
		break;
	case TAUTI_POOL_KERNEL:
		tauti_nccl_kernel_stop(r, handle);
		break;
	default:
		tauti_nccl_lose(r, TAUTI_NCCL_NOT_FOUND);
	}
	tauti_plugin_leave();
	return NCCL_SUCCESS;
}

/* TAUTI_NCCL_PHASES: none that a step can be in. */
static enum tauti_nccl_phase phase_of(int state)
{
	switch (state) {
	case NCCL_STEP_SEND_GPU_WAIT:
		return TAUTI_NCCL_GPU_WAIT;
	case NCCL_STEP_SEND_PEER_WAIT:
		return TAUTI_NCCL_PEER_WAIT;
	case NCCL_STEP_SEND_WAIT:
		return TAUTI_NCCL_SEND_WAIT;
	case NCCL_STEP_RECV_WAIT:
		return TAUTI_NCCL_RECV_WAIT;
	case NCCL_STEP_RECV_FLUSH_WAIT:
		return TAUTI_NCCL_FLUSH_WAIT;
	case NCCL_STEP_RECV_GPU_WAIT:
		return TAUTI_NCCL_RECV_GPU_WAIT;
	default:
		return TAUTI_NCCL_PHASES;
	}
}

static void state_of_step(struct tauti_nccl_recorder *r, void *handle,
	int state, uint64_t bytes)
{
	enum tauti_nccl_phase phase = phase_of(state);

	if (phase != TAUTI_NCCL_PHASES)
		tauti_nccl_step_state(r, handle, phase, bytes);
}

int tauti_plugin_state_v1(
	void *handle, int state, const union tauti_nccl_update *update)
{
	struct tauti_nccl_recorder *r = handle ? tauti_plugin_enter() : NULL;

	if (!r)
		return NCCL_SUCCESS;
	if (tauti_pool_kind_of(handle) == TAUTI_POOL_OP)
		tauti_nccl_op_state(r, handle, state,
			update ? update->op.moved_bytes : 0);
	else if (tauti_pool_kind_of(handle) == TAUTI_POOL_STEP &&
		state != NCCL_STEP_SEND_PEER_WAIT)
		state_of_step(r, handle, state, 0);
	tauti_plugin_leave();
	return NCCL_SUCCESS;
}

int tauti_plugin_state_v4(
	void *handle, int state, const union tauti_nccl_update *update)
{
	struct tauti_nccl_recorder *r = handle ? tauti_plugin_enter() : NULL;

	if (!r)
		return NCCL_SUCCESS;
	if (tauti_pool_kind_of(handle) == TAUTI_POOL_STEP)
		state_of_step(r, handle, state, update ? update->step.bytes : 0);
	else if (tauti_pool_kind_of(handle) == TAUTI_POOL_KERNEL &&
		state == NCCL_KERNEL_CH_STOP && update)
		tauti_nccl_kernel_update(r, handle, update->kernel.gpu_ns);
	tauti_plugin_leave();
	return NCCL_SUCCESS;
}
