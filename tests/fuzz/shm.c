/* shm.c - a rank reads what another one of its host wrote into their memory, of
 * which nothing is believed. The input is what both do, RECORD_BYTES a time:
 *
 *     0  what: 'm' the other writes a message, 'r' this one asks for one, '+' for
 *        one to reduce, 'f' for both in one, 's' it sends one, 't' 'u' 'w' the
 *        other writes a word of its FIFO's reader, of its bell, of a slot's
 *        readers
 *     1  tag   2  off the right sequence   3  not used
 *     4  bytes, 8  slot, little-endian: of 'm'; the word's value, of 't' 'u' 'w',
 *     and how many slots were read, of 't' */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "coll/engines/shm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORD_BYTES = 12, MOST_RECORDS = 400, SLOTS = 4, SLOT_BYTES = 4096 };

struct record {
	uint8_t what, tag, off, unused;
	uint32_t bytes, slot;
};

struct operation {
	struct taut_coll_flat flat; /* first: of each kind, its request */
	unsigned char *memory; /* so that what is written behind it is found */
	int n_done;
};

static void end(struct taut_coll_request *request, taut_status status)
{
	struct operation *it = (struct operation *)request;

	(void)status;
	if (++it->n_done != 1)
		abort();
}

/* With pages around it that nobody may touch. */
static void *map(size_t bytes)
{
	unsigned char *at = mmap(NULL, bytes + 2 * TAUTI_SHM_PAGE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED || mprotect(at + TAUTI_SHM_PAGE, bytes,
			PROT_READ | PROT_WRITE) != 0)
		abort();
	return at + TAUTI_SHM_PAGE;
}

static void write_line(struct tauti_shm *it, const struct record *record)
{
	const struct tauti_shm_in *in = &it->peers[1].in;
	struct tauti_shm_line *line = tauti_shm_fifo(&it->map.layout,
		it->map.base, 1, 0) + in->at % TAUTI_SHM_FIFO_LINES;

	line->tag = record->tag;
	line->bytes = record->bytes;
	line->slot = record->slot;
	line->sequence = in->at + 1 + record->off;
}

static void write_word(struct tauti_shm *it, const struct record *record)
{
	const struct tauti_shm_layout *layout = &it->map.layout;

	if (record->what == 't') {
		struct tauti_shm_word *taken =
			tauti_shm_taken(layout, it->map.base, 1, 0);

		taken->value = record->bytes;
		taken->n_read = record->slot;
	}
	if (record->what == 'u')
		tauti_shm_bell(layout, it->map.base, 1)->full = record->bytes;
	if (record->what == 'w')
		it->readers[record->slot % SLOTS].value = record->bytes;
}

static void do_record(struct tauti_shm *it, const struct record *record,
	struct operation *operation)
{
	static const uint32_t other = 1;
	size_t bytes = record->bytes % (SLOT_BYTES + 1);
	taut_status status;

	switch (record->what) {
	case 'm':
		write_line(it, record);
		return;
	case 't':
	case 'u':
	case 'w':
		write_word(it, record);
		return;
	default:
		break;
	}
	operation->memory = calloc(1, bytes + 1);
	operation->flat = (struct taut_coll_flat){ .request.done = end,
		.tag = record->tag, .type = TAUT_FLOAT32,
		.into = operation->memory, .from = operation->memory,
		.count = bytes / 4 };
	if (!operation->memory)
		abort();
	if (record->what == 'f')
		status = tauti_shm_flat(it, &operation->flat, NULL);
	else if (record->what == 's')
		status = tauti_shm_send(it, &other, 1, record->tag,
			operation->memory, bytes, &operation->flat.request, NULL);
	else if (record->what == '+')
		status = tauti_shm_recv_reduce(it, 1, record->tag, TAUT_FLOAT32,
			TAUT_SUM, operation->memory, operation->memory,
			bytes / 4, &operation->flat.request, NULL);
	else
		status = tauti_shm_recv(it, 1, record->tag, operation->memory,
			bytes, &operation->flat.request, NULL);
	if (status != TAUT_OK && operation->n_done++ > 0)
		abort();
}

static void play(struct tauti_shm *it, const uint8_t *data, size_t n,
	struct operation *operations)
{
	struct taut_error err;

	for (size_t i = 0; i < n; i++) {
		struct record record;

		memcpy(&record, data + i * RECORD_BYTES, sizeof record);
		do_record(it, &record, &operations[i]);
		(void)tauti_shm_table.progress(it, &err);
		(void)tauti_shm_arrived(it, record.tag, UINT64_MAX);
	}
	(void)tauti_shm_table.wait(it, 0, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t rank_of[] = { 0, 1 };
	struct tauti_shm_map shared = {
		.layout = tauti_shm_lay(2, SLOTS, SLOT_BYTES) };
	struct operation *operations = calloc(MOST_RECORDS, sizeof *operations);
	size_t n = size / RECORD_BYTES;
	struct tauti_shm *it;
	unsigned char *guarded;

	n = n < MOST_RECORDS ? n : MOST_RECORDS;
	guarded = shared.base = map(shared.layout.total_bytes);
	if (!operations || tauti_shm_engine_create(&shared, 2, rank_of, &it,
			NULL) != TAUT_OK)
		abort();
	play(it, data, n, operations);
	tauti_shm_table.destroy(it);
	munmap(guarded - TAUTI_SHM_PAGE,
		shared.layout.total_bytes + 2 * TAUTI_SHM_PAGE);
	for (size_t i = 0; i < n; i++) {
		if (operations[i].memory && operations[i].n_done != 1)
			abort();
		free(operations[i].memory);
	}
	free(operations);
	return 0;
}
