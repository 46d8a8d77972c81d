/* descriptors.h - files that are kept open for reading, as many as the process may have.
 *
 * Owner:   a descriptor that was taken is open until it is given back.
 * Threads: any, all at once; files are opened without a lock held. */
#ifndef TAUT_LOAD_STORES_DESCRIPTORS_H
#define TAUT_LOAD_STORES_DESCRIPTORS_H

#include <stdint.h>

#include <taut/base.h>

struct tauti_descriptors;

/* n 0: half of what RLIMIT_NOFILE leaves, at most 512. flags: of open(), besides
 * reading. NULL: no memory. */
struct tauti_descriptors *tauti_descriptors_create(uint32_t n, int flags);
/* All were given back. NULL is fine. */
void tauti_descriptors_destroy(struct tauti_descriptors *descriptors);

/* An open descriptor, or -errno. */
int tauti_descriptors_take(struct tauti_descriptors *descriptors, uint64_t file,
	const char *path);
void tauti_descriptors_give(
	struct tauti_descriptors *descriptors, uint64_t file, int fd);

/* Opens a file for reading, whatever interrupts; -errno. */
int tauti_descriptor_open(const char *path, int flags);

#endif /* TAUT_LOAD_STORES_DESCRIPTORS_H */
