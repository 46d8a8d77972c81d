/* Names of lanes, members of collectives. */
#include "tests/support/unit.h"

#include "report/lanes.h"
#include "tests/web/synthetic.h"

static void lanes_have_titles(void **state)
{
	struct synthetic *s = *state;
	char title[64], little[9];

	tauti_lane_title(&s->run.traces[0], 0, title, sizeof title);
	assert_string_equal(title, "thread 4001 (python)");
	tauti_lane_title(&s->run.traces[0], 2, title, sizeof title);
	assert_string_equal(title, "stream 7");
	tauti_lane_title(&s->run.traces[0], 0, little, sizeof little);
	assert_string_equal(little, "thread 4");
}

static void members_are_found_by_row(void **state)
{
	struct synthetic *s = *state;
	struct tauti_members m;

	assert_int_equal(tauti_members_find(&s->graph, &m, NULL), TAUT_OK);
	for (uint32_t t = 0; t < s->run.n_traces; t++) {
		assert_int_equal(
			m.begin[t + 1] - m.begin[t], s->graph.n_collectives);
		for (uint32_t i = m.begin[t]; i < m.begin[t + 1]; i++) {
			const struct tauti_member *x = &m.data[i];

			assert_true(i == m.begin[t] || x[-1].row < x->row);
			assert_int_equal(x->end - x->arrive,
				s->run.traces[t].dur_ns[x->row]);
			assert_true(x->arrive <= x->begin);
			if (x->last == t)
				assert_int_equal(x->arrive, x->begin);
		}
	}
	tauti_members_free(&m);
}

static int make(void **state)
{
	static struct synthetic s;

	synthetic_make(&s, 4, 1500);
	*state = &s;
	return 0;
}

static int unmake(void **state)
{
	synthetic_free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes_have_titles),
		cmocka_unit_test(members_are_found_by_row),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}
