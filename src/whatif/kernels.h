/* kernels.h - what bounds an operation, by its name. */
#ifndef TAUT_WHATIF_KERNELS_H
#define TAUT_WHATIF_KERNELS_H

#include "whatif/compute.h"

enum tauti_kernel_class {
	TAUTI_KERNEL_OTHER,     /* memory-bound, for all that is known */
	TAUTI_KERNEL_MATH,      /* matrix products, convolutions, attention */
	TAUTI_KERNEL_POINTWISE, /* one pass over its operands */
	TAUTI_KERNEL_ACTIVATION, /* pointwise too: ReLU and its gradient */
	TAUTI_KERNEL_NORM,      /* batch normalisation */
};
enum tauti_kernel_class tauti_kernel_class(const char *name);
/* In what it multiplies, or else moves. */
enum tauti_arithmetic {
	TAUTI_IN_SINGLE, /* 32 bits, without tensor cores, for all that is known */
	TAUTI_IN_TF32,   /* 32 bits in memory, rounded for tensor cores */
	TAUTI_IN_HALF,   /* 16 bits, or 8 */
};
enum tauti_arithmetic tauti_kernel_arithmetic(const char *name);
/* Of class MATH: attention as one kernel. */
bool tauti_kernel_is_attention(const char *name);

/* All that a name says. */
struct tauti_kernel {
	bool is_known;
	bool is_attention;
	bool is_softmax;
	bool is_norm; /* of layers, groups or root mean squares */
	enum tauti_kernel_class class;
	enum tauti_arithmetic arithmetic;
};
/* By the number of a name of the graph: each text is read once for a prediction. */
struct tauti_kernel tauti_kernel_of(const struct tauti_whatif *w, uint32_t name);

#endif /* TAUT_WHATIF_KERNELS_H */
