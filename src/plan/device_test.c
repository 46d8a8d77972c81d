/* device_test.c - CUDA graphs as a decision: of which recordings they are one, and what a
 * plan with them is. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <taut/plan.h>

#include "plan/plan.h"
#include "tests/support/alloc_fail.h"
#include "whatif/small_job.h"

static const struct taut_plan_options lossy = {
	.allow = TAUT_NUMERICS_LOSSY, .budget_s = 60 };

static const char *why_not(const struct job *j, uint32_t n_ranks,
	struct taut_arena *arena)
{
	const char *why = "not set";
	struct taut_error err;

	if (tauti_plan_graphs(j->graph, n_ranks, arena, &why, &err))
		fail_msg("%s", err.message);
	return why;
}

static void test_of_which_jobs(void **state)
{
	struct taut_arena *arena = taut_arena_create();
	struct job device = device_job(), host = block_job();
	struct job waits = waiting_job(true);

	(void)state;
	assert_null(why_not(&device, 1, arena));
	assert_string_equal(why_not(&host, 1, arena), "");
	assert_string_equal(why_not(&host, 2, arena), "");
	assert_non_null(strstr(why_not(&device, 2, arena), "several ranks"));
	assert_non_null(strstr(why_not(&waits, 1, arena),
		"within the passes, which no graph can hold"));
	close_job(&device);
	close_job(&host);
	close_job(&waits);
	taut_arena_destroy(arena);
}

static struct taut_planned *search(const struct job *j)
{
	struct taut_planned *planned;
	struct taut_error err;

	if (taut_plan_search(j->graph, &lossy, &planned, &err))
		fail_msg("%s", err.message);
	return planned;
}

/* A note on them, or NULL. */
static const char *noted(const struct taut_planned *planned)
{
	for (uint32_t i = 0; i < planned->n_notes; i++)
		if (!strncmp(planned->notes[i], "graphs: ", 8))
			return planned->notes[i];
	return NULL;
}

static int64_t alone(const struct taut_planned *planned)
{
	for (uint32_t i = 0; i < planned->n_passes; i++)
		if (!strcmp(planned->passes[i].name, "graphs"))
			return planned->passes[i].step_ns;
	return -1;
}

static void test_searched(void **state)
{
	struct job device = device_job(), host = block_job();
	struct job waits = waiting_job(true);
	struct taut_planned *planned = search(&device);

	(void)state;
	assert_true(fabs((double)alone(planned) / 1e6 -
		with(&device, "graphs")) < 1e-5);
	taut_planned_destroy(planned);
	planned = search(&host);
	assert_true(alone(planned) == -1);
	assert_null(noted(planned));
	taut_planned_destroy(planned);
	planned = search(&waits);
	assert_true(alone(planned) == -1);
	assert_non_null(noted(planned));
	taut_planned_destroy(planned);
	close_job(&device);
	close_job(&host);
	close_job(&waits);
}

/* --- what a job is told --------------------------------------------------------------- */

/* "on", or why not, of a plan with these two. */
static void check_told(uint32_t n_ranks, const char *beside, const char *said)
{
	const struct taut_decision decisions[] = {
		{ "graphs", TAUT_NUMERICS_EXACT, -1 },
		{ beside, TAUT_NUMERICS_LOSSY, -1 } };
	const struct taut_plan plan = { .job = { .n_ranks = n_ranks,
		.n_hosts = 1, .framework = "pytorch" },
		.decisions = (struct taut_decision *)decisions,
		.n_decisions = 2 };
	struct taut_arena *arena = taut_arena_create();
	const struct taut_plan_setting *found;
	struct taut_error err = { .message = "" };
	const char *value = NULL;
	uint32_t n = 0;

	assert_non_null(arena);
	if (!taut_plan_settings(&plan, arena, &found, &n, &err))
		for (uint32_t i = 0; i < n; i++)
			if (!strcmp(found[i].name, "TAUT_RUN_GRAPHS"))
				value = found[i].value;
	if (!strstr(value ? value : err.message, said))
		fail_msg("%s: %s", beside, value ? value : err.message);
	taut_arena_destroy(arena);
}

static void test_told(void **state)
{
	(void)state;
	check_told(1, "amp=bf16", "on");
	check_told(1, "optimizer=fused", "on");
	check_told(1, "recompute=a*", "not beside recompute");
	check_told(1, "microbatches=2", "not beside microbatches");
	check_told(1, "compile=a*", "not beside compile");
	check_told(2, "amp=bf16", "gradients of several ranks");
}

static void test_no_memory(void **state)
{
	struct job waits = waiting_job(true);
	taut_status status = TAUT_ENOMEM;
	size_t n = 0;

	(void)state;
	for (; status; n++) {
		struct taut_arena *arena = taut_arena_create();
		const char *why;

		alloc_fail_after(n);
		status = tauti_plan_graphs(waits.graph, 1, arena, &why, NULL);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
		taut_arena_destroy(arena);
	}
	assert_true(n > 5);
	close_job(&waits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_which_jobs),
		cmocka_unit_test(test_searched),
		cmocka_unit_test(test_told),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
