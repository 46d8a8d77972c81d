/* The mechanism of a loader, step by step: what is far waits for what is far, by count and by
 * bytes, and for nothing else. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "load/core.h"

enum { ITEMS = 12 };

struct user {
	struct tauti_supply *supply;
	char told[200];
	size_t length;
	uint64_t bytes[ITEMS];
	uint32_t ticket[ITEMS]; /* the last one */
};

static void tell(struct user *user, const char *sign, uint64_t item, const char *end)
{
	user->length += (size_t)snprintf(user->told + user->length,
		sizeof user->told - user->length, "%s%s%u%s",
		user->length ? " " : "", sign, (unsigned)item, end);
}

static void expect(struct user *user, const char *what)
{
	assert_string_equal(user->told, what);
	user->told[0] = '\0';
	user->length = 0;
}

static uint64_t bytes(void *context, uint64_t item)
{
	return ((struct user *)context)->bytes[item];
}

static enum tauti_look look(void *context, uint32_t ticket, uint64_t item,
	uint64_t position, bool claim, bool *ret_keep)
{
	(void)ticket, (void)position, (void)ret_keep;
	tell(context, "?", item, claim ? "!" : "");
	return TAUTI_LOOK_MISSING;
}

static void fetch(void *context, uint32_t ticket, uint64_t item, bool keep)
{
	(void)keep;
	tell(context, "f", item, "");
	((struct user *)context)->ticket[item] = ticket;
}

static void prepare(void *context, uint32_t ticket, uint64_t item, uint64_t epoch,
	uint32_t slot, uint32_t place)
{
	(void)epoch, (void)slot, (void)place;
	tell(context, "p", item, "");
	((struct user *)context)->ticket[item] = ticket;
}

static void move(void *context, uint32_t slot, uint32_t from, uint32_t to)
{
	(void)context, (void)slot, (void)from, (void)to;
}

static void fault(void *context, const struct tauti_supply_fault *fault)
{
	tell(context, "X", fault->item, "");
}

static void ready(void *context, const struct tauti_supply_batch *batch)
{
	tell(context, "r", batch->number, "");
}

static bool far(void *context, uint64_t item)
{
	(void)context;
	return item & 1;
}

static const struct tauti_supply_engine engine = { .bytes = bytes, .look = look,
	.fetch = fetch, .prepare = prepare, .move = move, .fault = fault,
	.ready = ready, .far = far };

/* 12 items as they are, in batches of 2; two slots, a fetch, and two from afar of 25 bytes. */
static struct tauti_supply_options plain(void)
{
	return (struct tauti_supply_options){ .deal = { ITEMS, 0, false },
		.share = { ITEMS, 0, 1, 0, 2, TAUTI_TAIL_KEEP },
		.n_epochs = 1, .depth = 2, .n_fetches = 1, .n_far = 2, .far_bytes = 25,
		.n_workers = 2 };
}

static void begin(struct user *user, const struct tauti_supply_options *options)
{
	memset(user, 0, sizeof *user);
	for (int i = 0; i < ITEMS; i++)
		user->bytes[i] = 10;
	assert_int_equal(tauti_supply_create(
		options, &engine, user, &user->supply, NULL), TAUT_OK);
}

static void fetched(struct user *user, unsigned item, taut_status status)
{
	assert_int_equal(tauti_supply_fetched(
		user->supply, user->ticket[item], status, NULL), TAUT_OK);
}

static void limits(void **state)
{
	const struct tauti_supply_options options = plain();
	struct tauti_supply_counts counts;
	struct user user;

	(void)state;
	begin(&user, &options);
	user.bytes[3] = 20;
	tauti_supply_start(user.supply);
	expect(&user, "?0! f0 ?1! f1 ?2 ?3"); /* no room for 20 bytes more */
	tauti_supply_counts(user.supply, &counts);
	assert_int_equal(counts.n_fetching, 1);
	assert_int_equal(counts.n_far, 1);
	assert_int_equal(tauti_supply_under_way(user.supply), 2);
	fetched(&user, 1, TAUT_OK);
	expect(&user, "p1");
	assert_int_equal(tauti_supply_prepared(
		user.supply, user.ticket[1], TAUT_OK, NULL), TAUT_OK);
	expect(&user, "?3! f3");
	fetched(&user, 0, TAUT_OK);
	expect(&user, "p0 ?2! f2");
	fetched(&user, 3, TAUT_EIO);
	tauti_supply_counts(user.supply, &counts);
	assert_int_equal(counts.n_far, 0);
	assert_int_equal(counts.far, 2);
	assert_int_equal(counts.missing, 4);
	tauti_supply_destroy(user.supply);
}

/* Two at a time, the first two of the order. */
static void count(void **state)
{
	struct tauti_supply_options options = plain();
	struct user user;

	(void)state;
	options.far_bytes = 0;
	options.share.batch = 3;
	begin(&user, &options);
	tauti_supply_start(user.supply);
	expect(&user, "?0! f0 ?1! f1 ?2 ?3! f3 ?4 ?5");
	fetched(&user, 3, TAUT_OK);
	expect(&user, "p3 ?5! f5");
	tauti_supply_destroy(user.supply);
}

static void refused(void **state)
{
	struct tauti_supply_options options = plain();
	struct tauti_supply *supply = NULL;
	struct taut_error err;

	(void)state;
	options.n_far = 0;
	assert_int_equal(tauti_supply_create(
		&options, &engine, NULL, &supply, &err), TAUT_EINVAL);
	assert_string_equal(err.message,
		"loader: no fetch from afar, expected at least 1");
	assert_null(supply);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits),
		cmocka_unit_test(count),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
