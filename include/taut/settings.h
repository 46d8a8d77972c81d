/* taut/settings.h - how gradients can be exchanged, as points of a search
 * (taut/tune.h), and what the replay of a recording says of each.
 *
 *     partition   largest piece of a gradient          taut_sched_options
 *     credit      bytes that may be under way
 *     fusion      small gradients that go together
 *     way         the algorithm of the all-reduce      enum taut_coll_way
 *
 * A job takes them while it runs: taut_sync_tune(), taut_sync_carry(). A prediction
 * lays the same over a recording as changes (taut/whatif.h), and replays it:
 *
 *     bucket=FUSION algorithm=WAY schedule=priority,partition=..,credit=..,barrier=cross
 *
 * so the scheduler itself decides there, on the virtual clock, and laws count the
 * bytes and messages of the schedules that a communicator carries out. Two things
 * are not the same: fusion is predicted as buckets, which wait until they are full,
 * where the scheduler takes what is agreed together; and AUTO as the way that is
 * built in for messages of a piece.
 *
 * Owner:   settings own what they give; predictions are plain values.
 * Threads: read-only once made.
 * Units:   bytes, nanoseconds. */
#ifndef TAUT_SETTINGS_H
#define TAUT_SETTINGS_H

#include <taut/coll.h>
#include <taut/tune.h>
#include <taut/whatif.h>

TAUT_BEGIN_DECLS

struct taut_setting {
	uint64_t piece_bytes;  /* 0: whole */
	uint64_t credit_bytes; /* 0: no limit */
	uint64_t fuse_bytes;
	enum taut_coll_way way;
};

struct taut_settings_options { /* zero is every field's default */
	uint32_t n_ranks, n_hosts; /* 0: 1 */
	bool whole;   /* gradients stay whole and are summed as they come, as where
	                 nothing crosses the end of a step: fusion and way alone */
	bool ordered; /* sums in the order of the ranks: which way is no choice */
};

struct taut_settings;

TAUT_API TAUT_NODISCARD taut_status taut_settings_create(
	const struct taut_settings_options *options,
	struct taut_settings **ret_settings, struct taut_error *reterr);
/* Of the job that was recorded: its ranks, and as many hosts as they name. */
TAUT_API TAUT_NODISCARD taut_status taut_settings_of(
	const struct taut_graph *graph, struct taut_settings **ret_settings,
	struct taut_error *reterr);
TAUT_API void taut_settings_destroy(
	struct taut_settings *settings); /* NULL is fine */

/* For taut_tune_create(), whose points are then these. */
TAUT_API const struct taut_tune_dimension *taut_settings_dimensions(
	const struct taut_settings *settings, uint32_t *ret_n);
TAUT_API uint32_t taut_settings_points(const struct taut_settings *settings);
TAUT_API struct taut_setting taut_settings_at(
	const struct taut_settings *settings, uint32_t point);
/* The point of a setting, or one that is near to it: of each dimension the value
 * with the least factor between; a way that is no choice here is AUTO. */
TAUT_API uint32_t taut_settings_near(const struct taut_settings *settings,
	const struct taut_setting *setting);

/* The step at every point, in ns, with the n changes in front. Points that are laid
 * as the same changes (AUTO and the way that it is) are replayed once; *ret_replayed, which may be NULL, says how many were. TAUT_EINVAL:
 * this recording has no gradients that could be exchanged otherwise. */
TAUT_API TAUT_NODISCARD taut_status taut_settings_predict(
	const struct taut_settings *settings, const struct taut_graph *graph,
	const char *const *changes, size_t n,
	const struct taut_whatif_options *options, int64_t *ret_before_ns,
	double *ret_after_ns, uint32_t *ret_replayed,
	struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_SETTINGS_H */
