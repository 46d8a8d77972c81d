/* mpi_overhead.c - time of small MPI calls, for bench/mpi_overhead.py.
 * usage: mpi_overhead CALLS. Rank 0 prints "name nanoseconds-a-call". Every
 * number is the least of 21 rounds of CALLS calls: ranks that spin are slowed
 * by all other work on the machine, and never sped up. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 21 };

static int rank, calls;

static void alone(void)
{
	double in = 1, out;

	for (int i = 0; i < calls; i++)
		MPI_Allreduce(
			&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
}

static void allreduce(void)
{
	double in = 1, out;

	for (int i = 0; i < calls; i++)
		MPI_Allreduce(
			&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void ping_pong(void)
{
	double x = 1;

	for (int i = 0; i < calls / 2; i++) {
		if (rank == 0)
			MPI_Send(&x, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
		if (rank < 2)
			MPI_Recv(&x, 1, MPI_DOUBLE, 1 - rank, 0,
				MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(&x, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
	}
}

/* A receive, a send and a wait for both count as one. */
static void requests(void)
{
	double in, out = 1;
	MPI_Request r[2];

	for (int i = 0; i < calls && rank < 2; i++) {
		MPI_Irecv(&in, 1, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD,
			&r[0]);
		MPI_Isend(&out, 1, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD,
			&r[1]);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	}
}

static void measure(const char *name, void (*run)(void))
{
	double least = 1e30;

	for (int i = 0; i < ROUNDS; i++) {
		double ns;

		MPI_Barrier(MPI_COMM_WORLD);
		ns = MPI_Wtime();
		run();
		ns = (MPI_Wtime() - ns) * 1e9 / calls;
		if (ns < least)
			least = ns;
	}
	if (rank == 0)
		printf("%s %.1f\n", name, least);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	calls = argc > 1 ? atoi(argv[1]) : 1000;
	measure("all-reduce-alone", alone);
	measure("all-reduce", allreduce);
	measure("ping-pong", ping_pong);
	measure("isend-irecv-waitall", requests);
	MPI_Finalize();
	return 0;
}
