/* env.c - the environment of a job that this command runs. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/env.h"

/* --- what is installed where ------------------------------------------------------*/

/* Places of the libraries and of the Python package, from the folder that the
 * command is in. TAUT_LIBDIR is relative to the prefix. */
static const char *const library_places[] = { "", "../" TAUT_LIBDIR "/taut",
	("../" TAUT_LIBDIR) };
enum { N_LIBRARY_PLACES = 3 };
static const char *const inject_places[] = {
	"../share/taut/python/taut/inject",
};

const char *env_folder_of_command(struct taut_arena *arena)
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

const char *env_find_library(
	struct taut_arena *arena, const char *folder, const char *name)
{
	const char *path = "";

	for (size_t i = 0; path && !*path && i < N_LIBRARY_PLACES; i++)
		path = find_file(arena, folder, library_places[i], name);
	return path;
}

/* In the build tree the sources are where Meson says. */
const char *env_find_inject(struct taut_arena *arena, const char *folder)
{
	const char *const name = "sitecustomize.py";
	const char *build = find_file(arena, folder, "", "build.ninja"), *path;

	if (!build)
		return NULL;
	path = *build ?
		find_file(arena, TAUT_SOURCE_ROOT, "python/taut/inject", name) :
		find_file(arena, folder, inject_places[0], name);

	return path && *path ? taut_arena_strndup(
		arena, path, strlen(path) - strlen(name) - 1) : path;
}

/* --- variables ----------------------------------------------------------------------*/

static taut_status no_memory(const struct env_setting *s)
{
	return taut_error_set(s->err, TAUT_ENOMEM, -1, "no memory");
}

taut_status env_set(
	const struct env_setting *s, const char *name, const char *value)
{
	return value && !setenv(name, value, 1) ? TAUT_OK : no_memory(s);
}

/* Where the user has a list in the variable, ours comes before it. */
static taut_status prepend(
	const struct env_setting *s, const char *name, const char *value)
{
	const char *before = getenv(name);

	return env_set(s, name, before && *before ? taut_arena_printf(s->arena,
		"%s:%s", value, before) : value);
}

taut_status env_tell(const struct env_setting *s, const char *line)
{
	return line && taut_vec_push(s->lines, line) ? TAUT_OK : no_memory(s);
}

/* Neither PYTHONPATH nor LD_PRELOAD can name a path with a colon, and the
 * latter none with a space. */
taut_status env_prepend_path(const struct env_setting *s, const char *name,
	const char *path, const char *separators)
{
	if (!*path)
		return TAUT_OK;
	if (!path[strcspn(path, separators)])
		return prepend(s, name, path);
	return env_tell(s, taut_arena_printf(s->arena,
		"%s: %s cannot name this path, it was left out", path, name));
}

/* --- Open MPI -------------------------------------------------------------------------*/

static const char *const of_mpi[] = { "mpirun", "mpiexec", "orterun", "prterun" };
enum { N_OF_MPI = sizeof of_mpi / sizeof of_mpi[0] };

/* mpirun.openmpi, too, as distributions call it beside another MPI's. */
static bool is_command(const char *word, const char *const *names, size_t n)
{
	const char *slash = strrchr(word, '/');
	const char *name = slash ? slash + 1 : word;
	size_t len = strcspn(name, ".");

	for (size_t i = 0; i < n; i++)
		if (len == strlen(names[i]) && !strncmp(name, names[i], len))
			return true;
	return false;
}

static bool is_mpirun(const char *word)
{
	return is_command(word, of_mpi, N_OF_MPI);
}

/* Options of mpirun that take no word, and those that take two, behind one dash or two.
 * Any other takes one, unless that is an option: where it takes none, the program's name
 * passes for it, and what follows for the program. */
static const char *const alone[] = { "allow-run-as-root", "bind-to-core",
	"bind-to-none", "bind-to-socket", "bycore", "bynode", "byslot", "bysocket",
	"debug-daemons", "display-allocation", "display-map", "display-topo",
	"enable-recovery", "leave-session-attached", "merge-stderr-to-stdout",
	"no-oversubscribe", "nolocal", "nooversubscribe", "oversubscribe",
	"pernode", "q", "quiet", "report-bindings", "show-progress", "tag-output",
	"timestamp-output", "use-hwthread-cpus", "v", "verbose", "xml" };
static const char *const pairs[] = { "gmca", "mca", "omca", "pmixmca", "prtemca" };
enum { N_ALONE = sizeof alone / sizeof alone[0],
	N_PAIRS = sizeof pairs / sizeof pairs[0] };

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Where the option at this word ends. */
static size_t skip_option(const struct env_setting *s, size_t at)
{
	const char *name = s->command[at] + 1;

	name += *name == '-';
	if (is_one_of(name, pairs, N_PAIRS))
		return at + 3;
	at++;
	if (is_one_of(name, alone, N_ALONE) || strchr(name, '=') ||
		at == s->n_command || s->command[at][0] == '-')
		return at;
	return at + 1;
}

/* Whether mpirun itself has -x: words of a program, up to a ':', are not its own. */
static bool has_x(const struct env_setting *s)
{
	size_t at = 1;

	while (at < s->n_command) {
		const char *word = s->command[at];

		if (!strcmp(word, "-x") || !strcmp(word, "--x"))
			return true;
		if (word[0] == '-') {
			at = skip_option(s, at);
			continue;
		}
		while (at < s->n_command && strcmp(s->command[at], ":") != 0)
			at++;
		at++;
	}
	return false;
}

/* mpirun takes its own variables to other hosts and no others, but for those
 * of this list; with a list and -x both, it refuses to start, so that the
 * list is only made where the command shows that there is no -x. */
static bool has_name(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += len)
		if ((at == list || at[-1] == ';') && (!at[len] || at[len] == ';'))
			return true;
	return false;
}

static bool has_prefix(const char *text, const char *const *prefixes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strncmp(text, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

taut_status env_set_open_mpi_all(
	const struct env_setting *s, const char *const *prefixes, size_t n)
{
	const char **names;
	size_t n_names = 0, at = 0;

	while (environ[n_names])
		n_names++;
	names = taut_arena_calloc(s->arena, n_names + 1, sizeof *names);
	if (!names)
		return no_memory(s);
	for (size_t i = 0; i < n_names; i++) {
		if (!has_prefix(environ[i], prefixes, n))
			continue;
		names[at] = taut_arena_strndup(
			s->arena, environ[i], strcspn(environ[i], "="));
		if (!names[at++])
			return no_memory(s);
	}
	if (is_mpirun(s->command[0]) && has_x(s) &&
		!getenv("OMPI_MCA_mca_base_env_list"))
		return env_tell(s, "mpirun with -x: ranks on other hosts have "
			"TAUT_RUN, TAUT_LIB, PYTHONPATH and other variables of "
			"this command only where -x names them too");
	return env_set_open_mpi(s, names, at);
}

taut_status env_set_open_mpi(
	const struct env_setting *s, const char *const *names, size_t n)
{
	const char *list = getenv("OMPI_MCA_mca_base_env_list");

	if (!list || !*list) {
		if (!is_mpirun(s->command[0]) || has_x(s))
			return TAUT_OK;
		list = "";
	}
	for (size_t i = 0; i < n; i++) {
		if (!getenv(names[i]) || has_name(list, names[i]))
			continue;
		list = taut_arena_printf(s->arena, "%s%s%s", list,
			*list ? ";" : "", names[i]);
		if (!list)
			return no_memory(s);
	}
	return env_set(s, "OMPI_MCA_mca_base_env_list", list);
}

/* --- hosts ------------------------------------------------------------------------------*/

static const char *const of_others[] = { "srun", "aprun", "jsrun" };
/* Of a job of a batch system, whose script may start anything. */
static const char *const batch[] = { "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE",
	"FLUX_URI" };
enum { N_OF_OTHERS = sizeof of_others / sizeof of_others[0],
	N_BATCH = sizeof batch / sizeof batch[0] };

/* SLURM's variable of a host is set on those of the job alone. */
static bool is_in_slurm(void)
{
	const char *n_hosts = getenv("SLURM_JOB_NUM_NODES");

	return getenv("SLURM_JOB_ID") && !(getenv("SLURMD_NODENAME") &&
		n_hosts && !strcmp(n_hosts, "1"));
}

bool env_may_be_elsewhere(const struct env_setting *s)
{
	for (size_t i = 0; i < N_BATCH; i++)
		if (getenv(batch[i]))
			return true;
	for (size_t i = 0; i < s->n_command; i++)
		if (is_mpirun(s->command[i]) ||
			is_command(s->command[i], of_others, N_OF_OTHERS))
			return true;
	return is_in_slurm();
}
