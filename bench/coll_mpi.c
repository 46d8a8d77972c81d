/* coll_mpi.c - all-reduce of an MPI library, measured as `taut bench` measures its
 * own, for bench/coll_compare.py.
 * usage: coll_mpi BUDGET_MS BYTES...    float32, sum, in place
 *
 * A sample is a barrier and then a batch of calls; what counts is the rank that
 * took longest. Rank 0 prints "bytes median least p90", in microseconds. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SAMPLES = 1000, LEAST_SAMPLES = 5, MOST_BATCH = 64 };
static const double batch_s = 30e-6, warm_s = 2e-3;

static double within(double least, double value, double most)
{
	return value < least ? least : value > most ? most : value;
}

/* Seconds of n calls on this rank. */
static double time_calls(float *data, int count, int n)
{
	double begin;

	MPI_Barrier(MPI_COMM_WORLD);
	begin = MPI_Wtime();
	for (int i = 0; i < n; i++)
		MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM,
			MPI_COMM_WORLD);
	return MPI_Wtime() - begin;
}

static void agree(double *values, int n)
{
	MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_MAX,
		MPI_COMM_WORLD);
}

static double warm_up(float *data, int count)
{
	double one = 0;
	int n = 1;

	for (int turn = 0; turn < 3; turn++) {
		one = time_calls(data, count, n) / n;
		agree(&one, 1);
		if (one > warm_s)
			break;
		n = (int)within(1, warm_s / 2 / within(1e-9, one, 1), 200);
	}
	return within(1e-9, one, 1e9);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(float *data, size_t bytes, double budget, int rank)
{
	double seconds[MOST_SAMPLES], one;
	int count = (int)(bytes / sizeof *data), batch, n = LEAST_SAMPLES;
	double spent = 0;

	memset(data, 0, bytes);
	one = warm_up(data, count);
	batch = (int)within(1, batch_s / one, MOST_BATCH);
	for (int i = 0; i < n; i++) {
		seconds[i] = time_calls(data, count, batch) / batch;
		spent += seconds[i] * batch;
		if (i + 1 != LEAST_SAMPLES)
			continue;
		agree(&spent, 1); /* how many more, by what these took */
		n = (int)within(LEAST_SAMPLES,
			budget / within(1e-9, spent, 1e9) * LEAST_SAMPLES,
			MOST_SAMPLES);
	}
	agree(seconds, n);
	qsort(seconds, (size_t)n, sizeof *seconds, by_size);
	if (rank == 0)
		printf("%zu %.3f %.3f %.3f\n", bytes,
			(seconds[(n - 1) / 2] + seconds[n / 2]) / 2 * 1e6,
			seconds[0] * 1e6, seconds[(n - 1) * 9 / 10] * 1e6);
}

/* Whether the library sums at all. */
static int check(int rank, int n_ranks)
{
	float sum = (float)(rank + 1);

	MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_FLOAT, MPI_SUM,
		MPI_COMM_WORLD);
	return sum == (float)(n_ranks * (n_ranks + 1) / 2);
}

int main(int argc, char **argv)
{
	size_t most = 4;
	int rank, n_ranks, failed;
	float *data;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	for (int i = 2; i < argc; i++)
		if (strtoull(argv[i], NULL, 10) > most)
			most = strtoull(argv[i], NULL, 10);
	data = aligned_alloc(4096, (most + 4095) / 4096 * 4096);
	failed = !data || !check(rank, n_ranks);
	for (int i = 2; !failed && i < argc; i++)
		measure(data, strtoull(argv[i], NULL, 10),
			atof(argv[1]) / 1e3, rank);
	free(data);
	MPI_Finalize();
	return failed;
}
