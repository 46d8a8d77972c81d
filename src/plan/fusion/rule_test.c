#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "plan/fusion/made_step.h"

static struct taut_error err;

struct counted {
	uint32_t n[3]; /* by enum tauti_rule */
	uint32_t n_wrong[3];
};

static int64_t step(const struct tauti_space *space)
{
	struct tauti_cost c;

	assert_int_equal(space->ops->cost(space->self, &c, &err), TAUT_OK);
	return c.step_ns;
}

static void set(const struct tauti_space *space, uint32_t site, uint8_t option)
{
	assert_int_equal(space->ops->set(space->self, site, option, &err), 0);
}

/* Each rule of the present state beside what trying it gives. */
static void try_all(const struct tauti_space *space, uint8_t *options,
	struct counted *ret_counted)
{
	int64_t now = step(space);

	if (now == TAUTI_NEVER)
		return;
	for (uint32_t i = 0; i < space->n_sites; i++)
		for (uint8_t o = 0; o < space->n_options[i]; o++) {
			enum tauti_rule rule;
			int64_t then;

			assert_int_equal(step(space), now);
			rule = space->ops->rule(space->self, i, o);
			assert_int_equal(step(space), now);
			set(space, i, o);
			then = step(space);
			set(space, i, options[i]);
			ret_counted->n[rule]++;
			ret_counted->n_wrong[rule] +=
				(rule == TAUTI_RULE_WORSE && then < now) ||
				(rule == TAUTI_RULE_BETTER && then > now);
		}
}

static void walk(uint64_t seed, uint32_t n_ops, struct counted *ret_counted)
{
	struct made_step *s = made_step_random(seed, n_ops);
	const struct tauti_space *space;
	struct tauti_fusion *f;
	uint8_t options[256] = { 0 };

	assert_int_equal(tauti_fusion_create(made_step_in(s), &f, &err), 0);
	space = tauti_fusion_space(f);
	assert_true(space->n_sites <= 256);
	for (uint32_t i = 0; i < 12; i++) {
		try_all(space, options, ret_counted);
		for (uint32_t k = made_step_pick(&seed, 4); k-- > 0;) {
			uint32_t site = made_step_pick(&seed, space->n_sites);
			uint8_t was = options[site];

			options[site] = (uint8_t)made_step_pick(
				&seed, space->n_options[site]);
			set(space, site, options[site]);
			if (step(space) == TAUTI_NEVER)
				set(space, site, options[site] = was);
		}
	}
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

/* 300 steps, 12 states each, every site and option of each state. */
static void rules_agree_with_trying(void **state)
{
	struct counted c = { { 0 }, { 0 } };

	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++)
		walk(seed, 3 + (uint32_t)seed % 22, &c);
	print_message("not told %u, worse %u, better %u\n", c.n[TAUTI_RULE_NONE],
		c.n[TAUTI_RULE_WORSE], c.n[TAUTI_RULE_BETTER]);
	assert_int_equal(c.n_wrong[TAUTI_RULE_WORSE], 0);
	assert_int_equal(c.n_wrong[TAUTI_RULE_BETTER], 0);
	assert_true(c.n[TAUTI_RULE_WORSE] > 10000);
	assert_true(c.n[TAUTI_RULE_BETTER] > 1000);
}

/* p0, p1 with q0, q1 of fixed lengths, and updates of nothing: the theorems as dPRO
 * states them, with their conditions. */
struct two {
	int64_t p0, p1, saved, fixed_ns;
	int64_t s0, s1; /* bytes, a nanosecond each */
};

static enum tauti_rule ask(const struct two *two, bool of_tensors)
{
	struct made_step *s = made_step_create();
	const struct tauti_space *space;
	struct tauti_fusion *f;
	enum tauti_rule rule;

	s->bound.launch_ns = two->saved;
	s->in.link.fixed_ns = two->fixed_ns;
	s->in.link.byte_ns = 1;
	made_step_op(s, 0, two->p0, 0, 0);
	made_step_op(s, 0, two->p1, 0, 0);
	made_step_flow(s, 0, 1, 0, true);
	made_step_gradient(s, 0, two->s0, -1);
	made_step_gradient(s, 1, two->s1, -1);
	assert_int_equal(tauti_fusion_create(made_step_in(s), &f, &err), 0);
	space = tauti_fusion_space(f);
	(void)step(space);
	rule = space->ops->rule(space->self, of_tensors ?
		tauti_fusion_site_of_join(f, 1) : 0, 1);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
	return rule;
}

/* Fuse iff q_0 < p_0 + p_1 - fused, where q_0 is done before p_1 is. */
static void operators_as_dpro_has_it(void **state)
{
	struct two two = { .p0 = 50, .p1 = 100, .saved = 30, .s0 = 30,
		.s1 = 10 };

	(void)state;
	/* fused at 120, both sent by 160; apart p_1 at 150, sent by 160 */
	assert_int_not_equal(ask(&two, false), TAUTI_RULE_NONE);
	two.s0 = 29;
	assert_int_equal(ask(&two, false), TAUTI_RULE_BETTER);
	two.s0 = 31;
	assert_int_not_equal(ask(&two, false), TAUTI_RULE_BETTER);
	/* the network is what takes long: p_0 on the path must not end later */
	two.s0 = 1000;
	assert_int_equal(ask(&two, false), TAUTI_RULE_WORSE);
}

/* Fuse iff q^e_0 > p^e_1 + t(s_0 + s_1) - t(s_1). */
static void tensors_as_dpro_has_it(void **state)
{
	struct two two = { .p0 = 100, .p1 = 50, .fixed_ns = 60, .s0 = 100,
		.s1 = 40 };

	(void)state;
	/* q_0 ends at 260 > 150 + 200 - 100 */
	assert_int_equal(ask(&two, true), TAUTI_RULE_BETTER);
	/* 260 = 160 + 100: the same; then later */
	two.p1 = 60;
	assert_int_not_equal(ask(&two, true), TAUTI_RULE_NONE);
	two.p1 = 61;
	assert_int_equal(ask(&two, true), TAUTI_RULE_WORSE);
	/* q_0 is done before p_1: no reason to wait */
	two.p1 = 500;
	assert_int_equal(ask(&two, true), TAUTI_RULE_WORSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_agree_with_trying),
		cmocka_unit_test(operators_as_dpro_has_it),
		cmocka_unit_test(tensors_as_dpro_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
