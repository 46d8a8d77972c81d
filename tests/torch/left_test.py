# SPDX-License-Identifier: Apache-2.0
"""What Taut leaves to PyTorch, whole; what it refuses, with the reason; and what it
does that PyTorch does not."""

from ranks import LATE, Case, main, programs


class Left(Case):
    def test_left_to_pytorch(self):
        names = ["comm_hook", "uneven", "sparse", "compiled_part", "compiled_whole", "all_are_empty"]
        on_time = set(names)
        log = self.same_as_pytorch("left", *names, "fails_in_forward", on_time=on_time)
        for why in (
            "register_comm_hook() is called",
            "join() is called",
            "gradients are sparse",
            "it is compiled",
            "there is nothing to sum",
        ):
            self.assertIn("taut: DistributedDataParallel is PyTorch's own: " + why, log)
        self.assertIn("does not cross the barrier: a part of it is compiled", log)

    def test_refused_and_better(self):
        names = ["freezes", "unfreezes", "wrapped_twice", "two_backwards", "fills_what_was_empty"]
        names.append("ends_in_the_middle")
        both, _ = programs("left", *names, **LATE)
        for seen in both:
            self.assertIn("requires_grad of a parameter must stay", seen["freezes"]["error"])
            self.assertIn("did not require a gradient", seen["unfreezes"]["error"])
            self.assertIn("anchor had no elements", seen["fills_what_was_empty"]["error"])
            self.assertIn("belongs to another", seen["wrapped_twice"]["error"])
            self.assertGreater(seen["ends_in_the_middle"]["late"], 0)
        self.check_two(both)

    def test_what_changed_since_the_wrap(self):
        """Its memory is not what was declared."""
        names = {
            "pruned": "2.weight has 16 elements of torch.float32, and had 256",
            "becomes_double": "2.bias has 4 elements of torch.float64",
            "becomes_half": "2.bias has 4 elements of torch.bfloat16",
        }
        rows = {"rows_become_half": "words.weight has 8000 elements of torch.bfloat16"}
        for engine, names in ("coll", {**names, **rows}), ("process-group", names):
            more = dict(LATE, TAUT_RUN_ENGINE=engine, TAUT_RUN_ROWS="on")
            both, _ = programs("left", *names, **more)
            for seen in both:
                for name, error in names.items():
                    self.assertIn(error, seen[name]["error"], engine)

    def test_without_crossing(self):
        both, _ = programs("left", "two_backwards", "unused_unsaid", TAUT_RUN_GATE="on")
        self.check_two(both)
        for seen in both:
            error = seen["unused_unsaid"]["error"]
            self.assertIn("find_unused_parameters=True", error)
            self.assertIn("never.bias", error)

    def check_two(self, both):
        for seen in both:
            one, two = seen["two_backwards"]["seen"]
            for a, b in zip(one, two):
                self.assertAlmostEqual(a, b, 5)


if __name__ == "__main__":
    main()
