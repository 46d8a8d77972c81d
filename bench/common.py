# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
"""What the benchmark scripts share: where things are, multiplied runs, and rows that are kept."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


def bench_home():
    """The folder for what is installed for the benchmarks, outside the tree."""
    default = os.path.join(os.path.expanduser("~"), ".cache", "taut-bench")
    return os.environ.get("TAUT_BENCH_HOME") or default


def default_run():
    """The Megatron run where the shared traces lie beside the tree, else ours."""
    shared = os.path.join(ROOT, "..", "shared", "traces", "pytorch", "megatron-tp8-a100")
    if os.path.isdir(shared):
        return os.path.normpath(shared)
    return os.path.join(ROOT, "examples", "ddp-gloo-2host")


def program(path, how):
    """The path, or the end with one line that says how to get it."""
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        sys.exit(f"{os.path.basename(sys.argv[0])}: no {path}: {how}")
    return path


def add_places(parser, hta=True):
    parser.add_argument("run", nargs="?", default=default_run(), help="folder of traces")
    parser.add_argument(
        "--taut",
        default=os.path.join(ROOT, "build", "taut"),
        help="the command to measure (default build/taut)",
    )
    if hta:
        parser.add_argument(
            "--hta-python",
            default=os.path.join(bench_home(), "hta", "bin", "python"),
            help="Python with Holistic Trace Analysis (bench/setup_hta.sh makes one)",
        )


def taut_of(options):
    return program(options.taut, "run make build, or give --taut")


def hta_of(options):
    return program(options.hta_python, "run bench/setup_hta.sh, or give --hta-python")


def multiplied(run, times, folder, plain=False):
    """(folder with run multiplied, its events and size in words)."""
    command = [sys.executable, os.path.join(HERE, "multiply.py"), run, folder, str(times)]
    if plain:
        command.append("--plain")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr.strip() or "multiply.py failed")
    return folder, done.stdout.strip()


def keep_rows(path, rows, table):
    """Into a JSON file, for kept_rows(). table: the name of their dictionary whose keys are no
    strings."""
    kept = [{**vars(row), table: list(getattr(row, table).items())} for row in rows]
    with open(path, "w", encoding="ascii") as file:
        json.dump(kept, file, indent=1)


def kept_rows(path, make, table):
    """The same rows. make: of a model and a multiple of f + b."""
    rows = []
    with open(path, encoding="ascii") as file:
        for kept in json.load(file):
            row = make(kept["model"], kept["times"])
            vars(row).update(kept)
            pairs = [(tuple(k) if isinstance(k, list) else k, v) for k, v in kept[table]]
            setattr(row, table, dict(pairs))
            rows.append(row)
    return rows


def write_between(path, begin, end, text):
    """Puts the text between two lines of a page, which must have them."""
    with open(path, encoding="utf-8") as file:
        before, found_begin, rest = file.read().partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {path} has no place for it: {begin}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n{text}\n{end}{after}")
