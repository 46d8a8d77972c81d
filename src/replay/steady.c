/* steady.c - see steady.h. */
#include "steady.h"

#include <stdlib.h>

#include <taut/replay.h>

static int by_ns(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* Its first step warms a rank up. */
static int is_warmup(const struct taut_graph *graph, uint32_t step)
{
	uint32_t trace = graph->steps[step].trace;
	int first = !step || graph->steps[step - 1].trace != trace;
	int more = step + 1 < graph->n_steps &&
		graph->steps[step + 1].trace == trace;
	return first && more;
}

int64_t tauti_steady(const struct taut_graph *graph, int64_t *took_ns)
{
	size_t n = 0;
	for (uint32_t i = 0; i < graph->n_steps; i++) {
		if (!is_warmup(graph, i))
			took_ns[n++] = took_ns[i];
	}
	if (!n)
		return -1;
	qsort(took_ns, n, sizeof *took_ns, by_ns);
	return took_ns[n / 2];
}

taut_status taut_steady_step(const struct taut_graph *graph,
	const int64_t *start_ns, const int64_t *end_ns, int64_t *ret_ns,
	struct taut_error *reterr)
{
	int64_t *took_ns = malloc(
		((size_t)graph->n_steps + 1) * sizeof *took_ns);
	if (!took_ns)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for the times of %u steps",
			(unsigned)graph->n_steps);
	for (uint32_t i = 0; i < graph->n_steps; i++)
		took_ns[i] = end_ns[graph->steps[i].end_op] -
			start_ns[graph->steps[i].begin_op];
	*ret_ns = tauti_steady(graph, took_ns);
	free(took_ns);
	return TAUT_OK;
}
