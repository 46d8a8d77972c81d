/* cores.c - whether ranks that share a host can all run at once. */
#include "coll/coll.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char root[] = "/sys/fs/cgroup";

static void tell_may_use(struct tauti_cores *cores)
{
	uint32_t n_cores = taut_cores();
	cpu_set_t set;
	bool told;

	CPU_ZERO(&set);
	told = sched_getaffinity(0, sizeof set, &set) == 0;
	/* A machine may have more than the set holds: then so many. */
	for (uint32_t i = 0; i < 64 * TAUTI_CORE_WORDS && i < CPU_SETSIZE; i++)
		if (told ? CPU_ISSET(i, &set) : i < n_cores)
			cores->may_use[i / 64] |= UINT64_C(1) << i % 64;
}

/* This process's path below root, as the second version of control groups has it. */
static bool find_group(char *path, size_t size)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[512];
	bool found = false;

	while (file && !found && fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = '\0';
		found = strncmp(line, "0::/", 4) == 0 && (size_t)snprintf(path,
			size, "%s%s", root, line + 3) < size;
	}
	if (file)
		fclose(file);
	return found;
}

/* "150000 100000": microseconds of each so many; "max 100000". In thousandths of a
 * core; 0: no limit. */
static uint64_t read_limit(const char *folder)
{
	unsigned long long quota, period;
	char name[600];
	FILE *file;
	int n;

	snprintf(name, sizeof name, "%s/cpu.max", folder);
	file = fopen(name, "re");
	if (!file)
		return 0;
	n = fscanf(file, "%20llu %20llu", &quota, &period);
	fclose(file);
	return n == 2 && period && quota < UINT64_MAX / 1000 ?
		quota * 1000 / period : 0;
}

/* The least of its group and of those that this is in. */
static void tell_limit(struct tauti_cores *cores)
{
	char path[512];
	struct stat at;

	if (!find_group(path, sizeof path))
		return;
	while (strlen(path) >= sizeof root - 1) {
		uint64_t limit = read_limit(path);

		if (limit && (!cores->limit || limit < cores->limit)) {
			cores->limit = limit;
			cores->group = stat(path, &at) == 0 ? at.st_ino : 0;
		}
		*strrchr(path, '/') = '\0';
	}
}

void tauti_cores_tell(struct tauti_cores *ret_cores)
{
	memset(ret_cores, 0, sizeof *ret_cores);
	tell_may_use(ret_cores);
	tell_limit(ret_cores);
}

static uint64_t count_union(const struct tauti_cores *cores, uint32_t n)
{
	uint64_t count = 0;

	for (uint32_t word = 0; word < TAUTI_CORE_WORDS; word++) {
		uint64_t all = 0;

		for (uint32_t i = 0; i < n; i++)
			all |= cores[i].may_use[word];
		count += (uint64_t)__builtin_popcountll(all);
	}
	return count;
}

/* All limits, each once; UINT64_MAX: somebody has none. */
static uint64_t add_limits(const struct tauti_cores *cores, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = 0;

		if (!cores[i].limit)
			return UINT64_MAX;
		while (cores[k].group != cores[i].group)
			k++;
		sum += k == i ? cores[i].limit : 0;
	}
	return sum;
}

bool tauti_cores_enough(
	const struct tauti_cores *cores, uint32_t n, uint32_t n_ranks)
{
	return count_union(cores, n) >= n_ranks &&
		add_limits(cores, n) / 1000 >= n_ranks;
}

bool tauti_cores_enough_here(uint32_t n_ranks)
{
	struct tauti_cores cores;

	tauti_cores_tell(&cores);
	return tauti_cores_enough(&cores, 1, n_ranks);
}
