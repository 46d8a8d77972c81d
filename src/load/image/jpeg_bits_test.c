/* What jpeg_bits.c reads is what libjpeg reads, of good images and of broken ones: pixels,
 * statuses, lines and warnings. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "load/image/decoder.h"
#include "load/image/jpeg_bits.h"
#include "load/image/made.h"

struct result {
	taut_status status;
	struct taut_error err;
	bool warned;
	unsigned char *pixels; /* n_rows that were given */
	uint32_t n_rows;
};

struct both {
	void *own, *plain;
};

static uint32_t dice(uint64_t *x, uint32_t n)
{
	return made_random(x) % n;
}

static struct both both_of(bool strict)
{
	struct tauti_decoder_limits limits = { .most_pixels = 1 << 22, .strict = strict };
	struct both both = { .own = tauti_decoder_jpeg.create(&limits) };

	limits.plain = true;
	both.plain = tauti_decoder_jpeg.create(&limits);
	assert_non_null(both.own);
	assert_non_null(both.plain);
	return both;
}

static void end(struct both *both)
{
	tauti_decoder_jpeg.destroy(both->own);
	tauti_decoder_jpeg.destroy(both->plain);
}

/* A part of what the header says, by dice. */
static struct tauti_region part_of(const struct tauti_image *image, unsigned scale, uint64_t x)
{
	uint32_t height = (image->height + scale - 1) / scale;
	uint32_t width = (image->width + scale - 1) / scale;
	struct tauti_region r = { .top = dice(&x, height), .left = dice(&x, width) };

	r.height = 1 + dice(&x, height - r.top);
	r.width = 1 + dice(&x, width - r.left);
	return dice(&x, 3) ? r : (struct tauti_region){ 0, 0, height, width };
}

static void take_rows(struct result *result, void *state, const struct tauti_region *r)
{
	const unsigned char *rows[TAUTI_ROWS_AT_ONCE];
	size_t bytes = (size_t)r->width * 3;

	result->pixels = calloc(r->height, bytes);
	assert_non_null(result->pixels);
	while (!result->status && result->n_rows < r->height) {
		uint32_t left = r->height - result->n_rows;
		unsigned n = left < 5 ? left : 5;

		result->status = tauti_decoder_jpeg.rows(state, n, rows, &result->err);
		for (unsigned i = 0; !result->status && i < n; i++)
			memcpy(result->pixels + bytes * result->n_rows++, rows[i], bytes);
	}
}

static struct result decode(void *state, const struct made *made, unsigned scale, uint64_t x)
{
	struct result result = { .err = { .offset = -1 } };
	struct tauti_image image;
	struct tauti_region r = { 0 };

	result.status = tauti_decoder_jpeg.open(
		state, made->bytes, made->n, "made", &image, &result.err);
	if (!result.status) {
		r = part_of(&image, scale, x);
		result.status = tauti_decoder_jpeg.begin(state, scale, &r, &result.err);
	}
	if (!result.status)
		take_rows(&result, state, &r);
	result.warned = tauti_decoder_jpeg.close(state);
	result.n_rows *= r.width * 3; /* from here on: bytes */
	return result;
}

/* Returns whether it was decoded. */
static bool check(struct both *both, const struct made *made, unsigned scale, uint64_t x)
{
	struct result own = decode(both->own, made, scale, x);
	struct result plain = decode(both->plain, made, scale, x);

	assert_int_equal(own.status, plain.status);
	if (own.status) {
		assert_string_equal(own.err.message, plain.err.message);
		assert_int_equal(own.err.offset, plain.err.offset);
	}
	assert_int_equal(own.warned, plain.warned);
	assert_int_equal(own.n_rows, plain.n_rows);
	if (own.n_rows)
		assert_memory_equal(own.pixels, plain.pixels, own.n_rows);
	free(own.pixels);
	free(plain.pixels);
	return !own.status;
}

static struct made any_image(uint64_t *x)
{
	static const int samples[][2] = {
		{ 1, 1 }, { 2, 1 }, { 1, 2 }, { 2, 2 }, { 4, 1 }, { 1, 4 }
	};
	const int *sample = samples[dice(x, 6)];
	struct made_how how = { .height = 1 + dice(x, 90), .width = 1 + dice(x, 160),
		.seed = *x, .quality = 1 + (int)dice(x, 100), .across = sample[0],
		.down = sample[1], .components = dice(x, 5) ? 3 : dice(x, 2) ? 1 : 4,
		.optimised = dice(x, 2), .restart = dice(x, 8) ? 0 : 3,
		.progressive = dice(x, 10) == 0 };

	return made_jpeg(&how);
}

static void test_images(void **state)
{
	struct both both = both_of(true);
	uint64_t x = 3;

	(void)state;
	for (int turn = 0; turn < 500; turn++) {
		struct made made = any_image(&x);

		assert_true(check(&both, &made, 1u << dice(&x, 4), x));
		free(made.bytes);
	}
	end(&both);
}

/* It reads, and libjpeg's own reader is not asked: else the others compare nothing. */
static void test_it_reads(void **state)
{
	struct made made = made_jpeg(&(struct made_how){ .height = 64, .width = 64 });
	struct tauti_jpeg_bits *bits = tauti_jpeg_bits_create();
	struct jpeg_decompress_struct d;
	struct jpeg_error_mgr errors;

	(void)state;
	d.err = jpeg_std_error(&errors);
	jpeg_create_decompress(&d);
	jpeg_mem_src(&d, made.bytes, made.n);
	jpeg_read_header(&d, TRUE);
	jpeg_start_decompress(&d);
#if defined LIBJPEG_TURBO_VERSION_NUMBER && __has_include(<jpegint.h>)
	assert_true(tauti_jpeg_bits_attach(bits, &d, NULL));
#else
	assert_false(tauti_jpeg_bits_attach(bits, &d, NULL));
#endif
	jpeg_destroy_decompress(&d);
	tauti_jpeg_bits_destroy(bits);
	free(made.bytes);
}

/* Cut at every byte: what is missing is told by libjpeg. */
static void test_cuts(void **state)
{
	struct made made = made_jpeg(&(struct made_how){ .height = 40, .width = 56,
		.quality = 70, .optimised = true });
	struct both both = both_of(false);
	size_t whole = made.n, n_good = 0;

	(void)state;
	for (made.n = 0; made.n < whole; made.n++)
		n_good += check(&both, &made, 1, made.n);
	assert_true(n_good > 0); /* regions that end before the cut */
	assert_true(n_good < whole);
	free(made.bytes);
	end(&both);
}

static void damage(struct made *made, uint64_t *x)
{
	for (uint32_t n = 1 + dice(x, 4); n--;) {
		uint32_t at = dice(x, (uint32_t)made->n);

		made->bytes[at] = dice(x, 3) ? (unsigned char)dice(x, 256) :
			(unsigned char)(made->bytes[at] ^ 1u << dice(x, 8));
		if (dice(x, 6) == 0)
			made->bytes[at] = 0xff;
	}
}

static void test_damage(void **state)
{
	struct both both[] = { both_of(false), both_of(true) };
	uint64_t x = 8;
	int n_good = 0;

	(void)state;
	for (int image = 0; image < 60; image++) {
		struct made made = any_image(&x), broken = { malloc(made.n), made.n };

		for (int turn = 0; turn < 40; turn++) {
			memcpy(broken.bytes, made.bytes, made.n);
			damage(&broken, &x);
			n_good += check(&both[turn % 2], &broken, 1, x);
		}
		free(broken.bytes);
		free(made.bytes);
	}
	assert_in_range(n_good, 200, 2200);
	end(&both[0]);
	end(&both[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_it_reads),
		cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
