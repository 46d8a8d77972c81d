/* issue.c - see issue.h. */
#include "whatif/issue.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "whatif/compute.h"
#include "whatif/spans.h"

/* --- where they are ------------------------------------------------------------- */

typedef bool row_fn(const struct taut_trace *trace, uint32_t row);

enum where { BEGINS, ENDS };

/* When the last such row of the step's thread in the step begins or ends; INT64_MIN. */
static int64_t last_of(const struct taut_graph *g, const struct taut_step *step,
	row_fn *is_it, enum where where)
{
	const struct taut_trace *t = &g->run->traces[step->trace];
	uint32_t lane = g->lanes[g->lane[step->begin_op]].trace_lane;
	int64_t last = INT64_MIN;

	for (uint32_t i = t->lane_begin[lane]; i < t->lane_begin[lane + 1];
		i++) {
		int64_t at;

		if (!is_it(t, i))
			continue;
		at = taut_graph_time(g, step->trace, t->start_ns[i] +
			(where == ENDS ? t->dur_ns[i] : 0));
		if (at > step->start_ns && at <= step->end_ns && at > last)
			last = at;
	}
	return last;
}

/* The first slice of a step's thread that begins at this time or later, or its end. */
static uint32_t first_from(
	const struct taut_graph *g, const struct taut_step *step, int64_t at)
{
	uint32_t op = step->begin_op;

	while (op < step->end_op && g->start_ns[op] < at)
		op++;
	return op;
}

static bool is_update(const struct taut_trace *t, uint32_t row)
{
	return t->kind[row] == TAUT_KIND_ANNOTATION &&
		!strncmp(taut_trace_name(t, row), "Optimizer.step", 14);
}

static bool add_step(struct tauti_issue *issue, const struct taut_graph *g,
	const struct taut_step *step, row_fn *is_begin)
{
	int64_t from = last_of(g, step, is_begin, ENDS), to = INT64_MAX;
	uint32_t begin, end = step->end_op;

	if (from == INT64_MIN || g->lane[step->begin_op] != g->lane[end])
		return true;
	if (g->run->traces[step->trace].issue_to_update)
		to = last_of(g, step, is_update, BEGINS);
	begin = first_from(g, step, from);
	if (to != INT64_MAX)
		end = first_from(g, step, to) - 1;
	return begin >= end || taut_vec_push(&issue->spans,
		((struct tauti_issue_span){ step->trace, begin, end }));
}

/* Of n steps of a rank. */
static bool add_rank(struct tauti_issue *issue, const struct taut_graph *g,
	const struct taut_step *steps, uint32_t n)
{
	row_fn *is_begin = tauti_is_zero_grad;
	bool ok = true;

	if (!g->run->traces[steps->trace].issue_unrecorded_ns)
		return true;
	for (uint32_t i = 0; i < n && is_begin != tauti_is_batch; i++)
		if (last_of(g, &steps[i], tauti_is_batch, ENDS) != INT64_MIN)
			is_begin = tauti_is_batch;
	for (uint32_t i = n > 1; i < n && ok; i++)
		ok = add_step(issue, g, &steps[i], is_begin);
	return ok;
}

taut_status tauti_issue_find(const struct taut_graph *graph,
	struct tauti_issue *ret_issue, struct taut_error *err)
{
	struct tauti_issue issue = { 0 };

	for (uint32_t i = 0, n; i < graph->n_steps; i += n) {
		const struct taut_step *steps = &graph->steps[i];

		for (n = 1; i + n < graph->n_steps &&
			steps[n].trace == steps->trace; n++)
			;
		if (!add_rank(&issue, graph, steps, n)) {
			tauti_issue_free(&issue);
			return taut_error_set(err, TAUT_ENOMEM, -1,
				"no memory for the recorder");
		}
	}
	*ret_issue = issue;
	return TAUT_OK;
}

void tauti_issue_free(struct tauti_issue *issue)
{
	taut_vec_free(&issue->spans);
}

/* --- how long they take --------------------------------------------------------- */

/* The spans of a rank, from first on. */
static size_t count_rank(const struct tauti_issue *issue, size_t first)
{
	size_t n = 1;

	while (first + n < issue->spans.count && issue->spans.data[first +
		n].trace == issue->spans.data[first].trace)
		n++;
	return n;
}

/* Of the median of n values, squared: 1.2533 sigma / sqrt(n), and sigma 1.4826
 * times the median deviation, as of a normal distribution. Reorders them, and
 * leaves deviations. */
static double square_error(int64_t *ns, size_t n, int64_t median)
{
	double sigma;

	for (size_t i = 0; i < n; i++)
		ns[i] = llabs(ns[i] - median);
	sigma = 1.4826 * (double)tauti_median(ns, n);
	return 1.2533 * 1.2533 * sigma * sigma / (double)n;
}

taut_status tauti_issue_measure(const struct tauti_issue *issue,
	const int64_t *start_ns, const int64_t *end_ns, int64_t *ret_ns,
	double *ret_error_ns, struct taut_error *err)
{
	size_t count = issue->spans.count, ranks = 0, n;
	int64_t *ns = malloc((count + 1) * sizeof *ns), sum = 0;
	double square = 0;

	if (!ns)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for the recorder");
	for (size_t i = 0; i < count; i += n, ranks++) {
		int64_t median;

		n = count_rank(issue, i);
		for (size_t k = 0; k < n; k++) {
			const struct tauti_issue_span *s =
				&issue->spans.data[i + k];
			ns[k] = end_ns[s->end_op] - start_ns[s->begin_op];
		}
		median = tauti_median(ns, n);
		sum += median;
		square += square_error(ns, n, median);
	}
	free(ns);
	*ret_ns = ranks ? sum / (int64_t)ranks : 0;
	*ret_error_ns = ranks ? sqrt(square) / (double)ranks : 0;
	return TAUT_OK;
}

int64_t tauti_issue_unrecorded(
	const struct tauti_issue *issue, const struct taut_graph *graph)
{
	int64_t sum = 0, ranks = 0;

	for (size_t i = 0; i < issue->spans.count; i += count_rank(issue, i)) {
		sum += graph->run->traces[issue->spans.data[i].trace]
			.issue_unrecorded_ns;
		ranks++;
	}
	return ranks ? sum / ranks : 0;
}

/* Of one lane, within the spans of its rank. */
static double owed_on(const struct tauti_issue *issue,
	const struct taut_graph *g, uint32_t lane, const int64_t *from_ns,
	const int64_t *to_ns)
{
	uint32_t op = g->lane_begin[lane], end = g->lane_begin[lane + 1];
	double sum = 0;

	for (size_t i = 0; i < issue->spans.count; i++) {
		const struct tauti_issue_span *s = &issue->spans.data[i];

		if (s->trace != g->lanes[lane].trace)
			continue;
		while (op < end && g->start_ns[op] < g->start_ns[s->begin_op])
			op++;
		for (; op < end && g->start_ns[op] < g->start_ns[s->end_op];
			op++)
			sum += (double)(from_ns[op] - to_ns[op]);
	}
	return sum;
}

double tauti_issue_owed(const struct tauti_issue *issue,
	const struct taut_graph *graph, const int64_t *from_ns,
	const int64_t *to_ns)
{
	double sum = 0;

	for (uint32_t lane = 0; lane < graph->n_lanes; lane++)
		sum += owed_on(issue, graph, lane, from_ns, to_ns);
	return issue->spans.count ? sum / (double)issue->spans.count : 0;
}
