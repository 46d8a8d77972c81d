/* Resizing against sums in double, and every set of kernels against the plain one. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/image/axis.h"
#include "load/image/decoder.h"
#include "load/image/kernels.h"
#include "tests/support/alloc_fail.h"

enum { MOST_PIXELS = 3000, ROWS = TAUTI_ROWS_AT_ONCE, GUARD = 0xa5 };

static uint32_t dice(uint64_t *x, uint32_t n)
{
	*x = *x * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((*x >> 33) % n);
}

static unsigned char *noise(uint64_t *x, size_t n)
{
	unsigned char *bytes = malloc(n);

	assert_non_null(bytes);
	for (size_t i = 0; i < n; i++)
		bytes[i] = (unsigned char)dice(x, 256);
	return bytes;
}

/* Anything that a caller may wish for. */
static struct tauti_axis_wish random_wish(uint64_t *x)
{
	uint32_t pixels = 1 + dice(x, dice(x, 4) ? 600 : MOST_PIXELS);
	uint32_t from = dice(x, pixels), size = 1 + dice(x, pixels - from);
	struct tauti_axis_wish wish = { .origin = from, .size = size,
		.end = from + size, .whole = 1 + dice(x, 400),
		.mirrored = dice(x, 2) };

	if (dice(x, 3) == 0) { /* decoded at less than full size */
		wish.origin = from / 4.0;
		wish.size = size / 4.0;
		wish.end = (uint32_t)ceil((from + size) / 4.0);
	}
	wish.first = dice(x, wish.whole);
	wish.outputs = 1 + dice(x, wish.whole - wish.first);
	if (dice(x, 8) == 0)
		wish.filter = TAUT_FILTER_NEAREST;
	return wish;
}

/* One output of one colour, straight from the definition. */
static double by_definition(const struct tauti_axis_wish *wish, uint32_t i,
	const unsigned char *row, unsigned colour)
{
	double scale = wish->size / wish->whole, sum = 0, weights = 0;
	double half = scale > 1 ? scale : 1;
	double centre = wish->origin + (wish->first + i + 0.5) * scale;

	for (uint32_t x = (uint32_t)wish->origin; x < wish->end; x++) {
		double weight = 1 - fabs(x + 0.5 - centre) / half;

		if (weight > 0) {
			sum += weight * row[3 * x + colour];
			weights += weight;
		}
	}
	return sum / weights;
}

static void check_definition(const struct tauti_axis_wish *wish,
	const unsigned char *row, const unsigned char *got)
{
	for (uint32_t i = 0; i < wish->outputs; i++) {
		uint32_t at = wish->mirrored ? wish->outputs - 1 - i : i;

		for (unsigned c = 0; c < 3; c++) {
			double wanted = by_definition(wish, i, row, c);

			/* A half for rounding, and what 22 bits cost. */
			assert_true(fabs(wanted - got[3 * at + c]) < 0.501);
		}
	}
}

static void check_across(const struct tauti_axis *axis,
	const struct tauti_axis_wish *wish, const unsigned char *const *from)
{
	size_t bytes = (size_t)axis->outputs * 3, row_bytes = bytes + 64;
	unsigned char *got = malloc(2 * ROWS * row_bytes), *to[2][ROWS];

	assert_non_null(got);
	for (unsigned s = 0; s < TAUTI_IMAGE_KERNEL_SETS; s++) {
		const struct tauti_image_kernels *set =
			tauti_image_kernels_at(s);

		for (unsigned n = 1; set && n <= ROWS; n++) {
			const unsigned char *at[ROWS];

			memset(got + ROWS * row_bytes, GUARD, ROWS * row_bytes);
			for (unsigned i = 0; i < ROWS; i++) {
				to[0][i] = got + i * row_bytes;
				to[1][i] = got + (ROWS + i) * row_bytes;
				at[i] = from[i] + (size_t)axis->least * 3;
			}
			tauti_image_plain.across(axis, at, to[0], n);
			set->across(axis, at, to[1], n);
			for (unsigned i = 0; i < n; i++)
				assert_memory_equal(to[0][i], to[1][i], bytes);
			for (unsigned i = n; i < ROWS; i++)
				assert_int_equal(to[1][i][0], GUARD);
		}
	}
	if (wish->filter == TAUT_FILTER_BILINEAR)
		check_definition(wish, from[0], to[0][0]);
	free(got);
}

static void test_across(void **state)
{
	size_t row_bytes = MOST_PIXELS * 3 + TAUTI_ROW_SLACK;
	struct tauti_axis axis = { 0 };
	const unsigned char *from[ROWS];
	unsigned char *rows;
	uint64_t x = 1;

	(void)state;
	rows = noise(&x, ROWS * row_bytes);
	for (unsigned i = 0; i < ROWS; i++)
		from[i] = rows + i * row_bytes;
	for (int i = 0; i < 300; i++) {
		struct tauti_axis_wish wish = random_wish(&x);

		assert_true(tauti_axis_set(&axis, &wish));
		assert_int_equal(axis.outputs, wish.outputs);
		assert_true(axis.end <= wish.end);
		assert_true(axis.least >= (uint32_t)wish.origin);
		check_across(&axis, &wish, from);
	}
	tauti_axis_fini(&axis);
	free(rows);
}

/* What is read of a row: not more than its slack behind the last pixel that is used. */
static void test_reach(void **state)
{
	struct tauti_axis axis = { 0 };
	uint64_t x = 2;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct tauti_axis_wish wish = random_wish(&x);

		assert_true(tauti_axis_set(&axis, &wish));
		for (uint32_t k = 0; k < axis.outputs; k++)
			assert_true(axis.least + axis.starts[k] +
				2 * axis.pairs <= axis.end + 1);
	}
	tauti_axis_fini(&axis);
}

static void test_weights(void **state)
{
	struct tauti_axis axis = { 0 };
	uint64_t x = 3;

	(void)state;
	for (int i = 0; i < 300; i++) {
		struct tauti_axis_wish wish = random_wish(&x);

		assert_true(tauti_axis_set(&axis, &wish));
		for (uint32_t k = 0; k < axis.outputs; k++) {
			int64_t sum = 0;

			for (uint32_t t = 0; t < 2 * axis.pairs; t++)
				sum += tauti_axis_weight(&axis, k, t);
			assert_in_range(sum - (1 << 22) + axis.pairs, 0,
				2 * axis.pairs);
		}
	}
	tauti_axis_fini(&axis);
}

/* All sizes that become larger by a small ratio: where a window's end is a whole number but
 * for the last bit of a double, no weight of another output is touched. */
static void test_weights_rounded(void **state)
{
	struct tauti_axis axis = { 0 };

	(void)state;
	for (uint32_t size = 1; size < 60; size++)
		for (uint32_t whole = 1; whole < 200; whole++) {
			struct tauti_axis_wish wish = { .size = size, .end = size,
				.whole = whole, .outputs = whole,
				.mirrored = whole % 2 };

			assert_true(tauti_axis_set(&axis, &wish));
			for (uint32_t k = 0; k < whole; k++) {
				int64_t sum = 0;

				for (uint32_t t = 0; t < 2 * axis.pairs; t++)
					sum += tauti_axis_weight(&axis, k, t);
				assert_in_range(sum - (1 << 22) + axis.pairs, 0,
					2 * axis.pairs);
			}
		}
	tauti_axis_fini(&axis);
}

/* The same size is the same picture, and mirrored twice too. */
static void test_identity(void **state)
{
	struct tauti_axis_wish wish = { .size = 77, .end = 77, .whole = 77,
		.outputs = 77 };
	unsigned char *rows, *to[2], *back[2];
	struct tauti_axis axis = { 0 };
	uint64_t x = 4;

	(void)state;
	rows = noise(&x, 5 * 400);
	for (int i = 0; i < 2; i++) {
		to[i] = rows + 400 * (i + 1);
		back[i] = rows + 400 * (i + 3);
	}
	for (unsigned s = 0; s < TAUTI_IMAGE_KERNEL_SETS; s++) {
		const struct tauti_image_kernels *set =
			tauti_image_kernels_at(s);
		const unsigned char *from[1] = { rows };

		if (!set)
			continue;
		wish.mirrored = false;
		assert_true(tauti_axis_set(&axis, &wish));
		assert_true(axis.copies);
		set->across(&axis, from, to, 1);
		assert_memory_equal(rows, to[0], 77 * 3);
		wish.mirrored = true;
		assert_true(tauti_axis_set(&axis, &wish));
		assert_false(axis.copies);
		set->across(&axis, from, to, 1);
		assert_memory_equal(rows + 76 * 3, to[0], 3);
		from[0] = to[0];
		set->across(&axis, from, back, 1);
		assert_memory_equal(rows, back[0], 77 * 3);
	}
	tauti_axis_fini(&axis);
	free(rows);
}

static void check_down(const struct tauti_axis *axis, unsigned char *rows,
	size_t row_bytes, size_t n_bytes)
{
	const unsigned char **from = malloc(2 * axis->pairs * sizeof *from);
	unsigned char *got = malloc(2 * (n_bytes + 64));

	assert_non_null(from);
	assert_non_null(got);
	for (uint32_t i = 0; i < 2 * axis->pairs; i++)
		from[i] = rows + i % 64 * row_bytes;
	for (unsigned s = 0; s < TAUTI_IMAGE_KERNEL_SETS; s++) {
		const struct tauti_image_kernels *set =
			tauti_image_kernels_at(s);
		unsigned char *other = got + n_bytes + 64;

		if (!set)
			continue;
		memset(got, GUARD, 2 * (n_bytes + 64));
		tauti_image_plain.down((const uint32_t(*)[2])axis->weights,
			axis->pairs, from, got, n_bytes);
		set->down((const uint32_t(*)[2])axis->weights, axis->pairs,
			from, other, n_bytes);
		assert_memory_equal(got, other, n_bytes + 64); /* no further */
		assert_int_equal(got[n_bytes], GUARD);
	}
	free(from);
	free(got);
}

static void test_down(void **state)
{
	struct tauti_axis axis = { 0 };
	size_t row_bytes = 2000 + TAUTI_ROW_SLACK;
	unsigned char *rows;
	uint64_t x = 5;

	(void)state;
	rows = noise(&x, 64 * row_bytes);
	for (int i = 0; i < 400; i++) {
		struct tauti_axis_wish wish = random_wish(&x);

		assert_true(tauti_axis_set(&axis, &wish));
		check_down(&axis, rows, row_bytes,
			1 + dice(&x, i % 2 ? 100 : 2000));
	}
	tauti_axis_fini(&axis);
	free(rows);
}

/* --- into the slot -------------------------------------------------------------------------*/

static void check_store(const struct tauti_store *s, const unsigned char *from,
	uint32_t n)
{
	size_t all = 3 * s->plane_bytes;
	unsigned char *wanted = malloc(all + 64), *got = malloc(all + 64);

	assert_non_null(wanted);
	assert_non_null(got);
	for (unsigned i = 1; i < TAUTI_IMAGE_KERNEL_SETS; i++) {
		const struct tauti_image_kernels *set =
			tauti_image_kernels_at(i);

		if (!set)
			continue;
		memset(wanted, GUARD, all + 64);
		memset(got, GUARD, all + 64);
		tauti_image_plain.store(s, from, n, wanted + 1);
		set->store(s, from, n, got + 1);
		assert_memory_equal(wanted, got, all + 64);
		assert_int_equal(got[0], GUARD);
		assert_int_equal(got[all + 1], GUARD);
	}
	free(wanted);
	free(got);
}

static void test_store(void **state)
{
	unsigned char *from;
	uint64_t x = 6;

	(void)state;
	from = noise(&x, 300 * 3 + TAUTI_ROW_SLACK);
	for (uint32_t n = 1; n < 300; n += n < 60 ? 1 : 37)
		for (int type = 0; type < TAUT_PIXELS; type++)
			for (int layout = 0; layout < TAUT_LAYOUTS; layout++) {
				struct tauti_store s = { .type = type,
					.layout = layout,
					.factor = { 0.01f, 0.02f, 1e-8f },
					.term = { -1.5f, 0.3f, 1e-6f },
					.plane_bytes = n *
						taut_prepare_type_bytes(type) };

				check_store(&s, from, n);
			}
	free(from);
}

static void test_store_value(void **state)
{
	struct tauti_store s = { .type = TAUT_PIXEL_F32,
		.factor = { 0.5f, 0.25f, 2 }, .term = { 1, 2, -3 } };
	unsigned char from[6 + TAUTI_ROW_SLACK] = { 0, 4, 255, 10, 20, 30 };
	float to[6];

	(void)state;
	tauti_image_kernels()->store(&s, from, 2, (unsigned char *)to);
	assert_true(to[0] == 1 && to[1] == 3 && to[2] == 507);
	assert_true(to[3] == 6 && to[4] == 7 && to[5] == 57);
	s.layout = TAUT_LAYOUT_CHW;
	s.plane_bytes = 8;
	tauti_image_kernels()->store(&s, from, 2, (unsigned char *)to);
	assert_true(to[0] == 1 && to[2] == 3 && to[4] == 507);
	assert_true(to[1] == 6 && to[3] == 7 && to[5] == 57);
}

static void test_memory(void **state)
{
	struct tauti_axis_wish wish = { .size = 300, .end = 300, .whole = 10,
		.outputs = 10 };
	struct tauti_axis axis = { 0 };
	long n = 0;

	(void)state;
	for (; alloc_fail_after(n), !tauti_axis_set(&axis, &wish); n++)
		;
	alloc_fail_never();
	assert_true(n > 0);
	tauti_axis_fini(&axis);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_across),
		cmocka_unit_test(test_reach),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_weights_rounded),
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_down),
		cmocka_unit_test(test_store),
		cmocka_unit_test(test_store_value),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
