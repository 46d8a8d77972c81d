/* TensorFlow's trace.json: small texts worked out by hand, and real profiles,
 * which must be the same in this form as in that of XPlane. */
#include "trace/test_support.h"

#include <stdbool.h>

#include "tests/support/alloc_fail.h"

#define HEAD \
	"{\"displayTimeUnit\":\"ns\",\"metadata\":{\"highres-ticks\":true}," \
	"\n\"traceEvents\":[\n"
#define NAME(pid, name) \
	"{\"ph\":\"M\",\"pid\":" pid ",\"name\":\"process_name\"," \
	"\"args\":{\"name\":\"" name "\"}},\n"
#define LINE(pid, tid, name) \
	"{\"ph\":\"M\",\"pid\":" pid ",\"tid\":" tid \
	",\"name\":\"thread_name\",\"args\":{\"name\":\"" name "\"}},\n"
#define X(pid, tid, ts, dur, name, args) \
	"{\"ph\":\"X\",\"pid\":" pid ",\"tid\":" tid ",\"ts\":" ts \
	",\"dur\":" dur ",\"name\":\"" name "\",\"args\":{" args "}},\n"
#define TAIL "{}]}\n"
#define HOST NAME("701", "/host:CPU") LINE("701", "7", "python")

static const struct taut_trace *first(const struct taut_run *run)
{
	assert_int_equal(run->n_traces, 1);
	assert_string_equal(run->traces[0].format, "tftrace");
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

static void check(const struct taut_trace *t, const char *name,
	enum taut_kind kind, int64_t start_ns, int64_t dur_ns)
{
	size_t i = row_of(t, name);
	assert_int_equal(t->kind[i], kind);
	assert_int_equal(t->base_ns + t->start_ns[i], start_ns);
	assert_int_equal(t->dur_ns[i], dur_ns);
}

static void test_jax(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD HOST
		X("701", "7", "10", "5", "PjitFunction(step)", "") TAIL);

	assert_string_equal(
		taut_trace_fact(first(run), "framework"), "jax");
	taut_run_close(run);
}

static void test_host(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD HOST
		X("701", "7", "10.5", "99.25", "train 3",
			"\"step_num\":\"3\",\"step_name\":\"train 3\"")
		X("701", "7", "11", "2", "MatMul",
			"\"long_name\":\"a\\/b\\u00e9:MatMul\"")
		X("701", "7", "14", "1", "cuLaunch", "\"correlation_id\":\"5\"")
		X("701", "7", "16", "1", "Iterator::Batch 12", "")
		X("701", "7", "17", "1", "IteratorGetNextOp::DoCompute", "")
		X("701", "7", "18", "1", "ThreadpoolListener::Region", "")
		"{\"ph\":\"i\",\"s\":\"t\",\"pid\":701,\"tid\":7,"
		"\"ts\":19,\"name\":\"now\"},\n"
		X("9", "7", "18", "1", "of no process", "") TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_events, 6);
	assert_int_equal(t->n_lanes, 1);
	assert_int_equal(t->events_lost, 0);
	assert_int_equal(t->truncated, 0);
	assert_int_equal(run->n_notes, 0);
	assert_string_equal(taut_names_text(t->names, t->lanes[0].name),
		"python");
	check(t, "train", TAUT_KIND_STEP, 10500, 99250);
	assert_int_equal(t->sequence[row_of(t, "train")], 4);
	check(t, "a/b\xc3\xa9:MatMul", TAUT_KIND_OP, 11000, 2000);
	check(t, "cuLaunch", TAUT_KIND_RUNTIME, 14000, 1000);
	check(t, "Iterator::Batch 12", TAUT_KIND_ANNOTATION, 16000, 1000);
	check(t, "IteratorGetNextOp::DoCompute", TAUT_KIND_LOAD_WAIT, 17000,
		1000);
	check(t, "now", TAUT_KIND_ANNOTATION, 19000, 0);
	taut_run_close(run);
}

/* Both ends are rounded down, of picoseconds in any notation of a double. */
static void test_times(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD HOST
		X("701", "7", "1.0009", "0.0002", "a", "")
		X("701", "7", "579294.74100000004", "9.9999999999999995e-07",
			"b", "")
		X("701", "7", "579305.93799999997", "1.5e+03", "c", "")
		X("701", "7", "1795277386482485.5", "2.25", "epoch", "")
		X("701", "7", "\"12\"", "1", "text", "")
		X("701", "7", "true", "1", "none", "")
		X("701", "7", "2", "-1", "negative", "") TAIL);
	const struct taut_trace *t = first(run);
	check(t, "a", TAUT_KIND_ANNOTATION, 1000, 1);
	check(t, "b", TAUT_KIND_ANNOTATION, 579294741, 0);
	check(t, "c", TAUT_KIND_ANNOTATION, 579305938, 1500000);
	check(t, "epoch", TAUT_KIND_ANNOTATION, 1795277386482485500, 2250);
	check(t, "text", TAUT_KIND_ANNOTATION, 12000, 1000);
	check(t, "negative", TAUT_KIND_ANNOTATION, 2000, 0);
	assert_int_equal(t->n_events, 6);
	assert_int_equal(t->events_lost, 1);
	assert_int_equal(run->n_notes, 2);
	taut_run_close(run);
}

static void test_device(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		NAME("5", "a-host /device:GPU:4")
		LINE("5", "134", "Stream #134(MemcpyH2D,Compute)")
		LINE("5", "9", "Steps")
		LINE("5", "8", "XLA Ops") HOST
		X("5", "134", "20", "5", "MemcpyH2D",
			"\"correlation_id\":\"7\","
			"\"memcpy_details\":\"kind_src:pageable size:40\"")
		X("5", "134", "26", "5", "gemm", "\"correlation_id\":\"8\"")
		X("5", "8", "26", "5", "fusion", "")
		X("5", "9", "19", "15", "0",
			"\"group_id\":\"1\",\"step_name\":\"0\"")
		X("701", "7", "16", "2", "cuMemcpy",
			"\"correlation_id\":\"7\",\"group_id\":\"1\"") TAIL);
	const struct taut_trace *t = first(run);
	check(t, "gemm", TAUT_KIND_KERNEL, 26000, 5000);
	check(t, "fusion", TAUT_KIND_GPU_RANGE, 26000, 5000);
	check(t, "step", TAUT_KIND_STEP, 16000, 18000);
	size_t i = row_of(t, "MemcpyH2D");
	const struct taut_lane *lane = &t->lanes[t->lane[i]];
	assert_int_equal(t->kind[i], TAUT_KIND_MEMCPY);
	assert_int_equal(lane->kind, TAUT_LANE_STREAM);
	assert_int_equal(lane->pid, 4);
	assert_int_equal(lane->tid, 134);
	assert_int_equal(taut_trace_copy(t, i)->bytes, 40);
	assert_int_equal(
		t->correlation[i], t->correlation[row_of(t, "cuMemcpy")]);
	taut_run_close(run);
}

static void test_is_told_by_its_beginning(void **state)
{
	(void)state;
	struct taut_run *run = open_text("{\"displayTimeUnit\": \"ns\", "
		"\"traceEvents\": [{\"args\": {\"name\": \"/device:GPU:0\"}, "
		"\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 701}, "
		"{\"args\": {\"name\": \"Stream #1\"}, \"name\": "
		"\"thread_name\", \"ph\": \"M\", \"pid\": 701, \"tid\": 1},\n"
		X("701", "1", "1", "1", "a", "") TAIL);
	first(run);
	taut_run_close(run);
	run = open_text("{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\","
			"\"traceEvents\": ["
			"{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\","
			"\"pid\": 1, \"tid\": 1, \"ts\": 1, \"dur\": 2}]}");
	assert_string_equal(run->traces[0].format, "kineto");
	taut_run_close(run);
	assert_string_equal(refusal(HEAD TAIL),
		"t.json: of its 1 events none is of a kind that a trace.json "
		"of TensorFlow or JAX has");
	assert_string_equal(
		refusal("{\"displayTimeUnit\":\"ns\",\"metadata\":"
			"{\"highres-ticks\":true}, \"codeLink\":\"\","
			"\"returnedEventsSize\":1,\"traceEvents\":[" HOST
			X("701", "7", "1", "1", "a", "") TAIL),
		"t.json: is what TensorBoard's page asks for, a part of a "
		"profile; give the .xplane.pb that it is of");
	assert_string_equal(refusal(HEAD),
		"t.json: ends at byte 75, before its first whole event; "
		"expected a trace.json of TensorFlow or JAX");
}

static void test_cut_anywhere(void **state)
{
	(void)state;
	static const char text[] = HEAD HOST
		X("701", "7", "1", "1", "a", "\"group_id\":\"1\"")
		X("701", "7", "2", "1", "b", "\"group_id\":\"1\"") TAIL;
	const char *a = strstr(text, ",\n{\"ph\":\"X\",\"pid\":701,\"tid\":7,"
				     "\"ts\":2");
	for (size_t len = 60; len + 3 < sizeof text; len++) {
		struct taut_run *run = NULL;
		taut_status status = taut_run_open_memory(
			"t.json", text, len, -1, &run, NULL);
		assert_int_equal(status,
			text + len < a ? TAUT_EFORMAT : TAUT_OK);
		if (status != TAUT_OK)
			continue;
		assert_int_equal(run->traces[0].truncated, 1);
		assert_in_range(run->traces[0].n_events, 1, 2);
		taut_run_close(run);
	}
}

static void test_no_memory(void **state)
{
	(void)state;
	static const char text[] = HEAD HOST
		NAME("5", "/device:GPU:0") LINE("5", "1", "Stream #1")
		X("5", "1", "1", "1", "ncclKernel", "")
		X("701", "7", "1", "9", "C", "\"group_key\":\"1\","
			"\"long_name\":\"r\\/1:CollectiveReduceV2\","
			"\"instance_key\":\"155\"")
		X("701", "7", "12", "1", "ExecutorState::ProcessAsync::Start",
			"\"kernel_type\":\"_Recv\",\"name\":\"c/_10\","
			"\"step_id\":\"-5\"")
		X("701", "7", "22", "1", "ExecutorState::ProcessAsync::Done",
			"\"kernel_type\":\"_Recv\",\"name\":\"c/_10\","
			"\"step_id\":\"-5\"") TAIL;
	struct taut_run *run = NULL;
	taut_status status = TAUT_ENOMEM;
	for (long n = 0; status == TAUT_ENOMEM; n++) {
		alloc_fail_after(n);
		status = taut_run_open_memory(
			"t.json", text, strlen(text), -1, &run, NULL);
		alloc_fail_never();
	}
	assert_int_equal(status, TAUT_OK);
	check(&run->traces[0], "c:_Recv", TAUT_KIND_COMM, 12000, 10000);
	taut_run_close(run);
}

/* --- the same profile in both forms ------------------------------------------ */

#define EXAMPLES "examples/tensorflow/"

struct lines {
	char (*at)[512];
	size_t n, longer; /* written; did not fit */
};

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The writer leaves these out. */
static bool is_left_out(const char *name)
{
	return strcmp(name, "PrefetchProduce") == 0 ||
	       strcmp(name, "PrefetchConsume") == 0;
}

static void put_comm(const struct taut_trace *t, size_t i, char *to, size_t room)
{
	const struct taut_comm_args *c = taut_trace_comm(t, i);
	*to = '\0';
	if (c)
		snprintf(to, room, "%s %s %s %lld %lld %d",
			taut_names_text(t->names, c->collective),
			taut_names_text(t->names, c->group_name),
			taut_names_text(t->names, c->dtype),
			(long long)c->in_elements, (long long)c->seq,
			(int)c->group_size);
}

/* All events as texts, in an order of their own; times from the start. */
static struct lines lines_of(const struct taut_trace *t)
{
	struct lines lines = { calloc(t->n_events, sizeof *lines.at), 0, 0 };
	int64_t first_ns = INT64_MAX;
	assert_non_null(lines.at);
	for (size_t i = 0; i < t->n_events; i++)
		if (t->kind[i] == TAUT_KIND_STEP && t->start_ns[i] < first_ns)
			first_ns = t->start_ns[i];
	for (size_t i = 0; i < t->n_events; i++) {
		const char *name = taut_trace_name(t, i);
		const struct taut_lane *lane = &t->lanes[t->lane[i]];
		char comm[256];
		if (is_left_out(name))
			continue;
		put_comm(t, i, comm, sizeof comm);
		int len = snprintf(lines.at[lines.n++], sizeof *lines.at,
			"%d %s|%s|%d|%lld+%lld|%u %u|%s", lane->kind,
			taut_names_text(t->names, lane->name), name,
			t->kind[i], (long long)(t->start_ns[i] - first_ns),
			(long long)t->dur_ns[i], (unsigned)t->correlation[i],
			t->sequence ? (unsigned)t->sequence[i] : 0, comm);
		lines.longer += len >= (int)sizeof *lines.at;
	}
	qsort(lines.at, lines.n, sizeof *lines.at, by_text);
	return lines;
}

static void check_same(
	const char *xplane, const char *json, size_t events, size_t comms)
{
	struct taut_run *a = NULL, *b = NULL;
	struct taut_error err;
	if (taut_run_open(&xplane, 1, NULL, &a, &err) != TAUT_OK ||
		taut_run_open(&json, 1, NULL, &b, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	const struct taut_trace *t = first(b);
	assert_string_equal(a->traces[0].format, "xplane");
	assert_int_equal(a->traces[0].rank, t->rank);
	assert_int_equal(a->traces[0].n_lanes, t->n_lanes);
	assert_int_equal(a->traces[0].n_comms, t->n_comms);
	assert_int_equal(t->n_events, events);
	assert_int_equal(t->n_comms, comms);
	assert_int_equal(a->n_notes, b->n_notes);
	struct lines x = lines_of(&a->traces[0]), j = lines_of(t);
	assert_int_equal(x.n, j.n);
	assert_int_equal(x.longer, 0);
	for (size_t i = 0; i < x.n; i++)
		assert_string_equal(x.at[i], j.at[i]);
	free(x.at);
	free(j.at);
	taut_run_close(a);
	taut_run_close(b);
}

/* Exported by TensorFlow 2.21 from the XPlane files beside them. */
static void test_same_as_xplane(void **state)
{
	(void)state;
	check_same(EXAMPLES "mirrored/rank0.xplane.pb.gz",
		EXAMPLES "json/mirrored0.trace.json.gz", 2087, 16);
	check_same(EXAMPLES "server/rank3.xplane.pb.gz",
		EXAMPLES "json/server3.trace.json.gz", 245,
		28 + 21 /* sends, receives */);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host),
		cmocka_unit_test(test_jax),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_is_told_by_its_beginning),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_same_as_xplane),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
