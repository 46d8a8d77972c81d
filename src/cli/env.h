/* env.h - the environment of a job that this command runs: what its processes load,
 * and the variables that launchers hand on.
 *
 * Owner:   texts lie in the arena that is handed in.
 * Threads: none are touched; the environment is this process's. */
#ifndef TAUT_CLI_ENV_H
#define TAUT_CLI_ENV_H

#include <stdbool.h>
#include <stddef.h>

#include <taut/base.h>

#include "base/vec.h"

typedef TAUT_VEC(const char *) env_lines;

struct env_setting {
	const char *const *command; /* of the job */
	size_t n_command;
	struct taut_arena *arena;
	env_lines *lines; /* what is left out, on purpose or by need */
	struct taut_error *err;
};

/* --- what is installed where, "" when it is not; NULL: no memory ------------------*/

/* The folder that this command is in, with a slash. */
const char *env_folder_of_command(struct taut_arena *arena);
/* A shared object, in the build tree or as installed. */
const char *env_find_library(
	struct taut_arena *arena, const char *folder, const char *name);
/* The folder of sitecustomize.py. */
const char *env_find_inject(struct taut_arena *arena, const char *folder);

/* --- variables. TAUT_ENOMEM ----------------------------------------------------------*/

TAUT_NODISCARD taut_status env_set(
	const struct env_setting *s, const char *name, const char *value);
/* Adds a line to those of the setting. */
TAUT_NODISCARD taut_status env_tell(
	const struct env_setting *s, const char *line);
/* The path comes before those in the variable; a path with one of the separators
 * is left out, and told. "" changes nothing. */
TAUT_NODISCARD taut_status env_prepend_path(const struct env_setting *s,
	const char *name, const char *path, const char *separators);
/* Those of the n variables that are set go to other hosts with Open MPI, too. */
TAUT_NODISCARD taut_status env_set_open_mpi(
	const struct env_setting *s, const char *const *names, size_t n);
/* The same of all variables whose names begin with one of the prefixes. Where the
 * command has -x, with which mpirun takes no list, a line tells of it. */
TAUT_NODISCARD taut_status env_set_open_mpi_all(
	const struct env_setting *s, const char *const *prefixes, size_t n);

/* Whether all processes of the job may be on other hosts: what starts it, or the batch
 * system that this is under, hands the environment on to them. */
bool env_may_be_elsewhere(const struct env_setting *s);

#endif /* TAUT_CLI_ENV_H */
