/* apply_test.c - what a job is told for each decision, and what is refused: what
 * runs must be what was predicted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/plan.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"

enum { MOST = 14, TEXT = 2048 };

static const int64_t gradients[] = { 4096, 512, 512, 4 };

#define ANYBODYS "schedule=priority,partition=1MiB,credit=4MiB,barrier=cross"
#define OURS ANYBODYS ",by=taut"
#define SAYS_JOB "TAUT_RUN_JOB=ranks=2 gradients=4096x1,512x2,4x1\n"
#define SAYS_OURS "TAUT_RUN_SCHEDULE=on\nTAUT_RUN_ENGINE=coll\n" \
	"TAUT_RUN_GATE=off\nTAUT_RUN_PIECE=1048576\nTAUT_RUN_CREDIT=4194304\n"
/* Of gradients that are narrowed, half the bytes are sent. */
#define SAYS_OURS_NARROW "TAUT_RUN_SCHEDULE=on\nTAUT_RUN_ENGINE=coll\n" \
	"TAUT_RUN_GATE=off\nTAUT_RUN_PIECE=524288\nTAUT_RUN_CREDIT=2097152\n"
#define SAYS_THEIRS "TAUT_RUN_SCHEDULE=off\n"

/* A plan of these changes, in order, NULL behind the last. */
static taut_status settings(const char *framework, const char *const *changes,
	struct taut_arena *arena, const struct taut_plan_setting **ret,
	uint32_t *ret_n, struct taut_error *err)
{
	struct taut_decision decisions[MOST];
	struct taut_plan plan = { .job = { .n_ranks = 2, .n_hosts = 2,
		.n_gradients = 4, .gradient_bytes = gradients,
		.framework = framework }, .decisions = decisions };

	for (; changes[plan.n_decisions]; plan.n_decisions++)
		decisions[plan.n_decisions] = (struct taut_decision){
			changes[plan.n_decisions], TAUT_NUMERICS_EXACT, -1 };
	return taut_plan_settings(&plan, arena, ret, ret_n, err);
}

/* said: a line for each variable, in order. */
static void told_of(const char *framework, const char *const *changes,
	const char *said)
{
	struct taut_arena *arena = taut_arena_create();
	const struct taut_plan_setting *found;
	struct taut_error err;
	char text[TEXT] = "";
	uint32_t n;

	assert_non_null(arena);
	if (settings(framework, changes, arena, &found, &n, &err))
		fail_msg("%s: %s", *changes ? *changes : "-", err.message);
	for (uint32_t i = 0; i < n; i++) {
		strcat(text, found[i].name);
		strcat(text, "=");
		strcat(text, found[i].value);
		strcat(text, "\n");
	}
	assert_string_equal(text, said);
	taut_arena_destroy(arena);
}

static void refused_of(const char *framework, const char *const *changes,
	const char *line)
{
	struct taut_arena *arena = taut_arena_create();
	const struct taut_plan_setting *found = NULL;
	struct taut_error err;
	uint32_t n = 77;

	assert_non_null(arena);
	assert_int_equal(settings(framework, changes, arena, &found, &n, &err),
		TAUT_EINVAL);
	assert_string_equal(err.message, line);
	assert_null(found);
	assert_int_equal(n, 77);
	taut_arena_destroy(arena);
}

static void told(const char *const *changes, const char *said)
{
	told_of("pytorch", changes, said);
}

#define TOLD_OF(framework, said, ...) told_of(framework, \
	(const char *const[]){ __VA_ARGS__, NULL }, said)
#define REFUSED_OF(framework, line, ...) refused_of(framework, \
	(const char *const[]){ __VA_ARGS__, NULL }, line)
#define TOLD(said, ...) TOLD_OF("pytorch", said, __VA_ARGS__)
#define REFUSED(line, ...) REFUSED_OF("pytorch", line, __VA_ARGS__)

/* --- each decision --------------------------------------------------------------------- */

static void test_none(void **state)
{
	(void)state;
	told((const char *const[]){ NULL }, SAYS_THEIRS SAYS_JOB);
}

static void test_pytorch(void **state)
{
	(void)state;
	TOLD(SAYS_THEIRS "TAUT_RUN_BUCKET=2097152\n"
		"TAUT_RUN_BUCKET_FIRST=2097152\n" SAYS_JOB, "bucket=2MiB");
	TOLD(SAYS_THEIRS "TAUT_RUN_BUCKET=25000000\n"
		"TAUT_RUN_BUCKET_FIRST=1024\n" SAYS_JOB,
		"bucket=25MB,first=1KiB");
	TOLD(SAYS_THEIRS "TAUT_RUN_BUCKET=1048576+2000+7\n" SAYS_JOB,
		"bucket=1MiB+2kB+7");
	TOLD(SAYS_THEIRS "TAUT_RUN_BUCKET=1048576\n"
		"TAUT_RUN_BUCKET_FIRST=1048576\n"
		"TAUT_RUN_COMPRESS=fp16\n" SAYS_JOB,
		"compress=fp16", "bucket=1MiB");
}

static void test_what_any_exchange_has(void **state)
{
	(void)state;
	TOLD(SAYS_THEIRS "TAUT_RUN_COMPRESS=bf16\n" SAYS_JOB, "compress=bf16");
	TOLD(SAYS_THEIRS "TAUT_RUN_OPTIMIZER=fused\n" SAYS_JOB,
		"optimizer=fused");
	TOLD(SAYS_THEIRS "TAUT_RUN_AMP=bf16\n" SAYS_JOB, "amp");
	TOLD(SAYS_THEIRS "TAUT_RUN_AMP=bf16\n" SAYS_JOB, "amp=bf16");
	TOLD(SAYS_THEIRS "TAUT_RUN_RECOMPUTE=nn.Module: block.*\n" SAYS_JOB,
		"recompute=nn.Module: block.*");
	TOLD(SAYS_THEIRS "TAUT_RUN_COMPILE=nn.Module: block.*\n" SAYS_JOB,
		"compile=nn.Module: block.*");
	TOLD(SAYS_THEIRS "TAUT_RUN_WORKERS=4\n" SAYS_JOB, "workers=4");
	TOLD(SAYS_THEIRS "TAUT_RUN_WORKERS=0\n" SAYS_JOB, "workers=0");
	TOLD(SAYS_THEIRS "TAUT_RUN_LOAD=auto\n" SAYS_JOB, "loader=taut");
	TOLD(SAYS_THEIRS "TAUT_RUN_LOAD=auto\nTAUT_RUN_LOAD_CACHE=64000000000\n"
		SAYS_JOB, "loader=taut", "cache=64GB,policy=pinned");
}

static void test_ours(void **state)
{
	(void)state;
	TOLD(SAYS_OURS SAYS_JOB, OURS);
	TOLD(SAYS_OURS SAYS_JOB, OURS ",order=agreed");
	TOLD(SAYS_OURS "TAUT_RUN_FUSE=524288+524288\n" SAYS_JOB,
		"bucket=512KiB", OURS);
	TOLD(SAYS_OURS "TAUT_RUN_FUSE=524288+4096\n" SAYS_JOB,
		"bucket=512KiB+4KiB", OURS);
	TOLD(SAYS_OURS_NARROW "TAUT_RUN_FUSE=524288+4096\n"
		"TAUT_RUN_COMPRESS=fp16\n" SAYS_JOB,
		"bucket=512KiB+4KiB", "compress=fp16,by=taut", OURS);
	TOLD(SAYS_OURS_NARROW "TAUT_RUN_FUSE=524288+524288\nTAUT_RUN_WAY=ring\n"
		"TAUT_RUN_COMPRESS=fp16\nTAUT_RUN_WORKERS=2\n" SAYS_JOB,
		"workers=2", "bucket=512KiB", "compress=fp16,by=taut",
		"algorithm=ring", OURS);
	TOLD(SAYS_OURS "TAUT_RUN_ROWS=on\n" SAYS_JOB, "rows", OURS);
	TOLD("TAUT_RUN_SCHEDULE=on\nTAUT_RUN_ENGINE=coll\nTAUT_RUN_GATE=off\n"
		"TAUT_RUN_PIECE=270336\nTAUT_RUN_CREDIT=1081344\n" /* 33/128 */
		"TAUT_RUN_COMPRESS=mxint8\n" SAYS_JOB,
		"compress=mxint8,by=taut", OURS);
}

/* Each of Taut's ways by whatif's name of it. */
static void test_ways(void **state)
{
	static const char *const ways[][2] = { { "ring", "ring" },
		{ "direct", "direct" }, { "flat", "flat" }, { "tree", "tree" },
		{ "doubling", "doubling" }, { "halving-doubling", "halving" },
		{ "hierarchical", "hosts" } };

	(void)state;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		char change[64], said[256];

		snprintf(change, sizeof change, "algorithm=%s", ways[i][0]);
		snprintf(said, sizeof said, SAYS_OURS "TAUT_RUN_WAY=%s\n"
			SAYS_JOB, ways[i][1]);
		TOLD(said, change, OURS);
	}
}

/* Every row of the table of kinds can be told. */
static void test_every_kind(void **state)
{
	static const char *const values[][2] = { { "workers", "=1" },
		{ "loader", "=taut" }, { "cache", "=1GB,policy=pinned" },
		{ "heap", "=keep" },
		{ "recompute", "=a*" }, { "microbatches", "=4" },
		{ "compile", "=b*" }, { "amp", "=bf16" },
		{ "optimizer", "=fused" }, { "bucket", "=1MiB" }, { "rows", "" },
		{ "compress", "=fp16,by=taut" }, { "algorithm", "=ring" } };
	const char *changes[MOST + 1] = { NULL };
	const struct taut_plan_kind *kind;
	size_t n = 0;

	(void)state;
	for (size_t i = 0; (kind = taut_plan_kind(i)) != NULL; i++)
		for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
			static char texts[MOST][64];

			if (strcmp(values[k][0], kind->change))
				continue;
			snprintf(texts[n], sizeof texts[n], "%s%s",
				kind->change, values[k][1]);
			changes[n] = texts[n];
			n++;
		}
	changes[n++] = OURS;
	assert_null(taut_plan_kind(n + 1)); /* graphs, apart: device_test.c */
	told(changes, SAYS_OURS_NARROW "TAUT_RUN_FUSE=1048576+1048576\nTAUT_RUN_WAY=ring\n"
		"TAUT_RUN_ROWS=on\nTAUT_RUN_COMPRESS=fp16\nTAUT_RUN_OPTIMIZER=fused\n"
		"TAUT_RUN_AMP=bf16\nTAUT_RUN_HEAP=keep\nTAUT_RUN_RECOMPUTE=a*\n"
		"TAUT_RUN_COMPILE=b*\nTAUT_RUN_WORKERS=1\n"
		"TAUT_RUN_MICROBATCHES=4\nTAUT_RUN_LOAD=auto\n"
		"TAUT_RUN_LOAD_CACHE=1000000000\n" SAYS_JOB);
}

/* --- refused --------------------------------------------------------------------------- */

#define NOT(change, why) change ": a running job cannot be given this: " why

static void test_not_of_a_job(void **state)
{
	(void)state;
	REFUSED(NOT("link=2x", "it is no change that is made of a job"),
		"link=2x");
	REFUSED(NOT("workers=2", "it is decided twice"), "workers=1",
		"workers=2");
	REFUSED("unknown change 'bukket'; did you mean bucket?", "bukket=1MiB");
}

static void test_parts_of_predictions(void **state)
{
	(void)state;
	REFUSED(NOT("workers=2,prefetch=4", "prefetch= is of predictions "
		"alone"), "workers=2,prefetch=4");
	REFUSED(NOT("compress=fp16,cast=3", "cast= is of predictions alone"),
		"compress=fp16,cast=3");
	REFUSED(NOT("algorithm=ring,least=1MiB", "least= is of predictions "
		"alone"), "algorithm=ring,least=1MiB", OURS);
	REFUSED(NOT("bucket=1MiB,first=1KiB", "first= is of predictions alone"),
		"bucket=1MiB,first=1KiB", OURS);
	REFUSED(NOT(OURS ",message=1ms", "message= is of predictions alone"),
		OURS ",message=1ms");
	TOLD(SAYS_THEIRS "TAUT_RUN_WORKERS=2\n" SAYS_JOB,
		"workers=2,prefetch=2"); /* which is what it is anyway */
}

static void test_words(void **state)
{
	(void)state;
	REFUSED(NOT("compress=fp16,by=taut", "by=taut needs schedule=, which "
		"brings Taut's exchange"), "compress=fp16,by=taut");
	REFUSED(NOT("compress=fp16", "beside schedule= gradients are narrowed "
		"by=taut"), "compress=fp16", OURS);
	REFUSED(NOT("compress=mxint8", "frameworks have no hook for it: "
		"expected by=taut"), "compress=mxint8");
	REFUSED(NOT("rows", "it needs schedule=, which brings Taut's exchange"),
		"rows");
	REFUSED(NOT("compress=int8", "expected compress=fp16"),
		"compress=int8");
	REFUSED(NOT("compress=topk,ratio=0.5", "ratio= is of predictions "
		"alone"), "compress=topk,ratio=0.5");
	REFUSED(NOT("optimizer=free", "expected optimizer=fused"),
		"optimizer=free");
	REFUSED(NOT("amp=int8", "expected amp=bf16"), "amp=int8");
	REFUSED(NOT("amp=fp16", "expected amp=bf16"), "amp=fp16");
	REFUSED("workers: value: expected a whole number from 0 to 1024, found "
		"'many'", "workers=many");
	REFUSED("workers: value: expected a whole number from 0 to 1024, found "
		"'1025'", "workers=1025");
	REFUSED(NOT("algorithm=blueconnect", "Taut's collectives have no such "
		"way"), "algorithm=blueconnect", OURS);
	REFUSED(NOT("algorithm=server", "Taut's collectives have no such way"),
		"algorithm=server", OURS);
}

static void test_sizes(void **state)
{
	(void)state;
	REFUSED(NOT("bucket=2x", "a plan has sizes in bytes, like 4MiB"),
		"bucket=2x");
	REFUSED(NOT("bucket=0.5B", "a plan has sizes in bytes, like 4MiB"),
		"bucket=0.5B");
	REFUSED(NOT("bucket=2x", "a plan has sizes in bytes, like 4MiB"),
		"bucket=2x", OURS);
}

/* --- other frameworks --------------------------------------------------------------- */

#define THEIRS "schedule=fifo,partition=1MiB,credit=4MiB,order=agreed"
#define SAYS_THEIR_EXCHANGE "TAUT_RUN_SCHEDULE=on\nTAUT_RUN_ENGINE=coll\n" \
	"TAUT_RUN_GATE=off\nTAUT_RUN_PIECE=1048576\nTAUT_RUN_CREDIT=4194304\n"
#define SAYS_THEIR_JOB "TAUT_RUN_JOB=framework=tensorflow ranks=2 " \
	"gradients=4096x1,512x2,4x1\n"

static void test_tensorflow(void **state)
{
	(void)state;
	TOLD_OF("tensorflow", SAYS_THEIR_JOB, NULL);
	TOLD_OF("tensorflow", "TAUT_RUN_HEAP=keep\n" SAYS_THEIR_JOB,
		"heap=keep");
	TOLD_OF("tensorflow", SAYS_THEIR_EXCHANGE
		"TAUT_RUN_FUSE=2097152+2097152\nTAUT_RUN_WAY=ring\n"
		SAYS_THEIR_JOB, "bucket=2MiB", "algorithm=ring", THEIRS);
	TOLD_OF("tensorflow", "TAUT_RUN_SCHEDULE=on\nTAUT_RUN_ENGINE=coll\n"
		"TAUT_RUN_GATE=off\nTAUT_RUN_PIECE=524288\n"
		"TAUT_RUN_CREDIT=2097152\nTAUT_RUN_FUSE=4096+8192\n"
		"TAUT_RUN_COMPRESS=bf16\n" SAYS_THEIR_JOB,
		"bucket=4KiB+8KiB", "compress=bf16,by=taut", THEIRS);
	/* Nothing else of them is summed by anybody. */
	REFUSED_OF("tensorflow", NOT("bucket=2MiB", "it needs schedule=, which "
		"says all of how Taut's exchange goes"), "bucket=2MiB");
	REFUSED_OF("tensorflow", NOT(THEIRS, "a plan says bucket= beside it"),
		THEIRS);
	REFUSED_OF("tensorflow", NOT(OURS, "of tensorflow "
		"schedule=fifo,order=agreed alone is made"), "bucket=1MiB", OURS);
	REFUSED_OF("tensorflow", NOT("schedule=fifo,partition=1MiB,credit=4MiB",
		"of tensorflow schedule=fifo,order=agreed alone is made"),
		"bucket=1MiB", "schedule=fifo,partition=1MiB,credit=4MiB");
	REFUSED_OF("tensorflow", NOT(THEIRS ",barrier=cross", "a step of "
		"tensorflow ends when all gradients are applied: barrier=keep"),
		"bucket=1MiB", THEIRS ",barrier=cross");
}

/* Each decision is made of some frameworks' jobs, and of no others. */
static void test_frameworks(void **state)
{
	static const char *const of_tensorflow[] = { "heap", "bucket",
		"compress", "algorithm", "schedule" };
	const struct taut_plan_kind *kind;

	(void)state;
	for (size_t i = 0; (kind = taut_plan_kind(i)) != NULL; i++) {
		bool theirs = false;

		for (size_t k = 0; k < sizeof of_tensorflow /
			sizeof *of_tensorflow; k++)
			theirs |= !strcmp(kind->change, of_tensorflow[k]);
		assert_true(kind->frameworks & TAUT_PLAN_PYTORCH);
		assert_int_equal(
			!!(kind->frameworks & TAUT_PLAN_TENSORFLOW), theirs);
		assert_int_equal(!!(kind->frameworks & TAUT_PLAN_MXNET),
			!strcmp(kind->change, "heap"));
	}
	REFUSED_OF("tensorflow", NOT("workers=1", "it is one of tensorflow, of "
		"which this is not made"), "workers=1");
	REFUSED_OF("mxnet", NOT("algorithm=ring", "it is one of mxnet, of "
		"which this is not made"), "algorithm=ring");
	TOLD_OF("mxnet", "TAUT_RUN_HEAP=keep\nTAUT_RUN_JOB=framework=mxnet "
		"ranks=2 gradients=4096x1,512x2,4x1\n", "heap=keep");
	REFUSED_OF("jax", NOT("heap=keep", "it is one of jax, of which this "
		"is not made"), "heap=keep");
}

static void test_contradictions(void **state)
{
	(void)state;
	REFUSED(NOT("algorithm=ring", "without schedule= the framework's own "
		"library carries all-reduces out"), "algorithm=ring");
	REFUSED(NOT("schedule=fifo,partition=1MiB,credit=4MiB,barrier=cross",
		"schedule=priority alone is made"),
		"schedule=fifo,partition=1MiB,credit=4MiB,barrier=cross");
	REFUSED(NOT("schedule=priority,partition=1MiB,credit=4MiB",
		"pieces by priority cross the end of the step: barrier=cross"),
		"schedule=priority,partition=1MiB,credit=4MiB");
	REFUSED(NOT("schedule=priority,partition=1MiB,credit=4MiB,barrier=keep",
		"pieces by priority cross the end of the step: barrier=cross"),
		"schedule=priority,partition=1MiB,credit=4MiB,barrier=keep");
	REFUSED(NOT(OURS ",order=declared", "order=agreed alone is made"),
		OURS ",order=declared");
	REFUSED(NOT(ANYBODYS, "Taut's exchange makes it: by=taut"), ANYBODYS);
	REFUSED(NOT(ANYBODYS ",by=framework", "Taut's exchange makes it: by=taut"),
		"rows", ANYBODYS ",by=framework");
	REFUSED(NOT("bucket=1MiB+4MiB,first=1KiB", "of buckets that have a size "
		"each the first says its own"), "bucket=1MiB+4MiB,first=1KiB");
	REFUSED(NOT("schedule=priority,partition=1MiB,barrier=cross,by=taut",
		"a plan says partition= and credit="),
		"schedule=priority,partition=1MiB,barrier=cross,by=taut");
	REFUSED(NOT("cache=64GB,policy=pinned", "the cache is that of Taut's "
		"loader: it needs loader=taut"), "cache=64GB,policy=pinned");
	REFUSED(NOT("cache=64GB", "Taut's loader keeps what it has: "
		"policy=pinned"), "cache=64GB", "loader=taut");
	REFUSED(NOT("cache=2x,policy=pinned", "a plan has sizes in bytes, like "
		"4MiB"), "cache=2x,policy=pinned", "loader=taut");
	REFUSED(NOT("schedule=priority,credit=1MiB,barrier=cross,by=taut",
		"a plan says partition= and credit="),
		"schedule=priority,credit=1MiB,barrier=cross,by=taut");
}

/* --- whatever the plan ------------------------------------------------------------------ */

/* `taut tune` runs such plans. What an exchange does cannot be told without one. */
static void test_without_one(void **state)
{
	static const struct taut_decision all[] = {
		{ .change = "loader=taut" }, { .change = "cache=1GB,policy=pinned" },
		{ .change = "optimizer=fused" }, { .change = "bucket=1MiB" },
		{ .change = "rows" }, { .change = "compress=bf16,by=taut" },
		{ .change = "algorithm=ring" }, { .change = "schedule=priority,"
			"partition=1MiB,credit=1MiB,barrier=cross,by=taut" },
	};
	enum { N = sizeof all / sizeof *all };
	static const uint32_t n_left[N] = { 6, 7, 7, 7, 7, 7, 7, 3 };
	struct taut_arena *arena = taut_arena_create();

	(void)state;
	assert_non_null(arena);
	for (uint32_t i = 0; i < N; i++) {
		struct taut_decision left[N];
		struct taut_plan plan = { .n_decisions = N, .decisions = all,
			.job = { .n_ranks = 2, .framework = "pytorch" } };
		const struct taut_plan_setting *found;
		struct taut_error err;
		uint32_t n;

		plan.n_decisions = taut_plan_without(&plan, i, left);
		plan.decisions = left;
		assert_int_equal(plan.n_decisions, n_left[i]);
		if (taut_plan_settings(&plan, arena, &found, &n, &err))
			fail_msg("without %s: %s", all[i].change, err.message);
	}
	taut_arena_destroy(arena);
}

static void test_job(void **state)
{
	struct taut_arena *arena = taut_arena_create();
	const struct taut_plan bare = { .job = { .n_ranks = 7 } };
	const struct taut_plan_setting *found;
	uint32_t n;

	(void)state;
	assert_non_null(arena);
	assert_int_equal(taut_plan_settings(&bare, arena, &found, &n, NULL),
		TAUT_OK);
	assert_int_equal(n, 2);
	assert_string_equal(found[1].name, "TAUT_RUN_JOB");
	assert_string_equal(found[1].value, "ranks=7");
	taut_arena_destroy(arena);
}

/* However many it lists, that takes no memory to speak of to find out. */
static void test_too_many_buckets(void **state)
{
	enum { N = 50000 };
	struct taut_arena *arena = taut_arena_create();
	char *change = malloc(2 * N + 16);
	struct taut_decision decision = { .change = change };
	const struct taut_plan plan = { .n_decisions = 1, .decisions = &decision,
		.job = { .n_ranks = 2, .framework = "pytorch" } };
	const struct taut_plan_setting *found;
	struct taut_error err;
	size_t at = 0;
	uint32_t n;

	(void)state;
	assert_non_null(arena);
	assert_non_null(change);
	at += (size_t)sprintf(change, "bucket=1");
	for (int i = 1; i < N; i++, at += 2)
		memcpy(change + at, "+1", 3);
	assert_int_equal(taut_plan_settings(&plan, arena, &found, &n, &err),
		TAUT_EINVAL);
	assert_non_null(strstr(err.message, "a plan has at most 256 sizes, found "
		"50000"));
	free(change);
	taut_arena_destroy(arena);
}

/* A variable that no exec takes is not made; that takes no time to find out. */
static void test_too_many_sizes(void **state)
{
	enum { N = 200000 };
	struct taut_arena *arena = taut_arena_create();
	int64_t *bytes = calloc(N, sizeof *bytes);
	const struct taut_plan plan = { .job = { .n_ranks = 2,
		.n_gradients = N, .gradient_bytes = bytes } };
	const struct taut_plan_setting *found;
	struct taut_error err;
	uint32_t n;

	(void)state;
	assert_non_null(arena);
	assert_non_null(bytes);
	assert_int_equal(taut_plan_settings(&plan, arena, &found, &n, &err),
		TAUT_OK);
	assert_string_equal(found[1].value, "ranks=2 gradients=0x200000");
	for (int i = 0; i < N; i++)
		bytes[i] = 1000000 - i;
	assert_int_equal(taut_plan_settings(&plan, arena, &found, &n, &err),
		TAUT_EINVAL);
	assert_string_equal(err.message, "a plan whose gradients have so many "
		"sizes cannot be told to a job");
	free(bytes);
	taut_arena_destroy(arena);
}

static void test_classes(void **state)
{
	enum taut_numerics found = TAUT_NUMERICS_CLASSES;

	(void)state;
	for (int i = 0; i < TAUT_NUMERICS_CLASSES; i++) {
		const char *name = taut_numerics_name((enum taut_numerics)i);

		assert_true(taut_numerics_find(name, &found));
		assert_int_equal(found, i);
	}
	assert_false(taut_numerics_find("", &found));
	assert_false(taut_numerics_find("Exact", &found));
	assert_string_equal(taut_numerics_name(TAUT_NUMERICS_CLASSES), "");
}

static void test_no_memory(void **state)
{
	static const char *const changes[] = { "workers=2", "bucket=512KiB",
		"compress=fp16,by=taut", "algorithm=ring", OURS, NULL };
	taut_status status = TAUT_ENOMEM;
	long n = 0;

	(void)state;
	for (; status; n++) {
		struct taut_arena *arena = taut_arena_create();
		const struct taut_plan_setting *found;
		struct taut_error err;
		uint32_t count;

		assert_non_null(arena);
		alloc_fail_after(n);
		status = settings("pytorch", changes, arena, &found, &count,
			&err);
		alloc_fail_never();
		if (status)
			assert_int_equal(status, TAUT_ENOMEM);
		taut_arena_destroy(arena);
	}
	assert_true(n > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_pytorch),
		cmocka_unit_test(test_what_any_exchange_has),
		cmocka_unit_test(test_ours),
		cmocka_unit_test(test_ways),
		cmocka_unit_test(test_every_kind),
		cmocka_unit_test(test_not_of_a_job),
		cmocka_unit_test(test_parts_of_predictions),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_tensorflow),
		cmocka_unit_test(test_frameworks),
		cmocka_unit_test(test_contradictions),
		cmocka_unit_test(test_without_one),
		cmocka_unit_test(test_job),
		cmocka_unit_test(test_too_many_buckets),
		cmocka_unit_test(test_too_many_sizes),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
