/* exchanged_test.c - a job of TensorFlow whose gradients Taut's exchange sums, written
 * by hand as its profile tells it: what the graph knows of it, and what other settings of
 * the exchange come to. A step of 100 ms; the main thread calls a function, whose
 * operators run on one thread:
 *
 *     main     |call ................................................| 100
 *     executor 0 backward 20 ready 0 21, backward 40 ready 1 41, wait 0, 1 .. 80, update 90
 *     message     of 0:    21 --- 51        of 1:  51 --- 80
 *
 * Or, without a function, all operators on the main thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <taut/plan.h>
#include <taut/whatif.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"
#include "trace/formats/xplane_write.h"

enum { STEPS = 4, MS = 1000000, STEP = 100 * MS, PARAMETERS = 250000 };

static const int64_t begin_ns = 1700000000 * INT64_C(1000000000);

struct job {
	char folder[32], paths[2][64];
	struct taut_run *run;
	struct taut_graph *graph;
};

struct lost { /* an event that the profiler lost */
	const char *name; /* NULL: none */
	int rank, step; /* step -1: of every one */
	int64_t task;
};

struct writer {
	struct plane p;
	struct bytes main, executor;
	struct bytes *computes; /* of the two */
	int rank, step; /* under way */
	struct lost lost;
};

static bool is_lost(const struct writer *w, const char *name, int64_t task)
{
	return w->lost.name && !strcmp(w->lost.name, name) &&
		w->lost.rank == w->rank && (w->lost.step < 0 ||
		(w->lost.step == w->step && w->lost.task == task));
}

static void put_op(struct writer *w, struct bytes *line, const char *name,
	int64_t from, int64_t to)
{
	add_event(&w->p, line, name, from, to - from);
}

static void put_call(struct writer *w, const char *name, int64_t task,
	int64_t from, int64_t to)
{
	struct bytes event;

	if (is_lost(w, name, task))
		return;
	begin_event(&w->p, &event, name, from, to - from);
	add_number(&w->p, &event, "taut_task", task);
	put_in(w->computes, 4, &event);
}

static void put_step(struct writer *w, int step)
{
	int64_t at = (int64_t)step * STEP;
	struct bytes event;

	begin_event(&w->p, &event, "train", at, STEP);
	add_number(&w->p, &event, "step_num", step);
	add_number(&w->p, &event, "taut", 1);
	put_in(&w->main, 4, &event);
	if (w->computes == &w->executor) {
		put_op(w, &w->main, "FunctionRun", at + MS / 10, at + 98 * MS);
		put_op(w, &w->executor, "ExecutorState::Process", at + MS / 2,
			at + 90 * MS);
	}
	put_op(w, w->computes, "gradient_tape/b/MatMul:MatMul", at + MS,
		at + 20 * MS);
	put_op(w, w->computes, "taut_ready:PyFuncStateless", at + 20 * MS,
		at + 21 * MS);
	put_call(w, "taut_sync_ready", 4, at + 20 * MS + 10, at + 21 * MS - 10);
	put_op(w, w->computes, "gradient_tape/a/MatMul:MatMul", at + 21 * MS,
		at + 40 * MS);
	put_op(w, w->computes, "taut_ready_1:PyFuncStateless", at + 40 * MS,
		at + 41 * MS);
	put_call(w, "taut_sync_ready", 5, at + 40 * MS + 10, at + 41 * MS - 10);
	put_op(w, w->computes, "taut_wait:PyFunc", at + 41 * MS, at + 80 * MS);
	put_call(w, "taut_sync_wait", 4, at + 41 * MS + 10, at + 51 * MS);
	put_call(w, "taut_sync_wait", 5, at + 51 * MS + 10, at + 80 * MS - 10);
	put_op(w, w->computes, "sgd/ResourceApply:ResourceApply", at + 80 * MS,
		at + 90 * MS);
}

static void put_piece(struct writer *w, int64_t message, int64_t task,
	int64_t from, int64_t to)
{
	struct bytes event;

	begin_event(&w->p, &event, "taut_piece", (int64_t)STEPS * STEP, 0);
	add_number(&w->p, &event, "taut_task", task);
	add_number(&w->p, &event, "taut_message", message);
	add_number(&w->p, &event, "taut_bytes", 4 * PARAMETERS);
	add_number(&w->p, &event, "taut_start_ns", begin_ns + from);
	add_number(&w->p, &event, "taut_end_ns", begin_ns + to);
	put_in(&w->main, 4, &event);
}

/* The numbers of tasks begin behind some that are not used. */
static void put_gradients(struct writer *w)
{
	for (int64_t task = 0; task < 6; task++) {
		struct bytes event;

		begin_event(&w->p, &event, "taut_gradient", 0, 0);
		add_number(&w->p, &event, "taut_task", task);
		add_number(&w->p, &event, "taut_elements", PARAMETERS);
		add_text(&w->p, &event, "taut_dtype", "float32");
		put_in(&w->main, 4, &event);
	}
}

static void write_rank(const char *path, int rank, bool with_pieces, bool eager,
	struct lost lost)
{
	struct writer w = { .rank = rank, .lost = lost };
	struct bytes space = { .len = 0 }, event;
	FILE *out = fopen(path, "wb");

	assert_non_null(out);
	w.computes = eager ? &w.main : &w.executor;
	begin_plane(&w.p, "/host:CPU");
	begin_line(&w.main, 1, "python", begin_ns);
	begin_line(&w.executor, 2, "tf_Compute/2", begin_ns);
	begin_event(&w.p, &event, "taut_job", 0, 0);
	add_number(&w.p, &event, "taut_rank", rank);
	add_number(&w.p, &event, "taut_world_size", 2);
	put_in(&w.main, 4, &event);
	put_gradients(&w);
	for (int step = 0; step < STEPS; step++) {
		int64_t at = (int64_t)step * STEP;

		w.step = step;
		put_step(&w, step);
		if (!with_pieces)
			continue;
		put_piece(&w, 2 * step, 4, at + 21 * MS, at + 51 * MS - 1000);
		put_piece(&w, 2 * step + 1, 5, at + 51 * MS,
			at + 80 * MS - 1000);
	}
	put_in(&w.p.bytes, 3, &w.main);
	put_in(&w.p.bytes, 3, &w.executor);
	end_plane(&w.p, &space);
	assert_int_equal(fwrite(space.at, 1, space.len, out), space.len);
	fclose(out);
}

static void open_job_as(
	struct job *j, bool with_pieces, bool eager, struct lost lost)
{
	const char *folder = j->folder;
	struct taut_error err;

	strcpy(j->folder, "/tmp/exchanged-XXXXXX");
	assert_non_null(mkdtemp(j->folder));
	for (int rank = 0; rank < 2; rank++) {
		snprintf(j->paths[rank], sizeof j->paths[rank],
			"%s/rank%d.xplane.pb", j->folder, rank);
		write_rank(j->paths[rank], rank, with_pieces, eager, lost);
	}
	if (taut_run_open(&folder, 1, NULL, &j->run, &err) ||
		taut_graph_build(j->run, NULL, &j->graph, &err))
		fail_msg("%s", err.message);
}

static void open_job(struct job *j, bool with_pieces)
{
	open_job_as(j, with_pieces, false, (struct lost){ .name = NULL });
}

static void close_job(struct job *j)
{
	taut_graph_destroy(j->graph);
	taut_run_close(j->run);
	for (int rank = 0; rank < 2; rank++)
		unlink(j->paths[rank]);
	rmdir(j->folder);
}

/* Milliseconds of a step with these changes; NULL behind the last. */
static double step_with(const struct job *j, const char *const *changes)
{
	struct taut_prediction *p;
	struct taut_error err;
	size_t n = 0;
	double ms;

	while (changes[n])
		n++;
	if (taut_predict(j->graph, changes, n, NULL, &p, &err))
		fail_msg("%s", err.message);
	ms = (double)p->after_ns / 1e6;
	taut_prediction_destroy(p);
	return ms;
}

#define STEP_WITH(j, ...) step_with(j, (const char *const[]){ __VA_ARGS__, NULL })
#define NEAR(found, ms) do { \
		double found_ = found; \
		if (fabs(found_ - (ms)) > 1.5) \
			fail_msg("%s: %.2f ms, not %.2f", #found, found_, \
				(double)(ms)); \
	} while (0)

/* --- what is known of it ------------------------------------------------------------- */

static void test_messages(void **state)
{
	struct job j;
	uint32_t n = 0;

	(void)state;
	open_job(&j, true);
	assert_int_equal(j.graph->n_collectives, 2 * STEPS);
	for (uint32_t i = 0; i < j.graph->n_collectives; i++) {
		const struct taut_collective *c = &j.graph->collectives[i];

		assert_int_equal(c->kind, TAUT_COLL_ALLREDUCE);
		assert_int_equal(c->n_members, 2);
		assert_int_equal(c->bytes, 4 * PARAMETERS);
		n += c->seq >= 0 && c->seq < 2 * STEPS;
	}
	assert_int_equal(n, 2 * STEPS);
	NEAR(STEP_WITH(&j, "link=1x"), 100);
	/* 1 begins when it is ready, at 41, and no more behind the other one. */
	NEAR(STEP_WITH(&j, "link=2x"), 76);
	/* Behind each other: 21 to 81 to 139, in the place of 80. */
	NEAR(STEP_WITH(&j, "link=0.5x"), 159);
	close_job(&j);
}

static void test_job(void **state)
{
	struct taut_arena *arena = taut_arena_create();
	struct taut_plan_job job;
	struct taut_error err;
	struct job j;

	(void)state;
	open_job(&j, true);
	assert_int_equal(taut_plan_job_of(j.graph, arena, &job, &err), TAUT_OK);
	assert_string_equal(job.framework, "tensorflow");
	assert_int_equal(job.n_ranks, 2);
	assert_int_equal(job.n_gradients, 2);
	assert_int_equal(job.gradient_bytes[0], 4 * PARAMETERS);
	close_job(&j);
	taut_arena_destroy(arena);
}

/* A recording of before the recorder told of pieces. */
static void test_without_pieces(void **state)
{
	const char *const bucket[] = { "bucket=4MiB" };
	struct taut_prediction *p;
	struct taut_error err;
	struct job j;

	(void)state;
	open_job(&j, false);
	assert_int_equal(j.graph->n_collectives, 0);
	assert_int_equal(taut_predict(j.graph, bucket, 1, NULL, &p, &err),
		TAUT_EINVAL);
	assert_string_equal(err.message, "bucket: no all-reduces of gradients "
		"were found in this recording, which does not tell what was "
		"sent (taut_piece)");
	close_job(&j);
}

/* --- what the profiler lost ---------------------------------------------------------- */

/* Is the line among what a plan says, behind these names? And nothing is decided. */
static void expect_plan_note(const struct job *j, const char *line)
{
	const struct taut_plan_options options = { .budget_s = 0.05,
		.allow = TAUT_NUMERICS_LOSSY, .threads = 1 };
	static const char names[] = "bucket, compress, algorithm, schedule: ";
	struct taut_planned *planned;
	struct taut_error err;
	bool found = false;

	if (taut_plan_search(j->graph, &options, &planned, &err))
		fail_msg("%s", err.message);
	for (uint32_t i = 0; i < planned->n_notes; i++)
		found |= !strncmp(planned->notes[i], names, sizeof names - 1) &&
			!strcmp(planned->notes[i] + sizeof names - 1, line);
	if (!found)
		fail_msg("no note '%s'", line);
	assert_int_equal(planned->plan->job.n_gradients, 0);
	taut_planned_destroy(planned);
}

static void expect_lost(struct lost lost, const char *line)
{
	const char *const bucket[] = { "bucket=4MiB" };
	struct taut_prediction *p;
	struct taut_error err;
	struct job j;

	open_job_as(&j, true, false, lost);
	assert_int_equal(taut_predict(j.graph, bucket, 1, NULL, &p, &err),
		TAUT_EINVAL);
	assert_string_equal(err.message, line);
	expect_plan_note(&j, line);
	close_job(&j);
}

#define LOST ": an event that was lost, or not the same gradients in each step"

static void test_lost(void **state)
{
	(void)state;
	expect_lost((struct lost){ "taut_sync_ready", 1, 2, 5 }, "step 2 of rank "
		"1 has no taut_sync_ready of gradient 5, as step 0 of rank 0 has"
		LOST);
	/* the step that the others are compared with */
	expect_lost((struct lost){ "taut_sync_ready", 0, 0, 4 }, "step 0 of rank "
		"0 has no taut_sync_ready of gradient 4, as step 1 of rank 0 has"
		LOST);
	expect_lost((struct lost){ "taut_sync_wait", 0, 3, 4 }, "step 3 of rank "
		"0 has no taut_sync_wait of gradient 4, as step 0 of rank 0 has"
		LOST ", or updates that cross its end");
	/* all that one rank has */
	expect_lost((struct lost){ "taut_sync_ready", 1, -1, 0 }, "the recording "
		"of rank 1 has no taut_sync_ready, as that of rank 0 has: nothing "
		"tells when it hands its gradients over");
}

/* --- what is decided of it ----------------------------------------------------------- */

static struct taut_planned *plan_of(
	const struct job *j, const char *without, const char *given)
{
	const struct taut_plan_options options = { .budget_s = 0.2,
		.allow = TAUT_NUMERICS_LOSSY, .threads = 1,
		.not_these = &without, .n_not_these = without != NULL,
		.given = &given, .n_given = given != NULL };
	struct taut_planned *planned;
	struct taut_error err;

	if (taut_plan_search(j->graph, &options, &planned, &err))
		fail_msg("without %s, given %s: %s", without ? without : "-",
			given ? given : "-", err.message);
	return planned;
}

/* All of the exchange goes with schedule=, and that with bucket= in the plan. */
static void test_decided(void **state)
{
	static const char note[] = "compress, algorithm, schedule: a plan says bucket= "
		"beside them, which is given";
	static const char *const rows[][2] = { { NULL, NULL }, { "bucket", NULL },
		{ "schedule", NULL }, { NULL, "bucket=500KB" } };
	struct job j;

	(void)state;
	open_job(&j, true);
	for (size_t i = 0; i < 4; i++) {
		struct taut_planned *p = plan_of(&j, rows[i][0], rows[i][1]);
		bool noted = false;

		assert_int_equal(p->plan->n_decisions > 1, i < 2);
		assert_int_equal(p->plan->n_decisions > 0, i < 2);
		for (uint32_t k = 0; k < p->n_notes; k++)
			noted |= !strcmp(p->notes[k], note);
		assert_int_equal(noted, i == 3);
		taut_planned_destroy(p);
	}
	close_job(&j);
}

/* --- other settings ------------------------------------------------------------------ */

#define WHOLE "schedule=fifo,order=agreed,partition=8MB,credit=8MB,message=0us"

static void test_settings(void **state)
{
	struct job j;

	(void)state;
	open_job(&j, true);
	/* Each as it is ready: as recorded. */
	NEAR(STEP_WITH(&j, WHOLE), 100);
	NEAR(STEP_WITH(&j, "bucket=500KB", WHOLE), 100);
	/* Both in one: from 41, where the second is ready, for as long as both. */
	NEAR(STEP_WITH(&j, "bucket=8MB", WHOLE), 120);
	/* Halves: 21 to 36, and 41 to 55.5, which is 24.5 before 80. */
	NEAR(STEP_WITH(&j, "bucket=500KB", "compress=fp16,by=taut,cast=100000",
		WHOLE), 76);
	/* Pieces that nothing overtakes change nothing. */
	NEAR(STEP_WITH(&j, "bucket=500KB", "schedule=fifo,order=agreed,"
		"partition=250KB,credit=500KB,message=0us"), 100);
	close_job(&j);
}

/* Steps of rank 0 in which a transfer begins while another one is under way. */
static uint32_t side_by_side(const struct job *j, const char *schedule)
{
	const char *const changes[] = { "bucket=500KB", schedule };
	struct taut_prediction *p;
	struct taut_error err;
	const struct taut_graph *g;
	uint32_t n = 0;

	if (taut_predict(j->graph, changes, 2, NULL, &p, &err))
		fail_msg("%s", err.message);
	g = p->graph;
	for (uint32_t a = 0; a < g->n_ops; a++)
		for (uint32_t b = 0; b < g->n_ops; b++)
			n += a != b && g->kind[a] == TAUT_OP_TRANSFER &&
				g->kind[b] == TAUT_OP_TRANSFER &&
				!g->lanes[g->lane[a]].trace &&
				!g->lanes[g->lane[b]].trace &&
				g->start_ns[b] >= g->start_ns[a] &&
				g->start_ns[b] + MS < g->start_ns[a] +
				g->dur_ns[a];
	taut_prediction_destroy(p);
	return n;
}

/* A piece begins while less than the credit is under way, however large pieces may be: the
 * second of 1 MB at 41, when the first takes until 51. */
static void test_credit_alone_limits(void **state)
{
	struct job j;

	(void)state;
	open_job(&j, true);
	assert_int_equal(STEPS, side_by_side(&j,
		"schedule=fifo,partition=8MB,credit=8MB"));
	assert_int_equal(STEPS, side_by_side(&j,
		"schedule=fifo,partition=2MB,credit=1100KB"));
	assert_int_equal(0, side_by_side(&j,
		"schedule=fifo,partition=2MB,credit=1MB"));
	close_job(&j);
}

/* The backward pass again, in 39, before what hands gradients over; all in one are ready
 * at 80, and take as long as both. */
static void test_repeated_passes(void **state)
{
	struct job j;

	(void)state;
	open_job_as(&j, true, true, (struct lost){ .name = NULL });
	NEAR(STEP_WITH(&j, "link=1x"), 100);
	NEAR(STEP_WITH(&j, "accumulate=2"), 139);
	NEAR(STEP_WITH(&j, "accumulate=2", WHOLE), 138);
	NEAR(STEP_WITH(&j, "accumulate=2", "bucket=8MB", WHOLE), 158);
	close_job(&j);
}

static void test_no_memory(void **state)
{
	const char *const changes[] = { "bucket=8MB", WHOLE };
	struct taut_whatif_options options = { .threads = 1, .no_graph = 1 };
	struct taut_prediction *p = NULL;
	taut_status status = TAUT_ENOMEM;
	struct job j;

	(void)state;
	open_job(&j, true);
	for (long n = 0; status; n += 1 + n / 50) {
		alloc_fail_after(n);
		status = taut_predict(j.graph, changes, 2, &options, &p, NULL);
		alloc_fail_never();
		if (status)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	taut_prediction_destroy(p);
	close_job(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_job),
		cmocka_unit_test(test_without_pieces),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_decided),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_credit_alone_limits),
		cmocka_unit_test(test_repeated_passes),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
