/* sources.c - the table of sources, and how a set is opened. */
#include "load/set.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { MOST_PATHS = 1000000 };

/* Those that a few bytes tell for sure come first. */
static const struct tauti_source *const sources[] = {
	&tauti_source_tree,
	&tauti_source_index,
	&tauti_source_tar,
	&tauti_source_lines,
};

static const char default_extensions[] =
	"jpg jpeg png ppm bmp pgm tif tiff webp";

/* --- what is looked at ------------------------------------------------------------------*/

const struct tauti_source *tauti_source_of(const struct tauti_look *look)
{
	for (size_t i = 0; i < COUNT(sources); i++)
		if (sources[i]->probe(look))
			return sources[i];
	return NULL;
}

static taut_status look_failed(const char *path, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EIO, -1, "%s: %s", path, strerror(errno));
}

static taut_status read_head(int fd, struct tauti_look *look, struct taut_error *err)
{
	while (look->head_bytes < TAUTI_LOOK_BYTES) {
		ssize_t n = read(fd, look->head + look->head_bytes,
			TAUTI_LOOK_BYTES - look->head_bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return look_failed(look->path, err);
		if (n == 0)
			break;
		look->head_bytes += (size_t)n;
	}
	return TAUT_OK;
}

/* stat() first: to open a pipe would wait for its writer. */
taut_status tauti_look_at(
	const char *path, struct tauti_look *ret_look, struct taut_error *err)
{
	struct tauti_look look = { .path = path };
	struct stat about;
	taut_status status;
	int fd;

	if (stat(path, &about) != 0)
		return look_failed(path, err);
	look.is_folder = S_ISDIR(about.st_mode);
	if (!look.is_folder && !S_ISREG(about.st_mode))
		return taut_error_set(err, TAUT_EIO, -1,
			"%s: is neither a folder nor a file", path);
	if (look.is_folder) {
		*ret_look = look;
		return TAUT_OK;
	}
	look.bytes = (uint64_t)about.st_size;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return look_failed(path, err);
	status = read_head(fd, &look, err);
	close(fd);
	if (!status)
		*ret_look = look;
	return status;
}

taut_status tauti_folder_of(const char *path, char *into, struct taut_error *err)
{
	struct tauti_split split = tauti_split(path, strlen(path));
	char folder[PATH_MAX];

	if (split.folder_len >= sizeof folder)
		return taut_error_set(
			err, TAUT_EIO, -1, "%s: %s", path, strerror(ENAMETOOLONG));
	memcpy(folder, split.folder_len ? path : ".",
		split.folder_len ? split.folder_len : 1);
	folder[split.folder_len ? split.folder_len : 1] = 0;
	return realpath(folder, into) ? TAUT_OK : look_failed(folder, err);
}

/* --- small things that sources share ----------------------------------------------------*/

struct word {
	const char *text;
	size_t len;
};

static bool next_word(const char **list, struct word *ret)
{
	*list += strspn(*list, " ");
	*ret = (struct word){ *list, strcspn(*list, " ") };
	*list += ret->len;
	return ret->len > 0;
}

int tauti_extension(const char *list, const char *text, size_t len)
{
	struct word word;

	for (int i = 0; next_word(&list, &word); i++)
		if (word.len == len && strncasecmp(word.text, text, len) == 0)
			return i;
	return -1;
}

int tauti_extension_of_name(const char *list, const char *name, size_t len)
{
	struct word word;

	for (int i = 0; next_word(&list, &word); i++)
		if (len > word.len && name[len - word.len - 1] == '.' &&
			strncasecmp(name + len - word.len, word.text,
				word.len) == 0)
			return i;
	return -1;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool tauti_label_of(const char *text, size_t len, int32_t *ret_label)
{
	const char *end = text + len;
	bool negative;
	int64_t value = 0;
	const char *digits;

	while (text < end && is_space(*text))
		text++;
	while (end > text && is_space(end[-1]))
		end--;
	negative = text < end && *text == '-';
	text += text < end && (*text == '-' || *text == '+');
	for (digits = text; text < end && *text >= '0' && *text <= '9'; text++) {
		value = value * 10 + (*text - '0');
		if (value > (int64_t)INT32_MAX + 1)
			return false;
	}
	value = negative ? -value : value;
	if (text == digits || text < end || value > INT32_MAX)
		return false;
	*ret_label = (int32_t)value;
	return true;
}

struct tauti_shown tauti_shown(const char *text, size_t len)
{
	struct tauti_shown shown;
	size_t n = len < sizeof shown.text ? len : sizeof shown.text - 1;

	memcpy(shown.text, text, n);
	shown.text[n] = 0;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)shown.text[i] < 0x20 || shown.text[i] == 0x7f)
			shown.text[i] = '?';
	if (n < len)
		memcpy(shown.text + n - 3, "...", 3);
	return shown;
}

/* --- paths -------------------------------------------------------------------------------*/

struct paths { /* in an arena of the call's own */
	TAUT_VEC(const char *) list;
	struct taut_arena *scratch;
};

static taut_status add_path(void *context, const char *path, struct taut_error *err)
{
	struct paths *paths = context;
	const char *copy = taut_arena_strndup(paths->scratch, path, strlen(path));

	if (!copy || !taut_vec_push(&paths->list, copy))
		return tauti_set_no_memory(path, err);
	return TAUT_OK;
}

/* A path that is there is meant as it is, whatever its name holds. */
static taut_status add_paths(struct paths *paths, const char *const *given, size_t n,
	struct taut_error *err)
{
	for (size_t i = 0; i < n; i++) {
		bool plain = !strchr(given[i], '{') || access(given[i], F_OK) == 0;
		taut_status status = plain ? add_path(paths, given[i], err) :
			tauti_braces(given[i], MOST_PATHS, add_path, paths, err);

		if (status)
			return status;
	}
	return TAUT_OK;
}

/* --- open --------------------------------------------------------------------------------*/

static taut_status check_extensions(const char *list, struct taut_error *err)
{
	const char *rest = list;
	struct word word;
	int n;

	for (n = 0; next_word(&rest, &word); n++)
		if (word.text[0] == '.' || memchr(word.text, '/', word.len))
			return taut_error_set(err, TAUT_EINVAL, -1,
				"extensions '%s': expected them without points "
				"before and without '/', as \"jpg png\"",
				list);
	return n ? TAUT_OK : taut_error_set(err, TAUT_EINVAL, -1,
		"extensions: expected at least one, as \"jpg png\"");
}

static taut_status find_source(const struct tauti_scan *scan,
	const struct tauti_source **ret_source, struct taut_error *err)
{
	const char *path = scan->paths[0];
	const struct tauti_source *source;
	struct tauti_look look;
	taut_status status = tauti_look_at(path, &look, err);

	if (status)
		return status;
	if (!look.is_folder && !look.head_bytes)
		return taut_error_set(err, TAUT_EFORMAT, 0, "%s: is empty; expected "
			"an archive, an index or a list of paths", path);
	source = tauti_source_of(&look);
	if (!source)
		return taut_error_set(err, TAUT_EFORMAT, 0, "%s: expected a folder, "
			"a tar archive, an index of a set or a text with a path "
			"a line", path);
	if (scan->n_paths > 1 && !source->several)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: is the first of %zu "
			"paths and no archive; only archives may be several",
			path, scan->n_paths);
	*ret_source = source;
	return TAUT_OK;
}

static taut_status open_set(struct tauti_scan *scan,
	const struct taut_set_options *options, const struct taut_set **ret_set,
	struct taut_error *err)
{
	struct taut_set *set = TAUT_ARENA_ARRAY(scan->arena, struct taut_set, 1);
	const struct tauti_source *source = NULL;
	struct tauti_meter meter;
	taut_status status;

	if (!set)
		return tauti_set_no_memory(scan->paths[0], err);
	status = find_source(scan, &source, err);
	if (status)
		return status;
	tauti_meter_init(&meter, options->progress, taut_clock_monotonic(),
		"listing items", 0);
	scan->meter = &meter;
	set->source = source->name;
	status = source->scan(scan, set, err);
	tauti_meter_fini(&meter);
	if (!status)
		status = tauti_set_finish(
			set, scan->arena, options->quick_find, err);
	if (!status)
		*ret_set = set;
	return status;
}

static taut_status open_paths(struct paths *paths, const char *const *given, size_t n,
	const struct taut_set_options *options, struct taut_arena *arena,
	const struct taut_set **ret_set, struct taut_error *err)
{
	struct tauti_scan scan = {
		.extensions = options->extensions ? options->extensions :
						    default_extensions,
		.empty_classes = options->empty_classes,
		.threads = options->threads,
		.arena = arena,
	};
	taut_status status = check_extensions(scan.extensions, err);

	if (!status)
		status = add_paths(paths, given, n, err);
	if (status)
		return status;
	scan.paths = paths->list.data;
	scan.n_paths = paths->list.count;
	if (!scan.n_paths)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"a set needs a path: of a folder, a list, an index or archives");
	return open_set(&scan, options, ret_set, err);
}

taut_status taut_set_open(const char *const *paths, size_t n_paths,
	const struct taut_set_options *options, struct taut_arena *arena,
	const struct taut_set **ret_set, struct taut_error *reterr)
{
	static const struct taut_set_options defaults = { .extensions = NULL };
	struct paths expanded = { .scratch = taut_arena_create() };
	taut_status status;

	if (!expanded.scratch)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for the paths of a set");
	status = open_paths(&expanded, paths, n_paths,
		options ? options : &defaults, arena, ret_set, reterr);
	taut_vec_free(&expanded.list);
	taut_arena_destroy(expanded.scratch);
	return status;
}
