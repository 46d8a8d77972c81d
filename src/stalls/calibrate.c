/* calibrate.c - see calibrate.h. */
#include "stalls/calibrate.h"

#include <math.h>

enum { HALVINGS = 12 };
#define RIGHT 0.005 /* a play that is off by less is not corrected */
#define FULL 0.9    /* of the cores: all are at work */

struct tauti_scene tauti_scene_of(const struct taut_stalls_model *model)
{
	return (struct tauti_scene){ .host = model->host, .job = model->job,
		.n_ranks = model->n_ranks_host, .n_jobs = 1 };
}

/* --- plays -----------------------------------------------------------------------------*/

typedef taut_status (*play_fn)(const struct tauti_seen *seen,
	const struct taut_stalls_model *model, struct tauti_played *ret_step,
	struct taut_error *reterr);

static taut_status play_cached(const struct tauti_seen *seen,
	const struct taut_stalls_model *model, struct tauti_played *ret_step,
	struct taut_error *reterr)
{
	struct tauti_scene scene = tauti_scene_of(model);

	(void)seen;
	scene.host.rate_bytes_s = 0;
	scene.host.latency_ns = 0;
	scene.host.n_served = 0;
	scene.job.read_cpu_ns = scene.job.read_cpu_ns_byte = 0;
	return tauti_play_step(&scene, &model->set, 0, ret_step, reterr);
}

static taut_status play_cold(const struct tauti_seen *seen,
	const struct taut_stalls_model *model, struct tauti_played *ret_step,
	struct taut_error *reterr)
{
	struct tauti_scene scene = tauti_scene_of(model);

	return tauti_play_step(&scene, &model->set, seen->cold_kept, ret_step, reterr);
}

static taut_status play_part(const struct tauti_seen *seen,
	const struct taut_stalls_model *model, struct tauti_played *ret_step,
	struct taut_error *reterr)
{
	struct tauti_scene scene = tauti_scene_of(model);

	return tauti_play_step(&scene, &model->set, seen->part_kept, ret_step, reterr);
}

/* --- one number that makes a play right --------------------------------------------------*/

/* Of the model as it was, so many times as slow. */
typedef void (*turn_fn)(
	const struct tauti_seen *seen, struct taut_stalls_model *model, double slower);

static taut_status try_at(const struct tauti_seen *seen, play_fn play, turn_fn turn,
	const struct taut_stalls_model *base, double slower, double *ret_took_ns,
	struct taut_error *reterr)
{
	struct taut_stalls_model model = *base;
	struct tauti_played step;
	taut_status status;

	turn(seen, &model, slower);
	status = play(seen, &model, &step, reterr);
	if (!status)
		*ret_took_ns = step.took_ns;
	return status;
}

/* Between 1 and `most`, which is above or below it. What is out of reach is left. */
static taut_status solve(const struct tauti_seen *seen, play_fn play, turn_fn turn,
	double most, double target_ns, struct taut_stalls_model *model,
	struct taut_error *reterr)
{
	double near = 0, far = log(most), took_ns = 0;
	taut_status status = try_at(seen, play, turn, model, most, &took_ns, reterr);

	if (status || (most > 1 ? took_ns < target_ns : took_ns > target_ns))
		return status;
	for (int i = 0; i < HALVINGS && !status; i++) {
		double middle = (near + far) / 2;

		status = try_at(seen, play, turn, model, exp(middle), &took_ns, reterr);
		if ((took_ns < target_ns) == (most > 1))
			near = middle;
		else
			far = middle;
	}
	if (!status)
		turn(seen, model, exp((near + far) / 2));
	return status;
}

static void turn_prepare(
	const struct tauti_seen *seen, struct taut_stalls_model *model, double slower)
{
	(void)seen;
	model->job.prepare_ns *= slower;
	model->job.prepare_ns_byte *= slower;
}

/* Twice as slow: a worker idles for all the time that it has for an item. */
static void turn_idle(
	const struct tauti_seen *seen, struct taut_stalls_model *model, double slower)
{
	double workers = model->job.n_workers ? model->job.n_workers : 1;
	double item_ns = seen->cached_ns * workers / model->job.batch;

	model->job.idle_ns = llround((slower - 1) * item_ns);
}

static void turn_crowd(
	const struct tauti_seen *seen, struct taut_stalls_model *model, double slower)
{
	double crowd = model->host.crowd > 0 ? model->host.crowd : 1;

	(void)seen;
	model->host.crowd = crowd / slower;
}

static void turn_storage(
	const struct tauti_seen *seen, struct taut_stalls_model *model, double slower)
{
	double rate = (double)model->host.rate_bytes_s / slower;

	(void)seen;
	if (model->host.rate_bytes_s)
		model->host.rate_bytes_s = (uint64_t)fmax(rate, 1);
	model->host.latency_ns = llround((double)model->host.latency_ns * slower);
}

/* --- cached ----------------------------------------------------------------------------*/

static double off(double is_ns, double should_ns)
{
	return is_ns / should_ns - 1;
}

/* A fresh batch, over what was seen of handing it over. */
static void raise_take(const struct tauti_seen *seen, const struct tauti_played *step,
	struct taut_stalls_model *model)
{
	double missing_ns = seen->cached_ns - step->took_ns;
	double own_ns = seen->own_ns - (step->took_ns - step->waited_ns);

	if (seen->own_ns >= 0 && own_ns > 0)
		model->job.take_ns += (int64_t)fmin(missing_ns, own_ns);
}

static taut_status fit_cached(const struct tauti_seen *seen,
	struct taut_stalls_model *model, struct taut_error *reterr)
{
	bool is_full = model->host.cores > 1 && seen->busy > FULL * model->host.cores;
	double target_ns = seen->cached_ns, right = fmax(RIGHT, seen->cached_doubt);
	struct tauti_played step;
	taut_status status = play_cached(seen, model, &step, reterr);

	if (!status && off(step.took_ns, target_ns) < -right) {
		raise_take(seen, &step, model);
		status = play_cached(seen, model, &step, reterr);
	}
	if (status || fabs(off(step.took_ns, target_ns)) <= right)
		return status;
	if (step.took_ns > target_ns)
		return solve(seen, play_cached, turn_prepare, 0.5, target_ns, model, reterr);
	return is_full ?
		solve(seen, play_cached, turn_crowd, 2, target_ns, model, reterr) :
		solve(seen, play_cached, turn_idle, 2, target_ns, model, reterr);
}

/* --- cold ------------------------------------------------------------------------------*/

static taut_status fit_cold(const struct tauti_seen *seen,
	struct taut_stalls_model *model, struct taut_error *reterr)
{
	struct tauti_played step;
	taut_status status = play_cold(seen, model, &step, reterr);

	if (status || fabs(off(step.took_ns, seen->cold_ns)) <=
		fmax(RIGHT, seen->cold_doubt))
		return status;
	return solve(seen, play_cold, turn_storage,
		step.took_ns > seen->cold_ns ? 1 / 16.0 : 16, seen->cold_ns, model, reterr);
}

taut_status tauti_calibrate(const struct tauti_seen *seen,
	struct taut_stalls_model *model, struct taut_error *reterr)
{
	const struct {
		double took_ns;
		play_fn play;
		taut_status (*fit)(const struct tauti_seen *seen,
			struct taut_stalls_model *model, struct taut_error *reterr);
	} rows[] = {
		{ seen->cached_ns, play_cached, fit_cached },
		{ seen->cold_ns, play_cold, fit_cold },
		{ seen->part_ns, play_part, NULL },
	};
	taut_status status = TAUT_OK;

	for (int i = 0; i < 3 && !status; i++) {
		struct tauti_played step;

		model->error[i] = 0;
		if (rows[i].took_ns <= 0)
			continue;
		if (rows[i].fit)
			status = rows[i].fit(seen, model, reterr);
		if (!status)
			status = rows[i].play(seen, model, &step, reterr);
		if (!status)
			model->error[i] = off(step.took_ns, rows[i].took_ns);
	}
	return status;
}
