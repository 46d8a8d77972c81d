/* slow.h - when a read from a storage of some rate and latency ends: a bucket that bytes
 * drain from one after the other. No clock of its own. */
#ifndef TAUT_LOAD_STORES_SLOW_H
#define TAUT_LOAD_STORES_SLOW_H

#include <stdint.h>

#include "base/hash.h" /* tauti_u128 */

struct tauti_slow {
	uint64_t rate_bytes_s; /* 0: no limit */
	int64_t latency_ns;
	int64_t burst_ns; /* what was not asked for so long before may be had at once */
	int64_t free_ns; /* when what was begun has drained; 0 at the beginning */
	uint64_t rest;   /* of free_ns, in 1 / rate ns: what is drained is exact */
};

/* When a read of so many bytes that begins now ends. Not before those that began before
 * it. now_ns and bytes: such that the end fits. */
static inline int64_t tauti_slow_due(
	struct tauti_slow *slow, int64_t now_ns, uint64_t bytes)
{
	tauti_u128 ns;

	if (slow->free_ns < now_ns - slow->burst_ns) {
		slow->free_ns = now_ns - slow->burst_ns;
		slow->rest = 0;
	}
	if (slow->rate_bytes_s) {
		ns = (tauti_u128)bytes * 1000000000 + slow->rest;
		slow->free_ns += (int64_t)(ns / slow->rate_bytes_s);
		slow->rest = (uint64_t)(ns % slow->rate_bytes_s);
	}
	return (slow->free_ns > now_ns ? slow->free_ns : now_ns) + slow->latency_ns;
}

#endif /* TAUT_LOAD_STORES_SLOW_H */
