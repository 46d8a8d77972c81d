/* below.h - the MPI library below an object that is preloaded before it: where its
 * functions are, and how its things look. The objects that stand before MPI
 * (libtaut-mpi.so, libtaut-mpi-coll.so) each have a copy of this.
 *
 * No mpi.h is used. The two binary interfaces there are (Open MPI: handles
 * are pointers; MPICH and its kin: handles are ints) differ in the width of
 * handles in memory, in the layout of a status and in some constants: struct
 * tauti_mpi_abi, chosen at MPI_Init. In registers and on the stack all of
 * MPI's arguments are of integer class, and an int that travels as a
 * uintptr_t arrives as it was, on x86-64 and AArch64.
 *
 * Threads: any. */
#ifndef TAUT_RECORD_MPI_BELOW_H
#define TAUT_RECORD_MPI_BELOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Any MPI handle as it travels in a register. Of an int handle only the low
 * half counts: compare after tauti_mpi_clean(). */
typedef uintptr_t tauti_mpi_handle;

struct tauti_mpi_abi {
	const char *name;
	uint32_t handle_bytes;               /* in memory: 4 or 8 */
	uint32_t status_bytes, source_at, tag_at; /* of an MPI_Status */
	int any_source, any_tag, proc_null, root, comm_type_shared;
	uintptr_t status_ignore, in_place;   /* pointers */
	tauti_mpi_handle comm_world, comm_self, comm_null, request_null,
		message_null, byte, int64, errors_return;
};

/* The function of that name that comes after ours; NULL: no MPI is loaded. */
void *tauti_mpi_symbol(const char *name);
/* The same, or of a name that ends in _c the one without; sets is_narrow. */
void *tauti_mpi_symbol_or_plain(const char *name);
/* Whether a name that ends in _c was asked for, and the one without was found. */
extern bool tauti_mpi_is_narrow __attribute__((visibility("hidden")));
/* An object of data, by its name; 0: there is none. */
tauti_mpi_handle tauti_mpi_object(const char *name);
/* Whose library it is; NULL: one that is not known. */
const struct tauti_mpi_abi *tauti_mpi_abi_below(void);

#endif /* TAUT_RECORD_MPI_BELOW_H */
