/* match.c - which communication operations of the ranks are one collective.
 *
 * Operations are put into sequences: one for each process group (or each
 * pair of a send/recv, or each communication stream where groups are not
 * known). In a sequence, operations of the ranks match by the sequence
 * number where every one has it, else by their order within a step. Order is
 * sound only if every rank has as many operations in the step and of the same
 * kinds; where it has not, the step is left unmatched and the first
 * difference is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

struct item { /* one operation of one rank, in the order of matching */
	uint32_t key;
	uint32_t turn; /* which of the steps of this number, and whether in it,
	                  before (the first) or after it (the last) */
	int64_t step, order; /* order: seq, or position in the step */
	uint32_t rank, comm;
};

struct matcher {
	struct tauti_rank *ranks;
	uint32_t n_ranks;
	struct tauti_match *out;
	const uint8_t *unnumbered; /* by key: order counts, not numbers */
	TAUT_VEC(struct item) items;
};

static bool is_pair(const struct tauti_comm *c)
{
	return c->src >= 0 && c->dst >= 0;
}

/* --- sequences ----------------------------------------------------------------*/

/* Which of the rank's communication lanes this is, by first use. */
static uint32_t lane_ordinal(const struct tauti_rank *r, uint32_t lane,
	uint32_t *ordinals, uint32_t *n)
{
	if (r->trace->lanes[lane].kind == TAUT_LANE_THREAD)
		return 0; /* worker threads share one queue */
	if (ordinals[lane] == TAUT_NONE)
		ordinals[lane] = ++*n;
	return ordinals[lane];
}

/* The name of the list of ranks that a group was given, which may be long. */
static uint32_t ranks_text(const struct taut_trace *t,
	const struct tauti_comm *c)
{
	const struct taut_comm_args *a = c->said_by == TAUT_NONE ? NULL :
		taut_trace_comm(t, c->said_by);

	return a ? a->group_ranks : 0;
}

static uint32_t group_key(const struct taut_trace *t,
	const struct tauti_comm *c, struct taut_names *names)
{
	const char *group = taut_names_text(t->names, c->group);
	const char *ranks = taut_names_text(t->names, ranks_text(t, c));
	size_t room = strlen(group) + strlen(ranks) + 8;
	char *text = malloc(room);
	uint32_t key = TAUT_NONE;

	if (text)
		key = taut_names_add(names, text, (size_t)snprintf(text, room,
			"group %s %s", group, ranks));
	free(text);
	return key;
}

static uint32_t key_of(const struct tauti_rank *r, struct tauti_comm *c,
	uint32_t ordinal, struct taut_names *names)
{
	const struct taut_trace *t = r->trace;
	char text[512];
	int n;

	c->named = c->group || is_pair(c);
	if (c->group && !is_pair(c))
		return group_key(t, c, names);
	if (is_pair(c))
		n = snprintf(text, sizeof text, "p2p %s %d>%d",
			taut_names_text(t->names, c->group), c->src, c->dst);
	else if (ordinal)
		n = snprintf(text, sizeof text, "communication stream %u",
			(unsigned)ordinal);
	else
		n = snprintf(text, sizeof text, "communication threads");
	if (n >= (int)sizeof text)
		n = (int)sizeof text - 1;
	return taut_names_add(names, text, (size_t)n);
}

/* Most operations are in the group of the one before. */
static bool same_group(const struct taut_trace *t, const struct tauti_comm *a,
	const struct tauti_comm *b)
{
	return a->group && a->group == b->group && !is_pair(a) &&
		!is_pair(b) && ranks_text(t, a) == ranks_text(t, b);
}

static taut_status assign_keys(struct matcher *m, struct taut_names *names)
{
	for (uint32_t i = 0; i < m->n_ranks; i++) {
		struct tauti_rank *r = &m->ranks[i];
		uint32_t *ordinals = malloc((r->trace->n_lanes + 1) *
			sizeof *ordinals), n = 0;

		if (!ordinals)
			return TAUT_ENOMEM;
		memset(ordinals, 0xff,
			(r->trace->n_lanes + 1) * sizeof *ordinals);
		for (size_t k = 0; k < r->comms.count; k++) {
			struct tauti_comm *c = &r->comms.data[k];
			uint32_t lane = r->trace->lane[c->row];

			c->named = true;
			c->key = k && same_group(r->trace, c, c - 1) ?
				c[-1].key : key_of(r, c, lane_ordinal(r, lane,
					ordinals, &n), names);
			if (c->key == TAUT_NONE) {
				free(ordinals);
				return TAUT_ENOMEM;
			}
		}
		free(ordinals);
	}
	return TAUT_OK;
}

/* The two sides of a send/recv count for themselves, and there order is all,
 * unless the recorder counts messages (kind COMM): equal numbers are one. */
static bool counts_alike(
	const struct tauti_rank *rank, const struct tauti_comm *c)
{
	return c->seq >= 0 && (!is_pair(c) ||
		rank->trace->kind[c->row] == TAUT_KIND_COMM);
}

/* Sequence numbers serve a sequence only if all its operations have one. */
static void find_unnumbered(const struct matcher *m, uint8_t *unnumbered)
{
	for (uint32_t i = 0; i < m->n_ranks; i++)
		for (size_t k = 0; k < m->ranks[i].comms.count; k++)
			if (!counts_alike(&m->ranks[i],
				&m->ranks[i].comms.data[k]))
				unnumbered[m->ranks[i].comms.data[k].key] = 1;
}

/* The steps of a rank, as one number. */
static uint64_t sign_steps(const struct tauti_rank *r)
{
	uint64_t h = 0;

	for (size_t k = 0; k < r->marks.count; k++) {
		h = (h + 1 + (uint64_t)r->marks.data[k].id) *
			0x9e3779b97f4a7c15u;
		h ^= h >> 31;
	}
	return h;
}

struct whole { /* what one rank has of a sequence; 0 nothing */
	uint64_t kinds, steps;
};

/* Sequences that are the same from first to last on each of their ranks, over the
 * same steps, match as a whole: a send may be launched in one step and received in
 * the next, and order within steps would then be off by one. */
static bool find_whole(const struct matcher *m, uint8_t *whole, uint32_t n_keys)
{
	struct whole *first = calloc(n_keys + 1, sizeof *first);
	uint64_t *mine = calloc(n_keys + 1, sizeof *mine);
	bool ok = first && mine;

	memset(whole, ok, n_keys);
	for (uint32_t i = 0; ok && i < m->n_ranks; i++) {
		const struct tauti_rank *r = &m->ranks[i];
		uint64_t steps = sign_steps(r);

		memset(mine, 0, n_keys * sizeof *mine);
		for (size_t k = 0; k < r->comms.count; k++) {
			uint64_t *h = &mine[r->comms.data[k].key];

			*h = (*h + 1 + (uint64_t)r->comms.data[k].kind) *
				0x9e3779b97f4a7c15u;
			*h ^= *h >> 31;
		}
		for (uint32_t k = 0; k < n_keys; k++) {
			if (mine[k] && first[k].kinds && (mine[k] !=
				first[k].kinds || steps != first[k].steps))
				whole[k] = 0;
			if (mine[k])
				first[k] = (struct whole) { mine[k], steps };
		}
	}
	free(first);
	free(mine);
	return ok;
}

struct position { /* in a sequence, of one rank */
	int64_t number, next; /* and how often it came in a row */
};
enum { PER_NUMBER = 1 << 12 }; /* operations under one number, at most */
enum { BEFORE, WITHIN, AFTER, TURNS }; /* a step */

/* One number may stand for several kernels: then they follow each other. */
static void take_number(struct position *p, int64_t number, struct item *it)
{
	if (p->number != number)
		*p = (struct position) { number, 0 };
	it->order = number * PER_NUMBER + p->next++;
}

static void take_step(const struct tauti_rank *r, uint32_t mark, struct item *it)
{
	uint32_t n = (uint32_t)r->marks.count;
	uint32_t at = !mark ? 0 : mark > n ? n - 1 : mark - 1;

	it->step = r->marks.data[at].id;
	it->turn = r->marks.data[at].round * TURNS +
		(!mark ? BEFORE : mark > n ? AFTER : WITHIN);
}

static bool same_step(const struct item *x, const struct item *y)
{
	return x->step == y->step && x->turn == y->turn;
}

static int by_step(const struct item *x, const struct item *y)
{
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->turn / TURNS != y->turn / TURNS)
		return x->turn < y->turn ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return x->turn < y->turn ? -1 : x->turn > y->turn;
}

static int by_rank_in_step(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int step = by_step(x, y);

	if (step)
		return step;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->comm < y->comm ? -1 : x->comm > y->comm;
}

/* Each rank's operations of a step count from 0, also where another thread hands
 * them over behind those of the next step. */
static void count_in_steps(struct matcher *m)
{
	struct item *items = m->items.data;

	if (m->items.count)
		qsort(items, m->items.count, sizeof *items, by_rank_in_step);
	for (size_t i = 0; i < m->items.count; i++)
		if (m->unnumbered[items[i].key])
			items[i].order = i && !by_step(&items[i - 1], &items[i]) &&
				items[i - 1].rank == items[i].rank ?
				items[i - 1].order + 1 : 0;
}

static taut_status collect(struct matcher *m, uint32_t n_keys)
{
	struct position *at = malloc((n_keys + 1) * sizeof *at);
	uint8_t *whole = malloc(n_keys + 1);
	bool ok = at && whole && find_whole(m, whole, n_keys);

	for (uint32_t i = 0; ok && i < m->n_ranks; i++) {
		struct tauti_rank *r = &m->ranks[i];

		for (uint32_t k = 0; k < n_keys; k++)
			at[k] = (struct position) { -1, 0 };
		for (uint32_t k = 0; ok && k < r->comms.count; k++) {
			struct tauti_comm *c = &r->comms.data[k];
			struct item it = { c->key, 0, 0, 0, i, k };

			if (!m->unnumbered[c->key])
				take_number(&at[c->key], c->seq, &it);
			else if (!whole[c->key])
				take_step(r, c->mark, &it);
			ok = taut_vec_push(&m->items, it);
		}
	}
	free(at);
	free(whole);
	return ok ? TAUT_OK : TAUT_ENOMEM;
}

static int by_place(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int step = by_step(x, y);

	if (step)
		return step;
	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->comm < y->comm ? -1 : x->comm > y->comm;
}

/* Every operation at its place, in the order of matching. */
static taut_status arrange(struct matcher *m, uint32_t n_keys)
{
	taut_status status;

	taut_vec_clear(&m->items);
	status = collect(m, n_keys);
	count_in_steps(m);
	if (!status && m->items.count)
		qsort(m->items.data, m->items.count, sizeof *m->items.data,
			by_place);
	return status;
}

/* Numbers that come again later (a counter that was reset) number nothing. */
static bool find_misnumbered(const struct matcher *m, uint8_t *unnumbered)
{
	bool found = false;

	for (size_t i = 1; i < m->items.count; i++) {
		const struct item *a = &m->items.data[i - 1], *b = a + 1;

		if (!unnumbered[a->key] && a->key == b->key &&
			a->order == b->order && a->rank == b->rank)
			unnumbered[a->key] = found = true;
	}
	return found;
}

/* --- collectives ------------------------------------------------------------------*/

static struct tauti_comm *comm_of(const struct matcher *m, const struct item *it)
{
	return &m->ranks[it->rank].comms.data[it->comm];
}

static bool emit(struct matcher *m, const struct item *items, size_t n)
{
	const struct tauti_comm *c = comm_of(m, &items[0]);
	struct taut_collective coll = {
		.kind = c->kind, .seq = c->seq,
		.group_size = is_pair(c) ? 2 : c->group_size,
		.bytes = c->bytes, .number_bytes = c->number_bytes,
		.n_members = (uint32_t)n,
		.first_member = (uint32_t)m->out->member_comm.count,
		.join_op = TAUT_NONE,
	};

	for (size_t i = 0; i < n; i++) {
		struct tauti_comm *member = comm_of(m, &items[i]);

		member->match = (uint32_t)m->out->collectives.count;
		if (member->bytes > coll.bytes)
			coll.bytes = member->bytes;
		if (!taut_vec_push(&m->out->member_rank, items[i].rank) ||
			!taut_vec_push(&m->out->member_comm, items[i].comm))
			return false;
	}
	return taut_vec_push(&m->out->collectives, coll);
}

static bool emit_alone(struct matcher *m, const struct item *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!emit(m, &items[i], 1))
			return false;
	return true;
}

static void tell(struct matcher *m, struct taut_names *names,
	const struct item *a, const struct item *b, const char *what)
{
	static const char *const where[TURNS] = { "before", "in", "after" };
	const struct tauti_comm *c = comm_of(m, a);
	bool numbered = !m->unnumbered[a->key];
	struct item at = *a;

	if (m->out->unmatched[0])
		return;
	take_step(&m->ranks[a->rank], c->mark, &at);
	snprintf(m->out->unmatched, sizeof m->out->unmatched,
		"%.200s: collective %s%lld %s step %lld is %s on rank %d, "
		"but %s %s", taut_names_text(names, a->key),
		numbered ? "number " : "",
		(long long)(numbered ? c->seq : a->order + 1),
		where[at.turn % TURNS], (long long)at.step,
		taut_coll_kind_name(c->kind),
		m->ranks[a->rank].trace->rank, b ?
		taut_coll_kind_name(comm_of(m, b)->kind) : "missing", what);
}

/* Are the n items of one step the same operations on each of its ranks? */
static bool sound(struct matcher *m, struct taut_names *names,
	const struct item *items, size_t n, uint32_t n_ranks)
{
	char what[48];

	for (size_t i = 0; i < n;) {
		size_t same = i;

		while (same < n && items[same].order == items[i].order)
			same++;
		for (size_t k = i + 1; k < same; k++)
			if (comm_of(m, &items[k])->kind !=
				comm_of(m, &items[i])->kind) {
				snprintf(what, sizeof what, "on rank %d",
					m->ranks[items[k].rank].trace->rank);
				tell(m, names, &items[i], &items[k], what);
				return false;
			}
		if (same - i != n_ranks) {
			snprintf(what, sizeof what, "on %u of %u ranks",
				(unsigned)(n_ranks - (same - i)),
				(unsigned)n_ranks);
			tell(m, names, &items[i], NULL, what);
			return false;
		}
		i = same;
	}
	return true;
}

static uint32_t ranks_in(const struct item *items, size_t n, uint8_t *seen,
	uint32_t n_ranks)
{
	uint32_t count = 0;

	memset(seen, 0, n_ranks);
	for (size_t i = 0; i < n; i++) {
		count += !seen[items[i].rank];
		seen[items[i].rank] = 1;
	}
	return count;
}

/* Ranks that should be in a sequence whose group is known, of those that
 * were recorded; 0: not known. */
static uint32_t expected(const struct matcher *m, const struct tauti_comm *c)
{
	uint32_t found = 0;

	if (c->src >= 0 && c->dst >= 0) {
		for (uint32_t i = 0; i < m->n_ranks; i++)
			found += m->ranks[i].trace->rank == c->src ||
				m->ranks[i].trace->rank == c->dst;
		return found;
	}
	/* who is in a group is not known, but all of it is here */
	if (c->group_size > 1 && m->n_ranks > 0 &&
		m->ranks[0].trace->world_size == (int32_t)m->n_ranks)
		return (uint32_t)c->group_size;
	return 0;
}

static bool refuse(struct matcher *m, const struct item *items, size_t n);

/* One place of several ranks: another kind, or the sends and receives of who
 * knows which pairs, are no collective. */
static bool emit_place(struct matcher *m, struct taut_names *names,
	const struct item *items, size_t n)
{
	const struct tauti_comm *c = comm_of(m, items);
	char what[48];

	for (size_t i = 1; i < n; i++) {
		if (comm_of(m, &items[i])->kind == c->kind)
			continue;
		snprintf(what, sizeof what, "on rank %d",
			m->ranks[items[i].rank].trace->rank);
		tell(m, names, items, &items[i], what);
		return refuse(m, items, n);
	}
	if (n > 2 && c->kind == TAUT_COLL_SENDRECV && !is_pair(c)) {
		tell(m, names, items, NULL, "in any pair that is told");
		return refuse(m, items, n);
	}
	return emit(m, items, n);
}

static bool emit_places(struct matcher *m, struct taut_names *names,
	const struct item *items, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t same = i + 1;

		while (same < n && same_step(&items[same], &items[i]) &&
			items[same].order == items[i].order)
			same++;
		if (!emit_place(m, names, &items[i], same - i))
			return false;
		i = same;
	}
	return true;
}

static bool refuse(struct matcher *m, const struct item *items, size_t n)
{
	m->out->n_unmatched += (uint32_t)n;
	return emit_alone(m, items, n);
}

/* All of one sequence, in places: equal numbers match, or, step by step,
 * equal positions. n_ranks have part in it. */
static bool match_places(struct matcher *m, struct taut_names *names,
	const struct item *items, size_t n, bool numbered, uint32_t n_ranks)
{
	for (size_t i = 0; i < n;) {
		size_t len = 1;
		bool ok;

		while (i + len < n && same_step(&items[i + len], &items[i]) &&
			(!numbered || items[i + len].order == items[i].order))
			len++;
		ok = numbered || n_ranks < 2 ||
			sound(m, names, &items[i], len, n_ranks) ?
			emit_places(m, names, &items[i], len) :
			refuse(m, &items[i], len);
		if (!ok)
			return false;
		i += len;
	}
	return true;
}

/* --- sequences without a group --------------------------------------------------*/

struct split { /* of one sequence into groups */
	const struct tauti_comm **ops;     /* ranks x places */
	const struct tauti_comm ***by_rank;
	int64_t *buffer, *base_ns;
	uint32_t *group, *dense; /* dense: rank -> 0.. among those present */
	struct item *part;
};

static bool split_init(struct split *s, uint32_t n_ranks, size_t places,
	size_t n)
{
	s->ops = calloc((size_t)n_ranks * places + 1, sizeof *s->ops);
	s->by_rank = calloc(n_ranks + 1, sizeof *s->by_rank);
	s->buffer = malloc((places + 1) * sizeof *s->buffer);
	s->base_ns = malloc((n_ranks + 1) * sizeof *s->base_ns);
	s->group = malloc((n_ranks + 1) * sizeof *s->group);
	s->dense = malloc((n_ranks + 1) * sizeof *s->dense);
	s->part = malloc((n + 1) * sizeof *s->part);
	return s->ops && s->by_rank && s->buffer && s->base_ns && s->group && s->dense &&
		s->part;
}

static void split_fini(struct split *s)
{
	free(s->ops);
	free(s->by_rank);
	free(s->buffer);
	free(s->base_ns);
	free(s->group);
	free(s->dense);
	free(s->part);
}

/* Ranks with different sequences of operations are in different groups. */
static void sign(const struct matcher *m, const struct item *items, size_t n,
	uint64_t *signature)
{
	memset(signature, 0, m->n_ranks * sizeof *signature);
	for (size_t i = 0; i < n; i++) {
		uint64_t *h = &signature[items[i].rank];

		*h = (*h ^ (uint64_t)items[i].step ^ (uint64_t)items[i].turn << 40) *
			0x9e3779b97f4a7c15u;
		*h = (*h ^ (uint64_t)items[i].order ^ (uint64_t)comm_of(m,
			&items[i])->kind << 32) * 0xff51afd7ed558ccdu;
		*h ^= *h >> 29;
	}
}

/* Has each of these ranks made one process group, that of all ranks? */
static bool one_group(const struct matcher *m, const struct item *items,
	uint32_t n_ranks)
{
	for (uint32_t r = 0; r < n_ranks; r++)
		if (m->ranks[items[r].rank].trace->process_groups != 1)
			return false;
	return true;
}

static bool match_groups(struct matcher *m, struct taut_names *names,
	const struct item *items, size_t n, uint32_t n_ranks, struct split *s)
{
	size_t places = n / n_ranks;

	for (size_t i = 0; i < n; i++)
		s->ops[(i % n_ranks) * places + i / n_ranks] =
			comm_of(m, &items[i]);
	for (uint32_t r = 0; r < n_ranks; r++) {
		s->by_rank[r] = s->ops + r * places;
		s->base_ns[r] = m->ranks[items[r].rank].trace->base_ns;
	}
	tauti_groups_by_time((const struct tauti_comm *const *const *)
		s->by_rank, s->base_ns, n_ranks, places, s->buffer, s->group);
	for (uint32_t g = 0; g < n_ranks; g++) {
		size_t part = 0;

		for (size_t i = 0; i < n; i++)
			if (s->group[i % n_ranks] == g)
				s->part[part++] = items[i];
		if (part == places && n_ranks > 1) {
			tell(m, names, s->part, NULL, "in the same moment on "
				"any other rank, and its group is not told");
			if (!refuse(m, s->part, part))
				return false;
		} else if (part && !emit_places(m, names, s->part, part)) {
			return false;
		}
	}
	m->out->groups_by_time |= n_ranks > 2;
	return true;
}

/* Does every rank have the same operations under the same numbers? */
static bool all_alike(const struct matcher *m, const struct item *items,
	size_t n)
{
	uint64_t *signature = calloc(m->n_ranks + 1, sizeof *signature);
	bool alike = signature != NULL;

	if (alike)
		sign(m, items, n, signature);
	for (size_t i = 1; alike && i < n; i++)
		alike = signature[items[i].rank] == signature[items[0].rank];
	free(signature);
	return alike;
}

/* One rank alone has this sequence: says what differs from the others'. */
static void tell_alone(struct matcher *m, struct taut_names *names,
	const struct item *items, size_t n, uint32_t n_ranks)
{
	for (size_t i = 0; i < n && !m->out->unmatched[0];) {
		size_t len = 1;

		while (i + len < n && same_step(&items[i + len], &items[i]))
			len++;
		(void)sound(m, names, &items[i], len, n_ranks);
		i += len;
	}
}

static bool match_alike(struct matcher *m, struct taut_names *names,
	const struct item *items, size_t n, uint32_t n_ranks)
{
	struct split s = { 0 };

	if (one_group(m, items, n_ranks))
		return emit_places(m, names, items, n);
	bool ok = split_init(&s, n_ranks, n / n_ranks, n) &&
		match_groups(m, names, items, n, n_ranks, &s);

	split_fini(&s);
	return ok;
}

static bool match_unnamed(struct matcher *m, struct taut_names *names,
	const struct item *items, size_t n, uint32_t n_ranks)
{
	uint64_t *signature = calloc(m->n_ranks + 1, sizeof *signature);
	struct item *alike = malloc((n + 1) * sizeof *alike);
	uint8_t *done = calloc(m->n_ranks + 1, 1);
	bool ok = signature && alike && done;

	if (ok)
		sign(m, items, n, signature);
	for (size_t i = 0; ok && i < n; i++) {
		uint64_t of = signature[items[i].rank];
		uint32_t ranks = 0;
		size_t part = 0;

		if (done[items[i].rank])
			continue;
		for (size_t k = i; k < n; k++) {
			if (signature[items[k].rank] != of)
				continue;
			ranks += !done[items[k].rank];
			done[items[k].rank] = 1;
			alike[part++] = items[k];
		}
		if (ranks == 1 && n_ranks > 1) {
			tell_alone(m, names, items, n, n_ranks);
			ok = refuse(m, alike, part);
		} else {
			ok = match_alike(m, names, alike, part, ranks);
		}
	}
	free(signature);
	free(alike);
	free(done);
	return ok;
}

/* --- all sequences -----------------------------------------------------------------*/

static bool match_key(struct matcher *m, struct taut_names *names, size_t from,
	size_t n, bool numbered, uint8_t *seen)
{
	const struct item *items = &m->items.data[from];
	const struct tauti_comm *first = comm_of(m, items);
	uint32_t n_ranks = ranks_in(items, n, seen, m->n_ranks);
	uint32_t want = expected(m, first);

	if (want > n_ranks) {
		char what[64];

		snprintf(what, sizeof what, "on %u of the %u ranks of its group",
			(unsigned)(want - n_ranks), (unsigned)want);
		tell(m, names, items, NULL, what);
		if (n_ranks < 2)
			return refuse(m, items, n);
	}
	m->out->by_order_alone |= !numbered && n_ranks > 1 &&
		m->ranks[items->rank].marks.data[0].row == TAUT_NONE;
	/* numbers count within a group: without its name they may be others' */
	if (!first->named && (!numbered || all_alike(m, items, n)))
		return match_unnamed(m, names, items, n, n_ranks);
	return match_places(m, names, items, n, numbered, n_ranks);
}

static taut_status match_all(struct matcher *m, struct taut_names *names)
{
	uint8_t *seen = malloc(m->n_ranks + 1);
	bool ok = seen != NULL;

	for (size_t i = 0; ok && i < m->items.count;) {
		uint32_t key = m->items.data[i].key;
		size_t n = 1;

		while (i + n < m->items.count &&
			m->items.data[i + n].key == key)
			n++;
		ok = match_key(m, names, i, n, !m->unnumbered[key], seen);
		i += n;
	}
	free(seen);
	return ok ? TAUT_OK : TAUT_ENOMEM;
}

taut_status tauti_match(struct tauti_rank *ranks, uint32_t n_ranks,
	struct taut_names *names, struct tauti_match *match,
	struct taut_error *err)
{
	struct matcher m = { .ranks = ranks, .n_ranks = n_ranks, .out = match };
	taut_status status = assign_keys(&m, names);
	uint32_t n_keys = taut_names_count(names);
	uint8_t *unnumbered = calloc(n_keys + 1, 1);

	m.unnumbered = unnumbered;
	if (!unnumbered)
		status = TAUT_ENOMEM;
	if (!status) {
		find_unnumbered(&m, unnumbered);
		status = arrange(&m, n_keys);
	}
	if (!status && find_misnumbered(&m, unnumbered))
		status = arrange(&m, n_keys);
	if (!status)
		status = match_all(&m, names);
	free(unnumbered);
	taut_vec_free(&m.items);
	return status ? taut_error_set(err, status, -1,
		"no memory to match collectives") : TAUT_OK;
}

void tauti_match_fini(struct tauti_match *match)
{
	taut_vec_free(&match->collectives);
	taut_vec_free(&match->member_rank);
	taut_vec_free(&match->member_comm);
}
