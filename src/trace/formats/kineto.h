/* kineto.h - what the files of the Kineto reader share.
 *
 *     kineto.c        the whole text, part after part, and its faults
 *     kineto_event.c  one event of traceEvents
 *     kineto_args.c   its args, by kind
 *     kineto_comm.c   what args say of a collective
 *     kineto_info.c   the keys beside traceEvents
 *     kineto_resync.c where to go on after a broken event
 *
 * docs/formats.md says what the files of ten years look like. */
#ifndef TAUT_TRACE_KINETO_H
#define TAUT_TRACE_KINETO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "trace/builder.h"
#include "trace/json/token.h"
#include "trace/json/window.h"

enum kineto_state {
	KINETO_START,  /* nothing seen */
	KINETO_ROOT,   /* inside the root object, before a key */
	KINETO_EVENTS, /* inside traceEvents, before an event */
	KINETO_SKIP,   /* inside a value that nobody wants */
	KINETO_RESYNC, /* after a broken event, looking for the next */
	KINETO_DONE,
};

/* A runtime call that says how much it copies, as ROCm's do. */
struct kineto_call_bytes {
	uint32_t correlation;
	int64_t bytes;
};

struct kineto_lane_name {
	int64_t pid, tid;
	uint32_t name;
};

struct kineto {
	struct tauti_window window;
	struct tauti_builder *builder;
	struct taut_error *err;
	enum kineto_state state;
	bool head_only;	 /* done where the events begin */
	bool bare;	 /* the root is the array of events */
	bool has_events; /* traceEvents was there */
	bool has_nodes, display_ns;
	uint32_t depth;	 /* KINETO_SKIP */
	unsigned before; /* KINETO_SKIP: class of the token before */
	char schema[24]; /* of an execution trace */
	char tail[2];	 /* KINETO_RESYNC: the last bytes passed */
	bool phase_passed; /* the same: that of the broken event */
	uint64_t event_end; /* byte behind the last event that was whole */
	uint64_t broken_at; /* root broken here; the rest was left out */
	bool broken;
	bool too_large; /* broken since a value is above TAUTI_WINDOW_MAX */
	bool extra; /* something stands behind the end of the trace */

	TAUT_VEC(struct kineto_lane_name) lane_names;
	TAUT_VEC(struct kineto_call_bytes) call_bytes;
	TAUT_VEC(char) scratch; /* for strings with escapes */

	/* How the fractions of times look; see is_unpadded(). */
	uint64_t fractions, short_fractions;
	bool padded, unpadded;
	uint64_t negative; /* durations below zero */
};

/* What became of an event. */
enum kineto_result {
	KINETO_OK,
	KINETO_BROKEN, /* or not whole: the token where it ended tells */
	KINETO_NO_MEMORY,
};

/* The event whose '{' is the token *i. *i moves behind it, or to the token
 * that does not fit. */
enum kineto_result tauti_kineto_event(struct kineto *k, uint32_t *ret_i);

/* Looks for the next event, or for the end of the events, from the window's
 * first byte on. True: found, *ret_used is before it and the state is set.
 * False: not in this window, of which *ret_used bytes are done with. */
bool tauti_kineto_resync(struct kineto *k, size_t *ret_used);
/* When that found nothing until the end: was it the end of a trace? */
bool tauti_kineto_ends_well(const struct kineto *k);

/* Ends what B opened and no E closed. */
void tauti_kineto_close_open(struct kineto *k);

/* The id of the string's text among the names; TAUT_NONE: no memory. */
uint32_t tauti_kineto_text(struct kineto *k, struct tauti_text text);

/* What a category says of its events. */
enum taut_kind tauti_kineto_kind(struct tauti_text category);

/* --- args ---------------------------------------------------------------- */

enum kineto_arg {
	ARG_OTHER,
	ARG_CORRELATION,
	ARG_DEVICE,
	ARG_STREAM,
	ARG_BYTES,
	ARG_SIZE,
	ARG_NAME,
	ARG_SEQUENCE,
	ARG_FWD_THREAD,
	ARG_SYNC_KIND,
	ARG_WAIT_STREAM,
	ARG_WAIT_CORRELATION,
	ARG_WAIT_EVENT,
	ARG_COLLECTIVE,
	ARG_IN_ELEMENTS,
	ARG_OUT_ELEMENTS,
	ARG_DTYPE,
	ARG_GROUP_SIZE,
	ARG_GROUP_NAME,
	ARG_GROUP_DESC,
	ARG_GROUP_RANKS,
	ARG_RANK_START,
	ARG_RANK_STRIDE,
	ARG_SRC_RANK,
	ARG_DST_RANK,
	ARG_SEQ,
	ARG_COMMS_ID,
	ARG_INPUT_DIMS,
	ARG_INPUT_TYPE,
	ARG_CONCRETE_INPUTS,
	ARG_ADDRESS,
	ARG_TOTAL_ALLOCATED,
	ARG_DEVICE_ID,
	ARG_DEVICE_TYPE,
	ARG_COUNT
};

struct kineto_args {
	uint64_t seen; /* bit a: token[a] is the value */
	uint32_t token[ARG_COUNT];
};

static inline bool kineto_has(
	const struct kineto_args *args, enum kineto_arg arg)
{
	return args->seen >> arg & 1;
}

/* The args object at token i, 0: none. False: broken. */
bool tauti_kineto_args(const struct tauti_window *window, uint32_t i,
	struct kineto_args *ret_args);

/* The number of an arg, or otherwise where there is none. */
int64_t tauti_kineto_number(const struct tauti_window *window,
	const struct kineto_args *args, enum kineto_arg arg,
	int64_t otherwise);

/* Makes the side-table row of an event and sets row->args. Rows without
 * anything to tell get none. False: no memory. name is the event's. */
bool tauti_kineto_add_sync(struct kineto *k, struct tauti_row *row,
	const struct kineto_args *args, int64_t tid, struct tauti_text name);
bool tauti_kineto_add_copy(struct kineto *k, struct tauti_row *row,
	const struct kineto_args *args);
/* For a runtime call; its row gets none. */
bool tauti_kineto_keep_bytes(struct kineto *k, const struct tauti_row *row,
	const struct kineto_args *args);
/* Copies that do not say their size take it from the call that made them. */
bool tauti_kineto_fill_copies(struct kineto *k);
bool tauti_kineto_add_comm(struct kineto *k, struct tauti_row *row,
	const struct kineto_args *args, struct tauti_text name);
/* The same for an operator that puts a gradient into place. */
bool tauti_kineto_add_tensor(struct kineto *k, struct tauti_row *row,
	const struct kineto_args *args, struct tauti_text name);
/* A batch normalization whose arguments say that it is not in training? */
bool tauti_kineto_is_frozen(const struct tauti_window *w,
	const struct kineto_args *args, struct tauti_text name);
/* The framework's name of a C++ type; NULL: not the type of a tensor. */
const char *tauti_kineto_dtype(struct tauti_text type);
/* Is it the name of a communication operator of the framework? */
bool tauti_kineto_is_comm(struct tauti_text name);

/* The stream that a cuda_sync row belongs to; -1: none. */
int64_t tauti_kineto_sync_stream(int64_t stream);

/* --- the keys beside traceEvents ----------------------------------------- */

enum kineto_key {
	KEY_OTHER,
	KEY_EVENTS,
	KEY_DISTRIBUTED,
	KEY_DEVICES,
	KEY_BASE_TIME,
	KEY_DISPLAY_UNIT,
	KEY_HOST,
	KEY_SCHEMA,
	KEY_NODES,
};
enum kineto_key tauti_kineto_key(struct tauti_text key);
/* The value at token i, which is whole. TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_kineto_info(
	struct kineto *k, enum kineto_key key, uint32_t i);

#endif /* TAUT_TRACE_KINETO_H */
