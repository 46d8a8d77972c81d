/* xplane_sums.c - gradients that Taut's exchange sums (taut.tensorflow), as python/taut/
 * _tensorflow_exchange.py and operations of the job tell of them; trace/sums.h has
 * what is made of that. */
#include "trace/formats/xplane.h"

#include "trace/text.h"

static bool has_task(const struct xplane_stats *stats)
{
	return xplane_has(stats, XSTAT_TASK) &&
		tauti_sums_has_task(stats->number[XSTAT_TASK]);
}

static bool add_gradient(struct xplane *x, const struct xplane_stats *stats)
{
	struct tauti_text dtype = stats->text[XSTAT_DTYPE];
	struct tauti_sums_gradient g = { .task = stats->number[XSTAT_TASK],
		.elements = stats->number[XSTAT_ELEMENTS] };
	bool kept;

	if (!dtype.at)
		return true;
	g.dtype = tauti_text_name(x->builder->names, dtype.at, dtype.len);
	return g.dtype != TAUT_NONE && tauti_sums_gradient(&x->sums, g, &kept);
}

/* All ranks of the job are one group. */
static bool add_piece(struct xplane *x, const struct xplane_stats *stats)
{
	const int64_t *number = stats->number;
	struct tauti_sums_piece p = { .message = number[XSTAT_MESSAGE],
		.task = number[XSTAT_TASK], .bytes = number[XSTAT_BYTES],
		.start_ns = number[XSTAT_START], .end_ns = number[XSTAT_END],
		.group = taut_names_add(x->builder->names, "taut", 4),
		.group_size = -1 };
	bool kept;

	return p.group != TAUT_NONE && tauti_sums_piece(&x->sums, p, &kept);
}

bool tauti_xplane_told(struct xplane *x, const struct xplane_meta *meta,
	const struct xplane_stats *stats)
{
	if (!has_task(stats))
		return true;
	return meta->class == TF_PIECE ? add_piece(x, stats) :
		add_gradient(x, stats);
}

bool tauti_xplane_call(struct xplane *x, struct tauti_row *row,
	const struct xplane_meta *meta, const struct xplane_stats *stats)
{
	struct tauti_sums_call call = { .task = stats->number[XSTAT_TASK],
		.start_ns = row->start_ns,
		.end_ns = row->start_ns + row->dur_ns, .row = (uint32_t)x->builder->n_rows,
		.waits = meta->class == TF_WAIT };

	row->kind = TAUT_KIND_RUNTIME;
	return !has_task(stats) || tauti_sums_call(&x->sums, call);
}
