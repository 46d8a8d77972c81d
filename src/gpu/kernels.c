/* kernels.c - reductions on a device: reduce.cu, compiled by NVRTC when they are first
 * asked for on a device of a kind. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"

enum { THREADS = 256, BLOCKS_A_PROCESSOR = 4 };

struct kernel {
	tauti_gpu_function function; /* NULL: not yet */
	unsigned most_blocks; /* that all are under way at once */
};

struct tauti_gpu_kernels {
	struct tauti_gpu *gpu;
	struct tauti_gpu_side *side; /* in whose context they are */
	tauti_gpu_module module;
	unsigned processors;
	struct kernel of[TAUT_TYPES][TAUT_REDUCTIONS];
};

/* --- NVRTC --------------------------------------------------------------------------------*/

typedef struct _nvrtcProgram *nvrtc_program;

#define NVRTC_CALLS(X) \
	X(create, nvrtcCreateProgram, \
		(nvrtc_program *made, const char *text, const char *name, \
			int n_headers, const char *const *headers, \
			const char *const *names)) \
	X(compile, nvrtcCompileProgram, \
		(nvrtc_program program, int n, const char *const *options)) \
	X(code_bytes, nvrtcGetCUBINSize, (nvrtc_program program, size_t *bytes)) \
	X(code, nvrtcGetCUBIN, (nvrtc_program program, char *code)) \
	X(destroy, nvrtcDestroyProgram, (nvrtc_program *program))

struct nvrtc {
#define FIELD(name, symbol, args) unsigned(*name) args;
	NVRTC_CALLS(FIELD)
#undef FIELD
	void *library;
};

static taut_status find_calls(struct nvrtc *it, struct taut_error *reterr)
{
	const struct {
		const char *symbol;
		void *at;
	} all[] = {
#define ROW(field, symbol, args) { #symbol, &it->field },
		NVRTC_CALLS(ROW)
#undef ROW
	};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		void *found = dlsym(it->library, all[i].symbol);

		if (!found)
			return taut_error_set(reterr, TAUT_EIO, -1, "NVRTC: "
				"expected one with %s", all[i].symbol);
		memcpy(all[i].at, &found, sizeof found);
	}
	return TAUT_OK;
}

/* Machine code for devices of this kind, not PTX: a driver that is older than NVRTC
 * takes that, too. */
static taut_status compile(const struct nvrtc *it, nvrtc_program program, int major,
	int minor, char **ret_code, struct taut_error *reterr)
{
	char kind[48];
	const char *options[] = { kind, "--fmad=false" };
	size_t bytes = 0;

	snprintf(kind, sizeof kind, "--gpu-architecture=sm_%d%d", major, minor);
	if (it->compile(program, 2, options) || it->code_bytes(program, &bytes))
		return taut_error_set(reterr, TAUT_EIO, -1,
			"NVRTC does not compile for sm_%d%d", major, minor);
	*ret_code = malloc(bytes + 1);
	if (!*ret_code)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "no memory");
	if (!it->code(program, *ret_code))
		return TAUT_OK;
	free(*ret_code);
	return taut_error_set(reterr, TAUT_EIO, -1, "NVRTC gives no code");
}

static taut_status make_code_by(void *library, int major, int minor,
	char **ret_code, struct taut_error *reterr)
{
	struct nvrtc nvrtc = { .library = library };
	nvrtc_program program = NULL;
	taut_status status = find_calls(&nvrtc, reterr);

	if (!status && nvrtc.create(&program, tauti_gpu_reduce_text,
		"reduce.cu", 0, NULL, NULL))
		status = taut_error_set(reterr, TAUT_EIO, -1,
			"NVRTC makes no program");
	if (!status) {
		status = compile(
			&nvrtc, program, major, minor, ret_code, reterr);
		nvrtc.destroy(&program);
	}
	dlclose(library);
	return status;
}

static void *open_loaded(const char *name)
{
	return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

/* NULL: it is loaded, and so was tried, or is not there. */
static void *open_another(const char *name)
{
	void *library = open_loaded(name);

	if (!library)
		return dlopen(name, RTLD_NOW | RTLD_LOCAL);
	dlclose(library);
	return NULL;
}

/* One may be older than the device. Rather the one that the program has. Why the first
 * that is there does not is told. */
static taut_status make_code(
	int major, int minor, char **ret_code, struct taut_error *reterr)
{
	static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12",
		"libnvrtc.so.11.2", "libnvrtc.so",
		"/usr/local/cuda/lib64/libnvrtc.so" };
	enum { N = sizeof names / sizeof names[0] };
	const char *told = getenv("TAUT_NVRTC");
	taut_status status = TAUT_EIO;
	bool found = false;
	void *library;

	for (size_t i = 0; i < 2 * N && status; i++) {
		if (told && *told)
			library = i ? NULL : dlopen(told, RTLD_NOW | RTLD_LOCAL);
		else
			library = i < N ? open_loaded(names[i]) :
				open_another(names[i - N]);
		if (!library)
			continue;
		status = make_code_by(library, major, minor, ret_code,
			found ? NULL : reterr);
		found = true;
	}
	return status && !found ? taut_error_set(reterr, TAUT_EIO, -1,
		"no NVRTC: expected libnvrtc.so.13, .12 or .11.2, or "
		"TAUT_NVRTC") : status;
}

/* --- what was compiled --------------------------------------------------------------------*/

struct tauti_gpu_code { /* for devices of one kind */
	struct tauti_gpu_code *next;
	int major, minor;
	char *code;
};

static struct tauti_gpu_code *find_code(struct tauti_gpu *gpu, int major, int minor)
{
	struct tauti_gpu_code *at;

	pthread_mutex_lock(&gpu->lock);
	at = gpu->codes;
	while (at && (at->major != major || at->minor != minor))
		at = at->next;
	pthread_mutex_unlock(&gpu->lock);
	return at;
}

/* The lock is not held meanwhile: two threads may compile the same. */
static taut_status add_code(struct tauti_gpu *gpu, int major, int minor,
	struct tauti_gpu_code **ret_code, struct taut_error *reterr)
{
	struct tauti_gpu_code *made = calloc(1, sizeof *made);
	taut_status status;

	if (!made)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "no memory");
	made->major = major;
	made->minor = minor;
	status = make_code(major, minor, &made->code, reterr);
	if (status) {
		free(made);
		return status;
	}
	pthread_mutex_lock(&gpu->lock);
	made->next = gpu->codes;
	gpu->codes = made;
	pthread_mutex_unlock(&gpu->lock);
	*ret_code = made;
	return TAUT_OK;
}

void tauti_gpu_codes_free(struct tauti_gpu *gpu)
{
	while (gpu->codes) {
		struct tauti_gpu_code *code = gpu->codes;

		gpu->codes = code->next;
		free(code->code);
		free(code);
	}
}

/* --- a module -----------------------------------------------------------------------------*/

/* Inside the context. */
static taut_status load_module(
	struct tauti_gpu_kernels *kernels, struct taut_error *reterr)
{
	const struct tauti_gpu_driver *driver = &kernels->gpu->driver;
	int device = 0, major = 0, minor = 0, processors = 0;
	tauti_gpu_result result = driver->context_device(&device);
	struct tauti_gpu_code *code = NULL;
	taut_status status;

	if (!result)
		result = driver->device_attribute(
			&major, TAUTI_GPU_DEVICE_MAJOR, device);
	if (!result)
		result = driver->device_attribute(
			&minor, TAUTI_GPU_DEVICE_MINOR, device);
	if (!result)
		result = driver->device_attribute(
			&processors, TAUTI_GPU_DEVICE_PROCESSORS, device);
	status = tauti_gpu_check(
		driver, result, "cuDeviceGetAttribute", reterr);
	if (!status)
		code = find_code(kernels->gpu, major, minor);
	if (!status && !code)
		status = add_code(kernels->gpu, major, minor, &code, reterr);
	if (!status)
		status = tauti_gpu_check(driver, driver->module_load(
			&kernels->module, code->code), "cuModuleLoadData",
			reterr);
	kernels->processors = (unsigned)processors;
	return status;
}

taut_status tauti_gpu_kernels_create(struct tauti_gpu *gpu,
	tauti_gpu_context context, struct tauti_gpu_kernels **ret_kernels,
	struct taut_error *reterr)
{
	struct tauti_gpu_kernels *kernels = calloc(1, sizeof *kernels);
	taut_status status;

	if (!kernels)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "no memory");
	kernels->gpu = gpu;
	status = tauti_gpu_side_of(gpu, context, &kernels->side, reterr);
	if (!status)
		status = tauti_gpu_side_enter(kernels->side, reterr);
	if (!status) {
		status = load_module(kernels, reterr);
		tauti_gpu_leave(gpu);
	}
	if (status) {
		free(kernels);
		return status;
	}
	*ret_kernels = kernels;
	return TAUT_OK;
}

void tauti_gpu_kernels_destroy(struct tauti_gpu_kernels *kernels)
{
	if (!kernels)
		return;
	if (!tauti_gpu_side_enter(kernels->side, NULL)) {
		kernels->gpu->driver.module_unload(kernels->module);
		tauti_gpu_leave(kernels->gpu);
	}
	free(kernels);
}

/* --- names --------------------------------------------------------------------------------*/

/* Of taut_type_name() and taut_reduction_name(): an object that is preloaded does not
 * have those. */
static const struct {
	const char *name;
	uint32_t bytes;
	bool whole;
} types[TAUT_TYPES] = {
	[TAUT_FLOAT32] = { "float32", 4, false },
	[TAUT_FLOAT64] = { "float64", 8, false },
	[TAUT_FLOAT16] = { "float16", 2, false },
	[TAUT_BFLOAT16] = { "bfloat16", 2, false },
	[TAUT_INT8] = { "int8", 1, true }, [TAUT_UINT8] = { "uint8", 1, true },
	[TAUT_INT32] = { "int32", 4, true },
	[TAUT_INT64] = { "int64", 8, true },
	[TAUT_UINT64] = { "uint64", 8, true },
};
static const char *const reductions[TAUT_REDUCTIONS] = { "sum", "product", "min",
	"max", "bit_and", "bit_or", "bit_xor" };

uint32_t tauti_gpu_type_bytes(enum taut_type type)
{
	return types[type].bytes;
}

bool tauti_gpu_kernel_name(enum taut_type type, enum taut_reduction reduction,
	char name[TAUTI_GPU_NAME_BYTES])
{
	if ((unsigned)type >= TAUT_TYPES ||
		(unsigned)reduction >= TAUT_REDUCTIONS ||
		(reduction >= TAUT_BIT_AND && !types[type].whole))
		return false;
	snprintf(name, TAUTI_GPU_NAME_BYTES, "taut_%s_%s",
		reductions[reduction], types[type].name);
	return true;
}

/* --- launches -----------------------------------------------------------------------------*/

/* As reduce.cu has it. */
struct sources {
	const void *from[TAUTI_GPU_SOURCES];
	uint32_t n;
};

/* Blocks that are more than fit on the device at once would begin when the first end,
 * with as much to do as those had. */
static void count_blocks(const struct tauti_gpu_kernels *kernels, struct kernel *it)
{
	int blocks = 0;

	if (kernels->gpu->driver.occupancy(
		&blocks, it->function, THREADS, 0) || blocks < 1)
		blocks = BLOCKS_A_PROCESSOR;
	it->most_blocks = kernels->processors * (unsigned)blocks;
}

/* Inside the context. */
static taut_status find_kernel(struct tauti_gpu_kernels *kernels,
	enum taut_type type, enum taut_reduction reduction,
	const struct kernel **ret_kernel, struct taut_error *reterr)
{
	const struct tauti_gpu_driver *driver = &kernels->gpu->driver;
	char name[TAUTI_GPU_NAME_BYTES];
	struct kernel *known;
	taut_status status = TAUT_OK;

	if (!tauti_gpu_kernel_name(type, reduction, name))
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"expected a reduction that there is");
	known = &kernels->of[type][reduction];
	if (!known->function) {
		status = tauti_gpu_check(driver, driver->module_function(
			&known->function, kernels->module, name), name,
			reterr);
		if (!status)
			count_blocks(kernels, known);
	}
	*ret_kernel = known;
	return status;
}

static unsigned blocks_for(
	const struct kernel *kernel, enum taut_type type, uint64_t count)
{
	uint64_t vectors = count * tauti_gpu_type_bytes(type) / 16 + 1;
	uint64_t blocks = (vectors + THREADS - 1) / THREADS;

	return blocks < kernel->most_blocks ? (unsigned)blocks :
		kernel->most_blocks;
}

/* Inside the context. As many sources at a time as a kernel takes; what they made goes
 * before the next. */
static taut_status launch(struct tauti_gpu_kernels *kernels,
	tauti_gpu_stream stream, tauti_gpu_function function, unsigned blocks,
	void *out, const void *const *from, uint32_t n, uint64_t count,
	struct taut_error *reterr)
{
	const struct tauti_gpu_driver *driver = &kernels->gpu->driver;
	struct sources sources = { .n = 0 };
	void *arguments[] = { &out, &sources, &count };
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < n && !status;) {
		sources.n = 0;
		if (i)
			sources.from[sources.n++] = out;
		while (i < n && sources.n < TAUTI_GPU_SOURCES)
			sources.from[sources.n++] = from[i++];
		status = tauti_gpu_check(driver, driver->launch(function,
			blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments,
			NULL), "cuLaunchKernel", reterr);
	}
	if (status) /* those before it: their memory is let go of */
		driver->stream_wait(stream);
	return status;
}

taut_status tauti_gpu_reduce_add(struct tauti_gpu_kernels *kernels,
	enum taut_type type, enum taut_reduction reduction, void *out,
	const void *const *sources, uint32_t n, uint64_t count,
	struct taut_error *reterr)
{
	const struct kernel *kernel = NULL;
	taut_status status = tauti_gpu_side_enter(kernels->side, reterr);

	if (status)
		return status;
	status = find_kernel(kernels, type, reduction, &kernel, reterr);
	if (!status && count)
		status = launch(kernels, tauti_gpu_side_stream(kernels->side),
			kernel->function, blocks_for(kernel, type, count), out,
			sources, n, count, reterr);
	tauti_gpu_leave(kernels->gpu);
	return status;
}
