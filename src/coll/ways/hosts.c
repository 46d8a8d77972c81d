/* hosts.c - by hosts: L ranks of each host, as many as the smallest host has, are its
 * reducers. The reducers of one index, one on each host, are a column. What is
 * reduced is summed in each host by the reducer whose it is, then along its column,
 * then spread in each host. So all reducers use their host's network, and each
 * element crosses it as seldom as can be. */
#include "coll/schedule.h"

#include <stdlib.h>

enum { SCATTER, SPREAD }; /* messages in a host; of what goes by block: blocks */

struct seat {
	uint32_t host, index; /* hosts count from 0 */
};

struct layout {
	uint32_t *ranks;          /* by host, then by rank */
	uint32_t *first_of;       /* by host, in ranks; n_hosts + 1 */
	uint32_t *across;         /* one rank of each host */
	struct seat *seats;       /* by rank */
	struct seat me;
	uint32_t n_hosts, n_reducers; /* L */
	struct tauti_group local; /* this rank's host */
};

/* --- who sits where ------------------------------------------------------------------*/

struct named {
	uint32_t host, rank;
};

static int by_host(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	if (x->host != y->host)
		return x->host < y->host ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static struct named *sorted(const struct taut_coll_shape *shape)
{
	struct named *named = calloc(shape->n_ranks, sizeof *named);

	for (uint32_t i = 0; named && i < shape->n_ranks; i++)
		named[i] = (struct named){
			shape->host_of ? shape->host_of[i] : 0, i };
	if (named)
		qsort(named, shape->n_ranks, sizeof *named, by_host);
	return named;
}

static uint32_t size_of(const struct layout *layout, uint32_t host)
{
	return layout->first_of[host + 1] - layout->first_of[host];
}

static void lay_out(struct layout *layout, const struct named *named,
	const struct taut_coll_shape *shape)
{
	uint32_t n = shape->n_ranks, host = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!i || named[i].host != named[i - 1].host)
			layout->first_of[layout->n_hosts++] = i;
		host = layout->n_hosts - 1;
		layout->ranks[i] = named[i].rank;
		layout->seats[named[i].rank] = (struct seat){
			host, i - layout->first_of[host] };
	}
	layout->first_of[layout->n_hosts] = n;
	layout->n_reducers = n;
	for (host = 0; host < layout->n_hosts; host++)
		if (size_of(layout, host) < layout->n_reducers)
			layout->n_reducers = size_of(layout, host);
	layout->me = layout->seats[shape->rank];
	layout->local = (struct tauti_group){
		layout->ranks + layout->first_of[layout->me.host],
		size_of(layout, layout->me.host), layout->me.index };
}

static void layout_fini(struct layout *layout)
{
	free(layout->ranks);
	free(layout->first_of);
	free(layout->across);
	free(layout->seats);
}

static bool layout_init(struct layout *layout, struct tauti_writer *writer)
{
	uint32_t n = writer->shape->n_ranks;
	struct named *named = sorted(writer->shape);

	*layout = (struct layout){ .n_hosts = 0 };
	layout->ranks = calloc(n, sizeof *layout->ranks);
	layout->first_of = calloc(n + 1, sizeof *layout->first_of);
	layout->across = calloc(n, sizeof *layout->across);
	layout->seats = calloc(n, sizeof *layout->seats);
	if (named && layout->ranks && layout->first_of && layout->across &&
		layout->seats) {
		lay_out(layout, named, writer->shape);
	} else {
		layout_fini(layout);
		writer->failed = true;
	}
	free(named);
	return !writer->failed;
}

static bool is_reducer(const struct layout *layout)
{
	return layout->me.index < layout->n_reducers;
}

static uint32_t reducer(
	const struct layout *layout, uint32_t host, uint32_t index)
{
	return layout->ranks[layout->first_of[host] + index];
}

/* This rank's, which is a reducer. */
static struct tauti_group column(struct layout *layout)
{
	for (uint32_t h = 0; h < layout->n_hosts; h++)
		layout->across[h] = reducer(layout, h, layout->me.index);
	return (struct tauti_group){
		layout->across, layout->n_hosts, layout->me.host };
}

/* --- what several verbs do -----------------------------------------------------------*/

/* OUTPUT = from op what each other of the group sends. Returns where the sum is. */
static struct tauti_extent fold(struct tauti_writer *writer,
	const struct tauti_group *group, struct tauti_extent sum,
	uint32_t message)
{
	struct tauti_extent output = tauti_extent(TAUT_OUTPUT, sum.range);

	for (uint32_t k = 1; k < group->n; k++) {
		tauti_recv_reduce(writer, output, sum, tauti_rank_of(group,
			(group->me + k) % group->n), message);
		sum = output;
	}
	return sum;
}

/* --- all-reduce: L blocks, reducer i's is block i ------------------------------------*/

static struct tauti_elements part(
	struct tauti_writer *writer, const struct layout *layout, uint32_t i)
{
	return tauti_block_of(tauti_all(writer), layout->n_reducers, i);
}

/* The k-th after this rank, of those that sit here. */
static uint32_t neighbour(const struct layout *layout, uint32_t k)
{
	return (layout->me.index + k) % layout->local.n;
}

static void sum_part(struct tauti_writer *writer, struct layout *layout)
{
	struct tauti_elements range = part(writer, layout, layout->me.index);
	struct tauti_group group = column(layout);
	struct tauti_extent sum = fold(writer, &layout->local,
		tauti_extent(TAUT_INPUT, range), SCATTER);

	/* Where hosts are no power of two, a ring sends less. */
	if (group.n > 1 && tauti_power(group.n) == group.n)
		tauti_halving_allreduce(writer, &group, range, sum.buffer);
	else if (group.n > 1)
		tauti_ring_allreduce(writer, &group, range, sum.buffer);
	tauti_send_all(writer, tauti_extent(TAUT_OUTPUT, range), &layout->local,
		TAUT_NONE, SPREAD);
}

static void allreduce_over(struct tauti_writer *writer, struct layout *layout)
{
	for (uint32_t k = 1; k < layout->local.n; k++) {
		uint32_t i = neighbour(layout, k);

		if (i < layout->n_reducers)
			tauti_send(writer, tauti_extent(TAUT_INPUT,
				part(writer, layout, i)),
				tauti_rank_of(&layout->local, i), SCATTER);
	}
	if (is_reducer(layout))
		sum_part(writer, layout);
	for (uint32_t k = 1; k < layout->local.n; k++) {
		uint32_t i = neighbour(layout, k);

		if (i < layout->n_reducers)
			tauti_recv(writer, tauti_extent(TAUT_OUTPUT,
				part(writer, layout, i)),
				tauti_rank_of(&layout->local, i), SPREAD);
	}
}

/* --- by blocks, each of a rank: its reducer is of its column -------------------------*/

static struct tauti_extent block(
	struct tauti_writer *writer, enum taut_coll_buffer buffer, uint32_t i)
{
	return tauti_extent(buffer, tauti_block_of(
		tauti_all(writer), writer->shape->n_ranks, i));
}

static uint32_t column_of(const struct layout *layout, uint32_t i)
{
	return layout->seats[i].index % layout->n_reducers;
}

/* Sums what this rank's column has of block i, or has it summed on i's host. */
static void sum_block(struct tauti_writer *writer, const struct layout *layout,
	const struct tauti_group *group, uint32_t i)
{
	uint32_t host = layout->seats[i].host;
	struct tauti_extent sum = fold(writer, &layout->local,
		block(writer, TAUT_INPUT, i), i);

	if (host != layout->me.host)
		tauti_send(writer, sum,
			reducer(layout, host, layout->me.index), i);
	else
		sum = fold(writer, group, sum, i);
	if (host == layout->me.host && i != writer->shape->rank)
		tauti_send(writer, sum, i, i);
}

static void reduce_scatter_over(
	struct tauti_writer *writer, struct layout *layout)
{
	uint32_t n = writer->shape->n_ranks, rank = writer->shape->rank;

	for (uint32_t k = 1; k <= n; k++) {
		uint32_t i = (rank + k) % n, index = column_of(layout, i);

		if (index != layout->me.index)
			tauti_send(writer, block(writer, TAUT_INPUT, i),
				tauti_rank_of(&layout->local, index), i);
	}
	if (is_reducer(layout)) {
		struct tauti_group group = column(layout);

		for (uint32_t k = 1; k <= n; k++)
			if (column_of(layout, (rank + k) % n) ==
				layout->me.index)
				sum_block(writer, layout, &group,
					(rank + k) % n);
	} else {
		tauti_recv(writer, block(writer, TAUT_OUTPUT, rank),
			tauti_rank_of(&layout->local, column_of(layout, rank)),
			rank);
	}
}

/* Takes a block of this rank's column from its owner or from i's host, and spreads
 * it. Own block is sent out of INPUT: nothing need wait for its copy. */
static void spread_block(struct tauti_writer *writer,
	const struct layout *layout, const struct tauti_group *group,
	uint32_t i)
{
	bool own = i == writer->shape->rank;
	struct tauti_extent it =
		block(writer, own ? TAUT_INPUT : TAUT_OUTPUT, i);
	uint32_t host = layout->seats[i].host;

	if (host != layout->me.host)
		tauti_recv(writer, it,
			reducer(layout, host, layout->me.index), i);
	else if (!own)
		tauti_recv(writer, it, i, i);
	if (host == layout->me.host)
		tauti_send_all(writer, it, group, TAUT_NONE, i);
	tauti_send_all(writer, it, &layout->local, i, i);
}

static void allgather_over(struct tauti_writer *writer, struct layout *layout)
{
	uint32_t n = writer->shape->n_ranks, rank = writer->shape->rank;
	struct tauti_group group = { .n = 0 };

	if (is_reducer(layout))
		group = column(layout);
	else
		tauti_send(writer, block(writer, TAUT_INPUT, rank),
			tauti_rank_of(&layout->local, column_of(layout, rank)),
			rank);
	for (uint32_t k = 0; k < n; k++) {
		uint32_t i = (rank + k) % n, index = column_of(layout, i);

		if (index == layout->me.index)
			spread_block(writer, layout, &group, i);
		else if (i != rank)
			tauti_recv(writer, block(writer, TAUT_OUTPUT, i),
				tauti_rank_of(&layout->local, index), i);
	}
	tauti_copy(writer, block(writer, TAUT_INPUT, rank).range);
}

/* --- broadcast: the root leads its host, and the first rank each other one -----------*/

static void broadcast_over(struct tauti_writer *writer, struct layout *layout)
{
	uint32_t rank = writer->shape->rank, root = writer->shape->root;
	struct tauti_group leaders = { layout->across, layout->n_hosts,
		layout->me.host };
	struct tauti_elements all = tauti_all(writer);

	for (uint32_t h = 0; h < layout->n_hosts; h++)
		layout->across[h] = reducer(layout, h, 0);
	layout->across[layout->seats[root].host] = root;
	if (rank != layout->across[layout->me.host]) {
		tauti_recv(writer, tauti_extent(TAUT_OUTPUT, all),
			layout->across[layout->me.host], SPREAD);
		return;
	}
	if (leaders.n > 1)
		tauti_tree_broadcast(
			writer, &leaders, layout->seats[root].host, all);
	tauti_send_all(writer,
		tauti_extent(rank == root ? TAUT_INPUT : TAUT_OUTPUT, all),
		&layout->local, TAUT_NONE, SPREAD);
	if (rank == root)
		tauti_copy(writer, all);
}

/* --- the way -------------------------------------------------------------------------*/

static void with_layout(struct tauti_writer *writer,
	void (*write)(struct tauti_writer *, struct layout *))
{
	struct layout layout;

	if (!layout_init(&layout, writer))
		return;
	write(writer, &layout);
	layout_fini(&layout);
}

static void allreduce(struct tauti_writer *writer)
{
	with_layout(writer, allreduce_over);
}

static void reduce_scatter(struct tauti_writer *writer)
{
	with_layout(writer, reduce_scatter_over);
}

static void allgather(struct tauti_writer *writer)
{
	with_layout(writer, allgather_over);
}

static void broadcast(struct tauti_writer *writer)
{
	with_layout(writer, broadcast_over);
}

const struct tauti_way_row tauti_way_hosts = { "hosts", {
	[TAUT_ALLREDUCE] = allreduce,
	[TAUT_REDUCE_SCATTER] = reduce_scatter,
	[TAUT_ALLGATHER] = allgather,
	[TAUT_BROADCAST] = broadcast,
} };
