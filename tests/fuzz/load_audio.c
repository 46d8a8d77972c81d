/* load_audio.c - any bytes as sound, in ways that the last byte chooses: a sample or a fault,
 * and the same again. Without libsndfile and libsoxr nothing is done. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/kinds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

enum { SAMPLES = 300 };

static struct taut_prepare_options chosen(unsigned how)
{
	return (struct taut_prepare_options){
		.kind = TAUT_KIND_AUDIO,
		.samples = SAMPLES,
		.cut = how % TAUT_CUTS,
		.channels = how / 4 % 4 % 3,
		.layout = how / 16 % 2,
		.rate = how / 32 % 2 ? 16000 : 0,
	};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned how = size ? data[size - 1] : 0;
	struct taut_prepare_options o = chosen(how);
	struct tauti_item item = { .bytes = data, .n = size, .name = "fuzz",
		.draw = tauti_draw_begin(how, 0, size) };
	float samples[2][SAMPLES * 2] = { { 0 } };
	struct tauti_maker *maker = NULL;
	taut_status status[2];
	int64_t length = -1;

	if (tauti_maker_create(&o, &maker, NULL) != TAUT_OK)
		return 0;
	for (int i = 0; i < 2; i++) {
		struct taut_error err = { .message = "" };

		status[i] = tauti_maker_make(maker, &item, samples[i], &length, &err);
		MUST(status[i] == TAUT_OK || status[i] == TAUT_EFORMAT);
		MUST((status[i] == TAUT_OK) == !err.message[0]);
		MUST(!status[i] || strncmp(err.message, "fuzz: audio: ", 13) == 0);
		MUST(status[i] || (length >= 0 && length <= SAMPLES));
	}
	MUST(status[0] == status[1]);
	MUST(status[0] || memcmp(samples[0], samples[1], sizeof samples[0]) == 0);
	tauti_maker_destroy(maker);
	return 0;
}
