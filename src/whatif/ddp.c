/* ddp.c - finds the gradients of each step and what becomes of them. */
#include "whatif/exchanged.h"
#include "whatif/rows.h"

#include <stdlib.h>
#include <string.h>

enum {
	PIECES = 16,    /* of a bucket, or of all gradients, without shapes */
	LOOK_BACK = 16, /* rows, for the event around another */
	WORKER_LAG_NS = 200000, /* the graph's, where none was seen */
};

static const char accumulate[] = "torch::autograd::AccumulateGrad";
static const char copy_in[] = "torch::distributed::reducer::mul_out";
static const char copy_out[] =
	"torch.distributed.ddp.reducer::copy_bucket_to_grad";

struct point { /* of the host */
	uint32_t op, kernel; /* kernel: the last that was launched by then */
};

struct finder {
	struct tauti_whatif *w;
	struct tauti_ddp *ddp;
	double gradients_bytes;
	const uint8_t *not_these;
	uint32_t n_not;
	uint8_t *marks;
	uint32_t rank, like;
	const struct taut_trace *trace; /* NULL: made by hand */
	uint32_t accumulate, copy_in, copy_out; /* names of the trace */
	uint32_t main, backward;  /* lanes */
	/* the step under way */
	struct tauti_ddp_step *step;
	uint32_t bucket_from; /* first gradient of the bucket being filled */
	uint32_t seen;        /* row of the last AccumulateGrad */
	uint32_t copied;      /* row of the last copy out */
	uint32_t n_out;
	uint32_t kernel;      /* the last that was put on a device */
	uint32_t pass;        /* backward passes so far, of all steps */
	uint32_t *passed;     /* by op of the graph: the pass that had it last;
	                         NULL: no change repeats passes */
	int64_t inside_until; /* of the trace: end of the event around it */
	int64_t launch_until; /* of the event around the last launch */
	struct point last;    /* of the step */
	TAUT_VEC(struct point) since; /* of the backward pass since the last
	                             launch, where AccumulateGrad is not told */
	TAUT_VEC(int64_t) launches; /* host time of each */
	TAUT_VEC(int64_t) lags;
	TAUT_VEC(double) rates;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for the job's gradients");
}

uint8_t *tauti_gradient_marks(const struct tauti_whatif *w)
{
	uint8_t *marks = calloc(w->graph->n_collectives + 1, 1);

	for (uint32_t s = 0; marks && s < w->job->n_steps; s++) {
		const struct tauti_job_step *step = &w->job->steps[s];

		for (uint32_t i = 0; i < step->n_gradients; i++)
			marks[w->job->gradients[step->first_gradient + i]] = 1;
	}
	return marks;
}

bool tauti_is_gradient(const struct tauti_whatif *w, const uint8_t *marks,
	uint32_t collective)
{
	uint32_t like = taut_edit_collective_like(w->edit, collective);
	struct taut_collective c;

	if (!taut_edit_collective(w->edit, collective, &c))
		return false;
	/* of what changes have made only gradients are all-reduces */
	return like == TAUT_NONE ? c.kind == TAUT_COLL_ALLREDUCE : marks[like];
}

/* --- one operation -------------------------------------------------------------- */

static int64_t row_end(const struct taut_trace *t, uint32_t row)
{
	return t->start_ns[row] + t->dur_ns[row];
}

uint32_t tauti_row_around(const struct taut_trace *t, uint32_t row,
	const char *begin)
{
	for (uint32_t i = row, n = 0; n < LOOK_BACK; i--, n++) {
		if (t->lane[i] != t->lane[row])
			break;
		if (t->start_ns[i] <= t->start_ns[row] &&
			row_end(t, i) >= row_end(t, row) &&
			!strncmp(taut_trace_name(t, i), begin, strlen(begin)))
			return i;
		if (!i)
			break;
	}
	return row;
}

static struct tauti_gradient *last_gradient(struct finder *f)
{
	return &f->ddp->gradients.data[f->ddp->gradients.count - 1];
}

static int64_t recorded_end(const struct finder *f, const struct taut_op *op)
{
	const struct taut_graph *g = f->w->graph;

	return op->like == TAUT_NONE || !g->start_ns ? 0 :
		g->start_ns[op->like] + g->dur_ns[op->like];
}

static bool add_gradient(struct finder *f, struct point at,
	const struct taut_op *op, int64_t bytes)
{
	struct tauti_gradient g = { .bytes = bytes, .ready = at.op,
		.out = TAUT_NONE, .kernel = at.kernel,
		.ready_ns = recorded_end(f, op) };

	f->step->n_gradients++;
	return taut_vec_push(&f->ddp->gradients, g);
}

static bool note_accumulate(struct finder *f, uint32_t id,
	const struct taut_op *op)
{
	const struct taut_trace *t = f->trace;
	const struct taut_tensor_args *tensor = taut_trace_tensor(t, op->event);
	uint32_t outer;

	if (op->event == f->seen)
		return true;
	f->seen = op->event;
	outer = tauti_row_around(t, op->event, "autograd::engine::evaluate_function");
	f->inside_until = row_end(t, outer);
	return add_gradient(f, (struct point) { id, f->kernel }, op,
		tensor ? tensor->bytes : 0);
}

static bool note_copy_in(struct finder *f, uint32_t row)
{
	const struct taut_tensor_args *tensor = taut_trace_tensor(f->trace, row);
	double rate;

	if (!tensor || tensor->bytes < 1 << 18 || f->trace->dur_ns[row] <= 0)
		return true;
	rate = (double)tensor->bytes / (double)f->trace->dur_ns[row];
	return taut_vec_push(&f->rates, rate);
}

/* What the copies are for is checked by their sizes. */
static void note_copy_out(struct finder *f, uint32_t id, uint32_t row)
{
	const struct taut_tensor_args *tensor = taut_trace_tensor(f->trace, row);
	struct tauti_gradient *g = f->ddp->gradients.data +
		f->step->first_gradient + f->n_out;

	if (row == f->copied)
		return;
	f->copied = row;
	if (f->n_out < f->step->n_gradients &&
		(!tensor || !g->bytes || tensor->bytes == g->bytes))
		g->out = id;
	f->n_out++;
}

/* An operation of the backward pass, by the event that it is part of. */
static bool note_event(struct finder *f, uint32_t id, const struct taut_op *op)
{
	const struct taut_trace *t = f->trace;

	if (op->event == TAUT_NONE || !t)
		return true;
	if (t->name[op->event] == f->accumulate)
		return note_accumulate(f, id, op);
	if (t->name[op->event] == f->copy_in && !note_copy_in(f, op->event))
		return false;
	if (t->name[op->event] == f->copy_out)
		note_copy_out(f, id, op->event);
	if (f->step->n_gradients && f->seen != TAUT_NONE &&
		t->start_ns[op->event] < f->inside_until &&
		t->start_ns[op->event] >= t->start_ns[f->seen] &&
		t->start_ns[op->event] >= f->launch_until) {
		last_gradient(f)->ready = id;
		last_gradient(f)->kernel = f->kernel;
		last_gradient(f)->ready_ns = recorded_end(f, op);
	}
	return true;
}

/* --- buckets -------------------------------------------------------------------- */

/* Equal pieces, n of them at most, over the ops since the last launch. */
static bool cut_pieces(struct finder *f, int64_t bytes, uint32_t n)
{
	size_t ops = f->since.count;

	if (n > ops)
		n = (uint32_t)ops;
	for (uint32_t i = 0; i < n; i++) {
		struct point at = f->since.data[(i + 1) * ops / n - 1];
		struct taut_op op;

		if (!taut_edit_op(f->w->edit, at.op, &op) || !add_gradient(f,
			at, &op, bytes * (i + 1) / n - bytes * i / n))
			return false;
	}
	return true;
}

/* How many of n gradients are of passes that nothing sums, as under no_sync(), when those
 * of the last one are the bucket: autograd's numbers fall within a pass, and begin above
 * all before in the next, as they do where a pass makes a part of the model again. */
static uint32_t count_before(const struct finder *f, const struct tauti_gradient *g,
	uint32_t n, int64_t known, int64_t bytes)
{
	uint32_t highest = 0;

	for (uint32_t i = 0; f->trace && i < n && known >= bytes; i++) {
		uint32_t row, number = 0;
		struct taut_op op;

		if (taut_edit_op(f->w->edit, g[i].ready, &op) &&
			op.event != TAUT_NONE) {
			row = tauti_backward_row(f->trace, op.event);
			number = row == TAUT_NONE ? 0 : f->trace->sequence[row];
		}
		if (i && number > highest && known == bytes)
			return i;
		if (number > highest)
			highest = number;
		known -= g[i].bytes;
	}
	return 0;
}

/* The gradients from bucket_from on are one bucket of so many bytes. */
static bool fit_sizes(struct finder *f, int64_t bytes)
{
	uint32_t first = f->step->first_gradient + f->bucket_from;
	uint32_t n = f->step->n_gradients - f->bucket_from;
	struct tauti_gradient *g;
	int64_t known = 0, at = 0, to;
	uint32_t before;
	bool all = true;

	if (!n) {
		f->ddp->sized = false;
		return cut_pieces(f, bytes, PIECES);
	}
	g = f->ddp->gradients.data + first;
	for (uint32_t i = 0; i < n; i++) {
		known += g[i].bytes;
		all = all && g[i].bytes > 0;
	}
	if (known == bytes)
		return true;
	before = all ? count_before(f, g, n, known, bytes) : 0;
	if (before) {
		memmove(g, g + before, (n - before) * sizeof *g);
		f->ddp->gradients.count -= before;
		f->step->n_gradients -= before;
		return true;
	}
	f->ddp->sized &= all;
	f->ddp->fitted |= all;
	for (uint32_t i = 0, done = 0; i < n; i++) {
		at = all ? at + g[i].bytes : ++done;
		to = (int64_t)((double)bytes * (double)at /
			(double)(all ? known : n) + 0.5);
		g[i].bytes = to;
	}
	for (uint32_t i = n; i-- > 1;)
		g[i].bytes -= g[i - 1].bytes;
	return true;
}

struct launched {
	const struct finder *f;
	uint32_t arrive, kernel; /* what it put on a device */
	int64_t lag_ns;
	uint32_t by;      /* the op whose edges are looked at */
};

static void see_launch(void *context, struct taut_wait wait)
{
	uint32_t *last = context;

	if ((wait.kind & ~TAUT_EDGE_FROM_START) == TAUT_EDGE_LAUNCH &&
		(*last == TAUT_NONE || wait.op > *last))
		*last = wait.op;
}

/* Where a change took an all-reduce away, what launched it is passed on to the
 * next one, whose own launch stands behind: that one is its. */
static bool is_launch_of(const struct tauti_whatif *w, uint32_t op,
	uint32_t arrive)
{
	uint32_t last = TAUT_NONE;

	taut_edit_each_in(w->edit, arrive, see_launch, &last);
	return last == op;
}

static void see_out(void *context, struct taut_wait wait)
{
	struct launched *l = context;
	struct taut_op op;

	if ((wait.kind & ~TAUT_EDGE_FROM_START) != TAUT_EDGE_LAUNCH ||
		!taut_edit_op(l->f->w->edit, wait.op, &op))
		return;
	if (op.kind == TAUT_OP_KERNEL || op.kind == TAUT_OP_COPY)
		l->kernel = wait.op;
	if (l->arrive == TAUT_NONE && op.kind == TAUT_OP_ARRIVE &&
		op.collective != TAUT_NONE &&
		!(op.collective < l->f->n_not &&
		l->f->not_these[op.collective]) &&
		tauti_is_gradient(l->f->w, l->f->marks, op.collective) &&
		is_launch_of(l->f->w, l->by, wait.op)) {
		l->arrive = wait.op;
		l->lag_ns = wait.lag_ns;
	}
}

static bool note_launch(struct finder *f, uint32_t id, const struct taut_op *op,
	const struct launched *l)
{
	const struct taut_trace *t = f->trace;
	struct tauti_bucket b = { .launch = id, .arrive = l->arrive };
	struct taut_collective c = { .bytes = -1 };
	struct taut_op arrive;
	uint32_t row;

	if (!taut_edit_op(f->w->edit, l->arrive, &arrive) ||
		!taut_edit_collective(f->w->edit, arrive.collective, &c))
		return true;
	if (t && op->event != TAUT_NONE) {
		row = tauti_row_around(t, op->event, "c10d::");
		f->launch_until = row_end(t, row);
		if (!taut_vec_push(&f->launches, t->dur_ns[row]))
			return false;
	}
	b.collective = arrive.collective;
	b.like = taut_edit_collective_like(f->w->edit, b.collective);
	b.bytes = c.bytes;
	if (tauti_rows_part(f->w, b.collective, &b.first)) {
		b.n = 1; /* of a gradient that comes later */
		f->step->n_buckets++;
		return taut_vec_push(&f->ddp->buckets, b);
	}
	if (!fit_sizes(f, c.bytes > 0 ? c.bytes : 0))
		return false;
	b.first = f->bucket_from;
	b.n = f->step->n_gradients - f->bucket_from;
	tauti_rows_size(f->w, f->ddp, f->step, &b);
	f->bucket_from = f->step->n_gradients;
	f->step->n_buckets++;
	taut_vec_clear(&f->since);
	return taut_vec_push(&f->ddp->buckets, b) &&
		(l->lag_ns >= WORKER_LAG_NS ||
		taut_vec_push(&f->lags, l->lag_ns));
}

/* --- steps ---------------------------------------------------------------------- */

/* Gradients that nothing sums, as in a job of one rank. */
static bool end_step(struct finder *f)
{
	int64_t all = (int64_t)f->gradients_bytes;

	if (!f->step || f->step->n_buckets || all <= 0)
		return true;
	if (f->step->n_gradients && f->ddp->sized) {
		int64_t known = 0;

		for (uint32_t i = 0; i < f->step->n_gradients; i++)
			known += f->ddp->gradients.data[
				f->step->first_gradient + i].bytes;
		if (known > 0 && llabs(known - all) < all / 20)
			return true;
	}
	/* without a backward pass they are ready when all else is done */
	if (!f->since.count && f->last.op != TAUT_NONE &&
		!taut_vec_push(&f->since, f->last))
		return false;
	f->bucket_from = 0;
	return fit_sizes(f, all);
}

static bool begin_step(struct finder *f, uint32_t step)
{
	struct tauti_ddp_step s = {
		.rank = f->rank, .step = step, .after = TAUT_NONE,
		.begin = TAUT_NONE,
		.first_gradient = (uint32_t)f->ddp->gradients.count,
		.first_bucket = (uint32_t)f->ddp->buckets.count,
	};

	if (!end_step(f) || !taut_vec_push(&f->ddp->steps, s))
		return false;
	f->step = &f->ddp->steps.data[f->ddp->steps.count - 1];
	f->bucket_from = f->n_out = 0;
	f->seen = f->copied = f->last.op = TAUT_NONE;
	f->pass++;
	f->inside_until = f->launch_until = INT64_MIN;
	taut_vec_clear(&f->since);
	return true;
}

/* What a pass has had already begins another one: a change repeats those of a step.
 * Their gradients are added up, and handed over in the last. */
static void note_pass(struct finder *f, const struct taut_op *op)
{
	if (!f->passed || op->like == TAUT_NONE ||
		f->w->job->phase[op->like] != TAUTI_PHASE_BACKWARD)
		return;
	if (f->passed[op->like] == f->pass) {
		f->pass++;
		f->ddp->gradients.count =
			f->step->first_gradient + f->bucket_from;
		f->step->n_gradients = f->bucket_from;
		f->seen = TAUT_NONE;
		f->inside_until = INT64_MIN;
		taut_vec_clear(&f->since);
	}
	f->passed[op->like] = f->pass;
}

static bool walk_backward(struct finder *f)
{
	const struct taut_edit *edit = f->w->edit;
	const struct tauti_job *job = f->w->job;
	uint32_t id = taut_edit_first(edit, f->backward);

	for (; id != TAUT_NONE; id = taut_edit_next(edit, id)) {
		struct launched l = { f, TAUT_NONE, TAUT_NONE, 0, id };
		uint32_t step = TAUT_NONE;
		struct taut_op op;
		struct point at;

		if (!taut_edit_op(edit, id, &op))
			continue;
		if (op.like != TAUT_NONE)
			step = job->step_of[op.like];
		if (step != TAUT_NONE && (!f->step || f->step->step != step) &&
			!begin_step(f, step))
			return false;
		if (!f->step)
			continue;
		note_pass(f, &op);
		taut_edit_each_out(edit, id, see_out, &l);
		if (l.kernel != TAUT_NONE)
			f->kernel = l.kernel;
		at = (struct point) { id, f->kernel };
		if (op.kind != TAUT_OP_MARK && step != TAUT_NONE)
			f->last = at;
		if (op.like != TAUT_NONE &&
			job->phase[op.like] == TAUTI_PHASE_BACKWARD &&
			!taut_vec_push(&f->since, at))
			return false;
		if (l.arrive != TAUT_NONE ? !note_launch(f, id, &op, &l) :
			!note_event(f, id, &op))
			return false;
	}
	return end_step(f);
}

static struct tauti_ddp_step *find_step(
	const struct finder *f, size_t first_step, uint32_t step)
{
	for (size_t s = first_step; s < f->ddp->steps.count; s++)
		if (f->ddp->steps.data[s].step == step)
			return &f->ddp->steps.data[s];
	return NULL;
}

/* Who needs the gradients: on the main thread, behind the backward pass. */
static void find_after(struct finder *f, size_t first_step)
{
	const struct taut_edit *edit = f->w->edit;
	const struct tauti_job *job = f->w->job;
	struct tauti_ddp_step *d = NULL;
	uint32_t id = taut_edit_first(edit, f->main), at = TAUT_NONE;

	for (; id != TAUT_NONE; id = taut_edit_next(edit, id)) {
		const struct taut_step *is;
		struct taut_op op;

		if (!taut_edit_op(edit, id, &op) || op.like == TAUT_NONE)
			continue;
		if (job->step_of[op.like] != at) {
			at = job->step_of[op.like];
			d = find_step(f, first_step, at);
		}
		if (!d)
			continue;
		is = &f->w->graph->steps[at];
		if (is->begin_op == op.like)
			d->begin = id;
		if (d->after == TAUT_NONE && (is->end_op == op.like ||
			job->phase[op.like] == TAUTI_PHASE_OPTIMIZER))
			d->after = id;
	}
}

/* --- ranks ---------------------------------------------------------------------- */

static uint32_t count_gradients(const struct finder *f, uint32_t lane)
{
	const struct taut_edit *edit = f->w->edit;
	uint32_t n = 0, id = taut_edit_first(edit, lane);

	for (; id != TAUT_NONE; id = taut_edit_next(edit, id)) {
		struct launched l = { f, TAUT_NONE, TAUT_NONE, 0, id };
		struct taut_op op;

		if (!taut_edit_op(edit, id, &op))
			continue;
		if (f->trace && op.event != TAUT_NONE)
			n += f->trace->name[op.event] == f->accumulate;
		taut_edit_each_out(edit, id, see_out, &l);
		n += l.arrive != TAUT_NONE;
	}
	return n;
}

/* The main thread, and the one that runs the backward pass. */
static void find_lanes(struct finder *f)
{
	const struct taut_edit *edit = f->w->edit;
	uint32_t most = 0;

	f->main = f->backward = TAUT_NONE;
	for (uint32_t l = 0; l < taut_edit_lanes(edit); l++) {
		struct taut_graph_lane lane = taut_edit_lane(edit, l);
		uint32_t n;

		if (lane.trace != f->rank || lane.kind != TAUT_LANE_THREAD ||
			lane.is_comm)
			continue;
		if (lane.is_main)
			f->main = l;
		n = count_gradients(f, l);
		if (n > most || (lane.is_main && n == most))
			f->backward = l;
		most = n > most ? n : most;
	}
	if (f->backward == TAUT_NONE)
		f->backward = f->main;
}

static uint32_t name_in(const struct taut_trace *t, const char *name)
{
	return t ? taut_names_find(t->names, name, strlen(name)) : TAUT_NONE;
}

static taut_status find_rank(struct finder *f, struct taut_error *err)
{
	const struct taut_run *run = f->w->graph->run;
	size_t first = f->ddp->steps.count;

	f->like = taut_edit_rank_like(f->w->edit, f->rank);
	f->trace = run && f->like < run->n_traces ? &run->traces[f->like] : NULL;
	f->accumulate = name_in(f->trace, accumulate);
	f->copy_in = name_in(f->trace, copy_in);
	f->copy_out = name_in(f->trace, copy_out);
	f->step = NULL;
	f->kernel = TAUT_NONE;
	find_lanes(f);
	if (f->main == TAUT_NONE)
		return TAUT_OK;
	if (f->ddp->exchanged) {
		taut_status status = tauti_exchanged_rank(
			f->w, f->ddp, f->marks, f->rank, err);

		if (status)
			return status;
	} else if (!walk_backward(f)) {
		return no_memory(err);
	}
	find_after(f, first);
	return TAUT_OK;
}

/* --- all ------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int by_rate(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void take_medians(struct finder *f)
{
	f->ddp->launch_host_ns = f->ddp->launch_lag_ns = -1;
	if (f->launches.count) {
		qsort(f->launches.data, f->launches.count,
			sizeof *f->launches.data, by_value);
		f->ddp->launch_host_ns =
			f->launches.data[f->launches.count / 2];
	}
	if (f->lags.count) {
		qsort(f->lags.data, f->lags.count, sizeof *f->lags.data,
			by_value);
		f->ddp->launch_lag_ns = f->lags.data[f->lags.count / 2];
	}
	if (f->rates.count) {
		qsort(f->rates.data, f->rates.count, sizeof *f->rates.data,
			by_rate);
		f->ddp->copy_rate = f->rates.data[f->rates.count / 2];
	}
}

static taut_status differ(const struct tauti_ddp_step *a,
	const struct tauti_ddp_step *b, const char *what, uint32_t n,
	uint32_t m, struct taut_error *err)
{
	if (a->rank == b->rank)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"rank %u does not sum the same gradients in each step: "
			"%u %s in one, %u in another", a->rank, n, what, m);
	return taut_error_set(err, TAUT_EINVAL, -1,
		"the ranks do not sum the same gradients: rank %u has %u %s in "
		"a step, rank %u has %u", a->rank, n, what, b->rank, m);
}

/* Messages that the recorded exchange made of what it had at a time. */
static bool is_made(const struct tauti_ddp *ddp)
{
	return ddp->exchanged && ddp->buckets.count &&
		ddp->buckets.data->like != TAUT_NONE;
}

/* Every rank and step must have the same gradients in the same order. */
static taut_status check_alike(struct tauti_ddp *ddp, struct taut_error *err)
{
	const struct tauti_ddp_step *first = ddp->steps.data;

	ddp->copies_out = ddp->gradients.count > 0;
	for (size_t i = 0; i < ddp->gradients.count; i++)
		ddp->copies_out &= ddp->gradients.data[i].out != TAUT_NONE;
	if (ddp->n_ranks && ddp->steps.count % ddp->n_ranks)
		return taut_error_set(err, TAUT_EINVAL, -1, "the ranks "
			"recorded different numbers of steps");
	ddp->steps_a_rank = ddp->n_ranks ?
		(uint32_t)ddp->steps.count / ddp->n_ranks : 0;
	for (size_t i = 1; i < ddp->steps.count; i++) {
		const struct tauti_ddp_step *s = &ddp->steps.data[i];

		if (s->n_buckets != first->n_buckets && !is_made(ddp))
			return differ(first, s, "all-reduces of gradients",
				first->n_buckets, s->n_buckets, err);
		if (s->n_gradients != first->n_gradients && ddp->sized)
			return differ(first, s, "gradients",
				first->n_gradients, s->n_gradients, err);
	}
	return TAUT_OK;
}

static bool repeats(const struct tauti_whatif *w)
{
	return w->parts > 1 || w->rounds > 1;
}

taut_status tauti_ddp_create(struct tauti_whatif *w, double gradients_bytes,
	const uint8_t *not_these, uint32_t n_not, struct tauti_ddp **ret_ddp,
	struct taut_error *err)
{
	struct finder f = { .w = w, .gradients_bytes = gradients_bytes,
		.not_these = not_these, .n_not = not_these ? n_not : 0 };
	taut_status status = TAUT_OK;

	f.ddp = calloc(1, sizeof *f.ddp);
	f.marks = tauti_gradient_marks(w);
	if (repeats(w))
		f.passed = calloc((size_t)w->graph->n_ops + 1, sizeof *f.passed);
	if (!f.ddp || !f.marks || (repeats(w) && !f.passed))
		status = no_memory(err);
	if (f.ddp)
		f.ddp->sized = true;
	if (!status)
		status = tauti_exchanged_is(w, &f.ddp->exchanged, err);
	for (; !status && f.rank < taut_edit_ranks(w->edit); f.rank++) {
		if (!taut_edit_has_rank(w->edit, f.rank))
			continue;
		f.ddp->n_ranks++;
		status = find_rank(&f, err);
	}
	if (!status) {
		take_medians(&f);
		status = check_alike(f.ddp, err);
	}
	free(f.marks);
	free(f.passed);
	taut_vec_free(&f.since);
	taut_vec_free(&f.launches);
	taut_vec_free(&f.lags);
	taut_vec_free(&f.rates);
	if (status)
		tauti_ddp_destroy(f.ddp);
	else
		*ret_ddp = f.ddp;
	return status;
}

void tauti_ddp_destroy(struct tauti_ddp *ddp)
{
	if (!ddp)
		return;
	taut_vec_free(&ddp->gradients);
	taut_vec_free(&ddp->buckets);
	taut_vec_free(&ddp->steps);
	free(ddp);
}

taut_status tauti_ddp_need_buckets(const struct tauti_whatif *w,
	const struct tauti_ddp *ddp, const char *change, struct taut_error *err)
{
	uint32_t n = 0;

	if (ddp->buckets.count)
		return TAUT_OK;
	if (ddp->exchanged)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: no all-reduces "
			"of gradients were found in this recording, which does "
			"not tell what was sent (taut_piece)", change);
	for (uint32_t c = 0; c < w->graph->n_collectives; c++)
		n += w->job->within[c];
	if (!n)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: no all-reduces "
			"of gradients were found in this recording", change);
	return taut_error_set(err, TAUT_EINVAL, -1, "%s: no all-reduces of "
		"gradients were found in this recording; the forward and "
		"backward passes wait for %u all-reduces of their own, as "
		"those of tensor parallelism, which this does not change",
		change, n);
}

taut_status tauti_ddp_plan(const int64_t *bytes, uint32_t n,
	const double *caps, uint32_t n_caps, tauti_plan *ret_plan,
	struct taut_error *err)
{
	tauti_plan plan = { 0 };
	double size = 0;

	for (uint32_t i = 0; i < n; i++) {
		size_t last = plan.count ? plan.count - 1 : 0;
		double limit = caps[last < n_caps ? last : n_caps - 1];

		if ((!i || size >= limit) && (size = 0, 1) &&
			!taut_vec_push(&plan, i)) {
			taut_vec_free(&plan);
			return no_memory(err);
		}
		size += (double)bytes[i];
	}
	*ret_plan = plan;
	return TAUT_OK;
}
