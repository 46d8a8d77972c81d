/* pipe_order_test.c - orders of pipelines, written out by hand. */
#include "tests/support/unit.h"

#include "whatif/pipes.h"

static void check_order(const struct tauti_order *o, uint32_t stage,
	const char *want)
{
	uint8_t order[256];
	uint32_t n = tauti_order_n(o);

	assert_int_equal(n, strlen(want));
	tauti_order_make(o, stage, order);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(order[i] ? 'B' : 'F', want[i]);
}

static void test_orders(void **state)
{
	struct tauti_order o = { TAUTI_SCHEDULE_1F1B, 4, 1, 6, true };

	(void)state;
	check_order(&o, 0, "FFFFBFBFBBBB");
	check_order(&o, 2, "FFBFBFBFBFBB");
	check_order(&o, 3, "FBFBFBFBFBFB");
	o.batches = 2;
	check_order(&o, 0, "FFBB");
	o.schedule = TAUTI_SCHEDULE_GPIPE;
	o.batches = 3;
	check_order(&o, 3, "FFFBBB");
	o.backward = false;
	check_order(&o, 1, "FFF");
	o = (struct tauti_order){ TAUTI_SCHEDULE_INTERLEAVED, 2, 2, 4, true };
	check_order(&o, 0, "FFFFFBFBFBFBBBBB");
	check_order(&o, 1, "FFFBFBFBFBFBFBBB");
}

/* Of two stages with two chunks: micro-batches 0 and 1 through the first, then
 * through the second, then 2 and 3. */
static void test_pieces(void **state)
{
	const struct tauti_order o = { TAUTI_SCHEDULE_INTERLEAVED, 2, 2, 4,
		true };
	static const struct tauti_piece want[] = { { 0, 0 }, { 0, 1 },
		{ 1, 0 }, { 1, 1 }, { 0, 2 }, { 0, 3 }, { 1, 2 }, { 1, 3 } };

	(void)state;
	for (uint32_t i = 0; i < 8; i++) {
		struct tauti_piece f = tauti_piece_of(&o, false, i);
		struct tauti_piece b = tauti_piece_of(&o, true, i);

		assert_int_equal(f.chunk, want[i].chunk);
		assert_int_equal(f.batch, want[i].batch);
		assert_int_equal(b.chunk, 1 - want[i].chunk);
		assert_int_equal(b.batch, want[i].batch);
		assert_int_equal(tauti_piece_index(&o, false, f), i);
		assert_int_equal(tauti_piece_index(&o, true, b), i);
	}
}

/* Whatever it is cut into: in order, every home once, ends at the ends. */
static void test_cut_anew(void **state)
{
	(void)state;
	for (uint32_t n = 1; n < 20; n++)
		for (uint32_t of = 1; of < 40; of++) {
			uint32_t homes = 0, before = 0;

			for (uint32_t i = 0; i < of; i++) {
				bool home;
				uint32_t is = tauti_cut_anew(i, of, n, &home);

				assert_true(is < n && is >= before);
				assert_true(i || (is == 0 && home));
				assert_true(of < 2 || i != of - 1 || is == n - 1);
				homes += home;
				before = is;
				if (of == n)
					assert_true(home && is == i);
			}
			assert_int_equal(homes, of < n ? of : n);
		}
}

static void test_roles(void **state)
{
	(void)state;
	assert_int_equal(tauti_pipe_role("forward-compute"),
		TAUTI_PIPE_FORWARD);
	assert_int_equal(tauti_pipe_role("Backward"), TAUTI_PIPE_BACKWARD);
	assert_int_equal(tauti_pipe_role("optimizer"), TAUTI_PIPE_UPDATE);
	assert_int_equal(tauti_pipe_role("embedding-grads-all-reduce"),
		TAUTI_PIPE_EMBEDDING);
	assert_int_equal(tauti_pipe_role("forward-send"), TAUTI_PIPE_OTHER);
	assert_int_equal(tauti_pipe_role(""), TAUTI_PIPE_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_cut_anew),
		cmocka_unit_test(test_roles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
