/* record_env.c - the environment of a job that is recorded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/record.h"

struct setting {
	const struct record_plan *plan;
	const struct record_files *files;
	struct taut_arena *arena;
	record_lines *lines;
	struct taut_error *err;
};

/* --- what is installed where ------------------------------------------------------*/

/* Places of the libraries and of the Python package, from the folder that the
 * command is in. TAUT_LIBDIR is relative to the prefix. */
static const char *const library_places[] = { "", "../" TAUT_LIBDIR "/taut" };
static const char *const inject_places[] = {
	"../share/taut/python/taut/inject",
};

static const char *folder_of_command(struct taut_arena *arena)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

	while (n > 0 && path[n - 1] != '/')
		n--;
	return taut_arena_strndup(arena, path, n > 0 ? (size_t)n : 0);
}

/* A whole path without links when the file is there, "" when not. NULL: no
 * memory. */
static const char *find_file(struct taut_arena *arena, const char *folder,
	const char *place, const char *name)
{
	char *path = taut_arena_printf(arena, "%s/%s/%s", folder, place, name);
	char *whole;

	if (!path)
		return NULL;
	whole = realpath(path, NULL);
	path = taut_arena_printf(arena, "%s", whole ? whole : "");
	free(whole);
	return path;
}

static const char *find_library(
	struct taut_arena *arena, const char *folder, const char *name)
{
	const char *path = "";

	for (size_t i = 0; path && !*path && i < 2; i++)
		path = find_file(arena, folder, library_places[i], name);
	return path;
}

/* In the build tree the sources are where Meson says. */
static const char *find_inject(
	struct taut_arena *arena, const char *folder, bool is_build)
{
	const char *const name = "sitecustomize.py";
	const char *path = is_build ?
		find_file(arena, TAUT_SOURCE_ROOT, "python/taut/inject", name) :
		find_file(arena, folder, inject_places[0], name);

	return path && *path ? taut_arena_strndup(
		arena, path, strlen(path) - strlen(name) - 1) : path;
}

taut_status record_find_files(struct taut_arena *arena,
	struct record_files *ret_files, struct taut_error *err)
{
	const char *folder = folder_of_command(arena), *build;
	struct record_files files;

	if (!folder)
		goto no_memory;
	build = find_file(arena, folder, "", "build.ninja");
	if (!build)
		goto no_memory;
	files.inject = find_inject(arena, folder, *build);
	files.record = find_library(arena, folder, "libtaut-record.so");
	files.mpi = find_library(arena, folder, "libtaut-mpi.so");
	files.nccl = find_library(arena, folder, "libtaut-nccl.so");
	if (!files.inject || !files.record || !files.mpi || !files.nccl)
		goto no_memory;
	*ret_files = files;
	return TAUT_OK;
no_memory:
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
}

/* --- variables ----------------------------------------------------------------------*/

static taut_status no_memory(const struct setting *s)
{
	return taut_error_set(s->err, TAUT_ENOMEM, -1, "no memory");
}

static taut_status set(
	const struct setting *s, const char *name, const char *value)
{
	return value && !setenv(name, value, 1) ? TAUT_OK : no_memory(s);
}

/* Where the user has a list in the variable, ours comes before it. */
static taut_status prepend(
	const struct setting *s, const char *name, const char *value)
{
	const char *before = getenv(name);

	return set(s, name, before && *before ? taut_arena_printf(s->arena,
		"%s:%s", value, before) : value);
}

static taut_status tell(const struct setting *s, const char *line)
{
	return line && taut_vec_push(s->lines, line) ? TAUT_OK : no_memory(s);
}

/* Neither PYTHONPATH nor LD_PRELOAD can name a path with a colon, and the
 * latter none with a space. */
static taut_status prepend_path(const struct setting *s, const char *name,
	const char *path, const char *separators)
{
	if (!*path)
		return TAUT_OK;
	if (!path[strcspn(path, separators)])
		return prepend(s, name, path);
	return tell(s, taut_arena_printf(s->arena,
		"%s: %s cannot name this path, it was left out", path, name));
}

static taut_status set_nccl(const struct setting *s)
{
	const char *before = getenv("NCCL_PROFILER_PLUGIN");

	if (s->plan->no_nccl || !*s->files->nccl)
		return TAUT_OK;
	if (before && *before)
		return tell(s, taut_arena_printf(s->arena, "NCCL_PROFILER_"
			"PLUGIN is %s: what NCCL does was not recorded",
			before));
	return set(s, "NCCL_PROFILER_PLUGIN", s->files->nccl);
}

/* --- Open MPI -------------------------------------------------------------------------*/

static bool is_mpirun(const char *word)
{
	const char *slash = strrchr(word, '/');
	const char *name = slash ? slash + 1 : word;

	return !strcmp(name, "mpirun") || !strcmp(name, "mpiexec") ||
		!strcmp(name, "orterun");
}

static bool has_word(const struct record_plan *plan, const char *word)
{
	for (size_t i = 0; i < plan->n_command; i++)
		if (!strcmp(plan->command[i], word))
			return true;
	return false;
}

/* mpirun takes its own variables to other hosts and no others, but for those
 * of this list; with a list and -x both, it refuses to start, so that the
 * list is only made where the command shows that there is no -x. */
static taut_status set_open_mpi(const struct setting *s)
{
	static const char *const names[] = { "TAUT_RECORD",
		"TAUT_RECORD_STEPS", "TAUT_RECORD_MEMORY", "TAUT_RECORD_LIB", "PYTHONPATH",
		"LD_PRELOAD", "NCCL_PROFILER_PLUGIN" };
	const char *list = getenv("OMPI_MCA_mca_base_env_list");

	if (!list || !*list) {
		if (!is_mpirun(s->plan->command[0]) || has_word(s->plan, "-x"))
			return TAUT_OK;
		list = "";
	}
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (!getenv(names[i]))
			continue;
		list = taut_arena_printf(s->arena, "%s%s%s", list,
			*list ? ";" : "", names[i]);
		if (!list)
			return no_memory(s);
	}
	return set(s, "OMPI_MCA_mca_base_env_list", list);
}

taut_status record_set_environment(const struct record_plan *plan,
	const struct record_files *files, struct taut_arena *arena,
	record_lines *lines, struct taut_error *err)
{
	struct setting s = { plan, files, arena, lines, err };
	taut_status status = set(&s, "TAUT_RECORD", plan->run);

	if (!status)
		status = set(&s, "TAUT_RECORD_STEPS", taut_arena_printf(
			arena, "%u:%u", plan->first, plan->end));
	if (!status && plan->memory)
		status = set(&s, "TAUT_RECORD_MEMORY", "1");
	if (!status && *files->record)
		status = set(&s, "TAUT_RECORD_LIB", files->record);
	if (!status)
		status = prepend_path(&s, "PYTHONPATH", files->inject, ":");
	if (!status && !plan->no_mpi)
		status = prepend_path(&s, "LD_PRELOAD", files->mpi, ": ");
	if (!status)
		status = set_nccl(&s);
	if (!status)
		status = set_open_mpi(&s);
	return status;
}
