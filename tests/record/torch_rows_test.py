# SPDX-License-Identifier: Apache-2.0
"""What a recording tells of rows that are looked up, and what is predicted of it."""

import json
import os
import subprocess

from torch_case import LAUNCH, PYTHON, ROOT, Case, main, record, taut

JOB = [PYTHON, LAUNCH, "2", str(ROOT / "tests" / "record" / "jobs" / "torch_words.py"), "14"]
CROSS = "schedule=priority,partition=1MiB,credit=2MiB,barrier=cross,by=taut"
BYTES = 24 * 4
LOOKED_UP_IN = 7  # the step before the first one that is recorded


class Rows(Case):
    def facts(self, rank):
        (log,) = self.logs(rank, "torch")
        return {k: v.split() for k, v in log.facts if k.startswith("embedding.")}

    def record(self, kind):
        recorded = record([*JOB, kind], self.run_folder)
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        return recorded

    def test_rows(self):
        recorded = self.record("plain")
        looked_up = {
            int(step): (int(words), int(kinds))
            for step, words, kinds in map(str.split, recorded.stdout.splitlines())
        }
        words, kinds = looked_up[LOOKED_UP_IN]
        told = [self.facts(rank) for rank in range(2)]
        for facts in told:
            self.assertEqual(
                list(facts), ["embedding.%s.weight" % name for name in ("words", "kinds", "places")])
            self.assertEqual(facts["embedding.words.weight"][:2], ["3000", str(BYTES)])
            self.assertGreater(int(facts["embedding.words.weight"][3]), 5)  # tied
            self.assertEqual(facts["embedding.kinds.weight"][3], "0")
            self.assertEqual(facts["embedding.places.weight"][:4], ["12", str(BYTES), "12", "0"])
            for numbers in facts.values():
                self.assertEqual(len(numbers) - 4, int(numbers[2]))
        for name, n in (("words", words), ("kinds", kinds)):
            rows = [set(facts["embedding.%s.weight" % name][4:]) for facts in told]
            self.assertEqual(len(rows[0] | rows[1]), n)
        self.check_prediction(words, kinds)

    def check_prediction(self, words, kinds):
        told = json.loads(taut("whatif", "--json", self.run_folder, "rows", CROSS))
        said = told["notes"]
        self.assertIn("rows: words.weight goes by rows, %.0f %% of 3000, behind the part of its "
                      "other use" % (100 * words / 3000), said)
        self.assertIn("rows: kinds.weight goes by rows, %.0f %% of 2000" % (kinds / 20), said)
        self.assertIn("rows: of places.weight 100 % are looked up: it goes as a whole", said)


    def test_whole(self):
        """What `taut run` would not take by rows."""
        self.record("careful")
        self.assertEqual([self.facts(rank) for rank in range(2)], [{}, {}])
        said = self.refused("rows", CROSS)
        self.assertIn("rows: what they give cannot be told from this recording: it tells of no", said)

    def test_kept(self):
        """A gradient that is there already: what is tied goes by rows all the same."""
        self.record("kept")
        for rank in range(2):
            self.assertEqual(list(self.facts(rank)), ["embedding.words.weight"])

    def refused(self, *changes):
        words = [os.environ["TAUT"], "whatif", str(self.run_folder), *changes]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(ended.returncode, 1, ended.stdout)
        return ended.stderr


if __name__ == "__main__":
    main()
