/* nccl_plugin.c - what the NCCL plugin's callbacks cost.
 * usage: nccl_plugin LIBTAUT-NCCL.SO [THREADS]
 * Calls the plugin as NCCL does, v6, and prints nanoseconds per call: the median
 * of rounds, on THREADS threads at once (1), each with a communicator of its own. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/nccl_host.h"

enum { ROUNDS = 41, CALLS = 2000, MOST_THREADS = 64 };

static struct host hosts[MOST_THREADS];
static int pid;
static uint32_t *recording; /* the switch: docs/recording.md */

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* --- what is measured ----------------------------------------------------------------*/

/* start, three states, stop */
static void one_step(struct host *h, void *op, int i)
{
	void *step = host_step(h, op, i);

	host_state(h, step, HOST_SEND_GPU, 0, 0);
	host_state(h, step, HOST_SEND_PEER, 0, 0);
	host_state(h, step, HOST_SEND_WAIT, 65536, 0);
	host_stop(h, step);
}

static void steps(int thread)
{
	struct host *h = &hosts[thread];
	void *coll = host_coll(h, 0, 4, 8, 7, 0, 1, 1, 2);
	void *op = host_op(h, coll, pid, thread, 0, 1);

	for (int i = 0; i < CALLS; i++)
		one_step(h, op, i);
	host_stop(h, op);
	host_stop(h, coll);
}

/* An operation of one step, with its collective. */
static void collectives(int thread)
{
	struct host *h = &hosts[thread];

	for (int i = 0; i < CALLS; i++) {
		void *coll, *op;

		host_group(h);
		coll = host_coll(h, (uint64_t)i, 4, 8, 7, 0, 1, 1, 2);
		host_stop(h, coll);
		op = host_op(h, coll, pid, thread, 0, 1);
		host_stop(h, op);
	}
}

/* A plugin that does nothing: what the calls themselves cost. */
static int no_init(void **context, uint64_t hash, int *mask, const char *name,
	int nodes, int ranks, int rank, void *debug)
{
	(void)hash, (void)name, (void)nodes, (void)ranks, (void)rank;
	(void)debug;
	*mask = 0;
	*context = hosts;
	return 0;
}

static int no_start(void *context, void **handle, void *event)
{
	(void)event;
	*handle = context;
	return 0;
}

static int no_stop(void *handle)
{
	(void)handle;
	return 0;
}

static int no_state(void *handle, int state, void *update)
{
	(void)handle, (void)state, (void)update;
	return 0;
}

static const struct {
	const char *name;
	int (*init)(void **, uint64_t, int *, const char *, int, int, int,
		void *);
	int (*start)(void *, void **, void *);
	int (*stop)(void *);
	int (*state)(void *, int, void *);
	int (*finalize)(void *);
} nothing = { "nothing", no_init, no_start, no_stop, no_state, no_stop };

static void clocks(int thread)
{
	struct timespec t;

	(void)thread;
	for (int i = 0; i < CALLS; i++)
		clock_gettime(CLOCK_REALTIME, &t);
}

/* --- how ---------------------------------------------------------------------------------*/

struct run {
	pthread_t thread;
	void (*what)(int thread);
	int index;
	double ns[ROUNDS];
};

static void *measure(void *context)
{
	struct run *run = context;

	for (int i = 0; i < ROUNDS; i++) {
		double start = now_ns();

		run->what(run->index);
		run->ns[i] = (now_ns() - start) / CALLS;
	}
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report(const char *name, void (*what)(int), int threads)
{
	static struct run runs[MOST_THREADS];
	static double all[MOST_THREADS * ROUNDS];

	for (int i = 0; i < threads; i++) {
		runs[i].what = what;
		runs[i].index = i;
		if (pthread_create(&runs[i].thread, NULL, measure, &runs[i]))
			exit(1);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(runs[i].thread, NULL);
		memcpy(all + i * ROUNDS, runs[i].ns, sizeof runs[i].ns);
	}
	qsort(all, (size_t)threads * ROUNDS, sizeof *all, by_size);
	printf("%-44s %8.1f ns\n", name, all[threads * ROUNDS / 2]);
}

static int init(const void *plugin, int threads)
{
	for (int i = 0; i < threads; i++)
		if (host_init(&hosts[i], plugin, 6, "bench", (uint64_t)i + 1, 4,
			1) || !hosts[i].context)
			return 0;
	return 1;
}

static const void *open_plugin(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *plugin = library ? dlsym(library, "ncclProfiler_v6") : NULL;

	if (plugin)
		memcpy(&recording, (char *)plugin + 88, sizeof recording);
	else
		fprintf(stderr, "nccl_plugin: %s\n", dlerror());
	return plugin;
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/taut-bench-nccl-XXXXXX", command[64];
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	const void *plugin;

	if (argc < 2 || threads < 1 || threads > MOST_THREADS ||
		!mkdtemp(folder)) {
		fprintf(stderr, "usage: nccl_plugin LIBTAUT-NCCL.SO [THREADS]\n");
		return 2;
	}
	pid = getpid();
	setenv("TAUT_RECORD", folder, 1);
	setenv("TAUT_NCCL_ALWAYS", "0", 1);
	setenv("TAUT_NCCL_RECORDS", "8000000", 1);
	setenv("RANK", "1", 1);
	setenv("WORLD_SIZE", "4", 1);
	plugin = open_plugin(argv[1]);
	if (!plugin || !init(&nothing, threads))
		return 1;
	printf("%d threads, v6\n", threads);
	report("the clock alone", clocks, threads);
	report("a plugin of nothing: collective, operation", collectives,
		threads);
	report("a plugin of nothing: step", steps, threads);
	if (!init(plugin, threads))
		return 1;
	report("outside the window: collective, operation", collectives,
		threads);
	*recording = 1;
	report("recording: collective, operation", collectives, threads);
	report("recording: step (start, 3 states, stop)", steps, threads);
	for (int i = 0; i < threads; i++)
		host_finalize(&hosts[i]);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command) != 0;
}
