#include "trace/test_support.h"

#include <sqlite3.h>

#include "tests/support/alloc_fail.h"
#include "trace/formats/nsight.h"

/* Two processes, 144 and 145, as global ids. */
#define PID(pid) "((1 << 48) | (" #pid " << 24))"
#define TID(pid, tid) "((1 << 48) | (" #pid " << 24) | " #tid ")"

static const char schema[] =
	"CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
	"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT,"
	" deviceId INT, contextId INT, streamId INT, correlationId INT,"
	" globalPid INT, demangledName INT, shortName INT);"
	"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT,"
	" deviceId INT, contextId INT, streamId INT, correlationId INT,"
	" globalPid INT, bytes INT, copyKind INT, srcKind INT, dstKind INT);"
	"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT, end INT,"
	" deviceId INT, contextId INT, streamId INT, correlationId INT,"
	" globalPid INT, value INT, bytes INT);"
	"CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT,"
	" globalTid INT, correlationId INT, nameId INT);"
	"CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INT,"
	" end INT, deviceId INT, contextId INT, streamId INT,"
	" correlationId INT, globalPid INT, syncType INT, eventId INT,"
	" eventSyncId INT);"
	"CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INT,"
	" contextId INT, streamId INT, correlationId INT, globalPid INT,"
	" eventId INT, eventSyncId INT);"
	"CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT,"
	" text TEXT, globalTid INT, textId INT, domainId INT,"
	" jsonText TEXT);"
	"CREATE TABLE ThreadNames (nameId INT, globalTid INT);"
	"CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT,"
	" systemClockNs INT);"
	"CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);"
	"CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);"
	"INSERT INTO StringIds VALUES (7, 'void gemm<float>(int)'),"
	" (8, 'cudaLaunchKernel_v7000'), (9, 'pt_autograd_0'),"
	" (70000, 'cuMemcpyHtoDAsync_v2'), (10, 'main');";

/* Process 145 stands first in the table, and on the second device. */
static const char two_ranks[] =
	"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
	" (2000, 2500, 1, 2, 15, 31, " PID(145) ", 7, 8),"
	" (1000, 1600, 0, 1, 7, 31, " PID(144) ", 7, 8),"
	" (1700, 1900, 0, 1, 7, 32, " PID(144) ", 7, 8);"
	"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES"
	" (1600, 1650, 0, 1, 7, 33, " PID(144) ", 4096, 1, 0, 2),"
	" (1600, 1650, 0, 9, 7, 33, " PID(99) ", 8, 1, 0, 2);"
	"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES"
	" (900, 950, " TID(144, 144) ", 31, 8),"
	" (960, 990, " TID(144, 144) ", 33, 70000),"
	" (1900, 1950, " TID(145, 200) ", 31, 8);"
	"INSERT INTO ThreadNames VALUES (10, " TID(144, 144) "),"
	" (10, " TID(144, 999) ");"
	"INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES"
	" (1700000000000000500, 500);"
	"INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'node7');"
	"INSERT INTO META_DATA_CAPTURE VALUES"
	" ('PROCESS_0:ENVIRONMENT_VARIABLE', 'WORLD_SIZE=\"2\"');";

static unsigned char *export(const char *sql, size_t *ret_len)
{
	sqlite3 *db = NULL;
	char *fault = NULL;
	sqlite3_int64 len = 0;
	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	if (sqlite3_exec(db, schema, NULL, NULL, &fault) != SQLITE_OK ||
		sqlite3_exec(db, sql, NULL, NULL, &fault) != SQLITE_OK)
		fail_msg("%s", fault);
	unsigned char *bytes = sqlite3_serialize(db, "main", &len, 0);
	assert_non_null(bytes);
	sqlite3_close(db);
	*ret_len = (size_t)len;
	return bytes;
}

static struct taut_run *open_sql(const char *sql)
{
	size_t len;
	unsigned char *bytes = export(sql, &len);
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	if (taut_run_open_memory("t.sqlite", bytes, len, -1, &run, &err) !=
		TAUT_OK)
		fail_msg("%s", err.message);
	sqlite3_free(bytes);
	return run;
}

/* The only row of a kind; TAUT_NONE: none. */
static uint32_t row_of(const struct taut_trace *t, enum taut_kind kind)
{
	for (uint32_t i = 0; i < t->n_events; i++)
		if (t->kind[i] == kind)
			return i;
	return TAUT_NONE;
}

static uint32_t row_named(const struct taut_trace *t, const char *name)
{
	for (uint32_t i = 0; i < t->n_events; i++)
		if (strcmp(taut_trace_name(t, i), name) == 0)
			return i;
	fail_msg("nothing is named %s", name);
	return TAUT_NONE;
}

static void test_each_process_is_a_rank(void **state)
{
	(void)state;
	struct taut_run *run = open_sql(two_ranks);
	assert_int_equal(run->n_traces, 2);
	const struct taut_trace *a = &run->traces[0], *b = &run->traces[1];
	assert_int_equal(a->rank, 0);
	assert_int_equal(b->rank, 1);
	assert_int_equal(a->world_size, 2);
	assert_string_equal(a->host, "node7");
	assert_string_equal(b->host, "node7");
	assert_string_equal(a->format, "nsight");
	assert_int_equal(a->n_events, 5);
	assert_int_equal(b->n_events, 2);
	assert_int_equal(a->base_ns, 1700000000000000900);
	assert_int_equal(b->base_ns, 1700000000000001900);
	assert_int_equal(a->lanes[0].kind, TAUT_LANE_THREAD);
	assert_int_equal(a->lanes[0].tid, 144);
	assert_string_equal(
		taut_names_text(a->names, a->lanes[0].name), "main");
	assert_int_equal(a->lanes[1].kind, TAUT_LANE_STREAM);
	assert_int_equal(a->lanes[1].tid, 7);
	assert_int_equal(b->lanes[1].pid, 1);
	taut_run_close(run);
}

static void test_device_work(void **state)
{
	(void)state;
	struct taut_run *run = open_sql(two_ranks);
	const struct taut_trace *t = &run->traces[0];
	uint32_t kernel = row_of(t, TAUT_KIND_KERNEL);
	uint32_t copy = row_of(t, TAUT_KIND_MEMCPY);
	assert_string_equal(
		taut_trace_name(t, kernel), "void gemm<float>(int)");
	assert_int_equal(t->start_ns[kernel], 100);
	assert_int_equal(t->dur_ns[kernel], 600);
	assert_int_equal(t->correlation[kernel], 31);
	assert_string_equal(taut_trace_name(t, copy),
		"Memcpy HtoD (Pageable -> Device)");
	assert_int_equal(taut_trace_copy(t, copy)->bytes, 4096);
	assert_string_equal(taut_trace_name(t, 0), "cudaLaunchKernel");
	assert_string_equal(taut_trace_name(t, 1), "cuMemcpyHtoDAsync_v2");
	assert_int_equal(t->correlation[0], 31);
	assert_int_equal(run->n_notes, 2); /* the order, and process 99 */
	assert_non_null(strstr(run->notes[0], "process 145 (device 1) is rank 1"));
	assert_non_null(strstr(run->notes[1], "1 rows of processes"));
	taut_run_close(run);
}

/* Synchronisation of device 1 says device 0; the context tells. */
static void test_syncs(void **state)
{
	(void)state;
	struct taut_run *run = open_sql(
		"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
		" (10, 20, 3, 2, 15, 1, " PID(145) ", 7, 8);"
		"INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES"
		" (0, 2, 15, 5, " PID(145) ", 40, 900),"
		" (0, 2, 16, 8, " PID(145) ", 40, 901),"
		" (0, 2, 17, 9, " PID(144) ", 40, 901);"
		"INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES"
		" (30, 31, 0, 2, 24, 9, " PID(145) ", 2, 40, 901),"
		" (32, 33, 0, 2, 24, 10, " PID(145) ", 2, 40, 777),"
		" (40, 90, 0, 2, 15, 11, " PID(145) ", 3, 4294967295, 0),"
		" (95, 96, 0, 2, 4294967295, 12, " PID(145) ", 4,"
		"  4294967295, 0),"
		" (97, 98, 0, 2, 15, 13, " PID(145) ", 99, 1, 0);");
	const struct taut_trace *t = &run->traces[0];
	assert_int_equal(t->n_syncs, 4);
	const struct taut_sync_args *known = NULL, *other = NULL,
		*stream = NULL, *context = NULL;
	for (size_t i = 0; i < t->n_syncs; i++) {
		const struct taut_sync_args *s = &t->syncs[i];
		uint32_t c = t->correlation[s->event];
		*(c == 9 ? &known : c == 10 ? &other : c == 11 ? &stream :
			&context) = s;
		assert_int_equal(t->lanes[t->lane[s->event]].pid, 3);
	}
	assert_int_equal(known->kind, TAUT_SYNC_STREAM_WAIT);
	assert_int_equal(known->stream, 24);
	assert_int_equal(known->wait_stream, 16);
	assert_int_equal(known->wait_correlation, 8);
	assert_int_equal(other->wait_stream, -1);
	assert_int_equal(other->wait_correlation, -1);
	assert_int_equal(stream->kind, TAUT_SYNC_STREAM);
	assert_int_equal(stream->stream, 15);
	assert_int_equal(context->kind, TAUT_SYNC_CONTEXT);
	assert_int_equal(context->stream, -1);
	taut_run_close(run);
}

#define RANGE(start, end, text) \
	"INSERT INTO NVTX_EVENTS VALUES (" #start ", " #end ", 59, '" text \
	"', " TID(5, 5) ", NULL, 0, NULL);"

static void test_ranges(void **state)
{
	(void)state;
	struct taut_run *run = open_sql(
		RANGE(0, 100, "my \"range\"\n")
		RANGE(10, 20, "aten::add, seq = 12, op_id = 7")
		RANGE(30, 60, "nccl:all_reduce, op_id = 8")
		RANGE(70, NULL, "open")
		"INSERT INTO NVTX_EVENTS VALUES (31, 50, 59, 'ncclAllReduce', "
		TID(5, 5) ", NULL, 1, '{\"NCCL communicator ID\": 255, "
		"\"Message size [bytes]\": 640, \"Reduction operation\": 0}'),"
		" (75, NULL, 34, 'a mark', " TID(5, 5) ", NULL, 0, NULL),"
		" (80, 90, 60, 'started', " TID(5, 5) ", NULL, 0, NULL);"
		"INSERT INTO ThreadNames VALUES (9, " TID(5, 5) ");");
	const struct taut_trace *t = &run->traces[0];
	assert_int_equal(t->n_events, 6);
	uint32_t row = row_named(t, "aten::add");
	assert_int_equal(t->kind[row], TAUT_KIND_OP);
	assert_int_equal(t->sequence[row], 13);
	assert_true(t->flags[row] & TAUT_EVENT_BACKWARD);
	row = row_named(t, "my \"range\" ");
	assert_int_equal(t->kind[row], TAUT_KIND_ANNOTATION);
	row = row_named(t, "nccl:all_reduce");
	assert_string_equal(taut_names_text(t->names,
		taut_trace_comm(t, row)->collective), "all_reduce");
	row = row_named(t, "ncclAllReduce");
	const struct taut_comm_args *said = taut_trace_comm(t, row);
	assert_int_equal(said->in_elements, 640);
	assert_string_equal(taut_names_text(t->names, said->dtype), "Byte");
	assert_string_equal(
		taut_names_text(t->names, said->group_name), "ff");
	row = row_named(t, "open");
	assert_int_equal(t->dur_ns[row], 30); /* the last of its thread */
	assert_true(t->flags[row] & TAUT_EVENT_CUT);
	row = row_named(t, "started");
	assert_int_equal(t->lanes[t->lane[row]].kind, TAUT_LANE_OTHER);
	taut_run_close(run);
}

static size_t count_steps(const struct taut_trace *t, uint32_t *ret_first)
{
	size_t n = 0;
	for (uint32_t i = 0; i < t->n_events; i++)
		if (t->kind[i] == TAUT_KIND_STEP && !n++)
			*ret_first = i;
	return n;
}

static void check_steps(
	const char *sql, size_t count, const char *name, uint32_t sequence)
{
	struct taut_run *run = open_sql(sql);
	uint32_t first = 0;
	assert_int_equal(count_steps(&run->traces[0], &first), count);
	if (count) {
		assert_string_equal(
			taut_trace_name(&run->traces[0], first), name);
		assert_int_equal(run->traces[0].sequence[first], sequence);
	}
	taut_run_close(run);
}

static void test_steps(void **state)
{
	(void)state;
	check_steps(RANGE(0, 90, "epoch 1") RANGE(1, 40, "iteration 7")
		RANGE(2, 20, "step 1") RANGE(20, 30, "step 2")
		RANGE(41, 80, "iteration 8"), 2, "iteration 7", 8);
	check_steps(RANGE(0, 50, "ProfilerStep#3"), 1, "ProfilerStep#3", 4);
	check_steps(RANGE(0, 9, "train_step") RANGE(10, 19, "train_step")
		RANGE(11, 12, "forward"), 2, "train_step", 0);
	check_steps(RANGE(0, 9, "train_step"), 0, "", 0);
	check_steps(RANGE(0, 100, "work") RANGE(101, 200, "work")
		RANGE(1, 9, "forward") RANGE(201, 300, "work"), 3, "work", 0);
	/* too little of the time between the first and the last */
	check_steps(RANGE(0, 10, "eval") RANGE(101, 110, "eval")
		RANGE(201, 210, "eval"), 0, "", 0);
	/* a step word in an operator or with something behind its number */
	check_steps(RANGE(0, 9, "aten::step, op_id = 4"), 0, "", 0);
	check_steps(RANGE(0, 9, "Step 4/100") RANGE(9, 19, "Step 5/100"), 2,
		"Step 4/100", 5);
}

static void test_call_names(void **state)
{
	(void)state;
#define LEN(text) tauti_nsight_call_len(text, strlen(text))
	assert_int_equal(LEN("cudaLaunchKernel_v7000"), 16);
	assert_int_equal(LEN("cudaMemcpyAsync_ptsz_v7000"), 15);
	assert_int_equal(LEN("cudaGraphLaunch_v10000"), 15);
	assert_int_equal(LEN("cudaStreamGetCaptureInfo_v2_v11030"), 27);
	assert_int_equal(LEN("cuMemcpyHtoDAsync_v2"), 20);
	assert_int_equal(LEN("cuMemAlloc_v3020"), 16);
	assert_int_equal(LEN("cuda"), 4);
	assert_int_equal(LEN("cudaX_7000"), 10);
}

/* Older exports: kernels say no process; names by other columns. */
static void test_old_columns(void **state)
{
	(void)state;
	struct taut_run *run = open_sql(
		"DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;"
		"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end,"
		" correlationId, shortName);"
		"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
		" (10, 20, 1, 7);"
		"DROP TABLE TARGET_INFO_SESSION_START_TIME;"
		"DROP TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT;"
		"DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY;"
		"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, bytes);"
		"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES"
		" (5, 9, " TID(144, 144) ", 1, 8);");
	const struct taut_trace *t = &run->traces[0];
	assert_int_equal(run->n_traces, 1);
	assert_int_equal(t->rank, 0);
	assert_int_equal(t->n_events, 2);
	assert_string_equal(taut_trace_name(t, 1), "void gemm<float>(int)");
	assert_int_equal(run->n_notes, 1);
	assert_non_null(strstr(run->notes[0],
		"CUPTI_ACTIVITY_KIND_MEMCPY lacks a column"));
	taut_run_close(run);
}

static void test_rank_of_the_environment(void **state)
{
	(void)state;
	struct taut_run *run = open_sql(
		RANGE(0, 9, "x")
		"INSERT INTO META_DATA_CAPTURE VALUES ('', 'RANK=\"3\"'),"
		" ('', 'OMPI_COMM_WORLD_RANK=9'), ('', 'XRANK=7');");
	assert_int_equal(run->traces[0].rank, 3);
	taut_run_close(run);
}

static const char *refused(const char *sql, taut_status expected)
{
	static struct taut_error err;
	size_t len;
	unsigned char *bytes = export(sql, &len);
	struct taut_run *run = NULL;
	assert_int_equal(taut_run_open_memory(
		"t.sqlite", bytes, len, -1, &run, &err), expected);
	sqlite3_free(bytes);
	return err.message;
}

static void test_refusals(void **state)
{
	(void)state;
	assert_non_null(strstr(refused("DROP TABLE NVTX_EVENTS; DROP TABLE "
		"CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE "
		"CUPTI_ACTIVITY_KIND_RUNTIME;", TAUT_EFORMAT),
		"no Nsight Systems export"));
	assert_non_null(strstr(refused("", TAUT_EFORMAT), "without a kernel"));
	/* A view is not asked: it could compute for ever. */
	assert_non_null(strstr(refused("DROP TABLE NVTX_EVENTS; CREATE VIEW "
		"NVTX_EVENTS AS SELECT 1 AS start, 2 AS end, 59 AS eventType,"
		" 0 AS globalTid;", TAUT_EFORMAT), "without a kernel"));
}

/* Cut anywhere: what is whole is read, or one line says why not. */
static void test_cut_and_damaged(void **state)
{
	(void)state;
	size_t len;
	unsigned char *bytes = export(two_ranks, &len);
	for (size_t cut = 100; cut < len; cut += 509) {
		struct taut_run *run = NULL;
		struct taut_error err = { 0 };
		unsigned char *copy = malloc(len);
		assert_non_null(copy);
		memcpy(copy, bytes, len);
		memset(copy + cut, 0xff, len - cut < 700 ? len - cut : 700);
		size_t kept = cut % 2 ? len : cut;
		taut_status status = taut_run_open_memory(
			"t", copy, kept, -1, &run, &err);
		if (status != TAUT_OK) {
			assert_int_equal(status, TAUT_EFORMAT);
			assert_null(strchr(err.message, '\n'));
			assert_true(strlen(err.message) > 10);
		}
		taut_run_close(run);
		free(copy);
	}
	sqlite3_free(bytes);
}

/* What is cut off a page reads as rows of nothing, which are no rank. */
static void test_rows_of_nothing(void **state)
{
	(void)state;
	char sql[sizeof two_ranks + 256];
	snprintf(sql, sizeof sql, "%sINSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
		"VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),"
		" (0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL);",
		two_ranks);
	struct taut_run *run = open_sql(sql);
	bool told = false;
	assert_int_equal(run->n_traces, 2);
	for (uint32_t i = 0; i < run->n_notes; i++)
		told |= strstr(run->notes[i], "2 rows of device work without "
			"times are left out") != NULL;
	assert_true(told);
	taut_run_close(run);
}

static void test_no_memory(void **state)
{
	(void)state;
	size_t len;
	unsigned char *bytes = export(two_ranks, &len);
	taut_status status = TAUT_ENOMEM;
	for (long n = 0; status != TAUT_OK; n++) {
		struct taut_run *run = NULL;
		struct taut_error err = { 0 };
		alloc_fail_after(n);
		status = taut_run_open_memory(
			"t", bytes, len, -1, &run, &err);
		alloc_fail_never();
		if (status != TAUT_OK) {
			assert_int_equal(status, TAUT_ENOMEM);
			assert_non_null(strstr(err.message, "no memory"));
		}
		taut_run_close(run);
	}
	sqlite3_free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_process_is_a_rank),
		cmocka_unit_test(test_device_work),
		cmocka_unit_test(test_syncs),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_call_names),
		cmocka_unit_test(test_old_columns),
		cmocka_unit_test(test_rank_of_the_environment),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_cut_and_damaged),
		cmocka_unit_test(test_rows_of_nothing),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
