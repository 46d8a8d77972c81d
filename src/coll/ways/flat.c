/* flat.c - each sends all of it to each: one step, for what is small. Reduced in the
 * order of the ranks. */
#include "coll/schedule.h"

static void allreduce(struct tauti_writer *writer)
{
	struct tauti_group group = tauti_all_ranks(writer);
	struct tauti_elements all = tauti_all(writer);

	tauti_send_all(writer, tauti_extent(TAUT_INPUT, all), &group, TAUT_NONE,
		0);
	tauti_fold_ordered(writer, all, 0, true);
}

static void broadcast(struct tauti_writer *writer)
{
	struct tauti_group group = tauti_all_ranks(writer);
	struct tauti_elements all = tauti_all(writer);

	if (group.me != writer->shape->root) {
		tauti_recv(writer, tauti_extent(TAUT_OUTPUT, all),
			writer->shape->root, 0);
		return;
	}
	tauti_send_all(writer, tauti_extent(TAUT_INPUT, all), &group, TAUT_NONE,
		0);
	tauti_copy(writer, all);
}

const struct tauti_way_row tauti_way_flat = { "flat", {
	[TAUT_ALLREDUCE] = allreduce,
	[TAUT_BROADCAST] = broadcast,
} };
