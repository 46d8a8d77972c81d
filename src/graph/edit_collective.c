/* edit_collective.c - collectives of an edit: members, new ones, gone ones. */
#include "graph/edit.h"

#define PUT_MEMBER(edit, member, field, value) \
	TAUTI_PUT((edit), TAUTI_MEMBERS, (member), struct tauti_member, field, \
		(value))

static taut_status check_coll(const struct taut_edit *edit, uint32_t coll,
	struct taut_error *err)
{
	if (tauti_has_coll(edit, coll))
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1,
		"edit: collective %u is not there", (unsigned)coll);
}

int taut_edit_collective(const struct taut_edit *edit, uint32_t collective,
	struct taut_collective *ret_collective)
{
	if (!tauti_has_coll(edit, collective))
		return 0;
	*ret_collective = tauti_colls(edit)[collective].is;
	return 1;
}

uint32_t taut_edit_collective_like(
	const struct taut_edit *edit, uint32_t collective)
{
	return tauti_colls(edit)[collective].like;
}

void taut_edit_each_member(const struct taut_edit *edit, uint32_t collective,
	void (*see)(void *context, uint32_t arrive), void *context)
{
	const struct tauti_member *members = tauti_members(edit);
	uint32_t m;

	if (!tauti_has_coll(edit, collective))
		return;
	for (m = tauti_colls(edit)[collective].first; m != TAUT_NONE;
		m = members[m].next)
		see(context, members[m].arrive);
}

/* --- members -------------------------------------------------------------------------- */

bool tauti_member_add(struct taut_edit *edit, uint32_t coll, uint32_t arrive)
{
	uint32_t id = tauti_count(edit, TAUTI_MEMBERS);
	uint32_t last = tauti_colls(edit)[coll].last;
	uint32_t n = tauti_colls(edit)[coll].is.n_members;

	return tauti_edit_push(edit, TAUTI_MEMBERS, &(struct tauti_member) {
		arrive, TAUT_NONE, last }) &&
		(last == TAUT_NONE ? TAUTI_PUT_COLL(edit, coll, first, id) :
		PUT_MEMBER(edit, last, next, id)) &&
		TAUTI_PUT_COLL(edit, coll, last, id) &&
		TAUTI_PUT_COLL(edit, coll, is.n_members, n + 1);
}

static bool unlink_member(struct taut_edit *edit, uint32_t coll, uint32_t id)
{
	struct tauti_member m = tauti_members(edit)[id];
	uint32_t n = tauti_colls(edit)[coll].is.n_members;

	return (m.before == TAUT_NONE ?
		TAUTI_PUT_COLL(edit, coll, first, m.next) :
		PUT_MEMBER(edit, m.before, next, m.next)) &&
		(m.next == TAUT_NONE ?
		TAUTI_PUT_COLL(edit, coll, last, m.before) :
		PUT_MEMBER(edit, m.next, before, m.before)) &&
		TAUTI_PUT_COLL(edit, coll, is.n_members, n - 1);
}

static uint32_t member_of(
	const struct taut_edit *edit, uint32_t coll, uint32_t arrive)
{
	const struct tauti_member *members = tauti_members(edit);
	uint32_t m = tauti_colls(edit)[coll].first;

	while (m != TAUT_NONE && members[m].arrive != arrive)
		m = members[m].next;
	return m;
}

/* The two ops of a member belong to nothing from here on. */
static bool part(struct taut_edit *edit, uint32_t arrive, uint32_t join)
{
	uint32_t transfer = tauti_next(edit, arrive), n;

	return tauti_wait_drop_between(edit, arrive, join, &n) &&
		tauti_wait_drop_between(edit, join, transfer, &n) &&
		TAUTI_PUT_OP(edit, transfer, collective, TAUT_NONE) &&
		TAUTI_PUT_OP(edit, arrive, collective, TAUT_NONE);
}

static bool end_coll(struct taut_edit *edit, uint32_t coll)
{
	return tauti_op_cut(edit, tauti_colls(edit)[coll].is.join_op) &&
		TAUTI_PUT_COLL(edit, coll, gone, 1);
}

bool tauti_member_leave(struct taut_edit *edit, uint32_t arrive)
{
	uint32_t coll = tauti_coll_of(edit, arrive);
	uint32_t member = member_of(edit, coll, arrive);
	int32_t size = tauti_colls(edit)[coll].is.group_size;

	if (!part(edit, arrive, tauti_colls(edit)[coll].is.join_op) ||
		(member != TAUT_NONE && !unlink_member(edit, coll, member)) ||
		(size > 0 && !TAUTI_PUT_COLL(edit, coll, is.group_size,
		size - 1)))
		return false;
	return tauti_colls(edit)[coll].is.n_members || end_coll(edit, coll);
}

/* --- a new one --------------------------------------------------------------------------- */

bool tauti_join_lane(struct taut_edit *edit, uint32_t *ret_lane)
{
	const struct tauti_lane *lanes = tauti_lanes(edit);
	struct tauti_lane joins = { { TAUT_NONE, TAUT_NONE, TAUT_LANE_OTHER,
		0, 1 }, TAUT_NONE, TAUT_NONE, 0 };

	for (uint32_t l = tauti_count(edit, TAUTI_LANES); l--;)
		if (lanes[l].is.trace == TAUT_NONE) {
			*ret_lane = l;
			return true;
		}
	*ret_lane = tauti_count(edit, TAUTI_LANES);
	return tauti_edit_push(edit, TAUTI_LANES, &joins);
}

/* An op of the collective to come, which stands behind `after`. */
static bool add_op(struct taut_edit *edit, enum taut_op_kind kind,
	uint32_t coll, uint32_t name, int64_t dur_ns, uint32_t after,
	uint32_t lane, uint32_t *ret_op)
{
	struct tauti_cell cell = {
		.lane = lane, .name = name, .event = TAUT_NONE,
		.collective = coll, .like = TAUT_NONE,
		.next = TAUT_NONE, .before = TAUT_NONE,
		.out_first = TAUT_NONE, .out_last = TAUT_NONE,
		.in_first = TAUT_NONE, .in_last = TAUT_NONE,
		.kind = (uint8_t)kind,
	};

	return tauti_op_add(edit, &cell, dur_ns, 0, ret_op) &&
		tauti_place(edit, *ret_op, after, lane);
}

static bool add_member(struct taut_edit *edit, uint32_t coll,
	const struct taut_member *member, uint32_t *ret_arrive)
{
	uint32_t join = tauti_colls(edit)[coll].is.join_op, transfer;
	uint32_t name = member->name ? member->name :
		tauti_colls(edit)[coll].is.name;

	return add_op(edit, TAUT_OP_ARRIVE, coll, name, 0, member->after,
		member->lane, ret_arrive) &&
		add_op(edit, TAUT_OP_TRANSFER, coll, name, member->dur_ns,
			*ret_arrive, member->lane, &transfer) &&
		tauti_wait_add(edit, *ret_arrive, join, TAUT_EDGE_COMM, 0) &&
		tauti_wait_add(edit, join, transfer, TAUT_EDGE_COMM, 0) &&
		tauti_member_add(edit, coll, *ret_arrive);
}

static bool add_coll(struct taut_edit *edit,
	const struct taut_collective *is, uint32_t *ret_collective)
{
	struct tauti_coll coll = { *is, TAUT_NONE, TAUT_NONE, TAUT_NONE, 0 };
	uint32_t lane;

	*ret_collective = tauti_count(edit, TAUTI_COLLS);
	coll.is.n_members = 0;
	coll.is.first_member = 0;
	return tauti_join_lane(edit, &lane) &&
		add_op(edit, TAUT_OP_JOIN, *ret_collective, is->name, 0,
			tauti_lanes(edit)[lane].last, lane, &coll.is.join_op) &&
		tauti_edit_push(edit, TAUTI_COLLS, &coll);
}

static taut_status check_values(const struct taut_edit *edit,
	const struct taut_collective *is, struct taut_error *err)
{
	if ((unsigned)is->kind < TAUT_COLL_KINDS && is->group_size >= -1 &&
		is->bytes >= -1)
		return tauti_edit_check_name(edit, is->group, err);
	return taut_error_set(err, TAUT_EINVAL, -1, "edit: a collective's "
		"kind %d, group of %d or bytes %lld cannot be", (int)is->kind,
		(int)is->group_size, (long long)is->bytes);
}

static taut_status check_members(const struct taut_edit *edit,
	const struct taut_member *members, uint32_t n, struct taut_error *err)
{
	if (!n)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"edit: a collective needs a member");
	for (uint32_t i = 0; i < n; i++) {
		uint32_t lane = members[i].lane;
		taut_status status = tauti_edit_check_place(edit,
			members[i].after, &lane, err);

		if (!status)
			status = tauti_edit_check_name(
				edit, members[i].name, err);
		if (status)
			return status;
		if (lane != members[i].lane || members[i].dur_ns < 0)
			return taut_error_set(err, TAUT_EINVAL, -1, "edit: "
				"member %u: operation %u stands on lane %u, "
				"not %u, or its duration is below 0",
				(unsigned)i, (unsigned)members[i].after,
				(unsigned)lane, (unsigned)members[i].lane);
	}
	return TAUT_OK;
}

taut_status taut_edit_add_collective(struct taut_edit *edit,
	const struct taut_collective *collective,
	const struct taut_member *members, uint32_t n_members,
	uint32_t *ret_collective, uint32_t *ret_arrive,
	struct taut_error *reterr)
{
	taut_status status = check_values(edit, collective, reterr);
	uint32_t coll, arrive;
	bool ok;

	if (!status)
		status = tauti_edit_check_name(edit, collective->name, reterr);
	if (!status)
		status = check_members(edit, members, n_members, reterr);
	if (status)
		return status;
	tauti_edit_begin(edit);
	ok = add_coll(edit, collective, &coll);
	for (uint32_t i = 0; ok && i < n_members; i++) {
		ok = add_member(edit, coll, &members[i], &arrive);
		if (ok && ret_arrive)
			ret_arrive[i] = arrive;
	}
	if (!ok)
		return tauti_edit_end(edit, tauti_edit_no_memory(reterr));
	*ret_collective = coll;
	return tauti_edit_end(edit, TAUT_OK);
}

taut_status taut_edit_set_collective(struct taut_edit *edit,
	uint32_t collective, const struct taut_collective *values,
	struct taut_error *reterr)
{
	taut_status status = check_coll(edit, collective, reterr);

	if (!status)
		status = check_values(edit, values, reterr);
	if (status)
		return status;
	tauti_edit_begin(edit);
	if (!TAUTI_PUT_COLL(edit, collective, is.bytes, values->bytes) ||
		!TAUTI_PUT_COLL(edit, collective, is.kind, values->kind) ||
		!TAUTI_PUT_COLL(edit, collective, is.group, values->group) ||
		!TAUTI_PUT_COLL(edit, collective, is.group_size,
		values->group_size))
		status = tauti_edit_no_memory(reterr);
	return tauti_edit_end(edit, status);
}

taut_status taut_edit_set_like(struct taut_edit *edit, uint32_t collective,
	uint32_t like, struct taut_error *reterr)
{
	taut_status status = check_coll(edit, collective, reterr);

	if (status)
		return status;
	if (like != TAUT_NONE && like >= edit->below->n_collectives)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "edit: like %u "
			"is no collective of the graph below", (unsigned)like);
	tauti_edit_begin(edit);
	return tauti_edit_end(edit, TAUTI_PUT_COLL(edit, collective, like,
		like) ? TAUT_OK : tauti_edit_no_memory(reterr));
}

static bool remove_coll(struct taut_edit *edit, uint32_t coll)
{
	for (;;) {
		uint32_t member = tauti_colls(edit)[coll].first;
		uint32_t arrive, transfer;

		if (member == TAUT_NONE)
			return tauti_colls(edit)[coll].gone ||
				end_coll(edit, coll);
		arrive = tauti_members(edit)[member].arrive;
		transfer = tauti_next(edit, arrive);
		if (!tauti_member_leave(edit, arrive) ||
			!tauti_op_remove(edit, arrive) ||
			!tauti_op_remove(edit, transfer))
			return false;
	}
}

taut_status taut_edit_remove_collective(struct taut_edit *edit,
	uint32_t collective, struct taut_error *reterr)
{
	taut_status status = check_coll(edit, collective, reterr);

	if (status)
		return status;
	tauti_edit_begin(edit);
	return tauti_edit_end(edit, remove_coll(edit, collective) ? TAUT_OK :
		tauti_edit_no_memory(reterr));
}
