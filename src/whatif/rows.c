/* rows.c - gradients of embeddings by the rows that were looked up, as `taut run --rows on`
 * has them go (python/taut/_rows.py).
 *
 *     whole    output ... backward pass ... lookup, added | all of it
 *     by rows  output | all of it, meanwhile ...   lookup | rows
 *
 * A gradient of lookups alone is as many bytes less. Where the parameter has another use,
 * as an output that is tied to it, that part is summed as soon as it is there, beside
 * the rows: more bytes, of which few come last. A byte of each row, by which ranks say
 * which they have, is sent with the rows, though a job sends it earlier; putting rows into
 * their places takes what adding them up did.
 *
 * The gradient of a lookup is known by what computes it, and its parameter by its size,
 * in the order of the forward pass; the other use by its number of autograd. */
#include <string.h>

#include <taut/sync.h>

#include "whatif/attach.h"
#include "whatif/compute.h"
#include "whatif/rows.h"

enum { LAUNCH_LAG_NS = 20000 }; /* where none was seen */

static const char evaluate[] = "autograd::engine::evaluate_function";
static const char lookup[] = "EmbeddingBackward";

struct member { /* of an all-reduce that is added */
	uint32_t launch, transfer; /* hands the part over; that of the rows */
};

struct changer {
	struct tauti_whatif *w;
	struct tauti_ddp *ddp;
	struct tauti_embedding *embeddings;
	uint32_t n_embeddings;
	struct tauti_rows *rows;
	const struct tauti_embedding **is; /* by rows->of */
	uint32_t *number; /* by gradient of the first step: of autograd; 0 */
	TAUT_VEC(struct taut_member) members;
	TAUT_VEC(struct member) of;
	TAUT_VEC(uint32_t) arrive;
	TAUT_VEC(struct taut_wait) waits;
	TAUT_VEC(uint32_t) parts; /* collective, of + 1 */
	bool failed;
	struct taut_error *err;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for gradients by rows");
}

/* --- what others ask --------------------------------------------------------------------- */

bool tauti_rows_part(const struct tauti_whatif *w, uint32_t collective,
	uint32_t *ret_gradient)
{
	const struct tauti_rows *rows = w->rows;

	if (!rows || collective >= rows->room || !rows->part_of[collective])
		return false;
	*ret_gradient = rows->of[rows->part_of[collective] - 1].gradient;
	return true;
}

void tauti_rows_size(const struct tauti_whatif *w, struct tauti_ddp *ddp,
	const struct tauti_ddp_step *step, const struct tauti_bucket *bucket)
{
	for (uint32_t i = 0; w->rows && i < w->rows->n; i++)
		if (w->rows->of[i].gradient == bucket->first)
			ddp->gradients.data[step->first_gradient +
				bucket->first].bytes = w->rows->of[i].bytes;
}

/* --- whose gradient it is ------------------------------------------------------------------ */

static const struct taut_trace *trace_of(
	const struct changer *c, const struct tauti_ddp_step *s)
{
	return &c->w->graph->run->traces[
		taut_edit_rank_like(c->w->edit, s->rank)];
}

/* The row of what computed a gradient of the step; TAUT_NONE: not told. */
static uint32_t row_of(const struct changer *c, const struct tauti_ddp_step *s,
	uint32_t gradient)
{
	struct taut_op op;

	if (!taut_edit_op(c->w->edit, c->ddp->gradients.data[
		s->first_gradient + gradient].ready, &op) ||
		op.event == TAUT_NONE)
		return TAUT_NONE;
	return tauti_backward_row(trace_of(c, s), op.event);
}

static void find_numbers(struct changer *c)
{
	const struct tauti_ddp_step *s = c->ddp->steps.data;
	const struct taut_trace *t = trace_of(c, s);

	for (uint32_t i = 0; i < s->n_gradients; i++) {
		uint32_t row = row_of(c, s, i);

		c->number[i] = row != TAUT_NONE &&
			strstr(taut_trace_name(t, row), lookup) ?
			t->sequence[row] : 0;
	}
}

static int64_t bytes_of(const struct tauti_embedding *e)
{
	return (int64_t)e->rows * e->row_bytes;
}

/* The kth of its size in forward order, as it is the kth embedding of that; none, where
 * there are more or fewer than embeddings of it. */
static uint32_t find_gradient(const struct changer *c,
	const struct tauti_embedding *e)
{
	const struct tauti_ddp_step *s = c->ddp->steps.data;
	const struct tauti_gradient *of =
		&c->ddp->gradients.data[s->first_gradient];
	uint32_t found = TAUT_NONE, n = 0, k = 0;

	for (uint32_t i = 0; i < c->n_embeddings; i++) {
		const struct tauti_embedding *other = &c->embeddings[i];

		n += bytes_of(other) == bytes_of(e);
		k += bytes_of(other) == bytes_of(e) && other < e;
	}
	for (uint32_t i = 0; i < s->n_gradients; i++) {
		uint32_t before = 0;

		if (!c->number[i] || of[i].bytes != bytes_of(e))
			continue;
		n--;
		for (uint32_t j = 0; j < s->n_gradients; j++)
			before += c->number[j] && c->number[j] < c->number[i] &&
				of[j].bytes == bytes_of(e);
		if (before == k)
			found = i;
	}
	return n ? TAUT_NONE : found;
}

/* --- the part of other uses ------------------------------------------------------------------ */

/* When it was computed, in the graph's time; INT64_MIN: not told. */
static int64_t part_ns(const struct changer *c, const struct tauti_ddp_step *s,
	uint32_t gradient, uint32_t other)
{
	const struct taut_trace *t = trace_of(c, s);
	uint32_t row = row_of(c, s, gradient), number, begin;

	if (row == TAUT_NONE)
		return INT64_MIN;
	number = t->sequence[row] + other;
	begin = t->lane_begin[t->lane[row]];
	while (row > begin && (t->sequence[row] != number ||
		!(t->flags[row] & TAUT_EVENT_BACKWARD)))
		row--;
	if (t->sequence[row] != number || !(t->flags[row] & TAUT_EVENT_BACKWARD))
		return INT64_MIN;
	row = tauti_row_around(t, row, evaluate);
	return taut_graph_time(c->w->graph, taut_edit_rank_like(c->w->edit,
		s->rank), t->start_ns[row] + t->dur_ns[row]);
}

/* The last operation on the thread of the gradient, before it, that had begun by then;
 * TAUT_NONE: not told. */
static uint32_t part_op(const struct changer *c, const struct tauti_ddp_step *s,
	uint32_t gradient, uint32_t other)
{
	int64_t at_ns = part_ns(c, s, gradient, other);
	uint32_t id = c->ddp->gradients.data[s->first_gradient + gradient].ready;
	struct taut_op op;

	if (at_ns == INT64_MIN)
		return TAUT_NONE;
	while (id != TAUT_NONE && taut_edit_op(c->w->edit, id, &op) &&
		(op.like == TAUT_NONE ||
		c->w->graph->start_ns[op.like] >= at_ns))
		id = taut_edit_before(c->w->edit, id);
	return id;
}

/* In every step. */
static bool has_part(const struct changer *c, const struct tauti_embedding *e,
	uint32_t gradient)
{
	for (size_t k = 0; k < c->ddp->steps.count; k++)
		if (part_op(c, &c->ddp->steps.data[k], gradient, e->other) ==
			TAUT_NONE)
			return false;
	return true;
}

/* --- which go by rows ---------------------------------------------------------------------- */

static taut_status choose(struct changer *c, const struct tauti_embedding *e)
{
	struct tauti_rows *rows = c->rows;
	uint32_t gradient = find_gradient(c, e);
	double pct = 100.0 * e->looked_up / e->rows;

	if (gradient == TAUT_NONE)
		return tauti_note(c->w, c->err, "rows: %s: which gradient is "
			"its is not told", e->name);
	if (!taut_sync_takes_rows(e->looked_up, e->rows))
		return tauti_note(c->w, c->err, "rows: of %s %.0f %% are looked "
			"up: it goes as a whole", e->name, pct);
	if (e->other && !has_part(c, e, gradient))
		return tauti_note(c->w, c->err, "rows: %s: when the gradient of "
			"its other use is there is not told: it goes as a "
			"whole", e->name);
	c->is[rows->n] = e;
	rows->of[rows->n++] = (struct tauti_rowed) { gradient, bytes_of(e) };
	return tauti_note(c->w, c->err, "rows: %s goes by rows, %.0f %% of %u%s",
		e->name, pct, e->rows, e->other ?
		", behind the part of its other use" : "");
}

static taut_status choose_all(struct changer *c)
{
	struct taut_arena *arena = c->w->arena;
	uint32_t n = c->n_embeddings + 1;
	taut_status status = TAUT_OK;

	c->rows = TAUT_ARENA_ARRAY(arena, struct tauti_rows, 1);
	c->is = TAUT_ARENA_ARRAY(arena, const struct tauti_embedding *, n);
	c->number = TAUT_ARENA_ARRAY(arena, uint32_t,
		c->ddp->steps.data->n_gradients + 1);
	if (c->rows)
		*c->rows = (struct tauti_rows) { .of = TAUT_ARENA_ARRAY(
			arena, struct tauti_rowed, n) };
	if (!c->rows || !c->is || !c->number || !c->rows->of)
		return no_memory(c->err);
	find_numbers(c);
	for (uint32_t i = 0; !status && i < c->n_embeddings; i++)
		status = choose(c, &c->embeddings[i]);
	if (!status && !c->rows->n)
		status = taut_error_set(c->err, TAUT_EINVAL, -1, "rows: no "
			"embedding goes by rows: of those that were recorded "
			"most rows are looked up, or it is not told which "
			"gradients are theirs, and when other uses have theirs");
	return status;
}

/* --- buckets of their own ------------------------------------------------------------------ */

static bool is_rowed(const struct changer *c, uint32_t gradient)
{
	for (uint32_t i = 0; i < c->rows->n; i++)
		if (c->rows->of[i].gradient == gradient)
			return true;
	return false;
}

static bool begins(const struct changer *c, const struct tauti_ddp_step *s,
	uint32_t gradient)
{
	for (uint32_t b = 0; b < s->n_buckets; b++)
		if (c->ddp->buckets.data[s->first_bucket + b].first == gradient)
			return true;
	return is_rowed(c, gradient) || (gradient && is_rowed(c, gradient - 1));
}

static bool is_laid(const struct changer *c, const tauti_plan *plan)
{
	for (size_t k = 0; k < c->ddp->steps.count; k++) {
		const struct tauti_ddp_step *s = &c->ddp->steps.data[k];

		if (s->n_buckets != plan->count)
			return false;
		for (uint32_t b = 0; b < s->n_buckets; b++)
			if (c->ddp->buckets.data[s->first_bucket + b].first !=
				plan->data[b])
				return false;
	}
	return true;
}

static taut_status lay(struct changer *c, const tauti_plan *plan)
{
	static const struct tauti_lay as_it_was = { 0 };
	struct tauti_ddp *parted;
	taut_status status = tauti_ddp_lay(
		c->w, c->ddp, plan, &as_it_was, c->err);

	if (!status)
		status = tauti_ddp_create(c->w, 0, NULL, 0, &parted, c->err);
	if (status)
		return status;
	tauti_ddp_destroy(c->ddp);
	c->ddp = parted;
	return TAUT_OK;
}

/* What goes by rows goes with nothing else. */
static taut_status part_buckets(struct changer *c)
{
	const struct tauti_ddp_step *s = c->ddp->steps.data;
	tauti_plan plan = { 0 };
	bool ok = true;
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; ok && i < s->n_gradients; i++)
		ok = !begins(c, s, i) || taut_vec_push(&plan, i);
	if (!ok)
		status = no_memory(c->err);
	else if (!is_laid(c, &plan))
		status = lay(c, &plan);
	if (!status && !is_laid(c, &plan))
		status = taut_error_set(c->err, TAUT_EINVAL, -1, "rows: the "
			"buckets of its steps are not alike");
	taut_vec_free(&plan);
	return status;
}

/* There is one: part_buckets(). */
static const struct tauti_bucket *bucket_of(const struct changer *c,
	const struct tauti_ddp_step *s, uint32_t gradient)
{
	const struct tauti_bucket *b = &c->ddp->buckets.data[s->first_bucket];

	while (b->first != gradient)
		b++;
	return b;
}

/* --- an all-reduce of it ---------------------------------------------------------------------- */

static void see(void *context, struct taut_wait wait)
{
	struct changer *c = context;

	if ((wait.kind & ~TAUT_EDGE_FROM_START) != TAUT_EDGE_COMM &&
		!taut_vec_push(&c->waits, wait))
		c->failed = true;
}

/* A rank hands the part over, and its all-reduce stands before that of the rows. */
static taut_status add_member(struct changer *c,
	const struct tauti_ddp_step *s, const struct tauti_bucket *b,
	const struct tauti_embedding *e)
{
	uint32_t after = part_op(c, s, b->first, e->other);
	struct member member = { .transfer = taut_edit_next(
		c->w->edit, b->arrive) };
	struct taut_member m = { 0 };
	struct taut_op op;
	taut_status status;

	if (after == TAUT_NONE || !taut_edit_op(c->w->edit, b->arrive, &op))
		return taut_error_set(c->err, TAUT_EINVAL, -1, "rows: an "
			"all-reduce of %s was removed by a change before",
			e->name);
	m.lane = op.lane;
	m.after = taut_edit_before(c->w->edit, b->arrive);
	status = tauti_insert_work(c->w, after, "the other part is there", 0,
		&member.launch, c->err);
	if (status)
		return status;
	return taut_vec_push(&c->members, m) && taut_vec_push(&c->of, member) ?
		TAUT_OK : no_memory(c->err);
}

/* It goes when it is handed over; who waits for the rows waits for it, too. */
static taut_status connect_member(struct changer *c, size_t i)
{
	const struct member *m = &c->of.data[i];
	uint32_t arrive = c->arrive.data[i];
	uint32_t transfer = taut_edit_next(c->w->edit, arrive);
	int64_t lag_ns = c->ddp->launch_lag_ns >= 0 ? c->ddp->launch_lag_ns :
		LAUNCH_LAG_NS;
	taut_status status = taut_edit_connect(c->w->edit, m->launch, arrive,
		TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START, lag_ns, c->err);

	taut_vec_clear(&c->waits);
	taut_edit_each_out(c->w->edit, m->transfer, see, c);
	for (size_t k = 0; !status && k < c->waits.count; k++)
		status = taut_edit_connect(c->w->edit, transfer,
			c->waits.data[k].op, c->waits.data[k].kind,
			c->waits.data[k].lag_ns, c->err);
	return status || !c->failed ? status : no_memory(c->err);
}

static taut_status add_part(struct changer *c, uint32_t collective, uint32_t i)
{
	struct tauti_way way = tauti_way_of(c->w, collective);
	struct taut_collective of;
	uint32_t id;
	taut_status status;

	taut_vec_clear(&c->arrive);
	if (!taut_vec_reserve(&c->arrive, c->members.count))
		return no_memory(c->err);
	if (!way.like)
		way.like = taut_edit_collective_like(c->w->edit, collective) + 1;
	if (!taut_edit_collective(c->w->edit, collective, &of))
		return TAUT_OK;
	of.seq = -1;
	status = taut_edit_add_collective(c->w->edit, &of, c->members.data,
		(uint32_t)c->members.count, &id, c->arrive.data, c->err);
	if (!status)
		status = tauti_set_way(c->w, id, &way, c->err);
	for (size_t k = 0; !status && k < c->of.count; k++)
		status = connect_member(c, k);
	if (!status && !(taut_vec_push(&c->parts, id) &&
		taut_vec_push(&c->parts, i + 1)))
		status = no_memory(c->err);
	return status;
}

/* --- rows alone ------------------------------------------------------------------------------ */

static taut_status cut(struct changer *c, const struct tauti_bucket *b,
	const struct tauti_embedding *e)
{
	int64_t flags = e->rows;
	struct tauti_way way;
	struct taut_collective is;
	taut_status status;

	if (!taut_edit_collective(c->w->edit, b->collective, &is))
		return TAUT_OK;
	is.bytes = (int64_t)e->looked_up * e->row_bytes + flags;
	way = tauti_piece_way(c->w, b->like, tauti_way_of(c->w, b->collective),
		(double)is.bytes);
	status = taut_edit_set_collective(
		c->w->edit, b->collective, &is, c->err);
	return status ? status :
		tauti_set_way(c->w, b->collective, &way, c->err);
}

/* The all-reduce of gradient i of a step, on all ranks that have it; once. */
static taut_status change(struct changer *c, size_t step, uint32_t i)
{
	const struct tauti_ddp *ddp = c->ddp;
	const struct tauti_embedding *e = c->is[i];
	const struct tauti_bucket *b = bucket_of(
		c, &ddp->steps.data[step], c->rows->of[i].gradient);
	taut_status status = TAUT_OK;

	taut_vec_clear(&c->members);
	taut_vec_clear(&c->of);
	for (size_t k = 0; !status && k < ddp->steps.count; k++) {
		const struct tauti_ddp_step *s = &ddp->steps.data[k];
		const struct tauti_bucket *other = bucket_of(
			c, s, c->rows->of[i].gradient);

		if (other->collective != b->collective)
			continue;
		if (k < step) /* done with that step */
			return TAUT_OK;
		if (e->other)
			status = add_member(c, s, other, e);
	}
	if (!status && e->other)
		status = add_part(c, b->collective, i);
	return status ? status : cut(c, b, e);
}

static taut_status change_all(struct changer *c)
{
	struct tauti_rows *rows = c->rows;
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < rows->n; i++)
		for (size_t k = 0; !status && k < c->ddp->steps.count; k++)
			status = change(c, k, i);
	rows->room = taut_edit_collectives(c->w->edit);
	rows->part_of = taut_arena_calloc(
		c->w->arena, (size_t)rows->room + 1, sizeof *rows->part_of);
	if (!status && !rows->part_of)
		status = no_memory(c->err);
	for (size_t k = 0; !status && k < c->parts.count; k += 2)
		rows->part_of[c->parts.data[k]] = c->parts.data[k + 1];
	if (!status)
		c->w->rows = rows;
	return status;
}

/* --- all --------------------------------------------------------------------------------------- */

/* Which rows all ranks look up together says nothing of some of them. */
static bool is_of_all(const struct changer *c)
{
	struct taut_collective is;

	return taut_edit_collective(c->w->edit,
		c->ddp->buckets.data->collective, &is) &&
		is.n_members == c->ddp->n_ranks;
}

static taut_status check(const struct changer *c)
{
	const struct tauti_ddp *ddp = c->ddp;
	const char *why = c->w->job->has_device ? "Taut sums gradients in a "
		"host's memory alone" : ddp->exchanged ? "the job was "
		"recorded under taut run; record it without" :
		!c->n_embeddings ? "it tells of no embedding (nn.Embedding "
		"within DistributedDataParallel) that goes by rows" :
		!ddp->sized ? "it does not tell how large its gradients are "
		"(shapes)" : NULL;

	if (c->w->rows)
		return taut_error_set(c->err, TAUT_EINVAL, -1, "rows: twice");
	if (!why && !is_of_all(c))
		why = "its ranks do not all sum the same gradients";
	return !why ? TAUT_OK : taut_error_set(c->err, TAUT_EINVAL, -1, "rows: "
		"what they give cannot be told from this recording: %s", why);
}

static taut_status apply(struct tauti_whatif *w,
	const struct tauti_change *change_of, struct taut_error *err)
{
	struct changer c = { .w = w, .err = err };
	taut_status status = tauti_embeddings(w->graph->run, w->arena,
		&c.embeddings, &c.n_embeddings, err);

	(void)change_of;
	if (!status)
		status = tauti_ddp_create(w, 0, NULL, 0, &c.ddp, err);
	if (status)
		return status;
	status = tauti_ddp_need_buckets(w, c.ddp, "rows", err);
	if (!status)
		status = check(&c);
	if (!status)
		status = choose_all(&c);
	if (!status)
		status = part_buckets(&c);
	if (!status)
		status = tauti_ddp_wait(w, c.ddp, err);
	if (!status)
		status = change_all(&c);
	tauti_ddp_destroy(c.ddp);
	taut_vec_free(&c.members);
	taut_vec_free(&c.of);
	taut_vec_free(&c.arrive);
	taut_vec_free(&c.waits);
	taut_vec_free(&c.parts);
	return status;
}

const struct tauti_transformation tauti_whatif_rows = {
	.info = {
		.name = "rows",
		.group = "network",
		.summary = "gradients of embeddings by the rows that were looked "
			"up, as 'taut run --rows on' has them",
		.assumption = "each step looks up as many rows as the recorded "
			"one; which they are is a byte of each that goes with "
			"them, and each goes into its place in what adding up "
			"took",
		.source = "docs/running.md, rows of embeddings",
		.parameters = NULL,
		.n_parameters = 0,
	},
	.apply = apply,
};
