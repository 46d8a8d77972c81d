/* plugin_test.h - the plugin in a process of its test: a clock that stands still
 * until it is moved, a folder for the recording, and what was written there. */
#ifndef TAUT_RECORD_NCCL_PLUGIN_TEST_H
#define TAUT_RECORD_NCCL_PLUGIN_TEST_H

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "record/nccl/plugin.h"
#include "tests/support/nccl_host.h"
#include "tests/support/read_log.h"

extern const char ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3,
	ncclProfiler_v4, ncclProfiler_v5, ncclProfiler_v6, ncclProfiler_v7;

static inline const void *plugin_of(int version)
{
	const void *const plugins[] = { NULL, &ncclProfiler_v1,
		&ncclProfiler_v2, &ncclProfiler_v3, &ncclProfiler_v4,
		&ncclProfiler_v5, &ncclProfiler_v6, &ncclProfiler_v7 };

	return plugins[version];
}

/* --- the clock -------------------------------------------------------------------*/

enum { BASE_NS = 1000000 };
static _Atomic int64_t now_ns;

/* In place of the C library's: time stands still until a test moves it. */
int clock_gettime(clockid_t id, struct timespec *to);
int clock_gettime(clockid_t id, struct timespec *to)
{
	int64_t now = atomic_load(&now_ns);

	(void)id;
	to->tv_sec = now / 1000000000;
	to->tv_nsec = now % 1000000000;
	return 0;
}

static inline void at(int64_t ns)
{
	atomic_store(&now_ns, BASE_NS + ns);
}

/* --- a recording's folder ----------------------------------------------------------*/

static char folder[64];

static inline void clear_environment(void)
{
	static const char *const names[] = { "TAUT_RECORD", "TAUT_NCCL_EVENTS",
		"TAUT_NCCL_ALWAYS", "TAUT_NCCL_RECORDS", "RANK", "WORLD_SIZE",
		"LOCAL_RANK", "TAUT_RANK", "TAUT_RANKS",
		"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",
		"PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unsetenv(names[i]);
}

static inline int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/taut-nccl-XXXXXX");
	assert_non_null(mkdtemp(folder));
	clear_environment();
	setenv("TAUT_RECORD", folder, 1);
	setenv("TAUT_NCCL_ALWAYS", "1", 1);
	setenv("TAUT_NCCL_RECORDS", "4096", 1);
	setenv("RANK", "1", 1);
	setenv("WORLD_SIZE", "4", 1);
	tauti_nccl_recording = 0;
	at(0);
	return 0;
}

static inline int teardown(void **state)
{
	char command[128];

	(void)state;
	tauti_plugin_end();
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

static inline struct read_log open_log_of(const char *inner)
{
	char path[256];

	snprintf(path, sizeof path, "%s/%s/nccl-%ld.tautlog", folder, inner,
		(long)getpid());
	return read_log_open(path);
}

/* What the process wrote, as rank 1. */
static inline struct read_log finish(void)
{
	tauti_plugin_end();
	return open_log_of("rank1");
}

static inline int log_exists(void)
{
	char command[256];

	snprintf(command, sizeof command,
		"find %s -name '*.tautlog' | grep -q .", folder);
	return system(command) == 0;
}

static inline void init(struct host *host, int version)
{
	assert_int_equal(host_init(host, plugin_of(version), version,
		"default_pg", 0xabc123, 4, 1), 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif /* TAUT_RECORD_NCCL_PLUGIN_TEST_H */
