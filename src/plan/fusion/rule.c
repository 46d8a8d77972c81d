/* rule.c - what is known of a change without playing it. See fusion.h for why
 * these are proofs. The change is made to what is wanted, compared with what is laid
 * and played, and taken back. */
#include "plan/fusion/own.h"

static int64_t start_of(const struct tauti_fusion *f, uint32_t op)
{
	return f->engine->start_ns(f->played, op);
}

static int64_t end_of(const struct tauti_fusion *f, uint32_t op)
{
	return f->engine->end_ns(f->played, op);
}

static int64_t above(int64_t gap_ns)
{
	return gap_ns > 0 ? gap_ns : 0;
}

static int64_t below(int64_t gap_ns)
{
	return gap_ns < 0 ? gap_ns : 0;
}

static int64_t gap_of(const struct tauti_fusion *f, uint32_t op)
{
	return f->graph->gap_ns[op];
}

/* What differs: operators first .. last on the lane, slots first .. end. */
struct change {
	uint32_t n, first, last; /* operators; places */
	struct tauti_span32 slots;
};

static bool differs(const struct tauti_slot *a, const struct tauti_slot *b)
{
	return a->dur_ns != b->dur_ns || a->ready != b->ready;
}

static struct change find_change(struct tauti_fusion *f)
{
	struct change c = { 0, TAUT_NONE, 0, f->slots };

	for (uint32_t i = 0; i < f->n_changed; i++) {
		uint32_t operator_ = f->changed[i];
		uint32_t place = tauti_fusion_place(f, operator_);

		if (f->want_ns[operator_] == f->laid_ns[operator_])
			continue;
		c.n++;
		c.first = place < c.first ? place : c.first;
		c.last = place > c.last ? place : c.last;
	}
	while (c.slots.first < c.slots.end && !differs(
		&f->want[c.slots.first], &f->laid[c.slots.first]))
		c.slots.first++;
	while (c.slots.first < c.slots.end && !differs(
		&f->want[c.slots.end - 1], &f->laid[c.slots.end - 1]))
		c.slots.end--;
	return c;
}

/* --- an upper bound: the present times, but for what the change moves --------------- */

static int64_t wanted_ns(const struct tauti_fusion *f, uint32_t place)
{
	uint32_t operator_ = f->operator_at[place];

	return operator_ == TAUT_NONE ?
		f->graph->dur_ns[f->first_op + place] : f->want_ns[operator_];
}

/* Who could be late because this operator is, besides the lane behind it? A fused one
 * also stands for the gradients of others. */
static bool is_seen(const struct tauti_fusion *f, uint32_t place)
{
	uint32_t operator_ = f->operator_at[place];
	struct tauti_span32 in;

	if (operator_ == TAUT_NONE || f->is_waited[operator_] ||
		f->made[operator_].first < f->made[operator_].end)
		return true;
	in = f->in[operator_];
	for (uint32_t i = in.first; i < in.end; i++)
		if (tauti_fusion_tie(f, f->in_flow[i]) == 1)
			return true;
	return false;
}

/* Ends of the places first .. last, from the start of the first as it is and what
 * other lanes let start when they did; false: the lane would be late, or others may
 * see one that is. */
static bool bound_lane(struct tauti_fusion *f, const struct change *c)
{
	int64_t end = 0;

	for (uint32_t p = c->first; c->n && p <= c->last; p++) {
		uint32_t op = f->first_op + p;
		int64_t gap = gap_of(f, op), start = end + gap;

		if (p == c->first || (f->is_foreign[p] &&
			start_of(f, op) > end + below(gap) + above(gap)))
			start = start_of(f, op);
		end = f->new_end_ns[p] = start + wanted_ns(f, p);
		if (end > end_of(f, op) && p < c->last && is_seen(f, p))
			return false;
		if (end > f->end_ns)
			return false;
	}
	return !c->n || end <= end_of(f, f->first_op + c->last);
}

static int64_t ready_bound(const struct tauti_fusion *f,
	const struct change *c, uint32_t gradient)
{
	uint32_t ready = f->want[gradient].ready, place;

	if (ready == TAUT_NONE)
		return INT64_MIN;
	place = tauti_fusion_place(f, ready);
	return c->n && place >= c->first && place <= c->last ?
		f->new_end_ns[place] : end_of(f, f->ops[ready].op);
}

/* Nobody who waits for it started before that. */
static bool in_time(const struct tauti_fusion *f, uint32_t gradient, int64_t ns)
{
	const struct tauti_fusion_gradient *g = &f->gradients[gradient];

	for (uint32_t i = 0; i < g->n_updates; i++) {
		uint32_t op = f->updates[g->first_update + i];

		if (start_of(f, op) - above(gap_of(f, op)) < ns)
			return false;
	}
	return ns <= f->end_ns;
}

static bool bound_slots(struct tauti_fusion *f, const struct change *c)
{
	uint32_t i = c->slots.first;
	int64_t end = INT64_MIN;

	if (c->slots.first >= c->slots.end)
		return true;
	if (i)
		end = end_of(f, f->slot_op[i - 1]);
	else if (f->before_slots != TAUT_NONE)
		end = end_of(f, f->before_slots);
	for (; i < f->n_gradients; i++) {
		int64_t ready = ready_bound(f, c, i);
		int64_t was = end_of(f, f->slot_op[i]);

		end = (ready > end ? ready : end) + f->want[i].dur_ns;
		if (end <= was && i + 1 >= c->slots.end)
			return true;
		if (end > was && !in_time(f, i, end))
			return false;
	}
	return true;
}

/* --- a lower bound: the present path, led past the change --------------------------------- */

static bool touches_path(const struct tauti_fusion *f, const struct change *c)
{
	for (uint32_t i = 0; i < f->n_changed; i++)
		if (f->want_ns[f->changed[i]] != f->laid_ns[f->changed[i]] &&
			f->on_path[tauti_fusion_place(f, f->changed[i])])
			return true;
	for (uint32_t i = c->slots.first; i < c->slots.end; i++)
		if (f->slot_on_path[i] &&
			(f->want[i].dur_ns != f->laid[i].dur_ns ||
			(f->by_ready[i] && f->want[i].ready != f->laid[i].ready)))
			return true;
	return false;
}

/* Of the changed operators within the places first .. last: how much longer. */
static int64_t longer_by(const struct tauti_fusion *f, uint32_t first,
	uint32_t last)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < f->n_changed; i++) {
		uint32_t operator_ = f->changed[i];
		uint32_t place = tauti_fusion_place(f, operator_);

		if (place >= first && place <= last)
			sum += f->want_ns[operator_] - f->laid_ns[operator_];
	}
	return sum;
}

/* Along the lane from the start of one place to the end of another. */
static int64_t along(const struct tauti_fusion *f, uint32_t first, uint32_t last)
{
	return f->along_ns[last] - (first ? f->along_ns[first - 1] : 0) -
		gap_of(f, f->first_op + first) + longer_by(f, first, last);
}

/* The longest way from the lane through a group's first slot to the slot at which the
 * path leaves them. */
static int64_t through_slots(const struct tauti_fusion *f,
	const struct change *c)
{
	const struct tauti_path *path = &f->path;
	uint32_t least = path->first_slot, i = path->last_slot + 1;
	int64_t slots = 0, longest = INT64_MIN;

	if (c->slots.first < c->slots.end && c->slots.first < least)
		least = c->slots.first;
	while (i-- > least) {
		uint32_t ready = f->want[i].ready, place;
		int64_t ns;

		slots += f->want[i].dur_ns;
		if (ready == TAUT_NONE)
			continue;
		place = tauti_fusion_place(f, ready);
		ns = place < path->enter ? INT64_MIN :
			along(f, path->enter, place) + slots;
		longest = ns > longest ? ns : longest;
	}
	return longest;
}

/* Is the path there still, no shorter? */
static bool keeps_path(const struct tauti_fusion *f, const struct change *c)
{
	const struct tauti_path *path = &f->path;
	int64_t begin, ns;

	if (!path->has_form)
		return false;
	begin = start_of(f, f->first_op + path->enter);
	if (path->first_slot == TAUT_NONE)
		return longer_by(f, path->enter, path->leave) >= 0;
	ns = through_slots(f, c);
	if (ns == INT64_MIN)
		return false;
	ns += f->end_ns - end_of(f, f->slot_op[path->last_slot]);
	if (path->back != TAUT_NONE)
		ns += longer_by(f, path->back, path->end);
	return begin + ns >= f->end_ns;
}

/* --- the face ------------------------------------------------------------------------------ */

static enum tauti_rule judge(struct tauti_fusion *f)
{
	struct change c;

	if (f->n_bad)
		return TAUTI_RULE_WORSE;
	if (!f->is_in_order || !tauti_fusion_in_order(f, f->want))
		return TAUTI_RULE_NONE;
	c = find_change(f);
	if (!touches_path(f, &c) || keeps_path(f, &c))
		return TAUTI_RULE_WORSE;
	return bound_lane(f, &c) && bound_slots(f, &c) ? TAUTI_RULE_BETTER :
		TAUTI_RULE_NONE;
}

/* All that was changed since the last play was changed back. */
static bool is_as_laid(struct tauti_fusion *f)
{
	struct change c = find_change(f);

	if (c.n || c.slots.first < c.slots.end)
		return false;
	while (f->n_changed)
		f->is_changed[f->changed[--f->n_changed]] = 0;
	f->slots = (struct tauti_span32) { 0, 0 };
	return true;
}

/* Gradients no slot of whose groups is on the path: that much is seen before any
 * change is made. Other groups may then change places with these, which makes no way
 * through the slots shorter. */
static bool is_off_path(const struct tauti_fusion *f, uint32_t site)
{
	uint32_t i, end;

	if (site < f->n_pairs)
		return false;
	i = end = site - f->n_pairs + 1;
	if (f->space.pass[site] == TAUTI_FUSION_TENSORS)
		i--;
	else
		i = end -= f->n_gradients;
	while (f->joined[i])
		i--;
	while (i <= end || (i < f->n_gradients && f->joined[i]))
		if (f->slot_on_path[i++])
			return false;
	return true;
}

enum tauti_rule tauti_fusion_rule(void *self, uint32_t site, uint8_t option)
{
	struct tauti_fusion *f = self;
	uint8_t was = f->option[site];
	enum tauti_rule rule;

	if (!f->is_played || f->n_bad || !is_as_laid(f))
		return TAUTI_RULE_NONE;
	tauti_fusion_find_path(f);
	if (option == was || is_off_path(f, site))
		return TAUTI_RULE_WORSE; /* the present state, or its path stays */
	(void)tauti_fusion_set(f, site, option, NULL);
	rule = judge(f);
	(void)tauti_fusion_set(f, site, was, NULL);
	return is_as_laid(f) ? rule : TAUTI_RULE_NONE;
}
