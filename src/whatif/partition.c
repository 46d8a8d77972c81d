/* partition.c - large all-reduces in pieces on the wire (ByteScheduler, SOSP
 * 2019; BytePS). Pieces of one bucket follow each other on its lane; each pays
 * its latency. What reordering them by priority gives, schedule.c tells. */
#include <math.h>

#include "whatif/attach.h"

enum { BYTES };

struct partition {
	struct tauti_whatif *w;
	struct tauti_ddp *ddp;
	struct taut_error *err;
	double bytes;
	uint8_t *seen;
	TAUT_VEC(struct taut_member) members;
	TAUT_VEC(uint32_t) arrive;
	uint32_t n_cut;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for pieces");
}

static void take_member(void *context, uint32_t arrive)
{
	struct partition *p = context;
	struct taut_member m = { 0 };
	struct taut_op op;

	if (!taut_edit_op(p->w->edit, arrive, &op))
		return;
	m.lane = op.lane;
	m.after = taut_edit_next(p->w->edit, arrive);
	if (!taut_vec_push(&p->members, m))
		p->bytes = -1;
}

struct tauti_way tauti_piece_way(const struct tauti_whatif *w, uint32_t like,
	struct tauti_way way, double bytes)
{
	struct taut_law_in in;
	struct taut_transfer t;

	if (way.put_bytes > 0) {
		way.put_amount *= bytes / way.put_bytes;
		way.put_bytes = bytes;
		return way;
	}
	if (like == TAUT_NONE || w->costs->transfers[like].amount <= 0)
		return way;
	in = taut_costs_law_in(w->costs, like);
	in.bytes = bytes;
	t = taut_costs_transfer(w->costs, like, &in, 0);
	way.like = like + 1;
	way.put_bytes = bytes;
	way.put_amount = t.amount;
	way.put_latency_ns = (double)t.latency_ns;
	return way;
}

/* One piece behind the transfers of the members. */
static taut_status add_piece(struct partition *p,
	const struct taut_collective *c, const struct tauti_way *way)
{
	struct taut_edit *edit = p->w->edit;
	uint32_t id;
	taut_status status;

	taut_vec_clear(&p->arrive);
	if (!taut_vec_reserve(&p->arrive, p->members.count))
		return no_memory(p->err);
	status = taut_edit_add_collective(edit, c, p->members.data,
		(uint32_t)p->members.count, &id, p->arrive.data, p->err);
	for (size_t i = 0; !status && i < p->members.count; i++) {
		uint32_t transfer = taut_edit_next(edit, p->arrive.data[i]);

		status = tauti_move_waits(
			p->w, p->members.data[i].after, transfer, p->err);
		p->members.data[i].after = transfer;
	}
	return status ? status : tauti_set_way(p->w, id, way, p->err);
}

static taut_status cut(struct partition *p, const struct tauti_bucket *b)
{
	uint32_t like = b->like, n = (uint32_t)ceil(
		(double)b->bytes / p->bytes);
	struct taut_collective c;
	struct tauti_way way;
	taut_status status;

	if (n < 2 || p->seen[b->collective] ||
		!taut_edit_collective(p->w->edit, b->collective, &c))
		return TAUT_OK;
	p->seen[b->collective] = 1;
	p->n_cut++;
	way = tauti_piece_way(p->w, like, tauti_way_of(p->w, b->collective),
		(double)b->bytes / n);
	taut_vec_clear(&p->members);
	taut_edit_each_member(p->w->edit, b->collective, take_member, p);
	if (p->bytes < 0)
		return no_memory(p->err);
	c.bytes = b->bytes / n;
	status = taut_edit_set_collective(p->w->edit, b->collective, &c, p->err);
	if (!status)
		status = tauti_set_way(p->w, b->collective, &way, p->err);
	for (uint32_t i = 1; !status && i < n; i++)
		status = add_piece(p, &c, &way);
	return status;
}

/* Each rank's buckets are there: two operations for each piece of each. */
static taut_status check_size(const struct partition *p, const char *change)
{
	double n = taut_edit_ops(p->w->edit), bytes = 0;

	for (size_t i = 0; i < p->ddp->buckets.count; i++)
		bytes += (double)p->ddp->buckets.data[i].bytes;
	return tauti_check_ops(change, n + 2 * bytes / p->bytes,
		floor((TAUTI_MOST_OPS - n) / 2), "pieces over all ranks and "
		"steps", p->err);
}

static taut_status cut_all(struct partition *p, const char *change)
{
	taut_status status = check_size(p, change);

	if (!status)
		status = tauti_ddp_wait(p->w, p->ddp, p->err);
	for (size_t i = 0; !status && i < p->ddp->buckets.count; i++)
		status = cut(p, &p->ddp->buckets.data[i]);
	if (!status && !p->n_cut)
		status = tauti_note(p->w, p->err, "partition: no all-reduce is "
			"larger than %.4g MB", p->bytes / 1e6);
	return status;
}

static taut_status read(struct partition *p, const struct tauti_change *c)
{
	bool is_factor;
	taut_status status = tauti_param_scaled(
		c, BYTES, TAUTI_BYTES, &is_factor, &p->bytes, p->err);

	if (!status && (is_factor || p->bytes < 1000))
		status = tauti_param_wrong(
			c, BYTES, "1 kB or more, like 4MB", p->err);
	return status;
}

static taut_status apply(struct tauti_whatif *w,
	const struct tauti_change *c, struct taut_error *err)
{
	struct partition p = { .w = w, .err = err };
	taut_status status = read(&p, c);

	if (!status)
		status = tauti_ddp_create(w, 0, NULL, 0, &p.ddp, err);
	p.seen = TAUT_ARENA_ARRAY(w->arena, uint8_t,
		taut_edit_collectives(w->edit) + 1);
	if (!status && !p.seen)
		status = no_memory(err);
	if (!status)
		status = tauti_ddp_need_buckets(w, p.ddp, "partition", err);
	if (!status)
		status = cut_all(&p, c->text);
	tauti_ddp_destroy(p.ddp);
	taut_vec_free(&p.members);
	taut_vec_free(&p.arrive);
	return status;
}

static const struct taut_parameter parameters[] = {
	[BYTES] = { "", "BYTES", NULL, "of a piece at most" },
};

const struct tauti_transformation tauti_whatif_partition = {
	.info = {
		.name = "partition",
		.group = "network",
		.summary = "all-reduces of gradients in pieces on the wire",
		.assumption = "pieces follow each other in the recorded order, "
			"each with the latency of one; no priorities, and "
			"nothing crosses the end of the step",
		.source = "Peng et al., ByteScheduler, SOSP 2019",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof parameters[0],
	},
	.apply = apply,
};
