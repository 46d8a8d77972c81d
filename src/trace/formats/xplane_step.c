/* xplane_step.c - which ranges are the steps, and on which thread.
 *
 * In this order: what Taut's recorder marked; what the program marked with a
 * step number (Keras does, as "train"), the outermost of nested ones; the
 * "Steps" rows of devices; the functions that a worker ran for a
 * coordinator. */
#include "trace/formats/xplane.h"

#include <stdio.h>
#include <stdlib.h>

struct span {
	int64_t start_ns, end_ns;
	uint32_t lane, row; /* row: TAUT_NONE for what no event stands for */
	uint32_t sequence;
};

typedef TAUT_VEC(struct span) spans;

static struct tauti_row *row_at(struct xplane *x, uint32_t i)
{
	return tauti_builder_row_at(x->builder, i);
}

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static void sort(spans *list)
{
	if (list->count)
		qsort(list->data, list->count, sizeof *list->data, by_start);
}

/* Keeps those that begin when the one before has ended. */
static void keep_serial(spans *list)
{
	size_t kept = 0;
	sort(list);
	for (size_t i = 0; i < list->count; i++)
		if (!kept || list->data[i].start_ns >=
				list->data[kept - 1].end_ns)
			list->data[kept++] = list->data[i];
	list->count = kept;
}

static bool add_row(struct xplane *x, spans *list, uint32_t i)
{
	const struct tauti_row *row = row_at(x, i);
	struct span span = { row->start_ns, row->start_ns + row->dur_ns,
		row->lane, i, row->sequence };
	return taut_vec_push(list, span);
}

/* --- marked by the program ------------------------------------------------ */

static int by_lane(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	return by_start(a, b);
}

/* Only the lane with the most of them. */
static void keep_busiest_lane(spans *list)
{
	size_t best = 0, best_count = 0, begin = 0;
	if (!list->count)
		return;
	qsort(list->data, list->count, sizeof *list->data, by_lane);
	for (size_t i = 1; i <= list->count; i++) {
		if (i < list->count &&
			list->data[i].lane == list->data[begin].lane)
			continue;
		if (i - begin > best_count) {
			best = begin;
			best_count = i - begin;
		}
		begin = i;
	}
	memmove(list->data, list->data + best,
		best_count * sizeof *list->data);
	list->count = best_count;
}

static bool marked_steps(struct xplane *x, spans *list)
{
	bool taut = false;
	for (size_t i = 0; i < x->steps.count; i++)
		taut |= x->steps.data[i].taut;
	for (size_t i = 0; i < x->steps.count; i++)
		if (x->steps.data[i].taut == taut &&
			!add_row(x, list, x->steps.data[i].row))
			return false;
	/* A number that is no step's is of no use. */
	for (size_t i = 0; i < x->steps.count; i++)
		row_at(x, x->steps.data[i].row)->sequence = 0;
	keep_busiest_lane(list);
	keep_serial(list);
	for (size_t i = 0; i < list->count; i++) {
		struct tauti_row *row = row_at(x, list->data[i].row);
		row->kind = TAUT_KIND_STEP;
		row->sequence = list->data[i].sequence;
	}
	return true;
}

/* --- seen by devices ------------------------------------------------------ */

/* The thread that runs the program, else the one with the most events. */
static bool find_thread(struct xplane *x, uint32_t *ret_lane)
{
	struct tauti_builder *b = x->builder;
	size_t n = b->lanes.all.count;
	uint32_t *count = calloc(n + 1, sizeof *count);
	*ret_lane = TAUT_NONE;
	if (!count)
		return false;
	for (size_t i = b->first_row; i < b->n_rows; i++)
		count[row_at(x, (uint32_t)i)->lane]++;
	bool python = false;
	for (uint32_t l = 0; l < n; l++) {
		const struct tauti_lane *lane = &b->lanes.all.data[l];
		const char *name = taut_names_text(b->names, lane->name);
		bool is_python = strncmp(name, "python", 6) == 0;
		if (lane->role != TAUTI_ROLE_THREAD || !count[l] ||
			is_python < python)
			continue;
		if (*ret_lane == TAUT_NONE || is_python > python ||
			count[l] > count[*ret_lane])
			*ret_lane = l;
		python = is_python;
	}
	free(count);
	return true;
}

static void widen(struct span *span, int64_t start_ns, int64_t end_ns)
{
	if (start_ns < span->start_ns)
		span->start_ns = start_ns;
	if (end_ns > span->end_ns)
		span->end_ns = end_ns;
}

static void widen_by_group(
	const struct xplane *x, struct span *span, int64_t id)
{
	for (size_t i = 0; id >= 0 && i < x->groups.count; i++)
		if (x->groups.data[i].id == id)
			widen(span, x->groups.data[i].start_ns,
				x->groups.data[i].end_ns);
}

static uint32_t sequence_of(int64_t number)
{
	return number >= 0 && number < UINT32_MAX - 1 ? (uint32_t)number + 1 :
							0;
}

static int by_number(const void *a, const void *b)
{
	const struct xplane_device_step *x = a, *y = b;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* One span a number, over all devices and what the host did for it. */
static bool join_devices(struct xplane *x, spans *list, uint32_t lane)
{
	qsort(x->device_steps.data, x->device_steps.count,
		sizeof *x->device_steps.data, by_number);
	for (size_t i = 0; i < x->device_steps.count; i++) {
		const struct xplane_device_step *d = &x->device_steps.data[i];
		if (i == 0 || d->number < 0 || d->number != d[-1].number) {
			struct span span = { d->start_ns, d->end_ns, lane,
				TAUT_NONE, sequence_of(d->number) };
			if (!taut_vec_push(list, span))
				return false;
		}
		struct span *last = &list->data[list->count - 1];
		widen(last, d->start_ns, d->end_ns);
		widen_by_group(x, last, d->group);
	}
	return true;
}

static bool device_steps(struct xplane *x, spans *list)
{
	struct tauti_builder *b = x->builder;
	uint32_t lane, name = taut_names_add(b->names, "step", 4);
	if (name == TAUT_NONE || !find_thread(x, &lane))
		return false;
	if (lane == TAUT_NONE)
		return true;
	if (!join_devices(x, list, lane))
		return false;
	sort(list);
	for (size_t i = 0; i < list->count; i++) {
		struct span *span = &list->data[i];
		if (i + 1 < list->count && span->end_ns > span[1].start_ns)
			span->end_ns = span[1].start_ns;
		if (span->end_ns == span->start_ns)
			continue; /* nothing was left of it */
		struct tauti_row *row = tauti_builder_row(b);
		if (!row)
			return false;
		row->start_ns = span->start_ns;
		row->dur_ns = span->end_ns - span->start_ns;
		row->name = name;
		row->lane = lane;
		row->sequence = span->sequence;
		row->kind = TAUT_KIND_STEP;
	}
	return true;
}

/* --- run for a coordinator ------------------------------------------------ */

/* The span that a row lies in, or NULL. */
static const struct span *span_around(
	const spans *list, const struct tauti_row *row)
{
	size_t lo = 0, hi = list->count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (list->data[mid].start_ns <= row->start_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	const struct span *span = lo ? &list->data[lo - 1] : NULL;
	return span && span->lane == row->lane &&
			       row->start_ns + row->dur_ns <= span->end_ns ?
		span : NULL;
}

/* Any thread of a pool may run the next one: they get a lane of their own,
 * with all that happened inside of them. */
static bool move_to_own_lane(struct xplane *x, const spans *list)
{
	struct tauti_builder *b = x->builder;
	uint32_t lane = tauti_lanes_add(
		&b->lanes, TAUTI_ROLE_THREAD, 1, -1);
	uint32_t name = taut_names_add(b->names, "functions run for others",
		24);
	if (lane == TAUT_NONE || name == TAUT_NONE)
		return false;
	b->lanes.all.data[lane].name = name;
	for (size_t i = b->first_row; i < b->n_rows; i++) {
		struct tauti_row *row = row_at(x, (uint32_t)i);
		if (span_around(list, row))
			row->lane = lane;
	}
	return true;
}

static bool remote_steps(struct xplane *x, spans *list)
{
	int64_t longest = 0;
	for (size_t i = 0; i < x->functions.count; i++) {
		const struct tauti_row *row =
			row_at(x, x->functions.data[i]);
		if (row->dur_ns > longest)
			longest = row->dur_ns;
	}
	for (size_t i = 0; i < x->functions.count; i++)
		if (row_at(x, x->functions.data[i])->dur_ns >= longest / 10 &&
			!add_row(x, list, x->functions.data[i]))
			return false;
	keep_serial(list);
	for (size_t i = 0; i < list->count; i++)
		row_at(x, list->data[i].row)->kind = TAUT_KIND_STEP;
	return !list->count || move_to_own_lane(x, list);
}

bool tauti_xplane_settle_steps(struct xplane *x, uint32_t *ret_main_lane)
{
	spans list = { 0 };
	bool ok = marked_steps(x, &list);
	if (ok && !list.count && x->device_steps.count)
		ok = device_steps(x, &list);
	if (ok && !list.count && x->requests.count)
		ok = remote_steps(x, &list);
	*ret_main_lane = list.count ? list.data[0].lane : TAUT_NONE;
	if (list.count && list.data[0].row != TAUT_NONE)
		*ret_main_lane = row_at(x, list.data[0].row)->lane;
	for (size_t i = 0; ok && i < x->waits.count; i++) {
		struct tauti_row *row = row_at(x, x->waits.data[i]);
		if (row->lane == *ret_main_lane)
			row->kind = TAUT_KIND_LOAD_WAIT;
	}
	taut_vec_free(&list);
	return ok;
}
