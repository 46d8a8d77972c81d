/* apply.c - the variables that a job is told for a plan's decisions. A decision of
 * which a part cannot be made is refused: what runs must be what was predicted. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <taut/coll.h>

#include "base/vec.h"
#include "plan/plan.h"

enum { JOB_BYTES = 100000 }; /* a variable has at most 128 KiB */

struct teller {
	const struct taut_plan *plan;
	const struct tauti_change *by_kind[24]; /* beside taut_plan_kind() */
	struct taut_arena *arena;
	TAUT_VEC(struct taut_plan_setting) told;
	struct taut_error *err;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a plan");
}

static taut_status refuse(const struct teller *t,
	const struct tauti_change *change, const char *why)
{
	return taut_error_set(t->err, TAUT_EINVAL, -1,
		"%.100s: a running job cannot be given this: %s", change->text,
		why);
}

/* --- what was decided -------------------------------------------------------------- */

static const struct tauti_change *decided(
	const struct teller *t, const char *name)
{
	const struct taut_plan_kind *kind;

	for (size_t i = 0; (kind = taut_plan_kind(i)) != NULL; i++)
		if (!strcmp(kind->change, name))
			return t->by_kind[i];
	return NULL;
}

static taut_status read_decision(
	struct teller *t, const struct taut_decision *decision)
{
	struct tauti_change *change = TAUT_ARENA_ARRAY(
		t->arena, struct tauti_change, 1);
	const struct taut_plan_kind *kind;
	taut_status status = change ? tauti_change_read(
		decision->change, t->arena, change, t->err) : no_memory(t->err);

	if (status)
		return status;
	for (size_t i = 0; (kind = taut_plan_kind(i)) != NULL; i++) {
		if (strcmp(kind->change, change->is->info.name))
			continue;
		if (t->by_kind[i])
			return refuse(t, change, "it is decided twice");
		t->by_kind[i] = change;
		return TAUT_OK;
	}
	return refuse(t, change, "it is no change that is made of a job");
}

/* --- values ------------------------------------------------------------------------ */

/* The place of a parameter of the change; it is there. */
static size_t place_of(const struct tauti_change *change, const char *name)
{
	size_t i = 0;

	while (i < change->is->info.n_parameters &&
		strcmp(change->is->info.parameters[i].name, name))
		i++;
	return i;
}

/* A parameter that was left out has its preset. */
static bool is_preset(const struct tauti_change *change, size_t i)
{
	const char *preset = change->is->info.parameters[i].preset;

	return preset && !strcmp(change->values[i], preset);
}

static bool is_given(const struct tauti_change *change, const char *name)
{
	size_t i = place_of(change, name);

	return i < change->is->info.n_parameters &&
		tauti_param_given(change, i);
}

static const char *word_of(const struct tauti_change *change, const char *name)
{
	return change->values[place_of(change, name)];
}

/* No other parameters than these. */
static taut_status allow(const struct teller *t,
	const struct tauti_change *change, const char *const *names)
{
	for (size_t i = 0; i < change->is->info.n_parameters; i++) {
		const char *name = change->is->info.parameters[i].name;
		size_t k = 0;

		if (is_preset(change, i))
			continue;
		while (names[k] && strcmp(names[k], name))
			k++;
		if (!names[k])
			return refuse(t, change, taut_arena_printf(t->arena,
				"%s= is of predictions alone", name));
	}
	return TAUT_OK;
}

static taut_status tell(
	struct teller *t, const char *name, const char *value)
{
	struct taut_plan_setting setting = { name, value };

	return value && taut_vec_push(&t->told, setting) ? TAUT_OK :
		no_memory(t->err);
}

static taut_status tell_bytes(struct teller *t, const char *variable,
	const struct tauti_change *change, const char *name, double share)
{
	bool is_factor;
	double bytes;
	taut_status status = tauti_param_scaled(change,
		place_of(change, name), TAUTI_BYTES, &is_factor, &bytes,
		t->err);

	if (!status && (is_factor || bytes * share < 1 || bytes > 1e15))
		status = refuse(t, change, "a plan has sizes in bytes, like "
			"4MiB");
	return status ? status : tell(t, variable, taut_arena_printf(t->arena,
		"%" PRIu64, (uint64_t)llround(bytes * share)));
}

/* "1048576+4096": of buckets of a size each. One size alone is that of them all, and told
 * twice: it is a row that makes them fixed. */
static taut_status tell_row(struct teller *t, const char *variable,
	const struct tauti_change *change, double share)
{
	double *bytes;
	uint32_t n;
	const char *text = "";
	taut_status status = tauti_param_sizes(
		change, place_of(change, ""), t->arena, &bytes, &n, NULL);

	if (status == TAUT_EINVAL)
		return refuse(t, change, "a plan has sizes in bytes, like 4MiB");
	if (status)
		return no_memory(t->err);
	if (n > TAUTI_PLAN_SIZES)
		return refuse(t, change, taut_arena_printf(t->arena, "a plan has "
			"at most %d sizes, found %u", TAUTI_PLAN_SIZES, n));
	for (uint32_t i = 0; text && i < n + (n == 1); i++) {
		double size = bytes[i < n ? i : n - 1] * share;

		if (size < 1 || size > 1e15)
			return refuse(t, change, "a plan has sizes in bytes, "
				"like 4MiB");
		text = taut_arena_printf(t->arena, "%s%s%" PRIu64, text,
			i ? "+" : "", (uint64_t)llround(size));
	}
	return tell(t, variable, text);
}

/* --- Taut's exchange ------------------------------------------------------------------ */

/* Predictions count a gradient's bytes, pieces those that are sent. */
static double sent(const struct teller *t)
{
	const struct tauti_change *compress = decided(t, "compress");

	if (!compress)
		return 1;
	return strcmp(word_of(compress, ""), "mxint8") ? 0.5 :
		(double)taut_numbers_bytes(TAUT_MXINT8, 32) / (32 * 4);
}

/* The order is that of declaration, and the barrier stays the framework's. */
static taut_status check_foreign(
	const struct teller *t, const struct tauti_change *schedule)
{
	if (!is_given(schedule, "") || strcmp(word_of(schedule, ""), "fifo") ||
		!is_given(schedule, "order") ||
		strcmp(word_of(schedule, "order"), "agreed"))
		return refuse(t, schedule, taut_arena_printf(t->arena, "of %s "
			"schedule=fifo,order=agreed alone is made",
			t->plan->job.framework));
	if (is_given(schedule, "barrier") &&
		strcmp(word_of(schedule, "barrier"), "keep"))
		return refuse(t, schedule, taut_arena_printf(t->arena, "a step "
			"of %s ends when all gradients are applied: "
			"barrier=keep", t->plan->job.framework));
	if (!decided(t, "bucket"))
		return refuse(t, schedule, "a plan says bucket= beside it");
	return TAUT_OK;
}

static taut_status check_ours(
	const struct teller *t, const struct tauti_change *schedule)
{
	if (is_given(schedule, "") && strcmp(word_of(schedule, ""), "priority"))
		return refuse(t, schedule, "schedule=priority alone is made");
	if (!is_given(schedule, "barrier") ||
		strcmp(word_of(schedule, "barrier"), "cross"))
		return refuse(t, schedule, "pieces by priority cross the end "
			"of the step: barrier=cross");
	if (strcmp(word_of(schedule, "by"), "taut"))
		return refuse(t, schedule, "Taut's exchange makes it: by=taut");
	if (is_given(schedule, "order") &&
		strcmp(word_of(schedule, "order"), "agreed"))
		return refuse(t, schedule, "order=agreed alone is made");
	return TAUT_OK;
}

static taut_status tell_schedule(
	struct teller *t, const struct tauti_change *schedule)
{
	static const char *const names[] = { "", "partition", "credit",
		"barrier", "order", "by", NULL };
	taut_status status = allow(t, schedule, names);

	if (!status)
		status = tauti_plan_is_foreign(t->plan->job.framework) ?
			check_foreign(t, schedule) : check_ours(t, schedule);
	if (status)
		return status;
	if (!is_given(schedule, "partition") || !is_given(schedule, "credit"))
		return refuse(t, schedule, "a plan says partition= and "
			"credit=");
	status = tell(t, "TAUT_RUN_SCHEDULE", "on");
	if (!status)
		status = tell(t, "TAUT_RUN_ENGINE", "coll");
	if (!status)
		status = tell(t, "TAUT_RUN_GATE", "off");
	if (!status)
		status = tell_bytes(
			t, "TAUT_RUN_PIECE", schedule, "partition",
			sent(t));
	return status ? status : tell_bytes(
		t, "TAUT_RUN_CREDIT", schedule, "credit", sent(t));
}

/* Names of whatif's algorithms, and those of Taut's ways. */
static const char *const ways[][2] = { { "ring", "ring" },
	{ "direct", "direct" }, { "flat", "flat" }, { "tree", "tree" },
	{ "doubling", "doubling" }, { "halving-doubling", "halving" },
	{ "hierarchical", "hosts" } };

static taut_status tell_way(
	struct teller *t, const struct tauti_change *algorithm)
{
	static const char *const names[] = { "", NULL };
	taut_status status = allow(t, algorithm, names);

	for (size_t i = 0; !status && i < sizeof ways / sizeof *ways; i++)
		if (!strcmp(ways[i][0], word_of(algorithm, "")))
			return tell(t, "TAUT_RUN_WAY", ways[i][1]);
	return status ? status :
		refuse(t, algorithm, "Taut's collectives have no such way");
}

static taut_status tell_ours(struct teller *t)
{
	static const char *const names[] = { "", NULL };
	const struct tauti_change *bucket = decided(t, "bucket");
	const struct tauti_change *algorithm = decided(t, "algorithm");
	taut_status status = tell_schedule(t, decided(t, "schedule"));

	if (!status && bucket)
		status = allow(t, bucket, names);
	if (!status && bucket) /* fixed groups are what was predicted */
		status = tell_row(t, "TAUT_RUN_FUSE", bucket, 1);
	if (!status && algorithm)
		status = tell_way(t, algorithm);
	if (!status && decided(t, "rows"))
		status = tell(t, "TAUT_RUN_ROWS", "on");
	return status;
}

/* --- PyTorch's own ---------------------------------------------------------------------- */

static taut_status tell_theirs(struct teller *t)
{
	static const char *const names[] = { "", "first", NULL };
	const struct tauti_change *bucket = decided(t, "bucket");
	taut_status status = tell(t, "TAUT_RUN_SCHEDULE", "off");

	if (!status && decided(t, "algorithm"))
		status = refuse(t, decided(t, "algorithm"), "without schedule= "
			"the framework's own library carries all-reduces out");
	if (!status && decided(t, "rows"))
		status = refuse(t, decided(t, "rows"), "it needs schedule=, "
			"which brings Taut's exchange");
	if (status || !bucket)
		return status;
	status = allow(t, bucket, names);
	if (!status && tauti_param_is_row(bucket, place_of(bucket, "")))
		return is_given(bucket, "first") ? refuse(t, bucket, "of buckets "
			"that have a size each the first says its own") :
			tell_row(t, "TAUT_RUN_BUCKET", bucket, 1);
	if (!status)
		status = tell_bytes(t, "TAUT_RUN_BUCKET", bucket, "", 1);
	return status ? status : tell_bytes(t, "TAUT_RUN_BUCKET_FIRST", bucket,
		is_given(bucket, "first") ? "first" : "", 1);
}

/* --- a job on Taut's exchange as it is ------------------------------------------------- */

static taut_status tell_as_it_is(const struct teller *t)
{
	static const char *const parts[] = { "bucket", "algorithm", "compress" };

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (decided(t, parts[i]))
			return refuse(t, decided(t, parts[i]), "it needs "
				"schedule=, which says all of how Taut's "
				"exchange goes");
	return TAUT_OK;
}

static taut_status tell_exchange(struct teller *t)
{
	if (decided(t, "schedule"))
		return tell_ours(t);
	return tauti_plan_is_foreign(t->plan->job.framework) ?
		tell_as_it_is(t) : tell_theirs(t);
}

/* --- what does not depend on the exchange ------------------------------------------------- */

static const struct { /* words that a job can be given */
	const char *change, *variable;
	const char *words[4];
} plain[] = {
	{ "compress", "TAUT_RUN_COMPRESS", { "fp16", "bf16", "mxint8" } },
	{ "optimizer", "TAUT_RUN_OPTIMIZER", { "fused" } },
	{ "amp", "TAUT_RUN_AMP", { "bf16" } },
	{ "heap", "TAUT_RUN_HEAP", { "keep" } },
	{ "recompute", "TAUT_RUN_RECOMPUTE", { NULL } },
	{ "compile", "TAUT_RUN_COMPILE", { NULL } },
};

/* Who narrows follows from the exchange, which the plan says, too. */
static taut_status check_by(
	const struct teller *t, const struct tauti_change *compress)
{
	bool ours = is_given(compress, "by") &&
		!strcmp(word_of(compress, "by"), "taut");

	if (!ours && is_given(compress, "") &&
		!strcmp(word_of(compress, ""), "mxint8"))
		return refuse(t, compress, "frameworks have no hook for it: "
			"expected by=taut");
	if (ours == (decided(t, "schedule") != NULL))
		return TAUT_OK;
	return refuse(t, compress, ours ? "by=taut needs schedule=, which "
		"brings Taut's exchange" : "beside schedule= gradients are "
		"narrowed by=taut");
}

static taut_status tell_plain(struct teller *t, size_t i)
{
	static const char *const names[] = { "", "by", NULL };
	const struct tauti_change *change = decided(t, plain[i].change);
	const char *word;
	size_t k = 0;
	taut_status status;

	if (!change)
		return TAUT_OK;
	status = allow(t, change, names);
	if (!status && !strcmp(plain[i].change, "compress"))
		status = check_by(t, change);
	if (status)
		return status;
	word = is_given(change, "") ? word_of(change, "") :
		change->is->info.parameters[0].preset;
	while (plain[i].words[k] && strcmp(plain[i].words[k], word))
		k++;
	if (plain[i].words[0] && !plain[i].words[k])
		return refuse(t, change, taut_arena_printf(t->arena,
			"expected %s=%s", change->is->info.name,
			plain[i].words[0]));
	return tell(t, plain[i].variable, word);
}

static taut_status tell_count(struct teller *t, const char *name,
	uint32_t least, const char *variable)
{
	static const char *const names[] = { "", NULL };
	const struct tauti_change *change = decided(t, name);
	uint32_t n;
	taut_status status;

	if (!change)
		return TAUT_OK;
	status = allow(t, change, names);
	if (!status)
		status = tauti_param_count(change, place_of(change, ""), least,
			1024, &n, t->err);
	return status ? status : tell(t, variable,
		taut_arena_printf(t->arena, "%" PRIu32, n));
}

/* Both passes as they are: none of these can be within. */
static taut_status tell_graphs(struct teller *t)
{
	static const char *const apart[] = { "recompute", "microbatches", "compile" };
	const struct tauti_change *graphs = decided(t, "graphs");

	if (!graphs)
		return TAUT_OK;
	if (t->plan->job.n_ranks > 1)
		return refuse(t, graphs, "gradients of several ranks would all "
			"be summed behind the backward pass");
	for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
		if (decided(t, apart[i]))
			return refuse(t, graphs, taut_arena_printf(t->arena,
				"not beside %s", apart[i]));
	return tell(t, "TAUT_RUN_GRAPHS", "on");
}

static taut_status tell_loader(struct teller *t)
{
	static const char *const mine[] = { "", NULL };
	static const char *const caches[] = { "", "policy", NULL };
	const struct tauti_change *loader = decided(t, "loader");
	const struct tauti_change *cache = decided(t, "cache");
	taut_status status = TAUT_OK;

	if (cache && !loader)
		return refuse(t, cache, "the cache is that of Taut's loader: "
			"it needs loader=taut");
	if (cache && strcmp(word_of(cache, "policy"), "pinned"))
		return refuse(t, cache, "Taut's loader keeps what it has: "
			"policy=pinned");
	if (loader)
		status = allow(t, loader, mine);
	if (!status && loader)
		status = tell(t, "TAUT_RUN_LOAD", "auto");
	if (status || !cache)
		return status;
	status = allow(t, cache, caches);
	return status ? status : tell_bytes(
		t, "TAUT_RUN_LOAD_CACHE", cache, "", 1);
}

/* "ranks=2 gradients=4194304x2,1024x7", of so many bytes as a variable may have. */
static taut_status tell_job(struct teller *t)
{
	const struct taut_plan_job *job = &t->plan->job;
	char *text = taut_arena_calloc(t->arena, JOB_BYTES, 1);
	FILE *out = text ? fmemopen(text, JOB_BYTES, "w") : NULL;
	bool fits;

	if (!out)
		return no_memory(t->err);
	if (tauti_plan_is_foreign(job->framework))
		fprintf(out, "framework=%s ", job->framework);
	fprintf(out, "ranks=%" PRIu32, job->n_ranks);
	for (uint32_t i = 0, n; i < job->n_gradients; i += n) {
		for (n = 1; i + n < job->n_gradients &&
			job->gradient_bytes[i + n] == job->gradient_bytes[i];)
			n++;
		fprintf(out, "%s%" PRId64 "x%" PRIu32, i ? "," : " gradients=",
			job->gradient_bytes[i], n);
	}
	fits = !fflush(out) && ftell(out) < JOB_BYTES - 1;
	fclose(out);
	return fits ? tell(t, "TAUT_RUN_JOB", text) : taut_error_set(t->err,
		TAUT_EINVAL, -1, "a plan whose gradients have so many sizes "
		"cannot be told to a job");
}

static taut_status check_framework(const struct teller *t)
{
	const char *framework = t->plan->job.framework;

	for (size_t i = 0; i < sizeof t->by_kind / sizeof *t->by_kind; i++)
		if (t->by_kind[i] && !tauti_plan_is_made_of(
			taut_plan_kind(i), framework))
			return refuse(t, t->by_kind[i], taut_arena_printf(
				t->arena, "it is one of %.40s, of which this is "
				"not made", framework));
	return TAUT_OK;
}

static taut_status tell_all(struct teller *t)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < t->plan->n_decisions; i++)
		status = read_decision(t, &t->plan->decisions[i]);
	if (!status)
		status = check_framework(t);
	if (!status)
		status = tell_exchange(t);
	for (size_t i = 0; !status && i < sizeof plain / sizeof *plain; i++)
		status = tell_plain(t, i);
	if (!status)
		status = tell_count(t, "workers", 0, "TAUT_RUN_WORKERS");
	if (!status)
		status = tell_count(
			t, "microbatches", 1, "TAUT_RUN_MICROBATCHES");
	if (!status)
		status = tell_graphs(t);
	if (!status)
		status = tell_loader(t);
	return status ? status : tell_job(t);
}

taut_status taut_plan_settings(const struct taut_plan *plan,
	struct taut_arena *arena, const struct taut_plan_setting **ret_settings,
	uint32_t *ret_n, struct taut_error *reterr)
{
	struct teller t = { .plan = plan, .arena = arena, .err = reterr };
	taut_status status = tell_all(&t);
	struct taut_plan_setting *kept = NULL;

	if (!status) {
		kept = TAUT_ARENA_ARRAY(
			arena, struct taut_plan_setting, t.told.count + 1);
		if (!kept)
			status = no_memory(reterr);
	}
	if (!status) {
		memcpy(kept, t.told.data, t.told.count * sizeof *kept);
		*ret_settings = kept;
		*ret_n = (uint32_t)t.told.count;
	}
	taut_vec_free(&t.told);
	return status;
}
