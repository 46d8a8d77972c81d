/* staging.c - messages that do not go from where the gradients lie: those of several
 * tasks, copied together, and those that are narrowed for the wire.
 *
 * What is read from a gradient on the way in is multiplied, and narrowed, in the same
 * pass. So float32 is multiplied before it is rounded, and what is summed is what was
 * rounded once. Blocks of numbers that share a scale are counted from each task's begin,
 * so that they are the same however it is cut. */
#include "sync/sync.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* --- memory --------------------------------------------------------------------------
 * A message takes the smallest that it fits into, and none that is more than twice as
 * long: whole gradients of all sizes are under way, and no small one may keep the
 * memory of a large one. What is under way so takes at most twice its bytes. */

enum { SPARE = 64 << 10 }; /* that does not matter */

struct tauti_staging {
	struct tauti_staging *next;
	size_t bytes;
	alignas(max_align_t) char data[];
};

static struct tauti_staging *unlink_staging(struct tauti_staging **at)
{
	struct tauti_staging *it = *at;

	*at = it->next;
	return it;
}

/* One that is too small goes for each that is made: limits may have grown. */
static void free_largest_below(struct taut_sync *sync, size_t bytes)
{
	struct tauti_staging **at = &sync->staging, **found = NULL;

	for (; *at; at = &(*at)->next)
		if ((*at)->bytes < bytes &&
			(!found || (*at)->bytes > (*found)->bytes))
			found = at;
	if (found)
		free(unlink_staging(found));
}

static struct tauti_staging *take(struct taut_sync *sync, size_t bytes)
{
	struct tauti_staging **at = &sync->staging, **found = NULL, *made;

	for (; *at; at = &(*at)->next)
		if ((*at)->bytes >= bytes &&
			(*at)->bytes / 2 <= bytes + SPARE &&
			(!found || (*at)->bytes < (*found)->bytes))
			found = at;
	if (found)
		return unlink_staging(found);
	free_largest_below(sync, bytes);
	made = malloc(sizeof *made + bytes);
	if (made)
		made->bytes = bytes;
	return made;
}

void tauti_staging_give_back(
	struct taut_sync *sync, struct tauti_message *message)
{
	struct tauti_staging *staging = message->staging;

	message->staging = NULL;
	if (!staging)
		return;
	staging->next = sync->staging;
	sync->staging = staging;
}

void tauti_staging_free_all(struct taut_sync *sync)
{
	while (sync->staging)
		free(unlink_staging(&sync->staging));
}

void *tauti_staging_data(const struct tauti_message *message)
{
	return message->staging->data;
}

/* --- where things are ----------------------------------------------------------------*/

/* Elements of a part that are in each block at most. */
static uint64_t slot_of(const struct tauti_message *message, size_t i)
{
	uint64_t count = tauti_message_count(message, i);

	return (count + message->n_blocks - 1) / message->n_blocks;
}

bool tauti_staging_reserve(struct tauti_message *message)
{
	message->block_count = 0;
	for (size_t i = 0; i < message->n; i++)
		message->block_count += slot_of(message, i);
	message->staging = take(message->sync,
		message->n_blocks * message->block_count *
		taut_type_bytes(message->wire));
	return message->staging != NULL;
}

static char *block_of(const struct tauti_message *message, uint32_t block)
{
	return message->staging->data + block * message->block_count *
		taut_type_bytes(message->wire);
}

/* Of part i, what belongs to a block. */
struct span {
	uint64_t length;  /* elements on the wire */
	uint64_t numbers; /* in them */
	char *data;
};

static struct span find_block(
	const struct tauti_message *message, size_t i, uint32_t block)
{
	uint64_t all = tauti_message_numbers(message, i), length;
	uint64_t each = taut_type_numbers(message->wire);
	uint64_t first = each * taut_coll_block(tauti_message_count(message, i),
		message->n_blocks, block, &length);

	first = first < all ? first : all; /* an empty one, behind the last number */
	return (struct span){ length,
		all - first < each * length ? all - first : each * length,
		tauti_message_data(message, i) +
			first * taut_type_bytes(message->type) };
}

/* --- in and out ------------------------------------------------------------------------*/

static void put(const struct tauti_message *message, void *to,
	const struct span *from, double factor)
{
	if (message->wire == message->type)
		tauti_sync_scale(message->type, to, from->data, from->numbers,
			factor);
	else
		taut_narrow(message->wire, to, from->data, from->numbers,
			factor == 0 ? 1 : (float)factor);
}

static void get(const struct tauti_message *message, const struct span *to,
	const void *from)
{
	if (message->wire == message->type)
		memcpy(to->data, from,
			to->numbers * taut_type_bytes(message->type));
	else
		taut_widen(message->wire, to->data, from, to->numbers);
}

static void gather_block(const struct tauti_message *message, uint32_t block)
{
	size_t size = taut_type_bytes(message->wire);
	char *at = block_of(message, block);

	for (size_t i = 0; i < message->n; i++) {
		uint64_t slot = slot_of(message, i);
		struct span from = find_block(message, i, block);

		put(message, at, &from, tauti_message_factor(message, i));
		memset(at + from.length * size, 0, (slot - from.length) * size);
		at += slot * size;
	}
}

static void scatter_block(const struct tauti_message *message, uint32_t block)
{
	size_t size = taut_type_bytes(message->wire);
	const char *at = block_of(message, block);

	for (size_t i = 0; i < message->n; i++) {
		struct span to = find_block(message, i, block);

		get(message, &to, at);
		at += slot_of(message, i) * size;
	}
}

/* A reduce-scatter reads all blocks and leaves this rank's; an all-gather the other
 * way round. A rank's own block of that was widened before: narrowing it again is
 * exact, so that all ranks end with the same bits. */
void tauti_staging_gather(const struct tauti_message *message)
{
	uint32_t rank = message->sync->rank;

	if (message->verb == TAUT_ALLGATHER)
		gather_block(message, rank);
	else
		for (uint32_t i = 0; i < message->n_blocks; i++)
			gather_block(message, i);
}

void tauti_staging_scatter(const struct tauti_message *message)
{
	uint32_t rank = message->sync->rank;

	if (message->verb == TAUT_REDUCE_SCATTER)
		scatter_block(message, rank);
	else
		for (uint32_t i = 0; i < message->n_blocks; i++)
			if (message->verb != TAUT_ALLGATHER || i != rank)
				scatter_block(message, i);
}
