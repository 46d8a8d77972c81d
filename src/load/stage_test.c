/* What a stage answers, one case at a time; its life among others: stage_world_test.c. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "load/stage.h"

enum { PLACES = 4, PLACE_BYTES = 100, THREADS = 4, ROUNDS = 20000 };

/* Two members in memory of their own; alive[i]: whether seat i is. */
struct pair {
	void *memory;
	bool alive[2];
	struct tauti_stage a, b;
};

static bool lives(void *context, struct tauti_stage_seat seat)
{
	const struct pair *pair = context;

	return seat.seat < 2 && pair->alive[seat.seat] && seat.generation == 9;
}

static void lay(struct tauti_stage *stage, struct pair *pair, uint32_t seat)
{
	*stage = (struct tauti_stage){ .me = { seat, 9 }, .lives = lives, .context = pair };
	tauti_stage_lay(stage, pair->memory, PLACES, PLACE_BYTES);
	assert_int_equal(tauti_stage_join(stage, 0, NULL), TAUT_OK);
}

static int set_up(void **state)
{
	struct pair *pair = calloc(1, sizeof *pair);
	uint64_t bytes = tauti_stage_bytes(PLACES, PLACE_BYTES);

	assert_non_null(pair);
	pair->memory = aligned_alloc(64, bytes);
	assert_non_null(pair->memory);
	memset(pair->memory, 0, bytes);
	pair->alive[0] = pair->alive[1] = true;
	lay(&pair->a, pair, 0);
	lay(&pair->b, pair, 1);
	*state = pair;
	return 0;
}

static int tear_down(void **state)
{
	struct pair *pair = *state;

	free(pair->memory);
	free(pair);
	return 0;
}

static void make(struct tauti_stage *stage, uint64_t position)
{
	unsigned char bytes[PLACE_BYTES];

	memset(bytes, (int)(position + 1), sizeof bytes);
	tauti_stage_publish(stage, position, bytes, sizeof bytes);
}

static void check_copy(struct tauti_stage *stage, uint64_t position)
{
	unsigned char bytes[PLACE_BYTES] = { 0 };

	assert_true(tauti_stage_copy(stage, position, bytes, sizeof bytes));
	for (size_t i = 0; i < sizeof bytes; i++)
		assert_int_equal(bytes[i], position + 1);
}

static void test_one_makes_the_other_copies(void **state)
{
	struct pair *pair = *state;

	assert_int_equal(tauti_stage_look(&pair->a, 0), TAUTI_STAGE_MINE);
	assert_int_equal(tauti_stage_look(&pair->b, 0), TAUTI_STAGE_COMING);
	assert_int_equal(tauti_stage_look(&pair->b, 1), TAUTI_STAGE_MINE);
	make(&pair->a, 0);
	assert_int_equal(tauti_stage_look(&pair->b, 0), TAUTI_STAGE_HERE);
	check_copy(&pair->b, 0);
	assert_int_equal(pair->a.shared->counts.made, 1);
	assert_int_equal(pair->a.shared->counts.copied, 1);
}

static void test_peeking_claims_nothing(void **state)
{
	struct pair *pair = *state;

	assert_int_equal(tauti_stage_peek(&pair->a, 0), TAUTI_STAGE_MINE);
	assert_int_equal(tauti_stage_look(&pair->b, 0), TAUTI_STAGE_MINE);
	assert_int_equal(tauti_stage_peek(&pair->a, 0), TAUTI_STAGE_COMING);
	make(&pair->b, 0);
	assert_int_equal(tauti_stage_peek(&pair->a, 0), TAUTI_STAGE_HERE);
	assert_int_equal(tauti_stage_peek(&pair->a, PLACES), TAUTI_STAGE_FULL);
	assert_int_equal(pair->a.shared->counts.made, 1);
}

static void test_what_was_dropped_is_anybodys(void **state)
{
	struct pair *pair = *state;

	assert_int_equal(tauti_stage_look(&pair->a, 2), TAUTI_STAGE_MINE);
	tauti_stage_drop(&pair->a, 2);
	assert_int_equal(tauti_stage_look(&pair->b, 2), TAUTI_STAGE_MINE);
	assert_int_equal(tauti_stage_look(&pair->a, 2), TAUTI_STAGE_COMING);
}

static void test_the_work_of_the_dead_is_taken(void **state)
{
	struct pair *pair = *state;

	assert_int_equal(tauti_stage_look(&pair->a, 0), TAUTI_STAGE_MINE);
	pair->alive[0] = false;
	assert_int_equal(tauti_stage_look(&pair->b, 0), TAUTI_STAGE_MINE);
	assert_int_equal(pair->b.shared->counts.taken, 1);
	make(&pair->b, 0);
	check_copy(&pair->b, 0);
}

static void make_all(struct tauti_stage *stage, uint64_t from, uint64_t to)
{
	for (uint64_t p = from; p < to; p++) {
		assert_int_equal(tauti_stage_look(stage, p), TAUTI_STAGE_MINE);
		make(stage, p);
		tauti_stage_move(stage, p + 1);
	}
}

static void test_nobody_runs_over_who_is_behind(void **state)
{
	struct pair *pair = *state;

	make_all(&pair->a, 0, PLACES);
	assert_int_equal(tauti_stage_look(&pair->a, PLACES), TAUTI_STAGE_FULL);
	check_copy(&pair->b, 0);
	tauti_stage_move(&pair->b, 1);
	assert_int_equal(tauti_stage_look(&pair->a, PLACES), TAUTI_STAGE_MINE);
	assert_int_equal(tauti_stage_look(&pair->a, PLACES + 1), TAUTI_STAGE_FULL);
}

static void test_who_is_detached_makes_its_own(void **state)
{
	struct pair *pair = *state;

	make_all(&pair->a, 0, PLACES);
	assert_int_equal(tauti_stage_detach(&pair->a, PLACES), 1);
	make_all(&pair->a, PLACES, 2 * PLACES);
	assert_int_equal(tauti_stage_look(&pair->b, 0), TAUTI_STAGE_PRIVATE);
	tauti_stage_move(&pair->b, 1); /* out of reach: it stands in nobody's way */
	assert_int_equal(tauti_stage_look(&pair->a, 2 * PLACES), TAUTI_STAGE_MINE);
	tauti_stage_move(&pair->b, PLACES + 1); /* within it */
	assert_int_equal(tauti_stage_look(&pair->a, 2 * PLACES + 1), TAUTI_STAGE_FULL);
	check_copy(&pair->b, PLACES + 1);
}

static void test_the_dead_are_in_nobodys_way(void **state)
{
	struct pair *pair = *state;

	make_all(&pair->a, 0, PLACES);
	pair->alive[1] = false;
	assert_int_equal(tauti_stage_look(&pair->a, PLACES), TAUTI_STAGE_FULL);
	assert_int_equal(tauti_stage_bury(&pair->a), 1);
	assert_int_equal(tauti_stage_look(&pair->a, PLACES), TAUTI_STAGE_MINE);
	assert_int_equal(tauti_stage_bury(&pair->a), 0);
}

/* Somebody who lives holds a place that all others have passed: it stays its own. */
static void test_a_claim_of_the_living_is_kept(void **state)
{
	struct pair *pair = *state;

	assert_int_equal(tauti_stage_look(&pair->b, 0), TAUTI_STAGE_MINE);
	make_all(&pair->a, 1, PLACES);
	assert_int_equal(tauti_stage_detach(&pair->a, PLACES), 1);
	assert_int_equal(tauti_stage_look(&pair->a, PLACES), TAUTI_STAGE_PRIVATE);
	make(&pair->b, 0);
	assert_int_equal(tauti_stage_look(&pair->a, PLACES), TAUTI_STAGE_MINE);
}

static void test_members_are_counted(void **state)
{
	struct pair *pair = *state;
	struct tauti_stage more[TAUTI_STAGE_MEMBERS];
	struct taut_error err = { 0 };

	for (uint32_t i = 0; i + 2 < TAUTI_STAGE_MEMBERS; i++)
		lay(&more[i], pair, 0);
	more[0].member = TAUT_NONE;
	assert_int_equal(tauti_stage_join(&more[0], 0, &err), TAUT_EAGAIN);
	assert_string_equal(err.message, "prepared items are shared by 64 loaders of this host "
		"already, which is the most");
	tauti_stage_leave(&pair->b);
	assert_int_equal(tauti_stage_join(&more[0], 0, NULL), TAUT_OK);
}

static void test_memory_is_bounded(void **state)
{
	(void)state;
	assert_int_equal(tauti_stage_bytes(0, 1), UINT64_MAX);
	assert_int_equal(tauti_stage_bytes(1, 0), UINT64_MAX);
	assert_int_equal(tauti_stage_bytes(UINT64_MAX / 2, 64), UINT64_MAX);
	assert_int_equal(tauti_stage_bytes(8, SIZE_MAX / 2), UINT64_MAX);
	assert_int_equal(tauti_stage_bytes(PLACES, PLACE_BYTES) -
		tauti_stage_bytes(PLACES - 1, PLACE_BYTES), 128);
}

/* --- threads -----------------------------------------------------------------------*/

struct thread {
	struct pair *pair;
	struct tauti_stage stage;
	uint64_t made, wrong;
};

static bool do_one(struct thread *it, uint64_t position)
{
	unsigned char bytes[PLACE_BYTES];
	uint32_t seen = tauti_stage_news(&it->stage);

	switch (tauti_stage_look(&it->stage, position)) {
	case TAUTI_STAGE_MINE:
		memset(bytes, (int)(position % 251), sizeof bytes);
		tauti_stage_publish(&it->stage, position, bytes, sizeof bytes);
		it->made++;
		return true;
	case TAUTI_STAGE_HERE:
		if (!tauti_stage_copy(&it->stage, position, bytes, sizeof bytes) ||
			bytes[0] != position % 251 || bytes[99] != position % 251)
			it->wrong++;
		return true;
	default:
		tauti_stage_wait(&it->stage, seen, 1000000000);
		return false;
	}
}

static void *run_thread(void *context)
{
	struct thread *it = context;

	for (uint64_t p = 0; p < ROUNDS;) {
		if (!do_one(it, p))
			continue;
		tauti_stage_move(&it->stage, ++p);
	}
	return NULL;
}

/* With nobody slow or dead each position is made once, and everybody has it. */
static void test_threads(void **state)
{
	struct pair *pair = *state;
	static struct thread threads[THREADS];
	pthread_t ids[THREADS];
	uint64_t made = 0;

	tauti_stage_leave(&pair->a);
	tauti_stage_leave(&pair->b);
	for (int i = 0; i < THREADS; i++)
		lay(&threads[i].stage, pair, 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, run_thread, &threads[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(ids[i], NULL);
		made += threads[i].made;
		assert_int_equal(threads[i].wrong, 0);
	}
	assert_int_equal(made, ROUNDS);
	assert_int_equal(pair->a.shared->counts.made, ROUNDS);
	assert_int_equal(pair->a.shared->counts.copied, (THREADS - 1) * ROUNDS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_one_makes_the_other_copies),
		TEST(test_peeking_claims_nothing),
		TEST(test_what_was_dropped_is_anybodys),
		TEST(test_the_work_of_the_dead_is_taken),
		TEST(test_nobody_runs_over_who_is_behind),
		TEST(test_who_is_detached_makes_its_own),
		TEST(test_the_dead_are_in_nobodys_way),
		TEST(test_a_claim_of_the_living_is_kept),
		TEST(test_members_are_counted),
		TEST(test_threads),
		cmocka_unit_test(test_memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
