/* bucket.c - DDP's buckets of another size.
 *
 * Gradients become ready in an order that the recording shows, one after the
 * other; a bucket is handed over when it has come to its size and all before
 * it are handed over (S. Li et al., "PyTorch Distributed", VLDB 2020). So other
 * sizes are another way of cutting the same row of gradients. */
#include "whatif/ddp.h"

enum { CAP, FIRST };

struct job {
	struct tauti_whatif *w;
	const struct tauti_change *c;
	struct tauti_ddp *ddp;
	double *caps;
	uint32_t n_caps;
	struct taut_error *err;
};

static taut_status read_size(struct job *j, size_t i, double recorded,
	double *ret_bytes)
{
	bool is_factor;
	taut_status status = tauti_param_scaled(
		j->c, i, TAUTI_BYTES, &is_factor, ret_bytes, j->err);

	if (!status && is_factor)
		*ret_bytes *= recorded;
	if (!status && *ret_bytes <= 0)
		status = tauti_param_wrong(j->c, i, "more than nothing", j->err);
	return status;
}

/* The largest bucket but the last: the cap cannot have been above it. */
static double recorded_cap(const struct tauti_ddp *ddp)
{
	const struct tauti_ddp_step *s = ddp->steps.data;
	double most = 0;

	for (uint32_t i = 0; i < s->n_buckets; i++) {
		double bytes = (double)ddp->buckets.data[
			s->first_bucket + i].bytes;

		if (bytes > most && (i + 1 < s->n_buckets || !most))
			most = bytes;
	}
	return most;
}

static taut_status read_each(struct job *j)
{
	if (tauti_param_given(j->c, FIRST))
		return tauti_param_wrong(j->c, FIRST, "nothing where each "
			"bucket has a size of its own", j->err);
	return tauti_param_sizes(
		j->c, CAP, j->w->arena, &j->caps, &j->n_caps, j->err);
}

/* Of the first, and of the others. */
static taut_status read(struct job *j)
{
	double most = recorded_cap(j->ddp);
	taut_status status;

	if (tauti_param_is_row(j->c, CAP))
		return read_each(j);
	j->n_caps = 2;
	j->caps = TAUT_ARENA_ARRAY(j->w->arena, double, 2);
	if (!j->caps)
		return taut_error_set(
			j->err, TAUT_ENOMEM, -1, "no memory for buckets");
	status = read_size(j, CAP, most, &j->caps[1]);
	j->caps[0] = j->caps[1];
	if (!status && tauti_param_given(j->c, FIRST))
		status = read_size(j, FIRST, most, &j->caps[0]);
	return status;
}

static bool as_recorded(const struct tauti_ddp *ddp, const tauti_plan *plan)
{
	const struct tauti_ddp_step *s = ddp->steps.data;

	if (plan->count != s->n_buckets || (ddp->exchanged &&
		ddp->buckets.data[s->first_bucket].like != TAUT_NONE))
		return false;
	for (uint32_t i = 0; i < s->n_buckets; i++)
		if (ddp->buckets.data[s->first_bucket + i].first !=
			plan->data[i])
			return false;
	return true;
}

static taut_status say(struct job *j, const tauti_plan *plan)
{
	const struct tauti_ddp_step *s = j->ddp->steps.data;
	taut_status status = tauti_note(j->w, j->err, "bucket: %zu buckets a "
		"step instead of %u", plan->count, s->n_buckets);

	if (!status && !j->ddp->sized)
		status = tauti_note(j->w, j->err, "bucket: shapes were not "
			"recorded; gradients are taken to grow evenly while a "
			"bucket is filled");
	if (!status && !j->ddp->copies_out)
		status = tauti_note(j->w, j->err, "bucket: no copies out of "
			"buckets were recorded; who waited for a recorded "
			"bucket waits for all that holds a part of it");
	return status;
}

static int64_t *sizes_of(const struct tauti_ddp *ddp, struct taut_arena *arena)
{
	const struct tauti_ddp_step *s = ddp->steps.data;
	int64_t *bytes = TAUT_ARENA_ARRAY(arena, int64_t, s->n_gradients + 1);

	for (uint32_t i = 0; bytes && i < s->n_gradients; i++)
		bytes[i] = ddp->gradients.data[s->first_gradient + i].bytes;
	return bytes;
}

static taut_status change(struct job *j)
{
	static const struct tauti_lay as_it_was = { 0 };
	int64_t *bytes = sizes_of(j->ddp, j->w->arena);
	tauti_plan plan = { 0 };
	taut_status status;

	if (!bytes)
		return taut_error_set(j->err, TAUT_ENOMEM, -1,
			"no memory for buckets");
	status = tauti_ddp_plan(bytes, j->ddp->steps.data->n_gradients,
		j->caps, j->n_caps, &plan, j->err);
	if (!status && as_recorded(j->ddp, &plan))
		status = tauti_note(j->w, j->err, "bucket: these are the "
			"recorded buckets");
	else if (!status)
		status = say(j, &plan);
	if (!status && !as_recorded(j->ddp, &plan))
		status = tauti_ddp_lay(j->w, j->ddp, &plan, &as_it_was, j->err);
	taut_vec_free(&plan);
	return status;
}

static taut_status apply(struct tauti_whatif *w,
	const struct tauti_change *c, struct taut_error *err)
{
	struct job j = { .w = w, .c = c, .err = err };
	taut_status status = tauti_ddp_create(w, 0, NULL, 0, &j.ddp, err);

	if (status)
		return status;
	status = tauti_ddp_need_buckets(w, j.ddp, "bucket", err);
	if (!status)
		status = read(&j);
	if (!status)
		status = change(&j);
	tauti_ddp_destroy(j.ddp);
	return status;
}

static const struct taut_parameter parameters[] = {
	[CAP] = { "", "BYTES|BYTES+BYTES...|FACTOR", NULL,
		"size at which a bucket is full: 25MiB, 2x; or that of each, "
		"as gradients come: 1MiB+4MiB+8MiB, the last for all behind it" },
	[FIRST] = { "first", "BYTES|FACTOR", "", "the same of the first "
		"bucket; without it, that of the others. PyTorch's default is "
		"1MiB where no bucket_cap_mb is given" },
};

const struct tauti_transformation tauti_whatif_bucket = {
	.info = {
		.name = "bucket",
		.group = "network",
		.summary = "buckets (fusion) of gradients of another size",
		.assumption = "gradients become ready in the recorded order "
			"and are handed over as DDP does; an all-reduce costs "
			"what the recording's line of time over bytes says; "
			"work goes to the lane of communication that would be "
			"free first",
		.source = "S. Li et al., PyTorch Distributed, VLDB 2020; "
			"Horovod's tensor fusion",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof parameters[0],
	},
	.apply = apply,
};
