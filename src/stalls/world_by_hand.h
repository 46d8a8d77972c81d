/* world_by_hand.h - for tests: jobs that are made up, and what their ranks would have
 * written. Times come from the virtual clock, so that all is known about them. */
#ifndef TAUT_STALLS_WORLD_BY_HAND_H
#define TAUT_STALLS_WORLD_BY_HAND_H

#include "tests/support/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/stalls.h>

#include "load/draw.h"
#include "stalls/stalls.h"

enum { WORLD_MS = 1000000 };

struct world {
	struct taut_feed_host host; /* its cache is left out while it is measured */
	struct taut_feed_job job;   /* n_ranks of them, all on this host */
	struct taut_feed_set set;
	const char *loader;
	uint32_t rounds, steps;
	double noise;       /* deviation of each wall time, as a share */
	double half_ns;     /* a step of half a batch; 0: no such phase */
	bool without_cold, without_own;
	double cpu_step_ns; /* of all, cached; 0: the sum of what is done */
	double cpu_place_ns;
	double own_step_ns; /* of the rank's own process, cached; 0: step and hand-over */
	double own_cold_ns; /* the same, cold; 0: as cached */
};

struct world_step {
	double took_ns, waited_ns;
};

/* A step in the middle of an epoch: 200 batches of a rank, and 600. */
static inline struct world_step world_step(const struct world *world, double kept)
{
	struct taut_feed_set set = world->set;
	struct taut_feed_host host = world->host;
	struct taut_feed_job jobs[8];
	struct taut_feed_epoch rows[24];
	double took_ns[2] = { 0 }, waited_ns[2] = { 0 };
	uint32_t n = world->job.n_ranks, n_epochs = kept > 0 ? 3 : 1;

	set.bytes = NULL;
	host.cache = kept > 0 ? TAUT_FEED_KEEP : TAUT_FEED_NONE;
	for (int i = 0; i < 2; i++) {
		set.n_items = (200 + 400 * (uint64_t)i) * world->job.batch * n;
		host.cache_bytes = (uint64_t)(kept * set.mean_bytes * (double)set.n_items);
		for (uint32_t r = 0; r < n; r++) {
			jobs[r] = world->job;
			jobs[r].set = &set;
			jobs[r].rank = r;
			jobs[r].epochs = n_epochs;
		}
		assert_int_equal(taut_feed_play(&host, jobs, n, rows,
			(size_t)n * n_epochs, NULL), TAUT_OK);
		for (uint32_t r = 0; r < n; r++) {
			const struct taut_feed_epoch *row =
				&rows[r * n_epochs + (kept > 0)];

			took_ns[i] = fmax(
				took_ns[i], (double)(row->end_ns - row->begin_ns));
			waited_ns[i] += (double)row->waited_ns / n;
		}
	}
	return (struct world_step){ (took_ns[1] - took_ns[0]) / 400,
		fmax(waited_ns[1] - waited_ns[0], 0) / 400 };
}

static inline struct world_step world_cached(const struct world *world)
{
	struct world cached = *world;

	cached.host.rate_bytes_s = 0;
	cached.host.latency_ns = 0;
	cached.host.n_served = 0;
	cached.job.read_cpu_ns = cached.job.read_cpu_ns_byte = 0;
	return world_step(&cached, 0);
}

static inline double world_gauss(struct tauti_draw *draw)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += tauti_draw_unit(draw);
	return sum - 6;
}

/* One phase of one rank, and its steps. cpu_ns, own_ns, bytes, opened: of a step. */
static inline void world_phase(FILE *out, const struct world *world, uint32_t round,
	const char *name, struct world_step step, double cpu_ns, double own_ns,
	double read_share, struct tauti_draw *draw)
{
	double n = world->steps, batch = world->job.batch;
	double bytes = strcmp(name, "place") && strcmp(name, "half") ?
		batch * world->set.mean_bytes : 0;
	double noise = exp(world->noise * world_gauss(draw));

	if (!strcmp(name, "half"))
		batch /= 2;
	fprintf(out, "phase %" PRIu32 " %s %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f",
		round, name, n, n * batch, n * step.took_ns * noise,
		n * step.waited_ns * noise, n * cpu_ns, n * bytes, n * bytes * read_share,
		bytes > 0 ? n * batch * world->job.n_ranks : 0,
		n * bytes * world->job.n_ranks);
	if (own_ns >= 0)
		fprintf(out, " %.0f", n * own_ns);
	fprintf(out, "\n");
	for (uint32_t i = 0; i < world->steps; i++)
		fprintf(out, "step %" PRIu32 " %s %.0f %.0f %" PRId64 "\n", round, name,
			step.took_ns * noise, step.waited_ns * noise,
			bytes > 0 && i % 2 == 0 ? world->job.take_ns : -1);
}

static inline void world_round(FILE *out, const struct world *world, uint32_t round,
	struct world_step cached, struct world_step cold, struct world_step part,
	struct tauti_draw *draw)
{
	const struct taut_feed_job *job = &world->job;
	double step_ns = (double)job->step_ns, batch = job->batch;
	double place_ns = world->cpu_place_ns > 0 ? world->cpu_place_ns :
		step_ns * job->step_cores;
	double own_ns = world->own_step_ns > 0 ? world->own_step_ns :
		place_ns + (double)job->take_ns;
	double cached_ns = own_ns + batch * (job->prepare_ns +
		job->prepare_ns_byte * world->set.mean_bytes);
	double more_ns = batch * job->read_cpu_ns;

	if (world->cpu_step_ns > 0)
		cached_ns = world->cpu_step_ns;
	if (world->without_own)
		own_ns = -1;
	world_phase(out, world, round, "place", (struct world_step){ step_ns, 0 },
		place_ns, -1, 0, draw);
	if (!world->without_cold)
		world_phase(out, world, round, "cold", cold, cached_ns + more_ns,
			world->own_cold_ns > 0 ? world->own_cold_ns : own_ns, 1, draw);
	world_phase(out, world, round, "cached", cached, cached_ns, own_ns, 0, draw);
	if (!world->without_cold)
		world_phase(out, world, round, "part", part, cached_ns + more_ns / 2,
			own_ns, 0.5, draw);
}

/* What a rank writes; to be freed. */
static inline char *world_text(const struct world *world, uint32_t rank)
{
	static const char *const units[] = { "item", "batch", "item" };
	const struct taut_feed_job *job = &world->job;
	struct tauti_draw draw = tauti_draw_begin(world->set.seed, 1, rank);
	struct world_step cached = world_cached(world), cold = { 0, 0 }, part = { 0, 0 };
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	if (!world->without_cold) {
		cold = world_step(world, 0);
		part = world_step(world, 0.5);
	}
	fprintf(out, "taut-stalls 1\nrank %" PRIu32 " of %" PRIu32 "\nhost here\nloader %s\n"
		"unit %s\nworkers %" PRIu32 "\ndepth %" PRIu32 "\nbatch %" PRIu32 "\nitems %"
		PRIu64 "\ndevice 0\ncores %.0f\n", rank, job->n_ranks, world->loader ?
		world->loader : job->form == TAUT_FEED_OURS ? "taut" : "torch",
		units[job->form], job->n_workers, job->depth, job->batch,
		world->set.n_items, world->host.cores);
	for (uint32_t i = 0; i < world->rounds; i++)
		world_round(out, world, i, cached, cold, part, &draw);
	if (world->half_ns > 0)
		world_phase(out, world, 0, "half",
			(struct world_step){ world->half_ns, 0 },
			world->half_ns * job->step_cores, -1, 0, &draw);
	fprintf(out, "end\n");
	assert_int_equal(fclose(out), 0);
	return text;
}

static inline struct taut_stalls *world_open(const struct world *world)
{
	uint32_t n = world->job.n_ranks;
	struct tauti_measured *ranks = calloc(n, sizeof *ranks);
	struct tauti_listed listed = { .paths = NULL };
	struct taut_error err = { .message = "" };
	struct taut_stalls *stalls = NULL;

	for (uint32_t i = 0; i < n; i++) {
		char *text = world_text(world, i);

		if (tauti_measured_parse(text, strlen(text), "rank", &ranks[i], &err))
			fail_msg("%s", err.message);
		free(text);
	}
	if (tauti_stalls_make(ranks, n, 1, &listed, &stalls, &err))
		fail_msg("%s", err.message);
	return stalls;
}

/* As if somebody had probed it without an error. */
static inline struct taut_stalls_storage world_storage(const struct world *world)
{
	return (struct taut_stalls_storage){
		.rate_bytes_s = (double)world->host.rate_bytes_s,
		.latency_ns = world->host.latency_ns,
		.n_served = world->host.n_served,
		.n_points = 1,
	};
}

static inline struct taut_stalls_model world_model(
	const struct world *world, const struct taut_stalls_storage *storage)
{
	struct taut_stalls *stalls = world_open(world);
	struct taut_stalls_model model;
	struct taut_error err = { .message = "" };

	if (taut_stalls_model(stalls, storage, world->host.cache_bytes, &model, &err))
		fail_msg("%s", err.message);
	taut_stalls_close(stalls);
	return model;
}

static inline void world_near(double is, double should, double share, const char *what)
{
	if (!(fabs(is - should) <= share * fabs(should) + 1e-9))
		fail_msg("%s is %g, expected %g to %g %%", what, is, should, 100 * share);
}

#endif /* TAUT_STALLS_WORLD_BY_HAND_H */
