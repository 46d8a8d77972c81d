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
/* Does it compute in 16 bits already? */
bool tauti_kernel_is_half(const char *name);

#endif /* TAUT_WHATIF_KERNELS_H */
