/* Collectives on a virtual clock: closed forms of the ways, of passes and of links
 * that are shared; bounds that nothing can beat, over random shapes. */
#include "tests/support/unit.h"

#include <math.h>
#include <string.h>

#include "play.h"
#include "tests/support/alloc_fail.h"

enum { MOST = 64 };

struct world {
	uint32_t host_of[MOST];
	struct taut_play_host hosts[MOST];
	struct taut_play_net net;
};

/* Each rank on a host of its own; links of a byte a nanosecond. */
static void world_init(struct world *w, uint32_t n, int64_t latency_ns)
{
	memset(w, 0, sizeof *w);
	for (uint32_t r = 0; r < n; r++) {
		w->host_of[r] = r;
		w->hosts[r] = (struct taut_play_host){ 1, 1, 0 };
	}
	w->net = (struct taut_play_net){ .n_ranks = n, .n_hosts = n,
		.host_of = w->host_of, .hosts = w->hosts,
		.network_ns = latency_ns };
}

static struct taut_play_result played(
	const struct taut_play_net *net, const struct taut_play_call *call)
{
	struct taut_play_result result;
	struct taut_error err;

	if (taut_play(net, call, &result, &err))
		fail_msg("%s of %s, %u ranks: %s", taut_coll_verb_name(call->verb),
			taut_coll_way_name(call->way), net->n_ranks,
			err.message);
	return result;
}

static int64_t time_of(const struct taut_play_net *net,
	enum taut_coll_verb verb, enum taut_coll_way way, uint64_t bytes)
{
	struct taut_play_call call = {
		.verb = verb, .way = way, .count = bytes };

	return played(net, &call).time_ns;
}

static uint32_t lg(uint32_t n)
{
	uint32_t l = 0;

	while ((UINT32_C(1) << l) < n)
		l++;
	return l;
}

/* --- one pass ---------------------------------------------------------------------------*/

/* 2 (n-1) alpha + 2 (n-1)/n S beta + (n-1)/n S gamma; half of the first two for
 * each half of it. A rank's own time: o to send and o to receive, in each round. */
static void test_ring(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 12; n++) {
		struct world w;
		uint64_t part = 1000, S = n * part;
		int64_t rounds = n - 1, each = 300 + (int64_t)part;

		world_init(&w, n, 300);
		assert_int_equal(time_of(&w.net, TAUT_ALLREDUCE, TAUT_WAY_RING,
			S), 2 * rounds * each);
		assert_int_equal(time_of(&w.net, TAUT_REDUCE_SCATTER,
			TAUT_WAY_RING, S), rounds * each);
		assert_int_equal(time_of(&w.net, TAUT_ALLGATHER, TAUT_WAY_RING,
			S), rounds * each);
		w.net.reduce_ns = 0.25;
		assert_int_equal(time_of(&w.net, TAUT_ALLREDUCE, TAUT_WAY_RING,
			S), rounds * (2 * each + (int64_t)part / 4));
		w.net.message_ns = 7;
		assert_int_equal(time_of(&w.net, TAUT_ALLREDUCE, TAUT_WAY_RING,
			S), rounds * (2 * each + (int64_t)part / 4 + 4 * 7));
	}
}

/* Powers of two: lg n rounds of S; 2 lg n rounds of S/2, S/4, ... */
static void test_rounds(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 32; n *= 2) {
		struct world w;
		uint64_t S = n * 100;
		int64_t latency = 70, bytes = (int64_t)S;

		world_init(&w, n, latency);
		assert_int_equal(time_of(&w.net, TAUT_ALLREDUCE,
			TAUT_WAY_DOUBLING, S), lg(n) * (latency + bytes));
		assert_int_equal(time_of(&w.net, TAUT_ALLREDUCE,
			TAUT_WAY_HALVING, S), 2 * lg(n) * latency +
				2 * bytes * (n - 1) / n);
	}
}

/* Each to each: n - 1 parts leave each rank together. */
static void test_each_to_each(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 8; n++) {
		struct world w;
		uint64_t S = n * 100;
		int64_t latency = 70, bytes = (int64_t)S;

		world_init(&w, n, latency);
		assert_int_equal(time_of(&w.net, TAUT_ALLREDUCE,
			TAUT_WAY_DIRECT, S), 2 * latency +
				2 * bytes * (n - 1) / n);
		assert_int_equal(time_of(&w.net, TAUT_ALLREDUCE, TAUT_WAY_FLAT,
			S), latency + bytes * (n - 1));
	}
}

/* --- what is shared ---------------------------------------------------------------------*/

/* Two hosts of n/2 ranks, and the uplink of one is slow: what each to each moves
 * over it is n/2 times n/2 parts of S/n, in each of two rounds. Its ranks have what
 * they need for the second round early, so that it is never idle. Where both ways
 * are one, each round waits for the other. */
static void test_an_uplink_is_shared(void **state)
{
	(void)state;
	for (uint32_t n = 4; n <= 8; n += 2) {
		struct world w;
		uint64_t part = 120;

		world_init(&w, n, 50);
		w.net.n_hosts = 2;
		for (uint32_t r = 0; r < n; r++)
			w.host_of[r] = r % 2;
		w.hosts[0].out = 0.5;
		assert_int_equal(time_of(&w.net, TAUT_ALLREDUCE,
			TAUT_WAY_DIRECT, n * part), 50 + 2 * 2 *
				(int64_t)(n / 2 * (n / 2) * part));
		w.hosts[0].out = 1;
		w.net.backbone = 0.25; /* both ways together */
		assert_int_equal(time_of(&w.net, TAUT_ALLREDUCE,
			TAUT_WAY_DIRECT, n * part), 2 * (50 + 2 * 4 *
				(int64_t)(n / 2 * (n / 2) * part)));
	}
}

/* In a host: each rank's way out, and the memory that all share. */
static void test_in_a_host(void **state)
{
	(void)state;
	struct world w;

	world_init(&w, 4, 1000000);
	w.net.n_hosts = 1;
	w.net.host_of = NULL;
	w.net.local = 2;
	w.net.local_ns = 9;
	assert_int_equal(time_of(&w.net, TAUT_ALLREDUCE, TAUT_WAY_RING, 800),
		6 * (9 + 100));
	w.hosts[0].memory = 4; /* of four that could move at 2 */
	assert_int_equal(time_of(&w.net, TAUT_ALLREDUCE, TAUT_WAY_RING, 800),
		6 * (9 + 200));
}

/* --- passes -----------------------------------------------------------------------------*/

/* k passes of a ring of two, through reduce-scatter and all-gather, each of S/2k. One
 * at a time, each pays its two latencies. When enough are under way the link is never
 * idle, and one latency is left: that of the last message; all that one rank sent is
 * on the way back from it. */
static void test_passes_overlap(void **state)
{
	(void)state;
	struct world w;
	struct taut_play_call call = { .verb = TAUT_ALLREDUCE,
		.way = TAUT_WAY_RING, .count = 16384, .pass_bytes = 1024,
		.passes_at_once = 1 };
	struct taut_play_result r;

	world_init(&w, 2, 200);
	r = played(&w.net, &call);
	assert_int_equal(r.n_passes, 16);
	assert_int_equal(r.time_ns, 16 * 2 * (200 + 512));
	assert_int_equal(r.in_succession, 2);
	assert_int_equal(r.path_messages, 16 * 2);
	call.passes_at_once = 16;
	r = played(&w.net, &call);
	assert_int_equal(r.time_ns, 16384 + 200);
	assert_int_equal(r.path_messages, 16 * 2);
	call.passes_at_once = 2;
	assert_true(played(&w.net, &call).time_ns < 16 * 2 * (200 + 512));
}

/* Two trees, pipelined: the root's link is never idle, and what it sends last goes
 * down the other levels, where one link carries two halves of a pass:
 *     S beta + alpha + (lg n - 1) (alpha + pass beta)
 * Of three, the second tree's other rank has but one child: less. */
static void test_a_tree_is_filled(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 16; n++) {
		struct world w;
		struct taut_play_call call = { .verb = TAUT_BROADCAST,
			.way = TAUT_WAY_TREE, .count = 1 << 20,
			.pass_bytes = 1 << 12, .passes_at_once = 64 };
		int64_t ns, filled = (1 << 20) + 100 +
			(lg(n) - 1) * (100 + (1 << 12));

		world_init(&w, n, 100);
		ns = played(&w.net, &call).time_ns;
		if (n == 3)
			assert_in_range(ns, (1 << 20) + 200, filled);
		else
			assert_int_equal(ns, filled);
	}
}

/* --- counts ---------------------------------------------------------------------------------*/

static void test_counts(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 16; n++) {
		struct world w;
		struct taut_play_call call = { .verb = TAUT_ALLREDUCE,
			.way = TAUT_WAY_RING, .count = 10 * n,
			.element_bytes = 4 };
		struct taut_play_result r;
		struct taut_error err;

		world_init(&w, n, 1);
		assert_int_equal(taut_play_count(&w.net, &call, &r, &err), 0);
		assert_int_equal(r.time_ns, 0);
		assert_int_equal(r.n_messages, 2 * n * (n - 1));
		assert_int_equal(r.in_succession, 2 * (n - 1));
		assert_int_equal(r.network_bytes, 2 * 40 * (n - 1));
		assert_int_equal(r.local_bytes, 0);
		assert_int_equal(r.reduced_bytes, 40 * (n - 1));
		w.net.host_of = NULL;
		assert_int_equal(taut_play_count(&w.net, &call, &r, &err), 0);
		assert_int_equal(r.network_bytes, 0);
		assert_int_equal(r.local_bytes, 2 * 40 * (n - 1));
		call.way = TAUT_WAY_DIRECT;
		assert_int_equal(taut_play_count(&w.net, &call, &r, &err), 0);
		assert_int_equal(r.in_succession, 2);
		call.way = TAUT_WAY_FLAT;
		assert_int_equal(taut_play_count(&w.net, &call, &r, &err), 0);
		assert_int_equal(r.in_succession, 1);
		assert_int_equal(r.local_bytes, 40 * n * (n - 1));
	}
}

/* Of six ranks on three hosts, two each: by host in and out, by rank; a root's host
 * gets nothing of a broadcast. */
static void test_traffic(void **state)
{
	(void)state;
	struct world w;
	struct taut_play_call call = { .verb = TAUT_BROADCAST,
		.way = TAUT_WAY_HOSTS, .count = 100, .element_bytes = 2,
		.root = 5, .pass_bytes = 64 };
	uint64_t out[3], in[3], local_out[6], local_in[6], reduced[6];
	struct taut_play_traffic all = { out, in, local_out, local_in,
		reduced };
	struct taut_play_traffic none = { .out = out };
	struct taut_error err;

	world_init(&w, 6, 1);
	w.net.n_hosts = 3;
	for (uint32_t r = 0; r < 6; r++)
		w.host_of[r] = r / 2;
	assert_int_equal(taut_play_traffic(&w.net, &call, &all, &err), 0);
	assert_int_equal(in[2], 0);
	assert_int_equal(in[0], 200);
	assert_int_equal(in[1], 200);
	assert_int_equal(out[0] + out[1] + out[2], 400);
	for (uint32_t r = 0; r < 6; r++) {
		assert_int_equal(reduced[r], 0);
		assert_int_equal(local_out[r] + local_in[r], 200);
		assert_int_equal(local_out[r],
			r == 0 || r == 2 || r == 5 ? 200 : 0);
	}
	call.way = TAUT_WAY_FLAT;
	call.verb = TAUT_ALLREDUCE;
	assert_int_equal(taut_play_traffic(&w.net, &call, &none, &err), 0);
	for (uint32_t h = 0; h < 3; h++)
		assert_int_equal(out[h], 2 * 4 * 200);
	assert_int_equal(in[0], 200);
}

/* --- random shapes --------------------------------------------------------------------------*/

static uint64_t draw(uint64_t *seed, uint64_t below)
{
	uint64_t x = *seed += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 31) % below;
}

static void random_world(struct world *w, uint64_t *seed)
{
	uint32_t n = 2 + (uint32_t)draw(seed, 15);
	uint32_t hosts = 1 + (uint32_t)draw(seed, n);

	world_init(w, n, (int64_t)draw(seed, 5000));
	w->net.n_hosts = hosts;
	for (uint32_t r = 0; r < n; r++)
		w->host_of[r] = draw(seed, 2) ? r % hosts :
			(uint32_t)draw(seed, hosts);
	w->net.local = 1 + (double)draw(seed, 8);
	w->net.local_ns = (int64_t)draw(seed, 500);
	w->net.message_ns = (int64_t)draw(seed, 3) * 50;
	w->net.reduce_ns = (double)draw(seed, 3) / 16;
	w->net.copy_ns = (double)draw(seed, 3) / 32;
	w->net.eager_bytes = draw(seed, 2) * 4096;
}

static struct taut_play_call random_call(const struct world *w, uint64_t *seed)
{
	struct taut_play_call call = { .way = TAUT_WAY_AUTO };

	while (!taut_coll_has(call.verb, call.way)) {
		call.verb = (enum taut_coll_verb)draw(seed, TAUT_VERBS);
		call.way = (enum taut_coll_way)draw(seed, TAUT_WAYS);
	}
	call.root = (uint32_t)draw(seed, w->net.n_ranks);
	call.count = draw(seed, draw(seed, 2) ? 40 : 20000);
	call.element_bytes = 1 + (uint32_t)draw(seed, 8);
	call.pass_bytes = draw(seed, 2) * (1000 + draw(seed, 40000));
	call.passes_at_once = (uint32_t)draw(seed, 5);
	return call;
}

/* Messages in succession below which a way cannot be: where a rank is told by one
 * other at a time, ceil(lg n); where all tell all, one, or one and one back. */
static uint32_t least_row(enum taut_coll_way way, uint32_t n)
{
	switch (way) {
	case TAUT_WAY_FLAT:
		return 1;
	case TAUT_WAY_DIRECT:
	case TAUT_WAY_HOSTS:
		return lg(n) < 2 ? 1 : 2;
	default:
		return lg(n);
	}
}

/* Every link takes its bytes, every row of messages its latencies; all-reduce moves
 * 2 (n-1)/n S at least into some rank. */
static void check_bounds(const struct world *w,
	const struct taut_play_call *call, const struct taut_play_result *r)
{
	int64_t least_ns = w->net.network_ns < w->net.local_ns ?
		w->net.network_ns : w->net.local_ns;
	uint64_t S = call->count * call->element_bytes;
	uint32_t n = w->net.n_ranks;

	assert_true((double)r->time_ns >= (double)r->network_bytes);
	assert_true((double)r->time_ns >=
		(double)r->local_bytes / w->net.local);
	assert_true((double)r->time_ns >=
		(double)r->reduced_bytes * w->net.reduce_ns);
	assert_true(r->time_ns >= r->in_succession * least_ns);
	if (call->verb == TAUT_ALLREDUCE && call->count)
		assert_true(r->in_succession >= least_row(call->way, n));
	if (call->verb == TAUT_ALLREDUCE)
		assert_true((r->local_bytes + r->network_bytes) * n >=
			2 * S * (n - 1));
}

static void check_same(
	const struct taut_play_result *a, const struct taut_play_result *b)
{
	assert_int_equal(a->time_ns, b->time_ns);
	assert_int_equal(a->n_passes, b->n_passes);
	assert_int_equal(a->n_messages, b->n_messages);
	assert_int_equal(a->in_succession, b->in_succession);
	assert_int_equal(a->network_bytes, b->network_bytes);
	assert_int_equal(a->local_bytes, b->local_bytes);
	assert_int_equal(a->reduced_bytes, b->reduced_bytes);
	assert_int_equal(a->path_messages, b->path_messages);
}

static void test_random_shapes(void **state)
{
	(void)state;
	uint64_t seed = 5;

	for (int i = 0; i < 1000; i++) {
		struct world w;
		struct taut_play_call call;
		struct taut_play_result r, again;

		random_world(&w, &seed);
		call = random_call(&w, &seed);
		r = played(&w.net, &call);
		check_bounds(&w, &call, &r);
		again = played(&w.net, &call);
		check_same(&r, &again);
	}
}

/* What leaves hosts and ranks together comes in: the sums of the messages are those
 * of all schedules, whatever the passes. */
static void test_passes_change_no_bytes(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 9; n++)
		for (int way = TAUT_WAY_DIRECT; way < TAUT_WAYS; way++) {
			struct world w;
			struct taut_play_call call = { .way = way,
				.count = 60 * 64 * 840 * n };
			struct taut_play_result whole, parts;

			world_init(&w, n, 10);
			whole = played(&w.net, &call);
			call.pass_bytes = 64 * 840 * n;
			parts = played(&w.net, &call);
			assert_int_equal(parts.n_passes, 60);
			assert_int_equal(parts.network_bytes,
				whole.network_bytes);
			assert_int_equal(parts.reduced_bytes,
				whole.reduced_bytes);
			assert_int_equal(parts.n_messages,
				60 * whole.n_messages);
			assert_int_equal(parts.in_succession,
				whole.in_succession);
		}
}

/* --- what cannot be played ----------------------------------------------------------------*/

struct by_hand { /* schedules of two ranks, a few steps each */
	struct taut_coll_step steps[2][4];
	uint32_t peers[2], waits[2][4];
	struct taut_coll_schedule schedule[2];
	const struct taut_coll_schedule *of[2];
};

static void hand_init(struct by_hand *h)
{
	memset(h, 0, sizeof *h);
	for (int r = 0; r < 2; r++) {
		h->peers[r] = 1 - r;
		h->schedule[r] = (struct taut_coll_schedule){ .n_peers = 1,
			.steps = h->steps[r], .peers = &h->peers[r],
			.waits = h->waits[r], .n_waits = 4 };
		h->of[r] = &h->schedule[r];
	}
}

/* wait: a step of the same rank before it; TAUT_NONE: none. */
static void hand_step(struct by_hand *h, int r, enum taut_coll_step_kind kind,
	uint32_t message, uint64_t count, uint32_t wait)
{
	uint32_t i = h->schedule[r].n_steps++;

	h->steps[r][i] = (struct taut_coll_step){ .kind = kind, .n_peers = 1,
		.message = message, .count = count, .first_wait = i,
		.n_waits = wait != TAUT_NONE };
	h->waits[r][i] = wait;
}

static taut_status hand_play(const struct by_hand *h, int64_t *ret_ns,
	struct taut_error *err)
{
	struct tauti_played played = { 0 };
	struct world w;
	struct tauti_script script;
	struct tauti_passes passes = { &script, 3, NULL };
	struct tauti_scene scene;
	struct taut_arena *arena = taut_arena_create();
	taut_status status;

	assert_non_null(arena);
	world_init(&w, 2, 10);
	status = tauti_script_init(&script, arena, h->of, 2, err);
	if (!status)
		status = tauti_scene_init(
			&scene, arena, &w.net, &passes, 2, 1, err);
	if (!status)
		status = tauti_scene_play(
			&scene, arena, INT64_MAX, &played, err);
	*ret_ns = played.time_ns;
	taut_arena_destroy(arena);
	return status;
}

static void hand_fails(const struct by_hand *h, const char *why)
{
	struct taut_error err;
	int64_t ns;

	assert_int_equal(hand_play(h, &ns, &err), TAUT_EMATCH);
	if (!strstr(err.message, why))
		fail_msg("\"%s\" is not in \"%s\"", why, err.message);
}

static void test_schedules_must_match(void **state)
{
	(void)state;
	struct by_hand h;
	struct taut_error err;
	int64_t ns;

	hand_init(&h);
	hand_step(&h, 0, TAUT_STEP_SEND, 7, 50, TAUT_NONE);
	hand_fails(&h, "message 7 from rank 0 to rank 1 is sent and not");
	hand_step(&h, 1, TAUT_STEP_RECV, 7, 50, TAUT_NONE);
	assert_int_equal(hand_play(&h, &ns, &err), TAUT_OK);
	assert_int_equal(ns, 3 * 50 + 10);
	h.steps[1][0].count = 49;
	hand_fails(&h, "has 50 elements, where 49 are expected");
	h.steps[1][0].count = 50;
	hand_step(&h, 1, TAUT_STEP_RECV, 8, 1, TAUT_NONE);
	hand_fails(&h, "message 8 from rank 0 to rank 1 is received and not");
	hand_step(&h, 0, TAUT_STEP_SEND, 8, 1, TAUT_NONE);
	assert_int_equal(hand_play(&h, &ns, &err), TAUT_OK);
	h.steps[1][1].message = h.steps[0][1].message = 7;
	hand_fails(&h, "two messages 7");
	h.steps[1][1].message = h.steps[0][1].message = 8;
	h.steps[1][1].n_waits = 1;
	h.waits[1][1] = 1; /* itself */
	hand_fails(&h, "rank 1, step 1 of its schedule");
	h.waits[1][1] = 0;
	assert_int_equal(hand_play(&h, &ns, &err), TAUT_OK);
	h.peers[1] = 2;
	hand_fails(&h, "rank 1, step 0 of its schedule");
}

/* Each sends first and receives then, and a send lasts until it is received: what
 * no engine need carry out comes to no end here either. */
static void test_circles_are_found(void **state)
{
	(void)state;
	struct by_hand h;

	hand_init(&h);
	for (int r = 0; r < 2; r++) {
		hand_step(&h, r, TAUT_STEP_SEND, 0, 9, TAUT_NONE);
		hand_step(&h, r, TAUT_STEP_RECV, 0, 9, 0);
	}
	hand_fails(&h, "wait for each other");
}

static void refused(const struct taut_play_net *net,
	const struct taut_play_call *call)
{
	struct taut_play_result r = { .time_ns = -5 };
	struct taut_error err;

	assert_int_equal(taut_play(net, call, &r, &err), TAUT_EINVAL);
	assert_int_equal(r.time_ns, -5);
}

static void test_what_is_refused(void **state)
{
	(void)state;
	struct world w;
	struct taut_play_call call = { .way = TAUT_WAY_RING, .count = 9 };

	world_init(&w, 3, 10);
	call.way = TAUT_WAY_AUTO;
	refused(&w.net, &call);
	call.way = TAUT_WAY_RING;
	call.verb = TAUT_BROADCAST;
	call.root = 3;
	refused(&w.net, &call);
	call.verb = TAUT_ALLREDUCE;
	call.element_bytes = 8;
	call.count = UINT64_MAX / 8;
	refused(&w.net, &call);
	call.count = UINT64_C(1) << 56;
	call.pass_bytes = 8;
	refused(&w.net, &call);
	call = (struct taut_play_call){ .way = TAUT_WAY_RING, .count = 9 };
	w.host_of[1] = 3;
	refused(&w.net, &call);
	w.host_of[1] = 1;
	w.hosts[2].in = -1;
	refused(&w.net, &call);
	w.hosts[2].in = NAN;
	refused(&w.net, &call);
	w.hosts[2].in = 1;
	w.net.reduce_ns = INFINITY;
	refused(&w.net, &call);
	w.net.reduce_ns = 1e20; /* longer than any clock */
	refused(&w.net, &call);
	w.net.reduce_ns = 0;
	w.net.network_ns = INT64_MAX / 2;
	refused(&w.net, &call);
	w.net.network_ns = -1;
	refused(&w.net, &call);
	w.net.network_ns = 0;
	w.hosts[1].out = 1e-40;
	refused(&w.net, &call);
	w.hosts[1].out = 1;
	call.element_bytes = 65;
	refused(&w.net, &call);
	call.element_bytes = 1;
	call.verb = TAUT_VERBS;
	refused(&w.net, &call);
	call.verb = TAUT_ALLREDUCE;
	w.net.n_hosts = 4;
	refused(&w.net, &call);
	w.net.n_hosts = 0;
	refused(&w.net, &call);
}

static void test_nothing_to_do(void **state)
{
	(void)state;
	struct world w;
	struct taut_play_call call = { .way = TAUT_WAY_RING };

	world_init(&w, 4, 10);
	assert_int_equal(played(&w.net, &call).time_ns, 0);
	w.net.n_ranks = w.net.n_hosts = 1;
	call.count = 100;
	assert_int_equal(played(&w.net, &call).time_ns, 0);
}

static void test_memory_runs_out(void **state)
{
	(void)state;
	struct world w;
	struct taut_play_call call = { .way = TAUT_WAY_HOSTS, .count = 1000,
		.pass_bytes = 300, .passes_at_once = 2 };
	struct taut_play_result r, expected;
	struct taut_error err;
	taut_status status;

	world_init(&w, 4, 10);
	w.net.n_hosts = 2;
	w.net.local = 4;
	w.net.reduce_ns = 0.5;
	for (uint32_t i = 0; i < 4; i++)
		w.host_of[i] = i / 2;
	expected = played(&w.net, &call);
	for (long n = 0;; n++) {
		alloc_fail_after(n);
		status = taut_play(&w.net, &call, &r, &err);
		alloc_fail_never();
		if (!status)
			break;
		assert_int_equal(status, TAUT_ENOMEM);
	}
	check_same(&r, &expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_each_to_each),
		cmocka_unit_test(test_an_uplink_is_shared),
		cmocka_unit_test(test_in_a_host),
		cmocka_unit_test(test_passes_overlap),
		cmocka_unit_test(test_a_tree_is_filled),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_traffic),
		cmocka_unit_test(test_random_shapes),
		cmocka_unit_test(test_passes_change_no_bytes),
		cmocka_unit_test(test_schedules_must_match),
		cmocka_unit_test(test_circles_are_found),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_nothing_to_do),
		cmocka_unit_test(test_memory_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
