/* feed.c - a loader on a virtual clock: what is given and told, and the loop over events.
 * See taut/feed.h and feed.h. */
#include "feed.h"

#include <inttypes.h>
#include <math.h>

enum { MOST_CORES = 65536 };
#define LEAST_CORES 0.001
#define MOST_BYTES (UINT64_C(1) << 50)

/* --- what is given -----------------------------------------------------------------*/

static taut_status check_size(
	const char *what, uint32_t size, size_t expected, struct taut_error *reterr)
{
	if (!size || size == expected)
		return TAUT_OK;
	return taut_error_set(reterr, TAUT_EINVAL, -1, "feed: %s of %" PRIu32
		" bytes, expected 0 or %zu", what, size, expected);
}

/* Not a number is outside as well. */
static taut_status check_range(const char *what, double value, double least, double most,
	struct taut_error *reterr)
{
	if (value >= least && value <= most)
		return TAUT_OK;
	return taut_error_set(reterr, TAUT_EINVAL, -1, "feed: %s is %g, expected %g to %g",
		what, value, least, most);
}

static taut_status check_host(const struct taut_feed_host *host, struct taut_error *reterr)
{
	taut_status status = check_size("a host", host->size, sizeof *host, reterr);

	if (!status)
		status = check_range("latency_ns", (double)host->latency_ns, 0,
			(double)TAUTI_FEED_MOST_NS, reterr);
	if (!status && host->cores != 0)
		status = check_range("cores", host->cores, LEAST_CORES, MOST_CORES,
			reterr);
	if (!status)
		status = check_range("crowd", host->crowd, 0, 1, reterr);
	if (!status)
		status = check_range("cache", (double)host->cache, TAUT_FEED_NONE,
			TAUT_FEED_LINUX, reterr);
	return status;
}

static taut_status check_set(const struct taut_feed_set *set, struct taut_error *reterr)
{
	taut_status status;

	if (!set)
		return taut_error_set(
			reterr, TAUT_EINVAL, -1, "feed: a job without a set");
	status = check_range("n_items", (double)set->n_items, 1,
		(double)TAUTI_CACHE_MOST_ITEMS, reterr);
	if (!status && !set->bytes)
		status = check_range("mean_bytes", set->mean_bytes, 0,
			(double)MOST_BYTES, reterr);
	if (!status && !set->bytes)
		status = check_range("spread", set->spread, 0, 1, reterr);
	if (status || !set->bytes)
		return status;
	for (uint64_t i = 0; i < set->n_items; i++)
		if (set->bytes[i] > MOST_BYTES)
			return taut_error_set(reterr, TAUT_EINVAL, -1,
				"feed: item %" PRIu64 " has %" PRIu64 " bytes, "
				"expected at most 2^50", i, set->bytes[i]);
	return TAUT_OK;
}

/* The mechanism checks what is its own. */
static taut_status check_job(const struct taut_feed_job *job, struct taut_error *reterr)
{
	const double most_ns = (double)TAUTI_FEED_MOST_NS;
	const struct {
		const char *what;
		double value, least, most;
	} rows[] = {
		{ "prepare_ns", job->prepare_ns, 0, most_ns },
		{ "prepare_ns_byte", job->prepare_ns_byte, 0, most_ns },
		{ "prepare_spread", job->prepare_spread, 0, 1 },
		{ "step_ns", (double)job->step_ns, 0, most_ns },
		{ "step_cores", job->step_cores, 0, MOST_CORES },
		{ "start_ns", (double)job->start_ns, 0, most_ns },
		{ "form", (double)job->form, TAUT_FEED_OURS, TAUT_FEED_BY_ITEM },
		{ "read_cpu_ns", job->read_cpu_ns, 0, most_ns },
		{ "read_cpu_ns_byte", job->read_cpu_ns_byte, 0, most_ns },
		{ "take_ns", (double)job->take_ns, 0, most_ns },
		{ "begin_ns", (double)job->begin_ns, 0, most_ns },
		{ "copy_ns", job->copy_ns, 0, most_ns },
		{ "idle_ns", (double)job->idle_ns, 0, most_ns },
		{ "epochs", (double)job->epochs, 1, (double)UINT32_MAX },
	};
	taut_status status = check_size("a job", job->size, sizeof *job, reterr);

	for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++)
		status = check_range(rows[i].what, rows[i].value, rows[i].least,
			rows[i].most, reterr);
	return status ? status : check_set(job->set, reterr);
}

static taut_status check(const struct taut_feed_host *host,
	const struct taut_feed_job *jobs, size_t n_jobs, size_t n_epochs,
	struct taut_error *reterr)
{
	taut_status status = check_host(host, reterr);
	uint64_t sum = 0;

	if (!status)
		status = check_range("n_jobs", (double)n_jobs, 1, UINT16_MAX, reterr);
	for (size_t i = 0; i < n_jobs && !status; i++) {
		status = check_job(&jobs[i], reterr);
		sum += jobs[i].epochs;
	}
	if (!status && sum != n_epochs)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "feed: room for %zu "
			"epochs, expected %" PRIu64, n_epochs, sum);
	return status;
}

/* --- what is made of it ------------------------------------------------------------*/

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
	return value ? value : otherwise;
}

/* Above all that a depth may be: then it is refused. */
static uint32_t twice(uint32_t n)
{
	return n < TAUT_NONE / 2 ? 2 * n : TAUT_NONE;
}

static double mean_bytes(const struct taut_feed_set *set)
{
	double sum = 0;

	if (!set->bytes)
		return set->mean_bytes;
	for (uint64_t i = 0; i < set->n_items; i++)
		sum += (double)set->bytes[i];
	return sum / (double)set->n_items;
}

/* As in taut/load.h; of other loaders as theirs. */
static void fill_in(struct taut_feed_job *job, const struct taut_feed_host *host)
{
	uint32_t cores = (uint32_t)ceil(host->cores);

	job->batch = or_default(job->batch, 32);
	job->n_ranks = or_default(job->n_ranks, 1);
	if (job->form == TAUT_FEED_OURS)
		job->n_workers = or_default(job->n_workers, or_default(cores, 1));
	else if (!job->n_workers)
		job->depth = 1;
	if (job->form == TAUT_FEED_BY_BATCH)
		job->depth = or_default(job->depth, twice(job->n_workers));
	job->depth = or_default(job->depth, TAUTI_SUPPLY_DEPTH);
	job->n_reads = or_default(job->n_reads, 64);
	if (!job->read_bytes)
		job->read_bytes = tauti_supply_fetch_bytes(
			mean_bytes(job->set), job->n_reads, job->n_workers);
}

/* The first job with a set gives its items their numbers. */
static uint64_t place_items(struct tauti_feed *feed)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < feed->n_jobs; i++) {
		struct tauti_feed_job *job = &feed->jobs[i];
		uint32_t first = 0;

		while (feed->jobs[first].is.set != job->is.set)
			first++;
		job->first_item = first < i ? feed->jobs[first].first_item : (uint32_t)n;
		if (first == i)
			n += job->is.set->n_items;
	}
	return n;
}

static bool make_due(struct due *due, struct taut_arena *arena, size_t n)
{
	due->heap = TAUT_ARENA_ARRAY(arena, struct due_at, n);
	due->place = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	if (!due->heap || !due->place)
		return false;
	for (size_t i = 0; i < n; i++)
		due->place[i] = TAUT_NONE;
	return true;
}

static void place_tasks(struct tauti_feed *feed)
{
	uint32_t task = 0;

	for (uint32_t i = 0; i < feed->n_jobs; i++) {
		feed->jobs[i].first_task = task;
		for (uint32_t k = 0; k <= feed->jobs[i].n_tickets; k++)
			feed->job_of[task++] = i;
	}
}

static taut_status make_queues(
	struct tauti_feed *feed, struct taut_arena *arena, struct taut_error *reterr)
{
	uint64_t n_tasks = 0, n_reads = 0;

	for (uint32_t i = 0; i < feed->n_jobs; i++) {
		const struct tauti_feed_job *job = &feed->jobs[i];

		n_tasks += (uint64_t)job->n_tickets + 1;
		n_reads += tauti_feed_job_reads(job);
	}
	if (n_tasks >= TAUT_NONE)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "feed: %" PRIu64
			" places in all batches, expected fewer than 2^32", n_tasks);
	feed->job_of = TAUT_ARENA_ARRAY(arena, uint32_t, n_tasks);
	feed->store.reads = TAUT_ARENA_ARRAY(arena, struct tauti_feed_read, n_reads);
	feed->store.n_reads = (uint32_t)n_reads;
	feed->is_read = TAUT_ARENA_ARRAY(arena, bool, n_tasks);
	if (!feed->job_of || !feed->store.reads || !feed->is_read ||
		!make_due(&feed->cores.due, arena, n_tasks) ||
		!make_due(&feed->idle, arena, n_tasks) ||
		!make_due(&feed->alarms, arena, feed->n_jobs) ||
		!make_due(&feed->patience, arena, feed->n_jobs))
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"feed: out of memory for %" PRIu64 " places", n_tasks);
	place_tasks(feed);
	return TAUT_OK;
}

static taut_status open_jobs(struct tauti_feed *feed, const struct taut_feed_host *host,
	const struct taut_feed_job *jobs, struct taut_feed_epoch *epochs,
	struct taut_error *reterr)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < feed->n_jobs && !status; i++) {
		struct tauti_feed_job *job = &feed->jobs[i];

		job->feed = feed;
		job->id = i;
		job->is = jobs[i];
		fill_in(&job->is, host);
		job->epochs = epochs;
		for (uint64_t k = 0; k < job->is.epochs; k++)
			*epochs++ = (struct taut_feed_epoch){ 0 };
		status = tauti_feed_job_open(job, reterr);
	}
	return status;
}

static taut_status make(struct tauti_feed *feed, const struct taut_feed_host *host,
	const struct taut_feed_job *jobs, size_t n_jobs,
	struct taut_feed_epoch *epochs, struct taut_arena *arena,
	struct taut_error *reterr)
{
	taut_status status;
	uint64_t n_items;

	feed->store.slow.rate_bytes_s = host->rate_bytes_s;
	feed->store.slow.latency_ns = host->latency_ns;
	if (host->rate_bytes_s)
		feed->store.slow.burst_ns = llround(fmin((double)host->burst_bytes * 1e9 /
			(double)host->rate_bytes_s, (double)TAUTI_FEED_MOST_NS));
	feed->store.slow.free_ns = -feed->store.slow.burst_ns;
	feed->store.n_served = host->n_served;
	tauti_feed_cores_init(&feed->cores, host);
	feed->jobs = TAUT_ARENA_ARRAY(arena, struct tauti_feed_job, n_jobs);
	if (!feed->jobs)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"feed: out of memory for %zu jobs", n_jobs);
	feed->n_jobs = feed->n_left = (uint32_t)n_jobs;
	status = open_jobs(feed, host, jobs, epochs, reterr);
	if (!status)
		status = make_queues(feed, arena, reterr);
	if (status)
		return status;
	n_items = place_items(feed);
	if (host->cache != TAUT_FEED_NONE && n_items > TAUTI_CACHE_MOST_ITEMS)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "feed: %" PRIu64 " items "
			"of all sets in a cache, expected at most %" PRIu32, n_items,
			TAUTI_CACHE_MOST_ITEMS);
	return tauti_feed_cache_init(&feed->cache, host, n_items, arena, reterr);
}

/* --- events ------------------------------------------------------------------------*/

static void read_ended(struct tauti_feed *feed)
{
	struct tauti_feed_read read = tauti_feed_read(&feed->store, feed->now_ns);

	tauti_feed_came(feed, &read);
}

/* What somebody made may be what another waits for, until nobody has news. */
static void spread_news(struct tauti_feed *feed)
{
	for (uint32_t i = 0; feed->is_sharing && i < feed->n_jobs; i++) {
		struct tauti_feed_share *share = feed->jobs[i].sharing;

		if (!share || !tauti_feed_share_has_news(share))
			continue;
		tauti_feed_share_again(share);
		i = TAUT_NONE; /* from the first on */
	}
}

static void out_of_patience(struct tauti_feed *feed)
{
	uint32_t job = feed->patience.heap[0].id;

	due_drop(&feed->patience, job);
	tauti_feed_share_again(feed->jobs[job].sharing);
}

/* One event: the earliest, of those at the same time the kinds in this order. */
static taut_status advance(struct tauti_feed *feed, struct taut_error *reterr)
{
	int64_t read_ns = tauti_feed_read_ends(&feed->store);
	int64_t work_ns = tauti_feed_work_ends(&feed->cores);
	int64_t alarm_ns = due_first_ns(&feed->alarms);
	int64_t at_ns = read_ns < work_ns ? read_ns : work_ns;
	int64_t patience_ns = due_first_ns(&feed->patience);
	int64_t idle_ns = due_first_ns(&feed->idle);

	if (alarm_ns < at_ns)
		at_ns = alarm_ns;
	if (patience_ns < at_ns)
		at_ns = patience_ns;
	if (idle_ns < at_ns)
		at_ns = idle_ns;
	if (at_ns > TAUTI_FEED_LAST_NS || feed->store.too_long)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"feed: the jobs take longer than 52 days");
	feed->now_ns = at_ns;
	if (read_ns == at_ns)
		read_ended(feed);
	else if (work_ns == at_ns)
		tauti_feed_worked(feed, tauti_feed_next_work(&feed->cores));
	else if (idle_ns == at_ns)
		tauti_feed_idled(feed, feed->idle.heap[0].id);
	else if (alarm_ns == at_ns)
		tauti_feed_rang(&feed->jobs[feed->alarms.heap[0].id]);
	else
		out_of_patience(feed);
	spread_news(feed);
	return TAUT_OK;
}

static taut_status run(struct tauti_feed *feed, struct taut_error *reterr)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < feed->n_jobs; i++)
		due_set(&feed->alarms, i, feed->jobs[i].is.start_ns);
	while (feed->n_left && !status)
		status = advance(feed, reterr);
	return status;
}

taut_status taut_feed_play(const struct taut_feed_host *host,
	const struct taut_feed_job *jobs, size_t n_jobs,
	struct taut_feed_epoch *ret_epochs, size_t n_epochs, struct taut_error *reterr)
{
	taut_status status = check(host, jobs, n_jobs, n_epochs, reterr);
	struct tauti_feed feed = { .n_jobs = 0 };
	struct taut_arena *arena;

	if (status)
		return status;
	arena = taut_arena_create();
	if (!arena)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "feed: out of memory");
	status = make(&feed, host, jobs, n_jobs, ret_epochs, arena, reterr);
	if (!status)
		status = run(&feed, reterr);
	for (uint32_t i = 0; i < feed.n_jobs; i++)
		tauti_feed_job_close(&feed.jobs[i]);
	tauti_feed_cache_fini(&feed.cache);
	taut_arena_destroy(arena);
	return status;
}
