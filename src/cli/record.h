/* record.h - the parts of `taut record`: what the job is run with, running it,
 * and what the ranks left behind. docs/recording.md has the folder.
 *
 * Owner:   what is found lies in the arena that is handed in.
 * Threads: none are touched; one job at a time. */
#ifndef TAUT_CLI_RECORD_H
#define TAUT_CLI_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <taut/base.h>

#include "base/vec.h"
#include "cli/env.h"

struct tauti_log_header;
struct tauti_stream;

typedef env_lines record_lines;

/* What is asked for. */
struct record_plan {
	const char *run; /* the folder, absolute */
	uint32_t first, end; /* steps; end is not recorded */
	bool no_mpi, no_nccl, join, memory;
	const char *compile; /* pattern of modules; NULL: none */
	const char *const *command;
	size_t n_command;
};

/* --- record_env.c --------------------------------------------------------------*/

/* The installed files that the job gets to see; NULL: there is none. */
struct record_files {
	const char *inject; /* folder of sitecustomize.py */
	const char *record, *mpi, *nccl; /* shared objects */
};

/* Found from where this command is: in the build tree, or as installed. */
TAUT_NODISCARD taut_status record_find_files(struct taut_arena *arena,
	struct record_files *ret_files, struct taut_error *err);

/* Sets the environment of this process to that of the job. What is left out
 * on purpose or by need is told in lines. */
TAUT_NODISCARD taut_status record_set_environment(
	const struct record_plan *plan, const struct record_files *files,
	struct taut_arena *arena, record_lines *lines, struct taut_error *err);

/* --- record_job.c -----------------------------------------------------------------*/

struct record_job {
	int64_t started_ns, ended_ns; /* CLOCK_REALTIME */
	pid_t pid;
	int exit_status; /* -1: it was killed */
	int signal;      /* 0: it was not */
	int asked_to_end; /* SIGINT, SIGTERM, SIGHUP or SIGQUIT that this process got
	                     meanwhile; 0: none. The job may have ended well */
	int fault;       /* errno when it could not be started, else 0 */
};

/* Runs the command on this terminal and waits for it. Signals that this
 * process gets meanwhile, and the terminal did not send to both, are handed
 * on. TAUT_EIO: no process could be made. */
TAUT_NODISCARD taut_status record_run_job(const char *const *command,
	size_t n_command, struct taut_arena *arena, struct record_job *ret_job,
	struct taut_error *err);

/* The exit status that tells the caller what the job's told; does not return
 * when a signal killed the job: it kills this process, too. */
int record_job_status(const struct record_job *job);

/* --- record_process.c ----------------------------------------------------------------*/

/* processes/HOST-PID.json. Texts are "" and numbers -1 where not known. */
struct record_process {
	const char *host, *framework, *state;
	int64_t pid, rank, world_size;
	int64_t steps_seen;
	int64_t recorded[2]; /* A, B */
	int64_t started_ns, ended_ns; /* -1: it has not ended, or not well */
};

/* TAUT_EFORMAT: it is no such object. */
TAUT_NODISCARD taut_status record_process_read(struct tauti_stream *stream,
	struct taut_arena *arena, struct record_process *ret_process,
	struct taut_error *err);

/* --- record_log.c ---------------------------------------------------------------------*/

/* An event log, as far as its header tells. */
struct record_log {
	const char *name; /* "rank3/mpi-77.tautlog" */
	const char *source, *host, *state;
	int64_t pid, rank, world_size, local_rank; /* -1 not known */
	uint64_t kept, lost; /* records */
	bool is_closed;
};

/* Reads the header; what a dead process left larger than it needs is cut.
 * TAUT_EFORMAT: it is no log. */
TAUT_NODISCARD taut_status record_log_read(const char *folder,
	const char *name, struct taut_arena *arena, struct record_log *ret_log,
	struct taut_error *err);

/* Is there a process of this number on this host? */
bool record_is_alive(const char *host, int64_t pid);

/* --- record_gather.c --------------------------------------------------------------------*/

struct record_missing {
	int32_t rank;
	const char *why; /* never NULL */
};

struct record_result {
	int64_t world_size; /* -1: not known */
	TAUT_VEC(int32_t) ranks; /* something was recorded; ascending */
	TAUT_VEC(struct record_missing) missing; /* ascending */
	record_lines problems;
	int64_t recorded[2]; /* steps that any rank says it has; -1, -1: none */
	bool complete;
};

/* Looks at what is in the folder of a job that has ended. problems may hold
 * lines already. */
TAUT_NODISCARD taut_status record_gather(const struct record_plan *plan,
	const struct record_job *job, struct taut_arena *arena,
	struct record_result *result, struct taut_error *err);
void record_result_fini(struct record_result *result);

/* --- record_write.c ----------------------------------------------------------------------*/

/* Writes recording.json, whole or not at all. TAUT_EIO. */
TAUT_NODISCARD taut_status record_write(const struct record_plan *plan,
	const struct record_job *job, const struct record_result *result,
	struct taut_error *err);

#endif /* TAUT_CLI_RECORD_H */
