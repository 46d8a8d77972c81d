/* nsight.c - any bytes as an SQLite export of Nsight Systems. */
#include "tests/fuzz/trace_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_bytes(&tauti_format_nsight, data, size, 0, NULL);
	return 0;
}
