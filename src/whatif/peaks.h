/* peaks.h - how fast tensor cores multiply, by NVIDIA's documents.
 * Threads: pure functions. */
#ifndef TAUT_WHATIF_PEAKS_H
#define TAUT_WHATIF_PEAKS_H

#include "whatif/compute.h"

struct tauti_peaks { /* of dense products of 16 bits, summed in 32 */
	double of_single; /* their rate / that of 32 bits without tensor cores */
	double of_tf32;   /* their rate / that of TF32; 0: it has none */
	bool has_bf16;    /* else fp16 alone */
};
/* false: it is not told which device it is, or not in the table. */
bool tauti_peaks_of(
	const struct taut_device *device, struct tauti_peaks *ret_peaks);
/* That of a lane of the edit; NULL: not told. */
const struct taut_device *tauti_device_of(
	const struct tauti_whatif *w, uint32_t lane);

#endif /* TAUT_WHATIF_PEAKS_H */
