/* load_npy.c - any bytes as a file of .npy: its header, what a set's first item tells, and a
 * sample of a shape that the last byte chooses. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/kinds.h"
#include "load/kinds/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

static void check_header(const uint8_t *data, size_t size)
{
	struct taut_error err = { .message = "" };
	struct tauti_npy npy;
	taut_status status = tauti_npy_read(data, size, "fuzz", &npy, &err);

	MUST(status == TAUT_OK || status == TAUT_EFORMAT);
	MUST((status == TAUT_OK) == !err.message[0]);
	MUST(status == TAUT_OK || strncmp(err.message, "fuzz: npy: ", 11) == 0);
	if (status != TAUT_OK)
		return;
	MUST(npy.at <= size && npy.n_dims <= TAUT_MOST_DIMS);
	MUST(taut_prepare_type_bytes(npy.type) > 0);
}

/* As the first item says, where that is small; else what the last byte chooses. */
static struct taut_prepare_options chosen(const uint8_t *data, size_t size)
{
	unsigned how = size ? data[size - 1] : 0;
	struct taut_prepare_options first = { .kind = TAUT_KIND_TENSOR, .as_first = true,
		.varies = how % 2, .cut = how / 2 % TAUT_CUTS };

	if (how / 8 % 2 && tauti_prepare_first(&first, data, size, size, "fuzz", NULL) ==
		TAUT_OK && taut_prepare_slot_bytes(&first) <= 4096)
		return first;
	return (struct taut_prepare_options){ .kind = TAUT_KIND_TENSOR,
		.format = how / 16 % 2 ? "raw" : NULL, .varies = how % 2,
		.cut = how / 2 % TAUT_CUTS, .type = how / 32 % 2 ? TAUT_PIXEL_F32 :
		TAUT_PIXEL_U8, .n_dims = 1 + how / 64 % 2, .dims = { 3, 2 } };
}

static void check_sample(const uint8_t *data, size_t size)
{
	struct taut_prepare_options o = chosen(data, size);
	struct tauti_item item = { .bytes = data, .n = size, .name = "fuzz",
		.draw = { size } };
	size_t n = taut_prepare_slot_bytes(&o);
	struct taut_error err = { .message = "" };
	char *sample = malloc(n);
	struct tauti_maker *maker = NULL;
	int64_t length = -1;
	taut_status status;

	MUST(n && sample);
	MUST(tauti_maker_create(&o, &maker, NULL) == TAUT_OK);
	status = tauti_maker_make(maker, &item, sample, &length, &err);
	MUST(status == TAUT_OK || status == TAUT_EFORMAT);
	MUST((status == TAUT_OK) == !err.message[0]);
	MUST(status != TAUT_OK || !o.varies ||
		(length >= 0 && (uint64_t)length <= o.dims[0]));
	tauti_maker_destroy(maker);
	free(sample);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_header(data, size);
	check_sample(data, size);
	return 0;
}
