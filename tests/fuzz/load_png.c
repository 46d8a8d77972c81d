/* load_png.c - any bytes as a PNG image, prepared in ways that the last bytes choose. */
#include "tests/fuzz/prepare_any.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	prepare_any("png", data, size);
	return 0;
}
