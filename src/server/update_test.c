/* The optimizers against plain C, step by step, to the bit; and their words. */
#include "tests/support/unit.h"

#include <math.h>
#include <string.h>

#include "server/server.h"

enum { COUNT = 37, STEPS = 9 };

static float noise(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (float)(int32_t)*seed / 1e9f;
}

/* docs/server.md, one element at a time; volatile, so that nothing is fused. */
struct one {
	volatile float p, m, v;
};

static void sgd_one(struct one *one, const struct taut_server_update *u,
	int step, float g)
{
	volatile float d = g, part;

	if (u->weight_decay > 0) {
		part = (float)u->weight_decay * one->p;
		d = g + part;
	}
	if (u->momentum > 0) {
		part = (float)u->momentum * one->v;
		one->v = step == 1 ? d : part + d;
		part = (float)u->momentum * one->v;
		d = u->nesterov ? d + part : one->v;
	}
	part = (float)u->lr * d;
	one->p = one->p - part;
}

static void adam_one(struct one *one, const struct taut_server_update *u,
	int step, float g)
{
	double power1 = 1, power2 = 1;
	volatile float d = g, a, b;

	for (int i = 0; i < step; i++) {
		power1 *= u->beta1;
		power2 *= u->beta2;
	}
	if (u->rule == TAUT_SERVER_ADAMW) {
		one->p = one->p * (float)(1 - u->lr * u->weight_decay);
	} else if (u->weight_decay > 0) {
		a = (float)u->weight_decay * one->p;
		d = g + a;
	}
	a = (float)u->beta1 * one->m;
	b = (float)(1 - u->beta1) * d;
	one->m = a + b;
	a = (float)u->beta2 * one->v;
	b = (float)(1 - u->beta2) * d;
	b = b * d;
	one->v = a + b;
	a = sqrtf(one->v);
	a = a / (float)sqrt(1 - power2);
	a = a + (float)u->eps;
	a = one->m / a;
	b = (float)(u->lr / (1 - power1)) * a;
	one->p = one->p - b;
}

static void check(const char *words)
{
	float value[COUNT], gradient[COUNT], m[COUNT], v[COUNT];
	struct tauti_update_state state = { .moments = { m, v } };
	struct taut_server_update update;
	struct one ones[COUNT];
	uint32_t seed = 7;

	assert_int_equal(taut_server_update_read(words, &update, NULL), TAUT_OK);
	memset(m, 0, sizeof m);
	memset(v, 0, sizeof v);
	for (int i = 0; i < COUNT; i++) {
		value[i] = noise(&seed);
		ones[i] = (struct one){ .p = value[i] };
	}
	for (int step = 1; step <= STEPS; step++) {
		for (int i = 0; i < COUNT; i++) {
			gradient[i] = noise(&seed);
			if (update.rule == TAUT_SERVER_SGD)
				sgd_one(&ones[i], &update, step, gradient[i]);
			else
				adam_one(&ones[i], &update, step, gradient[i]);
		}
		tauti_update_apply(&update, TAUT_FLOAT32, &state, value,
			gradient, COUNT);
		for (int i = 0; i < COUNT; i++) {
			float expected = ones[i].p;

			assert_memory_equal(&value[i], &expected, sizeof expected);
		}
	}
}

static void test_oracle(void **state)
{
	(void)state;
	check("sgd:lr=0.1");
	check("sgd:lr=0.1,weight-decay=0.01");
	check("sgd:lr=0.1,momentum=0.9,weight-decay=0.01");
	check("sgd:lr=0.1,momentum=0.9,nesterov");
	check("adam");
	check("adam:lr=0.01,beta1=0.8,beta2=0.95,eps=1e-6,weight-decay=0.1");
	check("adamw:lr=0.02,weight-decay=0.05");
}

/* Doubles go by the same text: one step by hand. */
static void test_double(void **state)
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
		cmocka_unit_test(test_double),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
