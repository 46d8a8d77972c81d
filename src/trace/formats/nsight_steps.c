/* nsight_steps.c - which NVTX ranges are the steps of a process.
 *
 * In this order, the first that is there:
 *   1. ranges whose text is a word for a step and a number ("step_12"),
 *   2. ranges whose text is such a word ("train_step"), twice or more,
 *   3. ranges of one text that nothing encloses, three times or more, that
 *      fill nine tenths of the time from the first to the last.
 * Of several texts the one that covers the most time, on the thread where it
 * does; one inside another is none. */
#include "trace/formats/nsight.h"

#include <stdlib.h>

/* Ranges of one text on one thread. */
struct group {
	uint32_t lane;
	uint64_t key;
	bool named, numbered;
	size_t count;
	int64_t begin_ns, end_ns, total_ns;
};

enum rule { RULE_NONE, RULE_FILLS, RULE_WORD, RULE_NUMBER };

static int by_lane(const void *a, const void *b)
{
	const struct nsight_range *x = a, *y = b;
	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* By text, then by time. */
static int by_key(const void *a, const void *b)
{
	const struct nsight_range *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return by_lane(a, b);
}

/* Keeps what may be a step: named, or enclosed by no other range. */
static size_t drop_inner(struct nsight_range *ranges, size_t count)
{
	size_t kept = 0;
	int64_t end_ns = INT64_MIN;
	for (size_t i = 0; i < count; i++) {
		const struct nsight_range r = ranges[i];
		if (!i || ranges[i].lane != ranges[i - 1].lane)
			end_ns = INT64_MIN;
		if (r.named || r.start_ns >= end_ns)
			ranges[kept++] = r;
		if (r.end_ns > end_ns)
			end_ns = r.end_ns;
	}
	return kept;
}

static enum rule rule_of(const struct group *g)
{
	if (g->named && g->numbered)
		return RULE_NUMBER;
	if (g->named && g->count >= 2)
		return RULE_WORD;
	if (g->count >= 3 &&
		g->total_ns >= (g->end_ns - g->begin_ns) / 10 * 9)
		return RULE_FILLS;
	return RULE_NONE;
}

static struct group group_at(
	const struct nsight_range *ranges, size_t count, size_t *ret_next)
{
	struct group g = { ranges->lane, ranges->key, ranges->named, true, 0,
		ranges->start_ns, INT64_MIN, 0 };
	size_t i = 0;
	for (; i < count && ranges[i].lane == g.lane &&
		ranges[i].key == g.key; i++) {
		if (ranges[i].start_ns < g.end_ns)
			continue; /* inside the one before */
		g.count++;
		g.numbered = g.numbered && ranges[i].number >= 0;
		g.total_ns += ranges[i].end_ns - ranges[i].start_ns;
		g.end_ns = ranges[i].end_ns;
	}
	*ret_next = i;
	return g;
}

static struct group best_group(const struct nsight_range *ranges, size_t count)
{
	struct group best = { 0 };
	enum rule best_rule = RULE_NONE;
	for (size_t i = 0, n; i < count; i += n) {
		struct group g = group_at(ranges + i, count - i, &n);
		enum rule rule = rule_of(&g);
		if (rule > best_rule || (rule == best_rule && rule &&
			g.total_ns > best.total_ns)) {
			best = g;
			best_rule = rule;
		}
	}
	return best;
}

static taut_status note_steps(struct nsight *n, struct nsight_process *p,
	const struct group *g, const struct nsight_range *first)
{
	const struct tauti_row *row =
		tauti_builder_row_at(p->builder, first->row);
	if (rule_of(g) == RULE_NUMBER)
		return TAUT_OK;
	return tauti_builder_note(p->builder,
		"the NVTX range \"%.100s\" is taken for the training step: it "
		"came %zu times in a row",
		taut_names_text(p->builder->names, row->name), g->count) ==
		TAUT_OK ? TAUT_OK : nsight_no_memory(n);
}

static taut_status mark_process(struct nsight *n, struct nsight_process *p)
{
	struct nsight_range *ranges = p->ranges.data;
	size_t count = p->ranges.count;
	int64_t end_ns = INT64_MIN;
	const struct nsight_range *first = NULL;
	if (!count)
		return TAUT_OK;
	qsort(ranges, count, sizeof *ranges, by_lane);
	count = drop_inner(ranges, count);
	qsort(ranges, count, sizeof *ranges, by_key);
	struct group g = best_group(ranges, count);
	if (!g.count)
		return TAUT_OK;
	for (size_t i = 0; i < count; i++) {
		const struct nsight_range *r = &ranges[i];
		if (r->lane != g.lane || r->key != g.key ||
			r->start_ns < end_ns)
			continue;
		struct tauti_row *row =
			tauti_builder_row_at(p->builder, r->row);
		row->kind = TAUT_KIND_STEP;
		row->sequence = g.numbered && r->number < UINT32_MAX - 1 ?
			(uint32_t)r->number + 1 : 0;
		end_ns = r->end_ns;
		first = first ? first : r;
	}
	return note_steps(n, p, &g, first);
}

taut_status tauti_nsight_mark_steps(struct nsight *n)
{
	taut_status status = TAUT_OK;
	for (size_t i = 0; status == TAUT_OK && i < n->processes.count; i++)
		status = mark_process(n, &n->processes.data[i]);
	return status;
}
