/* tuned.c - see tuned.h. */
#include "cli/tuned.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "cli/opt.h"

enum { PIECE, CREDIT, FUSE, WAY, NAMES };

static const char *const names[NAMES] = {
	[PIECE] = "piece", [CREDIT] = "credit", [FUSE] = "fuse",
	[WAY] = "way",
};

struct reader {
	const char *name;
	uint32_t line;
	bool seen[NAMES];
	struct taut_setting setting;
	struct taut_error *err;
};

static taut_status wrong(const struct reader *r, const char *expected)
{
	return taut_error_set(r->err, TAUT_EFORMAT, -1, "%.300s:%" PRIu32
		": expected %s", r->name, r->line, expected);
}

static taut_status take_way(struct reader *r, const char *value)
{
	for (int way = 0; way < TAUT_WAYS; way++)
		if (!strcmp(value, taut_coll_way_name(
			(enum taut_coll_way)way))) {
			r->setting.way = (enum taut_coll_way)way;
			return TAUT_OK;
		}
	return wrong(r, "a way of all-reduces, like ring");
}

static taut_status take(struct reader *r, size_t name, const char *value)
{
	uint64_t *bytes[] = { [PIECE] = &r->setting.piece_bytes,
		[CREDIT] = &r->setting.credit_bytes,
		[FUSE] = &r->setting.fuse_bytes };

	if (r->seen[name])
		return wrong(r, "each name once");
	r->seen[name] = true;
	if (name == WAY)
		return take_way(r, value);
	if (!opt_bytes(&value, UINT64_C(1) << 40, bytes[name]) || *value)
		return wrong(r, "bytes behind the name, like 1048576 or 1M");
	return TAUT_OK;
}

/* NAME VALUE; both end with a zero here. */
static taut_status read_line(struct reader *r, char *line)
{
	char *value;

	line += strspn(line, " \t");
	line[strcspn(line, "#\r")] = '\0';
	for (size_t n = strlen(line); n && strchr(" \t", line[n - 1]); n--)
		line[n - 1] = '\0';
	if (!*line)
		return TAUT_OK;
	value = line + strcspn(line, " \t");
	if (*value)
		*value++ = '\0';
	value += strspn(value, " \t");
	for (size_t i = 0; i < NAMES; i++)
		if (!strcmp(line, names[i]))
			return take(r, i, value);
	return wrong(r, "piece, credit, fuse or way");
}

taut_status tuned_parse(const char *text, size_t bytes, const char *name,
	struct taut_setting *ret_setting, struct taut_error *err)
{
	struct reader r = { .name = name, .err = err };
	char copy[TUNED_BYTES + 1], *at = copy;
	taut_status status = TAUT_OK;

	if (bytes > TUNED_BYTES || memchr(text, '\0', bytes))
		return taut_error_set(err, TAUT_EFORMAT, -1, "%.300s: expected "
			"a text of at most %d bytes", name, TUNED_BYTES);
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	while (!status && at) {
		char *line = at;

		at = strchr(at, '\n');
		if (at)
			*at++ = '\0';
		r.line++;
		status = read_line(&r, line);
	}
	for (size_t i = 0; !status && i < NAMES; i++)
		if (!r.seen[i])
			status = taut_error_set(err, TAUT_EFORMAT, -1,
				"%.300s: expected a line for %s", name,
				names[i]);
	if (!status)
		*ret_setting = r.setting;
	return status;
}

taut_status tuned_read(const char *path, struct taut_setting *ret_setting,
	struct taut_error *err)
{
	char text[TUNED_BYTES + 1];
	FILE *in = fopen(path, "rb");
	size_t bytes;

	if (!in)
		return taut_error_set(err, TAUT_EIO, -1, "%.300s: %s", path,
			strerror(errno));
	bytes = fread(text, 1, sizeof text, in);
	if (ferror(in)) {
		fclose(in);
		return taut_error_set(err, TAUT_EIO, -1,
			"%.300s: cannot be read", path);
	}
	fclose(in);
	return tuned_parse(text, bytes, path, ret_setting, err);
}

taut_status tuned_write(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct taut_setting *s = context;

	if (fprintf(out, "# taut run --tuned FILE\npiece %" PRIu64
		"\ncredit %" PRIu64 "\nfuse %" PRIu64 "\nway %s\n",
		s->piece_bytes, s->credit_bytes, s->fuse_bytes,
		taut_coll_way_name(s->way)) < 0)
		return taut_error_set(err, TAUT_EIO, -1, "cannot be written");
	return TAUT_OK;
}
