/* csv.c - the operations of all ranks as a table for other programs. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/groups.h"
#include "report/lanes.h"
#include "report/names.h"
#include "report/put.h"
#include "report/tables.h"

struct csv {
	struct tauti_put put;
	const struct taut_graph *g;
	const struct taut_trace *trace; /* of the lane that is written */
	char lane[128];
	uint32_t step;                  /* of that rank, in g->steps */
	struct taut_arena *arena;
	struct tauti_group_names groups;
	uint32_t *launch;               /* by op: what launched it */
	uint32_t *step_begin;           /* by trace: its first step; and the end */
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

static const struct taut_step *within(const struct csv *c, uint32_t i,
	uint32_t end, int64_t at)
{
	const struct taut_step *step = &c->g->steps[i];

	return i < end && step->start_ns <= at && at < step->end_ns ?
		step : NULL;
}

/* The step in which an operation starts; operations of a lane come in order,
 * but for small overlaps, so that looking back one step is enough. */
static const struct taut_step *step_of(
	struct csv *c, uint32_t trace, int64_t at)
{
	uint32_t end = c->step_begin[trace + 1];

	while (c->step + 1 < end && c->g->steps[c->step + 1].start_ns <= at)
		c->step++;
	return within(c, c->step, end, at);
}

/* The same, wherever the operation before was. */
static const struct taut_step *find_step(
	const struct csv *c, uint32_t trace, int64_t at)
{
	uint32_t lo = c->step_begin[trace], hi = c->step_begin[trace + 1];

	while (lo + 1 < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (c->g->steps[mid].start_ns <= at)
			lo = mid;
		else
			hi = mid;
	}
	return within(c, lo, c->step_begin[trace + 1], at);
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

/* --- sends and receives --------------------------------------------------- */

static const struct taut_trace *trace_of(const struct csv *c, uint32_t op)
{
	return &c->g->run->traces[c->g->lanes[c->g->lane[op]].trace];
}

/* Of a pair of which one sends: what does the rank of this arrival? */
static enum tauti_side told_side(const struct csv *c, uint32_t arrive)
{
	const struct taut_trace *t = trace_of(c, arrive);
	const struct taut_comm_args *args = NULL;
	uint32_t by = c->launch[arrive];
	enum tauti_side side;
	const char *what;

	if (c->g->event[arrive] != TAUT_NONE)
		args = taut_trace_comm(t, c->g->event[arrive]);
	if (!args && by != TAUT_NONE && c->g->event[by] != TAUT_NONE)
		args = tauti_comm_around(t, c->g->event[by]);
	if (!args)
		return TAUTI_SIDE_NONE;
	side = tauti_side_of(t, args);
	if (side)
		return side;
	what = taut_names_text(t->names, args->collective);
	return !strcmp(what, "send") ? TAUTI_SIDE_SEND :
		!strcmp(what, "recv") ? TAUTI_SIDE_RECV : TAUTI_SIDE_NONE;
}

/* Of the operation's communication; both ends must take it for the same. */
static enum tauti_side side_of(const struct csv *c, uint32_t op, uint32_t *ret_peer)
{
	const struct taut_graph *g = c->g;
	const struct taut_collective *coll = &g->collectives[g->collective[op]];
	uint32_t one, other;
	enum tauti_side side;

	if (coll->kind != TAUT_COLL_SENDRECV || coll->n_members != 2)
		return TAUTI_SIDE_NONE;
	one = g->member_arrive[coll->first_member];
	other = g->member_arrive[coll->first_member + 1];
	if (trace_of(c, one) != c->trace) {
		uint32_t swap = one;

		one = other;
		other = swap;
	}
	side = told_side(c, one);
	if (!side || told_side(c, other) != TAUTI_SIDE_SEND + TAUTI_SIDE_RECV - side)
		return TAUTI_SIDE_NONE;
	*ret_peer = other;
	return side;
}

/* Sends and receives are counted by step when they are read: both are of the
 * step in which the sender is. */
static const struct taut_step *step_of_pair(
	const struct csv *c, uint32_t op, uint32_t peer, enum tauti_side side)
{
	const struct taut_graph *g = c->g;
	uint32_t arrive = g->kind[op] == TAUT_OP_TRANSFER ? op - 1 : op;
	uint32_t sends = side == TAUTI_SIDE_SEND ? arrive : peer;

	return find_step(c, g->lanes[g->lane[sends]].trace, g->start_ns[sends]);
}

/* A name stands for one set of ranks; a number behind it tells several. What
 * has a peer needs none. */
static void put_group(struct csv *c, uint32_t index, bool has_peer)
{
	const char *name = taut_names_text(
		c->g->names, c->g->collectives[index].group);
	const char *label =
		c->groups.all[c->groups.of[index]].label;
	char text[256];

	if (!*name || has_peer || !strcmp(name, label)) {
		field(&c->put, name);
		return;
	}
	snprintf(text, sizeof text, "%.200s/%.32s", name, label);
	field(&c->put, text);
}

static void put_op(struct csv *c, uint32_t op)
{
	const struct taut_graph *g = c->g;
	struct tauti_put *put = &c->put;
	const struct taut_step *step = step_of(
		c, g->lanes[g->lane[op]].trace, g->start_ns[op]);
	uint32_t index = g->collective[op];
	uint32_t peer = TAUT_NONE;
	enum tauti_side side = index == TAUT_NONE ? TAUTI_SIDE_NONE : side_of(c, op, &peer);

	if (side)
		step = step_of_pair(c, op, peer, side);

	tauti_put_int(put, c->trace->rank);
	tauti_put_char(put, ',');
	if (step)
		tauti_put_int(put, step->id);
	tauti_put_char(put, ',');
	field(put, taut_names_text(g->names, g->name[op]));
	tauti_put_char(put, ',');
	tauti_put_text(put, !side || g->kind[op] != TAUT_OP_TRANSFER ?
		tauti_op_kind_key(g->kind[op]) :
		side == TAUTI_SIDE_SEND ? "send" : "recv");
	tauti_put_char(put, ',');
	field(put, c->lane);
	tauti_put_char(put, ',');
	tauti_put_us(put, g->start_ns[op]);
	tauti_put_char(put, ',');
	tauti_put_us(put, g->dur_ns[op]);
	tauti_put_char(put, ',');
	if (index != TAUT_NONE)
		put_group(c, index, side != TAUTI_SIDE_NONE);
	tauti_put_char(put, ',');
	known(put, bytes_of(c, op));
	tauti_put_char(put, ',');
	if (side)
		tauti_put_int(put, trace_of(c, peer)->rank);
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
	c->step = c->step_begin[l->trace];
	for (uint32_t op = c->g->lane_begin[lane];
		op < c->g->lane_begin[lane + 1]; op++)
		put_op(c, op);
}

/* Steps stand rank by rank. */
static void find_steps(struct csv *c)
{
	const struct taut_graph *g = c->g;
	uint32_t step = 0;

	for (uint32_t i = 0; i <= g->run->n_traces; i++) {
		while (step < g->n_steps && g->steps[step].trace < i)
			step++;
		c->step_begin[i] = step;
	}
}

static void find_launches(struct csv *c)
{
	const struct taut_graph *g = c->g;

	memset(c->launch, 0xff, g->n_ops * sizeof *c->launch);
	for (uint32_t op = 0; op < g->n_ops; op++)
		for (uint32_t e = g->edge_begin[op];
			e < g->edge_begin[op + 1]; e++)
			if (g->kind[op] == TAUT_OP_LAUNCH)
				c->launch[g->edge_to[e]] = op;
}

static taut_status find_all(struct csv *c, struct taut_error *err)
{
	const struct taut_graph *g = c->g;

	c->arena = taut_arena_create();
	if (c->arena) {
		c->launch = TAUT_ARENA_ARRAY(
			c->arena, uint32_t, (size_t)g->n_ops + 1);
		c->step_begin = TAUT_ARENA_ARRAY(
			c->arena, uint32_t, (size_t)g->run->n_traces + 2);
	}
	if (!c->launch || !c->step_begin)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for the table of %u operations", g->n_ops);
	find_steps(c);
	find_launches(c);
	return tauti_groups_name(g, c->arena, &c->groups, err);
}

taut_status tauti_csv_write(const struct taut_report *report, FILE *out,
	struct taut_error *reterr)
{
	struct csv c = { .g = report->graph };
	taut_status status = find_all(&c, reterr);

	if (!status) {
		tauti_put_begin(&c.put, out);
		tauti_put_text(&c.put, "rank,step,name,kind,lane,start_us,"
			"duration_us,group,bytes,peer\n");
		for (uint32_t lane = 0; lane < c.g->n_lanes; lane++)
			put_lane(&c, lane);
		status = tauti_put_end(&c.put, reterr);
	}
	taut_arena_destroy(c.arena);
	return status;
}
