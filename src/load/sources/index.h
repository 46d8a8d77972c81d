/* index.h - the file that a set was written to, so that nothing need be scanned.
 *
 *   header     128 bytes, below
 *   texts      root, classes, folders, names of files, keys: each text with its zero
 *   columns    folder of file, size of file, offset, file, bytes, label of item
 *   checksum   8 bytes: CRC-64/XZ of all before them
 *
 * Each of these begins at a multiple of 8 bytes; what lies between is zero. All numbers
 * are little-endian. Of a set of whole files (whole != 0) keys and the columns size of
 * file, offset and file are empty. root is "" or relative: below the folder of the index. */
#ifndef TAUT_LOAD_SOURCES_INDEX_H
#define TAUT_LOAD_SOURCES_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "load/set.h"

TAUT_BEGIN_DECLS

#define TAUTI_INDEX_MAGIC "TAUTSET\n" /* 8 bytes, no zero */
enum { TAUTI_INDEX_VERSION = 1 };

struct tauti_index_header {
	char magic[8];
	uint32_t version, header_bytes;
	uint64_t index_bytes; /* of the whole file */
	uint64_t root_bytes, classes_bytes, folders_bytes, names_bytes, keys_bytes;
	uint64_t n_items;
	uint32_t n_files, n_folders, n_classes, whole;
	unsigned char unused[40]; /* zero */
};

_Static_assert(sizeof(struct tauti_index_header) == 128, "as the format has it");

enum tauti_index_part {
	TAUTI_INDEX_ROOT,
	TAUTI_INDEX_CLASSES,
	TAUTI_INDEX_FOLDERS,
	TAUTI_INDEX_NAMES,
	TAUTI_INDEX_KEYS,
	TAUTI_INDEX_FOLDER_OF,
	TAUTI_INDEX_FILE_BYTES,
	TAUTI_INDEX_OFFSET,
	TAUTI_INDEX_FILE,
	TAUTI_INDEX_BYTES,
	TAUTI_INDEX_LABEL,
	TAUTI_INDEX_PARTS,
};

/* Where each part begins, and its bytes; the end, where the checksum is. */
struct tauti_index_layout {
	uint64_t at[TAUTI_INDEX_PARTS + 1], bytes[TAUTI_INDEX_PARTS];
};

/* False: the header's counts are more than any file holds. */
bool tauti_index_lay(const struct tauti_index_header *header,
	struct tauti_index_layout *ret_layout);

/* CRC-64/XZ; of nothing it is 0, and of what follows it goes on with `before`. */
uint64_t tauti_index_sum(uint64_t before, const void *bytes, size_t n);

/* Fills the set by an index in memory, aligned to 8 bytes, which the set borrows; path is
 * for faults, folder is where root is relative to. Nothing is believed, but that the
 * checksum is not made to fit. TAUT_EFORMAT, TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_index_parse(const char *bytes, size_t size,
	const char *path, const char *folder, struct taut_arena *arena,
	struct taut_set *set, struct taut_error *err);

TAUT_END_DECLS
#endif /* TAUT_LOAD_SOURCES_INDEX_H */
