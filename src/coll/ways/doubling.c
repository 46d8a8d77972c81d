/* doubling.c - recursive doubling: in round k, rank i and rank i ^ 2^k tell each
 * other all that they have summed. Ranks beyond a power of two hand theirs to
 * another one first, and get the result from it. Both of a pair reduce the same two
 * operands, so all have the same bits. */
#include "coll/schedule.h"

enum { EXCHANGE, RESULT }; /* messages */

/* What is sent cannot be what is received: the sum goes to and fro between scratch
 * and OUTPUT, and ends there. */
static void exchange(struct tauti_writer *writer, struct tauti_extent *sum,
	struct tauti_extent beside, uint32_t peer, bool last)
{
	struct tauti_extent output = tauti_extent(TAUT_OUTPUT, sum->range);
	struct tauti_extent into = sum->buffer == TAUT_SCRATCH ? output : beside;

	tauti_send(writer, *sum, peer, EXCHANGE);
	if (last && into.buffer == TAUT_SCRATCH) {
		tauti_recv(writer, beside, peer, EXCHANGE);
		tauti_reduce(writer, output, *sum, beside);
		into = output;
	} else {
		tauti_recv_reduce(writer, into, *sum, peer, EXCHANGE);
	}
	*sum = into;
}

static void hand_over(struct tauti_writer *writer, uint32_t peer)
{
	struct tauti_elements all = tauti_all(writer);

	tauti_send(writer, tauti_extent(TAUT_INPUT, all), peer, EXCHANGE);
	tauti_recv(writer, tauti_extent(TAUT_OUTPUT, all), peer, RESULT);
}

static uint32_t rounds(uint32_t power)
{
	return power > 1 ? 1 + rounds(power / 2) : 0;
}

static void allreduce(struct tauti_writer *writer)
{
	uint32_t n = writer->shape->n_ranks, me = writer->shape->rank;
	uint32_t power = tauti_power(n);
	struct tauti_extent sum = tauti_extent(TAUT_INPUT, tauti_all(writer));
	struct tauti_extent output = tauti_extent(TAUT_OUTPUT, sum.range), beside;

	if (me >= power) {
		hand_over(writer, me - power);
		return;
	}
	beside = tauti_take_scratch(writer, sum.range);
	if (me + power < n) {
		struct tauti_extent into = rounds(power) % 2 ? beside : output;

		tauti_recv_reduce(writer, into, sum, me + power, EXCHANGE);
		sum = into;
	}
	for (uint32_t bit = 1; bit < power; bit *= 2)
		exchange(writer, &sum, beside, me ^ bit, bit * 2 == power);
	if (me + power < n)
		tauti_send(writer, sum, me + power, RESULT);
}

const struct tauti_way_row tauti_way_doubling = { "doubling", {
	[TAUT_ALLREDUCE] = allreduce,
} };
