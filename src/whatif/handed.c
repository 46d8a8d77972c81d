/* handed.c - gradients of a framework that Taut's exchange sums instead: what the thread
 * that computes does for that, and no longer does.
 *
 *     DDP    | gradient | copy in | ...            | [launch] | ... | copies out | update
 *     Taut   | gradient | hand over | ...                            ... update before use
 *
 * Gradients are summed where they lie, so that copies and launches are not made. On a
 * host each gradient is handed over by a hook in Python, which wakes the exchange's
 * thread. What that thread takes of the core, for a byte, is taken for what Gloo's
 * threads do, which the recording's drag has (docs/costs.md); for a piece it takes some
 * more. */
#include <string.h>

#include "whatif/attach.h"
#include "whatif/compute.h"
#include "whatif/schedule.h"

/* bench/hand_over.py, on an AMD EPYC, one core a host: 20 to 27 and 30 to 33 us where
 * gradients have 50 and 390 KB in the mean, 80 and 65 of 1.5 and 2.6 MB, in which the
 * kernel sends on the same core: that is in the drag, too. Of it 3 us are of DDP's hook,
 * in whose place ours stands. */
static const double hand_low_ns = 10e3, hand_ns = 25e3, hand_high_ns = 60e3;
/* The same bench: 8 to 20 us more where the end of the step is crossed and gradients are
 * many: hooks of modules, and what looks which gradients came and what is late. */
static const double late_low_ns = 0, late_ns = 10e3, late_high_ns = 20e3;
/* bench/piece_core.py, same machine: 28 and 33 us of the core a piece in jobs of 450 and 390
 * of them a step; of fewer than 150 it says nothing, for steps differ by as much. */
static const double piece_low_ns = 15e3, piece_ns = 30e3, piece_high_ns = 45e3;

static bool is_copy(const void *context, const char *name)
{
	(void)context;
	return strstr(name, "reducer::mul_out") ||
		strstr(name, "reducer::copy_");
}

static bool has(const void *word, const char *name)
{
	return strstr(name, word) != NULL;
}

static bool is_laid_copy(const char *name)
{
	return !strcmp(name, TAUTI_COPY_IN) || !strcmp(name, TAUTI_COPY_OUT);
}

static taut_status forget_copies(struct tauti_whatif *w, uint32_t rank,
	const uint8_t *copies, struct taut_error *err)
{
	uint32_t lane = tauti_main_lane(w, rank);
	taut_status status = TAUT_OK;

	if (lane == TAUT_NONE)
		return TAUT_OK;
	for (uint32_t i = taut_edit_first(w->edit, lane); !status &&
		i != TAUT_NONE; i = taut_edit_next(w->edit, i)) {
		struct taut_op op;

		if (!taut_edit_op(w->edit, i, &op) || op.dur_ns <= 0)
			continue;
		if (op.like == TAUT_NONE ?
			is_laid_copy(taut_edit_name(w->edit, op.name)) :
			tauti_is_work(op.kind) && tauti_picked(copies, &op))
			status = tauti_vanish(w, i, &op, err);
	}
	return status;
}

/* The last gradient's is before the launch, with which the transfer may begin. */
static taut_status hand_bucket(struct tauti_whatif *w,
	const struct tauti_bucket *b, const struct tauti_gradient *of,
	uint32_t rank, int64_t dur_ns, struct taut_error *err)
{
	taut_status status = tauti_launch_silence(w, rank, b->launch, err);

	for (uint32_t i = 0; !status && i < b->n; i++) {
		uint32_t after = TAUT_NONE, id;

		if (i + 1 == b->n && b->launch != TAUT_NONE)
			after = taut_edit_before(w->edit, b->launch);
		if (after == TAUT_NONE)
			after = of[i].ready;
		status = tauti_insert_work(w, after,
			"hand over to the exchange", dur_ns, &id, err);
	}
	return status;
}

static taut_status hand_step(struct tauti_whatif *w,
	const struct tauti_ddp *ddp, const struct tauti_ddp_step *s,
	struct taut_error *err)
{
	int64_t dur_ns = llround(
		tauti_range(w, hand_low_ns, hand_ns, hand_high_ns));
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < s->n_buckets; i++) {
		const struct tauti_bucket *b =
			&ddp->buckets.data[s->first_bucket + i];

		status = hand_bucket(w, b, &ddp->gradients.data[
			s->first_gradient + b->first], s->rank, dur_ns, err);
	}
	return status;
}

/* --- what batch norms keep ------------------------------------------------------------------
 * The exchange sends it while the backward pass before runs (python/taut/_norms.py), and
 * nothing waits for it: a few KB, which are taken for nothing. */

/* An instance norm calls a batch norm, and keeps nothing. */
static taut_status find_norms(
	struct tauti_whatif *w, bool *ret_found, struct taut_error *err)
{
	uint8_t *norms, *instances;
	taut_status status = tauti_pick(w, has, "batch_norm", &norms, err);

	if (!status)
		status = tauti_pick(w, has, "instance_norm", &instances, err);
	*ret_found = false;
	for (uint32_t i = 0; !status && i < w->graph->n_ops; i++)
		*ret_found |= norms[i] && !instances[i];
	return status;
}

static bool is_of_forward(const struct tauti_whatif *w, uint32_t collective)
{
	const struct taut_graph *g = w->graph;
	uint32_t like = taut_edit_collective_like(w->edit, collective);

	return like != TAUT_NONE && w->job->phase[g->member_arrive[
		g->collectives[like].first_member]] == TAUTI_PHASE_FORWARD;
}

static taut_status forget_broadcasts(struct tauti_whatif *w, struct taut_error *err)
{
	uint32_t n = taut_edit_collectives(w->edit), found = 0;
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_collective is;

		if (!taut_edit_collective(w->edit, i, &is) ||
			is.kind != TAUT_COLL_BROADCAST ||
			!is_of_forward(w, i))
			continue;
		found++;
		status = taut_edit_remove_collective(w->edit, i, err);
	}
	return status || !found ? status : tauti_note(w, err, "schedule: what "
		"batch norms keep is taken to be all that the forward pass "
		"broadcasts; Taut sends it during the backward pass");
}

static taut_status send_early(struct tauti_whatif *w, struct taut_error *err)
{
	uint32_t n = taut_edit_ops(w->edit);
	uint8_t *broadcasts;
	bool has_norms;
	taut_status status = find_norms(w, &has_norms, err);

	if (status || !has_norms)
		return status;
	status = tauti_pick(w, has, "c10d::broadcast", &broadcasts, err);
	if (!status)
		status = forget_broadcasts(w, err);
	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_op op;

		if (taut_edit_op(w->edit, i, &op) && tauti_is_work(op.kind) &&
			tauti_picked(broadcasts, &op) &&
			tauti_op_phase(w, &op) == TAUTI_PHASE_FORWARD)
			status = tauti_vanish(w, i, &op, err);
	}
	return status;
}

/* --- what a transfer takes ------------------------------------------------------------------
 * A transfer of the recording that took longer than others of its size did so since its
 * thread waited for the core; Taut's own take less of it. So all take what the line of
 * the recording's says. */

static taut_status take_by_line(struct tauti_whatif *w,
	const struct tauti_bucket *b, struct taut_error *err)
{
	struct tauti_way way = tauti_way_of(w, b->collective);
	uint32_t like = way.like ? way.like - 1 : b->like;
	struct taut_law_in in;
	struct taut_transfer t;

	if (like == TAUT_NONE || b->bytes <= 0 || way.ns_per_byte > 0 ||
		w->costs->transfers[like].amount <= 0)
		return TAUT_OK;
	in = taut_costs_law_in(w->costs, like);
	in.bytes = (double)b->bytes;
	t = taut_costs_transfer(w->costs, TAUT_NONE, &in,
		w->doubt == TAUTI_DOUBT_LINE ? 2.0 * w->side : 0);
	if (t.amount <= 0)
		return TAUT_OK; /* there is no line */
	way.like = like + 1;
	way.put_bytes = in.bytes;
	way.put_amount = t.amount;
	way.put_latency_ns = (double)t.latency_ns;
	return tauti_set_way(w, b->collective, &way, err);
}

taut_status tauti_hand_over(struct tauti_whatif *w, const struct tauti_ddp *ddp,
	struct taut_error *err)
{
	uint8_t *copies;
	taut_status status = tauti_pick(w, is_copy, NULL, &copies, err);
	uint32_t rank = TAUT_NONE;

	for (size_t i = 0; !status && i < ddp->steps.count; i++) {
		const struct tauti_ddp_step *s = &ddp->steps.data[i];

		if (s->rank != rank)
			status = forget_copies(w, rank = s->rank, copies, err);
		if (!status)
			status = hand_step(w, ddp, s, err);
	}
	for (size_t i = 0; !status && i < ddp->buckets.count; i++)
		status = take_by_line(w, &ddp->buckets.data[i], err);
	return status ? status : send_early(w, err);
}

double tauti_piece_ns(const struct tauti_whatif *w)
{
	return tauti_range(w, piece_low_ns, piece_ns, piece_high_ns);
}

int64_t tauti_late_ns(const struct tauti_whatif *w)
{
	return llround(tauti_range(w, late_low_ns, late_ns, late_high_ns));
}
