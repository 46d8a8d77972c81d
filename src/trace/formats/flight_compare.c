/* flight_compare.c - what the dumps of several ranks say together: who has
 * not come to which collective, and where they called different things. */
#include "trace/formats/flight.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One group as one rank saw it. */
struct view {
	const struct taut_trace *trace;
	const char *group, *desc;
	long long last[3]; /* enqueued, started, completed */
};

/* One collective of one rank. */
struct call {
	const char *group, *what;
	int64_t seq, elements;
	int32_t rank;
};

struct comparison {
	struct taut_arena *arena;
	tauti_lines *lines;
	TAUT_VEC(struct view) views;
	TAUT_VEC(struct call) calls;
};

static int by_group(const void *a, const void *b)
{
	const struct view *x = a, *y = b;
	int order = strcmp(x->group, y->group);
	if (order)
		return order;
	return x->trace->rank < y->trace->rank ? -1 :
		x->trace->rank > y->trace->rank;
}

static int by_seq(const void *a, const void *b)
{
	const struct call *x = a, *y = b;
	int order = strcmp(x->group, y->group);
	if (order)
		return order;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* --- gathering ----------------------------------------------------------- */

static bool add_views(struct comparison *c, const struct taut_trace *t)
{
	size_t prefix = strlen(TAUTI_FLIGHT_GROUP);
	for (size_t i = 0; i < t->n_facts; i++) {
		const struct taut_fact *fact = &t->facts[i];
		struct view view = { .trace = t };
		int used = 0;
		if (strncmp(fact->key, TAUTI_FLIGHT_GROUP, prefix) != 0 ||
			sscanf(fact->value, "%lld %lld %lld%n", &view.last[0],
				&view.last[1], &view.last[2], &used) != 3)
			continue;
		view.group = fact->key + prefix;
		view.desc = fact->value + used;
		view.desc += *view.desc == ' ';
		if (!taut_vec_push(&c->views, view))
			return false;
	}
	return true;
}

static bool add_calls(struct comparison *c, const struct taut_trace *t)
{
	for (size_t i = 0; i < t->n_comms; i++) {
		const struct taut_comm_args *args = &t->comms[i];
		struct call call = {
			taut_names_text(t->names, args->group_name),
			taut_names_text(t->names, args->collective),
			args->seq, args->in_elements, t->rank };
		if (args->seq >= 0 && !taut_vec_push(&c->calls, call))
			return false;
	}
	return true;
}

/* --- saying -------------------------------------------------------------- */

/* "0-2, 5" of the ranks for which last[state] is `behind` seq or not. */
static void list_ranks(const struct view *views, size_t n, int state,
	long long seq, bool behind, char *out, size_t room)
{
	size_t len = 0;
	*out = '\0';
	for (size_t i = 0; i < n && len + 32 < room;) {
		size_t end = i;
		while (end < n && (views[end].last[state] < seq) == behind &&
			views[end].trace->rank - views[i].trace->rank ==
				(int32_t)(end - i))
			end++;
		if (end == i) {
			i++;
			continue;
		}
		len += (size_t)snprintf(out + len, room - len,
			end - i > 2 ? "%s%d-%d" : end - i > 1 ? "%s%d, %d" :
			"%s%d", len ? ", " : "", (int)views[i].trace->rank,
			(int)views[end - 1].trace->rank);
		i = end;
		if (len + 32 >= room)
			snprintf(out + len, room - len, " ...");
	}
}

static const char *what_of(
	const struct comparison *c, const char *group, long long seq)
{
	for (size_t i = 0; i < c->calls.count; i++)
		if (c->calls.data[i].seq == seq &&
			strcmp(c->calls.data[i].group, group) == 0)
			return c->calls.data[i].what;
	return "collective";
}

static bool say(struct comparison *c, const char *line)
{
	return line && taut_vec_push(c->lines, line);
}

static const char *plural(const char *ranks)
{
	return strpbrk(ranks, ",-") ? "s" : "";
}

/* The first state in which ranks differ: who was not scheduled cannot have
 * started, and who has not started holds up those that have. */
static bool compare_group(
	struct comparison *c, const struct view *views, size_t n)
{
	static const char *const did[] = { "scheduled", "started",
		"completed" };
	char late[160], others[160];
	for (int state = 0; state < 3; state++) {
		long long most = -1, least = INT64_MAX;
		for (size_t i = 0; i < n; i++) {
			if (views[i].last[state] > most)
				most = views[i].last[state];
			if (views[i].last[state] < least)
				least = views[i].last[state];
		}
		if (most < 0 || least == most || (state && least < 0))
			continue;
		long long seq = least + 1;
		list_ranks(views, n, state, seq, true, late, sizeof late);
		list_ranks(views, n, state, seq, false, others,
			sizeof others);
		return say(c, taut_arena_printf(c->arena,
			"rank%s %s never %s %.60s %lld of group %.40s%s%.60s%s, "
			"which rank%s %s %s: the job hangs there, unless the "
			"dumps were written at different times",
			plural(late), late, did[state], what_of(c, views->group, seq), seq,
			views->group, *views->desc ? " (" : "", views->desc,
			*views->desc ? ")" : "", plural(others), others,
			did[state]));
	}
	return true;
}

/* The first collective of a group that is not the same on all ranks. */
static bool compare_calls(struct comparison *c)
{
	const char *done = NULL;
	for (size_t i = 1; i < c->calls.count; i++) {
		const struct call *a = &c->calls.data[i - 1];
		const struct call *b = &c->calls.data[i];
		if (strcmp(a->group, b->group) != 0 || a->seq != b->seq ||
			(done && strcmp(done, b->group) == 0) ||
			strcmp(a->what, b->what) == 0)
			continue;
		done = b->group;
		if (!say(c, taut_arena_printf(c->arena,
			"collective %" PRId64 " of group %.40s is %.60s on "
			"rank %d and %.60s on rank %d: the ranks have gone "
			"different ways", a->seq, a->group, a->what,
			(int)a->rank, b->what, (int)b->rank)))
			return false;
	}
	return true;
}

static bool compare(struct comparison *c)
{
	struct view *views = c->views.data;
	if (c->views.count)
		qsort(views, c->views.count, sizeof *views, by_group);
	if (c->calls.count)
		qsort(c->calls.data, c->calls.count, sizeof *c->calls.data,
			by_seq);
	for (size_t i = 0, n; i < c->views.count; i += n) {
		for (n = 1; i + n < c->views.count &&
			strcmp(views[i].group, views[i + n].group) == 0; n++)
			;
		if (n > 1 && !compare_group(c, views + i, n))
			return false;
	}
	return compare_calls(c);
}

taut_status tauti_flight_compare(const struct taut_trace *traces,
	size_t n_traces, struct taut_arena *arena, tauti_lines *lines)
{
	struct comparison c = { .arena = arena, .lines = lines };
	bool ok = true;
	for (size_t i = 0; ok && i < n_traces; i++)
		if (strcmp(traces[i].format, "flight") == 0)
			ok = add_views(&c, &traces[i]) &&
				add_calls(&c, &traces[i]);
	ok = ok && compare(&c);
	taut_vec_free(&c.views);
	taut_vec_free(&c.calls);
	return ok ? TAUT_OK : TAUT_ENOMEM;
}
