/* peers.c - the ranks of one host reduce each other's memory. See gpu.h. */
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"

enum { BOUNDARY = 256 };

struct tauti_gpu_peers {
	struct tauti_gpu *gpu;
	struct tauti_gpu_side *side;
	struct tauti_gpu_kernels *kernels;
	uint32_t rank, n_ranks;
	uint64_t bytes;
	tauti_gpu_address *of; /* by rank; 0: not open */
	const void **sources;  /* by rank; of a sum */
};

static uint64_t rounded(uint64_t bytes)
{
	return (bytes + BOUNDARY - 1) / BOUNDARY * BOUNDARY;
}

/* --- making -------------------------------------------------------------------------------*/

/* Inside the context. */
static taut_status make_memory(struct tauti_gpu_peers *it,
	struct tauti_gpu_offer *ret_offer, struct taut_error *reterr)
{
	const struct tauti_gpu_driver *driver = &it->gpu->driver;
	tauti_gpu_address *mine = &it->of[it->rank];
	/* A share of any type, and what it lies behind a boundary. */
	uint64_t share = rounded(it->bytes / it->n_ranks + 2 * BOUNDARY);
	taut_status status = tauti_gpu_check(driver, driver->alloc(
		mine, rounded(it->bytes) + share), "cuMemAlloc", reterr);

	if (status) {
		*mine = 0;
		return status;
	}
	status = tauti_gpu_check(driver, driver->handle_get(
		&ret_offer->handle, *mine), "cuIpcGetMemHandle", reterr);
	if (!status)
		ret_offer->bytes = it->bytes;
	return status;
}

static taut_status make_all(struct tauti_gpu_peers *it,
	struct tauti_gpu_offer *ret_offer, struct taut_error *reterr)
{
	const struct tauti_gpu_driver *driver = &it->gpu->driver;
	tauti_gpu_context context = NULL;
	tauti_gpu_result result = driver->context_current(&context);
	taut_status status;

	if (result || !context)
		return taut_error_set(reterr, TAUT_EIO, -1,
			"no context of a device is current");
	status = tauti_gpu_side_of(it->gpu, context, &it->side, reterr);
	if (!status) /* first: that it cannot be shared is found at once */
		status = make_memory(it, ret_offer, reterr);
	if (!status)
		status = tauti_gpu_kernels_create(
			it->gpu, context, &it->kernels, reterr);
	return status;
}

taut_status tauti_gpu_peers_create(struct tauti_gpu *gpu, uint32_t rank,
	uint32_t n_ranks, uint64_t bytes, struct tauti_gpu_peers **ret_peers,
	struct tauti_gpu_offer *ret_offer, struct taut_error *reterr)
{
	struct tauti_gpu_peers *it = calloc(1, sizeof *it);
	taut_status status = TAUT_ENOMEM;

	memset(ret_offer, 0, sizeof *ret_offer);
	if (it) {
		it->gpu = gpu;
		it->rank = rank;
		it->n_ranks = n_ranks;
		it->bytes = bytes;
		it->of = calloc(n_ranks, sizeof *it->of);
		it->sources = calloc(n_ranks, sizeof *it->sources);
	}
	if (it && it->of && it->sources)
		status = make_all(it, ret_offer, reterr);
	else
		taut_error_set(reterr, TAUT_ENOMEM, -1, "no memory");
	if (status) {
		ret_offer->bytes = 0;
		tauti_gpu_peers_destroy(it, true);
		return status;
	}
	*ret_peers = it;
	return TAUT_OK;
}

taut_status tauti_gpu_peers_open(struct tauti_gpu_peers *it,
	const struct tauti_gpu_offer *offers, struct taut_error *reterr)
{
	const struct tauti_gpu_driver *driver = &it->gpu->driver;
	taut_status status = tauti_gpu_side_enter(it->side, reterr);

	if (status)
		return status;
	for (uint32_t i = 0; i < it->n_ranks && !status; i++) {
		if (i == it->rank)
			continue;
		if (offers[i].bytes != it->bytes) {
			status = taut_error_set(reterr, TAUT_EMATCH, -1,
				"rank %u has no memory for its peers", i);
			continue;
		}
		status = tauti_gpu_check(driver, driver->handle_open(
			&it->of[i], offers[i].handle, TAUTI_GPU_LAZY_PEER),
			"cuIpcOpenMemHandle", reterr);
		if (status)
			it->of[i] = 0;
	}
	tauti_gpu_leave(it->gpu);
	return status;
}

void tauti_gpu_peers_close(struct tauti_gpu_peers *it)
{
	const struct tauti_gpu_driver *driver = &it->gpu->driver;

	if (!it->side || tauti_gpu_side_enter(it->side, NULL))
		return;
	for (uint32_t i = 0; i < it->n_ranks; i++) {
		if (i == it->rank || !it->of[i])
			continue;
		driver->handle_close(it->of[i]);
		it->of[i] = 0;
	}
	tauti_gpu_leave(it->gpu);
}

void tauti_gpu_peers_destroy(struct tauti_gpu_peers *it, bool all_closed)
{
	const struct tauti_gpu_driver *driver;

	if (!it)
		return;
	driver = &it->gpu->driver;
	if (it->of && it->sources)
		tauti_gpu_peers_close(it);
	if (all_closed && it->of && it->of[it->rank] &&
		!tauti_gpu_side_enter(it->side, NULL)) {
		driver->free(it->of[it->rank]);
		tauti_gpu_leave(it->gpu);
	}
	tauti_gpu_kernels_destroy(it->kernels);
	free(it->of);
	free(it->sources);
	free(it);
}

struct tauti_gpu_side *tauti_gpu_peers_side(const struct tauti_gpu_peers *it)
{
	return it->side;
}

/* --- rounds -------------------------------------------------------------------------------*/

/* As taut_coll_block(). */
static uint64_t block(uint64_t count, uint32_t n, uint32_t i, uint64_t *ret_length)
{
	uint64_t least = count / n, more = count % n;

	*ret_length = least + (i < more);
	return least * i + (i < more ? i : more);
}

static void *memory(tauti_gpu_address at)
{
	return (void *)(uintptr_t)at;
}

/* Where a share of `count` elements lies: in all inputs, and in the memory of the rank
 * whose it is, alike to a boundary of 16. Returns its bytes. */
static uint64_t share_of(const struct tauti_gpu_peers *it, enum taut_type type,
	uint64_t count, uint32_t rank, uint64_t *ret_input, uint64_t *ret_share)
{
	uint64_t element = tauti_gpu_type_bytes(type), length;
	uint64_t first = block(count, it->n_ranks, rank, &length);

	*ret_input = first * element;
	*ret_share = rounded(it->bytes) + *ret_input % 16;
	return length * element;
}

taut_status tauti_gpu_peers_put(struct tauti_gpu_peers *it, const void *from,
	bool on_device, size_t bytes, struct taut_error *reterr)
{
	return tauti_gpu_copy_add(it->side,
		on_device ? TAUTI_GPU_ACROSS : TAUTI_GPU_UP,
		memory(it->of[it->rank]), from, bytes, reterr);
}

taut_status tauti_gpu_peers_sum(struct tauti_gpu_peers *it,
	enum taut_type type, enum taut_reduction reduction, uint64_t count,
	struct taut_error *reterr)
{
	uint64_t input, share;
	uint64_t bytes = share_of(it, type, count, it->rank, &input, &share);

	for (uint32_t i = 0; i < it->n_ranks; i++)
		it->sources[i] = memory(it->of[i] + input);
	return tauti_gpu_reduce_add(it->kernels, type, reduction,
		memory(it->of[it->rank] + share), it->sources, it->n_ranks,
		bytes / tauti_gpu_type_bytes(type), reterr);
}

taut_status tauti_gpu_peers_get(struct tauti_gpu_peers *it, void *to,
	bool on_device, enum taut_type type, uint64_t count,
	struct taut_error *reterr)
{
	uint64_t input, share, bytes;
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < it->n_ranks && !status; i++) {
		bytes = share_of(it, type, count, i, &input, &share);
		status = tauti_gpu_copy_add(it->side,
			on_device ? TAUTI_GPU_ACROSS : TAUTI_GPU_DOWN,
			(char *)to + input, memory(it->of[i] + share), bytes,
			reterr);
	}
	return status;
}
