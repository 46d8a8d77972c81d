# SPDX-License-Identifier: Apache-2.0
"""Optimizers whose steps are late give what they give with PyTorch's own
DistributedDataParallel, to the bit."""

from ranks import Case, main


class Optimizers(Case):
    def test_all(self):
        on_time, either = {"lbfgs", "own_optimizer"}, {"two_models", "closure"}
        self.same_as_pytorch("optimizers", engines=["coll"], on_time=on_time, either=either)


if __name__ == "__main__":
    main()
