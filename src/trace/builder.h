/* builder.h - where a format puts what it reads: rows in the order of the
 * file, turned into the columns of a taut_trace at the end.
 *
 * Rows lie in blocks that never move, so memory is what the rows take.
 * Owner:   who began it ends it, with tauti_builder_finish() or _fini().
 * Threads: one at a time. */
#ifndef TAUT_TRACE_BUILDER_H
#define TAUT_TRACE_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/trace.h>

#include "base/vec.h"
#include "trace/lanes.h"

TAUT_BEGIN_DECLS

#define TAUTI_ROW_BITS 12
#define TAUTI_ROW_BLOCK ((size_t)1 << TAUTI_ROW_BITS) /* rows in a block */

/* Times beyond this, about 79 years from 1970, are refused: sums of a few of
 * them stay within 64 bits. */
#define TAUTI_TIME_LIMIT_NS ((int64_t)2500000000000000000)

struct tauti_row {
	int64_t start_ns, dur_ns;
	uint32_t name, lane;
	uint32_t correlation, sequence;
	uint32_t args; /* as in taut_trace; B/E: the row opened before */
	uint32_t sizes; /* in names */
	uint8_t kind, flags;
	uint8_t digits; /* behind the points of start and dur, 4 bits each */
};

/* The numbers by which other files of the rank may call an operator;
 * TAUT_NONE: not told. */
struct tauti_op_id {
	uint32_t row;
	uint32_t record;   /* of the record function */
	uint32_t index;	   /* Kineto's Ev Idx */
	uint32_t external; /* Kineto's External id */
};

/* Why an event of the input is not in the table. */
enum tauti_lost {
	TAUTI_LOST_BROKEN,  /* no JSON */
	TAUTI_LOST_LARGE,   /* larger than TAUTI_WINDOW_MAX */
	TAUTI_LOST_BEHIND,  /* one of those: where it begins cannot be told */
	TAUTI_LOST_TIME,    /* no readable start or duration */
	TAUTI_LOST_PLACE,   /* no readable pid or tid */
	TAUTI_LOST_NO_BEGIN, /* an E without its B */
	TAUTI_LOST_COUNT
};

struct tauti_builder {
	const char *path; /* for messages; the caller's */
	size_t window_bytes; /* of text held at once; 0: the usual */
	struct taut_arena *arena;
	struct taut_names *names;
	TAUT_VEC(struct tauti_row *) blocks;
	size_t n_rows;
	struct tauti_lanes lanes;
	TAUT_VEC(struct taut_sync_args) syncs;
	TAUT_VEC(struct taut_comm_args) comms;
	TAUT_VEC(struct taut_copy_args) copies;
	TAUT_VEC(struct taut_chunk_args) chunks;
	TAUT_VEC(struct taut_memory_event) memory; /* lanes as in lanes */
	TAUT_VEC(struct taut_tensor_args) tensors;
	TAUT_VEC(struct taut_load_args) loads;
	TAUT_VEC(struct taut_clock_sample) clock_samples;
	TAUT_VEC(struct taut_fact) facts; /* texts in the arena */
	TAUT_VEC(struct taut_device) devices; /* names in the arena */
	TAUT_VEC(const char *) notes; /* in the arena */
	bool is_table; /* as in taut_trace */
	TAUT_VEC(struct taut_ref) ids;	 /* event: row; in any order */
	TAUT_VEC(struct taut_ref) waits; /* the same */
	bool wants_op_ids; /* set by who has a use for op_ids */
	TAUT_VEC(struct tauti_op_id) op_ids; /* of host operators, by row */

	/* What the format learns of the whole. */
	int64_t base_ns;     /* added to every start of this source */
	size_t first_row;    /* of this source; see tauti_builder_next_source() */
	size_t first_note;   /* the same */
	size_t first_memory; /* the same */
	struct tauti_builder *last; /* of next, before this source; or NULL */
	bool sizes_lent;     /* as in taut_trace */
	bool nano_unpadded;  /* "5.7" means 5 us and 7 ns */
	uint32_t log_numbers; /* correlations of the logs before this one */
	int32_t rank, world_size; /* -1: not said */
	uint32_t process_groups;  /* 0: not said */
	const char *host;	  /* "": not said */
	const char *clock;	  /* the same */
	uint64_t events_seen; /* from here on: of this source */
	uint64_t lost[TAUTI_LOST_COUNT];
	uint64_t lost_at[TAUTI_LOST_COUNT]; /* byte of the first */
	uint64_t bytes_read;
	bool truncated;
	struct { /* of the sources before */
		uint64_t events_seen, events_lost, bytes_read;
		bool truncated;
	} before;
	/* With TAUT_EFORMAT: the input is whole and of another kind. */
	bool other_kind;

	struct tauti_builder *next; /* of another rank of the same input */
	/* One step of the rank, recorded with shapes (formats/shapes.h); NULL:
	 * there is none. Its arena and names are this one's. */
	struct tauti_builder *shapes;
};

TAUT_NODISCARD taut_status tauti_builder_init(
	struct tauti_builder *builder, const char *path);
void tauti_builder_fini(struct tauti_builder *builder);

/* For an input that holds several ranks: a builder like this one for one more
 * of them, at the end of the list of next. It ends with this one. NULL: no
 * memory. The format sets the rank of each. */
struct tauti_builder *tauti_builder_another(struct tauti_builder *builder);

/* Does without shapes. */
void tauti_builder_drop_shapes(struct tauti_builder *builder);

/* A cleared row with args TAUT_NONE, or NULL: no memory. */
struct tauti_row *tauti_builder_row(struct tauti_builder *builder);
static inline struct tauti_row *tauti_builder_row_at(
	struct tauti_builder *b, uint32_t i)
{
	return &b->blocks.data[i >> TAUTI_ROW_BITS]
			      [i & (TAUTI_ROW_BLOCK - 1)];
}

/* Several files make one trace: call this between two of them. What the one
 * before said of its own times (base_ns, nano_unpadded) is put into its rows,
 * which are on the common clock of the files from then on; ids of its own
 * (correlations) are kept apart from those of the next by the reader. */
void tauti_builder_next_source(struct tauti_builder *builder);
/* Drops the rows of other sources that lie wholly before the first instant or
 * behind the last one of the source with the rows [begin, end). */
void tauti_builder_keep_around(
	struct tauti_builder *builder, size_t begin, size_t end);
/* Takes back what the source that is being read has said of events: its rows,
 * its notes, its further ranks. */
void tauti_builder_drop_source(struct tauti_builder *builder);

/* Adds what the recorder learned; copies both texts. */
TAUT_NODISCARD taut_status tauti_builder_fact(struct tauti_builder *builder,
	const char *key, const char *value, size_t value_len);

/* Adds a device unless its id is there; its name is kept, so it lies in the arena. */
TAUT_NODISCARD taut_status tauti_builder_device(
	struct tauti_builder *builder, const struct taut_device *device);

void tauti_builder_lose(struct tauti_builder *builder, enum tauti_lost why,
	uint64_t offset);
/* One line for the user; the path is put before it. */
TAUT_NODISCARD taut_status tauti_builder_note(struct tauti_builder *builder,
	const char *fmt, ...) TAUT_PRINTF(2, 3);
/* A line for each reason for which something was lost; what: "event". */
TAUT_NODISCARD taut_status tauti_builder_note_lost(
	struct tauti_builder *builder, const char *what,
	const char *const reasons[TAUTI_LOST_COUNT]);

/* Orders the rows and writes the columns. All of *ret_trace is set but format
 * and what the trace does not say (rank -1, host ""). It lies in the arena
 * and the names, which the caller may take out of the builder. */
TAUT_NODISCARD taut_status tauti_builder_finish(struct tauti_builder *builder,
	struct taut_trace *ret_trace, struct taut_error *err);

/* order.c: *ret_order[i] is the row that comes i-th by (new_lane, start,
 * longer first, row); malloced. new_lane maps the rows' lanes. */
TAUT_NODISCARD taut_status tauti_builder_order(struct tauti_builder *builder,
	const uint32_t *new_lane, uint32_t **ret_order);

TAUT_END_DECLS
#endif /* TAUT_TRACE_BUILDER_H */
