/* The mechanism by hand: what it asks for, step by step, as a line of text.
 *
 *   ?3  looks at item 3, ?3! claims it     f3   fetches it, F3 for the cache
 *   p3  prepares item 3                    m4>1 place 4 moves to place 1
 *   x3  item 3 is left out, X3 the end     r0:2 batch 0 is ready, of 2 items */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "load/core.h"
#include "tests/support/alloc_fail.h"

enum { ITEMS = 64 };

struct user {
	struct tauti_supply *supply;
	char told[1024];
	size_t length;
	enum tauti_look found[ITEMS]; /* what a look finds */
	uint64_t bytes[ITEMS];
	uint32_t ticket[ITEMS]; /* the last one */
	uint64_t position[ITEMS];
	bool keeps, at_once;    /* at_once: all is done in its callback */
	struct tauti_supply_batch batch; /* that was told last */
	struct tauti_supply_fault fault;
};

static void tell(struct user *user, const char *sign, unsigned item,
	const char *end)
{
	int n = snprintf(user->told + user->length,
		sizeof user->told - user->length, "%s%s%u%s",
		user->length ? " " : "", sign, item, end);

	assert_true(n > 0 && user->length + (size_t)n < sizeof user->told);
	user->length += (size_t)n;
}

static uint64_t bytes(void *context, uint64_t item)
{
	return ((struct user *)context)->bytes[item];
}

static enum tauti_look look(void *context, uint32_t ticket, uint64_t item,
	uint64_t position, bool claim, bool *ret_keep)
{
	struct user *user = context;

	(void)ticket;
	user->position[item] = position;
	tell(user, "?", (unsigned)item, claim ? "!" : "");
	*ret_keep = user->keeps;
	return user->found[item];
}

static void fetch(void *context, uint32_t ticket, uint64_t item, bool keep)
{
	struct user *user = context;

	tell(user, keep ? "F" : "f", (unsigned)item, "");
	user->ticket[item] = ticket;
	if (keep)
		user->found[item] = TAUTI_LOOK_COMING;
	if (user->at_once)
		assert_int_equal(tauti_supply_fetched(
			user->supply, ticket, TAUT_OK, NULL), TAUT_OK);
}

static void prepare(void *context, uint32_t ticket, uint64_t item,
	uint64_t epoch, uint32_t slot, uint32_t place)
{
	struct user *user = context;

	(void)epoch;
	(void)slot;
	(void)place;
	tell(user, "p", (unsigned)item, "");
	user->ticket[item] = ticket;
	if (user->at_once)
		assert_int_equal(tauti_supply_prepared(
			user->supply, ticket, TAUT_OK, NULL), TAUT_OK);
}

static void move(void *context, uint32_t slot, uint32_t from, uint32_t to)
{
	char end[16];

	(void)slot;
	snprintf(end, sizeof end, ">%u", to);
	tell(context, "m", from, end);
}

static void fault(void *context, const struct tauti_supply_fault *fault)
{
	struct user *user = context;

	user->fault = *fault;
	tell(user, fault->fatal ? "X" : "x", (unsigned)fault->item, "");
}

static void ready(void *context, const struct tauti_supply_batch *batch)
{
	struct user *user = context;
	char end[16];
	uint32_t slot;

	snprintf(end, sizeof end, ":%u", batch->count);
	tell(user, "r", (unsigned)batch->number, end);
	user->batch = *batch;
	if (user->at_once) {
		assert_int_equal(tauti_supply_took(
			user->supply, &slot, NULL), TAUT_OK);
		assert_int_equal(tauti_supply_release(
			user->supply, slot, NULL), TAUT_OK);
	}
}

static const struct tauti_supply_engine engine = {
	bytes, look, fetch, prepare, move, fault, ready, NULL };

/* 12 items as they are, in batches of 2, one epoch; two slots, three fetches, and two
 * workers. */
static struct tauti_supply_options plain(void)
{
	return (struct tauti_supply_options){
		.deal = { 12, 0, false },
		.share = { 12, 0, 1, 0, 2, TAUTI_TAIL_KEEP },
		.n_epochs = 1,
		.depth = 2, .n_fetches = 3, .n_workers = 2 };
}

static void begin(struct user *user, struct tauti_supply_options options)
{
	memset(user, 0, sizeof *user);
	for (int i = 0; i < ITEMS; i++) {
		user->found[i] = TAUTI_LOOK_MISSING;
		user->bytes[i] = 10;
	}
	assert_int_equal(tauti_supply_create(
		&options, &engine, user, &user->supply, NULL), TAUT_OK);
}

static void expect(struct user *user, const char *what)
{
	assert_string_equal(user->told, what);
	user->told[0] = 0;
	user->length = 0;
}

static void fetched(struct user *user, unsigned item, taut_status status)
{
	assert_int_equal(tauti_supply_fetched(user->supply, user->ticket[item],
		status, NULL), TAUT_OK);
}

static void prepared(struct user *user, unsigned item, taut_status status)
{
	assert_int_equal(tauti_supply_prepared(user->supply, user->ticket[item],
		status, NULL), TAUT_OK);
}

static void take_and_release(struct user *user)
{
	uint32_t slot;

	assert_int_equal(tauti_supply_took(user->supply, &slot, NULL), TAUT_OK);
	assert_int_equal(tauti_supply_release(user->supply, slot, NULL), TAUT_OK);
}

/* --- the rules ---------------------------------------------------------------------*/

static void test_order(void **state)
{
	struct user user;

	(void)state;
	begin(&user, plain());
	expect(&user, "");
	tauti_supply_start(user.supply);
	/* Workers are idle, so the fourth is looked at as well, and not claimed. */
	expect(&user, "?0! f0 ?1! f1 ?2! f2 ?3");
	fetched(&user, 2, TAUT_OK);
	expect(&user, "p2 ?3! f3");
	fetched(&user, 3, TAUT_OK);
	fetched(&user, 1, TAUT_OK);
	expect(&user, "p3");
	fetched(&user, 0, TAUT_OK);
	expect(&user, ""); /* both workers are busy */
	prepared(&user, 3, TAUT_OK);
	expect(&user, "p0"); /* before 1, which came earlier */
	prepared(&user, 2, TAUT_OK);
	expect(&user, "p1");
	prepared(&user, 1, TAUT_OK);
	expect(&user, ""); /* batch 1 waits for batch 0 */
	prepared(&user, 0, TAUT_OK);
	expect(&user, "r0:2 r1:2");
	take_and_release(&user);
	expect(&user, "?4! f4 ?5! f5");
	take_and_release(&user);
	expect(&user, "?6! f6 ?7");
	tauti_supply_destroy(user.supply);
}

static void test_at_once(void **state)
{
	struct user user;

	(void)state;
	begin(&user, plain());
	user.at_once = true;
	tauti_supply_start(user.supply);
	expect(&user, "?0! f0 p0 ?1! f1 p1 r0:2 ?2! f2 p2 ?3! f3 p3 r1:2 "
		"?4! f4 p4 ?5! f5 p5 r2:2 ?6! f6 p6 ?7! f7 p7 r3:2 "
		"?8! f8 p8 ?9! f9 p9 r4:2 ?10! f10 p10 ?11! f11 p11 r5:2");
	assert_true(user.batch.last);
	assert_true(tauti_supply_over(user.supply));
	tauti_supply_destroy(user.supply);
}

/* What is here needs no fetch; what is coming holds up its own batch alone. */
static void test_here_and_coming(void **state)
{
	struct user user;

	(void)state;
	begin(&user, plain());
	user.found[0] = TAUTI_LOOK_COMING;
	user.found[1] = user.found[2] = user.found[3] = TAUTI_LOOK_HERE;
	tauti_supply_start(user.supply);
	expect(&user, "?0! ?1! p1 ?2! p2 ?3!");
	prepared(&user, 1, TAUT_OK);
	prepared(&user, 2, TAUT_OK);
	prepared(&user, 3, TAUT_OK);
	expect(&user, "p3");
	tauti_supply_again(user.supply, 5); /* nobody waits for it */
	expect(&user, "");
	tauti_supply_again(user.supply, 0);
	expect(&user, "?0!");
	/* Who was to bring it is gone. */
	user.found[0] = TAUTI_LOOK_MISSING;
	user.keeps = true;
	tauti_supply_again(user.supply, 0);
	expect(&user, "?0! F0");
	fetched(&user, 0, TAUT_OK);
	prepared(&user, 0, TAUT_OK);
	expect(&user, "p0 r0:2 r1:2");
	tauti_supply_destroy(user.supply);
}

/* A look that is not a claim finds what others brought by the time of its turn. */
static void test_later_look(void **state)
{
	struct tauti_supply_options options = plain();
	struct user user;

	(void)state;
	options.n_fetches = 1;
	begin(&user, options);
	tauti_supply_start(user.supply);
	expect(&user, "?0! f0 ?1 ?2 ?3");
	user.found[1] = TAUTI_LOOK_HERE;
	user.found[2] = TAUTI_LOOK_COMING;
	fetched(&user, 0, TAUT_OK);
	expect(&user, "p0 ?1! p1 ?2! ?3! f3");
	tauti_supply_destroy(user.supply);
}

/* What was at hand may be gone: it is looked for again, and nobody is blamed. */
static void test_gone(void **state)
{
	struct user user;
	struct tauti_supply_counts counts;

	(void)state;
	begin(&user, plain());
	user.found[0] = user.found[1] = TAUTI_LOOK_HERE;
	tauti_supply_start(user.supply);
	expect(&user, "?0! p0 ?1! p1 ?2! f2 ?3! f3");
	user.found[0] = TAUTI_LOOK_COMING;
	prepared(&user, 0, TAUT_EAGAIN);
	expect(&user, "?0!");
	user.found[0] = TAUTI_LOOK_MISSING;
	prepared(&user, 1, TAUT_EAGAIN);
	expect(&user, "?1! p1");
	tauti_supply_again(user.supply, 0);
	expect(&user, "?0! f0");
	prepared(&user, 1, TAUT_OK);
	fetched(&user, 0, TAUT_OK);
	expect(&user, "p0");
	tauti_supply_counts(user.supply, &counts);
	assert_int_equal(counts.skipped, 0);
	assert_int_equal(counts.prepared, 1);
	/* It was fetched, so its bytes are given back; and it is fetched once more. */
	prepared(&user, 0, TAUT_EAGAIN);
	expect(&user, "?0! f0");
	fetched(&user, 0, TAUT_OK);
	prepared(&user, 0, TAUT_OK);
	expect(&user, "p0 r0:2");
	assert_int_equal(tauti_supply_prepared(user.supply, user.ticket[0], TAUT_EAGAIN,
		NULL), TAUT_EINVAL);
	tauti_supply_destroy(user.supply);
}

static void test_same_item_twice(void **state)
{
	struct tauti_supply_options options = plain();
	struct user user;

	(void)state;
	options.deal.n_items = options.share.n_items = 1;
	options.share.batch = 1;
	options.n_epochs = 2;
	begin(&user, options);
	tauti_supply_start(user.supply);
	expect(&user, "?0! f0 ?0! f0"); /* no cache: each by itself */
	tauti_supply_destroy(user.supply);

	options.n_fetches = 1;
	begin(&user, options);
	tauti_supply_start(user.supply);
	expect(&user, "?0! f0 ?0");
	tauti_supply_destroy(user.supply);
}

/* One item, in two epochs, which the cache keeps: here, or never. */
static void begin_two_epochs(struct user *user)
{
	struct tauti_supply_options options = plain();

	options.deal.n_items = options.share.n_items = 1;
	options.share.batch = 1;
	options.n_epochs = 2;
	options.max_skipped = 1;
	begin(user, options);
	user->keeps = true;
	tauti_supply_start(user->supply);
	expect(user, "?0! F0 ?0!");
}

static void test_own_fetch_wakes(void **state)
{
	struct tauti_supply_counts counts;
	struct user user;

	(void)state;
	begin_two_epochs(&user);
	tauti_supply_counts(user.supply, &counts);
	assert_int_equal(counts.n_awaited, 1);
	user.found[0] = TAUTI_LOOK_HERE;
	fetched(&user, 0, TAUT_OK);
	expect(&user, "p0 ?0! p0");
	prepared(&user, 0, TAUT_OK); /* of the second epoch */
	assert_int_equal(tauti_supply_prepared(
		user.supply, 0, TAUT_OK, NULL), TAUT_OK);
	expect(&user, "r0:1 r1:1");
	tauti_supply_counts(user.supply, &counts);
	assert_int_equal(counts.here, 1);
	assert_int_equal(counts.missing, 1);
	assert_int_equal(counts.n_awaited, 0);
	tauti_supply_destroy(user.supply);

	/* It fails: the other place has its own try. */
	begin_two_epochs(&user);
	user.found[0] = TAUTI_LOOK_MISSING;
	fetched(&user, 0, TAUT_EIO);
	expect(&user, "x0 r0:0 ?0! F0");
	tauti_supply_destroy(user.supply);
}

static void test_bytes(void **state)
{
	struct tauti_supply_options options = plain();
	struct tauti_supply_counts counts;
	struct user user;

	(void)state;
	options.depth = 3;
	options.fetch_bytes = 25;
	begin(&user, options);
	user.bytes[2] = 1000;
	user.bytes[3] = 1;
	tauti_supply_start(user.supply);
	/* The large one waits until it is alone, and is not overtaken. */
	expect(&user, "?0! f0 ?1! f1 ?2 ?3 ?4 ?5");
	fetched(&user, 0, TAUT_OK);
	fetched(&user, 1, TAUT_OK);
	prepared(&user, 0, TAUT_OK);
	expect(&user, "p0 p1");
	prepared(&user, 1, TAUT_OK);
	expect(&user, "r0:2 ?2! f2");
	fetched(&user, 2, TAUT_EIO);
	expect(&user, "?3! f3 ?4! f4 ?5! f5");
	tauti_supply_counts(user.supply, &counts);
	assert_int_equal(counts.most_fetch_bytes, 1000);
	assert_int_equal(counts.fetched_bytes, 1041);
	tauti_supply_destroy(user.supply);
}

static void test_tune(void **state)
{
	struct tauti_supply_options options = plain();
	struct user user;

	(void)state;
	options.n_fetches = options.n_workers = 1;
	begin(&user, options);
	tauti_supply_start(user.supply);
	expect(&user, "?0! f0 ?1 ?2 ?3");
	assert_int_equal(tauti_supply_tune(user.supply, 3, 0, 2, NULL), TAUT_OK);
	expect(&user, "?1! f1 ?2! f2");
	assert_int_equal(tauti_supply_tune(user.supply, 1, 0, 1, NULL), TAUT_OK);
	fetched(&user, 2, TAUT_OK);
	fetched(&user, 1, TAUT_OK);
	expect(&user, "p2");
	assert_int_equal(
		tauti_supply_tune(user.supply, 1, 0, 0, NULL), TAUT_EINVAL);
	tauti_supply_destroy(user.supply);
}

/* --- faults ------------------------------------------------------------------------*/

static struct tauti_supply_options one_batch(uint64_t max_skipped)
{
	struct tauti_supply_options options = plain();

	options.share.batch = options.n_fetches = options.n_workers = 12;
	options.max_skipped = max_skipped;
	return options;
}

/* Item 1 cannot be read, 4 and 11 not be prepared; from the last to the first. */
static void fail_three(struct user *user)
{
	for (unsigned i = 12; i-- > 0;)
		fetched(user, i, i == 1 ? TAUT_EIO : TAUT_OK);
	user->told[0] = 0;
	user->length = 0;
	for (unsigned i = 12; i-- > 0;)
		if (i != 1)
			prepared(user, i, i == 4 || i == 11 ?
				TAUT_EFORMAT : TAUT_OK);
}

static void test_left_out(void **state)
{
	struct tauti_supply_counts counts;
	struct user user;

	(void)state;
	begin(&user, one_batch(3));
	tauti_supply_start(user.supply);
	fail_three(&user);
	expect(&user, "x1 x4 x11 m10>1 m9>4 r0:9");
	assert_int_equal(user.fault.status, TAUT_EFORMAT);
	assert_int_equal(user.fault.place, 11);
	tauti_supply_counts(user.supply, &counts);
	assert_int_equal(counts.skipped, 3);
	assert_int_equal(counts.prepared, 9);
	take_and_release(&user);
	tauti_supply_destroy(user.supply);
}

static void test_all_left_out(void **state)
{
	struct user user;

	(void)state;
	begin(&user, one_batch(UINT64_MAX));
	tauti_supply_start(user.supply);
	user.told[0] = 0;
	user.length = 0;
	for (unsigned i = 0; i < 12; i++)
		fetched(&user, i, TAUT_EIO);
	expect(&user, "x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11 r0:0");
	tauti_supply_destroy(user.supply);
}

static void test_fatal(void **state)
{
	struct user user;

	(void)state;
	begin(&user, one_batch(1));
	tauti_supply_start(user.supply);
	fail_three(&user);
	expect(&user, "x1 X4");
	assert_true(user.fault.fatal);
	assert_true(tauti_supply_over(user.supply));
	assert_int_equal(tauti_supply_took(user.supply, NULL, NULL), TAUT_EINVAL);
	tauti_supply_start(user.supply);
	expect(&user, ""); /* it is over, but for a seek */
	tauti_supply_stop(user.supply);
	assert_int_equal(
		tauti_supply_seek(user.supply, 0, 10, 1, NULL), TAUT_OK);
	tauti_supply_start(user.supply);
	expect(&user, "?10! f10 ?11! f11");
	tauti_supply_destroy(user.supply);
}

/* The fault of an earlier batch is the one, though it comes later. */
static void test_first_fault(void **state)
{
	struct tauti_supply_options options = plain();
	struct user user;

	(void)state;
	options.n_fetches = 4;
	begin(&user, options);
	tauti_supply_start(user.supply);
	fetched(&user, 3, TAUT_EIO);
	fetched(&user, 2, TAUT_OK);
	fetched(&user, 0, TAUT_OK);
	prepared(&user, 2, TAUT_OK);
	prepared(&user, 0, TAUT_OK);
	expect(&user, "?0! f0 ?1! f1 ?2! f2 ?3! f3 p2 p0");
	fetched(&user, 1, TAUT_EFORMAT);
	expect(&user, "X1");
	assert_int_equal(user.fault.status, TAUT_EFORMAT);
	assert_int_equal(user.fault.number, 0);
	tauti_supply_destroy(user.supply);
}

/* --- where it stands ---------------------------------------------------------------*/

static void expect_state(struct user *user, uint64_t epoch, uint64_t position)
{
	uint64_t is_epoch, is_position;

	tauti_supply_state(user->supply, &is_epoch, &is_position);
	assert_int_equal(is_epoch, epoch);
	assert_int_equal(is_position, position);
}

/* Three epochs of two batches, from the second batch of the first on. */
static void test_epochs(void **state)
{
	struct tauti_supply_options options = plain();
	struct user user;

	(void)state;
	options.deal.n_items = options.share.n_items = 3;
	options.share.first_position = 2;
	options.first_epoch = 7;
	options.n_epochs = 3;
	options.n_fetches = 8;
	options.depth = 3;
	begin(&user, options);
	tauti_supply_start(user.supply);
	/* All three slots, over the end of the epoch. */
	expect(&user, "?2! f2 ?0! f0 ?1! f1 ?2! f2");
	expect_state(&user, 7, 2);
	assert_int_equal(user.ticket[2], 4); /* (2 mod depth) * batch */
	assert_int_equal(tauti_supply_fetched(
		user.supply, 0, TAUT_OK, NULL), TAUT_OK);
	assert_int_equal(tauti_supply_prepared(
		user.supply, 0, TAUT_OK, NULL), TAUT_OK);
	expect(&user, "p2 r0:1");
	assert_int_equal(user.batch.epoch, 7);
	assert_int_equal(user.batch.in_epoch, 0);
	assert_true(user.batch.last);
	assert_int_equal(user.batch.next_position, 8 * 3);
	assert_int_equal(user.position[2], 8 * 3 + 2);
	expect_state(&user, 7, 2); /* ready is not taken */
	take_and_release(&user);
	expect_state(&user, 8, 0);
	expect(&user, "?0! f0 ?1! f1");
	tauti_supply_destroy(user.supply);
}

/* Positions of epochs that are further than 64 bits are the last one. */
static void test_far(void **state)
{
	struct tauti_supply_options options = plain();
	struct user user;

	(void)state;
	options.first_epoch = UINT64_MAX / 12;
	options.n_epochs = 2;
	options.depth = 8;
	begin(&user, options);
	user.at_once = true;
	tauti_supply_start(user.supply);
	assert_int_equal(user.batch.next_position, UINT64_MAX);
	assert_int_equal(user.position[3], UINT64_MAX);
	tauti_supply_destroy(user.supply);

	options.n_epochs = 1;
	begin(&user, options);
	user.at_once = true;
	tauti_supply_start(user.supply);
	assert_int_equal(user.position[2], UINT64_MAX / 12 * 12 + 2);
	tauti_supply_destroy(user.supply);
}

/* Ranks without an item at the end of an epoch have their batch. */
static void test_empty_batch(void **state)
{
	struct tauti_supply_options options = plain();
	struct user user;

	(void)state;
	options.deal.n_items = options.share.n_items = 4;
	options.share.n_ranks = 3;
	options.share.rank = 2;
	options.share.batch = 1;
	options.depth = 3;
	begin(&user, options);
	tauti_supply_start(user.supply);
	expect(&user, "?2! f2");
	fetched(&user, 2, TAUT_OK);
	prepared(&user, 2, TAUT_OK);
	expect(&user, "p2 r0:1 r1:0");
	assert_true(user.batch.last);
	tauti_supply_destroy(user.supply);
}

static void test_stop_and_seek(void **state)
{
	struct taut_error err;
	struct user user;
	uint32_t slot;

	(void)state;
	begin(&user, plain());
	tauti_supply_start(user.supply);
	fetched(&user, 0, TAUT_OK);
	fetched(&user, 1, TAUT_OK);
	prepared(&user, 0, TAUT_OK);
	prepared(&user, 1, TAUT_OK);
	assert_int_equal(tauti_supply_took(user.supply, &slot, NULL), TAUT_OK);
	assert_int_equal(
		tauti_supply_seek(user.supply, 1, 4, 1, &err), TAUT_EAGAIN);
	assert_string_equal(err.message, "loader: it goes elsewhere once it is "
		"stopped and nothing is under way");
	tauti_supply_stop(user.supply);
	assert_int_equal(tauti_supply_under_way(user.supply), 2);
	assert_int_equal(
		tauti_supply_seek(user.supply, 1, 4, 1, NULL), TAUT_EAGAIN);
	expect(&user, "?0! f0 ?1! f1 ?2! f2 ?3 p0 ?3! f3 p1 r0:2");
	fetched(&user, 2, TAUT_OK);
	fetched(&user, 3, TAUT_OK);
	expect(&user, "");
	assert_int_equal(
		tauti_supply_seek(user.supply, 1, 13, 1, &err), TAUT_EINVAL);
	assert_string_equal(
		err.message, "loader: position 13 of an epoch of 12 items");
	assert_int_equal(
		tauti_supply_seek(user.supply, 1, 8, 2, NULL), TAUT_OK);
	expect_state(&user, 1, 8);
	tauti_supply_start(user.supply);
	/* One slot is with the user still. */
	expect(&user, "?8! f8 ?9! f9");
	assert_int_equal(tauti_supply_release(user.supply, slot, NULL), TAUT_OK);
	expect(&user, "?10! f10 ?11");
	tauti_supply_destroy(user.supply);
}

/* One epoch of three items that somebody listed, then the deal again. */
static void test_follow(void **state)
{
	static const uint64_t list[] = { 5, 2, 9 };
	struct taut_error err;
	struct user user;

	(void)state;
	begin(&user, plain());
	assert_int_equal(
		tauti_supply_follow(user.supply, 7, list, 0, &err), TAUT_EINVAL);
	assert_string_equal(
		err.message, "loader: a list of 0 items, expected 1 to 2^62");
	assert_int_equal(
		tauti_supply_follow(user.supply, 7, list, 3, NULL), TAUT_OK);
	tauti_supply_start(user.supply);
	assert_int_equal(
		tauti_supply_follow(user.supply, 7, list, 3, NULL), TAUT_EAGAIN);
	expect(&user, "?5! f5 ?2! f2 ?9! f9");
	for (int i = 0; i < 3; i++) {
		fetched(&user, (unsigned)list[i], TAUT_OK);
		prepared(&user, (unsigned)list[i], TAUT_OK);
	}
	expect(&user, "p5 p2 r0:2 p9 r1:1");
	expect_state(&user, 7, 0);
	assert_true(tauti_supply_over(user.supply));
	take_and_release(&user);
	take_and_release(&user);
	expect(&user, "");
	tauti_supply_stop(user.supply);
	assert_int_equal(tauti_supply_seek(user.supply, 1, 8, 1, NULL), TAUT_OK);
	tauti_supply_start(user.supply);
	expect(&user, "?8! f8 ?9! f9 ?10! f10 ?11");
	tauti_supply_destroy(user.supply);
}

/* A stop forgets nothing. */
static void test_stop_and_start(void **state)
{
	struct user user;

	(void)state;
	begin(&user, plain());
	tauti_supply_start(user.supply);
	expect(&user, "?0! f0 ?1! f1 ?2! f2 ?3");
	tauti_supply_stop(user.supply);
	fetched(&user, 1, TAUT_OK);
	fetched(&user, 0, TAUT_EIO);
	tauti_supply_again(user.supply, 3);
	expect(&user, "");
	tauti_supply_start(user.supply);
	expect(&user, "p1 ?3! f3");
	prepared(&user, 1, TAUT_OK);
	expect(&user, "X0");
	tauti_supply_destroy(user.supply);
}

static void count_visit(void *context, uint64_t item)
{
	*(uint64_t *)context += 100 + item;
}

static void test_awaited(void **state)
{
	struct user user;
	uint64_t sum = 0;

	(void)state;
	begin(&user, plain());
	user.found[1] = user.found[3] = TAUTI_LOOK_COMING;
	tauti_supply_start(user.supply);
	tauti_supply_awaited(user.supply, count_visit, &sum);
	assert_int_equal(sum, 204);
	tauti_supply_destroy(user.supply);
}

/* --- what is refused ---------------------------------------------------------------*/

static void test_calls_refused(void **state)
{
	struct taut_error err;
	struct user user;
	uint32_t slot;

	(void)state;
	begin(&user, plain());
	tauti_supply_start(user.supply);
	expect(&user, "?0! f0 ?1! f1 ?2! f2 ?3");
	assert_int_equal(tauti_supply_fetched(user.supply, 3, TAUT_OK, &err),
		TAUT_EINVAL);
	assert_string_equal(err.message,
		"loader: ticket 3 is done, but was not under way");
	assert_int_equal(tauti_supply_fetched(user.supply, 4, TAUT_OK, NULL),
		TAUT_EINVAL);
	assert_int_equal(tauti_supply_prepared(user.supply, 0, TAUT_OK, NULL),
		TAUT_EINVAL);
	assert_int_equal(tauti_supply_took(user.supply, NULL, &err), TAUT_EINVAL);
	assert_string_equal(
		err.message, "loader: no batch is ready to be taken");
	for (unsigned i = 0; i < 2; i++)
		fetched(&user, i, TAUT_OK);
	for (unsigned i = 0; i < 2; i++)
		prepared(&user, i, TAUT_OK);
	slot = user.batch.slot;
	assert_int_equal(
		tauti_supply_release(user.supply, slot, &err), TAUT_EINVAL);
	assert_int_equal(tauti_supply_took(user.supply, NULL, NULL), TAUT_OK);
	assert_int_equal(tauti_supply_release(user.supply, slot, NULL), TAUT_OK);
	assert_int_equal(
		tauti_supply_release(user.supply, slot, NULL), TAUT_EINVAL);
	assert_int_equal(tauti_supply_release(user.supply, 2, &err), TAUT_EINVAL);
	assert_string_equal(err.message,
		"loader: slot 2 is given back, but was not with the user");
	tauti_supply_destroy(user.supply);
}

static void expect_refused(struct tauti_supply_options options, const char *why)
{
	struct tauti_supply *supply = NULL;
	struct taut_error err;

	assert_int_equal(tauti_supply_create(&options, &engine, NULL, &supply,
		&err), TAUT_EINVAL);
	assert_string_equal(err.message, why);
	assert_null(supply);
}

static void test_options_refused(void **state)
{
	struct tauti_supply_options options = plain();
	struct tauti_supply_engine lame = engine;
	struct tauti_supply *supply = NULL;

	(void)state;
	options.depth = 0;
	expect_refused(options, "loader: depth 0, 3 fetches, 2 workers, expected "
		"at least 1 of each");
	options = plain();
	options.deal.n_items = 13;
	expect_refused(options, "loader: a share of 12 items, but 13 are dealt");
	options = plain();
	options.share.rank = 1;
	expect_refused(options, "order: rank 1 of 1, expected one below that");
	options = plain();
	options.share.batch = 13;
	options.share.tail = TAUTI_TAIL_DROP;
	expect_refused(options,
		"loader: 12 items are no batch of 13 on each of 1 ranks");
	options.deal.n_items = options.share.n_items = 0;
	options.share.tail = TAUTI_TAIL_PAD;
	expect_refused(options,
		"loader: 0 items are no batch of 13 on each of 1 ranks");
	options = plain();
	options.depth = 1u << 31;
	expect_refused(options, "loader: 2147483648 slots of 2 items, expected "
		"fewer than 2^32 - 1 together");
	lame.move = NULL;
	options = plain();
	assert_int_equal(tauti_supply_create(
		&options, &lame, NULL, &supply, NULL), TAUT_EINVAL);
	tauti_supply_destroy(NULL);
}

static void test_memory(void **state)
{
	struct tauti_supply_options options = plain();
	struct tauti_supply *supply = NULL;
	struct taut_error err;
	taut_status status = TAUT_ENOMEM;
	struct user user;
	long n;

	(void)state;
	for (n = 0; status; n++) {
		alloc_fail_after(n);
		status = tauti_supply_create(
			&options, &engine, &user, &supply, &err);
		alloc_fail_never();
		assert_true(!status || (status == TAUT_ENOMEM && !supply));
	}
	assert_string_equal(err.message,
		"loader: out of memory for 2 slots of 2 items");
	assert_int_equal(n - 1, 11); /* requests */
	tauti_supply_destroy(supply);
	/* None is made later. */
	begin(&user, options);
	user.at_once = true;
	alloc_fail_after(0);
	tauti_supply_start(user.supply);
	alloc_fail_never();
	assert_int_equal(user.batch.number, 5);
	tauti_supply_destroy(user.supply);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_here_and_coming),
		cmocka_unit_test(test_later_look),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_same_item_twice),
		cmocka_unit_test(test_own_fetch_wakes),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_tune),
		cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_all_left_out),
		cmocka_unit_test(test_fatal),
		cmocka_unit_test(test_first_fault),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_far),
		cmocka_unit_test(test_empty_batch),
		cmocka_unit_test(test_stop_and_seek),
		cmocka_unit_test(test_follow),
		cmocka_unit_test(test_stop_and_start),
		cmocka_unit_test(test_awaited),
		cmocka_unit_test(test_calls_refused),
		cmocka_unit_test(test_options_refused),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
