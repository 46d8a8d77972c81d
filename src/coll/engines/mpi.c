/* mpi.c - see mpi.h. */
#include "coll/engines/mpi.h"

#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/now.h"

enum {
	EAGER_BYTES = 4096, /* that go with the envelope */
	LISTENERS = 8,      /* receives of envelopes */
	DATA_TAGS = 32000,  /* MPI promises 32767 */
	YIELDS = 32,
};
static const int64_t leave_ns = 1000000000;

enum kind { MESSAGE, BYE };

struct envelope {
	uint64_t tag, bytes;
	uint32_t sender;
	uint16_t data_tag; /* 0: the bytes are in it */
	uint16_t kind;
}; /* and the bytes */
enum { ENVELOPE_BYTES = sizeof(struct envelope) + EAGER_BYTES };

/* What was begun by a call: a send, or a receive that waits for its envelope. */
struct op {
	struct taut_coll_request *request; /* NULL: it has ended, or is ours */
	struct op *next;    /* of those that wait for an envelope */
	uint32_t peer;      /* of a receive */
	uint64_t tag;
	void *into;
	size_t bytes;
	uint32_t n_pending; /* requests of MPI */
	taut_status status;
	struct envelope envelope; /* of a send; its data follows */
};

/* A request of MPI: of an op, of a listener, or of bytes that nobody wants. */
struct part {
	struct op *op;
	struct envelope *listens;
	void *waste;
	bool sends;
};

struct unasked {
	struct unasked *next;
	struct envelope envelope; /* its data follows */
};

struct engine {
	struct tauti_mpi_calls call;
	uintptr_t comm;
	uint32_t rank, n_ranks;
	uint32_t n_parts, n_room, n_idle; /* n_idle: of parts, listeners */
	char *handles;
	struct part *parts, *over;
	int *indices;
	struct op *waiting;
	struct unasked *unasked;
	uint8_t *listeners[LISTENERS];
	bool *left;      /* by rank: it said good-bye */
	uint32_t n_left;
	uint16_t next_tag;
	bool ends;
	struct taut_error fault;
	atomic_bool woken;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "engine mpi: out of memory");
}

static void break_down(struct engine *it, const char *what, int code)
{
	if (!it->fault.code)
		taut_error_set(&it->fault, TAUT_EIO, -1,
			"engine mpi: rank %" PRIu32 ": %s failed (%d)", it->rank,
			what, code);
}

/* --- requests of MPI ----------------------------------------------------------------------*/

static void *handle_at(struct engine *it, uint32_t i)
{
	return it->handles + (size_t)i * it->call.handle_bytes;
}

/* Room for so many more. */
static bool reserve(struct engine *it, uint32_t more)
{
	uint32_t room = it->n_room ? it->n_room : 64;
	void *grown;

	while (room < it->n_parts + more)
		room *= 2;
	if (room == it->n_room)
		return true;
	grown = realloc(it->handles, (size_t)room * it->call.handle_bytes);
	if (!grown)
		return false;
	it->handles = grown;
	grown = realloc(it->parts, room * sizeof *it->parts);
	if (!grown)
		return false;
	it->parts = grown;
	grown = realloc(it->over, room * sizeof *it->over);
	if (!grown)
		return false;
	it->over = grown;
	grown = realloc(it->indices, room * sizeof *it->indices);
	if (!grown)
		return false;
	it->indices = grown;
	it->n_room = room;
	return true;
}

static bool put_send(struct engine *it, struct op *op, uint32_t to, int tag,
	const void *data, size_t bytes)
{
	int rc = it->call.isend(data, (int)bytes, it->call.byte, (int)to, tag,
		it->comm, handle_at(it, it->n_parts));

	if (rc) {
		break_down(it, "MPI_Isend", rc);
		op->status = TAUT_EIO;
		return false;
	}
	it->parts[it->n_parts++] = (struct part){ .op = op, .sends = true };
	op->n_pending++;
	return true;
}

static bool put_receive(struct engine *it, const struct part *part, int from,
	int tag, void *into, size_t bytes)
{
	int rc = it->call.irecv(into, (int)bytes, it->call.byte, from, tag,
		it->comm, handle_at(it, it->n_parts));

	if (rc) {
		break_down(it, "MPI_Irecv", rc);
		return false;
	}
	it->parts[it->n_parts++] = *part;
	return true;
}

static void listen(struct engine *it, void *buffer)
{
	const struct part part = { .listens = buffer };

	it->n_idle += put_receive(it, &part, it->call.any_source, 0, buffer,
		ENVELOPE_BYTES);
}

/* --- ends ---------------------------------------------------------------------------------*/

static void end_op(struct op *op, taut_status status)
{
	struct taut_coll_request *request = op->request;

	if (op->status == TAUT_OK)
		op->status = status;
	status = op->status;
	free(op);
	if (request)
		request->done(request, status);
}

static void end_part_of(struct op *op)
{
	if (--op->n_pending == 0)
		end_op(op, TAUT_OK);
}

/* Its bytes are taken in, so that the sender comes to its end. */
static void waste(struct engine *it, const struct envelope *envelope)
{
	struct part part = { .waste = NULL };

	if (!envelope->data_tag)
		return;
	part.waste = malloc(envelope->bytes ? envelope->bytes : 1);
	if (!part.waste || !reserve(it, 1) || !put_receive(it, &part,
			(int)envelope->sender, envelope->data_tag, part.waste,
			envelope->bytes))
		free(part.waste);
}

/* The envelope of a receive is there. */
static void deliver(
	struct engine *it, struct op *op, const struct envelope *envelope)
{
	const struct part part = { .op = op };

	if (envelope->bytes != op->bytes) {
		waste(it, envelope);
		end_op(op, TAUT_EMATCH);
		return;
	}
	if (!envelope->data_tag) {
		if (op->bytes)
			memcpy(op->into, envelope + 1, op->bytes);
		end_op(op, TAUT_OK);
		return;
	}
	op->n_pending = 1;
	if (!reserve(it, 1))
		end_op(op, TAUT_ENOMEM);
	else if (!put_receive(it, &part, (int)op->peer, envelope->data_tag,
			op->into, op->bytes))
		end_op(op, TAUT_EIO);
}

/* --- what comes ---------------------------------------------------------------------------*/

static struct op *take_waiting(struct engine *it, const struct envelope *envelope)
{
	struct op **at = &it->waiting, *found;

	while (*at && ((*at)->peer != envelope->sender ||
		(*at)->tag != envelope->tag))
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = found->next;
	return found;
}

static void keep(struct engine *it, const struct envelope *envelope)
{
	size_t bytes = envelope->data_tag ? 0 : envelope->bytes;
	struct unasked *kept = malloc(sizeof *kept + bytes);
	struct unasked **end = &it->unasked;

	if (!kept) {
		(void)no_memory(&it->fault);
		return;
	}
	kept->next = NULL;
	memcpy(&kept->envelope, envelope, sizeof *envelope + bytes);
	while (*end)
		end = &(*end)->next;
	*end = kept;
}

static bool makes_sense(
	const struct engine *it, const struct envelope *envelope)
{
	return envelope->sender < it->n_ranks && envelope->kind <= BYE &&
		envelope->bytes <= (envelope->data_tag ? UINT64_C(1) << 30 :
			EAGER_BYTES);
}

static void receive(struct engine *it, const struct envelope *envelope)
{
	struct op *op;

	if (!makes_sense(it, envelope)) {
		if (!it->fault.code)
			taut_error_set(&it->fault, TAUT_EFORMAT, -1,
				"engine mpi: an envelope makes no sense");
		return;
	}
	if (envelope->kind == BYE) {
		it->n_left += !it->left[envelope->sender];
		it->left[envelope->sender] = true;
		return;
	}
	if (it->ends) {
		waste(it, envelope);
		return;
	}
	op = take_waiting(it, envelope);
	if (op)
		deliver(it, op, envelope);
	else
		keep(it, envelope);
}

static void settle(struct engine *it, struct part part)
{
	if (part.listens) {
		it->n_idle--;
		receive(it, part.listens);
		if (reserve(it, 1))
			listen(it, part.listens);
		else
			(void)no_memory(&it->fault);
	} else if (part.op) {
		end_part_of(part.op);
	} else {
		free(part.waste);
	}
}

/* Takes those that are over out: those behind them move up. */
static void take_out(struct engine *it, int n_over)
{
	uint32_t bytes = it->call.handle_bytes, n = 0;

	for (int i = 0; i < n_over; i++) {
		struct part *part = &it->parts[it->indices[i]];

		it->over[i] = *part;
		*part = (struct part){ .op = NULL };
	}
	for (uint32_t i = 0; i < it->n_parts; i++) {
		const struct part *part = &it->parts[i];

		if (!part->op && !part->listens && !part->waste)
			continue;
		if (i != n) {
			it->parts[n] = *part;
			memcpy(handle_at(it, n), handle_at(it, i), bytes);
		}
		n++;
	}
	it->n_parts = n;
}

/* Whether anything moved. */
static bool move(struct engine *it)
{
	int n_over = 0, rc = it->call.testsome((int)it->n_parts, it->handles,
		&n_over, it->indices, it->call.status_ignore);
	struct part *over;

	if (rc)
		break_down(it, "MPI_Testsome", rc);
	if (rc || n_over <= 0 || n_over == it->call.undefined)
		return false;
	take_out(it, n_over);
	over = malloc((size_t)n_over * sizeof *over);
	if (!over) {
		(void)no_memory(&it->fault);
		return false;
	}
	memcpy(over, it->over, (size_t)n_over * sizeof *over);
	for (int i = 0; i < n_over; i++)
		settle(it, over[i]);
	free(over);
	return true;
}

/* --- the engine ---------------------------------------------------------------------------*/

static taut_status mpi_send(void *engine, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct engine *it = engine;
	bool eager = bytes <= EAGER_BYTES;
	struct op *op = malloc(sizeof *op + (eager ? bytes : 0));

	if (!op || !reserve(it, 2 * n_peers)) {
		free(op);
		return no_memory(err);
	}
	if (!eager)
		it->next_tag = (uint16_t)(it->next_tag % DATA_TAGS + 1);
	*op = (struct op){ .request = request, .n_pending = 1,
		.envelope = { .tag = tag, .bytes = bytes, .sender = it->rank,
			.data_tag = eager ? 0 : it->next_tag, .kind = MESSAGE } };
	if (eager && bytes)
		memcpy(&op->envelope + 1, data, bytes);
	for (uint32_t i = 0; i < n_peers; i++)
		if (put_send(it, op, peers[i], 0, &op->envelope,
				sizeof op->envelope + (eager ? bytes : 0)) &&
			!eager)
			put_send(it, op, peers[i], op->envelope.data_tag, data,
				bytes);
	end_part_of(op);
	return TAUT_OK;
}

static taut_status mpi_recv(void *engine, uint32_t peer, uint64_t tag,
	void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct engine *it = engine;
	struct op *op = malloc(sizeof *op);
	struct unasked **at = &it->unasked, *found;

	if (!op)
		return no_memory(err);
	*op = (struct op){ .request = request, .peer = peer, .tag = tag,
		.into = data, .bytes = bytes };
	while (*at && ((*at)->envelope.sender != peer ||
		(*at)->envelope.tag != tag))
		at = &(*at)->next;
	found = *at;
	if (!found) {
		op->next = it->waiting;
		it->waiting = op;
		return TAUT_OK;
	}
	*at = found->next;
	deliver(it, op, &found->envelope);
	free(found);
	return TAUT_OK;
}

/* One that left, and of which something is waited for. */
static void see_left(struct engine *it)
{
	for (const struct op *op = it->waiting; op && !it->fault.code;
		op = op->next)
		if (it->left[op->peer])
			taut_error_set(&it->fault, TAUT_EIO, -1,
				"rank %" PRIu32 " is gone", op->peer);
}

static taut_status fault_of(const struct engine *it, struct taut_error *err)
{
	if (it->fault.code && err)
		*err = it->fault;
	return it->fault.code;
}

static taut_status mpi_progress(void *engine, struct taut_error *err)
{
	struct engine *it = engine;

	if (!it->fault.code && !move(it) && it->n_left)
		see_left(it);
	return fault_of(it, err);
}

/* Longer each time, up to half a millisecond. */
static void nap(uint32_t turn)
{
	struct timespec time = { 0, 20000 };

	if (turn < YIELDS) {
		sched_yield();
		return;
	}
	time.tv_nsec += (turn - YIELDS < 24 ? turn - YIELDS : 24) * 20000;
	nanosleep(&time, NULL);
}

static taut_status mpi_wait(void *engine, int64_t timeout_ns,
	struct taut_error *err)
{
	struct engine *it = engine;
	int64_t end_ns = timeout_ns < 0 ? INT64_MAX : tauti_now_ns() + timeout_ns;

	for (uint32_t turn = 0; !it->fault.code; turn++) {
		if (atomic_exchange(&it->woken, false) || move(it) ||
			tauti_now_ns() >= end_ns)
			break;
		if (it->n_left)
			see_left(it);
		nap(turn);
	}
	return fault_of(it, err);
}

static void mpi_wake(void *engine)
{
	struct engine *it = engine;

	atomic_store(&it->woken, true);
}

static bool mpi_arrived(void *engine, uint64_t tag, uint64_t mask)
{
	const struct engine *it = engine;
	const struct unasked *at = it->unasked;

	while (at && ((at->envelope.tag ^ tag) & mask))
		at = at->next;
	return at != NULL;
}

/* --- life ---------------------------------------------------------------------------------*/

static void say_bye(struct engine *it)
{
	struct op *op = malloc(sizeof *op);

	if (!op || !reserve(it, it->n_ranks)) {
		free(op);
		return;
	}
	*op = (struct op){ .n_pending = 1, .envelope = { .sender = it->rank,
		.kind = BYE } };
	for (uint32_t i = 0; i < it->n_ranks; i++)
		if (i != it->rank)
			put_send(it, op, i, 0, &op->envelope,
				sizeof op->envelope);
	end_part_of(op);
}

/* What nobody will ask for any more. */
static void drop_unasked(struct engine *it)
{
	while (it->unasked) {
		struct unasked *unasked = it->unasked;

		it->unasked = unasked->next;
		waste(it, &unasked->envelope);
		free(unasked);
	}
	while (it->waiting) {
		struct op *op = it->waiting;

		it->waiting = op->next;
		end_op(op, TAUT_EIO);
	}
}

/* Receives are taken back. A send cannot be: MPI goes on with it if it can. */
static void give_up(struct engine *it)
{
	for (uint32_t i = 0; i < it->n_parts; i++) {
		struct part *part = &it->parts[i];

		if (part->sends) {
			it->call.request_free(handle_at(it, i));
		} else {
			it->call.cancel(handle_at(it, i));
			it->call.wait(handle_at(it, i), it->call.status_ignore);
		}
		free(part->waste);
		if (!part->op)
			continue;
		part->op->status = TAUT_EIO;
		if (!part->sends) {
			end_part_of(part->op);
		} else if (part->op->request) { /* MPI may still read the op */
			struct taut_coll_request *request = part->op->request;

			part->op->request = NULL;
			request->done(request, TAUT_EIO);
		}
	}
	it->n_parts = 0;
}

static void free_engine(struct engine *it)
{
	for (int i = 0; i < LISTENERS; i++)
		free(it->listeners[i]);
	free(it->handles);
	free(it->parts);
	free(it->over);
	free(it->indices);
	free(it->left);
	free(it);
}

static void mpi_destroy(void *engine)
{
	struct engine *it = engine;
	int64_t end_ns = tauti_now_ns() + leave_ns;
	bool broken = it->fault.code != TAUT_OK;

	it->ends = true;
	say_bye(it);
	drop_unasked(it);
	for (uint32_t turn = 0; it->n_parts > it->n_idle ||
		(it->n_left < it->n_ranks - 1 && !broken); turn++) {
		if (tauti_now_ns() >= end_ns)
			break;
		if (move(it))
			turn = 0;
		nap(turn);
	}
	give_up(it);
	free_engine(it);
}

static const struct taut_coll_engine mpi = {
	.name = "mpi",
	.max_message_bytes = UINT64_C(1) << 30,
	.send = mpi_send,
	.recv = mpi_recv,
	.progress = mpi_progress,
	.wait = mpi_wait,
	.wake = mpi_wake,
	.arrived = mpi_arrived,
	.destroy = mpi_destroy,
};

taut_status tauti_mpi_engine_create(const struct tauti_mpi_calls *calls,
	uintptr_t comm, uint32_t rank, uint32_t n_ranks,
	struct tauti_engine *ret_engine, struct taut_error *reterr)
{
	struct engine *it = calloc(1, sizeof *it);
	bool whole = it != NULL;

	if (!it)
		return no_memory(reterr);
	it->call = *calls;
	it->comm = comm;
	it->rank = rank;
	it->n_ranks = n_ranks;
	it->left = calloc(n_ranks, sizeof *it->left);
	whole = it->left && reserve(it, LISTENERS);
	for (int i = 0; i < LISTENERS; i++)
		whole = (it->listeners[i] = malloc(ENVELOPE_BYTES)) && whole;
	if (!whole) {
		free_engine(it);
		return no_memory(reterr);
	}
	for (int i = 0; i < LISTENERS; i++)
		listen(it, it->listeners[i]);
	if (it->fault.code) {
		taut_status status = fault_of(it, reterr);

		give_up(it);
		free_engine(it);
		return status;
	}
	*ret_engine = (struct tauti_engine){ &mpi, it };
	return TAUT_OK;
}
