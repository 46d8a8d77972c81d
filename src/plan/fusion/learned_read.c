/* learned_read.c - a network out of the JSON that bench/fused/train.py writes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/fusion/learned_own.h"
#include "trace/tree.h"

enum { MOST_BYTES = 16 << 20, FORM = 1 };

struct reader {
	const char *name;
	struct taut_arena *arena;
	struct tauti_learned *net;
	struct taut_error *err;
};

static taut_status wrong(
	const struct reader *r, const char *place, const char *expected)
{
	return taut_error_set(r->err, TAUT_EFORMAT, -1,
		"%.300s: %s: expected %.300s", r->name, place, expected);
}

static taut_status take_size(const struct reader *r, const struct tauti_value *dict,
	const char *key, uint32_t most, uint32_t *ret)
{
	const struct tauti_value *value = tauti_tree_get(dict, key);
	char expected[64];

	if (tauti_tree_is_whole(value) && value->integer >= 1 &&
		value->integer <= most) {
		*ret = (uint32_t)value->integer;
		return TAUT_OK;
	}
	snprintf(expected, sizeof expected, "a whole number from 1 to %" PRIu32,
		most);
	return wrong(r, key, expected);
}

/* n numbers that a float has; of a list of so many. */
static taut_status take_floats(const struct reader *r,
	const struct tauti_value *dict, const char *key, uint32_t n, float *ret)
{
	const struct tauti_value *list = tauti_tree_get(dict, key);
	char expected[64];

	snprintf(expected, sizeof expected, "a list of %" PRIu32 " numbers", n);
	if (!list || list->kind != TAUTI_VALUE_LIST || list->count != n)
		return wrong(r, key, expected);
	for (uint32_t i = 0; i < n; i++) {
		const struct tauti_value *item = list->items[i];

		if ((item->kind != TAUTI_VALUE_INT &&
			item->kind != TAUTI_VALUE_DOUBLE) ||
			!(fabs(item->number) < 1e30))
			return wrong(r, key, expected);
		ret[i] = (float)item->number;
	}
	return TAUT_OK;
}

static taut_status take_types(const struct reader *r,
	const struct tauti_value *list)
{
	struct tauti_learned *net = r->net;

	if (!list || list->kind != TAUTI_VALUE_LIST || !list->count ||
		list->count > TAUTI_LEARNED_TYPES)
		return wrong(r, "types", "a list of 1 to 256 names");
	net->types = TAUT_ARENA_ARRAY(r->arena, const char *, list->count);
	if (!net->types)
		return TAUT_ENOMEM;
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->items[i]->kind != TAUTI_VALUE_TEXT)
			return wrong(r, "types", "a list of 1 to 256 names");
		net->types[i] = list->items[i]->text;
	}
	net->n_types = list->count;
	return TAUT_OK;
}

static taut_status take_sizes(const struct reader *r,
	const struct tauti_value *dict)
{
	struct tauti_learned *net = r->net;
	const uint32_t n = TAUTI_OF_PART + TAUTI_OF_ALL;
	taut_status status = take_size(r, dict, "width", TAUTI_LEARNED_WIDTH,
		&net->width);

	if (!status)
		status = take_size(r, dict, "heads", TAUTI_LEARNED_HEADS, &net->heads);
	if (!status)
		status = take_size(r, dict, "inner", TAUTI_LEARNED_INNER, &net->inner);
	if (!status)
		status = take_size(r, dict, "layers", TAUTI_LEARNED_LAYERS,
			&net->n_layers);
	if (!status)
		status = take_size(r, dict, "parts", TAUTI_LEARNED_PARTS,
			&net->most_parts);
	if (!status && net->width % net->heads)
		status = wrong(r, "heads", "a divisor of width");
	if (!status)
		status = take_floats(r, dict, "mean", n, net->mean);
	if (!status)
		status = take_floats(r, dict, "scale", n, net->scale);
	for (uint32_t i = 0; !status && i < n; i++)
		if (!(net->scale[i] > 1e-6f))
			status = wrong(r, "scale", "numbers above 0");
	return status;
}

/* --- weights: where each lies ------------------------------------------------------ */

static const float *next(const float **at, size_t n)
{
	const float *here = *at;

	if (here)
		*at += n;
	return here;
}

static struct tauti_dense next_dense(
	const float **at, uint32_t n_in, uint32_t n_out, size_t *n)
{
	struct tauti_dense d;

	*n += (size_t)n_in * n_out + n_out;
	d.weight = next(at, (size_t)n_in * n_out);
	d.bias = next(at, n_out);
	return d;
}

static const float *next_row(const float **at, size_t count, size_t *n)
{
	*n += count;
	return next(at, count);
}

/* Points into the weights; of NULL: tells only how many there are. */
static size_t place_weights(struct tauti_learned *net, const float *at)
{
	uint32_t width = net->width, inner = net->inner;
	size_t n = 0;

	net->type = next_row(&at, (size_t)net->n_types * width, &n);
	net->in = next_dense(&at, TAUTI_OF_PART, width, &n);
	for (uint32_t i = 0; i < net->n_layers; i++) {
		struct tauti_learned_layer *l = &net->layers[i];

		l->norm1 = next_row(&at, 2 * (size_t)width, &n);
		l->qkv = next_dense(&at, width, 3 * width, &n);
		l->relation = next_row(&at, net->heads * TAUTI_RELATIONS, &n);
		l->out = next_dense(&at, width, width, &n);
		l->norm2 = next_row(&at, 2 * (size_t)width, &n);
		l->up = next_dense(&at, width, inner, &n);
		l->down = next_dense(&at, inner, width, &n);
	}
	net->head[0] = next_dense(&at, width + TAUTI_OF_ALL, inner, &n);
	net->head[1] = next_dense(&at, inner, inner, &n);
	net->head[2] = next_dense(&at, inner, 1, &n);
	return n;
}

static taut_status take_network(const struct reader *r,
	const struct tauti_value *dict)
{
	uint32_t form;
	float *weights;
	size_t n;
	taut_status status;

	if (!dict || dict->kind != TAUTI_VALUE_DICT)
		return wrong(r, "1", "a network of fused operators, which is one "
			"JSON object");
	status = take_size(r, dict, "taut_fused", FORM, &form);
	if (!status)
		status = take_types(r, tauti_tree_get(dict, "types"));
	if (!status)
		status = take_sizes(r, dict);
	if (status)
		return status;
	n = place_weights(r->net, NULL);
	weights = TAUT_ARENA_ARRAY(r->arena, float, n);
	if (!weights)
		return TAUT_ENOMEM;
	place_weights(r->net, weights);
	return take_floats(r, dict, "weights", (uint32_t)n, weights);
}

taut_status tauti_learned_parse(const char *text, size_t bytes, const char *name,
	struct tauti_learned **ret_net, struct taut_error *err)
{
	struct taut_arena *arena = taut_arena_create();
	struct tauti_learned *net = arena ?
		TAUT_ARENA_ARRAY(arena, struct tauti_learned, 1) : NULL;
	struct reader r = { .name = name, .arena = arena, .net = net, .err = err };
	struct tauti_value *tree = NULL;
	taut_status status = TAUT_ENOMEM;

	if (net)
		status = tauti_tree_json(name, text, bytes, "a network of fused "
			"operators, which is one JSON object", arena, &tree, err);
	if (!status)
		status = take_network(&r, tree);
	if (status) {
		taut_arena_destroy(arena);
		return status == TAUT_ENOMEM ? taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for a network of fused operators") : status;
	}
	net->arena = arena;
	*ret_net = net;
	return TAUT_OK;
}

taut_status tauti_learned_read(const char *path, struct tauti_learned **ret_net,
	struct taut_error *err)
{
	char *text;
	size_t bytes;
	taut_status status = tauti_tree_text_of(path, MOST_BYTES,
		"a network of fused operators", &text, &bytes, err);

	if (status)
		return status;
	status = tauti_learned_parse(text, bytes, path, ret_net, err);
	free(text);
	return status;
}
