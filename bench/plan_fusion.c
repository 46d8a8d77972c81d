/* plan_fusion.c - how long a search of operator fusion, tensor fusion and partition
 * takes over the steps of published models (plan_models.c), and what it finds.
 *
 *     plan_fusion [--budget S] [--long S] [--seed N] [--ablate] [MODEL...]
 *
 * 16 ranks on 2 hosts, batches of 32, an all-reduce as a ring over 100 Gb/s, by TCP
 * and by RDMA (links[] below has what is assumed of them).
 *
 * steps: the step in ms as it is (no fusion, each gradient by itself), with each pass
 * alone and with all by `joint`, and by each other strategy, each within the budget;
 * the best of a long run; and what no state can beat. seconds: of one core, until
 * `joint` was within 1 % of the best of the long run.
 * --ablate: `joint` with one means after the other left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <plan/search.h>

#include "plan_models.h"

enum { BATCH = 32, RANKS = 16, HOSTS = 2, SEEN = 4096 };

struct link {
	const char *name;
	double gbs;        /* of a host's link, for one all-reduce */
	double message_us; /* of each of a ring's 30 steps */
	double fixed_us;   /* to agree on it, to launch it */
};

/* dPRO's 16 ranks took 0.35 ms more for each of some 200 all-reduces by TCP, and one
 * of all of ResNet-50's gradients about 65 ms. */
static const struct link links[] = {
	{ "TCP", 3.0, 10, 50 },
	{ "RDMA", 9.0, 3, 50 },
};

struct seen { /* new bests, as they came */
	double after_s[SEEN];
	int64_t step_ns[SEEN];
	uint32_t n;
};

struct result {
	int64_t step_ns;
	uint64_t n_costs, n_proven;
	double seconds;
	struct seen seen;
};

struct settings {
	double budget_s, long_s;
	uint64_t seed; /* of each strategy over all passes */
	bool ablates;
};

static void die(const struct taut_error *err)
{
	fprintf(stderr, "plan_fusion: %s\n", err->message);
	exit(1);
}

static struct tauti_fusion *make(struct made_step *step,
	const struct tauti_fusion_engine *engine)
{
	struct taut_error err;
	struct tauti_fusion *fusion;

	step->in.engine = engine;
	if (tauti_fusion_create(&step->in, &fusion, &err))
		die(&err);
	return fusion;
}

static struct made_step *make_step(const struct plan_model *model,
	const struct link *link)
{
	struct made_step *step = model->make(&plan_v100, BATCH);

	step->in.link = (struct tauti_fusion_link) {
		.law = { .kind = TAUT_COLL_ALLREDUCE,
			.algorithm = TAUT_ALGO_RING, .ranks = RANKS,
			.hosts = HOSTS },
		.message_ns = link->message_us * 1e3, .byte_ns = 1 / link->gbs,
		.fixed_ns = (int64_t)(link->fixed_us * 1e3) };
	made_step_in(step);
	return step;
}

/* --- one search ---------------------------------------------------------------------- */

static bool note(void *context, const struct tauti_search *search)
{
	struct seen *seen = context;
	const struct tauti_found *best = tauti_search_best(search);

	if (seen->n < SEEN && (!seen->n ||
		best->cost.step_ns < seen->step_ns[seen->n - 1])) {
		seen->after_s[seen->n] = best->after_s;
		seen->step_ns[seen->n++] = best->cost.step_ns;
	}
	return false;
}

/* The same space, with the answers of its rules counted. */
struct counter {
	const struct tauti_space *below;
	uint64_t n_proven;
};

static taut_status count_set(void *self, uint32_t site, uint8_t option,
	struct taut_error *err)
{
	const struct tauti_space *below = ((struct counter *)self)->below;

	return below->ops->set(below->self, site, option, err);
}

static taut_status count_cost(void *self, struct tauti_cost *ret_cost,
	struct taut_error *err)
{
	const struct tauti_space *below = ((struct counter *)self)->below;

	return below->ops->cost(below->self, ret_cost, err);
}

static enum tauti_rule count_rule(void *self, uint32_t site, uint8_t option)
{
	struct counter *counter = self;
	enum tauti_rule rule = counter->below->ops->rule(
		counter->below->self, site, option);

	counter->n_proven += rule != TAUTI_RULE_NONE;
	return rule;
}

static uint32_t count_critical(void *self, uint32_t *ret_sites, uint32_t most)
{
	const struct tauti_space *below = ((struct counter *)self)->below;

	return below->ops->critical(below->self, ret_sites, most);
}

static const struct tauti_space_ops count_ops = {
	count_set, count_cost, count_rule, count_critical };

static void search_it(const struct tauti_space *below, const char *strategy,
	struct tauti_search_options options, struct result *ret)
{
	struct counter counter = { below, 0 };
	struct tauti_space counted = *below, *space = &counted;
	struct taut_error err;
	struct tauti_search *search;

	counted.ops = &count_ops;
	counted.self = &counter;
	ret->seen.n = 0;
	options.see = note;
	options.context = &ret->seen;
	if (tauti_search_create(space, &options, &search, &err))
		die(&err);
	note(&ret->seen, search);
	if (tauti_search_run(search, strategy, &err))
		die(&err);
	ret->step_ns = tauti_search_best(search)->cost.step_ns;
	ret->n_costs = tauti_search_costs(search);
	ret->seconds = tauti_search_seconds(search);
	ret->n_proven = counter.n_proven;
	tauti_search_destroy(search);
}

/* Until it was within 1 % of best; -1: never. */
static double seconds_until(const struct result *result, int64_t best_ns)
{
	for (uint32_t i = 0; i < result->seen.n; i++)
		if ((double)result->seen.step_ns[i] <= 1.01 * (double)best_ns)
			return result->seen.after_s[i];
	return -1;
}

/* --- what is found ---------------------------------------------------------------------- */

static int64_t pass_alone(const struct tauti_space *space, uint32_t pass,
	double budget_s)
{
	struct tauti_space of_pass = *space;
	uint8_t *n_options = malloc(space->n_sites);
	static struct result result;

	by_hand_must(n_options != NULL);
	for (uint32_t i = 0; i < space->n_sites; i++)
		n_options[i] = space->pass[i] == pass ? space->n_options[i] : 1;
	of_pass.n_options = n_options;
	search_it(&of_pass, "joint", (struct tauti_search_options) {
		.budget_s = budget_s, .seed = 1 }, &result);
	free(n_options);
	return result.step_ns;
}

/* `joint` from one seed after the other. */
static int64_t best_of_long(const struct tauti_space *space, double long_s)
{
	static struct result result;
	int64_t best = INT64_MAX;
	double spent_s = 0;

	for (uint64_t seed = 2; spent_s < long_s; seed++) {
		search_it(space, "joint", (struct tauti_search_options) {
			.budget_s = long_s - spent_s, .seed = seed }, &result);
		spent_s += result.seconds > 0.01 ? result.seconds : 0.01;
		best = result.step_ns < best ? result.step_ns : best;
	}
	return best;
}

static double ms(int64_t ns)
{
	return (double)ns / 1e6;
}

static void show_steps(const struct plan_model *model, const struct link *link,
	const struct settings *s)
{
	struct made_step *step = make_step(model, link);
	struct tauti_fusion *fusion = make(step, NULL);
	const struct tauti_space *space = tauti_fusion_space(fusion);
	static struct result joint, other;
	struct tauti_search_options options = { .budget_s = s->budget_s,
		.seed = s->seed };
	int64_t best;

	search_it(space, "joint", options, &joint);
	best = best_of_long(space, s->long_s);
	best = joint.step_ns < best ? joint.step_ns : best;
	printf("%-12s %-5s %5u %5u %7.2f", model->name, link->name,
		step->in.n_ops, space->n_sites, ms(joint.seen.step_ns[0]));
	for (uint32_t pass = 0; pass < space->n_passes; pass++)
		printf(" %7.2f", ms(pass_alone(space, pass, s->budget_s)));
	printf(" %7.2f", ms(joint.step_ns));
	for (uint32_t i = 0; tauti_strategies[i]; i++) {
		const char *name = tauti_strategies[i]->name;

		if (!strcmp(name, "joint") || !strcmp(name, "exhaustive"))
			continue;
		search_it(space, name, options, &other);
		printf(" %7.2f", ms(other.step_ns));
	}
	printf(" %7.2f %7.2f %7.2f %7.1f %7.0f %8.0f\n", ms(best),
		ms(tauti_fusion_least_ns(fusion)), seconds_until(&joint, best),
		joint.seconds, (double)joint.n_costs / joint.seconds,
		(double)joint.n_proven / joint.seconds);
	fflush(stdout);
	tauti_fusion_destroy(fusion);
	made_step_destroy(step);
}

static void head(void)
{
	printf("%-12s %-5s %5s %5s %7s %7s %7s %7s %7s", "model", "link", "ops",
		"sites", "as is", "ops", "tensors", "pieces", "joint");
	for (uint32_t i = 0; tauti_strategies[i]; i++)
		if (strcmp(tauti_strategies[i]->name, "joint") &&
			strcmp(tauti_strategies[i]->name, "exhaustive"))
			printf(" %7.7s", tauti_strategies[i]->name);
	printf(" %7s %7s %7s %7s %7s %8s\n", "long", "bound", "to 1 %", "seconds",
		"plays/s", "proven/s");
}

/* --- one means after the other left out ---------------------------------------------------- */

static void show_without(struct made_step *step, const char *what,
	const struct tauti_fusion_engine *engine,
	struct tauti_search_options options, int64_t best)
{
	struct tauti_fusion *fusion = make(step, engine);
	static struct result result;

	search_it(tauti_fusion_space(fusion), "joint", options, &result);
	printf("  %-20s %9.2f %9.2f %9.1f %9.0f %9.0f\n", what,
		ms(result.step_ns), seconds_until(&result, best), result.seconds,
		(double)result.n_costs / result.seconds,
		(double)result.n_proven / result.seconds);
	fflush(stdout);
	tauti_fusion_destroy(fusion);
}

static void ablate(const struct plan_model *model, const struct link *link,
	const struct settings *s)
{
	struct made_step *step = make_step(model, link);
	struct tauti_fusion *fusion = make(step, NULL);
	const struct tauti_search_options all = { .budget_s = s->budget_s,
		.seed = s->seed };
	struct tauti_search_options o;
	int64_t best = best_of_long(tauti_fusion_space(fusion), s->long_s);

	tauti_fusion_destroy(fusion);
	printf("%s, %s: best of %g s %.2f ms\n", model->name, link->name,
		s->long_s, ms(best));
	printf("  %-20s %9s %9s %9s %9s %9s\n", "without", "step, ms",
		"to 1 %, s", "seconds", "plays/s", "proven/s");
	show_without(step, "(nothing)", NULL, all, best);
	show_without(step, "incremental replay", &tauti_fusion_full, all, best);
	o = all, o.no_rules = true;
	show_without(step, "rules", NULL, o, best);
	o = all, o.no_critical = true;
	show_without(step, "critical path", NULL, o, best);
	o = all, o.no_mirror = true;
	show_without(step, "mirrors", NULL, o, best);
	o = all, o.no_coarse = true;
	show_without(step, "coarsened view", NULL, o, best);
	o = all, o.no_memory = true;
	show_without(step, "memory", NULL, o, best);
	o.no_rules = o.no_critical = o.no_mirror = o.no_coarse = true;
	show_without(step, "all of them", &tauti_fusion_full, o, best);
	made_step_destroy(step);
}

/* --- the command ------------------------------------------------------------------------------ */

static bool is_wanted(const char *name, int argc, char **argv)
{
	bool any = false;

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '-') {
			i += strcmp(argv[i], "--ablate") != 0;
			continue;
		}
		any = true;
		if (!strcmp(argv[i], name))
			return true;
	}
	return !any;
}

static bool read_settings(int argc, char **argv, struct settings *s)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--ablate"))
			s->ablates = true;
		else if (i + 1 < argc && !strcmp(argv[i], "--budget"))
			s->budget_s = atof(argv[++i]);
		else if (i + 1 < argc && !strcmp(argv[i], "--long"))
			s->long_s = atof(argv[++i]);
		else if (i + 1 < argc && !strcmp(argv[i], "--seed"))
			s->seed = strtoull(argv[++i], NULL, 10);
		else if (argv[i][0] == '-')
			return false;
	}
	return s->budget_s > 0 && s->long_s > 0;
}

int main(int argc, char **argv)
{
	struct settings s = { 10, 40, 1, false };

	if (!read_settings(argc, argv, &s)) {
		fprintf(stderr, "usage: plan_fusion [--budget S] [--long S] "
			"[--seed N] [--ablate] [MODEL...]\n");
		return 2;
	}
	if (!s.ablates)
		head();
	for (uint32_t m = 0; plan_models[m].name; m++)
		for (uint32_t l = 0; l < 2; l++) {
			if (!is_wanted(plan_models[m].name, argc, argv))
				continue;
			if (s.ablates)
				ablate(&plan_models[m], &links[l], &s);
			else
				show_steps(&plan_models[m], &links[l], &s);
		}
	return 0;
}
