#include "trace/test_support.h"

#include "tests/support/alloc_fail.h"
#include "trace/formats/flight.h"

#define GROUP "\"process_group\": [\"0\", \"default_pg\"], \"pg_id\": 0"
#define ALL_REDUCE "\"profiling_name\": \"nccl:all_reduce\", " \
	"\"input_sizes\": [[3, 4], [5]], \"input_dtypes\": [\"BFloat16\"], " \
	"\"output_sizes\": [[3, 4], [5]], \"is_p2p\": false, " GROUP
#define DUMP(entries) "{\"version\": \"2.10\", \"pg_config\": {\"0\": " \
	"{\"name\": \"0\", \"desc\": \"default_pg\", \"ranks\": " \
	"\"[4, 5, 16]\"}}, \"pg_status\": {\"0\": " \
	"{\"last_enqueued_collective\": 9, \"last_started_collective\": -1," \
	" \"last_completed_collective\": 2}}, \"entries\": [" entries "]}"

/* Two on one group: the second waited for the first. */
static const char two[] = DUMP(
	"{\"record_id\": 0, \"collective_seq_id\": 1, \"thread_id\": \"70\","
	" \"time_created_ns\": 1000, \"time_discovered_started_ns\": 1100,"
	" \"time_discovered_completed_ns\": 3000, \"state\": \"completed\","
	" \"retired\": true, " ALL_REDUCE "},"
	"{\"record_id\": 1, \"collective_seq_id\": 2, \"thread_id\": \"70\","
	" \"time_created_ns\": 1200, \"time_discovered_started_ns\": 0,"
	" \"time_discovered_completed_ns\": 4000, \"state\": \"completed\","
	" \"retired\": true, " ALL_REDUCE "}");

static void test_operations(void **state)
{
	(void)state;
	struct taut_run *run = open_text(two);
	const struct taut_trace *t = &run->traces[0];
	assert_string_equal(t->format, "flight");
	assert_int_equal(t->world_size, 3);
	assert_int_equal(t->n_events, 4); /* two calls, two operations */
	assert_int_equal(t->lanes[0].tid, 70);
	assert_int_equal(t->kind[0], TAUT_KIND_OP);
	assert_int_equal(t->start_ns[1], 200);
	assert_string_equal(taut_names_text(t->names, t->lanes[1].name),
		"group 0 (default_pg)");
	assert_int_equal(t->kind[2], TAUT_KIND_COMM);
	assert_int_equal(t->start_ns[2], 100);
	assert_int_equal(t->dur_ns[2], 1900);
	assert_int_equal(t->start_ns[3], 2000);
	assert_int_equal(t->dur_ns[3], 1000);
	const struct taut_comm_args *args = taut_trace_comm(t, 3);
	assert_int_equal(args->seq, 2);
	assert_int_equal(args->in_elements, 17);
	assert_int_equal(args->group_size, 3);
	assert_string_equal(
		taut_names_text(t->names, args->collective), "all_reduce");
	assert_string_equal(
		taut_names_text(t->names, args->dtype), "BFloat16");
	assert_int_equal(t->n_facts, 2); /* the other: of times */
	assert_string_equal(t->facts[0].key, TAUTI_FLIGHT_GROUP "0");
	assert_string_equal(t->facts[0].value, "9 2 2 default_pg");
	taut_run_close(run);
}

/* The duration that was measured counts, where it was. */
static void test_duration(void **state)
{
	(void)state;
	struct taut_run *run = open_text(DUMP(
		"{\"collective_seq_id\": 1, \"time_created_ns\": 1000,"
		" \"time_discovered_started_ns\": 1100,"
		" \"time_discovered_completed_ns\": 9000,"
		" \"duration_ms\": 0.0025, \"state\": \"completed\", "
		ALL_REDUCE "}"));
	const struct taut_trace *t = &run->traces[0];
	assert_int_equal(t->dur_ns[1], 2500);
	assert_int_equal(t->start_ns[1], 5500);
	taut_run_close(run);
}

/* Ranks in the names are those of the group: 0 is rank 4, 2 is rank 16. */
static void test_peers(void **state)
{
	(void)state;
	struct taut_run *run = open_text(DUMP(
		"{\"p2p_seq_id\": 1, \"time_created_ns\": 1000, "
		"\"is_p2p\": true, \"state\": \"started\", "
		"\"profiling_name\": \"nccl:recv 2<-0\", " GROUP "}"));
	const struct taut_trace *t = &run->traces[0];
	const struct taut_comm_args *args = taut_trace_comm(t, 1);
	assert_int_equal(args->src_rank, 4);
	assert_int_equal(args->dst_rank, 16);
	assert_int_equal(args->seq, -1);
	assert_true(t->flags[1] & TAUT_EVENT_CUT);
	assert_int_equal(args->in_elements, -1);
	taut_run_close(run);
}

/* A dump with 300 groups of the ranks 5 and 9, in one of which something was
 * sent. */
static struct taut_run *open_groups(const char *group, const char *ranks)
{
	static char text[64 << 10];
	int len = snprintf(text, sizeof text,
		"{\"version\": \"2.10\", \"pg_config\": {");
	for (int i = 0; i < 300; i++)
		len += snprintf(text + len, sizeof text - (size_t)len,
			"%s\"%d\": {\"name\": \"%d\", \"ranks\": \"%s\"}",
			i ? ", " : "", i, i, ranks);
	snprintf(text + len, sizeof text - (size_t)len,
		"}, \"entries\": [{\"p2p_seq_id\": 1, \"time_created_ns\": "
		"1000, \"is_p2p\": true, \"state\": \"started\", "
		"\"profiling_name\": \"nccl:send 0->1\", "
		"\"process_group\": [\"%s\", \"%s\"], \"pg_id\": 0}]}",
		group, strcmp(group, "0") ? "" : "default_pg");
	return open_text(text);
}

static void check_peers(const char *group, const char *ranks, int32_t src,
	int32_t dst)
{
	struct taut_run *run = open_groups(group, ranks);
	const struct taut_comm_args *args =
		taut_trace_comm(&run->traces[0], 1);
	assert_int_equal(args->src_rank, src);
	assert_int_equal(args->dst_rank, dst);
	taut_run_close(run);
}

static void test_many_groups(void **state)
{
	(void)state;
	check_peers("10", "[5, 9]", 5, 9);
	check_peers("299", "[5, 9]", 5, 9);
	check_peers("299", "", -1, -1);
	check_peers("0", "", 0, 1); /* everybody */
}

static void test_refusals(void **state)
{
	(void)state;
	assert_non_null(strstr(refusal(DUMP("")), "without an operation"));
	assert_non_null(strstr(
		refusal("{\"pg_status\": {}, \"a\": 1}"), "no version"));
	assert_non_null(strstr(
		refusal("{\"pg_status\": {\"a\": "), "is cut"));
	assert_non_null(strstr(
		refusal("{\"pg_status\": {\"a\" 1}}"), "is no JSON"));
}

/* More than a window ever holds. */
static void test_large(void **state)
{
	(void)state;
	static const char one[] =
		"{\"record_id\": 0, \"collective_seq_id\": 1, "
		"\"time_created_ns\": 1000, \"state\": \"completed\", "
		"\"frames\": [{\"name\": \"f\", \"filename\": \"a.py\"}], "
		ALL_REDUCE "},";
	size_t n = ((size_t)17 << 20) / sizeof one, len = sizeof one - 1;
	char *entries = malloc(n * len + 1), *text;
	assert_non_null(entries);
	for (size_t i = 0; i < n; i++)
		memcpy(entries + i * len, one, len);
	entries[n * len - 1] = '\0'; /* the last comma */
	text = malloc(n * len + 4096);
	assert_non_null(text);
	snprintf(text, n * len + 4096, DUMP("%s"), entries);
	struct taut_run *run = open_text(text);
	assert_int_equal(run->traces[0].n_events, 2 * n);
	assert_int_equal(run->traces[0].world_size, 3);
	taut_run_close(run);
	free(text);
	free(entries);
}

static void test_no_memory(void **state)
{
	(void)state;
	taut_status status = TAUT_ENOMEM;
	for (long n = 0; status != TAUT_OK; n++) {
		struct taut_run *run = NULL;
		struct taut_error err = { 0 };
		alloc_fail_after(n);
		status = taut_run_open_memory(
			"t", two, strlen(two), 3, &run, &err);
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
		taut_run_close(run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_duration),
		cmocka_unit_test(test_peers),
		cmocka_unit_test(test_many_groups),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
