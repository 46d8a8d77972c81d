/* small_change.h - changes of a small job's edit at random, for tests of edits
 * only: every kind, often nonsense. Same seed, same changes. */
#ifndef TAUT_REPLAY_SMALL_CHANGE_H
#define TAUT_REPLAY_SMALL_CHANGE_H

#include <stdlib.h>

#include <taut/edit.h>

#include "small_job.h"

enum { SMALL_IDS = 4096 };

static inline uint32_t small_op(const struct taut_edit *edit, uint64_t *seed)
{
	return small_pick(seed, taut_edit_ops(edit));
}

static inline uint32_t small_place(const struct taut_edit *edit, uint64_t *seed)
{
	return small_pick(seed, 4) ? small_op(edit, seed) : TAUT_NONE;
}

static inline uint32_t small_any_lane(const struct taut_edit *edit, uint64_t *seed)
{
	return small_pick(seed, taut_edit_lanes(edit));
}

static inline taut_status small_insert(struct taut_edit *edit, uint64_t *seed)
{
	static const char *const names[] = { "new", "gemm", "newer", NULL };
	struct taut_op op = {
		.dur_ns = small_pick(seed, 9), .gap_ns = small_gap(seed),
		.lane = small_any_lane(edit, seed), .name = 1,
		.event = small_pick(seed, 2) ? TAUT_NONE : small_pick(seed, 9),
		.kind = small_pick(seed, 5),
		.like = small_pick(seed, 2) ? TAUT_NONE :
			small_pick(seed, taut_edit_below(edit)->n_ops),
	};
	uint32_t id;

	return taut_edit_insert(edit, small_place(edit, seed), &op,
		names[small_pick(seed, 4)], &id, NULL);
}

static inline taut_status small_connect(struct taut_edit *edit, uint64_t *seed)
{
	uint32_t from = small_op(edit, seed), to = small_op(edit, seed);

	return taut_edit_connect(edit, from, to, small_pick(seed, 6) |
		(small_pick(seed, 2) ? TAUT_EDGE_FROM_START : 0),
		small_signed(seed, 9), NULL);
}

static inline void small_keep_first(void *context, struct taut_wait wait)
{
	uint32_t *first = context;

	if (*first == TAUT_NONE)
		*first = wait.op;
}

static inline taut_status small_disconnect(struct taut_edit *edit, uint64_t *seed)
{
	uint32_t op = small_op(edit, seed), other = TAUT_NONE;

	if (small_pick(seed, 2)) {
		taut_edit_each_out(edit, op, small_keep_first, &other);
		return taut_edit_disconnect(edit, op, other, NULL);
	}
	taut_edit_each_in(edit, op, small_keep_first, &other);
	return taut_edit_disconnect(edit, other, op, NULL);
}

static inline taut_status small_scale(struct taut_edit *edit, uint64_t *seed)
{
	struct taut_select select = { .name = small_pick(seed, 2) ? "*e*" :
		NULL, .kinds = small_pick(seed, 256) };
	uint32_t *ops;
	size_t n;
	taut_status status = taut_edit_select(edit, &select, &ops, &n, NULL);

	if (status)
		return status;
	status = taut_edit_scale(edit, ops, n, small_pick(seed, 4), NULL);
	free(ops);
	return status;
}

static inline taut_status small_durs(struct taut_edit *edit, uint64_t *seed)
{
	static int64_t durs[SMALL_IDS];

	for (uint32_t i = 0; i < taut_edit_ops(edit); i++)
		durs[i] = small_pick(seed, 9);
	return taut_edit_set_durs(edit, durs, NULL);
}

static inline taut_status small_add_collective(struct taut_edit *edit, uint64_t *seed)
{
	struct taut_member members[3];
	struct taut_collective coll = { .kind = small_pick(seed, 4), .name = 1,
		.group_size = 2, .bytes = small_pick(seed, 99) };
	uint32_t n = 1 + small_pick(seed, 3), id, arrive[3];
	struct taut_op op;

	for (uint32_t i = 0; i < n; i++) {
		members[i] = (struct taut_member) { small_any_lane(edit, seed),
			small_place(edit, seed), small_pick(seed, 9), 0 };
		if (members[i].after != TAUT_NONE &&
			taut_edit_op(edit, members[i].after, &op))
			members[i].lane = op.lane;
	}
	return taut_edit_add_collective(edit, &coll, members, n, &id, arrive,
		NULL);
}

static inline taut_status small_set_collective(struct taut_edit *edit, uint64_t *seed)
{
	struct taut_collective values = { .kind = small_pick(seed, 4),
		.group = 1, .group_size = -1, .bytes = small_pick(seed, 99) };
	uint32_t n = taut_edit_collectives(edit);

	return taut_edit_set_collective(edit, small_pick(seed, n + 1), &values,
		NULL);
}

static inline taut_status small_copy_rank(struct taut_edit *edit, uint64_t *seed)
{
	uint8_t join[SMALL_IDS];
	static uint32_t op_of[SMALL_IDS];
	uint32_t rank = small_pick(seed, taut_edit_ranks(edit)), copy;

	for (int i = 0; i < SMALL_IDS; i++)
		join[i] = small_pick(seed, 2);
	if (taut_edit_ops(edit) > SMALL_IDS / 2)
		return TAUT_EINVAL;
	return taut_edit_copy_rank(edit, rank, small_pick(seed, 2) ? join :
		NULL, &copy, small_pick(seed, 2) ? op_of : NULL, NULL);
}

static inline taut_status small_add_lane(struct taut_edit *edit, uint64_t *seed)
{
	struct taut_graph_lane lane = {
		.trace = small_pick(seed, taut_edit_ranks(edit)),
		.trace_lane = small_pick(seed, 4) };
	uint32_t id;

	return taut_edit_add_lane(edit, &lane, &id, NULL);
}

/* Of kind `what`; EINVAL as often as it is nonsense. */
static inline taut_status small_change(
	struct taut_edit *edit, uint32_t what, uint64_t *seed)
{
	uint32_t op = small_op(edit, seed);
	uint32_t coll = small_pick(seed, taut_edit_collectives(edit) + 1);

	switch (what) {
	case 0: return taut_edit_set_dur(edit, op, small_pick(seed, 9), NULL);
	case 1: return taut_edit_set_gap(edit, op, small_signed(seed, 5), NULL);
	case 2: return small_insert(edit, seed);
	case 3: return taut_edit_cut(edit, op, NULL);
	case 4: return small_connect(edit, seed);
	case 5: return small_disconnect(edit, seed);
	case 6: return taut_edit_move(edit, op, small_place(edit, seed),
		small_any_lane(edit, seed), NULL);
	case 7: return taut_edit_remove(edit, op, NULL);
	case 8: return small_scale(edit, seed);
	case 9: return small_durs(edit, seed);
	case 10: return small_add_collective(edit, seed);
	case 11: return small_set_collective(edit, seed);
	case 12: return taut_edit_remove_collective(edit, coll, NULL);
	case 13: return taut_edit_set_like(edit, coll, 0, NULL);
	case 14: return small_copy_rank(edit, seed);
	case 15: return taut_edit_remove_rank(edit,
		small_pick(seed, taut_edit_ranks(edit)), NULL);
	default: return small_add_lane(edit, seed);
	}
}

enum { SMALL_KINDS = 17 };

/* Copies of ranks are large, and rare therefore. */
static inline uint32_t small_kind(uint64_t *seed)
{
	uint32_t what = small_pick(seed, SMALL_KINDS);

	return (what == 14 || what == 15) && small_pick(seed, 3) ? 2 : what;
}

#endif /* TAUT_REPLAY_SMALL_CHANGE_H */
