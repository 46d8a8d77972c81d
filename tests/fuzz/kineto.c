/* kineto.c - any bytes as a trace, by what their first bytes tell. */
#include "tests/fuzz/any_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return check_any_trace(NULL, data, size);
}
