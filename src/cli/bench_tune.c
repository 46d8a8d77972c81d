/* bench_tune.c - see bench.h: successive halving over ways, passes and numbers at
 * once, size by size.
 *
 * What was far behind at the size before, and is not catching up, is left out of
 * this one. All ranks see the same times, those of the slowest, and so drop the
 * same candidates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

enum { PASSES = 6, AT_ONCE = 3, ROUNDS = 4 };
enum { MOST_CANDIDATES = TAUT_WAYS * (1 + (PASSES - 1) * AT_ONCE) };
#define ALL_NS INT64_C(45000000000) /* for all sizes together, about */
#define MOST_BEYOND (UINT64_C(1) << 44) /* bytes; more than any buffer */
#define HOPELESS 2.0 /* times the best of a round */
#define BEHIND 1.6   /* times the best of the size before */
#define CATCHES_UP 0.9 /* of what its ratio was when it was measured before that */
#define NO_BETTER 1.03 /* what the choice of the size before may take more */

struct candidate {
	enum taut_coll_way way;
	uint64_t pass_bytes; /* 0: all at once */
	uint32_t at_once;
	double ratio;        /* to the best, where it was measured last; 0: never */
	double ratio_before; /* where it was measured before that */
	bool left_out;       /* of the size before */
	struct bench_row row;
};

struct tuning {
	struct bench_rank *rank;
	struct candidate all[MOST_CANDIDATES];
	size_t n;
	struct candidate *alive[MOST_CANDIDATES]; /* the best first */
	size_t n_alive;
	struct candidate *before; /* chosen for the size before */
};

static void add(struct tuning *t, enum taut_coll_way way, uint64_t pass_bytes,
	uint32_t at_once)
{
	t->all[t->n++] = (struct candidate){ .way = way,
		.pass_bytes = pass_bytes, .at_once = at_once };
}

/* What the plan says is not varied. */
static void add_all(struct tuning *t)
{
	static const uint64_t passes[PASSES] = { 0, 32 << 10, 128 << 10,
		512 << 10, 2 << 20, 8 << 20 };
	static const uint32_t at_once[AT_ONCE] = { 1, 2, 4 };
	const struct bench_plan *plan = t->rank->plan;
	const uint64_t *pass = plan->pass_bytes ? &plan->pass_bytes : passes;
	const uint32_t *n = plan->at_once ? &plan->at_once : at_once;
	int n_passes = plan->pass_bytes ? 1 : PASSES;
	int n_numbers = plan->at_once ? 1 : AT_ONCE;

	for (int way = TAUT_WAY_AUTO + 1; way < TAUT_WAYS; way++) {
		if (!taut_coll_has(plan->verb, (enum taut_coll_way)way) ||
			(plan->way && plan->way != (enum taut_coll_way)way))
			continue;
		for (int p = 0; p < n_passes; p++)
			for (int i = 0; i < (pass[p] ? n_numbers : 1); i++)
				add(t, (enum taut_coll_way)way, pass[p], n[i]);
	}
}

/* --- one size --------------------------------------------------------------------------*/

/* What takes many steps is far behind while messages are small, and may be the best
 * of what is large: nothing is left out twice. */
static bool worth_measuring(const struct candidate *c)
{
	return c->left_out || c->ratio <= BEHIND ||
		c->ratio < CATCHES_UP * c->ratio_before;
}

static void select_candidates(struct tuning *t, uint64_t bytes)
{
	t->n_alive = 0;
	for (size_t i = 0; i < t->n; i++) {
		struct candidate *c = &t->all[i];

		if (c->pass_bytes >= bytes && !t->rank->plan->pass_bytes)
			continue;
		c->left_out = !worth_measuring(c);
		if (c->left_out)
			continue;
		c->ratio_before = c->ratio;
		t->alive[t->n_alive++] = c;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct candidate *x = *(struct candidate *const *)a;
	const struct candidate *y = *(struct candidate *const *)b;

	if (x->row.median_ns != y->row.median_ns)
		return x->row.median_ns < y->row.median_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

static struct taut_coll_call call_by(const struct tuning *t,
	const struct candidate *c, uint64_t bytes)
{
	struct taut_coll_call call = bench_call(t->rank, bytes);

	call.way = c->way;
	call.pass_bytes = c->pass_bytes ? c->pass_bytes : bytes;
	call.passes_at_once = c->at_once;
	return call;
}

static taut_status measure(struct tuning *t, struct candidate *c,
	uint64_t bytes, int64_t budget_ns, struct taut_error *err)
{
	struct taut_coll_call call = call_by(t, c, bytes);

	c->row = (struct bench_row){ .count = call.count,
		.bytes = call.count * taut_type_bytes(call.type) };
	return bench_time(t->rank, &call, budget_ns, 1, &c->row, err);
}

/* Half of them, and none that is hopeless. */
static void drop(struct tuning *t)
{
	double best = t->alive[0]->row.median_ns;

	t->n_alive = (t->n_alive + 1) / 2;
	while (t->n_alive > 1 &&
		t->alive[t->n_alive - 1]->row.median_ns > HOPELESS * best)
		t->n_alive--;
}

static taut_status halve(struct tuning *t, uint64_t bytes, int64_t budget_ns,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (int round = 0; !status; round++) {
		int64_t each_ns = budget_ns / ROUNDS / (int64_t)t->n_alive;

		for (size_t i = 0; !status && i < t->n_alive; i++)
			status = measure(t, t->alive[i], bytes, each_ns, err);
		if (status)
			break;
		qsort(t->alive, t->n_alive, sizeof *t->alive, by_time);
		for (size_t i = 0; i < t->n_alive; i++)
			t->alive[i]->ratio = t->alive[i]->row.median_ns /
				t->alive[0]->row.median_ns;
		if (round + 1 >= ROUNDS || t->n_alive == 1)
			break;
		drop(t);
	}
	return status;
}

/* The best, or the choice before where that is as good: fewer rows. */
static struct candidate *choose(struct tuning *t)
{
	for (size_t i = 1; i < t->n_alive; i++)
		if (t->alive[i] == t->before &&
			t->alive[i]->ratio <= NO_BETTER)
			return t->alive[i];
	return t->alive[0];
}

static taut_status tune_size(struct tuning *t, uint64_t bytes,
	int64_t budget_ns, struct taut_error *err)
{
	struct taut_coll_call call;
	taut_status status;

	select_candidates(t, bytes);
	status = halve(t, bytes, budget_ns, err);
	if (status)
		return status;
	t->before = choose(t);
	if (!t->rank->plan->check)
		return TAUT_OK;
	call = call_by(t, t->before, bytes);
	return bench_check(t->rank, &call, &t->before->row, err);
}

/* --- rows of the table --------------------------------------------------------------------*/

static bool same_choice(
	const struct taut_coll_choice *a, const struct taut_coll_choice *b)
{
	return a->way == b->way && a->pass_bytes == b->pass_bytes &&
		a->passes_at_once == b->passes_at_once;
}

/* Between two sizes that were measured, the middle of their logarithms parts. */
static void keep(struct tuning *t, const struct candidate *c,
	struct bench_result *result)
{
	struct bench_row row = c->row;
	struct taut_coll_choice *choice = &row.choice;
	size_t n = result->n_rows;

	*choice = (struct taut_coll_choice){ .verb = t->rank->plan->verb,
		.n_ranks = result->n_ranks, .n_hosts = result->n_hosts,
		.way = c->way, .pass_bytes = c->pass_bytes,
		.passes_at_once = c->at_once };
	if (n)
		choice->from_bytes = (uint64_t)sqrt(
			(double)result->rows[n - 1].bytes * (double)row.bytes);
	result->rows[result->n_rows++] = row;
	if (!result->n_choices || !same_choice(
			&result->choices[result->n_choices - 1], choice))
		result->choices[result->n_choices++] = *choice;
}

/* The largest size that was measured says nothing of what is far larger: from twice
 * of it on, rows for what held before. */
static void keep_beyond(const struct tuning *t, struct bench_result *result)
{
	uint64_t from = 2 * result->rows[result->n_rows - 1].bytes;

	for (uint64_t bytes = from; bytes <= MOST_BEYOND; bytes *= 2) {
		struct taut_coll_choice choice = taut_comm_choice(
			t->rank->comm, t->rank->plan->verb, bytes);

		if (choice.from_bytes < from)
			choice.from_bytes = from;
		if (!same_choice(&result->choices[result->n_choices - 1],
				&choice))
			result->choices[result->n_choices++] = choice;
	}
}

taut_status bench_tune(struct bench_rank *rank, struct bench_result *result,
	struct taut_error *err)
{
	const struct bench_plan *plan = rank->plan;
	struct tuning *t = calloc(1, sizeof *t);
	taut_status status = TAUT_OK;

	if (!t)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	t->rank = rank;
	add_all(t);
	for (size_t i = 0; !status && i < plan->n_sizes; i++) {
		bench_tell(rank, "tuning", i, plan->n_sizes);
		status = tune_size(t, plan->sizes[i],
			ALL_NS / (int64_t)plan->n_sizes, err);
		if (!status && result)
			keep(t, t->before, result);
	}
	if (!status && result)
		keep_beyond(t, result);
	free(t);
	return status;
}
