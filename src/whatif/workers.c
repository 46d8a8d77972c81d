/* workers.c - another number of processes that prepare batches.
 *
 * PyTorch's order: batch k is worker k mod N's; a worker is asked for its next
 * batch when one has been taken, so that N * prefetch batches are under way.
 * Who has none prepares in the main thread. */
#include "whatif/compute.h"

enum { WORKERS, PREFETCH };
enum { MOST = 1024 };

static const struct taut_parameter parameters[] = {
	{ "", "N", NULL, "processes a rank; 0: the main thread prepares" },
	{ "prefetch", "N", "2", "batches ahead that each is asked for" },
};

/* The main thread prepares what a worker did; the queue between them is gone. */
static taut_status burden(struct tauti_whatif *w,
	const struct tauti_take *take, int64_t dur_ns, double wait,
	struct taut_error *err)
{
	struct taut_op op = { .dur_ns = dur_ns, .kind = TAUT_OP_HOST,
		.event = TAUT_NONE, .collective = TAUT_NONE }, taken;
	taut_status status;
	uint32_t at;

	if (!taut_edit_op(w->edit, take->op, &taken))
		return TAUT_OK;
	op.lane = taken.lane;
	op.like = taken.like;
	status = taut_edit_insert(w->edit, taut_edit_before(w->edit, take->op),
		&op, "batch", &at, err);
	return status ? status : tauti_set_wait_share(w, at, wait, err);
}

static taut_status change_rank(struct tauti_whatif *w,
	const struct tauti_change *c, const struct tauti_batches *b,
	uint32_t workers, uint32_t prefetch, struct taut_error *err)
{
	int64_t *dur_ns;
	taut_status status = tauti_batches_times(w, b, &dur_ns, err);

	if (status || (!workers && !b->workers))
		return status;
	for (size_t i = 0; !status && i < b->takes.count; i++) {
		if (workers && !b->workers)
			status = tauti_batches_relieve(
				w, &b->takes.data[i], dur_ns[i], err);
		else if (!workers)
			status = burden(w, &b->takes.data[i], dur_ns[i],
				b->wait[i], err);
	}
	if (status)
		return status;
	if (!workers)
		return tauti_batches_cut(w, b, err);
	status = tauti_batches_spread(
		w, b, workers, workers * prefetch, dur_ns, err);
	return status ? status : tauti_note(w, err, "%s: each worker has a core "
		"to itself", c->text);
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	uint32_t workers, prefetch;
	taut_status status = tauti_param_count(c, WORKERS, 0, MOST, &workers, err);

	if (!status)
		status = tauti_param_count(c, PREFETCH, 1, MOST, &prefetch, err);
	for (uint32_t r = 0; !status && r < taut_edit_ranks(w->edit); r++) {
		struct tauti_batches b = { .rank = r };

		if (!taut_edit_has_rank(w->edit, r))
			continue;
		status = tauti_batches_find(w, r, &b, err);
		if (status)
			return status;
		if (!b.takes.count || b.blind)
			status = tauti_batches_refuse(c, &b, err);
		else
			status = change_rank(w, c, &b, workers, prefetch, err);
		tauti_batches_end(&b);
	}
	return status;
}

const struct tauti_transformation tauti_whatif_workers = {
	.info = {
		.name = "workers", .group = "data",
		.summary = "another number of data loader workers",
		.assumption = "preparing a batch takes as long as it did, "
			"wherever it is done; there are cores and storage for "
			"all of them",
		.source = "PyTorch's DataLoader: batch k is worker k mod N's",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};
