/* check.c - what sharing must be for the replay to add without looking.
 *
 * While any flow moves, some resource is full. So all flows together move for
 * no longer than all of them take of all resources, one after another; and an
 * op on a core takes no longer than its duration at the least speed. Where
 * these sums and that of the latencies are below 2^60 ns, no time of a replay
 * can leave 64 bits. */
#include "sharing.h"

#define LIMIT_NS 1152921504606846976.0 /* 2^60 */

static bool is_share(double x)
{
	return x >= 1e-30 && x <= 1e30;
}

static taut_status check_resources(
	const struct taut_sharing *sharing, struct taut_error *err)
{
	for (uint32_t r = 0; r < sharing->n_resources; r++) {
		if (!is_share(sharing->capacity[r]))
			return taut_error_set(err, TAUT_EINVAL, -1,
				"resource %u: capacity %g, expected 1e-30 to "
				"1e30", (unsigned)r, sharing->capacity[r]);
	}
	for (uint32_t i = 0; i < sharing->n_uses; i++) {
		const struct taut_flow_use *use = &sharing->uses[i];
		if (use->resource >= sharing->n_resources)
			return taut_error_set(err, TAUT_EINVAL, -1,
				"use %u: resource %u of %u", (unsigned)i,
				(unsigned)use->resource,
				(unsigned)sharing->n_resources);
		if (!is_share(use->weight))
			return taut_error_set(err, TAUT_EINVAL, -1,
				"use %u: weight %g, expected 1e-30 to 1e30",
				(unsigned)i, use->weight);
	}
	return TAUT_OK;
}

static double longest_ns(const struct taut_sharing *sharing,
	const struct taut_flow *flow)
{
	double sum = flow->n_uses ? 0 : 1;
	for (uint32_t i = 0; i < flow->n_uses; i++) {
		const struct taut_flow_use *use =
			&sharing->uses[flow->first_use + i];
		double alone = use->weight / sharing->capacity[use->resource];
		sum += alone;
	}
	return sum * flow->amount;
}

static taut_status check_flows(const struct taut_sharing *sharing,
	bool amounts, struct taut_error *err)
{
	double moves_ns = 0, waits_ns = 0;
	for (uint32_t f = 0; f < sharing->n_flows; f++) {
		const struct taut_flow *flow = &sharing->flows[f];
		if (flow->first_use > sharing->n_uses ||
				flow->n_uses > sharing->n_uses - flow->first_use)
			return taut_error_set(err, TAUT_EINVAL, -1,
				"flow %u: uses %u and %u more, of %u",
				(unsigned)f, (unsigned)flow->first_use,
				(unsigned)flow->n_uses,
				(unsigned)sharing->n_uses);
		if (flow->latency_ns < 0)
			return taut_error_set(err, TAUT_EINVAL, -1,
				"flow %u: latency %lld ns is negative",
				(unsigned)f, (long long)flow->latency_ns);
		if (amounts && !(flow->amount >= 0))
			return taut_error_set(err, TAUT_EINVAL, -1,
				"flow %u: amount %g, expected 0 or more",
				(unsigned)f, flow->amount);
		waits_ns += (double)flow->latency_ns;
		if (amounts)
			moves_ns += longest_ns(sharing, flow);
	}
	if (!(moves_ns < LIMIT_NS) || !(waits_ns < LIMIT_NS))
		return taut_error_set(err, TAUT_EINVAL, -1,
			"flows: their times add up to 2^60 ns or more");
	return TAUT_OK;
}

static taut_status check_lanes(const struct taut_graph *graph,
	const struct taut_sharing *sharing, const int64_t *dur_ns,
	struct taut_error *err)
{
	double sum_ns = 0;
	if (!(sharing->least_speed > 0 && sharing->least_speed <= 1))
		return taut_error_set(err, TAUT_EINVAL, -1,
			"the least speed is %g, expected above 0 and at most 1",
			sharing->least_speed);
	for (uint32_t i = 0; sharing->core_of && i < graph->n_lanes; i++) {
		uint32_t core = sharing->core_of[i];
		if (core != TAUT_NONE && core >= sharing->n_resources)
			return taut_error_set(err, TAUT_EINVAL, -1,
				"lane %u: core %u of %u resources",
				(unsigned)i, (unsigned)core,
				(unsigned)sharing->n_resources);
	}
	for (uint32_t op = 0; op < graph->n_ops; op++)
		sum_ns += (double)dur_ns[op];
	if (!(sum_ns / sharing->least_speed < LIMIT_NS))
		return taut_error_set(err, TAUT_EINVAL, -1,
			"the durations of all operations at the least speed "
			"add up to 2^60 ns or more");
	return TAUT_OK;
}

taut_status tauti_sharing_check(const struct taut_graph *graph,
	const struct taut_sharing *sharing, const int64_t *dur_ns,
	bool amounts, struct taut_error *err)
{
	taut_status status = check_resources(sharing, err);
	if (!status)
		status = check_flows(sharing, amounts, err);
	if (!status)
		status = check_lanes(graph, sharing, dur_ns, err);
	for (uint32_t op = 0; !status && op < graph->n_ops; op++) {
		uint32_t f = sharing->flow_of[op];
		if (f != TAUT_NONE && f >= sharing->n_flows)
			status = taut_error_set(err, TAUT_EINVAL, -1,
				"operation %u: flow %u of %u", (unsigned)op,
				(unsigned)f, (unsigned)sharing->n_flows);
	}
	return status;
}
