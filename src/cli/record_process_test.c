/* record_process_test.c - what processes say of themselves, and what might
 * stand there instead. */
#include <string.h>

#include "cli/record.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"
#include "trace/stream.h"

static struct taut_arena *arena;
static struct taut_error err;

static taut_status read_text(const char *text, struct record_process *process)
{
	struct tauti_stream *stream = NULL;
	taut_status status = tauti_stream_open_memory(
		"p.json", text, strlen(text), &stream, &err);

	if (!status)
		status = record_process_read(stream, arena, process, &err);
	tauti_stream_close(stream);
	return status;
}

static const char whole[] =
	"{\"host\": \"a\\u00e9\", \"pid\": 77, \"framework\": \"torch\", "
	"\"rank\": 3, \"world_size\": 4, \"local_rank\": 1, "
	"\"command\": [\"x\", {\"rank\": 9}], "
	"\"started_ns\": 1795274895310064935, \"steps_seen\": 20, "
	"\"recorded\": [10, 14], \"state\": \"done\", "
	"\"ended_ns\": 1795274995310064935, "
	"\"step_ms\": {\"recorded\": 1.5, \"unrecorded\": null}}";

static void test_all_of_it(void **state)
{
	(void)state;
	struct record_process process;

	assert_int_equal(read_text(whole, &process), TAUT_OK);
	assert_string_equal(process.host, "a\xc3\xa9");
	assert_string_equal(process.framework, "torch");
	assert_string_equal(process.state, "done");
	assert_int_equal(process.pid, 77);
	assert_int_equal(process.rank, 3);
	assert_int_equal(process.world_size, 4);
	assert_int_equal(process.steps_seen, 20);
	assert_int_equal(process.recorded[0], 10);
	assert_int_equal(process.recorded[1], 14);
	assert_true(process.started_ns == 1795274895310064935);
	assert_true(process.ended_ns == 1795274995310064935);
}

/* What is not there, null or of another kind is not known. */
static void test_what_is_not_known(void **state)
{
	(void)state;
	static const char *const texts[] = { "{}",
		"{\"host\": null, \"rank\": null, \"recorded\": null, "
		"\"ended_ns\": null}",
		"{\"host\": 5, \"rank\": \"x\", \"recorded\": \"10:14\", "
		"\"state\": [], \"steps_seen\": {}}",
		"{\"rank\": -2, \"recorded\": [10], \"pid\": true}",
		"{\"recorded\": [14, 10]}", "{\"recorded\": [10, null]}",
		"{\"recorded\": [10, 14, 18]}", "{\"recorded\": []}" };

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct record_process process;

		assert_int_equal(read_text(texts[i], &process), TAUT_OK);
		assert_string_equal(process.host, "");
		assert_string_equal(process.state, "");
		assert_int_equal(process.rank, -1);
		assert_int_equal(process.pid, -1);
		assert_int_equal(process.steps_seen, -1);
		assert_int_equal(process.recorded[0], -1);
		assert_int_equal(process.recorded[1], -1);
		assert_int_equal(process.ended_ns, -1);
	}
}

/* Cut at every byte, it is refused in one line. */
static void test_cut(void **state)
{
	(void)state;
	char text[sizeof whole];
	struct record_process process;

	for (size_t len = 0; len < sizeof whole - 1; len++) {
		memcpy(text, whole, len);
		text[len] = '\0';
		assert_int_equal(read_text(text, &process), TAUT_EFORMAT);
		assert_int_equal(strncmp(err.message, "p.json:", 7), 0);
	}
}

static void test_no_memory(void **state)
{
	(void)state;
	struct record_process process;
	taut_status status = TAUT_ENOMEM;

	for (long n = 0; status; n++) {
		alloc_fail_after(n);
		status = read_text(whole, &process);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
	}
	assert_int_equal(process.rank, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_of_it),
		cmocka_unit_test(test_what_is_not_known),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_no_memory),
	};

	arena = taut_arena_create();
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	taut_arena_destroy(arena);
	return failed;
}
