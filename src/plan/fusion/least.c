/* least.c - what no state of the space can beat. */
#include "plan/fusion/own.h"

/* By operator: the last that it could be fused with, by any options. */
static void find_furthest(const struct tauti_fusion *f, uint32_t *furthest)
{
	bool more = true;

	for (uint32_t i = 0; i < f->n_ops; i++)
		furthest[i] = i;
	while (more) {
		more = false;
		for (uint32_t i = 0; i < f->n_pairs; i++) {
			uint32_t from = f->flows[f->site_flow[i]].from;
			uint32_t to = f->flows[f->site_flow[i]].to;
			uint32_t last = furthest[from] > furthest[to] ?
				furthest[from] : furthest[to];

			more |= furthest[from] != last || furthest[to] != last;
			furthest[from] = furthest[to] = last;
		}
	}
}

static bool could_be_fused(const struct tauti_fusion *f, uint32_t operator_)
{
	struct tauti_span32 out = f->out[operator_], in = f->in[operator_];

	for (uint32_t i = out.first; i < out.end; i++)
		if (f->flow_site[f->out_flow[i]] != TAUT_NONE)
			return true;
	for (uint32_t i = in.first; i < in.end; i++)
		if (f->flow_site[f->in_flow[i]] != TAUT_NONE)
			return true;
	return false;
}

static int64_t least_of(const struct tauti_fusion *f, uint32_t place)
{
	uint32_t op = f->first_op + place, operator_ = f->operator_at[place];

	if (operator_ == TAUT_NONE)
		return f->graph->dur_ns[op];
	return could_be_fused(f, operator_) ? f->ops[operator_].compute_ns :
		f->dur_ns[operator_];
}

/* Of what stands at or before a place, and cannot come behind it. */
static int64_t before(const struct tauti_fusion *f, const uint32_t *furthest,
	uint32_t operator_)
{
	uint32_t end = tauti_fusion_place(f, operator_);
	int64_t sum = 0;

	for (uint32_t p = 0; p <= end; p++) {
		uint32_t at = f->operator_at[p];

		sum += f->graph->gap_ns[f->first_op + p];
		if (at == TAUT_NONE || furthest[at] <= operator_)
			sum += least_of(f, p);
	}
	return sum;
}

int64_t tauti_fusion_least_ns(const struct tauti_fusion *f)
{
	int64_t least = 0, bytes = 0;

	for (uint32_t p = 0; p < f->n_places; p++)
		least += least_of(f, p) + f->graph->gap_ns[f->first_op + p];
	find_furthest(f, f->furthest);
	for (uint32_t i = f->n_gradients; i-- > 0;) {
		int64_t ns;

		bytes += f->gradients[i].bytes;
		ns = before(f, f->furthest, f->gradients[i].producer) +
			tauti_fusion_transfer_ns(&f->link, (double)bytes);
		least = ns > least ? ns : least;
	}
	return least;
}
