/* edit_random_test.c - edits at random: undo gives back what was, memory that
 * runs out changes nothing, a removed op is one that takes no time, and what
 * stands where is what a much simpler edit says. Seeds are fixed. */
#include <stdlib.h>
#include <string.h>

#include <taut/edit.h>
#include <taut/replay.h>

#include "small_change.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/graph_text.h"
#include "tests/support/unit.h"

#define OK(call) assert_int_equal((call), TAUT_OK)

enum { MAX_MARKS = 16 };

static char *built_text(const struct taut_edit *edit)
{
	struct taut_graph *graph;
	char *text;

	OK(taut_edit_build(edit, &graph, NULL, NULL, NULL));
	text = graph_text(graph);
	taut_graph_destroy(graph);
	return text;
}

/* --- undo ---------------------------------------------------------------------------------- */

struct marks {
	uint32_t at[MAX_MARKS];
	char *text[MAX_MARKS];
	uint32_t n;
};

static void mark(struct marks *marks, const struct taut_edit *edit)
{
	if (marks->n == MAX_MARKS)
		return;
	marks->at[marks->n] = taut_edit_mark(edit);
	marks->text[marks->n++] = built_text(edit);
}

static void undo(struct marks *marks, struct taut_edit *edit, uint32_t to)
{
	char *text;

	taut_edit_undo(edit, marks->at[to]);
	text = built_text(edit);
	assert_string_equal(text, marks->text[to]);
	free(text);
	while (marks->n > to + 1)
		free(marks->text[--marks->n]);
}

static void try_undo(uint64_t seed, uint32_t done[SMALL_KINDS])
{
	struct small_job *job = small_job_create(seed);
	struct marks marks = { .n = 0 };
	struct taut_edit *edit;

	OK(taut_edit_create(&job->graph, &edit, NULL));
	marks.at[0] = taut_edit_mark(edit);
	marks.text[marks.n++] = graph_text(&job->graph);
	for (uint32_t i = 0; i < 40; i++) {
		uint32_t what = small_kind(&seed);

		done[what] += !small_change(edit, what, &seed);
		if (!small_pick(&seed, 6))
			mark(&marks, edit);
		if (!small_pick(&seed, 8))
			undo(&marks, edit, small_pick(&seed, marks.n));
	}
	while (marks.n > 1)
		undo(&marks, edit, small_pick(&seed, marks.n - 1));
	undo(&marks, edit, 0);
	free(marks.text[0]);
	taut_edit_destroy(edit);
	small_job_destroy(job);
}

static void test_undo(void **state)
{
	uint32_t done[SMALL_KINDS] = { 0 };

	(void)state;
	for (uint64_t seed = 1; seed <= 4000; seed++)
		try_undo(seed * 1000003, done);
	for (int i = 0; i < SMALL_KINDS; i++)
		assert_true(done[i] > 1000);
}

/* --- no memory ------------------------------------------------------------------------------- */

static char *build_without_memory(const struct taut_edit *edit)
{
	struct taut_graph *graph;
	taut_status status;
	char *text;

	for (long n = 0;; n += 1 + n / 8) {
		alloc_fail_after(n);
		status = taut_edit_build(edit, &graph, NULL, NULL, NULL);
		alloc_fail_never();
		if (!status)
			break;
		assert_int_equal(status, TAUT_ENOMEM);
	}
	text = graph_text(graph);
	taut_graph_destroy(graph);
	return text;
}

/* Each request fails once; nothing may have changed then. */
static void try_change(struct taut_edit *edit, uint32_t what, uint64_t *seed)
{
	char *before = built_text(edit), *after;
	uint64_t same;

	for (long n = 0;; n++) {
		taut_status status;

		same = *seed;
		alloc_fail_after(n);
		status = small_change(edit, what, &same);
		alloc_fail_never();
		if (!status || status == TAUT_EINVAL)
			break;
		assert_int_equal(status, TAUT_ENOMEM);
		after = built_text(edit);
		assert_string_equal(after, before);
		free(after);
	}
	*seed = same;
	free(before);
}

static void test_no_memory(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 150; i++) {
		uint64_t seed = i * 7000003;
		struct small_job *job = small_job_create(seed);
		struct taut_edit *edit = NULL;
		char *text, *again;

		for (long n = 0; !edit; n++) {
			alloc_fail_after(n);
			(void)!taut_edit_create(&job->graph, &edit, NULL);
			alloc_fail_never();
		}
		for (uint32_t k = 0; k < 12; k++)
			try_change(edit, small_kind(&seed), &seed);
		text = build_without_memory(edit);
		taut_edit_undo(edit, 0);
		again = built_text(edit);
		free(text);
		text = graph_text(&job->graph);
		assert_string_equal(text, again);
		free(text);
		free(again);
		taut_edit_destroy(edit);
		small_job_destroy(job);
	}
}

/* --- a removed op is one that takes no time ------------------------------------------------- */

static void count(void *context, struct taut_wait wait)
{
	(void)wait;
	++*(uint32_t *)context;
}

/* One that waits for nothing has nothing to pass on; a collective's has more
 * to it than waits. */
static bool is_plain(const struct taut_edit *edit, uint32_t op)
{
	uint32_t n = taut_edit_before(edit, op) != TAUT_NONE;
	struct taut_op is;

	taut_edit_each_in(edit, op, count, &n);
	return n && taut_edit_op(edit, op, &is) && is.collective == TAUT_NONE;
}

static bool starts_of(const struct taut_graph *graph,
	const struct taut_replay_edit *edit, struct taut_timeline *timeline)
{
	OK(taut_timeline_init(timeline, graph, NULL));
	return !taut_replay(graph, edit, timeline, NULL);
}

struct built {
	struct taut_graph *graph;
	uint32_t *op_of;
};

static struct built build(const struct taut_edit *edit)
{
	struct built built;

	built.op_of = malloc((taut_edit_ops(edit) + 1) * sizeof(uint32_t));
	OK(taut_edit_build(edit, &built.graph, built.op_of, NULL, NULL));
	return built;
}

static void unbuild(struct built *built)
{
	taut_graph_destroy(built->graph);
	free(built->op_of);
}

/* The graph before, with a duration and a gap of 0 for op, against the one
 * without it. */
static uint32_t compare_removed(const struct taut_edit *edit, uint32_t op,
	const struct built *before, const struct built *after)
{
	static int64_t dur[SMALL_IDS], gap[SMALL_IDS];
	struct taut_replay_edit zeroed = { .dur_ns = dur, .gap_ns = gap };
	uint32_t n = taut_edit_ops(edit), compared = 0;
	struct taut_timeline want, got;

	for (uint32_t i = 0; i < before->graph->n_ops; i++) {
		dur[i] = before->graph->dur_ns[i];
		gap[i] = before->graph->gap_ns[i];
	}
	dur[before->op_of[op]] = gap[before->op_of[op]] = 0;
	if (starts_of(before->graph, &zeroed, &want)) {
		assert_true(starts_of(after->graph, NULL, &got));
		for (uint32_t i = 0; i < n; i++) {
			if (after->op_of[i] == TAUT_NONE)
				continue;
			assert_int_equal(got.start_ns[after->op_of[i]],
				want.start_ns[before->op_of[i]]);
			compared++;
		}
		taut_timeline_fini(&got);
	}
	taut_timeline_fini(&want);
	return compared;
}

static uint32_t try_removal(uint64_t seed)
{
	struct small_job *job = small_job_create(seed);
	struct taut_edit *edit;
	struct built before, after;
	uint32_t compared = 0;

	OK(taut_edit_create(&job->graph, &edit, NULL));
	for (uint32_t i = small_pick(&seed, 8); i--;)
		(void)!small_change(edit, small_kind(&seed), &seed);
	before = build(edit);
	for (uint32_t i = 1 + small_pick(&seed, 12); i--;) {
		uint32_t op = small_op(edit, &seed);

		if (!is_plain(edit, op) || taut_edit_remove(edit, op, NULL))
			continue;
		after = build(edit);
		compared += compare_removed(edit, op, &before, &after);
		unbuild(&before);
		before = after;
	}
	unbuild(&before);
	taut_edit_destroy(edit);
	small_job_destroy(job);
	return compared;
}

static void test_removed_takes_no_time(void **state)
{
	uint64_t compared = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 6000; seed++)
		compared += try_removal(seed * 1000003);
	print_message("%llu starts compared\n", (unsigned long long)compared);
	assert_true(compared > 100000);
}

/* --- a rank more that does as another does changes nothing for the others ------------------ */

static uint32_t compare_copied(struct taut_edit *edit, uint32_t rank,
	const uint8_t *join)
{
	struct built before = build(edit), after;
	uint32_t n = taut_edit_ops(edit), copy, compared = 0;
	uint32_t *copy_of = malloc((n + 1) * sizeof *copy_of);
	struct taut_timeline want, got;

	OK(taut_edit_copy_rank(edit, rank, join, &copy, copy_of, NULL));
	after = build(edit);
	if (!starts_of(before.graph, NULL, &want))
		n = 0; /* new collectives wait for each other in a circle */
	assert_true(starts_of(after.graph, NULL, &got) || !n);
	for (uint32_t i = 0; i < n; i++) {
		int64_t start;

		if (before.op_of[i] == TAUT_NONE) {
			assert_int_equal(copy_of[i], TAUT_NONE);
			continue;
		}
		start = want.start_ns[before.op_of[i]];
		assert_int_equal(got.start_ns[after.op_of[i]], start);
		if (copy_of[i] == TAUT_NONE)
			continue;
		if (!join)
			assert_int_equal(
				got.start_ns[after.op_of[copy_of[i]]], start);
		compared++;
	}
	taut_timeline_fini(&want);
	taut_timeline_fini(&got);
	unbuild(&before);
	unbuild(&after);
	free(copy_of);
	return compared;
}

/* Changes after which no rank waits for another but in a collective. */
static void change_within(struct taut_edit *edit, uint64_t *seed)
{
	static const uint32_t kinds[] = { 0, 1, 2, 3, 7, 8, 10, 12, 15, 16 };

	for (uint32_t i = small_pick(seed, 12); i--;)
		(void)!small_change(edit, kinds[small_pick(seed, 10)], seed);
}

static void test_copied_rank_does_alike(void **state)
{
	uint32_t compared = 0;

	(void)state;
	for (uint64_t i = 1; i <= 1500; i++) {
		uint64_t seed = i * 5000011;
		struct small_job *job = small_job_create(seed);
		struct taut_edit *edit;
		uint8_t join[SMALL_IDS];
		uint32_t rank;

		OK(taut_edit_create(&job->graph, &edit, NULL));
		change_within(edit, &seed);
		for (int k = 0; k < SMALL_IDS; k++)
			join[k] = small_pick(&seed, 2);
		do
			rank = small_pick(&seed, taut_edit_ranks(edit));
		while (!taut_edit_has_rank(edit, rank));
		compared += compare_copied(edit, rank, NULL);
		rank = taut_edit_ranks(edit) - 1;
		compared += compare_copied(edit, rank, NULL);
		compared += compare_copied(edit, rank, join);
		taut_edit_destroy(edit);
		small_job_destroy(job);
	}
	assert_true(compared > 50000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_undo),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_removed_takes_no_time),
		cmocka_unit_test(test_copied_rank_does_alike),
	};

	return cmocka_run_group_tests_name(
		"edits at random", tests, NULL, NULL);
}
