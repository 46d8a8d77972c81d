/* measured.c - see measured.h. */
#include "cli/measured.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/stream.h"
#include "trace/tree.h"

enum { MOST_BYTES = 16 << 20, WINDOW_BYTES = 1 << 16, MOST_STEPS = 1 << 20 };
static const int64_t longest_ns = INT64_C(1) << 56; /* two years */
/* A tenth of the steps makes a block, if that is no more than these. */
enum { LEAST_BLOCKS = 10, LONGEST_BLOCK = 32 };

typedef TAUT_VEC(int64_t) times;

struct gatherer {
	struct taut_arena *arena;
	struct measured sum;
	times steps;
	uint32_t n_means; /* ranks that have steps */
	double means;     /* their sum, ns */
	double error;     /* the largest of theirs, ns */
	TAUT_VEC(const char *) missed;
	struct taut_error *err;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for what was measured");
}

static taut_status wrong(
	const struct gatherer *g, const char *name, const char *expected)
{
	return taut_error_set(g->err, TAUT_EFORMAT, -1, "%.300s: expected %s, "
		"as a rank of taut run writes it", name, expected);
}

/* --- one rank ---------------------------------------------------------------------- */

static taut_status take_steps(struct gatherer *g, const char *name,
	const struct tauti_value *list)
{
	if (!list || list->kind != TAUTI_VALUE_LIST ||
		list->count > MOST_STEPS)
		return wrong(g, name, "step_ns, a list");
	for (uint32_t i = 0; i < list->count; i++) {
		const struct tauti_value *v = list->items[i];

		if (!tauti_tree_is_whole(v) || v->integer < 0 ||
			v->integer > longest_ns)
			return wrong(g, name, "nanoseconds in step_ns");
		if (!taut_vec_push(&g->steps, v->integer))
			return no_memory(g->err);
	}
	return TAUT_OK;
}

/* "workers=4: no DataLoader was made", once for all ranks. */
static taut_status take_missed(struct gatherer *g, const char *name,
	const struct tauti_value *dict)
{
	if (!dict)
		return TAUT_OK;
	if (dict->kind != TAUTI_VALUE_DICT || dict->count % 2)
		return wrong(g, name, "not_applied, an object");
	for (uint32_t i = 0; i < dict->count; i += 2) {
		const char *text = taut_arena_printf(g->arena, "%.100s: %.200s",
			tauti_tree_text(dict->items[i]),
			tauti_tree_text(dict->items[i + 1]));
		size_t k = 0;

		while (text && k < g->missed.count &&
			strcmp(g->missed.data[k], text))
			k++;
		if (!text || (k == g->missed.count &&
			!taut_vec_push(&g->missed, text)))
			return no_memory(g->err);
	}
	return TAUT_OK;
}

static int by_mean(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double mean_of(const double *values, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	return sum / (double)n;
}

/* The error of a trimmed mean: that of what is left where each block that was cut is as
 * the nearest that is left (Tukey and McLaughlin). */
static double error_of(double *blocks, size_t n, size_t cut)
{
	double mean, sum = 0;

	for (size_t i = 0; i < cut; i++) {
		blocks[i] = blocks[cut];
		blocks[n - 1 - i] = blocks[n - 1 - cut];
	}
	mean = mean_of(blocks, n);
	for (size_t i = 0; i < n; i++)
		sum += (blocks[i] - mean) * (blocks[i] - mean);
	return n < 2 ? 0 : sqrt(sum / (double)(n - 1) / (double)n) /
		(1 - 2.0 * (double)cut / (double)n);
}

/* n steps of one rank, in their order. */
static taut_status take_blocks(
	struct gatherer *g, const int64_t *steps, size_t n)
{
	size_t length = n / LEAST_BLOCKS > LONGEST_BLOCK ? LONGEST_BLOCK :
		n < LEAST_BLOCKS ? 1 : n / LEAST_BLOCKS;
	size_t n_blocks = n / length, cut = n_blocks / 10;
	double *blocks = taut_arena_calloc(g->arena, n_blocks + 1, sizeof *blocks);
	double error;

	if (!blocks)
		return no_memory(g->err);
	for (size_t i = 0; i < n_blocks; i++) {
		size_t from = i * n / n_blocks, end = (i + 1) * n / n_blocks;

		for (size_t k = from; k < end; k++)
			blocks[i] += (double)steps[k] / (double)(end - from);
	}
	qsort(blocks, n_blocks, sizeof *blocks, by_mean);
	g->means += mean_of(blocks + cut, n_blocks - 2 * cut);
	g->n_means++;
	error = error_of(blocks, n_blocks, cut);
	g->error = error > g->error ? error : g->error;
	return TAUT_OK;
}

static taut_status take_rank(struct gatherer *g, const char *name,
	const struct tauti_value *rank)
{
	int64_t memory = tauti_tree_int(
		tauti_tree_get(rank, "peak_memory_bytes"), -1);
	size_t before = g->steps.count;
	taut_status status;

	if (!rank || rank->kind != TAUTI_VALUE_DICT)
		return wrong(g, name, "a JSON object");
	status = take_steps(g, name, tauti_tree_get(rank, "step_ns"));
	if (!status && g->steps.count > before)
		status = take_blocks(
			g, g->steps.data + before, g->steps.count - before);
	if (!status)
		status = take_missed(
			g, name, tauti_tree_get(rank, "not_applied"));
	if (memory > g->sum.memory_bytes)
		g->sum.memory_bytes = memory;
	g->sum.n_ranks++;
	return status;
}

static taut_status parse(struct gatherer *g, const char *text, size_t bytes,
	const char *name)
{
	struct tauti_stream *stream;
	struct tauti_values values;
	struct tauti_value *tree = NULL;
	taut_status status = tauti_stream_open_memory(
		name, text, bytes, &stream, g->err);

	if (status)
		return status;
	status = tauti_values_init(&values, stream, WINDOW_BYTES, g->err);
	if (!status) {
		status = tauti_values_next(&values, g->arena, &tree, g->err);
		tauti_values_fini(&values);
	}
	tauti_stream_close(stream);
	return status ? status : take_rank(g, name, tree);
}

/* --- all of them --------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int64_t median(times *of)
{
	if (!of->count)
		return 0;
	qsort(of->data, of->count, sizeof *of->data, by_value);
	return of->data[of->count / 2];
}

/* Steps of ranks that wait for each other are one and the same: several have no smaller
 * error than one. */
static taut_status summarise(struct gatherer *g)
{
	g->sum.n_steps = (uint32_t)g->steps.count;
	g->sum.median_ns = median(&g->steps);
	g->sum.mean_ns = g->n_means ? llround(g->means / g->n_means) : 0;
	g->sum.error_ns = llround(g->error);
	g->sum.n_missed = (uint32_t)g->missed.count;
	g->sum.missed = taut_arena_calloc(
		g->arena, g->missed.count + 1, sizeof *g->sum.missed);
	if (!g->sum.missed)
		return no_memory(g->err);
	if (g->missed.count)
		memcpy(g->sum.missed, g->missed.data,
			g->missed.count * sizeof *g->sum.missed);
	return TAUT_OK;
}

static void forget(struct gatherer *g)
{
	taut_vec_free(&g->steps);
	taut_vec_free(&g->missed);
}

static taut_status read_file(struct gatherer *g, const char *path)
{
	FILE *in = fopen(path, "rb");
	char *text = in ? malloc(MOST_BYTES) : NULL;
	taut_status status = TAUT_OK;
	size_t bytes;

	if (!text) {
		if (in)
			fclose(in);
		return in ? no_memory(g->err) : taut_error_set(g->err, TAUT_EIO,
			-1, "%.300s: cannot be read: %s", path,
			strerror(errno));
	}
	bytes = fread(text, 1, MOST_BYTES, in);
	status = parse(g, text, bytes, path);
	free(text);
	fclose(in);
	return status;
}

static bool is_rank(const char *name)
{
	size_t n = strlen(name);

	return !strncmp(name, "rank-", 5) && n > 10 &&
		!strcmp(name + n - 5, ".json");
}

taut_status measured_read(const char *folder, struct taut_arena *arena,
	struct measured *ret_measured, struct taut_error *err)
{
	struct gatherer g = { .arena = arena, .err = err,
		.sum = { .memory_bytes = -1 } };
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	taut_status status = TAUT_OK;

	if (!dir)
		return taut_error_set(err, TAUT_EIO, -1,
			"%.300s: cannot be read: %s", folder, strerror(errno));
	while (!status && (entry = readdir(dir)) != NULL) {
		const char *path;

		if (!is_rank(entry->d_name))
			continue;
		path = taut_arena_printf(
			arena, "%s/%s", folder, entry->d_name);
		status = path ? read_file(&g, path) : no_memory(err);
	}
	closedir(dir);
	if (!status)
		status = summarise(&g);
	if (!status)
		*ret_measured = g.sum;
	forget(&g);
	return status;
}

taut_status measured_parse(const char *text, size_t bytes, const char *name,
	struct taut_arena *arena, struct measured *ret_measured,
	struct taut_error *err)
{
	struct gatherer g = { .arena = arena, .err = err,
		.sum = { .memory_bytes = -1 } };
	taut_status status = parse(&g, text, bytes, name);

	if (!status)
		status = summarise(&g);
	if (!status)
		*ret_measured = g.sum;
	forget(&g);
	return status;
}

bool measured_is_better(const struct measured *a, const struct measured *b,
	double share)
{
	double errors = sqrt((double)a->error_ns * (double)a->error_ns +
		(double)b->error_ns * (double)b->error_ns);
	double gain = (double)(b->mean_ns - a->mean_ns);

	return a->n_steps && b->n_steps && gain > 2 * errors &&
		gain >= share * (double)b->mean_ns;
}
