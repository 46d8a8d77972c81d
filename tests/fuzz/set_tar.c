/* set_tar.c - an archive of somebody else: its samples lie within it, or it is refused
 * with a byte of it. Sums of headers are put right first, or nothing would come far. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/sources/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

/* Whatever lies where a header may, with something in its name. */
static void mend_sums(uint8_t *bytes, size_t size)
{
	for (size_t at = 0; size - at >= TAUTI_ARCHIVE_BLOCK;
		at += TAUTI_ARCHIVE_BLOCK) {
		uint8_t *header = bytes + at;
		unsigned sum = 0;

		if (!header[0] || header[148] != '0')
			continue;
		memset(header + 148, ' ', 8);
		for (int i = 0; i < TAUTI_ARCHIVE_BLOCK; i++)
			sum += header[i];
		snprintf((char *)header + 148, 8, "%06o", sum);
	}
}

static void check(const struct tauti_part *part, uint64_t size)
{
	uint64_t end = 0;
	size_t zeros = 0;

	for (size_t i = 0; i < part->rows.count; i++) {
		const struct tauti_row *row = &part->rows.data[i];

		MUST(row->where % TAUTI_ARCHIVE_BLOCK == 0 && row->where > end);
		end = row->where + row->bytes;
		MUST(end <= size);
	}
	for (size_t i = 0; i < part->texts.count; i++)
		zeros += !part->texts.data[i];
	MUST(zeros == part->rows.count);
	MUST(!zeros || !part->texts.data[part->texts.count - 1]);
	MUST(part->file_bytes == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tauti_archive_bytes *bytes = malloc(sizeof *bytes);
	uint8_t *copy = malloc(size ? size : 1);
	struct tauti_part part = { .n_folders = 0 };
	struct taut_error err = { .message = "" };
	taut_status status;

	if (!bytes || !copy)
		abort();
	memcpy(copy, data, size);
	mend_sums(copy, size);
	*bytes = (struct tauti_archive_bytes){ .path = "input", .size = size,
		.memory = copy, .fd = -1 };
	status = tauti_tar_scan(bytes, "jpg jpeg png", &part, &err);
	MUST(status == TAUT_OK || status == TAUT_EFORMAT);
	MUST((status == TAUT_OK) == !err.message[0]);
	MUST(!strchr(err.message, '\n'));
	if (status == TAUT_OK)
		check(&part, size);
	else
		MUST(err.offset >= 0 && (uint64_t)err.offset <= size);
	taut_vec_free(&part.rows);
	taut_vec_free(&part.texts);
	free(copy);
	free(bytes);
	return 0;
}
