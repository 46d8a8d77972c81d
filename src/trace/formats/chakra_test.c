/* Chakra traces made by hand, message after message: what is read, what is
 * scheduled, and what is broken. */
#include "trace/test_support.h"

#include "tests/support/alloc_fail.h"

/* --- writing -------------------------------------------------------------- */

struct text {
	unsigned char bytes[4096];
	size_t len;
};

static void put(struct text *t, const void *bytes, size_t len)
{
	assert_true(t->len + len <= sizeof t->bytes);
	memcpy(t->bytes + t->len, bytes, len);
	t->len += len;
}

static void varint(struct text *t, uint64_t value)
{
	unsigned char byte;
	do {
		byte = (unsigned char)((value & 127) | (value > 127) << 7);
		put(t, &byte, 1);
		value >>= 7;
	} while (value);
}

static void number(struct text *t, unsigned field, uint64_t value)
{
	varint(t, field << 3);
	varint(t, value);
}

static void inside(struct text *t, unsigned field, const void *bytes, size_t len)
{
	varint(t, field << 3 | 2);
	varint(t, len);
	put(t, bytes, len);
}

static void attr(struct text *t, unsigned field, const char *name,
	unsigned type, uint64_t value)
{
	struct text a = { .len = 0 };
	inside(&a, 1, name, strlen(name));
	number(&a, type, value);
	inside(t, field, a.bytes, a.len);
}

static void text_attr(struct text *t, const char *name, const char *value)
{
	struct text a = { .len = 0 };
	inside(&a, 1, name, strlen(name));
	inside(&a, 29, value, strlen(value));
	inside(t, 10, a.bytes, a.len);
}

static void message(struct text *t, const struct text *m)
{
	varint(t, m->len);
	put(t, m->bytes, m->len);
}

static struct text begin(void)
{
	struct text t = { .len = 0 }, m = { .len = 0 };
	inside(&m, 1, "0.0.4", 5);
	message(&t, &m);
	return t;
}

/* A node without what follows its times. */
static struct text node(uint64_t id, const char *name, unsigned type,
	uint64_t start, uint64_t dur)
{
	struct text m = { .len = 0 };
	number(&m, 1, id);
	inside(&m, 2, name, strlen(name));
	number(&m, 3, type);
	if (start)
		number(&m, 6, start);
	if (dur)
		number(&m, 7, dur);
	return m;
}

static void on(struct text *m, int cpu, unsigned tid)
{
	attr(m, 10, "is_cpu_op", 27, (uint64_t)cpu);
	attr(m, 10, "tid", 9, tid);
}

/* --- reading -------------------------------------------------------------- */

static struct taut_run *open_bytes(const struct text *t)
{
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	if (taut_run_open_memory("t.et", t->bytes, t->len, -1, &run, &err) !=
		TAUT_OK)
		fail_msg("%s", err.message);
	return run;
}

static const char *refused(const void *bytes, size_t len)
{
	static struct taut_error err;
	struct taut_run *run = NULL;
	assert_int_equal(taut_run_open_memory(
				 "t.et", bytes, len, -1, &run, &err),
		TAUT_EFORMAT);
	return err.message;
}

/* The row of that name; the test fails without. */
static size_t row(const struct taut_trace *t, const char *name)
{
	for (size_t i = 0; i < t->n_events; i++)
		if (strcmp(taut_trace_name(t, i), name) == 0)
			return i;
	fail_msg("no %s", name);
	return 0;
}

static void test_times_are_told(void **state)
{
	(void)state;
	struct text t = begin(), m = node(7, "aten::mm", 4, 1000, 30);
	on(&m, 1, 42);
	message(&t, &m);
	m = node(9, "gemm", 4, 1020, 500);
	number(&m, 5, 7); /* not packed: one wait a field */
	on(&m, 0, 3);
	message(&t, &m);
	m = node(11, "ncclKernel", 7, 1520, 100);
	inside(&m, 4, "\x09", 1);
	on(&m, 0, 3);
	attr(&m, 10, "comm_type", 9, 2);
	attr(&m, 10, "comm_size", 9, 4096);
	text_attr(&m, "pg_name", "tp");
	message(&t, &m);

	struct taut_run *run = open_bytes(&t);
	const struct taut_trace *trace = &run->traces[0];
	assert_string_equal(trace->format, "chakra");
	assert_int_equal(run->n_notes, 0);
	assert_int_equal(trace->n_events, 3);
	assert_int_equal(trace->base_ns, 1000000);
	assert_int_equal(trace->n_lanes, 2);
	assert_int_equal(trace->lanes[0].kind, TAUT_LANE_THREAD);
	assert_int_equal(trace->lanes[0].tid, 42);
	assert_int_equal(trace->lanes[1].kind, TAUT_LANE_STREAM);
	/* what a device node waits for put it there */
	size_t mm = row(trace, "aten::mm"), gemm = row(trace, "gemm");
	assert_int_equal(trace->kind[mm], TAUT_KIND_RUNTIME);
	assert_int_equal(trace->kind[gemm], TAUT_KIND_KERNEL);
	assert_int_not_equal(trace->correlation[mm], 0);
	assert_int_equal(trace->correlation[mm], trace->correlation[gemm]);
	assert_int_equal(trace->start_ns[gemm], 20000);
	assert_int_equal(trace->dur_ns[gemm], 500000);
	size_t coll = row(trace, "ncclKernel");
	const struct taut_comm_args *comm = taut_trace_comm(trace, coll);
	assert_non_null(comm);
	assert_string_equal(
		taut_names_text(trace->names, comm->collective), "all_gather");
	assert_string_equal(
		taut_names_text(trace->names, comm->group_name), "tp");
	assert_int_equal(comm->in_elements, 4096);
	taut_run_close(run);
}

/* Two threads and a stream; worked out by hand:
 *
 *   thread 1   a 0-10            c 10-15
 *   thread 2            b 10-30
 *   stream 7                              k 30-130  l 130-131
 *
 * a -> b, a -> c, b -> k, c -> l. l could start at 15, but k, which is ready
 * at 30, ... is later: l runs first, 15-16. */
static struct text untimed(void)
{
	struct text t = begin(), m = node(1, "a", 4, 0, 10);
	on(&m, 1, 1);
	message(&t, &m);
	m = node(2, "b", 4, 0, 20);
	inside(&m, 5, "\x01", 1);
	on(&m, 1, 2);
	message(&t, &m);
	m = node(3, "c", 4, 0, 5);
	inside(&m, 5, "\x01", 1);
	on(&m, 1, 1);
	message(&t, &m);
	m = node(4, "k", 4, 0, 100);
	inside(&m, 5, "\x02", 1);
	on(&m, 0, 7);
	message(&t, &m);
	m = node(5, "l", 4, 0, 1);
	inside(&m, 5, "\x03", 1);
	on(&m, 0, 7);
	message(&t, &m);
	m = node(6, "m", 4, 0, 2); /* waits for l; its stream is taken */
	inside(&m, 5, "\x04\x05", 2);
	on(&m, 0, 7);
	message(&t, &m);
	return t;
}

static void check_start(
	const struct taut_trace *t, const char *name, int64_t us)
{
	assert_int_equal(t->start_ns[row(t, name)], us * 1000);
}

static void test_times_from_waits(void **state)
{
	(void)state;
	struct text t = untimed();
	struct taut_run *run = open_bytes(&t);
	const struct taut_trace *trace = &run->traces[0];
	check_start(trace, "a", 0);
	check_start(trace, "b", 10);
	check_start(trace, "c", 10);
	check_start(trace, "l", 15);
	check_start(trace, "k", 30);
	check_start(trace, "m", 130);
	assert_int_equal(run->n_notes, 1);
	assert_non_null(strstr(run->notes[0], "without start times"));
	taut_run_close(run);
}

/* One lane, two nodes that are ready at once: the order of the file. */
static void test_a_lane_runs_one_at_a_time(void **state)
{
	(void)state;
	struct text t = begin(), m = node(9, "first", 4, 0, 10);
	message(&t, &m);
	m = node(2, "second", 4, 0, 10);
	message(&t, &m);
	struct taut_run *run = open_bytes(&t);
	check_start(&run->traces[0], "first", 0);
	check_start(&run->traces[0], "second", 10);
	taut_run_close(run);
}

static void test_control_where_there_is_no_data(void **state)
{
	(void)state;
	struct text t = begin(), m = node(1, "late", 4, 0, 10);
	inside(&m, 4, "\x02", 1);
	message(&t, &m);
	m = node(2, "early", 4, 0, 10);
	message(&t, &m);
	struct taut_run *run = open_bytes(&t);
	check_start(&run->traces[0], "early", 0);
	check_start(&run->traces[0], "late", 10);
	taut_run_close(run);
}

static void test_a_circle_ends(void **state)
{
	(void)state;
	struct text t = begin(), m = node(1, "a", 4, 0, 10);
	inside(&m, 5, "\x02", 1);
	message(&t, &m);
	m = node(2, "b", 4, 0, 10);
	inside(&m, 5, "\x01\x09", 2); /* and 9, which is not there */
	message(&t, &m);
	struct taut_run *run = open_bytes(&t);
	check_start(&run->traces[0], "a", 0);
	check_start(&run->traces[0], "b", 10);
	assert_int_equal(run->n_notes, 3);
	assert_non_null(strstr(run->notes[1], "1 nodes wait for themselves"));
	assert_non_null(strstr(run->notes[2], "1 waits are for nodes"));
	taut_run_close(run);
}

static void test_host_communication(void **state)
{
	(void)state;
	struct text t = begin(), m = node(1, "work", 4, 5, 10);
	message(&t, &m);
	m = node(2, "to 3", 5, 15, 10);
	attr(&m, 10, "comm_dst", 7, 3);
	message(&t, &m);
	struct taut_run *run = open_bytes(&t);
	const struct taut_trace *trace = &run->traces[0];
	size_t send = row(trace, "to 3");
	assert_int_equal(trace->kind[send], TAUT_KIND_COMM);
	assert_int_not_equal(trace->lane[send], trace->lane[row(trace, "work")]);
	const struct taut_comm_args *comm = taut_trace_comm(trace, send);
	assert_string_equal(
		taut_names_text(trace->names, comm->collective), "send");
	assert_int_equal(comm->dst_rank, 3);
	assert_int_equal(comm->src_rank, -1);
	taut_run_close(run);
}

static void test_metadata(void **state)
{
	(void)state;
	struct text t = { .len = 0 }, m = { .len = 0 };
	attr(&m, 2, "rank", 9, 5);
	attr(&m, 2, "world_size", 9, 8);
	message(&t, &m);
	m = node(1, "a \"b\" \\n\x01\xff", 4, 5, 10);
	message(&t, &m);
	struct taut_run *run = open_bytes(&t);
	assert_int_equal(run->traces[0].rank, 5);
	assert_int_equal(run->traces[0].world_size, 8);
	assert_string_equal(taut_trace_name(&run->traces[0], 0),
		"a \"b\" \\n \xef\xbf\xbd");
	taut_run_close(run);
}

/* A first length of 123 is also '{', and one of 91 '['. */
static void test_a_length_that_looks_like_json(void **state)
{
	(void)state;
	static const char lengths[] = "{[\x1f\x0a\x20";
	for (size_t i = 0; i < sizeof lengths - 1; i++) {
		struct text t = { .len = 0 }, m = { .len = 0 };
		char version[128];
		memset(version, '7', sizeof version);
		inside(&m, 1, version, (size_t)lengths[i] - 2);
		message(&t, &m);
		assert_int_equal(t.bytes[0], lengths[i]);
		m = node(1, "a", 4, 5, 10);
		message(&t, &m);
		struct taut_run *run = open_bytes(&t);
		assert_string_equal(run->traces[0].format, "chakra");
		taut_run_close(run);
	}
}

/* --- what is wrong ---------------------------------------------------------- */

static void test_no_times_at_all(void **state)
{
	(void)state;
	struct text t = begin(), m = node(1, "a", 4, 0, 0);
	message(&t, &m);
	assert_non_null(strstr(refused(t.bytes, t.len),
		"1 nodes have neither start times nor durations"));
}

static void test_a_broken_node_is_lost_alone(void **state)
{
	(void)state;
	struct text t = begin(), m = node(1, "a", 4, 0, 10), bad = m;
	size_t at;
	message(&t, &m);
	at = t.len;
	bad.bytes[bad.len - 2] = 0x3f; /* a type that there is not */
	message(&t, &bad);
	m = node(3, "c", 4, 0, 10);
	message(&t, &m);
	struct taut_run *run = open_bytes(&t);
	const struct taut_trace *trace = &run->traces[0];
	char want[64];
	assert_int_equal(trace->n_events, 2);
	assert_int_equal(trace->events_seen, 3);
	assert_int_equal(trace->events_lost, 1);
	assert_false(trace->truncated);
	snprintf(want, sizeof want, "1 node left out");
	assert_non_null(strstr(run->notes[0], want));
	snprintf(want, sizeof want, "at byte %zu", at);
	assert_non_null(strstr(run->notes[0], want));
	taut_run_close(run);
}

static void test_cut_at_every_byte(void **state)
{
	(void)state;
	struct text t = untimed();
	size_t read = 0;
	for (size_t len = 0; len < t.len; len++) {
		char *exact = malloc(len + 1);
		struct taut_run *run = NULL;
		struct taut_error err = { 0 };
		assert_non_null(exact);
		memcpy(exact, t.bytes, len);
		taut_status status = taut_run_open_memory(
			"t.et", exact, len, -1, &run, &err);
		if (status == TAUT_OK) {
			read++;
			assert_in_range(run->traces[0].n_events, 1, 5);
			assert_true(run->traces[0].truncated ||
				    run->n_notes == 1);
		} else {
			assert_int_equal(status, TAUT_EFORMAT);
			assert_null(strchr(err.message, '\n'));
		}
		taut_run_close(run);
		free(exact);
	}
	assert_true(read > t.len / 2);
}

static void test_memory_that_runs_out(void **state)
{
	(void)state;
	struct text t = untimed();
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	taut_status status = TAUT_ENOMEM;
	long n = 0;
	for (; status != TAUT_OK; n++) {
		alloc_fail_after(n);
		status = taut_run_open_memory(
			"t.et", t.bytes, t.len, -1, &run, &err);
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
		assert_true(n < 1000);
	}
	assert_true(n > 20);
	taut_run_close(run);
}

/* --- the JSON form ---------------------------------------------------------- */

static void test_json(void **state)
{
	(void)state;
	struct taut_run *run = open_text(
		" {\n \"workload_graph\": [\n"
		"{\"Id\": 1, \"Name\": \"a\\u0041\", \"NodeType\": 4,"
		" \"runtime\": 10, \"data_deps\": [], \"is_cpu_op\": true},"
		"{\"Id\": 3, \"Name\": \"k\", \"NodeType\": 4,"
		" \"runtime\": 100, \"data_deps\": [1], \"is_cpu_op\": false},"
		"{\"Id\": 4, \"Name\": \"all\", \"NodeType\": 7,"
		" \"runtime\": 5, \"data_deps\": [3, 1], \"is_cpu_op\": false,"
		" \"comm_type\": 0, \"comm_size\": 64}],"
		" \"soc\": \"x\"}");
	const struct taut_trace *t = &run->traces[0];
	assert_string_equal(t->format, "chakra-json");
	assert_int_equal(t->n_events, 3);
	check_start(t, "aA", 0);
	check_start(t, "k", 10);
	check_start(t, "all", 110);
	const struct taut_comm_args *comm = taut_trace_comm(t, row(t, "all"));
	assert_string_equal(
		taut_names_text(t->names, comm->collective), "all_reduce");
	assert_int_equal(comm->in_elements, 64);
	taut_run_close(run);
}

static void test_json_that_is_wrong(void **state)
{
	(void)state;
	struct taut_run *run = open_text("{\"workload_graph\": [\n"
		"{\"Id\": 1, \"NodeType\": 4, \"runtime\": -3},"
		"{\"Id\": 1, \"NodeType\": 4, \"runtime\": 3},"
		"{\"Id\": 2, \"run");
	assert_int_equal(run->traces[0].n_events, 1);
	assert_int_equal(run->traces[0].events_lost, 1);
	assert_true(run->traces[0].truncated);
	assert_int_equal(run->n_notes, 3);
	taut_run_close(run);
	assert_non_null(strstr(refusal("{\"workload_graph\": [{\"Id\": 1,"
				       " \"NodeType\": 1, \"runtime\": 3}]}"),
		"of whose 1 nodes none is work"));
	assert_non_null(strstr(refusal("{\"workload_graph\": []}"),
		"is a Chakra trace without any node"));
	assert_non_null(strstr(refusal("{\"workload_graph\": [{\"Id\""),
		"is a Chakra trace without a whole node"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times_are_told),
		cmocka_unit_test(test_times_from_waits),
		cmocka_unit_test(test_a_lane_runs_one_at_a_time),
		cmocka_unit_test(test_control_where_there_is_no_data),
		cmocka_unit_test(test_a_circle_ends),
		cmocka_unit_test(test_host_communication),
		cmocka_unit_test(test_metadata),
		cmocka_unit_test(test_a_length_that_looks_like_json),
		cmocka_unit_test(test_no_times_at_all),
		cmocka_unit_test(test_a_broken_node_is_lost_alone),
		cmocka_unit_test(test_cut_at_every_byte),
		cmocka_unit_test(test_memory_that_runs_out),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_that_is_wrong),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
