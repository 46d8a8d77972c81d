/* taut/stragglers.h - how much shorter the steps of a job would be if its
 * workers were alike, and which of them, stages, replicas or operations make
 * the difference.
 *
 * The ideal is the recorded job, replayed with edited durations:
 *   nodelay  every operation begins the moment what it waits for is over;
 *   ideal    moreover every computation takes the mean, and every transfer
 *            the median, of its type over all ranks and steps.
 * launch slowdown = measured / nodelay; slowdown = nodelay / ideal. A row of a
 * table is the ideal with only the row's operations as long as they were,
 * over the ideal: 1 where they are no longer than usual. (Lin et al.,
 * OSDI '25.)
 *
 * A type is a name; where the recording is of a framework, and not a table of
 * operations, it is a name and how many of that name were before it in its
 * step on its lane, for one name stands for many sizes there. Names that do
 * not come as often in every step are made alike in their sum over a step.
 *
 * A step lasts from the end of the one before on the last rank to its own.
 *
 * Owner:   owns its tables; borrows names from the graph.
 * Threads: read-only once made.
 * Units:   nanoseconds. */
#ifndef TAUT_STRAGGLERS_H
#define TAUT_STRAGGLERS_H

#include <taut/replay.h>

TAUT_BEGIN_DECLS

struct taut_straggler_step {
	int64_t id;
	int64_t measured_ns, nodelay_ns, ideal_ns;
};

struct taut_straggler_row {
	const char *name; /* of a type; "" elsewhere */
	int32_t number;   /* of a stage, replica or rank; -1 elsewhere */
	double slowdown;
	const int64_t *step_ns; /* by step */
};

enum taut_straggler_by {
	TAUT_BY_STAGE,   /* of the pipeline */
	TAUT_BY_REPLICA, /* data parallel rank */
	TAUT_BY_RANK,
	TAUT_BY_TYPE,
	TAUT_STRAGGLER_BY
};

struct taut_straggler_table {
	uint32_t n; /* 0: the recording does not tell */
	const struct taut_straggler_row *rows; /* the slowest first */
	uint32_t n_left_out; /* of too many, those that tell least */
	/* The same for delays, where the launch slowdown is 1.03 or more:
	 * nodelay with only the row's delays, over nodelay. n rows or NULL. */
	const struct taut_straggler_row *delays;
};

struct taut_stragglers {
	uint32_t n_ranks, n_stages, n_replicas; /* 0: not told */
	uint32_t n_steps;
	const struct taut_straggler_step *steps; /* by time */
	double slowdown, launch_slowdown;
	struct taut_straggler_table by[TAUT_STRAGGLER_BY];

	/* What stands out most: its operations as in the ideal, all others as
	 * they were, would take repair_pct of the slowdown away: two fifths
	 * or more, else there is no cause and this is the most of any place. */
	enum taut_straggler_by cause; /* TAUT_STRAGGLER_BY: nothing alone */
	int32_t cause_number;
	double repair_pct;
	const char *sentence; /* the same in words */

	uint32_t n_notes;     /* what is lost or does not fit, as of a report */
	const char *const *notes;
};

struct taut_straggler_options { /* zero is every field's default */
	unsigned threads;
};

/* TAUT_ENOMEM; TAUT_EINVAL: the graph has no steps; what taut_replay() says. */
TAUT_API TAUT_NODISCARD taut_status taut_stragglers_find(
	const struct taut_graph *graph,
	const struct taut_straggler_options *options,
	struct taut_stragglers **ret_stragglers, struct taut_error *reterr);
TAUT_API void taut_stragglers_destroy(
	struct taut_stragglers *stragglers); /* NULL is fine */

TAUT_END_DECLS
#endif /* TAUT_STRAGGLERS_H */
