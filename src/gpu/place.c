/* place.c - what is at an address: asked of the driver once, and then known. */
#include <stdlib.h>

#include "gpu/gpu.h"

taut_status tauti_gpu_create(struct tauti_gpu **ret_gpu, struct taut_error *reterr)
{
	struct tauti_gpu *gpu = calloc(1, sizeof *gpu);
	taut_status status;

	if (!gpu)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "no memory");
	status = tauti_gpu_driver_open(&gpu->driver, reterr);
	if (status) {
		free(gpu);
		return status;
	}
	tauti_gpu_cache_init(&gpu->cache);
	pthread_mutex_init(&gpu->lock, NULL);
	gpu->lane_kept_ns = TAUTI_GPU_LANE_SECONDS_KEPT * INT64_C(1000000000);
	*ret_gpu = gpu;
	return TAUT_OK;
}

/* --- asking the driver --------------------------------------------------------------------*/

struct answer {
	tauti_gpu_context context;
	unsigned type, managed;
	int device;
	tauti_gpu_address start;
	size_t bytes;
	unsigned long long id;
};

/* Where nothing was initialised, or all was ended, no memory is a device's; nor where
 * the driver has no device that it can use, or is the one to link with alone. A job
 * that has no part in devices may have loaded any of these. */
static bool means_host(tauti_gpu_result result)
{
	switch (result) {
	case TAUTI_GPU_NOT_INITIALIZED:
	case TAUTI_GPU_DEINITIALIZED:
	case TAUTI_GPU_STUB_LIBRARY:
	case TAUTI_GPU_DEVICE_UNAVAILABLE:
	case TAUTI_GPU_NO_DEVICE:
	case TAUTI_GPU_INVALID_DEVICE:
	case TAUTI_GPU_INVALID_CONTEXT:
	case TAUTI_GPU_SYSTEM_NOT_READY:
	case TAUTI_GPU_DRIVER_MISMATCH:
	case TAUTI_GPU_COMPAT_NOT_SUPPORTED:
		return true;
	default:
		return false;
	}
}

/* Of memory that the driver does not know it says nothing, which is 0. */
static tauti_gpu_result ask_all(const struct tauti_gpu_driver *driver,
	tauti_gpu_address at, struct answer *answer)
{
	unsigned what[] = { TAUTI_GPU_POINTER_CONTEXT,
		TAUTI_GPU_POINTER_MEMORY_TYPE, TAUTI_GPU_POINTER_IS_MANAGED,
		TAUTI_GPU_POINTER_DEVICE, TAUTI_GPU_POINTER_RANGE_START,
		TAUTI_GPU_POINTER_RANGE_BYTES, TAUTI_GPU_POINTER_BUFFER_ID };
	void *data[] = { &answer->context, &answer->type, &answer->managed,
		&answer->device, &answer->start, &answer->bytes, &answer->id };

	return driver->pointer_attributes(
		sizeof what / sizeof what[0], what, data, at);
}

/* A driver that does not know of ranges, or of one of the others for this memory. */
static tauti_gpu_result ask_little(const struct tauti_gpu_driver *driver,
	tauti_gpu_address at, struct answer *answer)
{
	tauti_gpu_result result;

	*answer = (struct answer){ .type = 0 };
	result = driver->pointer_attribute(
		&answer->type, TAUTI_GPU_POINTER_MEMORY_TYPE, at);
	if (result == TAUTI_GPU_INVALID_VALUE) /* it has never heard of it */
		return 0;
	if (!result)
		result = driver->pointer_attribute(
			&answer->context, TAUTI_GPU_POINTER_CONTEXT, at);
	return result ? result : driver->pointer_attribute(
		&answer->device, TAUTI_GPU_POINTER_DEVICE, at);
}

static taut_status ask(const struct tauti_gpu_driver *driver,
	tauti_gpu_address at, struct answer *ret_answer,
	struct taut_error *reterr)
{
	tauti_gpu_result result;

	*ret_answer = (struct answer){ .type = 0 };
	result = ask_all(driver, at, ret_answer);
	if (result == TAUTI_GPU_INVALID_VALUE)
		result = ask_little(driver, at, ret_answer);
	if (means_host(result)) {
		*ret_answer = (struct answer){ .type = 0 };
		result = 0;
	}
	return tauti_gpu_check(
		driver, result, "cuPointerGetAttributes", reterr);
}

/* Its reference is ours until the end. One more each time, which tells the address that
 * it has now: it may have been reset, and made again. */
static taut_status primary_of(struct tauti_gpu *gpu, int device,
	tauti_gpu_context *ret_context, struct taut_error *reterr)
{
	const struct tauti_gpu_driver *driver = &gpu->driver;
	taut_status status;

	if (device < 0 || device >= TAUTI_GPU_DEVICES)
		return taut_error_set(reterr, TAUT_EIO, -1,
			"memory of device %d: expected a context, or a device "
			"below %d", device, TAUTI_GPU_DEVICES);
	pthread_mutex_lock(&gpu->lock);
	status = tauti_gpu_check(driver,
		driver->primary_retain(ret_context, device),
		"cuDevicePrimaryCtxRetain", reterr);
	if (!status && gpu->primary[device])
		driver->primary_release(device);
	if (!status)
		gpu->primary[device] = *ret_context;
	pthread_mutex_unlock(&gpu->lock);
	return status;
}

/* The current context, where it is one of that device; NULL: it is not. */
static tauti_gpu_context current_of(const struct tauti_gpu *gpu, int device)
{
	const struct tauti_gpu_driver *driver = &gpu->driver;
	tauti_gpu_context context = NULL;
	int now = -1;

	return !driver->context_current(&context) && context &&
		!driver->context_device(&now) && now == device ?
		context : NULL;
}

/* Memory of a pool, or mapped by hand, belongs to no context: any of its device will
 * do. The primary one can always be had, but is made, and takes memory of the device,
 * where a program has contexts of its own. */
static taut_status any_context_of(struct tauti_gpu *gpu, struct answer *answer,
	tauti_gpu_context *ret_context, struct taut_error *reterr)
{
	unsigned flags = 0;
	int active = 0;

	*ret_context = NULL;
	if (!gpu->driver.primary_state(answer->device, &flags, &active) &&
		!active)
		*ret_context = current_of(gpu, answer->device);
	if (!*ret_context)
		return primary_of(gpu, answer->device, ret_context, reterr);
	answer->id = 0; /* not kept: the memory may outlive it */
	return TAUT_OK;
}

/* --- places -------------------------------------------------------------------------------*/

/* Whether the allocation at an address is still the one that is known. */
static bool is_same(const struct tauti_gpu *gpu, tauti_gpu_address at, uint64_t id)
{
	unsigned long long now = 0;

	return !gpu->driver.pointer_attribute(
		&now, TAUTI_GPU_POINTER_BUFFER_ID, at) && now == id;
}

static void keep(struct tauti_gpu *gpu, const struct answer *answer,
	const struct tauti_gpu_place *place)
{
	const struct tauti_gpu_range range = { .start = answer->start,
		.end = answer->start + answer->bytes, .id = answer->id,
		.context = (uint64_t)(uintptr_t)place->context,
		.device = (uint64_t)place->device };

	if (answer->id)
		tauti_gpu_cache_keep(&gpu->cache, &range);
}

static taut_status find_anew(struct tauti_gpu *gpu, tauti_gpu_address at,
	struct tauti_gpu_place *ret_place, struct taut_error *reterr)
{
	struct answer answer;
	struct tauti_gpu_place place = { .context = NULL };
	taut_status status = ask(&gpu->driver, at, &answer, reterr);

	if (!status && (answer.managed ||
		answer.type == TAUTI_GPU_MEMORY_DEVICE ||
		answer.type == TAUTI_GPU_MEMORY_UNIFIED)) {
		place.context = answer.context;
		place.device = answer.device;
		if (!place.context)
			status = any_context_of(
				gpu, &answer, &place.context, reterr);
		if (!status)
			keep(gpu, &answer, &place);
	}
	if (!status)
		*ret_place = place;
	return status;
}

taut_status tauti_gpu_find(struct tauti_gpu *gpu, const void *at,
	struct tauti_gpu_place *ret_place, struct taut_error *reterr)
{
	tauti_gpu_address address = (tauti_gpu_address)(uintptr_t)at;
	struct tauti_gpu_range range;

	if (!tauti_gpu_cache_find(&gpu->cache, address, &range))
		return find_anew(gpu, address, ret_place, reterr);
	if (!is_same(gpu, address, range.id)) {
		tauti_gpu_cache_drop(&gpu->cache, range.start, range.end);
		return find_anew(gpu, address, ret_place, reterr);
	}
	ret_place->context = (tauti_gpu_context)(uintptr_t)range.context;
	ret_place->device = (int)range.device;
	return TAUT_OK;
}

void tauti_gpu_forget(struct tauti_gpu *gpu, const void *at, size_t bytes)
{
	uint64_t start = (uint64_t)(uintptr_t)at;

	tauti_gpu_cache_drop(&gpu->cache, start, start + (bytes ? bytes : 1));
}
