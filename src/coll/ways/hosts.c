/* hosts.c - by hosts: L ranks of each host, as many as the smallest host has, sum one
 * block of L each over their host; those with the same block sum it between the
 * hosts; and each spreads its block in its host. So all of a host's ranks use its
 * network, and each element crosses it as seldom as can be. */
#include "coll/schedule.h"

#include <stdlib.h>

enum { SCATTER, SPREAD }; /* messages in a host */

struct seat {
	uint32_t host, rank;
};

struct layout {
	uint32_t *ranks;           /* by host, then by rank; owned */
	uint32_t *across;          /* owned; one of each host */
	struct tauti_group local;  /* of this rank's host */
	uint32_t n_blocks;         /* L */
	uint32_t n_hosts, my_host; /* in the order of `ranks` */
	uint32_t *first_of;        /* by host, in ranks; n_hosts + 1; owned */
};

static int by_host(const void *a, const void *b)
{
	const struct seat *x = a, *y = b;

	if (x->host != y->host)
		return x->host < y->host ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static struct seat *seats_of(const struct taut_coll_shape *shape)
{
	struct seat *seats = calloc(shape->n_ranks, sizeof *seats);

	for (uint32_t i = 0; seats && i < shape->n_ranks; i++)
		seats[i] = (struct seat){
			shape->host_of ? shape->host_of[i] : 0, i };
	if (seats)
		qsort(seats, shape->n_ranks, sizeof *seats, by_host);
	return seats;
}

static void lay_out(struct layout *layout, const struct seat *seats,
	const struct taut_coll_shape *shape)
{
	uint32_t n = shape->n_ranks, begin, size;

	for (uint32_t i = 0; i < n; i++) {
		if (!i || seats[i].host != seats[i - 1].host)
			layout->first_of[layout->n_hosts++] = i;
		layout->ranks[i] = seats[i].rank;
		if (seats[i].rank != shape->rank)
			continue;
		layout->my_host = layout->n_hosts - 1;
		layout->local.me = i - layout->first_of[layout->my_host];
	}
	layout->first_of[layout->n_hosts] = n;
	layout->n_blocks = n;
	for (uint32_t h = 0; h < layout->n_hosts; h++) {
		size = layout->first_of[h + 1] - layout->first_of[h];
		if (size < layout->n_blocks)
			layout->n_blocks = size;
	}
	begin = layout->first_of[layout->my_host];
	layout->local.ranks = layout->ranks + begin;
	layout->local.n = layout->first_of[layout->my_host + 1] - begin;
}

static void layout_fini(struct layout *layout)
{
	free(layout->ranks);
	free(layout->across);
	free(layout->first_of);
}

static bool layout_init(struct layout *layout, struct tauti_writer *writer)
{
	uint32_t n = writer->shape->n_ranks;
	struct seat *seats = seats_of(writer->shape);

	*layout = (struct layout){ .n_hosts = 0 };
	layout->ranks = calloc(n, sizeof *layout->ranks);
	layout->across = calloc(n, sizeof *layout->across);
	layout->first_of = calloc(n + 1, sizeof *layout->first_of);
	if (seats && layout->ranks && layout->across && layout->first_of) {
		lay_out(layout, seats, writer->shape);
	} else {
		layout_fini(layout);
		writer->failed = true;
	}
	free(seats);
	return !writer->failed;
}

/* --- all-reduce ----------------------------------------------------------------------*/

static struct tauti_range block_of(
	struct tauti_writer *writer, const struct layout *layout, uint32_t i)
{
	return tauti_block(tauti_all(writer), layout->n_blocks, i);
}

static uint32_t local_after(const struct layout *layout, uint32_t k)
{
	return (layout->local.me + k) % layout->local.n;
}

static void send_blocks(struct tauti_writer *writer, const struct layout *layout)
{
	for (uint32_t k = 1; k < layout->local.n; k++) {
		uint32_t i = local_after(layout, k);

		if (i < layout->n_blocks)
			tauti_send(writer, tauti_span(TAUT_INPUT,
				block_of(writer, layout, i)),
				tauti_member(&layout->local, i), SCATTER);
	}
}

static void recv_blocks(struct tauti_writer *writer, const struct layout *layout)
{
	for (uint32_t k = 1; k < layout->local.n; k++) {
		uint32_t i = local_after(layout, k);

		if (i < layout->n_blocks)
			tauti_recv(writer, tauti_span(TAUT_OUTPUT,
				block_of(writer, layout, i)),
				tauti_member(&layout->local, i), SPREAD);
	}
}

/* A ring is as good, where hosts are no power of two, and sends less. */
static void sum_across(struct tauti_writer *writer, struct layout *layout,
	struct tauti_range range, enum taut_coll_buffer from)
{
	struct tauti_group group = { layout->across, layout->n_hosts,
		layout->my_host };

	for (uint32_t h = 0; h < layout->n_hosts; h++)
		layout->across[h] = layout->ranks[layout->first_of[h] +
			layout->local.me];
	if (group.n > 1 && tauti_power(group.n) == group.n)
		tauti_halving_allreduce(writer, &group, range, from);
	else if (group.n > 1)
		tauti_ring_allreduce(writer, &group, range, from);
}

static void sum_own_block(struct tauti_writer *writer, struct layout *layout)
{
	struct tauti_range range = block_of(writer, layout, layout->local.me);
	struct tauti_span output = tauti_span(TAUT_OUTPUT, range);
	struct tauti_span sum = tauti_span(TAUT_INPUT, range);

	for (uint32_t k = 1; k < layout->local.n; k++) {
		tauti_recv_reduce(writer, output, sum,
			tauti_member(&layout->local, local_after(layout, k)),
			SCATTER);
		sum = output;
	}
	sum_across(writer, layout, range, sum.buffer);
	tauti_send_all(writer, output, &layout->local, TAUT_NONE, SPREAD);
}

static void allreduce(struct tauti_writer *writer)
{
	struct layout layout;

	if (!layout_init(&layout, writer))
		return;
	send_blocks(writer, &layout);
	if (layout.local.me < layout.n_blocks)
		sum_own_block(writer, &layout);
	recv_blocks(writer, &layout);
	layout_fini(&layout);
}

/* --- broadcast -----------------------------------------------------------------------*/

/* The root leads its host, and the first rank each other one. Returns the index of
 * the root's host. */
static uint32_t find_leaders(struct layout *layout, uint32_t root)
{
	uint32_t host_of_root = 0;

	for (uint32_t h = 0; h < layout->n_hosts; h++) {
		uint32_t first = layout->first_of[h];

		layout->across[h] = layout->ranks[first];
		for (uint32_t i = first; i < layout->first_of[h + 1]; i++)
			if (layout->ranks[i] == root) {
				layout->across[h] = root;
				host_of_root = h;
			}
	}
	return host_of_root;
}

static void broadcast_over(struct tauti_writer *writer, struct layout *layout)
{
	uint32_t rank = writer->shape->rank, root = writer->shape->root;
	uint32_t host_of_root = find_leaders(layout, root);
	uint32_t leader = layout->across[layout->my_host];
	struct tauti_group leaders = { layout->across, layout->n_hosts,
		layout->my_host };
	struct tauti_range all = tauti_all(writer);

	if (rank != leader) {
		tauti_recv(writer, tauti_span(TAUT_OUTPUT, all), leader,
			SPREAD);
		return;
	}
	if (leaders.n > 1)
		tauti_tree_broadcast(writer, &leaders, host_of_root, all);
	tauti_send_all(writer,
		tauti_span(rank == root ? TAUT_INPUT : TAUT_OUTPUT, all),
		&layout->local, TAUT_NONE, SPREAD);
	if (rank == root)
		tauti_copy(writer, all);
}

static void broadcast(struct tauti_writer *writer)
{
	struct layout layout;

	if (!layout_init(&layout, writer))
		return;
	broadcast_over(writer, &layout);
	layout_fini(&layout);
}

const struct tauti_way tauti_way_hosts = { "hosts", {
	[TAUT_ALLREDUCE] = allreduce,
	[TAUT_BROADCAST] = broadcast,
} };
