/* cmd_server.c - taut server: one server of a training job's parameters. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <taut/record.h>
#include <taut/server.h>
#include <taut/trace.h>

#include "cli/job.h"
#include "cli/record.h"
#include "cli/term.h"
#include "cli/verbs.h"

struct values {
	const char *listen, *servers, *secret_file, *update, *on_loss, *memory;
	const char *staleness, *record;
	unsigned workers, index, within, lost_after;
	bool sync, async, unordered, apart, json;
};

static const struct opt options[] = {
	{ "workers", 0, OPT_NUMBER, offsetof(struct values, workers), "N",
		"how many workers the job has", 1, 4096 },
	{ "listen", 0, OPT_TEXT, offsetof(struct values, listen), "ADDRESS",
		"HOST:PORT at which it listens (default: its own of --servers)",
		0, 0 },
	{ "servers", 0, OPT_TEXT, offsetof(struct values, servers), "LIST",
		"HOST:PORT of all servers, with commas, as the workers have it",
		0, 0 },
	{ "index", 0, OPT_NUMBER, offsetof(struct values, index), "I",
		"which one of --servers this is, from 0 (default: 0)", 0, 1023 },
	{ "secret-file", 0, OPT_TEXT, offsetof(struct values, secret_file),
		"FILE", "whose first line is the secret of the job (default: "
		"$TAUT_SECRET)", 0, 0 },
	{ "sync", 0, OPT_FLAG, offsetof(struct values, sync), NULL,
		"a pull waits for the pushes of all workers (the default)", 0, 0 },
	{ "async", 0, OPT_FLAG, offsetof(struct values, async), NULL,
		"each push is applied at once", 0, 0 },
	{ "staleness", 0, OPT_TEXT, offsetof(struct values, staleness), "N",
		"with --async: a pull waits while a worker is more than N pushes "
		"behind", 0, 0 },
	{ "update", 0, OPT_TEXT, offsetof(struct values, update), "RULE",
		"sum (default), or an optimizer: sgd:lr=0.1,momentum=0.9, "
		"adam:lr=1e-3, adamw:lr=1e-3,weight-decay=0.01", 0, 0 },
	{ "on-loss", 0, OPT_TEXT, offsetof(struct values, on_loss), "WHAT",
		"when a worker is gone: end (default), continue with the rest, "
		"or rescale sums to all", 0, 0 },
	{ "unordered", 0, OPT_FLAG, offsetof(struct values, unordered), NULL,
		"sum pushes as they come, not in the order of the workers", 0, 0 },
	{ "apart", 0, OPT_FLAG, offsetof(struct values, apart), NULL,
		"share no memory with workers of this host: all goes over the "
		"network", 0, 0 },
	{ "memory", 0, OPT_TEXT, offsetof(struct values, memory), "BYTES",
		"refuse keys that need more (default: no limit)", 0, 0 },
	{ "within", 0, OPT_NUMBER, offsetof(struct values, within), "SECONDS",
		"all workers must have come (default: 60)", 1, 86400 },
	{ "lost-after", 0, OPT_NUMBER, offsetof(struct values, lost_after),
		"SECONDS", "a worker that says nothing is gone (default: 10)", 1,
		86400 },
	{ "record", 0, OPT_TEXT, offsetof(struct values, record), "FILE",
		"write each push, sum, update and pull to this event log", 0, 0 },
	{ "json", 0, OPT_FLAG, offsetof(struct values, json), NULL,
		"print the totals as JSON", 0, 0 },
};

/* --- words ------------------------------------------------------------------------------- */

enum { SECRET_MOST = 4096 };

static bool read_secret(const char *path, char *secret, struct taut_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, secret, SECRET_MOST - 1);
	int error = errno;

	if (fd >= 0)
		close(fd);
	if (n < 0) {
		taut_error_set(err, TAUT_EIO, -1, "%s: %s", path,
			strerror(error));
		return false;
	}
	secret[n] = '\0';
	secret[strcspn(secret, "\r\n")] = '\0';
	if (!secret[0])
		taut_error_set(err, TAUT_EFORMAT, -1, "%s: expected a secret in "
			"its first line", path);
	return secret[0];
}

static bool read_on_loss(const char *text, enum taut_server_on_loss *ret_what,
	struct taut_error *err)
{
	static const char *const names[] = { "end", "continue", "rescale" };

	for (int i = 0; i < 3; i++)
		if (!strcmp(text, names[i])) {
			*ret_what = (enum taut_server_on_loss)i;
			return true;
		}
	taut_error_set(err, TAUT_EINVAL, -1, "--on-loss: expected end, continue "
		"or rescale, found '%s'", text);
	return false;
}

static bool read_staleness(const char *text,
	struct taut_server_options *server, struct taut_error *err)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || n > 1000000) {
		taut_error_set(err, TAUT_EINVAL, -1, "--staleness: expected a "
			"number of pushes from 0 on, found '%s'", text);
		return false;
	}
	server->bounded = true;
	server->staleness = (uint32_t)n;
	return true;
}

static bool read_memory(const char *text, uint64_t *ret_bytes,
	struct taut_error *err)
{
	const char *at = text;

	if (opt_bytes(&at, UINT64_C(1) << 50, ret_bytes) && !*at && *ret_bytes)
		return true;
	taut_error_set(err, TAUT_EINVAL, -1, "--memory: expected bytes, like 512M "
		"or 4G, found '%s'", text);
	return false;
}

/* The index-th of --servers, and how many there are. */
static bool find_self(const struct verb_call *call,
	struct taut_server_options *server, struct taut_error *err)
{
	const struct values *v = call->values;
	const char *at = v->servers ? v->servers : v->listen;
	char *own;

	server->n_servers = 1;
	for (const char *c = at; c && *c; c++)
		server->n_servers += *c == ',';
	server->index = v->index;
	server->listen = v->listen;
	if (!at || v->index >= server->n_servers) {
		taut_error_set(err, TAUT_EINVAL, -1, at ? "--index: expected one "
			"of the %u of --servers" : "expected --listen HOST:PORT, "
			"or --servers and --index", server->n_servers);
		return false;
	}
	for (unsigned i = 0; i < v->index; i++)
		at = strchr(at, ',') + 1;
	own = taut_arena_strndup(call->arena, at, strcspn(at, ","));
	if (own && !v->listen)
		server->listen = own;
	return own;
}

static bool read_words(const struct verb_call *call,
	struct taut_server_options *server, struct taut_error *err)
{
	const struct values *v = call->values;

	*server = (struct taut_server_options){ .n_workers = v->workers,
		.async = v->async, .unordered = v->unordered,
		.apart = v->apart,
		.meet_within_ns = v->within * INT64_C(1000000000),
		.lost_after_ns = v->lost_after * INT64_C(1000000000) };
	if (call->n_operands)
		taut_error_set(err, TAUT_EINVAL, -1, "expected no '%s'",
			call->operands[0]);
	else if (!v->workers)
		taut_error_set(err, TAUT_EINVAL, -1, "expected --workers N");
	else if (v->sync && v->async)
		taut_error_set(err, TAUT_EINVAL, -1,
			"expected --sync or --async");
	else if (v->staleness && !v->async)
		taut_error_set(err, TAUT_EINVAL, -1,
			"--staleness: expected --async");
	else if (v->on_loss && !strcmp(v->on_loss, "rescale") && v->async)
		taut_error_set(err, TAUT_EINVAL, -1, "--on-loss rescale: "
			"expected rounds, which --async has not");
	else
		return (!v->staleness || read_staleness(
				v->staleness, server, err)) &&
			(!v->on_loss || read_on_loss(
				v->on_loss, &server->on_loss, err)) &&
			(!v->memory || read_memory(
				v->memory, &server->memory_bytes, err)) &&
			!taut_server_update_read(v->update ? v->update : "sum",
				&server->update, err) &&
			find_self(call, server, err);
	return false;
}

/* --- the event log ------------------------------------------------------------------------- */

struct recorder {
	const char *path;     /* NULL: nothing is recorded */
	struct taut_log *log; /* NULL: not open */
	int64_t offset_ns; /* of the wall clock from the monotonic one */
	uint32_t names[4];
};

static taut_status open_log(struct recorder *recorder,
	const struct taut_server_options *server, struct taut_error *err)
{
	static const char *const names[] = { "push", "sum", "update", "pull" };
	const struct taut_log_options log = { .source = "server",
		.rank = (int32_t)(server->n_workers + server->index),
		.world_size = (int32_t)(server->n_workers + server->n_servers),
		.local_rank = -1 };
	struct taut_clock clock = taut_clock_monotonic();
	taut_status status = taut_log_open(
		recorder->path, &log, &recorder->log, err);

	if (status)
		return status;
	recorder->offset_ns = taut_log_now() - clock.now_ns(clock.state);
	for (int i = 0; i < 4; i++)
		recorder->names[i] = taut_log_text(recorder->log, names[i]);
	for (uint32_t w = 0; w < server->n_workers; w++) {
		char name[32];

		snprintf(name, sizeof name, "worker %u", w);
		taut_log_lane(recorder->log, w + 1, name);
	}
	taut_log_lane(recorder->log, 0, "sums");
	return TAUT_OK;
}

static void write_event(void *context, const struct taut_server_event *event)
{
	const struct recorder *recorder = context;
	int64_t start_ns = event->start_ns + recorder->offset_ns;
	int64_t end_ns = event->end_ns + recorder->offset_ns;
	uint32_t name = recorder->names[event->did];
	const struct taut_log_comm comm = { .collective = name,
		.in_elements = (int64_t)event->bytes, .out_elements = -1,
		.seq = event->round, .group_size = -1, .dst = -1, .root = -1,
		.src = (int32_t)event->worker };

	if (event->did == TAUT_SERVER_DID_PUSH ||
		event->did == TAUT_SERVER_DID_PULL)
		taut_log_comm(recorder->log, name, TAUT_KIND_COMM,
			event->worker + 1,
			start_ns, end_ns, event->part + 1, &comm);
	else
		taut_log_span(recorder->log, name, TAUT_KIND_OP, 0, start_ns, end_ns,
			event->part + 1);
}

/* What had no room is missing without a trace in what reads the log. */
static void close_log(struct recorder *recorder, struct taut_arena *arena)
{
	struct record_log log;
	struct taut_error err;

	if (!recorder->log)
		return;
	taut_log_close(recorder->log);
	if (!record_log_read(*recorder->path == '/' ? "" : ".", recorder->path,
		arena, &log, &err) && log.lost)
		term_complain("%s: was full: %llu of its records are lost",
			recorder->path, (unsigned long long)log.lost);
}

/* --- signals --------------------------------------------------------------------------------- */

struct watch {
	struct taut_server *server;
	sigset_t signals;
	sigset_t before;
	pthread_t thread;
	bool is_there;
	atomic_bool over;
};

/* SIGUSR2 wakes it when it is over; one from elsewhere does nothing. */
static void *wait_for_signal(void *context)
{
	struct watch *watch = context;
	int signal = 0;

	while (!atomic_load(&watch->over))
		if (!sigwait(&watch->signals, &signal) && signal != SIGUSR2)
			taut_server_stop(watch->server);
	return NULL;
}

static void begin_watch(struct watch *watch, struct taut_server *server)
{
	watch->server = server;
	sigemptyset(&watch->signals);
	sigaddset(&watch->signals, SIGINT);
	sigaddset(&watch->signals, SIGTERM);
	sigaddset(&watch->signals, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &watch->signals, &watch->before);
	watch->is_there = !pthread_create(
		&watch->thread, NULL, wait_for_signal, watch);
	if (!watch->is_there) /* they end the process, as ever */
		pthread_sigmask(SIG_SETMASK, &watch->before, NULL);
}

static void end_watch(struct watch *watch)
{
	if (!watch->is_there)
		return;
	atomic_store(&watch->over, true);
	pthread_kill(watch->thread, SIGUSR2);
	pthread_join(watch->thread, NULL);
}

/* --- the verb -------------------------------------------------------------------------------- */

static void say_ready(const struct taut_server_options *server,
	const char *update)
{
	printf("taut server %u of %u: ready at %s for %u worker%s, %s, %s\n",
		server->index, server->n_servers, server->listen,
		server->n_workers, server->n_workers == 1 ? "" : "s",
		server->async ? "asynchronous" : "synchronous",
		update ? update : "sum");
	fflush(stdout);
}

static void say_totals(const struct taut_server_counts *counts, bool json)
{
	const struct {
		const char *key, *words;
		uint64_t n;
	} rows[] = {
		{ "workers", "workers came", counts->workers },
		{ "lost", "were lost", counts->lost },
		{ "parts", "parts", counts->keys_parts },
		{ "state_bytes", "bytes of state", counts->state_bytes },
		{ "rounds", "rounds", counts->rounds },
		{ "pushes", "pushes", counts->pushes },
		{ "pushed_bytes", "bytes pushed", counts->pushed_bytes },
		{ "pulls", "pulls", counts->pulls },
		{ "pulled_bytes", "bytes pulled", counts->pulled_bytes },
		{ "refused", "connections refused", counts->refused },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (json)
			printf("%s\"%s\": %llu", i ? ", " : "{", rows[i].key,
				(unsigned long long)rows[i].n);
		else
			printf("%s%llu %s", i ? ", " : "",
				(unsigned long long)rows[i].n, rows[i].words);
	}
	printf(json ? "}\n" : "\n");
	fflush(stdout);
}

/* The least that a server opens: for each worker a link, and what UCX 1.13 has over TCP
 * alone (epoll sets, sockets, events); 14 where shared memory is tried, too. */
enum { FILES_OF_WORKER = 10, FILES_BESIDE = 16 };

/* The soft limit is for programs that use select(). */
static taut_status check_files(
	const struct taut_server_options *its, struct taut_error *err)
{
	rlim_t needed = FILES_BESIDE +
		FILES_OF_WORKER * (rlim_t)its->n_workers;
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return TAUT_OK;
	if (files.rlim_cur != files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &files))
			(void)!getrlimit(RLIMIT_NOFILE, &files);
	}
	if (files.rlim_cur >= needed)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1, "%u workers: expected a "
		"limit of at least %llu open files (ulimit -n), found %llu",
		its->n_workers, (unsigned long long)needed,
		(unsigned long long)files.rlim_cur);
}

/* The log is made when nothing else can keep the server from starting. */
static taut_status start(const struct taut_server_options *its,
	struct recorder *recorder, struct taut_server **ret_server,
	struct taut_error *err)
{
	taut_status status = check_files(its, err);

	if (!status)
		status = taut_server_create(its, ret_server, err);
	if (status || !recorder->path)
		return status;
	status = open_log(recorder, its, err);
	if (status)
		taut_server_destroy(*ret_server);
	return status;
}

static int serve(const struct values *values,
	const struct taut_server_options *its, struct recorder *recorder,
	struct taut_arena *arena)
{
	struct taut_error err = { .message = "" }, unshared;
	struct watch watch = { .server = NULL };
	struct taut_server_counts counts;
	struct taut_server *server;
	taut_status status = start(its, recorder, &server, &err);

	if (status)
		return job_status(status, &err);
	begin_watch(&watch, server);
	if (!values->json)
		say_ready(its, values->update);
	status = taut_server_run(server, &err);
	end_watch(&watch);
	taut_server_counts(server, &counts);
	if (taut_server_unshared(server, &unshared))
		term_complain("server %u: %s", its->index, unshared.message);
	taut_server_destroy(server);
	close_log(recorder, arena);
	say_totals(&counts, values->json);
	return job_status(status, &err);
}

static int run(const struct verb_call *call)
{
	const struct values *values = call->values;
	struct taut_error err = { .message = "" };
	struct recorder recorder = { .path = values->record };
	struct taut_server_options server;
	char secret[SECRET_MOST];

	if (!read_words(call, &server, &err)) {
		term_complain("server: %s", err.message);
		term_complain("'taut server --help' lists what it takes");
		return EXIT_USAGE;
	}
	if (values->secret_file &&
		!read_secret(values->secret_file, secret, &err))
		return job_status(TAUT_EIO, &err);
	if (values->secret_file)
		server.secret = secret;
	if (values->record) {
		server.event = write_event;
		server.context = &recorder;
	}
	return serve(values, &server, &recorder, call->arena);
}

const struct verb verb_server = {
	.name = "server",
	.summary = "a parameter server: workers push, it sums or trains, they pull",
	.operands = "",
	.about = "Serves the workers of one training job until all have left, and "
		"then prints totals. It says in one line when it listens. Who "
		"does not know the secret of the job is refused.",
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.run = run,
	.no_operands = true,
};
