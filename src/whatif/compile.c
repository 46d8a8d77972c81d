/* compile.c - modules that the framework's compiler makes one piece of work of: a call
 * takes forward and backward what is left of its time, as 'taut record --compile'
 * measured of a module of the kind.
 *
 * What is compiled needs all its parameters when it begins, and gives all their
 * gradients when its backward pass ends. So a call's forward work stands where its
 * last operator stood, and its backward work where its first one did: whoever waited
 * for one of them waits for all. */
#include <stdlib.h>

#include "whatif/calls.h"

enum { MODULES, FORWARD, BACKWARD };
enum { WAYS = 2 }; /* forward, backward */

static const struct taut_parameter parameters[] = {
	[MODULES] = { "", "PATTERN", NULL, "shell pattern of the modules to "
		"compile: 'nn.Module: blocks.*'" },
	[FORWARD] = { "forward", "FACTOR", "", "what is left of the time of their "
		"forward pass: 0.8x; without it, what 'taut record --compile' "
		"measured" },
	[BACKWARD] = { "backward", "FACTOR", "", "the same of their backward pass" },
};

static const char prefix[] = "nn.Module: ";
static const double most = 100; /* times as slow; more is a slip */

struct group { /* of one call and way, on the lane at hand */
	uint32_t keeper; /* op that takes the time of all; TAUT_NONE: there is none */
	uint32_t last;   /* of the recording: the newest one in it */
	double ns;
};

struct left { /* of the time of a call */
	double of[WAYS];
};

struct compiler {
	struct tauti_whatif *w;
	const struct tauti_change *change;
	struct taut_error *err;
	struct tauti_calls calls;
	struct left *left;    /* by call */
	struct group *groups; /* by call and way */
	TAUT_VEC(uint32_t) open; /* of these, on the lane at hand; some twice */
};

/* --- what is left ------------------------------------------------------------------ */

/* "blocks.*" of "nn.Module: blocks.11", as the recorder calls the kind. */
static const char *kind_of(struct compiler *c, const struct tauti_call *call)
{
	const char *name = taut_trace_name(
		&c->w->graph->run->traces[call->trace], call->row);
	size_t n;

	if (!strncmp(name, prefix, sizeof prefix - 1))
		name += sizeof prefix - 1;
	n = strlen(name);
	while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
		n--;
	return name[n] && n && name[n - 1] == '.' ?
		taut_arena_printf(c->w->arena, "%.*s*", (int)n, name) : name;
}

static taut_status refuse_kind(struct compiler *c, const char *kind)
{
	const char *key = taut_arena_printf(
		c->w->arena, "compile_not.%s", kind);
	const char *why = key ? tauti_fact(c->w, key) : NULL;

	if (!why)
		why = tauti_fact(c->w, "compile_none");
	if (why)
		return taut_error_set(c->err, TAUT_EINVAL, -1, "%s: %s cannot be "
			"compiled: %s", c->change->text, kind, why);
	return taut_error_set(c->err, TAUT_EINVAL, -1, "%s: the recording does "
		"not tell what compiling %s gives; 'taut record --compile "
		"PATTERN' does, and so do forward=0.8x,backward=0.8x",
		c->change->text, kind);
}

/* Six factors: forward, its quartiles, and the same backward. */
static bool read_factors(const char *text, double ret[WAYS][3])
{
	for (uint32_t i = 0; i < WAYS * 3; i++) {
		char *end;
		double value = strtod(text, &end);

		if (end == text || !(value > 0 && value < most))
			return false;
		ret[i / 3][i % 3] = value;
		text = end;
	}
	return true;
}

static taut_status measured(struct compiler *c, const char *kind,
	struct left *ret_left)
{
	const char *key = taut_arena_printf(c->w->arena, "compile.%s", kind);
	const char *text = key ? tauti_fact(c->w, key) : NULL;
	double factors[WAYS][3];

	if (!text || !read_factors(text, factors))
		return refuse_kind(c, kind);
	for (uint32_t way = 0; way < WAYS; way++)
		ret_left->of[way] = tauti_range(c->w, factors[way][1],
			factors[way][0], factors[way][2]);
	return tauti_note(c->w, c->err, "%s: of %s, compiled, %.2f of the forward "
		"and %.2f of the backward time is left", c->change->text, kind,
		factors[0][0], factors[1][0]);
}

/* What is given goes before what was measured. */
static taut_status find_left(
	struct compiler *c, const struct tauti_call *call, struct left *ret_left)
{
	bool forward = tauti_param_given(c->change, FORWARD);
	bool backward = tauti_param_given(c->change, BACKWARD);
	const char *kind = kind_of(c, call);
	taut_status status = TAUT_OK;

	if (!kind)
		return tauti_no_memory(c->err, "names of modules");
	if (!forward || !backward)
		status = measured(c, kind, ret_left);
	if (!status && forward)
		status = tauti_param_factor(
			c->change, FORWARD, &ret_left->of[0], c->err);
	if (!status && backward)
		status = tauti_param_factor(
			c->change, BACKWARD, &ret_left->of[1], c->err);
	return status;
}

/* A running job is given one of the two for a module. */
static taut_status refuse_again(const struct compiler *c)
{
	for (uint32_t op = 0; op < c->w->graph->n_ops; op++)
		if ((c->w->parts > 1 || (c->w->again && c->w->again[op].times)) &&
			c->calls.of[op] != TAUT_NONE)
			return taut_error_set(c->err, TAUT_EINVAL, -1, "%s: its "
				"modules are computed again, and then not "
				"compiled", c->change->text);
	return TAUT_OK;
}

static taut_status take_calls(struct compiler *c)
{
	size_t n = c->calls.at.count;
	taut_status status = refuse_again(c);

	if (status)
		return status;
	if (!n)
		return taut_error_set(c->err, TAUT_EINVAL, -1, "%s: no call of a "
			"module of this name was recorded; 'taut record' marks "
			"modules", c->change->text);
	c->left = TAUT_ARENA_ARRAY(c->w->arena, struct left, n);
	c->groups = TAUT_ARENA_ARRAY(c->w->arena, struct group, n * WAYS);
	if (!c->left || !c->groups)
		return tauti_no_memory(c->err, "calls of modules");
	for (size_t i = 0; i < n * WAYS; i++)
		c->groups[i].keeper = TAUT_NONE;
	for (size_t i = 0; !status && i < n; i++)
		status = find_left(c, &c->calls.at.data[i], &c->left[i]);
	return status;
}

/* --- their work ------------------------------------------------------------------------ */

static taut_status close_group(struct compiler *c, size_t i)
{
	struct group *g = &c->groups[i];
	uint32_t keeper = g->keeper;

	g->keeper = TAUT_NONE;
	return keeper == TAUT_NONE ? TAUT_OK : taut_edit_set_dur(c->w->edit,
		keeper, tauti_ns(g->ns * c->left[i / WAYS].of[i % WAYS]), c->err);
}

/* Its group, as a place in c->groups; TAUT_NONE: it is of no call. */
static uint32_t group_of(const struct compiler *c, const struct taut_op *op)
{
	uint32_t like = op->like;

	if (like == TAUT_NONE || !tauti_is_work(op->kind))
		return TAUT_NONE;
	if (c->calls.of[like] != TAUT_NONE &&
		tauti_op_phase(c->w, op) == TAUTI_PHASE_FORWARD)
		return c->calls.of[like] * WAYS;
	return c->calls.back_of[like] == TAUT_NONE ? TAUT_NONE :
		c->calls.back_of[like] * WAYS + 1;
}

/* Not time of a module's range in which no operator is open. */
static bool is_operator(const struct compiler *c, const struct taut_op *op)
{
	uint32_t row;
	const struct taut_trace *t = tauti_op_trace(c->w, op->like, &row);

	return t && t->kind[row] == TAUT_KIND_OP;
}

/* The time of both goes to the later operator forward, to the first one backward. */
static taut_status join(struct compiler *c, struct group *g, bool backward,
	uint32_t i, const struct taut_op *op)
{
	bool moves = !backward && is_operator(c, op);
	uint32_t gone = moves ? g->keeper : i;
	taut_status status = taut_edit_set_dur(c->w->edit, gone, 0, c->err);

	g->ns += (double)op->dur_ns;
	if (op->gap_ns > 0) {
		g->ns += (double)op->gap_ns;
		if (!status)
			status = taut_edit_set_gap(c->w->edit, i, 0, c->err);
	}
	if (moves)
		g->keeper = i;
	return status;
}

/* A call that is done again, as a copy of it is, begins anew. */
static taut_status add(struct compiler *c, uint32_t i, const struct taut_op *op,
	uint32_t place)
{
	struct group *g = &c->groups[place];
	taut_status status = TAUT_OK;

	if (g->keeper != TAUT_NONE && op->like > g->last)
		status = join(c, g, place % WAYS, i, op);
	else {
		status = close_group(c, place);
		g->keeper = i;
		g->ns = (double)op->dur_ns;
		if (!status && !taut_vec_push(&c->open, place))
			status = tauti_no_memory(c->err, "calls of modules");
	}
	g->last = op->like;
	return status;
}

static taut_status change_lane(struct compiler *c, uint32_t lane)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = taut_edit_first(c->w->edit, lane);
		!status && i != TAUT_NONE; i = taut_edit_next(c->w->edit, i)) {
		struct taut_op op;
		uint32_t place = taut_edit_op(c->w->edit, i, &op) ?
			group_of(c, &op) : TAUT_NONE;

		if (place != TAUT_NONE)
			status = add(c, i, &op, place);
	}
	for (size_t i = 0; !status && i < c->open.count; i++)
		status = close_group(c, c->open.data[i]);
	c->open.count = 0;
	return status;
}

static taut_status change_all(struct compiler *c)
{
	taut_status status = take_calls(c);

	for (uint32_t l = 0; !status && l < taut_edit_lanes(c->w->edit); l++)
		if (taut_edit_lane(c->w->edit, l).trace != TAUT_NONE)
			status = change_lane(c, l);
	return status;
}

static taut_status apply(struct tauti_whatif *w,
	const struct tauti_change *change, struct taut_error *err)
{
	struct compiler c = { .w = w, .change = change, .err = err };
	taut_status status;

	if (w->job->has_device)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: what compiling "
			"gives is known of computation on hosts alone, and this "
			"job's is on a device; fuse and graphs are for those",
			change->text);
	status = tauti_calls_find(w, change->values[MODULES], &c.calls, err);
	if (!status)
		status = change_all(&c);
	tauti_calls_end(&c.calls);
	taut_vec_free(&c.open);
	return status;
}

const struct tauti_transformation tauti_whatif_compile = {
	.info = {
		.name = "compile", .group = "compute",
		.summary = "modules compiled by the framework",
		.assumption = "modules whose names differ by a number are alike; "
			"memory is as it was; all gradients of a module are "
			"there when its backward pass ends",
		.source = "what 'taut record --compile' measured of a module of "
			"the kind, compiled and not",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};
