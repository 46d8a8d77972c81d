/* sync.c - life; what is declared, and what was counted. */
#include "sync/sync.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static taut_status no_memory(struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_ENOMEM, -1, "sync: out of memory");
}

taut_status tauti_sync_check_origin(
	const struct taut_sync *sync, struct taut_error *reterr)
{
	if (!tauti_origin_is_copy(&sync->origin))
		return TAUT_OK;
	return taut_error_set(reterr, TAUT_EIO, -1, "sync: rank %" PRIu32 ": "
		"this process was forked from the one that made it, and has no "
		"part in it", sync->rank);
}

taut_status tauti_sync_comm_failed(
	struct taut_sync *sync, taut_status status, struct taut_error *err)
{
	taut_status of_all = taut_comm_progress(sync->comm, err);

	if (of_all)
		return of_all;
	return taut_error_set(err, status, -1,
		"sync: a collective failed: %s", taut_status_name(status));
}

/* --- life --------------------------------------------------------------------------*/

static void done(
	void *context, uint32_t task, uint32_t iteration, taut_status status)
{
	struct taut_sync *sync = context;

	(void)iteration;
	if (status) /* tauti_sync_end() tells all at once */
		return;
	if (!sync->options.halves || task % 2)
		tauti_sync_told(sync, tauti_sync_task(sync, task));
}

/* Pieces of blocks are whole blocks, and those of all other types whole elements. */
enum { BLOCKS_ALIGN_BYTES = 64 * 33 };

static taut_status create_sched(struct taut_sync *sync, struct taut_error *err)
{
	static const struct taut_sched_engine engine = {
		.start = tauti_message_start,
		.agree = tauti_round_agree,
		.done = done,
	};
	struct taut_sched_options options = {
		.order = sync->options.order,
		.n_ranks = sync->n_ranks,
		.piece_bytes = sync->options.piece_bytes,
		.align_bytes = sync->options.wire == TAUT_MXINT8 ?
			BLOCKS_ALIGN_BYTES : 0,
		.credit_bytes = sync->options.credit_bytes,
		.fuse_bytes = sync->options.fuse_bytes,
	};

	return taut_sched_create(&options, &engine, sync, &sync->sched, err);
}

static taut_status create_twins(struct taut_sync *sync, struct taut_error *err)
{
	struct taut_comm **twins[] = { &sync->pieces, &sync->round_comm,
		&sync->runs, &sync->farewell_comm };
	taut_status status = TAUT_OK;

	for (size_t i = 0; i < 4 && !status; i++)
		status = taut_comm_twin(sync->comm, twins[i], err);
	return status;
}

static void init_locks(struct taut_sync *sync)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&sync->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&sync->task_done, &attributes);
	pthread_cond_init(&sync->any_done, &attributes);
	pthread_cond_init(&sync->request_over, &attributes);
	pthread_condattr_destroy(&attributes);
}

/* Signals are for the threads of the program that this library is in. */
static taut_status start_thread(struct taut_sync *sync, struct taut_error *err)
{
	sigset_t all, before;
	int fault;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	fault = pthread_create(
		&sync->thread, NULL, tauti_sync_thread, sync);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (fault)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"sync: no thread can be made: %s", strerror(fault));
	return TAUT_OK;
}

/* The twins first: what was under way in them ends. */
static void free_all(struct taut_sync *sync)
{
	struct tauti_request *request = sync->newest, *older;

	taut_comm_destroy(sync->farewell_comm);
	taut_comm_destroy(sync->runs);
	taut_comm_destroy(sync->round_comm);
	taut_comm_destroy(sync->pieces);
	taut_sched_destroy(sync->sched);
	tauti_message_free_all(sync);
	for (; request; request = older) {
		older = request->older;
		free(request);
	}
	free(sync->round.words);
	free(sync->round.compared);
	free(sync->watch.pieces);
	taut_vec_free(&sync->tasks);
	pthread_cond_destroy(&sync->task_done);
	pthread_cond_destroy(&sync->any_done);
	pthread_cond_destroy(&sync->request_over);
	pthread_mutex_destroy(&sync->lock);
	tauti_origin_fini(&sync->origin);
	free(sync);
}

taut_status taut_sync_create(struct taut_comm *comm,
	const struct taut_sync_options *options, struct taut_sync **ret_sync,
	struct taut_error *reterr)
{
	struct taut_sync *sync;
	taut_status status;

	if (options->order != TAUT_SCHED_AGREED &&
		options->order != TAUT_SCHED_DECLARED)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "sync: order "
			"%d is none for collectives", (int)options->order);
	if (options->wire != TAUT_FLOAT32 && options->wire != TAUT_FLOAT16 &&
		options->wire != TAUT_BFLOAT16 && options->wire != TAUT_MXINT8)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "sync: nothing "
			"is summed as %s: float16, bfloat16, mxint8 or, as it "
			"is, float32", taut_type_name(options->wire));
	sync = calloc(1, sizeof *sync);
	if (!sync)
		return no_memory(reterr);
	sync->comm = comm;
	sync->options = *options;
	sync->rank = taut_comm_rank(comm);
	sync->n_ranks = taut_comm_size(comm);
	tauti_origin_init(&sync->origin);
	sync->first_ready = sync->last_ready = TAUT_NONE;
	sync->first_done = sync->last_done = TAUT_NONE;
	init_locks(sync);
	status = create_sched(sync, reterr);
	if (!status)
		status = create_twins(sync, reterr);
	if (!status)
		status = start_thread(sync, reterr);
	if (status) {
		free_all(sync);
		return status;
	}
	*ret_sync = sync;
	return TAUT_OK;
}

void taut_sync_destroy(struct taut_sync *sync)
{
	bool wake;

	if (!sync || tauti_origin_is_copy(&sync->origin))
		return;
	pthread_mutex_lock(&sync->lock);
	sync->quit = true;
	wake = sync->sleeping;
	pthread_mutex_unlock(&sync->lock);
	if (wake)
		taut_comm_wake(sync->comm);
	pthread_join(sync->thread, NULL);
	free_all(sync);
}

/* --- declaring ---------------------------------------------------------------------*/

static taut_status check_task(const struct taut_sync *sync,
	enum taut_type type, uint64_t count, double factor,
	struct taut_error *reterr)
{
	bool is_float = type == TAUT_FLOAT32 || type == TAUT_FLOAT64 ||
		type == TAUT_FLOAT16 || type == TAUT_BFLOAT16;

	if (sync->frozen || (unsigned)type >= TAUT_TYPES || !count ||
		count > INT64_MAX / 8 || sync->tasks.count >= TAUT_NONE / 2 - 1)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "sync: task "
			"%zu: a task has a type and elements, and is declared "
			"before the first is ready", sync->tasks.count);
	if (!is_float && factor != 0 && factor != 1)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "sync: task "
			"%zu of %s has the factor %g, which is for floats",
			sync->tasks.count, taut_type_name(type), factor);
	return TAUT_OK;
}

/* The scheduler tells nobody anything before the first ready, so that it may be
 * called under the lock. */
static taut_status declare(struct taut_sync *sync,
	const struct tauti_task_of_sync *task, struct taut_error *reterr)
{
	uint64_t bytes = taut_numbers_bytes(task->wire, task->count);
	uint32_t first, second;
	taut_status status;

	if (!taut_vec_reserve(&sync->tasks, 1))
		return no_memory(reterr);
	status = taut_sched_declare(sync->sched, bytes, task->priority,
		TAUT_NONE, &first, reterr);
	if (!status && sync->options.halves)
		status = taut_sched_declare(sync->sched, bytes, task->priority,
			first, &second, reterr);
	if (status)
		return status;
	sync->tasks.data[sync->tasks.count] = *task;
	sync->tasks.data[sync->tasks.count].group =
		(uint32_t)sync->tasks.count;
	sync->tasks.count++;
	return TAUT_OK;
}

taut_status taut_sync_declare(struct taut_sync *sync, enum taut_type type,
	uint64_t count, int64_t priority, double factor, uint32_t *ret_task,
	struct taut_error *reterr)
{
	struct tauti_task_of_sync task = { .type = type, .count = count,
		.wire = type == TAUT_FLOAT32 ? sync->options.wire : type,
		.priority = priority, .factor = factor, .n_group = 1,
		.next_ready = TAUT_NONE, .next_done = TAUT_NONE };
	taut_status status = tauti_sync_check_origin(sync, reterr);

	if (status)
		return status;
	pthread_mutex_lock(&sync->lock);
	status = check_task(sync, type, count, factor, reterr);
	if (sync->failed) {
		status = sync->failure.code;
		if (reterr)
			*reterr = sync->failure;
	}
	if (!status)
		status = declare(sync, &task, reterr);
	if (!status)
		*ret_task = (uint32_t)sync->tasks.count - 1;
	pthread_mutex_unlock(&sync->lock);
	return status;
}

/* With the lock. */
static taut_status join(struct taut_sync *sync, struct taut_error *reterr)
{
	struct tauti_task_of_sync *tasks;
	uint32_t last;
	taut_status status;

	if (sync->frozen || sync->options.halves)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "sync: tasks that "
			"go together are declared so before the first is ready, "
			"and not in halves");
	status = taut_sched_join(sync->sched, reterr);
	tasks = sync->tasks.data;
	last = (uint32_t)sync->tasks.count - 1;
	if (!status && tasks[last].group == last) {
		tasks[last].group = tasks[last - 1].group;
		tasks[tasks[last].group].n_group++;
	}
	return status;
}

taut_status taut_sync_join(struct taut_sync *sync, struct taut_error *reterr)
{
	taut_status status = tauti_sync_check_origin(sync, reterr);

	if (status)
		return status;
	status = tauti_sync_lock_live(sync, reterr);
	if (!status)
		status = join(sync, reterr);
	pthread_mutex_unlock(&sync->lock);
	return status;
}

/* --- counts ------------------------------------------------------------------------*/

void taut_sync_counts(
	struct taut_sync *sync, struct taut_sync_counts *ret_counts)
{
	if (tauti_sync_check_origin(sync, NULL)) {
		memset(ret_counts, 0, sizeof *ret_counts);
		return;
	}
	pthread_mutex_lock(&sync->lock);
	*ret_counts = sync->counts;
	if (sync->n_busy)
		ret_counts->busy_ns +=
			tauti_now_ns() - sync->busy_since_ns;
	pthread_mutex_unlock(&sync->lock);
	taut_sched_counts(sync->sched, &ret_counts->sched);
}
