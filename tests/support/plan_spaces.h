/* plan_spaces.h - spaces to search, made from a seed: small enough that every state
 * can be costed, and no bowls.
 *
 *     chain   backward operators, their gradients over one network lane, the update
 *             and the forward operators of the next step, played exactly. Sites: fuse
 *             two neighbouring operators, let two neighbouring gradients travel
 *             together, the pieces of a bucket.
 *     table   a step that is a sum of random tables, each over a site and two
 *             others; or the longest of some such sums; or a sum in which pairs of
 *             sites of two passes pay off together alone.
 *
 * Every space counts its calls, and fails the nth where a test wants that. */
#ifndef TAUT_TESTS_PLAN_SPACES_H
#define TAUT_TESTS_PLAN_SPACES_H

#include <string.h>

#include "plan/space.h"

enum { SITES_MOST = 1024, OPS_MOST = 400, PIECES_MOST = 4 };

static inline uint32_t spaces_random(uint64_t *state, uint32_t n)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)(((x ^ x >> 31) >> 32) * n >> 32);
}

static inline int64_t spaces_between(uint64_t *state, int64_t low, int64_t high)
{
	return low + spaces_random(state, (uint32_t)(high - low + 1));
}

static inline int64_t spaces_later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* What all have. */
struct spaces_sites {
	uint32_t n;
	uint8_t at[SITES_MOST], n_options[SITES_MOST], coarse[SITES_MOST];
	uint32_t pass[SITES_MOST], mirror[SITES_MOST];
	uint64_t n_sets, n_costs, n_rules;
};

static inline void spaces_add(
	struct spaces_sites *s, uint32_t pass, uint8_t n_options)
{
	s->pass[s->n] = pass;
	s->n_options[s->n] = n_options;
	s->coarse[s->n] = 1;
	s->mirror[s->n] = s->n;
	s->n++;
}

static inline taut_status spaces_set(void *self, uint32_t site, uint8_t option,
	struct taut_error *err)
{
	struct spaces_sites *s = self; /* first of every space */

	(void)err;
	s->n_sets++;
	s->at[site] = option;
	return TAUT_OK;
}

static inline struct tauti_space spaces_face(struct spaces_sites *s,
	const struct tauti_space_ops *ops, uint32_t n_passes)
{
	static const char *const names[] = { "op-fusion", "tensor-fusion",
		"partition" };

	return (struct tauti_space){ .ops = ops, .self = s, .n_sites = s->n,
		.n_options = s->n_options, .pass = s->pass,
		.n_passes = n_passes, .pass_names = names };
}

/* --- chain -------------------------------------------------------------------------*/

struct spaces_chain {
	struct spaces_sites sites;
	uint32_t n_ops, n_grads;
	int64_t op_ns[OPS_MOST], forward_ns[OPS_MOST];
	int64_t saving_ns[OPS_MOST]; /* by fusing op i and i + 1; may be negative */
	int64_t crowd_ns;            /* for each operator above two, squared */
	int64_t bytes[OPS_MOST];     /* of gradient; 0: the operator has none */
	uint32_t grad_of[OPS_MOST];  /* by operator, TAUT_NONE */
	uint32_t op_of[OPS_MOST];    /* by gradient */
	uint32_t pieces_site[OPS_MOST]; /* by gradient; TAUT_NONE: whole */
	int64_t latency_ns, ns_per_kb, update_ns, update_ns_per_kb;
	bool by_priority; /* the bucket that is needed first goes first */
	/* Of the last cost: what starts and ends when, and by what it was held. */
	int64_t op_end_ns[OPS_MOST];
	uint32_t group_first[OPS_MOST]; /* by op: first op of its group */
	uint32_t n_buckets, bucket_first[OPS_MOST + 1];
	int64_t ready_ns[OPS_MOST], updated_ns[OPS_MOST];
	bool held_by_lane[OPS_MOST], held_by_update[OPS_MOST];
};

static inline bool chain_fuses(const struct spaces_chain *c, uint32_t op)
{
	return c->sites.at[op] != 0; /* sites 0 .. n_ops - 2 */
}

static inline bool chain_joins(const struct spaces_chain *c, uint32_t grad)
{
	return c->sites.at[c->n_ops - 1 + grad] != 0;
}

/* Of the operators first .. last, fused. */
static inline int64_t chain_group_ns(
	const struct spaces_chain *c, uint32_t first, uint32_t last)
{
	int64_t ns = 0, over = (int64_t)last - first - 1;

	for (uint32_t i = first; i <= last; i++)
		ns += c->op_ns[i] - (i < last ? c->saving_ns[i] : 0);
	if (over > 0)
		ns += over * over * c->crowd_ns;
	return spaces_later(ns, 1000);
}

static inline uint32_t chain_group_last(const struct spaces_chain *c, uint32_t i)
{
	while (i + 1 < c->n_ops && chain_fuses(c, i))
		i++;
	return i;
}

static inline void chain_backward(struct spaces_chain *c)
{
	int64_t now_ns = 0;

	for (uint32_t first = 0; first < c->n_ops;) {
		uint32_t last = chain_group_last(c, first);

		now_ns += chain_group_ns(c, first, last);
		for (uint32_t i = first; i <= last; i++) {
			c->op_end_ns[i] = now_ns;
			c->group_first[i] = first;
		}
		first = last + 1;
	}
}

static inline void chain_buckets(struct spaces_chain *c)
{
	c->n_buckets = 0;
	for (uint32_t g = 0; g < c->n_grads; g++)
		if (!g || !chain_joins(c, g - 1))
			c->bucket_first[c->n_buckets++] = g;
	c->bucket_first[c->n_buckets] = c->n_grads;
	for (uint32_t b = 0; b < c->n_buckets; b++)
		c->ready_ns[b] = c->op_end_ns[
			c->op_of[c->bucket_first[b + 1] - 1]];
}

static inline uint32_t chain_pieces(const struct spaces_chain *c, uint32_t bucket)
{
	uint32_t most = 1;

	for (uint32_t g = c->bucket_first[bucket];
		g < c->bucket_first[bucket + 1]; g++)
		if (c->pieces_site[g] != TAUT_NONE &&
			1u << c->sites.at[c->pieces_site[g]] > most)
			most = 1u << c->sites.at[c->pieces_site[g]];
	return most;
}

static inline int64_t chain_bucket_bytes(
	const struct spaces_chain *c, uint32_t bucket)
{
	int64_t bytes = 0;

	for (uint32_t g = c->bucket_first[bucket];
		g < c->bucket_first[bucket + 1]; g++)
		bytes += c->bytes[c->op_of[g]];
	return bytes;
}

/* The bucket whose piece goes next on a lane that is free from then on. */
static inline uint32_t chain_next(const struct spaces_chain *c,
	const uint32_t *left, int64_t free_ns)
{
	uint32_t next = TAUT_NONE;

	for (uint32_t b = 0; b < c->n_buckets; b++) {
		if (!left[b])
			continue;
		if (next == TAUT_NONE || (c->by_priority &&
				c->ready_ns[b] <= free_ns))
			next = b;
		if (!c->by_priority)
			break;
	}
	return next;
}

static inline void chain_network(struct spaces_chain *c)
{
	uint32_t left[OPS_MOST], n_left = 0;
	int64_t lane_ns = 0, update_ns = 0;

	for (uint32_t b = 0; b < c->n_buckets; b++)
		n_left += left[b] = chain_pieces(c, b);
	while (n_left--) {
		uint32_t b = chain_next(c, left, lane_ns);
		int64_t kb = chain_bucket_bytes(c, b) / 1024 /
			chain_pieces(c, b);

		c->held_by_lane[b] = lane_ns > c->ready_ns[b];
		lane_ns = spaces_later(lane_ns, c->ready_ns[b]) +
			c->latency_ns + kb * c->ns_per_kb;
		c->held_by_update[b] = update_ns > lane_ns;
		update_ns = spaces_later(update_ns, lane_ns) + c->update_ns +
			kb * c->update_ns_per_kb;
		c->updated_ns[b] = update_ns;
		left[b]--;
	}
}

static inline uint32_t chain_bucket_of(const struct spaces_chain *c, uint32_t grad)
{
	uint32_t b = 0;

	while (c->bucket_first[b + 1] <= grad)
		b++;
	return b;
}

static inline int64_t chain_forward(const struct spaces_chain *c)
{
	int64_t now_ns = c->op_end_ns[c->n_ops - 1];

	for (uint32_t i = c->n_ops, b = c->n_buckets; i--;) {
		while (b && c->grad_of[i] != TAUT_NONE &&
			c->bucket_first[b - 1] > c->grad_of[i])
			b--;
		if (c->grad_of[i] != TAUT_NONE)
			now_ns = spaces_later(now_ns, c->updated_ns[b - 1]);
		now_ns += c->forward_ns[i];
	}
	return now_ns;
}

static inline taut_status chain_cost(
	void *self, struct tauti_cost *ret_cost, struct taut_error *err)
{
	struct spaces_chain *c = self;
	int64_t largest = 0, sent = 0;

	(void)err;
	c->sites.n_costs++;
	chain_backward(c);
	chain_buckets(c);
	chain_network(c);
	for (uint32_t b = 0; b < c->n_buckets; b++) {
		int64_t bytes = chain_bucket_bytes(c, b);

		largest = spaces_later(largest, bytes);
		sent += bytes + 4096 * (int64_t)chain_pieces(c, b);
	}
	*ret_cost = (struct tauti_cost){ chain_forward(c), largest, sent };
	return TAUT_OK;
}

/* In order, a longer backward operator or a later gradient never makes the step
 * shorter, so that one comparison of the group's length proves it. */
static inline enum tauti_rule chain_rule(void *self, uint32_t site, uint8_t option)
{
	struct spaces_chain *c = self;
	uint32_t first, last;
	int64_t apart_ns, fused_ns;
	bool has_grad = false;

	c->sites.n_rules++;
	if (c->by_priority || site >= c->n_ops - 1)
		return TAUTI_RULE_NONE;
	for (first = site; first && chain_fuses(c, first - 1);)
		first--;
	last = chain_group_last(c, site + 1);
	apart_ns = chain_group_ns(c, first, site) +
		chain_group_ns(c, site + 1, last);
	fused_ns = chain_group_ns(c, first, last);
	for (uint32_t i = first; i <= site; i++)
		has_grad |= c->grad_of[i] != TAUT_NONE;
	if (option && fused_ns >= apart_ns)
		return TAUTI_RULE_WORSE;
	if (option && !has_grad)
		return TAUTI_RULE_BETTER;
	if (!option && fused_ns <= apart_ns && !has_grad)
		return TAUTI_RULE_WORSE;
	return TAUTI_RULE_NONE;
}

struct chain_path {
	uint32_t *sites, n, most;
	uint8_t is_in[SITES_MOST];
};

static inline void chain_touch(struct chain_path *p, uint32_t site)
{
	if (!p->is_in[site] && p->n < p->most) {
		p->is_in[site] = 1;
		p->sites[p->n++] = site;
	}
}

static inline void chain_touch_bucket(
	const struct spaces_chain *c, struct chain_path *p, uint32_t b)
{
	for (uint32_t g = c->bucket_first[b]; g < c->bucket_first[b + 1]; g++) {
		if (g + 1 < c->n_grads)
			chain_touch(p, c->n_ops - 1 + g);
		if (g)
			chain_touch(p, c->n_ops - 2 + g);
		if (c->pieces_site[g] != TAUT_NONE)
			chain_touch(p, c->pieces_site[g]);
	}
}

/* Back from the end: forward to the update that held it, along the lane to the
 * bucket that did not wait for it, and the backward operators before that. */
static inline uint32_t chain_critical(
	void *self, uint32_t *ret_sites, uint32_t most)
{
	struct spaces_chain *c = self;
	struct chain_path p = { ret_sites, 0, most, { 0 } };
	int64_t end_ns = chain_forward(c);
	uint32_t b = 0, op = c->n_ops - 1;

	for (uint32_t i = 0; i < c->n_ops; i++) {
		uint32_t g = c->grad_of[i];

		end_ns -= c->forward_ns[i];
		if (g == TAUT_NONE)
			continue;
		b = chain_bucket_of(c, g);
		if (c->updated_ns[b] < end_ns)
			continue;
		for (;; b--) {
			chain_touch_bucket(c, &p, b);
			if (!b || (!c->held_by_lane[b] && !c->held_by_update[b]))
				break;
		}
		op = c->op_of[c->bucket_first[b + 1] - 1];
		break;
	}
	for (uint32_t i = 0; i <= op && i + 1 < c->n_ops; i++)
		chain_touch(&p, i);
	return p.n;
}

static const struct tauti_space_ops spaces_chain_ops = { spaces_set, chain_cost,
	chain_rule, chain_critical };

static inline void chain_op(struct spaces_chain *c, uint32_t i, uint64_t *r)
{
	c->op_ns[i] = spaces_between(r, 50000, 400000);
	c->forward_ns[i] = c->op_ns[i] / 2;
	c->saving_ns[i] = spaces_between(r, -40000, 90000);
	c->bytes[i] = spaces_random(r, 4) ?
		1024 << spaces_between(r, 4, 12) : 0;
}

static inline void chain_sites(struct spaces_chain *c, uint32_t n_pieces)
{
	c->n_grads = 0;
	for (uint32_t i = 0; i < c->n_ops; i++) {
		c->grad_of[i] = TAUT_NONE;
		if (!c->bytes[i])
			continue;
		c->grad_of[i] = c->n_grads;
		c->op_of[c->n_grads] = i;
		c->pieces_site[c->n_grads++] = TAUT_NONE;
	}
	for (uint32_t i = 0; i + 1 < c->n_ops; i++)
		spaces_add(&c->sites, 0, 2);
	for (uint32_t i = 0; i + 1 < c->n_grads; i++)
		spaces_add(&c->sites, 1, 2);
	for (uint32_t i = 0; i < n_pieces && i < c->n_grads; i++) {
		uint32_t g = i * c->n_grads / n_pieces;

		c->pieces_site[g] = c->sites.n;
		spaces_add(&c->sites, 2, 3);
	}
}

/* The network takes from half to twice as long as backward does. n_alike: operators
 * come in blocks of so many that are the same, and so do their sites; 0: none are. */
static inline void chain_make(struct spaces_chain *c, uint64_t seed,
	uint32_t n_ops, uint32_t n_pieces, uint32_t n_alike, bool by_priority)
{
	uint64_t r = seed * 7919 + 17;
	int64_t all_ns = 0, all_kb = 0;

	memset(c, 0, sizeof *c);
	c->n_ops = n_ops;
	c->by_priority = by_priority;
	for (uint32_t i = 0; i < n_ops; i++) {
		uint32_t of = n_alike ? i % n_alike : i;

		chain_op(c, i, &r);
		if (i + 1 == n_ops && !c->bytes[i])
			c->bytes[i] = 65536;
		if (of != i) {
			c->op_ns[i] = c->op_ns[of];
			c->forward_ns[i] = c->forward_ns[of];
			c->saving_ns[i] = c->saving_ns[of];
			c->bytes[i] = c->bytes[of];
		}
		all_ns += c->op_ns[i];
		all_kb += c->bytes[i] / 1024;
	}
	c->crowd_ns = spaces_between(&r, 0, 20000);
	c->latency_ns = spaces_between(&r, 20000, 150000);
	c->ns_per_kb = all_ns / (all_kb + 1) *
		spaces_between(&r, 50, 200) / 100;
	c->update_ns = spaces_between(&r, 2000, 20000);
	c->update_ns_per_kb = c->ns_per_kb / 4;
	chain_sites(c, n_pieces);
	for (uint32_t i = 0; n_alike && i + 1 < n_ops; i++)
		c->sites.mirror[i] = i % n_alike;
}

/* --- table -------------------------------------------------------------------------*/

enum spaces_table_kind {
	SPACES_SUM_NEAR, /* tables over neighbouring sites */
	SPACES_SUM_FAR,  /* over any */
	SPACES_LONGEST,  /* the longest of three such sums */
	SPACES_COUPLED,  /* pairs that pay off together alone, and small noise */
	SPACES_LIMITED,  /* neighbours; and what needs too much memory cannot be */
	SPACES_TABLE_KINDS
};

struct spaces_table {
	struct spaces_sites sites;
	enum spaces_table_kind kind;
	uint32_t n_lanes, other[SITES_MOST][2], lane[SITES_MOST];
	int64_t value_ns[64][64]; /* by table, by the options of three sites */
	int64_t bytes[64][4], most_bytes;
	uint32_t mate[64];
};

static inline int64_t table_value(const struct spaces_table *t, uint32_t i)
{
	const uint8_t *at = t->sites.at;

	return t->value_ns[i][at[i] * 16 + at[t->other[i][0]] * 4 +
		at[t->other[i][1]]];
}

static inline int64_t table_couple(const struct spaces_table *t, uint32_t i)
{
	bool a = t->sites.at[i], b = t->sites.at[t->mate[i]];

	if (t->mate[i] == i || t->mate[i] < i)
		return 0;
	return a && b ? -3000 : a || b ? 2000 : 0;
}

static inline taut_status table_cost(
	void *self, struct tauti_cost *ret_cost, struct taut_error *err)
{
	struct spaces_table *t = self;
	int64_t lane_ns[3] = { 0 }, bytes = 0, step_ns = 0;

	(void)err;
	t->sites.n_costs++;
	for (uint32_t i = 0; i < t->sites.n; i++) {
		lane_ns[t->lane[i]] += table_value(t, i);
		bytes += t->bytes[i][t->sites.at[i]];
		if (t->kind == SPACES_COUPLED)
			lane_ns[0] += table_couple(t, i);
	}
	for (uint32_t k = 0; k < 3; k++)
		step_ns = spaces_later(step_ns, lane_ns[k]);
	if (t->kind == SPACES_LIMITED && bytes > t->most_bytes)
		step_ns = TAUTI_NEVER;
	*ret_cost = (struct tauti_cost){ step_ns, bytes, -1 };
	return TAUT_OK;
}

static const struct tauti_space_ops spaces_table_ops = { spaces_set, table_cost,
	NULL, NULL };

static inline void table_values(struct spaces_table *t, uint32_t i, uint64_t *r)
{
	int64_t floor_ns = t->kind == SPACES_COUPLED ? 3000 : 0;

	for (uint32_t k = 0; k < 64; k++)
		t->value_ns[i][k] = spaces_between(r, floor_ns, floor_ns + 1000);
	for (uint32_t k = 0; k < 4; k++)
		t->bytes[i][k] = spaces_between(r, 0, 1000);
	t->lane[i] = t->kind == SPACES_LONGEST ? spaces_random(r, 3) : 0;
}

static inline void table_make(struct spaces_table *t, uint64_t seed, uint32_t n,
	enum spaces_table_kind kind)
{
	uint64_t r = seed * 104729 + kind + 5;
	uint64_t states = 1;
	bool near = kind == SPACES_SUM_NEAR || kind == SPACES_LIMITED;

	memset(t, 0, sizeof *t);
	t->kind = kind;
	for (uint32_t i = 0; i < n; i++) {
		uint8_t n_options = spaces_random(&r, 5) ? 2 :
			(uint8_t)spaces_between(&r, 3, 4);

		if (states * n_options << (n - 1 - i) > 1 << 15)
			n_options = 2;
		states *= n_options;
		spaces_add(&t->sites, i % 3, n_options);
	}
	for (uint32_t i = 0; i < n; i++) {
		t->mate[i] = i;
		for (uint32_t k = 0; k < 2; k++)
			t->other[i][k] = near ? (i + k + 1) % n :
				spaces_random(&r, n);
		table_values(t, i, &r);
		t->most_bytes += t->bytes[i][0];
	}
	/* Every site is coupled with one that is half the sites away. */
	for (uint32_t i = 0; kind == SPACES_COUPLED && i < n / 2; i++) {
		t->mate[i] = i + n / 2;
		t->mate[i + n / 2] = i;
	}
	t->most_bytes = t->most_bytes * 9 / 10;
}

#endif /* TAUT_TESTS_PLAN_SPACES_H */
