/* merge.c - operators that read the same tensor become one.
 *
 * A MetaFlow substitution: matrix products (or convolutions) of one input, such
 * as the projections to queries, keys and values, are one of the weights put
 * beside each other. It reads the input once and is called once; of its
 * backward part, products that read the same input, or add up to its gradient,
 * are one likewise. What the merged one takes is the sum of what its parts
 * took, times roofline(merged) / sum of roofline(parts).
 *
 * A recording has sizes but no addresses, so that two tensors are taken for one
 * where they are of one size and what reads them stands behind each other:
 * nothing that computes between them, in one module. */
#include <fnmatch.h>
#include <stdlib.h>

#include "whatif/compute.h"

enum { PATTERN };

static const struct taut_parameter parameters[] = {
	{ "", "PATTERN", NULL, "shell pattern of operators: aten::linear, "
		"aten::conv2d" },
};

#define NO_SEQUENCE 0

/* An operator that may be one of several: on a rank, once. */
struct match {
	uint32_t trace, lane, row, last; /* rows row .. last are its own */
	uint32_t module, above;  /* rows of the modules around it; TAUT_NONE */
	uint32_t work;           /* row of its product; TAUT_NONE */
	uint32_t sequence;       /* of that, for autograd */
	uint32_t group, place;   /* which group, and which of it */
};

struct part { /* a product of a match, forward or backward */
	uint32_t group, place, nth; /* the nth product; 0: forward */
	uint32_t trace, row;
	double time_ns;
};

struct merger {
	struct tauti_whatif *w;
	struct taut_error *err;
	const char *pattern;
	struct taut_rooflines *r;
	TAUT_VEC(struct match) matches;
	TAUT_VEC(struct part) parts;
	uint32_t **part_of;   /* by trace, row: its product; TAUT_NONE */
	uint32_t **call_of;   /* by trace, row: whose work it is; TAUT_NONE */
	uint8_t **superfluous; /* by trace, row: of a match that is no more */
	uint32_t *first_of; /* by group: its first match */
	double *factor;     /* by part: of its time; 0: it is gone */
	double gain;        /* of what the rooflines say is gained, so much */
	uint32_t n_groups;
};

/* --- matches -----------------------------------------------------------------------*/

struct open_row {
	uint32_t row;
	int64_t end;
};
typedef TAUT_VEC(struct open_row) stack;

static const struct taut_trace *trace_of(const struct merger *m, uint32_t trace)
{
	return &m->w->graph->run->traces[trace];
}

static bool is_module(const struct taut_trace *t, uint32_t row)
{
	return t->kind[row] == TAUT_KIND_PYTHON &&
		!strncmp(taut_trace_name(t, row), "nn.Module: ", 11);
}

static enum taut_opwork_kind kind_of(
	const struct merger *m, uint32_t trace, uint32_t row)
{
	uint32_t i = m->call_of[trace][row];

	return i == TAUT_NONE ? TAUT_OPWORK_NONE : m->r->rows[i].work.kind;
}

static bool is_product(enum taut_opwork_kind kind)
{
	return kind == TAUT_OPWORK_PRODUCT || kind == TAUT_OPWORK_CONV;
}

static void find_modules(const struct taut_trace *t, const stack *open,
	struct match *match)
{
	match->module = match->above = TAUT_NONE;
	for (size_t i = open->count; i--;) {
		if (!is_module(t, open->data[i].row))
			continue;
		if (match->module == TAUT_NONE) {
			match->module = open->data[i].row;
			continue;
		}
		match->above = open->data[i].row;
		return;
	}
}

/* Clocks are rounded: what begins behind it may seem to begin before its end. */
static bool is_within(const struct taut_trace *t, uint32_t row, uint32_t around)
{
	return t->start_ns[row] + t->dur_ns[row] / 2 <
		t->start_ns[around] + t->dur_ns[around];
}

/* Its product is the only one in it, and numbered by autograd. */
static void look_into(const struct merger *m, struct match *match)
{
	const struct taut_trace *t = trace_of(m, match->trace);
	uint32_t n = 0;

	match->last = match->row;
	match->sequence = NO_SEQUENCE;
	for (uint32_t i = match->row; i < t->lane_begin[match->lane + 1] &&
		(i == match->row || is_within(t, i, match->row)); i++) {
		match->last = i;
		if (n)
			continue;
		if (t->sequence[i])
			match->sequence = t->sequence[i];
		if (is_product(kind_of(m, match->trace, i))) {
			match->work = i;
			n = 1;
		}
	}
	for (uint32_t i = match->work; n && ++i <= match->last;)
		n += is_product(kind_of(m, match->trace, i));
	if (n != 1)
		match->work = TAUT_NONE;
}

static const struct taut_operand *input_of(
	const struct merger *m, const struct match *match)
{
	return &m->r->rows[m->call_of[match->trace][match->work]]
		.work.operands[0];
}

static bool same_input(const struct merger *m, const struct match *a,
	const struct match *b)
{
	const struct taut_operand *x = input_of(m, a), *y = input_of(m, b);

	return x->n_dims && x->n_dims == y->n_dims &&
		!memcmp(x->dim, y->dim, x->n_dims * sizeof *x->dim) &&
		!strcmp(taut_trace_name(trace_of(m, a->trace), a->row),
			taut_trace_name(trace_of(m, b->trace), b->row));
}

static bool same_module(const struct match *a, const struct match *b)
{
	return a->module == b->module ||
		(a->above != TAUT_NONE && a->above == b->above) ||
		(a->above != TAUT_NONE && a->above == b->module) ||
		(b->above != TAUT_NONE && b->above == a->module);
}

/* Whether it goes on with the group of the match before it. */
static void place(const struct merger *m, struct match *match, bool between)
{
	const struct match *before = m->matches.count ?
		&m->matches.data[m->matches.count - 1] : NULL;

	match->group = before ? before->group + 1 : 0;
	match->place = 0;
	if (!before || between || before->trace != match->trace ||
		before->lane != match->lane || !same_module(before, match) ||
		!same_input(m, before, match))
		return;
	match->group = before->group;
	match->place = before->place + 1;
}

static bool matches_pattern(const struct merger *m, const struct taut_trace *t,
	uint32_t row)
{
	return t->kind[row] == TAUT_KIND_OP &&
		!fnmatch(m->pattern, taut_trace_name(t, row), FNM_CASEFOLD) &&
		!(t->flags[row] & TAUT_EVENT_BACKWARD);
}

static bool computes(enum taut_opwork_kind kind)
{
	return kind != TAUT_OPWORK_NONE && kind != TAUT_OPWORK_COPY;
}

static bool read_lane(struct merger *m, uint32_t trace, uint32_t lane)
{
	const struct taut_trace *t = trace_of(m, trace);
	stack open = { 0 };
	bool ok = true, between = true;

	for (uint32_t i = t->lane_begin[lane];
		ok && i < t->lane_begin[lane + 1]; i++) {
		struct open_row row = { i, t->start_ns[i] + t->dur_ns[i] };
		struct match match = { .trace = trace, .lane = lane, .row = i };

		while (open.count && open.data[open.count - 1].end <=
			t->start_ns[i] + t->dur_ns[i] / 2)
			open.count--;
		match.work = TAUT_NONE;
		if (matches_pattern(m, t, i)) {
			look_into(m, &match);
			find_modules(t, &open, &match);
		}
		if (match.work == TAUT_NONE) {
			between = between || t->kind[i] == TAUT_KIND_STEP ||
				computes(kind_of(m, trace, i));
			ok = taut_vec_push(&open, row);
			continue;
		}
		place(m, &match, between);
		ok = taut_vec_push(&m->matches, match);
		between = false;
		i = match.last;
	}
	taut_vec_free(&open);
	return ok;
}

/* Groups of one are none. */
static void keep_groups(struct merger *m)
{
	size_t n = 0;
	uint32_t groups = 0;

	for (size_t i = 0, end; i < m->matches.count; i = end) {
		for (end = i + 1; end < m->matches.count &&
			m->matches.data[end].place; end++)
			;
		if (end - i < 2)
			continue;
		for (size_t k = i; k < end; k++) {
			m->matches.data[n] = m->matches.data[k];
			m->matches.data[n++].group = groups;
		}
		groups++;
	}
	m->matches.count = n;
	m->n_groups = groups;
}

/* --- products ----------------------------------------------------------------------*/

static bool add_part(struct merger *m, const struct match *match, uint32_t row,
	uint32_t nth)
{
	struct part part = { match->group, match->place, nth, match->trace,
		row, 0 };

	m->part_of[match->trace][row] = (uint32_t)m->parts.count;
	return taut_vec_push(&m->parts, part);
}

/* What is left of a match behind the first is superfluous, but for other work:
 * a bias is still to be put into place. */
static bool add_range(struct merger *m, const struct match *match,
	uint32_t first, uint32_t last, uint32_t nth)
{
	bool ok = true;

	for (uint32_t i = first; ok && i <= last; i++) {
		enum taut_opwork_kind kind = kind_of(m, match->trace, i);

		m->superfluous[match->trace][i] = match->place > 0 &&
			(kind == TAUT_OPWORK_NONE || is_product(kind));
		if (is_product(kind))
			ok = add_part(m, match, i, nth++);
	}
	return ok;
}

struct number {
	uint32_t trace, sequence, match;
};

static int by_number(const void *a, const void *b)
{
	const struct number *x = a, *y = b;

	if (x->trace != y->trace)
		return x->trace < y->trace ? -1 : 1;
	return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

static bool add_backward(struct merger *m, const struct number *numbers,
	size_t n, uint32_t trace, uint32_t lane)
{
	const struct taut_trace *t = trace_of(m, trace);
	bool ok = true;

	for (uint32_t i = t->lane_begin[lane];
		ok && i < t->lane_begin[lane + 1]; i++) {
		struct number key = { trace, t->sequence[i], 0 }, *found;
		uint32_t last = i;

		if (!key.sequence || strncmp(taut_trace_name(t, i),
			"autograd::engine::evaluate_function: ", 37))
			continue;
		found = bsearch(&key, numbers, n, sizeof key, by_number);
		while (found && last + 1 < t->lane_begin[lane + 1] &&
			is_within(t, last + 1, i))
			last++;
		if (found)
			ok = add_range(m, &m->matches.data[found->match], i,
				last, 1);
		i = last;
	}
	return ok;
}

static bool find_parts(struct merger *m)
{
	const struct taut_run *run = m->w->graph->run;
	TAUT_VEC(struct number) numbers = { 0 };
	bool ok = true;

	for (size_t i = 0; ok && i < m->matches.count; i++) {
		const struct match *match = &m->matches.data[i];
		struct number number = { match->trace, match->sequence,
			(uint32_t)i };

		ok = add_range(m, match, match->row, match->last, 0);
		if (ok && match->sequence != NO_SEQUENCE)
			ok = taut_vec_push(&numbers, number);
	}
	if (numbers.count)
		qsort(numbers.data, numbers.count, sizeof *numbers.data,
			by_number);
	for (uint32_t r = 0; ok && numbers.count && r < run->n_traces; r++)
		for (uint32_t l = 0; ok && l < run->traces[r].n_lanes; l++)
			if (run->traces[r].lanes[l].kind == TAUT_LANE_THREAD)
				ok = add_backward(m, numbers.data,
					numbers.count, r, l);
	taut_vec_free(&numbers);
	return ok;
}

/* --- times -------------------------------------------------------------------------*/

static int by_product(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->nth != y->nth)
		return x->nth < y->nth ? -1 : 1;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Of an operation: the part that it is the work of, else TAUT_NONE. */
static uint32_t part_at(const struct merger *m, const struct taut_op *op)
{
	uint32_t row, call;
	const struct taut_trace *t = op->like == TAUT_NONE ? NULL :
		tauti_op_trace(m->w, op->like, &row);

	if (!t)
		return TAUT_NONE;
	call = m->r->call_of[op->like];
	return call == TAUT_NONE ? TAUT_NONE :
		m->part_of[t - m->w->graph->run->traces][call];
}

static void measure(struct merger *m)
{
	for (uint32_t i = 0; i < taut_edit_ops(m->w->edit); i++) {
		struct taut_op op;
		uint32_t part;

		if (!taut_edit_op(m->w->edit, i, &op) || op.like != i)
			continue;
		part = part_at(m, &op);
		if (part != TAUT_NONE)
			m->parts.data[part].time_ns += (double)op.dur_ns;
	}
}

/* Of n products, all of the nth of a group: the time of one of all, as a part
 * of what the first took. Each reads, or adds up to, a tensor of `shared`
 * elements; 0: they cannot be one. */
static double merged(const struct merger *m, const struct part *parts, size_t n,
	double shared)
{
	uint32_t first = m->call_of[parts->trace][parts->row];
	struct taut_opwork sum = m->r->rows[first].work;
	double apart = taut_rooflines_ns(m->r, first, &sum);
	double measured = parts->time_ns;

	for (size_t i = 1; i < n; i++) {
		uint32_t row = m->call_of[parts[i].trace][parts[i].row];
		const struct taut_opwork *one = &m->r->rows[row].work;

		if (one->kind != sum.kind || parts[i].place != i)
			return 0;
		sum.flops += one->flops;
		sum.bytes += one->bytes - TAUT_ELEMENT_BYTES * shared;
		apart += taut_rooflines_ns(m->r, row, one);
		measured += parts[i].time_ns;
	}
	if (!(apart > 0) || !(parts->time_ns > 0) || parts->place)
		return 0;
	apart = fmin(1, taut_rooflines_ns(m->r, first, &sum) / apart);
	return measured / parts->time_ns * (1 - m->gain * (1 - apart));
}

/* Of a convolution's backward part both the input and its gradient. */
static double shared_of(const struct merger *m, const struct part *part)
{
	enum taut_opwork_kind kind = kind_of(m, part->trace, part->row);
	const struct match *match = &m->matches.data[m->first_of[part->group]];

	return input_of(m, match)->elements *
		(part->nth && kind == TAUT_OPWORK_CONV ? 2 : 1);
}

/* parts by product; factors beside them as they were found. */
static void merge_products(struct merger *m, const struct part *by,
	const uint32_t *index)
{
	for (size_t i = 0, end; i < m->parts.count; i = end) {
		double to;

		for (end = i + 1; end < m->parts.count &&
			by[end].group == by[i].group &&
			by[end].nth == by[i].nth; end++)
			;
		to = end - i > 1 ? merged(m, &by[i], end - i,
			shared_of(m, &by[i])) : 0;
		for (size_t k = i; k < end && to > 0; k++)
			m->factor[index[k]] = k == i ? to : 0;
	}
}

static bool find_factors(struct merger *m)
{
	size_t n = m->parts.count;
	struct part *by = malloc((n + 1) * sizeof *by);
	uint32_t *index = malloc((n + 1) * sizeof *index);
	bool ok = by && index;

	for (size_t i = 0; ok && i < n; i++) {
		by[i] = m->parts.data[i];
		m->factor[i] = 1;
	}
	if (ok && n)
		qsort(by, n, sizeof *by, by_product);
	for (size_t i = 0; ok && i < n; i++)
		index[i] = m->part_of[by[i].trace][by[i].row];
	if (ok)
		merge_products(m, by, index);
	free(by);
	free(index);
	return ok;
}

static bool is_superfluous(const struct merger *m, const struct taut_op *op)
{
	uint32_t row;
	const struct taut_trace *t = op->like == TAUT_NONE ||
		tauti_is_device_op(op->kind) ? NULL :
		tauti_op_trace(m->w, op->like, &row);

	return t && m->superfluous[t - m->w->graph->run->traces][row];
}

static taut_status edit_all(struct merger *m)
{
	uint32_t n = taut_edit_ops(m->w->edit);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_op op;
		uint32_t part;

		if (!taut_edit_op(m->w->edit, i, &op) ||
			!tauti_is_work(op.kind))
			continue;
		part = part_at(m, &op);
		if (part != TAUT_NONE && m->factor[part] > 0)
			status = tauti_scale_op(
				m->w, i, &op, m->factor[part], m->err);
		else if (part != TAUT_NONE || is_superfluous(m, &op))
			status = tauti_vanish(m->w, i, &op, m->err);
	}
	return status;
}

/* --- the whole ---------------------------------------------------------------------*/

static bool make_room(struct merger *m)
{
	const struct taut_graph *g = m->w->graph;
	struct taut_arena *arena = m->w->arena;
	uint32_t n = g->run->n_traces;
	bool ok;

	m->part_of = TAUT_ARENA_ARRAY(arena, uint32_t *, n + 1);
	m->call_of = TAUT_ARENA_ARRAY(arena, uint32_t *, n + 1);
	m->superfluous = TAUT_ARENA_ARRAY(arena, uint8_t *, n + 1);
	ok = m->part_of && m->call_of && m->superfluous;
	for (uint32_t r = 0; ok && r < n; r++) {
		size_t rows = g->run->traces[r].n_events + 1;

		m->part_of[r] = TAUT_ARENA_ARRAY(arena, uint32_t, rows);
		m->call_of[r] = TAUT_ARENA_ARRAY(arena, uint32_t, rows);
		m->superfluous[r] = TAUT_ARENA_ARRAY(arena, uint8_t, rows);
		ok = m->part_of[r] && m->call_of[r] && m->superfluous[r];
		if (!ok)
			break;
		memset(m->part_of[r], 0xff, rows * sizeof **m->part_of);
		memset(m->call_of[r], 0xff, rows * sizeof **m->call_of);
	}
	for (uint32_t op = 0; ok && op < g->n_ops; op++)
		if (m->r->call_of[op] != TAUT_NONE)
			m->call_of[g->lanes[g->lane[op]].trace]
				[m->r->call_of[op]] = m->r->row_of[op];
	return ok;
}

static bool find(struct merger *m)
{
	const struct taut_run *run = m->w->graph->run;
	bool ok = make_room(m);

	for (uint32_t r = 0; ok && r < run->n_traces; r++)
		for (uint32_t l = 0; ok && l < run->traces[r].n_lanes; l++)
			if (run->traces[r].lanes[l].kind == TAUT_LANE_THREAD)
				ok = read_lane(m, r, l);
	if (!ok)
		return false;
	keep_groups(m);
	m->first_of = TAUT_ARENA_ARRAY(
		m->w->arena, uint32_t, m->n_groups + 1);
	if (!m->first_of)
		return false;
	for (size_t i = m->matches.count; i--;)
		m->first_of[m->matches.data[i].group] = (uint32_t)i;
	if (!find_parts(m))
		return false;
	m->factor = TAUT_ARENA_ARRAY(
		m->w->arena, double, m->parts.count + 1);
	if (!m->factor)
		return false;
	measure(m);
	return find_factors(m);
}

static taut_status note(const struct merger *m, const struct tauti_change *c)
{
	const struct match *first = &m->matches.data[0], *second = first + 1;
	const struct taut_trace *t = trace_of(m, first->trace);

	return tauti_note(m->w, m->err, "%s: %zu operators become %u, over all "
		"ranks and steps (the first: %s of %s and %s); that they read "
		"the same tensor is told by its size and their places alone",
		c->text, m->matches.count, m->n_groups,
		taut_trace_name(t, first->row),
		t->sizes && t->sizes[first->row] ? taut_names_text(
		t->names, t->sizes[first->row]) : "-",
		t->sizes && t->sizes[second->row] ? taut_names_text(
		t->names, t->sizes[second->row]) : "-");
}

static taut_status run(struct merger *m, const struct tauti_change *c)
{
	taut_status status;

	if (!find(m))
		return tauti_no_memory(m->err, "operators to merge");
	if (!m->n_groups)
		return taut_error_set(m->err, TAUT_EINVAL, -1, "%s: expected "
			"operators of that name, one behind the other in one "
			"module, whose inputs are of one size; found none",
			c->text);
	status = edit_all(m);
	return status ? status : note(m, c);
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct merger m = { .w = w, .err = err, .pattern = c->values[PATTERN],
		.gain = tauti_range(w, 1.5, 1, 0.5) };
	taut_status status = taut_rooflines_create(
		w->graph, w->costs->dur_ns, &m.r, err);

	if (status)
		return status;
	if (!m.r->n_rows)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: the "
			"recording has no sizes of what operators read (taut "
			"record tells them; torch.profiler with "
			"record_shapes=True)", c->text);
	else
		status = run(&m, c);
	taut_vec_free(&m.matches);
	taut_vec_free(&m.parts);
	taut_rooflines_destroy(m.r);
	return status;
}

const struct tauti_transformation tauti_whatif_merge = {
	.info = {
		.name = "merge", .group = "compute",
		.summary = "products that read one tensor become one product",
		.assumption = "operators of the name, behind each other in one "
			"module, with inputs of one size, read the same "
			"tensor; the merged one takes what they took, times "
			"the roofline of its size by the sum of theirs",
		.source = "MetaFlow (SysML'19): merging matrix products and "
			"convolutions; its other substitutions are fuse, "
			"batchnorm, scale and remove",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};
