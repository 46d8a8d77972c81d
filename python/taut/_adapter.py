# SPDX-License-Identifier: Apache-2.0
"""What a framework's adapter does for the recorder: the contract, and what several
adapters share.

An adapter is a module _<framework>.py with a class Adapter(job). It is made at
the end of the framework's import, in the importing thread. It must find the end
of each step and then call step_ended(); all else is called by the recorder, in the
thread that ended the step or, for a recording that is cut, at exit. Whatever
an adapter raises ends the recording, never the job."""

import os

# What launchers tell the ranks, or somebody by hand. Each: rank, world size, local rank;
# src/record/nccl/recorder.c has the same.
_LAUNCHERS = (
    ("TAUT_RANK", "TAUT_RANKS", ""),
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)
# Is a rank in a step of srun only: the script of a job, too, is told that it is task 0.
_SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")


def _number(name, environment):
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        return None


def launcher_ranks(environment=os.environ):
    """(rank, world size, local rank or None) from the environment, or None."""
    slurm = (_SLURM,) if "SLURM_STEP_ID" in environment else ()
    for names in _LAUNCHERS + slurm:
        rank, world, local = (_number(name, environment) for name in names)
        if rank is not None and world is not None:
            return rank, world, local
    return None


class Adapter:
    """The base: an adapter that records nothing."""

    framework = ""
    # A file that stop() puts into a rank's folder: it shows that another
    # process recorded this rank already.
    output = ""

    def __init__(self, job):
        self.job = job  # the recorder sets it anew; None: nothing to record

    def step_ended(self):
        """A training step of this process has ended."""
        if self.job:
            self.job.step(self)

    def ranks(self):
        """(rank, world size, local rank or None), or None when not known yet.
        Asked again at each change; must be cheap and must not block."""
        return launcher_ranks()

    def issue_began(self, since):
        """When this thread had what it needed to issue the step that ends, after
        its begin at `since`, both by time.perf_counter(): its last batch, or
        in a job that takes none, zeroed gradients. None: not known. Asked at the end
        of each step outside of the window; must be as cheap as a look."""
        return None

    def update_began(self, since):
        """When this thread then began to update weights, after `since`, by the same
        clock; None: not known."""
        return None

    def busy(self):
        """A line that says why nothing can be recorded now: the job uses the
        framework's profiler itself. None: it can."""
        return None

    def start(self, discard):
        """Begins to record, between two steps: that which just ended and
        self.job.steps_seen. With discard, what is recorded will be thrown away:
        it is there to make the process as slow or fast as it is going to be."""

    def prepare(self):
        """The window that was thrown away is over, the real one is near."""

    def watches(self):
        """Whether something of the step that begins is looked at, which makes it longer than
        the others."""
        return False

    def unwatch(self):
        """Nothing is recorded: nor is anything looked at any more."""

    def between_steps(self):
        """A step that was recorded ended, and so will the next that begins
        now, self.job.steps_seen."""

    def stop(self, folder):
        """Ends the recording and puts its files into folder, each written to a
        name of its own and renamed. folder None: throws it away."""

    def publish(self, key, value):
        """Tells all ranks a short text. Must not block. False: it cannot, and a
        file in the RUN folder is used."""
        return False

    def lookup(self, key):
        """What a rank published under key; None: nothing yet. Must not block."""
        return None

    def forked(self):
        """In a child made by fork, perhaps while the parent records."""

    def ended(self):
        """The job is over; what was there for it can go."""
