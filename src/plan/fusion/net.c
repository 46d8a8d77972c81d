/* net.c - groups of gradients, and the slots that carry them. */
#include <math.h>

#include "plan/fusion/own.h"

static struct taut_law law_of(const struct tauti_fusion_link *link, double bytes)
{
	struct taut_law_in in = link->law;

	in.bytes = bytes;
	return taut_law(&in);
}

int64_t tauti_fusion_transfer_ns(
	const struct tauti_fusion_link *link, double bytes)
{
	struct taut_law law = law_of(link, bytes);

	return link->fixed_ns + llround(law.messages * link->message_ns +
		law.network_bytes * link->byte_ns +
		law.local_bytes * link->local_byte_ns);
}

/* Laws are so much a byte, whatever the groups. */
int64_t tauti_fusion_sent(const struct tauti_fusion *f)
{
	struct taut_law law;
	double all = 0;

	for (uint32_t i = 0; i < f->n_gradients; i++)
		all += (double)f->gradients[i].bytes;
	law = law_of(&f->link, all);
	return llround(f->link.law.hosts > 1 ?
		law.network_bytes * f->link.law.hosts :
		law.local_bytes * f->link.law.ranks);
}

/* The piece that holds the last byte of so many is the last that they need. */
static int64_t pieces_for(int64_t so_far, int64_t all, uint32_t pieces)
{
	return (so_far * pieces + all - 1) / all;
}

static void gather(struct tauti_fusion *f, uint32_t first, uint32_t end)
{
	uint32_t site = f->n_pairs + f->n_gradients - 1 + first;
	uint32_t pieces = 1u << f->option[site], ready = 0;
	int64_t all = 0, so_far = 0, had = 0, each;

	for (uint32_t i = first; i < end; i++) {
		uint32_t last = f->last[f->gradients[i].producer];

		all += f->gradients[i].bytes;
		ready = last > ready ? last : ready;
	}
	each = tauti_fusion_transfer_ns(&f->link, (double)all / pieces);
	for (uint32_t i = first; i < end; i++) {
		int64_t has;

		so_far += f->gradients[i].bytes;
		has = pieces_for(so_far, all, pieces);
		f->want[i].dur_ns = (has - had) * each;
		f->want[i].ready = i == first ? ready : TAUT_NONE;
		had = has;
	}
}

void tauti_fusion_regather(struct tauti_fusion *f, uint32_t first, uint32_t end)
{
	while (f->joined[first])
		first--;
	while (end < f->n_gradients && f->joined[end])
		end++;
	if (!f->slots.end || first < f->slots.first)
		f->slots.first = first;
	if (end > f->slots.end)
		f->slots.end = end;
	while (first < end) {
		uint32_t next = first + 1;

		while (next < end && f->joined[next])
			next++;
		gather(f, first, next);
		first = next;
	}
}
