/* by_hand.h - one rank's scheduler whose engine is the test: what it is asked for
 * is written down, as text, for the test to compare, and the test answers.
 *
 *     struct hand hand;
 *     hand_create(&hand, &(struct taut_sched_options){ .piece_bytes = 64 });
 *     uint32_t a = hand_task(&hand, 100, 0, TAUT_NONE);
 *     hand_ready(&hand, a);
 *     hand_expect(&hand, "+0:0-64 +0:64-100 ");
 *     hand_finished(&hand, 0);
 *     hand_finished(&hand, 1);
 *     hand_expect(&hand, "=0.1 ");
 *     hand_destroy(&hand);
 *
 *     +0:0-64         start of bytes 0..63 of task 0; joined ones after a comma
 *     ?3              enters round 3
 *     =0.1  =0.1(-2)  iteration 1 of task 0 is done, or failed with -2 */
#ifndef TAUT_SCHED_BY_HAND_H
#define TAUT_SCHED_BY_HAND_H

#include "tests/support/unit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <taut/sched.h>

enum { HAND_WORDS = 256 };

struct hand {
	struct taut_sched *sched;
	char text[8192];
	size_t length;
	uint64_t words[HAND_WORDS]; /* of the round it entered last */
	size_t n_words;
	/* What the engine answers; called from inside, when not NULL. */
	taut_status start_fails, agree_fails;
	void (*in_start)(struct hand *hand, const struct taut_sched_piece *pieces,
		size_t n);
	void (*in_done)(struct hand *hand, uint32_t task);
	bool inside; /* a callback is running */
};

#define HAND_PRINT(hand, ...) \
	((hand)->length += (size_t)snprintf((hand)->text + (hand)->length, \
		sizeof(hand)->text - (hand)->length, __VA_ARGS__))

static inline taut_status hand_start(void *context,
	const struct taut_sched_piece *pieces, size_t n, struct taut_error *err)
{
	struct hand *hand = context;

	(void)err;
	assert_false(hand->inside);
	hand->inside = true;
	for (size_t i = 0; i < n; i++)
		HAND_PRINT(hand, "%c%" PRIu32 ":%" PRIu64 "-%" PRIu64,
			i ? ',' : '+', pieces[i].task, pieces[i].first_byte,
			pieces[i].first_byte + pieces[i].bytes);
	HAND_PRINT(hand, " ");
	if (hand->in_start)
		hand->in_start(hand, pieces, n);
	hand->inside = false;
	return hand->start_fails;
}

static inline taut_status hand_agree(void *context, uint64_t round,
	const uint64_t *words, size_t n, struct taut_error *err)
{
	struct hand *hand = context;

	(void)err;
	assert_false(hand->inside);
	assert_true(n <= HAND_WORDS);
	memcpy(hand->words, words, n * sizeof *words);
	hand->n_words = n;
	HAND_PRINT(hand, "?%" PRIu64 " ", round);
	return hand->agree_fails;
}

static inline void hand_done(void *context, uint32_t task, uint32_t iteration,
	taut_status status)
{
	struct hand *hand = context;

	assert_false(hand->inside);
	hand->inside = true;
	HAND_PRINT(hand, "=%" PRIu32 ".%" PRIu32, task, iteration);
	if (status)
		HAND_PRINT(hand, "(%d)", (int)status);
	HAND_PRINT(hand, " ");
	if (hand->in_done)
		hand->in_done(hand, task);
	hand->inside = false;
}

static const struct taut_sched_engine hand_engine = {
	hand_start, hand_agree, hand_done };

static inline void hand_create(
	struct hand *hand, const struct taut_sched_options *options)
{
	memset(hand, 0, sizeof *hand);
	assert_int_equal(taut_sched_create(options, &hand_engine, hand,
		&hand->sched, NULL), TAUT_OK);
}

static inline void hand_destroy(struct hand *hand)
{
	taut_sched_destroy(hand->sched);
}

static inline uint32_t hand_task(struct hand *hand, uint64_t bytes,
	int64_t priority, uint32_t after)
{
	uint32_t task;

	assert_int_equal(taut_sched_declare(hand->sched, bytes, priority, after,
		&task, NULL), TAUT_OK);
	return task;
}

static inline void hand_ready(struct hand *hand, uint32_t task)
{
	assert_int_equal(taut_sched_ready(hand->sched, task, NULL), TAUT_OK);
}

static inline void hand_finished(struct hand *hand, uint64_t number)
{
	assert_int_equal(
		taut_sched_finished(hand->sched, number, NULL), TAUT_OK);
}

/* What was asked for since it was looked at last. */
#define hand_expect(hand, expected) \
	do { \
		assert_string_equal((hand)->text, expected); \
		(hand)->length = 0; \
		(hand)->text[0] = '\0'; \
	} while (0)

/* Two ranks whose words of a round have come: the and of them to both. */
static inline void hand_answer(struct hand *a, struct hand *b, uint64_t round)
{
	uint64_t words[HAND_WORDS];
	size_t n = a->n_words;

	assert_int_equal(n, b->n_words);
	for (size_t i = 0; i < n; i++)
		words[i] = a->words[i] & b->words[i];
	assert_int_equal(taut_sched_agreed(a->sched, round, words, n, NULL),
		taut_sched_agreed(b->sched, round, words, n, NULL));
}

#endif /* TAUT_SCHED_BY_HAND_H */
