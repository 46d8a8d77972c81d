/* pickle.c - any bytes as a pickled dump of PyTorch's flight recorder. */
#include "tests/fuzz/trace_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] == 0x80)
		check_bytes(&tauti_format_flight, data, size, 0, NULL);
	return 0;
}
