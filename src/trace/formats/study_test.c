/* A table of two ranks and two steps, by hand. */
#include "trace/test_support.h"

#include "tests/support/alloc_fail.h"

#define HEADER \
	"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n"

static const char table[] = HEADER
	"0,0,0,9,forward-compute,0.001,0.0205,0,0,0,0\n"
	"0,0,0,9,forward-send,0.0215,0.00000000123,0,-1,-1,-1\r\n"
	"0,1,1,9,forward-recv,0,0.022,0,-1,-1,-1\n"
	"0,1,1,9,forward-compute,0.022,0.078,0,0,0,1\n"
	"0,0,0,4,layernorm-grads-all-reduce,0.5,0.25,0,0,-1,-1\n"
	"0,1,1,4,embedding-grads-all-reduce,0.5,0.125,0,0,-1,-1";

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

/* Step 4 takes 750 ms, so step 9 begins there. */
static void test_steps_and_ranks(void **state)
{
	(void)state;
	struct taut_run *run = open_text(table);
	assert_int_equal(run->n_traces, 2);
	assert_int_equal(run->n_notes, 0);
	for (uint32_t r = 0; r < 2; r++) {
		const struct taut_trace *t = &run->traces[r];
		assert_int_equal(t->rank, r);
		assert_int_equal(t->world_size, 2);
		check_row(t, "step 4", TAUT_KIND_STEP, 0, 750000000);
		check_row(t, "step 9", TAUT_KIND_STEP, 750000000, 100000000);
		assert_int_equal(t->sequence[row(t, "step 9")], 10);
		assert_true(t->is_table);
		check_row(t, "forward-compute", TAUT_KIND_OP,
			r ? 772000000 : 751000000, r ? 78000000 : 20500000);
	}
	check_row(&run->traces[0], "forward-send", TAUT_KIND_COMM, 771500000,
		1);
	taut_run_close(run);
}

static void check_comm(const struct taut_trace *t, const char *name,
	const char *collective, const char *group, int32_t src, int32_t dst)
{
	const struct taut_comm_args *comm = taut_trace_comm(t, row(t, name));
	assert_non_null(comm);
	assert_string_equal(
		taut_names_text(t->names, comm->collective), collective);
	assert_string_equal(taut_names_text(t->names, comm->group_name), group);
	assert_int_equal(comm->src_rank, src);
	assert_int_equal(comm->dst_rank, dst);
}

static void test_communication(void **state)
{
	(void)state;
	struct taut_run *run = open_text(table);
	const struct taut_trace *t = run->traces;
	check_comm(&t[0], "forward-send", "send", "", 0, 1);
	check_comm(&t[1], "forward-recv", "recv", "", 0, 1);
	check_comm(&t[0], "layernorm-grads-all-reduce", "all_reduce",
		"tensor parallel ranks of rank 0", -1, -1);
	check_comm(&t[1], "embedding-grads-all-reduce", "all_reduce",
		"first and last stage of replica 0", -1, -1);
	taut_run_close(run);
}

static void test_rows_that_are_none(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEADER
		"0,0,0,1,optimizer,0,0.5,0\n"
		"0,0,x,1,optimizer,0,0.5,0\n"
		"0,0,0,1,optimizer,0.5.5,0.5,0\n"
		"0,0,0,1,optimizer,1e3x,0.5,0\n"
		"0,0\n");
	assert_int_equal(run->traces[0].n_events, 2);
	assert_int_equal(run->traces[0].events_seen, 5);
	assert_int_equal(run->traces[0].events_lost, 4);
	assert_non_null(strstr(run->notes[0], "4 rows left out"));
	taut_run_close(run);
	assert_non_null(strstr(refusal(HEADER), "without a readable row"));
	assert_non_null(strstr(refusal(HEADER
		"0,0,0,1,optimizer,200000000,200000000,0\n"
		"0,0,0,2,optimizer,200000000,200000000,0\n"
		"0,0,0,3,optimizer,200000000,200000000,0\n"
		"0,0,0,4,optimizer,200000000,200000000,0\n"),
		"more than a job"));
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
		cmocka_unit_test(test_steps_and_ranks),
		cmocka_unit_test(test_communication),
		cmocka_unit_test(test_rows_that_are_none),
		cmocka_unit_test(test_memory_that_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
