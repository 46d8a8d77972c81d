/* plan_out.h - renderers of a plan that was searched for. Each writes to an open
 * stream; TAUT_EIO when it refuses. */
#ifndef TAUT_REPORT_PLAN_OUT_H
#define TAUT_REPORT_PLAN_OUT_H

#include <stdio.h>

#include <taut/plan.h>
#include <taut/report.h>

struct tauti_plan_view {
	const char *path;         /* of the recording */
	const char *const *given; /* changes that hold whatever is decided */
	size_t n_given;
	const struct taut_planned *planned;
};

taut_status tauti_plan_text(const struct tauti_plan_view *view,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr);
taut_status tauti_plan_json(const struct tauti_plan_view *view, FILE *out,
	struct taut_error *reterr);
/* The frontier: a step's time over the peak of memory and over the bytes on the
 * network, and the changes of each point. */
taut_status tauti_plan_html(const struct tauti_plan_view *view, FILE *out,
	struct taut_error *reterr);

#endif /* TAUT_REPORT_PLAN_OUT_H */
