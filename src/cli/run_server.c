/* run_server.c - see run_server.h. */
#include "cli/run_server.h"

#include <string.h>

#include <taut/server.h>

#include "cli/term.h"

static taut_status no_memory(const struct env_setting *s)
{
	return taut_error_set(s->err, TAUT_ENOMEM, -1, "no memory");
}

/* --- what is asked for --------------------------------------------------------------*/

/* An option of the servers that the job starts; NULL: none was given. */
static const char *of_servers(const struct run_server *v)
{
	if (v->update)
		return "update";
	if (v->on_loss)
		return "on-loss";
	if (v->staleness)
		return "staleness";
	return v->async ? "async" : NULL;
}

static bool is_number(const char *text)
{
	size_t n = strspn(text, "0123456789");

	return n && n < 7 && !text[n];
}

static bool is_on_loss(const char *text)
{
	return !strcmp(text, "end") || !strcmp(text, "continue") ||
		!strcmp(text, "rescale");
}

/* What is wrong with the options of servers; "": nothing. */
static const char *fault_of(const struct run_server *v)
{
	if (v->staleness && !v->async)
		return "--staleness: expected --async";
	if (v->staleness && !is_number(v->staleness))
		return "--staleness: expected a number of pushes from 0 on";
	if (v->on_loss && !is_on_loss(v->on_loss))
		return "--on-loss: expected end, continue or rescale";
	if (v->async && (!v->update || !strcmp(v->update, "sum")))
		return "--async: expected an optimizer, --update RULE: a sum of "
			"all pushes is no gradient";
	if (v->async && v->on_loss && !strcmp(v->on_loss, "rescale"))
		return "--on-loss rescale: expected rounds, which --async has not";
	return "";
}

static bool is_asked_well(const struct run_server *v, const char *engine)
{
	const char *other = of_servers(v), *fault = fault_of(v);
	struct taut_server_update update;
	struct taut_error err = { .message = "" };

	if (v->server && v->servers)
		term_complain("run: expected --server or --servers");
	else if (other && !v->servers)
		term_complain("run: --%s is of --servers; servers that run "
			"already have their own", other);
	else if ((v->server || v->servers) && engine &&
		strcmp(engine, "server") != 0)
		term_complain("run: --engine %s has no servers: expected server",
			engine);
	else if (*fault)
		term_complain("run: %s", fault);
	else if (v->update && taut_server_update_read(v->update, &update, &err))
		term_complain("run: %s", err.message);
	else
		return true;
	return false;
}

/* --- the environment ------------------------------------------------------------------*/

/* Ranks start servers by this very command. */
static taut_status set_servers(const struct env_setting *s, unsigned servers)
{
	const char *folder = env_folder_of_command(s->arena);
	const char *number = taut_arena_printf(s->arena, "%u", servers);
	const char *command = folder ?
		taut_arena_printf(s->arena, "%staut", folder) : NULL;
	taut_status status;

	if (!number || !command)
		return no_memory(s);
	status = env_set(s, "TAUT_RUN_SERVERS", number);
	return status ? status : env_set(s, "TAUT_RUN_COMMAND", command);
}

taut_status run_server_set(const struct run_server *v, const char *engine,
	const struct env_setting *s, bool *ret_wrong)
{
	const struct {
		const char *variable, *value;
	} texts[] = {
		{ "TAUT_RUN_SERVER", v->server },
		{ "TAUT_RUN_UPDATE", v->update },
		{ "TAUT_RUN_ON_LOSS", v->on_loss },
		{ "TAUT_RUN_ASYNC", v->async ? "on" : NULL },
		{ "TAUT_RUN_STALENESS", v->staleness },
	};
	taut_status status = TAUT_OK;

	*ret_wrong = !is_asked_well(v, engine);
	if (*ret_wrong)
		return TAUT_OK;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0] && !status; i++)
		if (texts[i].value)
			status = env_set(s, texts[i].variable, texts[i].value);
	if (!status && v->servers)
		status = set_servers(s, v->servers);
	return status;
}
