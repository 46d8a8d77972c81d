/* tune_out.h - renderers of a search over the settings of a recorded job. Each
 * writes to an open stream; TAUT_EIO when it refuses. */
#ifndef TAUT_REPORT_TUNE_OUT_H
#define TAUT_REPORT_TUNE_OUT_H

#include <stdio.h>

#include <taut/report.h>
#include <taut/settings.h>

struct tauti_tune_view {
	const char *path;           /* of the recording */
	const char *const *changes; /* in front of each setting */
	size_t n_changes;
	const struct taut_settings *settings;
	int64_t before_ns;
	const double *after_ns;     /* by point */
	uint32_t n_replayed;
	const uint32_t *order;      /* points, the least time first */
};

/* The best of them in a table. */
taut_status tauti_tune_text(const struct tauti_tune_view *view,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr);
/* All of them. */
taut_status tauti_tune_json(const struct tauti_tune_view *view, FILE *out,
	struct taut_error *reterr);

#endif /* TAUT_REPORT_TUNE_OUT_H */
