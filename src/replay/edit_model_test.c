/* edit_model_test.c - an edit against one that is too simple to be wrong: lanes
 * are arrays, edges are one list, and every change moves what it must. After
 * each change all that can be read of both is the same, and so is the graph
 * that is built. */
#include <stdlib.h>
#include <string.h>

#include <taut/edit.h>

#include "small_job.h"
#include "tests/support/unit.h"

#define OK(call) assert_int_equal((call), TAUT_OK)

enum { MAX_OPS = 512, MAX_LANES = 16, MAX_EDGES = 1024 };

struct model {
	uint32_t n_ops, n_lanes, n_edges;
	int64_t dur[MAX_OPS], gap[MAX_OPS];
	uint32_t lane[MAX_OPS], coll[MAX_OPS];
	uint8_t kind[MAX_OPS], gone[MAX_OPS];
	uint32_t on[MAX_LANES][MAX_OPS], n_on[MAX_LANES];
	struct by_hand_edge edges[MAX_EDGES];
	uint32_t members[SMALL_SLOTS];
	const struct taut_graph *below;
};

static void model_init(struct model *m, const struct taut_graph *g)
{
	memset(m, 0, sizeof *m);
	m->below = g;
	m->n_ops = g->n_ops;
	m->n_lanes = g->n_lanes;
	for (uint32_t i = 0; i < g->n_ops; i++) {
		uint32_t l = g->lane[i];

		m->dur[i] = g->dur_ns[i];
		m->gap[i] = g->gap_ns[i];
		m->kind[i] = g->kind[i];
		m->coll[i] = g->collective[i];
		m->lane[i] = l;
		m->on[l][m->n_on[l]++] = i;
		for (uint32_t e = g->edge_begin[i]; e < g->edge_begin[i + 1];
			e++)
			m->edges[m->n_edges++] = (struct by_hand_edge) { i,
				g->edge_to[e], g->edge_lag_ns[e],
				g->edge_kind[e] };
	}
	for (uint32_t c = 0; c < g->n_collectives; c++)
		m->members[c] = g->collectives[c].n_members;
}

static uint32_t place_of(const struct model *m, uint32_t op)
{
	uint32_t at = 0;

	while (m->on[m->lane[op]][at] != op)
		at++;
	return at;
}

static void take_off(struct model *m, uint32_t op)
{
	uint32_t l = m->lane[op], at = place_of(m, op);

	m->n_on[l]--;
	memmove(&m->on[l][at], &m->on[l][at + 1],
		(m->n_on[l] - at) * sizeof(uint32_t));
}

static void put_on(struct model *m, uint32_t op, uint32_t after, uint32_t lane)
{
	uint32_t at = after == TAUT_NONE ? 0 : place_of(m, after) + 1;

	m->lane[op] = lane;
	memmove(&m->on[lane][at + 1], &m->on[lane][at],
		(m->n_on[lane] - at) * sizeof(uint32_t));
	m->on[lane][at] = op;
	m->n_on[lane]++;
}

/* Edges between a and b, or all of a where b is TAUT_NONE. */
static void drop_edges(struct model *m, uint32_t a, uint32_t b)
{
	uint32_t kept = 0;

	for (uint32_t e = 0; e < m->n_edges; e++) {
		const struct by_hand_edge *w = &m->edges[e];

		if (b == TAUT_NONE ? w->from == a || w->to == a :
			w->from == a && w->to == b)
			continue;
		m->edges[kept++] = *w;
	}
	m->n_edges = kept;
}

static void model_cut(struct model *m, uint32_t op)
{
	drop_edges(m, op, TAUT_NONE);
	take_off(m, op);
	m->gone[op] = 1;
}

/* --- the same change to both -------------------------------------------------------------- */

struct both {
	struct taut_edit *edit;
	struct model *m;
	uint64_t *seed;
};

static uint32_t any_op(const struct both *b)
{
	return small_pick(b->seed, b->m->n_ops);
}

static void times(struct both *b)
{
	uint32_t op = any_op(b);
	int64_t ns = small_pick(b->seed, 9);

	if (!taut_edit_set_dur(b->edit, op, ns, NULL))
		b->m->dur[op] = ns;
	if (!taut_edit_set_gap(b->edit, op, -ns, NULL))
		b->m->gap[op] = -ns;
}

static void insert(struct both *b)
{
	struct taut_op op = { .dur_ns = small_pick(b->seed, 9),
		.gap_ns = small_signed(b->seed, 9), .event = TAUT_NONE,
		.lane = small_pick(b->seed, b->m->n_lanes),
		.like = TAUT_NONE, .kind = TAUT_OP_COPY };
	uint32_t after = small_pick(b->seed, 4) ? any_op(b) : TAUT_NONE, id;
	struct model *m = b->m;

	if (taut_edit_insert(b->edit, after, &op, "new", &id, NULL))
		return;
	assert_int_equal(id, m->n_ops);
	m->n_ops++;
	m->dur[id] = op.dur_ns;
	m->gap[id] = op.gap_ns;
	m->kind[id] = TAUT_OP_COPY;
	m->coll[id] = TAUT_NONE;
	put_on(m, id, after, after == TAUT_NONE ? op.lane : m->lane[after]);
}

static void move(struct both *b)
{
	uint32_t op = any_op(b), lane = small_pick(b->seed, b->m->n_lanes);
	uint32_t after = small_pick(b->seed, 4) ? any_op(b) : TAUT_NONE;
	struct model *m = b->m;

	if (taut_edit_move(b->edit, op, after, lane, NULL))
		return;
	if (after != TAUT_NONE)
		lane = m->lane[after];
	if (m->kind[op] == TAUT_OP_ARRIVE) {
		uint32_t transfer = m->on[m->lane[op]][place_of(m, op) + 1];

		take_off(m, transfer);
		take_off(m, op);
		put_on(m, op, after, lane);
		put_on(m, transfer, op, lane);
	} else {
		take_off(m, op);
		put_on(m, op, after, lane);
	}
}

static void connect(struct both *b)
{
	struct by_hand_edge w = { any_op(b), any_op(b),
		small_signed(b->seed, 9), TAUT_EDGE_THREAD };

	if (small_pick(b->seed, 2))
		w.kind |= TAUT_EDGE_FROM_START;
	if (!taut_edit_connect(b->edit, w.from, w.to, w.kind, w.lag_ns, NULL))
		b->m->edges[b->m->n_edges++] = w;
}

static void disconnect(struct both *b)
{
	struct by_hand_edge w;

	if (!b->m->n_edges)
		return;
	w = b->m->edges[small_pick(b->seed, b->m->n_edges)];
	OK(taut_edit_disconnect(b->edit, w.from, w.to, NULL));
	drop_edges(b->m, w.from, w.to);
	assert_int_equal(taut_edit_disconnect(b->edit, w.from, w.to, NULL),
		TAUT_EINVAL);
}

static void cut(struct both *b)
{
	uint32_t op = any_op(b), coll = b->m->coll[op];
	struct model *m = b->m;

	if (taut_edit_cut(b->edit, op, NULL))
		return;
	if (coll != TAUT_NONE) {
		uint32_t at = place_of(m, op), lane = m->lane[op];

		if (m->kind[op] == TAUT_OP_TRANSFER)
			at--;
		op = m->on[lane][at];
		model_cut(m, m->on[lane][at + 1]);
		if (!--m->members[coll])
			model_cut(m, m->below->collectives[coll].join_op);
	}
	model_cut(m, op);
}

static void change(struct both *b)
{
	static void (*const all[])(struct both *b) = { times, insert, move,
		move, connect, disconnect, cut };

	all[small_pick(b->seed, 7)](b);
}

/* --- comparison ------------------------------------------------------------------------------ */

struct seen {
	struct taut_wait waits[MAX_EDGES];
	uint32_t n;
};

static void see(void *context, struct taut_wait wait)
{
	struct seen *seen = context;

	seen->waits[seen->n++] = wait;
}

static void compare_waits(const struct both *b, uint32_t op, bool in)
{
	struct seen seen = { .n = 0 };
	uint32_t n = 0;

	if (in)
		taut_edit_each_in(b->edit, op, see, &seen);
	else
		taut_edit_each_out(b->edit, op, see, &seen);
	for (uint32_t e = 0; e < b->m->n_edges; e++) {
		const struct by_hand_edge *w = &b->m->edges[e];

		if ((in ? w->to : w->from) != op)
			continue;
		assert_true(n < seen.n);
		assert_int_equal(seen.waits[n].op, in ? w->from : w->to);
		assert_int_equal(seen.waits[n].lag_ns, w->lag_ns);
		assert_int_equal(seen.waits[n].kind, w->kind);
		n++;
	}
	assert_int_equal(n, seen.n);
}

static void compare_ops(const struct both *b)
{
	const struct model *m = b->m;
	struct taut_op op;

	for (uint32_t i = 0; i < m->n_ops; i++) {
		uint32_t l = m->lane[i], at;

		assert_int_equal(taut_edit_op(b->edit, i, &op), !m->gone[i]);
		if (m->gone[i])
			continue;
		assert_int_equal(op.lane, l);
		assert_int_equal(op.dur_ns, m->dur[i]);
		assert_int_equal(op.gap_ns, m->gap[i]);
		at = place_of(m, i);
		assert_int_equal(taut_edit_before(b->edit, i),
			at ? m->on[l][at - 1] : TAUT_NONE);
		assert_int_equal(taut_edit_next(b->edit, i),
			at + 1 < m->n_on[l] ? m->on[l][at + 1] : TAUT_NONE);
		compare_waits(b, i, true);
		compare_waits(b, i, false);
	}
}

static void compare_edges(const struct both *b, const struct taut_graph *g,
	const uint32_t *op_of)
{
	uint32_t at[MAX_OPS];

	for (uint32_t i = 0; i < g->n_ops; i++)
		at[i] = g->edge_begin[i];
	assert_int_equal(g->n_edges, b->m->n_edges);
	for (uint32_t e = 0; e < b->m->n_edges; e++) {
		const struct by_hand_edge *w = &b->m->edges[e];
		uint32_t k = at[op_of[w->from]]++;

		assert_int_equal(g->edge_to[k], op_of[w->to]);
		assert_int_equal(g->edge_lag_ns[k], w->lag_ns);
		assert_int_equal(g->edge_kind[k], w->kind);
	}
	for (uint32_t i = 0; i < g->n_ops; i++)
		assert_int_equal(at[i], g->edge_begin[i + 1]);
}

static void compare_built(const struct both *b)
{
	uint32_t op_of[MAX_OPS], id = 0, lane = 0;
	const struct model *m = b->m;
	struct taut_graph *g;

	OK(taut_edit_build(b->edit, &g, op_of, NULL, NULL));
	for (uint32_t l = 0; l < m->n_lanes; l++) {
		if (!m->n_on[l] && m->below->lane_begin[l] <
			m->below->lane_begin[l + 1])
			continue; /* it has become empty */
		assert_int_equal(g->lane_begin[lane], id);
		for (uint32_t i = 0; i < m->n_on[l]; i++, id++) {
			uint32_t op = m->on[l][i];

			assert_int_equal(op_of[op], id);
			assert_int_equal(g->lane[id], lane);
			assert_int_equal(g->dur_ns[id], m->dur[op]);
			assert_int_equal(g->gap_ns[id], m->gap[op]);
			assert_int_equal(g->kind[id], m->kind[op]);
		}
		lane++;
	}
	assert_int_equal(g->n_ops, id);
	assert_int_equal(g->n_lanes, lane);
	compare_edges(b, g, op_of);
	for (uint32_t c = 0; c < g->n_collectives; c++)
		for (uint32_t i = 0; i < g->collectives[c].n_members; i++) {
			uint32_t op = g->member_arrive[
				g->collectives[c].first_member + i];

			assert_int_equal(g->kind[op], TAUT_OP_ARRIVE);
			assert_int_equal(g->kind[op + 1], TAUT_OP_TRANSFER);
			assert_int_equal(g->collective[op + 1], c);
			assert_int_equal(g->lane[op], g->lane[op + 1]);
		}
	taut_graph_destroy(g);
}

static void test_model(void **state)
{
	static struct model m, marked;

	(void)state;
	for (uint64_t i = 1; i <= 1500; i++) {
		uint64_t seed = i * 9000011;
		struct small_job *job = small_job_create(seed);
		struct both b = { NULL, &m, &seed };
		uint32_t mark;

		OK(taut_edit_create(&job->graph, &b.edit, NULL));
		model_init(&m, &job->graph);
		marked = m;
		mark = taut_edit_mark(b.edit);
		for (uint32_t k = 0; k < 30; k++) {
			change(&b);
			if (k % 5 == 0)
				compare_ops(&b);
			if (k % 7 == 0)
				compare_built(&b);
			if (!small_pick(&seed, 12)) {
				taut_edit_undo(b.edit, mark);
				m = marked;
			} else if (!small_pick(&seed, 12)) {
				mark = taut_edit_mark(b.edit);
				marked = m;
			}
		}
		compare_ops(&b);
		compare_built(&b);
		taut_edit_destroy(b.edit);
		small_job_destroy(job);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),
	};

	return cmocka_run_group_tests_name(
		"edit against a simple one", tests, NULL, NULL);
}
