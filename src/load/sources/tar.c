/* tar.c - archives in the form of WebDataset: members that follow each other under one key
 * are a sample. An archive is scanned by one thread, header by header; what members hold is
 * not read, but for labels. */
#include "load/set.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "load/sources/archive.h"
#include "load/sources/tar.h"

/* What is packed as a whole has no places to read at. */
static const struct packing {
	const char *name, *unpack;
	size_t len;
	const char *magic;
} packings[] = {
	{ "gzip", "gunzip", 3, "\x1f\x8b\x08" },
	{ "zstd", "unzstd", 4, "\x28\xb5\x2f\xfd" },
	{ "xz", "unxz", 6, "\xfd" "7zXZ" },
	{ "bzip2", "bunzip2", 3, "BZh" },
	{ "lz4", "unlz4", 4, "\x04\x22\x4d\x18" },
};

static const struct packing *packing_of(const unsigned char *head, size_t n)
{
	for (size_t i = 0; i < sizeof packings / sizeof *packings; i++)
		if (n >= packings[i].len &&
			memcmp(head, packings[i].magic, packings[i].len) == 0)
			return &packings[i];
	return NULL;
}

/* A packed file is taken, to be refused with what helps. */
static bool probe(const struct tauti_look *look)
{
	return !look->is_folder &&
		(tauti_archive_is_header(look->head, look->head_bytes) ||
			(look->head_bytes >= 262 &&
				memcmp(look->head + 257, "ustar", 5) == 0) ||
			packing_of(look->head, look->head_bytes));
}

/* --- samples ------------------------------------------------------------------------------*/

struct sample { /* the one that members are added to */
	size_t key_at, key_len; /* in the part's texts; key_len 0: none */
	struct tauti_row row;
	int rank; /* of the extension of row; -1: it has no payload yet */
	bool has_label;
};

struct name { /* "key" "." "extension" */
	size_t key_len, extension_at;
};

/* False: it is none of a sample, as ".hidden", "a/README", "__meta__/x.json". */
static bool read_name(const struct tauti_member *member, struct name *ret)
{
	const char *text = member->name, *end = text + member->name_len;
	const char *slash = memrchr(text, '/', member->name_len);
	const char *base = slash ? slash + 1 : text;
	const char *point = memchr(base, '.', (size_t)(end - base));
	const char *first = memchr(text, '/', member->name_len);
	size_t first_len = (size_t)((first ? first : end) - text);

	if (!point || point == base)
		return false;
	if (first_len >= 4 && memcmp(text, "__", 2) == 0 &&
		memcmp(text + first_len - 2, "__", 2) == 0)
		return false;
	*ret = (struct name){ (size_t)(point - text), (size_t)(point + 1 - text) };
	return true;
}

static taut_status member_fault(const struct tauti_archive *archive,
	const struct tauti_member *member, const char *what, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EFORMAT, (int64_t)member->at,
		"%s: byte %llu: '%s': %s", archive->bytes->path,
		(unsigned long long)member->at,
		tauti_shown(member->name, member->name_len).text, what);
}

/* A sample without a payload leaves nothing. */
static bool end_sample(struct sample *sample, struct tauti_part *part)
{
	bool ended = true;

	if (sample->key_len && sample->rank < 0)
		part->texts.count = sample->key_at;
	else if (sample->key_len)
		ended = taut_vec_push(&part->rows, sample->row);
	sample->key_len = 0;
	return ended;
}

static bool begin_sample(struct sample *sample, struct tauti_part *part,
	const char *key, size_t len)
{
	*sample = (struct sample){ .key_at = part->texts.count, .key_len = len,
		.rank = -1, .row.label = -1 };
	return tauti_part_text(part, key, len);
}

static bool is_same(const struct sample *sample, const struct tauti_part *part,
	const char *key, size_t len)
{
	return sample->key_len == len && len &&
		memcmp(part->texts.data + sample->key_at, key, len) == 0;
}

static taut_status take_label(const struct tauti_archive *archive,
	const struct tauti_member *member, struct sample *sample, struct taut_error *err)
{
	enum { MOST_BYTES = 64 };
	const unsigned char *at;
	taut_status status;

	if (sample->has_label)
		return member_fault(archive, member,
			"a second label of the same sample", err);
	if (member->bytes > MOST_BYTES)
		return member_fault(archive, member, "a label of more than 64 bytes; "
			"expected an integer", err);
	status = tauti_archive_read(archive->bytes, member->offset,
		(size_t)member->bytes, &at, err);
	if (status)
		return status;
	if (!tauti_label_of((const char *)at, (size_t)member->bytes,
		    &sample->row.label))
		return member_fault(archive, member, "is no label; expected an integer "
			"of 32 bits", err);
	sample->has_label = true;
	return TAUT_OK;
}

static taut_status take_payload(const struct tauti_archive *archive,
	const struct tauti_member *member, int rank, struct sample *sample,
	struct taut_error *err)
{
	if (rank == sample->rank)
		return member_fault(archive, member, "a second member of that ending "
			"in the same sample; expected one", err);
	if (sample->rank >= 0 && sample->rank < rank)
		return TAUT_OK;
	if (member->bytes > UINT32_MAX)
		return member_fault(archive, member,
			"an item of 4 GiB or more; expected less", err);
	sample->rank = rank;
	sample->row.where = member->offset;
	sample->row.bytes = (uint32_t)member->bytes;
	return TAUT_OK;
}

static taut_status take_member(const struct tauti_archive *archive,
	const struct tauti_member *member, const char *extensions,
	struct sample *sample, struct tauti_part *part, struct taut_error *err)
{
	const char *extension;
	struct name name;
	size_t len;
	int rank;

	if (!read_name(member, &name))
		return TAUT_OK;
	if (!is_same(sample, part, member->name, name.key_len) &&
		(!end_sample(sample, part) ||
			!begin_sample(sample, part, member->name, name.key_len)))
		return tauti_set_no_memory(archive->bytes->path, err);
	extension = member->name + name.extension_at;
	len = member->name_len - name.extension_at;
	rank = tauti_extension(extensions, extension, len);
	if (rank >= 0)
		return take_payload(archive, member, rank, sample, err);
	if (tauti_extension("cls", extension, len) == 0)
		return take_label(archive, member, sample, err);
	return TAUT_OK;
}

taut_status tauti_tar_scan(struct tauti_archive_bytes *bytes, const char *extensions,
	struct tauti_part *part, struct taut_error *err)
{
	struct tauti_archive archive;
	struct sample sample = { .key_len = 0 };
	taut_status status = TAUT_OK;
	bool end = false;

	tauti_archive_init(&archive, bytes);
	while (!status && !end) {
		struct tauti_member member;

		status = tauti_archive_next(&archive, &member, &end, err);
		if (!status && !end)
			status = take_member(&archive, &member, extensions,
				&sample, part, err);
	}
	if (!status && !end_sample(&sample, part))
		status = tauti_set_no_memory(bytes->path, err);
	part->file_bytes = bytes->size;
	tauti_archive_fini(&archive);
	return status;
}

/* --- archives -----------------------------------------------------------------------------*/

struct shards {
	const struct tauti_scan *scan;
	struct tauti_draft draft; /* a part an archive */
};

static taut_status refuse(const char *path, const struct tauti_look *look,
	struct taut_error *err)
{
	const struct packing *packing = packing_of(look->head, look->head_bytes);

	if (packing)
		return taut_error_set(err, TAUT_EFORMAT, 0, "%s: is compressed with "
			"%s, so no item can be read by itself; unpack it first: "
			"%s %s", path, packing->name, packing->unpack, path);
	if (look->is_folder || !look->head_bytes)
		return taut_error_set(err, TAUT_EFORMAT, 0, "%s: is %s; expected a tar "
			"archive", path, look->is_folder ? "a folder" : "empty");
	return TAUT_OK;
}

static taut_status scan_open(const struct tauti_scan *scan, const char *path, int fd,
	struct tauti_part *part, struct taut_error *err)
{
	struct tauti_archive_bytes *bytes = malloc(sizeof *bytes);
	struct stat about;
	taut_status status;

	if (!bytes)
		return tauti_set_no_memory(path, err);
	bytes->path = path;
	bytes->memory = NULL;
	bytes->fd = fd;
	bytes->at = bytes->n = 0;
	if (fstat(fd, &about) != 0) {
		status = taut_error_set(
			err, TAUT_EIO, -1, "%s: %s", path, strerror(errno));
	} else {
		bytes->size = (uint64_t)about.st_size;
		/* Headers are far apart: what lies between need not be read. */
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
		status = tauti_tar_scan(bytes, scan->extensions, part, err);
	}
	free(bytes);
	return status;
}

static taut_status scan_shard(void *context, size_t index, struct taut_error *err)
{
	struct shards *shards = context;
	const char *path = shards->scan->paths[index];
	struct tauti_part *part = &shards->draft.parts[index];
	struct tauti_look look;
	taut_status status = tauti_look_at(path, &look, err);
	int fd;

	if (!status)
		status = refuse(path, &look, err);
	if (status)
		return status;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return taut_error_set(
			err, TAUT_EIO, -1, "%s: %s", path, strerror(errno));
	status = scan_open(shards->scan, path, fd, part, err);
	close(fd);
	tauti_meter_add(shards->scan->meter, part->rows.count);
	return status ? status : tauti_draft_keep(&shards->draft, part, err);
}

static taut_status build(struct shards *shards, struct taut_set *set, struct taut_error *err)
{
	const struct tauti_scan *scan = shards->scan;
	size_t n = 0;

	for (size_t i = 0; i < shards->draft.n_parts; i++)
		n += shards->draft.parts[i].rows.count;
	if (!n)
		return taut_error_set(err, TAUT_EFORMAT, -1, "%s: holds no item: no "
			"member's name goes on, behind its first point, with one "
			"of: %s", scan->paths[0], scan->extensions);
	return tauti_draft_build(&shards->draft, scan->arena, set, err);
}

static taut_status scan(
	const struct tauti_scan *scan, struct taut_set *set, struct taut_error *err)
{
	struct shards shards = { .scan = scan };
	char root[PATH_MAX];
	taut_status status = tauti_folder_of(scan->paths[0], root, err);

	if (status)
		return status;
	set->root = taut_arena_strndup(scan->arena, root, strlen(root));
	if (!set->root)
		return tauti_set_no_memory(root, err);
	status = tauti_draft_init(&shards.draft, false, scan->n_paths, err);
	shards.draft.paths = scan->paths;
	if (!status)
		status = taut_parallel_for(scan->n_paths, scan->threads, scan_shard,
			&shards, err);
	if (!status)
		status = build(&shards, set, err);
	tauti_draft_fini(&shards.draft);
	return status;
}

const struct tauti_source tauti_source_tar = {
	.name = "tar",
	.several = true,
	.probe = probe,
	.scan = scan,
};
