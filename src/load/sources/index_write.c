/* index_write.c - writes a set, so that it need not be scanned again. */
#include "load/sources/index.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"

struct out {
	const char *path; /* what it will be */
	char draft[PATH_MAX];
	int fd;
	uint64_t at, sum;
};

static taut_status write_failed(const struct out *out, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EIO, -1, "%s: cannot be written: %s",
		out->path, strerror(errno));
}

static taut_status put(
	struct out *out, const void *bytes, size_t n, struct taut_error *err)
{
	enum { TOGETHER = 1 << 26 };
	const char *from = bytes;

	out->sum = tauti_index_sum(out->sum, bytes, n);
	out->at += n;
	while (n) {
		ssize_t written = write(out->fd, from, n < TOGETHER ? n : TOGETHER);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return write_failed(out, err);
		from += written;
		n -= (size_t)written;
	}
	return TAUT_OK;
}

/* root, as the index has it. */
static const char *relative_root(const char *root, const char *folder)
{
	size_t len = strlen(folder);

	if (len == 1) /* "/" */
		return root + 1;
	if (strncmp(root, folder, len) != 0 || (root[len] && root[len] != '/'))
		return root;
	return root + len + (root[len] == '/');
}

static struct tauti_index_header describe(const struct taut_set *set, const char *root)
{
	struct tauti_index_header header = {
		.version = TAUTI_INDEX_VERSION,
		.header_bytes = sizeof header,
		.root_bytes = strlen(root) + 1,
		.classes_bytes = set->classes.size,
		.folders_bytes = set->folders.size,
		.names_bytes = set->names.size,
		.keys_bytes = set->keys.size,
		.n_items = set->n_items,
		.n_files = set->n_files,
		.n_folders = (uint32_t)set->folders.n,
		.n_classes = (uint32_t)set->classes.n,
		.whole = set->offset == NULL,
	};

	memcpy(header.magic, TAUTI_INDEX_MAGIC, sizeof header.magic);
	return header;
}

static taut_status put_parts(struct out *out, const struct taut_set *set,
	const char *root, const struct tauti_index_layout *layout, struct taut_error *err)
{
	static const char zeros[8];
	const void *parts[TAUTI_INDEX_PARTS] = {
		[TAUTI_INDEX_ROOT] = root,
		[TAUTI_INDEX_CLASSES] = set->classes.bytes,
		[TAUTI_INDEX_FOLDERS] = set->folders.bytes,
		[TAUTI_INDEX_NAMES] = set->names.bytes,
		[TAUTI_INDEX_KEYS] = set->keys.bytes,
		[TAUTI_INDEX_FOLDER_OF] = set->folder_of,
		[TAUTI_INDEX_FILE_BYTES] = set->file_bytes,
		[TAUTI_INDEX_OFFSET] = set->offset,
		[TAUTI_INDEX_FILE] = set->file,
		[TAUTI_INDEX_BYTES] = set->bytes,
		[TAUTI_INDEX_LABEL] = set->label,
	};

	for (int i = 0; i < TAUTI_INDEX_PARTS; i++) {
		taut_status status = layout->bytes[i] ?
			put(out, parts[i], layout->bytes[i], err) : TAUT_OK;

		if (!status && out->at < layout->at[i + 1])
			status = put(out, zeros, layout->at[i + 1] - out->at, err);
		if (status)
			return status;
	}
	return TAUT_OK;
}

static taut_status put_set(struct out *out, const struct taut_set *set,
	const char *root, struct taut_error *err)
{
	struct tauti_index_header header = describe(set, root);
	struct tauti_index_layout layout;
	taut_status status;
	uint64_t sum;

	if (!tauti_index_lay(&header, &layout))
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%s: the set is too large for an index", out->path);
	header.index_bytes = layout.at[TAUTI_INDEX_PARTS] + sizeof sum;
	status = put(out, &header, sizeof header, err);
	if (!status)
		status = put_parts(out, set, root, &layout, err);
	sum = out->sum;
	return status ? status : put(out, &sum, sizeof sum, err);
}

/* Beside the path, so that to rename it is one step; a name that no other process and no
 * other thread takes. */
static taut_status open_draft(struct out *out, struct taut_error *err)
{
	for (int i = 0; i < 100; i++) {
		int n = snprintf(out->draft, sizeof out->draft, "%s.%ld-%llx",
			out->path, (long)getpid(),
			(unsigned long long)tauti_now_ns());

		if (n < 0 || (size_t)n >= sizeof out->draft) {
			errno = ENAMETOOLONG;
			break;
		}
		out->fd = open(out->draft,
			O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (out->fd >= 0)
			return TAUT_OK;
		if (errno != EEXIST)
			break;
	}
	return write_failed(out, err);
}

static taut_status end_draft(
	struct out *out, taut_status status, struct taut_error *err)
{
	if (!status && fsync(out->fd) != 0)
		status = write_failed(out, err);
	if (close(out->fd) != 0 && !status)
		status = write_failed(out, err);
	if (!status && rename(out->draft, out->path) != 0)
		status = write_failed(out, err);
	if (status)
		(void)unlink(out->draft);
	return status;
}

taut_status taut_set_write(
	const struct taut_set *set, const char *path, struct taut_error *reterr)
{
	struct out out = { .path = path };
	char folder[PATH_MAX];
	taut_status status = tauti_folder_of(path, folder, reterr);

	if (!status)
		status = open_draft(&out, reterr);
	if (status)
		return status;
	status = put_set(&out, set, relative_root(set->root, folder), reterr);
	return end_draft(&out, status, reterr);
}
