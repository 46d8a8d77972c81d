/* diff_json.c - taut diff for machines; docs/diff.md has the keys. */
#include "explain/steps.h"
#include "report/diff.h"
#include "report/fields.h"

static void put_run(
	struct tauti_put *put, const char *name, const struct taut_report *r,
	int marked)
{
	tauti_put_text(put, ",\n");
	tauti_put_key(put, name);
	tauti_put_text(put, "{\"run\":");
	tauti_put_string(put, r->run ? r->run->path : "");
	tauti_field_key(put, "ranks");
	tauti_put_int(put, r->n_ranks);
	tauti_field_key(put, "steps");
	tauti_put_int(put, tauti_steps_of_a_rank(r));
	tauti_field_key(put, "step_marks");
	tauti_put_text(put, marked ? "true" : "false");
	tauti_field_ms(put, "steady_step_ms", r->steady_ns);
	tauti_field_texts(put, "notes", r->notes, r->n_notes);
	tauti_put_char(put, '}');
}

static void put_steps(struct tauti_put *put, const struct tauti_diff *d)
{
	tauti_field_section(put, "waterfall", "[");
	for (uint32_t i = 0; i < d->n_steps; i++) {
		tauti_field_row_text(put, i, "id", d->steps[i].id);
		tauti_field_ms(put, "step_ms", d->steps[i].step_ns);
		tauti_field_ms(put, "change_ms", d->steps[i].change_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_path(struct tauti_put *put, const struct tauti_diff *d)
{
	tauti_field_section(put, "critical_path", "[");
	for (uint32_t k = 0; k < TAUT_CATEGORIES; k++) {
		const struct tauti_compare_row *c = &d->path.categories[k];

		tauti_field_row_text(put, k, "category", taut_category_key(c->category));
		tauti_field_ms(put, "a_ms", c->before_ns);
		tauti_field_ms(put, "b_ms", c->after_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_colls(struct tauti_put *put, const struct tauti_diff *d)
{
	tauti_field_section(put, "collectives", "[");
	for (uint32_t i = 0; i < d->n_colls; i++) {
		const struct tauti_diff_coll *c = &d->colls[i];

		tauti_field_row_text(put, i, "name", c->name);
		tauti_field_real(put, "a_count", c->count_a);
		tauti_field_real(put, "b_count", c->count_b);
		tauti_field_known(put, "a_bytes", c->bytes_a);
		tauti_field_known(put, "b_bytes", c->bytes_b);
		tauti_field_ms(put, "a_transfer_ms", c->transfer_a_ns);
		tauti_field_ms(put, "b_transfer_ms", c->transfer_b_ns);
		tauti_field_ms(put, "a_wait_ms", c->wait_a_ns);
		tauti_field_ms(put, "b_wait_ms", c->wait_b_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

static void put_ops(struct tauti_put *put, const struct tauti_diff *d)
{
	static const char *const kinds[] = { "compute", "transfer", "host",
		"copy" };

	tauti_field_section(put, "operations", "[");
	for (uint32_t i = 0; i < d->n_ops; i++) {
		const struct tauti_diff_op *op = &d->ops[i];

		tauti_field_row_text(put, i, "name", op->name);
		tauti_field_key(put, "kind");
		tauti_put_string(put, kinds[op->kind]);
		tauti_field_real(put, "a_count", op->count_a);
		tauti_field_real(put, "b_count", op->count_b);
		tauti_field_ms(put, "a_ms", op->a_ns);
		tauti_field_ms(put, "b_ms", op->b_ns);
		tauti_put_char(put, '}');
	}
	tauti_put_char(put, ']');
}

taut_status tauti_diff_json(
	const struct tauti_diff *diff, FILE *out, struct taut_error *reterr)
{
	struct tauti_put put;

	tauti_put_begin(&put, out);
	tauti_put_text(&put, "{\"version\":");
	tauti_put_string(&put, taut_version());
	put_run(&put, "a", diff->a, diff->a_marked);
	put_run(&put, "b", diff->b, diff->b_marked);
	tauti_field_key(&put, "same_ranks");
	tauti_put_text(&put, diff->same_ranks ? "true" : "false");
	put_steps(&put, diff);
	put_path(&put, diff);
	put_colls(&put, diff);
	put_ops(&put, diff);
	tauti_put_text(&put, "}\n");
	return tauti_put_end(&put, reterr);
}
