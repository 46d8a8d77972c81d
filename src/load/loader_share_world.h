/* loader_share_world.h - what tests of shared samples have in common: samples that depend on
 * epoch and item, what a loader that shares nothing makes of them, and a job that goes
 * through some epochs and notes what it got. */
#ifndef TAUT_LOAD_LOADER_SHARE_WORLD_H
#define TAUT_LOAD_LOADER_SHARE_WORLD_H

#include "load/loader_world.h"

#include <stdatomic.h>

#include "base/hash.h"
#include "base/now.h"
#include "load/draw.h"

enum { SHARE_ITEMS = 90, SHARE_EPOCHS = 4, SHARE_DEPTH = 3 };

#define SHARE_SECOND_NS INT64_C(1000000000)

/* Turned and coloured by chance: another sample in each epoch. */
static const struct taut_prepare_options share_prepare = {
	.format = "raw",
	.height = SIDE,
	.width = SIDE,
	.crop = TAUT_CROP_NONE,
	.flip = 0.5,
	.brightness = 0.5,
	.hue = 0.3,
};

struct share_sums {
	uint64_t of[SHARE_EPOCHS][SHARE_ITEMS];
};

/* What one job got. */
struct share_log {
	_Atomic uint8_t seen[SHARE_EPOCHS][SHARE_ITEMS];
	_Atomic uint32_t wrong, batches;
	struct taut_load_counts counts;
	char line[160];
};

static inline uint64_t share_sum(const struct taut_batch *batch, uint32_t i)
{
	const char *data = batch->data;

	return tauti_hash(data + i * batch->sample_bytes, batch->sample_bytes) ^
		(uint64_t)batch->labels[i] << 48;
}

static inline void share_note(struct share_log *log, const struct taut_batch *batch,
	const struct share_sums *sums)
{
	for (uint32_t i = 0; i < batch->count; i++) {
		uint64_t item = batch->items[i], epoch = batch->epoch;

		if (epoch >= SHARE_EPOCHS || item >= SHARE_ITEMS) {
			log->wrong++;
			continue;
		}
		log->seen[epoch][item]++;
		log->wrong += sums->of[epoch][item] != share_sum(batch, i);
	}
	log->batches++;
}

/* Goes through `epochs` epochs. False: it has no batch in a minute, or an error: the line. */
static inline bool share_go(struct taut_load *load, uint32_t epochs, struct share_log *log,
	const struct share_sums *sums, uint32_t sleep_us, struct tauti_draw *draw)
{
	struct taut_error err = { .offset = -1 };
	struct taut_batch *batch;

	while (epochs) {
		if (taut_load_next(load, 60 * SHARE_SECOND_NS, &batch, &err) != TAUT_OK) {
			memcpy(log->line, err.message, sizeof log->line - 1);
			log->wrong++;
			return false;
		}
		if (!batch) {
			epochs--;
			continue;
		}
		share_note(log, batch, sums);
		if (sleep_us)
			usleep((useconds_t)tauti_draw_below(draw, sleep_us));
		taut_batch_release(batch);
	}
	return true;
}

/* Of a loader that shares nothing. */
static inline void share_reference(
	const struct world *w, uint64_t seed, struct share_sums *ret_sums)
{
	struct taut_load *load = make_loader(w, (struct taut_load_options){
		.prepare = &share_prepare, .seed = seed, .shuffle = true });

	for (uint32_t epoch = 0; epoch < SHARE_EPOCHS;) {
		struct taut_batch *batch = next_batch(load);

		epoch += !batch;
		for (uint32_t i = 0; batch && i < batch->count; i++)
			ret_sums->of[batch->epoch][batch->items[i]] =
				share_sum(batch, i);
		taut_batch_release(batch);
	}
	taut_load_destroy(load);
}

/* Until all that the loader makes ahead is made: then what it counts is known. */
static inline bool share_settle(struct taut_load *load, uint64_t samples,
	struct taut_load_counts *ret_counts)
{
	int64_t until_ns = tauti_now_ns() + 60 * SHARE_SECOND_NS;

	do {
		taut_load_counts(load, ret_counts);
		if (ret_counts->share_made + ret_counts->share_copied +
			ret_counts->share_alone >= samples)
			return true;
		usleep(500);
	} while (tauti_now_ns() < until_ns);
	return false;
}

#endif /* TAUT_LOAD_LOADER_SHARE_WORLD_H */
