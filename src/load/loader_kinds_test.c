/* Loaders of what is no image, and stages: the same batches for any number of workers, each
 * length beside its sample, and faults of stages where they belong. */
#include "load/loader_world.h"

#include <stdatomic.h>

#include "base/hash.h"
#include "load/kinds/made_npy.h"
#include "load/kinds/made_sound.h"

enum { N = 61, TEXT = 16, MOST = 4096 };

/* --- items --------------------------------------------------------------------------------*/
typedef size_t (*item_fn)(uint32_t item, unsigned char *into);

static size_t text_bytes(uint32_t item)
{
	return item * 7 % 23;
}

static size_t put_text(uint32_t item, unsigned char *into)
{
	for (size_t k = 0; k < text_bytes(item); k++)
		into[k] = (unsigned char)('a' + (item + k) % 26);
	return text_bytes(item);
}

static size_t put_npy(uint32_t item, unsigned char *into)
{
	float numbers[6] = { (float)item, 1, 2, 3, 4, 5 };
	struct made_npy made = made_npy("<f4", "2, 3", numbers, sizeof numbers);
	size_t n = made.n;

	memcpy(into, made.bytes, n);
	free(made.bytes);
	return n;
}

static size_t put_sound(uint32_t item, unsigned char *into)
{
	struct made_sound made = made_wav_tone(8000, 1 + item % 2, 300 + item * 5);
	size_t n = made.n;

	memcpy(into, made.bytes, n);
	free(made.bytes);
	return n;
}

static void put_world(struct world *w, uint32_t n_items, item_fn put)
{
	unsigned char bytes[MOST];
	char path[128];

	memset(w, 0, sizeof *w);
	w->n_items = n_items;
	strcpy(w->folder, "/tmp/taut-load-XXXXXX");
	assert_non_null(mkdtemp(w->folder));
	for (uint32_t i = 0; i < CLASSES; i++) {
		snprintf(path, sizeof path, "%s/%u", w->folder, i);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	for (uint32_t i = 0; i < n_items; i++) {
		size_t n = put(i, bytes);
		FILE *out;

		item_path(w, i, path, sizeof path);
		out = fopen(path, "wb");
		assert_non_null(out);
		assert_int_equal(fwrite(bytes, 1, n, out), n);
		assert_int_equal(fclose(out), 0);
	}
	open_set(w);
}

static const struct taut_prepare_options texts = {
	.kind = TAUT_KIND_TENSOR,
	.format = "raw",
	.n_dims = 1,
	.dims = { TEXT },
	.varies = true,
	.cut = TAUT_CUT_RANDOM,
};

/* --- the same batches ----------------------------------------------------------------------*/
static uint64_t mix_bytes(uint64_t x, const void *bytes, size_t n)
{
	return tauti_hash_mix(x ^ TAUTI_HASH_A, tauti_hash(bytes, n) ^ TAUTI_HASH_B);
}

/* Of all that two epochs give. */
static uint64_t epochs_of(const struct world *w, const struct taut_load_options *o)
{
	struct taut_load *load = make_loader(w, *o);
	struct taut_batch *batch;
	uint64_t x = 1;

	for (int epoch = 0; epoch < 2; epoch++)
		while ((batch = next_batch(load))) {
			x = mix_bytes(x, batch->data, batch->count * batch->sample_bytes);
			x = mix_bytes(x, batch->items, batch->count * sizeof *batch->items);
			x = mix_bytes(x, batch->labels, batch->count * sizeof *batch->labels);
			if (batch->lengths)
				x = mix_bytes(x, batch->lengths,
					batch->count * sizeof *batch->lengths);
			taut_batch_release(batch);
		}
	taut_load_destroy(load);
	return x;
}

static taut_status draw_byte(void *context, const struct taut_stage_item *item, void *sample,
	struct taut_error *err)
{
	(void)context;
	(void)err;
	((unsigned char *)sample)[0] ^= (unsigned char)item->draw;
	return TAUT_OK;
}

static void check_workers(item_fn put, struct taut_prepare_options prepare)
{
	struct taut_load_options o = { .prepare = &prepare, .batch = 7, .shuffle = true,
		.seed = 4, .n_workers = 1 };
	uint64_t wanted;
	struct world w;

	put_world(&w, N, put);
	wanted = epochs_of(&w, &o);
	for (uint32_t n = 2; n < 7; n += 2) {
		o.n_workers = n;
		o.depth = n;
		o.n_reads = 3 * n;
		assert_int_equal(epochs_of(&w, &o), wanted);
	}
	o.seed = 5;
	assert_int_not_equal(epochs_of(&w, &o), wanted);
	world_fini(&w);
}

static bool has_sound(void)
{
	struct tauti_audio_libs libs;

	if (tauti_audio_open(TAUTI_SNDFILE, TAUTI_SOXR, &libs, NULL) != TAUT_OK)
		return false;
	tauti_audio_close(&libs);
	return true;
}

static void test_workers(void **state)
{
	struct taut_prepare_options npy = { .kind = TAUT_KIND_TENSOR, .as_first = true };
	struct taut_prepare_options staged = texts;
	struct taut_prepare_options sound = { .kind = TAUT_KIND_AUDIO, .samples = 256,
		.cut = TAUT_CUT_RANDOM, .rate = 6000 };

	(void)state;
	check_workers(put_text, texts);
	check_workers(put_npy, npy);
	staged.stage = draw_byte;
	check_workers(put_text, staged);
	if (has_sound())
		check_workers(put_sound, sound);
}

/* --- lengths --------------------------------------------------------------------------------*/
static void check_text(const struct taut_batch *batch, uint32_t i)
{
	const char *sample = (const char *)batch->data + i * TEXT;
	uint32_t item = (uint32_t)batch->items[i];
	size_t whole = text_bytes(item), n = whole < TEXT ? whole : TEXT;

	assert_int_equal(batch->lengths[i], n);
	for (size_t k = n; k < TEXT; k++)
		assert_int_equal(sample[k], 0);
	for (size_t k = 1; k < n; k++)
		assert_int_equal((sample[k] - sample[k - 1] + 26) % 26, 1);
	if (n && whole <= TEXT)
		assert_int_equal(sample[0], 'a' + item % 26);
}

/* Those that are left out take their lengths with them. */
static taut_status refuse_some(void *context, const struct taut_stage_item *item,
	void *sample, struct taut_error *err)
{
	(void)context;
	(void)sample;
	assert_int_equal(*item->length, text_bytes((uint32_t)item->number) < TEXT ?
		text_bytes((uint32_t)item->number) : TEXT);
	if (item->number % 5)
		return TAUT_OK;
	return item->number % 2 ? TAUT_EAGAIN : taut_error_set(err, TAUT_EINVAL, -1, "no 5");
}

static void test_lengths(void **state)
{
	struct taut_prepare_options prepare = texts;
	struct taut_load_options o = { .prepare = &prepare, .batch = 8, .max_skipped = N };
	struct taut_dlpack *tensor = NULL;
	struct taut_batch *batch;
	struct taut_load *load;
	uint32_t n = 0;
	struct world w;

	(void)state;
	prepare.stage = refuse_some;
	put_world(&w, N, put_text);
	load = make_loader(&w, o);
	while ((batch = next_batch(load))) {
		for (uint32_t i = 0; i < batch->count; i++)
			check_text(batch, i);
		n += batch->count;
		assert_int_equal(taut_batch_dlpack(
			batch, TAUT_BATCH_LENGTHS, &tensor, NULL), TAUT_OK);
		assert_ptr_equal(*(void **)tensor, batch->lengths);
		taut_dlpack_delete(tensor);
		taut_batch_release(batch);
	}
	assert_int_equal(n, N - 13);
	taut_load_destroy(load);
	world_fini(&w);
}

/* Samples without lengths have none to lend. */
static void test_no_lengths(void **state)
{
	struct taut_dlpack *tensor = NULL;
	struct taut_error err;
	struct taut_batch *batch;
	struct taut_load *load;
	struct world w;

	(void)state;
	world_init(&w, 8, NULL);
	load = make_loader(&w, (struct taut_load_options){ .batch = 8 });
	batch = next_batch(load);
	assert_null(batch->lengths);
	assert_int_equal(
		taut_batch_dlpack(batch, TAUT_BATCH_LENGTHS, &tensor, &err), TAUT_EINVAL);
	assert_null(tensor);
	taut_batch_release(batch);
	taut_load_destroy(load);
	world_fini(&w);
}

/* --- a stage of items -----------------------------------------------------------------------*/
struct own {
	atomic_uint calls;
};

/* The sample of an item is its bytes turned around, and its number. */
static taut_status turn_around(void *context, const struct taut_stage_item *item,
	void *sample, struct taut_error *err)
{
	struct own *own = context;
	unsigned char *to = sample;
	const unsigned char *from = item->bytes;

	(void)err;
	atomic_fetch_add(&own->calls, 1);
	assert_int_equal(item->sample_bytes, ITEM_BYTES + 1);
	assert_int_equal(item->n_bytes, ITEM_BYTES);
	assert_non_null(strstr(item->name, ".png"));
	for (int k = 0; k <= ITEM_BYTES; k++)
		assert_int_equal(to[k], 0);
	for (int k = 0; k < ITEM_BYTES; k++)
		to[k] = from[ITEM_BYTES - 1 - k];
	to[ITEM_BYTES] = (unsigned char)(item->number + (uint64_t)item->label);
	return TAUT_OK;
}

static void test_own(void **state)
{
	struct own own = { 0 };
	struct taut_prepare_options prepare = { .kind = TAUT_KIND_OWN, .n_dims = 1,
		.dims = { ITEM_BYTES + 1 }, .stage = turn_around, .stage_context = &own };
	struct taut_load_options o = { .prepare = &prepare, .batch = 6, .n_workers = 3 };
	struct taut_batch *batch;
	struct taut_load *load;
	struct world w;

	(void)state;
	world_init(&w, 20, NULL);
	load = make_loader(&w, o);
	for (int turn = 0; turn < 3; turn++)
		while ((batch = next_batch(load))) {
			for (uint32_t i = 0; i < batch->count; i++) {
				const unsigned char *sample = batch->data;

				sample += i * batch->sample_bytes;
				for (uint32_t k = 0; k < ITEM_BYTES; k++)
					assert_int_equal(sample[k], item_byte(
						batch->items[i], ITEM_BYTES - 1 - k));
				assert_int_equal(sample[ITEM_BYTES],
					batch->items[i] + (uint64_t)batch->labels[i]);
			}
			taut_batch_release(batch);
		}
	taut_load_destroy(load);
	assert_true(own.calls >= 60);
	world_fini(&w);
}

static taut_status say(void *context, const struct taut_stage_item *item, void *sample,
	struct taut_error *err)
{
	const char *line = context;

	(void)sample;
	if (item->number != 3)
		return TAUT_OK;
	if (item->length && !line)
		*item->length = TEXT + 1;
	else
		taut_error_set(err, TAUT_EINVAL, -1, "%s", line);
	return line ? TAUT_EINVAL : TAUT_OK;
}

static void check_line(const struct world *w, struct taut_prepare_options prepare,
	const char *expected)
{
	struct taut_load_options o = { .prepare = &prepare, .batch = 5 };
	struct taut_error err = { .offset = -1 };
	struct taut_batch *batch = NULL;
	struct taut_load *load;
	char line[256], path[128];

	prepare.stage = say;
	load = make_loader(w, o);
	item_path(w, 3, path, sizeof path);
	snprintf(line, sizeof line, "%s: stage: %s", path, expected);
	assert_int_equal(taut_load_next(load, -1, &batch, &err), TAUT_EFORMAT);
	assert_string_equal(err.message, line);
	taut_load_destroy(load);
}

static void test_lines(void **state)
{
	struct taut_prepare_options prepare = texts;
	struct world w;

	(void)state;
	put_world(&w, 9, put_text);
	prepare.stage_context = (void *)(uintptr_t)"I do not like it";
	check_line(&w, prepare, "I do not like it");
	prepare.stage_context = (void *)(uintptr_t)"";
	check_line(&w, prepare, "invalid argument");
	prepare.stage_context = NULL;
	check_line(&w, prepare, "the length is 17, expected 0 to 16");
	world_fini(&w);
}

/* --- a stage of batches ----------------------------------------------------------------------*/
struct staged {
	atomic_uint calls;
	atomic_uint_fast64_t faulty; /* batch */
};

static taut_status stage_batch(void *context, struct taut_batch *batch, struct taut_error *err)
{
	struct staged *staged = context;
	unsigned char *data = batch->data;

	atomic_fetch_add(&staged->calls, 1);
	if (batch->number % 3 == 0)
		usleep(2000);
	if (batch->number == staged->faulty)
		return taut_error_set(err, TAUT_EIO, -1, "not this one");
	for (uint64_t k = 0; k < batch->count * batch->sample_bytes; k++)
		data[k] = (unsigned char)~data[k];
	for (uint32_t i = 0; i < batch->count; i++)
		batch->labels[i] += 1000;
	return TAUT_OK;
}

/* Undoes the stage: once too few or too many is seen by who looks at the samples. */
static void check_staged(const struct world *w, struct taut_batch *batch)
{
	unsigned char *data = batch->data;

	for (uint64_t k = 0; k < batch->count * batch->sample_bytes; k++)
		data[k] = (unsigned char)~data[k];
	for (uint32_t i = 0; i < batch->count; i++)
		batch->labels[i] -= 1000;
	check_samples(w, batch);
}

static void test_batches(void **state)
{
	struct staged staged = { .faulty = UINT64_MAX };
	struct taut_load_options o = { .batch = 6, .n_workers = 3, .depth = 5, .shuffle = true,
		.batch_stage = stage_batch, .batch_stage_context = &staged };
	struct taut_batch *batch;
	struct taut_load *load;
	struct world w;

	(void)state;
	world_init(&w, 50, NULL);
	load = make_loader(&w, o);
	for (uint64_t epoch = 0; epoch < 6; epoch++) {
		uint64_t number = 0;

		while ((batch = next_batch(load))) {
			assert_int_equal(batch->number, number++);
			assert_int_equal(batch->epoch, epoch);
			check_staged(&w, batch);
			taut_batch_release(batch);
		}
		assert_int_equal(number, 9);
		if (epoch == 2) /* while some are under way */
			assert_int_equal(taut_load_seek(load, 3, NULL), TAUT_OK);
	}
	taut_load_destroy(load);
	world_fini(&w);
}

/* In its place, again and again; and not after a seek. */
static void test_faulty_batch(void **state)
{
	struct staged staged = { .faulty = 3 };
	struct taut_load_options o = { .batch = 6, .n_workers = 3, .max_skipped = 50,
		.batch_stage = stage_batch, .batch_stage_context = &staged };
	struct taut_error err = { .offset = -1 };
	struct taut_batch *batch = NULL;
	struct taut_load *load;
	struct world w;

	(void)state;
	world_init(&w, 50, NULL);
	load = make_loader(&w, o);
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < 3; i++) {
			batch = next_batch(load);
			check_staged(&w, batch);
			taut_batch_release(batch);
		}
		for (int i = 0; i < 2; i++) {
			assert_int_equal(
				taut_load_next(load, -1, &batch, &err), TAUT_EFORMAT);
			assert_string_equal(err.message, turn == 2 ?
				"loader: stage of batch 3 of epoch 1: not this one" :
				"loader: stage of batch 3 of epoch 0: not this one");
		}
		assert_int_equal(taut_load_seek(load, turn == 1, NULL), TAUT_OK);
	}
	staged.faulty = UINT64_MAX;
	assert_int_equal(taut_load_seek(load, 7, NULL), TAUT_OK);
	while ((batch = next_batch(load)))
		taut_batch_release(batch);
	taut_load_destroy(load);
	world_fini(&w);
}

/* --- shared -----------------------------------------------------------------------------------*/
static void test_share(void **state)
{
	struct taut_prepare_options prepare = texts;
	struct taut_load_options o = { .prepare = &prepare, .batch = 8, .shuffle = true,
		.seed = 9, .share_bytes = 1 << 16 };
	struct taut_error err = { .offset = -1 };
	struct taut_load *load[2], *none = NULL;
	struct taut_load_counts counts;
	struct taut_batch *batch;
	uint64_t copied = 0;
	struct world w;

	(void)state;
	put_world(&w, N, put_text);
	prepare.stage = draw_byte;
	assert_int_equal(taut_load_create(w.set, &o, &none, &err), TAUT_EINVAL);
	assert_string_equal(err.message, "loader: share_bytes with a stage that has no name: "
		"expected stage_name, the same in all loaders whose stages do the same");
	prepare.stage = NULL;
	load[0] = make_loader(&w, o);
	load[1] = make_loader(&w, o);
	for (uint32_t b = 0; b < (N + 7) / 8; b++)
		for (int i = 0; i < 2; i++) {
			batch = next_batch(load[i]);
			for (uint32_t k = 0; k < batch->count; k++)
				check_text(batch, k);
			taut_batch_release(batch);
		}
	for (int i = 0; i < 2; i++) {
		taut_load_counts(load[i], &counts);
		copied += counts.share_copied;
	}
	assert_true(copied > 0);
	taut_load_destroy(load[0]);
	taut_load_destroy(load[1]);
	world_fini(&w);
}

/* --- the first item -----------------------------------------------------------------------------*/
static void test_first(void **state)
{
	struct taut_prepare_options prepare = { .kind = TAUT_KIND_TENSOR, .as_first = true };
	struct taut_load_options o = { .prepare = &prepare, .batch = 8 };
	struct taut_error err = { .offset = -1 };
	struct taut_prepare_shape shape;
	struct taut_load *load;
	char path[128], line[256];
	struct world w;

	(void)state;
	put_world(&w, 9, put_npy);
	load = make_loader(&w, o);
	taut_load_shape(load, &shape);
	assert_int_equal(shape.type, TAUT_PIXEL_F32);
	assert_int_equal(shape.n_dims, 2);
	assert_int_equal(shape.dims[0] * 10 + shape.dims[1], 23);
	assert_int_equal(shape.bytes, 24);
	taut_load_destroy(load);
	item_path(&w, 0, path, sizeof path);
	assert_int_equal(unlink(path), 0);
	load = NULL;
	assert_int_equal(taut_load_create(w.set, &o, &load, &err), TAUT_EIO);
	snprintf(line, sizeof line, "%s: the first item cannot be read: No such file or "
		"directory", path);
	assert_string_equal(err.message, line);
	assert_null(load);
	world_fini(&w);
	put_world(&w, 9, put_text);
	assert_int_equal(taut_load_create(w.set, &o, &load, &err), TAUT_EFORMAT);
	assert_non_null(strstr(err.message, ".png: npy: byte 0: expected a file of .npy"));
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_workers),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_no_lengths),
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_faulty_batch),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
