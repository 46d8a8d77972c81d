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

/* Once, as the communicator's handler knows no reason. */
static void complain(struct tauti_form_comm *it, const struct taut_error *why)
{
	if (!atomic_exchange(&it->complained, true))
		tauti_form_say("%s", why->message[0] ? why->message :
			"an all-reduce failed");
}

/* What MPI does with an error: the communicator's handler ends the job, or the code
 * is returned. */
static int fail(struct tauti_form_comm *it, const struct taut_error *why)
{
	complain(it, why);
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

static bool has_failed(struct tauti_form_comm *it)
{
	struct taut_error ignored;

	return tauti_mpi_form.taut.progress(it->taut, &ignored) != TAUT_OK;
}

/* Begins a call, at once or in line, inside. status: of what came before. Who cannot do
 * its part leaves, for the others wait for it. */
static taut_status begin(struct tauti_form_comm *it,
	const struct tauti_form_call *call, taut_status status,
	const struct tauti_form_where *where, struct tauti_form_op *op,
	bool *ret_in_parts, void (*done)(void *context, taut_status status),
	void *context, struct taut_error *err)
{
	const struct taut_coll_call taut = call_of(call);

	*ret_in_parts = false;
	if (!it->taut || it->broken) {
		*err = it->why;
		return TAUT_EIO;
	}
	if (!status && !tauti_form_op_wanted(it, call, where)) {
		status = start(it, &taut, done, context, err);
		/* What is no call MPI would refuse, too; and of what failed
		 * before all ranks know. */
		if (!status || status == TAUT_EINVAL || has_failed(it))
			return status;
	} else if (!status) {
		status = tauti_form_op_begin(
			op, it, call, where, done, context, err);
		*ret_in_parts = !status;
	}
	if (status) {
		it->why = *err;
		atomic_store(&it->broken, true);
		tauti_form_break(it);
	}
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
	struct tauti_gpu *gpu = tauti_form_gpu();
	const struct tauti_form_aside aside = tauti_form_aside_begin(gpu);
	struct tauti_form_where where;
	struct tauti_form_op op;
	taut_status status = tauti_form_where(gpu, call, &where, &err);
	bool in_parts;

	tauti_form_enter(it);
	status = begin(it, call, status, &where, &op, &in_parts, note_over,
		&waiting, &err);
	if (!status)
		status = wait_for(it, &waiting, in_parts, &err);
	if (status && !err.message[0]) /* it ended inside, which says why later */
		explain(it, &err);
	tauti_form_leave(it);
	tauti_form_aside_end(&aside);
	return status ? fail(it, &err) : 0;
}

/* --- calls that only begin ----------------------------------------------------------------*/

__thread int tauti_form_failure;

struct tauti_form_request {
	struct tauti_form_comm *comm; /* NULL: it was freed, after this was over */
	tauti_form_handle handle;
	struct tauti_form_request *next; /* of those pending */
	struct tauti_form_op op;
	taut_status status;
	atomic_bool over;
};

static void request_over(void *context, taut_status status)
{
	struct tauti_form_request *request = context;
	struct taut_error err = { .message = "" };

	request->status = status;
	if (status) { /* here, as the communicator may be gone later */
		explain(request->comm, &err);
		complain(request->comm, &err);
	}
	request->comm->n_begun--;
	atomic_store_explicit(&request->over, true, memory_order_release);
	pthread_mutex_lock(&tauti_mpi_form.lock);
	pthread_cond_broadcast(&tauti_mpi_form.over);
	pthread_mutex_unlock(&tauti_mpi_form.lock);
}

/* In the call whose list has the request. An error from here the library would raise on
 * MPI_COMM_WORLD. */
static int query(void *extra, void *status)
{
	const struct tauti_form_request *request = extra;

	tauti_mpi_form.real.status_set_elements(
		status, tauti_mpi_form.abi->byte, 0);
	tauti_mpi_form.real.status_set_cancelled(status, 0);
	if (request->status)
		tauti_form_failure = tauti_mpi_form.err_other;
	return 0;
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

/* ret_request is the program's; *ret_mine is NULL where there is none. */
static taut_status make_request(struct tauti_form_comm *it, void *ret_request,
	struct tauti_form_request **ret_mine, struct taut_error *err)
{
	struct tauti_form_request *request = calloc(1, sizeof *request);

	*ret_mine = NULL;
	if (!request)
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
	request->comm = it;
	if (tauti_mpi_form.real.grequest_start(
		query, release, cancel, request, ret_request)) {
		free(request);
		return taut_error_set(err, TAUT_EIO, -1, "MPI makes no request");
	}
	request->handle = tauti_form_load(ret_request);
	*ret_mine = request;
	return TAUT_OK;
}

/* Nothing began: there is no request. */
static void take_back(struct tauti_form_request *request, void *ret_request)
{
	if (!request)
		return;
	tauti_mpi_form.real.grequest_complete(request->handle);
	tauti_mpi_form.real.request_free(ret_request);
}

int tauti_form_begin(struct tauti_form_comm *it,
	const struct tauti_form_call *call, void *ret_request)
{
	struct tauti_form_request *request;
	struct taut_error err = { .message = "" };
	struct tauti_form_where where = { NULL, NULL };
	struct tauti_gpu *gpu = tauti_form_gpu();
	const struct tauti_form_aside aside = tauti_form_aside_begin(gpu);
	taut_status status = make_request(it, ret_request, &request, &err);
	bool in_parts;

	if (!status)
		status = tauti_form_where(gpu, call, &where, &err);
	tauti_form_enter(it);
	if (!status && it->taut && !tauti_form_has_mover(it))
		status = taut_error_set(&err, TAUT_ENOMEM, -1,
			"rank %u: no thread for all-reduces that only begin",
			it->rank);
	it->n_begun++;
	status = begin(it, call, status, &where, request ? &request->op : NULL,
		&in_parts, request_over, request, &err);
	if (!status && in_parts)
		tauti_form_ops_move(it);
	if (it->broken)
		tauti_form_break(it);
	it->n_begun -= status != TAUT_OK;
	pthread_cond_signal(&it->work);
	if (!status)
		pend(request);
	tauti_form_leave(it);
	tauti_form_aside_end(&aside);
	if (!status)
		return 0;
	take_back(request, ret_request);
	return fail(it, &err);
}

void tauti_form_disown(struct tauti_form_comm *it)
{
	struct tauti_form_request *at;

	pthread_mutex_lock(&tauti_mpi_form.lock);
	for (at = tauti_mpi_form.pending; at; at = at->next)
		if (at->comm == it)
			at->comm = NULL;
	pthread_mutex_unlock(&tauti_mpi_form.lock);
}

/* --- requests that are done ---------------------------------------------------------------*/

/* ret_comm: of it, if that is still there. */
static struct tauti_form_request *take_over(tauti_form_handle *ret_comm)
{
	struct tauti_form_request **at = &tauti_mpi_form.pending, *found;

	pthread_mutex_lock(&tauti_mpi_form.lock);
	while (*at && !atomic_load_explicit(&(*at)->over, memory_order_acquire))
		at = &(*at)->next;
	found = *at;
	if (found) {
		*at = found->next;
		*ret_comm = found->comm ? found->comm->handle :
			tauti_mpi_form.abi->comm_world;
	}
	pthread_mutex_unlock(&tauti_mpi_form.lock);
	return found;
}

void tauti_form_complete(void)
{
	struct tauti_form_request *request;
	tauti_form_handle comm;

	while ((request = take_over(&comm))) {
		bool failed = request->status != TAUT_OK;

		/* The request may be freed inside: nobody waits for it any
		 * more. */
		tauti_mpi_form.real.grequest_complete(request->handle);
		atomic_fetch_sub(&tauti_mpi_form.n_pending, 1);
		if (failed)
			tauti_mpi_form.real.comm_call_errhandler(
				comm, tauti_mpi_form.err_other);
	}
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
