/* call.c - all-reduces by Taut: those that block, and those that only begin. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/now.h"
#include "mpi/mpi.h"

enum {
	LOOKS = 64,             /* before the clock is asked, or there is sleep */
	POKE_NS = 50 * 1000,    /* so often MPI is moved, too */
	SLEEP_NS = 200 * 1000,  /* at a time */
	COPY_NS = 10 * 1000,    /* while a device copies */
};

static struct taut_coll_call call_of(const struct tauti_form_call *call)
{
	struct taut_coll_call taut = { .verb = TAUT_ALLREDUCE,
		.type = call->type, .input = call->in, .output = call->out,
		.count = call->count, .reduction = call->reduction };

	if ((uintptr_t)call->in == tauti_mpi_form.abi->in_place)
		taut.input = NULL;
	else if (!call->in)
		taut.output = NULL; /* for Taut to refuse, as MPI would */
	return taut;
}

/* What MPI does with an error: the communicator's handler ends the job, or the code
 * is returned. The line is said once, as the handler knows no reason. */
static int fail(struct tauti_form_comm *it, const struct taut_error *why)
{
	if (!it->complained)
		tauti_form_say("%s", why->message[0] ? why->message :
			"an all-reduce failed");
	it->complained = true;
	tauti_mpi_form.real.comm_call_errhandler(
		it->handle, tauti_mpi_form.err_other);
	return tauti_mpi_form.err_other;
}

/* The others wait for this rank's part: memory that is short may be there later. */
static taut_status start(struct tauti_form_comm *it,
	const struct taut_coll_call *call,
	void (*done)(void *context, taut_status status), void *context,
	struct taut_error *err)
{
	const struct timespec pause = { 0, 1000000 };
	taut_status status = tauti_mpi_form.taut.start(
		it->taut, call, done, context, err);

	for (int i = 0; i < 1000 && status == TAUT_ENOMEM; i++) {
		nanosleep(&pause, NULL);
		status = tauti_mpi_form.taut.start(
			it->taut, call, done, context, err);
	}
	return status;
}

/* Begins a call, at once or in line, inside. status: of the question where its memory
 * is. Who cannot do its part leaves, for the others wait for it. */
static taut_status begin(struct tauti_form_comm *it,
	const struct tauti_form_call *call, taut_status status,
	const struct tauti_form_where *where, struct tauti_form_op *op,
	bool *ret_in_parts, void (*done)(void *context, taut_status status),
	void *context, struct taut_error *err)
{
	const struct taut_coll_call taut = call_of(call);

	*ret_in_parts = false;
	if (!it->taut) {
		*err = it->why;
		return TAUT_EIO;
	}
	if (!status && !tauti_form_op_wanted(it, call, where))
		return start(it, &taut, done, context, err);
	if (!status)
		status = tauti_form_op_begin(
			op, it, call, where, done, context, err);
	if (status) {
		it->why = *err;
		atomic_store(&it->broken, true);
		tauti_form_break(it);
	}
	*ret_in_parts = !status;
	return status;
}

static void explain(struct tauti_form_comm *it, struct taut_error *err)
{
	if (it->broken || !it->taut)
		*err = it->why;
	else
		(void)!tauti_mpi_form.taut.progress(it->taut, err);
}

/* --- calls that block ---------------------------------------------------------------------*/

struct waiting {
	bool over;
	taut_status status;
};

static void note_over(void *context, taut_status status)
{
	struct waiting *waiting = context;

	waiting->status = status;
	waiting->over = true;
}

static taut_status move_on(struct tauti_form_comm *it, struct taut_error *err)
{
	taut_status status = it->taut ?
		tauti_mpi_form.taut.progress(it->taut, err) : TAUT_EIO;

	if (it->ops)
		tauti_form_ops_move(it);
	if (it->broken)
		tauti_form_break(it);
	return status;
}

/* Copies, and what an engine has of this call, end before its memory is let go of. */
static taut_status end_parts(struct tauti_form_comm *it,
	const struct waiting *waiting, bool in_parts, taut_status status)
{
	struct taut_error ignored;

	while (in_parts && !waiting->over)
		(void)!move_on(it, &ignored);
	return waiting->over ? waiting->status : status;
}

static taut_status wait_for(struct tauti_form_comm *it,
	const struct waiting *waiting, bool in_parts, struct taut_error *err)
{
	const struct tauti_form_taut *taut = &tauti_mpi_form.taut;
	taut_status status = move_on(it, err);
	int64_t poke_ns = 0, at_ns;

	for (uint32_t looks = 1; !waiting->over && !status; looks++) {
		if (looks % LOOKS) {
			status = move_on(it, err);
			continue;
		}
		at_ns = tauti_now_ns();
		if (!poke_ns)
			poke_ns = at_ns + POKE_NS;
		/* Another rank may wait for a message of this one, that MPI has
		 * not moved yet. */
		if (at_ns >= poke_ns) {
			tauti_form_poke_mpi();
			poke_ns = tauti_now_ns() + POKE_NS;
		}
		if (it->taut)
			status = taut->wait(it->taut,
				it->n_copies ? COPY_NS : SLEEP_NS, err);
		if (!status)
			status = move_on(it, err);
	}
	return end_parts(it, waiting, in_parts, status);
}

int tauti_form_run(
	struct tauti_form_comm *it, const struct tauti_form_call *call)
{
	struct waiting waiting = { .over = false };
	struct taut_error err = { .message = "" };
	struct tauti_form_where where;
	struct tauti_form_op op;
	taut_status status = tauti_form_where(call, &where, &err);
	bool in_parts;

	tauti_form_enter(it);
	status = begin(it, call, status, &where, &op, &in_parts, note_over,
		&waiting, &err);
	if (!status)
		status = wait_for(it, &waiting, in_parts, &err);
	if (status && !err.message[0]) /* it ended inside, which says why later */
		explain(it, &err);
	tauti_form_leave(it);
	return status ? fail(it, &err) : 0;
}

/* --- calls that only begin ----------------------------------------------------------------*/

struct tauti_form_request {
	struct tauti_form_comm *comm; /* not after it is over: it may be freed */
	tauti_form_handle handle;
	struct tauti_form_request *next; /* of those pending */
	struct tauti_form_op op;
	taut_status status;
	atomic_bool over;
};

static void request_over(void *context, taut_status status)
{
	struct tauti_form_request *request = context;

	request->status = status;
	request->comm->n_begun--;
	atomic_store_explicit(&request->over, true, memory_order_release);
	pthread_mutex_lock(&tauti_mpi_form.lock);
	pthread_cond_broadcast(&tauti_mpi_form.over);
	pthread_mutex_unlock(&tauti_mpi_form.lock);
}

static int query(void *extra, void *status)
{
	const struct tauti_form_request *request = extra;

	tauti_mpi_form.real.status_set_elements(
		status, tauti_mpi_form.abi->byte, 0);
	tauti_mpi_form.real.status_set_cancelled(status, 0);
	return request->status ? tauti_mpi_form.err_other : 0;
}

static int release(void *extra)
{
	free(extra);
	return 0;
}

/* An all-reduce cannot be taken back: the others have begun it. */
static int cancel(void *extra, int complete)
{
	(void)extra, (void)complete;
	return 0;
}

static void pend(struct tauti_form_request *request)
{
	pthread_mutex_lock(&tauti_mpi_form.lock);
	request->next = tauti_mpi_form.pending;
	tauti_mpi_form.pending = request;
	atomic_fetch_add(&tauti_mpi_form.n_pending, 1);
	pthread_mutex_unlock(&tauti_mpi_form.lock);
}

int tauti_form_begin(struct tauti_form_comm *it,
	const struct tauti_form_call *call, void *ret_request)
{
	struct tauti_form_request *request = calloc(1, sizeof *request);
	struct taut_error err = { .message = "no memory" };
	taut_status status = TAUT_ENOMEM, found;
	struct tauti_form_where where;
	bool in_parts;
	int rc;

	if (!request)
		return fail(it, &err);
	request->comm = it;
	rc = tauti_mpi_form.real.grequest_start(
		query, release, cancel, request, ret_request);
	if (rc) {
		free(request);
		return rc;
	}
	request->handle = tauti_form_load(ret_request);
	found = tauti_form_where(call, &where, &err);
	tauti_form_enter(it);
	if (tauti_form_has_mover(it)) {
		it->n_begun++;
		if (!found)
			err.message[0] = '\0';
		status = begin(it, call, found, &where, &request->op, &in_parts,
			request_over, request, &err);
		if (!status && in_parts)
			tauti_form_ops_move(it);
		it->n_begun -= status != TAUT_OK;
		pthread_cond_signal(&it->work);
	}
	if (status) {
		request->status = status;
		atomic_store(&request->over, true);
	}
	pend(request);
	tauti_form_leave(it);
	return status ? fail(it, &err) : 0;
}

/* --- requests that are done ---------------------------------------------------------------*/

static struct tauti_form_request *take_over(void)
{
	struct tauti_form_request **at = &tauti_mpi_form.pending, *found;

	pthread_mutex_lock(&tauti_mpi_form.lock);
	while (*at && !atomic_load_explicit(&(*at)->over, memory_order_acquire))
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&tauti_mpi_form.lock);
	return found;
}

static int complete_one(struct tauti_form_request *request)
{
	bool failed = request->status != TAUT_OK;

	/* The request may be freed inside: nobody waits for it any more. */
	tauti_mpi_form.real.grequest_complete(request->handle);
	atomic_fetch_sub(&tauti_mpi_form.n_pending, 1);
	if (!failed)
		return 0;
	tauti_form_say("an all-reduce that was begun failed");
	/* Its own communicator may have been freed since. */
	tauti_mpi_form.real.comm_call_errhandler(
		tauti_mpi_form.abi->comm_world, tauti_mpi_form.err_other);
	return tauti_mpi_form.err_other;
}

int tauti_form_complete(void)
{
	struct tauti_form_request *request;
	int rc = 0;

	while ((request = take_over())) {
		int one = complete_one(request);

		rc = rc ? rc : one;
	}
	return rc;
}

static bool any_over(void)
{
	const struct tauti_form_request *at = tauti_mpi_form.pending;

	while (at && !atomic_load_explicit(&at->over, memory_order_acquire))
		at = at->next;
	return at != NULL;
}

void tauti_form_nap(uint32_t turns)
{
	enum { SPINS = 16, YIELDS = 64, NAP_NS = 50 * 1000 };
	struct timespec until;

	if (turns < SPINS)
		return;
	if (turns < YIELDS) {
		sched_yield();
		return;
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += NAP_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&tauti_mpi_form.lock);
	if (!any_over())
		pthread_cond_timedwait(&tauti_mpi_form.over,
			&tauti_mpi_form.lock, &until);
	pthread_mutex_unlock(&tauti_mpi_form.lock);
}
