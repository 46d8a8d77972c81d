/* out.h - where a verb's result goes: standard output, or a file that is
 * there whole or not at all. */
#ifndef TAUT_CLI_OUT_H
#define TAUT_CLI_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include <taut/trace.h>

/* Writes the result to a stream that is open; context is the caller's. */
typedef taut_status (*out_writer)(
	const void *context, FILE *out, struct taut_error *err);

/* path NULL: standard output. A reader that has gone away is no failure. A
 * regular file is written beside its place, without a name where the system
 * can, and then renamed, so that a failure leaves what was there, and a kill
 * leaves nothing else; a device or a pipe is written to.
 * TAUT_EINVAL: path is one of the traces that were read (run may be NULL).
 * TAUT_EIO: what the system said. */
taut_status out_write(const char *path, const struct taut_run *run,
	out_writer write, const void *context, struct taut_error *err);

/* Before long work: is there a folder that path can be written in? TAUT_EIO
 * when not. path NULL is fine. */
taut_status out_check(const char *path, struct taut_error *err);

/* Would one result take the place of the other? A device or a pipe takes both.
 * Either path may be NULL: no. */
bool out_is_same(const char *a, const char *b);

#endif /* TAUT_CLI_OUT_H */
