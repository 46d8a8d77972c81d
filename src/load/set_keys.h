/* set_keys.h - the hash of an item's key, as whoever fills the table of keys and whoever
 * looks there must both have it. Pure. */
#ifndef TAUT_LOAD_SET_KEYS_H
#define TAUT_LOAD_SET_KEYS_H

#include "base/hash.h"

/* By folder and name, so that the hash of a folder is made once for all its files. */
static inline uint64_t tauti_key_hash_in(uint64_t folder_hash, const char *name)
{
	return tauti_hash_mix(folder_hash ^ TAUTI_HASH_C,
		tauti_hash(name, strlen(name)) ^ TAUTI_HASH_A);
}

static inline uint64_t tauti_key_hash(
	const char *folder, size_t folder_len, const char *name)
{
	return tauti_key_hash_in(tauti_hash(folder, folder_len), name);
}

#endif /* TAUT_LOAD_SET_KEYS_H */
