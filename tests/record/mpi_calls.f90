! mpi_calls.f90 - the same calls from Fortran: a ring and two collectives.
program mpi_calls
   use mpi
   implicit none
   integer :: rank, size, fault, token, after, before, total
   integer :: status(MPI_STATUS_SIZE), requests(2), statuses(MPI_STATUS_SIZE, 2)
   double precision :: x(4), y(4)

   call MPI_Init(fault)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, fault)
   call MPI_Comm_size(MPI_COMM_WORLD, size, fault)
   after = mod(rank + 1, size)
   before = mod(rank + size - 1, size)
   call MPI_Isend(rank, 1, MPI_INTEGER, after, 3, MPI_COMM_WORLD, requests(1), fault)
   call MPI_Irecv(token, 1, MPI_INTEGER, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &
      requests(2), fault)
   call MPI_Waitall(2, requests, statuses, fault)
   if (token /= before .or. statuses(MPI_SOURCE, 2) /= before) call MPI_Abort(MPI_COMM_WORLD, 9, fault)
   call MPI_Sendrecv(rank, 1, MPI_INTEGER, after, 4, token, 1, MPI_INTEGER, before, 4, &
      MPI_COMM_WORLD, status, fault)
   call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, fault)
   if (total /= size*(size - 1)/2) call MPI_Abort(MPI_COMM_WORLD, 9, fault)
   x = rank
   call MPI_Allreduce(MPI_IN_PLACE, x, 4, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, fault)
   call MPI_Bcast(y, 4, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, fault)
   if (rank == 0) print '(a)', 'fortran done'
   call MPI_Finalize(fault)
end program
