# SPDX-License-Identifier: Apache-2.0
"""Optimizers whose steps are late give what they give with PyTorch's own
DistributedDataParallel, to the bit."""

from ranks import Case, main


class Optimizers(Case):
    def test_all(self):
        self.same_as_pytorch("optimizers", on_time={"lbfgs", "own_optimizer"})


if __name__ == "__main__":
    main()
