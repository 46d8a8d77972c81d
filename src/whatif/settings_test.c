/* settings_test.c - settings as points, and what is predicted of each, beside the
 * predictions of the same changes one at a time. */
#include "tests/support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <taut/settings.h>

#include "tests/support/alloc_fail.h"
#include "whatif/ddp_job.h"

enum { MOST = 1000, MIB = 1 << 20 };

static const struct ddp_job job = { .ranks = 2, .steps = 4, .n_gradients = 16,
	.floats = 100000, .forward_us = 16000, .compute_us = 2000,
	.optimizer_us = 2000, .bucket_floats = 100000, .us_by_float = 0.02,
	.layers = 1 };

static struct taut_settings *of(const struct taut_graph *graph)
{
	struct taut_settings *s;

	assert_int_equal(taut_settings_of(graph, &s, NULL), TAUT_OK);
	assert_true(taut_settings_points(s) <= MOST);
	return s;
}

static int64_t one(const struct taut_graph *graph, const char *before,
	const struct taut_setting *s, const char *way)
{
	char bucket[64], algorithm[64], schedule[128];
	const char *changes[] = { before, bucket, algorithm, schedule };
	struct taut_prediction *p;
	struct taut_error err;
	int64_t ns;

	snprintf(bucket, sizeof bucket, "bucket=%" PRIu64 "B", s->fuse_bytes);
	snprintf(algorithm, sizeof algorithm, "algorithm=%s", way);
	snprintf(schedule, sizeof schedule, "schedule=priority,partition=%"
		PRIu64 "B,credit=%" PRIu64 "B,barrier=cross,by=taut", s->piece_bytes,
		s->credit_bytes);
	if (taut_predict(graph, changes + !before, 4 - !before, NULL, &p, &err))
		fail_msg("%s", err.message);
	ns = p->after_ns;
	taut_prediction_destroy(p);
	return ns;
}

static void compare(const struct taut_graph *graph, const char *before)
{
	static double ns[MOST];
	struct taut_settings *s = of(graph);
	uint32_t n = taut_settings_points(s), replayed, compared = 0;
	int64_t before_ns;
	struct taut_error err;

	if (taut_settings_predict(s, graph, &before, before != NULL, NULL,
		&before_ns, ns, &replayed, &err))
		fail_msg("%s", err.message);
	assert_true(before_ns > 0 && replayed > 0 && replayed < n);
	for (uint32_t i = 0; i < n; i += 43) {
		struct taut_setting at = taut_settings_at(s, i);
		const char *way = at.way == TAUT_WAY_FLAT ? "flat" : "ring";

		if (at.way == TAUT_WAY_AUTO)
			continue; /* by the table: below */
		assert_true(ns[i] == (double)one(graph, before, &at, way));
		compared++;
	}
	assert_true(compared > 5);
	taut_settings_destroy(s);
}

/* The same numbers as taut_predict() gives, with changes in front and without. */
static void test_same_as_one(void **state)
{
	struct told t = tell(&job);

	(void)state;
	compare(t.graph, NULL);
	compare(t.graph, "link=0.5x");
	forget(&t);
}

/* On two hosts of one rank each the table has all at once. */
static void test_what_is_the_same(void **state)
{
	static double ns[MOST];
	struct told t = tell(&job);
	struct taut_settings *s = of(t.graph);
	struct taut_setting a = { 2 * MIB, 4 * MIB, MIB, TAUT_WAY_AUTO };
	struct taut_setting b = { 2 * MIB, 4 * MIB, MIB, TAUT_WAY_FLAT };
	int64_t before_ns;

	(void)state;
	assert_int_equal(taut_settings_predict(s, t.graph, NULL, 0, NULL,
		&before_ns, ns, NULL, NULL), TAUT_OK);
	assert_true(ns[taut_settings_near(s, &a)] ==
		ns[taut_settings_near(s, &b)]);
	taut_settings_destroy(s);
	forget(&t);
}

static void test_points(void **state)
{
	const struct taut_settings_options options = { .n_ranks = 8,
		.n_hosts = 2 };
	struct taut_setting far = { 0, 0, 0, TAUT_WAY_TREE };
	struct taut_tune_options how = { 0 };
	struct taut_settings *s;
	struct taut_tune *tune;
	uint32_t n_dimensions;
	const struct taut_tune_dimension *dimensions;

	(void)state;
	assert_int_equal(taut_settings_create(&options, &s, NULL), TAUT_OK);
	dimensions = taut_settings_dimensions(s, &n_dimensions);
	assert_int_equal(taut_tune_create(dimensions, n_dimensions, &how, &tune,
		NULL), TAUT_OK);
	assert_int_equal(taut_tune_points(tune), taut_settings_points(s));
	for (uint32_t i = 0; i < taut_settings_points(s); i++) {
		struct taut_setting at = taut_settings_at(s, i);
		double piece = dimensions[0].values[
			taut_tune_value_of(tune, i, 0)];

		assert_int_equal(taut_settings_near(s, &at), i);
		assert_true((double)at.piece_bytes == piece);
	}
	far = taut_settings_at(s, taut_settings_near(s, &far));
	assert_int_equal(far.piece_bytes, 8 * MIB);
	assert_int_equal(far.credit_bytes, 16 * MIB);
	assert_int_equal(far.fuse_bytes, 64 << 10);
	assert_int_equal(far.way, TAUT_WAY_AUTO);
	taut_tune_destroy(tune);
	taut_settings_destroy(s);
	taut_settings_destroy(NULL);
}

/* --- steps of many stacks ---------------------------------------------------------------*/

static void test_steps(void **state)
{
	const char *slow[] = { "link=0.25x" }, *wrong[] = { "link=" };
	const struct taut_stack stacks[] = { { NULL, 0 }, { slow, 1 },
		{ wrong, 1 } };
	struct told t = tell(&job);
	int64_t before_ns = -7, ns[3] = { -7, -7, -7 };
	struct taut_error err;

	(void)state;
	assert_int_equal(taut_predict_steps(t.graph, stacks, 3, NULL, &before_ns,
		ns, &err), TAUT_EINVAL);
	assert_non_null(strstr(err.message, "link"));
	assert_true(before_ns == -7 && ns[0] == -7 && ns[1] == -7);
	assert_int_equal(taut_predict_steps(t.graph, stacks, 2, NULL, &before_ns,
		ns, &err), TAUT_OK);
	assert_true(ns[0] > 0 && ns[1] > ns[0] && before_ns > 0);
	forget(&t);
}

static void test_no_gradients(void **state)
{
	static double ns[MOST];
	struct ddp_job alone = job;
	struct taut_settings *s;
	struct taut_error err;
	struct told t;
	int64_t before_ns;

	(void)state;
	alone.bucket_floats = 0;
	t = tell(&alone);
	s = of(t.graph);
	assert_int_equal(taut_settings_predict(s, t.graph, NULL, 0, NULL,
		&before_ns, ns, NULL, &err), TAUT_EINVAL);
	taut_settings_destroy(s);
	forget(&t);
}

static void test_no_memory(void **state)
{
	const char *slow[] = { "link=0.25x",
		"schedule,partition=1MB,barrier=cross" };
	const struct taut_stack stack = { slow, 2 };
	const struct taut_whatif_options options = { .threads = 1 };
	struct told t = tell(&job);
	taut_status status = TAUT_ENOMEM;
	int64_t before_ns, ns;

	(void)state;
	for (long n = 0; status; n += 1 + n / 4) {
		alloc_fail_after(n);
		status = taut_predict_steps(t.graph, &stack, 1, &options,
			&before_ns, &ns, NULL);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
	}
	forget(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_as_one),
		cmocka_unit_test(test_what_is_the_same),
		cmocka_unit_test(test_points),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_no_gradients),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
