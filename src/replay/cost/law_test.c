/* Each law against the algorithm itself: every message of it is sent, between
 * ranks that hold masks of whose input is in a part of their data. What passed
 * the busiest port is counted, how long the longest chain of messages is, and
 * that everybody ends with what is promised. */
#include "tests/support/unit.h"

#include <math.h>
#include <string.h>

#include <taut/cost.h>

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

static uint32_t first_on_host(const struct sim *s, uint32_t host)
{
	uint32_t r = 0;

	while (s->host[r] != host)
		r++;
	return r;
}

/* Toward the first rank of each host, or away from it. */
static void chains(struct sim *s, int toward)
{
	if (toward) {
		for (uint32_t r = s->p; r-- > 1;)
			if (s->host[r] == s->host[r - 1])
				carry_range(s, r, r - 1, 0, s->parts, 1);
	} else {
		for (uint32_t r = 1; r < s->p; r++)
			if (s->host[r] == s->host[r - 1])
				carry_range(s, r - 1, r, 0, s->parts, 0);
	}
}

/* A binary tree of n, 0 on top with one child: the parent of i has the next
 * higher bit instead of its lowest; or, where there is no such, none. */
static uint32_t parent(uint32_t i, uint32_t n)
{
	uint32_t bit = i & -i, up = (i ^ bit) | (bit << 1);

	return up < n ? up : i ^ bit;
}

/* Who plays part i of the second tree. all: 0 may be anywhere, else on top. */
static uint32_t player(uint32_t i, uint32_t n, int all)
{
	if (all)
		return n % 2 ? (i + 1) % n : n - 1 - i;
	if (!i)
		return 0;
	if (n % 2)
		return n - i;
	return (i + n - 3) % (n - 1) + 1;
}

static void tree_edge(struct sim *s, uint32_t i, int second, int all, int up)
{
	uint32_t n = s->h, from = i, to = parent(i, n), half = s->parts / 2;

	if (second) {
		from = player(from, n, all);
		to = player(to, n, all);
	}
	from = first_on_host(s, from);
	to = first_on_host(s, to);
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

static void trees(struct sim *s, int all, int up)
{
	for (int second = 0; second < 2; second++)
		for (uint32_t k = 0; k <= s->h; k++)
			for (uint32_t i = 1; i < s->h; i++)
				if (height(i, s->h) == (up ? s->h - k : k))
					tree_edge(s, i, second, all, up);
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

static void check_law(const struct sim *s, enum taut_coll_kind kind,
	enum taut_algorithm algorithm, uint32_t servers)
{
	struct taut_law_in in = { kind, algorithm, s->p, s->h, servers,
		s->parts };
	struct taut_law law = taut_law(&in);
	uint32_t added = most(s->added, NODES);

	double spare = law.messages - s->longest;
	/* hosts of different size count as full: where the algorithm tells hosts
	 * apart, the longest way may be shorter by a message at either end, and
	 * who adds up most may stand on a smaller one */
	int uneven = s->p % s->h && (algorithm == TAUT_ALGO_TREE ||
		algorithm == TAUT_ALGO_HIERARCHICAL);

	if (fabs(law.network_bytes - s->network) > 1e-9 ||
		fabs(law.local_bytes - s->local) > 1e-9 ||
		spare < 0 || spare > (uneven ? 2 : 0) ||
		law.reduced_bytes < added - 1e-9 ||
		law.reduced_bytes > added + (uneven ? s->parts : 1e-9))
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

static void test_tree(void **state)
{
	(void)state;
	FOR_ALL_SIZES (p, h) {
		struct sim *s = begin(p, h, 2);
		chains(s, 1);
		trees(s, 1, 1);
		trees(s, 1, 0);
		chains(s, 0);
		end_phase(s);
		check_all_have_all(s);
		check_law(s, TAUT_COLL_ALLREDUCE, TAUT_ALGO_TREE, 0);
		s = begin(p, h, 2);
		trees(s, 0, 0);
		chains(s, 0);
		end_phase(s);
		for (uint32_t r = 0; r < p; r++)
			assert_true(s->has[r][0] == 1 && s->has[r][1] == 1);
		check_law(s, TAUT_COLL_BROADCAST, TAUT_ALGO_TREE, 0);
		s = begin(p, h, 2);
		chains(s, 1);
		trees(s, 0, 1);
		end_phase(s);
		assert_true(s->has[0][0] == everybody(s));
		assert_true(s->has[0][1] == everybody(s));
		check_law(s, TAUT_COLL_REDUCE, TAUT_ALGO_TREE, 0);
	}
}

/* --- halving and doubling: rank i keeps the parts whose low bits, reversed, are
 * its own; so part numbers of what is exchanged at mask are a range. */
static uint32_t kept(uint32_t i, uint32_t r)
{
	return i < r ? 2 * i + 1 : i + r;
}

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

static void halve(struct sim *s, uint32_t q)
{
	for (uint32_t mask = 1; mask < q; mask *= 2) {
		for (uint32_t i = 0; i < q; i++) {
			uint32_t other = i ^ mask;
			carry_range(s, kept(i, s->p - q), kept(other, s->p - q),
				range_at(other, 2 * mask, s->parts),
				s->parts / mask / 2, 1);
		}
		end_phase(s);
	}
}

static void twice(struct sim *s, uint32_t q)
{
	for (uint32_t mask = q / 2; mask; mask /= 2) {
		for (uint32_t i = 0; i < q; i++)
			carry_range(s, kept(i, s->p - q),
				kept(i ^ mask, s->p - q),
				range_at(i, 2 * mask, s->parts),
				s->parts / mask / 2, 0);
		end_phase(s);
	}
}

static void fold(struct sim *s, uint32_t q, int in)
{
	for (uint32_t i = 0; i < s->p - q; i++)
		carry_range(s, 2 * i + !in, 2 * i + in, 0, s->parts, in);
	end_phase(s);
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
		halve(s, q);
		twice(s, q);
		fold(s, q, 0);
		check_all_have_all(s);
		check_law(s, TAUT_COLL_ALLREDUCE, TAUT_ALGO_HALVING_DOUBLING,
			0);
		if (p != q)
			continue;
		s = begin(p, h, q);
		halve(s, q);
		for (uint32_t r = 0; r < p; r++)
			assert_true(s->has[r][range_at(r, q, q)] ==
				everybody(s));
		check_law(s, TAUT_COLL_REDUCESCATTER,
			TAUT_ALGO_HALVING_DOUBLING, 0);
		s->network = s->local = s->longest = 0;
		memset(s->depth, 0, sizeof s->depth);
		memset(s->added, 0, sizeof s->added);
		twice(s, q);
		check_all_have_all(s);
		check_law(s, TAUT_COLL_ALLGATHER, TAUT_ALGO_HALVING_DOUBLING,
			0);
	}
}

static void test_hierarchical(void **state)
{
	(void)state;
	FOR_ALL_SIZES (p, h) {
		struct sim *s = begin(p, h, h);
		chains(s, 1);
		end_phase(s);
		for (uint32_t k = 0; k + 1 < h; k++)
			for (uint32_t i = 0; i < h; i++)
				carry(s, first_on_host(s, i),
					first_on_host(s, (i + 1) % h),
					(i + h - k) % h, 1);
		for (uint32_t k = 0; k + 1 < h; k++)
			for (uint32_t i = 0; i < h; i++)
				carry(s, first_on_host(s, i),
					first_on_host(s, (i + 1) % h),
					(i + 1 + h - k) % h, 0);
		end_phase(s);
		chains(s, 0);
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

/* --- closed forms and edges ----------------------------------------------------------------*/

static struct taut_law of(enum taut_coll_kind kind,
	enum taut_algorithm algorithm, uint32_t ranks, uint32_t hosts)
{
	struct taut_law_in in = { kind, algorithm, ranks, hosts, 0, 1e6 };

	return taut_law(&in);
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
	near(of(TAUT_COLL_BARRIER, TAUT_ALGO_TREE, 8, 8).messages, 6);
	near(of(TAUT_COLL_ALLREDUCE, TAUT_ALGO_RING, 1, 1).messages, 0);
	assert_string_equal(taut_algorithm_name(TAUT_ALGO_BLUECONNECT),
		"blueconnect");
	assert_string_equal(taut_algorithm_name((enum taut_algorithm)99),
		"as recorded");
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
		cmocka_unit_test(test_hierarchical),
		cmocka_unit_test(test_blueconnect),
		cmocka_unit_test(test_servers),
		cmocka_unit_test(test_closed_forms),
		cmocka_unit_test(test_nothing_to_say),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
