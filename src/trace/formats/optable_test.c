/* Tables of operations as somebody would write them. */
#include "trace/test_support.h"

#include "tests/support/alloc_fail.h"

#define HEADER "rank,step,name,kind,lane,start_us,duration_us,group,bytes\n"

static const char table[] = HEADER
	"1,7,matmul,compute,main,100,50.5,,\n"
	"0,7,matmul,compute,main,100.25,40,,\n"
	"0,7,grads,all-reduce,net,120,60,world,4096\n"
	"1,7,grads,all-reduce,net,130,50,world,4096\n"
	"0,7,\"save, then \"\"load\"\"\",copy,main,190,1e1,,77\r\n"
	"\n# a remark\n"
	"1,8,matmul,compute,main,200,1,,";

static size_t row(const struct taut_trace *t, const char *name)
{
	for (size_t i = 0; i < t->n_events; i++)
		if (!strcmp(taut_trace_name(t, i), name))
			return i;
	fail_msg("no %s", name);
	return 0;
}

static void check_row(const struct taut_trace *t, const char *name,
	enum taut_kind kind, int64_t start_ns, int64_t dur_ns)
{
	size_t i = row(t, name);
	assert_int_equal(t->kind[i], kind);
	assert_int_equal(t->start_ns[i] + t->base_ns, start_ns);
	assert_int_equal(t->dur_ns[i], dur_ns);
}

static const char *lane_name(const struct taut_trace *t, const char *name)
{
	return taut_names_text(t->names, t->lanes[t->lane[row(t, name)]].name);
}

static void test_rows(void **state)
{
	(void)state;
	struct taut_run *run = open_text(table);
	const struct taut_trace *t = run->traces;
	assert_string_equal(t->format, "operation table");
	assert_int_equal(run->n_traces, 2);
	assert_int_equal(run->n_notes, 0);
	assert_int_equal(t[1].rank, 1);
	assert_int_equal(t[1].world_size, 2);
	assert_true(t->is_table);
	check_row(t, "matmul", TAUT_KIND_OP, 100250, 40000);
	check_row(t, "grads", TAUT_KIND_COMM, 120000, 60000);
	check_row(t, "save, then \"load\"", TAUT_KIND_MEMCPY, 190000, 10000);
	check_row(&t[1], "matmul", TAUT_KIND_OP, 100000, 50500);
	assert_string_equal(lane_name(t, "matmul"), "main");
	assert_string_equal(lane_name(t, "grads"), "net");
	assert_int_equal(taut_trace_copy(t,
		row(t, "save, then \"load\""))->bytes, 77);
	/* steps reach from the first operation to the last of the main lane */
	check_row(t, "step 7", TAUT_KIND_STEP, 100250, 99750);
	check_row(&t[1], "step 7", TAUT_KIND_STEP, 100000, 50500);
	check_row(&t[1], "step 8", TAUT_KIND_STEP, 200000, 1000);
	taut_run_close(run);
}

static void test_communication(void **state)
{
	(void)state;
	struct taut_run *run = open_text(table);
	int64_t seq[2];
	for (int r = 0; r < 2; r++) {
		const struct taut_trace *t = &run->traces[r];
		const struct taut_comm_args *c =
			taut_trace_comm(t, row(t, "grads"));
		assert_string_equal(taut_names_text(
			t->names, c->collective), "all-reduce");
		assert_string_equal(taut_names_text(
			t->names, c->group_name), "world");
		assert_int_equal(c->group_size, 2);
		assert_int_equal(c->in_elements, 4096);
		seq[r] = c->seq;
	}
	assert_int_equal(seq[0], seq[1]);
	taut_run_close(run);
}

static int64_t seq_of(const char *text, const char *name)
{
	struct taut_run *run = open_text(text);
	int64_t seq = taut_trace_comm(
		run->traces, row(run->traces, name))->seq;
	taut_run_close(run);
	return seq;
}

/* Files of a rank each need not begin with the same step. */
static void test_numbers_of_files(void **state)
{
	(void)state;
	int64_t seq = seq_of(HEADER "0,2,sum 2,all-reduce,net,5,1,world,8\n",
		"sum 2");
	assert_int_equal(seq, seq_of(HEADER
		"1,1,sum 1,all-reduce,net,2,1,world,8\n"
		"1,2,sum 2,all-reduce,net,5,1,world,8\n", "sum 2"));
	assert_int_not_equal(seq, seq_of(HEADER
		"1,1,sum 1,all-reduce,net,2,1,world,8\n", "sum 1"));
}

/* One value of the column of times, in ns. */
static int64_t time_of(const char *header, const char *value)
{
	char text[256];
	snprintf(text, sizeof text, "%s,name,dur_ns\n%s,a,0\n", header, value);
	struct taut_run *run = open_text(text);
	int64_t at = run->traces->base_ns;
	taut_run_close(run);
	return at;
}

static void test_units(void **state)
{
	(void)state;
	assert_int_equal(time_of("start_s", "1.5"), 1500000000);
	assert_int_equal(time_of("start_ms", "1.5"), 1500000);
	assert_int_equal(time_of("start_us", "1.5"), 1500);
	assert_int_equal(time_of("start_ns", "15"), 15);
	assert_int_equal(time_of("start_ns", "15.9"), 15);
	assert_int_equal(time_of("Start_US", "2E3"), 2000000);
	assert_int_equal(time_of("start_s", "4.5e-05"), 45000);
	assert_int_equal(time_of("start_us", "-3"), -3000);
	assert_int_equal(time_of("ts_us", "1763683200000000.125"),
		1763683200000000125);
	assert_int_equal(time_of("start_s", "0.123456789123456789123"),
		123456789);
	/* an end instead of a duration, tabs instead of commas, no rank */
	struct taut_run *run = open_text("\xef\xbb\xbfname\tstart_us\tend_us\n"
		"a\t10\t12.5\n");
	assert_int_equal(run->traces->rank, 0);
	check_row(run->traces, "a", TAUT_KIND_OP, 10000, 2500);
	taut_run_close(run);
}

static void check_refusal(const char *text, const char *want)
{
	const char *line = refusal(text);
	if (!strstr(line, want))
		fail_msg("'%s' does not say '%s'", line, want);
}

static void test_refusals(void **state)
{
	(void)state;
	check_refusal("rank,name,start,duration_us\n0,a,1,2\n",
		"t.json:1: column 3 (start): expected a unit in its name");
	check_refusal("name,op,start_us,dur_us\na,b,1,2\n",
		"column 2 (op): says the same as column 1 (name)");
	check_refusal(HEADER "0,1,a,compute,m,x1,2,,\n",
		"t.json:2: column 6 (start_us): expected a time, found 'x1'");
	check_refusal(HEADER "0,1,a,compute,m,1,-2,,\n",
		"column 7 (duration_us): expected a duration, found '-2'");
	check_refusal(HEADER "0,1,a,,m,1,2,,\nzero,1,a,,m,1,2,,\n",
		"t.json:3: column 1 (rank): expected a whole number, found "
		"'zero'");
	check_refusal(HEADER ",1,a,compute,m,1,2,,\n",
		"expected a row with a rank");
	check_refusal(HEADER "0,1,,,m,1,2,,\n",
		"column 1 (rank): expected a name or a kind");
	check_refusal(HEADER "0,1,a\n",
		"column 3 (name): expected as many fields as the header has");
	check_refusal(HEADER "0,1,\"a,compute,m,1,2,,\n",
		"column 3 (name): expected a field that ends where its quotes");
	check_refusal("start_us,dur_us,name\n1,2,sum, of 3\n",
		"column 3 (name): expected as many fields as the header has, "
		"found 'sum'");
	check_refusal("start_us,dur_us,name\n1,2,a\n1,2,\"a\nb\" c\n3,1,d\n",
		"t.json:3: column 3 (name): expected a field that ends");
	check_refusal("name,start_us,end_us\na,10,9\n",
		"expected a row whose end is not before its start");
	check_refusal(HEADER, "without a readable row");
	check_refusal("name,start_us,dur_us,waits\na,1,1,\nb,2,1,5\n",
		"no column id says");
	check_refusal("name,start_us,dur_us,id\na,1,1,5\nb,2,1,5\n"
		"c,2,1,6\n", "t.json:3: id is that of line 2");
}

static void test_waits(void **state)
{
	(void)state;
	struct taut_run *run = open_text(
		"id,waits,rank,name,kind,start_ms,dur_ms\n"
		"a,,0,a,compute,0,5\n"
		"b,a,1,b,compute,6,5\n"
		"c,a; b,0,c,compute,11,1\n"
		"d,nobody,0,d,compute,12,1\n");
	const struct taut_trace *t = run->traces;
	assert_int_equal(t[0].n_ids, 3);
	assert_int_equal(t[0].n_waits, 3);
	assert_int_equal(t[1].n_ids, 1);
	assert_int_equal(t[1].n_waits, 1);
	assert_int_equal(t[1].waits[0].id, t[0].ids[0].id);
	assert_int_equal(t[0].waits[0].event, row(t, "c"));
	assert_int_equal(run->n_notes, 1);
	assert_non_null(strstr(run->notes[0], "1 wait for a row that is not"));
	taut_run_close(run);
}

/* Two stages, two micro-batches; nothing but the times and the roles. */
static void test_pipeline(void **state)
{
	(void)state;
	struct taut_run *run = open_text(
		"rank,stage,dp_rank,step,name,start_us,dur_us,micro_batch\n"
		"0,0,0,1,forward-compute,0,10,0\n"
		"0,0,0,1,forward-send,10,2,0\n"
		"0,0,0,1,forward-compute,10,10,1\n"
		"0,0,0,1,forward-send,20,4,1\n"
		"1,1,0,1,forward-recv,1,11,0\n"
		"1,1,0,1,forward-compute,12,10,0\n"
		"1,1,0,1,forward-recv,12,12,1\n"
		"1,1,0,1,forward-compute,24,10,1\n");
	const struct taut_trace *t = run->traces;
	assert_string_equal(taut_trace_fact(&t[1], "pipeline.stage"), "1");
	assert_string_equal(taut_trace_fact(&t[1], "data.rank"), "0");
	assert_string_equal(lane_name(&t[1], "forward-recv"),
		"forward receives");
	/* two sends wait for what they send, their lane's first for the step */
	assert_int_equal(t[0].n_waits, 3);
	/* two computations wait for receives, the second receive for the first
	 * computation, the first for the step */
	assert_int_equal(t[1].n_waits, 4);
	size_t recv = row(&t[1], "forward-recv");
	const struct taut_comm_args *c = taut_trace_comm(&t[1], recv);
	assert_int_equal(c->src_rank, 0);
	assert_int_equal(c->dst_rank, 1);
	assert_true(t[1].flags[recv] & TAUT_EVENT_MEETS);
	assert_int_equal(c->seq, taut_trace_comm(t, row(t, "forward-send"))->seq);
	taut_run_close(run);
}

static void check_tracks(const char *kind)
{
	char text[512];
	snprintf(text, sizeof text, "rank,name,kind,start_us,dur_us\n"
		"0,a,%s,0,10\n0,sum,all-reduce,10,5\n0,b,%s,15,10\n"
		"1,a,%s,0,10\n1,sum,all-reduce,8,5\n1,b,%s,10,10\n"
		"2,a,%s,0,10\n2,sum,all-reduce,10,5\n2,b,%s,12,10\n",
		kind, kind, kind, kind, kind, kind);
	struct taut_run *run = open_text(text);
	assert_string_equal(lane_name(&run->traces[0], "sum"), "compute");
	assert_string_equal(lane_name(&run->traces[1], "sum"), "collectives");
	assert_string_equal(lane_name(&run->traces[2], "sum"), "collectives");
	taut_run_close(run);
}

/* Refused in a folder, too, where what is no trace is passed by. */
static void test_part_of_a_pipeline(void **state)
{
	(void)state;
	static const char text[] = "rank,stage,name,start_us,dur_us\n"
		"1,1,forward-compute,0,10\n";
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	assert_int_equal(taut_run_open_memory("t.csv", text, sizeof text - 1,
		-1, &run, &err), TAUT_EMATCH);
	assert_non_null(strstr(err.message, "t.csv: has stage 1 of a pipeline, "
		"and not stage 0; expected all ranks of a pipeline in one"));
}

/* What never runs beside computation is on its lane, where none is told. */
static void test_tracks(void **state)
{
	(void)state;
	check_tracks("compute");
	check_tracks("kernel");
	check_tracks("copy");
}

/* Where the main lane is a device's, steps are on it all the same. */
static void test_steps_of_a_device(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEADER
		"0,1,a,kernel,gpu,0,10,,\n0,1,b,kernel,gpu,10,10,,\n"
		"0,1,sum,all-reduce,net,10,20,world,4\n"
		"0,1,put,copy,side,5,2,,\n0,2,a,kernel,gpu,40,10,,\n");
	const struct taut_trace *t = run->traces;
	check_row(t, "step 1", TAUT_KIND_STEP, 0, 20000);
	check_row(t, "step 2", TAUT_KIND_STEP, 40000, 10000);
	assert_string_equal(lane_name(t, "step 2"), "gpu");
	assert_int_equal(t->lanes[t->lane[row(t, "a")]].kind, TAUT_LANE_THREAD);
	assert_int_equal(t->lanes[t->lane[row(t, "put")]].kind,
		TAUT_LANE_STREAM);
	taut_run_close(run);
}

/* A quote within a field, or in a remark, is a sign as any other. */
static void test_quotes(void **state)
{
	(void)state;
	struct taut_run *run = open_text("start_us,dur_us,name\n"
		"1,1,read 5\" disk\n2,1,b\n# 3\" and\n3,1,read 5\" disk\n"
		"4,1,\"one,\n\"\"two\"\"\"\n6,1,e,,\n");
	const struct taut_trace *t = run->traces;
	assert_int_equal(t->n_events, 5);
	check_row(t, "b", TAUT_KIND_OP, 2000, 1000);
	check_row(t, "one, \"two\"", TAUT_KIND_OP, 4000, 1000);
	check_row(t, "e", TAUT_KIND_OP, 6000, 1000);
	taut_run_close(run);
}

/* Names of kernels are long; those of one length are told apart to the end. */
static void check_long_name(size_t len, const char *quote)
{
	char name[8192], text[32768];
	memset(name, 'n', len);
	name[len - 1] = '0';
	name[len] = '\0';
	int at = snprintf(text, sizeof text, HEADER "0,1,%s%s%s,kernel,s,1,2,,\n",
		quote, name, quote);
	name[len - 1] = '1';
	snprintf(text + at, sizeof text - (size_t)at,
		"0,1,%s%s%s,kernel,s,3,2,,\n", quote, name, quote);
	struct taut_run *run = open_text(text);
	name[len < 4096 ? len : 4096] = '\0';
	check_row(run->traces, name, TAUT_KIND_KERNEL, 3000 - 2000 * (len > 4096),
		2000);
	taut_run_close(run);
}

static void test_long_names(void **state)
{
	(void)state;
	static const size_t lens[] = { 512, 513, 4096, 4097 };
	for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
		check_long_name(lens[i], "");
		check_long_name(lens[i], "\"");
	}
}

static void test_gzip(void **state)
{
	(void)state;
	char packed[sizeof table + 256];
	struct taut_run *run = NULL;
	size_t len = gzip_member(table, sizeof table - 1, packed);
	assert_int_equal(taut_run_open_memory("t", packed, len, -1, &run,
		NULL), TAUT_OK);
	assert_int_equal(run->n_traces, 2);
	taut_run_close(run);
}

/* Cut anywhere, it is a shorter table or one line of complaint. */
static void test_cut(void **state)
{
	(void)state;
	for (size_t len = 1; len < sizeof table; len++) {
		struct taut_run *run = NULL;
		struct taut_error err = { 0 };
		taut_status status = taut_run_open_memory(
			"t", table, len, -1, &run, &err);
		assert_true(status == TAUT_OK || status == TAUT_EFORMAT);
		assert_true(status == TAUT_OK || err.message[0]);
		taut_run_close(run);
	}
}

static void test_memory_that_runs_out(void **state)
{
	(void)state;
	taut_status status = TAUT_ENOMEM;
	long n = 0;
	for (; status != TAUT_OK; n++) {
		struct taut_run *run = NULL;
		alloc_fail_after(n);
		status = taut_run_open_memory("t.csv", table,
			sizeof table - 1, -1, &run, NULL);
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
		assert_true(n < 1000);
		taut_run_close(run);
	}
	assert_true(n > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_communication),
		cmocka_unit_test(test_numbers_of_files),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_pipeline),
		cmocka_unit_test(test_part_of_a_pipeline),
		cmocka_unit_test(test_tracks),
		cmocka_unit_test(test_steps_of_a_device),
		cmocka_unit_test(test_quotes),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_gzip),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_memory_that_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
