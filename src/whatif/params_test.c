/* params_test.c - the words of a change, and what is said when they are
 * wrong. */
#include "tests/support/unit.h"

#include <string.h>

#include "tests/support/alloc_fail.h"
#include "whatif/whatif.h"

struct rig {
	struct taut_arena *arena;
	struct tauti_change change;
	struct taut_error err;
};

static int begin(void **state)
{
	struct rig *rig = test_calloc(1, sizeof *rig);

	rig->arena = taut_arena_create();
	*state = rig;
	return rig->arena == NULL;
}

static int end(void **state)
{
	struct rig *rig = *state;

	taut_arena_destroy(rig->arena);
	test_free(rig);
	return 0;
}

static void read_it(struct rig *rig, const char *text)
{
	if (tauti_change_read(text, rig->arena, &rig->change, &rig->err))
		fail_msg("%s", rig->err.message);
}

static void refused(struct rig *rig, const char *text, const char *says)
{
	rig->err.message[0] = '\0';
	assert_int_equal(tauti_change_read(text, rig->arena, &rig->change,
		&rig->err), TAUT_EINVAL);
	assert_string_equal(rig->err.message, says);
}

/* --- a change --------------------------------------------------------------------- */

static void test_value_and_keys(void **state)
{
	struct rig *rig = *state;

	read_it(rig, "link=4gbit,direction=up,from=1gbit");
	assert_string_equal(rig->change.is->info.name, "link");
	assert_string_equal(rig->change.values[0], "4gbit");
	assert_string_equal(rig->change.values[1], "");
	assert_string_equal(rig->change.values[2], "1gbit");
	assert_string_equal(rig->change.values[3], "up");
	assert_string_equal(
		rig->change.text, "link=4gbit,direction=up,from=1gbit");
	assert_true(tauti_param_given(&rig->change, 0));
	assert_false(tauti_param_given(&rig->change, 1));
	read_it(rig, "link,latency=2x");
	assert_string_equal(rig->change.values[0], "");
	assert_string_equal(rig->change.values[3], "both");
}

static void test_what_is_not_there(void **state)
{
	struct rig *rig = *state;

	refused(rig, "lnik=2x", "unknown change 'lnik'; did you mean link?");
	refused(rig, "elephant", "unknown change 'elephant'; --list shows all");
	refused(rig, "", "unknown change ''; --list shows all");
	refused(rig, "link=2x,latncy=2x", "link: unknown parameter 'latncy'; "
		"did you mean latency?");
	refused(rig, "link=2x,elephant=2", "link: unknown parameter "
		"'elephant'; --list link shows all");
}

static void test_what_is_no_key(void **state)
{
	struct rig *rig = *state;

	refused(rig, "link=2x,up", "link: expected KEY=VALUE behind the comma, "
		"found 'up'");
	refused(rig, "link=2x,", "link: expected KEY=VALUE behind the comma, "
		"found ''");
	refused(rig, "link=2x,=3", "link: expected KEY=VALUE behind the comma, "
		"found '=3'");
	refused(rig, "link=", "link: value: expected RATE|FACTOR, found "
		"nothing");
	refused(rig, "link=2x,latency=", "link: latency: expected TIME|FACTOR, "
		"found nothing");
	refused(rig, "link=2x,latency=1x,latency=2x",
		"link: latency is given twice");
}

static void test_no_memory(void **state)
{
	struct rig *rig = *state;
	taut_status status = TAUT_ENOMEM;

	for (long n = 0; status == TAUT_ENOMEM; n++) {
		struct taut_arena *arena;

		alloc_fail_after(n);
		arena = taut_arena_create();
		if (arena)
			status = tauti_change_read("link=2x,from=1gbit", arena,
				&rig->change, &rig->err);
		alloc_fail_never();
		taut_arena_destroy(arena);
	}
	assert_int_equal(status, TAUT_OK);
}

/* --- values ------------------------------------------------------------------------ */

static const struct taut_parameter forms[] = {
	{ "", "RATE|FACTOR", NULL, "" },
	{ "kind", "fp16|bf16|none", NULL, "" },
};
static const struct tauti_transformation made_up = {
	.info = { .name = "made", .parameters = forms, .n_parameters = 2 },
};

static struct tauti_change with(const char *const *value)
{
	return (struct tauti_change){ &made_up, value, "made" };
}

static void test_count(void **state)
{
	struct rig *rig = *state;
	const char *value = "16";
	struct tauti_change c = with(&value);
	uint32_t count;

	assert_int_equal(
		tauti_param_count(&c, 0, 1, 16, &count, &rig->err), TAUT_OK);
	assert_int_equal(count, 16);
	static const char *const wrong[] = { "0", "17", "1.5", "", "x", "2x",
		"-1", "+1", "99999999999999999999" };

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		value = wrong[i];
		assert_int_equal(tauti_param_count(&c, 0, 1, 16, &count,
			&rig->err), TAUT_EINVAL);
	}
	value = "17";
	assert_int_equal(tauti_param_count(&c, 0, 1, 16, &count, &rig->err),
		TAUT_EINVAL);
	assert_string_equal(rig->err.message, "made: value: expected a whole "
		"number from 1 to 16, found '17'");
}

static void test_number(void **state)
{
	struct rig *rig = *state;
	const char *value = "0.25";
	struct tauti_change c = with(&value);
	double number;

	assert_int_equal(tauti_param_number(&c, 0, 0, 1, &number, &rig->err),
		TAUT_OK);
	assert_true(number == 0.25);
	value = "1.01";
	assert_int_equal(tauti_param_number(&c, 0, 0, 1, &number, &rig->err),
		TAUT_EINVAL);
	assert_string_equal(rig->err.message, "made: value: expected a number "
		"from 0 to 1, found '1.01'");
	value = ".";
	assert_int_equal(tauti_param_number(&c, 0, 0, 1, &number, &rig->err),
		TAUT_EINVAL);
}

static double scaled(struct rig *rig, enum tauti_unit unit, const char *value,
	bool *ret_is_factor)
{
	struct tauti_change c = with(&value);
	double result = -1;

	*ret_is_factor = false;
	if (tauti_param_scaled(&c, 0, unit, ret_is_factor, &result, &rig->err))
		return -1;
	return result;
}

static void test_scaled(void **state)
{
	static const struct {
		enum tauti_unit unit;
		const char *text;
		double value;
		bool is_factor;
	} cases[] = {
		{ TAUTI_BITS_PER_S, "2x", 2, true },
		{ TAUTI_BITS_PER_S, "0.5X", 0.5, true },
		{ TAUTI_BITS_PER_S, "+25%", 1.25, true },
		{ TAUTI_BITS_PER_S, "-10%", 0.9, true },
		{ TAUTI_BITS_PER_S, "-100%", 0, true },
		{ TAUTI_BITS_PER_S, "-101%", -1, false },
		{ TAUTI_BITS_PER_S, "25%", -1, false },
		{ TAUTI_BITS_PER_S, "+2x", -1, false },
		{ TAUTI_BITS_PER_S, "4gbit", 4e9, false },
		{ TAUTI_BITS_PER_S, "1.5Gbit/s", 1.5e9, false },
		{ TAUTI_BITS_PER_S, "100mbitps", 1e8, false },
		{ TAUTI_BITS_PER_S, "9kbit", 9e3, false },
		{ TAUTI_BITS_PER_S, "7bit", 7, false },
		{ TAUTI_BITS_PER_S, "1tbit", 1e12, false },
		{ TAUTI_BITS_PER_S, "4", -1, false },
		{ TAUTI_BITS_PER_S, "4gbot", -1, false },
		{ TAUTI_BITS_PER_S, "gbit", -1, false },
		{ TAUTI_BITS_PER_S, "", -1, false },
		{ TAUTI_BYTES, "25MB", 25e6, false },
		{ TAUTI_BYTES, "25MiB", 26214400, false },
		{ TAUTI_BYTES, "512KiB", 524288, false },
		{ TAUTI_BYTES, "2GiB", 2147483648.0, false },
		{ TAUTI_BYTES, "3kB", 3e3, false },
		{ TAUTI_BYTES, "1gb", 1e9, false },
		{ TAUTI_BYTES, "17", 17, false },
		{ TAUTI_BYTES, "17B", 17, false },
		{ TAUTI_BYTES, "17ms", -1, false },
		{ TAUTI_NS, "10us", 1e4, false },
		{ TAUTI_NS, "1.5ms", 1.5e6, false },
		{ TAUTI_NS, "2s", 2e9, false },
		{ TAUTI_NS, "30ns", 30, false },
		{ TAUTI_NS, "30", -1, false },
		{ TAUTI_PLAIN, "64", 64, false },
		{ TAUTI_PLAIN, "64MB", -1, false },
		{ TAUTI_PLAIN, "1e3", -1, false },
		{ TAUTI_PLAIN, "1234567890123456", -1, false },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		bool is_factor;
		double got = scaled(
			*state, cases[i].unit, cases[i].text, &is_factor);

		if (got != cases[i].value || is_factor != cases[i].is_factor)
			fail_msg("%s: %g", cases[i].text, got);
	}
}

static void test_scaled_says_the_form(void **state)
{
	struct rig *rig = *state;
	bool is_factor;

	scaled(rig, TAUTI_BITS_PER_S, "4gbot", &is_factor);
	assert_string_equal(rig->err.message, "made: value: expected a rate "
		"like 4gbit or 250mbit, or a factor like 2x, +25% or -10%, "
		"found '4gbot'");
	scaled(rig, TAUTI_NS, "soon", &is_factor);
	assert_non_null(strstr(rig->err.message, "a time like 50us"));
	scaled(rig, TAUTI_BYTES, "big", &is_factor);
	assert_non_null(strstr(rig->err.message, "a size like 25MB"));
	scaled(rig, TAUTI_PLAIN, "x", &is_factor);
	assert_non_null(strstr(rig->err.message, "a number, or a factor"));
}

static void test_word(void **state)
{
	struct rig *rig = *state;
	const char *values[] = { "", "bf16" };
	struct tauti_change c = with(values);
	uint32_t word;

	assert_int_equal(tauti_param_word(&c, 1, &word, &rig->err), TAUT_OK);
	assert_int_equal(word, 1);
	values[1] = "none";
	assert_int_equal(tauti_param_word(&c, 1, &word, &rig->err), TAUT_OK);
	assert_int_equal(word, 2);
	values[1] = "bf1";
	assert_int_equal(
		tauti_param_word(&c, 1, &word, &rig->err), TAUT_EINVAL);
	assert_string_equal(rig->err.message, "made: kind: expected one of "
		"fp16|bf16|none, found 'bf1'");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(test_value_and_keys),
		TEST(test_what_is_not_there),
		TEST(test_what_is_no_key),
		TEST(test_no_memory),
		TEST(test_count),
		TEST(test_number),
		TEST(test_scaled),
		TEST(test_scaled_says_the_form),
		TEST(test_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
