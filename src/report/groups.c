/* groups.c - see groups.h. */
#include "report/groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory for the names of groups");
}

typedef TAUT_VEC(char) text;

static bool put(text *to, const char *bytes, size_t len)
{
	if (!taut_vec_reserve(to, len + 1))
		return false;
	memcpy(to->data + to->count, bytes, len);
	to->count += len;
	to->data[to->count] = '\0';
	return true;
}

static int by_number(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

/* "[0, 1]" behind what is in to. */
static bool put_ranks(const struct taut_graph *g,
	const struct taut_collective *coll, text *to)
{
	int32_t *ranks = malloc((coll->n_members + 1) * sizeof *ranks);
	bool ok = ranks != NULL;
	char number[16];

	for (uint32_t i = 0; ok && i < coll->n_members; i++) {
		uint32_t op = g->member_arrive[coll->first_member + i];

		ranks[i] = g->run->traces[
			g->lanes[g->lane[op]].trace].rank;
	}
	if (ok)
		qsort(ranks, coll->n_members, sizeof *ranks, by_number);
	for (uint32_t i = 0; ok && i < coll->n_members; i++) {
		int len = snprintf(number, sizeof number, "%s%d",
			i ? ", " : "[", (int)ranks[i]);

		ok = put(to, number, (size_t)len);
	}
	free(ranks);
	return ok && put(to, "]", 1);
}

struct labels {
	const struct taut_graph *g;
	struct taut_arena *arena;
	struct tauti_group_names *to;
	struct taut_names *sets;  /* "name\n[0, 1]": id - 1 is the group */
	struct taut_names *names; /* that are taken */
	uint32_t *name_of;        /* by group: id in names; 0 none */
	uint32_t *uses;           /* by name: groups of that name */
	text scratch;
};

/* The groups of all collectives, by name and ranks. */
static bool find_sets(struct labels *l)
{
	const struct taut_graph *g = l->g;

	for (uint32_t i = 0; i < g->n_collectives; i++) {
		const struct taut_collective *coll = &g->collectives[i];
		const char *name = taut_names_text(g->names, coll->group);
		uint32_t id, known = taut_names_count(l->sets);

		taut_vec_clear(&l->scratch);
		if (!put(&l->scratch, name, strlen(name)) ||
			!put(&l->scratch, "\n", 1) ||
			!put_ranks(g, coll, &l->scratch))
			return false;
		id = taut_names_add(l->sets, l->scratch.data, l->scratch.count);
		if (id == TAUT_NONE)
			return false;
		l->to->of[i] = id - 1;
		if (id < known)
			continue;
		id = taut_names_add(l->names, name, strlen(name));
		if (id == TAUT_NONE)
			return false;
		l->name_of[l->to->of[i]] = id;
		l->uses[id]++;
	}
	l->to->n = taut_names_count(l->sets) - 1;
	return true;
}

/* The recorded name, or the first number that is no name. */
static const char *label(struct labels *l, uint32_t i, uint32_t *next)
{
	char number[16];
	size_t len;

	if (l->name_of[i] && l->uses[l->name_of[i]] == 1)
		return taut_arena_printf(l->arena, "%s",
			taut_names_text(l->names, l->name_of[i]));
	do {
		len = (size_t)snprintf(
			number, sizeof number, "%u", (unsigned)(*next)++);
	} while (taut_names_find(l->names, number, len) != TAUT_NONE);
	return taut_arena_strndup(l->arena, number, len);
}

static bool name_groups(struct labels *l)
{
	uint32_t next = 0;
	struct tauti_group_name *all = TAUT_ARENA_ARRAY(
		l->arena, struct tauti_group_name, l->to->n + 1);

	for (uint32_t i = 0; all && i < l->to->n; i++) {
		const char *ranks =
			strchr(taut_names_text(l->sets, i + 1), '\n') + 1;
		size_t len = strlen(ranks);

		all[i].label = label(l, i, &next);
		all[i].ranks = taut_arena_strndup(l->arena, ranks, len);
		if (!all[i].label || !all[i].ranks)
			return false;
	}
	l->to->all = all;
	return all != NULL;
}

/* Collectives are numbered in their group, as all of its ranks see them. */
static bool number(const struct labels *l)
{
	uint32_t *count = calloc(l->to->n + 1, sizeof *count);

	for (uint32_t i = 0; count && i < l->g->n_collectives; i++)
		l->to->seq[i] = count[l->to->of[i]]++;
	free(count);
	return count != NULL;
}

taut_status tauti_groups_name(const struct taut_graph *graph,
	struct taut_arena *arena, struct tauti_group_names *ret_groups,
	struct taut_error *reterr)
{
	size_t n = graph->n_collectives;
	struct tauti_group_names to = {
		.of = TAUT_ARENA_ARRAY(arena, uint32_t, n + 1),
		.seq = TAUT_ARENA_ARRAY(arena, uint32_t, n + 1),
	};
	struct labels l = {
		.g = graph,
		.arena = arena,
		.to = &to,
		.sets = taut_names_create(),
		.names = taut_names_create(),
		.name_of = calloc(n + 1, sizeof *l.name_of),
		.uses = calloc(n + 2, sizeof *l.uses),
	};
	bool ok = to.of && to.seq && l.sets && l.names && l.name_of && l.uses &&
		find_sets(&l) && name_groups(&l) && number(&l);

	taut_names_destroy(l.sets);
	taut_names_destroy(l.names);
	free(l.name_of);
	free(l.uses);
	taut_vec_free(&l.scratch);
	if (!ok)
		return no_memory(reterr);
	*ret_groups = to;
	return TAUT_OK;
}
