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

	if (!ddp->steps.count || !ddp->sized || ddp->fitted || !ddp->buckets.count)
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
	order->n = s->n_gradients;
	order->n_buckets = ddp->exchanged ? 1 : s->n_buckets;
	order->bytes = ready;
	order->first = first;
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
	if (ddp->sized && ddp->fitted)
		return taut_error_set(why, TAUT_EINVAL, -1, "the gradients of "
			"a bucket do not come to its bytes: some parameters have "
			"none in a step, or a hook of the job's own narrows them");
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
	taut_status status = tauti_ddp_create(&p->w, 0, NULL, 0, &ddp, &own);

	if (!status)
		order->exchanged = ddp->exchanged;
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

/* Of a recording of some ranks of a job all count: what is decided is for them. */
static uint32_t ranks_of(const struct taut_run *run)
{
	uint32_t n = (uint32_t)run->n_traces;

	for (uint32_t r = 0; r < run->n_traces; r++)
		if (run->traces[r].world_size > (int32_t)n)
			n = (uint32_t)run->traces[r].world_size;
	return n;
}

/* Those of the given changes by which ranks come and go. */
static taut_status read_given(const char *const *given, size_t n_given,
	struct taut_arena *arena, struct tauti_change **ret_changes, size_t *ret_n,
	struct taut_error *err)
{
	static const char *const names[] = { "world", "stages", "tensor" };
	const char **those = TAUT_ARENA_ARRAY(arena, const char *, n_given + 1);
	size_t n = 0;

	if (!those)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for a plan's job");
	for (size_t i = 0; i < n_given; i++)
		for (size_t k = 0; k < sizeof names / sizeof *names; k++)
			if (tauti_plan_is_named(given[i], names[k]))
				those[n++] = given[i];
	*ret_n = n;
	return tauti_changes_read(those, n, arena, ret_changes, err);
}

static taut_status count_ranks(const struct tauti_whatif *w, struct taut_arena *arena,
	struct taut_plan_job *job, struct taut_error *err)
{
	uint32_t all = taut_edit_ranks(w->edit);
	uint8_t *seen = taut_arena_calloc(arena, w->site.n_hosts + 1, 1);

	if (!seen)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for a plan's job");
	job->n_ranks = job->n_hosts = 0;
	for (uint32_t r = 0; r < all && r < w->site.n_ranks; r++) {
		if (!taut_edit_has_rank(w->edit, r))
			continue;
		job->n_ranks++;
		job->n_hosts += !seen[w->site.host_of[r]];
		seen[w->site.host_of[r]] = 1;
	}
	return TAUT_OK;
}

taut_status tauti_plan_read_job(const struct taut_graph *graph,
	const char *const *given, size_t n_given, struct taut_arena *arena,
	struct taut_plan_job *ret_job, struct tauti_plan_order *ret_order,
	const char **ret_why, struct taut_error *err)
{
	struct tauti_plan_order order = { .n = 0 };
	const char *why = NULL;
	struct taut_plan_job job = { .n_ranks = ranks_of(graph->run),
		.n_hosts = tauti_run_hosts(graph->run),
		.framework = framework_of(graph->run) };
	struct tauti_change *changes;
	struct tauti_prepared ready;
	struct tauti_predictor p;
	size_t n = 0;
	taut_status status = read_given(given, n_given, arena, &changes, &n, err);

	if (!status)
		status = tauti_prepared_init(&ready, graph, err);
	if (status)
		return status;
	status = tauti_predictor_init(&p, graph, ready.job, ready.costs,
		&ready.recorder, changes, n, err);
	if (!status) {
		status = tauti_predictor_lay(&p, err);
		if (!status && n)
			status = count_ranks(&p.w, arena, &job, err);
		if (!status)
			status = find_gradients(
				&p, arena, &job, &order, &why, err);
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
		graph, NULL, 0, arena, ret_job, &order, &why, reterr);
}
