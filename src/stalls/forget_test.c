/* Which part of a file is cold, and forgetting all that a job has read. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <taut/stalls.h>

#include "stalls/cold.h"
#include "stalls/control.h"
#include "tests/support/alloc_fail.h"

enum { N_FILES = 40, FILE_BYTES = 20000, PAGE_BYTES = 4096 };

static char folder[] = "/tmp/taut-forget-XXXXXX";
static int fds[N_FILES];
static bool is_in_memory; /* all of the folder: nothing can be forgotten */

/* --- the rule ----------------------------------------------------------------------------*/

static void a_share_of_all_files_is_cold(void **state)
{
	static const uint32_t shares[] = { 0, 10000, 250000, 500000, 999999, 1000000 };
	enum { N = 200000 };

	(void)state;
	for (size_t k = 0; k < sizeof shares / sizeof shares[0]; k++) {
		double p = shares[k] / 1e6, n = 0;

		/* Inodes of one folder often lie side by side. */
		for (ino_t i = 0; i < N; i++) {
			struct stat at = { .st_dev = 0xfe00, .st_ino = 1000 + i };

			n += tauti_is_cold(tauti_cold_key(&at), 0, shares[k]);
		}
		assert_true(fabs(n - N * p) <= 4.5 * sqrt(N * p * (1 - p)));
	}
}

static void a_share_of_one_file_is_cold(void **state)
{
	struct stat at = { .st_dev = 7, .st_ino = 77 };
	enum { N = 100000 };
	uint32_t n = 0, n_alike = 0;

	(void)state;
	for (uint64_t i = 0; i < N; i++) {
		bool is_cold = tauti_is_cold(tauti_cold_key(&at), i, 500000);

		n += is_cold;
		n_alike += is_cold == tauti_is_cold(tauti_cold_key(&at), i + 1, 500000);
	}
	assert_in_range(n, N / 2 - 750, N / 2 + 750);
	assert_in_range(n_alike, N / 2 - 750, N / 2 + 750); /* neighbours differ by chance */
}

static void a_file_is_another_on_another_device(void **state)
{
	enum { N = 10000 };
	uint32_t n_alike = 0;

	(void)state;
	for (ino_t i = 0; i < N; i++) {
		struct stat a = { .st_dev = 1, .st_ino = i }, b = { .st_dev = 2, .st_ino = i };

		n_alike += tauti_is_cold(tauti_cold_key(&a), 0, 500000) ==
			tauti_is_cold(tauti_cold_key(&b), 0, 500000);
	}
	assert_in_range(n_alike, N / 2 - 250, N / 2 + 250);
}

/* --- files -------------------------------------------------------------------------------*/

static bool is_there(int fd)
{
	unsigned char pages[FILE_BYTES / PAGE_BYTES + 1] = { 0 };
	void *at = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	bool found = false;

	assert_true(at != MAP_FAILED);
	assert_int_equal(mincore(at, FILE_BYTES, pages), 0);
	munmap(at, FILE_BYTES);
	for (size_t i = 0; i < sizeof pages; i++)
		found |= pages[i] & 1;
	return found;
}

static uint32_t count_there(void)
{
	uint32_t n = 0;

	for (int i = 0; i < N_FILES; i++)
		n += is_there(fds[i]);
	return n;
}

static void read_all(void)
{
	char bytes[FILE_BYTES];

	for (int i = 0; i < N_FILES; i++)
		assert_int_equal(pread(fds[i], bytes, sizeof bytes, 0), FILE_BYTES);
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static FILE *open_in(const char *name, const char *mode)
{
	FILE *file = fopen(path_of(name), mode);

	assert_non_null(file);
	return file;
}

static void write_control(void)
{
	struct tauti_stalls_control control = { .version = TAUTI_STALLS_VERSION };
	char page[TAUTI_STALLS_CONTROL_BYTES] = { 0 };
	FILE *out = open_in("control", "wb");

	memcpy(control.magic, TAUTI_STALLS_MAGIC, sizeof control.magic);
	memcpy(page, &control, sizeof control);
	assert_int_equal(fwrite(page, 1, sizeof page, out), sizeof page);
	fclose(out);
}

static struct tauti_stalls_control read_control(void)
{
	struct tauti_stalls_control control;
	FILE *in = open_in("control", "rb");

	assert_int_equal(fread(&control, 1, sizeof control, in), sizeof control);
	fclose(in);
	return control;
}

static void make_file(int i, FILE *list)
{
	char name[16], bytes[FILE_BYTES];
	FILE *out;

	memset(bytes, i, sizeof bytes);
	snprintf(name, sizeof name, "%d", i);
	out = open_in(name, "wb");
	assert_int_equal(fwrite(bytes, 1, sizeof bytes, out), sizeof bytes);
	fclose(out);
	fprintf(list, "%d %s\n", FILE_BYTES, path_of(name));
	fds[i] = open(path_of(name), O_RDONLY);
	assert_true(fds[i] >= 0);
}

static int make_files(void **state)
{
	FILE *list;

	(void)state;
	assert_non_null(mkdtemp(folder));
	list = open_in("files", "wb");
	for (int i = 0; i < N_FILES; i++)
		make_file(i, list);
	fprintf(list, "%d %s\n20 /nowhere/at/all\n5 %s\n7 ", FILE_BYTES, path_of("0"), folder);
	fclose(list);
	write_control();
	for (int i = 0; i < N_FILES; i++) {
		fsync(fds[i]);
		posix_fadvise(fds[i], 0, 0, POSIX_FADV_DONTNEED);
	}
	is_in_memory = count_there() > 0;
	return 0;
}

static int remove_files(void **state)
{
	char name[16];

	(void)state;
	for (int i = 0; i < N_FILES; i++) {
		close(fds[i]);
		snprintf(name, sizeof name, "%d", i);
		unlink(path_of(name));
	}
	unlink(path_of("files"));
	unlink(path_of("control"));
	return rmdir(folder);
}

/* --- forgetting --------------------------------------------------------------------------*/

/* Also of files that are open, as a loader keeps them. */
static void all_are_forgotten(void **state)
{
	struct tauti_stalls_control control;
	struct taut_error err;

	(void)state;
	if (is_in_memory)
		skip();
	write_control();
	read_all();
	assert_int_equal(count_there(), N_FILES);
	assert_int_equal(taut_stalls_forget(folder, 1000000, &err), TAUT_OK);
	assert_int_equal(count_there(), 0);
	control = read_control();
	assert_int_equal(control.forgotten, N_FILES);
	assert_int_equal(control.forgotten_bytes, N_FILES * FILE_BYTES);
	assert_int_equal(control.opened, 0);
}

static void a_part_is_forgotten(void **state)
{
	uint32_t n_cold = 0;
	struct stat at;

	(void)state;
	if (is_in_memory)
		skip();
	read_all();
	assert_int_equal(taut_stalls_forget(folder, 400000, NULL), TAUT_OK);
	for (int i = 0; i < N_FILES; i++) {
		bool is_cold;

		assert_int_equal(fstat(fds[i], &at), 0);
		is_cold = tauti_is_cold(tauti_cold_key(&at), 0, 400000);
		assert_int_equal(is_there(fds[i]), !is_cold);
		n_cold += is_cold;
	}
	assert_in_range(n_cold, 1, N_FILES - 1);
	read_all();
	assert_int_equal(taut_stalls_forget(folder, 0, NULL), TAUT_OK);
	assert_int_equal(count_there(), N_FILES);
}

static void what_is_wrong_is_said(void **state)
{
	struct taut_error err = { .message = "" };

	(void)state;
	assert_int_equal(taut_stalls_forget(folder, 1000001, &err), TAUT_EINVAL);
	assert_non_null(strstr(err.message, "1000001"));
	assert_int_equal(taut_stalls_forget("/nowhere", 1000000, &err), TAUT_OK);
}

static void without_memory_it_says_so(void **state)
{
	(void)state;
	for (long n = 0;; n++) {
		alloc_fail_after(n);
		if (!taut_stalls_forget(folder, 1000000, NULL))
			break;
		assert_in_range(n, 0, 100);
	}
	assert_true(alloc_fail_count() > 0);
	alloc_fail_never();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_share_of_all_files_is_cold),
		cmocka_unit_test(a_share_of_one_file_is_cold),
		cmocka_unit_test(a_file_is_another_on_another_device),
		cmocka_unit_test(all_are_forgotten),
		cmocka_unit_test(a_part_is_forgotten),
		cmocka_unit_test(what_is_wrong_is_said),
		cmocka_unit_test(without_memory_it_says_so),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
