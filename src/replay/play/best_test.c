/* The choice of a way, pass and passes at once: against playing all, and against
 * closed forms. */
#include "tests/support/unit.h"

#include <string.h>

#include <taut/play.h>

#include "tests/support/alloc_fail.h"

enum { MOST = 16 };

struct world {
	uint32_t host_of[MOST];
	struct taut_play_host hosts[MOST];
	struct taut_play_net net;
};

static void world_init(struct world *w, uint32_t n, uint32_t hosts)
{
	memset(w, 0, sizeof *w);
	for (uint32_t r = 0; r < n; r++) {
		w->host_of[r] = r * hosts / n;
		w->hosts[r] = (struct taut_play_host){ 1, 1, 0 };
	}
	w->net = (struct taut_play_net){ .n_ranks = n, .n_hosts = hosts,
		.host_of = w->host_of, .hosts = w->hosts, .local = 8,
		.network_ns = 10000, .local_ns = 500 };
}

static struct taut_play_best best_of(const struct world *w,
	const struct taut_play_call *call,
	const struct taut_play_choices *choices)
{
	struct taut_play_best best;
	struct taut_error err;

	if (taut_play_best(&w->net, call, choices, &best, &err))
		fail_msg("%s", err.message);
	return best;
}

static int64_t time_of(const struct world *w, const struct taut_play_call *call)
{
	struct taut_play_result r;
	struct taut_error err;

	if (taut_play(&w->net, call, &r, &err))
		fail_msg("%s", err.message);
	return r.time_ns;
}

/* All candidates, each played to its end. */
static struct taut_play_best by_force(const struct world *w,
	struct taut_play_call call, const struct taut_play_choices *c)
{
	struct taut_play_best best = { .time_ns = INT64_MAX };
	uint32_t unit = 64 * (call.verb == TAUT_REDUCE_SCATTER ||
		call.verb == TAUT_ALLGATHER ? w->net.n_ranks : 1);
	uint64_t units = (call.count * call.element_bytes + unit - 1) / unit;

	for (int way = TAUT_WAY_DIRECT; way < TAUT_WAYS; way++)
		for (uint32_t k = 1; k <= c->most_passes; k *= 2)
			for (uint32_t a = 1; a <= k && a <= c->most_at_once;
				a *= 2) {
				int64_t ns;

				call.way = (enum taut_coll_way)way;
				call.pass_bytes = k > 1 ?
					(units + k - 1) / k * unit : 0;
				call.passes_at_once = a;
				if (!taut_coll_has(call.verb, call.way) ||
					(k > 1 && call.pass_bytes <
						c->least_pass_bytes))
					continue;
				ns = time_of(w, &call);
				best.n_candidates++;
				if (ns >= best.time_ns)
					continue;
				best.time_ns = ns;
				best.call = call;
			}
	return best;
}

static void check_as_by_force(const struct taut_play_choices *choices,
	uint32_t *n_candidates, uint32_t *n_played)
{

	for (uint32_t n = 2; n <= 5; n++)
		for (uint32_t hosts = 1; hosts <= n; hosts += 2)
			for (int i = 0; i < 12; i++) {
				struct world w;
				struct taut_play_call call = {
					.verb = (enum taut_coll_verb)(i % 4),
					.count = i / 4 * i * 9973 + 10,
					.element_bytes = 4 };
				struct taut_play_best is, must;

				world_init(&w, n, hosts);
				w.net.message_ns = i % 3 * 200;
				w.net.reduce_ns = i % 5 * 0.05;
				is = best_of(&w, &call, choices);
				must = by_force(&w, call, choices);
				assert_int_equal(is.time_ns, must.time_ns);
				assert_int_equal(is.call.way, must.call.way);
				assert_int_equal(is.call.pass_bytes,
					must.call.pass_bytes);
				assert_int_equal(is.call.passes_at_once,
					must.call.passes_at_once);
				assert_int_equal(
					is.n_candidates, must.n_candidates);
				*n_candidates += is.n_candidates;
				*n_played += is.n_played;
			}
}

static void test_as_by_force(void **state)
{
	/* the guesses are of candidates, however few there may be */
	static const struct taut_play_choices choices[] = { { .most_passes = 16,
		.most_at_once = 4, .least_pass_bytes = 512 },
		{ .most_passes = 16, .most_at_once = 1,
			.least_pass_bytes = 512 },
		{ .most_passes = 3, .most_at_once = 2,
			.least_pass_bytes = 512 } };

	(void)state;
	for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
		uint32_t n_candidates = 0, n_played = 0;

		check_as_by_force(&choices[i], &n_candidates, &n_played);
		assert_true(i || n_played * 4 < n_candidates);
	}
}

/* Nothing but latency: all tell all at once. Nothing but bytes: what moves least of
 * them, and no other can be better than 2 (n-1)/n S. A rank's own time for each
 * message: few messages. */
static void test_what_matters_decides(void **state)
{
	(void)state;
	struct world w;
	struct taut_play_call call = { .count = 8, .element_bytes = 4 };
	struct taut_play_best best;

	world_init(&w, 8, 8);
	best = best_of(&w, &call, NULL);
	assert_int_equal(best.call.way, TAUT_WAY_FLAT);
	assert_int_equal(best.time_ns, 10000 + 7 * 32);
	w.net.message_ns = 100000;
	best = best_of(&w, &call, NULL);
	assert_int_equal(best.call.way, TAUT_WAY_DOUBLING);
	/* each round: sent, on its way, received */
	assert_int_equal(best.time_ns, 3 * (100000 + 10000 + 32 + 100000));
	w.net.message_ns = w.net.network_ns = 0;
	call.count = 1 << 20;
	best = best_of(&w, &call, NULL);
	assert_int_equal(best.time_ns, 2 * 7 * (4 << 20) / 8);
}

/* Two ranks, and what is received is added up at half of the link's rate: in one pass
 * that is S/2 at a time, in many it is hidden but for the first. */
static void test_passes_hide_what_is_added_up(void **state)
{
	(void)state;
	struct world w;
	struct taut_play_call call = { .way = TAUT_WAY_RING, .count = 1 << 16 };
	struct taut_play_choices one = { .most_passes = 1 };
	struct taut_play_best best;
	int64_t S = 1 << 16;

	world_init(&w, 2, 2);
	w.net.network_ns = 0;
	w.net.reduce_ns = 0.5;
	best = best_of(&w, &call, &one);
	assert_int_equal(best.time_ns, S / 2 + S / 4 + S / 2);
	assert_int_equal(best.call.pass_bytes, 0);
	best = best_of(&w, &call, NULL);
	assert_int_equal(best.call.way, TAUT_WAY_RING);
	assert_true(best.call.passes_at_once > 1);
	assert_in_range(best.time_ns, S, S + 2 * 4096);
}

static void test_ways_may_be_forbidden(void **state)
{
	(void)state;
	struct world w;
	struct taut_play_call call = { .count = 100 };
	struct taut_play_choices c = { .ways = 1 << TAUT_WAY_TREE |
		1 << TAUT_WAY_RING };
	struct taut_play_best best;
	struct taut_error err;

	world_init(&w, 16, 16);
	assert_int_equal(best_of(&w, &call, &c).call.way, TAUT_WAY_TREE);
	call.way = TAUT_WAY_RING;
	assert_int_equal(best_of(&w, &call, &c).call.way, TAUT_WAY_RING);
	c.ways = 1 << TAUT_WAY_FLAT;
	assert_int_equal(taut_play_best(&w.net, &call, &c, &best, &err),
		TAUT_EINVAL);
	call.way = TAUT_WAYS;
	assert_int_equal(taut_play_best(&w.net, &call, &c, &best, &err),
		TAUT_EINVAL);
	call = (struct taut_play_call){ .verb = TAUT_ALLGATHER, .count = 1 };
	w.net.n_ranks = 0;
	assert_int_equal(taut_play_best(&w.net, &call, NULL, &best, &err),
		TAUT_EINVAL);
}

static void test_memory_runs_out(void **state)
{
	(void)state;
	struct world w;
	struct taut_play_call call = { .count = 9000 };
	struct taut_play_choices c = { .most_passes = 2, .ways =
		1 << TAUT_WAY_RING | 1 << TAUT_WAY_FLAT };
	struct taut_play_best best;
	struct taut_error err;
	taut_status status = TAUT_ENOMEM;

	world_init(&w, 3, 2);
	for (long n = 0; status == TAUT_ENOMEM; n++) {
		alloc_fail_after(n);
		status = taut_play_best(&w.net, &call, &c, &best, &err);
		alloc_fail_never();
	}
	assert_int_equal(status, TAUT_OK);
	assert_int_equal(best.time_ns, best_of(&w, &call, &c).time_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_by_force),
		cmocka_unit_test(test_what_matters_decides),
		cmocka_unit_test(test_passes_hide_what_is_added_up),
		cmocka_unit_test(test_ways_may_be_forbidden),
		cmocka_unit_test(test_memory_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
