/* set_by_hand.h - for tests: folders and archives made byte by byte, and the one line
 * that opening them must end in. */
#ifndef TAUT_LOAD_SET_BY_HAND_H
#define TAUT_LOAD_SET_BY_HAND_H

#include "tests/support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <taut/set.h>

#include "base/vec.h"

struct hand { /* of one test */
	char folder[PATH_MAX]; /* that all lies in; without links */
	struct taut_arena *arena;
};

static inline int hand_setup(void **state)
{
	const char *tmp = getenv("TMPDIR");
	struct hand *hand = calloc(1, sizeof *hand);
	char made[256];

	if (!hand)
		return -1;
	snprintf(made, sizeof made, "%s/taut-set-XXXXXX", tmp ? tmp : "/tmp");
	hand->arena = taut_arena_create();
	*state = hand;
	return mkdtemp(made) && realpath(made, hand->folder) && hand->arena ? 0 : -1;
}

static inline int hand_remove(
	const char *path, const struct stat *about, int type, struct FTW *where)
{
	(void)about;
	(void)where;
	if (type == FTW_DNR)
		(void)chmod(path, 0700);
	return remove(path);
}

static inline int hand_teardown(void **state)
{
	struct hand *hand = *state;

	nftw(hand->folder, hand_remove, 16, FTW_DEPTH | FTW_PHYS);
	taut_arena_destroy(hand->arena);
	free(hand);
	return 0;
}

struct hand_path {
	char text[PATH_MAX + 256];
};

static inline struct hand_path hand_path(const struct hand *hand, const char *name)
{
	struct hand_path path;

	snprintf(path.text, sizeof path.text, "%s/%s", hand->folder, name);
	return path;
}

/* With the folders that it lies in. */
static inline void hand_file(
	const struct hand *hand, const char *name, const void *bytes, size_t n)
{
	struct hand_path path = hand_path(hand, name);
	FILE *file;

	for (char *at = path.text + strlen(hand->folder) + 1;
		(at = strchr(at, '/')); *at++ = '/') {
		*at = 0;
		assert_true(mkdir(path.text, 0700) == 0 || errno == EEXIST);
	}
	file = fopen(path.text, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

static inline void hand_text(
	const struct hand *hand, const char *name, const char *text)
{
	hand_file(hand, name, text, strlen(text));
}

/* --- archives ----------------------------------------------------------------------------*/

struct hand_tar {
	TAUT_VEC(unsigned char) bytes;
};

static inline void hand_put(struct hand_tar *tar, const void *bytes, size_t n)
{
	size_t filled = (n + 511) / 512 * 512;

	assert_true(taut_vec_reserve(&tar->bytes, filled));
	memset(tar->bytes.data + tar->bytes.count, 0, filled);
	if (n)
		memcpy(tar->bytes.data + tar->bytes.count, bytes, n);
	tar->bytes.count += filled;
}

static inline void hand_sum(unsigned char *header)
{
	unsigned sum = 0;

	memset(header + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += header[i];
	snprintf((char *)header + 148, 8, "%06o", sum);
}

/* size: what the header says. Bytes may be fewer. */
static inline void hand_header(
	struct hand_tar *tar, const char *name, char type, uint64_t size)
{
	unsigned char header[512] = { 0 };
	char digits[24];

	snprintf((char *)header, 100, "%s", name);
	memcpy(header + 100, "0000644", 8);
	snprintf(digits, sizeof digits, "%011llo", (unsigned long long)size);
	memcpy(header + 124, digits, 11);
	memcpy(header + 136, "00000000000", 12);
	header[156] = (unsigned char)type;
	memcpy(header + 257, "ustar\00000", 8);
	hand_sum(header);
	hand_put(tar, header, sizeof header);
}

static inline void hand_member(struct hand_tar *tar, const char *name, char type,
	const void *bytes, size_t n)
{
	hand_header(tar, name, type, n);
	hand_put(tar, bytes, n);
}

static inline void hand_text_member(
	struct hand_tar *tar, const char *name, const char *text)
{
	hand_member(tar, name, '0', text, strlen(text));
}

/* Writes and frees it. */
static inline void hand_write(
	const struct hand *hand, const char *name, struct hand_tar *tar)
{
	hand_file(hand, name, tar->bytes.data, tar->bytes.count);
	taut_vec_free(&tar->bytes);
}

static inline void hand_end(
	const struct hand *hand, const char *name, struct hand_tar *tar)
{
	static const unsigned char empty[1024];

	hand_put(tar, empty, sizeof empty);
	hand_write(hand, name, tar);
}

/* --- sets --------------------------------------------------------------------------------*/

static inline const struct taut_set *hand_open_with(const struct hand *hand,
	const char *name, const struct taut_set_options *options)
{
	struct hand_path path = hand_path(hand, name);
	const char *paths[] = { path.text };
	const struct taut_set *set = NULL;
	struct taut_error err = { .message = "" };
	taut_status status =
		taut_set_open(paths, 1, options, hand->arena, &set, &err);

	if (status)
		print_error("%s\n", err.message);
	assert_int_equal(status, TAUT_OK);
	return set;
}

static inline const struct taut_set *hand_open(const struct hand *hand, const char *name)
{
	return hand_open_with(hand, name, NULL);
}

/* What opening it ends in; each '@' of line stands for the folder of the test. */
static inline void hand_refused_with(const struct hand *hand, const char *name,
	const struct taut_set_options *options, taut_status code, const char *line)
{
	struct hand_path path = hand_path(hand, name);
	const char *paths[] = { path.text };
	const struct taut_set *set = NULL;
	struct taut_error err = { .message = "" };
	char expected[2048];
	size_t n = 0;

	for (; *line; line++)
		n += (size_t)snprintf(expected + n, sizeof expected - n,
			*line == '@' ? "%s" : "%.1s",
			*line == '@' ? hand->folder : line);
	assert_int_equal(taut_set_open(paths, 1, options, hand->arena, &set, &err),
		code);
	assert_null(set);
	assert_string_equal(err.message, expected);
	assert_int_equal(err.code, code);
}

static inline void hand_refused(const struct hand *hand, const char *name,
	taut_status code, const char *line)
{
	hand_refused_with(hand, name, NULL, code, line);
}

static inline void hand_key(
	const struct taut_set *set, uint64_t item, const char *expected)
{
	char key[PATH_MAX];

	assert_int_equal(taut_set_key(set, item, key, sizeof key), strlen(expected));
	assert_string_equal(key, expected);
}

/* The item's bytes are these, where the set says. */
static inline void hand_bytes(
	const struct taut_set *set, uint64_t item, const void *bytes, size_t n)
{
	struct taut_set_item it = taut_set_at(set, item);
	char path[PATH_MAX], *read = malloc(n + 1);
	int fd;

	assert_non_null(read);
	assert_in_range(taut_set_path(set, it.file, path, sizeof path), 1,
		sizeof path - 1);
	assert_int_equal(it.bytes, n);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, read, n, (off_t)it.offset), n);
	assert_memory_equal(read, bytes, n);
	close(fd);
	free(read);
}

/* name: a text, and what the item holds. */
static inline void hand_item(const struct taut_set *set, uint64_t item, const char *key,
	int64_t label, const char *text)
{
	hand_key(set, item, key);
	assert_int_equal(taut_set_at(set, item).label, label);
	hand_bytes(set, item, text, strlen(text));
}

#endif /* TAUT_LOAD_SET_BY_HAND_H */
