/* edit_select.c - which operations: by name, kind, rank, lane, collective. */
#include <fnmatch.h>
#include <stdlib.h>

#include "graph/edit.h"

struct selection {
	const struct taut_edit *edit;
	const struct taut_select *by;
	uint8_t *fits; /* by name: 0 not asked yet, 1 no, 2 yes */
	uint32_t n_names;
	TAUT_VEC(uint32_t) ops;
};

static bool name_fits(struct selection *s, uint32_t op)
{
	uint32_t name = tauti_name_of(s->edit, op);
	size_t len;

	if (!s->by->name)
		return true;
	if (name >= s->n_names)
		return !fnmatch(s->by->name, "", 0);
	if (!s->fits[name])
		s->fits[name] = fnmatch(s->by->name,
			tauti_edit_text(s->edit, name, &len), 0) ? 1 : 2;
	return s->fits[name] == 2;
}

static bool see(struct selection *s, uint32_t op)
{
	const struct taut_select *by = s->by;

	if ((by->kinds && !(by->kinds & 1u << tauti_kind(s->edit, op))) ||
		(by->collective &&
		tauti_coll_of(s->edit, op) != *by->collective) ||
		tauti_dur(s->edit, op) < by->least_dur_ns ||
		!name_fits(s, op) ||
		(by->keep && !by->keep(by->context, s->edit, op)))
		return true;
	return taut_vec_push(&s->ops, op);
}

static bool see_lane(struct selection *s, uint32_t lane)
{
	uint32_t op = tauti_lanes(s->edit)[lane].first;

	if (s->by->rank && tauti_lanes(s->edit)[lane].is.trace != *s->by->rank)
		return true;
	for (; op != TAUT_NONE; op = tauti_next(s->edit, op))
		if (!see(s, op))
			return false;
	return true;
}

static bool see_all(struct selection *s)
{
	if (s->by->lane)
		return see_lane(s, *s->by->lane);
	for (uint32_t l = 0; l < tauti_count(s->edit, TAUTI_LANES); l++)
		if (!see_lane(s, l))
			return false;
	return true;
}

static taut_status check(const struct taut_edit *edit,
	const struct taut_select *by, struct taut_error *err)
{
	taut_status status = by->lane ?
		tauti_edit_check_lane(edit, *by->lane, err) : TAUT_OK;

	if (!status && by->rank && !tauti_has_rank(edit, *by->rank))
		status = taut_error_set(err, TAUT_EINVAL, -1,
			"edit: rank %u is not there", (unsigned)*by->rank);
	if (!status && by->collective &&
		!tauti_has_coll(edit, *by->collective))
		status = taut_error_set(err, TAUT_EINVAL, -1, "edit: "
			"collective %u is not there",
			(unsigned)*by->collective);
	return status;
}

taut_status taut_edit_select(const struct taut_edit *edit,
	const struct taut_select *select, uint32_t **ret_ops, size_t *ret_n,
	struct taut_error *reterr)
{
	struct selection s = { .edit = edit, .by = select };
	taut_status status = check(edit, select, reterr);
	bool ok = true;

	if (status)
		return status;
	s.n_names = taut_names_count(edit->below->names) +
		(edit->names ? taut_names_count(edit->names) : 0);
	if (select->name)
		ok = (s.fits = calloc(s.n_names + 1, 1)) != NULL;
	ok = ok && see_all(&s);
	free(s.fits);
	if (!ok) {
		taut_vec_free(&s.ops);
		return tauti_edit_no_memory(reterr);
	}
	*ret_ops = s.ops.data;
	*ret_n = s.ops.count;
	return TAUT_OK;
}
