/* comm_test.c - transformations of communication on a made-up DDP job whose
 * answers are worked out by hand.
 *
 * Recorded (ms): forward 10, four times 5 of backward with a gradient of 1 MB
 * each, two buckets of 2 MB, 20 each on the link, optimizer 2:
 *     ready 15 20 25 30; bucket 0: 20..40, bucket 1: 40..60; step 62.
 * In the forward pass there are three small sums, done at 1.5, 4.5 and 8. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/alloc_fail.h"
#include "whatif/ddp.h"
#include "whatif/ddp_job.h"

static const struct ddp_job usual = {
	.ranks = 2, .steps = 4, .n_gradients = 4, .floats = 250000,
	.forward_us = 10000, .compute_us = 5000, .optimizer_us = 2000,
	.bucket_floats = 500000, .us_by_float = 0.04,
};
/* What putting into place, launches and copies add to a step, at most. */
enum { SMALL_US = 80 };

static struct taut_prediction *predict(const struct told *t, const char *a,
	const char *b)
{
	const char *changes[] = { a, b };
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	if (taut_predict(t->graph, changes, b ? 2 : 1, NULL, &p, &err))
		fail_msg("%s: %s", a, err.message);
	return p;
}

static double step_ms(const struct told *t, const char *a, const char *b)
{
	struct taut_prediction *p = predict(t, a, b);
	double ms = (double)p->after_ns / 1e6;

	assert_true(p->low_ns <= p->after_ns && p->after_ns <= p->high_ns);
	taut_prediction_destroy(p);
	return ms;
}

/* What of a bucket's all-reduce the costs take for latency, in ms: the rest is
 * carried by its bytes. */
static double latency_of_one(const struct taut_graph *graph)
{
	struct taut_costs *costs = NULL;
	struct taut_error err = { 0 };
	double latency = 0;

	if (taut_costs_create(graph, &costs, &err))
		fail_msg("%s", err.message);
	for (uint32_t i = 0; i < graph->n_collectives; i++)
		if (graph->collectives[i].bytes >= 1000000)
			latency = (double)costs->transfers[i].latency_ns / 1e6;
	taut_costs_destroy(costs);
	return latency;
}

/* ms, and so many latencies more or less of a recorded bucket. */
static void expect(const struct ddp_job *job, const char *a, const char *b,
	double ms, double latencies)
{
	struct told t = tell(job);
	double found = step_ms(&t, a, b);

	ms += latencies * latency_of_one(t.graph);
	if (found < ms - 0.02 || found > ms + SMALL_US / 1e3)
		fail_msg("%s %s: expected %.2f ms, found %.3f", a, b ? b : "",
			ms, found);
	forget(&t);
}

static void expect_note(const struct ddp_job *job, const char *change,
	const char *note)
{
	struct told t = tell(job);
	struct taut_prediction *p = predict(&t, change, NULL);
	bool found = false;

	for (uint32_t i = 0; i < p->n_notes; i++)
		found = found || strstr(p->notes[i], note);
	if (!found)
		fail_msg("%s: no note says '%s'", change, note);
	taut_prediction_destroy(p);
	forget(&t);
}

static void refuse(const struct ddp_job *job, const char *change,
	const char *word)
{
	struct told t = tell(job);
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	assert_int_equal(taut_predict(t.graph, &change, 1, NULL, &p, &err),
		TAUT_EINVAL);
	if (!strstr(err.message, word))
		fail_msg("'%s' does not say '%s'", err.message, word);
	assert_null(p);
	forget(&t);
}

/* One sort of work is not enough to tell what transfers cost it. (Where it is told there is
 * no such note, as tests/cli/golden/whatif_link.txt shows.) */
static void test_drag_that_is_not_told(void **state)
{
	struct told t = tell(&usual);
	struct taut_prediction *p = predict(&t, "link=2gbit", NULL);
	bool found = false;

	(void)state;
	for (uint32_t i = 0; i < p->n_notes; i++)
		found |= !strncmp(p->notes[i], "how much transfers slow down", 28);
	assert_true(found);
	taut_prediction_destroy(p);
	forget(&t);
}

/* --- buckets ---------------------------------------------------------------------- */

static void test_recorded_buckets(void **state)
{
	(void)state;
	expect(&usual, "bucket=2MB", NULL, 62, 0);
	expect(&usual, "bucket=1.5MB", NULL, 62, 0); /* full at 2 MB too */
}

static void test_buckets(void **state)
{
	(void)state;
	/* 15..25 25..35 35..45 45..55: two latencies more */
	expect(&usual, "bucket=1MB", NULL, 57, 2);
	expect(&usual, "bucket=1kB", NULL, 57, 2);
	/* 30..70 */
	expect(&usual, "bucket=100MB", NULL, 72, -1);
	/* 1: 15..25, 2: 25..45, 1: 45..55 */
	expect(&usual, "bucket=2MB,first=1MB", NULL, 57, 1);
	/* 25..55, 55..65 */
	expect(&usual, "bucket=3MB", NULL, 67, 0);
}

/* Each of its own size; the last one's is that of all behind it. */
static void test_groups(void **state)
{
	(void)state;
	expect(&usual, "bucket=2MB+2MB", NULL, 62, 0);
	expect(&usual, "bucket=1MB+1MB", NULL, 57, 2);
	expect(&usual, "bucket=1MB+3MB", NULL, 62, 0);
	expect(&usual, "bucket=3MB+1MB", NULL, 67, 0);
	expect(&usual, "bucket=1000kB+1.5MB+7", NULL, 57, 1);
	refuse(&usual, "bucket=1MB+0", "value: expected a size, or one of each "
		"bucket like 1MiB+4MiB, found '1MB+0'");
	refuse(&usual, "bucket=1MB++1MB", "found '1MB++1MB'");
	refuse(&usual, "bucket=1MB+2x", "found '1MB+2x'");
	refuse(&usual, "bucket=1MB+25%", "found '1MB+25%'");
	refuse(&usual, "bucket=1MB+1MB,first=1MB", "first: expected nothing "
		"where each bucket has a size of its own, found '1MB'");
}

static void test_buckets_without_shapes(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	job.no_shapes = 1;
	expect(&job, "bucket=1MB", NULL, 57, 2);
	expect(&job, "bucket=100MB", NULL, 72, -1);
}

/* Which of four a step has that has three is not told. */
static void test_steps_that_differ(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	job.lacks = 1;
	refuse(&job, "bucket=1kB", "rank 0 has 4 gradients in a step, rank 1 "
		"has 3");
	job.no_shapes = 1;
	refuse(&job, "bucket=1kB", "step 0 of rank 1 has 3 gradients as far as "
		"the recording tells, step 0 of rank 0 has 4");
	job.lacks = job.steps;
	refuse(&job, "bucket=1kB", "step 0 of rank 1 has 3");
	expect(&job, "algorithm=ring", NULL, 62, 0);
}

/* Laid anew twice, and back: what is there is what was laid last. */
static void test_buckets_again(void **state)
{
	(void)state;
	expect(&usual, "bucket=100MB", "bucket=100MB", 72, -1);
	expect(&usual, "bucket=100MB", "bucket=1MB", 57, 2);
	expect(&usual, "bucket=1kB", "bucket=2MB", 62, 0);
	expect(&usual, "bucket=2MB", "bucket=1MB", 57, 2);
}

static void test_nothing_to_bucket(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	job.bucket_floats = 0;
	refuse(&job, "bucket=1MB", "no all-reduces of gradients");
	refuse(&usual, "bucket=0", "more than nothing");
}

/* --- ranks ------------------------------------------------------------------------- */

/* A ring of n: 2 (n - 1) messages, 2 (n - 1)/n of the bytes. */
static void test_more_ranks(void **state)
{
	(void)state;
	expect(&usual, "world=3", NULL, 20 + 2 * 20 * 4 / 3.0 + 2,
		2 * (2 - 4 / 3.0));
	expect(&usual, "world=4", NULL, 20 + 2 * 20 * 1.5 + 2, 2 * (3 - 1.5));
	expect(&usual, "world=16", NULL, 20 + 2 * 20 * 1.875 + 2,
		2 * (15 - 1.875));
}

static void test_fewer_ranks(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	expect(&usual, "world=1", NULL, 32, 0);
	job.ranks = 4; /* 20 ms at 3/2: 13.33 at 1 */
	expect(&job, "world=2", NULL, 20 + 2 * 20 / 1.5 + 2,
		2 * (1 / 3.0 - 1 / 1.5));
}

static void test_ranks_and_buckets(void **state)
{
	(void)state;
	expect(&usual, "world=4", "bucket=100MB", 30 + 60 + 2, 3 - 3);
	expect(&usual, "bucket=100MB", "world=4", 30 + 60 + 2, 3 - 3);
	expect(&usual, "bucket=1MB", "world=4", 15 + 4 * 15 + 2, 12 - 3);
	expect(&usual, "world=4", "bucket=1MB", 15 + 4 * 15 + 2, 12 - 3);
}

/* Copies take the times of other steps, so that every step has a rank that is
 * as slow as the slowest of all but the first. */
static void test_copies_scatter(void **state)
{
	static const double slower[] = { 1, 1, 1.2, 1.6 };
	struct ddp_job job = usual;

	(void)state;
	job.slower = slower;
	job.us_by_float = 0.001; /* 0.5 ms a bucket: the last is exposed */
	expect(&job, "world=2", NULL, 10 + 4 * 6 + 0.5 + 2, 0);
	expect(&job, "world=8", NULL, 10 + 4 * 8 + 0.5 * 1.75 + 2, 7 - 1.75);
}

static void test_members(void **state)
{
	struct told t = tell(&usual);
	struct taut_prediction *p = predict(&t, "world=6", NULL);

	(void)state;
	assert_int_equal(p->graph->run->n_traces, 6);
	assert_int_equal(p->graph->n_collectives, 4 * 5);
	for (uint32_t i = 0; i < p->graph->n_collectives; i++)
		assert_int_equal(p->graph->collectives[i].n_members, 6);
	assert_true(p->samples_factor == 3);
	taut_prediction_destroy(p);
	forget(&t);
}

/* From one rank's recording: DDP's all-reduces over a given link. */
static void test_from_one_rank(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	job.ranks = 1;
	job.bucket_floats = 0;
	/* 100 MB/s are 0.8 Gbit/s of payload; copies of 1 MB at 8 GB/s */
	expect(&job, "world=2,link=836.464mbit,latency=0us,drag=0,"
		"bucket=2MB,first=2MB", NULL, 20.25 + 40 + 0.25 + 2, 0);
	expect(&job, "world=4,link=836.464mbit,latency=0us,drag=0,"
		"bucket=2MB,first=2MB", NULL, 20.25 + 60 + 0.25 + 2, 0);
	/* 2 (n - 1) messages a ring */
	expect(&job, "world=4,link=836.464mbit,latency=100us,drag=0,"
		"bucket=2MB,first=2MB", NULL, 20.25 + 60 + 2 * 0.6 + 0.25 + 2,
		0);
	expect(&job, "world=1,link=1gbit", NULL, 32, 0);
	/* other buckets pass the link that was given; the copy out is of all */
	expect(&job, "world=2,link=836.464mbit,latency=0us,drag=0,"
		"bucket=100MB,first=100MB", "bucket=2MB",
		20.125 + 40 + 0.5 + 2, 0);
	refuse(&job, "world=2", "link=");
	job.no_shapes = 1;
	refuse(&job, "world=2,link=1gbit", "gradients=");
	expect(&job, "world=2,gradients=4MB,link=836.464mbit,latency=0us,"
		"drag=0,bucket=2MB,first=2MB", NULL, 20.25 + 40 + 0.25 + 2, 0);
}

/* DDP of one rank sums, but nothing passes a link. */
static void test_from_one_rank_of_ddp(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	job.ranks = 1;
	job.us_by_float = 1e-6;
	expect(&job, "world=2,link=836.464mbit,latency=0us,drag=0", NULL, 62,
		0);
	expect(&job, "world=2,link=836.464mbit,latency=0us,drag=0",
		"bucket=1MB", 57, 0);
	refuse(&job, "world=2", "link=");
}

static void test_wrong_worlds(void **state)
{
	(void)state;
	refuse(&usual, "world=0", "world");
	refuse(&usual, "world=3,replica=2", "multiple of 2");
	refuse(&usual, "world=9,replica=3", "whole number");
	refuse(&usual, "world=8,hosts=2,per-host=3", "are not 8");
	refuse(&usual, "world=4,per-host=4", "inside of a host");
}

/* --- passes that a change repeats ---------------------------------------------------- */

/* Forward pass 10, gradients of 1 MB at 15, 20, 25, 30, all in one bucket: 30..70. */
static const struct ddp_job wrapped = {
	.ranks = 2, .steps = 4, .n_gradients = 4, .floats = 250000,
	.forward_us = 10000, .compute_us = 5000, .optimizer_us = 2000,
	.bucket_floats = 1000000, .us_by_float = 0.04, .layers = 1,
	.wrapped = 1, .block_bytes = 1000000,
};

static void expect_both_orders(
	const struct ddp_job *job, const char *a, const char *b)
{
	struct told t = tell(job);
	double ms = step_ms(&t, a, b), other = step_ms(&t, b, a);

	if (fabs(ms - other) > SMALL_US / 1e3)
		fail_msg("%s %s: %.3f ms, in the other order %.3f", a, b, ms,
			other);
	forget(&t);
}

static uint32_t count_before(const struct taut_graph *g, uint32_t step,
	int64_t until_ns, const char *name)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_ops; i++)
		n += g->lanes[g->lane[i]].trace == g->steps[step].trace &&
			g->start_ns[i] >= g->steps[step].start_ns &&
			g->start_ns[i] < until_ns &&
			!strcmp(taut_names_text(g->names, g->name[i]), name);
	return n;
}

/* The first transfer of each step begins behind the first gradient of the last of two
 * passes, the fifth of the step. */
static void expect_last_pass(const char *repeat, const char *bucket)
{
	struct told t = tell(&wrapped);
	struct taut_prediction *p = predict(&t, repeat, bucket);
	const struct taut_graph *g = p->graph;

	for (uint32_t k = 0; k < g->n_steps; k++) {
		int64_t first_ns = INT64_MAX;
		uint32_t n;

		for (uint32_t i = 0; i < g->n_ops; i++)
			if (g->kind[i] == TAUT_OP_ARRIVE &&
				g->lanes[g->lane[i]].trace == g->steps[k].trace &&
				g->start_ns[i] >= g->steps[k].start_ns &&
				g->start_ns[i] < first_ns)
				first_ns = g->start_ns[i];
		n = count_before(g, k, first_ns,
			"torch::autograd::AccumulateGrad");
		if (n != 5)
			fail_msg("%s %s: %u gradients before the first "
				"transfer", repeat, bucket, n);
	}
	taut_prediction_destroy(p);
	forget(&t);
}

static void expect_handed(const char *repeat)
{
	struct told t = tell(&wrapped);
	struct taut_prediction *p =
		predict(&t, repeat, "schedule=fifo,by=taut");
	const struct taut_graph *g = p->graph;

	for (uint32_t k = 0; k < g->n_steps; k++)
		assert_int_equal(count_before(g, k, g->steps[k].end_ns,
			"hand over to the exchange"), wrapped.n_gradients);
	taut_prediction_destroy(p);
	forget(&t);
}

/* Gradients are added up over the passes, and handed over in the last, each once. */
static void test_repeated_passes(void **state)
{
	static const char *const repeats[] = { "microbatches=2", "accumulate=2",
		"accumulate=3" };
	static const char *const others[] = { "bucket=1MB", "bucket=2MB+2MB",
		"partition=500kB", "server=2,per=tensor",
		"compress=bf16" };
	struct ddp_job untold = wrapped;

	(void)state;
	untold.untold = 1;
	for (size_t i = 0; i < sizeof repeats / sizeof *repeats; i++)
		for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
			expect_both_orders(&wrapped, repeats[i], others[k]);
			expect_both_orders(&untold, repeats[i], others[k]);
		}
	expect_last_pass("microbatches=2", "bucket=1MB");
	expect_last_pass("accumulate=2", "bucket=1MB");
	expect_handed("accumulate=2");
	expect_handed("microbatches=3");
}

/* The same of recorded passes: 30 for the first, of which nothing is sent. */
static void test_added_passes(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	job.layers = job.added = 1;
	expect(&job, "bucket=2MB", NULL, 30 + 62, 0);
	expect(&job, "bucket=1MB", NULL, 30 + 57, 2);
	expect(&job, "bucket=100MB", NULL, 30 + 72, -1);
}

/* --- other ways --------------------------------------------------------------------- */

static void test_algorithms(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	job.ranks = 4; /* a ring of four moves 3/2 S in 6 messages, trees 2 S in
	                  4, halving and doubling 3/2 S in 4 */
	expect(&job, "algorithm=ring", NULL, 62, 0);
	expect(&job, "algorithm=tree", NULL, 20 + 40 * 2 / 1.5 + 2,
		2 * (4 / 6.0 - 2 / 1.5));
	expect(&job, "algorithm=halving-doubling", NULL, 62,
		2 * (4 / 6.0 - 1));
	/* each to each in parts: the same bytes in 2; all at once: 3 S in 1; all
	 * of it in each of lg 4 rounds */
	expect(&job, "algorithm=direct", NULL, 62, 2 * (2 / 6.0 - 1));
	expect(&job, "algorithm=flat", NULL, 20 + 40 * 3 / 1.5 + 2,
		2 * (1 / 6.0 - 3 / 1.5));
	expect(&job, "algorithm=doubling", NULL, 20 + 40 * 2 / 1.5 + 2,
		2 * (2 / 6.0 - 2 / 1.5));
	for (job.one_host = 0; job.one_host < 2; job.one_host++) {
		expect(&job, "algorithm=ring,from=tree", NULL,
			20 + 40 * 1.5 / 2 + 2, 2 * (6 / 4.0 - 1.5 / 2));
		expect(&job, "algorithm=tree,from=tree", NULL, 62, 0);
		expect(&job, "algorithm=tree,from=flat", NULL,
			20 + 40 * 2 / 3.0 + 2, 2 * (4 / 1.0 - 2 / 3.0));
		expect(&job, "algorithm=ring,from=tree", "bucket=100MB",
			30 + 40 * 1.5 / 2 + 2, 6 / 4.0 - 2 * 1.5 / 2);
	}
	job.ranks = 1;
	refuse(&job, "algorithm=tree", "two ranks");
}

static void test_overlap(void **state)
{
	(void)state;
	expect(&usual, "overlap=none", NULL, 30 + 40 + 2, 0);
	/* behind what the forward pass sums, until 6 + 2 */
	expect(&usual, "overlap=full", NULL, 8 + 40 + 2, 0);
	expect(&usual, "ideal-network", NULL, 30 + 2, 0);
}

static void test_full_overlap_of_little(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	job.us_by_float = 0.01; /* 10 ms a step: computation is longer */
	expect(&job, "overlap=full", NULL, 30 + 2, 0);
}

/* Half the bytes; a pass costs nothing at 1e6 GB/s, a hook 0.15 ms before and
 * half of that behind. */
static void test_halves(void **state)
{
	(void)state;
	expect(&usual, "compress=fp16,cast=1000000,core=1", NULL,
		30 + 0.3 + 10 + 0.075 + 2, 0.5);
	expect(&usual, "compress=bf16,cast=1000000,core=1", NULL,
		30 + 0.3 + 10 + 0.075 + 2, 0.5);
	/* 2 MB in 1.3 passes of 1 GB/s: 2.6 ms; behind: 1.5 ms */
	expect(&usual, "compress=fp16,cast=1,core=1", NULL,
		30 + 2 * 2.75 + 10 + 1.575 + 2, 0.5);
	/* 0.8 passes each way, and no hook */
	expect(&usual, "compress=bf16,cast=1,core=1,by=taut", NULL,
		30 + 2 * 1.6 + 10 + 1.6 + 2, 0.5);
	/* 33 bytes for 128; 0.7 and 0.55 passes */
	expect(&usual, "compress=mxint8,cast=1000000,core=1,by=taut", NULL,
		30 + 20 * 33.0 / 128 + 2, 95.0 / 128);
	expect(&usual, "compress=mxint8,cast=1,core=1,by=taut", NULL,
		30 + 2 * 1.4 + 20 * 33.0 / 128 + 1.1 + 2, 95.0 / 128);
}

/* Of the buckets that there are in the end, whichever was said first. */
static void test_halves_of_other_buckets(void **state)
{
	static const char *const narrow[] = { "compress=fp16,cast=1000000",
		"compress=fp16,cast=1,core=1", "compress=mxint8,cast=1,by=taut" };
	static const char *const laid[] = { "bucket=1MB", "bucket=100MB",
		"server=2,per=tensor" };

	(void)state;
	for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
		for (size_t k = 0; k < sizeof laid / sizeof *laid; k++)
			expect_both_orders(&usual, narrow[i], laid[k]);
	/* each behind its own gradient, the last one's half behind all */
	expect(&usual, "compress=fp16,cast=1000000,core=1", "bucket=100MB",
		30 + 0.15 + 20 + 0.075 + 2, 0);
}

/* What was said of gradients holds in other buckets. */
static void test_ways_of_other_buckets(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	job.ranks = 4;
	expect_both_orders(&job, "algorithm=tree", "bucket=1MB");
	expect_both_orders(&job, "algorithm=flat", "bucket=100MB");
	expect_both_orders(&job, "server=1,at=own,sum=1000", "bucket=100MB");
	/* 2 * 7/8 of 4 MB over 100 MB/s, a link that only world knows of */
	job.one_host = 1;
	expect(&job, "world=8,per-host=1,link=836.464mbit,latency=0us,drag=0",
		"bucket=100MB", 30 + 70 + 2, 0);
	job.one_host = 0;
	expect_both_orders(&job, "overlap=none", "bucket=1MB");
	expect_both_orders(&job, "overlap=full", "bucket=100MB");
	expect_both_orders(&job, "overlap=none", "server=2,per=tensor");
	expect_both_orders(&job, "partition=300kB", "bucket=100MB");
	expect_both_orders(&job, "partition=300kB", "server=2,per=tensor");
}

/* What is a number before: DDP's hooks take all types, Taut's exchange fp32. */
static void test_narrow_of_other_types(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	job.floats *= 2; /* of two bytes each: buckets, and all times, as before */
	job.bucket_floats *= 2;
	job.us_by_float /= 2;
	job.type = "c10::BFloat16";
	expect(&job, "compress=bf16,cast=1", NULL, 62, 0);
	expect(&job, "compress=bf16,cast=1,by=taut", NULL, 62, 0);
	expect(&job, "compress=mxint8,cast=1,by=taut", NULL, 62, 0);
	expect(&job, "bucket=1MB", "compress=mxint8,cast=1,by=taut", 57, 2);
	expect_note(&job, "compress=fp16,cast=1", "100 % of the gradients' bytes "
		"stay as they are: they are of 16 bits already");
	expect_note(&job, "compress=fp16,cast=1,by=taut", "100 % of the "
		"gradients' bytes stay as they are: Taut narrows those of fp32");
	/* gathering a half of two ranks */
	expect(&job, "compress=int8,cast=1000000,core=1", NULL,
		30 + 0.3 + 10 + 0.075 + 2, 0.5);
	job.type = "double";
	job.floats /= 4;
	job.bucket_floats /= 4;
	job.us_by_float *= 4;
	expect(&job, "compress=mxint8,cast=1,by=taut", NULL, 62, 0);
	expect(&job, "compress=fp16,cast=1000000,core=1", NULL,
		30 + 0.3 + 5 + 0.075 + 2, 0.75);
}

static void test_compression_of_more_ranks(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	/* gathering 1/4 of two ranks: 1/4; 3 and 1.5 passes cost nothing */
	expect(&usual, "compress=int8,cast=1000000,core=1", NULL,
		30 + 0.3 + 5 + 0.075 + 2, 0.75);
	job.ranks = 4; /* of four: half of an all-reduce's bytes */
	expect(&job, "compress=int8,cast=1000000,core=1", NULL,
		30 + 0.3 + 10 + 0.075 + 2, 0.5);
	expect(&job, "compress=topk,ratio=0.05,select=1000000,cast=1000000,"
		"core=1", NULL, 30 + 0.6 + 20 * 0.2 + 0.15 + 2, 0.8);
}

/* Servers pay two messages, a ring of four six. */
static void test_servers(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	job.ranks = 4; /* a ring of four moves 3/2 S: 20 ms */
	/* on hosts of their own: one gets 4 S, four get S */
	expect(&job, "server=1,at=own,sum=1000", NULL, 20 + 40 * 4 / 1.5 + 2,
		2 * (1 / 3.0 - 4 / 1.5));
	expect(&job, "server=4,at=own,sum=1000", NULL, 20 + 40 / 1.5 + 2,
		2 * (1 / 3.0 - 1 / 1.5));
	/* beside the ranks: push 3/4 S and serve 3/4 S */
	expect(&job, "server=4,sum=1000", NULL, 62, 2 * (1 / 3.0 - 1));
	/* the link carries 150 MB/s. One server adds up 8 MB of a bucket at
	 * 300 MB/s, faster than they come; at 100 MB/s, slower */
	expect(&job, "server=1,at=own,sum=0.3", NULL, 20 + 40 * 4 / 1.5 + 2,
		2 * (1 / 3.0 - 4 / 1.5));
	expect(&job, "server=1,at=own,sum=0.1", NULL, 20 + 2 * 80 + 2,
		2 / 3.0);
	/* 15..21.67 21.67..28.33 28.33..35 35..41.67 */
	expect(&job, "server=4,at=own,sum=1000,per=tensor", NULL,
		15 + 40 / 1.5 + 2, 4 / 3.0 - 2 / 1.5);
	refuse(&job, "server=0", "server");
}

/* Two ranks share a host's link: 2 S each way, and a ring of two moves S. */
static void test_servers_of_shared_hosts(void **state)
{
	(void)state;
	expect(&usual, "world=4,hosts=2", "server=4,at=own,sum=1000",
		20 + 2 * 40 + 2, 2 * (1 - 2));
}

/* What a server adds up takes as long, whatever the link. */
static void test_servers_and_links(void **state)
{
	struct ddp_job job = usual;

	(void)state;
	job.ranks = 4;
	expect(&job, "link=4x", "server=1,at=own,sum=0.1",
		20 + 2 * 80 + 2, 2 / 3.0);
	expect(&job, "server=1,at=own,sum=0.1", "link=4x",
		20 + 2 * 80 + 2, 2 / 3.0);
}

static void test_pieces(void **state)
{
	(void)state;
	/* four pieces of two buckets: three latencies more each */
	expect(&usual, "partition=500kB", NULL, 62, 6);
	expect(&usual, "partition=10MB", NULL, 62, 0);
	refuse(&usual, "partition=999B", "1 kB or more");
	refuse(&usual, "partition=2x", "1 kB or more");
}

/* --- what all must hold --------------------------------------------------------------- */

static const char *const all[] = { "bucket=1MB", "bucket=100MB", "world=5",
	"world=1", "algorithm=tree", "overlap=none", "overlap=full",
	"ideal-network", "compress=fp16", "compress=topk", "compress=int8",
	"compress=powersgd", "world=4,hosts=2", "server=2,per=tensor",
	"partition=300kB", "schedule=fifo,partition=300kB" };

struct bench {
	struct told t;
	struct tauti_whatif w;
	struct tauti_job *job;
	struct taut_costs *costs;
};

static void set_up(struct bench *b)
{
	struct taut_error err = { 0 };

	b->t = tell(&usual);
	b->w.graph = b->t.graph;
	b->w.arena = taut_arena_create();
	assert_non_null(b->w.arena);
	if (tauti_job_create(b->t.graph, &b->job, &err) ||
		taut_costs_create(b->t.graph, &b->costs, &err) ||
		taut_edit_create(b->t.graph, &b->w.edit, &err))
		fail_msg("%s", err.message);
	b->w.job = b->job;
	b->w.costs = b->costs;
}

static void tear_down(struct bench *b)
{
	taut_vec_free(&b->w.notes);
	taut_vec_free(&b->w.ways);
	taut_edit_destroy(b->w.edit);
	taut_costs_destroy(b->costs);
	tauti_job_destroy(b->job);
	taut_arena_destroy(b->w.arena);
	forget(&b->t);
}

static void same_graph(const struct taut_graph *a, const struct taut_graph *b)
{
	assert_int_equal(a->n_ops, b->n_ops);
	assert_int_equal(a->n_edges, b->n_edges);
	assert_int_equal(a->n_lanes, b->n_lanes);
	assert_int_equal(a->n_collectives, b->n_collectives);
	assert_memory_equal(a->dur_ns, b->dur_ns, a->n_ops * sizeof *a->dur_ns);
	assert_memory_equal(a->gap_ns, b->gap_ns, a->n_ops * sizeof *a->gap_ns);
	assert_memory_equal(a->lane, b->lane, a->n_ops * sizeof *a->lane);
	assert_memory_equal(a->edge_to, b->edge_to,
		a->n_edges * sizeof *a->edge_to);
	assert_memory_equal(a->edge_lag_ns, b->edge_lag_ns,
		a->n_edges * sizeof *a->edge_lag_ns);
}

static void test_undo_leaves_nothing(void **state)
{
	struct bench b = { 0 };

	(void)state;
	set_up(&b);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		uint32_t mark = taut_edit_mark(b.w.edit);
		struct taut_graph *built = NULL;
		struct tauti_change change;
		struct taut_error err = { 0 };

		assert_int_equal(tauti_whatif_reset(&b.w, &err), 0);
		if (tauti_change_read(all[i], b.w.arena, &change, &err) ||
			change.is->apply(&b.w, &change, &err))
			fail_msg("%s: %s", all[i], err.message);
		taut_edit_undo(b.w.edit, mark);
		assert_int_equal(taut_edit_build(b.w.edit, &built, NULL, NULL,
			&err), 0);
		same_graph(built, b.t.graph);
		taut_graph_destroy(built);
	}
	tear_down(&b);
}

static void test_no_memory(void **state)
{
	struct told t = tell(&usual);

	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (long n = 0;; n += n < 400 ? 1 : 37) {
			struct taut_prediction *p = NULL;
			struct taut_error err = { 0 };
			taut_status status;

			alloc_fail_after(n);
			status = taut_predict(t.graph, &all[i], 1, NULL, &p,
				&err);
			alloc_fail_never();
			taut_prediction_destroy(p);
			if (!status)
				break;
			assert_int_equal(status, TAUT_ENOMEM);
		}
	forget(&t);
}

static void test_plan(void **state)
{
	static const int64_t bytes[] = { 400, 51200 * 4, 4, 4096, 100 };
	static const double caps[] = { 400, 204800 }, many[] = { 1, 2, 1e6 };
	struct taut_error err = { 0 };
	tauti_plan plan = { 0 };

	(void)state;
	assert_int_equal(
		tauti_ddp_plan(bytes, 5, caps, 2, &plan, &err), 0);
	assert_int_equal(plan.count, 3);
	assert_int_equal(plan.data[1], 1);
	assert_int_equal(plan.data[2], 2);
	taut_vec_free(&plan);
	assert_int_equal(tauti_ddp_plan(bytes, 0, caps, 1, &plan, &err), 0);
	assert_int_equal(plan.count, 0);
	taut_vec_free(&plan);
	assert_int_equal(tauti_ddp_plan(bytes, 5, many, 3, &plan, &err), 0);
	assert_int_equal(plan.count, 3);
	assert_int_equal(plan.data[2], 2);
	taut_vec_free(&plan);
	assert_int_equal(tauti_ddp_plan(bytes, 5, many, 1, &plan, &err), 0);
	assert_int_equal(plan.count, 5);
	taut_vec_free(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drag_that_is_not_told),
		cmocka_unit_test(test_recorded_buckets),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_buckets_without_shapes),
		cmocka_unit_test(test_steps_that_differ),
		cmocka_unit_test(test_buckets_again),
		cmocka_unit_test(test_nothing_to_bucket),
		cmocka_unit_test(test_more_ranks),
		cmocka_unit_test(test_fewer_ranks),
		cmocka_unit_test(test_ranks_and_buckets),
		cmocka_unit_test(test_copies_scatter),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_from_one_rank),
		cmocka_unit_test(test_from_one_rank_of_ddp),
		cmocka_unit_test(test_wrong_worlds),
		cmocka_unit_test(test_repeated_passes),
		cmocka_unit_test(test_added_passes),
		cmocka_unit_test(test_algorithms),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_full_overlap_of_little),
		cmocka_unit_test(test_halves),
		cmocka_unit_test(test_halves_of_other_buckets),
		cmocka_unit_test(test_ways_of_other_buckets),
		cmocka_unit_test(test_narrow_of_other_types),
		cmocka_unit_test(test_compression_of_more_ranks),
		cmocka_unit_test(test_servers),
		cmocka_unit_test(test_servers_of_shared_hosts),
		cmocka_unit_test(test_servers_and_links),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_undo_leaves_nothing),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_plan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
