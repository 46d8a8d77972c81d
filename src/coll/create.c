/* create.c - ranks that find each other become a communicator: they meet, say on
 * which host they are and what they were told, open engines, and watch. */
#include "coll/comm.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* What each rank says to all: bytes, the same on every machine of a job. */
struct hello {
	uint64_t host, rows; /* the host's id; a hash of the table's file */
	uint64_t version;    /* of what ranks say to each other */
	uint64_t want;
	struct tauti_cores cores;
};

enum { VERSION = 5 };

/* What is being made, and undone when it cannot be. */
struct making {
	uint32_t rank, n_ranks;
	enum tauti_want want;
	tauti_rows rows;
	struct tauti_meet *meet;
	struct hello *hellos; /* by rank */
	uint32_t *host_of;
	uint32_t n_hosts;
	bool spins; /* there is a core for each rank of this host */
	int64_t call_within_ns;
	struct tauti_engine engine;
};

static taut_status no_memory(struct taut_error *reterr)
{
	return taut_error_set(
		reterr, TAUT_ENOMEM, -1, "communicator: out of memory");
}

/* --- what was told ---------------------------------------------------------------------*/

static const char *or_variable(const char *option, const char *variable)
{
	const char *value = option ? option : getenv(variable);

	return value && value[0] ? value : NULL;
}

taut_status tauti_want_read(const char *name, enum tauti_want *ret_want,
	struct taut_error *reterr)
{
	static const char *const names[] = { "auto", "shm", "ucx", "tcp" };

	name = or_variable(name, "TAUT_ENGINE");
	*ret_want = TAUTI_WANT_AUTO;
	for (int i = TAUTI_WANT_AUTO; name && i <= TAUTI_WANT_TCP; i++) {
		if (strcmp(name, names[i]) != 0)
			continue;
		*ret_want = (enum tauti_want)i;
		return TAUT_OK;
	}
	return name ? taut_error_set(reterr, TAUT_EINVAL, -1, "engine '%.200s': "
		"expected auto, shm, ucx or tcp", name) : TAUT_OK;
}

static taut_status read_options(struct making *making,
	const struct taut_comm_options *options, struct taut_error *reterr)
{
	const char *table = or_variable(options->table, "TAUT_COLL_TABLE");
	taut_status status;

	making->rank = options->rank;
	making->n_ranks = options->n_ranks;
	if (making->rank >= making->n_ranks ||
		making->n_ranks > TAUT_COLL_RANKS)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "communicator: "
			"rank %" PRIu32 " of %" PRIu32 ": there are 1 to %d",
			making->rank, making->n_ranks, TAUT_COLL_RANKS);
	if (options->call_within_ns < 0)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "communicator: "
			"time for a call: expected 0 for no limit, or more");
	/* Centuries are no limit, and may be added to a time. */
	making->call_within_ns = options->call_within_ns > INT64_MAX / 2 ? 0 :
		options->call_within_ns;
	status = tauti_want_read(options->engine, &making->want, reterr);
	if (!status && table)
		status = tauti_rows_read(table, &making->rows, reterr);
	return status;
}

/* --- who is where ----------------------------------------------------------------------*/

static taut_status differs(uint32_t rank, const char *what,
	struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_EMATCH, -1, "rank %" PRIu32 " has "
		"%s than rank 0", rank, what);
}

static taut_status compare(
	const struct hello *hellos, uint32_t n, struct taut_error *reterr)
{
	for (uint32_t i = 1; i < n; i++) {
		if (hellos[i].version != hellos[0].version)
			return differs(i, "another version of Taut", reterr);
		if (hellos[i].rows != hellos[0].rows)
			return differs(i, "another table of collectives "
				"(TAUT_COLL_TABLE)", reterr);
		if (hellos[i].want != hellos[0].want)
			return differs(i, "another engine asked for "
				"(TAUT_ENGINE)", reterr);
	}
	return TAUT_OK;
}

/* A host's number is that of its first rank. */
static void number_hosts(struct making *making)
{
	for (uint32_t i = 0; i < making->n_ranks; i++) {
		uint32_t k = 0;

		while (making->hellos[k].host != making->hellos[i].host)
			k++;
		making->host_of[i] = k;
	}
	making->n_hosts = tauti_hosts_count(making->host_of, making->n_ranks);
}

static taut_status count_cores(struct making *making, struct taut_error *reterr)
{
	struct tauti_cores *cores = calloc(making->n_ranks, sizeof *cores);
	uint32_t n = 0;

	if (!cores)
		return no_memory(reterr);
	for (uint32_t i = 0; i < making->n_ranks; i++)
		if (making->host_of[i] == making->host_of[making->rank])
			cores[n++] = making->hellos[i].cores;
	making->spins = tauti_cores_enough(cores, n, n);
	free(cores);
	return TAUT_OK;
}

static taut_status say_hello(struct making *making, struct taut_error *reterr)
{
	struct hello mine = { .host = tauti_host_id(),
		.rows = tauti_rows_hash(making->rows.data, making->rows.count),
		.version = VERSION, .want = making->want };
	taut_status status;

	tauti_cores_tell(&mine.cores);
	making->hellos = calloc(making->n_ranks, sizeof *making->hellos);
	making->host_of = calloc(making->n_ranks, sizeof *making->host_of);
	if (!making->hellos || !making->host_of)
		return no_memory(reterr);
	status = tauti_meet_gather(
		making->meet, &mine, sizeof mine, making->hellos, reterr);
	if (!status)
		status = compare(making->hellos, making->n_ranks, reterr);
	if (status)
		return status;
	number_hosts(making);
	return count_cores(making, reterr);
}

/* --- engines ---------------------------------------------------------------------------*/

static void destroy_engine(struct tauti_engine *engine)
{
	if (engine->table)
		engine->table->destroy(engine->context);
	engine->table = NULL;
}

static taut_status open_shm(struct making *making,
	struct tauti_engine *ret_engine, struct taut_error *reterr)
{
	return tauti_shm_create(making->meet, making->rank, making->n_ranks,
		making->host_of, making->spins, ret_engine, reterr);
}

static taut_status open_ucx(struct making *making,
	struct tauti_engine *ret_engine, struct taut_error *reterr)
{
	return tauti_ucx_create(making->meet, making->rank, making->n_ranks,
		ret_engine, reterr);
}

static taut_status open_tcp(struct making *making,
	struct tauti_engine *ret_engine, struct taut_error *reterr)
{
	return tauti_tcp_create(making->meet, making->rank, making->n_ranks,
		making->n_hosts == 1 ? NULL : making->host_of, ret_engine,
		reterr);
}

/* What all ranks can say, of a set of bits. */
static taut_status ask_all(struct making *making, uint8_t mine, uint8_t *ret_all,
	struct taut_error *reterr)
{
	uint8_t *said = calloc(making->n_ranks, sizeof *said);
	taut_status status;

	if (!said)
		return no_memory(reterr);
	status = tauti_meet_gather(
		making->meet, &mine, sizeof mine, said, reterr);
	*ret_all = status ? 0 : mine;
	for (uint32_t i = 0; i < making->n_ranks; i++)
		*ret_all &= said[i];
	free(said);
	return status;
}

/* Whether connections of two engines to each rank are far from what a process may open. */
static bool has_files(uint32_t n_ranks)
{
	enum { BESIDE = 256, OF_RANK = 8 };
	struct rlimit files;

	return getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur == RLIM_INFINITY ||
		files.rlim_cur >= BESIDE + OF_RANK * (rlim_t)n_ranks;
}

/* small goes, where no message is quicker by it; large, where none is slower. */
static taut_status join_by_size(struct making *making, struct tauti_engine *small,
	struct tauti_engine *large, struct tauti_engine *ret_engine,
	struct taut_error *reterr)
{
	size_t most = 0;
	taut_status status = tauti_by_size_measure(making->meet, making->rank,
		making->n_ranks, making->host_of, making->spins, small, large, &most,
		reterr);

	if (status)
		return status;
	if (most && most < SIZE_MAX)
		return tauti_by_size_create(most, *small, *large, ret_engine, reterr);
	destroy_engine(most ? large : small);
	*ret_engine = most ? *small : *large;
	return TAUT_OK;
}

/* Connections of our own beside UCX, for the messages that are quicker by them: over plain
 * Ethernet all. Where they cannot be made nothing is lost, and nobody waits long for them. */
static taut_status open_beside(struct making *making, struct tauti_engine *large,
	struct tauti_engine *ret_engine, struct taut_error *reterr)
{
	static const int64_t within_ns = 5000000000;
	struct tauti_engine small = { .table = NULL };
	bool without;
	taut_status status = tauti_tcp_try(making->meet, making->rank,
		making->n_ranks, making->host_of, within_ns, &small, &without, reterr);

	if (status && without) {
		*ret_engine = *large;
		return TAUT_OK;
	}
	if (!status)
		status = join_by_size(making, &small, large, ret_engine, reterr);
	if (status) {
		destroy_engine(&small);
		destroy_engine(large);
	}
	return status;
}

/* UCX, where every rank has it: it knows RDMA, and what else there may be. Our own for what
 * is no slower by it, and where a rank has none. */
static taut_status open_what_is_there(struct making *making,
	struct tauti_engine *ret_engine, struct taut_error *reterr)
{
	enum { HAS_UCX = 1, MAY_BESIDE = 2 };
	struct tauti_ucx *ucx = NULL;
	struct tauti_engine large = { .table = NULL };
	bool have = !tauti_ucx_open(making->n_ranks, &ucx, NULL);
	bool may = has_files(making->n_ranks) && tauti_meet_may_connect(making->meet);
	uint8_t all = 0, mine = (uint8_t)((have ? HAS_UCX : 0) | (may ? MAY_BESIDE : 0));
	taut_status status = ask_all(making, mine, &all, reterr);

	if (status || !(all & HAS_UCX)) {
		if (have)
			tauti_ucx_destroy(ucx);
		return status ? status : open_tcp(making, ret_engine, reterr);
	}
	status = tauti_ucx_meet(ucx, making->meet, making->rank, &large, reterr);
	if (!status && all & MAY_BESIDE)
		return open_beside(making, &large, ret_engine, reterr);
	*ret_engine = large;
	return status;
}

/* To other hosts; where all are on one, to all. */
static taut_status open_far(struct making *making,
	struct tauti_engine *ret_engine, struct taut_error *reterr)
{
	switch (making->want) {
	case TAUTI_WANT_TCP:
		return open_tcp(making, ret_engine, reterr);
	case TAUTI_WANT_UCX:
		return open_ucx(making, ret_engine, reterr);
	default:
		return open_what_is_there(making, ret_engine, reterr);
	}
}

static taut_status open_mixed(struct making *making, struct taut_error *reterr)
{
	struct tauti_engine near = { .table = NULL }, far = { .table = NULL };
	taut_status status = open_shm(making, &near, reterr);

	if (!status)
		status = open_far(making, &far, reterr);
	if (!status)
		status = tauti_mixed_create(making->rank, making->n_ranks,
			making->host_of, near, far, &making->engine, reterr);
	if (status) {
		destroy_engine(&near);
		destroy_engine(&far);
	}
	return status;
}

/* All ranks know the same hosts, and so open the same. */
static taut_status open_engine(struct making *making, struct taut_error *reterr)
{
	if (making->want == TAUTI_WANT_SHM && making->n_hosts > 1)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "engine shm: "
			"the ranks are on %" PRIu32 " hosts, or in namespaces "
			"that share no memory", making->n_hosts);
	if (making->n_hosts == making->n_ranks ||
		(making->n_hosts == 1 && (making->want == TAUTI_WANT_UCX ||
			making->want == TAUTI_WANT_TCP)))
		return open_far(making, &making->engine, reterr);
	if (making->n_hosts == 1)
		return open_shm(making, &making->engine, reterr);
	return open_mixed(making, reterr);
}

/* --- the communicator ------------------------------------------------------------------*/

static void lost(void *context, const struct taut_error *why)
{
	tauti_hub_lose(context, why);
}

static void left(void *context, uint32_t rank, const uint32_t *reached)
{
	tauti_hub_left(context, rank, reached);
}

static enum tauti_need needs(void *context)
{
	return tauti_hub_needs(context);
}

static void tell_others(void *context, const struct taut_error *why)
{
	tauti_meet_fail(context, why);
}

static void leave(void *context, const uint32_t *passes)
{
	tauti_meet_leave(context, passes);
}

static void look(void *context)
{
	tauti_meet_ring(context);
}

static void close_meet(void *context)
{
	tauti_meet_destroy(context);
}

/* The hub takes the engine over, and then the meeting. */
static taut_status make_comm(struct making *making,
	struct taut_comm **ret_comm, struct taut_error *reterr)
{
	const struct tauti_hub_options options = { .engine = making->engine,
		.owned = true, .spins = making->spins,
		.call_within_ns = making->call_within_ns,
		.rank = making->rank, .n_ranks = making->n_ranks,
		.host_of = making->host_of, .rows = making->rows.data,
		.n_rows = making->rows.count };
	struct taut_comm *comm;
	taut_status status = tauti_comm_make(&options, &comm, reterr);

	if (status)
		return status;
	making->engine.table = NULL;
	if (making->meet) {
		const struct tauti_watch watch = { lost, left, needs,
			comm->hub };

		status = tauti_meet_watch(making->meet, &watch, reterr);
		if (status) {
			taut_comm_destroy(comm);
			return status;
		}
		comm->hub->watcher = (struct tauti_watcher){ making->meet,
			tell_others, leave, look, close_meet };
		making->meet = NULL;
	}
	*ret_comm = comm;
	return TAUT_OK;
}

static taut_status make_alone(struct making *making,
	struct taut_comm **ret_comm, struct taut_error *reterr)
{
	taut_status status = tauti_inproc_create(1, &making->engine, reterr);

	return status ? status : make_comm(making, ret_comm, reterr);
}

static taut_status make_together(struct making *making,
	const struct taut_comm_options *options, struct taut_comm **ret_comm,
	struct taut_error *reterr)
{
	const struct tauti_meet_options meet = { .rank = making->rank,
		.n_ranks = making->n_ranks, .address = options->meet,
		.secret = or_variable(options->secret, "TAUT_SECRET"),
		.within_ns = options->meet_within_ns,
		.lost_after_ns = options->lost_after_ns };
	taut_status status = tauti_meet_create(&meet, &making->meet, reterr);

	if (!status)
		status = say_hello(making, reterr);
	if (!status)
		status = open_engine(making, reterr);
	if (!status)
		status = make_comm(making, ret_comm, reterr);
	return status;
}

static void undo(struct making *making, const struct taut_error *why)
{
	destroy_engine(&making->engine);
	if (making->meet && why->code)
		tauti_meet_fail(making->meet, why);
	tauti_meet_destroy(making->meet);
	free(making->hellos);
	free(making->host_of);
	taut_vec_free(&making->rows);
}

taut_status taut_comm_create(const struct taut_comm_options *options,
	struct taut_comm **ret_comm, struct taut_error *reterr)
{
	struct making making = { .want = TAUTI_WANT_AUTO };
	struct taut_error why = { .offset = -1 };
	taut_status status = read_options(&making, options, &why);

	if (!status)
		status = making.n_ranks == 1 ?
			make_alone(&making, ret_comm, &why) :
			make_together(&making, options, ret_comm, &why);
	why.code = status;
	undo(&making, &why);
	if (status && reterr)
		*reterr = why;
	return status;
}
