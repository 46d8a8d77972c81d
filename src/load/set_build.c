/* set_build.c - columns out of what threads found, and what is counted over them. */
#include "load/set.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "load/set_keys.h"

taut_status tauti_set_no_memory(const char *path, struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1,
		"%s: no memory for the list of its items", path);
}

/* --- texts -----------------------------------------------------------------------------*/

/* Stretches stay far below 4 GiB. */
enum { LONGEST_TEXT = 1 << 20 };
_Static_assert((uint64_t)LONGEST_TEXT * TAUTI_TEXTS_STRETCH <= (uint64_t)1 << 32,
	"what begins in a stretch is told by 32 bits");

static bool find_all(struct tauti_texts *texts, uint64_t *base, uint32_t *at)
{
	const char *from = texts->bytes, *end = from + texts->size;

	for (uint64_t i = 0; i < texts->n; i++) {
		const char *zero = from < end ?
			memchr(from, 0, (size_t)(end - from)) : NULL;

		if (!zero || zero - from >= LONGEST_TEXT)
			return false;
		if (i % TAUTI_TEXTS_STRETCH == 0)
			base[i / TAUTI_TEXTS_STRETCH] =
				(uint64_t)(from - texts->bytes);
		at[i] = (uint32_t)((uint64_t)(from - texts->bytes) -
			base[i / TAUTI_TEXTS_STRETCH]);
		from = zero + 1;
	}
	return from == end;
}

taut_status tauti_texts_find(struct tauti_texts *texts, struct taut_arena *arena,
	const char *bytes, uint64_t size, uint64_t n)
{
	struct tauti_texts found = { .bytes = bytes, .size = size, .n = n };
	uint64_t *base;
	uint32_t *at;

	if (n > size)
		return TAUT_EFORMAT;
	base = TAUT_ARENA_ARRAY(arena, uint64_t, n / TAUTI_TEXTS_STRETCH + 1);
	at = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	if (!base || !at)
		return TAUT_ENOMEM;
	if (!find_all(&found, base, at))
		return TAUT_EFORMAT;
	found.base = base;
	found.at = at;
	*texts = found;
	return TAUT_OK;
}

static bool add_text(void *vec_of_char, const char *text, size_t len)
{
	TAUT_VEC(char) vec;
	bool added;

	memcpy(&vec, vec_of_char, sizeof vec);
	added = taut_vec_reserve(&vec, len + 1);
	if (added) {
		memcpy(vec.data + vec.count, text, len);
		vec.data[vec.count + len] = 0;
		vec.count += len + 1;
	}
	memcpy(vec_of_char, &vec, sizeof vec);
	return added;
}

bool tauti_part_text(struct tauti_part *part, const char *text, size_t len)
{
	return add_text(&part->texts, text, len);
}

bool tauti_part_folder(struct tauti_part *part, const char *text, size_t len)
{
	if (!add_text(&part->folders, text, len))
		return false;
	part->n_folders++;
	return true;
}

/* --- drafts ----------------------------------------------------------------------------*/

taut_status tauti_draft_init(struct tauti_draft *draft, bool whole, size_t n_parts,
	struct taut_error *err)
{
	*draft = (struct tauti_draft){ .whole = whole, .n_parts = n_parts,
		.parts = calloc(n_parts, sizeof *draft->parts) };
	if (!draft->parts) {
		draft->n_parts = 0;
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for a list of %zu parts", n_parts);
	}
	tauti_packs_init(&draft->packs);
	return TAUT_OK;
}

static void free_vecs(struct tauti_part *part)
{
	taut_vec_free(&part->rows);
	taut_vec_free(&part->texts);
	taut_vec_free(&part->folders);
}

static void free_part(struct tauti_draft *draft, struct tauti_part *part)
{
	if (part->pack) {
		tauti_packs_give(&draft->packs, part->pack);
		*part = (struct tauti_part){ .pack = NULL };
	}
	free_vecs(part);
}

/* A copy at *at, which goes on behind it; NULL of nothing. */
static void *moved(const void *from, size_t bytes, char **at)
{
	char *to = *at;

	if (!bytes)
		return NULL;
	memcpy(to, from, bytes);
	*at += bytes;
	return to;
}

/* There is no room for more. */
#define MOVE_VEC(vec, at) \
	((vec)->data = moved((vec)->data, \
		 (vec)->count * sizeof *(vec)->data, (at)), \
		(vec)->capacity = (vec)->count)

taut_status tauti_draft_keep(struct tauti_draft *draft, struct tauti_part *part,
	struct taut_error *err)
{
	struct tauti_part kept = *part;
	size_t bytes = part->rows.count * sizeof *part->rows.data +
		part->texts.count + part->folders.count;
	char *at;

	if (!bytes)
		return TAUT_OK;
	at = tauti_packs_take(&draft->packs, bytes, &kept.pack);
	if (!at)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for a list of %zu items", part->rows.count);
	MOVE_VEC(&kept.rows, &at);
	MOVE_VEC(&kept.texts, &at);
	MOVE_VEC(&kept.folders, &at);
	free_vecs(part);
	*part = kept;
	return TAUT_OK;
}

void tauti_draft_fini(struct tauti_draft *draft)
{
	for (size_t i = 0; i < draft->n_parts; i++)
		free_part(draft, &draft->parts[i]);
	if (draft->parts)
		tauti_packs_fini(&draft->packs);
	free(draft->parts);
	*draft = (struct tauti_draft){ .whole = false };
}

/* Columns while they are written. */
struct columns {
	uint32_t *bytes, *folder_of, *file;
	int32_t *label;
	uint64_t *offset, *file_bytes;
	char *texts, *folders; /* texts: names of files, or keys */
	uint64_t texts_size, folders_size, n_folders, n;
};

static void count_parts(const struct tauti_draft *draft, struct columns *columns)
{
	for (size_t i = 0; i < draft->n_parts; i++) {
		const struct tauti_part *part = &draft->parts[i];

		columns->n += part->rows.count;
		columns->texts_size += part->texts.count;
		columns->folders_size += part->folders.count;
		columns->n_folders += part->n_folders;
	}
}

static bool get_columns(struct columns *columns, bool whole, size_t n_parts,
	struct taut_arena *arena)
{
	uint64_t n = columns->n;

	columns->bytes = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	columns->label = TAUT_ARENA_ARRAY(arena, int32_t, n);
	columns->texts = taut_arena_alloc(arena, columns->texts_size);
	columns->folder_of = TAUT_ARENA_ARRAY(arena, uint32_t, whole ? n : n_parts);
	if (whole) {
		columns->folders = taut_arena_alloc(arena, columns->folders_size);
	} else {
		columns->offset = TAUT_ARENA_ARRAY(arena, uint64_t, n);
		columns->file = TAUT_ARENA_ARRAY(arena, uint32_t, n);
		columns->file_bytes = TAUT_ARENA_ARRAY(arena, uint64_t, n_parts);
	}
	return columns->bytes && columns->label && columns->texts &&
		columns->folder_of && (whole ? columns->folders != NULL :
			columns->offset && columns->file && columns->file_bytes);
}

static void copy_chars(char **at, const char *from, size_t n)
{
	if (n)
		memcpy(*at, from, n);
	*at += n;
}

static void move_rows(const struct tauti_part *part, uint32_t number,
	uint64_t first, uint64_t first_folder, const struct columns *columns)
{
	for (size_t i = 0; i < part->rows.count; i++) {
		const struct tauti_row *row = &part->rows.data[i];

		columns->bytes[first + i] = row->bytes;
		columns->label[first + i] = row->label;
		if (columns->offset) {
			columns->offset[first + i] = row->where;
			columns->file[first + i] = number;
		} else {
			columns->folder_of[first + i] =
				(uint32_t)(first_folder + row->where);
		}
	}
}

/* Each part is freed when it was moved, so that there are never two of all: pages of columns
 * are had when they are first written, and those of parts that were kept are given back. */
static void move_parts(struct tauti_draft *draft, const struct columns *columns)
{
	char *texts = columns->texts, *folders = columns->folders;
	uint64_t first = 0, first_folder = 0;

	for (size_t i = 0; i < draft->n_parts; i++) {
		struct tauti_part *part = &draft->parts[i];

		move_rows(part, (uint32_t)i, first, first_folder, columns);
		copy_chars(&texts, part->texts.data, part->texts.count);
		if (draft->whole)
			copy_chars(&folders, part->folders.data,
				part->folders.count);
		else
			columns->file_bytes[i] = part->file_bytes;
		first += part->rows.count;
		first_folder += part->n_folders;
		free_part(draft, part);
	}
}

/* --- files of archives -------------------------------------------------------------------*/

struct files {
	struct tauti_part texts; /* names and folders, as of a whole set */
	struct taut_names *folders;
	char folder[PATH_MAX];   /* of `of` */
	const char *of;
	size_t of_len;
};

/* The folder's text in the set: relative where it lies below root. */
static const char *relative(const char *folder, const char *root)
{
	size_t len = strlen(root);

	if (strncmp(folder, root, len) != 0)
		return folder;
	if (folder[len] == 0)
		return "";
	if (len > 1 && folder[len] != '/')
		return folder;
	return folder + len + (len > 1);
}

static taut_status add_file(struct files *files, const char *path, const char *root,
	uint32_t *ret_folder, struct taut_error *err)
{
	size_t len = strlen(path);
	struct tauti_split split = tauti_split(path, len);
	bool known = files->of && split.folder_len == files->of_len &&
		memcmp(files->of, path, files->of_len) == 0;
	taut_status status =
		known ? TAUT_OK : tauti_folder_of(path, files->folder, err);
	const char *folder;

	if (status)
		return status;
	files->of = path;
	files->of_len = split.folder_len;
	folder = relative(files->folder, root);
	*ret_folder = taut_names_add(files->folders, folder, strlen(folder));
	if (*ret_folder == TAUT_NONE || !tauti_part_text(&files->texts,
			path + split.name_at, len - split.name_at))
		return tauti_set_no_memory(path, err);
	return TAUT_OK;
}

static bool keep_texts(struct taut_arena *arena, struct tauti_texts *texts,
	const char *from, size_t size, uint64_t n)
{
	char *copy = taut_arena_alloc(arena, size);

	if (!copy)
		return false;
	memcpy(copy, from, size);
	return tauti_texts_find(texts, arena, copy, size, n) == TAUT_OK;
}

static bool keep_files(struct files *files, size_t n, struct taut_arena *arena,
	struct taut_set *set)
{
	uint32_t n_folders = taut_names_count(files->folders);

	for (uint32_t i = 0; i < n_folders; i++)
		if (!tauti_part_folder(&files->texts,
			    taut_names_text(files->folders, i),
			    taut_names_length(files->folders, i)))
			return false;
	return keep_texts(arena, &set->names, files->texts.texts.data,
		       files->texts.texts.count, n) &&
		keep_texts(arena, &set->folders, files->texts.folders.data,
			files->texts.folders.count, n_folders);
}

static taut_status build_files(const struct tauti_draft *draft, uint32_t *folder_of,
	struct taut_arena *arena, struct taut_set *set, struct taut_error *err)
{
	struct files files = { .folders = taut_names_create() };
	taut_status status = TAUT_OK;

	if (!files.folders)
		return tauti_set_no_memory(draft->paths[0], err);
	for (size_t i = 0; !status && i < draft->n_parts; i++)
		status = add_file(
			&files, draft->paths[i], set->root, &folder_of[i], err);
	if (!status && !keep_files(&files, draft->n_parts, arena, set))
		status = tauti_set_no_memory(draft->paths[0], err);
	taut_names_destroy(files.folders);
	free_vecs(&files.texts);
	return status;
}

/* --- build ------------------------------------------------------------------------------*/

static void set_columns(struct taut_set *set, const struct columns *columns)
{
	set->n_items = (uint32_t)columns->n;
	set->bytes = columns->bytes;
	set->label = columns->label;
	set->folder_of = columns->folder_of;
	set->offset = columns->offset;
	set->file = columns->file;
	set->file_bytes = columns->file_bytes;
}

static taut_status find_texts(const struct tauti_draft *draft,
	const struct columns *columns, struct taut_arena *arena, struct taut_set *set)
{
	taut_status status;

	if (!draft->whole)
		return tauti_texts_find(&set->keys, arena, columns->texts,
			columns->texts_size, columns->n);
	status = tauti_texts_find(&set->names, arena, columns->texts,
		columns->texts_size, columns->n);
	if (status)
		return status;
	return tauti_texts_find(&set->folders, arena, columns->folders,
		columns->folders_size, columns->n_folders);
}

taut_status tauti_draft_build(struct tauti_draft *draft, struct taut_arena *arena,
	struct taut_set *set, struct taut_error *err)
{
	struct columns columns = { .n = 0 };
	taut_status status = TAUT_OK;

	count_parts(draft, &columns);
	if (columns.n > TAUTI_SET_MOST || draft->n_parts > TAUTI_SET_MOST)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: %llu items; a set has at most %llu", set->root,
			(unsigned long long)columns.n,
			(unsigned long long)TAUTI_SET_MOST);
	if (!get_columns(&columns, draft->whole, draft->n_parts, arena))
		return tauti_set_no_memory(set->root, err);
	if (!draft->whole)
		status = build_files(draft, columns.folder_of, arena, set, err);
	if (status)
		return status;
	move_parts(draft, &columns);
	set_columns(set, &columns);
	set->n_files = (uint32_t)(draft->whole ? columns.n : draft->n_parts);
	if (find_texts(draft, &columns, arena, set))
		return tauti_set_no_memory(set->root, err);
	return TAUT_OK;
}

/* --- what is counted over all -------------------------------------------------------------*/

/* Of the path of a file, by its folder's, which most often is that of the one before. */
struct path_hash {
	uint32_t folder, file;
	uint64_t of_folder, of_file;
};

static void hash_path(const struct taut_set *set, uint32_t file, struct path_hash *hash)
{
	uint32_t folder = set->folder_of[file];
	char path[PATH_MAX];
	size_t len;

	if (file == hash->file)
		return;
	if (folder != hash->folder) {
		len = tauti_below(path, sizeof path, set->root,
			tauti_text(&set->folders, folder));
		hash->of_folder = tauti_hash(
			path, len < sizeof path ? len : sizeof path - 1);
		hash->folder = folder;
	}
	hash->of_file = tauti_key_hash_in(
		hash->of_folder, tauti_text(&set->names, file));
	hash->file = file;
}

static void sum_items(struct taut_set *set)
{
	struct path_hash hash = { .folder = TAUT_NONE, .file = TAUT_NONE };
	uint64_t print = TAUTI_HASH_A;

	set->total_bytes = set->largest_bytes = 0;
	for (uint64_t i = 0; i < set->n_items; i++) {
		uint64_t bytes = set->bytes[i];
		uint64_t offset = set->offset ? set->offset[i] : 0;

		hash_path(set, set->file ? set->file[i] : (uint32_t)i, &hash);
		print = tauti_hash_mix(print ^ hash.of_file,
			tauti_hash_mix(offset ^ TAUTI_HASH_B,
				(bytes << 32 | (uint32_t)set->label[i]) ^
					TAUTI_HASH_C));
		set->total_bytes += bytes;
		if (bytes > set->largest_bytes)
			set->largest_bytes = bytes;
	}
	set->fingerprint = tauti_hash_mix(print, set->n_items ^ TAUTI_HASH_B);
}

static void fill_slots(const struct taut_set *set, uint32_t *slots, uint32_t mask)
{
	uint32_t last = TAUT_NONE;
	uint64_t of_folder = tauti_hash("", 0);

	for (uint32_t i = 0; i < set->n_items; i++) {
		const char *name = tauti_text(
			set->offset ? &set->keys : &set->names, i);
		uint32_t at;

		if (!set->offset && set->folder_of[i] != last) {
			const char *folder;

			last = set->folder_of[i];
			folder = tauti_text(&set->folders, last);
			of_folder = tauti_hash(folder, strlen(folder));
		}
		at = (uint32_t)tauti_key_hash_in(of_folder, name) & mask;
		while (slots[at])
			at = (at + 1) & mask;
		slots[at] = i + 1;
	}
}

static bool make_slots(struct taut_set *set, struct taut_arena *arena)
{
	uint64_t n = 4;
	uint32_t *slots;

	while (n < (uint64_t)set->n_items + set->n_items / 2)
		n *= 2;
	if (n > (uint64_t)1 << 32)
		return true; /* without the table it is slow, and right */
	slots = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	if (!slots)
		return false;
	fill_slots(set, slots, (uint32_t)(n - 1));
	set->slots = slots;
	set->slot_mask = (uint32_t)(n - 1);
	return true;
}

taut_status tauti_set_finish(struct taut_set *set, struct taut_arena *arena,
	bool quick_find, struct taut_error *err)
{
	sum_items(set);
	if (quick_find && !make_slots(set, arena))
		return tauti_set_no_memory(set->root, err);
	return TAUT_OK;
}
