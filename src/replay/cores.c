/* cores.c - operations on a core that flows slow down.
 *
 * All operations on a core advance at one speed, so the core has a time of its
 * own, the integral of that speed, and an op that starts at own time x ends
 * at x + dur. When the speed changes, only the next end of the core moves; the
 * others keep their order. */
#include <stdlib.h>

#include "sharing.h"

static bool push_beat(struct vcore *core, struct beat beat)
{
	return taut_vec_push(&core->beats, beat);
}

static const struct beat *last_beat(const struct vcore *core)
{
	return &core->beats.data[core->beats.count - 1];
}

static double own_from(const struct beat *beat, int64_t at_ns)
{
	double passed = beat->speed * (double)(at_ns - beat->at_ns);
	return beat->own + passed;
}

/* The beat in which at_ns lies. */
static size_t beat_at(const struct vcore *core, int64_t at_ns)
{
	size_t low = 0, high = core->beats.count;
	if (last_beat(core)->at_ns <= at_ns)
		return high - 1;
	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;
		if (core->beats.data[mid].at_ns <= at_ns)
			low = mid;
		else
			high = mid;
	}
	return low;
}

double tauti_core_own(const struct vcore *core, int64_t at_ns)
{
	return own_from(&core->beats.data[beat_at(core, at_ns)], at_ns);
}

/* At the speed of this beat. */
static int64_t when(const struct beat *beat, double own)
{
	return tauti_after(beat->at_ns, (own - beat->own) / beat->speed);
}

/* When did what began at start_ns come to this own time? As it would have been
 * told then: a whole nanosecond in the first beat in which there is one. */
static int64_t when_from(const struct vcore *core, int64_t start_ns, double own)
{
	size_t at = beat_at(core, start_ns);
	for (; at + 1 < core->beats.count; at++) {
		int64_t end_ns = when(&core->beats.data[at], own);
		if (end_ns <= core->beats.data[at + 1].at_ns)
			return end_ns;
	}
	return when(last_beat(core), own);
}

static void plan(struct share *s, uint32_t c)
{
	struct vcore *core = &s->cores[c];
	uint32_t id = s->is->n_flows + c;
	if (!core->n_busy)
		due_drop(&s->due, id);
	else
		due_set(&s->due, id, max64(s->clock_ns,
			when(last_beat(core), core->busy[0].own_end)));
}

void tauti_core_speed(struct share *s, uint32_t c, double speed)
{
	struct vcore *core = &s->cores[c];
	struct beat *last = &core->beats.data[core->beats.count - 1];
	if (last->speed == speed)
		return;
	struct beat beat = {
		s->clock_ns, own_from(last, s->clock_ns), speed
	};
	if (last->at_ns == s->clock_ns)
		last->speed = speed;
	else if (!push_beat(core, beat))
		s->stop = true;
	plan(s, c);
}

/* --- the ops on it: a binary heap ------------------------------------------------*/

static bool ends_before(struct busy a, struct busy b)
{
	return a.own_end < b.own_end || (a.own_end == b.own_end && a.op < b.op);
}

static void put_busy(struct vcore *core, struct busy busy)
{
	uint32_t at = core->n_busy++;
	for (; at && ends_before(busy, core->busy[(at - 1) / 2]);
			at = (at - 1) / 2)
		core->busy[at] = core->busy[(at - 1) / 2];
	core->busy[at] = busy;
}

static uint32_t take_busy(struct vcore *core)
{
	uint32_t op = core->busy[0].op, n = --core->n_busy, at = 0;
	struct busy last = core->busy[n];
	for (uint32_t child = 1; child < n; child = 2 * at + 1) {
		if (child + 1 < n && ends_before(core->busy[child + 1],
				core->busy[child]))
			child++;
		if (!ends_before(core->busy[child], last))
			break;
		core->busy[at] = core->busy[child];
		at = child;
	}
	core->busy[at] = last;
	return op;
}

int64_t tauti_core_put(struct share *s, uint32_t c, uint32_t op,
	int64_t dur_ns)
{
	struct vcore *core = &s->cores[c];
	int64_t start_ns = s->core.start_ns[op];
	struct busy busy = { tauti_core_own(core, start_ns), op };
	busy.own_end += (double)dur_ns;
	if (!dur_ns)
		return start_ns;
	if (start_ns < s->clock_ns) {
		int64_t end_ns = when_from(core, start_ns, busy.own_end);
		if (end_ns <= s->clock_ns)
			return max64(end_ns, start_ns);
	}
	put_busy(core, busy);
	if (core->busy[0].op == op)
		plan(s, c);
	return INT64_MAX;
}

uint32_t tauti_core_take(struct share *s, uint32_t c)
{
	uint32_t op = take_busy(&s->cores[c]);
	plan(s, c);
	return op;
}

/* --- which there are ----------------------------------------------------------------*/

/* Of a lane whose ops wait for each other, on what flows use too. */
static uint32_t core_of(const struct share *s, const uint8_t *used,
	uint32_t lane)
{
	uint32_t r = s->is->core_of ? s->is->core_of[lane] : TAUT_NONE;
	return r != TAUT_NONE && used[r] &&
		tauti_is_serial(&s->graph->lanes[lane]) ? r : TAUT_NONE;
}

static void mark_used(const struct share *s, uint8_t *used)
{
	for (uint32_t f = 0; f < s->is->n_flows; f++) {
		const struct taut_flow *is = &s->is->flows[f];
		for (uint32_t i = 0; i < is->n_uses; i++)
			used[s->is->uses[is->first_use + i].resource] = 1;
	}
}

/* Numbers the cores by their first lane; n_busy counts their lanes. */
static bool number_cores(struct share *s, const uint8_t *used)
{
	uint32_t n_lanes = s->graph->n_lanes;
	for (uint32_t lane = 0; lane < n_lanes; lane++) {
		uint32_t r = core_of(s, used, lane);
		s->core_of_lane[lane] = TAUT_NONE;
		if (r == TAUT_NONE)
			continue;
		if (s->resources[r].core == TAUT_NONE)
			s->resources[r].core = s->n_cores++;
		s->core_of_lane[lane] = s->resources[r].core;
	}
	s->cores = TAUT_ARENA_ARRAY(s->arena, struct vcore, s->n_cores);
	if (!s->cores)
		return false;
	for (uint32_t lane = 0; lane < n_lanes; lane++) {
		if (s->core_of_lane[lane] == TAUT_NONE)
			continue;
		s->cores[s->core_of_lane[lane]].n_busy++;
	}
	return true;
}

taut_status tauti_cores_init(struct share *s, struct taut_error *err)
{
	uint8_t *used = TAUT_ARENA_ARRAY(
		s->arena, uint8_t, s->is->n_resources);
	bool ok = used != NULL;
	if (ok) {
		mark_used(s, used);
		ok = number_cores(s, used);
	}
	for (uint32_t c = 0; ok && c < s->n_cores; c++) {
		struct vcore *core = &s->cores[c];
		core->busy = TAUT_ARENA_ARRAY(
			s->arena, struct busy, core->n_busy);
		core->n_busy = 0;
		/* of all that was before 0, and from then on */
		ok = core->busy && push_beat(core, (struct beat){ 0, 0, 1 }) &&
			push_beat(core, (struct beat){ 0, 0, 1 });
	}
	return ok ? TAUT_OK : taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory to replay what cores are slowed by");
}

void tauti_cores_fini(struct share *s)
{
	for (uint32_t c = 0; s->cores && c < s->n_cores; c++)
		taut_vec_free(&s->cores[c].beats);
}
