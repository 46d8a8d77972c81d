/* sizes.c - a line as an operator's name, the rest as the sizes of its inputs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/cost.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

static void check(const struct taut_opwork *work)
{
	double bytes = 0;

	MUST(work->kind < TAUT_OPWORK_KINDS);
	MUST(work->flops >= 0 && work->flops < 1e22);
	MUST(work->bytes >= 0 && work->bytes < 1e22);
	MUST(work->n_operands <= TAUT_MOST_OPERANDS);
	for (uint32_t i = 0; i < work->n_operands; i++) {
		const struct taut_operand *o = &work->operands[i];

		MUST(o->n_dims <= TAUT_MOST_DIMS && o->elements >= 0);
		bytes += TAUT_ELEMENT_BYTES * o->elements * o->passes;
	}
	MUST(work->n_operands == TAUT_MOST_OPERANDS ||
		bytes <= work->bytes * 1.000001);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *sizes;
	struct taut_opwork work;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	sizes = strchr(text, '\n');
	if (sizes) {
		*sizes++ = 0;
		if (taut_opwork_of(text, sizes, 0, &work))
			check(&work);
		if (taut_opwork_of(text, sizes, 1e6, &work))
			check(&work);
	}
	free(text);
	return 0;
}
