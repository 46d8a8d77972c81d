/* Real files, read again: what is said of too few, of those that stay in memory, and of a
 * store that is held back to a known rate. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <taut/stalls.h>

enum { N_PARTS = 32, N_FILES = 500, LEAST_BYTES = 10000, MOST_BYTES = 90000, RATE = 20000000 };

#define BLKIO "/sys/fs/cgroup/blkio"
#define GROUP BLKIO "/taut-probe-test"

static char folder[] = "/var/tmp/taut-probe-XXXXXX";
static uint64_t all_bytes;

/* --- files -------------------------------------------------------------------------------*/

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static void make_file(uint32_t i, uint32_t bytes, FILE *list)
{
	static char text[MOST_BYTES];
	char name[16];
	FILE *out;

	snprintf(name, sizeof name, "%u", i);
	out = fopen(path_of(name), "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, bytes, out), bytes);
	assert_int_equal(fflush(out), 0);
	fclose(out);
	fprintf(list, "%u %s\n", bytes, path_of(name));
	all_bytes += bytes;
}

static FILE *open_list(const char *mode)
{
	FILE *list = fopen(path_of("files"), mode);

	assert_non_null(list);
	return list;
}

static int make_files(void **state)
{
	FILE *list;

	(void)state;
	assert_non_null(mkdtemp(folder));
	list = open_list("wb");
	for (uint32_t i = 0; i < N_FILES; i++)
		make_file(i, LEAST_BYTES + i * 7919 % (MOST_BYTES - LEAST_BYTES), list);
	fclose(list);
	sync();
	return 0;
}

static int remove_files(void **state)
{
	char name[16];

	(void)state;
	for (uint32_t i = 0; i < N_FILES; i++) {
		snprintf(name, sizeof name, "%u", i);
		unlink(path_of(name));
	}
	unlink(path_of("files"));
	return rmdir(folder);
}

/* --- probing -----------------------------------------------------------------------------*/

static void all_points_are_measured(void **state)
{
	struct taut_stalls_probe_options options = { .limit_ns = 1500000000, .seed = 3 };
	struct taut_stalls_storage s;
	struct taut_error err;
	taut_status status = taut_stalls_probe(folder, &options, &s, &err);

	(void)state;
	if (status == TAUT_EAGAIN) { /* /var/tmp lies in memory */
		assert_non_null(strstr(err.message, "storage"));
		skip();
	}
	assert_int_equal(status, TAUT_OK);
	assert_in_range(s.n_points, 3, 6);
	for (uint32_t i = 0; i < s.n_points; i++) {
		double mean = s.points[i].bytes_s / s.points[i].reads_s;

		assert_int_equal(s.points[i].n_threads, 1u << i);
		assert_true(mean > LEAST_BYTES && mean < MOST_BYTES);
	}
	assert_true(s.rate_bytes_s > 0 && isfinite(s.rate_bytes_s));
	assert_true(s.latency_ns >= 0);
	assert_in_range(s.n_served, 1, 1u << (s.n_points - 1));
	assert_true(s.error >= 0 && isfinite(s.error));
}

/* "read_bytes: " or "rchar: " of this process; -1: the system does not say. */
static long long read_so_far(const char *key)
{
	FILE *in = fopen("/proc/self/io", "r");
	long long bytes = -1;
	char line[128];

	while (in && fgets(line, sizeof line, in))
		if (!strncmp(line, key, strlen(key)))
			bytes = atoll(line + strlen(key));
	if (in)
		fclose(in);
	return bytes;
}

/* All of it is read many times, and each time from storage. */
static void a_large_file_stays_cold(void **state)
{
	static char text[1 << 20];
	struct taut_stalls_probe_options options = { .limit_ns = 1500000000, .seed = 7 };
	struct taut_stalls_storage s;
	long long read, from_storage;
	FILE *out = fopen(path_of("large"), "wb"), *list;
	taut_status status;

	(void)state;
	assert_non_null(out);
	for (uint32_t i = 0; i < N_PARTS; i++)
		assert_int_equal(fwrite(text, 1, sizeof text, out), sizeof text);
	fclose(out);
	assert_int_equal(mkdir(path_of("one"), 0755), 0);
	list = fopen(path_of("one/files"), "wb");
	assert_non_null(list);
	fprintf(list, "%zu %s\n", N_PARTS * sizeof text, path_of("large"));
	fclose(list);
	read = read_so_far("rchar: ");
	from_storage = read_so_far("read_bytes: ");
	status = taut_stalls_probe(path_of("one"), &options, &s, NULL);
	read = read_so_far("rchar: ") - read;
	from_storage = read_so_far("read_bytes: ") - from_storage;
	unlink(path_of("one/files"));
	rmdir(path_of("one"));
	unlink(path_of("large"));
	if (status == TAUT_EAGAIN || from_storage <= 0)
		skip();
	assert_int_equal(status, TAUT_OK);
	print_message("%lld of %lld bytes are from storage\n", from_storage, read);
	assert_true((double)from_storage > 0.9 * (double)read);
}

static void too_few_files_are_said(void **state)
{
	struct taut_stalls_storage s;
	struct taut_error err = { .message = "" };

	(void)state;
	assert_int_equal(taut_stalls_probe("/nowhere", NULL, &s, &err), TAUT_EAGAIN);
	assert_non_null(strstr(err.message, "there are 0"));
}

static int put_in(const char *path, const char *text)
{
	FILE *out = fopen(path, "w");
	int fault;

	if (!out)
		return -1;
	fault = fputs(text, out) < 0;
	return fclose(out) || fault ? -1 : 0;
}

static bool hold_back(void)
{
	char text[64];
	struct stat at;

	if (stat(folder, &at) || (mkdir(GROUP, 0755) && access(GROUP, W_OK)))
		return false;
	snprintf(text, sizeof text, "%u:%u %d", major(at.st_dev), minor(at.st_dev), RATE);
	if (put_in(GROUP "/blkio.throttle.read_bps_device", text))
		return false;
	snprintf(text, sizeof text, "%d", (int)getpid());
	return !put_in(GROUP "/cgroup.procs", text);
}

static void let_go(void)
{
	char text[64];

	snprintf(text, sizeof text, "%d", (int)getpid());
	(void)put_in(BLKIO "/cgroup.procs", text);
	(void)rmdir(GROUP);
}

static bool is_found(const struct taut_stalls_storage *s)
{
	return fabs(s->rate_bytes_s / RATE - 1) < 0.2 && s->error < 0.2;
}

/* Others who use the disk meanwhile can only make it slower: it is tried again. */
static void a_store_that_is_held_back(void **state)
{
	struct taut_stalls_probe_options options = { .limit_ns = 5000000000, .seed = 5 };
	struct taut_stalls_storage s = { .n_points = 0 };
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_OK;

	(void)state;
	if (!hold_back()) {
		let_go();
		skip();
	}
	for (int i = 0; i < 3 && !status && !is_found(&s); i++)
		status = taut_stalls_probe(folder, &options, &s, &err);
	let_go();
	if (status == TAUT_EAGAIN)
		skip();
	assert_int_equal(status, TAUT_OK);
	for (uint32_t i = 0; i < s.n_points; i++)
		print_message("%2u threads: %6.2f MB/s, %6.1f reads/s\n",
			s.points[i].n_threads, s.points[i].bytes_s / 1e6,
			s.points[i].reads_s);
	print_message("rate %.2f MB/s, latency %.3f ms, %u at a time, error %.3f\n",
		s.rate_bytes_s / 1e6, (double)s.latency_ns / 1e6, s.n_served, s.error);
	assert_true(is_found(&s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_points_are_measured),
		cmocka_unit_test(a_large_file_stays_cold),
		cmocka_unit_test(too_few_files_are_said),
		cmocka_unit_test(a_store_that_is_held_back),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
