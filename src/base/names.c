/* names.c - a hash table from text to a dense id.
 *
 * Open addressing with linear probing over 8-byte slots, so that a probe
 * that hits costs one cache line of the table and one of the text. A trace
 * of a gigabyte asks some ten million times and finds a few thousand names:
 * what counts is the way of a name that is known. */
#include <taut/base.h>

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/vec.h"

#define FIRST_SLOTS 256u /* a power of two, as every later size */
#define CHUNK_BYTES ((size_t)8 << 10)

struct slot {
	uint32_t hash; /* upper half of the text's hash */
	uint32_t id;   /* TAUT_NONE: empty */
};

struct name {
	const char *text;
	size_t len;
};

struct taut_names {
	struct slot *slots;
	uint32_t mask; /* slots - 1 */
	TAUT_VEC(struct name) names;
	struct taut_arena *arena; /* of the texts */
	char *chunk;              /* texts are packed, without alignment */
	size_t chunk_left;
};

static struct slot *make_slots(size_t n)
{
	struct slot *slots = malloc(n * sizeof *slots);
	if (slots)
		memset(slots, 0xff, n * sizeof *slots);
	return slots;
}

struct taut_names *taut_names_create(void)
{
	struct taut_names *names = calloc(1, sizeof *names);
	if (!names)
		return NULL;
	names->mask = FIRST_SLOTS - 1;
	names->slots = make_slots(FIRST_SLOTS);
	names->arena = taut_arena_create();
	if (!names->slots || !names->arena ||
		taut_names_add(names, "", 0) != 0) {
		taut_names_destroy(names);
		return NULL;
	}
	return names;
}

void taut_names_destroy(struct taut_names *names)
{
	if (!names)
		return;
	taut_arena_destroy(names->arena);
	taut_vec_free(&names->names);
	free(names->slots);
	free(names);
}

/* The slot that holds text, or the empty one where it belongs. */
static struct slot *find_slot(const struct taut_names *names, uint32_t hash,
	const char *text, size_t len)
{
	for (uint32_t i = hash & names->mask;; i = (i + 1) & names->mask) {
		struct slot *slot = &names->slots[i];
		if (slot->id == TAUT_NONE)
			return slot;
		if (slot->hash != hash)
			continue;
		const struct name *name = &names->names.data[slot->id];
		if (name->len == len &&
			(len == 0 || memcmp(name->text, text, len) == 0))
			return slot;
	}
}

static taut_status grow_slots(struct taut_names *names)
{
	size_t n = ((size_t)names->mask + 1) * 2;
	struct slot *slots = make_slots(n);
	if (!slots)
		return TAUT_ENOMEM;
	uint32_t mask = (uint32_t)(n - 1);
	for (uint32_t old = 0; old <= names->mask; old++) {
		if (names->slots[old].id == TAUT_NONE)
			continue;
		uint32_t i = names->slots[old].hash & mask;
		while (slots[i].id != TAUT_NONE)
			i = (i + 1) & mask;
		slots[i] = names->slots[old];
	}
	free(names->slots);
	names->slots = slots;
	names->mask = mask;
	return TAUT_OK;
}

static const char *keep_text(
	struct taut_names *names, const char *text, size_t len)
{
	if (len >= CHUNK_BYTES / 4)
		return taut_arena_strndup(names->arena, text, len);
	if (len + 1 > names->chunk_left) {
		char *chunk = taut_arena_alloc(names->arena, CHUNK_BYTES);
		if (!chunk)
			return NULL;
		names->chunk = chunk;
		names->chunk_left = CHUNK_BYTES;
	}
	char *copy = names->chunk;
	if (len)
		memcpy(copy, text, len);
	copy[len] = '\0';
	names->chunk += len + 1;
	names->chunk_left -= len + 1;
	return copy;
}

static uint32_t add_new(
	struct taut_names *names, uint32_t hash, const char *text, size_t len)
{
	size_t id = names->names.count;
	if (id >= INT32_MAX || !taut_vec_reserve(&names->names, 1))
		return TAUT_NONE;
	/* At most half full: a run of full slots stays short. */
	if (id >= names->mask / 2 && grow_slots(names) != TAUT_OK)
		return TAUT_NONE;
	const char *kept = keep_text(names, text, len);
	if (!kept)
		return TAUT_NONE;
	names->names.data[names->names.count++] = (struct name){ kept, len };
	struct slot *slot = find_slot(names, hash, text, len);
	*slot = (struct slot){ hash, (uint32_t)id };
	return (uint32_t)id;
}

uint32_t taut_names_add(struct taut_names *names, const char *text, size_t len)
{
	uint32_t hash = (uint32_t)(tauti_hash(text, len) >> 32);
	uint32_t id = find_slot(names, hash, text, len)->id;
	return id != TAUT_NONE ? id : add_new(names, hash, text, len);
}

uint32_t taut_names_find(
	const struct taut_names *names, const char *text, size_t len)
{
	uint32_t hash = (uint32_t)(tauti_hash(text, len) >> 32);
	return find_slot(names, hash, text, len)->id;
}

const char *taut_names_text(const struct taut_names *names, uint32_t id)
{
	return id < names->names.count ? names->names.data[id].text : "";
}

size_t taut_names_length(const struct taut_names *names, uint32_t id)
{
	return id < names->names.count ? names->names.data[id].len : 0;
}

uint32_t taut_names_count(const struct taut_names *names)
{
	return (uint32_t)names->names.count;
}
