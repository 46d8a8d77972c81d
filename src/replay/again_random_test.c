/* again_random_test.c - edits at random, followed: after every follow all times
 * are those of a build and a replay, and after an undo those of before. Seeds are
 * fixed. */
#include "again_by_hand.h"
#include "small_change.h"
#include "tests/support/alloc_fail.h"

#define OK(call) assert_int_equal((call), TAUT_OK)

enum { MAX_MARKS = 12 };

struct marked { /* a state, and what was told of it */
	uint32_t at;
	char *text;
};

struct walk {
	struct small_job *job;
	struct taut_edit *edit;
	struct taut_again *again;
	struct marked marks[MAX_MARKS];
	uint32_t n_marks;
	uint64_t seed;
	/* of all walks: */
	uint64_t follows, circles, backs, put_back;
};

static void begin(struct walk *w, uint64_t seed)
{
	w->seed = seed;
	w->job = small_job_create(seed);
	OK(taut_edit_create(&w->job->graph, &w->edit, NULL));
	OK(taut_again_create(w->edit, &w->again, NULL));
	w->marks[0] = (struct marked) { taut_edit_mark(w->edit),
		again_text(w->again, w->edit) };
	w->n_marks = 1;
}

static void end(struct walk *w)
{
	while (w->n_marks)
		free(w->marks[--w->n_marks].text);
	taut_again_destroy(w->again);
	taut_edit_destroy(w->edit);
	small_job_destroy(w->job);
}

/* --- a circle is told by two of its ops -------------------------------------------- */

struct search {
	uint32_t op;
	int found;
};

static void find(void *context, struct taut_wait wait)
{
	struct search *search = context;

	search->found |= wait.op == search->op;
}

static void check_line(const struct walk *w, const char *line)
{
	const char *first = strstr(line, " op "), *second;
	struct search search = { 0, 0 };
	unsigned op, other, len;

	assert_int_equal(sscanf(line, "circle of waits, %u long", &len), 1);
	assert_true(len > 1);
	assert_non_null(first);
	second = strstr(first + 1, " waits for ");
	assert_non_null(second);
	assert_int_equal(sscanf(first, " op %u", &op), 1);
	assert_int_equal(sscanf(strstr(second, " op "), " op %u", &other), 1);
	search.op = other;
	taut_edit_each_in(w->edit, op, find, &search);
	assert_true(search.found || taut_edit_before(w->edit, op) == other);
}

/* --- steps ----------------------------------------------------------------------------- */

static taut_status follow(struct walk *w, int by_id)
{
	struct taut_error err = { .message = "" };
	taut_status status = taut_again_follow(w->again, &err);

	assert_int_equal(again_compare(w->again, w->edit, status, by_id),
		status);
	w->follows++;
	w->circles += status == TAUT_EMATCH;
	w->put_back += taut_again_last_counts(w->again).put_back;
	if (status)
		check_line(w, err.message);
	return status;
}

static void mark(struct walk *w)
{
	if (w->n_marks < MAX_MARKS)
		w->marks[w->n_marks++] = (struct marked) {
			taut_edit_mark(w->edit),
			again_text(w->again, w->edit) };
}

/* All times are, byte for byte, what they were. */
static void back(struct walk *w, int by_id)
{
	uint32_t to = small_pick(&w->seed, w->n_marks);
	char *text;

	taut_edit_undo(w->edit, w->marks[to].at);
	if (!small_pick(&w->seed, 3)) { /* what comes is not seen */
		(void)!small_change(w->edit, small_kind(&w->seed), &w->seed);
		taut_edit_undo(w->edit, w->marks[to].at);
	}
	OK(follow(w, by_id));
	text = again_text(w->again, w->edit);
	assert_string_equal(text, w->marks[to].text);
	free(text);
	while (w->n_marks > to + 1)
		free(w->marks[--w->n_marks].text);
	w->backs++;
}

static void wander(struct walk *w, const uint32_t *kinds, uint32_t n_kinds)
{
	for (uint32_t i = 0; i < 40; i++) {
		taut_status status;

		for (uint32_t k = small_pick(&w->seed, 4); k--;)
			(void)!small_change(w->edit, kinds ?
				kinds[small_pick(&w->seed, n_kinds)] :
				small_kind(&w->seed), &w->seed);
		if (!small_pick(&w->seed, 4))
			continue; /* many at once */
		status = follow(w, kinds != NULL);
		if (status || !small_pick(&w->seed, 5))
			back(w, kinds != NULL);
		else if (!small_pick(&w->seed, 3))
			mark(w);
	}
}

static void test_all_changes(void **state)
{
	struct walk w = { .follows = 0 };

	(void)state;
	for (uint64_t i = 1; i <= 3000; i++) {
		begin(&w, i * 1000003);
		wander(&w, NULL, 0);
		end(&w);
	}
	print_message("%llu follows, %llu circles, %llu undone, %llu copies put "
		"back\n", (unsigned long long)w.follows,
		(unsigned long long)w.circles, (unsigned long long)w.backs,
		(unsigned long long)w.put_back);
	assert_true(w.circles > 2000 && w.backs > 10000 &&
		w.follows > 5 * w.circles && w.put_back > 10000);
}

/* Where the built graph numbers ops in the same order, decisions are the same. */
static void test_same_decisions(void **state)
{
	static const uint32_t kinds[] = { 0, 1, 3, 4, 5, 7, 8, 9, 11, 12, 15 };
	struct walk w = { .follows = 0 };

	(void)state;
	for (uint64_t i = 1; i <= 1500; i++) {
		begin(&w, i * 3000017);
		wander(&w, kinds, sizeof kinds / sizeof kinds[0]);
		end(&w);
	}
	assert_true(w.follows > 20000);
}

/* Few marks, and few undos: places are moved on and on. */
static void test_long_walks(void **state)
{
	struct walk w = { .follows = 0 };

	(void)state;
	for (uint64_t i = 1; i <= 40; i++) {
		begin(&w, i * 5000011);
		for (uint32_t k = 0; k < 600; k++) {
			uint32_t at = taut_edit_mark(w.edit);

			if (taut_edit_ops(w.edit) < SMALL_IDS / 4)
				(void)!small_change(w.edit,
					small_kind(&w.seed), &w.seed);
			else
				(void)!small_change(w.edit, 6, &w.seed);
			if (!follow(&w, 0))
				continue;
			taut_edit_undo(w.edit, at);
			OK(follow(&w, 0));
		}
		end(&w);
	}
}

/* --- no memory --------------------------------------------------------------------------- */

static void follow_without_memory(struct walk *w)
{
	taut_status status;

	for (long n = 0;; n++) {
		alloc_fail_after(n);
		status = taut_again_follow(w->again, NULL);
		alloc_fail_never();
		if (status != TAUT_ENOMEM)
			break;
	}
	if (again_compare(w->again, w->edit, status, 0)) {
		taut_edit_undo(w->edit, 0);
		OK(follow(w, 0));
	}
}

static void test_no_memory(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 150; i++) {
		struct walk w = { .seed = i * 7000003 };

		w.job = small_job_create(w.seed);
		OK(taut_edit_create(&w.job->graph, &w.edit, NULL));
		for (long n = 0; !w.again; n++) {
			alloc_fail_after(n);
			(void)!taut_again_create(w.edit, &w.again, NULL);
			alloc_fail_never();
		}
		for (uint32_t k = 0; k < 15; k++) {
			(void)!small_change(w.edit, small_kind(&w.seed),
				&w.seed);
			follow_without_memory(&w);
		}
		end(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_changes),
		cmocka_unit_test(test_same_decisions),
		cmocka_unit_test(test_long_walks),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests_name(
		"a kept replay at random", tests, NULL, NULL);
}
