/* place.c - which server has which part; see taut/server.h. */
#include "server/server.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN_BYTES = 64 };

struct named {
	const struct taut_server_key *key;
	uint32_t index;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->key->name,
		((const struct named *)b)->key->name);
}

static taut_status no_memory(struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_ENOMEM, -1, "keys: out of memory");
}

static taut_status check(
	const struct named *sorted, size_t n, struct taut_error *reterr)
{
	for (size_t i = 0; i < n; i++) {
		const struct taut_server_key *key = sorted[i].key;

		if (!key->count || (unsigned)key->type >= TAUT_TYPES ||
			key->count > UINT64_C(1) << 48)
			return taut_error_set(reterr, TAUT_EINVAL, -1,
				"key '%.200s': expected a type and 1 to 2^48 "
				"elements", key->name);
		if (i && !strcmp(key->name, sorted[i - 1].key->name))
			return taut_error_set(reterr, TAUT_EINVAL, -1,
				"key '%.200s' is there twice", key->name);
	}
	return TAUT_OK;
}

static taut_status sort_keys(const struct taut_server_key *keys, size_t n,
	struct named **ret_sorted, struct taut_error *reterr)
{
	struct named *sorted = calloc(n ? n : 1, sizeof *sorted);
	taut_status status;

	if (!sorted)
		return no_memory(reterr);
	for (size_t i = 0; i < n; i++)
		sorted[i] = (struct named){ &keys[i], (uint32_t)i };
	qsort(sorted, n, sizeof *sorted, by_name);
	status = check(sorted, n, reterr);
	if (status) {
		free(sorted);
		return status;
	}
	*ret_sorted = sorted;
	return TAUT_OK;
}

/* Elements of a part that is not the last. */
static uint64_t elements_of(const struct taut_server_key *key, uint64_t part_bytes)
{
	uint64_t size = taut_type_bytes(key->type);

	if (part_bytes < ALIGN_BYTES)
		part_bytes = ALIGN_BYTES;
	return part_bytes / ALIGN_BYTES * ALIGN_BYTES / size;
}

static taut_status cut(const struct named *sorted, size_t n,
	uint64_t part_bytes, struct taut_server_part **ret_parts,
	size_t *ret_n, struct taut_error *reterr)
{
	struct taut_server_part *parts;
	uint64_t total = 0;
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t most = elements_of(sorted[i].key, part_bytes);

		total += (sorted[i].key->count - 1) / most + 1;
		if (total > TAUTI_PARTS_MOST)
			return taut_error_set(reterr, TAUT_EINVAL, -1, "keys: "
				"more than %d parts of %" PRIu64 " bytes",
				TAUTI_PARTS_MOST, part_bytes);
	}
	parts = calloc(total ? total : 1, sizeof *parts);
	if (!parts)
		return no_memory(reterr);
	for (size_t i = 0; i < n; i++) {
		uint64_t most = elements_of(sorted[i].key, part_bytes);
		uint64_t count = sorted[i].key->count;

		for (uint64_t first = 0; first < count; first += most)
			parts[at++] = (struct taut_server_part){
				.key = sorted[i].index, .first = first,
				.count = count - first < most ? count - first :
					most };
	}
	*ret_parts = parts;
	*ret_n = at;
	return TAUT_OK;
}

struct sized {
	uint64_t bytes;
	uint32_t part;
};

static int largest_first(const void *a, const void *b)
{
	const struct sized *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return (x->part > y->part) - (x->part < y->part);
}

static taut_status spread(const struct taut_server_key *keys,
	struct taut_server_part *parts, size_t n, uint32_t n_servers,
	struct taut_error *reterr)
{
	struct sized *sized = calloc(n ? n : 1, sizeof *sized);
	uint64_t *load = calloc(n_servers, sizeof *load);

	for (size_t i = 0; sized && load && i < n; i++)
		sized[i] = (struct sized){ parts[i].count *
			taut_type_bytes(keys[parts[i].key].type), (uint32_t)i };
	if (sized && load)
		qsort(sized, n, sizeof *sized, largest_first);
	for (size_t i = 0; sized && load && i < n; i++) {
		uint32_t least = 0;

		for (uint32_t s = 1; s < n_servers; s++)
			if (load[s] < load[least])
				least = s;
		load[least] += sized[i].bytes;
		parts[sized[i].part].server = least;
	}
	free(load);
	free(sized);
	return sized && load ? TAUT_OK : no_memory(reterr);
}

taut_status taut_server_place(const struct taut_server_key *keys, size_t n_keys,
	uint64_t part_bytes, uint32_t n_servers,
	struct taut_server_part **ret_parts, size_t *ret_n_parts,
	struct taut_error *reterr)
{
	struct taut_server_part *parts = NULL;
	struct named *sorted = NULL;
	size_t n = 0;
	taut_status status;

	if (!n_servers || n_servers > TAUTI_SERVERS_MOST)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "%" PRIu32
			" servers: expected 1 to %d", n_servers,
			TAUTI_SERVERS_MOST);
	status = sort_keys(keys, n_keys, &sorted, reterr);
	if (!status)
		status = cut(sorted, n_keys, part_bytes, &parts, &n, reterr);
	if (!status)
		status = spread(keys, parts, n, n_servers, reterr);
	free(sorted);
	if (status) {
		free(parts);
		return status;
	}
	*ret_parts = parts;
	*ret_n_parts = n;
	return TAUT_OK;
}
