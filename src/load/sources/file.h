/* file.h - a whole file into memory of an arena. */
#ifndef TAUT_LOAD_SOURCES_FILE_H
#define TAUT_LOAD_SOURCES_FILE_H

#include <stddef.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

/* Aligned for any type, with a zero behind it. TAUT_EIO: also when it becomes shorter
 * while it is read. TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_file_read(const char *path, struct taut_arena *arena,
	char **ret_bytes, size_t *ret_size, struct taut_error *err);

TAUT_END_DECLS
#endif /* TAUT_LOAD_SOURCES_FILE_H */
