/* play.h - a model's host and jobs on the virtual clock of taut/feed.h.
 *
 * A long epoch is not played: two short ones are, of n and 2 n items with caches as much
 * smaller, and what the second takes longer is what each n items more take. So the fill of
 * the pipe, and what an epoch begins with, count once, as in the long one. What is left is the
 * noise of n drawn items (8,192 or more): some parts of a thousand.
 *
 * Owner:   nothing is kept.
 * Errors:  as taut_feed_play(); TAUT_EINVAL also for more than 292 years. */
#ifndef TAUT_STALLS_PLAY_H
#define TAUT_STALLS_PLAY_H

#include <taut/stalls.h>

/* One host: n_jobs that are alike, each with n_ranks ranks on it (of job.n_ranks). */
struct tauti_scene {
	struct taut_feed_host host;
	struct taut_feed_job job; /* set, rank and epochs are filled in when played */
	uint32_t n_ranks, n_jobs;
};

/* An epoch of that number (0: the first) of all jobs: times of the slowest rank, the mean of
 * the jobs; bytes of all together. */
struct tauti_played {
	double took_ns, waited_ns, fetch_ns; /* waited: of all ranks the mean */
	double read_bytes;
};

TAUT_NODISCARD taut_status tauti_play_epochs(const struct tauti_scene *scene,
	const struct taut_feed_set *set, uint32_t later, struct tauti_played *ret_first,
	struct tauti_played *ret_later, struct taut_error *reterr);

/* Of all items. */
double tauti_set_bytes(const struct taut_feed_set *set);

/* One step of a rank in the middle of a long epoch; with kept > 0, that share of the items is
 * in a cache. */
TAUT_NODISCARD taut_status tauti_play_step(const struct tauti_scene *scene,
	const struct taut_feed_set *set, double kept, struct tauti_played *ret_step,
	struct taut_error *reterr);

#endif /* TAUT_STALLS_PLAY_H */
