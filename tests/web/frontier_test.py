# SPDX-License-Identifier: Apache-2.0
"""The page of taut plan in a browser: whole without network or script, its points in
their charts, its changes selected by one click."""

import json
import os
import pathlib
import shlex
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../cli"))
import browser  # noqa: E402
import command  # noqa: E402
from command import EXAMPLE  # noqa: E402


@unittest.skipUnless(browser.find(), "there is no Chromium here")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="taut-frontier-")
        cls.addClassCleanup(holder.cleanup)
        cls.path = pathlib.Path(holder.name) / "plan.html"
        result = command.taut(
            "plan", EXAMPLE, "--budget", "2s", "--allow", "lossy", "--html", cls.path
        )
        assert result.returncode == 0, result.stderr
        cls.browser = browser.Browser(browser.find(), 1100, 900)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.errors.clear()
        self.browser.requests.clear()

    def open(self, path=None):
        self.browser.call("Page.navigate", url=(path or self.path).as_uri())
        for _ in range(100):
            if self.browser.js("document.readyState == 'complete' && !!document.querySelector('table')"):
                return
            time.sleep(0.1)
        self.fail("the page does not come")

    def test_fetches_nothing(self):
        self.open()
        self.assertEqual(self.browser.errors, [])
        self.assertEqual({url for url in self.browser.requests if url != "about:blank"}, {self.path.as_uri()})
        self.assertEqual(self.browser.js("document.scripts.length"), 0)

    def test_points_are_in_their_charts(self):
        self.open()
        outside = self.browser.js(
            """[...document.querySelectorAll('svg circle, svg text')].filter(one => {
                const box = one.getBoundingClientRect();
                const all = one.closest('svg').getBoundingClientRect();
                return box.left < all.left || box.right > all.right ||
                    box.top < all.top || box.bottom > all.bottom;
            }).map(one => one.outerHTML)"""
        )
        self.assertEqual(outside, [])
        # memory was not recorded: the network alone has a chart
        self.assertEqual(self.browser.js("document.querySelectorAll('svg').length"), 1)
        self.assertEqual(self.browser.js("document.querySelectorAll('circle.plan title').length"), 1)
        points = self.browser.js("document.querySelectorAll('circle.point title').length")
        rows = self.browser.js("document.querySelectorAll('tr:has(td)').length")
        self.assertIn(rows - points, [0, 1])

    def test_narrow(self):
        self.open()
        for width in [1100, 420]:
            self.browser.resize(width, 900)
            self.assertLessEqual(self.browser.js("document.documentElement.scrollWidth"), width)
        self.browser.resize(1100, 900)

    def test_dark(self):
        self.open()
        colour = "getComputedStyle(document.body).backgroundColor"
        found = []
        for dark in [False, True]:
            self.browser.prefer_dark(dark)
            found.append(self.browser.js(colour))
        self.browser.prefer_dark(False)
        self.assertNotEqual(*found)

    def test_one_click_selects_the_changes(self):
        self.open()
        box = self.browser.js(
            """(() => { const code = document.querySelector('tr.plan code');
                code.scrollIntoView();
                const box = code.getClientRects()[0];
                return [box.left + 5, box.top + box.height / 2, code.textContent]; })()"""
        )
        self.browser.click(box[0], box[1])
        self.assertEqual(self.browser.js("getSelection().toString().trim()"), box[2])
        self.assertIn("compress=", box[2])

    def test_a_row_is_what_whatif_predicts(self):
        """With what was given, which is no decision."""
        path = self.path.with_name("given.html")
        result = command.taut("plan", EXAMPLE, "link=0.5x", "--budget", "2s", "--html", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.open(path)
        rows = self.browser.js(
            """[...document.querySelectorAll('tr:has(td)')].map(row =>
                [row.cells[0].textContent, row.querySelector('code').textContent])"""
        )
        self.assertTrue(rows)
        for step_ms, words in [rows[0], rows[-1]]:
            told = command.taut("whatif", EXAMPLE, *shlex.split(words), "--json")
            self.assertEqual(f"{json.loads(told.stdout)['after_ms']:.3f}", step_ms, words)


if __name__ == "__main__":
    command.main()
