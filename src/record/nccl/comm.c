/* comm.c - communicators, their names in the log, and when their tasks are over. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/log.h"
#include "record/nccl/recorder.h"

enum {
	MOST_RANKS = 1 << 20,
	MOST_LISTED = 64, /* ranks that are written out */
	SWEEP_AT_ONCE = 32,
	PATIENCE = 1000, /* yields */
};
/* After so long nobody expects the first operation of a task any more. */
#define LONG_NS (INT64_C(5) * 1000000000)
#define LANES_BASE (INT64_C(1) << 48)

/* --- lanes ---------------------------------------------------------------------*/

/* Under the words' lock. */
static void name_lane(struct tauti_nccl_recorder *r,
	const struct tauti_nccl_comm *comm, uint32_t lane, int64_t number)
{
	char text[128], of[64] = "other processes";
	uint64_t hash;

	if (comm) {
		hash = atomic_load_explicit(&comm->hash, memory_order_relaxed);
		snprintf(of, sizeof of, "%s%s0x%llx", comm->name,
			comm->name[0] ? " " : "", (unsigned long long)hash);
	}
	if (lane < TAUTI_NCCL_LANES) {
		snprintf(text, sizeof text, "NCCL %s channel %u %s", of,
			lane / 2, lane & 1 ? "send" : "recv");
		taut_log_chunk_lane(r->log, number, text);
	} else {
		snprintf(text, sizeof text, "NCCL %s", of);
		taut_log_lane(r->log, number, text);
	}
}

int64_t tauti_nccl_lane(struct tauti_nccl_recorder *r,
	struct tauti_nccl_comm *comm, uint32_t lane)
{
	int64_t number = LANES_BASE | (int64_t)(comm ? comm->number : 0) << 16 |
		lane;
	_Atomic uint64_t *named = &(comm ? comm->named : r->named)[lane / 64];
	uint64_t bit = UINT64_C(1) << lane % 64;

	if (atomic_load_explicit(named, memory_order_relaxed) & bit ||
		!tauti_words_try_lock(&r->words))
		return number;
	if (!(atomic_fetch_or_explicit(named, bit, memory_order_relaxed) & bit))
		name_lane(r, comm, lane, number);
	tauti_words_unlock(&r->words);
	return number;
}

/* --- names ----------------------------------------------------------------------*/

/* "[0, 1, 2, 3]"; 0: not known, or too many. write: how a text is written. */
static uint32_t list_ranks(struct tauti_nccl_recorder *r,
	const struct tauti_nccl_comm *comm,
	uint32_t (*write)(struct taut_log *log, const char *text))
{
	char text[8 * MOST_LISTED];
	int len = 0;

	if (!comm->is_world || comm->n_ranks > MOST_LISTED)
		return 0;
	for (int i = 0; i < comm->n_ranks; i++)
		len += snprintf(text + len, sizeof text - (size_t)len, "%s%d",
			i ? ", " : "[", i);
	snprintf(text + len, sizeof text - (size_t)len, "]");
	return write(r->log, text);
}

static void copy_name(struct tauti_nccl_comm *comm, const char *name)
{
	size_t len = name ? strnlen(name, sizeof comm->name - 1) : 0;

	memcpy(comm->name, name ? name : "", len);
	comm->name[len] = '\0';
}

/* One fact a communicator: over all ranks, which of its ranks is which. */
static void tell(struct tauti_nccl_recorder *r,
	const struct tauti_nccl_comm *comm, uint64_t hash, int rank)
{
	char text[160];

	snprintf(text, sizeof text, "0x%llx rank=%d ranks=%d name=%s",
		(unsigned long long)hash, rank, comm->n_ranks, comm->name);
	taut_log_fact(r->log, "nccl.comm", text);
}

/* Under the words' lock. */
static void introduce(struct tauti_nccl_recorder *r,
	struct tauti_nccl_comm *comm, uint64_t hash, const char *name, int rank)
{
	char text[32];

	if (atomic_load_explicit(&comm->group, memory_order_relaxed))
		return;
	if (name)
		copy_name(comm, name);
	snprintf(text, sizeof text, "0x%llx", (unsigned long long)hash);
	atomic_store_explicit(&comm->hash, hash, memory_order_relaxed);
	atomic_store_explicit(&comm->group_ranks, list_ranks(r, comm,
		taut_log_text), memory_order_relaxed);
	tell(r, comm, hash, rank);
	atomic_store_explicit(&comm->group, taut_log_text(r->log, text),
		memory_order_release);
}

void tauti_nccl_comm_learn(struct tauti_nccl_recorder *r,
	struct tauti_nccl_comm *comm, uint64_t hash, const char *name, int rank,
	struct taut_log_comm *args)
{
	char text[32];

	if (!hash)
		hash = atomic_load_explicit(&comm->hash, memory_order_relaxed);
	if (hash && !atomic_load_explicit(&comm->group, memory_order_relaxed) &&
		tauti_words_try_lock(&r->words)) {
		introduce(r, comm, hash, name, rank);
		tauti_words_unlock(&r->words);
	}
	args->group = atomic_load_explicit(&comm->group, memory_order_acquire);
	args->group_ranks = atomic_load_explicit(
		&comm->group_ranks, memory_order_relaxed);
	if (args->group || !hash)
		return;
	/* Somebody else is at it, and may take long: without its group, a
	 * collective would not be known to be that of the other ranks. */
	snprintf(text, sizeof text, "0x%llx", (unsigned long long)hash);
	args->group = tauti_log_text_anew(r->log, text);
	args->group_ranks = list_ranks(r, comm, tauti_log_text_anew);
}

/* --- beginning -------------------------------------------------------------------*/

static void clear(struct tauti_nccl_recorder *r, struct tauti_nccl_comm *comm,
	const struct tauti_nccl_comm_info *info)
{
	comm->number = ++r->n_comms;
	comm->n_ranks = info->n_ranks > 0 && info->n_ranks <= MOST_RANKS ?
		info->n_ranks : -1;
	comm->rank = info->rank;
	comm->is_world = comm->n_ranks > 0 && comm->n_ranks == r->world_size &&
		comm->rank >= 0 && comm->rank == r->rank;
	comm->n_pairs = comm->n_ranks > 0 ? (uint32_t)comm->n_ranks : 0;
	comm->pairs = comm->n_pairs ?
		calloc(2 * (size_t)comm->n_pairs, sizeof *comm->pairs) : NULL;
	copy_name(comm, info->name);
	atomic_store(&comm->mask, info->mask);
	atomic_store(&comm->hash, info->hash);
	atomic_store(&comm->group, 0);
	atomic_store(&comm->group_ranks, 0);
	for (size_t i = 0; i < sizeof comm->named / sizeof *comm->named; i++)
		atomic_store(&comm->named[i], 0);
	memset(comm->row_ends, 0, sizeof comm->row_ends);
	atomic_store(&comm->launch, 0);
	atomic_store(&comm->done, 0);
	atomic_flag_clear(&comm->sweeping);
	atomic_store(&comm->begin, 0);
	atomic_store(&comm->end, 0);
}

void *tauti_nccl_comm_begin(struct tauti_nccl_recorder *r,
	const struct tauti_nccl_comm_info *info)
{
	struct tauti_nccl_comm *comm = tauti_pool_take(&r->comms);
	char state[64];
	void *context;

	if (!comm) {
		tauti_nccl_lose(r, TAUTI_NCCL_NO_COMM);
		return NULL;
	}
	if (info->n_ranks > 1)
		tauti_nccl_learn_rank(r, info->rank, info->n_ranks);
	clear(r, comm, info);
	snprintf(state, sizeof state, "NCCL plugin v%d, %d communicators",
		info->version, r->n_comms);
	taut_log_state(r->log, state);
	context = tauti_pool_handle(&r->comms, comm);
	tauti_pool_release(comm);
	return context;
}

/* --- which events NCCL tells -------------------------------------------------------*/

/* Some events slow NCCL down even when nobody takes them, so they are asked
 * for only while recording. NCCL reads the mask anew for each group of calls. */
static void set_mask(
	struct tauti_nccl_recorder *r, const struct tauti_nccl_comm *comm)
{
	bool on = tauti_nccl_is_on(r);
	int *mask;

	if (r->mask == r->idle_mask ||
		on == atomic_load_explicit(&r->was_on, memory_order_relaxed) ||
		atomic_exchange_explicit(&r->was_on, on,
			memory_order_relaxed) == on)
		return;
	mask = atomic_load_explicit(&comm->mask, memory_order_relaxed);
	if (mask)
		__atomic_store_n(mask, (int)(on ? r->mask : r->idle_mask),
			__ATOMIC_RELAXED);
}

void tauti_nccl_comm_launch(struct tauti_nccl_recorder *r, void *context)
{
	struct tauti_nccl_comm *comm = tauti_pool_share(&r->comms, context);

	if (!comm)
		return;
	set_mask(r, comm);
	atomic_fetch_add_explicit(&comm->launch, 1, memory_order_relaxed);
	tauti_pool_unshare(comm);
}

/* --- the end of tasks --------------------------------------------------------------*/

static bool is_over(const struct tauti_nccl_comm *comm,
	const struct tauti_nccl_task *task, enum tauti_nccl_sweep which,
	uint64_t waiting)
{
	int64_t stopped = atomic_load_explicit(
		&task->stopped_ns, memory_order_relaxed);
	uint32_t done = atomic_load_explicit(
		&comm->done, memory_order_relaxed);

	if (which == TAUTI_NCCL_ALL || waiting > TAUTI_NCCL_TASKS / 2)
		return true;
	if (!stopped || atomic_load_explicit(
		&task->live, memory_order_relaxed) > 0)
		return false;
	return which == TAUTI_NCCL_MAKE_ROOM ||
		(int32_t)(done - task->launch) > 0 ||
		taut_log_now() - stopped > LONG_NS;
}

/* Waits a little while others share it. */
static void *hold_soon(struct tauti_pool *pool, const void *handle)
{
	void *object = tauti_pool_hold(pool, handle), *shared;

	for (int i = 0; !object && i < PATIENCE; i++) {
		shared = tauti_pool_share(pool, handle);
		if (!shared)
			return NULL; /* there is no such one */
		tauti_pool_unshare(shared);
		sched_yield();
		object = tauti_pool_hold(pool, handle);
	}
	return object;
}

/* The task, held, if it is over. Looks as a sharer first: an end that found
 * the task held would be lost, and with it the ends of all that follow. What is
 * over nobody reports on any more. */
static struct tauti_nccl_task *hold_over(struct tauti_nccl_recorder *r,
	struct tauti_nccl_comm *comm, const void *handle,
	enum tauti_nccl_sweep which, uint64_t waiting)
{
	struct tauti_nccl_task *task = tauti_pool_share(&r->tasks, handle);
	bool over;

	if (!task)
		return NULL;
	over = is_over(comm, task, which, waiting);
	tauti_pool_unshare(task);
	return over ? tauti_pool_hold(&r->tasks, handle) : NULL;
}

/* Writes the oldest task, if it is over; with comm->sweeping. */
static bool sweep_one(struct tauti_nccl_recorder *r,
	struct tauti_nccl_comm *comm, enum tauti_nccl_sweep which)
{
	uint64_t at = atomic_load_explicit(&comm->begin, memory_order_relaxed);
	uint64_t end = atomic_load_explicit(&comm->end, memory_order_relaxed);
	_Atomic(void *) *place = &comm->tasks[at % TAUTI_NCCL_TASKS];
	void *handle = atomic_load_explicit(place, memory_order_acquire);
	struct tauti_nccl_task *task;

	if (at == end || !handle)
		return false;
	task = which == TAUTI_NCCL_ALL ? hold_soon(&r->tasks, handle) :
		hold_over(r, comm, handle, which, end - at);
	if (!task && which != TAUTI_NCCL_ALL)
		return false;
	if (task)
		tauti_nccl_task_write(r, comm, task);
	atomic_store_explicit(place, NULL, memory_order_relaxed);
	atomic_store_explicit(&comm->begin, at + 1, memory_order_relaxed);
	if (task)
		tauti_pool_put(&r->tasks, task);
	return true;
}

static bool take_broom(
	struct tauti_nccl_comm *comm, enum tauti_nccl_sweep which)
{
	for (int i = 0; i < PATIENCE; i++) {
		if (!atomic_flag_test_and_set_explicit(
			&comm->sweeping, memory_order_acquire))
			return true;
		if (which != TAUTI_NCCL_ALL)
			return false;
		sched_yield();
	}
	return false;
}

void tauti_nccl_sweep(struct tauti_nccl_recorder *r,
	struct tauti_nccl_comm *comm, enum tauti_nccl_sweep which)
{
	if (atomic_load_explicit(&comm->begin, memory_order_relaxed) ==
		atomic_load_explicit(&comm->end, memory_order_relaxed) ||
		!take_broom(comm, which))
		return;
	for (int n = 0; which == TAUTI_NCCL_ALL || n < SWEEP_AT_ONCE; n++)
		if (!sweep_one(r, comm, which))
			break;
	atomic_flag_clear_explicit(&comm->sweeping, memory_order_release);
}

/* --- the end of a communicator -------------------------------------------------------*/

void tauti_nccl_comm_end(struct tauti_nccl_recorder *r, void *context)
{
	struct tauti_nccl_comm *comm;

	tauti_nccl_ops_forget(r, context);
	comm = hold_soon(&r->comms, context);
	if (!comm) {
		tauti_nccl_lose(r, TAUTI_NCCL_NOT_FOUND);
		return;
	}
	tauti_nccl_sweep(r, comm, TAUTI_NCCL_ALL);
	free(comm->pairs);
	comm->pairs = NULL;
	tauti_pool_put(&r->comms, comm);
}
