/* record_log.c - any bytes as an event log whose header is read and which may
 * be cut. What is said must fit the file, and only what no record is in may
 * be cut off. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log_format.h"
#include "cli/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

static size_t size_of(const char *path)
{
	struct stat at;

	MUST(stat(path, &at) == 0);
	return (size_t)at.st_size;
}

static void check(const struct record_log *log, size_t size, size_t now)
{
	size_t used = TAUTI_LOG_HEADER_BYTES +
		(size_t)log->kept * TAUTI_LOG_RECORD_BYTES;

	MUST(log->source && log->host && log->state);
	MUST(strlen(log->source) <= 32 && strlen(log->host) <= 64);
	MUST(strlen(log->state) <= 256);
	MUST(log->rank >= -1 && log->world_size >= -1 && log->pid >= -1);
	MUST(log->kept == 0 || used <= size);
	MUST(now == size || (!log->is_closed && now == used && now < size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char folder[] = "/tmp/taut-fuzz-XXXXXX", path[64];
	struct taut_arena *arena = taut_arena_create();
	struct taut_error err = { .message = "" };
	struct record_log log;
	FILE *out;

	MUST(arena && mkdtemp(folder));
	snprintf(path, sizeof path, "%s/log", folder);
	out = fopen(path, "wb");
	MUST(out && fwrite(data, 1, size, out) == size && !fclose(out));
	taut_status status = record_log_read(folder, "log", arena, &log, &err);

	if (!status) {
		check(&log, size, size_of(path));
	} else {
		MUST(status == TAUT_EFORMAT && err.message[0]);
		MUST(size_of(path) == size);
	}
	remove(path);
	remove(folder);
	taut_arena_destroy(arena);
	return 0;
}
