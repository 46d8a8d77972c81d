/* lanes.c - see lanes.h. */
#include "report/lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tauti_lane_title(const struct taut_trace *trace, uint32_t lane,
	char *ret_title, size_t size)
{
	const struct taut_lane *l = &trace->lanes[lane];
	const char *name = taut_names_text(trace->names, l->name);

	if (strncmp(name, "thread ", 7) == 0 || (trace->is_table && *name))
		snprintf(ret_title, size, "%s", name); /* it says so itself */
	else if (l->kind == TAUT_LANE_STREAM)
		snprintf(ret_title, size, "stream %lld", (long long)l->tid);
	else if (l->kind == TAUT_LANE_OTHER && *name)
		snprintf(ret_title, size, "%s", name);
	else if (*name)
		snprintf(ret_title, size, "thread %lld (%s)", (long long)l->tid,
			name);
	else
		snprintf(ret_title, size, "thread %lld", (long long)l->tid);
}

static int by_row(const void *a, const void *b)
{
	const struct tauti_member *x = a, *y = b;

	return (x->row > y->row) - (x->row < y->row);
}

static uint32_t trace_of(const struct taut_graph *g, uint32_t op)
{
	return g->lanes[g->lane[op]].trace;
}

static uint32_t last_trace(
	const struct taut_graph *g, const struct taut_collective *c)
{
	const uint32_t *arrive = &g->member_arrive[c->first_member];
	uint32_t last = 0;

	for (uint32_t i = 1; i < c->n_members; i++) {
		if (g->start_ns[arrive[i]] > g->start_ns[arrive[last]])
			last = i;
	}
	return c->n_members ? trace_of(g, arrive[last]) : TAUT_NONE;
}

static void add_members(const struct taut_graph *g, uint32_t index,
	struct tauti_members *members)
{
	const struct taut_collective *c = &g->collectives[index];
	uint32_t last = last_trace(g, c);

	for (uint32_t i = 0; i < c->n_members; i++) {
		uint32_t op = g->member_arrive[c->first_member + i];
		struct tauti_member
			*m = &members->data[members->begin[trace_of(g, op)]++];

		m->row = g->event[op + 1] != TAUT_NONE ? g->event[op + 1]
						       : g->event[op];
		m->collective = index;
		m->last = last;
		m->arrive = g->start_ns[op];
		m->begin = g->start_ns[op + 1];
		m->end = m->begin + g->dur_ns[op + 1];
	}
}

static uint32_t count_members(const struct taut_graph *g, uint32_t *count)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < g->n_collectives; i++) {
		const struct taut_collective *c = &g->collectives[i];

		for (uint32_t k = 0; k < c->n_members; k++)
			count[trace_of(
				g, g->member_arrive[c->first_member + k])]++;
		total += c->n_members;
	}
	return total;
}

taut_status tauti_members_find(const struct taut_graph *graph,
	struct tauti_members *ret_members, struct taut_error *reterr)
{
	uint32_t n = graph->run->n_traces, total, sum = 0;
	struct tauti_members m = { NULL, NULL };

	m.begin = calloc((size_t)n + 1, sizeof *m.begin);
	if (!m.begin)
		goto no_memory;
	total = count_members(graph, m.begin);
	m.data = calloc(total ? total : 1, sizeof *m.data);
	if (!m.data)
		goto no_memory;
	for (uint32_t i = 0; i <= n; i++) {
		uint32_t count = m.begin[i];

		m.begin[i] = sum;
		sum += count;
	}
	for (uint32_t i = 0; i < graph->n_collectives; i++)
		add_members(graph, i, &m);
	for (uint32_t i = n; i > 0; i--) /* filling moved each to its end */
		m.begin[i] = m.begin[i - 1];
	m.begin[0] = 0;
	for (uint32_t i = 0; i < n; i++)
		qsort(m.data + m.begin[i], m.begin[i + 1] - m.begin[i],
			sizeof *m.data, by_row);
	*ret_members = m;
	return TAUT_OK;
no_memory:
	tauti_members_free(&m);
	return taut_error_set(reterr, TAUT_ENOMEM, -1,
		"no memory for %u ranks' collectives", n);
}

void tauti_members_free(struct tauti_members *members)
{
	free(members->data);
	free(members->begin);
	members->data = NULL;
	members->begin = NULL;
}

const struct taut_comm_args *tauti_comm_around(
	const struct taut_trace *t, uint32_t row)
{
	int64_t end = t->start_ns[row] + t->dur_ns[row];

	for (uint32_t i = row + 1, n = 0; i-- > 0 && n < 256; n++) {
		if (t->lane[i] != t->lane[row])
			break;
		if (t->start_ns[i] + t->dur_ns[i] >= end &&
			taut_trace_comm(t, i))
			return taut_trace_comm(t, i);
	}
	return NULL;
}

enum tauti_side tauti_side_of(
	const struct taut_trace *trace, const struct taut_comm_args *args)
{
	if (args->dst_rank >= 0 && args->dst_rank != trace->rank)
		return TAUTI_SIDE_SEND;
	return args->src_rank >= 0 && args->src_rank != trace->rank ?
		TAUTI_SIDE_RECV : TAUTI_SIDE_NONE;
}
