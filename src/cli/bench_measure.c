/* bench_measure.c - see bench.h: one rank's measurements.
 *
 * A sample is a barrier and then `batch` calls, one after another; what counts is
 * the rank that took longest. */
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "cli/bench.h"

enum {
	BATCH_NS = 30000,         /* so long that the clock's reading is nothing */
	MOST_BATCH = 64,
	WARM_NS = 2000000,
	MOST_WARM = 200,
	MOST_SAMPLES = 1000,
	LEAST_SAMPLES = 5,
	SIZE_NS = 300000000,      /* for one size */
};

void bench_tell(const struct bench_rank *rank, const char *what,
	uint64_t done, uint64_t total)
{
	if (rank->progress.update)
		rank->progress.update(
			rank->progress.state, what, done, total);
}

taut_status bench_agree(struct bench_rank *rank, int64_t *values, size_t n,
	enum taut_reduction reduction, struct taut_error *err)
{
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
		.type = TAUT_INT64, .output = values, .count = n,
		.reduction = reduction };

	return taut_comm_run(rank->comm, &call, err);
}

struct taut_coll_call bench_call(const struct bench_rank *rank, uint64_t bytes)
{
	const struct bench_plan *plan = rank->plan;
	uint64_t count = bytes / taut_type_bytes(plan->type);

	return (struct taut_coll_call){ .verb = plan->verb, .type = plan->type,
		.input = rank->input, .output = rank->output,
		.count = count ? count : 1, .reduction = plan->reduction,
		.root = plan->root, .way = plan->way,
		.pass_bytes = plan->pass_bytes,
		.passes_at_once = plan->at_once };
}

/* --- time ------------------------------------------------------------------------------*/

/* Nanoseconds of n calls on this rank. */
static taut_status time_calls(struct bench_rank *rank,
	const struct taut_coll_call *call, uint32_t n, int64_t *ret_ns,
	struct taut_error *err)
{
	taut_status status = taut_comm_barrier(rank->comm, err);
	int64_t begin = tauti_now_ns();

	for (uint32_t i = 0; !status && i < n; i++)
		status = taut_comm_run(rank->comm, call, err);
	*ret_ns = tauti_now_ns() - begin;
	return status;
}

static int64_t within(int64_t least, int64_t value, int64_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* As many calls as were asked for, or until nothing is done for the first time any
 * more. Returns what all ranks know one call to take. */
static taut_status warm_up(struct bench_rank *rank,
	const struct taut_coll_call *call, int64_t *ret_one_ns,
	struct taut_error *err)
{
	unsigned warmup = rank->plan->warmup;
	int64_t ns[1];
	taut_status status = TAUT_OK;
	uint32_t n = warmup ? warmup : 1;

	for (int turn = 0; !status && turn < 3; turn++) {
		status = time_calls(rank, call, n, ns, err);
		if (!status)
			status = bench_agree(rank, ns, 1, TAUT_MAX, err);
		if (status)
			return status;
		*ret_one_ns = within(1, ns[0] / n, INT64_MAX);
		if (warmup || *ret_one_ns > WARM_NS)
			break;
		n = (uint32_t)within(1, WARM_NS / 2 / *ret_one_ns, MOST_WARM);
	}
	return status;
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void fill_times(struct bench_row *row, int64_t *ns)
{
	uint32_t n = row->samples;
	double batch = row->batch;

	qsort(ns, n, sizeof *ns, by_size);
	row->least_ns = (double)ns[0] / batch;
	row->median_ns = ((double)ns[(n - 1) / 2] + (double)ns[n / 2]) / 2 /
		batch;
	row->p90_ns = (double)ns[(9 * n + 9) / 10 - 1] / batch;
}

/* Samples from row->samples up to n. */
static taut_status take_samples(struct bench_rank *rank,
	const struct taut_coll_call *call, int64_t *ns, uint32_t n,
	struct bench_row *row, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (; !status && row->samples < n; row->samples++)
		status = time_calls(rank, call, row->batch, &ns[row->samples],
			err);
	return status;
}

/* How many samples there are to be, by what the first ones took. */
static taut_status plan_samples(struct bench_rank *rank, const int64_t *ns,
	int64_t budget_ns, const struct bench_row *row, uint32_t *ret_n,
	struct taut_error *err)
{
	int64_t spent_ns = 0;
	taut_status status;

	for (uint32_t i = 0; i < row->samples; i++)
		spent_ns += ns[i];
	status = bench_agree(rank, &spent_ns, 1, TAUT_MAX, err);
	spent_ns = within(1, spent_ns, INT64_MAX);
	*ret_n = (uint32_t)within(row->samples,
		(int64_t)((double)budget_ns / (double)spent_ns * row->samples),
		MOST_SAMPLES);
	return status;
}

taut_status bench_time(struct bench_rank *rank,
	const struct taut_coll_call *call, int64_t budget_ns, uint32_t least,
	struct bench_row *row, struct taut_error *err)
{
	unsigned repeats = rank->plan->repeats;
	int64_t one_ns = 1, ns[MOST_SAMPLES];
	uint32_t n = 0;
	taut_status status = warm_up(rank, call, &one_ns, err);

	if (status)
		return status;
	row->batch = (uint32_t)within(1, BATCH_NS / one_ns, MOST_BATCH);
	row->samples = 0;
	status = take_samples(rank, call, ns,
		repeats ? (uint32_t)within(1, repeats, MOST_SAMPLES) : least,
		row, err);
	if (!status && !repeats)
		status = plan_samples(rank, ns, budget_ns, row, &n, err);
	if (!status && !repeats)
		status = take_samples(rank, call, ns, n, row, err);
	if (!status)
		status = bench_agree(rank, ns, row->samples, TAUT_MAX, err);
	if (!status)
		fill_times(row, ns);
	return status;
}

/* --- all sizes ---------------------------------------------------------------------------*/

taut_status bench_check(struct bench_rank *rank,
	const struct taut_coll_call *call, struct bench_row *row,
	struct taut_error *err)
{
	size_t bytes = call->count * taut_type_bytes(call->type);
	taut_status status;
	int64_t wrong;

	if (rank->input)
		memset(rank->output, 0xa5, bytes);
	bench_fill(rank, call->count, rank->input ? rank->input :
		rank->output);
	status = taut_comm_run(rank->comm, call, err);
	if (status)
		return status;
	wrong = (int64_t)bench_count_wrong(rank, call->count);
	status = bench_agree(rank, &wrong, 1, TAUT_SUM, err);
	row->wrong = (uint64_t)wrong;
	memset(rank->output, 0, bytes);
	return status;
}

/* What the call gets, where it does not say. */
static struct taut_coll_choice choice_of(
	const struct bench_rank *rank, const struct taut_coll_call *call)
{
	struct taut_coll_choice choice = taut_comm_choice(rank->comm,
		call->verb, call->count * taut_type_bytes(call->type));

	if (call->way)
		choice.way = call->way;
	if (call->pass_bytes)
		choice.pass_bytes = call->pass_bytes;
	if (call->passes_at_once)
		choice.passes_at_once = call->passes_at_once;
	return choice;
}

static taut_status measure_size(struct bench_rank *rank, uint64_t bytes,
	struct bench_row *row, struct taut_error *err)
{
	struct taut_coll_call call = bench_call(rank, bytes);
	taut_status status;

	*row = (struct bench_row){ .count = call.count,
		.bytes = call.count * taut_type_bytes(call.type),
		.choice = choice_of(rank, &call) };
	status = bench_time(rank, &call, SIZE_NS, LEAST_SAMPLES, row, err);
	if (!status && rank->plan->check)
		status = bench_check(rank, &call, row, err);
	return status;
}

static taut_status measure_all(struct bench_rank *rank,
	struct bench_result *result, struct taut_error *err)
{
	const struct bench_plan *plan = rank->plan;
	struct bench_row row;
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < plan->n_sizes; i++) {
		bench_tell(rank, taut_coll_verb_name(plan->verb), i,
			plan->n_sizes);
		status = measure_size(rank, plan->sizes[i], &row, err);
		if (!status && result)
			result->rows[result->n_rows++] = row;
	}
	return status;
}

/* --- one rank ------------------------------------------------------------------------------*/

/* Aligned to pages, and every page of it there. NULL: no memory. */
static void *touched(size_t bytes)
{
	size_t page = 4096;
	void *memory = aligned_alloc(page, (bytes + page) / page * page);

	if (memory)
		memset(memory, 0, bytes);
	return memory;
}

static taut_status make_buffers(
	struct bench_rank *rank, size_t bytes, struct taut_error *err)
{
	rank->output = touched(bytes);
	rank->input = rank->plan->in_place ? NULL : touched(bytes);
	if (rank->output && (rank->input || rank->plan->in_place))
		return TAUT_OK;
	return taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory for buffers of %zu bytes", bytes);
}

taut_status bench_rank_run(struct bench_rank *rank,
	struct bench_result *result, struct taut_error *err)
{
	const struct bench_plan *plan = rank->plan;
	struct taut_coll_choice choice;
	taut_status status;

	rank->rank = taut_comm_rank(rank->comm);
	rank->n_ranks = taut_comm_size(rank->comm);
	choice = taut_comm_choice(rank->comm, plan->verb, 1);
	if (result) {
		snprintf(result->engine, sizeof result->engine, "%s",
			taut_comm_engine(rank->comm));
		result->n_ranks = rank->n_ranks;
		result->n_hosts = choice.n_hosts;
	}
	status = make_buffers(rank, plan->sizes[plan->n_sizes - 1] + 8, err);
	if (!status)
		status = plan->tune ? bench_tune(rank, result, err) :
			measure_all(rank, result, err);
	free(rank->input);
	free(rank->output);
	return status;
}
