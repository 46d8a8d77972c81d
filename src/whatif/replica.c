/* replica.c - which ranks hold one model together, and one of these more. */
#include <stdlib.h>
#include <string.h>

#include "whatif/compute.h"
#include "whatif/world.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for ranks");
}

/* --- who belongs together ------------------------------------------------------- */

struct finder {
	struct tauti_whatif *w;
	uint32_t *ranks, n;  /* present ones, ascending */
	uint32_t *place;     /* by rank of the edit */
	uint32_t *root;      /* by place: union-find */
	uint8_t *marks;      /* gradients */
	TAUT_VEC(uint32_t) members; /* places, of one collective */
	bool failed;
	bool sums_gradients;
};

static uint32_t root_of(struct finder *f, uint32_t p)
{
	while (f->root[p] != p)
		p = f->root[p] = f->root[f->root[p]];
	return p;
}

static void see_member(void *context, uint32_t arrive)
{
	struct finder *f = context;
	struct taut_op op;

	if (taut_edit_op(f->w->edit, arrive, &op) && !taut_vec_push(&f->members,
		f->place[taut_edit_lane(f->w->edit, op.lane).trace]))
		f->failed = true;
}

static taut_status members_of(struct finder *f, uint32_t c,
	struct taut_error *err)
{
	taut_vec_clear(&f->members);
	taut_edit_each_member(f->w->edit, c, see_member, f);
	return f->failed ? no_memory(err) : TAUT_OK;
}

static int32_t fact(const struct finder *f, uint32_t place, const char *key)
{
	const struct taut_run *run = f->w->graph->run;
	const char *text = run ? taut_trace_fact(&run->traces[
		taut_edit_rank_like(f->w->edit, f->ranks[place])], key) : NULL;

	return text ? (int32_t)strtol(text, NULL, 10) : -1;
}

/* Is it told that members hold the same stage of several replicas? Then they
 * gather weights, where they do not sum gradients. */
static bool is_over_replicas(const struct finder *f)
{
	bool same = true, one = true;

	for (size_t i = 0; i < f->members.count; i++) {
		uint32_t p = f->members.data[i], first = f->members.data[0];

		same &= fact(f, p, "pipeline.stage") >= 0 &&
			fact(f, p, "pipeline.stage") ==
			fact(f, first, "pipeline.stage");
		one &= fact(f, p, "data.rank") == fact(f, first, "data.rank");
	}
	return same && !one;
}

/* A sum of activations, in a job that sums no gradients: where it does, batch
 * normalisation may look the same. */
static bool is_of_layers(const struct finder *f, uint32_t c)
{
	uint32_t like = taut_edit_collective_like(f->w->edit, c);

	return !f->sums_gradients && like != TAUT_NONE && f->w->job->within[like];
}

static taut_status join_groups(struct finder *f, struct taut_error *err)
{
	for (uint32_t c = 0; c < taut_edit_collectives(f->w->edit); c++) {
		struct taut_collective coll;
		taut_status status;

		if (!taut_edit_collective(f->w->edit, c, &coll))
			continue;
		status = members_of(f, c, err);
		if (status)
			return status;
		if (coll.group_size > (int32_t)f->members.count)
			return taut_error_set(err, TAUT_EINVAL, -1, "world: a "
				"group of %d ranks was recorded on %zu of them "
				"alone: who else is in it is not known",
				coll.group_size, f->members.count);
		if (!is_of_layers(f, c) && (f->members.count >= f->n ||
			tauti_is_gradient(f->w, f->marks, c) ||
			is_over_replicas(f)))
			continue;
		for (size_t i = 1; i < f->members.count; i++)
			f->root[root_of(f, f->members.data[i])] =
				root_of(f, f->members.data[0]);
	}
	return TAUT_OK;
}

/* By the ranks that the user says. */
static taut_status cut_blocks(struct finder *f, uint32_t size,
	struct taut_error *err)
{
	if (f->n % size)
		return taut_error_set(err, TAUT_EINVAL, -1, "world: %u ranks "
			"are no whole number of replicas of %u", f->n, size);
	for (uint32_t p = 0; p < f->n; p++)
		f->root[p] = p - p % size;
	return TAUT_OK;
}

/* --- what was found ------------------------------------------------------------- */

static taut_status list_replicas(struct finder *f, struct tauti_replicas *r,
	struct taut_error *err)
{
	uint32_t at = 0;

	r->rank = calloc(f->n + 1, sizeof *r->rank);
	if (!r->rank)
		return no_memory(err);
	for (uint32_t p = 0; p < f->n; p++) {
		uint32_t from = at;
		bool first = true;

		for (uint32_t q = 0; q < p && first; q++)
			first = root_of(f, q) != root_of(f, p);
		if (!first)
			continue;
		for (uint32_t q = p; q < f->n; q++)
			if (root_of(f, q) == root_of(f, p))
				r->rank[at++] = f->ranks[q];
		if (r->n++ && at - from != r->size)
			return taut_error_set(err, TAUT_EINVAL, -1, "world: "
				"groups of %u and of %u ranks work together: "
				"these are no copies of one model; replica=N "
				"says how many ranks hold one", r->size,
				at - from);
		r->size = at - from;
	}
	return TAUT_OK;
}

static taut_status mark_inner(struct finder *f, struct tauti_replicas *r,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;

	r->n_inner = taut_edit_collectives(f->w->edit);
	r->inner = calloc(r->n_inner + 1, 1);
	if (!r->inner)
		return no_memory(err);
	for (uint32_t c = 0; !status && c < r->n_inner; c++) {
		struct taut_collective coll;

		if (!taut_edit_collective(f->w->edit, c, &coll))
			continue;
		status = members_of(f, c, err);
		if (status || f->members.count < 2)
			continue;
		r->inner[c] = 1;
		for (size_t i = 1; i < f->members.count; i++)
			if (root_of(f, f->members.data[i]) !=
				root_of(f, f->members.data[0]))
				r->inner[c] = 0;
	}
	return status;
}

static bool begin(struct finder *f)
{
	uint32_t n = taut_edit_ranks(f->w->edit);

	f->ranks = calloc(n + 1, sizeof *f->ranks);
	f->place = calloc(n + 1, sizeof *f->place);
	f->root = calloc(n + 1, sizeof *f->root);
	f->marks = tauti_gradient_marks(f->w);
	for (uint32_t s = 0; s < f->w->job->n_steps; s++)
		f->sums_gradients |= f->w->job->steps[s].n_gradients > 0;
	if (!f->ranks || !f->place || !f->root || !f->marks)
		return false;
	for (uint32_t r = 0; r < n; r++) {
		if (!taut_edit_has_rank(f->w->edit, r))
			continue;
		f->root[f->n] = f->place[r] = f->n;
		f->ranks[f->n++] = r;
	}
	return true;
}

taut_status tauti_replicas_find(struct tauti_whatif *w, uint32_t size,
	struct tauti_replicas *ret, struct taut_error *err)
{
	struct finder f = { .w = w };
	taut_status status;

	*ret = (struct tauti_replicas) { 0 };
	status = !begin(&f) ? no_memory(err) : size ?
		cut_blocks(&f, size, err) : join_groups(&f, err);
	if (!status)
		status = list_replicas(&f, ret, err);
	if (!status)
		status = mark_inner(&f, ret, err);
	free(f.ranks);
	free(f.place);
	free(f.root);
	free(f.marks);
	taut_vec_free(&f.members);
	if (status)
		tauti_replicas_fini(ret);
	return status;
}

void tauti_replicas_fini(struct tauti_replicas *replicas)
{
	free(replicas->rank);
	free(replicas->inner);
	*replicas = (struct tauti_replicas) { 0 };
}

/* --- one more --------------------------------------------------------------------- */

struct arrival { /* of a copy that is in no collective yet */
	uint32_t collective; /* that its source is in */
	uint32_t order, op;  /* who sends is the first */
};

struct beginning { /* a wait of a copy for others, when a step begins */
	uint32_t from, to;
	struct taut_wait wait;
};

struct copier {
	struct tauti_whatif *w;
	const struct tauti_replicas *replicas;
	struct taut_error *err;
	uint8_t *join;
	TAUT_VEC(struct arrival) arrivals;
	TAUT_VEC(struct taut_wait) waits;
	TAUT_VEC(struct taut_member) members;
	TAUT_VEC(uint32_t) arrive;
	TAUT_VEC(struct beginning) beginnings;
	uint32_t source, copy; /* whose waits are seen */
	bool failed;
};

/* A wait between a rank's mark and an operation of another rank: how tables
 * say that a step begins for all. */
static bool is_beginning(const struct copier *k, const struct taut_wait *wait,
	uint32_t op, uint32_t mark)
{
	const struct taut_edit *edit = k->w->edit;
	struct taut_op a, b;

	return (wait->kind & ~TAUT_EDGE_FROM_START) != TAUT_EDGE_COMM &&
		taut_edit_op(edit, op, &a) && taut_edit_op(edit, mark, &b) &&
		b.kind == TAUT_OP_MARK && taut_edit_lane(edit, a.lane).trace !=
		taut_edit_lane(edit, b.lane).trace;
}

static void see_into(void *context, struct taut_wait wait)
{
	struct copier *k = context;
	struct beginning found = { wait.op, k->copy, wait };

	if (is_beginning(k, &wait, wait.op, k->source) &&
		!taut_vec_push(&k->beginnings, found))
		k->failed = true;
}

static void see_out_of(void *context, struct taut_wait wait)
{
	struct copier *k = context;
	struct beginning found = { k->copy, wait.op, wait };

	if (is_beginning(k, &wait, k->source, wait.op) &&
		!taut_vec_push(&k->beginnings, found))
		k->failed = true;
}

static bool note_beginnings(struct copier *k, uint32_t source, uint32_t copy,
	const struct taut_op *op)
{
	k->source = source;
	k->copy = copy;
	if (op->kind == TAUT_OP_MARK)
		taut_edit_each_in(k->w->edit, source, see_into, k);
	taut_edit_each_out(k->w->edit, source, see_out_of, k);
	return !k->failed;
}

/* Once, for a wait is seen from both ends where both are copied. */
static taut_status lay_beginnings(struct copier *k)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < k->beginnings.count; i++) {
		const struct beginning *b = &k->beginnings.data[i];

		status = taut_edit_connect(k->w->edit, b->from, b->to,
			b->wait.kind, b->wait.lag_ns, k->err);
	}
	return status;
}

static bool begins_together(const struct copier *k, uint32_t lane)
{
	const struct taut_run *run = k->w->graph->run;
	uint32_t trace = taut_edit_rank_like(
		k->w->edit, taut_edit_lane(k->w->edit, lane).trace);

	return run && run->traces[trace].is_table;
}

struct searcher {
	uint32_t arrive, at, n;
};

static void search(void *context, uint32_t arrive)
{
	struct searcher *s = context;

	if (arrive == s->arrive)
		s->at = s->n;
	s->n++;
}

/* Of a send and its receive: as the recording says, else as they stand. */
static uint32_t order_of(const struct copier *k, uint32_t arrive,
	const struct taut_op *op)
{
	struct searcher s = { arrive, 0, 0 };
	const struct taut_trace *t = op->like == TAUT_NONE ? NULL :
		tauti_op_trace(k->w, op->like, &(uint32_t){ 0 });
	const struct taut_comm_args *args = t && op->event != TAUT_NONE ?
		taut_trace_comm(t, op->event) : NULL;
	struct taut_collective c;

	if (!taut_edit_collective(k->w->edit, op->collective, &c) ||
		c.kind != TAUT_COLL_SENDRECV || c.n_members != 2)
		return 0;
	if (args && args->src_rank != args->dst_rank)
		return args->src_rank != t->rank;
	taut_edit_each_member(k->w->edit, op->collective, search, &s);
	return s.at;
}

/* The copies of arrivals, by walking source and copy side by side. */
static bool note_arrivals(struct copier *k, uint32_t from, uint32_t to)
{
	const struct taut_edit *edit = k->w->edit;
	uint32_t a = taut_edit_first(edit, from), b = taut_edit_first(edit, to);
	bool told = begins_together(k, from);

	while (a != TAUT_NONE && b != TAUT_NONE) {
		struct taut_op op;

		if (told && taut_edit_op(edit, a, &op) &&
			!note_beginnings(k, a, b, &op))
			return false;
		if (taut_edit_op(edit, a, &op) && op.kind == TAUT_OP_ARRIVE &&
			op.collective != TAUT_NONE &&
			op.collective < k->replicas->n_inner &&
			k->replicas->inner[op.collective]) {
			struct arrival found = { op.collective,
				order_of(k, a, &op), b };

			if (!taut_vec_push(&k->arrivals, found))
				return false;
		}
		a = taut_edit_next(edit, a);
		b = taut_edit_next(edit, b);
	}
	return true;
}

static taut_status copy_member(struct copier *k, uint32_t like,
	uint32_t *ret_rank)
{
	uint32_t first = taut_edit_lanes(k->w->edit), to = first;
	taut_status status = taut_edit_copy_rank(
		k->w->edit, like, k->join, ret_rank, NULL, k->err);

	for (uint32_t l = 0; !status && l < first; l++) {
		if (taut_edit_lane(k->w->edit, l).trace != like)
			continue;
		/* the copy's lanes stand in the order of the source's */
		while (to < taut_edit_lanes(k->w->edit) &&
			taut_edit_lane(k->w->edit, to).trace != *ret_rank)
			to++;
		if (to >= taut_edit_lanes(k->w->edit))
			break;
		if (!note_arrivals(k, l, to++))
			status = no_memory(k->err);
	}
	return status;
}

static int by_collective(const void *a, const void *b)
{
	const struct arrival *x = a, *y = b;

	if (x->collective != y->collective)
		return x->collective < y->collective ? -1 : 1;
	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	return x->op < y->op ? -1 : x->op > y->op;
}

static void take_wait(void *context, struct taut_wait wait)
{
	struct copier *k = context;

	if ((wait.kind & ~TAUT_EDGE_FROM_START) != TAUT_EDGE_COMM &&
		!taut_vec_push(&k->waits, wait))
		k->failed = true;
}

/* The copied pair gives its waits to the new one and goes. */
static taut_status hand_over(struct copier *k, uint32_t old, uint32_t new)
{
	struct taut_edit *edit = k->w->edit;
	uint32_t old_transfer = taut_edit_next(edit, old);
	uint32_t transfer = taut_edit_next(edit, new);
	struct taut_op op = { 0 };
	taut_status status;
	size_t in;

	(void)taut_edit_op(edit, old, &op);
	status = taut_edit_set_gap(edit, new, op.gap_ns, k->err);

	taut_vec_clear(&k->waits);
	taut_edit_each_in(edit, old, take_wait, k);
	in = k->waits.count;
	taut_edit_each_out(edit, old_transfer, take_wait, k);
	if (k->failed)
		return no_memory(k->err);
	for (size_t i = 0; !status && i < k->waits.count; i++) {
		const struct taut_wait *t = &k->waits.data[i];

		status = taut_edit_connect(edit, i < in ? t->op : transfer,
			i < in ? new : t->op, t->kind, t->lag_ns, k->err);
	}
	if (!status)
		status = taut_edit_cut(edit, old_transfer, k->err);
	return status ? status : taut_edit_cut(edit, old, k->err);
}

/* One collective among the copies. n arrivals from `a` on. */
static taut_status make_inner(struct copier *k, const struct arrival *a,
	size_t n)
{
	struct taut_edit *edit = k->w->edit;
	struct tauti_way way = tauti_way_of(k->w, a->collective);
	uint32_t like = taut_edit_collective_like(edit, a->collective), id;
	struct taut_collective coll;
	taut_status status;

	taut_vec_clear(&k->members);
	taut_vec_clear(&k->arrive);
	for (size_t i = 0; i < n; i++) {
		struct taut_member m = { .lane = TAUT_NONE };
		struct taut_op op;

		if (!taut_edit_op(edit, a[i].op, &op))
			continue;
		m.lane = op.lane;
		m.name = op.name;
		m.after = taut_edit_next(edit, a[i].op);
		if (taut_edit_op(edit, m.after, &op))
			m.dur_ns = op.dur_ns;
		if (!taut_vec_push(&k->members, m))
			return no_memory(k->err);
	}
	if (!taut_vec_reserve(&k->arrive, n) ||
		!taut_edit_collective(edit, a->collective, &coll))
		return no_memory(k->err);
	status = taut_edit_add_collective(edit, &coll, k->members.data,
		(uint32_t)k->members.count, &id, k->arrive.data, k->err);
	if (!status && like != TAUT_NONE)
		status = taut_edit_set_like(edit, id, like, k->err);
	for (size_t i = 0; !status && i < n; i++)
		status = hand_over(k, a[i].op, k->arrive.data[i]);
	if (!way.like && like != TAUT_NONE)
		way.like = like + 1;
	return status ? status : tauti_set_way(k->w, id, &way, k->err);
}

/* What the copies would have no part in. */
static taut_status leave_out(struct copier *k, const struct arrival *a, size_t n)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < n; i++) {
		status = taut_edit_remove(k->w->edit,
			taut_edit_next(k->w->edit, a[i].op), k->err);
		if (!status)
			status = taut_edit_remove(
				k->w->edit, a[i].op, k->err);
	}
	return status;
}

static taut_status make_all_inner(struct copier *k)
{
	taut_status status = TAUT_OK;

	if (k->arrivals.count)
		qsort(k->arrivals.data, k->arrivals.count,
			sizeof *k->arrivals.data, by_collective);
	for (size_t i = 0, n; !status && i < k->arrivals.count; i += n) {
		const struct arrival *a = &k->arrivals.data[i];

		for (n = 1; i + n < k->arrivals.count &&
			a[n].collective == a->collective; n++)
			;
		status = k->replicas->inner[a->collective] == TAUTI_OF_SOME ?
			leave_out(k, a, n) : make_inner(k, a, n);
	}
	return status;
}

static bool choose_joined(struct copier *k)
{
	uint32_t n = taut_edit_collectives(k->w->edit);

	k->join = malloc(n + 1);
	if (k->join)
		memset(k->join, 1, n + 1);
	for (uint32_t c = 0; k->join && c < k->replicas->n_inner; c++)
		k->join[c] = !k->replicas->inner[c];
	return k->join != NULL;
}

taut_status tauti_replica_copy(struct tauti_whatif *w,
	const struct tauti_replicas *replicas, uint32_t like,
	uint32_t *ret_ranks, struct taut_error *err)
{
	struct copier k = { .w = w, .replicas = replicas, .err = err };
	taut_status status = choose_joined(&k) ? TAUT_OK : no_memory(err);

	for (uint32_t i = 0; !status && i < replicas->size; i++)
		status = copy_member(&k, replicas->rank[
			like * replicas->size + i], &ret_ranks[i]);
	if (!status)
		status = make_all_inner(&k);
	if (!status)
		status = lay_beginnings(&k);
	free(k.join);
	taut_vec_free(&k.beginnings);
	taut_vec_free(&k.arrivals);
	taut_vec_free(&k.waits);
	taut_vec_free(&k.members);
	taut_vec_free(&k.arrive);
	return status;
}
