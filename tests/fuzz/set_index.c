/* set_index.c - an index that is damaged, or was made to look like one: what is opened can
 * be asked for everything. Its size and checksum are put right first, or nothing would come
 * far; but not where the first byte behind the header's own is 'x'. */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/sources/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

static void mend(char *bytes, size_t size)
{
	uint64_t whole = size, sum;

	if (size < sizeof(struct tauti_index_header) + sizeof sum ||
		bytes[offsetof(struct tauti_index_header, unused)] == 'x')
		return;
	memcpy(bytes + offsetof(struct tauti_index_header, index_bytes), &whole,
		sizeof whole);
	sum = tauti_index_sum(0, bytes, size - sizeof sum);
	memcpy(bytes + size - sizeof sum, &sum, sizeof sum);
}

static void check(const struct taut_set *set)
{
	char text[PATH_MAX];
	uint64_t total = 0;

	MUST(taut_set_count(set) > 0);
	for (uint64_t i = 0; i < taut_set_count(set); i++) {
		struct taut_set_item item = taut_set_at(set, i);

		MUST(item.file < taut_set_files(set));
		MUST(item.offset + item.bytes <= taut_set_file_bytes(set, item.file));
		MUST(item.bytes <= taut_set_largest(set));
		total += item.bytes;
		if (taut_set_key(set, i, text, sizeof text) < sizeof text &&
			i < 100)
			MUST(taut_set_find(set, text) <= i);
	}
	MUST(total == taut_set_bytes(set));
	for (uint32_t i = 0; i < taut_set_files(set); i++)
		MUST(taut_set_path(set, i, text, sizeof text) > 0);
	for (uint32_t i = 0; i < taut_set_classes(set); i++)
		MUST(strlen(taut_set_class(set, i)) < (size_t)1 << 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct taut_arena *arena = taut_arena_create();
	char *copy = malloc(size ? size : 1);
	struct taut_error err = { .message = "" };
	struct taut_set *set = arena ?
		TAUT_ARENA_ARRAY(arena, struct taut_set, 1) : NULL;
	taut_status status;

	if (!set || !copy)
		abort();
	memcpy(copy, data, size);
	mend(copy, size);
	status = tauti_index_parse(
		copy, size, "input", "/folder", arena, set, &err);
	MUST(status == TAUT_OK || status == TAUT_EFORMAT);
	MUST((status == TAUT_OK) == !err.message[0]);
	if (status == TAUT_OK) {
		set->source = "index";
		MUST(tauti_set_finish(set, arena, size % 2, &err) == TAUT_OK);
		check(set);
	}
	taut_arena_destroy(arena);
	free(copy);
	return 0;
}
