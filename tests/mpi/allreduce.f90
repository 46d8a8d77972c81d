! SPDX-License-Identifier: Apache-2.0
! All-reduces of a Fortran program: those that block, in place and not, and one
! that begins.
program allreduce
  use mpi
  implicit none
  integer, parameter :: n = 100000
  integer :: rank, ranks, fault, request, turn
  real :: one(n), sum_of_one(n)
  double precision :: two(n)
  integer :: three(n)

  call mpi_init(fault)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, fault)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, fault)
  do turn = 1, 6
    one = real(rank + turn)
    call mpi_allreduce(one, sum_of_one, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, fault)
    if (any(sum_of_one /= real(ranks * turn + ranks * (ranks - 1) / 2))) stop 3
    two = dble(rank)
    call mpi_allreduce(MPI_IN_PLACE, two, n, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, fault)
    if (any(two /= dble(ranks - 1))) stop 4
    three = rank
    call mpi_iallreduce(MPI_IN_PLACE, three, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, fault)
    call mpi_wait(request, MPI_STATUS_IGNORE, fault)
    if (any(three /= ranks * (ranks - 1) / 2)) stop 5
  end do
  if (rank == 0) print '(a)', 'fortran done'
  call mpi_finalize(fault)
end program allreduce
