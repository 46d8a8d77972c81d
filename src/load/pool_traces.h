/* pool_traces.h - what a test's pools have left behind. */
#ifndef TAUT_LOAD_POOL_TRACES_H
#define TAUT_LOAD_POOL_TRACES_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Files of pools in a folder that all may write, or open in this process. */
static inline int traces(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *row;
	int n = 0;

	while (folder && (row = readdir(folder)) != NULL) {
		char from[300], to[300] = "";

		snprintf(from, sizeof from, "%s/%s", path, row->d_name);
		if (readlink(from, to, sizeof to - 1) < 0)
			to[0] = '\0';
		n += strstr(row->d_name, "taut-pool") || strstr(to, "taut-pool");
	}
	if (folder)
		closedir(folder);
	return n;
}

#endif /* TAUT_LOAD_POOL_TRACES_H */
