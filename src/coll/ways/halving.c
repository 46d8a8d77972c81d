/* halving.c - recursive halving and doubling (Rabenseifner 2004): in each round a
 * pair splits what it has between them, until each has summed a part of its own;
 * then back. The nearest ranks exchange the most. Ranks beyond a power of two hand
 * theirs to another one first, and get from it what is theirs. */
#include "coll/schedule.h"

enum { MOST_ROUNDS = 11 }; /* lg TAUT_COLL_RANKS */
enum { REDUCED, SPREAD };  /* messages of an all-reduce; of the others: blocks */

/* --- all-reduce: parts are halves of halves ----------------------------------------*/

static void halve(struct tauti_writer *writer, const struct tauti_group *group,
	uint32_t power, struct tauti_elements range, enum taut_coll_buffer from)
{
	struct tauti_elements kept[MOST_ROUNDS], given[MOST_ROUNDS];
	uint32_t round = 0;

	for (uint32_t bit = 1; bit < power; bit *= 2, round++) {
		uint32_t peer = tauti_rank_of(group, group->me ^ bit);
		bool upper = group->me & bit;

		kept[round] = tauti_block_of(range, 2, upper);
		given[round] = tauti_block_of(range, 2, !upper);
		range = kept[round];
		tauti_send(writer, tauti_extent(from, given[round]), peer,
			REDUCED);
		tauti_recv_reduce(writer, tauti_extent(TAUT_OUTPUT, range),
			tauti_extent(from, range), peer, REDUCED);
		from = TAUT_OUTPUT;
	}
	for (uint32_t bit = power / 2; bit; bit /= 2) {
		uint32_t peer = tauti_rank_of(group, group->me ^ bit);

		round--;
		tauti_send(writer, tauti_extent(TAUT_OUTPUT, kept[round]), peer,
			SPREAD);
		tauti_recv(writer, tauti_extent(TAUT_OUTPUT, given[round]), peer,
			SPREAD);
	}
}

void tauti_halving_allreduce(struct tauti_writer *writer,
	const struct tauti_group *group, struct tauti_elements range,
	enum taut_coll_buffer from)
{
	uint32_t power = tauti_power(group->n), extra = TAUT_NONE;
	struct tauti_extent output = tauti_extent(TAUT_OUTPUT, range);

	if (group->me >= power) {
		uint32_t peer = tauti_rank_of(group, group->me - power);

		tauti_send(writer, tauti_extent(from, range), peer, REDUCED);
		tauti_recv(writer, output, peer, SPREAD);
		return;
	}
	if (group->me + power < group->n) {
		extra = tauti_rank_of(group, group->me + power);
		tauti_recv_reduce(writer, output, tauti_extent(from, range),
			extra, REDUCED);
		from = TAUT_OUTPUT;
	}
	halve(writer, group, power, range, from);
	if (extra != TAUT_NONE)
		tauti_send(writer, output, extra, SPREAD);
}

static void allreduce(struct tauti_writer *writer)
{
	struct tauti_group group = tauti_all_ranks(writer);

	tauti_halving_allreduce(writer, &group, tauti_all(writer), TAUT_INPUT);
}

/* --- by blocks: rank i, below the power of two, stands for i and i + power ----------*/

static struct tauti_extent block(
	struct tauti_writer *writer, enum taut_coll_buffer buffer, uint32_t i)
{
	return tauti_extent(buffer, tauti_block_of(
		tauti_all(writer), writer->shape->n_ranks, i));
}

/* Whether block i is of a rank that agrees with `rank` in all bits below `bits`. */
static bool is_of(uint32_t i, uint32_t power, uint32_t rank, uint32_t bits)
{
	return ((i % power ^ rank) & (bits - 1)) == 0;
}

static void reduce_round(struct tauti_writer *writer, uint32_t bit,
	enum taut_coll_buffer from)
{
	uint32_t n = writer->shape->n_ranks, me = writer->shape->rank;
	uint32_t power = tauti_power(n), peer = me ^ bit;

	for (uint32_t i = 0; i < n; i++)
		if (is_of(i, power, peer, 2 * bit))
			tauti_send(writer, block(writer, from, i), peer, i);
	for (uint32_t i = 0; i < n; i++)
		if (is_of(i, power, me, 2 * bit))
			tauti_recv_reduce(writer, block(writer, TAUT_OUTPUT, i),
				block(writer, from, i), peer, i);
}

static void reduce_scatter(struct tauti_writer *writer)
{
	uint32_t n = writer->shape->n_ranks, me = writer->shape->rank;
	uint32_t power = tauti_power(n), extra = me + power;
	enum taut_coll_buffer from = TAUT_INPUT;

	if (me >= power) {
		for (uint32_t i = 0; i < n; i++)
			tauti_send(writer, block(writer, TAUT_INPUT, i),
				me - power, i);
		tauti_recv(writer, block(writer, TAUT_OUTPUT, me), me - power,
			n);
		return;
	}
	for (uint32_t i = 0; i < n && extra < n; i++) {
		tauti_recv_reduce(writer, block(writer, TAUT_OUTPUT, i),
			block(writer, TAUT_INPUT, i), extra, i);
		from = TAUT_OUTPUT;
	}
	for (uint32_t bit = 1; bit < power; bit *= 2, from = TAUT_OUTPUT)
		reduce_round(writer, bit, from);
	if (extra < n)
		tauti_send(writer, block(writer, TAUT_OUTPUT, extra), extra, n);
}

/* Own block is sent out of INPUT: nothing need wait for its copy. */
static struct tauti_extent known(struct tauti_writer *writer, uint32_t i)
{
	return block(writer,
		i == writer->shape->rank ? TAUT_INPUT : TAUT_OUTPUT, i);
}

static void spread_round(struct tauti_writer *writer, uint32_t bit)
{
	uint32_t n = writer->shape->n_ranks, me = writer->shape->rank;
	uint32_t power = tauti_power(n), peer = me ^ bit;

	for (uint32_t i = 0; i < n; i++)
		if (is_of(i, power, me, 2 * bit))
			tauti_send(writer, known(writer, i), peer, i);
	for (uint32_t i = 0; i < n; i++)
		if (is_of(i, power, peer, 2 * bit))
			tauti_recv(writer, block(writer, TAUT_OUTPUT, i), peer,
				i);
}

static void allgather(struct tauti_writer *writer)
{
	uint32_t n = writer->shape->n_ranks, me = writer->shape->rank;
	uint32_t power = tauti_power(n), extra = me + power;

	if (me >= power) {
		tauti_send(writer, known(writer, me), me - power, me);
		for (uint32_t i = 0; i < n; i++)
			if (i != me)
				tauti_recv(writer, block(writer, TAUT_OUTPUT,
					i), me - power, i);
	} else {
		if (extra < n)
			tauti_recv(writer, block(writer, TAUT_OUTPUT, extra),
				extra, extra);
		for (uint32_t bit = power / 2; bit; bit /= 2)
			spread_round(writer, bit);
		for (uint32_t i = 0; i < n && extra < n; i++)
			if (i != extra)
				tauti_send(writer, known(writer, i), extra, i);
	}
	tauti_copy(writer, tauti_block_of(tauti_all(writer), n, me));
}

const struct tauti_way_row tauti_way_halving = { "halving", {
	[TAUT_ALLREDUCE] = allreduce,
	[TAUT_REDUCE_SCATTER] = reduce_scatter,
	[TAUT_ALLGATHER] = allgather,
} };
