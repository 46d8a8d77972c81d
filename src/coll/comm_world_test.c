/* Made-up worlds: ranks that are stepped in any order, over an engine that delivers
 * in any order, keeps copies or not, reduces or not, does all of FLAT in one or not,
 * ends things at once or late; numbers of passes that wrap or do not. Never a deadlock,
 * never a wrong sum, never two messages of one tag; every crash an error on every
 * rank. TAUT_WORLDS=N runs other than 10,000, TAUT_WORLD_SEED=N one alone. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "coll/comm.h"
#include "coll/oracle.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
enum { WORLDS = 2000 }; /* slow, and there is but one thread */
#else
enum { WORLDS = 10000 };
#endif
enum { RANKS = 6, CHANNELS = 3, CALLS = 8, STEPS = 1000000 };

enum crash { NONE, LOST, PROGRESS_FAILS, SEND_FAILS, REQUEST_FAILS, DESTROYED,
	CRASHES };

/* One operation of an engine, from begin to done(). */
struct task {
	struct taut_coll_request *request;
	uint32_t rank, n_left;
	taut_status status;
};

/* A message to one peer, or a receive. */
struct half {
	struct task *task; /* NULL: it ended before */
	uint32_t from, to;
	uint64_t tag;
	void *data;
	bool copied; /* data is the engine's own */
	size_t bytes;
	const void *operand;
	enum taut_type type;
	enum taut_reduction reduction;
};

struct pair {
	struct half send, recv;
};

typedef TAUT_VEC(struct half) halves;
typedef TAUT_VEC(struct task *) tasks;

struct world;

struct rank {
	struct world *world;
	uint32_t id;
	struct taut_comm *comms[CHANNELS];
	bool dead, destroyed, fails;
	halves sends, recvs; /* to this rank, by this rank: without a mate */
	tasks over;          /* done, and not told yet */
	uint32_t next[CHANNELS], ended[CHANNELS];
	uint32_t n_started, n_ended, n_failed;
	char *input[CHANNELS][CALLS], *output[CHANNELS][CALLS];
	bool over_of[CHANNELS][CALLS];
};

struct world {
	uint64_t seed, random;
	uint32_t n_ranks, n_channels, n_calls, window;
	uint32_t eager, inlined; /* of 4 */
	bool reduces, flats, owned;
	uint32_t host_of[RANKS];
	struct taut_coll_call calls[CHANNELS][CALLS];
	struct taut_coll_engine table;
	struct rank ranks[RANKS];
	TAUT_VEC(struct pair) pairs;
	enum crash crash;
	uint32_t crash_rank;
	uint64_t crash_step;
	uint32_t passes; /* begun before, on each channel */
	bool told;
	struct taut_error why;
};

static uint64_t pick(struct world *world, uint64_t below)
{
	uint64_t x = world->random += UINT64_C(0x9E3779B97F4A7C15);

	x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
	return (x ^ (x >> 31)) % below;
}

static void check(const struct world *world, bool right, const char *what)
{
	if (!right)
		fail_msg("seed %llu: %s", (unsigned long long)world->seed, what);
}

/* --- the engine ------------------------------------------------------------------------*/

static struct task *new_task(struct rank *rank,
	struct taut_coll_request *request, uint32_t n_left)
{
	struct task *task = malloc(sizeof *task);

	assert_non_null(task);
	*task = (struct task){ request, rank->id, n_left, TAUT_OK };
	return task;
}

static void tell(struct task *task, taut_status status)
{
	task->request->done(task->request, status ? status : task->status);
	free(task);
}

static void end_task(struct world *world, struct task *task)
{
	if (task && --task->n_left == 0)
		assert_true(taut_vec_push(
			&world->ranks[task->rank].over, task));
}

static void deliver(struct world *world, struct pair *pair)
{
	struct half *send = &pair->send, *recv = &pair->recv;

	check(world, send->bytes == recv->bytes, "a message of another length");
	if (recv->operand)
		taut_reduce(recv->type, recv->reduction, recv->data,
			recv->operand, send->data,
			recv->bytes / taut_type_bytes(recv->type));
	else
		memcpy(recv->data, send->data, recv->bytes);
	if (send->copied)
		free(send->data);
	end_task(world, recv->task);
	end_task(world, send->task);
}

/* The mate of a half, taken out of a list. */
static bool take_mate(
	halves *list, const struct half *half, struct half *ret_mate)
{
	for (size_t i = 0; i < list->count; i++) {
		struct half *at = &list->data[i];

		if (at->from != half->from || at->to != half->to ||
			at->tag != half->tag)
			continue;
		*ret_mate = *at;
		*at = list->data[--list->count];
		return true;
	}
	return false;
}

static void put_send(struct world *world, const struct half *send)
{
	struct rank *to = &world->ranks[send->to];
	struct pair pair = { .send = *send };

	for (size_t i = 0; i < to->sends.count; i++)
		check(world, to->sends.data[i].from != send->from ||
			to->sends.data[i].tag != send->tag,
			"two messages of one tag");
	for (size_t i = 0; i < world->pairs.count; i++)
		check(world, world->pairs.data[i].send.to != send->to ||
			world->pairs.data[i].send.from != send->from ||
			world->pairs.data[i].send.tag != send->tag,
			"two messages of one tag");
	if (take_mate(&to->recvs, send, &pair.recv))
		assert_true(taut_vec_push(&world->pairs, pair));
	else
		assert_true(taut_vec_push(&to->sends, *send));
}

static taut_status fake_send(void *engine, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct rank *rank = engine;
	struct world *world = rank->world;
	bool eager = pick(world, 4) < world->eager;
	struct task *task;

	check(world, n_peers && bytes && tag < UINT64_C(1) << 48, "a message");
	check(world, !world->table.max_message_bytes ||
		bytes <= world->table.max_message_bytes, "a message too long");
	if (rank->fails && world->crash == SEND_FAILS)
		return taut_error_set(err, TAUT_EIO, -1, "it does not send");
	task = new_task(rank, request, eager ? 1 : n_peers);
	for (uint32_t i = 0; i < n_peers; i++) {
		struct half half = { .task = eager ? NULL : task,
			.from = rank->id, .to = peers[i], .tag = tag,
			.data = (void *)(uintptr_t)data, .copied = eager,
			.bytes = bytes };

		check(world, peers[i] != rank->id, "a message to itself");
		if (eager) {
			half.data = malloc(bytes);
			assert_non_null(half.data);
			memcpy(half.data, data, bytes);
		}
		put_send(world, &half);
	}
	if (!eager)
		return TAUT_OK;
	if (pick(world, 4) < world->inlined)
		tell(task, TAUT_OK);
	else
		end_task(world, task);
	return TAUT_OK;
}

static taut_status put_recv(struct rank *rank, struct half *half,
	struct taut_coll_request *request)
{
	struct world *world = rank->world;
	struct pair pair;

	half->task = new_task(rank, request, 1);
	pair.recv = *half;
	if (!take_mate(&rank->sends, half, &pair.send)) {
		assert_true(taut_vec_push(&rank->recvs, *half));
	} else if (pick(world, 4) < world->inlined) {
		deliver(world, &pair);
		tell(rank->over.data[--rank->over.count], TAUT_OK);
	} else {
		assert_true(taut_vec_push(&world->pairs, pair));
	}
	return TAUT_OK;
}

static taut_status fake_recv(void *engine, uint32_t peer, uint64_t tag,
	void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct rank *rank = engine;
	struct half half = { .from = peer, .to = rank->id, .tag = tag,
		.data = data, .bytes = bytes };

	(void)err;
	return put_recv(rank, &half, request);
}

static taut_status fake_recv_reduce(void *engine, uint32_t peer, uint64_t tag,
	enum taut_type type, enum taut_reduction reduction, void *into,
	const void *from, size_t count, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct rank *rank = engine;
	struct half half = { .from = peer, .to = rank->id, .tag = tag,
		.data = into, .bytes = count * taut_type_bytes(type),
		.operand = from, .type = type, .reduction = reduction };

	(void)err;
	return put_recv(rank, &half, request);
}

/* --- the engine: all of FLAT in one ----------------------------------------------------*/

struct gathering {
	struct taut_coll_request part; /* first: of each thing that it needs */
	struct taut_coll_flat *flat;
	struct rank *rank;
	uint32_t n_left;
	taut_status status;
	char *come[RANKS];
};

static void sum_gathered(const struct gathering *it, uint32_t n_ranks)
{
	const struct taut_coll_flat *flat = it->flat;
	size_t bytes = flat->count * taut_type_bytes(flat->type);
	char *sum = it->come[it->rank->id];

	memcpy(sum, flat->from, bytes);
	memcpy(flat->into, it->come[0], bytes);
	for (uint32_t i = 1; i < n_ranks; i++)
		taut_reduce(flat->type, flat->reduction, flat->into,
			flat->into, it->come[i], flat->count);
}

static void part_over(struct taut_coll_request *part, taut_status status)
{
	struct gathering *it = (struct gathering *)part;
	struct taut_coll_request *request = &it->flat->request;

	if (!it->status)
		it->status = status;
	if (--it->n_left)
		return;
	status = it->status;
	if (!status)
		sum_gathered(it, it->rank->world->n_ranks);
	for (uint32_t i = 0; i < RANKS; i++)
		free(it->come[i]);
	free(it);
	request->done(request, status);
}

static taut_status fake_flat(
	void *engine, struct taut_coll_flat *flat, struct taut_error *err)
{
	struct rank *rank = engine;
	uint32_t peers[RANKS] = { 0 }, n = 0;
	uint32_t n_ranks = rank->world->n_ranks;
	size_t bytes = flat->count * taut_type_bytes(flat->type);
	struct gathering *it = calloc(1, sizeof *it);
	taut_status status;

	assert_non_null(it);
	*it = (struct gathering){ .part.done = part_over, .flat = flat,
		.rank = rank, .n_left = n_ranks + 1 };
	for (uint32_t i = 0; i < n_ranks; i++) {
		it->come[i] = malloc(bytes);
		assert_non_null(it->come[i]);
		if (i != rank->id)
			peers[n++] = i;
	}
	status = fake_send(engine, peers, n, flat->tag, flat->from, bytes,
		&it->part, err);
	if (status) {
		for (uint32_t i = 0; i < n_ranks; i++)
			free(it->come[i]);
		free(it);
		return status;
	}
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(fake_recv(engine, peers[i], flat->tag,
			it->come[peers[i]], bytes, &it->part, err), TAUT_OK);
	part_over(&it->part, TAUT_OK);
	return TAUT_OK;
}

/* --- the engine: moving on -------------------------------------------------------------*/

/* Some of what is over, in any order. */
static taut_status fake_progress(void *engine, struct taut_error *err)
{
	struct rank *rank = engine;
	struct world *world = rank->world;
	uint64_t n = rank->over.count ?
		1 + pick(world, rank->over.count) : 0;

	while (n--) {
		size_t i = pick(world, rank->over.count);
		struct task *task = rank->over.data[i];

		rank->over.data[i] = rank->over.data[--rank->over.count];
		if (rank->fails && world->crash == REQUEST_FAILS)
			tell(task, TAUT_EIO);
		else
			tell(task, TAUT_OK);
	}
	if (rank->fails && world->crash == PROGRESS_FAILS)
		return taut_error_set(err, TAUT_EIO, -1, "it does not go on");
	return TAUT_OK;
}

static taut_status fake_wait(
	void *engine, int64_t timeout_ns, struct taut_error *err)
{
	(void)engine;
	(void)timeout_ns;
	(void)err;
	return TAUT_OK;
}

static void fake_wake(void *engine)
{
	(void)engine;
}

static bool fake_arrived(void *engine, uint64_t tag, uint64_t mask)
{
	const struct rank *rank = engine;

	for (size_t i = 0; i < rank->sends.count; i++)
		if (!((rank->sends.data[i].tag ^ tag) & mask))
			return true;
	return false;
}

/* What a rank sent and nobody took. */
static void drop_sends(struct rank *of, uint32_t rank)
{
	for (size_t i = 0; i < of->sends.count;) {
		struct half half = of->sends.data[i];

		if (half.from != rank) {
			i++;
			continue;
		}
		of->sends.data[i] = of->sends.data[--of->sends.count];
		if (half.copied)
			free(half.data);
		else if (--half.task->n_left == 0)
			tell(half.task, TAUT_EIO);
	}
}

/* What was about to be delivered from or to a rank goes back to what it was. */
static void part_pairs(struct world *world, uint32_t rank)
{
	for (size_t i = 0; i < world->pairs.count;) {
		struct pair pair = world->pairs.data[i];

		if (pair.send.from != rank && pair.send.to != rank) {
			i++;
			continue;
		}
		world->pairs.data[i] =
			world->pairs.data[--world->pairs.count];
		assert_true(taut_vec_push(
			&world->ranks[pair.send.to].sends, pair.send));
		assert_true(taut_vec_push(
			&world->ranks[pair.send.to].recvs, pair.recv));
	}
}

static void fake_destroy(void *engine)
{
	struct rank *rank = engine;
	struct world *world = rank->world;

	check(world, !rank->destroyed, "an engine is destroyed once");
	rank->destroyed = true;
	part_pairs(world, rank->id);
	for (uint32_t i = 0; i < world->n_ranks; i++)
		drop_sends(&world->ranks[i], rank->id);
	while (rank->recvs.count)
		tell(rank->recvs.data[--rank->recvs.count].task, TAUT_EIO);
	while (rank->over.count)
		tell(rank->over.data[--rank->over.count], TAUT_EIO);
}

/* --- what kind of world ----------------------------------------------------------------*/

static enum taut_reduction draw_reduction(
	struct world *world, enum taut_type type)
{
	enum taut_reduction reduction;

	do
		reduction = (enum taut_reduction)pick(world, TAUT_REDUCTIONS);
	while (!taut_reduces(type, reduction));
	return reduction;
}

static void draw_call(struct world *world, struct taut_coll_call *call)
{
	static const uint64_t counts[] = { 1, 2, 7, 20, 100, 300 };

	call->verb = (enum taut_coll_verb)pick(world, TAUT_VERBS);
	call->type = (enum taut_type)pick(world, TAUT_CARRIED_TYPES);
	call->reduction = draw_reduction(world, call->type);
	call->count = pick(world, 10) ?
		1 + pick(world, counts[pick(world, 6)]) : 0;
	call->root = (uint32_t)pick(world, world->n_ranks);
	do
		call->way = (enum taut_coll_way)pick(world, TAUT_WAYS);
	while (call->way != TAUT_WAY_AUTO &&
		!taut_coll_has(call->verb, call->way));
	if (pick(world, 2))
		call->pass_bytes = 1 + pick(world, 400);
	if (pick(world, 2))
		call->passes_at_once = 1 + (uint32_t)pick(world, 5);
	call->ordered = pick(world, 4) == 0 && (!call->way ||
		call->way == TAUT_WAY_FLAT || call->way == TAUT_WAY_DIRECT);
}

static void draw_world(struct world *world, uint64_t seed)
{
	uint64_t n_hosts;

	memset(world, 0, sizeof *world);
	world->seed = world->random = seed;
	world->n_ranks = 1 + (uint32_t)pick(world, RANKS);
	world->n_channels = 1 + (uint32_t)pick(world, CHANNELS);
	world->n_calls = 1 + (uint32_t)pick(world, CALLS);
	world->window = 1 + (uint32_t)pick(world, 6);
	world->eager = (uint32_t)pick(world, 5);
	world->inlined = (uint32_t)pick(world, 5);
	world->reduces = pick(world, 2);
	world->flats = pick(world, 2);
	world->owned = pick(world, 2);
	n_hosts = pick(world, 2) ? 3 : 1;
	for (uint32_t i = 0; i < world->n_ranks; i++)
		world->host_of[i] = (uint32_t)pick(world, n_hosts);
	for (uint32_t c = 0; c < world->n_channels; c++)
		for (uint32_t k = 0; k < world->n_calls; k++)
			draw_call(world, &world->calls[c][k]);
	if (pick(world, 3) == 0)
		world->crash = (enum crash)pick(world, CRASHES);
	world->crash_rank = (uint32_t)pick(world, world->n_ranks);
	world->crash_step = pick(world, 10) ? pick(world, 400) : 0;
	/* Numbers of passes wrap, within a call or between two. */
	if (pick(world, 2))
		world->passes = UINT32_MAX - (uint32_t)pick(world, 20);
	world->table = (struct taut_coll_engine){ .name = "fake",
		.max_message_bytes = pick(world, 3) ? 0 : 100,
		.send = fake_send, .recv = fake_recv,
		.recv_reduce = world->reduces ? fake_recv_reduce : NULL,
		.flat = world->flats ? fake_flat : NULL,
		.progress = fake_progress, .wait = fake_wait,
		.wake = fake_wake, .arrived = fake_arrived,
		.destroy = fake_destroy };
}

/* --- ranks -----------------------------------------------------------------------------*/

/* A rank that fails says so, and all others hear of it later. */
static void tell_others(void *context, const struct taut_error *why)
{
	struct rank *rank = context;

	if (rank->world->told)
		return;
	rank->world->told = true;
	rank->world->why = *why;
}

static void begin_rank(struct world *world, uint32_t id)
{
	struct rank *rank = &world->ranks[id];
	const struct tauti_hub_options options = {
		.engine = { &world->table, rank }, .owned = world->owned,
		.rank = id, .n_ranks = world->n_ranks,
		.host_of = world->host_of };

	rank->world = world;
	rank->id = id;
	if (world->owned)
		assert_int_equal(tauti_comm_make(
			&options, &rank->comms[0], NULL), TAUT_OK);
	else
		assert_int_equal(taut_comm_create_over(&world->table, rank, id,
			world->n_ranks, world->host_of, &rank->comms[0], NULL),
			TAUT_OK);
	rank->comms[0]->hub->watcher =
		(struct tauti_watcher){ .context = rank, .fail = tell_others };
	for (uint32_t c = 1; c < world->n_channels; c++)
		assert_int_equal(taut_comm_twin(
			rank->comms[0], &rank->comms[c], NULL), TAUT_OK);
	for (uint32_t c = 0; c < world->n_channels; c++)
		rank->comms[0]->hub->passes[c] = world->passes;
}

static void end_rank(struct world *world, struct rank *rank)
{
	for (uint32_t c = world->n_channels; c--;)
		taut_comm_destroy(rank->comms[c]);
	if (!rank->destroyed)
		fake_destroy(rank);
	for (uint32_t c = 0; c < CHANNELS; c++)
		for (uint32_t k = 0; k < CALLS; k++) {
			free(rank->input[c][k]);
			free(rank->output[c][k]);
		}
	taut_vec_free(&rank->recvs);
	taut_vec_free(&rank->over);
}

struct ticket {
	struct rank *rank;
	uint32_t channel, call;
};

static void call_done(void *context, taut_status status)
{
	struct ticket *ticket = context;
	struct rank *rank = ticket->rank;
	struct world *world = rank->world;
	struct taut_coll_call *call =
		&world->calls[ticket->channel][ticket->call];

	check(world, !rank->over_of[ticket->channel][ticket->call],
		"a call is over once");
	rank->over_of[ticket->channel][ticket->call] = true;
	rank->n_ended++;
	rank->ended[ticket->channel]++;
	rank->n_failed += status != TAUT_OK;
	if (status)
		check(world, world->crash != NONE, "a call fails for nothing");
	else
		check(world, oracle_right(call, world->n_ranks, rank->id,
			rank->output[ticket->channel][ticket->call]),
			"a wrong result");
	free(ticket);
}

static bool in_place(const struct world *world, uint32_t channel, uint32_t call)
{
	return ((world->seed >> 3) + channel + call) % 2;
}

static void start_call(struct world *world, struct rank *rank, uint32_t channel)
{
	uint32_t k = rank->next[channel]++;
	struct taut_coll_call call = world->calls[channel][k];
	size_t bytes = call.count * taut_type_bytes(call.type) + 1;
	struct ticket *ticket = malloc(sizeof *ticket);

	assert_non_null(ticket);
	*ticket = (struct ticket){ rank, channel, k };
	call.output = rank->output[channel][k] = calloc(1, bytes);
	assert_non_null(call.output);
	if (in_place(world, channel, k)) {
		oracle_fill(&call, world->n_ranks, rank->id, call.output);
		call.input = k % 2 ? call.output : NULL;
	} else {
		rank->input[channel][k] = calloc(1, bytes);
		assert_non_null(rank->input[channel][k]);
		oracle_fill(&call, world->n_ranks, rank->id,
			rank->input[channel][k]);
		call.input = rank->input[channel][k];
	}
	rank->n_started++;
	if (!taut_comm_start(
		rank->comms[channel], &call, call_done, ticket, NULL))
		return;
	check(world, world->crash != NONE, "a call cannot begin");
	call_done(ticket, TAUT_EIO);
}

/* --- what happens ----------------------------------------------------------------------*/

/* The order between channels is each rank's own, so what is under way on one does
 * not hold up another. */
static bool can_start_on(
	const struct world *world, const struct rank *rank, uint32_t c)
{
	return !rank->dead && rank->next[c] < world->n_calls &&
		rank->next[c] - rank->ended[c] < world->window;
}

static bool can_start(const struct world *world, const struct rank *rank)
{
	for (uint32_t c = 0; c < world->n_channels; c++)
		if (can_start_on(world, rank, c))
			return true;
	return false;
}

static void start_any(struct world *world, struct rank *rank)
{
	uint32_t c = (uint32_t)pick(world, world->n_channels);

	while (!can_start_on(world, rank, c))
		c = (c + 1) % world->n_channels;
	start_call(world, rank, c);
}

/* Who is asked was asked by somebody. */
static void look_asked(struct world *world, struct rank *rank)
{
	for (uint32_t c = 0; c < world->n_channels; c++) {
		bool ahead = false;

		for (uint32_t i = 0; i < world->n_ranks; i++)
			ahead = ahead ||
				world->ranks[i].next[c] > rank->next[c];
		check(world, ahead || !taut_comm_asked(rank->comms[c]),
			"asked, and nobody did");
	}
}

static void progress(struct world *world, struct rank *rank)
{
	taut_status status;

	if (rank->dead)
		return;
	look_asked(world, rank);
	status = taut_comm_progress(
		rank->comms[pick(world, world->n_channels)], NULL);
	check(world, !status || world->crash != NONE, "it does not go on");
}

static void crash(struct world *world)
{
	struct rank *rank = &world->ranks[world->crash_rank];

	if (world->crash == NONE || rank->dead)
		return;
	rank->fails = true;
	if (world->crash == LOST) {
		rank->dead = true;
		world->told = true;
		taut_error_set(&world->why, TAUT_EIO, -1,
			"rank %u is gone", rank->id);
	} else if (world->crash == DESTROYED) {
		struct taut_error why;

		rank->dead = true;
		taut_error_set(&why, TAUT_EIO, -1, "it gives up");
		tauti_hub_fail(rank->comms[0]->hub, &why);
	}
}

static void hear(struct world *world)
{
	for (uint32_t i = 0; i < world->n_ranks; i++)
		tauti_hub_lose(world->ranks[i].comms[0]->hub, &world->why);
}

static void deliver_any(struct world *world)
{
	size_t i = pick(world, world->pairs.count);
	struct pair pair = world->pairs.data[i];

	world->pairs.data[i] = world->pairs.data[--world->pairs.count];
	deliver(world, &pair);
}

/* Whether anything can happen yet. */
static bool goes_on(const struct world *world)
{
	for (uint32_t i = 0; i < world->n_ranks; i++)
		if (can_start(world, &world->ranks[i]) ||
			(world->ranks[i].over.count && !world->ranks[i].dead &&
			!world->ranks[i].comms[0]->hub->failed))
			return true;
	return world->pairs.count > 0;
}

static void step(struct world *world)
{
	struct rank *rank = &world->ranks[pick(world, world->n_ranks)];
	uint64_t kind = pick(world, 8);

	if (kind < 4 && world->pairs.count)
		deliver_any(world);
	else if (kind == 4 && can_start(world, rank))
		start_any(world, rank);
	else
		progress(world, rank);
}

static void check_end(struct world *world)
{
	for (uint32_t i = 0; i < world->n_ranks; i++) {
		struct rank *rank = &world->ranks[i];

		if (!rank->dead)
			check(world, rank->n_ended == rank->n_started &&
				rank->n_started ==
				world->n_channels * world->n_calls,
				"a deadlock");
	}
}

static void run_world(struct world *world, uint64_t seed)
{
	uint64_t n = 0;

	draw_world(world, seed);
	for (uint32_t i = 0; i < world->n_ranks; i++)
		begin_rank(world, i);
	for (; n < STEPS; n++) {
		if (n == world->crash_step)
			crash(world);
		if (world->told && pick(world, 50) == 0)
			hear(world);
		if (n > world->crash_step && !goes_on(world))
			break;
		step(world);
	}
	check(world, n < STEPS, "it does not end");
	/* Whoever is left learns of it now at the latest. */
	if (world->told) {
		hear(world);
		for (uint32_t i = 0; i < world->n_ranks; i++) {
			progress(world, &world->ranks[i]);
			while (can_start(world, &world->ranks[i]))
				start_any(world, &world->ranks[i]);
		}
	}
	check_end(world);
	for (uint32_t i = 0; i < world->n_ranks; i++)
		end_rank(world, &world->ranks[i]);
	for (uint32_t i = 0; i < world->n_ranks; i++) {
		check(world, !world->ranks[i].sends.count, "a message is left");
		taut_vec_free(&world->ranks[i].sends);
	}
	taut_vec_free(&world->pairs);
}

static void test_worlds(void **state)
{
	const char *n = getenv("TAUT_WORLDS"), *one = getenv("TAUT_WORLD_SEED");
	uint64_t first = one ? strtoull(one, NULL, 10) : 1;
	uint64_t last = one ? first : n ? strtoull(n, NULL, 10) : WORLDS;
	struct world *world = malloc(sizeof *world);

	(void)state;
	assert_non_null(world);
	for (uint64_t seed = first; seed <= last; seed++)
		run_world(world, seed);
	free(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worlds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
