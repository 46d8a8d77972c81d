/* split.c - see split.h. */
#include "peers/split.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/hash.h"
#include "load/cache_words.h"

struct share {
	uint64_t units, weight; /* that it has; of which it is to have a part */
	uint32_t host;
};

/* The fuller comes later. */
static bool is_before(const struct share *a, const struct share *b)
{
	tauti_u128 has_a = (tauti_u128)a->units * b->weight;
	tauti_u128 has_b = (tauti_u128)b->units * a->weight;

	return has_a != has_b ? has_a < has_b : a->host < b->host;
}

/* The first of the heap got fuller. */
static void sink(struct share *heap, uint32_t n)
{
	struct share it = heap[0];
	uint32_t i = 0, child;

	for (; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && is_before(&heap[child + 1], &heap[child]))
			child++;
		if (!is_before(&heap[child], &it))
			break;
		heap[i] = heap[child];
	}
	heap[i] = it;
}

/* An item without bytes is one all the same. */
static uint64_t units_of(uint64_t bytes)
{
	return bytes ? (bytes + TAUTI_ROOM_BYTES - 1) / TAUTI_ROOM_BYTES : 1;
}

taut_status tauti_split_init(struct tauti_split *split, uint64_t n_items,
	uint64_t (*bytes)(void *context, uint64_t item), void *context,
	const uint64_t *weights, uint32_t n_hosts, struct taut_error *err)
{
	struct share *heap = calloc(n_hosts, sizeof *heap);
	uint16_t *owner = calloc(n_items, sizeof *owner);

	if (!heap || !owner) {
		free(heap);
		free(owner);
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"peers: no memory for the owners of %llu items",
			(unsigned long long)n_items);
	}
	for (uint32_t i = 0; i < n_hosts; i++) /* in order, so a heap */
		heap[i] = (struct share){ 0, weights[i], i };
	for (uint64_t i = 0; i < n_items; i++) {
		owner[i] = (uint16_t)heap[0].host;
		heap[0].units += units_of(bytes(context, i));
		sink(heap, n_hosts);
	}
	free(heap);
	*split = (struct tauti_split){ owner, n_items, n_hosts };
	return TAUT_OK;
}

void tauti_split_fini(struct tauti_split *split)
{
	free(split->owner);
	*split = (struct tauti_split){ .owner = NULL };
}
