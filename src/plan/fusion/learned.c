/* learned.c - the network's forward pass. */
#include <math.h>
#include <string.h>

#include "plan/fusion/learned_own.h"

enum {
	PARTS = TAUTI_LEARNED_PARTS,
	WIDTH = TAUTI_LEARNED_WIDTH,
	INNER = TAUTI_LEARNED_INNER,
};

enum relation { SELF, READ, READER, APART };

struct pass {
	const struct tauti_learned *net;
	uint32_t n; /* parts */
	uint8_t relation[PARTS][PARTS]; /* what [j] is to [i] */
	float x[PARTS][WIDTH], normed[WIDTH], qkv[PARTS][3 * WIDTH];
	float mixed[WIDTH], inner[INNER];
};

uint32_t tauti_learned_type(const struct tauti_learned *net, const char *name)
{
	for (uint32_t i = 0; i < net->n_types; i++)
		if (!strcmp(net->types[i], name))
			return i;
	return TAUT_NONE;
}

void tauti_learned_destroy(struct tauti_learned *net)
{
	if (net)
		taut_arena_destroy(net->arena);
}

/* --- layers --------------------------------------------------------------------- */

static float dot(const float *a, const float *b, uint32_t n)
{
	float sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

static void dense(struct tauti_dense d, const float *in, uint32_t n_in,
	float *restrict out, uint32_t n_out)
{
	memcpy(out, d.bias, n_out * sizeof *out);
	for (uint32_t i = 0; i < n_in; i++) {
		const float *row = d.weight + (size_t)i * n_out;

		for (uint32_t k = 0; k < n_out; k++)
			out[k] += in[i] * row[k];
	}
}

static void relu(float *x, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		x[i] = x[i] > 0 ? x[i] : 0;
}

static void norm(const float *gain, const float *x, uint32_t n, float *out)
{
	float mean = 0, square = 0;

	for (uint32_t i = 0; i < n; i++)
		mean += x[i] / (float)n;
	for (uint32_t i = 0; i < n; i++)
		square += (x[i] - mean) * (x[i] - mean) / (float)n;
	for (uint32_t i = 0; i < n; i++)
		out[i] = (x[i] - mean) / sqrtf(square + 1e-5f) * gain[i] +
			gain[n + i];
}

/* What one head of part i takes from its neighbours. */
static void attend(struct pass *p, const struct tauti_learned_layer *layer,
	uint32_t i, uint32_t head)
{
	uint32_t width = p->net->width, depth = width / p->net->heads;
	uint32_t at = head * depth;
	float score[PARTS], most = -INFINITY, sum = 0;

	for (uint32_t j = 0; j < p->n; j++) {
		uint8_t is = p->relation[i][j];

		if (is == APART)
			continue;
		score[j] = dot(p->qkv[i] + at, p->qkv[j] + width + at, depth) /
			sqrtf((float)depth) +
			layer->relation[head * TAUTI_RELATIONS + is];
		most = fmaxf(most, score[j]);
	}
	memset(p->mixed + at, 0, depth * sizeof(float));
	for (uint32_t j = 0; j < p->n; j++) {
		const float *v = p->qkv[j] + 2 * (size_t)width + at;

		if (p->relation[i][j] == APART)
			continue;
		score[j] = expf(score[j] - most);
		sum += score[j];
		for (uint32_t k = 0; k < depth; k++)
			p->mixed[at + k] += score[j] * v[k];
	}
	for (uint32_t k = 0; k < depth; k++)
		p->mixed[at + k] /= sum;
}

static void add(float *to, const float *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] += from[i];
}

static void pass_layer(struct pass *p, const struct tauti_learned_layer *layer)
{
	uint32_t width = p->net->width, inner = p->net->inner;

	for (uint32_t i = 0; i < p->n; i++) {
		norm(layer->norm1, p->x[i], width, p->normed);
		dense(layer->qkv, p->normed, width, p->qkv[i], 3 * width);
	}
	for (uint32_t i = 0; i < p->n; i++) {
		for (uint32_t h = 0; h < p->net->heads; h++)
			attend(p, layer, i, h);
		dense(layer->out, p->mixed, width, p->normed, width);
		add(p->x[i], p->normed, width);
		norm(layer->norm2, p->x[i], width, p->normed);
		dense(layer->up, p->normed, width, p->inner, inner);
		relu(p->inner, inner);
		dense(layer->down, p->inner, inner, p->normed, width);
		add(p->x[i], p->normed, width);
	}
}

/* --- what goes in ------------------------------------------------------------------- */

static float scaled(const struct tauti_learned *net, uint32_t i, double value)
{
	return ((float)log1p(value < 0 ? 0 : value) - net->mean[i]) / net->scale[i];
}

static void enter(struct pass *p, const struct tauti_fused *fused,
	const uint32_t *types)
{
	const struct tauti_learned *net = p->net;

	for (uint32_t i = 0; i < p->n; i++) {
		const struct tauti_fused_part *part = &fused->parts[i];
		float told[TAUTI_OF_PART] = {
			scaled(net, 0, (double)part->dur_ns),
			scaled(net, 1, (double)part->in_bytes),
			scaled(net, 2, (double)part->out_bytes),
			scaled(net, 3, (double)part->saved_bytes) };

		dense(net->in, told, TAUTI_OF_PART, p->x[i], net->width);
		add(p->x[i], net->type + (size_t)types[part->kind] * net->width,
			net->width);
	}
}

static void relate(struct pass *p, const struct tauti_fused *fused)
{
	memset(p->relation, APART, sizeof p->relation);
	for (uint32_t i = 0; i < p->n; i++)
		p->relation[i][i] = SELF;
	for (uint32_t i = 0; i < fused->n_ties; i++) {
		p->relation[fused->ties[i].to][fused->ties[i].from] = READ;
		p->relation[fused->ties[i].from][fused->ties[i].to] = READER;
	}
}

/* log(ns / sum of the parts' times) */
static float leave(struct pass *p, double sum_ns, double moved_bytes)
{
	const struct tauti_learned *net = p->net;
	float all[WIDTH + TAUTI_OF_ALL] = { 0 }, a[INNER], b[INNER], z;

	for (uint32_t i = 0; i < p->n; i++)
		add(all, p->x[i], net->width);
	all[net->width] = scaled(net, TAUTI_OF_PART, sum_ns);
	all[net->width + 1] = scaled(net, TAUTI_OF_PART + 1, moved_bytes);
	all[net->width + 2] = scaled(net, TAUTI_OF_PART + 2, p->n);
	dense(net->head[0], all, net->width + TAUTI_OF_ALL, a, net->inner);
	relu(a, net->inner);
	dense(net->head[1], a, net->inner, b, net->inner);
	relu(b, net->inner);
	dense(net->head[2], b, net->inner, &z, 1);
	return z;
}

static bool is_known(const struct tauti_learned_use *use,
	const struct tauti_fused *fused)
{
	if (fused->n_parts > use->net->most_parts)
		return false;
	for (uint32_t i = 0; i < fused->n_parts; i++)
		if (fused->parts[i].kind >= use->n_kinds ||
			use->types[fused->parts[i].kind] == TAUT_NONE)
			return false;
	return true;
}

int64_t tauti_learned_ns(const void *context, const struct tauti_fused *fused)
{
	const struct tauti_learned_use *use = context;
	struct pass p = { .net = use->net, .n = fused->n_parts };
	double sum = 0, computes = 0, moved = 0, ns;

	if (!is_known(use, fused))
		return tauti_fused_bound_ns(&use->otherwise, fused);
	for (uint32_t i = 0; i < fused->n_parts; i++) {
		const struct tauti_fused_part *part = &fused->parts[i];

		sum += (double)part->dur_ns;
		computes += (double)part->compute_ns;
		moved += (double)part->in_bytes + (double)part->out_bytes -
			(double)part->saved_bytes;
	}
	relate(&p, fused);
	enter(&p, fused, use->types);
	for (uint32_t l = 0; l < use->net->n_layers; l++)
		pass_layer(&p, &use->net->layers[l]);
	ns = sum * exp((double)leave(&p, sum, moved));
	if (!(ns > computes)) /* nor a number of weights that are out of range */
		ns = computes;
	return ns < 0x1p62 ? (int64_t)(ns + 0.5) : INT64_C(1) << 62;
}
