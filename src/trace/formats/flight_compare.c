/* flight_compare.c - what the dumps of several ranks say together: who has
 * not come to which collective, and where they called different things. */
#include "trace/formats/flight.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ranks count groups each for itself, so groups of different ranks may have
 * one name. */
struct group {
	const char *name;
	const char *ranks; /* as text; "": not told */
};

/* One group as one rank saw it. */
struct view {
	const struct taut_trace *trace;
	struct group group;
	const char *desc;
	long long last[3]; /* enqueued, started, completed */
};

/* One collective of one rank. */
struct call {
	struct group group;
	const char *what, *dtype;
	int64_t seq, elements; /* going in; -1: not told */
	int32_t rank;
};

/* One operation of one rank that never completed. */
struct stuck {
	struct group group;
	const char *desc, *name, *how;
	int64_t seq; /* -1: between two ranks */
	int32_t rank;
};

#define STUCK_MAX 12 /* lines */

struct comparison {
	struct taut_arena *arena;
	tauti_lines *lines;
	TAUT_VEC(struct group) told; /* all whose ranks some dump tells */
	TAUT_VEC(struct view) views;
	TAUT_VEC(struct call) calls;
	TAUT_VEC(struct stuck) stuck;
	unsigned long long discovered, untimed, before; /* of all dumps */
};

static int by_name(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	int order = strcmp(x->name, y->name);
	/* mostly the same text, which may be long; see find_group() */
	return order || x->ranks == y->ranks ? order :
		strcmp(x->ranks, y->ranks);
}

static bool is_same(const struct group *x, const struct group *y)
{
	return by_name(x, y) == 0;
}

static int by_group(const void *a, const void *b)
{
	const struct view *x = a, *y = b;
	int order = by_name(&x->group, &y->group);
	if (order)
		return order;
	return x->trace->rank < y->trace->rank ? -1 :
		x->trace->rank > y->trace->rank;
}

static int by_seq(const void *a, const void *b)
{
	const struct call *x = a, *y = b;
	int order = by_name(&x->group, &y->group);
	if (order)
		return order;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* --- gathering ----------------------------------------------------------- */

/* Is rank in "[0, 1, 12]"? */
static bool has_rank(const char *ranks, int32_t rank)
{
	while (*ranks) {
		char *end;
		long long r = strtoll(ranks, &end, 10);
		if (end == ranks)
			end++; /* no digit */
		else if (r == rank)
			return true;
		ranks = end;
	}
	return false;
}

/* The groups of one dump whose ranks it tells. */
static bool add_told(struct comparison *c, const struct taut_trace *t)
{
	uint32_t last = TAUT_NONE;
	for (size_t i = 0; i < t->n_comms; i++) {
		struct group group = {
			taut_names_text(t->names, t->comms[i].group_name),
			taut_names_text(t->names, t->comms[i].group_ranks),
		};
		if (t->comms[i].group_name == last || !*group.ranks)
			continue;
		last = t->comms[i].group_name;
		if (!taut_vec_push(&c->told, group))
			return false;
	}
	return true;
}

/* Sorted, and each once. */
static void sort_told(struct comparison *c)
{
	size_t kept = 0;
	if (c->told.count)
		qsort(c->told.data, c->told.count, sizeof *c->told.data,
			by_name);
	for (size_t i = 0; i < c->told.count; i++)
		if (!kept || !is_same(&c->told.data[kept - 1],
				     &c->told.data[i]))
			c->told.data[kept++] = c->told.data[i];
	c->told.count = kept;
}

/* A dump that does not tell the ranks of a group means the one of that name
 * in which, as others tell, its rank is. */
static struct group find_group(const struct comparison *c, const char *name,
	const char *ranks, int32_t rank)
{
	struct group group = { name, ranks };
	size_t lo = 0, hi = c->told.count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (by_name(&c->told.data[mid], &group) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < c->told.count && !strcmp(c->told.data[lo].name, name);
		lo++)
		if (*ranks || has_rank(c->told.data[lo].ranks, rank))
			return c->told.data[lo];
	return group;
}

static const char *ranks_of(const struct taut_trace *t, const char *group)
{
	for (size_t i = 0; i < t->n_comms; i++)
		if (strcmp(taut_names_text(t->names, t->comms[i].group_name),
			group) == 0)
			return taut_names_text(
				t->names, t->comms[i].group_ranks);
	return "";
}

static bool add_views(struct comparison *c, const struct taut_trace *t)
{
	size_t prefix = strlen(TAUTI_FLIGHT_GROUP);
	for (size_t i = 0; i < t->n_facts; i++) {
		const struct taut_fact *fact = &t->facts[i];
		struct view view = { .trace = t };
		unsigned long long a, b, lost;
		int used = 0;
		if (strcmp(fact->key, TAUTI_FLIGHT_TIMES) == 0 &&
			sscanf(fact->value, "%llu %llu %llu", &a, &b, &lost) ==
				3) {
			c->discovered += a;
			c->untimed += b;
			c->before += lost;
		}
		if (strncmp(fact->key, TAUTI_FLIGHT_GROUP, prefix) != 0 ||
			sscanf(fact->value, "%lld %lld %lld%n", &view.last[0],
				&view.last[1], &view.last[2], &used) != 3)
			continue;
		view.group = find_group(c, fact->key + prefix,
			ranks_of(t, fact->key + prefix), t->rank);
		view.desc = fact->value + used;
		view.desc += *view.desc == ' ';
		if (!taut_vec_push(&c->views, view))
			return false;
	}
	return true;
}

static const struct view *view_of(const struct comparison *c,
	const struct taut_trace *t, const char *group)
{
	for (size_t i = c->views.count; i-- > 0;)
		if (c->views.data[i].trace == t &&
			strcmp(c->views.data[i].group.name, group) == 0)
			return &c->views.data[i];
	return NULL;
}

static bool add_stuck(struct comparison *c, const struct taut_trace *t,
	const struct taut_comm_args *args, struct group group)
{
	struct stuck stuck = {
		.group = group,
		.desc = taut_names_text(t->names, args->group_desc),
		.name = taut_trace_name(t, args->event),
		.seq = args->seq, .rank = t->rank,
		.how = "never completed",
	};
	const struct view *view = view_of(c, t, group.name);
	if (view && args->seq >= 0)
		stuck.how = args->seq <= view->last[1] ?
			"started, never completed" :
			"scheduled, never started";
	return taut_vec_push(&c->stuck, stuck);
}

static bool add_calls(struct comparison *c, const struct taut_trace *t)
{
	for (size_t i = 0; i < t->n_comms; i++) {
		const struct taut_comm_args *args = &t->comms[i];
		struct call call = {
			.group = find_group(c,
				taut_names_text(t->names, args->group_name),
				taut_names_text(t->names, args->group_ranks),
				t->rank),
			.what = taut_names_text(t->names, args->collective),
			.dtype = taut_names_text(t->names, args->dtype),
			.seq = args->seq, .elements = args->in_elements,
			.rank = t->rank };
		if (args->seq >= 0 && !taut_vec_push(&c->calls, call))
			return false;
		if (t->flags[args->event] & TAUT_EVENT_CUT &&
			!add_stuck(c, t, args, call.group))
			return false;
	}
	return true;
}

/* Its buffer held every operation that it ever scheduled. */
static bool is_complete(const struct taut_trace *t)
{
	unsigned long long before;
	for (size_t i = 0; i < t->n_facts; i++)
		if (strcmp(t->facts[i].key, TAUTI_FLIGHT_TIMES) == 0 &&
			sscanf(t->facts[i].value, "%*u %*u %llu", &before) ==
				1)
			return before == 0;
	return false;
}

/* A member of a group that never scheduled anything there has no entry of
 * it. views are those found, by group; more are added behind them. */
static bool add_absent(struct comparison *c, const struct taut_trace *traces,
	size_t n_traces)
{
	size_t n = c->views.count;
	for (size_t i = 0; i < n; i++) {
		struct view view = c->views.data[i];
		if (i && is_same(&c->views.data[i - 1].group, &view.group))
			continue;
		for (size_t k = 0; k < n_traces; k++) {
			view.trace = &traces[k];
			view.last[0] = view.last[1] = view.last[2] = -1;
			if (strcmp(traces[k].format, "flight") == 0 &&
				has_rank(view.group.ranks, traces[k].rank) &&
				is_complete(&traces[k]) &&
				!view_of(c, &traces[k], view.group.name) &&
				!taut_vec_push(&c->views, view))
				return false;
		}
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
		if (len + 32 >= room && i < n)
			snprintf(out + len, room - len, " ...");
	}
}

static const char *what_of(const struct comparison *c,
	const struct group *group, long long seq)
{
	for (size_t i = 0; i < c->calls.count; i++)
		if (c->calls.data[i].seq == seq &&
			is_same(&c->calls.data[i].group, group))
			return c->calls.data[i].what;
	return "collective";
}

/* The calls are sorted. */
static long long first_of(
	const struct comparison *c, const struct group *group)
{
	for (size_t i = 0; i < c->calls.count; i++)
		if (is_same(&c->calls.data[i].group, group))
			return c->calls.data[i].seq;
	return 0;
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
		long long seq = least < 0 ? first_of(c, &views->group) :
					    least + 1;
		list_ranks(views, n, state, seq, true, late, sizeof late);
		list_ranks(views, n, state, seq, false, others,
			sizeof others);
		return say(c, taut_arena_printf(c->arena,
			"rank%s %s never %s %.60s %lld of group %.40s%s%.60s%s, "
			"which rank%s %s %s: the job hangs there, unless the "
			"dumps were written at different times",
			plural(late), late, did[state],
			what_of(c, &views->group, seq), seq,
			views->group.name, *views->desc ? " (" : "", views->desc,
			*views->desc ? ")" : "", plural(others), others,
			did[state]));
	}
	return true;
}

/* Must all ranks pass the same? Not so where each has a part of its own. */
static bool is_alike(const char *what)
{
	static const char *const names[] = { "all_reduce",
		"allreduce_coalesced", "reduce", "broadcast", "all_gather",
		"_all_gather_base", "reduce_scatter", "_reduce_scatter_base" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(what, names[i]) == 0)
			return true;
	return false;
}

static bool is_one_collective(const struct call *a, const struct call *b)
{
	return a->seq == b->seq && is_same(&a->group, &b->group);
}

/* Calls that were put together have one number, and no order is told. */
static bool is_single(const struct comparison *c, size_t i)
{
	const struct call *call = &c->calls.data[i];
	return !(i && call[-1].rank == call->rank &&
		       is_one_collective(&call[-1], call)) &&
		!(i + 1 < c->calls.count && call[1].rank == call->rank &&
			is_one_collective(call, &call[1]));
}

/* Calls i - 1 and i are of one collective and of one name. */
static bool differ_in_size(const struct comparison *c, size_t i)
{
	const struct call *a = &c->calls.data[i - 1], *b = a + 1;
	return is_alike(a->what) && a->elements >= 0 && b->elements >= 0 &&
		*a->dtype && *b->dtype &&
		(a->elements != b->elements || strcmp(a->dtype, b->dtype)) &&
		is_single(c, i - 1) && is_single(c, i);
}

static bool say_names(
	struct comparison *c, const struct call *a, const struct call *b)
{
	return say(c, taut_arena_printf(c->arena,
		"collective %" PRId64 " of group %.40s is %.60s on rank %d and "
		"%.60s on rank %d: the ranks have gone different ways",
		a->seq, a->group.name, a->what, (int)a->rank, b->what,
		(int)b->rank));
}

static bool say_sizes(
	struct comparison *c, const struct call *a, const struct call *b)
{
	return say(c, taut_arena_printf(c->arena,
		"%.60s %" PRId64 " of group %.40s is of %" PRId64 " %.40s on "
		"rank %d and of %" PRId64 " %.40s on rank %d, where all ranks "
		"must pass the same", a->what, a->seq, a->group.name,
		a->elements, a->dtype, (int)a->rank, b->elements, b->dtype,
		(int)b->rank));
}

/* The first collective of a group that is not the same on all ranks, and the
 * first to which they did not bring the same. */
static bool compare_calls(struct comparison *c)
{
	const struct group *named = NULL, *sized = NULL;
	bool ok = true;
	for (size_t i = 1; ok && i < c->calls.count; i++) {
		const struct call *a = &c->calls.data[i - 1], *b = a + 1;
		if (!is_one_collective(a, b))
			continue;
		if (strcmp(a->what, b->what) != 0) {
			ok = (named && is_same(named, &b->group)) ||
				say_names(c, a, b);
			named = &b->group;
		} else if (differ_in_size(c, i)) {
			ok = (sized && is_same(sized, &b->group)) ||
				say_sizes(c, a, b);
			sized = &b->group;
		}
	}
	return ok;
}

/* --- what never completed ------------------------------------------------ */

static int same_but_rank(const struct stuck *x, const struct stuck *y)
{
	int order = by_name(&x->group, &y->group);
	if (!order)
		order = x->seq < y->seq ? -1 : x->seq > y->seq;
	if (!order)
		order = strcmp(x->name, y->name);
	return order ? order : strcmp(x->how, y->how);
}

static int by_operation(const void *a, const void *b)
{
	const struct stuck *x = a, *y = b;
	int order = same_but_rank(x, y);
	return order ? order : x->rank < y->rank ? -1 : x->rank > y->rank;
}

static bool say_stuck(struct comparison *c, const struct stuck *s, size_t n)
{
	char ranks[160], seq[32] = "";
	size_t len = 0;
	for (size_t i = 0, end; i < n; i = end) {
		if (len + 36 >= sizeof ranks) {
			snprintf(ranks + len, sizeof ranks - len, " ...");
			break;
		}
		for (end = i + 1; end < n &&
			s[end].rank - s[i].rank == (int32_t)(end - i); end++)
			;
		len += (size_t)snprintf(ranks + len, sizeof ranks - len,
			end - i > 2 ? "%s%d-%d" : end - i > 1 ? "%s%d, %d" :
			"%s%d", i ? ", " : "", (int)s[i].rank,
			(int)s[end - 1].rank);
	}
	if (s->seq >= 0)
		snprintf(seq, sizeof seq, " %" PRId64, s->seq);
	return say(c, taut_arena_printf(c->arena,
		"%.60s%s of group %.40s%s%.60s%s: %s on rank%s %s", s->name,
		seq, s->group.name, *s->desc ? " (" : "", s->desc,
		*s->desc ? ")" : "", s->how, plural(ranks), ranks));
}

static bool tell_stuck(struct comparison *c)
{
	size_t lines = 0, count = c->stuck.count;
	if (count)
		qsort(c->stuck.data, count, sizeof *c->stuck.data,
			by_operation);
	for (size_t i = 0, n; i < count; i += n, lines++) {
		for (n = 1; i + n < count && same_but_rank(&c->stuck.data[i],
			&c->stuck.data[i + n]) == 0; n++)
			;
		if (lines < STUCK_MAX &&
			!say_stuck(c, &c->stuck.data[i], n))
			return false;
	}
	return lines <= STUCK_MAX || say(c, taut_arena_printf(c->arena,
		"%zu more operations never completed", lines - STUCK_MAX));
}

static bool tell_times(struct comparison *c)
{
	if (c->discovered && !say(c, taut_arena_printf(c->arena,
		"flight recorder: when %llu operations started and completed "
		"is when a watching thread noticed, which is later than it "
		"was; only when they were enqueued is exact", c->discovered)))
		return false;
	if (c->untimed && !say(c, taut_arena_printf(c->arena,
		"flight recorder: %llu operations have ended, and when is not "
		"recorded", c->untimed)))
		return false;
	return !c->before || say(c, taut_arena_printf(c->arena,
		"flight recorder: %llu earlier operations were no longer in "
		"the recorders' buffers", c->before));
}

static void sort_views(struct comparison *c)
{
	if (c->views.count)
		qsort(c->views.data, c->views.count, sizeof *c->views.data,
			by_group);
}

static bool compare(struct comparison *c)
{
	struct view *views = c->views.data;
	if (c->calls.count)
		qsort(c->calls.data, c->calls.count, sizeof *c->calls.data,
			by_seq);
	for (size_t i = 0, n; i < c->views.count; i += n) {
		for (n = 1; i + n < c->views.count &&
			is_same(&views[i].group, &views[i + n].group); n++)
			;
		if (n > 1 && !compare_group(c, views + i, n))
			return false;
	}
	return compare_calls(c) && tell_stuck(c) && tell_times(c);
}

taut_status tauti_flight_compare(const struct taut_trace *traces,
	size_t n_traces, struct taut_arena *arena, tauti_lines *lines)
{
	struct comparison c = { .arena = arena, .lines = lines };
	bool ok = true;
	for (size_t i = 0; ok && i < n_traces; i++)
		if (strcmp(traces[i].format, "flight") == 0)
			ok = add_told(&c, &traces[i]);
	sort_told(&c);
	for (size_t i = 0; ok && i < n_traces; i++)
		if (strcmp(traces[i].format, "flight") == 0)
			ok = add_views(&c, &traces[i]) &&
				add_calls(&c, &traces[i]);
	sort_views(&c);
	ok = ok && add_absent(&c, traces, n_traces);
	sort_views(&c);
	ok = ok && compare(&c);
	taut_vec_free(&c.told);
	taut_vec_free(&c.views);
	taut_vec_free(&c.calls);
	taut_vec_free(&c.stuck);
	return ok ? TAUT_OK : TAUT_ENOMEM;
}
