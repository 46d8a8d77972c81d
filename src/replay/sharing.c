/* sharing.c - the replay of operations that share links and cores.
 *
 * Here the end of an op may not be known when it starts: a flow it belongs to
 * must be done, or its core may be slowed. Its successors that wait for its
 * start are told then, the others at its end. What becomes known at the clock
 * may lie before it, where lags or gaps are negative: operations are then run
 * as of that time, but a flow moves from the clock on. */
#include <string.h>

#include "sharing.h"

/* --- operations ---------------------------------------------------------------------*/

/* Does anything wait for op that starts before it does? Only then does it
 * matter when it is known that op has run. */
static bool leaps_back(const struct core *core, uint32_t op)
{
	if (core->pending[op + 1] & TAUTI_ON_LANE && core->gap_ns[op + 1] < 0)
		return true;
	for (uint32_t i = core->edge_begin[op];
			i < core->edge_begin[op + 1]; i++) {
		if (core->waits[i].lag_ns < 0)
			return true;
	}
	return false;
}

/* May op run ahead of the clock? Flows and what they slow may not. */
static bool is_timeless(const struct share *s, uint32_t op)
{
	return s->core.unordered && s->flow_of[op] == TAUT_NONE &&
		(!s->n_cores ||
			s->core_of_lane[s->graph->lane[op]] == TAUT_NONE) &&
		!leaps_back(&s->core, op);
}

static inline void release(
	struct share *s, uint32_t op, uint32_t pred, int64_t at_ns)
{
	if (!is_released(&s->core, op, pred, at_ns))
		return;
	if (is_timeless(s, op))
		put_any(&s->core, op);
	else
		ready_put(&s->core.ready,
			(struct ready_op){ s->core.start_ns[op], op });
}

/* Tells those that wait for the start, or the end, or either. */
static void let_go(struct share *s, uint32_t op, bool starts, bool ends)
{
	const struct core *core = &s->core;
	uint32_t last = core->edge_begin[op + 1];
	if (!core->mute || !core->mute[op]) {
		for (uint32_t i = core->edge_begin[op]; i < last; i++) {
			struct tauti_wait wait = core->waits[i];
			if (wait.from_start ? starts : ends)
				release(s, wait.to, op, wait.lag_ns +
					(wait.from_start ? core->start_ns[op]
						: core->end_ns[op]));
		}
	}
	if (ends && core->pending[op + 1] & TAUTI_ON_LANE)
		release(s, op + 1, op, core->end_ns[op] +
			min64(core->gap_ns[op + 1], 0));
}

static void finish(struct share *s, struct taut_timeline *timeline,
	uint32_t op, int64_t end_ns, bool tell_starts)
{
	s->core.end_ns[op] = end_ns;
	timeline->makespan_ns = max64(timeline->makespan_ns, end_ns);
	let_go(s, op, tell_starts, true);
}

static void start_plain(
	struct share *s, struct taut_timeline *timeline, uint32_t op)
{
	finish(s, timeline, op, s->core.start_ns[op] + s->core.dur_ns[op],
		true);
}

static void run_timeless(struct share *s, struct taut_timeline *timeline)
{
	uint32_t op;
	while ((op = take_any(&s->core)) != TAUT_NONE) {
		timeline->n_run++;
		start_plain(s, timeline, op);
	}
}

/* --- operations on cores --------------------------------------------------------------*/

/* Also tells a mechanism. */
static void finish_told(struct share *s, struct taut_timeline *timeline,
	uint32_t op, int64_t end_ns, bool tell_starts)
{
	finish(s, timeline, op, end_ns, tell_starts);
	if (s->flow_of[op] == TAUTI_TOLD)
		tauti_dispatch_ended(s, op);
}

/* Those that wait for its start are told. */
static void run_on_core(struct share *s, struct taut_timeline *timeline,
	uint32_t c, uint32_t op, int64_t dur_ns)
{
	int64_t end_ns = tauti_core_put(s, c, op, dur_ns);
	if (end_ns != INT64_MAX)
		finish_told(s, timeline, op, end_ns, false);
}

/* Measuring, a nanosecond before the op ended: how much of the core's own time
 * does it take to end then? Never so little that it would have ended by now,
 * which would be known too late. */
static void run_as_measured(struct share *s, struct taut_timeline *timeline,
	uint32_t c, uint32_t op)
{
	const struct vcore *core = &s->cores[c];
	double from = tauti_core_own(core, s->core.start_ns[op]);
	double own = tauti_core_own(core, s->measure->end_ns[op]) - from;
	double least = tauti_core_own(core, s->clock_ns) - from;
	int64_t dur_ns = (int64_t)floor(own + 0.5);
	if ((double)dur_ns < least)
		dur_ns = (int64_t)ceil(least - 1e-6);
	s->measure->dur_ns[op] = dur_ns;
	run_on_core(s, timeline, c, op, dur_ns);
}

static void start_on_core(struct share *s, struct taut_timeline *timeline,
	uint32_t c, uint32_t op)
{
	let_go(s, op, true, false);
	if (!s->measure) {
		run_on_core(s, timeline, c, op, s->core.dur_ns[op]);
		return;
	}
	int64_t end_ns = s->measure->end_ns[op];
	if (end_ns > s->clock_ns) {
		ready_put(&s->measure->aims, (struct ready_op){
			max64(end_ns - 1, s->clock_ns), op });
		return;
	}
	double own = tauti_core_own(&s->cores[c], end_ns) -
		tauti_core_own(&s->cores[c], s->core.start_ns[op]);
	s->measure->dur_ns[op] = max64((int64_t)floor(own + 0.5), 0);
	run_on_core(s, timeline, c, op, s->measure->dur_ns[op]);
}

/* --- operations of flows ----------------------------------------------------------------*/

/* The flow is done; what the op does alone is left. */
static void end_of_flow(struct share *s, struct taut_timeline *timeline,
	uint32_t op, bool tell_starts)
{
	const struct flow *flow = &s->flows[s->is->flow_of[op]];
	int64_t from_ns = max64(s->core.start_ns[op], flow->at_ns);
	int64_t dur_ns = s->core.dur_ns[op];
	if (s->measure) {
		dur_ns = max64(s->measure->end_ns[op] - from_ns, 0);
		s->measure->dur_ns[op] = dur_ns;
	}
	finish_told(s, timeline, op, from_ns + dur_ns, tell_starts);
}

/* at_ns: since when nothing more was to move. */
static void flow_is_done(struct share *s, struct taut_timeline *timeline,
	uint32_t f, int64_t at_ns)
{
	struct flow *flow = &s->flows[f];
	uint32_t op = flow->waiting;
	flow->stage = FLOW_DONE;
	flow->at_ns = at_ns;
	while (op != TAUT_NONE) {
		uint32_t next = (uint32_t)s->core.end_ns[op];
		end_of_flow(s, timeline, op, false);
		op = next;
	}
}

static int64_t latency_ns(struct share *s, uint32_t f, int64_t start_ns)
{
	int64_t latency = s->is->flows[f].latency_ns;
	if (s->measure) {
		int64_t took_ns = s->measure->flow_end_ns[f] - start_ns;
		latency = min64(latency, max64(took_ns, 0));
		s->measure->latency_ns[f] = latency;
	}
	return latency;
}

static void start_of_flow(
	struct share *s, struct taut_timeline *timeline, uint32_t op)
{
	uint32_t f = s->is->flow_of[op];
	struct flow *flow = &s->flows[f];
	if (flow->stage == FLOW_DONE) {
		end_of_flow(s, timeline, op, true);
		return;
	}
	let_go(s, op, true, false);
	s->core.end_ns[op] = flow->waiting;
	flow->waiting = op;
	if (flow->stage != FLOW_IDLE)
		return;
	flow->stage = FLOW_LATENT;
	flow->at_ns = s->core.start_ns[op] +
		latency_ns(s, f, s->core.start_ns[op]);
	due_set(&s->due, f, max64(s->clock_ns, flow->at_ns));
}

static bool has_amount(const struct share *s, uint32_t f)
{
	return s->measure ? s->measure->flow_end_ns[f] > s->clock_ns
		: s->is->flows[f].amount > 0;
}

/* The latency of flow f is over, or it is done. */
static void go_on(struct share *s, struct taut_timeline *timeline, uint32_t f)
{
	struct flow *flow = &s->flows[f];
	due_drop(&s->due, f);
	if (flow->stage == FLOW_MOVING) {
		tauti_flow_count(s, flow);
		if (s->measure)
			s->measure->amount[f] = -flow->left;
		tauti_flow_leave(s, f);
		flow_is_done(s, timeline, f, s->clock_ns);
	} else if (has_amount(s, f)) {
		flow->stage = FLOW_MOVING;
		flow->left = s->measure ? 0 : s->is->flows[f].amount;
		tauti_flow_join(s, f);
	} else {
		flow_is_done(s, timeline, f, flow->at_ns);
	}
}

/* --- the loop -----------------------------------------------------------------------------*/

static void start_told(
	struct share *s, struct taut_timeline *timeline, uint32_t op);

static void start(struct share *s, struct taut_timeline *timeline, uint32_t op)
{
	uint32_t c = s->n_cores ? s->core_of_lane[s->graph->lane[op]]
		: TAUT_NONE;
	if (s->flow_of[op] == TAUTI_TOLD) {
		start_told(s, timeline, op);
		return;
	}
	timeline->order[timeline->n_run++] = op;
	if (s->flow_of[op] != TAUT_NONE)
		start_of_flow(s, timeline, op);
	else if (c != TAUT_NONE)
		start_on_core(s, timeline, c, op);
	else
		start_plain(s, timeline, op);
}

/* One of which a mechanism is told. */
static void start_told(
	struct share *s, struct taut_timeline *timeline, uint32_t op)
{
	uint32_t c = s->n_cores ? s->core_of_lane[s->graph->lane[op]]
		: TAUT_NONE;
	if (tauti_dispatch_hold(s, op))
		return;
	timeline->order[timeline->n_run++] = op;
	if (s->is->flow_of[op] != TAUT_NONE)
		start_of_flow(s, timeline, op);
	else if (c != TAUT_NONE)
		start_on_core(s, timeline, c, op);
	else
		finish_told(s, timeline, op, s->core.start_ns[op] +
			s->core.dur_ns[op], true);
}

static void change(struct share *s, struct taut_timeline *timeline)
{
	uint32_t id = s->due.heap[0].id;
	if (id < s->is->n_flows)
		go_on(s, timeline, id);
	else if (id < s->is->n_flows + s->n_cores)
		finish_told(s, timeline,
			tauti_core_take(s, id - s->is->n_flows),
			s->clock_ns, false);
	else if (ready_first_ns(&s->core.ready) <= s->clock_ns)
		start(s, timeline, ready_take(&s->core.ready).op);
	else
		tauti_dispatch_tell(s);
}

static void aim(struct share *s, struct taut_timeline *timeline)
{
	uint32_t op = ready_take(&s->measure->aims).op;
	run_as_measured(
		s, timeline, s->core_of_lane[s->graph->lane[op]], op);
}

static void run(struct share *s, struct taut_timeline *timeline)
{
	timeline->n_run = 0;
	timeline->makespan_ns = 0;
	while (!s->stop) {
		run_timeless(s, timeline);
		int64_t start_ns = max64(
			ready_first_ns(&s->core.ready), s->clock_ns);
		int64_t due_ns = due_first_ns(&s->due);
		int64_t aim_ns = s->measure
			? ready_first_ns(&s->measure->aims) : INT64_MAX;
		int64_t next_ns = min64(start_ns, due_ns);
		if (s->n_dirty && next_ns > s->clock_ns) {
			tauti_rates_settle(s);
			continue;
		}
		s->clock_ns = min64(next_ns, aim_ns);
		if (aim_ns < next_ns)
			aim(s, timeline);
		else if (next_ns == INT64_MAX)
			break;
		else if (due_ns == next_ns)
			change(s, timeline);
		else
			start(s, timeline, ready_take(&s->core.ready).op);
	}
}

/* --- memory ---------------------------------------------------------------------------------*/

static bool get_flows(struct share *s)
{
	size_t n_flows = s->is->n_flows, n_uses = s->is->n_uses;
	s->flows = TAUT_ARENA_ARRAY(s->arena, struct flow, n_flows);
	s->found_flows = TAUT_ARENA_ARRAY(s->arena, uint32_t, n_flows);
	s->links = TAUT_ARENA_ARRAY(s->arena, struct link, n_uses);
	s->flow_of_use = TAUT_ARENA_ARRAY(s->arena, uint32_t, n_uses);
	if (!s->flows || !s->found_flows || !s->links || !s->flow_of_use)
		return false;
	for (uint32_t f = 0; f < n_flows; f++) {
		const struct taut_flow *is = &s->is->flows[f];
		s->flows[f].waiting = TAUT_NONE;
		for (uint32_t i = 0; i < is->n_uses; i++)
			s->flow_of_use[is->first_use + i] = f;
	}
	return true;
}

static bool get_resources(struct share *s)
{
	size_t n = s->is->n_resources;
	s->resources = TAUT_ARENA_ARRAY(s->arena, struct resource, n);
	s->dirty = TAUT_ARENA_ARRAY(s->arena, uint32_t, n);
	s->found_resources = TAUT_ARENA_ARRAY(s->arena, uint32_t, n);
	s->core_of_lane = TAUT_ARENA_ARRAY(
		s->arena, uint32_t, s->graph->n_lanes);
	if (!s->resources || !s->dirty || !s->found_resources ||
			!s->core_of_lane)
		return false;
	for (uint32_t r = 0; r < n; r++) {
		s->resources[r].first = TAUT_NONE;
		s->resources[r].core = TAUT_NONE;
	}
	return true;
}

/* Room for all flows, cores and a mechanism; for ops on cores, one a lane. */
static bool get_heaps(struct share *s)
{
	size_t n = (size_t)s->is->n_flows + s->n_cores + 1;
	s->due.heap = TAUT_ARENA_ARRAY(s->arena, struct due_at, n);
	s->due.place = TAUT_ARENA_ARRAY(s->arena, uint32_t, n);
	if (!s->due.heap || !s->due.place)
		return false;
	memset(s->due.place, 0xff, n * sizeof *s->due.place);
	if (!s->measure)
		return true;
	s->measure->aims.heap = TAUT_ARENA_ARRAY(s->arena, struct ready_op,
		(size_t)s->graph->n_lanes + READY_SPARE);
	if (!s->measure->aims.heap)
		return false;
	ready_clear(&s->measure->aims);
	return true;
}

static taut_status get_memory(struct share *s, struct taut_error *err)
{
	s->arena = taut_arena_create();
	if (!s->arena || !get_flows(s) || !get_resources(s))
		s->stop = true;
	else if (tauti_cores_init(s, err))
		return TAUT_ENOMEM;
	if (s->stop || !get_heaps(s))
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory to replay %u flows",
			(unsigned)s->is->n_flows);
	return TAUT_OK;
}

taut_status tauti_replay_shared(const struct taut_graph *graph,
	const struct taut_replay_edit *edit, struct taut_timeline *timeline,
	struct tauti_measure *measure, struct taut_error *reterr)
{
	struct share s = {
		.graph = graph, .is = edit->sharing, .measure = measure,
		.flow_of = edit->sharing->flow_of,
	};
	struct taut_dispatch dispatch = { .err = reterr };
	struct taut_replay_edit with = *edit;
	taut_status status = tauti_sharing_check(graph, edit->sharing,
		edit->dur_ns ? edit->dur_ns : graph->dur_ns, !measure, reterr);
	if (status)
		return status;
	status = get_memory(&s, reterr);
	if (!status && edit->dispatcher)
		status = tauti_dispatch_init(&s, &dispatch, &with, reterr);
	if (!status) {
		tauti_core_begin(&s.core, graph, &with, timeline);
		run(&s, timeline);
		status = dispatch.status;
		if (!status && s.stop)
			status = taut_error_set(reterr, TAUT_ENOMEM, -1,
				"no memory to replay what cores are slowed by");
	}
	if (!status && s.dispatch)
		status = tauti_dispatch_check(&s, reterr);
	tauti_dispatch_fini(&dispatch);
	tauti_cores_fini(&s);
	taut_arena_destroy(s.arena);
	if (!status && timeline->n_run < graph->n_ops)
		status = tauti_replay_circle(
			graph, edit->mute, timeline, reterr);
	return status;
}
