/* text.h - a file of somebody else, whole, up to a limit.
 * Owner: ret_text is the caller's, to be freed. */
#ifndef TAUT_STALLS_TEXT_H
#define TAUT_STALLS_TEXT_H

#include <taut/base.h>

/* *ret_bytes == limit: there may be more. TAUT_EIO, TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_text_read(const char *path, size_t limit,
	char **ret_text, size_t *ret_bytes, struct taut_error *reterr);

#endif /* TAUT_STALLS_TEXT_H */
