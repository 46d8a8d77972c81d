/* abi.c - what the recorder calls of the MPI library below. */
#include <string.h>

#include "record/mpi/mpi.h"

static bool resolve(struct tauti_mpi_real *real)
{
	const struct {
		const char *name;
		void *at;
	} all[] = {
		{ "PMPI_Comm_rank", &real->comm_rank },
		{ "PMPI_Comm_size", &real->comm_size },
		{ "PMPI_Comm_test_inter", &real->comm_test_inter },
		{ "PMPI_Comm_remote_size", &real->comm_remote_size },
		{ "PMPI_Comm_group", &real->comm_group },
		{ "PMPI_Comm_remote_group", &real->comm_remote_group },
		{ "PMPI_Group_size", &real->group_size },
		{ "PMPI_Group_translate_ranks",
			&real->group_translate_ranks },
		{ "PMPI_Group_free", &real->group_free },
		{ "PMPI_Type_size", &real->type_size },
		{ "PMPI_Type_get_name", &real->type_get_name },
		{ "PMPI_Type_get_envelope", &real->type_get_envelope },
		{ "PMPI_Get_count", &real->get_count },
		{ "PMPI_Test_cancelled", &real->test_cancelled },
		{ "PMPI_Get_library_version", &real->get_library_version },
		{ "PMPI_Comm_get_parent", &real->comm_get_parent },
		{ "PMPI_Query_thread", &real->query_thread },
		{ "PMPI_Comm_dup", &real->comm_dup },
		{ "PMPI_Comm_free", &real->comm_free },
		{ "PMPI_Comm_set_errhandler", &real->comm_set_errhandler },
		{ "PMPI_Allgather", &real->allgather },
		{ "PMPI_Send", &real->send },
		{ "PMPI_Recv", &real->recv },
	};
	bool whole = true;

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		void *found = tauti_mpi_symbol(all[i].name);

		memcpy(all[i].at, &found, sizeof found);
		whole = whole && found;
	}
	return whole;
}

const struct tauti_mpi_abi *tauti_mpi_detect(struct tauti_mpi_real *real)
{
	return resolve(real) ? tauti_mpi_abi_below() : NULL;
}
