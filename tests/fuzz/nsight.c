/* nsight.c - any bytes as an SQLite export of Nsight Systems. */
#include "tests/fuzz/trace_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= 15 && memcmp(data, "SQLite format 3", 15) == 0)
		check_bytes(data, size, 0);
	return 0;
}
