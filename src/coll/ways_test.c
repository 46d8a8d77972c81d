/* What each way sends, and how many messages follow each other, against the closed
 * forms of docs/collectives.md. */
#include "coll/play.h"

static uint32_t lg(uint32_t n) /* rounded down */
{
	return n > 1 ? 1 + lg(n / 2) : 0;
}

static uint32_t power_of(uint32_t n)
{
	return UINT32_C(1) << lg(n);
}

/* Carried out to the end, so that depth and sent are there. */
static void play_through(struct play *play)
{
	play->op = play_add;
	play_init(play);
	play_match(play);
	play_run(play);
}

struct form {
	enum taut_coll_verb verb;
	enum taut_coll_way way;
	/* Messages in succession. */
	uint32_t (*depth)(uint32_t n);
	/* Elements that a rank sends, of `count`, which n and powers of two
	 * divide. */
	uint64_t (*sent)(uint32_t n, uint32_t rank, uint64_t count);
};

/* --- messages in succession ----------------------------------------------------------*/

static uint32_t one(uint32_t n)
{
	(void)n;
	return 1;
}

static uint32_t two(uint32_t n)
{
	(void)n;
	return 2;
}

static uint32_t direct_broadcast_depth(uint32_t n)
{
	return n > 2 ? 2 : 1;
}

static uint32_t is_power(uint32_t n)
{
	return power_of(n) == n;
}

/* What an extra one hands over passes lg n pairs, to the rank that differs in all
 * bits. That has to hand it back where more than half have extra ones: then two of
 * these differ in all bits. */
static uint32_t doubling_depth(uint32_t n)
{
	uint32_t extra = n - power_of(n);

	return lg(n) + (extra > 0) + (extra > power_of(n) / 2);
}

static uint32_t halving_depth(uint32_t n)
{
	return 2 * lg(n) + (is_power(n) ? 0 : 2);
}

static uint32_t ring_depth(uint32_t n)
{
	return n - 1;
}

static uint32_t both_rings_depth(uint32_t n)
{
	return 2 * (n - 1);
}

static uint32_t tree_depth(uint32_t n) /* lg n, rounded up */
{
	return lg(n) + !is_power(n);
}

static uint32_t both_trees_depth(uint32_t n)
{
	return 2 * tree_depth(n);
}

/* --- elements ------------------------------------------------------------------------*/

static uint64_t but_own(uint32_t n, uint32_t rank, uint64_t count)
{
	(void)rank;
	return count / n * (n - 1);
}

static uint64_t twice_but_own(uint32_t n, uint32_t rank, uint64_t count)
{
	return 2 * but_own(n, rank, count);
}

static uint64_t to_each(uint32_t n, uint32_t rank, uint64_t count)
{
	(void)rank;
	return count * (n - 1);
}

static uint64_t root_to_each(uint32_t n, uint32_t rank, uint64_t count)
{
	return rank ? 0 : count * (n - 1);
}

static uint64_t direct_broadcast(uint32_t n, uint32_t rank, uint64_t count)
{
	return rank ? count / n * (n - 2) : twice_but_own(n, rank, count);
}

static uint64_t doubling(uint32_t n, uint32_t rank, uint64_t count)
{
	uint32_t power = power_of(n);

	return rank >= power ? count :
		count * (lg(n) + (rank + power < n));
}

static uint64_t halving(uint32_t n, uint32_t rank, uint64_t count)
{
	uint32_t power = power_of(n);

	return rank >= power ? count : twice_but_own(power, rank, count) +
		(rank + power < n ? count : 0);
}

static uint64_t halving_scatter(uint32_t n, uint32_t rank, uint64_t count)
{
	return rank >= power_of(n) ? count : but_own(n, rank, count);
}

/* --- the table -----------------------------------------------------------------------*/

static const struct form forms[] = {
	{ TAUT_ALLREDUCE, TAUT_WAY_DIRECT, two, twice_but_own },
	{ TAUT_REDUCE_SCATTER, TAUT_WAY_DIRECT, one, but_own },
	{ TAUT_ALLGATHER, TAUT_WAY_DIRECT, one, but_own },
	{ TAUT_BROADCAST, TAUT_WAY_DIRECT, direct_broadcast_depth,
		direct_broadcast },
	{ TAUT_ALLREDUCE, TAUT_WAY_FLAT, one, to_each },
	{ TAUT_BROADCAST, TAUT_WAY_FLAT, one, root_to_each },
	{ TAUT_ALLREDUCE, TAUT_WAY_DOUBLING, doubling_depth, doubling },
	{ TAUT_ALLREDUCE, TAUT_WAY_HALVING, halving_depth, halving },
	{ TAUT_REDUCE_SCATTER, TAUT_WAY_HALVING, doubling_depth,
		halving_scatter },
	{ TAUT_ALLGATHER, TAUT_WAY_HALVING, doubling_depth, NULL },
	{ TAUT_ALLREDUCE, TAUT_WAY_RING, both_rings_depth, twice_but_own },
	{ TAUT_REDUCE_SCATTER, TAUT_WAY_RING, ring_depth, but_own },
	{ TAUT_ALLGATHER, TAUT_WAY_RING, ring_depth, but_own },
	{ TAUT_ALLREDUCE, TAUT_WAY_TREE, both_trees_depth, NULL },
	{ TAUT_BROADCAST, TAUT_WAY_TREE, tree_depth, NULL },
};

static void check_form(const struct form *form, uint32_t n, bool in_place)
{
	struct play play = { .in_place = in_place, .mode = PLAY_STRICT,
		.shape = { .verb = form->verb, .way = form->way, .n_ranks = n,
			.count = 2 * n * power_of(n) } };

	play_through(&play);
	assert_int_equal(play.depth, form->depth(n));
	for (uint32_t r = 0; r < n && form->sent; r++)
		assert_int_equal(play.sent[r],
			form->sent(n, r, play.shape.count));
	play_fini(&play);
}

static void closed_forms(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		for (uint32_t n = 2; n <= 33; n++)
			check_form(&forms[i], n, n % 2);
}

static void every_pair_has_a_form(void **state)
{
	size_t n = 0;

	(void)state;
	for (int v = 0; v < TAUT_VERBS; v++)
		for (int w = 0; w < TAUT_WAYS; w++)
			n += w != TAUT_WAY_HOSTS &&
				taut_coll_has((enum taut_coll_verb)v,
				(enum taut_coll_way)w);
	assert_int_equal(n, sizeof forms / sizeof *forms);
}

/* By recursive doubling each block reaches each of a power of two once, and all
 * reach each of the others, which sent one. */
static void gathered_by_doubling(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 33; n++) {
		uint32_t power = power_of(n);
		uint64_t total = 0;
		struct play play = { .mode = PLAY_STRICT,
			.shape = { .verb = TAUT_ALLGATHER,
				.way = TAUT_WAY_HALVING, .n_ranks = n,
				.count = 3 * n } };

		play_through(&play);
		for (uint32_t r = 0; r < n; r++)
			total += play.sent[r];
		assert_int_equal(total,
			3 * (uint64_t)(n * (power - 1) + (n - power) * n));
		if (is_power(n))
			assert_int_equal(play.sent[n / 2], 3 * (n - 1));
		play_fini(&play);
	}
}

/* --- the two trees -------------------------------------------------------------------*/

/* Ranks to which a rank sends the half that begins at `first`. */
static uint32_t children(const struct play *play, uint32_t rank, uint64_t first)
{
	const struct taut_coll_schedule *s = play->schedules[rank];

	for (uint32_t i = 0; i < s->n_steps; i++)
		if (s->steps[i].kind == TAUT_STEP_SEND &&
			s->steps[i].message % 2 == 1 &&
			s->steps[i].first == first)
			return s->steps[i].n_peers;
	return 0;
}

/* Each edge takes a half; and who has two below in one tree has none in the other,
 * so that no rank sends more than S up and S down. */
static void trees_share_the_load(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 40; n++) {
		uint64_t total = 0, half = 50;
		struct play play = { .mode = PLAY_STRICT,
			.shape = { .verb = TAUT_ALLREDUCE, .way = TAUT_WAY_TREE,
				.n_ranks = n, .count = 2 * half } };

		play_through(&play);
		for (uint32_t r = 0; r < n; r++) {
			uint32_t one_tree = children(&play, r, 0);
			uint32_t other = children(&play, r, half);

			total += play.sent[r];
			assert_true(play.sent[r] <= 4 * half);
			assert_true(one_tree <= 2 && other <= 2);
			assert_true(r == 0 ? one_tree == 1 && other == 1 :
				one_tree == 0 || other == 0);
		}
		assert_int_equal(total, 4 * half * (n - 1));
		play_fini(&play);
	}
}

/* --- by hosts ------------------------------------------------------------------------*/

static uint64_t crossing(const struct play *play)
{
	const uint32_t *host_of = play->shape.host_of;
	uint64_t crossed = 0;

	for (uint32_t r = 0; r < play->shape.n_ranks; r++) {
		const struct taut_coll_schedule *s = play->schedules[r];

		for (uint32_t i = 0; i < s->n_steps; i++)
			for (uint32_t k = 0; k < s->steps[i].n_peers; k++) {
				uint32_t peer = s->peers[
					s->steps[i].first_peer + k];

				if (s->steps[i].kind == TAUT_STEP_SEND &&
					host_of[peer] != host_of[r])
					crossed += s->steps[i].count;
			}
	}
	return crossed;
}

static void play_hosts(struct play *play, enum taut_coll_verb verb,
	uint32_t hosts, uint32_t of, uint32_t host_of[PLAY_RANKS])
{
	*play = (struct play){ .mode = PLAY_STRICT,
		.shape = { .verb = verb, .way = TAUT_WAY_HOSTS,
			.n_ranks = hosts * of, .count = 4 * hosts * of,
			.host_of = host_of } };
	for (uint32_t r = 0; r < hosts * of; r++)
		host_of[r] = r / of;
	play_through(play);
}

/* H hosts of L: over each host's network goes 2 S (H - 1) / H and no more, from all
 * of its ranks alike. */
static void check_hosts(uint32_t hosts, uint32_t of)
{
	uint32_t host_of[PLAY_RANKS], inside = of > 1;
	uint32_t between = is_power(hosts) ? 2 * lg(hosts) : 2 * (hosts - 1);
	uint64_t count = 4 * hosts * of, block = count / of;
	struct play play;

	play_hosts(&play, TAUT_ALLREDUCE, hosts, of, host_of);
	assert_int_equal(play.depth, 2 * inside + between);
	for (uint32_t r = 0; r < hosts * of; r++)
		assert_int_equal(play.sent[r], 2 * (count - block) +
			2 * block / hosts * (hosts - 1));
	assert_int_equal(crossing(&play), 2 * count * (hosts - 1));
	play_fini(&play);
}

/* Half of it each. */
static void check_hosts_by_blocks(
	enum taut_coll_verb verb, uint32_t hosts, uint32_t of)
{
	uint32_t host_of[PLAY_RANKS];
	struct play play;

	play_hosts(&play, verb, hosts, of, host_of);
	assert_int_equal(play.depth, (of > 1) + (hosts > 1));
	for (uint32_t r = 0; r < hosts * of; r++)
		assert_int_equal(play.sent[r], 4 * (hosts * of - 1));
	assert_int_equal(
		crossing(&play), play.shape.count * (hosts - 1));
	play_fini(&play);
}

static void hosts_alike(void **state)
{
	(void)state;
	for (uint32_t hosts = 1; hosts <= 6; hosts++)
		for (uint32_t of = 1; of <= 5; of++) {
			check_hosts(hosts, of);
			if (hosts * of < 2)
				continue;
			check_hosts_by_blocks(TAUT_REDUCE_SCATTER, hosts, of);
			check_hosts_by_blocks(TAUT_ALLGATHER, hosts, of);
		}
}

/* The smallest host has two ranks: two blocks. Three hosts make a ring. */
static void hosts_unlike(void **state)
{
	static const uint32_t host_of[] = { 5, 5, 5, 5, 2, 2, 9, 9, 9 };
	const uint64_t count = 60, block = 30;
	struct play play = { .mode = PLAY_STRICT,
		.shape = { .verb = TAUT_ALLREDUCE, .way = TAUT_WAY_HOSTS,
			.n_ranks = 9, .count = count, .host_of = host_of } };

	(void)state;
	play_through(&play);
	assert_int_equal(play.depth, 1 + 4 + 1);
	assert_int_equal(crossing(&play), 2 * count * 2);
	assert_int_equal(play.sent[0], block + 40 + 3 * block);
	assert_int_equal(play.sent[2], 2 * block);
	assert_int_equal(play.sent[5], block + 40 + block);
	play_fini(&play);
}

/* Between hosts a broadcast goes once to each. */
static void broadcast_by_hosts(void **state)
{
	static const uint32_t host_of[] = { 0, 1, 2, 0, 1, 2, 0, 1, 2, 3 };
	struct play play = { .mode = PLAY_STRICT,
		.shape = { .verb = TAUT_BROADCAST, .way = TAUT_WAY_HOSTS,
			.n_ranks = 10, .root = 4, .count = 20,
			.host_of = host_of } };

	(void)state;
	play_through(&play);
	assert_int_equal(crossing(&play), 3 * 20);
	assert_int_equal(play.depth, 2 + 1);
	play_fini(&play);
}

/* --- steps ---------------------------------------------------------------------------*/

static uint32_t steps_of(enum taut_coll_verb verb, enum taut_coll_way way,
	uint32_t n_ranks, uint32_t rank)
{
	struct taut_coll_shape shape = { .verb = verb, .way = way,
		.n_ranks = n_ranks, .rank = rank, .count = 64 };
	struct taut_coll_schedule *schedule;
	uint32_t n;

	assert_int_equal(
		taut_coll_schedule_create(&shape, &schedule, NULL), TAUT_OK);
	n = schedule->n_steps;
	taut_coll_schedule_destroy(schedule);
	return n;
}

/* What is small lives of few steps: to all is one, and a reduction beside what is
 * received one more only where it must be. */
static void as_few_steps_as_can_be(void **state)
{
	(void)state;
	for (uint32_t r = 0; r < 4; r++) {
		assert_int_equal(steps_of(TAUT_ALLREDUCE, TAUT_WAY_FLAT, 4, r),
			1 + 3 + (r > 1));
		assert_int_equal(
			steps_of(TAUT_ALLREDUCE, TAUT_WAY_DIRECT, 4, r),
			3 + 3 + (r > 1) + 1 + 3);
		assert_int_equal(
			steps_of(TAUT_ALLREDUCE, TAUT_WAY_DOUBLING, 4, r), 4);
		assert_int_equal(
			steps_of(TAUT_ALLREDUCE, TAUT_WAY_HALVING, 4, r), 8);
		assert_int_equal(
			steps_of(TAUT_ALLREDUCE, TAUT_WAY_RING, 4, r), 12);
		assert_int_equal(
			steps_of(TAUT_ALLREDUCE, TAUT_WAY_HOSTS, 4, r), 10);
	}
	assert_int_equal(steps_of(TAUT_ALLREDUCE, TAUT_WAY_FLAT, 2, 0), 2);
	assert_int_equal(steps_of(TAUT_ALLREDUCE, TAUT_WAY_FLAT, 2, 1), 3);
	/* An odd number of rounds; with one more before them, an even one. */
	assert_int_equal(steps_of(TAUT_ALLREDUCE, TAUT_WAY_DOUBLING, 8, 0), 7);
	assert_int_equal(steps_of(TAUT_ALLREDUCE, TAUT_WAY_DOUBLING, 9, 0), 8);
	assert_int_equal(steps_of(TAUT_ALLREDUCE, TAUT_WAY_DOUBLING, 9, 8), 2);
	assert_int_equal(steps_of(TAUT_ALLREDUCE, TAUT_WAY_TREE, 8, 4), 7);
	assert_int_equal(steps_of(TAUT_BROADCAST, TAUT_WAY_FLAT, 4, 0), 2);
	assert_int_equal(steps_of(TAUT_ALLREDUCE, TAUT_WAY_RING, 1, 0), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closed_forms),
		cmocka_unit_test(every_pair_has_a_form),
		cmocka_unit_test(gathered_by_doubling),
		cmocka_unit_test(trees_share_the_load),
		cmocka_unit_test(hosts_alike),
		cmocka_unit_test(hosts_unlike),
		cmocka_unit_test(broadcast_by_hosts),
		cmocka_unit_test(as_few_steps_as_can_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
