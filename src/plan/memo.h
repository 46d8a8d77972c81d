/* memo.h - what states cost that were seen: a table by hash, with the whole state
 * compared, so that two states with one hash stay two.
 *
 * Owner:   whoever holds the struct; zero and n_words is an empty one.
 * Threads: one at a time. */
#ifndef TAUT_PLAN_MEMO_H
#define TAUT_PLAN_MEMO_H

#include "base/vec.h"
#include "plan/space.h"

struct tauti_memo_entry {
	uint64_t hash;
	struct tauti_cost cost;
};

struct tauti_memo {
	size_t n_words; /* of a key; at least 1 */
	size_t most;    /* entries; what comes later is not remembered */
	TAUT_VEC(struct tauti_memo_entry) entries;
	TAUT_VEC(uint64_t) keys; /* n_words for each entry */
	uint32_t *slots;         /* index of an entry plus one; 0: free */
	size_t n_slots;          /* a power of two, or 0 */
};

/* Where each site's option stands in a key: one behind the other in as few bits as
 * it needs, none across two words. Returns how many words that takes. */
size_t tauti_memo_lay_out(
	const uint8_t *n_options, uint32_t n_sites, uint32_t *ret_first_bit);

void tauti_memo_fini(struct tauti_memo *memo);
/* NULL: not seen. Stays until the next add. */
const struct tauti_cost *tauti_memo_find(
	const struct tauti_memo *memo, uint64_t hash, const uint64_t *key);
/* Of a key that is not there. false: no memory, and nothing changed. */
TAUT_NODISCARD bool tauti_memo_add(struct tauti_memo *memo, uint64_t hash,
	const uint64_t *key, const struct tauti_cost *cost);

#endif /* TAUT_PLAN_MEMO_H */
