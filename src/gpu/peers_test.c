/* Ranks of one host that reduce each other's memory: processes over the fake driver. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/gpu.h"
#include "tests/gpu/fake.h"

enum { RANKS = 3, PART_BYTES = 4096, MOST = 3 * PART_BYTES };

/* What the processes share. */
static struct world {
	pthread_barrier_t barrier;
	struct tauti_gpu_offer offers[RANKS];
	int failed[RANKS]; /* line of what was wrong */
	struct taut_error why[RANKS];
} *world;

static uint32_t rank;

#define CHECK(ok) \
	do { \
		if (!(ok) && !world->failed[rank]) \
			world->failed[rank] = __LINE__; \
	} while (0)

static void meet(void)
{
	pthread_barrier_wait(&world->barrier);
}

static void wait_for(struct tauti_gpu_peers *peers)
{
	struct tauti_gpu_copy copy = { NULL, NULL };
	bool over = false;

	CHECK(!tauti_gpu_copy_mark(tauti_gpu_peers_side(peers), &copy, NULL));
	while (!over)
		CHECK(!tauti_gpu_copy_test(&copy, &over, NULL));
}

static void fill(char *data, uint32_t of, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = (char)((i * 31 + of * 7) % 64);
}

/* A call of rounds, as the caller makes them. */
static void reduce_all(struct tauti_gpu_peers *peers, char *buffer,
	bool on_device, enum taut_type type, uint64_t count)
{
	uint64_t element = tauti_gpu_type_bytes(type);
	uint64_t part = PART_BYTES / element, first = 0, n = 0;
	struct taut_error *err = NULL;

	for (; first < count; first += n) {
		n = count - first < part ? count - first : part;
		CHECK(!tauti_gpu_peers_put(peers, buffer + first * element,
			on_device, (size_t)(n * element), err));
		wait_for(peers);
		meet();
		CHECK(!tauti_gpu_peers_sum(peers, type, TAUT_SUM, n, err));
		wait_for(peers);
		meet();
		CHECK(!tauti_gpu_peers_get(peers, buffer + first * element,
			on_device, type, n, err));
		wait_for(peers);
	}
}

/* Rank 1 has its numbers on the host. */
static void one_sum(struct tauti_gpu_peers *peers, enum taut_type type,
	uint64_t count, size_t past)
{
	static char mine[MOST + 64], wanted[MOST + 64], other[MOST + 64];
	size_t bytes = (size_t)count * tauti_gpu_type_bytes(type);
	bool on_device = rank != 1;
	tauti_gpu_address at = 0;

	fill(mine, rank, bytes);
	fill(wanted, 0, bytes);
	for (uint32_t i = 1; i < RANKS; i++) {
		fill(other, i, bytes);
		taut_reduce(type, TAUT_SUM, wanted, wanted, other, count);
	}
	CHECK(!cuMemAlloc_v2(&at, MOST + 64));
	CHECK(!cuMemcpyHtoD_v2(at + past, mine, bytes));
	reduce_all(peers, on_device ? (char *)(uintptr_t)(at + past) : mine,
		on_device, type, count);
	if (on_device)
		CHECK(!cuMemcpyDtoH_v2(mine, at + past, bytes));
	CHECK(!memcmp(mine, wanted, bytes));
	CHECK(!cuMemFree_v2(at));
}

static void sums(struct tauti_gpu_peers *peers)
{
	one_sum(peers, TAUT_INT32, 1, 0);
	one_sum(peers, TAUT_INT32, 2, 0);
	one_sum(peers, TAUT_INT8, PART_BYTES, 0);
	one_sum(peers, TAUT_INT8, MOST - 1, 3);
	one_sum(peers, TAUT_FLOAT32, 1000, 4);
	one_sum(peers, TAUT_FLOAT64, MOST / 8, 8);
	one_sum(peers, TAUT_BFLOAT16, MOST / 2 - 5, 2);
}

static void act(void (*what)(struct tauti_gpu_peers *peers), bool can)
{
	struct tauti_gpu_peers *peers = NULL;
	struct taut_error err = { .message = "" };
	tauti_gpu_context own;
	struct tauti_gpu *gpu;
	struct fake_counts counts;

	CHECK(!cuInit(0));
	CHECK(!cuCtxCreate_v2(&own, 0, 0));
	CHECK(!tauti_gpu_create(&gpu, NULL));
	if (!can && rank == 1)
		fake_fail("cuIpcGetMemHandle", 1, 801);
	if (tauti_gpu_peers_create(gpu, rank, RANKS, PART_BYTES, &peers,
		&world->offers[rank], &err))
		CHECK(!can && rank == 1);
	meet();
	if (peers && tauti_gpu_peers_open(peers, world->offers, &err))
		CHECK(!can);
	world->why[rank] = err;
	if (can && !world->failed[rank])
		what(peers);
	if (peers)
		tauti_gpu_peers_close(peers);
	meet();
	tauti_gpu_peers_destroy(peers, true);
	tauti_gpu_destroy(gpu);
	cuCtxDestroy_v2(own);
	counts = fake_counts();
	CHECK(!counts.peers && !counts.blocks && !counts.streams &&
		!counts.events && !counts.modules && !counts.depth &&
		!counts.faults && !counts.pinned);
}

static void by_processes(void (*what)(struct tauti_gpu_peers *peers), bool can)
{
	pthread_barrierattr_t shared;
	pid_t pids[RANKS];
	int status;

	world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(world, MAP_FAILED);
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&world->barrier, &shared, RANKS);
	for (rank = 0; rank < RANKS; rank++) {
		pids[rank] = fork();
		if (!pids[rank]) {
			alarm(60);
			act(what, can);
			_exit(0);
		}
	}
	for (int i = 0; i < RANKS; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
		if (world->failed[i])
			fail_msg("rank %d: line %d: %s", i, world->failed[i],
				world->why[i].message);
	}
}

static void ranks_sum_each_others_memory(void **state)
{
	(void)state;
	by_processes(sums, true);
	munmap(world, sizeof *world);
}

static void one_that_cannot_is_named(void **state)
{
	(void)state;
	by_processes(NULL, false);
	assert_non_null(strstr(world->why[1].message, "cuIpcGetMemHandle: "));
	assert_string_equal(world->why[0].message,
		"rank 1 has no memory for its peers");
	munmap(world, sizeof *world);
}

/* What comes to lie where the peers' memory was belongs to somebody else. */
static void memory_goes_with_its_context(void **state)
{
	struct tauti_gpu_peers *peers = NULL;
	struct tauti_gpu_offer offer;
	struct taut_error err = { .message = "" };
	tauti_gpu_address first = 0, again = 0;
	tauti_gpu_context primary, popped;
	struct tauti_gpu *gpu;
	static char data[64];

	(void)state;
	assert_false(cuInit(0));
	assert_int_equal(tauti_gpu_create(&gpu, NULL), TAUT_OK);
	assert_false(cuDevicePrimaryCtxRetain(&primary, 0));
	assert_false(cuCtxPushCurrent_v2(primary));
	assert_false(cuMemAlloc_v2(&first, 64));
	assert_false(cuMemFree_v2(first));
	assert_int_equal(tauti_gpu_peers_create(gpu, 0, 1, PART_BYTES, &peers,
		&offer, &err), TAUT_OK);
	assert_false(cuDevicePrimaryCtxReset_v2(0));
	assert_false(cuDevicePrimaryCtxRetain(&primary, 0));
	assert_false(cuMemAlloc_v2(&again, 64));
	assert_int_equal(first, again);
	assert_int_equal(tauti_gpu_peers_put(
		peers, data, false, sizeof data, &err), TAUT_EIO);
	tauti_gpu_peers_close(peers);
	tauti_gpu_peers_destroy(peers, true);
	assert_int_equal(fake_counts().blocks, 1);
	assert_false(cuMemFree_v2(again));
	assert_false(cuCtxPopCurrent_v2(&popped));
	tauti_gpu_destroy(gpu);
	assert_false(cuDevicePrimaryCtxRelease_v2(0));
	assert_false(cuDevicePrimaryCtxRelease_v2(0));
	assert_int_equal(fake_counts().streams, 0);
	assert_int_equal(fake_counts().contexts, 0);
	assert_int_equal(fake_counts().faults, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_sum_each_others_memory),
		cmocka_unit_test(one_that_cannot_is_named),
		cmocka_unit_test(memory_goes_with_its_context), /* the last: no
			fork after it */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
