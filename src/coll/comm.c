/* comm.c - communicators: what was begun, and what is chosen. */
#include "coll/comm.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>

#include "base/now.h"
#include "coll/hub.h"

/* --- life ------------------------------------------------------------------------------*/

/* The lowest channel that is free; passes of those before it on that channel keep
 * their numbers, so that nothing of theirs is taken for what comes now. */
taut_status tauti_comm_add(struct tauti_hub *hub, struct taut_comm **ret_comm,
	struct taut_error *reterr)
{
	struct taut_comm *comm;
	uint32_t channel = 0;

	while (channel < TAUTI_CHANNELS && hub->channels >> channel & 1)
		channel++;
	if (channel == TAUTI_CHANNELS)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "communicator: "
			"at most %d twins of one", TAUTI_CHANNELS - 1);
	comm = calloc(1, sizeof *comm);
	if (!comm)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"communicator: out of memory");
	comm->hub = hub;
	comm->channel = channel;
	hub->channels |= UINT32_C(1) << channel;
	hub->n_comms++;
	*ret_comm = comm;
	return TAUT_OK;
}

taut_status tauti_comm_make(const struct tauti_hub_options *options,
	struct taut_comm **ret_comm, struct taut_error *reterr)
{
	struct tauti_hub *hub;
	taut_status status = tauti_hub_create(options, &hub, reterr);

	if (status)
		return status;
	status = tauti_comm_add(hub, ret_comm, reterr);
	if (status) {
		hub->owned = false;
		tauti_hub_destroy(hub);
	}
	return status;
}

taut_status taut_comm_create_over(const struct taut_coll_engine *engine,
	void *context, uint32_t rank, uint32_t n_ranks, const uint32_t *host_of,
	struct taut_comm **ret_comm, struct taut_error *reterr)
{
	struct tauti_hub_options options = { .engine = { engine, context },
		.rank = rank, .n_ranks = n_ranks, .host_of = host_of };

	if (rank >= n_ranks || n_ranks > TAUT_COLL_RANKS)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "communicator: "
			"rank %" PRIu32 " of %" PRIu32 ": there are 1 to %d",
			rank, n_ranks, TAUT_COLL_RANKS);
	options.spins = tauti_cores_enough_here(
		tauti_hosts_beside(host_of, n_ranks, rank));
	return tauti_comm_make(&options, ret_comm, reterr);
}

static void destroy_engines(struct tauti_engine *engines, uint32_t first,
	uint32_t n_ranks)
{
	for (uint32_t i = first; i < n_ranks; i++)
		engines[i].table->destroy(engines[i].context);
}

static taut_status make_inproc(struct tauti_engine *engines, uint32_t n_ranks,
	struct taut_comm **ret_comms, struct taut_error *reterr)
{
	bool spins = tauti_cores_enough_here(n_ranks);

	for (uint32_t i = 0; i < n_ranks; i++) {
		const struct tauti_hub_options options = {
			.engine = engines[i], .owned = true, .spins = spins,
			.rank = i, .n_ranks = n_ranks };
		taut_status status =
			tauti_comm_make(&options, &ret_comms[i], reterr);

		if (!status)
			continue;
		destroy_engines(engines, i, n_ranks);
		while (i--)
			taut_comm_destroy(ret_comms[i]);
		return status;
	}
	return TAUT_OK;
}

taut_status taut_comm_create_inproc(uint32_t n_ranks,
	struct taut_comm **ret_comms, struct taut_error *reterr)
{
	struct tauti_engine *engines;
	taut_status status;

	if (!n_ranks || n_ranks > TAUT_COLL_RANKS)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "communicator: "
			"%" PRIu32 " ranks: there are 1 to %d", n_ranks,
			TAUT_COLL_RANKS);
	engines = calloc(n_ranks, sizeof *engines);
	if (!engines)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"communicator: out of memory");
	status = tauti_inproc_create(n_ranks, engines, reterr);
	if (!status)
		status = make_inproc(engines, n_ranks, ret_comms, reterr);
	free(engines);
	return status;
}

taut_status taut_comm_twin(struct taut_comm *comm, struct taut_comm **ret_twin,
	struct taut_error *reterr)
{
	if (tauti_origin_is_copy(&comm->hub->origin))
		return tauti_hub_check(comm->hub, reterr);
	return tauti_comm_add(comm->hub, ret_twin, reterr);
}

static bool has_calls(const struct taut_comm *comm)
{
	for (const struct tauti_run *run = comm->hub->oldest; run;
		run = run->newer)
		if (tauti_tag_channel(run->tag) == comm->channel)
			return true;
	return false;
}

void taut_comm_destroy(struct taut_comm *comm)
{
	struct tauti_hub *hub;
	struct taut_error why;

	/* Of a child's copy nothing is freed: another thread may have been at
	 * work in it as the process forked. */
	if (!comm || tauti_origin_is_copy(&comm->hub->origin))
		return;
	hub = comm->hub;
	if (has_calls(comm) || hub->draining) {
		taut_error_set(&why, TAUT_EIO, -1, "rank %" PRIu32 ": a "
			"communicator was destroyed with calls under way",
			hub->rank);
		tauti_hub_fail(hub, &why);
	}
	/* Inside done(): those who called that are still at work in it. */
	if (hub->draining)
		return;
	hub->channels &= ~(UINT32_C(1) << comm->channel);
	if (--hub->n_comms == 0)
		tauti_hub_destroy(hub);
	free(comm);
}

uint32_t taut_comm_rank(const struct taut_comm *comm)
{
	return comm->hub->rank;
}

uint32_t taut_comm_size(const struct taut_comm *comm)
{
	return comm->hub->n_ranks;
}

const char *taut_comm_engine(const struct taut_comm *comm)
{
	return comm->hub->engine_name;
}

/* --- what a call gets ------------------------------------------------------------------*/

struct taut_coll_choice taut_comm_choice(const struct taut_comm *comm,
	enum taut_coll_verb verb, uint64_t bytes)
{
	const struct taut_coll_choice none = { .way = TAUT_WAY_AUTO };

	if ((unsigned)verb >= TAUT_VERBS)
		return none;
	return *tauti_table_choice(&comm->hub->table, verb, bytes);
}

static bool reduces(enum taut_coll_verb verb)
{
	return verb == TAUT_ALLREDUCE || verb == TAUT_REDUCE_SCATTER;
}

static bool in_order(enum taut_coll_way way)
{
	return way == TAUT_WAY_FLAT || way == TAUT_WAY_DIRECT;
}

static const char *fault_of(
	const struct taut_comm *comm, const struct taut_coll_call *call)
{
	if ((unsigned)call->verb >= TAUT_VERBS)
		return "there is no such verb";
	if ((unsigned)call->type >= TAUT_CARRIED_TYPES)
		return "there is no such type";
	if (reduces(call->verb) &&
		((unsigned)call->reduction >= TAUT_REDUCTIONS ||
			!taut_reduces(call->type, call->reduction)))
		return "there is no such reduction of its type";
	if (call->verb == TAUT_BROADCAST && call->root >= comm->hub->n_ranks)
		return "its root is no rank";
	if (call->way != TAUT_WAY_AUTO && ((unsigned)call->way >= TAUT_WAYS ||
		!taut_coll_has(call->verb, call->way)))
		return "the verb has no such way";
	if (call->ordered && reduces(call->verb) &&
		call->way != TAUT_WAY_AUTO && !in_order(call->way))
		return "in the order of the ranks reduce flat and direct alone";
	if (call->count && !call->output)
		return "it has no output";
	if (call->count >= UINT64_C(1) << 48)
		return "it has 2^48 elements or more";
	return NULL;
}

/* What is built in for a few bytes in a call that must be ordered. */
enum { FLAT_BYTES = 4096 };

static void choose_way(const struct taut_comm *comm,
	struct taut_coll_call *call, uint64_t bytes)
{
	const struct taut_coll_choice *row = tauti_table_choice(
		&comm->hub->table, call->verb, bytes);

	if (call->way == TAUT_WAY_AUTO) {
		call->way = row->way;
		if (call->ordered && reduces(call->verb) && !in_order(row->way))
			call->way = bytes <= FLAT_BYTES &&
				taut_coll_has(call->verb, TAUT_WAY_FLAT) ?
				TAUT_WAY_FLAT : TAUT_WAY_DIRECT;
	}
	if (!call->pass_bytes)
		call->pass_bytes = row->pass_bytes;
	if (!call->passes_at_once)
		call->passes_at_once = row->passes_at_once;
}

/* No message is longer than a pass, or, where blocks differ by one element, than
 * that and one more. */
static void keep_limits(const struct taut_comm *comm,
	struct taut_coll_call *call, uint64_t bytes)
{
	uint64_t most = comm->hub->engine.table->max_message_bytes;
	uint64_t type_bytes = taut_type_bytes(call->type);

	if (most && bytes > most &&
		(!call->pass_bytes || call->pass_bytes > most))
		call->pass_bytes = most > 2 * type_bytes ?
			most - type_bytes : type_bytes;
	if (!call->passes_at_once)
		call->passes_at_once = 1;
	if (call->passes_at_once > TAUTI_PASSES_AT_ONCE)
		call->passes_at_once = TAUTI_PASSES_AT_ONCE;
	if (call->verb != TAUT_BROADCAST)
		call->root = 0;
}

/* Of a call that is one. */
static void resolve(const struct taut_comm *comm, struct taut_coll_call *call)
{
	uint64_t bytes = call->count * taut_type_bytes(call->type);

	choose_way(comm, call, bytes);
	keep_limits(comm, call, bytes);
}

/* But for their memory. */
static bool is_alike(
	const struct taut_coll_call *a, const struct taut_coll_call *b)
{
	return a->count == b->count && a->verb == b->verb &&
		a->type == b->type && a->reduction == b->reduction &&
		a->root == b->root && a->way == b->way &&
		a->pass_bytes == b->pass_bytes &&
		a->passes_at_once == b->passes_at_once &&
		a->ordered == b->ordered;
}

/* Calls often come alike, one after another: what was found of one holds for the
 * next. */
static taut_status start_known(struct taut_comm *comm,
	const struct taut_coll_call *call,
	void (*done)(void *context, taut_status status), void *context,
	struct taut_error *reterr)
{
	struct taut_coll_call *known = &comm->known;

	known->input = call->input ? call->input : call->output;
	known->output = call->output;
	return tauti_run_start(comm->hub, comm->channel, known, done, context,
		reterr);
}

taut_status taut_comm_start(struct taut_comm *comm,
	const struct taut_coll_call *call,
	void (*done)(void *context, taut_status status), void *context,
	struct taut_error *reterr)
{
	taut_status status = tauti_hub_check(comm->hub, reterr);
	const char *fault;

	if (status)
		return status;
	if (call->count && call->output && is_alike(call, &comm->asked))
		return start_known(comm, call, done, context, reterr);
	fault = fault_of(comm, call);
	if (fault)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"rank %" PRIu32 ": a collective cannot begin: %s",
			comm->hub->rank, fault);
	if (!call->count) {
		done(context, TAUT_OK);
		return TAUT_OK;
	}
	comm->asked = comm->known = *call;
	resolve(comm, &comm->known);
	return start_known(comm, call, done, context, reterr);
}

/* --- moving on -------------------------------------------------------------------------*/

taut_status taut_comm_progress(
	struct taut_comm *comm, struct taut_error *reterr)
{
	return tauti_hub_progress(comm->hub, reterr);
}

taut_status taut_comm_wait(struct taut_comm *comm, int64_t timeout_ns,
	struct taut_error *reterr)
{
	return tauti_hub_wait(comm->hub, timeout_ns, reterr);
}

void taut_comm_wake(struct taut_comm *comm)
{
	tauti_hub_wake(comm->hub);
}

bool taut_comm_asked(struct taut_comm *comm)
{
	const struct tauti_hub *hub = comm->hub;
	uint64_t all = (UINT64_C(1) << TAUT_COLL_TAG_BITS) - 1;

	return !tauti_origin_is_copy(&hub->origin) && !hub->failed &&
		hub->engine.table->arrived(hub->engine.context,
		tauti_hub_next_tag(hub, comm->channel),
		all & ~(uint64_t)(TAUT_COLL_MESSAGES - 1));
}

struct waiting {
	bool over;
	taut_status status;
};

static void note_over(void *context, taut_status status)
{
	struct waiting *waiting = context;

	waiting->over = true;
	waiting->status = status;
}

/* Sleeps until there may be news, and sees when there was none for too long. until_ns: 0
 * at first. */
static taut_status doze(struct tauti_hub *hub, const struct waiting *waiting,
	int64_t *until_ns, struct taut_error *reterr)
{
	int64_t now_ns;

	if (!hub->call_within_ns)
		return tauti_hub_wait(hub, -1, reterr);
	now_ns = tauti_now_ns();
	if (!*until_ns)
		*until_ns = now_ns + hub->call_within_ns;
	if (now_ns < *until_ns)
		return tauti_hub_wait(hub, *until_ns - now_ns, reterr);
	tauti_hub_fail_late(hub, waiting);
	return tauti_hub_check(hub, reterr);
}

/* Looks for news for a while, then sleeps until there is some. The clock is asked
 * once in a while alone: it costs as much as a look. After some microseconds it
 * gives way: the rank that it waits for may be waiting for its core. */
static taut_status wait_for(struct taut_comm *comm,
	const struct waiting *waiting, struct taut_error *reterr)
{
	enum { LOOKS = 64, KEEP_NS = 10 * 1000 };
	struct tauti_hub *hub = comm->hub;
	struct taut_clock clock = taut_clock_monotonic();
	int64_t began_ns = -1, until_ns = 0, passed_ns;
	taut_status status = TAUT_OK;

	for (uint32_t looks = 1; !waiting->over && !status; looks++) {
		status = tauti_hub_progress(hub, reterr);
		if (waiting->over || status || (hub->spin_ns && looks % LOOKS))
			continue;
		if (began_ns < 0)
			began_ns = clock.now_ns(clock.state);
		passed_ns = clock.now_ns(clock.state) - began_ns;
		if (passed_ns < hub->spin_ns) {
			if (passed_ns > KEEP_NS)
				sched_yield();
			continue;
		}
		status = doze(hub, waiting, &until_ns, reterr);
		began_ns = -1;
	}
	return status;
}

static taut_status finish(struct taut_comm *comm, taut_status status,
	const struct waiting *waiting, struct taut_error *reterr)
{
	if (status)
		return status;
	status = wait_for(comm, waiting, reterr);
	if (waiting->over && !waiting->status)
		return TAUT_OK; /* what came after it is the next one's */
	return status ? status : tauti_hub_check(comm->hub, reterr);
}

taut_status taut_comm_run(struct taut_comm *comm,
	const struct taut_coll_call *call, struct taut_error *reterr)
{
	struct waiting waiting = { .over = false };
	taut_status status = tauti_hub_check_outside(comm->hub, reterr);

	if (!status)
		status = taut_comm_start(comm, call, note_over, &waiting, reterr);
	return finish(comm, status, &waiting, reterr);
}

/* Each hears of each, so that who is missing is known; of more ranks by the table. */
enum { FLAT_BARRIER_RANKS = 64 };

taut_status taut_comm_barrier(struct taut_comm *comm, struct taut_error *reterr)
{
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
		.type = TAUT_UINT8, .count = 1, .reduction = TAUT_MAX,
		.way = comm->hub->n_ranks <= FLAT_BARRIER_RANKS ?
			TAUT_WAY_FLAT : TAUT_WAY_AUTO };
	struct waiting waiting = { .over = false };
	taut_status status = tauti_hub_check_outside(comm->hub, reterr);

	if (!status)
		status = tauti_hub_check(comm->hub, reterr);
	if (!status) {
		resolve(comm, &call);
		status = tauti_run_start(comm->hub, comm->channel, &call,
			note_over, &waiting, reterr);
	}
	return finish(comm, status, &waiting, reterr);
}
