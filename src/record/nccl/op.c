/* op.c - operations of the proxy and their steps: see the picture in recorder.h. */
#include <stdio.h>
#include <string.h>

#include "record/nccl/abi.h"
#include "record/nccl/recorder.h"

/* --- steps ------------------------------------------------------------------------*/

/* Which sum of a step the time in a phase goes to. */
static int64_t *sum_of(struct tauti_nccl_step *step)
{
	switch (step->phase) {
	case TAUTI_NCCL_PEER_WAIT:
		return &step->args.peer_late_ns;
	case TAUTI_NCCL_SEND_WAIT:
	case TAUTI_NCCL_RECV_WAIT:
		return &step->args.network_ns;
	default:
		return &step->args.gpu_late_ns;
	}
}

/* A clock that is set back stands still here. */
static int64_t later(int64_t now, int64_t since)
{
	return now > since ? now : since;
}

static void enter(struct tauti_nccl_step *step, enum tauti_nccl_phase phase,
	int64_t now)
{
	now = later(now, step->since_ns);
	*sum_of(step) += now - step->since_ns;
	step->since_ns = now;
	step->phase = phase;
}

void tauti_nccl_step_state(struct tauti_nccl_recorder *r, void *handle,
	enum tauti_nccl_phase phase, uint64_t bytes)
{
	struct tauti_nccl_step *step = tauti_pool_hold(&r->steps, handle);

	if (!step) {
		tauti_nccl_lose(r, TAUTI_NCCL_NOT_FOUND);
		return;
	}
	enter(step, phase, taut_log_now());
	/* In other states it may be the size of another step. */
	if (bytes && bytes <= INT64_MAX && (phase == TAUTI_NCCL_SEND_WAIT ||
		phase == TAUTI_NCCL_FLUSH_WAIT))
		step->args.bytes = (int64_t)bytes;
	tauti_pool_release(step);
}

void tauti_nccl_step_stop(struct tauti_nccl_recorder *r, void *handle)
{
	struct tauti_nccl_step *step = tauti_pool_hold(&r->steps, handle);
	struct taut_log_chunk *args;

	if (!step) {
		tauti_nccl_lose(r, TAUTI_NCCL_NOT_FOUND);
		return;
	}
	args = &step->args;
	if (step->phase == TAUTI_NCCL_STARTED) {
		args->gpu_late_ns = args->peer_late_ns = args->network_ns = -1;
		step->since_ns = later(taut_log_now(), step->since_ns);
	} else {
		enter(step, step->phase, taut_log_now());
		if (!args->sends)
			args->peer_late_ns = -1;
	}
	taut_log_chunk(r->log, step->name, step->lane, step->start_ns,
		step->since_ns, step->number, args);
	tauti_pool_put(&r->steps, step);
}

static void drop_step(struct tauti_nccl_recorder *r, void *handle)
{
	struct tauti_nccl_step *step = tauti_pool_hold(&r->steps, handle);

	if (!step)
		return;
	tauti_nccl_lose(r, TAUTI_NCCL_CUT);
	tauti_pool_put(&r->steps, step);
}

static void *new_step(struct tauti_nccl_recorder *r,
	const struct tauti_nccl_op *op, int number)
{
	struct tauti_nccl_step *step = tauti_pool_take(&r->steps);
	void *handle;

	if (!step) {
		tauti_nccl_lose(r, TAUTI_NCCL_NO_STEP);
		return NULL;
	}
	step->phase = TAUTI_NCCL_STARTED;
	step->name = op->name;
	step->number = op->number;
	step->lane = op->lane;
	step->start_ns = step->since_ns = taut_log_now();
	step->args = (struct taut_log_chunk) {
		.peer = op->peer, .channel = op->channel, .step = number,
		.sends = op->sends, .bytes = -1,
	};
	handle = tauti_pool_handle(&r->steps, step);
	tauti_pool_release(step);
	return handle;
}

/* A receive that could not be posted is started again with each try: then it
 * is the step that is there already. */
static bool is_again(struct tauti_nccl_recorder *r, void *handle, int number)
{
	struct tauti_nccl_step *step = tauti_pool_hold(&r->steps, handle);
	bool again;

	if (!step)
		return false;
	again = step->phase == TAUTI_NCCL_STARTED && step->args.step == number;
	tauti_pool_release(step);
	return again;
}

static void *start_in(
	struct tauti_nccl_recorder *r, struct tauti_nccl_op *op, int number)
{
	void **place = &op->steps[(unsigned)number % TAUTI_NCCL_DEPTH];
	bool in_slice = op->in_slice;

	op->in_slice = op->version == 1;
	if (is_again(r, *place, number))
		return *place;
	if (in_slice)
		return NULL;
	drop_step(r, *place);
	*place = new_step(r, op, number);
	return *place;
}

void *tauti_nccl_step_start(
	struct tauti_nccl_recorder *r, void *parent, int number)
{
	struct tauti_nccl_op *op = tauti_pool_hold(&r->ops, parent);
	void *handle;

	if (!op)
		return NULL; /* nobody wanted the operation either */
	handle = start_in(r, op, number);
	tauti_pool_release(op);
	return handle;
}

/* --- operations ---------------------------------------------------------------------*/

static uint32_t op_name(struct tauti_nccl_recorder *r,
	const struct tauti_nccl_comm *comm, const struct tauti_nccl_op *op,
	const struct tauti_nccl_op_info *info)
{
	char text[TAUTI_WORD_BYTES];

	if (op->peer >= 0)
		return tauti_words_id(&r->words, op->sends ? "send" : "recv");
	snprintf(text, sizeof text, "%s %d of %s",
		op->sends ? "send to" : "recv from", info->peer,
		comm ? "the group" : "another process's group");
	return tauti_words_id(&r->words, text);
}

static void *begin(struct tauti_nccl_recorder *r, void *context,
	struct tauti_nccl_comm *comm, const struct tauti_nccl_op_info *info)
{
	struct tauti_nccl_op *op = tauti_pool_take(&r->ops);
	void *handle, *task = comm ? info->parent : NULL;

	if (!op) {
		tauti_nccl_lose(r, TAUTI_NCCL_NO_OP);
		return NULL;
	}
	atomic_store_explicit(&op->comm, comm ? context : NULL,
		memory_order_relaxed);
	op->version = info->version;
	op->task = tauti_pool_kind_of(task) == TAUTI_POOL_TASK ? task : NULL;
	op->number = op->task ? tauti_pool_number(task) : 0;
	op->peer = tauti_nccl_global(comm, info->peer);
	op->channel = info->channel;
	op->sends = info->sends;
	op->in_slice = false;
	op->moved_bytes = 0;
	memset(op->steps, 0, sizeof op->steps);
	op->name = op_name(r, comm, op, info);
	op->lane = tauti_nccl_lane(r, comm,
		2 * ((uint32_t)info->channel & 255) + info->sends);
	atomic_fetch_add_explicit(&r->n_parts, 1, memory_order_relaxed);
	handle = tauti_pool_handle(&r->ops, op);
	if (op->task && !tauti_nccl_part_begin(r, op->task, taut_log_now()))
		op->task = NULL; /* a graph is launched again */
	tauti_pool_release(op);
	return handle;
}

/* With PXN the operation may be another process's: then parent and context
 * are that one's, and mean nothing here. */
void *tauti_nccl_op_start(struct tauti_nccl_recorder *r, void *context,
	const struct tauti_nccl_op_info *info)
{
	struct tauti_nccl_comm *comm = info->pid != r->pid ? NULL :
		tauti_pool_share(&r->comms, context);
	struct tauti_nccl_task *task = !comm ? NULL :
		tauti_pool_share(&r->tasks, info->parent);
	void *handle = NULL;

	/* What was begun in the window is followed to its end. */
	if (task || tauti_nccl_is_on(r))
		handle = begin(r, context, comm, info);
	if (task)
		tauti_pool_unshare(task);
	if (comm)
		tauti_pool_unshare(comm);
	return handle;
}

/* The oldest step in one of two phases; held. */
static struct tauti_nccl_step *oldest(struct tauti_nccl_recorder *r,
	const struct tauti_nccl_op *op, enum tauti_nccl_phase phase,
	enum tauti_nccl_phase or_phase)
{
	struct tauti_nccl_step *found = NULL, *step;

	for (int i = 0; i < TAUTI_NCCL_DEPTH; i++) {
		step = tauti_pool_hold(&r->steps, op->steps[i]);
		if (!step)
			continue;
		if ((step->phase != phase && step->phase != or_phase) ||
			(found && found->args.step < step->args.step)) {
			tauti_pool_release(step);
			continue;
		}
		if (found)
			tauti_pool_release(found);
		found = step;
	}
	return found;
}

/* What the operation has moved more than before is the step's. v1 counts a
 * transfer after it has told of it. */
static void set_bytes(struct tauti_nccl_op *op, struct tauti_nccl_step *step,
	uint64_t moved_bytes)
{
	if (step && moved_bytes > op->moved_bytes &&
		moved_bytes - op->moved_bytes <= INT64_MAX &&
		!(op->version == 1 && op->sends))
		step->args.bytes = (int64_t)(moved_bytes - op->moved_bytes);
	op->moved_bytes = moved_bytes;
}

void tauti_nccl_op_state(struct tauti_nccl_recorder *r, void *handle,
	int state, uint64_t moved_bytes)
{
	struct tauti_nccl_op *op = tauti_pool_hold(&r->ops, handle);
	struct tauti_nccl_step *step = NULL;

	if (!op) {
		tauti_nccl_lose(r, TAUTI_NCCL_NOT_FOUND);
		return;
	}
	op->in_slice = false;
	if (state == NCCL_OP_SEND_PEER_WAIT) {
		step = oldest(r, op, TAUTI_NCCL_GPU_WAIT, TAUTI_NCCL_PEER_WAIT);
		if (step)
			enter(step, TAUTI_NCCL_PEER_WAIT, taut_log_now());
	} else if (state == NCCL_OP_SEND_TRANSMITTED) {
		step = oldest(r, op, TAUTI_NCCL_GPU_WAIT, TAUTI_NCCL_PEER_WAIT);
		set_bytes(op, step, moved_bytes);
	} else if (state == NCCL_OP_RECV_RECEIVED) {
		step = oldest(r, op, TAUTI_NCCL_RECV_WAIT, TAUTI_NCCL_RECV_WAIT);
		set_bytes(op, step, moved_bytes);
	}
	if (step)
		tauti_pool_release(step);
	tauti_pool_release(op);
}

static void end(struct tauti_nccl_recorder *r, struct tauti_nccl_op *op)
{
	void *task = op->task;
	void *comm = atomic_load_explicit(&op->comm, memory_order_relaxed);

	for (int i = 0; i < TAUTI_NCCL_DEPTH; i++)
		drop_step(r, op->steps[i]);
	tauti_pool_put(&r->ops, op);
	atomic_fetch_sub_explicit(&r->n_parts, 1, memory_order_relaxed);
	if (task)
		tauti_nccl_part_end(r, task, comm, taut_log_now());
}

void tauti_nccl_op_stop(struct tauti_nccl_recorder *r, void *handle)
{
	struct tauti_nccl_op *op = tauti_pool_hold(&r->ops, handle);

	if (op)
		end(r, op);
	else
		tauti_nccl_lose(r, TAUTI_NCCL_NOT_FOUND);
}

/* Others' are not touched: who finds an object held by us would lose an event. */
static void *hold_of(struct tauti_pool *pool, uint32_t index,
	_Atomic(void *) *of, const void *comm)
{
	void *object;

	if (atomic_load_explicit(of, memory_order_relaxed) != comm)
		return NULL;
	object = tauti_pool_hold_at(pool, index);
	if (object && atomic_load_explicit(of, memory_order_relaxed) != comm) {
		tauti_pool_release(object);
		return NULL;
	}
	return object;
}

void tauti_nccl_ops_forget(struct tauti_nccl_recorder *r, void *comm)
{
	struct tauti_nccl_kernel *kernels = (void *)r->kernels.objects;
	struct tauti_nccl_op *ops = (void *)r->ops.objects;

	if (!atomic_load_explicit(&r->n_parts, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < r->ops.n; i++) {
		if (!hold_of(&r->ops, i, &ops[i].comm, comm))
			continue;
		tauti_nccl_lose(r, TAUTI_NCCL_CUT);
		end(r, &ops[i]);
	}
	for (uint32_t i = 0; i < r->kernels.n; i++) {
		if (!hold_of(&r->kernels, i, &kernels[i].comm, comm))
			continue;
		tauti_nccl_lose(r, TAUTI_NCCL_CUT);
		tauti_pool_put(&r->kernels, &kernels[i]);
		atomic_fetch_sub_explicit(
			&r->n_parts, 1, memory_order_relaxed);
	}
}
