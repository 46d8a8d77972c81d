/* scenario.c - one way in which the changed job may turn out: the changes laid
 * over the recording, built, and replayed with what its transfers share. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "whatif/kernels.h"
#include "whatif/predict.h"
#include "whatif/schedule.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for a prediction");
}

/* --- a predictor ------------------------------------------------------------------- */

taut_status tauti_predictor_init(struct tauti_predictor *p,
	const struct taut_graph *graph, const struct tauti_job *job,
	const struct taut_costs *costs, const struct tauti_recorder *recorder,
	const struct tauti_change *changes, size_t n_changes,
	struct taut_error *err)
{
	taut_status status;

	*p = (struct tauti_predictor){ .changes = changes,
		.n_changes = n_changes, .central = costs,
		.recorder = *recorder,
		.w = { .graph = graph, .job = job, .costs = costs,
			.arena = taut_arena_create() } };
	if (p->w.arena)
		p->w.ranged = TAUT_ARENA_ARRAY(
			p->w.arena, uint8_t, n_changes + 1);
	if (p->w.ranged)
		p->w.kernels = TAUT_ARENA_ARRAY(p->w.arena, struct tauti_kernel,
			(size_t)taut_names_count(graph->names) + 1);
	status = p->w.kernels ? taut_edit_create(graph, &p->w.edit, err) :
		no_memory(err);
	if (status)
		tauti_predictor_fini(p);
	else
		p->start = taut_edit_mark(p->w.edit);
	return status;
}

taut_status tauti_predictor_remember(struct tauti_predictor *p,
	const struct tauti_prepared *ready, struct taut_error *err)
{
	if (!ready->memory)
		return TAUT_OK;
	p->w.block_scale = TAUT_ARENA_ARRAY(p->w.arena, double,
		(size_t)ready->memory->n_blocks + 1);
	p->w.memory = ready->memory;
	return p->w.block_scale ? TAUT_OK : no_memory(err);
}

void tauti_predictor_fini(struct tauti_predictor *p)
{
	taut_vec_free(&p->w.notes);
	taut_vec_free(&p->w.ways);
	taut_edit_destroy(p->w.edit);
	taut_arena_destroy(p->w.arena);
	*p = (struct tauti_predictor){ 0 };
}

/* --- the edit ------------------------------------------------------------------- */

/* The edit as it is before the first change: durations at full speed. */
static taut_status lay_costs(struct tauti_predictor *p, struct taut_error *err)
{
	const struct taut_graph *g = p->w.graph;
	const struct taut_costs *costs = p->w.costs;
	taut_status status = TAUT_OK;

	taut_edit_undo(p->w.edit, p->start);
	for (uint32_t op = 0; !status && op < g->n_ops; op++)
		if (costs->dur_ns[op] != g->dur_ns[op])
			status = taut_edit_set_dur(
				p->w.edit, op, costs->dur_ns[op], err);
	return status;
}

static taut_status apply_all(struct tauti_predictor *p, struct taut_error *err)
{
	taut_status status = tauti_whatif_reset(&p->w, err);

	for (size_t i = 0; !status && i < p->n_changes; i++) {
		p->w.applying = (uint32_t)i;
		status = p->changes[i].is->apply(&p->w, &p->changes[i], err);
	}
	return status;
}

taut_status tauti_predictor_lay(struct tauti_predictor *p, struct taut_error *err)
{
	taut_status status = lay_costs(p, err);

	return status ? status : apply_all(p, err);
}

/* --- what the transfers share ---------------------------------------------------- */

struct counted { /* one law for all collectives of a shape */
	struct taut_law_in in; /* of its kind, algorithm, ranks and hosts */
	struct taut_law by_byte;
};

struct transfers {
	const struct tauti_whatif *w;
	const struct taut_graph *built;
	struct taut_site site;        /* by rank of the built graph */
	struct taut_transfer *of;     /* by collective of the built graph */
	uint32_t *seen;               /* by host: the last collective + 1 */
	TAUT_VEC(struct counted) counted;
	double moved_bytes; /* -1: some do not tell */
	bool changed;
};

/* Ranks of the built graph are those of the edit without the removed ones. */
static taut_status place_ranks(struct transfers *t, struct taut_error *err)
{
	const struct tauti_whatif *w = t->w;
	uint32_t n = taut_edit_ranks(w->edit), at = 0;
	uint32_t most = t->built->run->n_traces;
	bool all = n == most;

	t->site = w->site;
	t->site.host_of = calloc((size_t)most + 1, sizeof *t->site.host_of);
	t->site.core = calloc((size_t)most + 1, sizeof *t->site.core);
	t->site.n_ranks = most;
	if (!t->site.host_of || !t->site.core)
		return no_memory(err);
	for (uint32_t r = 0; r < n && at < most; r++) {
		uint32_t from = r < w->site.n_ranks ? r :
			taut_edit_rank_like(w->edit, r);

		if (!all && !taut_edit_has_rank(w->edit, r))
			continue;
		t->site.host_of[at] = w->site.host_of[from];
		t->site.core[at++] = w->site.core[from];
	}
	return TAUT_OK;
}

/* Hosts that a collective of the built graph spans; ranks that are in no trace
 * stand on hosts of their own, as taut_costs_law_in() has it. */
static uint32_t hosts_of(struct transfers *t, uint32_t c, uint32_t ranks)
{
	const struct taut_graph *g = t->built;
	const struct taut_collective *coll = &g->collectives[c];
	uint32_t n = 0;

	for (uint32_t i = 0; i < coll->n_members; i++) {
		uint32_t op = g->member_arrive[coll->first_member + i];
		uint32_t trace = g->lanes[g->lane[op]].trace;
		uint32_t *seen;

		if (trace == TAUT_NONE)
			continue;
		seen = &t->seen[t->site.host_of[trace]];
		n += *seen != c + 1;
		*seen = c + 1;
	}
	return coll->n_members < ranks ? n + ranks - coll->n_members : n;
}

static struct taut_law_in law_of(struct transfers *t, uint32_t c,
	const struct tauti_way *way)
{
	const struct taut_collective *coll = &t->built->collectives[c];
	struct taut_law_in in = {
		.kind = coll->kind,
		.algorithm = (enum taut_algorithm)way->algorithm,
		.ranks = coll->group_size > 0 ? (uint32_t)coll->group_size :
			coll->n_members,
		.servers = way->servers,
		.bytes = coll->bytes > 0 ? (double)coll->bytes * way->wire : 0,
	};

	in.hosts = hosts_of(t, c, in.ranks);
	if (in.kind == TAUT_COLL_ALLGATHER)
		in.bytes *= in.ranks;
	return in;
}

/* ret_law is what in->counted points to. */
static taut_status count_law(struct transfers *t, struct taut_law_in *in,
	struct taut_law *ret_law, struct taut_error *err)
{
	struct counted made = { .in = *in };
	taut_status status;

	for (size_t i = 0; i < t->counted.count; i++) {
		const struct counted *c = &t->counted.data[i];

		if (c->in.kind != in->kind || c->in.ranks != in->ranks ||
			c->in.algorithm != in->algorithm ||
			c->in.hosts != in->hosts)
			continue;
		*ret_law = c->by_byte;
		in->counted = ret_law;
		return TAUT_OK;
	}
	status = taut_law_count(in, &made.by_byte, err);
	if (status)
		return status;
	*ret_law = made.by_byte;
	in->counted = ret_law;
	return taut_vec_push(&t->counted, made) ? TAUT_OK : no_memory(err);
}

/* Nearly all transfers are as recorded, or rings. */
static bool is_counted(enum taut_algorithm algorithm)
{
	return algorithm != TAUT_ALGO_AS_RECORDED &&
		algorithm != TAUT_ALGO_RING && algorithm != TAUT_ALGO_SERVER &&
		algorithm != TAUT_ALGO_BLUECONNECT;
}

static bool same_law(
	const struct taut_law_in *a, const struct taut_law_in *b)
{
	return a->kind == b->kind && a->algorithm == b->algorithm &&
		a->ranks == b->ranks && a->hosts == b->hosts &&
		a->servers == b->servers && a->bytes == b->bytes;
}

static double ratio(double now, double before)
{
	return before > 0 ? now / before : 1;
}

/* Of what a ring would have taken; the recording's was no ring. */
static struct taut_transfer not_of_a_ring(
	struct taut_transfer t, const struct taut_law_in *was)
{
	struct taut_law_in ring_in = *was;
	struct taut_law is = taut_law(was), ring;

	ring_in.algorithm = TAUT_ALGO_RING;
	ring_in.counted = NULL;
	ring = taut_law(&ring_in);
	t.amount *= was->hosts > 1 ?
		ratio(ring.network_bytes, is.network_bytes) :
		ratio(ring.local_bytes, is.local_bytes);
	t.latency_ns = tauti_ns((double)t.latency_ns *
		ratio(ring.messages, is.messages));
	return t;
}

/* What was put together of recorded ones, in another way or group. */
static struct taut_transfer put_together(const struct tauti_whatif *w,
	const struct tauti_way *way, const struct taut_law_in *as,
	struct taut_law_in was_in)
{
	struct taut_transfer t = w->costs->transfers[way->like - 1];
	struct taut_law law = taut_law(as), was;
	bool on_network = as->hosts > 1;

	was_in.bytes = way->put_bytes;
	was = taut_law(&was_in);
	t.amount = way->put_amount * (on_network ?
		ratio(law.network_bytes, was.network_bytes) :
		ratio(law.local_bytes, was.local_bytes));
	t.latency_ns = tauti_ns(way->put_latency_ns *
		ratio(law.messages, was.messages));
	return t;
}

/* Over a link that only the way describes. */
static struct taut_transfer made(
	const struct taut_law_in *as, const struct tauti_way *way)
{
	struct taut_law law = taut_law(as);
	bool on_network = as->hosts > 1;

	return (struct taut_transfer){
		.amount = way->ns_per_byte *
			(on_network ? law.network_bytes : law.local_bytes),
		.latency_ns = tauti_ns(law.messages * way->message_ns),
		.core = way->drag,
		.on_network = on_network,
	};
}

/* By the busiest host, and the busiest rank of one, for all of them. */
static void add_moved(struct transfers *t, const struct taut_law_in *as)
{
	struct taut_law law = taut_law(as);

	if (as->bytes <= 0 || t->moved_bytes < 0) {
		t->moved_bytes = -1;
		return;
	}
	t->moved_bytes += law.network_bytes * as->hosts +
		law.local_bytes * as->ranks;
}

/* What it would take nothing tells: not the way, not the recording. */
static bool is_untold(const struct tauti_whatif *w, uint32_t like,
	const struct tauti_way *way, const struct taut_law_in *as)
{
	bool told = like != TAUT_NONE || way->ns_per_byte > 0 ||
		as->bytes <= 0 || as->ranks < 2;

	for (uint32_t i = 0; !told && i < w->costs->n_classes; i++)
		told = w->costs->classes[i].line.n > 0;
	return !told;
}

/* What the recording tells of it, or the line of its transfers. was: the law of what it
 * is like; where there is none its own, but of the way that was recorded. */
static struct taut_transfer as_told(const struct tauti_whatif *w, uint32_t like,
	const struct tauti_way *way, const struct taut_law_in *as,
	const struct taut_law_in *was)
{
	bool by_line = like == TAUT_NONE ||
		w->costs->transfers[like].on_network != (as->hosts > 1);
	bool put = way->like && way->put_bytes > 0;
	struct taut_transfer t;

	if (put && !by_line)
		return put_together(w, way, as, *was);
	if (!put && like != TAUT_NONE && same_law(as, was))
		return w->costs->transfers[like];
	t = taut_costs_transfer(w->costs, put ? TAUT_NONE : like, as,
		by_line && w->doubt == TAUTI_DOUBT_LINE ? 2.0 * w->side : 0);
	return way->from ? not_of_a_ring(t, was) : t;
}

/* The collective of the edit that became c, as it will be carried out. */
static taut_status carry(struct transfers *t, uint32_t edited, uint32_t c,
	struct taut_error *err)
{
	const struct tauti_whatif *w = t->w;
	struct tauti_way way = tauti_way_of(w, edited);
	uint32_t like = way.like ? way.like - 1 :
		taut_edit_collective_like(w->edit, edited);
	struct taut_law_in as = law_of(t, c, &way), was = as;
	struct taut_transfer *to = &t->of[c];
	struct taut_law counted, counted_was;
	taut_status status = TAUT_OK;

	if (like != TAUT_NONE)
		was = taut_costs_law_in(w->costs, like);
	was.algorithm = (enum taut_algorithm)way.from;
	was.servers = 0;
	if (is_counted(as.algorithm))
		status = count_law(t, &as, &counted, err);
	if (!status && is_counted(was.algorithm))
		status = count_law(t, &was, &counted_was, err);
	if (status)
		return status;
	add_moved(t, &as);
	t->changed |= like == TAUT_NONE || !same_law(&as, &was) ||
		way.put_bytes > 0 || way.ns_per_byte > 0 || way.share > 0 ||
		w->no_transfers;
	*to = (struct taut_transfer){ .on_network = as.hosts > 1 };
	if (w->no_transfers)
		return TAUT_OK;
	if (is_untold(w, like, &way, &as))
		return taut_error_set(err, TAUT_EINVAL, -1, "nothing in this "
			"recording, nor a link that a change gives, tells what "
			"a transfer of %.4g MB among %u ranks takes",
			as.bytes / 1e6, as.ranks);
	*to = way.ns_per_byte > 0 ? made(&as, &way) :
		as_told(w, like, &way, &as, &was);
	to->core *= way.core;
	if (way.share > 0)
		to->amount *= way.share;
	if (way.core_ns > 0 && to->amount > 0)
		to->core += way.core_ns / to->amount;
	if (!to->on_network || (to->amount <= 0 && to->latency_ns <= 0))
		return TAUT_OK;
	to->latency_ns = tauti_ns((double)to->latency_ns * w->latency +
		taut_law(&as).messages * w->latency_add_ns);
	return TAUT_OK;
}

static bool same_hosts(const struct tauti_whatif *w)
{
	const struct taut_site *a = &w->site, *b = &w->costs->site;

	for (uint32_t i = 0; i < a->n_hosts && i < b->n_hosts; i++)
		if (a->hosts[i].up != b->hosts[i].up ||
			a->hosts[i].down != b->hosts[i].down ||
			a->hosts[i].local != b->hosts[i].local)
			return false;
	return a->n_hosts == b->n_hosts && a->backbone == b->backbone &&
		w->latency == 1 && w->latency_add_ns == 0;
}

static taut_status carry_all(struct transfers *t, const uint32_t *became,
	struct taut_error *err)
{
	uint32_t n = taut_edit_collectives(t->w->edit);
	taut_status status = TAUT_OK;

	t->of = calloc((size_t)t->built->n_collectives + 1, sizeof *t->of);
	t->seen = calloc((size_t)t->site.n_hosts + 1, sizeof *t->seen);
	if (!t->of || !t->seen)
		return no_memory(err);
	for (uint32_t i = 0; !status && i < n; i++)
		if (became[i] != TAUT_NONE)
			status = carry(t, i, became[i], err);
	t->changed |= !same_hosts(t->w);
	return status;
}

/* --- the replay ------------------------------------------------------------------- */

static taut_status replay(const struct taut_graph *graph,
	const struct taut_sharing *sharing, const struct tauti_engine *engine,
	struct tauti_outcome *out, struct taut_error *err)
{
	struct taut_replay_edit edit = { .sharing = sharing, .unordered = 1,
		.dispatcher = engine ? tauti_engine_dispatcher(engine) : NULL };
	taut_status status = taut_timeline_init(&out->timeline, graph, err);

	if (!status) {
		struct taut_error why;

		status = taut_replay(graph, &edit, &out->timeline, &why);
		if (status)
			(void)taut_error_set(err, status, why.offset,
				"the changed job cannot run: %.400s",
				why.message);
	}
	if (!status)
		status = taut_steady_step(graph, out->timeline.start_ns,
			out->timeline.end_ns, &out->step_ns, err);
	return status;
}

/* The built graph's transfers, and its replay with what they share; with an
 * engine where that is not NULL. */
static taut_status replay_shared(struct tauti_predictor *p,
	const uint32_t *became, const struct tauti_engine *engine,
	struct tauti_outcome *out, struct taut_error *err)
{
	struct transfers t = { .w = &p->w, .built = out->graph };
	struct taut_sharing *sharing = NULL;
	taut_status status = place_ranks(&t, err);

	if (!status)
		status = carry_all(&t, became, err);
	if (!status)
		status = taut_sharing_create(
			out->graph, &t.site, t.of, &sharing, err);
	if (!status)
		status = replay(out->graph, sharing, engine, out, err);
	out->network_changed = t.changed;
	out->moved_bytes = t.moved_bytes;
	taut_sharing_destroy(sharing);
	free(t.site.host_of);
	free(t.site.core);
	free(t.of);
	free(t.seen);
	taut_vec_free(&t.counted);
	return status;
}

/* By what the edit's operations and collectives became. */
static taut_status build_anew(struct tauti_predictor *p, uint32_t *became,
	struct tauti_outcome *out, struct taut_error *err)
{
	uint32_t *op_of = out->op_of;
	taut_status status;

	out->op_of = NULL;
	tauti_outcome_fini(out);
	out->op_of = op_of;
	status = taut_edit_build(
		p->w.edit, &out->graph, op_of, became, err);
	return status ? status : replay_shared(p, became, NULL, out, err);
}

/* First with the scheduler; then, where the graph is wanted, as it decided. */
static taut_status replay_scheduled(struct tauti_predictor *p,
	uint32_t *became, struct tauti_outcome *out, struct taut_error *err)
{
	struct tauti_engine *engine = NULL;
	struct taut_arena *arena = taut_arena_create();
	bool wanted = p->w.doubt == TAUTI_DOUBT_NONE && !p->no_graph;
	int64_t step_ns;
	taut_status status = arena ? tauti_schedule_engine(&p->w, out->graph,
		out->op_of, arena, &engine, err) : no_memory(err);

	if (!status)
		status = replay_shared(p, became, engine, out, err);
	if (!status && wanted)
		status = tauti_schedule_keep(
			&p->w, out->graph, out->op_of, engine, &out->timeline,
			err);
	step_ns = out->step_ns;
	if (!status && wanted)
		status = build_anew(p, became, out, err);
	if (!status && out->step_ns != step_ns)
		status = taut_error_set(err, TAUT_EMATCH, -1, "a schedule of "
			"%lld ns a step takes %lld ns without its scheduler",
			(long long)step_ns, (long long)out->step_ns);
	tauti_engine_destroy(engine);
	taut_arena_destroy(arena);
	return status;
}

static taut_status build_and_replay(struct tauti_predictor *p,
	struct tauti_outcome *out, struct taut_error *err)
{
	bool wanted = p->w.memory || p->w.schedule; /* what became of ops */
	uint32_t *became = calloc(
		(size_t)taut_edit_collectives(p->w.edit) + 1, sizeof *became);
	taut_status status;

	if (wanted)
		out->op_of = malloc(((size_t)taut_edit_ops(p->w.edit) + 1) *
			sizeof *out->op_of);
	status = became && (out->op_of || !wanted) ?
		taut_edit_build(p->w.edit, &out->graph, out->op_of, became,
			err) : no_memory(err);
	if (!status && p->w.schedule)
		status = replay_scheduled(p, became, out, err);
	else if (!status)
		status = replay_shared(p, became, NULL, out, err);
	free(became);
	return status;
}

/* A loader that kept up with the recorded steps need not with shorter ones, and then a
 * second time, with its work laid anew. */
static taut_status replay_fed(struct tauti_predictor *p,
	struct tauti_outcome *out, struct taut_error *err)
{
	bool laid = false;
	uint32_t mark = taut_edit_mark(p->w.edit);
	taut_status status = build_and_replay(p, out, err);

	if (!status && p->n_changes)
		status = tauti_batches_keep_up(
			&p->w, mark, out->step_ns, &laid, err);
	if (status || !laid)
		return status;
	tauti_outcome_fini(out);
	return build_and_replay(p, out, err);
}

static double event_cost(
	const struct tauti_recorder *r, const struct tauti_scenario *scenario)
{
	if (scenario->doubt != TAUTI_DOUBT_RECORDER)
		return r->event_ns;
	/* more taken off is the faster job */
	return scenario->side < 0 ? r->high_ns : r->low_ns;
}

/* The recording's costs as this scenario has them, without the recorder's. */
static taut_status find_costs(struct tauti_predictor *p,
	const struct tauti_scenario *scenario, struct taut_costs *ret_costs,
	struct taut_error *err)
{
	bool drag = scenario->doubt == TAUTI_DOUBT_DRAG;
	bool line = scenario->doubt == TAUTI_DOUBT_LINE;
	double errors = 2.0 * scenario->side;
	taut_status status = tauti_costs_vary(p->central, drag ? errors : 0,
		line ? errors : 0, ret_costs, err);

	if (!status)
		tauti_recorder_cut(p->w.graph,
			event_cost(&p->recorder, scenario), ret_costs->dur_ns,
			ret_costs->dur_ns);
	return status;
}

taut_status tauti_scenario_run(struct tauti_predictor *p,
	const struct tauti_scenario *scenario, struct tauti_outcome *ret,
	struct taut_error *err)
{
	struct taut_costs costs;
	taut_status status = find_costs(p, scenario, &costs, err);

	*ret = (struct tauti_outcome){ 0 };
	if (status)
		return status;
	p->w.doubt = scenario->doubt;
	p->w.side = scenario->side;
	p->w.doubted = scenario->change;
	p->w.costs = &costs;
	status = lay_costs(p, err);
	if (!status)
		status = apply_all(p, err);
	if (!status)
		status = replay_fed(p, ret, err);
	tauti_costs_unvary(&costs);
	p->w.costs = p->central;
	if (status)
		tauti_outcome_fini(ret);
	return status;
}

void tauti_outcome_fini(struct tauti_outcome *outcome)
{
	taut_timeline_fini(&outcome->timeline);
	taut_graph_destroy(outcome->graph);
	free(outcome->op_of);
	*outcome = (struct tauti_outcome){ 0 };
}
