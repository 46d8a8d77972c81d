/* Execution traces beside profiler traces, both made by hand. */
#include "trace/test_support.h"

#include <unistd.h>

#include "tests/support/alloc_fail.h"

/* --- two files ------------------------------------------------------------ */

static char folder[64], kineto_path[96], et_path[96];

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/taut-et-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(kineto_path, sizeof kineto_path, "%s/trace_rank2.json",
		folder);
	snprintf(et_path, sizeof et_path, "%s/et_rank2.json", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(kineto_path);
	unlink(et_path);
	rmdir(folder);
	return 0;
}

static void write_file(const char *path, const char *text)
{
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	assert_int_equal(fclose(out), 0);
}

/* The ET first, as its name sorts. */
static taut_status open_both(
	const char *kineto, const char *et, struct taut_run **ret_run)
{
	const char *paths[] = { folder };
	struct taut_run_options options = { .threads = 1 };
	struct taut_error err = { 0 };
	write_file(kineto_path, kineto);
	write_file(et_path, et);
	return taut_run_open(paths, 1, &options, ret_run, &err);
}

static const struct taut_comm_args *nth_comm(
	const struct taut_run *run, size_t n)
{
	const struct taut_trace *t = &run->traces[0];
	for (size_t i = 0; i < t->n_events; i++)
		if (!strcmp(taut_trace_name(t, i), "record_param_comms") &&
			n-- == 0)
			return taut_trace_comm(t, i);
	fail_msg("no such operator");
	return NULL;
}

static void check_text(const struct taut_run *run, uint32_t id, const char *text)
{
	assert_string_equal(
		taut_names_text(run->traces[0].names, id), text);
}

#define KINETO(events) "{\"traceEvents\":[" events "]}"
#define OP(name, tid, ts, args) \
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name \
	"\",\"pid\":9,\"tid\":" #tid ",\"ts\":" #ts ",\"dur\":5,\"args\":{" args \
	"}}"
#define ID(n) "\"External id\":1" #n ",\"Record function id\":" #n
#define INDEX(n) "\"External id\":1" #n ",\"Ev Idx\":" #n

/* --- schema 1.1: everything is said plainly ----------------------------------- */

#define ATTR(name, type, value) \
	"{\"name\":\"" name "\",\"type\":\"" type "\",\"value\":" value "}"
#define NODE(id, name, rf, tid, inputs, attrs) \
	"{\"id\":" #id ",\"name\":\"" name "\",\"ctrl_deps\":2,\"inputs\":" \
	inputs ",\"attrs\":[" ATTR("rf_id", "uint64", #rf) "," \
	ATTR("tid", "uint64", #tid) attrs "]}"
#define NO_INPUTS "{\"values\":[],\"shapes\":[],\"types\":[]}"

static const char new_kineto[] = KINETO(
	OP("aten::mm", 9, 10, ID(7)) ","
	OP("record_param_comms", 9, 20, ID(8)) ","
	OP("record_param_comms", 9, 30, ID(9)));

static const char new_et[] = "{\n  \"schema\": \"1.1.0-chakra.0.0.4\","
	" \"pid\": 4, \"nodes\": ["
	NODE(2, "[pytorch|profiler|execution_trace|thread]", 0, 1, NO_INPUTS, "")
	"," NODE(3, "## process_group:init ##", 1, 1,
		"{\"values\":[\"[{\\\"pg_name\\\": \\\"3\\\", \\\"pg_desc\\\":"
		" \\\"tp\\\", \\\"ranks\\\": [0, 2], \\\"group_size\\\": 2}]\"]"
		",\"shapes\":[[]],\"types\":[\"String\"]}", "")
	"," NODE(4, "aten::mm", 7, 1, NO_INPUTS, "")
	"," NODE(5, "record_param_comms", 8, 1,
		"{\"values\":[[[14,15,0,64,4,\"cuda:0\"]],47,"
		"[\"3\",\"tp\"],0,\"allreduce\",[],[],0,2,2],\"types\":"
		"[\"GenericList[Tensor(float)]\"]}",
		"," ATTR("collective_name", "string", "\"allreduce\"")
		"," ATTR("dtype", "string", "\"Float\"")
		"," ATTR("in_msg_nelems", "uint64", "64")
		"," ATTR("out_msg_nelems", "uint64", "64")
		"," ATTR("pg_name", "string", "\"3\"")
		"," ATTR("pg_desc", "string", "\"tp\"")
		"," ATTR("pg_size", "uint64", "2")
		"," ATTR("global_rank_start", "uint64", "0")
		"," ATTR("global_rank_stride", "uint64", "2"))
	"," NODE(6, "record_param_comms", 9, 1,
		"{\"values\":[12,0,0,\"wait\",[],[],1],\"types\":[\"Int\"]}", "")
	"]}";

static void test_plainly_said(void **state)
{
	(void)state;
	struct taut_run *run = NULL;
	assert_int_equal(open_both(new_kineto, new_et, &run), TAUT_OK);
	assert_int_equal(run->n_traces, 1);
	assert_int_equal(run->traces[0].rank, 2);
	assert_string_equal(run->traces[0].format, "kineto");
	assert_int_equal(run->traces[0].n_events, 3);
	const struct taut_comm_args *comm = nth_comm(run, 0);
	assert_non_null(comm);
	check_text(run, comm->collective, "allreduce");
	check_text(run, comm->dtype, "Float");
	check_text(run, comm->group_name, "3");
	check_text(run, comm->group_desc, "tp");
	check_text(run, comm->group_ranks, "[0, 2]");
	assert_int_equal(comm->in_elements, 64);
	assert_int_equal(comm->out_elements, 64);
	assert_int_equal(comm->seq, 47);
	assert_int_equal(comm->group_size, 2);
	assert_int_equal(comm->rank_stride, 2);
	const struct taut_comm_args *wait = nth_comm(run, 1);
	assert_true(!wait || !wait->collective);
	assert_int_equal(run->n_notes, 1);
	assert_non_null(strstr(run->notes[0],
		"3 of its 4 operators are found in the profiler's trace (by "
		"Record function id), and 1 collectives"));
	taut_run_close(run);
}

/* --- recorded at different times -------------------------------------------- */

enum { NODES = 5000, OPS = 100 };

/* An ET of NODES + OPS operators, of which Kineto has the last OPS. */
static void write_window(char *kineto, char *et, const char *name)
{
	int k = sprintf(kineto, "{\"traceEvents\":[");
	int e = sprintf(et, "{\"schema\": \"1.0.1\", \"nodes\": [");
	for (int i = 0; i < NODES + OPS; i++) {
		e += sprintf(et + e,
			"%s{\"name\":\"op%d\",\"id\":%d,\"rf_id\":%d,"
			"\"parent\":2,\"tid\":1,\"inputs\":[]}",
			i ? "," : "", i % 7, 10 + i, 3 + i);
		if (i < NODES)
			continue;
		k += sprintf(kineto + k,
			"%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"%s%d\","
			"\"pid\":9,\"tid\":9,\"ts\":%d,\"dur\":1,\"args\":{"
			"\"External id\":%d,\"Record function id\":%d}}",
			i > NODES ? "," : "", name, i % 7, 2 * i, 900 + i,
			3 + i);
	}
	strcpy(kineto + k, "]}");
	strcpy(et + e, "]}");
}

static void check_window(const char *name, const char *note)
{
	static char kineto[OPS * 200], et[(NODES + OPS) * 100];
	struct taut_run *run = NULL;
	write_window(kineto, et, name);
	assert_int_equal(open_both(kineto, et, &run), TAUT_OK);
	assert_int_equal(run->n_traces, 1);
	assert_int_equal(run->n_notes, 1);
	if (!strstr(run->notes[0], note))
		fail_msg("%s", run->notes[0]);
	taut_run_close(run);
}

static void test_begun_before_the_profiler(void **state)
{
	(void)state;
	check_window("op", "100 of its 5100 operators are found in the "
			   "profiler's trace (by Record function id)");
	check_window("other", "of another run");
}

/* --- schema 1.0: arguments by position, Ev Idx = rf_id + 1 ---------------------- */

#define FLAT(name, rf, tid, rest) \
	"{\"name\":\"" name "\",\"id\":1" #rf ",\"rf_id\":" #rf \
	",\"parent\":2,\"tid\":" #tid ",\"inputs\":" rest "}"
#define ALL_REDUCE(seq, elements) \
	"[[[131,132,0," #elements ",2,\"cuda:0\"],[7,8,0,36,2,\"cuda:0\"]]," \
	#seq ",93825,0,\"allreduce\",[],[],8]," \
	"\"input_types\":[\"GenericList[Tensor(c10::Half)," \
	"Tensor(c10::Half)]\",\"Int\"]"
#define OLD_ET(nodes) "{\"schema\": \"1.0.1\", \"nodes\": [" nodes "]}"

static void check_old(const struct taut_run *run, size_t n, int64_t in,
	int64_t seq)
{
	const struct taut_comm_args *comm = nth_comm(run, n);
	assert_non_null(comm);
	check_text(run, comm->collective, "allreduce");
	check_text(run, comm->dtype, "Half");
	assert_int_equal(comm->in_elements, in);
	assert_int_equal(comm->seq, seq);
	assert_int_equal(comm->local_group, 93825);
	assert_int_equal(comm->group_size, 8);
}

static void test_by_a_constant(void **state)
{
	(void)state;
	struct taut_run *run = NULL;
	assert_int_equal(open_both(KINETO(
			OP("aten::mm", 9, 10, INDEX(5)) ","
			OP("record_param_comms", 9, 20, INDEX(6)) ","
			OP("aten::mm", 9, 30, INDEX(7)) ","
			OP("record_param_comms", 9, 40, INDEX(8))),
		OLD_ET(FLAT("aten::mm", 4, 1, "[]") ","
			FLAT("record_param_comms", 5, 1, ALL_REDUCE(3, 64)) ","
			FLAT("aten::mm", 6, 1, "[]") ","
			FLAT("record_param_comms", 7, 1, ALL_REDUCE(4, 65))),
		&run), TAUT_OK);
	check_old(run, 0, 100, 3);
	check_old(run, 1, 101, 4);
	assert_non_null(strstr(run->notes[0], "4 of its 4"));
	assert_non_null(strstr(run->notes[0], "by Ev Idx"));
	taut_run_close(run);
}

static void test_what_the_profiler_says_stays(void **state)
{
	(void)state;
	struct taut_run *run = NULL;
	assert_int_equal(open_both(KINETO(
			OP("record_param_comms", 9, 20, ID(5)
				",\"Collective name\":\"allgather\","
				"\"Group size\":4")),
		OLD_ET(FLAT("record_param_comms", 5, 1, ALL_REDUCE(3, 64))),
		&run), TAUT_OK);
	const struct taut_comm_args *comm = nth_comm(run, 0);
	check_text(run, comm->collective, "allgather");
	check_text(run, comm->dtype, "Half");
	assert_int_equal(comm->group_size, 4);
	taut_run_close(run);
}

/* No number fits; thread 1 of the ET is 70, thread 2 is 60. */
static void test_by_order(void **state)
{
	(void)state;
	struct taut_run *run = NULL;
	assert_int_equal(open_both(KINETO(
			OP("b", 60, 10, INDEX(5)) ","
			OP("record_param_comms", 60, 20, INDEX(60)) ","
			OP("a", 70, 30, INDEX(80)) ","
			OP("record_param_comms", 70, 40, INDEX(700)) ","
			OP("record_param_comms", 70, 50, INDEX(2000))),
		OLD_ET(FLAT("a", 4, 1, "[]") ","
			FLAT("record_param_comms", 5, 1, ALL_REDUCE(1, 1)) ","
			FLAT("record_param_comms", 6, 1, ALL_REDUCE(2, 2)) ","
			FLAT("b", 7, 2, "[]") ","
			FLAT("record_param_comms", 9, 2, ALL_REDUCE(3, 3))),
		&run), TAUT_OK);
	assert_non_null(strstr(run->notes[0], "5 of its 5"));
	assert_non_null(strstr(run->notes[0], "by their order"));
	check_old(run, 0, 39, 3); /* lane 60 comes first */
	check_old(run, 1, 37, 1);
	check_old(run, 2, 38, 2);
	taut_run_close(run);
}

#define STEP(at) \
	OP("a", 70, at##0, INDEX(at##900)) "," \
	OP("b", 70, at##1, INDEX(at##910)) "," \
	OP("c", 70, at##2, INDEX(at##920)) "," \
	OP("d", 70, at##3, INDEX(at##930)) "," \
	OP("e", 70, at##4, INDEX(at##940)) "," \
	OP("f", 70, at##5, INDEX(at##950)) "," \
	OP("a", 70, at##6, INDEX(at##960)) "," \
	OP("record_param_comms", 70, at##7, INDEX(at##970))

/* One step of the ET, three of Kineto and the beginning of a fourth. */
static void test_steps_that_repeat(void **state)
{
	(void)state;
	struct taut_run *run = NULL;
	assert_int_equal(open_both(KINETO(STEP(1) "," STEP(2) "," STEP(3) ","
			OP("a", 70, 50, INDEX(7777))),
		OLD_ET(FLAT("a", 1, 1, "[]") "," FLAT("b", 2, 1, "[]") ","
			FLAT("c", 3, 1, "[]") "," FLAT("d", 4, 1, "[]") ","
			FLAT("e", 5, 1, "[]") "," FLAT("f", 6, 1, "[]") ","
			FLAT("a", 7, 1, "[]") ","
			FLAT("record_param_comms", 8, 1, ALL_REDUCE(5, 9))),
		&run), TAUT_OK);
	assert_non_null(strstr(run->notes[0], "8 of its 8"));
	assert_non_null(strstr(run->notes[0],
		"in every step), and 3 collectives"));
	for (size_t i = 0; i < 3; i++) /* which step it was is not known */
		check_old(run, i, 45, -1);
	taut_run_close(run);
}

/* --- what does not fit ------------------------------------------------------------ */

static void test_of_another_run(void **state)
{
	(void)state;
	struct taut_run *run = NULL;
	assert_int_equal(open_both(KINETO(
			OP("aten::mm", 9, 10, ID(5))),
		OLD_ET(FLAT("aten::add", 5, 1, "[]")), &run), TAUT_OK);
	assert_int_equal(run->n_traces, 1);
	assert_int_equal(run->n_notes, 1);
	assert_non_null(strstr(run->notes[0], "of another run"));
	assert_non_null(strstr(run->notes[0], "(left out)"));
	taut_run_close(run);
}

static void test_alone(void **state)
{
	(void)state;
	assert_non_null(strstr(refusal(OLD_ET(FLAT("a", 5, 1, "[]"))),
		"is a PyTorch execution trace (schema 1.0.1), which holds no "
		"times; give the Kineto trace of the same run"));
}

/* Two ranks, and an ET whose rank neither its name nor anything else tells. */
static void test_whose_it_is_cannot_be_told(void **state)
{
	(void)state;
	char other[128], stray[128];
	struct taut_run *run = NULL;
	snprintf(other, sizeof other, "%s/trace_rank3.json", folder);
	snprintf(stray, sizeof stray, "%s/et.json", folder);
	write_file(other, KINETO(OP("aten::mm", 9, 10, ID(5))));
	write_file(stray, OLD_ET(FLAT("aten::mm", 5, 1, "[]")));
	assert_int_equal(open_both(KINETO(OP("aten::mm", 9, 10, ID(5))),
		OLD_ET(FLAT("aten::mm", 5, 1, "[]")), &run), TAUT_OK);
	unlink(other);
	unlink(stray);
	assert_int_equal(run->n_traces, 2);
	assert_int_equal(run->n_notes, 2);
	assert_non_null(strstr(run->notes[0], "1 of its 1") ?
		strstr(run->notes[1], "et.json") :
		strstr(run->notes[1], "1 of its 1"));
	taut_run_close(run);
}

/* As PyTorch's own handler names them, after the host and the process; the
 * rank stands inside. */
static void test_rank_inside_the_trace(void **state)
{
	(void)state;
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	const char *paths[] = { folder };
	char traces[2][160], ets[2][128];
	for (int rank = 0; rank < 2; rank++) {
		char text[1024];
		snprintf(traces[rank], sizeof *traces,
			"%s/host_%d.1700000000000.pt.trace.json", folder,
			900 - rank);
		snprintf(text, sizeof text, "{\"schemaVersion\":1,"
			"\"distributedInfo\":{\"rank\":%d},"
			"\"traceEvents\":[%s]}", rank, OP("mm", 9, 10, ID(5)));
		write_file(traces[rank], text);
		snprintf(ets[rank], sizeof *ets, "%s/et_rank%d.json", folder,
			rank);
		write_file(ets[rank], OLD_ET(FLAT("mm", 5, 1, "[]")));
	}
	taut_status status = taut_run_open(paths, 1, NULL, &run, &err);
	for (int rank = 0; rank < 2; rank++) {
		unlink(traces[rank]);
		unlink(ets[rank]);
	}
	assert_int_equal(status, TAUT_OK);
	assert_int_equal(run->n_traces, 2);
	assert_int_equal(run->n_notes, 2);
	for (int rank = 0; rank < 2; rank++) {
		assert_int_equal(run->traces[rank].rank, rank);
		assert_non_null(strstr(run->notes[rank], "1 of its 1"));
		assert_ptr_equal(strstr(run->notes[rank], ets[rank]),
			run->notes[rank]);
	}
	taut_run_close(run);
}

static void test_cut_at_every_byte(void **state)
{
	(void)state;
	size_t joined = 0, len = sizeof new_et - 1;
	for (size_t n = 1; n < len; n++) {
		struct taut_run *run = NULL;
		char et[sizeof new_et];
		memcpy(et, new_et, n);
		et[n] = '\0';
		taut_status status = open_both(new_kineto, et, &run);
		/* what cannot be an ET any more is some broken JSON */
		assert_true(status == TAUT_OK || status == TAUT_EFORMAT);
		if (status == TAUT_OK && run->n_notes)
			joined += strstr(run->notes[0], "operators are") !=
				NULL;
		taut_run_close(run);
	}
	assert_true(joined > 100);
}

static void test_memory_that_runs_out(void **state)
{
	(void)state;
	taut_status status = TAUT_ENOMEM;
	long n = 0;
	for (; status != TAUT_OK; n++) {
		const char *paths[] = { folder };
		struct taut_run_options options = { .threads = 1 };
		struct taut_run *run = NULL;
		write_file(kineto_path, new_kineto);
		write_file(et_path, new_et);
		alloc_fail_after(n);
		status = taut_run_open(paths, 1, &options, &run, NULL);
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM ||
			    status == TAUT_EIO);
		assert_true(n < 2000);
		taut_run_close(run);
	}
	assert_true(n > 30);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_plainly_said),
		TEST(test_begun_before_the_profiler),
		TEST(test_by_a_constant),
		TEST(test_what_the_profiler_says_stays),
		TEST(test_by_order),
		TEST(test_steps_that_repeat),
		TEST(test_of_another_run),
		TEST(test_alone),
		TEST(test_whose_it_is_cannot_be_told),
		TEST(test_rank_inside_the_trace),
		TEST(test_cut_at_every_byte),
		TEST(test_memory_that_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
