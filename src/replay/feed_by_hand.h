/* feed_by_hand.h - for tests of loaders on a virtual clock: a small job, and what is asked of
 * its epochs. */
#ifndef TAUT_REPLAY_FEED_BY_HAND_H
#define TAUT_REPLAY_FEED_BY_HAND_H

#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include <taut/feed.h>

enum { MS = 1000000, MOST_EPOCHS = 16 };

static struct taut_feed_epoch epochs[MOST_EPOCHS];

static inline size_t sum_of_epochs(const struct taut_feed_job *jobs, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += jobs[i].epochs;
	return sum;
}

static inline void play(const struct taut_feed_host *host, const struct taut_feed_job *jobs,
	size_t n)
{
	struct taut_error err = { .offset = -1 };

	assert_true(sum_of_epochs(jobs, n) <= MOST_EPOCHS);
	if (taut_feed_play(host, jobs, n, epochs, sum_of_epochs(jobs, n), &err))
		fail_msg("%s", err.message);
}

static inline int64_t took(const struct taut_feed_epoch *epoch)
{
	return epoch->end_ns - epoch->begin_ns;
}

static inline void within(int64_t is, double least, double most)
{
	if ((double)is < least || (double)is > most)
		fail_msg("%lld, expected %.1f to %.1f", (long long)is, least, most);
}

/* 1000 items of 6400 bytes; 1 ms each at the rate below. */
static const struct taut_feed_set thousand = { .n_items = 1000, .mean_bytes = 6400 };
#define MS_AN_ITEM 6400000u

/* Batches of 10, three epochs. */
static inline struct taut_feed_job plain(void)
{
	return (struct taut_feed_job){ .set = &thousand, .batch = 10, .shuffle = true,
		.seed = 7, .n_workers = 1, .epochs = 3 };
}

static inline struct taut_feed_job feed_sharing(void)
{
	struct taut_feed_job job = plain();

	job.share_items = 100;
	job.n_workers = 2;
	job.prepare_ns = MS;
	job.copy_ns = MS / 100;
	return job;
}

#endif /* TAUT_REPLAY_FEED_BY_HAND_H */
