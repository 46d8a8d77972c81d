/* file_read.c - a plan out of its JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "trace/tree.h"

enum {
	MOST_BYTES = 4 << 20,    /* of a file */
	MOST_GRADIENTS = 1 << 20,
	PLACE_BYTES = 96,
};

struct owned { /* what taut_plan_destroy() frees */
	struct taut_plan plan;
	struct taut_arena *arena;
};

struct reader {
	const char *name;
	struct taut_arena *arena;
	struct taut_plan *plan;
	struct taut_error *err;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a plan");
}

/* place: "decisions[2].change" */
static taut_status wrong(
	const struct reader *r, const char *place, const char *expected)
{
	return taut_error_set(r->err, TAUT_EFORMAT, -1,
		"%.300s: %s: expected %.300s", r->name, place, expected);
}

/* --- values ---------------------------------------------------------------------- */

/* Every key is one of these, and stands once. */
static taut_status check_keys(const struct reader *r,
	const struct tauti_value *dict, const char *place,
	const char *const *keys)
{
	char at[PLACE_BYTES];

	if (!dict || dict->kind != TAUTI_VALUE_DICT || dict->count % 2)
		return wrong(r, place, "an object");
	for (uint32_t i = 0; i < dict->count; i += 2) {
		const struct tauti_value *key = dict->items[i];
		size_t k = 0;

		if (key->kind != TAUTI_VALUE_TEXT)
			return wrong(r, place, "keys that are texts");
		while (keys[k] && strcmp(keys[k], key->text))
			k++;
		snprintf(at, sizeof at, "%s.%.40s", place, key->text);
		if (!keys[k])
			return wrong(r, at, "no such key");
		if (tauti_tree_get(dict, key->text) != dict->items[i + 1])
			return wrong(r, at, "this key once");
	}
	return TAUT_OK;
}

static taut_status take_count(const struct reader *r,
	const struct tauti_value *value, const char *place, int64_t most,
	int64_t *ret)
{
	if (!value)
		return TAUT_OK;
	if (!tauti_tree_is_whole(value) || value->integer < 0 ||
		value->integer > most)
		return wrong(r, place, "a whole number that is not negative");
	*ret = value->integer;
	return TAUT_OK;
}

static taut_status take_ms(const struct reader *r,
	const struct tauti_value *value, const char *place, int64_t *ret_ns)
{
	if (!value)
		return TAUT_OK;
	if ((value->kind != TAUTI_VALUE_INT &&
		value->kind != TAUTI_VALUE_DOUBLE) ||
		!(value->number >= 0 && value->number < 1e12))
		return wrong(r, place, "milliseconds");
	*ret_ns = llround(value->number * 1e6);
	return TAUT_OK;
}

static taut_status take_numerics(const struct reader *r,
	const struct tauti_value *value, const char *place,
	enum taut_numerics *ret)
{
	if (value && !taut_numerics_find(tauti_tree_text(value), ret))
		return wrong(r, place, "exact, reordered or lossy");
	return TAUT_OK;
}

/* --- the job --------------------------------------------------------------------- */

static const struct tauti_value *pair_at(
	const struct tauti_value *list, uint32_t i)
{
	const struct tauti_value *pair = tauti_tree_item(list, i);
	const struct tauti_value *bytes = tauti_tree_item(pair, 0);
	const struct tauti_value *n = tauti_tree_item(pair, 1);

	return bytes && n && pair->count == 2 &&
		tauti_tree_is_whole(bytes) && tauti_tree_is_whole(n) && bytes->integer >= 0 &&
		n->integer > 0 && n->integer <= MOST_GRADIENTS ? pair : NULL;
}

static taut_status take_gradients(const struct reader *r,
	const struct tauti_value *list)
{
	static const char place[] = "job.gradients";
	struct taut_plan_job *job = &r->plan->job;
	int64_t *bytes, last = INT64_MAX;
	int64_t n = 0;

	if (!list)
		return TAUT_OK;
	if (list->kind != TAUTI_VALUE_LIST)
		return wrong(r, place, "a list of [bytes, how many]");
	for (uint32_t i = 0; i < list->count; i++) {
		const struct tauti_value *pair = pair_at(list, i);

		if (!pair || pair->items[0]->integer > last)
			return wrong(r, place, "a list of [bytes, how many], "
				"the largest first");
		last = pair->items[0]->integer;
		n += pair->items[1]->integer;
		if (n > MOST_GRADIENTS)
			return wrong(r, place, "a million gradients at most");
	}
	bytes = TAUT_ARENA_ARRAY(r->arena, int64_t, (size_t)n + 1);
	if (!bytes)
		return no_memory(r->err);
	job->gradient_bytes = bytes;
	for (uint32_t i = 0; i < list->count; i++)
		for (int64_t k = list->items[i]->items[1]->integer; k-- > 0;)
			bytes[job->n_gradients++] =
				list->items[i]->items[0]->integer;
	return TAUT_OK;
}

static taut_status take_job(
	const struct reader *r, const struct tauti_value *dict)
{
	static const char *const keys[] = { "framework", "ranks", "hosts",
		"gradients", NULL };
	struct taut_plan_job *job = &r->plan->job;
	const struct tauti_value *framework;
	int64_t ranks = 0, hosts = 0;
	taut_status status = check_keys(r, dict, "job", keys);

	if (!status)
		status = take_count(r, tauti_tree_get(dict, "ranks"),
			"job.ranks", UINT32_MAX, &ranks);
	if (!status && !ranks)
		status = wrong(r, "job.ranks", "the number of ranks");
	if (!status)
		status = take_count(r, tauti_tree_get(dict, "hosts"),
			"job.hosts", UINT32_MAX, &hosts);
	if (!status)
		status = take_gradients(r, tauti_tree_get(dict, "gradients"));
	framework = tauti_tree_get(dict, "framework");
	if (!status && framework && framework->kind != TAUTI_VALUE_TEXT)
		status = wrong(r, "job.framework", "a name");
	if (status)
		return status;
	job->n_ranks = (uint32_t)ranks;
	job->n_hosts = (uint32_t)hosts;
	job->framework = tauti_tree_text(framework);
	return TAUT_OK;
}

/* --- decisions --------------------------------------------------------------------- */

/* As whatif would read it, and of a kind that a job can be given. */
static taut_status check_change(const struct reader *r, const char *place,
	const char *text, enum taut_numerics *ret_numerics)
{
	const struct taut_plan_kind *kind;
	struct tauti_change change;
	struct taut_error why;
	taut_status status = tauti_change_read(text, r->arena, &change, &why);

	if (status == TAUT_EINVAL)
		return taut_error_set(r->err, TAUT_EFORMAT, -1,
			"%.300s: %s: %.300s", r->name, place, why.message);
	if (status)
		return taut_error_set(r->err, status, -1, "%s", why.message);
	kind = tauti_plan_kind_of(change.is->info.name);
	if (!kind)
		return taut_error_set(r->err, TAUT_EFORMAT, -1, "%.300s: %s: "
			"expected a change that a running job can be given, "
			"found '%.60s'", r->name, place, text);
	*ret_numerics = tauti_plan_numerics(kind, r->plan->job.n_ranks);
	return TAUT_OK;
}

static taut_status take_decision(const struct reader *r,
	const struct tauti_value *dict, uint32_t i, struct taut_decision *ret)
{
	static const char *const keys[] = { "change", "numerics", "without_ms",
		NULL };
	enum taut_numerics said = TAUT_NUMERICS_LOSSY;
	char place[PLACE_BYTES];
	taut_status status;

	snprintf(place, sizeof place, "decisions[%" PRIu32 "]", i);
	*ret = (struct taut_decision){ .without_ns = -1 };
	status = check_keys(r, dict, place, keys);
	if (!status)
		status = take_numerics(
			r, tauti_tree_get(dict, "numerics"), place, &said);
	if (!status)
		status = take_ms(r, tauti_tree_get(dict, "without_ms"), place,
			&ret->without_ns);
	ret->change = status ? "" :
		tauti_tree_text(tauti_tree_get(dict, "change"));
	if (!status && !*ret->change)
		status = wrong(r, place, "a change, like compress=fp16");
	if (!status)
		status = check_change(r, place, ret->change, &ret->numerics);
	if (!status && ret->numerics > r->plan->allow)
		status = taut_error_set(r->err, TAUT_EFORMAT, -1, "%.300s: %s: "
			"%.60s is %s, and the plan allows %s", r->name, place,
			ret->change, taut_numerics_name(ret->numerics),
			taut_numerics_name(r->plan->allow));
	return status;
}

static taut_status take_decisions(
	const struct reader *r, const struct tauti_value *list)
{
	struct taut_decision *all;
	taut_status status = TAUT_OK;

	if (!list || list->kind != TAUTI_VALUE_LIST)
		return wrong(r, "decisions", "a list");
	if (list->count > TAUTI_MOST_CHANGES)
		return wrong(r, "decisions", "64 decisions at most");
	all = TAUT_ARENA_ARRAY(r->arena, struct taut_decision, list->count + 1);
	if (!all)
		return no_memory(r->err);
	for (uint32_t i = 0; !status && i < list->count; i++)
		status = take_decision(r, list->items[i], i, &all[i]);
	r->plan->decisions = all;
	r->plan->n_decisions = list->count;
	return status;
}

/* --- what it is to give ---------------------------------------------------------------- */

static taut_status take_predicted(
	const struct reader *r, const struct tauti_value *dict)
{
	static const char *const keys[] = { "before_ms", "after_ms", "low_ms",
		"high_ms", "memory_before_bytes", "memory_after_bytes",
		"network_before_bytes", "network_after_bytes", NULL };
	struct taut_plan *p = r->plan;
	int64_t *const into[] = { &p->before_ns, &p->after_ns, &p->low_ns,
		&p->high_ns, &p->memory_before, &p->memory_after,
		&p->network_before, &p->network_after };
	taut_status status = dict ?
		check_keys(r, dict, "predicted", keys) : TAUT_OK;

	for (size_t i = 0; dict && !status && keys[i]; i++) {
		const struct tauti_value *value = tauti_tree_get(dict, keys[i]);

		status = i < 4 ? take_ms(r, value, keys[i], into[i]) :
			take_count(r, value, keys[i], INT64_MAX, into[i]);
	}
	return status;
}

static taut_status take_measured(
	const struct reader *r, const struct tauti_value *dict)
{
	static const char *const keys[] = { "before_ms", "after_ms", NULL };
	struct taut_plan *p = r->plan;
	taut_status status = dict ?
		check_keys(r, dict, "measured", keys) : TAUT_OK;

	if (dict && !status)
		status = take_ms(r, tauti_tree_get(dict, keys[0]), keys[0],
			&p->measured_before_ns);
	if (dict && !status)
		status = take_ms(r, tauti_tree_get(dict, keys[1]), keys[1],
			&p->measured_after_ns);
	return status;
}

static taut_status take_plan(
	const struct reader *r, const struct tauti_value *dict)
{
	static const char *const keys[] = { "taut_plan", "job", "allow",
		"decisions", "predicted", "measured", NULL };
	const struct tauti_value *version = tauti_tree_get(dict, "taut_plan");
	taut_status status;

	if (!tauti_tree_is_whole(version) || version->integer != 1)
		return wrong(r, "taut_plan", "1: a plan of this version, as "
			"taut plan writes it");
	status = check_keys(r, dict, "plan", keys);
	if (!status)
		status = take_numerics(r, tauti_tree_get(dict, "allow"),
			"allow", &r->plan->allow);
	if (!status)
		status = take_job(r, tauti_tree_get(dict, "job"));
	if (!status)
		status = take_decisions(r, tauti_tree_get(dict, "decisions"));
	if (!status)
		status = take_predicted(r, tauti_tree_get(dict, "predicted"));
	return status ? status :
		take_measured(r, tauti_tree_get(dict, "measured"));
}

/* --- the text ------------------------------------------------------------------------------ */

taut_status taut_plan_parse(const char *text, size_t bytes, const char *name,
	struct taut_plan **ret_plan, struct taut_error *reterr)
{
	struct taut_arena *arena = taut_arena_create();
	struct owned *owned = arena ?
		TAUT_ARENA_ARRAY(arena, struct owned, 1) : NULL;
	struct reader r = { .name = name, .arena = arena, .err = reterr };
	struct tauti_value *tree = NULL;
	taut_status status;

	if (!owned) {
		taut_arena_destroy(arena);
		return no_memory(reterr);
	}
	owned->arena = arena;
	r.plan = &owned->plan;
	r.plan->memory_before = r.plan->memory_after = -1;
	r.plan->network_before = r.plan->network_after = -1;
	status = tauti_tree_json(name, text, bytes,
		"a plan, which is one JSON object", arena, &tree, reterr);
	if (!status)
		status = take_plan(&r, tree);
	if (status)
		taut_plan_destroy(r.plan);
	else
		*ret_plan = r.plan;
	return status;
}

/* --- a file ---------------------------------------------------------------------------------- */

taut_status taut_plan_read(const char *path, struct taut_plan **ret_plan,
	struct taut_error *reterr)
{
	char *text;
	size_t bytes;
	taut_status status = tauti_tree_text_of(
		path, MOST_BYTES, "a plan", &text, &bytes, reterr);

	if (status)
		return status;
	status = taut_plan_parse(text, bytes, path, ret_plan, reterr);
	free(text);
	return status;
}

void taut_plan_destroy(struct taut_plan *plan)
{
	struct owned *owned = (struct owned *)plan;

	if (owned)
		taut_arena_destroy(owned->arena);
}
