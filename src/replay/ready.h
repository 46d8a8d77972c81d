/* ready.h - the operations whose waits are over, earliest (start, id) first.
 *
 * A 4-ary heap, and beside it the earliest op that was put in since the
 * last take. After an op has run, the next on its lane is mostly the only
 * one to become ready: it then either is the earliest of all and never sees
 * the heap, or takes the root's place in one walk down.
 *
 * Invariants: no child is before its parent; heap[n] .. heap[n + 3] are
 *             NOTHING, so that a walk may compare four children always;
 *             the room is the widest frontier + READY_SPARE.
 * A frontier is as wide as there are lanes: it stays in the L1 cache. */
#ifndef TAUT_REPLAY_READY_H
#define TAUT_REPLAY_READY_H

#include <stdbool.h>

#include <taut/base.h>

struct ready_op {
	int64_t start_ns;
	uint32_t op;
};

#define READY_SPARE 4
#define READY_NOTHING ((struct ready_op){ INT64_MAX, TAUT_NONE })

struct ready {
	struct ready_op *heap;
	uint32_t n;
	struct ready_op held; /* or NOTHING */
};

/* No short circuit: which of two comes first cannot be predicted. */
static inline bool ready_before(struct ready_op a, struct ready_op b)
{
	return (a.start_ns < b.start_ns) |
		((a.start_ns == b.start_ns) & (a.op < b.op));
}

static inline void ready_clear(struct ready *ready)
{
	ready->n = 0;
	ready->held = READY_NOTHING;
	for (int i = 0; i < READY_SPARE; i++)
		ready->heap[i] = READY_NOTHING;
}

static inline void ready_rise(struct ready *ready, struct ready_op op)
{
	uint32_t at = ready->n++;
	ready->heap[at + READY_SPARE] = READY_NOTHING;
	while (at) {
		uint32_t parent = (at - 1) / 4;
		if (!ready_before(op, ready->heap[parent]))
			break;
		ready->heap[at] = ready->heap[parent];
		at = parent;
	}
	ready->heap[at] = op;
}

/* Puts op in the place of the root. */
static inline void ready_sink(struct ready *ready, struct ready_op op)
{
	struct ready_op *heap = ready->heap;
	uint32_t at = 0, child = 1;
	while (child < ready->n) {
		uint32_t a = child + ready_before(heap[child + 1], heap[child]);
		uint32_t b = child + 2 +
			ready_before(heap[child + 3], heap[child + 2]);
		uint32_t least = ready_before(heap[b], heap[a]) ? b : a;
		if (!ready_before(heap[least], op))
			break;
		heap[at] = heap[least];
		at = least;
		child = 4 * at + 1;
	}
	heap[at] = op;
}

static inline void ready_put(struct ready *ready, struct ready_op op)
{
	if (ready_before(op, ready->held)) {
		struct ready_op later = ready->held;
		ready->held = op;
		if (later.op == TAUT_NONE)
			return;
		op = later;
	}
	ready_rise(ready, op);
}

/* When the earliest one starts; INT64_MAX: there is none. */
static inline int64_t ready_first_ns(const struct ready *ready)
{
	int64_t first_ns = ready->heap[0].start_ns;
	return ready->held.start_ns < first_ns
		? ready->held.start_ns : first_ns;
}

/* The earliest one, or NOTHING. */
static inline struct ready_op ready_take(struct ready *ready)
{
	struct ready_op first = ready->heap[0], held = ready->held;
	ready->held = READY_NOTHING;
	if (!ready_before(first, held))
		return held;
	if (held.op == TAUT_NONE) {
		held = ready->heap[--ready->n];
		ready->heap[ready->n] = READY_NOTHING;
		if (!ready->n)
			return first;
	}
	ready_sink(ready, held);
	return first;
}

#endif /* TAUT_REPLAY_READY_H */
