/* set.c - what a set tells of itself; nothing here changes it. */
#include "load/set.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "load/set_keys.h"

const char *taut_set_source(const struct taut_set *set)
{
	return set->source;
}

uint64_t taut_set_count(const struct taut_set *set)
{
	return set->n_items;
}

uint64_t taut_set_bytes(const struct taut_set *set)
{
	return set->total_bytes;
}

uint64_t taut_set_largest(const struct taut_set *set)
{
	return set->largest_bytes;
}

uint64_t taut_set_fingerprint(const struct taut_set *set)
{
	return set->fingerprint;
}

uint32_t taut_set_classes(const struct taut_set *set)
{
	return (uint32_t)set->classes.n;
}

const char *taut_set_class(const struct taut_set *set, uint32_t label)
{
	assert(label < set->classes.n);
	return tauti_text(&set->classes, label);
}

int taut_set_whole(const struct taut_set *set)
{
	return set->offset == NULL;
}

struct taut_set_item taut_set_at(const struct taut_set *set, uint64_t item)
{
	bool whole = taut_set_whole(set);

	assert(item < set->n_items);
	return (struct taut_set_item){
		.offset = whole ? 0 : set->offset[item],
		.bytes = set->bytes[item],
		.label = set->label[item],
		.file = whole ? (uint32_t)item : set->file[item],
	};
}

uint32_t taut_set_files(const struct taut_set *set)
{
	return set->n_files;
}

uint64_t taut_set_file_bytes(const struct taut_set *set, uint32_t file)
{
	assert(file < set->n_files);
	return taut_set_whole(set) ? set->bytes[file] : set->file_bytes[file];
}

/* --- paths and keys ------------------------------------------------------------------- */

struct tauti_split tauti_split(const char *path, size_t len)
{
	const char *slash = memrchr(path, '/', len);
	size_t folder_len;

	if (!slash)
		return (struct tauti_split){ 0, 0 };
	for (folder_len = (size_t)(slash - path); folder_len > 1; folder_len--)
		if (path[folder_len - 1] != '/')
			break;
	/* "/c": the folder is the slash. */
	return (struct tauti_split){ folder_len ? folder_len : 1,
		(size_t)(slash - path) + 1 };
}

static size_t append(char *into, size_t room, size_t at, const char *text, size_t n)
{
	if (at + 1 < room)
		memcpy(into + at, text, n < room - at - 1 ? n : room - at - 1);
	return at + n;
}

static size_t end(char *into, size_t room, size_t at)
{
	if (room)
		into[at < room ? at : room - 1] = 0;
	return at;
}

static size_t append_part(
	char *into, size_t room, size_t at, char last, const char *text)
{
	if (at && last != '/' && *text)
		at = append(into, room, at, "/", 1);
	return append(into, room, at, text, strlen(text));
}

static char last_of(const char *text)
{
	size_t len = strlen(text);

	return len ? text[len - 1] : 0;
}

size_t tauti_join(char *into, size_t room, const char *folder, const char *name)
{
	size_t at = append(into, room, 0, folder, strlen(folder));

	at = append_part(into, room, at, last_of(folder), name);
	return end(into, room, at);
}

size_t tauti_below(char *into, size_t room, const char *root, const char *folder)
{
	return tauti_join(into, room, folder[0] == '/' ? "" : root, folder);
}

size_t taut_set_path(
	const struct taut_set *set, uint32_t file, char *into, size_t room)
{
	const char *folder;
	size_t at = 0;
	char last = 0;

	assert(file < set->n_files);
	folder = tauti_text(&set->folders, set->folder_of[file]);
	if (folder[0] != '/') {
		at = append(into, room, 0, set->root, strlen(set->root));
		last = last_of(set->root);
	}
	at = append_part(into, room, at, last, folder);
	last = folder[0] ? last_of(folder) : last;
	at = append_part(into, room, at, last, tauti_text(&set->names, file));
	return end(into, room, at);
}

size_t taut_set_key(
	const struct taut_set *set, uint64_t item, char *into, size_t room)
{
	assert(item < set->n_items);
	if (taut_set_whole(set))
		return tauti_join(into, room,
			tauti_text(&set->folders, set->folder_of[item]),
			tauti_text(&set->names, item));
	return tauti_join(into, room, "", tauti_text(&set->keys, item));
}

/* --- find ------------------------------------------------------------------------------*/

static bool is_folder_named(
	const struct taut_set *set, uint64_t item, const char *folder, size_t len)
{
	const char *text = tauti_text(&set->folders, set->folder_of[item]);

	return strncmp(text, folder, len) == 0 && text[len] == 0;
}

static bool is_key(const struct taut_set *set, uint64_t item, const char *key,
	const struct tauti_split *split)
{
	if (!taut_set_whole(set))
		return strcmp(tauti_text(&set->keys, item), key) == 0;
	return strcmp(tauti_text(&set->names, item), key + split->name_at) == 0 &&
		is_folder_named(set, item, key, split->folder_len);
}

/* A later item never lies before an earlier one of the same key: they went into the
 * table in their order, and none ever left it. */
static uint64_t find_slot(const struct taut_set *set, const char *key,
	const struct tauti_split *split)
{
	uint64_t hash = taut_set_whole(set) ?
		tauti_key_hash(key, split->folder_len, key + split->name_at) :
		tauti_key_hash("", 0, key);

	for (uint32_t at = (uint32_t)hash & set->slot_mask; set->slots[at];
		at = (at + 1) & set->slot_mask)
		if (is_key(set, set->slots[at] - 1, key, split))
			return set->slots[at] - 1;
	return UINT64_MAX;
}

uint64_t taut_set_find(const struct taut_set *set, const char *key)
{
	struct tauti_split split = tauti_split(key, strlen(key));

	if (set->slots)
		return find_slot(set, key, &split);
	for (uint64_t item = 0; item < set->n_items; item++)
		if (is_key(set, item, key, &split))
			return item;
	return UINT64_MAX;
}

/* --- check -----------------------------------------------------------------------------*/

enum { CHECK_TOGETHER = 1024 };

static taut_status check_file(
	const struct taut_set *set, uint32_t file, struct taut_error *err)
{
	uint64_t expected = taut_set_file_bytes(set, file);
	char path[PATH_MAX];
	struct stat about;

	if (taut_set_path(set, file, path, sizeof path) >= sizeof path)
		return taut_error_set(
			err, TAUT_EIO, -1, "%s: %s", path, strerror(ENAMETOOLONG));
	if (stat(path, &about) != 0)
		return taut_error_set(
			err, TAUT_EIO, -1, "%s: %s", path, strerror(errno));
	if ((uint64_t)about.st_size != expected)
		return taut_error_set(err, TAUT_EMATCH, -1,
			"%s: has %lld bytes; it had %llu when the set was made",
			path, (long long)about.st_size,
			(unsigned long long)expected);
	return TAUT_OK;
}

static taut_status check_files(void *context, size_t index, struct taut_error *err)
{
	const struct taut_set *set = context;
	uint64_t first = (uint64_t)index * CHECK_TOGETHER;

	for (uint64_t i = first; i < first + CHECK_TOGETHER && i < set->n_files; i++) {
		taut_status status = check_file(set, (uint32_t)i, err);

		if (status)
			return status;
	}
	return TAUT_OK;
}

taut_status taut_set_check(
	const struct taut_set *set, unsigned threads, struct taut_error *reterr)
{
	size_t n = ((size_t)set->n_files + CHECK_TOGETHER - 1) / CHECK_TOGETHER;

	return taut_parallel_for(n, threads, check_files, (void *)set, reterr);
}
