/* steps.h - which of a report's steps a figure is made of. */
#ifndef TAUT_EXPLAIN_STEPS_H
#define TAUT_EXPLAIN_STEPS_H

#include <stdbool.h>

#include <taut/report.h>

/* Does report->steps[i] count in a mean? The first of a rank warms up, and does not
 * where the rank has more. */
bool tauti_step_counts(const struct taut_report *report, uint32_t i);

/* What sums of the job, as over its path, are divided by for a step: the most steps that a
 * rank has, at least 1. Ranks with fewer lack marks, or were recorded for less long; the
 * path is as long as the longest. */
uint32_t tauti_steps_of_a_rank(const struct taut_report *report);

#endif /* TAUT_EXPLAIN_STEPS_H */
