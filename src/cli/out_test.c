/* out_test.c - a result is there whole, or what was there before is. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/out.h"
#include "tests/support/unit.h"

static char folder[64], path[128];

static const char *in_folder(const char *name)
{
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static taut_status write_hello(
	const void *context, FILE *out, struct taut_error *err)
{
	(void)err;
	fputs("hello ", out);
	fputs(context, out);
	return TAUT_OK;
}

static taut_status write_half(
	const void *context, FILE *out, struct taut_error *err)
{
	(void)context;
	fputs("half", out);
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
}

/* Nothing is left behind but the files that a test knows. */
static void expect_files(int n)
{
	char command[128], count[16] = "";
	FILE *in;

	snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
	in = popen(command, "r");
	assert_non_null(in);
	assert_non_null(fgets(count, sizeof count, in));
	pclose(in);
	assert_int_equal(atoi(count), n);
}

/* While a result is written, nothing of it can be seen. */
static taut_status write_unseen(
	const void *context, FILE *out, struct taut_error *err)
{
	(void)context;
	(void)err;
	fputs("unseen", out);
	fflush(out);
	expect_files(0);
	return TAUT_OK;
}

static void put(const char *file, const char *text)
{
	FILE *out = fopen(file, "w");

	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static void expect(const char *file, const char *text)
{
	char found[64] = "";
	FILE *in = fopen(file, "r");

	assert_non_null(in);
	found[fread(found, 1, sizeof found - 1, in)] = '\0';
	fclose(in);
	assert_string_equal(found, text);
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/taut-out-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

static void test_new_file(void **state)
{
	struct stat at;
	mode_t mask = umask(027);

	(void)state;
	assert_int_equal(out_write(in_folder("x"), NULL, write_hello, "you",
		NULL), TAUT_OK);
	umask(mask);
	expect(path, "hello you");
	assert_int_equal(stat(path, &at), 0);
	assert_int_equal(at.st_mode & 0777, 0640);
	expect_files(1);
}

static void test_failure_keeps_what_was_there(void **state)
{
	struct taut_error err = { .message = "" };

	(void)state;
	put(in_folder("x"), "old");
	assert_int_equal(out_write(path, NULL, write_half, NULL, &err),
		TAUT_ENOMEM);
	assert_string_equal(err.message, "no memory");
	expect(path, "old");
	expect_files(1);
	assert_int_equal(out_write(path, NULL, write_hello, "new", &err),
		TAUT_OK);
	expect(path, "hello new");
	expect_files(1);
}

/* A command that is killed leaves no half of it. */
static void test_a_result_has_no_name_before_it_is_whole(void **state)
{
	int fd = open(folder, O_TMPFILE | O_WRONLY, 0600);

	(void)state;
	if (fd < 0)
		skip();
	close(fd);
	assert_int_equal(out_write(in_folder("x"), NULL, write_unseen, NULL,
		NULL), TAUT_OK);
	expect(path, "unseen");
	expect_files(1);
}

/* By any name: through another path, a hard link, a symbolic one. */
static void test_an_input_is_not_overwritten(void **state)
{
	char input[128], link_path[128];
	struct taut_trace trace = { .path = input };
	struct taut_run run = { .n_traces = 1, .traces = &trace };
	struct taut_error err = { .message = "" };

	(void)state;
	snprintf(input, sizeof input, "%s/./trace.json", folder);
	put(input, "trace");
	assert_int_equal(out_write(in_folder("trace.json"), &run, write_hello,
		"", &err), TAUT_EINVAL);
	assert_non_null(strstr(err.message, "is one of the traces"));
	snprintf(link_path, sizeof link_path, "%s/link", folder);
	assert_int_equal(symlink("trace.json", link_path), 0);
	assert_int_equal(out_write(link_path, &run, write_hello, "", &err),
		TAUT_EINVAL);
	unlink(link_path);
	assert_int_equal(link(input, link_path), 0);
	assert_int_equal(out_write(link_path, &run, write_hello, "", &err),
		TAUT_EINVAL);
	expect(input, "trace");
	expect_files(2);
}

static void test_a_link_stays_one(void **state)
{
	char link_path[128];
	struct stat at;

	(void)state;
	put(in_folder("real"), "old");
	snprintf(link_path, sizeof link_path, "%s/link", folder);
	assert_int_equal(symlink("real", link_path), 0);
	assert_int_equal(out_write(link_path, NULL, write_hello, "x", NULL),
		TAUT_OK);
	expect(in_folder("real"), "hello x");
	assert_int_equal(lstat(link_path, &at), 0);
	assert_true(S_ISLNK(at.st_mode));
}

static void test_where_nothing_can_be_written(void **state)
{
	struct taut_error err = { .message = "" };

	(void)state;
	assert_int_equal(out_write(folder, NULL, write_hello, "", &err),
		TAUT_EIO);
	assert_non_null(strstr(err.message, "Is a directory"));
	assert_int_equal(out_write(in_folder("no/such"), NULL, write_hello, "",
		&err), TAUT_EIO);
	assert_non_null(strstr(err.message, "No such file"));
	assert_int_equal(out_check(path, &err), TAUT_EIO);
	assert_int_equal(out_check(folder, &err), TAUT_EIO);
	assert_int_equal(out_check(in_folder("x"), &err), TAUT_OK);
	assert_int_equal(out_check(NULL, &err), TAUT_OK);
	expect_files(0);
}

static void test_same_places(void **state)
{
	char other[96];

	(void)state;
	snprintf(other, sizeof other, "%s/.//x", folder);
	assert_true(out_is_same(in_folder("x"), other));
	assert_false(out_is_same(in_folder("y"), other));
	assert_false(out_is_same(NULL, other));
	assert_false(out_is_same(other, NULL));
	assert_false(out_is_same("/dev/null", "/dev/null"));
	/* through a link, which stays */
	assert_int_equal(out_write(in_folder("x"), NULL, write_hello, "", NULL),
		TAUT_OK);
	assert_int_equal(symlink("x", in_folder("link")), 0);
	assert_true(out_is_same(in_folder("link"), other));
}

static void test_a_full_device(void **state)
{
	struct taut_error err = { .message = "" };

	(void)state;
	if (access("/dev/full", W_OK) != 0)
		skip();
	assert_int_equal(out_check("/dev/full", &err), TAUT_OK);
	assert_int_equal(out_write("/dev/full", NULL, write_hello, "x", &err),
		TAUT_EIO);
	assert_non_null(strstr(err.message, "No space left"));
}

#define IN_FOLDER(test) \
	cmocka_unit_test_setup_teardown(test, make_folder, drop_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(test_new_file),
		IN_FOLDER(test_failure_keeps_what_was_there),
		IN_FOLDER(test_a_result_has_no_name_before_it_is_whole),
		IN_FOLDER(test_an_input_is_not_overwritten),
		IN_FOLDER(test_a_link_stays_one),
		IN_FOLDER(test_where_nothing_can_be_written),
		IN_FOLDER(test_same_places),
		IN_FOLDER(test_a_full_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
