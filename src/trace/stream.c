/* stream.c - files, memory, gzip by ISA-L. */
#include "trace/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <isa-l/igzip_lib.h>

#include "base/meter.h"

#define INPUT_BYTES ((size_t)64 << 10)
#define HEAD_BYTES ((size_t)4 << 10)

struct tauti_stream {
	const char *name;
	int fd; /* -1: memory */
	struct tauti_meter *meter;
	const uint8_t *memory; /* all of it, or NULL */
	size_t memory_len;
	const uint8_t *next; /* input that nobody took yet */
	size_t left;
	bool ended; /* there is no input behind `left` */
	uint64_t taken;

	struct inflate_state *gzip; /* NULL: the bytes are the text */
	bool done, cut, tail;

	size_t head_len, head_taken;
	size_t mark; /* bytes of head before the text */
	bool peeked;
	char head[HEAD_BYTES];
	uint8_t buffer[]; /* INPUT_BYTES for a file, nothing for memory */
};

static taut_status read_file(struct tauti_stream *s, void *to, size_t room,
	size_t *ret_len, struct taut_error *err)
{
	ssize_t got;
	do {
		got = read(s->fd, to, room);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return taut_error_set(err, TAUT_EIO, (int64_t)s->taken,
			"%s: cannot read: %s", s->name, strerror(errno));
	s->ended = got == 0;
	s->taken += (uint64_t)got;
	if (s->meter)
		tauti_meter_add(s->meter, (uint64_t)got);
	*ret_len = (size_t)got;
	return TAUT_OK;
}

/* After it, left > 0 or ended. */
static taut_status refill(struct tauti_stream *s, struct taut_error *err)
{
	if (s->left || s->ended)
		return TAUT_OK;
	if (s->fd < 0) {
		s->ended = true;
		return TAUT_OK;
	}
	s->next = s->buffer;
	return read_file(s, s->buffer, INPUT_BYTES, &s->left, err);
}

static struct tauti_stream *create(const char *name, size_t buffer_bytes)
{
	struct tauti_stream *s = malloc(sizeof *s + buffer_bytes);
	if (!s)
		return NULL;
	memset(s, 0, sizeof *s);
	s->name = name;
	s->fd = -1;
	return s;
}

static bool starts_gzip(const struct tauti_stream *s)
{
	return s->left >= 2 && s->next[0] == 0x1f && s->next[1] == 0x8b;
}

static taut_status start(struct tauti_stream *s, struct taut_error *err)
{
	taut_status status = refill(s, err);
	if (status != TAUT_OK || !starts_gzip(s))
		return status;
	s->gzip = malloc(sizeof *s->gzip);
	if (!s->gzip)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"%s: no memory to inflate", s->name);
	isal_inflate_init(s->gzip);
	s->gzip->crc_flag = ISAL_GZIP;
	return TAUT_OK;
}

static taut_status open_file(
	struct tauti_stream *s, const char *path, struct taut_error *err)
{
	struct stat about;
	s->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0)
		return taut_error_set(err, TAUT_EIO, -1, "%s: cannot open: %s",
			path, strerror(errno));
	if (fstat(s->fd, &about) == 0 && S_ISDIR(about.st_mode))
		return taut_error_set(err, TAUT_EIO, -1,
			"%s: is a folder, expected a file", path);
	return start(s, err);
}

taut_status tauti_stream_open_file(const char *path, struct tauti_meter *meter,
	struct tauti_stream **ret_stream, struct taut_error *err)
{
	struct tauti_stream *s = create(path, INPUT_BYTES);
	if (!s)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "%s: no memory to read", path);
	s->meter = meter;
	taut_status status = open_file(s, path, err);
	if (status != TAUT_OK) {
		tauti_stream_close(s);
		return status;
	}
	*ret_stream = s;
	return TAUT_OK;
}

taut_status tauti_stream_open_memory(const char *name, const void *bytes,
	size_t len, struct tauti_stream **ret_stream, struct taut_error *err)
{
	struct tauti_stream *s = create(name, 0);
	if (!s)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "%s: no memory to read", name);
	s->memory = s->next = bytes;
	s->memory_len = s->left = len;
	s->taken = len;
	taut_status status = start(s, err);
	if (status != TAUT_OK) {
		tauti_stream_close(s);
		return status;
	}
	*ret_stream = s;
	return TAUT_OK;
}

taut_status tauti_stream_rewind(
	struct tauti_stream *s, struct taut_error *err)
{
	if (s->fd >= 0 && lseek(s->fd, 0, SEEK_SET) != 0)
		return taut_error_set(err, TAUT_EIO, -1,
			"%s: cannot be read twice, which this format needs: "
			"%s; give it as a file",
			s->name, strerror(errno));
	s->next = s->memory;
	s->taken = s->left = s->memory_len;
	s->meter = NULL; /* the bytes are not new */
	s->ended = s->done = s->cut = s->tail = s->peeked = false;
	s->head_len = s->head_taken = 0;
	free(s->gzip);
	s->gzip = NULL;
	return start(s, err);
}

void tauti_stream_close(struct tauti_stream *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	free(s->gzip);
	free(s);
}

/* --- gzip ---------------------------------------------------------------- */

static const char *gzip_fault(int code)
{
	switch (code) {
	case ISAL_INVALID_BLOCK:
		return "a block of no known type";
	case ISAL_INVALID_SYMBOL:
		return "an invalid symbol";
	case ISAL_INVALID_LOOKBACK:
		return "a reference before the start";
	case ISAL_INVALID_WRAPPER:
		return "an invalid gzip header";
	case ISAL_UNSUPPORTED_METHOD:
		return "a method that is not deflate";
	case ISAL_INCORRECT_CHECKSUM:
		return "a checksum that does not match";
	default:
		return "an error";
	}
}

static taut_status corrupt(
	struct tauti_stream *s, int code, struct taut_error *err)
{
	uint64_t at = s->taken - s->left;
	return taut_error_set(err, TAUT_EFORMAT, (int64_t)at,
		"%s: corrupt gzip: %s near byte %llu of the file; "
		"copy or record it again",
		s->name, gzip_fault(code), (unsigned long long)at);
}

/* A member is whole: another one, padding, or the end. */
static taut_status next_member(struct tauti_stream *s, struct taut_error *err)
{
	for (;;) {
		taut_status status = refill(s, err);
		if (status != TAUT_OK)
			return status;
		if (!s->left || *s->next)
			break;
		s->next++; /* tape blocks are padded with zeros */
		s->left--;
	}
	if (s->left && *s->next == 0x1f) {
		isal_inflate_reset(s->gzip);
		s->gzip->crc_flag = ISAL_GZIP;
		return TAUT_OK;
	}
	s->tail = s->left > 0;
	s->done = true;
	return TAUT_OK;
}

/* One call of the inflater: *ret_len bytes more at to, perhaps 0. */
static taut_status inflate_some(struct tauti_stream *s, char *to, size_t room,
	size_t *ret_len, struct taut_error *err)
{
	struct inflate_state *gzip = s->gzip;
	uint32_t out = room > UINT32_MAX ? UINT32_MAX : (uint32_t)room;
	uint32_t in = s->left > UINT32_MAX ? UINT32_MAX : (uint32_t)s->left;
	gzip->next_in = (uint8_t *)s->next; /* ISA-L only reads it */
	gzip->avail_in = in;
	gzip->next_out = (uint8_t *)to;
	gzip->avail_out = out;
	int code = isal_inflate(gzip);
	s->next += in - gzip->avail_in;
	s->left -= in - gzip->avail_in;
	*ret_len = out - gzip->avail_out;
	if (code < 0 || code == ISAL_NEED_DICT)
		return corrupt(s, code, err);
	if (gzip->block_state == ISAL_BLOCK_FINISH)
		return next_member(s, err);
	if (*ret_len == 0 && s->left == 0 && s->ended)
		s->cut = s->done = true;
	return TAUT_OK;
}

static taut_status read_gzip(struct tauti_stream *s, char *to, size_t room,
	size_t *ret_len, struct taut_error *err)
{
	size_t len = 0;
	while (len < room && !s->done) {
		size_t got = 0;
		taut_status status = refill(s, err);
		if (status == TAUT_OK)
			status = inflate_some(
				s, to + len, room - len, &got, err);
		if (status != TAUT_OK)
			return status;
		len += got;
	}
	*ret_len = len;
	return TAUT_OK;
}

/* --- reading ------------------------------------------------------------- */

static taut_status read_plain(struct tauti_stream *s, char *to, size_t room,
	size_t *ret_len, struct taut_error *err)
{
	size_t len = s->left < room ? s->left : room;
	if (len) {
		memcpy(to, s->next, len);
		s->next += len;
		s->left -= len;
	}
	while (len < room && s->fd >= 0 && !s->ended) {
		size_t got = 0;
		taut_status status = read_file(
			s, to + len, room - len, &got, err);
		if (status != TAUT_OK)
			return status;
		len += got;
	}
	*ret_len = len;
	return TAUT_OK;
}

static taut_status read_text(struct tauti_stream *s, char *to, size_t room,
	size_t *ret_len, struct taut_error *err)
{
	return s->gzip ? read_gzip(s, to, room, ret_len, err) :
			 read_plain(s, to, room, ret_len, err);
}

/* Bytes of the mark that some editors and Windows put before a text: of JSON,
 * so that no other format is told by what it does not begin with. */
static size_t byte_order_mark(const char *head, size_t len)
{
	size_t i = 3;
	if (len < i || memcmp(head, "\xef\xbb\xbf", i) != 0)
		return 0;
	while (i < len && head[i] && strchr(" \t\r\n", head[i]))
		i++;
	return i < len && (head[i] == '{' || head[i] == '[') ? 3 : 0;
}

taut_status tauti_stream_peek(struct tauti_stream *s, const char **ret_head,
	size_t *ret_len, struct taut_error *err)
{
	if (!s->peeked) {
		taut_status status = read_text(
			s, s->head, HEAD_BYTES, &s->head_len, err);
		if (status != TAUT_OK)
			return status;
		s->peeked = true;
		s->mark = byte_order_mark(s->head, s->head_len);
		s->head_taken = s->mark;
	}
	*ret_head = s->head + s->mark;
	*ret_len = s->head_len - s->mark;
	return TAUT_OK;
}

taut_status tauti_stream_read(struct tauti_stream *s, char *to, size_t room,
	size_t *ret_len, struct taut_error *err)
{
	const char *head;
	size_t len;
	taut_status status = tauti_stream_peek(s, &head, &len, err);
	if (status != TAUT_OK)
		return status;
	len = s->head_len - s->head_taken;
	if (len > room)
		len = room;
	memcpy(to, s->head + s->head_taken, len);
	s->head_taken += len;
	if (len == room) {
		*ret_len = len;
		return TAUT_OK;
	}
	size_t more = 0;
	status = read_text(s, to + len, room - len, &more, err);
	if (status == TAUT_OK)
		*ret_len = len + more;
	return status;
}

const char *tauti_stream_hand_over(struct tauti_stream *s)
{
	struct stat about;
	if (s->fd < 0 || s->gzip || fstat(s->fd, &about) != 0 ||
		!S_ISREG(about.st_mode))
		return NULL;
	uint64_t rest = (uint64_t)about.st_size > s->taken ?
		(uint64_t)about.st_size - s->taken : 0;
	s->taken += rest;
	if (s->meter)
		tauti_meter_add(s->meter, rest);
	return s->name;
}

const char *tauti_stream_name(const struct tauti_stream *s)
{
	return s->name;
}

bool tauti_stream_is_gzip(const struct tauti_stream *s)
{
	return s->gzip != NULL;
}

bool tauti_stream_is_cut(const struct tauti_stream *s)
{
	return s->cut;
}

bool tauti_stream_has_tail(const struct tauti_stream *s)
{
	return s->tail;
}

uint64_t tauti_stream_taken(const struct tauti_stream *s)
{
	return s->taken;
}
