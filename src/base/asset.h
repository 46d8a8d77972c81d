/* asset.h - files of web/, built into the binary by tools/embed.py.
 * Owner: static; lives as long as the process. Any thread may read. */
#ifndef TAUT_BASE_ASSET_H
#define TAUT_BASE_ASSET_H

#include <stddef.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

struct tauti_asset {
	const char *name; /* "report.html": without its folder */
	const char *text; /* zero-terminated, len bytes before the zero */
	size_t len;
};

/* Sorted by name; the entry after the last has name NULL. */
extern const struct tauti_asset tauti_assets[];

/* NULL when no file of that name was built in. */
const struct tauti_asset *tauti_asset_find(const char *name);

TAUT_END_DECLS
#endif /* TAUT_BASE_ASSET_H */
