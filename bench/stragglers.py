#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long `taut stragglers` takes, as a whole process: on the published
study's job where it lies beside the tree, and on jobs made here of any size.
The study's own tool takes 0.77 s for the former (its authors' figure)."""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
STUDY = ROOT.parent / "shared/traces/straggler-study/trace-ST.csv.gz"
THEIRS_S = 0.77
sys.path.insert(0, str(ROOT / "tests" / "stragglers"))
import made_job  # noqa: E402


def measure(taut, path, rounds):
    """Median wall and CPU seconds of a run, and its peak memory in MiB."""
    walls, cpus = [], []
    for _ in range(rounds + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.perf_counter()
        subprocess.run([taut, "stragglers", path], check=True,
                       stdout=subprocess.DEVNULL)
        walls.append(time.perf_counter() - begin)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime -
                    before.ru_stime)
    return (statistics.median(walls[1:]), statistics.median(cpus[1:]),
            after.ru_maxrss / 1024)


def say(name, rows, figures, theirs=None):
    wall, cpu, memory = figures
    more = f"   {theirs / wall:6.1f} times as fast as the study's tool" \
        if theirs else ""
    print(f"{name:34}{rows:>9,} rows {wall * 1e3:9.1f} ms {cpu * 1e3:9.1f} ms "
          f"CPU {memory:7.1f} MiB{more}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--taut", default=ROOT / "build" / "taut")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--job", action="append", metavar="DP,PP,VPP,MICRO,STEPS",
                        help="a made-up job; may be given again")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; medians "
          f"of {options.rounds}")
    if STUDY.exists():
        say("published job ST", 6784, measure(options.taut, STUDY,
                                              options.rounds), THEIRS_S)
    for text in options.job or ["2,4,1,4,32", "8,8,2,16,20"]:
        dp, pp, vpp, micro, steps = map(int, text.split(","))
        job = made_job.Job(dp, pp, vpp, micro, steps,
                           durations=made_job.uneven(1))
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as out:
            out.writelines(line + "\n" for line in job.study())
            out.flush()
            say(f"dp {dp}, pp {pp}, vpp {vpp}, {micro} batches, {steps} steps",
                len(job.ops), measure(options.taut, out.name,
                                      max(3, options.rounds // 4)))


if __name__ == "__main__":
    main()
