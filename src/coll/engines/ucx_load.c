/* ucx_load.c - see ucx_load.h. */
#include "coll/engines/ucx_load.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_MAJOR = 1, LEAST_MINOR = 10, SIGNALS = 65 };

static const struct {
	const char *name;
	size_t at;
} names[] = {
#define NAME(name) { #name, offsetof(struct tauti_ucx_calls, name) },
	TAUTI_UCX_CALLS(NAME)
#undef NAME
};

struct signals {
	bool known[SIGNALS];
	struct sigaction action[SIGNALS];
};

static void remember(struct signals *signals)
{
	for (int i = 1; i < SIGNALS; i++)
		signals->known[i] =
			sigaction(i, NULL, &signals->action[i]) == 0;
}

static bool is_of_ucx(const struct sigaction *action)
{
	void *handler;
	Dl_info info;

	if (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN)
		return false;
	memcpy(&handler, &action->sa_sigaction, sizeof handler);
	return dladdr(handler, &info) && info.dli_fname &&
		strstr(info.dli_fname, "libuc");
}

static void give_back(const struct signals *signals)
{
	struct sigaction now;

	for (int i = 1; i < SIGNALS; i++)
		if (signals->known[i] && sigaction(i, NULL, &now) == 0 &&
			is_of_ucx(&now) && !is_of_ucx(&signals->action[i]))
			sigaction(i, &signals->action[i], NULL);
}

static void quieten(void *library)
{
	ucs_status_t (*set)(const char *name, const char *value);
	void *symbol = dlsym(library, "ucs_global_opts_set_value");

	memcpy(&set, &symbol, sizeof set);
	if (symbol && !getenv("UCX_LOG_LEVEL"))
		(void)set("LOG_LEVEL", "fatal");
}

static void *open_library(const char *name)
{
	void *there = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
	struct signals signals;
	void *library;

	if (there)
		return there;
	remember(&signals);
	/* It keeps a thread and hooks: it is never taken out again. */
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library)
		return NULL;
	give_back(&signals);
	quieten(library);
	return library;
}

taut_status tauti_ucx_load(const char *name, struct tauti_ucx_calls *ret_calls,
	struct taut_error *reterr)
{
	struct tauti_ucx_calls calls = { .library = open_library(name) };
	unsigned major, minor, release;

	if (!calls.library)
		return taut_error_set(reterr, TAUT_EIO, -1,
			"UCX is not there (%s): install libucx0, or UCX %d.%d or "
			"later", name, LEAST_MAJOR, LEAST_MINOR);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		void *symbol = dlsym(calls.library, names[i].name);

		if (!symbol) {
			tauti_ucx_unload(&calls);
			return taut_error_set(reterr, TAUT_EIO, -1,
				"UCX (%s) has no %s: expected version %d.%d or "
				"later", name, names[i].name, LEAST_MAJOR,
				LEAST_MINOR);
		}
		memcpy((char *)&calls + names[i].at, &symbol, sizeof symbol);
	}
	calls.ucp_get_version(&major, &minor, &release);
	if (major != LEAST_MAJOR || minor < LEAST_MINOR) {
		tauti_ucx_unload(&calls);
		return taut_error_set(reterr, TAUT_EIO, -1,
			"UCX (%s) is version %u.%u: expected %d.%d or later",
			name, major, minor, LEAST_MAJOR, LEAST_MINOR);
	}
	*ret_calls = calls;
	return TAUT_OK;
}

void tauti_ucx_unload(struct tauti_ucx_calls *calls)
{
	if (calls->library)
		dlclose(calls->library);
	calls->library = NULL;
}
