/* wait.c - callers: what they hand over to the thread, and what they wait for. */
#include "sync/sync.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/* --- the lock ------------------------------------------------------------------------*/

taut_status tauti_sync_lock_live(
	struct taut_sync *sync, struct taut_error *reterr)
{
	pthread_mutex_lock(&sync->lock);
	if (!sync->failed)
		return TAUT_OK;
	if (reterr)
		*reterr = sync->failure;
	return sync->failure.code;
}

/* There is something for the thread. True: it sleeps and nobody has woken it, so that
 * the caller does: once for all that is handed over until it looks. */
static bool note_news(struct taut_sync *sync)
{
	bool wake = sync->sleeping;

	sync->news = true;
	sync->sleeping = false;
	sync->counts.wakes += wake;
	return wake;
}

static void unlock_with_news(struct taut_sync *sync)
{
	bool wake = note_news(sync);

	pthread_mutex_unlock(&sync->lock);
	if (wake)
		taut_comm_wake(sync->comm);
}

void tauti_sync_tell_kept(struct taut_sync *sync)
{
	if (sync->keeps && !sync->news && note_news(sync))
		taut_comm_wake(sync->comm);
}

struct tauti_limit tauti_sync_limit(int64_t timeout_ns)
{
	const int64_t second_ns = 1000000000;
	int64_t now_ns = tauti_now_ns(), at_ns;

	if (timeout_ns < 0 || timeout_ns > INT64_MAX - now_ns)
		return (struct tauti_limit){ .endless = true };
	at_ns = now_ns + timeout_ns;
	return (struct tauti_limit){ .at = { .tv_sec = at_ns / second_ns,
		.tv_nsec = at_ns % second_ns } };
}

bool tauti_sync_sleep_until(struct taut_sync *sync, pthread_cond_t *condition,
	const struct tauti_limit *limit)
{
	if (!limit->endless)
		return pthread_cond_timedwait(condition, &sync->lock,
			&limit->at) != ETIMEDOUT;
	pthread_cond_wait(condition, &sync->lock);
	return true;
}

/* --- ready -------------------------------------------------------------------------*/

/* What a caller makes ready of a task. */
struct given {
	void *data;
	uint64_t part; /* 0: all of it */
};

static taut_status check_ready(const struct taut_sync *sync, uint32_t task,
	const struct given *given, struct taut_error *reterr)
{
	const void *data = given->data;
	const struct tauti_task_of_sync *it;

	if (task >= sync->tasks.count)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"sync: there is no task %" PRIu32, task);
	it = &sync->tasks.data[task];
	if (it->open)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "sync: task "
			"%" PRIu32 " is ready, but what was made ready of it "
			"before is not done", task);
	if (!data && !it->data)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "sync: task "
			"%" PRIu32 " is ready, but nobody said where", task);
	if ((uintptr_t)data % taut_type_bytes(it->type))
		return taut_error_set(reterr, TAUT_EINVAL, -1, "sync: task "
			"%" PRIu32 " is not aligned for %s", task,
			taut_type_name(it->type));
	if (given->part > it->count || (given->part && sync->options.halves))
		return taut_error_set(reterr, TAUT_EINVAL, -1, "sync: task "
			"%" PRIu32 " is ready with %" PRIu64 " elements: of its "
			"%" PRIu64 " some are, where nothing goes in halves",
			task, given->part, it->count);
	return TAUT_OK;
}

/* Is this something that the thread can do something with? Not before all of a group
 * are there: then it is woken once for all of them. */
static bool make_ready(
	struct taut_sync *sync, uint32_t task, const struct given *given)
{
	struct tauti_task_of_sync *it = &sync->tasks.data[task];
	struct tauti_task_of_sync *group = &sync->tasks.data[it->group];

	sync->frozen = true;
	it->data = given->data ? given->data : it->data;
	it->part = given->part;
	it->open = true;
	sync->n_open++;
	it->next_ready = TAUT_NONE;
	if (sync->first_ready == TAUT_NONE)
		sync->first_ready = task;
	else
		sync->tasks.data[sync->last_ready].next_ready = task;
	sync->last_ready = task;
	if (++group->n_handed < group->n_group)
		return false;
	group->n_handed = 0;
	return true;
}

static taut_status hand_over(struct taut_sync *sync, uint32_t task,
	struct given given, bool wakes, struct taut_error *reterr)
{
	taut_status status = tauti_sync_check_origin(sync, reterr);

	if (status)
		return status;
	status = tauti_sync_lock_live(sync, reterr);
	if (!status)
		status = check_ready(sync, task, &given, reterr);
	if (status) {
		pthread_mutex_unlock(&sync->lock);
		return status;
	}
	if (!make_ready(sync, task, &given)) {
		pthread_mutex_unlock(&sync->lock);
	} else if (wakes || sync->n_all_waiters || sync->n_next_waiters) {
		unlock_with_news(sync);
	} else {
		sync->keeps = true;
		pthread_mutex_unlock(&sync->lock);
	}
	return TAUT_OK;
}

taut_status taut_sync_ready(struct taut_sync *sync, uint32_t task, void *data,
	struct taut_error *reterr)
{
	return hand_over(sync, task, (struct given){ data, 0 }, true, reterr);
}

taut_status taut_sync_ready_more(struct taut_sync *sync, uint32_t task,
	void *data, struct taut_error *reterr)
{
	return hand_over(sync, task, (struct given){ data, 0 }, false, reterr);
}

taut_status taut_sync_ready_part(struct taut_sync *sync, uint32_t task,
	void *data, uint64_t count, struct taut_error *reterr)
{
	if (!count)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "sync: task "
			"%" PRIu32 " is ready, but no element of it", task);
	return hand_over(
		sync, task, (struct given){ data, count }, true, reterr);
}

/* --- done --------------------------------------------------------------------------*/

static void queue_done(struct taut_sync *sync, uint32_t task)
{
	struct tauti_task_of_sync *it = &sync->tasks.data[task];

	if (it->queued)
		return;
	it->queued = true;
	it->next_done = TAUT_NONE;
	if (sync->first_done == TAUT_NONE)
		sync->first_done = task;
	else
		sync->tasks.data[sync->last_done].next_done = task;
	sync->last_done = task;
}

void tauti_sync_told(struct taut_sync *sync, uint32_t task)
{
	struct tauti_task_of_sync *it;

	pthread_mutex_lock(&sync->lock);
	it = &sync->tasks.data[task];
	it->open = false;
	sync->n_open--;
	queue_done(sync, task);
	if (it->n_waiters || (!sync->n_open && sync->n_all_waiters))
		pthread_cond_broadcast(&sync->task_done);
	if (sync->n_next_waiters)
		pthread_cond_signal(&sync->any_done);
	pthread_mutex_unlock(&sync->lock);
}

static bool is_under_way(const struct taut_sync *sync, uint32_t task)
{
	return task == TAUT_NONE ? sync->n_open > 0
				 : sync->tasks.data[task].open;
}

/* Until the task is done, or all has failed. False: the time is over. */
static bool await_task(
	struct taut_sync *sync, uint32_t task, int64_t timeout_ns)
{
	struct tauti_limit limit = tauti_sync_limit(timeout_ns);
	int64_t begin_ns = tauti_now_ns();
	uint32_t *n_waiters = task == TAUT_NONE
		? &sync->n_all_waiters : &sync->tasks.data[task].n_waiters;
	bool in_time = true;

	tauti_sync_tell_kept(sync);
	++*n_waiters;
	while (in_time && !sync->failed && is_under_way(sync, task))
		in_time = tauti_sync_sleep_until(sync, &sync->task_done, &limit);
	--*n_waiters;
	sync->counts.waited_ns += tauti_now_ns() - begin_ns;
	return in_time || sync->failed || !is_under_way(sync, task);
}

taut_status taut_sync_wait(struct taut_sync *sync, uint32_t task,
	int64_t timeout_ns, struct taut_error *reterr)
{
	taut_status status = tauti_sync_check_origin(sync, reterr);

	if (status)
		return status;
	status = tauti_sync_lock_live(sync, reterr);
	if (!status && task != TAUT_NONE && task >= sync->tasks.count)
		status = taut_error_set(reterr, TAUT_EINVAL, -1,
			"sync: there is no task %" PRIu32, task);
	if (!status && is_under_way(sync, task) &&
		!await_task(sync, task, timeout_ns))
		status = taut_error_set(reterr, TAUT_EAGAIN, -1,
			"sync: not done within the time");
	if (!status && sync->failed) {
		status = sync->failure.code;
		if (reterr)
			*reterr = sync->failure;
	}
	pthread_mutex_unlock(&sync->lock);
	return status;
}

static taut_status take_done(
	struct taut_sync *sync, uint32_t *ret_task, struct taut_error *reterr)
{
	uint32_t task = sync->first_done;

	if (sync->failed) {
		if (reterr)
			*reterr = sync->failure;
		return sync->failure.code;
	}
	if (task == TAUT_NONE)
		return taut_error_set(reterr, TAUT_EAGAIN, -1,
			"sync: no task is done within the time");
	sync->first_done = sync->tasks.data[task].next_done;
	sync->tasks.data[task].queued = false;
	*ret_task = task;
	return TAUT_OK;
}

taut_status taut_sync_next(struct taut_sync *sync, int64_t timeout_ns,
	uint32_t *ret_task, struct taut_error *reterr)
{
	struct tauti_limit limit = tauti_sync_limit(timeout_ns);
	taut_status status = tauti_sync_check_origin(sync, reterr);
	bool in_time = true;

	if (status)
		return status;
	pthread_mutex_lock(&sync->lock);
	tauti_sync_tell_kept(sync);
	sync->n_next_waiters++;
	while (in_time && !sync->failed && sync->first_done == TAUT_NONE)
		in_time = tauti_sync_sleep_until(sync, &sync->any_done, &limit);
	sync->n_next_waiters--;
	status = take_done(sync, ret_task, reterr);
	pthread_mutex_unlock(&sync->lock);
	return status;
}

/* --- requests ----------------------------------------------------------------------*/

static void list_request(struct taut_sync *sync, struct tauti_request *request)
{
	request->older = sync->newest;
	if (sync->newest)
		sync->newest->newer = request;
	sync->newest = request;
	if (sync->last_request)
		sync->last_request->next = request;
	else
		sync->first_request = request;
	sync->last_request = request;
}

static void unlist_request(
	struct taut_sync *sync, struct tauti_request *request)
{
	if (request->newer)
		request->newer->older = request->older;
	else
		sync->newest = request->older;
	if (request->older)
		request->older->newer = request->newer;
}

void tauti_sync_hand_over(
	struct taut_sync *sync, struct tauti_request *request)
{
	sync->n_open_runs += request->is_run;
	list_request(sync, request);
	unlock_with_news(sync);
}

/* With the lock; gives it back. */
static taut_status ask(struct taut_sync *sync, struct tauti_request *request,
	struct taut_error *reterr)
{
	taut_status status;

	tauti_sync_hand_over(sync, request);
	pthread_mutex_lock(&sync->lock);
	while (!request->over && !sync->failed)
		pthread_cond_wait(&sync->request_over, &sync->lock);
	status = request->over ? request->err.code : sync->failure.code;
	if (status && reterr)
		*reterr = request->over ? request->err : sync->failure;
	if (request->over) {
		unlist_request(sync, request);
		free(request);
	}
	pthread_mutex_unlock(&sync->lock);
	return status;
}

static taut_status submit(struct taut_sync *sync,
	const struct tauti_request *what, struct taut_error *reterr)
{
	taut_status status = tauti_sync_check_origin(sync, reterr);
	struct tauti_request *request;

	if (status)
		return status;
	request = malloc(sizeof *request);
	if (!request)
		return taut_error_set(
			reterr, TAUT_ENOMEM, -1, "sync: out of memory");
	*request = *what;
	request->sync = sync;
	status = tauti_sync_lock_live(sync, reterr);
	if (!status && !what->is_run && sync->n_open)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "sync: limits "
			"change between iterations, but %" PRIu32
			" tasks are not done", sync->n_open);
	if (!status)
		return ask(sync, request, reterr);
	pthread_mutex_unlock(&sync->lock);
	free(request);
	return status;
}

taut_status taut_sync_tune(struct taut_sync *sync, uint64_t piece_bytes,
	uint64_t credit_bytes, uint64_t fuse_bytes, struct taut_error *reterr)
{
	struct tauti_request what = { .piece_bytes = piece_bytes,
		.credit_bytes = credit_bytes, .fuse_bytes = fuse_bytes };

	return submit(sync, &what, reterr);
}

static bool may_carry(const struct taut_sync *sync, enum taut_coll_way way)
{
	return way == TAUT_WAY_AUTO || (taut_coll_has(TAUT_ALLREDUCE, way) &&
		(!sync->options.ordered || way == TAUT_WAY_DIRECT ||
		way == TAUT_WAY_FLAT));
}

taut_status taut_sync_carry(struct taut_sync *sync, enum taut_coll_way way,
	uint64_t pass_bytes, uint32_t passes_at_once,
	struct taut_error *reterr)
{
	taut_status status = tauti_sync_check_origin(sync, reterr);

	if (status)
		return status;
	status = tauti_sync_lock_live(sync, reterr);
	if (!status && sync->n_open)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "sync: ways "
			"change between iterations, but %" PRIu32
			" tasks are not done", sync->n_open);
	if (!status && ((unsigned)way >= TAUT_WAYS || !may_carry(sync, way)))
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "sync: these "
			"sums have no way %d", (int)way);
	if (!status)
		sync->new_carry = (struct tauti_carry){ way, pass_bytes,
			passes_at_once, sync->new_carry.n_changes + 1 };
	pthread_mutex_unlock(&sync->lock);
	return status;
}

taut_status taut_sync_run(struct taut_sync *sync,
	const struct taut_coll_call *call, struct taut_error *reterr)
{
	struct tauti_request what = { .is_run = true, .call = *call };

	return submit(sync, &what, reterr);
}

void tauti_sync_answer(struct taut_sync *sync, struct tauti_request *request,
	taut_status status, const struct taut_error *why)
{
	pthread_mutex_lock(&sync->lock);
	if (status)
		request->err = *why;
	request->err.code = status;
	request->over = true;
	sync->n_open_runs -= request->is_run;
	if (request->is_left && !status) {
		unlist_request(sync, request);
		free(request);
	}
	pthread_cond_broadcast(&sync->request_over);
	pthread_mutex_unlock(&sync->lock);
}

/* --- failing -----------------------------------------------------------------------*/

/* With the lock. The first counts. */
static void end(struct taut_sync *sync, const struct taut_error *why)
{
	if (!sync->failed)
		sync->failure = *why;
	sync->failed = true;
	pthread_cond_broadcast(&sync->task_done);
	pthread_cond_broadcast(&sync->any_done);
	pthread_cond_broadcast(&sync->request_over);
}

void tauti_sync_end(struct taut_sync *sync, const struct taut_error *why)
{
	pthread_mutex_lock(&sync->lock);
	end(sync, why);
	pthread_mutex_unlock(&sync->lock);
}

/* One that ends all: TAUT_EAGAIN does not, and others do not know what else there is. */
static bool is_failure(taut_status status)
{
	return status <= TAUT_ENOMEM && status >= TAUT_EMATCH;
}

/* Callers have it at once; the thread tells the other ranks. */
void taut_sync_fail(
	struct taut_sync *sync, taut_status status, const char *why)
{
	struct taut_error err;

	if (tauti_sync_check_origin(sync, NULL))
		return;
	taut_error_set(
		&err, is_failure(status) ? status : TAUT_EIO, -1, "%s", why);
	pthread_mutex_lock(&sync->lock);
	end(sync, &err);
	sync->give_up = true;
	unlock_with_news(sync);
}
