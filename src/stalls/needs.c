/* needs.c - how little would do: by halving, so that what is told was played, and so was
 * what is just below. */
#include "stalls/advise.h"

#include <math.h>

#include "stalls/predict.h"

#define MOST_STALL 1.01 /* of the time without any */
#define MOST_RATE 1024.0
#define NEAR_SHARE (1 / 256.0)
#define NEAR_RATE 1.02
enum { MOST_CORES = 1024, MOST_WORKERS = 64 };

struct search;
/* What a step takes at a number that is tried. */
typedef taut_status (*try_fn)(const struct search *search, double at, double *ret_ns);

struct search {
	const struct taut_stalls_model *model;
	try_fn try_at;
	double enough_ns, kept;
	struct taut_error *err;
};

static taut_status is_enough(const struct search *search, double at, bool *ret_enough)
{
	double ns = 0;
	taut_status status = search->try_at(search, at, &ns);

	*ret_enough = ns <= search->enough_ns;
	return status;
}

/* --- storage ---------------------------------------------------------------------------*/

/* A step, with so much of the set at hand. */
static taut_status a_step(const struct taut_stalls_model *model,
	const struct tauti_scene *scene, double kept, double *ret_ns,
	struct taut_error *reterr)
{
	struct tauti_played step;
	taut_status status = tauti_play_step(scene, &model->set, kept, &step, reterr);

	if (!status)
		*ret_ns = step.took_ns;
	return status;
}

static taut_status with_kept(const struct search *search, double at, double *ret_ns)
{
	struct tauti_scene scene = tauti_scene_of(search->model);

	return a_step(search->model, &scene, at, ret_ns, search->err);
}

static taut_status with_rate(const struct search *search, double at, double *ret_ns)
{
	struct tauti_scene scene = tauti_scene_of(search->model);

	tauti_set_rate(&scene.host, at);
	return a_step(search->model, &scene, search->kept, ret_ns, search->err);
}

/* Of the set, by the cache as it is, once it stays so. */
static taut_status find_kept(const struct taut_stalls_model *model, double *ret_kept,
	struct taut_error *reterr)
{
	double bytes = tauti_set_bytes(&model->set);
	struct taut_stalls_change now = { .size = sizeof now };
	struct taut_stalls_epoch epoch;
	taut_status status;

	*ret_kept = 0;
	if (model->host.cache == TAUT_FEED_NONE || bytes <= 0)
		return TAUT_OK;
	status = taut_stalls_predict(model, &now, &epoch, reterr);
	if (!status)
		*ret_kept = fmin(fmax(1 - (double)epoch.read_bytes / bytes, 0), 1);
	return status;
}

/* Until they are near: at high it is enough, at low it is not. */
static taut_status narrow(const struct search *search, double low, double high,
	bool by_factor, double *ret_at)
{
	taut_status status = TAUT_OK;

	while (!status && (by_factor ? high > low * NEAR_RATE : high > low + NEAR_SHARE)) {
		double middle = by_factor ? sqrt(low * high) : (low + high) / 2;
		bool enough = false;

		status = is_enough(search, middle, &enough);
		if (enough)
			high = middle;
		else
			low = middle;
	}
	*ret_at = high;
	return status;
}

/* Sets try_at, and what is enough: what `most` gives, and a little more. */
static taut_status begin(struct search *search, try_fn try_at, double most)
{
	double free_ns = 0;
	taut_status status;

	search->try_at = try_at;
	status = try_at(search, most, &free_ns);
	search->enough_ns = MOST_STALL * free_ns;
	return status;
}

static taut_status need_share(struct search *search, struct taut_stalls_needs *needs)
{
	bool enough = false;
	taut_status status = begin(search, with_kept, 1);

	if (!status)
		status = is_enough(search, 0, &enough);
	return status || enough ? status :
		narrow(search, 0, 1, false, &needs->cache_share);
}

static taut_status need_rate(struct search *search, struct taut_stalls_needs *needs)
{
	const struct taut_feed_host *host = &search->model->host;
	bool enough = false;
	taut_status status;

	if (!host->rate_bytes_s && !host->latency_ns)
		return TAUT_OK;
	status = find_kept(search->model, &search->kept, search->err);
	if (!status)
		status = begin(search, with_rate, MOST_RATE);
	if (!status)
		status = is_enough(search, 1, &enough);
	if (status)
		return status;
	return enough ? narrow(search, 1 / MOST_RATE, 1, true, &needs->rate) :
		narrow(search, 1, MOST_RATE, true, &needs->rate);
}

/* --- cores -----------------------------------------------------------------------------*/

/* With all items at hand. */
static struct tauti_scene scene_in_memory(const struct taut_stalls_model *model)
{
	struct tauti_scene scene = tauti_scene_of(model);

	scene.host.rate_bytes_s = 0;
	scene.host.latency_ns = 0;
	scene.job.read_cpu_ns = scene.job.read_cpu_ns_byte = 0;
	return scene;
}

static taut_status without_preparation(
	const struct search *search, double unused, double *ret_ns)
{
	struct tauti_scene scene = scene_in_memory(search->model);

	(void)unused;
	scene.host.cores = 0;
	scene.job.prepare_ns = scene.job.prepare_ns_byte = 0;
	scene.job.idle_ns = 0;
	return a_step(search->model, &scene, 0, ret_ns, search->err);
}

static taut_status with_workers(const struct search *search, double at, double *ret_ns)
{
	struct tauti_scene scene = scene_in_memory(search->model);

	tauti_set_workers(&scene.job, (uint32_t)at);
	return a_step(search->model, &scene, 0, ret_ns, search->err);
}

/* And as many workers as they have a use for beside the steps. */
static taut_status with_cores(const struct search *search, double at, double *ret_ns)
{
	struct tauti_scene scene = scene_in_memory(search->model);
	double workers = at / scene.n_ranks - scene.job.step_cores;

	scene.host.cores = at;
	if (workers >= scene.job.n_workers + 1)
		tauti_set_workers(&scene.job, (uint32_t)workers);
	return a_step(search->model, &scene, 0, ret_ns, search->err);
}

/* The smallest whole number; 0: none up to `most` is enough. */
static taut_status need_whole(const struct search *search, uint32_t most, uint32_t *ret_n)
{
	uint32_t low = 0, high = 1;
	bool enough = false;
	taut_status status = is_enough(search, high, &enough);

	while (!status && !enough && high < most) {
		low = high;
		high = 2 * high < most ? 2 * high : most;
		status = is_enough(search, high, &enough);
	}
	*ret_n = 0;
	if (status || !enough)
		return status;
	while (high > low + 1 && !status) {
		uint32_t middle = (low + high) / 2;

		status = is_enough(search, middle, &enough);
		if (enough)
			high = middle;
		else
			low = middle;
	}
	*ret_n = high;
	return status;
}

static taut_status need_cores(struct search *search, struct taut_stalls_needs *needs)
{
	taut_status status = begin(search, without_preparation, 0);

	search->try_at = with_cores;
	return status ? status : need_whole(search, MOST_CORES, &needs->cores);
}

/* Those that never idle have no use for more than cores. */
static uint32_t most_workers(const struct taut_stalls_model *model)
{
	double most = 2 * model->host.cores / model->n_ranks_host + 2;

	return model->job.idle_ns || model->host.cores <= 0 || most > MOST_WORKERS ?
		MOST_WORKERS : (uint32_t)most;
}

static taut_status need_workers(struct search *search, struct taut_stalls_needs *needs)
{
	taut_status status = begin(search, without_preparation, 0);

	search->try_at = with_workers;
	return status ? status :
		need_whole(search, most_workers(search->model), &needs->workers);
}

taut_status tauti_need(const struct taut_stalls_model *model, enum tauti_need which,
	struct taut_stalls_needs *needs, struct taut_error *reterr)
{
	static taut_status (*const find[TAUTI_NEEDS])(
		struct search *search, struct taut_stalls_needs *needs) = {
		[TAUTI_NEED_SHARE] = need_share, [TAUTI_NEED_RATE] = need_rate,
		[TAUTI_NEED_CORES] = need_cores, [TAUTI_NEED_WORKERS] = need_workers,
	};
	struct search search = { .model = model, .err = reterr };

	return find[which](&search, needs);
}
