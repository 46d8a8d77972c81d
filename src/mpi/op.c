/* op.c - calls in parts: copied from a device and back while others are summed. */
#include <sched.h>
#include <string.h>

#include "mpi/mpi.h"

/* --- failures -----------------------------------------------------------------------------*/

void tauti_form_op_fail(struct tauti_form_op *op, taut_status status,
	const struct taut_error *why, bool breaks)
{
	struct tauti_form_comm *it = op->comm;

	if (!op->status) {
		op->status = status;
		if (why)
			op->why = *why;
	}
	if (!breaks || it->broken)
		return;
	if (why)
		it->why = *why;
	atomic_store(&it->broken, true);
}

/* Who waits to come in has looked whether to wake us, or sees that it is broken. */
void tauti_form_break(struct tauti_form_comm *it)
{
	struct taut_comm *taut;

	if (!it->taut)
		return;
	pthread_mutex_unlock(&it->lock);
	while (atomic_load(&it->n_wanted))
		sched_yield();
	pthread_mutex_lock(&it->lock);
	taut = it->taut;
	it->taut = NULL;
	if (taut)
		tauti_mpi_form.taut.destroy(taut);
}

/* --- a part -------------------------------------------------------------------------------*/

static void *lane_of(const struct tauti_form_piece *piece)
{
	return tauti_gpu_lane_memory(piece->lane);
}

static char *place_of(const struct tauti_form_piece *piece, const void *base)
{
	return (char *)(uintptr_t)base + piece->first * piece->op->element;
}

static size_t bytes_of(const struct tauti_form_piece *piece)
{
	return (size_t)(piece->count * piece->op->element);
}

static const void *input_of(const struct tauti_form_op *op)
{
	return op->call.in ? op->call.in : op->call.out;
}

static void put_away(struct tauti_form_piece *piece)
{
	if (piece->lane)
		tauti_gpu_lane_give(piece->lane);
	piece->lane = NULL;
	piece->state = TAUTI_PIECE_FREE;
}

/* All of one size, where they can be, so that one does for another. */
static size_t lane_bytes(const struct tauti_form_op *op)
{
	uint64_t bytes = op->part * op->element;

	return (size_t)(bytes < op->comm->part_bytes ? op->comm->part_bytes :
		bytes);
}

static bool holds_any(const struct tauti_form_op *op)
{
	for (uint32_t i = 0; i < TAUTI_FORM_PIECES; i++)
		if (op->piece[i].state != TAUTI_PIECE_FREE)
			return true;
	return false;
}

/* The next part; what it is copied from begins to be. Memory that is short may be
 * there when another part has ended. */
static bool take_part(struct tauti_form_piece *piece)
{
	struct tauti_form_op *op = piece->op;
	struct tauti_gpu_side *side = op->in_side ? op->in_side : op->out_side;
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_OK;

	piece->first = op->n_taken * op->part;
	piece->count = op->call.count - piece->first;
	if (piece->count > op->part)
		piece->count = op->part;
	if (side)
		status = tauti_gpu_lane_take(
			side, lane_bytes(op), &piece->lane, &err);
	if (status == TAUT_ENOMEM && holds_any(op))
		return false;
	piece->state = op->in_side ? TAUTI_PIECE_LOADING : TAUTI_PIECE_LOADED;
	op->n_taken++;
	if (!status && op->in_side)
		status = tauti_gpu_copy_add(op->in_side, TAUTI_GPU_DOWN,
			lane_of(piece), place_of(piece, input_of(op)),
			bytes_of(piece), &err);
	if (!status && op->in_side)
		status = tauti_gpu_copy_mark(op->in_side, &piece->copy, &err);
	if (status)
		tauti_form_op_fail(op, status, &err, true);
	return true;
}

static void note_sum(void *context, taut_status status)
{
	struct tauti_form_piece *piece = context;

	piece->state = TAUTI_PIECE_SUMMED;
	if (status)
		tauti_form_op_fail(piece->op, status, NULL, false);
}

/* TAUT_ENOMEM: later; the others wait. */
static bool start_sum(struct tauti_form_piece *piece)
{
	struct tauti_form_op *op = piece->op;
	struct taut_error err = { .message = "" };
	void *out = op->out_side ? lane_of(piece) :
		place_of(piece, op->call.out);
	void *in = op->in_side ? lane_of(piece) :
		place_of(piece, input_of(op));
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
		.type = op->call.type, .input = in == out ? NULL : in,
		.output = out, .count = piece->count,
		.reduction = op->call.reduction };
	taut_status status;

	piece->state = TAUTI_PIECE_SUMMING;
	status = tauti_mpi_form.taut.start(
		op->comm->taut, &call, note_sum, piece, &err);
	if (status == TAUT_ENOMEM) {
		piece->state = TAUTI_PIECE_LOADED;
		return false;
	}
	op->n_started++;
	if (status) {
		piece->state = TAUTI_PIECE_SUMMED;
		tauti_form_op_fail(op, status, &err, false);
	}
	return true;
}

static void begin_store(struct tauti_form_piece *piece)
{
	struct tauti_form_op *op = piece->op;
	struct taut_error err = { .message = "" };
	taut_status status;

	if (!op->out_side || op->status) {
		op->n_over++;
		put_away(piece);
		return;
	}
	piece->state = TAUTI_PIECE_STORING;
	status = tauti_gpu_copy_add(op->out_side, TAUTI_GPU_UP,
		place_of(piece, op->call.out), lane_of(piece), bytes_of(piece),
		&err);
	if (!status)
		status = tauti_gpu_copy_mark(op->out_side, &piece->copy, &err);
	if (status)
		tauti_form_op_fail(op, status, &err, true);
}

static bool copy_is_over(struct tauti_form_piece *piece)
{
	struct taut_error err = { .message = "" };
	bool over = true;
	taut_status status = tauti_gpu_copy_test(&piece->copy, &over, &err);

	if (status)
		tauti_form_op_fail(piece->op, status, &err, true);
	return over;
}

/* Of parts that are loaded the next one starts. */
static bool is_next(const struct tauti_form_piece *piece)
{
	const struct tauti_form_op *op = piece->op;

	return piece->first == op->n_started * op->part;
}

/* Whether anything changed. */
static bool move_piece(struct tauti_form_piece *piece, bool may_start)
{
	struct tauti_form_op *op = piece->op;

	switch (piece->state) {
	case TAUTI_PIECE_FREE:
		return !op->status && op->n_taken < op->n_parts &&
			take_part(piece);
	case TAUTI_PIECE_LOADING:
		if (!copy_is_over(piece))
			return false;
		piece->state = TAUTI_PIECE_LOADED;
		return true;
	case TAUTI_PIECE_LOADED:
		if (op->status || op->comm->broken || !op->comm->taut) {
			tauti_form_op_fail(op, TAUT_EIO, &op->comm->why, false);
			put_away(piece);
			return true;
		}
		return may_start && is_next(piece) && start_sum(piece);
	case TAUTI_PIECE_SUMMING:
		return false;
	case TAUTI_PIECE_SUMMED:
		begin_store(piece);
		return true;
	case TAUTI_PIECE_STORING:
		if (!copy_is_over(piece))
			return false;
		op->n_over++;
		put_away(piece);
		return true;
	}
	return false;
}

static void move_pieces(struct tauti_form_op *op, bool may_start)
{
	struct tauti_form_comm *it = op->comm;
	bool changed;

	do {
		changed = false;
		for (uint32_t i = 0; i < TAUTI_FORM_PIECES; i++)
			changed |= move_piece(&op->piece[i], may_start);
	} while (changed);
	op->started = op->status || op->n_started == op->n_parts;
	op->over = !holds_any(op) &&
		(op->status || op->n_over == op->n_parts);
	for (uint32_t i = 0; i < TAUTI_FORM_PIECES; i++)
		it->n_copies += op->piece[i].state == TAUTI_PIECE_LOADING ||
			op->piece[i].state == TAUTI_PIECE_STORING;
}

/* --- all calls ----------------------------------------------------------------------------*/

void tauti_form_ops_move(struct tauti_form_comm *it)
{
	struct tauti_form_op **at = &it->ops;
	bool may_start = true;

	it->n_copies = 0;
	while (*at) {
		struct tauti_form_op *op = *at;

		op->move(op, may_start);
		may_start = may_start && op->started;
		if (!op->over) {
			at = &op->next;
			continue;
		}
		*at = op->next;
		if (op->status && !it->why.code)
			it->why = op->why;
		op->done(op->context, op->status);
	}
	it->last_op = at;
}

bool tauti_form_op_wanted(const struct tauti_form_comm *it,
	const struct tauti_form_call *call, const struct tauti_form_where *where)
{
	uint64_t bytes = call->count * tauti_gpu_type_bytes(call->type);

	if (!call->in || !call->out) /* for Taut to refuse, as MPI would */
		return false;
	return where->in || where->out || it->ops ||
		(call->by_peers && it->peers) ||
		(it->part_bytes && bytes > it->part_bytes);
}

static taut_status find_sides(struct tauti_form_op *op,
	const struct tauti_form_where *where, struct taut_error *reterr)
{
	struct tauti_gpu *gpu = tauti_form_gpu();
	taut_status status = TAUT_OK;

	if (where->in)
		status = tauti_gpu_side_of(
			gpu, where->in, &op->in_side, reterr);
	if (where->out && !status)
		status = tauti_gpu_side_of(
			gpu, where->out, &op->out_side, reterr);
	return status;
}

static void cut(struct tauti_form_op *op, uint64_t part_bytes)
{
	uint64_t count = op->call.count;

	op->part = part_bytes ? part_bytes / op->element : count;
	op->n_parts = (count + op->part - 1) / op->part;
	if (op->part > count)
		op->part = count;
}

taut_status tauti_form_op_begin(struct tauti_form_op *op,
	struct tauti_form_comm *it, const struct tauti_form_call *call,
	const struct tauti_form_where *where,
	void (*done)(void *context, taut_status status), void *context,
	struct taut_error *reterr)
{
	bool rounds = call->by_peers && it->peers;
	taut_status status;

	memset(op, 0, sizeof *op);
	op->comm = it;
	op->call = *call;
	if ((uintptr_t)call->in == tauti_mpi_form.abi->in_place)
		op->call.in = NULL;
	op->element = tauti_gpu_type_bytes(call->type);
	op->done = done;
	op->context = context;
	op->move = rounds ? tauti_form_rounds_move : move_pieces;
	for (uint32_t i = 0; i < TAUTI_FORM_PIECES; i++)
		op->piece[i].op = op;
	cut(op, rounds ? TAUTI_FORM_PEER_BYTES : it->part_bytes);
	status = find_sides(op, where, reterr);
	if (status) {
		tauti_form_op_fail(op, status, reterr, true);
		return status;
	}
	if (!it->ops)
		it->last_op = &it->ops;
	*it->last_op = op;
	it->last_op = &op->next;
	return TAUT_OK;
}
