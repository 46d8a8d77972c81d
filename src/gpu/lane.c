/* lane.c - pinned buffers of the host, for copies of a side. */
#include <stdlib.h>

#include "base/now.h"
#include "gpu/side.h"

/* --- making -------------------------------------------------------------------------------*/

/* The lock is not held: to unpin may wait for the device. */
static void free_lane(struct tauti_gpu_lane *lane)
{
	struct tauti_gpu_side *side = lane->side;

	if (!lane->pinned) {
		free(lane->memory);
	} else if (!tauti_gpu_side_enter(side, NULL)) {
		side->gpu->driver.host_free(lane->memory);
		tauti_gpu_leave(side->gpu);
	} /* else its memory went with the context */
	free(lane);
}

static void free_all(struct tauti_gpu_lane *lane)
{
	while (lane) {
		struct tauti_gpu_lane *next = lane->next;

		free_lane(lane);
		lane = next;
	}
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
	if (!tauti_gpu_side_enter(side, NULL)) {
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

/* --- those that wait, under the lock ------------------------------------------------------*/

/* Takes one of a side's out of those that wait. */
static struct tauti_gpu_lane *take_out(struct tauti_gpu_lane **at)
{
	struct tauti_gpu_lane *lane = *at;

	*at = lane->next;
	lane->next = NULL;
	lane->side->n_lanes--;
	lane->side->gpu->lane_bytes -= lane->bytes;
	return lane;
}

/* NULL: none waits. */
static struct tauti_gpu_lane **oldest_of(struct tauti_gpu_side *side)
{
	struct tauti_gpu_lane **at = &side->lanes;

	while (*at && (*at)->next)
		at = &(*at)->next;
	return *at ? at : NULL;
}

static struct tauti_gpu_lane **oldest(struct tauti_gpu *gpu)
{
	struct tauti_gpu_lane **found = NULL, **at;
	struct tauti_gpu_side *side;

	for (side = gpu->sides; side; side = side->next) {
		at = oldest_of(side);
		if (at && (!found || (*at)->given_ns < (*found)->given_ns))
			found = at;
	}
	return found;
}

static void push(struct tauti_gpu_lane **list, struct tauti_gpu_lane *lane)
{
	lane->next = *list;
	*list = lane;
}

static void keep(struct tauti_gpu_lane *lane)
{
	struct tauti_gpu_side *side = lane->side;

	push(&side->lanes, lane);
	side->n_lanes++;
	side->gpu->lane_bytes += lane->bytes;
}

/* Moves to a list what was given back before, and what is above the bounds, but for the
 * last one. */
static void sort_out(struct tauti_gpu *gpu, int64_t before_ns,
	const struct tauti_gpu_lane *last, struct tauti_gpu_lane **list)
{
	struct tauti_gpu_lane **at;

	while ((at = oldest(gpu)) && ((*at)->given_ns < before_ns ||
		(gpu->lane_bytes > TAUTI_GPU_LANE_BYTES_KEPT && *at != last)))
		push(list, take_out(at));
}

void tauti_gpu_lanes_lose(struct tauti_gpu_side *side)
{
	while (side->lanes) {
		struct tauti_gpu_lane *lane = take_out(&side->lanes);

		if (!lane->pinned)
			free(lane->memory);
		free(lane);
	}
}

/* --- to and fro ---------------------------------------------------------------------------*/

taut_status tauti_gpu_lane_take(struct tauti_gpu_side *side, size_t bytes,
	struct tauti_gpu_lane **ret_lane, struct taut_error *reterr)
{
	struct tauti_gpu_lane **at, *lane = NULL;

	pthread_mutex_lock(&side->gpu->lock);
	at = &side->lanes;
	while (*at && (*at)->bytes < bytes)
		at = &(*at)->next;
	if (*at)
		lane = take_out(at);
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

void tauti_gpu_lane_give(struct tauti_gpu_lane *lane)
{
	struct tauti_gpu_side *side = lane->side;
	struct tauti_gpu *gpu = side->gpu;
	struct tauti_gpu_lane *over = NULL;

	lane->given_ns = tauti_now_ns();
	pthread_mutex_lock(&gpu->lock);
	if (side->dead)
		push(&over, lane);
	else
		keep(lane);
	if (side->n_lanes > TAUTI_GPU_LANES_KEPT)
		push(&over, take_out(oldest_of(side)));
	sort_out(gpu, lane->given_ns - gpu->lane_kept_ns, lane, &over);
	pthread_mutex_unlock(&gpu->lock);
	free_all(over);
}

void tauti_gpu_lanes_drop(struct tauti_gpu *gpu)
{
	struct tauti_gpu_lane *list = NULL;

	pthread_mutex_lock(&gpu->lock);
	sort_out(gpu, INT64_MAX, NULL, &list);
	pthread_mutex_unlock(&gpu->lock);
	free_all(list);
}

void tauti_gpu_lanes_free(struct tauti_gpu_side *side)
{
	struct tauti_gpu_lane *list = NULL;

	pthread_mutex_lock(&side->gpu->lock);
	while (side->lanes)
		push(&list, take_out(&side->lanes));
	pthread_mutex_unlock(&side->gpu->lock);
	free_all(list);
}
