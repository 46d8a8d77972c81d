/* cross.c - the end of a step crossed: which layer's forward pass needs which
 * parameter, and its update just before.
 *
 * An operator of the forward pass whose gradient will be wanted is recorded with
 * autograd's sequence number, and what computes that gradient with the same one.
 * AccumulateGrad follows the last of what computes its gradient, which is of the
 * parameter's first use.
 *
 * What `taut run` waits for before a layer is all that the layer has of its own: where the
 * recording tells calls of modules, a parameter is used when the innermost call begins
 * that its first operator is in. A layer of several operators, like an LSTM, waits for
 * all of them.
 *
 * The main thread does as much as before: copies out of buckets and updates take
 * as long, a parameter's share by its bytes, but before its first use in the next
 * step instead of behind the backward pass. */
#include "whatif/compute.h"
#include "whatif/schedule.h"

enum { LOOK_BACK = 4096 }; /* rows, from a gradient to what computed it */

static const char accumulate[] = "torch::autograd::AccumulateGrad";
static const char module[] = "nn.Module: ";

struct finder {
	struct tauti_whatif *w;
	const struct tauti_ddp *ddp;
	struct tauti_forward *to;
	struct taut_error *err;
	/* the rank at hand */
	const struct taut_trace *trace;
	uint32_t like, main;
	uint32_t first_number, n_numbers;
	uint32_t *row_of; /* by number: the operator that it belongs to */
	uint32_t *op_of;  /* by op of the graph's main lane: of the edit, on its main
	                     lane */
	uint32_t *number; /* by ddp->gradients */
};

/* --- rows by number ---------------------------------------------------------------- */

static bool is_forward(const struct taut_trace *t, uint32_t row)
{
	return t->kind[row] == TAUT_KIND_OP && t->sequence[row] &&
		!(t->flags[row] & TAUT_EVENT_BACKWARD);
}

/* An operator that makes nothing wanted shows the number that comes next, too:
 * the last of a number that is in no other of it has it. */
static taut_status find_rows(struct finder *f)
{
	const struct taut_graph *g = f->w->graph;
	const struct taut_trace *t = f->trace;
	uint32_t lane = g->lanes[f->main].trace_lane, most = 0;
	uint32_t from = t->lane_begin[lane], to = t->lane_begin[lane + 1];

	f->first_number = UINT32_MAX;
	for (uint32_t i = from; i < to; i++) {
		if (!is_forward(t, i))
			continue;
		if (t->sequence[i] < f->first_number)
			f->first_number = t->sequence[i];
		if (t->sequence[i] > most)
			most = t->sequence[i];
	}
	f->n_numbers = f->first_number <= most ? most - f->first_number + 1 : 0;
	if (f->n_numbers > to - from + 1)
		f->n_numbers = 0; /* other threads number, too: not told */
	f->row_of = taut_arena_calloc(f->w->arena, (size_t)f->n_numbers + 1,
		sizeof *f->row_of);
	if (!f->row_of)
		return tauti_no_memory(f->err, "operators of the forward pass");
	memset(f->row_of, 0xff, f->n_numbers * sizeof *f->row_of);
	for (uint32_t i = from; f->n_numbers && i < to; i++) {
		uint32_t *row;

		if (!is_forward(t, i))
			continue;
		row = &f->row_of[t->sequence[i] - f->first_number];
		if (*row == TAUT_NONE ||
			t->start_ns[i] >= t->start_ns[*row] + t->dur_ns[*row])
			*row = i;
	}
	return TAUT_OK;
}

/* The first operation of the main lane that is not before the row. */
static uint32_t op_at(const struct finder *f, uint32_t row)
{
	const struct taut_graph *g = f->w->graph;
	int64_t at = taut_graph_time(g, f->like, f->trace->start_ns[row]);
	uint32_t low = g->lane_begin[f->main], high = g->lane_begin[f->main + 1];

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (g->start_ns[mid] < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < g->lane_begin[f->main + 1] ? f->op_of[low] : TAUT_NONE;
}

uint32_t tauti_backward_row(const struct taut_trace *t, uint32_t row)
{
	bool put = false;

	for (uint32_t i = row, n = 0; n < LOOK_BACK &&
		t->lane[i] == t->lane[row]; i--, n++) {
		put |= strstr(taut_trace_name(t, i), accumulate) != NULL;
		if (t->sequence[i] && t->flags[i] & TAUT_EVENT_BACKWARD)
			return put ? i : TAUT_NONE;
		if (!i)
			break;
	}
	return TAUT_NONE;
}

/* The innermost call of a module that the row is in; the row, where none is told. */
static uint32_t call_around(const struct finder *f, uint32_t row)
{
	const struct taut_trace *t = f->trace;
	int64_t at = t->start_ns[row];

	for (uint32_t i = row, n = 0; i-- > t->lane_begin[t->lane[row]] &&
		n < LOOK_BACK; n++)
		if ((t->kind[i] == TAUT_KIND_PYTHON ||
			t->kind[i] == TAUT_KIND_ANNOTATION) &&
			t->start_ns[i] + t->dur_ns[i] > at && !strncmp(
			taut_trace_name(t, i), module, sizeof module - 1))
			return i;
	return row;
}

static bool find_use(struct finder *f, uint32_t gradient)
{
	const struct tauti_gradient *g = &f->ddp->gradients.data[gradient];
	struct taut_op op;
	uint32_t row, number, at;

	if (!taut_edit_op(f->w->edit, g->ready, &op) || op.event == TAUT_NONE)
		return false;
	row = tauti_backward_row(f->trace, op.event);
	number = row == TAUT_NONE ? 0 : f->trace->sequence[row];
	at = number - f->first_number;
	if (!number || number < f->first_number || at >= f->n_numbers ||
		f->row_of[at] == TAUT_NONE)
		return false;
	f->number[gradient] = number;
	f->to->use[gradient] = op_at(f, call_around(f, f->row_of[at]));
	return f->to->use[gradient] != TAUT_NONE;
}

/* --- ranks ------------------------------------------------------------------------- */

static uint32_t graph_main(const struct taut_graph *g, uint32_t trace)
{
	for (uint32_t i = 0; i < g->n_lanes; i++)
		if (g->lanes[i].trace == trace && g->lanes[i].is_main)
			return i;
	return TAUT_NONE;
}

static void map_ops(struct finder *f, uint32_t rank)
{
	const struct taut_graph *g = f->w->graph;
	uint32_t lane = tauti_main_lane(f->w, rank);
	uint32_t from = g->lane_begin[f->main], to = g->lane_begin[f->main + 1];

	memset(f->op_of + from, 0xff, (to - from) * sizeof *f->op_of);
	for (uint32_t i = taut_edit_first(f->w->edit, lane); i != TAUT_NONE;
		i = taut_edit_next(f->w->edit, i)) {
		struct taut_op op;

		if (taut_edit_op(f->w->edit, i, &op) && op.like != TAUT_NONE &&
			f->op_of[op.like] == TAUT_NONE)
			f->op_of[op.like] = i;
	}
}

static taut_status begin_rank(struct finder *f, uint32_t rank)
{
	const struct taut_run *run = f->w->graph->run;
	taut_status status = TAUT_OK;

	f->like = taut_edit_rank_like(f->w->edit, rank);
	f->trace = &run->traces[f->like];
	f->main = graph_main(f->w->graph, f->like);
	if (f->main == TAUT_NONE || tauti_main_lane(f->w, rank) == TAUT_NONE ||
		!f->trace->sequence)
		f->to->missing = "it does not tell the main thread's operators";
	else
		status = find_rows(f);
	if (!status && !f->to->missing)
		map_ops(f, rank);
	return status;
}

/* Beside the first number of the step: equal in all steps of all ranks. */
static void place(struct finder *f, const struct tauti_ddp_step *s)
{
	uint32_t least = UINT32_MAX;
	bool first = s == f->ddp->steps.data;

	for (uint32_t i = 0; i < s->n_gradients; i++)
		if (f->number[s->first_gradient + i] < least)
			least = f->number[s->first_gradient + i];
	for (uint32_t i = 0; i < s->n_gradients; i++) {
		uint32_t at = f->number[s->first_gradient + i] - least;

		if (first)
			f->to->position[i] = at;
		else if (f->to->position[i] != at)
			f->to->missing = "the forward passes of its steps are "
				"not alike";
	}
}

static taut_status find_all(struct finder *f)
{
	uint32_t rank = TAUT_NONE;
	taut_status status = TAUT_OK;

	for (size_t i = 0; i < f->ddp->steps.count && !f->to->missing; i++) {
		const struct tauti_ddp_step *s = &f->ddp->steps.data[i];

		if (s->rank != rank)
			status = begin_rank(f, rank = s->rank);
		if (status)
			return status;
		for (uint32_t g = 0; g < s->n_gradients && !f->to->missing; g++)
			if (!find_use(f, s->first_gradient + g))
				f->to->missing = "it does not tell which "
					"operator of the forward pass a "
					"gradient is of (autograd's sequence "
					"numbers, AccumulateGrad)";
		if (!f->to->missing)
			place(f, s);
	}
	return TAUT_OK;
}

taut_status tauti_forward_find(struct tauti_whatif *w,
	const struct tauti_ddp *ddp, struct tauti_forward *ret_forward,
	struct taut_error *err)
{
	struct finder f = { .w = w, .ddp = ddp, .to = ret_forward, .err = err };
	size_t n = ddp->gradients.count + 1;

	*ret_forward = (struct tauti_forward) {
		.position = taut_arena_calloc(w->arena, n, sizeof(uint32_t)),
		.use = taut_arena_calloc(w->arena, n, sizeof(uint32_t)),
		.update = taut_arena_calloc(w->arena, n, sizeof(uint32_t)),
	};
	f.op_of = taut_arena_calloc(
		w->arena, (size_t)w->graph->n_ops + 1, sizeof *f.op_of);
	f.number = taut_arena_calloc(w->arena, n, sizeof *f.number);
	if (!ret_forward->position || !ret_forward->use ||
		!ret_forward->update || !f.op_of || !f.number)
		return tauti_no_memory(err, "the forward order");
	if (!w->graph->run || !w->graph->event || !w->graph->start_ns)
		ret_forward->missing = "it has no events";
	return ret_forward->missing ? TAUT_OK : find_all(&f);
}

/* --- what needs all gradients --------------------------------------------------------- */

static bool needs_all(const void *context, const char *name)
{
	(void)context;
	return strstr(name, "clip_grad_norm") ||
		strstr(name, "_foreach_norm") || strstr(name, "vector_norm") ||
		strstr(name, "_amp_foreach_non_finite_check") ||
		strstr(name, "LBFGS.step");
}

static bool is_copy_out(const void *context, const char *name)
{
	(void)context;
	return strstr(name, "copy_bucket_to_grad") != NULL;
}

static bool is_zero(const void *context, const char *name)
{
	(void)context;
	return strstr(name, "zero_grad") != NULL;
}

struct crosser {
	struct tauti_whatif *w;
	const struct tauti_ddp *ddp;
	struct tauti_forward *forward;
	struct taut_error *err;
	int64_t late_ns;
	uint8_t *needs, *copies, *zeros; /* by op of the graph */
	int64_t *left_ns; /* by step of ddp: of its updates and copies */
};

static taut_status refuse_all(const struct crosser *c, uint32_t id)
{
	struct taut_op op;

	if (!taut_edit_op(c->w->edit, id, &op))
		return TAUT_OK;
	return taut_error_set(c->err, TAUT_EINVAL, -1, "schedule: the end of "
		"the step cannot be crossed: %.80s needs all gradients before "
		"the first update", taut_edit_name(c->w->edit, op.name));
}

/* --- updates ------------------------------------------------------------------------------ */

/* What the main thread does of updates in a step goes. */
static taut_status take_updates(struct crosser *c, size_t step)
{
	const struct tauti_ddp_step *s = &c->ddp->steps.data[step];
	const struct tauti_gradient *last = &c->ddp->gradients.data[
		s->first_gradient + s->n_gradients - 1];
	const struct taut_graph *g = c->w->graph;
	uint32_t lane = tauti_main_lane(c->w, s->rank);
	taut_status status = TAUT_OK;

	for (uint32_t i = taut_edit_first(c->w->edit, lane); !status &&
		i != TAUT_NONE; i = taut_edit_next(c->w->edit, i)) {
		struct taut_op op;

		if (!taut_edit_op(c->w->edit, i, &op) ||
			op.like == TAUT_NONE || !tauti_is_work(op.kind) ||
			tauti_op_step(c->w, &op) != s->step)
			continue;
		if (tauti_picked(c->needs, &op) &&
			g->start_ns[op.like] >= last->ready_ns)
			return refuse_all(c, i);
		if (!tauti_picked(c->copies, &op) &&
			(tauti_picked(c->zeros, &op) || tauti_op_phase(c->w,
			&op) != TAUTI_PHASE_OPTIMIZER))
			continue;
		c->left_ns[step] += op.dur_ns;
		status = tauti_vanish(c->w, i, &op, c->err);
	}
	return status;
}

/* Before `use`, an update for as long. */
static taut_status put_update(struct crosser *c, uint32_t use, int64_t dur_ns,
	uint32_t *ret_op)
{
	struct taut_op op = { .dur_ns = dur_ns, .kind = TAUT_OP_HOST,
		.event = TAUT_NONE, .collective = TAUT_NONE,
		.like = TAUT_NONE }, beside;

	if (!taut_edit_op(c->w->edit, use, &beside))
		return taut_error_set(c->err, TAUT_EINVAL, -1, "schedule: an "
			"operation of the forward pass was removed by a change "
			"before");
	op.lane = beside.lane;
	return taut_edit_insert(c->w->edit, taut_edit_before(c->w->edit, use),
		&op, "update of weights", ret_op, c->err);
}

/* Parameters of one first use are updated together. */
static taut_status put_updates(struct crosser *c, size_t step)
{
	const struct tauti_ddp_step *s = &c->ddp->steps.data[step];
	const struct tauti_gradient *of =
		&c->ddp->gradients.data[s->first_gradient];
	const uint32_t *use = c->forward->use + s[1].first_gradient;
	uint32_t *update = c->forward->update + s->first_gradient;
	double all = 0, given = 0;
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < s->n_gradients; i++)
		all += (double)of[i].bytes;
	for (uint32_t i = 0; i < s->n_gradients; i++)
		update[i] = TAUT_NONE;
	for (uint32_t i = 0; !status && i < s->n_gradients; i++) {
		int64_t late_ns = 0;
		double bytes = 0, share = (double)c->left_ns[step] / all;
		int64_t dur_ns;

		if (update[i] != TAUT_NONE)
			continue;
		for (uint32_t j = i; j < s->n_gradients; j++) {
			bytes += use[j] == use[i] ? (double)of[j].bytes : 0;
			late_ns += use[j] == use[i] ? c->late_ns : 0;
		}
		dur_ns = late_ns + llround((given + bytes) * share) -
			llround(given * share);
		given += bytes;
		status = put_update(c, use[i], dur_ns, &update[i]);
		for (uint32_t j = i + 1; !status && j < s->n_gradients; j++)
			if (use[j] == use[i])
				update[j] = update[i];
	}
	return status;
}

static taut_status cross_all(struct crosser *c)
{
	uint32_t steps = c->ddp->steps_a_rank;
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < c->ddp->steps.count; i++)
		status = take_updates(c, i);
	for (size_t i = 0; !status && i < c->ddp->steps.count; i++) {
		const struct tauti_ddp_step *s = &c->ddp->steps.data[i];

		if ((i + 1) % steps)
			status = put_updates(c, i);
		else
			memset(c->forward->update + s->first_gradient, 0xff,
				s->n_gradients * sizeof(uint32_t));
	}
	return status;
}

taut_status tauti_cross(struct tauti_whatif *w, const struct tauti_ddp *ddp,
	int64_t late_ns, struct tauti_forward *forward, struct taut_error *err)
{
	struct crosser c = { .w = w, .ddp = ddp, .forward = forward,
		.err = err, .late_ns = late_ns };
	const char *why = forward->missing ? forward->missing :
		w->job->has_device ? "updates on a device are not moved" :
		!ddp->sized ? "it does not tell how large its gradients are "
		"(shapes)" : ddp->steps_a_rank < 2 ? "it has one step" : NULL;
	taut_status status;

	if (why)
		return taut_error_set(err, TAUT_EINVAL, -1, "schedule: what "
			"crossing the end of the step gives cannot be told "
			"from this recording: %s", why);
	c.left_ns = taut_arena_calloc(
		w->arena, ddp->steps.count + 1, sizeof *c.left_ns);
	if (!c.left_ns)
		return tauti_no_memory(err, "updates");
	status = tauti_pick(w, needs_all, NULL, &c.needs, err);
	if (!status)
		status = tauti_pick(w, is_copy_out, NULL, &c.copies, err);
	if (!status)
		status = tauti_pick(w, is_zero, NULL, &c.zeros, err);
	return status ? status : cross_all(&c);
}
