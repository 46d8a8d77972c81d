/* main.c - the command: finds the verb, reads its options, runs it. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/job.h"
#include "cli/term.h"
#include "cli/verbs.h"

static const struct verb *const verbs[] = {
	&verb_record,
	&verb_run,
	&verb_report,
	&verb_replay,
	&verb_whatif,
	&verb_plan,
	&verb_tune,
	&verb_diff,
	&verb_stalls,
	&verb_stragglers,
	&verb_convert,
	&verb_bench,
	&verb_server,
};
enum { N_VERBS = sizeof verbs / sizeof verbs[0] };

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < N_VERBS; i++)
		if (!strcmp(verbs[i]->name, name))
			return verbs[i];
	return NULL;
}

static void say_help(FILE *out)
{
	fputs("Usage: taut VERB RUN... [options]\n"
		"       taut record|run|stalls [options] -- COMMAND...\n\n"
		"Finds the slack in distributed training: reads what the ranks "
		"recorded and says\nwhere the time of a step goes, why, and "
		"what to do.\n\nVerbs:\n", out);
	for (size_t i = 0; i < N_VERBS; i++)
		fprintf(out, "  %-12s%s\n", verbs[i]->name, verbs[i]->summary);
	fputs("  help        help on a verb: taut help report\n\n"
		"taut --version prints the version.\n", out);
}

static int unknown_verb(const char *name)
{
	const char *names[N_VERBS + 1], *near;

	for (size_t i = 0; i < N_VERBS; i++)
		names[i] = verbs[i]->name;
	names[N_VERBS] = "help";
	near = opt_nearest(name, names, N_VERBS + 1);
	if (near)
		term_complain("unknown verb '%s'; did you mean %s?", name,
			near);
	else
		term_complain("unknown verb '%s'; taut help lists them", name);
	return EXIT_USAGE;
}

/* What was printed by ourselves, not by a verb, has arrived too. */
static int finish_stdout(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_DONE;
	term_complain("standard output: cannot write");
	return EXIT_FAULT;
}

static int help(const char *name)
{
	const struct verb *verb;

	if (!name) {
		say_help(stdout);
		return finish_stdout();
	}
	verb = find_verb(name);
	if (!verb)
		return unknown_verb(name);
	opt_help(verb, stdout);
	return finish_stdout();
}

static int run_verb(const struct verb *verb, char **argv,
	struct taut_arena *arena)
{
	void *values = taut_arena_calloc(arena, 1, verb->values_bytes);
	struct taut_error err = { .message = "" };
	struct verb_call call;

	if (!values)
		return job_status(TAUT_ENOMEM, &err);
	switch (opt_parse(verb, argv, values, arena, &call, &err)) {
	case OPT_RUN:
		return verb->run(&call);
	case OPT_HELP:
		return help(verb->name);
	case OPT_WRONG:
		break;
	}
	term_complain("%s: %s", verb->name, err.message);
	term_complain("'taut %s --help' lists what it takes", verb->name);
	return EXIT_USAGE;
}

static void ignore_signals(void)
{
	signal(SIGPIPE, SIG_IGN); /* a write says so instead: out.c */
	signal(SIGXFSZ, SIG_IGN);
}

static int dispatch(char **argv)
{
	const struct verb *verb;
	struct taut_arena *arena;
	int status;

	verb = argv[0] ? find_verb(argv[0]) : NULL;
	if (!verb || !verb->is_command)
		ignore_signals();
	if (!argv[0]) {
		say_help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[0], "--version")) {
		printf("taut %s\n", taut_version());
		return finish_stdout();
	}
	if (!strcmp(argv[0], "help") || !strcmp(argv[0], "--help") ||
		!strcmp(argv[0], "-h"))
		return help(argv[1]);
	if (!verb)
		return unknown_verb(argv[0]);
	arena = taut_arena_create();
	if (!arena)
		return job_status(TAUT_ENOMEM, &(struct taut_error){ 0 });
	status = run_verb(verb, argv + 1, arena);
	taut_arena_destroy(arena);
	return status;
}

/* A file must not be opened as number 1 or 2 because the caller closed them,
 * or messages would end in it. A command that is run finds them closed. */
static void hold_standard_streams(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
			open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
			_exit(EXIT_FAULT);
}

int main(int argc, char **argv)
{
	hold_standard_streams();
	return dispatch(argc > 0 ? argv + 1 : argv);
}
