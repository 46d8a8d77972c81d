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

typedef TAUT_VEC(int64_t) times;

struct gatherer {
	struct taut_arena *arena;
	struct measured sum;
	times steps;
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

		if (v->kind != TAUTI_VALUE_INT || v->integer < 0)
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

static taut_status take_rank(struct gatherer *g, const char *name,
	const struct tauti_value *rank)
{
	int64_t memory = tauti_tree_int(
		tauti_tree_get(rank, "peak_memory_bytes"), -1);
	taut_status status;

	if (!rank || rank->kind != TAUTI_VALUE_DICT)
		return wrong(g, name, "a JSON object");
	status = take_steps(g, name, tauti_tree_get(rank, "step_ns"));
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

/* 1.2533 s / sqrt(n) is the standard error of the median of n normal numbers, s
 * 1.4826 times the median distance from it. Steps of ranks that wait for each
 * other are one and the same: n is that of one rank. */
static taut_status summarise(struct gatherer *g)
{
	times far = { 0 };
	double n = g->sum.n_ranks ?
		(double)g->steps.count / g->sum.n_ranks : 0;

	g->sum.n_steps = (uint32_t)g->steps.count;
	g->sum.step_ns = median(&g->steps);
	for (size_t i = 0; i < g->steps.count; i++)
		if (!taut_vec_push(&far, (int64_t)llabs(
			g->steps.data[i] - g->sum.step_ns))) {
			taut_vec_free(&far);
			return no_memory(g->err);
		}
	g->sum.error_ns = n >= 1 ? (int64_t)(1.2533 * 1.4826 *
		(double)median(&far) / sqrt(n)) : 0;
	taut_vec_free(&far);
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
	double gain = (double)(b->step_ns - a->step_ns);

	return a->n_steps && b->n_steps && gain > 2 * errors &&
		gain >= share * (double)b->step_ns;
}
