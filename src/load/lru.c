/* lru.c - see lru.h. Two rings of items, each with an item of its own at n_items and
 * n_items + 1, whose `older` is the newest of the list and whose `newer` the oldest.
 * TAUTI_LRU_EXACT uses the first alone. */
#include "load/lru.h"

#include <stdlib.h>

enum { GONE, INACTIVE, ACTIVE };

static uint32_t head_of(const struct tauti_lru *lru, unsigned list)
{
	return lru->n_items + (list == ACTIVE);
}

static uint32_t oldest(const struct tauti_lru *lru, unsigned list)
{
	return lru->items[head_of(lru, list)].newer;
}

static void put_newest(struct tauti_lru *lru, uint32_t item, unsigned list)
{
	struct tauti_lru_item *items = lru->items;
	uint32_t head = head_of(lru, list);

	items[item].older = items[head].older;
	items[item].newer = head;
	items[items[head].older].newer = item;
	items[head].older = item;
	items[item].list = (unsigned char)list;
	if (list == ACTIVE)
		lru->active_bytes += items[item].bytes;
}

static void take_out(struct tauti_lru *lru, uint32_t item)
{
	struct tauti_lru_item *at = &lru->items[item];

	lru->items[at->older].newer = at->newer;
	lru->items[at->newer].older = at->older;
	if (at->list == ACTIVE)
		lru->active_bytes -= at->bytes;
	at->list = GONE;
}

/* Until inactive is large enough beside active; 0: it need not be. */
static void balance(struct tauti_lru *lru)
{
	while (lru->active_bytes &&
		lru->active_bytes >
			lru->ratio * (lru->kept_bytes - lru->active_bytes)) {
		uint32_t item = oldest(lru, ACTIVE);

		take_out(lru, item);
		put_newest(lru, item, INACTIVE);
	}
}

/* The inactive end goes, and remembers when: by how much went or became active before. */
static void make_room(struct tauti_lru *lru, uint64_t bytes)
{
	while (lru->kept_bytes + bytes > lru->capacity_bytes) {
		uint32_t item;

		if (lru->kind == TAUTI_LRU_LINUX)
			balance(lru);
		item = oldest(lru, INACTIVE);
		take_out(lru, item);
		lru->items[item].gone_at = lru->moved_bytes + 1;
		lru->kept_bytes -= lru->items[item].bytes;
		lru->moved_bytes += lru->items[item].bytes;
	}
}

static bool hit(struct tauti_lru *lru, uint32_t item)
{
	struct tauti_lru_item *at = &lru->items[item];
	bool rises = lru->kind == TAUTI_LRU_LINUX && at->list == INACTIVE;
	unsigned list = lru->kind == TAUTI_LRU_LINUX ? ACTIVE : INACTIVE;

	if (rises)
		lru->moved_bytes += at->bytes;
	take_out(lru, item);
	put_newest(lru, item, list);
	return true;
}

/* It went so lately that it would still be there if what is active had made room. */
static bool comes_back_soon(const struct tauti_lru *lru, const struct tauti_lru_item *at)
{
	return lru->kind == TAUTI_LRU_LINUX && at->gone_at &&
		lru->moved_bytes + 1 - at->gone_at <= lru->active_bytes;
}

bool tauti_lru_touch(struct tauti_lru *lru, uint32_t item, uint64_t bytes)
{
	struct tauti_lru_item *at = &lru->items[item];
	bool soon;

	if (at->list != GONE)
		return hit(lru, item);
	if (bytes > lru->capacity_bytes)
		return false;
	soon = comes_back_soon(lru, at);
	at->bytes = bytes;
	make_room(lru, bytes);
	lru->kept_bytes += bytes;
	if (soon)
		lru->moved_bytes += bytes;
	put_newest(lru, item, soon ? ACTIVE : INACTIVE);
	return false;
}

bool tauti_lru_has(const struct tauti_lru *lru, uint32_t item)
{
	return lru->items[item].list != GONE;
}

/* The root of ten times the gibibytes, 1 below a tenth of one: mm/vmscan.c. */
static uint64_t kernel_ratio(uint64_t bytes)
{
	uint64_t tens = bytes * 10 >> 30, root = 1;

	while ((root + 1) * (root + 1) <= tens)
		root++;
	return root;
}

taut_status tauti_lru_init(struct tauti_lru *lru, enum tauti_lru_kind kind,
	uint32_t n_items, uint64_t capacity_bytes, struct taut_error *err)
{
	struct tauti_lru_item *items = calloc((size_t)n_items + 2, sizeof *items);

	if (!items)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"page cache: no memory for %u items", n_items);
	for (uint32_t i = n_items; i - n_items < 2; i++)
		items[i].newer = items[i].older = i;
	*lru = (struct tauti_lru){
		.kind = kind,
		.n_items = n_items,
		.capacity_bytes = capacity_bytes,
		.ratio = kernel_ratio(capacity_bytes),
		.items = items,
	};
	return TAUT_OK;
}

void tauti_lru_fini(struct tauti_lru *lru)
{
	free(lru->items);
	*lru = (struct tauti_lru){ .items = NULL };
}
