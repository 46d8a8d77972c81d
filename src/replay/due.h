/* due.h - which thing is due next: a 4-ary heap by (time, id) that knows the
 * place of each id, so that what is due can be put off or called off. No
 * entry is ever stale, and the room is one entry an id.
 *
 * Invariant: heap[place[id]].id == id for every id that is in it; the place of
 *            all others is TAUT_NONE. */
#ifndef TAUT_REPLAY_DUE_H
#define TAUT_REPLAY_DUE_H

#include <stdbool.h>

#include <taut/base.h>

struct due_at {
	int64_t at_ns;
	uint32_t id;
};

struct due {
	struct due_at *heap;
	uint32_t *place; /* by id */
	uint32_t n;
};

static inline bool due_before(struct due_at a, struct due_at b)
{
	return (a.at_ns < b.at_ns) | ((a.at_ns == b.at_ns) & (a.id < b.id));
}

static inline void due_lay(struct due *due, uint32_t at, struct due_at it)
{
	due->heap[at] = it;
	due->place[it.id] = at;
}

static inline void due_rise(struct due *due, uint32_t at, struct due_at it)
{
	while (at) {
		uint32_t parent = (at - 1) / 4;
		if (!due_before(it, due->heap[parent]))
			break;
		due_lay(due, at, due->heap[parent]);
		at = parent;
	}
	due_lay(due, at, it);
}

static inline void due_sink(struct due *due, uint32_t at, struct due_at it)
{
	for (;;) {
		uint32_t least = 4 * at + 1;
		uint32_t end = least + 4 < due->n ? least + 4 : due->n;
		for (uint32_t i = least + 1; i < end; i++) {
			if (due_before(due->heap[i], due->heap[least]))
				least = i;
		}
		if (least >= due->n || !due_before(due->heap[least], it))
			break;
		due_lay(due, at, due->heap[least]);
		at = least;
	}
	due_lay(due, at, it);
}

static inline void due_set(struct due *due, uint32_t id, int64_t at_ns)
{
	struct due_at it = { at_ns, id };
	uint32_t at = due->place[id];
	if (at == TAUT_NONE)
		due_rise(due, due->n++, it);
	else if (due_before(it, due->heap[at]))
		due_rise(due, at, it);
	else
		due_sink(due, at, it);
}

static inline void due_drop(struct due *due, uint32_t id)
{
	uint32_t at = due->place[id];
	if (at == TAUT_NONE)
		return;
	struct due_at last = due->heap[--due->n];
	due->place[id] = TAUT_NONE;
	if (at == due->n)
		return;
	if (due_before(last, due->heap[(at - !!at) / 4]))
		due_rise(due, at, last);
	else
		due_sink(due, at, last);
}

/* INT64_MAX: nothing is. */
static inline int64_t due_first_ns(const struct due *due)
{
	return due->n ? due->heap[0].at_ns : INT64_MAX;
}

#endif /* TAUT_REPLAY_DUE_H */
