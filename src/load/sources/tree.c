/* tree.c - a folder with a folder a class, in the order of torchvision's ImageFolder:
 * classes by name; in a class folders by their path, and in each its files by name, all
 * compared byte by byte.
 *
 * Each class is listed by one thread: its folders in the order in which they are found,
 * each with its files, then put in order. Threads share nothing but the meter. */
#include "load/set.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct folder {
	char *path;    /* below root; of malloc */
	size_t parent; /* its own number: none */
	dev_t device;
	ino_t inode;
	TAUT_VEC(char) names; /* those that count, each with its zero, sorted */
	TAUT_VEC(uint32_t) bytes;
};

struct walk { /* of one class */
	const char *root;
	const char *extensions;
	bool flat; /* folders below count for nothing */
	dev_t device; /* of root, as the inode */
	ino_t inode;
	TAUT_VEC(struct folder) folders;
};

static bool probe(const struct tauti_look *look)
{
	return look->is_folder;
}

static taut_status path_failed(
	const char *folder, const char *name, int error, struct taut_error *err)
{
	char path[PATH_MAX];

	tauti_join(path, sizeof path, folder, name);
	return taut_error_set(err, TAUT_EIO, -1, "%s: %s", path, strerror(error));
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Follows links. A link to nowhere is no folder. */
static bool is_folder(int fd, const struct dirent *entry)
{
	struct stat about;

	if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return fstatat(fd, entry->d_name, &about, 0) == 0 && S_ISDIR(about.st_mode);
}

/* --- one folder --------------------------------------------------------------------------*/

static bool add_folder(struct walk *walk, size_t parent, const char *name)
{
	const char *above = walk->folders.count ?
		walk->folders.data[parent].path : "";
	size_t room = strlen(above) + strlen(name) + 2;
	struct folder folder = { .path = malloc(room), .parent = parent };

	if (!folder.path)
		return false;
	tauti_join(folder.path, room, above, name);
	if (taut_vec_push(&walk->folders, folder))
		return true;
	free(folder.path);
	return false;
}

/* Does the folder lie in itself, by a link? */
static bool is_loop(const struct walk *walk, size_t number)
{
	const struct folder *it = &walk->folders.data[number], *above = it;

	if (!walk->flat && it->inode == walk->inode && it->device == walk->device)
		return true;
	while (above != &walk->folders.data[above->parent]) {
		above = &walk->folders.data[above->parent];
		if (above->inode == it->inode && above->device == it->device)
			return true;
	}
	return false;
}

static bool add_name(struct folder *folder, const char *name, size_t len)
{
	if (!taut_vec_reserve(&folder->names, len + 1))
		return false;
	memcpy(folder->names.data + folder->names.count, name, len + 1);
	folder->names.count += len + 1;
	return true;
}

static taut_status read_entries(
	struct walk *walk, size_t number, DIR *stream, struct taut_error *err)
{
	struct dirent *entry;

	while (errno = 0, (entry = readdir(stream))) {
		const char *name = entry->d_name;
		size_t len = strlen(name);
		bool added = true;

		if (is_dots(name))
			continue;
		if (is_folder(dirfd(stream), entry))
			added = walk->flat || add_folder(walk, number, name);
		else if (tauti_extension_of_name(walk->extensions, name, len) >= 0)
			added = add_name(&walk->folders.data[number], name, len);
		if (!added)
			return tauti_set_no_memory(walk->root, err);
	}
	return errno ? taut_error_set(err, TAUT_EIO, -1, "%s/%s: cannot list the "
		"folder: %s", walk->root, walk->folders.data[number].path,
		strerror(errno)) : TAUT_OK;
}

/* Sizes are asked for by name, in the order of names, which on most file systems of
 * disks is no worse than any other. */
static taut_status read_sizes(struct folder *folder, int fd, const char *path,
	const char *const *names, size_t n, struct taut_error *err)
{
	if (!taut_vec_reserve(&folder->bytes, n))
		return tauti_set_no_memory(path, err);
	for (size_t i = 0; i < n; i++) {
		struct stat about;

		if (fstatat(fd, names[i], &about, 0) != 0)
			return path_failed(path, names[i], errno, err);
		if (!S_ISREG(about.st_mode))
			return taut_error_set(err, TAUT_EFORMAT, -1,
				"%s/%s: is not a file", path, names[i]);
		if (about.st_size > (off_t)UINT32_MAX)
			return taut_error_set(err, TAUT_EFORMAT, -1,
				"%s/%s: an item of %lld bytes; expected less than "
				"4 GiB", path, names[i], (long long)about.st_size);
		folder->bytes.data[folder->bytes.count++] = (uint32_t)about.st_size;
	}
	return TAUT_OK;
}

static bool sort_names(struct folder *folder, const char ***ret_names, size_t *ret_n)
{
	TAUT_VEC(const char *) list = { 0 };
	TAUT_VEC(char) sorted = { 0 };

	for (size_t at = 0; at < folder->names.count;
		at += strlen(folder->names.data + at) + 1)
		if (!taut_vec_push(&list, folder->names.data + at))
			goto free_list;
	if (!list.count || !taut_vec_reserve(&sorted, folder->names.count))
		goto free_list;
	qsort(list.data, list.count, sizeof *list.data, compare_texts);
	for (size_t i = 0; i < list.count; i++) {
		size_t size = strlen(list.data[i]) + 1;

		memcpy(sorted.data + sorted.count, list.data[i], size);
		list.data[i] = sorted.data + sorted.count;
		sorted.count += size;
	}
	taut_vec_free(&folder->names);
	memcpy(&folder->names, &sorted, sizeof sorted);
	*ret_names = list.data;
	*ret_n = list.count;
	return true;
free_list:
	taut_vec_free(&list);
	*ret_names = NULL;
	*ret_n = 0;
	return folder->names.count == 0;
}

static taut_status list_open(struct walk *walk, size_t number, DIR *stream,
	const char *path, struct taut_error *err)
{
	const char **names;
	struct stat about;
	taut_status status;
	size_t n;

	if (fstat(dirfd(stream), &about) != 0)
		return path_failed(path, "", errno, err);
	walk->folders.data[number].device = about.st_dev;
	walk->folders.data[number].inode = about.st_ino;
	if (is_loop(walk, number))
		return TAUT_OK;
	status = read_entries(walk, number, stream, err);
	if (status)
		return status;
	if (!sort_names(&walk->folders.data[number], &names, &n))
		return tauti_set_no_memory(walk->root, err);
	status = read_sizes(&walk->folders.data[number], dirfd(stream), path, names,
		n, err);
	free(names);
	return status;
}

static taut_status list_folder(struct walk *walk, size_t number, struct taut_error *err)
{
	char path[PATH_MAX];
	taut_status status;
	DIR *stream;

	if (tauti_join(path, sizeof path, walk->root,
		    walk->folders.data[number].path) >= sizeof path)
		return path_failed(path, "", ENAMETOOLONG, err);
	stream = opendir(path);
	if (!stream)
		return taut_error_set(err, TAUT_EIO, -1, "%s: cannot list the "
			"folder: %s", path, strerror(errno));
	status = list_open(walk, number, stream, path, err);
	closedir(stream);
	return status;
}

/* --- one class ---------------------------------------------------------------------------*/

static int compare_folders(const void *a, const void *b)
{
	return strcmp(((const struct folder *)a)->path,
		((const struct folder *)b)->path);
}

static bool move_folder(
	const struct folder *folder, int32_t label, struct tauti_part *part)
{
	size_t n = folder->bytes.count;

	if (!n)
		return true;
	if (!taut_vec_reserve(&part->rows, n) ||
		!taut_vec_reserve(&part->texts, folder->names.count) ||
		!tauti_part_folder(part, folder->path, strlen(folder->path)))
		return false;
	for (size_t i = 0; i < n; i++)
		part->rows.data[part->rows.count++] = (struct tauti_row){
			.where = part->n_folders - 1,
			.bytes = folder->bytes.data[i],
			.label = label,
		};
	memcpy(part->texts.data + part->texts.count, folder->names.data,
		folder->names.count);
	part->texts.count += folder->names.count;
	return true;
}

static void end_walk(struct walk *walk)
{
	for (size_t i = 0; i < walk->folders.count; i++) {
		free(walk->folders.data[i].path);
		taut_vec_free(&walk->folders.data[i].names);
		taut_vec_free(&walk->folders.data[i].bytes);
	}
	taut_vec_free(&walk->folders);
}

/* class_name: below root, "" for root itself. */
static taut_status list_class(struct walk *walk, const char *class_name, int32_t label,
	struct tauti_part *part, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	if (!add_folder(walk, 0, class_name))
		status = tauti_set_no_memory(walk->root, err);
	for (size_t i = 0; !status && i < walk->folders.count; i++)
		status = list_folder(walk, i, err);
	if (!status)
		qsort(walk->folders.data, walk->folders.count,
			sizeof *walk->folders.data, compare_folders);
	for (size_t i = 0; !status && i < walk->folders.count; i++)
		if (!move_folder(&walk->folders.data[i], label, part))
			status = tauti_set_no_memory(walk->root, err);
	end_walk(walk);
	return status;
}

/* --- all classes --------------------------------------------------------------------------*/

struct tree {
	const struct tauti_scan *scan;
	const char *root;
	dev_t device;
	ino_t inode;
	TAUT_VEC(char) texts;           /* names of classes, as they were found */
	TAUT_VEC(const char *) classes; /* sorted; into texts */
	struct tauti_draft draft;       /* a part a class; or one */
};

static taut_status read_classes(struct tree *tree, DIR *stream, struct taut_error *err)
{
	struct dirent *entry;
	struct stat about;

	if (fstat(dirfd(stream), &about) != 0)
		return path_failed(tree->root, "", errno, err);
	tree->device = about.st_dev;
	tree->inode = about.st_ino;
	while (errno = 0, (entry = readdir(stream))) {
		size_t size = strlen(entry->d_name) + 1;

		if (is_dots(entry->d_name) || !is_folder(dirfd(stream), entry))
			continue;
		if (!taut_vec_reserve(&tree->texts, size))
			return tauti_set_no_memory(tree->root, err);
		memcpy(tree->texts.data + tree->texts.count, entry->d_name, size);
		tree->texts.count += size;
	}
	return errno ? path_failed(tree->root, "", errno, err) : TAUT_OK;
}

static taut_status list_classes(struct tree *tree, struct taut_error *err)
{
	DIR *stream = opendir(tree->root);
	taut_status status;

	if (!stream)
		return taut_error_set(err, TAUT_EIO, -1, "%s: cannot list the "
			"folder: %s", tree->root, strerror(errno));
	status = read_classes(tree, stream, err);
	closedir(stream);
	for (size_t at = 0; !status && at < tree->texts.count;
		at += strlen(tree->texts.data + at) + 1)
		if (!taut_vec_push(&tree->classes, tree->texts.data + at))
			status = tauti_set_no_memory(tree->root, err);
	if (!status && tree->classes.count)
		qsort(tree->classes.data, tree->classes.count,
			sizeof *tree->classes.data, compare_texts);
	return status;
}

static taut_status list_one(void *context, size_t index, struct taut_error *err)
{
	struct tree *tree = context;
	struct tauti_part *part = &tree->draft.parts[index];
	bool flat = !tree->classes.count;
	struct walk walk = { .root = tree->root, .flat = flat,
		.device = tree->device, .inode = tree->inode,
		.extensions = tree->scan->extensions };
	const char *name = flat ? "" : tree->classes.data[index];
	taut_status status =
		list_class(&walk, name, flat ? -1 : (int32_t)index, part, err);

	tauti_meter_add(tree->scan->meter, part->rows.count);
	if (!status)
		status = tauti_draft_keep(&tree->draft, part, err);
	if (status || part->rows.count || flat || tree->scan->empty_classes)
		return status;
	return taut_error_set(err, TAUT_EFORMAT, -1, "%s/%s: a class without an item: "
		"no file below it ends in one of: %s; remove the folder, or allow "
		"empty classes", tree->root, name, tree->scan->extensions);
}

static bool keep_classes(
	const struct tree *tree, struct taut_arena *arena, struct taut_set *set)
{
	char *texts = taut_arena_alloc(arena, tree->texts.count), *at = texts;

	if (!texts)
		return false;
	for (size_t i = 0; i < tree->classes.count; i++) {
		size_t size = strlen(tree->classes.data[i]) + 1;

		memcpy(at, tree->classes.data[i], size);
		at += size;
	}
	return tauti_texts_find(&set->classes, arena, texts, tree->texts.count,
		tree->classes.count) == TAUT_OK;
}

static taut_status build(struct tree *tree, struct taut_set *set, struct taut_error *err)
{
	struct taut_arena *arena = tree->scan->arena;
	size_t n = 0;

	for (size_t i = 0; i < tree->draft.n_parts; i++)
		n += tree->draft.parts[i].rows.count;
	if (!n)
		return taut_error_set(err, TAUT_EFORMAT, -1, "%s: holds no item: no "
			"file ends in one of: %s", tree->root,
			tree->scan->extensions);
	if (!keep_classes(tree, arena, set))
		return tauti_set_no_memory(tree->root, err);
	return tauti_draft_build(&tree->draft, arena, set, err);
}

static taut_status scan_tree(struct tree *tree, struct taut_set *set, struct taut_error *err)
{
	taut_status status = list_classes(tree, err);
	size_t n = tree->classes.count ? tree->classes.count : 1;

	if (!status && n > INT32_MAX)
		status = taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: has %zu classes", tree->root, n);
	if (!status)
		status = tauti_draft_init(&tree->draft, true, n, err);
	if (!status)
		status = taut_parallel_for(
			n, tree->scan->threads, list_one, tree, err);
	return status ? status : build(tree, set, err);
}

static taut_status scan(
	const struct tauti_scan *scan, struct taut_set *set, struct taut_error *err)
{
	char root[PATH_MAX];
	struct tree tree = { .scan = scan };
	taut_status status;

	if (!realpath(scan->paths[0], root))
		return path_failed(scan->paths[0], "", errno, err);
	set->root = tree.root = taut_arena_strndup(scan->arena, root, strlen(root));
	if (!set->root)
		return tauti_set_no_memory(root, err);
	status = scan_tree(&tree, set, err);
	tauti_draft_fini(&tree.draft);
	taut_vec_free(&tree.texts);
	taut_vec_free(&tree.classes);
	return status;
}

const struct tauti_source tauti_source_tree = {
	.name = "tree",
	.probe = probe,
	.scan = scan,
};
