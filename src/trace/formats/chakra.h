/* chakra.h - what the files of the Chakra reader share.
 *
 *     chakra.c          the file, message after message, and its faults
 *     chakra_node.c     one message: a node and its attributes
 *     chakra_json.c     the same nodes as JSON
 *     chakra_schedule.c when nodes without start times begin
 *     chakra_rows.c     nodes to rows of the table
 *
 * docs/formats.md says what such files look like. */
#ifndef TAUT_TRACE_CHAKRA_H
#define TAUT_TRACE_CHAKRA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "trace/builder.h"
#include "trace/proto/wire.h"

enum chakra_type { /* numbers of the schema */
	CHAKRA_INVALID = 0,
	CHAKRA_METADATA = 1,
	CHAKRA_MEM_LOAD = 2,
	CHAKRA_MEM_STORE = 3,
	CHAKRA_COMP = 4,
	CHAKRA_SEND = 5,
	CHAKRA_RECV = 6,
	CHAKRA_COLL = 7,
};

struct chakra_node {
	uint64_t id;
	int64_t start_ns, dur_ns;
	int64_t tid;	    /* thread or stream; -1: not told */
	uint32_t name;
	uint32_t lane;	    /* of the builder; set when all are read */
	uint32_t first_data, n_data; /* in data_deps: what it waits for */
	uint32_t first_ctrl, n_ctrl; /* in ctrl_deps */
	uint32_t comm;	    /* index in comms; TAUT_NONE */
	int64_t bytes;	    /* of a copy; -1 */
	uint8_t type;	    /* enum chakra_type */
	uint8_t kind;	    /* enum taut_kind, where it is told; else OTHER */
	bool cpu;
	int64_t ready_ns, took_ns; /* a collective as it was recorded; -1 */
	/* As Taut writes them: time in which nothing runs, and what goes on
	 * with the event of the node before it on its lane. */
	bool pause, continues;
	uint32_t row;	    /* of the builder, where it has one of its own */
};

struct chakra {
	struct tauti_builder *builder;
	struct taut_error *err;
	TAUT_VEC(struct chakra_node) nodes;
	TAUT_VEC(uint64_t) data_deps, ctrl_deps; /* ids; indices once found,
						    UINT64_MAX: no such node */
	TAUT_VEC(struct taut_comm_args) comms;
	TAUT_VEC(int64_t) steps; /* tid, number, start and duration in ns, of
				    each */
	TAUT_VEC(char) scratch;	 /* for names */
	uint64_t dangling;	 /* waits for nodes that are not there */
	uint64_t circles;	 /* waits that were not kept, for they led
				    around */
	bool scheduled, no_work;
};

/* What a node waits for; NULL: nothing. */
static inline const uint64_t *chakra_data(
	const struct chakra *c, const struct chakra_node *node)
{
	return node->n_data ? c->data_deps.data + node->first_data : NULL;
}

static inline const uint64_t *chakra_ctrl(
	const struct chakra *c, const struct chakra_node *node)
{
	return node->n_ctrl ? c->ctrl_deps.data + node->first_ctrl : NULL;
}

/* The bytes of a message. False: it is broken. *ret_memory is false when
 * memory ran out. */
bool tauti_chakra_node(struct chakra *c, const void *bytes, size_t len,
	bool *ret_memory);
bool tauti_chakra_metadata(struct chakra *c, const void *bytes, size_t len,
	bool *ret_memory);

/* A node with nothing known; its waits begin at the ends of the pools. */
struct chakra_node tauti_chakra_blank(const struct chakra *c);
/* The comm args of a node, made when first asked for; NULL: no memory. */
struct taut_comm_args *tauti_chakra_comm(
	struct chakra *c, struct chakra_node *node);
/* What a comm_type is called; id of a name, TAUT_NONE: no memory. */
uint32_t tauti_chakra_comm_name(struct chakra *c, int64_t comm_type);
/* The id of a text, made one line of UTF-8; TAUT_NONE: no memory. */
uint32_t tauti_chakra_text(struct chakra *c, const void *text, size_t len);
/* Microseconds to nanoseconds; false: beyond TAUTI_TIME_LIMIT_NS. */
bool tauti_chakra_time(uint64_t us, int64_t *ret_ns);

/* Replaces the ids of waits by indices of nodes. */
TAUT_NODISCARD taut_status tauti_chakra_find_waits(struct chakra *c);
/* Gives start times to nodes that have durations and waits alone. */
TAUT_NODISCARD taut_status tauti_chakra_schedule(struct chakra *c);
/* Puts every node on its lane. */
TAUT_NODISCARD taut_status tauti_chakra_lanes(struct chakra *c);
TAUT_NODISCARD taut_status tauti_chakra_rows(struct chakra *c);
/* All that follows reading: waits, lanes, times, rows and notes. */
TAUT_NODISCARD taut_status tauti_chakra_finish(struct chakra *c);
void tauti_chakra_fini(struct chakra *c);

#endif /* TAUT_TRACE_CHAKRA_H */
