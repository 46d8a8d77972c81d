/* loader_first.c - type and shape of samples, told by the set's first item. */
#include "load/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load/kinds/npy.h"

static taut_status cannot_read(const char *name, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EIO, -1, "%s: the first item cannot be read: %s", name,
		strerror(errno));
}

/* The first n bytes of what lies at an offset; a file that ends early is short. */
static taut_status read_at(const char *path, uint64_t offset, char *into, size_t *n,
	const char *name, struct taut_error *err)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	size_t got = 0;
	ssize_t some = 1;

	if (file < 0)
		return cannot_read(name, err);
	while (got < *n && (some > 0 || (some < 0 && errno == EINTR))) {
		some = pread(file, into + got, *n - got, (off_t)(offset + got));
		got += some > 0 ? (size_t)some : 0;
	}
	close(file);
	if (some < 0)
		return cannot_read(name, err);
	*n = got;
	return TAUT_OK;
}

static taut_status take_first(struct taut_load *load, char *bytes, struct taut_error *err)
{
	struct taut_set_item item = taut_set_at(load->set, 0);
	size_t n = item.bytes < TAUTI_NPY_MOST_HEADER ? item.bytes : TAUTI_NPY_MOST_HEADER;
	char path[PATH_MAX], name[TAUTI_NAME_BYTES];
	taut_status status;

	taut_set_path(load->set, item.file, path, sizeof path);
	tauti_load_name(load, 0, name, sizeof name);
	status = read_at(path, item.offset, bytes, &n, name, err);
	if (status != TAUT_OK)
		return status;
	return tauti_prepare_first(&load->prepare, bytes, n, item.bytes, name, err);
}

taut_status tauti_load_first(struct taut_load *load, struct taut_error *err)
{
	taut_status status;
	char *bytes;

	if (load->prepare.kind != TAUT_KIND_TENSOR || !load->prepare.as_first)
		return TAUT_OK;
	bytes = malloc(TAUTI_NPY_MOST_HEADER);
	if (!bytes)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "loader: no memory for the first item");
	status = take_first(load, bytes, err);
	free(bytes);
	return status;
}
