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
	/* What stands beside a product: sums of its parts, and a start. */
	{ "splitKreduce", TAUTI_KERNEL_OTHER },
	{ "ReduceSplitK", TAUTI_KERNEL_OTHER },
	{ "init_device_workspace", TAUTI_KERNEL_OTHER },
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
	{ "sdpa", TAUTI_KERNEL_MATH },
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

static bool has_any(const char *name, const char *const *any, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcasestr(name, any[i]))
			return true;
	return false;
}
#define HAS_ANY(name, any) has_any(name, any, sizeof any / sizeof *any)

/* cuBLAS's newer kernels: nvjet_sm90_tst_..., nvjet_hsh_..., of each letter the
 * type of an operand: s single (which they round to TF32), t bfloat16, h half,
 * q 8 bits. */
static enum tauti_arithmetic arithmetic_of_nvjet(const char *rest)
{
	if (!strncasecmp(rest, "_sm", 3))
		rest = rest + 3 + strcspn(rest + 3, "_");
	return rest[0] == '_' && (rest[1] == 's' || rest[1] == 'S') ?
		TAUTI_IN_TF32 : TAUTI_IN_HALF;
}

enum tauti_arithmetic tauti_kernel_arithmetic(const char *name)
{
	static const char *const half[] = { "bf16", "fp16", "f16", "half",
		"bfloat16", "hgemm", "h884", "h1688", "h16816", "s884",
		"s16816", "hss", "e4m3", "e5m2", "flash", "16bits" };
	static const char *const tf32[] = { "tf32", "tfloat32",
		"tensorop_s1688" };
	const char *nvjet = strcasestr(name, "nvjet");

	if (nvjet)
		return arithmetic_of_nvjet(nvjet + 5);
	if (HAS_ANY(name, half))
		return TAUTI_IN_HALF;
	if (HAS_ANY(name, tf32))
		return TAUTI_IN_TF32;
	return strcasestr(name, "s1688") ? TAUTI_IN_HALF : TAUTI_IN_SINGLE;
}

bool tauti_kernel_is_attention(const char *name)
{
	static const char *const names[] = { "fmha", "flash", "sdpa",
		"attention" };

	return HAS_ANY(name, names);
}

static struct tauti_kernel read_name(const char *name)
{
	static const char *const norms[] = { "layer_norm", "group_norm", "rms_norm" };

	return (struct tauti_kernel){ .is_known = true,
		.is_attention = tauti_kernel_is_attention(name),
		.is_softmax = strcasestr(name, "softmax") != NULL,
		.is_norm = HAS_ANY(name, norms),
		.class = tauti_kernel_class(name),
		.arithmetic = tauti_kernel_arithmetic(name) };
}

struct tauti_kernel tauti_kernel_of(const struct tauti_whatif *w, uint32_t name)
{
	const char *text = taut_names_text(w->graph->names, name);

	if (!w->kernels || name >= taut_names_count(w->graph->names))
		return read_name(text);
	if (!w->kernels[name].is_known)
		w->kernels[name] = read_name(text);
	return w->kernels[name];
}
