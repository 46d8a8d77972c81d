/* listed.h - FOLDER/files: what the job opened for reading (control.h has the form), each
 * path once with the size that it had last. Lines that are none, as of a process that was
 * killed while it wrote, are passed over.
 * Owner: whoever holds a struct tauti_listed ends it. */
#ifndef TAUT_STALLS_LISTED_H
#define TAUT_STALLS_LISTED_H

#include <stdbool.h>

#include <taut/base.h>

#include "base/vec.h"

struct tauti_listed_file {
	uint64_t bytes; /* at most 2^50 */
	uint32_t path;  /* in paths */
	bool is_loaded; /* while the loader that is measured was at work */
};

struct tauti_listed {
	TAUT_VEC(struct tauti_listed_file) files; /* in the order in which they came */
	struct taut_names *paths;                 /* NULL: no file is there */
};

/* A folder without the file has listed none. *listed is to be ended whatever comes of it.
 * TAUT_EIO, TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_listed_read(
	const char *folder, struct tauti_listed *listed, struct taut_error *reterr);
TAUT_NODISCARD taut_status tauti_listed_parse(const char *text, size_t bytes,
	struct tauti_listed *listed, struct taut_error *reterr);
void tauti_listed_fini(struct tauti_listed *listed);
/* Leaves the files that were loaded, in their order; all where none was. */
void tauti_listed_keep_loaded(struct tauti_listed *listed);
/* Zero-terminated, until the end. */
const char *tauti_listed_path(const struct tauti_listed *listed, size_t file);

#endif /* TAUT_STALLS_LISTED_H */
