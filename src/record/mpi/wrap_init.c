/* wrap_init.c - the beginning and the end of MPI. */
#include <stdio.h>

#include "record/mpi/wrap.h"

TAUTI_MPI_WRAP(Init, (argc, argv), int *argc, char ***argv)
{
	int64_t begin_ns = taut_log_now();
	int rc;

	tauti_mpi_depth++;
	rc = next(argc, argv);
	if (!rc && tauti_mpi_depth == 1)
		tauti_mpi_start(begin_ns);
	tauti_mpi_depth--;
	return rc;
}

TAUTI_MPI_WRAP(Init_thread, (argc, argv, required, provided),
	int *argc, char ***argv, int required, int *provided)
{
	int64_t begin_ns = taut_log_now();
	int rc;

	tauti_mpi_depth++;
	rc = next(argc, argv, required, provided);
	if (!rc && tauti_mpi_depth == 1)
		tauti_mpi_start(begin_ns);
	tauti_mpi_depth--;
	return rc;
}

TAUTI_MPI_WRAP(Abort, (comm, code), tauti_mpi_handle comm, int code)
{
	char line[64];

	if (tauti_mpi.on) {
		snprintf(line, sizeof line, "MPI_Abort(%d)", code);
		tauti_mpi_stop(line);
	}
	return next(comm, code);
}

/* Variadic, and MPI libraries do nothing in it: what stands behind level is
 * for us or for nobody. */
#define PCONTROL(name) \
	TAUT_API int name(const int level, ...); \
	TAUT_API int name(const int level, ...) \
	{ \
		typedef int fn(const int, ...); \
		static void *known; \
		void *found = tauti_mpi_next(&known, #name); \
		fn *next; \
\
		memcpy(&next, &found, sizeof next); \
		if (tauti_mpi_depth == 0) \
			tauti_mpi_pcontrol(level); \
		return found ? next(level) : TAUTI_MPI_NO_LIBRARY; \
	}
PCONTROL(MPI_Pcontrol)
PCONTROL(PMPI_Pcontrol)

#define FINALIZE(name) \
	TAUT_API int name(void); \
	TAUT_API int name(void) \
	{ \
		typedef int fn(void); \
		static void *known; \
		void *found = tauti_mpi_next(&known, #name); \
		fn *next; \
		int rc; \
\
		memcpy(&next, &found, sizeof next); \
		if (!found) \
			return TAUTI_MPI_NO_LIBRARY; \
		if (tauti_mpi.on && tauti_mpi_depth == 0) { \
			tauti_mpi_clocks_end(); \
			tauti_mpi_stop("MPI_Finalize"); \
			tauti_mpi_end(); \
		} \
		tauti_mpi_depth++; \
		rc = next(); \
		tauti_mpi_depth--; \
		return rc; \
	}
FINALIZE(MPI_Finalize)
FINALIZE(PMPI_Finalize)
