/* by_size_measure.c - which messages are quicker by which engine, between ranks of different
 * hosts. By plain Ethernet short ones are quicker by connections of our own, by RDMA none
 * is, and what else there is between hosts nobody can list. So it is measured, with what
 * collectives do all the time: both ranks of a pair send and receive at once.
 *
 *     pairs     the first ranks of two hosts, the third and fourth host, ..
 *     rounds    some exchanges by small one after another, so that it does not matter who
 *               begins, and as many by large; the best of several rounds counts, since what
 *               else the host does only adds
 *     word      the lower rank of a pair goes on, takes the next size, or ends; its
 *               message says so in its first byte
 *     all       hear what each pair found, and take the median, the lower one of two
 *
 * The first size is that of the shortest messages: where small does not win it, that is all
 * that is measured. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "coll/engines/outcome.h"

enum {
	EXCHANGES = 4, /* in succession, by one engine */
	ROUNDS = 12, LEAST_ROUNDS = 3,
	PATIENCE = 3,  /* so many times as many where small may win on a host that is busy: */
	NEARLY = 4,    /* it takes so many times as long at most */
	MARGIN = 32, /* small must be quicker by one in so many: else nothing is lost */
	LOOKS = 64,
};
static const size_t sizes[] = { 64, 4096, 16384, 32768 };
enum { SIZES = sizeof sizes / sizeof *sizes, MOST = 32768 };
static const int64_t size_ns = 5000000;  /* of one size; then LEAST_ROUNDS are enough */
static const int64_t spin_ns = 100000;   /* as a communicator looks for news */
static const int64_t look_ns = 20000000; /* at the meeting, again */
/* No call's, and not what UCX greets by. */
static const uint64_t first_tag = ((uint64_t)1 << TAUT_COLL_TAG_BITS) - 4;

enum word { GO_ON, NEXT_SIZE, END };

struct hail { /* one way */
	struct taut_coll_request request; /* first */
	bool over;
	taut_status status;
};

struct measuring {
	struct tauti_meet *meet;
	struct tauti_engine engines[2]; /* small, large */
	uint32_t peer;
	bool leads, spins;
	uint64_t n; /* exchanges, of which two that follow have different tags */
	int64_t until_ns;
	uint8_t *out, *in; /* MOST bytes */
	struct hail said, heard;
	struct tauti_fault fault;
};

/* --- one exchange ---------------------------------------------------------------------*/

static void note_over(struct taut_coll_request *request, taut_status status)
{
	struct hail *hail = (struct hail *)request;

	hail->over = true;
	hail->status = status;
}

static void give_up(struct measuring *m, enum tauti_reason reason, taut_status status)
{
	if (m->fault.why.code)
		return;
	m->fault.why.code = status;
	m->fault.reason = reason;
	m->fault.peer = m->peer;
}

/* Sleeps, and sees what the meeting says. */
static void doze(struct measuring *m, struct tauti_engine one)
{
	enum tauti_meet_word word = tauti_meet_hear(m->meet);
	taut_status status;

	if (word == TAUTI_MEET_ENDS)
		give_up(m, TAUTI_UNSAID, TAUT_EIO);
	else if (word == TAUTI_MEET_SUMMONS)
		give_up(m, TAUTI_SUMMONED, TAUT_EIO);
	else if (tauti_now_ns() > m->until_ns)
		give_up(m, TAUTI_LATE, TAUT_EIO);
	if (m->fault.why.code)
		return;
	status = one.table->wait(one.context, look_ns, &m->fault.why);
	if (status)
		give_up(m, TAUTI_BROKEN, status);
}

/* As a rank waits for a collective. */
static void until_over(struct measuring *m, struct tauti_engine one)
{
	int64_t began_ns = tauti_now_ns();
	taut_status status;

	for (uint32_t looks = 1; !m->fault.why.code; looks++) {
		status = one.table->progress(one.context, &m->fault.why);
		if (status)
			give_up(m, TAUTI_BROKEN, status);
		if (m->said.over && m->heard.over)
			break;
		if (m->spins && looks % LOOKS)
			continue;
		if (!m->spins || tauti_now_ns() - began_ns > spin_ns)
			doze(m, one);
		else
			sched_yield();
	}
	if (!m->fault.why.code && (m->said.status || m->heard.status))
		give_up(m, TAUTI_BROKEN, TAUT_EIO);
}

static void exchange(struct measuring *m, struct tauti_engine one, size_t bytes)
{
	uint64_t tag = first_tag + m->n++ % 2;
	taut_status status;

	m->said = m->heard = (struct hail){ .request.done = note_over };
	status = one.table->recv(one.context, m->peer, tag, m->in, bytes,
		&m->heard.request, &m->fault.why);
	if (status) {
		give_up(m, TAUTI_BROKEN, status);
		return;
	}
	status = one.table->send(one.context, &m->peer, 1, tag, m->out, bytes,
		&m->said.request, &m->fault.why);
	if (status)
		give_up(m, TAUTI_BROKEN, status);
	else
		until_over(m, one);
}

/* Returns what it took. */
static int64_t exchange_some(struct measuring *m, struct tauti_engine one, size_t bytes)
{
	int64_t began_ns = tauti_now_ns();

	for (int i = 0; i < EXCHANGES && !m->fault.why.code; i++)
		exchange(m, one, bytes);
	return tauti_now_ns() - began_ns;
}

/* --- sizes ----------------------------------------------------------------------------*/

static bool wins(const int64_t best_ns[2])
{
	return best_ns[0] < best_ns[1] - best_ns[1] / MARGIN;
}

static bool nearly_wins(const int64_t best_ns[2])
{
	return best_ns[0] / NEARLY < best_ns[1];
}

static enum word choose_word(uint32_t round, int64_t began_ns, size_t size,
	const int64_t best_ns[2])
{
	int64_t took_ns = tauti_now_ns() - began_ns;

	if (round < LEAST_ROUNDS || (round < ROUNDS && took_ns < size_ns))
		return GO_ON;
	if (wins(best_ns))
		return size + 1 < SIZES ? NEXT_SIZE : END;
	return nearly_wins(best_ns) && round < PATIENCE * ROUNDS &&
		took_ns < PATIENCE * size_ns ? GO_ON : END;
}

/* True: another size follows. *most: the longest that was quicker by small. */
static bool measure_size(struct measuring *m, size_t size, size_t *most)
{
	int64_t best_ns[2] = { INT64_MAX, INT64_MAX }, began_ns = tauti_now_ns();
	enum word word = GO_ON;

	for (uint32_t round = 0; word == GO_ON && !m->fault.why.code; round++) {
		if (m->leads)
			m->out[0] = (uint8_t)choose_word(round, began_ns, size, best_ns);
		for (int i = 0; i < 2 && !m->fault.why.code; i++) {
			int64_t took_ns = exchange_some(m, m->engines[i], sizes[size]);

			if (took_ns < best_ns[i])
				best_ns[i] = took_ns;
		}
		word = (enum word)(m->leads ? m->out[0] : m->in[0]);
	}
	if (wins(best_ns))
		*most = sizes[size];
	return word == NEXT_SIZE && size + 1 < SIZES && !m->fault.why.code;
}

static size_t measure(struct measuring *m)
{
	size_t most = 0, size = 0;

	while (measure_size(m, size, &most))
		size++;
	return most;
}

/* --- all ranks ------------------------------------------------------------------------*/

/* With whom this rank measures; TAUT_NONE: it does not. */
static uint32_t partner_of(uint32_t rank, uint32_t n_ranks, const uint32_t *host_of)
{
	uint32_t n_firsts = 0, before = TAUT_NONE;

	for (uint32_t i = 0; i < n_ranks; i++) {
		uint32_t k = 0;

		while (host_of[k] != host_of[i])
			k++;
		if (k < i)
			continue; /* not the first of its host */
		if (n_firsts++ % 2 == 0) {
			before = i;
			continue;
		}
		if (i == rank || before == rank)
			return i == rank ? before : i;
	}
	return TAUT_NONE;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static const uint64_t unasked = UINT64_MAX;

/* Only the lower rank of each pair has a say, so that no pair has two. */
static taut_status hear_all(struct tauti_meet *meet, uint32_t n_ranks, uint64_t mine,
	size_t *ret_most, struct taut_error *reterr)
{
	uint64_t *all = calloc(n_ranks, sizeof *all);
	uint32_t n = 0;
	taut_status status;

	if (!all)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	status = tauti_meet_gather(meet, &mine, sizeof mine, all, reterr);
	if (!status) {
		qsort(all, n_ranks, sizeof *all, by_value);
		while (n < n_ranks && all[n] <= MOST)
			n++;
		*ret_most = n ? (size_t)all[(n - 1) / 2] : 0;
	}
	free(all);
	return status;
}

/* They may have some of what is measured with until then. */
static void drop(struct tauti_engine *engine)
{
	engine->table->destroy(engine->context);
	engine->table = NULL;
}

taut_status tauti_by_size_measure(struct tauti_meet *meet, uint32_t rank,
	uint32_t n_ranks, const uint32_t *host_of, bool spins, struct tauti_engine *small,
	struct tauti_engine *large, size_t *ret_most_bytes, struct taut_error *reterr)
{
	struct measuring m = { .meet = meet, .engines = { *small, *large },
		.peer = partner_of(rank, n_ranks, host_of), .spins = spins,
		.until_ns = tauti_now_ns() + tauti_meet_within_ns(meet) / 4 * 3,
		.out = calloc(1, MOST), .in = calloc(1, MOST),
		.fault = { .peer = TAUT_NONE } };
	uint64_t mine = unasked;
	taut_status status;

	m.leads = m.peer != TAUT_NONE && rank < m.peer;
	if (!m.out || !m.in)
		give_up(&m, TAUTI_UNSAID, TAUT_ENOMEM);
	else if (m.peer != TAUT_NONE)
		mine = measure(&m);
	if (m.fault.why.code && m.fault.reason > TAUTI_LATE)
		tauti_meet_summon(meet);
	status = tauti_conclude(
		meet, "messages between hosts", rank, n_ranks, &m.fault, reterr);
	if (!status)
		status = hear_all(meet, n_ranks, m.leads ? mine : unasked,
			ret_most_bytes, reterr);
	if (status) {
		drop(large);
		drop(small);
	}
	free(m.out);
	free(m.in);
	return status;
}
