/* lanes.c - a small hash table; most questions are the last one again. */
#include "trace/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static uint32_t hash_lane(enum tauti_role role, int64_t pid, int64_t tid)
{
	uint64_t h = tauti_hash_mix(
		(uint64_t)pid ^ TAUTI_HASH_A, (uint64_t)tid ^ TAUTI_HASH_B);
	return (uint32_t)tauti_hash_mix(h ^ (uint64_t)role, TAUTI_HASH_C);
}

static bool is_lane(const struct tauti_lane *lane, enum tauti_role role,
	int64_t pid, int64_t tid)
{
	return lane->tid == tid && lane->pid == pid && lane->role == role;
}

/* The slot of a lane, or the empty one where it belongs. */
static uint32_t *find_slot(const struct tauti_lanes *lanes,
	enum tauti_role role, int64_t pid, int64_t tid)
{
	uint32_t i = hash_lane(role, pid, tid) & lanes->mask;
	for (;; i = (i + 1) & lanes->mask) {
		uint32_t id = lanes->slots[i];
		if (id == TAUT_NONE ||
			is_lane(&lanes->all.data[id], role, pid, tid))
			return &lanes->slots[i];
	}
}

static bool rehash(struct tauti_lanes *lanes, uint32_t n)
{
	uint32_t *slots = malloc(n * sizeof *slots);
	if (!slots)
		return false;
	memset(slots, 0xff, n * sizeof *slots);
	free(lanes->slots);
	lanes->slots = slots;
	lanes->mask = n - 1;
	for (uint32_t id = 0; id < lanes->all.count; id++) {
		const struct tauti_lane *lane = &lanes->all.data[id];
		*find_slot(lanes, lane->role, lane->pid, lane->tid) = id;
	}
	return true;
}

static uint32_t add_new(struct tauti_lanes *lanes, enum tauti_role role,
	int64_t pid, int64_t tid)
{
	struct tauti_lane lane = {
		.role = role,
		.pid = pid,
		.tid = tid,
		.open = TAUT_NONE,
		.last_ns = INT64_MIN,
	};
	size_t n = lanes->all.count;
	if (n >= INT32_MAX / 4 || !taut_vec_push(&lanes->all, lane))
		return TAUT_NONE;
	if (n * 2 < lanes->mask) {
		*find_slot(lanes, role, pid, tid) = (uint32_t)n;
	} else if (!rehash(lanes, (lanes->mask + 1) * 2)) {
		lanes->all.count--;
		return TAUT_NONE;
	}
	return (uint32_t)n;
}

uint32_t tauti_lanes_add(struct tauti_lanes *lanes, enum tauti_role role,
	int64_t pid, int64_t tid)
{
	if (lanes->recent < lanes->all.count &&
		is_lane(&lanes->all.data[lanes->recent], role, pid, tid))
		return lanes->recent;
	if (!lanes->slots && !rehash(lanes, 32))
		return TAUT_NONE;
	uint32_t id = *find_slot(lanes, role, pid, tid);
	if (id == TAUT_NONE)
		id = add_new(lanes, role, pid, tid);
	lanes->recent = id;
	return id;
}

uint32_t tauti_lanes_find(const struct tauti_lanes *lanes,
	enum tauti_role role, int64_t pid, int64_t tid)
{
	return lanes->slots ? *find_slot(lanes, role, pid, tid) : TAUT_NONE;
}

void tauti_lanes_fini(struct tauti_lanes *lanes)
{
	taut_vec_free(&lanes->all);
	free(lanes->slots);
	lanes->slots = NULL;
}

static int by_role_pid_tid(const void *a, const void *b)
{
	const struct tauti_lane *x = *(struct tauti_lane *const *)a;
	const struct tauti_lane *y = *(struct tauti_lane *const *)b;
	if (x->role != y->role)
		return x->role < y->role ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

static enum taut_lane_kind kind_of(enum tauti_role role)
{
	switch (role) {
	case TAUTI_ROLE_THREAD:
		return TAUT_LANE_THREAD;
	case TAUTI_ROLE_STREAM:
		return TAUT_LANE_STREAM;
	default:
		return TAUT_LANE_OTHER;
	}
}

taut_status tauti_lanes_finish(const struct tauti_lanes *lanes,
	struct taut_lane *out, uint32_t *ret_new_id)
{
	size_t n = lanes->all.count;
	const struct tauti_lane **order = malloc((n + 1) * sizeof *order);
	if (!order)
		return TAUT_ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = &lanes->all.data[i];
	qsort(order, n, sizeof *order, by_role_pid_tid);
	for (size_t i = 0; i < n; i++) {
		out[i] = (struct taut_lane){
			.kind = kind_of(order[i]->role),
			.pid = order[i]->pid,
			.tid = order[i]->tid,
			.name = order[i]->name,
		};
		ret_new_id[order[i] - lanes->all.data] = (uint32_t)i;
	}
	free(order);
	return TAUT_OK;
}
