#include "tests/support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/fusion/learned.h"
#include "plan/fusion/made_step.h"
#include "tests/support/alloc_fail.h"

static struct taut_error err;

enum { A, B, C, UNKNOWN, KINDS, WEIGHTS = 449 };

/* A file with the weights w_i = (7919 i mod 1000 - 480) / 1000. Free it. */
static char *file_of(const char *width, const char *scale, uint32_t n_weights)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	fprintf(out, "{\"taut_fused\": 1, \"types\": [\"a\", \"b\", \"c\"],\n"
		"\"width\": %s, \"heads\": 2, \"inner\": 6, \"layers\": 2, "
		"\"parts\": 4,\n\"mean\": [8, 10, 9, 7, 11, 12, 1],\n"
		"\"scale\": [2, 3, %s, 4, 2, 2.0, 5e-1],\n\"weights\": [",
		width, scale);
	for (uint32_t i = 0; i < n_weights; i++)
		fprintf(out, "%s%de-3", i ? ", " : "", (int)(i * 7919 % 1000) - 480);
	fprintf(out, "]}");
	fclose(out);
	return text;
}

static struct tauti_learned *network(void)
{
	char *text = file_of("4", "2.5", WEIGHTS);
	struct tauti_learned *net = NULL;

	if (tauti_learned_parse(text, strlen(text), "f", &net, &err))
		fail_msg("%s", err.message);
	free(text);
	return net;
}

static const uint32_t types[KINDS] = { 0, 1, 2, TAUT_NONE };
static const struct tauti_fused_bound bound = { .launch_ns = 10, .roomy = 9 };

static struct tauti_fused_part part(uint32_t kind, int64_t ns, int64_t in,
	int64_t out, int64_t saved)
{
	return (struct tauti_fused_part) { .kind = kind, .dur_ns = ns,
		.in_bytes = in, .out_bytes = out, .saved_bytes = saved };
}

static void is_about(int64_t ns, double expected)
{
	if (fabs((double)ns - expected) > 0.5 + 1e-4 * expected)
		fail_msg("%lld, not %.1f", (long long)ns, expected);
}

/* What PyTorch computes with bench/fused/train.py's Network and the same weights. */
static void test_as_pytorch_computes(void **state)
{
	struct tauti_learned *net = network();
	struct tauti_learned_use use = { net, types, KINDS, bound };
	struct tauti_fused_part two[] = { part(A, 1000, 4096, 2048, 2048),
		part(B, 500, 2048, 2048, 2048) };
	struct tauti_fused_part four[] = {
		part(C, 70000, 400000, 400000, 0),
		part(A, 50000, 400000, 400000, 800000),
		part(B, 20000, 800000, 400000, 1200000),
		part(C, 10000, 400000, 400, 400000) };
	struct tauti_fused_part three[] = { part(B, 3, 0, 0, 0),
		part(B, 0, 0, 0, 0), part(A, 9, 7, 1, 7) };
	struct tauti_fused_tie ties[] = { { 0, 1, 400000 }, { 0, 2, 400000 },
		{ 1, 2, 400000 }, { 2, 3, 400000 } };

	(void)state;
	is_about(tauti_learned_ns(&use, &(struct tauti_fused) {
		two, 2, ties, 1 }), 1676.096);
	is_about(tauti_learned_ns(&use, &(struct tauti_fused) {
		four, 4, ties, 4 }), 187974.25);
	is_about(tauti_learned_ns(&use, &(struct tauti_fused) {
		three, 3, &ties[1], 1 }), 10.80);
	tauti_learned_destroy(net);
}

/* The order of the parts is none of what it sees. */
static void test_parts_in_any_order(void **state)
{
	struct tauti_learned *net = network();
	struct tauti_learned_use use = { net, types, KINDS, bound };
	struct tauti_fused_part one[] = { part(A, 90000, 10, 20, 20),
		part(B, 80000, 20, 30, 50), part(C, 70000, 30, 40, 30) };
	struct tauti_fused_part other[] = { one[2], one[0], one[1] };
	struct tauti_fused_tie a[] = { { 0, 1, 20 }, { 1, 2, 30 } };
	struct tauti_fused_tie b[] = { { 2, 0, 30 }, { 1, 2, 20 } };
	int64_t ns = tauti_learned_ns(&use, &(struct tauti_fused) { one, 3, a, 2 });

	(void)state;
	is_about(tauti_learned_ns(&use, &(struct tauti_fused) { other, 3, b, 2 }),
		(double)ns);
	tauti_learned_destroy(net);
}

/* No less than is computed; what was never seen is the bound's to say. */
static void test_what_it_does_not_know(void **state)
{
	struct tauti_learned *net = network();
	struct tauti_learned_use use = { net, types, KINDS, bound };
	struct tauti_fused_part parts[] = { part(A, 100, 0, 0, 0),
		part(B, 100, 0, 0, 0), part(B, 100, 0, 0, 0),
		part(B, 100, 0, 0, 0), part(B, 100, 0, 0, 0) };
	struct tauti_fused two = { parts, 2, NULL, 0 };
	struct tauti_fused five = { parts, 5, NULL, 0 };

	(void)state;
	parts[0].compute_ns = 7000;
	assert_int_equal(tauti_learned_ns(&use, &two), 7000);
	parts[0].compute_ns = 0;
	assert_int_not_equal(tauti_learned_ns(&use, &two), 190);
	assert_int_equal(tauti_learned_ns(&use, &five), 460);
	parts[1].kind = UNKNOWN;
	assert_int_equal(tauti_learned_ns(&use, &two), 190);
	parts[1].kind = KINDS;
	assert_int_equal(tauti_learned_ns(&use, &two), 190);
	assert_int_equal(tauti_learned_type(net, "c"), C);
	assert_int_equal(tauti_learned_type(net, "d"), TAUT_NONE);
	tauti_learned_destroy(net);
}

/* --- what a space tells it ---------------------------------------------------------- */

static struct tauti_fused_part seen[3];
static uint32_t n_seen;

static int64_t see(const void *context, const struct tauti_fused *fused)
{
	(void)context;
	n_seen = fused->n_parts;
	memcpy(seen, fused->parts, n_seen * sizeof *seen);
	return 1;
}

static void test_bytes_of_parts(void **state)
{
	struct made_step *s = made_step_create();
	struct tauti_fusion *f;
	const struct tauti_space *space;

	(void)state;
	made_step_op(s, A, 100, 0, 1000);
	made_step_op(s, B, 100, 0, 600);
	made_step_op(s, C, 100, 0, 500);
	s->ops.data[0].given_bytes = 4000;
	s->ops.data[1].given_bytes = 50;
	made_step_flow(s, 0, 1, 1000, true);
	made_step_flow(s, 0, 2, 900, false);
	made_step_gradient(s, 2, 8, -1);
	made_step_in(s)->cost = (struct tauti_fused_cost) { see, NULL };
	assert_int_equal(tauti_fusion_create(&s->in, &f, &err), TAUT_OK);
	space = tauti_fusion_space(f);
	assert_int_equal(space->ops->set(space->self,
		tauti_fusion_site_of_flow(f, 0), 1, &err), TAUT_OK);
	assert_int_equal(n_seen, 2);
	assert_int_equal(seen[0].in_bytes, 4000);
	assert_int_equal(seen[0].out_bytes, 1000);
	assert_int_equal(seen[0].saved_bytes, 0); /* the third reads it, too */
	assert_int_equal(seen[1].in_bytes, 1050);
	assert_int_equal(seen[1].out_bytes, 600);
	assert_int_equal(seen[1].saved_bytes, 1000);
	tauti_fusion_destroy(f);
	made_step_destroy(s);
}

/* --- files ------------------------------------------------------------------------------ */

static void refuse(char *text, const char *why)
{
	struct tauti_learned *net = NULL;

	assert_int_equal(tauti_learned_parse(
		text, strlen(text), "f", &net, &err), TAUT_EFORMAT);
	assert_string_equal(err.message, why);
	free(text);
}

static char *changed(const char *from, const char *to)
{
	char *text = file_of("4", "2.5", WEIGHTS), *at = strstr(text, from);
	char *made = malloc(strlen(text) + strlen(to) + 1);

	assert_non_null(made);
	memcpy(made, text, (size_t)(at - text));
	strcpy(made + (at - text), to);
	strcat(made, at + strlen(from));
	free(text);
	return made;
}

static void test_refusals(void **state)
{
	struct tauti_learned *net = NULL;

	(void)state;
	refuse(strdup("[1]"), "f:1: expected a network of fused operators, which "
		"is one JSON object");
	refuse(strdup("{\n"), "f:1: expected a network of fused operators, which "
		"is one JSON object");
	refuse(strdup("7"), "f: 1: expected a network of fused operators, which "
		"is one JSON object");
	refuse(changed("\"taut_fused\": 1", "\"taut_fused\": 2"),
		"f: taut_fused: expected a whole number from 1 to 1");
	refuse(changed("\"b\"", "2"), "f: types: expected a list of 1 to 256 names");
	refuse(file_of("68", "2.5", WEIGHTS),
		"f: width: expected a whole number from 1 to 64");
	refuse(file_of("18446744073709551620", "2.5", WEIGHTS), /* would be 4 */
		"f: width: expected a whole number from 1 to 64");
	refuse(file_of("5", "2.5", WEIGHTS), "f: heads: expected a divisor of width");
	refuse(file_of("4", "0", WEIGHTS), "f: scale: expected numbers above 0");
	refuse(file_of("4", "1e99", WEIGHTS), "f: scale: expected a list of 7 numbers");
	refuse(file_of("4", "2.5", WEIGHTS - 1),
		"f: weights: expected a list of 449 numbers");
	refuse(changed("-480e-3", "true"), "f: weights: expected a list of 449 numbers");
	assert_int_equal(tauti_learned_read("/nowhere/f", &net, &err), TAUT_EIO);
	assert_string_equal(err.message,
		"/nowhere/f: cannot be read: No such file or directory");
}

static void test_no_memory(void **state)
{
	char *text = file_of("4", "2.5", WEIGHTS);
	taut_status status = TAUT_ENOMEM;

	(void)state;
	for (long n = 0; status; n++) {
		struct tauti_learned *net = NULL;

		alloc_fail_after(n);
		status = tauti_learned_parse(text, strlen(text), "f", &net, &err);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
		tauti_learned_destroy(net);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_pytorch_computes),
		cmocka_unit_test(test_parts_in_any_order),
		cmocka_unit_test(test_what_it_does_not_know),
		cmocka_unit_test(test_bytes_of_parts),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
