/* The text of the kernels, as the host's compiler understands it, against taut_reduce():
 * the same bits for all types, reductions, sizes, places and numbers of sources. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "tests/gpu/fake.h"

extern int fake_nvrtc_fails, fake_nvrtc_compiled;

enum { MOST = 3000, MOST_SOURCES = 19, ROOM = MOST * 8 + 64 };

static struct tauti_gpu *gpu;
static struct tauti_gpu_kernels *kernels;
static tauti_gpu_context own;
static tauti_gpu_address device[MOST_SOURCES], result;
static char host[MOST_SOURCES][ROOM], wanted[ROOM], got[ROOM];

static int set_up(void **state)
{
	struct taut_error err = { .message = "" };

	(void)state;
	assert_false(cuInit(0));
	assert_false(cuCtxCreate_v2(&own, 0, 0));
	assert_int_equal(tauti_gpu_create(&gpu, NULL), TAUT_OK);
	if (tauti_gpu_kernels_create(gpu, own, &kernels, &err))
		fail_msg("%s", err.message);
	for (int i = 0; i < MOST_SOURCES; i++)
		assert_false(cuMemAlloc_v2(&device[i], ROOM));
	assert_false(cuMemAlloc_v2(&result, ROOM));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < MOST_SOURCES; i++)
		assert_false(cuMemFree_v2(device[i]));
	assert_false(cuMemFree_v2(result));
	tauti_gpu_kernels_destroy(kernels);
	tauti_gpu_destroy(gpu);
	cuCtxDestroy_v2(own);
	assert_int_equal(fake_counts().modules, 0);
	assert_int_equal(fake_counts().streams, 0);
	assert_int_equal(fake_counts().blocks, 0);
	assert_int_equal(fake_counts().faults, 0);
	assert_int_equal(fake_counts().depth, 0);
	return 0;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Any bits, and often those at which floats are hard. */
static void fill(char *data, enum taut_type type, size_t count, uint64_t *random)
{
	static const uint32_t hard[] = { 0, 0x80000000, 0x7f800000, 0xff800000,
		0x7fc00000, 0xffc12345, 1, 0x80000001, 0x7f7fffff };
	size_t bytes = taut_type_bytes(type);
	uint64_t r;

	for (size_t i = 0; i < count; i++) {
		r = next_random(random);
		if (r % 5 == 0) {
			uint64_t high = hard[(r >> 8) % 9];

			r = bytes == 8 ? high << 32 : bytes == 2 &&
				type == TAUT_BFLOAT16 ? high >> 16 : high;
			if (type == TAUT_FLOAT16)
				r = (high >> 16 & 0x8000) | ((high >> 13) & 0x7fff);
		}
		memcpy(data + i * bytes, &r, bytes);
	}
}

static void *at(tauti_gpu_address address)
{
	return (void *)(uintptr_t)address;
}

/* past: bytes behind a boundary of 16, of all; odd: one source lies otherwise. */
static void one_case(enum taut_type type, enum taut_reduction reduction, uint32_t n,
	size_t count, size_t past, bool odd, bool in_place)
{
	size_t bytes = count * taut_type_bytes(type);
	const void *sources[MOST_SOURCES];
	uint64_t random = 1 + count * 977 + n * 31 + (uint64_t)reduction;
	struct taut_error err = { .message = "" };
	tauti_gpu_address out = in_place ? device[0] : result;

	for (uint32_t i = 0; i < n; i++) {
		size_t to = past + (odd && i == n - 1 ? 8 : 0);

		fill(host[i], type, count, &random);
		if (bytes)
			assert_false(cuMemcpyHtoD_v2(
				device[i] + to, host[i], bytes));
		sources[i] = at(device[i] + to);
	}
	memcpy(wanted, host[0], bytes);
	for (uint32_t i = 1; i < n; i++)
		taut_reduce(type, reduction, wanted, wanted, host[i], count);
	if (n == 1 && in_place)
		return;
	if (tauti_gpu_reduce_add(kernels, type, reduction, at(out + past),
		sources, n, count, &err))
		fail_msg("%s", err.message);
	if (!bytes)
		return;
	assert_false(cuMemcpyDtoH_v2(got, out + past, bytes));
	if (n == 1) /* a copy: not a NaN is touched */
		assert_memory_equal(got, host[0], bytes);
	else
		assert_memory_equal(got, wanted, bytes);
}

static void all_kinds(void **state)
{
	static const uint32_t sources[] = { 2, 3, 8, 9, 15, 16, 19 };

	(void)state;
	for (int t = 0; t < TAUT_TYPES; t++)
		for (int r = 0; r < TAUT_REDUCTIONS; r++) {
			if (!taut_reduces((enum taut_type)t,
				(enum taut_reduction)r))
				continue;
			for (size_t i = 0; i < 7; i++)
				one_case((enum taut_type)t,
					(enum taut_reduction)r, sources[i], 101,
					0, false, i % 2);
			one_case((enum taut_type)t, (enum taut_reduction)r, 4,
				MOST, 0, false, false);
		}
}

static void all_places(void **state)
{
	static const enum taut_type types[] = { TAUT_FLOAT32, TAUT_INT8,
		TAUT_FLOAT16, TAUT_INT64 };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		size_t bytes = taut_type_bytes(types[i]);

		for (size_t past = 0; past < 16; past += bytes)
			for (size_t count = 0; count < 40; count += 3) {
				one_case(types[i], TAUT_SUM, 3, count, past,
					false, false);
				one_case(types[i], TAUT_MAX, 3, count, past,
					true, false);
			}
	}
	one_case(TAUT_FLOAT32, TAUT_SUM, 1, 50, 4, false, false);
}

/* Nothing is written beside. */
static void neighbours_stay(void **state)
{
	const void *sources[2] = { at(device[0] + 4), at(device[1] + 4) };
	char mark[256];

	(void)state;
	memset(mark, 0x5a, sizeof mark);
	for (size_t count = 1; count < 40; count++) {
		assert_false(cuMemcpyHtoD_v2(result, mark, sizeof mark));
		assert_int_equal(tauti_gpu_reduce_add(kernels, TAUT_INT32,
			TAUT_SUM, at(result + 4), sources, 2, count, NULL),
			TAUT_OK);
		assert_false(cuMemcpyDtoH_v2(got, result, sizeof mark));
		assert_memory_equal(got, mark, 4);
		assert_memory_equal(got + 4 + 4 * count, mark,
			sizeof mark - 4 - 4 * count);
	}
}

static void names_are_those_of_the_collectives(void **state)
{
	char name[TAUTI_GPU_NAME_BYTES], wanted_name[64];

	(void)state;
	for (int t = 0; t < TAUT_TYPES; t++) {
		assert_int_equal(tauti_gpu_type_bytes((enum taut_type)t),
			taut_type_bytes((enum taut_type)t));
		for (int r = 0; r < TAUT_REDUCTIONS; r++) {
			bool is = taut_reduces((enum taut_type)t,
				(enum taut_reduction)r);

			assert_int_equal(tauti_gpu_kernel_name(
				(enum taut_type)t, (enum taut_reduction)r,
				name), is);
			snprintf(wanted_name, sizeof wanted_name, "taut_%s_%s",
				taut_reduction_name((enum taut_reduction)r),
				taut_type_name((enum taut_type)t));
			if (is)
				assert_string_equal(name, wanted_name);
		}
	}
	assert_int_equal(tauti_gpu_reduce_add(kernels, TAUT_FLOAT32,
		TAUT_BIT_OR, at(result), NULL, 2, 5, NULL), TAUT_EINVAL);
}

static void kernels_are_compiled_once(void **state)
{
	struct tauti_gpu_kernels *again = NULL;
	struct taut_error err = { .message = "" };

	(void)state;
	for (int i = 0; i < 3; i++) {
		if (tauti_gpu_kernels_create(gpu, own, &again, &err))
			fail_msg("%s", err.message);
		tauti_gpu_kernels_destroy(again);
	}
	assert_int_equal(fake_nvrtc_compiled, fake_is_there() ? 1 : 0);
}

static void no_compiler_is_told(void **state)
{
	struct tauti_gpu_kernels *none = NULL;
	struct tauti_gpu *other; /* that has not compiled */
	struct taut_error err;

	(void)state;
	if (!fake_is_there())
		skip();
	assert_int_equal(tauti_gpu_create(&other, NULL), TAUT_OK);
	fake_nvrtc_fails = 1;
	assert_int_equal(tauti_gpu_kernels_create(other, own, &none, &err),
		TAUT_EIO);
	assert_string_equal(err.message, "NVRTC does not compile for sm_90");
	fake_nvrtc_fails = 0;
	setenv("TAUT_NVRTC", "/nowhere/libnvrtc.so", 1);
	assert_int_equal(tauti_gpu_kernels_create(other, own, &none, &err),
		TAUT_EIO);
	assert_non_null(strstr(err.message, "no NVRTC: expected"));
	unsetenv("TAUT_NVRTC");
	tauti_gpu_destroy(other);
	fake_fail("cuModuleLoadData", 1, 200);
	assert_int_equal(tauti_gpu_kernels_create(gpu, own, &none, &err),
		TAUT_EIO);
	fake_fail("cuLaunchKernel", 1, 700);
	assert_int_equal(tauti_gpu_reduce_add(kernels, TAUT_INT32, TAUT_SUM,
		at(result), (const void *[]){ at(device[0]), at(device[1]) }, 2,
		5, &err), TAUT_EIO);
	fake_fail(NULL, 0, 0);
	assert_null(none);
}

/* Of more sources than one launch takes: the first is over when the second failed, for
 * what it reads is let go of. */
static void a_launch_that_fails_leaves_none_under_way(void **state)
{
	enum { MANY = 2 * TAUTI_GPU_SOURCES };
	const void *sources[MANY];
	int before = fake_counts().launches;

	(void)state;
	if (!fake_is_there())
		skip();
	for (int i = 0; i < MANY; i++)
		sources[i] = at(device[i]);
	fake_fail("cuLaunchKernel", 2, 700);
	assert_int_equal(tauti_gpu_reduce_add(kernels, TAUT_INT32, TAUT_SUM,
		at(result), sources, MANY, 5, NULL), TAUT_EIO);
	fake_fail(NULL, 0, 0);
	assert_int_equal(fake_counts().launches, before + 1);
}

/* In one that is at its place afterwards there are no kernels of ours. */
static void kernels_go_with_their_context(void **state)
{
	struct tauti_gpu_kernels *others = NULL;
	struct taut_error err = { .message = "" };
	const void *sources[2] = { at(device[0]), at(device[1]) };
	tauti_gpu_context primary;

	(void)state;
	assert_false(cuDevicePrimaryCtxRetain(&primary, 0));
	if (tauti_gpu_kernels_create(gpu, primary, &others, &err))
		fail_msg("%s", err.message);
	assert_int_equal(tauti_gpu_reduce_add(others, TAUT_INT32, TAUT_SUM,
		at(result), sources, 2, 5, &err), TAUT_OK);
	assert_false(cuDevicePrimaryCtxReset_v2(0));
	assert_false(cuDevicePrimaryCtxRetain(&primary, 0));
	assert_int_equal(tauti_gpu_reduce_add(others, TAUT_INT32, TAUT_SUM,
		at(result), sources, 2, 5, &err), TAUT_EIO);
	tauti_gpu_kernels_destroy(others);
	assert_int_equal(fake_counts().modules, fake_is_there() ? 1 : 0);
	assert_false(cuDevicePrimaryCtxRelease_v2(0));
	assert_false(cuDevicePrimaryCtxRelease_v2(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kinds),
		cmocka_unit_test(all_places),
		cmocka_unit_test(neighbours_stay),
		cmocka_unit_test(names_are_those_of_the_collectives),
		cmocka_unit_test(kernels_are_compiled_once),
		cmocka_unit_test(no_compiler_is_told),
		cmocka_unit_test(a_launch_that_fails_leaves_none_under_way),
		cmocka_unit_test(kernels_go_with_their_context),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
