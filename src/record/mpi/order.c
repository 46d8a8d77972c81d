/* order.c - which message of its kind is this? MPI keeps messages of one
 * sender, receiver, communicator and tag in order, and gives each to the
 * receive that was posted first of all that fit. */
#include "record/mpi/mpi.h"

enum {
	TO_PEER, FROM_PEER, /* directions of a pair */
	MOST_BLOCKERS = 16,
	NUMBER_BITS = 20,
};

static int64_t low_bits(uint64_t number)
{
	return (int64_t)(number & ((1u << NUMBER_BITS) - 1));
}

/* Number and tag in one, as messages of two tags are two sequences. Whoever
 * has counted to 2^20 begins again, on both sides. */
static int64_t next_number(struct tauti_mpi_comm *comm, int32_t peer,
	int32_t tag, uint32_t direction)
{
	uint32_t *count = tauti_mpi_pair(comm->uid, peer, tag, direction);

	return count ? (int64_t)tag << NUMBER_BITS |
		low_bits((*count)++) : -1;
}

int64_t tauti_mpi_number_send(
	struct tauti_mpi_comm *comm, int32_t dst, int32_t tag)
{
	return next_number(comm, dst, tag, TO_PEER);
}

static void number(struct tauti_mpi_op *op)
{
	op->args.seq = next_number(op->comm, op->peer, op->tag, FROM_PEER);
	op->args.src = tauti_mpi_world_rank(op->comm, op->peer);
	op->numbered = true;
}

static bool is_keyed(const struct tauti_mpi_op *op)
{
	return op->peer != tauti_mpi.abi->any_source &&
		op->tag != tauti_mpi.abi->any_tag;
}

/* Could the message of key have gone to op, which is not known to have one? */
static bool may_take(
	const struct tauti_mpi_op *op, const struct tauti_mpi_op *key)
{
	const struct tauti_mpi_abi *abi = tauti_mpi.abi;

	return (op->peer == abi->any_source || op->peer == key->peer) &&
		(op->tag == abi->any_tag || op->tag == key->tag);
}

static void append(struct tauti_mpi_op *op)
{
	struct tauti_mpi_comm *comm = op->comm;

	op->in_order = true;
	op->order_next = NULL;
	if (comm->last)
		comm->last->order_next = op;
	else
		comm->first = op;
	comm->last = op;
}

/* previous: NULL for the first. */
static void take_out(struct tauti_mpi_op *op, struct tauti_mpi_op *previous)
{
	struct tauti_mpi_comm *comm = op->comm;

	if (previous)
		previous->order_next = op->order_next;
	else
		comm->first = op->order_next;
	if (comm->last == op)
		comm->last = previous;
	op->in_order = false;
}

void tauti_mpi_receive_posted(struct tauti_mpi_op *op)
{
	op->keyed = is_keyed(op);
	if (op->keyed && !op->comm->first) {
		number(op);
		return;
	}
	append(op);
	if (op->keyed)
		tauti_mpi_order_sweep(op->comm);
}

void tauti_mpi_receive_matched(
	struct tauti_mpi_op *op, int32_t src, int32_t tag)
{
	if (op->keyed)
		return;
	op->peer = src;
	op->tag = tag;
	op->keyed = true;
	if (!op->in_order)
		number(op);
}

void tauti_mpi_receive_cancelled(struct tauti_mpi_op *op)
{
	struct tauti_mpi_op *previous = NULL;
	uint32_t *count;

	if (op->in_order) {
		for (struct tauti_mpi_op *o = op->comm->first; o != op;
			o = o->order_next)
			previous = o;
		take_out(op, previous);
	} else if (op->numbered && op->args.seq >= 0) {
		/* its number is free again, if no later one was given */
		count = tauti_mpi_pair(
			op->comm->uid, op->peer, op->tag, FROM_PEER);
		if (count && low_bits(*count - 1) ==
			low_bits((uint64_t)op->args.seq))
			--*count;
	}
}

static bool is_blocked(const struct tauti_mpi_op *op,
	struct tauti_mpi_op *const *blockers, int n)
{
	for (int i = 0; i < n; i++)
		if (may_take(blockers[i], op))
			return true;
	return false;
}

void tauti_mpi_order_sweep(struct tauti_mpi_comm *comm)
{
	struct tauti_mpi_op *blockers[MOST_BLOCKERS], *previous = NULL, *next;
	int n = 0;

	comm->refs++; /* what is written lets go of it */
	for (struct tauti_mpi_op *op = comm->first; op && n < MOST_BLOCKERS;
		op = next) {
		next = op->order_next;
		if (!op->keyed)
			blockers[n++] = op;
		if (!op->keyed || is_blocked(op, blockers, n)) {
			previous = op;
			continue;
		}
		number(op);
		take_out(op, previous);
		if (op->done)
			tauti_mpi_op_done(op, op->end_ns, op->correlation);
	}
	tauti_mpi_comm_release(comm);
}
