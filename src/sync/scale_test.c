/* The factor, against arithmetic in double precision that is rounded by hand. */
#include "sync/ranks.h"

#include "sync/sync.h"

static const double FACTORS[] = { 0.5, 1.0 / 3, 0.25, 1e-4, 3e4, -2, 1.0009765625 };

enum { N_FACTORS = sizeof FACTORS / sizeof *FACTORS, ALL = 1 << 16 };

static void expect(uint64_t input, double factor, uint64_t got, uint64_t right)
{
	if (got != right)
		fail_msg("%#lx times %g is %#lx, not %#lx",
			(unsigned long)input, factor, (unsigned long)got,
			(unsigned long)right);
}

/* Every half float there is. */
static void test_half(void **state)
{
	uint16_t *in = malloc(ALL * sizeof *in), *out = malloc(ALL * sizeof *out);

	(void)state;
	for (uint32_t i = 0; i < ALL; i++)
		in[i] = (uint16_t)i;
	for (int k = 0; k < N_FACTORS; k++) {
		double factor = FACTORS[k];

		tauti_sync_scale(TAUT_FLOAT16, out, in, ALL, factor);
		for (uint32_t i = 0; i < ALL; i++) {
			float product = (float)ranks_half(i) * (float)factor;

			if (isnan(product))
				assert_true(isnan(ranks_half(out[i])));
			else
				expect(i, factor, out[i], ranks_half_bits(
					ranks_round_half(product)));
		}
	}
	free(in);
	free(out);
}

static void test_brain(void **state)
{
	uint16_t *in = malloc(ALL * sizeof *in), *out = malloc(ALL * sizeof *out);

	(void)state;
	for (uint32_t i = 0; i < ALL; i++)
		in[i] = (uint16_t)i;
	for (int k = 0; k < N_FACTORS; k++) {
		double factor = FACTORS[k];

		tauti_sync_scale(TAUT_BFLOAT16, out, in, ALL, factor);
		for (uint32_t i = 0; i < ALL; i++) {
			float product = (float)ranks_brain(i) * (float)factor;

			if (isnan(product))
				assert_true(isnan(ranks_brain(out[i])));
			else
				expect(i, factor, out[i], ranks_brain_bits(
					ranks_round_brain(product)));
		}
	}
	free(in);
	free(out);
}

static void test_wide(void **state)
{
	float in[5] = { 1, -3, 0.1f, 1e-38f, 3e38f }, out[5];
	double wide_in[3] = { 1, 0.1, -1e300 }, wide_out[3];

	(void)state;
	tauti_sync_scale(TAUT_FLOAT32, out, in, 5, 1.0 / 3);
	for (int i = 0; i < 5; i++)
		assert_true(out[i] == in[i] * (float)(1.0 / 3));
	tauti_sync_scale(TAUT_FLOAT64, wide_out, wide_in, 3, 1.0 / 3);
	for (int i = 0; i < 3; i++)
		assert_true(wide_out[i] == wide_in[i] * (1.0 / 3));
}

/* No factor leaves every bit, also of what is no number. */
static void test_none(void **state)
{
	uint32_t in[3] = { 0x7f800001, 0xffc12345, 0x80000000 }, out[3];

	(void)state;
	for (int factor = 0; factor < 2; factor++) {
		memset(out, 0, sizeof out);
		tauti_sync_scale(TAUT_FLOAT32, out, in, 3, factor);
		assert_memory_equal(out, in, sizeof in);
		tauti_sync_scale(TAUT_INT32, out, out, 3, factor);
		assert_memory_equal(out, in, sizeof in);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_half),
		cmocka_unit_test(test_brain),
		cmocka_unit_test(test_wide),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
