/* file_test.c - a plan's file: what is written is read again, what a person edits is
 * taken, what is wrong is refused in one line that says where. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <taut/plan.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"

static const int64_t gradients[] = { 4194304, 4194304, 1024, 7, 7, 7 };

static const struct taut_decision decisions[] = {
	{ "workers=4", TAUT_NUMERICS_EXACT, 151000001 },
	{ "bucket=2MiB", TAUT_NUMERICS_REORDERED, -1 },
	{ "compress=fp16", TAUT_NUMERICS_LOSSY, 0 },
	{ "schedule=priority,partition=1MiB,credit=4MiB,barrier=cross",
		TAUT_NUMERICS_REORDERED, 149999999 },
};

static const struct taut_plan full = {
	.job = { .n_ranks = 3, .n_hosts = 2, .n_gradients = 6,
		.gradient_bytes = gradients, .framework = "pytorch" },
	.allow = TAUT_NUMERICS_LOSSY,
	.n_decisions = 4, .decisions = decisions,
	.before_ns = 200000000, .after_ns = 123456789, .low_ns = 120000000,
	.high_ns = 130000007, .memory_before = 1000, .memory_after = 0,
	.network_before = 5000000000, .network_after = 2500000000,
	.measured_before_ns = 201000003, .measured_after_ns = 125000000,
};

static char *printed(const struct taut_plan *plan)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(taut_plan_write(plan, out, NULL), TAUT_OK);
	fclose(out);
	return text;
}

static struct taut_plan *parsed(const char *text)
{
	struct taut_plan *plan = NULL;
	struct taut_error err;

	if (taut_plan_parse(text, strlen(text), "f", &plan, &err))
		fail_msg("%s", err.message);
	return plan;
}

static void refuse(const char *text, const char *line)
{
	struct taut_plan *plan = (struct taut_plan *)&full;
	struct taut_error err;

	assert_int_equal(taut_plan_parse(text, strlen(text), "f", &plan, &err),
		TAUT_EFORMAT);
	assert_string_equal(err.message, line);
	assert_ptr_equal(plan, &full);
}

static void same_decisions(
	const struct taut_plan *a, const struct taut_plan *b)
{
	assert_int_equal(a->n_decisions, b->n_decisions);
	for (uint32_t i = 0; i < a->n_decisions; i++) {
		assert_string_equal(
			a->decisions[i].change, b->decisions[i].change);
		assert_int_equal(
			a->decisions[i].numerics, b->decisions[i].numerics);
		assert_int_equal(
			a->decisions[i].without_ns, b->decisions[i].without_ns);
	}
}

static void same_job(
	const struct taut_plan_job *a, const struct taut_plan_job *b)
{
	assert_string_equal(a->framework, b->framework);
	assert_int_equal(a->n_ranks, b->n_ranks);
	assert_int_equal(a->n_hosts, b->n_hosts);
	assert_int_equal(a->n_gradients, b->n_gradients);
	for (uint32_t i = 0; i < a->n_gradients; i++)
		assert_int_equal(a->gradient_bytes[i], b->gradient_bytes[i]);
}

static void same(const struct taut_plan *a, const struct taut_plan *b)
{
	const int64_t numbers[][2] = { { a->before_ns, b->before_ns },
		{ a->after_ns, b->after_ns }, { a->low_ns, b->low_ns },
		{ a->high_ns, b->high_ns },
		{ a->memory_before, b->memory_before },
		{ a->memory_after, b->memory_after },
		{ a->network_before, b->network_before },
		{ a->network_after, b->network_after },
		{ a->measured_before_ns, b->measured_before_ns },
		{ a->measured_after_ns, b->measured_after_ns } };

	same_job(&a->job, &b->job);
	same_decisions(a, b);
	assert_int_equal(a->allow, b->allow);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		assert_int_equal(numbers[i][0], numbers[i][1]);
}

/* --- whole ----------------------------------------------------------------------- */

static void check_round_trip(const struct taut_plan *plan)
{
	char *text = printed(plan), *again;
	struct taut_plan *found = parsed(text);

	same(plan, found);
	again = printed(found);
	assert_string_equal(text, again);
	free(again);
	free(text);
	taut_plan_destroy(found);
}

static void test_round_trip(void **state)
{
	static const struct taut_plan bare = { .job = { .n_ranks = 1,
		.framework = "" }, .memory_before = -1, .memory_after = -1,
		.network_before = -1, .network_after = -1 };
	struct taut_plan one = full;

	(void)state;
	check_round_trip(&full);
	check_round_trip(&bare);
	one.n_decisions = 0;
	one.memory_before = -1;
	one.network_after = -1;
	one.measured_before_ns = one.measured_after_ns = 0;
	one.job.framework = "a \"quoted\" \\ name";
	check_round_trip(&one);
}

/* Names that are not ASCII are kept, too. */
static void test_names(void **state)
{
	struct taut_decision d = { "recompute=nn.Module: bl\xc3\xb6" "cke.*",
		TAUT_NUMERICS_EXACT, -1 };
	struct taut_plan plan = full;

	(void)state;
	plan.decisions = &d;
	plan.n_decisions = 1;
	check_round_trip(&plan);
}

static const char golden[] =
	"{\n"
	"\t\"taut_plan\": 1,\n"
	"\t\"job\": {\n"
	"\t\t\"framework\": \"pytorch\",\n"
	"\t\t\"ranks\": 3,\n"
	"\t\t\"hosts\": 2,\n"
	"\t\t\"gradients\": [[4194304, 2], [1024, 1], [7, 3]]\n"
	"\t},\n"
	"\t\"allow\": \"lossy\",\n"
	"\t\"decisions\": [\n"
	"\t\t{\"change\": \"workers=4\", \"numerics\": \"exact\", "
	"\"without_ms\": 151.000001},\n"
	"\t\t{\"change\": \"bucket=2MiB\", \"numerics\": \"reordered\"},\n"
	"\t\t{\"change\": \"compress=fp16\", \"numerics\": \"lossy\", "
	"\"without_ms\": 0.000000},\n"
	"\t\t{\"change\": \"schedule=priority,partition=1MiB,credit=4MiB,"
	"barrier=cross\", \"numerics\": \"reordered\", "
	"\"without_ms\": 149.999999}\n"
	"\t],\n"
	"\t\"predicted\": {\n"
	"\t\t\"before_ms\": 200.000000,\n"
	"\t\t\"after_ms\": 123.456789,\n"
	"\t\t\"low_ms\": 120.000000,\n"
	"\t\t\"high_ms\": 130.000007,\n"
	"\t\t\"memory_before_bytes\": 1000,\n"
	"\t\t\"memory_after_bytes\": 0,\n"
	"\t\t\"network_before_bytes\": 5000000000,\n"
	"\t\t\"network_after_bytes\": 2500000000\n"
	"\t},\n"
	"\t\"measured\": {\n"
	"\t\t\"before_ms\": 201.000003,\n"
	"\t\t\"after_ms\": 125.000000\n"
	"\t}\n"
	"}\n";

static void test_text(void **state)
{
	char *text = printed(&full);

	(void)state;
	assert_string_equal(text, golden);
	free(text);
}

/* --- as a person edits it ----------------------------------------------------------- */

static void test_least(void **state)
{
	struct taut_plan *p = parsed(
		"{\"taut_plan\":1,\"job\":{\"ranks\":2},\"decisions\":[]}");

	(void)state;
	assert_int_equal(p->job.n_ranks, 2);
	assert_int_equal(p->job.n_hosts, 0);
	assert_int_equal(p->job.n_gradients, 0);
	assert_string_equal(p->job.framework, "");
	assert_int_equal(p->allow, TAUT_NUMERICS_EXACT);
	assert_int_equal(p->n_decisions, 0);
	assert_int_equal(p->after_ns, 0);
	assert_int_equal(p->memory_after, -1);
	assert_int_equal(p->network_before, -1);
	assert_int_equal(p->measured_after_ns, 0);
	taut_plan_destroy(p);
}

/* Keys in another order, a decision taken out, another put in without its class,
 * times without a fraction, room and line ends of any kind. */
static void test_edits(void **state)
{
	struct taut_plan *p = parsed(" \r\n{ \"decisions\" : [ "
		"{\"change\":\"compress=bf16\"},\r\n"
		"{\"without_ms\": 5, \"change\":\"bucket=1MiB\"}\t] ,\n"
		"\"allow\":\"lossy\", \"job\": {\"gradients\":[[8,1],[4,2]],"
		"\"ranks\":4}, \"predicted\":{\"after_ms\":100},"
		"\"taut_plan\": 1}  \n\n");

	(void)state;
	assert_int_equal(p->n_decisions, 2);
	assert_string_equal(p->decisions[0].change, "compress=bf16");
	assert_int_equal(p->decisions[0].numerics, TAUT_NUMERICS_LOSSY);
	assert_int_equal(p->decisions[0].without_ns, -1);
	assert_int_equal(p->decisions[1].numerics, TAUT_NUMERICS_REORDERED);
	assert_int_equal(p->decisions[1].without_ns, 5000000);
	assert_int_equal(p->job.n_gradients, 3);
	assert_int_equal(p->job.gradient_bytes[2], 4);
	assert_int_equal(p->after_ns, 100000000);
	assert_int_equal(p->before_ns, 0);
	taut_plan_destroy(p);
}

/* What a decision does to results is Taut's to say, not the file's: of two ranks
 * sums have one order. */
static void test_class_is_not_believed(void **state)
{
	struct taut_plan *p = parsed("{\"taut_plan\":1,\"job\":{\"ranks\":2},"
		"\"allow\":\"exact\",\"decisions\":[{\"change\":\"bucket=1MiB\","
		"\"numerics\":\"lossy\"}]}");

	(void)state;
	assert_int_equal(p->decisions[0].numerics, TAUT_NUMERICS_EXACT);
	taut_plan_destroy(p);
}

/* --- refused ------------------------------------------------------------------------- */

#define PLAN(rest) "{\"taut_plan\":1,\"job\":{\"ranks\":2}," rest "}"
#define JOB(rest) "{\"taut_plan\":1,\"job\":{\"ranks\":2," rest \
	"},\"decisions\":[]}"
#define DECISION(rest) PLAN("\"allow\":\"lossy\",\"decisions\":[" \
	"{\"change\":\"workers=1\"},{" rest "}]")

static void test_no_plan(void **state)
{
	static const char no_version[] = "f: taut_plan: expected 1: a plan of "
		"this version, as taut plan writes it";

	(void)state;
	refuse("", "f:1: expected a plan, which is one JSON object");
	refuse("\n\nhello", "f:3: expected a plan, which is one JSON object");
	refuse("[]", "f:1: expected a plan, which is one JSON object");
	refuse("{}", no_version);
	refuse("{\"taut_plan\":2}", no_version);
	refuse("\"taut_plan\"", no_version);
	refuse("{\"taut_plan\":18446744073709551617}", no_version);
	refuse("{\"taut_plan\":1.5}", no_version);
	refuse("{\"taut_plan\":1}\n{}",
		"f:2: expected a plan, which is one JSON object");
	refuse("{\n\"taut_plan\":1,\n\"job\":{",
		"f:1: expected a plan, which is one JSON object");
	refuse("{\"taut_plan\":1}", "f: job: expected an object");
	refuse("{\"taut_plan\":1,\"job\":3}", "f: job: expected an object");
	refuse(PLAN("\"x\":1"), "f: plan.x: expected no such key");
	refuse("{\"taut_plan\":1,\"taut_plan\":1}",
		"f: plan.taut_plan: expected this key once");
}

static void test_wrong_job(void **state)
{
	static const char pairs[] = "f: job.gradients: expected a list of "
		"[bytes, how many], the largest first";

	(void)state;
	refuse("{\"taut_plan\":1,\"job\":{},\"decisions\":[]}",
		"f: job.ranks: expected the number of ranks");
	refuse("{\"taut_plan\":1,\"job\":{\"ranks\":0},\"decisions\":[]}",
		"f: job.ranks: expected the number of ranks");
	refuse("{\"taut_plan\":1,\"job\":{\"ranks\":-1},\"decisions\":[]}",
		"f: job.ranks: expected a whole number that is not negative");
	refuse("{\"taut_plan\":1,\"job\":{\"ranks\":4294967296}}",
		"f: job.ranks: expected a whole number that is not negative");
	refuse("{\"taut_plan\":1,\"job\":{\"ranks\":1.5}}",
		"f: job.ranks: expected a whole number that is not negative");
	/* what 64 bits do not hold, and would be 2, and 0 */
	refuse("{\"taut_plan\":1,\"job\":{\"ranks\":18446744073709551618}}",
		"f: job.ranks: expected a whole number that is not negative");
	refuse(JOB("\"hosts\":184467440737095516160"),
		"f: job.hosts: expected a whole number that is not negative");
	refuse(JOB("\"ranks\":2"), "f: job.ranks: expected this key once");
	refuse(JOB("\"speed\":2"), "f: job.speed: expected no such key");
	refuse(JOB("\"hosts\":\"two\""),
		"f: job.hosts: expected a whole number that is not negative");
	refuse(JOB("\"framework\":7"), "f: job.framework: expected a name");
	refuse(JOB("\"gradients\":7"), "f: job.gradients: expected a list of "
		"[bytes, how many]");
	refuse(JOB("\"gradients\":[7]"), pairs);
	refuse(JOB("\"gradients\":[\"ab\"]"), pairs);
	refuse(JOB("\"gradients\":[{\"a\":1}]"), pairs);
	refuse(JOB("\"gradients\":[[1]]"), pairs);
	refuse(JOB("\"gradients\":[[1,2,3]]"), pairs);
	refuse(JOB("\"gradients\":[[1,0]]"), pairs);
	refuse(JOB("\"gradients\":[[-1,1]]"), pairs);
	refuse(JOB("\"gradients\":[[1,\"2\"]]"), pairs);
	refuse(JOB("\"gradients\":[[1,1],[2,1]]"), pairs);
	refuse(JOB("\"gradients\":[[1,1048577]]"), pairs);
	refuse(JOB("\"gradients\":[[1,18446744073709551617]]"), pairs);
	refuse(JOB("\"gradients\":[[18446744073709551617,1]]"), pairs);
	refuse(JOB("\"gradients\":[[1,1048576],[1,1]]"),
		"f: job.gradients: expected a million gradients at most");
}

static void test_wrong_decisions(void **state)
{
	(void)state;
	refuse("{\"taut_plan\":1,\"job\":{\"ranks\":2}}",
		"f: decisions: expected a list");
	refuse(PLAN("\"decisions\":{}"), "f: decisions: expected a list");
	refuse(PLAN("\"decisions\":[1]"),
		"f: decisions[0]: expected an object");
	refuse(DECISION(""),
		"f: decisions[1]: expected a change, like compress=fp16");
	refuse(DECISION("\"change\":3"),
		"f: decisions[1]: expected a change, like compress=fp16");
	refuse(DECISION("\"change\":\"compress=fp16\",\"why\":1"),
		"f: decisions[1].why: expected no such key");
	refuse(DECISION("\"change\":\"bucket=1MiB\",\"numerics\":\"fine\""),
		"f: decisions[1]: expected exact, reordered or lossy");
	refuse(DECISION("\"change\":\"bucket=1MiB\",\"without_ms\":-1"),
		"f: decisions[1]: expected milliseconds");
	refuse(DECISION("\"change\":\"bucket=1MiB\",\"without_ms\":\"x\""),
		"f: decisions[1]: expected milliseconds");
	refuse(DECISION("\"change\":\"compres=fp16\""), "f: decisions[1]: "
		"unknown change 'compres'; did you mean compress?");
	refuse(DECISION("\"change\":\"compress\""), "f: decisions[1]: compress: "
		"expected compress=fp16|bf16|mxint8|int8|topk|powersgd, found no "
		"value");
	refuse(DECISION("\"change\":\"bucket=1MiB,size=3\""), "f: "
		"decisions[1]: bucket: unknown parameter 'size'; --list "
		"bucket shows all");
	refuse(DECISION("\"change\":\"link=2x\""), "f: decisions[1]: expected "
		"a change that a running job can be given, found 'link=2x'");
}

static void test_not_allowed(void **state)
{
	(void)state;
	refuse(PLAN("\"decisions\":[{\"change\":\"compress=fp16\"}]"),
		"f: decisions[0]: compress=fp16 is lossy, and the plan allows "
		"exact");
	refuse("{\"taut_plan\":1,\"job\":{\"ranks\":3},\"allow\":\"exact\","
		"\"decisions\":[{\"change\":\"bucket=1MiB\"}]}",
		"f: decisions[0]: bucket=1MiB is reordered, and the plan "
		"allows exact");
	refuse(PLAN("\"allow\":\"all\",\"decisions\":[]"),
		"f: allow: expected exact, reordered or lossy");
	refuse(PLAN("\"allow\":0,\"decisions\":[]"),
		"f: allow: expected exact, reordered or lossy");
}

static void test_wrong_numbers(void **state)
{
	(void)state;
	refuse(PLAN("\"decisions\":[],\"predicted\":[]"),
		"f: predicted: expected an object");
	refuse(PLAN("\"decisions\":[],\"predicted\":{\"step_ms\":1}"),
		"f: predicted.step_ms: expected no such key");
	refuse(PLAN("\"decisions\":[],\"predicted\":{\"after_ms\":\"1\"}"),
		"f: after_ms: expected milliseconds");
	refuse(PLAN("\"decisions\":[],\"predicted\":"
		"{\"after_ms\":9999999999999}"),
		"f: after_ms: expected milliseconds");
	refuse(PLAN("\"decisions\":[],\"predicted\":"
		"{\"memory_after_bytes\":-1}"), "f: memory_after_bytes: "
		"expected a whole number that is not negative");
	refuse(PLAN("\"decisions\":[],\"predicted\":"
		"{\"network_before_bytes\":0.5}"), "f: network_before_bytes: "
		"expected a whole number that is not negative");
	refuse(PLAN("\"decisions\":[],\"measured\":1"),
		"f: measured: expected an object");
	refuse(PLAN("\"decisions\":[],\"measured\":{\"before_ms\":null}"),
		"f: before_ms: expected milliseconds");
	refuse(PLAN("\"decisions\":[],\"measured\":{\"low_ms\":1}"),
		"f: measured.low_ms: expected no such key");
}

static void test_many(void **state)
{
	char text[8192] = "{\"taut_plan\":1,\"job\":{\"ranks\":2},"
		"\"decisions\":[{\"change\":\"workers=1\"}";

	(void)state;
	for (int i = 1; i < 65; i++)
		strcat(text, ",{\"change\":\"workers=1\"}");
	strcat(text, "]}");
	refuse(text, "f: decisions: expected 64 decisions at most");
}

/* No cut text is a plan, nor a way out of bounds. */
static void test_cut(void **state)
{
	size_t whole = strlen(golden) - 1; /* the last line's end is no part */
	struct taut_error err;

	(void)state;
	for (size_t n = 0; n < whole; n++) {
		char *text = malloc(n + 1); /* a sanitizer sees its end */
		struct taut_plan *plan = NULL;

		assert_non_null(text);
		memcpy(text, golden, n);
		assert_int_equal(taut_plan_parse(text, n, "f", &plan, &err),
			TAUT_EFORMAT);
		assert_non_null(strstr(err.message, "f:"));
		assert_null(plan);
		free(text);
	}
}

/* --- files ---------------------------------------------------------------------------- */

static void test_files(void **state)
{
	char path[] = "/tmp/taut-plan-XXXXXX";
	int fd = mkstemp(path);
	FILE *out = fdopen(fd, "w");
	struct taut_plan *plan = NULL;
	struct taut_error err;
	char line[128];

	(void)state;
	assert_non_null(out);
	assert_int_equal(taut_plan_write(&full, out, NULL), TAUT_OK);
	fclose(out);
	assert_int_equal(taut_plan_read(path, &plan, &err), TAUT_OK);
	same(&full, plan);
	taut_plan_destroy(plan);
	out = fopen(path, "w");
	assert_non_null(out);
	fputs("\n{\"taut_plan\": 1}\n}\n", out);
	fclose(out);
	assert_int_equal(taut_plan_read(path, &plan, &err), TAUT_EFORMAT);
	snprintf(line, sizeof line, "%s:3: expected a plan, which is one JSON "
		"object", path);
	assert_string_equal(err.message, line);
	out = fopen(path, "w");
	assert_non_null(out);
	for (int i = 0; i < (4 << 20) + 1; i++)
		fputc(' ', out);
	fclose(out);
	assert_int_equal(taut_plan_read(path, &plan, &err), TAUT_EFORMAT);
	assert_non_null(strstr(err.message, "which has at most 4 MiB"));
	unlink(path);
	assert_int_equal(taut_plan_read("/no/such", &plan, &err), TAUT_EIO);
	assert_string_equal(err.message,
		"/no/such: cannot be read: No such file or directory");
	assert_int_equal(taut_plan_read("/", &plan, &err), TAUT_EIO);
}

static void test_disk_full(void **state)
{
	FILE *full_disk = fopen("/dev/full", "w");
	struct taut_error err;

	(void)state;
	if (!full_disk)
		skip();
	setvbuf(full_disk, NULL, _IONBF, 0);
	assert_int_equal(taut_plan_write(&full, full_disk, &err), TAUT_EIO);
	assert_non_null(strstr(err.message, "could not be written"));
	fclose(full_disk);
}

static void test_no_memory(void **state)
{
	taut_status status = TAUT_ENOMEM;
	struct taut_plan *plan = NULL;
	struct taut_error err;
	long n = 0;

	(void)state;
	for (; status; n++) {
		alloc_fail_after(n);
		status = taut_plan_parse(
			golden, strlen(golden), "f", &plan, &err);
		alloc_fail_never();
		if (status) {
			assert_int_equal(status, TAUT_ENOMEM);
			assert_null(plan);
		}
	}
	assert_true(n > 3);
	same(&full, plan);
	taut_plan_destroy(plan);
	taut_plan_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_least),
		cmocka_unit_test(test_edits),
		cmocka_unit_test(test_class_is_not_believed),
		cmocka_unit_test(test_no_plan),
		cmocka_unit_test(test_wrong_job),
		cmocka_unit_test(test_wrong_decisions),
		cmocka_unit_test(test_not_allowed),
		cmocka_unit_test(test_wrong_numbers),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
