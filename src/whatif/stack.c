/* stack.c - in which order the changes of a stack are laid, and which do not go
 * together.
 *
 * Each sees what those before it left, and so the order is the user's; but for
 * those that mean one thing however they stand: a forward pass that is done
 * again is copied with ranks and micro-batches, and a batch in parts with ranks; of what
 * it makes again nothing is kept, and so nothing moved; what is compiled is what there is to compute
 * by then, and what waits for it waits for all; what is encoded is a batch as large as it then
 * is, and moves encoded; bytes that are to move are so many of any batch; and
 * servers add up as fast behind any link, and ranks agree over it; and what is
 * narrowed, or given a way or a turn, is what is sent of a gradient that goes by rows, and in
 * the last of several micro-batches, and what is
 * narrowed, cut or held back are the buckets that there are in the end. */
#include <string.h>

#include "whatif/predict.h"

static const struct {
	const char *first, *then;
} pairs[] = {
	{ "link", "server" },
	{ "rows", "compress" },
	{ "rows", "partition" },
	{ "rows", "algorithm" },
	{ "rows", "schedule" },
	{ "link", "schedule" },
	{ "ideal-network", "schedule" },
	{ "bucket", "rows" },
	{ "bucket", "compress" },
	{ "bucket", "partition" },
	{ "bucket", "overlap" },
	{ "server", "compress" },
	{ "server", "partition" },
	{ "server", "overlap" },
	{ "accumulate", "compress" },
	{ "microbatches", "compress" },
	{ "recompute", "world" },
	{ "microbatches", "world" },
	{ "microbatches", "tensor" },
	{ "recompute", "compile" },
	{ "batch", "compile" },
	{ "compile", "schedule" },
	{ "recompute", "accumulate" },
	{ "recompute", "gist" },
	{ "recompute", "offload" },
	{ "batch", "gist" },
	{ "amp", "gist" },
	{ "batch", "offload" },
	{ "accumulate", "offload" },
	{ "gist", "offload" },
};

/* What is predicted of each alone, and of both by nothing that a recording tells. */
static const struct {
	const char *change, *other, *why;
} apart[] = {
	{ "rows", "world", "which rows other ranks look up is not told" },
	{ "rows", "batch", "how many rows other batches look up is not told" },
	{ "rows", "accumulate", "what is kept from one batch to the next goes as "
		"a whole" },
	{ "compile", "amp", "what compiling gives was measured in 32 bits, on a "
		"host, and amp is of devices" },
};

static bool is(const struct tauti_change *change, const char *name)
{
	return !strcmp(change->is->info.name, name);
}

static taut_status check_pair(const struct tauti_change *a,
	const struct tauti_change *b, struct taut_error *err)
{
	for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
		if (is(a, apart[i].change) && is(b, apart[i].other))
			return taut_error_set(err, TAUT_EINVAL, -1, "%s: not "
				"beside %s: %s", a->text, b->text, apart[i].why);
	return TAUT_OK;
}

static bool has(const struct tauti_change *change, const char *parameter,
	const char *word)
{
	for (size_t i = 0; i < change->is->info.n_parameters; i++)
		if (!strcmp(change->is->info.parameters[i].name, parameter))
			return !strcmp(change->values[i], word);
	return false;
}

/* Taut's exchange alone has them, once it crosses the end of the step. */
static taut_status check_rows(const struct tauti_change *changes, size_t n,
	struct taut_error *err)
{
	const struct tauti_change *rows = NULL;
	bool can = false;

	for (size_t i = 0; i < n; i++) {
		if (is(&changes[i], "rows"))
			rows = &changes[i];
		can |= is(&changes[i], "schedule") &&
			has(&changes[i], "by", "taut") &&
			has(&changes[i], "barrier", "cross") &&
			!has(&changes[i], "", "fifo");
	}
	if (!rows || can)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1, "rows: Taut's exchange has "
		"them where it crosses the end of the step; expected "
		"schedule=priority,barrier=cross,by=taut beside it");
}

taut_status tauti_stack_check(const struct tauti_change *changes, size_t n,
	struct taut_error *err)
{
	taut_status status = check_rows(changes, n, err);

	for (size_t i = 0; !status && i < n; i++)
		for (size_t k = 0; !status && k < n; k++)
			status = check_pair(&changes[i], &changes[k], err);
	return status;
}

static bool goes_before(
	const struct tauti_change *a, const struct tauti_change *b)
{
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (is(a, pairs[i].first) && is(b, pairs[i].then))
			return true;
	return false;
}

/* Before the first of those before it that it goes before. */
static bool move(struct tauti_change *changes, size_t i)
{
	struct tauti_change is = changes[i];
	size_t to = 0;

	while (to < i && !goes_before(&is, &changes[to]))
		to++;
	memmove(changes + to + 1, changes + to, (i - to) * sizeof *changes);
	changes[to] = is;
	return to < i;
}

void tauti_stack_sort(struct tauti_change *changes, size_t n)
{
	bool moved = true;

	for (size_t turn = 0; moved && turn < n; turn++) {
		moved = false;
		for (size_t i = 1; i < n; i++)
			moved |= move(changes, i);
	}
}
