# SPDX-License-Identifier: Apache-2.0
"""Programs that ask for something of a group before it is complete."""

from base import STEPS, Job, batch, error_of, main, program
from torch import nn
from torch.nn import functional


class Heads(nn.Module):
    """Two that have nothing in common."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x):
        return self.one(x), self.other(x)


@program
def a_backward_for_each_head():
    """The first has half of a group's gradients."""
    job = Job(model=Heads())
    for i in range(STEPS):
        job.optimizer.zero_grad()
        x, y = batch(i)
        for head in job.model(x):
            loss = functional.cross_entropy(head, y)
            loss.backward()
            job.seen.append(loss.item())
        job.step()
    return job.result()


@program
def reads_in_backward():
    job = Job().train(steps=2)
    norm, last = job.net.norm.weight, job.net.last.weight
    norm.register_post_accumulate_grad_hook(lambda p: job.saw(last.grad))
    job.optimizer.zero_grad()
    return {"error": error_of(lambda: job.backward(2))}


if __name__ == "__main__":
    main()
