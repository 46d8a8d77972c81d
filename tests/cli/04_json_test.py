# SPDX-License-Identifier: Apache-2.0
"""The JSON of report and replay: its keys, and that it adds up."""

import csv
import decimal
import io
import json
import re

import command
from command import EXAMPLE

CATEGORIES = [
    "compute",
    "comm_exposed",
    "comm_wait",
    "host_bound",
    "data",
    "copy",
    "other",
]


def read(text):
    """Numbers stay decimal: what must add up exactly can be checked so."""
    return json.loads(text, parse_float=decimal.Decimal)


class Report(command.Case):
    @classmethod
    def setUpClass(cls):
        cls.report = read(command.taut("report", EXAMPLE, "--json").stdout)

    def keys(self, rows, *names):
        self.assertTrue(rows)
        for row in rows:
            for name in names:
                self.assertIn(name, row)

    def test_head(self):
        self.assertEqual(self.report["ranks"], 2)
        self.assertEqual(self.report["rank_ids"], [0, 1])
        self.assertRegex(self.report["version"], r"^\d+\.\d+\.\d+$")
        self.assertGreater(self.report["steady_step_ms"], 100)

    def test_tables_have_their_keys(self):
        report = self.report
        self.keys(report["steps"], "rank", "step", "measured_ms", "replayed_ms")
        self.keys(
            report["clock"], "rank", "host", "offset_us", "drift_ppm", "uncertainty_us"
        )
        self.keys(report["breakdown"], "rank", "step", "ms", "comm_overlapped_ms")
        self.keys(
            report["critical_path"],
            "rank",
            "lane",
            "name",
            "category",
            "start_ms",
            "ms",
        )
        self.keys(report["findings"], "id", "ranks", "cost_ms", "text")
        self.keys(
            report["temporal"],
            "rank",
            "kernel_span_ms",
            "compute_ms",
            "non_compute_ms",
            "idle_ms",
            "overlap_pct",
        )
        self.keys(report["removals"], "id", "title", "step_ms", "saved_ms")
        self.keys([report["replay"]], "error_pct_max", "error_pct_mean")
        self.keys([report["replay"]], "unexplained_pct")
        self.keys(
            [report["collectives"]],
            "count",
            "transfer_ms",
            "wait_ms_by_rank",
            "last_arrivals_by_rank",
        )
        self.keys(report["critical_path"], "module", "ops")
        self.keys([report["stalls"]], "count", "ms")
        self.keys(
            [report["graph"]],
            "operations",
            "lanes",
            "edges",
            "backward_edges",
            "worst_backward_ms",
            "circular",
            "groups_by_time",
            "unmatched_collectives",
            "first_mismatch",
            "launches_not_recorded",
        )
        self.assertIs(report["graph"]["groups_by_time"], False)
        self.keys(report["late"], "rank", "caused_ms", "excess_ms", "stall_ms")
        self.assertIsInstance(report["notes"], list)
        self.assertIsInstance(report["late"], list)

    def test_categories_add_up_to_the_step(self):
        steps = {(s["rank"], s["step"]): s for s in self.report["steps"]}
        self.assertEqual(len(steps), len(self.report["breakdown"]))
        for row in self.report["breakdown"]:
            self.assertEqual(list(row["ms"]), CATEGORIES)
            step = steps[row["rank"], row["step"]]
            self.assertEqual(sum(row["ms"].values()), step["measured_ms"])

    def test_a_row_for_every_rank(self):
        collectives = self.report["collectives"]
        self.assertEqual(len(collectives["wait_ms_by_rank"]), 2)
        self.assertEqual(len(collectives["last_arrivals_by_rank"]), 2)
        self.assertEqual(
            sum(collectives["last_arrivals_by_rank"]), collectives["count"]
        )

    def test_path_is_in_order(self):
        path = self.report["critical_path"]
        starts = [piece["start_ms"] for piece in path]
        self.assertEqual(starts, sorted(starts))
        by_category = dict.fromkeys(CATEGORIES, 0)
        for piece in path:
            by_category[piece["category"]] += piece["ms"]
        self.assertEqual(by_category, self.report["critical_path_ms"])

    def test_tables_add_up(self):
        report = self.report
        collectives = report["collectives"]
        kinds = collectives["kinds"]
        for key in ["count", "transfer_ms"]:
            self.assertEqual(sum(k[key] for k in kinds), collectives[key])
        self.assertEqual(
            sum(k["wait_ms"] for k in kinds), sum(collectives["wait_ms_by_rank"])
        )
        for table in ["critical_path_by_name", "critical_path"]:
            self.assertEqual(
                sum(row["ms"] for row in report[table]),
                sum(report["critical_path_ms"].values()),
            )

    def test_path_is_without_a_hole(self):
        path = self.report["critical_path"]
        for piece, after in zip(path, path[1:]):
            self.assertEqual(piece["start_ms"] + piece["ms"], after["start_ms"])
            self.assertGreaterEqual(piece["ops"], 1)

    def test_findings_are_ordered(self):
        costs = [finding["cost_ms"] for finding in self.report["findings"]]
        self.assertLessEqual(len(costs), 10)
        self.assertEqual(costs, sorted(costs, reverse=True))

    def test_same_bytes_with_any_number_of_threads(self):
        one = self.done("report", EXAMPLE, "--json", "--threads", "1")
        four = self.done("report", EXAMPLE, "--json", "--threads", "4")
        self.assertEqual(one, four)


class Replay(command.Case):
    def test_replay(self):
        replay = read(self.done("replay", EXAMPLE, "--json"))
        report = read(self.done("report", EXAMPLE, "--json"))
        self.assertEqual(replay["graph"], report["graph"])
        self.assertEqual(
            [(s["rank"], s["step"], s["measured_ms"]) for s in replay["steps"]],
            [(s["rank"], s["step"], s["measured_ms"]) for s in report["steps"]],
        )
        for step in replay["steps"]:
            error = 100 * (step["replayed_ms"] / step["measured_ms"] - 1)
            self.assertAlmostEqual(error, step["error_pct"], places=5)
        self.assertGreater(replay["replay"]["operations_per_second"], 0)
        self.assertEqual(
            set(replay["graph"]["edges"]),
            {"launch", "sync", "stream", "thread", "comm", "start"},
        )

    def test_text_has_every_step(self):
        text = self.done("replay", EXAMPLE)
        replay = read(self.done("replay", EXAMPLE, "--json"))
        for step in replay["steps"]:
            self.assertRegex(
                text, rf"\n +{step['rank']} +{step['step']} +\d+\.\d\d\d "
            )


class Made(command.Case):
    """A run made here, whose answers are known."""

    def test_late_rank(self):
        report = read(self.done("report", self.make_run(), "--json"))
        self.assertEqual(report["ranks"], 2)
        self.assertEqual(report["collectives"]["count"], 2)
        self.assertEqual(report["collectives"]["last_arrivals_by_rank"], [0, 2])
        self.assertEqual(
            report["collectives"]["wait_ms_by_rank"], [decimal.Decimal("4"), 0]
        )

    def test_all_ranks_of_many(self):
        run = self.make_run(20)
        rows = r"\n +(\d+)(?: +[a-z]+)? +9\.900 "
        short = re.findall(rows, self.done("report", run))
        self.assertIn("1", short)
        self.assertLess(len(short), 20)
        self.assertIn("--all", self.done("report", run))
        every = re.findall(rows, self.done("report", run, "--all"))
        self.assertEqual(every, [str(rank) for rank in range(20)])

    def test_missing_ranks_are_said(self):
        run = self.make_run(4)
        (run / "rank2.json").unlink()
        report = read(self.done("report", run, "--json"))
        self.assertEqual(report["rank_ids"], [0, 1, 3])
        self.assertRegex(" ".join(report["notes"]), "3 of the job's 4 ranks")

    def test_names_with_everything(self):
        run = self.make_run()
        path = run / "rank0.json"
        name = 'tab\\t quote\\" back\\\\ esc\\u001b[31m \\u00e9'
        text = path.read_text().replace('"gemm"', f'"{name}"')
        raw = text.encode().replace(b"aten::mm", b"bad\xff\xfebytes")
        path.write_bytes(raw)
        json.loads(self.done("report", run, "--json"))
        self.assertNotIn("\033", self.done("report", run))
        rows = list(
            csv.DictReader(
                io.StringIO(self.done("convert", run, "--to", "csv"), newline="")
            )
        )
        names = " ".join(row["name"] for row in rows)
        self.assertIn('quote" back\\ esc', names)
        self.assertNotIn("\033", names)

    def test_comm_pattern(self):
        run = self.make_run()
        for path in run.iterdir():
            path.write_text(
                path.read_text().replace("ncclDevKernel_AllReduce", "house_reduce")
            )
        args = ["report", run, "--json"]
        plain = read(self.done(*args))
        told = read(self.done(*args, "--comm-pattern", "house_*"))
        self.assertEqual(plain["collectives"]["count"], 0)
        self.assertEqual(told["collectives"]["count"], 2)

    def test_ranks_from_the_option(self):
        run = self.make_run()
        paths = []
        for rank in range(2):
            trace = json.loads((run / f"rank{rank}.json").read_text())
            del trace["distributedInfo"]
            paths.append(self.folder / "ab"[rank])
            paths[-1].write_text(json.dumps(trace))
        self.refused(1, "report", *paths, says="rank")
        report = read(
            self.done("report", *paths, "--json", "--ranks", "7,3")
        )
        self.assertEqual(report["rank_ids"], [3, 7])


class Csv(command.Case):
    def test_table_of_operations(self):
        text = self.done("convert", EXAMPLE, "--to", "csv")
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        self.assertEqual(
            list(rows[0]),
            "rank,step,name,kind,lane,start_us,duration_us,group,bytes,peer".split(
                ","
            ),
        )
        self.assertEqual({row["rank"] for row in rows}, {"0", "1"})
        self.assertIn("transfer", {row["kind"] for row in rows})
        for row in rows:
            self.assertGreaterEqual(decimal.Decimal(row["duration_us"]), 0)
            decimal.Decimal(row["start_us"])


if __name__ == "__main__":
    command.main()
