/* gpu_rate.c - what the pointer cache costs, in ns a look; and, where a device is, what
 * its kernels reach of its copy bandwidth.
 * usage: gpu_rate [MEBIBYTES]    of each buffer, default 256
 *
 * Bytes that are read and written count: a copy moves 2 S, a sum of n sources
 * (n + 1) S. The clock is the host's, over ten in a row. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "gpu/gpu.h"

enum { LOOKS = 2000000, TURNS = 7, IN_A_ROW = 10, SOURCES = 4,
	WARM_NS = 500000000 };

static volatile uint64_t sink;

/* --- the cache ----------------------------------------------------------------------------*/

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double look_ns(const struct tauti_gpu_cache *cache, uint32_t n)
{
	struct tauti_gpu_range range;
	double ns[TURNS];

	for (int turn = 0; turn < TURNS; turn++) {
		int64_t begin_ns = tauti_now_ns();

		for (uint32_t i = 0; i < LOOKS; i++) {
			uint64_t at = (uint64_t)(i * 2654435761u % n) << 20;

			sink += tauti_gpu_cache_find(cache, at + 77, &range);
		}
		ns[turn] = (double)(tauti_now_ns() - begin_ns) / LOOKS;
	}
	qsort(ns, TURNS, sizeof *ns, by_size);
	return ns[TURNS / 2];
}

static void cache_rate(void)
{
	static const uint32_t sizes[] = { 1, 16, 128, TAUTI_GPU_CACHE_RANGES };
	static struct tauti_gpu_cache cache;

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		tauti_gpu_cache_init(&cache);
		for (uint64_t k = 0; k < sizes[i]; k++) {
			struct tauti_gpu_range range = {
				k << 20, (k + 1) << 20, k + 1, 0, 0 };

			tauti_gpu_cache_keep(&cache, &range);
		}
		printf("look among %u ranges: %.1f ns\n", sizes[i],
			look_ns(&cache, sizes[i]));
		tauti_gpu_cache_finish(&cache);
	}
}

/* --- a device -----------------------------------------------------------------------------*/

static struct tauti_gpu *gpu;
static tauti_gpu_context context;

static void say_name(void *library)
{
	unsigned (*name_of)(char *name, int bytes, int device) = NULL;
	void *found = dlsym(library, "cuDeviceGetName");
	char name[128] = "";

	memcpy(&name_of, &found, sizeof found);
	if (found && !name_of(name, sizeof name, 0))
		printf("device: %s\n", name);
}

static bool open_device(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	unsigned (*init)(unsigned flags) = NULL;
	void *found = library ? dlsym(library, "cuInit") : NULL;

	memcpy(&init, &found, sizeof found);
	if (!found || init(0))
		return false;
	say_name(library);
	return !tauti_gpu_create(&gpu, NULL) &&
		!gpu->driver.primary_retain(&context, 0) &&
		!gpu->driver.context_push(context);
}

static void hit_rate(tauti_gpu_address at)
{
	struct tauti_gpu_place place;
	void *heap = malloc(64);
	int64_t begin_ns;

	for (int kind = 0; kind < 2; kind++) {
		const void *asked = kind ? heap : (void *)(uintptr_t)at;

		begin_ns = tauti_now_ns();
		for (int i = 0; i < LOOKS / 10; i++)
			sink += (uint64_t)tauti_gpu_find(
				gpu, asked, &place, NULL);
		printf("%s, the driver's question with it: %.0f ns\n",
			kind ? "memory of the host" : "hit",
			(double)(tauti_now_ns() - begin_ns) / (LOOKS / 10));
	}
	free(heap);
}

/* Seconds of IN_A_ROW, the median. */
static double seconds_of(struct tauti_gpu_kernels *kernels,
	struct tauti_gpu_side *side, enum taut_type type,
	const tauti_gpu_address *at, uint32_t n, size_t bytes)
{
	const void *from[SOURCES];
	double s[TURNS];
	struct tauti_gpu_copy copy;
	bool over;

	for (uint32_t i = 0; i < n; i++)
		from[i] = (void *)(uintptr_t)at[i];
	for (int turn = 0; turn < TURNS; turn++) {
		int64_t begin_ns = tauti_now_ns();

		for (int i = 0; i < IN_A_ROW; i++)
			if (n == 1 ? tauti_gpu_copy_add(side, TAUTI_GPU_ACROSS,
				(void *)(uintptr_t)at[SOURCES], from[0], bytes,
				NULL) : tauti_gpu_reduce_add(kernels, type,
				TAUT_SUM, (void *)(uintptr_t)at[SOURCES], from, n,
				bytes / tauti_gpu_type_bytes(type), NULL))
				return -1;
		if (tauti_gpu_copy_mark(side, &copy, NULL))
			return -1;
		for (over = false; !over;)
			(void)!tauti_gpu_copy_test(&copy, &over, NULL);
		s[turn] = (double)(tauti_now_ns() - begin_ns) / 1e9;
	}
	qsort(s, TURNS, sizeof *s, by_size);
	return s[TURNS / 2];
}

/* GB/s, read and written. */
static double copy_rate(struct tauti_gpu_side *side,
	const tauti_gpu_address *at, size_t bytes)
{
	return 2.0 * (double)bytes * IN_A_ROW / seconds_of(
		NULL, side, TAUT_INT8, at, 1, bytes) / 1e9;
}

/* An idle device has a slow clock. */
static void warm_up(struct tauti_gpu_side *side, const tauti_gpu_address *at,
	size_t bytes)
{
	const int64_t until_ns = tauti_now_ns() + WARM_NS;

	while (tauti_now_ns() < until_ns)
		(void)copy_rate(side, at, bytes);
}

static int kernel_rate(struct tauti_gpu_side *side,
	const tauti_gpu_address *at, size_t bytes, double copied)
{
	static const struct {
		enum taut_type type;
		const char *name;
	} types[] = { { TAUT_FLOAT32, "float32" }, { TAUT_FLOAT64, "float64" },
		{ TAUT_FLOAT16, "float16" }, { TAUT_BFLOAT16, "bfloat16" },
		{ TAUT_INT8, "int8" } };
	struct tauti_gpu_kernels *kernels;
	struct taut_error err;
	double rate, least = 0;

	if (tauti_gpu_kernels_create(gpu, context, &kernels, &err)) {
		fprintf(stderr, "gpu_rate: %s\n", err.message);
		return 1;
	}
	for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
		for (uint32_t n = 2; n <= SOURCES; n += 2) {
			rate = (n + 1.0) * (double)bytes * IN_A_ROW / seconds_of(
				kernels, side, types[t].type, at, n, bytes) / 1e9;
			printf("sum of %u, %s: %.0f GB/s, %.0f %% of a copy's\n",
				n, types[t].name, rate, 100 * rate / copied);
			least = least == 0 || rate < least ? rate : least;
		}
	printf("the slowest of these: %.0f %% of a copy's\n",
		100 * least / copied);
	tauti_gpu_kernels_destroy(kernels);
	return 0;
}

static int device_rate(size_t bytes)
{
	tauti_gpu_address at[SOURCES + 1];
	struct tauti_gpu_side *side;
	struct taut_error err;
	double copied;

	if (tauti_gpu_side_of(gpu, context, &side, &err)) {
		fprintf(stderr, "gpu_rate: %s\n", err.message);
		return 1;
	}
	for (int i = 0; i <= SOURCES; i++)
		if (gpu->driver.alloc(&at[i], bytes)) {
			fprintf(stderr, "gpu_rate: no memory for %d times %zu "
				"bytes on the device\n", SOURCES + 1, bytes);
			return 1;
		}
	hit_rate(at[0]);
	warm_up(side, at, bytes);
	copied = copy_rate(side, at, bytes);
	printf("copy: %.0f GB/s\n", copied);
	return kernel_rate(side, at, bytes, copied);
}

int main(int argc, char **argv)
{
	size_t mebibytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 256;

	cache_rate();
	if (open_device())
		return device_rate(mebibytes << 20);
	printf("no device here: nothing of it is measured\n");
	return 0;
}
