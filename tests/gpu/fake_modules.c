/* fake_modules.c - modules and launches of the fake driver: the kernels are those of
 * fake_kernels.cpp. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_inside.h"

static struct CUmod_st *newest;

static bool is_missing(const struct CUmod_st *module)
{
	return module->unloaded || !is_of(module->context, module->context_id);
}

tauti_gpu_result cuModuleLoadData(tauti_gpu_module *made, const void *image)
{
	char wanted[64];

	ENTER;
	snprintf(wanted, sizeof wanted, "fake code for sm_%d%d", MAJOR, MINOR);
	if (!current() || strcmp(image, wanted))
		return left(fault(INVALID_IMAGE));
	*made = calloc(1, sizeof **made);
	(*made)->context = current();
	(*made)->context_id = current()->id;
	(*made)->older = newest;
	newest = *made;
	counts.modules++;
	current()->n_modules++;
	return left(0);
}

tauti_gpu_result cuModuleGetFunction(
	tauti_gpu_function *function, tauti_gpu_module module, const char *name)
{
	Dl_info me;
	void *library;

	ENTER;
	if (is_missing(module) || module->context != current() ||
		!dladdr((void *)&newest, &me))
		return left(fault(TAUTI_GPU_INVALID_CONTEXT));
	library = dlopen(me.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
	*function = library ? dlsym(library, name) : NULL;
	if (library)
		dlclose(library);
	return left(*function ? 0 : NOT_FOUND);
}

tauti_gpu_result cuModuleUnload(tauti_gpu_module module)
{
	ENTER;
	if (is_missing(module))
		return left(fault(TAUTI_GPU_INVALID_HANDLE));
	module->context->n_modules--;
	module->unloaded = true;
	counts.modules--;
	return left(0);
}

tauti_gpu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *at_once,
	tauti_gpu_function function, int threads, size_t shared_bytes)
{
	ENTER;
	if (!function || threads < 1 || shared_bytes)
		return left(fault(TAUTI_GPU_INVALID_VALUE));
	*at_once = BLOCKS_AT_ONCE;
	return left(0);
}

tauti_gpu_result cuLaunchKernel(tauti_gpu_function function, unsigned grid_x,
	unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
	unsigned block_z, unsigned shared_bytes, tauti_gpu_stream stream,
	void **arguments, void **extra)
{
	struct todo todo = { .kind = KERNEL, .function = function,
		.blocks = grid_x, .threads = block_x };

	ENTER;
	if (grid_y * grid_z * block_y * block_z != 1 || shared_bytes || extra ||
		!grid_x || grid_x > PROCESSORS * BLOCKS_AT_ONCE ||
		block_x > 1024)
		return left(fault(TAUTI_GPU_INVALID_VALUE));
	todo.to = touchable((uint64_t)*(uintptr_t *)arguments[0], 1);
	memcpy(&todo.sources, arguments[1], sizeof todo.sources);
	memcpy(&todo.count, arguments[2], sizeof todo.count);
	if (!todo.to || !todo.sources.n || todo.sources.n > SOURCES)
		return left(fault(ILLEGAL_ADDRESS));
	for (unsigned i = 0; i < todo.sources.n; i++) {
		uint64_t at = number(todo.sources.from[i]);

		if (!is_device(at, 1))
			return left(fault(ILLEGAL_ADDRESS));
		todo.sources.from[i] = touchable(at, 1);
	}
	return left(add(stream, todo));
}
