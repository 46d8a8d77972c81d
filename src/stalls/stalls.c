/* stalls.c - what the ranks of a job measured, together: rates and stalls. */
#include "stalls/stalls.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_STEPS = 1000 }; /* of a phase, that are looked at one by one */

/* --- ranks belong together -------------------------------------------------------------*/

enum { NAME_BYTES = 64 };

/* The file of stalls->ranks[i]. */
static const char *name_of(
	const struct taut_stalls *stalls, uint32_t i, char name[NAME_BYTES])
{
	uint32_t run = i / stalls->n_ranks, rank = stalls->ranks[i].rank;

	if (run)
		snprintf(name, NAME_BYTES, "run-%" PRIu32 "/rank-%" PRIu32 ".stalls",
			run + 1, rank);
	else
		snprintf(name, NAME_BYTES, "rank-%" PRIu32 ".stalls", rank);
	return name;
}

/* a and b are numbers of stalls->ranks. */
static taut_status contradict(const struct taut_stalls *stalls, uint32_t a, uint32_t b,
	const char *what, int64_t of_a, int64_t of_b, struct taut_error *reterr)
{
	char name_a[NAME_BYTES], name_b[NAME_BYTES];

	return taut_error_set(reterr, TAUT_EMATCH, -1,
		"%s and %s: expected the same %s, found %" PRId64 " and %" PRId64,
		name_of(stalls, a, name_a), name_of(stalls, b, name_b), what, of_a, of_b);
}

/* As the first. */
static taut_status check_header(
	const struct taut_stalls *stalls, uint32_t i, struct taut_error *reterr)
{
	const struct tauti_measured *a = &stalls->ranks[0], *b = &stalls->ranks[i];
	char name_a[NAME_BYTES], name_b[NAME_BYTES];
	const struct {
		const char *what;
		int64_t of_a, of_b;
	} rows[] = {
		{ "number of ranks", a->n_ranks, b->n_ranks },
		{ "workers", a->workers, b->workers },
		{ "depth", a->depth, b->depth },
		{ "unit (1: item)", a->by_item, b->by_item },
		{ "device", a->on_device, b->on_device },
	};

	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
		if (rows[k].of_a != rows[k].of_b)
			return contradict(stalls, 0, i, rows[k].what, rows[k].of_a,
				rows[k].of_b, reterr);
	if (a->loader == b->loader)
		return TAUT_OK;
	return taut_error_set(reterr, TAUT_EMATCH, -1,
		"%s and %s: expected the same loader, found %s and %s",
		name_of(stalls, 0, name_a), name_of(stalls, i, name_b), a->loader,
		b->loader);
}

/* As the first of its run. */
static taut_status check_steps(
	const struct taut_stalls *stalls, uint32_t i, struct taut_error *reterr)
{
	uint32_t first = i - i % stalls->n_ranks;
	const struct tauti_measured *a = &stalls->ranks[first], *b = &stalls->ranks[i];

	for (size_t k = 0; k < a->phases.count; k++) {
		const struct tauti_measured_phase *of_a = &a->phases.data[k];
		const struct tauti_measured_phase *of_b =
			tauti_measured_find(b, of_a->round, of_a->phase);
		char what[64];

		if (!of_b || of_a->steps == 0 || of_a->steps == of_b->steps)
			continue;
		snprintf(what, sizeof what, "steps of '%s' of round %" PRIu32,
			tauti_measured_phase_name(of_a->phase), of_a->round);
		return contradict(
			stalls, first, i, what, of_a->steps, of_b->steps, reterr);
	}
	return TAUT_OK;
}

/* Each once, and in each run the same. */
static taut_status check_number(
	const struct taut_stalls *stalls, uint32_t i, struct taut_error *reterr)
{
	uint32_t found = stalls->ranks[i].rank, n = stalls->n_ranks;
	char name[NAME_BYTES];

	if (i >= n ? found == stalls->ranks[i % n].rank :
		!i || found > stalls->ranks[i - 1].rank)
		return TAUT_OK;
	return taut_error_set(reterr, TAUT_EMATCH, -1,
		"%s: expected the ranks of the first run, each once",
		name_of(stalls, i, name));
}

static taut_status check_ranks(const struct taut_stalls *stalls, struct taut_error *reterr)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < stalls->n_ranks * stalls->n_runs && !status; i++) {
		status = check_number(stalls, i, reterr);
		if (!status)
			status = check_header(stalls, i, reterr);
		if (!status)
			status = check_steps(stalls, i, reterr);
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
	sum->others += (double)phase->others;
	or_unknown(&sum->own_cpu_ns, phase->own_cpu_ns);
	or_unknown(&sum->read_bytes, phase->read_bytes);
	or_unknown(&sum->own_faults, phase->own_faults);
	or_unknown(&sum->worker_faults, phase->worker_faults);
}

/* Of n ranks of a run: each of a host says what all of them opened. */
static void add_opened(const struct tauti_measured *ranks, uint32_t n_ranks,
	const char *host, const struct tauti_measured_phase *phase,
	struct tauti_stalls_sum *sum)
{
	double n = 0;

	for (uint32_t i = 0; i < n_ranks; i++)
		n += !strcmp(ranks[i].host, host);
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
static double own_ns(const struct tauti_measured *ranks, uint32_t n_ranks, uint32_t round,
	enum taut_stalls_phase phase, size_t n_steps)
{
	double least_ns[MOST_STEPS], sum_ns = 0;

	if (!n_steps)
		return -1;
	if (n_steps > MOST_STEPS)
		n_steps = MOST_STEPS;
	for (size_t k = 0; k < n_steps; k++)
		least_ns[k] = INFINITY;
	for (uint32_t i = 0; i < n_ranks; i++)
		lower(&ranks[i], tauti_measured_find(&ranks[i], round, phase), least_ns,
			n_steps);
	for (size_t k = 0; k < n_steps; k++)
		sum_ns += least_ns[k];
	return sum_ns / (double)n_steps;
}

bool tauti_stalls_sum(const struct taut_stalls *stalls, uint32_t round,
	enum taut_stalls_phase phase, struct tauti_stalls_sum *ret_sum)
{
	uint32_t run = round / stalls->n_rounds, n = stalls->n_ranks;
	const struct tauti_measured *ranks = stalls->ranks + (size_t)run * n;
	struct tauti_stalls_sum sum = { .steps = 0 };
	size_t n_steps = SIZE_MAX;

	round %= stalls->n_rounds;
	for (uint32_t i = 0; i < n; i++) {
		const struct tauti_measured_phase *row =
			tauti_measured_find(&ranks[i], round, phase);

		if (!row)
			return false;
		add_rank(&sum, row);
		add_opened(ranks, n, ranks[i].host, row, &sum);
		n_steps = row->n_steps < n_steps ? row->n_steps : n_steps;
	}
	sum.wait_ns /= n;
	sum.own_ns = own_ns(ranks, n, round, phase, n_steps);
	*ret_sum = sum;
	return true;
}

/* --- over the rounds -------------------------------------------------------------------*/

/* Of the rounds of a run; values has room for them. Returns how many there are. */
static uint32_t collect(const struct taut_stalls *stalls, uint32_t run, unsigned phases,
	tauti_stalls_figure of, const void *context, double *values)
{
	uint32_t n = 0, first = run * stalls->n_rounds;

	for (uint32_t round = first; round < first + stalls->n_rounds; round++) {
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

/* The median of each run that has it; values has room for all runs. Returns how many, and
 * how many rounds are behind them. */
static uint32_t collect_runs(const struct taut_stalls *stalls, unsigned phases,
	tauti_stalls_figure of, const void *context, double *values, uint32_t *ret_rounds)
{
	uint32_t n = 0, n_rounds = 0;

	for (uint32_t run = 0; run < stalls->n_runs; run++) {
		double of_rounds[TAUTI_MEASURED_ROUNDS];
		uint32_t found = collect(stalls, run, phases, of, context, of_rounds);

		if (found)
			values[n++] = tauti_stalls_middle(of_rounds, found);
		n_rounds += found;
	}
	*ret_rounds = n_rounds;
	return n;
}

double tauti_stalls_usual(const struct taut_stalls *stalls, unsigned phases,
	tauti_stalls_figure of, const void *context, double otherwise)
{
	double values[TAUTI_MEASURED_RUNS], mean = 0;
	uint32_t n_rounds, n = collect_runs(stalls, phases, of, context, values, &n_rounds);

	for (uint32_t i = 0; i < n; i++)
		mean += values[i] / n;
	return n ? mean : otherwise;
}

/* Rounds of one process are alike in what differs from one process to the next: where there
 * were several, the interval is over them. */
static struct taut_stalls_value interval(const struct taut_stalls *stalls, unsigned phases,
	tauti_stalls_figure of, const void *context, bool are_rates)
{
	double values[TAUTI_MEASURED_ROUNDS];
	struct taut_stalls_value found = { .value = 0 };
	uint32_t n, n_rounds = 0;

	if (stalls->n_runs > 1) {
		n = collect_runs(stalls, phases, of, context, values, &n_rounds);
		if (n)
			found = tauti_stalls_interval_of_runs(values, n, are_rates);
		n_rounds = n > 1 ? n_rounds : n; /* one run says nothing of others */
	} else {
		n_rounds = collect(stalls, 0, phases, of, context, values);
		if (n_rounds)
			found = tauti_stalls_interval(values, n_rounds, are_rates);
	}
	found.n_rounds = n_rounds;
	return found;
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
	double opened = tauti_stalls_usual(
		stalls, 1 << TAUT_STALLS_CACHED, opened_an_item, NULL, 0);

	return opened > 0.75 && opened < 1.33;
}

double tauti_stalls_item_bytes(const struct taut_stalls *stalls)
{
	if (tauti_stalls_by_file(stalls))
		return tauti_stalls_usual(
			stalls, 1 << TAUT_STALLS_CACHED, opened_bytes_an_item, NULL, 0);
	return tauti_stalls_usual(stalls, 1 << TAUT_STALLS_COLD, bytes_an_item, NULL, 0);
}

double tauti_stalls_from_storage(
	const struct taut_stalls *stalls, enum taut_stalls_phase phase)
{
	bool by_file = tauti_stalls_by_file(stalls);
	double read = 0, all = 0;

	for (uint32_t round = 0; round < stalls->n_rounds * stalls->n_runs; round++) {
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

/* --- what ranks need not have in common --------------------------------------------------*/

uint32_t tauti_stalls_batch(const struct taut_stalls *stalls)
{
	uint32_t n = stalls->n_ranks * stalls->n_runs;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += stalls->ranks[i].batch;
	return (uint32_t)((sum + n / 2) / n);
}

/* All ranks say what they take in an epoch. */
static bool have_epochs(const struct taut_stalls *stalls)
{
	for (uint32_t i = 0; i < stalls->n_ranks * stalls->n_runs; i++)
		if (!stalls->ranks[i].epoch)
			return false;
	return true;
}

int64_t tauti_stalls_items(const struct taut_stalls *stalls)
{
	uint32_t n = stalls->n_ranks * stalls->n_runs;
	int64_t sum = 0;

	if (have_epochs(stalls)) {
		for (uint32_t i = 0; i < n; i++)
			sum += stalls->ranks[i].epoch;
		return sum / stalls->n_runs;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (stalls->ranks[i].items < 0)
			return -1;
		sum += stalls->ranks[i].items;
	}
	return (sum + n / 2) / n;
}

/* Of ranks in the same run. */
static bool are_unlike(const struct taut_stalls *stalls)
{
	const struct tauti_measured *ranks = stalls->ranks;
	bool have = have_epochs(stalls);

	for (uint32_t i = 1; i < stalls->n_ranks; i++)
		if (ranks[i].batch != ranks[0].batch ||
			(!have && ranks[i].items != ranks[0].items))
			return true;
	return false;
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
	uint32_t n = stalls->n_ranks * stalls->n_runs;
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!stalls->ranks[i].fault_ns)
			return 0;
		sum += (double)stalls->ranks[i].fault_ns / n;
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
	faults->step = tauti_stalls_usual(
		stalls, PLACE, step_faults, &stalls->n_ranks, -1);
	faults->item = tauti_stalls_usual(stalls, CACHED, worker_faults, NULL, -1);
	faults->step_share = faults->item_share = -1;
	if (faults->fault_ns <= 0)
		return;
	faults->step_share = fmin(1, tauti_stalls_usual(
		stalls, PLACE, step_fault_share, &faults->fault_ns, -1));
	faults->item_share = fmin(1, tauti_stalls_usual(
		stalls, CACHED, worker_fault_share, &faults->fault_ns, -1));
}

/* Of all loaders but the one that was taken, in place of which batches are given. */
static double others_a_step(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[TAUT_STALLS_PLACE];

	return sum->others / sum->steps / *(const uint32_t *)context;
}

void taut_stalls_result(
	const struct taut_stalls *stalls, struct taut_stalls_result *ret_result)
{
	const struct tauti_measured *first = &stalls->ranks[0];
	struct taut_stalls_result result = {
		.n_ranks = stalls->n_ranks,
		.n_without = first->n_ranks > stalls->n_ranks ?
			first->n_ranks - stalls->n_ranks : 0,
		.n_hosts = stalls->n_hosts,
		.n_runs = stalls->n_runs,
		.n_workers = first->workers,
		.are_unlike = are_unlike(stalls),
		.batch = tauti_stalls_batch(stalls),
		.depth = first->depth,
		.n_items = tauti_stalls_items(stalls),
		.others = tauti_stalls_usual(stalls, 1 << TAUT_STALLS_PLACE,
			others_a_step, &stalls->n_ranks, 0),
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

/* Of the run that has most; at least 1. */
static uint32_t count_rounds(const struct taut_stalls *stalls)
{
	uint32_t n = 1;

	for (uint32_t run = 0; run < stalls->n_runs; run++) {
		const struct tauti_measured *first =
			&stalls->ranks[(size_t)run * stalls->n_ranks];

		for (size_t i = 0; i < first->phases.count; i++)
			if (first->phases.data[i].round >= n)
				n = first->phases.data[i].round + 1;
	}
	return n;
}

static bool any_phase(const struct taut_stalls *stalls)
{
	struct tauti_stalls_sum sum;

	for (uint32_t round = 0; round < stalls->n_rounds * stalls->n_runs; round++)
		for (int i = 0; i < TAUT_STALLS_PHASES; i++)
			if (tauti_stalls_sum(stalls, round, (enum taut_stalls_phase)i, &sum))
				return true;
	return false;
}

static taut_status check_any(const struct taut_stalls *stalls, struct taut_error *reterr)
{
	const struct tauti_measured *first = &stalls->ranks[0];
	char name[NAME_BYTES];

	if (any_phase(stalls))
		return TAUT_OK;
	if (!first->phases.count)
		return taut_error_set(reterr, TAUT_EFORMAT, -1,
			"%s: expected a phase of all ranks, found none",
			name_of(stalls, 0, name));
	return taut_error_set(reterr, TAUT_EFORMAT, -1, "%s: expected a phase "
		"with steps of all ranks, found none up to '%s' of round %" PRIu32,
		name_of(stalls, 0, name), tauti_measured_phase_name(
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

/* Of items, not of the models and libraries that a job opens before it loads any. */
static taut_status take_sizes(struct taut_stalls *stalls, struct taut_error *reterr)
{
	size_t n;

	tauti_listed_keep_loaded(&stalls->listed);
	n = stalls->listed.files.count;
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

taut_status tauti_stalls_make(struct tauti_measured *ranks, uint32_t n_ranks,
	uint32_t n_runs, struct tauti_listed *listed, struct taut_stalls **ret_stalls,
	struct taut_error *reterr)
{
	struct taut_stalls *stalls = calloc(1, sizeof *stalls);
	taut_status status;

	if (!stalls) {
		tauti_stalls_end_ranks(ranks, (size_t)n_ranks * n_runs);
		tauti_listed_fini(listed);
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "stalls: out of memory");
	}
	*stalls = (struct taut_stalls){ .ranks = ranks, .n_ranks = n_ranks,
		.n_runs = n_runs, .listed = *listed };
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

void tauti_stalls_end_ranks(struct tauti_measured *ranks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		tauti_measured_fini(&ranks[i]);
	free(ranks);
}

void taut_stalls_close(struct taut_stalls *stalls)
{
	if (!stalls)
		return;
	tauti_stalls_end_ranks(stalls->ranks, (size_t)stalls->n_ranks * stalls->n_runs);
	tauti_listed_fini(&stalls->listed);
	free(stalls->sizes);
	free(stalls);
}

/* --- files -----------------------------------------------------------------------------*/

typedef TAUT_VEC(struct tauti_measured) ranks_vec;

static taut_status read_rank(const char *folder, uint32_t number, ranks_vec *ranks,
	struct taut_error *reterr)
{
	struct tauti_measured rank;
	char path[PATH_MAX];
	taut_status status;

	if ((size_t)snprintf(path, sizeof path, "%s/rank-%" PRIu32 ".stalls", folder,
		number) >= sizeof path)
		return taut_error_set(
			reterr, TAUT_EIO, -1, "%.300s: its path is too long", folder);
	status = tauti_measured_read(path, &rank, reterr);
	if (!status && rank.rank != number)
		status = taut_error_set(reterr, TAUT_EMATCH, -1, "%.300s: expected rank %"
			PRIu32 ", found %" PRIu32, path, number, rank.rank);
	if (!status && !taut_vec_push(ranks, rank))
		status = taut_error_set(reterr, TAUT_ENOMEM, -1, "stalls: out of memory");
	if (status)
		tauti_measured_fini(&rank);
	return status;
}

typedef TAUT_VEC(uint32_t) numbers_vec;

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* In order, of the files that are there: a rank that has no loader of its own, as of a
 * group that gets its batches from one of them, wrote none. */
static taut_status find_ranks(
	const char *folder, numbers_vec *numbers, struct taut_error *reterr)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	bool all = true;

	while (all && dir && (entry = readdir(dir))) {
		char name[NAME_BYTES];
		uint32_t number;

		if (sscanf(entry->d_name, "rank-%5" SCNu32, &number) != 1)
			continue;
		snprintf(name, sizeof name, "rank-%" PRIu32 ".stalls", number);
		if (!strcmp(name, entry->d_name))
			all = taut_vec_push(numbers, number);
	}
	if (dir)
		closedir(dir);
	if (numbers->count)
		qsort(numbers->data, numbers->count, sizeof *numbers->data, by_number);
	return all ? TAUT_OK : taut_error_set(
		reterr, TAUT_ENOMEM, -1, "stalls: out of memory");
}

/* Without any, that of rank 0 is missing. */
static taut_status read_run(
	const char *folder, ranks_vec *ranks, struct taut_error *reterr)
{
	numbers_vec numbers = { 0 };
	taut_status status = find_ranks(folder, &numbers, reterr);

	if (!status && !numbers.count)
		status = read_rank(folder, 0, ranks, reterr);
	for (size_t i = 0; i < numbers.count && !status; i++)
		status = read_rank(folder, numbers.data[i], ranks, reterr);
	taut_vec_free(&numbers);
	return status;
}

static bool has_rank(const char *run, uint32_t number)
{
	char path[PATH_MAX];

	return (size_t)snprintf(path, sizeof path, "%s/rank-%" PRIu32 ".stalls", run,
		number) < sizeof path && access(path, F_OK) == 0;
}

/* FOLDER/run-2 and so on, as long as there is one with the first rank. Counts them on. */
static taut_status read_more_runs(const char *folder, ranks_vec *ranks, uint32_t *n_runs,
	struct taut_error *reterr)
{
	size_t n = ranks->count;
	taut_status status = TAUT_OK;

	while (!status && *n_runs < TAUTI_MEASURED_RUNS) {
		char run[PATH_MAX];

		if ((size_t)snprintf(run, sizeof run, "%s/run-%" PRIu32, folder,
			*n_runs + 1) >= sizeof run || !has_rank(run, ranks->data[0].rank))
			break;
		status = read_run(run, ranks, reterr);
		++*n_runs;
		if (!status && ranks->count != *n_runs * n)
			status = taut_error_set(reterr, TAUT_EMATCH, -1, "%.300s: expected "
				"the %zu ranks of the first run, found %zu", run, n,
				ranks->count - (*n_runs - 1) * n);
	}
	return status;
}

taut_status taut_stalls_open(
	const char *folder, struct taut_stalls **ret_stalls, struct taut_error *reterr)
{
	struct tauti_listed listed = { .paths = NULL };
	ranks_vec ranks = { 0 };
	uint32_t n_ranks, n_runs = 1;
	taut_status status = read_run(folder, &ranks, reterr);

	n_ranks = (uint32_t)ranks.count;
	if (!status)
		status = read_more_runs(folder, &ranks, &n_runs, reterr);
	if (!status)
		status = tauti_listed_read(folder, &listed, reterr);
	if (status) {
		tauti_listed_fini(&listed);
		tauti_stalls_end_ranks(ranks.data, ranks.count);
		return status;
	}
	return tauti_stalls_make(ranks.data, n_ranks, n_runs, &listed, ret_stalls, reterr);
}
