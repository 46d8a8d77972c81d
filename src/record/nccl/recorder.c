/* recorder.c - the recorder of a process: its memory, its log, its beginning and
 * its end. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/log.h"
#include "record/nccl/abi.h"
#include "record/nccl/recorder.h"

/* Events that cost NCCL something even when nobody takes them. */
#define COSTLY ((uint32_t)NCCL_KERNEL_CH)

/* --- options ---------------------------------------------------------------------*/

static int32_t number_of(const char *name)
{
	const char *text = getenv(name);
	char *end = NULL;
	long number = text ? strtol(text, &end, 10) : -1;

	return text && end != text && !*end && number >= 0 &&
		number <= INT32_MAX ? (int32_t)number : -1;
}

/* What launchers tell, as python/taut/_adapter.py has them. All but the first
 * two tell a task, and so whatever processes the task starts. */
static const struct launcher {
	const char *rank, *size, *local;
	const char *within; /* not believed without this; may be NULL */
	enum tauti_nccl_rank_from from;
} launchers[] = {
	{ "TAUT_RANK", "TAUT_RANKS", "", NULL, TAUTI_NCCL_OF_PROCESS },
	{ "RANK", "WORLD_SIZE", "LOCAL_RANK", NULL, TAUTI_NCCL_OF_PROCESS },
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
		"OMPI_COMM_WORLD_LOCAL_RANK", NULL, TAUTI_NCCL_OF_TASK },
	{ "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", NULL, TAUTI_NCCL_OF_TASK },
	{ "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_ID",
		TAUTI_NCCL_OF_TASK },
};

static void read_ranks(struct tauti_nccl_options *options)
{
	for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
		const struct launcher *l = &launchers[i];
		int32_t rank = number_of(l->rank), size = number_of(l->size);

		if (rank < 0 || size < 0 || (l->within && !getenv(l->within)))
			continue;
		options->rank = rank;
		options->world_size = size;
		options->local_rank = number_of(l->local);
		options->rank_from = l->from;
		return;
	}
}

static uint32_t events_of(const char *text)
{
	static const struct {
		const char *name;
		uint32_t bits;
	} events[] = {
		{ "coll", NCCL_COLL },
		{ "p2p", NCCL_P2P },
		{ "op", NCCL_PROXY_OP },
		{ "step", NCCL_PROXY_OP | NCCL_PROXY_STEP },
		{ "kernel", NCCL_KERNEL_CH },
	};
	uint32_t bits = 0;

	for (; *text; text += strspn(text, ", ")) {
		size_t len = strcspn(text, ", ");

		for (size_t i = 0; i < sizeof events / sizeof *events; i++)
			if (strlen(events[i].name) == len &&
				!memcmp(events[i].name, text, len))
				bits |= events[i].bits;
		text += len;
	}
	/* Without a task there is nothing to hang the rest on. */
	return bits ? bits | NCCL_COLL | NCCL_P2P : 0;
}

/* Whether nobody will set the switch: our Python package does. Without Python
 * everything is recorded, as long as there is room. */
static bool is_always(void)
{
	const char *text = getenv("TAUT_NCCL_ALWAYS");

	if (text && *text)
		return strcmp(text, "0") != 0;
	return !dlsym(RTLD_DEFAULT, "Py_IsInitialized");
}

struct tauti_nccl_options tauti_nccl_options_read(void)
{
	const char *folder = getenv("TAUT_RECORD");
	const char *events = getenv("TAUT_NCCL_EVENTS");
	int32_t capacity = number_of("TAUT_NCCL_RECORDS");
	struct tauti_nccl_options options = {
		.folder = folder && *folder ? folder : NULL,
		.mask = events_of(events && *events ? events : "coll,p2p,step"),
		.capacity = capacity > 0 ? (uint32_t)capacity : 0,
		.always = is_always(),
		.rank = -1, .world_size = -1, .local_rank = -1,
	};

	read_ranks(&options);
	return options;
}

/* --- where the log is ---------------------------------------------------------------*/

/* RUN/rank3/nccl-PID.tautlog; without a rank, RUN/processes/nccl-HOST-PID.tautlog. */
static bool place_log(
	const char *folder, int32_t rank, pid_t pid, char *path, size_t size)
{
	char name[128], inner[32] = "processes";
	int len;

	snprintf(name, sizeof name, "%ld", (long)pid);
	if (rank >= 0)
		snprintf(inner, sizeof inner, "rank%d", (int)rank);
	else
		tauti_log_process_name(name, sizeof name);
	len = snprintf(path, size, "%s/%s", folder, inner);
	if (len < 0 || (size_t)len >= size)
		return false;
	mkdir(folder, 0777);
	mkdir(path, 0777);
	size -= (size_t)len;
	path += len;
	len = snprintf(path, size, "/nccl-%s.tautlog", name);
	return len > 0 && (size_t)len < size;
}

/* A communicator of all ranks knows better than a launcher which one this is. One
 * of more ranks than there are known to be is nearer to it than what was known. */
static bool knows_better(
	const struct tauti_nccl_recorder *r, int32_t rank, int32_t world_size)
{
	if (rank < 0 || r->rank_from == TAUTI_NCCL_OF_PROCESS)
		return false;
	return world_size > r->world_size ||
		(world_size == r->world_size && rank != r->rank &&
			r->rank_from == TAUTI_NCCL_OF_TASK);
}

/* From RUN/rank0 or RUN/processes. Where it cannot be, it stays: its header says
 * whose it is. */
static void move_log(struct tauti_nccl_recorder *r)
{
	char was[sizeof r->path], run[sizeof r->path];

	memcpy(was, r->path, sizeof was);
	memcpy(run, r->path, sizeof run);
	*strrchr(run, '/') = '\0';
	*strrchr(run, '/') = '\0';
	if (!place_log(run, r->rank, r->pid, r->path, sizeof r->path) ||
		!access(r->path, F_OK) || rename(was, r->path))
		memcpy(r->path, was, sizeof was);
}

void tauti_nccl_learn_rank(
	struct tauti_nccl_recorder *r, int32_t rank, int32_t world_size)
{
	bool moves = rank != r->rank;

	if (!knows_better(r, rank, world_size))
		return;
	r->rank = rank;
	r->world_size = world_size;
	r->rank_from = TAUTI_NCCL_OF_COMM;
	taut_log_ranks(r->log, rank, world_size, -1);
	if (moves)
		move_log(r);
}

/* --- making -------------------------------------------------------------------------*/

static bool make_pools(struct tauti_nccl_recorder *r)
{
	/* Not those of another process on this host. */
	uint32_t salt = (uint32_t)taut_log_now() * 2654435761u ^
		(uint32_t)r->pid;

	return tauti_pool_make(&r->comms, TAUTI_POOL_COMM,
			sizeof(struct tauti_nccl_comm), TAUTI_NCCL_COMMS,
			salt) &&
		tauti_pool_make(&r->tasks, TAUTI_POOL_TASK,
			sizeof(struct tauti_nccl_task), TAUTI_NCCL_TASKS,
			salt) &&
		tauti_pool_make(&r->ops, TAUTI_POOL_OP,
			sizeof(struct tauti_nccl_op), TAUTI_NCCL_OPS, salt) &&
		tauti_pool_make(&r->steps, TAUTI_POOL_STEP,
			sizeof(struct tauti_nccl_step), TAUTI_NCCL_STEPS,
			salt) &&
		tauti_pool_make(&r->kernels, TAUTI_POOL_KERNEL,
			sizeof(struct tauti_nccl_kernel), TAUTI_NCCL_KERNELS,
			salt);
}

static void free_pools(struct tauti_nccl_recorder *r)
{
	tauti_pool_free(&r->comms);
	tauti_pool_free(&r->tasks);
	tauti_pool_free(&r->ops);
	tauti_pool_free(&r->steps);
	tauti_pool_free(&r->kernels);
}

static taut_status open_log(struct tauti_nccl_recorder *r,
	const struct tauti_nccl_options *options, struct taut_error *err)
{
	const struct taut_log_options log = {
		.source = "nccl", .rank = options->rank,
		.world_size = options->world_size,
		.local_rank = options->local_rank,
		.capacity = options->capacity,
	};

	if (!place_log(options->folder, options->rank, r->pid, r->path,
		sizeof r->path))
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%s: the path is too long", options->folder);
	return taut_log_open(r->path, &log, &r->log, err);
}

struct tauti_nccl_recorder *tauti_nccl_create(
	const struct tauti_nccl_options *options,
	const _Atomic uint32_t *recording, struct taut_error *reterr)
{
	struct tauti_nccl_recorder *r = calloc(1, sizeof *r);

	if (!r) {
		(void)!taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for a recorder");
		return NULL;
	}
	r->pid = getpid();
	r->rank = options->rank;
	r->world_size = options->world_size;
	r->rank_from = options->rank_from;
	r->mask = options->mask;
	r->idle_mask = options->always ? options->mask :
		options->mask & ~COSTLY;
	r->always = options->always;
	r->recording = recording;
	if (!make_pools(r))
		(void)!taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for the recorder's objects");
	else if (!open_log(r, options, reterr)) {
		tauti_words_init(&r->words, r->log);
		return r;
	}
	free_pools(r);
	free(r);
	return NULL;
}

/* --- the end ---------------------------------------------------------------------------*/

static void tell_losses(struct tauti_nccl_recorder *r)
{
	static const char *const names[TAUTI_NCCL_LOSSES] = {
		"nccl.lost.communicators", "nccl.lost.collectives",
		"nccl.lost.operations", "nccl.lost.steps", "nccl.lost.kernels",
		"nccl.lost.handles", "nccl.lost.cut",
	};
	char number[24];

	for (int i = 0; i < TAUTI_NCCL_LOSSES; i++) {
		uint64_t n = atomic_load(&r->lost[i]);

		if (!n)
			continue;
		snprintf(number, sizeof number, "%llu", (unsigned long long)n);
		taut_log_fact(r->log, names[i], number);
	}
}

void tauti_nccl_destroy(struct tauti_nccl_recorder *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->comms.n; i++) {
		struct tauti_nccl_comm *comm = tauti_pool_hold_at(&r->comms, i);
		void *context;

		if (!comm)
			continue;
		context = tauti_pool_handle(&r->comms, comm);
		tauti_pool_release(comm);
		tauti_nccl_comm_end(r, context);
	}
	/* A log without a record says that nothing was recorded. */
	if (r->words.n)
		tell_losses(r);
	taut_log_state(r->log, "the process ended");
	taut_log_close(r->log);
	free_pools(r);
	free(r);
}
