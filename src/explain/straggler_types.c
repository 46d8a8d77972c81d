/* straggler_types.c - operations that should be alike, and how long they
 * would be then: computation the mean of its type, a transfer the median, for
 * one slow link does not tell what a transfer takes. */
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"
#include "explain/stragglers.h"

static bool computes(uint8_t kind)
{
	return tauti_is_host_op(kind) || kind == TAUT_OP_KERNEL ||
		kind == TAUT_OP_COPY;
}

/* --- classes: what one row of the table of types stands for --------------------- */

/* "forward-send" and "forward-recv" are two ends of one thing. */
static size_t pair_stem(const char *name)
{
	size_t len = strlen(name);
	return len > 5 && (!strcmp(name + len - 5, "-send") ||
		!strcmp(name + len - 5, "-recv")) ? len - 5 : 0;
}

static uint32_t class_name_of(struct tauti_lag *l, struct taut_names *classes,
	uint32_t name)
{
	const char *text = taut_names_text(l->g->names, name), *pair;
	size_t stem = pair_stem(text);
	if (!*text)
		text = "(time between events)";
	if (!stem)
		return taut_names_add(classes, text, strlen(text));
	pair = taut_arena_printf(l->arena, "%.*s-send/recv", (int)stem, text);
	return pair ? taut_names_add(classes, pair, strlen(pair)) : TAUT_NONE;
}

/* Classes of all names that operations have, in the order of the names. */
static bool find_classes(struct tauti_lag *l)
{
	uint32_t n = taut_names_count(l->g->names);
	struct taut_names *classes = taut_names_create();
	uint32_t *of_name = malloc((n + 1) * sizeof *of_name);
	bool ok = classes && of_name;
	for (uint32_t i = 0; ok && i < n; i++) {
		of_name[i] = class_name_of(l, classes, i);
		ok = of_name[i] != TAUT_NONE;
	}
	for (uint32_t op = 0; ok && op < l->g->n_ops; op++)
		l->class_of[op] = l->g->kind[op] == TAUT_OP_MARK ||
			l->g->kind[op] == TAUT_OP_JOIN ? TAUT_NONE :
			of_name[l->g->name[op]];
	l->n_classes = ok ? taut_names_count(classes) : 0;
	l->class_name = TAUT_ARENA_ARRAY(l->arena, const char *,
		l->n_classes + 1);
	ok = ok && l->class_name;
	for (uint32_t i = 0; ok && i < l->n_classes; i++) {
		const char *text = taut_names_text(classes, i);
		l->class_name[i] = taut_arena_strndup(
			l->arena, text, strlen(text));
		ok = l->class_name[i] != NULL;
	}
	free(of_name);
	taut_names_destroy(classes);
	return ok;
}

/* --- types --------------------------------------------------------------------------- */

struct place { /* of the operations of one name on one lane */
	uint32_t lane, step, next;
};

/* The step of a rank in which `at` lies; steps are by time. */
static uint32_t step_at(const struct taut_graph *g, uint32_t begin,
	uint32_t end, uint32_t step, int64_t at)
{
	while (step + 1 < end && g->steps[step + 1].start_ns <= at)
		step++;
	return step < begin ? begin : step;
}

static uint32_t first_step(const struct taut_graph *g, uint32_t trace)
{
	uint32_t i = 0;
	while (i < g->n_steps && g->steps[i].trace < trace)
		i++;
	return i;
}

/* How many operations of its name are before each on its lane in its step. */
static void count_before(struct tauti_lag *l, struct place *places,
	uint32_t *ret_before, uint32_t *ret_step)
{
	const struct taut_graph *g = l->g;
	for (uint32_t lane = 0; lane < g->n_lanes; lane++) {
		uint32_t trace = g->lanes[lane].trace, begin, end, step;
		if (trace == TAUT_NONE)
			continue;
		begin = step = first_step(g, trace);
		end = first_step(g, trace + 1);
		for (uint32_t op = g->lane_begin[lane];
			op < g->lane_begin[lane + 1]; op++) {
			struct place *p = &places[2 * (size_t)g->name[op] +
				(g->kind[op] == TAUT_OP_TRANSFER)];
			step = step_at(g, begin, end, step, g->start_ns[op]);
			if (p->lane != lane || p->step != step)
				*p = (struct place){ lane, step, 0 };
			ret_before[op] = p->next;
			ret_step[op] = step;
			if (computes(g->kind[op]) ||
				g->kind[op] == TAUT_OP_TRANSFER)
				p->next++;
		}
	}
}

/* Numbers the types: by name, kind, and, of a framework, what was before. */
static bool find_types(struct tauti_lag *l)
{
	const struct taut_graph *g = l->g;
	size_t n = 2 * (size_t)taut_names_count(g->names);
	struct place *places = malloc((n + 1) * sizeof *places);
	uint32_t *before = calloc((size_t)g->n_ops + 1, sizeof *before);
	uint32_t *first = calloc(n + 1, sizeof *first);
	bool ok = places && before && first;
	if (ok && !l->table) {
		memset(places, 0xff, n * sizeof *places);
		count_before(l, places, before, l->rank_step);
	}
	for (uint32_t op = 0; ok && op < g->n_ops; op++) {
		bool moves = g->kind[op] == TAUT_OP_TRANSFER;
		size_t key = 2 * (size_t)g->name[op] + moves;
		if ((moves || computes(g->kind[op])) &&
			first[key + 1] <= before[op])
			first[key + 1] = before[op] + 1;
	}
	for (size_t i = 1; ok && i <= n; i++)
		first[i] += first[i - 1];
	for (uint32_t op = 0; ok && op < g->n_ops; op++) {
		bool moves = g->kind[op] == TAUT_OP_TRANSFER;
		l->type_of[op] = moves || computes(g->kind[op]) ?
			first[2 * (size_t)g->name[op] + moves] + before[op] :
			TAUT_NONE;
	}
	l->n_types = ok ? first[n] : 0;
	free(places);
	free(before);
	free(first);
	return ok;
}

/* --- what a type takes ------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;
	return *x < *y ? -1 : *x > *y;
}

/* The k-th smallest; v is reordered. */
static int64_t select_nth(int64_t *v, size_t n, size_t k)
{
	size_t lo = 0, hi = n;
	while (hi - lo > 32) {
		int64_t a = v[lo], b = v[lo + (hi - lo) / 2], c = v[hi - 1];
		int64_t pivot = a < b ? (b < c ? b : a < c ? c : a) :
					(a < c ? a : b < c ? c : b);
		size_t below = lo, at = lo, above = hi;
		while (at < above) {
			int64_t x = v[at];
			if (x < pivot) {
				v[at++] = v[below];
				v[below++] = x;
			} else if (x > pivot) {
				v[at] = v[--above];
				v[above] = x;
			} else {
				at++;
			}
		}
		if (k >= below && k < above)
			return pivot;
		lo = k < below ? lo : above;
		hi = k < below ? below : hi;
	}
	qsort(v + lo, hi - lo, sizeof *v, by_value);
	return v[k];
}

static int64_t median(int64_t *v, size_t n)
{
	int64_t high = select_nth(v, n, n / 2), low;
	if (n & 1)
		return high;
	low = select_nth(v, n, n / 2 - 1);
	return low + (high - low) / 2;
}

static int64_t mean(const int64_t *v, size_t n)
{
	int64_t whole = 0, rest = 0, count = (int64_t)n;
	for (size_t i = 0; i < n; i++) {
		whole += v[i] / count;
		rest += v[i] % count;
	}
	return whole + (rest + count / 2) / count;
}

/* Durations by type, then what each type takes. */
static bool find_ideal(struct tauti_lag *l)
{
	const struct taut_graph *g = l->g;
	uint32_t *first = calloc((size_t)l->n_types + 2, sizeof *first);
	int64_t *dur = malloc(((size_t)g->n_ops + 1) * sizeof *dur);
	int64_t *takes = malloc(((size_t)l->n_types + 1) * sizeof *takes);
	uint8_t *moves = calloc((size_t)l->n_types + 1, 1);
	bool ok = first && dur && takes && moves;
	for (uint32_t op = 0; ok && op < g->n_ops; op++)
		if (l->type_of[op] != TAUT_NONE)
			first[l->type_of[op] + 2]++;
	for (uint32_t i = 2; ok && i < l->n_types + 2; i++)
		first[i] += first[i - 1];
	for (uint32_t op = 0; ok && op < g->n_ops; op++) {
		if (l->type_of[op] == TAUT_NONE)
			continue;
		dur[first[l->type_of[op] + 1]++] = g->dur_ns[op];
		moves[l->type_of[op]] = g->kind[op] == TAUT_OP_TRANSFER;
	}
	for (uint32_t i = 0; ok && i < l->n_types; i++) {
		size_t n = first[i + 1] - first[i];
		takes[i] = !n ? 0 : moves[i] ? median(dur + first[i], n) :
			mean(dur + first[i], n);
	}
	for (uint32_t op = 0; ok && op < g->n_ops; op++)
		l->ideal_ns[op] = l->type_of[op] == TAUT_NONE ?
			g->dur_ns[op] : takes[l->type_of[op]];
	free(first);
	free(dur);
	free(takes);
	free(moves);
	return ok;
}

/* --- names that come now more often, now less ------------------------------------------- */

struct amount { /* of one name in one step of one rank */
	uint32_t n;
	int64_t ns;
};

/* Are there as many in each step that has any? Those steps: touched. */
static bool is_even(const struct amount *steps, const uint32_t *touched,
	uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		if (steps[touched[i]].n != steps[touched[0]].n)
			return false;
	return true;
}

/* Where a name comes unlike often, its k-th is not the k-th elsewhere: then
 * the steps are made alike in the sum, each operation by the same factor. */
static void level(struct tauti_lag *l, const uint32_t *ops, uint32_t n,
	struct amount *steps, uint32_t *touched, int64_t *sums)
{
	const struct taut_graph *g = l->g;
	uint32_t n_touched = 0;
	int64_t usual;
	for (uint32_t i = 0; i < n; i++) {
		struct amount *a = &steps[l->rank_step[ops[i]]];
		if (!a->n++)
			touched[n_touched++] = l->rank_step[ops[i]];
		a->ns += g->dur_ns[ops[i]];
	}
	if (!is_even(steps, touched, n_touched)) {
		for (uint32_t i = 0; i < n_touched; i++)
			sums[i] = steps[touched[i]].ns;
		usual = g->kind[ops[0]] == TAUT_OP_TRANSFER ?
			median(sums, n_touched) : mean(sums, n_touched);
		for (uint32_t i = 0; i < n; i++) {
			int64_t sum = steps[l->rank_step[ops[i]]].ns;
			double own = (double)g->dur_ns[ops[i]];
			if (sum > 0)
				l->ideal_ns[ops[i]] = (int64_t)(own *
					((double)usual / (double)sum) + 0.5);
		}
	}
	for (uint32_t i = 0; i < n_touched; i++)
		steps[touched[i]] = (struct amount){ 0, 0 };
}

/* Operations by name and kind, then each name by itself. */
static bool level_names(struct tauti_lag *l)
{
	const struct taut_graph *g = l->g;
	size_t n = 2 * (size_t)taut_names_count(g->names);
	uint32_t *first = calloc(n + 2, sizeof *first);
	uint32_t *ops = malloc(((size_t)g->n_ops + 1) * sizeof *ops);
	struct amount *steps = calloc((size_t)g->n_steps + 1, sizeof *steps);
	uint32_t *touched = malloc(((size_t)g->n_steps + 1) * sizeof *touched);
	int64_t *sums = malloc(((size_t)g->n_steps + 1) * sizeof *sums);
	bool ok = first && ops && steps && touched && sums;
	for (int pass = 0; ok && pass < 2; pass++) {
		for (uint32_t op = 0; op < g->n_ops; op++) {
			size_t key = 2 * (size_t)g->name[op] +
				(g->kind[op] == TAUT_OP_TRANSFER);
			if (l->type_of[op] == TAUT_NONE)
				continue;
			if (pass)
				ops[first[key + 1]++] = op;
			else
				first[key + 2]++;
		}
		for (size_t i = 2; i < n + 2 && !pass; i++)
			first[i] += first[i - 1];
	}
	for (size_t i = 0; ok && i < n; i++)
		if (first[i + 1] > first[i])
			level(l, ops + first[i], first[i + 1] - first[i], steps,
				touched, sums);
	free(first);
	free(ops);
	free(steps);
	free(touched);
	free(sums);
	return ok;
}

bool tauti_lag_types(struct tauti_lag *l)
{
	size_t n = (size_t)l->g->n_ops + 1;
	l->type_of = TAUT_ARENA_ARRAY(l->arena, uint32_t, n);
	l->class_of = TAUT_ARENA_ARRAY(l->arena, uint32_t, n);
	l->ideal_ns = TAUT_ARENA_ARRAY(l->arena, int64_t, n);
	if (!l->table)
		l->rank_step = TAUT_ARENA_ARRAY(l->arena, uint32_t, n);
	return l->type_of && l->class_of && l->ideal_ns &&
		(l->table || l->rank_step) && find_classes(l) &&
		find_types(l) && find_ideal(l) && (l->table || level_names(l));
}
