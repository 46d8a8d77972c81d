/* job.h - of a program of a test under MPI: its place, what it checks, and how it brings a
 * communicator to where Taut has it. Included once a program. */
#ifndef TESTS_MPI_JOB_H
#define TESTS_MPI_JOB_H

#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

enum { WARM = 100000, ENOUGH = 6 }; /* elements; calls until Taut has decided */

static int rank, size;

static void check(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "rank %d: %s is wrong\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 9);
}

static void warm(MPI_Comm comm)
{
	float *data = calloc(WARM, sizeof *data);

	for (int i = 0; i < ENOUGH; i++)
		MPI_Allreduce(MPI_IN_PLACE, data, WARM, MPI_FLOAT, MPI_SUM,
			comm);
	free(data);
}

#endif
