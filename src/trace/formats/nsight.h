/* nsight.h - what the files of the Nsight Systems reader share.
 *
 *     nsight.c         the order in which the tables are read
 *     nsight_db.c      the SQLite file, its tables and texts
 *     nsight_device.c  kernels, copies, fills, synchronisation
 *     nsight_host.c    runtime calls, NVTX ranges, thread names
 *     nsight_name.c    what the text of a range says
 *     nsight_steps.c   which ranges are steps
 *     nsight_ranks.c   which process is which rank; host, clock
 *
 * One export holds every process that was profiled; each that worked on a
 * device is a rank with a builder of its own. Tables and columns differ from
 * version to version: what is not there reads as NULL.
 * Threads: one at a time. */
#ifndef TAUT_TRACE_NSIGHT_H
#define TAUT_TRACE_NSIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "base/vec.h"
#include "trace/builder.h"
#include "trace/stream.h"

TAUT_BEGIN_DECLS

/* Global ids: process = id >> 24, thread = the 24 bits below. */
#define NSIGHT_TID_BITS 24
#define NSIGHT_TID_MASK 0xffffff
#define NSIGHT_PROCESSES_MAX 4096

struct nsight_context {
	int64_t context, device;
};

/* A range that may be a step. */
struct nsight_range {
	uint32_t row, lane;
	int64_t start_ns, end_ns;
	uint64_t key;	/* of its text without numbers */
	int64_t number; /* the one in its text; -1: none */
	bool named;	/* its text speaks of steps */
};

/* Where an event was recorded, for those who wait for it. */
struct nsight_record {
	int64_t key; /* eventSyncId, or in older versions eventId */
	int64_t stream, correlation;
};

struct nsight_process {
	int64_t id; /* globalPid >> 24 */
	struct tauti_builder *builder;
	TAUT_VEC(struct nsight_context) contexts; /* seen with device work */
	TAUT_VEC(struct nsight_range) ranges;
	TAUT_VEC(struct nsight_record) records;
	TAUT_VEC(uint32_t) open; /* rows without an end */
	uint32_t *name_of; /* by text: its name + 1; 0: not asked for yet */
	int64_t device;	   /* of its first device work; -1: none */
};

struct nsight {
	sqlite3 *db;
	struct tauti_builder *builder; /* of the first process */
	struct taut_error *err;
	struct taut_arena *arena; /* of the texts */
	TAUT_VEC(struct nsight_text {
		int64_t id;
		const char *text;
		size_t len;
	}) texts; /* by id, after tauti_nsight_read_texts() */
	TAUT_VEC(struct nsight_process) processes;
	TAUT_VEC(char) scratch;
	uint32_t recent;  /* process */
	bool one_process; /* device work does not say whose it is */
	bool may_add;	  /* rows of a new process make it a rank */
	uint64_t strange; /* rows of processes that are no rank */
	uint64_t empty;   /* rows of device work without times */
};

/* --- nsight_db.c --------------------------------------------------------- */

/* A walk over the rows of one table. stmt NULL: there is no such table. */
struct nsight_rows {
	sqlite3_stmt *stmt;
	const char *table;
};

/* TAUT_EFORMAT: no readable SQLite database. TAUT_EIO, TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_nsight_open(
	struct nsight *n, struct tauti_stream *stream);
bool tauti_nsight_has(struct nsight *n, const char *table);
bool tauti_nsight_has_column(
	struct nsight *n, const char *table, const char *column);
/* The n_columns columns, by their place in the list; those that the table
 * lacks are NULL in every row. Without one of the first `needed` the table
 * is left out, with a note. */
TAUT_NODISCARD taut_status tauti_nsight_select(struct nsight *n,
	const char *table, const char *const *columns, unsigned n_columns,
	unsigned needed, struct nsight_rows *ret_rows);
/* Moves to the next row; *ret_more false: there is none, and the walk is
 * over. Damage behind which rows are lost is a note, not an error. */
TAUT_NODISCARD taut_status tauti_nsight_next(
	struct nsight *n, struct nsight_rows *rows, bool *ret_more);
void tauti_nsight_close(struct nsight_rows *rows);

static inline bool nsight_is_null(const struct nsight_rows *rows, int column)
{
	return sqlite3_column_type(rows->stmt, column) == SQLITE_NULL;
}
static inline int64_t nsight_number(
	const struct nsight_rows *rows, int column, int64_t otherwise)
{
	return nsight_is_null(rows, column) ?
		otherwise : sqlite3_column_int64(rows->stmt, column);
}
/* Valid until the next row; NULL: none. */
const char *tauti_nsight_cell(
	const struct nsight_rows *rows, int column, size_t *ret_len);

TAUT_NODISCARD taut_status tauti_nsight_read_texts(struct nsight *n);
/* NULL: no such text. */
const struct nsight_text *tauti_nsight_text(
	const struct nsight *n, int64_t id);

/* One line of UTF-8 of any bytes, as an id of the builder's names;
 * TAUT_NONE: no memory. */
uint32_t tauti_nsight_name(struct nsight *n, struct nsight_process *process,
	const char *text, size_t len);
/* The same of a text of StringIds, once for each process and text. */
uint32_t tauti_nsight_name_of(
	struct nsight *n, struct nsight_process *process, int64_t id);

/* --- nsight.c ------------------------------------------------------------ */

/* The process with this id; where may_add is set, a new one is added. NULL
 * with TAUT_OK: it is no rank, and was counted. */
TAUT_NODISCARD taut_status tauti_nsight_process(
	struct nsight *n, int64_t id, struct nsight_process **ret_process);

/* A row from start to end; NULL with TAUT_OK: its times cannot be read, which
 * was counted. An end before the start is the start, marked as cut. */
TAUT_NODISCARD taut_status tauti_nsight_row(struct nsight *n,
	struct nsight_process *process, int64_t start_ns, int64_t end_ns,
	struct tauti_row **ret_row);

static inline taut_status nsight_no_memory(struct nsight *n)
{
	return taut_error_set(n->err, TAUT_ENOMEM, -1, "%s: no memory",
		n->builder->path);
}

/* --- what is read, in this order ----------------------------------------- */

TAUT_NODISCARD taut_status tauti_nsight_read_device(struct nsight *n);
TAUT_NODISCARD taut_status tauti_nsight_read_syncs(struct nsight *n);
TAUT_NODISCARD taut_status tauti_nsight_read_host(struct nsight *n);
TAUT_NODISCARD taut_status tauti_nsight_mark_steps(struct nsight *n);
TAUT_NODISCARD taut_status tauti_nsight_tell_ranks(struct nsight *n);

/* --- nsight_name.c ------------------------------------------------------- */

/* What PyTorch adds to the name of an operator, where it did:
 * "aten::add, seq = 12, op_id = 99". */
struct nsight_op {
	size_t name_len;
	int64_t sequence; /* -1: none */
};
bool tauti_nsight_is_op(
	const char *text, size_t len, struct nsight_op *ret_op);

/* What a range's text says of a step: "step_12", "Iteration 12 / 90",
 * "train_step". Sets key, number and named of ret_range. */
void tauti_nsight_step_text(
	const char *text, size_t len, struct nsight_range *ret_range);

/* The collective in "nccl:all_reduce", "c10d::allreduce_" or in NCCL's own
 * "ncclAllReduce"; 0: none. *ret_at is where it begins. */
size_t tauti_nsight_collective(
	const char *text, size_t len, size_t *ret_at);

/* "cudaLaunchKernel_v7000" and "cudaMemcpyAsync_ptsz_v7000" without what
 * follows the call's name; its length. */
size_t tauti_nsight_call_len(const char *text, size_t len);

TAUT_END_DECLS
#endif /* TAUT_TRACE_NSIGHT_H */
