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
	return found ? found : dlsym(RTLD_NEXT, name);
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

#define FREES(name, args, at, bytes, ...) \
	TAUT_API unsigned name(__VA_ARGS__); \
	TAUT_API unsigned name(__VA_ARGS__) \
	{ \
		static struct known known; \
		unsigned(*next)(__VA_ARGS__); \
		void *found = next_function( \
			&known, #name, __builtin_return_address(0)); \
\
		memcpy(&next, &found, sizeof next); \
		forget(at, bytes); \
		return found ? next args : NO_LIBRARY; \
	}

FREES(cuMemFree_v2, (at), at, 0, uintptr_t at)
FREES(cuMemFreeAsync, (at, stream), at, 0, uintptr_t at, void *stream)
FREES(cuMemFreeAsync_ptsz, (at, stream), at, 0, uintptr_t at, void *stream)
FREES(cuMemUnmap, (at, bytes), at, bytes, uintptr_t at, size_t bytes)
FREES(cudaFree, (at), at, 0, uintptr_t at)
FREES(cudaFreeAsync, (at, stream), at, 0, uintptr_t at, void *stream)
FREES(cudaFreeAsync_ptsz, (at, stream), at, 0, uintptr_t at, void *stream)
/* These end contexts, and all memory in them. */
FREES(cuCtxDestroy_v2, (context), 0, SIZE_MAX, void *context)
FREES(cuDevicePrimaryCtxReset_v2, (device), 0, SIZE_MAX, int device)
FREES(cudaDeviceReset, (), 0, SIZE_MAX, void)
