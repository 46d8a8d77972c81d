/* mxnet.c - any bytes as a dump of MXNet's profiler. */
#include "tests/fuzz/any_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return check_any_trace(&tauti_format_mxnet, data, size);
}
