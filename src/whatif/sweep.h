/* sweep.h - one change with many values, each predicted alone.
 *
 *     link=0.5gbit,1gbit,2gbit    these values
 *     link=0.5gbit..4gbit:8       eight, evenly spaced
 *     link=0.5gbit..4gbit:x8      eight, each the same factor above the last
 *     link=2x,latency=10us..1ms:5 whatever stands before the last '='
 */
#ifndef TAUT_WHATIF_SWEEP_H
#define TAUT_WHATIF_SWEEP_H

#include <stdbool.h>

#include <taut/whatif.h>

enum { TAUTI_SWEEP_MOST = 1000 }; /* values */

struct tauti_sweep_point {
	const char *value;  /* "2gbit" */
	const char *change; /* "link=2gbit" */
	double x;           /* the value as a number, where all are numbers */
	/* of the prediction */
	int64_t before_ns, after_ns, low_ns, high_ns;
	double samples_factor;
	int64_t memory_after; /* -1: not known */
};

struct tauti_sweep {
	const char *name; /* what is varied: "link", "link,latency" */
	bool numeric;     /* x is of meaning, and rises or falls all the way */
	uint32_t n_points;
	struct tauti_sweep_point *points; /* in the order given */
};

/* Texts live in arena. TAUT_EINVAL: says what was expected. */
taut_status tauti_sweep_read(const char *text, struct taut_arena *arena,
	struct tauti_sweep *ret_sweep, struct taut_error *err);

/* Predicts each point, with the n changes in front of its own. */
taut_status tauti_sweep_run(struct tauti_sweep *sweep,
	const struct taut_graph *graph, const char *const *changes, size_t n,
	const struct taut_whatif_options *options, struct taut_error *err);

#endif /* TAUT_WHATIF_SWEEP_H */
