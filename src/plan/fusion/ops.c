/* ops.c - which operators are one, and what that takes. */
#include <stdlib.h>

#include "plan/fusion/own.h"

int64_t tauti_fused_bound_ns(const void *bound, const struct tauti_fused *fused)
{
	const struct tauti_fused_bound *b = bound;
	double sum = 0, computes = 0, bytes = 0, ns;

	for (uint32_t i = 0; i < fused->n_parts; i++) {
		sum += (double)fused->parts[i].dur_ns;
		computes += (double)fused->parts[i].compute_ns;
		bytes += (double)fused->parts[i].saved_bytes;
	}
	ns = sum - bytes * b->byte_ns -
		(double)(fused->n_parts - 1) * (double)b->launch_ns;
	if (ns < computes)
		ns = computes;
	if (fused->n_parts > b->roomy)
		ns += ns * b->crowding * (fused->n_parts - b->roomy);
	return (int64_t)(ns + 0.5);
}

/* --- who is fused with whom ------------------------------------------------------- */

static void reach(struct tauti_fusion *f, uint32_t *list, uint32_t *n,
	uint32_t operator_)
{
	if (f->mark[operator_] == f->stamp)
		return;
	f->mark[operator_] = f->stamp;
	list[(*n)++] = operator_;
}

/* Those that are fused with it, and where there are duplicates of it. */
static void reach_from(struct tauti_fusion *f, uint32_t *list, uint32_t *n,
	uint32_t operator_, bool duplicates)
{
	struct tauti_span32 out = f->out[operator_], in = f->in[operator_];

	for (uint32_t i = out.first; i < out.end; i++) {
		uint8_t tie = tauti_fusion_tie(f, f->out_flow[i]);

		if (tie == 1 || (tie && duplicates))
			reach(f, list, n, f->flows[f->out_flow[i]].to);
	}
	for (uint32_t i = in.first; i < in.end; i++)
		if (tauti_fusion_tie(f, f->in_flow[i]) == 1)
			reach(f, list, n, f->flows[f->in_flow[i]].from);
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* All that is fused with one, in order; how many. */
static uint32_t find_component(struct tauti_fusion *f, uint32_t operator_)
{
	uint32_t n = 0;

	reach(f, f->component, &n, operator_);
	for (uint32_t i = 0; i < n; i++)
		reach_from(f, f->component, &n, f->component[i], false);
	qsort(f->component, n, sizeof *f->component, by_number);
	return n;
}

/* --- what is inside a fused operator --------------------------------------------- */

static bool is_inside(const struct tauti_fusion *f, uint32_t operator_)
{
	return f->inside[operator_] == f->now;
}

static void add_part(struct tauti_fusion *f, uint32_t operator_, bool is_copy)
{
	const struct tauti_fusion_op *op = &f->ops[operator_];

	if (is_inside(f, operator_))
		return;
	f->inside[operator_] = f->now;
	f->place_in[operator_] = f->n_parts;
	f->parts[f->n_parts++] = (struct tauti_fused_part) {
		.op = operator_, .kind = op->kind, .is_copy = is_copy,
		.dur_ns = f->dur_ns[operator_], .compute_ns = op->compute_ns,
		.in_bytes = f->in_bytes[operator_], .out_bytes = op->out_bytes };
}

/* Duplicates of what a part reads: of a member where the option says so, of a
 * duplicate all that it is fused with in any way. */
static void add_copies(struct tauti_fusion *f, uint32_t part, uint32_t last)
{
	struct tauti_span32 in = f->in[f->parts[part].op];
	uint8_t least = f->parts[part].is_copy ? 1 : 2;

	for (uint32_t i = in.first; i < in.end; i++) {
		uint32_t from = f->flows[f->in_flow[i]].from;

		if (tauti_fusion_tie(f, f->in_flow[i]) >= least &&
			f->last[from] != last)
			add_part(f, from, true);
	}
}

static void add_ties(struct tauti_fusion *f, uint32_t part)
{
	struct tauti_span32 out = f->out[f->parts[part].op];

	for (uint32_t i = out.first; i < out.end; i++) {
		const struct tauti_fusion_flow *flow =
			&f->flows[f->out_flow[i]];

		if (!flow->is_fusible || !is_inside(f, flow->to))
			continue;
		f->parts[f->place_in[flow->to]].saved_bytes += flow->bytes;
		f->ties[f->n_ties++] = (struct tauti_fused_tie) { part,
			f->place_in[flow->to], flow->bytes };
	}
}

/* Nobody outside reads it from memory. */
static bool stays_inside(const struct tauti_fusion *f, uint32_t operator_,
	uint32_t last)
{
	struct tauti_span32 out = f->out[operator_];

	for (uint32_t i = out.first; i < out.end; i++)
		if (f->last[f->flows[f->out_flow[i]].to] != last &&
			tauti_fusion_tie(f, f->out_flow[i]) != 2)
			return false;
	return out.first < out.end && !f->ops[operator_].is_kept;
}

static int64_t fused_ns(struct tauti_fusion *f, uint32_t n_members,
	uint32_t last)
{
	f->now++;
	f->n_parts = f->n_ties = 0;
	for (uint32_t i = 0; i < n_members; i++)
		add_part(f, f->component[i], false);
	for (uint32_t i = 0; i < f->n_parts; i++)
		add_copies(f, i, last);
	if (f->n_parts == 1)
		return f->dur_ns[last];
	for (uint32_t i = 0; i < f->n_parts; i++)
		add_ties(f, i);
	for (uint32_t i = 0; i < f->n_parts; i++)
		if (f->parts[i].is_copy ||
			stays_inside(f, f->parts[i].op, last))
			f->parts[i].saved_bytes += f->ops[f->parts[i].op].out_bytes;
	return f->cost.ns(f->cost.context, &(struct tauti_fused) { f->parts,
		f->n_parts, f->ties, f->n_ties });
}

/* --- what cannot be -------------------------------------------------------------------- */

static bool comes_late(const struct tauti_fusion *f, uint32_t flow,
	uint32_t last)
{
	uint32_t from = f->flows[flow].from;

	if (f->last[from] == last || is_inside(f, from))
		return !f->flows[flow].is_fusible;
	return f->last[from] > last;
}

/* Of the duplicates that one flow brings: what they read is there. */
static bool copies_possible(struct tauti_fusion *f, uint32_t flow)
{
	uint32_t last = f->last[f->flows[flow].to];

	f->now++;
	f->n_parts = 0;
	add_part(f, f->flows[flow].from, true);
	for (uint32_t i = 0; i < f->n_parts; i++)
		add_copies(f, i, last);
	for (uint32_t p = 0; p < f->n_parts; p++) {
		struct tauti_span32 in = f->in[f->parts[p].op];

		for (uint32_t i = in.first; i < in.end; i++)
			if (comes_late(f, f->in_flow[i], last))
				return false;
	}
	return true;
}

static bool flow_possible(struct tauti_fusion *f, uint32_t flow)
{
	uint32_t from = f->last[f->flows[flow].from];
	uint32_t to = f->last[f->flows[flow].to];

	if (from == to)
		return f->flows[flow].is_fusible;
	return tauti_fusion_tie(f, flow) == 2 ? copies_possible(f, flow) :
		from < to;
}

static void look_at(struct tauti_fusion *f, uint32_t flow)
{
	bool is_bad = !flow_possible(f, flow);

	f->n_bad += (uint32_t)is_bad - f->is_bad[flow];
	f->is_bad[flow] = is_bad;
}

/* Flows from and to what was reached. What duplicates read may have moved without
 * their being reached, so all of them are looked at. */
static void look_around(struct tauti_fusion *f, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct tauti_span32 out = f->out[f->reached[i]];
		struct tauti_span32 in = f->in[f->reached[i]];

		for (uint32_t k = out.first; k < out.end; k++)
			look_at(f, f->out_flow[k]);
		for (uint32_t k = in.first; k < in.end; k++)
			look_at(f, f->in_flow[k]);
	}
	for (uint32_t i = 0; f->n_duplicates && i < f->n_pairs; i++)
		if (f->option[i] == 2)
			look_at(f, f->site_flow[i]);
}

/* --- after a change ------------------------------------------------------------------ */

static void want(struct tauti_fusion *f, uint32_t operator_, int64_t ns)
{
	f->want_ns[operator_] = ns;
	if (ns == f->laid_ns[operator_] || f->is_changed[operator_])
		return;
	f->is_changed[operator_] = 1;
	f->changed[f->n_changed++] = operator_;
}

/* Of those reached, component by component: see() for each. */
static void each_component(struct tauti_fusion *f, uint32_t n,
	void (*see)(struct tauti_fusion *f, uint32_t n_members))
{
	f->stamp++;
	for (uint32_t i = 0; i < n; i++)
		if (f->mark[f->reached[i]] != f->stamp)
			see(f, find_component(f, f->reached[i]));
}

static void take_last(struct tauti_fusion *f, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		f->last[f->component[i]] = f->component[n - 1];
}

static void take_time(struct tauti_fusion *f, uint32_t n)
{
	uint32_t last = f->component[n - 1];

	want(f, last, fused_ns(f, n, last));
	for (uint32_t i = 0; i + 1 < n; i++)
		want(f, f->component[i], 0);
}

void tauti_fusion_regroup(struct tauti_fusion *f, uint32_t flow)
{
	uint32_t n = 0;

	f->stamp++;
	reach(f, f->reached, &n, f->flows[flow].from);
	reach(f, f->reached, &n, f->flows[flow].to);
	for (uint32_t i = 0; i < n; i++)
		reach_from(f, f->reached, &n, f->reached[i], true);
	each_component(f, n, take_last);
	each_component(f, n, take_time);
	look_around(f, n);
	for (uint32_t i = 0; i < n; i++) {
		struct tauti_span32 made = f->made[f->reached[i]];

		if (made.first < made.end)
			tauti_fusion_regather(f, made.first, made.end);
	}
}
