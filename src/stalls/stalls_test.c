/* Ranks together: rates, stalls, what was read; and ranks that do not belong together. */
#include "stalls/world_by_hand.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/alloc_fail.h"

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/taut-stalls-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	static const char *const names[] = { "rank-0.stalls", "rank-1.stalls", "files",
		"run-2/rank-0.stalls", "run-2/rank-1.stalls", "run-3/rank-0.stalls",
		"run-3/rank-1.stalls", "run-2", "run-3" };
	char path[128];

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		(void)remove(path);
	}
	return rmdir(folder);
}

static void write_file(const char *name, const char *text)
{
	char path[192];
	FILE *out;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	assert_int_equal(fclose(out), 0);
}

static int remove_file(const char *name)
{
	char path[192];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return remove(path);
}

/* Of two ranks with batches of 8, on hosts of that name; of a run of the job. */
static void write_rank_of(
	uint32_t run, uint32_t rank, const char *host, const char *lines)
{
	char path[128], name[64], *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	fprintf(out, "taut-stalls 1\nrank %u of 2\nhost %s\nloader torch\nunit batch\n"
		"workers 2\ndepth 4\nbatch 8\nitems 1000\ndevice 0\n%s", rank, host, lines);
	fclose(out);
	if (run > 1) {
		snprintf(path, sizeof path, "%s/run-%u", folder, run);
		(void)mkdir(path, 0777);
		snprintf(name, sizeof name, "run-%u/rank-%u.stalls", run, rank);
	} else {
		snprintf(name, sizeof name, "rank-%u.stalls", rank);
	}
	write_file(name, text);
	free(text);
}

static void write_rank(uint32_t rank, const char *host, const char *lines)
{
	write_rank_of(1, rank, host, lines);
}

static struct taut_stalls_result result_of_folder(void)
{
	struct taut_stalls_result result;
	struct taut_stalls *stalls;
	struct taut_error err = { .message = "" };

	if (taut_stalls_open(folder, &stalls, &err))
		fail_msg("%s", err.message);
	taut_stalls_result(stalls, &result);
	taut_stalls_close(stalls);
	return result;
}

static void refuse(taut_status status, const char *expected)
{
	struct taut_stalls *stalls;
	struct taut_error err = { .message = "" };

	assert_int_equal(taut_stalls_open(folder, &stalls, &err), status);
	if (!strstr(err.message, expected))
		fail_msg("'%s', expected '%s'", err.message, expected);
}

/* --- results -----------------------------------------------------------------------------*/

/* The slower rank's time is that of all; rounds are compared each with itself, so that the
 * second, in which all was three times as slow, says the same of stalls. */
static void test_rates_and_stalls(void **state)
{
	struct taut_stalls_result result;

	(void)state;
	write_rank(0, "a", "phase 0 place 10 80 1000 0 1000 0 0 0 0\n"
		"phase 0 cold 10 80 2000 0 2500 1600 1600 160 16000\n"
		"phase 0 cached 10 80 1250 0 2500 1600 16 160 16000\n"
		"phase 1 place 10 80 3000 0 1000 0 0 0 0\n"
		"phase 1 cold 10 80 6000 0 2500 1600 1500 160 16000\n"
		"phase 1 cached 10 80 3750 0 2500 1600 16 160 16000\nend\n");
	write_rank(1, "a", "phase 0 place 10 80 900 0 1000 0 0 0 0\n"
		"phase 0 cold 10 80 2500 0 2500 14400 14400 160 16000\n"
		"phase 0 cached 10 80 1200 0 2500 14400 144 160 16000\n"
		"phase 1 place 10 80 2700 0 1000 0 0 0 0\n"
		"phase 1 cold 10 80 7500 0 2500 14400 14400 160 16000\n"
		"phase 1 cached 10 80 3600 0 2500 14400 144 160 16000\n");
	write_file("files", "50 /a\n150 /b\n0 /c\n");
	result = result_of_folder();
	assert_int_equal(result.n_ranks, 2);
	assert_int_equal(result.n_hosts, 1);
	assert_int_equal(result.n_workers, 2);
	assert_int_equal(result.batch, 8);
	assert_int_equal(result.depth, 4);
	assert_int_equal(result.n_items, 1000);
	assert_string_equal(result.loader, "torch");
	assert_false(result.on_device);
	world_near(result.rate[TAUT_STALLS_PLACE].value,
		(160 / 1000e-9 + 160 / 3000e-9) / 2, 1e-9, "place");
	assert_int_equal(result.rate[TAUT_STALLS_PLACE].n_rounds, 2);
	assert_int_equal(result.rate[TAUT_STALLS_PART].n_rounds, 0);
	world_near(result.fetch_stall.value, 0.5, 1e-9, "fetch_stall");
	world_near(result.fetch_stall.low, 0.5, 1e-9, "its low end");
	world_near(result.prepare_stall.value, 0.1, 1e-9, "prepare_stall");
	world_near(result.cached_stall.value, 0.2, 1e-9, "cached_stall");
	world_near(result.mean_bytes, 100, 1e-9, "mean_bytes");
	world_near(result.spread_bytes, 0.5, 1e-9, "spread_bytes");
	world_near(result.cold_share, 31900 / 32000.0, 1e-9, "cold_share");
	world_near(result.cached_share, 320 / 32000.0, 1e-9, "cached_share");
}

/* Of a run of two rounds, ranks alike: steps in place of so many ns, and cached ones of a
 * quarter more. */
static void write_run(uint32_t run, int first_ns, int second_ns)
{
	char lines[512];

	snprintf(lines, sizeof lines, "fault_ns %d\n"
		"phase 0 place 10 80 %d 0 1000 0 0 0 0\n"
		"phase 0 cached 10 80 %d 0 2500 1600 16 160 16000\n"
		"phase 1 place 10 80 %d 0 1000 0 0 0 0\n"
		"phase 1 cached 10 80 %d 0 2500 1600 16 160 16000\nend\n", first_ns,
		10 * first_ns, 10 * first_ns * 5 / 4, 10 * second_ns,
		10 * second_ns * 5 / 4);
	for (uint32_t rank = 0; rank < 2; rank++)
		write_rank_of(run, rank, "a", lines);
}

/* Of each run its median, of these the mean: of rates that of their logarithms; and the
 * interval is over the runs, with Student's t of two degrees of freedom. */
static void test_runs(void **state)
{
	const double n[] = { 16 / 2000e-9, 16 / 1000e-9, 16 / 4000e-9 }; /* samples/s */
	double mean = (log(n[0]) + log(n[1]) + log(n[2])) / 3, deviation = log(2);
	const struct taut_stalls_value *place;
	struct taut_stalls_result result;

	(void)state;
	write_run(1, 2000, 2000);
	write_run(2, 1000, 1000);
	write_run(3, 4000, 4000);
	result = result_of_folder();
	place = &result.rate[TAUT_STALLS_PLACE];
	assert_int_equal(result.n_runs, 3);
	assert_int_equal(result.n_ranks, 2);
	assert_int_equal(result.n_hosts, 1);
	assert_int_equal(place->n_rounds, 6);
	world_near(place->value, exp(mean), 1e-9, "place");
	world_near(place->low, exp(mean - 4.303 * deviation / sqrt(3)), 1e-4, "low");
	world_near(place->high, exp(mean + 4.303 * deviation / sqrt(3)), 1e-4, "high");
	world_near(result.cached_stall.value, 0.2, 1e-9, "cached_stall");
	world_near(result.cached_stall.low, 0.2, 1e-9, "its low end");
	world_near(result.faults.fault_ns, 7000 / 3.0, 1e-9, "fault_ns");
	world_near(result.cached_share, 32 / 16000.0, 1e-9, "cached_share");
}

/* Rounds of one run that differ, and runs with as many rounds as they came to. */
static void test_rounds_of_runs(void **state)
{
	struct taut_stalls_result result;

	(void)state;
	write_run(1, 1000, 3000);
	write_rank_of(2, 0, "a", "phase 0 place 10 80 40000 0 1000 0 0 0 0\n"
		"phase 2 place 10 80 40000 0 1000 0 0 0 0\n");
	write_rank_of(2, 1, "a", "phase 0 place 10 80 40000 0 1000 0 0 0 0\n"
		"phase 2 place 10 80 40000 0 1000 0 0 0 0\n");
	result = result_of_folder();
	assert_int_equal(result.n_runs, 2);
	assert_int_equal(result.rate[TAUT_STALLS_PLACE].n_rounds, 4);
	world_near(result.rate[TAUT_STALLS_PLACE].value,
		sqrt((16 / 1000e-9 + 16 / 3000e-9) / 2 * 16 / 4000e-9), 1e-9, "place");
	/* One run alone has cached items: of others that says nothing. */
	assert_int_equal(result.rate[TAUT_STALLS_CACHED].n_rounds, 1);
	assert_true(result.rate[TAUT_STALLS_CACHED].low ==
		result.rate[TAUT_STALLS_CACHED].high);
	assert_true(result.faults.fault_ns == 0);
}

static void test_runs_that_contradict(void **state)
{
	(void)state;
	write_run(1, 1000, 1000);
	write_run(2, 1000, 1000);
	write_file("run-2/rank-1.stalls", "taut-stalls 1\nrank 1 of 2\nhost a\nloader torch\n"
		"unit batch\nworkers 2\ndepth 8\nbatch 8\nitems 1000\ndevice 0\n");
	refuse(TAUT_EMATCH, "rank-0.stalls and run-2/rank-1.stalls: expected the same depth, "
		"found 4 and 8");
	write_file("run-2/rank-1.stalls", "taut-stalls 1\nrank 0 of 2\nhost a\nloader torch\n"
		"unit batch\nworkers 2\ndepth 4\nbatch 8\nitems 1000\ndevice 0\n");
	refuse(TAUT_EMATCH, "run-2/rank-1.stalls: expected rank 1, found 0");
	write_rank_of(2, 1, "a", "phase 0 place 9 80 1 0 1 0 0 0 0\n");
	refuse(TAUT_EMATCH, "run-2/rank-0.stalls and run-2/rank-1.stalls: expected the same "
		"steps of 'place' of round 0, found 10 and 9");
	write_file("run-2/rank-1.stalls", "nothing\n");
	refuse(TAUT_EFORMAT, "/run-2/rank-1.stalls:1: expected 'taut-stalls 1'");
	write_run(3, 1000, 1000);
	write_rank_of(2, 1, "a", "phase 0 place 10 80 1 0 1 0 0 0 0\n");
	assert_int_equal(remove_file("run-3/rank-1.stalls"), 0);
	refuse(TAUT_EMATCH, "/run-3: expected the 2 ranks of the first run, found 1");
}

/* In two rounds 1,000 and 3,000 faults of 2 us each, by both ranks: of 10 steps that take 2 ms of
 * processor time each, and of 80 items whose workers take 100 us each. */
static void test_page_faults(void **state)
{
	static const char lines[] = "fault_ns 2000\n"
		"phase 0 place 10 80 30000000 0 20000000 0 0 0 0\nfaults 0 place 1000 0\n"
		"phase 0 cached 10 80 30000000 0 28000000 0 0 0 0 20000000\n"
		"faults 0 cached 1000 800\n"
		"phase 1 place 10 80 30000000 0 20000000 0 0 0 0\nfaults 1 place 3000 0\n"
		"phase 1 cached 10 80 30000000 0 28000000 0 0 0 0 20000000\n"
		"faults 1 cached 1000 1600\n";
	struct taut_stalls_faults faults;

	(void)state;
	write_rank(0, "a", lines);
	write_rank(1, "a", lines);
	faults = result_of_folder().faults;
	world_near(faults.fault_ns, 2000, 1e-9, "fault_ns");
	world_near(faults.step, 200, 1e-9, "faults of a step");
	world_near(faults.step_share, 0.2, 1e-9, "their share");
	world_near(faults.item, 15, 1e-9, "faults of an item");
	world_near(faults.item_share, 0.3, 1e-9, "their share");
	write_rank(1, "a", lines + strlen("fault_ns 2000\n")); /* it does not say */
	faults = result_of_folder().faults;
	assert_true(faults.fault_ns == 0 && faults.step_share < 0 && faults.item_share < 0);
	world_near(faults.step, 200, 1e-9, "faults of a step");
}

/* Workers that are threads are not told apart from the job. */
static void test_faults_of_threads(void **state)
{
	static const char lines[] = "fault_ns 2000\n"
		"phase 0 cached 10 80 30000000 0 28000000 0 0 0 0\nfaults 0 cached 1000 0\n";
	struct taut_stalls_faults faults;

	(void)state;
	write_rank(0, "a", lines);
	write_rank(1, "a", lines);
	faults = result_of_folder().faults;
	assert_true(faults.step < 0 && faults.item < 0 && faults.item_share < 0);
}

/* Each rank of a host says what all of them opened, those of two hosts what theirs did. */
static void test_two_hosts(void **state)
{
	static const char lines[] = "phase 0 cached 10 80 1250 0 2500 1600 -1 80 16000\nend\n";
	struct taut_stalls_result result;

	(void)state;
	write_rank(0, "a", lines);
	write_rank(1, "b", lines);
	result = result_of_folder();
	assert_int_equal(result.n_hosts, 2);
	world_near(result.mean_bytes, 200, 1e-9, "mean_bytes");
	assert_true(result.cached_share < 0 && result.cold_share < 0);
	assert_int_equal(result.fetch_stall.n_rounds, 0);
	assert_true(result.rate[TAUT_STALLS_COLD].value == 0);
}

/* Items within larger files: what was read says what is read for one. */
static void test_items_that_are_no_files(void **state)
{
	static const char lines[] = "phase 0 cold 10 80 1250 0 2500 16000 8000 2 9000000\n"
		"phase 0 cached 10 80 1250 0 2500 16000 0 2 9000000\n";
	struct taut_stalls_result result;

	(void)state;
	write_rank(0, "a", lines);
	write_rank(1, "a", lines);
	write_file("files", "9000000 /tar\n10 /small\n");
	result = result_of_folder();
	world_near(result.mean_bytes, 100, 1e-9, "mean_bytes");
	assert_true(result.spread_bytes == 0);
	world_near(result.cold_share, 0.5, 1e-9, "cold_share");
}

/* Noise alone: no stall is below 0. */
static void test_shares_are_shares(void **state)
{
	static const char lines[] = "phase 0 place 10 80 1300 0 1 0 0 0 0\n"
		"phase 0 cold 10 80 1200 0 1 0 0 0 0\n"
		"phase 0 cached 10 80 1250 0 1 0 0 0 0\n"
		"phase 1 place 10 80 1300 0 1 0 0 0 0\n"
		"phase 1 cold 10 80 2400 0 1 0 0 0 0\n"
		"phase 1 cached 10 80 1200 0 1 0 0 0 0\n";
	struct taut_stalls_result result;

	(void)state;
	write_rank(0, "a", lines);
	write_rank(1, "a", lines);
	result = result_of_folder();
	assert_true(result.prepare_stall.value == 0);
	assert_true(result.fetch_stall.low == 0 && result.fetch_stall.high == 1);
	assert_true(result.mean_bytes == 0 && result.cold_share == -1);
}

/* --- what is refused ---------------------------------------------------------------------*/

static void test_ranks_that_contradict(void **state)
{
	static const char lines[] = "phase 0 place 10 80 1 0 1 0 0 0 0\n";

	(void)state;
	refuse(TAUT_EIO, "rank-0.stalls: No such file");
	write_rank(0, "a", lines);
	assert_int_equal(result_of_folder().n_without, 1);
	write_rank(1, "a", "phase 0 place 9 80 1 0 1 0 0 0 0\n");
	refuse(TAUT_EMATCH, "rank-0.stalls and rank-1.stalls: expected the same steps of "
		"'place' of round 0, found 10 and 9");
	write_file("rank-1.stalls", "taut-stalls 1\nrank 1 of 2\nhost a\nloader mxnet\n"
		"unit batch\nworkers 2\ndepth 4\nbatch 8\nitems 1000\ndevice 0\n");
	refuse(TAUT_EMATCH, "expected the same loader, found torch and mxnet");
	write_file("rank-1.stalls", "taut-stalls 1\nrank 1 of 2\nhost a\nloader torch\n"
		"unit batch\nworkers 3\ndepth 4\nbatch 8\nitems 1000\ndevice 0\n");
	refuse(TAUT_EMATCH, "expected the same workers, found 2 and 3");
	write_file("rank-1.stalls", "taut-stalls 1\nrank 0 of 2\nhost a\nloader torch\n"
		"unit batch\nworkers 2\ndepth 4\nbatch 8\nitems 1000\ndevice 0\n");
	refuse(TAUT_EMATCH, "rank-1.stalls: expected rank 1, found 0");
	write_file("rank-1.stalls", "nothing\n");
	refuse(TAUT_EFORMAT, "/rank-1.stalls:1: expected 'taut-stalls 1', found 'nothing'");
}

static void test_nothing_in_common(void **state)
{
	(void)state;
	write_rank(0, "a", "phase 0 place 10 80 1 0 1 0 0 0 0\n"
		"phase 0 cold 0 0 0 0 0 0 0 0 0\n");
	write_rank(1, "a", "phase 1 place 10 80 1 0 1 0 0 0 0\n");
	refuse(TAUT_EFORMAT, "rank-0.stalls: expected a phase with steps of all ranks, found "
		"none up to 'cold' of round 0");
	write_rank(0, "a", "");
	refuse(TAUT_EFORMAT, "rank-0.stalls: expected a phase of all ranks, found none");
}

static void test_without_memory(void **state)
{
	static const char lines[] = "phase 0 place 10 80 1 0 1 0 0 0 0\nstep 0 place 1 0 0\n";
	struct taut_stalls *stalls;
	taut_status status = TAUT_ENOMEM;
	long n;

	(void)state;
	write_rank(0, "a", lines);
	write_rank(1, "a", lines);
	write_file("files", "50 /a\n");
	for (n = 0; status; n++) {
		assert_true(n < 200);
		alloc_fail_after(n);
		status = taut_stalls_open(folder, &stalls, NULL);
		alloc_fail_never();
	}
	assert_true(n > 10);
	taut_stalls_close(stalls);
	taut_stalls_close(NULL);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FOLDER(test_rates_and_stalls),
		WITH_FOLDER(test_runs),
		WITH_FOLDER(test_rounds_of_runs),
		WITH_FOLDER(test_runs_that_contradict),
		WITH_FOLDER(test_page_faults),
		WITH_FOLDER(test_faults_of_threads),
		WITH_FOLDER(test_two_hosts),
		WITH_FOLDER(test_items_that_are_no_files),
		WITH_FOLDER(test_shares_are_shares),
		WITH_FOLDER(test_ranks_that_contradict),
		WITH_FOLDER(test_nothing_in_common),
		WITH_FOLDER(test_without_memory),
	};
	return cmocka_run_group_tests_name("ranks together", tests, NULL, NULL);
}
