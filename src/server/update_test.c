/* The optimizers against plain C, step by step, to the bit; and their words. */
#include "tests/support/unit.h"

#include <math.h>
#include <string.h>

#include "server/server.h"

enum { COUNT = 37, STEPS = 9 };

/* More digits than a float has. */
static double noise(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (int32_t)*seed / 1e9;
}

/* docs/server.md, one element at a time; volatile, so that nothing is fused. */
#define SGD_ONE(T) \
static void sgd_one_##T(struct one_##T *one, \
	const struct taut_server_update *u, int step, T g) \
{ \
	volatile T d = g, part; \
\
	if (u->weight_decay > 0) { \
		part = (T)u->weight_decay * one->p; \
		d = g + part; \
	} \
	if (u->momentum > 0) { \
		part = (T)u->momentum * one->v; \
		one->v = step == 1 ? d : part + d; \
		part = (T)u->momentum * one->v; \
		d = u->nesterov ? d + part : one->v; \
	} \
	part = (T)u->lr * d; \
	one->p = one->p - part; \
}

#define ADAM_ONE(T, root) \
static void adam_one_##T(struct one_##T *one, \
	const struct taut_server_update *u, int step, T g) \
{ \
	double power1 = 1, power2 = 1; \
	volatile T d = g, a, b; \
\
	for (int i = 0; i < step; i++) { \
		power1 *= u->beta1; \
		power2 *= u->beta2; \
	} \
	if (u->rule == TAUT_SERVER_ADAMW) { \
		one->p = one->p * (T)(1 - u->lr * u->weight_decay); \
	} else if (u->weight_decay > 0) { \
		a = (T)u->weight_decay * one->p; \
		d = g + a; \
	} \
	a = (T)u->beta1 * one->m; \
	b = (T)(1 - u->beta1) * d; \
	one->m = a + b; \
	a = (T)u->beta2 * one->v; \
	b = (T)(1 - u->beta2) * d; \
	b = b * d; \
	one->v = a + b; \
	a = root(one->v); \
	a = a / (T)sqrt(1 - power2); \
	a = a + (T)u->eps; \
	a = one->m / a; \
	b = (T)(u->lr / (1 - power1)) * a; \
	one->p = one->p - b; \
}

#define CHECK(T, type) \
static void check_##T(const struct taut_server_update *update) \
{ \
	T value[COUNT], gradient[COUNT], m[COUNT] = { 0 }, v[COUNT] = { 0 }; \
	struct tauti_update_state state = { .moments = { m, v } }; \
	struct one_##T ones[COUNT]; \
	uint32_t seed = 7; \
\
	for (int i = 0; i < COUNT; i++) { \
		value[i] = (T)noise(&seed); \
		ones[i] = (struct one_##T){ .p = value[i] }; \
	} \
	for (int step = 1; step <= STEPS; step++) { \
		for (int i = 0; i < COUNT; i++) { \
			gradient[i] = (T)noise(&seed); \
			if (update->rule == TAUT_SERVER_SGD) \
				sgd_one_##T(&ones[i], update, step, gradient[i]); \
			else \
				adam_one_##T(&ones[i], update, step, gradient[i]); \
		} \
		tauti_update_apply(update, type, &state, value, gradient, \
			COUNT); \
		for (int i = 0; i < COUNT; i++) { \
			T expected = ones[i].p; \
\
			assert_memory_equal(&value[i], &expected, \
				sizeof expected); \
		} \
	} \
}

#define ORACLE(T, type, root) \
struct one_##T { \
	volatile T p, m, v; \
}; \
SGD_ONE(T) \
ADAM_ONE(T, root) \
CHECK(T, type)

ORACLE(float, TAUT_FLOAT32, sqrtf)
ORACLE(double, TAUT_FLOAT64, sqrt)

static void check(const char *words)
{
	struct taut_server_update update;

	assert_int_equal(taut_server_update_read(words, &update, NULL), TAUT_OK);
	check_float(&update);
	check_double(&update);
}

static void test_oracle(void **state)
{
	(void)state;
	check("sgd:lr=0.1");
	check("sgd:lr=0.1,weight-decay=0.01");
	check("sgd:lr=0.1,momentum=0.9,weight-decay=0.01");
	check("sgd:lr=0.1,momentum=0.9,nesterov");
	check("sgd:lr=0.1,momentum=0.9,weight-decay=0.01,nesterov");
	check("adam");
	check("adam:lr=0.01,beta1=0.8,beta2=0.95,eps=1e-6,weight-decay=0.1");
	check("adamw:lr=0.02,weight-decay=0.05");
}

/* Two steps by hand. */
static void test_by_hand(void **state)
{
	double value = 2, gradient = 0.5, v = 0;
	struct tauti_update_state its = { .moments = { &v } };
	struct taut_server_update update;

	(void)state;
	assert_int_equal(taut_server_update_read("sgd:lr=0.25,momentum=0.5",
		&update, NULL), TAUT_OK);
	assert_int_equal(tauti_update_moments(&update), 1);
	tauti_update_apply(&update, TAUT_FLOAT64, &its, &value, &gradient, 1);
	assert_true(value == 1.875 && v == 0.5);
	tauti_update_apply(&update, TAUT_FLOAT64, &its, &value, &gradient, 1);
	assert_true(value == 1.6875 && v == 0.75);
}

static void test_words(void **state)
{
	static const char *const wrong[] = { "", "sum:lr=1", "sgd:", "sgd,lr=1",
		"sgd:lr", "sgd:lr=", "sgd:lr=x", "sgd:lr=-1", "sgd:lr=nan",
		"sgd:lr=1:", "sgd:lr=1,", "sgd:nesterov", "sgd:momentum=1",
		"adam:nesterov", "adam:momentum=0.9", "adam:beta1=1", "adagrad",
		"sgd:lr=1 ", "adamw:rate=1", "sgd::lr=1" };
	struct taut_server_update update = { .lr = 5 };
	struct taut_error err;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		assert_int_equal(taut_server_update_read(wrong[i], &update,
			&err), TAUT_EINVAL);
		assert_non_null(strstr(err.message, "expected sum, or sgd"));
	}
	assert_true(update.lr == 5);
	assert_int_equal(taut_server_update_read("sum", &update, NULL), TAUT_OK);
	assert_int_equal(update.rule, TAUT_SERVER_SUM);
	assert_int_equal(taut_server_update_read("adamw", &update, NULL),
		TAUT_OK);
	assert_true(update.lr == 1e-3 && update.weight_decay == 0.01 &&
		update.beta1 == 0.9 && update.beta2 == 0.999 &&
		update.eps == 1e-8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_oracle),
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
