/* The table of the MPI form: which rows hold, and what is no row. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi/mpi.h"

static struct tauti_form_steps read_text(
	const char *text, uint32_t n_ranks, uint32_t n_hosts)
{
	struct tauti_form_steps steps = { .n = 99 };
	struct taut_error err = { .message = "" };

	if (tauti_form_table_parse(text, strlen(text), "t", n_ranks, n_hosts,
		false, &steps, &err))
		fail_msg("%s", err.message);
	return steps;
}

static void rows_hold_from_their_bytes_on(void **state)
{
	struct tauti_form_steps steps = read_text(
		"# ranks hosts from who\n"
		"4 1 65536 taut # a comment\n"
		"\n"
		" 4\t1 1024 taut\r\n"
		"4 1 8388608 mpi\n"
		"4 1 1024 mpi", 4, 1);

	(void)state;
	assert_int_equal(steps.n, 3);
	assert_false(tauti_form_takes(&steps, 0));
	assert_false(tauti_form_takes(&steps, 1023));
	assert_false(tauti_form_takes(&steps, 1024)); /* the last row */
	assert_false(tauti_form_takes(&steps, 65535));
	assert_true(tauti_form_takes(&steps, 65536));
	assert_true(tauti_form_takes(&steps, 8388607));
	assert_false(tauti_form_takes(&steps, 8388608));
	assert_false(tauti_form_takes(&steps, UINT64_MAX));
}

static void rows_that_name_more_hold_alone(void **state)
{
	static const char text[] = "* * 0 taut\n4 * 100 taut\n* 2 200 taut\n"
		"4 2 300 taut\n* * 50 mpi\n";
	const struct {
		uint32_t ranks, hosts;
		uint64_t from;
	} wanted[] = { { 3, 1, 0 }, { 4, 1, 100 }, { 3, 2, 200 },
		{ 4, 2, 300 } };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct tauti_form_steps steps = read_text(
			text, wanted[i].ranks, wanted[i].hosts);

		assert_true(tauti_form_takes(&steps, wanted[i].from));
		assert_false(wanted[i].from && tauti_form_takes(
			&steps, wanted[i].from - 1));
	}
	assert_false(tauti_form_takes(&(struct tauti_form_steps){ 0 }, 1 << 20));
	assert_int_equal(read_text("5 1 0 taut", 4, 1).n, 0);
}

static void rows_of_devices_are_by_themselves(void **state)
{
	static const char text[] = "* * 0 taut\n4 1 0 mpi device # at first\n"
		"4 1 4096 taut device\n4 1 65536 peer device\n";
	struct tauti_form_steps steps = read_text(text, 4, 1);
	struct taut_error err;

	(void)state;
	assert_int_equal(steps.n, 1);
	assert_int_equal(tauti_form_takes(&steps, 1 << 20), TAUTI_FORM_TAUT);
	assert_int_equal(tauti_form_table_parse(text, strlen(text), "t", 4, 1,
		true, &steps, &err), TAUT_OK);
	assert_int_equal(steps.n, 3);
	assert_int_equal(tauti_form_takes(&steps, 4095), TAUTI_FORM_MPI);
	assert_int_equal(tauti_form_takes(&steps, 4096), TAUTI_FORM_TAUT);
	assert_int_equal(tauti_form_takes(&steps, 65536), TAUTI_FORM_PEER);
	/* what is built in says nothing of devices */
	assert_int_equal(tauti_form_table_read(NULL, 4, 1, true, &steps, &err),
		TAUT_OK);
	assert_int_equal(steps.n, 0);
}

static void what_is_no_row_is_told(void **state)
{
	static const struct {
		const char *row, *expected;
	} rows[] = {
		{ "x 1 0 taut", "t:2: expected a number of ranks, or *" },
		{ "0 1 0 taut", "t:2: expected a number of ranks, or *" },
		{ "4294967296 1 0 mpi", "t:2: expected a number of ranks, or *" },
		{ "4", "t:2: expected a number of hosts, or *" },
		{ "4 ** 0 taut", "t:2: expected a number of hosts, or *" },
		{ "4 1 -1 taut", "t:2: expected bytes" },
		{ "4 1 64K taut", "t:2: expected bytes" },
		{ "4 1 * taut", "t:2: expected bytes" },
		{ "4 1 9223372036854775808 mpi", "t:2: expected bytes" },
		{ "4 1 0", "t:2: expected taut or mpi" },
		{ "4 1 0 tautology", "t:2: expected taut or mpi" },
		{ "4 1 0 taut 5", "t:2: expected the end of the row" },
		{ "4 1 0 taut devices", "t:2: expected the end of the row" },
		{ "4 1 0 taut device 5", "t:2: expected the end of the row" },
		{ "4 1 0 peer", "t:2: expected device after peer" },
	};
	struct tauti_form_steps steps = { .n = 99 };
	struct taut_error err;
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		int n = snprintf(text, sizeof text, "# one\n%s\n", rows[i].row);

		assert_int_equal(tauti_form_table_parse(text, (size_t)n, "t",
			4, 1, false, &steps, &err), TAUT_EFORMAT);
		assert_string_equal(err.message, rows[i].expected);
	}
	assert_int_equal(tauti_form_table_parse("4 1\0 0 taut", 11, "t", 4, 1, false,
		&steps, &err), TAUT_EFORMAT);
	memset(text, ' ', sizeof text);
	assert_int_equal(tauti_form_table_parse(text, sizeof text, "t", 4, 1, false,
		&steps, &err), TAUT_EFORMAT);
	assert_int_equal(steps.n, 99);
}

static void too_many_rows_are_told(void **state)
{
	struct tauti_form_steps steps;
	struct taut_error err;
	char text[1024];
	int n = 0;

	(void)state;
	for (int i = 0; i <= TAUTI_FORM_STEPS; i++)
		n += snprintf(text + n, sizeof text - (size_t)n,
			"* * %d taut\n", i);
	assert_int_equal(tauti_form_table_parse(text, (size_t)n, "t", 4, 1, false,
		&steps, &err), TAUT_EFORMAT);
	assert_string_equal(err.message,
		"t:17: expected at most 16 rows of one number of ranks");
}

static void files_are_read(void **state)
{
	char path[] = "/tmp/taut-mpi-table-XXXXXX";
	int fd = mkstemp(path);
	struct tauti_form_steps steps;
	struct taut_error err;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "2 1 77 taut\n", 12), 12);
	assert_int_equal(tauti_form_table_read(path, 2, 1, false, &steps, &err), 0);
	assert_true(steps.n == 1 && steps.step[0].from_bytes == 77);
	for (int i = 0; i < TAUTI_FORM_TABLE_BYTES / 64; i++)
		assert_int_equal(write(fd, "#                               "
			"                              \n", 64), 64);
	assert_int_equal(tauti_form_table_read(path, 2, 1, false, &steps, &err),
		TAUT_EFORMAT);
	close(fd);
	unlink(path);
	assert_int_equal(tauti_form_table_read(path, 2, 1, false, &steps, &err),
		TAUT_EIO);
	assert_non_null(strstr(err.message, "No such file"));
}

/* Nothing is known of networks. */
static void what_is_built_in(void **state)
{
	struct tauti_form_steps steps;

	(void)state;
	assert_int_equal(tauti_form_table_read(NULL, 4, 1, false, &steps, NULL), 0);
	assert_true(tauti_form_takes(&steps, 1 << 20));
	assert_int_equal(tauti_form_table_read(NULL, 4, 2, false, &steps, NULL), 0);
	assert_false(tauti_form_takes(&steps, 1 << 20));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_hold_from_their_bytes_on),
		cmocka_unit_test(rows_that_name_more_hold_alone),
		cmocka_unit_test(rows_of_devices_are_by_themselves),
		cmocka_unit_test(what_is_no_row_is_told),
		cmocka_unit_test(too_many_rows_are_told),
		cmocka_unit_test(files_are_read),
		cmocka_unit_test(what_is_built_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
