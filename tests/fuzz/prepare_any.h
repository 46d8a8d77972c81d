/* prepare_any.h - prepares bytes that may be an image: a slot or a fault, never more.
 * The last byte chooses the options, so that a seed that is an image stays one. */
#ifndef TAUT_TESTS_FUZZ_PREPARE_ANY_H
#define TAUT_TESTS_FUZZ_PREPARE_ANY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/prepare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

static struct taut_prepare_options chosen(const char *format, unsigned how)
{
	return (struct taut_prepare_options){
		.format = format,
		.height = 9,
		.width = 17,
		.crop = how % 4 % TAUT_CROP_NONE,
		.flip = 0.5,
		.least_area = 0.01,
		.filter = how / 4 % 2,
		.scale_in_decoder = how / 8 % 2,
		.orient = how / 16 % 2,
		.strict = how / 32 % 2,
		.hue = how / 64 % 2 ? 0.5 : 0,
		.most_pixels = 1 << 18,
	};
}

/* The same bytes twice, by one object: the same answer. */
static void prepare_any(const char *format, const uint8_t *data, size_t size)
{
	unsigned how = size ? data[size - 1] : 0;
	struct taut_prepare_options options = chosen(format, how);
	unsigned char slots[2][9 * 17 * 3] = { { 0 } };
	struct tauti_prepare *p = NULL;
	taut_status status[2];

	MUST(tauti_prepare_create(&options, &p, NULL) == TAUT_OK);
	for (int i = 0; i < 2; i++) {
		struct taut_error err = { 0 };

		status[i] = tauti_prepare_image(p, data, size, "fuzz",
			tauti_draw_begin(how, 0, size), slots[i], &err);
		MUST(status[i] == TAUT_OK || status[i] == TAUT_EFORMAT);
		MUST((status[i] == TAUT_OK) == (err.message[0] == '\0'));
		MUST(!status[i] || strncmp(err.message, "fuzz: ", 6) == 0);
	}
	MUST(status[0] == status[1]);
	MUST(status[0] || memcmp(slots[0], slots[1], sizeof slots[0]) == 0);
	tauti_prepare_destroy(p);
}

#endif /* TAUT_TESTS_FUZZ_PREPARE_ANY_H */
