/* stalls_host.c - memory that is left for files. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/stalls.h"

static uint64_t available(void)
{
	FILE *in = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	while (in && fgets(line, sizeof line, in))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (in)
		fclose(in);
	return kib * 1024;
}

/* A limit of a control group; none, or no such file: as before. */
static uint64_t limited_by(uint64_t bytes, const char *path)
{
	FILE *in = fopen(path, "re");
	unsigned long long limit;

	if (!in)
		return bytes;
	if (fscanf(in, "%llu", &limit) == 1 && limit < bytes)
		bytes = limit;
	fclose(in);
	return bytes;
}

/* This group and those that it is in, as far as they are seen from here. */
static uint64_t limited_by_groups(
	uint64_t bytes, const char *top, char *group, const char *file)
{
	char path[8192];

	for (;;) {
		char *slash = strrchr(group, '/');

		if ((size_t)snprintf(path, sizeof path, "%s%s/%s", top, group, file) <
			sizeof path)
			bytes = limited_by(bytes, path);
		if (!slash)
			return bytes;
		*slash = '\0';
	}
}

/* Lines of /proc/self/cgroup are NUMBER:CONTROLLERS:/GROUP. */
static uint64_t limited(uint64_t bytes)
{
	FILE *in = fopen("/proc/self/cgroup", "re");
	char line[4096];

	while (in && fgets(line, sizeof line, in)) {
		char *controllers = strchr(line, ':');
		char *group = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!group)
			continue;
		*group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		if (!controllers[1])
			bytes = limited_by_groups(
				bytes, "/sys/fs/cgroup", group, "memory.max");
		else if (!strcmp(controllers + 1, "memory"))
			bytes = limited_by_groups(bytes, "/sys/fs/cgroup/memory", group,
				"memory.limit_in_bytes");
	}
	if (in)
		fclose(in);
	return bytes;
}

uint64_t stalls_page_cache(uint32_t n_ranks)
{
	uint64_t bytes = limited(available()), ranks = 0;
	struct rusage used;

	if (!getrusage(RUSAGE_CHILDREN, &used))
		ranks = (uint64_t)used.ru_maxrss * 1024 * n_ranks;
	return bytes > ranks ? bytes - ranks : 0;
}
