/* facts.c - what later stages ask of a rank: is there a device, when does
 * the host wait for a batch, which module does an operation belong to. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "explain/explain.h"

static const char module_prefix[] = "nn.Module: ";

/* --- waits for a batch ------------------------------------------------------*/

static bool waits_for_batch(const char *name)
{
	return (strstr(name, "DataLoader") && strstr(name, "__next__")) ||
		!strncmp(name, "enumerate(DataLoader)", 21) ||
		!strncmp(name, "enumerate(DataPipe)", 19) ||
		(strstr(name, "utils/data/dataloader.py") &&
		strstr(name, "__next__")) ||
		!strncmp(name, "[pl][profile][Strategy]train_dataloader_next", 44);
}

/* Does the row stand for the main thread's way to its next batch? */
static bool takes_batch(const struct taut_trace *t, uint32_t row)
{
	uint8_t kind = t->kind[row];

	return kind == TAUT_KIND_LOAD_WAIT || ((kind == TAUT_KIND_ANNOTATION ||
		kind == TAUT_KIND_PYTHON) &&
		waits_for_batch(taut_trace_name(t, row)));
}

static bool find_data(struct tauti_explain *x, struct tauti_facts *f)
{
	const struct taut_graph *g = x->g;
	const struct taut_trace *t = &g->run->traces[f->trace];
	uint32_t lane = g->lanes[f->main_lane].trace_lane;
	TAUT_VEC(struct tauti_range) found = { 0 };

	for (uint32_t i = t->lane_begin[lane];
		i < t->lane_begin[lane + 1]; i++) {
		struct tauti_range r;

		if (!takes_batch(t, i))
			continue;
		r.start = taut_graph_time(g, f->trace, t->start_ns[i]);
		r.end = taut_graph_time(g, f->trace,
			t->start_ns[i] + t->dur_ns[i]);
		if (found.count && found.data[found.count - 1].end >= r.end)
			continue; /* nested in the one before */
		if (!taut_vec_push(&found, r)) {
			taut_vec_free(&found);
			return false;
		}
	}
	f->data = found.data;
	f->n_data = (uint32_t)found.count;
	return true;
}

bool tauti_in_data(const struct tauti_facts *f, int64_t at)
{
	uint32_t lo = 0, hi = f->n_data;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (f->data[mid].end <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < f->n_data && f->data[lo].start <= at;
}

/* --- modules -------------------------------------------------------------------*/

struct open_module {
	int64_t end;
	uint32_t module;
};

/* Module or range that a row opens, as an id in names; 0: none. */
static uint32_t module_id(struct taut_names *names, const struct taut_trace *t,
	uint32_t row)
{
	const char *name = taut_trace_name(t, row);

	if (t->kind[row] == TAUT_KIND_PYTHON) {
		if (strncmp(name, module_prefix, sizeof module_prefix - 1))
			return 0;
		name += sizeof module_prefix - 1;
	} else if (t->kind[row] != TAUT_KIND_ANNOTATION ||
		!strncmp(name, "nccl:", 5) || !strncmp(name, "gloo:", 5)) {
		return 0;
	}
	return taut_names_add(names, name, strlen(name));
}

/* Sequence number + 1 of an operator; 0: none. */
static uint32_t autograd_number(const struct taut_trace *t, uint32_t row)
{
	return t->kind[row] == TAUT_KIND_OP ? t->sequence[row] : 0;
}

static bool modules_of_lane(struct tauti_facts *f, struct taut_names *names,
	const struct taut_trace *t, uint32_t lane, uint32_t *by_sequence,
	uint32_t n_sequence)
{
	TAUT_VEC(struct open_module) open = { 0 };
	bool ok = true;

	for (uint32_t i = t->lane_begin[lane];
		ok && i < t->lane_begin[lane + 1]; i++) {
		uint32_t module, sequence = autograd_number(t, i);

		while (open.count && open.data[open.count - 1].end <=
			t->start_ns[i])
			open.count--;
		module = module_id(names, t, i);
		ok = module != TAUT_NONE;
		if (!module && sequence && sequence < n_sequence &&
			(t->flags[i] & TAUT_EVENT_BACKWARD))
			module = by_sequence[sequence];
		if (module) {
			struct open_module m = { t->start_ns[i] + t->dur_ns[i],
				module };

			ok = ok && taut_vec_push(&open, m);
		}
		f->module_of[i] = open.count ?
			open.data[open.count - 1].module : 0;
		if (sequence && sequence < n_sequence &&
			!(t->flags[i] & TAUT_EVENT_BACKWARD) && f->module_of[i])
			by_sequence[sequence] = f->module_of[i];
	}
	taut_vec_free(&open);
	return ok;
}

/* Forward threads first, so that the autograd thread finds its modules by
 * sequence number. */
static bool find_modules(struct tauti_explain *x, struct tauti_facts *f,
	struct taut_names *names)
{
	const struct taut_trace *t = &x->g->run->traces[f->trace];
	uint32_t n_sequence = 1, main = x->g->lanes[f->main_lane].trace_lane;
	uint32_t *by_sequence;
	bool ok;

	for (size_t i = 0; i < t->n_events; i++)
		if (autograd_number(t, i) >= n_sequence &&
			autograd_number(t, i) < 1u << 24)
			n_sequence = autograd_number(t, i) + 1;
	by_sequence = calloc(n_sequence, sizeof *by_sequence);
	f->module_of = calloc(t->n_events + 1, sizeof *f->module_of);
	ok = by_sequence && f->module_of && modules_of_lane(f, names, t, main,
		by_sequence, n_sequence);
	for (uint32_t l = 0; ok && l < t->n_lanes; l++)
		if (l != main && t->lanes[l].kind == TAUT_LANE_THREAD)
			ok = modules_of_lane(f, names, t, l, by_sequence,
				n_sequence);
	free(by_sequence);
	return ok;
}

uint32_t tauti_module_id(const struct tauti_explain *x, uint32_t op)
{
	const struct taut_graph *g = x->g;
	uint32_t by = tauti_is_device_op(g->kind[op]) &&
		x->launch_of[op] != TAUT_NONE ? x->launch_of[op] : op;
	uint32_t rank = tauti_rank_of(g, by);

	if (rank == TAUT_NONE || g->event[by] == TAUT_NONE ||
		!x->facts[rank].module_of)
		return 0;
	return x->facts[rank].module_of[g->event[by]];
}

const char *tauti_module(const struct tauti_explain *x, uint32_t op)
{
	return x->module_names[tauti_module_id(x, op)];
}

/* --- categories ------------------------------------------------------------------*/

static enum taut_category host_category(const struct tauti_explain *x,
	const struct tauti_facts *f, uint32_t op)
{
	const struct taut_graph *g = x->g;
	const struct taut_trace *t = &g->run->traces[f->trace];

	if (g->lane[op] == f->main_lane && tauti_in_data(f, g->start_ns[op]))
		return TAUT_CAT_DATA;
	if (g->event[op] != TAUT_NONE &&
		t->kind[g->event[op]] == TAUT_KIND_LOAD)
		return TAUT_CAT_DATA;
	if (!f->has_device && !f->has_operators && !g->name[op] &&
		g->kind[op] == TAUT_OP_HOST && g->lane[op] == f->main_lane)
		return TAUT_CAT_COMPUTE;
	if (!f->has_device && g->event[op] != TAUT_NONE &&
		g->kind[op] == TAUT_OP_HOST &&
		t->kind[g->event[op]] == TAUT_KIND_OP &&
		strncmp(taut_trace_name(t, g->event[op]), "c10d::", 6))
		return TAUT_CAT_COMPUTE;
	return TAUT_CAT_HOST_BOUND;
}

static void categorise(struct tauti_explain *x)
{
	const struct taut_graph *g = x->g;

	for (uint32_t op = 0; op < g->n_ops; op++) {
		uint32_t rank = tauti_rank_of(g, op);
		enum taut_category c = TAUT_CAT_OTHER;

		if (g->kind[op] == TAUT_OP_KERNEL)
			c = TAUT_CAT_COMPUTE;
		else if (g->kind[op] == TAUT_OP_COPY)
			c = TAUT_CAT_COPY;
		else if (g->kind[op] == TAUT_OP_TRANSFER)
			c = TAUT_CAT_COMM_EXPOSED;
		else if (rank != TAUT_NONE && tauti_is_host_op(g->kind[op]))
			c = host_category(x, &x->facts[rank], op);
		x->op_category[op] = (uint8_t)c;
	}
}

/* --- the whole ----------------------------------------------------------------------*/

static void find_lanes(struct tauti_explain *x)
{
	const struct taut_graph *g = x->g;

	for (uint32_t i = 0; i < g->run->n_traces; i++)
		x->facts[i] = (struct tauti_facts) { .trace = i,
			.first_lane = TAUT_NONE, .first_step = TAUT_NONE };
	for (uint32_t l = 0; l < g->n_lanes; l++) {
		struct tauti_facts *f;

		if (g->lanes[l].trace == TAUT_NONE)
			continue;
		f = &x->facts[g->lanes[l].trace];
		if (f->first_lane == TAUT_NONE)
			f->first_lane = l;
		f->end_lane = l + 1;
		f->has_device |= g->lanes[l].kind == TAUT_LANE_STREAM;
		if (g->lanes[l].is_main)
			f->main_lane = l;
	}
	for (uint32_t s = 0; s < g->n_steps; s++) {
		struct tauti_facts *f = &x->facts[g->steps[s].trace];

		if (f->first_step == TAUT_NONE)
			f->first_step = s;
		f->end_step = s + 1;
	}
}

static void find_operators(struct tauti_facts *f, const struct taut_trace *t)
{
	for (size_t i = 0; i < t->n_events && !f->has_operators; i++)
		f->has_operators = t->kind[i] == TAUT_KIND_OP;
}

static void find_launches(struct tauti_explain *x)
{
	const struct taut_graph *g = x->g;

	memset(x->launch_of, 0xff, (g->n_ops + 1) * sizeof *x->launch_of);
	for (uint32_t op = 0; op < g->n_ops; op++)
		for (uint32_t e = g->edge_begin[op]; e < g->edge_begin[op + 1];
			e++)
			if ((g->edge_kind[e] & ~TAUT_EDGE_FROM_START) ==
				TAUT_EDGE_LAUNCH)
				x->launch_of[g->edge_to[e]] = op;
	for (uint32_t op = 1; op < g->n_ops; op++)
		if (g->kind[op] == TAUT_OP_TRANSFER)
			x->launch_of[op] = x->launch_of[op - 1];
}

static bool publish_modules(struct tauti_explain *x, struct taut_names *names)
{
	x->n_modules = taut_names_count(names);
	x->module_names = TAUT_ARENA_ARRAY(x->arena, const char *,
		x->n_modules + 1);
	for (uint32_t i = 0; x->module_names && i < x->n_modules; i++) {
		x->module_names[i] = taut_arena_strndup(x->arena,
			taut_names_text(names, i), taut_names_length(names, i));
		if (!x->module_names[i])
			return false;
	}
	return x->module_names != NULL;
}

taut_status tauti_facts_find(struct tauti_explain *x, struct taut_error *err)
{
	uint32_t n_ops = x->g->n_ops;
	struct taut_names *names = taut_names_create();
	bool ok;

	x->facts = calloc(x->g->run->n_traces + 1, sizeof *x->facts);
	x->launch_of = malloc((n_ops + 1) * sizeof *x->launch_of);
	x->op_category = malloc(n_ops + 1);
	ok = names && x->facts && x->launch_of && x->op_category;
	if (ok) {
		find_lanes(x);
		find_launches(x);
	}
	for (uint32_t i = 0; ok && i < x->g->run->n_traces; i++)
		find_operators(&x->facts[i], &x->g->run->traces[i]);
	for (uint32_t i = 0; ok && i < x->g->run->n_traces; i++)
		ok = find_data(x, &x->facts[i]) &&
			find_modules(x, &x->facts[i], names);
	ok = ok && publish_modules(x, names);
	if (ok)
		categorise(x);
	taut_names_destroy(names);
	return ok ? TAUT_OK : tauti_explain_no_memory(err);
}

void tauti_facts_free(struct tauti_explain *x)
{
	for (uint32_t i = 0; x->facts && i < x->g->run->n_traces; i++) {
		free(x->facts[i].data);
		free(x->facts[i].module_of);
	}
	free(x->facts);
	free(x->launch_of);
	free(x->op_category);
	free(x->usual_ns);
}
