/* pipeline.c - what waits for what in a step of a job with pipeline stages.
 *
 * Each stage computes in order. Sends and receives stand on lanes of their own,
 * one for each direction:
 *   - a receive begins when the computation before the one that it feeds is
 *     over, and that one begins when the receive is; a send begins when the
 *     computation whose result it takes is over;
 *   - the k-th send of a stage meets the k-th receive of its neighbour. A
 *     recorder may note sends and receives at the ends of the pipeline, or of
 *     a step, that nobody answers: they wait for nobody;
 *   - the first send and the first receive of the backward pass do not begin
 *     before the forward computation but one before the first backward one;
 *   - the first forward of a chunk waits for the gathering of its parameters;
 *     where gradients are scattered during the backward pass, which a separate
 *     reduction at the end tells, a chunk's are when its last backward is over;
 *   - what closes the step follows on the main lane, after the last scatter.
 * The first operation on each lane waits for the step.
 *
 * This is the model of the published study of stragglers (OSDI '25), which
 * docs/stragglers.md describes. Which sends and receives are answered is found
 * once and then taken for all steps and replicas with as many operations. */
#include <stdlib.h>
#include <string.h>

#include "trace/formats/table.h"

static const int64_t slack_ns = 50000; /* clocks, against no-op sends */

struct worker { /* the ops of one rank */
	size_t begin, end;
	int32_t rank, stage, replica, tensor;
};

struct list { /* ops of one role of one stage in one step, by start */
	uint32_t at, n; /* in pipe->of_role */
};

struct stage {
	size_t begin, end; /* ops */
	int32_t rank;
	struct list roles[TAUTI_ROLES];
};

/* Of each send and receive, by its place in of_role. */
struct answer {
	int32_t compute; /* which of its direction it belongs to; -1 none */
	bool partner;    /* somebody answers */
};

struct pipe { /* one replica in one step */
	struct tauti_table *t;
	uint32_t n_stages;
	int32_t chunks; /* of the model on a stage; 1 and up */
	struct stage *stages;
	TAUT_VEC(uint32_t) of_role; /* op numbers by (stage, role, start) */
	TAUT_VEC(struct answer) answers;
	TAUT_VEC(struct answer) usual; /* of the first one */
	uint32_t *usual_n; /* its counts by (stage, role); NULL: none yet */
	uint32_t *n_of;    /* of this one */
	bool failed;
};

static struct tauti_table_op *op_of(const struct pipe *p, uint32_t i)
{
	return &p->t->ops.data[i];
}

static uint32_t nth(const struct pipe *p, const struct list *list, uint32_t k)
{
	return p->of_role.data[list->at + k];
}

static void wait_for(struct pipe *p, uint32_t op, uint32_t before)
{
	struct tauti_told_wait wait = { op, before };
	p->failed |= !taut_vec_push(&p->t->waits, wait);
}

static int64_t end_of(const struct tauti_table_op *op)
{
	return op->start_ns + op->dur_ns;
}

/* --- lists -------------------------------------------------------------------------- */

static void list_stage(struct pipe *p, uint32_t index)
{
	struct stage *s = &p->stages[index];
	for (uint8_t role = 0; role < TAUTI_ROLES; role++) {
		struct list *list = &s->roles[role];
		list->at = (uint32_t)p->of_role.count;
		for (size_t i = s->begin; i < s->end && role; i++)
			if (p->t->ops.data[i].role == role)
				p->failed |= !taut_vec_push(
					&p->of_role, (uint32_t)i);
		list->n = (uint32_t)p->of_role.count - list->at;
		p->n_of[index * TAUTI_ROLES + role] = list->n;
	}
}

/* --- who answers -------------------------------------------------------------------- */

static uint8_t compute_of(uint8_t role)
{
	return role == TAUTI_FORWARD_SEND || role == TAUTI_FORWARD_RECV ?
		TAUTI_FORWARD : TAUTI_BACKWARD;
}

static bool is_send(uint8_t role)
{
	return role == TAUTI_FORWARD_SEND || role == TAUTI_BACKWARD_SEND;
}

/* Towards the end of the model or its beginning? */
static int32_t direction(uint8_t role)
{
	return role == TAUTI_FORWARD_SEND || role == TAUTI_BACKWARD_RECV ?
		1 : -1;
}

/* Where in the model an operation's chunk stands; chunks go around. */
static int32_t place_of(const struct pipe *p, uint32_t op, uint32_t stage)
{
	const struct tauti_table_op *o = op_of(p, op);
	if (o->place >= 0)
		return o->place;
	return (o->chunk > 0 ? o->chunk : 0) * (int32_t)p->n_stages +
		(int32_t)stage;
}

/* Was it recorded at the end of a step (a receive) or at its beginning (a
 * send), where there is nothing for it? bound: the last start of computation
 * in its direction, or the first end. */
static bool is_stray(
	const struct tauti_table_op *op, uint8_t role, int64_t bound)
{
	return is_send(role) ? end_of(op) < bound - slack_ns :
			       op->start_ns > bound + slack_ns;
}

static int64_t stray_bound(
	const struct pipe *p, const struct list *compute, uint8_t role)
{
	int64_t bound = is_send(role) ? INT64_MAX : INT64_MIN;
	for (uint32_t i = 0; i < compute->n; i++) {
		const struct tauti_table_op *op = op_of(p, nth(p, compute, i));
		if (is_send(role) && end_of(op) < bound)
			bound = end_of(op);
		else if (!is_send(role) && op->start_ns > bound)
			bound = op->start_ns;
	}
	return bound;
}

static void answer_role(struct pipe *p, uint32_t stage, uint8_t role)
{
	const struct stage *s = &p->stages[stage];
	const struct list *list = &s->roles[role];
	const struct list *compute = &s->roles[compute_of(role)];
	int64_t bound = stray_bound(p, compute, role);
	int32_t places = p->chunks * (int32_t)p->n_stages;
	uint32_t n = 0, next = 0;
	for (uint32_t k = 0; k < list->n; k++)
		n += compute->n && !is_stray(op_of(p, nth(p, list, k)), role,
			bound);
	/* the very first receive has nothing to receive and may be missing */
	if (!is_send(role) && n + 1 == compute->n)
		next = 1;
	for (uint32_t k = 0; k < list->n; k++) {
		struct answer *a = &p->answers.data[list->at + k];
		int32_t peer;
		*a = (struct answer){ -1, false };
		if (next >= compute->n || is_stray(op_of(p, nth(p, list, k)),
				role, bound))
			continue;
		a->compute = (int32_t)next++;
		peer = place_of(p, nth(p, compute, (uint32_t)a->compute),
			stage) + direction(role);
		a->partner = peer >= 0 && peer < places && p->n_stages > 1;
	}
}

static bool is_usual(const struct pipe *p)
{
	return p->usual_n && !memcmp(p->usual_n, p->n_of,
		(size_t)p->n_stages * TAUTI_ROLES * sizeof *p->n_of);
}

static void find_answers(struct pipe *p)
{
	size_t n = p->of_role.count;
	p->answers.count = 0;
	if (!taut_vec_reserve(&p->answers, n)) {
		p->failed = true;
		return;
	}
	p->answers.count = n;
	if (!n)
		return;
	if (is_usual(p)) {
		memcpy(p->answers.data, p->usual.data,
			n * sizeof *p->answers.data);
		return;
	}
	for (uint32_t s = 0; s < p->n_stages; s++)
		for (uint8_t r = TAUTI_FORWARD_SEND; r <= TAUTI_BACKWARD_RECV;
			r++)
			answer_role(p, s, r);
	if (p->usual_n)
		return;
	p->usual_n = malloc((size_t)p->n_stages * TAUTI_ROLES *
		sizeof *p->usual_n);
	p->failed |= !p->usual_n || !taut_vec_reserve(&p->usual, n);
	if (p->failed)
		return;
	memcpy(p->usual_n, p->n_of, (size_t)p->n_stages * TAUTI_ROLES *
		sizeof *p->usual_n);
	memcpy(p->usual.data, p->answers.data, n * sizeof *p->usual.data);
}

/* --- waits ---------------------------------------------------------------------------- */

/* Numbers the answered ones; sends and receives of the neighbour with equal
 * numbers meet. Both directions may run between the same two ranks. */
static void number_pairs(struct pipe *p, uint32_t stage, uint8_t role)
{
	const struct list *list = &p->stages[stage].roles[role];
	uint32_t peer = (uint32_t)((int32_t)(stage + p->n_stages) +
		direction(role)) % p->n_stages;
	bool back = compute_of(role) == TAUTI_BACKWARD;
	int64_t k = 0;
	for (uint32_t i = 0; i < list->n; i++) {
		struct tauti_table_op *op = op_of(p, nth(p, list, i));
		if (!p->answers.data[list->at + i].partner)
			continue;
		op->meets = true;
		op->peer = p->stages[peer].rank;
		op->seq = tauti_table_seq(op, k++ * 2 + back);
	}
}

/* Sends and receives against the computation that they belong to. */
static void tie_role(struct pipe *p, uint32_t stage, uint8_t role)
{
	const struct stage *s = &p->stages[stage];
	const struct list *list = &s->roles[role];
	const struct list *compute = &s->roles[compute_of(role)];
	for (uint32_t i = 0; i < list->n; i++) {
		int32_t k = p->answers.data[list->at + i].compute;
		uint32_t op = nth(p, list, i);
		if (k < 0)
			continue;
		if (is_send(role)) {
			wait_for(p, op, nth(p, compute, (uint32_t)k));
			continue;
		}
		wait_for(p, nth(p, compute, (uint32_t)k), op);
		if (k > 0)
			wait_for(p, op, nth(p, compute, (uint32_t)k - 1));
	}
}

/* The first backward pair, and the forward computation but one before. */
static void tie_first_backward(struct pipe *p, const struct stage *s)
{
	uint32_t before[2] = { TAUT_NONE, TAUT_NONE };
	for (size_t i = s->begin; i < s->end; i++) {
		uint8_t role = p->t->ops.data[i].role;
		if (role == TAUTI_BACKWARD)
			break;
		if (role == TAUTI_FORWARD) {
			before[0] = before[1];
			before[1] = (uint32_t)i;
		}
	}
	if (before[0] == TAUT_NONE || !s->roles[TAUTI_BACKWARD].n)
		return;
	if (s->roles[TAUTI_BACKWARD_RECV].n)
		wait_for(p, nth(p, &s->roles[TAUTI_BACKWARD_RECV], 0),
			before[0]);
	if (s->roles[TAUTI_BACKWARD_SEND].n)
		wait_for(p, nth(p, &s->roles[TAUTI_BACKWARD_SEND], 0),
			before[0]);
}

/* The first (or last, by its end) computation of a chunk; -1: of any. */
static uint32_t compute_of_chunk(const struct pipe *p,
	const struct list *compute, int32_t chunk, bool last)
{
	uint32_t best = TAUT_NONE;
	for (uint32_t k = 0; k < compute->n; k++) {
		uint32_t op = nth(p, compute, k);
		if (chunk >= 0 && op_of(p, op)->chunk >= 0 &&
			op_of(p, op)->chunk != chunk)
			continue;
		if (best == TAUT_NONE ||
			(last && end_of(op_of(p, op)) > end_of(op_of(p, best))))
			best = op;
	}
	return best;
}

/* Is entry k the only one of its chunk in [from, n)? */
static bool again(const struct pipe *p, const struct list *list, uint32_t k,
	uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		if (op_of(p, nth(p, list, i))->chunk ==
			op_of(p, nth(p, list, k))->chunk)
			return true;
	return false;
}

static void tie_data_parallel(struct pipe *p, const struct stage *s,
	bool overlapped)
{
	const struct list *gather = &s->roles[TAUTI_PARAMS_GATHER];
	const struct list *scatter = &s->roles[TAUTI_GRADS_SCATTER];
	for (uint32_t k = 0; k < gather->n; k++) {
		uint32_t op = nth(p, gather, k), first = compute_of_chunk(p,
			&s->roles[TAUTI_FORWARD], op_of(p, op)->chunk, false);
		if (first != TAUT_NONE && !again(p, gather, k, k + 1,
				gather->n))
			wait_for(p, first, op);
	}
	for (uint32_t k = 0; k < scatter->n && overlapped; k++) {
		uint32_t op = nth(p, scatter, k), last = compute_of_chunk(p,
			&s->roles[TAUTI_BACKWARD], op_of(p, op)->chunk, true);
		if (last != TAUT_NONE && !again(p, scatter, k, 0, k))
			wait_for(p, op, last);
	}
}

/* Scatters that began before their turn in the closing of the step, between
 * the reductions and the clipping: they stand beside the main lane, too. */
static void tie_scatter(struct pipe *p, const struct stage *s)
{
	const struct list *scatter = &s->roles[TAUTI_GRADS_SCATTER];
	for (uint8_t r = TAUTI_EMBED_REDUCE; r >= TAUTI_COLLECT; r--)
		if (s->roles[r].n) {
			wait_for(p, nth(p, scatter, 0), nth(p, &s->roles[r],
				s->roles[r].n - 1));
			break;
		}
	for (uint8_t r = TAUTI_CLIP; r <= TAUTI_OPTIMIZER; r++)
		if (s->roles[r].n) {
			wait_for(p, nth(p, &s->roles[r], 0),
				nth(p, scatter, scatter->n - 1));
			break;
		}
}

/* What closes the step waits for the last scatter beside the main lane. */
static void tie_end(struct pipe *p, const struct stage *s, bool overlapped)
{
	const struct list *scatter = &s->roles[TAUTI_GRADS_SCATTER];
	if (!scatter->n || !op_of(p, nth(p, scatter, 0))->track)
		return;
	if (!overlapped) {
		tie_scatter(p, s);
		return;
	}
	for (uint8_t r = TAUTI_NORM_REDUCE; r <= TAUTI_OPTIMIZER; r++)
		if (s->roles[r].n) {
			wait_for(p, nth(p, &s->roles[r], 0),
				nth(p, scatter, scatter->n - 1));
			return;
		}
}

static void tie_to_step(struct pipe *p, const struct stage *s)
{
	bool seen[8] = { true }; /* the main lane has the step's own mark */
	for (size_t i = s->begin; i < s->end; i++) {
		uint8_t track = p->t->ops.data[i].track;
		if (!seen[track])
			wait_for(p, (uint32_t)i, TAUT_NONE);
		seen[track] = true;
	}
}

/* Does a scatter begin before the computation, or the reductions that it is to
 * follow? */
static bool scatters_early(const struct pipe *p, const struct stage *s)
{
	bool seen = false;
	for (size_t i = s->begin; i < s->end; i++) {
		uint8_t role = p->t->ops.data[i].role;
		seen |= role == TAUTI_GRADS_SCATTER;
		if (seen && (role == TAUTI_FORWARD || role == TAUTI_BACKWARD ||
			(role >= TAUTI_COLLECT && role <= TAUTI_EMBED_REDUCE)))
			return true;
	}
	return false;
}

static void choose_tracks(struct pipe *p, const struct stage *s,
	bool overlapped)
{
	static const uint8_t tracks[TAUTI_ROLES] = {
		[TAUTI_FORWARD_SEND] = 1, [TAUTI_FORWARD_RECV] = 2,
		[TAUTI_BACKWARD_SEND] = 3, [TAUTI_BACKWARD_RECV] = 4,
		[TAUTI_PARAMS_GATHER] = 5, [TAUTI_GRADS_SCATTER] = 5 };
	bool beside = overlapped || scatters_early(p, s);
	for (size_t i = s->begin; i < s->end; i++) {
		struct tauti_table_op *op = &p->t->ops.data[i];
		op->track = op->role == TAUTI_GRADS_SCATTER && !beside ?
			0 : tracks[op->role];
	}
}

/* Collectives of a stage: the k-th of a role on each of its ranks. */
static void number_collectives(struct pipe *p, const struct stage *s)
{
	for (uint8_t r = TAUTI_PARAMS_GATHER; r <= TAUTI_CLIP; r++)
		for (uint32_t k = 0; k < s->roles[r].n; k++) {
			struct tauti_table_op *op =
				op_of(p, nth(p, &s->roles[r], k));
			op->meets = true;
			op->seq = tauti_table_seq(op, k) * TAUTI_ROLES + r;
		}
}

static void tell_step(struct pipe *p)
{
	bool overlapped = false;
	p->of_role.count = 0;
	for (uint32_t s = 0; s < p->n_stages; s++)
		list_stage(p, s);
	for (uint32_t s = 0; s < p->n_stages; s++)
		overlapped |= p->stages[s].roles[TAUTI_SEPARATE_REDUCE].n > 0;
	if (!p->failed)
		find_answers(p);
	for (uint32_t i = 0; i < p->n_stages && !p->failed; i++) {
		const struct stage *s = &p->stages[i];
		choose_tracks(p, s, overlapped);
		for (uint8_t r = TAUTI_FORWARD_SEND; r <= TAUTI_BACKWARD_RECV;
			r++) {
			number_pairs(p, i, r);
			tie_role(p, i, r);
		}
		tie_first_backward(p, s);
		tie_data_parallel(p, s, overlapped);
		tie_end(p, s, overlapped);
		tie_to_step(p, s);
		number_collectives(p, s);
	}
}

/* --- replicas and steps --------------------------------------------------------------------- */

static int by_replica(const void *a, const void *b)
{
	const struct worker *x = a, *y = b;
	if (x->replica != y->replica)
		return x->replica < y->replica ? -1 : 1;
	if (x->tensor != y->tensor)
		return x->tensor < y->tensor ? -1 : 1;
	if (x->stage != y->stage)
		return x->stage < y->stage ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Ranks of one stage of one replica are tensor parallel: each belongs to a
 * pipeline of its own. */
static void number_tensor(struct worker *workers, size_t n)
{
	qsort(workers, n, sizeof *workers, by_replica);
	for (size_t i = 1; i < n; i++)
		if (workers[i].replica == workers[i - 1].replica &&
			workers[i].stage == workers[i - 1].stage)
			workers[i].tensor = workers[i - 1].tensor + 1;
	qsort(workers, n, sizeof *workers, by_replica);
}

/* Moves each stage to its ops of one step, which follow those before. */
static void next_step(struct pipe *p, const struct worker *workers,
	uint32_t step)
{
	const struct tauti_table_op *ops = p->t->ops.data;
	for (uint32_t s = 0; s < p->n_stages; s++) {
		struct stage *stage = &p->stages[s];
		size_t i = stage->end;
		while (i < workers[s].end && ops[i].step_index != TAUT_NONE &&
			ops[i].step_index < step)
			i++;
		while (i < workers[s].end && ops[i].step < 0)
			i++;
		stage->begin = i;
		while (i < workers[s].end && ops[i].step_index == step)
			i++;
		stage->end = i;
	}
}

static void tell_replica(struct pipe *p, const struct worker *workers,
	uint32_t n_stages)
{
	if (n_stages != p->n_stages) {
		free(p->usual_n);
		p->usual_n = NULL;
		p->n_stages = n_stages;
	}
	for (uint32_t s = 0; s < n_stages; s++)
		p->stages[s] = (struct stage){ .begin = workers[s].begin,
			.end = workers[s].begin, .rank = workers[s].rank };
	for (uint32_t i = 0; i < p->t->steps.count && !p->failed; i++) {
		next_step(p, workers, i);
		tell_step(p);
	}
}

static size_t find_workers(const struct tauti_table *t, struct worker *workers)
{
	size_t n = 0;
	for (size_t i = 0; i < t->ops.count; i++) {
		const struct tauti_table_op *op = &t->ops.data[i];
		if (!i || op[-1].rank != op->rank)
			workers[n++] = (struct worker){ i, i, op->rank,
				op->stage, op->replica, 0 };
		workers[n - 1].end = i + 1;
	}
	return n;
}

static size_t count_ranks(const struct tauti_table *t)
{
	size_t n = 0;
	for (size_t i = 0; i < t->ops.count; i++)
		n += !i || t->ops.data[i - 1].rank != t->ops.data[i].rank;
	return n;
}

static int32_t count_chunks(const struct tauti_table *t)
{
	int32_t most = 0;
	for (size_t i = 0; i < t->ops.count; i++)
		if (t->ops.data[i].chunk > most)
			most = t->ops.data[i].chunk;
	return most < 1000000 ? most + 1 : 1;
}

static int by_op(const void *a, const void *b)
{
	const struct tauti_told_wait *x = a, *y = b;
	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	return x->before < y->before ? -1 : x->before > y->before;
}

bool tauti_pipeline_tell(struct tauti_table *t)
{
	size_t n = count_ranks(t);
	struct worker *workers = malloc((n + 1) * sizeof *workers);
	struct pipe p = { .t = t, .chunks = count_chunks(t) };
	p.stages = malloc((n + 1) * sizeof *p.stages);
	p.n_of = malloc((n + 1) * TAUTI_ROLES * sizeof *p.n_of);
	p.failed = !workers || !p.stages || !p.n_of;
	t->chunks = p.chunks;
	if (!p.failed) {
		find_workers(t, workers);
		number_tensor(workers, n);
	}
	for (size_t i = 0, next; i < n && !p.failed; i = next) {
		for (next = i + 1; next < n &&
			workers[next].replica == workers[i].replica &&
			workers[next].tensor == workers[i].tensor;)
			next++;
		tell_replica(&p, workers + i, (uint32_t)(next - i));
	}
	if (t->waits.count)
		qsort(t->waits.data, t->waits.count, sizeof *t->waits.data,
			by_op);
	free(workers);
	free(p.stages);
	free(p.n_of);
	free(p.usual_n);
	taut_vec_free(&p.of_role);
	taut_vec_free(&p.answers);
	taut_vec_free(&p.usual);
	return !p.failed;
}
