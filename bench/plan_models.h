/* plan_models.h - training steps of published models, operator by operator, from their
 * architectures: what plan_search.c searches.
 *
 * An operator takes max(flops / rate, bytes * byte_ns) + launch_ns. The backward pass
 * is made from the forward pass: what a tensor's readers send back is added up, each
 * weight is a gradient of its own, and its update stands behind it at the end. */
#ifndef TAUT_BENCH_PLAN_MODELS_H
#define TAUT_BENCH_PLAN_MODELS_H

#include <plan/fusion/made_step.h>

struct plan_rates {
	double conv_tflops;     /* that a convolution gets */
	double winograd_tflops; /* of 3 x 3, stride 1, counted as if it were direct */
	double gemm_tflops;
	double point_tflops;    /* of operators that memory bounds */
	double memory_gbs;
	double launch_us;
};
extern const struct plan_rates plan_v100;

struct plan_model {
	const char *name;
	struct made_step *(*make)(const struct plan_rates *rates, uint32_t batch);
};
extern const struct plan_model plan_models[]; /* name NULL: the end */

/* Made of it: what the step sends as gradients. */
double plan_gradient_bytes(const struct made_step *step);

#endif /* TAUT_BENCH_PLAN_MODELS_H */
