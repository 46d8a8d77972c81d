/* opt_test.c - command lines, right and wrong. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/opt.h"
#include "tests/support/unit.h"

struct values {
	bool flag;
	unsigned number;
	const char *text;
	struct opt_texts texts;
	struct opt_ranks ranks;
	struct opt_percent percent;
};

static const struct opt options[] = {
	{ "flag", 0, OPT_FLAG, offsetof(struct values, flag), NULL, "a flag",
		0, 0 },
	{ "number", 'n', OPT_NUMBER, offsetof(struct values, number), "N",
		"a number", 1, 64 },
	{ "text", 't', OPT_TEXT, offsetof(struct values, text), "FILE",
		"a text", 0, 0 },
	{ "each", 0, OPT_TEXTS, offsetof(struct values, texts), "T",
		"some texts, and a help that is so long that it must be broken "
		"into more than one line", 0, 0 },
	{ "ranks", 0, OPT_RANKS, offsetof(struct values, ranks), "LIST",
		"ranks", 0, 0 },
	{ "part", 0, OPT_PERCENT, offsetof(struct values, percent), "PERCENT",
		"a part", 0, 100 },
};

static const struct verb verb = {
	.name = "try", .summary = "tries", .operands = "RUN...",
	.about = "First.\n\nSecond.", .options = options, .n_options = 6,
	.values_bytes = sizeof(struct values),
};

static struct taut_arena *arena;
static struct values values;
static struct verb_call call;
static struct taut_error err;

/* A line of words without quotes, split at spaces. */
static enum opt_result parse_as(const struct verb *as, const char *line)
{
	static char words[1024];
	static char *argv[64];
	size_t n = 0;

	snprintf(words, sizeof words, "%s", line);
	for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
		argv[n++] = word;
	argv[n] = NULL;
	values = (struct values){ .flag = false };
	call = (struct verb_call){ .values = NULL };
	err.message[0] = '\0';
	return opt_parse(as, argv, &values, arena, &call, &err);
}

static enum opt_result parse(const char *line)
{
	return parse_as(&verb, line);
}

static void expect_wrong(const char *line, const char *message)
{
	assert_int_equal(parse(line), OPT_WRONG);
	assert_string_equal(err.message, message);
}

static void test_percent(void **state)
{
	(void)state;
	assert_int_equal(parse("a"), OPT_RUN);
	assert_false(values.percent.given);
	assert_int_equal(parse("a --part 2.5%"), OPT_RUN);
	assert_true(values.percent.given);
	assert_true(values.percent.percent == 2.5);
	assert_int_equal(parse("a --part=0"), OPT_RUN);
	assert_true(values.percent.given && values.percent.percent == 0);
	expect_wrong("a --part 101", "--part: expected a percentage from 0 to "
		"100, found '101'");
	expect_wrong("a --part=nan", "--part: expected a percentage from 0 to "
		"100, found 'nan'");
	expect_wrong("a --part=2x", "--part: expected a percentage from 0 to "
		"100, found '2x'");
	expect_wrong("a --part=-1", "--part: expected a percentage from 0 to "
		"100, found '-1'");
}

static void test_values(void **state)
{
	(void)state;
	assert_int_equal(parse("a --flag --number=7 --text x b --each 1 "
		"--each=2 --each 3 --ranks 0,4-6,2"), OPT_RUN);
	assert_true(values.flag);
	assert_int_equal(values.number, 7);
	assert_string_equal(values.text, "x");
	assert_int_equal(values.texts.n, 3);
	assert_string_equal(values.texts.data[0], "1");
	assert_string_equal(values.texts.data[2], "3");
	assert_int_equal(values.ranks.n, 5);
	assert_int_equal(values.ranks.data[0], 0);
	assert_int_equal(values.ranks.data[1], 4);
	assert_int_equal(values.ranks.data[3], 6);
	assert_int_equal(values.ranks.data[4], 2);
	assert_int_equal(call.n_operands, 2);
	assert_string_equal(call.operands[0], "a");
	assert_string_equal(call.operands[1], "b");
	assert_ptr_equal(call.values, &values);
}

static void test_letters(void **state)
{
	(void)state;
	assert_int_equal(parse("-n3 -t out a"), OPT_RUN);
	assert_int_equal(values.number, 3);
	assert_string_equal(values.text, "out");
}

static void test_nothing_given_is_zero(void **state)
{
	(void)state;
	assert_int_equal(parse("a"), OPT_RUN);
	assert_false(values.flag);
	assert_int_equal(values.number, 0);
	assert_null(values.text);
	assert_int_equal(values.texts.n, 0);
}

static void test_the_last_one_counts(void **state)
{
	(void)state;
	assert_int_equal(parse("--text a --text b c"), OPT_RUN);
	assert_string_equal(values.text, "b");
}

static void test_operands_that_look_like_options(void **state)
{
	(void)state;
	assert_int_equal(parse("-- --flag -x"), OPT_RUN);
	assert_false(values.flag);
	assert_int_equal(call.n_operands, 2);
	assert_string_equal(call.operands[0], "--flag");
	assert_int_equal(parse("-"), OPT_RUN);
	assert_string_equal(call.operands[0], "-");
}

static void test_help(void **state)
{
	(void)state;
	assert_int_equal(parse("--help"), OPT_HELP);
	assert_int_equal(parse("a -h"), OPT_HELP);
	assert_int_equal(parse("--help --nonsense"), OPT_HELP);
	assert_int_equal(parse("a -- --help"), OPT_RUN);
}

static void test_unknown(void **state)
{
	(void)state;
	expect_wrong("a --fla",
		"unknown option --fla; did you mean --flag?");
	expect_wrong("a --txet=3",
		"unknown option --txet; did you mean --text?");
	expect_wrong("a --hlep",
		"unknown option --hlep; did you mean --help?");
	expect_wrong("a --quite-different",
		"unknown option --quite-different");
	expect_wrong("a -x", "unknown option -x");
}

static void test_missing(void **state)
{
	(void)state;
	expect_wrong("--flag",
		"expected RUN...: a folder or files of traces");
	expect_wrong("", "expected RUN...: a folder or files of traces");
	expect_wrong("a --text", "--text wants FILE");
	expect_wrong("a --text=", "--text wants FILE");
	expect_wrong("a -n", "--number wants N");
	expect_wrong("a --flag=1", "--flag takes no value");
}

static void test_wrong_numbers(void **state)
{
	static const char *const lines[] = { "0", "65", "-1", "+1", "1x", "x",
		"99999999999999999999", "1e3", "0x3" };
	char line[64], message[128];

	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		snprintf(line, sizeof line, "a --number=%s", lines[i]);
		snprintf(message, sizeof message, "--number: expected a number "
			"from 1 to 64, found '%s'", lines[i]);
		expect_wrong(line, message);
	}
	assert_int_equal(parse("a --number 64"), OPT_RUN);
}

static void test_wrong_ranks(void **state)
{
	static const char *const lists[] = { ",", "1,", ",1", "1-", "-1",
		"3-1", "1 ,2", "a", "1,,2", "99999999999", "0-99999999999",
		"1--2" };
	char line[64];

	(void)state;
	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
		if (strchr(lists[i], ' '))
			continue; /* the test's own words split there */
		snprintf(line, sizeof line, "a --ranks=%s", lists[i]);
		assert_int_equal(parse(line), OPT_WRONG);
		assert_non_null(strstr(err.message,
			"--ranks: expected ranks like 0,1,2 or 0-7"));
	}
}

static void test_many_operands(void **state)
{
	static char words[1000][16];
	static char *argv[1001];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		snprintf(words[i], sizeof words[i], "f%d", i);
		argv[i] = words[i];
	}
	assert_int_equal(opt_parse(&verb, argv, &values, arena, &call, &err),
		OPT_RUN);
	assert_int_equal(call.n_operands, 1000);
	for (int i = 0; i < 1000; i++)
		assert_string_equal(call.operands[i], words[i]);
}

static void test_nearest(void **state)
{
	static const char *const names[] = { "report", "replay", "convert" };

	(void)state;
	assert_string_equal(opt_nearest("reprot", names, 3), "report");
	assert_string_equal(opt_nearest("repaly", names, 3), "replay");
	assert_string_equal(opt_nearest("conv", names, 3), "convert");
	assert_null(opt_nearest("elephant", names, 3));
	assert_null(opt_nearest("", names, 3));
	assert_null(opt_nearest("x", names, 3));
}

static void test_help_text(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_non_null(out);
	opt_help(&verb, out);
	fclose(out);
	assert_string_equal(text,
		"Usage: taut try RUN... [options]\n"
		"\n"
		"First.\n"
		"\n"
		"Second.\n"
		"\n"
		"Options:\n"
		"      --flag              a flag\n"
		"  -n, --number N          a number\n"
		"  -t, --text FILE         a text\n"
		"      --each T            some texts, and a help that is so "
		"long that it must be\n"
		"                          broken into more than one line\n"
		"      --ranks LIST        ranks\n"
		"      --part PERCENT      a part\n"
		"  -h, --help              this text\n");
	free(text);
}

static int make_arena(void **state)
{
	(void)state;
	arena = taut_arena_create();
	return arena ? 0 : -1;
}

static int drop_arena(void **state)
{
	(void)state;
	taut_arena_destroy(arena);
	return 0;
}

/* What follows the command is the command's. */
static void test_a_command(void **state)
{
	(void)state;
	static const char *const lines[] = { "--flag -- run --flag -h",
		"--flag run --flag -h", "--flag run -- --help" };
	struct verb command = verb;

	command.is_command = true;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(parse_as(&command, lines[i]), OPT_RUN);
		assert_true(values.flag);
		assert_int_equal(call.n_operands, 3);
		assert_string_equal(call.operands[0], "run");
	}
	assert_string_equal(call.operands[1], "--");
	assert_int_equal(parse_as(&command, "--flag"), OPT_WRONG);
	assert_string_equal(err.message, "expected RUN...: what to run");
	assert_int_equal(parse_as(&command, "-h run"), OPT_HELP);
}

static void test_bytes(void **state)
{
	const uint64_t most = UINT64_C(1) << 40;
	const char *at = "512k:";
	uint64_t bytes = 1;

	(void)state;
	assert_true(opt_bytes(&at, most, &bytes));
	assert_int_equal(bytes, 512 << 10);
	assert_string_equal(at, ":");
	at = "1024G";
	assert_true(opt_bytes(&at, most, &bytes));
	assert_true(bytes == most);
	at = "1025G";
	assert_false(opt_bytes(&at, most, &bytes));
	at = "999999999999G"; /* by the shift alone it would be less */
	assert_false(opt_bytes(&at, most, &bytes));
	at = "K";
	assert_false(opt_bytes(&at, most, &bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_percent),
		cmocka_unit_test(test_letters),
		cmocka_unit_test(test_nothing_given_is_zero),
		cmocka_unit_test(test_the_last_one_counts),
		cmocka_unit_test(test_operands_that_look_like_options),
		cmocka_unit_test(test_a_command),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_wrong_numbers),
		cmocka_unit_test(test_wrong_ranks),
		cmocka_unit_test(test_many_operands),
		cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_help_text),
	};

	return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
