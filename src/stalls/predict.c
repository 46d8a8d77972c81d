/* predict.c - an epoch of a model after a change, on the virtual clock. */
#include "stalls/predict.h"

#include <inttypes.h>
#include <math.h>

/* Prepared samples are some six times what was read (Mohan et al., VLDB 2021: 5 to 7), and
 * memory is copied at 8 bytes a ns. */
#define COPY_NS_BYTE (6 / 8.0)
enum { SHARED_BATCHES = 16 };

/* --- what is asked for -----------------------------------------------------------------*/

static taut_status check_factor(const char *what, double value, struct taut_error *reterr)
{
	if (value >= 0 && value <= 1e9)
		return TAUT_OK;
	return taut_error_set(reterr, TAUT_EINVAL, -1,
		"stalls: %s is %g, expected 0 to 1e+09", what, value);
}

static taut_status check(const struct taut_stalls_model *model,
	const struct taut_stalls_change *change, struct taut_error *reterr)
{
	taut_status status = TAUT_OK;

	if (change->size && change->size != sizeof *change)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "stalls: a change of %"
			PRIu32 " bytes, expected 0 or %zu", change->size, sizeof *change);
	if (!status)
		status = check_factor("rate", change->rate, reterr);
	if (!status)
		status = check_factor("cores", change->cores, reterr);
	if (!status)
		status = check_factor("device", change->device, reterr);
	if (!status && change->batch && !model->half_step_ns)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "stalls: a batch of %"
			PRIu32 ", but steps of half a batch were not measured",
			change->batch);
	return status;
}

/* --- what becomes of it ----------------------------------------------------------------*/

/* What a disk with a limit gives at once is what it gives in some time, whatever the limit. */
void tauti_set_rate(struct taut_feed_host *host, double times)
{
	double rate = (double)host->rate_bytes_s * times;

	if (host->rate_bytes_s)
		host->rate_bytes_s = (uint64_t)fmin(fmax(rate, 1), 0x1p62);
	host->burst_bytes = (uint64_t)fmin((double)host->burst_bytes * times, 0x1p62);
	host->latency_ns = llround(fmin((double)host->latency_ns / times, 0x1p50));
}

static void change_storage(
	const struct taut_stalls_change *change, struct taut_feed_host *host)
{
	if (change->has_cache) {
		host->cache = change->cache;
		host->cache_bytes = change->cache_bytes;
	}
	if (change->rate > 0)
		tauti_set_rate(host, change->rate);
}

/* What is handed over grows with the batch; a step by the line through both measured. */
static void change_batch(const struct taut_stalls_model *model, uint32_t batch,
	struct taut_feed_job *job)
{
	double whole_ns = (double)model->job.step_ns, half_ns = (double)model->half_step_ns;
	double times = (double)batch / model->job.batch;

	job->batch = batch;
	job->step_ns = llround(fmin(
		fmax(whole_ns + (whole_ns - half_ns) * 2 * (times - 1), 1), 0x1p50));
	job->take_ns = llround(fmin((double)job->take_ns * times, 0x1p50));
}

/* Batches ahead are so many of each worker where workers make whole ones. */
void tauti_set_workers(struct taut_feed_job *job, uint32_t workers)
{
	if (job->form == TAUT_FEED_BY_BATCH && job->n_workers)
		job->depth = (uint32_t)(((uint64_t)job->depth * workers + job->n_workers - 1) /
			job->n_workers);
	else if (job->form == TAUT_FEED_BY_BATCH)
		job->depth = 0;
	job->n_workers = workers;
}

static void change_loader(const struct taut_stalls_model *model,
	const struct taut_stalls_change *change, struct taut_feed_job *job)
{
	if (job->form != TAUT_FEED_OURS) {
		job->form = TAUT_FEED_OURS;
		job->depth = 0;
		job->begin_ns = 0;
	}
	if (!change->share || change->jobs < 2)
		return;
	job->share_items = (uint64_t)SHARED_BATCHES * job->batch * job->n_ranks;
	job->copy_ns = COPY_NS_BYTE * model->set.mean_bytes;
}

static struct tauti_scene changed(const struct taut_stalls_model *model,
	const struct taut_stalls_change *change)
{
	struct tauti_scene scene = tauti_scene_of(model);

	change_storage(change, &scene.host);
	if (change->cores > 0)
		scene.host.cores = change->cores;
	if (change->batch)
		change_batch(model, change->batch, &scene.job);
	if (change->workers)
		tauti_set_workers(&scene.job, change->workers);
	if (change->taut || change->share)
		change_loader(model, change, &scene.job);
	if (change->device > 0)
		scene.job.step_ns = llround(
			fmin((double)scene.job.step_ns / change->device, 0x1p50));
	scene.n_jobs = change->jobs ? change->jobs : 1;
	return scene;
}

/* The epoch in which the cache is as it stays. What is kept for good is as soon as it is
 * full; pages take some epochs to be where use has them. */
static uint32_t later_epoch(const struct taut_feed_host *host)
{
	return host->cache == TAUT_FEED_LRU || host->cache == TAUT_FEED_LINUX ? 3 : 1;
}

taut_status tauti_predict_scene(const struct tauti_scene *scene,
	const struct taut_feed_set *set, struct taut_stalls_epoch *ret_epoch,
	struct taut_error *reterr)
{
	struct tauti_played first, later;
	taut_status status = tauti_play_epochs(
		scene, set, later_epoch(&scene->host), &first, &later, reterr);

	if (status)
		return status;
	*ret_epoch = (struct taut_stalls_epoch){
		.first_ns = llround(first.took_ns),
		.later_ns = llround(later.took_ns),
		.fetch_ns = llround(later.fetch_ns),
		.prepare_ns = llround(fmax(later.waited_ns - later.fetch_ns, 0)),
		.read_bytes = (uint64_t)fmin(later.read_bytes, 0x1p63),
	};
	return TAUT_OK;
}

taut_status taut_stalls_predict(const struct taut_stalls_model *model,
	const struct taut_stalls_change *change, struct taut_stalls_epoch *ret_epoch,
	struct taut_error *reterr)
{
	taut_status status = check(model, change, reterr);
	struct tauti_scene scene;

	if (status)
		return status;
	scene = changed(model, change);
	return tauti_predict_scene(&scene, &model->set, ret_epoch, reterr);
}
