/* steps.h - which of a report's steps a figure is made of. */
#ifndef TAUT_EXPLAIN_STEPS_H
#define TAUT_EXPLAIN_STEPS_H

#include <stdbool.h>

#include <taut/report.h>

/* Does report->steps[i] count in a mean? The first of a rank warms up, and does not
 * where the rank has more. */
bool tauti_step_counts(const struct taut_report *report, uint32_t i);

#endif /* TAUT_EXPLAIN_STEPS_H */
