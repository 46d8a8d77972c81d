/* heap.c - memory that malloc keeps for the next step and does not give back to the
 * system, which would hand it out again page by page, each cleared: a fault each. */
#include <stdlib.h>

#include "whatif/compute.h"
#include "whatif/faults.h"

enum { HOW };

static const struct taut_parameter parameters[] = {
	[HOW] = { "", "keep", "keep", "what malloc does with memory that it "
		"could give back to the system" },
};

/* Faults beside each other may take more than one alone, and what a larger heap
 * does to the caches is not known. */
static const double least = 0.5, most = 1.5;

struct keeper {
	struct tauti_whatif *w;
	const struct tauti_change *change;
	double *left; /* by trace: what remains of its work */
	int64_t spared_ns; /* of the rank that has most */
	bool is_known;
	struct taut_error *err;
};

static taut_status find_left(struct keeper *k)
{
	const struct taut_run *run = k->w->graph->run;
	double share = tauti_range(k->w, least, 1, most);

	k->left = tauti_faults_work(
		k->w->graph, k->w->job, k->w->costs->dur_ns);
	if (!k->left)
		return tauti_no_memory(k->err, "page faults");
	for (uint32_t r = 0; run && r < run->n_traces; r++) {
		int64_t ns = taut_trace_faults_ns(&run->traces[r]);
		double spared = share * (double)ns;

		k->is_known |= run->traces[r].fault_ns > 0;
		if (ns > k->spared_ns)
			k->spared_ns = ns;
		k->left[r] = spared < k->left[r] ? 1 - spared / k->left[r] : 1;
	}
	return TAUT_OK;
}

static taut_status change_ops(struct keeper *k)
{
	const struct tauti_whatif *w = k->w;
	uint32_t n = taut_edit_ops(w->edit);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_op op;

		if (taut_edit_op(w->edit, i, &op) && op.like != TAUT_NONE &&
			tauti_faults_here(w->graph, w->job, op.like))
			status = tauti_scale_op(k->w, i, &op, k->left[
				w->graph->lanes[w->graph->lane[op.like]].trace],
				k->err);
	}
	return status;
}

static taut_status tell(struct keeper *k)
{
	if (!k->is_known)
		return taut_error_set(k->err, TAUT_EINVAL, -1, "%s: the "
			"recording tells of no page faults to spare; 'taut "
			"record' counts those of the steps before its window",
			k->change->text);
	return tauti_note(k->w, k->err, "%s: %.1f ms of a step are page faults of "
		"memory that malloc gives back and asks for again",
		k->change->text, (double)k->spared_ns / 1e6);
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct keeper k = { .w = w, .change = c, .err = err };
	uint32_t how;
	taut_status status = tauti_param_word(c, HOW, &how, err);

	if (!status)
		status = find_left(&k);
	if (!status)
		status = tell(&k);
	if (!status)
		status = change_ops(&k);
	free(k.left);
	return status;
}

const struct tauti_transformation tauti_whatif_heap = {
	.info = {
		.name = "heap", .group = "compute",
		.summary = "malloc keeps memory for the next step",
		.assumption = "no page fault is left of those of a usual step; "
			"they fell on forward and backward work, evenly; the "
			"process keeps the memory of its peak",
		.source = "faults of the steps before the recording, counted by "
			"the system, and one timed by 'taut record'",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};
