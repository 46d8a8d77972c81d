/* steps.c - see steps.h. */
#include "explain/steps.h"

bool tauti_step_counts(const struct taut_report *report, uint32_t i)
{
	const struct taut_report_step *s = &report->steps[i];
	bool first = !i || s->rank != s[-1].rank;

	return !first || i + 1 == report->n_steps || s[1].rank != s->rank;
}

uint32_t tauti_steps_of_a_rank(const struct taut_report *report)
{
	uint32_t most = 1, n = 0;

	for (uint32_t i = 0; i < report->n_steps; i++) {
		n = i && report->steps[i].rank == report->steps[i - 1].rank ? n + 1 : 1;
		most = n > most ? n : most;
	}
	return most;
}
