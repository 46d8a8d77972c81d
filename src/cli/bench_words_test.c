/* Sizes, names, and what launchers say. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

static void check_sizes(const char *text, size_t n, const uint64_t *sizes)
{
	struct bench_plan plan;
	struct taut_error err;

	assert_true(bench_read_sizes(text, &plan, &err));
	assert_int_equal(plan.n_sizes, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(plan.sizes[i], sizes[i]);
}

static void test_sizes(void **state)
{
	(void)state;
	check_sizes("4", 1, (uint64_t[]){ 4 });
	check_sizes("4:64", 3, (uint64_t[]){ 4, 16, 64 });
	check_sizes("1k:3K:2", 2, (uint64_t[]){ 1024, 2048 });
	check_sizes("32M,1K", 2, (uint64_t[]){ 1024, 32 << 20 });
	check_sizes("8,4:16:2", 4, (uint64_t[]){ 4, 8, 8, 16 });
	check_sizes("1G", 1, (uint64_t[]){ 1 << 30 });
}

static void test_no_sizes(void **state)
{
	static const char *const wrong[] = { "", ",", "4,", "x", "0", "4:2",
		"4:8:1", "4:", "4:8:", "4 8", "4KB", "-4", "99999999999999999999",
		"2000G", "1:1000000:2:2", ("1:1K:2,1:1K:2,1:1K:2,1:1K:2,"
		"1:1K:2,1:1K:2,1:1K:2,1:1K:2,1:1K:2,1:1K:2,1:1K:2,1:1K:2") };

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct bench_plan plan;
		struct taut_error err = { .message = "" };

		assert_false(bench_read_sizes(wrong[i], &plan, &err));
		assert_non_null(strstr(err.message, "--sizes: expected"));
	}
}

static void test_bytes(void **state)
{
	struct taut_error err = { .message = "" };
	uint64_t bytes;

	(void)state;
	assert_true(bench_read_bytes("pass", "64K", &bytes, &err));
	assert_int_equal(bytes, 65536);
	assert_false(bench_read_bytes("pass", "0", &bytes, &err));
	assert_false(bench_read_bytes("pass", "1M2", &bytes, &err));
	assert_non_null(strstr(err.message, "--pass: expected bytes"));
}

static const char *fruit(unsigned i)
{
	static const char *const names[] = { "apple", "red_currant", "plum" };

	return names[i];
}

static void test_names(void **state)
{
	struct taut_error err = { .message = "" };
	unsigned i = 9;

	(void)state;
	assert_true(bench_read_name("--fruit", "plum", 3, fruit, &i, &err));
	assert_int_equal(i, 2);
	assert_true(bench_read_name(
		"--fruit", "red-currant", 3, fruit, &i, &err));
	assert_int_equal(i, 1);
	assert_true(bench_read_name(
		"--fruit", "redcurrant", 3, fruit, &i, &err));
	assert_false(bench_read_name("--fruit", "plums", 3, fruit, &i, &err));
	assert_non_null(strstr(err.message, "did you mean plum"));
	assert_false(bench_read_name("--fruit", "x", 3, fruit, &i, &err));
	assert_string_equal(err.message, "--fruit: expected apple, red_currant "
		"or plum, found 'x'");
}

/* --- launchers ---------------------------------------------------------------------------*/

static const char *const variables[] = { "TAUT_RANK", "TAUT_RANKS",
	"TAUT_MEET", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
	"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
	"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID" };

static int clear_environment(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		unsetenv(variables[i]);
	return 0;
}

/* "NAME=VALUE ...", then what the place is. */
static bool place_in(const char *environment, unsigned ranks,
	const char *meet, struct bench_place *place, struct taut_error *err)
{
	char text[256], *at = text, *word;

	clear_environment(NULL);
	snprintf(text, sizeof text, "%s", environment);
	while ((word = strsep(&at, " ")) != NULL) {
		char *equals = strchr(word, '=');

		if (!equals)
			continue;
		*equals = '\0';
		setenv(word, equals + 1, 1);
	}
	return bench_find_place(ranks, meet, place, err);
}

static void test_place(void **state)
{
	static const char torchrun[] =
		"RANK=3 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=29500";
	struct taut_error err = { .message = "" };
	struct bench_place place;

	(void)state;
	assert_true(place_in("", 5, NULL, &place, &err));
	assert_false(place.launched);
	assert_int_equal(place.n_ranks, 5);
	assert_true(place_in("", 0, NULL, &place, &err));
	assert_false(place.launched);
	assert_true(place.n_ranks >= 2);
	assert_true(place_in("SLURM_PROCID=0 SLURM_NTASKS=8", 0, NULL, &place, &err));
	assert_false(place.launched);
	assert_true(place_in("SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_STEP_ID=0", 0, "h:1",
		&place, &err));
	assert_true(place.launched);
	assert_int_equal(place.rank, 5);
	assert_true(place_in(torchrun, 0, NULL, &place, &err));
	assert_true(place.launched);
	assert_int_equal(place.rank, 3);
	assert_int_equal(place.n_ranks, 4);
	assert_string_equal(place.meet, "h:29501");
	/* What is asked for comes first. */
	assert_true(place_in(torchrun, 2, NULL, &place, &err));
	assert_false(place.launched);
	assert_true(place_in(torchrun, 0, "other:1", &place, &err));
	assert_string_equal(place.meet, "other:1");
	assert_true(place_in("TAUT_RANK=0 TAUT_RANKS=2 TAUT_MEET=a:5 RANK=1 "
		"WORLD_SIZE=9", 0, NULL, &place, &err));
	assert_int_equal(place.n_ranks, 2);
	assert_string_equal(place.meet, "a:5");
	assert_true(place_in("PMI_RANK=1 PMI_SIZE=2", 0, "a:5", &place, &err));
	assert_int_equal(place.rank, 1);
}

static void test_no_place(void **state)
{
	struct taut_error err = { .message = "" };
	struct bench_place place;

	(void)state;
	assert_false(place_in("PMI_RANK=1 PMI_SIZE=2", 0, NULL, &place, &err));
	assert_non_null(strstr(err.message, "--meet HOST:PORT"));
	assert_non_null(strstr(err.message, "$PMI_RANK"));
	assert_false(place_in("RANK=1 WORLD_SIZE=2 MASTER_ADDR=h "
		"MASTER_PORT=x", 0, NULL, &place, &err));
	assert_false(place_in("TAUT_RANK=2 TAUT_RANKS=2 TAUT_MEET=a:5", 0,
		NULL, &place, &err));
	assert_non_null(strstr(err.message, "is no rank of"));
	/* Ranks that are made here meet by themselves. */
	assert_false(place_in("", 0, "h:1", &place, &err));
	assert_non_null(strstr(err.message, "--meet: "));
	assert_false(place_in("PMI_RANK=1 PMI_SIZE=2", 2, "h:1", &place, &err));
	assert_non_null(strstr(err.message, "--ranks"));
	/* What is no number is no launcher. */
	assert_true(place_in("RANK=one WORLD_SIZE=2", 0, NULL, &place, &err));
	assert_false(place.launched);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_no_sizes),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_names),
		cmocka_unit_test_teardown(test_place, clear_environment),
		cmocka_unit_test_teardown(test_no_place, clear_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
