# SPDX-License-Identifier: Apache-2.0
"""All-reduces of mpi4py: arrays, objects, requests, communicators of its own."""

from array import array

from mpi4py import MPI

LARGE = 200000
comm = MPI.COMM_WORLD
n, rank = comm.size, comm.rank

for turn in range(8):
    out = array("d", [rank + turn] * LARGE)
    into = array("d", [0]) * LARGE
    comm.Allreduce(out, into, op=MPI.SUM)
    assert into[0] == into[-1] == n * (n - 1) / 2 + n * turn
    comm.Allreduce(MPI.IN_PLACE, out, op=MPI.MAX)
    assert out[0] == out[-1] == n - 1 + turn

small = array("i", [rank])
comm.Allreduce(MPI.IN_PLACE, small, op=MPI.MIN)
assert small[0] == 0
assert comm.allreduce({"rank": rank}["rank"], op=MPI.SUM) == n * (n - 1) // 2
assert comm.allreduce([rank], op=MPI.SUM) == list(range(n))

data = [array("i", [rank * k] * LARGE) for k in range(6)]
requests = [comm.Iallreduce(MPI.IN_PLACE, each, op=MPI.SUM) for each in data]
MPI.Request.Waitall(requests)
for k, each in enumerate(data):
    assert each[0] == each[-1] == k * n * (n - 1) // 2

half = comm.Split(rank % 2, rank)
ones = array("f", [1] * LARGE)
for turn in range(8):
    half.Allreduce(MPI.IN_PLACE, ones, op=MPI.PROD)
    assert ones[5] == 1
half.Free()
if rank == 0:
    print("arrays done")
