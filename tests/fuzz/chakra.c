/* chakra.c - any bytes as a Chakra trace, of either form. Held in pieces of
 * 64 bytes or as usual, the outcome must be the same. */
#include "tests/fuzz/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source small, usual;
	source_begin(&small, 64);
	source_begin(&usual, 0);
	source_read(&small, data, size);
	source_read(&usual, data, size);
	source_end(&small);
	source_end(&usual);
	/* How simdjson marks a text that is none depends on the window. */
	if (size && data[0] != '{' && data[0] != '[' && data[0] > ' ')
		source_same(&small, &usual);
	tauti_builder_fini(&small.builder);
	tauti_builder_fini(&usual.builder);
	return 0;
}
