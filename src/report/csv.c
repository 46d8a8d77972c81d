/* csv.c - the operations of all ranks as a table for other programs. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/lanes.h"
#include "report/names.h"
#include "report/put.h"
#include "report/tables.h"

struct csv {
	struct tauti_put put;
	const struct taut_graph *g;
	const struct taut_trace *trace; /* of the lane that is written */
	char lane[128];
	uint32_t step, end_step;        /* of that rank, in g->steps */
};

/* Quoted only where a field must be: it holds a comma, a quote or a line. */
static void field(struct tauti_put *put, const char *text)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		tauti_put_text(put, text);
		return;
	}
	tauti_put_char(put, '"');
	for (; *text; text++) {
		if (*text == '"')
			tauti_put_char(put, '"');
		tauti_put_char(put, *text);
	}
	tauti_put_char(put, '"');
}

static void known(struct tauti_put *put, int64_t value)
{
	if (value >= 0)
		tauti_put_int(put, value);
}

/* The step in which an operation starts; operations of a lane come in order,
 * but for small overlaps, so that looking back one step is enough. */
static const struct taut_step *step_of(struct csv *c, int64_t at)
{
	const struct taut_step *steps = c->g->steps;

	while (c->step + 1 < c->end_step && steps[c->step + 1].start_ns <= at)
		c->step++;
	if (c->step < c->end_step && steps[c->step].start_ns <= at &&
		at < steps[c->step].end_ns)
		return &steps[c->step];
	return NULL;
}

static void find_steps(struct csv *c, uint32_t trace)
{
	c->step = 0;
	while (c->step < c->g->n_steps && c->g->steps[c->step].trace != trace)
		c->step++;
	c->end_step = c->step;
	while (c->end_step < c->g->n_steps &&
		c->g->steps[c->end_step].trace == trace)
		c->end_step++;
}

static int64_t bytes_of(const struct csv *c, uint32_t op)
{
	const struct taut_graph *g = c->g;
	const struct taut_copy_args *copy;

	if (g->collective[op] != TAUT_NONE)
		return g->collectives[g->collective[op]].bytes;
	if (g->kind[op] != TAUT_OP_COPY || g->event[op] == TAUT_NONE)
		return -1;
	copy = taut_trace_copy(c->trace, g->event[op]);
	return copy ? copy->bytes : -1;
}

static void put_op(struct csv *c, uint32_t op)
{
	const struct taut_graph *g = c->g;
	struct tauti_put *put = &c->put;
	const struct taut_step *step = step_of(c, g->start_ns[op]);

	tauti_put_int(put, c->trace->rank);
	tauti_put_char(put, ',');
	if (step)
		tauti_put_int(put, step->id);
	tauti_put_char(put, ',');
	field(put, taut_names_text(g->names, g->name[op]));
	tauti_put_char(put, ',');
	tauti_put_text(put, tauti_op_kind_key(g->kind[op]));
	tauti_put_char(put, ',');
	field(put, c->lane);
	tauti_put_char(put, ',');
	tauti_put_us(put, g->start_ns[op]);
	tauti_put_char(put, ',');
	tauti_put_us(put, g->dur_ns[op]);
	tauti_put_char(put, ',');
	if (g->collective[op] != TAUT_NONE)
		field(put, taut_names_text(g->names,
			g->collectives[g->collective[op]].group));
	tauti_put_char(put, ',');
	known(put, bytes_of(c, op));
	tauti_put_char(put, '\n');
}

/* The lane's title; with the device or process before it where the rank has
 * another lane of the same. */
static void name_lane(struct csv *c, uint32_t lane)
{
	const struct taut_lane *lanes = c->trace->lanes, *l = &lanes[lane];
	bool device = l->kind == TAUT_LANE_STREAM, again = false;
	char title[sizeof c->lane];

	tauti_lane_title(c->trace, lane, c->lane, sizeof c->lane);
	for (uint32_t i = 0; i < c->trace->n_lanes && !again; i++)
		again = i != lane && lanes[i].kind == l->kind &&
			lanes[i].tid == l->tid &&
			(device || lanes[i].name == l->name);
	if (!again)
		return;
	memcpy(title, c->lane, sizeof title);
	snprintf(c->lane, sizeof c->lane, "%s %lld %.96s",
		device ? "device" : "process", (long long)l->pid, title);
}

static void put_lane(struct csv *c, uint32_t lane)
{
	const struct taut_graph_lane *l = &c->g->lanes[lane];

	if (l->trace == TAUT_NONE)
		return; /* joins: no rank's own */
	c->trace = &c->g->run->traces[l->trace];
	name_lane(c, l->trace_lane);
	find_steps(c, l->trace);
	for (uint32_t op = c->g->lane_begin[lane];
		op < c->g->lane_begin[lane + 1]; op++)
		put_op(c, op);
}

taut_status tauti_csv_write(const struct taut_report *report, FILE *out,
	struct taut_error *reterr)
{
	struct csv c = { .g = report->graph };

	tauti_put_begin(&c.put, out);
	tauti_put_text(&c.put, "rank,step,name,kind,lane,start_us,"
		"duration_us,group,bytes\n");
	for (uint32_t lane = 0; lane < c.g->n_lanes; lane++)
		put_lane(&c, lane);
	return tauti_put_end(&c.put, reterr);
}
