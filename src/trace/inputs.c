/* inputs.c - folders and file names. */
#include "trace/inputs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "trace/recording.h"

/* --- files and folders --------------------------------------------------- */

static taut_status out_of_memory(struct taut_error *err, const char *path)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "%s: no memory to list files", path);
}

static taut_status add_file(tauti_inputs *inputs, const char *path,
	const struct stat *about, size_t given, bool in_folder,
	struct taut_error *err)
{
	struct tauti_input input = {
		.path = path,
		.bytes = S_ISREG(about->st_mode) ? (uint64_t)about->st_size :
						   0,
		.given = given,
		.in_folder = in_folder,
	};
	return taut_vec_push(inputs, input) ? TAUT_OK :
					      out_of_memory(err, path);
}

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static taut_status add_folder(tauti_inputs *inputs, struct taut_arena *arena,
	const char *path, size_t given, int levels, struct taut_error *err);

/* What taut record keeps beside the ranks. */
static bool is_of_recorder(const char *name, int levels)
{
	return levels > 0 && (!strcmp(name, TAUTI_RECORDING_FILE) ||
				     !strcmp(name, TAUTI_RECORDING_PROCESSES));
}

/* An entry of a folder: a file, a folder to go into, or nothing of ours. */
static taut_status add_entry(tauti_inputs *inputs, struct taut_arena *arena,
	const char *folder, const char *name, size_t given, int levels,
	struct taut_error *err)
{
	struct stat about;
	size_t len = strlen(folder);
	const char *slash = len && folder[len - 1] == '/' ? "" : "/";
	const char *path =
		taut_arena_printf(arena, "%s%s%s", folder, slash, name);
	if (!path)
		return out_of_memory(err, folder);
	if (is_of_recorder(name, levels) || stat(path, &about) != 0)
		return TAUT_OK; /* gone, or a link to nowhere */
	if (S_ISDIR(about.st_mode) && levels > 0)
		return add_folder(
			inputs, arena, path, given, levels - 1, err);
	if (!S_ISREG(about.st_mode))
		return TAUT_OK;
	return add_file(inputs, path, &about, given, true, err);
}

static taut_status add_folder(tauti_inputs *inputs, struct taut_arena *arena,
	const char *path, size_t given, int levels, struct taut_error *err)
{
	struct dirent **entries;
	taut_status status = TAUT_OK;
	int n = scandir(path, &entries, visible, alphasort);
	if (n < 0)
		return taut_error_set(err, TAUT_EIO, -1,
			"%s: cannot list the folder: %s", path,
			strerror(errno));
	for (int i = 0; i < n; i++) {
		if (status == TAUT_OK)
			status = add_entry(inputs, arena, path,
				entries[i]->d_name, given, levels, err);
		free(entries[i]);
	}
	free(entries);
	return status;
}

taut_status tauti_inputs_add(tauti_inputs *inputs, struct taut_arena *arena,
	const char *path, size_t given, struct taut_error *err)
{
	struct stat about;
	const char *copy = taut_arena_strndup(arena, path, strlen(path));
	if (!copy)
		return out_of_memory(err, path);
	if (stat(path, &about) != 0)
		return taut_error_set(err, TAUT_EIO, -1, "%s: %s", path,
			strerror(errno));
	if (S_ISDIR(about.st_mode))
		return add_folder(inputs, arena, copy, given, 1, err);
	return add_file(inputs, copy, &about, given, false, err);
}

/* --- names --------------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The number at text, of up to five digits and with nothing but the given
 * byte (0: any) behind it; -1: there is none. */
static int32_t number_at(const char *text, const char *end, char behind)
{
	int32_t value = 0;
	const char *p = text;
	for (; p < end && is_digit(*p); p++) {
		if (p - text >= 5)
			return -1;
		value = value * 10 + (*p - '0');
	}
	if (p == text || (behind && (p == end || *p != behind)))
		return -1;
	return value;
}

/* "rank3", "rank_3", "rank-3", "Rank[3]": word, one byte perhaps, number. */
static int32_t number_after(const char *text, size_t len, const char *word)
{
	size_t word_len = strlen(word);
	const char *end = text + len;
	for (size_t i = 0; i + word_len < len; i++) {
		const char *p = text + i;
		if (strncasecmp(p, word, word_len) != 0 ||
			(i > 0 && isalpha((unsigned char)p[-1])))
			continue;
		p += word_len;
		p += p < end && strchr("-_=[.", *p) != NULL;
		int32_t value = number_at(p, end, 0);
		if (value >= 0)
			return value;
	}
	return -1;
}

/* "megatron_kineto_0.json": the number before the first point. */
static int32_t number_before_point(const char *text, size_t len)
{
	const char *end = text + len;
	const char *point = memchr(text, '.', len);
	if (!point)
		return -1;
	const char *p = point;
	while (p > text && is_digit(p[-1]))
		p--;
	if (p == text || p[-1] != '_')
		return -1;
	return number_at(p, end, '.');
}

/* "chakra.3.et": the number between two points, where the ending says that
 * it is a Chakra trace, or the name that it is one of JSON. */
static int32_t number_of_chakra(const char *text, size_t len)
{
	static const char *const endings[] = { ".et", ".et.gz", ".json",
		".json.gz" };
	bool named = len > 7 && memcmp(text, "chakra.", 7) == 0;
	for (size_t i = 0; i < (named ? 4 : 2); i++) {
		size_t end_len = strlen(endings[i]);
		if (len <= end_len || memcmp(text + len - end_len, endings[i],
					      end_len) != 0)
			continue;
		const char *point = text + len - end_len, *p = point;
		while (p > text && is_digit(p[-1]))
			p--;
		if (p < point && p > text && p[-1] == '.')
			return number_at(p, point + 1, '.');
	}
	return -1;
}

static const char *last_part(const char *path, size_t len)
{
	while (len && path[len - 1] != '/')
		len--;
	return path + len;
}

/* The length of the path of a folder whose name is "rank" and a number, in
 * which the file lies; 0: it lies elsewhere. */
static size_t rank_folder(const struct tauti_input *input)
{
	const char *path = input->path;
	const char *file = last_part(path, strlen(path));
	if (!input->in_folder || file == path)
		return 0;
	size_t len = (size_t)(file - path) - 1;
	const char *name = last_part(path, len);
	if (path + len - name < 5 || memcmp(name, "rank", 4) != 0)
		return 0;
	for (const char *p = name + 4; p < path + len; p++)
		if (!is_digit(*p))
			return 0;
	return len;
}

size_t tauti_inputs_of_rank(const struct tauti_input *inputs, size_t n)
{
	size_t len = rank_folder(inputs), same = 1;
	while (len && same < n && rank_folder(&inputs[same]) == len &&
		!memcmp(inputs[same].path, inputs->path, len))
		same++;
	return same;
}

/* Where ".<time>.pt.trace.json" begins, or NULL; the time is in milliseconds
 * or nanoseconds since 1970, so it has ten digits at least. */
static const char *before_stamp(const char *text, size_t len)
{
	static const char suffix[] = ".pt.trace.json";
	size_t suffix_len = sizeof suffix - 1;
	if (len > 3 && memcmp(text + len - 3, ".gz", 3) == 0)
		len -= 3;
	if (len < suffix_len ||
		memcmp(text + len - suffix_len, suffix, suffix_len) != 0)
		return NULL;
	const char *p = text + len - suffix_len;
	const char *end = p;
	while (p > text && is_digit(p[-1]))
		p--;
	return end - p < 10 || p == text || p[-1] != '.' ? NULL : p - 1;
}

size_t tauti_host_of_path(const char *path, const char **ret_host)
{
	size_t len = strlen(path);
	const char *name = last_part(path, len);
	const char *end = before_stamp(name, len - (size_t)(name - path));
	if (!end)
		return 0;
	const char *p = end;
	while (p > name && is_digit(p[-1]))
		p--;
	if (p == end || p == name || p[-1] != '_')
		return 0;
	*ret_host = name;
	return (size_t)(p - 1 - name);
}

int32_t tauti_rank_of_path(const char *path)
{
	const char *host;
	size_t len = strlen(path);
	const char *name = last_part(path, len);
	size_t name_len = len - (size_t)(name - path);
	int32_t rank = number_after(name, name_len, "rank");
	if (rank < 0)
		rank = number_of_chakra(name, name_len);
	if (rank >= 0)
		return rank;
	/* A pid before the point is no rank, and a host may be a worker. */
	if (!tauti_host_of_path(path, &host)) {
		rank = number_after(name, name_len, "worker");
		if (rank < 0)
			rank = number_before_point(name, name_len);
	}
	if (rank >= 0 || name == path)
		return rank;
	size_t folder_len = (size_t)(name - path) - 1;
	const char *folder = last_part(path, folder_len);
	folder_len -= (size_t)(folder - path);
	rank = number_after(folder, folder_len, "rank");
	return rank >= 0 ? rank : number_after(folder, folder_len, "worker");
}

int32_t tauti_rank_at_end(const char *path)
{
	size_t len = strlen(path);
	const char *end = path + len, *name = last_part(path, len), *p = end;
	if (strchr(name, '.'))
		return -1;
	while (p > name && is_digit(p[-1]))
		p--;
	return number_at(p, end, 0);
}
