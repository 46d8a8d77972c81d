/* issue.h - what a host takes to issue a step: from where the thread of the steps
 * has its last batch to where its optimizer begins, or where that was not timed, to the
 * end of the step; in a job that takes none, from where it has zeroed gradients. A host
 * that is ahead of its device waits for it elsewhere, and so this is the host's time
 * where the step is not. */
#ifndef TAUT_WHATIF_ISSUE_H
#define TAUT_WHATIF_ISSUE_H

#include "whatif/whatif.h"

struct tauti_issue_span {
	uint32_t trace;
	uint32_t begin_op; /* of the main thread, the first behind that */
	uint32_t end_op;   /* the step's, or the last before its optimizer */
};

/* Of ranks that know their issue without recording; each rank's first step is
 * left out where it has more. */
struct tauti_issue {
	TAUT_VEC(struct tauti_issue_span) spans; /* by trace */
};

/* Steps without it have none. TAUT_ENOMEM. */
taut_status tauti_issue_find(const struct taut_graph *graph,
	struct tauti_issue *ret_issue, struct taut_error *err);
void tauti_issue_free(struct tauti_issue *issue);

/* How long a rank takes is its median. The mean of that over the ranks, with its
 * standard error, from the starts and ends of a replay; and what it is without
 * recording. 0: there are no spans. TAUT_ENOMEM. */
taut_status tauti_issue_measure(const struct tauti_issue *issue,
	const int64_t *start_ns, const int64_t *end_ns, int64_t *ret_ns,
	double *ret_error_ns, struct taut_error *err);
int64_t tauti_issue_unrecorded(
	const struct tauti_issue *issue, const struct taut_graph *graph);

/* What host threads of the ranks lose within the spans when the durations fall
 * from from_ns to to_ns: the mean over the spans. */
double tauti_issue_owed(const struct tauti_issue *issue,
	const struct taut_graph *graph, const int64_t *from_ns,
	const int64_t *to_ns);

#endif /* TAUT_WHATIF_ISSUE_H */
