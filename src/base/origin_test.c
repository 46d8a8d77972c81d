/* A child knows that it is one, and its own child too; who made it does not change. */
#include "tests/support/unit.h"

#include <sys/wait.h>

#include "base/origin.h"

static int exit_of(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void expect_copy_in_child(const struct tauti_origin *origin)
{
	pid_t pid = fork(), deeper;
	int status = 1;

	assert_true(pid >= 0);
	if (pid) {
		assert_int_equal(exit_of(pid), 0);
		return;
	}
	if (!tauti_origin_is_copy(origin))
		_exit(2);
	deeper = fork();
	if (deeper == 0)
		_exit(!tauti_origin_is_copy(origin));
	waitpid(deeper, &status, 0);
	_exit(status != 0);
}

static void test_fork(void **state)
{
	struct tauti_origin origin;

	(void)state;
	tauti_origin_init(&origin);
	assert_false(tauti_origin_is_copy(&origin));
	expect_copy_in_child(&origin);
	assert_false(tauti_origin_is_copy(&origin));
	tauti_origin_fini(&origin);
}

/* As where the kernel has no such page. */
static void test_without_page(void **state)
{
	struct tauti_origin origin;

	(void)state;
	tauti_origin_init(&origin);
	tauti_origin_fini(&origin);
	assert_false(tauti_origin_is_copy(&origin));
	expect_copy_in_child(&origin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_without_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
