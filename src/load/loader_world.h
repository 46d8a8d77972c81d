/* loader_world.h - a small set on the disk, and loaders over it whose every sample is known:
 * items are raw pictures whose bytes a formula gives. */
#ifndef TAUT_LOAD_LOADER_WORLD_H
#define TAUT_LOAD_LOADER_WORLD_H

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <taut/load.h>

#include "load/order.h"
#include "load/store.h"

enum {
	SIDE = 4, /* pictures of 4 by 4 pixels */
	ITEM_BYTES = SIDE * SIDE * 3,
	CLASSES = 3,
};

struct world {
	char folder[64];
	uint32_t n_items;
	struct taut_arena *arena;
	const struct taut_set *set;
};

static inline void item_path(const struct world *w, uint32_t item, char *into, size_t room)
{
	uint32_t each = (w->n_items + CLASSES - 1) / CLASSES;

	snprintf(into, room, "%s/%u/%05u.png", w->folder, item / each, item);
}

/* Byte k of an item: what the null store makes up for the file of the same number. */
static inline unsigned char item_byte(uint64_t item, uint32_t k)
{
	return (unsigned char)(tauti_store_word(item, k / 8) >> k % 8 * 8);
}

static inline void write_item(const struct world *w, uint32_t item, uint32_t bytes)
{
	char path[128];
	FILE *out;

	item_path(w, item, path, sizeof path);
	out = fopen(path, "wb");
	assert_non_null(out);
	for (uint32_t k = 0; k < bytes; k++)
		fputc(item_byte(item, k), out);
	assert_int_equal(fclose(out), 0);
}

static inline void open_set(struct world *w)
{
	const char *paths[] = { w->folder };
	struct taut_error err = { .offset = -1 };

	w->arena = taut_arena_create();
	assert_non_null(w->arena);
	if (taut_set_open(paths, 1, NULL, w->arena, &w->set, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	assert_int_equal(taut_set_count(w->set), w->n_items);
}

/* Items listed in `broken` have half of their bytes; the list ends with TAUT_NONE. */
static inline void world_init(struct world *w, uint32_t n_items, const uint32_t *broken)
{
	char path[128];

	memset(w, 0, sizeof *w);
	w->n_items = n_items;
	strcpy(w->folder, "/tmp/taut-load-XXXXXX");
	assert_non_null(mkdtemp(w->folder));
	for (uint32_t i = 0; i < CLASSES; i++) {
		snprintf(path, sizeof path, "%s/%u", w->folder, i);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	for (uint32_t i = 0; i < n_items; i++)
		write_item(w, i, ITEM_BYTES);
	for (; broken && *broken != TAUT_NONE; broken++)
		write_item(w, *broken, ITEM_BYTES / 2);
	open_set(w);
}

static inline void world_fini(struct world *w)
{
	char path[128];

	taut_arena_destroy(w->arena);
	for (uint32_t i = 0; i < w->n_items; i++) {
		item_path(w, i, path, sizeof path);
		unlink(path);
	}
	for (uint32_t i = 0; i < CLASSES; i++) {
		snprintf(path, sizeof path, "%s/%u", w->folder, i);
		rmdir(path);
	}
	assert_int_equal(rmdir(w->folder), 0);
}

static const struct taut_prepare_options as_they_are = {
	.format = "raw",
	.height = SIDE,
	.width = SIDE,
	.crop = TAUT_CROP_NONE,
};

static inline struct taut_load *make_loader(
	const struct world *w, struct taut_load_options options)
{
	struct taut_error err = { .offset = -1 };
	struct taut_load *load = NULL;

	if (!options.prepare)
		options.prepare = &as_they_are;
	if (!options.n_workers)
		options.n_workers = 2;
	if (taut_load_create(w->set, &options, &load, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	return load;
}

/* NULL: the end of the epoch. */
static inline struct taut_batch *next_batch(struct taut_load *load)
{
	struct taut_error err = { .offset = -1 };
	struct taut_batch *batch = NULL;

	if (taut_load_next(load, -1, &batch, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	return batch;
}

/* Every sample of it is its item's bytes and label. */
static inline void check_samples(const struct world *w, const struct taut_batch *batch)
{
	uint32_t each = (w->n_items + CLASSES - 1) / CLASSES, wrong = 0;

	assert_int_equal(batch->sample_bytes, ITEM_BYTES);
	assert_int_equal((uintptr_t)batch->data % 64, 0);
	for (uint32_t i = 0; i < batch->count; i++) {
		const unsigned char *sample = batch->data;

		sample += i * batch->sample_bytes;
		for (uint32_t k = 0; k < ITEM_BYTES; k++)
			wrong += sample[k] != item_byte(batch->items[i], k);
		wrong += batch->labels[i] != (int64_t)(batch->items[i] / each);
	}
	assert_int_equal(wrong, 0);
}

#endif /* TAUT_LOAD_LOADER_WORLD_H */
