/* One suite over every format: any region of an image is that part of all of it; what is
 * cut or broken is a fault with a name, and nothing worse. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "load/image/decoder.h"
#include "load/image/exif.h"
#include "load/image/made.h"

static const struct tauti_decoder_limits limits = { .most_pixels = 1 << 22,
	.raw_height = 40, .raw_width = 50 };

static uint32_t dice(uint64_t *x, uint32_t n)
{
	return made_random(x) % n;
}

/* Decodes a region; the caller frees it. NULL: a fault, in err. */
static unsigned char *region_of(const struct tauti_decoder *decoder, void *state,
	const struct made *made, unsigned scale, struct tauti_region *region,
	struct taut_error *err)
{
	const unsigned char *rows[TAUTI_ROWS_AT_ONCE];
	struct tauti_image image;
	unsigned char *all = NULL;
	uint32_t done = 0;
	taut_status status = decoder->open(
		state, made->bytes, made->n, "made", &image, err);

	if (!status && region->width == 0)
		*region = (struct tauti_region){ 0, 0,
			(image.height + scale - 1) / scale,
			(image.width + scale - 1) / scale };
	if (!status)
		status = decoder->begin(state, scale, region, err);
	if (!status) {
		all = malloc((size_t)region->height * region->width * 3);
		assert_non_null(all);
	}
	while (!status && done < region->height) {
		uint32_t left = region->height - done;
		unsigned n = 1 + (done * 5 + region->top) % TAUTI_ROWS_AT_ONCE;

		n = n < left ? n : left;
		status = decoder->rows(state, n, rows, err);
		for (unsigned i = 0; !status && i < n; i++, done++)
			memcpy(all + (size_t)done * region->width * 3, rows[i],
				(size_t)region->width * 3);
	}
	decoder->close(state);
	if (status) {
		free(all);
		all = NULL;
	}
	return all;
}

static struct tauti_region random_region(
	uint64_t *x, const struct tauti_region *all)
{
	struct tauti_region r = { .top = dice(x, all->height),
		.left = dice(x, all->width) };

	r.height = 1 + dice(x, all->height - r.top);
	r.width = 1 + dice(x, all->width - r.left);
	return r;
}

static void check_regions(const struct tauti_decoder *decoder,
	const struct made *made, unsigned scale, int turns)
{
	struct tauti_region all = { 0 };
	void *state = decoder->create(&limits);
	uint64_t x = made->n + scale;
	struct taut_error err = { 0 };
	unsigned char *whole;

	assert_non_null(state);
	whole = region_of(decoder, state, made, scale, &all, &err);
	if (!whole)
		fail_msg("%s", err.message);
	for (int turn = 0; turn < turns; turn++) {
		struct tauti_region r = random_region(&x, &all);
		unsigned char *part =
			region_of(decoder, state, made, scale, &r, &err);

		if (!part)
			fail_msg("%s", err.message);
		for (uint32_t y = 0; y < r.height; y++)
			assert_memory_equal(part + (size_t)y * r.width * 3,
				whole + ((size_t)(r.top + y) * all.width +
					r.left) * 3, (size_t)r.width * 3);
		free(part);
	}
	free(whole);
	decoder->destroy(state);
}

static void check_jpeg(const struct made_how *how)
{
	struct made made = made_jpeg(how);

	for (unsigned scale = 1; scale <= 8; scale *= 2)
		check_regions(&tauti_decoder_jpeg, &made, scale, 12);
	free(made.bytes);
}

static void test_jpeg_regions(void **state)
{
	static const int samples[][2] = { { 1, 1 }, { 2, 1 }, { 1, 2 }, { 2, 2 },
		{ 4, 1 }, { 3, 1 }, { 4, 2 }, { 1, 4 } };
	uint64_t x = 9;

	(void)state;
	for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
		for (int turn = 0; turn < 6; turn++) {
			struct made_how how = {
				.height = 1 + dice(&x, turn < 2 ? 40 : 200),
				.width = 1 + dice(&x, turn < 2 ? 40 : 200),
				.seed = x, .across = samples[i][0],
				.down = samples[i][1], .progressive = turn % 2,
				.restart = turn % 3 == 2 ? 3 : 0,
			};

			check_jpeg(&how);
			/* At most 10 blocks are in one MCU. */
			how.components = turn < 3 || i == 6 ? 1 : 4;
			check_jpeg(&how);
		}
}

/* All of an image is what libjpeg gives. */
static void test_jpeg_whole(void **state)
{
	struct made_how how = { .height = 61, .width = 83 };
	struct made made = made_jpeg(&how);
	struct tauti_region all = { 0 };
	void *decoder = tauti_decoder_jpeg.create(&limits);
	unsigned char *got = region_of(
		&tauti_decoder_jpeg, decoder, &made, 1, &all, NULL);
	struct jpeg_decompress_struct d;
	struct jpeg_error_mgr errors;
	unsigned char row[83 * 3], *at = row;

	(void)state;
	assert_non_null(got);
	d.err = jpeg_std_error(&errors);
	jpeg_create_decompress(&d);
	jpeg_mem_src(&d, made.bytes, made.n);
	jpeg_read_header(&d, TRUE);
	jpeg_start_decompress(&d);
	for (int y = 0; y < 61; y++) {
		jpeg_read_scanlines(&d, &at, 1);
		assert_memory_equal(row, got + y * sizeof row, sizeof row);
	}
	jpeg_destroy_decompress(&d);
	tauti_decoder_jpeg.destroy(decoder);
	free(got);
	free(made.bytes);
}

static struct made a_png(int colours, int depth, bool interlaced,
	bool transparent, uint32_t height, uint32_t width,
	unsigned char **ret_rows)
{
	struct made_how how = { .height = height, .width = width, .seed = width,
		.colours = colours, .depth = depth, .interlaced = interlaced,
		.transparent = transparent };
	unsigned char *rows = made_pixels(&how, 8); /* enough for any kind */
	struct made made = made_png_of(&how, rows, (size_t)width * 8);

	if (ret_rows)
		*ret_rows = rows;
	else
		free(rows);
	return made;
}

static void test_png_regions(void **state)
{
	static const struct {
		int colours, depth;
	} kinds[] = { { 0, 1 }, { 0, 2 }, { 0, 4 }, { 0, 8 }, { 0, 16 }, { 2, 8 },
		{ 2, 16 }, { 3, 1 }, { 3, 2 }, { 3, 4 }, { 3, 8 }, { 4, 8 },
		{ 4, 16 }, { 6, 8 }, { 6, 16 } };

	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		for (unsigned how = 0; how < 4; how++) {
			bool transparent = how / 2 && kinds[i].colours < 4;
			struct made made = a_png(kinds[i].colours,
				kinds[i].depth, how % 2, transparent,
				31 + (uint32_t)i, 45, NULL);

			check_regions(&tauti_decoder_png, &made, 1, 6);
			free(made.bytes);
		}
}

/* What libpng was given comes back: colours, the upper byte of 16, grey three times. */
static void check_png_pixel(int colours, int depth, bool interlaced,
	unsigned pixel_bytes, const unsigned at[3])
{
	unsigned char *rows, *got;
	struct made made = a_png(colours, depth, interlaced, false, 19, 23, &rows);
	void *decoder = tauti_decoder_png.create(&limits);
	struct tauti_region all = { 0 };

	got = region_of(&tauti_decoder_png, decoder, &made, 1, &all, NULL);
	assert_non_null(got);
	for (unsigned y = 0; y < 19; y++)
		for (unsigned x = 0; x < 23; x++)
			for (unsigned c = 0; c < 3; c++)
				assert_int_equal(got[(y * 23 + x) * 3 + c],
					rows[y * 23 * 8 + x * pixel_bytes +
						at[c]]);
	free(got);
	free(rows);
	free(made.bytes);
	tauti_decoder_png.destroy(decoder);
}

static void test_png_pixels(void **state)
{
	(void)state;
	for (int interlaced = 0; interlaced < 2; interlaced++) {
		check_png_pixel(0, 8, interlaced, 1, (unsigned[]){ 0, 0, 0 });
		check_png_pixel(2, 8, interlaced, 3, (unsigned[]){ 0, 1, 2 });
		check_png_pixel(2, 16, interlaced, 6, (unsigned[]){ 0, 2, 4 });
		check_png_pixel(4, 8, interlaced, 2, (unsigned[]){ 0, 0, 0 });
		check_png_pixel(6, 8, interlaced, 4, (unsigned[]){ 0, 1, 2 });
		check_png_pixel(6, 16, interlaced, 8, (unsigned[]){ 0, 2, 4 });
	}
}

/* As Pillow's I;16 becomes RGB: what is above 255 is white. */
static void test_png_grey_16(void **state)
{
	static const unsigned char rows[] = { 0, 0, 0, 1, 0, 255, 1, 0, 1, 44,
		255, 255 };
	static const unsigned char wanted[] = { 0, 1, 255, 255, 255, 255 };
	void *decoder = tauti_decoder_png.create(&limits);

	(void)state;
	for (int how = 0; how < 4; how++) {
		struct made made = made_png_of(&(struct made_how){ .height = 1,
			.width = 6, .depth = 16, .interlaced = how % 2,
			.transparent = how / 2 }, rows, sizeof rows);
		struct tauti_region all = { 0 };
		unsigned char *got = region_of(
			&tauti_decoder_png, decoder, &made, 1, &all, NULL);

		assert_non_null(got);
		for (int i = 0; i < 18; i++)
			assert_int_equal(got[i], wanted[i / 3]);
		free(got);
		free(made.bytes);
	}
	tauti_decoder_png.destroy(decoder);
}

static void test_raw(void **state)
{
	unsigned char bytes[40 * 50 * 3 + 1];
	struct made made = { bytes, 40 * 50 * 3 };
	void *decoder = tauti_decoder_raw.create(&limits);
	struct tauti_region all = { 0 };
	struct taut_error err;

	(void)state;
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (unsigned char)(i * 7 % 251);
	check_regions(&tauti_decoder_raw, &made, 1, 20);
	made.n++;
	assert_null(region_of(
		&tauti_decoder_raw, decoder, &made, 1, &all, &err));
	assert_string_equal(err.message,
		"made: raw: 6001 bytes, expected 6000 for 40 x 50 pixels");
	tauti_decoder_raw.destroy(decoder);
}

/* --- broken ------------------------------------------------------------------------------*/

/* A beginning of an image: never all its rows; and the same object then decodes the whole
 * one, as before. */
static void check_cuts(const struct tauti_decoder *decoder, struct made made,
	size_t needed)
{
	void *state = decoder->create(&limits);
	struct tauti_region all = { 0 };
	unsigned char *wanted, *got;
	struct taut_error err;
	size_t n = made.n;

	wanted = region_of(decoder, state, &made, 1, &all, &err);
	assert_non_null(wanted);
	for (made.n = 0; made.n < needed; made.n += 1 + made.n / 97) {
		/* Exactly so much memory, that the sanitizer sees more. */
		struct made cut = { malloc(made.n ? made.n : 1), made.n };
		struct tauti_region r = { 0 };

		memcpy(cut.bytes, made.bytes, cut.n);
		err = (struct taut_error){ 0 };
		assert_null(region_of(decoder, state, &cut, 1, &r, &err));
		assert_int_equal(err.code, TAUT_EFORMAT);
		assert_memory_equal(err.message, "made: ", 6);
		free(cut.bytes);
	}
	made.n = n;
	got = region_of(decoder, state, &made, 1, &all, &err);
	assert_non_null(got);
	assert_memory_equal(wanted, got, (size_t)all.height * all.width * 3);
	free(wanted);
	free(got);
	decoder->destroy(state);
}

static void test_cuts(void **state)
{
	struct made_how how = { .height = 70, .width = 90 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct made made;

		how.progressive = i % 2;
		how.restart = i / 2 * 4;
		made = made_jpeg(&how);
		check_cuts(&tauti_decoder_jpeg, made, made.n - 40);
		free(made.bytes);
		made = a_png(i * 2, i == 3 ? 16 : 8, i % 2, false, 70, 90, NULL);
		/* Behind the pixels are a check sum and 12 bytes of IEND. */
		check_cuts(&tauti_decoder_png, made, made.n - 40);
		free(made.bytes);
	}
}

/* Any bytes changed: pixels or a fault, nothing else; strict finds no fewer faults. */
static void check_damage(const struct tauti_decoder *decoder, const struct made *made)
{
	struct tauti_decoder_limits strict = limits;
	unsigned faults[2] = { 0 };
	void *states[2];
	uint64_t x = 11;

	strict.strict = true;
	states[0] = decoder->create(&limits);
	states[1] = decoder->create(&strict);
	for (int i = 0; i < 400; i++) {
		struct made other = { malloc(made->n), made->n };

		memcpy(other.bytes, made->bytes, made->n);
		for (uint32_t k = dice(&x, 4) + 1; k > 0; k--)
			other.bytes[dice(&x, i % 2 ? (uint32_t)made->n : 700)] =
				(unsigned char)dice(&x, 256);
		for (int s = 0; s < 2; s++) {
			struct tauti_region all = { 0 };
			struct taut_error err = { 0 };
			unsigned char *got = region_of(decoder, states[s],
				&other, 1, &all, &err);

			faults[s] += !got;
			assert_int_equal(!got, err.code != TAUT_OK);
			free(got);
		}
		free(other.bytes);
	}
	assert_true(faults[0] > 0 && faults[0] <= faults[1]);
	assert_true(faults[1] > 100);
	decoder->destroy(states[0]);
	decoder->destroy(states[1]);
}

static void test_damage(void **state)
{
	struct made_how how = { .height = 70, .width = 90 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct made made;

		how.progressive = i;
		made = made_jpeg(&how);
		check_damage(&tauti_decoder_jpeg, &made);
		free(made.bytes);
		made = a_png(2 + i, 8, i, i, 70, 90, NULL);
		check_damage(&tauti_decoder_png, &made);
		free(made.bytes);
	}
}

/* A size that the header only claims costs no memory. */
static void test_claims(void **state)
{
	struct made_how how = { .height = 16, .width = 16 };
	struct made made = made_jpeg(&how);
	void *decoder = tauti_decoder_jpeg.create(&limits);
	struct tauti_region all = { 0 };
	struct taut_error err;
	unsigned char *at = made.bytes;

	(void)state;
	while (!(at[0] == 0xff && at[1] == 0xc0))
		at++;
	memset(at + 5, 0xff, 4);
	assert_null(region_of(
		&tauti_decoder_jpeg, decoder, &made, 1, &all, &err));
	assert_int_equal(err.code, TAUT_EFORMAT);
	tauti_decoder_jpeg.destroy(decoder);
	free(made.bytes);
	decoder = tauti_decoder_png.create(&limits);
	made = a_png(2, 8, false, false, 2049, 2048, NULL);
	assert_null(region_of(
		&tauti_decoder_png, decoder, &made, 1, &all, &err));
	assert_string_equal(err.message,
		"made: png: 2049 x 2048 pixels, expected at most 4194304 in all");
	tauti_decoder_png.destroy(decoder);
	free(made.bytes);
}

static void test_probe(void **state)
{
	static const unsigned char jpeg[] = { 0xff, 0xd8, 0xff, 0xe0 };
	static const unsigned char png[] = "\x89PNG\r\n\x1a\n";

	(void)state;
	assert_int_equal(tauti_decoder_of_bytes(jpeg, 4), TAUTI_DECODER_JPEG);
	assert_int_equal(tauti_decoder_of_bytes(jpeg, 2), TAUTI_DECODERS);
	assert_int_equal(tauti_decoder_of_bytes(png, 8), TAUTI_DECODER_PNG);
	assert_int_equal(tauti_decoder_of_bytes(png, 7), TAUTI_DECODERS);
	assert_int_equal(tauti_decoder_of_bytes(NULL, 0), TAUTI_DECODERS);
	assert_int_equal(tauti_decoder_of_name("raw"), TAUTI_DECODER_RAW);
	assert_int_equal(tauti_decoder_of_name("gif"), TAUTI_DECODERS);
}

static void test_exif(void **state)
{
	unsigned char tiff[] = "MM\0*\0\0\0\10\0\1\1\x12\0\3\0\0\0\1\0\6\0\0";
	struct tauti_region shown = { 1, 2, 3, 4 }, r;

	(void)state;
	assert_int_equal(tauti_exif_orientation(tiff, 22), 6);
	for (size_t n = 0; n < 22; n++)
		assert_int_equal(tauti_exif_orientation(tiff, n), 1);
	tiff[19] = 9;
	assert_int_equal(tauti_exif_orientation(tiff, 22), 1);
	memset(tiff + 4, 0xff, 4);
	assert_int_equal(tauti_exif_orientation(tiff, 22), 1);
	r = tauti_orient_region(6, 20, 10, &shown); /* shown is 10 x 20 */
	assert_true(r.height == 4 && r.width == 3);
	assert_true(r.top == 14 && r.left == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jpeg_regions),
		cmocka_unit_test(test_jpeg_whole),
		cmocka_unit_test(test_png_regions),
		cmocka_unit_test(test_png_pixels),
		cmocka_unit_test(test_png_grey_16),
		cmocka_unit_test(test_raw),
		cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_claims),
		cmocka_unit_test(test_probe),
		cmocka_unit_test(test_exif),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
