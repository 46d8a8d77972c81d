/* measure.c - what flows moved and operations did, from recorded times.
 *
 * A replay in which ends are given and amounts are found. It starts operations
 * where a replay would, so that what it finds is what a replay needs to end
 * them where they ended; as every op aims at its own recorded end, what is lost
 * to whole nanoseconds does not add up. */
#include <stdlib.h>

#include "sharing.h"

struct buffers {
	int64_t *end_ns, *flow_end_ns;
};

static void find_ends(const struct taut_graph *graph,
	const struct taut_sharing *sharing, const int64_t *start_ns,
	const int64_t *dur_ns, struct buffers *ret)
{
	for (uint32_t f = 0; f < sharing->n_flows; f++)
		ret->flow_end_ns[f] = INT64_MAX;
	for (uint32_t op = 0; op < graph->n_ops; op++) {
		uint32_t f = sharing->flow_of[op];
		ret->end_ns[op] = start_ns[op] + dur_ns[op];
		if (f != TAUT_NONE && ret->end_ns[op] < ret->flow_end_ns[f])
			ret->flow_end_ns[f] = ret->end_ns[op];
	}
}

static taut_status check_starts(const int64_t *start_ns, uint32_t n,
	struct taut_error *err)
{
	const int64_t limit_ns = (int64_t)1 << 60;
	for (uint32_t op = 0; op < n; op++) {
		if (start_ns[op] >= limit_ns || start_ns[op] <= -limit_ns)
			return taut_error_set(err, TAUT_EINVAL, -1,
				"operation %u: starts at %lld ns, expected "
				"less than 2^60", (unsigned)op,
				(long long)start_ns[op]);
	}
	return TAUT_OK;
}

/* What is not found below is as it was given. */
static void fill_in(const struct taut_graph *graph,
	const struct taut_sharing *sharing, const int64_t *dur_ns,
	struct tauti_measure *measure)
{
	for (uint32_t f = 0; f < sharing->n_flows; f++) {
		measure->amount[f] = 0;
		measure->latency_ns[f] = sharing->flows[f].latency_ns;
	}
	for (uint32_t op = 0; op < graph->n_ops; op++)
		measure->dur_ns[op] = dur_ns[op];
}

static taut_status measure_all(const struct taut_graph *graph,
	const struct taut_replay_edit *edit, const int64_t *start_ns,
	struct tauti_measure *measure, struct taut_timeline *timeline,
	struct taut_error *err)
{
	const struct taut_sharing *sharing = edit->sharing;
	struct buffers buffers;
	taut_status status = tauti_replay_check(
		graph, edit, timeline->scratch, err);
	if (!status)
		status = check_starts(start_ns, graph->n_ops, err);
	if (!status)
		status = tauti_sharing_check(
			graph, sharing, edit->dur_ns, false, err);
	if (status)
		return status;
	buffers.end_ns = calloc((size_t)graph->n_ops + 1, sizeof(int64_t));
	buffers.flow_end_ns = calloc(
		(size_t)sharing->n_flows + 1, sizeof(int64_t));
	if (buffers.end_ns && buffers.flow_end_ns) {
		find_ends(graph, sharing, start_ns, edit->dur_ns, &buffers);
		fill_in(graph, sharing, edit->dur_ns, measure);
		measure->end_ns = buffers.end_ns;
		measure->flow_end_ns = buffers.flow_end_ns;
		status = tauti_replay_shared(
			graph, edit, timeline, measure, err);
	} else {
		status = taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory to measure %u operations",
			(unsigned)graph->n_ops);
	}
	free(buffers.end_ns);
	free(buffers.flow_end_ns);
	return status;
}

taut_status taut_sharing_measure(const struct taut_graph *graph,
	const struct taut_sharing *sharing, const int64_t *start_ns,
	const int64_t *dur_ns, double *ret_amount, int64_t *ret_latency_ns,
	int64_t *ret_dur_ns, struct taut_error *reterr)
{
	struct taut_replay_edit edit = {
		.dur_ns = dur_ns, .sharing = sharing
	};
	struct tauti_measure measure = {
		.amount = ret_amount,
		.latency_ns = ret_latency_ns,
		.dur_ns = ret_dur_ns,
	};
	struct taut_timeline timeline;
	taut_status status = taut_timeline_init(&timeline, graph, reterr);
	if (status)
		return status;
	status = measure_all(
		graph, &edit, start_ns, &measure, &timeline, reterr);
	taut_timeline_fini(&timeline);
	return status;
}
