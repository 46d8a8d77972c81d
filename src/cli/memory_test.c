/* Hosts and control groups that are made up in a folder. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/memory.h"

#define MIB UINT64_C(1048576)

static char root[] = "/tmp/taut-memory-XXXXXX";

static void put(const char *path, const char *text)
{
	char name[256], command[300];
	FILE *out;

	snprintf(name, sizeof name, "%s/%s", root, path);
	snprintf(command, sizeof command, "mkdir -p \"$(dirname %s)\"", name);
	assert_int_equal(system(command), 0);
	out = fopen(name, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static int begin(void **state)
{
	(void)state;
	strcpy(root + sizeof root - 7, "XXXXXX");
	assert_non_null(mkdtemp(root));
	put("proc/meminfo", "MemTotal: 9999999 kB\nMemAvailable:    1048576 kB\n");
	return 0;
}

static int end(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof command, "rm -r %s", root);
	return system(command);
}

static void test_host(void **state)
{
	(void)state;
	assert_int_equal(memory_left(root), 1024 * MIB);
	put("proc/self/cgroup", "0::/job\n");
	assert_int_equal(memory_left(root), 1024 * MIB);
	put("sys/fs/cgroup/job/memory.max", "max\n");
	put("sys/fs/cgroup/job/memory.current", "5\n");
	assert_int_equal(memory_left(root), 1024 * MIB);
	put("proc/meminfo", "");
	assert_int_equal(memory_left(root), 0);
}

static void test_version_2(void **state)
{
	(void)state;
	put("proc/self/cgroup", "0::/pod/job\n");
	put("sys/fs/cgroup/pod/memory.max", "536870912\n");
	assert_int_equal(memory_left(root), 512 * MIB);
	put("sys/fs/cgroup/pod/memory.current", "314572800\n");
	assert_int_equal(memory_left(root), 212 * MIB);
	put("sys/fs/cgroup/pod/memory.stat", "anon 209715200\n"
		"inactive_file 52428800\nactive_file 52428800\n");
	assert_int_equal(memory_left(root), 312 * MIB);
	/* What a container sees is its own group, wherever that is. */
	put("proc/self/cgroup", "0::/not/seen/here\n");
	put("sys/fs/cgroup/memory.max", "104857600\n");
	assert_int_equal(memory_left(root), 100 * MIB);
	/* All taken is not unknown. */
	put("sys/fs/cgroup/memory.current", "104857600\n");
	assert_int_equal(memory_left(root), 1);
}

static void test_version_1(void **state)
{
	(void)state;
	put("proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n");
	put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
	put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "314572800\n");
	put("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 5\n"
		"active_file 5\ntotal_inactive_file 104857600\ntotal_active_file 0\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "9999999999\n");
	assert_int_equal(memory_left(root), 312 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_host, begin, end),
		cmocka_unit_test_setup_teardown(test_version_2, begin, end),
		cmocka_unit_test_setup_teardown(test_version_1, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
