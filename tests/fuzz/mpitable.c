/* mpitable.c - any bytes as a table of the MPI form: rows in order, none twice. */
#include <stdlib.h>

#include "mpi/mpi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tauti_form_steps steps = { .n = 0 };
	struct taut_error err;

	if (tauti_form_table_parse((const char *)data, size, "t", 4, 1,
		size % 2, &steps,
		&err))
		return 0;
	if (steps.n > TAUTI_FORM_STEPS)
		abort();
	for (uint32_t i = 1; i < steps.n; i++)
		if (steps.step[i - 1].from_bytes >= steps.step[i].from_bytes)
			abort();
	for (int bit = 0; bit < 64; bit++)
		(void)tauti_form_takes(&steps, UINT64_C(1) << bit);
	return 0;
}
