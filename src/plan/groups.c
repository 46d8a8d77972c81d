/* groups.c - see groups.h. */
#include "plan/groups.h"

#include <inttypes.h>
#include <string.h>

#include "whatif/ddp.h"

enum { SIZE_BYTES = 24 };

void tauti_groups_find(
	const struct tauti_plan_order *order, struct tauti_groups *ret_groups)
{
	struct tauti_groups groups = { .order = *order };
	int64_t all = 0, held = 0;

	for (uint32_t i = 0; i < order->n; i++)
		all += order->bytes[i];
	for (uint32_t i = 0; i + 1 < order->n &&
		groups.n_sites < TAUTI_GROUPS_SITES; i++) {
		held += order->bytes[i];
		if (order->n - 1 > TAUTI_GROUPS_SITES &&
			held * TAUTI_GROUPS_SITES < all)
			continue;
		groups.at[groups.n_sites++] = i + 1;
		held = 0;
	}
	*ret_groups = groups;
}

/* begins: by gradient: 1 where a bucket begins. */
static taut_status find_begins(const struct tauti_groups *g, int64_t cap,
	uint8_t *begins, struct taut_error *err)
{
	double bytes = (double)cap;
	tauti_plan plan = { 0 };
	taut_status status;

	if (!cap) {
		for (uint32_t i = 0; i < g->order.n_buckets; i++)
			begins[g->order.first[i]] = 1;
		return TAUT_OK;
	}
	status = tauti_ddp_plan(
		g->order.bytes, g->order.n, &bytes, 1, &plan, err);
	for (size_t i = 0; !status && i < plan.count; i++)
		begins[plan.data[i]] = 1;
	taut_vec_free(&plan);
	return status;
}

/* A bucket ends when it has come to its size: so its bytes say where. One alone is told
 * twice, for a row has two. */
static void put_sizes(const struct tauti_groups *g, const uint8_t *begins,
	uint32_t n_buckets, size_t room, char *text)
{
	int64_t held = 0;
	int at = snprintf(text, room, "bucket=");

	for (uint32_t i = 0; i < g->order.n; i++) {
		held += g->order.bytes[i];
		if (i + 1 < g->order.n && !begins[i + 1])
			continue;
		for (int k = n_buckets == 1 ? 2 : 1; k > 0; k--)
			at += snprintf(text + at, room - (size_t)at,
				"%" PRId64 "+", held);
		held = 0;
	}
	text[at - 1] = '\0';
}

taut_status tauti_groups_text(const struct tauti_groups *g, int64_t cap,
	const uint8_t *flips, struct taut_arena *arena, const char **ret_text,
	struct taut_error *err)
{
	uint8_t *begins;
	uint32_t n = 1;
	char *text;
	taut_status status;

	*ret_text = NULL;
	if (!memchr(flips, 1, g->n_sites))
		return TAUT_OK;
	begins = taut_arena_calloc(arena, (size_t)g->order.n + 1, 1);
	if (!begins)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for groups");
	status = find_begins(g, cap, begins, err);
	for (uint32_t i = 0; i < g->n_sites; i++)
		begins[g->at[i]] ^= flips[i];
	for (uint32_t i = 1; i < g->order.n; i++)
		n += begins[i];
	if (status || n > TAUTI_PLAN_SIZES)
		return status;
	text = taut_arena_calloc(arena, 8 + (size_t)(n + 1) * SIZE_BYTES, 1);
	if (!text)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for groups");
	put_sizes(g, begins, n, 8 + (size_t)(n + 1) * SIZE_BYTES, text);
	*ret_text = text;
	return TAUT_OK;
}
