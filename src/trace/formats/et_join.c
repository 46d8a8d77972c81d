/* et_join.c - which operator each node is.
 *
 * Both writers number the record functions: newer Kineto traces say the same
 * number, in older ones another number differs from it by a constant, as long
 * as the same functions were observed by both. Where nothing of that fits,
 * the nth operator of a name on a thread is the nth node of that name there,
 * if there are as many of them; and where the trace has fewer steps than
 * Kineto's, its whole thread is looked for, step after step. A node and its
 * operator have one name, which proves the pair. */
#include <stdlib.h>
#include <string.h>

#include "trace/formats/et.h"

enum {
	SAMPLE = 4096, /* nodes with which a constant is looked for */
	MOST_APART = 16,
	ENOUGH_PCT = 50, /* of the sample; chance gives a seventh */
	FEW = 32, /* of fewer, chance may give half */
	ENOUGH_OF_THREAD_PCT = 80, /* by order nothing else proves it */
};

struct key {
	uint32_t number, row;
};

static int by_number(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* --- by number --------------------------------------------------------------- */

static uint32_t number_of(const struct tauti_op_id *id, enum et_way way)
{
	return way == ET_RECORD_ID ? id->record :
	       way == ET_EVENT_INDEX ? id->index : id->external;
}

static size_t gather(const struct et *et, enum et_way way, struct key *keys)
{
	const struct tauti_builder *b = et->builder;
	size_t n = 0;
	for (size_t i = 0; i < b->op_ids.count; i++) {
		const struct tauti_op_id *id = &b->op_ids.data[i];
		if (number_of(id, way) != TAUT_NONE)
			keys[n++] = (struct key){ number_of(id, way), id->row };
	}
	qsort(keys, n, sizeof *keys, by_number);
	return n;
}

/* The first key that is not below number. */
static size_t first_key(const struct key *keys, size_t n, int64_t number)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if ((int64_t)keys[mid].number < number)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The row of that number and name; TAUT_NONE. */
static uint32_t find(const struct et *et, const struct key *keys, size_t n,
	int64_t number, uint32_t name)
{
	size_t lo = first_key(keys, n, number);
	for (; lo < n && (int64_t)keys[lo].number == number; lo++)
		if (tauti_builder_row_at(et->builder, keys[lo].row)->name ==
			name)
			return keys[lo].row;
	return TAUT_NONE;
}

static size_t hits(const struct et *et, const struct key *keys, size_t n,
	int apart, size_t *ret_tried)
{
	size_t found = 0;
	*ret_tried = 0;
	for (size_t i = 0; i < et->nodes.count && *ret_tried < SAMPLE; i++) {
		const struct et_node *node = &et->nodes.data[i];
		if (node->rf_id == TAUT_NONE)
			continue;
		++*ret_tried;
		found += find(et, keys, n, (int64_t)node->rf_id + apart,
				 node->name) != TAUT_NONE;
	}
	return found;
}

/* Does a constant lead from the nodes' numbers to the operators'? */
static bool fits(const struct et *et, const struct key *keys, size_t n,
	int *ret_apart)
{
	size_t best = 0, tried = 0;
	for (int apart = -MOST_APART; n && apart <= MOST_APART; apart++) {
		size_t found = hits(et, keys, n, apart, &tried);
		if (found > best) {
			best = found;
			*ret_apart = apart;
		}
	}
	return best && best * 100 >= tried * ENOUGH_PCT;
}

/* Are the nodes' numbers the operators' own? The two may have been recorded
 * at different times, so those count that both have. */
static bool fits_exactly(
	const struct et *et, const struct key *keys, size_t n)
{
	size_t found = 0, both = 0, all = 0;
	for (size_t i = 0; i < et->nodes.count; i++) {
		const struct et_node *node = &et->nodes.data[i];
		if (node->rf_id == TAUT_NONE)
			continue;
		size_t at = first_key(keys, n, node->rf_id);
		all++;
		both += at < n && keys[at].number == node->rf_id;
		found += find(et, keys, n, node->rf_id, node->name) !=
			TAUT_NONE;
	}
	return found && found * 100 >= (both < FEW ? all : both) * ENOUGH_PCT;
}

static bool add_pair(struct et *et, uint32_t node, uint32_t row)
{
	struct et_pair pair = { node, row };
	return taut_vec_push(&et->pairs, pair);
}

/* False: no memory. */
static bool join_by(struct et *et, enum et_way way, struct key *keys)
{
	int apart = 0;
	size_t n = gather(et, way, keys);
	if (way == ET_RECORD_ID ? !fits_exactly(et, keys, n) :
				  !fits(et, keys, n, &apart))
		return true;
	et->way = way;
	for (size_t i = 0; i < et->nodes.count; i++) {
		const struct et_node *node = &et->nodes.data[i];
		uint32_t row = node->rf_id == TAUT_NONE ? TAUT_NONE :
			find(et, keys, n, (int64_t)node->rf_id + apart,
				node->name);
		if (row != TAUT_NONE && !add_pair(et, (uint32_t)i, row))
			return false;
	}
	return true;
}

/* --- by order ------------------------------------------------------------------ */

struct item { /* a node, or an operator */
	uint32_t place; /* its thread's number, or its lane */
	uint32_t name;
	int64_t at;
	uint32_t which; /* index of the node, or row */
};

static int by_place(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->which < y->which ? -1 : x->which > y->which;
}

static size_t run_of(const struct item *items, size_t i, size_t n, bool name)
{
	size_t end = i + 1;
	while (end < n && items[end].place == items[i].place &&
		(!name || items[end].name == items[i].name))
		end++;
	return end - i;
}

/* Walks two runs of one place each; pairs what stands there as often under
 * one name. Without et, they are counted alone. */
static size_t pair_names(const struct item *nodes, size_t n,
	const struct item *ops, size_t n_ops, struct et *et, bool *ret_memory)
{
	size_t i = 0, k = 0, pairs = 0;
	while (i < n && k < n_ops) {
		size_t many = run_of(nodes, i, n, true);
		size_t there = run_of(ops, k, n_ops, true);
		bool same = nodes[i].name == ops[k].name && many == there;
		for (size_t j = 0; et && same && j < many; j++)
			*ret_memory &= add_pair(
				et, nodes[i + j].which, ops[k + j].which);
		pairs += same ? many : 0;
		bool node_first = nodes[i].name <= ops[k].name;
		bool op_first = ops[k].name <= nodes[i].name;
		i += node_first ? many : 0;
		k += op_first ? there : 0;
	}
	return pairs;
}

/* Each thread of the nodes takes the lane with which it has most in common,
 * if that is most of it. */
static bool pair_threads(struct et *et, const struct item *nodes, size_t n,
	const struct item *ops, size_t n_ops)
{
	bool memory = true;
	for (size_t i = 0; memory && i < n;) {
		size_t len = run_of(nodes, i, n, false), best = 0, at = 0;
		for (size_t k = 0; k < n_ops;) {
			size_t ops_len = run_of(ops, k, n_ops, false);
			size_t pairs = pair_names(nodes + i, len, ops + k,
				ops_len, NULL, NULL);
			if (pairs > best) {
				best = pairs;
				at = k;
			}
			k += ops_len;
		}
		if (best * 100 >= len * ENOUGH_OF_THREAD_PCT)
			pair_names(nodes + i, len, ops + at,
				run_of(ops, at, n_ops, false), et, &memory);
		i += len;
	}
	return memory;
}

/* --- by what repeats ------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->which < y->which ? -1 : x->which > y->which;
}

/* Knuth, Morris and Pratt: back[i] is the length of the longest proper
 * beginning of the nodes that also ends at node i. */
static void find_back(const struct item *nodes, size_t n, size_t *back)
{
	back[0] = 0;
	for (size_t i = 1, k = 0; i < n; i++) {
		while (k && nodes[i].name != nodes[k].name)
			k = back[k - 1];
		k += nodes[i].name == nodes[k].name;
		back[i] = k;
	}
}

static bool pair_repeats(struct et *et, const struct item *nodes, size_t n,
	const struct item *ops, size_t n_ops, const size_t *back)
{
	bool memory = true;
	for (size_t i = 0, k = 0; memory && i < n_ops; i++) {
		if (i && ops[i].place != ops[i - 1].place)
			k = 0;
		while (k && ops[i].name != nodes[k].name)
			k = back[k - 1];
		k += ops[i].name == nodes[k].name;
		if (k < n)
			continue;
		for (size_t j = 0; memory && j < n; j++)
			memory = add_pair(et, nodes[j].which,
				ops[i + 1 - n + j].which);
		k = 0; /* the next one begins behind it */
	}
	return memory;
}

/* Of a few operators in a row, chance would find some anywhere. */
enum { LEAST_REPEATED = 8 };

static bool pair_sequences(struct et *et, struct item *nodes, size_t n,
	struct item *ops, size_t n_ops)
{
	size_t *back = malloc((n + 1) * sizeof *back);
	bool memory = back != NULL;
	qsort(nodes, n, sizeof *nodes, by_time);
	qsort(ops, n_ops, sizeof *ops, by_time);
	for (size_t i = 0; memory && i < n;) {
		size_t len = run_of(nodes, i, n, false);
		find_back(nodes + i, len, back);
		if (len >= LEAST_REPEATED)
			memory = pair_repeats(
				et, nodes + i, len, ops, n_ops, back);
		i += len;
	}
	free(back);
	return memory;
}

/* --- the whole ----------------------------------------------------------------- */

static size_t gather_nodes(const struct et *et, struct item *nodes)
{
	size_t n = 0;
	for (size_t i = 0; i < et->nodes.count; i++) {
		const struct et_node *node = &et->nodes.data[i];
		if (node->rf_id != TAUT_NONE)
			nodes[n++] = (struct item){ node->tid, node->name,
				node->rf_id, (uint32_t)i };
	}
	return n;
}

static size_t gather_ops(const struct et *et, struct item *ops)
{
	struct tauti_builder *b = et->builder;
	for (size_t i = 0; i < b->op_ids.count; i++) {
		uint32_t row = b->op_ids.data[i].row;
		const struct tauti_row *r = tauti_builder_row_at(b, row);
		ops[i] = (struct item){ r->lane, r->name, r->start_ns, row };
	}
	return b->op_ids.count;
}

static bool join_by_order(struct et *et)
{
	struct item *nodes = malloc((et->nodes.count + 1) * sizeof *nodes);
	struct item *ops = malloc(
		(et->builder->op_ids.count + 1) * sizeof *ops);
	bool ok = nodes && ops;
	if (ok) {
		size_t n = gather_nodes(et, nodes);
		size_t n_ops = gather_ops(et, ops);
		qsort(nodes, n, sizeof *nodes, by_place);
		qsort(ops, n_ops, sizeof *ops, by_place);
		ok = pair_threads(et, nodes, n, ops, n_ops);
		et->way = et->pairs.count ? ET_ORDER : ET_NOT;
		if (ok && et->way == ET_NOT)
			ok = pair_sequences(et, nodes, n, ops, n_ops);
		if (et->way == ET_NOT && et->pairs.count)
			et->way = ET_REPEATS;
	}
	free(nodes);
	free(ops);
	return ok;
}

static int by_node(const void *a, const void *b)
{
	const struct et_pair *x = a, *y = b;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

taut_status tauti_et_join(struct et *et)
{
	struct key *keys = malloc(
		(et->builder->op_ids.count + 1) * sizeof *keys);
	bool ok = keys != NULL;
	et->way = ET_NOT;
	for (enum et_way way = ET_RECORD_ID;
		ok && et->way == ET_NOT && way <= ET_EXTERNAL_ID; way++)
		ok = join_by(et, way, keys);
	free(keys);
	if (ok && et->way == ET_NOT)
		ok = join_by_order(et);
	if (!ok)
		return TAUT_ENOMEM;
	if (et->pairs.count)
		qsort(et->pairs.data, et->pairs.count, sizeof *et->pairs.data,
			by_node);
	et->joined = 0;
	for (size_t i = 0; i < et->pairs.count; i++)
		et->joined += !i || et->pairs.data[i].node !=
			et->pairs.data[i - 1].node;
	return TAUT_OK;
}
