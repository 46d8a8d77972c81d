/* by_size_measure.c - which messages are quicker by which engine, between ranks of different
 * hosts. By plain Ethernet all are quicker by connections of our own, by RDMA none
 * is, and what else there is between hosts nobody can list. So it is measured, with what
 * collectives do all the time: both ranks of a pair send and receive at once.
 *
 *     pairs     the first ranks of two hosts, the third and fourth host, ..
 *     rounds    some exchanges by small one after another, so that it does not matter who
 *               begins, and as many by large; the median of several rounds counts: the best
 *               one may be one to which the other side came late, when all was there
 *     word      the lower rank of a pair goes on, takes the next size, or ends; its
 *               message says so in its first byte
 *     all       hear what each pair found, and take the median, the lower one of two
 *
 * From the shortest on, until small is slower: by RDMA that is at once. As good is good
 * enough, for over a link that is the limit both take as long, and small needs less of the
 * core, since it reads what comes to its place. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "coll/engines/outcome.h"

enum {
	EXCHANGES = 4, FEW_EXCHANGES = 2, /* in succession, by one engine */
	ROUNDS = 12, LEAST_ROUNDS = 3,
	PATIENCE = 3, /* so many times as many where small may do on a host that is busy */
	MOST_ROUNDS = PATIENCE * ROUNDS,
	/* eighths of what large takes, by what rounds differ: */
	AS_GOOD = 9, MAY_DO = 32,
	LOOKS = 64,
};
static const size_t sizes[] = { 64, 4096, 16384, 32768, 262144 };
enum { SIZES = sizeof sizes / sizeof *sizes, MOST = 262144, LONG = 65536 };
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
	int n = bytes < LONG ? EXCHANGES : FEW_EXCHANGES;

	for (int i = 0; i < n && !m->fault.why.code; i++)
		exchange(m, one, bytes);
	return tauti_now_ns() - began_ns;
}

/* --- sizes ----------------------------------------------------------------------------*/

struct rounds { /* of a size, as who leads saw them */
	uint32_t n;
	int64_t took_ns[2][MOST_ROUNDS]; /* by each, in ascending order */
};

static void put(int64_t *sorted, uint32_t n, int64_t value)
{
	for (; n && sorted[n - 1] > value; n--)
		sorted[n] = sorted[n - 1];
	sorted[n] = value;
}

static void note(struct rounds *rounds, const int64_t took_ns[2])
{
	for (int i = 0; i < 2; i++)
		put(rounds->took_ns[i], rounds->n, took_ns[i]);
	rounds->n++;
}

/* The median of small is at most so many eighths of that of large. */
static bool is_within(const struct rounds *rounds, int64_t eighths)
{
	uint32_t middle = rounds->n / 2;

	return rounds->took_ns[0][middle] <= rounds->took_ns[1][middle] / 8 * eighths;
}

static enum word choose_word(const struct rounds *rounds, int64_t began_ns, size_t size)
{
	int64_t took_ns = tauti_now_ns() - began_ns;
	uint32_t n = rounds->n;

	if (n < LEAST_ROUNDS || (n < ROUNDS && took_ns < size_ns))
		return GO_ON;
	if (is_within(rounds, AS_GOOD))
		return size + 1 < SIZES ? NEXT_SIZE : END;
	return is_within(rounds, MAY_DO) && n < MOST_ROUNDS - 1 &&
		took_ns < PATIENCE * size_ns ? GO_ON : END;
}

/* True: another size follows. *most, of who leads: the longest that goes by small. */
static bool measure_size(struct measuring *m, size_t size, size_t *most)
{
	struct rounds rounds = { .n = 0 };
	int64_t began_ns = tauti_now_ns();
	enum word word = GO_ON;

	while (word == GO_ON && !m->fault.why.code) {
		int64_t took_ns[2];

		if (m->leads)
			m->out[0] = (uint8_t)choose_word(&rounds, began_ns, size);
		for (int i = 0; i < 2; i++)
			took_ns[i] = exchange_some(m, m->engines[i], sizes[size]);
		if (m->leads)
			note(&rounds, took_ns);
		word = (enum word)(m->leads ? m->out[0] : m->in[0]);
	}
	if (m->fault.why.code)
		return false;
	if (m->leads && is_within(&rounds, AS_GOOD))
		*most = sizes[size];
	return word == NEXT_SIZE && size + 1 < SIZES;
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
		if (*ret_most == MOST)
			*ret_most = SIZE_MAX;
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
		meet, "messages between hosts", rank, n_ranks, &m.fault, NULL, reterr);
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
