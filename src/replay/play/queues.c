/* queues.c - first come, first served: what takes a rank's time, goes by a connection,
 * or begins a pass is held by the replay until there is room. */
#include "play.h"

struct queue {
	uint32_t first, last; /* that wait; TAUT_NONE: none */
	uint32_t room;
};

struct queues {
	const uint32_t *queue_of; /* by op */
	struct queue *queue;
	uint32_t *next;           /* by op that waits: the one behind it */
	int64_t limit_ns;
};

static taut_status too_long(int64_t now_ns, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EAGAIN, -1,
		"takes %lld ns and more", (long long)now_ns);
}

static taut_status ready(void *context, struct taut_dispatch *dispatch,
	uint32_t op, int64_t now_ns, struct taut_error *err)
{
	struct queues *queues = context;
	struct queue *queue = &queues->queue[queues->queue_of[op]];

	if (now_ns >= queues->limit_ns)
		return too_long(now_ns, err);
	if (queue->room) {
		queue->room--;
		return taut_dispatch_release(dispatch, op, err);
	}
	queues->next[op] = TAUT_NONE;
	if (queue->first == TAUT_NONE)
		queue->first = op;
	else
		queues->next[queue->last] = op;
	queue->last = op;
	return TAUT_OK;
}

static taut_status ended(void *context, struct taut_dispatch *dispatch,
	uint32_t op, int64_t now_ns, struct taut_error *err)
{
	struct queues *queues = context;
	struct queue *queue = &queues->queue[queues->queue_of[op]];
	uint32_t next = queue->first;

	if (now_ns >= queues->limit_ns)
		return too_long(now_ns, err);
	if (next == TAUT_NONE) {
		queue->room++;
		return TAUT_OK;
	}
	queue->first = queues->next[next];
	return taut_dispatch_release(dispatch, next, err);
}

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory to play a collective");
}

static uint8_t what_is_told(uint8_t kind)
{
	return kind == TAUT_OP_ARRIVE ? TAUT_HELD :
		kind == TAUT_OP_JOIN ? TAUT_TELL_END :
		TAUT_HELD | TAUT_TELL_END;
}

static taut_status begin(const struct tauti_scene *scene,
	struct taut_arena *arena, struct queues *queues,
	struct taut_dispatcher *dispatcher, struct taut_error *err)
{
	uint32_t n_ops = scene->graph.n_ops;
	uint8_t *ops = TAUT_ARENA_ARRAY(arena, uint8_t, n_ops + 1);

	queues->queue_of = scene->queue_of;
	queues->queue = TAUT_ARENA_ARRAY(
		arena, struct queue, scene->n_queues);
	queues->next = TAUT_ARENA_ARRAY(arena, uint32_t, n_ops + 1);
	if (!ops || !queues->queue || !queues->next)
		return no_memory(err);
	for (uint32_t i = 0; i < scene->n_queues; i++) {
		bool passes = i >= scene->n_ranks && i < 2 * scene->n_ranks;

		queues->queue[i].first = TAUT_NONE;
		queues->queue[i].room = passes ? scene->at_once : 1;
	}
	for (uint32_t op = 0; op < n_ops; op++)
		if (scene->queue_of[op] != TAUT_NONE)
			ops[op] = what_is_told(scene->graph.kind[op]);
	*dispatcher = (struct taut_dispatcher){ .ops = ops, .context = queues,
		.ready = ready, .ended = ended };
	return TAUT_OK;
}

/* Every wait leads back in time or to an op with a lower end, so this ends. */
static struct tauti_played look_back(const struct tauti_scene *scene,
	const struct taut_timeline *timeline)
{
	struct tauti_played played = { timeline->makespan_ns, 0 };
	uint32_t op = 0;

	while (op < timeline->n_ops &&
		timeline->end_ns[op] != timeline->makespan_ns)
		op++;
	if (op == timeline->n_ops)
		return played;
	for (; op != TAUT_NONE; op = timeline->decided_by[op])
		played.path_messages +=
			scene->graph.kind[op] == TAUT_OP_TRANSFER;
	return played;
}

taut_status tauti_scene_play(const struct tauti_scene *scene,
	struct taut_arena *arena, int64_t limit_ns,
	struct tauti_played *ret_played, struct taut_error *err)
{
	struct queues queues = { .limit_ns = limit_ns };
	struct taut_dispatcher dispatcher;
	struct taut_replay_edit edit = { .unordered = 1 };
	struct taut_timeline timeline;
	taut_status status = taut_timeline_init(&timeline, &scene->graph, err);

	if (status)
		return status;
	if (scene->sharing.n_flows)
		edit.sharing = &scene->sharing;
	if (scene->n_held) {
		status = begin(scene, arena, &queues, &dispatcher, err);
		edit.dispatcher = &dispatcher;
	}
	if (!status)
		status = taut_replay(&scene->graph, &edit, &timeline, err);
	if (status == TAUT_EMATCH)
		status = taut_error_set(err, TAUT_EMATCH, -1,
			"the ranks' schedules wait for each other");
	else if (!status && timeline.makespan_ns >= limit_ns)
		status = too_long(timeline.makespan_ns, err);
	if (!status)
		*ret_played = look_back(scene, &timeline);
	taut_timeline_fini(&timeline);
	return status;
}
