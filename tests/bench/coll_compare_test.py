# SPDX-License-Identifier: Apache-2.0
"""bench/coll_compare.py: what it makes of times that are given, worked out by
hand. Nothing is measured here."""

import math
import pathlib
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import coll_compare


def outcome(kind, times, ranks=2, trips=None, mbit=None):
    made = types.SimpleNamespace(ranks=ranks, mbit=mbit, options=None)
    if kind == "host":
        made = coll_compare.Host(None, ranks)
    told = coll_compare.Outcome(made)
    told.times = times
    told.trips = trips or {}
    return told


def once(**by_name):
    """One setting, one size of 4 bytes, each turn's time."""
    return {name: {"default": {4: us}} for name, us in by_name.items()}


class Words(unittest.TestCase):
    def test_sizes(self):
        self.assertEqual(coll_compare.sizes_of("4:64:4"), [4, 16, 64])
        self.assertEqual(coll_compare.sizes_of("4:70"), [4, 16, 64])
        self.assertEqual(coll_compare.sizes_of("32M,4:16,8"), [4, 8, 16, 1 << 25])
        self.assertEqual(coll_compare.sizes_of("1K:2M:1K"), [1 << 10, 1 << 20])

    def test_short(self):
        for size, text in [(4, "4 B"), (1024, "1 KB"), (1 << 25, "32 MB"), (1536, "1536 B")]:
            self.assertEqual(coll_compare.short(size), text)

    def test_lines_of_programs(self):
        out = "a warning of somebody\n4 1.5 1.0 2.0\n1024 3.25 3 4\n"
        self.assertEqual(coll_compare.table_of(out), {4: 1.5, 1024: 3.25})


class Tables(unittest.TestCase):
    def test_median_of_the_best_setting(self):
        told = outcome("host", {"Open MPI": {"a": {4: [9, 3, 5]}, "b": {4: [4, 4, 8]}}})
        self.assertEqual(told.median("Open MPI", 4), (4, "b"))
        self.assertTrue(math.isnan(told.median("Open MPI", 8)[0]))
        self.assertTrue(math.isnan(told.median("MPICH", 4)[0]))

    def test_best_peer_is_never_taut(self):
        told = outcome("host", once(**{"Taut": [1], "MPICH": [3], "Gloo": [2]}))
        self.assertEqual(told.best_peer(4), (2, "Gloo"))

    def test_row_of_the_host(self):
        told = outcome("host", once(**{"Taut": [2.0], "MPICH": [3.0]}), 4, trips={4: [0.9, 0.8, 0.7]})
        text = coll_compare.table(told, [4])
        # 2 us against lg 4 messages of 0.8 us: 1.25.
        self.assertIn("| 4 B | 2.00 | 3.00 | 1.50 | 1.25x lg n messages of 0.80 us |", text)
        self.assertIn("4 ranks, one host", text)

    def test_share_of_a_shaped_link(self):
        size, ranks = 1 << 20, 4
        # 1.5 of it at 1 Gbit/s, of which TCP has 1448 of 1514 bytes.
        limit = 1.5 * size * 8 / (1e9 * 1448 / 1514) * 1e6
        times = {"Taut": {"default": {size: [limit / 0.97]}}}
        told = outcome("shaped", times, ranks, mbit=1000.0)
        self.assertIn("| 97.0% of the link |", coll_compare.table(told, [size]))

    def test_losses(self):
        won = outcome("host", once(Taut=[1], MPICH=[2]))
        lost = outcome("host", once(Taut=[2], MPICH=[1]), 4)
        text = coll_compare.losses([won, lost], {"host": [4]})
        self.assertTrue(text.startswith("Taut is slower than the best peer in 1 of 2"))
        self.assertIn("- host, 4 ranks, 4 B: MPICH takes 0.50 of it", text)
        self.assertTrue(coll_compare.losses([won], {"host": [4]}).endswith("in 0 of 1."))

    def test_a_failure_is_told(self):
        told = outcome("host", once(Taut=[1], MPICH=[2]))
        told.failed = {"Open MPI": {"ring": "why"}}
        self.assertIn("failed: ring", coll_compare.settings_lines([told]))


class Page(unittest.TestCase):
    def test_the_page_has_its_marks(self):
        text = pathlib.Path(coll_compare.DOC).read_text()
        for name in coll_compare.PLACES_OF_DOC:
            begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
            self.assertEqual(text.count(begin), 1)
            self.assertEqual(text.count(end), 1)
            self.assertLess(text.index(begin), text.index(end))


if __name__ == "__main__":
    unittest.main(verbosity=2)
