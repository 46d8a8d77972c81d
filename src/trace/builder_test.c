#include "trace/test_support.h"

#include "tests/support/alloc_fail.h"
#include "trace/builder.h"

static void add(struct tauti_builder *b, int64_t tid, int64_t start,
	int64_t dur, uint32_t mark)
{
	struct tauti_row *row = tauti_builder_row(b);
	assert_non_null(row);
	row->kind = TAUT_KIND_OP;
	row->start_ns = start;
	row->dur_ns = dur;
	row->correlation = mark;
	row->lane = tauti_lanes_add(&b->lanes, TAUTI_ROLE_THREAD, 1, tid);
	assert_int_not_equal(row->lane, TAUT_NONE);
}

static void test_rows_are_ordered(void **state)
{
	(void)state;
	struct tauti_builder b;
	struct taut_trace t;
	assert_int_equal(tauti_builder_init(&b, "t"), TAUT_OK);
	add(&b, 9, 50, 5, 0);
	add(&b, 2, 70, 5, 1);
	add(&b, 2, 30, 5, 2);
	add(&b, 2, 30, 50, 3); /* encloses the one before */
	add(&b, 2, 30, 5, 4);  /* the same: the file's order */
	add(&b, 9, 40, 5, 5);
	assert_int_equal(tauti_builder_finish(&b, &t, NULL), TAUT_OK);
	static const uint32_t expected[] = { 3, 2, 4, 1, 5, 0 };
	assert_memory_equal(t.correlation, expected, sizeof expected);
	static const uint32_t begins[] = { 0, 4, 6 };
	assert_memory_equal(t.lane_begin, begins, sizeof begins);
	assert_int_equal(t.lanes[0].tid, 2);
	assert_int_equal(t.lanes[1].tid, 9);
	assert_int_equal(t.base_ns, 30);
	assert_int_equal(t.start_ns[0], 0);
	assert_int_equal(t.start_ns[5], 20);
	tauti_builder_fini(&b);
}

/* Many rows in no order, against what the order means. */
static void test_order_of_many(void **state)
{
	(void)state;
	struct tauti_builder b;
	struct taut_trace t;
	uint64_t random = 88172645463325252u;
	enum { N = 50000 };
	assert_int_equal(tauti_builder_init(&b, "t"), TAUT_OK);
	for (uint32_t i = 0; i < N; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		int64_t wide = (int64_t)(random % 4000000000000000000u);
		add(&b, (int64_t)(random % 7),
			i % 3 ? (int64_t)(random >> 20 & 255) :
				wide - 2000000000000000000,
			(int64_t)(random >> 40 & 3), i);
	}
	assert_int_equal(tauti_builder_finish(&b, &t, NULL), TAUT_OK);
	assert_int_equal(t.n_events, N);
	for (size_t i = 1; i < N; i++) {
		assert_true(t.lane[i - 1] <= t.lane[i]);
		if (t.lane[i - 1] != t.lane[i])
			continue;
		assert_true(t.start_ns[i - 1] <= t.start_ns[i]);
		if (t.start_ns[i - 1] != t.start_ns[i])
			continue;
		assert_true(t.dur_ns[i - 1] >= t.dur_ns[i]);
		if (t.dur_ns[i - 1] == t.dur_ns[i])
			assert_true(t.correlation[i - 1] < t.correlation[i]);
	}
	tauti_builder_fini(&b);
}

/* Side tables follow their events. */
static void test_args_follow(void **state)
{
	(void)state;
	struct tauti_builder b;
	struct taut_trace t;
	assert_int_equal(tauti_builder_init(&b, "t"), TAUT_OK);
	for (int i = 0; i < 10; i++) {
		add(&b, 1, 100 - i, 1, 0);
		struct tauti_row *row =
			tauti_builder_row_at(&b, (uint32_t)i);
		row->kind = i % 2 ? TAUT_KIND_MEMCPY : TAUT_KIND_OP;
		if (i % 2 == 0)
			continue;
		row->args = (uint32_t)b.copies.count;
		assert_true(taut_vec_push(&b.copies,
			((struct taut_copy_args){ .bytes = i })));
	}
	assert_int_equal(tauti_builder_finish(&b, &t, NULL), TAUT_OK);
	assert_int_equal(t.n_copies, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(t.copies[i].bytes, 9 - 2 * (int)i);
		assert_ptr_equal(taut_trace_copy(&t, t.copies[i].event),
			&t.copies[i]);
	}
	assert_null(taut_trace_copy(&t, 1));
	tauti_builder_fini(&b);
}

static void test_lanes_are_ordered(void **state)
{
	(void)state;
	static const struct {
		enum tauti_role role;
		int64_t pid, tid;
	} in[] = {
		{ TAUTI_ROLE_SYNC, 0, 7 },
		{ TAUTI_ROLE_STREAM, 1, 7 },
		{ TAUTI_ROLE_STREAM, 0, 20 },
		{ TAUTI_ROLE_THREAD, 900, 3 },
		{ TAUTI_ROLE_STREAM, 0, 7 },
		{ TAUTI_ROLE_THREAD, 800, 4 },
	};
	static const uint32_t expected[] = { 5, 4, 3, 1, 2, 0 };
	struct tauti_lanes lanes = { 0 };
	struct taut_lane out[6];
	uint32_t new_id[6];
	for (size_t i = 0; i < 6; i++)
		tauti_lanes_add(&lanes, in[i].role, in[i].pid, in[i].tid);
	assert_int_equal(
		tauti_lanes_finish(&lanes, out, new_id), TAUT_OK);
	assert_memory_equal(new_id, expected, sizeof expected);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(out[new_id[i]].pid, in[i].pid);
		assert_int_equal(out[new_id[i]].tid, in[i].tid);
	}
	tauti_lanes_fini(&lanes);
}

static void test_lanes_are_found(void **state)
{
	(void)state;
	struct tauti_lanes lanes = { 0 };
	for (int64_t i = 0; i < 5000; i++)
		assert_int_equal(tauti_lanes_add(&lanes,
					 i % 2 ? TAUTI_ROLE_STREAM :
						 TAUTI_ROLE_THREAD,
					 i / 2, -i), i);
	for (int64_t i = 4999; i >= 0; i--)
		assert_int_equal(tauti_lanes_find(&lanes,
					 i % 2 ? TAUTI_ROLE_STREAM :
						 TAUTI_ROLE_THREAD,
					 i / 2, -i), i);
	assert_int_equal(tauti_lanes_find(&lanes, TAUTI_ROLE_SYNC, 1, -2),
		TAUT_NONE);
	tauti_lanes_fini(&lanes);
}

/* Every request for memory fails once; nothing leaks and nothing crashes. */
static void test_no_memory(void **state)
{
	(void)state;
	static const char text[] =
		"{\"distributedInfo\":{\"rank\":1},\"traceEvents\":["
		"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\\u0041\","
		"\"pid\":1,\"tid\":\"x\",\"ts\":1,\"dur\":1,\"args\":{"
		"\"Collective name\":\"allreduce\",\"bytes\":3}},"
		"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,"
		"\"args\":{\"name\":\"main\"}},"
		"{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"c\","
		"\"pid\":1,\"tid\":2,\"ts\":2,\"dur\":1,\"args\":{"
		"\"correlation\":5,\"bytes\":3}},"
		"{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"c\","
		"\"pid\":1,\"tid\":2,\"ts\":2,\"dur\":1,\"args\":{"
		"\"correlation\":5}},"
		"{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"c\","
		"\"pid\":1,\"tid\":2,\"ts\":2,\"dur\":-1,\"args\":{}}]";
	taut_status status = TAUT_ENOMEM;
	struct taut_run *run = NULL;
	struct taut_error err;
	long n = 0;
	for (; status != TAUT_OK && n < 1000; n++) {
		alloc_fail_after(n);
		status = taut_run_open_memory(
			"t", text, sizeof text - 1, 0, &run, &err);
		alloc_fail_never();
		if (status != TAUT_OK)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_int_equal(status, TAUT_OK);
	assert_true(n > 20);
	assert_int_equal(run->traces[0].n_events, 4);
	taut_run_close(run);
}

/* A second rank of the same input ends with the first, taken or not. */
static void test_another_rank(void **state)
{
	(void)state;
	struct tauti_builder b;
	struct taut_trace t;
	assert_int_equal(tauti_builder_init(&b, "t"), TAUT_OK);
	add(&b, 1, 30, 5, 1);
	struct tauti_builder *second = tauti_builder_another(&b);
	struct tauti_builder *third = tauti_builder_another(&b);
	assert_non_null(second);
	assert_ptr_equal(b.next, second);
	assert_ptr_equal(second->next, third);
	add(second, 1, 70, 5, 2);
	assert_int_equal(tauti_builder_finish(second, &t, NULL), TAUT_OK);
	assert_int_equal(t.n_events, 1);
	assert_int_equal(t.base_ns, 70);
	assert_string_equal(t.path, "t");
	tauti_builder_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_are_ordered),
		cmocka_unit_test(test_another_rank),
		cmocka_unit_test(test_order_of_many),
		cmocka_unit_test(test_args_follow),
		cmocka_unit_test(test_lanes_are_ordered),
		cmocka_unit_test(test_lanes_are_found),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
