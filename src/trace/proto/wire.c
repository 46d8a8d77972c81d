/* wire.c - varints, tags, lengths; each checked against its end. */
#include "trace/proto/wire.h"

#include <stdlib.h>

#include "trace/stream.h"

enum {
	VARINT_MAX = 10, /* bytes of 64 bits, seven each */
	HEAD_MAX = 2 * VARINT_MAX, /* bytes before the value of BYTES */
};

/* A varint of at most 64 bits; NULL: it has no end, or too many bits. */
static const uint8_t *read_varint(
	const uint8_t *at, const uint8_t *end, uint64_t *ret_value)
{
	uint64_t value = 0;
	for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
		uint8_t byte = *at++;
		if (shift == 63 && byte > 1)
			return NULL;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret_value = value;
			return at;
		}
	}
	return NULL;
}

static const uint8_t *read_fixed(const uint8_t *at, const uint8_t *end,
	unsigned size, uint64_t *ret_value)
{
	if ((size_t)(end - at) < size)
		return NULL;
	uint64_t value = 0;
	for (unsigned i = 0; i < size; i++)
		value |= (uint64_t)at[i] << (8 * i);
	*ret_value = value;
	return at + size;
}

/* All of a field but the content of BYTES. */
static const uint8_t *read_head(
	const uint8_t *at, const uint8_t *end, struct tauti_field *field)
{
	uint64_t tag;
	at = read_varint(at, end, &tag);
	if (!at || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
		return NULL;
	field->number = (uint32_t)(tag >> 3);
	field->type = (enum tauti_wire_type)(tag & 7);
	field->bytes = NULL;
	switch (field->type) {
	case TAUTI_WIRE_VARINT:
	case TAUTI_WIRE_BYTES:
		return read_varint(at, end, &field->value);
	case TAUTI_WIRE_FIXED64:
		return read_fixed(at, end, 8, &field->value);
	case TAUTI_WIRE_FIXED32:
		return read_fixed(at, end, 4, &field->value);
	default: /* groups, of which nobody has written any for 15 years */
		return NULL;
	}
}

bool tauti_wire_next(struct tauti_wire *w, struct tauti_field *field)
{
	if (w->broken || w->at >= w->end)
		return false;
	const uint8_t *at = read_head(w->at, w->end, field);
	if (!at || (field->type == TAUTI_WIRE_BYTES &&
			   field->value > (uint64_t)(w->end - at))) {
		w->broken = true;
		return false;
	}
	if (field->type == TAUTI_WIRE_BYTES) {
		field->bytes = at;
		at += field->value;
	}
	w->at = at;
	return true;
}

bool tauti_wire_varint(struct tauti_wire *w, uint64_t *ret_value)
{
	if (w->broken || w->at >= w->end)
		return false;
	const uint8_t *at = read_varint(w->at, w->end, ret_value);
	if (!at) {
		w->broken = true;
		return false;
	}
	w->at = at;
	return true;
}

/* --- from a stream -------------------------------------------------------- */

static taut_status no_memory(struct tauti_feed *f, struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, (int64_t)f->offset,
		"%s: no memory to hold byte %llu and what follows",
		tauti_stream_name(f->stream), (unsigned long long)f->offset);
}

taut_status tauti_feed_init(struct tauti_feed *f, struct tauti_stream *stream,
	size_t usual, struct taut_error *err)
{
	memset(f, 0, sizeof *f);
	f->stream = stream;
	f->capacity = usual ? usual : TAUTI_FEED_BYTES;
	f->buffer = malloc(f->capacity);
	f->at = f->buffer;
	return f->buffer ? TAUT_OK : no_memory(f, err);
}

void tauti_feed_fini(struct tauti_feed *f)
{
	free(f->buffer);
	f->buffer = NULL;
	f->at = NULL;
	f->held = 0;
}

taut_status tauti_feed_rewind(struct tauti_feed *f, struct taut_error *err)
{
	f->at = f->buffer;
	f->held = 0;
	f->offset = 0;
	f->ended = false;
	return tauti_stream_rewind(f->stream, err);
}

static taut_status grow(struct tauti_feed *f, size_t n, struct taut_error *err)
{
	size_t capacity = f->capacity;
	if (n > TAUTI_FEED_MAX)
		return taut_error_set(err, TAUT_EFORMAT, (int64_t)f->offset,
			"%s: byte %llu: one message is larger than %zu MiB",
			tauti_stream_name(f->stream),
			(unsigned long long)f->offset, TAUTI_FEED_MAX >> 20);
	while (capacity < n)
		capacity *= 2;
	uint8_t *buffer = realloc(f->buffer, capacity);
	if (!buffer)
		return no_memory(f, err);
	f->buffer = buffer;
	f->capacity = capacity;
	return TAUT_OK;
}

taut_status tauti_feed_want(
	struct tauti_feed *f, size_t n, struct taut_error *err)
{
	if (f->held >= n || f->ended)
		return TAUT_OK;
	if (f->held)
		memmove(f->buffer, f->at, f->held);
	f->at = f->buffer;
	if (n > f->capacity) {
		taut_status status = grow(f, n, err);
		f->at = f->buffer;
		if (status != TAUT_OK)
			return status;
	}
	size_t got = 0, room = f->capacity - f->held;
	taut_status status = tauti_stream_read(f->stream,
		(char *)f->buffer + f->held, room, &got, err);
	if (status != TAUT_OK)
		return status;
	f->held += got;
	f->ended = got < room;
	return TAUT_OK;
}

taut_status tauti_feed_skip(
	struct tauti_feed *f, uint64_t n, struct taut_error *err)
{
	while (n) {
		taut_status status = tauti_feed_want(f, 1, err);
		if (status != TAUT_OK || !f->held)
			return status;
		size_t part = n < f->held ? (size_t)n : f->held;
		tauti_feed_take(f, part);
		n -= part;
	}
	return TAUT_OK;
}

taut_status tauti_feed_field(struct tauti_feed *f, uint64_t end,
	struct tauti_field *field, enum tauti_feed_result *ret_result,
	struct taut_error *err)
{
	*ret_result = TAUTI_FEED_END;
	if (f->offset >= end)
		return TAUT_OK;
	taut_status status = tauti_feed_want(f, HEAD_MAX, err);
	if (status != TAUT_OK)
		return status;
	if (!f->held) {
		if (end != UINT64_MAX)
			*ret_result = TAUTI_FEED_CUT;
		return TAUT_OK;
	}
	uint64_t room = end - f->offset;
	size_t seen = room < f->held ? (size_t)room : f->held;
	const uint8_t *at = read_head(f->at, f->at + seen, field);
	*ret_result = TAUTI_FEED_BROKEN;
	if (!at) {
		if (seen < HEAD_MAX && seen < room)
			*ret_result = TAUTI_FEED_CUT;
		return TAUT_OK;
	}
	size_t head = (size_t)(at - f->at);
	if (field->type == TAUTI_WIRE_BYTES && field->value > room - head)
		return TAUT_OK;
	*ret_result = TAUTI_FEED_FIELD;
	tauti_feed_take(f, head);
	return TAUT_OK;
}
