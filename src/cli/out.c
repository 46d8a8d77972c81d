/* out.c - see out.h. */
#include "cli/out.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static taut_status refused(
	struct taut_error *err, const char *path, const char *what)
{
	return taut_error_set(err, TAUT_EIO, -1, "%s: %s: %s", path, what,
		errno ? strerror(errno) : "refused");
}

/* The writer knows what went wrong, not where. */
static taut_status name_target(
	const char *path, taut_status status, struct taut_error *err)
{
	struct taut_error what = { .message = "" };

	if (status != TAUT_EIO || !err)
		return status;
	what = *err;
	return taut_error_set(err, TAUT_EIO, -1, "%s: %s", path, what.message);
}

/* --- standard output --------------------------------------------------------------*/

/* Nobody reads the other end any more: as with "| head", that is no fault. */
static bool reader_is_gone(int fd)
{
	struct pollfd end = { .fd = fd, .events = POLLOUT };

	return poll(&end, 1, 0) == 1 && (end.revents & POLLERR);
}

static taut_status write_stdout(
	out_writer write, const void *context, struct taut_error *err)
{
	taut_status status = name_target("standard output",
		write(context, stdout, err), err);

	errno = 0;
	if (fflush(stdout) != 0 && !status)
		status = refused(err, "standard output", "cannot be written");
	if (status == TAUT_EIO && reader_is_gone(STDOUT_FILENO))
		return TAUT_OK;
	return status;
}

/* --- files --------------------------------------------------------------------------*/

/* The folder of path, "." for a bare name; the length of it. */
static const char *folder_of(const char *path, int *ret_length)
{
	const char *slash = strrchr(path, '/');

	*ret_length = slash ? (int)(slash - path) + (slash == path) : 1;
	return slash ? path : ".";
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static taut_status refuse_input(const char *path, const struct stat *at,
	const struct taut_run *run, struct taut_error *err)
{
	struct stat input;

	for (uint32_t i = 0; run && i < run->n_traces; i++)
		if (!stat(run->traces[i].path, &input) && is_same(&input, at))
			return taut_error_set(err, TAUT_EINVAL, -1, "%s: is "
				"one of the traces; give another file", path);
	return TAUT_OK;
}

/* What mkstemp gives is private; a result is as public as other files. */
static void open_up(int fd)
{
	mode_t mask = umask(0);

	umask(mask);
	(void)!fchmod(fd, 0666 & ~mask);
}

enum { SELF_BYTES = 32, MOST_NAMES = 100 };

static void name_of_open_file(int fd, char ret_name[SELF_BYTES])
{
	snprintf(ret_name, SELF_BYTES, "/proc/self/fd/%d", fd);
}

/* A result that is not whole yet. Where the system can, it has no name, so
 * that nothing is left of it when the command is killed. */
struct draft {
	char name[PATH_MAX]; /* beside the file that it will be */
	bool named;
	FILE *out;
};

/* -1 where the system has no files without a name, or could not name one. */
static int open_unnamed(const char *folder)
{
	char self[SELF_BYTES];
	int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);

	if (fd < 0)
		return -1;
	name_of_open_file(fd, self);
	if (access(self, F_OK) == 0)
		return fd;
	close(fd);
	return -1;
}

static int open_named(char *name)
{
	int fd = mkstemp(name);

	if (fd >= 0)
		open_up(fd);
	return fd;
}

static void drop(struct draft *draft)
{
	if (draft->named)
		unlink(draft->name);
}

static bool begin_draft(struct draft *draft, const char *path)
{
	char folder[PATH_MAX];
	int length, fd;
	const char *from = folder_of(path, &length);

	errno = ENAMETOOLONG;
	if (snprintf(folder, sizeof folder, "%.*s", length, from) >=
			(int)sizeof folder ||
		snprintf(draft->name, sizeof draft->name, "%.*s/.taut-XXXXXX",
			length, from) >= (int)sizeof draft->name)
		return false;
	fd = open_unnamed(folder);
	draft->named = fd < 0;
	if (fd < 0)
		fd = open_named(draft->name);
	draft->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (draft->out || fd < 0)
		return draft->out != NULL;
	close(fd);
	drop(draft);
	return false;
}

/* Gives a draft without a name its own. */
static bool name_draft(struct draft *draft)
{
	char self[SELF_BYTES], *digits = strrchr(draft->name, '-') + 1;

	name_of_open_file(fileno(draft->out), self);
	for (unsigned i = 0; !draft->named && i < MOST_NAMES; i++) {
		snprintf(digits, sizeof "XXXXXX", "%06u",
			((unsigned)getpid() + i) % 1000000u);
		draft->named = linkat(AT_FDCWD, self, AT_FDCWD, draft->name,
			AT_SYMLINK_FOLLOW) == 0;
		if (!draft->named && errno != EEXIST)
			break;
	}
	return draft->named;
}

static taut_status write_beside(const char *path, out_writer write,
	const void *context, struct taut_error *err)
{
	struct draft draft;
	taut_status status;

	if (!begin_draft(&draft, path))
		return refused(err, path, "cannot be made");
	status = name_target(path, write(context, draft.out, err), err);
	errno = 0;
	if (!status && (fflush(draft.out) != 0 || !name_draft(&draft)))
		status = refused(err, path, "cannot be written");
	if (fclose(draft.out) != 0 && !status)
		status = refused(err, path, "cannot be written");
	if (!status && rename(draft.name, path) != 0)
		status = refused(err, path, "cannot be replaced");
	if (status)
		drop(&draft);
	return status;
}

static taut_status write_into(const char *path, out_writer write,
	const void *context, struct taut_error *err)
{
	FILE *out = fopen(path, "w");
	taut_status status;

	if (!out)
		return refused(err, path, "cannot be opened");
	status = name_target(path, write(context, out, err), err);
	errno = 0;
	if (fclose(out) != 0 && !status)
		status = refused(err, path, "cannot be written");
	return status;
}

taut_status out_write(const char *path, const struct taut_run *run,
	out_writer write, const void *context, struct taut_error *err)
{
	char real[PATH_MAX];
	struct stat at;

	if (!path)
		return write_stdout(write, context, err);
	if (stat(path, &at) != 0)
		return write_beside(path, write, context, err);
	if (S_ISDIR(at.st_mode)) {
		errno = EISDIR;
		return refused(err, path, "cannot be written");
	}
	if (!S_ISREG(at.st_mode))
		return write_into(path, write, context, err);
	taut_status status = refuse_input(path, &at, run, err);
	if (status)
		return status;
	/* Through a link: what it points to is replaced, the link stays. */
	return write_beside(realpath(path, real) ? real : path, write,
		context, err);
}

taut_status out_check(const char *path, struct taut_error *err)
{
	char folder[PATH_MAX];
	struct stat at;
	int length;
	const char *from;

	if (!path)
		return TAUT_OK;
	if (!stat(path, &at) && !S_ISREG(at.st_mode) && !S_ISDIR(at.st_mode))
		return TAUT_OK;
	from = folder_of(path, &length);
	snprintf(folder, sizeof folder, "%.*s", length, from);
	errno = 0;
	if (stat(path, &at) == 0 && S_ISDIR(at.st_mode)) {
		errno = EISDIR;
		return refused(err, path, "cannot be written");
	}
	if (access(folder, W_OK | X_OK) != 0)
		return refused(err, path, "cannot be written");
	return TAUT_OK;
}

/* Where a file is, or would be. */
static bool find_place(const char *path, char ret_place[PATH_MAX])
{
	char folder[PATH_MAX], real[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int length;
	const char *from = folder_of(path, &length);

	if (realpath(path, ret_place))
		return true;
	return snprintf(folder, sizeof folder, "%.*s", length, from) <
			(int)sizeof folder && realpath(folder, real) &&
		snprintf(ret_place, PATH_MAX, "%s/%s", real,
			slash ? slash + 1 : path) < PATH_MAX;
}

bool out_is_same(const char *a, const char *b)
{
	char of_a[PATH_MAX], of_b[PATH_MAX];
	struct stat at;

	if (!a || !b || (!stat(a, &at) && !S_ISREG(at.st_mode)))
		return false;
	return find_place(a, of_a) && find_place(b, of_b) && !strcmp(of_a, of_b);
}
