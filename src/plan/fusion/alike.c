/* alike.c - sites that are images of each other, and the coarsened view. */
#include <stdlib.h>

#include "base/hash.h"
#include "plan/fusion/own.h"

/* --- images: the same place in repeated blocks ---------------------------------------
 * Operators are alike if their kinds, durations and bytes are, and those of all that is
 * within `reach` flows of them. So the first and last block may be no images of those
 * between, and nothing need be known of blocks. */

struct timed {
	uint32_t kind, operator_;
	int64_t ns;
};

static int by_kind_and_time(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->operator_ < y->operator_ ? -1 : x->operator_ > y->operator_;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	return tauti_hash_mix(a ^ TAUTI_HASH_A, b ^ TAUTI_HASH_B);
}

/* Durations of a kind that differ by little from the least of them are one. */
static bool hash_times(const struct tauti_fusion *f, double alike, uint64_t *hash)
{
	struct timed *rows = TAUT_ARENA_ARRAY(f->arena, struct timed, f->n_ops);
	const struct timed *least = rows;

	if (!rows)
		return false;
	for (uint32_t i = 0; i < f->n_ops; i++)
		rows[i] = (struct timed) { f->ops[i].kind, i, f->dur_ns[i] };
	qsort(rows, f->n_ops, sizeof *rows, by_kind_and_time);
	for (uint32_t i = 0; i < f->n_ops; i++) {
		const struct tauti_fusion_op *op = &f->ops[rows[i].operator_];

		if (rows[i].kind != least->kind || (double)rows[i].ns >
			(double)least->ns * (1 + alike))
			least = &rows[i];
		hash[rows[i].operator_] = mix(
			mix(op->kind, (uint64_t)least->ns),
			mix((uint64_t)op->out_bytes, op->is_kept));
	}
	return true;
}

static void spread(const struct tauti_fusion *f, const uint64_t *hash,
	uint64_t *ret_hash)
{
	for (uint32_t i = 0; i < f->n_ops; i++)
		ret_hash[i] = mix(hash[i], TAUTI_HASH_C);
	for (uint32_t i = 0; i < f->n_flows; i++) {
		const struct tauti_fusion_flow *flow = &f->flows[i];
		uint64_t is = mix((uint64_t)flow->bytes, flow->is_fusible);

		ret_hash[flow->to] += mix(hash[flow->from], is);
		ret_hash[flow->from] += mix(hash[flow->to], ~is);
	}
}

static uint64_t hash_of_site(const struct tauti_fusion *f, const uint64_t *hash,
	uint32_t site)
{
	uint32_t i = site - f->n_pairs + 1;
	uint64_t is = mix(f->space.pass[site], f->space.n_options[site]);

	if (site < f->n_pairs) {
		const struct tauti_fusion_flow *flow =
			&f->flows[f->site_flow[site]];

		return mix(mix(hash[flow->from], is), mix(hash[flow->to],
			(uint64_t)flow->bytes));
	}
	if (f->space.pass[site] == TAUTI_FUSION_TENSORS)
		is = mix(is, mix(hash[f->gradients[i - 1].producer],
			(uint64_t)f->gradients[i - 1].bytes));
	else
		i -= f->n_gradients;
	return mix(mix(hash[f->gradients[i].producer], is),
		mix((uint64_t)f->gradients[i].bytes, f->gradients[i].is_joined));
}

struct hashed {
	uint64_t hash;
	uint32_t site;
};

static int by_hash(const void *a, const void *b)
{
	const struct hashed *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site;
}

static bool number_images(struct tauti_fusion *f, const uint64_t *hash)
{
	uint32_t n = f->space.n_sites;
	struct hashed *rows = TAUT_ARENA_ARRAY(f->arena, struct hashed, n + 1);
	uint32_t *mirror = TAUT_ARENA_ARRAY(f->arena, uint32_t, n + 1);

	if (!rows || !mirror)
		return false;
	for (uint32_t i = 0; i < n; i++)
		rows[i] = (struct hashed) { hash_of_site(f, hash, i), i };
	qsort(rows, n, sizeof *rows, by_hash);
	for (uint32_t i = 0; i < n; i++)
		mirror[rows[i].site] = i && rows[i].hash == rows[i - 1].hash ?
			mirror[rows[i - 1].site] : rows[i].site;
	f->space.mirror = mirror;
	return true;
}

taut_status tauti_fusion_find_images(struct tauti_fusion *f,
	const struct tauti_fusion_in *in, struct taut_error *err)
{
	uint32_t reach = in->reach ? in->reach : 2;
	uint64_t *hash = TAUT_ARENA_ARRAY(f->arena, uint64_t, f->n_ops);
	uint64_t *next = TAUT_ARENA_ARRAY(f->arena, uint64_t, f->n_ops);

	if (!hash || !next ||
		!hash_times(f, in->alike > 0 ? in->alike : 0.05, hash))
		return tauti_fusion_no_memory(err);
	for (uint32_t i = 0; i < reach; i++) {
		uint64_t *was = hash;

		spread(f, hash, next);
		hash = next;
		next = was;
	}
	return number_images(f, hash) ? TAUT_OK : tauti_fusion_no_memory(err);
}

/* --- the coarsened view: operators up to each that makes a gradient ------------------------
 * One site of each kind for them: of the flow that would save most, of the last of
 * their gradients with the first of the next, of that group's pieces. */

/* By operator: the group that it is in. */
static uint32_t *find_groups(const struct tauti_fusion *f)
{
	uint32_t *group = TAUT_ARENA_ARRAY(f->arena, uint32_t, f->n_ops);
	uint32_t n = 0;

	for (uint32_t i = 0; group && i < f->n_ops; i++) {
		group[i] = n;
		n += f->made[i].first < f->made[i].end;
	}
	return group;
}

static void keep_flows(const struct tauti_fusion *f, const uint32_t *group,
	uint32_t *best, uint8_t *coarse)
{
	for (uint32_t i = 0; i < f->n_ops; i++)
		best[i] = TAUT_NONE;
	for (uint32_t i = 0; i < f->n_pairs; i++) {
		const struct tauti_fusion_flow *flow = &f->flows[f->site_flow[i]];
		uint32_t at = group[flow->from];

		if (best[at] == TAUT_NONE || flow->bytes >
			f->flows[f->site_flow[best[at]]].bytes)
			best[at] = i;
	}
	for (uint32_t i = 0; i < f->n_ops; i++)
		if (best[i] != TAUT_NONE)
			coarse[best[i]] = 1;
}

taut_status tauti_fusion_find_coarse(
	struct tauti_fusion *f, struct taut_error *err)
{
	uint8_t *coarse = TAUT_ARENA_ARRAY(
		f->arena, uint8_t, f->space.n_sites + 1);
	uint32_t *best = TAUT_ARENA_ARRAY(f->arena, uint32_t, f->n_ops);
	uint32_t *group = find_groups(f);

	if (!coarse || !best || !group)
		return tauti_fusion_no_memory(err);
	keep_flows(f, group, best, coarse);
	for (uint32_t i = 0; i < f->n_gradients; i++) {
		bool is_first = !i || f->gradients[i].producer !=
			f->gradients[i - 1].producer;

		if (i)
			coarse[tauti_fusion_site_of_join(f, i)] = is_first;
		coarse[tauti_fusion_site_of_pieces(f, i)] = is_first;
	}
	f->space.coarse = coarse;
	return TAUT_OK;
}
