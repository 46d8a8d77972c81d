#include "tests/support/unit.h"

#include "plan/fusion/made_step.h"
#include "tests/support/alloc_fail.h"

static struct taut_error err;

static struct made_step *two_gradients(void)
{
	struct made_step *s = made_step_create();

	made_step_op(s, 0, 100, 100, 0);
	made_step_op(s, 0, 100, 100, 0);
	made_step_gradient(s, 0, 2000, 7);
	made_step_gradient(s, 1, 1000, 11);
	return s;
}

static void set(struct tauti_fusion *f, uint32_t site, uint8_t option)
{
	const struct tauti_space *space = tauti_fusion_space(f);

	assert_int_equal(space->ops->set(space->self, site, option, &err),
		TAUT_OK);
}

static void input_is_checked(void **state)
{
	struct made_step *s = two_gradients();
	struct tauti_fusion_in *in = made_step_in(s);
	struct tauti_fusion *f;

	(void)state;
	s->gradients.data[1].bytes = 0;
	assert_int_equal(tauti_fusion_create(in, &f, &err), TAUT_EINVAL);
	s->gradients.data[1].bytes = 1;
	s->gradients.data[0].is_joined = true;
	assert_int_equal(tauti_fusion_create(in, &f, &err), TAUT_EINVAL);
	s->gradients.data[0].is_joined = false;
	s->ops.data[1].op = s->ops.data[0].op;
	assert_int_equal(tauti_fusion_create(in, &f, &err), TAUT_EINVAL);
	s->ops.data[1].op = 99;
	assert_int_equal(tauti_fusion_create(in, &f, &err), TAUT_EINVAL);
	s->ops.data[1].op = 1;
	s->ops.data[1].compute_ns = 101;
	assert_int_equal(tauti_fusion_create(in, &f, &err), TAUT_EINVAL);
	s->ops.data[1].compute_ns = 1;
	in->network_lane = 1;
	assert_int_equal(tauti_fusion_create(in, &f, &err), TAUT_EINVAL);
	in->network_lane = 0;
	in->cost.ns = NULL;
	assert_int_equal(tauti_fusion_create(in, &f, &err), TAUT_EINVAL);
	made_step_destroy(s);
}

/* Of the lane of the network, which stands last, nothing can follow. */
static void an_empty_network_is_refused(void **state)
{
	struct made_step *s = two_gradients();
	struct tauti_fusion *f;

	(void)state;
	s->network = 1;
	assert_int_equal(
		tauti_fusion_create(made_step_in(s), &f, &err), TAUT_EINVAL);
	assert_non_null(strstr(err.message, "network's lane"));
	made_step_destroy(s);
}

/* Whatever request fails, the same call made again is as if it had not been made. */
static int64_t cost_at_last(const struct tauti_space *space)
{
	struct tauti_cost c = { 0, 0, 0 };
	taut_status status = TAUT_ENOMEM;

	for (long n = 0; status; n++) {
		alloc_fail_after(n);
		status = space->ops->cost(space->self, &c, &err);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
	}
	return c.step_ns;
}

static void creation_may_fail(void **state)
{
	struct made_step *s = made_step_random(3, 14);
	taut_status status = TAUT_ENOMEM;
	long n = 0;

	(void)state;
	made_step_in(s);
	while (status) {
		struct tauti_fusion *f;

		alloc_fail_after(n++);
		status = tauti_fusion_create(&s->in, &f, &err);
		alloc_fail_never();
		if (!status)
			tauti_fusion_destroy(f);
		else
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_true(n > 10);
	made_step_destroy(s);
}

static void costs_may_fail(void **state)
{
	struct made_step *s = made_step_random(3, 14);
	const struct tauti_space *space;
	struct tauti_fusion *f;
	uint64_t seed = 9;

	s->in.engine = *state;
	assert_int_equal(tauti_fusion_create(made_step_in(s), &f, &err), 0);
	space = tauti_fusion_space(f);
	for (uint32_t round = 0; round < 30; round++) {
		struct tauti_fusion *fresh;
		struct tauti_cost c;

		assert_int_equal(tauti_fusion_create(&s->in, &fresh, &err), 0);
		for (uint32_t i = 0; i < space->n_sites; i++) {
			uint8_t option = (uint8_t)made_step_pick(
				&seed, space->n_options[i]);

			set(f, i, option);
			set(fresh, i, option);
		}
		assert_int_equal(space->ops->cost(fresh, &c, &err), TAUT_OK);
		assert_int_equal(cost_at_last(space), c.step_ns);
		tauti_fusion_destroy(fresh);
	}
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(input_is_checked),
		cmocka_unit_test(an_empty_network_is_refused),
		cmocka_unit_test(creation_may_fail),
		cmocka_unit_test_prestate(costs_may_fail,
			(void *)(uintptr_t)&tauti_fusion_full),
		cmocka_unit_test_prestate(costs_may_fail,
			(void *)(uintptr_t)&tauti_fusion_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
