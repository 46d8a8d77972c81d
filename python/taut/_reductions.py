# SPDX-License-Identifier: Apache-2.0
"""What Horovod's users name: Average, Sum, Min, Max, Product; and how a gradient's
factors follow from it."""


class Reduction:
    def __init__(self, name, reduction):
        self.name, self.reduction = name, reduction

    def __repr__(self):
        return self.name


Average = Reduction("Average", "sum")
Sum = Reduction("Sum", "sum")
Min = Reduction("Min", "min")
Max = Reduction("Max", "max")
Product = Reduction("Product", "product")


def of(op, average=None):
    """op, or what the older `average=True` says."""
    if average is not None:
        if op is not None:
            raise ValueError("expected op or average, found both")
        return Average if average else Sum
    op = Average if op is None else op
    if not isinstance(op, Reduction):
        raise ValueError("op: expected Average, Sum, Min, Max or Product, found %r" % (op,))
    return op


def factors(op, predivide, size):
    """What a gradient is multiplied by before it is added, and what the sum is
    multiplied by (None: nothing)."""
    if op not in (Average, Sum):
        raise ValueError("gradients are summed or averaged, there is no %r of them" % (op,))
    if predivide == 1.0:
        return (1.0 / size if op is Average else 1.0), None
    if op is not Average:
        raise ValueError("gradient_predivide_factor is for op=Average")
    if not predivide > 0:
        raise ValueError("gradient_predivide_factor: expected more than 0, found %r" % predivide)
    return 1.0 / predivide, predivide / size
