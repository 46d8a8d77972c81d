# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel, as PyTorch has it to its users, with Taut's exchange of
gradients beneath. What Taut does not do it leaves to PyTorch's own class, whole:
the object goes on as one of those, and the log says why."""

import copy
import functools

import torch
from torch._compile import _disable_dynamo
from torch.autograd import Function
from torch.nn.parallel import distributed as stock

from . import _control, _decisions, _norms, _options, _pending, _rows

Stock = stock.DistributedDataParallel
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# Arguments of the constructor that change what is exchanged.
_NOT_OURS = (
    "mixed_precision",
    "device_mesh",
    "delay_all_reduce_named_params",
    "param_to_hook_all_reduce",
    "skip_all_reduce_unused_params",
)


def why_not(module, arguments):
    """Why PyTorch's own class is needed, or None."""
    for name in _NOT_OURS:
        if arguments.get(name):
            return name + " is given"
    for part in module.modules():
        if getattr(part, "sparse", False) and isinstance(
            part, (torch.nn.Embedding, torch.nn.EmbeddingBag)
        ):
            return "gradients are sparse"
    for name, p in module.named_parameters():
        if not p.requires_grad:
            continue
        if p.device.type != "cpu":
            return "%s is on %s" % (name, p.device.type)
        if p.dtype not in TYPES or p.layout != torch.strided:
            return "%s is of %s, %s" % (name, p.dtype, p.layout)
        if not _is_dense(p):
            return "%s has gaps in memory" % name
    return None


def _has_sum(parameter):
    return parameter.requires_grad and parameter.numel() > 0


def _is_dense(tensor):
    """Its elements fill a piece of memory, in some order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


class _Sink(Function):
    """What the module's output goes through where some parameters may be unused, as with
    PyTorch: the job may write what it got, though the backward pass needs it."""

    @staticmethod
    def forward(ctx, *tensors):
        ctx.set_materialize_grads(False)
        return tuple(t.clone() if isinstance(t, torch.Tensor) else t for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        return grads


class DistributedDataParallel(Stock):
    def __init__(self, module, *args, **kwargs):
        super().__init__(module, *args, **kwargs)
        if self.process_group.size() > 1:  # else there is nothing to sum
            self._taut_choose(module, args, kwargs)
        _decisions.wrapped(self)

    # --- ours or PyTorch's ------------------------------------------------------------

    def _taut_choose(self, module, args, kwargs):
        why = why_not(module, dict(zip(_PARAMETERS, args), **kwargs))
        if getattr(self, "_use_python_reducer", False):
            why = why or "torch._dynamo has a reducer of its own"
        self._taut_begin(why)

    def _taut_begin(self, why):
        """On all ranks, or on none: why says why this one would not."""
        _control.reap()
        named = [
            (name, p)
            for name, p in self.module.named_parameters()
            if _has_sum(p) and name not in self.parameters_to_ignore
        ]
        why = why or (None if named else "there is nothing to sum")
        twice = [name for name, p in named if id(p) in _pending.records]
        if twice:
            twice = "%s belongs to another DistributedDataParallel already" % twice[0]
        careful = self.find_unused_parameters or self.static_graph
        norms = None if self.parameters_to_ignore else _norms.describe(self.module)
        try:
            control = _control.make(
                self.module,
                named,
                self.process_group,
                twice or why,
                careful,
                self.static_graph,
                norms,
            )
        except ValueError as why_none:
            if twice:
                raise RuntimeError(twice) from None
            self._taut_say(str(why_none))
            return
        self.__dict__["_taut_logged"] = dict(self.logger._get_ddp_logging_data().strs_map)
        self._remove_autograd_hooks()
        self.reducer = self.logger = None  # its buckets are memory
        whole = _decisions.whole(self.module, type(self).__name__)
        control.watch_modules(self.module, whole)
        self.__dict__["_taut"] = control
        _control.watch_wrapper(self, control)
        self.__dict__["_taut_left_out"] = [
            (n, p) for n, p in self.module.named_parameters() if not _has_sum(p)
        ]

    def _taut_say(self, why):
        if self.process_group.rank() == 0:
            _options.say("DistributedDataParallel is PyTorch's own: " + why)

    def _taut_give_back(self, why):
        """From here on it is PyTorch's own; on all ranks at the same place."""
        control = self.__dict__.pop("_taut", None)
        if control is None:
            return
        control.finish()
        control.close()
        self._taut_say(why)
        # As __setstate__() of PyTorch's class, over the attributes that are there.
        parameters, sparse = self._build_params_for_reducer()
        names = self._build_debug_param_to_name_mapping(parameters)
        self._ddp_init_helper(parameters, sparse, names, self.static_graph)
        if self.static_graph:
            self.reducer._set_static_graph()
            self.logger._set_static_graph()
        _decisions.given_back(self)

    @property
    def reducer(self):
        if "_taut" in self.__dict__:
            self._taut_give_back("somebody asks for its reducer")
        return self.__dict__["reducer"]

    @reducer.setter
    def reducer(self, reducer):
        self.__dict__["reducer"] = reducer

    def _get_ddp_logging_data(self):
        if "_taut" in self.__dict__:
            return dict(self._taut_logged)
        return super()._get_ddp_logging_data()

    # --- its face -----------------------------------------------------------------------

    def forward(self, *inputs, **kwargs):
        control = self.__dict__.get("_taut")
        if control is None:
            return super().forward(*inputs, **kwargs)
        with torch.autograd.profiler.record_function("DistributedDataParallel.forward"):
            sums = self._taut_forward_begins(control)
            output = self._run_ddp_forward(*inputs, **kwargs)
            self.require_forward_param_sync = sums
            return self._taut_forward_ended(control, output) if sums else output

    # Of a function that the job has compiled the module is a part, and these are not.

    @_disable_dynamo
    def _taut_forward_begins(self, control):
        """Whether the gradients of this forward pass are to be summed."""
        sums = torch.is_grad_enabled() and self.require_backward_grad_sync
        self._taut_check_left_out()
        control.begin(sums)
        if self._check_sync_bufs_pre_fwd() and not control.has_buffers():
            self._sync_buffers()
        return sums

    @_disable_dynamo
    def _taut_forward_ended(self, control, output):
        """What the job gets of it."""
        tensors = stock._find_tensors(output) if control.sums.rows else ()
        control.forward_ended(self._check_sync_bufs_pre_fwd(), tensors)
        if control.sums.careful:
            output = _through_sink(output)
            _tell_of_backward(output, control.sums.backward_begins)
        return output

    def _taut_check_left_out(self):
        for name, p in self._taut_left_out:
            if _has_sum(p):
                raise RuntimeError(
                    "%s had no elements or did not require a gradient when the model was "
                    "wrapped: its gradients would not be summed" % name
                )

    def __getstate__(self):
        control = self.__dict__.get("_taut")
        if control is None:
            return super().__getstate__()
        control.finish()
        self._check_default_group()
        attributes = copy.copy(self.__dict__)
        for name in ("process_group", "reducer", "logger", "_taut"):
            attributes.pop(name, None)
        return attributes


def _through_sink(output):
    tensors, spec, is_rref = stock._tree_flatten_with_rref(output)
    through = _Sink.apply(*tensors)
    tensors = [
        t if torch.is_tensor(t) and t.grad_fn is None else s for t, s in zip(tensors, through)
    ]
    return stock._tree_unflatten_with_rref(tensors, spec, is_rref)


def _tell_of_backward(output, begins):
    """When the gradient of something in it comes: of whatever PyTorch's class looks into,
    which is more than a pytree."""
    nodes = {t.grad_fn for t in stock._find_tensors(output)} - {None}
    for node in nodes:
        node.register_prehook(lambda _: begins())


def _parameters():
    import inspect

    return list(inspect.signature(Stock.__init__).parameters)[2:]


_PARAMETERS = _parameters()


def _given_back(name):
    own = getattr(Stock, name)

    @functools.wraps(own)
    def method(self, *args, **kwargs):
        self._taut_give_back(name + "() is called")
        return getattr(Stock, name)(self, *args, **kwargs)

    return method


for _name in (
    "join",
    "join_hook",
    "register_comm_hook",
    "_register_builtin_comm_hook",
    "_register_buffer_comm_hook",
    "_register_fused_optim",
    "_set_static_graph",
    "_set_sparse_metadata",
    "_update_process_group",
):
    if hasattr(Stock, _name):
        setattr(DistributedDataParallel, _name, _given_back(_name))


def _watch_compile():
    """A compiler reads parameters in ways of its own, and knows PyTorch's class. Its form
    as a decorator, without a model, calls this again with one."""
    own = torch.compile

    @functools.wraps(own)
    def compile(model=None, *args, **kwargs):
        module = getattr(model, "__self__", model)
        if isinstance(module, torch.nn.Module):
            for part in list(module.modules()):
                if isinstance(part, DistributedDataParallel):
                    part._taut_give_back("it is compiled")
            _control.stop_crossing(module, "a part of the module is compiled")
        compiled = own(model, *args, **kwargs)
        is_function = callable(model) and not isinstance(model, (torch.nn.Module, type))
        return _after_updates(compiled) if is_function else compiled

    torch.compile = compile


def _after_updates(compiled):
    """What a function that is compiled reads is not known when it begins: all it could."""

    @functools.wraps(compiled)
    def call(*args, **kwargs):
        if not torch.compiler.is_compiling() and _pending.records:
            _pending.finish_whole()
        return compiled(*args, **kwargs)

    return call


def _watch_script():
    """What torch.jit makes of a module has its parameters too, and reads them past
    Python. Both trace() and script() come here; they look at their callers' frames,
    so that nothing may stand before them."""
    own = torch.jit._recursive.create_script_module

    @functools.wraps(own)
    def create_script_module(module, *args, **kwargs):
        _control.stop_crossing(module, "a part of the module becomes TorchScript")
        return _rows.plainly(lambda: own(module, *args, **kwargs))

    torch.jit._recursive.create_script_module = create_script_module


def _watch_export():
    """A strict export goes through no hook of all modules."""
    own = torch.export.export

    @functools.wraps(own)
    def export(*args, **kwargs):
        _pending.finish_whole()
        with _control.without_hook():
            return own(*args, **kwargs)

    torch.export.export = export


def install_around():
    """What this class needs of the rest of PyTorch, once."""
    _control.install()
    _watch_compile()
    _watch_script()
    if hasattr(torch, "export"):
        _watch_export()


def install():
    """Who asks PyTorch for DistributedDataParallel gets this one."""
    install_around()
    DistributedDataParallel.__module__ = Stock.__module__
    DistributedDataParallel.__doc__ = Stock.__doc__
    stock.DistributedDataParallel = DistributedDataParallel
    torch.nn.parallel.DistributedDataParallel = DistributedDataParallel
