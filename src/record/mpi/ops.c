/* ops.c - operations between their call and their completion, and the
 * counters of messages: tables of fixed size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "record/mpi/mpi.h"
#include "record/mpi/tables.h"

/* Above every number that a thread can have. */
#define LANE_BASE (INT64_C(1) << 32)

/* Pages that are never touched cost nothing. */
bool tauti_mpi_ops_init(void)
{
	void *at = mmap(NULL, sizeof *tauti_mpi.tables, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	tauti_mpi.tables = at == MAP_FAILED ? NULL : at;
	return at != MAP_FAILED;
}

/* --- the pool --------------------------------------------------------------------*/

struct tauti_mpi_op *tauti_mpi_op_new(void)
{
	struct tauti_mpi_tables *t = tauti_mpi.tables;
	struct tauti_mpi_op *op = t->free_ops;

	if (op)
		t->free_ops = op->next;
	else if (t->n_fresh < TAUTI_MPI_OPS)
		op = &t->ops[t->n_fresh++];
	if (!op) {
		tauti_mpi.n_lost++;
		return NULL;
	}
	memset(op, 0, sizeof *op);
	op->slot = -1;
	op->writes = tauti_mpi.writes;
	return op;
}

void tauti_mpi_op_free(struct tauti_mpi_op *op)
{
	struct tauti_mpi_comm *comm = op->comm;

	op->comm = NULL;
	op->next = tauti_mpi.tables->free_ops;
	tauti_mpi.tables->free_ops = op;
	if (comm)
		tauti_mpi_comm_release(comm);
}

/* --- by request ------------------------------------------------------------------ */

static size_t chain_of(tauti_mpi_handle request)
{
	return tauti_hash_mix(request ^ TAUTI_HASH_A, TAUTI_HASH_B) %
		TAUTI_MPI_OP_CHAINS;
}

void tauti_mpi_op_enter(struct tauti_mpi_op *op, tauti_mpi_handle request)
{
	struct tauti_mpi_tables *t = tauti_mpi.tables;
	size_t chain = chain_of(request);

	op->request = request;
	op->serial = ++t->n_entered;
	op->in_table = true;
	op->next = NULL;
	if (t->last[chain])
		t->last[chain]->next = op;
	else
		t->first[chain] = op;
	t->last[chain] = op;
}

struct tauti_mpi_op *tauti_mpi_op_find(
	tauti_mpi_handle request, bool is_template)
{
	struct tauti_mpi_op *op =
		tauti_mpi.tables->first[chain_of(request)];

	while (op && (op->request != request ||
		op->is_template != is_template))
		op = op->next;
	return op;
}

uint64_t tauti_mpi_op_newest(tauti_mpi_handle request)
{
	const struct tauti_mpi_op *op =
		tauti_mpi.tables->first[chain_of(request)];
	uint64_t serial = 0;

	for (; op; op = op->next)
		if (op->request == request && !op->is_template)
			serial = op->serial;
	return serial;
}

void tauti_mpi_op_leave(struct tauti_mpi_op *op)
{
	struct tauti_mpi_tables *t = tauti_mpi.tables;
	size_t chain = chain_of(op->request);
	struct tauti_mpi_op *before = NULL;

	if (!op->in_table)
		return;
	for (struct tauti_mpi_op *o = t->first[chain]; o != op; o = o->next)
		before = o;
	if (before)
		before->next = op->next;
	else
		t->first[chain] = op->next;
	if (t->last[chain] == op)
		t->last[chain] = before;
	op->in_table = false;
}

/* --- lanes ------------------------------------------------------------------------ */

static void name_lane(uint32_t slot)
{
	char name[40];

	uint32_t *n = &tauti_mpi.tables->n_named;

	for (; *n <= slot; ++*n) {
		snprintf(name, sizeof name, "MPI requests %u", *n);
		taut_log_lane(tauti_mpi.log, LANE_BASE + *n, name);
	}
}

/* The lowest lane that nobody has, and that was empty when op began: another
 * thread's may have ended after that. -1: none. */
static int32_t empty_lane(int64_t start_ns)
{
	const struct tauti_mpi_tables *t = tauti_mpi.tables;

	for (uint32_t w = 0; w < TAUTI_MPI_LANE_WORDS; w++)
		for (uint64_t left = ~t->lanes[w]; left; left &= left - 1) {
			uint32_t slot = w * 64 +
				(uint32_t)__builtin_ctzll(left);

			if (t->lane_end_ns[slot] <= start_ns)
				return (int32_t)slot;
		}
	return -1;
}

void tauti_mpi_op_take_lane(struct tauti_mpi_op *op)
{
	int32_t slot = empty_lane(op->start_ns);

	if (slot < 0)
		return; /* clocks that went back: on the thread's, then */
	tauti_mpi.tables->lanes[slot / 64] |= UINT64_C(1) << (slot % 64);
	op->slot = slot;
	op->lane = LANE_BASE + slot;
	if (op->writes)
		name_lane((uint32_t)slot);
}

static void give_lane(struct tauti_mpi_op *op)
{
	struct tauti_mpi_tables *t = tauti_mpi.tables;

	if (op->slot < 0)
		return;
	t->lanes[op->slot / 64] &= ~(UINT64_C(1) << (op->slot % 64));
	t->lane_end_ns[op->slot] = op->end_ns;
	op->slot = -1;
}

/* --- the end of one ---------------------------------------------------------------- */

static void write_op(const struct tauti_mpi_op *op)
{
	if (op->writes)
		taut_log_comm(tauti_mpi.log, op->name, TAUTI_MPI_KIND_COMM,
			op->lane, op->start_ns, op->end_ns, op->correlation,
			&op->args);
}

void tauti_mpi_op_done(
	struct tauti_mpi_op *op, int64_t end_ns, uint32_t correlation)
{
	op->end_ns = end_ns;
	op->correlation = correlation;
	op->done = true;
	give_lane(op);
	tauti_mpi_op_leave(op);
	if (op->in_order)
		return; /* the sweep writes it, when its number is known */
	write_op(op);
	tauti_mpi_op_free(op);
}

/* Those that wait for their numbers never get one now; what has not ended
 * by now was given up by the program. */
void tauti_mpi_ops_fini(int64_t now_ns)
{
	struct tauti_mpi_tables *t = tauti_mpi.tables;

	for (uint32_t i = 0; i < t->n_fresh; i++) {
		struct tauti_mpi_op *op = &t->ops[i];

		if (!op->comm || op->is_template)
			continue;
		if (op->in_order && op->done) {
			op->args.seq = -1;
			write_op(op);
		} else if (op->in_table && op->what == TAUTI_MPI_SEND) {
			op->end_ns = now_ns;
			write_op(op);
		}
	}
}

/* --- counters ------------------------------------------------------------------------ */

uint32_t *tauti_mpi_pair(
	uint32_t uid, int32_t peer, int32_t tag, uint32_t direction)
{
	struct tauti_mpi_tables *t = tauti_mpi.tables;
	uint64_t hash = tauti_hash_mix(
		((uint64_t)uid << 32 | (uint32_t)peer) ^ TAUTI_HASH_A,
		((uint64_t)direction << 32 | (uint32_t)tag) ^ TAUTI_HASH_B);

	for (uint64_t i = hash;; i++) {
		struct tauti_mpi_pair *p = &t->pairs[i % TAUTI_MPI_PAIRS];

		if (p->uid == uid && p->peer == peer && p->tag == tag &&
			p->direction == direction)
			return &p->count;
		if (p->uid)
			continue;
		if (t->n_pairs >= TAUTI_MPI_PAIRS / 4 * 3)
			return NULL;
		t->n_pairs++;
		*p = (struct tauti_mpi_pair){ uid, peer, tag, direction, 0 };
		return &p->count;
	}
}
