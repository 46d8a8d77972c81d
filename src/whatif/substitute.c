/* substitute.c - operations faster, slower or gone, by name: what would it give
 * to rewrite this one? The general primitive; MetaFlow's substitutions are
 * written with it. */
#include <fnmatch.h>

#include "whatif/compute.h"

enum { PATTERN, FACTOR, WHERE };
enum { ALL, DEVICE, HOST };

static const struct taut_parameter scale_parameters[] = {
	{ "", "PATTERN", NULL, "shell pattern of names: operators, kernels, "
		"modules with all that they do" },
	{ "factor", "FACTOR", NULL, "of their time: 0.5x" },
	{ "where", "all|device|host", "all", "which part of their work" },
};
static const struct taut_parameter remove_parameters[] = {
	{ "", "PATTERN", NULL, "shell pattern of names: operators, kernels, "
		"modules, collectives" },
};

static bool matches(const void *context, const char *name)
{
	return *name && !fnmatch(context, name, FNM_CASEFOLD);
}

static taut_status nothing(const struct tauti_change *c, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EINVAL, -1, "%s: no operation of the "
		"recording, and no event around one, has a name like this",
		c->text);
}

static bool is_where(const struct taut_op *op, uint32_t where)
{
	return where == ALL ||
		tauti_is_device_op(op->kind) == (where == DEVICE);
}

static taut_status scale(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	uint32_t where, n = taut_edit_ops(w->edit), found = 0;
	double factor;
	uint8_t *picked;
	taut_status status = tauti_param_factor(c, FACTOR, &factor, err);

	if (!status)
		status = tauti_param_word(c, WHERE, &where, err);
	if (!status)
		status = tauti_pick(w, matches, c->values[PATTERN], &picked, err);
	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_op op;

		if (!taut_edit_op(w->edit, i, &op) || !tauti_is_work(op.kind) ||
			!tauti_picked(picked, &op) || !is_where(&op, where))
			continue;
		found++;
		status = tauti_scale_op(w, i, &op, factor, err);
	}
	return status ? status : found ? TAUT_OK : nothing(c, err);
}

static taut_status remove_collectives(struct tauti_whatif *w,
	const uint8_t *picked, uint32_t *found, struct taut_error *err)
{
	const struct taut_graph *g = w->graph;
	uint32_t n = taut_edit_collectives(w->edit);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_collective is;
		uint32_t like = taut_edit_collective_like(w->edit, i);

		if (!taut_edit_collective(w->edit, i, &is) ||
			like == TAUT_NONE || !picked[g->member_arrive[
			g->collectives[like].first_member]])
			continue;
		++*found;
		status = taut_edit_remove_collective(w->edit, i, err);
	}
	return status;
}

static taut_status remove_work(struct tauti_whatif *w, const uint8_t *picked,
	uint32_t *found, struct taut_error *err)
{
	uint32_t n = taut_edit_ops(w->edit);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_op op;

		if (!taut_edit_op(w->edit, i, &op) || !tauti_is_work(op.kind) ||
			!tauti_picked(picked, &op))
			continue;
		++*found;
		status = tauti_vanish(w, i, &op, err);
	}
	return status;
}

static taut_status take_away(struct tauti_whatif *w,
	const struct tauti_change *c, struct taut_error *err)
{
	uint32_t found = 0;
	uint8_t *picked;
	taut_status status =
		tauti_pick(w, matches, c->values[PATTERN], &picked, err);

	if (!status)
		status = remove_collectives(w, picked, &found, err);
	if (!status)
		status = remove_work(w, picked, &found, err);
	return status ? status : found ? TAUT_OK : nothing(c, err);
}

const struct tauti_transformation tauti_whatif_scale = {
	.info = {
		.name = "scale", .group = "compute",
		.summary = "operations of a name take another time",
		.assumption = "nothing else changes: the same launches, the "
			"same waits",
		.source = "Daydream (ATC'20): select and scale",
		.parameters = scale_parameters,
		.n_parameters =
			sizeof scale_parameters / sizeof *scale_parameters,
	},
	.apply = scale,
};

const struct tauti_transformation tauti_whatif_remove = {
	.info = {
		.name = "remove", .group = "compute",
		.summary = "operations of a name are gone",
		.assumption = "what waited for them waits for what they "
			"waited for; a bound for any substitution of them "
			"(MetaFlow)",
		.source = "Daydream (ATC'20): select and remove",
		.parameters = remove_parameters,
		.n_parameters =
			sizeof remove_parameters / sizeof *remove_parameters,
	},
	.apply = take_away,
};
