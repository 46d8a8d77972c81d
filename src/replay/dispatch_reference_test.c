/* A mechanism that starts operations of random graphs with random sharing,
 * against a replay that is too simple to be wrong: it must be told the same, at
 * the same times, in the same order, and what it starts must take as long. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "random_share.h"
#include "sharing_reference.h"

enum { MAX_LOG = 4096 };

/* Releases by a random priority within a credit; puts some off to a call; in
 * some graphs loses some. The same for both sides, which differ in how they are
 * asked. */
struct policy {
	uint64_t seed;
	const uint8_t *ops;
	uint32_t credit, under_way;
	int loses;
	uint32_t queue[MAX_OPS], n_queue;
	struct { int kind; uint64_t id; int64_t now_ns; } log[MAX_LOG];
	uint32_t n_log, n_late;
	void (*release)(void *side, uint32_t op);
	void (*call)(void *side, int64_t at_ns, uint64_t what);
};

static uint32_t draw(const struct policy *p, uint64_t about, uint32_t n)
{
	uint64_t seed = p->seed + about * 7919;
	return random_pick(&seed, n);
}

static void note(struct policy *p, int kind, uint64_t id, int64_t now_ns)
{
	assert_true(p->n_log < MAX_LOG);
	p->log[p->n_log].kind = kind;
	p->log[p->n_log].id = id;
	p->log[p->n_log++].now_ns = now_ns;
}

static void release_best(struct policy *p, void *side)
{
	uint32_t best = 0;
	for (uint32_t i = 1; i < p->n_queue; i++) {
		if (draw(p, p->queue[i], 1000) < draw(p, p->queue[best], 1000))
			best = i;
	}
	uint32_t op = p->queue[best];
	p->queue[best] = p->queue[--p->n_queue];
	p->under_way += (p->ops[op] & TAUT_TELL_END) != 0;
	p->release(side, op);
}

static void release_some(struct policy *p, void *side)
{
	while (p->n_queue && p->under_way < p->credit)
		release_best(p, side);
}

static void policy_ready(
	struct policy *p, void *side, uint32_t op, int64_t now_ns)
{
	note(p, 1, op, now_ns);
	if (p->loses && draw(p, op, 16) == 0)
		return;
	p->queue[p->n_queue++] = op;
	if (draw(p, op + 1000, 3) == 0) {
		p->n_late++;
		p->call(side, now_ns - 2 + draw(p, op + 2000, 30), op);
	} else {
		release_some(p, side);
	}
}

static void policy_ended(
	struct policy *p, void *side, uint32_t op, int64_t now_ns)
{
	note(p, 0, op, now_ns);
	p->under_way -= (p->ops[op] & TAUT_HELD) != 0;
	release_some(p, side);
}

static void policy_called(
	struct policy *p, void *side, uint64_t what, int64_t now_ns)
{
	note(p, 2, what, now_ns);
	if (p->n_queue)
		release_best(p, side);
}

/* --- the replay's side -------------------------------------------------------------------*/

struct side {
	struct policy policy;
	struct taut_dispatch *dispatch;
};

static void release(void *side, uint32_t op)
{
	struct taut_error err;
	assert_int_equal(taut_dispatch_release(
		((struct side *)side)->dispatch, op, &err), TAUT_OK);
}

static void call(void *side, int64_t at_ns, uint64_t what)
{
	struct taut_error err;
	assert_int_equal(taut_dispatch_call(((struct side *)side)->dispatch,
		at_ns, what, &err), TAUT_OK);
}

static taut_status ready(void *context, struct taut_dispatch *dispatch,
	uint32_t op, int64_t now_ns, struct taut_error *err)
{
	struct side *side = context;
	(void)err;
	side->dispatch = dispatch;
	policy_ready(&side->policy, side, op, now_ns);
	return TAUT_OK;
}

static taut_status ended(void *context, struct taut_dispatch *dispatch,
	uint32_t op, int64_t now_ns, struct taut_error *err)
{
	struct side *side = context;
	(void)err;
	side->dispatch = dispatch;
	policy_ended(&side->policy, side, op, now_ns);
	return TAUT_OK;
}

static taut_status called(void *context, struct taut_dispatch *dispatch,
	uint64_t what, int64_t now_ns, struct taut_error *err)
{
	struct side *side = context;
	(void)err;
	side->dispatch = dispatch;
	policy_called(&side->policy, side, what, now_ns);
	return TAUT_OK;
}

/* --- the reference's side ------------------------------------------------------------------*/

struct slow_side {
	struct policy policy;
	struct reference *ref;
};

static void slow_release(void *side, uint32_t op)
{
	reference_release(((struct slow_side *)side)->ref, op);
}

static void slow_call(void *side, int64_t at_ns, uint64_t what)
{
	reference_call(((struct slow_side *)side)->ref, at_ns, what);
}

static void slow_ready(void *context, struct reference *ref, uint32_t op,
	int64_t now_ns)
{
	struct slow_side *side = context;
	side->ref = ref;
	policy_ready(&side->policy, side, op, now_ns);
}

static void slow_ended(void *context, struct reference *ref, uint32_t op,
	int64_t now_ns)
{
	struct slow_side *side = context;
	side->ref = ref;
	policy_ended(&side->policy, side, op, now_ns);
}

static void slow_called(void *context, struct reference *ref, uint64_t what,
	int64_t now_ns)
{
	struct slow_side *side = context;
	side->ref = ref;
	policy_called(&side->policy, side, what, now_ns);
}

/* --- comparison -------------------------------------------------------------------------------*/

struct tally {
	unsigned whole, stuck;
	uint64_t held, ended, called, late;
};

static void compare(const struct reference *ref,
	const struct taut_timeline *timeline, int whole, int ordered)
{
	assert_int_equal(timeline->n_run, ref->n_run);
	for (uint32_t op = 0; op < ref->graph->n_ops; op++) {
		if (ref->state[op] <= RELEASED)
			continue;
		assert_int_equal(timeline->start_ns[op], ref->start_ns[op]);
		assert_int_equal(timeline->end_ns[op], ref->end_ns[op]);
		if (whole)
			assert_int_equal(timeline->decided_by[op],
				ref->decided_by[op]);
	}
	for (uint32_t i = 0; ordered && i < ref->n_run; i++)
		assert_int_equal(timeline->order[i], ref->order[i]);
}

static void compare_logs(const struct policy *a, const struct policy *b)
{
	assert_int_equal(a->n_log, b->n_log);
	for (uint32_t i = 0; i < a->n_log; i++) {
		assert_int_equal(a->log[i].kind, b->log[i].kind);
		assert_int_equal(a->log[i].id, b->log[i].id);
		assert_int_equal(a->log[i].now_ns, b->log[i].now_ns);
	}
}

/* Each step of the walk must lead to one that ran before: no circles. */
static void walk_back(const struct taut_timeline *timeline)
{
	for (uint32_t op = 0; op < timeline->n_ops; op++) {
		uint32_t at = op, steps = 0;
		while (at != TAUT_NONE) {
			assert_true(steps++ <= timeline->n_ops);
			at = timeline->decided_by[at];
		}
	}
}

static void count(struct tally *tally, const struct policy *p, int whole)
{
	tally->whole += whole;
	tally->stuck += !whole;
	tally->late += p->n_late;
	for (uint32_t i = 0; i < p->n_log; i++) {
		tally->ended += p->log[i].kind == 0;
		tally->held += p->log[i].kind == 1;
		tally->called += p->log[i].kind == 2;
	}
}

static struct policy make_policy(uint64_t *seed, const uint8_t *ops)
{
	return (struct policy){
		.seed = *seed, .ops = ops, .credit = 1 + random_pick(seed, 4),
		.loses = random_pick(seed, 8) == 0,
	};
}

static void try_seed(uint64_t seed, const struct random_shape *shape,
	struct tally *tally)
{
	static struct reference ref;
	static struct side side;
	static struct slow_side slow;
	uint8_t ops[MAX_OPS];
	struct by_hand *hand = by_hand_create();
	struct share_by_hand *share = share_by_hand_create();
	const struct taut_graph *graph = random_graph(hand, &seed, shape);
	struct taut_sharing *sharing =
		random_sharing(share, &seed, shape, graph);
	struct taut_timeline timeline;
	struct taut_error err;

	for (uint32_t op = 0; op < graph->n_ops; op++)
		ops[op] = (uint8_t)((random_pick(&seed, 4) == 0 ? TAUT_HELD : 0)
			| (random_pick(&seed, 3) == 0 ? TAUT_TELL_END : 0));
	struct policy policy = make_policy(&seed, ops);
	struct reference_mechanism mechanism = {
		ops, &slow, slow_ready, slow_ended, slow_called
	};
	struct taut_dispatcher dispatcher = {
		ops, &side, ready, ended, called
	};
	struct taut_replay_edit edit = {
		.sharing = sharing, .dispatcher = &dispatcher
	};
	assert_int_equal(taut_timeline_init(&timeline, graph, &err), TAUT_OK);
	slow.policy = policy;
	slow.policy.release = slow_release;
	slow.policy.call = slow_call;
	solve_all(&ref, graph, &edit, &mechanism);
	int whole = ref.n_run == graph->n_ops;
	for (edit.unordered = 0; edit.unordered < 2; edit.unordered++) {
		side.policy = policy;
		side.policy.release = release;
		side.policy.call = call;
		taut_status status = taut_replay(graph, &edit, &timeline, &err);
		assert_int_equal(status, whole ? TAUT_OK : TAUT_EMATCH);
		compare(&ref, &timeline, whole, !edit.unordered);
		compare_logs(&side.policy, &slow.policy);
		if (whole)
			walk_back(&timeline);
	}
	count(tally, &side.policy, whole);
	taut_timeline_fini(&timeline);
	by_hand_destroy(hand);
	share_by_hand_destroy(share);
}

/* The generator must not go dull: each kind of thing must happen. */
static void try_shape(const struct random_shape *shape)
{
	struct tally tally = { 0 };
	for (uint64_t i = 1; i <= shape->n_graphs; i++)
		try_seed(i * 1000033, shape, &tally);
	print_message("%u timelines, %u stuck, told: %llu ready, %llu ended, "
		"%llu calls\n", tally.whole, tally.stuck,
		(unsigned long long)tally.held, (unsigned long long)tally.ended,
		(unsigned long long)tally.called);
	assert_true(tally.whole > shape->n_graphs / 2);
	assert_true(tally.stuck > shape->n_graphs / 20);
	assert_true(tally.held > shape->n_graphs);
	assert_true(tally.ended > shape->n_graphs);
	assert_true(tally.late > shape->n_graphs / 4);
	assert_true(tally.called > shape->n_graphs / 4);
}

static void test_small_graphs(void **state)
{
	(void)state;
	try_shape(&(struct random_shape){ 6000, 6, 6, 4, 6, 0, 0.1 });
}

static void test_forward_graphs(void **state)
{
	(void)state;
	try_shape(&(struct random_shape){ 3000, 8, 10, 5, 10, 1, 0.25 });
}

static void test_wide_graphs(void **state)
{
	(void)state;
	try_shape(&(struct random_shape){ 120, 60, 4, 24, 60, 0, 0.02 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_graphs),
		cmocka_unit_test(test_forward_graphs),
		cmocka_unit_test(test_wide_graphs),
	};
	return cmocka_run_group_tests_name(
		"a mechanism against a reference", tests, NULL, NULL);
}
