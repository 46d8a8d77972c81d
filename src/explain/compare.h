/* compare.h - two reports of jobs that are alike: where the time of a step
 * went, and where it goes. For taut whatif, and for whoever compares runs.
 *
 * All times are of the critical path, a step: what is on it decides how long
 * the step takes. Names are compared as text: the reports may be of different
 * runs. */
#ifndef TAUT_EXPLAIN_COMPARE_H
#define TAUT_EXPLAIN_COMPARE_H

#include <taut/report.h>

struct tauti_compare_row {
	const char *name; /* of an operation; "" of a category */
	enum taut_category category;
	int64_t before_ns, after_ns;
};

struct tauti_compare {
	const struct taut_report *before, *after;
	int64_t before_ns, after_ns; /* sums over the categories */
	struct tauti_compare_row categories[TAUT_CATEGORIES]; /* by enum */
	uint32_t n_ops;
	const struct tauti_compare_row *ops; /* largest difference first */
};

/* Borrows from both reports; rows live in arena. TAUT_ENOMEM. */
taut_status tauti_compare(const struct taut_report *before,
	const struct taut_report *after, struct taut_arena *arena,
	struct tauti_compare *ret_compare, struct taut_error *reterr);

#endif /* TAUT_EXPLAIN_COMPARE_H */
