/* Medians and their intervals; that 95 % are 95 % is counted. */
#include "stalls/world_by_hand.h"

static void test_of_few(void **state)
{
	double one[] = { 3 }, two[] = { 5, 3 }, same[] = { 2, 2, 2 };
	struct taut_stalls_value value = tauti_stalls_interval(one, 1, true);

	(void)state;
	assert_true(value.value == 3 && value.low == 3 && value.high == 3);
	assert_int_equal(value.n_rounds, 1);
	value = tauti_stalls_interval(two, 2, false);
	assert_true(value.value == 4);
	world_near(value.high, 4 + 12.706 * 1, 1e-4, "high"); /* deviation of the mean: 1 */
	world_near(value.low, 4 - 12.706 * 1, 1e-4, "low");
	value = tauti_stalls_interval(same, 3, true);
	world_near(value.low, 2, 1e-12, "low");
	world_near(value.high, 2, 1e-12, "high");
	assert_true(value.value == 2);
}

static void test_of_logarithms(void **state)
{
	double values[] = { 4, 1, 2 };
	struct taut_stalls_value value = tauti_stalls_interval(values, 3, true);
	double half = 4.303 * log(2) / sqrt(3);

	(void)state;
	assert_true(value.value == 2);
	world_near(value.low, 2 * exp(-half), 1e-6, "low");
	world_near(value.high, 2 * exp(half), 1e-6, "high");
}

static void test_of_runs(void **state)
{
	double one[] = { 3 }, rates[] = { 8, 1, 1 }, shares[] = { 0.5, 0.1, 0.6 };
	struct taut_stalls_value value = tauti_stalls_interval_of_runs(one, 1, false);

	(void)state;
	assert_true(value.value == 3 && value.low == 3 && value.high == 3);
	value = tauti_stalls_interval_of_runs(rates, 3, true);
	world_near(value.value, 2, 1e-12, "of rates");
	world_near(value.low, 2 * exp(-4.303 * log(2)), 1e-6, "low");
	value = tauti_stalls_interval_of_runs(shares, 3, false);
	world_near(value.value, 0.4, 1e-12, "of shares");
}

/* It holds the median, whatever the values, and is a number. */
static void test_of_any(void **state)
{
	struct tauti_draw draw = tauti_draw_begin(1, 2, 3);

	(void)state;
	for (int k = 0; k < 3000; k++) {
		uint32_t n = 1 + (uint32_t)tauti_draw_below(&draw, 40);
		bool are_rates = tauti_draw_below(&draw, 2);
		struct taut_stalls_value value;
		double values[40];

		for (uint32_t i = 0; i < n; i++)
			values[i] = exp(tauti_draw_between(&draw, -30, 30)) *
				(are_rates || tauti_draw_below(&draw, 2) ? 1 : -1);
		value = tauti_stalls_interval(values, n, are_rates);
		assert_true(value.low <= value.value && value.value <= value.high);
		assert_true(isfinite(value.low) && isfinite(value.high));
	}
}

/* --- 95 of 100 ---------------------------------------------------------------------------
 * Steps of 10 ms in place, 12 cached, 20 cold, with white noise; and the machine becomes
 * slower and faster over all phases in turn: a random walk, and a trend. */

struct noise {
	double white, walk, trend; /* a phase */
	double run;                /* a process */
};

static void add_phase(struct tauti_measured *rank, uint32_t round,
	enum taut_stalls_phase phase, double step_ns)
{
	struct tauti_measured_phase row = { .phase = phase, .round = round, .steps = 20,
		.samples = 640, .wall_ns = llround(20 * step_ns), .own_cpu_ns = -1,
		.read_bytes = -1 };

	assert_true(taut_vec_push(&rank->phases, row));
}

static struct taut_stalls_result measure(uint32_t runs, uint32_t rounds,
	const struct noise *noise, struct tauti_draw *draw)
{
	static const struct {
		enum taut_stalls_phase phase;
		double ns;
	} phases[] = { { TAUT_STALLS_PLACE, 10e6 }, { TAUT_STALLS_COLD, 20e6 },
		{ TAUT_STALLS_CACHED, 12e6 } };
	struct tauti_measured *ranks = calloc(runs, sizeof *ranks);
	struct tauti_listed listed = { .paths = NULL };
	struct taut_stalls_result result;
	struct taut_stalls *stalls;

	for (uint32_t run = 0; run < runs; run++) {
		double slow = noise->run * world_gauss(draw);

		ranks[run] = (struct tauti_measured){
			.n_ranks = 1, .loader = "torch", .batch = 32 };
		for (uint32_t i = 0; i < rounds * 3; i++) {
			slow += noise->trend + noise->walk * world_gauss(draw);
			add_phase(&ranks[run], i / 3, phases[i % 3].phase,
				phases[i % 3].ns *
				exp(slow + noise->white * world_gauss(draw)));
		}
	}
	assert_int_equal(
		tauti_stalls_make(ranks, 1, runs, &listed, &stalls, NULL), TAUT_OK);
	taut_stalls_result(stalls, &result);
	taut_stalls_close(stalls);
	return result;
}

static bool holds(const struct taut_stalls_value *value, double truth)
{
	return value->low <= truth && truth <= value->high;
}

static void expect_coverage(
	uint32_t runs, uint32_t rounds, struct noise noise, bool of_rates)
{
	struct tauti_draw draw = tauti_draw_begin(7, rounds, of_rates);
	int held[4] = { 0 };

	for (int k = 0; k < 2000; k++) {
		struct taut_stalls_result result = measure(runs, rounds, &noise, &draw);

		held[0] += holds(&result.fetch_stall, 0.4);
		held[1] += holds(&result.prepare_stall, 0.1);
		held[2] += holds(&result.cached_stall, 1 / 6.0);
		held[3] += holds(&result.rate[TAUT_STALLS_COLD], 1600);
	}
	for (int i = 0; i < 3 + of_rates; i++)
		if (held[i] < 1800 || held[i] > 1980)
			fail_msg("%d of 2000 intervals over %u runs of %u rounds hold what "
				"is true (%d), expected 1800 to 1980", held[i], runs,
				rounds, i);
}

static void test_intervals_hold_what_is_true(void **state)
{
	static const uint32_t rounds[] = { 3, 5, 10 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		expect_coverage(1, rounds[i], (struct noise){ .white = 0.03 }, true);
		expect_coverage(1, rounds[i],
			(struct noise){ .white = 0.02, .walk = 0.01, .trend = 0.003 },
			false);
	}
}

/* Where processes differ, rounds of one say nothing of it: only runs do. */
static void test_intervals_of_runs_hold_what_is_true(void **state)
{
	const struct noise noise = { .white = 0.01, .run = 0.08 };
	struct tauti_draw draw = tauti_draw_begin(7, 8, 9);
	int held = 0;

	(void)state;
	expect_coverage(3, 3, noise, true);
	expect_coverage(5, 2, noise, true);
	for (int k = 0; k < 2000; k++) {
		struct taut_stalls_result result = measure(1, 9, &noise, &draw);

		held += holds(&result.rate[TAUT_STALLS_COLD], 1600);
	}
	assert_true(held < 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_few),
		cmocka_unit_test(test_of_logarithms),
		cmocka_unit_test(test_of_runs),
		cmocka_unit_test(test_of_any),
		cmocka_unit_test(test_intervals_hold_what_is_true),
		cmocka_unit_test(test_intervals_of_runs_hold_what_is_true),
	};
	return cmocka_run_group_tests_name("medians and intervals", tests, NULL, NULL);
}
