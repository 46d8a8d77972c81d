/* faults.c - see faults.h. */
#include "whatif/faults.h"

#include <stdlib.h>
#include <string.h>

/* More of the work than this are figures of another job. */
static const double most_share = 0.8;

/* What is missing in a recorded step; negative: too much is in it. */
static double missing_ns(const struct taut_trace *trace)
{
	return (double)(trace->faults_unrecorded - trace->faults_recorded) *
		(double)trace->fault_ns;
}

bool tauti_faults_here(const struct taut_graph *graph,
	const struct tauti_job *job, uint32_t op)
{
	const struct taut_graph_lane *lane = &graph->lanes[graph->lane[op]];

	return graph->kind[op] == TAUT_OP_HOST && job->step_of[op] != TAUT_NONE &&
		(job->phase[op] == TAUTI_PHASE_FORWARD ||
			job->phase[op] == TAUTI_PHASE_BACKWARD) &&
		lane->trace != TAUT_NONE && lane->kind == TAUT_LANE_THREAD &&
		!lane->is_comm;
}

double *tauti_faults_work(const struct taut_graph *graph,
	const struct tauti_job *job, const int64_t *dur_ns)
{
	uint32_t n = graph->run ? graph->run->n_traces : 0;
	double *work = calloc((size_t)n + 1, sizeof *work);
	uint32_t *steps = calloc((size_t)n + 1, sizeof *steps);

	if (!work || !steps) {
		free(work);
		free(steps);
		return NULL;
	}
	for (uint32_t i = 0; i < job->n_steps; i++)
		steps[job->steps[i].rank]++;
	for (uint32_t op = 0; op < graph->n_ops; op++)
		if (tauti_faults_here(graph, job, op))
			work[graph->lanes[graph->lane[op]].trace] +=
				(double)dur_ns[op];
	for (uint32_t r = 0; r < n; r++)
		work[r] = steps[r] ? work[r] / steps[r] : 0;
	free(steps);
	return work;
}

/* By which a rank's work becomes what it is with the job's own faults. */
static double factor_of(const struct taut_trace *trace, double work_ns)
{
	double missing = missing_ns(trace);

	return work_ns > 0 && missing > -most_share * work_ns &&
		missing < most_share * work_ns ? 1 + missing / work_ns : 1;
}

taut_status tauti_faults_restore(const struct taut_graph *graph,
	const struct tauti_job *job, const int64_t *from_ns, int64_t *to_ns,
	int64_t *ret_ns, struct taut_error *err)
{
	uint32_t n = graph->run ? graph->run->n_traces : 0;
	double *factors = tauti_faults_work(graph, job, from_ns);

	*ret_ns = 0;
	if (!factors)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for page faults");
	for (uint32_t r = 0; r < n; r++) {
		double work = factors[r];
		int64_t ns;

		factors[r] = factor_of(&graph->run->traces[r], work);
		ns = (int64_t)((factors[r] - 1) * work);
		if (llabs(ns) > llabs(*ret_ns))
			*ret_ns = ns;
	}
	if (to_ns != from_ns)
		memcpy(to_ns, from_ns, graph->n_ops * sizeof *to_ns);
	for (uint32_t op = 0; *ret_ns && op < graph->n_ops; op++)
		if (tauti_faults_here(graph, job, op))
			to_ns[op] = (int64_t)((double)from_ns[op] * factors[
				graph->lanes[graph->lane[op]].trace] + 0.5);
	free(factors);
	return TAUT_OK;
}
