/* worker.c - what a worker's callers ask for; see worker.h. */
#include "server/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static const int64_t default_lost_after_ns = 10000000000;
static const uint64_t default_part_bytes = 256 << 10;

void tauti_worker_wake(struct taut_server_worker *worker)
{
	uint64_t one = 1;

	(void)!write(worker->wake_fd, &one, sizeof one);
}

void tauti_worker_fail(struct taut_server_worker *worker,
	const struct taut_error *why)
{
	pthread_mutex_lock(&worker->mutex);
	if (!worker->fault.code)
		worker->fault = *why;
	pthread_cond_broadcast(&worker->done);
	pthread_mutex_unlock(&worker->mutex);
}

static taut_status fault_of(
	const struct taut_server_worker *worker, struct taut_error *reterr)
{
	if (worker->fault.code && reterr)
		*reterr = worker->fault;
	return worker->fault.code;
}

/* The thread is not in a child, and the mutex may be locked there for ever. */
static taut_status forked(
	const struct taut_server_worker *worker, struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_EIO, -1, "worker %" PRIu32 ": this "
		"process was forked from the one that joined, and has no part "
		"in it", worker->worker);
}

taut_status tauti_worker_fault(
	struct taut_server_worker *worker, struct taut_error *reterr)
{
	taut_status status;

	pthread_mutex_lock(&worker->mutex);
	status = fault_of(worker, reterr);
	pthread_mutex_unlock(&worker->mutex);
	return status;
}

/* --- join and leave ------------------------------------------------------------------------- */

static taut_status begin(struct taut_server_worker *worker,
	const struct taut_server_worker_options *options,
	struct taut_error *reterr)
{
	taut_status status = tauti_worker_connect(worker, options, reterr);
	sigset_t all, before;
	int error;

	if (status)
		return status;
	/* Signals are for the threads of the program that this library is in. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(
		&worker->thread, NULL, tauti_worker_loop, worker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	worker->has_thread = !error;
	return error ? taut_error_set(reterr, TAUT_EIO, -1,
		"worker: no thread: %s", strerror(error)) : TAUT_OK;
}

static struct taut_server_worker *make(
	const struct taut_server_worker_options *options)
{
	struct taut_server_worker *worker = calloc(1, sizeof *worker);
	pthread_condattr_t attr;

	if (!worker)
		return NULL;
	worker->worker = options->worker;
	worker->n_workers = options->n_workers ? options->n_workers : 1;
	worker->part_bytes = options->part_bytes ? options->part_bytes :
		default_part_bytes;
	worker->credit_bytes = options->credit_bytes;
	worker->mode = options->mode;
	worker->lost_after_ns = options->lost_after_ns ?
		options->lost_after_ns : default_lost_after_ns;
	worker->beat_every_ns = worker->lost_after_ns / 4;
	tauti_origin_init(&worker->origin);
	worker->ended_at = &worker->ended;
	worker->may_go_at = &worker->may_go;
	worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&worker->mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&worker->done, &attr);
	pthread_condattr_destroy(&attr);
	return worker;
}

taut_status taut_server_join(const struct taut_server_worker_options *options,
	struct taut_server_worker **ret_worker, struct taut_error *reterr)
{
	struct taut_server_worker *worker = make(options);
	taut_status status = TAUT_OK;

	if (!worker)
		return taut_error_set(
			reterr, TAUT_ENOMEM, -1, "worker: out of memory");
	if (worker->worker >= worker->n_workers || options->lost_after_ns < 0 ||
		options->meet_within_ns < 0)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "worker %"
			PRIu32 " of %" PRIu32 ": expected one below their "
			"number, and times that are not below 0",
			worker->worker, worker->n_workers);
	else if (worker->wake_fd < 0)
		status = taut_error_set(reterr, TAUT_EIO, -1,
			"worker: no eventfd: %s", strerror(errno));
	if (!status)
		status = begin(worker, options, reterr);
	if (status) {
		taut_server_leave(worker);
		return status;
	}
	*ret_worker = worker;
	return TAUT_OK;
}

void taut_server_leave(struct taut_server_worker *worker)
{
	if (!worker || tauti_origin_is_copy(&worker->origin))
		return;
	pthread_mutex_lock(&worker->mutex);
	worker->leaves = true;
	pthread_mutex_unlock(&worker->mutex);
	if (worker->has_thread) {
		tauti_worker_wake(worker);
		pthread_join(worker->thread, NULL);
	}
	tauti_worker_disconnect(worker);
	taut_sched_destroy(worker->sched);
	for (size_t i = 0; i < worker->n_keys; i++)
		free((char *)worker->keys[i].key.name);
	free(worker->keys);
	free(worker->trips);
	free(worker->queue);
	free(worker->finished);
	if (worker->wake_fd >= 0)
		close(worker->wake_fd);
	pthread_cond_destroy(&worker->done);
	pthread_mutex_destroy(&worker->mutex);
	tauti_origin_fini(&worker->origin);
	free(worker);
}

void taut_server_fail(struct taut_server_worker *worker, taut_status status,
	const char *why)
{
	if (tauti_origin_is_copy(&worker->origin))
		return;
	pthread_mutex_lock(&worker->mutex);
	if (!worker->fault.code) {
		taut_error_set(&worker->own, status ? status : TAUT_EIO, -1,
			"%.300s", why);
		worker->fault = worker->own;
	}
	pthread_cond_broadcast(&worker->done);
	pthread_mutex_unlock(&worker->mutex);
	tauti_worker_wake(worker);
}

/* --- keys --------------------------------------------------------------------------------------- */

static taut_status check_key(const struct taut_server_key *key, double factor,
	struct taut_error *reterr)
{
	if (!key->name || !key->count || (unsigned)key->type >= TAUT_TYPES)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "key '%.200s': "
			"expected a name, a type and at least 1 element",
			key->name ? key->name : "");
	if (factor < 0 || factor > 0)
		if (!(factor >= 1 && factor <= 1) && !tauti_scales(key->type))
			return taut_error_set(reterr, TAUT_EINVAL, -1, "key "
				"'%.200s': %s has no factor", key->name,
				taut_type_name(key->type));
	return TAUT_OK;
}

static taut_status add_key(struct taut_server_worker *worker,
	const struct tauti_worker_key *key, struct taut_error *reterr)
{
	size_t room = worker->keys_room ? 2 * worker->keys_room : 16;
	struct tauti_worker_key *keys = worker->keys;
	char *name = strdup(key->key.name);

	if (name && worker->n_keys == worker->keys_room) {
		keys = realloc(keys, room * sizeof *keys);
		if (keys) {
			worker->keys = keys;
			worker->keys_room = room;
		}
	}
	if (!name || !keys) {
		free(name);
		return taut_error_set(
			reterr, TAUT_ENOMEM, -1, "worker: out of memory");
	}
	keys[worker->n_keys] = *key;
	keys[worker->n_keys++].key.name = name;
	return TAUT_OK;
}

taut_status taut_server_declare(struct taut_server_worker *worker,
	const struct taut_server_key *key, int64_t priority, double factor,
	uint32_t *ret_key, struct taut_error *reterr)
{
	const struct tauti_worker_key added = { .key = *key,
		.priority = priority, .factor = factor };
	taut_status status;

	if (tauti_origin_is_copy(&worker->origin))
		return forked(worker, reterr);
	pthread_mutex_lock(&worker->mutex);
	status = fault_of(worker, reterr);
	if (!status)
		status = worker->is_open ? taut_error_set(reterr, TAUT_EINVAL,
			-1, "key '%.200s' comes after the first start", key->name) :
			check_key(key, factor, reterr);
	if (!status)
		status = add_key(worker, &added, reterr);
	if (!status)
		*ret_key = (uint32_t)worker->n_keys - 1;
	pthread_mutex_unlock(&worker->mutex);
	return status;
}

/* Where the parts of a key begin: they stand together. */
static uint32_t first_part(const struct taut_server_worker *worker, uint32_t key)
{
	uint32_t part = 0;

	while (worker->trips[part].place.key != key)
		part += worker->keys[worker->trips[part].place.key].n_parts;
	return part;
}

/* The lock is held. TAUT_OK: nothing is under way. */
static taut_status check_idle(const struct taut_server_worker *worker,
	const char *what, struct taut_error *reterr)
{
	taut_status status = fault_of(worker, reterr);

	if (!status && worker->n_busy)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "%s changes "
			"between rounds, but %" PRIu32 " keys are under way",
			what, worker->n_busy);
	return status;
}

/* Before there are tasks the key alone has it. */
static taut_status prioritize(struct taut_server_worker *worker, uint32_t i,
	int64_t priority, struct taut_error *reterr)
{
	uint32_t first = 2 * (worker->is_open ? first_part(worker, i) : 0);
	taut_status status = TAUT_OK;

	worker->keys[i].priority = priority;
	for (uint32_t k = 0; k < 2 * worker->keys[i].n_parts && !status; k++)
		status = taut_sched_prioritize(
			worker->sched, first + k, priority, reterr);
	return status;
}

taut_status taut_server_prioritize(struct taut_server_worker *worker,
	uint32_t key, int64_t priority, struct taut_error *reterr)
{
	taut_status status;

	if (tauti_origin_is_copy(&worker->origin))
		return forked(worker, reterr);
	pthread_mutex_lock(&worker->mutex);
	status = check_idle(worker, "a priority", reterr);
	if (!status && key >= worker->n_keys)
		status = taut_error_set(
			reterr, TAUT_EINVAL, -1, "no key %" PRIu32, key);
	if (!status)
		status = prioritize(worker, key, priority, reterr);
	pthread_mutex_unlock(&worker->mutex);
	return status;
}

taut_status taut_server_tune(struct taut_server_worker *worker,
	uint64_t credit_bytes, struct taut_error *reterr)
{
	taut_status status;

	if (tauti_origin_is_copy(&worker->origin))
		return forked(worker, reterr);
	pthread_mutex_lock(&worker->mutex);
	status = check_idle(worker, "the credit", reterr);
	if (!status)
		worker->credit_bytes = credit_bytes;
	if (!status && worker->is_open)
		status = taut_sched_tune(worker->sched, 0,
			tauti_worker_credit(worker), 0, reterr);
	pthread_mutex_unlock(&worker->mutex);
	return status;
}

enum taut_server_mode taut_server_mode_of(
	const struct taut_server_worker *worker)
{
	return worker->mode;
}

/* --- start ---------------------------------------------------------------------------------------- */

/* The scheduler's engine: any thread, no lock held. */
static taut_status start_part(void *context,
	const struct taut_sched_piece *pieces, size_t n, struct taut_error *err)
{
	struct taut_server_worker *worker = context;

	(void)err;
	pthread_mutex_lock(&worker->mutex);
	for (size_t i = 0; i < n; i++)
		worker->queue[(worker->queue_from + worker->queue_count++) %
			(2 * worker->n_trips)] = pieces[i];
	pthread_mutex_unlock(&worker->mutex);
	tauti_worker_wake(worker);
	return TAUT_OK;
}

static void key_done(struct taut_server_worker *worker, uint32_t i)
{
	struct tauti_worker_key *key = &worker->keys[i];

	worker->n_busy--;
	if (!key->is_queued) {
		key->is_queued = true;
		worker->finished[(worker->finished_from +
			worker->finished_count++) % worker->n_keys] = i;
	}
	pthread_cond_broadcast(&worker->done);
}

static void task_done(void *context, uint32_t task, uint32_t iteration,
	taut_status status)
{
	struct taut_server_worker *worker = context;
	uint32_t i = worker->trips[task / 2].place.key;

	(void)iteration;
	if (status || task % 2 == 0) /* its pull comes */
		return;
	pthread_mutex_lock(&worker->mutex);
	if (!--worker->keys[i].n_left)
		key_done(worker, i);
	pthread_mutex_unlock(&worker->mutex);
}

const struct taut_sched_engine tauti_worker_sched_engine = {
	.start = start_part, .done = task_done };

static taut_status take(struct taut_server_worker *worker, uint32_t i,
	enum taut_server_verb verb, void *data, struct taut_error *reterr)
{
	struct tauti_worker_key *key = &worker->keys[i];

	if (i >= worker->n_keys || (unsigned)verb > TAUT_SERVER_FIRST)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"no key %" PRIu32 ", or nothing that is done with it", i);
	if (!data && !key->data)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"key '%.200s' has no data", key->key.name);
	if (key->n_left)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"key '%.200s' is under way", key->key.name);
	if (key->is_pushed && verb != TAUT_SERVER_PULL)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "key '%.200s' "
			"was pushed: pull first", key->key.name);
	if (data)
		key->data = data;
	key->verb = verb;
	key->is_pushed = verb == TAUT_SERVER_PUSH;
	key->n_left = key->n_parts;
	key->contributors = TAUT_NONE;
	worker->n_busy++;
	return TAUT_OK;
}

/* All tasks of the scheduler, once; no lock held, for it calls back. */
static taut_status ready(struct taut_server_worker *worker, uint32_t key,
	struct taut_error *reterr)
{
	uint32_t first = first_part(worker, key);
	uint32_t n = worker->keys[key].n_parts;
	struct taut_error why;
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < n && !status; i++)
		status = taut_sched_ready(
			worker->sched, 2 * (first + i), &why);
	if (!status)
		return TAUT_OK;
	tauti_worker_fail(worker, &why);
	tauti_worker_wake(worker);
	if (reterr)
		*reterr = why;
	return status;
}

taut_status taut_server_start(struct taut_server_worker *worker, uint32_t key,
	enum taut_server_verb verb, void *data, struct taut_error *reterr)
{
	taut_status status;

	if (tauti_origin_is_copy(&worker->origin))
		return forked(worker, reterr);
	pthread_mutex_lock(&worker->mutex);
	status = fault_of(worker, reterr);
	if (!status && !worker->is_open)
		status = tauti_worker_open(worker, reterr);
	if (!status)
		status = take(worker, key, verb, data, reterr);
	pthread_mutex_unlock(&worker->mutex);
	return status ? status : ready(worker, key, reterr);
}

/* --- wait ------------------------------------------------------------------------------------------ */

static struct timespec until(int64_t timeout_ns)
{
	int64_t now_ns = tauti_now_ns();
	int64_t at_ns = timeout_ns > INT64_MAX - now_ns ? INT64_MAX :
		now_ns + timeout_ns;

	return (struct timespec){ at_ns / 1000000000, at_ns % 1000000000 };
}

/* The lock is held. False: the time is over. */
static bool wait_some(struct taut_server_worker *worker, int64_t timeout_ns,
	const struct timespec *at)
{
	if (timeout_ns < 0)
		return pthread_cond_wait(&worker->done, &worker->mutex) == 0;
	return timeout_ns > 0 && pthread_cond_timedwait(
		&worker->done, &worker->mutex, at) == 0;
}

static bool is_done(const struct taut_server_worker *worker, uint32_t key)
{
	return key == TAUT_NONE ? !worker->n_busy : !worker->keys[key].n_left;
}

taut_status taut_server_wait(struct taut_server_worker *worker, uint32_t key,
	int64_t timeout_ns, struct taut_error *reterr)
{
	int64_t from_ns = tauti_now_ns();
	struct timespec at = until(timeout_ns > 0 ? timeout_ns : 0);
	taut_status status = TAUT_OK;

	if (tauti_origin_is_copy(&worker->origin))
		return forked(worker, reterr);
	pthread_mutex_lock(&worker->mutex);
	if (key != TAUT_NONE && key >= worker->n_keys)
		status = taut_error_set(
			reterr, TAUT_EINVAL, -1, "no key %" PRIu32, key);
	while (!status && !(status = fault_of(worker, reterr)) &&
		!is_done(worker, key))
		if (!wait_some(worker, timeout_ns, &at) && !is_done(worker, key))
			status = taut_error_set(reterr, TAUT_EAGAIN, -1,
				"not done in time");
	worker->counts.waited_ns += tauti_now_ns() - from_ns;
	pthread_mutex_unlock(&worker->mutex);
	return status;
}

taut_status taut_server_next(struct taut_server_worker *worker,
	int64_t timeout_ns, uint32_t *ret_key, struct taut_error *reterr)
{
	struct timespec at = until(timeout_ns > 0 ? timeout_ns : 0);
	taut_status status = TAUT_OK;

	if (tauti_origin_is_copy(&worker->origin))
		return forked(worker, reterr);
	pthread_mutex_lock(&worker->mutex);
	while (!status && !worker->finished_count &&
		!(status = fault_of(worker, reterr)))
		if (!wait_some(worker, timeout_ns, &at) &&
			!worker->finished_count)
			status = taut_error_set(reterr, TAUT_EAGAIN, -1,
				"nothing is done in time");
	if (!status) {
		*ret_key = worker->finished[worker->finished_from];
		worker->keys[*ret_key].is_queued = false;
		worker->finished_from = (worker->finished_from + 1) %
			worker->n_keys;
		worker->finished_count--;
	}
	pthread_mutex_unlock(&worker->mutex);
	return status;
}

uint32_t taut_server_contributors(struct taut_server_worker *worker, uint32_t key)
{
	uint32_t n;

	if (tauti_origin_is_copy(&worker->origin))
		return 0;
	pthread_mutex_lock(&worker->mutex);
	n = key < worker->n_keys ? worker->keys[key].contributors : TAUT_NONE;
	pthread_mutex_unlock(&worker->mutex);
	return n == TAUT_NONE ? 0 : n;
}

void taut_server_worker_counts(struct taut_server_worker *worker,
	struct taut_server_worker_counts *ret_counts)
{
	*ret_counts = (struct taut_server_worker_counts){ .sleeps = 0 };
	if (tauti_origin_is_copy(&worker->origin))
		return;
	pthread_mutex_lock(&worker->mutex);
	*ret_counts = worker->counts;
	if (worker->is_open)
		taut_sched_counts(worker->sched, &ret_counts->sched);
	pthread_mutex_unlock(&worker->mutex);
}
