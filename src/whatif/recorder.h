/* recorder.h - what recording itself cost, so that it can be taken off.
 *
 * A profiler spends time on each event that it writes, and the recording shows
 * that as time of the job. taut record's processes time their steps with it and
 * without, and what their host takes to issue them (issue.h); what an event costs
 * is what makes the difference. */
#ifndef TAUT_WHATIF_RECORDER_H
#define TAUT_WHATIF_RECORDER_H

#include "whatif/whatif.h"

enum tauti_recorder_told {
	TAUTI_RECORDER_BY_USUAL, /* nothing here: the usual is taken */
	TAUTI_RECORDER_BY_STEPS, /* the difference of the steps */
	TAUTI_RECORDER_BY_ISSUE, /* of what the host takes to issue a step, for
	                            the step is a device's or a link's */
};

struct tauti_recorder {
	/* Of a host thread, by event; 0: not known, nothing is taken off. low and
	 * high: what it may as well be. */
	double event_ns, low_ns, high_ns;
	int64_t step_ns; /* the unchanged job's, without it; 0: not known */
	enum tauti_recorder_told told;
};

/* recorded_ns: the recorded step. is_other: with these costs it takes another time, for
 * they have the faults of the job (faults.h). TAUT_ENOMEM; as taut_replay(). */
taut_status tauti_recorder_find(const struct taut_graph *graph,
	const struct taut_costs *costs, int64_t recorded_ns, bool is_other,
	struct tauti_recorder *ret_recorder, struct taut_error *err);

/* The durations without what event_ns an event adds up to: of each host thread
 * the slices in which events begin, and, where those are shorter, the slices
 * behind them. to may be from. */
void tauti_recorder_cut(const struct taut_graph *graph, double event_ns,
	const int64_t *from_ns, int64_t *to_ns);

#endif /* TAUT_WHATIF_RECORDER_H */
