/* slow.c - a rank made slow on purpose: what would a straggler cost? */
#include "whatif/compute.h"

enum { RANK, FACTOR, DELAY };

static const struct taut_parameter parameters[] = {
	{ "", "RANK", NULL, "the rank that becomes slow" },
	{ "factor", "FACTOR", "", "its computation takes so many times as "
		"long; 2x where neither is given" },
	{ "delay", "TIME", "", "so much more work of its host in each step, "
		"before the forward pass: 50ms" },
};

static taut_status scale_rank(struct tauti_whatif *w,
	const struct tauti_change *c, uint32_t rank, double factor,
	struct taut_error *err)
{
	uint32_t n = taut_edit_ops(w->edit);
	bool device = w->job->has_device;
	bool scaled = false;

	for (uint32_t i = 0; i < n; i++) {
		struct taut_op op;
		taut_status status;

		if (!taut_edit_op(w->edit, i, &op) ||
			tauti_op_rank(w, &op) != rank ||
			!(device ? tauti_is_device_op(op.kind) :
			tauti_is_work(op.kind)) ||
			tauti_is_load_lane(w, op.lane))
			continue;
		scaled |= op.dur_ns > 0;
		status = tauti_scale_op(w, i, &op, factor, err);
		if (status)
			return status;
	}
	return scaled ? TAUT_OK : taut_error_set(err, TAUT_EINVAL, -1,
		"%s: the recording has no computation of this rank, which "
		"could be slower", c->text);
}

/* Behind what the main thread does before the forward pass of a step that
 * begins with op: where a training loop would do something of its own. */
static uint32_t before_forward(const struct tauti_whatif *w, uint32_t op)
{
	uint32_t begin = op;

	for (uint32_t next = taut_edit_next(w->edit, op); next != TAUT_NONE;
		op = next, next = taut_edit_next(w->edit, op)) {
		struct taut_op is;

		if (!taut_edit_op(w->edit, next, &is))
			continue;
		if (is.kind == TAUT_OP_MARK)
			return begin;
		if (tauti_op_phase(w, &is) == TAUTI_PHASE_FORWARD)
			return op;
	}
	return begin;
}

static taut_status delay_rank(struct tauti_whatif *w,
	const struct tauti_change *c, uint32_t rank, int64_t delay_ns,
	struct taut_error *err)
{
	const struct taut_graph *g = w->graph;
	uint32_t n = 0;

	for (uint32_t s = 0; s < g->n_steps; s++) {
		struct taut_op op = { .dur_ns = delay_ns, .kind = TAUT_OP_HOST,
			.event = TAUT_NONE, .collective = TAUT_NONE,
			.like = TAUT_NONE };
		uint32_t at;
		taut_status status;

		if (g->steps[s].trace != rank)
			continue;
		n++;
		at = before_forward(w, g->steps[s].begin_op);
		op.lane = g->lane[g->steps[s].begin_op];
		status = taut_edit_insert(w->edit, at, &op, "delay", &at, err);
		if (status)
			return status;
	}
	return n ? TAUT_OK : taut_error_set(err, TAUT_EINVAL, -1, "%s: the "
		"recording has no steps of this rank, in which it could be "
		"held up", c->text);
}

static taut_status read_delay(
	const struct tauti_change *c, int64_t *ret, struct taut_error *err)
{
	bool is_factor;
	double ns;
	taut_status status = tauti_param_scaled(
		c, DELAY, TAUTI_NS, &is_factor, &ns, err);

	if (status)
		return status;
	if (is_factor || ns < 0 || ns > 1e15)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%s: delay: expected a time, such as 50ms", c->text);
	*ret = llround(ns);
	return TAUT_OK;
}

/* Does one rank's delay reach the others within the step? */
static bool keep_step(const struct taut_graph *g)
{
	bool found = g->run->n_traces < 2;

	for (uint32_t i = 0; i < g->n_collectives && !found; i++)
		found = g->collectives[i].n_members > 1 &&
			taut_coll_levels(g->collectives[i].kind);
	return found;
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	bool delayed = *c->values[DELAY], scaled = *c->values[FACTOR];
	uint32_t rank;
	double factor = 2;
	int64_t delay_ns = 0;
	taut_status status = tauti_param_rank(w, c, RANK, &rank, err);

	if (!status && scaled)
		status = tauti_param_factor(c, FACTOR, &factor, err);
	if (!status && delayed)
		status = read_delay(c, &delay_ns, err);
	if (!status && (scaled || !delayed))
		status = scale_rank(w, c, rank, factor, err);
	if (!status && delayed)
		status = delay_rank(w, c, rank, delay_ns, err);
	return status || keep_step(w->graph) ? status : tauti_note(w, err,
		"slow: the ranks of this recording do not wait for each other "
		"in a collective, as workers of a parameter server do not; "
		"the step is the median over all of them, which one that is "
		"slow need not move");
}

const struct tauti_transformation tauti_whatif_slow = {
	.info = {
		.name = "slow", .group = "compute",
		.summary = "one rank computes more slowly, or is held up",
		.assumption = "the factor holds for all of its work alike: of "
			"its device where it has one, else of its threads; its "
			"loader's workers and the network are as fast as "
			"before",
		.source = "Daydream (ATC'20): scale",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};
