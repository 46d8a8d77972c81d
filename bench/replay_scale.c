/* replay_scale.c - how long a replay of a large job takes on one core.
 *
 *     replay_scale [--micro N] [--layers N] [--backbone N] [RANKS...]
 *
 *     replay_scale --run PATH CHANGE...
 *
 * RANKS are 8 64 256 1024 by default. With --run, a recorded job with changes of
 * `taut whatif`, each by itself: world=1024,link=100gbit. A stack of them is one
 * word, with spaces: "stages=8 world=1024". Otherwise:
 *
 * One step of a GPT-like job that is parallel in three dimensions: 8 ranks of a
 * host split each layer (TP), up to 8 hosts are the stages of a pipeline (PP,
 * one forward one backward), the rest are copies (DP). A stage has 12 layers
 * and 16 micro-batches by default. A rank has a host thread (a slice and a
 * launch before all device work), a stream of kernels, and streams of
 * collectives; every collective is a flow: those of TP on the link within a
 * host, those of PP and DP on the links between hosts, which the 8 ranks of a
 * host share. With --backbone they also cross one link that is as fast as those
 * of N hosts, so that each of them is connected with all others. Durations vary by 10 %, so that ranks drift apart. Same
 * arguments, same graph.
 *
 * Prints a line a size: seconds are the median of RUNS replays without order,
 * by the clock and of the processor; peak is what the process ever held, the
 * graph included. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <replay/share_by_hand.h>
#include <taut/whatif.h>

enum {
	RUNS = 3,
	TP = 8,
	MOST_STAGES = 8,
	BUCKETS = 4,          /* of a stage's gradients */
	FORWARD_KERNELS = 10, /* of a layer; two all-reduces among them */
	BACKWARD_KERNELS = 20,
	UPDATE_KERNELS = 12,
	MOST_CHANGES = 16,
};

enum lane { HOST, COMPUTE, ALL_REDUCE, FORWARD_IN, FORWARD_OUT, BACKWARD_IN,
	BACKWARD_OUT, GRADIENTS, LANES };

struct place { /* an op of the rank that is being made */
	uint32_t lane, at;
};

struct wait {
	struct place from, to;
	int64_t lag_ns;
	unsigned kind;
};

struct op {
	int64_t dur_ns;
	uint8_t kind;
};

struct job {
	struct by_hand *hand;
	struct share_by_hand *share;
	uint32_t n_ranks, n_stages, n_copies, n_micro, n_layers;
	uint32_t backbone; /* hosts; 0: none */
	uint64_t seed;
	/* the rank that is being made */
	TAUT_VEC(struct op) ops[LANES];
	TAUT_VEC(struct wait) waits;
	uint32_t until; /* lane whose last op the next kernel waits for */
	uint32_t *first_op; /* by (rank, lane) */
	uint32_t *n_ops;
};

/* About usual_ns: splitmix64, and a remainder. */
static int64_t vary(struct job *job, int64_t usual_ns)
{
	uint64_t x = job->seed += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return usual_ns * 9 / 10 + (int64_t)(x % (uint64_t)(usual_ns / 5 + 1));
}

static struct place add(
	struct job *job, enum lane lane, enum taut_op_kind kind, int64_t dur_ns)
{
	struct op op = { dur_ns, (uint8_t)kind };
	by_hand_must(taut_vec_push(&job->ops[lane], op));
	return (struct place){ lane, (uint32_t)job->ops[lane].count - 1 };
}

static void wait_for(struct job *job, struct place from, struct place to,
	unsigned kind, int64_t lag_ns)
{
	struct wait wait = { from, to, lag_ns, kind };
	by_hand_must(taut_vec_push(&job->waits, wait));
}

static struct place last(const struct job *job, enum lane lane)
{
	return (struct place){ lane, (uint32_t)job->ops[lane].count - 1 };
}

/* The host launches what stands last on a lane. */
static void launch(struct job *job, struct place work)
{
	add(job, HOST, TAUT_OP_HOST, vary(job, 4000));
	struct place call = add(job, HOST, TAUT_OP_LAUNCH, vary(job, 3000));
	wait_for(job, call, work,
		TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START, 4000);
}

static void kernels(struct job *job, int n, int64_t usual_ns)
{
	for (int i = 0; i < n; i++) {
		struct place kernel = add(
			job, COMPUTE, TAUT_OP_KERNEL, vary(job, usual_ns));
		launch(job, kernel);
		if (job->until != LANES)
			wait_for(job, last(job, job->until), kernel,
				TAUT_EDGE_STREAM, 0);
		job->until = LANES;
	}
}

/* Waits for the kernels before it, or not; the next kernel waits for it, or
 * not. */
static void collective(struct job *job, enum lane lane, int after, int before)
{
	struct place arrive = add(job, lane, TAUT_OP_ARRIVE, 0);
	launch(job, arrive);
	if (after)
		wait_for(job, last(job, COMPUTE), arrive, TAUT_EDGE_STREAM, 0);
	add(job, lane, TAUT_OP_TRANSFER, 0);
	if (before)
		job->until = lane;
}

static void layer(struct job *job, int n_kernels, int64_t usual_ns)
{
	for (int half = 0; half < 2; half++) {
		kernels(job, n_kernels / 2, usual_ns);
		collective(job, ALL_REDUCE, 1, 1);
	}
}

static void forward(struct job *job, uint32_t stage)
{
	if (stage)
		collective(job, FORWARD_IN, 0, 1);
	for (uint32_t i = 0; i < job->n_layers; i++)
		layer(job, FORWARD_KERNELS, 60000);
	if (stage + 1 < job->n_stages)
		collective(job, FORWARD_OUT, 1, 0);
}

static void backward(struct job *job, uint32_t stage, int is_last)
{
	uint32_t n = job->n_layers;
	if (stage + 1 < job->n_stages)
		collective(job, BACKWARD_IN, 0, 1);
	for (uint32_t i = 0; i < n; i++) {
		layer(job, BACKWARD_KERNELS, 60000);
		if (is_last && job->n_copies > 1 &&
				(i + 1) * BUCKETS / n != i * BUCKETS / n)
			collective(job, GRADIENTS, 1, 0);
	}
	if (stage)
		collective(job, BACKWARD_OUT, 1, 0);
}

static void step(struct job *job, uint32_t stage)
{
	uint32_t ahead = job->n_stages - 1 - stage, done = 0;
	if (ahead > job->n_micro)
		ahead = job->n_micro;
	add(job, HOST, TAUT_OP_MARK, 0);
	for (uint32_t i = 0; i < job->n_micro + ahead; i++) {
		if (i < job->n_micro)
			forward(job, stage);
		if (i >= ahead) {
			done++;
			backward(job, stage, done == job->n_micro);
		}
	}
	if (job->n_copies > 1)
		job->until = GRADIENTS;
	kernels(job, UPDATE_KERNELS, 200000);
	wait_for(job, last(job, COMPUTE),
		add(job, HOST, TAUT_OP_RETURN, 2000), TAUT_EDGE_SYNC, 1000);
	add(job, HOST, TAUT_OP_MARK, 0);
}

/* --- ranks and collectives -------------------------------------------------*/

static void flush_rank(struct job *job, uint32_t rank)
{
	static const char *const names[LANES] = { "host", "kernel",
		"all-reduce", "recv", "send", "recv", "send", "gradients" };
	uint32_t *first_op = &job->first_op[rank * LANES];
	for (int lane = 0; lane < LANES; lane++) {
		first_op[lane] = (uint32_t)job->hand->dur_ns.count;
		job->n_ops[rank * LANES + (uint32_t)lane] =
			(uint32_t)job->ops[lane].count;
		by_hand_lane(job->hand, (int)rank);
		for (size_t i = 0; i < job->ops[lane].count; i++)
			by_hand_op(job->hand, job->ops[lane].data[i].kind,
				names[lane], job->ops[lane].data[i].dur_ns, 0);
		taut_vec_clear(&job->ops[lane]);
	}
	for (size_t i = 0; i < job->waits.count; i++) {
		const struct wait *wait = &job->waits.data[i];
		by_hand_edge(job->hand,
			first_op[wait->from.lane] + wait->from.at,
			first_op[wait->to.lane] + wait->to.at,
			wait->kind, wait->lag_ns);
	}
	taut_vec_clear(&job->waits);
}

struct member {
	uint32_t rank, lane;
};

/* The resources of a host. */
static uint32_t within(uint32_t host)
{
	return 3 * host;
}

static uint32_t out_of(uint32_t host)
{
	return 3 * host + 1;
}

static uint32_t into(uint32_t host)
{
	return 3 * host + 2;
}

/* All collectives of a group, one by one as they stand on its lanes. */
static void join_group(struct job *job, const struct member *members,
	uint32_t n, double amount, int64_t latency_ns)
{
	uint32_t first = members[0].rank * LANES + members[0].lane;
	for (uint32_t i = 0; i < job->n_ops[first]; i += 2) {
		uint32_t flow = share_flow(job->share, amount, latency_ns);
		uint32_t join = by_hand_op(
			job->hand, TAUT_OP_JOIN, "join", 0, 0);
		if (job->backbone && members[0].lane != ALL_REDUCE)
			share_use(job->share, 3 * (job->n_ranks / TP), 1);
		for (uint32_t m = 0; m < n; m++) {
			uint32_t arrive = i + job->first_op[
				members[m].rank * LANES + members[m].lane];
			uint32_t host = members[m].rank / TP;
			by_hand_edge(job->hand, arrive, join,
				TAUT_EDGE_COMM, 0);
			by_hand_edge(job->hand, join, arrive + 1,
				TAUT_EDGE_COMM, 0);
			share_op(job->share, arrive + 1, flow);
			if (members[0].lane == GRADIENTS || m == 0)
				share_use(job->share, members[0].lane ==
					ALL_REDUCE ? within(host)
					: out_of(host), 1);
			if (members[0].lane == GRADIENTS ||
					(members[0].lane != ALL_REDUCE && m))
				share_use(job->share, into(host), 1);
		}
	}
}

static void join_host(struct job *job, uint32_t host)
{
	struct member members[TP];
	for (uint32_t i = 0; i < TP; i++)
		members[i] = (struct member){ host * TP + i, ALL_REDUCE };
	join_group(job, members, TP, 90000, 8000);
}

/* Ranks are (copy, stage, part of a layer). */
static void join_pipeline(struct job *job, uint32_t rank)
{
	uint32_t stage = rank / TP % job->n_stages;
	struct member forward[2] = {
		{ rank, FORWARD_OUT }, { rank + TP, FORWARD_IN }
	};
	struct member backward[2] = {
		{ rank + TP, BACKWARD_OUT }, { rank, BACKWARD_IN }
	};
	if (stage + 1 == job->n_stages)
		return;
	join_group(job, forward, 2, 15000, 10000);
	join_group(job, backward, 2, 15000, 10000);
}

static void join_copies(struct job *job, uint32_t rank)
{
	struct member members[1024];
	uint32_t apart = job->n_stages * TP;
	for (uint32_t i = 0; i < job->n_copies; i++)
		members[i] = (struct member){ rank + i * apart, GRADIENTS };
	join_group(job, members, job->n_copies, 1500000, 30000);
}

static void join_all(struct job *job)
{
	uint32_t n_hosts = job->n_ranks / TP;
	by_hand_lane(job->hand, -1);
	for (uint32_t i = 0; i < 3 * n_hosts; i++)
		share_resource(job->share, 1);
	if (job->backbone)
		share_resource(job->share, job->backbone);
	for (uint32_t host = 0; host < n_hosts; host++)
		join_host(job, host);
	for (uint32_t rank = 0; rank < job->n_ranks; rank++)
		join_pipeline(job, rank);
	for (uint32_t rank = 0; rank < job->n_stages * TP; rank++) {
		if (job->n_copies > 1)
			join_copies(job, rank);
	}
}

static void make_job(struct job *job)
{
	uint32_t n_hosts = job->n_ranks / TP;
	size_t n_lanes = (size_t)job->n_ranks * LANES;
	job->hand = by_hand_create();
	job->share = share_by_hand_create();
	job->until = LANES;
	job->n_stages = n_hosts < MOST_STAGES ? n_hosts : MOST_STAGES;
	job->n_copies = n_hosts / job->n_stages;
	job->first_op = calloc(n_lanes, sizeof *job->first_op);
	job->n_ops = calloc(n_lanes, sizeof *job->n_ops);
	by_hand_must(job->first_op && job->n_ops);
	for (uint32_t rank = 0; rank < job->n_ranks; rank++) {
		step(job, rank / TP % job->n_stages);
		flush_rank(job, rank);
	}
	join_all(job);
	for (int lane = 0; lane < LANES; lane++)
		taut_vec_free(&job->ops[lane]);
	taut_vec_free(&job->waits);
	free(job->first_op);
	free(job->n_ops);
}

/* --- measuring ---------------------------------------------------------------*/

static int by_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static int64_t cpu_ns(void)
{
	struct timespec used;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

static void print_row(const struct taut_graph *graph, uint32_t n_flows,
	const struct taut_timeline *timeline, int64_t *took_ns,
	int64_t *used_ns)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	qsort(took_ns, RUNS, sizeof *took_ns, by_time);
	qsort(used_ns, RUNS, sizeof *used_ns, by_time);
	printf(" %9u %9u %8u %9.3f %8.3f %8.3f %6.2f %8.0f\n",
		(unsigned)graph->n_ops, (unsigned)graph->n_edges,
		(unsigned)n_flows, (double)timeline->makespan_ns / 1e6,
		(double)took_ns[RUNS / 2] / 1e9,
		(double)used_ns[RUNS / 2] / 1e9,
		graph->n_ops * 1e3 / (double)used_ns[RUNS / 2],
		(double)usage.ru_maxrss / 1024);
	fflush(stdout);
}

static taut_status measure(const struct taut_graph *graph,
	const struct taut_sharing *sharing, const int64_t *dur_ns,
	struct taut_error *err)
{
	struct taut_clock clock = taut_clock_monotonic();
	struct taut_replay_edit edit = {
		.dur_ns = dur_ns, .sharing = sharing, .unordered = 1,
	};
	struct taut_timeline timeline;
	int64_t took_ns[RUNS], used_ns[RUNS];
	taut_status status = taut_timeline_init(&timeline, graph, err);
	if (status)
		return status;
	for (int i = 0; i < RUNS && !status; i++) {
		int64_t begin_ns = clock.now_ns(clock.state);
		int64_t before_ns = cpu_ns();
		status = taut_replay(graph, &edit, &timeline, err);
		used_ns[i] = cpu_ns() - before_ns;
		took_ns[i] = clock.now_ns(clock.state) - begin_ns;
	}
	if (!status)
		print_row(graph, sharing->n_flows, &timeline, took_ns, used_ns);
	taut_timeline_fini(&timeline);
	return status;
}

static taut_status measure_ranks(struct job job, const char *ranks,
	struct taut_error *err)
{
	char *end;
	unsigned long n = strtoul(ranks, &end, 10);
	if (*end || n < TP || n > 4096 || n % TP ||
			(n > TP * MOST_STAGES && n % (TP * MOST_STAGES)))
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%s: expected a number of ranks, a multiple of %d (of "
			"%d where it is more) up to 4096", ranks, TP,
			TP * MOST_STAGES);
	job.n_ranks = (uint32_t)n;
	make_job(&job);
	const struct taut_graph *graph = by_hand_graph(job.hand);
	printf("%5u %3u %3u %3u", (unsigned)job.n_ranks, (unsigned)TP,
		(unsigned)job.n_stages, (unsigned)job.n_copies);
	taut_status status = measure(graph,
		share_by_hand_sharing(job.share, graph), NULL, err);
	by_hand_destroy(job.hand);
	share_by_hand_destroy(job.share);
	return status;
}

/* The changed graph has its own times; what is shared is found from them, as
 * from a recording. */
static taut_status measure_changed(
	const struct taut_prediction *made, struct taut_error *err)
{
	const struct taut_graph *graph = made->graph;
	struct taut_costs *costs;
	struct taut_sharing *sharing;
	taut_status status = taut_costs_create(graph, &costs, err);
	if (status)
		return status;
	status = taut_sharing_create(
		graph, &costs->site, costs->transfers, &sharing, err);
	if (!status) {
		printf("%5u %3s %3s %3s", (unsigned)graph->run->n_traces,
			"", "", "");
		status = measure(graph, sharing, costs->dur_ns, err);
		taut_sharing_destroy(sharing);
	}
	taut_costs_destroy(costs);
	return status;
}

/* A change, or a stack of them with spaces between. */
static taut_status predict(const struct taut_graph *graph, const char *words,
	struct taut_prediction **ret_made, struct taut_error *err)
{
	const struct taut_whatif_options options = { .threads = 1 };
	char *text = strdup(words), *rest = text, *word;
	const char *stack[MOST_CHANGES];
	size_t n = 0;
	taut_status status;

	by_hand_must(text != NULL);
	while (n < MOST_CHANGES && (word = strtok_r(rest, " ", &rest)) != NULL)
		stack[n++] = word;
	status = taut_predict(graph, stack, n, &options, ret_made, err);
	free(text);
	return status;
}

static taut_status measure_run(const char *path, char **changes, int n,
	struct taut_error *err)
{
	struct taut_run *run;
	struct taut_graph *graph = NULL;
	taut_status status = taut_run_open(&path, 1, NULL, &run, err);
	if (status)
		return status;
	status = taut_graph_build(run, NULL, &graph, err);
	for (int i = 0; i < n && !status; i++) {
		struct taut_prediction *made;

		status = predict(graph, changes[i], &made, err);
		if (status)
			break;
		status = measure_changed(made, err);
		taut_prediction_destroy(made);
	}
	taut_graph_destroy(graph);
	taut_run_close(run);
	return status;
}

int main(int argc, char **argv)
{
	static const char *const sizes[] = { "8", "64", "256", "1024" };
	struct job job = { .n_micro = 16, .n_layers = 12, .seed = 4 };
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_OK;
	int at = 1, recorded = argc > 3 && !strcmp(argv[1], "--run");
	for (; !recorded && at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
		unsigned long n = strtoul(argv[at + 1], NULL, 10);
		if (!strcmp(argv[at], "--micro") && n && n < 1000)
			job.n_micro = (uint32_t)n;
		else if (!strcmp(argv[at], "--layers") && n && n < 1000)
			job.n_layers = (uint32_t)n;
		else if (!strcmp(argv[at], "--backbone") && n)
			job.backbone = (uint32_t)n;
		else
			break;
	}
	printf("%5s %3s %3s %3s %9s %9s %8s %9s %8s %8s %6s %8s\n", "ranks",
		"TP", "PP", "DP", "ops", "edges", "flows", "step ms",
		"seconds", "cpu s", "Mops/s", "peak MiB");
	if (recorded) {
		status = measure_run(argv[2], argv + 3, argc - 3, &err);
		at = argc;
	}
	for (int i = 0; !recorded && at == argc && i < 4 && !status; i++)
		status = measure_ranks(job, sizes[i], &err);
	for (; at < argc && !status; at++)
		status = measure_ranks(job, argv[at], &err);
	if (status)
		fprintf(stderr, "replay_scale: %s\n", err.message);
	return status ? 1 : 0;
}
