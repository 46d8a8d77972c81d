/* lru.h - what a page cache would keep: for predictions beside cache_words.h.
 *
 *   exact   one list by last use; the least recently used go until there is room
 *   linux   two lists, as the kernel keeps the pages of files (mm/swap.c, mm/vmscan.c,
 *           mm/workingset.c of Linux 6): what is read first is inactive; read again while
 *           there, or again so soon after it went that more active room would have held
 *           it, it becomes active. The inactive end goes first; when active is more than
 *           ratio times inactive, its end becomes inactive. Whole items here, pages there.
 *
 * Counted in bytes. An item that is larger than the capacity passes by: it is never kept
 * and nothing goes for it. O(1) a touch, but for what goes. 32 bytes an item.
 *
 * Owner: whoever holds the struct. Threads: one at a time. */
#ifndef TAUT_LOAD_LRU_H
#define TAUT_LOAD_LRU_H

#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

enum tauti_lru_kind { TAUTI_LRU_EXACT, TAUTI_LRU_LINUX };

struct tauti_lru_item {
	uint32_t newer, older; /* in its list, a ring with the list's own item */
	uint64_t bytes;
	uint64_t gone_at; /* moved_bytes when it went, plus 1; 0: never */
	unsigned char list; /* 0: not kept */
};

struct tauti_lru {
	enum tauti_lru_kind kind;
	uint32_t n_items;
	uint64_t capacity_bytes, kept_bytes;
	uint64_t active_bytes;
	uint64_t moved_bytes; /* that went, or became active, so far */
	uint64_t ratio; /* active : inactive, of TAUTI_LRU_LINUX */
	struct tauti_lru_item *items; /* n_items, then the two lists' own */
};

/* Empty. The ratio of TAUTI_LRU_LINUX is the kernel's for a cache of that size. */
TAUT_NODISCARD taut_status tauti_lru_init(struct tauti_lru *lru,
	enum tauti_lru_kind kind, uint32_t n_items, uint64_t capacity_bytes,
	struct taut_error *err);
void tauti_lru_fini(struct tauti_lru *lru);

/* Reads an item of so many bytes, the same at each touch: whether it was a hit. */
bool tauti_lru_touch(struct tauti_lru *lru, uint32_t item, uint64_t bytes);
bool tauti_lru_has(const struct tauti_lru *lru, uint32_t item);

#endif /* TAUT_LOAD_LRU_H */
