/* job.c - what a plan is for, out of a recording. */
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "whatif/ddp.h"
#include "whatif/predict.h"

static int largest_first(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x < y) - (x > y);
}

static taut_status take_gradients(const struct tauti_ddp *ddp,
	struct taut_arena *arena, struct taut_plan_job *job,
	struct tauti_plan_order *order, struct taut_error *err)
{
	const struct tauti_ddp_step *s = ddp->steps.data;
	int64_t *bytes, *ready;
	uint32_t *first;

	if (!ddp->steps.count || !ddp->sized || !ddp->buckets.count)
		return TAUT_OK;
	bytes = TAUT_ARENA_ARRAY(arena, int64_t, (size_t)s->n_gradients + 1);
	ready = TAUT_ARENA_ARRAY(arena, int64_t, (size_t)s->n_gradients + 1);
	first = TAUT_ARENA_ARRAY(arena, uint32_t, (size_t)s->n_buckets + 1);
	if (!bytes || !ready || !first)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for a plan's job");
	for (uint32_t i = 0; i < s->n_gradients; i++)
		bytes[i] = ready[i] =
			ddp->gradients.data[s->first_gradient + i].bytes;
	for (uint32_t i = 0; i < s->n_buckets; i++)
		first[i] = ddp->buckets.data[s->first_bucket + i].first;
	if (ddp->exchanged) /* what goes together is not fixed */
		first[0] = 0;
	*order = (struct tauti_plan_order){ s->n_gradients,
		ddp->exchanged ? 1 : s->n_buckets, ready, first };
	qsort(bytes, s->n_gradients, sizeof *bytes, largest_first);
	job->gradient_bytes = bytes;
	job->n_gradients = s->n_gradients;
	if (!*job->framework)
		job->framework = "pytorch";
	return TAUT_OK;
}

/* Why the job has no gradients that a plan could name. */
static taut_status see_why(const struct tauti_predictor *p,
	const struct tauti_ddp *ddp, struct taut_error *why)
{
	taut_status status = tauti_ddp_need_buckets(
		&p->w, ddp, "gradients", why);

	if (status)
		return status;
	return taut_error_set(why, TAUT_EINVAL, -1, "gradients: the recording "
		"does not tell how large each is");
}

/* Those of a job whose ranks do not sum alike are none. */
static taut_status find_gradients(struct tauti_predictor *p,
	struct taut_arena *arena, struct taut_plan_job *job,
	struct tauti_plan_order *order, const char **why,
	struct taut_error *err)
{
	struct tauti_ddp *ddp = NULL;
	struct taut_error own = { .message = "" };
	taut_status status = tauti_whatif_reset(&p->w, err);

	if (status)
		return status;
	status = tauti_ddp_create(&p->w, 0, NULL, 0, &ddp, &own);
	if (!status)
		status = take_gradients(ddp, arena, job, order, &own);
	if (!status && !job->n_gradients)
		status = see_why(p, ddp, &own);
	tauti_ddp_destroy(ddp);
	if (status == TAUT_EINVAL) {
		*why = taut_arena_strndup(
			arena, own.message, strlen(own.message));
		status = *why ? TAUT_OK : TAUT_ENOMEM;
	}
	return status ? taut_error_set(err, status, -1, "%s",
		*own.message ? own.message : "no memory for a plan's job") :
		TAUT_OK;
}

/* Of one rank: what its recording says, or whose format it is; "": neither. */
static const char *framework_of_rank(const struct taut_trace *t)
{
	static const char *const of[][2] = { { "xplane", "tensorflow" },
		{ "tftrace", "tensorflow" }, { "mxnet", "mxnet" } };
	const char *told = taut_trace_fact(t, "framework");

	for (size_t i = 0; !told && i < sizeof of / sizeof *of; i++)
		if (t->format && !strcmp(t->format, of[i][0]))
			told = of[i][1];
	return told ? told : "";
}

/* "": not one of these alone. */
static const char *framework_of(const struct taut_run *run)
{
	const char *found = "";

	for (uint32_t r = 0; r < run->n_traces; r++) {
		const char *is = framework_of_rank(&run->traces[r]);

		if (r && strcmp(is, found))
			return "";
		found = is;
	}
	return found;
}

taut_status tauti_plan_read_job(const struct taut_graph *graph,
	struct taut_arena *arena, struct taut_plan_job *ret_job,
	struct tauti_plan_order *ret_order, const char **ret_why,
	struct taut_error *err)
{
	struct tauti_plan_order order = { .n = 0 };
	const char *why = NULL;
	struct taut_plan_job job = { .n_ranks = (uint32_t)graph->run->n_traces,
		.n_hosts = tauti_run_hosts(graph->run),
		.framework = framework_of(graph->run) };
	struct tauti_prepared ready;
	struct tauti_predictor p;
	taut_status status = tauti_prepared_init(&ready, graph, err);

	if (status)
		return status;
	status = tauti_predictor_init(&p, graph, ready.job, ready.costs,
		&ready.recorder, NULL, 0, err);
	if (!status) {
		status = find_gradients(&p, arena, &job, &order, &why, err);
		tauti_predictor_fini(&p);
	}
	tauti_prepared_fini(&ready);
	if (!status) {
		*ret_job = job;
		*ret_order = order;
		*ret_why = why;
	}
	return status;
}

taut_status taut_plan_job_of(const struct taut_graph *graph,
	struct taut_arena *arena, struct taut_plan_job *ret_job,
	struct taut_error *reterr)
{
	struct tauti_plan_order order;
	const char *why;

	return tauti_plan_read_job(
		graph, arena, ret_job, &order, &why, reterr);
}
