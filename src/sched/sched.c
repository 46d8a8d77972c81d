/* sched.c - what the caller says: tasks, ready, limits. */
#include "sched/sched.h"

#include <inttypes.h>
#include <stdlib.h>

enum { DEFAULT_ALIGN_BYTES = 64 };

static taut_status no_memory(struct taut_error *reterr)
{
	return taut_error_set(
		reterr, TAUT_ENOMEM, -1, "scheduler: out of memory");
}

/* --- life --------------------------------------------------------------------------*/

static void set_limits(struct taut_sched *sched, uint64_t piece_bytes,
	uint64_t credit_bytes, uint64_t fuse_bytes)
{
	struct taut_sched_options *limits = &sched->limits;
	uint64_t align = limits->align_bytes;

	if (piece_bytes && piece_bytes < align)
		piece_bytes = align;
	limits->piece_bytes = piece_bytes - piece_bytes % align;
	limits->credit_bytes = credit_bytes;
	limits->fuse_bytes = fuse_bytes;
}

static taut_status check_made_of(const struct taut_sched_options *options,
	const struct taut_sched_engine *engine, bool agreeing,
	struct taut_error *reterr)
{
	if (options->order > TAUT_SCHED_ALONE)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"scheduler: order %d is none", (int)options->order);
	if (!engine->start || !engine->done || (agreeing && !engine->agree))
		return taut_error_set(reterr, TAUT_EINVAL, -1, "scheduler: the "
			"engine lacks start(), done(), or agree() that several "
			"ranks need");
	return TAUT_OK;
}

taut_status taut_sched_create(const struct taut_sched_options *options,
	const struct taut_sched_engine *engine, void *context,
	struct taut_sched **ret_sched, struct taut_error *reterr)
{
	bool agreeing = options->order == TAUT_SCHED_AGREED &&
		options->n_ranks > 1;
	taut_status status = check_made_of(options, engine, agreeing, reterr);
	struct taut_sched *sched;

	if (status)
		return status;
	sched = calloc(1, sizeof *sched);
	if (!sched)
		return no_memory(reterr);
	pthread_mutex_init(&sched->lock, NULL);
	sched->engine = *engine;
	sched->context = context;
	sched->agreeing = agreeing;
	sched->limits = *options;
	if (!sched->limits.align_bytes)
		sched->limits.align_bytes = DEFAULT_ALIGN_BYTES;
	set_limits(sched, options->piece_bytes, options->credit_bytes,
		options->fuse_bytes);
	sched->oldest = sched->newest = TAUT_NONE;
	sched->first_done = sched->last_done = TAUT_NONE;
	*ret_sched = sched;
	return TAUT_OK;
}

static void free_frozen(struct taut_sched *sched)
{
	free(sched->by_position);
	free(sched->together);
	free(sched->rounds.ready);
	tauti_bits_fini(&sched->open);
	sched->by_position = NULL;
	sched->together = NULL;
	sched->rounds.ready = NULL;
}

void taut_sched_destroy(struct taut_sched *sched)
{
	if (!sched)
		return;
	free_frozen(sched);
	free(sched->rounds.words);
	tauti_flight_fini(&sched->flight);
	taut_vec_free(&sched->tasks);
	pthread_mutex_destroy(&sched->lock);
	free(sched);
}

/* --- declaring ---------------------------------------------------------------------*/

static taut_status declare(struct taut_sched *sched, uint64_t bytes,
	int64_t priority, uint32_t after, struct taut_error *reterr)
{
	uint32_t task = (uint32_t)sched->tasks.count;
	struct tauti_task *it;

	if (sched->frozen || !bytes || task == TAUT_NONE - 1 ||
		(after != TAUT_NONE && after >= task))
		return taut_error_set(reterr, TAUT_EINVAL, -1, "scheduler: "
			"task %" PRIu32 ": a task has bytes, comes after one "
			"that was declared before it or after none, and is "
			"declared before the first is ready", task);
	if (!taut_vec_push(&sched->tasks, (struct tauti_task){ .bytes = 0 }))
		return no_memory(reterr);
	it = &sched->tasks.data[task];
	it->bytes = bytes;
	it->priority = priority;
	it->after = after;
	it->root = it->group = task;
	it->n_group = 1;
	it->first_heir = it->next_heir = TAUT_NONE;
	it->older = it->newer = it->next_done = TAUT_NONE;
	if (after != TAUT_NONE) {
		struct tauti_task *before = &sched->tasks.data[after];

		it->root = before->root;
		it->next_heir = before->first_heir;
		before->first_heir = task;
	}
	sched->tasks.data[it->root].n_tree++;
	return TAUT_OK;
}

taut_status taut_sched_declare(struct taut_sched *sched, uint64_t bytes,
	int64_t priority, uint32_t after, uint32_t *ret_task,
	struct taut_error *reterr)
{
	taut_status status = tauti_sched_enter(sched);

	if (!status) {
		status = declare(sched, bytes, priority, after, reterr);
		if (!status)
			*ret_task = (uint32_t)sched->tasks.count - 1;
	}
	return tauti_sched_leave(sched, status, reterr);
}

static taut_status join(struct taut_sched *sched, struct taut_error *reterr)
{
	struct tauti_task *tasks = sched->tasks.data;
	size_t last = sched->tasks.count - 1;

	if (sched->frozen || sched->tasks.count < 2 ||
		tasks[last].after != TAUT_NONE ||
		tasks[last - 1].after != TAUT_NONE)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "scheduler: "
			"two tasks that were declared one after the other, and "
			"come after none, go together, which is said before the "
			"first is ready");
	if (tasks[last].group == last) {
		tasks[last].group = tasks[last - 1].group;
		tasks[tasks[last].group].n_group++;
	}
	return TAUT_OK;
}

taut_status taut_sched_join(struct taut_sched *sched, struct taut_error *reterr)
{
	taut_status status = tauti_sched_enter(sched);

	if (!status)
		status = join(sched, reterr);
	return tauti_sched_leave(sched, status, reterr);
}

/* Tasks of a group stand one behind the other. */
static int by_priority(const void *a, const void *b, void *tasks)
{
	const struct tauti_task *all = tasks;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int64_t of_x = all[all[x].group].least;
	int64_t of_y = all[all[y].group].least;

	if (of_x != of_y)
		return of_x < of_y ? -1 : 1;
	return (x > y) - (x < y);
}

static void find_least(struct taut_sched *sched)
{
	struct tauti_task *tasks = sched->tasks.data;

	for (uint32_t i = 0; i < sched->tasks.count; i++) {
		int64_t *least = &tasks[tasks[i].group].least;

		if (tasks[i].group == i || tasks[i].priority < *least)
			*least = tasks[i].priority;
	}
}

static void find_positions(struct taut_sched *sched)
{
	uint32_t n = (uint32_t)sched->tasks.count;

	find_least(sched);
	for (uint32_t i = 0; i < n; i++)
		sched->by_position[i] = i;
	if (sched->limits.order != TAUT_SCHED_DECLARED)
		qsort_r(sched->by_position, n, sizeof *sched->by_position,
			by_priority, sched->tasks.data);
	for (uint32_t i = 0; i < n; i++)
		sched->tasks.data[sched->by_position[i]].position = i;
	sched->unsorted = false;
}

/* All that the tasks need from now on, so that what follows asks for memory only
 * where more pieces are under way than ever. */
static taut_status freeze(struct taut_sched *sched, struct taut_error *reterr)
{
	uint32_t n = (uint32_t)sched->tasks.count;

	sched->by_position = calloc(n, sizeof *sched->by_position);
	sched->together = calloc(n, sizeof *sched->together);
	sched->rounds.ready = calloc(
		tauti_bits_words(n), sizeof *sched->rounds.ready);
	if (!sched->by_position || !sched->together || !sched->rounds.ready ||
		!tauti_bits_init(&sched->open, n)) {
		free_frozen(sched);
		return no_memory(reterr);
	}
	find_positions(sched);
	tauti_sched_begin_run(sched, 0);
	sched->frozen = true;
	return TAUT_OK;
}

/* --- iterations --------------------------------------------------------------------*/

static void begin_iteration(
	struct taut_sched *sched, uint32_t task, uint64_t bytes)
{
	struct tauti_task *it = &sched->tasks.data[task];

	it->begun++;
	it->part_bytes = bytes;
	it->committed_bytes = it->finished_bytes = 0;
	if (sched->agreeing)
		tauti_rounds_ready(sched, task);
	else
		tauti_sched_open(sched, task);
}

/* bytes: 0: all that it has. */
static taut_status make_ready(struct taut_sched *sched, uint32_t task,
	uint64_t bytes, struct taut_error *reterr)
{
	struct tauti_task *it;
	taut_status status;

	if (task >= sched->tasks.count)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"scheduler: there is no task %" PRIu32, task);
	it = &sched->tasks.data[task];
	if (bytes > it->bytes || (bytes && it->n_tree > 1))
		return taut_error_set(reterr, TAUT_EINVAL, -1, "scheduler: "
			"task %" PRIu32 " is ready with %" PRIu64 " bytes: of "
			"its %" PRIu64 " some are, where no task comes after it",
			task, bytes, it->bytes);
	if (it->root != task)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "scheduler: "
			"task %" PRIu32 " is ready when task %" PRIu32
			" is done, and not before", task, it->after);
	if (it->n_left)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "scheduler: "
			"task %" PRIu32 " is ready, but its iteration %" PRIu32
			" is not done", task, it->begun);
	if (!sched->frozen && (status = freeze(sched, reterr)) != TAUT_OK)
		return status;
	if (sched->unsorted)
		find_positions(sched);
	it->n_left = it->n_tree;
	sched->n_left += it->n_tree;
	begin_iteration(sched, task, bytes ? bytes : it->bytes);
	tauti_sched_commit(sched);
	return TAUT_OK;
}

taut_status taut_sched_ready(
	struct taut_sched *sched, uint32_t task, struct taut_error *reterr)
{
	taut_status status = tauti_sched_enter(sched);

	if (!status)
		status = make_ready(sched, task, 0, reterr);
	return tauti_sched_leave(sched, status, reterr);
}

taut_status taut_sched_ready_part(struct taut_sched *sched, uint32_t task,
	uint64_t bytes, struct taut_error *reterr)
{
	taut_status status = tauti_sched_enter(sched);

	if (!status && !bytes)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "scheduler: "
			"task %" PRIu32 " is ready, but nothing of it", task);
	else if (!status)
		status = make_ready(sched, task, bytes, reterr);
	return tauti_sched_leave(sched, status, reterr);
}

static void end_iteration(struct taut_sched *sched, uint32_t task)
{
	struct tauti_task *tasks = sched->tasks.data;

	for (uint32_t heir = tasks[task].first_heir; heir != TAUT_NONE;
		heir = tasks[heir].next_heir)
		begin_iteration(sched, heir, tasks[heir].bytes);
	tasks[task].next_done = TAUT_NONE;
	if (sched->first_done == TAUT_NONE)
		sched->first_done = task;
	else
		tasks[sched->last_done].next_done = task;
	sched->last_done = task;
}

static void finish(struct taut_sched *sched, uint64_t number)
{
	const struct taut_sched_piece *piece =
		&tauti_flight_row(&sched->flight, number)->piece;
	struct tauti_task *it = &sched->tasks.data[piece->task];

	tauti_flight_finish(&sched->flight, number);
	sched->under_way_bytes -= piece->bytes;
	it->finished_bytes += piece->bytes;
	if (it->finished_bytes == it->part_bytes)
		end_iteration(sched, piece->task);
	if (sched->agreeing)
		sched->rounds.news_finished = true;
	else
		tauti_sched_release(sched, number);
	tauti_sched_commit(sched);
}

taut_status taut_sched_finished(
	struct taut_sched *sched, uint64_t number, struct taut_error *reterr)
{
	const struct tauti_flight *flight = &sched->flight;
	taut_status status = tauti_sched_enter(sched);

	if (!status && number >= flight->floor && number < sched->started &&
		!tauti_flight_has(flight, flight->finished, number))
		finish(sched, number);
	else if (!status)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "scheduler: "
			"piece %" PRIu64 " is finished, but was not under way",
			number);
	return tauti_sched_leave(sched, status, reterr);
}

/* --- limits, failure, counts -------------------------------------------------------*/

taut_status taut_sched_tune(struct taut_sched *sched, uint64_t piece_bytes,
	uint64_t credit_bytes, uint64_t fuse_bytes, struct taut_error *reterr)
{
	taut_status status = tauti_sched_enter(sched);

	if (!status && sched->n_left)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "scheduler: "
			"limits change between iterations, but %" PRIu32
			" tasks are not done", sched->n_left);
	else if (!status) {
		set_limits(sched, piece_bytes, credit_bytes, fuse_bytes);
		if (sched->frozen)
			tauti_sched_begin_run(sched, sched->run_begin);
	}
	return tauti_sched_leave(sched, status, reterr);
}

/* Positions are those of open tasks, of which there is none. */
taut_status taut_sched_prioritize(struct taut_sched *sched, uint32_t task,
	int64_t priority, struct taut_error *reterr)
{
	taut_status status = tauti_sched_enter(sched);

	if (!status && (sched->limits.order != TAUT_SCHED_ALONE || sched->n_left ||
		task >= sched->tasks.count))
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "scheduler: "
			"task %" PRIu32 ": a priority changes where a rank "
			"orders alone, and between iterations", task);
	else if (!status) {
		sched->tasks.data[task].priority = priority;
		sched->unsorted = sched->frozen;
	}
	return tauti_sched_leave(sched, status, reterr);
}

void taut_sched_fail(
	struct taut_sched *sched, taut_status status, const char *why)
{
	struct taut_error err;

	taut_error_set(&err, status ? status : TAUT_EIO, -1, "%s", why);
	(void)tauti_sched_enter(sched);
	tauti_sched_fail(sched, &err);
	(void)tauti_sched_leave(sched, TAUT_OK, NULL);
}

void taut_sched_counts(
	struct taut_sched *sched, struct taut_sched_counts *ret_counts)
{
	pthread_mutex_lock(&sched->lock);
	*ret_counts = sched->counts;
	pthread_mutex_unlock(&sched->lock);
}
