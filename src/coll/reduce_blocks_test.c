/* TAUT_MXINT8: every set of kernels, bit by bit, against arithmetic in double
 * precision; and what a cast loses, beside what one to 16 bits does. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/reduce.h"

enum { BLOCK = 32, BLOCK_BYTES = 33, BLOCKS = 400, NUMBERS = BLOCKS * BLOCK };

static uint64_t random_bits(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* --- another arithmetic ------------------------------------------------------------------*/

/* The nearest whole number, ties to even, without a mode of rounding. */
static double whole(double x)
{
	double below = floor(x), part = x - below;

	if (part < 0.5 || (part == 0.5 && fmod(below, 2) == 0))
		return below;
	return below + 1;
}

static void right_block(const float x[BLOCK], uint8_t block[BLOCK_BYTES])
{
	double most = 0;
	bool all = true;
	int exponent = -120;

	for (int i = 0; i < BLOCK; i++) {
		all = all && isfinite(x[i]);
		most = fmax(most, fabs((double)x[i]));
	}
	memset(block, 0, BLOCK_BYTES);
	block[0] = 255;
	if (!all)
		return;
	while (most >= ldexp(1, exponent + 1))
		exponent++;
	block[0] = (uint8_t)(exponent + 127);
	for (int i = 0; i < BLOCK; i++) {
		double n = whole(ldexp((double)x[i], 6 - exponent));

		block[1 + i] = (uint8_t)(int8_t)fmin(fmax(n, -127), 127);
	}
}

static void right_narrow(
	const float *x, size_t count, float factor, uint8_t *blocks)
{
	for (size_t at = 0; at < count; at += BLOCK, blocks += BLOCK_BYTES) {
		float of_block[BLOCK] = { 0 };

		for (size_t i = 0; i < BLOCK && at + i < count; i++)
			of_block[i] = x[at + i] * factor;
		right_block(of_block, blocks);
	}
}

static float right_number(const uint8_t *block, int i)
{
	if (block[0] == 255)
		return (float)NAN;
	return (float)ldexp((double)(int8_t)block[1 + i], block[0] - 133);
}

static void right_sum(const uint8_t *a, const uint8_t *b, uint8_t *out)
{
	for (size_t k = 0; k < BLOCKS; k++, a += BLOCK_BYTES, b += BLOCK_BYTES,
		out += BLOCK_BYTES) {
		float sum[BLOCK];

		for (int i = 0; i < BLOCK; i++)
			sum[i] = (float)((double)right_number(a, i) +
				(double)right_number(b, i));
		right_block(sum, out);
	}
}

/* --- numbers -----------------------------------------------------------------------------*/

struct fields {
	float x[NUMBERS], y[NUMBERS], out[NUMBERS + 64];
	uint8_t a[BLOCKS * BLOCK_BYTES + 64], b[BLOCKS * BLOCK_BYTES + 64],
		right[BLOCKS * BLOCK_BYTES], got[BLOCKS * BLOCK_BYTES + 128];
};

static struct fields *new_fields(void)
{
	struct fields *f = calloc(1, sizeof *f);

	assert_non_null(f);
	return f;
}

static float float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

/* Blocks of one size, of many, around ties and the largest, of zeros, of denormals,
 * of all bits; in some one number that is none. */
static void fill(float *x, uint64_t *random)
{
	for (size_t k = 0; k < BLOCKS; k++, x += BLOCK) {
		uint64_t kind = random_bits(random) % 8;
		int exponent = (int)(random_bits(random) % 254) - 126;

		for (int i = 0; i < BLOCK; i++) {
			uint64_t r = random_bits(random);
			double n = (double)(int32_t)(r >> 32) / 0x1p31;

			if (kind == 0) /* halves of whole numbers */
				n = (double)((int)(r % 512) - 256) / 256;
			else if (kind == 1)
				n = n < 0 ? -0.999999 : 0.9959;
			else if (kind == 2)
				n *= pow(2, -(double)(r % 20));
			else if (kind == 3)
				n = 0;
			x[i] = (float)ldexp(n, exponent);
			if (kind == 4)
				x[i] = float_of((uint32_t)(r >> 32) & 0x807fffff);
			else if (kind == 5)
				x[i] = float_of((uint32_t)(r >> 32));
			else if (kind == 6 && r % 40 == 0)
				x[i] = r & 64 ? (float)INFINITY : (float)NAN;
		}
	}
}

static void test_narrow(void **state)
{
	static const float factors[] = { 1, 0.5f, 1.0f / 3, -1e-6f };
	const struct tauti_reduce_kernels *set;
	struct fields *f = new_fields();
	uint64_t random = 3;

	(void)state;
	for (int turn = 0; turn < 24; turn++) {
		float factor = factors[turn % 4];

		fill(f->x, &random);
		right_narrow(f->x, NUMBERS, factor, f->right);
		for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++) {
			set->narrow[TAUT_MXINT8](f->got, f->x, NUMBERS, factor);
			assert_memory_equal(f->got, f->right, sizeof f->right);
		}
		taut_narrow(TAUT_MXINT8, f->got, f->x, NUMBERS, factor);
		assert_memory_equal(f->got, f->right, sizeof f->right);
	}
	free(f);
}

/* Of any bytes, also those that no cast makes. */
static void test_widen(void **state)
{
	const struct tauti_reduce_kernels *set;
	struct fields *f = new_fields();
	uint64_t random = 4;

	(void)state;
	for (size_t i = 0; i < sizeof f->right; i++)
		f->a[i] = (uint8_t)random_bits(&random);
	for (size_t k = 0; k < 256 && k < BLOCKS; k++) /* each scale */
		f->a[k * BLOCK_BYTES] = (uint8_t)k;
	for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++) {
		set->widen[TAUT_MXINT8](f->out, f->a, NUMBERS);
		for (size_t n = 0; n < NUMBERS; n++) {
			const uint8_t *block = f->a + n / BLOCK * BLOCK_BYTES;
			float right = right_number(block, (int)(n % BLOCK));
			uint32_t bits;

			memcpy(&bits, &f->out[n], sizeof bits);
			if (block[0] == 255)
				assert_int_equal(bits, 0x7fc00000);
			else if (block[0] < 7) /* nothing sends such */
				assert_true(f->out[n] == 0);
			else
				assert_true(f->out[n] == right);
		}
	}
	free(f);
}

/* What was widened is narrowed to the same: halves of an all-reduce rely on it. */
static void test_there_and_back(void **state)
{
	const struct tauti_reduce_kernels *set;
	struct fields *f = new_fields();
	uint64_t random = 5;

	(void)state;
	for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++) {
		fill(f->x, &random);
		set->narrow[TAUT_MXINT8](f->a, f->x, NUMBERS, 1);
		set->widen[TAUT_MXINT8](f->out, f->a, NUMBERS);
		set->narrow[TAUT_MXINT8](f->got, f->out, NUMBERS, 1);
		assert_memory_equal(f->got, f->a, sizeof f->right);
	}
	free(f);
}

static void test_sum(void **state)
{
	const struct tauti_reduce_kernels *set;
	struct fields *f = new_fields();
	uint64_t random = 6;
	size_t bytes = sizeof f->right;

	(void)state;
	for (int turn = 0; turn < 12; turn++) {
		fill(f->x, &random);
		fill(f->y, &random);
		right_narrow(f->x, NUMBERS, 1, f->a);
		right_narrow(f->y, NUMBERS, 1, f->b);
		for (size_t k = 0; k < BLOCKS; k += 2) /* of one size */
			if (f->a[k * BLOCK_BYTES] != 255)
				f->b[k * BLOCK_BYTES] = f->a[k * BLOCK_BYTES];
		right_sum(f->a, f->b, f->right);
		for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++) {
			tauti_reduce_kernel *sum =
				set->of[TAUT_MXINT8][TAUT_SUM];

			sum(f->got, f->a, f->b, BLOCKS);
			assert_memory_equal(f->got, f->right, bytes);
			sum(f->got, f->b, f->a, BLOCKS);
			assert_memory_equal(f->got, f->right, bytes);
			memcpy(f->got, f->a, bytes);
			sum(f->got, f->got, f->b, BLOCKS);
			assert_memory_equal(f->got, f->right, bytes);
			memcpy(f->got, f->b, bytes);
			sum(f->got, f->a, f->got, BLOCKS);
			assert_memory_equal(f->got, f->right, bytes);
		}
	}
	free(f);
}

/* Any count at any place, and nothing beside it. */
static void test_places(void **state)
{
	const struct tauti_reduce_kernels *set;
	struct fields *f = new_fields();
	uint64_t random = 7;

	(void)state;
	fill(f->x, &random);
	for (size_t i = 0; (set = tauti_reduce_set(i)) != NULL; i++)
		for (size_t count = 0; count < 140; count++) {
			size_t bytes = (count + BLOCK - 1) / BLOCK * BLOCK_BYTES;
			size_t at = 1 + count % 7;
			char *out = (char *)f->out + at;

			right_narrow(f->x + 1, count, 0.5f, f->right);
			memset(f->got, 0x5a, bytes + 64);
			set->narrow[TAUT_MXINT8](
				f->got + at, f->x + 1, count, 0.5f);
			assert_memory_equal(f->got + at, f->right, bytes);
			assert_int_equal(f->got[at - 1], 0x5a);
			assert_int_equal(f->got[at + bytes], 0x5a);
			memset(f->out, 0x5a, 4 * count + 64);
			set->widen[TAUT_MXINT8](out, f->got + at, count);
			assert_int_equal(out[-1], 0x5a);
			assert_int_equal(out[4 * count], 0x5a);
			tauti_reduce_plain.widen[TAUT_MXINT8](
				f->y, f->right, count);
			assert_memory_equal(out, f->y, 4 * count);
		}
	free(f);
}

/* --- what is lost ------------------------------------------------------------------------*/

/* Of numbers as gradients have them, the error of the whole by its size. */
static double lost(struct fields *f, enum taut_type type)
{
	double error = 0, size = 0;

	taut_narrow(type, f->a, f->x, NUMBERS / 4, 1);
	taut_widen(type, f->out, f->a, NUMBERS / 4);
	for (size_t i = 0; i < NUMBERS / 4; i++) {
		double x = (double)f->x[i], off = (double)f->out[i] - x;

		error += off * off;
		size += x * x;
	}
	return sqrt(error / size);
}

/* Normal numbers: a step of a block is about a thirtieth of the deviation, and off by
 * its twelfth's root; bfloat16 is off by a part of each number. */
static void test_lost(void **state)
{
	struct fields *f = new_fields();
	uint64_t random = 8;
	double block, brain;

	(void)state;
	for (size_t i = 0; i < NUMBERS; i++) {
		double u = ((double)(random_bits(&random) >> 11) + 1) * 0x1p-53;
		double v = (double)(random_bits(&random) >> 11) * 0x1p-53;

		f->x[i] = (float)(1e-3 * sqrt(-2 * log(u)) *
			cos(6.283185307179586 * v));
	}
	block = lost(f, TAUT_MXINT8);
	brain = lost(f, TAUT_BFLOAT16);
	assert_true(block > 0.005 && block < 0.011);
	assert_true(brain > 0.001 && brain < 0.003);
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_widen),
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
