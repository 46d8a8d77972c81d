/* runs.c - collectives of the job besides, that are begun and waited for later.
 *
 * A run that has ended well leaves nothing behind: what is not in the list, and has
 * a number that was given, is over. One that has not ended well stays, with its
 * line, until destroy. */
#include "sync/sync.h"

#include <inttypes.h>
#include <stdlib.h>

static struct tauti_request *create(struct taut_sync *sync,
	const struct taut_coll_call *call, struct taut_error *reterr)
{
	struct tauti_request *request = calloc(1, sizeof *request);

	if (!request) {
		taut_error_set(
			reterr, TAUT_ENOMEM, -1, "sync: out of memory");
		return NULL;
	}
	request->sync = sync;
	request->is_run = request->is_left = true;
	if (call)
		request->call = *call;
	else
		request->call = (struct taut_coll_call){
			.verb = TAUT_ALLREDUCE, .type = TAUT_UINT8,
			.reduction = TAUT_MAX, .output = &request->byte,
			.count = 1 };
	return request;
}

taut_status taut_sync_start(struct taut_sync *sync,
	const struct taut_coll_call *call, uint64_t *ret_run,
	struct taut_error *reterr)
{
	taut_status status = tauti_sync_check_origin(sync, reterr);
	struct tauti_request *request;

	if (status)
		return status;
	request = create(sync, call, reterr);
	if (!request)
		return TAUT_ENOMEM;
	status = tauti_sync_lock_live(sync, reterr);
	if (status) {
		pthread_mutex_unlock(&sync->lock);
		free(request);
		return status;
	}
	request->ticket = *ret_run = sync->n_tickets++;
	tauti_sync_hand_over(sync, request);
	return TAUT_OK;
}

static struct tauti_request *find(const struct taut_sync *sync, uint64_t run)
{
	struct tauti_request *request = sync->newest;

	while (request && (!request->is_left || request->ticket != run))
		request = request->older;
	return request;
}

/* With the lock. */
static taut_status outcome(const struct taut_sync *sync, uint64_t run,
	struct taut_error *reterr)
{
	const struct tauti_request *request = find(sync, run);
	const struct taut_error *why = &sync->failure;

	if (!request)
		return TAUT_OK;
	if (request->over)
		why = &request->err;
	else if (!sync->failed)
		return taut_error_set(reterr, TAUT_EAGAIN, -1,
			"sync: not done within the time");
	if (reterr)
		*reterr = *why;
	return why->code;
}

taut_status taut_sync_finish(struct taut_sync *sync, uint64_t run,
	int64_t timeout_ns, struct taut_error *reterr)
{
	struct tauti_limit limit = tauti_sync_limit(timeout_ns);
	taut_status status = tauti_sync_check_origin(sync, reterr);
	bool in_time = timeout_ns != 0;

	if (status)
		return status;
	pthread_mutex_lock(&sync->lock);
	if (run >= sync->n_tickets)
		status = taut_error_set(reterr, TAUT_EINVAL, -1,
			"sync: there is no run %" PRIu64, run);
	else
		status = outcome(sync, run, reterr);
	if (status == TAUT_EAGAIN) /* others may begin it behind the tasks */
		tauti_sync_tell_kept(sync);
	while (status == TAUT_EAGAIN && in_time) {
		in_time = tauti_sync_sleep_until(
			sync, &sync->request_over, &limit);
		status = outcome(sync, run, reterr);
	}
	pthread_mutex_unlock(&sync->lock);
	return status;
}
