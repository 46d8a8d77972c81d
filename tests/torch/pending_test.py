# SPDX-License-Identifier: Apache-2.0
"""A parameter is turned back, from Pending to Parameter, by whatever thread comes first:
in every moment that a method of Pending takes, too. What PyTorch does with a tensor
without asking its class turns it back as well."""

import copy
import os
import pickle
import sys
import unittest

import ranks

try:
    import torch
except ImportError:
    if ranks.PYTHON and os.environ.get("TAUT_TEST_PYTHON") != ranks.PYTHON:
        os.environ["TAUT_TEST_PYTHON"] = ranks.PYTHON
        os.execv(ranks.PYTHON, [ranks.PYTHON, __file__, *sys.argv[1:]])
    print("no torch: skipped")
    sys.exit(77)

sys.path.insert(0, str(ranks.PACKAGE))
from taut import _past  # noqa: E402
from taut._pending import Pending  # noqa: E402

_past.install()

METHODS = [getattr(m, "__func__", m) for m in vars(Pending).values()]
CODES = {m.__code__ for m in METHODS if hasattr(m, "__code__")}


def beside(parameter, other):
    """Whether the other, whose update may be under way still, is touched, too."""
    return torch.add(parameter, other).tolist(), type(other) is torch.nn.Parameter


# What comes to a method of Pending, and what it says of a parameter.
USES = {
    "attribute": lambda p: list(p.shape),
    "none of that name": lambda p: getattr(p, "nothing", None),
    "tensor": lambda p: p._cdata > 0,
    "set_": lambda p: p.detach().set_(p.data).tolist(),
    "own set_": lambda p: callable(p.set_),
    "sum": lambda p: p.sum().item(),
    "copy": lambda p: copy.copy(p).tolist(),
    "deep copy": lambda p: copy.deepcopy(p).tolist(),
    "pickle": lambda p: pickle.loads(pickle.dumps(p)).tolist(),
    "another beside it": lambda p: beside(p, pending()),
}


def pending():
    """Of a module that is gone: nothing is under way."""
    parameter = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    parameter.__class__ = Pending
    return parameter


def turned_back_at(moment, use):
    """What the use says of a parameter that is turned back before this instruction of
    Pending's methods, and whether it has so many."""
    parameter, count = pending(), 0

    def trace(frame, event, _):
        nonlocal count
        if frame.f_code not in CODES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if count == moment:
                parameter.__class__ = torch.nn.Parameter
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        said = use(parameter)
    finally:
        sys.settrace(before)
    return said, count > moment


class TurnedBack(unittest.TestCase):
    def test_by_its_own_use(self):
        for name, use in USES.items():
            with self.subTest(use=name):
                self.assertEqual(use(pending()), use(torch.nn.Parameter(pending().data)))

    def test_by_another_thread_meanwhile(self):
        for name, use in USES.items():
            meant, moment, more = use(torch.nn.Parameter(pending().data)), 0, True
            while more:
                with self.subTest(use=name, moment=moment):
                    more = False
                    said, more = turned_back_at(moment, use)
                    self.assertEqual(said, meant)
                moment += 1
            self.assertGreater(moment, 1, name)


def calls():
    """Pairs of a name and what calls it with a parameter, in all places where it may be.
    Who does not take it there raises."""
    beside = torch.zeros(2)
    for name in dir(torch._C._VariableFunctions):
        own = getattr(torch, name, None)
        if callable(own) and not name.startswith("_"):
            for place in (lambda p, own=own: own(p)), (lambda p, own=own: own(beside, p)):
                yield "torch." + name, place
    for name in [n for n in dir(torch.Tensor) if n[0] != "_"] + ["_make_subclass", "__new__"]:
        own = getattr(torch.Tensor, name)
        if callable(own):
            for other in torch.zeros(2), torch.Tensor:
                yield "Tensor." + name, lambda p, own=own: own(p, other)
                yield "Tensor." + name, lambda p, own=own, other=other: own(other, p)
        elif name != "grad":  # which is the object that it was given
            yield "Tensor." + name, lambda p, name=name: written(name, p)
    places = torch.tensor([[0, 1]])
    yield "sparse_coo", lambda p: torch.sparse_coo_tensor(places, values=p)
    for layout in "csr", "csc":
        make = getattr(torch, "sparse_%s_tensor" % layout)
        ends, inner = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
        yield layout, lambda p, make=make: make(ends, inner, p).values()
    yield "nested", lambda p: torch.nested.nested_tensor([p]).to_padded_tensor(0.0)[0]
    yield "dlpack", lambda p: torch.from_dlpack(torch.utils.dlpack.to_dlpack(p))
    yield "parameter", torch.nn.Parameter
    yield "buffer", torch.nn.Buffer


def written(name, value):
    tensor = torch.zeros(2)
    setattr(tensor, name, value)
    return tensor


def reads(call, parameter):
    """Whether what comes of it has the parameter's values."""
    values = parameter.detach().clone()
    parameter.__class__ = Pending
    try:
        found = call(parameter)
        if type(found) is Pending or not isinstance(found, torch.Tensor):
            return False
        return torch.equal(found.detach().to_dense().float(), values)
    except (RuntimeError, TypeError, AttributeError, ValueError, IndexError):
        return False


class PastDispatch(unittest.TestCase):
    def test_nothing_reads_unseen(self):
        seen = set()
        for name, call in calls():
            parameter = torch.nn.Parameter(torch.tensor([1.5, 2.5]))
            if reads(call, parameter):
                seen.add(name)
                with self.subTest(name=name):
                    self.assertIs(type(parameter), torch.nn.Parameter)
        few = {"torch.tensor", "Tensor.data", "Tensor.as_subclass", "parameter", "csr", "nested"}
        self.assertEqual(few - seen, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
