/* Every way's schedules, of all ranks: the result, in any order; no two steps that
 * meet; no step that waits forever. TAUT_SHAPES=N draws other than 2,000 shapes at
 * random, TAUT_SHAPE_SEED=N one alone. */
#include "coll/play.h"

#include <stdio.h>

#include "coll/schedule.h"
#include "tests/support/alloc_fail.h"

#ifdef __SANITIZE_THREAD__
enum { SHAPES = 200, MOST_RANKS = 9 }; /* slow, and there is but one thread */
#else
enum { SHAPES = 2000, MOST_RANKS = 17 };
#endif

/* --- oracle ------------------------------------------------------------------------*/

static uint64_t sum_of(const struct play *play, uint64_t i)
{
	uint64_t sum = play->given[0][i];

	for (uint32_t r = 1; r < play->shape.n_ranks; r++)
		sum = play->op(sum, play->given[r][i]);
	return sum;
}

static uint32_t owner_of(const struct play *play, uint64_t i)
{
	uint64_t length;

	for (uint32_t r = 0;; r++) {
		uint64_t first = taut_coll_block(play->shape.count,
			play->shape.n_ranks, r, &length);

		if (i >= first && i < first + length)
			return r;
	}
}

static uint64_t expected(const struct play *play, uint64_t i)
{
	switch (play->shape.verb) {
	case TAUT_ALLGATHER:
		return play->given[owner_of(play, i)][i];
	case TAUT_BROADCAST:
		return play->given[play->shape.root][i];
	default:
		return sum_of(play, i);
	}
}

static void check_result(const struct play *play)
{
	for (uint64_t i = 0; i < play->shape.count; i++) {
		uint64_t right = expected(play, i);
		uint32_t owner = owner_of(play, i);

		for (uint32_t r = 0; r < play->shape.n_ranks; r++) {
			if (play->shape.verb == TAUT_REDUCE_SCATTER &&
				r != owner)
				continue;
			if (play->output[r][i] != right)
				fail_msg("rank %u: element %u is wrong", r,
					(unsigned)i);
		}
	}
	for (uint32_t r = 0; r < play->shape.n_ranks && !play->in_place; r++)
		assert_memory_equal(play->input[r], play->given[r],
			play->shape.count * sizeof(uint64_t));
}

/* --- shapes ------------------------------------------------------------------------*/

static void tell(const struct play *play)
{
	print_message("%s by %s, %u ranks, root %u, %u elements%s, mode %d\n",
		taut_coll_verb_name(play->shape.verb),
		taut_coll_way_name(play->shape.way), play->shape.n_ranks,
		play->shape.root, (unsigned)play->shape.count,
		play->in_place ? ", in place" : "", (int)play->mode);
}

/* What is being tried, for who reads that it failed. */
static struct play tried;

static void try_shape(struct play *play, bool check)
{
	tried = *play;
	play_init(play);
	if (check)
		play_check(play);
	play_match(play);
	play_run(play);
	check_result(play);
	play_fini(play);
	tried.op = NULL;
}

static int tell_what_failed(void **state)
{
	(void)state;
	if (tried.op)
		tell(&tried);
	tried.op = NULL;
	return 0;
}

static void each_verb_and_way(void (*each)(struct taut_coll_shape shape))
{
	for (int v = 0; v < TAUT_VERBS; v++)
		for (int w = 0; w < TAUT_WAYS; w++)
			if (taut_coll_has((enum taut_coll_verb)v,
				(enum taut_coll_way)w))
				each((struct taut_coll_shape){
					.verb = (enum taut_coll_verb)v,
					.way = (enum taut_coll_way)w });
}

static void try_counts(struct taut_coll_shape shape)
{
	uint32_t n = shape.n_ranks;
	uint64_t counts[] = { 0, 1, n - 1, n, n + 1, 3 * n + 1, 251 };

	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		for (int how = 0; how < 4; how++) {
			struct play play = { .shape = shape,
				.in_place = how % 2,
				.mode = how < 2 ? PLAY_STRICT : PLAY_MIXED,
				.random = 1000 * n + i, .op = play_add };

			play.shape.count = counts[i];
			play.shape.root = (uint32_t)(i * 5 + n / 2) % n;
			try_shape(&play, how == 0 && i >= 4 && i < 6);
		}
}

static void try_every_size(struct taut_coll_shape shape)
{
	for (shape.n_ranks = 1; shape.n_ranks <= MOST_RANKS; shape.n_ranks++)
		try_counts(shape);
}

static void all_verbs_and_ways(void **state)
{
	(void)state;
	each_verb_and_way(try_every_size);
}

static void try_many_ranks(struct taut_coll_shape shape)
{
	static const uint32_t sizes[] = { 31, 32, 33, 48, 63, 64 };

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes &&
		sizes[i] < 4 * MOST_RANKS; i++) {
		struct play play = { .shape = shape, .in_place = i % 2,
			.mode = PLAY_STRICT, .random = i, .op = play_add };

		play.shape.n_ranks = sizes[i];
		play.shape.count = 3 * sizes[i] + 5;
		play.shape.root = sizes[i] - 1;
		try_shape(&play, i % 3 == 1);
	}
}

static void many_ranks(void **state)
{
	(void)state;
	each_verb_and_way(try_many_ranks);
}

/* Any shape of any ranks on any hosts. */
static void draw_shape(struct play *play, uint32_t host_of[PLAY_RANKS])
{
	struct taut_coll_shape *shape = &play->shape;
	uint32_t hosts;

	do {
		shape->verb = (enum taut_coll_verb)play_pick(play, TAUT_VERBS);
		shape->way = (enum taut_coll_way)play_pick(play, TAUT_WAYS);
	} while (!taut_coll_has(shape->verb, shape->way));
	if (play_pick(play, 2) && taut_coll_has(shape->verb, TAUT_WAY_HOSTS))
		shape->way = TAUT_WAY_HOSTS;
	shape->n_ranks = 1 + (uint32_t)play_pick(play, 24);
	shape->root = (uint32_t)play_pick(play, shape->n_ranks);
	shape->count = play_pick(play, play_pick(play, 2) ? 400 : 20);
	play->in_place = play_pick(play, 2);
	play->mode = (enum play_mode)play_pick(play, PLAY_MODES);
	hosts = 1 + (uint32_t)play_pick(play, 9);
	for (uint32_t r = 0; r < shape->n_ranks; r++)
		host_of[r] = 7919 * (uint32_t)(play_pick(play, 4) ?
			r * hosts / shape->n_ranks : play_pick(play, hosts));
	shape->host_of = play_pick(play, 8) ? host_of : NULL;
}

static void try_seed(uint64_t seed)
{
	uint32_t host_of[PLAY_RANKS];
	struct play play = { .random = seed << 20, .op = play_add };

	draw_shape(&play, host_of);
	try_shape(&play, seed % 4 == 0);
}

static void drawn_shapes(void **state)
{
	const char *one = getenv("TAUT_SHAPE_SEED");
	const char *many = getenv("TAUT_SHAPES");
	uint64_t n = many ? strtoull(many, NULL, 10) : SHAPES;

	(void)state;
	if (one)
		try_seed(strtoull(one, NULL, 10));
	for (uint64_t seed = 0; seed < n && !one; seed++)
		try_seed(seed);
}

static void try_hosts(const char *world, enum taut_coll_verb verb, int how)
{
	uint32_t host_of[PLAY_RANKS];
	struct play play = { .in_place = how % 2,
		.mode = how < 2 ? PLAY_STRICT : PLAY_MIXED,
		.random = strlen(world), .op = play_add };

	play.shape = (struct taut_coll_shape){ .verb = verb,
		.way = TAUT_WAY_HOSTS, .n_ranks = (uint32_t)strlen(world),
		.count = 97, .host_of = host_of };
	for (uint32_t r = 0; r < play.shape.n_ranks; r++)
		host_of[r] = (uint32_t)world[r];
	play.shape.root = play.shape.n_ranks / 2;
	try_shape(&play, true);
}

/* Hosts of one rank, of many, alike and not, in order and dealt out. */
static void hosts_of_any_shape(void **state)
{
	static const char *const worlds[] = { "0", "00", "01", "0011", "0101",
		"00000111", "012", "0111", "001122", "010203", "00011122233",
		"0123456", "000011112222", "3210", "0000000000000001" };

	(void)state;
	for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
		for (int v = 0; v < TAUT_VERBS; v++)
			for (int how = 0; how < 4; how++)
				try_hosts(worlds[i], (enum taut_coll_verb)v,
					how);
}

/* --- the same bits ------------------------------------------------------------------*/

static uint64_t sum_backward(const struct play *play, uint64_t i)
{
	uint32_t r = play->shape.n_ranks - 1;
	uint64_t sum = play->given[r][i];

	while (r-- > 0)
		sum = play->op(sum, play->given[r][i]);
	return sum;
}

static bool in_order(const struct taut_coll_shape *shape)
{
	return shape->way == TAUT_WAY_DIRECT || shape->way == TAUT_WAY_FLAT;
}

static void check_bits(const struct play *play)
{
	uint32_t n = play->shape.n_ranks, order_tells = 0;

	for (uint64_t i = 0; i < play->shape.count; i++) {
		uint32_t owner = owner_of(play, i);
		uint64_t bits = play->output[owner][i];

		order_tells += sum_of(play, i) != sum_backward(play, i);
		if (in_order(&play->shape))
			assert_int_equal(bits, sum_of(play, i));
		for (uint32_t r = 0; r < n &&
			play->shape.verb == TAUT_ALLREDUCE; r++)
			assert_int_equal(play->output[r][i], bits);
	}
	assert_true(n < 3 || order_tells > 10);
}

static void try_bits(struct taut_coll_shape shape)
{
	uint32_t host_of[PLAY_RANKS];

	if (shape.verb != TAUT_ALLREDUCE && shape.verb != TAUT_REDUCE_SCATTER)
		return;
	for (uint32_t r = 0; r < PLAY_RANKS; r++)
		host_of[r] = r / 3;
	shape.host_of = host_of;
	shape.count = 211;
	for (uint32_t n = 2; n <= 20; n++)
		for (int in_place = 0; in_place < 2; in_place++) {
			struct play play = { .shape = shape,
				.in_place = in_place, .mode = PLAY_MIXED,
				.random = n, .op = play_add_float };

			play.shape.n_ranks = n;
			play_init(&play);
			play_match(&play);
			play_run(&play);
			check_bits(&play);
			play_fini(&play);
		}
}

static void same_bits_everywhere(void **state)
{
	(void)state;
	each_verb_and_way(try_bits);
}

/* --- the writer ---------------------------------------------------------------------*/

/* What the newest step waits for, as "0 3"; "" is nothing. */
static void expect_waits(const struct tauti_writer *writer, const char *right)
{
	const struct taut_coll_step *step =
		&writer->steps.data[writer->steps.count - 1];
	char text[64] = "", *at = text;

	for (uint32_t i = 0; i < step->n_waits; i++)
		at += snprintf(at, 8, "%s%u", i ? " " : "",
			writer->waits.data[step->first_wait + i]);
	assert_string_equal(text, right);
}

static struct tauti_extent part(
	enum taut_coll_buffer buffer, uint64_t first, uint64_t count)
{
	return tauti_extent(buffer, (struct tauti_elements){ first, count });
}

static void what_waits_for_what(void **state)
{
	struct taut_coll_shape shape = { .n_ranks = 4, .count = 100 };
	struct tauti_writer w;

	(void)state;
	tauti_writer_init(&w, &shape);
	tauti_send(&w, part(TAUT_INPUT, 0, 100), 1, 0);
	expect_waits(&w, ""); /* 0: reads all */
	tauti_send(&w, part(TAUT_INPUT, 20, 60), 1, 1);
	expect_waits(&w, ""); /* 1: readers do not wait for each other */
	tauti_recv(&w, part(TAUT_OUTPUT, 0, 20), 1, 0);
	expect_waits(&w, "0"); /* 2: in place it writes what 0 reads */
	tauti_recv(&w, part(TAUT_OUTPUT, 70, 20), 1, 1);
	expect_waits(&w, "1 0"); /* 3: both read what is cut here */
	tauti_recv(&w, part(TAUT_OUTPUT, 75, 5), 1, 2);
	expect_waits(&w, "3"); /* 4: nobody read it since */
	tauti_send(&w, part(TAUT_OUTPUT, 10, 80), 1, 2);
	expect_waits(&w, "2 3 4"); /* 5: 3 twice, around 4 */
	tauti_recv_reduce(&w, part(TAUT_OUTPUT, 0, 100),
		part(TAUT_INPUT, 0, 100), 1, 3);
	expect_waits(&w, "2 3 4 5 1 0"); /* 6: reads, then writes */
	tauti_copy(&w, (struct tauti_elements){ 0, 100 });
	expect_waits(&w, "");
	tauti_writer_fini(&w);
}

static void scratch_is_another_memory(void **state)
{
	struct taut_coll_shape shape = { .n_ranks = 4, .count = 100 };
	struct tauti_extent a, b;
	struct tauti_writer w;

	(void)state;
	tauti_writer_init(&w, &shape);
	tauti_recv(&w, part(TAUT_OUTPUT, 0, 10), 1, 0);
	a = tauti_take_scratch(&w, (struct tauti_elements){ 0, 10 });
	b = tauti_take_scratch(&w, (struct tauti_elements){ 0, 10 });
	assert_int_equal(b.place, 10);
	tauti_recv(&w, a, 1, 1);
	expect_waits(&w, "");
	tauti_recv(&w, b, 1, 2);
	expect_waits(&w, "");
	tauti_recv_reduce(&w, a, a, 2, 0);
	expect_waits(&w, "1");
	assert_int_equal(w.steps.data[3].landing, 20);
	tauti_reduce(&w, part(TAUT_OUTPUT, 0, 10), part(TAUT_INPUT, 0, 10), b);
	expect_waits(&w, "2 0");
	assert_int_equal(w.steps.data[4].place, 10);
	tauti_send(&w, b, 1, 0);
	expect_waits(&w, "2");
	assert_int_equal(w.scratch_count, 30);
	tauti_writer_fini(&w);
}

static void nothing_is_no_step(void **state)
{
	static const uint32_t ranks[] = { 3, 0 };
	struct taut_coll_shape shape = { .n_ranks = 4, .count = 100 };
	struct tauti_group group = { ranks, 2, 1 };
	struct tauti_writer w;

	(void)state;
	tauti_writer_init(&w, &shape);
	tauti_send(&w, part(TAUT_INPUT, 5, 0), 1, 0);
	tauti_recv(&w, part(TAUT_OUTPUT, 5, 0), 1, 0);
	tauti_copy(&w, (struct tauti_elements){ 0, 0 });
	tauti_send_each(&w, part(TAUT_INPUT, 0, 9), ranks, 0, 0);
	tauti_send_all(&w, part(TAUT_INPUT, 0, 9), &group, 3, 0);
	assert_int_equal(w.steps.count, 0);
	tauti_send_all(&w, part(TAUT_INPUT, 0, 9), &group, 0, 0);
	assert_int_equal(w.steps.count, 1);
	assert_int_equal(w.peers.count, 1);
	assert_int_equal(w.peers.data[0], 3);
	tauti_writer_fini(&w);
}

/* --- edges --------------------------------------------------------------------------*/

static void blocks_cover_all(void **state)
{
	(void)state;
	for (uint64_t count = 0; count < 40; count++)
		for (uint32_t n = 1; n < 20; n++) {
			uint64_t at = 0, length, shortest = count / n;

			for (uint32_t i = 0; i < n; i++) {
				assert_int_equal(taut_coll_block(
					count, n, i, &length), at);
				assert_int_equal(length,
					shortest + (i < count % n));
				at += length;
			}
			assert_int_equal(at, count);
		}
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(taut_coll_verb_name(TAUT_ALLREDUCE), "allreduce");
	assert_string_equal(taut_coll_verb_name(TAUT_REDUCE_SCATTER),
		"reduce_scatter");
	assert_string_equal(taut_coll_verb_name(TAUT_ALLGATHER), "allgather");
	assert_string_equal(taut_coll_verb_name(TAUT_BROADCAST), "broadcast");
	assert_string_equal(taut_coll_verb_name(TAUT_VERBS), "?");
	assert_string_equal(taut_coll_way_name(TAUT_WAY_AUTO), "auto");
	assert_string_equal(taut_coll_way_name(TAUT_WAY_HALVING), "halving");
	assert_string_equal(taut_coll_way_name(TAUT_WAYS), "?");
	for (int w = 1; w < TAUT_WAYS; w++)
		assert_true(taut_coll_has(
			TAUT_ALLREDUCE, (enum taut_coll_way)w));
	assert_false(taut_coll_has(TAUT_ALLREDUCE, TAUT_WAY_AUTO));
	assert_false(taut_coll_has(TAUT_ALLREDUCE, TAUT_WAYS));
	assert_false(taut_coll_has(TAUT_VERBS, TAUT_WAY_RING));
	assert_false(taut_coll_has(TAUT_ALLGATHER, TAUT_WAY_DOUBLING));
}

static void expect_refused(struct taut_coll_shape shape, const char *why)
{
	struct taut_coll_schedule *schedule = NULL;
	struct taut_error err;

	assert_int_equal(taut_coll_schedule_create(&shape, &schedule, &err),
		TAUT_EINVAL);
	assert_non_null(strstr(err.message, why));
	assert_null(schedule);
}

static void what_is_refused(void **state)
{
	struct taut_coll_shape right = { .verb = TAUT_BROADCAST,
		.way = TAUT_WAY_TREE, .n_ranks = 4, .count = 8 };
	struct taut_coll_shape shape = right;

	(void)state;
	shape.way = TAUT_WAY_AUTO;
	expect_refused(shape, "there is no broadcast by auto");
	shape = right;
	shape.rank = 4;
	expect_refused(shape, "rank 4 of 4");
	shape = right;
	shape.root = 4;
	expect_refused(shape, "root 4 of 4");
	shape = right;
	shape.n_ranks = 0;
	expect_refused(shape, "rank 0 of 0");
	shape.n_ranks = TAUT_COLL_RANKS + 1;
	expect_refused(shape, "1 to 2048 ranks");
	shape = right;
	shape.count = UINT64_C(1) << 48;
	expect_refused(shape, "less than 2^48");
	taut_coll_schedule_destroy(NULL);
}

/* One rank of as many as there may be. */
static void try_most_ranks(struct taut_coll_shape shape)
{
	struct taut_coll_schedule *schedule;
	uint64_t sent = 0;

	shape.n_ranks = TAUT_COLL_RANKS;
	shape.rank = 1027;
	shape.count = (UINT64_C(1) << 48) - 1;
	assert_int_equal(
		taut_coll_schedule_create(&shape, &schedule, NULL), TAUT_OK);
	for (uint32_t i = 0; i < schedule->n_steps; i++) {
		const struct taut_coll_step *step = &schedule->steps[i];

		assert_true(step->message < TAUT_COLL_MESSAGES);
		assert_true(step->first + step->count <= shape.count);
		sent += step->kind == TAUT_STEP_SEND;
	}
	assert_true(sent > 0 || shape.verb == TAUT_BROADCAST);
	taut_coll_schedule_destroy(schedule);
}

static void most_ranks(void **state)
{
	(void)state;
	each_verb_and_way(try_most_ranks);
}

static void try_without_memory(struct taut_coll_shape shape)
{
	static const uint32_t host_of[] = { 0, 0, 0, 1, 1, 2, 2 };

	shape.n_ranks = 7;
	shape.count = 50;
	shape.host_of = host_of;
	for (shape.rank = 0; shape.rank < shape.n_ranks; shape.rank++) {
		struct taut_coll_schedule *schedule = NULL;
		long n = 0;

		for (;; n++) {
			struct taut_error err = { .message = "" };
			taut_status status;

			alloc_fail_after(n);
			status = taut_coll_schedule_create(
				&shape, &schedule, &err);
			alloc_fail_never();
			if (!status)
				break;
			assert_int_equal(status, TAUT_ENOMEM);
			assert_int_equal(err.code, TAUT_ENOMEM);
			assert_null(schedule);
		}
		assert_true(n > 3);
		taut_coll_schedule_destroy(schedule);
	}
}

static void memory_runs_out(void **state)
{
	(void)state;
	each_verb_and_way(try_without_memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_cover_all),
		cmocka_unit_test(names),
		cmocka_unit_test(what_waits_for_what),
		cmocka_unit_test(scratch_is_another_memory),
		cmocka_unit_test(nothing_is_no_step),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test_teardown(all_verbs_and_ways, tell_what_failed),
		cmocka_unit_test_teardown(many_ranks, tell_what_failed),
		cmocka_unit_test_teardown(hosts_of_any_shape, tell_what_failed),
		cmocka_unit_test_teardown(drawn_shapes, tell_what_failed),
		cmocka_unit_test(same_bits_everywhere),
		cmocka_unit_test(most_ranks),
		cmocka_unit_test(memory_runs_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
