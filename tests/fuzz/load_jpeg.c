/* load_jpeg.c - any bytes as a JPEG image, prepared in ways that the last bytes choose. */
#include "tests/fuzz/prepare_any.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	prepare_any("jpeg", data, size);
	return 0;
}
