/* What is in flight against arrays of flags, through many turns of its ring. */
#include "tests/support/unit.h"

#include <stdlib.h>

#include "sched/flight.h"
#include "tests/support/alloc_fail.h"

enum { PIECES = 3000 };

struct model {
	bool finished[PIECES], everywhere[PIECES];
	uint64_t floor, end;
};

static void check(const struct tauti_flight *flight, const struct model *model)
{
	uint64_t words[PIECES / 64 + 2];
	size_t n = tauti_flight_words(flight);

	assert_int_equal(flight->floor, model->floor);
	assert_int_equal(flight->end, model->end);
	assert_int_equal(n, model->floor == model->end ? 0 :
		(model->end - 1) / 64 - model->floor / 64 + 1);
	tauti_flight_copy(flight, words);
	for (uint64_t i = 0; i < 64 * n; i++) {
		uint64_t number = model->floor / 64 * 64 + i;
		bool expected = number < model->end && model->finished[number];

		assert_int_equal(words[i / 64] >> i % 64 & 1, expected);
		if (number >= model->floor && number < model->end)
			assert_int_equal(tauti_flight_row(flight, number)
				->piece.number, number);
	}
}

static void add(struct tauti_flight *flight, struct model *model)
{
	struct taut_sched_piece piece = { .task = (uint32_t)model->end };

	assert_true(tauti_flight_add(flight, &piece, false));
	model->end++;
}

static void finish(struct tauti_flight *flight, struct model *model,
	uint64_t number, bool everywhere)
{
	if (!model->finished[number])
		tauti_flight_finish(flight, number);
	model->finished[number] = true;
	if (!everywhere || model->everywhere[number])
		return;
	tauti_flight_release(flight, number);
	model->everywhere[number] = true;
	while (model->floor < model->end && model->everywhere[model->floor])
		model->floor++;
}

/* Never more than `most` under way: the ring turns, or grows. */
static void turn(uint64_t most, uint64_t seed)
{
	struct tauti_flight flight = { .rows = NULL };
	struct model model = { .floor = 0 };
	uint64_t x = seed;

	while (model.end < PIECES) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		if (model.end - model.floor < most && x >> 62)
			add(&flight, &model);
		else if (model.end > model.floor)
			finish(&flight, &model, model.floor +
				(x >> 33) % (model.end - model.floor),
				x >> 61 & 1);
		else
			continue;
		check(&flight, &model);
	}
	assert_true(flight.capacity <= 2 * (most + 64));
	tauti_flight_fini(&flight);
}

static void test_turns(void **state)
{
	(void)state;
	for (uint64_t most = 1; most < 700; most = most * 3 + 1)
		turn(most, most);
}

static void test_memory(void **state)
{
	struct tauti_flight flight = { .rows = NULL };
	struct model model = { .floor = 0 };
	struct taut_sched_piece piece = { .task = 0 };

	(void)state;
	for (int i = 0; i < 64; i++)
		add(&flight, &model);
	finish(&flight, &model, 3, true);
	alloc_fail_after(0);
	assert_false(tauti_flight_add(&flight, &piece, false));
	alloc_fail_never();
	check(&flight, &model);
	add(&flight, &model);
	check(&flight, &model);
	tauti_flight_fini(&flight);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
