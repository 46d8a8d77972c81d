/* script.c - the schedules of all ranks for one pass, and which of their steps send
 * and receive the same message. */
#include <stdlib.h>
#include <string.h>

#include "play.h"

struct end { /* of a message: one side's step */
	uint64_t key; /* sender, receiver, number */
	uint32_t step, slot;
};

struct matcher {
	struct tauti_script *script;
	struct taut_arena *arena;
	struct taut_error *err;
	uint32_t *first_step, *rank_of, *first_message, *message_of;
	uint8_t *is_last;
	struct end *sends, *recvs;
	uint32_t n_sends, n_recvs;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for schedules of all ranks");
}

static bool receives(const struct taut_coll_step *s)
{
	return s->kind == TAUT_STEP_RECV || s->kind == TAUT_STEP_RECV_REDUCE;
}

static bool talks(const struct taut_coll_step *s)
{
	return s->kind == TAUT_STEP_SEND || receives(s);
}

/* --- what each schedule must be -------------------------------------------------------*/

static taut_status check_step(const struct matcher *m, uint32_t rank,
	uint32_t i)
{
	const struct taut_coll_schedule *s = m->script->of[rank];
	const struct taut_coll_step *step = &s->steps[i];
	bool ok = step->kind <= TAUT_STEP_REDUCE &&
		step->first_wait <= s->n_waits &&
		step->n_waits <= s->n_waits - step->first_wait &&
		step->first_peer <= s->n_peers &&
		step->n_peers <= s->n_peers - step->first_peer &&
		step->message < TAUT_COLL_MESSAGES &&
		(!receives(step) || step->n_peers == 1);

	for (uint32_t k = 0; ok && k < step->n_waits; k++)
		ok = s->waits[step->first_wait + k] < i;
	for (uint32_t k = 0; ok && talks(step) && k < step->n_peers; k++) {
		uint32_t peer = s->peers[step->first_peer + k];

		ok = peer < m->script->n_ranks && peer != rank;
	}
	return ok ? TAUT_OK : taut_error_set(m->err, TAUT_EMATCH, -1,
		"rank %u, step %u of its schedule: no such kind, peer, "
		"message or wait", (unsigned)rank, (unsigned)i);
}

/* Steps are numbered through, and their messages counted. */
static taut_status number_steps(struct matcher *m)
{
	struct tauti_script *script = m->script;
	uint32_t at = 0, n_ends = 0;

	for (uint32_t r = 0; r < script->n_ranks; r++) {
		const struct taut_coll_schedule *s = script->of[r];

		m->first_step[r] = at;
		for (uint32_t i = 0; i < s->n_steps; i++, at++) {
			taut_status status = check_step(m, r, i);

			if (status)
				return status;
			m->rank_of[at] = r;
			m->is_last[at] = 1;
			m->first_message[at] = n_ends;
			n_ends += talks(&s->steps[i]) ?
				s->steps[i].n_peers : 0;
			for (uint32_t k = 0; k < s->steps[i].n_waits; k++)
				m->is_last[m->first_step[r] +
					s->waits[s->steps[i].first_wait + k]] =
					0;
		}
	}
	m->first_step[script->n_ranks] = at;
	m->first_message[at] = n_ends;
	return TAUT_OK;
}

/* --- matching ----------------------------------------------------------------------------*/

static int by_key(const void *a, const void *b)
{
	const struct end *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

static uint64_t key_of(const struct matcher *m, uint32_t from, uint32_t to,
	uint32_t message)
{
	return ((uint64_t)from * m->script->n_ranks + to) * TAUT_COLL_MESSAGES +
		message;
}

static void gather(struct matcher *m, uint32_t rank, uint32_t step)
{
	const struct taut_coll_step *s = tauti_script_step(m->script, step);
	const uint32_t *peers = &m->script->of[rank]->peers[s->first_peer];

	for (uint32_t k = 0; talks(s) && k < s->n_peers; k++) {
		uint32_t slot = m->first_message[step] + k;

		if (s->kind == TAUT_STEP_SEND)
			m->sends[m->n_sends++] = (struct end){
				key_of(m, rank, peers[k], s->message), step,
				slot };
		else
			m->recvs[m->n_recvs++] = (struct end){
				key_of(m, peers[k], rank, s->message), step,
				slot };
	}
}

/* The first end that has no other. */
static taut_status unmatched(const struct matcher *m, uint32_t i)
{
	const struct end *s = i < m->n_sends ? &m->sends[i] : NULL;
	const struct end *r = i < m->n_recvs ? &m->recvs[i] : NULL;
	bool sent = s && (!r || s->key < r->key);
	uint64_t key = sent ? s->key : r->key;
	uint64_t pair = key / TAUT_COLL_MESSAGES;

	return taut_error_set(m->err, TAUT_EMATCH, -1,
		"message %u from rank %u to rank %u is %s",
		(unsigned)(key % TAUT_COLL_MESSAGES),
		(unsigned)(pair / m->script->n_ranks),
		(unsigned)(pair % m->script->n_ranks),
		sent ? "sent and not received" : "received and not sent");
}

static taut_status match_one(struct matcher *m, uint32_t i,
	struct tauti_play_message *ret)
{
	const struct end *s = &m->sends[i], *r = &m->recvs[i];
	const struct taut_coll_step *send = tauti_script_step(m->script, s->step);
	const struct taut_coll_step *recv = tauti_script_step(m->script, r->step);

	if (i && m->sends[i - 1].key == s->key)
		return taut_error_set(m->err, TAUT_EMATCH, -1,
			"rank %u sends two messages %u to one rank",
			(unsigned)m->script->rank_of[s->step],
			(unsigned)send->message);
	if (send->count != recv->count)
		return taut_error_set(m->err, TAUT_EMATCH, -1,
			"message %u from rank %u to rank %u has %llu elements, "
			"where %llu are expected", (unsigned)send->message,
			(unsigned)m->script->rank_of[s->step],
			(unsigned)m->script->rank_of[r->step],
			(unsigned long long)send->count,
			(unsigned long long)recv->count);
	*ret = (struct tauti_play_message){ s->step, r->step,
		m->script->rank_of[s->step], m->script->rank_of[r->step],
		send->count };
	m->message_of[s->slot] = m->message_of[r->slot] = i;
	return TAUT_OK;
}

static taut_status match(struct matcher *m)
{
	struct tauti_script *script = m->script;
	uint32_t n_ends = m->first_message[script->n_steps];
	struct tauti_play_message *messages = TAUT_ARENA_ARRAY(
		m->arena, struct tauti_play_message, n_ends + 1);
	taut_status status = TAUT_OK;

	m->message_of = TAUT_ARENA_ARRAY(m->arena, uint32_t, n_ends + 1);
	m->sends = TAUT_ARENA_ARRAY(m->arena, struct end, n_ends + 1);
	m->recvs = TAUT_ARENA_ARRAY(m->arena, struct end, n_ends + 1);
	if (!messages || !m->message_of || !m->sends || !m->recvs)
		return no_memory(m->err);
	for (uint32_t i = 0; i < script->n_steps; i++)
		gather(m, script->rank_of[i], i);
	qsort(m->sends, m->n_sends, sizeof *m->sends, by_key);
	qsort(m->recvs, m->n_recvs, sizeof *m->recvs, by_key);
	for (uint32_t i = 0; !status && (i < m->n_sends || i < m->n_recvs);
		i++) {
		if (i >= m->n_sends || i >= m->n_recvs ||
			m->sends[i].key != m->recvs[i].key)
			return unmatched(m, i);
		status = match_one(m, i, &messages[i]);
	}
	script->n_messages = m->n_sends;
	script->messages = messages;
	script->message_of = m->message_of;
	return status;
}

/* --- all ----------------------------------------------------------------------------------*/

taut_status tauti_script_init(struct tauti_script *ret_script,
	struct taut_arena *arena, const struct taut_coll_schedule *const *of,
	uint32_t n_ranks, struct taut_error *err)
{
	struct tauti_script script = { .n_ranks = n_ranks, .of = of };
	struct matcher m = { .script = &script, .arena = arena, .err = err };
	uint64_t n = 0;
	taut_status status;

	for (uint32_t r = 0; r < n_ranks; r++)
		n += of[r]->n_steps;
	if (n >= TAUT_NONE / 4)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"schedules of %u ranks have too many steps",
			(unsigned)n_ranks);
	script.n_steps = (uint32_t)n;
	m.first_step = TAUT_ARENA_ARRAY(arena, uint32_t, n_ranks + 1);
	m.rank_of = TAUT_ARENA_ARRAY(arena, uint32_t, n + 1);
	m.first_message = TAUT_ARENA_ARRAY(arena, uint32_t, n + 1);
	m.is_last = TAUT_ARENA_ARRAY(arena, uint8_t, n + 1);
	if (!m.first_step || !m.rank_of || !m.first_message || !m.is_last)
		return no_memory(err);
	script.first_step = m.first_step;
	script.rank_of = m.rank_of;
	script.first_message = m.first_message;
	script.is_last = m.is_last;
	status = number_steps(&m);
	if (!status)
		status = match(&m);
	if (!status)
		*ret_script = script;
	return status;
}
