/* kernels.c - see kernels.h. Words of names, ignoring case, as cuDNN, cuBLAS,
 * CUTLASS, Triton, PyTorch, MIOpen and oneDNN give them. */
#include "whatif/kernels.h"

struct word {
	const char *text;
	enum tauti_kernel_class is;
};

static const struct word words[] = { /* the first that is found counts */
	{ "batch_norm", TAUTI_KERNEL_NORM },
	{ "batchnorm", TAUTI_KERNEL_NORM },
	{ "bn_fw", TAUTI_KERNEL_NORM },
	{ "bn_bw", TAUTI_KERNEL_NORM },
	{ "relu", TAUTI_KERNEL_ACTIVATION },
	{ "clamp_min", TAUTI_KERNEL_ACTIVATION },
	{ "clamp_scalar", TAUTI_KERNEL_ACTIVATION },
	{ "threshold", TAUTI_KERNEL_ACTIVATION },
	{ "launch_clamp", TAUTI_KERNEL_ACTIVATION },
	{ "gemm", TAUTI_KERNEL_MATH },
	{ "gemv", TAUTI_KERNEL_MATH },
	{ "conv", TAUTI_KERNEL_MATH },
	{ "scudnn", TAUTI_KERNEL_MATH },
	{ "wgrad", TAUTI_KERNEL_MATH },
	{ "dgrad", TAUTI_KERNEL_MATH },
	{ "winograd", TAUTI_KERNEL_MATH },
	{ "xmma", TAUTI_KERNEL_MATH },
	{ "cutlass", TAUTI_KERNEL_MATH },
	{ "cublas", TAUTI_KERNEL_MATH },
	{ "nvjet", TAUTI_KERNEL_MATH },
	{ "matmul", TAUTI_KERNEL_MATH },
	{ "addmm", TAUTI_KERNEL_MATH },
	{ "::bmm", TAUTI_KERNEL_MATH },
	{ "::mm", TAUTI_KERNEL_MATH },
	{ "flash", TAUTI_KERNEL_MATH },
	{ "fmha", TAUTI_KERNEL_MATH },
	{ "tensile", TAUTI_KERNEL_MATH },
	{ "Cijk_", TAUTI_KERNEL_MATH },
	{ "lstm", TAUTI_KERNEL_MATH },
	{ "elementwise", TAUTI_KERNEL_POINTWISE },
	{ "triton_poi", TAUTI_KERNEL_POINTWISE },
};

enum tauti_kernel_class tauti_kernel_class(const char *name)
{
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcasestr(name, words[i].text))
			return words[i].is;
	return TAUTI_KERNEL_OTHER;
}

bool tauti_kernel_is_half(const char *name)
{
	static const char *const half[] = { "bf16", "fp16", "f16", "half",
		"bfloat16", "hgemm", "h884", "h1688", "h16816", "s884", "s1688",
		"s16816", "hss", "e4m3", "e5m2" };

	for (size_t i = 0; i < sizeof half / sizeof *half; i++)
		if (strcasestr(name, half[i]))
			return true;
	return false;
}
