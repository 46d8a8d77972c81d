/* overlap.c - bounds: transfers that hide nothing, everything, or take no time.
 * What lies between a job and its bounds is what schedules and links can give. */
#include <stdlib.h>

#include "whatif/ddp.h"

/* --- overlap --------------------------------------------------------------------- */

enum { NONE, FULL };

struct waits {
	TAUT_VEC(struct taut_wait) of;
	bool failed;
};

static void take(void *context, struct taut_wait wait)
{
	struct waits *w = context;

	if ((wait.kind & ~TAUT_EDGE_FROM_START) != TAUT_EDGE_COMM &&
		!taut_vec_push(&w->of, wait))
		w->failed = true;
}

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for waits");
}

/* No all-reduce begins before the step's last gradient is ready. */
static taut_status hide_nothing(struct tauti_whatif *w,
	const struct tauti_ddp *ddp, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; i < ddp->steps.count; i++) {
		const struct tauti_ddp_step *s = &ddp->steps.data[i];
		const struct tauti_bucket *b =
			&ddp->buckets.data[s->first_bucket];
		uint32_t last = s->n_buckets ?
			b[s->n_buckets - 1].launch : TAUT_NONE;

		if (last == TAUT_NONE)
			continue;
		for (uint32_t k = 0; !status && k + 1 < s->n_buckets; k++)
			status = taut_edit_connect(w->edit, last, b[k].arrive,
				TAUT_EDGE_THREAD, 0, err);
	}
	return status;
}

/* The step sums the gradients of the one before: they are there when it
 * begins. It then takes as long as its computation or its transfers, whichever
 * is longer. */
static taut_status hand_over_early(struct tauti_whatif *w, struct waits *waits,
	const struct tauti_ddp_step *s, const struct tauti_bucket *b,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;

	taut_vec_clear(&waits->of);
	taut_edit_each_in(w->edit, b->arrive, take, waits);
	if (waits->failed)
		return no_memory(err);
	for (size_t i = 0; !status && i < waits->of.count; i++)
		if (!i || waits->of.data[i].op != waits->of.data[i - 1].op)
			status = taut_edit_disconnect(w->edit,
				waits->of.data[i].op, b->arrive, err);
	if (!status)
		status = taut_edit_set_gap(w->edit, b->arrive, 0, err);
	return status ? status : taut_edit_connect(w->edit, s->begin, b->arrive,
		TAUT_EDGE_THREAD, 0, err);
}

static taut_status hide_all(struct tauti_whatif *w, const struct tauti_ddp *ddp,
	struct taut_error *err)
{
	struct waits waits = { .of = { 0 } };
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < ddp->steps.count; i++) {
		const struct tauti_ddp_step *s = &ddp->steps.data[i];

		for (uint32_t k = 0; !status && s->begin != TAUT_NONE &&
			k < s->n_buckets; k++)
			status = hand_over_early(w, &waits, s,
				&ddp->buckets.data[s->first_bucket + k], err);
	}
	taut_vec_free(&waits.of);
	return status;
}

static taut_status apply_overlap(struct tauti_whatif *w,
	const struct tauti_change *change, struct taut_error *err)
{
	struct tauti_ddp *ddp;
	uint32_t how;
	taut_status status = tauti_param_word(change, 0, &how, err);

	if (!status)
		status = tauti_ddp_create(w, 0, NULL, 0, &ddp, err);
	if (status)
		return status;
	status = tauti_ddp_need_buckets(w, ddp, "overlap", err);
	if (!status)
		status = tauti_ddp_wait(w, ddp, err);
	if (!status)
		status = how == FULL ? hide_all(w, ddp, err) :
			hide_nothing(w, ddp, err);
	tauti_ddp_destroy(ddp);
	return status;
}

static const struct taut_parameter overlap_parameters[] = {
	{ "", "none|full", NULL, "none: gradients are summed behind the "
		"backward pass; full: the step sums those of the one before" },
};

const struct tauti_transformation tauti_whatif_overlap = {
	.info = {
		.name = "overlap",
		.group = "network",
		.summary = "bounds: gradients summed behind the backward pass, "
			"or hidden as far as computation reaches",
		.assumption = "full is no schedule but a limit: max(computation, "
			"transfers), which no order of transfers can beat",
		.source = "the bounds of P3 and ByteScheduler (SOSP 2019)",
		.parameters = overlap_parameters,
		.n_parameters = 1,
	},
	.apply = apply_overlap,
};

/* --- a network that takes no time -------------------------------------------------- */

static taut_status apply_ideal(struct tauti_whatif *w,
	const struct tauti_change *change, struct taut_error *err)
{
	uint32_t *ops;
	size_t n;
	struct taut_select transfers = { .kinds = 1u << TAUT_OP_TRANSFER };
	struct tauti_ddp *ddp;
	taut_status status = tauti_ddp_create(w, 0, NULL, 0, &ddp, err);

	(void)change;
	if (status)
		return status;
	status = tauti_ddp_wait(w, ddp, err);
	tauti_ddp_destroy(ddp);
	if (!status)
		status = taut_edit_select(w->edit, &transfers, &ops, &n, err);
	for (size_t i = 0; !status && i < n; i++)
		status = taut_edit_set_dur(w->edit, ops[i], 0, err);
	if (!status)
		free(ops);
	w->no_transfers = true;
	return status;
}

const struct tauti_transformation tauti_whatif_ideal_network = {
	.info = {
		.name = "ideal-network",
		.group = "network",
		.summary = "a bound: transfers take no time",
		.assumption = "ranks still wait for the last one to come; "
			"transfers cost the cores nothing any more",
		.source = "what every network optimisation is measured against",
		.parameters = NULL,
		.n_parameters = 0,
	},
	.apply = apply_ideal,
};
