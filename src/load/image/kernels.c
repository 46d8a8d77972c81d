/* kernels.c - which loops over pixels this processor runs. */
#if defined __x86_64__
#include <cpuid.h>
#endif
#include <stdbool.h>

#include "load/image/kernels.h"

#if defined __x86_64__
static bool has_avx2(void)
{
	unsigned a, b, c = 0, d;

	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) &&
		(c & bit_F16C);
}

static bool has_vnni(void)
{
	return has_avx2() && __builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512vl") &&
		__builtin_cpu_supports("avx512vnni");
}

static bool has_vbmi(void)
{
	return has_vnni() && __builtin_cpu_supports("avx512vbmi");
}

const struct tauti_image_kernels *tauti_image_kernels_at(unsigned i)
{
	if (i == 3)
		return has_vbmi() ? &tauti_image_vbmi : NULL;
	if (i == 2)
		return has_vnni() ? &tauti_image_vnni : NULL;
	if (i == 1)
		return has_avx2() ? &tauti_image_avx2 : NULL;
	return i == 0 ? &tauti_image_plain : NULL;
}
#else
const struct tauti_image_kernels *tauti_image_kernels_at(unsigned i)
{
	return i == 0 ? &tauti_image_plain : NULL;
}
#endif

const struct tauti_image_kernels *tauti_image_kernels(void)
{
	const struct tauti_image_kernels *found = NULL;

	for (unsigned i = TAUTI_IMAGE_KERNEL_SETS; i-- > 0 && !found;)
		found = tauti_image_kernels_at(i);
	return found;
}
