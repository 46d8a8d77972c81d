/* slices.c - ranks that hold the same part of a model come and go together. */
#include <stdlib.h>

#include "whatif/pipes.h"

/* --- which collectives are of one slice ------------------------------------------- */

struct marker {
	struct tauti_whatif *w;
	uint32_t *slice_of;  /* by rank of the edit; TAUT_NONE: of none */
	uint32_t *seen;      /* by slice: the last collective + 1 */
	uint32_t n, n_seen;  /* members, slices among them */
	uint32_t collective;
};

static void see_member(void *context, uint32_t arrive)
{
	struct marker *m = context;
	uint32_t slice;
	struct taut_op op;

	if (!taut_edit_op(m->w->edit, arrive, &op))
		return;
	slice = m->slice_of[taut_edit_lane(m->w->edit, op.lane).trace];
	m->n++;
	if (slice == TAUT_NONE || m->seen[slice] == m->collective + 1)
		return;
	m->seen[slice] = m->collective + 1;
	m->n_seen++;
}

/* Of first and last stage: a model's embeddings, whatever lies between. */
static bool is_of_ends(const struct tauti_whatif *w,
	const struct taut_collective *c)
{
	return tauti_pipe_role(taut_edit_name(w->edit, c->name)) ==
		TAUTI_PIPE_EMBEDDING;
}

static void mark_all(struct marker *m, struct tauti_replicas *slices)
{
	for (uint32_t c = 0; c < slices->n_inner; c++) {
		struct taut_collective coll;

		if (!taut_edit_collective(m->w->edit, c, &coll))
			continue;
		m->collective = c;
		m->n = m->n_seen = 0;
		taut_edit_each_member(m->w->edit, c, see_member, m);
		if (m->n_seen <= 1)
			slices->inner[c] = TAUTI_OF_ONE;
		else if (m->n_seen < slices->n || is_of_ends(m->w, &coll))
			slices->inner[c] = TAUTI_OF_SOME;
	}
}

taut_status tauti_slices_mark(struct tauti_whatif *w,
	struct tauti_replicas *slices, struct taut_error *err)
{
	uint32_t n = taut_edit_ranks(w->edit);
	struct marker m = { .w = w,
		.slice_of = malloc(((size_t)n + 1) * sizeof *m.slice_of),
		.seen = calloc((size_t)slices->n + 1, sizeof *m.seen) };

	slices->n_inner = taut_edit_collectives(w->edit);
	slices->inner = calloc((size_t)slices->n_inner + 1, 1);
	if (m.slice_of && m.seen && slices->inner) {
		for (uint32_t r = 0; r < n; r++)
			m.slice_of[r] = TAUT_NONE;
		for (uint32_t i = 0; i < slices->n * slices->size; i++)
			m.slice_of[slices->rank[i]] = i / slices->size;
		mark_all(&m, slices);
	}
	free(m.slice_of);
	free(m.seen);
	return m.slice_of && m.seen && slices->inner ? TAUT_OK :
		tauti_no_memory(err, "ranks");
}

/* --- hosts ---------------------------------------------------------------------------- */

static uint32_t count_on(const struct tauti_whatif *w, uint32_t host)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < w->site.n_ranks; r++)
		n += w->site.host_of[r] == host &&
			taut_edit_has_rank(w->edit, r);
	return n;
}

/* As many ranks on a new host as on the fullest one recorded. */
static uint32_t room_on(const struct tauti_whatif *w)
{
	const struct taut_site *site = &w->costs->site;
	uint32_t most = 1;

	for (uint32_t h = 0; h < site->n_hosts; h++) {
		uint32_t n = 0;

		for (uint32_t r = 0; r < site->n_ranks; r++)
			n += site->host_of[r] == h;
		most = n > most ? n : most;
	}
	return most;
}

/* The new host that was begun last, or one more. */
static taut_status place(struct tauti_whatif *w, uint32_t rank, uint32_t like,
	struct taut_error *err)
{
	uint32_t host = w->site.n_hosts - 1;
	taut_status status = TAUT_OK;

	if (host < w->costs->site.n_hosts ||
		count_on(w, host) >= room_on(w))
		status = tauti_add_host(w, like, &host, err);
	return status ? status : tauti_place_rank(w, rank, host,
		w->site.core[like], err);
}

/* --- a slice more, a slice less ------------------------------------------------------- */

taut_status tauti_slice_copy(struct tauti_whatif *w,
	const struct tauti_replicas *slices, uint32_t like, uint32_t *ret_ranks,
	struct taut_error *err)
{
	taut_status status = tauti_replica_copy(
		w, slices, like, ret_ranks, err);

	for (uint32_t i = 0; !status && i < slices->size; i++)
		status = place(w, ret_ranks[i],
			slices->rank[like * slices->size + i], err);
	return status;
}

struct leaver {
	const struct tauti_whatif *w;
	uint32_t rank;
	bool is_needed;
};

static void see_waiter(void *context, struct taut_wait wait)
{
	struct leaver *l = context;
	struct taut_op op;
	uint32_t rank;

	if ((wait.kind & ~TAUT_EDGE_FROM_START) == TAUT_EDGE_COMM ||
		!taut_edit_op(l->w->edit, wait.op, &op))
		return;
	rank = taut_edit_lane(l->w->edit, op.lane).trace;
	l->is_needed |= rank != l->rank;
}

/* The begin of a step for which other ranks wait. */
static bool begins_steps(const struct tauti_whatif *w, uint32_t rank)
{
	struct leaver l = { w, rank, false };
	uint32_t lane = tauti_main_lane(w, rank), id = lane == TAUT_NONE ?
		TAUT_NONE : taut_edit_first(w->edit, lane);

	for (; id != TAUT_NONE && !l.is_needed;
		id = taut_edit_next(w->edit, id)) {
		struct taut_op op;

		if (taut_edit_op(w->edit, id, &op) && op.kind == TAUT_OP_MARK)
			taut_edit_each_out(w->edit, id, see_waiter, &l);
	}
	return l.is_needed;
}

taut_status tauti_slice_remove(struct tauti_whatif *w,
	const struct tauti_replicas *slices, uint32_t slice, const char *name,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < slices->size; i++) {
		uint32_t rank = slices->rank[slice * slices->size + i];

		if (begins_steps(w, rank))
			return taut_error_set(err, TAUT_EINVAL, -1, "%s: all "
				"ranks wait for rank %d when a step begins, and "
				"it would go", name, w->graph->run->traces[
				taut_edit_rank_like(w->edit, rank)].rank);
		status = taut_edit_remove_rank(w->edit, rank, err);
	}
	return status;
}

/* --- collectives of another size --------------------------------------------------------- */

static double law_of(const struct taut_collective *c, uint32_t ranks)
{
	struct taut_law_in in = { .kind = c->kind, .ranks = ranks, .hosts = 1,
		.bytes = 1e6 };
	struct taut_law law = taut_law(&in);

	return law.local_bytes;
}

/* Times so much of what the collective takes beside its bytes. */
static taut_status stretch(struct tauti_whatif *w, uint32_t collective,
	double factor, struct taut_error *err)
{
	struct tauti_way way = tauti_way_of(w, collective);

	way.share = (way.share > 0 ? way.share : 1) * factor;
	return tauti_set_way(w, collective, &way, err);
}

taut_status tauti_regroup(struct tauti_whatif *w, uint32_t collective,
	uint32_t before, uint32_t now, struct taut_error *err)
{
	struct taut_collective c;
	double was;

	if (!taut_edit_collective(w->edit, collective, &c) || c.bytes > 0 ||
		before == now)
		return TAUT_OK;
	was = law_of(&c, before);
	return was > 0 ? stretch(w, collective, law_of(&c, now) / was, err) :
		TAUT_OK;
}

taut_status tauti_scale_bytes(struct tauti_whatif *w, uint32_t collective,
	double factor, struct taut_error *err)
{
	struct taut_collective c;

	if (!taut_edit_collective(w->edit, collective, &c) || factor == 1)
		return TAUT_OK;
	if (c.bytes <= 0)
		return stretch(w, collective, factor, err);
	c.bytes = llround((double)c.bytes * factor);
	return taut_edit_set_collective(w->edit, collective, &c, err);
}
