/* formats.c - the table of formats, and what else people hand over. */
#include "trace/format.h"

#include <string.h>

#include "trace/builder.h"
#include "trace/stream.h"

/* The first whose probe says yes reads: those that a few bytes tell for sure
 * come first, those that could be much else last. */
static const struct tauti_format *const formats[] = {
	&tauti_format_log,
	&tauti_format_nsight,
	&tauti_format_xplane, /* before JSON: a first plane of 123 bytes begins
	                         with a newline and '{' */
	&tauti_format_tftrace,
	&tauti_format_byteps,
	&tauti_format_bytescheduler,
	&tauti_format_horovod,
	&tauti_format_mxnet,
	&tauti_format_flight,
	&tauti_format_nccl_inspector,
	&tauti_format_nccl_profile,
	&tauti_format_chakra, /* its first byte is a length: any, also '{' */
	&tauti_format_chakra_json,
	&tauti_format_study,
	&tauti_format_optable,
	&tauti_format_shapes,
	&tauti_format_kineto,
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Inputs that are no trace that Taut reads, told by their first bytes. */
static const struct stranger {
	const char *what;
	size_t at, len;
	const char *bytes;
} strangers[] = {
	{ "a tar archive; unpack it first", 257, 5, "ustar" },
	{ "a zip archive; unpack it first", 0, 4, "PK\x03\x04" },
	{ "a gzip file inside a gzip file", 0, 2, "\x1f\x8b" },
	{ "compressed with zstd; decompress it first", 0, 4,
		"\x28\xb5\x2f\xfd" },
	{ "compressed with xz; decompress it first", 0, 6, "\xfd"
							   "7zXZ" },
	{ "compressed with bzip2; decompress it first", 0, 3, "BZh" },
	{ "a Python pickle, and no flight recorder's dump", 0, 2, "\x80\x02" },
	{ "a Python pickle, and no flight recorder's dump", 0, 2, "\x80\x03" },
	{ "a Python pickle, and no flight recorder's dump", 0, 2, "\x80\x04" },
	{ "a Python pickle, and no flight recorder's dump", 0, 2, "\x80\x05" },
	{ "an ELF program", 0, 4, "\x7f"
				  "ELF" },
	{ "an HTML page", 0, 9, "<!DOCTYPE" },
	{ "what macOS keeps beside a file (AppleDouble), not the file", 0, 4,
		"\0\x05\x16\x07" },
};

static const char *describe(const char *head, size_t len)
{
	for (size_t i = 0; i < COUNT(strangers); i++) {
		const struct stranger *s = &strangers[i];
		if (len >= s->at + s->len &&
			memcmp(head + s->at, s->bytes, s->len) == 0)
			return s->what;
	}
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)head[i];
		if (c < 0x20 && !strchr("\t\n\r\f", c))
			return "binary (a protobuf, such as Chakra or XPlane?)";
	}
	return "text that is not JSON";
}

static taut_status refuse(struct tauti_stream *stream, const char *head,
	size_t len, struct taut_error *err)
{
	const char *name = tauti_stream_name(stream);
	if (len == 0)
		return taut_error_set(err, TAUT_EFORMAT, 0,
			"%s: is empty%s; expected a trace of a known format",
			name,
			tauti_stream_is_gzip(stream) ? " after inflating" : "");
	return taut_error_set(err, TAUT_EFORMAT, 0,
		"%s: byte 0: is %s; expected a trace of a known format "
		"(taut help report lists them)",
		name, describe(head, len));
}

taut_status tauti_format_read(struct tauti_stream *stream,
	struct tauti_builder *builder, const struct tauti_format **ret_format,
	struct taut_error *err)
{
	const char *head;
	size_t len;
	taut_status status = tauti_stream_peek(stream, &head, &len, err);
	if (status != TAUT_OK)
		return status;
	for (size_t i = 0; len && i < COUNT(formats); i++) {
		if (!formats[i]->probe(head, len))
			continue;
		status = formats[i]->read(stream, builder, err);
		if (status == TAUT_OK)
			*ret_format = formats[i];
		return status;
	}
	builder->other_kind = true;
	return refuse(stream, head, len, err);
}
