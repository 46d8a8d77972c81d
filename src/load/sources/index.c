/* index.c - reads what index_write.c wrote. */
#include "load/sources/index.h"

#include <isa-l/crc64.h>
#include <limits.h>
#include <string.h>

#include "load/sources/file.h"

static bool probe(const struct tauti_look *look)
{
	return look->head_bytes >= 8 &&
		memcmp(look->head, TAUTI_INDEX_MAGIC, 8) == 0;
}

uint64_t tauti_index_sum(uint64_t before, const void *bytes, size_t n)
{
	return crc64_ecma_refl(before, bytes, n);
}

/* --- layout ------------------------------------------------------------------------------*/

bool tauti_index_lay(const struct tauti_index_header *header,
	struct tauti_index_layout *ret_layout)
{
	const uint64_t most = (uint64_t)1 << 56;
	bool whole = header->whole;
	uint64_t items = header->n_items;
	uint64_t at = sizeof *header;
	struct tauti_index_layout layout = { .bytes = {
		[TAUTI_INDEX_ROOT] = header->root_bytes,
		[TAUTI_INDEX_CLASSES] = header->classes_bytes,
		[TAUTI_INDEX_FOLDERS] = header->folders_bytes,
		[TAUTI_INDEX_NAMES] = header->names_bytes,
		[TAUTI_INDEX_KEYS] = header->keys_bytes,
	} };

	if (items > TAUTI_SET_MOST || header->n_files > TAUTI_SET_MOST)
		return false;
	layout.bytes[TAUTI_INDEX_FOLDER_OF] = (uint64_t)header->n_files * 4;
	layout.bytes[TAUTI_INDEX_FILE_BYTES] =
		whole ? 0 : (uint64_t)header->n_files * 8;
	layout.bytes[TAUTI_INDEX_OFFSET] = whole ? 0 : items * 8;
	layout.bytes[TAUTI_INDEX_FILE] = whole ? 0 : items * 4;
	layout.bytes[TAUTI_INDEX_BYTES] = items * 4;
	layout.bytes[TAUTI_INDEX_LABEL] = items * 4;
	for (int i = 0; i < TAUTI_INDEX_PARTS; i++) {
		if (layout.bytes[i] > most)
			return false;
		layout.at[i] = at;
		at += (layout.bytes[i] + 7) & ~(uint64_t)7;
	}
	layout.at[TAUTI_INDEX_PARTS] = at;
	*ret_layout = layout;
	return true;
}

/* --- header and checksum --------------------------------------------------------------------*/

static taut_status fault(
	const char *path, uint64_t at, const char *what, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EFORMAT, (int64_t)at,
		"%s: byte %llu: the index is damaged: %s; make it anew", path,
		(unsigned long long)at, what);
}

static taut_status check_version(const struct tauti_index_header *header,
	const char *path, struct taut_error *err)
{
	if (memcmp(header->magic, TAUTI_INDEX_MAGIC, 8) != 0)
		return taut_error_set(err, TAUT_EFORMAT, 0,
			"%s: byte 0: not an index of a set", path);
	if (header->version == TAUTI_INDEX_VERSION &&
		header->header_bytes == sizeof *header)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EFORMAT, 8, "%s: byte 8: an index of version "
		"%lu; expected version %d: make it anew", path,
		(unsigned long)header->version, TAUTI_INDEX_VERSION);
}

static taut_status check_size(const struct tauti_index_header *header, size_t size,
	const char *path, struct taut_error *err)
{
	if (header->index_bytes == size)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EFORMAT, (int64_t)size, "%s: byte %zu: the "
		"index ends; by its header it has %llu bytes: it was cut short, or is "
		"damaged", path, size, (unsigned long long)header->index_bytes);
}

static taut_status read_header(const char *bytes, size_t size, const char *path,
	struct tauti_index_header *ret_header, struct tauti_index_layout *ret_layout,
	struct taut_error *err)
{
	struct tauti_index_header header;
	taut_status status;
	uint64_t sum;

	if (size < sizeof header + sizeof sum)
		return taut_error_set(err, TAUT_EFORMAT, (int64_t)size,
			"%s: byte %zu: the index ends in its header", path, size);
	memcpy(&header, bytes, sizeof header);
	status = check_version(&header, path, err);
	if (!status)
		status = check_size(&header, size, path, err);
	if (status)
		return status;
	memcpy(&sum, bytes + size - sizeof sum, sizeof sum);
	if (sum != tauti_index_sum(0, bytes, size - sizeof sum))
		return fault(path, size - sizeof sum, "its checksum is another", err);
	if (!tauti_index_lay(&header, ret_layout) ||
		ret_layout->at[TAUTI_INDEX_PARTS] + sizeof sum != size)
		return fault(path, 16, "its parts are not as long as it is", err);
	*ret_header = header;
	return TAUT_OK;
}

/* --- what the columns say -------------------------------------------------------------------*/

struct index {
	const char *bytes, *path, *folder;
	struct tauti_index_header header;
	struct tauti_index_layout layout;
	struct taut_arena *arena;
};

static const void *part_of(const struct index *index, enum tauti_index_part part)
{
	return index->bytes + index->layout.at[part];
}

static taut_status part_fault(const struct index *index, enum tauti_index_part part,
	const char *what, struct taut_error *err)
{
	return fault(index->path, index->layout.at[part], what, err);
}

static taut_status read_texts(const struct index *index, enum tauti_index_part part,
	uint64_t n, struct tauti_texts *texts, struct taut_error *err)
{
	taut_status status = tauti_texts_find(texts, index->arena,
		part_of(index, part), index->layout.bytes[part], n);

	if (status == TAUT_EFORMAT)
		return part_fault(index, part, "it has not as many texts", err);
	return status ? tauti_set_no_memory(index->path, err) : TAUT_OK;
}

static taut_status read_root(
	const struct index *index, struct taut_set *set, struct taut_error *err)
{
	const char *text = part_of(index, TAUTI_INDEX_ROOT);
	uint64_t n = index->layout.bytes[TAUTI_INDEX_ROOT];
	char root[PATH_MAX];
	size_t len;

	if (!n || memchr(text, 0, n) != text + n - 1)
		return part_fault(index, TAUTI_INDEX_ROOT, "root is no text", err);
	len = tauti_below(root, sizeof root, index->folder, text);
	if (len >= sizeof root)
		return part_fault(index, TAUTI_INDEX_ROOT, "root is too long", err);
	set->root = taut_arena_strndup(index->arena, root, len);
	return set->root ? TAUT_OK : tauti_set_no_memory(index->path, err);
}

static taut_status read_all_texts(
	const struct index *index, struct taut_set *set, struct taut_error *err)
{
	const struct tauti_index_header *header = &index->header;
	taut_status status = read_root(index, set, err);

	if (!status)
		status = read_texts(index, TAUTI_INDEX_CLASSES, header->n_classes,
			&set->classes, err);
	if (!status)
		status = read_texts(index, TAUTI_INDEX_FOLDERS, header->n_folders,
			&set->folders, err);
	if (!status)
		status = read_texts(index, TAUTI_INDEX_NAMES, header->n_files,
			&set->names, err);
	if (!status)
		status = read_texts(index, TAUTI_INDEX_KEYS,
			header->whole ? 0 : header->n_items, &set->keys, err);
	return status;
}

static void point_columns(const struct index *index, struct taut_set *set)
{
	set->n_items = (uint32_t)index->header.n_items;
	set->n_files = index->header.n_files;
	set->folder_of = part_of(index, TAUTI_INDEX_FOLDER_OF);
	set->bytes = part_of(index, TAUTI_INDEX_BYTES);
	set->label = part_of(index, TAUTI_INDEX_LABEL);
	if (index->header.whole)
		return;
	set->file_bytes = part_of(index, TAUTI_INDEX_FILE_BYTES);
	set->offset = part_of(index, TAUTI_INDEX_OFFSET);
	set->file = part_of(index, TAUTI_INDEX_FILE);
}

/* As tauti_split() has them: a key is looked for by its parts. */
static taut_status check_names(
	const struct index *index, const struct taut_set *set, struct taut_error *err)
{
	for (uint64_t i = 0; i < set->folders.n; i++) {
		const char *folder = tauti_text(&set->folders, i);
		size_t len = strlen(folder);

		if (len > 1 && folder[len - 1] == '/')
			return part_fault(index, TAUTI_INDEX_FOLDERS,
				"a folder ends in '/'", err);
	}
	for (uint64_t i = 0; i < set->names.n; i++) {
		const char *name = tauti_text(&set->names, i);

		if (!name[0] || strchr(name, '/'))
			return part_fault(index, TAUTI_INDEX_NAMES,
				"a name is none of a file", err);
	}
	return TAUT_OK;
}

static taut_status check_files(
	const struct index *index, const struct taut_set *set, struct taut_error *err)
{
	for (uint32_t i = 0; i < set->n_files; i++)
		if (set->folder_of[i] >= index->header.n_folders)
			return part_fault(index, TAUTI_INDEX_FOLDER_OF,
				"a file is in a folder that is not there", err);
	return check_names(index, set, err);
}

static taut_status check_items(
	const struct index *index, const struct taut_set *set, struct taut_error *err)
{
	if (!set->n_items)
		return part_fault(index, TAUTI_INDEX_BYTES, "it has no item", err);
	if (!set->offset)
		return set->n_files == set->n_items ? TAUT_OK :
			part_fault(index, TAUTI_INDEX_BYTES,
				"it has not as many items as files", err);
	for (uint32_t i = 0; i < set->n_items; i++) {
		if (set->file[i] >= set->n_files)
			return part_fault(index, TAUTI_INDEX_FILE,
				"an item is in a file that is not there", err);
		if (set->offset[i] > set->file_bytes[set->file[i]] ||
			set->bytes[i] >
				set->file_bytes[set->file[i]] - set->offset[i])
			return part_fault(index, TAUTI_INDEX_OFFSET,
				"an item ends behind its file", err);
	}
	return TAUT_OK;
}

/* --- read -----------------------------------------------------------------------------------*/

taut_status tauti_index_parse(const char *bytes, size_t size, const char *path,
	const char *folder, struct taut_arena *arena, struct taut_set *set,
	struct taut_error *err)
{
	struct index index = { .bytes = bytes, .path = path, .folder = folder,
		.arena = arena };
	taut_status status = read_header(
		bytes, size, path, &index.header, &index.layout, err);

	if (!status)
		status = read_all_texts(&index, set, err);
	if (status)
		return status;
	point_columns(&index, set);
	status = check_files(&index, set, err);
	return status ? status : check_items(&index, set, err);
}

static taut_status scan(
	const struct tauti_scan *scan, struct taut_set *set, struct taut_error *err)
{
	const char *path = scan->paths[0];
	char folder[PATH_MAX], *bytes;
	size_t size;
	taut_status status = tauti_folder_of(path, folder, err);

	if (!status)
		status = tauti_file_read(path, scan->arena, &bytes, &size, err);
	if (!status)
		status = tauti_index_parse(
			bytes, size, path, folder, scan->arena, set, err);
	tauti_meter_add(scan->meter, set->n_items);
	return status;
}

const struct tauti_source tauti_source_index = {
	.name = "index",
	.probe = probe,
	.scan = scan,
};
