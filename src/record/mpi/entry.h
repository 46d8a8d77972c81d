/* entry.h - how a function of MPI is wrapped, under both of its names.
 *
 *     TAUTI_MPI_WRAP(Send, (buf, n), const void *buf, int n)
 *     {
 *             return next(buf, n);
 *     }
 *
 * The body is called with the function that comes next: of MPI_Send the next
 * MPI_Send, which may be that of another tool, of PMPI_Send the library's. */
#ifndef TAUT_RECORD_MPI_ENTRY_H
#define TAUT_RECORD_MPI_ENTRY_H

#include <limits.h>
#include <string.h>

#include <taut/base.h>

#include "record/mpi/below.h"

/* No library below: a program that finds our MPI_Init and no MPI. Any number
 * but 0 is an error to it. */
#define TAUTI_MPI_NO_LIBRARY 1

/* MPI_ERR_COUNT, in all libraries. */
#define TAUTI_MPI_TOO_LARGE 2

/* The function of that name after ours, looked up once; NULL: none. A library
 * before MPI 4 has no functions with large counts. Programs that look whether
 * it has find ours, so these must work: called in place of it, the function
 * with counts of int finds them in the same registers. */
static inline void *tauti_mpi_next(void **known, const char *name)
{
	void *next = __atomic_load_n(known, __ATOMIC_RELAXED);

	if (__builtin_expect(!next, 0)) {
		next = tauti_mpi_symbol_or_plain(name);
		__atomic_store_n(known, next, __ATOMIC_RELAXED);
	}
	return next;
}

/* Would the function below see this count? */
static inline bool tauti_mpi_fits(int64_t n)
{
	return n <= INT_MAX ||
		!__atomic_load_n(&tauti_mpi_is_narrow, __ATOMIC_RELAXED);
}

#define TAUTI_MPI_UNPACK(...) __VA_ARGS__

#define TAUTI_MPI_ENTRY(symbol, name, args, ...) \
	TAUT_API int symbol(__VA_ARGS__); \
	TAUT_API int symbol(__VA_ARGS__) \
	{ \
		static void *known; \
		void *found = tauti_mpi_next(&known, #symbol); \
		name##_fn *next; \
\
		memcpy(&next, &found, sizeof next); \
		return found ? name##_call(next, TAUTI_MPI_UNPACK args) : \
			TAUTI_MPI_NO_LIBRARY; \
	}

#define TAUTI_MPI_WRAP(name, args, ...) \
	typedef int name##_fn(__VA_ARGS__); \
	static int name##_call(name##_fn *next, __VA_ARGS__); \
	TAUTI_MPI_ENTRY(MPI_##name, name, args, __VA_ARGS__) \
	TAUTI_MPI_ENTRY(PMPI_##name, name, args, __VA_ARGS__) \
	static int name##_call(name##_fn *next, __VA_ARGS__)

#endif /* TAUT_RECORD_MPI_ENTRY_H */
