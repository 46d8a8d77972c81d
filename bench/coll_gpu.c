/* coll_gpu.c - all-reduce of an MPI library on memory of a GPU, for
 * bench/mpi_allreduce.py --gpu.
 * usage: coll_gpu device|host BUDGET_MS BYTES...    float32, sum, in place
 *
 * device: MPI is handed the device's address. host: the program copies to pinned memory
 * of the host, hands MPI that, and copies back, as it must where MPI knows no devices.
 * Rank r uses device r modulo their number. Rank 0 prints "bytes median", microseconds.
 * The driver is opened at run time; no header of CUDA is used. Status 77: no device. */
#include <mpi.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/driver.h"

enum { MOST_SAMPLES = 200, LEAST_SAMPLES = 5, NO_DEVICE = 77 };

static struct {
	unsigned (*init)(unsigned flags);
	unsigned (*count)(int *n);
	unsigned (*set_current)(tauti_gpu_context context);
	unsigned (*up)(tauti_gpu_address to, const void *from, size_t bytes);
	unsigned (*down)(void *to, tauti_gpu_address from, size_t bytes);
	unsigned (*fill)(tauti_gpu_address at, unsigned word, size_t n);
	unsigned (*retain)(tauti_gpu_context *context, int device);
	unsigned (*alloc)(tauti_gpu_address *at, size_t bytes);
	unsigned (*host_alloc)(void **memory, size_t bytes, unsigned flags);
} cuda;

static int open_cuda(void)
{
	const struct {
		const char *name;
		void *at;
	} all[] = { { "cuInit", &cuda.init },
		{ "cuDeviceGetCount", &cuda.count },
		{ "cuCtxSetCurrent", &cuda.set_current },
		{ "cuMemcpyHtoD_v2", &cuda.up },
		{ "cuMemcpyDtoH_v2", &cuda.down },
		{ "cuMemsetD32_v2", &cuda.fill },
		{ "cuDevicePrimaryCtxRetain", &cuda.retain },
		{ "cuMemAlloc_v2", &cuda.alloc },
		{ "cuMemHostAlloc", &cuda.host_alloc } };
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		void *found = library ? dlsym(library, all[i].name) : NULL;

		if (!found)
			return 0;
		memcpy(all[i].at, &found, sizeof found);
	}
	return !cuda.init(0);
}

static tauti_gpu_address device_memory;
static float *host_memory; /* NULL: MPI gets the device's */

static void one_call(size_t bytes)
{
	int count = (int)(bytes / sizeof(float));

	if (!host_memory) {
		MPI_Allreduce(MPI_IN_PLACE, (void *)(size_t)device_memory,
			count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		return;
	}
	cuda.down(host_memory, device_memory, bytes);
	MPI_Allreduce(MPI_IN_PLACE, host_memory, count, MPI_FLOAT, MPI_SUM,
		MPI_COMM_WORLD);
	cuda.up(device_memory, host_memory, bytes);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(size_t bytes, double budget, int rank)
{
	double seconds[MOST_SAMPLES], spent = 0, begin;
	int n = LEAST_SAMPLES;

	for (int i = 0; i < 3; i++)
		one_call(bytes);
	for (int i = 0; i < n; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		begin = MPI_Wtime();
		one_call(bytes);
		seconds[i] = MPI_Wtime() - begin;
		spent += seconds[i];
		if (i + 1 != LEAST_SAMPLES)
			continue;
		MPI_Allreduce(MPI_IN_PLACE, &spent, 1, MPI_DOUBLE, MPI_MAX,
			MPI_COMM_WORLD);
		n = (int)(budget / spent * LEAST_SAMPLES);
		n = n < LEAST_SAMPLES ? LEAST_SAMPLES :
			n > MOST_SAMPLES ? MOST_SAMPLES : n;
	}
	MPI_Allreduce(MPI_IN_PLACE, seconds, n, MPI_DOUBLE, MPI_MAX,
		MPI_COMM_WORLD);
	qsort(seconds, (size_t)n, sizeof *seconds, by_size);
	if (rank == 0)
		printf("%zu %.3f\n", bytes,
			(seconds[(n - 1) / 2] + seconds[n / 2]) / 2 * 1e6);
}

/* Brings the ranks to their agreement, by memory of the host: before it a call is
 * MPI's, which may not know devices. */
static void warm_up(void)
{
	enum { COUNT = 100000, TURNS = 6 };
	static float data[COUNT];

	for (int i = 0; i < TURNS; i++)
		MPI_Allreduce(MPI_IN_PLACE, data, COUNT, MPI_FLOAT, MPI_SUM,
			MPI_COMM_WORLD);
}

/* Whether the sum is one. */
static int check(int rank, int n_ranks)
{
	enum { COUNT = 3001 };
	static float data[COUNT];
	float sum = (float)(n_ranks * (n_ranks + 1) / 2);

	for (int i = 0; i < COUNT; i++)
		data[i] = (float)(rank + 1);
	cuda.up(device_memory, data, sizeof data);
	one_call(sizeof data);
	memset(data, 0, sizeof data);
	cuda.down(data, device_memory, sizeof data);
	cuda.fill(device_memory, 0, COUNT);
	return data[0] == sum && data[COUNT - 1] == sum;
}

static int set_up(size_t most, int rank, int on_host)
{
	tauti_gpu_context context;
	int n = 0;

	if (!open_cuda() || cuda.count(&n) || !n ||
		cuda.retain(&context, rank % n) || cuda.set_current(context))
		return NO_DEVICE;
	if (cuda.alloc(&device_memory, most) ||
		cuda.fill(device_memory, 0, most / 4))
		return 1;
	return on_host && cuda.host_alloc((void **)&host_memory, most, 1);
}

int main(int argc, char **argv)
{
	size_t most = 1 << 16;
	int rank, n_ranks, failed;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	for (int i = 3; i < argc; i++)
		if (strtoull(argv[i], NULL, 10) > most)
			most = strtoull(argv[i], NULL, 10);
	failed = argc < 3 ? 1 : set_up(most, rank, argv[1][0] == 'h');
	MPI_Allreduce(
		MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (!failed) {
		warm_up();
		failed = !check(rank, n_ranks);
	}
	for (int i = 3; !failed && i < argc; i++)
		measure(strtoull(argv[i], NULL, 10), atof(argv[2]) / 1e3, rank);
	if (failed)
		fprintf(stderr, "coll_gpu: rank %d: %s\n", rank,
			failed == NO_DEVICE ? "no device" :
			"no memory, or the sum is wrong");
	MPI_Finalize();
	return failed;
}
