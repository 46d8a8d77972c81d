/* model.c - what taut/feed.h needs of a job, from what its ranks measured.
 *
 * Costs on cores are processor time, which counters tell, and not waits: what a worker waits
 * for is the result. With C the processor time of a step of all ranks, by phase:
 *
 *     step_ns      a step in place; where cached ones seem to be quicker, between the two
 *     step_cores   C[place] / step
 *     prepare_ns   (C[cached] - C[place]) / samples, less what handing over takes; or what
 *                  the workers' processes took, where the ranks tell their own apart
 *     read_cpu_ns  (C[cold] - C[cached]) / samples
 *     take_ns      what is seen of it; or what a step costs the ranks' own processes more
 *                  with fresh batches than in place
 *     crowd        how much more processor time the ranks' own processes took for the same
 *                  step while more cores were at work: cached, and cold
 *
 * What was counted while cores were crowded is brought to the speed of one that is alone. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "stalls/calibrate.h"
#include "stalls/stalls.h"

enum {
	PLACE = 1 << TAUT_STALLS_PLACE,
	CACHED = 1 << TAUT_STALLS_CACHED,
	COLD = 1 << TAUT_STALLS_COLD,
};
#define LEAST_CROWD 0.5
#define MOST_DOUBT 0.25

/* --- figures of phases -------------------------------------------------------------------
 * Their context is a phase, where they have one. */

static double step_ns(const struct tauti_stalls_sum *sums, const void *context)
{
	return sums[*(const int *)context].step_ns;
}

/* Cores at work, of all hosts. */
static double busy(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[*(const int *)context];

	return sum->cpu_ns / (sum->steps * sum->step_ns);
}

static double own_ns(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[*(const int *)context];

	return sum->own_ns < 0 ? NAN : sum->own_ns;
}

/* The workers' processor time for an item. */
static double apart_ns(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[*(const int *)context];

	if (sum->own_cpu_ns < 0)
		return NAN;
	return (sum->cpu_ns - sum->own_cpu_ns) / sum->samples;
}

/* The same where threads of the ranks prepare: what there is more of than in place. */
static double more_ns(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[*(const int *)context];
	const struct tauti_stalls_sum *place = &sums[TAUT_STALLS_PLACE];

	return sum->cpu_ns / sum->samples - place->cpu_ns / place->samples;
}

/* How much more processor time of their own the ranks took for a step while cached than
 * while cold, as a share of that in place. Fresh batches cost both the same. */
static double own_rise(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *cached = &sums[TAUT_STALLS_CACHED];
	const struct tauti_stalls_sum *cold = &sums[TAUT_STALLS_COLD];
	const struct tauti_stalls_sum *place = &sums[TAUT_STALLS_PLACE];

	(void)context;
	if (cached->own_cpu_ns < 0 || cold->own_cpu_ns < 0 || place->cpu_ns <= 0)
		return NAN;
	return (cached->own_cpu_ns / cached->steps - cold->own_cpu_ns / cold->steps) /
		(place->cpu_ns / place->steps);
}

/* What a step costs the ranks themselves with a fresh batch, over what it costs in place;
 * context: the speed of cores while cached. */
static double fresh_ns(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *cached = &sums[TAUT_STALLS_CACHED];
	const struct tauti_stalls_sum *place = &sums[TAUT_STALLS_PLACE];

	if (cached->own_cpu_ns < 0)
		return NAN;
	return cached->own_cpu_ns / cached->steps * *(const double *)context -
		place->cpu_ns / place->steps;
}

/* Items of a step, of all ranks. */
static double items(const struct tauti_stalls_sum *sums, const void *context)
{
	const struct tauti_stalls_sum *sum = &sums[*(const int *)context];

	return sum->samples / sum->steps;
}

static double usual(const struct taut_stalls *stalls, enum taut_stalls_phase phase,
	tauti_stalls_figure of)
{
	int context = (int)phase;

	return tauti_stalls_usual(stalls, 1u << phase, of, &context, 0);
}

/* --- steps and starts one by one -----------------------------------------------------------*/

typedef TAUT_VEC(double) values_vec;

static bool add_takes(const struct tauti_measured *rank, values_vec *values)
{
	for (size_t i = 0; i < rank->phases.count; i++) {
		const struct tauti_measured_phase *row = &rank->phases.data[i];

		if (row->phase == TAUT_STALLS_PLACE || row->phase == TAUT_STALLS_HALF)
			continue;
		for (size_t k = 0; k < row->n_steps; k++) {
			int64_t ns = rank->steps.data[row->first_step + k].take_ns;

			if (ns >= 0 && !taut_vec_push(values, (double)ns))
				return false;
		}
	}
	return true;
}

static bool add_starts(const struct tauti_measured *rank, values_vec *values)
{
	for (size_t i = 0; i < rank->starts.count; i++)
		if (!taut_vec_push(values, (double)rank->starts.data[i].ns))
			return false;
	return true;
}

/* The median of what add() finds in all ranks of all runs; 0: it finds nothing. */
static taut_status median_of(const struct taut_stalls *stalls,
	bool (*add)(const struct tauti_measured *rank, values_vec *values),
	int64_t *ret_ns, struct taut_error *reterr)
{
	values_vec values = { 0 };
	bool all = true;

	for (uint32_t i = 0; i < stalls->n_ranks * stalls->n_runs && all; i++)
		all = add(&stalls->ranks[i], &values);
	if (all)
		*ret_ns = values.count ?
			llround(tauti_stalls_middle(values.data, values.count)) : 0;
	taut_vec_free(&values);
	return all ? TAUT_OK : taut_error_set(
		reterr, TAUT_ENOMEM, -1, "stalls: out of memory");
}

/* --- cores -----------------------------------------------------------------------------*/

/* Ranks that were given cores of their own have as many as the host; that they have shows
 * in more cores being at work than one of them may use. */
static double cores_of(const struct taut_stalls *stalls, const struct taut_stalls_model *model)
{
	double cores = stalls->ranks[0].cores ? stalls->ranks[0].cores : taut_cores();
	double at_work = fmax(usual(stalls, TAUT_STALLS_CACHED, busy),
		usual(stalls, TAUT_STALLS_PLACE, busy)) / stalls->n_hosts;

	return at_work > 1.05 * cores ? cores * model->n_ranks_host : cores;
}

/* As taut/feed.h has it. */
static double speed(const struct taut_feed_host *host, double at_work)
{
	double others = fmin(at_work, host->cores) - 1;

	if (host->crowd <= 0 || host->cores <= 1 || others <= 0)
		return 1;
	return 1 - (1 - host->crowd) * others / (host->cores - 1);
}

/* Of the other cores, those at work. */
static double at_work_beside(const struct taut_stalls *stalls,
	const struct taut_stalls_model *model, enum taut_stalls_phase phase)
{
	double others = usual(stalls, phase, busy) / stalls->n_hosts - 1;

	return fmin(fmax(others, 0) / (model->host.cores - 1), 1);
}

/* From the same step with fewer cores at work (cold) and more (cached), a and b of the
 * others: it takes 1 / (1 - q b) - 1 / (1 - q a) longer, which grows with q. */
static void find_crowd(const struct taut_stalls *stalls, struct taut_stalls_model *model)
{
	double rise = tauti_stalls_usual(stalls, PLACE | CACHED | COLD, own_rise, NULL, 0);
	double a, b, low = 0, high = 1 - LEAST_CROWD;

	if (model->host.cores <= 1 || rise <= 0 || stalls->ranks[0].on_device)
		return;
	a = at_work_beside(stalls, model, TAUT_STALLS_COLD);
	b = at_work_beside(stalls, model, TAUT_STALLS_CACHED);
	if (b - a < 0.25) /* too little of a difference to tell from noise */
		return;
	for (int i = 0; i < 40; i++) {
		double q = (low + high) / 2;

		if (1 / (1 - q * b) - 1 / (1 - q * a) < rise)
			low = q;
		else
			high = q;
	}
	model->host.crowd = 1 - (low + high) / 2;
}

/* Handing over is not only what the wait for a batch that is there shows: its memory is
 * new to the job, too. */
static void raise_take(const struct taut_stalls *stalls, struct taut_stalls_model *model)
{
	double now = speed(&model->host,
		usual(stalls, TAUT_STALLS_CACHED, busy) / stalls->n_hosts);
	double ns = tauti_stalls_usual(stalls, PLACE | CACHED, fresh_ns, &now, 0);

	ns = fmin(ns / stalls->n_ranks, 0x1p50);
	if (ns > (double)model->job.take_ns)
		model->job.take_ns = llround(ns);
}

/* --- jobs ------------------------------------------------------------------------------*/

static enum taut_feed_form form_of(const struct tauti_measured *rank)
{
	if (!strcmp(rank->loader, "taut"))
		return TAUT_FEED_OURS;
	return rank->by_item ? TAUT_FEED_BY_ITEM : TAUT_FEED_BY_BATCH;
}

/* Fresh batches and busy cores make no step quicker. Where it seems so, steps differ by more
 * than that between rounds, and the nearest that keeps the order is their mean (isotonic
 * regression: Ayer et al., 1955). */
static double place_ns(const struct taut_stalls *stalls)
{
	double place = usual(stalls, TAUT_STALLS_PLACE, step_ns);
	double cached = usual(stalls, TAUT_STALLS_CACHED, step_ns);

	return cached > 0 && cached < place ? (place + cached) / 2 : place;
}

static void fill_step(const struct taut_stalls *stalls, struct taut_stalls_model *model)
{
	double at_work = usual(stalls, TAUT_STALLS_PLACE, busy);
	double ns = place_ns(stalls);

	model->job.step_cores = at_work / stalls->n_ranks;
	if (!stalls->ranks[0].on_device)
		ns *= speed(&model->host, at_work / stalls->n_hosts);
	model->job.step_ns = llround(ns);
}

/* By a core that is alone. */
static double item_cpu_ns(const struct taut_stalls *stalls,
	const struct taut_stalls_model *model, enum taut_stalls_phase phase)
{
	int context = (int)phase;
	double ns = tauti_stalls_usual(stalls, 1u << phase, apart_ns, &context, -1);

	if (ns < 0)
		ns = tauti_stalls_usual(stalls, PLACE | 1u << phase, more_ns, &context, 0) -
			(double)model->job.take_ns / model->job.batch;
	return ns * speed(&model->host, usual(stalls, phase, busy) / stalls->n_hosts);
}

/* Steps are of whole items of the set, and so differ as these do. */
static void fill_items(const struct taut_stalls *stalls, struct taut_stalls_model *model)
{
	double from_storage = tauti_stalls_from_storage(stalls, TAUT_STALLS_COLD);
	double cold_ns;

	model->job.prepare_ns = fmax(item_cpu_ns(stalls, model, TAUT_STALLS_CACHED), 0);
	model->job.prepare_spread = model->set.spread;
	if (usual(stalls, TAUT_STALLS_COLD, step_ns) <= 0)
		return;
	cold_ns = item_cpu_ns(stalls, model, TAUT_STALLS_COLD) - model->job.prepare_ns;
	if (from_storage > 0.1)
		cold_ns /= from_storage;
	model->job.read_cpu_ns = fmax(cold_ns, 0);
}

static taut_status fill_job(const struct taut_stalls *stalls,
	struct taut_stalls_model *model, struct taut_error *reterr)
{
	const struct tauti_measured *first = &stalls->ranks[0];
	struct taut_feed_job *job = &model->job;
	taut_status status;

	job->size = sizeof *job;
	job->batch = tauti_stalls_batch(stalls);
	job->n_ranks = stalls->n_ranks;
	job->shuffle = true;
	job->n_workers = first->workers;
	job->form = form_of(first);
	job->depth = first->depth;
	status = median_of(stalls, add_takes, &job->take_ns, reterr);
	if (!status)
		status = median_of(stalls, add_starts, &job->begin_ns, reterr);
	if (status)
		return status;
	model->host.cores = cores_of(stalls, model);
	find_crowd(stalls, model);
	raise_take(stalls, model);
	fill_step(stalls, model);
	fill_items(stalls, model);
	return TAUT_OK;
}

/* A step of half the batch, by the line through the two that were measured. */
static void fill_half(const struct taut_stalls *stalls, struct taut_stalls_model *model)
{
	double whole = usual(stalls, TAUT_STALLS_PLACE, items);
	double half = usual(stalls, TAUT_STALLS_HALF, items);
	double whole_ns = usual(stalls, TAUT_STALLS_PLACE, step_ns);
	double half_ns = usual(stalls, TAUT_STALLS_HALF, step_ns);
	double missing;

	if (half <= 0 || half >= whole)
		return;
	missing = (whole_ns - half_ns) * (whole / 2) / (whole - half);
	model->half_step_ns = llround(fmin(fmax(whole_ns - missing, 1), whole_ns) *
		(double)model->job.step_ns / whole_ns);
}

/* --- the set and where it lies -----------------------------------------------------------*/

/* Where nobody says how many items there are: as many as the first run has seen. */
static uint64_t count_items(const struct taut_stalls *stalls)
{
	int64_t told = tauti_stalls_items(stalls);
	double seen = 0;

	if (told > 0)
		return (uint64_t)told;
	for (uint32_t i = 0; i < stalls->n_rounds; i++) {
		struct tauti_stalls_sum sum;

		if (tauti_stalls_sum(stalls, i, TAUT_STALLS_CACHED, &sum))
			seen += sum.samples;
	}
	if (tauti_stalls_by_file(stalls) && (double)stalls->n_sizes > seen)
		seen = (double)stalls->n_sizes;
	return (uint64_t)fmax(seen, 1);
}

static void fill_set(const struct taut_stalls *stalls, struct taut_stalls_model *model)
{
	struct taut_feed_set *set = &model->set;
	double n = (double)stalls->n_sizes;

	set->n_items = count_items(stalls);
	set->mean_bytes = tauti_stalls_item_bytes(stalls);
	set->spread = fmin(stalls->spread, 1);
	if (tauti_stalls_by_file(stalls) && set->n_items <= stalls->n_sizes &&
		n < 1.02 * (double)set->n_items + 64)
		set->bytes = stalls->sizes;
}

static taut_status fill_storage(const struct taut_stalls_storage *storage,
	struct taut_feed_host *host, struct taut_error *reterr)
{
	if (!(storage->rate_bytes_s >= 0 && storage->rate_bytes_s < 0x1p62) ||
		storage->latency_ns < 0)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "stalls: storage of %g "
			"bytes/s and %" PRId64 " ns, expected 0 or more",
			storage->rate_bytes_s, storage->latency_ns);
	host->rate_bytes_s = (uint64_t)storage->rate_bytes_s;
	host->latency_ns = storage->latency_ns;
	host->n_served = storage->n_served;
	host->burst_bytes = storage->burst_bytes;
	return TAUT_OK;
}

/* Nobody has looked at the storage: it is as fast as it was for the job, if the job waited
 * for it, and does without latency. */
static void guess_storage(const struct taut_stalls *stalls, struct taut_stalls_model *model)
{
	double cold_ns = usual(stalls, TAUT_STALLS_COLD, step_ns);
	double items_host = usual(stalls, TAUT_STALLS_COLD, items) / stalls->n_hosts;

	if (cold_ns > 1.01 * usual(stalls, TAUT_STALLS_CACHED, step_ns))
		model->host.rate_bytes_s = (uint64_t)fmin(
			items_host * model->set.mean_bytes / cold_ns * 1e9, 0x1p62);
}

/* --- all of it -------------------------------------------------------------------------*/

static uint32_t ranks_of_first_host(const struct taut_stalls *stalls)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < stalls->n_ranks; i++)
		n += !strcmp(stalls->ranks[i].host, stalls->ranks[0].host);
	return n;
}

static double kept(const struct taut_stalls *stalls, enum taut_stalls_phase phase,
	double otherwise)
{
	double from_storage = tauti_stalls_from_storage(stalls, phase);

	if (from_storage < 0.02) /* not told, or not by this file system */
		return otherwise;
	return from_storage > 0.98 ? 0 : 1 - from_storage;
}

/* Half of the interval over the rounds. */
static double doubt(const struct taut_stalls_value *rate)
{
	return rate->low > 0 ? fmin((rate->high / rate->low - 1) / 2, MOST_DOUBT) : 0;
}

static taut_status fit(const struct taut_stalls *stalls, struct taut_stalls_model *model,
	struct taut_error *reterr)
{
	struct tauti_seen seen = {
		.cached_ns = usual(stalls, TAUT_STALLS_CACHED, step_ns),
		.cold_ns = usual(stalls, TAUT_STALLS_COLD, step_ns),
		.part_ns = usual(stalls, TAUT_STALLS_PART, step_ns),
		.busy = usual(stalls, TAUT_STALLS_CACHED, busy) / stalls->n_hosts,
		.cold_kept = kept(stalls, TAUT_STALLS_COLD, 0),
		.part_kept = kept(stalls, TAUT_STALLS_PART, 0.5),
	};
	int cached = TAUT_STALLS_CACHED;
	struct taut_stalls_result result;

	seen.own_ns = tauti_stalls_usual(stalls, CACHED, own_ns, &cached, -1);
	taut_stalls_result(stalls, &result);
	seen.cached_doubt = doubt(&result.rate[TAUT_STALLS_CACHED]);
	seen.cold_doubt = doubt(&result.rate[TAUT_STALLS_COLD]);
	return tauti_calibrate(&seen, model, reterr);
}

static taut_status check(const struct taut_stalls *stalls, struct taut_error *reterr)
{
	static const enum taut_stalls_phase needed[] = {
		TAUT_STALLS_PLACE, TAUT_STALLS_CACHED };

	for (int i = 0; i < 2; i++)
		if (usual(stalls, needed[i], step_ns) <= 0)
			return taut_error_set(reterr, TAUT_EINVAL, -1, "stalls: expected "
				"steps of '%s' of all ranks, found none",
				tauti_measured_phase_name(needed[i]));
	return TAUT_OK;
}

taut_status taut_stalls_model(const struct taut_stalls *stalls,
	const struct taut_stalls_storage *storage, uint64_t page_cache_bytes,
	struct taut_stalls_model *ret_model, struct taut_error *reterr)
{
	struct taut_stalls_model model = {
		.host = { .size = sizeof model.host, .cache_bytes = page_cache_bytes,
			.cache = page_cache_bytes ? TAUT_FEED_LINUX : TAUT_FEED_NONE },
		.n_ranks_host = ranks_of_first_host(stalls),
	};
	taut_status status = check(stalls, reterr);

	if (status)
		return status;
	fill_set(stalls, &model);
	status = fill_job(stalls, &model, reterr);
	if (status)
		return status;
	fill_half(stalls, &model);
	if (storage)
		status = fill_storage(storage, &model.host, reterr);
	else
		guess_storage(stalls, &model);
	if (!status)
		status = fit(stalls, &model, reterr);
	if (!status)
		*ret_model = model;
	return status;
}
