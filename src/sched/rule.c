/* rule.c - which pieces are committed, in which order, and which together. */
#include "sched/sched.h"

static struct tauti_task *task_of(const struct taut_sched *sched, uint32_t task)
{
	return &sched->tasks.data[task];
}

bool tauti_sched_whole(const struct taut_sched *sched, uint32_t task)
{
	uint64_t limit = sched->limits.piece_bytes;

	return !limit || task_of(sched, task)->bytes <= limit;
}

bool tauti_sched_has_credit(const struct taut_sched *sched, uint64_t bytes)
{
	uint64_t credit = sched->limits.credit_bytes;

	return !credit || bytes < credit;
}

/* --- open tasks --------------------------------------------------------------------*/

void tauti_sched_open(struct taut_sched *sched, uint32_t task)
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
		.bytes = it->bytes - it->committed_bytes };

	if (!tauti_sched_whole(sched, task) &&
		piece.bytes > sched->limits.piece_bytes)
		piece.bytes = sched->limits.piece_bytes;
	if (!tauti_flight_add(&sched->flight, &piece, joined)) {
		tauti_sched_fail_memory(sched);
		return false;
	}
	it->committed_bytes += piece.bytes;
	if (it->committed_bytes == it->bytes)
		close_task(sched, task);
	sched->charged_bytes += piece.bytes;
	sched->under_way_bytes += piece.bytes;
	if (sched->under_way_bytes > sched->counts.most_under_way_bytes)
		sched->counts.most_under_way_bytes = sched->under_way_bytes;
	sched->counts.pieces++;
	return true;
}

/* Is the task, committed next, started with the one before it? *together is
 * the bytes of those so far, 0 where nothing can join. */
static bool joins(
	const struct taut_sched *sched, uint32_t task, uint64_t *together)
{
	uint64_t bytes = task_of(sched, task)->bytes;
	uint64_t limit = sched->limits.fuse_bytes;

	if (!tauti_sched_whole(sched, task)) {
		*together = 0;
		return false;
	}
	if (*together && *together < limit && bytes <= limit - *together) {
		*together += bytes;
		return true;
	}
	*together = bytes;
	return false;
}

static void commit_by_priority(struct taut_sched *sched)
{
	uint64_t together = 0;

	while (tauti_sched_has_credit(sched, sched->charged_bytes)) {
		uint32_t position = tauti_bits_first(&sched->open), task;

		if (position == TAUT_NONE)
			return;
		task = sched->by_position[position];
		sched->counts.overtaken += task != sched->oldest;
		if (!commit_piece(sched, task, joins(sched, task, &together)))
			return;
	}
}

/* --- as declared -------------------------------------------------------------------*/

/* A task that waits for another of the run would wait forever. */
void tauti_sched_begin_run(struct taut_sched *sched, uint32_t first)
{
	uint64_t together = 0;
	uint32_t end = first + 1;

	joins(sched, first, &together);
	while (end < sched->tasks.count) {
		uint32_t after = task_of(sched, end)->after;

		if ((after != TAUT_NONE && after >= first) ||
			!joins(sched, end, &together))
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

static void commit_as_declared(struct taut_sched *sched)
{
	while (tauti_sched_has_credit(sched, sched->charged_bytes) &&
		run_is_ready(sched)) {
		uint32_t task = sched->run_begin;

		for (; task < sched->run_end; task++)
			if (!commit_piece(sched, task, task > sched->run_begin))
				return;
		if (tauti_bits_has(&sched->open, task - 1))
			continue; /* pieces of it are left */
		tauti_sched_begin_run(sched,
			task < sched->tasks.count ? task : 0);
	}
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
