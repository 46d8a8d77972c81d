/* hooks.c - functions of CUDA that free memory: what is known of it is forgotten, and the
 * real one is called. They see the calls of programs and libraries that are linked with
 * the driver or its run-time; what is freed otherwise is noticed by place.c, which asks
 * the driver for the number of the allocation. */
#include <stdatomic.h>
#include <string.h>

#include "mpi/mpi.h"

/* What these return where there is no real one: cudaErrorUnknown, CUDA_ERROR_UNKNOWN. */
enum { NO_LIBRARY = 999 };

static void forget(uintptr_t at, size_t bytes)
{
	struct tauti_gpu *gpu = atomic_load_explicit(
		&tauti_mpi_form.gpu, memory_order_acquire);

	if (gpu)
		tauti_gpu_forget(gpu, (const void *)at, bytes);
}

static struct tauti_gpu *forget_all(void)
{
	struct tauti_gpu *gpu = atomic_load_explicit(
		&tauti_mpi_form.gpu, memory_order_acquire);

	if (gpu)
		tauti_gpu_forget(gpu, NULL, SIZE_MAX);
	return gpu;
}

/* All memory of a context goes, and what we made in it. */
static void lose(tauti_gpu_context context)
{
	struct tauti_gpu *gpu = forget_all();

	if (gpu)
		tauti_gpu_side_lose(gpu, context);
}

static void lose_primary(int device)
{
	struct tauti_gpu *gpu = forget_all();

	if (gpu)
		tauti_gpu_side_lose_primary(gpu, device);
}

/* Of the device whose context is current. */
static void lose_current(void)
{
	struct tauti_gpu *gpu = forget_all();
	tauti_gpu_context context = NULL;
	int device;

	if (gpu && !gpu->driver.context_current(&context) && context &&
		!gpu->driver.context_device(&device))
		tauti_gpu_side_lose_primary(gpu, device);
}

#define HOOK(name, args, first, ...) \
	TAUT_API unsigned name(__VA_ARGS__); \
	TAUT_API unsigned name(__VA_ARGS__) \
	{ \
		static struct tauti_form_known known[TAUTI_FORM_KNOWN]; \
		unsigned(*next)(__VA_ARGS__); \
		void *found = tauti_form_next( \
			known, #name, __builtin_return_address(0)); \
\
		memcpy(&next, &found, sizeof next); \
		first; \
		return found ? next args : NO_LIBRARY; \
	}

HOOK(cuMemFree_v2, (at), forget(at, 0), uintptr_t at)
HOOK(cuMemFreeAsync, (at, stream), forget(at, 0), uintptr_t at, void *stream)
HOOK(cuMemFreeAsync_ptsz, (at, stream), forget(at, 0), uintptr_t at, void *stream)
HOOK(cuMemUnmap, (at, bytes), forget(at, bytes), uintptr_t at, size_t bytes)
HOOK(cudaFree, (at), forget(at, 0), uintptr_t at)
HOOK(cudaFreeAsync, (at, stream), forget(at, 0), uintptr_t at, void *stream)
HOOK(cudaFreeAsync_ptsz, (at, stream), forget(at, 0), uintptr_t at, void *stream)
HOOK(cuCtxDestroy_v2, (context), lose(context), tauti_gpu_context context)
HOOK(cuDevicePrimaryCtxReset_v2, (device), lose_primary(device), int device)
HOOK(cudaDeviceReset, (), lose_current(), void)
