/* names.c - what the kinds of the report are called, in JSON and for people. */
#include "report/names.h"

#include <taut/report.h>

static const struct {
	const char *key, *title, *column;
} categories[TAUT_CATEGORIES] = {
	[TAUT_CAT_COMPUTE] = { "compute", "compute", "compute" },
	[TAUT_CAT_COMM_EXPOSED] = { "comm_exposed", "exposed transfer",
		"transfer" },
	[TAUT_CAT_COMM_WAIT] = { "comm_wait", "waiting for a late rank",
		"waiting" },
	[TAUT_CAT_HOST_BOUND] = { "host_bound", "host-bound", "host" },
	[TAUT_CAT_DATA] = { "data", "waiting for data", "data" },
	[TAUT_CAT_COPY] = { "copy", "copies", "copies" },
	[TAUT_CAT_OTHER] = { "other", "other idle", "other" },
};

const char *taut_category_key(enum taut_category c)
{
	return (unsigned)c < TAUT_CATEGORIES ? categories[c].key : "unknown";
}

const char *taut_category_title(enum taut_category c)
{
	return (unsigned)c < TAUT_CATEGORIES ? categories[c].title : "unknown";
}

const char *tauti_category_column(enum taut_category c)
{
	return (unsigned)c < TAUT_CATEGORIES ? categories[c].column : "";
}

const char *tauti_op_kind_key(unsigned kind)
{
	static const char *const keys[] = {
		[TAUT_OP_HOST] = "host",
		[TAUT_OP_LAUNCH] = "launch",
		[TAUT_OP_RETURN] = "return",
		[TAUT_OP_KERNEL] = "kernel",
		[TAUT_OP_COPY] = "copy",
		[TAUT_OP_ARRIVE] = "arrive",
		[TAUT_OP_TRANSFER] = "transfer",
		[TAUT_OP_JOIN] = "join",
		[TAUT_OP_MARK] = "mark",
	};

	return kind < sizeof keys / sizeof keys[0] ? keys[kind] : "unknown";
}

const char *tauti_edge_kind_key(unsigned kind)
{
	static const char *const keys[TAUT_EDGE_KINDS] = {
		[TAUT_EDGE_LAUNCH] = "launch",
		[TAUT_EDGE_SYNC] = "sync",
		[TAUT_EDGE_STREAM] = "stream",
		[TAUT_EDGE_THREAD] = "thread",
		[TAUT_EDGE_COMM] = "comm",
		[TAUT_EDGE_START] = "start",
	};

	return kind < TAUT_EDGE_KINDS ? keys[kind] : "unknown";
}
