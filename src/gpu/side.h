/* side.h - the inside of what gpu.h calls a side and a lane, for side.c and lane.c.
 *
 * A context may be destroyed where nobody hears of it (cudaDeviceReset of a run-time
 * that is linked into the program), and another may come to lie at its address; the
 * primary one of a device always does. What was made in the first is not to be touched
 * then: not even asked about, for the driver may look into what it has freed. So a
 * side has the number of its context, where the driver gives one, and whoever enters
 * the context compares. */
#ifndef TAUT_GPU_SIDE_H
#define TAUT_GPU_SIDE_H

#include <stdatomic.h>

#include "gpu/gpu.h"

struct tauti_gpu_lane {
	struct tauti_gpu_side *side;
	struct tauti_gpu_lane *next; /* of those that wait for use */
	void *memory;
	size_t bytes;
	bool pinned;      /* else of the heap */
	int64_t given_ns; /* when it was given back; tauti_now_ns() */
};

struct tauti_gpu_side {
	struct tauti_gpu *gpu;
	struct tauti_gpu_side *next;
	tauti_gpu_context context;
	unsigned long long id; /* of the context, where has_id */
	bool has_id;
	tauti_gpu_stream stream;
	_Atomic bool dead; /* the context went, and all in it; others may still
	                      give back what they have of it */
	/* Under the lock of the gpu: */
	struct tauti_gpu_lane *lanes; /* that wait; the one used last first */
	uint32_t n_lanes, n_events;
	tauti_gpu_event events[TAUTI_GPU_EVENTS_KEPT];
};

/* Under the lock. What the side pinned went with its context. */
void tauti_gpu_lanes_lose(struct tauti_gpu_side *side);
/* Frees those that wait. The lock is not held. */
void tauti_gpu_lanes_free(struct tauti_gpu_side *side);

#endif /* TAUT_GPU_SIDE_H */
