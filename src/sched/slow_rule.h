/* slow_rule.h - the rule of taut/sched.h by the book, for tests to compare with:
 * it looks at every task and adds up every piece anew, and knows what is ready as
 * numbers of iterations, which is not how the scheduler does it.
 *
 *     struct slow slow = { .order = ..., .tasks = tasks, .n_tasks = n };
 *     slow.agreed[task]++;                 // ready, and agreed where ranks agree
 *     slow.pieces[number].finished = true; // everywhere
 *     slow_commit(&slow, limits);
 *     slow.pieces[..]                      // what must have been started
 *     free(slow.pieces); */
#ifndef TAUT_SCHED_SLOW_RULE_H
#define TAUT_SCHED_SLOW_RULE_H

#include <stdbool.h>
#include <stdlib.h>

#include <taut/sched.h>

enum { SLOW_TASKS = 200 };

struct slow_task {
	uint64_t bytes;
	int64_t priority;
	uint32_t after;
	bool joins; /* goes with the one before it */
	uint32_t parts; /* not 0: an iteration has some of it, drawn from this */
};

struct slow_limits {
	uint64_t piece_bytes, align_bytes, credit_bytes, fuse_bytes;
};

struct slow_piece {
	struct taut_sched_piece piece;
	bool joined, finished;
};

struct slow {
	enum taut_sched_order order;
	const struct slow_task *tasks;
	uint32_t n_tasks;
	uint32_t agreed[SLOW_TASKS];   /* iterations */
	uint32_t complete[SLOW_TASKS]; /* iterations that are all committed */
	uint64_t offset[SLOW_TASKS];   /* committed of the one after them */
	uint32_t next;                 /* DECLARED: the task whose turn it is */
	struct slow_piece *pieces;     /* the sequence */
	size_t n, capacity;
	size_t first; /* all before this one are finished */
	size_t batch; /* first piece of this call of slow_commit() */
};

static inline uint64_t slow_piece_bytes(struct slow_limits limits)
{
	uint64_t align = limits.align_bytes ? limits.align_bytes : 64;

	if (!limits.piece_bytes)
		return UINT64_MAX;
	return limits.piece_bytes < align ?
		align : limits.piece_bytes / align * align;
}

/* Of an iteration. */
static inline uint64_t slow_part(const struct slow_task *task, uint32_t iteration)
{
	uint64_t drawn = (task->parts + iteration) * UINT64_C(0x9e3779b97f4a7c15);

	return task->parts ? 1 + (drawn >> 32) % task->bytes : task->bytes;
}

/* Of the next one. */
static inline uint64_t slow_bytes(const struct slow *slow, uint32_t task)
{
	return slow_part(&slow->tasks[task], slow->complete[task] + 1);
}

static inline bool slow_is_whole(
	const struct slow *slow, struct slow_limits limits, uint32_t task)
{
	return slow_bytes(slow, task) <= slow_piece_bytes(limits);
}

/* Tasks that it goes with: first .. end - 1. */
static inline uint32_t slow_group(const struct slow *slow, uint32_t task)
{
	while (slow->tasks[task].joins)
		task--;
	return task;
}

static inline uint32_t slow_group_end(const struct slow *slow, uint32_t task)
{
	for (task++; task < slow->n_tasks && slow->tasks[task].joins;)
		task++;
	return task;
}

static inline bool slow_is_alone(const struct slow *slow, uint32_t task)
{
	return slow_group(slow, task) + 1 == slow_group_end(slow, task);
}

static inline bool slow_has_credit(
	struct slow *slow, struct slow_limits limits)
{
	uint64_t under_way = 0;

	while (slow->first < slow->n && slow->pieces[slow->first].finished)
		slow->first++;
	for (size_t i = slow->first; i < slow->n; i++)
		if (!slow->pieces[i].finished)
			under_way += slow->pieces[i].piece.bytes;
	return !limits.credit_bytes || under_way < limits.credit_bytes;
}

/* Bytes of the pieces that are started with the last one. */
static inline uint64_t slow_together(const struct slow *slow)
{
	uint64_t bytes = 0;

	for (size_t i = slow->n; i-- > slow->batch;) {
		bytes += slow->pieces[i].piece.bytes;
		if (!slow->pieces[i].joined)
			break;
	}
	return bytes;
}

static inline bool slow_joins(
	const struct slow *slow, struct slow_limits limits, uint32_t task)
{
	bool alone = slow_is_alone(slow, task);
	uint64_t most = alone ? limits.fuse_bytes : slow_piece_bytes(limits);
	const struct taut_sched_piece *before;
	uint32_t last;

	if (slow->n == slow->batch)
		return false;
	before = &slow->pieces[slow->n - 1].piece;
	last = before->task;
	if (!slow_is_whole(slow, limits, task) ||
		slow_part(&slow->tasks[last], before->iteration) >
			slow_piece_bytes(limits))
		return false;
	if (alone ? !slow_is_alone(slow, last) :
		slow_group(slow, last) != slow_group(slow, task))
		return false;
	return slow_together(slow) + slow_bytes(slow, task) <= most;
}

static inline void slow_add(
	struct slow *slow, struct slow_limits limits, uint32_t task, bool joined)
{
	uint64_t left = slow_bytes(slow, task) - slow->offset[task];
	uint64_t most = slow_piece_bytes(limits);
	struct slow_piece *at;

	if (slow->n == slow->capacity) {
		slow->capacity = 2 * slow->capacity + 64;
		slow->pieces = realloc(slow->pieces,
			slow->capacity * sizeof *slow->pieces);
		if (!slow->pieces)
			abort();
	}
	at = &slow->pieces[slow->n];
	*at = (struct slow_piece){ .joined = joined,
		.piece = { .task = task, .iteration = slow->complete[task] + 1,
			.number = slow->n, .first_byte = slow->offset[task],
			.bytes = left < most ? left : most } };
	slow->n++;
	slow->offset[task] += at->piece.bytes;
	if (slow->offset[task] == slow_bytes(slow, task)) {
		slow->offset[task] = 0;
		slow->complete[task]++;
	}
}

/* All of its group are agreed, for more iterations than it has behind it. */
static inline bool slow_is_open(const struct slow *slow, uint32_t task)
{
	for (uint32_t i = slow_group(slow, task);
		i < slow_group_end(slow, task); i++)
		if (slow->agreed[i] <= slow->complete[task])
			return false;
	return true;
}

static inline int64_t slow_priority(const struct slow *slow, uint32_t task)
{
	int64_t least = INT64_MAX;

	for (uint32_t i = slow_group(slow, task);
		i < slow_group_end(slow, task); i++)
		if (slow->tasks[i].priority < least)
			least = slow->tasks[i].priority;
	return least;
}

static inline uint32_t slow_best(const struct slow *slow)
{
	uint32_t best = TAUT_NONE;

	for (uint32_t i = 0; i < slow->n_tasks; i++)
		if (slow_is_open(slow, i) && (best == TAUT_NONE ||
			slow_priority(slow, i) < slow_priority(slow, best)))
			best = i;
	return best;
}

/* The tasks that are started together with `next`, if it is their turn: whatever an
 * iteration has of them. */
static inline uint32_t slow_run_end(
	const struct slow *slow, struct slow_limits limits)
{
	uint64_t bytes = slow->tasks[slow->next].bytes;
	uint32_t end = slow->next + 1;

	if (bytes > slow_piece_bytes(limits))
		return end;
	for (; end < slow->n_tasks; end++) {
		uint32_t after = slow->tasks[end].after;

		bytes += slow->tasks[end].bytes;
		if (!slow_is_alone(slow, end) ||
			slow->tasks[end].bytes > slow_piece_bytes(limits) ||
			bytes > limits.fuse_bytes ||
			(after != TAUT_NONE && after >= slow->next))
			break;
	}
	return end;
}

/* Of a group whose turn it is, what may go. */
static inline bool slow_commit_group(
	struct slow *slow, struct slow_limits limits)
{
	uint32_t end = slow_group_end(slow, slow->next), task = slow->next;

	while (task < end && !slow_is_open(slow, task))
		task++;
	if (task == end)
		return false;
	do {
		slow_add(slow, limits, task, slow_joins(slow, limits, task));
		task += !slow_is_open(slow, task);
	} while (task < end && slow_joins(slow, limits, task));
	if (task == end)
		slow->next = end % slow->n_tasks;
	return true;
}

static inline bool slow_commit_run(struct slow *slow, struct slow_limits limits)
{
	uint32_t end = slow_run_end(slow, limits), first = slow->next;

	if (!slow_is_alone(slow, first))
		return slow_commit_group(slow, limits);
	for (uint32_t i = first; i < end; i++)
		if (!slow_is_open(slow, i))
			return false;
	for (uint32_t i = first; i < end; i++)
		slow_add(slow, limits, i, i > first);
	if (!slow_is_open(slow, first))
		slow->next = end % slow->n_tasks;
	return true;
}

/* Everything that may be committed now. */
static inline void slow_commit(struct slow *slow, struct slow_limits limits)
{
	slow->batch = slow->n;
	for (;;) {
		bool has_credit = slow_has_credit(slow, limits), joined;
		uint32_t task;

		if (slow->order == TAUT_SCHED_DECLARED) {
			if (!has_credit || !slow_commit_run(slow, limits))
				return;
			continue;
		}
		task = slow_best(slow);
		if (task == TAUT_NONE)
			return;
		joined = slow_joins(slow, limits, task);
		if (!has_credit && (!joined || slow_is_alone(slow, task)))
			return;
		slow_add(slow, limits, task, joined);
	}
}

#endif /* TAUT_SCHED_SLOW_RULE_H */
