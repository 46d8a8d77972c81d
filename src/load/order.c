/* order.c - see order.h. */
#include "load/order.h"

#include <inttypes.h>

#include "load/draw.h"

/* --- the deal ----------------------------------------------------------------------*/

/* Not the keys of what is drawn for items (draw.h), whose third word is an item. */
#define DEAL_KEY UINT64_MAX
#define WEYL 0x9e3779b97f4a7c15u

static uint64_t key_of(const struct tauti_deal *deal, uint64_t epoch)
{
	return tauti_draw_begin(deal->seed, epoch, DEAL_KEY).key;
}

/* The round's number pairs x with another, and begins the sequence of which the larger of
 * the two picks its bit; either of them finds the same. */
static uint64_t pass_round(uint64_t n, uint64_t key, uint64_t round, uint64_t x)
{
	uint64_t number = tauti_draw_finish(key + (round + 1) * WEYL);
	uint64_t sum = (uint64_t)((tauti_u128)number * n >> 64);
	uint64_t other = sum >= x ? sum - x : sum + n - x;
	uint64_t larger = other > x ? other : x;

	return tauti_draw_finish(number + (larger + 1) * WEYL) >> 63 ? other : x;
}

uint64_t tauti_deal_item(
	const struct tauti_deal *deal, uint64_t epoch, uint64_t position)
{
	uint64_t key = key_of(deal, epoch), x = position;

	if (!deal->shuffle)
		return position;
	for (uint64_t round = 0; round < TAUTI_DEAL_ROUNDS; round++)
		x = pass_round(deal->n_items, key, round, x);
	return x;
}

uint64_t tauti_deal_position(
	const struct tauti_deal *deal, uint64_t epoch, uint64_t item)
{
	uint64_t key = key_of(deal, epoch), x = item;

	if (!deal->shuffle)
		return item;
	for (uint64_t round = TAUTI_DEAL_ROUNDS; round-- > 0;)
		x = pass_round(deal->n_items, key, round, x);
	return x;
}

/* --- shares ------------------------------------------------------------------------*/

taut_status tauti_share_check(
	const struct tauti_share *share, struct taut_error *reterr)
{
	if (share->n_items > TAUTI_ITEMS_MOST)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "order: %" PRIu64
			" items, at most 2^62", share->n_items);
	if (share->first_position > share->n_items)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "order: position "
			"%" PRIu64 " of an epoch of %" PRIu64 " items",
			share->first_position, share->n_items);
	if (share->rank >= share->n_ranks)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "order: rank %"
			PRIu32 " of %" PRIu32 ", expected one below that",
			share->rank, share->n_ranks);
	if (!share->batch)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"order: batches of 0 items, expected at least 1");
	if ((unsigned)share->tail > TAUTI_TAIL_PAD)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"order: tail %d is none", (int)share->tail);
	return TAUT_OK;
}

static uint64_t global_batch(const struct tauti_share *share)
{
	return (uint64_t)share->batch * share->n_ranks;
}

static uint64_t divide_up(uint64_t n, uint64_t by)
{
	return n / by + (n % by != 0);
}

/* Positions that are left when b batches are over. */
static uint64_t left_at(const struct tauti_share *share, uint64_t b)
{
	return share->n_items - share->first_position - b * global_batch(share);
}

/* This rank's, of so many that are left: every n_ranks-th from its own on. */
static uint64_t own_of(const struct tauti_share *share, uint64_t left)
{
	if (share->tail == TAUTI_TAIL_PAD)
		return divide_up(left, share->n_ranks);
	return left > share->rank ?
		divide_up(left - share->rank, share->n_ranks) : 0;
}

uint64_t tauti_share_batches(const struct tauti_share *share)
{
	uint64_t left = left_at(share, 0);

	return share->tail == TAUTI_TAIL_DROP ? left / global_batch(share) :
		divide_up(left, global_batch(share));
}

uint32_t tauti_share_count(const struct tauti_share *share, uint64_t b)
{
	uint64_t own = own_of(share, left_at(share, b));

	return own < share->batch ? (uint32_t)own : share->batch;
}

uint64_t tauti_share_items(const struct tauti_share *share)
{
	if (share->tail == TAUTI_TAIL_DROP)
		return tauti_share_batches(share) * share->batch;
	return own_of(share, left_at(share, 0));
}

uint64_t tauti_share_position(
	const struct tauti_share *share, uint64_t b, uint32_t place)
{
	uint64_t position = share->first_position + b * global_batch(share) +
		(uint64_t)place * share->n_ranks + share->rank;

	return position < share->n_items ? position : position % share->n_items;
}

uint64_t tauti_share_consumed(const struct tauti_share *share, uint64_t n)
{
	uint64_t left = left_at(share, 0);

	if (n >= divide_up(left, global_batch(share)))
		return share->n_items;
	return share->first_position + n * global_batch(share);
}
