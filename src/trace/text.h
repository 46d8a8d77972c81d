/* text.h - names from raw bytes (a protobuf's strings): one line of UTF-8.
 * Control bytes become spaces, a zero and bytes that are no UTF-8 U+FFFD.
 * Threads: one at a time for one table of names. */
#ifndef TAUT_TRACE_TEXT_H
#define TAUT_TRACE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

/* Bytes above this length are left out of a name. */
#define TAUTI_TEXT_MAX ((size_t)4096)

/* The id of the text that bytes[0..len) stand for; TAUT_NONE: no memory. */
TAUT_NODISCARD uint32_t tauti_text_name(
	struct taut_names *names, const void *bytes, size_t len);

TAUT_END_DECLS
#endif /* TAUT_TRACE_TEXT_H */
