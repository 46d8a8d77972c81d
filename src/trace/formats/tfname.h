/* tfname.h - what TensorFlow's names of events say.
 *
 * An operation is "scope/name:Type"; what its run-time does is written like
 * C++ ("ExecutorState::Process"). Pure; any thread. */
#ifndef TAUT_TRACE_TFNAME_H
#define TAUT_TRACE_TFNAME_H

#include <stdbool.h>
#include <stddef.h>

#include <taut/trace.h>

#include "trace/json/token.h" /* struct tauti_text */

TAUT_BEGIN_DECLS

enum tf_class {
	TF_RUNTIME,    /* of the run-time: a range on its thread */
	TF_OP,
	TF_COLLECTIVE, /* an operation between processes */
	TF_SEND,       /* of a tensor to another device, perhaps of another
	                  process */
	TF_LOAD,       /* a batch is prepared */
	TF_LOAD_WAIT,  /* a batch is taken */
	TF_ASYNC_START, TF_ASYNC_DONE, /* of an operation: its name is an arg */
	TF_PROCESS,    /* part of one run of a function: its id is an arg */
	TF_PARAMS,     /* the size of a group of collectives */
	TF_FUNCTION,   /* a function is run for somebody else */
	TF_REQUEST,    /* that somebody else asked for it */
	TF_POINT,      /* an instant: nothing that is kept */
	TF_SHAPE,      /* Taut's own: what a collective moves */
	TF_JOB,        /* Taut's own: who this process is */
	TF_GRADIENT,   /* Taut's own: a gradient that its exchange sums */
	TF_PIECE,      /* Taut's own: a piece of one that was carried */
	TF_READY, TF_WAIT, /* a gradient is handed over, or waited for */
};

/* name: of the event; ret_op: of an operation, its name without the type. */
enum tf_class tauti_tf_class(
	struct tauti_text name, struct tauti_text *ret_op);

/* "allreduce" for "CollectiveReduceV2"; NULL: no collective. */
const char *tauti_tf_collective(struct tauti_text type);

/* "a/b/_12" is edge "a/b" from the one partition of a graph to the other. */
struct tauti_text tauti_tf_edge(struct tauti_text op);

/* The k-th part of a rendezvous key, by semicolons; empty: there is none.
 * 0 is the sending device, 2 the receiving one. */
struct tauti_text tauti_tf_key_part(struct tauti_text key, unsigned part);
/* "/job:ps/replica:0/task:1" of a device: the process that it is of. */
struct tauti_text tauti_tf_task(struct tauti_text device);

/* Bytes of a copy: "kind_src:pageable size:4 dest:0"; -1: not said. */
int64_t tauti_tf_copy_bytes(struct tauti_text details);

/* The number behind '#' in "Stream #134(Compute)", or -1. */
int64_t tauti_tf_stream(struct tauti_text line);
/* The number behind the last ':' in "/device:GPU:4", or -1. */
int64_t tauti_tf_device(struct tauti_text plane);

enum taut_kind tauti_tf_device_kind(struct tauti_text name);

static inline bool tauti_tf_is(struct tauti_text text, const char *what)
{
	return strlen(what) == text.len && !memcmp(text.at, what, text.len);
}
bool tauti_tf_starts(struct tauti_text text, const char *with);

TAUT_END_DECLS
#endif /* TAUT_TRACE_TFNAME_H */
