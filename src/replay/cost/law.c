/* law.c - what a collective asks of the busiest link, by algorithm.
 *
 * p ranks on h hosts, S bytes. Ranks stand on hosts in their order, as evenly
 * as can be: the first p mod h hosts have one more, m = ceil(p / h) at most.
 * alpha is paid by message, beta by byte, gamma by byte added up:
 *     T = messages alpha + bytes beta + reduced gamma
 * Sources of the equations: R. Thakur, R. Rabenseifner, W. Gropp,
 * "Optimization of Collective Communication Operations in MPICH", 2005 (ring,
 * pairwise exchange); M. Cho et al., "BlueConnect", 2019; M. Li et al., "Scaling
 * distributed machine learning with the parameter server", 2014. What has no
 * formula here is counted: law_count.c. */
#include "cost.h"

const char *taut_algorithm_name(enum taut_algorithm algorithm)
{
	static const char *const names[TAUT_ALGORITHMS] = {
		"as recorded", "ring", "tree", "halving-doubling",
		"hierarchical", "blueconnect", "server", "direct", "flat",
		"doubling",
	};
	return (unsigned)algorithm < TAUT_ALGORITHMS ? names[algorithm] :
		"as recorded";
}

struct spread {
	uint32_t p, h;
	uint32_t m; /* ranks on the fullest host */
	double bytes;
};

static double larger(double a, double b)
{
	return a > b ? a : b;
}

uint32_t tauti_law_host(uint32_t ranks, uint32_t hosts, uint32_t rank)
{
	uint32_t small = ranks / hosts, n_full = ranks % hosts;

	if (rank < n_full * (small + 1))
		return rank / (small + 1);
	return n_full + (rank - n_full * (small + 1)) / small;
}

/* bytes pass every link of a ring: one link leaves each host, the others, if
 * a host has any, stay inside. */
static struct taut_law around(
	const struct spread *s, double bytes, double messages, double reduced)
{
	return (struct taut_law){
		.network_bytes = s->h > 1 ? bytes : 0,
		.local_bytes = s->m > 1 ? bytes : 0,
		.messages = messages,
		.reduced_bytes = reduced,
	};
}

/* --- all to all: pairwise exchange --------------------------------------------
 *     T = (p - 1) alpha + (p - 1)/p S beta
 * A host of m ranks sends m (p - m)/p S to others; a rank (m - 1)/p S to those
 * beside it. */
static struct taut_law all_to_all(const struct spread *s)
{
	double p = s->p, m = s->m, fewer = s->p / s->h;

	return (struct taut_law){
		.network_bytes = s->bytes / p *
			larger(m * (p - m), fewer * (p - fewer)),
		.local_bytes = s->bytes * (m - 1) / p,
		.messages = p - 1,
	};
}

/* --- ring ------------------------------------------------------------------------
 * reduce-scatter, all-gather:  T = (p - 1) alpha + (p - 1)/p S beta
 * all-reduce is one after the other: 2 (p - 1) alpha + 2 (p - 1)/p S beta
 * broadcast, reduce: a pipelined chain, (p - 1) alpha + S beta
 * One of p parts is added up in each step of a reduce-scatter. A barrier is an
 * all-reduce of nothing. */
static struct taut_law ring(enum taut_coll_kind kind, const struct spread *s)
{
	double steps = s->p - 1.0, part = steps / s->p * s->bytes;

	switch (kind) {
	case TAUT_COLL_ALLGATHER:
		return around(s, part, steps, 0);
	case TAUT_COLL_REDUCESCATTER:
		return around(s, part, steps, part);
	case TAUT_COLL_BROADCAST:
		return around(s, s->bytes, steps, 0);
	case TAUT_COLL_REDUCE:
		return around(s, s->bytes, steps, s->bytes);
	case TAUT_COLL_ALLTOALL:
		return all_to_all(s);
	case TAUT_COLL_SENDRECV: {
		struct taut_law law = around(s, s->bytes, 1, 0);

		if (s->h > 1)
			law.local_bytes = 0;
		return law;
	}
	case TAUT_COLL_BARRIER:
		return around(s, 0, 2 * steps, 0);
	default:
		return around(s, 2 * part, 2 * steps, part);
	}
}

/* --- each to each ------------------------------------------------------------------
 * FLAT: each sends all of it to each:        T = alpha + (p - 1) S beta
 * DIRECT: a part to each, and its sum back:  T = 2 alpha + 2 (p - 1)/p S beta
 * A host of m ranks sends m (p - m) times what goes from one rank to another; a
 * broadcast in parts is one from the root, and one of each part from all others. */
static struct taut_law each_to_each(
	const struct spread *s, double bytes, double rounds, double reduced)
{
	double p = s->p, m = s->m, fewer = s->p / s->h;

	return (struct taut_law){
		.network_bytes = s->h > 1 ? rounds * bytes *
			larger(m * (p - m), fewer * (p - fewer)) : 0,
		.local_bytes = rounds * bytes * (m - 1),
		.messages = rounds,
		.reduced_bytes = reduced * bytes * (p - 1),
	};
}

static int each_has(enum taut_coll_kind kind, enum taut_algorithm algorithm)
{
	return kind == TAUT_COLL_ALLREDUCE ||
		(algorithm == TAUT_ALGO_DIRECT &&
			(kind == TAUT_COLL_ALLGATHER ||
				kind == TAUT_COLL_REDUCESCATTER));
}

static struct taut_law direct(enum taut_coll_kind kind, const struct spread *s)
{
	double part = s->bytes / s->p;

	if (kind == TAUT_COLL_ALLREDUCE)
		return each_to_each(s, part, 2, 1);
	return each_to_each(s, part, 1, kind == TAUT_COLL_REDUCESCATTER);
}

/* --- by hosts -----------------------------------------------------------------------
 * Each rank sums a block of S / m over its host of m, then over h hosts in a ring, and
 * spreads it in its host, of p = m h:
 *     T = 2 alpha + 2 (h - 1) alpha
 *         + 2 (m - 1)/m S beta_local + 2 (h - 1)/h S beta */
static struct taut_law by_hosts(const struct spread *s)
{
	double m = s->m, h = s->h, S = s->bytes;

	return (struct taut_law){
		.network_bytes = 2 * (h - 1) / h * S,
		.local_bytes = 2 * (m - 1) / m * S,
		.messages = (m > 1 ? 2 : 0) + 2 * (h - 1),
		.reduced_bytes = (m - 1) / m * S + (h - 1) / h * S / m,
	};
}

int tauti_law_is_hosts_ring(const struct taut_law_in *in)
{
	return in->algorithm == TAUT_ALGO_HIERARCHICAL &&
		in->kind == TAUT_COLL_ALLREDUCE && in->hosts &&
		(in->hosts & (in->hosts - 1)) != 0 &&
		in->ranks % in->hosts == 0;
}

/* --- BlueConnect -----------------------------------------------------------------------
 * Reduce-scatter in the host, m rings over h hosts of a part S / m each, all-gather
 * in the host:
 *     T = 2 (m - 1) alpha + 2 (h - 1) alpha
 *         + 2 (m - 1)/m S beta_local + 2 (h - 1)/h S beta
 * for p = m h; a host that has fewer ranks counts as full. */
static struct taut_law blueconnect(const struct spread *s)
{
	double m = s->m, h = s->h, S = s->bytes;
	double over_hosts = (h - 1) / h * S, part = (m - 1) / m * S;

	return (struct taut_law){
		.network_bytes = 2 * over_hosts,
		.local_bytes = 2 * part,
		.messages = 2 * (m - 1) + 2 * (h - 1),
		.reduced_bytes = part + over_hosts / m,
	};
}

/* --- parameter servers -------------------------------------------------------------------
 * n servers stand on the hosts as the ranks do and hold S / n each. A host of m
 * ranks and k servers sends m S (n - k)/n in a push, and gets (p - m) S k/n; in
 * a pull the other way round. Push and pull of different parts overlap. */
static struct taut_law one_host_of_servers(
	double p, double m, double n, double k, double bytes, double ways)
{
	double push = m * (n - k) / n * bytes, serve = (p - m) * k / n * bytes;

	return (struct taut_law){
		.network_bytes = ways > 1 ? push + serve : larger(push, serve),
		.local_bytes = m > 0 && k > 0 ?
			larger(k / n * bytes, m / n * bytes) : 0,
	};
}

static uint32_t share(uint32_t n, uint32_t hosts, uint32_t host)
{
	return n / hosts + (host < n % hosts);
}

static struct taut_law servers(
	enum taut_coll_kind kind, const struct spread *s, uint32_t n)
{
	int pushes = kind != TAUT_COLL_PULL && kind != TAUT_COLL_BROADCAST;
	int pulls = kind != TAUT_COLL_PUSH && kind != TAUT_COLL_REDUCE;
	/* what stands on a host changes at these, and nowhere else */
	uint32_t hosts[3] = { 0, s->p % s->h, n % s->h };
	struct taut_law law = { .messages = pushes + pulls };

	for (int i = 0; i < 3; i++) {
		struct taut_law one = one_host_of_servers(s->p,
			share(s->p, s->h, hosts[i]), n,
			share(n, s->h, hosts[i]), s->bytes, pushes + pulls);

		law.network_bytes =
			larger(law.network_bytes, one.network_bytes);
		law.local_bytes = larger(law.local_bytes, one.local_bytes);
	}
	if (pushes)
		law.reduced_bytes = (s->p - 1.0) / n * s->bytes;
	return law;
}

static int has_server(enum taut_coll_kind kind)
{
	return kind == TAUT_COLL_PUSH || kind == TAUT_COLL_PULL ||
		kind == TAUT_COLL_PUSHPULL;
}

static int served(enum taut_coll_kind kind)
{
	return has_server(kind) || kind == TAUT_COLL_ALLREDUCE ||
		kind == TAUT_COLL_BROADCAST || kind == TAUT_COLL_REDUCE;
}

static struct taut_law by_formula(const struct taut_law_in *in)
{
	struct spread s = { .p = in->ranks, .h = in->hosts,
		.bytes = in->bytes > 0 ? in->bytes : 0 };
	enum taut_algorithm how = has_server(in->kind) ? TAUT_ALGO_SERVER :
		in->algorithm;

	if (s.p < 2 && !(has_server(in->kind) && s.p))
		return (struct taut_law){ 0 };
	s.h = s.h < 1 ? 1 : s.h > s.p ? s.p : s.h;
	s.m = (s.p + s.h - 1) / s.h;
	if (how == TAUT_ALGO_SERVER && served(in->kind))
		return servers(in->kind, &s, in->servers ? in->servers : s.h);
	if (tauti_law_is_hosts_ring(in))
		return by_hosts(&s);
	if (how == TAUT_ALGO_BLUECONNECT && in->kind == TAUT_COLL_ALLREDUCE)
		return blueconnect(&s);
	if (how == TAUT_ALGO_FLAT && each_has(in->kind, how))
		return each_to_each(&s, s.bytes, 1, 1);
	if (how == TAUT_ALGO_DIRECT && each_has(in->kind, how))
		return direct(in->kind, &s);
	return ring(in->kind, &s);
}

struct taut_law taut_law(const struct taut_law_in *in)
{
	double bytes = in->bytes > 0 ? in->bytes : 0;

	if (!in->counted)
		return by_formula(in);
	return (struct taut_law){
		.network_bytes = in->counted->network_bytes * bytes,
		.local_bytes = in->counted->local_bytes * bytes,
		.messages = in->counted->messages,
		.reduced_bytes = in->counted->reduced_bytes * bytes,
	};
}
