/* process.c - any bytes as what a process said of itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/record.h"
#include "trace/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

static void check_text(const char *text)
{
	MUST(text);
	for (; *text; text++)
		MUST((unsigned char)*text >= ' ');
}

static void check(const struct record_process *process)
{
	check_text(process->host);
	check_text(process->framework);
	check_text(process->state);
	MUST(process->pid >= -1 && process->rank >= -1);
	MUST(process->world_size >= -1 && process->steps_seen >= -1);
	MUST(process->started_ns >= -1 && process->ended_ns >= -1);
	MUST(process->recorded[0] >= -1);
	MUST(process->recorded[1] >= process->recorded[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct taut_arena *arena = taut_arena_create();
	struct tauti_stream *stream = NULL;
	struct taut_error err = { .message = "" };
	struct record_process process;
	taut_status status;

	MUST(arena);
	status = tauti_stream_open_memory("t", data, size, &stream, &err);
	if (!status)
		status = record_process_read(stream, arena, &process, &err);
	tauti_stream_close(stream);
	if (!status) {
		check(&process);
	} else {
		MUST(status == TAUT_EFORMAT);
		MUST(err.message[0] && !strchr(err.message, '\n'));
	}
	taut_arena_destroy(arena);
	return 0;
}
