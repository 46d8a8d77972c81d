/* contract.c - the contract of the engines, kept by the one over MPI: a program of
 * four ranks, which are processes. Compiled by tests/mpi/mpi_test.py with the MPI at
 * hand. */
#include <mpi.h>

#include "coll/engines/contract.h"

#include "coll/engines/mpi.h"

struct world {
	MPI_Comm all, ours; /* ours: of the ranks that take part */
	int takes_part;
};

static void *begin(uint32_t n_ranks)
{
	struct world *it = calloc(1, sizeof *it);
	int rank;

	assert_non_null(it);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	it->takes_part = rank < (int)n_ranks;
	MPI_Comm_dup(MPI_COMM_WORLD, &it->all);
	MPI_Comm_split(it->all, it->takes_part, rank, &it->ours);
	return it;
}

static void meet(void *engines)
{
	struct world *it = engines;
	struct timespec time = { 0, 200000 };
	MPI_Request request;
	int done = 0;

	/* MPI's own barrier would keep the core from the others. */
	MPI_Ibarrier(it->ours, &request);
	while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done)
		nanosleep(&time, NULL);
}

static void end(void *engines)
{
	struct world *it = engines;

	MPI_Barrier(it->all);
	MPI_Comm_free(&it->ours);
	MPI_Comm_free(&it->all);
	free(it);
}

#define GIVE(field, function) \
	do { \
		__typeof__(&function) given = &function; \
		memcpy(&calls.field, &given, sizeof given); \
	} while (0)

static taut_status make(void *engines, uint32_t rank,
	struct tauti_engine *ret_engine, struct taut_error *err)
{
	struct world *it = engines;
	struct tauti_mpi_calls calls = { .handle_bytes = sizeof(MPI_Request),
		.any_source = MPI_ANY_SOURCE, .undefined = MPI_UNDEFINED,
		.status_ignore = MPI_STATUSES_IGNORE,
		.byte = (uintptr_t)MPI_BYTE };
	int size;

	GIVE(isend, MPI_Isend);
	GIVE(irecv, MPI_Irecv);
	GIVE(testsome, MPI_Testsome);
	GIVE(cancel, MPI_Cancel);
	GIVE(wait, MPI_Wait);
	GIVE(request_free, MPI_Request_free);
	MPI_Comm_size(it->ours, &size);
	return tauti_mpi_engine_create(&calls, (uintptr_t)it->ours, rank,
		(uint32_t)size, ret_engine, err);
}

int main(int argc, char **argv)
{
	int level, rank, failed;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	failed = contract_run_as(&(struct contract){ begin, make, end },
		&(struct contract_process){ (uint32_t)rank, meet });
	MPI_Finalize();
	return failed;
}
