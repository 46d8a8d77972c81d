/* Horovod, BytePS and ByteScheduler, from small texts worked out by hand. */
#include "trace/test_support.h"

#include <stdbool.h>

#include "tests/support/alloc_fail.h"

static const struct taut_trace *first(const struct taut_run *run)
{
	assert_int_equal(run->n_traces, 1);
	return &run->traces[0];
}

/* The row of that name; the test fails where there is none. */
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

static size_t count_kind(const struct taut_trace *t, enum taut_kind kind)
{
	size_t n = 0;
	for (size_t i = 0; i < t->n_events; i++)
		n += t->kind[i] == kind;
	return n;
}

static void check_span(const struct taut_trace *t, size_t i, int64_t start_ns,
	int64_t dur_ns)
{
	assert_int_equal(t->base_ns + t->start_ns[i], start_ns);
	assert_int_equal(t->dur_ns[i], dur_ns);
}

static bool has_note(const struct taut_run *run, const char *part)
{
	for (uint32_t i = 0; i < run->n_notes; i++)
		if (strstr(run->notes[i], part))
			return true;
	return false;
}

/* --- Horovod --------------------------------------------------------------- */

#define EPOCH \
	"[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": " \
	"{\"start_time_since_epoch_in_micros\":1633399518104473}},\n"
#define TENSOR(pid, name) \
	"{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": " pid \
	", \"args\": {\"name\": \"" name "\"}},\n"
#define B(pid, ts, name) \
	"{\"ph\": \"B\", \"name\": \"" name "\", \"ts\": " ts \
	", \"pid\": " pid "},"
#define E(pid, ts) "{\"ph\": \"E\", \"ts\": " ts ", \"pid\": " pid "},"
#define E_ARGS(pid, ts, dtype, shape) \
	"{\"ph\": \"E\", \"ts\": " ts ", \"pid\": " pid \
	", \"args\": {\"dtype\": \"" dtype "\", \"shape\": \"" shape "\"}},"
#define ARRIVE(pid, ts, rank) \
	"{\"ph\": \"X\", \"name\": \"" rank "\", \"ts\": " ts \
	", \"pid\": " pid ", \"dur\": 0},"

/* Two tensors, twice; ranks 0, 1 and 2 arrive as the comments say. */
#define HOROVOD \
	EPOCH TENSOR("1", "grad_a") TENSOR("2", "grad_b") \
	/* a: rank 2 last, 40 us behind rank 1 */ \
	B("1", "100", "NEGOTIATE_ALLREDUCE") ARRIVE("1", "101", "0") \
	/* b in between: rank 1 last, 5 us behind rank 0 */ \
	B("2", "102", "NEGOTIATE_ALLREDUCE") ARRIVE("1", "110", "1") \
	ARRIVE("2", "111", "2") ARRIVE("1", "150", "2") E("1", "151") \
	ARRIVE("2", "160", "0") ARRIVE("2", "165", "1") E("2", "166") \
	B("1", "170", "ALLREDUCE") B("2", "171", "ALLREDUCE") \
	B("1", "172", "NCCL_ALLREDUCE") E("1", "190") \
	E_ARGS("1", "191", "float32", "[256, 10]") \
	E_ARGS("2", "192", "float16", "[]") \
	B("1", "1170", "ALLREDUCE") \
	E_ARGS("1", "1191", "float32", "[256, 10]") \
	B("2", "1200", "ALLREDUCE") \
	E_ARGS("2", "1201", "float16", "[]")

#define EPOCH_NS ((int64_t)1633399518104473000)

static void test_horovod_operations(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HOROVOD);
	const struct taut_trace *t = first(run);
	assert_string_equal(t->format, "horovod");
	assert_int_equal(t->rank, 0);
	assert_int_equal(t->world_size, 3);
	assert_false(t->truncated);
	assert_int_equal(t->n_comms, 4);
	assert_int_equal(count_kind(t, TAUT_KIND_COMM), 4);

	size_t a = row_of(t, "ALLREDUCE grad_a");
	check_span(t, a, EPOCH_NS + 170000, 21000);
	assert_int_equal(t->lanes[t->lane[a]].kind, TAUT_LANE_STREAM);
	const struct taut_comm_args *args = taut_trace_comm(t, a);
	assert_string_equal(text_of(t, args->collective), "ALLREDUCE");
	assert_string_equal(text_of(t, args->dtype), "float32");
	assert_int_equal(args->in_elements, 2560);
	assert_int_equal(args->seq, 0);
	assert_int_equal(taut_trace_comm(t, a + 1)->seq, 1);
	/* b overlaps it at first, so it stands on the second stream */
	size_t b = t->comms[t->n_comms - 1].event;
	assert_string_equal(taut_trace_name(t, b), "ALLREDUCE grad_b");
	check_span(t, b, EPOCH_NS + 171000, 21000);
	assert_int_not_equal(t->lane[b], t->lane[a]);
	assert_int_equal(taut_trace_comm(t, b)->in_elements, 1);

	size_t inner = row_of(t, "NCCL_ALLREDUCE");
	assert_int_equal(t->kind[inner], TAUT_KIND_OTHER);
	assert_int_equal(t->lanes[t->lane[inner]].kind, TAUT_LANE_OTHER);
	assert_string_equal(
		text_of(t, t->lanes[t->lane[inner]].name), "grad_a");
	taut_run_close(run);
}

static void test_horovod_steps(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HOROVOD);
	const struct taut_trace *t = first(run);
	assert_int_equal(count_kind(t, TAUT_KIND_STEP), 1);
	size_t step = row_of(t, "step");
	check_span(t, step, EPOCH_NS + 170000, 1000000);
	assert_int_equal(t->sequence[step], 1);
	assert_int_equal(t->lanes[t->lane[step]].kind, TAUT_LANE_THREAD);
	taut_run_close(run);
}

static const char *fact(const struct taut_trace *t, const char *key)
{
	for (size_t i = 0; i < t->n_facts; i++)
		if (strcmp(t->facts[i].key, key) == 0)
			return t->facts[i].value;
	return "";
}

static void test_horovod_negotiation(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HOROVOD);
	const struct taut_trace *t = first(run);
	assert_string_equal(fact(t, "horovod.rank0.last"),
		"0 of 2, by 0.000 ms in all");
	assert_string_equal(fact(t, "horovod.rank1.last"),
		"1 of 2, by 0.005 ms in all");
	assert_string_equal(fact(t, "horovod.rank2.last"),
		"1 of 2, by 0.040 ms in all");
	assert_true(has_note(run, "rank 2 came last 1 times, 0.040 ms"));
	/* rank 0 waits 49 us with a and 5 us with b */
	int64_t waited = 0;
	for (size_t i = 0; i < t->n_events; i++)
		if (strcmp(text_of(t, t->lanes[t->lane[i]].name),
			    "rank 0 waits for the others") == 0)
			waited += t->dur_ns[i];
	assert_int_equal(waited, 54000);
	taut_run_close(run);
}

/* What the end cuts ends with the last event, and says so. */
static void test_horovod_cut(void **state)
{
	(void)state;
	struct taut_run *run = open_text(EPOCH TENSOR("1", "a")
		B("1", "10", "ALLREDUCE") B("1", "12", "MPI_ALLREDUCE")
		E("1", "30") "{\"ph\": \"E\", \"t");
	const struct taut_trace *t = first(run);
	assert_true(t->truncated);
	size_t a = row_of(t, "ALLREDUCE a");
	check_span(t, a, EPOCH_NS + 10000, 20000);
	assert_int_equal(t->flags[a], TAUT_EVENT_CUT);
	assert_int_equal(t->world_size, -1);
	/* nothing comes twice: one range over everything */
	check_span(t, row_of(t, "timeline"), EPOCH_NS + 10000, 20000);
	assert_true(has_note(run, "ends early at byte"));
	taut_run_close(run);
}

static void test_horovod_losses(void **state)
{
	(void)state;
	struct taut_run *run = open_text(EPOCH E("1", "5")
		B("1", "\"x\"", "ALLREDUCE") "{\"ph\": \"B\" \"ts\": 7},\n"
		"{\"ph\": \"B\", \"name\": \"Q\", \"ts\": 7, \"pid\": \"z\"},"
		B("1", "20", "ALLREDUCE") E("1", "19") "]");
	const struct taut_trace *t = first(run);
	assert_int_equal(t->events_lost, 4);
	assert_int_equal(t->n_comms, 1);
	assert_int_equal(t->dur_ns[row_of(t, "ALLREDUCE")], 0);
	assert_true(has_note(run, "(not JSON)"));
	assert_true(has_note(run, "(no readable ts or dur)"));
	assert_true(has_note(run, "(no readable pid or tid)"));
	assert_true(has_note(run, "(an end without its begin)"));
	assert_true(has_note(run, "1 events end before they begin"));
	assert_false(t->truncated);
	taut_run_close(run);
}

static void test_horovod_of_nothing(void **state)
{
	(void)state;
	assert_string_equal(refusal(EPOCH "]"),
		"t.json: of its 1 events none is of a kind that a Horovod "
		"timeline has");
	assert_non_null(strstr(refusal("[{\"name\": \"NEGOTIATE_ALLREDUCE\""),
		"before its first whole event; expected a Horovod timeline"));
}

/* --- ByteScheduler --------------------------------------------------------- */

#define S(phase, pid, ts, name) \
	"{\"ph\": \"" phase "\", \"pid\": " pid ", \"ts\": " ts \
	", \"name\": \"" name "\"}, "

/* Spans of one tensor cross; the array is never closed. */
static void test_bytescheduler(void **state)
{
	(void)state;
	struct taut_run *run = open_text("[" TENSOR("0", "fc6")
		S("B", "0", "10", "PUSH_PULLQUEUE")
		S("B", "0", "12", "PUSH_PULLCOMMUNICATION")
		S("E", "0", "13", "PUSH_PULLQUEUE")
		S("E", "0", "20", "PUSH_PULLCOMMUNICATION")
		S("B", "0", "32", "PUSH_PULLCOMMUNICATION")
		S("E", "0", "35", "PUSH_PULLCOMMUNICATION"));
	const struct taut_trace *t = first(run);
	assert_string_equal(t->format, "bytescheduler");
	assert_false(t->truncated);
	assert_int_equal(t->n_comms, 2);
	size_t i = row_of(t, "push_pull fc6");
	check_span(t, i, 12000, 8000);
	assert_string_equal(
		text_of(t, taut_trace_comm(t, i)->collective), "push_pull");
	check_span(t, row_of(t, "PUSH_PULLQUEUE"), 10000, 3000);
	check_span(t, row_of(t, "step"), 12000, 20000);
	taut_run_close(run);
}

/* --- BytePS ---------------------------------------------------------------- */

#define COMM(name, ts, dur, tid) \
	"{\"ph\": \"X\", \"args\": {\"name\": \"Comm.g\"}, " \
	"\"pid\": \"Comm.g\", \"name\": \"Comm.g" name "\", \"ts\": " ts \
	", \"dur\": " dur ", \"tid\": \"" tid "\", \"cat\": \"Comm\"}"

static void test_byteps(void **state)
{
	(void)state;
	struct taut_run *run = open_text("{\"traceEvents\": ["
		COMM("", "100", "900", "total") ","
		COMM(".PUSH", "100", "300", "0") ","
		COMM(".PULL", "400", "400", "0") ","
		COMM(".PUSH", "150", "300", "65536") ","
		COMM(".COPYH2D", "800", "50", "0")
		"], \"displayTimeUnit\": \"ms\"}");
	const struct taut_trace *t = first(run);
	assert_string_equal(t->format, "byteps");
	assert_int_equal(t->n_comms, 3);
	size_t pull = row_of(t, "PULL Comm.g");
	check_span(t, pull, 400000, 400000);
	assert_string_equal(
		text_of(t, taut_trace_comm(t, pull)->collective), "pull");
	/* partitions are numbered apart */
	for (size_t i = 0; i < t->n_comms; i++)
		assert_int_equal(t->comms[i].seq, 0);
	assert_int_equal(t->kind[row_of(t, "total")], TAUT_KIND_OTHER);
	assert_int_equal(t->kind[row_of(t, "COPYH2D")], TAUT_KIND_OTHER);
	taut_run_close(run);
}

/* Without phases the whole of a tensor is the operation. */
static void test_byteps_totals(void **state)
{
	(void)state;
	struct taut_run *run = open_text("{\"traceEvents\": ["
		COMM("", "100", "900", "total") ","
		COMM("", "2100", "800", "total") "]}");
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_comms, 2);
	assert_string_equal(
		text_of(t, t->comms[0].collective), "push_pull");
	check_span(t, row_of(t, "step"), 100000, 2000000);
	taut_run_close(run);
}

/* --- all ------------------------------------------------------------------- */

/* A long queue that never runs empty: as many streams as there may be. */
static void test_many_at_once(void **state)
{
	(void)state;
	enum { N = 400, ROOM = 160 };
	char *text = malloc((size_t)N * ROOM);
	assert_non_null(text);
	size_t len = (size_t)sprintf(text, "[" TENSOR("0", "a"));
	for (int i = 0; i < N; i++)
		len += (size_t)sprintf(text + len,
			S("B", "%d", "%d", "XCOMMUNICATION"), i, i);
	for (int i = 0; i < N; i++)
		len += (size_t)sprintf(text + len,
			S("E", "%d", "1000", "XCOMMUNICATION"), i);
	struct taut_run *run = open_text(text);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_comms, N);
	assert_int_equal(t->n_lanes, 256 + 1);
	taut_run_close(run);
	free(text);
}

/* Cut at every byte: what is whole is kept, or one line says why not. */
static void test_every_cut(void **state)
{
	(void)state;
	static const char text[] = HOROVOD;
	size_t most = 0;
	for (size_t len = 1; len < sizeof text; len++) {
		struct taut_run *run = NULL;
		struct taut_error err = { 0 };
		taut_status status = taut_run_open_memory(
			"t.json", text, len, -1, &run, &err);
		if (status != TAUT_OK) {
			assert_int_equal(status, TAUT_EFORMAT);
			assert_non_null(strstr(err.message, "t.json: "));
			assert_int_equal(most, 0);
			continue;
		}
		assert_true(run->traces[0].n_events >= most);
		most = run->traces[0].n_comms;
		taut_run_close(run);
	}
	assert_int_equal(most, 4);
}

static void test_no_memory(void **state)
{
	(void)state;
	static const char *const texts[] = { HOROVOD,
		"[" TENSOR("0", "fc6") S("B", "0", "12", "XCOMMUNICATION")
			S("B", "0", "9", "XQUEUE")
				S("E", "0", "20", "XCOMMUNICATION"),
		"{\"traceEvents\": [" COMM(".PUSH", "1", "2", "0") "]}" };
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct taut_run *run = NULL;
		taut_status status = TAUT_ENOMEM;
		for (int n = 0; status == TAUT_ENOMEM; n++) {
			alloc_fail_after(n);
			status = taut_run_open_memory("t.json", texts[i],
				strlen(texts[i]), -1, &run, NULL);
			alloc_fail_never();
		}
		assert_int_equal(status, TAUT_OK);
		taut_run_close(run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_horovod_operations),
		cmocka_unit_test(test_horovod_steps),
		cmocka_unit_test(test_horovod_negotiation),
		cmocka_unit_test(test_horovod_cut),
		cmocka_unit_test(test_horovod_losses),
		cmocka_unit_test(test_horovod_of_nothing),
		cmocka_unit_test(test_bytescheduler),
		cmocka_unit_test(test_byteps),
		cmocka_unit_test(test_byteps_totals),
		cmocka_unit_test(test_many_at_once),
		cmocka_unit_test(test_every_cut),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
