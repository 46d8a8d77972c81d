/* record_job.c - runs the job as if this command were not there. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/record.h"

/* What a shell says of a command that is not there, or cannot be run. */
enum { EXIT_NOT_FOUND = 127, EXIT_NOT_RUN = 126 };

/* Handed on to the job, beside SIGCHLD, which is for us. The terminal stops
 * and continues both by itself. */
static const int handed_on[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1,
	SIGUSR2, SIGALRM };
enum { N_HANDED_ON = sizeof handed_on / sizeof handed_on[0] };

struct signals {
	sigset_t waited, before;
	struct sigaction child_before;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void hold_signals(struct signals *signals)
{
	const struct sigaction usual = { .sa_handler = SIG_DFL };

	/* Where the caller ignores it, nobody could wait for the job. */
	sigaction(SIGCHLD, &usual, &signals->child_before);
	sigemptyset(&signals->waited);
	sigaddset(&signals->waited, SIGCHLD);
	for (size_t i = 0; i < N_HANDED_ON; i++)
		sigaddset(&signals->waited, handed_on[i]);
	sigprocmask(SIG_BLOCK, &signals->waited, &signals->before);
}

/* What nohup, or a shell behind &, has us ignore asks nobody to end. */
static void note_end(struct record_job *job, int number)
{
	struct sigaction ours;

	if (job->asked_to_end || (number != SIGINT && number != SIGTERM &&
		number != SIGHUP && number != SIGQUIT))
		return;
	if (!sigaction(number, NULL, &ours) && ours.sa_handler != SIG_IGN)
		job->asked_to_end = number;
}

/* A signal that came too late for the job does not end us by itself either. */
static void drop_pending(const struct signals *signals, struct record_job *job)
{
	const struct timespec at_once = { 0, 0 };
	int number;

	while ((number = sigtimedwait(&signals->waited, NULL, &at_once)) > 0)
		note_end(job, number);
}

/* As the caller had them. */
static void release_signals(const struct signals *signals)
{
	sigaction(SIGCHLD, &signals->child_before, NULL);
	sigprocmask(SIG_SETMASK, &signals->before, NULL);
}

/* Does not return. */
static void become_job(
	char *const *words, const struct signals *signals, int tell)
{
	int fault;

	release_signals(signals);
	execvp(words[0], words);
	fault = errno;
	(void)!write(tell, &fault, sizeof fault);
	_exit(EXIT_NOT_FOUND);
}

/* 0, or why the child could not become the command. */
static int read_fault(int fd)
{
	int fault = 0;
	ssize_t n;

	do {
		n = read(fd, &fault, sizeof fault);
	} while (n < 0 && errno == EINTR);
	return n == sizeof fault ? fault : 0;
}

static taut_status start(char *const *words, const struct signals *signals,
	struct record_job *job, struct taut_error *err)
{
	int tell[2];

	if (pipe2(tell, O_CLOEXEC))
		return taut_error_set(err, TAUT_EIO, -1,
			"cannot make a pipe: %s", strerror(errno));
	job->started_ns = now_ns();
	job->pid = fork();
	if (!job->pid)
		become_job(words, signals, tell[1]);
	close(tell[1]);
	if (job->pid > 0)
		job->fault = read_fault(tell[0]);
	else
		taut_error_set(err, TAUT_EIO, -1,
			"cannot make a process: %s", strerror(errno));
	close(tell[0]);
	return job->pid > 0 ? TAUT_OK : TAUT_EIO;
}

/* True when the job has ended. */
static bool has_ended(struct record_job *job)
{
	int status;
	pid_t pid = waitpid(job->pid, &status, WNOHANG);

	if (pid != job->pid)
		return pid < 0 && errno == ECHILD;
	job->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	job->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	return true;
}

/* What the terminal sends, it sends to the job as well; but when it hangs up,
 * it tells the leader of the session alone. */
static bool is_for_us_alone(int number, const siginfo_t *info)
{
	return info->si_code != SI_KERNEL ||
		(number == SIGHUP && getsid(0) == getpid());
}

static void wait_for_end(const struct signals *signals, struct record_job *job)
{
	while (!has_ended(job)) {
		siginfo_t info;
		int number = sigwaitinfo(&signals->waited, &info);

		if (number <= 0 || number == SIGCHLD)
			continue;
		note_end(job, number);
		if (is_for_us_alone(number, &info))
			kill(job->pid, number);
	}
	job->ended_ns = now_ns();
}

taut_status record_run_job(const char *const *command, size_t n_command,
	struct taut_arena *arena, struct record_job *ret_job,
	struct taut_error *err)
{
	struct record_job job = { .exit_status = -1 };
	char **words = TAUT_ARENA_ARRAY(arena, char *, n_command + 1);
	struct signals signals;
	taut_status status;

	if (!words)
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
	memcpy(words, command, n_command * sizeof *words);
	hold_signals(&signals);
	status = start(words, &signals, &job, err);
	if (!status)
		wait_for_end(&signals, &job);
	drop_pending(&signals, &job);
	release_signals(&signals);
	if (!status)
		*ret_job = job;
	return status;
}

int record_job_status(const struct record_job *job)
{
	const struct rlimit no_core = { 0, 0 };
	sigset_t only;

	if (job->fault)
		return job->fault == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
	if (!job->signal)
		return job->exit_status;
	setrlimit(RLIMIT_CORE, &no_core); /* the job's is enough */
	signal(job->signal, SIG_DFL);
	sigemptyset(&only);
	sigaddset(&only, job->signal);
	sigprocmask(SIG_UNBLOCK, &only, NULL);
	raise(job->signal);
	return 128 + job->signal;
}
