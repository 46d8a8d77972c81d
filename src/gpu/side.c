/* side.c - of a context: a stream, events; copies. */
#include <dlfcn.h>
#include <stdlib.h>

#include "gpu/side.h"

tauti_gpu_context tauti_gpu_side_context(const struct tauti_gpu_side *side)
{
	return side->context;
}

tauti_gpu_stream tauti_gpu_side_stream(const struct tauti_gpu_side *side)
{
	return side->stream;
}

/* --- contexts -----------------------------------------------------------------------------*/

taut_status tauti_gpu_enter(const struct tauti_gpu *gpu,
	tauti_gpu_context context, struct taut_error *reterr)
{
	return tauti_gpu_check(&gpu->driver, gpu->driver.context_push(context),
		"cuCtxPushCurrent", reterr);
}

void tauti_gpu_leave(const struct tauti_gpu *gpu)
{
	tauti_gpu_context context;

	gpu->driver.context_pop(&context);
}

/* As tauti_gpu_side_enter(), in the driver's words. */
static tauti_gpu_result enter(struct tauti_gpu_side *side)
{
	const struct tauti_gpu_driver *driver = &side->gpu->driver;
	unsigned long long id = 0;
	tauti_gpu_result result;

	if (side->dead)
		return TAUTI_GPU_CONTEXT_IS_DESTROYED;
	result = driver->context_push(side->context);
	if (result || !side->has_id)
		return result;
	result = driver->context_id(side->context, &id);
	if (!result && id == side->id)
		return 0;
	tauti_gpu_leave(side->gpu);
	if (result)
		return result;
	side->dead = true;
	return TAUTI_GPU_CONTEXT_IS_DESTROYED;
}

taut_status tauti_gpu_side_enter(
	struct tauti_gpu_side *side, struct taut_error *reterr)
{
	return tauti_gpu_check(&side->gpu->driver, enter(side),
		"cuCtxPushCurrent", reterr);
}

/* --- sides --------------------------------------------------------------------------------*/

/* Inside the context. The stream keeps order with the legacy null stream of it:
 * flags 0. */
static taut_status make_stream(
	struct tauti_gpu_side *side, struct taut_error *reterr)
{
	const struct tauti_gpu_driver *driver = &side->gpu->driver;
	taut_status status = tauti_gpu_check(driver,
		driver->stream_create(&side->stream, 0), "cuStreamCreate",
		reterr);

	side->has_id = driver->context_id &&
		!driver->context_id(side->context, &side->id);
	return status;
}

static taut_status make_side(struct tauti_gpu *gpu, tauti_gpu_context context,
	struct tauti_gpu_side **ret_side, struct taut_error *reterr)
{
	struct tauti_gpu_side *side = calloc(1, sizeof *side);
	taut_status status;

	if (!side)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "no memory");
	side->gpu = gpu;
	side->context = context;
	status = tauti_gpu_enter(gpu, context, reterr);
	if (!status) {
		status = make_stream(side, reterr);
		tauti_gpu_leave(gpu);
	}
	if (status) {
		free(side);
		return status;
	}
	side->next = gpu->sides;
	gpu->sides = side;
	*ret_side = side;
	return TAUT_OK;
}

/* A context may have been destroyed, and another made at its address. Where it has no
 * number the stream is asked; a driver may not survive that, when both are so. */
static bool is_alive(struct tauti_gpu_side *side)
{
	const struct tauti_gpu *gpu = side->gpu;
	tauti_gpu_result result = enter(side);

	if (result)
		return false;
	if (!side->has_id)
		result = gpu->driver.stream_query(side->stream);
	tauti_gpu_leave(gpu);
	return !result || result == TAUTI_GPU_NOT_READY;
}

/* Under the lock. What the driver made went with the context. */
static void bury(struct tauti_gpu_side *side)
{
	side->dead = true;
	tauti_gpu_lanes_lose(side);
	side->n_events = 0;
}

void tauti_gpu_side_lose(struct tauti_gpu *gpu, tauti_gpu_context context)
{
	struct tauti_gpu_side *side;

	pthread_mutex_lock(&gpu->lock);
	for (side = gpu->sides; side; side = side->next)
		if (side->context == context)
			bury(side);
	pthread_mutex_unlock(&gpu->lock);
}

void tauti_gpu_side_lose_primary(struct tauti_gpu *gpu, int device)
{
	const struct tauti_gpu_driver *driver = &gpu->driver;
	tauti_gpu_context context = NULL;
	unsigned flags = 0;
	int active = 0;

	/* Which one it is only a reference to it tells, and that would make it where
	 * there is none. By its number it is missed soon enough. */
	if (driver->context_id ||
		driver->primary_state(device, &flags, &active) || !active ||
		driver->primary_retain(&context, device))
		return;
	tauti_gpu_side_lose(gpu, context);
	driver->primary_release(device);
}

taut_status tauti_gpu_side_of(struct tauti_gpu *gpu, tauti_gpu_context context,
	struct tauti_gpu_side **ret_side, struct taut_error *reterr)
{
	struct tauti_gpu_side *side;
	taut_status status = TAUT_OK;

	pthread_mutex_lock(&gpu->lock);
	for (side = gpu->sides; side; side = side->next)
		if (side->context == context && !side->dead)
			break;
	if (side && !is_alive(side)) {
		bury(side);
		side = NULL;
	}
	if (side)
		*ret_side = side;
	else
		status = make_side(gpu, context, ret_side, reterr);
	pthread_mutex_unlock(&gpu->lock);
	return status;
}

/* --- copies -------------------------------------------------------------------------------*/

static tauti_gpu_address address_of(const void *at)
{
	return (tauti_gpu_address)(uintptr_t)at;
}

/* Where something failed, nothing of what came before may be under way any more: its
 * memory is let go of. */
static taut_status settled(struct tauti_gpu_side *side, taut_status status)
{
	if (status && !enter(side)) {
		side->gpu->driver.stream_wait(side->stream);
		tauti_gpu_leave(side->gpu);
	}
	return status;
}

taut_status tauti_gpu_copy_add(struct tauti_gpu_side *side,
	enum tauti_gpu_way way, void *to, const void *from, size_t bytes,
	struct taut_error *reterr)
{
	static const char *const names[] = { "cuMemcpyDtoHAsync",
		"cuMemcpyHtoDAsync", "cuMemcpyAsync" };
	const struct tauti_gpu_driver *driver = &side->gpu->driver;
	taut_status status = tauti_gpu_side_enter(side, reterr);
	tauti_gpu_result result;

	if (status)
		return settled(side, status);
	if (way == TAUTI_GPU_DOWN)
		result = driver->copy_down(
			to, address_of(from), bytes, side->stream);
	else if (way == TAUTI_GPU_UP)
		result = driver->copy_up(
			address_of(to), from, bytes, side->stream);
	else
		result = driver->copy_across(address_of(to), address_of(from),
			bytes, side->stream);
	tauti_gpu_leave(side->gpu);
	return settled(side,
		tauti_gpu_check(driver, result, names[way], reterr));
}

static tauti_gpu_event take_event(struct tauti_gpu_side *side)
{
	tauti_gpu_event event = NULL;

	pthread_mutex_lock(&side->gpu->lock);
	if (side->n_events)
		event = side->events[--side->n_events];
	pthread_mutex_unlock(&side->gpu->lock);
	return event;
}

static void give_event(struct tauti_gpu_side *side, tauti_gpu_event event)
{
	bool kept = false;

	pthread_mutex_lock(&side->gpu->lock);
	if (!side->dead && side->n_events < TAUTI_GPU_EVENTS_KEPT) {
		side->events[side->n_events++] = event;
		kept = true;
	}
	pthread_mutex_unlock(&side->gpu->lock);
	if (kept || enter(side))
		return;
	side->gpu->driver.event_destroy(event);
	tauti_gpu_leave(side->gpu);
}

/* Inside the context. */
static taut_status mark(struct tauti_gpu_side *side,
	struct tauti_gpu_copy *ret_copy, struct taut_error *reterr)
{
	const struct tauti_gpu_driver *driver = &side->gpu->driver;
	tauti_gpu_event event = take_event(side);
	taut_status status = TAUT_OK;

	if (!event)
		status = tauti_gpu_check(driver, driver->event_create(
			&event, TAUTI_GPU_DISABLE_TIMING), "cuEventCreate",
			reterr);
	if (status)
		return status;
	status = tauti_gpu_check(driver, driver->event_record(
		event, side->stream), "cuEventRecord", reterr);
	if (status) {
		give_event(side, event);
		return status;
	}
	ret_copy->side = side;
	ret_copy->event = event;
	return TAUT_OK;
}

taut_status tauti_gpu_copy_mark(struct tauti_gpu_side *side,
	struct tauti_gpu_copy *ret_copy, struct taut_error *reterr)
{
	taut_status status = tauti_gpu_side_enter(side, reterr);

	if (!status) {
		status = mark(side, ret_copy, reterr);
		tauti_gpu_leave(side->gpu);
	}
	return settled(side, status);
}

taut_status tauti_gpu_copy_test(struct tauti_gpu_copy *copy, bool *ret_over,
	struct taut_error *reterr)
{
	struct tauti_gpu_side *side = copy->side;
	const struct tauti_gpu_driver *driver;
	tauti_gpu_result result;

	*ret_over = true;
	if (!side)
		return TAUT_OK;
	driver = &side->gpu->driver;
	result = enter(side);
	if (!result) {
		result = driver->event_query(copy->event);
		tauti_gpu_leave(side->gpu);
	}
	if (result == TAUTI_GPU_NOT_READY) {
		*ret_over = false;
		return TAUT_OK;
	}
	(void)!settled(side, result ? TAUT_EIO : TAUT_OK);
	give_event(side, copy->event);
	copy->side = NULL;
	return tauti_gpu_check(driver, result, "cuEventQuery", reterr);
}

/* --- the end ------------------------------------------------------------------------------*/

static void destroy_side(struct tauti_gpu_side *side)
{
	const struct tauti_gpu_driver *driver = &side->gpu->driver;

	if (!is_alive(side))
		side->dead = true;
	tauti_gpu_lanes_free(side);
	if (!enter(side)) {
		for (uint32_t i = 0; i < side->n_events; i++)
			driver->event_destroy(side->events[i]);
		driver->stream_destroy(side->stream);
		tauti_gpu_leave(side->gpu);
	}
	free(side);
}

void tauti_gpu_release(struct tauti_gpu *gpu)
{
	while (gpu->sides) {
		struct tauti_gpu_side *side = gpu->sides;

		gpu->sides = side->next;
		destroy_side(side);
	}
	for (int i = 0; i < TAUTI_GPU_DEVICES; i++) {
		if (gpu->primary[i])
			gpu->driver.primary_release(i);
		gpu->primary[i] = NULL;
	}
}

void tauti_gpu_destroy(struct tauti_gpu *gpu)
{
	if (!gpu)
		return;
	tauti_gpu_release(gpu);
	tauti_gpu_codes_free(gpu);
	dlclose(gpu->driver.library);
	pthread_mutex_destroy(&gpu->lock);
	tauti_gpu_cache_finish(&gpu->cache);
	free(gpu);
}
