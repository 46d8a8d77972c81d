/* beside.c - see beside.h. */
#include "trace/beside.h"

#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 256 };

struct slot {
	int64_t end_ns;
	uint32_t lane;
};

struct slots {
	struct tauti_builder *builder;
	struct tauti_beside_lanes lanes;
	struct slot of[SLOTS];
	unsigned n;
};

static bool add_slot(struct slots *s)
{
	struct tauti_lanes *lanes = &s->builder->lanes;
	char text[32];
	int n = snprintf(text, sizeof text, "%s %u", s->lanes.name, s->n + 1);
	uint32_t name = taut_names_add(s->builder->names, text, (size_t)n);
	uint32_t lane = tauti_lanes_add(lanes, TAUTI_ROLE_THREAD, s->lanes.pid,
		s->lanes.first_tid + s->n);

	if (name == TAUT_NONE || lane == TAUT_NONE)
		return false;
	lanes->all.data[lane].name = name;
	s->of[s->n++] = (struct slot){ .end_ns = INT64_MIN, .lane = lane };
	return true;
}

/* The lane that is free at start; the one that is free first, if none is. */
static struct slot *free_slot(struct slots *s, int64_t start_ns)
{
	struct slot *first = &s->of[0];

	for (unsigned i = 0; i < s->n; i++) {
		if (s->of[i].end_ns <= start_ns)
			return &s->of[i];
		if (s->of[i].end_ns < first->end_ns)
			first = &s->of[i];
	}
	if (s->n == SLOTS)
		return first;
	return add_slot(s) ? &s->of[s->n - 1] : NULL;
}

static int by_start(const void *a, const void *b)
{
	const struct tauti_beside *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

bool tauti_beside(struct tauti_builder *builder, struct tauti_beside *rows, size_t n,
	struct tauti_beside_lanes lanes)
{
	struct slots slots = { .builder = builder, .lanes = lanes };

	for (size_t i = 0; i < n; i++)
		rows[i].start_ns = tauti_builder_row_at(builder, rows[i].row)->start_ns;
	if (n)
		qsort(rows, n, sizeof *rows, by_start);
	for (size_t i = 0; i < n; i++) {
		struct tauti_row *row = tauti_builder_row_at(builder, rows[i].row);
		struct slot *slot = free_slot(&slots, row->start_ns);

		if (!slot)
			return false;
		slot->end_ns = row->start_ns + row->dur_ns;
		row->lane = slot->lane;
	}
	return true;
}
