# SPDX-License-Identifier: Apache-2.0
"""What jobs do around their training loop: they see what they see without Taut."""

from ranks import LATE, Case, main, programs

# Of which PyTorch's class has no equal.
OTHERS = ["forked_wrapper", "interrupted", "interrupted_behind_a_call"]


class Habits(Case):
    def test_all(self):
        either = {"redundancy", "traced", "compiled_later", "two_parts", "goes_before_the_others"}
        either |= {"fails_in_backward"}
        log = self.same_as_pytorch("habits", but=OTHERS, either=either)
        for why in ("a part of the module becomes TorchScript", "a part of the module is compiled"):
            self.assertIn("taut: rank 0 crosses the barrier no longer: " + why, log)

    def test_of_taut_alone(self):
        both, _ = programs("habits", *OTHERS, **LATE)
        for seen in both:
            error = seen["forked_wrapper"]["error"]
            self.assertIn("summed in another process, by fork", error)
            one, two = seen["interrupted"]["seen"]
            self.assertEqual(one, two)
            self.assertEqual(seen["interrupted_behind_a_call"]["raised"], [True, "caught"])
        self.assertEqual([s["interrupted"]["caught"] for s in both], [1, 0])
        for name in "interrupted", "interrupted_behind_a_call":
            self.assertEqual(both[0][name]["seen"], both[1][name]["seen"])


if __name__ == "__main__":
    main()
