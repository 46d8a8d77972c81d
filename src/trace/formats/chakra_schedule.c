/* chakra_schedule.c - what waits for what, and when it then begins.
 *
 * A file without start times says durations and waits alone. It is run as the
 * simulators run it that are fed with such files: a node begins when all that
 * it waits for has ended and its lane (a thread or a stream, each of which
 * runs one node at a time) is free; of several that could, the one with the
 * smallest place in the file. Ranks are run apart: waiting for other ranks is
 * the graph's to find. */
#include <stdlib.h>
#include <string.h>

#include "trace/formats/chakra.h"

/* --- finding nodes --------------------------------------------------------- */

struct place {
	uint64_t id;
	uint32_t index;
};

static int by_id(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* The first node of that id; UINT64_MAX: none. */
static uint64_t find(const struct place *places, size_t n, uint64_t id)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (places[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && places[lo].id == id ? places[lo].index : UINT64_MAX;
}

taut_status tauti_chakra_find_waits(struct chakra *c)
{
	size_t n = c->nodes.count;
	struct place *places = malloc((n + 1) * sizeof *places);
	if (!places)
		return TAUT_ENOMEM;
	for (size_t i = 0; i < n; i++)
		places[i] = (struct place){ c->nodes.data[i].id, (uint32_t)i };
	qsort(places, n, sizeof *places, by_id);
	for (size_t i = 0; i < c->data_deps.count; i++) {
		uint64_t *wait = &c->data_deps.data[i];
		*wait = find(places, n, *wait);
		c->dangling += *wait == UINT64_MAX;
	}
	for (size_t i = 0; i < c->ctrl_deps.count; i++) {
		uint64_t *wait = &c->ctrl_deps.data[i];
		*wait = find(places, n, *wait);
	}
	free(places);
	return TAUT_OK;
}

/* --- running --------------------------------------------------------------- */

struct ready {
	int64_t at;
	uint32_t node;
	bool wake; /* its lane gets free: it is time to look who waits there */
};

struct runner {
	struct chakra *c;
	uint32_t *left;	 /* by node: waits that have not ended */
	uint32_t *first; /* by node: in next; n + 1 of them */
	uint32_t *next;	 /* who waits for the node */
	int64_t *free_at; /* by lane */
	bool *done;
	struct ready *heap; /* the earliest on top */
	size_t n_heap;
	/* Who could begin but for the lane: by lane a pairing heap, the smallest
	 * place on top; while there is one, the lane's end wakes for it. */
	uint32_t *waiting; /* by lane */
	uint32_t *child, *sibling; /* by node */
};

static bool is_before(const struct ready *a, const struct ready *b)
{
	return a->at != b->at ? a->at < b->at : a->node < b->node;
}

static void push(struct runner *r, struct ready item)
{
	size_t i = r->n_heap++;
	for (; i && is_before(&item, &r->heap[(i - 1) / 2]); i = (i - 1) / 2)
		r->heap[i] = r->heap[(i - 1) / 2];
	r->heap[i] = item;
}

static struct ready pop(struct runner *r)
{
	struct ready top = r->heap[0], last = r->heap[--r->n_heap];
	size_t i = 0;
	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= r->n_heap)
			break;
		child += child + 1 < r->n_heap &&
			 is_before(&r->heap[child + 1], &r->heap[child]);
		if (!is_before(&r->heap[child], &last))
			break;
		r->heap[i] = r->heap[child];
		i = child;
	}
	r->heap[i] = last;
	return top;
}

/* The waits that count: data, as in the schema's own feeder; where a file has
 * none at all, those of control. */
static const uint64_t *waits_of(
	const struct chakra *c, const struct chakra_node *node, uint32_t *ret_n)
{
	bool data = c->data_deps.count > 0;
	*ret_n = data ? node->n_data : node->n_ctrl;
	return data ? chakra_data(c, node) : chakra_ctrl(c, node);
}

static bool counts(uint64_t wait, size_t node)
{
	return wait != UINT64_MAX && wait != node;
}

static void link_waits(struct runner *r)
{
	const struct chakra *c = r->c;
	size_t n = c->nodes.count;
	uint32_t n_waits;
	for (size_t i = 0; i < n; i++) {
		const uint64_t *waits =
			waits_of(c, &c->nodes.data[i], &n_waits);
		for (uint32_t k = 0; k < n_waits; k++)
			if (counts(waits[k], i)) {
				r->first[waits[k] + 2]++;
				r->left[i]++;
			}
	}
	for (size_t i = 2; i < n + 2; i++)
		r->first[i] += r->first[i - 1];
	for (size_t i = 0; i < n; i++) {
		const uint64_t *waits =
			waits_of(c, &c->nodes.data[i], &n_waits);
		for (uint32_t k = 0; k < n_waits; k++)
			if (counts(waits[k], i))
				r->next[r->first[waits[k] + 1]++] =
					(uint32_t)i;
	}
}

static void run_node(struct runner *r, uint32_t index)
{
	struct chakra_node *nodes = r->c->nodes.data;
	int64_t end = nodes[index].start_ns + nodes[index].dur_ns;
	r->done[index] = true;
	r->free_at[nodes[index].lane] = end;
	for (uint32_t k = r->first[index]; k < r->first[index + 1]; k++) {
		struct chakra_node *next = &nodes[r->next[k]];
		if (r->done[r->next[k]]) /* of a circle */
			continue;
		if (end > next->start_ns)
			next->start_ns = end;
		if (--r->left[r->next[k]] == 0)
			push(r, (struct ready){
				next->start_ns, r->next[k], false });
	}
}

static uint32_t join(struct runner *r, uint32_t a, uint32_t b)
{
	if (a == TAUT_NONE || b == TAUT_NONE)
		return a == TAUT_NONE ? b : a;
	uint32_t top = a < b ? a : b, under = a < b ? b : a;
	r->sibling[under] = r->child[top];
	r->child[top] = under;
	return top;
}

/* The heap without its top: pairs are joined, and then joined up. */
static uint32_t without_top(struct runner *r, uint32_t top)
{
	uint32_t next = r->child[top], pairs = TAUT_NONE, all = TAUT_NONE;
	while (next != TAUT_NONE) {
		uint32_t a = next, b = r->sibling[a];
		next = b == TAUT_NONE ? b : r->sibling[b];
		a = join(r, a, b);
		r->sibling[a] = pairs;
		pairs = a;
	}
	while (pairs != TAUT_NONE) {
		uint32_t a = pairs;
		pairs = r->sibling[a];
		all = join(r, all, a);
	}
	return all;
}

static void wake(struct runner *r, uint32_t lane, int64_t at)
{
	if (r->waiting[lane] != TAUT_NONE)
		push(r, (struct ready){ at, r->waiting[lane], true });
}

static void wait_for_lane(struct runner *r, uint32_t lane, struct ready item)
{
	int64_t free_at = r->free_at[lane];
	r->child[item.node] = r->sibling[item.node] = TAUT_NONE;
	r->waiting[lane] = join(r, r->waiting[lane], item.node);
	if (r->waiting[lane] == item.node)
		wake(r, lane, free_at > item.at ? free_at : item.at);
}

static void run_ready(struct runner *r)
{
	while (r->n_heap) {
		struct ready item = pop(r);
		uint32_t lane = r->c->nodes.data[item.node].lane;
		uint32_t first = r->waiting[lane];
		bool is_free = r->free_at[lane] <= item.at;
		if (!item.wake && (!is_free || first != TAUT_NONE)) {
			wait_for_lane(r, lane, item);
			continue;
		}
		if (item.wake && (!is_free || first != item.node))
			continue; /* the lane was taken since */
		if (item.wake)
			r->waiting[lane] = without_top(r, first);
		r->c->nodes.data[item.node].start_ns = item.at;
		run_node(r, item.node);
		wake(r, lane, r->free_at[lane]);
	}
}

/* What waits for itself, by others, begins when nothing else can. */
static void run_all(struct runner *r)
{
	size_t n = r->c->nodes.count;
	for (size_t i = 0; i < n; i++)
		if (!r->left[i])
			push(r, (struct ready){ 0, (uint32_t)i, false });
	run_ready(r);
	for (size_t i = 0; i < n; i++) {
		if (r->done[i])
			continue;
		r->c->circles++;
		r->done[i] = true; /* is not pushed a second time */
		push(r, (struct ready){
			r->c->nodes.data[i].start_ns, (uint32_t)i, false });
		run_ready(r);
	}
}

/* Do all durations one after the other stay within what times may be? */
static bool fits(const struct chakra *c)
{
	int64_t sum = 0;
	for (size_t i = 0; i < c->nodes.count; i++) {
		sum += c->nodes.data[i].dur_ns;
		if (sum > TAUTI_TIME_LIMIT_NS)
			return false;
	}
	return true;
}

taut_status tauti_chakra_schedule(struct chakra *c)
{
	size_t n = c->nodes.count;
	size_t waits = c->data_deps.count ? c->data_deps.count :
					    c->ctrl_deps.count;
	size_t n_lanes = c->builder->lanes.all.count;
	struct runner r = {
		.c = c,
		.left = calloc(n + 1, sizeof *r.left),
		.first = calloc(n + 2, sizeof *r.first),
		.next = malloc((waits + 1) * sizeof *r.next),
		.free_at = calloc(n_lanes + 1, sizeof *r.free_at),
		.done = calloc(n + 1, sizeof *r.done),
		/* each node, and a wake when it waits and when it has run */
		.heap = malloc((3 * n + 1) * sizeof *r.heap),
		.waiting = malloc((n_lanes + 1) * sizeof *r.waiting),
		.child = malloc((n + 1) * sizeof *r.child),
		.sibling = malloc((n + 1) * sizeof *r.sibling),
	};
	taut_status status = TAUT_ENOMEM;
	if (r.left && r.first && r.next && r.free_at && r.done && r.heap &&
		r.waiting && r.child && r.sibling) {
		memset(r.waiting, 0xff, n_lanes * sizeof *r.waiting);
		status = TAUT_EFORMAT;
		if (fits(c)) {
			status = TAUT_OK;
			link_waits(&r);
			run_all(&r);
			c->scheduled = true;
		}
	}
	free(r.left);
	free(r.first);
	free(r.next);
	free(r.free_at);
	free(r.done);
	free(r.heap);
	free(r.waiting);
	free(r.child);
	free(r.sibling);
	if (status == TAUT_EFORMAT)
		return taut_error_set(c->err, status, -1,
			"%s: its durations add up to more than 79 years",
			c->builder->path);
	return status;
}
