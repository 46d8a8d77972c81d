/* learned_own.h - the weights of a network, as its file has them, one behind the other:
 * matrices row by row, a row for each input. */
#ifndef TAUT_PLAN_FUSION_LEARNED_OWN_H
#define TAUT_PLAN_FUSION_LEARNED_OWN_H

#include "plan/fusion/learned.h"

enum { TAUTI_OF_PART = 4, TAUTI_OF_ALL = 3, TAUTI_RELATIONS = 3 };

struct tauti_dense {
	const float *weight, *bias;
};

struct tauti_learned_layer {
	const float *norm1, *norm2; /* gains, then shifts */
	struct tauti_dense qkv, out, up, down;
	const float *relation;      /* by head: self, read, reader */
};

struct tauti_learned {
	struct taut_arena *arena;
	uint32_t n_types, width, heads, inner, n_layers, most_parts;
	const char **types;
	float mean[TAUTI_OF_PART + TAUTI_OF_ALL], scale[TAUTI_OF_PART + TAUTI_OF_ALL];
	const float *type;          /* by type: an embedding */
	struct tauti_dense in;
	struct tauti_learned_layer layers[TAUTI_LEARNED_LAYERS];
	struct tauti_dense head[3];
};

#endif /* TAUT_PLAN_FUSION_LEARNED_OWN_H */
