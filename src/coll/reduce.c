/* reduce.c - types, reductions, and which kernels this processor runs. */
#include <stdatomic.h>
#if defined __x86_64__
#include <cpuid.h>
#endif

#include "coll/reduce.h"

static const struct {
	const char *name;
	size_t bytes;
	bool is_integer;
} types[TAUT_CARRIED_TYPES] = {
	[TAUT_FLOAT32] = { "float32", 4, false },
	[TAUT_FLOAT64] = { "float64", 8, false },
	[TAUT_FLOAT16] = { "float16", 2, false },
	[TAUT_BFLOAT16] = { "bfloat16", 2, false },
	[TAUT_INT8] = { "int8", 1, true },
	[TAUT_UINT8] = { "uint8", 1, true },
	[TAUT_INT32] = { "int32", 4, true },
	[TAUT_INT64] = { "int64", 8, true },
	[TAUT_UINT64] = { "uint64", 8, true },
	[TAUT_MXINT8] = { "mxint8", 33, false },
};

static const char *const reductions[TAUT_REDUCTIONS] = {
	"sum", "product", "min", "max", "bit_and", "bit_or", "bit_xor",
};

size_t taut_type_bytes(enum taut_type type)
{
	return (unsigned)type < TAUT_CARRIED_TYPES ? types[type].bytes : 0;
}

uint32_t taut_type_numbers(enum taut_type type)
{
	return type == TAUT_MXINT8 ? 32 : 1;
}

uint64_t taut_numbers_bytes(enum taut_type type, uint64_t count)
{
	uint64_t numbers = taut_type_numbers(type);

	return (count + numbers - 1) / numbers * taut_type_bytes(type);
}

const char *taut_type_name(enum taut_type type)
{
	return (unsigned)type < TAUT_CARRIED_TYPES ? types[type].name : "unknown";
}

const char *taut_reduction_name(enum taut_reduction reduction)
{
	return (unsigned)reduction < TAUT_REDUCTIONS ? reductions[reduction] :
		"unknown";
}

bool taut_reduces(enum taut_type type, enum taut_reduction reduction)
{
	if ((unsigned)type >= TAUT_CARRIED_TYPES ||
		(unsigned)reduction >= TAUT_REDUCTIONS)
		return false;
	if (type == TAUT_MXINT8)
		return reduction == TAUT_SUM;
	return reduction < TAUT_BIT_AND || types[type].is_integer;
}

/* --- which kernels ----------------------------------------------------------------------*/

enum { UNKNOWN, PLAIN, AVX2, AVX512 };

#if defined __x86_64__
static const struct tauti_reduce_kernels *const sets[] = {
	&tauti_reduce_plain, &tauti_reduce_avx2, &tauti_reduce_avx512,
};

/* What the processor has and the system keeps at a change of process. */
static int find_level(void)
{
	unsigned a, b, c = 0, d;

	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2") || !__get_cpuid(1, &a, &b, &c, &d) ||
		!(c & bit_F16C))
		return PLAIN;
	if (__builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512vl"))
		return AVX512;
	return AVX2;
}
#else
static const struct tauti_reduce_kernels *const sets[] = {
	&tauti_reduce_plain,
};

static int find_level(void)
{
	return PLAIN;
}
#endif

/* Asked once: in a virtual machine the question alone takes a microsecond. The
 * answer is the same for all threads, so it does not matter who finds it. */
static int level(void)
{
	static atomic_int found = UNKNOWN;
	int now = atomic_load_explicit(&found, memory_order_relaxed);

	if (now == UNKNOWN) {
		now = find_level();
		atomic_store_explicit(&found, now, memory_order_relaxed);
	}
	return now;
}

const struct tauti_reduce_kernels *tauti_reduce_set(size_t i)
{
	return i < (size_t)level() ? sets[i] : NULL;
}

void taut_reduce(enum taut_type type, enum taut_reduction reduction, void *out,
	const void *a, const void *b, size_t count)
{
	sets[level() - PLAIN]->of[type][reduction](out, a, b, count);
}

void taut_narrow(enum taut_type type, void *out, const void *in, size_t count,
	float factor)
{
	sets[level() - PLAIN]->narrow[type](out, in, count, factor);
}

void taut_widen(enum taut_type type, void *out, const void *in, size_t count)
{
	sets[level() - PLAIN]->widen[type](out, in, count);
}
