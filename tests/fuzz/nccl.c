/* nccl.c - any text as what NCCL's plugins and PyTorch's flight recorder write
 * as JSON. How much of it is held at once must make no difference. */
#include "tests/fuzz/trace_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (data[i] < 0x20 && !strchr("\t\n\r", data[i] ? data[i] : 1))
			return 0; /* depends on the window: see kineto.c */
	MUST(check_bytes(data, size, 64) == check_bytes(data, size, 0));
	return 0;
}
