/* table.c - all transformations, in the order of the help. */
#include "whatif/whatif.h"

/* One row each; its struct tauti_whatif_<name> stands in a file of its own. */
#define ROWS(ROW) \
	/* network */ \
	ROW(link) \
	ROW(world) \
	ROW(bucket) \
	ROW(rows) \
	ROW(compress) \
	ROW(algorithm) \
	ROW(server) \
	ROW(partition) \
	ROW(schedule) \
	ROW(overlap) \
	ROW(ideal_network) \
	/* compute */ \
	ROW(slow) \
	ROW(repair) \
	ROW(scale) \
	ROW(remove) \
	ROW(host) \
	ROW(device) \
	ROW(optimizer) \
	ROW(amp) \
	ROW(graphs) \
	ROW(fuse) \
	ROW(merge) \
	ROW(batchnorm) \
	ROW(compile) \
	ROW(heap) \
	/* data */ \
	ROW(workers) \
	ROW(loader) \
	ROW(storage) \
	ROW(cache) \
	/* memory */ \
	ROW(recompute) \
	ROW(microbatches) \
	ROW(offload) \
	ROW(gist) \
	/* job */ \
	ROW(batch) \
	ROW(accumulate) \
	ROW(stages) \
	ROW(tensor)

#define DECLARE(name) extern const struct tauti_transformation \
	tauti_whatif_##name;
ROWS(DECLARE)

#define POINT(name) &tauti_whatif_##name,
const struct tauti_transformation *const tauti_transformations[] = {
	ROWS(POINT)
	NULL,
};

const struct taut_transformation_info *taut_transformation(size_t i)
{
	for (size_t k = 0; tauti_transformations[k]; k++)
		if (k == i)
			return &tauti_transformations[k]->info;
	return NULL;
}
