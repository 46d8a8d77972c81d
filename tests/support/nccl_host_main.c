/* nccl_host_main.c - a process that loads a profiler plugin as NCCL does, by
 * dlopen(), and lets it see a job: two communicators, each with a proxy thread.
 * usage: nccl_host PLUGIN VERSION ROUNDS END
 *   END  finalize  both communicators end and the plugin is closed
 *        exit      the process ends as it is, proxies running
 *        crash     SIGKILL in the middle of an operation
 * Each round is one collective with one sent chunk of four steps. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/nccl_host.h"

enum { COMMS = 2, STEPS = 4, QUEUE = 64 };

struct comm {
	struct host host;
	pthread_t user, proxy;
	int rounds;
	/* What was enqueued, for the proxy; a place is free when 0. */
	_Atomic(void *) queue[QUEUE];
};

static _Atomic int crash;
static int rank; /* of two, from the environment */

static void *enqueue(void *context)
{
	struct comm *c = context;

	for (int i = 0; i < c->rounds; i++) {
		void *coll, *none = NULL;

		host_group(&c->host);
		coll = host_coll(&c->host, (uint64_t)i, 4, 1024, 7, 0, 2, 1, 2);
		/* The mark of the end is as good as any handle. */
		while (!atomic_compare_exchange_weak(&c->queue[i % QUEUE], &none,
			coll ? coll : (void *)-1)) {
			none = NULL;
			sched_yield();
		}
		host_stop(&c->host, coll);
	}
	return NULL;
}

static void send(struct host *h, void *coll, int round)
{
	void *op = host_op(h, coll, getpid(), round % 2, 1 - rank, 1);

	if (h->version < 4)
		host_state(h, op, HOST_OP_SEND_POSTED, 0, 0);
	for (int s = 0; s < STEPS; s++) {
		void *step = host_step(h, op, s);

		if (h->version < 4)
			host_state(h, op, HOST_OP_SEND_POSTED, 0, 0);
		host_state(h, step, HOST_SEND_GPU, 0, 0);
		if (atomic_load(&crash) && round > 100)
			kill(getpid(), SIGKILL);
		host_state(h, step, HOST_SEND_WAIT, 4096, 0);
		host_stop(h, step);
	}
	host_stop(h, op);
}

static void *carry_out(void *context)
{
	struct comm *c = context;

	for (int i = 0; i < c->rounds; i++) {
		void *coll;

		while (!(coll = atomic_exchange(&c->queue[i % QUEUE], NULL)))
			sched_yield();
		send(&c->host, coll, i);
	}
	return NULL;
}

static int start(struct comm *c, const void *plugin, int version, int rounds,
	int index)
{
	c->rounds = rounds;
	return !host_init(&c->host, plugin, version, index ? "tp" : NULL,
			0x1000u + (uint64_t)index, 2, rank) &&
		!pthread_create(&c->user, NULL, enqueue, c) &&
		!pthread_create(&c->proxy, NULL, carry_out, c);
}

int main(int argc, char **argv)
{
	static struct comm comms[COMMS];
	char symbol[32];
	void *library, *plugin;

	if (argc != 5)
		return 2;
	snprintf(symbol, sizeof symbol, "ncclProfiler_v%s", argv[2]);
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	plugin = library ? dlsym(library, symbol) : NULL;
	if (!plugin) {
		fprintf(stderr, "nccl_host: %s\n", dlerror());
		return 1;
	}
	rank = getenv("RANK") && !strcmp(getenv("RANK"), "1");
	atomic_store(&crash, !strcmp(argv[4], "crash"));
	for (int i = 0; i < COMMS; i++)
		if (!start(&comms[i], plugin, atoi(argv[2]), atoi(argv[3]), i))
			return 1;
	for (int i = 0; i < COMMS; i++)
		pthread_join(comms[i].user, NULL);
	if (!strcmp(argv[4], "exit"))
		return 0;
	for (int i = 0; i < COMMS; i++) {
		pthread_join(comms[i].proxy, NULL);
		host_finalize(&comms[i].host);
	}
	/* Callbacks that come after all this find their code still there. */
	dlclose(library);
	for (int i = 0; i < COMMS; i++)
		host_stop(&comms[i].host, comms[i].host.context);
	return 0;
}
