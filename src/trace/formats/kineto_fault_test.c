/* Texts that are cut, broken, or something else. */
#include "trace/test_support.h"

/* A small trace with all that a real one has, as the writer lays it out. */
static const char trace[] =
	"{\n"
	"  \"schemaVersion\": 1,\n"
	"  \"deviceProperties\": [\n    {\n"
	"      \"id\": 0, \"name\": \"A100 \\\"SXM\\\"\", \"warpSize\": 32\n"
	"    }\n  ],\n"
	"  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 2, "
	"\"pg_config\": [{\"ranks\": [0, 1]}]},\n"
	"  \"traceEvents\": [\n"
	"  {\n"
	"    \"ph\": \"X\", \"cat\": \"user_annotation\", "
	"\"name\": \"ProfilerStep#3\", \"pid\": 90, \"tid\": 90,\n"
	"    \"ts\": 1706850122846038.125, \"dur\": 603240.5,\n"
	"    \"args\": {\n      \"External id\": 1,\"Ev Idx\": 0\n    }\n"
	"  },\n"
	"  {\n"
	"    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\\\\\\\"}, {\", "
	"\"pid\": 90, \"tid\": 90,\n"
	"    \"ts\": 1706850122846040, \"dur\": 11,\n"
	"    \"args\": {\n      \"Input Dims\": [[[1, 2], []], []], "
	"\"Call stack\": \"x.py(3): [];y.py(4): {}\"\n    }\n"
	"  },\n"
	"  {\n"
	"    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", "
	"\"pid\": 0, \"tid\": 7,\n"
	"    \"ts\": 1706850122846047, \"dur\": 5,\n"
	"    \"args\": {\n      \"device\": 0, \"stream\": 7,\n"
	"      \"correlation\": 8\n    }\n"
	"  },\n"
	"  {\n"
	"    \"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\",\n"
	"    \"pid\": \"\", \"tid\": \"\", \"ts\": 1706850123481496\n"
	"  }\n"
	"  ],\n"
	"  \"traceName\": \"t\",\n"
	"  \"displayTimeUnit\": \"ms\",\n"
	"  \"baseTimeNanoseconds\": 0\n"
	"}\n";

/* The byte behind the last event whole in the first len bytes, and how many
 * of the three kept ones are. */
static size_t whole_events(size_t len)
{
	size_t n = 0;
	static const char *const ends[] = { "\"Ev Idx\": 0\n    }\n  }",
		"{}\"\n    }\n  }", "\"correlation\": 8\n    }\n  }" };
	for (size_t i = 0; i < 3; i++) {
		const char *at = strstr(trace, ends[i]);
		assert_non_null(at);
		n += (size_t)(at - trace) + strlen(ends[i]) <= len;
	}
	return n;
}

static void check_cut(const struct taut_run *run, size_t events)
{
	const struct taut_trace *t = &run->traces[0];
	assert_int_equal(t->n_events, events);
	assert_true(t->truncated);
	assert_int_equal(t->events_lost, 0);
	assert_int_equal(run->n_notes, 1);
	assert_non_null(strstr(run->notes[0], "is kept"));
	assert_int_equal(t->rank, 2);
}

/* A whole text ends with its root's brace; what follows is white space. */
static void test_cut_at_every_byte(void **state)
{
	(void)state;
	size_t len = sizeof trace - 1, refused = 0;
	for (size_t n = 0; n < len - 1; n++) {
		/* Exactly as long as the text, so that ASan sees overruns. */
		char *text = malloc(n + 1);
		struct taut_run *run = NULL;
		struct taut_error err = { 0 };
		memcpy(text, trace, n);
		taut_status status = taut_run_open_memory(
			"t.json", text, n, -1, &run, &err);
		size_t events = whole_events(n);
		if (events) {
			assert_int_equal(status, TAUT_OK);
			check_cut(run, events);
		} else {
			assert_int_equal(status, TAUT_EFORMAT);
			assert_non_null(strstr(err.message, "t.json: "));
			assert_true(strstr(err.message, "cut short") ||
				strstr(err.message, "is empty"));
			refused++;
		}
		taut_run_close(run);
		free(text);
	}
	assert_true(refused > 100 && refused < len - 500);
	struct taut_run *run = open_text(trace);
	assert_int_equal(run->traces[0].n_events, 3);
	assert_false(run->traces[0].truncated);
	assert_int_equal(run->n_notes, 0);
	taut_run_close(run);
}

static void test_gzip_cut_at_every_byte(void **state)
{
	(void)state;
	char packed[sizeof trace + 256];
	size_t len = gzip_member(trace, sizeof trace - 1, packed);
	size_t partial = 0;
	for (size_t n = 0; n < len; n++) {
		struct taut_run *run = NULL;
		struct taut_error err = { 0 };
		taut_status status = taut_run_open_memory(
			"t.json.gz", packed, n, -1, &run, &err);
		if (status == TAUT_OK) {
			assert_true(run->traces[0].truncated);
			assert_int_equal(run->n_notes, 1);
			partial++;
		} else {
			assert_int_equal(status, TAUT_EFORMAT);
			assert_true(err.message[0]);
			assert_null(strchr(err.message, '\n'));
		}
		taut_run_close(run);
	}
	assert_true(partial > 20);
}

/* Behind the bytes that tell the format, and in the first window. */
static void test_corrupt_gzip_is_refused(void **state)
{
	(void)state;
	enum { LEN = 100000 };
	char *text = malloc(LEN), *packed = malloc(LEN + 256);
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	assert_non_null(text);
	assert_non_null(packed);
	memset(text, ' ', LEN);
	memcpy(text, trace, sizeof trace - 1);
	size_t len = gzip_member(text, LEN, packed);
	packed[len - 6] ^= 1; /* in the checksum */
	assert_int_equal(taut_run_open_memory(
				 "t.gz", packed, len, 0, &run, &err),
		TAUT_EFORMAT);
	assert_non_null(strstr(err.message, "t.gz: corrupt gzip: "));
	assert_null(run);
	free(packed);
	free(text);
}

static void test_end_is_told_by_its_byte(void **state)
{
	(void)state;
	struct taut_run *run = open_text(
		"[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"pid\":1,"
		"\"tid\":1,\"ts\":1,\"dur\":1},{\"ph\":\"X\",\"ca");
	assert_string_equal(run->notes[0],
		"t.json: ends early at byte 82, inside traceEvents; what is "
		"whole, up to byte 68, is kept: 1 events");
	taut_run_close(run);
}

#define GOOD(name) \
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name \
	"\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1,\"args\":{\"a\":[1]}}"

/* The same as other writers order the keys: sorted, or the id first. */
#define SORTED(name) \
	"{\"args\":{\"a\":[1]},\"cat\":\"cpu_op\",\"dur\":1,\"name\":\"" name \
	"\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":1}"
#define ID_FIRST(name) \
	"{\"id\":3,\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name \
	"\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1}"

/* One broken event is lost, its neighbours and the file's end are not. */
static void check_recovery(const char *one, const char *two,
	const char *broken, const char *newline)
{
	char text[2048];
	snprintf(text, sizeof text,
		"{\"traceEvents\":[%s,%s%s,%s%s"
		"%s],\"traceName\":\"t\",\"baseTimeNanoseconds\":7000}",
		one, newline, broken, newline, two, newline);
	struct taut_run *run = open_text(text);
	const struct taut_trace *t = &run->traces[0];
	if (t->n_events != 2 || t->events_lost != 1)
		fail_msg("%s", text);
	assert_string_equal(taut_trace_name(t, 0), "one");
	assert_string_equal(taut_trace_name(t, 1), "two");
	assert_int_equal(t->base_ns, 8000);
	assert_int_equal(t->events_lost, 1);
	assert_false(t->truncated);
	assert_int_equal(run->n_notes, 1);
	char at[80];
	snprintf(at, sizeof at, "(not JSON), the first at byte %zu",
		(size_t)(strstr(text, broken) - text));
	assert_non_null(strstr(run->notes[0], at));
	taut_run_close(run);
}

static void test_goes_on_after_a_broken_event(void **state)
{
	(void)state;
	static const char *const good[][2] = {
		{ GOOD("one"), GOOD("two") },
		{ SORTED("one"), SORTED("two") },
		{ ID_FIRST("one"), ID_FIRST("two") },
	};
	static const char *const broken[] = {
		GOOD("a\"b"),
		SORTED("a\"b"),
		ID_FIRST("a\"b"),
		GOOD("\""),
		"{\"ph\":\"X\",\"name\" \"x\"}",
		"{\"ph\":\"X\",\"name\":}",
		"{\"ph\":\"X\",}",
		"{\"ph\":\"X\",\"args\":{\"a\":[1,2}},\"x\"]",
		"{\"ph\":\"X\",\"args\":{\"a\" 5}",
		"{\"ph\":\"X\",\"ts\":1 2}",
		"null",
		"[{\"a\":1}]",
	};
	for (size_t g = 0; g < sizeof good / sizeof *good; g++)
		for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
			check_recovery(good[g][0], good[g][1], broken[i], "");
			check_recovery(
				good[g][0], good[g][1], broken[i], "\n  ");
		}
}

/* What is whole costs itself alone, whatever the events begin with. */
static void test_values_that_are_no_events(void **state)
{
	(void)state;
#define STRANGE(name) \
	"{\"own\":1,\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name \
	"\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1}"
	static const char *const values[] = { "null", "-1.5e3", "\"a, {\"",
		"[{\"a\":1},2]" };
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		check_recovery(STRANGE("one"), STRANGE("two"), values[i], "");
}

/* Where the next event cannot be told, those passed are not lost in silence. */
static void test_events_that_are_passed_are_told(void **state)
{
	(void)state;
	struct taut_run *run = open_text("{\"traceEvents\":[" STRANGE("one")
		"," STRANGE("a\"b") "," STRANGE("two") "," STRANGE("three")
		"]}");
	const struct taut_trace *t = &run->traces[0];
	assert_int_equal(t->n_events, 1);
	assert_int_equal(t->events_seen, 4);
	assert_int_equal(t->events_lost, 3);
	assert_int_equal(run->n_notes, 2);
	assert_non_null(strstr(run->notes[0], "1 event left out (not JSON)"));
	assert_non_null(strstr(run->notes[1],
		"2 events left out (behind one that is not JSON)"));
	taut_run_close(run);
}

static void test_last_event_broken(void **state)
{
	(void)state;
	struct taut_run *run = open_text("{\"traceEvents\":[" GOOD("one") ","
		GOOD("a\"b") "]\n}\n");
	assert_int_equal(run->traces[0].n_events, 1);
	assert_int_equal(run->traces[0].events_lost, 1);
	assert_false(run->traces[0].truncated);
	taut_run_close(run);
	/* Broken and cut. */
	run = open_text("{\"traceEvents\":[" GOOD("one") "," GOOD("a\"b"));
	assert_int_equal(run->traces[0].n_events, 1);
	assert_int_equal(run->traces[0].events_lost, 1);
	assert_true(run->traces[0].truncated);
	taut_run_close(run);
}

static void test_text_behind_the_end(void **state)
{
	(void)state;
	struct taut_run *run = open_text(
		"{\"traceEvents\":[" GOOD("one") "]}\n{\"traceEvents\":[]}");
	assert_int_equal(run->traces[0].n_events, 1);
	assert_false(run->traces[0].truncated);
	assert_int_equal(run->n_notes, 1);
	assert_string_equal(run->notes[0],
		"t.json: what stands behind the end of its JSON is left out");
	taut_run_close(run);
}

static void test_root_broken_behind_the_events(void **state)
{
	(void)state;
	struct taut_run *run = open_text("{\"traceEvents\":[" GOOD("one")
		"],\"traceName\" \"t\",\"baseTimeNanoseconds\":5}");
	assert_int_equal(run->traces[0].n_events, 1);
	assert_true(run->traces[0].truncated);
	assert_non_null(strstr(run->notes[0], "is broken at byte "));
	taut_run_close(run);
}

static void test_refusals(void **state)
{
	(void)state;
	assert_string_equal(refusal(""),
		"t.json: is empty; expected a trace of a known format");
	assert_string_equal(refusal("just text"),
		"t.json: byte 0: is text that is not JSON; expected a trace "
		"of a known format (taut help report lists them)");
	assert_string_equal(refusal("\x0a\x05\x01zz"),
		"t.json: byte 0: is binary (a protobuf, such as Chakra or "
		"XPlane?); expected a trace of a known format (taut help "
		"report lists them)");
	assert_string_equal(refusal("{\"schema\":\"1.0.1\",\"pid\":3,"
				    "\"nodes\":[{\"id\":1}]}"),
		"t.json: is a PyTorch execution trace (schema 1.0.1), which "
		"holds no times; give the Kineto trace of the same run beside "
		"it, and of several ranks name both by the rank");
	assert_string_equal(refusal("{\"a\":1}"),
		"t.json: is JSON without traceEvents; expected a PyTorch "
		"profiler trace");
	assert_string_equal(refusal("{\"traceEvents\":[]}"),
		"t.json: of its 0 events none is of a kind that PyTorch's "
		"profiler writes");
	assert_non_null(strstr(refusal("[{\"ph\":\"X\",\"name\":\"a\","
				       "\"pid\":1,\"tid\":1,\"ts\":1}]"),
		"of its 1 events none is of a kind"));
	assert_string_equal(refusal("{\"a\" 1}"),
		"t.json: byte 5: no JSON; expected a PyTorch profiler trace");
	assert_string_equal(refusal("{\"traceEvents\":{}}"),
		"t.json: is JSON without traceEvents; expected a PyTorch "
		"profiler trace");
	assert_string_equal(refusal("{\"traceEvents\":[{\"ph\":\"X\""),
		"t.json: ends at byte 25, before its first whole event; it "
		"was cut short");
}

static void test_what_is_too_large(void **state)
{
	(void)state;
	size_t large = (17 << 20), room = large + 1024;
	char *text = malloc(room);
	assert_non_null(text);
	static const char head[] = "[" GOOD("one") ",{\"ph\":\"X\",\"x\":\"";
	static const char tail[] = "\"}," GOOD("two") "]";
	memcpy(text, head, sizeof head - 1);
	memset(text + sizeof head - 1, 'x', large);
	memcpy(text + sizeof head - 1 + large, tail, sizeof tail);
	struct taut_run *run = open_text(text);
	assert_int_equal(run->traces[0].n_events, 2);
	assert_non_null(strstr(run->notes[0],
		"1 event left out (larger than 16 MiB), the first at byte "));
	taut_run_close(run);
	memset(text, 'x', sizeof head);
	memcpy(text, "{\"x\":\"", 6);
	assert_string_equal(refusal(text),
		"t.json: byte 1: a value larger than 16 MiB; expected a "
		"PyTorch profiler trace");
	free(text);
}

/* One note, however many faults. */
static void test_nothing_but_faults(void **state)
{
	(void)state;
	static const char fault[] = "{\"ph\":\"X\" 1},";
	size_t n = 200000, one = sizeof fault - 1;
	static const char good[] = GOOD("one") "]";
	char *text = malloc(n * one + sizeof good + 1);
	assert_non_null(text);
	text[0] = '[';
	for (size_t i = 0; i < n; i++)
		memcpy(text + 1 + i * one, fault, one);
	memcpy(text + 1 + n * one, good, sizeof good);
	struct taut_run *run = open_text(text);
	assert_int_equal(run->traces[0].events_lost, n);
	assert_int_equal(run->traces[0].n_events, 1);
	assert_int_equal(run->n_notes, 1);
	taut_run_close(run);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_at_every_byte),
		cmocka_unit_test(test_gzip_cut_at_every_byte),
		cmocka_unit_test(test_corrupt_gzip_is_refused),
		cmocka_unit_test(test_end_is_told_by_its_byte),
		cmocka_unit_test(test_goes_on_after_a_broken_event),
		cmocka_unit_test(test_values_that_are_no_events),
		cmocka_unit_test(test_events_that_are_passed_are_told),
		cmocka_unit_test(test_last_event_broken),
		cmocka_unit_test(test_text_behind_the_end),
		cmocka_unit_test(test_root_broken_behind_the_events),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_what_is_too_large),
		cmocka_unit_test(test_nothing_but_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
