/* play.c - see play.h. */
#include "stalls/play.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { LEAST_ITEMS = 8192, LEAST_BATCHES = 12, MOST_TURNS = 256, STEPS = 48, MOST_BATCH = 256,
	ROOM_BYTES = 64 /* what a cache that keeps gives an item at least */ };
#define MOST_PLACES (UINT64_C(1) << 24)
#define MOST_NS 0x1p62

/* --- one play --------------------------------------------------------------------------*/

static uint32_t or_one(uint32_t n)
{
	return n ? n : 1;
}

/* Ranks of a job are neighbours; jobs differ in their seeds, but where they share. */
static struct taut_feed_job job_of(const struct tauti_scene *scene,
	const struct taut_feed_set *set, uint32_t i, uint32_t n_epochs)
{
	struct taut_feed_job job = scene->job;

	job.set = set;
	job.rank = i % scene->n_ranks;
	job.epochs = n_epochs;
	if (!job.share_items)
		job.seed += i / scene->n_ranks;
	/* Of drawn sizes and no cache the order changes nothing, and is most of a play. */
	job.shuffle = job.shuffle && (scene->host.cache != TAUT_FEED_NONE || set->bytes);
	return job;
}

/* rows: n_epochs of each rank of each job. */
static struct tauti_played gather(const struct tauti_scene *scene,
	const struct taut_feed_epoch *rows, uint32_t n_epochs, uint32_t epoch)
{
	struct tauti_played sum = { .took_ns = 0 };
	double n = (double)scene->n_jobs * scene->n_ranks;

	for (uint32_t job = 0; job < scene->n_jobs; job++) {
		double longest_ns = 0;

		for (uint32_t rank = 0; rank < scene->n_ranks; rank++) {
			const struct taut_feed_epoch *row = rows + epoch + (size_t)n_epochs *
				((size_t)job * scene->n_ranks + rank);

			longest_ns = fmax(
				longest_ns, (double)(row->end_ns - row->begin_ns));
			sum.waited_ns += (double)row->waited_ns / n;
			sum.fetch_ns += (double)row->fetch_ns / n;
			sum.read_bytes += (double)row->read_bytes;
		}
		sum.took_ns += longest_ns / scene->n_jobs;
	}
	return sum;
}

static taut_status check(const struct tauti_scene *scene, struct taut_error *reterr)
{
	uint64_t n = (uint64_t)scene->n_jobs * scene->n_ranks;
	uint64_t depth = scene->job.depth > 4 ? scene->job.depth : 4;

	if (!n || scene->n_ranks > or_one(scene->job.n_ranks) || n > UINT16_MAX)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "stalls: %" PRIu32 " jobs "
			"of %" PRIu32 " ranks on a host, expected 1 to 65535 ranks, and no "
			"more than the job's %" PRIu32, scene->n_jobs, scene->n_ranks,
			or_one(scene->job.n_ranks));
	if (scene->job.batch > MOST_PLACES || depth * scene->job.batch > MOST_PLACES / n)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "stalls: %" PRIu64
			" batches of %" PRIu32 " ahead, for %" PRIu64 " ranks: expected at "
			"most 2^24 samples", depth, scene->job.batch, n);
	return TAUT_OK;
}

/* The first epoch, and the one of number `later`. */
static taut_status play(const struct tauti_scene *scene, const struct taut_feed_set *set,
	uint32_t n_epochs, uint32_t later, struct tauti_played *ret_first,
	struct tauti_played *ret_later, struct taut_error *reterr)
{
	uint32_t n = scene->n_jobs * scene->n_ranks;
	struct taut_feed_job *jobs = calloc(n, sizeof *jobs);
	struct taut_feed_epoch *rows = calloc((size_t)n * n_epochs, sizeof *rows);
	taut_status status;

	for (uint32_t i = 0; jobs && i < n; i++)
		jobs[i] = job_of(scene, set, i, n_epochs);
	if (jobs && rows)
		status = taut_feed_play(&scene->host, jobs, n, rows,
			(size_t)n * n_epochs, reterr);
	else
		status = taut_error_set(
			reterr, TAUT_ENOMEM, -1, "stalls: out of memory");
	if (!status) {
		*ret_first = gather(scene, rows, n_epochs, 0);
		*ret_later = gather(scene, rows, n_epochs, later);
	}
	free(jobs);
	free(rows);
	return status;
}

/* --- a set that is smaller -------------------------------------------------------------*/

double tauti_set_bytes(const struct taut_feed_set *set)
{
	double sum = 0;

	if (!set->bytes)
		return set->mean_bytes * (double)set->n_items;
	for (uint64_t i = 0; i < set->n_items; i++)
		sum += (double)set->bytes[i];
	return sum;
}

/* n items out of all of it, evenly, and of the same mean. bytes: room for n, or NULL. */
static struct taut_feed_set thin_out(
	const struct taut_feed_set *set, uint64_t n, uint64_t *bytes)
{
	struct taut_feed_set thin = *set;
	double sum = 0, all = tauti_set_bytes(set) * ((double)n / (double)set->n_items);

	thin.n_items = n;
	if (!set->bytes)
		return thin;
	for (uint64_t i = 0; i < n; i++) {
		bytes[i] = set->bytes[(uint64_t)((double)i / (double)n *
			(double)set->n_items)];
		sum += (double)bytes[i];
	}
	for (uint64_t i = 0; i < n && sum > 0; i++)
		bytes[i] = (uint64_t)((double)bytes[i] * all / sum + 0.5);
	thin.bytes = bytes;
	return thin;
}

static taut_status play_thin(const struct tauti_scene *scene,
	const struct taut_feed_set *set, uint64_t n, uint32_t later,
	struct tauti_played *ret_first, struct tauti_played *ret_later,
	struct taut_error *reterr)
{
	struct tauti_scene small = *scene;
	uint64_t *bytes = set->bytes ? malloc(n * sizeof *bytes) : NULL;
	struct taut_feed_set thin;
	taut_status status;

	if (set->bytes && !bytes)
		return taut_error_set(
			reterr, TAUT_ENOMEM, -1, "stalls: out of memory");
	thin = thin_out(set, n, bytes);
	small.host.cache_bytes = (uint64_t)((double)scene->host.cache_bytes *
		((double)n / (double)set->n_items));
	status = play(&small, &thin, later + 1, later, ret_first, ret_later, reterr);
	free(bytes);
	return status;
}

/* Batches of a rank: so many items of all, twice what is made ahead, turns of all workers. */
static uint64_t few_batches(const struct tauti_scene *scene, uint64_t least_items)
{
	uint64_t batch = (uint64_t)or_one(scene->job.batch) * or_one(scene->job.n_ranks);
	uint64_t n = (least_items + batch - 1) / batch, depth = scene->job.depth;
	uint64_t turns = or_one(scene->job.n_workers);

	if (n < LEAST_BATCHES)
		n = LEAST_BATCHES;
	if (n < 2 * depth)
		n = 2 * depth;
	if (turns <= MOST_TURNS)
		n = (n + turns - 1) / turns * turns;
	return n;
}

static uint64_t few_items(const struct tauti_scene *scene)
{
	return few_batches(scene, LEAST_ITEMS) * or_one(scene->job.batch) *
		or_one(scene->job.n_ranks);
}

static struct tauti_played along(
	const struct tauti_played *one, const struct tauti_played *two, double beyond)
{
	return (struct tauti_played){
		.took_ns = one->took_ns + fmax(two->took_ns - one->took_ns, 0) * beyond,
		.waited_ns = one->waited_ns +
			fmax(two->waited_ns - one->waited_ns, 0) * beyond,
		.fetch_ns = one->fetch_ns +
			fmax(two->fetch_ns - one->fetch_ns, 0) * beyond,
		.read_bytes = one->read_bytes +
			fmax(two->read_bytes - one->read_bytes, 0) * beyond,
	};
}

taut_status tauti_play_epochs(const struct tauti_scene *scene,
	const struct taut_feed_set *set, uint32_t later, struct tauti_played *ret_first,
	struct tauti_played *ret_later, struct taut_error *reterr)
{
	struct tauti_played first[2], last[2];
	taut_status status = check(scene, reterr);
	uint64_t few = status ? 0 : few_items(scene);
	double beyond;

	if (!status && set->n_items <= 3 * few) /* and another one, as jobs go on */
		return play(scene, set, later + 2, later, ret_first, ret_later, reterr);
	for (uint64_t i = 0; i < 2 && !status; i++)
		status = play_thin(scene, set, few * (i + 1), later, &first[i], &last[i],
			reterr);
	if (status)
		return status;
	beyond = (double)(set->n_items - few) / (double)few;
	first[0] = along(&first[0], &first[1], beyond);
	last[0] = along(&last[0], &last[1], beyond);
	if (fmax(first[0].took_ns, last[0].took_ns) > MOST_NS)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"stalls: an epoch takes longer than 292 years");
	*ret_first = first[0];
	*ret_later = last[0];
	return TAUT_OK;
}

/* --- a step ----------------------------------------------------------------------------*/

static struct tauti_played a_step(
	const struct tauti_played *one, const struct tauti_played *two, double n)
{
	return (struct tauti_played){
		.took_ns = (two->took_ns - one->took_ns) / n,
		.waited_ns = (two->waited_ns - one->waited_ns) / n,
		.fetch_ns = (two->fetch_ns - one->fetch_ns) / n,
		.read_bytes = (two->read_bytes - one->read_bytes) / n,
	};
}

taut_status tauti_play_step(const struct tauti_scene *scene,
	const struct taut_feed_set *set, double kept, struct tauti_played *ret_step,
	struct taut_error *reterr)
{
	uint64_t batch = (uint64_t)or_one(scene->job.batch) * or_one(scene->job.n_ranks);
	/* Where some items are read and some are not, many are needed for their mean. */
	uint64_t n = few_batches(scene, kept > 0 && kept < 1 ? LEAST_ITEMS :
		batch < MOST_BATCH ? STEPS * batch : 0);
	struct tauti_played unused, played[2];
	struct tauti_scene with = *scene;
	taut_status status = check(scene, reterr);

	for (uint64_t i = 0; i < 2 && !status; i++) {
		struct taut_feed_set of = *set;

		of.bytes = NULL;
		of.n_items = (i + 1) * n * batch;
		of.mean_bytes = fmax(of.mean_bytes, ROOM_BYTES);
		with.host.cache = kept > 0 ? TAUT_FEED_KEEP : TAUT_FEED_NONE;
		with.host.cache_bytes = (uint64_t)(kept * tauti_set_bytes(&of));
		status = play(&with, &of, kept > 0 ? 2 : 1, kept > 0 ? 1 : 0, &unused,
			&played[i], reterr);
	}
	if (status)
		return status;
	*ret_step = a_step(&played[0], &played[1], (double)n);
	return TAUT_OK;
}
