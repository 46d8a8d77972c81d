/* task.c - collectives, sends and receives: from the first thing that is known
 * of one to its record. */
#include <string.h>

#include "base/log_format.h"
#include "record/nccl/recorder.h"

static void lower(_Atomic int64_t *to, int64_t value)
{
	int64_t seen = atomic_load_explicit(to, memory_order_relaxed);

	while (value < seen && !atomic_compare_exchange_weak_explicit(to, &seen,
		value, memory_order_relaxed, memory_order_relaxed))
		;
}

static void raise(_Atomic int64_t *to, int64_t value)
{
	int64_t seen = atomic_load_explicit(to, memory_order_relaxed);

	while (value > seen && !atomic_compare_exchange_weak_explicit(to, &seen,
		value, memory_order_relaxed, memory_order_relaxed))
		;
}

/* --- what a task is ----------------------------------------------------------------*/

static size_t put_number(char *to, unsigned number)
{
	size_t n = number > 99 ? 3 : number > 9 ? 2 : 1;

	for (size_t i = n; i-- > 0; number /= 10)
		to[i] = (char)('0' + number % 10);
	return n;
}

/* "AllReduce RING LL128 16ch" */
static uint32_t name_of(struct tauti_nccl_recorder *r,
	const struct tauti_nccl_task_info *info)
{
	const char *parts[] = { info->func ? info->func : "Unknown",
		info->algo, info->proto };
	char text[TAUTI_WORD_BYTES];
	size_t len = 0;

	for (size_t i = 0; i < 3; i++) {
		size_t n = parts[i] ? strnlen(parts[i], 16) : 0;

		if (n && len)
			text[len++] = ' ';
		if (n)
			memcpy(text + len, parts[i], n);
		len += n;
	}
	if (info->channels) {
		text[len++] = ' ';
		len += put_number(text + len, info->channels & 0xff);
		memcpy(text + len, "ch", 2);
		len += 2;
	}
	text[len] = '\0';
	return tauti_words_id(&r->words, text);
}

static int64_t elements(size_t count)
{
	return count > INT64_MAX ? -1 : (int64_t)count;
}

/* How many elements go in and come out; count is that of one rank where
 * the two differ. */
static void set_elements(struct taut_log_comm *args,
	const struct tauti_nccl_comm *comm, const char *func, size_t count)
{
	int64_t one = elements(count), all = -1;

	if (one >= 0 && comm->n_ranks > 0 &&
		__builtin_mul_overflow(one, (int64_t)comm->n_ranks, &all))
		all = -1;
	args->in_elements = args->out_elements = one;
	if (!strcmp(func, "AllGather"))
		args->out_elements = all;
	else if (!strcmp(func, "ReduceScatter"))
		args->in_elements = all;
}

/* How many came before it between the same two ranks. */
static int64_t count_pair(
	struct tauti_nccl_comm *comm, const struct tauti_nccl_task_info *info)
{
	bool sends = info->func && !strcmp(info->func, "Send");

	if (!comm->pairs || info->peer < 0 ||
		(uint32_t)info->peer >= comm->n_pairs)
		return -1;
	return atomic_fetch_add_explicit(
		&comm->pairs[2 * (uint32_t)info->peer + sends], 1,
		memory_order_relaxed);
}

static void set_ranks(struct taut_log_comm *args,
	const struct tauti_nccl_comm *comm,
	const struct tauti_nccl_task_info *info, const char *func)
{
	int32_t self = tauti_nccl_global(comm, info->rank);
	int32_t peer = tauti_nccl_global(comm, info->peer);

	args->src = args->dst = args->root = -1;
	if (info->is_pair) {
		args->src = !strcmp(func, "Recv") ? peer : self;
		args->dst = !strcmp(func, "Recv") ? self : peer;
	} else if (!strcmp(func, "Broadcast") || !strcmp(func, "Reduce") ||
		!strcmp(func, "Gather") || !strcmp(func, "Scatter")) {
		args->root = tauti_nccl_global(comm, info->root);
	}
}

static void describe(struct tauti_nccl_recorder *r,
	struct tauti_nccl_comm *comm, const struct tauti_nccl_task_info *info,
	int64_t seq, struct tauti_nccl_task *task)
{
	const char *func = info->func ? info->func : "Unknown";
	struct taut_log_comm *args = &task->args;

	task->name = name_of(r, info);
	args->collective = tauti_words_id(
		&r->words, tauti_nccl_collective_name(func));
	args->dtype = info->dtype ? tauti_words_id(&r->words,
		tauti_nccl_dtype_name(info->dtype)) : 0;
	tauti_nccl_comm_learn(r, comm, info->comm_hash, info->comm_name,
		info->rank, args);
	args->group_size = comm->n_ranks;
	args->seq = seq;
	set_elements(args, comm, func, info->count);
	set_ranks(args, comm, info, func);
}

/* --- its life -----------------------------------------------------------------------*/

static struct tauti_nccl_task *take_task(
	struct tauti_nccl_recorder *r, struct tauti_nccl_comm *comm)
{
	struct tauti_nccl_task *task = tauti_pool_take(&r->tasks);

	if (!task) {
		tauti_nccl_sweep(r, comm, TAUTI_NCCL_MAKE_ROOM);
		task = tauti_pool_take(&r->tasks);
	}
	if (!task)
		tauti_nccl_lose(r, TAUTI_NCCL_NO_TASK);
	return task;
}

/* One place a task: at most as many tasks exist as there are places. */
static void append(struct tauti_nccl_comm *comm, void *handle)
{
	uint64_t at = atomic_fetch_add_explicit(
		&comm->end, 1, memory_order_relaxed);

	atomic_store_explicit(&comm->tasks[at % TAUTI_NCCL_TASKS], handle,
		memory_order_release);
}

static void *begin(struct tauti_nccl_recorder *r, void *context,
	struct tauti_nccl_comm *comm, const struct tauti_nccl_task_info *info,
	int64_t seq)
{
	struct tauti_nccl_task *task = take_task(r, comm);
	void *handle;

	if (!task)
		return NULL;
	handle = tauti_pool_handle(&r->tasks, task);
	task->comm = context;
	task->number = tauti_pool_number(handle);
	task->launch = atomic_load_explicit(
		&comm->launch, memory_order_relaxed);
	describe(r, comm, info, seq, task);
	atomic_store_explicit(&task->live, 0, memory_order_relaxed);
	atomic_store_explicit(&task->stopped_ns, 0, memory_order_relaxed);
	atomic_store_explicit(
		&task->first_op_ns, INT64_MAX, memory_order_relaxed);
	atomic_store_explicit(
		&task->first_kernel_ns, INT64_MAX, memory_order_relaxed);
	atomic_store_explicit(&task->last_ns, 0, memory_order_relaxed);
	task->enqueued_ns = taut_log_now();
	append(comm, handle);
	tauti_pool_release(task);
	return handle;
}

void *tauti_nccl_task_start(struct tauti_nccl_recorder *r, void *context,
	const struct tauti_nccl_task_info *info)
{
	struct tauti_nccl_comm *comm = tauti_pool_share(&r->comms, context);
	void *handle = NULL;
	int64_t seq;

	if (!comm) {
		tauti_nccl_lose(r, TAUTI_NCCL_NO_COMM);
		return NULL;
	}
	seq = !info->is_pair ? (int64_t)(info->seq & INT64_MAX) :
		count_pair(comm, info);
	if (tauti_nccl_is_on(r))
		handle = begin(r, context, comm, info, seq);
	tauti_nccl_sweep(r, comm, TAUTI_NCCL_OVER);
	tauti_pool_unshare(comm);
	return handle;
}

void tauti_nccl_task_stop(struct tauti_nccl_recorder *r, void *handle)
{
	struct tauti_nccl_task *task = tauti_pool_share(&r->tasks, handle);
	int64_t none = 0;

	if (!task) {
		tauti_nccl_lose(r, TAUTI_NCCL_NOT_FOUND);
		return;
	}
	atomic_compare_exchange_strong_explicit(&task->stopped_ns, &none,
		taut_log_now(), memory_order_relaxed, memory_order_relaxed);
	tauti_pool_unshare(task);
}

static int64_t load(const _Atomic int64_t *from)
{
	return atomic_load_explicit(from, memory_order_relaxed);
}

/* A lane on which nothing is at that time. On the last one what overlaps is
 * cut: tasks of one communicator follow each other but for their last sends. */
static uint32_t choose_lane(
	struct tauti_nccl_comm *comm, int64_t *start, int64_t end)
{
	uint32_t lane = 0;

	while (lane < TAUTI_NCCL_ROWS - 1 && comm->row_ends[lane] > *start)
		lane++;
	if (comm->row_ends[lane] > *start)
		*start = comm->row_ends[lane] < end ? comm->row_ends[lane] : end;
	if (comm->row_ends[lane] < end)
		comm->row_ends[lane] = end;
	return TAUTI_NCCL_LANES + lane;
}

/* From the first sign of the device to the last; where there was none, the
 * time it took to enqueue. */
void tauti_nccl_task_write(struct tauti_nccl_recorder *r,
	struct tauti_nccl_comm *comm, struct tauti_nccl_task *task)
{
	int64_t kernel = load(&task->first_kernel_ns);
	int64_t start = kernel != INT64_MAX ? kernel : load(&task->first_op_ns);
	int64_t end = load(&task->last_ns);
	uint32_t lane;

	if (start == INT64_MAX)
		start = task->enqueued_ns;
	if (!end)
		end = load(&task->stopped_ns);
	if (end < start)
		end = start;
	lane = choose_lane(comm, &start, end);
	taut_log_comm(r->log, task->name, TAUTI_LOG_KIND_COMM,
		tauti_nccl_lane(r, comm, lane), start, end, task->number,
		&task->args);
}

/* --- its parts -----------------------------------------------------------------------*/

bool tauti_nccl_part_begin(
	struct tauti_nccl_recorder *r, void *handle, int64_t at_ns)
{
	struct tauti_nccl_task *task = tauti_pool_share(&r->tasks, handle);

	if (!task)
		return false;
	atomic_fetch_add_explicit(&task->live, 1, memory_order_relaxed);
	lower(&task->first_op_ns, at_ns);
	tauti_pool_unshare(task);
	return true;
}

/* Kernels of one communicator follow each other, so one that has come to its
 * end has all earlier launches behind it. */
static void pass(struct tauti_nccl_recorder *r, void *handle, uint32_t launch)
{
	struct tauti_nccl_comm *comm = tauti_pool_share(&r->comms, handle);
	uint32_t done;

	if (!comm)
		return;
	done = atomic_load_explicit(&comm->done, memory_order_relaxed);
	while ((int32_t)(launch - done) > 0 &&
		!atomic_compare_exchange_weak_explicit(&comm->done, &done,
			launch, memory_order_relaxed, memory_order_relaxed))
		;
	tauti_nccl_sweep(r, comm, TAUTI_NCCL_OVER);
	tauti_pool_unshare(comm);
}

void tauti_nccl_part_end(struct tauti_nccl_recorder *r, void *handle,
	void *comm, int64_t at_ns)
{
	struct tauti_nccl_task *task = tauti_pool_share(&r->tasks, handle);
	uint32_t launch;

	if (!task)
		return;
	launch = task->launch;
	raise(&task->last_ns, at_ns);
	atomic_fetch_sub_explicit(&task->live, 1, memory_order_relaxed);
	tauti_pool_unshare(task);
	pass(r, comm, launch);
}

/* --- kernels' channels ------------------------------------------------------------------*/

void *tauti_nccl_kernel_start(struct tauti_nccl_recorder *r, void *context,
	void *task, uint64_t gpu_ns)
{
	int64_t now = taut_log_now();
	struct tauti_nccl_kernel *kernel;
	void *handle;

	if (tauti_pool_kind_of(task) != TAUTI_POOL_TASK)
		return NULL;
	kernel = tauti_pool_take(&r->kernels);
	if (!kernel) {
		tauti_nccl_lose(r, TAUTI_NCCL_NO_KERNEL);
		return NULL;
	}
	if (!tauti_nccl_part_begin(r, task, now)) {
		tauti_pool_put(&r->kernels, kernel);
		return NULL;
	}
	atomic_store_explicit(&kernel->comm, context, memory_order_relaxed);
	kernel->task = task;
	kernel->start_ns = now;
	kernel->gpu_start_ns = gpu_ns;
	kernel->gpu_end_ns = 0;
	atomic_fetch_add_explicit(&r->n_parts, 1, memory_order_relaxed);
	handle = tauti_pool_handle(&r->kernels, kernel);
	tauti_pool_release(kernel);
	return handle;
}

void tauti_nccl_kernel_update(
	struct tauti_nccl_recorder *r, void *handle, uint64_t gpu_ns)
{
	struct tauti_nccl_kernel *kernel = tauti_pool_hold(&r->kernels, handle);

	if (!kernel) {
		tauti_nccl_lose(r, TAUTI_NCCL_NOT_FOUND);
		return;
	}
	kernel->gpu_end_ns = gpu_ns;
	tauti_pool_release(kernel);
}

/* When the kernel began, by the GPU's timer back from its end, which the host
 * saw at once: a proxy that is busy sees the start late, and both at once if
 * the kernel is short. Some versions tell zero. */
static int64_t kernel_start(const struct tauti_nccl_kernel *kernel, int64_t end)
{
	uint64_t took = kernel->gpu_end_ns - kernel->gpu_start_ns;

	if (!kernel->gpu_start_ns || kernel->gpu_end_ns < kernel->gpu_start_ns ||
		took > INT64_C(3600) * 1000000000)
		return kernel->start_ns;
	return end - (int64_t)took;
}

void tauti_nccl_kernel_stop(struct tauti_nccl_recorder *r, void *handle)
{
	struct tauti_nccl_kernel *kernel = tauti_pool_hold(&r->kernels, handle);
	int64_t now = taut_log_now();
	struct tauti_nccl_task *task;
	void *of, *comm;

	if (!kernel) {
		tauti_nccl_lose(r, TAUTI_NCCL_NOT_FOUND);
		return;
	}
	of = kernel->task;
	comm = atomic_load_explicit(&kernel->comm, memory_order_relaxed);
	task = tauti_pool_share(&r->tasks, of);
	if (task) {
		lower(&task->first_kernel_ns, kernel_start(kernel, now));
		tauti_pool_unshare(task);
	}
	tauti_pool_put(&r->kernels, kernel);
	atomic_fetch_sub_explicit(&r->n_parts, 1, memory_order_relaxed);
	tauti_nccl_part_end(r, of, comm, now);
}
