/* inputs.h - which files a run is made of, and what their names tell. */
#ifndef TAUT_TRACE_INPUTS_H
#define TAUT_TRACE_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

#include "base/vec.h"

TAUT_BEGIN_DECLS

struct tauti_input {
	const char *path; /* in the arena */
	uint64_t bytes;	  /* of the file; 0 when not known */
	size_t given;	  /* which of the given paths led here */
	bool in_folder;	  /* found, rather than named by the user */
};
typedef TAUT_VEC(struct tauti_input) tauti_inputs;

/* Adds the file path, or the files in the folder path and one level down,
 * in the order of their names; names that begin with a dot are left out, and
 * what a recording holds beside its ranks (recording.h). */
TAUT_NODISCARD taut_status tauti_inputs_add(tauti_inputs *inputs,
	struct taut_arena *arena, const char *path, size_t given,
	struct taut_error *err);

/* How many of the n inputs, from the first on, are of one rank: a folder of
 * the name "rank3" holds one rank. At least 1. */
size_t tauti_inputs_of_rank(const struct tauti_input *inputs, size_t n);

/* The rank that a path tells, or -1: "rank3", "rank-34", "worker_0",
 * "x_3.json" in the file's name, or the first two in its folder's. */
int32_t tauti_rank_of_path(const char *path);

/* The number at the end of a file's name in which no point is, or -1: dumps of
 * PyTorch's flight recorder are named <prefix><rank>. */
int32_t tauti_rank_at_end(const char *path);

/* tensorboard_trace_handler names files <host>_<pid>.<time>.pt.trace.json.
 * The length of the host at *ret_host, or 0. */
size_t tauti_host_of_path(const char *path, const char **ret_host);

TAUT_END_DECLS
#endif /* TAUT_TRACE_INPUTS_H */
