/* tuned.h - a file with what a search has found, which taut run --tuned takes:
 * '#' begins a comment; else a line is a name and a value.
 *
 *     piece 1048576
 *     credit 4194304
 *     fuse 1048576
 *     way ring
 *
 * python/taut/_tune.py writes the same. */
#ifndef TAUT_CLI_TUNED_H
#define TAUT_CLI_TUNED_H

#include <stdio.h>

#include <taut/settings.h>

enum { TUNED_BYTES = 4096 }; /* of a file, at most */

/* TAUT_EFORMAT: "name:line: expected ...". All four must be there, once each. */
taut_status tuned_parse(const char *text, size_t bytes, const char *name,
	struct taut_setting *ret_setting, struct taut_error *err);
taut_status tuned_read(const char *path, struct taut_setting *ret_setting,
	struct taut_error *err);
/* What out_write() calls; context is the setting. */
taut_status tuned_write(
	const void *context, FILE *out, struct taut_error *err);

#endif /* TAUT_CLI_TUNED_H */
