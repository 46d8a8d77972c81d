/* table.h - a table of operations on its way from text to traces.
 *
 *   tauti_table_read      lines -> ops, by the names of the header's columns
 *   tauti_table_settle    ops -> traces: order, steps, lanes, waits
 *   tauti_pipeline_tell   part of it: which operation of a pipeline waits for
 *                         which, from micro-batches, stages and chunks
 *
 * Units: nanoseconds, bytes. Numbers are -1 when not told. */
#ifndef TAUT_TRACE_FORMATS_TABLE_H
#define TAUT_TRACE_FORMATS_TABLE_H

#include <stdbool.h>

#include "base/vec.h"
#include "trace/builder.h"

struct tauti_stream;

/* What an operation does in a step of a job with pipeline stages. Those of one
 * stage stand in this order where its step ends. */
enum tauti_table_role {
	TAUTI_ROLE_NONE,
	TAUTI_FORWARD, TAUTI_BACKWARD,
	TAUTI_FORWARD_SEND, TAUTI_FORWARD_RECV,
	TAUTI_BACKWARD_SEND, TAUTI_BACKWARD_RECV,
	TAUTI_PARAMS_GATHER,   /* before the first forward of a chunk */
	TAUTI_GRADS_SCATTER,   /* after the last backward of a chunk */
	TAUTI_COLLECT,         /* garbage, of Python */
	TAUTI_NORM_REDUCE,     /* of layer norms, among tensor parallel ranks */
	TAUTI_EMBED_REDUCE,    /* of embeddings, on the first and last stage */
	TAUTI_SEPARATE_REDUCE, /* of gradients that were left apart */
	TAUTI_CLIP,            /* of gradients, by their norm over all ranks */
	TAUTI_OPTIMIZER,
	TAUTI_ROLES
};
static inline bool tauti_role_is_pair(uint8_t role)
{
	return role >= TAUTI_FORWARD_SEND && role <= TAUTI_BACKWARD_RECV;
}

/* What a row is, from its kind or its name. */
enum tauti_table_kind {
	TAUTI_TABLE_COMPUTE, TAUTI_TABLE_DEVICE, TAUTI_TABLE_COPY,
	TAUTI_TABLE_COMM, TAUTI_TABLE_SEND, TAUTI_TABLE_RECV,
	TAUTI_TABLE_LOAD, TAUTI_TABLE_STEP,
};

struct tauti_table_op {
	int64_t start_ns, dur_ns, bytes;
	uint64_t id;           /* by which waits call it; 0: none */
	uint64_t line;         /* of the text */
	int32_t rank, step;
	int32_t replica, stage; /* data parallel rank, pipeline stage */
	int32_t chunk, place;  /* of the model on the stage, in the model */
	int32_t batch;         /* micro-batch */
	int32_t peer;          /* rank, of a send or receive */
	uint32_t name, kind_name, lane, group; /* in names; 0 not told */
	uint32_t first_wait, n_waits; /* in wait_ids */
	uint8_t kind;          /* enum tauti_table_kind */
	uint8_t role;          /* enum tauti_table_role */
	/* Set by tauti_pipeline_tell(). */
	uint8_t track;         /* 0: main; else a lane beside it */
	bool meets;            /* waits for its partners */
	int64_t seq;           /* number in its group; -1 */
	uint32_t step_index;   /* in table->steps */
};

struct tauti_table_step {
	int32_t number;
	int64_t start_ns, dur_ns; /* of a table with times from each step's
	                             beginning */
};

struct tauti_told_wait { /* by places in ops */
	uint32_t op, before; /* before TAUT_NONE: the rank's step */
};

struct tauti_table {
	struct tauti_builder *builder; /* of the first rank */
	struct taut_names *names;
	TAUT_VEC(struct tauti_table_op) ops;
	TAUT_VEC(struct tauti_table_step) steps; /* by number */
	TAUT_VEC(uint64_t) wait_ids;
	TAUT_VEC(struct tauti_told_wait) waits;
	uint32_t columns; /* bit i: field i is in the header */
	bool lenient;     /* a broken row is left out, with a note */
	bool from_step;   /* times begin anew with each step */
	bool pipelined;   /* stages, and roles of a pipeline */
	int32_t chunks;   /* of a pipelined one: of the model on a stage */
};

/* Columns; a header may call them by several names (table_text.c). */
enum tauti_table_field {
	TAUTI_FIELD_OTHER, /* not known: passed by */
	TAUTI_FIELD_RANK, TAUTI_FIELD_STEP, TAUTI_FIELD_NAME,
	TAUTI_FIELD_KIND, TAUTI_FIELD_LANE, TAUTI_FIELD_START,
	TAUTI_FIELD_DURATION, TAUTI_FIELD_END, TAUTI_FIELD_GROUP,
	TAUTI_FIELD_BYTES, TAUTI_FIELD_ID, TAUTI_FIELD_WAITS,
	TAUTI_FIELD_PEER, TAUTI_FIELD_STAGE, TAUTI_FIELD_REPLICA,
	TAUTI_FIELD_BATCH, TAUTI_FIELD_CHUNK, TAUTI_FIELD_PLACE,
	TAUTI_FIELDS
};
static inline bool tauti_table_has(
	const struct tauti_table *t, enum tauti_table_field field)
{
	return t->columns >> field & 1;
}

/* The number of the k-th communication of its step in its group; the same
 * whichever other steps are in the file. */
static inline int64_t tauti_table_seq(
	const struct tauti_table_op *op, int64_t k)
{
	return (int64_t)(op->step < 0 ? 0 : op->step) << 24 | k;
}

/* Could this be the first line of a table: are names, starts and durations
 * (or ends) among its columns? */
bool tauti_table_is_header(const char *head, size_t len);

/* TAUT_EFORMAT: the line says line, column and what was expected. */
TAUT_NODISCARD taut_status tauti_table_read(struct tauti_table *table,
	struct tauti_stream *stream, struct taut_error *err);
/* Reads and turns into traces: what a format's read does. */
TAUT_NODISCARD taut_status tauti_table_run(struct tauti_table *table,
	struct tauti_stream *stream, struct taut_error *err);
TAUT_NODISCARD taut_status tauti_table_settle(
	struct tauti_table *table, struct taut_error *err);
/* Ops are by (rank, step, start). False: no memory. */
bool tauti_pipeline_tell(struct tauti_table *table);
/* Ops and steps are laid: writes the rows of all ranks. False: no memory. */
bool tauti_table_write(struct tauti_table *table);

#endif /* TAUT_TRACE_FORMATS_TABLE_H */
