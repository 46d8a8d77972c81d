/* Searches of 12 measurements over made-up step times of many jobs.
 *
 * A job of made-up times: computation of 1, gradients that take c of the link, in
 * pieces of p (each costs a message), of which as many as the credit may be under
 * way (too few leave the link idle, too many cannot be overtaken), of which small
 * ones are fused (each costs a message, a large one comes late), by one of four
 * ways (each with its bytes and its messages). All of that is drawn from a seed;
 * measurements have a noise of 1 %.
 *
 * What a search of 12 is worth is a share: of jobs in which its best is within 3 %
 * of the best point there is. What that is for points drawn at random follows from
 * how many such points there are: 1 - C(N - K, 12) / C(N, 12). That is the measure
 * of the others: they must be above it by three standard deviations of a share of
 * so many jobs, which chance gives once in 700. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdbool.h>

#include <taut/tune.h>

enum { JOBS = 100, TRIALS = 12, PIECES = 6, CREDITS = 5, FUSES = 5, WAYS = 4,
	POINTS = PIECES * CREDITS * FUSES * WAYS };

static const double pieces[] = { 0.25, 0.5, 1, 2, 4, 8 };
static const double credits[] = { 1, 2, 4, 8, 16 };
static const double fuses[] = { 0.0625, 0.25, 1, 4, 16 };
static const struct taut_tune_dimension dimensions[] = {
	{ "piece", TAUT_TUNE_LOG, PIECES, pieces },
	{ "credit", TAUT_TUNE_LOG, CREDITS, credits },
	{ "fuse", TAUT_TUNE_LOG, FUSES, fuses },
	{ "way", TAUT_TUNE_CHOICE, WAYS, NULL },
};

/* --- jobs ---------------------------------------------------------------------------*/

struct chance {
	uint64_t state;
};

static double uniform(struct chance *c)
{
	uint64_t x = c->state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

/* Between low and high, its logarithm evenly. */
static double between(struct chance *c, double low, double high)
{
	return low * pow(high / low, uniform(c));
}

static double normal(struct chance *c)
{
	double r = sqrt(-2 * log(1 - uniform(c)));

	return r * cos(2 * 3.14159265358979323846 * uniform(c));
}

struct job {
	double bytes;   /* of gradients, in the unit of the sizes */
	double c;       /* what they take of the link, alone; computation: 1 */
	double message; /* of a piece or a fused task, of a step */
	double small;   /* tasks that may be fused */
	double idle;    /* of the link, for a credit of 1 */
	double more[WAYS], messages[WAYS];
};

static struct job draw_job(uint64_t seed)
{
	struct chance c = { seed * 1000003 };
	struct job job = { .bytes = between(&c, 50, 500),
		.c = between(&c, 0.4, 2), .small = between(&c, 20, 200),
		.idle = between(&c, 0.05, 0.6) };

	job.message = between(&c, 0.0001, 0.002);
	for (int i = 0; i < WAYS; i++) {
		job.more[i] = between(&c, 1, 1.4);
		job.messages[i] = between(&c, 1, 4);
	}
	return job;
}

/* The same job as somebody believes it is: all constants off by up to a third. */
static struct job misjudge(const struct job *of, uint64_t seed)
{
	struct chance c = { seed * 7777777 + 1 };
	struct job job = *of;

	job.c *= between(&c, 0.75, 1.33);
	job.message *= between(&c, 0.67, 1.5);
	job.small *= between(&c, 0.67, 1.5);
	job.idle *= between(&c, 0.67, 1.5);
	for (int i = 0; i < WAYS; i++)
		job.more[i] *= between(&c, 0.95, 1.05);
	return job;
}

static double time_of(const struct job *job, double piece, double credit,
	double fuse, uint32_t way)
{
	double link = job->c * job->more[way], under_way = fmax(piece, credit);
	double each = job->message * job->messages[way];
	double messages = job->bytes / piece + job->small / (1 + fuse);
	double idle = 1 + job->idle * piece / under_way / sqrt(under_way);
	double late = (under_way + piece + fuse) / job->bytes * link;
	double exchange = link * idle + each * messages;

	return fmax(1, exchange) + 0.2 * fmin(1, exchange) + late;
}

static void fill(const struct job *job, const struct taut_tune *t,
	double *values)
{
	for (uint32_t i = 0; i < POINTS; i++)
		values[i] = time_of(job, pieces[taut_tune_value_of(t, i, 0)],
			credits[taut_tune_value_of(t, i, 1)],
			fuses[taut_tune_value_of(t, i, 2)],
			taut_tune_value_of(t, i, 3));
}

/* --- searches -----------------------------------------------------------------------*/

struct score {
	uint32_t within;   /* jobs: 3 % of the best */
	double trials, regret;
};

static double least_of(const double *values)
{
	double least = INFINITY;

	for (uint32_t i = 0; i < POINTS; i++)
		least = fmin(least, values[i]);
	return least;
}

/* Chance of one of K points among 12 of N that are drawn without going back. */
static double by_chance(const double *values)
{
	double least = least_of(values), none = 1;
	uint32_t good = 0;

	for (uint32_t i = 0; i < POINTS; i++)
		good += values[i] <= 1.03 * least;
	for (int i = 0; i < TRIALS; i++)
		none *= fmax(0, (double)POINTS - good - i) / (POINTS - i);
	return 1 - none;
}

static struct taut_tune *make(enum taut_tune_how how, uint64_t seed)
{
	struct taut_tune_options o = { .how = how, .seed = seed,
		.budget = TRIALS };
	struct taut_tune *t;

	assert_int_equal(taut_tune_create(dimensions, 4, &o, &t, NULL), TAUT_OK);
	return t;
}

static void search(struct taut_tune *t, const double *values, uint64_t seed,
	struct score *score)
{
	struct chance c = { seed * 31 + 5 };
	struct taut_tune_best best;
	uint32_t point;
	int n = 0;

	for (; n < TRIALS && !taut_tune_next(t, &point, NULL); n++)
		assert_int_equal(taut_tune_tell(t, point, values[point] *
			exp(0.01 * normal(&c)), NULL), TAUT_OK);
	assert_int_equal(taut_tune_best(t, &best, NULL), TAUT_OK);
	double regret = values[best.point] / least_of(values) - 1;

	score->within += regret <= 0.03;
	score->trials += n / (double)JOBS;
	score->regret += regret / JOBS;
	taut_tune_destroy(t);
}

static void report(const char *name, const struct score *score)
{
	print_message("%-24s within 3 %%: %3u of %d, mean regret %5.2f %%, "
		"%.1f trials\n", name, score->within, JOBS, score->regret * 100,
		score->trials);
}

/* More of the jobs than chance gives. */
static double above(double chance)
{
	return JOBS * chance + 3 * sqrt(JOBS * chance * (1 - chance));
}

static void test_landscapes(void **state)
{
	struct score random = { 0 }, grid = { 0 }, bayes = { 0 };
	struct score predicted = { 0 }, simulator = { 0 };
	double chance = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= JOBS; seed++) {
		double values[POINTS], believed[POINTS];
		struct taut_tune *t = make(TAUT_TUNE_BAYES, seed);
		struct job job = draw_job(seed), other = misjudge(&job, seed);
		uint32_t point;

		fill(&job, t, values);
		fill(&other, t, believed);
		chance += by_chance(values) / JOBS;
		search(t, values, seed, &bayes);
		search(make(TAUT_TUNE_RANDOM, seed), values, seed, &random);
		search(make(TAUT_TUNE_GRID, seed), values, seed, &grid);
		t = make(TAUT_TUNE_BAYES, seed);
		assert_int_equal(taut_tune_predict(t, believed, NULL), TAUT_OK);
		assert_int_equal(taut_tune_next(t, &point, NULL), TAUT_OK);
		simulator.regret +=
			(values[point] / least_of(values) - 1) / JOBS;
		simulator.within += values[point] <= 1.03 * least_of(values);
		simulator.trials += 1.0 / JOBS;
		search(t, values, seed, &predicted);
	}
	print_message("%-24s within 3 %%: %5.1f of %d\n", "random, by formula",
		chance * JOBS, JOBS);
	report("random", &random);
	report("grid", &grid);
	report("simulator's first", &simulator);
	report("bayes", &bayes);
	report("bayes after simulator", &predicted);
	assert_true(bayes.within > above(chance));
	assert_true(predicted.within > above(chance));
	assert_true(predicted.within >= bayes.within);
	assert_true(bayes.trials <= TRIALS && predicted.trials <= bayes.trials);
}

/* A prediction that is wrong about which way is best, by 20 %: what was measured
 * wins. */
static void test_wrong_prediction(void **state)
{
	struct score misled = { 0 };
	double chance = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= JOBS; seed++) {
		double values[POINTS], believed[POINTS];
		struct taut_tune *t = make(TAUT_TUNE_BAYES, seed);
		struct job job = draw_job(seed), other = job;

		other.more[seed % WAYS] *= 0.8;
		fill(&job, t, values);
		fill(&other, t, believed);
		chance += by_chance(values) / JOBS;
		assert_int_equal(taut_tune_predict(t, believed, NULL), TAUT_OK);
		search(t, values, seed, &misled);
	}
	report("misled about a way", &misled);
	assert_true(misled.within > above(chance));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_landscapes),
		cmocka_unit_test(test_wrong_prediction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
