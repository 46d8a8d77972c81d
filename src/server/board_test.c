/* Memory that a server shares with a worker: who makes it, who may open it, and that
 * nothing of it is left. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/server.h"

static bool has_name(const char *name)
{
	char path[80];

	snprintf(path, sizeof path, "/dev/shm%s", name);
	return access(path, F_OK) == 0;
}

static void test_both(void **state)
{
	struct tauti_board own = { 0 }, other = { 0 };
	char name[TAUTI_BOARD_NAME_BYTES];

	(void)state;
	assert_int_equal(tauti_board_create(100000, &own, NULL), TAUT_OK);
	memcpy(name, own.name, sizeof name);
	assert_true(has_name(name));
	assert_int_equal(tauti_board_open(name, 100001, &other, NULL), TAUT_EIO);
	assert_null(other.base);
	assert_int_equal(tauti_board_open(name, 100000, &other, NULL), TAUT_OK);
	assert_false(has_name(name));
	tauti_board_copy(own.base + 64, "of one", 7);
	tauti_board_settle(&own);
	assert_string_equal((char *)other.base + 64, "of one");
	tauti_board_close(&other);
	tauti_board_close(&other);
	tauti_board_close(&own);
	assert_int_equal(tauti_board_open(name, 100000, &other, NULL), TAUT_EIO);
}

/* The worker never came for it. */
static void test_left(void **state)
{
	struct tauti_board own = { 0 };
	char name[TAUTI_BOARD_NAME_BYTES];

	(void)state;
	assert_int_equal(tauti_board_create(1, &own, NULL), TAUT_OK);
	memcpy(name, own.name, sizeof name);
	tauti_board_close(&own);
	assert_false(has_name(name));
	assert_int_equal(tauti_board_create(0, &own, NULL), TAUT_EIO);
	/* More than there is. */
	assert_int_equal(tauti_board_create((size_t)1 << 60, &own, NULL),
		TAUT_EIO);
	assert_null(own.base);
}

static void test_words(void **state)
{
	uint8_t words[TAUTI_BOARD_BYTES];
	char name[TAUTI_BOARD_NAME_BYTES];

	(void)state;
	tauti_board_write("/taut-1", words);
	assert_true(tauti_board_read(words, name));
	assert_string_equal(name, "/taut-1");
	tauti_board_write("", words);
	assert_true(tauti_board_read(words, name));
	assert_string_equal(name, "");
	tauti_board_write("/../etc", words);
	assert_false(tauti_board_read(words, name));
	tauti_board_write("taut-1", words);
	assert_false(tauti_board_read(words, name));
	memset(words + 4, '/', TAUTI_BOARD_BYTES - 4);
	assert_false(tauti_board_read(words, name));
	words[2] = 0;
	assert_false(tauti_board_read(words, name));
	/* Parts begin at a multiple of 64. */
	assert_int_equal(tauti_board_next(0, 1), 64);
	assert_int_equal(tauti_board_next(64, 64), 128);
	assert_int_equal(tauti_board_next(64, SIZE_MAX), SIZE_MAX - 63);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both),
		cmocka_unit_test(test_left),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
