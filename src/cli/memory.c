/* memory.c - see memory.h. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/memory.h"

enum { PATH_BYTES = 8192 };

/* Of each version of control groups. */
struct kind {
	const char *controllers; /* of its line in /proc/self/cgroup */
	const char *top, *limit, *used;
};
static const struct kind kinds[] = {
	{ "", "/sys/fs/cgroup", "memory.max", "memory.current" },
	{ "memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
		"memory.usage_in_bytes" },
};

static FILE *open_in(const char *folder, const char *name)
{
	char path[PATH_BYTES];

	if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
		return NULL;
	return fopen(path, "re");
}

static uint64_t available(const char *root)
{
	FILE *in = open_in(root, "proc/meminfo");
	unsigned long long kib = 0;
	char line[128];

	while (in && fgets(line, sizeof line, in))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (in)
		fclose(in);
	return kib * 1024;
}

/* --- control groups ----------------------------------------------------------------------*/

/* False: no such file, or no number. */
static bool number_in(const char *folder, const char *name, uint64_t *ret_number)
{
	FILE *in = open_in(folder, name);
	unsigned long long number;
	bool there;

	if (!in)
		return false;
	there = fscanf(in, "%llu", &number) == 1;
	fclose(in);
	if (there)
		*ret_number = number;
	return there;
}

/* Of files, in the group and those in it: version 1 tells that beside its own. */
static uint64_t of_files(const char *folder)
{
	FILE *in = open_in(folder, "memory.stat");
	unsigned long long bytes, own = 0, total = 0;
	char line[256];

	while (in && fgets(line, sizeof line, in))
		if (sscanf(line, "inactive_file %llu", &bytes) == 1 ||
			sscanf(line, "active_file %llu", &bytes) == 1)
			own += bytes;
		else if (sscanf(line, "total_inactive_file %llu", &bytes) == 1 ||
			sscanf(line, "total_active_file %llu", &bytes) == 1)
			total += bytes;
	if (in)
		fclose(in);
	return total ? total : own;
}

/* No limit, or no such group here: as before. */
static uint64_t limited_by(uint64_t bytes, const char *folder, const struct kind *kind)
{
	uint64_t limit, used, files;

	if (!number_in(folder, kind->limit, &limit))
		return bytes;
	if (number_in(folder, kind->used, &used)) {
		files = of_files(folder);
		used = used > files ? used - files : 0;
		limit = limit > used ? limit - used : 1;
	}
	return limit < bytes ? limit : bytes;
}

/* This group and those that it is in, as far as they are seen from here. */
static uint64_t limited_by_groups(uint64_t bytes, const char *root,
	const struct kind *kind, char *group)
{
	char folder[PATH_BYTES];

	for (;;) {
		char *slash = strrchr(group, '/');

		if ((size_t)snprintf(folder, sizeof folder, "%s%s%s", root,
			kind->top, group) < sizeof folder)
			bytes = limited_by(bytes, folder, kind);
		if (!slash)
			return bytes;
		*slash = '\0';
	}
}

/* Lines of /proc/self/cgroup are NUMBER:CONTROLLERS:/GROUP. */
uint64_t memory_left(const char *root)
{
	FILE *in = open_in(root, "proc/self/cgroup");
	uint64_t bytes = available(root);
	char line[4096];

	while (in && fgets(line, sizeof line, in)) {
		char *controllers = strchr(line, ':');
		char *group = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!group)
			continue;
		*group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
			if (!strcmp(controllers + 1, kinds[i].controllers))
				bytes = limited_by_groups(
					bytes, root, &kinds[i], group);
	}
	if (in)
		fclose(in);
	return bytes;
}
