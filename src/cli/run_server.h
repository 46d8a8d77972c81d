/* run_server.h - the part of taut run that has gradients summed by parameter servers:
 * some that are there, or some that the job starts. */
#ifndef TAUT_CLI_RUN_SERVER_H
#define TAUT_CLI_RUN_SERVER_H

#include <stdbool.h>

#include "cli/env.h"

struct run_server {
	const char *server, *update, *staleness, *on_loss; /* NULL: not given */
	unsigned servers; /* 0: not given */
	bool async;
};

/* Rows for the verb's table; `member` is the struct run_server in its values. */
#define RUN_SERVER_OPTIONS(values, member) \
	{ "server", 0, OPT_TEXT, offsetof(values, member.server), "LIST", \
		"HOST:PORT of parameter servers that sum gradients, with " \
		"commas; $TAUT_SECRET is theirs (taut server)", 0, 0 }, \
	{ "servers", 0, OPT_NUMBER, offsetof(values, member.servers), "N", \
		"start so many beside the job's ranks, and end them with it", 1, \
		1024 }, \
	{ "on-loss", 0, OPT_TEXT, offsetof(values, member.on_loss), "WHAT", \
		"of --servers, when a rank is gone: end (default), continue " \
		"with the rest, or rescale sums to all", 0, 0 }, \
	{ "update", 0, OPT_TEXT, offsetof(values, member.update), "RULE", \
		"of --servers, for taut.torch.ServerOptimizer: an optimizer, " \
		"like sgd:lr=0.1,momentum=0.9 (default: sum)", 0, 0 }, \
	{ "async", 0, OPT_FLAG, offsetof(values, member.async), NULL, \
		"of --servers with --update: apply each push at once", 0, 0 }, \
	{ "staleness", 0, OPT_TEXT, offsetof(values, member.staleness), "N", \
		"of --async: a pull waits while a rank is more than N pushes " \
		"behind", 0, 0 }

/* Sets the job's environment. engine: that of --engine, or NULL. *ret_wrong: a usage
 * that was complained of. */
taut_status run_server_set(const struct run_server *values, const char *engine,
	const struct env_setting *s, bool *ret_wrong);

#endif /* TAUT_CLI_RUN_SERVER_H */
