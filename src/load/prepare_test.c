/* All of preparing, against decoding, cropping and resizing the slow way. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "load/image/crop.h"
#include "load/image/decoder.h"
#include "load/image/exif.h"
#include "load/image/made.h"
#include "load/prepare.h"
#include "tests/support/alloc_fail.h"

static struct tauti_draw draw_of(uint64_t item)
{
	return tauti_draw_begin(5, 1, item);
}

/* A prepared item; the caller frees it. */
static void *prepared(const struct taut_prepare_options *options,
	const struct made *made, uint64_t item)
{
	struct tauti_prepare *p = NULL;
	struct taut_error err = { 0 };
	void *slot = malloc(taut_prepare_slot_bytes(options));

	if (tauti_prepare_create(options, &p, &err) ||
		tauti_prepare_image(p, made->bytes, made->n, "made",
			draw_of(item), slot, &err))
		fail_msg("%s", err.message);
	tauti_prepare_destroy(p);
	return slot;
}

static void refused(const struct taut_prepare_options *options,
	const struct made *made, taut_status code, const char *message)
{
	struct tauti_prepare *p = NULL;
	struct taut_error err = { 0 };
	void *slot = malloc(taut_prepare_slot_bytes(options));

	assert_int_equal(tauti_prepare_create(options, &p, &err), TAUT_OK);
	assert_int_equal(tauti_prepare_image(p, made->bytes, made->n, "a/b.jpg",
		draw_of(0), slot, &err), code);
	assert_string_equal(err.message, message);
	assert_int_equal(tauti_prepare_counts(p).faults, 1);
	assert_int_equal(tauti_prepare_counts(p).images, 0);
	tauti_prepare_destroy(p);
	free(slot);
}

/* --- the slow way ------------------------------------------------------------------------*/

/* The value at one output pixel of a side, in double. */
static double filtered(const struct tauti_side *side, uint32_t i,
	const double *values, size_t step)
{
	double scale = (double)side->size / side->whole, sum = 0, weights = 0;
	double half = scale > 1 ? scale : 1;
	double centre = (side->first + i + 0.5) * scale;

	for (uint32_t x = 0; x < side->size; x++) {
		double weight = 1 - fabs(x + 0.5 - centre) / half;

		if (weight > 0) {
			sum += weight * values[(side->from + x) * step];
			weights += weight;
		}
	}
	return sum / weights;
}

/* Of pixels of height x width, without rounding in between. */
static double *resized(const struct tauti_crop *crop, const unsigned char *pixels,
	uint32_t height, uint32_t width, uint32_t out_height, uint32_t out_width)
{
	size_t n = (size_t)height * width * 3;
	double *all = malloc(n * sizeof *all);
	double *wide = malloc((size_t)height * out_width * 3 * sizeof *wide);
	double *out = malloc((size_t)out_height * out_width * 3 * sizeof *out);

	for (size_t i = 0; i < n; i++)
		all[i] = pixels[i];
	for (uint32_t y = 0; y < height; y++)
		for (uint32_t x = 0; x < out_width * 3; x++)
			wide[(size_t)y * out_width * 3 + x] = filtered(
				&crop->across, x / 3,
				all + (size_t)y * width * 3 + x % 3, 3);
	for (uint32_t y = 0; y < out_height; y++)
		for (uint32_t x = 0; x < out_width * 3; x++)
			out[(size_t)y * out_width * 3 + x] = filtered(&crop->down,
				y, wide + x, (size_t)out_width * 3);
	free(all);
	free(wide);
	return out;
}

/* All pixels of an image, as it is. */
static unsigned char *decoded(
	const struct made *made, uint32_t height, uint32_t width)
{
	struct taut_prepare_options o = { .height = height, .width = width,
		.crop = TAUT_CROP_NONE };

	return prepared(&o, made, 0);
}

static void check_slow(const struct taut_prepare_options *o,
	const struct made_how *how, uint64_t item)
{
	struct taut_prepare_options all = tauti_prepare_defaults(o);
	struct made made = made_jpeg(how);
	unsigned char *got = prepared(o, &made, item);
	unsigned char *pixels = decoded(&made, how->height, how->width);
	struct tauti_draw draw = draw_of(item);
	struct tauti_crop crop;
	double *wanted;

	tauti_draw_unit(&draw); /* the flip */
	crop = tauti_crop_choose(&all, how->height, how->width, &draw);
	wanted = resized(&crop, pixels, how->height, how->width, all.height,
		all.width);

	/* Two roundings: a half each. */
	for (size_t i = 0; i < (size_t)all.height * all.width * 3; i++)
		assert_true(fabs(wanted[i] - got[i]) <= 1.001);
	free(made.bytes);
	free(got);
	free(pixels);
	free(wanted);
}

static void test_slow(void **state)
{
	struct made_how how = { .height = 130, .width = 170 };

	(void)state;
	for (uint64_t item = 0; item < 12; item++)
		for (int crop = 0; crop < TAUT_CROP_NONE; crop++) {
			struct taut_prepare_options o = { .crop = crop,
				.height = 20 + (uint32_t)item * 9,
				.width = 90 - (uint32_t)item * 7 };

			how.seed = item;
			how.across = 1 + item % 2;
			how.progressive = item % 3 == 0;
			check_slow(&o, &how, item);
		}
}

/* --- what is the same ----------------------------------------------------------------------*/

static void test_flip(void **state)
{
	struct made_how how = { .height = 90, .width = 120 };
	struct taut_prepare_options o = { .height = 33, .width = 47, .flip = 1 };
	struct taut_prepare_options never = { .height = 33, .width = 47 };
	struct made made = made_jpeg(&how);

	(void)state;
	for (uint64_t item = 0; item < 20; item++) {
		unsigned char *flipped = prepared(&o, &made, item);
		unsigned char *plain = prepared(&never, &made, item);

		for (size_t y = 0; y < 33; y++)
			for (size_t x = 0; x < 47; x++)
				assert_memory_equal(plain + (y * 47 + x) * 3,
					flipped + (y * 47 + 46 - x) * 3, 3);
		free(flipped);
		free(plain);
	}
	free(made.bytes);
}

/* Turned twice, an image is what it was. */
static void test_flip_twice(void **state)
{
	struct taut_prepare_options o = { .format = "raw", .flip = 1,
		.height = 30, .width = 41, .crop = TAUT_CROP_NONE };
	struct made_how how = { .height = 30, .width = 41 };
	struct made made = { made_pixels(&how, 3), 30 * 41 * 3 };
	struct made once = { prepared(&o, &made, 0), made.n };
	unsigned char *twice = prepared(&o, &once, 0);

	(void)state;
	assert_memory_not_equal(made.bytes, once.bytes, made.n);
	assert_memory_equal(made.bytes, twice, made.n);
	free(made.bytes);
	free(once.bytes);
	free(twice);
}

static void test_draws(void **state)
{
	struct made_how how = { .height = 90, .width = 120 };
	struct taut_prepare_options o = { .height = 16, .width = 16, .flip = 0.5,
		.brightness = 0.4, .contrast = 0.4, .saturation = 0.4,
		.hue = 0.1 };
	struct made made = made_jpeg(&how);
	unsigned char *a = prepared(&o, &made, 3), *b = prepared(&o, &made, 3);
	unsigned char *c = prepared(&o, &made, 4);

	(void)state;
	assert_memory_equal(a, b, 16 * 16 * 3);
	assert_memory_not_equal(a, c, 16 * 16 * 3);
	free(a);
	free(b);
	free(c);
	free(made.bytes);
}

/* --- types and layouts ---------------------------------------------------------------------*/

static float element(const void *slot, enum taut_prepare_type type, size_t i)
{
	float value;
	uint16_t half;

	if (type == TAUT_PIXEL_U8)
		return ((const unsigned char *)slot)[i];
	if (type == TAUT_PIXEL_F32) {
		memcpy(&value, (const char *)slot + 4 * i, 4);
		return value;
	}
	memcpy(&half, (const char *)slot + 2 * i, 2);
	return tauti_float_of(type == TAUT_PIXEL_F16 ? tauti_of_half(half) :
		tauti_of_bfloat(half));
}

/* What a type keeps of a float. */
static float kept(float value, enum taut_prepare_type type)
{
	if (type == TAUT_PIXEL_F16)
		return tauti_float_of(
			tauti_of_half(tauti_to_half(value, 0x7e00)));
	if (type == TAUT_PIXEL_BF16)
		return tauti_float_of(tauti_of_bfloat(
			tauti_to_bfloat(tauti_bits_of(value))));
	return value;
}

static void check_type(struct taut_prepare_options o, const struct made *made,
	const float *wanted)
{
	size_t plane = (size_t)o.height * o.width;
	void *got = prepared(&o, made, 1);

	assert_int_equal(taut_prepare_slot_bytes(&o),
		plane * 3 * taut_prepare_type_bytes(o.type));
	for (size_t i = 0; i < plane; i++)
		for (size_t c = 0; c < 3; c++)
			assert_true(element(got, o.type,
				o.layout == TAUT_LAYOUT_CHW ? c * plane + i :
				3 * i + c) == kept(wanted[3 * i + c], o.type));
	free(got);
}

static void test_types(void **state)
{
	struct made_how how = { .height = 90, .width = 120 };
	struct taut_prepare_options u8 = { .height = 37, .width = 45,
		.flip = 0.5 }, o = u8;
	struct made made = made_jpeg(&how);
	unsigned char *pixels = prepared(&u8, &made, 1);
	float wanted[37 * 45 * 3];

	(void)state;
	for (int c = 0; c < 3; c++) {
		o.mean[c] = 0.4f + 0.05f * (float)c;
		o.deviation[c] = 0.2f + 0.01f * (float)c;
	}
	for (size_t i = 0; i < 37 * 45 * 3; i++)
		wanted[i] = pixels[i];
	u8.layout = TAUT_LAYOUT_CHW;
	check_type(u8, &made, wanted);
	o.type = TAUT_PIXEL_F32;
	free(pixels);
	pixels = prepared(&o, &made, 1);
	for (size_t i = 0; i < 37 * 45 * 3; i++) {
		double exact = (wanted[i] / 255 - o.mean[i % 3]) /
			o.deviation[i % 3];

		wanted[i] = element(pixels, TAUT_PIXEL_F32, i);
		assert_true(fabs(wanted[i] - exact) < 1e-6);
	}
	for (o.type = TAUT_PIXEL_F32; o.type < TAUT_PIXELS; o.type++)
		for (o.layout = 0; o.layout < TAUT_LAYOUTS; o.layout++)
			check_type(o, &made, wanted);
	free(pixels);
	free(made.bytes);
}

/* --- options ---------------------------------------------------------------------------*/

/* At less than full size it is nearly the same picture. */
static void test_scaled(void **state)
{
	struct taut_prepare_options exact = { .height = 32, .width = 40,
		.crop = TAUT_CROP_CENTRE }, fast = exact;
	struct made_how how = { .height = 400, .width = 501, .quality = 95 };
	unsigned char *a, *b, slot[32 * 40 * 3];
	struct made made = made_jpeg(&how);
	struct tauti_prepare *p;
	double sum = 0;

	(void)state;
	fast.scale_in_decoder = true;
	a = prepared(&exact, &made, 0);
	b = prepared(&fast, &made, 0);
	assert_memory_not_equal(a, b, sizeof slot);
	for (size_t i = 0; i < sizeof slot; i++)
		sum += fabs((double)a[i] - b[i]) / sizeof slot;
	assert_true(sum < 3);
	assert_int_equal(tauti_prepare_create(&fast, &p, NULL), TAUT_OK);
	assert_int_equal(tauti_prepare_image(p, made.bytes, made.n, "made",
		draw_of(0), slot, NULL), TAUT_OK);
	assert_int_equal(tauti_prepare_counts(p).scaled, 1);
	assert_memory_equal(slot, b, sizeof slot);
	tauti_prepare_destroy(p);
	free(a);
	free(b);
	free(made.bytes);
}

/* Pixels as EXIF says they are shown. */
static void test_orient(void **state)
{
	struct made_how how = { .height = 24, .width = 40 };

	(void)state;
	for (unsigned way = 1; way <= 8; way++) {
		struct taut_prepare_options o = { .orient = true,
			.crop = TAUT_CROP_NONE, .height = way < 5 ? 24 : 40,
			.width = way < 5 ? 40 : 24 };
		unsigned char *plain, *got, turned[24 * 40 * 3];
		struct made made;

		how.orientation = way;
		made = made_jpeg(&how);
		plain = decoded(&made, 24, 40);
		for (uint32_t row = 0; row < 24; row++)
			tauti_orient_row(way, 24, 40, row,
				plain + row * 40 * 3, turned);
		got = prepared(&o, &made, 0);
		assert_memory_equal(got, turned, sizeof turned);
		if (way == 6) /* the first shown row is the first stored column */
			assert_memory_equal(got, plain + 23 * 40 * 3, 3);
		/* A crop of it is the same crop of what was turned. */
		o.crop = TAUT_CROP_RANDOM;
		o.height = 9;
		o.width = 11;
		free(plain);
		plain = prepared(&o, &made, 2);
		o.raw_height = way < 5 ? 24 : 40;
		o.raw_width = way < 5 ? 40 : 24;
		o.format = "raw";
		free(got);
		got = prepared(&o, &(struct made){ turned, sizeof turned }, 2);
		assert_memory_equal(got, plain, 9 * 11 * 3);
		free(plain);
		free(got);
		free(made.bytes);
	}
}

static void test_refused(void **state)
{
	struct made_how how = { .height = 30, .width = 40 };
	struct taut_prepare_options none = { .crop = TAUT_CROP_NONE };
	struct taut_prepare_options small = { .most_pixels = 1199 };
	struct taut_prepare_options png = { .format = "png" };
	struct made made = made_jpeg(&how), text = { (unsigned char *)"GIF8", 4 };

	(void)state;
	refused(&none, &made, TAUT_EFORMAT,
		"a/b.jpg: jpeg: 30 x 40 pixels, expected 224 x 224");
	refused(&small, &made, TAUT_EFORMAT,
		"a/b.jpg: jpeg: 30 x 40 pixels, expected at most 1199 in all");
	refused(NULL, &text, TAUT_EFORMAT,
		"a/b.jpg: byte 0: expected a JPEG or PNG image, found neither's "
		"first bytes (of 4)");
	refused(&png, &made, TAUT_EFORMAT,
		"a/b.jpg: png: byte 8: Not a PNG file");
	made.n = 300;
	refused(NULL, &made, TAUT_EFORMAT,
		"a/b.jpg: jpeg: byte 300: the image goes on, expected the end of "
		"the bytes after it");
	free(made.bytes);
}

static void check_options(
	const struct taut_prepare_options *o, const char *message)
{
	struct tauti_prepare *p = NULL;
	struct taut_error err = { 0 };

	assert_int_equal(tauti_prepare_create(o, &p, &err), TAUT_EINVAL);
	assert_null(p);
	assert_string_equal(err.message, message);
	assert_int_equal(taut_prepare_slot_bytes(o), 0);
}

static void test_options(void **state)
{
	struct taut_prepare_options o = { .flip = 1.5 };

	(void)state;
	check_options(&o, "prepare: flip: expected 0 to 1");
	o = (struct taut_prepare_options){ .format = "bmp" };
	check_options(&o, "prepare: format: expected jpeg, png, raw, or none");
	o = (struct taut_prepare_options){ .height = 16385 };
	check_options(&o, "prepare: height: expected at most 16384");
	o = (struct taut_prepare_options){ .hue = NAN };
	check_options(&o, "prepare: hue: expected 0 to 0.5");
	o = (struct taut_prepare_options){ .least_area = 0.5, .most_area = 0.4 };
	check_options(&o, "prepare: least_area, most_area: expected 0 < "
		"least_area <= most_area <= 1");
	o = (struct taut_prepare_options){ .mean = { 0.5f } };
	check_options(&o, "prepare: mean, deviation: expected none where the "
		"type is u8");
	assert_int_equal(taut_prepare_slot_bytes(NULL), 224 * 224 * 3);
	assert_int_equal(taut_prepare_check(NULL, NULL), TAUT_OK);
}

/* What is not worth a fault is counted, unless strict. */
static void test_warnings(void **state)
{
	struct made_how how = { .height = 64, .width = 64 };
	struct made plain = made_jpeg(&how), made;
	struct taut_prepare_options o = { .height = 8, .width = 8 };
	struct tauti_prepare *p;
	unsigned char slot[192];

	(void)state;
	/* Behind the first segment, bytes that belong to none. */
	made = (struct made){ calloc(1, plain.n + 5), plain.n + 5 };
	assert_non_null(made.bytes);
	memcpy(made.bytes, plain.bytes, 20);
	memcpy(made.bytes + 25, plain.bytes + 20, plain.n - 20);
	free(plain.bytes);
	for (int strict = 0; strict < 2; strict++) {
		taut_status wanted = strict ? TAUT_EFORMAT : TAUT_OK;

		o.strict = strict;
		assert_int_equal(tauti_prepare_create(&o, &p, NULL), TAUT_OK);
		assert_int_equal(tauti_prepare_image(p, made.bytes, made.n,
			"made", draw_of(0), slot, NULL), wanted);
		assert_int_equal(tauti_prepare_counts(p).warnings, !strict);
		tauti_prepare_destroy(p);
	}
	free(made.bytes);
}

static void test_memory(void **state)
{
	struct made_how how = { .height = 64, .width = 80, .orientation = 6 };
	struct taut_prepare_options o = { .height = 16, .width = 16,
		.orient = true, .hue = 0.1 };
	struct made made = made_jpeg(&how);
	unsigned char slot[768];
	taut_status status = TAUT_ENOMEM;
	long n = 0;

	(void)state;
	for (; status == TAUT_ENOMEM; n++) {
		struct tauti_prepare *p = NULL;
		struct taut_error err = { 0 };

		alloc_fail_after(n);
		status = tauti_prepare_create(&o, &p, &err);
		if (!status)
			status = tauti_prepare_image(p, made.bytes, made.n,
				"made", draw_of(0), slot, &err);
		alloc_fail_never();
		assert_int_equal(status, err.code);
		if (p && status) /* and once there is memory, it goes on */
			assert_int_equal(tauti_prepare_image(p, made.bytes,
				made.n, "made", draw_of(0), slot, &err), TAUT_OK);
		tauti_prepare_destroy(p);
	}
	assert_int_equal(status, TAUT_OK);
	assert_true(n > 5);
	free(made.bytes);
}

/* One object, images of all sizes: what it takes is kept, so that in the end nothing more
 * is asked for. */
static void test_kept(void **state)
{
	struct taut_prepare_options o = { .height = 32, .width = 32 };
	struct made images[6];
	struct tauti_prepare *p;
	unsigned char slot[32 * 32 * 3];

	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		struct made_how how = { .height = 30 + i * 61 % 200,
			.width = 300 - i * 37, .seed = i };

		images[i] = made_jpeg(&how);
	}
	assert_int_equal(tauti_prepare_create(&o, &p, NULL), TAUT_OK);
	for (int turn = 0; turn < 20; turn++) {
		if (turn == 19)
			alloc_fail_never(); /* counts from here */
		for (uint64_t i = 0; i < 6; i++)
			assert_int_equal(tauti_prepare_image(p, images[i].bytes,
				images[i].n, "made", draw_of(i), slot, NULL),
				TAUT_OK);
	}
	assert_int_equal(alloc_fail_count(), 0);
	assert_int_equal(tauti_prepare_counts(p).images, 120);
	tauti_prepare_destroy(p);
	for (int i = 0; i < 6; i++)
		free(images[i].bytes);
}

/* --- no item depends on the one before it ------------------------------------------------*/

struct answer {
	taut_status status;
	char message[sizeof((struct taut_error *)0)->message];
	unsigned char slot[24 * 24 * 3];
};

static void answer(struct tauti_prepare *p, const struct made *item, uint64_t i,
	struct answer *ret_answer)
{
	struct taut_error err = { 0 };

	memset(ret_answer, 0, sizeof *ret_answer);
	ret_answer->status = tauti_prepare_image(p, item->bytes, item->n, "made",
		draw_of(i), ret_answer->slot, &err);
	memcpy(ret_answer->message, err.message, sizeof ret_answer->message);
	if (ret_answer->status)
		memset(ret_answer->slot, 0, sizeof ret_answer->slot);
}

/* Without its segments of a kind: 0xdb tables of quantisation, 0xc4 Huffman's, 0xdd the
 * restart interval. */
static struct made without(const struct made *whole, unsigned char kind)
{
	struct made made = { malloc(whole->n), 2 };
	size_t at = 2;

	assert_non_null(made.bytes);
	memcpy(made.bytes, whole->bytes, 2);
	while (whole->bytes[at + 1] != 0xda) { /* the scan */
		size_t n = 2 + whole->bytes[at + 2] * 256u + whole->bytes[at + 3];

		if (whole->bytes[at + 1] != kind) {
			memcpy(made.bytes + made.n, whole->bytes + at, n);
			made.n += n;
		}
		at += n;
	}
	memcpy(made.bytes + made.n, whole->bytes + at, whole->n - at);
	made.n += whole->n - at;
	return made;
}

static struct made some_png(const struct made_how *how, int pixel_bytes)
{
	unsigned char *rows = made_pixels(how, pixel_bytes);
	struct made made = made_png_of(
		how, rows, (size_t)how->width * (size_t)pixel_bytes);

	free(rows);
	return made;
}

enum { KINDS = 12 };

static void make_kinds(struct made kinds[KINDS])
{
	struct made_how how = { .height = 70, .width = 90, .seed = 1 };
	struct made_how restarts = { .height = 64, .width = 48, .seed = 2,
		.restart = 2, .quality = 40 };
	struct made_how grey = { .height = 33, .width = 50, .components = 1 };
	struct made_how inks = { .height = 40, .width = 40, .components = 4 };
	struct made_how slow = { .height = 80, .width = 60, .progressive = true };
	struct made_how png = { .height = 31, .width = 37, .depth = 8,
		.colours = PNG_COLOR_TYPE_PALETTE };
	struct made_how lace = { .height = 30, .width = 20, .depth = 16,
		.colours = PNG_COLOR_TYPE_RGB_ALPHA, .interlaced = true };

	kinds[0] = made_jpeg(&how);
	kinds[1] = without(&kinds[0], 0xdb);
	kinds[2] = without(&kinds[0], 0xc4);
	kinds[3] = made_jpeg(&restarts);
	kinds[4] = without(&kinds[3], 0xdd);
	kinds[5] = made_jpeg(&slow);
	kinds[6] = without(&kinds[5], 0xc4);
	kinds[7] = made_jpeg(&grey);
	kinds[8] = made_jpeg(&inks);
	kinds[9] = some_png(&png, 1);
	kinds[10] = some_png(&lace, 8);
	kinds[11] = made_jpeg(&how);
	kinds[11].n /= 2; /* cut */
}

/* What an object makes of an item, broken or whole, is what a fresh one does, whatever it was
 * given before. libjpeg by itself takes the tables that an image lacks from the last one. */
static void test_alone(void **state)
{
	struct taut_prepare_options o = { .height = 24, .width = 24, .flip = 0.5 };
	static struct answer alone, after;
	struct tauti_prepare *p, *fresh;
	struct made kinds[KINDS];
	unsigned refusals = 0;

	(void)state;
	make_kinds(kinds);
	assert_int_equal(tauti_prepare_create(&o, &p, NULL), TAUT_OK);
	for (unsigned i = 0; i < KINDS * KINDS; i++) {
		unsigned before = i / KINDS, item = i % KINDS;

		answer(p, &kinds[before], i, &after);
		answer(p, &kinds[item], i, &after);
		assert_int_equal(tauti_prepare_create(&o, &fresh, NULL), TAUT_OK);
		answer(fresh, &kinds[item], i, &alone);
		tauti_prepare_destroy(fresh);
		assert_int_equal(alone.status, after.status);
		assert_string_equal(alone.message, after.message);
		assert_memory_equal(alone.slot, after.slot, sizeof alone.slot);
		refusals += alone.status == TAUT_EFORMAT;
	}
	assert_true(refusals >= KINDS); /* there were tables to be missed */
	assert_true(refusals <= KINDS * KINDS / 2);
	tauti_prepare_destroy(p);
	for (unsigned i = 0; i < KINDS; i++)
		free(kinds[i].bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_flip),
		cmocka_unit_test(test_flip_twice),
		cmocka_unit_test(test_draws),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_scaled),
		cmocka_unit_test(test_orient),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_warnings),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
