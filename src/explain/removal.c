/* removal.c - what taking one cause away would give: the same graph replayed
 * with its time set to nothing, all else as it was. */
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"

enum cause { CAUSE_LATE, CAUSE_CATEGORY, CAUSE_STALLS, CAUSE_GAPS };

static const struct {
	const char *id, *title;
	enum cause cause;
	enum taut_category category;
} causes[] = {
	{ "late-ranks", "late ranks as fast as the others", CAUSE_LATE, 0 },
	{ "host-bound", "host time between launches", CAUSE_CATEGORY,
		TAUT_CAT_HOST_BOUND },
	{ "host-stalls", "host threads that do not run", CAUSE_STALLS, 0 },
	{ "transfer", "communication transfer", CAUSE_CATEGORY,
		TAUT_CAT_COMM_EXPOSED },
	{ "data", "waiting for the data loader", CAUSE_CATEGORY,
		TAUT_CAT_DATA },
	{ "copy", "copies and fills", CAUSE_CATEGORY, TAUT_CAT_COPY },
	{ "unexplained", "device gaps that nothing explains", CAUSE_GAPS, 0 },
};
enum { N_CAUSES = sizeof causes / sizeof causes[0] };

struct removal {
	struct tauti_explain *x;
	struct taut_report_removal *out;
	uint8_t *skip; /* by trace: a late rank */
	int64_t others_ns; /* step time of the others, as it is */
};

/* Nobody waits for the arrivals of a late rank. */
static uint8_t *mute_late(const struct removal *r)
{
	const struct taut_graph *g = r->x->g;
	uint8_t *mute = calloc(g->n_ops + 1, 1);

	for (uint32_t op = 0; mute && op < g->n_ops; op++)
		mute[op] = g->kind[op] == TAUT_OP_ARRIVE &&
			r->skip[tauti_rank_of(g, op)];
	return mute;
}

static int64_t *without_category(const struct removal *r,
	enum taut_category category)
{
	const struct taut_graph *g = r->x->g;
	int64_t *dur = malloc((g->n_ops + 1) * sizeof *dur);

	for (uint32_t op = 0; dur && op < g->n_ops; op++)
		dur[op] = r->x->op_category[op] == category &&
			g->kind[op] != TAUT_OP_MARK ? 0 : g->dur_ns[op];
	return dur;
}

/* Each stalled slice takes what its like usually take. */
static int64_t *without_stalls(const struct removal *r)
{
	const struct taut_graph *g = r->x->g;
	int64_t *dur = malloc((g->n_ops + 1) * sizeof *dur);

	for (uint32_t op = 0; dur && op < g->n_ops; op++) {
		int64_t usual;

		dur[op] = tauti_is_stall(r->x, op, &usual) ? usual :
			g->dur_ns[op];
	}
	return dur;
}

static int64_t *without_gaps(const struct removal *r)
{
	const struct taut_graph *g = r->x->g;
	int64_t *gap = malloc((g->n_ops + 1) * sizeof *gap);

	for (uint32_t op = 0; gap && op < g->n_ops; op++)
		gap[op] = g->gap_ns[op] - tauti_unexplained(r->x, op);
	return gap;
}

/* On the timeline of the unchanged replay, which nobody reads any more: memory
 * follows the graph, and not how many causes there are. */
static taut_status remove_one(struct removal *r, size_t i,
	struct taut_error *err)
{
	struct tauti_explain *x = r->x;
	struct taut_timeline *t = &x->base;
	uint8_t *mute = causes[i].cause == CAUSE_LATE ? mute_late(r) : NULL;
	int64_t *dur = causes[i].cause == CAUSE_CATEGORY ?
		without_category(r, causes[i].category) :
		causes[i].cause == CAUSE_STALLS ? without_stalls(r) : NULL;
	int64_t *gap = causes[i].cause == CAUSE_GAPS ? without_gaps(r) : NULL;
	struct taut_replay_edit edit = { dur, gap, mute, .unordered = 1 };
	taut_status status = dur || gap || mute ?
		taut_replay(x->g, &edit, t, err) : tauti_explain_no_memory(err);

	if (!status) {
		int64_t left = tauti_step_time(x, t->start_ns, t->end_ns,
			mute ? r->skip : NULL);

		r->out[i].step_ns = left;
		r->out[i].saved_ns = (mute ? r->others_ns : x->step_ns) - left;
	}
	free(mute);
	free(dur);
	free(gap);
	return status;
}

/* A cause cannot save more than its part of the critical path: below a
 * thousandth of it no replay is needed. */
static bool cannot_help(const struct tauti_explain *x, size_t i)
{
	const int64_t *path = x->report->path_ns;
	int64_t all = 0;

	for (int c = 0; c < TAUT_CATEGORIES; c++)
		all += path[c];
	switch (causes[i].cause) {
	case CAUSE_CATEGORY:
		return path[causes[i].category] < all / 1000 + 1;
	case CAUSE_STALLS:
		return x->report->stall_count == 0;
	case CAUSE_GAPS:
		return path[TAUT_CAT_OTHER] < all / 1000 + 1;
	default:
		return false;
	}
}

static int by_saved(const void *a, const void *b)
{
	const struct taut_report_removal *x = a, *y = b;

	if (x->saved_ns != y->saved_ns)
		return x->saved_ns > y->saved_ns ? -1 : 1;
	return strcmp(x->id, y->id);
}

taut_status tauti_removals_run(struct tauti_explain *x, struct taut_error *err)
{
	struct removal r = { .x = x };
	uint32_t late = tauti_late_count(x->report), n = N_CAUSES;
	taut_status status = TAUT_OK;

	r.out = TAUT_ARENA_ARRAY(x->arena, struct taut_report_removal,
		N_CAUSES);
	r.skip = calloc(x->report->n_ranks + 1, 1);
	if (!r.out || !r.skip) {
		free(r.skip);
		return tauti_explain_no_memory(err);
	}
	for (uint32_t i = 0; i < late; i++)
		for (uint32_t k = 0; k < x->report->n_ranks; k++)
			if (x->report->ranks[k] == x->report->late[i].rank)
				r.skip[k] = 1;
	r.others_ns = tauti_step_time(x, x->base.start_ns, x->base.end_ns,
		r.skip);
	for (size_t i = 0; !status && i < N_CAUSES; i++) {
		r.out[i] = (struct taut_report_removal) { causes[i].id,
			causes[i].title, x->step_ns, 0 };
		if (!cannot_help(x, i) &&
			(causes[i].cause != CAUSE_LATE || late))
			status = remove_one(&r, i, err);
	}
	if (!status && !late) /* nobody is late: nothing was removed */
		memmove(r.out, r.out + 1, --n * sizeof *r.out);
	if (!status) {
		qsort(r.out, n, sizeof *r.out, by_saved);
		x->report->removals = r.out;
		x->report->n_removals = n;
	}
	free(r.skip);
	return status;
}
