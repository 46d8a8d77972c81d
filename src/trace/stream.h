/* stream.h - the bytes of one trace, inflated on the way when they are gzip.
 * Gzip is told by its magic bytes; several members in a row are one text. A
 * gzip file that ends early gives what is whole and says so. A byte order mark
 * before JSON is no part of the text.
 * Owner:   who opened it closes it. Memory given is borrowed until then.
 * Threads: one at a time. Reading may block on the file system. */
#ifndef TAUT_TRACE_STREAM_H
#define TAUT_TRACE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

struct tauti_meter;

TAUT_BEGIN_DECLS

struct tauti_stream;

/* path must outlive the stream. meter (may be NULL) is told of the bytes
 * taken from the file, before they are inflated. TAUT_EIO, TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_stream_open_file(const char *path,
	struct tauti_meter *meter, struct tauti_stream **ret_stream,
	struct taut_error *err);
TAUT_NODISCARD taut_status tauti_stream_open_memory(const char *name,
	const void *bytes, size_t len, struct tauti_stream **ret_stream,
	struct taut_error *err);
void tauti_stream_close(struct tauti_stream *stream); /* NULL is fine */

/* Fills to with up to room bytes. *ret_len is less than room only at the
 * end. TAUT_EIO; TAUT_EFORMAT: the gzip bytes are corrupt. */
TAUT_NODISCARD taut_status tauti_stream_read(struct tauti_stream *stream,
	char *to, size_t room, size_t *ret_len, struct taut_error *err);

/* The first bytes, left in place for the first read. *ret_head is the
 * stream's; *ret_len is 0 only for an empty input. */
TAUT_NODISCARD taut_status tauti_stream_peek(struct tauti_stream *stream,
	const char **ret_head, size_t *ret_len, struct taut_error *err);

/* The path, for a reader that opens the file itself, after which the stream
 * counts as taken whole. NULL: memory, gzip or no plain file; read it here. */
const char *tauti_stream_hand_over(struct tauti_stream *stream);
/* Back to the start, for a format that must look twice. TAUT_EIO: the input
 * is no file (a pipe) and cannot be read again. */
TAUT_NODISCARD taut_status tauti_stream_rewind(
	struct tauti_stream *stream, struct taut_error *err);

const char *tauti_stream_name(const struct tauti_stream *stream);
bool tauti_stream_is_gzip(const struct tauti_stream *stream);
/* The gzip input ended inside a member. */
bool tauti_stream_is_cut(const struct tauti_stream *stream);
/* Bytes behind the last member that are not gzip were left out. */
bool tauti_stream_has_tail(const struct tauti_stream *stream);
/* Bytes taken from the file or memory, before they are inflated. */
uint64_t tauti_stream_taken(const struct tauti_stream *stream);

TAUT_END_DECLS
#endif /* TAUT_TRACE_STREAM_H */
