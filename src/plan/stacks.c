/* stacks.c - see stacks.h. */
#include "plan/stacks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "base/vec.h"
#include "plan/groups.h"
#include "plan/modules.h"

enum site { WORKERS, LOADER, CACHE, HEAP, RECOMPUTE, PARTS, COMPILE, AMP, GRAPHS, OPTIMIZER, WHO,
	BUCKET, PIECE, CREDIT, WAY, ROWS, COMPRESS, SITES };
enum pass { INPUT, MEMORY, COMPUTE, EXCHANGE, COMPRESSION, PASSES };
enum {
	MOST_OPTIONS = 16,
	TEXT_BYTES = 8192,
	/* Behind the others, one for each place at which a bucket may end. */
	MOST_SITES = SITES + TAUTI_GROUPS_SITES,
};

static const char *const pass_names[PASSES] = {
	[INPUT] = "input", [MEMORY] = "memory", [COMPUTE] = "computation",
	[EXCHANGE] = "exchange", [COMPRESSION] = "compression",
};
static const struct {
	const char *name;
	enum pass pass;
} sites[SITES] = {
	[WORKERS] = { "workers", INPUT },
	[LOADER] = { "loader", INPUT },
	[CACHE] = { "cache", INPUT },
	[HEAP] = { "heap", COMPUTE },
	[RECOMPUTE] = { "recompute", MEMORY },
	[PARTS] = { "microbatches", MEMORY },
	[COMPILE] = { "compile", COMPUTE },
	[AMP] = { "amp", COMPUTE },
	[GRAPHS] = { "graphs", COMPUTE },
	[OPTIMIZER] = { "optimizer", COMPUTE },
	[WHO] = { "schedule", EXCHANGE },
	[BUCKET] = { "bucket", EXCHANGE },
	[PIECE] = { "schedule", EXCHANGE },
	[CREDIT] = { "schedule", EXCHANGE },
	[WAY] = { "algorithm", EXCHANGE },
	[ROWS] = { "rows", EXCHANGE },
	[COMPRESS] = { "compress", COMPRESSION },
};

/* Option 0 of each is what stands where Taut sums and nothing else was decided. */
static const char *const buckets[] = { "1MiB", "256KiB", "1MiB", "2MiB", "4MiB",
	"10MiB", "16MiB", "25MiB", "50MiB", "100MiB" };
static const char *const pieces[] = { "1MiB", "128KiB", "256KiB", "512KiB", "2MiB",
	"4MiB", "8MiB" };
/* What is under way goes before what is wanted first: on a slow link that is a long time.
 * The replay takes the exchange's own time for nothing, so that with less than these it
 * promises what jobs do not come to. */
static const char *const credits[] = { "4MiB", "256KiB", "512KiB", "1MiB", "2MiB", "8MiB",
	"16MiB", "32MiB" };
/* By piece, the least credit but the first that has room for one: then what is wanted first
 * waits for as little as can be. */
static const uint8_t least_credits[] = { 3, 1, 1, 2, 4, 5, 5 };
static const char *const workers[] = { NULL, "1", "2", "3", "4", "6", "8", "12",
	"16" };
static const char *const loaders[] = { NULL, "taut" };
static const char *const heaps[] = { NULL, "keep" };
static const char *const narrow[] = { NULL, "fp16", "bf16", "mxint8,by=taut" };
static const char *const fused[] = { NULL, "fused" };
static const char *const parts[] = { NULL, "2", "4", "8" };
static const char *const autocast[] = { NULL, "bf16" };
static const char *const captured[] = { NULL, "graphs" };
static const char *const by_rows[] = { NULL, "rows" };

struct tauti_stacks {
	struct taut_plan_job job;
	struct taut_predictor *predictor;
	struct taut_arena *arena;
	const char *const *given;
	size_t n_given;
	int64_t memory_most; /* 0: no limit */
	const char *no_graphs; /* why they are none of this job's; NULL: they may be */
	const struct taut_plan_options *options; /* of create: whom to tell of replays */
	int64_t began_ns;
	bool is_stopped; /* by who was told: what is left is no option */
	bool exchanged; /* the recorded job is on Taut's exchange: what is decided of
	                   that is all decided by WHO */
	const char *texts[SITES][MOST_OPTIONS]; /* of the options; NULL: none */
	const char *schedules[MOST_OPTIONS][MOST_OPTIONS]; /* by piece, credit */
	const char *ours[MOST_OPTIONS]; /* of COMPRESS, where Taut sums */
	int64_t start_ns; /* as it is */
	int64_t alone_ns[MOST_SITES];
	uint8_t alone_best[SITES]; /* the option that takes so long */
	uint8_t n_options[MOST_SITES];
	uint32_t pass[MOST_SITES];
	uint8_t at[MOST_SITES], coarse[MOST_SITES];
	struct tauti_groups groups;
	int64_t caps[MOST_OPTIONS]; /* of BUCKET's options; 0: as recorded */
	struct tauti_space space;
	struct taut_names *known; /* stacks that were replayed, by text_of() */
	TAUT_VEC(struct tauti_cost) costs; /* of each, by id - 1 */
	uint64_t n_replayed;
	TAUT_VEC(const char *) notes;
	char why[256]; /* the last refusal */
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a search");
}

/* --- from options to a stack --------------------------------------------------------- */

static const char *text_at(const struct tauti_stacks *s, enum site site,
	const uint8_t *options)
{
	return s->texts[site][options[site]];
}

static const char *join(const struct tauti_stacks *s, const char *name,
	const char *value)
{
	return taut_arena_printf(s->arena, "%s=%s", name, value);
}

/* The texts are made once, for every option that there can be. */
static bool make_texts(struct tauti_stacks *s, enum site site,
	const char *form, const char *const *values, uint32_t n)
{
	s->n_options[site] = 0;
	for (uint32_t i = 0; i < n && i < MOST_OPTIONS; i++) {
		const char *text = values[i] && form ?
			join(s, form, values[i]) : values[i];

		if (values[i] && !text)
			return false;
		s->texts[site][s->n_options[site]++] = text;
	}
	return true;
}

static void push(struct tauti_stack *stack, const char *change)
{
	if (change && stack->n < TAUTI_STACK_MOST)
		stack->changes[stack->n++] = change;
}

/* The option's text, or one that lists the buckets. */
static taut_status find_bucket(const struct tauti_stacks *s,
	const uint8_t *options, const char **ret_text, struct taut_error *err)
{
	bool ours = options[WHO] > 0;
	int64_t cap = ours || options[BUCKET] ? s->caps[options[BUCKET]] : 0;
	taut_status status;

	*ret_text = NULL;
	if (!ours && s->exchanged) /* the exchange goes on as it does */
		return TAUT_OK;
	status = tauti_groups_text(&s->groups, cap,
		options + SITES, s->arena, ret_text, err);
	if (!status && !*ret_text && (ours || options[BUCKET]))
		*ret_text = text_at(s, BUCKET, options);
	return status;
}

/* Does Taut's exchange alone narrow so? */
static bool is_ours(const struct tauti_stacks *s, const uint8_t *options)
{
	const char *text = text_at(s, COMPRESS, options);

	return text && strstr(text, ",by=taut");
}

taut_status tauti_stacks_at(const struct tauti_stacks *s,
	const uint8_t *options, struct tauti_stack *ret_stack,
	struct taut_error *err)
{
	struct tauti_stack stack = { .n = 0 };
	bool ours = options[WHO] > 0;
	const char *bucket;
	taut_status status = find_bucket(s, options, &bucket, err);

	if (status)
		return status;
	for (size_t i = 0; i < s->n_given; i++)
		push(&stack, s->given[i]);
	push(&stack, text_at(s, WORKERS, options));
	push(&stack, text_at(s, LOADER, options));
	if (options[LOADER]) /* whose cache it is */
		push(&stack, text_at(s, CACHE, options));
	push(&stack, text_at(s, HEAP, options));
	push(&stack, text_at(s, RECOMPUTE, options));
	push(&stack, text_at(s, PARTS, options));
	push(&stack, text_at(s, COMPILE, options));
	push(&stack, text_at(s, AMP, options));
	if (!options[RECOMPUTE] && !options[PARTS] && !options[COMPILE])
		push(&stack, text_at(s, GRAPHS, options));
	push(&stack, text_at(s, OPTIMIZER, options));
	push(&stack, bucket);
	if (ours)
		push(&stack, text_at(s, ROWS, options));
	push(&stack, ours ? s->ours[options[COMPRESS]] :
		s->exchanged || is_ours(s, options) ? NULL :
		text_at(s, COMPRESS, options));
	if (ours) {
		push(&stack, text_at(s, WAY, options));
		push(&stack, s->schedules[options[PIECE]][options[CREDIT]]);
	}
	*ret_stack = stack;
	return TAUT_OK;
}

void tauti_stacks_plain(const struct tauti_stacks *s, uint8_t *options)
{
	memset(options + SITES, 0, s->groups.n_sites);
}

/* Blocks have 8 bits; what frameworks have hooks for has 16. */
bool tauti_stacks_milder(
	const struct tauti_stacks *s, uint8_t i, uint8_t *options)
{
	if (!is_ours(s, options) || i + 1 >= options[COMPRESS])
		return false;
	options[COMPRESS] = (uint8_t)(i + 1);
	return true;
}

bool tauti_stacks_usual(const struct tauti_stacks *s, uint8_t *options)
{
	if (s->exchanged)
		options[PIECE] = options[CREDIT] = 0;
	return s->exchanged;
}

size_t tauti_stacks_given(const struct tauti_stacks *s)
{
	return s->n_given;
}

/* --- what is remembered ---------------------------------------------------------------- */

/* None is empty. */
static bool text_of(const struct tauti_stack *stack, char text[TEXT_BYTES])
{
	size_t at = 1;

	memcpy(text, "\n", 2);
	for (size_t i = 0; i < stack->n; i++) {
		int n = snprintf(text + at, TEXT_BYTES - at, "%s\n",
			stack->changes[i]);

		if (n < 0 || (size_t)n >= TEXT_BYTES - at)
			return false;
		at += (size_t)n;
	}
	return true;
}

static taut_status remember(struct tauti_stacks *s, const char *text,
	const struct tauti_cost *cost, struct taut_error *err)
{
	if (!taut_vec_push(&s->costs, *cost))
		return no_memory(err);
	if (taut_names_add(s->known, text, strlen(text)) != TAUT_NONE)
		return TAUT_OK;
	s->costs.count--;
	return no_memory(err);
}

/* --- costs ------------------------------------------------------------------------------- */

static taut_status replay(struct tauti_stacks *s,
	const struct tauti_stack *stack, struct tauti_cost *ret_cost,
	struct taut_error *err)
{
	struct taut_predicted told;
	struct taut_error why = { .message = "" };
	taut_status status = taut_predictor_predict(
		s->predictor, stack->changes, stack->n, &told, &why);

	s->n_replayed++;
	*ret_cost = (struct tauti_cost){ TAUTI_NEVER, -1, -1 };
	if (status == TAUT_EINVAL || status == TAUT_EMATCH) {
		if (!s->why[0]) /* the first tells */
			snprintf(s->why, sizeof s->why, "%.250s", why.message);
		return TAUT_OK;
	}
	if (status)
		return taut_error_set(err, status, -1, "%s", why.message);
	*ret_cost = (struct tauti_cost){ told.step_ns, told.memory_bytes,
		told.network_bytes };
	if (s->memory_most && told.memory_bytes > s->memory_most)
		ret_cost->step_ns = TAUTI_NEVER;
	return TAUT_OK;
}

taut_status tauti_stacks_cost(struct tauti_stacks *s,
	const struct tauti_stack *stack, struct tauti_cost *ret_cost,
	struct taut_error *err)
{
	char text[TEXT_BYTES];
	bool fits = text_of(stack, text);
	uint32_t id = fits ?
		taut_names_find(s->known, text, strlen(text)) : TAUT_NONE;
	struct tauti_cost cost;
	taut_status status;

	if (id != TAUT_NONE) {
		*ret_cost = s->costs.data[id - 1];
		return TAUT_OK;
	}
	status = replay(s, stack, &cost, err);
	if (!status && fits)
		status = remember(s, text, &cost, err);
	if (!status)
		*ret_cost = cost;
	return status;
}

static taut_status set(void *self, uint32_t site, uint8_t option,
	struct taut_error *err)
{
	struct tauti_stacks *s = self;

	(void)err;
	s->at[site] = option;
	return TAUT_OK;
}

static taut_status cost(void *self, struct tauti_cost *ret_cost,
	struct taut_error *err)
{
	struct tauti_stacks *s = self;
	struct tauti_stack stack;
	taut_status status = tauti_stacks_at(s, s->at, &stack, err);

	return status ? status : tauti_stacks_cost(s, &stack, ret_cost, err);
}

static const struct tauti_space_ops ops = { .set = set, .cost = cost };

/* --- which options there are ---------------------------------------------------------------- */

static bool is_given(const struct taut_plan_options *o, const char *name)
{
	for (size_t i = 0; i < o->n_given; i++)
		if (tauti_plan_is_named(o->given[i], name))
			return true;
	return false;
}

static bool is_wanted(const struct taut_plan_options *o, const char *name)
{
	for (size_t i = 0; i < o->n_not_these; i++)
		if (!strcmp(o->not_these[i], name))
			return false;
	return !is_given(o, name); /* decided: the job has it */
}

static bool is_allowed(const struct tauti_stacks *s,
	const struct taut_plan_options *o, const char *name)
{
	const struct taut_plan_kind *kind = tauti_plan_kind_of(name);

	return is_wanted(o, name) &&
		tauti_plan_is_made_of(kind, s->job.framework) &&
		tauti_plan_numerics(kind, s->job.n_ranks) <= o->allow;
}

/* A plan of such a job says both, or nothing of the exchange. */
static bool lacks_bucket(
	const struct tauti_stacks *s, const struct taut_plan_options *o)
{
	return s->exchanged && is_given(o, "bucket");
}

#define N(values) (uint32_t)(sizeof values / sizeof *values)

static const struct offer { /* of sites whose values do not depend on the job */
	enum site site;
	const char *kind;  /* of the table of kinds; what is not wanted has its
	                      first value alone */
	const char *form;  /* NULL: values are parts of another text */
	const char *const *values;
	uint32_t n;
	bool exchange;     /* needs gradients that several ranks sum */
	bool limit;        /* gives memory alone: where that has a limit */
} offers[] = {
	{ WORKERS, "workers", "workers", workers, N(workers), false, false },
	{ LOADER, "loader", "loader", loaders, N(loaders), false, false },
	{ HEAP, "heap", "heap", heaps, N(heaps), false, false },
	{ PARTS, "microbatches", "microbatches", parts, N(parts), false, true },
	{ AMP, "amp", "amp", autocast, N(autocast), false, false },
	{ GRAPHS, "graphs", NULL, captured, N(captured), false, false },
	{ OPTIMIZER, "optimizer", "optimizer", fused, N(fused), false, false },
	{ BUCKET, "bucket", "bucket", buckets, N(buckets), true, false },
	{ ROWS, "rows", NULL, by_rows, N(by_rows), true, false },
	{ COMPRESS, "compress", "compress", narrow, N(narrow), true, false },
	{ PIECE, "schedule", NULL, pieces, N(pieces), true, false },
	{ CREDIT, "schedule", NULL, credits, N(credits), true, false },
};

/* Of two ranks a message goes each way, whole (flat) or in halves (all else), which is twice
 * as many: the first is what stands where the replay sees no difference. */
static bool add_ways(struct tauti_stacks *s, bool choose)
{
	const char *ways[MOST_OPTIONS] = { s->job.n_ranks == 2 ? "flat" : "ring" };
	uint32_t n = 1;

	if (choose && s->job.n_ranks == 2)
		ways[n++] = "ring";
	if (choose && s->job.n_ranks > 2)
		ways[n++] = "direct";
	if (choose && s->job.n_ranks > 2)
		ways[n++] = "halving-doubling";
	if (choose && s->job.n_hosts > 1 && s->job.n_hosts < s->job.n_ranks)
		ways[n++] = "hierarchical";
	return make_texts(s, WAY, "algorithm", ways, n);
}

/* All the memory that there is for it, or none. */
static bool add_caches(
	struct tauti_stacks *s, const struct taut_plan_options *o)
{
	const char *sizes[] = { NULL, NULL };
	bool wanted = o->cache_bytes > 0 && is_allowed(s, o, "cache") &&
		is_allowed(s, o, "loader");

	if (wanted)
		sizes[1] = taut_arena_printf(s->arena,
			"%" PRId64 "B,policy=pinned", o->cache_bytes);
	return (!wanted || sizes[1]) &&
		make_texts(s, CACHE, "cache", sizes, wanted ? 2 : 1);
}

static bool add_schedules(struct tauti_stacks *s, bool ours)
{
	const char *how = s->exchanged ? "fifo" : "priority";
	const char *rest = s->exchanged ? "order=agreed" :
		"barrier=cross,by=taut";

	s->n_options[WHO] = ours ? 2 : 1;
	for (uint32_t p = 0; p < N(pieces); p++)
		for (uint32_t c = 0; c < N(credits); c++) {
			const char *text = taut_arena_printf(s->arena,
				"schedule=%s,partition=%s,credit=%s,%s",
				how, pieces[p], credits[c], rest);

			if (!text)
				return false;
			s->schedules[p][c] = text;
		}
	return true;
}

static bool add_modules(struct tauti_stacks *s, enum site site,
	const char *form, bool wanted, const struct taut_graph *graph,
	bool (*find)(const struct taut_graph *, struct taut_arena *,
	struct tauti_plan_modules *))
{
	struct tauti_plan_modules found = { { NULL }, 1 };

	return (!wanted || find(graph, s->arena, &found)) &&
		make_texts(s, site, form, found.patterns, found.n);
}

static bool offer_all(struct tauti_stacks *s, const struct taut_graph *graph,
	const struct taut_plan_options *o)
{
	bool many = s->job.n_gradients > 0 && s->job.n_ranks > 1;
	bool ours = many && is_allowed(s, o, "schedule") && !lacks_bucket(s, o);
	bool ok = add_schedules(s, ours) && add_caches(s, o) &&
		add_ways(s, ours && is_allowed(s, o, "algorithm"));

	for (size_t i = 0; ok && i < N(offers); i++) {
		const struct offer *it = &offers[i];
		bool wanted = is_allowed(s, o, it->kind) &&
			(many || !it->exchange) &&
			(s->memory_most || !it->limit) &&
			(it->site != GRAPHS || !s->no_graphs) &&
			(it->site != ROWS || (ours &&
			tauti_plan_has_fact(graph, "embedding.")));

		ok = make_texts(s, it->site, it->form, it->values,
			wanted ? it->n : 1);
	}
	if (is_given(o, "bucket"))
		s->texts[BUCKET][0] = NULL;
	if (is_given(o, "algorithm"))
		s->texts[WAY][0] = NULL;
	if (ok)
		ok = add_modules(s, COMPILE, "compile", is_allowed(s, o,
			"compile"), graph, tauti_plan_compiled);
	return ok && add_modules(s, RECOMPUTE, "recompute", is_allowed(s, o,
		"recompute"), graph, tauti_plan_modules);
}

/* --- which of them the recording takes ---------------------------------------------------- */

static taut_status note(
	struct tauti_stacks *s, enum site site, struct taut_error *err)
{
	const char *text = taut_arena_printf(
		s->arena, "%s: %s", sites[site].name, s->why);

	return text && taut_vec_push(&s->notes, text) ? TAUT_OK :
		no_memory(err);
}

/* Is it a part of Taut's exchange, and nothing without? */
static bool is_part(const struct tauti_stacks *s, uint32_t site)
{
	return site == ROWS ||
		(s->exchanged && (site == BUCKET || site == COMPRESS));
}

/* This option alone, with what it needs: Taut's exchange, or its loader. */
static void put_alone(
	const struct tauti_stacks *s, uint32_t site, uint8_t option, uint8_t *options)
{
	memset(options, 0, s->space.n_sites);
	options[site] = option;
	if (site == CACHE)
		options[LOADER] = option > 0;
	if (is_part(s, site) || is_ours(s, options))
		options[WHO] = option > 0;
}

static taut_status try_option(struct tauti_stacks *s, enum site site,
	uint8_t option, struct tauti_cost *ret_cost, struct taut_error *err)
{
	uint8_t options[MOST_SITES] = { 0 };
	struct tauti_stack stack;
	taut_status status;

	put_alone(s, site, option, options);
	status = tauti_stacks_at(s, options, &stack, err);
	return status ? status : tauti_stacks_cost(s, &stack, ret_cost, err);
}

/* Nothing is decided yet: the best is the job as it is. */
static void tell(struct tauti_stacks *s)
{
	int64_t step_ns = s->start_ns == TAUTI_NEVER ? 0 : s->start_ns;
	const struct taut_plan_progress p = { step_ns, step_ns, s->n_replayed,
		(double)(tauti_now_ns() - s->began_ns) / 1e9 };

	s->is_stopped |= s->options->see &&
		s->options->see(s->options->context, &p) != 0;
}

/* What is refused is no option, unless memory alone is too little, which another
 * site may mend. Sites of Taut's own exchange say nothing alone. */
static taut_status try_site(
	struct tauti_stacks *s, enum site site, struct taut_error *err)
{
	uint8_t n = 1;
	taut_status status = TAUT_OK;

	s->alone_ns[site] = TAUTI_NEVER;
	s->why[0] = '\0';
	if (site == PIECE || site == CREDIT || site == WAY)
		return TAUT_OK;
	if ((site == CACHE && s->n_options[LOADER] == 1) ||
		(is_part(s, site) && s->n_options[WHO] == 1))
		s->n_options[site] = 1;
	for (uint8_t i = 1; !status && !s->is_stopped && i < s->n_options[site]; i++) {
		const uint8_t options[SITES] = { [COMPRESS] =
			site == COMPRESS ? i : 0 };
		bool with_ours = !s->exchanged && is_ours(s, options);
		struct tauti_cost c;

		if (with_ours && s->n_options[WHO] == 1)
			continue;
		status = try_option(s, site, i, &c, err);
		tell(s);
		if (status || (c.step_ns == TAUTI_NEVER && c.memory_bytes < 0))
			continue;
		/* Not alone: with the exchange. */
		if (!with_ours && c.step_ns < s->alone_ns[site]) {
			s->alone_ns[site] = c.step_ns;
			s->alone_best[site] = n;
		}
		s->texts[site][n++] = s->texts[site][i];
	}
	if (!status && !s->is_stopped && n == 1 && s->n_options[site] > 1)
		status = note(s, site, err);
	s->n_options[site] = n;
	return status;
}

/* Taut's exchange narrows by itself, and at other costs. */
static bool add_ours(struct tauti_stacks *s)
{
	for (uint8_t i = 1; i < s->n_options[COMPRESS]; i++) {
		const uint8_t options[SITES] = { [COMPRESS] = i };

		s->ours[i] = is_ours(s, options) ? s->texts[COMPRESS][i] :
			taut_arena_printf(s->arena, "%s,by=taut",
				s->texts[COMPRESS][i]);
		if (!s->ours[i])
			return false;
	}
	return true;
}

/* No change at all must be possible, or nothing can be said. */
static taut_status try_all(struct tauti_stacks *s, struct taut_error *err)
{
	struct tauti_cost c;
	taut_status status = try_option(s, WORKERS, 0, &c, err);

	if (!status && c.step_ns == TAUTI_NEVER && c.memory_bytes < 0)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s", s->why);
	s->start_ns = status ? 0 : c.step_ns;
	if (!status && s->memory_most && c.memory_bytes < 0)
		status = taut_error_set(err, TAUT_EINVAL, -1, "memory cannot be "
			"kept below a limit: the recording tells nothing of "
			"it; 'taut record --memory' does");
	for (int site = 0; !status && site < SITES; site++)
		status = try_site(s, (enum site)site, err);
	if (!status && s->n_options[WHO] == 1)
		s->n_options[PIECE] = s->n_options[CREDIT] =
			s->n_options[WAY] = 1;
	return status;
}

/* --- gradients one by one ------------------------------------------------------------------ */

static taut_status read_caps(struct tauti_stacks *s, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint8_t i = 0; !status && i < s->n_options[BUCKET]; i++) {
		struct tauti_change change;
		double *bytes;
		uint32_t n;

		status = tauti_change_read(
			s->texts[BUCKET][i], s->arena, &change, err);
		if (!status)
			status = tauti_param_sizes(
				&change, 0, s->arena, &bytes, &n, err);
		if (!status)
			s->caps[i] = (int64_t)*bytes;
	}
	return status;
}

/* Where buckets are decided at all. The coarse view has none of these. */
static taut_status add_groups(struct tauti_stacks *s,
	const struct tauti_plan_order *order, struct taut_error *err)
{
	bool offered = s->n_options[BUCKET] > 1 && order->n > 1;

	memset(s->coarse, 1, SITES);
	if (!offered)
		return TAUT_OK;
	tauti_groups_find(order, &s->groups);
	for (uint32_t i = SITES; i < SITES + s->groups.n_sites; i++) {
		s->n_options[i] = 2;
		s->pass[i] = EXCHANGE;
		s->alone_ns[i] = TAUTI_NEVER;
	}
	s->space.n_sites += s->groups.n_sites;
	return read_caps(s, err);
}

/* Of such a job nothing can be made at all. */
static taut_status refuse_framework(
	const struct tauti_stacks *s, struct taut_error *err)
{
	const struct taut_plan_kind *kind;

	for (size_t i = 0; (kind = taut_plan_kind(i)) != NULL; i++)
		if (tauti_plan_is_made_of(kind, s->job.framework))
			return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1, "this is a recording of a "
		"job of %s, of which 'taut run' makes no change; 'taut whatif' "
		"predicts them", s->job.framework);
}

/* Which kinds are not for such a job. */
static taut_status note_framework(
	struct tauti_stacks *s, struct taut_error *err)
{
	const struct taut_plan_kind *kind;
	const char *text = "", *names = "";

	for (size_t i = 0; names && (kind = taut_plan_kind(i)) != NULL; i++)
		if (!tauti_plan_is_made_of(kind, s->job.framework))
			names = taut_arena_printf(s->arena, "%s%s%s", names,
				*names ? ", " : "", kind->change);
	if (names)
		text = taut_arena_printf(s->arena, "%s: 'taut run' does not "
			"make them of a job of %s", names, s->job.framework);
	return names && text && taut_vec_push(&s->notes, text) ? TAUT_OK :
		no_memory(err);
}

/* What is not decided of several ranks: their gradients are not known, or what goes
 * together is given. */
static taut_status note_gradients(struct tauti_stacks *s,
	const struct taut_plan_options *o, const char *why, struct taut_error *err)
{
	static const char *const kinds_of[] = { "bucket", "compress", "algorithm",
		"schedule" };
	const char *names = "", *text;

	if (!why || s->job.n_ranks < 2)
		return TAUT_OK;
	for (size_t i = 0; names && i < N(kinds_of); i++)
		if (is_allowed(s, o, kinds_of[i]))
			names = taut_arena_printf(s->arena, "%s%s%s", names,
				*names ? ", " : "", kinds_of[i]);
	if (names && !*names)
		return TAUT_OK;
	text = names ? taut_arena_printf(
		s->arena, "%s: %s", names, why) : NULL;
	return text && taut_vec_push(&s->notes, text) ? TAUT_OK :
		no_memory(err);
}

/* --- the whole ---------------------------------------------------------------------------- */

static taut_status begin(struct tauti_stacks *s, const struct taut_graph *graph,
	const struct taut_plan_options *o, struct taut_error *err)
{
	struct tauti_plan_order order;
	const char *why = NULL;
	taut_status status = TAUT_OK;

	if (o->n_given > TAUTI_STACK_MOST - SITES)
		return taut_error_set(err, TAUT_EINVAL, -1, "expected at most %d "
			"changes that hold, found %zu", TAUTI_STACK_MOST - SITES,
			o->n_given);
	status = tauti_plan_read_job(
		graph, o->given, o->n_given, s->arena, &s->job, &order, &why, err);
	for (int site = 0; site < SITES; site++)
		s->pass[site] = sites[site].pass;
	s->exchanged = tauti_plan_is_foreign(s->job.framework);
	s->options = o;
	s->began_ns = tauti_now_ns();
	s->given = o->given;
	s->n_given = o->n_given;
	s->memory_most = o->memory_most;
	s->space = (struct tauti_space){ .ops = &ops, .self = s,
		.n_sites = SITES, .n_options = s->n_options, .pass = s->pass,
		.coarse = s->coarse,
		.n_passes = PASSES, .pass_names = pass_names };
	if (!status)
		status = refuse_framework(s, err);
	if (!status && order.exchanged && !s->exchanged)
		status = taut_error_set(err, TAUT_EINVAL, -1, "this job was "
			"recorded under 'taut run', whose exchange a plan would "
			"decide on anew; record it without");
	if (!status)
		status = taut_predictor_create(graph, &s->predictor, err);
	if (!status)
		status = tauti_plan_graphs(graph, s->job.n_ranks, s->arena,
			&s->no_graphs, err);
	if (!status && !offer_all(s, graph, o))
		status = no_memory(err);
	if (!status && tauti_plan_is_foreign(s->job.framework))
		status = note_framework(s, err);
	if (!status && s->no_graphs && *s->no_graphs && is_allowed(s, o, "graphs")) {
		snprintf(s->why, sizeof s->why, "%s", s->no_graphs);
		status = note(s, GRAPHS, err);
	}
	if (!why && lacks_bucket(s, o))
		why = "a plan says bucket= beside them, which is given";
	if (!status)
		status = note_gradients(s, o, why, err);
	if (!status && !add_ours(s))
		status = no_memory(err);
	if (!status)
		status = try_all(s, err);
	if (!status && !add_ours(s)) /* again: of the options that are left */
		status = no_memory(err);
	return status ? status : add_groups(s, &order, err);
}

taut_status tauti_stacks_create(const struct taut_graph *graph,
	const struct taut_plan_options *options,
	struct tauti_stacks **ret_stacks, struct taut_error *err)
{
	struct tauti_stacks *s = calloc(1, sizeof *s);
	taut_status status;

	if (!s)
		return no_memory(err);
	s->arena = taut_arena_create();
	s->known = taut_names_create();
	status = s->arena && s->known ? TAUT_OK : no_memory(err);
	if (!status)
		status = begin(s, graph, options, err);
	if (status)
		tauti_stacks_destroy(s);
	else
		*ret_stacks = s;
	return status;
}

void tauti_stacks_destroy(struct tauti_stacks *s)
{
	if (!s)
		return;
	taut_predictor_destroy(s->predictor);
	taut_names_destroy(s->known);
	taut_vec_free(&s->costs);
	taut_vec_free(&s->notes);
	taut_arena_destroy(s->arena);
	free(s);
}

const struct tauti_space *tauti_stacks_space(const struct tauti_stacks *s)
{
	return &s->space;
}

bool tauti_stacks_is_stopped(const struct tauti_stacks *s)
{
	return s->is_stopped;
}

const struct taut_plan_job *tauti_stacks_job(const struct tauti_stacks *s)
{
	return &s->job;
}

uint64_t tauti_stacks_replayed(const struct tauti_stacks *s)
{
	return s->n_replayed;
}

const char *const *tauti_stacks_notes(
	const struct tauti_stacks *s, uint32_t *ret_n)
{
	*ret_n = (uint32_t)s->notes.count;
	return s->notes.data;
}

int64_t tauti_stacks_alone(const struct tauti_stacks *s, uint32_t site)
{
	return s->alone_ns[site];
}

bool tauti_stacks_best_alone(
	const struct tauti_stacks *s, uint32_t site, uint8_t *ret_options)
{
	if (s->alone_ns[site] == TAUTI_NEVER)
		return false;
	put_alone(s, site, s->alone_best[site], ret_options);
	return true;
}

/* What buckets gain alone is not what Taut's exchange gains by fusing. */
bool tauti_stacks_seed(const struct tauti_stacks *s, uint32_t which,
	uint8_t *ret_options)
{
	if (which && s->n_options[WHO] < 2)
		return false;
	if (which > 1 && which - 2 >= s->n_options[PIECE])
		return false;
	for (int site = 0; site < SITES; site++) {
		/* of rows all that is told is beside Taut's exchange */
		int64_t without_ns = site == ROWS ? s->alone_ns[WHO] :
			s->start_ns;

		ret_options[site] = s->alone_ns[site] < without_ns ?
			s->alone_best[site] : 0;
	}
	ret_options[WHO] = which > 0;
	if (which)
		ret_options[BUCKET] = 0;
	if (which > 1) {
		ret_options[PIECE] = (uint8_t)(which - 2);
		ret_options[CREDIT] = least_credits[which - 2];
	}
	tauti_stacks_plain(s, ret_options);
	return true;
}

const char *tauti_stacks_site_name(const struct tauti_stacks *s, uint32_t site)
{
	(void)s;
	return sites[site < SITES ? site : BUCKET].name;
}
