/* Operations that a mechanism starts, in cases small enough to be worked out by
 * hand. */
#include "tests/support/unit.h"

#include <string.h>

#include "share_by_hand.h"
#include "tests/support/alloc_fail.h"

enum { MOST = 32 };

enum how {
	AT_ONCE,   /* released when told ready */
	LAST_FIRST, /* one at a time, the highest id of those that are ready */
	LATER,     /* when called, 100 ns after it was ready */
	NEVER,
	POLL,      /* never, but it calls itself for ever */
	FAIL,
	TWICE,
};

struct rig {
	struct by_hand *hand;
	struct share_by_hand *share;
	const struct taut_graph *graph;
	struct taut_timeline timeline;
	struct taut_dispatcher dispatcher;
	struct taut_error err;
	enum how how;
	uint8_t ops[MOST];
	uint32_t waiting[MOST], n_waiting;
	int busy;
	uint32_t told[MOST], n_told; /* as ready */
	int64_t told_ns[MOST];
};

static taut_status release_last(struct rig *rig, struct taut_dispatch *d,
	struct taut_error *err)
{
	uint32_t best = 0;
	if (rig->busy || !rig->n_waiting)
		return TAUT_OK;
	for (uint32_t i = 1; i < rig->n_waiting; i++)
		best = rig->waiting[i] > rig->waiting[best] ? i : best;
	uint32_t op = rig->waiting[best];
	rig->waiting[best] = rig->waiting[--rig->n_waiting];
	rig->busy = 1;
	return taut_dispatch_release(d, op, err);
}

static taut_status ready(void *context, struct taut_dispatch *d, uint32_t op,
	int64_t now_ns, struct taut_error *err)
{
	struct rig *rig = context;
	taut_status status = TAUT_OK;
	rig->told[rig->n_told] = op;
	rig->told_ns[rig->n_told++] = now_ns;
	switch (rig->how) {
	case LAST_FIRST:
		rig->waiting[rig->n_waiting++] = op;
		return release_last(rig, d, err);
	case POLL:
	case LATER:
		return taut_dispatch_call(d, now_ns + 100, op, err);
	case NEVER:
		return TAUT_OK;
	case FAIL:
		return taut_error_set(err, TAUT_EIO, -1, "it broke");
	default:
		status = taut_dispatch_release(d, op, err);
	}
	if (!status && rig->how == TWICE)
		status = taut_dispatch_release(d, op, err);
	return status;
}

static taut_status ended(void *context, struct taut_dispatch *d, uint32_t op,
	int64_t now_ns, struct taut_error *err)
{
	struct rig *rig = context;
	(void)op;
	(void)now_ns;
	rig->busy = 0;
	return rig->how == LAST_FIRST ? release_last(rig, d, err) : TAUT_OK;
}

static taut_status called(void *context, struct taut_dispatch *d,
	uint64_t what, int64_t now_ns, struct taut_error *err)
{
	struct rig *rig = context;
	if (rig->how == POLL)
		return taut_dispatch_call(d, now_ns + 1, what, err);
	return taut_dispatch_release(d, (uint32_t)what, err);
}

static struct rig begin(enum how how)
{
	return (struct rig){ .hand = by_hand_create(),
		.share = share_by_hand_create(), .how = how,
		.dispatcher = { NULL, NULL, ready, ended, called } };
}

/* On a lane of its own. */
static uint32_t lone(struct rig *rig, int64_t gap_ns, int64_t dur_ns,
	unsigned told)
{
	by_hand_lane(rig->hand, 0);
	uint32_t op = by_hand_op(rig->hand, TAUT_OP_HOST, "op", dur_ns, gap_ns);
	rig->ops[op] = (uint8_t)told;
	return op;
}

/* The same behind one that takes ready_ns. */
static uint32_t lone_at(struct rig *rig, int64_t ready_ns, int64_t dur_ns,
	unsigned told)
{
	by_hand_lane(rig->hand, 0);
	by_hand_op(rig->hand, TAUT_OP_HOST, "before", ready_ns, 0);
	uint32_t op = by_hand_op(rig->hand, TAUT_OP_HOST, "op", dur_ns, 0);
	rig->ops[op] = (uint8_t)told;
	return op;
}

/* A transfer of a flow on a link. */
static uint32_t move(struct rig *rig, int64_t ready_ns, double amount,
	uint32_t link, unsigned told)
{
	uint32_t op = lone_at(rig, ready_ns, 0, told);
	share_op(rig->share, op, share_flow(rig->share, amount, 0));
	share_use(rig->share, link, 1);
	return op;
}

static taut_status try_replay(struct rig *rig, int shared, int unordered)
{
	struct taut_replay_edit edit = { .dispatcher = &rig->dispatcher,
		.unordered = unordered };
	rig->dispatcher.ops = rig->ops;
	rig->dispatcher.context = rig;
	rig->n_told = rig->n_waiting = 0;
	rig->busy = 0;
	if (!rig->graph) {
		rig->graph = by_hand_graph(rig->hand);
		share_by_hand_sharing(rig->share, rig->graph);
		assert_int_equal(taut_timeline_init(
			&rig->timeline, rig->graph, &rig->err), TAUT_OK);
	}
	if (shared)
		edit.sharing = &rig->share->sharing;
	return taut_replay(rig->graph, &edit, &rig->timeline, &rig->err);
}

static void replay(struct rig *rig, int shared, int unordered)
{
	if (try_replay(rig, shared, unordered))
		fail_msg("%s", rig->err.message);
	assert_int_equal(rig->timeline.n_run, rig->graph->n_ops);
}

static void expect(const struct rig *rig, uint32_t op, int64_t start_ns,
	int64_t end_ns)
{
	assert_int_equal(rig->timeline.start_ns[op], start_ns);
	assert_int_equal(rig->timeline.end_ns[op], end_ns);
}

static void end(struct rig *rig)
{
	taut_timeline_fini(&rig->timeline);
	by_hand_destroy(rig->hand);
	share_by_hand_destroy(rig->share);
}

/* --- what is released at once changes nothing --------------------------------------------*/

static void test_released_at_once_is_as_if_not_held(void **state)
{
	(void)state;
	for (int held = 0; held < 2; held++) {
		struct rig rig = begin(AT_ONCE);
		unsigned told = held ? TAUT_HELD | TAUT_TELL_END : 0;
		uint32_t a = lone(&rig, 7, 10, 0);
		uint32_t b = lone(&rig, 0, 20, told);
		uint32_t c = lone(&rig, 5, 1, told);
		by_hand_edge(rig.hand, a, b, TAUT_EDGE_THREAD, 3);
		by_hand_edge(rig.hand, b, c, TAUT_EDGE_THREAD, 0);
		replay(&rig, 0, 0);
		expect(&rig, b, 20, 40);
		expect(&rig, c, 45, 46);
		assert_int_equal(rig.timeline.decided_by[b], a);
		assert_int_equal(rig.timeline.decided_by[c], b);
		assert_int_equal(rig.n_told, held ? 2 : 0);
		end(&rig);
	}
}

/* --- one at a time, by another order -----------------------------------------------------*/

/* Ready at 0, 10, 20, 20; the first runs at once, then those of highest id. */
static void test_the_mechanism_decides_the_order(void **state)
{
	(void)state;
	for (int unordered = 0; unordered < 2; unordered++) {
		struct rig rig = begin(LAST_FIRST);
		unsigned told = TAUT_HELD | TAUT_TELL_END;
		uint32_t a = lone_at(&rig, 0, 100, told);
		uint32_t b = lone_at(&rig, 10, 100, told);
		uint32_t c = lone_at(&rig, 20, 100, told);
		uint32_t d = lone_at(&rig, 20, 100, told);
		replay(&rig, 0, unordered);
		expect(&rig, a, 0, 100);
		expect(&rig, d, 100, 200);
		expect(&rig, c, 200, 300);
		expect(&rig, b, 300, 400);
		assert_int_equal(rig.timeline.decided_by[a], a - 1);
		assert_int_equal(rig.timeline.decided_by[d], a);
		assert_int_equal(rig.timeline.decided_by[c], d);
		assert_int_equal(rig.timeline.decided_by[b], c);
		assert_int_equal(rig.told_ns[1], 10);
		assert_int_equal(rig.told[2], c);
		assert_int_equal(rig.told_ns[3], 20);
		end(&rig);
	}
}

/* One link of rate 1: a alone until 100, though b was ready at 10. Without the
 * mechanism both halve it from 10 on: a is done at 190, b at 200. */
static void test_flows_wait_for_their_turn(void **state)
{
	(void)state;
	for (int held = 0; held < 2; held++) {
		struct rig rig = begin(LAST_FIRST);
		unsigned told = held ? TAUT_HELD | TAUT_TELL_END : 0;
		uint32_t link = share_resource(rig.share, 1);
		uint32_t a = move(&rig, 0, 100, link, told);
		uint32_t b = move(&rig, 10, 100, link, told);
		replay(&rig, 1, 0);
		expect(&rig, a, 0, held ? 100 : 190);
		expect(&rig, b, held ? 100 : 10, 200);
		end(&rig);
	}
}

/* c waits for b's end plus 5, and b starts when it is released. */
static void test_what_waits_for_a_held_op_waits_on(void **state)
{
	(void)state;
	struct rig rig = begin(LATER);
	uint32_t a = lone(&rig, 0, 10, 0);
	uint32_t b = lone(&rig, 0, 30, TAUT_HELD);
	uint32_t c = lone(&rig, 0, 1, 0);
	uint32_t d = lone(&rig, 0, 1, 0);
	by_hand_edge(rig.hand, a, b, TAUT_EDGE_THREAD, 0);
	by_hand_edge(rig.hand, b, c, TAUT_EDGE_THREAD, 5);
	by_hand_edge(rig.hand, b, d,
		TAUT_EDGE_THREAD | TAUT_EDGE_FROM_START, 2);
	replay(&rig, 0, 0);
	expect(&rig, b, 110, 140);
	expect(&rig, c, 145, 146);
	expect(&rig, d, 112, 113);
	assert_int_equal(rig.timeline.decided_by[b], a);
	end(&rig);
}

/* A positive gap comes behind the release, as behind any wait. */
static void test_a_gap_comes_behind_the_release(void **state)
{
	(void)state;
	struct rig rig = begin(LATER);
	uint32_t a = lone(&rig, 7, 30, TAUT_HELD);
	replay(&rig, 0, 0);
	expect(&rig, a, 107, 137);
	assert_int_equal(rig.told_ns[0], 0);
	rig.how = AT_ONCE;
	replay(&rig, 0, 1);
	expect(&rig, a, 7, 37);
	end(&rig);
}

/* A negative lag makes b ready at 60, when it is already 100. */
static void test_what_was_ready_before_the_clock_starts_at_it(void **state)
{
	(void)state;
	struct rig rig = begin(AT_ONCE);
	uint32_t link = share_resource(rig.share, 1);
	uint32_t a = move(&rig, 0, 100, link, 0);
	uint32_t b = lone(&rig, 0, 10, TAUT_HELD);
	by_hand_edge(rig.hand, a, b, TAUT_EDGE_THREAD, -40);
	replay(&rig, 1, 0);
	expect(&rig, a, 0, 100);
	expect(&rig, b, 100, 110);
	assert_int_equal(rig.told_ns[0], 100);
	end(&rig);
}

/* --- errors -----------------------------------------------------------------------------------*/

static void test_what_is_never_released_is_an_error(void **state)
{
	(void)state;
	struct rig rig = begin(NEVER);
	uint32_t a = lone(&rig, 0, 10, 0);
	uint32_t b = lone(&rig, 0, 30, TAUT_HELD);
	lone(&rig, 4, 30, TAUT_HELD);
	uint32_t d = lone(&rig, 0, 30, 0);
	by_hand_edge(rig.hand, a, b, TAUT_EDGE_THREAD, 0);
	by_hand_edge(rig.hand, b, d, TAUT_EDGE_THREAD, 0);
	assert_int_equal(try_replay(&rig, 0, 0), TAUT_EMATCH);
	assert_non_null(strstr(rig.err.message, "2 operations are held"));
	assert_non_null(strstr(rig.err.message, "op 1 (op) was ready at 10 ns"));
	assert_int_equal(rig.timeline.n_run, 1);
	expect(&rig, a, 0, 10);
	end(&rig);
}

static void test_one_that_only_calls_itself_comes_to_an_end(void **state)
{
	(void)state;
	struct rig rig = begin(POLL);
	lone(&rig, 0, 10, TAUT_HELD);
	assert_int_equal(try_replay(&rig, 0, 0), TAUT_EMATCH);
	assert_non_null(strstr(rig.err.message, "released nothing"));
	end(&rig);
}

static void test_its_failure_is_the_replays(void **state)
{
	(void)state;
	struct rig rig = begin(FAIL);
	lone(&rig, 0, 10, TAUT_HELD);
	assert_int_equal(try_replay(&rig, 0, 0), TAUT_EIO);
	assert_string_equal(rig.err.message, "it broke");
	rig.how = TWICE;
	assert_int_equal(try_replay(&rig, 0, 0), TAUT_EINVAL);
	rig.how = AT_ONCE;
	assert_int_equal(try_replay(&rig, 0, 0), TAUT_OK);
	end(&rig);
}

/* Two that wait for each other are a circle also beside what is held. */
static void test_a_circle_is_told_beside_a_mechanism(void **state)
{
	(void)state;
	struct rig rig = begin(AT_ONCE);
	lone(&rig, 0, 10, TAUT_HELD);
	uint32_t b = lone(&rig, 0, 1, TAUT_HELD);
	uint32_t c = lone(&rig, 0, 1, 0);
	by_hand_edge(rig.hand, b, c, TAUT_EDGE_THREAD, 0);
	by_hand_edge(rig.hand, c, b, TAUT_EDGE_THREAD, 0);
	assert_int_equal(try_replay(&rig, 0, 0), TAUT_EMATCH);
	assert_non_null(strstr(rig.err.message, "circle of waits, 2 long"));
	end(&rig);
}

static void test_without_memory_it_fails(void **state)
{
	(void)state;
	struct rig rig = begin(LATER);
	uint32_t link = share_resource(rig.share, 1);
	move(&rig, 0, 100, link, TAUT_HELD | TAUT_TELL_END);
	replay(&rig, 1, 0);
	for (int shared = 0; shared < 2; shared++) {
		taut_status status = TAUT_ENOMEM;
		for (long n = 0; status; n++) {
			assert_int_equal(status, TAUT_ENOMEM);
			assert_true(n < 1000);
			alloc_fail_after(n);
			status = try_replay(&rig, shared, 0);
			alloc_fail_never();
		}
	}
	end(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_released_at_once_is_as_if_not_held),
		cmocka_unit_test(test_the_mechanism_decides_the_order),
		cmocka_unit_test(test_flows_wait_for_their_turn),
		cmocka_unit_test(test_what_waits_for_a_held_op_waits_on),
		cmocka_unit_test(test_a_gap_comes_behind_the_release),
		cmocka_unit_test(test_what_was_ready_before_the_clock_starts_at_it),
		cmocka_unit_test(test_what_is_never_released_is_an_error),
		cmocka_unit_test(test_one_that_only_calls_itself_comes_to_an_end),
		cmocka_unit_test(test_its_failure_is_the_replays),
		cmocka_unit_test(test_a_circle_is_told_beside_a_mechanism),
		cmocka_unit_test(test_without_memory_it_fails),
	};
	return cmocka_run_group_tests_name(
		"operations that a mechanism starts", tests, NULL, NULL);
}
