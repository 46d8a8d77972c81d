/* mpi_pass.c - what a call costs that stays with MPI, for bench/mpi_allreduce.py: ns
 * of one all-reduce over MPI_COMM_SELF, where the library itself does least, of one
 * element, and of so many that Taut's object looks at it; and of MPI_Test of nothing.
 * Prints "name ns" of the fastest of many samples, on rank 0. */
#include <mpi.h>

#include <stdio.h>

enum { SAMPLES = 200, CALLS = 2000, LOOKED_AT = 256 };

static float data[LOOKED_AT];

static void reduce(int count)
{
	MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM,
		MPI_COMM_SELF);
}

static void one(void)
{
	reduce(1);
}

static void looked_at(void)
{
	reduce(LOOKED_AT);
}

static void test(void)
{
	MPI_Request request = MPI_REQUEST_NULL;
	int flag;

	MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}

static void measure(const char *name, void (*call)(void))
{
	double least = 1;

	for (int i = 0; i < SAMPLES; i++) {
		double begin = MPI_Wtime(), took;

		for (int k = 0; k < CALLS; k++)
			call();
		took = (MPI_Wtime() - begin) / CALLS;
		if (took < least)
			least = took;
	}
	printf("%s %.1f\n", name, least * 1e9);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	measure("one", one);
	measure("looked_at", looked_at);
	measure("test", test);
	MPI_Finalize();
	return 0;
}
