/* wire.c - chunks of collectives, summed up by link: did they wait for the
 * device, for the peer, or for the network? */
#include <stdlib.h>

#include "base/vec.h"
#include "explain/explain.h"

struct links {
	TAUT_VEC(struct taut_report_link) all;
	size_t recent;
};

static bool is_link(const struct taut_report_link *l, int32_t rank,
	const struct taut_chunk_args *c)
{
	return l->rank == rank && l->peer == c->peer && l->sends == c->sends;
}

static struct taut_report_link *find(struct links *links, int32_t rank,
	const struct taut_chunk_args *c)
{
	struct taut_report_link fresh = { .rank = rank, .peer = c->peer,
		.sends = c->sends };

	if (links->recent < links->all.count &&
		is_link(&links->all.data[links->recent], rank, c))
		return &links->all.data[links->recent];
	for (size_t i = 0; i < links->all.count; i++)
		if (is_link(&links->all.data[i], rank, c)) {
			links->recent = i;
			return &links->all.data[i];
		}
	if (!taut_vec_push(&links->all, fresh))
		return NULL;
	links->recent = links->all.count - 1;
	return &links->all.data[links->recent];
}

static void add(int64_t *sum, int64_t part)
{
	if (part > 0)
		*sum += part;
}

static bool count_trace(struct links *links, const struct taut_trace *t)
{
	for (size_t i = 0; i < t->n_chunks; i++) {
		const struct taut_chunk_args *c = &t->chunks[i];
		struct taut_report_link *l = find(links, t->rank, c);

		if (!l)
			return false;
		l->chunks++;
		add(&l->bytes, c->bytes);
		add(&l->gpu_late_ns, c->gpu_late_ns);
		add(&l->peer_late_ns, c->peer_late_ns);
		add(&l->network_ns, c->network_ns);
	}
	return true;
}

static int by_time(const void *a, const void *b)
{
	const struct taut_report_link *x = a, *y = b;
	int64_t p = x->gpu_late_ns + x->peer_late_ns + x->network_ns;
	int64_t q = y->gpu_late_ns + y->peer_late_ns + y->network_ns;

	if (p != q)
		return p > q ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->peer != y->peer ? (x->peer < y->peer ? -1 : 1) :
		x->sends - y->sends;
}

taut_status tauti_wire_sum(struct tauti_explain *x, struct taut_error *err)
{
	struct links links = { 0 };
	struct taut_report_link *out = NULL;
	bool ok = true;

	for (uint32_t i = 0; ok && i < x->g->run->n_traces; i++)
		ok = count_trace(&links, &x->g->run->traces[i]);
	if (ok)
		out = TAUT_ARENA_ARRAY(x->arena, struct taut_report_link,
			links.all.count + 1);
	if (out) {
		for (size_t i = 0; i < links.all.count; i++)
			out[i] = links.all.data[i];
		qsort(out, links.all.count, sizeof *out, by_time);
		x->report->links = out;
		x->report->n_links = (uint32_t)links.all.count;
	}
	taut_vec_free(&links.all);
	return out ? TAUT_OK : tauti_explain_no_memory(err);
}
