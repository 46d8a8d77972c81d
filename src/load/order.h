/* order.h - which item stands at which position of an epoch, and which positions are
 * whose: pure functions, no memory, no clock.
 *
 * The deal. Position p of epoch e holds one item of 0 .. n_items - 1, each exactly once:
 * a permutation that is a function of (seed, epoch) alone, the same in every process and
 * on every machine, and another one each epoch. It is a swap-or-not network (Hoang,
 * Morris, Rogaway: CRYPTO'12) of TAUTI_DEAL_ROUNDS rounds. Round r pairs x with
 * k_r - x mod n, and swaps the two or not by one bit drawn for the pair: an involution on
 * 0 .. n - 1 itself, for every n. So there is no walking until in range, the inverse is
 * the same rounds backward, and odd permutations come up as often as even ones. (A
 * balanced Feistel network with halves of two or more bits makes even permutations alone;
 * the test of all n! permutations of small n would see it.) What a position shows of the
 * item at it fades by half a round: after 64 the distance from equally likely is below
 * n * 2^-64. It is for training; it withstands nobody who wants to guess the seed.
 *
 * Sharing. All ranks together go through the positions from first_position on. Global
 * batch b is the next batch * n_ranks of them, whoever takes which: so as long as that
 * product is the same, a global batch holds the same items for any number of ranks. In it
 * rank r takes every n_ranks-th position, from the r-th on: then the tail is shared out
 * evenly by the same rule as all else, and what ranks read next to each other in time
 * lies next to each other in the order. The tail, which fills no global batch:
 *
 *   KEEP  is dealt out as it comes: ranks' counts differ by at most one. All ranks have
 *         the same number of batches, as collectives need it: where fewer positions are
 *         left than ranks, the last batch of the others has no item, and is one.
 *   DROP  is left out: every batch is full.
 *   PAD   is filled up to the next multiple of n_ranks with positions from the beginning
 *         of the epoch on (as often around as it takes), as PyTorch's DistributedSampler
 *         does: ranks' counts are equal; some items come twice.
 *
 * Resume. The state of an epoch is how many positions all ranks together have consumed:
 * tauti_share_consumed(). A share with that as first_position, of any n_ranks and batch,
 * deals out anew what is left: no item twice, none lost. (DROP: the tail that is left out
 * is that of the last share alone.)
 *
 * Threads: any. Nothing can fail but tauti_share_check(). */
#ifndef TAUT_LOAD_ORDER_H
#define TAUT_LOAD_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

enum { TAUTI_DEAL_ROUNDS = 64 };
#define TAUTI_ITEMS_MOST (UINT64_C(1) << 62)

struct tauti_deal {
	uint64_t n_items; /* at most TAUTI_ITEMS_MOST */
	uint64_t seed;
	bool shuffle; /* false: the item at a position is the position */
};

/* position < n_items. */
uint64_t tauti_deal_item(
	const struct tauti_deal *deal, uint64_t epoch, uint64_t position);
/* The position at which the item stands; item < n_items. */
uint64_t tauti_deal_position(
	const struct tauti_deal *deal, uint64_t epoch, uint64_t item);

enum tauti_tail {
	TAUTI_TAIL_KEEP,
	TAUTI_TAIL_DROP,
	TAUTI_TAIL_PAD,
};

/* One rank's part of one epoch. */
struct tauti_share {
	uint64_t n_items;        /* at most TAUTI_ITEMS_MOST */
	uint64_t first_position; /* consumed before; at most n_items */
	uint32_t n_ranks, rank;  /* rank < n_ranks */
	uint32_t batch;          /* items of one rank's full batch; at least 1 */
	enum tauti_tail tail;
};

/* TAUT_EINVAL: not within the limits above; one line says which. */
TAUT_NODISCARD taut_status tauti_share_check(
	const struct tauti_share *share, struct taut_error *reterr);

/* All that follows is of a share that was found good. */

/* Batches of the rest of the epoch, the same on every rank; with KEEP and PAD 0 only
 * where nothing is left. */
uint64_t tauti_share_batches(const struct tauti_share *share);
/* Items of this rank's batch b < batches: 0 .. batch. */
uint32_t tauti_share_count(const struct tauti_share *share, uint64_t b);
/* Of all its batches together. */
uint64_t tauti_share_items(const struct tauti_share *share);
/* Where place i < count of batch b stands: a position < n_items. */
uint64_t tauti_share_position(
	const struct tauti_share *share, uint64_t b, uint32_t place);
/* Positions consumed by all ranks when each has done its first n <= batches, those
 * before first_position included. */
uint64_t tauti_share_consumed(const struct tauti_share *share, uint64_t n);

TAUT_END_DECLS
#endif /* TAUT_LOAD_ORDER_H */
