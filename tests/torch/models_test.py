# SPDX-License-Identifier: Apache-2.0
"""Models with tied, repeated, unused and checkpointed parameters, and passes of all
kinds, give what they give without Taut."""

import tempfile

from ranks import LATE, Case, main, programs


class Models(Case):
    def test_all(self):
        either = {"unused_and_unread", "unused_accumulates"}
        self.same_as_pytorch("models", on_time={"unused"}, either=either)

    def test_declared_order(self):
        """The next forward pass waits for sums of the iteration before it."""
        names = ["attention", "tied", "lstm"]
        without, _ = programs("models", *names, taut=False)
        own, _ = programs("models", *names, TAUT_RUN_ORDER="declared", **LATE)
        for name in names:
            for rank in range(2):
                self.assertEqual(own[rank][name]["seen"], without[rank][name]["seen"])
                self.assertGreater(own[rank][name]["late"], 0)

    def test_measured(self):
        """Neither `taut run --measure` nor a plan's measuring brings an update forward."""
        with tempfile.TemporaryDirectory() as folder:
            own, _ = programs("models", "lstm", TAUT_RUN_MEASURE=folder, **LATE)
        for seen in own:
            self.assertGreater(seen["lstm"]["late"], 0)


if __name__ == "__main__":
    main()
