# SPDX-License-Identifier: Apache-2.0
"""DDP's buckets and FSDP's units, as facts of the log (docs/recording.md has
their JSON). All is read from what the wrappers keep anyway: no collective, no
tensor is made."""

import gc
import json
import sys

# Put into the names of modules by wrappers around them.
_WRAPPERS = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod", "_flat_param")


def clean_name(name):
    """The name of a module or parameter as the model itself has it."""
    if "_" not in name:
        return name
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def write(log, roots):
    """roots: the modules that the loop called; none known: all are looked for."""
    for find, key in ((ddp_buckets, "ddp.buckets"), (fsdp_units, "fsdp.units")):
        try:
            for fact in find(roots):
                log.fact(key, json.dumps(fact, separators=(",", ":")))
        except Exception as error:
            why = "%s: %s" % (type(error).__name__, error)
            log.fact(key + ".fault", " ".join(why.split()))


def _of_type(roots, cls):
    """Every module of type cls, once, in the order of the roots."""
    if roots:
        candidates = (part for root in roots for part in root.modules())
    else:
        candidates = gc.get_objects()
    found = {id(m): m for m in candidates if issubclass(type(m), cls)}
    return list(found.values())


# --- DistributedDataParallel ----------------------------------------------------


def ddp_buckets(roots):
    module = sys.modules.get("torch.nn.parallel.distributed")
    if not module:
        return
    for ddp in _of_type(roots, module.DistributedDataParallel):
        yield buckets_of(ddp)


def buckets_of(ddp):
    """In the order in which they are reduced. DDP puts the parameters into
    buckets anew after its first backward pass, in the order in which their
    gradients were ready; until then the parameters are not told."""
    data = ddp._get_ddp_logging_data()
    sizes = data.get("rebuilt_bucket_sizes")
    indices = data.get("rebuilt_per_bucket_param_indices")
    names = parameter_names(ddp)
    groups = [[int(i) for i in g.split()] for g in indices.split(",")] if indices else []
    sizes = [int(s) for s in (sizes or data.get("bucket_sizes") or "").split(",") if s]
    buckets = []
    for i, size in enumerate(sizes):
        bucket = {"bytes": size}
        if len(groups) == len(sizes):
            bucket["parameters"] = [names[p] for p in groups[i]]
        buckets.append(bucket)
    return {
        "module": type(ddp.module).__name__,
        "rebuilt": bool(groups),
        "buckets": buckets,
    }


def parameter_names(ddp):
    """As DDP numbers them: by module, what needs no gradient or is left to
    somebody else not counted, each once."""
    ignored = getattr(ddp, "parameters_to_ignore", ())
    seen, names = set(), []
    for prefix, module in ddp.module.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            full = prefix + "." + name if prefix else name
            if not parameter.requires_grad or full in ignored or parameter in seen:
                continue
            seen.add(parameter)
            names.append(clean_name(full))
    return names


# --- FullyShardedDataParallel, fully_shard ----------------------------------------


def fsdp_units(roots):
    """One fact for each model that has units."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    first = getattr(fsdp, "FullyShardedDataParallel", None)
    second = getattr(fsdp, "FSDPModule", None)
    if not fsdp:
        return
    if not roots:
        every = _of_type(roots, tuple(c for c in (first, second) if c))
        inner = {id(part) for unit in every for part in unit.modules() if part is not unit}
        roots = [unit for unit in every if id(unit) not in inner]
    for root in roots:
        units = []
        for name, part in root.named_modules():
            if first and isinstance(part, first):
                units += first_units(clean_name(name), part)
            elif second and isinstance(part, second):
                units += second_units(clean_name(name), part)
        if units:
            yield {"module": _plain_type(root), "units": units}


def _plain_type(module):
    """The name of the model's class, not of what wraps or replaced it."""
    inner = getattr(module, "_fsdp_wrapped_module", module)
    cls = type(inner)
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if issubclass(cls, getattr(fsdp, "FSDPModule", ())) and len(cls.__mro__) > 2:
        cls = cls.__mro__[2]
    return cls.__name__


def _join(prefix, name):
    return prefix + "." + name if prefix else name


def first_units(name, module):
    handle = getattr(module, "_handle", None)
    if handle is None:
        return []
    flat = handle.flat_param
    width = flat.element_size()
    return [
        {
            "version": 1,
            "name": name,
            "bytes": flat._unpadded_unsharded_size.numel() * width,
            "shard_bytes": flat._local_shard.numel() * width,
            "parameters": [_join(name, clean_name(n)) for n in flat._fqns],
        }
    ]


def second_units(name, module):
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:
        groups = [state._fsdp_param_group]
    names = {id(p): clean_name(n) for n, p in module.named_parameters()}
    units = []
    for group in groups:
        if group is None:
            continue
        params = group.fsdp_params
        units.append(
            {
                "version": 2,
                "name": name,
                "bytes": sum(_bytes(p._orig_size, p.orig_dtype) for p in params),
                "shard_bytes": sum(_bytes(p.sharded_size, p.orig_dtype) for p in params),
                "parameters": [_second_name(name, names, p) for p in params],
            }
        )
    return units


def _bytes(size, dtype):
    return size.numel() * dtype.itemsize


def _second_name(unit, names, param):
    known = names.get(id(getattr(param, "sharded_param", None)))
    if known is not None:
        return _join(unit, known)
    return clean_name(getattr(param, "_param_fqn", None) or "")
