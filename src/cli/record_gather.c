/* record_gather.c - which ranks left what, and why the others did not. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/record.h"
#include "cli/record_text.h"
#include "trace/stream.h"

enum { MOST_RANKS = 1 << 17 };

struct folder { /* rankN */
	int64_t rank;
	bool has_trace; /* a file that is no event log */
};

struct rank {
	const struct record_process *process; /* the one that got furthest */
	bool has_trace, has_log;
	bool is_partial; /* it has said so in the problems */
};

struct gather {
	const struct record_plan *plan;
	const struct record_job *job;
	struct taut_arena *arena;
	struct record_result *result;
	struct taut_error *err;
	TAUT_VEC(struct record_process) processes;
	TAUT_VEC(struct record_log) logs;
	TAUT_VEC(struct folder) folders;
	struct rank *ranks;
	size_t n_ranks;
};

static taut_status no_memory(struct gather *g)
{
	return taut_error_set(g->err, TAUT_ENOMEM, -1, "no memory");
}

static taut_status tell(struct gather *g, const char *line)
{
	return line && taut_vec_push(&g->result->problems, line) ? TAUT_OK :
		no_memory(g);
}

/* --- what is in the folder -------------------------------------------------------*/

typedef taut_status (*each_entry)(
	struct gather *g, const char *folder, const char *name);

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All entries of RUN/folder in the order of their names, but for those that
 * begin with a dot. A folder that is not there has none. */
static taut_status walk(struct gather *g, const char *folder, each_entry each)
{
	char *path = taut_arena_printf(g->arena, "%s/%s", g->plan->run, folder);
	TAUT_VEC(char *) names = { 0 };
	DIR *dir = path ? opendir(path) : NULL;
	taut_status status = path ? TAUT_OK : no_memory(g);
	struct dirent *entry;

	while (dir && !status && (entry = readdir(dir))) {
		char *name = taut_arena_strndup(
			g->arena, entry->d_name, strlen(entry->d_name));

		if (!name || !taut_vec_push(&names, name))
			status = no_memory(g);
	}
	if (dir)
		closedir(dir);
	if (names.count)
		qsort(names.data, names.count, sizeof *names.data, by_name);
	for (size_t i = 0; i < names.count && !status; i++)
		if (names.data[i][0] != '.')
			status = each(g, folder, names.data[i]);
	taut_vec_free(&names);
	return status;
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), len = strlen(end);

	return n >= len && !strcmp(name + n - len, end);
}

/* A file that cannot be understood is a line for the user, no failure. */
static taut_status pass_over(
	struct gather *g, taut_status status, const struct taut_error *err)
{
	if (status != TAUT_EFORMAT && status != TAUT_EIO) {
		if (status && g->err)
			*g->err = *err;
		return status;
	}
	return tell(g, taut_arena_printf(
		g->arena, "%s; it was passed over", err->message));
}

static taut_status add_log(
	struct gather *g, const char *folder, const char *name, int64_t rank)
{
	char *path = taut_arena_printf(g->arena, "%s/%s", folder, name);
	struct taut_error err = { .message = "" };
	struct record_log log;
	taut_status status;

	if (!path)
		return no_memory(g);
	status = record_log_read(g->plan->run, path, g->arena, &log, &err);
	if (status)
		return pass_over(g, status, &err);
	log.rank = rank;
	return taut_vec_push(&g->logs, log) ? TAUT_OK : no_memory(g);
}

static taut_status add_process(
	struct gather *g, const char *folder, const char *name)
{
	char *path = taut_arena_printf(
		g->arena, "%s/%s/%s", g->plan->run, folder, name);
	struct tauti_stream *stream = NULL;
	struct taut_error err = { .message = "" };
	struct record_process process;
	taut_status status;

	if (!path)
		return no_memory(g);
	status = tauti_stream_open_file(path, NULL, &stream, &err);
	if (!status)
		status = record_process_read(stream, g->arena, &process, &err);
	tauti_stream_close(stream);
	if (status)
		return pass_over(g, status, &err);
	if (process.rank >= MOST_RANKS)
		process.rank = -1;
	return taut_vec_push(&g->processes, process) ? TAUT_OK : no_memory(g);
}

static taut_status look_at_process(
	struct gather *g, const char *folder, const char *name)
{
	if (ends_with(name, ".json"))
		return add_process(g, folder, name);
	if (ends_with(name, ".tautlog"))
		return add_log(g, folder, name, -1);
	return TAUT_OK;
}

static taut_status look_at_file(
	struct gather *g, const char *folder, const char *name)
{
	char *path;
	struct stat at;

	if (ends_with(name, ".tautlog"))
		return add_log(g, folder, name,
			g->folders.data[g->folders.count - 1].rank);
	path = taut_arena_printf(
		g->arena, "%s/%s/%s", g->plan->run, folder, name);
	if (!path)
		return no_memory(g);
	if (!stat(path, &at) && !ends_with(name, ".part") &&
		(S_ISDIR(at.st_mode) || at.st_size > 0))
		g->folders.data[g->folders.count - 1].has_trace = true;
	return TAUT_OK;
}

/* rank12 is 12; anything else -1. */
static int64_t rank_of_folder(const char *name)
{
	int64_t rank = 0;

	if (strncmp(name, "rank", 4) || !name[4] || strlen(name) > 11)
		return -1;
	for (const char *at = name + 4; *at; at++) {
		if (*at < '0' || *at > '9')
			return -1;
		rank = rank * 10 + (*at - '0');
	}
	return rank < MOST_RANKS ? rank : -1;
}

static taut_status look_at_run(
	struct gather *g, const char *folder, const char *name)
{
	struct folder found = { rank_of_folder(name), false };

	(void)folder;
	if (found.rank < 0)
		return TAUT_OK;
	if (!taut_vec_push(&g->folders, found))
		return no_memory(g);
	return walk(g, name, look_at_file);
}

/* --- by rank -------------------------------------------------------------------------*/

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* A job of one process has no rank, and is rank 0. */
static void name_the_only_one(struct gather *g)
{
	struct record_process *only = NULL;

	for (size_t i = 0; i < g->processes.count; i++) {
		struct record_process *at = &g->processes.data[i];

		if (at->rank >= 0)
			return;
		if (!only || at->recorded[1] > only->recorded[1] ||
			(at->recorded[1] == only->recorded[1] &&
				at->steps_seen > only->steps_seen))
			only = at;
	}
	if (only && (only->steps_seen > 0 || only->recorded[1] >= 0))
		only->rank = 0;
}

static void find_world(struct gather *g)
{
	int64_t world = -1, most = -1;

	for (size_t i = 0; i < g->processes.count; i++) {
		world = larger(world, g->processes.data[i].world_size);
		most = larger(most, g->processes.data[i].rank);
	}
	for (size_t i = 0; i < g->logs.count; i++)
		world = larger(world, g->logs.data[i].world_size);
	for (size_t i = 0; i < g->folders.count; i++)
		most = larger(most, g->folders.data[i].rank);
	if (world > MOST_RANKS)
		world = -1;
	g->result->world_size = world;
	g->n_ranks = (size_t)larger(world, most + 1);
}

/* A rank that was started again has several: the one that recorded, else the
 * last one. */
static bool is_better(
	const struct record_process *a, const struct record_process *b)
{
	if (!b)
		return true;
	if ((a->recorded[1] >= 0) != (b->recorded[1] >= 0))
		return a->recorded[1] >= 0;
	return a->started_ns > b->started_ns;
}

/* A framework's own log is there from the start; only its process knows
 * whether the recording ever began. */
static bool tells_of_steps(
	const struct gather *g, const struct rank *rank, const char *source)
{
	const struct record_process *process = rank->process;

	return !process || strcmp(source, process->framework) ||
		process->recorded[1] >= 0 ||
		(process->ended_ns < 0 &&
			process->steps_seen >= (int64_t)g->plan->first);
}

static taut_status sort_by_rank(struct gather *g)
{
	g->ranks = TAUT_ARENA_ARRAY(g->arena, struct rank, g->n_ranks + 1);
	if (!g->ranks)
		return no_memory(g);
	for (size_t i = 0; i < g->processes.count; i++) {
		const struct record_process *at = &g->processes.data[i];

		if (at->rank >= 0 && (size_t)at->rank < g->n_ranks &&
			is_better(at, g->ranks[at->rank].process))
			g->ranks[at->rank].process = at;
	}
	for (size_t i = 0; i < g->folders.count; i++)
		g->ranks[g->folders.data[i].rank].has_trace |=
			g->folders.data[i].has_trace;
	for (size_t i = 0; i < g->logs.count; i++) {
		const struct record_log *log = &g->logs.data[i];

		if (log->rank >= 0 && log->kept && tells_of_steps(
			g, &g->ranks[log->rank], log->source))
			g->ranks[log->rank].has_log = true;
	}
	return TAUT_OK;
}

/* --- what to say ------------------------------------------------------------------------*/

static const struct record_log *log_of(
	const struct gather *g, const struct record_process *process)
{
	for (size_t i = 0; i < g->logs.count; i++)
		if (g->logs.data[i].pid == process->pid &&
			!strcmp(g->logs.data[i].host, process->host))
			return &g->logs.data[i];
	return NULL;
}

static const struct record_process *process_of(
	const struct gather *g, const struct record_log *log)
{
	for (size_t i = 0; i < g->processes.count; i++)
		if (g->processes.data[i].pid == log->pid &&
			!strcmp(g->processes.data[i].host, log->host))
			return &g->processes.data[i];
	return NULL;
}

/* How a process that did not end in order has ended. */
static const char *end_of(
	const struct gather *g, const char *host, int64_t pid)
{
	if (record_is_alive(host, pid))
		return "is still running";
	if (pid == g->job->pid && g->job->signal)
		return "was killed";
	return "was killed or crashed";
}

static const char *say_end(
	struct gather *g, const struct record_process *process)
{
	const struct record_log *log = log_of(g, process);
	const char *state = log && *log->state ? log->state : process->state;
	const char *end = end_of(g, process->host, process->pid);

	if (process->steps_seen >= 0)
		return taut_arena_printf(g->arena,
			"process %lld on %s %s in step %lld or later%s%s",
			(long long)process->pid, process->host, end,
			(long long)process->steps_seen, *state ? ": " : "",
			state);
	return taut_arena_printf(g->arena, "process %lld on %s %s%s%s",
		(long long)process->pid, process->host, end,
		*state ? ": " : "", state);
}

/* So begin the states of processes that gave up; tell_missing() says it. */
static const char *without_prefix(const char *state)
{
	static const char prefix[] = "not recorded: ";

	return strncmp(state, prefix, strlen(prefix)) ? state :
		state + strlen(prefix);
}

static const char *why_not(
	struct gather *g, const struct record_process *process)
{
	if (!process)
		return "no process of it said anything";
	if (process->ended_ns < 0)
		return say_end(g, process);
	if (process->steps_seen == 0 && !*process->state)
		return "no optimiser step was made";
	if (process->steps_seen >= 0 &&
		process->steps_seen <= (int64_t)g->plan->first)
		return process->steps_seen == 0 ?
			taut_arena_printf(g->arena,
				"no optimiser step was made: %s",
				without_prefix(process->state)) :
			taut_arena_printf(g->arena, "the job ended after %lld "
				"step%s; recording begins at step %u (--steps)",
				(long long)process->steps_seen,
				process->steps_seen == 1 ? "" : "s",
				g->plan->first);
	return *process->state ? without_prefix(process->state) : "it gave no reason";
}

static taut_status judge_rank(struct gather *g, int32_t number)
{
	struct rank *rank = &g->ranks[number];
	struct record_missing missing = { number, NULL };

	if (rank->has_trace || rank->has_log)
		return taut_vec_push(&g->result->ranks, number) ? TAUT_OK :
			no_memory(g);
	missing.why = why_not(g, rank->process);
	return missing.why && taut_vec_push(&g->result->missing, missing) ?
		TAUT_OK : no_memory(g);
}

static void widen(int64_t steps[2], const int64_t more[2])
{
	if (more[1] <= more[0])
		return;
	if (steps[1] < 0 || more[0] < steps[0])
		steps[0] = more[0];
	if (more[1] > steps[1])
		steps[1] = more[1];
}

/* Of those that have something: is it all that was asked for? */
static taut_status tell_partial(struct gather *g, int32_t number)
{
	struct rank *rank = &g->ranks[number];
	const struct record_process *process = rank->process;
	const char *steps;

	if (process)
		widen(g->result->recorded, process->recorded);
	if (!process || (process->recorded[0] == (int64_t)g->plan->first &&
				process->recorded[1] == (int64_t)g->plan->end))
		return TAUT_OK;
	rank->is_partial = true;
	if (process->ended_ns < 0)
		return tell(g, taut_arena_printf(g->arena, "rank %d: %s",
			number, say_end(g, process)));
	steps = process->recorded[1] > process->recorded[0] ?
		record_steps_text(g->arena, process->recorded[0],
			process->recorded[1]) : "no steps";
	return tell(g, steps ? taut_arena_printf(g->arena,
		"rank %d: recorded %s%s%s", number, steps,
		*process->state ? ": " : "", process->state) : NULL);
}

/* One line for all ranks that are missing for the same reason. */
static taut_status tell_missing(struct gather *g)
{
	const struct record_missing *missing = g->result->missing.data;
	size_t n = g->result->missing.count;
	int32_t *same = TAUT_ARENA_ARRAY(g->arena, int32_t, n + 1);
	bool *told = TAUT_ARENA_ARRAY(g->arena, bool, n + 1);
	taut_status status = same && told ? TAUT_OK : no_memory(g);

	for (size_t i = 0; i < n && !status; i++) {
		const char *ranks;
		size_t n_same = 0;

		if (told[i])
			continue;
		for (size_t k = i; k < n; k++)
			if (!strcmp(missing[k].why, missing[i].why)) {
				same[n_same++] = missing[k].rank;
				told[k] = true;
			}
		ranks = record_ranks_text(g->arena, same, n_same);
		status = tell(g, ranks ? taut_arena_printf(g->arena,
			"%s: not recorded: %s", ranks, missing[i].why) : NULL);
	}
	return status;
}

/* Logs of processes that said nothing of themselves, as C programs do. */
static taut_status tell_log(struct gather *g, const struct record_log *log)
{
	const struct record_process *process = process_of(g, log);
	taut_status status = TAUT_OK;

	if (log->lost)
		status = tell(g, taut_arena_printf(g->arena, "%s: was full: "
			"%llu of its records are lost", log->name,
			(unsigned long long)log->lost));
	if (status || log->is_closed || process)
		return status;
	if (log->rank >= 0)
		g->ranks[log->rank].is_partial = true;
	return tell(g, taut_arena_printf(g->arena,
		"%s: was not closed: process %lld on %s %s%s%s", log->name,
		(long long)log->pid, log->host,
		end_of(g, log->host, log->pid), *log->state ? ": " : "",
		log->state));
}

static taut_status tell_logs(struct gather *g)
{
	taut_status status = TAUT_OK;
	size_t homeless = 0;

	for (size_t i = 0; i < g->logs.count && !status; i++) {
		status = tell_log(g, &g->logs.data[i]);
		homeless += g->logs.data[i].rank < 0 && g->logs.data[i].kept;
	}
	if (homeless && !status)
		status = tell(g, taut_arena_printf(g->arena, "processes/: %zu "
			"event log%s of processes whose rank nobody knows",
			homeless, homeless == 1 ? "" : "s"));
	return status;
}

static taut_status tell_job(struct gather *g)
{
	if (g->job->signal)
		return tell(g, taut_arena_printf(g->arena,
			"the job was killed by signal %d (%s)", g->job->signal,
			strsignal(g->job->signal)));
	if (g->job->exit_status > 0)
		return tell(g, taut_arena_printf(g->arena,
			"the job ended with exit status %d",
			g->job->exit_status));
	return TAUT_OK;
}

/* The one line of a recording in which there is nothing. */
static taut_status tell_nothing(struct gather *g)
{
	const struct record_process *best = NULL;
	const char *why = "no process imported PyTorch, TensorFlow or MXNet, "
		"or called MPI_Init, where Taut could see it (a Python with "
		"-I, -E or -S does not let it)";

	for (size_t i = 0; i < g->processes.count; i++)
		if (!best || is_better(&g->processes.data[i], best))
			best = &g->processes.data[i];
	if (best)
		why = why_not(g, best);
	return tell(g, why ? taut_arena_printf(
		g->arena, "nothing was recorded: %s", why) : NULL);
}

static taut_status judge(struct gather *g)
{
	struct record_result *result = g->result;
	taut_status status = TAUT_OK;

	for (size_t i = 0; i < g->n_ranks && !status; i++)
		status = judge_rank(g, (int32_t)i);
	result->complete = result->ranks.count > 0 && !result->missing.count;
	if (!status)
		status = tell_job(g);
	if (!status)
		status = result->ranks.count || result->missing.count ?
			tell_missing(g) : tell_nothing(g);
	for (size_t i = 0; i < result->ranks.count && !status; i++)
		status = tell_partial(g, result->ranks.data[i]);
	if (!status)
		status = tell_logs(g);
	for (size_t i = 0; i < g->n_ranks; i++)
		result->complete &= !g->ranks[i].is_partial;
	return status;
}

taut_status record_gather(const struct record_plan *plan,
	const struct record_job *job, struct taut_arena *arena,
	struct record_result *result, struct taut_error *err)
{
	struct gather g = { .plan = plan, .job = job, .arena = arena,
		.result = result, .err = err };
	taut_status status = walk(&g, "processes", look_at_process);

	if (!status)
		status = walk(&g, "", look_at_run);
	if (!status) {
		name_the_only_one(&g);
		find_world(&g);
		status = sort_by_rank(&g);
	}
	if (!status)
		status = judge(&g);
	taut_vec_free(&g.processes);
	taut_vec_free(&g.logs);
	taut_vec_free(&g.folders);
	return status;
}

void record_result_fini(struct record_result *result)
{
	taut_vec_free(&result->ranks);
	taut_vec_free(&result->missing);
	taut_vec_free(&result->problems);
}
