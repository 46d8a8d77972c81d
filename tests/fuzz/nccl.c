/* nccl.c - any text as what NCCL's plugins and PyTorch's flight recorder write
 * as JSON. How much of it is held at once must make no difference. */
#include "tests/fuzz/trace_check.h"

static void check_both(
	const struct tauti_format *format, const uint8_t *data, size_t size)
{
	uint64_t small, usual;
	MUST(check_bytes(format, data, size, 64, &small) ==
		check_bytes(format, data, size, 0, &usual));
	MUST(small == usual);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (data[i] < 0x20 && !strchr("\t\n\r", data[i] ? data[i] : 1))
			return 0; /* depends on the window: see kineto.c */
	check_both(&tauti_format_flight, data, size);
	check_both(&tauti_format_nccl_inspector, data, size);
	check_both(&tauti_format_nccl_profile, data, size);
	return 0;
}
