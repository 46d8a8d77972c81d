/* shm_fifo.c - a FIFO of lines between two ranks: one writes, one reads. */
#include "coll/engines/shm.h"

#include <string.h>

static uint32_t lines_of(uint32_t bytes)
{
	return (bytes + TAUTI_SHM_HEAD_BYTES + TAUTI_SHM_LINE - 1) /
		TAUTI_SHM_LINE;
}

/* Lines that a message takes: itself, and what is skipped when it would go over
 * the end. */
static uint32_t skipped(uint64_t sent, uint32_t lines)
{
	uint32_t at = sent % TAUTI_SHM_FIFO_LINES;

	return at + lines > TAUTI_SHM_FIFO_LINES ? TAUTI_SHM_FIFO_LINES - at : 0;
}

bool tauti_shm_room(struct tauti_shm_out *out, uint32_t bytes)
{
	uint32_t lines = lines_of(bytes);
	/* and the line after it, whose sequence may be cleared */
	uint64_t end = out->sent + skipped(out->sent, lines) + lines + 1;
	uint64_t taken;

	if (end - out->seen_taken <= TAUTI_SHM_FIFO_LINES)
		return true;
	taken = atomic_load_explicit(&out->taken->value, memory_order_acquire);
	if (out->sent - taken > TAUTI_SHM_FIFO_LINES) {
		out->mad = true;
		return false;
	}
	out->seen_taken = taken;
	return end - taken <= TAUTI_SHM_FIFO_LINES;
}

static struct tauti_shm_line *line_at(
	const struct tauti_shm_out *out, uint64_t number)
{
	return &out->lines[number % TAUTI_SHM_FIFO_LINES];
}

/* --- writing ---------------------------------------------------------------------------*/

static uint64_t bit_of(uint64_t number)
{
	return UINT64_C(1) << number % 64;
}

static uint64_t *word_of(struct tauti_shm_out *out, uint64_t number)
{
	return &out->payload[number % TAUTI_SHM_FIFO_LINES / 64];
}

/* The reader looks at the line behind a message. What stands there must not be
 * taken for one: where it is payload, it is cleared. The number of an earlier
 * message may stay: so a message of one line is written to that line alone, and in
 * one go, between two looks of the reader at it. */
static void clear_behind(struct tauti_shm_out *out, uint32_t lines)
{
	uint64_t next = out->sent + lines, *word = word_of(out, next);

	if (!(*word & bit_of(next)))
		return;
	*word &= ~bit_of(next);
	atomic_store_explicit(&line_at(out, next)->sequence, 0,
		memory_order_relaxed);
}

/* A message has fewer lines than a word has bits, and ends before the FIFO does. */
static void note_payload(struct tauti_shm_out *out, uint32_t lines)
{
	uint64_t bits = (UINT64_C(1) << (lines - 1)) - 1;
	uint64_t *word = word_of(out, out->sent + 1);
	uint32_t at = (out->sent + 1) % 64;

	if (lines == 1)
		return;
	word[0] |= bits << at;
	if (at + lines - 1 > 64)
		word[1] |= bits >> (64 - at);
}

static void publish(struct tauti_shm_out *out, struct tauti_shm_line *line,
	uint32_t lines)
{
	uint64_t number = out->sent;

	out->sent += lines;
	atomic_store_explicit(&line->sequence, number + 1, memory_order_release);
}

static void skip(struct tauti_shm_out *out, uint32_t lines)
{
	struct tauti_shm_line *line = line_at(out, out->sent);

	clear_behind(out, lines);
	atomic_store_explicit(&line->slot, TAUTI_SHM_SKIP, memory_order_relaxed);
	publish(out, line, lines);
}

/* The reader looks at the first line again and again. What is written to it before
 * the others is taken away meanwhile, and has to be fetched once more. */
static void copy_in(struct tauti_shm_line *line, const void *data, uint32_t bytes)
{
	const uint32_t first = sizeof line->payload;

	if (bytes > first) {
		memcpy(line + 1, (const char *)data + first, bytes - first);
		atomic_signal_fence(memory_order_seq_cst);
	}
	if (bytes > 0)
		memcpy(line->payload, data, bytes < first ? bytes : first);
}

void tauti_shm_put(struct tauti_shm_out *out, uint64_t tag, uint32_t bytes,
	uint32_t slot, const void *data)
{
	uint32_t lines = slot == TAUTI_SHM_INLINE ? lines_of(bytes) : 1;
	uint32_t before = skipped(out->sent, lines);
	struct tauti_shm_line *line;

	if (before > 0)
		skip(out, before);
	clear_behind(out, lines);
	note_payload(out, lines);
	line = line_at(out, out->sent);
	if (slot == TAUTI_SHM_INLINE)
		copy_in(line, data, bytes);
	atomic_store_explicit(&line->tag, tag, memory_order_relaxed);
	atomic_store_explicit(&line->bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&line->slot, slot, memory_order_relaxed);
	publish(out, line, lines);
}

/* The line was published. */
static bool make_sense(const struct tauti_shm_layout *layout, uint32_t at,
	struct tauti_shm_message *message)
{
	if (message->slot != TAUTI_SHM_INLINE) {
		message->lines = 1;
		return message->slot < layout->n_slots &&
			message->bytes <= layout->slot_bytes;
	}
	if (message->bytes > TAUTI_SHM_SHORT_BYTES)
		return false;
	message->lines = lines_of(message->bytes);
	return at + message->lines <= TAUTI_SHM_FIFO_LINES;
}

enum tauti_shm_seen tauti_shm_look(struct tauti_shm_in *in,
	const struct tauti_shm_layout *layout,
	struct tauti_shm_message *ret_message)
{
	for (;;) {
		uint32_t at = in->at % TAUTI_SHM_FIFO_LINES;
		const struct tauti_shm_line *line = &in->lines[at];
		uint64_t sequence = atomic_load_explicit(
			&line->sequence, memory_order_acquire);

		if (tauti_shm_is_old(sequence, in->at))
			return TAUTI_SHM_NOTHING;
		ret_message->slot = atomic_load_explicit(
			&line->slot, memory_order_relaxed);
		if (sequence != in->at + 1 ||
			(ret_message->slot == TAUTI_SHM_SKIP && at == 0))
			return TAUTI_SHM_NONSENSE;
		if (ret_message->slot == TAUTI_SHM_SKIP) {
			in->at += TAUTI_SHM_FIFO_LINES - at;
			continue;
		}
		ret_message->tag = atomic_load_explicit(
			&line->tag, memory_order_relaxed);
		ret_message->bytes = atomic_load_explicit(
			&line->bytes, memory_order_relaxed);
		ret_message->payload =
			(const unsigned char *)line + TAUTI_SHM_HEAD_BYTES;
		return make_sense(layout, at, ret_message) ?
			TAUTI_SHM_MESSAGE : TAUTI_SHM_NONSENSE;
	}
}

/* Told now and then: each time costs the sender a line of its cache. */
bool tauti_shm_take(struct tauti_shm_in *in, uint32_t lines)
{
	in->at += lines;
	if (in->at - in->told < TAUTI_SHM_FIFO_LINES / 4)
		return false;
	in->told = in->at;
	atomic_store_explicit(&in->taken->value, in->at, memory_order_release);
	return true;
}
