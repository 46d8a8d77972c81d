/* fusion.c - the fine-grained space: its input, its sites, its face to a search. */
#include "plan/fusion/own.h"

taut_status tauti_fusion_no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for a space of fusions");
}

/* --- what comes in ------------------------------------------------------------------ */

static taut_status wrong(struct taut_error *err, const char *what, uint32_t i,
	const char *how)
{
	return taut_error_set(err, TAUT_EINVAL, -1,
		"fusion: %s %u: %s was expected", what, i, how);
}

static taut_status check_ops(const struct tauti_fusion_in *in,
	struct taut_error *err)
{
	const struct taut_graph *g = in->graph;

	if (!in->n_ops)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"fusion: operators were expected, found none");
	for (uint32_t i = 0; i < in->n_ops; i++) {
		const struct tauti_fusion_op *op = &in->ops[i];

		if (op->op >= g->n_ops || g->lanes[g->lane[op->op]].trace ==
			TAUT_NONE)
			return wrong(err, "operator", i, "one of a rank's lane");
		if (i && (g->lane[op->op] != g->lane[op[-1].op] ||
			op->op <= op[-1].op))
			return wrong(err, "operator", i,
				"a later one of the same lane");
		if (op->compute_ns < 0 || op->compute_ns > g->dur_ns[op->op])
			return wrong(err, "operator", i,
				"computing within its duration");
		if (op->out_bytes < 0 || op->given_bytes < 0)
			return wrong(err, "operator", i, "a result, and what "
				"it is given, of 0 bytes or more");
	}
	return TAUT_OK;
}

static taut_status check_flows(const struct tauti_fusion_in *in,
	struct taut_error *err)
{
	for (uint32_t i = 0; i < in->n_flows; i++) {
		const struct tauti_fusion_flow *flow = &in->flows[i];

		if (flow->to >= in->n_ops || flow->from >= flow->to ||
			flow->bytes < 0)
			return wrong(err, "flow", i,
				"one from an operator to a later one");
	}
	return TAUT_OK;
}

static taut_status check_gradients(const struct tauti_fusion_in *in,
	struct taut_error *err)
{
	const struct taut_graph *g = in->graph;

	for (uint32_t i = 0; i < in->n_gradients; i++) {
		const struct tauti_fusion_gradient *grad = &in->gradients[i];

		if (grad->producer >= in->n_ops ||
			(i && grad->producer < grad[-1].producer))
			return wrong(err, "gradient", i,
				"one produced no earlier than that before it");
		if (grad->bytes <= 0 || grad->bytes > INT64_C(1) << 50)
			return wrong(err, "gradient", i, "more than 0 bytes");
		if (grad->first_update > in->n_updates ||
			grad->n_updates > in->n_updates - grad->first_update)
			return wrong(err, "gradient", i, "updates in the table");
		if (!i && grad->is_joined)
			return wrong(err, "gradient", i,
				"no gradient before it to travel with");
	}
	for (uint32_t i = 0; i < in->n_updates; i++)
		if (in->updates[i] >= g->n_ops ||
			g->lanes[g->lane[in->updates[i]]].trace !=
			g->lanes[g->lane[in->ops[0].op]].trace)
			return wrong(err, "update", i, "an op of the same rank");
	return TAUT_OK;
}

static bool network_possible(const struct tauti_fusion_in *in)
{
	const struct taut_graph *g = in->graph;
	uint32_t lane = in->network_lane - 1, ops = g->lane[in->ops[0].op];

	return !in->network_lane || (lane < g->n_lanes && lane != ops &&
		g->lane_begin[lane] < g->lane_begin[lane + 1] &&
		g->lanes[lane].trace == g->lanes[ops].trace);
}

static taut_status check(const struct tauti_fusion_in *in,
	struct taut_error *err)
{
	taut_status status = check_ops(in, err);

	if (!status)
		status = check_flows(in, err);
	if (!status)
		status = check_gradients(in, err);
	if (!status && !network_possible(in))
		status = wrong(err, "network's lane", in->network_lane - 1,
			"another lane of the operators' rank, with operations");
	if (!status && !in->cost.ns)
		status = taut_error_set(err, TAUT_EINVAL, -1,
			"fusion: a cost of fused operators was expected");
	return status;
}

/* --- the tables ------------------------------------------------------------------------ */

#define ROWS(f, field, n) \
	((f)->field = taut_arena_calloc( \
		(f)->arena, (size_t)(n) + 1, sizeof *(f)->field))

static bool make_rows(struct tauti_fusion *f, uint32_t n_updates)
{
	uint32_t n = f->n_ops, g = f->n_gradients, m = f->n_flows;

	return ROWS(f, ops, n) && ROWS(f, flows, m) && ROWS(f, gradients, g) &&
		ROWS(f, updates, n_updates) && ROWS(f, out, n) &&
		ROWS(f, in, n) && ROWS(f, out_flow, m) && ROWS(f, in_flow, m) &&
		ROWS(f, made, n) && ROWS(f, slot_op, g) && ROWS(f, dur_ns, n) &&
		ROWS(f, in_bytes, n) &&
		ROWS(f, flow_site, m) && ROWS(f, is_bad, m) &&
		 ROWS(f, site_flow, m) &&
		ROWS(f, last, n) && ROWS(f, want_ns, n) && ROWS(f, joined, g) &&
		ROWS(f, want, g) && ROWS(f, laid_ns, n) &&
		ROWS(f, laid, g) && ROWS(f, changed, n) &&
		ROWS(f, is_changed, n) && ROWS(f, mark, n) &&
		ROWS(f, place_in, n) && ROWS(f, inside, n) &&
		ROWS(f, reached, n) && ROWS(f, component, n) &&
		ROWS(f, parts, n) && ROWS(f, ties, m) &&
		ROWS(f, wanted_order, g) && ROWS(f, group_ready, g) &&
		ROWS(f, furthest, n) &&
		ROWS(f, is_waited, n) && ROWS(f, slot_on_path, g) &&
		 ROWS(f, by_ready, g);
}

static bool make_places(struct tauti_fusion *f)
{
	uint32_t n;

	f->lane = f->graph->lane[f->ops[0].op];
	f->first_op = f->graph->lane_begin[f->lane];
	n = f->n_places = f->graph->lane_begin[f->lane + 1] - f->first_op;
	if (!ROWS(f, operator_at, n) || !ROWS(f, is_foreign, n) ||
		!ROWS(f, on_path, n) || !ROWS(f, along_ns, n) ||
		!ROWS(f, new_end_ns, n))
		return false;
	for (uint32_t i = 0; i < n; i++)
		f->operator_at[i] = TAUT_NONE;
	for (uint32_t i = 0; i < f->n_ops; i++)
		f->operator_at[tauti_fusion_place(f, i)] = i;
	return true;
}

static bool is_of_lane(const struct tauti_fusion *f, uint32_t op)
{
	return op >= f->first_op && op - f->first_op < f->n_places;
}

/* Of edges within the lane only those that say more than its order does count. */
static void see_edge(struct tauti_fusion *f, uint32_t from, uint32_t edge)
{
	const struct taut_graph *g = f->graph;
	uint32_t to = g->edge_to[edge];

	if (is_of_lane(f, from) && is_of_lane(f, to) && from < to &&
		g->edge_lag_ns[edge] <= 0)
		return;
	if (is_of_lane(f, to))
		f->is_foreign[to - f->first_op] = 1;
	if (is_of_lane(f, from) &&
		f->operator_at[from - f->first_op] != TAUT_NONE)
		f->is_waited[f->operator_at[from - f->first_op]] = 1;
}

static void see_edges(struct tauti_fusion *f, uint32_t n_updates)
{
	const struct taut_graph *g = f->graph;

	for (uint32_t i = 0; i < g->n_ops; i++)
		for (uint32_t e = g->edge_begin[i]; e < g->edge_begin[i + 1]; e++)
			see_edge(f, i, e);
	for (uint32_t i = 0; i < n_updates; i++)
		if (is_of_lane(f, f->updates[i]))
			f->is_foreign[f->updates[i] - f->first_op] = 1;
}

/* Flows by operator: rows of `by`, whose operators stand in `span`. */
static void sort_flows(struct tauti_fusion *f, bool by_from,
	struct tauti_span32 *span, uint32_t *rows)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < f->n_flows; i++)
		span[by_from ? f->flows[i].from : f->flows[i].to].end++;
	for (uint32_t i = 0; i < f->n_ops; i++) {
		uint32_t n = span[i].end;

		span[i] = (struct tauti_span32) { sum, sum };
		sum += n;
	}
	for (uint32_t i = 0; i < f->n_flows; i++)
		rows[span[by_from ? f->flows[i].from :
			f->flows[i].to].end++] = i;
}

static void copy_in(struct tauti_fusion *f, const struct tauti_fusion_in *in,
	const uint32_t *op_of)
{
	for (uint32_t i = 0; i < f->n_ops; i++) {
		f->ops[i] = in->ops[i];
		f->ops[i].op = op_of[in->ops[i].op];
		f->dur_ns[i] = f->graph->dur_ns[f->ops[i].op];
		f->want_ns[i] = f->laid_ns[i] = f->dur_ns[i];
		f->in_bytes[i] = in->ops[i].given_bytes;
		f->last[i] = i;
	}
	for (uint32_t i = 0; i < f->n_flows; i++) {
		f->flows[i] = in->flows[i];
		f->in_bytes[in->flows[i].to] += in->flows[i].bytes;
	}
	for (uint32_t i = 0; i < f->n_gradients; i++) {
		struct tauti_span32 *made = &f->made[in->gradients[i].producer];

		f->gradients[i] = in->gradients[i];
		f->joined[i] = in->gradients[i].is_joined;
		if (made->first == made->end)
			made->first = i;
		made->end = i + 1;
	}
	for (uint32_t i = 0; i < in->n_updates; i++)
		f->updates[i] = op_of[in->updates[i]];
}

/* --- sites ---------------------------------------------------------------------------- */

static uint32_t sites_of_flows(struct tauti_fusion *f)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n_flows; i++) {
		const struct tauti_fusion_flow *flow = &f->flows[i];

		f->flow_site[i] = TAUT_NONE;
		if (!flow->is_fusible || f->is_waited[flow->from] ||
			f->is_waited[flow->to])
			continue;
		f->site_flow[n] = i;
		f->flow_site[i] = n++;
	}
	return n;
}

static bool make_sites(struct tauti_fusion *f)
{
	static const char *const names[] = {
		"operator fusion", "tensor fusion", "tensor partition" };
	uint32_t joins = f->n_gradients ? f->n_gradients - 1 : 0;
	uint32_t n = f->n_pairs + joins + f->n_gradients;
	uint8_t *n_options = TAUT_ARENA_ARRAY(f->arena, uint8_t, n + 1);
	uint32_t *pass = TAUT_ARENA_ARRAY(f->arena, uint32_t, n + 1);

	if (!n_options || !pass || !ROWS(f, option, n) || !ROWS(f, weights, n))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		pass[i] = i < f->n_pairs ? TAUTI_FUSION_OPERATORS :
			i < f->n_pairs + joins ? TAUTI_FUSION_TENSORS :
			TAUTI_FUSION_PIECES;
		n_options[i] = pass[i] == TAUTI_FUSION_PIECES ?
			TAUTI_FUSION_PIECES_OPTIONS : 2;
		if (i < f->n_pairs) {
			struct tauti_span32 out =
				f->out[f->flows[f->site_flow[i]].from];

			n_options[i] = out.end - out.first > 1 ? 3 : 2;
		}
	}
	f->space.self = f;
	f->space.n_sites = n;
	f->space.n_options = n_options;
	f->space.pass = pass;
	f->space.n_passes = 3;
	f->space.pass_names = names;
	return true;
}

uint32_t tauti_fusion_site_of_flow(const struct tauti_fusion *f, uint32_t flow)
{
	return flow < f->n_flows ? f->flow_site[flow] : TAUT_NONE;
}

uint32_t tauti_fusion_site_of_join(const struct tauti_fusion *f,
	uint32_t gradient)
{
	return gradient && gradient < f->n_gradients ?
		f->n_pairs + gradient - 1 : TAUT_NONE;
}

uint32_t tauti_fusion_site_of_pieces(const struct tauti_fusion *f,
	uint32_t gradient)
{
	return gradient < f->n_gradients ?
		f->n_pairs + f->n_gradients - 1 + gradient : TAUT_NONE;
}

/* --- the face --------------------------------------------------------------------------- */

taut_status tauti_fusion_set(void *self, uint32_t site, uint8_t option,
	struct taut_error *err)
{
	struct tauti_fusion *f = self;
	uint32_t gradient;
	uint8_t was = f->option[site];

	(void)err;
	if (was == option)
		return TAUT_OK;
	f->option[site] = option;
	switch (f->space.pass[site]) {
	case TAUTI_FUSION_OPERATORS:
		f->n_duplicates += (uint32_t)(option == 2) - (was == 2);
		tauti_fusion_regroup(f, f->site_flow[site]);
		break;
	case TAUTI_FUSION_TENSORS:
		gradient = site - f->n_pairs + 1;
		f->joined[gradient] = f->gradients[gradient].is_joined ^ option;
		tauti_fusion_regather(f, gradient - 1, gradient + 1);
		break;
	default:
		gradient = site - f->n_pairs - (f->n_gradients - 1);
		tauti_fusion_regather(f, gradient, gradient + 1);
	}
	return TAUT_OK;
}

static taut_status play(struct tauti_fusion *f, struct taut_error *err)
{
	taut_status status = tauti_fusion_lay(f, err);

	if (status)
		return status;
	f->has_path = false;
	status = f->engine->play(f->played, &f->end_ns, err);
	f->is_played = !status;
	return status;
}

static taut_status cost(void *self, struct tauti_cost *ret_cost,
	struct taut_error *err)
{
	struct tauti_fusion *f = self;
	struct tauti_cost c = { TAUTI_NEVER, -1, -1 };
	taut_status status = TAUT_OK;

	if (f->n_bad) {
		*ret_cost = c;
		return TAUT_OK;
	}
	if (!f->is_played || f->n_changed || f->slots.end)
		status = play(f, err);
	if (status && status != TAUT_EMATCH)
		return status;
	if (!status)
		c.step_ns = f->end_ns;
	c.network_bytes = f->sent_bytes;
	*ret_cost = c;
	return TAUT_OK;
}

static const struct tauti_space_ops ops = {
	.set = tauti_fusion_set, .cost = cost, .rule = tauti_fusion_rule,
	.critical = tauti_fusion_critical,
};

/* --- life ---------------------------------------------------------------------------------- */

static taut_status lay_out(struct tauti_fusion *f,
	const struct tauti_fusion_in *in, struct taut_error *err)
{
	uint32_t *op_of;
	taut_status status;

	if (!make_rows(f, in->n_updates))
		return tauti_fusion_no_memory(err);
	status = tauti_fusion_one_rank(f, in, &op_of, err);
	if (status)
		return status;
	copy_in(f, in, op_of);
	f->network = !in->network_lane ? TAUT_NONE : f->graph->lane[
		op_of[in->graph->lane_begin[in->network_lane - 1]]];
	sort_flows(f, true, f->out, f->out_flow);
	sort_flows(f, false, f->in, f->in_flow);
	if (!make_places(f))
		return tauti_fusion_no_memory(err);
	see_edges(f, in->n_updates);
	f->n_pairs = sites_of_flows(f);
	if (!make_sites(f))
		return tauti_fusion_no_memory(err);
	status = tauti_fusion_find_images(f, in, err);
	return status ? status : tauti_fusion_find_coarse(f, err);
}

static taut_status make_edit(struct tauti_fusion *f, struct taut_error *err)
{
	taut_status status = taut_edit_create(f->graph, &f->edit, err);

	if (!status)
		status = tauti_fusion_lay_base(f, err);
	if (status)
		return status;
	for (uint32_t i = 0; i < f->n_gradients; i++)
		f->laid[i].ready = TAUT_NONE;
	f->is_in_order = true;
	if (f->n_gradients)
		tauti_fusion_regather(f, 0, f->n_gradients);
	f->sent_bytes = tauti_fusion_sent(f);
	return f->engine->create(f->edit, &f->played, err);
}

taut_status tauti_fusion_create(const struct tauti_fusion_in *in,
	struct tauti_fusion **ret_fusion, struct taut_error *err)
{
	taut_status status = check(in, err);
	struct taut_arena *arena;
	struct tauti_fusion *f;

	if (status)
		return status;
	arena = taut_arena_create();
	f = arena ? TAUT_ARENA_ARRAY(arena, struct tauti_fusion, 1) : NULL;
	if (!f) {
		taut_arena_destroy(arena);
		return tauti_fusion_no_memory(err);
	}
	f->arena = arena;
	f->space.ops = &ops;
	f->engine = in->engine ? in->engine : &tauti_fusion_again;
	f->cost = in->cost;
	f->link = in->link;
	f->n_ops = in->n_ops;
	f->n_flows = in->n_flows;
	f->n_gradients = in->n_gradients;
	status = lay_out(f, in, err);
	if (!status)
		status = make_edit(f, err);
	if (status)
		tauti_fusion_destroy(f);
	else
		*ret_fusion = f;
	return status;
}

void tauti_fusion_destroy(struct tauti_fusion *fusion)
{
	if (!fusion)
		return;
	if (fusion->played)
		fusion->engine->destroy(fusion->played);
	taut_edit_destroy(fusion->edit);
	taut_graph_destroy(fusion->own_graph);
	taut_arena_destroy(fusion->arena);
}

const struct tauti_space *tauti_fusion_space(const struct tauti_fusion *fusion)
{
	return &fusion->space;
}
