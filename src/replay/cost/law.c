/* law.c - what a collective asks of the busiest link, by algorithm.
 *
 * p ranks on h hosts, S bytes. Ranks stand on hosts in their order, as evenly
 * as can be: the first p mod h hosts have one more, m = ceil(p / h) at most.
 * Algorithms that treat hosts differently count messages as if all had m.
 * alpha is paid by message, beta by byte, gamma by byte added up:
 *     T = messages alpha + bytes beta + reduced gamma
 * Sources of the equations: R. Thakur, R. Rabenseifner, W. Gropp,
 * "Optimization of Collective Communication Operations in MPICH", 2005 (ring,
 * halving-doubling, pairwise exchange); P. Sanders, J. Speck, J. Traff,
 * "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009;
 * M. Cho et al., "BlueConnect", 2019; M. Li et al., "Scaling distributed
 * machine learning with the parameter server", 2014. */
#include <taut/cost.h>

const char *taut_algorithm_name(enum taut_algorithm algorithm)
{
	static const char *const names[TAUT_ALGORITHMS] = {
		"as recorded", "ring", "tree", "halving-doubling",
		"hierarchical", "blueconnect", "server",
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

/* ceil(log2(n)), n >= 1 */
static uint32_t levels(uint32_t n)
{
	uint32_t l = 0;

	while (l < 31 && ((uint32_t)1 << l) < n)
		l++;
	return l;
}

static uint32_t host_of(const struct spread *s, uint32_t rank)
{
	uint32_t small = s->p / s->h, n_full = s->p % s->h;

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

/* --- double binary tree over hosts, a chain in each ------------------------------
 * Each half of the data goes up and down a binary tree of its own, of
 * ceil(log2 h) levels; who is inside of one is a leaf of the other, so that
 * h >= 4: up S/2 + S/2, down 2 S/2: 2 S out of, and into, the busiest host;
 * h = 2: S; h = 3: 3/2 S, for nobody has two children. A chain moves S up and S
 * down; its inner ranks do both.
 *     T = 2 (ceil(log2 h) + m - 1) alpha + 2 S beta
 * broadcast, reduce: one way, half of it; a root outside feeds both trees. */
static struct taut_law tree_all_reduce(const struct spread *s)
{
	static const double out_of_host[] = { 0, 0, 1, 1.5, 2 };
	static const double added_up[] = { 0, 0, 0.5, 1, 1 };
	uint32_t h = s->h < 4 ? s->h : 4, m = s->m < 3 ? s->m : 3;

	return (struct taut_law){
		.network_bytes = out_of_host[h] * s->bytes,
		.local_bytes = (m - 1) * s->bytes,
		.messages = 2.0 * (levels(s->h) + s->m - 1),
		.reduced_bytes = ((m > 1) + added_up[h]) * s->bytes,
	};
}

static struct taut_law tree_one_way(
	const struct spread *s, enum taut_coll_kind kind)
{
	double adds = (s->m > 1) + (s->h > 1);

	return around(s, s->bytes, levels(s->h) + s->m - 1.0,
		kind == TAUT_COLL_REDUCE ? adds * s->bytes : 0);
}

static struct taut_law tree(enum taut_coll_kind kind, const struct spread *s)
{
	switch (kind) {
	case TAUT_COLL_ALLREDUCE:
		return tree_all_reduce(s);
	case TAUT_COLL_BROADCAST:
	case TAUT_COLL_REDUCE:
		return tree_one_way(s, kind);
	case TAUT_COLL_BARRIER: {
		struct taut_law law = { .messages =
			2.0 * (levels(s->h) + s->m - 1) };
		return law;
	}
	default:
		return ring(kind, s);
	}
}

/* --- recursive halving and doubling -------------------------------------------------
 * Of p = q + r ranks, q a power of two, the first 2 r make pairs: one of each
 * gives its S to the other and gets its result at the end.
 *     T = 2 log2 q alpha + 2 (q - 1)/q S beta, and if r > 0:
 *         + 2 alpha + 2 S beta
 * Round k exchanges S / 2^k with the rank 2^(k-1) away, nearest first: what is
 * large stays inside of hosts where it can. Rounds follow each other, so a
 * round takes as long as its busiest link. */
static uint32_t kept_rank(uint32_t i, uint32_t r)
{
	return i < r ? 2 * i + 1 : i + r;
}

/* One round: rank i of q exchanges bytes with i ^ mask. */
static void exchange(const struct spread *s, uint32_t q, uint32_t mask,
	double bytes, struct taut_law *law)
{
	uint32_t r = s->p - q, host = TAUT_NONE, leave = 0, most = 0;
	int inside = 0;

	for (uint32_t i = 0; i < q; i++) {
		uint32_t mine = host_of(s, kept_rank(i, r));
		uint32_t other = host_of(s, kept_rank(i ^ mask, r));

		if (mine != host)
			leave = 0;
		host = mine;
		if (other == mine)
			inside = 1;
		else if (++leave > most)
			most = leave;
	}
	law->network_bytes += most * bytes;
	law->local_bytes += inside ? bytes : 0;
	law->messages++;
}

/* Those of the first 2 r ranks that do not take part give or get bytes. */
static void fold(const struct spread *s, uint32_t r, double bytes,
	struct taut_law *law)
{
	int across = 0, inside = 0;

	for (uint32_t i = 0; i < r; i++) {
		if (host_of(s, 2 * i) == host_of(s, 2 * i + 1))
			inside = 1;
		else
			across = 1;
	}
	if (!r)
		return;
	law->network_bytes += across ? bytes : 0;
	law->local_bytes += inside ? bytes : 0;
	law->messages++;
}

static struct taut_law halving_doubling(
	enum taut_coll_kind kind, const struct spread *s)
{
	uint32_t q = (uint32_t)1 << levels(s->p), r;
	int scatters = kind != TAUT_COLL_ALLGATHER;
	int gathers = kind != TAUT_COLL_REDUCESCATTER;
	struct taut_law law = { 0 };

	q = q > s->p ? q / 2 : q;
	r = s->p - q;
	fold(s, r, scatters ? s->bytes : s->bytes / s->p, &law);
	for (uint32_t mask = 1; mask < q; mask *= 2) {
		double part = s->bytes / (2.0 * mask);

		if (scatters)
			exchange(s, q, mask, part, &law);
		if (gathers)
			exchange(s, q, mask, part, &law);
	}
	fold(s, r, gathers ? s->bytes : s->bytes / s->p, &law);
	if (scatters)
		law.reduced_bytes = (q - 1.0) / q * s->bytes +
			(r ? s->bytes : 0);
	return law;
}

/* --- in a host, over hosts, in a host --------------------------------------------------
 * Hierarchical: a chain to one rank of each host, a ring over h hosts, a chain
 * back, one after the other:
 *     T = 2 (m - 1) alpha + 2 (h - 1) alpha
 *         + 2 S beta_local + 2 (h - 1)/h S beta
 * BlueConnect: reduce-scatter in the host, m rings over hosts of a part S / m
 * each, all-gather in the host:
 *     T = 2 (m - 1) alpha + 2 (h - 1) alpha
 *         + 2 (m - 1)/m S beta_local + 2 (h - 1)/h S beta
 * for p = m h; a host that has fewer ranks counts as full. */
static struct taut_law by_levels(const struct spread *s, int scattered)
{
	double m = s->m, h = s->h, S = s->bytes;
	double over_hosts = (h - 1) / h * S, part = (m - 1) / m * S;

	return (struct taut_law){
		.network_bytes = 2 * over_hosts,
		.local_bytes = scattered ? 2 * part : m > 1 ? 2 * S : 0,
		.messages = 2 * (m - 1) + 2 * (h - 1),
		.reduced_bytes = scattered ? part + over_hosts / m :
			(m > 1 ? S : 0) + over_hosts,
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

struct taut_law taut_law(const struct taut_law_in *in)
{
	struct spread s = { .p = in->ranks, .h = in->hosts,
		.bytes = in->bytes > 0 ? in->bytes : 0 };
	enum taut_algorithm how = has_server(in->kind) ? TAUT_ALGO_SERVER :
		in->algorithm;
	int sums = in->kind == TAUT_COLL_ALLREDUCE;

	if (s.p < 2 && !(has_server(in->kind) && s.p))
		return (struct taut_law){ 0 };
	s.h = s.h < 1 ? 1 : s.h > s.p ? s.p : s.h;
	s.m = (s.p + s.h - 1) / s.h;
	if (how == TAUT_ALGO_SERVER && served(in->kind))
		return servers(in->kind, &s, in->servers ? in->servers : s.h);
	if (how == TAUT_ALGO_TREE)
		return tree(in->kind, &s);
	if (how == TAUT_ALGO_HALVING_DOUBLING && (sums ||
			in->kind == TAUT_COLL_ALLGATHER ||
			in->kind == TAUT_COLL_REDUCESCATTER))
		return halving_doubling(in->kind, &s);
	if (how == TAUT_ALGO_HIERARCHICAL && sums)
		return by_levels(&s, 0);
	if (how == TAUT_ALGO_BLUECONNECT && sums)
		return by_levels(&s, 1);
	return ring(in->kind, &s);
}
