/* steps.c - see steps.h. */
#include "explain/steps.h"

bool tauti_step_counts(const struct taut_report *report, uint32_t i)
{
	const struct taut_report_step *s = &report->steps[i];
	bool first = !i || s->rank != s[-1].rank;

	return !first || i + 1 == report->n_steps || s[1].rank != s->rank;
}
