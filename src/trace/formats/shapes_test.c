/* Traces by hand: a rank's folder with the trace of two steps and that of the
 * one that was recorded with shapes. */
#include "trace/test_support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/alloc_fail.h"

/* An event of the trace at ts, of tid; more: its args, or nothing. */
#define EVENT(cat, name, tid, ts, dur, more) \
	"{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":9," \
	"\"tid\":" #tid ",\"ts\":" #ts ",\"dur\":" #dur ",\"args\":{" more "}}"
#define OP(name, tid, ts, more) EVENT("cpu_op", name, tid, ts, 5, more)
#define STEP(n, ts) \
	EVENT("user_annotation", "ProfilerStep#" #n, 1, ts, 100, "")
#define GLOO(tid, ts, more) \
	EVENT("user_annotation", "gloo:all_reduce", tid, ts, 20, more)
#define SHAPE(dims) \
	"\"Input Dims\":[" dims "],\"Input type\":[\"float\",\"float\"]"
#define SUM "torch::autograd::AccumulateGrad"

#define EVENTS(events) "\"traceEvents\":[" events "]}"
#define TRACE(events) "{" EVENTS(events)
#define SHAPES(events) "{\"tautShapes\":1,\n" EVENTS(events)

struct folder {
	char path[32], rank[48], trace[80], shapes[80];
};

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void setup(struct folder *f, const char *trace, const char *shapes)
{
	strcpy(f->path, "/tmp/taut-shapes-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	snprintf(f->rank, sizeof f->rank, "%s/rank0", f->path);
	snprintf(f->trace, sizeof f->trace, "%s/torch.json", f->rank);
	snprintf(f->shapes, sizeof f->shapes, "%s/a.shapes.json", f->rank);
	assert_int_equal(mkdir(f->rank, 0700), 0);
	put(f->trace, trace);
	put(f->shapes, shapes);
}

static void cleanup(const struct folder *f)
{
	remove(f->trace);
	remove(f->shapes);
	remove(f->rank);
	remove(f->path);
}

static taut_status try_folder(
	const struct folder *f, struct taut_run **ret_run)
{
	const char *path = f->path;
	const struct taut_run_options options = { .threads = 1 };
	struct taut_error err;
	return taut_run_open(&path, 1, &options, ret_run, &err);
}

static struct taut_run *open_both(const char *trace, const char *shapes)
{
	struct folder f;
	struct taut_run *run = NULL;
	setup(&f, trace, shapes);
	assert_int_equal(try_folder(&f, &run), TAUT_OK);
	cleanup(&f);
	assert_int_equal(run->n_traces, 1);
	return run;
}

/* The sizes of the nth event of that name, by lane and time. */
static const char *sizes(const struct taut_run *run, const char *name, int n)
{
	const struct taut_trace *t = run->traces;
	for (size_t i = 0; i < t->n_events; i++)
		if (!strcmp(taut_trace_name(t, i), name) && n-- == 0)
			return taut_names_text(t->names, t->sizes[i]);
	fail_msg("no %s", name);
	return NULL;
}

static void check_note(const struct taut_run *run, const char *part)
{
	for (uint32_t i = 0; i < run->n_notes; i++)
		if (strstr(run->notes[i], part))
			return;
	fail_msg("no note: %s", part);
}

#define TWO_STEPS \
	STEP(4, 1000) "," OP("mm", 1, 1010, "") "," OP("mm", 1, 1020, "") "," \
	OP(SUM, 1, 1030, "") "," OP("mm", 2, 1012, "") "," \
	STEP(5, 2000) "," OP("mm", 1, 2010, "") "," OP("mm", 1, 2020, "") "," \
	OP(SUM, 1, 2030, "") "," OP("mm", 2, 2012, "")
#define ONE_STEP \
	OP("add", 1, 490, SHAPE("[6]")) "," STEP(2, 500) "," \
	OP("mm", 1, 520, SHAPE("[3,4]")) "," \
	OP("mm", 1, 510, SHAPE("[1,2]")) "," \
	OP(SUM, 1, 530, SHAPE("[7]")) "," OP("mm", 2, 512, SHAPE("[5]"))

/* That a batch normalization is frozen stands beside its shapes. */
static void test_frozen(void **state)
{
#define NORM(training) "\"Concrete Inputs\":[\"\",\"\",\"\",\"\",\"\",\"" \
	training "\",\"0.1\"]"
	static const char bn[] = "aten::batch_norm";
	struct taut_run *run = open_both(
		TRACE(STEP(4, 1000) "," OP("aten::batch_norm", 1, 1010, "") ","
			OP("aten::batch_norm", 1, 1020, "")),
		SHAPES(STEP(2, 500) "," OP("aten::batch_norm", 1, 510,
			NORM("True")) "," OP("aten::batch_norm", 1, 520,
			NORM("False"))));
	const struct taut_trace *t = run->traces;
	int n = 0;

	(void)state;
	for (size_t i = 0; i < t->n_events; i++)
		if (!strcmp(taut_trace_name(t, i), bn))
			assert_int_equal(t->flags[i] & TAUT_EVENT_FROZEN,
				n++ == 1 ? TAUT_EVENT_FROZEN : 0);
	assert_int_equal(n, 2);
	taut_run_close(run);
#undef NORM
}

/* By thread and time, whatever the order in the file; the events of the step
 * with shapes are not there. */
static void test_equal_steps(void **state)
{
	(void)state;
	struct taut_run *run = open_both(TRACE(TWO_STEPS), SHAPES(ONE_STEP));
	const struct taut_trace *t = run->traces;
	assert_int_equal(run->n_notes, 0);
	assert_int_equal(t->n_events, 10);
	assert_int_equal(t->events_seen, 10);
	assert_string_equal(t->format, "kineto");
	assert_non_null(strstr(t->path, "torch.json"));
	for (int step = 0; step < 2; step++) {
		assert_string_equal(sizes(run, "mm", 2 * step), "[[1,2]]");
		assert_string_equal(sizes(run, "mm", 2 * step + 1), "[[3,4]]");
		assert_string_equal(sizes(run, "mm", 4 + step), "[[5]]");
		assert_string_equal(sizes(run, SUM, step), "[[7]]");
	}
	assert_int_equal(t->n_tensors, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(t->tensors[i].bytes, 28);
		assert_string_equal(
			taut_trace_name(t, t->tensors[i].event), SUM);
		assert_ptr_equal(
			taut_trace_tensor(t, t->tensors[i].event),
			&t->tensors[i]);
	}
	taut_run_close(run);
}

/* Without the file all is as it was. */
static void test_without(void **state)
{
	(void)state;
	struct taut_run *run = open_text(TRACE(TWO_STEPS));
	assert_int_equal(run->traces->n_events, 10);
	assert_string_equal(sizes(run, "mm", 0), "");
	assert_int_equal(run->traces->n_tensors, 0);
	taut_run_close(run);
}

/* One step has an operator more, between others. */
static void test_one_differs(void **state)
{
	(void)state;
	struct taut_run *run = open_both(
		TRACE(STEP(4, 1000) "," OP("mm", 1, 1010, "") ","
			OP("relu", 1, 1015, "") "," OP("mm", 1, 1020, "") ","
			OP(SUM, 1, 1030, "")),
		SHAPES(ONE_STEP));
	assert_string_equal(sizes(run, "mm", 0), "[[1,2]]");
	assert_string_equal(sizes(run, "relu", 0), "");
	assert_string_equal(sizes(run, "mm", 1), "[[3,4]]");
	assert_string_equal(sizes(run, SUM, 0), "[[7]]");
	check_note(run, "torch.json: the sizes of 1 of 4 operators");
	taut_run_close(run);
}

/* Another thread ran them, and one that was there before runs less: only the
 * beginning is sure. */
static void test_other_threads(void **state)
{
	(void)state;
	struct taut_run *run = open_both(
		TRACE(STEP(4, 1000) "," OP("mm", 1, 1010, "") ","
			OP("mm", 3, 1012, "") "," OP("mm", 3, 1020, "")),
		SHAPES(ONE_STEP));
	assert_string_equal(sizes(run, "mm", 0), "[[1,2]]");
	assert_string_equal(sizes(run, "mm", 1), "");
	assert_string_equal(sizes(run, "mm", 2), "");
	check_note(run, "the sizes of 2 of 3 operators");
	taut_run_close(run);
}

/* Not inside of a step, or under no name that is known. */
static void test_nothing_fits(void **state)
{
	(void)state;
	struct taut_run *run = open_both(
		TRACE(OP("mm", 1, 990, "") "," STEP(4, 1000) ","
			OP("sin", 1, 1010, "") "," OP("cos", 1, 1100, "")),
		SHAPES(ONE_STEP));
	assert_string_equal(sizes(run, "mm", 0), "");
	assert_string_equal(sizes(run, "sin", 0), "");
	assert_string_equal(sizes(run, "cos", 0), "");
	check_note(run, "the sizes of 1 of 1 operators");
	taut_run_close(run);
}

/* The second of a backend's threads took the first one. What the trace says
 * itself stays, and numbers are its own. */
static void test_collectives(void **state)
{
	(void)state;
	struct taut_run *run = open_both(
		TRACE(STEP(4, 1000) "," OP("c10d::allreduce_", 1, 1010, "") ","
			GLOO(22, 1011, "") ","
			OP("c10d::allreduce_", 1, 1020,
				"\"In msg nelems\":8,\"Seq\":6") ","
			GLOO(21, 1021, "")),
		SHAPES(STEP(2, 500) "," GLOO(21, 511, SHAPE("[50,2]")) ","
			OP("c10d::allreduce_", 1, 510,
				"\"Seq\":2," SHAPE("[[100]]")) ","
			GLOO(22, 521, SHAPE("[7]")) ","
			OP("c10d::allreduce_", 1, 520,
				"\"Seq\":3," SHAPE("[[7]]"))));
	const struct taut_trace *t = run->traces;
	static const struct {
		int64_t tid, elements, seq;
	} expected[] = { { 1, 100, -1 }, { 1, 8, 6 }, { 21, 7, -1 },
		{ 22, 100, -1 } };
	assert_int_equal(run->n_notes, 0);
	assert_int_equal(t->n_comms, 4);
	for (size_t i = 0; i < 4; i++) {
		const struct taut_comm_args *comm = &t->comms[i];
		assert_int_equal(t->lanes[t->lane[comm->event]].tid,
			expected[i].tid);
		assert_int_equal(comm->in_elements, expected[i].elements);
		assert_int_equal(comm->seq, expected[i].seq);
		assert_string_equal(
			taut_names_text(t->names, comm->dtype), "Float");
	}
	taut_run_close(run);
}

/* In the step with shapes the second overtook the first, and threads of a
 * backend copy. */
static void test_overtaken(void **state)
{
	(void)state;
	struct taut_run *run = open_both(
		TRACE(STEP(4, 1000) "," OP("c10d::allreduce_", 1, 1010, "") ","
			OP("c10d::allreduce_", 1, 1015, "") ","
			GLOO(22, 1021, "") "," OP("copy", 22, 1023, "") ","
			GLOO(21, 1022, "")),
		SHAPES(STEP(2, 500) "," GLOO(21, 524, SHAPE("[7]")) ","
			OP("copy", 21, 526, SHAPE("[1]")) ","
			GLOO(22, 525, SHAPE("[9]")) ","
			OP("c10d::allreduce_", 1, 510, SHAPE("[[9]]")) ","
			OP("c10d::allreduce_", 1, 520, SHAPE("[[7]]"))));
	assert_int_equal(run->n_notes, 0);
	assert_string_equal(sizes(run, "c10d::allreduce_", 0), "[[[9]]]");
	assert_string_equal(sizes(run, "c10d::allreduce_", 1), "[[[7]]]");
	const struct taut_trace *t = run->traces;
	assert_int_equal(t->n_comms, 4);
	assert_int_equal(t->comms[2].in_elements, 7); /* of thread 21 */
	assert_int_equal(t->comms[3].in_elements, 9);
	assert_string_equal(sizes(run, "copy", 0), "");
	taut_run_close(run);
}

static void check_passed_over(const char *shapes, const char *part)
{
	struct taut_run *run = open_both(TRACE(TWO_STEPS), shapes);
	assert_int_equal(run->traces->n_events, 10);
	assert_int_equal(run->traces->truncated, 0);
	assert_string_equal(sizes(run, "mm", 0), "");
	check_note(run, part);
	taut_run_close(run);
}

/* Nothing but sizes is lost, and it is said. */
static void test_broken_shapes(void **state)
{
	(void)state;
	static const char line[] = "a.shapes.json";
	check_passed_over(SHAPES(ONE_STEP ",{\"ph\":\"X\","), "is not whole");
	check_passed_over(SHAPES(ONE_STEP ",{\"ph\":8 7}"), "is not whole");
	check_passed_over("{\"tautShapes\":1,\"traceEvents\":[", line);
	check_passed_over("{\"tautShapes\":1,]", "tensors are not known");
	check_passed_over("{\"tautShapes\":1}", line);
	check_passed_over("", line);
	check_passed_over("\x1f\x8b\x08 no gzip", line);
	check_passed_over(SHAPES(ONE_STEP "," STEP(3, 600)), "8 of 8");
}

/* Alone it is no trace. */
static void test_alone(void **state)
{
	(void)state;
	struct folder f;
	struct taut_run *run = NULL;
	assert_non_null(strstr(refusal(SHAPES(ONE_STEP)), "give the folder"));
	setup(&f, "", SHAPES(ONE_STEP));
	assert_int_equal(remove(f.trace), 0);
	assert_int_equal(try_folder(&f, &run), TAUT_EFORMAT);
	cleanup(&f);
}

static void test_no_memory(void **state)
{
	(void)state;
	struct folder f;
	struct taut_run *run = NULL;
	taut_status status = TAUT_ENOMEM;
	long n = 0;
	setup(&f, TRACE(TWO_STEPS), SHAPES(ONE_STEP "," GLOO(1, 540, "")));
	for (; status != TAUT_OK; n++) {
		alloc_fail_after(n);
		status = try_folder(&f, &run);
		alloc_fail_never();
		if (status != TAUT_OK)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_true(n > 30);
	assert_int_equal(run->traces->n_tensors, 2);
	taut_run_close(run);
	cleanup(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_steps),
		cmocka_unit_test(test_frozen),
		cmocka_unit_test(test_without),
		cmocka_unit_test(test_one_differs),
		cmocka_unit_test(test_other_threads),
		cmocka_unit_test(test_nothing_fits),
		cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_overtaken),
		cmocka_unit_test(test_broken_shapes),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
