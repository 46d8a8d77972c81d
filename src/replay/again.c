/* again.c - a replay that follows an edit: the steps of a follow, and reading. */
#include "again.h"

/* So many ops without a place of their own are looked at in one follow, of all
 * that have one, before all get one. */
enum { ASTRAY_PART = 8, ASTRAY_MORE = 1024 };

static void touch(void *context, uint32_t op)
{
	tauti_again_touch(context, op);
}

static void touch_all(struct taut_again *a)
{
	for (uint32_t op = 0; op < a->n_seen; op++)
		tauti_again_touch(a, op);
}

/* All durations were put at once: which are others? */
static void touch_durations(struct taut_again *a)
{
	for (uint32_t op = 0; op < taut_edit_ops(a->edit); op++)
		if (a->ops[op].word & TAUTI_HERE && tauti_dur(a->edit, op) !=
			a->ops[op].end_ns - a->ops[op].start_ns)
			tauti_again_touch(a, op);
}

static void add_up(struct taut_again *a)
{
	a->all.looked += a->last.looked;
	a->all.moved += a->last.moved;
	a->all.put_back += a->last.put_back;
	a->all.placed += a->last.placed;
}

static taut_status catch_up(struct taut_again *a, bool whole,
	struct taut_error *err)
{
	taut_status status;

	tauti_again_number(a);
	a->patience = 64;
	if (whole)
		touch_all(a);
	else if (!tauti_edit_touched(a->edit,
		a->frames.data[a->frames.count - 1].at, touch, a))
		touch_durations(a);
	status = tauti_again_run(a, err);
	if (!status)
		tauti_again_frame(a);
	return status;
}

taut_status taut_again_follow(struct taut_again *again,
	struct taut_error *reterr)
{
	struct taut_again *a = again;
	taut_status status = TAUT_OK;
	bool whole;

	a->last = (struct taut_again_counts) { 0 };
	if (!tauti_again_room(a, taut_edit_ops(a->edit)) ||
		!taut_vec_reserve(&a->frames, 1))
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory to follow an edit");
	whole = !tauti_again_step_back(a, a->edit->low);
	if (whole || a->frames.data[a->frames.count - 1].at !=
		a->edit->journal.count)
		status = catch_up(a, whole, reterr);
	add_up(a);
	if (status)
		return status;
	tauti_edit_seen(a->edit);
	if (a->n_astray > a->queue.n_places / ASTRAY_PART + ASTRAY_MORE)
		tauti_again_order(a);
	return TAUT_OK;
}

/* --- reading -------------------------------------------------------------------------- */

int taut_again_times(const struct taut_again *again, uint32_t op,
	int64_t *ret_start_ns, int64_t *ret_end_ns)
{
	if (op >= again->n_seen || !(again->ops[op].word & TAUTI_HERE))
		return 0;
	if (ret_start_ns)
		*ret_start_ns = again->ops[op].start_ns;
	if (ret_end_ns)
		*ret_end_ns = again->ops[op].end_ns;
	return 1;
}

uint32_t taut_again_decided_by(const struct taut_again *again, uint32_t op)
{
	return op < again->n_seen && again->ops[op].word & TAUTI_HERE ?
		again->ops[op].decided_by : TAUT_NONE;
}

int64_t taut_again_makespan(struct taut_again *again)
{
	int64_t most_ns = tauti_most(again);

	return most_ns > 0 ? most_ns : 0;
}

uint32_t taut_again_last(struct taut_again *again)
{
	return tauti_most_op(again);
}

void taut_again_path(struct taut_again *again,
	int (*see)(void *context, uint32_t op), void *context)
{
	uint32_t op = taut_again_last(again);

	while (op != TAUT_NONE && !see(context, op))
		op = taut_again_decided_by(again, op);
}

struct taut_again_counts taut_again_last_counts(
	const struct taut_again *again)
{
	return again->last;
}

struct taut_again_counts taut_again_counts(const struct taut_again *again)
{
	return again->all;
}
