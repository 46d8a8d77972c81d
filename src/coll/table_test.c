/* What is chosen, by rows and by what is built in; rows read and written; every
 * fault with its place. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/table.h"
#include "tests/support/alloc_fail.h"

static void parse(const char *text, tauti_rows *rows)
{
	struct taut_error err = { .offset = -1 };

	if (tauti_rows_parse(text, strlen(text), "t", rows, &err))
		fail_msg("%s", err.message);
}

static enum taut_coll_way way_at(const struct tauti_table *table,
	enum taut_coll_verb verb, uint64_t bytes)
{
	const struct taut_coll_choice *row =
		tauti_table_choice(table, verb, bytes);

	assert_int_equal(row->verb, verb);
	assert_true(row->from_bytes <= bytes);
	assert_true(taut_coll_has(verb, row->way));
	assert_true(row->way != TAUT_WAY_AUTO);
	assert_true(row->passes_at_once >= 1);
	return row->way;
}

/* Whatever the ranks, hosts and bytes, there is a way that the verb has. */
static void test_built_in(void **state)
{
	static const uint32_t ranks[] = { 1, 2, 3, 4, 5, 16, 100, 2048 };

	(void)state;
	for (uint32_t i = 0; i < 8; i++) {
		for (uint32_t hosts = 1; hosts <= ranks[i]; hosts += 1 + hosts / 2) {
			struct tauti_table table;

			assert_int_equal(tauti_table_init(&table, ranks[i],
				hosts, NULL, 0, NULL), TAUT_OK);
			for (int verb = 0; verb < TAUT_VERBS; verb++)
				for (int bit = 0; bit < 48; bit++)
					(void)way_at(&table,
						(enum taut_coll_verb)verb,
						(UINT64_C(1) << bit) - 1);
			tauti_table_fini(&table);
		}
	}
}

/* Between few hosts the fewest steps, in passes where it is large. */
static void test_few_hosts(void **state)
{
	static const struct {
		enum taut_coll_way small, large, larger; /* of 64 KiB, 1 and 64 MiB */
		uint64_t pass_bytes, larger_pass_bytes;
		uint32_t at_once;
	} right[] = {
		{ TAUT_WAY_FLAT, TAUT_WAY_FLAT, TAUT_WAY_DIRECT, 1 << 20, 4 << 20, 4 },
		{ TAUT_WAY_DIRECT, TAUT_WAY_DIRECT, TAUT_WAY_DIRECT, 512 << 10,
			1 << 20, 4 },
		{ TAUT_WAY_HALVING, TAUT_WAY_DIRECT, TAUT_WAY_DIRECT, 512 << 10,
			1 << 20, 4 },
		{ TAUT_WAY_HALVING, TAUT_WAY_RING, TAUT_WAY_RING, 2 << 20, 2 << 20,
			2 },
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof right / sizeof *right; i++) {
		struct tauti_table table;
		const struct taut_coll_choice *choice;

		assert_int_equal(tauti_table_init(&table, i + 2, i + 2, NULL, 0, NULL),
			TAUT_OK);
		choice = tauti_table_choice(&table, TAUT_ALLREDUCE, 1 << 20);
		assert_int_equal(choice->way, right[i].large);
		assert_int_equal(choice->pass_bytes, right[i].pass_bytes);
		choice = tauti_table_choice(&table, TAUT_ALLREDUCE, 64 << 20);
		assert_int_equal(choice->way, right[i].larger);
		assert_int_equal(choice->pass_bytes, right[i].larger_pass_bytes);
		assert_int_equal(choice->passes_at_once, right[i].at_once);
		assert_int_equal(way_at(&table, TAUT_ALLREDUCE, 64 << 10),
			right[i].small);
		tauti_table_fini(&table);
	}
}

static void test_which(void **state)
{
	static const char text[] =
		"# measured\n"
		"allreduce * * 0 tree 0 1\n"
		"allreduce 4 * 100 ring 0 1\n"
		"allreduce * 2 1000 doubling 0 1\n"
		"allreduce 4 2 10000 halving 4096 3 # both\n"
		"\n"
		"allreduce 4 2 20000 hosts 1 2\n"
		"allreduce 4 2 20000 flat 1 64\n"
		"allreduce 3 2 0 direct 0 1\n"
		"broadcast 4 1 0 tree 0 1\n";
	tauti_rows rows = { 0 };
	struct tauti_table table;

	(void)state;
	parse(text, &rows);
	assert_int_equal(rows.count, 8);
	assert_int_equal(tauti_table_init(&table, 4, 2, rows.data, rows.count,
		NULL), TAUT_OK);
	assert_int_equal(way_at(&table, TAUT_ALLREDUCE, 0), TAUT_WAY_TREE);
	assert_int_equal(way_at(&table, TAUT_ALLREDUCE, 99), TAUT_WAY_TREE);
	assert_int_equal(way_at(&table, TAUT_ALLREDUCE, 100), TAUT_WAY_RING);
	assert_int_equal(way_at(&table, TAUT_ALLREDUCE, 999), TAUT_WAY_RING);
	assert_int_equal(way_at(&table, TAUT_ALLREDUCE, 1000),
		TAUT_WAY_DOUBLING);
	assert_int_equal(way_at(&table, TAUT_ALLREDUCE, 10000),
		TAUT_WAY_HALVING);
	assert_int_equal(tauti_table_choice(
		&table, TAUT_ALLREDUCE, 19999)->pass_bytes, 4096);
	assert_int_equal(way_at(&table, TAUT_ALLREDUCE, 1 << 30),
		TAUT_WAY_FLAT);
	assert_int_equal(tauti_table_choice(
		&table, TAUT_ALLREDUCE, 20000)->passes_at_once, 64);
	assert_int_equal(way_at(&table, TAUT_BROADCAST, 4), TAUT_WAY_HOSTS);
	tauti_table_fini(&table);
	taut_vec_free(&rows);
}

/* What is written is read as the same. */
static void test_text(void **state)
{
	tauti_rows rows = { 0 }, again = { 0 };
	char text[TAUTI_TABLE_ROW_BYTES];

	(void)state;
	for (int verb = 0; verb < TAUT_VERBS; verb++)
		for (int way = 1; way < TAUT_WAYS; way++) {
			struct taut_coll_choice row = {
				(enum taut_coll_verb)verb,
				(uint32_t)(way % 3 * 1024), (uint32_t)verb,
				way % 2 ? INT64_MAX : 0,
				(enum taut_coll_way)way,
				way % 2 ? 0 : INT64_MAX, 1 + (uint32_t)way };

			if (taut_coll_has(row.verb, row.way))
				assert_true(taut_vec_push(&rows, row));
		}
	for (size_t i = 0; i < rows.count; i++) {
		size_t bytes = tauti_row_text(&rows.data[i], text);

		assert_true(bytes < sizeof text && text[bytes - 1] == '\n');
		parse(text, &again);
	}
	assert_int_equal(again.count, rows.count);
	assert_int_equal(tauti_rows_hash(rows.data, rows.count),
		tauti_rows_hash(again.data, again.count));
	again.data[0].pass_bytes++;
	assert_int_not_equal(tauti_rows_hash(rows.data, rows.count),
		tauti_rows_hash(again.data, again.count));
	taut_vec_free(&rows);
	taut_vec_free(&again);
}

static void expect_fault(const char *text, const char *line)
{
	tauti_rows rows = { 0 };
	struct taut_error err = { .offset = -1 };

	assert_int_equal(tauti_rows_parse(
		text, strlen(text), "my.table", &rows, &err), TAUT_EFORMAT);
	assert_string_equal(err.message, line);
	taut_vec_free(&rows);
}

static void test_faults(void **state)
{
	(void)state;
	expect_fault("\n\nallreduce 1 1 0 ring 0\n", "my.table:3: expected 7 "
		"words (verb, ranks, hosts, from_bytes, way, pass_bytes, "
		"passes_at_once), found 6");
	expect_fault("allreduce 1 1 0 ring 0 1 1\n", "my.table:1: expected 7 "
		"words (verb, ranks, hosts, from_bytes, way, pass_bytes, "
		"passes_at_once), found 8");
	expect_fault("reduce 1 1 0 ring 0 1\n", "my.table:1: expected "
		"allreduce, reduce_scatter, allgather or broadcast, found "
		"'reduce'");
	expect_fault("allreduce 0 1 0 ring 0 1\n", "my.table:1: expected "
		"ranks: * or 1 to 2048, found '0'");
	expect_fault("allreduce 1 2049 0 ring 0 1\n", "my.table:1: expected "
		"hosts: * or 1 to 2048, found '2049'");
	expect_fault("allreduce 1 1 -1 ring 0 1\n", "my.table:1: expected "
		"bytes from which it holds, found '-1'");
	expect_fault("allreduce 1 1 9223372036854775808 ring 0 1\n",
		"my.table:1: expected bytes from which it holds, found "
		"'9223372036854775808'");
	expect_fault("broadcast 1 1 0 ring 0 1\n", "my.table:1: expected a "
		"way that the verb has, found 'ring'");
	expect_fault("allreduce 1 1 0 auto 0 1\n", "my.table:1: expected a "
		"way that the verb has, found 'auto'");
	expect_fault("allreduce 1 1 0 ring 1k 1\n", "my.table:1: expected "
		"bytes of a pass, or 0: all, found '1k'");
	expect_fault("allreduce 1 1 0 ring 0 65", "my.table:1: expected "
		"passes at once: 1 to 64, found '65'");
	expect_fault("allreduceallreduceallreduceallreduce 1 1 0 ring 0 1",
		"my.table:1: expected allreduce, reduce_scatter, allgather or "
		"broadcast, found 'allreduceallreduceallr?'");
	/* 22 zeros more: not the 6 that its first characters are. */
	expect_fault("allreduce 1 1 0 ring 0 000000000000000000000065536",
		"my.table:1: expected passes at once: 1 to 64, found "
		"'0000000000000000000000?'");
}

static void test_file(void **state)
{
	char path[] = "/tmp/taut-table-XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");
	tauti_rows rows = { 0 };
	struct taut_error err = { .offset = -1 };

	(void)state;
	assert_non_null(file);
	for (int i = 0; i <= TAUTI_TABLE_ROWS; i++)
		fprintf(file, "allreduce 4 1 %d ring 0 1\r\n", i);
	fclose(file);
	assert_int_equal(tauti_rows_read(path, &rows, &err), TAUT_EFORMAT);
	assert_non_null(strstr(err.message, ":4097: expected at most 4096"));
	taut_vec_clear(&rows);
	assert_int_equal(truncate(path, 52), 0);
	assert_int_equal(tauti_rows_read(path, &rows, &err), TAUT_OK);
	assert_int_equal(rows.count, 2);
	assert_int_equal(rows.data[1].from_bytes, 1);
	unlink(path);
	assert_int_equal(tauti_rows_read(path, &rows, &err), TAUT_EIO);
	assert_non_null(strstr(err.message, "No such file"));
	taut_vec_free(&rows);
}

static void test_no_memory(void **state)
{
	static const char text[] = "allreduce 4 1 0 ring 0 1\n";
	taut_status status = TAUT_ENOMEM;
	long n = 0;

	(void)state;
	for (; status == TAUT_ENOMEM; n++) {
		tauti_rows rows = { 0 };
		struct tauti_table table = { .rows = NULL };

		alloc_fail_after(n);
		status = tauti_rows_parse(text, strlen(text), "t", &rows, NULL);
		if (!status)
			status = tauti_table_init(&table, 4, 1, rows.data,
				rows.count, NULL);
		alloc_fail_never();
		if (!status)
			tauti_table_fini(&table);
		taut_vec_free(&rows);
	}
	assert_int_equal(status, TAUT_OK);
	assert_int_equal(n, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_built_in),
		cmocka_unit_test(test_few_hosts),
		cmocka_unit_test(test_which),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
