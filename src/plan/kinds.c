/* kinds.c - which changes a running job can be given, and what becomes of its
 * results. */
#include <string.h>

#include "plan/plan.h"

static const char *const numerics[TAUT_NUMERICS_CLASSES] = {
	[TAUT_NUMERICS_EXACT] = "exact",
	[TAUT_NUMERICS_REORDERED] = "reordered",
	[TAUT_NUMERICS_LOSSY] = "lossy",
};

enum {
	TORCH = TAUT_PLAN_PYTORCH,
	EXCHANGED = TAUT_PLAN_PYTORCH | TAUT_PLAN_TENSORFLOW,
};

/* In the order in which a plan lays them: a change sees what those before it
 * left. */
static const struct taut_plan_kind kinds[] = {
	{ "workers", "the DataLoaders that train get so many worker processes",
		TAUT_NUMERICS_EXACT, "a DataLoader of the job's own", TORCH },
	{ "loader", "Taut's loader makes the batches; what is random has other "
		"numbers", TAUT_NUMERICS_REORDERED, "DataLoader over an ImageFolder, and "
		"transforms that Taut has", TORCH },
	{ "cache", "so much of the data set is kept in memory that a host's "
		"ranks share", TAUT_NUMERICS_EXACT, "loader, and --cache, "
		"which says how much memory there is for it", TORCH },
	{ "heap", "malloc keeps the job's memory for the next step",
		TAUT_NUMERICS_EXACT, "the malloc of the GNU C library",
		TORCH | TAUT_PLAN_TENSORFLOW | TAUT_PLAN_MXNET },
	{ "recompute", "modules are checkpointed: what they make is made again "
		"in the backward pass", TAUT_NUMERICS_EXACT,
		"modules of these names", TORCH },
	{ "microbatches", "the model runs on its batch in parts; gradients are "
		"added up", TAUT_NUMERICS_REORDERED, "--memory; DistributedDataParallel, "
		"and a model that takes each sample by itself", TORCH },
	{ "compile", "modules are compiled by PyTorch's compiler",
		TAUT_NUMERICS_REORDERED, "modules of these names", TORCH },
	{ "amp", "the model's forward pass runs under autocast",
		TAUT_NUMERICS_LOSSY, "a device that multiplies 16 bits faster",
		TORCH },
	{ "graphs", "the model's forward and backward pass are CUDA graphs",
		TAUT_NUMERICS_EXACT, "DistributedDataParallel of one rank on a "
		"GPU, and a model that never waits for it", TORCH },
	{ "optimizer", "optimizers take their fused form",
		TAUT_NUMERICS_REORDERED, "an optimizer that has one", TORCH },
	{ "bucket", "gradients travel together up to so many bytes",
		TAUT_NUMERICS_REORDERED, "DistributedDataParallel or "
		"taut.tensorflow", EXCHANGED },
	{ "rows", "gradients of embeddings go by the rows that were looked up",
		TAUT_NUMERICS_REORDERED, "schedule, which brings Taut's exchange; "
		"nn.Embedding of which few rows are looked up", TORCH },
	{ "compress", "gradients are narrowed on the wire",
		TAUT_NUMERICS_LOSSY, "DistributedDataParallel or taut.tensorflow",
		EXCHANGED },
	{ "algorithm", "all-reduces are carried out in this way",
		TAUT_NUMERICS_REORDERED, "schedule, which brings Taut's "
		"collectives", EXCHANGED },
	{ "schedule", "gradients are summed by Taut in pieces by priority, "
		"across the step's end", TAUT_NUMERICS_REORDERED,
		"DistributedDataParallel, gradients in the host's memory; or "
		"taut.tensorflow", EXCHANGED },
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const struct taut_plan_kind *taut_plan_kind(size_t i)
{
	return i < N_KINDS ? &kinds[i] : NULL;
}

const struct taut_plan_kind *tauti_plan_kind_of(const char *change_name)
{
	for (size_t i = 0; i < N_KINDS; i++)
		if (!strcmp(kinds[i].change, change_name))
			return &kinds[i];
	return NULL;
}

/* 0: one of which nothing is made. NULL: not known, as "". */
static uint32_t framework_of(const char *name)
{
	static const struct {
		const char *name;
		uint32_t bit;
	} names[] = { { "", TAUT_PLAN_PYTORCH }, { "pytorch", TAUT_PLAN_PYTORCH },
		{ "tensorflow", TAUT_PLAN_TENSORFLOW },
		{ "mxnet", TAUT_PLAN_MXNET } };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(names[i].name, name ? name : ""))
			return names[i].bit;
	return 0;
}

bool tauti_plan_is_foreign(const char *framework)
{
	return framework_of(framework) != TAUT_PLAN_PYTORCH;
}

bool tauti_plan_is_made_of(
	const struct taut_plan_kind *kind, const char *framework)
{
	return kind->frameworks & framework_of(framework);
}

enum taut_numerics tauti_plan_numerics(
	const struct taut_plan_kind *kind, uint32_t n_ranks)
{
	static const char *const sums[] = { "bucket", "algorithm", "schedule" };

	for (size_t i = 0; n_ranks == 2 && i < sizeof sums / sizeof *sums; i++)
		if (!strcmp(kind->change, sums[i]))
			return TAUT_NUMERICS_EXACT;
	return kind->numerics;
}

bool tauti_plan_is_named(const char *change, const char *name)
{
	char own[32];

	tauti_plan_change_name(change, own, sizeof own);
	return !strcmp(own, name);
}

bool tauti_plan_goes_with(const char *change, const char *other)
{
	if (tauti_plan_is_named(other, "loader"))
		return tauti_plan_is_named(change, "cache");
	return tauti_plan_is_named(other, "schedule") &&
		(tauti_plan_is_named(change, "algorithm") ||
		tauti_plan_is_named(change, "bucket") ||
		tauti_plan_is_named(change, "rows") ||
		(tauti_plan_is_named(change, "compress") &&
		strstr(change, "by=taut")));
}

uint32_t taut_plan_without(const struct taut_plan *plan, uint32_t which,
	struct taut_decision *ret_left)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < plan->n_decisions; i++)
		if (i != which && !tauti_plan_goes_with(plan->decisions[i].change,
			plan->decisions[which].change))
			ret_left[n++] = plan->decisions[i];
	return n;
}

const char *taut_numerics_name(enum taut_numerics which)
{
	return which < TAUT_NUMERICS_CLASSES ? numerics[which] : "";
}

int taut_numerics_find(const char *name, enum taut_numerics *ret)
{
	for (int i = 0; i < TAUT_NUMERICS_CLASSES; i++) {
		if (strcmp(numerics[i], name))
			continue;
		*ret = (enum taut_numerics)i;
		return 1;
	}
	return 0;
}

void tauti_plan_change_name(const char *change, char *ret_name, size_t room)
{
	size_t n = strcspn(change, "=,");

	if (n > room - 1)
		n = room - 1;
	memcpy(ret_name, change, n);
	ret_name[n] = '\0';
}
