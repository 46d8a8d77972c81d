/* opworks.c - the operators of a recording by what they did, and how long.
 *
 * Operators call each other: linear calls addmm, and both say the same sizes.
 * The work is that of the innermost one of a kind; around it are calls. What
 * works of another kind within it (addmm copies its bias first) has its own
 * time. Views and allocations within belong to what is around them. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "opwork.h"

enum { MOST_KEY = 1024 }; /* bytes of a name with its sizes */

struct rank {
	uint32_t *row;  /* by event: what it is, in rows; TAUT_NONE */
	uint32_t *call; /* by event: the one at work around it; TAUT_NONE */
	double *time;   /* by event at work */
};

struct known { /* a convolution's output, from its backward part */
	double in[TAUT_MOST_DIMS], weight[TAUT_MOST_DIMS], outputs;
};

struct call {
	uint32_t row;
	double time_ns;
};

struct finder {
	const struct taut_graph *g;
	const int64_t *dur_ns;
	struct taut_rooflines *out;
	struct rank *ranks;
	TAUT_VEC(struct known) convolutions;
	TAUT_VEC(struct taut_opwork_row) rows; /* by id in names, from 1 on */
	TAUT_VEC(struct call) calls;
};

/* --- rows: each operator and sizes once ---------------------------------------------*/

static uint32_t add_key(struct finder *f, const char *name, const char *sizes)
{
	char key[MOST_KEY];
	size_t n = strlen(name), m = strlen(sizes);

	if (n + m + 2 > sizeof key)
		return 0;
	memcpy(key, name, n + 1);
	memcpy(key + n + 1, sizes, m + 1);
	return taut_names_add(f->out->names, key, n + m + 2);
}

static bool is_operator(const struct taut_trace *t, uint32_t event)
{
	return t->kind[event] == TAUT_KIND_OP && t->sizes[event] &&
		!taut_trace_comm(t, event);
}

/* Equal operators mostly follow each other in steps: the key of (name, sizes)
 * is looked up once for each text. */
static bool name_events(struct finder *f, uint32_t trace)
{
	const struct taut_trace *t = &f->g->run->traces[trace];
	struct rank *r = &f->ranks[trace];

	for (uint32_t i = 0; i < t->n_events; i++) {
		uint32_t id;

		r->row[i] = r->call[i] = TAUT_NONE;
		if (!t->sizes || !is_operator(t, i))
			continue;
		id = add_key(f, taut_trace_name(t, i),
			taut_names_text(t->names, t->sizes[i]));
		if (id == TAUT_NONE)
			return false;
		r->row[i] = id ? id - 1 : TAUT_NONE;
	}
	return true;
}

static void dims_of(const struct tauti_size *size, double *ret)
{
	for (uint32_t i = 0; i < size->n_dims && i < TAUT_MOST_DIMS; i++)
		ret[i] = (double)size->dim[i];
}

/* gradient: which of the first two arguments. */
static bool know(struct finder *f, const char *sizes, uint32_t gradient)
{
	struct tauti_sizes read;
	struct known k = { .outputs = 0 };

	if (!tauti_sizes_read(sizes, &read) || !tauti_size_of(&read, 0) ||
		!tauti_size_of(&read, 1) || !tauti_size_of(&read, 2))
		return true;
	k.outputs = tauti_size_of(&read, gradient)->elements;
	dims_of(tauti_size_of(&read, 1 - gradient), k.in);
	dims_of(tauti_size_of(&read, 2), k.weight);
	return taut_vec_push(&f->convolutions, k);
}

static double outputs_of(const struct finder *f, const char *sizes)
{
	struct tauti_sizes read;
	struct known k = { .outputs = 0 };

	if (!tauti_sizes_read(sizes, &read) || !tauti_size_of(&read, 0) ||
		!tauti_size_of(&read, 1))
		return 0;
	dims_of(tauti_size_of(&read, 0), k.in);
	dims_of(tauti_size_of(&read, 1), k.weight);
	for (size_t i = 0; i < f->convolutions.count; i++) {
		const struct known *one = &f->convolutions.data[i];

		if (!memcmp(one->in, k.in, sizeof k.in) &&
			!memcmp(one->weight, k.weight, sizeof k.weight))
			return one->outputs;
	}
	return 0;
}

static const char *sizes_of(const struct finder *f, uint32_t row)
{
	const char *name = taut_names_text(f->out->names, row + 1);

	return name + strlen(name) + 1;
}

static bool find_rows(struct finder *f)
{
	uint32_t n = taut_names_count(f->out->names) - 1;
	bool ok = true;

	for (uint32_t i = 0; ok && i < n; i++) {
		enum tauti_form form = tauti_opname_of(taut_names_text(
			f->out->names, i + 1)).form;

		if (form == TAUTI_FORM_CONV_BACKWARD ||
			form == TAUTI_FORM_CONV_BACKWARD_OLD)
			ok = know(f, sizes_of(f, i),
				form == TAUTI_FORM_CONV_BACKWARD_OLD);
	}
	for (uint32_t i = 0; ok && i < n; i++) {
		const char *name = taut_names_text(f->out->names, i + 1);
		struct taut_opwork_row row = { .name = name,
			.sizes = sizes_of(f, i) };
		bool conv = tauti_opname_of(name).form == TAUTI_FORM_CONV;

		if (!taut_opwork_of(name, row.sizes, conv ?
			outputs_of(f, row.sizes) : 0, &row.work))
			row.work.kind = TAUT_OPWORK_NONE;
		ok = taut_vec_push(&f->rows, row);
	}
	return ok;
}

/* --- who is at work ----------------------------------------------------------------*/

static enum taut_opwork_kind kind_at(
	const struct finder *f, const struct rank *r, uint32_t event)
{
	return r->row[event] == TAUT_NONE ? TAUT_OPWORK_NONE :
		f->rows.data[r->row[event]].work.kind;
}

typedef TAUT_VEC(uint32_t) stack;

/* Clocks are rounded: what begins behind another may seem to begin before that
 * ends, but not half of it. */
static void leave(const struct taut_trace *t, stack *open, uint32_t event)
{
	int64_t middle = t->start_ns[event] + t->dur_ns[event] / 2;

	while (open->count) {
		uint32_t top = open->data[open->count - 1];

		if (t->start_ns[top] + t->dur_ns[top] > middle)
			break;
		open->count--;
	}
}

/* Whatever is around one of its kind only called it. */
static void enter(const struct finder *f, struct rank *r, const stack *open,
	uint32_t event)
{
	enum taut_opwork_kind kind = kind_at(f, r, event);

	if (kind == TAUT_OPWORK_NONE)
		return;
	r->call[event] = event;
	for (size_t i = 0; i < open->count; i++) {
		uint32_t around = open->data[i];
		enum taut_opwork_kind is = kind_at(f, r, around);

		if (is == kind || is == TAUT_OPWORK_OTHER)
			r->call[around] = TAUT_NONE;
	}
}

static bool walk(const struct finder *f, uint32_t trace, uint32_t lane,
	bool hand_down)
{
	const struct taut_trace *t = &f->g->run->traces[trace];
	struct rank *r = &f->ranks[trace];
	stack open = { 0 };
	bool ok = true;

	for (uint32_t i = t->lane_begin[lane];
		ok && i < t->lane_begin[lane + 1]; i++) {
		leave(t, &open, i);
		if (!hand_down)
			enter(f, r, &open, i);
		else if (r->call[i] == TAUT_NONE && open.count)
			r->call[i] = r->call[open.data[open.count - 1]];
		ok = taut_vec_push(&open, i);
	}
	taut_vec_free(&open);
	return ok;
}

static bool find_calls(const struct finder *f, uint32_t trace)
{
	const struct taut_trace *t = &f->g->run->traces[trace];
	bool ok = true;

	for (uint32_t l = 0; ok && l < t->n_lanes; l++)
		if (t->lanes[l].kind == TAUT_LANE_THREAD)
			ok = walk(f, trace, l, false) && walk(f, trace, l, true);
	return ok;
}

static uint32_t *no_rows(const struct taut_graph *g)
{
	uint32_t *rows = malloc(((size_t)g->n_ops + 1) * sizeof *rows);

	if (rows)
		memset(rows, 0xff, ((size_t)g->n_ops + 1) * sizeof *rows);
	return rows;
}

/* --- times -------------------------------------------------------------------------*/

static uint32_t *find_launchers(const struct taut_graph *g)
{
	uint32_t *launcher = no_rows(g);

	for (uint32_t i = 0; launcher && i < g->n_ops; i++)
		for (uint32_t e = g->edge_begin[i]; e < g->edge_begin[i + 1]; e++)
			if ((g->edge_kind[e] & ~TAUT_EDGE_FROM_START) ==
				TAUT_EDGE_LAUNCH)
				launcher[g->edge_to[e]] = i;
	return launcher;
}

/* The event of the host that an operation's time is charged to. */
static uint32_t charged(const struct finder *f, const uint32_t *launcher,
	uint32_t op, uint32_t *ret_trace)
{
	const struct taut_graph *g = f->g;
	bool device = g->kind[op] == TAUT_OP_KERNEL ||
		g->kind[op] == TAUT_OP_COPY;
	uint32_t by = device ? launcher[op] : op;

	if (by == TAUT_NONE || device != (f->out->of_devices != 0) ||
		(!device && g->kind[op] != TAUT_OP_HOST) ||
		g->lanes[g->lane[op]].is_comm || g->event[by] == TAUT_NONE)
		return TAUT_NONE;
	*ret_trace = g->lanes[g->lane[by]].trace;
	return *ret_trace == TAUT_NONE ? TAUT_NONE : g->event[by];
}

static bool charge(struct finder *f)
{
	const struct taut_graph *g = f->g;
	uint32_t *launcher = find_launchers(g), trace;

	if (!launcher)
		return false;
	for (uint32_t op = 0; op < g->n_ops; op++) {
		uint32_t event = charged(f, launcher, op, &trace), call;
		struct rank *r = &f->ranks[event == TAUT_NONE ? 0 : trace];

		call = event == TAUT_NONE ? TAUT_NONE : r->call[event];
		if (call == TAUT_NONE)
			continue;
		f->out->call_of[op] = call;
		f->out->row_of[op] = r->row[call];
		r->time[call] += (double)f->dur_ns[op];
	}
	free(launcher);
	return true;
}

static int by_row(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static bool time_rows(struct finder *f)
{
	bool ok = true;

	for (uint32_t r = 0; r < f->g->run->n_traces; r++)
		for (uint32_t i = 0; ok && i < f->g->run->traces[r].n_events;
			i++) {
			struct call call = { f->ranks[r].row[i],
				f->ranks[r].time[i] };

			if (call.time_ns > 0)
				ok = taut_vec_push(&f->calls, call);
		}
	if (f->calls.count)
		qsort(f->calls.data, f->calls.count, sizeof *f->calls.data,
			by_row);
	for (size_t i = 0, end; ok && i < f->calls.count; i = end) {
		struct taut_opwork_row *row = &f->rows.data[
			f->calls.data[i].row];

		for (end = i; end < f->calls.count &&
			f->calls.data[end].row == f->calls.data[i].row; end++)
			;
		row->n_calls = (uint32_t)(end - i);
		row->time_ns = f->calls.data[i + (end - i) / 2].time_ns;
	}
	return ok;
}

/* --- the whole ---------------------------------------------------------------------*/

static bool make_room(struct finder *f)
{
	const struct taut_run *run = f->g->run;
	struct taut_rooflines *out = f->out;
	bool ok;

	f->ranks = calloc((size_t)run->n_traces + 1, sizeof *f->ranks);
	out->row_of = no_rows(out->graph);
	out->call_of = no_rows(out->graph);
	out->row_at = calloc((size_t)run->n_traces + 1, sizeof *out->row_at);
	out->n_traces = out->row_at ? run->n_traces : 0;
	out->names = taut_names_create();
	ok = f->ranks && out->row_of && out->call_of && out->row_at &&
		out->names;
	for (uint32_t r = 0; ok && r < run->n_traces; r++) {
		size_t n = run->traces[r].n_events + 1;

		f->ranks[r].row = malloc(n * sizeof *f->ranks[r].row);
		f->ranks[r].call = malloc(n * sizeof *f->ranks[r].call);
		f->ranks[r].time = calloc(n, sizeof *f->ranks[r].time);
		ok = f->ranks[r].row && f->ranks[r].call && f->ranks[r].time;
	}
	return ok;
}

/* Hands out which operator is at work at an event. */
static void hand_over(struct finder *f)
{
	for (uint32_t r = 0; r < f->g->run->n_traces; r++) {
		struct rank *rank = &f->ranks[r];

		for (size_t i = 0; i < f->g->run->traces[r].n_events; i++)
			if (rank->call[i] != TAUT_NONE)
				rank->call[i] = rank->row[rank->call[i]];
		f->out->row_at[r] = rank->call;
		rank->call = NULL;
	}
}

static bool find(struct finder *f)
{
	const struct taut_run *run = f->g->run;
	bool ok = make_room(f);

	for (uint32_t r = 0; ok && r < run->n_traces; r++)
		ok = name_events(f, r);
	ok = ok && find_rows(f);
	for (uint32_t r = 0; ok && r < run->n_traces; r++)
		ok = find_calls(f, r);
	ok = ok && charge(f) && time_rows(f);
	if (!ok)
		return false;
	f->out->rows = f->rows.data;
	f->out->n_rows = (uint32_t)f->rows.count;
	memset(&f->rows, 0, sizeof f->rows);
	hand_over(f);
	return true;
}

static void free_finder(struct finder *f)
{
	for (uint32_t r = 0; f->ranks && r < f->g->run->n_traces; r++) {
		free(f->ranks[r].row);
		free(f->ranks[r].call);
		free(f->ranks[r].time);
	}
	free(f->ranks);
	taut_vec_free(&f->convolutions);
	taut_vec_free(&f->rows);
	taut_vec_free(&f->calls);
}

static bool has_device(const struct taut_graph *g)
{
	for (uint32_t op = 0; op < g->n_ops; op++)
		if (g->kind[op] == TAUT_OP_KERNEL &&
			!g->lanes[g->lane[op]].is_comm)
			return true;
	return false;
}

taut_status taut_rooflines_create(const struct taut_graph *graph,
	const int64_t *dur_ns, struct taut_rooflines **ret_rooflines,
	struct taut_error *reterr)
{
	static const struct taut_run none;
	struct taut_rooflines *out = calloc(1, sizeof *out);
	struct taut_graph bare = *graph;
	struct finder f = { .g = graph, .out = out,
		.dur_ns = dur_ns ? dur_ns : graph->dur_ns };
	taut_status status = TAUT_ENOMEM;

	if (!graph->run || !graph->event) {
		bare.run = &none;
		bare.n_ops = 0;
		f.g = &bare;
	}
	if (out) {
		out->graph = graph;
		out->of_devices = has_device(graph);
		status = find(&f) ? tauti_opworks_fit(out, reterr) :
			TAUT_ENOMEM;
	}
	free_finder(&f);
	if (status) {
		taut_rooflines_destroy(out);
		return taut_error_set(reterr, status, -1,
			"no memory for the work of operators");
	}
	*ret_rooflines = out;
	return TAUT_OK;
}

void taut_rooflines_destroy(struct taut_rooflines *rooflines)
{
	if (!rooflines)
		return;
	for (uint32_t r = 0; r < rooflines->n_traces; r++)
		free(rooflines->row_at[r]);
	free(rooflines->row_at);
	free(rooflines->rows);
	free(rooflines->fits);
	free(rooflines->row_of);
	free(rooflines->call_of);
	taut_names_destroy(rooflines->names);
	free(rooflines);
}
