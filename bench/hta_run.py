#!/usr/bin/env python3
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
"""Runs Holistic Trace Analysis over one run's traces, as its manual shows.

Load every rank, then temporal breakdown, communication/computation overlap,
kernel breakdown and the critical path of one ProfilerStep on every rank.
Run it with the Python of the environment that bench/setup_hta.sh made.

HTA gets its best settings: its own worker pool for parsing, no memory
tracing, no plots, the JSON back end that proved fastest, and (by --jobs, which
HTA itself does not offer) the ranks' critical paths in forked workers.
"""

import argparse
import glob
import json
import logging
import os
import re
import sys
import time

CLOCK_AT_START = time.perf_counter()


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("run", help="folder of traces, one file a rank")
    parser.add_argument("--json", action="store_true", help="print JSON, not text")
    parser.add_argument(
        "--jobs",
        type=int,
        default=0,
        help="processes for the critical paths (default 0: one a core; 1: none)",
    )
    parser.add_argument(
        "--parser",
        default="json",
        choices=["json", "ijson", "ijson_batched", "ijson_batch_and_compress"],
        help="HTA's parser back end",
    )
    parser.add_argument(
        "--steps",
        choices=["first", "all"],
        default="first",
        help="critical path of the first ProfilerStep (as HTA's manual), or of each",
    )
    parser.add_argument(
        "--without-critical-path", action="store_true", help="skip the critical paths"
    )
    parser.add_argument(
        "--drop-last-step",
        action="store_true",
        help="HTA's own default: leave the last step out where there are several",
    )
    return parser.parse_args()


def rank_in(path, text):
    """The rank by the trace's head, else by its file name."""
    match = re.search(r'"distributedInfo"\s*:\s*\{[^}]*"rank"\s*:\s*(\d+)', text)
    if match:
        return int(match.group(1))
    match = re.search(r"rank[-_. ]?(\d+)", os.path.basename(path))
    return int(match.group(1)) if match else None


def head_of(path, limit_bytes=65536):
    if path.endswith(".gz"):
        import gzip

        with gzip.open(path, "rb") as source:
            return source.read(limit_bytes).decode("utf-8", "replace")
    with open(path, "rb") as source:
        return source.read(limit_bytes).decode("utf-8", "replace")


def files_by_rank(folder):
    """{rank: path}. HTA's own search wants rank in the first bytes only."""
    if os.path.isfile(folder):
        return {rank_in(folder, head_of(folder)) or 0: os.path.abspath(folder)}
    names = sorted(
        glob.glob(os.path.join(folder, "*.json"))
        + glob.glob(os.path.join(folder, "*.json.gz"))
    )
    found = {}
    for place, path in enumerate(names):
        rank = rank_in(path, head_of(path))
        rank = place if rank is None else rank
        if rank in found:
            sys.exit(f"hta_run: rank {rank} twice: {found[rank]} and {path}")
        found[rank] = os.path.abspath(path)
    if not found:
        sys.exit(f"hta_run: no .json or .json.gz in {folder}")
    return found


def load(options):
    from hta.common.trace import Trace
    from hta.configs.parser_config import ParserBackend, ParserConfig
    from hta.trace_analysis import TraceAnalysis

    config = ParserConfig.get_default_cfg()
    config.set_parser_backend(ParserBackend(options.parser))
    trace = Trace(files_by_rank(options.run), os.path.abspath(options.run), config)
    trace.load_traces(
        include_last_profiler_step=not options.drop_last_step,
        use_multiprocessing=True,
        use_memory_profiling=False,
    )
    analysis = TraceAnalysis.__new__(TraceAnalysis)
    analysis.t = trace
    return analysis


def bound_by(graph):
    """Microseconds of the critical path by HTA's bound_by names."""
    breakdown = graph.get_critical_path_breakdown()
    if "bound_by" not in breakdown:
        return float(breakdown["duration"].sum()), {}
    summed = breakdown.groupby("bound_by")["duration"].sum()
    return float(breakdown["duration"].sum()), {
        str(name): float(us) for name, us in summed.items() if us
    }


def critical_path(analysis, rank, instance):
    try:
        graph, found = analysis.critical_path_analysis(
            rank=rank, annotation="ProfilerStep", instance_id=instance
        )
        row = {"rank": rank, "instance": instance, "found": bool(found)}
        row["nodes"] = graph.number_of_nodes()
        row["edges"] = graph.number_of_edges()
        if found:
            row["critical_nodes"] = len(graph.critical_path_nodes)
            row["total_us"], row["bound_by_us"] = bound_by(graph)
        return row
    except Exception as problem:  # HTA fails in many ways; the table says so
        return {
            "rank": rank,
            "instance": instance,
            "found": False,
            "error": f"{type(problem).__name__}: {problem}",
        }


SHARED = None  # the loaded analysis, inherited by forked workers


def critical_path_here(work):
    return critical_path(SHARED, *work)


def critical_paths(analysis, options):
    global SHARED
    work = []
    for rank in analysis.t.get_ranks():
        # The iteration column holds the step's number, or its name (text).
        count = len(analysis.t.traces[rank]["iteration"].unique())
        count = max(1, count - 1) if options.steps == "all" else 1
        work += [(rank, instance) for instance in range(count)]
    jobs = options.jobs or os.cpu_count() or 1
    jobs = min(jobs, len(work))
    SHARED = analysis
    if jobs <= 1:
        return [critical_path_here(item) for item in work]
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        return pool.map(critical_path_here, work, chunksize=1)


def plain(frame):
    return json.loads(frame.to_json(orient="records"))


def analyse(options):
    marks = {}
    before = time.perf_counter()

    def mark(name):
        nonlocal before
        now = time.perf_counter()
        marks[name + "_s"] = round(now - before, 4)
        before = now

    def attempt(name, work):
        """HTA fails on some traces (no device, no step); the result says so."""
        try:
            result[name] = work()
        except Exception as problem:
            result[name] = []
            result["errors"][name] = f"{type(problem).__name__}: {problem}"
        mark(name)

    result = {"errors": {}}
    analysis = load(options)
    mark("import_and_load")
    attempt("temporal", lambda: plain(analysis.get_temporal_breakdown(visualize=False)))
    attempt("overlap", lambda: plain(analysis.get_comm_comp_overlap(visualize=False)))
    attempt(
        "kernels",
        lambda: [plain(part) for part in analysis.get_gpu_kernel_breakdown(visualize=False)],
    )
    if not options.without_critical_path:
        attempt("critical_path", lambda: critical_paths(analysis, options))
    result["events"] = {
        str(rank): len(frame) for rank, frame in analysis.t.traces.items()
    }
    result["seconds"] = marks
    return result


def print_text(result):
    result["kernel types"] = result["kernels"][0] if result["kernels"] else []
    for name in ("temporal", "overlap", "kernel types", "critical_path"):
        print(name)
        for row in result.get(name, []):
            print("  ", row)
    for name, problem in result["errors"].items():
        print("failed:", name, problem)
    print("seconds", result["seconds"])


def main():
    options = arguments()
    try:
        import hta  # noqa: F401
    except ImportError:
        sys.exit("hta_run: no Holistic Trace Analysis here: run bench/setup_hta.sh")
    logging.disable(logging.WARNING)
    result = analyse(options)
    result["seconds"]["since_start_s"] = round(time.perf_counter() - CLOCK_AT_START, 4)
    if options.json:
        json.dump(result, sys.stdout, indent=1)
        print()
    else:
        print_text(result)


if __name__ == "__main__":
    main()
