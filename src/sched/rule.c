/* rule.c - which pieces are committed, in which order, and which together. */
#include "sched/sched.h"

static struct tauti_task *task_of(const struct taut_sched *sched, uint32_t task)
{
	return &sched->tasks.data[task];
}

static bool is_whole(const struct taut_sched *sched, uint64_t bytes)
{
	uint64_t limit = sched->limits.piece_bytes;

	return !limit || bytes <= limit;
}

bool tauti_sched_has_credit(const struct taut_sched *sched, uint64_t bytes)
{
	uint64_t credit = sched->limits.credit_bytes;

	return !credit || bytes < credit;
}

/* --- open tasks --------------------------------------------------------------------*/

static void open_task(struct taut_sched *sched, uint32_t task)
{
	struct tauti_task *it = task_of(sched, task);

	tauti_bits_set(&sched->open, it->position);
	it->older = sched->newest;
	it->newer = TAUT_NONE;
	if (sched->newest == TAUT_NONE)
		sched->oldest = task;
	else
		task_of(sched, sched->newest)->newer = task;
	sched->newest = task;
}

void tauti_sched_open(struct taut_sched *sched, uint32_t task)
{
	uint32_t first = task_of(sched, task)->group;
	struct tauti_task *group = task_of(sched, first);

	if (++group->n_there < group->n_group)
		return;
	group->n_there = 0;
	for (uint32_t i = 0; i < group->n_group; i++)
		open_task(sched, first + i);
}

static void close_task(struct taut_sched *sched, uint32_t task)
{
	struct tauti_task *it = task_of(sched, task);

	tauti_bits_clear(&sched->open, it->position);
	if (it->older == TAUT_NONE)
		sched->oldest = it->newer;
	else
		task_of(sched, it->older)->newer = it->newer;
	if (it->newer == TAUT_NONE)
		sched->newest = it->older;
	else
		task_of(sched, it->newer)->older = it->older;
}

/* --- committing --------------------------------------------------------------------*/

static bool commit_piece(struct taut_sched *sched, uint32_t task, bool joined)
{
	struct tauti_task *it = task_of(sched, task);
	struct taut_sched_piece piece = { .task = task,
		.iteration = it->begun, .first_byte = it->committed_bytes,
		.bytes = it->part_bytes - it->committed_bytes };

	if (!is_whole(sched, piece.bytes))
		piece.bytes = sched->limits.piece_bytes;
	if (!tauti_flight_add(&sched->flight, &piece, joined)) {
		tauti_sched_fail_memory(sched);
		return false;
	}
	it->committed_bytes += piece.bytes;
	if (it->committed_bytes == it->part_bytes)
		close_task(sched, task);
	sched->charged_bytes += piece.bytes;
	sched->under_way_bytes += piece.bytes;
	if (sched->under_way_bytes > sched->counts.most_under_way_bytes)
		sched->counts.most_under_way_bytes = sched->under_way_bytes;
	sched->counts.pieces++;
	return true;
}

struct together { /* what is started at once, so far */
	uint64_t bytes;  /* 0: nothing can join */
	uint32_t group;  /* TAUT_NONE: tasks that go with no others */
};

static uint32_t group_of(const struct taut_sched *sched, uint32_t task)
{
	uint32_t group = task_of(sched, task)->group;

	return task_of(sched, group)->n_group > 1 ? group : TAUT_NONE;
}

/* Is the task, committed next with so many bytes, started with the one before it? */
static bool joins(const struct taut_sched *sched, uint32_t task, uint64_t bytes,
	struct together *together)
{
	const struct taut_sched_options *limits = &sched->limits;
	uint32_t group = group_of(sched, task);
	uint64_t most = limits->fuse_bytes;

	if (group != TAUT_NONE)
		most = limits->piece_bytes ? limits->piece_bytes : UINT64_MAX;
	if (!is_whole(sched, bytes)) {
		together->bytes = 0;
		return false;
	}
	if (together->bytes && together->group == group &&
		together->bytes < most && bytes <= most - together->bytes) {
		together->bytes += bytes;
		return true;
	}
	*together = (struct together){ bytes, group };
	return false;
}

static bool may_begin(const struct taut_sched *sched)
{
	return tauti_sched_has_credit(sched, sched->charged_bytes);
}

/* What joins one of its own group needs no credit of its own. */
static void commit_by_priority(struct taut_sched *sched)
{
	struct together together = { 0, TAUT_NONE };
	uint32_t position;

	while ((position = tauti_bits_first(&sched->open)) != TAUT_NONE) {
		uint32_t task = sched->by_position[position];
		bool joined = joins(sched, task,
			task_of(sched, task)->part_bytes, &together);

		if (!(joined && together.group != TAUT_NONE) &&
			!may_begin(sched))
			return;
		sched->counts.overtaken += task != sched->oldest;
		if (!commit_piece(sched, task, joined))
			return;
	}
}

/* --- as declared -------------------------------------------------------------------*/

/* A group is a run. Of other tasks, one that waits for another of the run would wait
 * forever. What an iteration has of a task may not be known yet: all of it counts. */
void tauti_sched_begin_run(struct taut_sched *sched, uint32_t first)
{
	struct together together = { 0, TAUT_NONE };
	uint32_t end = first + task_of(sched, first)->n_group;

	joins(sched, first, task_of(sched, first)->bytes, &together);
	while (end < sched->tasks.count) {
		uint32_t after = task_of(sched, end)->after;

		if ((after != TAUT_NONE && after >= first) ||
			!joins(sched, end, task_of(sched, end)->bytes,
				&together))
			break;
		end++;
	}
	sched->run_begin = sched->run_ready = first;
	sched->run_end = end;
}

static bool run_is_ready(struct taut_sched *sched)
{
	while (sched->run_ready < sched->run_end &&
		tauti_bits_has(&sched->open, sched->run_ready))
		sched->run_ready++;
	return sched->run_ready == sched->run_end;
}

/* What is left of the run, as far as there is credit. True: all of it. */
static bool commit_run(struct taut_sched *sched)
{
	struct together together = { 0, TAUT_NONE };

	for (uint32_t task = sched->run_begin; task < sched->run_end; task++)
		while (tauti_bits_has(&sched->open, task)) {
			bool joined = joins(sched, task,
				task_of(sched, task)->part_bytes, &together);

			if ((!joined && !may_begin(sched)) ||
				!commit_piece(sched, task, joined))
				return false;
		}
	return true;
}

static void commit_as_declared(struct taut_sched *sched)
{
	while (may_begin(sched) && run_is_ready(sched) && commit_run(sched))
		tauti_sched_begin_run(sched,
			sched->run_end < sched->tasks.count ?
			sched->run_end : 0);
}

void tauti_sched_commit(struct taut_sched *sched)
{
	if (sched->limits.order == TAUT_SCHED_DECLARED)
		commit_as_declared(sched);
	else
		commit_by_priority(sched);
}

void tauti_sched_release(struct taut_sched *sched, uint64_t number)
{
	sched->charged_bytes -=
		tauti_flight_row(&sched->flight, number)->piece.bytes;
	tauti_flight_release(&sched->flight, number);
}
