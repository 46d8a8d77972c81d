/* Each law against the algorithm itself: every message of it is sent, between
 * ranks that hold masks of whose input is in a part of their data. What passed
 * the busiest port is counted, how long the longest chain of messages is, and
 * that everybody ends with what is promised. Laws by formula are also held against
 * the schedules that communicators carry out. */
#include "tests/support/unit.h"

#include <math.h>
#include <string.h>

#include <taut/cost.h>
#include <taut/play.h>

#include "tests/support/alloc_fail.h"

enum { MOST = 17, NODES = 2 * MOST, PARTS = 2 * MOST * MOST };

struct sim {
	uint32_t p, h, parts;    /* ranks; hosts; parts that S is cut into */
	uint32_t host[NODES];    /* of ranks, then of servers */
	uint64_t has[NODES][PARTS]; /* whose input is in a part */
	uint32_t depth[NODES][PARTS]; /* messages, one after another, to it */
	uint32_t out[NODES], in[NODES];          /* of hosts, in this phase */
	uint32_t local_out[NODES], local_in[NODES];
	uint32_t added[NODES];
	uint32_t network, local, longest; /* busiest of each phase, added up */
};

static void spread(uint32_t *host, uint32_t n, uint32_t h)
{
	for (uint32_t i = 0, at = 0; i < h; i++)
		for (uint32_t k = 0; k < n / h + (i < n % h); k++)
			host[at++] = i;
}

static struct sim *begin(uint32_t p, uint32_t h, uint32_t parts)
{
	static struct sim sim; /* too large for a stack */

	assert_true(parts <= PARTS);
	memset(&sim, 0, sizeof sim);
	sim.p = p;
	sim.h = h;
	sim.parts = parts;
	spread(sim.host, p, h);
	for (uint32_t r = 0; r < p; r++)
		for (uint32_t i = 0; i < parts; i++)
			sim.has[r][i] = (uint64_t)1 << r;
	return &sim;
}

static uint32_t most(const uint32_t *v, uint32_t n)
{
	uint32_t m = 0;

	for (uint32_t i = 0; i < n; i++)
		m = v[i] > m ? v[i] : m;
	return m;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* What follows begins when all of this is over. */
static void end_phase(struct sim *s)
{
	s->network += larger(most(s->out, NODES), most(s->in, NODES));
	s->local += larger(most(s->local_out, NODES),
		most(s->local_in, NODES));
	memset(s->out, 0, sizeof s->out);
	memset(s->in, 0, sizeof s->in);
	memset(s->local_out, 0, sizeof s->local_out);
	memset(s->local_in, 0, sizeof s->local_in);
}

static void carry(struct sim *s, uint32_t from, uint32_t to, uint32_t part,
	int adds)
{
	uint32_t depth = s->depth[from][part] + 1;

	if (s->host[from] != s->host[to]) {
		s->out[s->host[from]]++;
		s->in[s->host[to]]++;
	} else {
		s->local_out[from]++;
		s->local_in[to]++;
	}
	if (adds && s->has[to][part]) {
		/* nobody's input may be added twice */
		assert_true(!(s->has[to][part] & s->has[from][part]));
		s->added[to]++;
		s->has[to][part] |= s->has[from][part];
	} else {
		s->has[to][part] = s->has[from][part];
	}
	s->depth[to][part] = larger(s->depth[to][part], depth);
	s->longest = larger(s->longest, s->depth[to][part]);
}

static void carry_range(struct sim *s, uint32_t from, uint32_t to,
	uint32_t first, uint32_t n, int adds)
{
	for (uint32_t i = first; i < first + n; i++)
		carry(s, from, to, i, adds);
}

/* --- what the algorithms are made of -------------------------------------------------*/

struct ring { /* ranks first, first + step ...; n blocks from part `at` */
	uint32_t n, first, step, at, block;
};

static uint32_t on_ring(const struct ring *r, uint32_t i)
{
	return r->first + i % r->n * r->step;
}

static void ring_reduce_scatter(struct sim *s, const struct ring *r)
{
	for (uint32_t k = 0; k + 1 < r->n; k++)
		for (uint32_t i = 0; i < r->n; i++)
			carry_range(s, on_ring(r, i), on_ring(r, i + 1),
				r->at + (i + r->n - k) % r->n * r->block,
				r->block, 1);
}

/* After it, member i has block i + 1; from there. */
static void ring_all_gather(struct sim *s, const struct ring *r)
{
	for (uint32_t k = 0; k + 1 < r->n; k++)
		for (uint32_t i = 0; i < r->n; i++)
			carry_range(s, on_ring(r, i), on_ring(r, i + 1),
				r->at + (i + 1 + r->n - k) % r->n * r->block,
				r->block, 0);
}

/* A binary tree of n, 0 on top with one child: the parent of i has the next
 * higher bit instead of its lowest; or, where there is no such, none. */
static uint32_t parent(uint32_t i, uint32_t n)
{
	uint32_t bit = i & -i, up = (i ^ bit) | (bit << 1);

	return up < n ? up : i ^ bit;
}

/* Who plays part i of the second tree. */
static uint32_t player(uint32_t i, uint32_t n)
{
	if (!i)
		return 0;
	if (n % 2)
		return n - i;
	return (i + n - 3) % (n - 1) + 1;
}

static void tree_edge(struct sim *s, uint32_t i, int second, int up)
{
	uint32_t n = s->p, from = i, to = parent(i, n), half = s->parts / 2;

	if (second) {
		from = player(from, n);
		to = player(to, n);
	}
	if (up)
		carry_range(s, from, to, second ? half : 0, half, 1);
	else
		carry_range(s, to, from, second ? half : 0, half, 0);
}

static uint32_t height(uint32_t i, uint32_t n)
{
	uint32_t l = 0;

	for (; i; i = parent(i, n))
		l++;
	return l;
}

static void trees(struct sim *s, int up)
{
	for (int second = 0; second < 2; second++)
		for (uint32_t k = 0; k <= s->p; k++)
			for (uint32_t i = 1; i < s->p; i++)
				if (height(i, s->p) == (up ? s->p - k : k))
					tree_edge(s, i, second, up);
}

/* --- the checks ------------------------------------------------------------------------*/

static uint64_t everybody(const struct sim *s)
{
	return ((uint64_t)1 << s->p) - 1;
}

static void check_all_have_all(const struct sim *s)
{
	for (uint32_t r = 0; r < s->p; r++)
		for (uint32_t i = 0; i < s->parts; i++)
			assert_true(s->has[r][i] == everybody(s));
}

static struct taut_law law_of(const struct taut_law_in *in)
{
	struct taut_law_in with = *in;
	struct taut_law counted;
	struct taut_error err;

	if (taut_law_count(in, &counted, &err))
		fail_msg("%s", err.message);
	with.counted = &counted;
	return taut_law(&with);
}

static void check_law(const struct sim *s, enum taut_coll_kind kind,
	enum taut_algorithm algorithm, uint32_t servers)
{
	struct taut_law_in in = { kind, algorithm, s->p, s->h, servers,
		s->parts, NULL };
	struct taut_law law = law_of(&in);
	uint32_t added = most(s->added, NODES);

	if (fabs(law.network_bytes - s->network) > 1e-9 ||
		fabs(law.local_bytes - s->local) > 1e-9 ||
		law.messages != s->longest ||
		fabs(law.reduced_bytes - added) > 1e-9)
		fail_msg("%s %s of %u ranks on %u hosts, %u servers: "
			"law %g %g %g %g, counted %u %u %u %u of %u",
			taut_algorithm_name(algorithm),
			taut_coll_kind_name(kind), s->p, s->h, servers,
			law.network_bytes, law.local_bytes, law.messages,
			law.reduced_bytes, s->network, s->local, s->longest,
			added, s->parts);
}

#define FOR_ALL_SIZES(p, h) \
	for (uint32_t p = 2; p <= MOST; p++) \
		for (uint32_t h = 1; h <= p; h++)

static void test_ring(void **state)
{
	(void)state;
	FOR_ALL_SIZES (p, h) {
		struct ring all = { p, 0, 1, 0, 1 };
		struct sim *s = begin(p, h, p);
		ring_reduce_scatter(s, &all);
		end_phase(s);
		for (uint32_t r = 0; r < p; r++)
			assert_true(s->has[r][(r + 1) % p] == everybody(s));
		check_law(s, TAUT_COLL_REDUCESCATTER, TAUT_ALGO_RING, 0);
		s->network = s->local = 0;
		memset(s->depth, 0, sizeof s->depth);
		memset(s->added, 0, sizeof s->added);
		s->longest = 0;
		ring_all_gather(s, &all);
		end_phase(s);
		check_all_have_all(s);
		check_law(s, TAUT_COLL_ALLGATHER, TAUT_ALGO_RING, 0);
		s = begin(p, h, p);
		ring_reduce_scatter(s, &all);
		ring_all_gather(s, &all);
		end_phase(s);
		check_all_have_all(s);
		check_law(s, TAUT_COLL_ALLREDUCE, TAUT_ALGO_RING, 0);
		check_law(s, TAUT_COLL_ALLREDUCE, TAUT_ALGO_AS_RECORDED, 0);
	}
}

static void test_chain(void **state)
{
	(void)state;
	FOR_ALL_SIZES (p, h) {
		struct sim *s = begin(p, h, 4);
		for (uint32_t r = 0; r + 1 < p; r++)
			carry_range(s, r, r + 1, 0, 4, 0);
		end_phase(s);
		assert_true(s->has[p - 1][3] == 1);
		check_law(s, TAUT_COLL_BROADCAST, TAUT_ALGO_RING, 0);
		s = begin(p, h, 4);
		for (uint32_t r = 0; r + 1 < p; r++)
			carry_range(s, r, r + 1, 0, 4, 1);
		end_phase(s);
		assert_true(s->has[p - 1][3] == everybody(s));
		check_law(s, TAUT_COLL_REDUCE, TAUT_ALGO_RING, 0);
	}
}

/* Part r * p + q of rank r is for rank q. */
static void test_all_to_all(void **state)
{
	(void)state;
	FOR_ALL_SIZES (p, h) {
		struct sim *s = begin(p, h, p);
		for (uint32_t k = 1; k < p; k++)
			for (uint32_t r = 0; r < p; r++)
				carry(s, r, (r + k) % p, (r + k) % p, 0);
		end_phase(s);
		s->longest = p - 1; /* a rank sends one after another */
		check_law(s, TAUT_COLL_ALLTOALL, TAUT_ALGO_RING, 0);
	}
}

static void test_send(void **state)
{
	(void)state;
	for (uint32_t h = 1; h <= 2; h++) {
		struct sim *s = begin(2, h, 5);
		carry_range(s, 0, 1, 0, 5, 0);
		end_phase(s);
		check_law(s, TAUT_COLL_SENDRECV, TAUT_ALGO_RING, 0);
	}
}

/* Which trees they are is no matter, where each rank is a host of its own. */
static void test_tree(void **state)
{
	(void)state;
	for (uint32_t p = 2; p <= MOST; p++) {
		struct sim *s = begin(p, p, 2);
		trees(s, 1);
		trees(s, 0);
		end_phase(s);
		check_all_have_all(s);
		check_law(s, TAUT_COLL_ALLREDUCE, TAUT_ALGO_TREE, 0);
		s = begin(p, p, 2);
		trees(s, 0);
		end_phase(s);
		for (uint32_t r = 0; r < p; r++)
			assert_true(s->has[r][0] == 1 && s->has[r][1] == 1);
		check_law(s, TAUT_COLL_BROADCAST, TAUT_ALGO_TREE, 0);
	}
}

/* --- halving and doubling: rank i keeps the parts whose low bits, reversed, are
 * its own; so part numbers of what is exchanged at mask are a range. */

/* The range of parts that rank i is left with before round `mask`. */
static uint32_t range_at(uint32_t i, uint32_t mask, uint32_t parts)
{
	uint32_t first = 0, n = parts;

	for (uint32_t m = 1; m < mask; m *= 2) {
		n /= 2;
		first += i & m ? n : 0;
	}
	return first;
}

/* Of ranks first, first + step, ... */
static void halve(struct sim *s, uint32_t q, uint32_t first, uint32_t step,
	uint32_t at, uint32_t parts)
{
	for (uint32_t mask = 1; mask < q; mask *= 2)
		for (uint32_t i = 0; i < q; i++) {
			uint32_t other = i ^ mask;
			carry_range(s, first + i * step, first + other * step,
				at + range_at(other, 2 * mask, parts),
				parts / mask / 2, 1);
		}
}

static void twice(struct sim *s, uint32_t q, uint32_t first, uint32_t step,
	uint32_t at, uint32_t parts)
{
	for (uint32_t mask = q / 2; mask; mask /= 2)
		for (uint32_t i = 0; i < q; i++)
			carry_range(s, first + i * step,
				first + (i ^ mask) * step,
				at + range_at(i, 2 * mask, parts),
				parts / mask / 2, 0);
}

/* Ranks from q on hand theirs to others, or get it back. */
static void fold(struct sim *s, uint32_t q, int in)
{
	for (uint32_t i = 0; i < s->p - q; i++)
		carry_range(s, in ? q + i : i, in ? i : q + i, 0, s->parts,
			in);
}

static uint32_t power_below(uint32_t p)
{
	uint32_t q = 1;

	while (2 * q <= p)
		q *= 2;
	return q;
}

static void test_halving_doubling(void **state)
{
	(void)state;
	FOR_ALL_SIZES (p, h) {
		uint32_t q = power_below(p);
		struct sim *s = begin(p, h, q);
		fold(s, q, 1);
		halve(s, q, 0, 1, 0, q);
		twice(s, q, 0, 1, 0, q);
		fold(s, q, 0);
		end_phase(s);
		check_all_have_all(s);
		check_law(s, TAUT_COLL_ALLREDUCE, TAUT_ALGO_HALVING_DOUBLING,
			0);
		if (p != q)
			continue;
		s = begin(p, h, q);
		halve(s, q, 0, 1, 0, q);
		end_phase(s);
		for (uint32_t r = 0; r < p; r++)
			assert_true(s->has[r][range_at(r, q, q)] ==
				everybody(s));
		check_law(s, TAUT_COLL_REDUCESCATTER,
			TAUT_ALGO_HALVING_DOUBLING, 0);
		s->network = s->local = s->longest = 0;
		memset(s->depth, 0, sizeof s->depth);
		memset(s->added, 0, sizeof s->added);
		twice(s, q, 0, 1, 0, q);
		end_phase(s);
		check_all_have_all(s);
		check_law(s, TAUT_COLL_ALLGATHER, TAUT_ALGO_HALVING_DOUBLING,
			0);
	}
}

/* All of it, in every round. */
static void test_doubling(void **state)
{
	(void)state;
	FOR_ALL_SIZES (p, h) {
		static uint64_t had[NODES][PARTS];
		uint32_t q = power_below(p);
		struct sim *s = begin(p, h, 1);
		fold(s, q, 1);
		for (uint32_t mask = 1; mask < q; mask *= 2) {
			static uint32_t depth[NODES][PARTS];
			memcpy(had, s->has, sizeof had);
			memcpy(depth, s->depth, sizeof depth);
			for (uint32_t i = 0; i < q; i++) {
				uint64_t told = s->has[i][0];
				uint32_t row = s->depth[i][0];
				s->has[i][0] = had[i][0];
				s->depth[i][0] = depth[i][0];
				carry(s, i, i ^ mask, 0, 1);
				if (i & mask)
					s->has[i][0] = told;
				s->depth[i][0] = larger(row, depth[i][0]);
			}
		}
		fold(s, q, 0);
		end_phase(s);
		check_all_have_all(s);
		check_law(s, TAUT_COLL_ALLREDUCE, TAUT_ALGO_DOUBLING, 0);
	}
}

/* --- by hosts: as many blocks as the smallest host has ranks, which sum one each */

static uint32_t first_on_host(const struct sim *s, uint32_t host)
{
	uint32_t r = 0;

	while (s->host[r] != host)
		r++;
	return r;
}

static void in_hosts(struct sim *s, uint32_t blocks, int toward)
{
	uint32_t each = s->parts / blocks;

	for (uint32_t r = 0; r < s->p; r++)
		for (uint32_t i = 0; i < blocks; i++) {
			uint32_t with = first_on_host(s, s->host[r]) + i;
			if (with != r)
				carry_range(s, toward ? r : with,
					toward ? with : r, i * each, each,
					toward);
		}
}

static void over_hosts(struct sim *s, uint32_t i, uint32_t blocks)
{
	uint32_t h = s->h, each = s->parts / blocks, to[NODES];

	for (uint32_t k = 0; k < h; k++)
		to[k] = first_on_host(s, k) + i;
	for (uint32_t mask = 1; power_below(h) == h && mask < h; mask *= 2)
		for (uint32_t k = 0; k < h; k++)
			carry_range(s, to[k], to[k ^ mask], i * each +
				range_at(k ^ mask, 2 * mask, each),
				each / mask / 2, 1);
	for (uint32_t mask = h / 2; power_below(h) == h && mask; mask /= 2)
		for (uint32_t k = 0; k < h; k++)
			carry_range(s, to[k], to[k ^ mask], i * each +
				range_at(k, 2 * mask, each),
				each / mask / 2, 0);
	for (uint32_t n = 0; power_below(h) != h && n < 2 * h - 2; n++)
		for (uint32_t k = 0; k < h; k++)
			carry(s, to[k], to[(k + 1) % h],
				i * each + (k + 2 * h - n) % h, n < h - 1);
}

static void test_hierarchical(void **state)
{
	(void)state;
	FOR_ALL_SIZES (p, h) {
		uint32_t blocks = p / h;
		struct sim *s = begin(p, h, blocks * h);
		in_hosts(s, blocks, 1);
		for (uint32_t i = 0; i < blocks; i++)
			over_hosts(s, i, blocks);
		in_hosts(s, blocks, 0);
		end_phase(s);
		check_all_have_all(s);
		check_law(s, TAUT_COLL_ALLREDUCE, TAUT_ALGO_HIERARCHICAL, 0);
	}
}

static void test_blueconnect(void **state)
{
	(void)state;
	FOR_ALL_SIZES (p, h) {
		uint32_t m = p / h;
		if (p % h)
			continue;
		struct sim *s = begin(p, h, p);
		for (uint32_t i = 0; i < h; i++)
			ring_reduce_scatter(s, &(struct ring){ m, i * m, 1,
				0, h });
		end_phase(s);
		for (uint32_t i = 0; i < m; i++) {
			struct ring over = { h, i, m, (i + 1) % m * h, 1 };
			ring_reduce_scatter(s, &over);
			ring_all_gather(s, &over);
		}
		end_phase(s);
		for (uint32_t i = 0; i < h; i++)
			ring_all_gather(s, &(struct ring){ m, i * m, 1, 0,
				h });
		end_phase(s);
		check_all_have_all(s);
		check_law(s, TAUT_COLL_ALLREDUCE, TAUT_ALGO_BLUECONNECT, 0);
	}
}

static void push_and_pull(struct sim *s, uint32_t n, int pushes, int pulls)
{
	spread(&s->host[s->p], n, s->h);
	for (uint32_t r = 0; pushes && r < s->p; r++)
		for (uint32_t i = 0; i < s->parts; i++)
			carry(s, r, s->p + i % n, i, 1);
	for (uint32_t r = 0; pulls && r < s->p; r++)
		for (uint32_t i = 0; i < s->parts; i++)
			carry(s, s->p + i % n, r, i, 0);
	end_phase(s);
}

static void test_servers(void **state)
{
	(void)state;
	FOR_ALL_SIZES (p, h)
		for (uint32_t n = 1; n <= 7; n++) {
			struct sim *s = begin(p, h, n);
			push_and_pull(s, n, 1, 1);
			check_all_have_all(s);
			check_law(s, TAUT_COLL_ALLREDUCE, TAUT_ALGO_SERVER, n);
			check_law(s, TAUT_COLL_PUSHPULL, TAUT_ALGO_RING, n);
			s = begin(p, h, n);
			push_and_pull(s, n, 1, 0);
			check_law(s, TAUT_COLL_PUSH, TAUT_ALGO_RING, n);
			s = begin(p, h, n);
			push_and_pull(s, n, 0, 1);
			check_law(s, TAUT_COLL_PULL, TAUT_ALGO_RING, n);
		}
}

/* --- formulas and schedules -----------------------------------------------------------*/

static void check_schedule(enum taut_algorithm algorithm,
	enum taut_coll_kind kind, enum taut_coll_way way,
	enum taut_coll_verb verb, uint32_t p, uint32_t h)
{
	uint32_t host_of[MOST];
	struct taut_play_net net = { .n_ranks = p, .n_hosts = h,
		.host_of = host_of };
	struct taut_play_call call = { .verb = verb, .way = way,
		.count = 840 * p * h * (p / h) };
	struct taut_law_in in = { kind, algorithm, p, h, 0,
		(double)call.count, NULL };
	struct taut_law law = taut_law(&in);
	struct taut_play_result r;
	struct taut_error err;

	spread(host_of, p, h);
	if (taut_play_count(&net, &call, &r, &err))
		fail_msg("%s", err.message);
	if (fabs(law.network_bytes - (double)r.network_bytes) > 1e-6 ||
		fabs(law.local_bytes - (double)r.local_bytes) > 1e-6 ||
		fabs(law.reduced_bytes - (double)r.reduced_bytes) > 1e-6 ||
		law.messages != r.in_succession)
		fail_msg("%s %s of %u ranks on %u hosts: law %g %g %g %g, "
			"schedules %llu %llu %u %llu",
			taut_algorithm_name(algorithm),
			taut_coll_kind_name(kind), p, h, law.network_bytes,
			law.local_bytes, law.messages, law.reduced_bytes,
			(unsigned long long)r.network_bytes,
			(unsigned long long)r.local_bytes, r.in_succession,
			(unsigned long long)r.reduced_bytes);
}

static void test_formulas_are_those_of_schedules(void **state)
{
	(void)state;
	static const struct {
		enum taut_algorithm algorithm;
		enum taut_coll_way way;
	} with[] = { { TAUT_ALGO_RING, TAUT_WAY_RING },
		{ TAUT_ALGO_DIRECT, TAUT_WAY_DIRECT },
		{ TAUT_ALGO_FLAT, TAUT_WAY_FLAT } };

	FOR_ALL_SIZES (p, h) {
		if (power_below(h) != h && p % h == 0)
			check_schedule(TAUT_ALGO_HIERARCHICAL,
				TAUT_COLL_ALLREDUCE, TAUT_WAY_HOSTS,
				TAUT_ALLREDUCE, p, h);
		for (int i = 0; i < 3; i++) {
			check_schedule(with[i].algorithm, TAUT_COLL_ALLREDUCE,
				with[i].way, TAUT_ALLREDUCE, p, h);
			if (with[i].way == TAUT_WAY_FLAT)
				continue;
			check_schedule(with[i].algorithm,
				TAUT_COLL_REDUCESCATTER, with[i].way,
				TAUT_REDUCE_SCATTER, p, h);
			check_schedule(with[i].algorithm, TAUT_COLL_ALLGATHER,
				with[i].way, TAUT_ALLGATHER, p, h);
		}
	}
}

/* --- closed forms and edges ----------------------------------------------------------------*/

static struct taut_law of(enum taut_coll_kind kind,
	enum taut_algorithm algorithm, uint32_t ranks, uint32_t hosts)
{
	struct taut_law_in in = { kind, algorithm, ranks, hosts, 0, 1e6, NULL };

	return law_of(&in);
}

static void near(double got, double expected)
{
	if (fabs(got - expected) > 1e-6)
		fail_msg("%.9g, expected %.9g", got, expected);
}

static void test_closed_forms(void **state)
{
	(void)state;
	struct taut_law law = of(TAUT_COLL_ALLREDUCE, TAUT_ALGO_RING, 4, 4);
	near(law.network_bytes, 1.5e6);
	near(law.messages, 6);
	near(law.local_bytes, 0);
	law = of(TAUT_COLL_ALLREDUCE, TAUT_ALGO_RING, 4, 1);
	near(law.network_bytes, 0);
	near(law.local_bytes, 1.5e6);
	/* 1,024 ranks in hosts of 8 */
	law = of(TAUT_COLL_ALLREDUCE, TAUT_ALGO_HALVING_DOUBLING, 1024, 128);
	near(law.messages, 20);
	near(law.network_bytes, 2.0 * 127 / 128 * 1e6);
	near(law.local_bytes, 2.0 * 7 / 8 * 1e6);
	law = of(TAUT_COLL_ALLREDUCE, TAUT_ALGO_HALVING_DOUBLING, 1024, 1024);
	near(law.network_bytes, 2.0 * 1023 / 1024 * 1e6);
	/* one server a host: as many bytes as a ring, in two messages */
	law = of(TAUT_COLL_ALLREDUCE, TAUT_ALGO_SERVER, 8, 8);
	near(law.network_bytes, 2.0 * 7 / 8 * 1e6);
	near(law.messages, 2);
	/* what an algorithm has no way for goes round a ring */
	law = of(TAUT_COLL_ALLTOALL, TAUT_ALGO_BLUECONNECT, 4, 4);
	near(law.network_bytes, 0.75e6);
}

static void test_nothing_to_say(void **state)
{
	(void)state;
	for (int kind = 0; kind < TAUT_COLL_KINDS; kind++)
		for (int how = 0; how < TAUT_ALGORITHMS; how++) {
			struct taut_law_in in = { .kind = kind,
				.algorithm = how, .ranks = 0, .bytes = 9 };
			struct taut_law law = taut_law(&in);
			near(law.network_bytes + law.messages, 0);
			in.ranks = 5; /* hosts 0 and more hosts than ranks */
			assert_true(isfinite(taut_law(&in).local_bytes));
			near(taut_law(&in).network_bytes, 0);
			double apart = (in.hosts = 5,
				taut_law(&in).network_bytes);
			in.hosts = 50;
			near(taut_law(&in).network_bytes, apart);
			in.bytes = -1; /* not known */
			near(taut_law(&in).network_bytes, 0);
		}
	near(of(TAUT_COLL_BARRIER, TAUT_ALGO_RING, 4, 4).network_bytes, 0);
	near(of(TAUT_COLL_BARRIER, TAUT_ALGO_RING, 4, 4).messages, 6);
	near(of(TAUT_COLL_ALLREDUCE, TAUT_ALGO_RING, 1, 1).messages, 0);
	assert_string_equal(taut_algorithm_name(TAUT_ALGO_BLUECONNECT),
		"blueconnect");
	assert_string_equal(taut_algorithm_name((enum taut_algorithm)99),
		"as recorded");
}

static void test_too_many_ranks(void **state)
{
	(void)state;
	struct taut_law_in in = { .kind = TAUT_COLL_ALLREDUCE,
		.ranks = TAUT_COLL_RANKS + 1, .hosts = 3 };
	struct taut_law law = { .messages = -1 };
	struct taut_error err;

	in.algorithm = TAUT_ALGO_TREE;
	assert_int_equal(taut_law_count(&in, &law, &err), TAUT_EINVAL);
	near(law.messages, -1);
	in.algorithm = TAUT_ALGO_DIRECT;
	assert_int_equal(taut_law_count(&in, &law, &err), TAUT_OK);
	near(law.messages, 2);
	in.algorithm = TAUT_ALGO_TREE;
	in.ranks--;
	assert_int_equal(taut_law_count(&in, &law, &err), TAUT_OK);
	near(law.messages, 22); /* 2 lg 2048 */
}

static void test_memory_runs_out(void **state)
{
	(void)state;
	struct taut_law_in in = { .kind = TAUT_COLL_ALLREDUCE, .ranks = 4,
		.hosts = 2, .algorithm = TAUT_ALGO_HIERARCHICAL };
	struct taut_law law;
	struct taut_error err;
	taut_status status = TAUT_ENOMEM;

	for (long n = 0; status == TAUT_ENOMEM; n++) {
		alloc_fail_after(n);
		status = taut_law_count(&in, &law, &err);
		alloc_fail_never();
	}
	assert_int_equal(status, TAUT_OK);
	near(law.network_bytes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_all_to_all),
		cmocka_unit_test(test_send),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_halving_doubling),
		cmocka_unit_test(test_doubling),
		cmocka_unit_test(test_hierarchical),
		cmocka_unit_test(test_blueconnect),
		cmocka_unit_test(test_servers),
		cmocka_unit_test(test_formulas_are_those_of_schedules),
		cmocka_unit_test(test_closed_forms),
		cmocka_unit_test(test_nothing_to_say),
		cmocka_unit_test(test_too_many_ranks),
		cmocka_unit_test(test_memory_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
