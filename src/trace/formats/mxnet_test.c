/* Dumps of MXNet's profiler, from small texts worked out by hand. */
#include "trace/test_support.h"

#include "tests/support/alloc_fail.h"

#define HEAD \
	"{\n    \"traceEvents\": [\n        {\n            \"ph\": \"M\",\n" \
	"            \"args\": {\n                \"name\": \"cpu/0\"\n" \
	"            },\n            \"pid\": 0,\n" \
	"            \"name\": \"process_name\"\n        }"
#define TAIL "\n    ],\n    \"displayTimeUnit\": \"ms\"\n}\n"
#define EV(ph, cat, name, ts, pid, tid) \
	",\n{\"name\": \"" name "\", \"cat\": \"" cat "\", \"ph\": \"" ph \
	"\", \"ts\": 17952735139" ts ", \"pid\": " pid ", \"tid\": " tid "}"

#define ENGINE "14372129101765039446" /* beyond 2^63 */
#define ENGINE2 "14372129101765039447" /* the same as a double */
#define MAIN "8836508868894080076"

#define OP(name, from, to, device, tid) \
	EV("B", "operator", name, from, device, tid) \
	EV("E", "operator", name, to, device, tid)
/* What MXNet writes of each operator once more. */
#define AGAIN(name, from, to, tid) \
	EV("b", "operator", name, from, "3060606181218273969", tid) \
	EV("e", "operator", name, to, "3060606181218273969", tid)
#define CALL(name, from, to) \
	EV("b", "MXNET_C_API", name, from, "849786139768988538", MAIN) \
	EV("e", "MXNET_C_API", name, to, "849786139768988538", MAIN) \
	EV("C", "MXNET_C_API", "MXNet C API Calls", to, "849", MAIN)
#define THREAD \
	EV("n", "taut,instant_marker", "thread 70 71", "17000", "10399", MAIN)
#define STEP(number, from, to) \
	EV("b", "taut", "step#" number, from, "649486746830639209", MAIN) \
	EV("e", "taut", "step#" number, to, "649486746830639209", MAIN)
#define READY(key, seq, at) \
	OP("taut.ready|" key "|" seq "|4096|float32", at, at, "0", ENGINE2)
#define DONE(key, seq, at) \
	OP("taut.done|" key "|" seq "|", at, at, "0", ENGINE2)

static const struct taut_trace *first(const struct taut_run *run)
{
	assert_int_equal(run->n_traces, 1);
	assert_string_equal(run->traces[0].format, "mxnet");
	return &run->traces[0];
}

static size_t row_of(const struct taut_trace *t, const char *name)
{
	for (size_t i = 0; i < t->n_events; i++)
		if (strcmp(taut_trace_name(t, i), name) == 0)
			return i;
	fail_msg("no event is called %s", name);
	return 0;
}

static const char *text_of(const struct taut_trace *t, uint32_t id)
{
	return taut_names_text(t->names, id);
}

/* Microseconds of the clock's last five digits. */
static void check_span(const struct taut_trace *t, size_t i, int64_t from_us,
	int64_t to_us)
{
	assert_int_equal(t->base_ns + t->start_ns[i],
		1795273513900000 * 1000 + from_us * 1000);
	assert_int_equal(t->dur_ns[i], (to_us - from_us) * 1000);
}

static void test_engine_and_calls(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		OP("FullyConnected", "17200", "17300", "0", ENGINE)
		AGAIN("FullyConnected", "17200", "17300", ENGINE)
		OP("CopyCPU2CPU", "17310", "17320", "4", ENGINE)
		OP("mean", "17250", "17260", "0", ENGINE2)
		OP("before", "17050", "17160", "1", ENGINE)
		CALL("MXInvokeCachedOp", "17150", "17180")
		CALL("MXNDArrayGetShapeEx", "17190", "17191") TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_events, 6);
	assert_int_equal(t->n_lanes, 5);
	assert_int_equal(t->correlation[row_of(t, "before")], 0);
	assert_int_equal(
		t->correlation[row_of(t, "MXNDArrayGetShapeEx")], 0);
	size_t i = row_of(t, "FullyConnected");
	check_span(t, i, 17200, 17300);
	assert_int_equal(t->kind[i], TAUT_KIND_KERNEL);
	assert_int_equal(t->lanes[t->lane[i]].kind, TAUT_LANE_STREAM);
	assert_int_equal(t->lanes[t->lane[i]].pid, 0);
	size_t copy = row_of(t, "CopyCPU2CPU");
	assert_int_equal(t->kind[copy], TAUT_KIND_MEMCPY);
	assert_int_equal(t->lanes[t->lane[copy]].pid, 4);
	/* the hash is not rounded: another thread, another stream */
	assert_int_not_equal(t->lane[row_of(t, "mean")], t->lane[i]);
	size_t call = row_of(t, "MXInvokeCachedOp");
	check_span(t, call, 17150, 17180);
	assert_int_equal(t->kind[call], TAUT_KIND_RUNTIME);
	assert_int_equal(t->lanes[t->lane[call]].kind, TAUT_LANE_THREAD);
	/* it is the last call that began before each of them */
	assert_int_equal(t->correlation[call], 1);
	assert_int_equal(t->correlation[i], 1);
	assert_int_equal(t->correlation[copy], 1);
	assert_int_equal(run->n_notes, 0);
	taut_run_close(run);
}

/* The recorder's marks: steps, and the thread as the system numbers it. */
static void test_steps(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD STEP("3", "17100", "17900")
		CALL("MXInvokeCachedOp", "17150", "17180") THREAD TAIL);
	const struct taut_trace *t = first(run);
	size_t step = row_of(t, "step#3");
	check_span(t, step, 17100, 17900);
	assert_int_equal(t->kind[step], TAUT_KIND_STEP);
	assert_int_equal(t->sequence[step], 4);
	assert_int_equal(t->n_lanes, 1);
	assert_int_equal(t->lanes[0].pid, 70);
	assert_int_equal(t->lanes[0].tid, 71);
	taut_run_close(run);
}

#define KV(from, to) \
	OP("KVStoreDistDefaultStoragePushPull", from, to, "4", ENGINE)
/* Key b gets ready first, though a has the lower number. */
#define EXCHANGES \
	READY("b", "7", "17310") KV("17315", "17700") KV("17335", "17600") \
	READY("a", "7", "17330") DONE("a", "7", "17650") \
	DONE("b", "7", "17750") READY("c", "7", "17800")

static void test_exchanges(void **state)
{
	(void)state;
	struct taut_run *run =
		open_text(HEAD STEP("3", "17100", "17900") EXCHANGES TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_comms, 2); /* c was cut */
	size_t a = row_of(t, "pushpull a"), b = row_of(t, "pushpull b");
	check_span(t, b, 17315, 17700);
	check_span(t, a, 17335, 17600);
	assert_int_equal(t->kind[a], TAUT_KIND_COMM);
	assert_int_not_equal(t->lane[a], t->lane[b]);
	const struct taut_comm_args *args = taut_trace_comm(t, a);
	assert_string_equal(text_of(t, args->collective), "pushpull");
	assert_string_equal(text_of(t, args->group_name), "kvstore a");
	assert_string_equal(text_of(t, args->dtype), "float32");
	assert_int_equal(args->in_elements, 4096);
	assert_int_equal(args->seq, 7);
	taut_run_close(run);
}

/* A profile that the job made itself has no keys. */
static void test_exchanges_without_marks(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD KV("17315", "17700")
		KV("17335", "17600") TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_comms, 0);
	assert_int_equal(t->n_events, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(t->kind[i], TAUT_KIND_COMM);
	assert_int_equal(t->n_lanes, 2);
	taut_run_close(run);
}

/* What a process dumps second has no names of devices and begins with a
 * comma; with continuous dumps the file is not closed. */
static void test_other_beginnings_and_ends(void **state)
{
	(void)state;
	struct taut_run *run = open_text("{\n    \"traceEvents\": [\n"
		OP("dot", "17200", "17300", "0", ENGINE) TAIL);
	assert_int_equal(first(run)->n_events, 1);
	assert_int_equal(run->n_notes, 0);
	taut_run_close(run);
	run = open_text(HEAD OP("dot", "17200", "17300", "0", ENGINE)
		EV("B", "operator", "late", "17400", "0", ENGINE));
	const struct taut_trace *t = first(run);
	assert_true(t->truncated);
	assert_int_equal(t->flags[row_of(t, "late")], TAUT_EVENT_CUT);
	assert_int_equal(run->n_notes, 1);
	taut_run_close(run);
}

/* Kineto's files stay Kineto's. */
static void test_is_not_kineto(void **state)
{
	(void)state;
	struct taut_run *run = open_text("{\"traceEvents\":[{\"ph\":\"X\","
		"\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":0,"
		"\"tid\":1,\"ts\":1,\"dur\":1}]}");
	assert_string_equal(run->traces[0].format, "kineto");
	taut_run_close(run);
	assert_string_equal(refusal(HEAD TAIL),
		"t.json: of its 1 events none is of a kind that a trace of "
		"MXNet's profiler has");
}

static void test_no_memory(void **state)
{
	(void)state;
	static const char text[] = HEAD THREAD STEP("3", "17100", "17900")
		OP("dot", "17200", "17300", "0", ENGINE) EXCHANGES
			CALL("MXInvokeCachedOp", "17150", "17180") TAIL;
	struct taut_run *run = NULL;
	taut_status status = TAUT_ENOMEM;
	for (int n = 0; status == TAUT_ENOMEM; n++) {
		alloc_fail_after(n);
		status = taut_run_open_memory(
			"t.json", text, strlen(text), -1, &run, NULL);
		alloc_fail_never();
	}
	assert_int_equal(status, TAUT_OK);
	taut_run_close(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_engine_and_calls),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_exchanges),
		cmocka_unit_test(test_exchanges_without_marks),
		cmocka_unit_test(test_other_beginnings_and_ends),
		cmocka_unit_test(test_is_not_kineto),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
