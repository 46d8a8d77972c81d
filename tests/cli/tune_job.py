# SPDX-License-Identifier: Apache-2.0
"""A job of the tests of `taut tune`, without a framework. Recorded, it leaves the traces of
an example; run, the times that its first word says: a Python expression of `n`, the number
of the run, and `made`, the names of the plan's decisions. See measure() for its value."""

import json
import os
import pathlib
import re
import shutil
import sys
import time

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "ddp-gloo-2host"


def record(folder):
    for trace in EXAMPLE.glob("rank*.gz"):
        rank = folder / trace.name.split(".")[0]
        rank.mkdir(exist_ok=True)
        shutil.copy(trace, rank)


def measure(folder, ms, steps=40, status=0, before="", **told):
    """Steps of ms, or of each in a list, again and again, a little longer and shorter by
    turns. before: statements, of what the job does in place of its steps."""
    exec(before, {**globals(), "folder": folder})
    each = ms if isinstance(ms, list) else [ms - 0.05, ms + 0.05]
    times = [round(1e6 * each[i % len(each)]) for i in range(steps)]
    told = {"rank": 0, "world": 1, "step_ns": times, **told}
    (folder / "rank-0.json").write_text(json.dumps(told))
    sys.exit(status)


def main(what):
    if "TAUT_RUN_MEASURE" not in os.environ:
        return record(pathlib.Path(os.environ["TAUT_RECORD"]))
    folder = pathlib.Path(os.environ["TAUT_RUN_MEASURE"])
    n = int(folder.name.split("-")[-1])
    plan = json.loads((folder.parent / f"run-{n}.json").read_text())
    made = {re.split("[=,]", decision["change"])[0] for decision in plan["decisions"]}
    return measure(folder, **eval(what, {"n": n, "made": made}))


if __name__ == "__main__":
    main(sys.argv[1])
