/* preload.c - libtaut-stalls.so, which rides in every process of a job that `taut stalls`
 * runs: what is opened for reading is forgotten first, and counted. control.h says when.
 *
 * It must change nothing else: functions of the C library are called as they would have
 * been, errno is theirs, and where the folder is not as it should be nothing happens. No
 * memory is taken and no lock; the list of files is opened for each line, for a job that
 * closes all descriptors would else find its own file under our number.
 *
 * The functions have names of their own here, and those that they stand before as symbols:
 * so no header's declaration, redirection or inline form of them matters. */
#include "stalls/control.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stalls/cold.h"

enum {
	MOST_LISTED = 65536,
	PLACES = 2 * MOST_LISTED, /* a power of two */
	PATH_BYTES = 4096,
	NUMBER_BYTES = 24, /* and a sign */
};

static struct tauti_stalls_control *control; /* NULL: nothing is done */
static char list_path[PATH_BYTES];
static size_t folder_bytes; /* of list_path: what is in the folder is ours */
static _Atomic uint64_t listed[PLACES]; /* keys of lines; 0: free */
static _Atomic uint32_t n_listed;

/* --- the C library's own --------------------------------------------------------------*/
enum hook {
	OPEN, OPEN64, OPENAT, OPENAT64, OPEN_2, OPEN64_2, OPENAT_2, OPENAT64_2,
	FOPEN, FOPEN64, FREOPEN, FREOPEN64, HOOKS,
};

static const char *const names[HOOKS] = { "open", "open64", "openat", "openat64",
	"__open_2", "__open64_2", "__openat_2", "__openat64_2", "fopen", "fopen64",
	"freopen", "freopen64" };
static void *_Atomic next[HOOKS];

/* 0 where the C library has no such function. */
static uintptr_t next_of(enum hook hook)
{
	void *found = atomic_load_explicit(&next[hook], memory_order_relaxed);

	if (!found) {
		found = dlsym(RTLD_NEXT, names[hook]);
		atomic_store_explicit(&next[hook], found, memory_order_relaxed);
	}
	return (uintptr_t)found;
}

/* What no preloaded object sees, this one neither. */
static int open_by_system(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

/* --- which files were opened ----------------------------------------------------------*/

/* True once in this process for each line, while there is room. */
static bool is_new(uint64_t key)
{
	if (atomic_load(&n_listed) >= MOST_LISTED)
		return false;
	for (uint64_t i = key;; i++) {
		uint64_t found = 0;

		if (atomic_compare_exchange_strong(
			&listed[i & (PLACES - 1)], &found, key)) {
			atomic_fetch_add(&n_listed, 1);
			return true;
		}
		if (found == key)
			return false;
	}
}

static size_t write_number(uint64_t number, char *text)
{
	char digits[NUMBER_BYTES];
	size_t n = 0, at = 0;

	do {
		digits[n++] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	while (n)
		text[at++] = digits[--n];
	return at;
}

static bool is_of_the_kernel(const char *path, size_t len)
{
	static const char *const folders[] = { "/proc/", "/sys/", "/dev/" };

	for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
		size_t n = strlen(folders[i]);

		if (len > n && !memcmp(path, folders[i], n))
			return true;
	}
	return false;
}

/* One line by one write: others append, too. */
static void list(int fd, uint64_t bytes, bool is_loaded)
{
	char line[NUMBER_BYTES + PATH_BYTES], name[NUMBER_BYTES + 16] = "/proc/self/fd/";
	size_t at = is_loaded;
	ssize_t len;
	int out;

	line[0] = '+';
	at += write_number(bytes, line + at);
	name[14 + write_number((uint64_t)fd, name + 14)] = '\0';
	line[at++] = ' ';
	len = readlink(name, line + at, sizeof line - at - 1);
	if (len <= 0 || (size_t)len >= sizeof line - at - 1 || line[at] != '/' ||
		memchr(line + at, '\n', (size_t)len) ||
		is_of_the_kernel(line + at, (size_t)len))
		return;
	line[at + (size_t)len] = '\n';
	out = open_by_system(list_path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
	if (out < 0)
		return;
	(void)!write(out, line, at + (size_t)len + 1);
	(void)syscall(SYS_close, out);
}

/* --- what was opened ------------------------------------------------------------------*/

/* What Python imports, and what the phases are written to. */
static bool is_no_data(const char *path)
{
	size_t n = strlen(path);

	return (n > 3 && !memcmp(path + n - 3, ".py", 3)) ||
		(n > 4 && !memcmp(path + n - 4, ".pyc", 4)) ||
		(n > folder_bytes && !memcmp(path, list_path, folder_bytes));
}

static void forget(int fd, const struct stat *at, uint32_t cold_ppm)
{
	uint64_t bytes = tauti_cold_forget(fd, at, cold_ppm);

	if (!bytes)
		return;
	atomic_fetch_add_explicit(&control->forgotten, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(
		&control->forgotten_bytes, bytes, memory_order_relaxed);
}

static void look_at(int fd, const char *path)
{
	uint32_t cold_ppm = atomic_load_explicit(
		&control->cold_ppm, memory_order_relaxed);
	uint32_t listing = atomic_load_explicit(
		&control->is_listing, memory_order_relaxed);
	struct stat at;

	if (is_no_data(path) || fstat(fd, &at) || !S_ISREG(at.st_mode) || at.st_size <= 0)
		return;
	atomic_fetch_add_explicit(&control->opened, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&control->opened_bytes, (uint64_t)at.st_size,
		memory_order_relaxed);
	if (cold_ppm)
		forget(fd, &at, cold_ppm);
	if (listing && at.st_nlink && is_new(tauti_cold_mix(tauti_cold_key(&at) ^ listing)))
		list(fd, (uint64_t)at.st_size, listing == TAUTI_STALLS_LIST_LOADED);
}

static int opened(int fd, const char *path, int flags)
{
	int fault = errno;

	if (control && fd >= 0 && (flags & O_ACCMODE) == O_RDONLY &&
		!(flags & (O_PATH | O_DIRECTORY | O_TRUNC)))
		look_at(fd, path);
	errno = fault;
	return fd;
}

static FILE *opened_stream(FILE *stream, const char *path, const char *mode)
{
	int fault = errno;

	if (control && stream && path && mode[0] == 'r' && !strchr(mode, '+'))
		look_at(fileno(stream), path);
	errno = fault;
	return stream;
}

/* --- what stands before the C library's -----------------------------------------------*/
#define STANDS_BEFORE(name) __asm__(name) __attribute__((visibility("default")))

int hook_open(const char *path, int flags, ...) STANDS_BEFORE("open");
int hook_open64(const char *path, int flags, ...) STANDS_BEFORE("open64");
int hook_openat(int folder, const char *path, int flags, ...) STANDS_BEFORE("openat");
int hook_openat64(int folder, const char *path, int flags, ...)
	STANDS_BEFORE("openat64");
int hook_open_2(const char *path, int flags) STANDS_BEFORE("__open_2");
int hook_open64_2(const char *path, int flags) STANDS_BEFORE("__open64_2");
int hook_openat_2(int folder, const char *path, int flags) STANDS_BEFORE("__openat_2");
int hook_openat64_2(int folder, const char *path, int flags)
	STANDS_BEFORE("__openat64_2");
FILE *hook_fopen(const char *path, const char *mode) STANDS_BEFORE("fopen");
FILE *hook_fopen64(const char *path, const char *mode) STANDS_BEFORE("fopen64");
FILE *hook_freopen(const char *path, const char *mode, FILE *stream)
	STANDS_BEFORE("freopen");
FILE *hook_freopen64(const char *path, const char *mode, FILE *stream)
	STANDS_BEFORE("freopen64");

typedef int (*open_fn)(const char *path, int flags, ...);
typedef int (*openat_fn)(int folder, const char *path, int flags, ...);
typedef int (*open_2_fn)(const char *path, int flags);
typedef int (*openat_2_fn)(int folder, const char *path, int flags);
typedef FILE *(*fopen_fn)(const char *path, const char *mode);
typedef FILE *(*freopen_fn)(const char *path, const char *mode, FILE *stream);

static bool has_mode(int flags)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

/* The mode, where the caller gave one: an integer, as it is handed on. */
#define TAKE_MODE(flags, ret_mode) do { \
	va_list args; \
	va_start(args, flags); \
	if (has_mode(flags)) \
		*(ret_mode) = va_arg(args, unsigned); \
	va_end(args); \
} while (0)

static int open_next(enum hook hook, const char *path, int flags, unsigned mode)
{
	open_fn to = (open_fn)next_of(hook);

	return opened(to ? to(path, flags, mode) : (int)syscall(SYS_openat, AT_FDCWD,
		path, flags, mode), path, flags);
}

static int openat_next(
	enum hook hook, int folder, const char *path, int flags, unsigned mode)
{
	openat_fn to = (openat_fn)next_of(hook);

	return opened(to ? to(folder, path, flags, mode) : (int)syscall(SYS_openat,
		folder, path, flags, mode), path, flags);
}

int hook_open(const char *path, int flags, ...)
{
	unsigned mode = 0;

	TAKE_MODE(flags, &mode);
	return open_next(OPEN, path, flags, mode);
}

int hook_open64(const char *path, int flags, ...)
{
	unsigned mode = 0;

	TAKE_MODE(flags, &mode);
	return open_next(OPEN64, path, flags, mode);
}

int hook_openat(int folder, const char *path, int flags, ...)
{
	unsigned mode = 0;

	TAKE_MODE(flags, &mode);
	return openat_next(OPENAT, folder, path, flags, mode);
}

int hook_openat64(int folder, const char *path, int flags, ...)
{
	unsigned mode = 0;

	TAKE_MODE(flags, &mode);
	return openat_next(OPENAT64, folder, path, flags, mode);
}

/* Those below check what a caller built for safety gives; the program would not have been
 * linked without them. */
int hook_open_2(const char *path, int flags)
{
	return opened(((open_2_fn)next_of(OPEN_2))(path, flags), path, flags);
}

int hook_open64_2(const char *path, int flags)
{
	return opened(((open_2_fn)next_of(OPEN64_2))(path, flags), path, flags);
}

int hook_openat_2(int folder, const char *path, int flags)
{
	return opened(
		((openat_2_fn)next_of(OPENAT_2))(folder, path, flags), path, flags);
}

int hook_openat64_2(int folder, const char *path, int flags)
{
	return opened(
		((openat_2_fn)next_of(OPENAT64_2))(folder, path, flags), path, flags);
}

FILE *hook_fopen(const char *path, const char *mode)
{
	return opened_stream(((fopen_fn)next_of(FOPEN))(path, mode), path, mode);
}

FILE *hook_fopen64(const char *path, const char *mode)
{
	return opened_stream(((fopen_fn)next_of(FOPEN64))(path, mode), path, mode);
}

FILE *hook_freopen(const char *path, const char *mode, FILE *stream)
{
	return opened_stream(
		((freopen_fn)next_of(FREOPEN))(path, mode, stream), path, mode);
}

FILE *hook_freopen64(const char *path, const char *mode, FILE *stream)
{
	return opened_stream(
		((freopen_fn)next_of(FREOPEN64))(path, mode, stream), path, mode);
}

/* --- begin ----------------------------------------------------------------------------*/

/* "" when it is too long. */
static const char *path_in(const char *folder, const char *name, char *ret_path)
{
	size_t n = strlen(folder), m = strlen(name);

	ret_path[0] = '\0';
	if (n + m + 1 > PATH_BYTES)
		return ret_path;
	memcpy(ret_path, folder, n);
	memcpy(ret_path + n, name, m + 1);
	return ret_path;
}

static struct tauti_stalls_control *map_control(int fd)
{
	struct tauti_stalls_control *found;
	struct stat at;

	if (fstat(fd, &at) || !S_ISREG(at.st_mode) ||
		at.st_size != TAUTI_STALLS_CONTROL_BYTES)
		return NULL;
	found = mmap(NULL, TAUTI_STALLS_CONTROL_BYTES, PROT_READ | PROT_WRITE,
		MAP_SHARED, fd, 0);
	if (found == MAP_FAILED)
		return NULL;
	if (!memcmp(found->magic, TAUTI_STALLS_MAGIC, sizeof found->magic) &&
		found->version == TAUTI_STALLS_VERSION)
		return found;
	munmap(found, TAUTI_STALLS_CONTROL_BYTES);
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	const char *folder = secure_getenv("TAUT_STALLS");
	char path[PATH_BYTES];
	int fault = errno, fd;

	for (enum hook hook = 0; hook < HOOKS; hook++)
		(void)next_of(hook);
	if (folder && folder[0] == '/' && *path_in(folder, "/files", list_path)) {
		folder_bytes = strlen(folder) + 1;
		fd = open_by_system(path_in(folder, "/control", path),
			O_RDWR | O_CLOEXEC | O_NOCTTY);
		control = fd < 0 ? NULL : map_control(fd);
		if (fd >= 0)
			(void)syscall(SYS_close, fd);
	}
	if (control)
		atomic_fetch_add(&control->processes, 1);
	errno = fault;
}
