/* advise.c - what would help most: a list of changes, each played. */
#include "stalls/advise.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "stalls/play.h"

#define LEAST_GAIN 1.01
enum { SHARING_JOBS = 2 };

/* Of one kind the larger stands behind the smaller, and must give more than it does. */
enum kind { STORAGE, MEMORY, KEEPING, WORKERS, CORES, LOADER, SHARING };

struct candidate {
	enum kind kind;
	struct taut_stalls_advice advice;
};

struct list {
	const struct taut_stalls_model *model;
	struct candidate rows[TAUT_STALLS_ADVICE];
	size_t n;
	double now_ns, jobs_ns; /* of one job, and of jobs that could share */
	struct taut_stalls_needs needs;
};

/* --- what is looked at -------------------------------------------------------------------*/

/* Its text is written by the caller. */
static char *add(struct list *list, enum kind kind, const struct taut_stalls_change *change)
{
	struct candidate *row = &list->rows[list->n++];

	*row = (struct candidate){ .kind = kind, .advice = { .change = *change } };
	row->advice.change.size = sizeof *change;
	return row->advice.what;
}

enum { WHAT = sizeof ((struct taut_stalls_advice *)0)->what };

static void add_storage(struct list *list)
{
	const struct taut_feed_host *host = &list->model->host;

	if (!host->rate_bytes_s && !host->latency_ns)
		return;
	for (int times = 2; times <= 4; times += 2)
		snprintf(add(list, STORAGE, &(struct taut_stalls_change){ .rate = times }),
			WHAT, "storage %d times as fast", times);
}

static double gigabytes(double bytes)
{
	return bytes / 1e9;
}

static void add_memory_of(struct list *list, double share, double all)
{
	const struct taut_feed_host *host = &list->model->host;
	struct taut_stalls_change change = { .has_cache = true,
		.cache = host->cache ? host->cache : TAUT_FEED_LINUX };
	/* What keeps items has rooms of whole 64 bytes. */
	double bytes = share * (all + 64 * (double)list->model->set.n_items);

	change.cache_bytes = (uint64_t)fmin(bytes, 0x1p62);
	snprintf(add(list, MEMORY, &change), WHAT,
		"memory for %.0f %% of the set: a cache of %.3g GB", 100 * share,
		gigabytes(bytes));
}

static void add_memory(struct list *list)
{
	const struct taut_feed_host *host = &list->model->host;
	double all = tauti_set_bytes(&list->model->set), quarters = 0;

	if (all <= 0)
		return;
	if (host->cache != TAUT_FEED_NONE)
		quarters = floor(4 * (double)host->cache_bytes / all);
	if (quarters < 3)
		add_memory_of(list, (quarters + 1) / 4, all);
	if (quarters < 4)
		add_memory_of(list, 1, all);
}

static void add_keeping(struct list *list)
{
	const struct taut_feed_host *host = &list->model->host;
	struct taut_stalls_change change = { .has_cache = true, .cache = TAUT_FEED_KEEP,
		.cache_bytes = host->cache_bytes };

	if (host->cache != TAUT_FEED_LRU && host->cache != TAUT_FEED_LINUX)
		return;
	snprintf(add(list, KEEPING, &change), WHAT, "the same memory, with items that are "
		"kept for good");
	change.taut = true;
	if (list->model->job.form != TAUT_FEED_OURS)
		snprintf(add(list, KEEPING, &change), WHAT,
			"the same memory, with items kept by Taut's loader");
}

static void add_cores(struct list *list)
{
	const struct taut_stalls_model *model = list->model;
	uint32_t workers = model->job.n_workers;
	struct taut_stalls_change change = { .workers = workers + 1 };

	snprintf(add(list, WORKERS, &change), WHAT, "%" PRIu32 " workers a rank", workers + 1);
	change.workers = 2 * workers;
	if (workers > 1)
		snprintf(add(list, WORKERS, &change), WHAT, "%" PRIu32 " workers a rank",
			change.workers);
	if (model->host.cores <= 0)
		return;
	change.workers = workers + 1;
	change.cores = model->host.cores + 1;
	snprintf(add(list, CORES, &change), WHAT, "%g cores, %" PRIu32 " workers a rank",
		change.cores, change.workers);
	change.workers = workers ? 2 * workers : 1;
	change.cores = 2 * model->host.cores;
	if (change.cores > model->host.cores + 1)
		snprintf(add(list, CORES, &change), WHAT, "%g cores, %" PRIu32
			" workers a rank", change.cores, change.workers);
}

static void add_loaders(struct list *list)
{
	struct taut_stalls_change change = { .taut = true };

	if (list->model->job.form != TAUT_FEED_OURS)
		snprintf(add(list, LOADER, &change), WHAT,
			"Taut's loader: reads beside preparation");
	change.jobs = SHARING_JOBS;
	change.share = true;
	snprintf(add(list, SHARING, &change), WHAT,
		"of %d such jobs at once: each item prepared once", SHARING_JOBS);
}

/* --- what each gives ---------------------------------------------------------------------*/

static taut_status play_row(struct list *list, size_t i, struct taut_error *reterr)
{
	struct taut_stalls_advice *advice = &list->rows[i].advice;
	double now_ns = list->rows[i].kind == SHARING ? list->jobs_ns : list->now_ns;
	taut_status status = taut_stalls_predict(
		list->model, &advice->change, &advice->epoch, reterr);

	if (!status)
		advice->gain = now_ns / fmax((double)advice->epoch.later_ns, 1);
	return status;
}

/* Needs take longest, and are begun first. */
static taut_status play_any(void *context, size_t i, struct taut_error *reterr)
{
	struct list *list = context;

	return i < TAUTI_NEEDS ?
		tauti_need(list->model, (enum tauti_need)i, &list->needs, reterr) :
		play_row(list, i - TAUTI_NEEDS, reterr);
}

static taut_status play_now(struct list *list, struct taut_error *reterr)
{
	struct taut_stalls_change change = { .size = sizeof change };
	struct taut_stalls_epoch epoch;
	taut_status status = taut_stalls_predict(list->model, &change, &epoch, reterr);

	list->now_ns = status ? 0 : (double)epoch.later_ns;
	change.jobs = SHARING_JOBS;
	if (!status)
		status = taut_stalls_predict(list->model, &change, &epoch, reterr);
	list->jobs_ns = status ? 0 : (double)epoch.later_ns;
	return status;
}

/* What gives nothing, or no more than less of the same. */
static void drop_useless(struct list *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++) {
		const struct candidate *row = &list->rows[i];
		double least = LEAST_GAIN;

		if (n && list->rows[n - 1].kind == row->kind)
			least = list->rows[n - 1].advice.gain * LEAST_GAIN;
		if (row->advice.gain > least)
			list->rows[n++] = *row;
	}
	list->n = n;
}

/* Of the same gain what stood before; what is of several jobs behind all others. */
static bool is_before(const struct candidate *a, const struct candidate *b)
{
	if ((a->kind == SHARING) != (b->kind == SHARING))
		return b->kind == SHARING;
	return a->advice.gain > b->advice.gain;
}

static void sort(struct list *list)
{
	for (size_t i = 1; i < list->n; i++) {
		struct candidate row = list->rows[i];
		size_t at = i;

		for (; at && is_before(&row, &list->rows[at - 1]); at--)
			list->rows[at] = list->rows[at - 1];
		list->rows[at] = row;
	}
}

taut_status taut_stalls_advise(const struct taut_stalls_model *model,
	struct taut_stalls_advice ret_advice[TAUT_STALLS_ADVICE], size_t *ret_n,
	struct taut_stalls_needs *ret_needs, struct taut_error *reterr)
{
	struct list list = { .model = model };
	taut_status status = play_now(&list, reterr);

	if (status)
		return status;
	add_storage(&list);
	add_memory(&list);
	add_keeping(&list);
	add_cores(&list);
	add_loaders(&list);
	status = taut_parallel_for(TAUTI_NEEDS + list.n, 0, play_any, &list, reterr);
	if (status)
		return status;
	drop_useless(&list);
	sort(&list);
	for (size_t i = 0; i < list.n; i++)
		ret_advice[i] = list.rows[i].advice;
	*ret_n = list.n;
	*ret_needs = list.needs;
	return TAUT_OK;
}
