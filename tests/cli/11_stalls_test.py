# SPDX-License-Identifier: Apache-2.0
"""taut stalls: what ranks that are made up here have measured, jobs that only pretend to be
measured, and what is wrong input."""

import json
import os
import re
import signal
import sys
import unittest

import command
from command import ROOT, taut

# Of a made-up job: time of a step, and bytes of it that come from storage.
STEP_MS = {"place": 10, "half": 6, "cold": 40, "part": 30, "cached": 20}
BATCH, STEPS, ITEMS, ITEM_BYTES = 10, 20, 1000, 100_000


def phase_lines(index, name, slower=1.0):
    wall = int(STEP_MS[name] * 1e6 * slower)
    loads = name not in ("place", "half")
    read = STEPS * BATCH * ITEM_BYTES * loads
    storage = read * {"cold": 2, "part": 1}.get(name, 0) // 2
    samples = STEPS * BATCH // (2 if name == "half" else 1)
    cpu = STEPS * int((STEP_MS["half" if name == "half" else "place"] + 18 * loads) * 1e6)
    wait = max(wall - 10_000_000, 0) if loads else 0
    files = STEPS * BATCH * loads
    head = [index, name, STEPS, samples, STEPS * wall, STEPS * wait, cpu, read, storage]
    head += [files, files * ITEM_BYTES]
    own = STEPS * int(STEP_MS["place"] * 1e6)  # of cpu; the rest is of workers
    lines = ["phase " + " ".join(map(str, head + [own] * loads))]
    lines += [f"step {index} {name} {wall} {wait} -1"] * STEPS
    faults = 1200 * STEPS, 20 * STEPS * BATCH * loads
    return lines + [f"faults {index} {name} {faults[0]} {faults[1]}"]


PHASES = "place", "cold", "cached", "part"
# What the command is asked, it hands on; the job ends well on it.
ASK_TO_END = (
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); "
    "os.kill(os.getppid(), signal.SIGTERM); signal.pause()"
)


def rank_text(rank=0, ranks=1, rounds=4, phases=PHASES, items=ITEMS, fault_ns=2500):
    lines = ["taut-stalls 1", f"rank {rank} of {ranks}", "host here", "loader torch"]
    lines += ["unit batch", "workers 2", "depth 4", f"batch {BATCH}", f"items {items}"]
    lines += ["cores 4", "device 0", f"fault_ns {fault_ns}"]
    for index in range(rounds):
        for name in phases:  # rounds differ, phases of one do not
            lines += phase_lines(index, name, 1 + 0.01 * index)
    lines += phase_lines(0, "half") if "half" not in phases else []
    return "\n".join([*lines, "end"]) + "\n"


def keys_of(value):
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


class Read(command.Case):
    """Folders that a job has left."""

    def kept(self, name="kept", ranks=1, **options):
        folder = self.folder / name
        folder.mkdir()
        for rank in range(ranks):
            text = rank_text(rank, ranks, **options)
            (folder / f"rank-{rank}.stalls").write_text(text)
        return folder

    def json(self, folder, *options):
        return json.loads(self.done("stalls", "--read", folder, "--json", *options))

    def test_rates_and_stalls(self):
        result = self.json(self.kept())
        rates = result["samples_a_second"]
        for name, rate in (("place", 1000), ("cached", 500), ("part", 333.3), ("cold", 250)):
            self.assertAlmostEqual(rates[name]["value"], rate, delta=rate * 0.03)
            self.assertEqual(rates[name]["rounds"], 4)
            self.assertTrue(rates[name]["low"] <= rates[name]["value"] <= rates[name]["high"])
        for name, share in (("fetch", 0.5), ("prepare", 0.25), ("cached", 0.5)):
            self.assertAlmostEqual(result["stalls"][name]["value"], share, delta=0.002)
        self.assertEqual(result["cold"]["cold_share"], 1)
        self.assertEqual(result["cold"]["cached_share"], 0)
        self.assertEqual(result["job"]["mean_bytes"], ITEM_BYTES)
        self.assertIsNone(result["storage"])

    def test_what_else_a_job_opens(self):
        """A model that was read before the loader was at work is no item."""
        folder = self.kept()
        names = ["+%d /data/%d.jpg\n" % (ITEM_BYTES, i) for i in range(ITEMS)]
        (folder / "files").write_text("100000000 /model.pth\n2000 /config\n" + "".join(names))
        result = self.json(folder)
        self.assertEqual(result["job"]["spread_bytes"], 0)
        self.assertEqual(result["model"]["set_bytes"], ITEMS * ITEM_BYTES)

    def test_page_faults(self):
        """1,200 of 2.5 us are 3 of a step's 10 ms; of an item 20, 50 us of 1.8 ms."""
        folder = self.kept()
        faults = self.json(folder)["page_faults"]
        self.assertEqual((faults["fault_ns"], faults["a_step"], faults["an_item"]), (2500, 1200, 20))
        self.assertAlmostEqual(faults["step_share"], 0.3)
        self.assertAlmostEqual(faults["item_share"], 0.05 / 1.8, places=4)
        said = " ".join(self.done("stalls", "--read", folder).split())
        for part in ("Page faults", "30.0 1,200 a step of the job alone", "2.8 20 an item",
                     "Each takes 2.5 us. 'taut run --heap keep' spares those"):  # fmt: skip
            self.assertIn(part, said)

    def test_few_page_faults(self):
        """What is little is not said, and what is not known is null."""
        folder = self.kept("few", fault_ns=250)
        self.assertAlmostEqual(self.json(folder)["page_faults"]["step_share"], 0.03)
        unknown = self.kept("unknown", fault_ns=0)
        self.assertIsNone(self.json(unknown)["page_faults"])
        for kept in (self.kept("fewer", fault_ns=200), unknown):
            self.assertNotIn("Page faults", self.done("stalls", "--read", kept))

    def test_two_ranks_are_one_job(self):
        result = self.json(self.kept(ranks=2))
        self.assertEqual((result["job"]["ranks"], result["job"]["hosts"]), (2, 1))
        value = result["samples_a_second"]["place"]["value"]
        self.assertAlmostEqual(value, 2000, delta=60)

    def test_one_rank_has_the_loader(self):
        """It gives the others their batches, whichever it is."""
        folder = self.kept()
        path = folder / "rank-0.stalls"
        path.write_text(path.read_text().replace("rank 0 of 1", "rank 0 of 8"))
        note = "7 of 8 ranks took no batches of a loader of their own: what is said is of the others."
        result = self.json(folder)
        self.assertEqual((result["job"]["ranks"], result["notes"]), (1, [note]))
        other = folder / "rank-5.stalls"
        other.write_text(path.read_text().replace("rank 0 of 8", "rank 5 of 8"))
        path.unlink()
        self.assertEqual(self.json(folder)["notes"], [note])
        self.assertIn(note, " ".join(self.done("stalls", "--read", folder).split()))

    def test_ranks_of_unlike_sizes(self):
        """Shards of 1,000 and 1,003 items, batches of 10 and 12."""
        folder = self.kept(ranks=2)
        path = folder / "rank-1.stalls"
        text = path.read_text().replace("items 1000", "items 1003").replace("batch 10\n", "batch 12\n")
        path.write_text(text)
        result = self.json(folder)
        self.assertEqual((result["job"]["batch"], result["job"]["items"]), (11, 1002))
        self.assertEqual(result["model"]["items"], 1002)
        self.assertIn("Ranks have batches or sets of unlike sizes", result["notes"][0])
        path.write_text(text.replace("workers 2", "workers 3"))
        self.refused(1, "stalls", "--read", folder, says="expected the same workers, found 2 and 3")

    def test_an_epoch_is_not_the_set(self):
        """Of 1,000 items each of two ranks takes a fifth, or a few more."""
        folder = self.kept(ranks=2)
        for rank, epoch in ((0, 200), (1, 210)):
            path = folder / f"rank-{rank}.stalls"
            path.write_text(path.read_text().replace("cores 4\n", f"cores 4\nepoch {epoch}\n"))
        result = self.json(folder)
        self.assertEqual((result["job"]["items"], result["model"]["items"]), (410, 410))
        self.assertEqual(result["notes"], [])

    def test_another_loader_is_said(self):
        folder = self.kept()
        path = folder / "rank-0.stalls"
        text = re.sub(r"(faults (\d) place .*)", rf"\1\nothers \2 place {2 * STEPS}", path.read_text())
        path.write_text(text)
        (note,) = self.json(folder)["notes"]
        self.assertIn("Other loaders gave 2 batches in each step", note)

    def test_several_runs(self):
        """The second takes twice as long for all."""
        folder = self.kept()
        (folder / "run-2").mkdir()
        slow = []
        for line in rank_text().splitlines():
            key, *words = line.split()
            for i in {"phase": (4, 5), "step": (2, 3)}.get(key, ()):
                words[i] = str(2 * int(words[i]))
            slow.append(" ".join([key, *words]))
        (folder / "run-2" / "rank-0.stalls").write_text("\n".join(slow) + "\n")
        result = self.json(folder)
        place = result["samples_a_second"]["place"]
        self.assertEqual((result["job"]["runs"], place["rounds"]), (2, 8))
        self.assertAlmostEqual(place["value"], 1000 / 2**0.5, delta=15)
        self.assertLess(place["low"], 500)
        self.assertAlmostEqual(result["model"]["step_ms"], 15, delta=0.3)
        self.assertIn("95 %, over 2 runs", self.done("stalls", "--read", folder))

    def test_predictions(self):
        """What is cached costs what cached items cost, and no storage is read."""
        folder = self.kept()
        result = self.json(folder, "--memory", "64G", "--rate", "25M")
        self.assertEqual(result["model"]["page_cache_bytes"], 64 << 30)
        self.assertEqual(result["now"]["read_bytes"], 0)
        self.assertAlmostEqual(result["now"]["later_ms"], ITEMS / 500 * 1e3, delta=200)
        full = [row for row in result["by_cache"] if row["change"]["cache"] != "none"][-1]
        self.assertEqual(full["epoch"]["read_bytes"], 0)
        none = result["by_cache"][0]["epoch"]
        self.assertAlmostEqual(none["read_bytes"], ITEMS * ITEM_BYTES, delta=ITEMS * 100)
        # 100 MB at 26.2 MB/s, and times at which no worker reads.
        self.assertTrue(3_814 < none["later_ms"] < 4_500, none)
        self.assertGreater(len(result["advice"]), 0)
        gains = [row["gain"] for row in result["advice"] if not row["change"]["share"]]
        self.assertEqual(gains, sorted(gains, reverse=True))

    def test_what_is_asked_for(self):
        asked = ["rate=2,workers=4", "cache=keep:50%", "cache=lru:1G,jobs=2", "batch=20", "share,jobs=3"]
        words = [word for change in asked for word in ("--change", change)]
        lists = ["--workers", "1,3", "--cores", "2-4", "--batches", "5,20"]
        result = self.json(self.kept(), "--rate", "25M", *words, *lists)
        self.assertEqual([row["what"] for row in result["asked"]], asked)
        change = result["asked"][1]["change"]
        self.assertEqual((change["cache"], change["cache_bytes"]), ("keep", ITEMS * ITEM_BYTES // 2))
        self.assertTrue(result["asked"][4]["change"]["taut"])
        self.assertEqual([row["change"]["workers"] for row in result["by_workers"]], [1, 3])
        self.assertEqual([row["change"]["cores"] for row in result["by_cores"]], [2, 3, 4])
        self.assertEqual([row["change"]["batch"] for row in result["by_batch"]], [5, 20])
        one, three = (row["epoch"]["later_ms"] for row in result["by_workers"])
        self.assertGreater(one, three)

    def test_all_numbers_that_are_asked_for(self):
        result = self.json(self.kept(), "--rate", "25M", "--workers", "1-40")
        self.assertEqual([row["change"]["workers"] for row in result["by_workers"]], list(range(1, 41)))

    def test_the_same_twice(self):
        folder = self.kept()
        self.assertEqual(*(self.done("stalls", "--read", folder, "--json") for _ in range(2)))

    def test_text(self):
        said = self.done("stalls", "--read", self.kept(), "--rate", "25M", "--change", "rate=2")
        said = " ".join(said.split())
        for part in (
            "1 rank; loader: torch, 2 workers and 4 batches ahead in each rank; batches of 10",
            "How fast the job is",
            "items in storage",
            "50.0 50.0 50.0 4 storage, first epoch",
            "25.0 25.0 25.0 4 preparation, first epoch",
            "Storage as you have said 26.2 MB a second.",
            "which it was not made from",
            "50 % of the items, kept for good",
            "rate=2",
            "What helps next",
        ):
            self.assertIn(part, said)

    def test_what_is_missing_is_said(self):
        result = self.json(self.kept(phases=("place", "cached")))
        self.assertIn("The job did not come to a phase 'cold'.", result["notes"])
        self.assertNotIn("cold", result["samples_a_second"])
        self.assertIn("phase 'part'", self.done("stalls", "--read", self.folder / "kept"))
        result = self.json(self.kept("alone", phases=("place",)))
        self.assertIsNone(result["model"])
        self.assertRegex(result["notes"][-1], "Nothing is predicted: ")

    def test_what_was_not_cold_is_said(self):
        folder = self.kept()
        path = folder / "rank-0.stalls"
        path.write_text(re.sub(r"(phase \d cold .*) 20000000 200 ", r"\1 900 200 ", path.read_text()))
        self.assertLess(self.json(folder)["cold"]["cold_share"], 0.001)
        self.assertIn("What was to be cold was not", self.done("stalls", "--read", folder))

    def test_wrong_folders(self):
        self.refused(1, "stalls", "--read", self.folder, says="taut stalls --out")
        self.refused(1, "stalls", "--read", "/nowhere", says="/nowhere")
        folder = self.kept()
        (folder / "job").write_text("something else\n")
        self.refused(1, "stalls", "--read", folder, says="job:1: expected 'taut-stalls-job 1'")
        (folder / "job").unlink()
        (folder / "rank-0.stalls").write_text("taut-stalls 1\nrank nobody\n")
        self.refused(1, "stalls", "--read", folder, says=r"rank-0.stalls:2: ")

    def test_ranks_that_disagree(self):
        folder = self.kept(ranks=2)
        path = folder / "rank-1.stalls"
        path.write_text(path.read_text().replace("of 2", "of 3"))
        self.refused(1, "stalls", "--read", folder, says="rank")

    def test_wrong_words(self):
        for words, says in (
            ((), "expected a COMMAND"),
            (("--read", "x", "true"), "expected a COMMAND"),
            (("--read", "x", "--out", "y"), "--read has no --out"),
            (("--read", "x", "--runs", "2"), "--read has no --runs"),
            (("--runs", "101", "true"), "--runs"),
            (("--rate", "5M", "--no-probe", "true"), "--rate or --no-probe"),
            (("--rate", "much", "true"), "--rate: expected bytes"),
            (("--memory", "0", "true"), "--memory: expected bytes"),
            (("--change", "speed=2", "true"), "--change speed=2: speed: expected rate, "),
            (("--change", "rate=-1", "true"), "--change rate=-1: rate: expected"),
            (("--change", "cache=all", "true"), "cache=all: all: expected none, or keep:"),
            (("--change", "rate=2,", "true"), "expected NAME=VALUE"),
            (("--change", "cores=nan", "true"), "cores=nan: cores: expected"),
            (("--rounds", "0", "true"), "--rounds"),
            (("--workers", "0-4", "true"), "--workers: expected numbers from 1 on, found 0"),
            (("--cores", "0", "true"), "--cores: expected numbers from 1 on"),
            (("--batches", "8,0", "true"), "--batches: expected numbers from 1 on"),
        ):
            with self.subTest(words=words):
                self.refused(2, "stalls", *words, says=says)

    def test_every_key_is_explained(self):
        section = (ROOT / "docs" / "stalls.md").read_text().split("## JSON")[1]
        words = set(re.findall(r"\w+", section))
        folder = self.kept()
        (folder / "job").write_text(
            "taut-stalls-job 1\ncommand train\npage_cache 9\nstorage 5e6 7 1 0.1\npoint 1 5e6 50\n"
        )
        result = self.json(folder, "--change", "cache=keep:5%,cores=3,device=2,batch=5")
        self.assertEqual(result["command"], "train")
        self.assertEqual(result["storage"]["points"][0]["reads_s"], 50)
        self.assertEqual(keys_of(result) - words, set())


@unittest.skipUnless(os.environ.get("TAUT_STALLS_LIB"), "this build cannot be preloaded")
class Run(command.Case):
    """Jobs that write what a rank would have measured."""

    def setUp(self):
        super().setUp()
        (self.folder / "tmp").mkdir()
        (self.folder / "rank").write_text(rank_text())
        self.environment = {**os.environ, "TMPDIR": str(self.folder / "tmp")}

    def job(self, end="sys.exit(0)", pretends=True):
        code = "import os, shutil, signal, struct, sys\nprint('the job was here', flush=True)\n"
        if pretends:
            code += f"shutil.copy({str(self.folder / 'rank')!r}, os.environ['TAUT_STALLS'] + '/rank-0.stalls')\n"
        return [sys.executable, "-S", "-c", code + end]

    def run_job(self, *words, **options):
        return taut("stalls", "--no-probe", *words, env=self.environment, **options)

    def left(self):
        return os.listdir(self.folder / "tmp")

    def test_a_job(self):
        result = self.run_job("--", *self.job())
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue(result.stdout.startswith("the job was here\n"))
        self.assertIn("How fast the job is", result.stdout)
        self.assertEqual(self.left(), [])

    def test_what_a_rank_has_left_is_removed(self):
        """Of a rank that was killed, also the folder of its loader's state."""
        state = "os.mkdir(os.environ['TAUT_STALLS'] + '/state-1')\n"
        state += "open(os.environ['TAUT_STALLS'] + '/state-1/iterator.index', 'w').close()\n"
        for end in ("", "os.kill(os.getpid(), signal.SIGKILL)"):
            result = self.run_job("--runs", "2", "--", *self.job(state + end))
            self.assertEqual((result.returncode, self.left()), (0, []), result.stderr)

    def test_json_is_alone(self):
        result = self.run_job("--json", "--", *self.job())
        self.assertEqual((result.returncode, result.stderr), (0, "the job was here\n"))
        self.assertTrue(json.loads(result.stdout)["command"].startswith(sys.executable))

    def test_what_the_job_sees(self):
        check = (
            "page = open(os.environ['TAUT_STALLS'] + '/control', 'rb').read()\n"
            "assert len(page) == 4096 and page[:8] == b'tautcold'\n"
            "assert struct.unpack_from('II', page, 48) == (1, 1)\n"
            "assert os.environ['TAUT_STALLS_ROUNDS'] == '7'\n"
            "assert os.environ['TAUT_STALLS_STEPS'] == '9'\n"
            "assert os.path.exists(os.environ['TAUT_LIB'])\n"
            "assert any(p.endswith('inject') for p in os.environ['PYTHONPATH'].split(':'))\n"
        )
        result = self.run_job("--rounds", "7", "--steps", "9", "--", *self.job(check))
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_kept_and_read_again(self):
        out = self.folder / "kept"
        first = self.run_job("--json", "--out", out, "--", *self.job())
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(set(os.listdir(out)), {"control", "files", "job", "rank-0.stalls"})
        self.assertEqual(self.done("stalls", "--json", "--read", out), first.stdout)
        again = self.run_job("--out", out, "--", *self.job())
        self.assertEqual((again.returncode, again.stdout), (1, ""))
        self.assertIn("expected a new or an empty folder", again.stderr)

    def test_further_runs(self):
        """Each has a folder as the first has; what one sets is not set twice."""
        out = self.folder / "kept"
        number = self.folder / "number"
        count = (
            f"open({str(number)!r}, 'a').write(os.environ['TAUT_STALLS'] + '\\n')\n"
            "assert os.environ['LD_PRELOAD'].count('taut-stalls') == 1\n"
            "assert open(os.environ['TAUT_STALLS'] + '/files').read().count('/rank\\n') == 1\n"
        )
        first = self.run_job("--json", "--runs", "3", "--out", out, "--", *self.job(count))
        self.assertEqual((first.returncode, first.stderr), (0, "the job was here\n" * 3))
        folders = [str(out), str(out / "run-2"), str(out / "run-3")]
        self.assertEqual(number.read_text().split(), folders)
        self.assertEqual(json.loads(first.stdout)["job"]["runs"], 3)
        self.assertEqual(self.done("stalls", "--json", "--read", out), first.stdout)
        result = self.run_job("--runs", "2", "--", *self.job())
        self.assertEqual((result.returncode, self.left()), (0, []))

    def test_a_further_run_that_fails(self):
        """What was measured before counts, and no other begins."""
        number = self.folder / "number"
        begin = f"open({str(number)!r}, 'a').write('.')\nif os.environ['TAUT_STALLS'].endswith('run-2'):\n    "
        remove = "os.unlink(os.environ['TAUT_STALLS'] + '/rank-0.stalls')"
        for end, says in (
            ("sys.exit(3)", "Run 2 of the job ended with status 3: it does not count, and no"),
            ("os.kill(os.getpid(), signal.SIGKILL)", "Run 2 of the job was ended by signal 9: "),
            (remove, "Run 2 of the job gave its loader no time to be measured: it does not"),
            (ASK_TO_END, "Run 2 of the job was ended by signal 15: "),
        ):
            number.write_text("")
            out = self.folder / ("kept" + str(len(end)))
            result = self.run_job("--runs", "3", "--out", out, "--", *self.job(begin + end))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(says, " ".join(result.stdout.split()))
            self.assertEqual(number.read_text(), "..")
            self.assertFalse((out / "run-2").exists())
        taken = self.job("open(os.environ['TAUT_STALLS'] + '/run-2', 'w')")
        result = self.run_job("--runs", "3", "--", *taken)
        self.assertEqual((result.returncode, self.left()), (0, []), result.stderr)
        said = " ".join(result.stdout.split())
        self.assertRegex(said, "Run 2 of the job was not made, and no further one: .*run-2: expected")
        self.assertIn("How fast the job is", said)
        result = self.run_job("--runs", "3", "--", *self.job("sys.exit(3)"))
        self.assertEqual(result.stdout.count("the job was here"), 1)

    def test_a_job_that_fails_later(self):
        for end, says in (
            ("sys.exit(3)", "The job ended with status 3; what it had measured"),
            ("os.kill(os.getpid(), signal.SIGKILL)", "The job was ended by signal 9; "),
            (ASK_TO_END, "The job was ended by signal 15; "),
        ):
            result = self.run_job("--", *self.job(end))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(says, " ".join(result.stdout.split()))

    def test_a_job_without_a_loader(self):
        result = self.run_job("--", *self.job(pretends=False))
        self.assertEqual((result.returncode, result.stdout), (1, "the job was here\n"))
        self.assertRegex(result.stderr, r"no loader was found .* DataLoader, tf\.data, MXNet")
        result = self.run_job("--", *self.job("sys.exit(3)", pretends=False))
        self.assertEqual(result.returncode, 3)
        result = self.run_job("--", *self.job("os.kill(0, signal.SIGTERM)", pretends=False),
            start_new_session=True)
        self.assertEqual(result.returncode, -signal.SIGTERM)
        self.assertEqual(self.left(), [])

    def test_a_program_that_cannot_be_measured(self):
        result = self.run_job("--", "env", "-u", "LD_PRELOAD", "-i", *self.job(pretends=False))
        self.assertEqual(result.returncode, 1)
        self.assertIn("no loader was found", result.stderr)  # env itself had it
        result = self.run_job("--", self.folder / "nothing")
        self.assertEqual(result.returncode, 127)
        self.assertRegex(result.stderr, "nothing: cannot be run")
        self.assertEqual(self.left(), [])

    def test_files_are_read_again(self):
        """The storage is measured with what the job has opened."""
        for i in range(60):
            (self.folder / f"f{i}").write_bytes(os.urandom(30_000 + 500 * i))
        reads = f"for i in range(60):\n    open({str(self.folder)!r} + '/f%d' % i, 'rb').read()\n"
        result = taut("stalls", "--json", "--", *self.job(reads), env=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = json.loads(result.stdout)
        if result["storage"] is None:
            self.assertRegex(result["notes"][-1], "The storage was not measured: .* storage")
            self.skipTest("the temporary folder lies in memory")
        for point in result["storage"]["points"]:
            self.assertTrue(30_000 < point["bytes_s"] / point["reads_s"] < 60_000)


if __name__ == "__main__":
    command.main()
