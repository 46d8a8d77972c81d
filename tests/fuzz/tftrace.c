/* tftrace.c - any bytes as TensorFlow's trace.json. */
#include "tests/fuzz/any_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return check_any_trace(&tauti_format_tftrace, data, size);
}
