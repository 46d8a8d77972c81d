/* diff.h - renderers of taut diff. Each writes to an open stream; TAUT_EIO when
 * it refuses. */
#ifndef TAUT_REPORT_DIFF_H
#define TAUT_REPORT_DIFF_H

#include "explain/diff.h"

taut_status tauti_diff_text(const struct tauti_diff *diff,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr);
taut_status tauti_diff_json(
	const struct tauti_diff *diff, FILE *out, struct taut_error *reterr);

#endif /* TAUT_REPORT_DIFF_H */
