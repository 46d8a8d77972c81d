/* ring.c - each sends to the next: every block is summed on its way round, and then
 * spread on its way round. */
#include "coll/schedule.h"

/* The rank `steps` before this one; the block `steps` before this one's. */
static uint32_t before(const struct tauti_group *group, uint32_t steps)
{
	return (group->me + group->n - steps % group->n) % group->n;
}

static uint32_t next(const struct tauti_group *group)
{
	return tauti_rank_of(group, (group->me + 1) % group->n);
}

/* Block i comes to its end on member i. */
static void reduce_blocks(struct tauti_writer *writer,
	const struct tauti_group *group, struct tauti_elements range,
	enum taut_coll_buffer from)
{
	uint32_t previous = tauti_rank_of(group, before(group, 1));

	for (uint32_t i = 0; i + 1 < group->n; i++) {
		struct tauti_elements mine = tauti_block_of(
			range, group->n, before(group, i + 1));
		struct tauti_elements theirs = tauti_block_of(
			range, group->n, before(group, i + 2));

		tauti_send(writer, tauti_extent(i ? TAUT_OUTPUT : from, mine),
			next(group), i);
		tauti_recv_reduce(writer, tauti_extent(TAUT_OUTPUT, theirs),
			tauti_extent(from, theirs), previous, i);
	}
}

/* Messages from `message` on. */
static void spread_blocks(struct tauti_writer *writer,
	const struct tauti_group *group, struct tauti_elements range,
	enum taut_coll_buffer from, uint32_t message)
{
	uint32_t previous = tauti_rank_of(group, before(group, 1));

	for (uint32_t i = 0; i + 1 < group->n; i++) {
		struct tauti_elements mine = tauti_block_of(
			range, group->n, before(group, i));
		struct tauti_elements theirs = tauti_block_of(
			range, group->n, before(group, i + 1));

		tauti_send(writer, tauti_extent(i ? TAUT_OUTPUT : from, mine),
			next(group), message + i);
		tauti_recv(writer, tauti_extent(TAUT_OUTPUT, theirs), previous,
			message + i);
	}
}

void tauti_ring_allreduce(struct tauti_writer *writer,
	const struct tauti_group *group, struct tauti_elements range,
	enum taut_coll_buffer from)
{
	reduce_blocks(writer, group, range, from);
	spread_blocks(writer, group, range, TAUT_OUTPUT, group->n - 1);
}

static void allreduce(struct tauti_writer *writer)
{
	struct tauti_group group = tauti_all_ranks(writer);

	tauti_ring_allreduce(writer, &group, tauti_all(writer), TAUT_INPUT);
}

static void reduce_scatter(struct tauti_writer *writer)
{
	struct tauti_group group = tauti_all_ranks(writer);

	reduce_blocks(writer, &group, tauti_all(writer), TAUT_INPUT);
}

static void allgather(struct tauti_writer *writer)
{
	struct tauti_group group = tauti_all_ranks(writer);

	spread_blocks(writer, &group, tauti_all(writer), TAUT_INPUT, 0);
	tauti_copy(writer, tauti_block_of(tauti_all(writer), group.n, group.me));
}

const struct tauti_way_row tauti_way_ring = { "ring", {
	[TAUT_ALLREDUCE] = allreduce,
	[TAUT_REDUCE_SCATTER] = reduce_scatter,
	[TAUT_ALLGATHER] = allgather,
} };
