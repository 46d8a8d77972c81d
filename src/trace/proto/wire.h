/* wire.h - the protobuf wire format: fields in memory, and fields of messages
 * that are larger than memory should be.
 *
 * A message is a row of fields; a field is a varint tag (number << 3 | type)
 * and a value. Nothing more is needed to read one, and a message of hundreds
 * of megabytes can be walked without ever being held.
 *
 *     struct tauti_wire w = tauti_wire_of(bytes, len);
 *     struct tauti_field f;
 *     while (tauti_wire_next(&w, &f))
 *             if (f.number == 3 && f.type == TAUTI_WIRE_BYTES)
 *                     use(f.bytes, f.value);
 *     if (w.broken)
 *             ...
 *
 * Threads: one at a time. */
#ifndef TAUT_TRACE_PROTO_WIRE_H
#define TAUT_TRACE_PROTO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

enum tauti_wire_type {
	TAUTI_WIRE_VARINT = 0,
	TAUTI_WIRE_FIXED64 = 1,
	TAUTI_WIRE_BYTES = 2, /* text, message, packed numbers */
	TAUTI_WIRE_FIXED32 = 5,
};

struct tauti_field {
	uint32_t number; /* 1 and up */
	enum tauti_wire_type type;
	uint64_t value; /* as it stands; of BYTES: their length */
	const uint8_t *bytes; /* BYTES in memory: where they are */
};

/* --- in memory ------------------------------------------------------------ */

struct tauti_wire {
	const uint8_t *at, *end;
	bool broken; /* a field is no field, or ends behind the end */
};

static inline struct tauti_wire tauti_wire_of(const void *bytes, size_t len)
{
	const uint8_t *at = (const uint8_t *)bytes;
	return (struct tauti_wire){ at, at + len, false };
}

/* The next field; false: at the end, or broken. Where it is broken, `at`
 * stays at the field that is. */
bool tauti_wire_next(struct tauti_wire *wire, struct tauti_field *ret_field);

/* The next bare varint, as packed numbers and length prefixes are. */
bool tauti_wire_varint(struct tauti_wire *wire, uint64_t *ret_value);

/* The message in a field of BYTES, in memory. */
static inline struct tauti_wire tauti_wire_in(const struct tauti_field *field)
{
	return tauti_wire_of(field->bytes, (size_t)field->value);
}

static inline int64_t tauti_wire_zigzag(uint64_t value) /* sint32, sint64 */
{
	return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static inline double tauti_wire_double(uint64_t value) /* of a FIXED64 */
{
	double number;
	memcpy(&number, &value, sizeof number);
	return number;
}

/* --- from a stream --------------------------------------------------------
 * The feed holds a piece of the stream; it grows, by doubling, for what must
 * be seen whole. */
struct tauti_stream;

#define TAUTI_FEED_BYTES ((size_t)256 << 10)
#define TAUTI_FEED_MAX ((size_t)16 << 20) /* nothing larger is held */

struct tauti_feed {
	const uint8_t *at; /* the next bytes */
	size_t held;	   /* so many of them are here */
	uint64_t offset;   /* of at[0] in the stream */
	bool ended;	   /* no bytes follow those that are held */

	/* Private. */
	struct tauti_stream *stream;
	uint8_t *buffer;
	size_t capacity;
};

/* The stream is the caller's. usual: the bytes that are held as long as they
 * suffice; 0: TAUTI_FEED_BYTES. */
TAUT_NODISCARD taut_status tauti_feed_init(struct tauti_feed *feed,
	struct tauti_stream *stream, size_t usual, struct taut_error *err);
void tauti_feed_fini(struct tauti_feed *feed);

/* Makes held >= n, unless the stream ends before.
 * TAUT_EFORMAT: n is above TAUTI_FEED_MAX, or what the stream says. */
TAUT_NODISCARD taut_status tauti_feed_want(
	struct tauti_feed *feed, size_t n, struct taut_error *err);

/* Back to the start of the stream; as tauti_stream_rewind(). */
TAUT_NODISCARD taut_status tauti_feed_rewind(
	struct tauti_feed *feed, struct taut_error *err);

static inline void tauti_feed_take(struct tauti_feed *feed, size_t n)
{
	feed->at += n;
	feed->held -= n;
	feed->offset += n;
}

/* Passes n bytes, or as many as there are: look at offset afterwards. */
TAUT_NODISCARD taut_status tauti_feed_skip(
	struct tauti_feed *feed, uint64_t n, struct taut_error *err);

enum tauti_feed_result {
	TAUTI_FEED_FIELD,
	TAUTI_FEED_END,	   /* the message ends here, as it should */
	TAUTI_FEED_CUT,	   /* the stream ends inside the field */
	TAUTI_FEED_BROKEN, /* no field, or it ends behind the message */
};

/* The next field of a message that ends at offset `end` (UINT64_MAX: with the
 * stream). Of BYTES only the head is taken: value bytes follow in the feed.
 * A field that is cut or broken is left in place. */
TAUT_NODISCARD taut_status tauti_feed_field(struct tauti_feed *feed,
	uint64_t end, struct tauti_field *ret_field,
	enum tauti_feed_result *ret_result, struct taut_error *err);

TAUT_END_DECLS
#endif /* TAUT_TRACE_PROTO_WIRE_H */
