/* memory.h - memory that may still be taken. */
#ifndef TAUT_CLI_MEMORY_H
#define TAUT_CLI_MEMORY_H

#include <stdint.h>

/* Bytes: of the host, and of the control groups that this process is in, as far as they
 * are seen from here; what files have there counts, as the system gives it up. 0: it
 * cannot be told. root: where /proc and /sys are, "" but in tests. */
uint64_t memory_left(const char *root);

#endif /* TAUT_CLI_MEMORY_H */
