/* split.c - where every instant of a rank's steps goes.
 *
 * All activity of a rank becomes a list of begins and ends of a few classes;
 * one sweep over it knows at each instant what runs, and gives the instant to
 * exactly one category, so that a step's categories add up to the step. */
#include <stdlib.h>

#include "base/vec.h"
#include "explain/explain.h"

enum activity {
	ACT_COMPUTE,  /* kernels; without a device, operators of host threads */
	ACT_TRANSFER, /* collective, after its last rank arrived */
	ACT_WAIT,     /* collective, before */
	ACT_COPY,
	ACT_DATA,     /* host waits for a batch */
	ACT_BLOCKED,  /* main thread waits for a device or another thread */
	ACT_HOST,     /* idle device whose next work is not launched yet */
	ACT_KINDS
};

struct change {
	int64_t at;
	uint8_t activity;
	int8_t by; /* +1 begins, -1 ends */
};

struct sweep {
	const struct tauti_explain *x;
	const struct tauti_facts *f;
	TAUT_VEC(struct change) changes;
};

static bool add(struct sweep *s, enum activity a, int64_t start, int64_t end)
{
	struct change on = { start, (uint8_t)a, 1 };
	struct change off = { end, (uint8_t)a, -1 };

	return start >= end || (taut_vec_push(&s->changes, on) &&
		taut_vec_push(&s->changes, off));
}

static int by_time(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (x->activity != y->activity)
		return x->activity < y->activity ? -1 : 1;
	return x->by - y->by;
}

/* --- what runs ----------------------------------------------------------------*/

static bool add_device_op(struct sweep *s, uint32_t op)
{
	const struct taut_graph *g = s->x->g;
	int64_t start = g->start_ns[op], end = tauti_end(g, op);

	switch (g->kind[op]) {
	case TAUT_OP_KERNEL:
		return add(s, ACT_COMPUTE, start, end);
	case TAUT_OP_COPY:
		return add(s, ACT_COPY, start, end);
	case TAUT_OP_ARRIVE:
		return add(s, ACT_WAIT, start, g->start_ns[op + 1]);
	case TAUT_OP_TRANSFER:
		return add(s, ACT_TRANSFER, start, end);
	default:
		return true;
	}
}

static bool add_device(struct sweep *s)
{
	const struct taut_graph *g = s->x->g;

	for (uint32_t l = s->f->first_lane; l < s->f->end_lane; l++)
		for (uint32_t op = g->lane_begin[l]; op < g->lane_begin[l + 1];
			op++)
			if (!add_device_op(s, op))
				return false;
	return true;
}

/* The main thread between two of its operations is blocked, and while it
 * moves data itself; the host ops of every thread that compute count as the
 * device where there is none. */
static bool add_host(struct sweep *s)
{
	const struct taut_graph *g = s->x->g;

	for (uint32_t l = s->f->first_lane; l < s->f->end_lane; l++) {
		if (g->lanes[l].kind != TAUT_LANE_THREAD || g->lanes[l].is_comm)
			continue;
		for (uint32_t op = g->lane_begin[l]; op < g->lane_begin[l + 1];
			op++) {
			uint32_t before = tauti_before(g, op);

			if (s->x->op_category[op] == TAUT_CAT_COMPUTE &&
				!add(s, ACT_COMPUTE, g->start_ns[op],
				tauti_end(g, op)))
				return false;
			if (l == s->f->main_lane && before != TAUT_NONE &&
				!add(s, ACT_BLOCKED, tauti_end(g, before),
				g->start_ns[op]))
				return false;
			if (l == s->f->main_lane &&
				g->kind[op] == TAUT_OP_TRANSFER &&
				!add(s, ACT_BLOCKED, g->start_ns[op],
				tauti_end(g, op)))
				return false;
		}
	}
	return true;
}

static bool add_data(struct sweep *s)
{
	for (uint32_t i = 0; i < s->f->n_data; i++)
		if (!add(s, ACT_DATA, s->f->data[i].start, s->f->data[i].end))
			return false;
	return true;
}

/* --- why the device is idle ------------------------------------------------------*/

struct pending { /* device work and when the host had launched it */
	int64_t start, launched;
};

static int by_start(const void *a, const void *b)
{
	const struct pending *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Device work that waits for its launch: from the device's last end to the
 * launch the host is to blame. One range per idle spell, before the next
 * work to begin. */
static bool add_unlaunched(struct sweep *s)
{
	const struct taut_graph *g = s->x->g;
	TAUT_VEC(struct pending) work = { 0 };
	int64_t last = INT64_MIN;
	bool ok = true;

	for (uint32_t l = s->f->first_lane; l < s->f->end_lane; l++) {
		if (g->lanes[l].kind != TAUT_LANE_STREAM)
			continue;
		for (uint32_t op = g->lane_begin[l]; ok &&
			op < g->lane_begin[l + 1]; op++) {
			uint32_t by = s->x->launch_of[op];
			/* the known part of the wait ends where the gap begins */
			struct pending p = { g->start_ns[op], by == TAUT_NONE ?
				INT64_MIN : g->start_ns[op] -
				(g->gap_ns[op] > 0 ? g->gap_ns[op] : 0) };

			if (g->kind[op] != TAUT_OP_TRANSFER)
				ok = taut_vec_push(&work, p);
		}
	}
	if (ok && work.count)
		qsort(work.data, work.count, sizeof *work.data, by_start);
	for (size_t i = 0; ok && i < work.count; i++) {
		if (work.data[i].launched > last)
			ok = add(s, ACT_HOST, last == INT64_MIN ?
				INT64_MIN / 4 : last,
				work.data[i].launched);
		if (work.data[i].start > last)
			last = work.data[i].start;
	}
	/* after the last work there is nothing to run: the host's time */
	ok = ok && add(s, ACT_HOST, last, INT64_MAX);
	taut_vec_free(&work);
	return ok;
}

/* --- the sweep ----------------------------------------------------------------------*/

static enum taut_category device_category(const int32_t *n)
{
	if (n[ACT_COMPUTE])
		return TAUT_CAT_COMPUTE;
	if (n[ACT_TRANSFER])
		return TAUT_CAT_COMM_EXPOSED;
	if (n[ACT_WAIT])
		return TAUT_CAT_COMM_WAIT;
	if (n[ACT_COPY])
		return TAUT_CAT_COPY;
	if (!n[ACT_HOST])
		return TAUT_CAT_OTHER;
	return n[ACT_DATA] ? TAUT_CAT_DATA : TAUT_CAT_HOST_BOUND;
}

static enum taut_category host_category(const int32_t *n)
{
	if (n[ACT_COMPUTE])
		return TAUT_CAT_COMPUTE;
	if (n[ACT_DATA])
		return TAUT_CAT_DATA;
	if (!n[ACT_BLOCKED])
		return TAUT_CAT_HOST_BOUND;
	if (n[ACT_TRANSFER])
		return TAUT_CAT_COMM_EXPOSED;
	return n[ACT_WAIT] ? TAUT_CAT_COMM_WAIT : TAUT_CAT_OTHER;
}

static void give(struct taut_report_step *step, int64_t from, int64_t to,
	enum taut_category c, bool moves)
{
	if (from < step->start_ns)
		from = step->start_ns;
	if (to > step->start_ns + step->measured_ns)
		to = step->start_ns + step->measured_ns;
	if (from >= to)
		return;
	step->ns[c] += to - from;
	if (moves && c != TAUT_CAT_COMM_EXPOSED)
		step->overlapped_ns += to - from;
}

static void count_span(struct taut_report_span *span, int64_t dt,
	const int32_t *n, int64_t *comm)
{
	bool talks = n[ACT_TRANSFER] || n[ACT_WAIT];

	if (n[ACT_COMPUTE])
		span->compute_ns += dt;
	else if (talks || n[ACT_COPY])
		span->non_compute_ns += dt;
	else
		span->idle_ns += dt;
	comm[0] += talks ? dt : 0;
	comm[1] += talks && n[ACT_COMPUTE] ? dt : 0;
}

/* First device begin to last device end. */
static void find_span(const struct sweep *s, int64_t *from, int64_t *to)
{
	*from = INT64_MAX;
	*to = INT64_MIN;
	for (size_t i = 0; i < s->changes.count; i++) {
		const struct change *c = &s->changes.data[i];

		if (c->activity > ACT_COPY)
			continue;
		if (c->at < *from)
			*from = c->at;
		if (c->at > *to)
			*to = c->at;
	}
}

static void run(const struct sweep *s, struct taut_report_step *steps,
	uint32_t n_steps, struct taut_report_span *span)
{
	int32_t n[ACT_KINDS] = { 0 };
	int64_t from, to, comm[2] = { 0, 0 }, at = INT64_MIN;
	uint32_t first = 0;

	find_span(s, &from, &to);
	for (size_t i = 0; i <= s->changes.count; i++) {
		int64_t next = i < s->changes.count ? s->changes.data[i].at :
			INT64_MAX;
		enum taut_category c = s->f->has_device ? device_category(n) :
			host_category(n);

		if (next > at && at >= from && next <= to)
			count_span(span, next - at, n, comm);
		while (first < n_steps && steps[first].start_ns +
			steps[first].measured_ns <= at)
			first++;
		for (uint32_t k = first; next > at && k < n_steps &&
			steps[k].start_ns < next; k++)
			give(&steps[k], at, next, c, n[ACT_TRANSFER] > 0);
		at = next;
		if (i < s->changes.count)
			n[s->changes.data[i].activity] += s->changes.data[i].by;
	}
	span->span_ns = to > from ? to - from : 0;
	span->overlap_pct = comm[0] ? 100.0 * (double)comm[1] /
		(double)comm[0] : 0;
}

static taut_status split_rank(void *context, size_t i, struct taut_error *err)
{
	struct tauti_explain *x = context;
	const struct tauti_facts *f = &x->facts[i];
	struct sweep s = { .x = x, .f = f };
	uint32_t n_steps = f->end_step - f->first_step;
	bool ok;

	if (f->first_step == TAUT_NONE)
		n_steps = 0;
	ok = add_device(&s) && add_data(&s) && (f->has_device ?
		add_unlaunched(&s) : add_host(&s));
	if (ok && s.changes.count)
		qsort(s.changes.data, s.changes.count, sizeof *s.changes.data,
			by_time);
	if (ok)
		run(&s, (struct taut_report_step *)x->report->steps +
			(n_steps ? f->first_step : 0), n_steps,
			(struct taut_report_span *)&x->report->spans[i]);
	taut_vec_free(&s.changes);
	return ok ? TAUT_OK : tauti_explain_no_memory(err);
}

/* --- steps -----------------------------------------------------------------------------*/

struct step_times { /* by step, of malloc */
	int64_t *begin_ns, *done_ns;
};

static void give_times(const struct step_times *times,
	struct taut_report_step *steps, uint32_t n, bool replayed)
{
	for (uint32_t i = 0; i < n; i++) {
		int64_t took_ns = times->done_ns[i] - times->begin_ns[i];

		if (replayed) {
			steps[i].replayed_ns = took_ns;
			continue;
		}
		steps[i].start_ns = times->begin_ns[i];
		steps[i].measured_ns = took_ns;
	}
}

/* end_ns: of each op, as recorded. */
static taut_status time_steps(struct tauti_explain *x, const int64_t *end_ns,
	struct taut_report_step *steps, struct taut_error *err)
{
	const struct taut_graph *g = x->g;
	size_t room = ((size_t)g->n_steps + 1) * sizeof(int64_t);
	struct step_times times = { malloc(room), malloc(room) };
	taut_status status = times.begin_ns && times.done_ns ?
		taut_step_times(g, g->start_ns, end_ns, times.begin_ns,
			times.done_ns, err) : tauti_explain_no_memory(err);

	if (!status) {
		give_times(&times, steps, g->n_steps, false);
		status = taut_step_times(g, x->base.start_ns, x->base.end_ns,
			times.begin_ns, times.done_ns, err);
	}
	if (!status)
		give_times(&times, steps, g->n_steps, true);
	free(times.begin_ns);
	free(times.done_ns);
	return status;
}

static taut_status fill_steps(struct tauti_explain *x, const int64_t *end_ns,
	struct taut_report_step *steps, struct taut_error *err)
{
	const struct taut_graph *g = x->g;

	for (uint32_t i = 0; i < g->n_steps; i++)
		steps[i] = (struct taut_report_step) {
			.rank = g->run->traces[g->steps[i].trace].rank,
			.id = g->steps[i].id,
		};
	return time_steps(x, end_ns, steps, err);
}

/* Recorded and replayed; 0 for a job without steps. */
static taut_status find_steady(struct tauti_explain *x, const int64_t *end_ns,
	struct taut_error *err)
{
	struct taut_report *r = x->report;
	const struct taut_graph *g = x->g;
	taut_status status;

	status = taut_steady_step(g, g->start_ns, end_ns, &r->steady_ns, err);
	if (!status)
		status = taut_steady_step(g, x->base.start_ns, x->base.end_ns,
			&r->replay_steady_ns, err);
	if (!status && !r->n_steps)
		r->steady_ns = r->replay_steady_ns = 0;
	return status;
}

static void judge_replay(struct tauti_explain *x)
{
	struct taut_report *r = x->report;
	const struct taut_graph *g = x->g;
	int64_t unexplained = 0, total = 0;
	double sum = 0;

	for (uint32_t i = 0; i < r->n_steps; i++) {
		const struct taut_report_step *s = &r->steps[i];
		double e = s->measured_ns ? 100.0 * (double)(s->replayed_ns -
			s->measured_ns) / (double)s->measured_ns : 0;

		if (e < 0)
			e = -e;
		sum += e;
		total += g->steps[i].end_ns - g->steps[i].start_ns;
		if (e > r->replay_error_pct_max)
			r->replay_error_pct_max = e;
	}
	for (uint32_t op = 0; op < g->n_ops; op++)
		unexplained += tauti_unexplained(x, op);
	r->replay_error_pct_mean = r->n_steps ? sum / r->n_steps : 0;
	r->unexplained_pct = total ? 100.0 * (double)unexplained /
		(double)total : 0;
}

taut_status tauti_steps_split(struct tauti_explain *x, struct taut_error *err)
{
	struct taut_report *r = x->report;
	struct taut_report_step *steps = TAUT_ARENA_ARRAY(x->arena,
		struct taut_report_step, x->g->n_steps + 1);
	struct taut_report_span *spans = TAUT_ARENA_ARRAY(x->arena,
		struct taut_report_span, r->n_ranks + 1);
	int64_t *end_ns = malloc(((size_t)x->g->n_ops + 1) * sizeof *end_ns);
	taut_status status = steps && spans && end_ns ? TAUT_OK :
		tauti_explain_no_memory(err);

	for (uint32_t op = 0; !status && op < x->g->n_ops; op++)
		end_ns[op] = x->g->start_ns[op] + x->g->dur_ns[op];
	if (!status)
		status = fill_steps(x, end_ns, steps, err);
	if (!status) {
		r->steps = steps;
		r->n_steps = x->g->n_steps;
		for (uint32_t i = 0; i < r->n_ranks; i++)
			spans[i].rank = r->ranks[i];
		r->spans = spans;
		r->n_spans = r->n_ranks;
		status = taut_parallel_for(r->n_ranks, x->threads, split_rank,
			x, err);
	}
	if (!status)
		status = find_steady(x, end_ns, err);
	if (!status)
		judge_replay(x);
	free(end_ns);
	return status;
}
