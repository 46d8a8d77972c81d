/* tuned.c - a file of taut run --tuned: what is read is written, and read again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tuned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct taut_setting s, again;
	char text[TUNED_BYTES] = "";
	struct taut_error err;
	FILE *out;

	if (tuned_parse((const char *)data, size, "input", &s, &err))
		return 0;
	out = fmemopen(text, sizeof text, "w");
	if (!out)
		return 0;
	if (tuned_write(&s, out, &err) || fclose(out) ||
		tuned_parse(text, strlen(text), "again", &again, &err) ||
		again.piece_bytes != s.piece_bytes ||
		again.credit_bytes != s.credit_bytes ||
		again.fuse_bytes != s.fuse_bytes || again.way != s.way) {
		fprintf(stderr, "broken: not as it was written\n");
		abort();
	}
	return 0;
}
