/* again_run.c - the loop: the first of what is queued is looked at anew, and queues
 * whom that can concern.
 *
 * Invariant: an op that is not queued satisfies the equation with what those have
 *            now that it waits for, and has a higher label than they. */
#include "again.h"

#define LIMIT_NS ((int64_t)1 << 60)

static inline int64_t label_of(uint32_t place)
{
	return place == TAUT_NONE ? INT64_MAX : place * TAUTI_STRIDE;
}

static inline void put(struct taut_again *a, uint32_t op)
{
	struct again_op *is = &a->ops[op];

	if (again_has_place(is->label)) {
		again_add_place(&a->queue,
			(uint32_t)(is->label / TAUTI_STRIDE));
	} else if (!(is->word & TAUTI_IN_HEAP)) {
		is->word |= TAUTI_IN_HEAP;
		a->queue.n_heap++;
		ready_put(&a->queue.heap,
			(struct ready_op){ is->label, op });
	}
}

/* TAUT_NONE: nothing is queued. */
static inline uint32_t take(struct taut_again *a)
{
	struct again_queue *q = &a->queue;
	uint32_t place, op = a->soon;

	a->soon = TAUT_NONE;
	if (op != TAUT_NONE)
		return op;
	place = again_first_place(q);
	if (q->n_heap && ready_first_ns(&q->heap) < label_of(place)) {
		op = ready_take(&q->heap).op;
		q->n_heap--;
		a->ops[op].word &= ~(uint32_t)TAUTI_IN_HEAP;
		a->n_astray += a->ops[op].label && !again_copied(a, op);
		return op;
	}
	if (place == TAUT_NONE)
		return TAUT_NONE;
	again_drop_first(q);
	return q->op_at[place];
}

/* As put(), of the last one before the next take(): one that would come first need
 * not be queued. */
static inline void put_last(struct taut_again *a, uint32_t op)
{
	struct again_queue *q = &a->queue;
	int64_t label = a->ops[op].label;

	if (again_has_place(label) &&
		again_is_first(q, (uint32_t)(label / TAUTI_STRIDE)) &&
		(!q->n_heap || label < ready_first_ns(&q->heap)))
		a->soon = op;
	else
		put(a, op);
}

/* One that was touched is queued, and what is known of its gap and waits is old. */
static inline bool is_told(const struct taut_again *a, uint32_t op)
{
	return a->ops[op].word & TAUTI_TOUCHED;
}

void tauti_again_touch(struct taut_again *a, uint32_t op)
{
	if (is_told(a, op))
		return;
	a->ops[op].word |= TAUTI_TOUCHED;
	put(a, op);
	a->patience += 4; /* one that is new may be placed a few times */
}

/* --- whom it concerns ------------------------------------------------------------- */

static inline int64_t gap_above(const struct taut_again *a, uint32_t op)
{
	return a->ops[op].word & TAUTI_LATE ? tauti_gap(a->edit, op) : 0;
}

static inline int64_t gap_below(const struct taut_again *a, uint32_t op)
{
	return a->ops[op].word & TAUTI_EARLY ? tauti_gap(a->edit, op) : 0;
}

enum about { ABOUT_TIMES, ABOUT_LABEL };

/* A wait for op lets `to` start at at_ns. That is nothing to it as long as
 * something else decides, later. */
static inline bool concerns(const struct taut_again *a, uint32_t op,
	uint32_t to, int64_t at_ns, enum about about)
{
	const struct again_op *is = &a->ops[to];

	return about == ABOUT_LABEL ? is->label <= a->ops[op].label :
		is->decided_by == op ||
		at_ns >= is->start_ns - gap_above(a, to);
}

static inline void tell(struct taut_again *a, uint32_t op, uint32_t to,
	int64_t at_ns, enum about about)
{
	if (concerns(a, op, to, at_ns, about))
		put(a, to);
}

/* Where op has no cell, its neighbours are those of the graph below. The next on
 * the lane is left out. */
static inline void tell_below(struct taut_again *a, uint32_t op,
	enum about about)
{
	const struct again_op is = a->ops[op];
	const uint32_t *begin = a->edit->below->edge_begin;
	const uint8_t *dead = tauti_dead(a->edit);

	for (uint32_t e = begin[op]; e < begin[op + 1]; e++) {
		const struct again_edge *edge = &a->out[e];

		if (!dead[e] && !is_told(a, edge->op))
			tell(a, op, edge->op, (edge->from_start ? is.start_ns :
				is.end_ns) + edge->lag_ns, about);
	}
}

static void tell_any(struct taut_again *a, uint32_t op, enum about about)
{
	const struct again_op is = a->ops[op];
	struct tauti_walk out = tauti_walk_out(a->edit, op);
	struct tauti_seen seen;

	while (tauti_walk_on(&out, &seen))
		if (!is_told(a, seen.to))
			tell(a, op, seen.to, (seen.kind & TAUT_EDGE_FROM_START ?
				is.start_ns : is.end_ns) + seen.lag, about);
}

/* All but the next on the lane, which is returned; or TAUT_NONE. */
static inline uint32_t tell_others(struct taut_again *a, uint32_t op,
	enum about about)
{
	if (tauti_at(a->edit)[op]) {
		tell_any(a, op, about);
		return again_next(a, op);
	}
	if (a->shape[op] & TAUTI_HAS_OUT)
		tell_below(a, op, about);
	return a->shape[op] & TAUTI_TAIL ? TAUT_NONE : op + 1;
}

static inline void tell_next(struct taut_again *a, uint32_t op, uint32_t next,
	enum about about)
{
	if (next != TAUT_NONE && !is_told(a, next) && concerns(a, op, next,
		a->ops[op].end_ns + gap_below(a, next), about))
		put_last(a, next);
}

/* --- one op ------------------------------------------------------------------------- */

struct look { /* at an op's waits */
	int64_t at_ns; /* when the last one ends */
	int64_t label; /* the highest of those that it waits for; 0: none */
	uint32_t by;
};

static inline void meet(struct look *look, const struct again_op *from,
	uint32_t op, int64_t at_ns, uint32_t before)
{
	if (from->label > look->label)
		look->label = from->label;
	if (at_ns > look->at_ns || (at_ns == look->at_ns &&
		look->by != before && (op == before || op < look->by))) {
		look->at_ns = at_ns;
		look->by = op;
	}
}

static inline void look_plain(
	const struct taut_again *a, uint32_t op, struct look *look)
{
	const uint32_t *begin = a->edit->in_begin;
	uint32_t before = TAUT_NONE;

	if (a->ops[op].word & TAUTI_BEHIND) {
		before = op - 1;
		meet(look, &a->ops[before], before, a->ops[before].end_ns +
			gap_below(a, op), before);
	}
	for (uint32_t i = begin[op]; i < begin[op + 1]; i++) {
		const struct again_edge *edge = &a->in[i];
		const struct again_op *from = &a->ops[edge->op];

		meet(look, from, edge->op, (edge->from_start ?
			from->start_ns : from->end_ns) + edge->lag_ns, before);
	}
}

static void look_any(
	const struct taut_again *a, uint32_t op, struct look *look)
{
	struct tauti_walk in = tauti_walk_in(a->edit, op);
	uint32_t before = again_before(a, op);
	struct tauti_seen seen;

	if (before != TAUT_NONE)
		meet(look, &a->ops[before], before, a->ops[before].end_ns +
			gap_below(a, op), before);
	while (tauti_walk_on(&in, &seen)) {
		const struct again_op *from = &a->ops[seen.from];

		meet(look, from, seen.from, (seen.kind & TAUT_EDGE_FROM_START ?
			from->start_ns : from->end_ns) + seen.lag, before);
	}
}

static inline bool fits(int64_t ns, int64_t limit_ns)
{
	return ns < limit_ns && ns > -limit_ns;
}

/* What the edit says of op now; false: a time is too long. */
static bool read_shape(struct taut_again *a, uint32_t op)
{
	uint32_t before = again_before(a, op), n = 0, extra = 0, flags = 0;
	struct tauti_walk in = tauti_walk_in(a->edit, op);
	const uint32_t *begin = a->edit->in_begin;
	int64_t gap_ns = tauti_gap(a->edit, op);
	bool ok = fits(gap_ns, LIMIT_NS) &&
		fits(tauti_dur(a->edit, op), LIMIT_NS);
	struct tauti_seen seen;

	for (; tauti_walk_on(&in, &seen); n++) {
		extra += seen.handle >= a->edit->below->n_edges;
		ok = ok && fits(seen.lag, LIMIT_NS);
	}
	if (op < a->edit->below->n_ops && !extra &&
		n == begin[op + 1] - begin[op] &&
		(before == TAUT_NONE || before + 1 == op))
		flags = TAUTI_PLAIN |
			(before == TAUT_NONE ? 0 : TAUTI_BEHIND |
			(n ? 0 : TAUTI_SOLE));
	if (gap_ns)
		flags |= gap_ns > 0 ? TAUTI_LATE : TAUTI_EARLY;
	a->ops[op].word = (a->ops[op].word & ~(uint32_t)(TAUTI_PLAIN |
		TAUTI_BEHIND | TAUTI_SOLE | TAUTI_LATE | TAUTI_EARLY)) | flags;
	return ok;
}

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory to follow an edit");
}

static taut_status too_long(uint32_t op, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EINVAL, -1,
		"operation %u: its times, or those of its waits, add up to "
		"2^60 ns or more", (unsigned)op);
}

/* Whoever waited for it was touched, too. */
static taut_status go(struct taut_again *a, uint32_t op, struct taut_error *err)
{
	struct again_op *is = &a->ops[op];

	if (!(is->word & TAUTI_HERE) && !is->label) {
		is->word &= ~(uint32_t)TAUTI_TOUCHED;
		return TAUT_OK;
	}
	if (!again_copy(a, op) ||
		!again_most_put(a, op, again_end(is), INT64_MIN))
		return no_memory(err);
	*is = (struct again_op) { .word = a->number << TAUTI_FLAG_BITS };
	return TAUT_OK;
}

/* Behind all that it waits for, the highest label of which is `above`. */
static taut_status place(struct taut_again *a, uint32_t op, int64_t above,
	struct taut_error *err)
{
	if (!again_copy(a, op))
		return no_memory(err);
	a->ops[op].label = above + 1 + !((above + 1) & (TAUTI_STRIDE - 1));
	put(a, op);
	tell_next(a, op, tell_others(a, op, ABOUT_LABEL), ABOUT_LABEL);
	if (++a->last.placed < a->patience)
		return TAUT_OK;
	a->patience *= 2;
	return tauti_again_circle(a, err);
}

/* op's new times; false: no memory. */
static inline bool move(struct taut_again *a, uint32_t op, int64_t start_ns,
	int64_t end_ns, uint32_t by)
{
	struct again_op *is = &a->ops[op];

	if (!again_copy(a, op) ||
		!again_most_put(a, op, again_end(is), end_ns))
		return false;
	is->start_ns = start_ns;
	is->end_ns = end_ns;
	is->decided_by = by;
	is->word |= TAUTI_HERE;
	return true;
}

/* op has moved: who waits for it is told. As long as the next on the lane waits for
 * nothing else, there is nothing to wait for before it moves, too. */
static inline taut_status go_on(
	struct taut_again *a, uint32_t op, struct taut_error *err)
{
	uint32_t next;

	for (;; op = next) {
		const struct again_op *is = &a->ops[op], *then;
		int64_t start_ns, end_ns;

		a->last.moved++;
		next = tell_others(a, op, ABOUT_TIMES);
		if (next == TAUT_NONE)
			return TAUT_OK;
		then = &a->ops[next];
		if ((then->word & (TAUTI_SOLE | TAUTI_TOUCHED)) !=
			TAUTI_SOLE || then->label <= is->label) {
			tell_next(a, op, next, ABOUT_TIMES);
			return TAUT_OK;
		}
		a->last.looked++;
		start_ns = is->end_ns + (then->word & (TAUTI_LATE | TAUTI_EARLY) ?
			tauti_gap(a->edit, next) : 0);
		end_ns = start_ns + (then->end_ns - then->start_ns);
		if (start_ns == then->start_ns)
			return TAUT_OK;
		if (!fits(start_ns, 3 * LIMIT_NS) ||
			!fits(end_ns, 3 * LIMIT_NS))
			return too_long(next, err);
		if (!move(a, next, start_ns, end_ns, op))
			return no_memory(err);
	}
}

static taut_status settle(struct taut_again *a, uint32_t op,
	const struct look *look, int64_t dur_ns, struct taut_error *err)
{
	struct again_op *is = &a->ops[op];
	int64_t start_ns = (look->by == TAUT_NONE ? 0 : look->at_ns) +
		gap_above(a, op);
	int64_t end_ns = start_ns + dur_ns;
	bool moves = start_ns != is->start_ns || end_ns != is->end_ns;

	if (!fits(start_ns, 3 * LIMIT_NS) || !fits(end_ns, 3 * LIMIT_NS))
		return too_long(op, err);
	is->word &= ~(uint32_t)TAUTI_TOUCHED;
	if (!moves && is->decided_by == look->by && is->word & TAUTI_HERE)
		return TAUT_OK;
	if (!move(a, op, start_ns, end_ns, look->by))
		return no_memory(err);
	return moves ? go_on(a, op, err) : TAUT_OK;
}

static inline taut_status look_at(
	struct taut_again *a, uint32_t op, struct taut_error *err)
{
	struct look look = { INT64_MIN, 0, TAUT_NONE };
	struct again_op *is = &a->ops[op];
	int64_t dur_ns = is->end_ns - is->start_ns;

	a->last.looked++;
	if (is->word & TAUTI_TOUCHED) {
		if (!tauti_has_op(a->edit, op))
			return go(a, op, err);
		if (!again_copy(a, op))
			return no_memory(err);
		if (!read_shape(a, op))
			return too_long(op, err);
		dur_ns = tauti_dur(a->edit, op);
	}
	if (is->word & TAUTI_PLAIN)
		look_plain(a, op, &look);
	else
		look_any(a, op, &look);
	if (look.label >= is->label)
		return place(a, op, look.label, err);
	return settle(a, op, &look, dur_ns, err);
}

/* Nothing is queued, and all is as after the last frame. */
static void give_up(struct taut_again *a)
{
	uint32_t op;

	while ((op = take(a)) != TAUT_NONE)
		a->ops[op].word &= ~(uint32_t)TAUTI_TOUCHED;
	tauti_again_put_back(a, a->begin);
}

taut_status tauti_again_run(struct taut_again *a, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	uint32_t op;

	a->n_astray = 0;
	while (!status && (op = take(a)) != TAUT_NONE)
		status = look_at(a, op, err);
	if (status) {
		a->ops[op].word &= ~(uint32_t)TAUTI_TOUCHED;
		give_up(a);
	}
	return status;
}
