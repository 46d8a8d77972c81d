/* stack_test.c - all changes, one by one and two by two in either order, with
 * absurd values, and along what a user would turn up: whatever somebody asks, it
 * is refused in one line or answered with a time that can be. Jobs are of seeds. */
#include "tests/support/unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <taut/whatif.h>

#include "whatif/ddp_job.h"

enum { TEXT_BYTES = 256, PIPELINE_STEPS = 3 };

/* --- jobs ------------------------------------------------------------------------- */

static uint32_t draw(uint32_t *seed, uint32_t most)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % most;
}

static struct ddp_job job_of(uint32_t seed)
{
	struct ddp_job job = { .steps = 4, .layers = 1,
		.update = "aten::_foreach_add_" };

	job.ranks = 2 + (int)draw(&seed, 3);
	job.n_gradients = 4 + (int)draw(&seed, 5);
	job.floats = 100000 + (long)draw(&seed, 300000);
	job.forward_us = 9000 + draw(&seed, 9000);
	job.compute_us = 1000 + draw(&seed, 6000);
	job.optimizer_us = 500 + draw(&seed, 3000);
	job.us_by_float = 0.001 + draw(&seed, 40) / 1e3;
	job.bucket_floats = job.floats * (1 + (long)draw(&seed, 3));
	return job;
}

static struct told tell_faults(const struct ddp_job *job)
{
	struct told t = tell(job);

	for (uint32_t r = 0; r < t.run->n_traces; r++)
		wt_faults(t.run, r, 500, 900 + r, 1000);
	return t;
}

/* A pipeline of two stages, two micro-batches and two replicas. */
static struct told tell_pipeline(void)
{
	static const struct {
		int stage;
		const char *name;
		int start, dur;
	} rows[] = {
		{ 0, "forward-compute", 0, 10 }, { 0, "forward-send", 10, 0 },
		{ 0, "forward-compute", 10, 10 }, { 0, "forward-send", 20, 20 },
		{ 0, "backward-recv", 20, 20 }, { 0, "backward-compute", 40, 20 },
		{ 0, "backward-recv", 60, 10 }, { 0, "backward-compute", 70, 20 },
		{ 0, "grads-reduce-scatter", 90, 5 }, { 0, "optimizer", 95, 5 },
		{ 1, "forward-recv", 0, 10 }, { 1, "forward-compute", 10, 10 },
		{ 1, "backward-compute", 20, 20 }, { 1, "backward-send", 40, 0 },
		{ 1, "forward-recv", 40, 0 }, { 1, "forward-compute", 40, 10 },
		{ 1, "backward-compute", 50, 20 }, { 1, "backward-send", 70, 0 },
		{ 1, "grads-reduce-scatter", 70, 5 }, { 1, "optimizer", 75, 5 },
	};
	static char text[32768];
	struct told t = { .run = NULL };
	struct taut_error err = { 0 };
	int at = snprintf(text, sizeof text, "rank,stage,dp_rank,step,name,"
		"start_us,duration_us\n");

	for (int k = 0; k < PIPELINE_STEPS; k++)
		for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
			size_t row = i / 2;
			int replica = (int)(i % 2);

			at += snprintf(text + at, sizeof text - (size_t)at,
				"%d,%d,%d,%d,%s,%d,%d\n",
				2 * replica + rows[row].stage, rows[row].stage,
				replica, k, rows[row].name,
				rows[row].start + 100 * k, rows[row].dur);
		}
	if (taut_run_open_memory("job.csv", text, (size_t)at, -1, &t.run, &err))
		fail_msg("%s", err.message);
	if (taut_graph_build(t.run, NULL, &t.graph, &err))
		fail_msg("%s", err.message);
	return t;
}

static void forget_pipeline(struct told *t)
{
	taut_graph_destroy(t->graph);
	taut_run_close(t->run);
}

/* --- what must hold of every answer ------------------------------------------------- */

static bool is_line(const char *text)
{
	size_t len = strlen(text);

	return len > 4 && len < sizeof ((struct taut_error *)0)->message - 1 &&
		!strpbrk(text, "\n\r");
}

/* The step, or -1: refused. */
static int64_t check(const struct taut_graph *graph, const char *const *changes,
	size_t n)
{
	static const struct taut_whatif_options options = { .threads = 1,
		.no_graph = 1 };
	struct taut_prediction *p = NULL;
	struct taut_error err = { .message = "" };
	taut_status status =
		taut_predict(graph, changes, n, &options, &p, &err);
	int64_t after;

	if (status) {
		if (status != TAUT_EINVAL || !is_line(err.message))
			fail_msg("%s %s: %d: '%s'", changes[0], n > 1 ?
				changes[1] : "", status, err.message);
		return -1;
	}
	if (!(p->before_ns > 0 && p->low_ns >= 0 && p->low_ns <= p->after_ns &&
		p->after_ns <= p->high_ns && p->samples_factor > 0))
		fail_msg("%s %s: %lld within %lld .. %lld, %g samples",
			changes[0], n > 1 ? changes[1] : "",
			(long long)p->after_ns, (long long)p->low_ns,
			(long long)p->high_ns, p->samples_factor);
	after = p->after_ns;
	taut_prediction_destroy(p);
	return after;
}

/* --- two by two --------------------------------------------------------------------- */

static const char *const changes[] = {
	"link=2x", "link=0.5x", "link=1gbit,from=500mbit", "link,latency=2ms",
	"link=0.5x,direction=up,host=0", "world=1", "world=4", "world=5,hosts=2",
	"bucket=1MB", "bucket=100MB,first=1MB", "rows", "compress=fp16", "compress=topk",
	"compress=powersgd,rank=4", "algorithm=tree",
	"algorithm=halving-doubling", "algorithm=hierarchical",
	"algorithm=blueconnect", "server=2", "server=1,per=tensor",
	"partition=256kB", "schedule=fifo",
	"schedule,partition=500kB,barrier=cross", "overlap=full", "overlap=none",
	"ideal-network",
	"slow=1,factor=1.5", "slow=0,delay=5ms", "repair=1",
	"scale=aten::conv2d,factor=0.5", "remove=aten::conv2d",
	"remove=gloo:all_reduce", "host=2x", "device=2x", "optimizer=fused",
	"optimizer=free", "amp", "graphs", "fuse", "merge=aten::linear",
	"batchnorm", "heap", "compile=nn.Module: *,forward=0.5x,backward=0.5x", "workers=2", "loader=taut,prepare=0.5x", "storage=2x",
	"cache=40%",
	"recompute=nn.Module: *", "microbatches=2", "offload=1GB", "gist", "batch=2x",
	"batch=0.5x", "accumulate=2", "stages=4", "stages=1,micro=4", "tensor=2",
};
enum { N_CHANGES = sizeof changes / sizeof *changes };

/* All changes of the table are in the list. */
static void test_list_is_whole(void **state)
{
	const struct taut_transformation_info *info;

	(void)state;
	for (size_t i = 0; (info = taut_transformation(i)) != NULL; i++) {
		size_t k = 0, len = strlen(info->name);

		while (k < N_CHANGES && (strncmp(changes[k], info->name, len) ||
			(changes[k][len] && !strchr("=,", changes[k][len]))))
			k++;
		if (k == N_CHANGES)
			fail_msg("%s is not tried with others", info->name);
	}
}

/* Those that apply at all, with each other and themselves, in either order. */
static void try_pairs(const struct taut_graph *graph, size_t least)
{
	const char *good[N_CHANGES];
	size_t n = 0, n_pairs = 0;

	for (size_t i = 0; i < N_CHANGES; i++)
		if (check(graph, &changes[i], 1) >= 0)
			good[n++] = changes[i];
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++) {
			const char *pair[] = { good[i], good[k] };

			n_pairs += check(graph, pair, 2) >= 0;
		}
	if (n < least || n_pairs < n * n / 2)
		fail_msg("only %zu changes and %zu pairs of them apply", n,
			n_pairs);
}

static void test_pairs(void **state)
{
	struct ddp_job job = job_of(1);
	struct told t;

	(void)state;
	job.steps = 3;
	job.n_gradients = 4;
	t = tell_faults(&job);
	try_pairs(t.graph, 30);
	forget(&t);
}

static void test_pairs_of_a_pipeline(void **state)
{
	struct told t = tell_pipeline();

	(void)state;
	try_pairs(t.graph, 8);
	forget_pipeline(&t);
}

/* --- in either order ------------------------------------------------------------------ */

static void expect_alike(
	const struct taut_graph *graph, const char *a, const char *b)
{
	const char *orders[][2] = { { a, b }, { b, a } };
	struct taut_prediction *p[2];
	struct taut_error err = { .message = "" };

	for (int i = 0; i < 2; i++)
		if (taut_predict(graph, orders[i], 2, NULL, &p[i], &err))
			fail_msg("%s %s: %s", a, b, err.message);
	if (p[0]->after_ns != p[1]->after_ns ||
		p[0]->memory_after != p[1]->memory_after)
		fail_msg("%s %s: %lld ns and %lld bytes, in the other order "
			"%lld and %lld", a, b, (long long)p[0]->after_ns,
			(long long)p[0]->memory_after,
			(long long)p[1]->after_ns,
			(long long)p[1]->memory_after);
	taut_prediction_destroy(p[0]);
	taut_prediction_destroy(p[1]);
}

/* Each rank's batch is done in parts, a copy's like that of what it is a copy of. */
static void test_ranks_and_parts(void **state)
{
	struct ddp_job job = job_of(4); /* of two ranks */
	struct told t;

	(void)state;
	job.wrapped = 1;
	job.block_bytes = 1000000;
	t = tell(&job);
	expect_alike(t.graph, "world=8", "microbatches=2");
	expect_alike(t.graph, "world=8", "microbatches=3");
	expect_alike(t.graph, "world=2", "microbatches=2");
	expect_alike(t.graph, "tensor=4,group=2", "microbatches=2");
	forget(&t);
}

/* --- absurd values -------------------------------------------------------------------- */

static const char *const absurd[] = { "0", "-1", "nan", "inf", "1e30", "0x",
	"-100%", "-101%", "999999999999999", "999999999999999x",
	"0.00000000000001x", "999999999999999tbit", "0.00000000000001bit",
	"999999999999999TB", "999999999999999s", "999999999999999TB/s", "x", "%",
	"2x2", "\xff\xfe", "a|b", "4294967296", "18446744073709551616", "[", "*",
	"0%", "999999999999999%", "1000000000" };

/* A value with which a change would be taken, by the form of its parameter. */
static const char *sane(const struct taut_parameter *p)
{
	static const struct { const char *form, *value; } values[] = {
		{ "RATE", "1gbit" }, { "FACTOR", "2x" }, { "BYTES", "1MB" },
		{ "SIZE", "1GB" }, { "TIME", "1ms" }, { "PATTERN", "aten::*" },
		{ "RANK", "1" }, { "K", "2" }, { "N", "2" } };
	static char word[TEXT_BYTES];

	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		if (strstr(p->form, values[i].form))
			return values[i].value;
	snprintf(word, sizeof word, "%.*s", (int)strcspn(p->form, "|"),
		p->form);
	return word;
}

/* NAME=VALUE,KEY=VALUE with all that must be given, and value for the one. */
static void compose(char text[TEXT_BYTES],
	const struct taut_transformation_info *info, size_t which,
	const char *value)
{
	int at = snprintf(text, TEXT_BYTES, "%s", info->name);

	for (size_t i = 0; i < info->n_parameters; i++) {
		const struct taut_parameter *p = &info->parameters[i];

		if (i != which && p->preset)
			continue;
		at += snprintf(text + at, TEXT_BYTES - (size_t)at, "%s%s=%s",
			*p->name ? "," : "", p->name,
			i == which ? value : sane(p));
	}
}

static void try_absurd(const struct taut_graph *graph)
{
	const struct taut_transformation_info *info;

	for (size_t i = 0; (info = taut_transformation(i)) != NULL; i++)
		for (size_t k = 0; k < info->n_parameters; k++)
			for (size_t v = 0; v < sizeof absurd / sizeof *absurd;
				v++) {
				char text[TEXT_BYTES];
				const char *change = text;

				compose(text, info, k, absurd[v]);
				(void)check(graph, &change, 1);
			}
}

static void test_absurd_values(void **state)
{
	struct ddp_job job = job_of(2);
	struct told t;

	(void)state;
	job.steps = 2;
	job.ranks = 2;
	job.n_gradients = 3;
	t = tell_faults(&job);
	try_absurd(t.graph);
	forget(&t);
}

static void test_absurd_values_of_a_pipeline(void **state)
{
	struct told t = tell_pipeline();

	(void)state;
	try_absurd(t.graph);
	forget_pipeline(&t);
}

/* Each by itself is allowed; what they come to together is not. */
static void test_absurd_stacks(void **state)
{
	struct ddp_job job = job_of(3);
	const char *stack[12];
	struct told t = tell_faults(&job);
	static const char *const one[] = { "slow=0,factor=1000000",
		"host=0.000001x", "batch=1000000x", "link=0.000001x",
		"link=1000000x", "link,latency=1000000x", "slow=0,delay=1000000s",
		"scale=*,factor=1000000" };

	(void)state;
	for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
		for (size_t k = 0; k < sizeof stack / sizeof *stack; k++)
			stack[k] = one[i];
		for (size_t n = 1; n <= sizeof stack / sizeof *stack; n++)
			(void)check(t.graph, stack, n);
	}
	forget(&t);
}

/* --- along one value -------------------------------------------------------------------- */

struct ladder {
	const char *form;      /* of a change, with %s for the value */
	const char *values[8]; /* so that no step may be shorter than the one before */
};

static const struct ladder ladders[] = {
	{ "link=%s", { "100x", "4x", "2x", "1.1x", "1x", "0.9x", "0.5x", "0.1x" } },
	{ "link=%s,from=1gbit", { "100gbit", "4gbit", "2gbit", "1gbit",
		"900mbit", "250mbit" } },
	{ "link=%s,direction=up", { "2x", "1x", "0.5x" } },
	{ "link=%s,host=0", { "2x", "1x", "0.5x" } },
	{ "link,latency=%s", { "0x", "0.5x", "1x", "2x", "10x" } },
	{ "link,latency=%s", { "1us", "50us", "1ms", "20ms" } },
	{ "world=%s", { "4", "5", "8", "32" } },
	{ "batch=%s,by=weights", { "0.1x", "0.5x", "1x", "2x", "8x" } },
	{ "slow=1,factor=%s", { "0.5x", "1x", "1.2x", "2x", "10x" } },
	{ "slow=0,delay=%s", { "0ms", "1ms", "10ms", "100ms" } },
	{ "host=%s", { "100x", "2x", "1x", "0.5x" } },
	{ "scale=aten::conv2d,factor=%s", { "0.01x", "0.5x", "1x", "3x" } },
	{ "compress=topk,cast=1000,select=1000,ratio=%s",
		{ "0.001", "0.01", "0.1", "0.4" } },
	{ "server=%s,at=own", { "8", "4", "2", "1" } },
};

static void climb(const struct taut_graph *graph, const struct ladder *l)
{
	char texts[8][TEXT_BYTES];
	const char *of[8];
	struct taut_stack stacks[8];
	int64_t before_ns, after_ns[8];
	struct taut_whatif_options options = { .threads = 1 };
	struct taut_error err = { .message = "" };
	size_t n = 0;

	for (; n < 8 && l->values[n]; n++) {
		const char *mark = strstr(l->form, "%s");

		snprintf(texts[n], TEXT_BYTES, "%.*s%s%s",
			(int)(mark - l->form), l->form, l->values[n], mark + 2);
		of[n] = texts[n];
		stacks[n] = (struct taut_stack){ &of[n], 1 };
	}
	if (taut_predict_steps(graph, stacks, n, &options, &before_ns, after_ns,
		&err))
		fail_msg("%s: %s", l->form, err.message);
	for (size_t i = 1; i < n; i++) /* to a nanosecond an operation */
		if (after_ns[i] < after_ns[i - 1] - 1000)
			fail_msg("%s takes %lld ns, %s takes %lld", texts[i - 1],
				(long long)after_ns[i - 1], texts[i],
				(long long)after_ns[i]);
}

static void test_more_is_not_less(void **state)
{
	(void)state;
	for (uint32_t seed = 10; seed < 22; seed++) {
		struct ddp_job job = job_of(seed);
		struct told t = tell_faults(&job);

		for (size_t i = 0; i < sizeof ladders / sizeof *ladders; i++)
			climb(t.graph, &ladders[i]);
		forget(&t);
	}
}

/* What no network and no order can beat is not beaten. */
static void test_bounds(void **state)
{
	static const char *const beside[] = { "link=100x",
		"compress=fp16,cast=1000",
		"compress=topk,ratio=0.001,cast=1000,select=1000",
		"bucket=1MB", "partition=100kB", "link=1x" };

	(void)state;
	for (uint32_t seed = 30; seed < 36; seed++) {
		struct ddp_job job = job_of(seed);
		struct told t = tell_faults(&job);
		const char *ideal = "ideal-network";
		int64_t least = check(t.graph, &ideal, 1);

		assert_true(least > 0);
		for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
			int64_t ns = check(t.graph, &beside[i], 1);

			if (ns < least - 1000)
				fail_msg("%s: %lld ns, without a network %lld",
					beside[i], (long long)ns,
					(long long)least);
		}
		forget(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list_is_whole),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_pairs_of_a_pipeline),
		cmocka_unit_test(test_ranks_and_parts),
		cmocka_unit_test(test_absurd_values),
		cmocka_unit_test(test_absurd_values_of_a_pipeline),
		cmocka_unit_test(test_absurd_stacks),
		cmocka_unit_test(test_more_is_not_less),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
