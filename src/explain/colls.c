/* colls.c - collectives: how long they move bytes, and who waits for whom.
 *
 * Of a collective the last arrival's own part is the transfer; what the
 * others spent before that is waiting. */
#include <stdlib.h>

#include "base/vec.h"
#include "explain/explain.h"

/* Bus bandwidth as nccl-tests define it (doc/PERFORMANCE.md there): the
 * algorithm's bytes per second times what one link must carry of them.
 * bytes is one rank's input. */
static double bus_bytes(enum taut_coll_kind kind, int64_t bytes, int n)
{
	double b = (double)bytes, share = n > 0 ? (n - 1.0) / n : 0;

	switch (kind) {
	case TAUT_COLL_ALLREDUCE:
		return 2 * share * b;
	case TAUT_COLL_ALLGATHER:
		return share * b * n; /* size there is the output */
	case TAUT_COLL_REDUCESCATTER:
	case TAUT_COLL_ALLTOALL:
		return share * b;
	case TAUT_COLL_BARRIER:
		return 0;
	default:
		return b;
	}
}

struct row {
	struct taut_report_coll out;
	enum taut_coll_kind kind;
	uint32_t group;
	double bus_bytes;
	int64_t bus_ns;
};

struct table {
	struct tauti_explain *x;
	TAUT_VEC(struct row) rows;
	int64_t *wait_ns;
	uint32_t *last;
	int64_t transfer_ns; /* sum over instances and their ranks */
};

static struct row *find_row(struct table *t, const struct taut_collective *c)
{
	const struct taut_graph *g = t->x->g;
	struct row fresh = { .kind = c->kind, .group = c->group };

	for (size_t i = 0; i < t->rows.count; i++)
		if (t->rows.data[i].kind == c->kind &&
			t->rows.data[i].group == c->group &&
			t->rows.data[i].out.group_size == c->group_size)
			return &t->rows.data[i];
	fresh.out.name = taut_coll_kind_name(c->kind);
	fresh.out.group = taut_names_text(g->names, c->group);
	fresh.out.kernel = taut_names_text(g->names, c->name);
	fresh.out.group_size = c->group_size;
	return taut_vec_push(&t->rows, fresh) ?
		&t->rows.data[t->rows.count - 1] : NULL;
}

/* The member that came last; its transfer is the collective's. */
static uint32_t last_member(const struct taut_graph *g,
	const struct taut_collective *c)
{
	uint32_t last = 0;

	for (uint32_t i = 1; i < c->n_members; i++)
		if (g->start_ns[g->member_arrive[c->first_member + i]] >
			g->start_ns[g->member_arrive[c->first_member + last]])
			last = i;
	return last;
}

static bool count(struct table *t, const struct taut_collective *c)
{
	const struct taut_graph *g = t->x->g;
	struct row *row = find_row(t, c);
	uint32_t last = last_member(g, c);
	uint32_t op = g->member_arrive[c->first_member + last];
	int64_t transfer = g->dur_ns[op + 1];
	int size = c->group_size > 0 ? c->group_size : (int)c->n_members;

	if (!row)
		return false;
	row->out.count++;
	row->out.members += c->n_members;
	row->out.transfer_ns += transfer;
	if (c->bytes >= 0) {
		row->out.bytes += c->bytes;
		row->bus_bytes += bus_bytes(c->kind, c->bytes, size);
		row->bus_ns += transfer;
	}
	for (uint32_t i = 0; i < c->n_members; i++) {
		uint32_t arrive = g->member_arrive[c->first_member + i];
		int64_t wait = g->start_ns[arrive + 1] - g->start_ns[arrive];

		row->out.wait_ns += wait;
		t->wait_ns[tauti_rank_of(g, arrive)] += wait;
	}
	if (c->n_members > 1)
		t->last[tauti_rank_of(g, op)]++;
	t->transfer_ns += transfer * c->n_members;
	t->x->report->coll_count += c->n_members > 1 ||
		t->x->report->n_ranks == 1;
	t->x->report->coll_complete += c->n_members > 1 &&
		(c->group_size < 0 ? c->n_members == t->x->report->n_ranks :
		(int)c->n_members == c->group_size);
	return true;
}

static int by_transfer(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->out.transfer_ns != y->out.transfer_ns)
		return x->out.transfer_ns > y->out.transfer_ns ? -1 : 1;
	return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) :
		x->group < y->group ? -1 : x->group > y->group;
}

static bool publish(struct table *t)
{
	struct taut_report *r = t->x->report;
	struct taut_report_coll *out = TAUT_ARENA_ARRAY(t->x->arena,
		struct taut_report_coll, t->rows.count + 1);

	if (!out)
		return false;
	if (t->rows.count)
		qsort(t->rows.data, t->rows.count, sizeof *t->rows.data,
			by_transfer);
	for (size_t i = 0; i < t->rows.count; i++) {
		struct row *row = &t->rows.data[i];

		out[i] = row->out;
		if (row->bus_ns > 0)
			out[i].busbw_gbs = row->bus_bytes / (double)row->bus_ns;
		else
			out[i].bytes = -1;
	}
	r->colls = out;
	r->n_colls = (uint32_t)t->rows.count;
	r->coll_transfer_ns = r->n_ranks ? t->transfer_ns / r->n_ranks : 0;
	r->coll_wait_ns = t->wait_ns;
	r->coll_last_arrivals = t->last;
	return true;
}

taut_status tauti_colls_sum(struct tauti_explain *x, struct taut_error *err)
{
	struct table t = { .x = x };
	bool ok;

	t.wait_ns = TAUT_ARENA_ARRAY(x->arena, int64_t, x->report->n_ranks + 1);
	t.last = TAUT_ARENA_ARRAY(x->arena, uint32_t, x->report->n_ranks + 1);
	ok = t.wait_ns && t.last;
	for (uint32_t i = 0; ok && i < x->g->n_collectives; i++)
		ok = count(&t, &x->g->collectives[i]);
	ok = ok && publish(&t);
	taut_vec_free(&t.rows);
	return ok ? TAUT_OK : tauti_explain_no_memory(err);
}
