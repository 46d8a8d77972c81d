/* stalls_folder.c - the folder that all processes of a job share with this command. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/out.h"
#include "cli/stalls.h"
#include "stalls/control.h"

enum { PATH_BYTES = 4096, LINE_BYTES = 8192, MOST_NOTES = 64 };
static const char run_prefix[] = "run-", state_prefix[] = "state-";

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
}

static bool path_in(char ret_path[PATH_BYTES], const char *folder, const char *name)
{
	return (size_t)snprintf(ret_path, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES;
}

/* --- making it -------------------------------------------------------------------------*/

static taut_status write_file(const char *folder, const char *name, const void *bytes,
	size_t n, struct taut_error *err)
{
	char path[PATH_BYTES];
	FILE *out = path_in(path, folder, name) ? fopen(path, "wbe") : NULL;
	bool is_whole = out && fwrite(bytes, 1, n, out) == n;

	if (out && fclose(out))
		is_whole = false;
	if (is_whole)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EIO, -1, "%s/%s: cannot be written: %s", folder,
		name, strerror(errno));
}

/* Written, not only made longer: a job must not find later that there is no room. */
static taut_status fill(const char *folder, struct taut_error *err)
{
	char page[TAUTI_STALLS_CONTROL_BYTES] = { 0 };
	struct tauti_stalls_control control = { .version = TAUTI_STALLS_VERSION,
		.is_listing = TAUTI_STALLS_LIST_OPENED };
	taut_status status;

	memcpy(control.magic, TAUTI_STALLS_MAGIC, sizeof control.magic);
	memcpy(page, &control, sizeof control);
	status = write_file(folder, "control", page, sizeof page, err);
	return status ? status : write_file(folder, "files", "", 0, err);
}

static bool is_empty(const char *path)
{
	DIR *dir = opendir(path);
	size_t n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return dir && n <= 2; /* . and .. */
}

static taut_status make_temporary(struct taut_arena *arena, char **ret_path,
	struct taut_error *err)
{
	const char *top = getenv("TMPDIR");
	char *path = taut_arena_printf(
		arena, "%s/taut-stalls-XXXXXX", top && top[0] == '/' ? top : "/tmp");

	if (!path)
		return no_memory(err);
	if (!mkdtemp(path))
		return taut_error_set(err, TAUT_EIO, -1, "%s: this folder cannot be "
			"made: %s", path, strerror(errno));
	*ret_path = path;
	return TAUT_OK;
}

static taut_status make_named(const char *out, struct taut_arena *arena, char **ret_path,
	struct taut_error *err)
{
	bool is_new = !mkdir(out, 0777);
	char *real;

	if (!is_new && errno != EEXIST)
		return taut_error_set(err, TAUT_EIO, -1, "%s: this folder cannot be "
			"made: %s", out, strerror(errno));
	if (!is_new && !is_empty(out))
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: expected a new or an empty "
			"folder (--read %s prints what is in it)", out, out);
	real = realpath(out, NULL);
	*ret_path = real ? taut_arena_printf(arena, "%s", real) : NULL;
	free(real);
	return *ret_path ? TAUT_OK : no_memory(err);
}

taut_status stalls_folder_make(const char *out, struct taut_arena *arena,
	const char **ret_folder, struct taut_error *err)
{
	char *path = NULL;
	taut_status status = out ? make_named(out, arena, &path, err) :
		make_temporary(arena, &path, err);

	if (!status)
		status = fill(path, err);
	if (!status)
		*ret_folder = path;
	else if (path && !out)
		stalls_folder_remove(path);
	return status;
}

taut_status stalls_folder_make_run(const char *folder, unsigned number,
	struct taut_arena *arena, const char **ret_run, struct taut_error *err)
{
	const char *path = taut_arena_printf(arena, "%s/%s%u", folder, run_prefix, number);

	return path ? stalls_folder_make(path, arena, ret_run, err) : no_memory(err);
}

static bool is_run(const char *name)
{
	return !strncmp(name, run_prefix, sizeof run_prefix - 1);
}

/* A folder, and the files in it. */
static void remove_flat(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	(void)rmdir(folder);
}

/* Folders in it that begin so. */
static void remove_within(
	const char *folder, const char *prefix, void (*remove)(const char *path))
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char path[PATH_BYTES];

	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, prefix, strlen(prefix)) &&
			path_in(path, folder, entry->d_name))
			remove(path);
	if (dir)
		closedir(dir);
}

/* Of one run, with what a rank that was killed has left of its loader's state. */
static void remove_one(const char *folder)
{
	remove_within(folder, state_prefix, remove_flat);
	remove_flat(folder);
}

void stalls_folder_remove(const char *folder)
{
	remove_within(folder, run_prefix, remove_one);
	remove_one(folder);
}

/* --- what is in it -----------------------------------------------------------------------*/

static void add_counts(const char *folder, struct stalls_counts *counts)
{
	struct tauti_stalls_control control;
	char path[PATH_BYTES];
	FILE *in = path_in(path, folder, "control") ? fopen(path, "rbe") : NULL;

	if (in && fread(&control, 1, sizeof control, in) == sizeof control &&
		!memcmp(control.magic, TAUTI_STALLS_MAGIC, sizeof control.magic) &&
		control.version == TAUTI_STALLS_VERSION) {
		counts->processes += control.processes;
		counts->forgotten += control.forgotten;
		counts->forgotten_bytes += control.forgotten_bytes;
	}
	if (in)
		fclose(in);
}

struct stalls_counts stalls_folder_counts(const char *folder)
{
	struct stalls_counts counts = { 0, 0, 0 };
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char path[PATH_BYTES];

	add_counts(folder, &counts);
	while (dir && (entry = readdir(dir)))
		if (is_run(entry->d_name) && path_in(path, folder, entry->d_name))
			add_counts(path, &counts);
	if (dir)
		closedir(dir);
	return counts;
}

bool stalls_folder_has_ranks(const char *folder)
{
	DIR *dir = opendir(folder);
	bool found = false;
	struct dirent *entry;

	while (dir && !found && (entry = readdir(dir)))
		found = !strncmp(entry->d_name, "rank-", 5);
	if (dir)
		closedir(dir);
	return found;
}

/* --- FOLDER/job ----------------------------------------------------------------------------*/

static taut_status write_job(const void *context, FILE *out, struct taut_error *err)
{
	const struct stalls_job *job = context;
	const struct taut_stalls_storage *s = &job->storage;

	fprintf(out, "taut-stalls-job 1\ncommand %s\npage_cache %llu\n", job->command,
		(unsigned long long)job->page_cache_bytes);
	if (job->has_storage)
		fprintf(out, "storage %.17g %lld %u %.17g %llu\n", s->rate_bytes_s,
			(long long)s->latency_ns, s->n_served, s->error,
			(unsigned long long)s->burst_bytes);
	for (uint32_t i = 0; job->has_storage && i < s->n_points; i++)
		fprintf(out, "point %u %.17g %.17g\n", s->points[i].n_threads,
			s->points[i].bytes_s, s->points[i].reads_s);
	for (size_t i = 0; i < job->notes.count; i++)
		fprintf(out, "note %s\n", job->notes.data[i]);
	return ferror(out) ? taut_error_set(err, TAUT_EIO, -1, "job: cannot be written") :
		TAUT_OK;
}

taut_status stalls_job_write(
	const char *folder, const struct stalls_job *job, struct taut_error *err)
{
	char path[PATH_BYTES];

	if (!path_in(path, folder, "job"))
		return taut_error_set(err, TAUT_EIO, -1, "%s: its name is too long", folder);
	return out_write(path, NULL, write_job, job, err);
}

static bool is_sound(const struct taut_stalls_storage *s)
{
	return s->rate_bytes_s > 0 && s->rate_bytes_s <= 1e15 && s->latency_ns >= 0 &&
		s->latency_ns <= INT64_C(1000000000000) && s->error >= 0 && s->error < 1e6;
}

/* True where the line is one of storage. */
static bool take_storage(const char *line, struct stalls_job *job)
{
	struct taut_stalls_storage *s = &job->storage, found = { .n_points = 0 };
	struct taut_stalls_point point;
	unsigned long long burst_bytes = 0;
	long long latency_ns;

	if (sscanf(line, "storage %lf %lld %u %lf %llu", &found.rate_bytes_s, &latency_ns,
		&found.n_served, &found.error, &burst_bytes) >= 4) {
		found.latency_ns = latency_ns;
		found.burst_bytes = burst_bytes;
		job->has_storage = is_sound(&found);
		*s = found;
		return true;
	}
	if (sscanf(line, "point %u %lf %lf", &point.n_threads, &point.bytes_s,
		&point.reads_s) != 3)
		return false;
	if (s->n_points < sizeof s->points / sizeof s->points[0])
		s->points[s->n_points++] = point;
	return true;
}

static taut_status take_line(const char *line, struct taut_arena *arena,
	struct stalls_job *job, struct taut_error *err)
{
	unsigned long long number;
	const char *text;

	if (take_storage(line, job))
		return TAUT_OK;
	if (sscanf(line, "page_cache %llu", &number) == 1)
		job->page_cache_bytes = number;
	if (strncmp(line, "command ", 8) != 0 && strncmp(line, "note ", 5) != 0)
		return TAUT_OK;
	text = taut_arena_printf(arena, "%s", strchr(line, ' ') + 1);
	if (!text)
		return no_memory(err);
	if (*line == 'c')
		job->command = text;
	else if (job->notes.count < MOST_NOTES && !taut_vec_push(&job->notes, text))
		return no_memory(err);
	return TAUT_OK;
}

taut_status stalls_job_read(const char *folder, struct taut_arena *arena,
	struct stalls_job *job, struct taut_error *err)
{
	char path[PATH_BYTES], line[LINE_BYTES];
	FILE *in = path_in(path, folder, "job") ? fopen(path, "re") : NULL;
	taut_status status = TAUT_OK;

	if (!in)
		return TAUT_OK;
	if (!fgets(line, sizeof line, in) || strcmp(line, "taut-stalls-job 1\n") != 0)
		status = taut_error_set(err, TAUT_EFORMAT, 0, "%s:1: expected "
			"'taut-stalls-job 1'", path);
	while (!status && fgets(line, sizeof line, in)) {
		line[strcspn(line, "\n")] = '\0';
		status = take_line(line, arena, job, err);
	}
	fclose(in);
	return status;
}
