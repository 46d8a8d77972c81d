/* archive.h - the members of a tar archive, one after the other: of what names, and where
 * their bytes lie. Of an archive nothing is believed.
 *
 * Read: POSIX ustar, the old form before it, GNU's long names and large sizes, pax. What a
 * member says of owners, times and links is skipped, as are members that are no files.
 * Threads: an archive belongs to one. */
#ifndef TAUT_LOAD_SOURCES_ARCHIVE_H
#define TAUT_LOAD_SOURCES_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

#include "base/vec.h"

TAUT_BEGIN_DECLS

enum { TAUTI_ARCHIVE_BLOCK = 512, TAUTI_ARCHIVE_WINDOW = 4096 };

/* Bytes of a file, or of memory, wherever they are asked for. */
struct tauti_archive_bytes {
	const char *path; /* for faults */
	uint64_t size;
	const unsigned char *memory; /* NULL: of fd */
	int fd;
	uint64_t at; /* what window holds */
	size_t n;
	unsigned char window[TAUTI_ARCHIVE_WINDOW];
};

struct tauti_archive {
	struct tauti_archive_bytes *bytes;
	uint64_t next; /* the next header */
	/* What members said of the one that follows them. */
	TAUT_VEC(char) name; /* with its zero; empty: nothing */
	bool has_size, is_sparse;
	uint64_t size;
};

struct tauti_member {
	const char *name; /* of the archive, until the next call; with a zero */
	size_t name_len;
	uint64_t at;      /* its header */
	uint64_t offset, bytes;
};

/* n <= TAUTI_ARCHIVE_WINDOW bytes at offset, all within size; valid until the next call.
 * TAUT_EIO: the file cannot be read, or has become shorter. */
TAUT_NODISCARD taut_status tauti_archive_read(struct tauti_archive_bytes *bytes,
	uint64_t offset, size_t n, const unsigned char **ret_at, struct taut_error *err);

/* Of bytes that the caller keeps. */
void tauti_archive_init(
	struct tauti_archive *archive, struct tauti_archive_bytes *bytes);
void tauti_archive_fini(struct tauti_archive *archive);

/* The next member that is a file; *ret_end: there is none. TAUT_EFORMAT: what is there is
 * no archive, damaged, cut short or sparse; err says at which byte. TAUT_EIO,
 * TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_archive_next(struct tauti_archive *archive,
	struct tauti_member *ret_member, bool *ret_end, struct taut_error *err);

/* Could these first bytes be a header? n is at least a block, or the answer is no. */
bool tauti_archive_is_header(const unsigned char *block, size_t n);

TAUT_END_DECLS
#endif /* TAUT_LOAD_SOURCES_ARCHIVE_H */
