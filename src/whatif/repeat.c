/* repeat.c - copies of parts of a step. */
#include <stdlib.h>

#include "whatif/compute.h"

struct found { /* waits out of an operation */
	TAUT_VEC(struct taut_wait) waits;
	bool full;
};

static taut_status no_memory(struct taut_error *err)
{
	return tauti_no_memory(err, "copies of operations");
}

static uint32_t *filled(size_t n)
{
	uint32_t *ids = malloc((n + 1) * sizeof *ids);

	if (ids)
		memset(ids, 0xff, (n + 1) * sizeof *ids);
	return ids;
}

taut_status tauti_repeat_begin(struct tauti_whatif *w,
	struct tauti_repeat *ret_repeat, struct taut_error *err)
{
	struct tauti_repeat r = { .w = w, .n_ids = taut_edit_ops(w->edit) };

	r.later = calloc(r.n_ids + 1, 1);
	r.group = filled(r.n_ids);
	r.was = filled(r.n_ids);
	r.now = filled(r.n_ids);
	if (!r.later || !r.group || !r.was || !r.now) {
		tauti_repeat_end(&r);
		return no_memory(err);
	}
	*ret_repeat = r;
	return TAUT_OK;
}

void tauti_repeat_end(struct tauti_repeat *r)
{
	taut_vec_free(&r->ops);
	taut_vec_free(&r->place);
	taut_vec_free(&r->places);
	free(r->later);
	free(r->group);
	free(r->was);
	free(r->now);
	memset(r, 0, sizeof *r);
}

taut_status tauti_repeat_place(struct tauti_repeat *r,
	struct tauti_place place, uint32_t *ret_place, struct taut_error *err)
{
	if (!taut_vec_push(&r->places, place))
		return no_memory(err);
	*ret_place = (uint32_t)r->places.count - 1;
	return TAUT_OK;
}

taut_status tauti_repeat_add(struct tauti_repeat *r, uint32_t op,
	uint32_t place, bool later, struct taut_error *err)
{
	if (!taut_vec_push(&r->ops, op) || !taut_vec_push(&r->place, place))
		return no_memory(err);
	r->later[op] = later;
	r->group[op] = r->places.data[place].group;
	r->was[op] = op;
	return TAUT_OK;
}

/* What another change made up has a name that the graph below has not. */
static const char *name_of(const struct tauti_repeat *r,
	const struct taut_op *op)
{
	const struct taut_names *names = r->w->graph->names;

	return op->name < taut_names_count(names) ?
		taut_names_text(names, op->name) : "added";
}

static taut_status copy_op(struct tauti_repeat *r, size_t i,
	struct taut_error *err)
{
	struct tauti_place *place = &r->places.data[r->place.data[i]];
	uint32_t op = r->ops.data[i];
	struct taut_op is;
	taut_status status;

	if (!taut_edit_op(r->w->edit, op, &is))
		return TAUT_OK;
	is.lane = place->lane;
	status = taut_edit_insert(r->w->edit, place->after, &is,
		name_of(r, &is), &r->now[op], err);
	if (!status)
		place->after = r->now[op];
	return status;
}

static void keep_wait(void *context, struct taut_wait wait)
{
	struct found *f = context;

	if (!f->full && !taut_vec_push(&f->waits, wait))
		f->full = true;
}

/* Waits out of op that go to another one of its group. */
static taut_status find_waits(const struct tauti_repeat *r, uint32_t op,
	struct found *f, struct taut_error *err)
{
	size_t n = 0;

	taut_vec_clear(&f->waits);
	taut_edit_each_out(r->w->edit, op, keep_wait, f);
	if (f->full)
		return no_memory(err);
	for (size_t i = 0; i < f->waits.count; i++) {
		struct taut_wait e = f->waits.data[i];

		if (e.op < r->n_ids && r->now[e.op] != TAUT_NONE &&
			r->group[e.op] == r->group[op])
			f->waits.data[n++] = e;
	}
	f->waits.count = n;
	return TAUT_OK;
}

static taut_status copy_waits(struct tauti_repeat *r, uint32_t op,
	struct found *f, struct taut_error *err)
{
	taut_status status = find_waits(r, op, f, err);

	for (size_t i = 0; !status && i < f->waits.count; i++) {
		struct taut_wait e = f->waits.data[i];
		bool around = r->later[op] && !r->later[e.op];

		status = taut_edit_connect(r->w->edit,
			around ? r->was[op] : r->now[op], r->now[e.op], e.kind,
			e.lag_ns, err);
	}
	return status;
}

taut_status tauti_repeat_copy(struct tauti_repeat *r, struct taut_error *err)
{
	struct found f = { .full = false };
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < r->ops.count; i++)
		status = copy_op(r, i, err);
	for (size_t i = 0; !status && i < r->ops.count; i++)
		if (r->now[r->ops.data[i]] != TAUT_NONE)
			status = copy_waits(r, r->ops.data[i], &f, err);
	for (size_t i = 0; !status && i < r->ops.count; i++)
		if (r->now[r->ops.data[i]] != TAUT_NONE)
			r->was[r->ops.data[i]] = r->now[r->ops.data[i]];
	taut_vec_free(&f.waits);
	return status;
}

static taut_status close_waits(struct tauti_repeat *r, uint32_t op,
	struct found *f, struct taut_error *err)
{
	taut_status status = find_waits(r, op, f, err);

	for (size_t i = 0; !status && i < f->waits.count; i++) {
		struct taut_wait e = f->waits.data[i];

		if (!r->later[e.op])
			status = taut_edit_connect(r->w->edit, r->was[op],
				e.op, e.kind, e.lag_ns, err);
	}
	return status;
}

taut_status tauti_repeat_close(struct tauti_repeat *r, struct taut_error *err)
{
	struct found f = { .full = false };
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < r->ops.count; i++) {
		uint32_t op = r->ops.data[i];

		if (r->later[op] && r->was[op] != op)
			status = close_waits(r, op, &f, err);
	}
	taut_vec_free(&f.waits);
	return status;
}
