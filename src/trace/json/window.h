/* window.h - a part of a JSON text in memory, with its tokens marked.
 *
 *     stream ---> [ dropped | begin ... span ... len ]
 *                             ^tokens are of this^
 *
 * The window holds at most what a reader has not dropped yet, so memory
 * follows the largest thing that must be seen whole, not the text. It grows
 * when that thing does not fit, by doubling, so that looking again at what
 * was there costs no more than reading it once.
 * Threads: one at a time. */
#ifndef TAUT_TRACE_JSON_WINDOW_H
#define TAUT_TRACE_JSON_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

struct tauti_stream;
struct tauti_index;

#define TAUTI_WINDOW_BYTES ((size_t)256 << 10)
#define TAUTI_WINDOW_MIN ((size_t)4 << 10)  /* span after a fault */
#define TAUTI_WINDOW_MAX ((size_t)16 << 20) /* nothing larger is held */
#define TAUTI_WINDOW_PAD ((size_t)64) /* zero bytes behind the text */

struct tauti_window {
	/* Tokens: text[at[i]] for i < n. at[n] and the next two point at a
	 * zero byte, so a reader that checks each token before the next
	 * needs no bounds. */
	const char *text;
	const uint32_t *at;
	uint32_t n;

	uint64_t offset; /* of text[0] in the whole text */
	size_t span;	 /* bytes of text that are marked */
	bool last;	 /* no bytes follow the span */

	/* Private. */
	struct tauti_stream *stream;
	struct tauti_index *index;
	char *buffer;
	size_t capacity, begin, len; /* text = buffer + begin */
	size_t want;		     /* span to mark next */
	size_t usual;		     /* and when nothing is the matter */
	bool ended;		     /* the stream */
};

/* The stream is the caller's and is at its start. usual: the bytes that the
 * window holds as long as they suffice; 0: TAUTI_WINDOW_BYTES. */
TAUT_NODISCARD taut_status tauti_window_init(struct tauti_window *window,
	struct tauti_stream *stream, size_t usual, struct taut_error *err);
void tauti_window_fini(struct tauti_window *window);

/* Drops text[0..used) and marks what follows. Where nothing was used, the
 * window grows: afterwards span is larger, or last is set.
 * TAUT_EFORMAT: something is larger than TAUTI_WINDOW_MAX, or what the
 * stream says. */
TAUT_NODISCARD taut_status tauti_window_next(
	struct tauti_window *window, size_t used, struct taut_error *err);

/* The same after a fault: marks little, and more again as it goes well. A
 * text made of faults costs no more than a constant a byte. */
TAUT_NODISCARD taut_status tauti_window_restart(
	struct tauti_window *window, size_t used, struct taut_error *err);

/* True when the span is as large as it may become. */
bool tauti_window_is_full(const struct tauti_window *window);

TAUT_END_DECLS
#endif /* TAUT_TRACE_JSON_WINDOW_H */
