/* compare.c - see compare.h. */
#include "explain/compare.h"

#include <stdlib.h>
#include <string.h>

#include "explain/steps.h"

static int by_name(const void *a, const void *b)
{
	const struct tauti_compare_row *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	return c ? c : (int)x->category - (int)y->category;
}

static int64_t difference(const struct tauti_compare_row *row)
{
	return llabs(row->after_ns - row->before_ns);
}

static int by_difference(const void *a, const void *b)
{
	const struct tauti_compare_row *x = a, *y = b;

	if (difference(x) != difference(y))
		return difference(x) > difference(y) ? -1 : 1;
	return by_name(a, b);
}

/* Both tables one behind the other, then rows of one name made one. */
static void merge(struct tauti_compare *c, struct tauti_compare_row *rows)
{
	uint32_t n = 0, kept = 0;
	const struct taut_report *r[] = { c->before, c->after };

	for (int side = 0; side < 2; side++) {
		int64_t steps = tauti_steps_of_a_rank(r[side]);

		for (uint32_t i = 0; i < r[side]->n_path_ops; i++) {
			const struct taut_report_share *s =
				&r[side]->path_ops[i];

			rows[n++] = (struct tauti_compare_row){ s->name,
				s->category, side ? 0 : s->ns / steps,
				side ? s->ns / steps : 0 };
		}
	}
	qsort(rows, n, sizeof *rows, by_name);
	for (uint32_t i = 0; i < n; i++) {
		if (kept && !by_name(&rows[kept - 1], &rows[i])) {
			rows[kept - 1].before_ns += rows[i].before_ns;
			rows[kept - 1].after_ns += rows[i].after_ns;
		} else {
			rows[kept++] = rows[i];
		}
	}
	qsort(rows, kept, sizeof *rows, by_difference);
	c->ops = rows;
	c->n_ops = kept;
}

taut_status tauti_compare(const struct taut_report *before,
	const struct taut_report *after, struct taut_arena *arena,
	struct tauti_compare *ret_compare, struct taut_error *reterr)
{
	struct tauti_compare c = { .before = before, .after = after };
	struct tauti_compare_row *rows = TAUT_ARENA_ARRAY(arena,
		struct tauti_compare_row, (size_t)before->n_path_ops +
		after->n_path_ops + 1);

	if (!rows)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for a comparison");
	for (int k = 0; k < TAUT_CATEGORIES; k++) {
		struct tauti_compare_row row = { "", (enum taut_category)k,
			before->path_ns[k] / tauti_steps_of_a_rank(before),
			after->path_ns[k] / tauti_steps_of_a_rank(after) };

		c.categories[k] = row;
		c.before_ns += row.before_ns;
		c.after_ns += row.after_ns;
	}
	merge(&c, rows);
	*ret_compare = c;
	return TAUT_OK;
}
