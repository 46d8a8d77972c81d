/* prepared.c - what only the recording says, found once for all that is predicted
 * of it. */
#include <stdlib.h>

#include "whatif/faults.h"
#include "whatif/predict.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for a prediction");
}

taut_status tauti_changes_read(const char *const *texts, size_t n,
	struct taut_arena *arena, struct tauti_change **ret_changes,
	struct taut_error *err)
{
	struct tauti_change *changes = TAUT_ARENA_ARRAY(
		arena, struct tauti_change, n + 1);
	taut_status status = TAUT_OK;

	if (n > TAUTI_MOST_CHANGES)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"expected at most %d changes, found %zu",
			TAUTI_MOST_CHANGES, n);
	if (!changes)
		return no_memory(err);
	for (size_t i = 0; !status && i < n; i++)
		status = tauti_change_read(texts[i], arena, &changes[i], err);
	if (!status)
		status = tauti_stack_check(changes, n, err);
	if (!status)
		tauti_stack_sort(changes, n);
	*ret_changes = changes;
	return status;
}

static taut_status measure_before(
	struct tauti_prepared *ready, struct taut_error *err)
{
	const struct taut_graph *g = ready->graph;
	int64_t *end_ns = malloc(((size_t)g->n_ops + 1) * sizeof *end_ns);
	taut_status status;

	if (!end_ns)
		return no_memory(err);
	for (uint32_t op = 0; op < g->n_ops; op++)
		end_ns[op] = g->start_ns[op] + g->dur_ns[op];
	status = taut_steady_step(
		g, g->start_ns, end_ns, &ready->recorded_ns, err);
	free(end_ns);
	if (!status && ready->recorded_ns < 0)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: the "
			"recording has no steps to predict",
			g->run && g->run->path ? g->run->path : "recording");
	return status;
}

/* What is predicted is a job that nobody records, before and after. */
static taut_status take_recorder_off(
	struct tauti_prepared *ready, struct taut_error *err)
{
	taut_status status = tauti_faults_restore(ready->graph, ready->job,
		ready->costs->dur_ns, ready->costs->dur_ns, &ready->faults_ns,
		err);

	if (!status)
		status = tauti_recorder_find(ready->graph, ready->costs,
			ready->recorded_ns, ready->faults_ns != 0,
			&ready->recorder, err);
	ready->before_ns = ready->recorded_ns;
	if (!status && (ready->recorder.event_ns > 0 || ready->faults_ns))
		ready->before_ns = ready->recorder.step_ns;
	return status;
}

taut_status tauti_prepared_init(struct tauti_prepared *ready,
	const struct taut_graph *graph, struct taut_error *err)
{
	taut_status status;

	*ready = (struct tauti_prepared){ .graph = graph };
	status = measure_before(ready, err);
	if (!status)
		status = tauti_job_create(graph, &ready->job, err);
	if (!status)
		status = taut_costs_create(graph, &ready->costs, err);
	if (!status)
		status = take_recorder_off(ready, err);
	if (!status)
		status = tauti_memory_prepare(graph, &ready->memory, err);
	if (status)
		tauti_prepared_fini(ready);
	return status;
}

void tauti_prepared_fini(struct tauti_prepared *ready)
{
	taut_memory_destroy(ready->memory);
	taut_costs_destroy(ready->costs);
	tauti_job_destroy(ready->job);
	*ready = (struct tauti_prepared){ 0 };
}
