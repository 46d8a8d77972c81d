/* null.c - no storage: bytes are made up at once. For tests, and to measure all the rest. */
#include "load/store.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct null {
	atomic_bool is_stopped;
};

static taut_status create(const struct tauti_store_options *options,
	void **ret_store, struct taut_error *err)
{
	struct null *null = calloc(1, sizeof *null);

	(void)options;
	if (!null)
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a store");
	*ret_store = null;
	return TAUT_OK;
}

/* Bytes of the word at `at` of a file, from its byte `first` on. */
static size_t put_part(unsigned char *into, uint64_t file, uint64_t at, size_t most)
{
	uint64_t word = tauti_store_word(file, at / 8);
	size_t first = at % 8, n = 8 - first;

	if (n > most)
		n = most;
	for (size_t i = 0; i < n; i++)
		into[i] = (unsigned char)(word >> 8 * (first + i));
	return n;
}

static void fill(struct tauti_store_read *read)
{
	unsigned char *into = read->into;
	uint64_t at = read->offset, left = read->bytes;
	size_t n = left && at % 8 ? put_part(into, read->file, at, left) : 0;

	for (into += n, at += n, left -= n; left >= 8;
		into += 8, at += 8, left -= 8) {
		uint64_t word = tauti_store_word(read->file, at / 8);

		memcpy(into, &word, 8);
	}
	if (left)
		put_part(into, read->file, at, left);
}

static void begin(void *store, struct tauti_store_read *reads)
{
	struct null *null = store;

	while (reads) {
		struct tauti_store_read *read = reads;
		bool is_stopped = atomic_load(&null->is_stopped);

		reads = read->next;
		if (!is_stopped)
			fill(read);
		read->done(read,
			is_stopped ? tauti_store_stopped(read) : TAUT_OK);
	}
}

static void stop(void *store)
{
	struct null *null = store;

	atomic_store(&null->is_stopped, true);
}

const struct tauti_store_table tauti_store_null = {
	.name = "null",
	.create = create,
	.begin = begin,
	.stop = stop,
	.destroy = free,
};
