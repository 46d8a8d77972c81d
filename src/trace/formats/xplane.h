/* xplane.h - what the files of the XPlane reader share.
 *
 *     xplane.c        the walk over the file, twice, and its faults
 *     xplane_meta.c   first pass: names of events, stats and lines
 *     xplane_event.c  second pass: one event
 *     xplane_comm.c   collectives, sends and receives, when all is read
 *     xplane_sums.c   second pass: gradients that Taut's exchange sums
 *     xplane_step.c   steps, when all is read
 *     tftrace.c       the same profile as JSON: its own walk, then as above
 *
 * The names of a plane's events stand behind its events, and both are as
 * large as the recording: so the file is read twice, and only names, lines
 * and rows are held. docs/formats.md has the fields. */
#ifndef TAUT_TRACE_XPLANE_H
#define TAUT_TRACE_XPLANE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "trace/builder.h"
#include "trace/formats/tfname.h"
#include "trace/proto/wire.h"
#include "trace/sums.h"

/* Stats that something is taken from. */
enum xplane_stat {
	XSTAT_OTHER,
	XSTAT_CORRELATION,
	XSTAT_STEP_NUM,
	XSTAT_STEP_NAME,
	XSTAT_GROUP_ID,
	XSTAT_MEMCPY,
	XSTAT_INSTANCE_KEY,
	XSTAT_GROUP_KEY,
	XSTAT_GROUP_SIZE,
	XSTAT_STEP_ID,
	XSTAT_ID,
	XSTAT_NAME,
	XSTAT_KERNEL_TYPE,
	XSTAT_KEY,
	XSTAT_CONSUMER, /* _c: the context that an event goes on with */
	XSTAT_PRODUCER, /* _p: the context that it leaves to another */
	XSTAT_IS_FUNC,
	XSTAT_PROFILE_START,
	XSTAT_TAUT, /* Taut's own from here on */
	XSTAT_OP,
	XSTAT_DTYPE,
	XSTAT_ELEMENTS,
	XSTAT_RANK,
	XSTAT_WORLD_SIZE,
	XSTAT_ROLE,
	XSTAT_TASK,
	XSTAT_MESSAGE,
	XSTAT_BYTES,
	XSTAT_START,
	XSTAT_END,
	XSTAT_COUNT
};

struct xplane_stats {
	uint32_t seen; /* bit s */
	int64_t number[XSTAT_COUNT];
	struct tauti_text text[XSTAT_COUNT]; /* .at NULL: a number */
};

static inline bool xplane_has(
	const struct xplane_stats *stats, enum xplane_stat stat)
{
	return stats->seen >> stat & 1;
}

struct xplane_meta { /* of an event */
	int64_t id;
	uint32_t name;
	uint32_t op; /* of an operation: its name without the type */
	uint8_t class; /* enum tf_class */
	uint8_t device_kind; /* enum taut_kind, on a device */
	const char *collective;
};

struct xplane_stat_meta {
	int64_t id;
	uint32_t text;
	uint8_t stat; /* enum xplane_stat */
};

struct xplane_line {
	int64_t id, timestamp_ns;
	uint32_t name, display; /* 0: not said */
};

enum xplane_role { XPLANE_OTHER, XPLANE_HOST, XPLANE_DEVICE };

struct xplane_plane {
	enum xplane_role role;
	int64_t device;
	bool streams; /* some line is a stream */
	TAUT_VEC(struct xplane_meta) metas; /* by id */
	TAUT_VEC(struct xplane_stat_meta) stats; /* by id */
	TAUT_VEC(struct xplane_line) lines; /* in the order of the file */
};

struct xplane_step { /* an event that says that it is one */
	uint32_t row;
	bool taut; /* Taut's recorder wrote it */
};

/* All that carries one group_id; TensorFlow's grouping of a step. */
struct xplane_group {
	int64_t id, start_ns, end_ns;
};

struct xplane_device_step {
	int64_t group, number, start_ns, end_ns;
};

/* An event that is communication; what it is stands in comms. */
struct xplane_comm {
	uint32_t row;
	uint32_t op; /* name; of a send or receive: the edge */
	bool edge; /* a send or receive, no collective */
	uint32_t to; /* of an edge: the task that receives; 0 not known */
	int64_t group_key;
	int64_t step_id;
};

/* Half of a receive: its start, or its end. */
struct xplane_half {
	int64_t context, at_ns, step_id;
	uint32_t edge;
	bool done;
};

struct xplane_shape { /* of a collective, by its operation */
	uint32_t op, dtype;
	int64_t elements;
	size_t told; /* the how-many-th that was */
};

struct xplane_params {
	int64_t group_key, group_size;
};

struct xplane {
	struct tauti_feed feed;
	struct tauti_builder *builder;
	struct taut_error *err;
	TAUT_VEC(struct xplane_plane) planes;
	bool is_jax;      /* and not TensorFlow's; told as a fact */
	bool device_comm; /* kernels of a device move what collectives move */
	int64_t profile_start_ns, latest_line_ns;
	uint64_t nameless; /* events whose name was cut off */
	uint64_t whole_to; /* byte behind the last event that was whole */

	/* The second pass: where it is. */
	struct xplane_plane *plane;
	struct xplane_line line;
	uint32_t lane; /* for the line's usual events */
	enum tauti_role lane_role;
	int64_t run_id, run_end_ns; /* of the function that runs */

	TAUT_VEC(struct xplane_step) steps;
	TAUT_VEC(struct xplane_group) groups;
	TAUT_VEC(struct xplane_device_step) device_steps;
	TAUT_VEC(struct xplane_comm) comms;
	TAUT_VEC(struct xplane_half) halves;
	TAUT_VEC(struct xplane_shape) shapes;
	TAUT_VEC(struct xplane_params) params;
	struct tauti_sums sums;
	TAUT_VEC(uint32_t) requests, functions, waits; /* rows */
	uint32_t own_task; /* name: "/job:worker/replica:0/task:0"; 0 */
};

/* --- the walk ------------------------------------------------------------- */

enum xplane_walk {
	XPLANE_ON,
	XPLANE_CUT,
	XPLANE_BROKEN,
	XPLANE_ERROR, /* x->err is set */
};

enum xplane_walk tauti_xplane_no_memory(struct xplane *x);

/* The next field of the message that ends at end; XPLANE_ON with *ret_field
 * NULL at its end. */
enum xplane_walk tauti_xplane_field(struct xplane *x, uint64_t end,
	struct tauti_field *field, bool *ret_end);
/* Makes the content of a BYTES field all held; *ret_bytes is NULL where it is
 * too large, and then it is passed over. */
enum xplane_walk tauti_xplane_hold(struct xplane *x,
	const struct tauti_field *field, const uint8_t **ret_bytes);
enum xplane_walk tauti_xplane_skip(
	struct xplane *x, const struct tauti_field *field);

/* --- first pass ----------------------------------------------------------- */

enum xplane_walk tauti_xplane_plane_meta(struct xplane *x, uint64_t end);
/* NULL: there is none. */
const struct xplane_meta *tauti_xplane_meta(
	const struct xplane_plane *plane, int64_t id);
const struct xplane_stat_meta *tauti_xplane_stat_meta(
	const struct xplane_plane *plane, int64_t id);
/* A stat of the plane into stats. False: broken. */
bool tauti_xplane_stat(const struct xplane *x,
	const struct xplane_plane *plane, const struct tauti_field *field,
	struct xplane_stats *stats);

/* What a name says. The stat's may be none that something is taken from. */
enum xplane_stat tauti_xplane_stat_of(struct tauti_text name);
void tauti_xplane_name_plane(
	struct xplane_plane *plane, struct tauti_text text);
/* Sets all of *meta but the id. False: no memory. */
bool tauti_xplane_name_event(struct xplane *x,
	const struct xplane_plane *plane, struct tauti_text name,
	struct xplane_meta *meta);

/* --- second pass ---------------------------------------------------------- */

/* Sets the lane of the line's events. False: no memory. */
bool tauti_xplane_begin_line(struct xplane *x);
/* One event of the line. False: no memory. */
bool tauti_xplane_event(
	struct xplane *x, const struct tauti_field *field, uint64_t offset);

/* The row of an event of x->plane and x->line; start and duration are set.
 * False: no memory. */
bool tauti_xplane_place(struct xplane *x, struct tauti_row *row,
	const struct xplane_meta *meta, const struct xplane_stats *stats);

/* --- when all is read. False: no memory ----------------------------------- */

bool tauti_xplane_add_comm(struct xplane *x, struct tauti_row *row,
	const struct xplane_meta *meta, const struct xplane_stats *stats);
bool tauti_xplane_add_half(struct xplane *x, const struct tauti_row *row,
	bool done, const struct xplane_stats *stats);
bool tauti_xplane_settle_steps(struct xplane *x, uint32_t *ret_main_lane);
bool tauti_xplane_settle_comms(struct xplane *x, uint32_t main_lane);

/* --- xplane_sums.c: false: no memory ------------------------------------------- */
/* What the recorder says of the exchange: a gradient, or a piece of one. */
bool tauti_xplane_told(struct xplane *x, const struct xplane_meta *meta,
	const struct xplane_stats *stats);
/* A call of the exchange; row is kept next. */
bool tauti_xplane_call(struct xplane *x, struct tauti_row *row,
	const struct xplane_meta *meta, const struct xplane_stats *stats);

void tauti_xplane_fini(struct xplane *x);

#endif /* TAUT_TRACE_XPLANE_H */
