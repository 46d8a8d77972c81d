/* replay_main.c - stands in for libFuzzer in normal builds: gives every file
 * of the named files and folders to the target once. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *read_file(const char *path, size_t *ret_size)
{
	FILE *file = fopen(path, "rb");
	if (!file)
		return NULL;
	uint8_t *data = NULL;
	struct stat info;
	if (fstat(fileno(file), &info) == 0) {
		/* Exactly as long as the input: reading past it is found. */
		*ret_size = (size_t)info.st_size;
		data = malloc(*ret_size ? *ret_size : 1);
	}
	if (data && fread(data, 1, *ret_size, file) != *ret_size) {
		free(data);
		data = NULL;
	}
	fclose(file);
	return data;
}

/* How many inputs were run; -1: one could not be read. */
static int run_file(const char *path)
{
	size_t size = 0;
	uint8_t *data = read_file(path, &size);
	if (!data) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	return 1;
}

static int run_folder(const char *path)
{
	struct dirent **entries;
	int n = scandir(path, &entries, NULL, alphasort);
	if (n < 0)
		return run_file(path);
	int runs = 0;
	for (int i = 0; i < n; i++) {
		char file[4096];
		snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.' && runs >= 0) {
			int ran = run_file(file);
			runs = ran < 0 ? -1 : runs + ran;
		}
		free(entries[i]);
	}
	free(entries);
	return runs;
}

int main(int argc, char **argv)
{
	int runs = 0;
	for (int i = 1; i < argc; i++) {
		int ran = run_folder(argv[i]);
		if (ran < 0)
			return 1;
		runs += ran;
	}
	printf("%d inputs\n", runs);
	return runs == 0;
}
