/* rounds.c - calls by the devices of one host, which reduce each other's memory. What
 * happens in a round: gpu/gpu.h. Ranks wait for each other by all-reduces of a byte. */
#include <stdlib.h>

#include "base/now.h"
#include "mpi/mpi.h"

/* --- rounds -------------------------------------------------------------------------------*/

enum {
	PUT,     /* the sums of the round before to the caller, and what is next */
	PUTTING, /* copies are under way */
	PUT_MET, /* all ranks have put theirs */
	SUMMING, /* a kernel is under way */
	SUM_MET, /* all ranks have summed */
};

static uint64_t count_of(const struct tauti_form_op *op, uint64_t round)
{
	uint64_t left = op->call.count - round * op->part;

	return left < op->part ? left : op->part;
}

static taut_status get(struct tauti_form_op *op, struct taut_error *err)
{
	uint64_t round = op->n_over - 1;

	return tauti_gpu_peers_get(op->comm->peers, (char *)op->call.out +
		round * op->part * op->element, op->out_side != NULL,
		op->call.type, count_of(op, round), err);
}

static taut_status put(struct tauti_form_op *op, struct taut_error *err)
{
	const char *in = op->call.in ? op->call.in : op->call.out;
	bool on_device = op->call.in ? op->in_side : op->out_side;

	return tauti_gpu_peers_put(op->comm->peers,
		in + op->n_over * op->part * op->element, on_device,
		(size_t)(count_of(op, op->n_over) * op->element), err);
}

static void mark(struct tauti_form_op *op, taut_status status, uint32_t phase,
	struct taut_error *err)
{
	if (!status)
		status = tauti_gpu_copy_mark(
			tauti_gpu_peers_side(op->comm->peers), &op->copy, err);
	if (status)
		tauti_form_op_fail(op, status, err, true);
	op->phase = phase;
}

/* n_over: rounds whose sums are made. */
static void begin_put(struct tauti_form_op *op)
{
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_OK;

	if (op->n_over)
		status = get(op, &err);
	if (!status && op->n_over < op->n_parts)
		status = put(op, &err);
	mark(op, status, PUTTING, &err);
}

static void begin_sum(struct tauti_form_op *op)
{
	struct taut_error err = { .message = "" };
	taut_status status = tauti_gpu_peers_sum(op->comm->peers,
		op->call.type, op->call.reduction, count_of(op, op->n_over),
		&err);

	mark(op, status, SUMMING, &err);
}

/* --- meeting ------------------------------------------------------------------------------*/

static taut_status start_word(struct tauti_form_comm *it, int8_t *word,
	void (*done)(void *context, taut_status status), void *context,
	struct taut_error *reterr)
{
	const struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
		.type = TAUT_INT8, .output = word, .count = 1,
		.reduction = TAUT_MAX };

	return tauti_mpi_form.taut.start(it->taut, &call, done, context, reterr);
}

static void note_met(void *context, taut_status status)
{
	struct tauti_form_op *op = context;

	op->waits = false;
	if (status)
		tauti_form_op_fail(op, status, NULL, false);
}

static bool meet(struct tauti_form_op *op, uint32_t phase)
{
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_EIO;

	op->word = 0;
	op->waits = true;
	if (op->comm->taut && !op->comm->broken)
		status = start_word(
			op->comm, &op->word, note_met, op, &err);
	if (!status) {
		op->phase = phase;
		return true;
	}
	op->waits = false;
	if (status == TAUT_ENOMEM) /* later; the others wait */
		return false;
	tauti_form_op_fail(op, status, &err, false);
	return true;
}

/* --- moving -------------------------------------------------------------------------------*/

static bool copy_is_over(struct tauti_form_op *op)
{
	struct taut_error err = { .message = "" };
	bool over = true;
	taut_status status = tauti_gpu_copy_test(&op->copy, &over, &err);

	if (status)
		tauti_form_op_fail(op, status, &err, true);
	return over;
}

/* Whether it may be asked again at once. */
static bool step(struct tauti_form_op *op)
{
	switch (op->phase) {
	case PUT:
		begin_put(op);
		return true;
	case PUTTING:
		if (!copy_is_over(op) || op->status)
			return false;
		op->over = op->n_over == op->n_parts;
		return !op->over && meet(op, PUT_MET);
	case PUT_MET:
		if (op->waits)
			return false;
		begin_sum(op);
		return true;
	case SUMMING:
		return copy_is_over(op) && !op->status && meet(op, SUM_MET);
	default:
		if (op->waits)
			return false;
		op->n_over++;
		op->phase = PUT;
		return true;
	}
}

void tauti_form_rounds_move(struct tauti_form_op *op, bool may_start)
{
	while (may_start && !op->status && !op->over && step(op))
		;
	if (op->status) /* the engine's, or the device's, until they are over */
		op->over = copy_is_over(op) && !op->waits;
	op->started = op->over;
	op->comm->n_copies += op->copy.side != NULL;
}

/* --- the devices' memory ------------------------------------------------------------------*/

static taut_status open_peers(struct tauti_form_comm *it,
	struct tauti_gpu_offer *mine, struct taut_error *err)
{
	struct tauti_gpu *gpu = tauti_form_gpu();

	mine->bytes = 0;
	if (!gpu)
		return taut_error_set(err, TAUT_EIO, -1,
			"no driver of a device is loaded");
	return tauti_gpu_peers_create(gpu, it->rank, it->n_ranks,
		TAUTI_FORM_PEER_BYTES, &it->peers, mine, err);
}

static int exchange(struct tauti_form_comm *it,
	const struct tauti_gpu_offer *mine, struct tauti_gpu_offer *all)
{
	const struct tauti_form_real *real = &tauti_mpi_form.real;
	tauti_form_handle byte = tauti_mpi_form.abi->byte;
	int rc = real->gather(mine, sizeof *mine, byte, all, sizeof *mine, byte,
		0, it->handle);

	return rc ? rc : real->bcast(all, (int)(it->n_ranks * sizeof *all),
		byte, 0, it->handle);
}

/* What one has opened, another does not free before that is closed. */
static int give_up(struct tauti_form_comm *it, int rc)
{
	if (it->peers)
		tauti_gpu_peers_close(it->peers);
	if (!rc)
		rc = tauti_mpi_form.real.barrier(it->handle);
	tauti_gpu_peers_destroy(it->peers, !rc);
	it->peers = NULL;
	return rc;
}

static int meet_peers(struct tauti_form_comm *it)
{
	const struct tauti_form_real *real = &tauti_mpi_form.real;
	struct tauti_gpu_offer mine = { .bytes = 0 }, *all;
	struct taut_error err = { .message = "" };
	int64_t can = 0, all_can = 0;
	int rc;

	all = calloc(it->n_ranks, sizeof *all);
	if (!all) {
		real->comm_call_errhandler(it->handle, tauti_mpi_form.err_other);
		return tauti_mpi_form.err_other;
	}
	can = !open_peers(it, &mine, &err);
	rc = exchange(it, &mine, all);
	if (can && !rc)
		can = !tauti_gpu_peers_open(it->peers, all, &err);
	free(all);
	if (!rc)
		rc = real->allreduce(&can, &all_can, 1, tauti_mpi_form.abi->int64,
			tauti_mpi_form.min_op, it->handle);
	if (!can)
		tauti_form_say("rank %u of %u: %s; sums are made on the host",
			it->rank, it->n_ranks, err.message);
	return all_can && !rc ? 0 : give_up(it, rc);
}

int tauti_form_meet_peers(struct tauti_form_comm *it)
{
	const struct tauti_form_aside aside =
		tauti_form_aside_begin(tauti_form_gpu());
	int rc = meet_peers(it);

	tauti_form_aside_end(&aside);
	return rc;
}

struct parting {
	bool over, met;
};

static void note_parted(void *context, taut_status status)
{
	struct parting *parting = context;

	parting->over = true;
	parting->met = !status;
}

/* Whether all ranks have come here, where nobody has another's memory open any more. A
 * rank that does not come in time, or cannot, ends it, too. */
static bool wait_for_all(struct tauti_form_comm *it)
{
	const int64_t until_ns = tauti_now_ns() + 5000000000;
	struct taut_error err = { .message = "" };
	static const struct timespec pause = { 0, 20000 };
	struct parting parting = { .over = false };
	int8_t word = 0;

	if (!it->taut || start_word(
		it, &word, note_parted, &parting, &err))
		return false;
	while (!parting.over &&
		!tauti_mpi_form.taut.progress(it->taut, &err)) {
		tauti_form_poke_mpi();
		if (tauti_now_ns() > until_ns)
			break;
		if (!parting.over)
			nanosleep(&pause, NULL);
	}
	if (parting.over)
		return parting.met;
	tauti_mpi_form.taut.destroy(it->taut); /* it has our word */
	it->taut = NULL;
	return false;
}

/* What another may still have open is not freed. */
void tauti_form_part_peers(struct tauti_form_comm *it)
{
	if (!it->peers)
		return;
	tauti_gpu_peers_close(it->peers);
	tauti_gpu_peers_destroy(it->peers, wait_for_all(it));
	it->peers = NULL;
}
