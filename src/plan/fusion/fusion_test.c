#include "tests/support/unit.h"

#include <string.h>

#include "plan/fusion/made_step.h"

static struct taut_error err;

static struct tauti_fusion *make(struct made_step *s)
{
	struct tauti_fusion *f;

	assert_int_equal(tauti_fusion_create(made_step_in(s), &f, &err), TAUT_OK);
	return f;
}

static void set(struct tauti_fusion *f, uint32_t site, uint8_t option)
{
	const struct tauti_space *space = tauti_fusion_space(f);

	assert_true(site < space->n_sites);
	assert_true(option < space->n_options[site]);
	assert_int_equal(space->ops->set(space->self, site, option, &err),
		TAUT_OK);
}

static struct tauti_cost cost(struct tauti_fusion *f)
{
	const struct tauti_space *space = tauti_fusion_space(f);
	struct tauti_cost c;

	assert_int_equal(space->ops->cost(space->self, &c, &err), TAUT_OK);
	return c;
}

static int64_t step(struct tauti_fusion *f)
{
	return cost(f).step_ns;
}

/* --- by hand ---------------------------------------------------------------------------- */

/* a -> b -> c, of 100 each, of which 20 compute; 1000 bytes from each to the next, a
 * byte takes 0.01, a launch 5. */
static struct made_step *chain(void)
{
	struct made_step *s = made_step_create();

	s->bound.byte_ns = 0.01;
	s->bound.launch_ns = 5;
	for (int i = 0; i < 3; i++)
		made_step_op(s, 0, 100, 20, 1000);
	made_step_flow(s, 0, 1, 1000, true);
	made_step_flow(s, 1, 2, 1000, true);
	return s;
}

static void a_chain_saves_reads_writes_and_launches(void **state)
{
	struct made_step *s = chain();
	struct tauti_fusion *f = make(s);

	(void)state;
	assert_int_equal(step(f), 300);
	set(f, 0, 1);
	assert_int_equal(step(f), 300 - 10 - 10 - 5);
	set(f, 1, 1);
	assert_int_equal(step(f), 300 - 2 * (10 + 10 + 5));
	set(f, 0, 0);
	assert_int_equal(step(f), 300 - 25);
	set(f, 1, 0);
	assert_int_equal(step(f), 300);
	assert_int_equal(cost(f).memory_bytes, -1);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

static void what_others_read_is_still_written(void **state)
{
	struct made_step *s = chain();
	struct tauti_fusion *f;

	(void)state;
	s->ops.data[0].is_kept = true;
	f = make(s);
	set(f, 0, 1);
	assert_int_equal(step(f), 300 - 10 - 5);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

static void nothing_takes_less_than_it_computes(void **state)
{
	struct made_step *s = chain();
	struct tauti_fusion *f;

	(void)state;
	s->ops.data[0].compute_ns = s->ops.data[1].compute_ns = 95;
	f = make(s);
	set(f, 0, 1);
	assert_int_equal(step(f), 190 + 100);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

static void crowded_chains_take_longer(void **state)
{
	struct made_step *s = chain();
	struct tauti_fusion *f;

	(void)state;
	s->bound.crowding = 0.5;
	s->bound.roomy = 2;
	f = make(s);
	set(f, 0, 1);
	assert_int_equal(step(f), 275);
	set(f, 1, 1);
	assert_int_equal(step(f), 250 + 125);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

/* a is read by b and by d; c stands between and needs b. Fusing a with d would let b
 * wait for d, which waits for c, which waits for b. A duplicate may. */
static void a_duplicate_goes_where_the_original_cannot(void **state)
{
	struct made_step *s = made_step_create();
	struct tauti_fusion *f;

	(void)state;
	s->bound.byte_ns = 0.01;
	for (int i = 0; i < 4; i++)
		made_step_op(s, 0, 100, 20, 1000);
	s->ops.data[0].compute_ns = 30;
	made_step_flow(s, 0, 1, 1000, true);
	made_step_flow(s, 1, 2, 1000, false);
	made_step_flow(s, 0, 3, 6000, true);
	made_step_flow(s, 2, 3, 1000, false);
	f = make(s);
	set(f, 1, 1);
	assert_true(step(f) == TAUTI_NEVER);
	/* a again in d: 200, less 60 of d's reading and 10 of a's writing */
	set(f, 1, 2);
	assert_int_equal(step(f), 300 + 130);
	/* b takes a in; nobody reads a's result from memory any more */
	set(f, 0, 1);
	assert_int_equal(step(f), 180 + 100 + 130);
	set(f, 1, 0);
	set(f, 0, 2);
	assert_int_equal(step(f), 100 + 180 + 200);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

/* Two gradients: of a, ready at 100, and of b, ready at 200. A transfer of S bytes
 * between two hosts takes 50 + 0.1 S (the ring sends S of two ranks twice half). */
static struct made_step *two_gradients(void)
{
	struct made_step *s = made_step_create();

	s->in.link.fixed_ns = 50;
	s->in.link.byte_ns = 0.1;
	made_step_op(s, 0, 100, 100, 0);
	made_step_op(s, 0, 100, 100, 0);
	made_step_gradient(s, 0, 2000, 7);
	made_step_gradient(s, 1, 1000, 11);
	return s;
}

static void gradients_share_a_transfer(void **state)
{
	struct made_step *s = two_gradients();
	struct tauti_fusion *f = make(s);
	uint32_t join = tauti_fusion_site_of_join(f, 1);

	(void)state;
	/* 100 .. 350 and 350 .. 500, then the update of 11 */
	assert_int_equal(tauti_fusion_transfer_ns(&s->in.link, 2000), 250);
	assert_int_equal(step(f), 500 + 11);
	/* 200 .. 550, then both updates */
	set(f, join, 1);
	assert_int_equal(step(f), 550 + 7 + 11);
	set(f, join, 0);
	assert_int_equal(step(f), 511);
	assert_int_equal(cost(f).network_bytes, 2 * 3000);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

static void pieces_let_updates_begin(void **state)
{
	struct made_step *s = two_gradients();
	struct tauti_fusion *f = make(s);
	uint32_t first = tauti_fusion_site_of_pieces(f, 0);
	uint32_t second = tauti_fusion_site_of_pieces(f, 1);

	(void)state;
	set(f, tauti_fusion_site_of_join(f, 1), 1);
	/* two pieces of 1500, 200 each: both gradients lie in the second */
	set(f, first, 1);
	assert_int_equal(step(f), 600 + 7 + 11);
	/* eight of 375, 87.5 each, rounded: the first lies in six, 200 + 6 * 88 */
	set(f, first, 3);
	assert_int_equal(step(f), 200 + 8 * 88 + 11);
	/* of a group the first one's pieces count */
	set(f, second, 2);
	assert_int_equal(step(f), 200 + 8 * 88 + 11);
	set(f, tauti_fusion_site_of_join(f, 1), 0);
	set(f, first, 0);
	assert_int_equal(step(f), 350 + 4 * 75 + 11);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

/* What is fused is ready together, where the last of it stands: of a, b, c the first
 * and the last make one, and the gradient of a is then behind that of b. */
static void first_ready_is_first_served(void **state)
{
	struct made_step *s = made_step_create();
	struct tauti_fusion *f;

	(void)state;
	s->in.link.fixed_ns = 500;
	for (int i = 0; i < 3; i++)
		made_step_op(s, 0, 100, 100, 0);
	made_step_flow(s, 0, 2, 0, true);
	made_step_gradient(s, 0, 1000, 5);
	made_step_gradient(s, 1, 1000, 7);
	f = make(s);
	/* a's 100 .. 600, b's 600 .. 1100 */
	assert_int_equal(step(f), 1100 + 7);
	set(f, 0, 1);
	/* b's 100 .. 600, a's 600 .. 1100 */
	assert_int_equal(step(f), 1100 + 5 + 7);
	set(f, 0, 0);
	assert_int_equal(step(f), 1107);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

static void as_it_is_may_be_joined(void **state)
{
	struct made_step *s = two_gradients();
	struct tauti_fusion *f;

	(void)state;
	s->gradients.data[1].is_joined = true;
	f = make(s);
	assert_int_equal(step(f), 568);
	set(f, tauti_fusion_site_of_join(f, 1), 1);
	assert_int_equal(step(f), 511);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

/* --- exactness --------------------------------------------------------------------------- */

static void copy_state(struct tauti_fusion *to, const uint8_t *options)
{
	for (uint32_t i = 0; i < tauti_fusion_space(to)->n_sites; i++)
		set(to, i, options[i]);
}

/* Every so often a fresh space with the same options, which is played as a whole, must
 * cost the same. */
static void walk(
	uint64_t seed, uint32_t n_ops, uint32_t n_moves, uint32_t network)
{
	struct made_step *s = made_step_random(seed, n_ops);
	const struct tauti_space *space;
	struct tauti_fusion *f;
	uint8_t *options;

	s->network = network;
	f = make(s);
	space = tauti_fusion_space(f);
	options = calloc(space->n_sites, 1);

	by_hand_must(options != NULL);
	for (uint32_t i = 0; i < space->n_sites; i++)
		assert_int_equal(space->n_options[i],
			space->n_options[space->mirror[i]]);
	for (uint32_t i = 0; i < n_moves; i++) {
		uint32_t site = made_step_pick(&seed, space->n_sites);
		struct tauti_fusion *fresh;
		struct tauti_cost a, b;

		options[site] = (uint8_t)made_step_pick(
			&seed, space->n_options[site]);
		set(f, site, options[site]);
		if (made_step_pick(&seed, 3))
			continue;
		s->in.engine = &tauti_fusion_full;
		assert_int_equal(tauti_fusion_create(&s->in, &fresh, &err), 0);
		copy_state(fresh, options);
		a = cost(f);
		b = cost(fresh);
		assert_memory_equal(&a, &b, sizeof a);
		assert_true(a.step_ns >= tauti_fusion_least_ns(f));
		tauti_fusion_destroy(fresh);
	}
	free(options);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

static void walks_leave_no_trace(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++)
		walk(seed, 4 + (uint32_t)seed % 30, 60, 0);
	/* behind what the network sends anyway */
	for (uint32_t network = 2; network < 8; network++)
		walk(network, 20, 60, network);
}

/* The edit starts anew when its journal is long; costs stay. */
static void many_sets_are_as_few(void **state)
{
	struct made_step *s = made_step_random(5, 12);
	struct tauti_fusion *f = make(s);
	const struct tauti_space *space = tauti_fusion_space(f);
	uint32_t n_costs = 0;
	int64_t before = step(f);
	uint64_t seed = 1;

	(void)state;
	while (n_costs < 60000) {
		uint32_t site = made_step_pick(&seed, space->n_sites);

		set(f, site, (uint8_t)made_step_pick(
			&seed, space->n_options[site]));
		n_costs += step(f) != TAUTI_NEVER;
	}
	for (uint32_t i = 0; i < space->n_sites; i++)
		set(f, i, 0);
	assert_int_equal(step(f), before);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

/* --- ranks, images, views ------------------------------------------------------------------ */

static struct by_hand *two_ranks(int64_t other_ns)
{
	struct by_hand *hand = by_hand_create();

	for (int rank = 0; rank < 2; rank++) {
		by_hand_lane(hand, rank);
		by_hand_op(hand, TAUT_OP_KERNEL, "a", 100, 0);
		by_hand_op(hand, TAUT_OP_KERNEL, "b", rank ? other_ns : 100, 0);
	}
	return hand;
}

static void one_rank_stands_for_all(void **state)
{
	struct made_step *s = chain();
	struct tauti_fusion_in *in = made_step_in(s);
	struct by_hand *hand = two_ranks(105), *unlike = two_ranks(150);
	struct tauti_fusion *f;

	(void)state;
	in->n_ops = 2;
	in->n_flows = 1;
	for (uint32_t i = 0; i < 2; i++)
		s->ops.data[i].op = 2 + i;
	in->graph = by_hand_graph(hand);
	assert_int_equal(tauti_fusion_create(in, &f, &err), TAUT_OK);
	assert_int_equal(step(f), 205);
	set(f, 0, 1);
	assert_int_equal(step(f), 205 - 25);
	tauti_fusion_destroy(f);
	in->graph = by_hand_graph(unlike);
	assert_int_equal(tauti_fusion_create(in, &f, &err), TAUT_EMATCH);
	by_hand_destroy(hand);
	by_hand_destroy(unlike);
	made_step_destroy(s);
}

/* Four blocks of a -> b -> c. Within two flows of a block's middle lie the neighbouring
 * blocks' ends, so only the first and the last are unlike. */
static void blocks_are_images(void **state)
{
	struct made_step *s = made_step_create();
	const uint32_t *mirror;
	struct tauti_fusion *f;

	(void)state;
	for (uint32_t i = 0; i < 15; i++) {
		made_step_op(s, i % 3, 100 + i / 12, 10, 1000);
		if (i)
			made_step_flow(s, i - 1, i, 1000, true);
	}
	f = make(s);
	mirror = tauti_fusion_space(f)->mirror;
	for (uint32_t i = 3; i + 6 < 14; i++)
		assert_int_equal(mirror[i], mirror[i + 3]);
	assert_int_not_equal(mirror[3], mirror[4]);
	assert_int_not_equal(mirror[0], mirror[3]);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

static void critical_sites_are_on_the_path(void **state)
{
	struct made_step *s = two_gradients();
	struct tauti_fusion *f;
	uint32_t sites[8], n;

	(void)state;
	made_step_flow(s, 0, 1, 0, true);
	f = make(s);
	step(f);
	/* a, its transfer, that of b, b's update: all sites, the transfers first */
	n = tauti_fusion_space(f)->ops->critical(f, sites, 8);
	assert_int_equal(n, 4);
	assert_int_equal(sites[0], tauti_fusion_site_of_join(f, 1));
	assert_int_equal(sites[1], tauti_fusion_site_of_pieces(f, 0));
	assert_int_equal(sites[2], tauti_fusion_site_of_pieces(f, 1));
	assert_int_equal(sites[3], 0);
	assert_int_equal(tauti_fusion_space(f)->ops->critical(f, sites, 2), 2);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

/* a0 -> a1 -> a2 and b0 -> b1, of which a2 and b1 make gradients: of each group the
 * flow that carries most, one join, and the pieces of each. */
static void a_coarse_view_keeps_one_of_a_kind(void **state)
{
	static const uint8_t kept[] = { 0, 1, 0, 1,  0, 1,  1, 0, 1 };
	struct made_step *s = made_step_create();
	struct tauti_fusion *f;

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		made_step_op(s, i, 100, 10, 1000);
	made_step_flow(s, 0, 1, 1000, true);
	made_step_flow(s, 1, 2, 2000, true);
	made_step_flow(s, 0, 2, 1000, true);
	made_step_flow(s, 3, 4, 1000, true);
	made_step_gradient(s, 2, 1000, 1);
	made_step_gradient(s, 2, 1000, 1);
	made_step_gradient(s, 4, 1000, 1);
	f = make(s);
	assert_int_equal(tauti_fusion_space(f)->n_sites, sizeof kept);
	assert_memory_equal(tauti_fusion_space(f)->coarse, kept, sizeof kept);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chain_saves_reads_writes_and_launches),
		cmocka_unit_test(what_others_read_is_still_written),
		cmocka_unit_test(nothing_takes_less_than_it_computes),
		cmocka_unit_test(crowded_chains_take_longer),
		cmocka_unit_test(a_duplicate_goes_where_the_original_cannot),
		cmocka_unit_test(gradients_share_a_transfer),
		cmocka_unit_test(pieces_let_updates_begin),
		cmocka_unit_test(first_ready_is_first_served),
		cmocka_unit_test(as_it_is_may_be_joined),
		cmocka_unit_test(walks_leave_no_trace),
		cmocka_unit_test(many_sets_are_as_few),
		cmocka_unit_test(one_rank_stands_for_all),
		cmocka_unit_test(blocks_are_images),
		cmocka_unit_test(critical_sites_are_on_the_path),
		cmocka_unit_test(a_coarse_view_keeps_one_of_a_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
