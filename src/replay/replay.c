/* replay.c - the discrete-event core.
 *
 * All that an op's successors must know, its start and its end, is known
 * when it starts, where nothing is shared. So there is one kind of event: an
 * op starts. sharing.c has the loop for what is shared. */
#include <string.h>

#include "core.h"
#include "sharing.h"

static inline void release(
	struct core *core, uint32_t op, uint32_t pred, int64_t at_ns)
{
	if (is_released(core, op, pred, at_ns))
		ready_put(&core->ready,
			(struct ready_op){ core->start_ns[op], op });
}

static void release_edges(
	struct core *core, uint32_t op, int64_t start_ns, int64_t end_ns)
{
	uint32_t last = core->edge_begin[op + 1];
	if (core->mute && core->mute[op])
		return;
	for (uint32_t i = core->edge_begin[op]; i < last; i++) {
		struct tauti_wait wait = core->waits[i];
		int64_t from_ns = wait.from_start ? start_ns : end_ns;
		release(core, wait.to, op, from_ns + wait.lag_ns);
	}
}

static void run(struct core *core, struct taut_timeline *timeline)
{
	uint32_t n_run = 0;
	int64_t makespan_ns = 0;
	struct ready_op ready;

	while ((ready = ready_take(&core->ready)).op != TAUT_NONE) {
		uint32_t op = ready.op;
		int64_t end_ns = ready.start_ns + core->dur_ns[op];
		core->end_ns[op] = end_ns;
		makespan_ns = max64(makespan_ns, end_ns);
		timeline->order[n_run++] = op;
		if (core->pending[op + 1] & TAUTI_ON_LANE)
			release(core, op + 1, op,
				end_ns + min64(core->gap_ns[op + 1], 0));
		if (core->edge_begin[op] != core->edge_begin[op + 1])
			release_edges(core, op, ready.start_ns, end_ns);
	}
	timeline->n_run = n_run;
	timeline->makespan_ns = makespan_ns;
}

/* An edge out of a muted op is one wait less. */
static void drop_muted(struct core *core, uint32_t n_ops)
{
	for (uint32_t op = 0; op < n_ops; op++) {
		if (!core->mute[op])
			continue;
		for (uint32_t i = core->edge_begin[op];
				i < core->edge_begin[op + 1]; i++)
			core->pending[core->waits[i].to]--;
	}
}

static void prepare(struct core *core, const struct tauti_scratch *scratch)
{
	uint32_t n_ops = scratch->graph->n_ops;
	memcpy(core->pending, scratch->all_pending,
		((size_t)n_ops + 1) * sizeof *core->pending);
	if (core->mute)
		drop_muted(core, n_ops);
	ready_clear(&core->ready);
	core->any = TAUT_NONE;
	for (uint32_t op = 0; op < n_ops; op++) {
		core->start_ns[op] = INT64_MIN;
		core->decided_by[op] = TAUT_NONE;
		if (core->pending[op])
			continue;
		core->start_ns[op] = max64(core->gap_ns[op], 0);
		ready_put(&core->ready,
			(struct ready_op){ core->start_ns[op], op });
	}
}

void tauti_core_begin(struct core *core, const struct taut_graph *graph,
	const struct taut_replay_edit *edit, struct taut_timeline *timeline)
{
	const struct tauti_scratch *scratch = timeline->scratch;
	*core = (struct core){
		.dur_ns = edit->dur_ns ? edit->dur_ns : graph->dur_ns,
		.gap_ns = edit->gap_ns ? edit->gap_ns : graph->gap_ns,
		.mute = edit->mute,
		.edge_begin = graph->edge_begin,
		.waits = scratch->waits,
		.pending = scratch->pending,
		.start_ns = timeline->start_ns,
		.end_ns = timeline->end_ns,
		.decided_by = timeline->decided_by,
		.ready.heap = scratch->heap,
		.unordered = edit->unordered != 0,
	};
	prepare(core, scratch);
}

taut_status taut_replay(const struct taut_graph *graph,
	const struct taut_replay_edit *edit, struct taut_timeline *timeline,
	struct taut_error *reterr)
{
	static const struct taut_replay_edit no_edit;
	struct core core;
	taut_status status = tauti_replay_check(
		graph, edit, timeline->scratch, reterr);
	if (status)
		return status;
	if (!edit)
		edit = &no_edit;
	if (edit->dispatcher && !edit->sharing)
		return tauti_replay_dispatched(graph, edit, timeline, reterr);
	if (edit->sharing)
		return tauti_replay_shared(
			graph, edit, timeline, NULL, reterr);
	if (edit->unordered && tauti_replay_sweep(graph, edit, timeline))
		return TAUT_OK;
	tauti_core_begin(&core, graph, edit, timeline);
	run(&core, timeline);
	if (timeline->n_run < graph->n_ops)
		return tauti_replay_circle(graph, edit->mute, timeline, reterr);
	return TAUT_OK;
}
