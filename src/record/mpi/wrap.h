/* wrap.h - what the files that wrap functions of MPI include. */
#ifndef TAUT_RECORD_MPI_WRAP_H
#define TAUT_RECORD_MPI_WRAP_H

#include "record/mpi/entry.h"
#include "record/mpi/mpi.h"

#endif /* TAUT_RECORD_MPI_WRAP_H */
