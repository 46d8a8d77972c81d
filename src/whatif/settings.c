/* settings.c - how gradients can be exchanged, and what each would give. */
#include <taut/settings.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/table.h"
#include "whatif/whatif.h"

enum { PIECE, CREDIT, FUSE, WAY, DIMENSIONS };
enum { KIB = 1024, MIB = 1024 * KIB };

struct taut_settings {
	struct taut_settings_options options;
	struct taut_tune_dimension dimensions[DIMENSIONS];
	double whole[1]; /* the one value of what is no choice */
	enum taut_coll_way ways[TAUT_WAYS];
	uint32_t n_ways;
};

/* A factor of two moves a step by some percent (bench/tune_compare.py); fusion
 * matters less. At 75 Mbit/s a credit of 1 MiB is 0.1 s of the link. */
static const double pieces[] = { 256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB,
	8 * MIB };
static const double credits[] = { 256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB,
	8 * MIB, 16 * MIB };
static const double fuses[] = { 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB };

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for settings");
}

/* --- points -------------------------------------------------------------------------*/

/* Those that differ in bytes or in messages: of two ranks a message goes each way, whole
 * (flat) or in two halves, one after the other (all else). */
static void choose_ways(struct taut_settings *s)
{
	const struct taut_settings_options *o = &s->options;

	s->ways[s->n_ways++] = TAUT_WAY_AUTO;
	if (o->ordered || o->n_ranks < 2)
		return;
	s->ways[s->n_ways++] = TAUT_WAY_RING;
	s->ways[s->n_ways++] = o->n_ranks > 2 ? TAUT_WAY_DIRECT : TAUT_WAY_FLAT;
	if (o->n_ranks > 2)
		s->ways[s->n_ways++] = TAUT_WAY_HALVING;
	if (o->n_hosts > 1 && o->n_hosts < o->n_ranks)
		s->ways[s->n_ways++] = TAUT_WAY_HOSTS;
}

#define DIMENSION(name, values) { name, TAUT_TUNE_LOG, \
	sizeof values / sizeof *values, values }

static void fill(struct taut_settings *s)
{
	const struct taut_tune_dimension all[DIMENSIONS] = {
		[PIECE] = DIMENSION("partition", pieces),
		[CREDIT] = DIMENSION("credit", credits),
		[FUSE] = DIMENSION("fusion", fuses),
		[WAY] = { "way", TAUT_TUNE_CHOICE, s->n_ways, NULL },
	};

	memcpy(s->dimensions, all, sizeof all);
	if (!s->options.whole)
		return;
	for (int d = PIECE; d <= CREDIT; d++) {
		s->dimensions[d].scale = TAUT_TUNE_LINEAR;
		s->dimensions[d].values = s->whole;
		s->dimensions[d].n_values = 1;
	}
}

taut_status taut_settings_create(const struct taut_settings_options *options,
	struct taut_settings **ret_settings, struct taut_error *reterr)
{
	struct taut_settings *s = calloc(1, sizeof *s);

	if (!s)
		return no_memory(reterr);
	s->options = *options;
	s->options.n_ranks += !options->n_ranks;
	s->options.n_hosts += !options->n_hosts;
	choose_ways(s);
	fill(s);
	*ret_settings = s;
	return TAUT_OK;
}

uint32_t tauti_run_hosts(const struct taut_run *run)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < run->n_traces; i++) {
		const char *host = run->traces[i].host;
		uint32_t k = 0;

		while (host && *host && k < i && (!run->traces[k].host ||
			strcmp(run->traces[k].host, host)))
			k++;
		n += !host || !*host || k == i;
	}
	return n;
}

taut_status taut_settings_of(const struct taut_graph *graph,
	struct taut_settings **ret_settings, struct taut_error *reterr)
{
	const struct taut_settings_options options = {
		.n_ranks = (uint32_t)graph->run->n_traces,
		.n_hosts = tauti_run_hosts(graph->run) };

	return taut_settings_create(&options, ret_settings, reterr);
}

void taut_settings_destroy(struct taut_settings *settings)
{
	free(settings);
}

const struct taut_tune_dimension *taut_settings_dimensions(
	const struct taut_settings *settings, uint32_t *ret_n)
{
	*ret_n = DIMENSIONS;
	return settings->dimensions;
}

uint32_t taut_settings_points(const struct taut_settings *settings)
{
	uint32_t n = 1;

	for (int d = 0; d < DIMENSIONS; d++)
		n *= settings->dimensions[d].n_values;
	return n;
}

struct taut_setting taut_settings_at(
	const struct taut_settings *settings, uint32_t point)
{
	uint32_t values[DIMENSIONS];

	for (int d = DIMENSIONS; d-- > 0;) {
		values[d] = point % settings->dimensions[d].n_values;
		point /= settings->dimensions[d].n_values;
	}
	return (struct taut_setting){
		(uint64_t)settings->dimensions[PIECE].values[values[PIECE]],
		(uint64_t)settings->dimensions[CREDIT].values[values[CREDIT]],
		(uint64_t)settings->dimensions[FUSE].values[values[FUSE]],
		settings->ways[values[WAY]] };
}

static uint32_t nearest(const struct taut_tune_dimension *d, uint64_t bytes)
{
	double least = INFINITY;
	uint32_t at = 0;

	for (uint32_t i = 0; i < d->n_values; i++) {
		double by = fabs(log((d->values[i] + 1) / ((double)bytes + 1)));

		if (by < least) {
			least = by;
			at = i;
		}
	}
	return at;
}

uint32_t taut_settings_near(const struct taut_settings *settings,
	const struct taut_setting *setting)
{
	const uint64_t bytes[] = { setting->piece_bytes, setting->credit_bytes,
		setting->fuse_bytes };
	uint32_t point = 0, way = settings->n_ways;

	/* No limit is the largest one. */
	for (int d = PIECE; d <= FUSE; d++)
		point = point * settings->dimensions[d].n_values + nearest(
			&settings->dimensions[d], bytes[d] || d == FUSE ?
			bytes[d] : UINT64_MAX);
	while (--way > 0 && settings->ways[way] != setting->way)
		;
	return point * settings->n_ways + way;
}

/* --- predictions --------------------------------------------------------------------*/

/* As algorithm= has them. */
static const char *const algorithms[TAUT_WAYS] = {
	[TAUT_WAY_DIRECT] = "direct", [TAUT_WAY_DOUBLING] = "doubling",
	[TAUT_WAY_HALVING] = "halving-doubling", [TAUT_WAY_RING] = "ring",
	[TAUT_WAY_TREE] = "tree", [TAUT_WAY_HOSTS] = "hierarchical",
	[TAUT_WAY_FLAT] = "flat",
};

enum { LAID = 3 }; /* changes that a setting is laid as */

struct laid { /* points with equal ones are one */
	struct taut_setting as;
	uint32_t point;
};

struct guess {
	const struct taut_settings *settings;
	const char *const *changes;
	size_t n_changes;
	struct tauti_table table;
	struct taut_arena *arena;
	struct laid *laid;      /* by point, then sorted */
	struct taut_stack *stacks;
	uint32_t *stack_of;     /* by point */
	uint32_t n_stacks;
	struct taut_error *err;
};

static struct taut_setting laid_as(
	const struct guess *g, uint32_t point)
{
	struct taut_setting s = taut_settings_at(g->settings, point);
	uint64_t message = s.piece_bytes ? s.piece_bytes : s.fuse_bytes;

	if (s.way == TAUT_WAY_AUTO)
		s.way = tauti_table_choice(
			&g->table, TAUT_ALLREDUCE, message)->way;
	if (g->settings->options.ordered)
		s.way = TAUT_WAY_DIRECT;
	return s;
}

static int by_setting(const void *a, const void *b)
{
	const struct laid *x = a, *y = b;

#define BY(field) if (x->field != y->field) \
		return x->field < y->field ? -1 : 1
	BY(as.fuse_bytes);
	BY(as.way);
	BY(as.piece_bytes);
	BY(as.credit_bytes);
	BY(point);
#undef BY
	return 0;
}

static bool same(const struct taut_setting *a, const struct taut_setting *b)
{
	return a->piece_bytes == b->piece_bytes && a->way == b->way &&
		a->credit_bytes == b->credit_bytes &&
		a->fuse_bytes == b->fuse_bytes;
}

static bool add_stack(struct guess *g, const struct taut_setting *s)
{
	const char **changes = taut_arena_calloc(
		g->arena, g->n_changes + LAID, sizeof *changes);
	size_t n = g->n_changes;

	if (!changes)
		return false;
	if (n)
		memcpy(changes, g->changes, n * sizeof *changes);
	changes[n++] = taut_arena_printf(
		g->arena, "bucket=%" PRIu64 "B", s->fuse_bytes);
	changes[n++] = taut_arena_printf(
		g->arena, "algorithm=%s", algorithms[s->way]);
	if (s->piece_bytes)
		changes[n++] = taut_arena_printf(g->arena, "schedule=priority,"
			"partition=%" PRIu64 "B,credit=%" PRIu64
			"B,barrier=cross,by=taut", s->piece_bytes, s->credit_bytes);
	for (size_t i = g->n_changes; i < n; i++)
		if (!changes[i])
			return false;
	g->stacks[g->n_stacks++] = (struct taut_stack){ changes, n };
	return true;
}

static taut_status make_stacks(struct guess *g)
{
	uint32_t n = taut_settings_points(g->settings);

	g->laid = TAUT_ARENA_ARRAY(g->arena, struct laid, n);
	g->stacks = TAUT_ARENA_ARRAY(g->arena, struct taut_stack, n);
	g->stack_of = TAUT_ARENA_ARRAY(g->arena, uint32_t, n);
	if (!g->laid || !g->stacks || !g->stack_of)
		return no_memory(g->err);
	for (uint32_t i = 0; i < n; i++)
		g->laid[i] = (struct laid){ laid_as(g, i), i };
	qsort(g->laid, n, sizeof *g->laid, by_setting);
	for (uint32_t i = 0; i < n; i++) {
		if ((!i || !same(&g->laid[i].as, &g->laid[i - 1].as)) &&
			!add_stack(g, &g->laid[i].as))
			return no_memory(g->err);
		g->stack_of[g->laid[i].point] = g->n_stacks - 1;
	}
	return TAUT_OK;
}

static taut_status guess(struct guess *g, const struct taut_graph *graph,
	const struct taut_whatif_options *options, int64_t *ret_before_ns,
	double *ret_after_ns)
{
	uint32_t n = taut_settings_points(g->settings);
	taut_status status = make_stacks(g);
	int64_t *ns;

	if (status)
		return status;
	ns = TAUT_ARENA_ARRAY(g->arena, int64_t, g->n_stacks);
	if (!ns)
		return no_memory(g->err);
	status = taut_predict_steps(graph, g->stacks, g->n_stacks, options,
		ret_before_ns, ns, g->err);
	for (uint32_t i = 0; !status && i < n; i++)
		ret_after_ns[i] = (double)ns[g->stack_of[i]];
	return status;
}

taut_status taut_settings_predict(const struct taut_settings *settings,
	const struct taut_graph *graph, const char *const *changes, size_t n,
	const struct taut_whatif_options *options, int64_t *ret_before_ns,
	double *ret_after_ns, uint32_t *ret_replayed,
	struct taut_error *reterr)
{
	struct guess g = { .settings = settings, .changes = changes,
		.n_changes = n, .err = reterr };
	taut_status status = tauti_table_init(&g.table,
		settings->options.n_ranks, settings->options.n_hosts, NULL, 0,
		reterr);

	if (status)
		return status;
	g.arena = taut_arena_create();
	status = g.arena ? guess(&g, graph, options, ret_before_ns,
		ret_after_ns) : no_memory(reterr);
	if (!status && ret_replayed)
		*ret_replayed = g.n_stacks;
	taut_arena_destroy(g.arena);
	tauti_table_fini(&g.table);
	return status;
}
