/* hooks.c - functions of CUDA that free memory: what is known of it is forgotten, and the
 * real one is called. They see the calls of programs and libraries that are linked with
 * the driver or its run-time; what is freed otherwise is noticed by place.c, which asks
 * the driver for the number of the allocation. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "mpi/mpi.h"

/* What these return where there is no real one: cudaErrorUnknown, CUDA_ERROR_UNKNOWN. */
enum { NO_LIBRARY = 999 };

/* What one caller's calls go to. A process may have more than one run-time of CUDA. */
struct known {
	_Atomic uintptr_t caller, found;
};

/* Of what the process has loaded; a caller that names nothing of it itself may have
 * found it by way of the one that opened the caller. */
static void *find_anywhere(const char *name)
{
	static const char *const libraries[] = { "libcuda.so.1",
		"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0" };
	void *found = NULL;

	for (size_t i = 0; !found &&
		i < sizeof libraries / sizeof libraries[0]; i++) {
		void *library = dlopen(
			libraries[i], RTLD_LAZY | RTLD_NOLOAD);

		if (!library)
			continue;
		found = dlsym(library, name);
		dlclose(library);
	}
	return found;
}

/* The function that a caller was linked with: behind us in the order of search, or,
 * where its library was opened for one user alone, among those that it needs. */
static void *find_next(const char *name, void *caller)
{
	void *found = NULL, *library;
	Dl_info it;

	if (dladdr(caller, &it) && it.dli_fname) {
		library = dlopen(it.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
		if (library) {
			found = dlsym(library, name);
			dlclose(library); /* it stays */
		}
	}
	/* The program itself searches everywhere, and finds us. */
	if (found && dladdr(found, &it)) {
		Dl_info me;

		if (dladdr((void *)&tauti_mpi_form, &me) &&
			me.dli_fbase == it.dli_fbase)
			found = NULL;
	}
	if (!found)
		found = dlsym(RTLD_NEXT, name);
	return found ? found : find_anywhere(name);
}

static void *next_of(struct known *known, const char *name, void *caller)
{
	uintptr_t found = atomic_load_explicit(
		&known->found, memory_order_acquire);

	if (found && atomic_load_explicit(&known->caller,
		memory_order_relaxed) == (uintptr_t)caller)
		return (void *)found;
	return find_next(name, caller);
}

/* The first caller is remembered, as it is mostly the only one. */
static void *next_function(struct known *known, const char *name, void *caller)
{
	void *next = next_of(known, name, caller);
	uintptr_t none = 0;

	if (next && atomic_compare_exchange_strong(
		&known->caller, &none, (uintptr_t)caller))
		atomic_store_explicit(&known->found, (uintptr_t)next,
			memory_order_release);
	return next;
}

static void forget(uintptr_t at, size_t bytes)
{
	struct tauti_gpu *gpu = atomic_load_explicit(
		&tauti_mpi_form.gpu, memory_order_acquire);

	if (gpu)
		tauti_gpu_forget(gpu, (const void *)at, bytes);
}

/* All memory of a context goes, and what we made in it. NULL: the current one. */
static void lose(tauti_gpu_context context)
{
	struct tauti_gpu *gpu = atomic_load_explicit(
		&tauti_mpi_form.gpu, memory_order_acquire);

	if (!gpu)
		return;
	tauti_gpu_forget(gpu, NULL, SIZE_MAX);
	if (!context && gpu->driver.context_current(&context))
		return;
	tauti_gpu_side_lose(gpu, context);
}

static void lose_primary(int device)
{
	struct tauti_gpu *gpu = atomic_load_explicit(
		&tauti_mpi_form.gpu, memory_order_acquire);
	tauti_gpu_context context;

	if (!gpu || gpu->driver.primary_retain(&context, device))
		return;
	lose(context);
	gpu->driver.primary_release(device);
}

#define HOOK(name, args, first, ...) \
	TAUT_API unsigned name(__VA_ARGS__); \
	TAUT_API unsigned name(__VA_ARGS__) \
	{ \
		static struct known known; \
		unsigned(*next)(__VA_ARGS__); \
		void *found = next_function( \
			&known, #name, __builtin_return_address(0)); \
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
HOOK(cudaDeviceReset, (), lose(NULL), void)
