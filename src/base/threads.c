/* threads.c - one call for every index, on several threads.
 *
 * Indices are handed out in order. Once an index has failed none above it is
 * begun, and all below it have been begun: so the lowest failing index, the
 * one that a single thread would have met, is always found. */
#include <taut/base.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#define MAX_THREADS 256u

struct job {
	taut_work_fn work;
	void *context;
	atomic_size_t next;
	atomic_size_t first_failed; /* n: none; only falls, under lock */
	pthread_mutex_t lock;
	taut_status status;      /* of first_failed; under lock */
	struct taut_error error; /* of first_failed; under lock */
};

static void note_failure(struct job *job, size_t index, taut_status status,
	const struct taut_error *err)
{
	pthread_mutex_lock(&job->lock);
	if (index < atomic_load(&job->first_failed)) {
		atomic_store(&job->first_failed, index);
		job->status = status;
		job->error = *err;
	}
	pthread_mutex_unlock(&job->lock);
}

static void *run_worker(void *state)
{
	struct job *job = state;
	for (;;) {
		size_t index = atomic_fetch_add(&job->next, 1);
		if (index >= atomic_load(&job->first_failed))
			return NULL;
		struct taut_error err = { .offset = -1 };
		taut_status status = job->work(job->context, index, &err);
		if (status != TAUT_OK)
			note_failure(job, index, status, &err);
	}
}

static unsigned thread_count(size_t n, unsigned threads)
{
	if (threads == 0)
		threads = taut_cores();
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	return threads > n ? (unsigned)n : threads;
}

/* The caller is one of the threads. A thread that cannot be had is done
 * without: the others take its share. */
static void run_job(struct job *job, unsigned threads)
{
	pthread_t helpers[MAX_THREADS];
	unsigned started = 0;
	while (started + 1 < threads &&
		pthread_create(&helpers[started], NULL, run_worker, job) == 0)
		started++;
	run_worker(job);
	for (unsigned i = 0; i < started; i++)
		pthread_join(helpers[i], NULL);
}

taut_status taut_parallel_for(size_t n, unsigned threads, taut_work_fn work,
	void *context, struct taut_error *err)
{
	if (n == 0)
		return TAUT_OK;
	struct job job = {
		.work = work,
		.context = context,
		.next = 0,
		.first_failed = n,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	run_job(&job, thread_count(n, threads));
	pthread_mutex_destroy(&job.lock);
	if (job.status != TAUT_OK && err)
		*err = job.error;
	return job.status;
}

static unsigned count_affinity(void)
{
	/* The kernel refuses a set that is smaller than its own. */
	for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
		cpu_set_t *set = CPU_ALLOC((size_t)cpus);
		if (!set)
			return 0;
		size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
		int count = 0;
		if (sched_getaffinity(0, bytes, set) == 0)
			count = CPU_COUNT_S(bytes, set);
		CPU_FREE(set);
		if (count > 0)
			return (unsigned)count;
	}
	return 0;
}

unsigned taut_cores(void)
{
	unsigned allowed = count_affinity();
	if (allowed)
		return allowed;
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	return online > 0 ? (unsigned)online : 1;
}
