#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps of PyTorch's flight recorder: made here in the layout of its writer,
at every pickle protocol and as JSON; and, where PyTorch is installed, by the
writer itself and checked against its own reader."""
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import unittest

TAUT = os.environ.get("TAUT", "build/taut")
T0 = 1_700_000_000_000_000_000


def entry(seq, state, name="nccl:all_reduce", group=("0", "default_pg"),
          at=0, **more):
    started = state in ("started", "completed")
    made = {
        "record_id": seq - 1, "pg_id": int(group[0]), "process_group": group,
        "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq,
        "profiling_name": name, "time_created_ns": T0 + at,
        "input_sizes": [[3, 4]], "input_dtypes": ["Float"],
        "output_sizes": [[3, 4]], "output_dtypes": ["Float"],
        "state": state,
        "time_discovered_started_ns": T0 + at + 100 if started else None,
        "time_discovered_completed_ns":
            T0 + at + 900 if state == "completed" else None,
        "retired": state == "completed", "timeout_ms": 600000,
        "is_p2p": False, "thread_id": "7", "thread_name": "python",
        "frames": [{"name": "f", "filename": "a\\b.py", "line": 3}],
    }
    made.update(more)
    return made


def dump(entries, ranks="[0, 1, 2, 3]"):
    return {"version": "2.10", "comm_lib_version": "2.21.5",
            "pg_config": {"0": {"name": "0", "desc": "default_pg",
                                "ranks": ranks}},
            "pg_status": {"0": {"last_enqueued_collective": -1,
                                "last_started_collective": -1,
                                "last_completed_collective": -1}},
            "entries": entries}


class Dumps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, rank, made, protocol=2):
        path = os.path.join(self.folder, "nccl_trace_rank_%d" % rank)
        with open(path, "wb") as file:
            file.write(json.dumps(made).encode() if protocol is None
                       else pickle.dumps(made, protocol))
        return path

    def report(self, *paths):
        done = subprocess.run(
            [TAUT, "report", *(paths or [self.folder]), "--json"],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def notes(self):
        return "\n".join(self.report()["notes"])

    def test_every_protocol_and_json_say_the_same(self):
        made = dump([entry(1, "completed"), entry(2, "started", at=2000),
                     entry(3, "scheduled", at=3000)])
        seen = set()
        for protocol in (2, 3, 4, 5, None):
            path = self.write(0, made, protocol)
            got = self.report(path)
            seen.add(json.dumps([got["steps"], got["notes"]]))
        self.assertEqual(len(seen), 1)
        notes = seen.pop()
        self.assertIn("nccl:all_reduce 2 of group 0 (default_pg): started, "
                      "never completed", notes)
        self.assertIn("nccl:all_reduce 3 of group 0 (default_pg): scheduled, "
                      "never started", notes)
        self.assertIn("a watching thread noticed", notes)

    def test_a_rank_that_never_came(self):
        for rank in range(4):
            entries = [entry(1, "completed")]
            if rank != 3:
                entries.append(entry(2, "started", at=2000))
            self.write(rank, dump(entries))
        self.assertIn("rank 3 never scheduled all_reduce 2 of group 0 "
                      "(default_pg), which ranks 0-2 scheduled", self.notes())

    def test_a_rank_that_never_started(self):
        for rank in range(4):
            self.write(rank, dump([
                entry(1, "completed"),
                entry(2, "scheduled" if rank in (1, 3) else "started")]))
        self.assertIn("ranks 1, 3 never started all_reduce 2 of group 0 "
                      "(default_pg), which ranks 0, 2 started", self.notes())

    def test_a_rank_that_never_completed(self):
        for rank in range(4):
            self.write(rank, dump([
                entry(1, "completed"),
                entry(2, "started" if rank == 2 else "completed")]))
        notes = self.notes()
        self.assertIn("rank 2 never completed all_reduce 2", notes)
        self.assertIn("nccl:all_reduce 2 of group 0 (default_pg): started, "
                      "never completed on rank 2\n", notes)

    def test_more_ranks_than_a_line_holds(self):
        every = json.dumps(list(range(100)))
        for rank in range(100):
            self.write(rank, dump([
                entry(1, "completed"),
                entry(2, "completed" if rank % 2 else "started")], every))
        line = next(n for n in self.report()["notes"]
                    if n.startswith("nccl:all_reduce 2 "))
        listed = line.split(" on ranks ")[1]
        self.assertTrue(listed.startswith("0, 2, 4, 6, "), line)
        self.assertTrue(listed.endswith(" ..."), line)

    def test_a_rank_that_came_to_nothing_of_a_group(self):
        for rank in range(3):
            made = dump([entry(1, "completed")], "[0, 1, 2]")
            made["pg_config"]["1"] = {"name": "1", "desc": "half",
                                      "ranks": "[0, 2]"}
            if rank == 0:
                made["entries"].append(entry(
                    1, "started", "nccl:broadcast", ("1", "half"), 5000,
                    record_id=1))
            self.write(rank, made)
        notes = self.notes()
        self.assertIn("rank 2 never scheduled broadcast 1 of group 1 (half),"
                      " which rank 0 scheduled", notes)
        self.assertNotIn("rank 1", notes)

    def test_one_line_for_all_ranks(self):
        for rank in range(4):
            self.write(rank, dump([
                entry(1, "completed", record_id=7),
                entry(2, "scheduled" if rank == 1 else "started")]))
        notes = self.report()["notes"]
        self.assertEqual(len([n for n in notes if "noticed" in n]), 1)
        self.assertEqual([n for n in notes if n.startswith("nccl:")], [
            "nccl:all_reduce 2 of group 0 (default_pg): "
            "scheduled, never started on rank 1",
            "nccl:all_reduce 2 of group 0 (default_pg): "
            "started, never completed on ranks 0, 2, 3"])
        self.assertIn("28 earlier operations", "\n".join(notes))

    def test_different_ways(self):
        for rank in range(2):
            self.write(rank, dump([
                entry(1, "completed"),
                entry(2, "started", "nccl:broadcast" if rank else
                      "nccl:all_reduce")], "[0, 1]"))
        self.assertIn("collective 2 of group 0 is all_reduce on rank 0 and "
                      "broadcast on rank 1", self.notes())

    def different(self, name, shapes, dtypes=("Float", "Float")):
        for rank in range(2):
            self.write(rank, dump([entry(1, "completed"), entry(
                2, "started", name, input_sizes=shapes[rank],
                input_dtypes=[dtypes[rank]])], "[0, 1]"))
        return self.notes()

    def test_different_sizes_and_types(self):
        self.assertIn(
            "all_reduce 2 of group 0 is of 4 Float on rank 0 and of 5 "
            "BFloat16 on rank 1, where all ranks must pass the same",
            self.different("nccl:all_reduce", ([[4]], [[5]]),
                           ("Float", "BFloat16")))
        self.assertIn("of 4 Float on rank 0 and of 4 Half on rank 1",
                      self.different("nccl:_all_gather_base", ([[4]], [[4]]),
                                     ("Float", "Half")))

    def test_sizes_that_may_differ(self):
        self.assertNotIn("must pass", self.different(
            "nccl:all_to_all", ([[4]], [[5]])))
        self.assertNotIn("must pass", self.different(
            "nccl:all_reduce", ([[2, 2]], [[4]])))

    def test_calls_put_together_have_no_order(self):
        for rank in range(2):
            sizes = ([[4]], [[5]])
            self.write(rank, dump(
                [entry(2, "completed", at=at, input_sizes=sizes[at ^ rank],
                       record_id=at) for at in range(2)], "[0, 1]"))
        self.assertNotIn("must pass", self.notes())

    def test_named_by_a_prefix_and_the_rank(self):
        for rank in range(2):
            made = dump([entry(1, "started" if rank else "completed")],
                        "[0, 1]")
            path = os.path.join(self.folder, "torchcomm_fr_trace_%d" % rank)
            with open(path, "wb") as file:
                pickle.dump(made, file, 2)
        self.assertIn("never completed on rank 1", self.notes())

    def test_all_is_well(self):
        for rank in range(4):
            self.write(rank, dump([entry(1, "completed"),
                                   entry(2, "completed", at=2000)]))
        notes = self.notes()
        for word in ("never", "hangs", "different ways", "must pass"):
            self.assertNotIn(word, notes)

    def split(self, rank, mesh, told=True):
        """A rank of two that have split off; the others' group is named 1
        too."""
        both = mesh * 2, mesh * 2 + 1
        made = dump([entry(1, "completed")])
        if told:
            made["pg_config"]["1"] = {"name": "1", "desc": "tp",
                                      "ranks": str(list(both))}
        name = "nccl:all_gather" if mesh else "nccl:all_reduce"
        for seq in range(1, 3 if mesh else 5):
            made["entries"].append(entry(
                seq, "completed", name, ("1", "tp"), seq * 2000,
                record_id=seq))
        self.write(rank, made)
        return made

    def test_groups_of_one_name_and_different_ranks(self):
        for rank in range(4):
            self.split(rank, rank // 2)
        notes = self.notes()
        for word in ("never", "hangs", "different ways", "must pass"):
            self.assertNotIn(word, notes)

    def test_a_hang_in_one_of_two_groups_of_one_name(self):
        for rank in range(4):
            made = self.split(rank, rank // 2, rank != 3)
            if rank != 2:
                made["entries"].append(entry(
                    3 if rank > 1 else 5, "started", "nccl:all_gather"
                    if rank > 1 else "nccl:all_reduce", ("1", "tp"), 30000,
                    record_id=9))
            self.write(rank, made)
        notes = self.notes()
        self.assertIn("rank 2 never scheduled all_gather 3 of group 1 (tp), "
                      "which rank 3 scheduled", notes)
        self.assertIn("nccl:all_reduce 5 of group 1 (tp): started, never "
                      "completed on ranks 0, 1", notes)
        self.assertNotIn("different ways", notes)

    def test_no_version_is_no_dump(self):
        path = self.write(0, {"entries": []})
        done = subprocess.run([TAUT, "report", path], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no dump of PyTorch's flight recorder", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_code_is_refused_and_not_run(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("touch %s" % marker,)
        marker = os.path.join(self.folder, "marker")
        path = os.path.join(self.folder, "evil_rank_0")
        with open(path, "wb") as file:
            pickle.dump({"version": "2.10", "entries": [Evil()]}, file, 2)
        done = subprocess.run([TAUT, "report", path], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("opcode GLOBAL", done.stderr)
        self.assertFalse(os.path.exists(marker))

    def test_torch_reads_the_same(self):
        """What the tests above make is what PyTorch's own reader takes."""
        try:
            from torch.distributed.flight_recorder.components import loader
        except ImportError:
            self.skipTest("no PyTorch with a flight recorder")
        path = self.write(3, dump([entry(1, "completed")]))
        got = loader.read_dump("nccl_trace_rank_", path)
        self.assertEqual(got["rank"], 3)
        self.assertEqual(self.report(path)["rank_ids"], [3])
        self.assertEqual(len(got["entries"]), 1)


WRITER = """
import sys, torch, torch.distributed as dist
import torch._C._distributed_c10d as c
dist.init_process_group("gloo")
for i in range(5):
    dist.all_reduce(torch.ones(10))
dist.barrier()
rank = dist.get_rank()
open("%s/p_rank_%d" % (sys.argv[1], rank), "wb").write(c._dump_fr_trace())
text = c._dump_fr_trace_json()
open("%s/j_rank_%d" % (sys.argv[2], rank), "wb").write(
    text if isinstance(text, bytes) else text.encode())
dist.barrier()
"""


class Written(unittest.TestCase):
    def test_by_torch_itself(self):
        try:
            import torch._C._distributed_c10d as c10d
        except ImportError:
            self.skipTest("no PyTorch")
        if not hasattr(c10d, "_dump_fr_trace"):
            self.skipTest("its flight recorder needs a GPU")
        with tempfile.TemporaryDirectory() as folder:
            folders = [os.path.join(folder, kind) for kind in "pj"]
            for path in folders:
                os.mkdir(path)
            script = os.path.join(folder, "writer.py")
            with open(script, "w") as file:
                file.write(WRITER)
            done = subprocess.run(
                [sys.executable, "-m", "torch.distributed.run",
                 "--nproc_per_node", "2", script, *folders],
                env=dict(os.environ, TORCH_FR_BUFFER_SIZE="100"),
                capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            for path in folders:
                done = subprocess.run([TAUT, "report", path, "--json"],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                got = json.loads(done.stdout)
                self.assertEqual(got["rank_ids"], [0, 1])
                self.assertIn("operations have ended, and when is not",
                              "\n".join(got["notes"]))


if __name__ == "__main__":
    done = unittest.main(argv=[sys.argv[0], "-v"], exit=False).result
    sys.exit(0 if done.wasSuccessful() else 1)
