/* tar.h - the samples of one archive, wherever its bytes are. */
#ifndef TAUT_LOAD_SOURCES_TAR_H
#define TAUT_LOAD_SOURCES_TAR_H

#include "load/set.h"
#include "load/sources/archive.h"

TAUT_BEGIN_DECLS

/* Appends the archive's samples, with their keys, to part. TAUT_EFORMAT, TAUT_EIO,
 * TAUT_ENOMEM: part holds a beginning of them and is to be freed. */
TAUT_NODISCARD taut_status tauti_tar_scan(struct tauti_archive_bytes *bytes,
	const char *extensions, struct tauti_part *part, struct taut_error *err);

TAUT_END_DECLS
#endif /* TAUT_LOAD_SOURCES_TAR_H */
