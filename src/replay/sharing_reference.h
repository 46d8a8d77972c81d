/* sharing_reference.h - a replay that is too simple to be wrong, for tests: at
 * every event it finds all rates, speeds and starts anew and takes the next
 * event. With a mechanism, which is told what a replay would tell it. */
#ifndef TAUT_REPLAY_SHARING_REFERENCE_H
#define TAUT_REPLAY_SHARING_REFERENCE_H

#include <math.h>

#include <taut/replay.h>

enum { MAX_OPS = 512, MAX_FLOWS = 64, MAX_RESOURCES = 32, MAX_PAST = 4096, MAX_NEWS = 2048 };

enum state { WAITS, HELD, RELEASED, ON_CORE, IN_FLOW, ENDED };

struct reference;

/* A mechanism that starts operations; NULL: nothing is held. */
struct reference_mechanism {
	const uint8_t *ops;
	void *context;
	void (*ready)(void *context, struct reference *ref, uint32_t op,
		int64_t now_ns);
	void (*ended)(void *context, struct reference *ref, uint32_t op,
		int64_t now_ns);
	void (*called)(void *context, struct reference *ref, uint64_t what,
		int64_t now_ns);
};

struct reference {
	const struct taut_graph *graph;
	const struct taut_sharing *is;
	const int64_t *dur_ns, *gap_ns;
	const uint8_t *mute;
	enum state state[MAX_OPS];
	int64_t start_ns[MAX_OPS], end_ns[MAX_OPS];
	double left[MAX_OPS];             /* of ops on cores */
	uint32_t decided_by[MAX_OPS], order[MAX_OPS], n_run;
	enum { IDLE, LATENT, MOVING, DONE } stage[MAX_FLOWS];
	int64_t flow_at_ns[MAX_FLOWS];    /* end of latency; of the flow */
	double flow_left[MAX_FLOWS], rate[MAX_FLOWS];
	int64_t flow_due_ns[MAX_FLOWS], op_due_ns[MAX_OPS];
	double speed[MAX_RESOURCES];
	int64_t clock_ns;
	int settled;                      /* rates and what is due are known */
	struct { /* all speeds until then */
		int64_t until_ns;
		double speed[MAX_RESOURCES];
	} past[MAX_PAST];
	uint32_t n_past;
	const struct reference_mechanism *mechanism;
	int64_t released_ns[MAX_OPS];
	struct { /* to be told: kind 0 ended, 1 ready, 2 a call */
		int kind;
		int64_t at_ns;
		uint64_t id; /* op; of a call: the place in asking */
		uint64_t what;
		uint32_t cause;
	} news[MAX_NEWS];
	uint32_t n_news;
	uint64_t n_asked;
	uint32_t cause;
};

/* Up to a whole nanosecond, but for what sums of fractions are off by. */
static int64_t up(double ns)
{
	return (int64_t)ceil(ns - 1e-6);
}

/* --- rates: fill by the smallest level, one resource at a time ---------------------*/

static double weight_on(const struct reference *ref, uint32_t f, uint32_t r)
{
	const struct taut_flow *flow = &ref->is->flows[f];
	double sum = 0;
	for (uint32_t i = 0; i < flow->n_uses; i++) {
		if (ref->is->uses[flow->first_use + i].resource == r)
			sum += ref->is->uses[flow->first_use + i].weight;
	}
	return sum;
}

static double level_of(const struct reference *ref, uint32_t r,
	const int *settled)
{
	double free = ref->is->capacity[r], weights = 0;
	for (uint32_t f = 0; f < ref->is->n_flows; f++) {
		if (ref->stage[f] != MOVING)
			continue;
		if (settled[f])
			free -= ref->rate[f] * weight_on(ref, f, r);
		else
			weights += weight_on(ref, f, r);
	}
	return weights > 0 ? free / weights : INFINITY;
}

static void find_rates(struct reference *ref)
{
	int settled[MAX_FLOWS] = { 0 };
	for (uint32_t f = 0; f < ref->is->n_flows; f++) {
		settled[f] = !ref->is->flows[f].n_uses;
		ref->rate[f] = settled[f];
	}
	for (;;) {
		uint32_t full = TAUT_NONE;
		double level = INFINITY;
		for (uint32_t r = 0; r < ref->is->n_resources; r++) {
			double at = level_of(ref, r, settled);
			if (at < level) {
				level = at;
				full = r;
			}
		}
		if (full == TAUT_NONE)
			break;
		for (uint32_t f = 0; f < ref->is->n_flows; f++) {
			if (ref->stage[f] != MOVING || settled[f] ||
					!(weight_on(ref, f, full) > 0))
				continue;
			settled[f] = 1;
			ref->rate[f] = level;
		}
	}
	for (uint32_t r = 0; r < ref->is->n_resources; r++) {
		double load = 0;
		for (uint32_t f = 0; f < ref->is->n_flows; f++) {
			if (ref->stage[f] == MOVING)
				load += ref->rate[f] * weight_on(ref, f, r);
		}
		ref->speed[r] = fmax(ref->is->least_speed,
			1 - load / ref->is->capacity[r]);
	}
}

/* --- starts --------------------------------------------------------------------------*/

struct latest {
	uint32_t before; /* on the lane; TAUT_NONE */
	int any, known;
	int64_t at_ns;
	uint32_t by;
};

static void add_wait(struct latest *latest, int known, int64_t at_ns,
	uint32_t by)
{
	latest->known &= known;
	if (!latest->any || at_ns > latest->at_ns ||
			(at_ns == latest->at_ns && by == latest->before)) {
		latest->at_ns = at_ns;
		latest->by = by;
	}
	latest->any = 1;
}

static int is_serial(const struct reference *ref, uint32_t op)
{
	return ref->graph->lanes[ref->graph->lane[op]].trace != TAUT_NONE;
}

static int is_told(const struct reference *ref, uint32_t op, unsigned what)
{
	return ref->mechanism && ref->mechanism->ops[op] & what;
}

/* 0: waits for what is not known. */
static int solve(const struct reference *ref, uint32_t op,
	int64_t *ret_start_ns, uint32_t *ret_by)
{
	const struct taut_graph *graph = ref->graph;
	int on_lane = is_serial(ref, op) &&
		op > graph->lane_begin[graph->lane[op]];
	struct latest latest = {
		.known = 1,
		.before = on_lane ? op - 1 : TAUT_NONE,
		.by = TAUT_NONE,
	};
	int64_t gap_ns = ref->gap_ns[op];
	if (on_lane)
		add_wait(&latest, ref->state[op - 1] == ENDED,
			ref->end_ns[op - 1] + (gap_ns < 0 ? gap_ns : 0),
			op - 1);
	for (uint32_t from = 0; from < graph->n_ops; from++) {
		if (ref->mute && ref->mute[from])
			continue;
		for (uint32_t i = graph->edge_begin[from];
				i < graph->edge_begin[from + 1]; i++) {
			int start = graph->edge_kind[i] & TAUT_EDGE_FROM_START;
			if (graph->edge_to[i] != op)
				continue;
			add_wait(&latest, ref->state[from] == ENDED ||
				(start && ref->state[from] > RELEASED),
				graph->edge_lag_ns[i] + (start
				? ref->start_ns[from] : ref->end_ns[from]),
				from);
		}
	}
	if (is_told(ref, op, TAUT_HELD))
		gap_ns = 0; /* behind the release */
	*ret_start_ns = latest.at_ns + (gap_ns > 0 ? gap_ns : 0);
	*ret_by = latest.by;
	return latest.known;
}

static uint32_t next_start(struct reference *ref, int64_t *ret_ns)
{
	uint32_t best = TAUT_NONE;
	for (uint32_t op = 0; op < ref->graph->n_ops; op++) {
		int64_t start_ns = ref->released_ns[op];
		uint32_t by = ref->decided_by[op];
		if (ref->state[op] != RELEASED && (ref->state[op] != WAITS ||
				!solve(ref, op, &start_ns, &by)))
			continue;
		if (best != TAUT_NONE && start_ns >= *ret_ns)
			continue;
		best = op;
		*ret_ns = start_ns;
		ref->decided_by[op] = by;
	}
	return best;
}

/* --- what a mechanism is told -----------------------------------------------------------*/

static void add_news(struct reference *ref, int kind, int64_t at_ns,
	uint64_t id, uint64_t what)
{
	assert_true(ref->n_news < MAX_NEWS);
	ref->news[ref->n_news].kind = kind;
	ref->news[ref->n_news].at_ns = at_ns;
	ref->news[ref->n_news].id = id;
	ref->news[ref->n_news].what = what;
	ref->news[ref->n_news++].cause = ref->cause;
}

static int64_t next_news(const struct reference *ref)
{
	int64_t next_ns = INT64_MAX;
	for (uint32_t i = 0; i < ref->n_news; i++) {
		if (ref->news[i].at_ns < next_ns)
			next_ns = ref->news[i].at_ns;
	}
	return next_ns;
}

static int comes_first(const struct reference *ref, uint32_t i, uint32_t j)
{
	if (ref->news[i].kind != ref->news[j].kind)
		return ref->news[i].kind < ref->news[j].kind;
	if (ref->news[i].at_ns != ref->news[j].at_ns)
		return ref->news[i].at_ns < ref->news[j].at_ns;
	return ref->news[i].id < ref->news[j].id;
}

static void tell(struct reference *ref)
{
	const struct reference_mechanism *m = ref->mechanism;
	uint32_t first = TAUT_NONE;
	for (uint32_t i = 0; i < ref->n_news; i++) {
		if (ref->news[i].at_ns <= ref->clock_ns &&
				(first == TAUT_NONE || comes_first(ref, i, first)))
			first = i;
	}
	int kind = ref->news[first].kind;
	uint32_t op = (uint32_t)ref->news[first].id;
	uint64_t what = ref->news[first].what;
	ref->cause = kind == 0 ? op : kind == 1 ? ref->decided_by[op]
		: ref->news[first].cause;
	ref->news[first] = ref->news[--ref->n_news];
	if (kind == 0)
		m->ended(m->context, ref, op, ref->clock_ns);
	else if (kind == 1)
		m->ready(m->context, ref, op, ref->clock_ns);
	else
		m->called(m->context, ref, what, ref->clock_ns);
	ref->cause = TAUT_NONE;
}

static inline void reference_release(struct reference *ref, uint32_t op)
{
	int64_t gap_ns = ref->gap_ns[op];
	assert_int_equal(ref->state[op], HELD);
	ref->state[op] = RELEASED;
	if (ref->clock_ns > ref->released_ns[op]) {
		ref->released_ns[op] = ref->clock_ns;
		if (ref->cause != TAUT_NONE)
			ref->decided_by[op] = ref->cause;
	}
	ref->released_ns[op] += gap_ns > 0 ? gap_ns : 0;
}

static inline void reference_call(
	struct reference *ref, int64_t at_ns, uint64_t what)
{
	add_news(ref, 2, at_ns < ref->clock_ns ? ref->clock_ns : at_ns,
		ref->n_asked++, what);
}

/* --- events ---------------------------------------------------------------------------*/

static void end_op(struct reference *ref, uint32_t op, int64_t at_ns)
{
	ref->state[op] = ENDED;
	ref->end_ns[op] = at_ns;
	if (is_told(ref, op, TAUT_TELL_END))
		add_news(ref, 0, at_ns, op, 0);
}

static void end_in_flow(struct reference *ref, uint32_t op)
{
	int64_t from_ns = ref->flow_at_ns[ref->is->flow_of[op]];
	if (from_ns < ref->start_ns[op])
		from_ns = ref->start_ns[op];
	end_op(ref, op, from_ns + ref->dur_ns[op]);
}

static uint32_t core_of(const struct reference *ref, uint32_t op)
{
	uint32_t r = ref->is->core_of[ref->graph->lane[op]];
	return is_serial(ref, op) ? r : TAUT_NONE;
}

/* What it has done by now, where it started before. */
static void catch_up(struct reference *ref, uint32_t op, uint32_t core)
{
	int64_t at_ns = ref->start_ns[op];
	for (uint32_t i = 0; i < ref->n_past; i++) {
		double speed = ref->past[i].speed[core];
		int64_t until_ns = ref->past[i].until_ns;
		if (until_ns <= at_ns)
			continue;
		int64_t end_ns = at_ns + up(ref->left[op] / speed);
		if (end_ns <= until_ns) {
			end_op(ref, op, end_ns);
			return;
		}
		ref->left[op] -= speed * (double)(until_ns - at_ns);
		at_ns = until_ns;
	}
}

/* Is the core one that no flow can slow? Then it is known when op ends. */
static int is_free(const struct reference *ref, uint32_t core)
{
	for (uint32_t f = 0; core != TAUT_NONE && f < ref->is->n_flows; f++) {
		if (weight_on(ref, f, core) > 0)
			return 0;
	}
	return 1;
}

static void start_op(struct reference *ref, uint32_t op, int64_t at_ns)
{
	uint32_t f = ref->is->flow_of[op], core = core_of(ref, op);
	if (is_told(ref, op, TAUT_HELD) && ref->state[op] == WAITS) {
		ref->state[op] = HELD;
		ref->released_ns[op] = at_ns;
		add_news(ref, 1, at_ns, op, 0);
		return;
	}
	ref->start_ns[op] = at_ns;
	ref->order[ref->n_run++] = op;
	if (f != TAUT_NONE && ref->stage[f] == DONE) {
		end_in_flow(ref, op);
	} else if (f != TAUT_NONE) {
		ref->state[op] = IN_FLOW;
		if (ref->stage[f] != IDLE)
			return;
		ref->stage[f] = LATENT;
		ref->flow_at_ns[f] = at_ns + ref->is->flows[f].latency_ns;
	} else if (is_free(ref, core) || !ref->dur_ns[op]) {
		end_op(ref, op, at_ns + ref->dur_ns[op]);
	} else {
		ref->state[op] = ON_CORE;
		ref->op_due_ns[op] = INT64_MAX;
		ref->settled = 0;
		ref->left[op] = (double)ref->dur_ns[op];
		if (at_ns < ref->clock_ns)
			catch_up(ref, op, core);
	}
}

static void end_flow(struct reference *ref, uint32_t f)
{
	ref->stage[f] = DONE;
	for (uint32_t op = 0; op < ref->graph->n_ops; op++) {
		if (ref->state[op] == IN_FLOW && ref->is->flow_of[op] == f)
			end_in_flow(ref, op);
	}
}

/* What is due, from here on. */
static void settle(struct reference *ref)
{
	find_rates(ref);
	for (uint32_t f = 0; f < ref->is->n_flows; f++) {
		if (ref->stage[f] == MOVING)
			ref->flow_due_ns[f] = ref->clock_ns +
				up(ref->flow_left[f] / ref->rate[f]);
	}
	for (uint32_t op = 0; op < ref->graph->n_ops; op++) {
		if (ref->state[op] == ON_CORE)
			ref->op_due_ns[op] = ref->clock_ns + up(ref->left[op]
				/ ref->speed[core_of(ref, op)]);
	}
	ref->settled = 1;
}

static void go_on(struct reference *ref, uint32_t f)
{
	ref->settled = 0;
	if (ref->stage[f] == LATENT && ref->is->flows[f].amount > 0) {
		ref->stage[f] = MOVING;
		ref->flow_left[f] = ref->is->flows[f].amount;
		ref->flow_due_ns[f] = INT64_MAX;
		return;
	}
	if (ref->stage[f] == MOVING)
		ref->flow_at_ns[f] = ref->clock_ns;
	end_flow(ref, f);
}

static int64_t due_ns(const struct reference *ref, uint32_t f)
{
	return ref->stage[f] == LATENT ? ref->flow_at_ns[f]
		: ref->stage[f] == MOVING ? ref->flow_due_ns[f] : INT64_MAX;
}

/* One that is due at the clock; 0: there is none. */
static int take_event(struct reference *ref)
{
	for (uint32_t f = 0; f < ref->is->n_flows; f++) {
		if (due_ns(ref, f) > ref->clock_ns)
			continue;
		go_on(ref, f);
		return 1;
	}
	for (uint32_t op = 0; op < ref->graph->n_ops; op++) {
		if (ref->state[op] != ON_CORE ||
				ref->op_due_ns[op] > ref->clock_ns)
			continue;
		end_op(ref, op, ref->clock_ns);
		return 1;
	}
	return 0;
}

static int64_t next_event(const struct reference *ref)
{
	int64_t next_ns = INT64_MAX;
	for (uint32_t f = 0; f < ref->is->n_flows; f++) {
		if (due_ns(ref, f) < next_ns)
			next_ns = due_ns(ref, f);
	}
	for (uint32_t op = 0; op < ref->graph->n_ops; op++) {
		if (ref->state[op] == ON_CORE && ref->op_due_ns[op] < next_ns)
			next_ns = ref->op_due_ns[op];
	}
	return next_ns;
}

static void advance(struct reference *ref, int64_t to_ns)
{
	double dt = (double)(to_ns - ref->clock_ns);
	for (uint32_t f = 0; f < ref->is->n_flows; f++) {
		if (ref->stage[f] == MOVING)
			ref->flow_left[f] -= dt * ref->rate[f];
	}
	for (uint32_t op = 0; op < ref->graph->n_ops; op++) {
		if (ref->state[op] == ON_CORE)
			ref->left[op] -= dt * ref->speed[core_of(ref, op)];
	}
	assert_true(ref->n_past < MAX_PAST);
	ref->past[ref->n_past].until_ns = to_ns;
	memcpy(ref->past[ref->n_past++].speed, ref->speed, sizeof ref->speed);
	ref->clock_ns = to_ns;
}

static void solve_all(struct reference *ref, const struct taut_graph *graph,
	const struct taut_replay_edit *edit,
	const struct reference_mechanism *mechanism)
{
	memset(ref, 0, sizeof *ref);
	ref->mechanism = mechanism;
	ref->cause = TAUT_NONE;
	ref->graph = graph;
	ref->is = edit->sharing;
	ref->dur_ns = edit->dur_ns ? edit->dur_ns : graph->dur_ns;
	ref->gap_ns = edit->gap_ns ? edit->gap_ns : graph->gap_ns;
	ref->mute = edit->mute;
	ref->n_past = 1; /* before 0 nothing moves */
	for (uint32_t r = 0; r < ref->is->n_resources; r++)
		ref->past[0].speed[r] = 1;
	for (;;) {
		int64_t start_ns = INT64_MAX, event_ns;
		if (take_event(ref))
			continue;
		uint32_t op = next_start(ref, &start_ns);
		event_ns = next_event(ref);
		if (next_news(ref) < event_ns)
			event_ns = next_news(ref);
		if (op != TAUT_NONE && start_ns <= ref->clock_ns)
			start_op(ref, op, start_ns);
		else if (next_news(ref) <= ref->clock_ns)
			tell(ref);
		else if (!ref->settled)
			settle(ref);
		else if (op == TAUT_NONE && event_ns == INT64_MAX)
			break;
		else
			advance(ref, start_ns < event_ns ? start_ns : event_ns);
	}
}

#endif /* TAUT_REPLAY_SHARING_REFERENCE_H */
