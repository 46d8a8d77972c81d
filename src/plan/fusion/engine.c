/* engine.c - a state played by the simplest means: build a graph, replay it. */
#include <stdlib.h>

#include <taut/replay.h>

#include "plan/fusion/fusion.h"

struct full {
	const struct taut_edit *edit;
	struct taut_graph *graph;
	struct taut_timeline timeline;
	uint32_t *op_of; /* by op of the edit, op of the graph */
	uint32_t *id_of; /* and back */
	uint32_t room, graph_room;
	uint32_t last;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a state");
}

static taut_status full_create(
	struct taut_edit *edit, void **ret_self, struct taut_error *err)
{
	struct full *full = calloc(1, sizeof *full);

	if (!full)
		return no_memory(err);
	full->edit = edit;
	*ret_self = full;
	return TAUT_OK;
}

static void drop(struct full *full)
{
	taut_timeline_fini(&full->timeline);
	full->timeline = (struct taut_timeline) { 0 };
	taut_graph_destroy(full->graph);
	full->graph = NULL;
}

static void full_destroy(void *self)
{
	struct full *full = self;

	if (!full)
		return;
	drop(full);
	free(full->op_of);
	free(full->id_of);
	free(full);
}

static bool grow(uint32_t **rows, uint32_t *room, uint32_t n)
{
	uint32_t *more;

	if (n <= *room)
		return true;
	more = realloc(*rows, n * sizeof **rows);
	if (!more)
		return false;
	*rows = more;
	*room = n;
	return true;
}

static void find_last(struct full *full)
{
	const struct taut_timeline *t = &full->timeline;

	full->last = TAUT_NONE;
	for (uint32_t i = 0; i < t->n_ops; i++)
		if (full->last == TAUT_NONE ||
			t->end_ns[i] > t->end_ns[full->op_of[full->last]])
			full->last = full->id_of[i];
}

static taut_status replay(struct full *full, uint32_t n_ids,
	struct taut_error *err)
{
	const struct taut_replay_edit any_order = { .unordered = 1 };
	taut_status status = taut_timeline_init(
		&full->timeline, full->graph, err);

	if (status)
		return status;
	if (!grow(&full->id_of, &full->graph_room, full->graph->n_ops + 1))
		return no_memory(err);
	for (uint32_t i = 0; i < n_ids; i++)
		if (full->op_of[i] != TAUT_NONE)
			full->id_of[full->op_of[i]] = i;
	return taut_replay(full->graph, &any_order, &full->timeline, err);
}

static taut_status full_play(
	void *self, int64_t *ret_end_ns, struct taut_error *err)
{
	struct full *full = self;
	uint32_t n = taut_edit_ops(full->edit);
	taut_status status;

	drop(full);
	if (!grow(&full->op_of, &full->room, n + 1))
		return no_memory(err);
	status = taut_edit_build(
		full->edit, &full->graph, full->op_of, NULL, err);
	if (!status)
		status = replay(full, n, err);
	if (status)
		return status;
	find_last(full);
	*ret_end_ns = full->timeline.makespan_ns;
	return TAUT_OK;
}

static int64_t full_start(const void *self, uint32_t op)
{
	const struct full *full = self;

	return full->timeline.start_ns[full->op_of[op]];
}

static int64_t full_end(const void *self, uint32_t op)
{
	const struct full *full = self;

	return full->timeline.end_ns[full->op_of[op]];
}

static uint32_t full_decided(const void *self, uint32_t op)
{
	const struct full *full = self;
	uint32_t by = full->timeline.decided_by[full->op_of[op]];

	return by == TAUT_NONE ? TAUT_NONE : full->id_of[by];
}

static uint32_t full_last(void *self)
{
	return ((struct full *)self)->last;
}

const struct tauti_fusion_engine tauti_fusion_full = {
	.name = "full",
	.create = full_create, .destroy = full_destroy, .play = full_play,
	.start_ns = full_start, .end_ns = full_end,
	.decided_by = full_decided, .last = full_last,
};
