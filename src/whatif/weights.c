/* weights.c - see weights.h. A layer is an autograd function; its forward and
 * its backward part bear one sequence number. */
#include "whatif/weights.h"

#include <stdlib.h>

struct layer {
	uint32_t sequence;
	int64_t pass_ns;    /* copying its gradients */
	int64_t forward_ns, backward_ns;
};

struct part { /* a row of a layer */
	uint32_t row, sequence;
	bool backward;
};

struct finder {
	struct tauti_whatif *w;
	const struct taut_trace *t;
	TAUT_VEC(struct layer) layers; /* by sequence */
	TAUT_VEC(struct part) recent;  /* backward functions of late */
	TAUT_VEC(uint32_t) open;       /* rows around the one at hand */
	struct part *part_of;          /* by row: what it is within */
};

static int by_sequence(const void *a, const void *b)
{
	const struct layer *x = a, *y = b;

	return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

static int64_t row_end(const struct taut_trace *t, uint32_t row)
{
	return t->start_ns[row] + t->dur_ns[row];
}

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* --- rows ------------------------------------------------------------------------ */

static bool is_function(const struct taut_trace *t, uint32_t row)
{
	return t->sequence[row] && starts(taut_trace_name(t, row),
		"autograd::engine::evaluate_function: ");
}

/* The outermost backward row, the innermost numbered forward row. */
static void enter_row(struct finder *f, uint32_t row)
{
	const struct taut_trace *t = f->t;
	struct part *p = &f->part_of[row];

	while (f->open.count && row_end(t,
		f->open.data[f->open.count - 1]) <= t->start_ns[row])
		f->open.count--;
	*p = f->open.count ? f->part_of[f->open.data[f->open.count - 1]] :
		(struct part){ TAUT_NONE, 0, false };
	if (starts(taut_trace_name(t, row), "autograd::engine::"))
		*p = (struct part){ row, t->sequence[row], true };
	else if (t->kind[row] == TAUT_KIND_OP && t->sequence[row] &&
		!p->backward && p->sequence != t->sequence[row])
		*p = (struct part){ row, t->sequence[row], false };
}

/* A gradient that was copied is of the last function that took longer: what
 * transposes a weight stands between. */
static bool add_pass(struct finder *f, uint32_t row)
{
	for (size_t i = f->recent.count; i-- && f->recent.count - i <= 6;) {
		struct part *p = &f->recent.data[i];
		struct layer l = { .sequence = p->sequence,
			.pass_ns = f->t->dur_ns[row] };

		if (f->t->dur_ns[p->row] > l.pass_ns)
			return taut_vec_push(&f->layers, l);
	}
	return true;
}

static bool read_lane(struct finder *f, uint32_t lane)
{
	const struct taut_trace *t = f->t;
	bool ok = true;

	taut_vec_clear(&f->recent);
	taut_vec_clear(&f->open);
	for (uint32_t i = t->lane_begin[lane];
		ok && i < t->lane_begin[lane + 1]; i++) {
		enter_row(f, i);
		ok = taut_vec_push(&f->open, i);
		if (ok && is_function(t, i))
			ok = taut_vec_push(&f->recent, f->part_of[i]);
		if (ok && !strcmp(taut_trace_name(t, i),
			"torch::distributed::reducer::mul_out"))
			ok = add_pass(f, i);
	}
	return ok;
}

/* --- layers ---------------------------------------------------------------------- */

static void join_layers(struct finder *f)
{
	size_t n = 0;

	if (f->layers.count)
		qsort(f->layers.data, f->layers.count, sizeof *f->layers.data,
			by_sequence);
	for (size_t i = 0; i < f->layers.count; i++) {
		if (n && f->layers.data[n - 1].sequence ==
			f->layers.data[i].sequence)
			f->layers.data[n - 1].pass_ns +=
				f->layers.data[i].pass_ns;
		else
			f->layers.data[n++] = f->layers.data[i];
	}
	f->layers.count = n;
}

static struct layer *find_layer(const struct finder *f, uint32_t sequence)
{
	struct layer key = { .sequence = sequence };

	return f->layers.count ? bsearch(&key, f->layers.data, f->layers.count,
		sizeof key, by_sequence) : NULL;
}

static void time_layers(struct finder *f)
{
	for (uint32_t i = 0; i < f->t->n_events; i++) {
		const struct part *p = &f->part_of[i];
		struct layer *l = p->row == i ?
			find_layer(f, p->sequence) : NULL;

		if (l && p->backward)
			l->backward_ns += f->t->dur_ns[i];
		else if (l)
			l->forward_ns += f->t->dur_ns[i];
	}
}

static void share_out(struct finder *f, uint32_t trace, float *share)
{
	const struct taut_graph *g = f->w->graph;

	for (uint32_t op = 0; op < g->n_ops; op++) {
		const struct part *p;
		const struct layer *l;
		int64_t whole;
		uint32_t row;

		if (g->lanes[g->lane[op]].trace != trace ||
			!tauti_op_trace(f->w, op, &row))
			continue;
		p = &f->part_of[row];
		l = p->row == TAUT_NONE ? NULL : find_layer(f, p->sequence);
		whole = !l ? 0 : p->backward ? l->backward_ns : l->forward_ns;
		if (whole > 0)
			share[op] = (float)((double)l->pass_ns / (double)whole);
	}
}

taut_status tauti_weights_find(struct tauti_whatif *w,
	struct tauti_weights *ret_weights, struct taut_error *err)
{
	const struct taut_run *run = w->graph->run;
	struct tauti_weights found = { .share = TAUT_ARENA_ARRAY(
		w->arena, float, w->graph->n_ops + 1) };
	bool ok = found.share != NULL;

	for (uint32_t r = 0; ok && run && r < run->n_traces; r++) {
		struct finder f = { .w = w, .t = &run->traces[r] };

		f.part_of = calloc(f.t->n_events + 1, sizeof *f.part_of);
		ok = f.part_of != NULL;
		for (size_t i = 0; ok && i < f.t->n_events; i++)
			f.part_of[i].row = TAUT_NONE;
		for (uint32_t l = 0; ok && l < f.t->n_lanes; l++)
			if (f.t->lanes[l].kind == TAUT_LANE_THREAD)
				ok = read_lane(&f, l);
		if (ok) {
			join_layers(&f);
			time_layers(&f);
			share_out(&f, r, found.share);
		}
		found.n_layers += (uint32_t)f.layers.count;
		taut_vec_free(&f.layers);
		taut_vec_free(&f.recent);
		taut_vec_free(&f.open);
		free(f.part_of);
	}
	if (!ok)
		return tauti_no_memory(err, "layers");
	*ret_weights = found;
	return TAUT_OK;
}
