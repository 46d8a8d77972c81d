/* steady.c - the one figure by which a job is judged: its usual step. */
#include <stdlib.h>

#include <taut/replay.h>

static int by_ns(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* A rank's first step warms up, where it has others. */
static int is_warmup(const struct taut_graph *graph, uint32_t step)
{
	uint32_t trace = graph->steps[step].trace;
	int first = !step || graph->steps[step - 1].trace != trace;
	int more = step + 1 < graph->n_steps &&
		graph->steps[step + 1].trace == trace;
	return first && more;
}

taut_status taut_steady_step(const struct taut_graph *graph,
	const int64_t *start_ns, const int64_t *end_ns, int64_t *ret_ns,
	struct taut_error *reterr)
{
	size_t n = 0;
	int64_t *took_ns = calloc((size_t)graph->n_steps + 1, sizeof *took_ns);
	if (!took_ns)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for the times of %u steps",
			(unsigned)graph->n_steps);
	for (uint32_t i = 0; i < graph->n_steps; i++) {
		const struct taut_step *step = &graph->steps[i];
		if (!is_warmup(graph, i))
			took_ns[n++] = end_ns[step->end_op] -
				start_ns[step->begin_op];
	}
	qsort(took_ns, n, sizeof *took_ns, by_ns);
	*ret_ns = n ? took_ns[n / 2] : -1;
	free(took_ns);
	return TAUT_OK;
}
