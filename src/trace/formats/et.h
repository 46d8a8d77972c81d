/* et.h - PyTorch execution traces, which add to a Kineto trace of the same
 * rank what it lacks: what is known of each collective. They hold no times.
 *
 *     et.c       the file: its nodes, and what they say
 *     et_join.c  which operator of the Kineto trace each node is
 *
 * The Kineto trace must have been read into the builder before, with
 * wants_op_ids set, and its source ended (tauti_builder_next_source()).
 * Threads: one at a time. */
#ifndef TAUT_TRACE_ET_H
#define TAUT_TRACE_ET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "trace/builder.h"

TAUT_BEGIN_DECLS

struct tauti_stream;

struct et_node {
	uint32_t name; /* in the builder's names */
	uint32_t rf_id; /* of the record function; TAUT_NONE */
	uint32_t tid;  /* 1, 2 ...: threads in the order in which they came */
	uint32_t comm; /* in comms; TAUT_NONE */
};

/* A node is an operator; of a step that was recorded once by this writer and
 * many times by the other, it is many. */
struct et_pair {
	uint32_t node, row;
};

struct et_group {
	uint32_t name, desc, ranks; /* in the builder's names; 0 */
	int64_t address; /* by which older traces call it; -1 */
	int32_t size;	 /* -1 */
};

enum et_way { /* how nodes were found among the operators */
	ET_NOT,
	ET_RECORD_ID,
	ET_EVENT_INDEX,
	ET_EXTERNAL_ID,
	ET_ORDER, /* the nth of that name on the thread */
	ET_REPEATS, /* all that is on the thread, again and again */
};

struct et {
	struct tauti_builder *builder;
	TAUT_VEC(struct et_node) nodes;
	TAUT_VEC(struct taut_comm_args) comms;
	TAUT_VEC(struct et_group) groups;
	TAUT_VEC(struct et_pair) pairs; /* by node */
	TAUT_VEC(char) scratch;
	enum et_way way;
	size_t joined, gained; /* nodes; collectives that know more now */
};

/* Could these first bytes begin an execution trace? Pure. */
bool tauti_et_probe(const char *head, size_t len);

/* Reads the stream, which is at its start, and gives the builder's rows what
 * it says of them; a note tells how many were found.
 * TAUT_EFORMAT: it is broken, or of another run; the rows are as before. */
TAUT_NODISCARD taut_status tauti_et_add(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err);

/* Fills pairs, way and joined. TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_et_join(struct et *et);

TAUT_END_DECLS
#endif /* TAUT_TRACE_ET_H */
