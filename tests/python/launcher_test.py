# SPDX-License-Identifier: Apache-2.0
"""Where a process is in its job (python/taut/_launcher.py): what each launcher's
environment says, and the secret that a user's jobs share."""

import json
import os
import pathlib
import stat
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from taut import _launcher  # noqa: E402

MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "PMIX_NAMESPACE": "job-7",
}
SRUN = {
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_JOB_ID": "31",
    "SLURM_STEP_ID": "0",
}


class Places(unittest.TestCase):
    def test_alone(self):
        self.assertEqual(_launcher.find({}), (0, 1, 0, 1, None))
        self.assertEqual(_launcher.find({"RANK": "0", "WORLD_SIZE": "1"}), (0, 1, 0, 1, None))

    def test_by_hand(self):
        told = {"TAUT_RANK": "2", "TAUT_RANKS": "3", "TAUT_MEET": "a:5", "RANK": "0"}
        self.assertEqual(_launcher.find(told), (2, 3, None, None, "a:5"))

    def test_torchrun(self):
        told = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
        told.update(MASTER_ADDR="n1", MASTER_PORT="29500")
        self.assertEqual(_launcher.find(told), (3, 4, 1, 2, "n1:29501"))
        self.assertEqual(_launcher.find(dict(told, TAUT_MEET="b:6")).meet, "b:6")

    def test_mpirun_on_one_host(self):
        found, other = _launcher.find(MPIRUN), _launcher.find(dict(MPIRUN, OMPI_COMM_WORLD_RANK="0"))
        self.assertEqual(found[:4], (1, 4, 1, 4))
        self.assertEqual(found.meet, other.meet)
        host, port = found.meet.split(":")
        self.assertEqual(host, "127.0.0.1")
        self.assertTrue(20000 <= int(port) < 32000)
        self.assertNotEqual(found.meet, _launcher.find(dict(MPIRUN, PMIX_NAMESPACE="job-8")).meet)

    def test_mpirun_on_several_hosts(self):
        told = dict(MPIRUN, OMPI_COMM_WORLD_LOCAL_SIZE="2")
        with self.assertRaisesRegex(ValueError, "TAUT_MEET"):
            _launcher.find(told)
        self.assertEqual(_launcher.find(dict(told, TAUT_MEET="c:7")).meet, "c:7")

    def test_mpiexec(self):
        """MPICH's: a rank's parent may be a script of its own, so it names no job."""
        told = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
        for more in ({}, {"PMI_ID": "1"}):
            with self.assertRaisesRegex(ValueError, "TAUT_MEET"):
                _launcher.find(dict(told, **more))
        self.assertEqual(_launcher.find(dict(told, TAUT_MEET="d:8")), (1, 2, 1, 2, "d:8"))
        found = [_launcher.find(dict(told, PMI_JOBID="7", PMI_ID=rank)) for rank in "01"]
        self.assertEqual(found[0].meet, found[1].meet)

    def test_srun(self):
        for nodes, first in (
            ("gpu[03-05,9],login", "gpu03"),
            ("a,b", "a"),
            ("one", "one"),
            ("r[2,4]c1", "r2c1"),
        ):
            found = _launcher.find(dict(SRUN, SLURM_JOB_NODELIST=nodes))
            self.assertEqual(found[:4], (5, 8, 1, None))
            self.assertEqual(found.meet.split(":")[0], first)

    def test_tf_config(self):
        cluster = {"worker": ["w0:1", "w1:2"], "ps": ["p:3"]}
        task = {"type": "worker", "index": 1}
        told = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
        self.assertEqual(_launcher.find(told), (1, 2, None, None, "w0:1"))
        cluster["chief"] = ["c:4"]
        told = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
        self.assertEqual(_launcher.find(told), (2, 3, None, None, "c:4"))
        for broken in ("", "{", "[]", '{"cluster": 3, "task": {}}', '{"task": {"type": "x"}}'):
            self.assertEqual(_launcher.find({"TF_CONFIG": broken}).size, 1)

    def test_no_such_rank(self):
        for rank in ("4", "-1"):
            with self.assertRaisesRegex(ValueError, "no rank"):
                _launcher.find(dict(MPIRUN, OMPI_COMM_WORLD_RANK=rank))


class Secrets(unittest.TestCase):
    place = _launcher.Place(0, 2, None, None, "a:5")

    def test_given(self):
        self.assertEqual(_launcher.secret(self.place, {"TAUT_SECRET": "x"}), "x")
        alone = _launcher.Place(0, 1, 0, 1, None)
        self.assertIsNone(_launcher.secret(alone, {}))

    def test_made_once_by_many(self):
        with tempfile.TemporaryDirectory() as home:
            found = []

            def one():
                found.append(_launcher.secret(self.place, {"HOME": home}))

            threads = [threading.Thread(target=one) for _ in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(len(found), 8)
            self.assertEqual(len(set(found)), 1)
            folder = pathlib.Path(home) / ".config" / "taut"
            self.assertEqual(os.listdir(folder), ["secret"])
            self.assertEqual(stat.S_IMODE((folder / "secret").stat().st_mode), 0o600)
            other = _launcher.secret(self.place._replace(meet="a:6"), {"HOME": home})
            self.assertNotIn(other, found, "another job's is another")

    def test_refused(self):
        with tempfile.TemporaryDirectory() as home:
            folder = pathlib.Path(home) / "taut"
            folder.mkdir()
            file = folder / "secret"
            file.write_text("x" * 64)
            for mode, text in ((0o644, "by others"), (0o600, None)):
                file.chmod(mode)
                if text is None:
                    _launcher.secret(self.place, {"XDG_CONFIG_HOME": home})
                    continue
                with self.assertRaisesRegex(ValueError, text):
                    _launcher.secret(self.place, {"XDG_CONFIG_HOME": home})
            file.write_text("short")
            with self.assertRaisesRegex(ValueError, "too short"):
                _launcher.secret(self.place, {"XDG_CONFIG_HOME": home})
        with self.assertRaisesRegex(ValueError, "TAUT_SECRET"):
            _launcher.secret(self.place, {"XDG_CONFIG_HOME": "/proc/nowhere"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
