/* hand.h - one end of a parameter server and its worker, played by hand: the other end
 * is ours. Main thread only. */
#ifndef TAUT_TESTS_HAND_H
#define TAUT_TESTS_HAND_H

#include "tests/support/ranks.h"

#include <sys/eventfd.h>

#include "coll/meet.h"
#include "server/server.h"

static const int64_t hand_second_ns = 1000000000;
static const char hand_secret[] = "sesame";

struct hand_end {
	struct tauti_meet *meet;
	struct tauti_engine engine;
	uint32_t other, n_asked;
};

struct hand_wait {
	struct taut_coll_request request; /* first */
	bool over;
	taut_status status;
};

static inline void hand_on_done(struct taut_coll_request *request, taut_status status)
{
	struct hand_wait *wait = (struct hand_wait *)request;

	wait->over = true;
	wait->status = status;
}

/* The rest of the hand-shake, and an engine. */
static inline void hand_greet(
	struct hand_end *end, const struct tauti_greeting *as, uint32_t rank)
{
	struct tauti_pair pair;
	struct tauti_greeting own = *as;
	uint8_t mine[TAUTI_GREETING_BYTES], all[2 * TAUTI_GREETING_BYTES];
	struct taut_error err = { .message = "" };

	end->other = 1 - rank;
	assert_int_equal(tauti_pair_open(TAUTI_WANT_AUTO, &pair, &err), TAUT_OK);
	own.engine = tauti_pair_says(&pair, end->meet);
	tauti_greeting_write(&own, mine);
	if (tauti_meet_gather(end->meet, mine, sizeof mine, all, &err) ||
		tauti_pair_meet(&pair, own.engine, tauti_greeting_engine(
			all + (size_t)end->other * TAUTI_GREETING_BYTES), end->meet,
			rank, "the other", &end->engine, &err))
		fail_msg("%s", err.message);
	tauti_pair_close(&pair);
}

/* A server, which takes one worker in. */
static inline void hand_let_in(struct hand_end *end, struct tauti_door *door,
	struct tauti_link *link, const struct tauti_greeting *as)
{
	int stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	uint32_t rank;

	assert_int_equal(tauti_door_take(door, stop, link, &rank), TAUT_OK);
	end->meet = tauti_door_meet(link, stop, 10 * hand_second_ns,
		10 * hand_second_ns);
	assert_non_null(end->meet);
	hand_greet(end, as, 0);
	close(stop);
}

/* A worker. */
static inline void hand_come_in(struct hand_end *end, const char *where,
	uint32_t worker, const struct tauti_greeting *as)
{
	struct tauti_meet_options options = { .rank = worker + 1,
		.n_ranks = as->n_workers + 1, .address = where,
		.secret = hand_secret, .within_ns = 10 * hand_second_ns };

	assert_int_equal(tauti_meet_create(&options, &end->meet, NULL), TAUT_OK);
	tauti_meet_make_pair(end->meet);
	hand_greet(end, as, 1);
}

static inline void hand_part_with(struct hand_end *end)
{
	end->engine.table->destroy(end->engine.context);
	tauti_meet_destroy(end->meet);
}

static inline void hand_recv(struct hand_end *end, uint64_t tag, void *into,
	size_t bytes, struct hand_wait *wait)
{
	*wait = (struct hand_wait){ .request = { hand_on_done } };
	assert_int_equal(end->engine.table->recv(end->engine.context, end->other, tag,
		into, bytes, &wait->request, NULL), TAUT_OK);
}

static inline void hand_send(struct hand_end *end, uint64_t tag, const void *data,
	size_t bytes, struct hand_wait *wait)
{
	*wait = (struct hand_wait){ .request = { hand_on_done } };
	assert_int_equal(end->engine.table->send(end->engine.context, &end->other, 1, tag,
		data, bytes, &wait->request, NULL), TAUT_OK);
}

/* Whether it ends well within that time. */
static inline bool hand_ends(
	struct hand_end *end, const struct hand_wait *wait, int64_t within_ns)
{
	int64_t until_ns = ranks_now_ns() + within_ns;

	while (!wait->over && ranks_now_ns() < until_ns) {
		assert_int_equal(end->engine.table->progress(
			end->engine.context, NULL), TAUT_OK);
		usleep(1000);
	}
	return wait->over && !wait->status;
}

/* --- what a worker says ---------------------------------------------------------------*/

static inline void hand_ask(
	struct hand_end *end, uint32_t verb, uint32_t part, uint32_t round)
{
	const struct tauti_asked asked = { verb, part, round };
	uint8_t words[TAUTI_ASK_BYTES];
	struct hand_wait wait;

	tauti_asked_write(&asked, words);
	hand_send(end, tauti_tag_of(TAUTI_TAG_ASK, 0, end->n_asked++), words,
		sizeof words, &wait);
	assert_true(hand_ends(end, &wait, hand_second_ns));
}

/* One part, of so many float32. */
static inline void hand_declare(struct hand_end *end, uint64_t count)
{
	const struct tauti_part_said said = { 0, TAUT_FLOAT32, count, 1 };
	uint8_t table[TAUTI_SAID_BYTES];
	struct hand_wait wait;

	tauti_said_write(&said, table);
	hand_ask(end, TAUTI_ASK_DECLARE, 1, 0);
	hand_send(end, tauti_tag_of(TAUTI_TAG_TABLE, 0, 0), table, sizeof table, &wait);
	assert_true(hand_ends(end, &wait, hand_second_ns));
}

#endif /* TAUT_TESTS_HAND_H */
