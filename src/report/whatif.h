/* whatif.h - renderers of taut whatif. Each writes to an open stream; TAUT_EIO
 * when it refuses. */
#ifndef TAUT_REPORT_WHATIF_H
#define TAUT_REPORT_WHATIF_H

#include <taut/report.h>
#include <taut/whatif.h>

#include "whatif/sweep.h"

/* A prediction with what it is made of; reports are of the recorded job and of
 * prediction->graph. */
struct tauti_whatif_view {
	const struct taut_prediction *prediction;
	const char *const *changes; /* as given */
	size_t n_changes;
	const struct taut_report *before, *after;
};

taut_status tauti_whatif_text(const struct tauti_whatif_view *view,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr);
taut_status tauti_whatif_json(const struct tauti_whatif_view *view, FILE *out,
	struct taut_error *reterr);

/* Changes: all in groups, or one with its parameters. */
taut_status tauti_changes_text(const struct taut_text_options *options,
	FILE *out, struct taut_error *reterr);
taut_status tauti_change_text(const struct taut_transformation_info *info,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr);
/* All of them, or one where info is not NULL. */
taut_status tauti_changes_json(const struct taut_transformation_info *info,
	FILE *out, struct taut_error *reterr);

/* A sweep; changes are those that all points share. */
struct tauti_sweep_view {
	const struct tauti_sweep *sweep;
	const char *const *changes;
	size_t n_changes;
	const struct taut_report *before;
};
taut_status tauti_sweep_text(const struct tauti_sweep_view *view,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr);
/* value, before_ms, after_ms, low_ms, high_ms, speedup: of samples a second */
taut_status tauti_sweep_csv(const struct tauti_sweep_view *view, FILE *out,
	struct taut_error *reterr);
taut_status tauti_sweep_json(const struct tauti_sweep_view *view, FILE *out,
	struct taut_error *reterr);
/* One page that needs no network: the curve and its interval. */
taut_status tauti_sweep_html(const struct tauti_sweep_view *view, FILE *out,
	struct taut_error *reterr);

#endif /* TAUT_REPORT_WHATIF_H */
