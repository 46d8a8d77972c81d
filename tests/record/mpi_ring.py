# SPDX-License-Identifier: Apache-2.0
"""A ring in mpi4py: objects, which it probes for, and arrays."""

from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
for lap in range(5):
    sent = comm.isend({"from": comm.rank}, dest=after, tag=lap)
    got = comm.recv(source=MPI.ANY_SOURCE, tag=lap)
    sent.wait()
    assert got == {"from": before}
    out, into = array("d", [comm.rank] * 8), array("d", [0] * 8)
    comm.Sendrecv(out, dest=after, sendtag=9, recvbuf=into, source=before, recvtag=9)
    assert into[0] == before
total = comm.allreduce(comm.rank)
assert total == comm.size * (comm.size - 1) // 2
if comm.rank == 0:
    print("ring done")
