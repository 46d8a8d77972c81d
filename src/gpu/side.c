/* side.c - of a context: a stream, events, pinned buffers; copies. */
#include <dlfcn.h>
#include <stdlib.h>

#include "gpu/gpu.h"

struct tauti_gpu_lane {
	struct tauti_gpu_side *side;
	struct tauti_gpu_lane *next; /* of those that wait for use */
	void *memory;
	size_t bytes;
	bool pinned; /* else of the heap */
};

struct tauti_gpu_side {
	struct tauti_gpu *gpu;
	struct tauti_gpu_side *next;
	tauti_gpu_context context;
	tauti_gpu_stream stream;
	bool dead; /* the context went, and all in it; others may still give
	              back what they have of it */
	struct tauti_gpu_lane *lanes;
	uint32_t n_lanes, n_events;
	tauti_gpu_event events[TAUTI_GPU_EVENTS_KEPT];
};

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

/* --- sides --------------------------------------------------------------------------------*/

/* The stream keeps order with the legacy null stream of its context: flags 0. */
static taut_status make_side(struct tauti_gpu *gpu, tauti_gpu_context context,
	struct tauti_gpu_side **ret_side, struct taut_error *reterr)
{
	struct tauti_gpu_side *side = calloc(1, sizeof *side);
	taut_status status;

	if (!side)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "no memory");
	status = tauti_gpu_enter(gpu, context, reterr);
	if (!status) {
		status = tauti_gpu_check(&gpu->driver,
			gpu->driver.stream_create(&side->stream, 0),
			"cuStreamCreate", reterr);
		tauti_gpu_leave(gpu);
	}
	if (status) {
		free(side);
		return status;
	}
	side->gpu = gpu;
	side->context = context;
	side->next = gpu->sides;
	gpu->sides = side;
	*ret_side = side;
	return TAUT_OK;
}

/* A context may have been destroyed, and another made at its address. */
static bool is_alive(const struct tauti_gpu_side *side)
{
	const struct tauti_gpu *gpu = side->gpu;
	tauti_gpu_result result;

	if (gpu->driver.context_push(side->context))
		return false;
	result = gpu->driver.stream_query(side->stream);
	tauti_gpu_leave(gpu);
	return !result || result == TAUTI_GPU_NOT_READY;
}

/* What the driver made went with the context. */
static void forget_made(struct tauti_gpu_side *side)
{
	while (side->lanes) {
		struct tauti_gpu_lane *lane = side->lanes;

		side->lanes = lane->next;
		if (!lane->pinned)
			free(lane->memory);
		free(lane);
	}
	side->n_lanes = side->n_events = 0;
}

void tauti_gpu_side_lose(struct tauti_gpu *gpu, tauti_gpu_context context)
{
	struct tauti_gpu_side *side;

	pthread_mutex_lock(&gpu->lock);
	for (side = gpu->sides; side; side = side->next)
		if (side->context == context && !side->dead) {
			side->dead = true;
			forget_made(side);
		}
	pthread_mutex_unlock(&gpu->lock);
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
		side->dead = true;
		forget_made(side);
		side = NULL;
	}
	if (side)
		*ret_side = side;
	else
		status = make_side(gpu, context, ret_side, reterr);
	pthread_mutex_unlock(&gpu->lock);
	return status;
}

/* --- pinned buffers -----------------------------------------------------------------------*/

/* Inside the context, unless the memory is the heap's. */
static void free_lane(struct tauti_gpu *gpu, struct tauti_gpu_lane *lane)
{
	if (lane->pinned)
		gpu->driver.host_free(lane->memory);
	else
		free(lane->memory);
	free(lane);
}

static taut_status make_lane(struct tauti_gpu_side *side, size_t bytes,
	struct tauti_gpu_lane **ret_lane, struct taut_error *reterr)
{
	struct tauti_gpu_lane *lane = calloc(1, sizeof *lane);
	struct tauti_gpu *gpu = side->gpu;

	if (!lane)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "no memory");
	lane->side = side;
	lane->bytes = bytes;
	if (!gpu->driver.context_push(side->context)) {
		lane->pinned = !gpu->driver.host_alloc(
			&lane->memory, bytes, TAUTI_GPU_PORTABLE);
		tauti_gpu_leave(gpu);
	}
	/* Slower, and as right. */
	if (!lane->pinned)
		lane->memory = malloc(bytes);
	if (!lane->memory) {
		free(lane);
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for %zu bytes of a device's", bytes);
	}
	*ret_lane = lane;
	return TAUT_OK;
}

taut_status tauti_gpu_lane_take(struct tauti_gpu_side *side, size_t bytes,
	struct tauti_gpu_lane **ret_lane, struct taut_error *reterr)
{
	struct tauti_gpu_lane **at, *lane;

	pthread_mutex_lock(&side->gpu->lock);
	at = &side->lanes;
	while (*at && (*at)->bytes < bytes)
		at = &(*at)->next;
	lane = *at;
	if (lane) {
		*at = lane->next;
		side->n_lanes--;
	}
	pthread_mutex_unlock(&side->gpu->lock);
	if (!lane)
		return make_lane(side, bytes, ret_lane, reterr);
	*ret_lane = lane;
	return TAUT_OK;
}

void *tauti_gpu_lane_memory(const struct tauti_gpu_lane *lane)
{
	return lane->memory;
}

/* Of many, those stay that were used last. */
static struct tauti_gpu_lane *one_too_many(struct tauti_gpu_side *side)
{
	struct tauti_gpu_lane **at = &side->lanes, *last;

	if (side->n_lanes <= TAUTI_GPU_LANES_KEPT)
		return NULL;
	while ((*at)->next)
		at = &(*at)->next;
	last = *at;
	*at = NULL;
	side->n_lanes--;
	return last;
}

void tauti_gpu_lane_give(struct tauti_gpu_lane *lane)
{
	struct tauti_gpu_side *side = lane->side;
	struct tauti_gpu_lane *over = NULL;

	pthread_mutex_lock(&side->gpu->lock);
	if (side->dead && lane->pinned) {
		free(lane);
	} else if (side->dead) {
		over = lane;
	} else {
		lane->next = side->lanes;
		side->lanes = lane;
		side->n_lanes++;
		over = one_too_many(side);
	}
	pthread_mutex_unlock(&side->gpu->lock);
	if (!over)
		return;
	if (!side->gpu->driver.context_push(side->context)) {
		free_lane(side->gpu, over);
		tauti_gpu_leave(side->gpu);
	} else if (!over->pinned) {
		free_lane(side->gpu, over);
	} else {
		free(over); /* its memory went with the context */
	}
}

/* --- copies -------------------------------------------------------------------------------*/

static tauti_gpu_address address_of(const void *at)
{
	return (tauti_gpu_address)(uintptr_t)at;
}

/* Where something failed, nothing of what came before may be under way any more: its
 * memory is let go of. */
static taut_status settled(const struct tauti_gpu_side *side, taut_status status)
{
	if (status && !side->gpu->driver.context_push(side->context)) {
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
	taut_status status = tauti_gpu_enter(side->gpu, side->context, reterr);
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
	if (kept || side->dead ||
		side->gpu->driver.context_push(side->context))
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
	taut_status status = tauti_gpu_enter(side->gpu, side->context, reterr);

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
	result = driver->context_push(side->context);
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
	struct tauti_gpu *gpu = side->gpu;
	bool lives = !side->dead && is_alive(side) &&
		!gpu->driver.context_push(side->context);

	while (side->lanes) {
		struct tauti_gpu_lane *lane = side->lanes;

		side->lanes = lane->next;
		if (lives || !lane->pinned)
			free_lane(gpu, lane);
		else
			free(lane);
	}
	for (uint32_t i = 0; i < side->n_events && lives; i++)
		gpu->driver.event_destroy(side->events[i]);
	if (lives) {
		gpu->driver.stream_destroy(side->stream);
		tauti_gpu_leave(gpu);
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
	dlclose(gpu->driver.library);
	pthread_mutex_destroy(&gpu->lock);
	tauti_gpu_cache_finish(&gpu->cache);
	free(gpu);
}
