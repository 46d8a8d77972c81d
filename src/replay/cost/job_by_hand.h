/* job_by_hand.h - a data-parallel job whose costs are known: it is replayed with
 * them, and what comes out stands for its recording. For tests only.
 *
 * Every rank has a thread that computes and `ways` lanes of communication; a
 * step is OPS operations of two sizes, and behind some of them a collective is
 * begun, on the ways in turn. No memory: abort(). */
#ifndef TAUT_REPLAY_COST_JOB_BY_HAND_H
#define TAUT_REPLAY_COST_JOB_BY_HAND_H

#include <math.h>
#include <stdio.h>

#include "replay/by_hand.h"

#include <taut/cost.h>

enum { JOB_RANKS = 4, JOB_OPS = 24, JOB_STEPS = 3 };

struct job_truth {
	uint32_t ranks;      /* at most JOB_RANKS */
	uint32_t ways;       /* collectives under way at once, 1 or 2 */
	uint32_t every;      /* so many operations a collective */
	double alpha, beta;  /* ns; ns a byte of law network_bytes */
	double drag;
	int has_sizes;       /* the recording tells those of inputs */
	int one_host;
	double slow;         /* step 1 takes so much more of every rank's time,
	                        and moves more; 0: as the others */
	double unfair;       /* every other transfer gets 1 for so much of the
	                        link, while both want it; 0: fair */
};

struct job {
	struct by_hand *hand;
	struct taut_graph graph;
	struct taut_run run;
	struct taut_trace traces[JOB_RANKS];
	struct taut_names *names; /* of all traces */
	struct taut_clock_row clocks[JOB_RANKS];
	struct taut_step steps[JOB_RANKS * JOB_STEPS];
	int64_t *start_ns, *dur_ns, *true_ns; /* as recorded; undisturbed */
	uint32_t *event, *collective, *member_arrive;
	struct taut_collective *collectives;
	struct taut_transfer *truth; /* by collective */
	struct taut_site site;
	struct taut_host hosts[JOB_RANKS];
	uint32_t host_of[JOB_RANKS];
	double core[JOB_RANKS];
};

static inline void *job_array(size_t n, size_t size)
{
	void *array = calloc(n + 1, size);

	by_hand_must(array != NULL);
	return array;
}

static inline int64_t job_bytes(
	const struct job_truth *truth, uint32_t step, uint32_t i)
{
	if (truth->slow > 0)
		return step == 1 ? 2000000 : 400000;
	return 400000 * (1 + (i * 7 + step * 3) % 5);
}

/* What operation i of a step takes, of two sorts in turn: the same number is
 * the same work. */
static inline int64_t job_work(
	const struct job_truth *truth, uint32_t step, uint32_t i)
{
	double ns = i % 3 ? 400000 : 700000;

	if (step == 1 && truth->slow > 0)
		ns *= 1 + truth->slow;
	return (int64_t)ns;
}

/* One step of one rank on its thread; arrive[] are of its collectives. */
static inline void job_compute(struct job *job, const struct job_truth *truth,
	uint32_t rank, uint32_t step, uint32_t *ret_begin)
{
	struct taut_step *s = &job->steps[rank * JOB_STEPS + step];

	s->trace = rank;
	s->id = step;
	s->begin_op = by_hand_op(job->hand, TAUT_OP_MARK, "step", 0, 0);
	for (uint32_t i = 0; i < JOB_OPS; i++) {
		uint32_t op = by_hand_op(job->hand, TAUT_OP_HOST,
			i % 3 ? "mul" : "conv",
			job_work(truth, step, i) + 1000 * (int64_t)rank, 0);

		if (i % truth->every == 0)
			*ret_begin++ = op;
	}
	s->end_op = by_hand_op(job->hand, TAUT_OP_MARK, "step", 0, 0);
}

/* Threads first: begun[rank][step * n + i] began collective i of a step. */
static inline void job_lay(struct job *job, const struct job_truth *truth)
{
	uint32_t n = (JOB_OPS + truth->every - 1) / truth->every;
	uint32_t all = n * JOB_STEPS, p = truth->ranks;
	uint32_t *begun = job_array(p * all, sizeof *begun);

	for (uint32_t r = 0; r < p; r++) {
		by_hand_lane(job->hand, (int)r);
		for (uint32_t s = 0; s < JOB_STEPS; s++)
			job_compute(job, truth, r, s, &begun[r * all + s * n]);
	}
	job->member_arrive = job_array(p * all, sizeof(uint32_t));
	for (uint32_t r = 0; r < p; r++)
		for (uint32_t w = 0; w < truth->ways; w++) {
			uint32_t lane = by_hand_lane(job->hand, (int)r);

			job->hand->lanes.data[lane].is_comm = 1;
			for (uint32_t c = w; c < all; c += truth->ways) {
				uint32_t at = by_hand_op(job->hand,
					TAUT_OP_ARRIVE, "sum", 0, 0);

				by_hand_op(job->hand, TAUT_OP_TRANSFER, "sum",
					0, 0);
				by_hand_edge(job->hand, begun[r * all + c],
					at, TAUT_EDGE_THREAD, 0);
				job->member_arrive[c * p + r] = at;
			}
		}
	by_hand_lane(job->hand, -1);
	job->collectives = job_array(all, sizeof *job->collectives);
	job->truth = job_array(all, sizeof *job->truth);
	for (uint32_t c = 0; c < all; c++) {
		uint32_t join = by_hand_op(
			job->hand, TAUT_OP_JOIN, "sum", 0, 0);

		job->collectives[c] = (struct taut_collective){
			.kind = TAUT_COLL_ALLREDUCE, .group_size = (int32_t)p,
			.bytes = job_bytes(truth, c / n, c % n), .seq = c,
			.first_member = c * p, .n_members = p,
			.join_op = join };
		for (uint32_t r = 0; r < p; r++) {
			uint32_t at = job->member_arrive[c * p + r];

			by_hand_edge(job->hand, at, join, TAUT_EDGE_COMM, 0);
			by_hand_edge(job->hand, join, at + 1, TAUT_EDGE_COMM,
				0);
		}
	}
	job->graph.n_collectives = all;
	free(begun);
	/* a step begins when the one before is summed up, and it is the last */
	for (uint32_t r = 0; r < p; r++)
		for (uint32_t s = 0; s < JOB_STEPS; s++)
			for (uint32_t w = 0; w < truth->ways && w < n; w++)
				by_hand_edge(job->hand, job->member_arrive[
					(s * n + n - 1 - w) * p + r] + 1,
					job->steps[r * JOB_STEPS + s].end_op,
					TAUT_EDGE_SYNC, 0);
}

static inline void job_stand(struct job *job, const struct job_truth *truth)
{
	job->site = (struct taut_site){ .n_hosts = truth->ranks,
		.hosts = job->hosts, .n_ranks = truth->ranks,
		.host_of = job->host_of, .core = job->core };
	for (uint32_t r = 0; r < truth->ranks; r++) {
		job->hosts[r] = (struct taut_host){ 1, 1, 1 };
		job->host_of[r] = truth->one_host ? 0 : r;
		job->core[r] = 1;
	}
	for (uint32_t c = 0; c < job->graph.n_collectives; c++) {
		struct taut_law_in in = { .ranks = truth->ranks,
			.hosts = truth->one_host ? 1 : truth->ranks,
			.bytes = (double)job->collectives[c].bytes };
		struct taut_law law = taut_law(&in);

		job->truth[c] = (struct taut_transfer){
			.amount = truth->beta * (law.network_bytes > 0 ?
				law.network_bytes : law.local_bytes),
			.latency_ns = (int64_t)truth->alpha,
			.core = truth->drag,
			.on_network = !truth->one_host };
	}
}

/* A rank's trace: one lane, an event for every operation of its thread. */
static inline void job_trace(struct job *job, uint32_t rank, int has_sizes,
	int one_host)
{
	static const char *const hosts[] = { "a", "b", "c", "d" };
	struct taut_trace *t = &job->traces[rank];
	uint32_t first = job->graph.lane_begin[rank];
	size_t n = job->graph.lane_begin[rank + 1] - first;
	int64_t *start = job_array(n, sizeof *start);
	int64_t *dur = job_array(n, sizeof *dur);
	uint32_t *name = job_array(n, sizeof *name);
	uint32_t *sizes = job_array(n, sizeof *sizes);
	uint32_t *begin = job_array(2, sizeof *begin);
	uint8_t *kind = job_array(n, 1);
	struct taut_lane *lane = job_array(1, sizeof *lane);

	for (size_t i = 0; i < n; i++) {
		uint32_t op = first + (uint32_t)i;
		const char *text = taut_names_text(
			job->graph.names, job->graph.name[op]);

		start[i] = job->start_ns[op];
		dur[i] = job->dur_ns[op];
		name[i] = taut_names_add(job->names, text, strlen(text));
		kind[i] = TAUT_KIND_OP;
		sizes[i] = has_sizes ? taut_names_add(job->names,
			"[[4, 4]]", 8) : 0;
		job->event[op] = (uint32_t)i;
	}
	begin[1] = (uint32_t)n;
	*t = (struct taut_trace){ .path = "by hand", .format = "", .clock = "",
		.host = hosts[one_host ? 0 : rank], .rank = (int32_t)rank,
		.world_size = -1, .n_events = n, .start_ns = start,
		.dur_ns = dur, .name = name, .kind = kind, .sizes = sizes,
		.n_lanes = 1, .lanes = lane, .lane_begin = begin,
		.names = job->names };
}

/* A unit of such a flow is 1 / unfair of one of the others. */
static inline void job_be_unfair(struct taut_sharing *sharing, double unfair)
{
	struct taut_flow *flows = (struct taut_flow *)sharing->flows;
	struct taut_flow_use *uses = (struct taut_flow_use *)sharing->uses;

	for (uint32_t i = 1; i < sharing->n_flows; i += 2) {
		flows[i].amount *= unfair;
		for (uint32_t k = 0; k < flows[i].n_uses; k++)
			uses[flows[i].first_use + k].weight /= unfair;
	}
}

/* What the replay with the true costs gives is what was recorded. */
static inline void job_record(struct job *job, const struct job_truth *truth)
{
	struct taut_sharing *sharing;
	struct taut_timeline t;
	struct taut_replay_edit edit = { 0 };
	struct taut_error err;
	uint32_t n = job->graph.n_ops;

	job->start_ns = job_array(n, sizeof(int64_t));
	job->dur_ns = job_array(n, sizeof(int64_t));
	job->true_ns = job_array(n, sizeof(int64_t));
	memcpy(job->true_ns, job->graph.dur_ns, n * sizeof(int64_t));
	if (taut_sharing_create(&job->graph, &job->site, job->truth, &sharing,
			&err) ||
		taut_timeline_init(&t, &job->graph, &err)) {
		fprintf(stderr, "%s\n", err.message);
		abort();
	}
	if (truth->unfair > 0)
		job_be_unfair(sharing, truth->unfair);
	edit.sharing = sharing;
	by_hand_must(!taut_replay(&job->graph, &edit, &t, &err));
	for (uint32_t i = 0; i < n; i++) {
		job->start_ns[i] = t.start_ns[i];
		job->dur_ns[i] = t.end_ns[i] - t.start_ns[i];
	}
	for (uint32_t i = 0; i < job->graph.n_steps; i++) {
		job->steps[i].start_ns = t.start_ns[job->steps[i].begin_op];
		job->steps[i].end_ns = t.end_ns[job->steps[i].end_op];
	}
	taut_timeline_fini(&t);
	taut_sharing_destroy(sharing);
}

static inline struct job *job_create(const struct job_truth *truth)
{
	struct job *job = job_array(1, sizeof *job);
	uint32_t n;

	job->hand = by_hand_create();
	job->names = taut_names_create();
	by_hand_must(job->names != NULL);
	job_lay(job, truth);
	n = job->graph.n_collectives;
	job->graph = *by_hand_graph(job->hand);
	job->graph.n_collectives = n;
	n = job->graph.n_ops;
	job->event = job_array(n, sizeof(uint32_t));
	job->collective = job_array(n, sizeof(uint32_t));
	memset(job->event, 0xff, n * sizeof(uint32_t));
	job->graph.event = NULL;
	job->graph.collective = job->collective;
	job->graph.collectives = job->collectives;
	job->graph.member_arrive = job->member_arrive;
	job->graph.steps = job->steps;
	job->graph.n_steps = truth->ranks * JOB_STEPS;
	job_stand(job, truth);
	job_record(job, truth);
	for (uint32_t r = 0; r < truth->ranks; r++)
		job_trace(job, r, truth->has_sizes, truth->one_host);
	job->run = (struct taut_run){ .path = "by hand",
		.n_traces = truth->ranks, .traces = job->traces };
	job->graph.run = &job->run;
	job->graph.event = job->event;
	job->graph.clocks = job->clocks;
	job->graph.start_ns = job->start_ns;
	job->graph.dur_ns = job->dur_ns;
	return job;
}

static inline void job_destroy(struct job *job)
{
	for (uint32_t r = 0; r < job->run.n_traces; r++) {
		struct taut_trace *t = &job->traces[r];

		free((void *)t->start_ns);
		free((void *)t->dur_ns);
		free((void *)t->name);
		free((void *)t->sizes);
		free((void *)t->kind);
		free((void *)t->lanes);
		free((void *)t->lane_begin);
	}
	free(job->start_ns);
	free(job->dur_ns);
	free(job->true_ns);
	free(job->event);
	free(job->collective);
	free(job->member_arrive);
	free(job->collectives);
	free(job->truth);
	taut_names_destroy(job->names);
	by_hand_destroy(job->hand);
	free(job);
}

#endif /* TAUT_REPLAY_COST_JOB_BY_HAND_H */
