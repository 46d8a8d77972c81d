/* calls.c - what is written of each call. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/mpi/mpi.h"
#include "record/mpi/tables.h"

__thread int tauti_mpi_depth;
static __thread int64_t thread
	__attribute__((tls_model("initial-exec")));

int64_t tauti_mpi_thread(void)
{
	if (!thread)
		thread = syscall(SYS_gettid);
	return thread;
}

/* text is a literal: its address names it. Under the lock. */
uint32_t tauti_mpi_text(const char *text)
{
	struct tauti_mpi_known_text *known = &tauti_mpi.tables->texts[
		((uintptr_t)text ^ (uintptr_t)text >> 9) % TAUTI_MPI_TEXTS];

	if (known->text != text) {
		known->id = taut_log_text(tauti_mpi.log, text);
		known->text = text;
	}
	return known->id;
}

uint32_t tauti_mpi_correlation(void)
{
	uint32_t n = __atomic_add_fetch(
		&tauti_mpi.next_correlation, 1, __ATOMIC_RELAXED);

	return n ? n : tauti_mpi_correlation();
}

void tauti_mpi_write_runtime(const char *name,
	const struct tauti_mpi_span *span, uint32_t correlation)
{
	if (tauti_mpi.writes)
		taut_log_span(tauti_mpi.log, tauti_mpi_text(name),
			TAUTI_MPI_KIND_RUNTIME, tauti_mpi_thread(), span->start_ns,
			span->end_ns, correlation);
}

/* --- collectives ------------------------------------------------------------------*/

static int64_t times(int64_t n, uint32_t per_item)
{
	return n < 0 || n > INT64_MAX / 2 / (per_item ? per_item : 1) ?
		-1 : n * per_item;
}

/* Both sides in one unit: elements where the types agree, else bytes. */
static void describe_size(
	struct taut_log_comm *args, const struct tauti_mpi_coll *coll)
{
	struct tauti_mpi_type in = { 0 }, out = { 0 };

	args->in_elements = args->out_elements = -1;
	if (coll->in >= 0)
		in = tauti_mpi_type_of(coll->in_type);
	if (coll->out >= 0)
		out = tauti_mpi_type_of(coll->out_type);
	if (coll->in < 0 && coll->out < 0)
		return;
	if (coll->in >= 0 && coll->out >= 0 && in.dtype != out.dtype) {
		in.per_item *= in.element_bytes;
		out.per_item *= out.element_bytes;
		in.dtype = tauti_mpi_text("Byte");
	}
	args->dtype = coll->in >= 0 ? in.dtype : out.dtype;
	args->in_elements = times(coll->in, in.per_item);
	args->out_elements = times(coll->out, out.per_item);
}

static void describe_collective(struct taut_log_comm *args,
	const struct tauti_mpi_coll *coll, const struct tauti_mpi_comm *comm)
{
	*args = (struct taut_log_comm){
		.collective = tauti_mpi_text(coll->collective),
		.group = comm->group, .group_ranks = comm->group_ranks,
		.group_size = comm->size, .src = -1, .dst = -1,
		.root = tauti_mpi_world_rank(comm, coll->root),
		.seq = -1,
	};
	describe_size(args, coll);
}

void tauti_mpi_collective(const char *name, const struct tauti_mpi_span *span,
	const struct tauti_mpi_coll *coll)
{
	struct taut_log_comm args;
	struct tauti_mpi_comm *comm;
	int64_t seq;

	tauti_mpi_lock();
	comm = tauti_mpi_comm_of(coll->comm);
	seq = comm ? comm->n_collectives++ : -1;
	if (comm && tauti_mpi.writes) {
		describe_collective(&args, coll, comm);
		args.seq = seq;
		taut_log_comm(tauti_mpi.log, tauti_mpi_text(name),
			TAUTI_MPI_KIND_COMM, tauti_mpi_thread(), span->start_ns,
			span->end_ns, 0, &args);
	}
	tauti_mpi_unlock();
}

/* --- operations that last longer than their call ------------------------------------ */

static struct tauti_mpi_op *new_op(const char *name,
	const struct tauti_mpi_span *span, struct tauti_mpi_comm *comm,
	enum tauti_mpi_what what)
{
	struct tauti_mpi_op *op = comm ? tauti_mpi_op_new() : NULL;

	if (!op)
		return NULL;
	op->name = tauti_mpi_text(name);
	op->comm = comm;
	comm->refs++;
	op->what = (uint8_t)what;
	op->start_ns = span->start_ns;
	op->lane = tauti_mpi_thread(); /* unless it gets one of its own */
	op->args.group = comm->group;
	op->args.group_ranks = comm->group_ranks;
	op->args.group_size = comm->size;
	op->args.src = op->args.dst = op->args.root = -1;
	op->args.in_elements = op->args.out_elements = -1;
	op->args.seq = -1;
	return op;
}

static bool is_shared(tauti_mpi_handle request)
{
	const struct tauti_mpi_tables *t = tauti_mpi.tables;

	for (uint32_t i = 0; i < t->n_shared; i++)
		if (t->shared[i] == request)
			return true;
	return false;
}

/* One request for many operations: a library does that for those that are
 * done when their call returns. */
static bool is_done_already(tauti_mpi_handle request)
{
	struct tauti_mpi_tables *t = tauti_mpi.tables;

	if (request == tauti_mpi.abi->request_null || is_shared(request))
		return true;
	/* With several threads, the one that had it before may not have come
	 * to say so. */
	if (tauti_mpi.locks || !tauti_mpi_op_find(request, false))
		return false;
	if (t->n_shared < TAUTI_MPI_SHARED)
		t->shared[t->n_shared++] = request;
	return true;
}

/* op is under way from now on, or a template for those that will be. */
static void begin_op(struct tauti_mpi_op *op,
	const struct tauti_mpi_span *span, tauti_mpi_handle request,
	bool persistent)
{
	op->is_template = persistent;
	if (persistent) {
		tauti_mpi_op_enter(op, request);
		return;
	}
	tauti_mpi_op_take_lane(op);
	if (op->what != TAUTI_MPI_RECV && is_done_already(request))
		tauti_mpi_op_done(op, span->end_ns, 0);
	else
		tauti_mpi_op_enter(op, request);
}

void tauti_mpi_icollective(const char *name, const struct tauti_mpi_span *span,
	const struct tauti_mpi_coll *coll, tauti_mpi_handle request,
	bool persistent)
{
	struct tauti_mpi_comm *comm;
	struct tauti_mpi_op *op;

	tauti_mpi_lock();
	comm = tauti_mpi_comm_of(coll->comm);
	op = new_op(name, span, comm, TAUTI_MPI_COLLECTIVE);
	if (op) {
		describe_collective(&op->args, coll, comm);
		/* a persistent one counts its starts beside its number */
		op->args.seq = persistent ?
			(comm->n_persistent + 1) << 32 : comm->n_collectives;
	}
	if (comm && persistent)
		comm->n_persistent++;
	else if (comm)
		comm->n_collectives++;
	if (op)
		begin_op(op, span, request, persistent);
	tauti_mpi_write_runtime(name, span, 0);
	tauti_mpi_unlock();
}

/* --- messages -------------------------------------------------------------------------- */

static void describe_message(
	struct tauti_mpi_op *op, const struct tauti_mpi_message *m)
{
	struct tauti_mpi_type type = tauti_mpi_type_of(m->type);
	bool sends = op->what == TAUTI_MPI_SEND;

	op->peer = m->peer;
	op->tag = m->tag;
	op->element_bytes = type.element_bytes;
	op->args.collective = tauti_mpi_text(sends ? "send" : "recv");
	op->args.dtype = type.dtype;
	op->args.in_elements = op->args.out_elements =
		times(m->n, type.per_item);
	if (sends)
		op->args.dst = tauti_mpi_world_rank(op->comm, m->peer);
	else if (m->peer != tauti_mpi.abi->any_source)
		op->args.src = tauti_mpi_world_rank(op->comm, m->peer);
	*(sends ? &op->args.src : &op->args.dst) = tauti_mpi.rank;
}

/* A message to or from nobody is none. */
static struct tauti_mpi_op *message_op(const char *name,
	const struct tauti_mpi_span *span, const struct tauti_mpi_message *m,
	enum tauti_mpi_what what)
{
	struct tauti_mpi_op *op;

	if (!m || m->peer == tauti_mpi.abi->proc_null)
		return NULL;
	op = new_op(name, span, tauti_mpi_comm_of(m->comm), what);
	if (op)
		describe_message(op, m);
	return op;
}

/* Gives the message its number, or its place in the order. */
static void post(struct tauti_mpi_op *op)
{
	if (op->what == TAUTI_MPI_SEND)
		op->args.seq = tauti_mpi_number_send(
			op->comm, op->peer, op->tag);
	else
		tauti_mpi_receive_posted(op);
}

/* What came, of which a receive knows only the most. */
static void take_status(struct tauti_mpi_op *op, const void *status)
{
	const struct tauti_mpi_abi *abi = tauti_mpi.abi;
	int bytes = -1, src, tag;

	if (!status)
		return;
	src = tauti_mpi_status_int(status, abi->source_at);
	tag = tauti_mpi_status_int(status, abi->tag_at);
	if (src >= 0 && tag >= 0)
		tauti_mpi_receive_matched(op, src, tag);
	if (!tauti_mpi.real.get_count(status, abi->byte, &bytes) &&
		bytes >= 0 && op->element_bytes)
		op->args.in_elements = op->args.out_elements =
			bytes / (int)op->element_bytes;
}

static void finish(struct tauti_mpi_op *op, const void *status,
	int64_t end_ns, uint32_t correlation)
{
	struct tauti_mpi_comm *comm = op->comm;
	bool sweeps;

	if (op->what == TAUTI_MPI_RECV)
		take_status(op, status);
	sweeps = op->in_order;
	tauti_mpi_op_done(op, end_ns, correlation);
	if (sweeps)
		tauti_mpi_order_sweep(comm);
}

void tauti_mpi_send(const char *name, const struct tauti_mpi_span *span,
	const struct tauti_mpi_message *message)
{
	struct tauti_mpi_op *op;

	tauti_mpi_lock();
	op = message_op(name, span, message, TAUTI_MPI_SEND);
	if (op) {
		post(op);
		tauti_mpi_op_done(op, span->end_ns, 0);
	}
	tauti_mpi_unlock();
}

void tauti_mpi_recv(const char *name, const struct tauti_mpi_span *span,
	const struct tauti_mpi_message *message, const void *status)
{
	struct tauti_mpi_op *op;

	tauti_mpi_lock();
	op = message_op(name, span, message, TAUTI_MPI_RECV);
	if (op) {
		post(op);
		finish(op, status, span->end_ns, 0);
	}
	tauti_mpi_unlock();
}

void tauti_mpi_sendrecv(const char *name, const struct tauti_mpi_span *span,
	const struct tauti_mpi_message *send,
	const struct tauti_mpi_message *recv, const void *status)
{
	uint32_t correlation = tauti_mpi_correlation();
	struct tauti_mpi_op *out, *in;

	tauti_mpi_lock();
	out = message_op(name, span, send, TAUTI_MPI_SEND);
	in = message_op(name, span, recv, TAUTI_MPI_RECV);
	if (out) {
		tauti_mpi_op_take_lane(out);
		post(out);
	}
	if (in) {
		tauti_mpi_op_take_lane(in);
		post(in);
		finish(in, status, span->end_ns, correlation);
	}
	if (out)
		tauti_mpi_op_done(out, span->end_ns, correlation);
	tauti_mpi_write_runtime(name, span, out || in ? correlation : 0);
	tauti_mpi_unlock();
}

void tauti_mpi_begun(const char *name, const struct tauti_mpi_span *span,
	const struct tauti_mpi_message *send,
	const struct tauti_mpi_message *recv, tauti_mpi_handle request,
	bool persistent)
{
	tauti_mpi_handle handle = tauti_mpi_clean(request);
	struct tauti_mpi_op *out, *in;

	tauti_mpi_lock();
	out = message_op(name, span, send, TAUTI_MPI_SEND);
	in = message_op(name, span, recv, TAUTI_MPI_RECV);
	if (out && !persistent)
		post(out);
	if (in && !persistent)
		post(in);
	if (in && out) {
		in->with = out;
		tauti_mpi_op_take_lane(out);
		begin_op(in, span, handle, persistent);
	} else if (in || out) {
		begin_op(in ? in : out, span, handle, persistent);
	}
	tauti_mpi_write_runtime(name, span, 0);
	tauti_mpi_unlock();
}

void tauti_mpi_started(
	const struct tauti_mpi_span *span, tauti_mpi_handle request)
{
	struct tauti_mpi_op *model, *op;

	model = tauti_mpi_op_find(tauti_mpi_clean(request), true);
	op = model ? tauti_mpi_op_new() : NULL;
	if (!op)
		return;
	*op = *model;
	op->in_table = op->is_template = false;
	op->writes = tauti_mpi.writes;
	op->start_ns = span->start_ns;
	op->comm->refs++;
	if (op->what == TAUTI_MPI_COLLECTIVE)
		op->args.seq = model->args.seq++;
	else
		post(op);
	tauti_mpi_op_take_lane(op);
	tauti_mpi_op_enter(op, model->request);
}

/* --- matched probes --------------------------------------------------------------------- */

/* The message was taken at the probe: that is its place in the order. */
void tauti_mpi_probed(tauti_mpi_handle comm, int src, int tag,
	tauti_mpi_handle message, const void *status)
{
	static const struct tauti_mpi_span none;
	struct tauti_mpi_message m = { 0, tauti_mpi.abi->byte, comm, src,
		tag };
	struct tauti_mpi_op *op;

	tauti_mpi_lock();
	op = message_op("MPI_Mprobe", &none, &m, TAUTI_MPI_RECV);
	if (op) {
		post(op);
		take_status(op, status);
		tauti_mpi_op_enter(op, tauti_mpi_clean(message));
		if (op->in_order)
			tauti_mpi_order_sweep(op->comm);
	}
	tauti_mpi_unlock();
}

void tauti_mpi_mrecv(const char *name, const struct tauti_mpi_span *span,
	tauti_mpi_handle message, int64_t n, tauti_mpi_handle type,
	const void *status, tauti_mpi_handle request, bool begins)
{
	struct tauti_mpi_type about;
	struct tauti_mpi_op *op;

	tauti_mpi_lock();
	op = tauti_mpi_op_find(tauti_mpi_clean(message), false);
	if (op) {
		about = tauti_mpi_type_of(type);
		op->name = tauti_mpi_text(name);
		op->start_ns = span->start_ns;
		op->writes = tauti_mpi.writes;
		op->element_bytes = about.element_bytes;
		op->args.dtype = about.dtype;
		op->args.in_elements = op->args.out_elements =
			times(n, about.per_item);
		tauti_mpi_op_leave(op);
	}
	if (op && begins) {
		begin_op(op, span, tauti_mpi_clean(request), false);
	} else if (op) {
		op->lane = tauti_mpi_thread();
		finish(op, status, span->end_ns, 0);
	}
	if (begins)
		tauti_mpi_write_runtime(name, span, 0);
	tauti_mpi_unlock();
}

/* --- completion ---------------------------------------------------------------------------- */

static bool was_cancelled(const struct tauti_mpi_op *op, const void *status)
{
	int flag = 0;

	return op->cancelled && status &&
		!tauti_mpi.real.test_cancelled(status, &flag) && flag;
}

static void drop(struct tauti_mpi_op *op)
{
	struct tauti_mpi_comm *comm = op->comm;

	comm->refs++;
	if (op->what == TAUTI_MPI_RECV)
		tauti_mpi_receive_cancelled(op);
	op->writes = false;
	tauti_mpi_op_done(op, op->start_ns, 0);
	tauti_mpi_order_sweep(comm);
	tauti_mpi_comm_release(comm);
}

bool tauti_mpi_completed(const struct tauti_mpi_span *span,
	tauti_mpi_handle request, uint64_t serial, const void *status,
	uint32_t correlation)
{
	struct tauti_mpi_op *oldest = tauti_mpi_op_find(
		tauti_mpi_clean(request), false), *op = oldest;

	while (op && serial && op->serial != serial)
		op = op->next;
	if (!op)
		op = oldest; /* a request of many operations */
	if (!op)
		return false;
	if (op->with)
		tauti_mpi_op_done(op->with, span->end_ns, correlation);
	if (was_cancelled(op, status))
		drop(op);
	else
		finish(op, status, span->end_ns, correlation);
	return true;
}

/* A send that nobody waits for ends somewhere; a receive, nobody knows. */
void tauti_mpi_request_freed(
	const struct tauti_mpi_span *span, tauti_mpi_handle request)
{
	tauti_mpi_handle handle = tauti_mpi_clean(request);
	struct tauti_mpi_op *op;

	tauti_mpi_lock();
	op = tauti_mpi_op_find(handle, true);
	if (op) {
		tauti_mpi_op_leave(op);
		if (op->with)
			tauti_mpi_op_free(op->with);
		tauti_mpi_op_free(op);
	}
	tauti_mpi_completed(span, handle, 0, NULL, 0);
	tauti_mpi_unlock();
}

void tauti_mpi_request_cancelled(tauti_mpi_handle request)
{
	struct tauti_mpi_op *op;

	tauti_mpi_lock();
	op = tauti_mpi_op_find(tauti_mpi_clean(request), false);
	if (op)
		op->cancelled = true;
	tauti_mpi_unlock();
}
