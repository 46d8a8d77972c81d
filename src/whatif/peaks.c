/* peaks.c - see peaks.h. From the tables of NVIDIA's white papers on each
 * architecture, in Tflop/s: 16 bits (dense) / 32 bits / TF32.
 *
 *     7.0  V100            125   / 15.7 / -      WP-08608-001
 *     7.5  Quadro RTX 6000 130.5 / 16.3 / -      WP-09183-001
 *     8.0  A100            312   / 19.5 / 156    A100 Tensor Core GPU Architecture
 *     8.6  RTX A6000       154.8 / 38.7 / 77.4   Ampere GA102 GPU Architecture
 *     8.9  RTX 6000 Ada    364   / 91.1 / 182    Ada GPU Architecture
 *     9.0  H100 SXM5       989.4 / 66.9 / 494.7  H100 Tensor Core GPU Architecture
 *     10.0 B200            2250  / 75   / 1125   HGX B200, data sheet
 *
 * GeForce cards sum in 32 bits, as training does, at half of that rate, and have
 * half of that TF32. */
#include "whatif/peaks.h"

static const struct {
	int32_t major, minor;
	struct tauti_peaks peaks;
} known[] = {
	{ 7, 0, { 125 / 15.7, 0, false } },
	{ 7, 5, { 130.5 / 16.3, 0, false } },
	{ 8, 0, { 312 / 19.5, 2, true } },
	{ 8, 6, { 154.8 / 38.7, 2, true } },
	{ 8, 9, { 364 / 91.1, 2, true } },
	{ 9, 0, { 989.4 / 66.9, 2, true } },
	{ 10, 0, { 2250.0 / 75, 2, true } },
};

/* ROCm numbers its devices' capabilities too, by gfx. */
static bool is_of_others(const char *name)
{
	return strcasestr(name, "AMD") || strcasestr(name, "Radeon") ||
		strcasestr(name, "Instinct");
}

bool tauti_peaks_of(
	const struct taut_device *device, struct tauti_peaks *ret_peaks)
{
	if (!device || !device->name[0] || is_of_others(device->name))
		return false;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (known[i].major != device->major ||
			known[i].minor != device->minor)
			continue;
		*ret_peaks = known[i].peaks;
		if (strcasestr(device->name, "GeForce"))
			ret_peaks->of_single /= 2;
		return true;
	}
	return false;
}

const struct taut_device *tauti_device_of(
	const struct tauti_whatif *w, uint32_t lane)
{
	const struct taut_run *run = w->graph->run;
	struct taut_graph_lane is = taut_edit_lane(w->edit, lane);
	const struct taut_trace *t;

	if (!run || is.trace == TAUT_NONE || is.trace >= run->n_traces)
		return NULL;
	t = &run->traces[is.trace];
	if (is.trace_lane >= t->n_lanes)
		return NULL;
	for (size_t i = 0; i < t->n_devices; i++)
		if (t->devices[i].id == t->lanes[is.trace_lane].pid)
			return &t->devices[i];
	return NULL;
}
