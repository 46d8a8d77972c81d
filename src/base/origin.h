/* origin.h - whether this process made something, or has a copy of it by fork().
 *
 * A child has the memory of its parent, but none of its threads, and nobody counts
 * on it. One page of memory that the kernel empties in children tells, so that
 * asking costs a read; where there is no such page, the number of the process. */
#ifndef TAUT_BASE_ORIGIN_H
#define TAUT_BASE_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

struct tauti_origin { /* of whoever has init() called; fini() there alone */
	const volatile unsigned char *page; /* not 0 where it was made; or NULL */
	size_t page_bytes;
	pid_t process;
};

void tauti_origin_init(struct tauti_origin *origin);
void tauti_origin_fini(struct tauti_origin *origin);

/* Any thread, until fini(). */
static inline bool tauti_origin_is_copy(const struct tauti_origin *origin)
{
	return origin->page ? !*origin->page : origin->process != getpid();
}

#endif /* TAUT_BASE_ORIGIN_H */
