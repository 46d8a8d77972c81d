/* byteps.c - any bytes as what BytePS and ByteScheduler write. */
#include "tests/fuzz/any_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_any_trace(&tauti_format_bytescheduler, data, size);
	return check_any_trace(&tauti_format_byteps, data, size);
}
