/* cmd_bench.c - taut bench: how fast collectives are here, and which way of each
 * is the fastest. */
#include <string.h>

#include "cli/bench.h"
#include "cli/job.h"
#include "cli/memory.h"
#include "cli/out.h"
#include "cli/term.h"
#include "cli/verbs.h"

struct values {
	const char *sizes, *type, *reduction, *way, *pass, *engine, *meet, *out;
	unsigned ranks, at_once, root, warmup, repeats;
	bool check, in_place, tune, json;
};

static const struct opt options[] = {
	{ "ranks", 0, OPT_NUMBER, offsetof(struct values, ranks), "N",
		"make this many ranks here, whatever started this one (default: "
		"as many as a launcher says, else one per core)", 2,
		BENCH_MOST_RANKS },
	{ "sizes", 0, OPT_TEXT, offsetof(struct values, sizes), "SIZES",
		"bytes of the buffer: FROM:TO:FACTOR, or some with commas "
		"(default: 4:256M:4)", 0, 0 },
	{ "type", 0, OPT_TEXT, offsetof(struct values, type), "TYPE",
		"float32 (default), float64, float16, bfloat16, int8, uint8, "
		"int32, int64 or uint64", 0, 0 },
	{ "reduction", 0, OPT_TEXT, offsetof(struct values, reduction), "NAME",
		"sum (default), product, min, max, bit_and, bit_or or bit_xor",
		0, 0 },
	{ "way", 0, OPT_TEXT, offsetof(struct values, way), "NAME",
		"direct, doubling, halving, ring, tree, hosts or flat (default: "
		"by the measured table)", 0, 0 },
	{ "pass", 0, OPT_TEXT, offsetof(struct values, pass), "BYTES",
		"cut larger buffers into passes of this many bytes (default: by "
		"the table)", 0, 0 },
	{ "at-once", 0, OPT_NUMBER, offsetof(struct values, at_once), "N",
		"so many passes under way (default: by the table)", 1, 64 },
	{ "root", 0, OPT_NUMBER, offsetof(struct values, root), "RANK",
		"of a broadcast (default: 0)", 0, BENCH_MOST_RANKS - 1 },
	{ "engine", 0, OPT_TEXT, offsetof(struct values, engine), "NAME",
		"what carries messages: auto (default), shm, tcp, ucx, or inproc, "
		"where ranks are threads", 0, 0 },
	{ "meet", 0, OPT_TEXT, offsetof(struct values, meet), "ADDRESS",
		"HOST:PORT at which rank 0 listens, under a launcher that does "
		"not say; the secret is in $TAUT_SECRET", 0, 0 },
	{ "warmup", 0, OPT_NUMBER, offsetof(struct values, warmup), "N",
		"calls before those that count (default: by their time)", 1,
		10000 },
	{ "repeats", 0, OPT_NUMBER, offsetof(struct values, repeats), "N",
		"samples of each size (default: by their time, 5 to 1000)", 1,
		1000 },
	{ "in-place", 0, OPT_FLAG, offsetof(struct values, in_place), NULL,
		"input and output are one buffer, as gradients are", 0, 0 },
	{ "check", 0, OPT_FLAG, offsetof(struct values, check), NULL,
		"compare results with what they must be", 0, 0 },
	{ "tune", 0, OPT_FLAG, offsetof(struct values, tune), NULL,
		"measure every way, pass and number at once, and write the table "
		"of the best, for $TAUT_COLL_TABLE", 0, 0 },
	{ "out", 'o', OPT_TEXT, offsetof(struct values, out), "FILE",
		"write to FILE (default: standard output)", 0, 0 },
	{ "json", 0, OPT_FLAG, offsetof(struct values, json), NULL,
		"print the result as JSON", 0, 0 },
};

/* --- words to a plan ------------------------------------------------------------------*/

static const char *verb_name(unsigned i)
{
	return taut_coll_verb_name((enum taut_coll_verb)i);
}

static const char *type_name(unsigned i)
{
	return taut_type_name((enum taut_type)i);
}

static const char *reduction_name(unsigned i)
{
	return taut_reduction_name((enum taut_reduction)i);
}

static const char *way_name(unsigned i)
{
	return taut_coll_way_name((enum taut_coll_way)i);
}

static const char *engine_name(unsigned i)
{
	static const char *const names[] = { "auto", "shm", "tcp", "ucx", "inproc" };

	return names[i];
}

/* Each name that was given, as its number. */
static bool read_names(const struct verb_call *call, struct bench_plan *plan,
	struct taut_error *err)
{
	const struct values *v = call->values;
	const struct {
		const char *option, *text;
		unsigned n;
		const char *(*name)(unsigned i);
	} rows[] = {
		{ "a collective", call->operands[0], TAUT_VERBS, verb_name },
		{ "--type", v->type, TAUT_TYPES, type_name },
		{ "--reduction", v->reduction, TAUT_REDUCTIONS,
			reduction_name },
		{ "--way", v->way, TAUT_WAYS, way_name },
		{ "--engine", v->engine, 5, engine_name },
	};
	unsigned found[5] = { 0, TAUT_FLOAT32, TAUT_SUM, TAUT_WAY_AUTO, 0 };

	for (size_t i = 0; i < 5; i++)
		if (rows[i].text && !bench_read_name(rows[i].option,
				rows[i].text, rows[i].n, rows[i].name,
				&found[i], err))
			return false;
	plan->verb = (enum taut_coll_verb)found[0];
	plan->type = (enum taut_type)found[1];
	plan->reduction = (enum taut_reduction)found[2];
	plan->way = (enum taut_coll_way)found[3];
	plan->engine = v->engine ? engine_name(found[4]) : NULL;
	return true;
}

static bool fits(const struct bench_plan *plan,
	const struct bench_place *place, struct taut_error *err)
{
	if (!taut_reduces(plan->type, plan->reduction))
		taut_error_set(err, TAUT_EINVAL, -1, "--reduction: no %s of "
			"%s", taut_reduction_name(plan->reduction),
			taut_type_name(plan->type));
	else if (plan->way && !taut_coll_has(plan->verb, plan->way))
		taut_error_set(err, TAUT_EINVAL, -1, "--way: no %s by %s",
			taut_coll_verb_name(plan->verb),
			taut_coll_way_name(plan->way));
	else if (plan->root >= place->n_ranks)
		taut_error_set(err, TAUT_EINVAL, -1, "--root: expected a rank "
			"below %u, found %u", place->n_ranks, plan->root);
	else if (place->launched && plan->engine &&
		!strcmp(plan->engine, "inproc"))
		taut_error_set(err, TAUT_EINVAL, -1, "--engine inproc: its "
			"ranks are threads, which no launcher starts");
	else
		return true;
	return false;
}

static bool make_plan(const struct verb_call *call, struct bench_plan *plan,
	struct bench_place *place, struct taut_error *err)
{
	const struct values *v = call->values;

	*plan = (struct bench_plan){ .at_once = v->at_once, .root = v->root,
		.warmup = v->warmup, .repeats = v->repeats,
		.check = v->check, .in_place = v->in_place, .tune = v->tune };
	if (call->n_operands != 1) {
		taut_error_set(err, TAUT_EINVAL, -1, "expected one of "
			"allreduce, reduce-scatter, allgather and broadcast");
		return false;
	}
	return read_names(call, plan, err) &&
		bench_read_sizes(v->sizes ? v->sizes : "4:256M:4", plan,
			err) &&
		(!v->pass || bench_read_bytes(
			"pass", v->pass, &plan->pass_bytes, err)) &&
		bench_find_place(v->ranks, v->meet, place, err) &&
		fits(plan, place, err);
}

/* --- the verb ---------------------------------------------------------------------------*/

struct output {
	const struct bench_plan *plan;
	const struct bench_result *result;
	bool json;
};

static taut_status write_result(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *output = context;

	if (output->json)
		return bench_json(output->plan, output->result, out, err);
	if (output->plan->tune)
		return bench_write_table(output->result, out, err);
	return bench_text(output->plan, output->result, out, err);
}

static uint64_t sum_of_wrong(const struct bench_result *result)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < result->n_rows; i++)
		wrong += result->rows[i].wrong;
	return wrong;
}

static int run_plan(const struct values *values,
	const struct bench_plan *plan, const struct bench_place *place,
	struct bench_result *result)
{
	struct output output = { plan, result, values->json };
	struct taut_error err = { .message = "" };
	uint64_t wrong;
	int status = EXIT_DONE;

	if (!place->rank) /* which writes */
		status = job_status(out_check(values->out, &err), &err);
	if (!status)
		status = job_status(bench_find_room(
			plan, place, memory_left(""), &err), &err);
	if (!status)
		status = job_status(
			bench_launch(plan, place, result, &err), &err);
	if (status || place->rank)
		return status;
	status = job_status(out_write(values->out, NULL, write_result,
		&output, &err), &err);
	wrong = sum_of_wrong(result);
	if (status || !wrong)
		return status;
	term_complain("bench: %llu elements are wrong",
		(unsigned long long)wrong);
	return EXIT_FAULT;
}

static int run(const struct verb_call *call)
{
	struct bench_result *result = taut_arena_calloc(
		call->arena, 1, sizeof *result);
	struct taut_error err = { .message = "" };
	struct bench_place place;
	struct bench_plan plan;

	if (!result)
		return job_status(taut_error_set(&err, TAUT_ENOMEM, -1,
			"out of memory"), &err);
	if (!make_plan(call, &plan, &place, &err)) {
		term_complain("bench: %s", err.message);
		term_complain("'taut bench --help' lists what it takes");
		return EXIT_USAGE;
	}
	return run_plan(call->values, &plan, &place, result);
}

const struct verb verb_bench = {
	.name = "bench",
	.summary = "how fast collectives are here, and the fastest way of each",
	.operands = "COLLECTIVE",
	.about = "Measures allreduce, reduce-scatter, allgather or broadcast by "
		"size, as taut carries them out, in the table of nccl-tests. It "
		"makes its ranks itself, each on a core of its own; under "
		"torchrun, mpirun or srun, or with TAUT_RANK, TAUT_RANKS and "
		"TAUT_MEET set, it is one rank of many.",
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.run = run,
	.no_operands = true,
};
