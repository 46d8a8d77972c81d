/* loop.c - the thread: everything that moves.
 *
 * It goes through the parts below until none of them found anything to do, and
 * then sleeps in the communicator, which a message wakes, or a caller. */
#include "sync/sync.h"

#include <fenv.h>

static const int64_t IDLE_NS = 1000000000;

/* --- what callers handed over ------------------------------------------------------*/

struct inbox {
	uint32_t ready; /* first of a list */
	struct tauti_request *requests;
	bool give_up;
};

/* What is ready stays until ranks are known to have declared the same. */
static struct inbox look(struct taut_sync *sync, bool *ret_match)
{
	struct inbox inbox = { .ready = TAUT_NONE };

	pthread_mutex_lock(&sync->lock);
	tauti_round_tuned(
		sync, sync->new_carry.n_changes - sync->carry.n_changes);
	sync->carry = sync->new_carry;
	sync->news = sync->keeps = false;
	sync->quitting = sync->quit;
	inbox.requests = sync->first_request;
	sync->first_request = sync->last_request = NULL;
	inbox.give_up = sync->give_up;
	*ret_match = (sync->frozen &&
		sync->round.match == TAUTI_MATCH_NOT_ASKED) ||
		(sync->round.match == TAUTI_MATCH_TUNED &&
			sync->first_ready != TAUT_NONE &&
			!sync->round.wants_limits);
	if (sync->round.match == TAUTI_MATCHED) {
		inbox.ready = sync->first_ready;
		sync->first_ready = sync->last_ready = TAUT_NONE;
	}
	pthread_mutex_unlock(&sync->lock);
	return inbox;
}

/* The next one is read before the call, for in it the task may be done, and made
 * ready again. */
static taut_status pass_ready(
	struct taut_sync *sync, uint32_t task, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	while (task != TAUT_NONE && !status) {
		const struct tauti_task_of_sync *it = &sync->tasks.data[task];
		uint32_t next = it->next_ready;

		if (it->part)
			status = taut_sched_ready_part(sync->sched, task,
				taut_numbers_bytes(it->wire, it->part), err);
		else
			status = taut_sched_ready(sync->sched,
				sync->options.halves ? 2 * task : task, err);
		task = next;
	}
	return status;
}

static void run_over(void *context, taut_status status)
{
	struct tauti_request *request = context;
	struct taut_sync *sync = request->sync;

	request->status = status;
	request->next_ended = sync->ended_runs;
	sync->ended_runs = request;
}

/* A call that there is not is the caller's business alone. */
static taut_status begin_run(struct taut_sync *sync,
	struct tauti_request *request, struct taut_error *err)
{
	struct taut_error why = { .offset = -1 };
	taut_status status;

	request->number = sync->n_runs;
	status = taut_comm_start(
		sync->runs, &request->call, run_over, request, &why);
	if (!status) {
		sync->n_runs++;
		return TAUT_OK;
	}
	tauti_sync_answer(sync, request, status, &why);
	if (status == TAUT_EINVAL)
		return TAUT_OK;
	*err = why;
	return status;
}

static void tune(struct taut_sync *sync, struct tauti_request *request)
{
	struct taut_error why = { .offset = -1 };
	taut_status status = taut_sched_tune(sync->sched, request->piece_bytes,
		request->credit_bytes, request->fuse_bytes, &why);

	if (!status) { /* for ranks to compare */
		sync->options.piece_bytes = request->piece_bytes;
		sync->options.credit_bytes = request->credit_bytes;
		sync->options.fuse_bytes = request->fuse_bytes;
		tauti_round_tuned(sync, 1);
	}
	tauti_sync_answer(sync, request, status, &why);
}

static taut_status pass_requests(struct taut_sync *sync,
	struct tauti_request *request, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	while (request && !status) {
		struct tauti_request *next = request->next;

		if (request->is_run)
			status = begin_run(sync, request, err);
		else
			tune(sync, request);
		request = next;
	}
	return status;
}

static taut_status take_inbox(
	struct taut_sync *sync, bool *moved, struct taut_error *err)
{
	bool match;
	struct inbox inbox = look(sync, &match);
	taut_status status = TAUT_OK;

	*moved = *moved || inbox.requests || match || inbox.ready != TAUT_NONE;
	if (inbox.give_up) { /* nobody writes it any more */
		*err = sync->failure;
		return err->code;
	}
	if (match)
		status = tauti_round_match(sync, err);
	if (!status)
		status = pass_requests(sync, inbox.requests, err);
	if (!status)
		status = pass_ready(sync, inbox.ready, err);
	return status;
}

/* --- the communicator --------------------------------------------------------------*/

static taut_status progress(
	struct taut_sync *sync, bool *moved, struct taut_error *err)
{
	(void)moved; /* what matters shows as a collective that ended */
	return taut_comm_progress(sync->comm, err);
}

static taut_status end_runs(
	struct taut_sync *sync, bool *moved, struct taut_error *err)
{
	while (sync->ended_runs) {
		struct tauti_request *request = sync->ended_runs;
		struct taut_error why = { .offset = -1 };
		taut_status status = request->status;

		sync->ended_runs = request->next_ended;
		*moved = true;
		if (status)
			status = tauti_sync_comm_failed(sync, status, &why);
		tauti_sync_answer(sync, request, status, &why);
		if (status) {
			*err = why;
			return status;
		}
	}
	return TAUT_OK;
}

/* Until a message comes or a caller has something. */
static taut_status sleep_in(struct taut_sync *sync, bool *ret_long,
	struct taut_error *err)
{
	int64_t limit_ns, begin_ns;
	taut_status status;

	pthread_mutex_lock(&sync->lock);
	if (sync->news || sync->quit) {
		pthread_mutex_unlock(&sync->lock);
		return TAUT_OK;
	}
	sync->sleeping = true;
	sync->counts.sleeps++;
	limit_ns = sync->n_open && tauti_round_may_ask(sync) ? IDLE_NS : -1;
	pthread_mutex_unlock(&sync->lock);
	begin_ns = tauti_now_ns();
	status = taut_comm_wait(sync->comm, limit_ns, err);
	*ret_long = limit_ns > 0 &&
		tauti_now_ns() - begin_ns >= limit_ns;
	pthread_mutex_lock(&sync->lock);
	sync->sleeping = false;
	pthread_mutex_unlock(&sync->lock);
	return status;
}

/* A rank that waits for others to become ready, with nothing of its own under way,
 * asks after them now and then by a round: one that is gone and said nothing shows
 * then, whatever the engine. */
static taut_status rest(struct taut_sync *sync, struct taut_error *err)
{
	bool was_long = false;
	taut_status status = sleep_in(sync, &was_long, err);

	return status || !was_long ? status : tauti_round_ask(sync, err);
}

/* --- the thread --------------------------------------------------------------------*/

static taut_status live(struct taut_sync *sync, struct taut_error *err)
{
	static taut_status (*const parts[])(struct taut_sync *sync,
		bool *moved, struct taut_error *err) = {
		take_inbox, progress, tauti_message_end_all, tauti_round_move,
		end_runs, tauti_farewell_move,
	};
	taut_status status = TAUT_OK;

	while (!status && !sync->quitting) {
		bool moved = false;

		for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
			status = parts[i](sync, &moved, err);
			if (status)
				return status;
		}
		if (!moved)
			status = rest(sync, err);
	}
	return status;
}

/* A program may have told its threads to flush small numbers to zero, and threads
 * that they make inherit it: what is summed here would depend on that. */
void *tauti_sync_thread(void *context)
{
	struct taut_sync *sync = context;
	struct taut_error why = { .offset = -1 };
	taut_status status;

	(void)fesetenv(FE_DFL_ENV);
	status = live(sync, &why);
	if (status) {
		why.code = status;
		tauti_farewell_explain(sync, &why);
		taut_sched_fail(sync->sched, status, why.message);
		tauti_sync_end(sync, &why);
	}
	tauti_farewell_say(sync, status ? &why : NULL);
	return NULL;
}
