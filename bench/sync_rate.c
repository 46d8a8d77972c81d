/* sync_rate.c - what a gradient costs from ready to done: ranks that are threads of
 * this process, tensors so small that moving them costs nothing.
 *
 *     sync_rate [RANKS [BYTES]]    default 2 ranks, 64 bytes
 *
 * An iteration makes all tasks ready, last layer first, and waits for all. A row
 * for each number of tasks and each way to carry them out; medians of RUNS
 * iterations, of rank 0:
 *
 *     iteration  microseconds from the first ready to the end of the wait
 *     task       the same for each task
 *     rounds, messages, sleeps, wakes
 *                of rank 0's thread in an iteration, means. A sleep or a wake is
 *                a call of the system
 *
 * agreed: by rounds. fused: the same, with 1 MB together. declared: fused, in the
 * order of declaration, without rounds. halves: fused, in two halves. fp16: fused, and
 * narrowed to 16 bits. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/sync.h>

enum { RUNS = 201, WARM = 20, MOST_RANKS = 64, MOST_TASKS = 1000 };

struct form {
	const char *name;
	struct taut_sync_options options;
};

static const struct form FORMS[] = {
	{ "agreed", { .order = TAUT_SCHED_AGREED } },
	{ "fused", { .fuse_bytes = 1 << 20 } },
	{ "declared", { .order = TAUT_SCHED_DECLARED,
			      .fuse_bytes = 1 << 20 } },
	{ "halves", { .fuse_bytes = 1 << 20, .halves = true } },
	{ "fp16", { .fuse_bytes = 1 << 20, .wire = TAUT_FLOAT16 } },
};

struct job {
	const struct form *form;
	uint32_t n_ranks, n_tasks;
	uint64_t bytes;
	double run_us[RUNS]; /* of rank 0 */
	struct taut_sync_counts before, after;
};

struct rank {
	struct job *job;
	uint32_t id;
	struct taut_comm *comm;
};

static void check(taut_status status, const struct taut_error *err)
{
	if (status) {
		fprintf(stderr, "sync_rate: %s\n", err->message);
		exit(1);
	}
}

static int64_t now_ns(void)
{
	struct taut_clock clock = taut_clock_monotonic();

	return clock.now_ns(clock.state);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void iterate(struct taut_sync *sync, const struct job *job, char *memory)
{
	struct taut_error err;

	for (uint32_t t = job->n_tasks; t-- > 0;)
		check(taut_sync_ready(
			sync, t, memory + 2 * t * job->bytes, &err), &err);
	check(taut_sync_wait(sync, TAUT_NONE, -1, &err), &err);
}

static void *run(void *context)
{
	struct rank *rank = context;
	struct job *job = rank->job;
	char *memory = calloc(2 * job->n_tasks, job->bytes);
	struct taut_sync *sync;
	struct taut_error err;
	uint32_t task;

	if (!memory)
		abort();
	check(taut_sync_create(rank->comm, &job->form->options, &sync, &err),
		&err);
	for (uint32_t t = 0; t < job->n_tasks; t++)
		check(taut_sync_declare(sync, TAUT_FLOAT32, job->bytes / 4, t,
			0, &task, &err), &err);
	for (int i = -WARM; i < RUNS; i++) {
		int64_t begin_ns = now_ns();

		if (i == 0 && !rank->id)
			taut_sync_counts(sync, &job->before);
		iterate(sync, job, memory);
		if (i >= 0 && !rank->id)
			job->run_us[i] = (double)(now_ns() - begin_ns) / 1e3;
	}
	if (!rank->id)
		taut_sync_counts(sync, &job->after);
	taut_sync_destroy(sync);
	taut_comm_destroy(rank->comm);
	free(memory);
	return NULL;
}

static void measure(struct job *job)
{
	struct taut_comm *comms[MOST_RANKS];
	struct rank ranks[MOST_RANKS];
	pthread_t threads[MOST_RANKS];
	struct taut_error err;

	check(taut_comm_create_inproc(job->n_ranks, comms, &err), &err);
	for (uint32_t i = 0; i < job->n_ranks; i++) {
		ranks[i] = (struct rank){ job, i, comms[i] };
		if (pthread_create(&threads[i], NULL, run, &ranks[i]))
			abort();
	}
	for (uint32_t i = 0; i < job->n_ranks; i++)
		pthread_join(threads[i], NULL);
	qsort(job->run_us, RUNS, sizeof *job->run_us, by_size);
}

static double each(uint64_t before, uint64_t after)
{
	return (double)(after - before) / RUNS;
}

static void print(const struct job *job)
{
	const struct taut_sync_counts *a = &job->before, *b = &job->after;
	double us = job->run_us[RUNS / 2];

	printf("%-9s %6u %10.1f %8.2f %8.2f %9.2f %8.2f %8.2f\n",
		job->form->name, job->n_tasks, us, us / job->n_tasks,
		each(a->sched.rounds, b->sched.rounds),
		each(a->messages, b->messages), each(a->sleeps, b->sleeps),
		each(a->wakes, b->wakes));
}

static unsigned long number(const char *text, unsigned long least,
	unsigned long most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || value < least || value > most) {
		fprintf(stderr, "sync_rate: %s: expected %lu to %lu\n", text,
			least, most);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = { 1, 10, 100, MOST_TASKS };
	struct job job = { .n_ranks = 2, .bytes = 64 };

	if (argc > 1)
		job.n_ranks = (uint32_t)number(argv[1], 1, MOST_RANKS);
	if (argc > 2)
		job.bytes = number(argv[2], 4, 1 << 24) / 4 * 4;
	printf("%-9s %6s %10s %8s %8s %9s %8s %8s\n", "", "tasks",
		"iteration", "task", "rounds", "messages", "sleeps", "wakes");
	for (size_t f = 0; f < sizeof FORMS / sizeof *FORMS; f++)
		for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
			job.form = &FORMS[f];
			job.n_tasks = sizes[s];
			measure(&job);
			print(&job);
		}
	return 0;
}
