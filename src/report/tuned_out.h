/* tuned_out.h - renderers of what taut tune found: each run of the job, and which
 * decisions stay. Each writes to an open stream; TAUT_EIO when it refuses. */
#ifndef TAUT_REPORT_TUNED_OUT_H
#define TAUT_REPORT_TUNED_OUT_H

#include <stdio.h>

#include <taut/plan.h>
#include <taut/report.h>

enum { TAUTI_TUNED_MOST = 16 }; /* decisions that are left out, one a run */

struct tauti_tuned_run {
	const char *what;
	const char *const *changes;
	uint32_t n_changes;
	int64_t predicted_ns; /* 0: not known */
	int64_t measured_ns, error_ns; /* mean step; its standard error */
	int64_t median_ns;
};

struct tauti_tuned_view {
	const struct taut_plan *kept;
	const char *path; /* where it was written */
	const struct tauti_tuned_run *runs;
	uint32_t n_runs;
	int64_t before_ns, after_ns; /* measured */
};

taut_status tauti_tuned_text(const struct tauti_tuned_view *view,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr);
taut_status tauti_tuned_json(const struct tauti_tuned_view *view, FILE *out,
	struct taut_error *reterr);

#endif /* TAUT_REPORT_TUNED_OUT_H */
