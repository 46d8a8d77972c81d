/* memory.c - blocks of memory on the operations of a graph.
 *
 * The allocator's events name addresses. Sorted by (address, time), an event
 * that gives back belongs to the one before it that asked; where a recording
 * has no addresses, sizes stand for them, the newest block of a size going
 * first.
 *
 * What was there before is known of devices alone. PyTorch counts the host's
 * memory while a profiler runs: what is given back between two recordings stays
 * in its total for good, and what came before is seen to go only where its
 * address was given out while it counted. */
#include <taut/memory.h>

#include <stdlib.h>

#include "base/vec.h"
#include "replay/memory.h"


struct owned_memory *tauti_memory_new(void)
{
	struct taut_arena *arena = taut_arena_create();
	struct owned_memory *owned = arena ?
		TAUT_ARENA_ARRAY(arena, struct owned_memory, 1) : NULL;

	if (owned)
		owned->arena = arena;
	else
		taut_arena_destroy(arena);
	return owned;
}

void tauti_memory_free(struct owned_memory *owned)
{
	if (owned)
		taut_arena_destroy(owned->arena);
}

/* --- one rank's events ------------------------------------------------------ */

struct seen { /* an event of the rank's memory, or a block's two ends */
	uint64_t key;   /* address, or size */
	uint32_t event; /* in trace->memory */
	uint32_t mate;  /* in seen: the other end of its block; TAUT_NONE */
};

struct rank_events {
	const struct taut_graph *graph;
	const struct taut_trace *trace;
	uint32_t index;
	uint32_t first_lane, end_lane; /* of the graph */
	int32_t device;
	TAUT_VEC(int32_t) devices; /* of its events */
	TAUT_VEC(struct seen) seen;
	TAUT_VEC(uint32_t) open; /* in seen, newest last */
};

static int by_number(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return x < y ? -1 : x > y;
}

/* The device with most events, the first of several such; else the host's
 * memory. */
static bool choose_device(struct rank_events *r)
{
	const struct taut_trace *t = r->trace;
	size_t most = 0;

	r->device = -1;
	r->devices.count = 0;
	for (size_t i = 0; i < t->n_memory; i++)
		if (t->memory[i].device >= 0 &&
			!taut_vec_push(&r->devices, t->memory[i].device))
			return false;
	if (r->devices.count)
		qsort(r->devices.data, r->devices.count,
			sizeof *r->devices.data, by_number);
	for (size_t i = 0, end; i < r->devices.count; i = end) {
		for (end = i + 1; end < r->devices.count &&
			r->devices.data[end] == r->devices.data[i]; end++)
			;
		if (end - i > most) {
			most = end - i;
			r->device = r->devices.data[i];
		}
	}
	return true;
}

static int by_key(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->event < y->event ? -1 : x->event > y->event;
}

static int by_event(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return x->event < y->event ? -1 : x->event > y->event;
}

static bool collect(struct rank_events *r)
{
	const struct taut_trace *t = r->trace;

	for (uint32_t i = 0; i < t->n_memory; i++) {
		const struct taut_memory_event *m = &t->memory[i];
		struct seen s = { m->address ? m->address :
			(uint64_t)(m->bytes < 0 ? -m->bytes : m->bytes), i,
			TAUT_NONE };

		if (m->device == r->device && !taut_vec_push(&r->seen, s))
			return false;
	}
	if (r->seen.count)
		qsort(r->seen.data, r->seen.count, sizeof *r->seen.data,
			by_key);
	return true;
}

/* Ties what gives back to what asked; mates are events, for the order of seen
 * changes after this. */
static bool pair(struct rank_events *r)
{
	const struct taut_memory_event *events = r->trace->memory;

	for (uint32_t i = 0; i < r->seen.count; i++) {
		struct seen *s = &r->seen.data[i];

		if (i && r->seen.data[i - 1].key != s->key)
			r->open.count = 0;
		if (events[s->event].bytes > 0) {
			if (!taut_vec_push(&r->open, i))
				return false;
		} else if (r->open.count) {
			struct seen *from =
				&r->seen.data[r->open.data[--r->open.count]];

			from->mate = s->event;
			s->mate = from->event;
		}
	}
	if (r->seen.count)
		qsort(r->seen.data, r->seen.count, sizeof *r->seen.data,
			by_event);
	return true;
}

/* --- instants on operations ----------------------------------------------------- */

static uint32_t lane_of(const struct rank_events *r, uint32_t trace_lane)
{
	const struct taut_graph *g = r->graph;
	uint32_t main = TAUT_NONE;

	for (uint32_t l = r->first_lane; l < r->end_lane; l++) {
		if (g->lanes[l].trace_lane == trace_lane)
			return l;
		if (g->lanes[l].is_main)
			main = l;
	}
	return main;
}

/* The operation during which an instant lies, or the last one before it, whose
 * end it then is; of what lies before the first one, that one's start. */
static uint32_t op_at(const struct rank_events *r, uint32_t event, double *ret_at)
{
	const struct taut_graph *g = r->graph;
	const struct taut_memory_event *m = &r->trace->memory[event];
	int64_t at = taut_graph_time(g, r->index, m->at_ns);
	uint32_t lane = lane_of(r, m->lane), lo, hi;

	*ret_at = 0;
	if (lane == TAUT_NONE)
		return TAUT_NONE;
	lo = g->lane_begin[lane];
	hi = g->lane_begin[lane + 1];
	while (lo < hi) { /* the first that starts after the instant */
		uint32_t mid = lo + (hi - lo) / 2;

		if (g->start_ns[mid] <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == g->lane_begin[lane])
		return lo;
	lo--;
	if (at >= g->start_ns[lo] + g->dur_ns[lo])
		*ret_at = 1;
	else
		*ret_at = (double)(at - g->start_ns[lo]) /
			(double)g->dur_ns[lo];
	return lo;
}

static void add_block(const struct rank_events *r, const struct seen *s,
	struct taut_block *block)
{
	int64_t bytes = r->trace->memory[s->event].bytes;
	bool asks = bytes > 0;

	*block = (struct taut_block) { asks ? bytes : -bytes, TAUT_NONE,
		TAUT_NONE, 0, 1 };
	if (asks)
		block->from_op = op_at(r, s->event, &block->from_at);
	if (!asks || s->mate != TAUT_NONE)
		block->to_op = op_at(r, asks ? s->mate : s->event,
			&block->to_at);
}

static bool came_before(const struct rank_events *r, const struct seen *s)
{
	return r->trace->memory[s->event].bytes < 0 && s->mate == TAUT_NONE;
}

/* Blocks, in the order of their first event; returns how many. */
static uint32_t fill(const struct rank_events *r, struct taut_block *blocks,
	struct taut_memory_rank *rank)
{
	const struct taut_memory_event *events = r->trace->memory;
	int64_t now = 0, unasked = 0, peak = 0, base = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->seen.count; i++) {
		const struct seen *s = &r->seen.data[i];
		int64_t bytes = events[s->event].bytes;

		rank->n_unasked += came_before(r, s);
		if (came_before(r, s) && r->device < 0)
			continue;
		if (bytes > 0 || s->mate == TAUT_NONE)
			add_block(r, s, &blocks[n++]);
		unasked -= came_before(r, s) ? bytes : 0;
		now += bytes;
		if (i == 0 || now > peak)
			peak = now;
		if (i == 0 && r->device >= 0 &&
			events[s->event].total >= bytes)
			base = events[s->event].total - bytes;
	}
	if (base < unasked) /* the input does not say, or says too little */
		base = unasked;
	rank->base_bytes = base - unasked;
	rank->peak_bytes = r->seen.count ? (peak > 0 ? peak : 0) + base : -1;
	rank->n_events = (uint32_t)r->seen.count;
	return n;
}

static bool build_rank(struct taut_memory *memory, struct rank_events *r,
	struct taut_block *blocks, struct taut_memory_rank *rank)
{
	r->seen.count = r->open.count = 0;
	if (!choose_device(r) || !collect(r) || !pair(r))
		return false;
	rank->device = r->device;
	rank->first_block = memory->n_blocks;
	rank->n_blocks = fill(r, blocks + memory->n_blocks, rank);
	memory->n_blocks += rank->n_blocks;
	return true;
}

static void lanes_of_rank(struct rank_events *r)
{
	const struct taut_graph *g = r->graph;

	r->first_lane = r->end_lane = 0;
	while (r->first_lane < g->n_lanes &&
		g->lanes[r->first_lane].trace != r->index)
		r->first_lane++;
	r->end_lane = r->first_lane;
	while (r->end_lane < g->n_lanes &&
		g->lanes[r->end_lane].trace == r->index)
		r->end_lane++;
}

static bool build(struct owned_memory *owned, const struct taut_graph *graph)
{
	struct rank_events r = { .graph = graph };
	uint32_t n_traces = graph->run ? graph->run->n_traces : 0;
	size_t n_events = 0;
	struct taut_block *blocks;
	struct taut_memory_rank *ranks;
	bool ok;

	for (uint32_t i = 0; i < n_traces; i++)
		n_events += graph->run->traces[i].n_memory;
	blocks = TAUT_ARENA_ARRAY(owned->arena, struct taut_block,
		n_events + 1);
	ranks = TAUT_ARENA_ARRAY(owned->arena, struct taut_memory_rank,
		n_traces + 1);
	ok = blocks && ranks;
	for (uint32_t i = 0; ok && i < n_traces; i++) {
		r.index = i;
		r.trace = &graph->run->traces[i];
		lanes_of_rank(&r);
		ok = build_rank(&owned->memory, &r, blocks, &ranks[i]);
	}
	taut_vec_free(&r.devices);
	taut_vec_free(&r.seen);
	taut_vec_free(&r.open);
	owned->memory.graph = graph;
	owned->memory.blocks = blocks;
	owned->memory.ranks = ranks;
	return ok;
}

taut_status taut_memory_create(const struct taut_graph *graph,
	struct taut_memory **ret_memory, struct taut_error *reterr)
{
	struct owned_memory *owned = tauti_memory_new();

	if (!owned || !build(owned, graph)) {
		tauti_memory_free(owned);
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for the allocations of the recording");
	}
	*ret_memory = &owned->memory;
	return TAUT_OK;
}

void taut_memory_destroy(struct taut_memory *memory)
{
	tauti_memory_free((struct owned_memory *)memory);
}

/* --- peaks -------------------------------------------------------------------- */

struct change {
	int64_t at_ns;
	int64_t bytes;
	uint32_t order; /* of one instant, as recorded; what ends before what
	                   begins there was given back first */
	uint32_t op;
};

static int by_time(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	if ((x->bytes < 0) != (y->bytes < 0))
		return x->bytes < 0 ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int64_t instant(const int64_t *start_ns, const int64_t *end_ns,
	uint32_t op, double at)
{
	return start_ns[op] +
		(int64_t)(at * (double)(end_ns[op] - start_ns[op]));
}

/* At either end of what 64 bits hold it stays. */
static int64_t sum(int64_t a, int64_t b)
{
	int64_t all;

	if (__builtin_add_overflow(a, b, &all))
		return b < 0 ? INT64_MIN : INT64_MAX;
	return all;
}

static struct taut_memory_peak walk(struct change *changes, uint32_t n,
	int64_t now)
{
	struct taut_memory_peak peak = { now, TAUT_NONE };

	if (n)
		qsort(changes, n, sizeof *changes, by_time);
	for (uint32_t i = 0; i < n; i++) {
		now = sum(now, changes[i].bytes);
		if (now > peak.bytes)
			peak = (struct taut_memory_peak) {
				now, changes[i].op };
	}
	return peak;
}

static struct taut_memory_peak peak_of(const struct taut_memory *memory,
	const struct taut_memory_rank *rank, const int64_t *start_ns,
	const int64_t *end_ns, const double *scale, struct change *changes)
{
	int64_t base = rank->base_bytes;
	uint32_t n = 0;

	if (rank->peak_bytes < 0)
		return (struct taut_memory_peak) { -1, TAUT_NONE };
	for (uint32_t i = rank->first_block;
		i < rank->first_block + rank->n_blocks; i++) {
		const struct taut_block *b = &memory->blocks[i];
		int64_t bytes = scale ? tauti_block_bytes(b, scale[i]) :
			b->bytes;

		if (b->from_op == TAUT_NONE)
			base = sum(base, bytes);
		else
			changes[n++] = (struct change) { instant(start_ns,
				end_ns, b->from_op, b->from_at), bytes, i,
				b->from_op };
		if (b->to_op != TAUT_NONE)
			changes[n++] = (struct change) { instant(start_ns,
				end_ns, b->to_op, b->to_at), -bytes, i,
				b->to_op };
	}
	return walk(changes, n, base);
}

taut_status taut_memory_peaks(const struct taut_memory *memory,
	const int64_t *start_ns, const int64_t *end_ns, const double *scale,
	struct taut_memory_peak *ret_peaks, struct taut_error *reterr)
{
	struct change *changes =
		malloc((2 * (size_t)memory->n_blocks + 1) * sizeof *changes);

	if (!changes)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for %u blocks", (unsigned)memory->n_blocks);
	for (uint32_t i = 0; i < memory->graph->run->n_traces; i++)
		ret_peaks[i] = peak_of(memory, &memory->ranks[i], start_ns,
			end_ns, scale, changes);
	free(changes);
	return TAUT_OK;
}
