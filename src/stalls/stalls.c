/* stalls.c - what the ranks of a job measured, together: rates and stalls. */
#include "stalls/stalls.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 1000 }; /* of a phase, that are looked at one by one */

/* --- ranks belong together -------------------------------------------------------------*/

static taut_status contradict(const struct tauti_measured *a, const struct tauti_measured *b,
	const char *what, int64_t of_a, int64_t of_b, struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_EMATCH, -1, "rank-%" PRIu32 ".stalls and "
		"rank-%" PRIu32 ".stalls: expected the same %s, found %" PRId64 " and %"
		PRId64, a->rank, b->rank, what, of_a, of_b);
}

static taut_status check_header(const struct tauti_measured *a,
	const struct tauti_measured *b, struct taut_error *reterr)
{
	const struct {
		const char *what;
		int64_t of_a, of_b;
	} rows[] = {
		{ "number of ranks", a->n_ranks, b->n_ranks },
		{ "workers", a->workers, b->workers },
		{ "depth", a->depth, b->depth },
		{ "batch", a->batch, b->batch },
		{ "items", a->items, b->items },
		{ "unit (1: item)", a->by_item, b->by_item },
		{ "device", a->on_device, b->on_device },
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].of_a != rows[i].of_b)
			return contradict(
				a, b, rows[i].what, rows[i].of_a, rows[i].of_b, reterr);
	if (a->loader != b->loader)
		return taut_error_set(reterr, TAUT_EMATCH, -1, "rank-%" PRIu32
			".stalls and rank-%" PRIu32 ".stalls: expected the same loader, "
			"found %s and %s", a->rank, b->rank, a->loader, b->loader);
	return TAUT_OK;
}

static taut_status check_steps(const struct tauti_measured *a,
	const struct tauti_measured *b, struct taut_error *reterr)
{
	for (size_t i = 0; i < a->phases.count; i++) {
		const struct tauti_measured_phase *of_a = &a->phases.data[i];
		const struct tauti_measured_phase *of_b =
			tauti_measured_find(b, of_a->round, of_a->phase);
		char what[64];

		if (!of_b || of_a->steps == 0 || of_a->steps == of_b->steps)
			continue;
		snprintf(what, sizeof what, "steps of '%s' of round %" PRIu32,
			tauti_measured_phase_name(of_a->phase), of_a->round);
		return contradict(a, b, what, of_a->steps, of_b->steps, reterr);
	}
	return TAUT_OK;
}

static taut_status check_ranks(const struct taut_stalls *stalls, struct taut_error *reterr)
{
	const struct tauti_measured *first = &stalls->ranks[0];
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < stalls->n_ranks && !status; i++) {
		const struct tauti_measured *rank = &stalls->ranks[i];

		if (rank->rank != i)
			return taut_error_set(reterr, TAUT_EMATCH, -1, "rank-%" PRIu32
				".stalls: expected rank %" PRIu32 ", found %" PRIu32, i,
				i, rank->rank);
		status = check_header(first, rank, reterr);
		if (!status)
			status = check_steps(first, rank, reterr);
	}
	return status;
}

/* --- a phase of a round ----------------------------------------------------------------*/

static void or_unknown(double *sum, int64_t value)
{
	*sum = value < 0 || *sum < 0 ? -1 : *sum + (double)value;
}

static void add_rank(struct tauti_stalls_sum *sum, const struct tauti_measured_phase *phase)
{
	double steps = (double)phase->steps;

	sum->steps = steps;
	sum->samples += (double)phase->samples;
	sum->step_ns = fmax(sum->step_ns, (double)phase->wall_ns / steps);
	sum->wait_ns += (double)phase->wait_ns / steps;
	sum->cpu_ns += (double)phase->cpu_ns;
	sum->rchar += (double)phase->rchar;
	or_unknown(&sum->own_cpu_ns, phase->own_cpu_ns);
	or_unknown(&sum->read_bytes, phase->read_bytes);
	or_unknown(&sum->own_faults, phase->own_faults);
	or_unknown(&sum->worker_faults, phase->worker_faults);
}

/* Each rank of a host says what all of them opened. */
static void add_opened(const struct taut_stalls *stalls, uint32_t rank,
	const struct tauti_measured_phase *phase, struct tauti_stalls_sum *sum)
{
	const char *host = stalls->ranks[rank].host;
	double n = 0;

	for (uint32_t i = 0; i < stalls->n_ranks; i++)
		n += !strcmp(stalls->ranks[i].host, host);
	sum->opened += (double)phase->opened / n;
	sum->opened_bytes += (double)phase->opened_bytes / n;
}

/* What of each step is not waiting, where that is less than what is there. */
static void lower(const struct tauti_measured *rank, const struct tauti_measured_phase *row,
	double *least_ns, size_t n_steps)
{
	const struct tauti_measured_step *steps = rank->steps.data + row->first_step;

	for (size_t k = 0; k < n_steps; k++)
		least_ns[k] = fmin(least_ns[k],
			fmax(0, (double)(steps[k].wall_ns - steps[k].wait_ns)));
}

/* Ranks take their steps together, and the one that waited longest is the one that no
 * other was waited for by: what of its step is not waiting is the step itself. */
static double own_ns(const struct taut_stalls *stalls, uint32_t round,
	enum taut_stalls_phase phase, size_t n_steps)
{
	double least_ns[MOST_STEPS], sum_ns = 0;

	if (!n_steps)
		return -1;
	if (n_steps > MOST_STEPS)
		n_steps = MOST_STEPS;
	for (size_t k = 0; k < n_steps; k++)
		least_ns[k] = INFINITY;
	for (uint32_t i = 0; i < stalls->n_ranks; i++)
		lower(&stalls->ranks[i],
			tauti_measured_find(&stalls->ranks[i], round, phase), least_ns,
			n_steps);
	for (size_t k = 0; k < n_steps; k++)
		sum_ns += least_ns[k];
	return sum_ns / (double)n_steps;
}

bool tauti_stalls_sum(const struct taut_stalls *stalls, uint32_t round,
	enum taut_stalls_phase phase, struct tauti_stalls_sum *ret_sum)
{
	struct tauti_stalls_sum sum = { .steps = 0 };
	size_t n_steps = SIZE_MAX;

	for (uint32_t i = 0; i < stalls->n_ranks; i++) {
		const struct tauti_measured_phase *row =
			tauti_measured_find(&stalls->ranks[i], round, phase);

		if (!row)
			return false;
		add_rank(&sum, row);
		add_opened(stalls, i, row, &sum);
		n_steps = row->n_steps < n_steps ? row->n_steps : n_steps;
	}
	sum.wait_ns /= stalls->n_ranks;
	sum.own_ns = own_ns(stalls, round, phase, n_steps);
	*ret_sum = sum;
	return true;
}

/* --- over the rounds -------------------------------------------------------------------*/

/* values has room for all rounds. Returns how many there are. */
static uint32_t collect(const struct taut_stalls *stalls, unsigned phases,
	tauti_stalls_figure of, const void *context, double *values)
{
	uint32_t n = 0;

	for (uint32_t round = 0; round < stalls->n_rounds; round++) {
		struct tauti_stalls_sum sums[TAUT_STALLS_PHASES];
		bool all = true;
		double value;

		for (int i = 0; i < TAUT_STALLS_PHASES && all; i++)
			if (phases >> i & 1)
				all = tauti_stalls_sum(stalls, round,
					(enum taut_stalls_phase)i, &sums[i]);
		value = all ? of(sums, context) : NAN;
		if (!isnan(value))
			values[n++] = value;
	}
	return n;
}

double tauti_stalls_median(const struct taut_stalls *stalls, unsigned phases,
	tauti_stalls_figure of, const void *context, double otherwise)
{
	double values[TAUTI_MEASURED_ROUNDS];
	uint32_t n = collect(stalls, phases, of, context, values);

	return n ? tauti_stalls_middle(values, n) : otherwise;
}

static struct taut_stalls_value interval(const struct taut_stalls *stalls, unsigned phases,
	tauti_stalls_figure of, const void *context, bool are_rates)
{
	double values[TAUTI_MEASURED_ROUNDS];
	uint32_t n = collect(stalls, phases, of, context, values);

	return n ? tauti_stalls_interval(values, n, are_rates) :
		(struct taut_stalls_value){ .value = 0 };
}

/* --- what is read ----------------------------------------------------------------------*/

static double opened_an_item(const struct tauti_stalls_sum *sums, const void *context)
{
	(void)context;
	return sums[TAUT_STALLS_CACHED].opened / sums[TAUT_STALLS_CACHED].samples;
}

static double opened_bytes_an_item(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[TAUT_STALLS_CACHED];

	(void)context;
	return sum->opened > 0 ? sum->opened_bytes / sum->opened : NAN;
}

/* Whatever the ranks got from read and its like; what they send each other comes by it
 * too, but what came from storage is no less. */
static double bytes_an_item(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[TAUT_STALLS_COLD];

	(void)context;
	return sum->read_bytes > 0 ? sum->read_bytes / sum->samples :
		sum->rchar / sum->samples;
}

/* What a window of steps counts is off by what was begun before it and ends behind it. */
bool tauti_stalls_by_file(const struct taut_stalls *stalls)
{
	double opened = tauti_stalls_median(
		stalls, 1 << TAUT_STALLS_CACHED, opened_an_item, NULL, 0);

	return opened > 0.75 && opened < 1.33;
}

double tauti_stalls_item_bytes(const struct taut_stalls *stalls)
{
	if (tauti_stalls_by_file(stalls))
		return tauti_stalls_median(
			stalls, 1 << TAUT_STALLS_CACHED, opened_bytes_an_item, NULL, 0);
	return tauti_stalls_median(stalls, 1 << TAUT_STALLS_COLD, bytes_an_item, NULL, 0);
}

double tauti_stalls_from_storage(
	const struct taut_stalls *stalls, enum taut_stalls_phase phase)
{
	bool by_file = tauti_stalls_by_file(stalls);
	double read = 0, all = 0;

	for (uint32_t round = 0; round < stalls->n_rounds; round++) {
		struct tauti_stalls_sum sum;

		if (!tauti_stalls_sum(stalls, round, phase, &sum))
			continue;
		if (sum.read_bytes < 0)
			return -1;
		read += sum.read_bytes;
		all += by_file ? sum.opened_bytes : fmax(sum.rchar, sum.read_bytes);
	}
	return all > 0 ? fmin(read / all, 1) : -1;
}

/* --- rates and stalls ------------------------------------------------------------------*/

/* context: the phase. */
static double rate(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[*(const int *)context];

	return sum->samples / (sum->steps * sum->step_ns) * 1e9;
}

static double prepare_stall(const struct tauti_stalls_sum *sums, const void *context)
{
	(void)context;
	return (sums[TAUT_STALLS_CACHED].step_ns - sums[TAUT_STALLS_PLACE].step_ns) /
		sums[TAUT_STALLS_COLD].step_ns;
}

static double fetch_stall(const struct tauti_stalls_sum *sums, const void *context)
{
	(void)context;
	return 1 - sums[TAUT_STALLS_CACHED].step_ns / sums[TAUT_STALLS_COLD].step_ns;
}

static double cached_stall(const struct tauti_stalls_sum *sums, const void *context)
{
	(void)context;
	return 1 - sums[TAUT_STALLS_PLACE].step_ns / sums[TAUT_STALLS_CACHED].step_ns;
}

static double in_shares(double value)
{
	return fmin(fmax(value, 0), 1);
}

/* Noise alone makes a step without a loader the slower one. */
static struct taut_stalls_value share(const struct taut_stalls *stalls, unsigned phases,
	tauti_stalls_figure of)
{
	struct taut_stalls_value of_all = interval(stalls, phases, of, NULL, false);

	of_all.value = in_shares(of_all.value);
	of_all.low = in_shares(of_all.low);
	of_all.high = in_shares(of_all.high);
	return of_all;
}

static void fill_stalls(const struct taut_stalls *stalls, struct taut_stalls_result *result)
{
	enum { PLACE = 1 << TAUT_STALLS_PLACE, CACHED = 1 << TAUT_STALLS_CACHED,
		COLD = 1 << TAUT_STALLS_COLD };

	for (int i = 0; i < TAUT_STALLS_PHASES; i++)
		result->rate[i] = interval(stalls, 1u << i, rate, &i, true);
	result->prepare_stall = share(stalls, PLACE | CACHED | COLD, prepare_stall);
	result->fetch_stall = share(stalls, CACHED | COLD, fetch_stall);
	result->cached_stall = share(stalls, PLACE | CACHED, cached_stall);
}

/* --- page faults -----------------------------------------------------------------------*/

/* Of all ranks, which time them beside each other; 0: not known. */
static double fault_ns(const struct taut_stalls *stalls)
{
	double sum = 0;

	for (uint32_t i = 0; i < stalls->n_ranks; i++) {
		if (!stalls->ranks[i].fault_ns)
			return 0;
		sum += (double)stalls->ranks[i].fault_ns / stalls->n_ranks;
	}
	return sum;
}

static double step_faults(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[TAUT_STALLS_PLACE];
	uint32_t n_ranks = *(const uint32_t *)context;

	return sum->own_faults < 0 ? NAN : sum->own_faults / sum->steps / n_ranks;
}

static double step_fault_share(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[TAUT_STALLS_PLACE];

	return sum->own_faults < 0 || sum->cpu_ns <= 0 ? NAN :
		sum->own_faults * *(const double *)context / sum->cpu_ns;
}

static double worker_faults(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[TAUT_STALLS_CACHED];

	(void)context;
	return sum->worker_faults < 0 || sum->own_cpu_ns < 0 ? NAN :
		sum->worker_faults / sum->samples;
}

static double worker_fault_share(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[TAUT_STALLS_CACHED];
	double workers_ns = sum->cpu_ns - sum->own_cpu_ns;

	return sum->worker_faults < 0 || sum->own_cpu_ns < 0 || workers_ns <= 0 ? NAN :
		sum->worker_faults * *(const double *)context / workers_ns;
}

static void fill_faults(const struct taut_stalls *stalls, struct taut_stalls_faults *faults)
{
	enum { PLACE = 1 << TAUT_STALLS_PLACE, CACHED = 1 << TAUT_STALLS_CACHED };

	faults->fault_ns = fault_ns(stalls);
	faults->step = tauti_stalls_median(
		stalls, PLACE, step_faults, &stalls->n_ranks, -1);
	faults->item = tauti_stalls_median(stalls, CACHED, worker_faults, NULL, -1);
	faults->step_share = faults->item_share = -1;
	if (faults->fault_ns <= 0)
		return;
	faults->step_share = fmin(1, tauti_stalls_median(
		stalls, PLACE, step_fault_share, &faults->fault_ns, -1));
	faults->item_share = fmin(1, tauti_stalls_median(
		stalls, CACHED, worker_fault_share, &faults->fault_ns, -1));
}

void taut_stalls_result(
	const struct taut_stalls *stalls, struct taut_stalls_result *ret_result)
{
	const struct tauti_measured *first = &stalls->ranks[0];
	struct taut_stalls_result result = {
		.n_ranks = stalls->n_ranks,
		.n_hosts = stalls->n_hosts,
		.n_workers = first->workers,
		.batch = first->batch,
		.depth = first->depth,
		.n_items = first->items,
		.loader = first->loader,
		.on_device = first->on_device,
		.mean_bytes = tauti_stalls_item_bytes(stalls),
		.spread_bytes = stalls->spread,
		.cold_share = tauti_stalls_from_storage(stalls, TAUT_STALLS_COLD),
		.cached_share = tauti_stalls_from_storage(stalls, TAUT_STALLS_CACHED),
	};

	fill_stalls(stalls, &result);
	fill_faults(stalls, &result.faults);
	*ret_result = result;
}

/* --- life ------------------------------------------------------------------------------*/

static uint32_t count_hosts(const struct taut_stalls *stalls)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < stalls->n_ranks; i++) {
		uint32_t first = 0;

		while (strcmp(stalls->ranks[first].host, stalls->ranks[i].host) != 0)
			first++;
		n += first == i;
	}
	return n;
}

static uint32_t count_rounds(const struct taut_stalls *stalls)
{
	const struct tauti_measured *first = &stalls->ranks[0];
	uint32_t n = 0;

	for (size_t i = 0; i < first->phases.count; i++)
		if (first->phases.data[i].round >= n)
			n = first->phases.data[i].round + 1;
	return n;
}

static bool any_phase(const struct taut_stalls *stalls)
{
	struct tauti_stalls_sum sum;

	for (uint32_t round = 0; round < stalls->n_rounds; round++)
		for (int i = 0; i < TAUT_STALLS_PHASES; i++)
			if (tauti_stalls_sum(stalls, round, (enum taut_stalls_phase)i, &sum))
				return true;
	return false;
}

static taut_status check_any(const struct taut_stalls *stalls, struct taut_error *reterr)
{
	const struct tauti_measured *first = &stalls->ranks[0];

	if (any_phase(stalls))
		return TAUT_OK;
	if (!first->phases.count)
		return taut_error_set(reterr, TAUT_EFORMAT, -1,
			"rank-0.stalls: expected a phase of all ranks, found none");
	return taut_error_set(reterr, TAUT_EFORMAT, -1, "rank-0.stalls: expected a phase "
		"with steps of all ranks, found none up to '%s' of round %" PRIu32,
		tauti_measured_phase_name(
			first->phases.data[first->phases.count - 1].phase),
		first->phases.data[first->phases.count - 1].round);
}

static void find_spread(struct taut_stalls *stalls)
{
	double mean = 0, squares = 0, n = (double)stalls->n_sizes;

	for (size_t i = 0; i < stalls->n_sizes; i++)
		mean += (double)stalls->sizes[i] / n;
	for (size_t i = 0; i < stalls->n_sizes; i++)
		squares += pow((double)stalls->sizes[i] - mean, 2) / n;
	if (mean > 0 && tauti_stalls_by_file(stalls))
		stalls->spread = sqrt(squares) / mean;
}

static taut_status take_sizes(struct taut_stalls *stalls, struct taut_error *reterr)
{
	size_t n = stalls->listed.files.count;

	stalls->sizes = calloc(n ? n : 1, sizeof *stalls->sizes);
	if (!stalls->sizes)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "stalls: out of memory");
	for (size_t i = 0; i < n; i++)
		if (stalls->listed.files.data[i].bytes)
			stalls->sizes[stalls->n_sizes++] =
				stalls->listed.files.data[i].bytes;
	find_spread(stalls);
	return TAUT_OK;
}

taut_status tauti_stalls_make(struct tauti_measured *ranks, uint32_t n,
	struct tauti_listed *listed, struct taut_stalls **ret_stalls,
	struct taut_error *reterr)
{
	struct taut_stalls *stalls = calloc(1, sizeof *stalls);
	taut_status status;

	if (!stalls) {
		tauti_stalls_end_ranks(ranks, n);
		tauti_listed_fini(listed);
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "stalls: out of memory");
	}
	*stalls = (struct taut_stalls){ .ranks = ranks, .n_ranks = n, .listed = *listed };
	status = check_ranks(stalls, reterr);
	stalls->n_hosts = count_hosts(stalls);
	stalls->n_rounds = count_rounds(stalls);
	if (!status)
		status = check_any(stalls, reterr);
	if (!status)
		status = take_sizes(stalls, reterr);
	if (status) {
		taut_stalls_close(stalls);
		return status;
	}
	*ret_stalls = stalls;
	return TAUT_OK;
}

void tauti_stalls_end_ranks(struct tauti_measured *ranks, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		tauti_measured_fini(&ranks[i]);
	free(ranks);
}

void taut_stalls_close(struct taut_stalls *stalls)
{
	if (!stalls)
		return;
	tauti_stalls_end_ranks(stalls->ranks, stalls->n_ranks);
	tauti_listed_fini(&stalls->listed);
	free(stalls->sizes);
	free(stalls);
}

/* --- files -----------------------------------------------------------------------------*/

typedef TAUT_VEC(struct tauti_measured) ranks_vec;

static taut_status read_rank(
	const char *folder, ranks_vec *ranks, struct taut_error *reterr)
{
	struct tauti_measured rank;
	char path[PATH_MAX];
	taut_status status;

	if ((size_t)snprintf(path, sizeof path, "%s/rank-%zu.stalls", folder,
		ranks->count) >= sizeof path)
		return taut_error_set(
			reterr, TAUT_EIO, -1, "%.300s: its path is too long", folder);
	status = tauti_measured_read(path, &rank, reterr);
	if (!status && !taut_vec_push(ranks, rank))
		status = taut_error_set(reterr, TAUT_ENOMEM, -1, "stalls: out of memory");
	if (status)
		tauti_measured_fini(&rank);
	return status;
}

/* As many as the first one says. */
static taut_status read_ranks(
	const char *folder, ranks_vec *ranks, struct taut_error *reterr)
{
	taut_status status = read_rank(folder, ranks, reterr);

	while (!status && ranks->count < ranks->data[0].n_ranks)
		status = read_rank(folder, ranks, reterr);
	return status;
}

taut_status taut_stalls_open(
	const char *folder, struct taut_stalls **ret_stalls, struct taut_error *reterr)
{
	struct tauti_listed listed = { .paths = NULL };
	ranks_vec ranks = { 0 };
	taut_status status = read_ranks(folder, &ranks, reterr);

	if (!status)
		status = tauti_listed_read(folder, &listed, reterr);
	if (status) {
		tauti_listed_fini(&listed);
		tauti_stalls_end_ranks(ranks.data, (uint32_t)ranks.count);
		return status;
	}
	return tauti_stalls_make(
		ranks.data, (uint32_t)ranks.count, &listed, ret_stalls, reterr);
}
