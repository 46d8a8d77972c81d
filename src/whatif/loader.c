/* loader.c - batches made by Taut's loader in place of PyTorch's: the same items
 * in the same order, by as many threads as there were worker processes. */
#include <stdlib.h>

#include "whatif/compute.h"

enum { WHOSE, PREPARE };

static const struct taut_parameter parameters[] = {
	[WHOSE] = { "", "taut", "taut", "whose loader makes the batches" },
	[PREPARE] = { "prepare", "FACTOR", "", "what is left of the time that "
		"preparing an item takes of a core: 0.3x; without it, what "
		"'taut record' measured of some of the job's own items" },
};

static const double most = 100; /* times as slow; more is a slip */

/* "0.312", as the recorder writes it; 0: it is none. */
static double number_of(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	return end != text && !*end && value > 0 && value < most ? value : 0;
}

static taut_status find_factor(struct tauti_whatif *w,
	const struct tauti_change *c, double *ret_factor,
	struct taut_error *err)
{
	const char *why = tauti_fact(w, "loader.taut_not");
	const char *told = tauti_fact(w, "loader.taut_prepare");

	if (tauti_param_given(c, PREPARE))
		return tauti_param_factor(c, PREPARE, ret_factor, err);
	if (why && *why)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: Taut's loader "
			"cannot take the place of the job's: %s", c->text, why);
	*ret_factor = told ? number_of(told) : 0;
	if (*ret_factor > 0)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1, "%s: the recording does not "
		"tell how long Taut's loader takes for the job's items; 'taut "
		"record' of a DataLoader over an ImageFolder does, and so does "
		"prepare=0.3x", c->text);
}

/* Nothing of a batch is left to the main thread but to take it. */
static taut_status relieve(struct tauti_whatif *w, struct tauti_batches *b,
	const int64_t *dur_ns, struct taut_error *err)
{
	taut_status status = tauti_note(w, err, "the main thread prepared the "
		"batches itself; Taut's loader does so beside it, predicted "
		"with one thread that has a core");

	for (size_t i = 0; !status && i < b->takes.count; i++)
		status = tauti_batches_relieve(
			w, &b->takes.data[i], dur_ns[i], err);
	b->workers = 1;
	b->under_way = 2;
	return status;
}

/* What waits for storage takes as long as it did. */
static taut_status change_rank(struct tauti_whatif *w, struct tauti_batches *b,
	double factor, struct taut_error *err)
{
	int64_t *dur_ns;
	taut_status status = tauti_batches_times(w, b, &dur_ns, err);

	if (!status && !b->workers)
		status = relieve(w, b, dur_ns, err);
	for (size_t i = 0; !status && i < b->takes.count; i++) {
		double wait = b->wait[i];
		double now = wait + (1 - wait) * factor;

		dur_ns[i] = tauti_ns((double)dur_ns[i] * now);
		b->wait[i] = now > 0 ? wait / now : 0;
	}
	return status ? status : tauti_batches_spread(
		w, b, b->workers, b->under_way, dur_ns, err);
}

static taut_status change_ranks(struct tauti_whatif *w,
	const struct tauti_change *c, double factor, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t r = 0; !status && r < taut_edit_ranks(w->edit); r++) {
		struct tauti_batches b;

		if (!taut_edit_has_rank(w->edit, r))
			continue;
		status = tauti_batches_find(w, r, &b, err);
		if (status)
			return status;
		if (!b.takes.count || b.blind)
			status = tauti_batches_refuse(c, &b, err);
		else
			status = change_rank(w, &b, factor, err);
		tauti_batches_end(&b);
	}
	return status;
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	double factor;
	uint32_t whose;
	taut_status status = tauti_param_word(c, WHOSE, &whose, err);

	if (!status)
		status = find_factor(w, c, &factor, err);
	if (!status)
		status = tauti_note(w, err, "%s: preparing takes %.3g times as "
			"much of a core as it did; storage is waited for as "
			"long", c->text, factor);
	return status ? status : change_ranks(w, c, factor, err);
}

const struct tauti_transformation tauti_whatif_loader = {
	.info = {
		.name = "loader", .group = "data",
		.summary = "batches made by Taut's loader",
		.assumption = "as many threads prepare as there were workers, "
			"each with a core; what a batch waited for storage it "
			"still waits for",
		.source = "what 'taut record' measured of some items of the "
			"job, made by both",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};
