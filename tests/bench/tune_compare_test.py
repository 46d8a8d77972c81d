# SPDX-License-Identifier: Apache-2.0
"""bench/tune_compare.py --virtual in small: searches over what the replay says of a
recorded job on half its link, which the simulator takes for the whole one."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Virtual(unittest.TestCase):
    def test_all(self):
        with tempfile.TemporaryDirectory(prefix="taut-tune-") as folder:
            path = os.path.join(folder, "tables")
            command = [sys.executable, str(ROOT / "bench/tune_compare.py"), "--virtual"]
            command += ["--taut", os.environ["TAUT"], "--worlds", "2", "--seeds", "8"]
            done = subprocess.run(
                [*command, "--json", path], capture_output=True, text=True, check=False
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="ascii") as file:
                tables = json.load(file)
        self.assertEqual([t["world"] for t in tables], ["as recorded", "link=0.5x"])
        for table in tables:
            rows = {r["search"]: r for r in table["rows"]}
            self.assertGreater(table["settings"], 400)
            for row in rows.values():
                self.assertLessEqual(row["trials"], 12)
                self.assertGreaterEqual(row["mean_regret"], 0)
                self.assertIn(f"| {row['search']} |", done.stdout)
            # The bar of a search: 12 trials, 3 %.
            self.assertEqual(rows["bayes after the simulator"]["near"], 1)
        # Of a world that is as recorded the simulator knows the best.
        own = {r["search"]: r for r in tables[0]["rows"]}["the simulator's choice"]
        self.assertEqual(own["mean_regret"], 0)


if __name__ == "__main__":
    if not os.environ.get("TAUT_LIB"):
        print("no TAUT_LIB: not built, or with a sanitizer")
        sys.exit(77)
    unittest.main(verbosity=2)
