/* lay.c - brings the edit to what is wanted, by what differs. */
#include "plan/fusion/own.h"

enum { LONG_JOURNAL = 1 << 16 }; /* records; 16 bytes each, and what they made */

static uint32_t op_of(const struct tauti_fusion *f, uint32_t operator_)
{
	return f->ops[operator_].op;
}

/* --- what is always there --------------------------------------------------------- */

static taut_status add_lane(struct tauti_fusion *f, struct taut_error *err)
{
	struct taut_graph_lane lane = taut_edit_lane(f->edit, f->lane);

	lane.is_main = 0;
	lane.is_comm = 1;
	return taut_edit_add_lane(f->edit, &lane, &f->network, err);
}

static taut_status add_slot(struct tauti_fusion *f, uint32_t gradient,
	uint32_t after, struct taut_error *err)
{
	const struct tauti_fusion_gradient *g = &f->gradients[gradient];
	struct taut_op op = { .lane = f->network, .event = TAUT_NONE,
		.collective = TAUT_NONE, .kind = TAUT_OP_TRANSFER,
		.like = TAUT_NONE };
	taut_status status = taut_edit_insert(f->edit, after, &op,
		"gradient", &f->slot_op[gradient], err);

	for (uint32_t i = 0; !status && i < g->n_updates; i++)
		status = taut_edit_connect(f->edit, f->slot_op[gradient],
			f->updates[g->first_update + i], TAUT_EDGE_COMM, 0, err);
	return status;
}

taut_status tauti_fusion_lay_base(struct tauti_fusion *f, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	uint32_t after;

	if (f->network == TAUT_NONE)
		status = add_lane(f, err);
	if (status)
		return status;
	after = f->before_slots = taut_edit_last(f->edit, f->network);
	for (uint32_t i = 0; !status && i < f->n_gradients; i++) {
		status = add_slot(f, i, after, err);
		after = f->slot_op[i];
	}
	f->base_mark = taut_edit_mark(f->edit);
	return status;
}

/* --- what changes ------------------------------------------------------------------- */

static void start_anew(struct tauti_fusion *f)
{
	taut_edit_undo(f->edit, f->base_mark);
	f->n_changed = 0;
	for (uint32_t i = 0; i < f->n_ops; i++) {
		f->laid_ns[i] = f->dur_ns[i];
		f->is_changed[i] = f->want_ns[i] != f->laid_ns[i];
		if (f->is_changed[i])
			f->changed[f->n_changed++] = i;
	}
	for (uint32_t i = 0; i < f->n_gradients; i++)
		f->laid[i] = (struct tauti_slot) { 0, TAUT_NONE };
	f->is_in_order = true;
	f->slots = (struct tauti_span32) { 0, f->n_gradients };
}

static taut_status lay_operators(struct tauti_fusion *f, struct taut_error *err)
{
	while (f->n_changed) {
		uint32_t i = f->changed[f->n_changed - 1];

		if (f->want_ns[i] != f->laid_ns[i]) {
			taut_status status = taut_edit_set_dur(
				f->edit, op_of(f, i), f->want_ns[i], err);

			if (status)
				return status;
			f->laid_ns[i] = f->want_ns[i];
		}
		f->is_changed[i] = 0;
		f->n_changed--;
	}
	return TAUT_OK;
}

static taut_status lay_ready(struct tauti_fusion *f, uint32_t i,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;
	uint32_t ready = f->want[i].ready;

	if (f->laid[i].ready == ready)
		return TAUT_OK;
	if (f->laid[i].ready != TAUT_NONE)
		status = taut_edit_disconnect(f->edit,
			op_of(f, f->laid[i].ready), f->slot_op[i], err);
	if (status)
		return status;
	f->laid[i].ready = TAUT_NONE;
	if (ready != TAUT_NONE)
		status = taut_edit_connect(f->edit, op_of(f, ready),
			f->slot_op[i], TAUT_EDGE_COMM, 0, err);
	if (!status)
		f->laid[i].ready = ready;
	return status;
}

static taut_status lay_slot(struct tauti_fusion *f, uint32_t i,
	struct taut_error *err)
{
	taut_status status;

	if (f->laid[i].dur_ns != f->want[i].dur_ns) {
		status = taut_edit_set_dur(
			f->edit, f->slot_op[i], f->want[i].dur_ns, err);
		if (status)
			return status;
		f->laid[i].dur_ns = f->want[i].dur_ns;
	}
	return lay_ready(f, i, err);
}

/* --- first come, first served --------------------------------------------------------- */

bool tauti_fusion_in_order(const struct tauti_fusion *f,
	const struct tauti_slot *slots)
{
	uint32_t latest = 0;

	for (uint32_t i = 0; i < f->n_gradients; i++) {
		if (slots[i].ready == TAUT_NONE)
			continue;
		if (slots[i].ready < latest)
			return false;
		latest = slots[i].ready;
	}
	return true;
}

/* Groups by when they are ready, each before all that are ready later; few are out of
 * place, and by little. */
static void find_order(struct tauti_fusion *f)
{
	uint32_t *order = f->wanted_order, n = 0, *ready = f->group_ready;

	for (uint32_t i = 0, end; i < f->n_gradients; i = end) {
		uint32_t at = n;

		for (end = i + 1; end < f->n_gradients && f->joined[end]; end++)
			;
		while (at && ready[order[at - 1]] > f->want[i].ready)
			at--;
		for (uint32_t k = n; k > at; k--)
			order[k + end - i - 1] = order[k - 1];
		for (uint32_t k = i; k < end; k++) {
			order[at + k - i] = k;
			ready[k] = f->want[i].ready;
		}
		n += end - i;
	}
}

static taut_status lay_order(struct tauti_fusion *f, struct taut_error *err)
{
	bool in_order = tauti_fusion_in_order(f, f->want);
	uint32_t after = f->before_slots;

	if (in_order && f->is_in_order)
		return TAUT_OK;
	f->is_in_order = false; /* until all of it is laid */
	find_order(f);
	for (uint32_t i = 0; i < f->n_gradients; i++) {
		uint32_t slot = f->slot_op[f->wanted_order[i]];
		taut_status status;

		if (taut_edit_before(f->edit, slot) != after) {
			status = taut_edit_move(
				f->edit, slot, after, f->network, err);
			if (status)
				return status;
		}
		after = slot;
	}
	f->is_in_order = in_order;
	return TAUT_OK;
}

taut_status tauti_fusion_lay(struct tauti_fusion *f, struct taut_error *err)
{
	taut_status status;

	if (taut_edit_mark(f->edit) - f->base_mark > LONG_JOURNAL)
		start_anew(f);
	f->is_played = false;
	status = lay_operators(f, err);
	while (!status && f->slots.first < f->slots.end) {
		status = lay_slot(f, f->slots.first, err);
		f->slots.first += !status;
	}
	if (!status)
		status = lay_order(f, err);
	if (!status)
		f->slots = (struct tauti_span32) { 0, 0 };
	return status;
}
