/* The mechanism of peers by hand: who is asked, who is not any more, what is nonsense. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "peers/core.h"
#include "tests/support/alloc_fail.h"

enum { ITEMS = 12, BYTES = 64, ASKS = 4 };

/* Rank 0 is on host 0, 1 and 2 on host 1: even items are of host 0, odd ones of host 1. */
struct user {
	struct tauti_split split;
	struct tauti_peers_core *core;
	enum tauti_serve_look found[ITEMS];
	char told[200];
	size_t length;
};

static void tell(struct user *user, const char *what, uint32_t number)
{
	user->length += (size_t)snprintf(user->told + user->length,
		sizeof user->told - user->length, "%s%s%u", user->length ? " " : "",
		what, number);
}

static void expect(struct user *user, const char *what)
{
	assert_string_equal(user->told, what);
	user->told[0] = '\0';
	user->length = 0;
}

static void end(void *context, uint32_t number, bool came)
{
	tell(context, came ? "came" : "not", number);
}

static enum tauti_serve_look look(void *context, uint64_t item, uint64_t bytes, bool claim,
	void **ret_at)
{
	struct user *user = context;

	assert_int_equal(bytes, BYTES);
	tell(user, claim ? "?!" : "?", (uint32_t)item);
	*ret_at = user;
	return user->found[item];
}

static void read_item(void *context, uint32_t serve, uint64_t item, void *at)
{
	(void)serve;
	assert_ptr_equal(at, context);
	tell(context, "read", (uint32_t)item);
}

static void answer(void *context, uint32_t serve, uint32_t peer, uint32_t number,
	const void *at, uint64_t bytes)
{
	struct user *user = context;

	(void)serve, (void)peer, (void)bytes;
	tell(user, at ? "give" : "none", number);
}

static const struct tauti_peers_calls calls = { end, look, read_item, answer };

static uint64_t bytes_of(void *context, uint64_t item)
{
	(void)context, (void)item;
	return BYTES;
}

static void set_up_core(struct user *user, uint32_t n_reads)
{
	static const uint64_t weights[2] = { 1, 1 };
	static const uint32_t host_of[3] = { 0, 1, 1 }, n_asks_of[3] = { ASKS, 2, 1 };
	const struct tauti_peers_core_options options = { .n_ranks = 3,
		.host_of = host_of, .n_asks_of = n_asks_of, .n_reads = n_reads,
		.answer_within_ns = 100, .split = &user->split };

	memset(user, 0, sizeof *user);
	assert_int_equal(tauti_split_init(
		&user->split, ITEMS, bytes_of, NULL, weights, 2, NULL), TAUT_OK);
	assert_int_equal(tauti_peers_core_create(
		&options, &calls, user, &user->core, NULL), TAUT_OK);
	assert_int_equal(tauti_peers_core_serves(user->core), 3);
}

static void tear_down_core(struct user *user)
{
	tauti_peers_core_destroy(user->core);
	tauti_split_fini(&user->split);
}

static bool ask(struct user *user, uint64_t item, int64_t now_ns, uint32_t *ret_peer,
	uint32_t *ret_number)
{
	return tauti_peers_core_ask(
		user->core, item, BYTES, now_ns, ret_peer, ret_number);
}

static void expect_where(struct user *user, uint64_t item, enum tauti_remote_where where)
{
	assert_int_equal(tauti_peers_core_where(user->core, item), where);
}

/* One that is too late is not asked before it has answered; the other of its host is. */
static void late(void **state)
{
	uint32_t peer, number, other, second;
	struct user user;

	(void)state;
	set_up_core(&user, 1);
	assert_false(ask(&user, 1, 0, &peer, &number)); /* nobody is here yet */
	tauti_peers_core_open(user.core);
	expect_where(&user, 2, TAUTI_REMOTE_HERE);
	expect_where(&user, 1, TAUTI_REMOTE_FAR);
	assert_true(ask(&user, 1, 0, &peer, &number));
	assert_true(tauti_peers_core_tick(user.core, 50) == 100);
	expect(&user, "");
	assert_true(tauti_peers_core_tick(user.core, 100) == INT64_MAX);
	expect(&user, "not0");
	assert_true(ask(&user, 1, 100, &other, &second));
	assert_int_equal(other, 3 - peer);
	assert_true(tauti_peers_core_tick(user.core, 200) == INT64_MAX);
	expect(&user, "not1");
	expect_where(&user, 1, TAUTI_REMOTE_ELSEWHERE);
	assert_false(ask(&user, 3, 200, &other, &second));
	/* It does answer, to nobody: what came is passed over. */
	assert_int_equal(tauti_peers_core_came(user.core, peer, number, 1, BYTES),
		TAUTI_PEERS_PASS);
	expect_where(&user, 1, TAUTI_REMOTE_FAR);
	tauti_peers_core_whole(user.core, number);
	expect(&user, "");
	assert_true(ask(&user, 1, 300, &other, &second));
	assert_int_equal(other, peer);
	/* Without all of that host its items are anybody's. */
	tauti_peers_core_lost(user.core, 1);
	expect_where(&user, 1, TAUTI_REMOTE_FAR);
	tauti_peers_core_lost(user.core, 2);
	expect_where(&user, 1, TAUTI_REMOTE_HERE);
	tear_down_core(&user);
}

static void nonsense(void **state)
{
	uint32_t peer, number;
	struct user user;

	(void)state;
	set_up_core(&user, 1);
	tauti_peers_core_open(user.core);
	assert_true(ask(&user, 1, 0, &peer, &number));
	assert_false(tauti_peers_core_refused(user.core, 3 - peer, number));
	assert_false(tauti_peers_core_refused(user.core, peer, number + 1));
	assert_false(tauti_peers_core_refused(user.core, peer, ASKS));
	assert_int_equal(tauti_peers_core_came(user.core, peer, number, 1, BYTES + 1),
		TAUTI_PEERS_WRONG);
	assert_int_equal(tauti_peers_core_came(user.core, peer, number, 3, BYTES),
		TAUTI_PEERS_WRONG);
	assert_true(tauti_peers_core_refused(user.core, peer, number));
	assert_false(tauti_peers_core_refused(user.core, peer, number));
	expect(&user, "not0");
	/* Another's item; none; more at a time than it said. */
	user.found[2] = TAUTI_SERVE_COMING;
	assert_false(tauti_peers_core_asked(user.core, 1, 0, 1, BYTES));
	assert_false(tauti_peers_core_asked(user.core, 1, 0, ITEMS, BYTES));
	assert_true(tauti_peers_core_asked(user.core, 2, 0, 2, BYTES));
	assert_false(tauti_peers_core_asked(user.core, 2, 1, 2, BYTES));
	tear_down_core(&user);
}

/* What is asked before a loader is there waits for it; after it went, it is not here. */
static void before_and_after(void **state)
{
	struct user user;

	(void)state;
	set_up_core(&user, 1);
	user.found[4] = TAUTI_SERVE_MISSING;
	user.found[6] = TAUTI_SERVE_MISSING;
	assert_true(tauti_peers_core_asked(user.core, 1, 5, 2, BYTES));
	assert_true(tauti_peers_core_asked(user.core, 1, 6, 4, BYTES));
	assert_true(tauti_peers_core_asked(user.core, 2, 7, 6, BYTES));
	assert_false(tauti_peers_core_again(user.core));
	assert_false(tauti_peers_core_parked(user.core));
	expect(&user, "");
	tauti_peers_core_open(user.core);
	expect(&user, "?!2 give5 ?!4 read4 ?6"); /* one read at a time */
	assert_int_equal(tauti_peers_core_reading(user.core), 1);
	tauti_peers_core_shut(user.core);
	expect(&user, "none7");
	tauti_peers_core_read(user.core, 1, false);
	expect(&user, "none6");
	assert_int_equal(tauti_peers_core_reading(user.core), 0);
	tear_down_core(&user);
}

/* What another brings meanwhile is there for all who asked. */
static void parked(void **state)
{
	struct tauti_peers_core_counts counts;
	struct user user;

	(void)state;
	set_up_core(&user, 1);
	tauti_peers_core_open(user.core);
	user.found[2] = TAUTI_SERVE_COMING;
	assert_true(tauti_peers_core_asked(user.core, 1, 1, 2, BYTES));
	assert_true(tauti_peers_core_asked(user.core, 2, 2, 2, BYTES));
	assert_true(tauti_peers_core_parked(user.core));
	assert_true(tauti_peers_core_again(user.core));
	expect(&user, "?!2 ?!2 ?!2 ?!2");
	user.found[2] = TAUTI_SERVE_HERE;
	tauti_peers_core_lost(user.core, 1);
	assert_false(tauti_peers_core_lives(user.core, 1));
	assert_false(tauti_peers_core_again(user.core));
	expect(&user, "?!2 give2");
	tauti_peers_core_counts(user.core, &counts);
	assert_int_equal(counts.served, 1);
	assert_int_equal(counts.served_bytes, BYTES);
	tear_down_core(&user);
}

static void no_memory(void **state)
{
	static const uint32_t host_of[2] = { 0, 1 }, n_asks_of[2] = { 4, 4 };
	struct tauti_peers_core_options options = { .n_ranks = 2, .host_of = host_of,
		.n_asks_of = n_asks_of, .n_reads = 1 };
	struct tauti_peers_core *core = NULL;
	taut_status status = TAUT_ENOMEM;
	long n = 0;

	(void)state;
	for (; status != TAUT_OK; n++) {
		alloc_fail_after(n);
		status = tauti_peers_core_create(&options, &calls, NULL, &core, NULL);
		alloc_fail_never();
		assert_true(status == TAUT_OK || (status == TAUT_ENOMEM && !core));
	}
	assert_int_equal(n - 1, 10);
	tauti_peers_core_destroy(core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late),
		cmocka_unit_test(nonsense),
		cmocka_unit_test(before_and_after),
		cmocka_unit_test(parked),
		cmocka_unit_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
