/* direct.c - each to each: rank i sums block i of all, and sends it to all. What
 * shared memory is best at. Reduced in the order of the ranks. */
#include "coll/schedule.h"

struct fold {
	struct tauti_writer *writer;
	struct tauti_elements range;
	struct tauti_extent sum;    /* what there is of it */
	struct tauti_extent beside; /* scratch for it; of no elements: not yet */
	uint32_t message;
};

static struct tauti_extent beside(struct fold *fold)
{
	if (!fold->beside.range.count)
		fold->beside = tauti_take_scratch(fold->writer, fold->range);
	return fold->beside;
}

/* Where the sum of ranks 0 to i may be: beside INPUT, which OUTPUT may be, as long
 * as this rank's own is not in it; or while INPUT is busy. */
static struct tauti_extent place_of(struct fold *fold, uint32_t i, bool busy)
{
	const struct taut_coll_shape *shape = fold->writer->shape;

	if (i < shape->rank || (busy && i < shape->n_ranks - 1))
		return beside(fold);
	return tauti_extent(TAUT_OUTPUT, fold->range);
}

static void take_own(struct fold *fold, uint32_t i, bool busy)
{
	struct tauti_extent own = tauti_extent(TAUT_INPUT, fold->range);

	if (i == 0) {
		fold->sum = own;
		return;
	}
	fold->sum = place_of(fold, i, busy);
	tauti_reduce(fold->writer, fold->sum, own, beside(fold));
}

static void take_from(struct fold *fold, uint32_t i, bool busy)
{
	struct tauti_extent into = place_of(fold, i, busy);

	if (i == 0)
		tauti_recv(fold->writer, into, i, fold->message);
	else
		tauti_recv_reduce(fold->writer, into, fold->sum, i,
			fold->message);
	fold->sum = into;
}

void tauti_fold_ordered(struct tauti_writer *writer, struct tauti_elements range,
	uint32_t message, bool busy)
{
	uint32_t n = writer->shape->n_ranks, me = writer->shape->rank, i = 0;
	struct fold fold = { .writer = writer, .range = range,
		.message = message };

	/* 0 + 1 is 1 + 0: one step instead of two. The last step must be no
	 * receive, where INPUT is busy. */
	if (me == 1 && (!busy || n > 2)) {
		fold.sum = place_of(&fold, 1, busy);
		tauti_recv_reduce(writer, fold.sum,
			tauti_extent(TAUT_INPUT, range), 0, message);
		i = 2;
	}
	for (; i < n; i++) {
		if (i == me)
			take_own(&fold, i, busy);
		else
			take_from(&fold, i, busy);
	}
}

enum { SCATTER, SPREAD }; /* messages */

static void send_blocks(struct tauti_writer *writer)
{
	uint32_t n = writer->shape->n_ranks, me = writer->shape->rank;

	for (uint32_t k = 1; k < n; k++) {
		uint32_t peer = (me + k) % n;

		tauti_send(writer, tauti_extent(TAUT_INPUT,
			tauti_block_of(tauti_all(writer), n, peer)), peer, SCATTER);
	}
}

/* Own blocks to all and all blocks here, but for what rank `done` has already. */
static void spread(struct tauti_writer *writer, enum taut_coll_buffer from,
	uint32_t done)
{
	struct tauti_group group = tauti_all_ranks(writer);
	struct tauti_elements all = tauti_all(writer);

	tauti_send_all(writer, tauti_extent(from,
		tauti_block_of(all, group.n, group.me)), &group, done, SPREAD);
	if (group.me == done)
		return;
	for (uint32_t k = 1; k < group.n; k++) {
		uint32_t peer = (group.me + k) % group.n;

		tauti_recv(writer, tauti_extent(TAUT_OUTPUT,
			tauti_block_of(all, group.n, peer)), peer, SPREAD);
	}
}

static void reduce_scatter(struct tauti_writer *writer)
{
	const struct taut_coll_shape *shape = writer->shape;

	send_blocks(writer);
	tauti_fold_ordered(writer, tauti_block_of(tauti_all(writer),
		shape->n_ranks, shape->rank), SCATTER, false);
}

static void allgather(struct tauti_writer *writer)
{
	const struct taut_coll_shape *shape = writer->shape;

	spread(writer, TAUT_INPUT, TAUT_NONE);
	tauti_copy(writer, tauti_block_of(
		tauti_all(writer), shape->n_ranks, shape->rank));
}

static void allreduce(struct tauti_writer *writer)
{
	reduce_scatter(writer);
	spread(writer, TAUT_OUTPUT, TAUT_NONE);
}

static void broadcast(struct tauti_writer *writer)
{
	const struct taut_coll_shape *shape = writer->shape;

	if (shape->rank == shape->root) {
		send_blocks(writer);
		spread(writer, TAUT_INPUT, shape->root);
		tauti_copy(writer, tauti_all(writer));
		return;
	}
	tauti_recv(writer, tauti_extent(TAUT_OUTPUT, tauti_block_of(
		tauti_all(writer), shape->n_ranks, shape->rank)), shape->root,
		SCATTER);
	spread(writer, TAUT_OUTPUT, shape->root);
}

const struct tauti_way_row tauti_way_direct = { "direct", {
	[TAUT_ALLREDUCE] = allreduce,
	[TAUT_REDUCE_SCATTER] = reduce_scatter,
	[TAUT_ALLGATHER] = allgather,
	[TAUT_BROADCAST] = broadcast,
} };
