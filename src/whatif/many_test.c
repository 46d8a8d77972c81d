/* many_test.c - a predictor of stack after stack says what taut_predict() says of
 * each alone, whatever it was asked before. */
#include "tests/support/unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <taut/whatif.h>

#include "tests/support/alloc_fail.h"
#include "whatif/ddp_job.h"

static const struct ddp_job usual = {
	.ranks = 2, .steps = 4, .n_gradients = 4, .floats = 250000,
	.forward_us = 10000, .compute_us = 5000, .optimizer_us = 2000,
	.bucket_floats = 500000, .us_by_float = 0.04, .layers = 1,
};
static const struct ddp_job with_memory = {
	.ranks = 2, .steps = 4, .n_gradients = 4, .floats = 250000,
	.forward_us = 10000, .compute_us = 5000, .optimizer_us = 2000,
	.bucket_floats = 500000, .us_by_float = 0.04, .layers = 1,
	.block_bytes = 6000000,
};
enum { SMALL_FLOATS = 12500 * 7 }; /* of a step, summed in the forward pass */

/* --- the same as alone ------------------------------------------------------------------ */

enum { MOST = 4 };
static const struct stack {
	const char *changes[MOST + 1];
} stacks[] = {
	{ { NULL } },
	{ { "bucket=500KB" } },
	{ { "link=2x" } },
	{ { "link" } },                          /* refused: no rate */
	{ { "bucket=100MB" } },
	{ { "bucket=1MB", "compress=fp16" } },
	{ { "compress=fp16", "bucket=1MB" } },
	{ { "workers=2" } },                     /* refused: no loader */
	{ { "schedule=priority,partition=256KiB,credit=1MiB,barrier=cross" } },
	{ { "bucket=1MB", "algorithm=flat",
		"schedule=priority,partition=1MiB,credit=4MiB,barrier=cross" } },
	{ { "batch=2x" } },
	{ { "bucket=0" } },                      /* refused as it is laid */
	{ { "bucket=2x", "host=2x" } },
	{ { NULL } },
	{ { "world=4" } },
	{ { "link=0.5x", "compress=bf16" } },
	{ { "recompute=nn.Module: blocks.*" } }, /* refused without modules */
	{ { "recompute=nn.Module: blocks.1", "compress=fp16" } },
	{ { "batch=0.5x", "bucket=1MB" } },
	{ { "algorithm=tree" } },
	{ { "bucket=1MB", "bukket=1MB" } },      /* refused: unknown */
	{ { "bucket=500KB" } },
};
enum { N_STACKS = sizeof stacks / sizeof *stacks };

static size_t length(const struct stack *stack)
{
	size_t n = 0;

	while (stack->changes[n])
		n++;
	return n;
}

static void check_same(const struct told *t, struct taut_predictor *together,
	const struct stack *stack)
{
	static const struct taut_whatif_options times = { .no_graph = 1 };
	const char *name = stack->changes[0] ? stack->changes[0] : "-";
	struct taut_predicted found = { 7, 7, 7 };
	struct taut_prediction *alone = NULL;
	struct taut_error err, why;
	taut_status expected = taut_predict(t->graph, stack->changes,
		length(stack), &times, &alone, &why);
	taut_status status = taut_predictor_predict(together, stack->changes,
		length(stack), &found, &err);

	if (status != expected)
		fail_msg("%s: %d, and alone %d", name, status, expected);
	if (status) {
		assert_string_equal(err.message, why.message);
		assert_int_equal(found.step_ns, 7);
		return;
	}
	if (found.step_ns != alone->after_ns)
		fail_msg("%s: %lld ns, and alone %lld", name,
			(long long)found.step_ns, (long long)alone->after_ns);
	if (found.memory_bytes != alone->memory_after)
		fail_msg("%s: %lld bytes, and alone %lld", name,
			(long long)found.memory_bytes,
			(long long)alone->memory_after);
	taut_prediction_destroy(alone);
}

/* In this order, backwards, and some more often: an edit serves several stacks. */
static void check_all(const struct told *t)
{
	struct taut_predictor *together;
	struct taut_error err;

	if (taut_predictor_create(t->graph, &together, &err))
		fail_msg("%s", err.message);
	for (int i = 0; i < N_STACKS; i++)
		check_same(t, together, &stacks[i]);
	for (int i = N_STACKS; i-- > 0;)
		check_same(t, together, &stacks[i]);
	for (int i = 0; i < 3 * N_STACKS; i += 3)
		check_same(t, together, &stacks[i % N_STACKS]);
	taut_predictor_destroy(together);
}

static void test_as_alone(void **state)
{
	struct told t = tell(&usual);

	(void)state;
	check_all(&t);
	forget(&t);
}

static void test_memory_as_alone(void **state)
{
	struct told t = tell(&with_memory);
	static const char *const again[] = { "recompute=nn.Module: blocks.*" };
	static const char *const twice[] = { "batch=2x" };
	struct taut_predicted plain, wide, narrow;
	struct taut_predictor *p;
	struct taut_error err;

	(void)state;
	if (taut_predictor_create(t.graph, &p, &err))
		fail_msg("%s", err.message);
	assert_int_equal(taut_predictor_predict(p, NULL, 0, &plain, &err),
		TAUT_OK);
	/* all four layers' blocks are there when the last one has made its own */
	assert_int_equal(plain.memory_bytes, 4 * (6000000 + 600000));
	assert_int_equal(taut_predictor_predict(p, twice, 1, &wide, &err),
		TAUT_OK);
	assert_int_equal(wide.memory_bytes, 2 * plain.memory_bytes);
	assert_int_equal(taut_predictor_predict(p, again, 1, &narrow, &err),
		TAUT_OK);
	/* what four hand on, and the last layer's once more */
	assert_int_equal(narrow.memory_bytes, 4 * 600000 + 6600000);
	assert_true(narrow.step_ns > plain.step_ns);
	taut_predictor_destroy(p);
	check_all(&t);
	forget(&t);
}

static void test_memory_is_not_known(void **state)
{
	struct told t = tell(&usual);
	struct taut_predicted found;
	struct taut_predictor *p;

	(void)state;
	assert_int_equal(taut_predictor_create(t.graph, &p, NULL), TAUT_OK);
	assert_int_equal(taut_predictor_predict(p, NULL, 0, &found, NULL),
		TAUT_OK);
	assert_int_equal(found.memory_bytes, -1);
	taut_predictor_destroy(p);
	forget(&t);
}

/* --- bytes on the network --------------------------------------------------------------- */

static int64_t network(struct taut_predictor *p, const char *change)
{
	struct taut_predicted found;
	struct taut_error err;

	if (taut_predictor_predict(p, &change, change != NULL, &found, &err))
		fail_msg("%s", err.message);
	return found.network_bytes;
}

/* A ring of p ranks sends 2 (p - 1) / p of the bytes from each. */
static void expect_network(const struct told *t, const char *change,
	double floats, int ranks)
{
	double bytes = 2.0 * (ranks - 1) * 4 * floats;
	struct taut_predictor *p;
	int64_t found;

	assert_int_equal(taut_predictor_create(t->graph, &p, NULL), TAUT_OK);
	found = network(p, change);
	if (llabs(found - (int64_t)bytes) > 2)
		fail_msg("%s: expected %.0f bytes, found %lld",
			change ? change : "-", bytes, (long long)found);
	taut_predictor_destroy(p);
}

static void test_network(void **state)
{
	struct ddp_job job = usual;
	struct told t = tell(&job);

	(void)state;
	expect_network(&t, NULL, 1000000 + SMALL_FLOATS, 2);
	expect_network(&t, "bucket=1MB", 1000000 + SMALL_FLOATS, 2);
	expect_network(&t, "compress=fp16", 500000 + SMALL_FLOATS, 2);
	expect_network(&t, "compress=bf16", 500000 + SMALL_FLOATS, 2);
	forget(&t);
	job.ranks = 3;
	t = tell(&job);
	expect_network(&t, NULL, 1000000 + SMALL_FLOATS, 3);
	expect_network(&t, "link=2x", 1000000 + SMALL_FLOATS, 3);
	forget(&t);
}

/* --- what cannot be ----------------------------------------------------------------------- */

static void test_too_many_changes(void **state)
{
	const char *changes[65];
	struct told t = tell(&usual);
	struct taut_predicted found;
	struct taut_predictor *p;
	struct taut_error err;

	(void)state;
	for (int i = 0; i < 65; i++)
		changes[i] = "link=1x";
	assert_int_equal(taut_predictor_create(t.graph, &p, NULL), TAUT_OK);
	assert_int_equal(taut_predictor_predict(p, changes, 65, &found, &err),
		TAUT_EINVAL);
	assert_string_equal(
		err.message, "expected at most 64 changes, found 65");
	assert_int_equal(taut_predictor_predict(p, changes, 64, &found, &err),
		TAUT_OK);
	taut_predictor_destroy(p);
	taut_predictor_destroy(NULL);
	forget(&t);
}

static void test_creating_without_memory(void **state)
{
	struct told t = tell(&with_memory);
	taut_status status = TAUT_ENOMEM;
	struct taut_predictor *p = NULL;
	long n = 0;

	(void)state;
	for (; status; n++) {
		alloc_fail_after(n);
		status = taut_predictor_create(t.graph, &p, NULL);
		alloc_fail_never();
		if (status) {
			assert_int_equal(status, TAUT_ENOMEM);
			assert_null(p);
		}
	}
	assert_true(n > 10);
	taut_predictor_destroy(p);
	forget(&t);
}

/* Where memory ran out once, the next answer is right all the same. */
static void test_predicting_without_memory(void **state)
{
	static const char *const changes[] = { "bucket=1MB", "batch=2x" };
	struct told t = tell(&with_memory);
	struct taut_predicted right, found;
	taut_status status = TAUT_ENOMEM;
	struct taut_predictor *p;
	long n = 0;

	(void)state;
	assert_int_equal(taut_predictor_create(t.graph, &p, NULL), TAUT_OK);
	assert_int_equal(taut_predictor_predict(p, changes, 2, &right, NULL),
		TAUT_OK);
	taut_predictor_destroy(p);
	for (; status; n++) {
		assert_int_equal(
			taut_predictor_create(t.graph, &p, NULL), TAUT_OK);
		alloc_fail_after(n);
		status = taut_predictor_predict(p, changes, 2, &found, NULL);
		alloc_fail_never();
		if (status)
			assert_int_equal(status, TAUT_ENOMEM);
		assert_int_equal(taut_predictor_predict(p, changes, 2, &found,
			NULL), TAUT_OK);
		assert_memory_equal(&found, &right, sizeof found);
		taut_predictor_destroy(p);
	}
	assert_true(n > 10);
	forget(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_alone),
		cmocka_unit_test(test_memory_as_alone),
		cmocka_unit_test(test_memory_is_not_known),
		cmocka_unit_test(test_network),
		cmocka_unit_test(test_too_many_changes),
		cmocka_unit_test(test_creating_without_memory),
		cmocka_unit_test(test_predicting_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
