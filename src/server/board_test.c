/* Memory that a server shares with a worker: who makes it, who may open it, and that
 * nothing of it is left. */
#include "tests/support/unit.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
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
	struct stat at;
	char name[TAUTI_BOARD_NAME_BYTES];

	(void)state;
	assert_int_equal(tauti_board_create(100000, &own, NULL), TAUT_OK);
	memcpy(name, own.name, sizeof name);
	assert_true(has_name(name));
	/* Its pages are there, though nothing was written. */
	assert_int_equal(fstat(own.fd, &at), 0);
	assert_true(at.st_blocks * 512 >= 100000);
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

/* With 1 MiB of /dev/shm, of which three boards of 384 KiB would be too much. */
static int share_little(void)
{
	const size_t bytes = 384 << 10;
	struct tauti_board first = { 0 }, second = { 0 };
	struct taut_error err;
	struct statvfs at;

	if (unshare(CLONE_NEWNS) != 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
		mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0)
		return UNIT_SKIP;
	if (tauti_board_create(bytes, &first, NULL) ||
		statvfs("/dev/shm", &at) != 0 ||
		at.f_bavail * at.f_frsize > ((size_t)1 << 20) - bytes)
		return 1;
	/* It would fit, and leave too little. */
	if (tauti_board_create(bytes, &second, &err) != TAUT_EIO ||
		second.base || strcmp(err.message, "memory to be shared: 393216 "
		"bytes are more than half of what is free on /dev/shm, "
		"327680") != 0)
		return 2;
	if (tauti_board_create(327680, &second, NULL))
		return 3;
	memset(first.base, 1, bytes);
	memset(second.base, 1, 327680);
	tauti_board_close(&first);
	tauti_board_close(&second);
	return 0;
}

static void test_room(void **state)
{
	int status = -1;
	pid_t child;

	(void)state;
	if (geteuid() != 0)
		skip();
	child = fork();
	if (child == 0)
		_exit(share_little());
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == UNIT_SKIP)
		skip();
	assert_int_equal(status, 0);
}

/* The same for who is not root, by what nobody has half of. */
static void test_limit(void **state)
{
	struct tauti_board board = { 0 };
	struct taut_error err;
	struct statvfs at;

	(void)state;
	if (statvfs("/dev/shm", &at) != 0 || !at.f_blocks)
		skip();
	assert_int_equal(tauti_board_create((size_t)1 << 60, &board, &err),
		TAUT_EIO);
	assert_non_null(strstr(err.message, "half of what is free"));
}

/* Nobody is to have a worker open, and remove, what is not a board. */
static void test_names(void **state)
{
	static const char *const others[] = { "/taut-1", "taut-1", "/../etc",
		"/psm_0123456789abcdef0123456789abcdef",
		"/taut_0123456789abcdef0123456789abcdef",
		"taut-0123456789abcdef0123456789abcdef",
		"/taut-0123456789abcdef0123456789abcde",
		"/taut-0123456789abcdef0123456789abcdef0",
		"/taut-0123456789abcdef0123456789abcdeg",
		"/taut-0123456789ABCDEF0123456789abcdef",
		"/taut-0123456789abcdef/123456789abcdef",
		"/taut- 123456789abcdef0123456789abcdef" };
	uint8_t words[TAUTI_BOARD_BYTES];
	char name[TAUTI_BOARD_NAME_BYTES] = "before";

	(void)state;
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
		tauti_board_write(others[i], words);
		if (tauti_board_read(words, name))
			fail_msg("%s", others[i]);
		assert_string_equal(name, "before");
	}
}

static void test_words(void **state)
{
	static const char right[] = "/taut-0123456789abcdef0123456789abcdef";
	uint8_t words[TAUTI_BOARD_BYTES];
	char name[TAUTI_BOARD_NAME_BYTES];

	(void)state;
	tauti_board_write(right, words);
	assert_true(tauti_board_read(words, name));
	assert_string_equal(name, right);
	/* Something behind its end. */
	for (int i = 4 + (int)sizeof right; i < TAUTI_BOARD_BYTES; i++) {
		words[i] = 'x';
		assert_false(tauti_board_read(words, name));
		words[i] = 0;
	}
	tauti_board_write("", words);
	assert_true(tauti_board_read(words, name));
	assert_string_equal(name, "");
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
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_both),
		cmocka_unit_test(test_left),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
