/* record_gather_test.c - a folder of a job, looked at while memory runs out;
 * tests/cli/06_record_test.py has what is said of which folder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log_format.h"
#include "cli/record.h"
#include "cli/record_text.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"

static char folder[] = "/tmp/taut-gather-XXXXXX";

static void write_file(const char *name, const void *bytes, size_t len)
{
	char path[128];
	FILE *out;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	out = fopen(path, "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(bytes, 1, len, out), len);
	fclose(out);
}

static void make_folder(const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	assert_int_equal(mkdir(path, 0777), 0);
}

/* Rank 0 has all, rank 1 an event log alone, rank 2 a reason, rank 3 none. */
static void make_run(void)
{
	static const char first[] = "{\"host\": \"a\", \"pid\": 5, \"rank\": 0,"
		"\"framework\": \"torch\", \"world_size\": 4, \"steps_seen\": "
		"20, \"recorded\": [10, 14], \"ended_ns\": 7}";
	static const char third[] = "{\"host\": \"b\", \"pid\": 6, \"rank\": 2,"
		"\"framework\": \"torch\", \"state\": \"not recorded: why\", "
		"\"steps_seen\": 20, \"ended_ns\": 7}";
	struct tauti_log_header header = { .magic = TAUTI_LOG_MAGIC,
		.header_bytes = 4096, .record_bytes = 128, .capacity = 4,
		.reserved = 9, .pid = 8, .source = "mpi", .host = "c" };
	char log[4096 + 4 * 128] = { 0 };

	memcpy(log, &header, sizeof header);
	make_folder("processes");
	make_folder("rank0");
	make_folder("rank1");
	write_file("processes/a-5.json", first, sizeof first - 1);
	write_file("processes/b-6.json", third, sizeof third - 1);
	write_file("processes/broken.json", "{", 1);
	write_file("rank0/x.json", "{}", 2);
	write_file("rank1/mpi-8.tautlog", log, sizeof log);
}

static void expect_problem(const struct record_result *result, const char *part)
{
	for (size_t i = 0; i < result->problems.count; i++)
		if (strstr(result->problems.data[i], part))
			return;
	fail_msg("no problem with '%s'", part);
}

static void check(const struct record_result *result)
{
	assert_int_equal(result->world_size, 4);
	assert_int_equal(result->ranks.count, 2);
	assert_int_equal(result->ranks.data[1], 1);
	assert_int_equal(result->missing.count, 2);
	assert_int_equal(result->missing.data[0].rank, 2);
	assert_string_equal(result->missing.data[0].why, "why");
	assert_int_equal(result->missing.data[1].rank, 3);
	assert_int_equal(result->recorded[0], 10);
	assert_int_equal(result->recorded[1], 14);
	assert_false(result->complete);
	assert_int_equal(result->problems.count, 6);
	expect_problem(result, "exit status 3");
	expect_problem(result, "rank 2: not recorded: why");
	expect_problem(result, "rank 3: not recorded: no process");
	expect_problem(result, "5 of its records are lost");
	expect_problem(result, "mpi-8.tautlog: was not closed: process 8 on c");
	expect_problem(result, "broken.json:");
}

static void test_no_memory(void **state)
{
	(void)state;
	struct record_plan plan = { .run = folder, .first = 10, .end = 14 };
	struct record_job job = { .exit_status = 3 };
	taut_status status = TAUT_ENOMEM;

	for (long n = 0; status; n++) {
		struct record_result result = { .world_size = -1,
			.recorded = { -1, -1 } };
		struct taut_error err = { .message = "" };
		struct taut_arena *arena = taut_arena_create();

		alloc_fail_after(n);
		status = record_gather(&plan, &job, arena, &result, &err);
		alloc_fail_never();
		if (status) {
			assert_int_equal(status, TAUT_ENOMEM);
			assert_true(err.message[0]);
		} else {
			check(&result);
		}
		record_result_fini(&result);
		taut_arena_destroy(arena);
	}
}

static void test_texts(void **state)
{
	(void)state;
	struct taut_arena *arena = taut_arena_create();
	int32_t ranks[400];
	const char *text;

	for (int32_t i = 0; i < 400; i++)
		ranks[i] = 2 * i;
	assert_string_equal(record_ranks_text(arena, ranks, 1), "rank 0");
	assert_string_equal(record_ranks_text(arena, ranks, 3), "ranks 0,2,4");
	assert_string_equal(record_ranks_text(arena,
		(int32_t[]){ 1, 2, 3, 7, 9, 10 }, 6), "ranks 1-3,7,9-10");
	text = record_ranks_text(arena, ranks, 400);
	assert_true(strlen(text) < 220);
	assert_non_null(strstr(text, " more"));
	assert_string_equal(record_steps_text(arena, 3, 4), "step 3");
	assert_string_equal(record_steps_text(arena, 3, 5), "steps 3 to 4");
	taut_arena_destroy(arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_texts),
	};
	char remove[64];

	if (!mkdtemp(folder))
		return 1;
	make_run();
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	snprintf(remove, sizeof remove, "rm -rf %s", folder);
	return system(remove) || failed;
}
