/* format.h - what a trace format is. A new one is a file in formats/ and a
 * row of the table in formats.c. */
#ifndef TAUT_TRACE_FORMAT_H
#define TAUT_TRACE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

struct tauti_builder;
struct tauti_stream;

struct tauti_format {
	const char *name;

	/* Adds to the trace of a rank that another file may hold; a folder of
	 * a recording may have several of these for one rank. */
	bool adds;

	/* Could these first bytes (inflated; at least one) begin such a
	 * trace? Pure; any thread. */
	bool (*probe)(const char *head, size_t len);

	/* Reads the stream, which is at its start, into the builder. May
	 * block on the stream; one thread at a time for one builder.
	 * TAUT_OK: the builder holds all that is whole, and says what is not;
	 * further ranks of the input are in builder->next.
	 * TAUT_EFORMAT: nothing of it can be used; builder->other_kind tells
	 * that it is no trace at all. TAUT_EIO, TAUT_ENOMEM. */
	taut_status (*read)(struct tauti_stream *stream,
		struct tauti_builder *builder, struct taut_error *err);
};

extern const struct tauti_format tauti_format_byteps;
extern const struct tauti_format tauti_format_bytescheduler;
extern const struct tauti_format tauti_format_horovod;
extern const struct tauti_format tauti_format_kineto;
extern const struct tauti_format tauti_format_chakra;
extern const struct tauti_format tauti_format_chakra_json;
extern const struct tauti_format tauti_format_study;
extern const struct tauti_format tauti_format_optable;
extern const struct tauti_format tauti_format_log;
extern const struct tauti_format tauti_format_mxnet;
extern const struct tauti_format tauti_format_flight;
extern const struct tauti_format tauti_format_nccl_inspector;
extern const struct tauti_format tauti_format_nccl_profile;
extern const struct tauti_format tauti_format_nsight;
extern const struct tauti_format tauti_format_shapes;
extern const struct tauti_format tauti_format_xplane;
extern const struct tauti_format tauti_format_tftrace;

/* The rank that a Kineto trace tells before its events, in as much as is read
 * at once; -1: none, or it is no such trace. The stream is at its start. */
TAUT_NODISCARD taut_status tauti_kineto_rank(struct tauti_stream *stream,
	int32_t *ret_rank, struct taut_error *err);

/* Finds the format from the first bytes and reads.  *ret_format is set with
 * TAUT_OK. An input that no format wants is TAUT_EFORMAT and other_kind, and
 * the error says what it is, where that is known. */
TAUT_NODISCARD taut_status tauti_format_read(struct tauti_stream *stream,
	struct tauti_builder *builder, const struct tauti_format **ret_format,
	struct taut_error *err);

TAUT_END_DECLS
#endif /* TAUT_TRACE_FORMAT_H */
