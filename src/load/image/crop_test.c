/* Crops: their distribution, their limits, the centre, colours drawn. */
#include "tests/support/unit.h"

#include <math.h>
#include <string.h>

#include "load/image/crop.h"
#include "load/image/jitter.h"

enum { TURNS = 40000 };

static struct tauti_crop one(const struct taut_prepare_options *o,
	uint32_t height, uint32_t width, uint64_t item)
{
	struct taut_prepare_options all = tauti_prepare_defaults(o);
	struct tauti_draw draw = tauti_draw_begin(7, 1, item);

	return tauti_crop_choose(&all, height, width, &draw);
}

/* In a large square nearly all first tries of less than 3/4 fit, so the area is uniform
 * there, and the logarithm of the ratio is. */
static void test_uniform(void **state)
{
	struct taut_prepare_options o = { .most_area = 0.7 };
	double area = 0, area2 = 0, ratio = 0, ratio2 = 0, spread = log(4.0 / 3);

	(void)state;
	for (uint64_t i = 0; i < TURNS; i++) {
		struct tauti_crop c = one(&o, 4000, 4000, i);
		double a = (double)c.down.size * c.across.size / 16e6;
		double r = log((double)c.across.size / c.down.size);

		area += a / TURNS;
		area2 += a * a / TURNS;
		ratio += r / TURNS;
		ratio2 += r * r / TURNS;
		assert_in_range((uint64_t)(a * 1e6), 79000, 701000);
		assert_true(fabs(r) < spread + 1e-3);
	}
	/* Five standard errors of the means of these uniform variables. */
	assert_true(fabs(area - 0.39) < 5 * 0.62 / sqrt(12.0 * TURNS));
	assert_true(fabs(area2 - area * area - 0.62 * 0.62 / 12) < 1e-3);
	assert_true(fabs(ratio) < 5 * 2 * spread / sqrt(12.0 * TURNS));
	assert_true(fabs(ratio2 - spread * spread / 3) < 1e-3);
}

/* Where it lies: every place is as likely. */
static void test_places(void **state)
{
	struct taut_prepare_options o = { .least_area = 0.25, .most_area = 0.25,
		.least_ratio = 1, .most_ratio = 1 };
	unsigned of_top[11] = { 0 }, of_left[11] = { 0 };

	(void)state;
	for (uint64_t i = 0; i < TURNS; i++) {
		struct tauti_crop c = one(&o, 20, 20, i);

		assert_int_equal(c.down.size, 10);
		assert_int_equal(c.across.size, 10);
		of_top[c.down.from]++;
		of_left[c.across.from]++;
	}
	for (int i = 0; i < 11; i++) { /* 3636 +- 57 */
		assert_in_range(of_top[i], 3636 - 300, 3636 + 300);
		assert_in_range(of_left[i], 3636 - 300, 3636 + 300);
	}
}

/* Whatever the image, the crop is inside. */
static void test_inside(void **state)
{
	(void)state;
	for (uint32_t h = 1; h < 40; h++)
		for (uint32_t w = 1; w < 300; w += 7)
			for (uint64_t i = 0; i < 5; i++) {
				struct tauti_crop c = one(NULL, h, w, i);

				assert_true(c.down.size > 0 && c.across.size > 0);
				assert_true(c.down.from + c.down.size <= h);
				assert_true(c.across.from + c.across.size <= w);
			}
}

/* Of an image that no try fits, the largest box of an allowed ratio, in the middle. */
static void test_fallback(void **state)
{
	struct tauti_crop c = one(NULL, 10, 1000, 3);

	(void)state;
	assert_int_equal(c.down.size, 10);
	assert_int_equal(c.down.from, 0);
	assert_int_equal(c.across.size, 13);
	assert_int_equal(c.across.from, (1000 - 13) / 2);
	c = one(NULL, 1000, 9, 3);
	assert_int_equal(c.across.size, 9);
	assert_int_equal(c.down.size, 12);
	assert_int_equal(c.down.from, (1000 - 12) / 2);
}

static void test_centre(void **state)
{
	struct taut_prepare_options o = { .crop = TAUT_CROP_CENTRE };
	struct tauti_crop c = one(&o, 375, 500, 0);

	(void)state;
	assert_int_equal(c.down.size, 375);
	assert_int_equal(c.down.whole, 256);
	assert_int_equal(c.down.first, 16);
	assert_int_equal(c.across.size, 500);
	assert_int_equal(c.across.whole, 341);
	assert_int_equal(c.across.first, 58); /* 58.5, to even */
	o.width = 448; /* nothing is padded */
	c = one(&o, 100, 100, 0);
	assert_int_equal(c.across.whole, 448);
	assert_int_equal(c.across.first, 0);
	assert_int_equal(c.down.first, 112);
}

static void test_stretch(void **state)
{
	struct taut_prepare_options o = { .crop = TAUT_CROP_STRETCH,
		.height = 5, .width = 6 };
	struct tauti_crop c = one(&o, 100, 200, 0);

	(void)state;
	assert_int_equal(c.down.size, 100);
	assert_int_equal(c.down.whole, 5);
	assert_int_equal(c.across.size, 200);
	assert_int_equal(c.across.whole, 6);
}

/* --- colours ---------------------------------------------------------------------------*/

static void test_jitter_draw(void **state)
{
	struct taut_prepare_options o = { .brightness = 0.4, .contrast = 2,
		.hue = 0.1 };
	unsigned first[TAUTI_JITTER_STEPS] = { 0 };
	double least = 9, most = -9, sum = 0;

	(void)state;
	assert_true(tauti_jitter_asked(&o));
	for (uint64_t i = 0; i < TURNS; i++) {
		struct tauti_draw draw = tauti_draw_begin(1, 2, i);
		struct tauti_jitter j = tauti_jitter_draw(&o, &draw);

		first[j.order[0]]++;
		assert_false(j.wanted[TAUTI_SATURATION]);
		assert_true(j.factor[TAUTI_CONTRAST] >= 0);
		assert_true(j.factor[TAUTI_CONTRAST] <= 3);
		assert_true(fabs(j.factor[TAUTI_HUE]) <= 0.1);
		least = fmin(least, j.factor[TAUTI_BRIGHTNESS]);
		most = fmax(most, j.factor[TAUTI_BRIGHTNESS]);
		sum += j.factor[TAUTI_BRIGHTNESS] / TURNS;
	}
	assert_true(least >= 0.6 && least < 0.601);
	assert_true(most <= 1.4 && most > 1.399);
	assert_true(fabs(sum - 1) < 5 * 0.8 / sqrt(12.0 * TURNS));
	for (int i = 0; i < TAUTI_JITTER_STEPS; i++) /* 10000 +- 87 */
		assert_in_range(first[i], 10000 - 450, 10000 + 450);
}

static void apply(enum tauti_jitter_step step, double factor,
	const unsigned char *from, unsigned char *to, size_t n)
{
	struct tauti_jitter j = { .order = { 0, 1, 2, 3 } };

	j.wanted[step] = true;
	j.factor[step] = factor;
	memcpy(to, from, 3 * n);
	tauti_jitter_apply(&j, to, n);
}

static void test_jitter_none(void **state)
{
	unsigned char pixels[3 * 4096], got[3 * 4096];

	(void)state;
	for (int i = 0; i < 4096; i++) {
		pixels[3 * i] = (unsigned char)(i % 16 * 17);
		pixels[3 * i + 1] = (unsigned char)(i / 16 % 16 * 17);
		pixels[3 * i + 2] = (unsigned char)(i / 256 * 17);
	}
	for (int step = 0; step < TAUTI_JITTER_STEPS; step++) {
		apply(step, step != TAUTI_HUE, pixels, got, 4096);
		assert_memory_equal(pixels, got, sizeof pixels);
	}
	apply(TAUTI_HUE, 0.5, pixels, got, 4096); /* twice half a circle */
	assert_memory_not_equal(pixels, got, sizeof pixels);
	apply(TAUTI_HUE, -0.5, got, got, 4096);
	assert_memory_equal(pixels, got, sizeof pixels);
}

static void test_jitter_values(void **state)
{
	const unsigned char from[6] = { 100, 200, 50, 10, 20, 30 };
	const unsigned char bright[6] = { 150, 255, 75, 15, 30, 45 };
	const unsigned char green[6] = { 50, 100, 200, 30, 10, 20 };
	const unsigned char grey[6] = { 153, 153, 153, 18, 18, 18 };
	const unsigned char flat[6] = { 86, 86, 86, 86, 86, 86 };
	unsigned char got[6];

	(void)state;
	apply(TAUTI_BRIGHTNESS, 1.5, from, got, 2);
	assert_memory_equal(got, bright, 6);
	apply(TAUTI_HUE, 1.0 / 3, from, got, 2); /* red to green to blue */
	assert_memory_equal(got, green, 6);
	apply(TAUTI_SATURATION, 0, from, got, 2);
	assert_memory_equal(got, grey, 6);
	apply(TAUTI_CONTRAST, 0, from, got, 2); /* (153 + 18.15) / 2 */
	assert_memory_equal(got, flat, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uniform),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_inside),
		cmocka_unit_test(test_fallback),
		cmocka_unit_test(test_centre),
		cmocka_unit_test(test_stretch),
		cmocka_unit_test(test_jitter_draw),
		cmocka_unit_test(test_jitter_none),
		cmocka_unit_test(test_jitter_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
